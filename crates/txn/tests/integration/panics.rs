//! A program's own code that the engine calls: none of its panics aborts the process, and none is lost; locks are requested
//! without latches.
#![cfg(not(cedrat_shuttle))] // a panic ends a schedule

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use cedrat_media::{Call, Fault, Media, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, thread};
use cedrat_txn::object_cache::{CommitChanges, DeferredChanges, Delta, DeltaRegistry, UnflushedRecords};
use cedrat_txn::{
    Clock, Commit, Deadlock, Error, LockManager, LockMode, LogicalUndo, OpenError, Options, RecordId, Refused,
    Resource, Result, Store, Txn, Undo,
};
use cedrat_wal::{Log, Lsn, TxnId};
use serde::{Deserialize, Serialize, Serializer};

use crate::common::*;
use crate::kept::{self, Mix, Mixed, TestCache, in_page, page_of_records};

/// An undo with a bug.
#[derive(Debug, Serialize, Deserialize)]
struct Panicking;

impl LogicalUndo for Panicking {
    const NAME: &'static str = "test.panicking";

    fn undo(&self, _: &mut Txn) -> Result<()> {
        panic!("this undo panics");
    }
}

fn open_panicking(disk: &Arc<SimDisk>, options: Options) -> Result<Store, OpenError> {
    let media = Arc::<SimDisk>::clone(disk);
    Store::open(media, options, registry().logical::<Panicking>())
}

fn change(txn: &mut Txn, page: PageId) -> Result<()> {
    txn.update_logical(at(page, 0), &Add { amount: 1 }, Undo::logical(&Panicking))
}

/// Returns the message of the panic, if `work` panics.
fn panic_of(work: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(work)).err()?;
    Some(panic.downcast_ref::<&str>().map_or_else(|| "it has no words".to_string(), ToString::to_string))
}

/// A second panic that left a destructor would abort the process.
#[test]
fn undo_that_panics_while_unwinding_stops_store() {
    for nested in [false, true] {
        let disk = Arc::new(SimDisk::new());
        let store = open_panicking(&disk, options()).unwrap();
        let page = store.transact(page_with_zeros).unwrap();
        let panicked = panic_of(|| {
            let mut txn = store.begin();
            if nested {
                let _: Result<()> = txn.nested((), |txn| {
                    change(txn, page)?;
                    panic!("the program panics");
                });
            } else {
                change(&mut txn, page).unwrap();
                panic!("the program panics");
            }
        });
        assert_eq!(panicked.as_deref(), Some("the program panics"));
        assert!(matches!(store.transact(page_with_zeros), Err(Error::Stopped(_))));
        assert_eq!(store.running(), 0);
    }
}

#[test]
fn panic_of_dropped_undo_propagates() {
    let disk = Arc::new(SimDisk::new());
    let store = open_panicking(&disk, options()).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let mut txn = store.begin();
    change(&mut txn, page).unwrap();
    assert_eq!(panic_of(|| drop(txn)).as_deref(), Some("this undo panics"));
    assert!(matches!(store.transact(page_with_zeros), Err(Error::Stopped(_))));
}

/// R5: another program, without the bug, opens the store.
#[test]
fn undo_that_panics_at_opening_writes_nothing() {
    let disk = Arc::new(SimDisk::new());
    let store = open_panicking(&disk, options()).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let mut older = store.begin();
    older.update(at(page, 1), &Add { amount: 1 }).unwrap();
    let mut younger = store.begin();
    change(&mut younger, page).unwrap();
    store.log().force(store.log().current_lsn()).unwrap();
    let crashed = Arc::new(SimDisk::from_image(disk.image()));
    drop(older);
    assert!(panic_of(|| drop(younger)).is_some());
    for _ in 0..2 {
        let opened = panic_of(|| drop(open_panicking(&crashed, options())));
        assert_eq!(opened.as_deref(), Some("this undo panics"));
    }

    #[derive(Debug, Serialize, Deserialize)]
    struct Mended;
    impl LogicalUndo for Mended {
        const NAME: &'static str = Panicking::NAME;
        fn undo(&self, txn: &mut Txn) -> Result<()> {
            txn.update(RecordId::new(PageId::new(2), at(PageId::new(2), 0).slot), &Add { amount: -1 })
        }
    }
    let media = Arc::<SimDisk>::clone(&crashed);
    let store = Store::open(media, options(), registry().logical::<Mended>()).unwrap();
    assert_eq!(numbers(&store, page), [0; 4]);
}

