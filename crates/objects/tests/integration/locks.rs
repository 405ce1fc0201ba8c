//! Locks of transactions over objects, and the transactions that they block.
#![cfg(not(cedrat_shuttle))] // threads: threads.rs

use std::time::Duration;

use cedrat_objects::{Edit, Options, UndoPolicy};
use cedrat_sync::Arc;
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_txn::locks::{LockMode, PageLocks, Resource};
use cedrat_txn::{Clock, Commit, Error, Txn, TxnOptions};

use crate::common::{place, place_with};

/// Each object has a lock of its own; a transaction that has locked the collection locks no object.
#[test]
fn lock_on_collection_replaces_object_locks() {
    let locks = Arc::new(PageLocks::default());
    let options = cedrat_txn::Options { locks: Arc::<PageLocks>::clone(&locks), ..cedrat_txn::Options::simulated() };
    let place = place_with(Options::default(), options);
    let ids: Vec<_> = (0..100_u8).map(|number| place.insert(&[number; 10])).collect();
    let lock_all = |txn: &mut Txn| {
        ids.iter().for_each(|&id| place.objects.put(txn, id, b"changed").unwrap());
        place.objects.insert(txn, b"new").unwrap();
        locks.locked()
    };
    let mut txn = place.begin();
    assert_eq!(lock_all(&mut txn), 102);
    txn.rollback().unwrap();
    assert_eq!(locks.locked(), 0);
    let mut txn = place.begin();
    txn.lock(Resource::Structure(place.objects.root()), LockMode::Exclusive).unwrap();
    assert_eq!(lock_all(&mut txn), 1);
    txn.commit(Commit::Sync).unwrap();
    assert_eq!(locks.locked(), 0);
}

/// A place that a branch has locked and left vacant is not given away while the branch is in doubt: an insertion takes
/// another one, and does not wait.
#[test]
fn a_place_in_doubt_is_passed_by() {
    let place = place(UndoPolicy::CommittedOnly);
    let mut txn = place.begin();
    let id = place.insert(b"an object that is there");
    place.objects.put(&mut txn, id, b"an object that is here").unwrap();
    let reserved = place.objects.reserve(&mut txn, 20).unwrap().id();
    let mut taken_back = None;
    let refused = txn.nested_transaction(|txn| {
        taken_back = Some(place.objects.insert(txn, b"taken back")?);
        Err::<(), _>(Error::Misuse("by the application"))
    });
    assert!(refused.is_err());
    drop(txn.prepare(b"branch").unwrap());
    let place = place.crashed();
    for options in [TxnOptions::default(), TxnOptions::default().without_waiting_for_prepared()] {
        let mut txn = place.store.begin_with(options);
        let inserted = place.objects.insert(&mut txn, b"a stranger").unwrap();
        assert!(inserted != reserved && Some(inserted) != taken_back);
        txn.commit(Commit::Sync).unwrap();
        assert_eq!(place.get(inserted), Some(b"a stranger".to_vec()));
    }
}

#[derive(Debug, Default)]
struct ByHand(AtomicU64);

impl Clock for ByHand {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

/// E16.8a: the store has rolled back the transaction that had locked the object, so another one is changing it.
#[test]
fn rolled_back_transaction_sees_no_change() {
    let clock = Arc::new(ByHand::default());
    let by_hand: Arc<dyn Clock> = Arc::<ByHand>::clone(&clock);
    let txn_time_limit = Some(Duration::from_secs(10));
    let options = cedrat_txn::Options { clock: by_hand, txn_time_limit, ..cedrat_txn::Options::simulated() };
    let place = place_with(Options::default(), options);
    let id = place.insert(b"before");
    let mut txn = place.begin();
    place.objects.lock_for_change(&mut txn, id).unwrap();
    clock.0.store(11, Ordering::SeqCst);
    assert_eq!(place.store.enforce_limits().unwrap(), 1);
    let mut other = place.begin();
    place.objects.put(&mut other, id, b"change").unwrap();
    let seen = place.objects.edit_locked(&mut txn, id, |bytes| Ok((Edit::Nothing, bytes.to_vec())));
    assert!(matches!(seen, Err(Error::TimeLimit { .. })), "{seen:?}");
}
