//! A hash table of Rust values.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

use cedrat_pages::PageId;
use cedrat_txn::{Result, Store, Txn, schema_of};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::table::RawHashTable;
use super::walk::Entries;
use crate::catalogue::Kind;
use crate::checked::Checked;
use crate::encoding::{decode, encode};
use crate::named;

const KEY: &str = "a key of a hash table";
const VALUE: &str = "a value of a hash table";

/// A transactional hash table (Lemon §6) from keys of type `K` to values of type `V`, both encoded by `serde`.
///
/// A handle, cheap to clone, usable from any thread and in any number of transactions; the table itself is in the
/// store. Keys are equal if their encodings are.
///
/// ```no_run
/// # use cedrat_structures::HashTable;
/// # fn shop(store: &cedrat_txn::Store) -> cedrat_txn::Result<()> {
/// store.transact(|txn| {
///     let stock = HashTable::<String, u32>::open_or_create(txn, "stock")?;
///     let apples = stock.get(txn, "apples")?.unwrap_or(0);
///     stock.insert(txn, "apples", &(apples + 1))?;
///     Ok(())
/// })
/// # }
/// ```
pub struct HashTable<K, V> {
    raw: RawHashTable,
    types: PhantomData<fn(K) -> V>,
}

impl<K, V> HashTable<K, V>
where
    K: Serialize + DeserializeOwned,
    V: Serialize + DeserializeOwned,
{
    /// Creates an empty table under a new name.
    ///
    /// # Errors
    /// [`StructureError::NameTaken`](crate::StructureError::NameTaken); those of any change.
    pub fn create(txn: &mut Txn, name: &str) -> Result<Self> {
        let raw = named::create(txn, name, Kind::HashTable, Self::schema(), RawHashTable::create, RawHashTable::root)?;
        Ok(Self::from_raw(raw))
    }

    /// Opens the table of this name.
    ///
    /// # Errors
    /// [`StructureError::NoSuchName`](crate::StructureError::NoSuchName),
    /// [`WrongKind`](crate::StructureError::WrongKind), or [`OtherTypes`](crate::StructureError::OtherTypes).
    pub fn open(txn: &mut Txn, name: &str) -> Result<Self> {
        let root = named::root(txn, name, Kind::HashTable, Self::schema())?;
        Self::at(txn.store(), root)
    }

    /// Opens the table of this name, or creates it if there is none.
    ///
    /// # Errors
    /// As [`open`](HashTable::open) and [`create`](HashTable::create).
    pub fn open_or_create(txn: &mut Txn, name: &str) -> Result<Self> {
        if named::is_taken(txn, name)? { Self::open(txn, name) } else { Self::create(txn, name) }
    }

    /// Opens the table with this root page, for structures with tables of their own.
    ///
    /// # Errors
    /// [`StructureError::WrongRoot`](crate::StructureError::WrongRoot).
    pub fn at(store: &Store, root: PageId) -> Result<Self> {
        Ok(Self::from_raw(RawHashTable::open(store, root)?))
    }

    /// Returns the schema of both. They are computed one by one: a key that refuses the dummy value would hide its value.
    fn schema() -> u32 {
        (schema_of::<K>().rotate_left(16) ^ schema_of::<V>()).max(1)
    }

    fn from_raw(raw: RawHashTable) -> Self {
        HashTable { raw, types: PhantomData }
    }

    /// Returns the table of encoded keys and values.
    pub fn raw(&self) -> &RawHashTable {
        &self.raw
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// [`cedrat_txn::Error::Deadlock`] from the lock on the key; the value cannot be decoded as `V`.
    pub fn get<Q>(&self, txn: &mut Txn, key: &Q) -> Result<Option<V>>
    where
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.raw.get_with(txn, &encode(key, KEY)?, |value| decode(value, VALUE))?.transpose()
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`get`](HashTable::get).
    pub fn contains<Q>(&self, txn: &mut Txn, key: &Q) -> Result<bool>
    where
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.raw.contains(txn, &encode(key, KEY)?)
    }

    /// Sets the value of `key`. Returns whether it had one before.
    ///
    /// # Errors
    /// [`cedrat_txn::Error::TooLarge`] if the two encodings together exceed [`ENTRY_LEN_MAX`](super::ENTRY_LEN_MAX)
    /// bytes; [`cedrat_txn::Error::Deadlock`] from the lock on the key; a full log or disk.
    pub fn insert<Q>(&self, txn: &mut Txn, key: &Q, value: &V) -> Result<bool>
    where
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.raw.put(txn, &encode(key, KEY)?, &encode(value, VALUE)?)
    }

    /// Reads the value of `key` and writes the result of `change`; `None` stands for no value, on both sides.
    ///
    /// # Errors
    /// As [`insert`](HashTable::insert).
    pub fn change<Q>(&self, txn: &mut Txn, key: &Q, change: impl FnOnce(Option<V>) -> Option<V>) -> Result<()>
    where
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let key = encode(key, KEY)?;
        let old = self.raw.get_for_change(txn, &key, |value| decode(value, VALUE))?.transpose()?;
        let was_there = old.is_some();
        match change(old) {
            Some(new) => self.raw.put(txn, &key, &encode(&new, VALUE)?)?,
            None => was_there && self.raw.remove(txn, &key)?,
        };
        Ok(())
    }

    /// Removes `key`. Returns whether it was there.
    ///
    /// # Errors
    /// As [`insert`](HashTable::insert).
    pub fn remove<Q>(&self, txn: &mut Txn, key: &Q) -> Result<bool>
    where
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.raw.remove(txn, &encode(key, KEY)?)
    }

    /// Iterates over all keys and values, in no particular order. The table is locked shared to the end of the
    /// transaction.
    ///
    /// # Errors
    /// [`cedrat_txn::Error::Deadlock`] from the lock on the table.
    pub fn iter<'t>(&self, txn: &'t mut Txn) -> Result<Pairs<'t, K, V>> {
        Ok(Pairs { entries: self.raw.iter(txn)?, types: PhantomData })
    }

    /// Returns the number of keys, by a walk over the table.
    ///
    /// # Errors
    /// As [`iter`](HashTable::iter).
    pub fn len(&self, txn: &mut Txn) -> Result<u64> {
        self.raw.len(txn)
    }

    /// Whether the table has no keys.
    ///
    /// # Errors
    /// As [`iter`](HashTable::iter).
    pub fn is_empty(&self, txn: &mut Txn) -> Result<bool> {
        self.raw.is_empty(txn)
    }

    /// Walks the table and verifies it: see [`RawHashTable::check`].
    ///
    /// # Errors
    /// Only those that prevent the walk.
    pub fn check(&self, txn: &Txn) -> Result<Checked> {
        self.raw.check(txn)
    }
}

impl<K, V> Clone for HashTable<K, V> {
    fn clone(&self) -> Self {
        HashTable { raw: self.raw.clone(), types: PhantomData }
    }
}

impl<K, V> fmt::Debug for HashTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashTable").field("root", &self.raw.root()).finish_non_exhaustive()
    }
}

/// An iterator over the keys and values of a table: see [`HashTable::iter`].
pub struct Pairs<'t, K, V> {
    entries: Entries<'t>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: DeserializeOwned, V: DeserializeOwned> Iterator for Pairs<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.entries.next()?;
        Some(pair.and_then(|(key, value)| Ok((decode(&key, KEY)?, decode(&value, VALUE)?))))
    }
}

impl<K, V> fmt::Debug for Pairs<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pairs").field("entries", &self.entries).finish()
    }
}
