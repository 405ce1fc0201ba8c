//! An idle, a prepared and a slow transaction among many: writers continue for many lengths of the log (E16.3, E16.8,
//! E9.13).

use std::sync::Barrier;
use std::time::Duration;

use cedrat_heap::HeapOptions;
use cedrat_media::{Loss, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, thread};
use cedrat_txn::locks::{LockManager, LockMode, Resource};
use cedrat_txn::{
    Clock, Commit, Error, LogicalUndo, NoLocks, Options, PageLocks, Prepared, Result, Store, Txn, Undo, Vote,
};
use serde::{Deserialize, Serialize};

use crate::common::*;

const LENGTHS: u64 = 4;

const KIND: &str = "test.filling";

/// A log of a few hundred KiB: one record of a writer takes a noticeable part of it.
fn small() -> Options {
    let mut options = options();
    options.log_limit_bytes = 24 * options.segment_len;
    options
}

fn open_small(disk: &Arc<SimDisk>, options: Options) -> Store {
    let media: Arc<dyn cedrat_media::Media> = Arc::<SimDisk>::clone(disk);
    Store::open(media, options, registry().record_kind(KIND)).unwrap()
}

fn store(options: Options) -> (Arc<SimDisk>, Store, [PageId; 3]) {
    let disk = Arc::new(SimDisk::new());
    let store = open_small(&disk, options);
    let pages = [(); 3].map(|()| store.transact(page_with_zeros).unwrap());
    (disk, store, pages)
}

/// Writes this many lengths of the log, in many transactions.
fn write(store: &Store, lengths: u64) -> Result<()> {
    let bytes = [7; 2000];
    for _ in 0..lengths * small().log_limit_bytes / 2000 {
        let mut txn = store.begin();
        txn.log_record(KIND, &bytes)?;
        txn.commit(Commit::NoFlush)?;
    }
    Ok(())
}

fn add(txn: &mut Txn, page: PageId, amount: i64) -> Result<()> {
    txn.update(at(page, 0), &Add { amount })
}

fn add_logically(txn: &mut Txn, page: PageId, amount: i64) -> Result<()> {
    txn.nested((), |txn| {
        add(txn, page, amount)?;
        Ok(((), Undo::logical(&Subtract { page: page.get(), slot: 0, amount })))
    })
}

fn values(store: &Store, pages: &[PageId]) -> Vec<i64> {
    pages.iter().map(|&page| read_number(store, at(page, 0)).unwrap()).collect()
}

fn is_over_limit(result: &Result<()>) -> bool {
    matches!(result, Err(Error::PinsLog { pinned_bytes, limit_bytes, .. }) if pinned_bytes > limit_bytes)
}

fn prepare(txn: Txn, id: &[u8]) -> Prepared {
    match txn.prepare(id).unwrap() {
        Vote::Prepared(prepared) => prepared,
        Vote::ReadOnly => panic!("it has changed something"),
    }
}

/// Returns the disk of the next opening, without the bytes that were not durable.
fn after_a_crash(disk: &SimDisk) -> Arc<SimDisk> {
    Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything))
}

#[test]
fn idle_transaction_is_rolled_back_by_store() {
    let (_disk, store, pages) = store(small());
    let mut idle = store.begin();
    add(&mut idle, pages[0], 1).unwrap();
    add_logically(&mut idle, pages[1], 10).unwrap();
    let freed = store.transact(page_with_zeros).unwrap();
    idle.free(freed).unwrap();
    let savepoint = idle.savepoint();
    add(&mut idle, pages[0], 100).unwrap();
    write(&store, LENGTHS).unwrap();
    assert_eq!((store.running(), values(&store, &pages)), (0, vec![0; 3]), "E16.3");
    // Its locks are free, and the page was not freed.
    store.transact(|txn| add(txn, pages[0], 5)).unwrap();
    store.transact(|txn| add(txn, freed, 5)).unwrap();
    let id = idle.id();
    for _ in 0..2 {
        let outcome = add(&mut idle, pages[0], 1);
        assert!(is_over_limit(&outcome) && outcome.unwrap_err().to_string().contains(&id.to_string()));
    }
    assert!(is_over_limit(&idle.rollback_to(savepoint)));
    assert!(idle.read(pages[0]).is_err() && idle.commit(Commit::Sync).is_err());
    assert_eq!(values(&store, &pages), [5, 0, 0]);
    store.check().unwrap();
    assert_eq!(store.log().space().overdrawn.0, 0, "E16.1");
}

