//! The end of a store beside the rollbacks of its own threads.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use cedrat_media::{Media, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex, thread};
use cedrat_txn::locks::HasStopped;
use cedrat_txn::{
    Clock, Commit, Deadlock, Error, LockManager, LockMode, LogicalUndo, OpenError, Options, Registry, Resource, Result,
    Store, Txn, Undo,
};
use cedrat_wal::TxnId;
use serde::{Deserialize, Serialize};

use crate::common::*;

/// A clock that stands still until it jumps beyond every limit.
#[derive(Debug, Default)]
struct Jumps(AtomicU64);

impl Clock for Jumps {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

/// A lock manager in which a page has a lock that no transaction releases.
#[derive(Debug, Default)]
struct NeverReleased {
    page: Mutex<Option<PageId>>,
    is_awaited: AtomicBool,
    has_stopped: Mutex<Option<HasStopped>>,
}

impl LockManager for NeverReleased {
    fn lock(&self, txn: TxnId, resource: Resource, _: LockMode) -> std::result::Result<(), Deadlock> {
        let is_free = self.page.lock().is_none_or(|page| resource != Resource::Page(page));
        let has_stopped = self.has_stopped.lock().clone().expect("a store is open");
        while !is_free && !has_stopped.now() {
            self.is_awaited.store(true, Ordering::SeqCst);
            thread::yield_now();
        }
        if is_free { Ok(()) } else { Err(Deadlock::new(txn, resource)) }
    }

    fn serves(&self, has_stopped: HasStopped) {
        *self.has_stopped.lock() = Some(has_stopped);
    }

    fn ended(&self, _: TxnId) {}
}

fn add(txn: &mut Txn, page: PageId, amount: i64) -> Result<()> {
    txn.update(at(page, 0), &Add { amount })
}

/// An undo that runs another transaction, which waits for a lock.
#[derive(Debug, Serialize, Deserialize)]
struct Waits {
    own: u64,
    locked: u64,
}

impl LogicalUndo for Waits {
    const NAME: &'static str = "test.waits";

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        let refused = add(&mut txn.store().begin(), PageId::new(self.locked), 1);
        assert!(matches!(refused, Err(Error::Stopped(_))), "a deadlock would be tried again: {refused:?}");
        add(txn, PageId::new(self.own), -1)
    }
}

/// E16.8f: a prepared transaction has the lock, and no handle is left to end it.
#[test]
fn closing_awaits_no_blocked_undo() {
    for closes in [false, true] {
        let disk = Arc::new(SimDisk::new());
        let media = || -> Arc<dyn Media> { disk.clone() };
        let known = || -> Registry { registry().logical::<Waits>() };
        let (clock, locks) = (Arc::new(Jumps::default()), Arc::new(NeverReleased::default()));
        let (by_hand, by_page): (Arc<dyn Clock>, Arc<dyn LockManager>) = (clock.clone(), locks.clone());
        let txn_time_limit = Some(Duration::from_secs(1));
        let timed = Options { background: true, txn_time_limit, clock: by_hand, locks: by_page, ..options() };
        let store = Store::open(media(), timed, known()).unwrap();
        let [own, locked] = [(); 2].map(|()| store.transact(page_with_zeros).unwrap());
        let mut idle = store.begin();
        idle.nested((), |txn| {
            add(txn, own, 1)?;
            Ok(((), Undo::logical(&Waits { own: own.get(), locked: locked.get() })))
        })
        .unwrap();
        *locks.page.lock() = Some(locked);
        clock.0.store(2, Ordering::SeqCst);
        while !locks.is_awaited.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        drop(idle);
        // Without end, if the undo waits on.
        if closes {
            store.close().unwrap()
        } else {
            drop(store)
        }
        let store = Store::open(media(), options(), known()).unwrap();
        assert_eq!(read_number(&store, at(own, 0)).unwrap(), 0, "E16.3");
    }
}

/// E1.8: a thread of the store that drops the last handle within a checkpoint, here in a call of the user's disk.
#[test]
fn checkpointer_closes_no_store_itself() {
    const KIND: &str = "test.note";
    let disk = SimDisk::new();
    let last = Arc::new(Mutex::<Option<Store>>::default());
    let has_closed = Arc::new(AtomicBool::new(false));
    let (taken, closed) = (last.clone(), has_closed.clone());
    disk.before_each_call(move |_, _, _| {
        let is_checkpointer = thread::current().name() == Some("cedrat-checkpoints");
        while is_checkpointer && !closed.load(Ordering::SeqCst) {
            if let Some(store) = taken.lock().take() {
                store.close().expect("it is the last handle");
                closed.store(true, Ordering::SeqCst);
            }
            thread::yield_now();
        }
    });
    let media = || -> Arc<dyn Media> { Arc::new(disk.clone()) };
    let lively = Options { background: true, checkpoint_every_bytes: 16 << 10, ..options() };
    let store = Store::open(media(), lively, registry().record_kind(KIND)).unwrap();
    let mut txn = store.begin();
    for _ in 0..20 {
        txn.log_record(KIND, &[7; 1000]).unwrap();
    }
    txn.commit(Commit::Async).unwrap();
    *last.lock() = Some(store);
    // Without end, if the thread waits for its own checkpoint.
    while !has_closed.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    let reopened = loop {
        match Store::open(media(), options(), registry().record_kind(KIND)) {
            Err(OpenError::InUse { .. }) => thread::yield_now(),
            other => break other,
        }
    };
    assert_eq!(reopened.unwrap().recovery().losers, 0);
}

/// The action of a waker on a store.
type Does = fn(Store, Txn);

/// A waker that ends a transaction.
struct Ends {
    given: Mutex<Option<(Store, Txn)>>,
    does: Does,
    is_done: AtomicBool,
}

impl Wake for Ends {
    fn wake(self: std::sync::Arc<Self>) {
        let (store, txn) = self.given.lock().take().expect("it is woken once");
        (self.does)(store, txn);
        self.is_done.store(true, Ordering::SeqCst);
    }
}

/// E16.8h: the force of a checkpoint makes the ticket ready.
#[test]
fn waker_may_wait_for_a_checkpoint() {
    const KIND: &str = "test.note";
    let ends: [Does; 3] =
        [|_, txn| drop(txn), |_, txn| txn.rollback().unwrap(), |store, _txn| store.checkpoint().unwrap()];
    for does in ends {
        let mut lively = Options { background: true, ..options() };
        // The writers wait for requests: the checkpoint writes the record.
        lively.log.flush_interval_ms = 1 << 32;
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let store = Store::open(media, lively, registry().record_kind(KIND)).unwrap();
        let mut open = store.begin();
        add(&mut open, store.transact(page_with_zeros).unwrap(), 1).unwrap();
        let given = Mutex::new(Some((store.clone(), open)));
        let ends = std::sync::Arc::new(Ends { given, does, is_done: AtomicBool::new(false) });
        // Of a record to come: the request to write finds nothing.
        let next = store.log().ticket(store.log().current_lsn().next());
        let waker = Waker::from(ends.clone());
        assert!(pin!(next).poll(&mut Context::from_waker(&waker)).is_pending());
        let mut txn = store.begin();
        txn.log_record(KIND, &[7; 1000]).unwrap();
        txn.commit(Commit::Async).unwrap();
        while !ends.is_done.load(Ordering::SeqCst) {
            // Without end, if this thread runs the waker.
            store.checkpoint().unwrap();
        }
    }
}
