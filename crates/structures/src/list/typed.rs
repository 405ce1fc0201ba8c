//! A linked list of Rust values.

use cedrat_txn::{Result, Txn, schema_of};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RawList;
use crate::encoding::{decode, encode};
use crate::typed::{CreatedByName, Encodes, Typed};

const ELEMENT: &str = "an element of a list";

/// A transactional list (Lemon §6.2): each element is a record with the address of the next.
///
/// See [`RawList`] for its locks.
pub type List<T> = Typed<RawList, T>;

impl<T: Serialize + DeserializeOwned> Encodes<T> for RawList {
    fn schema() -> u32 {
        schema_of::<T>()
    }

    fn decode(entry: Vec<u8>) -> Result<T> {
        decode(&entry, ELEMENT)
    }
}

impl CreatedByName for RawList {
    fn create(txn: &mut Txn) -> Result<Self> {
        RawList::create(txn)
    }
}

impl<T: Serialize + DeserializeOwned> List<T> {
    /// Appends an element.
    ///
    /// # Errors
    /// [`cedrat_txn::Error::TooLarge`] if its encoding exceeds [`RawList::ELEMENT_LEN_MAX`] bytes;
    /// [`cedrat_txn::Error::Deadlock`] from the lock on the list; a full log or disk. The same for all methods that change the
    /// list.
    pub fn push_back(&self, txn: &mut Txn, element: &T) -> Result<()> {
        self.raw.push_back(txn, &encode(element, ELEMENT)?)
    }

    /// Inserts an element before the first.
    ///
    /// # Errors
    /// As [`push_back`](Typed::push_back).
    pub fn push_front(&self, txn: &mut Txn, element: &T) -> Result<()> {
        self.raw.push_front(txn, &encode(element, ELEMENT)?)
    }

    /// Inserts an element before element `index`, or after the last.
    ///
    /// # Errors
    /// [`StructureError::OutOfBounds`](crate::StructureError::OutOfBounds); as [`push_back`](Typed::push_back).
    pub fn insert(&self, txn: &mut Txn, index: u64, element: &T) -> Result<()> {
        self.raw.insert(txn, index, &encode(element, ELEMENT)?)
    }

    /// Removes element `index`.
    ///
    /// # Errors
    /// As [`insert`](Typed::insert).
    pub fn remove(&self, txn: &mut Txn, index: u64) -> Result<T> {
        decode(&self.raw.remove(txn, index)?, ELEMENT)
    }

    /// Removes the first element.
    ///
    /// # Errors
    /// As [`push_back`](Typed::push_back).
    pub fn pop_front(&self, txn: &mut Txn) -> Result<Option<T>> {
        self.raw.pop_front(txn)?.map(|record| decode(&record, ELEMENT)).transpose()
    }

    /// Replaces element `index`.
    ///
    /// # Errors
    /// As [`insert`](Typed::insert).
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
}