#[test]
fn idle_transaction_inside_nested_is_rolled_back() {
    let (_disk, store, pages) = store(small());
    let mut idle = store.begin();
    add(&mut idle, pages[0], 1).unwrap();
    for inner_returns in [true, false] {
        let done = idle.nested_transaction(|txn| {
            add_logically(txn, pages[1], 10)?;
            add(txn, pages[2], 100)?;
            write(&store, LENGTHS)?;
            assert_eq!((store.running(), values(&store, &pages)), (0, vec![0; 3]), "E16.3");
            if inner_returns { Ok(()) } else { add(txn, pages[2], 1) }
        });
        assert!(is_over_limit(&done), "{inner_returns}");
        drop(std::mem::replace(&mut idle, store.begin()));
    }
    store.check().unwrap();
}

/// While a nested top action runs, its structure's latches are held: the transaction rolls back after the action has
/// ended.
#[test]
fn nested_top_action_is_not_interrupted() {
    let (_disk, store, pages) = store(small());
    let mut slow = store.begin();
    add(&mut slow, pages[0], 1).unwrap();
    slow.nested((), |txn| {
        add(txn, pages[1], 10)?;
        // This thread rolls nothing back, since it may hold latches (E16.8g).
        let full = std::thread::scope(|scope| scope.spawn(|| write(&store, LENGTHS)).join()).unwrap().unwrap_err();
        assert!(matches!(full, Error::LogFull { oldest: Some(oldest), .. } if oldest == txn.id()), "{full}");
        assert_eq!(values(&store, &pages), [1, 10, 0], "E16.8");
        Ok(((), Undo::logical(&Subtract { page: pages[1].get(), slot: 0, amount: 10 })))
    })
    .unwrap();
    write(&store, LENGTHS).unwrap();
    assert_eq!((store.running(), values(&store, &pages)), (0, vec![0; 3]));
    assert!(is_over_limit(&add(&mut slow, pages[0], 1)));
}

#[test]
fn slow_transaction_rolls_back_reader_continues() {
    let (_disk, store, pages) = store(small());
    let reader = store.begin();
    drop(reader.read(pages[2]).unwrap());
    let mut slow = store.begin();
    let mut outcome = Ok(());
    for _ in 0..8 * LENGTHS {
        outcome = outcome.and_then(|()| add(&mut slow, pages[0], 1));
        for _ in 0..small().log_limit_bytes / 2000 / 8 {
            store.transact(|txn| txn.log_record(KIND, &[7; 2000]).map(drop)).unwrap();
        }
    }
    assert!(is_over_limit(&outcome));
    assert_eq!(values(&store, &pages), [0; 3]);
    drop(reader.read(pages[2]).unwrap());
    reader.commit(Commit::Sync).unwrap();
}

#[derive(Debug, Default)]
struct ByHand(AtomicU64);

