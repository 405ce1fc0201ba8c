//! Side effects that an opening must not have.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::Sender;
use std::task::{Context, Wake};
use std::time::Duration;

use cedrat_heap::HeapOptions;
use cedrat_media::{Loss, Media, RealDisk, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::{Arc, Mutex, thread};
use cedrat_txn::object_cache::CommitChanges;
use cedrat_txn::{Clock, Commit, Error, FormatFresh, LOCK_FILE, OpenError, Options, RecordId, SetRange, Store};
use cedrat_wal::{ByteLen, Kind, PartitionId, RecordHead, StopReason, TxnId};

use crate::common::*;
use crate::kept::{self, Mix};

/// If no store exists, and none is to be created, nothing is changed (R2).
#[test]
fn opening_a_missing_store_creates_nothing() {
    let looking = || Options { create: false, ..options() };
    let disk = Arc::new(SimDisk::new());
    let error = open_with(&disk, looking()).unwrap_err();
    assert!(is_before_creation(&error), "{error}");
    assert_eq!(disk.journal_len(), 0);

    let outer = tempfile::tempdir().unwrap();
    let directory = outer.path().join("store");
    let media: Arc<dyn Media> = Arc::new(RealDisk::new(&directory));
    assert!(Store::open(Arc::clone(&media), looking(), registry()).is_err());
    assert!(!directory.exists());
}

/// R2, also on a system whose pages of memory are too large, which is refused by the same check.
#[test]
fn invalid_options_create_and_change_nothing() {
    let wrong = || {
        let mut invalid = vec![options(); 5];
        invalid[0].pool_bytes = 4096;
        invalid[1].pool_bytes = u64::MAX;
        invalid[2].pool.pages_max = 0;
        invalid[3].memory.stripes_log2 = 63;
        invalid[4].memory.sessions_max = 0;
        invalid
    };
    let disk = Arc::new(SimDisk::new());
    for exists in [false, true] {
        let before = disk.journal_len();
        for (number, options) in wrong().into_iter().enumerate() {
            open_with(&disk, options).expect_err("an option is invalid");
            assert_eq!(disk.journal_len(), before, "option {number}, there is a store: {exists}");
        }
        drop(open(&disk).unwrap());
    }
}

/// A store that was copied without its lock file can still be opened, and is locked.
#[test]
fn missing_lock_file_is_created() {
    let disk = Arc::new(SimDisk::new());
    drop(open(&disk).unwrap());
    disk.remove(LOCK_FILE).unwrap();
    let store = open_with(&disk, Options { create: false, ..options() }).unwrap();
    assert!(matches!(open(&disk), Err(OpenError::InUse { .. })));
    drop(store);
}

/// Handles of a store's log outlive the store; none of them writes to the files of the next opening (E1.8).
#[test]
fn stale_log_handle_writes_nothing() {
    for is_closed_by_call in [true, false] {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk).unwrap();
        let stale = store.log().clone();
        let mut room = stale.reserve(ByteLen(4000), ByteLen(0)).unwrap();
        let ticket = store.begin().commit(Commit::Async).unwrap();
        if is_closed_by_call {
            store.close().unwrap()
        } else {
            drop(store)
        }

        let store = open(&disk).unwrap();
        let page = store
            .transact(|txn| {
                let page = txn.allocate()?;
                txn.update(RecordId::page(page), &FormatFresh { kind: 1, layout_word: 7 })?;
                txn.update(RecordId::page(page), &SetRange { offset: 0, bytes: (&[9u8][..]).into() })?;
                Ok(page)
            })
            .unwrap();
        let head = RecordHead::new(Kind::COMMIT, TxnId(1), None);
        let dropped = stale.append(PartitionId(0), head, &[b"of the first opening"], &mut room).lsn;
        let stopped = stale.force(dropped).unwrap_err();
        assert!(matches!(*stopped.reason, StopReason::Closed), "E1.8: {stopped}");
        assert!(stale.checkpoint_control(&stale.control().checkpoint).is_err(), "E1.8");
        assert!(ticket.wait().is_ok(), "it was durable when the store was closed");
        drop(store);
        let store = open(&disk).unwrap();
        assert_eq!(store.read(page).unwrap().slice(0..1).unwrap(), [9], "W3: what was acknowledged is there");
        drop(stale);
    }
}

/// Drops the last handle of a store in a call that one of its threads makes, and reports whether that panicked.
#[derive(Debug)]
struct LastOwner {
    store: Mutex<Option<Store>>,
    is_clean: Sender<bool>,
}

impl LastOwner {
    fn drop_it(&self) {
        if let Some(store) = self.store.lock().take() {
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(store)));
            self.is_clean.send(dropped.is_ok()).unwrap();
        }
    }
}

/// As an executor that has ended drops its tasks when they are woken.
impl Wake for LastOwner {
    fn wake(self: Arc<Self>) {
        self.drop_it();
    }
}

impl Clock for LastOwner {
    fn now(&self) -> Duration {
        if thread::current().name() == Some("cedrat-checkpoints") {
            self.drop_it();
        }
        Duration::ZERO
    }
}

