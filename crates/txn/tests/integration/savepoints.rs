//! Partial rollback within a transaction: savepoints, and compensations by the caller.

use cedrat_sync::Arc;
use cedrat_sync::atomic::{AtomicUsize, Ordering};
use cedrat_txn::object_cache::UnflushedRecords;
use cedrat_txn::{Deadlock, Error, LockManager, LockMode, Options, Resource, Result, Txn, Undo};

use crate::common::*;
use crate::kept::{self, TestCache, page_of_records};

#[test]
fn rolled_back_savepoint_is_refused() {
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

    // A compensation skips the records in between: returning to a savepoint there would undo more.
    let fourth = txn.savepoint();
    txn.update_compensating(at(page, 1), &Add { amount: 1 }, third).unwrap();
    assert!(matches!(txn.rollback_to(fourth), Err(Error::Misuse(_))));
    txn.rollback_to(first).unwrap();
    assert!(matches!(txn.rollback_to(third), Err(Error::Misuse(_))));
    assert_eq!(numbers(&store, page), [1, 1, 0, 0]);
}

/// Counts the requests for page locks.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl LockManager for Counting {
    fn lock(&self, _: cedrat_wal::TxnId, resource: Resource, _: LockMode) -> Result<(), Deadlock> {
        if matches!(resource, Resource::Page(_)) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn ended(&self, _: cedrat_wal::TxnId) {}
}

#[test]
fn user_compensation_locks_its_page() {
    let locks = Arc::new(Counting::default());
    let (store, page) = store_with(Options { locks: Arc::<Counting>::clone(&locks), ..options() }, registry());
    let asked = || locks.0.load(Ordering::Relaxed);
    let before = asked();
    let mut txn = store.begin();
    let here = txn.savepoint();
    txn.update_compensating(at(page, 0), &Add { amount: 1 }, here).unwrap();
    assert_eq!(asked(), before + 1, "another transaction could have changed the page, and rolled back");
    txn.nested((), |txn| {
        let here = txn.savepoint();
        txn.update_compensating(at(page, 0), &Add { amount: 1 }, here)?;
        Ok(((), Undo::none()))
    })
    .unwrap();
    assert_eq!(asked(), before + 1, "E15.3");
}

/// A transaction that has committed by its changes has nothing to go back to; the store goes on.
#[test]
fn savepoint_of_committed_transaction_is_refused() {
    let (store, page) = store_with(options(), kept::register(registry()));
    let records = store.transact(|txn| page_of_records(txn, 1)).unwrap();
    let cache = TestCache::new(0);
    let keeper = store.keep_log_for(cache.clone());
    let mut txn = store.begin();
    let savepoint = txn.savepoint();
    txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
    cache.commit(&mut txn, &keeper, &[(at(records, 0), 7)]).unwrap().expect("it commits");
    assert!(matches!(txn.rollback_to(savepoint), Err(Error::Misuse(_))));
    assert_eq!(numbers(&store, page), [1, 0, 0, 0]);
    store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
}

/// S7.
/// Transactions of two stores have the same numbers.
#[test]
fn savepoint_of_another_store_is_refused() {
    let [(one, page), (other, _)] = [store_with(options(), registry()), store_with(options(), registry())];
    let [mut txn, mut foreign] = [one.begin(), other.begin()];
    assert_eq!(txn.id(), foreign.id());
    foreign.update(at(page, 0), &Add { amount: 1 }).unwrap();
    let savepoint = foreign.savepoint();
    txn.update(at(page, 0), &Add { amount: 10 }).unwrap();
    txn.update(at(page, 1), &Add { amount: 10 }).unwrap();
    assert!(matches!(txn.rollback_to(savepoint), Err(Error::Misuse(_))));
    txn.commit(cedrat_txn::Commit::Sync).unwrap();
    assert_eq!(numbers(&one, page), [10, 10, 0, 0]);
}

/// Their locks would be confused with each other's.
#[test]
fn clones_of_options_share_no_locks() {
    let chosen = Options { locks: Arc::new(cedrat_txn::PageLocks::default()), ..options() };
    let [(one, page), (other, _)] = [store_with(chosen.clone(), registry()), store_with(chosen, registry())];
    let [mut txn, mut foreign] = [one.begin(), other.begin()];
    txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
    foreign.update(at(page, 0), &Add { amount: 1 }).unwrap();
    foreign.commit(cedrat_txn::Commit::Sync).unwrap();
    assert_eq!(one.locks().held(txn.id()).len(), 1, "the end of another store's transaction releases nothing here");
    txn.commit(cedrat_txn::Commit::Sync).unwrap();
}

/// E16.1d: the change stays, and so does what it adds to the undo of an earlier one.
#[test]
fn growth_stays_reserved_after_savepoint() {
    const GROWTH: u32 = 100_000;
    let (store, page) = store_with(options(), registry());
    let mut txn = store.begin();
    let add = |txn: &mut Txn| txn.update(at(page, 0), &Add { amount: 1 });
    add(&mut txn).unwrap();
    let savepoint = txn.savepoint();
    txn.nested((), |txn| {
        txn.nested((), |txn| Ok((add(txn)?, Undo::none_with_space(GROWTH))))?;
        Ok(((), Undo::none()))
    })
    .unwrap();
    txn.rollback_to(savepoint).unwrap();
    add(&mut txn).unwrap();
    assert!(store.log().space().reserved.0 >= u64::from(GROWTH), "E16.1d");
    txn.rollback().unwrap();
    assert!(store.log().space().reserved.0 < u64::from(GROWTH));
}