impl Clock for ByHand {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Returns options with a time limit, their clock, and their lock manager.
fn timed() -> (Options, Arc<ByHand>, Arc<PageLocks>) {
    let (clock, locks) = (Arc::new(ByHand::default()), Arc::new(PageLocks::default()));
    let options = Options { txn_time_limit: Some(TIME_LIMIT), ..small() };
    let by_hand: Arc<dyn Clock> = clock.clone();
    (Options { clock: by_hand, locks: locks.clone(), ..options }, clock, locks)
}

/// Lets a transaction wait for the lock of a page, and returns when it does.
fn waiting_for(mut waits: Txn, locks: &PageLocks, page: PageId) -> thread::JoinHandle<Result<()>> {
    let blocked = locks.counts().blocked;
    let waiting = thread::spawn(move || add(&mut waits, page, 1));
    while locks.counts().blocked == blocked {
        thread::yield_now();
    }
    waiting
}

/// E16.3.
#[test]
fn transaction_over_time_limit_is_rolled_back() {
    let (options, clock, _) = timed();
    let (_disk, store, pages) = store(options);
    let [mut old, mut young] = [(); 2].map(|()| store.begin());
    add(&mut old, pages[0], 1).unwrap();
    clock.0.store(9, Ordering::SeqCst);
    add(&mut young, pages[1], 1).unwrap();
    assert_eq!(store.enforce_limits().unwrap(), 0);
    clock.0.store(11, Ordering::SeqCst);
    assert_eq!(store.enforce_limits().unwrap(), 1);
    let outcome = add(&mut old, pages[0], 1).unwrap_err();
    assert!(
        matches!(outcome, Error::TimeLimit { age, limit: of, .. } if age.as_secs() == 11 && of == TIME_LIMIT),
        "{outcome}"
    );
    add(&mut young, pages[1], 1).unwrap();
    young.commit(Commit::Sync).unwrap();
    assert_eq!(values(&store, &pages), [0, 2, 0]);
}

/// E16.3d: it has locks and no record.
#[test]
fn reader_over_time_limit_is_rolled_back() {
    let (options, clock, locks) = timed();
    let (_disk, store, pages) = store(options);
    let [old, young] = [0, 9].map(|second| {
        clock.0.store(second, Ordering::SeqCst);
        let reader = store.begin();
        drop(reader.read(pages[0]).unwrap());
        reader
    });
    let waiting = waiting_for(store.begin(), &locks, pages[0]);
    clock.0.store(11, Ordering::SeqCst);
    assert_eq!(store.enforce_limits().unwrap(), 1);
    young.commit(Commit::Sync).unwrap();
    waiting.join().unwrap().unwrap();
    for outcome in
        [old.read(pages[0]).map(drop), old.read_latched(pages[1]).map(drop), old.commit(Commit::Sync).map(drop)]
    {
        assert!(matches!(outcome, Err(Error::TimeLimit { age, .. }) if age.as_secs() == 11), "{outcome:?}");
    }
    assert_eq!(locks.locked(), 0, "no transaction runs, so no lock is held");
}

/// E16.3d: the time of a transaction begins with its first lock, whatever it does later, and ends with it.
#[test]
fn time_begins_with_first_lock() {
    let (options, clock, locks) = timed();
    let (_disk, store, pages) = store(options);
    let mut changes = store.begin();
    drop(changes.read(pages[0]).unwrap());
    let ended = store.begin();
    drop(ended.read(pages[1]).unwrap());
    ended.commit(Commit::Sync).unwrap();
    clock.0.store(6, Ordering::SeqCst);
    add(&mut changes, pages[0], 1).unwrap();
    assert_eq!(store.enforce_limits().unwrap(), 0);
    clock.0.store(11, Ordering::SeqCst);
    assert_eq!(store.enforce_limits().unwrap(), 1);
    assert!(matches!(changes.commit(Commit::Sync), Err(Error::TimeLimit { .. })));
    assert_eq!((values(&store, &pages), locks.locked()), (vec![0; 3], 0));
}

/// E16.3d: a reader that is rolled back while it waits for a lock leaves none behind.
#[test]
fn waiting_reader_leaves_no_lock() {
    let (options, clock, locks) = timed();
    let (_disk, store, pages) = store(options);
    let waits = store.begin();
    drop(waits.read(pages[0]).unwrap());
    clock.0.store(9, Ordering::SeqCst);
    let mut holds = store.begin();
    add(&mut holds, pages[1], 1).unwrap();
    let waiting = waiting_for(waits, &locks, pages[1]);
    clock.0.store(11, Ordering::SeqCst);
    assert_eq!(store.enforce_limits().unwrap(), 1);
    store.transact(|txn| add(txn, pages[0], 1)).unwrap();
    holds.commit(Commit::Sync).unwrap();
    assert!(matches!(waiting.join().unwrap(), Err(Error::TimeLimit { .. })));
    assert_eq!((values(&store, &pages), locks.locked()), (vec![1, 1, 0], 0));
}

/// A transaction that waits for a branch, which may take days, holds the log no longer than others, and gets no lock
/// after its rollback.
#[test]
fn rolled_back_waiter_gets_no_lock() {
    let (_disk, store, pages) = store(small());
    let mut txn = store.begin();
    add(&mut txn, pages[0], 1).unwrap();
    let branch = prepare(txn, b"branch");
    let mut waits = store.begin();
    add(&mut waits, pages[1], 1).unwrap();
    let waiting = thread::spawn(move || add(&mut waits, pages[0], 1));
    while store.running() > 1 {
        write(&store, 1).unwrap();
    }
    assert_eq!(values(&store, &pages), [1, 0, 0], "E16.3");
    branch.commit(Commit::Sync).unwrap();
    assert!(is_over_limit(&waiting.join().unwrap()));
    store.transact(|txn| pages.iter().try_for_each(|&page| add(txn, page, 1))).unwrap();
    assert_eq!(values(&store, &pages), [2, 1, 1]);
}

/// A transaction that waits for a stronger mode of a lock that it holds is rolled back; the grant that comes later leaves no
/// lock without an owner.
#[test]
fn upgrade_after_rollback_leaves_no_lock() {
    let (options, clock, locks) = timed();
    let (_disk, store, pages) = store(options);
    let mut waits = store.begin();
    add(&mut waits, pages[1], 1).unwrap();
    clock.0.store(9, Ordering::SeqCst);
    let reader = store.begin();
    drop(reader.read(pages[0]).unwrap());
    drop(waits.read(pages[0]).unwrap());
    let waiting = waiting_for(waits, &locks, pages[0]);
    clock.0.store(11, Ordering::SeqCst);
    assert_eq!(store.enforce_limits().unwrap(), 1, "E16.3");
    reader.commit(Commit::Sync).unwrap();
    assert!(matches!(waiting.join().unwrap(), Err(Error::TimeLimit { .. })));
    assert_eq!(locks.locked(), 0, "E16.3: no transaction runs, so no lock is held");
}

/// A transaction that its own call has rolled back has nothing to go back to; the store goes on.
#[test]
fn savepoint_after_own_rollback_is_refused() {
    let (_disk, store, pages) = store(small());
    let mut writer = store.begin();
    add(&mut writer, pages[0], 1).unwrap();
    let savepoint = writer.savepoint();
    let over = loop {
        if let Err(over) = writer.log_record(KIND, &[7; 2000]) {
            break Err(over);
        }
    };
    assert!(is_over_limit(&over), "{over:?}");
    assert!(writer.rollback_to(savepoint).is_err());
    assert!(writer.commit(Commit::Sync).is_err());
    store.transact(|txn| add(txn, pages[1], 5)).unwrap();
    assert_eq!(values(&store, &pages), [0, 5, 0]);
}

/// Reached twice by an undo: as it begins, and before it ends.
static UNDO: Barrier = Barrier::new(2);

/// An undo that takes long.
#[derive(Debug, Serialize, Deserialize)]
struct TakesLong;

impl LogicalUndo for TakesLong {
    const NAME: &'static str = "test.takes-long";

