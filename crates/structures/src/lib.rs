//! Transactional data structures (Lemon §6), built only on the public interface of `cedrat-txn`: read them as examples
//! for your own.
//!
//! | structure | content | one change logs |
//! |---|---|---|
//! | [`HashTable`] | a linear hash table | one record; splits are nested top actions |
//! | [`ArrayList`] | a growable array of fixed-length elements | one record |
//! | [`List`] | a linked list of records of any length | two records |
//! | [`PageList`] | a linked list whose neighbours share pages | one record |
//! | [`Records`] | records by page and slot | one record |
//! | [`Catalogue`] | names for all of these | one record |
//!
//! [`increment`](mod@increment) is the smallest example: one complete operation.
//!
//! A program registers the structures before it opens a store: `Registry::new().with(cedrat_structures::register)`.

#![forbid(unsafe_code)]

mod array;
mod bytes;
mod catalogue;
pub mod chain;
mod changes;
mod checked;
mod encoding;
mod ends;
mod error;
mod hash;
pub mod increment;
mod kinds;
mod list;
mod named;
mod page_list;
pub mod records;
mod regions;
pub mod requests;
pub mod salvage;
mod typed;

use cedrat_txn::{Registry, Result, Txn};

pub use array::{ArrayList, ELEMENT_LEN_MAX, RawArrayElements, RawArrayList};
pub use catalogue::{Catalogue, Kind, NAME_LEN_MAX, Named};
pub use changes::{MapChange, StructureNames};
pub use checked::Checked;
pub use error::StructureError;
pub use hash::{ENTRY_LEN_MAX, Entries, HashTable, Pair, RawHashTable};
pub use increment::Increment;
pub use list::{List, RawList, RawListElements};
pub use page_list::{PageList, PageListRecords, RECORD_LEN_MAX, RawPageList};
pub use records::Records;
pub use typed::{Typed, Values};

/// Adds this crate's operations to a registry. Required in every program that opens a store in which they were used.
pub fn register(registry: Registry) -> Registry {
    registry
        .operation::<Increment>()
        .operation::<ends::SetEnds>()
        .with(hash::register)
        .with(array::register)
        .with(page_list::register)
        .with(records::register)
        .with(kinds::register)
}

/// Drops the structure of this name, of any kind, and frees its pages. For kinds of the application only the name is
/// removed.
///
/// # Errors
/// [`StructureError::NoSuchName`]; [`StructureError::WrongKind`] for collections and graphs of objects, which are dropped
/// through their cache (`Objects::drop`, `Graph::drop`); [`cedrat_txn::Error::Deadlock`] from the locks on name and structure.
pub fn drop_named(txn: &mut Txn, name: &str) -> Result<Named> {
    let store = txn.store().clone();
    let catalogue = Catalogue::open(&store)?;
    let kind = catalogue.find_for_change(txn, name)?.kind;
    if matches!(kind, Kind::Objects | Kind::Graph) {
        let (expected, found) = ("dropped here, but by Objects::drop or Graph::drop".into(), kind.to_string());
        return Err(StructureError::WrongKind { name: name.into(), expected, found }.into());
    }
    let named = catalogue.remove(txn, name)?;
    match named.kind {
        Kind::HashTable => RawHashTable::open(&store, named.root)?.drop(txn)?,
        Kind::ArrayList => RawArrayList::open(&store, named.root)?.drop(txn)?,
        Kind::List => RawList::open(&store, named.root)?.drop(txn)?,
        Kind::PageList => RawPageList::open(&store, named.root)?.drop(txn)?,
        Kind::Records => Records::open_root(&store, named.root)?.drop(txn)?,
        Kind::Objects | Kind::Graph | Kind::User(_) => {}
    }
    Ok(named)
}

/// Walks the structure of a catalogue entry and verifies it. Returns `None` for objects, graphs and kinds of the
/// application, which can only be checked by their owners.
///
/// # Errors
/// Only those that prevent the walk. Defects are in the result.
pub fn check_named(txn: &Txn, named: &Named) -> Result<Option<Checked>> {
    let store = txn.store();
    Ok(Some(match named.kind {
        Kind::HashTable => RawHashTable::open(store, named.root)?.check(txn)?,
        Kind::ArrayList => RawArrayList::open(store, named.root)?.check(txn)?,
        Kind::List => RawList::open(store, named.root)?.check(txn)?,
        Kind::PageList => RawPageList::open(store, named.root)?.check(txn)?,
        Kind::Records => Records::open_root(store, named.root)?.check(txn)?,
        Kind::Objects | Kind::Graph | Kind::User(_) => return Ok(None),
    }))
}
