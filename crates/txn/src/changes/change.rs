//! Changes as a stream delivers them, and the meaning that an operation declares.

use cedrat_pages::PageId;

use crate::operation::{Operation, RecordId};
use crate::registry::decode;

/// One change of a committed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A map has this value under this key now.
    Put {
        /// The root page of the map.
        structure: PageId,
        /// The key, as the map encodes it.
        key: Vec<u8>,
        /// The value, as the map encodes it.
        value: Vec<u8>,
    },
    /// A map has no value under this key now.
    Remove {
        /// The root page of the map.
        structure: PageId,
        /// The key, as the map encodes it.
        key: Vec<u8>,
    },
    /// A structure was dropped with all that it contained.
    Drop {
        /// The root page of the structure.
        structure: PageId,
    },
    /// An amount was added to a number.
    Add {
        /// The record that begins with the number.
        at: RecordId,
        /// The amount.
        amount: i64,
    },
    /// Words of a heap have these values now.
    Words {
        /// The number of the heap.
        heap: u32,
        /// The first word, counted from the beginning of the heap.
        first: u64,
        /// The values of that word and of those after it.
        values: Vec<u64>,
    },
    /// The application has logged a record of its own ([`Txn::log_record`](crate::Txn::log_record)).
    Record {
        /// The kind of the record.
        kind: String,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// An operation that does not declare its meaning, or that is not registered.
    Raw {
        /// The name of the operation.
        operation: String,
        /// The record, or the page, that it has changed.
        at: RecordId,
        /// Its arguments, as logged.
        arguments: Vec<u8>,
    },
}

impl Change {
    /// Returns a [raw](Change::Raw) change as the operation that made it; `None` if another one did.
    pub fn operation<O: Operation>(&self) -> Option<(RecordId, O)> {
        match self {
            Change::Raw { operation, at, arguments } if operation == O::NAME => Some((*at, decode(arguments)?)),
            _ => None,
        }
    }
}

/// The meaning of an operation in a [change stream](crate::ChangeStream).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Meaning {
    /// The operation, with its arguments: [`Change::Raw`].
    Raw,
    /// Nothing: it changes only the form in which a structure is stored.
    Form,
    /// These changes.
    Changes(Vec<Change>),
}

impl Meaning {
    /// Returns the meaning of an operation that makes one change.
    pub fn one(change: Change) -> Meaning {
        Meaning::Changes(vec![change])
    }
}
