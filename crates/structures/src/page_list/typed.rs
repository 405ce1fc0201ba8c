//! A page-oriented list of Rust values.

use std::fmt;
use std::marker::PhantomData;

use cedrat_pages::PageId;
use cedrat_txn::{Result, Store, Txn, schema_of};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{PageListRecords, RawPageList};
use crate::catalogue::Kind;
use crate::checked::Checked;
use crate::encoding::{decode, encode};
use crate::named;

const ELEMENT: &str = "an element of a page-oriented list";

/// A transactional list (Lemon §6.2, Figure 2) whose neighbours share pages.
///
/// See [`RawPageList`] for its locks. A handle, cheap to clone.
pub struct PageList<T> {
    raw: RawPageList,
    types: PhantomData<fn(T) -> T>,
}

impl<T: Serialize + DeserializeOwned> PageList<T> {
    /// Creates an empty list under a new name.
    ///
    /// # Errors
    /// [`StructureError::NameTaken`](crate::StructureError::NameTaken); those of any change.
    pub fn create(txn: &mut Txn, name: &str) -> Result<Self> {
        let raw = named::create(txn, name, Kind::PageList, schema_of::<T>(), RawPageList::create, RawPageList::root)?;
        Ok(Self::from_raw(raw))
    }

    /// Opens the list of this name.
    ///
    /// # Errors
    /// [`StructureError::NoSuchName`](crate::StructureError::NoSuchName),
    /// [`WrongKind`](crate::StructureError::WrongKind), or [`OtherTypes`](crate::StructureError::OtherTypes).
    pub fn open(txn: &mut Txn, name: &str) -> Result<Self> {
        let root = named::root(txn, name, Kind::PageList, schema_of::<T>())?;
        Self::at(txn.store(), root)
    }

    /// Opens the list of this name, or creates it if there is none.
    ///
    /// # Errors
    /// As [`open`](PageList::open) and [`create`](PageList::create).
    pub fn open_or_create(txn: &mut Txn, name: &str) -> Result<Self> {
        if named::is_taken(txn, name)? { Self::open(txn, name) } else { Self::create(txn, name) }
    }

    /// Opens the list with this root page.
    ///
    /// # Errors
    /// [`StructureError::WrongRoot`](crate::StructureError::WrongRoot).
    pub fn at(store: &Store, root: PageId) -> Result<Self> {
        Ok(Self::from_raw(RawPageList::open(store, root)?))
    }

    fn from_raw(raw: RawPageList) -> Self {
        PageList { raw, types: PhantomData }
    }

    /// Returns the list of encoded elements.
    pub fn raw(&self) -> &RawPageList {
        &self.raw
    }

    /// Appends an element.
    ///
    /// # Errors
    /// [`cedrat_txn::Error::TooLarge`] if its encoding exceeds [`RECORD_LEN_MAX`](super::RECORD_LEN_MAX) bytes;
    /// [`cedrat_txn::Error::Deadlock`] from the lock on the list; a full log or disk. The same for all methods that change the
    /// list.
    pub fn push_back(&self, txn: &mut Txn, element: &T) -> Result<()> {
        self.raw.push_back(txn, &encode(element, ELEMENT)?)
    }

    /// Inserts an element before the first.
    ///
    /// # Errors
    /// As [`push_back`](PageList::push_back).
    pub fn push_front(&self, txn: &mut Txn, element: &T) -> Result<()> {
        self.raw.push_front(txn, &encode(element, ELEMENT)?)
    }

    /// Inserts an element before element `index`, or after the last.
    ///
    /// # Errors
    /// [`StructureError::OutOfBounds`](crate::StructureError::OutOfBounds); as [`push_back`](PageList::push_back).
    pub fn insert(&self, txn: &mut Txn, index: u64, element: &T) -> Result<()> {
        self.raw.insert(txn, index, &encode(element, ELEMENT)?)
    }

    /// Removes element `index`.
    ///
    /// # Errors
    /// As [`insert`](PageList::insert).
    pub fn remove(&self, txn: &mut Txn, index: u64) -> Result<T> {
        decode(&self.raw.remove(txn, index)?, ELEMENT)
    }

    /// Removes the first element.
    ///
    /// # Errors
    /// As [`push_back`](PageList::push_back).
    pub fn pop_front(&self, txn: &mut Txn) -> Result<Option<T>> {
        self.raw.pop_front(txn)?.map(|record| decode(&record, ELEMENT)).transpose()
    }

    /// Removes the last element.
    ///
    /// # Errors
    /// As [`push_back`](PageList::push_back).
    pub fn pop_back(&self, txn: &mut Txn) -> Result<Option<T>> {
        self.raw.pop_back(txn)?.map(|record| decode(&record, ELEMENT)).transpose()
    }

    /// Replaces element `index`.
    ///
    /// # Errors
    /// As [`insert`](PageList::insert).
    pub fn set(&self, txn: &mut Txn, index: u64, element: &T) -> Result<()> {
        self.raw.set(txn, index, &encode(element, ELEMENT)?)
    }

    /// Returns element `index`.
    ///
    /// # Errors
    /// [`cedrat_txn::Error::Deadlock`] from the lock on the list; the element cannot be decoded as `T`.
    pub fn get(&self, txn: &mut Txn, index: u64) -> Result<Option<T>> {
        self.raw.get(txn, index)?.map(|record| decode(&record, ELEMENT)).transpose()
    }

    /// Returns the number of elements, by a walk over the pages.
    ///
    /// # Errors
    /// As [`get`](PageList::get).
    pub fn len(&self, txn: &mut Txn) -> Result<u64> {
        self.raw.len(txn)
    }

    /// Whether the list has no elements.
    ///
    /// # Errors
    /// As [`get`](PageList::get).
    pub fn is_empty(&self, txn: &mut Txn) -> Result<bool> {
        self.raw.is_empty(txn)
    }

    /// Iterates over all elements in order. The list is locked shared to the end of the transaction.
    ///
    /// # Errors
    /// As [`get`](PageList::get).
    pub fn iter<'t>(&self, txn: &'t mut Txn) -> Result<Elements<'t, T>> {
        Ok(Elements { records: self.raw.iter(txn)?, types: PhantomData })
    }

    /// Walks the list and verifies it.
    ///
    /// # Errors
    /// Only those that prevent the walk.
    pub fn check(&self, txn: &Txn) -> Result<Checked> {
        self.raw.check(txn)
    }
}

impl<T> Clone for PageList<T> {
    fn clone(&self) -> Self {
        PageList { raw: self.raw.clone(), types: PhantomData }
    }
}

impl<T> fmt::Debug for PageList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageList").field("root", &self.raw.root()).finish_non_exhaustive()
    }
}

/// An iterator over the elements of a list: see [`PageList::iter`].
pub struct Elements<'t, T> {
    records: PageListRecords<'t>,
    types: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Iterator for Elements<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        Some(self.records.next()?.and_then(|record| decode(&record, ELEMENT)))
    }
}

impl<T> fmt::Debug for Elements<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elements").field("records", &self.records).finish()
    }
}
