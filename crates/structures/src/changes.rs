//! Changes of a [change stream](cedrat_txn::ChangeStream), in terms of the structures that they were made in.

use std::collections::HashMap;

use cedrat_pages::PageId;
use cedrat_txn::{CATALOGUE, Change, Result, Txn};

use crate::catalogue::{Catalogue, Named};

/// A change of a map with typed keys and values: see [`HashTable::typed`](crate::HashTable::typed).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapChange<K, V> {
    /// The map has this value under this key now.
    Put(K, V),
    /// The map has no value under this key now.
    Remove(K),
}

/// The names of the structures of a store, at a position of its change stream.
///
/// ```
/// # use cedrat_media::SimDisk;
/// # use cedrat_structures::{HashTable, StructureNames, register};
/// # use cedrat_txn::{Change, Options, Registry, Store};
/// # use cedrat_wal::Lsn;
/// # let registry = Registry::new().with(register);
/// # let store = Store::open(std::sync::Arc::new(SimDisk::new()), Options::simulated(), registry)?;
/// store.transact(|txn| HashTable::<u32, u32>::create(txn, "stock")?.insert(txn, &1, &10))?;
/// let (mut stream, mut names) = (store.changes(Lsn::ZERO)?, StructureNames::default());
/// let mut changed = Vec::new();
/// while let Some(mut set) = stream.next()? {
///     while let Some(change) = set.next()? {
///         names.note(&change);
///         if let Change::Put { structure, .. } = change {
///             changed.push(names.name(structure).unwrap_or("unnamed").to_owned());
///         }
///     }
/// }
/// assert_eq!(changed, ["catalogue", "stock"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StructureNames {
    by_root: HashMap<PageId, String>,
}

impl StructureNames {
    /// Returns the names that the store has now. A structure that was dropped since the position of a stream is not among them.
    ///
    /// # Errors
    /// [`cedrat_txn::Error::Deadlock`] from the lock on the catalogue.
    pub fn of(txn: &mut Txn) -> Result<StructureNames> {
        let named = Catalogue::open(txn.store())?.list(txn)?;
        Ok(StructureNames { by_root: named.into_iter().map(|named| (named.root, named.name)).collect() })
    }

    /// Notes a change, which may name a structure. The name of a removed structure stays known, for the changes of its drop.
    pub fn note(&mut self, change: &Change) {
        if let Change::Put { structure: CATALOGUE, key, value } = change
            && let Some(named) = Named::of_entry(key, value)
        {
            self.by_root.insert(named.root, named.name);
        }
    }

    /// Returns the name of the structure with this root page.
    pub fn name(&self, root: PageId) -> Option<&str> {
        if root == CATALOGUE { Some("catalogue") } else { self.by_root.get(&root).map(String::as_str) }
    }
}
