//! Changes of several pages without atomicity, and as the victim of a full log.

mod common;

use cedrat_media::{Media, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_txn::{Error, Options, Registry, Store, TxnOptions, Undo};
use common::*;

/// A store on a simulated disk, with one page of numbers.
fn store_with(options: Options, registry: Registry) -> (Store, PageId) {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let store = Store::open(media, options, registry).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    (store, page)
}

fn numbers(store: &Store, page: PageId) -> [i64; 4] {
    [0, 1, 2, 3].map(|slot| read_number(store, at(page, slot)).unwrap())
}

/// Without atomicity what was done stays, and what belongs together stays together: no part of it is taken back by
/// meaning while its neighbours remain (E14.1).
#[test]
fn without_atomicity_nested_and_isolated_changes_stay_too() {
    let (store, page) = store_with(options(), registry());
    let mut txn = store.begin_with(TxnOptions::default().without_atomicity());
    txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
    txn.nested((), |txn| {
        txn.update(at(page, 1), &Add { amount: 1 })?;
        Ok(((), Undo::logical(&Subtract { page: page.get(), slot: 1, amount: 1 })))
    })
    .unwrap();
    txn.isolated(page, |txn| txn.update(at(page, 2), &Add { amount: 1 })).unwrap();
    let failed = txn.isolated(page, |txn| {
        txn.update(at(page, 3), &Add { amount: 1 })?;
        txn.nested((), |txn| {
            txn.update(at(page, 3), &Add { amount: 1 })?;
            Ok(((), Undo::logical(&Subtract { page: page.get(), slot: 3, amount: 1 })))
        })?;
        Err::<(), _>(Error::user("half-way"))
    });
    assert!(failed.is_err());
    assert_eq!(numbers(&store, page), [1, 1, 1, 0], "what fails half-way is whole all the same");
    txn.rollback().unwrap();
    assert_eq!(numbers(&store, page), [1, 1, 1, 0]);
}
