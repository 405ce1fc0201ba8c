//! Ways back within a transaction: savepoints, and compensations of one's own.

mod common;

use cedrat_media::{Media, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_txn::{Error, Options, Registry, Store, Txn};
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

#[test]
fn a_savepoint_that_was_rolled_back_over_is_refused() {
    let (store, page) = store_with(options(), registry());
    let mut txn = store.begin();
    let add = |txn: &mut Txn, amount| txn.update(at(page, 0), &Add { amount }).unwrap();
    add(&mut txn, 1);
    let first = txn.savepoint();
    add(&mut txn, 10);
    let second = txn.savepoint();
    add(&mut txn, 100);
    txn.rollback_to(first).unwrap();
    add(&mut txn, 1000);
    let third = txn.savepoint();
    add(&mut txn, 10_000);
    assert!(matches!(txn.rollback_to(second), Err(Error::Misuse(_))), "what it marked is gone");
    assert_eq!(numbers(&store, page)[0], 11_001, "and nothing was undone");
    txn.rollback_to(third).unwrap();
    txn.rollback_to(third).unwrap();
    assert_eq!(numbers(&store, page)[0], 1001);

    // A compensation leads past what lies between: to go back there would go further.
    let fourth = txn.savepoint();
    txn.update_compensating(at(page, 1), &Add { amount: 1 }, third).unwrap();
    assert!(matches!(txn.rollback_to(fourth), Err(Error::Misuse(_))));
    txn.rollback_to(first).unwrap();
    assert!(matches!(txn.rollback_to(third), Err(Error::Misuse(_))));
    assert_eq!(numbers(&store, page), [1, 1, 0, 0]);
}
