//! The end of a store beside the rollbacks of its own threads.

mod common;

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
use common::*;
use serde::{Deserialize, Serialize};

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
        if is_free { Ok(()) } else { Err(Deadlock { txn, resource, of_own_thread: None }) }
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

/// A waker that waits until it is released.
#[derive(Default)]
struct Lingers {
    has_begun: AtomicBool,
    is_released: AtomicBool,
}

impl Wake for Lingers {
    fn wake(self: std::sync::Arc<Self>) {
        self.has_begun.store(true, Ordering::SeqCst);
        while !self.is_released.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    }
}

/// A waker that closes a store.
#[derive(Default)]
struct Closes {
    store: Mutex<Option<Store>>,
    has_closed: AtomicBool,
}

impl Wake for Closes {
    fn wake(self: std::sync::Arc<Self>) {
        let store = self.store.lock().take().expect("it is woken once");
        store.close().expect("it is the last handle");
        self.has_closed.store(true, Ordering::SeqCst);
    }
}

/// E1.8: the force of a checkpoint wakes a task that owns the last handle.
#[test]
fn checkpointer_closes_no_store_itself() {
    const KIND: &str = "test.note";
    const CHECKPOINTER: Option<&str> = Some("cedrat-checkpoints");
    let disk = SimDisk::new();
    let may_checkpoint = Arc::new(AtomicBool::new(false));
    let may = may_checkpoint.clone();
    disk.before_each_call(move |_, _, _| {
        while thread::current().name() == CHECKPOINTER && !may.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    });
    let media = || -> Arc<dyn Media> { Arc::new(disk.clone()) };
    let mut lively = Options { background: true, checkpoint_every_bytes: 16 << 10, ..options() };
    // The writer waits for requests.
    lively.log.flush_interval_ms = 1 << 32;
    let store = Store::open(media(), lively, registry().record_kind(KIND)).unwrap();
    let write = |len| {
        let mut txn = store.begin();
        for _ in 0..len / 1000 {
            txn.log_record(KIND, &[7; 1000]).unwrap();
        }
        txn.commit(Commit::Async).unwrap()
    };
    let poll =
        |ticket: cedrat_wal::Ticket, waker: &Waker| pin!(ticket).poll(&mut Context::from_waker(waker)).is_pending();
    let lingers = std::sync::Arc::new(Lingers::default());
    assert!(poll(write(1000), &lingers.clone().into()));
    while !lingers.has_begun.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    // The writer is busy. The checkpointer will write this record.
    let closes = std::sync::Arc::new(Closes::default());
    assert!(poll(store.log().ticket(store.log().current_lsn().next()), &closes.clone().into()));
    drop(write(20_000));
    *closes.store.lock() = Some(store);
    may_checkpoint.store(true, Ordering::SeqCst);
    // Without end, if the thread waits for its own checkpoint.
    while !closes.has_closed.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    lingers.is_released.store(true, Ordering::SeqCst);
    let reopened = loop {
        match Store::open(media(), options(), registry().record_kind(KIND)) {
            Err(OpenError::InUse { .. }) => thread::yield_now(),
            other => break other,
        }
    };
    assert_eq!(reopened.unwrap().recovery().losers, 0);
}
