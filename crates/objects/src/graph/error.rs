//! Errors of graphs, beyond those of any transaction.

use cedrat_txn::Error;

use crate::graph::word::Identity;

/// Reason for which a graph refused a call, wrapped in [`Error::User`]; nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The changes are invalid; only their own bytes were examined.
    #[error("entry {entry}, at byte {offset} of the changes: {what}")]
    BadEntry {
        /// The entry, counted from 0.
        entry: usize,
        /// Offset in the changes at which it begins, in bytes.
        offset: usize,
        /// Description of the fault.
        what: String,
    },
    /// The change of an entry failed.
    #[error("entry {entry}, at byte {offset} of the changes: {source}")]
    Entry {
        /// The entry, counted from 0.
        entry: usize,
        /// Offset in the changes at which it begins, in bytes.
        offset: usize,
        /// Error of the change.
        source: Box<Error>,
    },
    /// The changes create more objects than the caller has room for identities.
    #[error(
        "the changes add {new_objects} objects, but only {identities_max} identities fit the array; pass a longer one"
    )]
    TooManyNew {
        /// Number of new objects.
        new_objects: u64,
        /// Number of identities that the caller has room for.
        identities_max: u64,
    },
    /// A class was to be defined by another number than the next one: another commit may have defined classes meanwhile.
    #[error("class {number} cannot be defined, because the next number is {next}: give the new classes other numbers")]
    ClassNumber {
        /// The number in the changes.
        number: u32,
        /// The number that the class would have to have.
        next: u32,
    },
    /// A class was dropped, because no object had it: see [`Collection::drop_classes`](crate::graph::Collection::drop_classes).
    #[error("class {class} was dropped, because no object had it: define it again, under a new number")]
    ClassDropped {
        /// The number of the class.
        class: u32,
    },
    /// A change does not fit its object.
    #[error("{what}")]
    DoesNotFit {
        /// Reason.
        what: &'static str,
    },
    /// The stored bytes are invalid.
    #[error("{what}; verify the store")]
    Corrupt {
        /// Description of the fault.
        what: &'static str,
    },
    /// The graph does not contain such an object.
    #[error(
        "the graph has no object {identity} (page, slot): a garbage collection removed it, or it was never committed"
    )]
    NoSuchObject {
        /// The requested identity.
        identity: Identity,
    },
}

impl From<GraphError> for Error {
    fn from(error: GraphError) -> Error {
        Error::user(error)
    }
}

impl GraphError {
    /// Returns the graph error inside a transaction's error, if there is one.
    pub fn of(error: &Error) -> Option<&GraphError> {
        match error {
            Error::User(inner) => inner.downcast_ref(),
            _ => None,
        }
    }

    /// Returns the underlying error: that of the entry, if the change of an entry failed.
    pub fn cause(error: &Error) -> &Error {
        match GraphError::of(error) {
            Some(GraphError::Entry { source, .. }) => GraphError::cause(source),
            _ => error,
        }
    }
}

pub(crate) fn does_not_fit(what: &'static str) -> Error {
    GraphError::DoesNotFit { what }.into()
}

/// Reports invalid bytes of a stored object. The caller, which knows the page, turns it into an error about that
/// page.
pub(crate) fn corrupt(what: &'static str) -> Error {
    GraphError::Corrupt { what }.into()
}
