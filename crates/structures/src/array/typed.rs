//! An array list of Rust values.

use std::fmt;
use std::marker::PhantomData;

use cedrat_pages::PageId;
use cedrat_txn::{RecordId, Result, Store, Txn, schema_of};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{RawArrayElements, RawArrayList};
use crate::catalogue::Kind;
use crate::checked::Checked;
use crate::encoding::{decode_padded, encode};
use crate::named;

const ELEMENT: &str = "an element of an array list";

/// A transactional growable array (Lemon §6.1) of values of type `T`.
///
/// All elements have one length in bytes, chosen at creation, which their encodings must not exceed. See
/// [`RawArrayList`] for its locks. A handle, cheap to clone.
pub struct ArrayList<T> {
    raw: RawArrayList,
    types: PhantomData<fn(T) -> T>,
}

impl<T: Serialize + DeserializeOwned> ArrayList<T> {
    /// Creates an empty array of elements of at most `element_len` bytes, under a new name.
    ///
    /// # Errors
    /// [`StructureError::NameTaken`](crate::StructureError::NameTaken); as [`RawArrayList::create`].
    pub fn create(txn: &mut Txn, name: &str, element_len: u16) -> Result<Self> {
        let make = |txn: &mut Txn| RawArrayList::create(txn, element_len);
        let raw = named::create(txn, name, Kind::ArrayList, schema_of::<T>(), make, RawArrayList::root)?;
        Ok(Self::from_raw(raw))
    }

    /// Opens the array of this name.
    ///
    /// # Errors
    /// [`StructureError::NoSuchName`](crate::StructureError::NoSuchName),
    /// [`WrongKind`](crate::StructureError::WrongKind), or [`OtherTypes`](crate::StructureError::OtherTypes).
    pub fn open(txn: &mut Txn, name: &str) -> Result<Self> {
        let root = named::root(txn, name, Kind::ArrayList, schema_of::<T>())?;
        Self::at(txn.store(), root)
    }

    /// Opens the array of this name, or creates it if there is none; `element_len` is used only then.
    ///
    /// # Errors
    /// As [`open`](ArrayList::open) and [`create`](ArrayList::create).
    pub fn open_or_create(txn: &mut Txn, name: &str, element_len: u16) -> Result<Self> {
        if named::is_taken(txn, name)? { Self::open(txn, name) } else { Self::create(txn, name, element_len) }
    }

    /// Opens the array with this root page.
    ///
    /// # Errors
    /// [`StructureError::WrongRoot`](crate::StructureError::WrongRoot).
    pub fn at(store: &Store, root: PageId) -> Result<Self> {
        Ok(Self::from_raw(RawArrayList::open(store, root)?))
    }

    fn from_raw(raw: RawArrayList) -> Self {
        ArrayList { raw, types: PhantomData }
    }

    /// Returns the array of encoded elements.
    pub fn raw(&self) -> &RawArrayList {
        &self.raw
    }

    /// Returns the number of elements.
    ///
    /// # Errors
    /// [`cedrat_txn::Error::Deadlock`] from the lock on the array.
    pub fn len(&self, txn: &mut Txn) -> Result<u64> {
        self.raw.len(txn)
    }

    /// Whether the array has no elements.
    ///
    /// # Errors
    /// As [`len`](ArrayList::len).
    pub fn is_empty(&self, txn: &mut Txn) -> Result<bool> {
        self.raw.is_empty(txn)
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

    /// Iterates over all elements, in order. The array is locked shared to the end of the transaction.
    ///
    /// # Errors
    /// As [`len`](ArrayList::len).
    pub fn iter<'t>(&self, txn: &'t mut Txn) -> Result<ArrayElements<'t, T>> {
        Ok(ArrayElements { elements: self.raw.iter(txn)?, types: PhantomData })
    }

    /// Walks the array and verifies it.
    ///
    /// # Errors
    /// Only those that prevent the walk.
    pub fn check(&self, txn: &Txn) -> Result<Checked> {
        self.raw.check(txn)
    }
}

impl<T> Clone for ArrayList<T> {
    fn clone(&self) -> Self {
        ArrayList { raw: self.raw.clone(), types: PhantomData }
    }
}

impl<T> fmt::Debug for ArrayList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayList").field("root", &self.raw.root()).finish_non_exhaustive()
    }
}

/// An iterator over the elements of an array: see [`ArrayList::iter`].
pub struct ArrayElements<'t, T> {
    elements: RawArrayElements<'t>,
    types: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Iterator for ArrayElements<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        Some(self.elements.next()?.and_then(|element| decode_padded(&element, ELEMENT)))
    }
}

impl<T> fmt::Debug for ArrayElements<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayElements").field("elements", &self.elements).finish()
    }
}
