//! What a rollback needs, and what it leaves to be said by others.

mod common;

use cedrat_media::{Media, SimDisk};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_sync::Arc;
use cedrat_txn::{Error, Operation, Options, Refused, Registry, SmallBytes, Store, Undo};
use common::*;
use serde::{Deserialize, Serialize};

/// A store on a simulated disk, with one page of numbers.
fn store_with(options: Options, registry: Registry) -> (Store, PageId) {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let store = Store::open(media, options, registry).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    (store, page)
}

/// Changes nothing, at any length; its undo is as long.
#[derive(Debug, Serialize, Deserialize)]
struct Pad {
    bytes: SmallBytes,
}

impl Operation for Pad {
    const NAME: &'static str = "test.pad";

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::derived(0))
    }

    fn redo(&self, _: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        Ok(())
    }

    fn derive_undo(&self, _: cedrat_txn::RecordId) -> Undo {
        Undo::op(Pad { bytes: self.bytes.clone() })
    }
}

/// The record of an undo is a little longer than that of the change: what is accepted can be taken back (E6.2).
#[test]
fn the_longest_change_that_is_accepted_can_be_taken_back() {
    let (store, page) = store_with(options(), registry().operation::<Pad>());
    let mut len = store.log().body_len_max();
    let mut txn = store.begin();
    loop {
        match txn.update(at(page, 0), &Pad { bytes: vec![0; len].into() }) {
            Ok(()) => break,
            Err(error) => assert!(matches!(error, Error::TooLarge { .. }), "{error}"),
        }
        len -= 1;
    }
    txn.rollback().unwrap();
    store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
}