/// Repeats `change`, which may panic, until the store has stopped. Returns whether it has within 20 seconds: the thread that stops
/// it first prints the stack of its panic, which takes a second or more.
fn stops(mut change: impl FnMut(usize) -> Result<()>) -> bool {
    let begun = Instant::now();
    (0..).take_while(|_| begun.elapsed() < Duration::from_secs(20)).any(|turn| {
        thread::yield_now();
        matches!(catch_unwind(AssertUnwindSafe(|| change(turn))), Ok(Err(Error::Stopped(_))))
    })
}

/// If a thread of the store panics, the store stops: without the checkpointer the log fills up, and without the cleaner
/// page writes stay half done.
#[test]
fn background_thread_that_panics_stops_store() {
    for (file, pool_bytes, checkpoint_every_bytes) in [("control", 64 << 20, 1), ("double-write", 32 * 4096, u64::MAX)]
    {
        let disk = Arc::new(SimDisk::new());
        let options = Options { background: true, checkpoint_every_bytes, pool_bytes, ..options() };
        let store = open_panicking(&disk, options).unwrap();
        let pages: Vec<PageId> = (0..60).map(|_| store.transact(page_with_zeros).unwrap()).collect();
        disk.inject(Fault::panic(Call::Write).of(file).permanent());
        // Each commit triggers the checkpointer, or dirties a page for the cleaner.
        let stopped = stops(|turn| {
            let mut txn = store.begin();
            txn.update(at(pages[turn % pages.len()], 0), &Add { amount: 1 })?;
            txn.commit(Commit::Async).map(drop)
        });
        assert!(stopped, "the thread that writes to {file} has panicked, and the store goes on");
        disk.clear_faults();
    }
}

/// A clock that panics in the checkpointer.
#[derive(Debug)]
struct Stuck;

impl Clock for Stuck {
    fn now(&self) -> Duration {
        assert_ne!(thread::current().name(), Some("cedrat-checkpoints"), "this clock panics");
        Duration::ZERO
    }
}

/// The checkpointer panics at a point where no other guard stops the store.
#[test]
fn checkpointer_that_panics_stops_store() {
    let disk = Arc::new(SimDisk::new());
    let (clock, limit) = (Arc::new(Stuck), Some(Duration::from_secs(10)));
    let options = Options { background: true, checkpoint_every_bytes: 1, txn_time_limit: limit, clock, ..options() };
    let store = open_panicking(&disk, options).unwrap();
    // It may panic as soon as the first record is in the log.
    let stopped = stops(|_| store.transact(page_with_zeros).map(drop));
    assert!(stopped, "E16.5: the checkpointer has panicked, and the store goes on");
}

/// An undo that fails.
#[derive(Debug, Serialize, Deserialize)]
struct Failing;

impl LogicalUndo for Failing {
    const NAME: &'static str = "test.failing";

    fn undo(&self, _: &mut Txn) -> Result<()> {
        Err(Error::user("this undo fails"))
    }
}

/// The undo of the younger loser fails. The older one, not yet processed, is left as it is.
#[test]
fn failed_opening_rolls_back_no_other_loser() {
    let disk = Arc::new(SimDisk::new());
    let open = |disk: &Arc<SimDisk>| {
        let media = Arc::<SimDisk>::clone(disk);
        Store::open(media, options(), registry().logical::<Failing>())
    };
    let store = open(&disk).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let mut older = store.begin();
    let undo = Undo::logical(&SubtractTen { page: page.get(), slot: 1 });
    older.update_logical(at(page, 1), &Add { amount: 10 }, undo).unwrap();
    let mut younger = store.begin();
    younger.update_logical(at(page, 0), &Add { amount: 1 }, Undo::logical(&Failing)).unwrap();
    store.log().force(store.log().current_lsn()).unwrap();
    let crashed = Arc::new(SimDisk::from_image(disk.image()));
    drop((older, younger));
    let records = || {
        let media: Arc<dyn Media> = Arc::<SimDisk>::clone(&crashed);
        let mut scan = Log::look(&media).unwrap().scan(Lsn::ZERO).unwrap();
        let mut count = 0;
        while scan.next().unwrap().is_some() {
            count += 1;
        }
        count
    };
    let before = records();
    let error = open(&crashed).unwrap_err().to_string();
    assert!(error.contains("this undo fails"), "{error}");
    assert_eq!(records(), before, "E5.3");
}

/// A lock manager that reads each page before it locks it.
#[derive(Debug, Default)]
struct Reader(std::sync::OnceLock<Store>);

