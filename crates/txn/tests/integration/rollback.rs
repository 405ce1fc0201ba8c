//! The log space of a rollback, and the errors after a failed one.

use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_sync::thread::{self, ThreadId};
use cedrat_sync::{Arc, Mutex};
use cedrat_txn::{
    Commit, Deadlock, Error, LockManager, LockMode, Operation, Options, Refused, Resource, Result, SmallBytes, Txn,
    Undo, Vote,
};
use cedrat_wal::TxnId;
use serde::{Deserialize, Serialize};

use crate::common::*;

/// Changes nothing, with arguments of any length; its undo is as long.
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

/// The record of an undo is slightly longer than that of the change: every accepted change can be undone (E6.2).
#[test]
fn longest_accepted_change_can_be_undone() {
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

/// E6.2.
#[test]
fn rollback_spends_only_reserved_room() {
    let (store, page) = store_with(options(), registry().operation::<Pad>());
    let mut txn = store.begin();
    for _ in 0..20 {
        txn.update(at(page, 0), &Pad { bytes: vec![0; 1000].into() }).unwrap();
    }
    txn.rollback().unwrap();
    assert_eq!(store.log().space().overdrawn.0, 0, "E6.2");
}

/// Its redo finds damage, which stops the store.
#[derive(Debug, Serialize, Deserialize)]
struct FindDamage;

impl Operation for FindDamage {
    const NAME: &'static str = "test.find_damage";

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::none())
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        Err(Damaged::in_body(page.id(), 0, "planted"))
    }
}

#[test]
fn transact_returns_error_of_work() {
    let (store, page) = store_with(options(), registry().operation::<FindDamage>());
    let error = store.transact(|txn| txn.update(at(page, 0), &FindDamage)).unwrap_err();
    assert!(matches!(error, Error::Pages(_)), "it names page and file: {error}");

    // An unrelated stop does not hide the application's error either; the next caller gets the stop (E16.5).
    let (store, _) = store_with(options(), registry());
    let error = store.transact(|txn| refuse_on_a_stopped_store(txn, Error::user("not enough"))).unwrap_err();
    assert_eq!(error.to_string(), "not enough");
    assert!(matches!(store.checkpoint(), Err(Error::Stopped(_))), "E16.5");

    // A retry would be pointless.
    let (store, page) = store_with(options(), registry());
    let mut runs = 0;
    let error = store.transact(|txn| {
        runs += 1;
        let deadlock = Deadlock::new(txn.id(), Resource::Page(page));
        refuse_on_a_stopped_store(txn, deadlock.into())
    });
    assert!(matches!(error, Err(Error::Stopped(_))) && runs == 1, "{error:?} after {runs} runs");
}

fn refuse_on_a_stopped_store(txn: &mut Txn, error: Error) -> Result<()> {
    let page = page_with_zeros(txn)?;
    txn.update(at(page, 0), &Add { amount: 1 })?;
    txn.store().log().stop("for the test");
    Err(error)
}

/// Notes the thread on which each transaction is rolled back.
#[derive(Debug, Default)]
struct Noting(Mutex<Vec<(TxnId, ThreadId, bool)>>);

impl LockManager for Noting {
    fn lock(&self, _: TxnId, _: Resource, _: LockMode) -> std::result::Result<(), Deadlock> {
        Ok(())
    }

    fn ended(&self, _: TxnId) {}

    fn rolls_back(&self, txn: TxnId, ends: bool) {
        self.0.lock().push((txn, thread::current().id(), ends));
    }
}

/// E15.7a: another transaction that the undo runs may wait for a lock of the one that is rolled back.
#[test]
fn locks_know_thread_of_rollback() {
    let locks = Arc::new(Noting::default());
    let options = Options { locks: Arc::<Noting>::clone(&locks), txn_log_limit_bytes: Some(1), ..options() };
    let (store, page) = store_with(options, registry());
    let ways: [fn(Txn, PageId); 4] = [
        |txn, _| txn.rollback().unwrap(),
        |mut txn, page| {
            let here = txn.savepoint();
            txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
            txn.rollback_to(here).unwrap();
            txn.commit(Commit::NoFlush).map(drop).unwrap();
        },
        |txn, _| match txn.prepare(b"branch").unwrap() {
            Vote::Prepared(prepared) => prepared.rollback().unwrap(),
            Vote::ReadOnly => panic!("it has changed something"),
        },
        |txn, _| assert_eq!(txn.store().enforce_limits().unwrap(), 1, "E16.3"),
    ];
    for (way, ends) in ways.into_iter().zip([true, false, true, true]) {
        let mut txn = store.begin();
        txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
        let id = txn.id();
        let other = thread::spawn(move || way(txn, page));
        let thread = other.thread().id();
        other.join().unwrap();
        assert_eq!(std::mem::take(&mut *locks.0.lock()), [(id, thread, ends)]);
    }
}