/// A thread of the store that drops the last handle cannot wait for itself. The store is closed nevertheless, before another
/// opening gets the directory (E1.8).
#[test]
fn store_thread_may_drop_the_last_handle() {
    for is_woken in [true, false] {
        let (is_clean, dropped) = std::sync::mpsc::channel();
        let owner = Arc::new(LastOwner { store: Mutex::default(), is_clean });
        let clock: Arc<dyn Clock> = Arc::<LastOwner>::clone(&owner);
        let txn_time_limit = Some(Duration::from_millis(1));
        let options = Options { background: true, txn_time_limit, clock, ..options() };
        let disk = Arc::new(SimDisk::new());
        let store = open_with(&disk, options).unwrap();
        let stale = store.log().clone();
        let page = store.transact(page_with_zeros).unwrap();
        let mut txn = store.begin();
        txn.update(at(page, 0), &Add { amount: 3 }).unwrap();
        let mut ticket = txn.commit(Commit::Async).unwrap();
        *owner.store.lock() = Some(store);
        if is_woken {
            let waker = owner.into();
            // If the commit is durable by now, no thread of the store wakes the task.
            if Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)).is_ready() {
                waker.wake_by_ref();
            }
        }
        assert!(dropped.recv().unwrap(), "a thread waited for itself");
        let store = loop {
            match open(&disk) {
                Err(OpenError::InUse { .. }) => thread::yield_now(),
                opened => break opened.unwrap(),
            }
        };
        let stopped = stale.stopped().expect("E1.8: the first opening has ended");
        assert!(matches!(*stopped.reason, StopReason::Closed), "E1.8: {stopped}");
        assert!(ticket.wait().is_ok(), "it was durable when the store was closed");
        assert_eq!(read_number(&store, at(page, 0)).unwrap(), 3);
    }
}

/// If the lock file is deleted while the store is open, it no longer locks anything; the control file does.
#[test]
fn deleted_lock_file_allows_no_second_opening() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let real = |number: usize| Arc::new(RealDisk::new(directories[number].path())) as Arc<dyn Media>;
    let simulated = || Arc::new(SimDisk::new()) as Arc<dyn Media>;
    for (media, exists) in [(simulated(), false), (real(0), false), (simulated(), true), (real(1), true)] {
        if exists {
            drop(Store::open(Arc::clone(&media), options(), registry()).unwrap());
        }
        let store = Store::open(Arc::clone(&media), options(), registry()).unwrap();
        media.remove(LOCK_FILE).unwrap();
        let second = Store::open(Arc::clone(&media), options(), registry());
        assert!(matches!(second, Err(OpenError::InUse { .. })), "E1.8: created before: {exists}");
        drop(store);
        Store::open(media, options(), registry()).unwrap();
    }
}

/// E1.8: changes that outlive their store hold no lock.
#[test]
fn changes_do_not_keep_store_open() {
    let disk = Arc::new(SimDisk::new());
    let media = || Arc::<SimDisk>::clone(&disk) as Arc<dyn Media>;
    let open = || Store::open(media(), options(), kept::register(registry()));
    let mut changes = CommitChanges::new(&open().unwrap());
    let _next = open().expect("the first one was dropped");
    assert!(matches!(changes.push(at(PageId::new(1), 0), &Mix { by: 1 }), Err(Error::Stopped(_))));
}

/// A number of threads that no system has is clamped.
#[test]
fn absurd_number_of_redo_threads_opens() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let words = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(8192) };
    let words = store.memory().create_heap("words", &words).unwrap();
    words.atomically(|tx| tx.write(&words, 8, 7)).unwrap();
    store.transact(|txn| txn.update(at(page, 0), &Add { amount: 3 })).unwrap();
    drop((words, store));
    let disk = Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything));
    let store = open_with(&disk, Options { redo_threads: usize::MAX, ..options() }).unwrap();
    assert_eq!(read_number(&store, at(page, 0)).unwrap(), 3);
    let words = store.memory().heap("words").unwrap();
    assert_eq!(words.atomically(|tx| tx.read(&words, 8)).unwrap(), 7);
}

/// Under the limit of descriptors under which it ran, the store can be opened again.
#[test]
fn opening_takes_no_more_descriptors_than_running() {
    let directory = tempfile::tempdir().unwrap();
    let descriptors = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
        open.filter(|link| std::fs::read_link(link).is_ok_and(|file| file.starts_with(directory.path()))).count()
    };
    let opened = || Store::open(Arc::new(RealDisk::new(directory.path())), options(), registry()).unwrap();
    let store = opened();
    let mut rooms = Vec::new();
    while store.log().space().segments < 40 {
        rooms.push(store.log().reserve(ByteLen(10_000), ByteLen(0)).unwrap());
    }
    let running = descriptors();
    drop((rooms, store));
    assert_eq!(descriptors(), 0, "the store is closed");
    let _store = opened();
    assert!(descriptors() <= running, "{} descriptors, of {running}", descriptors());
}
