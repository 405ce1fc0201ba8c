//! Handles that outlive their opening, and panics inside nested transactions.
#![cfg(not(cedrat_shuttle))] // threads: threads.rs

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use cedrat_objects::{Options, UndoPolicy};
use cedrat_txn::{Commit, Error, Result};
use common::{Place, get, is_absent, place};

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

/// E9.11: a branch of an earlier opening has its changes, with inverses, in pages.
#[test]
fn in_doubt_change_with_inverse_is_refused() {
    for commits in [false, true] {
        let old = place(UndoPolicy::Inverses);
        let [changed, moved, removed, other] = [1, 2, 3, 4].map(|byte| old.insert(&[byte; 40]));
        let mut txn = old.begin();
        old.objects.put(&mut txn, changed, &[9; 40]).unwrap();
        old.objects.put(&mut txn, moved, &[9; 2000]).unwrap();
        old.objects.remove(&mut txn, removed).unwrap();
        let inserted = old.objects.insert(&mut txn, &[9; 40]).unwrap();
        drop(txn.prepare(b"branch").unwrap()); // it stays in doubt
        let options = Options { undo: UndoPolicy::CommittedOnly, ..old.options };
        let new = Place { options, ..old }.crashed();
        let read = |id| new.objects.read_committed(&new.store, id, <[u8]>::to_vec).map(|(bytes, _)| bytes);
        for id in [changed, moved, removed] {
            let seen = read(id);
            assert!(matches!(seen, Err(Error::InDoubt { .. })), "{id}: {seen:?}");
        }
        assert_eq!(read(other).unwrap(), [4; 40]);
        assert!(is_absent(&read(inserted).unwrap_err()));
        let branch = new.store.prepared(b"branch").unwrap();
        let expected = if commits {
            branch.commit(Commit::Sync).map(drop).unwrap();
            [Some(vec![9; 40]), Some(vec![9; 2000]), None, Some(vec![9; 40])]
        } else {
            branch.rollback().unwrap();
            [Some(vec![1; 40]), Some(vec![2; 40]), Some(vec![3; 40]), None]
        };
        for (id, expected) in [changed, moved, removed, inserted].into_iter().zip(expected) {
            assert_eq!(read(id).ok(), expected);
            assert_eq!(get(&new.store, &new.objects, id), expected);
        }
        new.check();
    }
}