    fn undo(&self, _: &mut Txn) -> Result<()> {
        UNDO.wait();
        UNDO.wait();
        Ok(())
    }
}

/// The owner of a transaction that the store is rolling back gets the lock that it waits for. Until everything is undone, no
/// other transaction gets a lock of it: undo would overwrite its changes.
#[test]
fn taken_transaction_keeps_locks_until_undone() {
    let (options, clock, locks) = timed();
    let registry = registry().logical::<TakesLong>();
    let store = Store::open(Arc::new(SimDisk::new()), options, registry).unwrap();
    let pages = [(); 2].map(|()| store.transact(page_with_zeros).unwrap());
    let mut waits = store.begin();
    add(&mut waits, pages[0], 1).unwrap();
    waits.nested((), |_| Ok(((), Undo::logical(&TakesLong)))).unwrap();
    clock.0.store(9, Ordering::SeqCst);
    let reader = store.begin();
    drop(reader.read(pages[1]).unwrap());
    let waiting = waiting_for(waits, &locks, pages[1]);
    clock.0.store(11, Ordering::SeqCst);
    let enforcing = {
        let store = store.clone();
        thread::spawn(move || store.enforce_limits().unwrap())
    };
    UNDO.wait();
    reader.commit(Commit::Sync).unwrap();
    assert!(matches!(waiting.join().unwrap(), Err(Error::TimeLimit { .. })));
    let other = store.begin();
    let is_locked = !locks.try_lock(other.id(), Resource::Page(pages[0]), LockMode::Exclusive);
    UNDO.wait();
    assert_eq!(enforcing.join().unwrap(), 1);
    assert!(is_locked, "E16.8: its change of the page is not undone yet");
    drop(other);
    assert_eq!(locks.locked(), 0, "E16.3: no transaction runs, so no lock is held");
    assert_eq!(values(&store, &pages), [0; 2]);
}

/// An undo that fails.
#[derive(Debug, Serialize, Deserialize)]
struct Fails;

impl LogicalUndo for Fails {
    const NAME: &'static str = "test.fails";

