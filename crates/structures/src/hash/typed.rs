//! A hash table of Rust values.

use std::borrow::Borrow;

use cedrat_txn::{Change, Result, Txn, schema_of};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::table::RawHashTable;
use super::walk::Pair;
use crate::changes::MapChange;
use crate::encoding::{decode, encode};
use crate::typed::{CreatedByName, Encodes, Typed};

const KEY: &str = "a key of a hash table";
const VALUE: &str = "a value of a hash table";

/// A transactional hash table (Lemon §6) from keys of type `K` to values of type `V`. Keys are equal if their encodings
/// are.
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
pub type HashTable<K, V> = Typed<RawHashTable, (K, V)>;

impl<K, V> Encodes<(K, V)> for RawHashTable
where
    K: Serialize + DeserializeOwned,
    V: Serialize + DeserializeOwned,
{
    /// Key and value are computed separately: a type of keys that refuses the dummy value would otherwise hide the type of
    /// values.
    fn schema() -> u32 {
        (schema_of::<K>().rotate_left(16) ^ schema_of::<V>()).max(1)
    }

    fn decode((key, value): Pair) -> Result<(K, V)> {
        Ok((decode(&key, KEY)?, decode(&value, VALUE)?))
    }
}

impl CreatedByName for RawHashTable {
    fn create(txn: &mut Txn) -> Result<Self> {
        RawHashTable::create(txn)
    }
}

impl<K, V> HashTable<K, V>
where
    K: Serialize + DeserializeOwned,
    V: Serialize + DeserializeOwned,
{
    /// Returns a change of a [change stream](cedrat_txn::ChangeStream) as one of this table; `None` if it is another one.
    ///
    /// # Errors
    /// [`StructureError`](crate::StructureError): the bytes are not of these types.
    pub fn typed(&self, change: &Change) -> Result<Option<MapChange<K, V>>> {
        Ok(match change {
            Change::Put { structure, key, value } if *structure == self.raw.root() => {
                Some(MapChange::Put(decode(key, KEY)?, decode(value, VALUE)?))
            }
            Change::Remove { structure, key } if *structure == self.raw.root() => {
                Some(MapChange::Remove(decode(key, KEY)?))
            }
            _ => None,
        })
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
    /// As [`get`](Typed::get).
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
    /// As [`insert`](Typed::insert).
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
    /// As [`insert`](Typed::insert).
    pub fn remove<Q>(&self, txn: &mut Txn, key: &Q) -> Result<bool>
    where
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.raw.remove(txn, &encode(key, KEY)?)
    }
}
