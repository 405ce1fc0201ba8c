//! Structures and their names, made and opened together.

use cedrat_pages::PageId;
use cedrat_txn::{Result, Txn};

use crate::catalogue::{Catalogue, Kind};

/// Makes a structure with `make` and gives it a name that nothing has yet.
pub(crate) fn create<R>(
    txn: &mut Txn,
    name: &str,
    kind: Kind,
    make: impl FnOnce(&mut Txn) -> Result<R>,
    root: impl FnOnce(&R) -> PageId,
) -> Result<R> {
    let catalogue = Catalogue::open(txn.store())?;
    // The name is locked first: whoever else wants it waits here, before any page is taken.
    catalogue.check_free(txn, name)?;
    let made = make(txn)?;
    catalogue.add(txn, name, kind, root(&made))?;
    Ok(made)
}

/// The root of the structure of this name and kind.
pub(crate) fn root(txn: &mut Txn, name: &str, kind: Kind) -> Result<PageId> {
    Catalogue::open(txn.store())?.expect(txn, name, kind)
}

/// Whether the name stands for anything.
pub(crate) fn is_taken(txn: &mut Txn, name: &str) -> Result<bool> {
    Ok(Catalogue::open(txn.store())?.find(txn, name)?.is_some())
}