    fn undo(&self, _: &mut Txn) -> Result<()> {
        Err(Error::Misuse("this undo fails"))
    }
}

/// A commit that has happened returns no error of the rollback of another transaction, which it has found over its limit.
#[test]
fn commit_returns_no_error_of_other_rollback() {
    let disk = Arc::new(SimDisk::new());
    let media: Arc<dyn cedrat_media::Media> = Arc::<SimDisk>::clone(&disk);
    let store = Store::open(media, small(), registry().record_kind(KIND).logical::<Fails>()).unwrap();
    let pages = [(); 2].map(|()| store.transact(page_with_zeros).unwrap());
    let mut idle = store.begin();
    idle.nested((), |txn| {
        add(txn, pages[0], 1)?;
        Ok(((), Undo::logical(&Fails)))
    })
    .unwrap();
    while !store.log().is_stopped() {
        let mut txn = store.begin();
        txn.log_record(KIND, &[7; 2000]).unwrap();
        add(&mut txn, pages[1], 1).unwrap();
        txn.commit(Commit::Sync).unwrap();
    }
    assert!(matches!(store.transact(|txn| add(txn, pages[1], 1)), Err(Error::Stopped(_))), "E16.3");
}

/// A prepared transaction with the longest record that the log takes holds no log either.
#[test]
fn longest_record_of_branch_is_carried() {
    let (_disk, store, pages) = store(small());
    let mut txn = store.begin();
    add(&mut txn, pages[0], 1).unwrap();
    let mut len = store.log().body_len_max();
    while txn.log_record(KIND, &vec![1; len]).is_err() {
        len -= 1;
    }
    let branch = prepare(txn, b"branch");
    write(&store, 2 * LENGTHS).unwrap();
    store.checkpoint().expect("E9.13");
    branch.commit(Commit::Sync).unwrap();
}

/// A prepared transaction has no limit, and does not protect others from theirs.
#[test]
fn branch_neither_pins_log_nor_shields_younger() {
    for is_dropped in [false, true] {
        let (disk, store, pages) = store(small());
        let mut txn = store.begin();
        add(&mut txn, pages[0], 1).unwrap();
        add_logically(&mut txn, pages[0], 10).unwrap();
        let freed = store.transact(page_with_zeros).unwrap();
        txn.free(freed).unwrap();
        let branch = prepare(txn, b"branch");
        let branch = if is_dropped {
            drop(branch);
            None
        } else {
            Some(branch)
        };
        let mut idle = store.begin();
        add(&mut idle, pages[1], 1).unwrap();
        write(&store, LENGTHS).unwrap();
        assert_eq!((store.running(), values(&store, &pages)), (1, vec![11, 0, 0]), "E9.13");
        assert!(is_over_limit(&add(&mut idle, pages[1], 1)));
        drop((branch, idle));
        drop(store);
        ends_either_way(&disk, &pages, 1);
    }
}

/// Opens the store after a crash, writes more, opens it once more, and ends all branches.
fn ends_either_way(disk: &SimDisk, pages: &[PageId], branches: usize) {
    for commits in [false, true] {
        let disk = after_a_crash(disk);
        let store = open_small(&disk, small());
        let before = values(&store, pages);
        assert_eq!(store.in_doubt().unwrap().len(), branches);
        write(&store, LENGTHS).unwrap();
        let store = open_small(&after_a_crash(&disk), small());
        assert_eq!(values(&store, pages), before);
        for branch in store.in_doubt().unwrap() {
            let branch = store.prepared(&branch.id).unwrap();
            if commits { branch.commit(Commit::Sync).map(drop).unwrap() } else { branch.rollback().unwrap() }
        }
        let expected: Vec<i64> = if commits { before } else { vec![0; pages.len()] };
        assert_eq!((store.running(), values(&store, pages)), (0, expected.clone()), "E9.1");
        write(&store, LENGTHS).unwrap();
        store.check().unwrap();
        assert_eq!(values(&store, pages), expected);
    }
}

/// E9.13.
#[test]
fn many_branches_keep_no_log() {
    let (disk, store, _) = store(small());
    let pages: Vec<PageId> = (0..12).map(|_| store.transact(page_with_zeros).unwrap()).collect();
    for (&page, number) in pages.iter().zip(0_u8..) {
        let mut txn = store.begin();
        for _ in 0..=number {
            add_logically(&mut txn, page, 1).unwrap();
            add(&mut txn, page, 1).unwrap();
        }
        txn.nested_transaction(|txn| {
            add(txn, page, 100)?;
            Err::<(), _>(Error::Misuse("taken back"))
        })
        .unwrap_err();
        drop(prepare(txn, &[number + 1]));
        write(&store, 1).unwrap();
    }
    write(&store, LENGTHS).unwrap();
    assert_eq!(values(&store, &pages), (1..=12).map(|number| 2 * number).collect::<Vec<i64>>());
    drop(store);
    ends_either_way(&disk, &pages, 12);
}

/// E9.13.
#[test]
fn branch_with_heap_words_keeps_no_log() {
    let (disk, store, _) = store(small());
    let options = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(8192) };
    let words = store.memory().create_heap("words", &options).unwrap();
    let mut txn = store.begin();
    txn.heap(|tx| tx.write(&words, 8, 77)).unwrap();
    drop(prepare(txn, b"branch"));
    write(&store, LENGTHS).unwrap();
    drop((words, store));
    for commits in [false, true] {
        let store = open_small(&after_a_crash(&disk), small());
        write(&store, LENGTHS).unwrap();
        let words = store.memory().heap("words").unwrap();
        assert!(matches!(words.atomically(|tx| tx.read(&words, 8)), Err(cedrat_heap::Error::InDoubt { .. })), "E9.9");
        let branch = store.prepared(b"branch").unwrap();
        if commits {
            branch.commit(Commit::Sync).map(drop).unwrap()
        } else {
            branch.rollback().unwrap()
        }
        assert_eq!(words.atomically(|tx| tx.read(&words, 8)).unwrap(), if commits { 77 } else { 0 });
    }
}

