//! Handles that outlive their opening, and panics inside nested transactions.
#![cfg(not(cedrat_shuttle))] // threads: threads.rs

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use cedrat_objects::UndoPolicy;
use cedrat_txn::{Commit, Error, Result};
use common::place;

fn is_misuse<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Misuse(_)))
}

/// E16.8, E19.10: the object has moved to a longer record, which is undone.
#[test]
fn panic_within_nested_transaction_takes_objects_back() {
    for policy in [UndoPolicy::CommittedOnly, UndoPolicy::Inverses] {
        let place = place(policy);
        let [moved, changed] = [b"a short one", b"another one"].map(|bytes| place.insert(bytes));
        let mut txn = place.begin();
        let nested = catch_unwind(AssertUnwindSafe(|| {
            txn.nested_transaction::<()>(|txn| {
                place.objects.put(txn, changed, b"ANOTHER one")?;
                place.objects.put(txn, moved, &[7; 2000])?;
                panic!("it is to panic");
            })
        }));
        assert!(nested.is_err());
        txn.commit(Commit::Sync).unwrap();
        for place in [&place, &place.crashed()] {
            assert_eq!(place.get(moved), Some(b"a short one".to_vec()), "{policy:?}");
            assert_eq!(place.get(changed), Some(b"another one".to_vec()), "{policy:?}");
            place.check();
        }
    }
}

/// S7: the cache belongs to one opening.
#[test]
fn handle_of_another_opening_is_refused() {
    let old = place(UndoPolicy::CommittedOnly);
    let id = old.insert(b"kept");
    old.transact(|txn| old.objects.put(txn, id, b"KEPT"));
    let (new, objects) = (old.crashed(), &old.objects);
    let store = &new.store;
    let mut txn = store.begin();
    assert!(is_misuse(objects.read(&mut txn, id, |_| ())), "S7");
    assert!(is_misuse(objects.put(&mut txn, id, b"lost")), "S7");
    assert!(is_misuse(objects.insert(&mut txn, b"lost")), "S7");
    assert!(is_misuse(objects.remove(&mut txn, id)), "S7");
    assert!(is_misuse(objects.ids(&mut txn)), "S7");
    assert!(is_misuse(objects.try_lock_all(&mut txn)), "S7");
    assert!(is_misuse(objects.read_committed(store, id, |_| ())), "S7");
    assert!(is_misuse(objects.flush(store, id)) && is_misuse(objects.flush_all(store)), "S7");
    assert!(is_misuse(objects.evict(store, id)) && is_misuse(objects.pages(store)), "S7");
    assert!(is_misuse(objects.sweep(store)) && is_misuse(objects.clone().drop(store, "objects")), "S7");
    txn.commit(Commit::Sync).unwrap();
    assert_eq!(new.get(id), Some(b"KEPT".to_vec()));
    new.check();
}