impl LockManager for Reader {
    fn lock(&self, _: TxnId, of: Resource, _: LockMode) -> Result<(), Deadlock> {
        if let (Some(store), Resource::Page(page)) = (self.0.get(), of) {
            drop(store.read(page).unwrap());
        }
        Ok(())
    }

    fn ended(&self, _: TxnId) {}
}

/// E13.1.
#[test]
fn lock_manager_is_called_without_latches() {
    let locks = Arc::new(Reader::default());
    let (store, page) = store_with(Options { locks: Arc::<Reader>::clone(&locks), ..options() }, registry());
    locks.0.set(store.clone()).unwrap();
    store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
    assert_eq!(numbers(&store, page)[0], 1);
}

/// E13.5: in builds that check, a thread that waits for log space under a page latch panics. Of many updates some find that
/// their transaction has used its space.
#[test]
fn log_space_is_awaited_without_latches() {
    let (store, page) = store_with(options(), registry());
    store.transact(|txn| (0..300).try_for_each(|_| txn.update(at(page, 0), &Add { amount: 1 }))).unwrap();
    assert_eq!(numbers(&store, page)[0], 300);
    #[cfg(debug_assertions)]
    {
        let _held = store.read(page).unwrap();
        let waits = || cedrat_pages::assert_no_page_latch("log space");
        let message = *catch_unwind(waits).unwrap_err().downcast::<String>().unwrap();
        assert!(message.starts_with("E13.5: log space must not be waited for while holding the"), "{message}");
    }
}

/// A delta whose second argument cannot be encoded.
#[derive(Debug, Serialize, Deserialize)]
struct Unencodable {
    first: u64,
    #[serde(serialize_with = "panic_in_encoding")]
    second: u64,
}

fn panic_in_encoding<S: Serializer>(_: &u64, _: S) -> Result<S::Ok, S::Error> {
    panic!("this encoding panics");
}

impl Delta for Unencodable {
    const NAME: &'static str = "test.unencodable";

    fn apply(&self, _: &mut [u8]) -> Result<(), Refused> {
        Ok(())
    }
}

/// E19.15: what a commit record does not accept leaves nothing in it, also if the program goes on after the panic or error.
#[test]
fn commit_record_has_no_half_change() {
    let disk = Arc::new(SimDisk::new());
    let open = |disk: &Arc<SimDisk>| {
        let registry = kept::register(registry()).delta::<Unencodable>();
        Store::open(Arc::<SimDisk>::clone(disk), options(), registry).unwrap()
    };
    let store = open(&disk);
    let page = store.transact(|txn| page_of_records(txn, 2)).unwrap();
    let keeper = store.keep_log_for(TestCache::new(0));
    let mut changes = CommitChanges::new(&store);
    let unencodable = Unencodable { first: 1, second: 2 };
    let panicked = panic_of(|| drop(changes.push(at(page, 0), &unencodable)));
    assert_eq!(panicked.as_deref(), Some("this encoding panics"));
    changes.push(at(page, 0), &Mix { by: 7 }).unwrap();
    let twice = changes.push(at(page, 0), &Mix { by: 8 });
    assert!(matches!(twice, Err(Error::Misuse(_))));
    let mut txn = store.begin();
    txn.commit_with_changes(&keeper, &mut changes, Commit::Sync, |_| Some(()), |(), _, _| ()).unwrap().unwrap();
    let crashed = Arc::new(disk.journal().crash(disk.journal_len(), cedrat_media::Loss::Everything));
    let store = open(&crashed);
    let mut once = Mixed::default();
    once.mix(7);
    let found = [0, 1].map(|slot| in_page(&store, at(page, slot)).unwrap().0.unwrap());
    assert_eq!(found, [once, Mixed::default()]);
}

/// A lock manager that panics when it is asked for the locks of a transaction that prepares, or when it has prepared.
#[derive(Debug, Default)]
struct PanicsOnce {
    in_held: AtomicBool,
    in_prepared: AtomicBool,
}

impl LockManager for PanicsOnce {
    fn lock(&self, _: TxnId, _: Resource, _: LockMode) -> Result<(), Deadlock> {
        Ok(())
    }

    fn held(&self, _: TxnId) -> Vec<(Resource, LockMode)> {
        assert!(!self.in_held.swap(false, Ordering::Relaxed), "the lock manager panics");
        Vec::new()
    }