/// With background threads, only those measure transactions.
#[test]
fn checkpointer_rolls_back_idle_transaction() {
    let lively = Options { background: true, checkpoint_every_bytes: 64 << 10, redo_threads: 1, ..small() };
    let (_disk, store, pages) = store(lively);
    let mut idle = store.begin();
    add(&mut idle, pages[0], 1).unwrap();
    while store.running() > 0 {
        write(&store, 1).unwrap();
    }
    write(&store, LENGTHS).unwrap();
    assert!(is_over_limit(&add(&mut idle, pages[0], 1)));
    drop(idle);
    assert_eq!(values(&store, &pages), [0; 3]);
    store.close().unwrap();
}

/// An undo that runs another transaction, in a log that is full.
#[derive(Debug, Serialize, Deserialize)]
struct RunsAnother {
    page: u64,
}

impl LogicalUndo for RunsAnother {
    const NAME: &'static str = "test.runs-another";

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        let store = txn.store().clone();
        let page = PageId::new(self.page);
        for amount in 0..100 {
            // Refused or not: the log has little room.
            let mut other = store.begin();
            let _ = other.log_record(KIND, &[3; 2000]).and_then(|_| add(&mut other, page, amount));
            let _ = other.commit(Commit::NoFlush);
        }
        add(txn, page, -1)
    }
}

/// E16.8: the rollback of a transaction over its limit does not wait for itself.
#[test]
fn undo_runs_other_transaction_in_full_log() {
    let disk = Arc::new(SimDisk::new());
    let media: Arc<dyn cedrat_media::Media> = Arc::<SimDisk>::clone(&disk);
    let options = Options { txn_log_limit_bytes: Some(u64::MAX), locks: Arc::new(NoLocks), ..small() };
    let store = Store::open(media, options, registry().record_kind(KIND).logical::<RunsAnother>()).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let mut idle = store.begin();
    idle.nested((), |txn| {
        add(txn, page, 1)?;
        Ok(((), Undo::logical(&RunsAnother { page: page.get() })))
    })
    .unwrap();
    write(&store, 2).expect("the idle transaction is rolled back");
    assert_eq!(store.running(), 0, "E16.3");
    assert!(idle.commit(Commit::Sync).is_err());
    write(&store, 2).unwrap();
    store.check().unwrap();
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
        let mut other = txn.store().begin();
        // Refused or not: the log has little room.
        let _ = add(&mut other, PageId::new(self.locked), 1);
        drop(other);
        add(txn, PageId::new(self.own), -1)
    }
}

