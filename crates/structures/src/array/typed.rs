//! An array list of Rust values.

use cedrat_txn::{RecordId, Result, Txn, schema_of};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RawArrayList;
use crate::encoding::{decode_padded, encode};
use crate::named;
use crate::typed::{Encodes, Typed};

const ELEMENT: &str = "an element of an array list";

/// A transactional growable array (Lemon §6.1) of values of type `T`.
///
/// All elements have one length in bytes, chosen at creation, which their encodings must not exceed. See
/// [`RawArrayList`] for its locks.
pub type ArrayList<T> = Typed<RawArrayList, T>;

impl<T: Serialize + DeserializeOwned> Encodes<T> for RawArrayList {
    fn schema() -> u32 {
        schema_of::<T>()
    }

    fn decode(entry: Vec<u8>) -> Result<T> {
        decode_padded(&entry, ELEMENT)
    }
}

impl<T: Serialize + DeserializeOwned> ArrayList<T> {
    /// Creates an empty array of elements of at most `element_len` bytes, under a new name.
    ///
    /// # Errors
    /// [`StructureError::NameTaken`](crate::StructureError::NameTaken); as [`RawArrayList::create`].
    pub fn create(txn: &mut Txn, name: &str, element_len: u16) -> Result<Self> {
        Self::create_by(txn, name, |txn| RawArrayList::create(txn, element_len))
    }

    /// Opens the array of this name, or creates it if there is none; `element_len` is used only then.
    ///
    /// # Errors
    /// As [`open`](Typed::open) and [`create`](ArrayList::create).
    pub fn open_or_create(txn: &mut Txn, name: &str, element_len: u16) -> Result<Self> {
        if named::is_taken(txn, name)? { Self::open(txn, name) } else { Self::create(txn, name, element_len) }
    }

    /// Returns the address of element `index`, for your own operations.
    ///
    /// # Errors
    /// As [`RawArrayList::record`].
    pub fn record(&self, txn: &mut Txn, index: u64) -> Result<RecordId> {
        self.raw.record(txn, index)
    }

    /// Returns element `index`.
    ///
    /// # Errors
    /// [`cedrat_txn::Error::Deadlock`] from the lock on its page; the element cannot be decoded as `T`.
    pub fn get(&self, txn: &mut Txn, index: u64) -> Result<Option<T>> {
        self.raw.get(txn, index)?.map(|element| decode_padded(&element, ELEMENT)).transpose()
    }

    /// Sets element `index`.
    ///
    /// # Errors
    /// As [`RawArrayList::set`].
    pub fn set(&self, txn: &mut Txn, index: u64, element: &T) -> Result<()> {
        self.raw.set(txn, index, &encode(element, ELEMENT)?)
    }

    /// Appends an element, and returns its index.
    ///
    /// # Errors
    /// As [`RawArrayList::push`].
    pub fn push(&self, txn: &mut Txn, element: &T) -> Result<u64> {
        self.raw.push(txn, &encode(element, ELEMENT)?)
    }

    /// Removes the last element.
    ///
    /// # Errors
    /// As [`RawArrayList::pop`].
    pub fn pop(&self, txn: &mut Txn) -> Result<Option<T>> {
        self.raw.pop(txn)?.map(|element| decode_padded(&element, ELEMENT)).transpose()
    }
}