    fn prepared(&self, _: TxnId) {
        assert!(!self.in_prepared.swap(false, Ordering::Relaxed), "the lock manager panics");
    }

    fn ended(&self, _: TxnId) {}
}

/// The identifier is free after a panic before the transaction is prepared, and names the branch after one behind it.
#[test]
fn panic_in_prepare_frees_the_identifier() {
    let locks = Arc::new(PanicsOnce::default());
    let (store, page) = store_with(Options { locks: Arc::<PanicsOnce>::clone(&locks), ..options() }, registry());
    let prepare = || {
        let mut txn = store.begin();
        txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
        txn.prepare(b"branch")
    };
    locks.in_held.store(true, Ordering::Relaxed);
    assert!(panic_of(|| drop(prepare())).is_some());
    assert_eq!((store.running(), store.in_doubt().unwrap().len(), numbers(&store, page)[0]), (0, 0, 0));
    locks.in_prepared.store(true, Ordering::Relaxed);
    assert!(panic_of(|| drop(prepare())).is_some(), "E9.8: the identifier is not free");
    assert_eq!((store.running(), store.in_doubt().unwrap().len(), numbers(&store, page)[0]), (1, 1, 1));
    store.prepared(b"branch").expect("no other handle has it").commit(Commit::Sync).unwrap();
    assert!(prepare().is_ok());
}

/// A sequence whose transaction was moved out can be neither ended nor undone under its latches.
#[test]
fn exchanged_transaction_stops_store() {
    type Work = fn(&mut Txn) -> Result<()>;
    let works: [Work; 3] = [|_| Ok(()), |_| Err(Error::user("it fails")), |_| panic!("it panics")];
    for work in works {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk).unwrap();
        let page = store.transact(page_with_zeros).unwrap();
        let (mut txn, mut other) = (store.begin(), store.begin());
        let ran = catch_unwind(AssertUnwindSafe(|| {
            txn.nested((), |txn| {
                txn.update(at(page, 0), &Add { amount: 1 })?;
                std::mem::swap(txn, &mut other);
                work(txn).map(|()| ((), Undo::none()))
            })
        }));
        assert!(ran.is_err());
        assert!(matches!(other.commit(Commit::Sync), Err(Error::Stopped(_))), "it is half done");
        assert!(matches!(txn.commit(Commit::Sync), Err(Error::Stopped(_))));
        drop(store);
        assert_eq!(numbers(&open(&disk).unwrap(), page), [0; 4]);
    }
}

/// The store whose sequence is half done stops, and not that of the transaction in its place.
#[test]
fn exchange_between_stores_stops_one() {
    let disk = Arc::new(SimDisk::new());
    let (store, other_store) = (open(&disk).unwrap(), open(&Arc::new(SimDisk::new())).unwrap());
    let page = store.transact(page_with_zeros).unwrap();
    let other_page = other_store.transact(page_with_zeros).unwrap();
    let (mut txn, mut other) = (store.begin(), other_store.begin());
    let ran = catch_unwind(AssertUnwindSafe(|| {
        txn.nested((), |txn| {
            txn.update(at(page, 0), &Add { amount: 1 })?;
            std::mem::swap(txn, &mut other);
            txn.update(at(other_page, 1), &Add { amount: 2 })?;
            Ok(((), Undo::none()))
        })
    }));
    assert!(ran.is_err());
    assert!(matches!(store.begin().update(at(page, 1), &Add { amount: 1 }), Err(Error::Stopped(_))), "E13.4");
    assert!(matches!(other.commit(Commit::Sync), Err(Error::Stopped(_))), "it is half done");
    txn.commit(Commit::Sync).unwrap();
    assert_eq!(numbers(&other_store, other_page), [0, 2, 0, 0]);
    drop(store);
    assert_eq!(numbers(&open(&disk).unwrap(), page), [0; 4]);
}

#[test]
fn exchange_within_a_call_harms_nothing() {
    let store = open(&Arc::new(SimDisk::new())).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let (mut txn, mut other) = (store.begin(), store.begin());
    let swap = |txn: &mut Txn| {
        txn.update(at(page, 0), &Add { amount: 1 })?;
        std::mem::swap(txn, &mut other);
        Ok(())
    };
    txn.as_one_call(swap).unwrap();
    other.update(at(page, 2), &Add { amount: 1 }).unwrap();
    other.commit(Commit::Sync).unwrap();
    txn.commit(Commit::Sync).unwrap();
    assert_eq!(numbers(&store, page), [1, 0, 1, 0]);
}