fn store_with_waits(options: Options) -> Store {
    Store::open(Arc::new(SimDisk::new()), options, registry().record_kind(KIND).logical::<Waits>()).unwrap()
}

/// Lets another thread enforce the limits, and returns when an undo waits for a lock there.
fn blocked_rollback(store: &Store, locks: &PageLocks) -> thread::JoinHandle<Result<usize>> {
    let (store, blocked) = (store.clone(), locks.counts().blocked);
    let rolls_back = thread::spawn(move || store.enforce_limits());
    while locks.counts().blocked == blocked {
        thread::yield_now();
    }
    rolls_back
}

/// E16.8: the undo waits for the lock of a transaction that finds the log full: if that one waited for the rollback, both would
/// wait without end, and no lock manager would see it.
#[test]
fn full_log_awaits_no_blocked_undo() {
    let (options, clock, locks) = timed();
    let store = store_with_waits(Options { txn_log_limit_bytes: Some(u64::MAX), ..options });
    let [own, locked] = [(); 2].map(|()| store.transact(page_with_zeros).unwrap());
    let mut idle = store.begin();
    idle.nested((), |txn| {
        add(txn, own, 1)?;
        Ok(((), Undo::logical(&Waits { own: own.get(), locked: locked.get() })))
    })
    .unwrap();
    clock.0.store(11, Ordering::SeqCst);
    let mut writer = store.begin();
    add(&mut writer, locked, 1).unwrap();
    let rolls_back = blocked_rollback(&store, &locks);
    let full = loop {
        if let Err(full) = writer.log_record(KIND, &[7; 2000]) {
            break full;
        }
    };
    assert!(matches!(full, Error::LogFull { .. }), "{full}");
    drop(writer);
    assert_eq!(rolls_back.join().unwrap().unwrap(), 1, "E16.3");
    assert_eq!((store.running(), values(&store, &[own])), (0, vec![0]));
    assert!(idle.commit(Commit::Sync).is_err());
}

/// Returns a transaction whose undo waits for the lock of a younger one, that one, and the page that the undo changes. The first
/// is over the limit when the second is not yet.
fn undo_behind_younger(store: &Store, clock: &ByHand, limit: u64, has_changed: bool) -> ([Txn; 2], PageId) {
    let [own, locked] = [(); 2].map(|()| store.transact(page_with_zeros).unwrap());
    let mut idle = store.begin();
    idle.nested((), |txn| {
        add(txn, own, 1)?;
        Ok(((), Undo::logical(&Waits { own: own.get(), locked: locked.get() })))
    })
    .unwrap();
    clock.0.fetch_add(limit, Ordering::SeqCst);
    let mut younger = store.begin();
    drop(younger.read(locked).unwrap());
    if has_changed {
        add(&mut younger, locked, 1).unwrap();
    }
    clock.0.fetch_add(1, Ordering::SeqCst);
    ([idle, younger], own)
}

/// E16.8d: an undo waits for the lock of an idle transaction, whose own rollback is due meanwhile.
#[test]
fn undo_gets_lock_of_idle_transaction() {
    let (options, clock, locks) = timed();
    let store = store_with_waits(options);
    for has_changed in [false, true] {
        let ([idle, younger], own) = undo_behind_younger(&store, &clock, TIME_LIMIT.as_secs(), has_changed);
        let rolls_back = blocked_rollback(&store, &locks);
        clock.0.fetch_add(9, Ordering::SeqCst);
        assert_eq!(store.enforce_limits().unwrap(), 0, "it is not over its limit");
        clock.0.fetch_add(1, Ordering::SeqCst);
        let others = store.enforce_limits().unwrap();
        // Otherwise the undo would wait without end.
        let ended = younger.commit(Commit::Sync);
        assert_eq!(rolls_back.join().unwrap().unwrap(), 1, "E16.3");
        assert_eq!(others, 1, "E16.8d: the undo waits for a transaction that is over its limit");
        assert!(matches!(ended, Err(Error::TimeLimit { .. })), "{ended:?}");
        drop(idle);
        assert_eq!((store.running(), values(&store, &[own]), locks.locked()), (0, vec![0], 0));
    }
}

