//! Creating and opening structures together with their names.

use cedrat_pages::PageId;
use cedrat_txn::{Result, Txn};

use crate::catalogue::{Catalogue, Kind, Named};

/// Creates a structure with `make` under a new name, with elements of this schema.
pub(crate) fn create<R>(
    txn: &mut Txn,
    name: &str,
    kind: Kind,
    schema: u32,
    make: impl FnOnce(&mut Txn) -> Result<R>,
    root: impl FnOnce(&R) -> PageId,
) -> Result<R> {
    let catalogue = Catalogue::open(txn.store())?;
    // The name is locked first: concurrent creations wait here, before they allocate pages.
    catalogue.check_free(txn, name)?;
    let made = make(txn)?;
    catalogue.add(txn, &Named { name: name.into(), kind, root: root(&made), schema })?;
    Ok(made)
}

/// Returns the root of the structure of this name and kind, with elements of this schema.
pub(crate) fn root(txn: &mut Txn, name: &str, kind: Kind, schema: u32) -> Result<PageId> {
    Catalogue::open(txn.store())?.expect(txn, name, kind, schema)
}

/// Whether the catalogue has the name.
pub(crate) fn is_taken(txn: &mut Txn, name: &str) -> Result<bool> {
    Ok(Catalogue::open(txn.store())?.find(txn, name)?.is_some())
}
