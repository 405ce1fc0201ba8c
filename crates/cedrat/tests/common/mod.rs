//! Stores with one page, for the tests of what a store reports of itself.

use std::sync::Arc;

use cedrat::media::Media;
use cedrat::pages::{LayoutKind, PageId};
use cedrat::txn::{FormatFresh, RecordId, SetRange};
use cedrat::{OpenError, Options, Registry, Store};

pub(crate) fn open(disk: &Arc<dyn Media>) -> Result<Store, OpenError> {
    Store::open(Arc::clone(disk), Options { redo_on_demand_bytes: u64::MAX, ..Options::simulated() }, Registry::new())
}

/// Sets the first eight bytes of a page.
pub(crate) fn bytes(value: u8) -> SetRange {
    SetRange { offset: 0, bytes: vec![value; 8].into() }
}

/// Commits a new page.
pub(crate) fn new_page(store: &Store) -> PageId {
    let format = |txn: &mut cedrat::Txn| {
        let page = txn.allocate()?;
        txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
        Ok(page)
    };
    store.transact(format).expect("it commits")
}