/// E16.8e: the undo runs on the thread that measures transactions, and no other thread calls the store.
#[test]
fn blocked_checkpointer_has_stand_in() {
    let (options, clock, locks) = timed();
    let options = Options { background: true, txn_time_limit: Some(Duration::from_secs(1)), ..options };
    let store = store_with_waits(options);
    for has_changed in [false, true] {
        let blocked = locks.counts().blocked;
        let ([idle, younger], own) = undo_behind_younger(&store, &clock, 1, has_changed);
        while locks.counts().blocked == blocked {
            thread::yield_now();
        }
        clock.0.fetch_add(1, Ordering::SeqCst);
        // Without end, if none measures the younger one.
        while store.running() > 0 {
            thread::yield_now();
        }
        for over in [idle, younger] {
            assert!(matches!(over.commit(Commit::Sync), Err(Error::TimeLimit { .. })), "E16.3");
        }
        assert_eq!((values(&store, &[own]), locks.locked()), (vec![0], 0));
    }
    store.close().unwrap();
}

/// E16.3e: a transaction that has only locks keeps no log.
#[test]
fn released_locks_cause_no_checkpoint() {
    let (options, clock, locks) = timed();
    let limit = Duration::from_secs(1);
    let options = Options { background: true, txn_time_limit: Some(limit), checkpoint_every_bytes: 1 << 30, ..options };
    let (_disk, store, pages) = store(options);
    let before = store.log().control().checkpoint;
    for _ in 0..2 {
        let reader = store.begin();
        drop(reader.read(pages[0]).unwrap());
        clock.0.fetch_add(2, Ordering::SeqCst);
        while locks.locked() > 0 {
            thread::yield_now();
        }
        assert!(matches!(reader.commit(Commit::Sync), Err(Error::TimeLimit { .. })), "E16.3d");
    }
    // The second release comes after the end of what the first one has caused.
    assert_eq!(store.log().control().checkpoint, before, "E16.3e: no log can be released");
}

/// E16.8a: heap words that a transaction reads after its rollback are not of the moment of its other reads.
#[test]
fn rolled_back_reader_sees_no_words() {
    let (options, clock, _) = timed();
    let (_disk, store, pages) = store(options);
    let words =
        store.memory().create_heap("words", &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(8192) }).unwrap();
    let mut reader = store.begin();
    drop(reader.read(pages[0]).unwrap());
    let read = reader.heap(|tx| {
        clock.0.store(11, Ordering::SeqCst);
        assert_eq!(store.enforce_limits().unwrap(), 1);
        let both = store.transact(|txn| {
            add(txn, pages[0], 1)?;
            txn.heap(|tx| tx.write(&words, 0, 1))
        });
        both.unwrap();
        tx.read(&words, 0)
    });
    assert!(
        matches!(read, Err(Error::TimeLimit { .. })),
        "it saw the page before the change, and the word after it: {read:?}"
    );
}

/// E16.8d: nothing is written any more, and each writer has locks.
#[test]
fn full_log_is_measured_after_refusal() {
    let (options, clock, locks) = timed();
    let store = store_with_waits(Options { txn_log_limit_bytes: Some(u64::MAX), ..options });
    let ([_idle, younger], _) = undo_behind_younger(&store, &clock, TIME_LIMIT.as_secs(), true);
    let rolls_back = blocked_rollback(&store, &locks);
    let write = || store.transact(|txn| txn.log_record(KIND, &[7; 2000]));
    while write().is_ok() {}
    clock.0.fetch_add(10, Ordering::SeqCst);
    let full = write();
    assert!(matches!(full, Err(Error::LogFull { .. })), "{full:?}");
    let ended = younger.commit(Commit::Sync).err();
    assert_eq!(rolls_back.join().unwrap().unwrap(), 1, "E16.3");
    assert!(matches!(ended, Some(Error::TimeLimit { .. })), "E16.8d: {ended:?}");
}
