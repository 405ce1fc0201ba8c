//! The part that all structures of Rust values share. Each structure adds its own methods in its module.

use std::fmt;
use std::marker::PhantomData;

use cedrat_pages::PageId;
use cedrat_txn::{Result, Store, Txn};

use crate::array::{RawArrayElements, RawArrayList};
use crate::catalogue::Kind;
use crate::checked::Checked;
use crate::hash::{Entries, Pair, RawHashTable};
use crate::list::{RawList, RawListElements};
use crate::named;
use crate::page_list::{PageListRecords, RawPageList};

/// A structure of encoded values.
pub trait RawStructure: Clone {
    /// Its kind in the catalogue.
    const KIND: Kind;
    /// The encoded form of one of its values.
    type Entry;
    /// An iterator over all of them.
    type Entries<'t>: Iterator<Item = Result<Self::Entry>> + fmt::Debug;

    fn open(store: &Store, root: PageId) -> Result<Self>;
    fn root(&self) -> PageId;
    fn len(&self, txn: &mut Txn) -> Result<u64>;
    fn is_empty(&self, txn: &mut Txn) -> Result<bool>;
    fn iter<'t>(&self, txn: &'t mut Txn) -> Result<Self::Entries<'t>>;
    fn check(&self, txn: &Txn) -> Result<Checked>;
}

/// Implements [`RawStructure`] by the structures' own methods of the same names.
macro_rules! raw_structures {
    ($($raw:ident: $kind:ident of $entry:ty, $entries:ident;)+) => { $(
        impl RawStructure for $raw {
            const KIND: Kind = Kind::$kind;
            type Entry = $entry;
            type Entries<'t> = $entries<'t>;

            fn open(store: &Store, root: PageId) -> Result<Self> {
                $raw::open(store, root)
            }
            fn root(&self) -> PageId {
                $raw::root(self)
            }
            fn len(&self, txn: &mut Txn) -> Result<u64> {
                $raw::len(self, txn)
            }
            fn is_empty(&self, txn: &mut Txn) -> Result<bool> {
                $raw::is_empty(self, txn)
            }
            fn iter<'t>(&self, txn: &'t mut Txn) -> Result<$entries<'t>> {
                $raw::iter(self, txn)
            }
            fn check(&self, txn: &Txn) -> Result<Checked> {
                $raw::check(self, txn)
            }
        }
    )+ };
}

raw_structures! {
    RawHashTable: HashTable of Pair, Entries;
    RawArrayList: ArrayList of Vec<u8>, RawArrayElements;
    RawList: List of Vec<u8>, RawListElements;
    RawPageList: PageList of Vec<u8>, PageListRecords;
}

/// A structure that can encode values of type `T`.
pub trait Encodes<T>: RawStructure {
    /// Returns the schema of its values, which the catalogue keeps.
    fn schema() -> u32;
    fn decode(entry: Self::Entry) -> Result<T>;
}

/// A structure that is created without further parameters, under a name.
pub trait CreatedByName: RawStructure {
    fn create(txn: &mut Txn) -> Result<Self>;
}

/// A structure `S` of values of type `T`, encoded by `serde`: [`HashTable`](crate::HashTable),
/// [`ArrayList`](crate::ArrayList), [`List`](crate::List) or [`PageList`](crate::PageList).
///
/// A handle, cheap to clone, usable from any thread and in any number of transactions; the structure itself is in the
/// store.
pub struct Typed<S, T> {
    pub(crate) raw: S,
    values: PhantomData<fn(T) -> T>,
}

impl<S: Encodes<T>, T> Typed<S, T> {
    /// Creates an empty structure under a new name.
    pub(crate) fn create_by(txn: &mut Txn, name: &str, make: impl FnOnce(&mut Txn) -> Result<S>) -> Result<Self> {
        Ok(Self::from_raw(named::create(txn, name, S::KIND, S::schema(), make, S::root)?))
    }

    /// Opens the structure of this name.
    ///
    /// # Errors
    /// [`StructureError::NoSuchName`](crate::StructureError::NoSuchName),
    /// [`WrongKind`](crate::StructureError::WrongKind), or [`OtherTypes`](crate::StructureError::OtherTypes).
    pub fn open(txn: &mut Txn, name: &str) -> Result<Self> {
        let root = named::root(txn, name, S::KIND, S::schema())?;
        Self::at(txn.store(), root)
    }

    /// Opens the structure with this root page, for structures that consist of others.
    ///
    /// # Errors
    /// [`StructureError::WrongRoot`](crate::StructureError::WrongRoot).
    pub fn at(store: &Store, root: PageId) -> Result<Self> {
        Ok(Self::from_raw(S::open(store, root)?))
    }

    fn from_raw(raw: S) -> Self {
        Typed { raw, values: PhantomData }
    }

    /// Returns the structure of encoded values.
    pub fn raw(&self) -> &S {
        &self.raw
    }

    /// Returns the number of values: of an array in constant time, of any other structure by a walk over it.
    ///
    /// # Errors
    /// [`cedrat_txn::Error::Deadlock`] from the lock on the structure.
    pub fn len(&self, txn: &mut Txn) -> Result<u64> {
        self.raw.len(txn)
    }

    /// Whether the structure has no values.
    ///
    /// # Errors
    /// As [`len`](Typed::len).
    pub fn is_empty(&self, txn: &mut Txn) -> Result<bool> {
        self.raw.is_empty(txn)
    }

    /// Iterates over all values, those of a hash table in no particular order. The structure is locked shared to the end
    /// of the transaction.
    ///
    /// # Errors
    /// As [`len`](Typed::len).
    pub fn iter<'t>(&self, txn: &'t mut Txn) -> Result<Values<'t, S, T>> {
        Ok(Values { entries: self.raw.iter(txn)?, values: PhantomData })
    }

    /// Walks the structure and verifies it.
    ///
    /// # Errors
    /// Only those that prevent the walk.
    pub fn check(&self, txn: &Txn) -> Result<Checked> {
        self.raw.check(txn)
    }
}

impl<S: Encodes<T> + CreatedByName, T> Typed<S, T> {
    /// Creates an empty structure under a new name.
    ///
    /// # Errors
    /// [`StructureError::NameTaken`](crate::StructureError::NameTaken); those of any change.
    pub fn create(txn: &mut Txn, name: &str) -> Result<Self> {
        Self::create_by(txn, name, S::create)
    }

    /// Opens the structure of this name, or creates it if there is none.
    ///
    /// # Errors
    /// As [`open`](Typed::open) and [`create`](Typed::create).
    pub fn open_or_create(txn: &mut Txn, name: &str) -> Result<Self> {
        if named::is_taken(txn, name)? { Self::open(txn, name) } else { Self::create(txn, name) }
    }
}

impl<S: Clone, T> Clone for Typed<S, T> {
    fn clone(&self) -> Self {
        Typed { raw: self.raw.clone(), values: PhantomData }
    }
}

impl<S: RawStructure, T> fmt::Debug for Typed<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(&format!("{:?}", S::KIND)).field("root", &self.raw.root()).finish_non_exhaustive()
    }
}

/// An iterator over the values of a structure: see [`Typed::iter`].
pub struct Values<'t, S: RawStructure, T> {
    entries: S::Entries<'t>,
    values: PhantomData<fn() -> T>,
}

impl<S: Encodes<T>, T> Iterator for Values<'_, S, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        Some(self.entries.next()?.and_then(S::decode))
    }
}

impl<S: RawStructure, T> fmt::Debug for Values<'_, S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values").field("entries", &self.entries).finish()
    }
}
