//! Two-phase commit on the side of a participant (E9; L012, D030, D031). Every crash of it: `crash_prepared.rs` of
//! `cedrat-objects`.

use std::sync::mpsc::{Receiver, Sender, channel};

use cedrat_heap::{Heap, HeapOptions};
use cedrat_media::{Loss, Media, SimDisk};
use cedrat_pages::{LayoutKind, PageId};
use cedrat_sync::{Arc, Mutex};
use cedrat_txn::locks::{Deadlock, HasStopped, LockManager, LockMode, Resource};
use cedrat_txn::object_cache::{
    DeferredChanges, Delta, DeltaRegistry, InDoubtRecords, RecordLocks, TakenBack, ToPages, Unflushed, UnflushedRecords,
};
use cedrat_txn::{
    BRANCH_ID_LEN_MAX, BranchError, Commit, Error, FormatFresh, LogicalUndo, Options, PageLocks, Prepared, RecordId,
    Refused, Result, Store, Txn, TxnOptions, Undo, VersionedInsert, Vote,
};
use cedrat_wal::{Log, Lsn, TxnId};
use serde::{Deserialize, Serialize};

use crate::common::*;

const BRANCH: &[u8] = b"branch";

fn prepared(txn: Txn, id: &[u8]) -> Prepared {
    match txn.prepare(id).unwrap() {
        Vote::Prepared(prepared) => prepared,
        Vote::ReadOnly => panic!("it has changed something"),
    }
}

fn place() -> (Arc<SimDisk>, Store, PageId) {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    (disk, store, page)
}

/// Returns the disk of the next opening, without the bytes that were not durable.
fn after_a_crash(disk: &SimDisk) -> Arc<SimDisk> {
    Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything))
}

fn ids(store: &Store) -> Vec<Vec<u8>> {
    store.in_doubt().unwrap().into_iter().map(|branch| branch.id).collect()
}

/// Adds to a number, and prepares.
fn add_and_prepare(store: &Store, page: PageId, amount: i64, id: &[u8]) -> Prepared {
    let mut txn = store.begin();
    txn.update(at(page, 0), &Add { amount }).unwrap();
    prepared(txn, id)
}

/// E9.1, E9.2: however often the store is closed, or crashes.
#[test]
fn in_doubt_transaction_outlives_openings() {
    let (disk, store, page) = place();
    let (txn, since) = {
        let held = add_and_prepare(&store, page, 5, BRANCH);
        assert_eq!((held.id(), held.since()), (BRANCH, store.in_doubt().unwrap()[0].since));
        (held.txn(), held.since())
    };
    store.close().unwrap();
    let mut disk = disk;
    for opening in 0..6 {
        let store = open(&disk).unwrap();
        assert_eq!((store.recovery().in_doubt, store.recovery().losers), (1, 0));
        let [branch] = &store.in_doubt().unwrap()[..] else { panic!("{:?}", store.in_doubt().unwrap()) };
        assert_eq!((&*branch.id, branch.txn, branch.since), (BRANCH, txn, since));
        assert_eq!(read_number(&store, at(page, 0)).unwrap(), 5);
        store.transact(|txn| page_with_zeros(txn).map(drop)).unwrap();
        match opening % 3 {
            0 => store.close().unwrap(),
            1 => disk = after_a_crash(&disk),
            _ => drop(store.prepared(BRANCH).unwrap()),
        }
    }
    let store = open(&disk).unwrap();
    store.prepared(BRANCH).unwrap().commit(Commit::Sync).unwrap();
    assert!(store.in_doubt().unwrap().is_empty() && store.running() == 0);
    let store = open(&after_a_crash(&disk)).unwrap();
    assert_eq!((store.recovery().in_doubt, read_number(&store, at(page, 0)).unwrap()), (0, 5));
}

/// E9.4, and E9.1 for a transaction that ends in the opening in which it prepared.
#[test]
fn in_doubt_transaction_follows_its_outcome() {
    for was_restored in [false, true] {
        for commits in [false, true] {
            let (disk, store, page) = place();
            let mut held = Some(add_and_prepare(&store, page, 5, BRANCH));
            let (disk, store) = match was_restored {
                true => {
                    let disk = after_a_crash(&disk);
                    let store = open(&disk).unwrap();
                    held = Some(store.prepared(BRANCH).unwrap());
                    (disk, store)
                }
                false => (disk, store),
            };
            let held = held.expect("it is there");
            if commits {
                held.commit(Commit::Sync).unwrap();
            } else {
                held.rollback().unwrap();
            }
            let expected = if commits { 5 } else { 0 };
            assert_eq!(read_number(&store, at(page, 0)).unwrap(), expected);
            assert!(matches!(store.prepared(BRANCH), Err(Error::Branch(BranchError::Unknown { .. }))));
            let store = open(&after_a_crash(&disk)).unwrap();
            assert_eq!(read_number(&store, at(page, 0)).unwrap(), expected);
            assert!(store.in_doubt().unwrap().is_empty(), "an outcome is durable");
        }
    }
}

/// An asynchronous commit may be lost, but then the transaction is still prepared.
#[test]
fn lost_outcome_leaves_transaction_in_doubt() {
    let (disk, store, page) = place();
    let ticket = add_and_prepare(&store, page, 5, BRANCH).commit(Commit::Async).unwrap();
    assert!(!ticket.is_stable());
    let store = open(&after_a_crash(&disk)).unwrap();
    assert_eq!(ids(&store), [BRANCH]);
    assert!(matches!(store.prepared(BRANCH).unwrap().commit(Commit::Partition), Err(Error::PartitionCommit)));
    store.prepared(BRANCH).unwrap().commit(Commit::Sync).unwrap();
}

/// E9.2: a read-only branch gets its vote when everything that it has read is durable, and has ended.
#[test]
fn reader_votes_after_its_reads_are_durable() {
    let options = Options { no_flush: true, ..options() };
    let disk = Arc::new(SimDisk::new());
    let store = open_with(&disk, options).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    for durable in [true, false] {
        let mut writer = store.begin();
        writer.update(at(page, 0), &Add { amount: 1 }).unwrap();
        let ticket = writer.commit(Commit::Async).unwrap();
        let none = TxnOptions::default();
        let reader = store.begin_with(if durable { none } else { none.without_durability() });
        drop(reader.read(page).unwrap());
        assert!(!ticket.is_stable());
        assert!(matches!(reader.prepare(BRANCH).unwrap(), Vote::ReadOnly));
        assert!(ticket.is_stable(), "E9.2");
        assert!(store.in_doubt().unwrap().is_empty() && store.running() == 0);
        // A branch that has written, too.
        let mut writer = store.begin();
        writer.update(at(page, 0), &Add { amount: 1 }).unwrap();
        let ticket = writer.commit(Commit::Async).unwrap();
        let mut branch = store.begin_with(if durable { none } else { none.without_durability() });
        branch.update(at(page, 1), &Add { amount: 1 }).unwrap();
        prepared(branch, BRANCH).rollback().unwrap();
        assert!(ticket.is_stable(), "E9.2");
    }
}

/// E9.8.
#[test]
fn an_identifier_is_one_transactions_alone() {
    let (_disk, store, page) = place();
    let other = store.transact(page_with_zeros).unwrap();
    let begun = |page: PageId| {
        let mut txn = store.begin();
        txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
        txn
    };
    let first = prepared(begun(page), BRANCH);
    assert!(
        matches!(begun(other).prepare(BRANCH), Err(Error::Branch(BranchError::Exists { id })) if id == "6272616e6368")
    );
    assert!(matches!(store.prepared(BRANCH), Err(Error::Branch(BranchError::Held { .. }))));
    assert!(matches!(begun(other).prepare(b""), Err(Error::Misuse(_))));
    let long = [7; BRANCH_ID_LEN_MAX + 1];
    assert!(matches!(begun(other).prepare(&long), Err(Error::TooLarge { limit: 140, .. })));
    assert!(matches!(store.prepared(&long), Err(Error::TooLarge { limit: 140, .. })));
    let second = prepared(begun(other), &long[1..]);
    assert_eq!(store.in_doubt().unwrap().len(), 2);
    assert!(store.in_doubt().unwrap()[0].since < store.in_doubt().unwrap()[1].since);
    let free = TxnOptions::default().without_atomicity();
    let mut unfit = store.begin_with(free);
    let third = store.transact(page_with_zeros).unwrap();
    unfit.update(at(third, 0), &Add { amount: 1 }).unwrap();
    assert!(matches!(unfit.prepare(b"unfit"), Err(Error::Misuse(_))));
    // Transactions that could not prepare were rolled back, and hold no locks.
    first.commit(Commit::Sync).unwrap();
    second.rollback().unwrap();
    prepared(begun(other), BRANCH).commit(Commit::Sync).unwrap();
    assert_eq!([page, other].map(|page| read_number(&store, at(page, 0)).unwrap()), [1, 1]);
}

/// E9.3: keys and structures, also if another opening has another number of key locks.
#[test]
fn key_locks_survive_changed_stripe_count() {
    let structure = PageId::new(77);
    let key = |hash| Resource::Key { structure, hash };
    let with = |stripes| Options {
        locks: Arc::new(PageLocks::new(cedrat_txn::PageLockOptions {
            key_stripes: stripes,
            ..cedrat_txn::PageLockOptions::default()
        })),
        ..options()
    };
    let disk = Arc::new(SimDisk::new());
    let store = open_with(&disk, with(1000)).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let mut txn = store.begin();
    txn.lock(Resource::Structure(structure), LockMode::IntentionExclusive).unwrap();
    txn.lock(key(1234), LockMode::Exclusive).unwrap();
    txn.lock(key(17), LockMode::Shared).unwrap();
    txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
    let id = txn.id();
    drop(prepared(txn, BRANCH));
    let restored = |stripes: u64| {
        let locks = PageLocks::new(cedrat_txn::PageLockOptions {
            key_stripes: stripes,
            ..cedrat_txn::PageLockOptions::default()
        });
        let locks = Arc::new(locks);
        let store = open_with(&after_a_crash(&disk), Options { locks: Arc::<PageLocks>::clone(&locks), ..options() });
        let store = store.unwrap();
        let mut held = locks.held(id);
        held.sort_unstable();
        store.prepared(BRANCH).unwrap().rollback().unwrap();
        assert_eq!(locks.locked(), 0);
        held
    };
    let (whole, part) = ((Resource::Page(page), LockMode::Exclusive), Resource::Structure(structure));
    for stripes in [1000, 500] {
        let folded = (key(1234 % stripes), LockMode::Exclusive);
        assert_eq!(restored(stripes), [whole, folded, (part, LockMode::IntentionExclusive)]);
    }
    assert_eq!(restored(999), [whole, (part, LockMode::Exclusive)]);
}

/// More locks than fit into one record.
#[test]
fn prepared_state_may_span_records() {
    let (disk, store, page) = place();
    let mut txn = store.begin();
    txn.update(at(page, 0), &Add { amount: 5 }).unwrap();
    for hash in 0..20_000 {
        txn.lock(Resource::Key { structure: page, hash }, LockMode::Exclusive).unwrap();
    }
    let before = store.log().current_lsn();
    let branch = prepared(txn, BRANCH);
    assert!(branch.since().get() > before.get() + 5, "it takes many");
    drop(branch);
    let locks = Arc::new(PageLocks::default());
    let options = Options { locks: Arc::<PageLocks>::clone(&locks), ..options() };
    let store = open_with(&after_a_crash(&disk), options).unwrap();
    assert_eq!(locks.locked(), 20_001);
    store.prepared(BRANCH).unwrap().commit(Commit::Sync).unwrap();
    assert_eq!(read_number(&store, at(page, 0)).unwrap(), 5);
    // An incomplete set of records has no effect: the transaction is a loser.
    let cursor = disk.journal();
    let cut = (0..=disk.journal_len()).map(|at| Arc::new(cursor.crash(at, Loss::Everything)));
    for disk in cut.skip(disk.journal_len() - 12) {
        let store = open(&disk).unwrap();
        assert_eq!(read_number(&store, at(page, 0)).unwrap(), if store.in_doubt().unwrap().is_empty() { 0 } else { 5 });
    }
}

/// E9.5, E9.13: other transactions write many lengths of the log meanwhile. The branch has room for its end, in this
/// opening and in the next.
#[test]
fn small_log_has_room_for_branch_outcome() {
    for was_restored in [false, true] {
        let (disk, store, page) = place();
        let other = store.transact(page_with_zeros).unwrap();
        let mut txn = store.begin();
        for _ in 0..1000 {
            txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
        }
        let branch = prepared(txn, BRANCH);
        let (store, branch) = match was_restored {
            true => {
                let store = open(&after_a_crash(&disk)).unwrap();
                let branch = store.prepared(BRANCH).unwrap();
                (store, branch)
            }
            false => (store, branch),
        };
        for _ in 0..150_000 {
            let mut others = store.begin();
            others.update(at(other, 0), &Add { amount: 1 }).unwrap();
            others.commit(Commit::Async).unwrap();
        }
        branch.rollback().unwrap();
        assert_eq!(store.log().space().overdrawn.0, 0, "E9.5");
        assert_eq!(read_number(&store, at(page, 0)).unwrap(), 0);
        store.transact(|txn| txn.update(at(other, 0), &Add { amount: 1 })).unwrap();
    }
}

/// E9.6: space that it has freed, or allocated and freed again, is not available before its outcome.
#[test]
fn freed_space_waits_for_branch_outcome() {
    for commits in [false, true] {
        let (disk, store, page) = place();
        let freed = store.transact(page_with_zeros).unwrap();
        let mut txn = store.begin();
        txn.free(freed).unwrap();
        let savepoint = txn.savepoint();
        let given_back = txn.allocate().unwrap();
        txn.rollback_to(savepoint).unwrap();
        txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
        drop(prepared(txn, BRANCH));
        let store = open(&after_a_crash(&disk)).unwrap();
        let taken = store.transact(|txn| (0..20).map(|_| page_with_zeros(txn)).collect::<Result<Vec<_>>>()).unwrap();
        assert!(!taken.contains(&freed) && !taken.contains(&given_back), "E9.6");
        let pages = store.check().unwrap().pages_allocated;
        let branch = store.prepared(BRANCH).unwrap();
        if commits {
            branch.commit(Commit::Sync).unwrap();
        } else {
            branch.rollback().unwrap();
            assert_eq!(store.check().unwrap().pages_allocated, pages + 1);
        }
        let taken = store.transact(|txn| (0..2).map(|_| page_with_zeros(txn)).collect::<Result<Vec<_>>>()).unwrap();
        assert_eq!(taken.contains(&freed), commits);
        assert!(taken.contains(&given_back));
    }
}

/// Logical undo of a nested top action, in the next opening.
#[test]
fn nested_changes_are_undone_logically() {
    let (disk, store, page) = place();
    let mut txn = store.begin();
    txn.nested((), |txn| {
        txn.update(at(page, 0), &Add { amount: 5 })?;
        txn.update(at(page, 1), &Add { amount: 7 })?;
        Ok(((), Undo::logical(&Subtract { page: page.get(), slot: 0, amount: 5 })))
    })
    .unwrap();
    txn.nested_transaction(|txn| txn.update(at(page, 2), &Add { amount: 9 })).unwrap();
    drop(prepared(txn, BRANCH));
    let disk = after_a_crash(&disk);
    let store = open(&disk).unwrap();
    assert_eq!(numbers(&store, page), [5, 7, 9, 0]);
    store.prepared(BRANCH).unwrap().rollback().unwrap();
    assert_eq!(numbers(&store, page), [0, 7, 0, 0]);
}

/// Subtracts in two steps, the first of which is durable before the other.
#[derive(Debug, Serialize, Deserialize)]
struct SubtractTwice {
    page: u64,
    slot: u16,
}

impl LogicalUndo for SubtractTwice {
    const NAME: &'static str = "test.subtract_twice";

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        let at = at(PageId::new(self.page), self.slot);
        txn.update(at, &Add { amount: -2 })?;
        let log = txn.store().log().clone();
        log.force(log.current_lsn())?;
        txn.update(at, &Add { amount: -3 })
    }
}

/// E9.4: interrupted at each call, a rollback is completed, or had not begun.
#[test]
fn interrupted_rollback_is_completed() {
    let open = |disk: &Arc<SimDisk>| {
        let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
        Store::open(media, options(), registry().logical::<SubtractTwice>()).unwrap()
    };
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk);
    let page = store.transact(page_with_zeros).unwrap();
    let mut txn = store.begin();
    for slot in 0..3 {
        let undo = Undo::logical(&SubtractTwice { page: page.get(), slot });
        txn.update_logical(at(page, slot), &Add { amount: 5 }, undo).unwrap();
    }
    drop(prepared(txn, BRANCH));
    let disk = after_a_crash(&disk);
    let store = open(&disk);
    store.prepared(BRANCH).unwrap().rollback().unwrap();
    let (mut in_doubt, mut gone, mut completed) = (0, 0, 0);
    every_crash(&disk, 3, |crashed, _, name| {
        let store = open(crashed);
        match store.in_doubt().unwrap().len() {
            0 => gone += 1,
            _ => in_doubt += 1,
        }
        completed += store.recovery().losers;
        let expected = if store.in_doubt().unwrap().is_empty() { [0; 4] } else { [5, 5, 5, 0] };
        assert_eq!(numbers(&store, page), expected, "{name}");
    });
    assert!(in_doubt > 0 && gone > 0 && completed > 0);
}

/// Transactions that wait for its locks get the error that the store has stopped.
#[test]
fn stopped_store_releases_branch_locks() {
    let (_disk, store, page) = place();
    let held = add_and_prepare(&store, page, 5, BRANCH);
    store.log().stop("for a test");
    let locks = Arc::clone(store.locks());
    assert!(matches!(held.commit(Commit::Sync), Err(Error::Stopped(_))));
    locks.lock(cedrat_wal::TxnId(1 << 40), Resource::Page(page), LockMode::Exclusive).unwrap();
}

/// A lock manager that stops the log within each request, and refuses it when it notices that.
#[derive(Debug, Default)]
struct StopsInWait(Mutex<(Option<HasStopped>, Option<Log>)>);

impl LockManager for StopsInWait {
    fn lock(&self, txn: TxnId, resource: Resource, _: LockMode) -> Result<(), Deadlock> {
        let (has_stopped, log) = self.0.lock().clone();
        let (has_stopped, Some(log)) = (has_stopped.expect("a store is open"), log) else { return Ok(()) };
        assert!(!has_stopped.now());
        log.stop("for a test");
        if has_stopped.now() { Err(Deadlock::new(txn, resource)) } else { Ok(()) }
    }

    fn serves(&self, has_stopped: HasStopped) {
        self.0.lock().0 = Some(has_stopped);
    }

    fn ended(&self, _: TxnId) {}
}

/// A transaction that waits for a lock while the store stops returns the reason of the stop.
#[test]
fn interrupted_wait_returns_the_stop() {
    type Request = fn(&mut Txn, PageId) -> cedrat_txn::Result<()>;
    let requests: [Request; 4] = [
        |txn, page| txn.lock(Resource::Page(page), LockMode::Shared),
        |txn, page| txn.lock_unless_in_doubt(Resource::Page(page), LockMode::Shared),
        |txn, page| txn.read(page).map(drop),
        |txn, page| txn.update(at(page, 0), &Add { amount: 1 }),
    ];
    for request in requests {
        let (disk, store, page) = place();
        store.close().unwrap();
        let locks = Arc::new(StopsInWait::default());
        let options = Options { locks: Arc::<StopsInWait>::clone(&locks), ..Options::simulated() };
        let store = Store::open(disk, options, registry()).unwrap();
        locks.0.lock().1 = Some(store.log().clone());
        let interrupted = request(&mut store.begin(), page);
        assert!(matches!(interrupted, Err(Error::Stopped(_))), "{interrupted:?}");
        locks.0.lock().1 = None;
    }
}

/// A page that it has formatted, and one that it has allocated, are as it has left them.
#[test]
fn new_page_exists_after_branch_commit() {
    let (disk, store, page) = place();
    let mut txn = store.begin();
    let new = txn.allocate().unwrap();
    txn.update(RecordId::page(new), &FormatFresh::new(LayoutKind::RAW)).unwrap();
    txn.update(at(new, 0), &Add { amount: 3 }).unwrap();
    txn.update(at(page, 0), &Add { amount: new.get() as i64 }).unwrap();
    drop(prepared(txn, BRANCH));
    store.close().unwrap();
    let store = open(&disk).unwrap();
    store.prepared(BRANCH).unwrap().commit(Commit::Sync).unwrap();
    assert_eq!(read_number(&store, at(new, 0)).unwrap(), 3);
    store.check().unwrap();
}

/// A place with a heap of words that are far enough apart not to share locks.
fn place_with_words() -> (Arc<SimDisk>, Store, PageId, Heap) {
    let (disk, store, page) = place();
    let options = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(64 << 10) };
    let words = store.memory().create_heap("words", &options).unwrap();
    (disk, store, page, words)
}

fn read_word(heap: &Heap, offset: u64) -> cedrat_heap::Result<u64> {
    heap.atomically(|tx| tx.read(heap, offset))
}

fn is_in_doubt<T>(result: cedrat_heap::Result<T>, expected: cedrat_wal::TxnId) -> bool {
    matches!(result, Err(cedrat_heap::Error::InDoubt { txn }) if txn == expected)
}

/// E9.9: before its outcome no other transaction reads or overwrites the words that it has written, or waits for them.
/// Words that it has only read may change.
#[test]
fn in_doubt_words_are_locked() {
    for was_restored in [false, true] {
        for commits in [false, true] {
            let (disk, store, page, words) = place_with_words();
            words.atomically(|tx| (0..3).try_for_each(|at| tx.write(&words, at * 512, 1))).unwrap();
            store.log().force(store.log().current_lsn()).unwrap();
            let mut txn = store.begin();
            txn.update(at(page, 0), &Add { amount: 5 }).unwrap();
            txn.heap(|tx| {
                let read = tx.read(&words, 0)?;
                tx.write_bytes(&words, 514, &[7, 7])?; // a part of a word
                tx.write(&words, 1024, read + 4)
            })
            .unwrap();
            let branch = prepared(txn, BRANCH);
            let id = branch.txn();
            drop(branch);
            let (disk, store, words) = match was_restored {
                true => {
                    drop((words, store));
                    let disk = after_a_crash(&disk);
                    let store = open(&disk).unwrap();
                    let words = store.memory().heap("words").unwrap();
                    (disk, store, words)
                }
                false => (disk, store, words),
            };
            for offset in [512, 1024] {
                assert!(is_in_doubt(read_word(&words, offset), id), "E9.9");
                assert!(is_in_doubt(words.atomically(|tx| tx.write(&words, offset, 9)), id), "E9.9");
                let refused = store.transact(|txn| txn.heap(|tx| tx.write(&words, offset, 9)));
                assert!(matches!(refused, Err(Error::Heap(cedrat_heap::Error::InDoubt { txn })) if txn == id));
            }
            words.atomically(|tx| tx.write(&words, 0, 100)).unwrap();
            if commits {
                store.checkpoint().unwrap(); // E9.10: a checkpoint contains the words only after the commit
                store.prepared(BRANCH).unwrap().commit(Commit::Sync).unwrap();
            } else {
                store.prepared(BRANCH).unwrap().rollback().unwrap();
            }
            let expected = if commits { [100, 0x0707_0001, 5] } else { [100, 1, 1] };
            assert_eq!([0, 512, 1024].map(|offset| read_word(&words, offset).unwrap()), expected);
            store.log().force(store.log().current_lsn()).unwrap();
            let store = open(&after_a_crash(&disk)).unwrap();
            let words = store.memory().heap("words").unwrap();
            assert_eq!([0, 512, 1024].map(|offset| read_word(&words, offset).unwrap()), expected);
        }
    }
}

/// E9.9: its reads are validated when it prepares; after a conflict the transaction is rolled back, and its identifier
/// is free.
#[test]
fn stale_transaction_cannot_prepare() {
    let (_disk, store, page, words) = place_with_words();
    for writes in [true, false] {
        let mut txn = store.begin();
        txn.update(at(page, 0), &Add { amount: 5 }).unwrap();
        txn.heap(|tx| {
            tx.read(&words, 0)?;
            if writes { tx.write(&words, 4096, 1) } else { Ok(()) }
        })
        .unwrap();
        words.atomically(|tx| tx.update(&words, 0, |value| value + 1).map(drop)).unwrap();
        let refused = txn.prepare(BRANCH);
        assert!(matches!(refused, Err(Error::Heap(cedrat_heap::Error::Conflict))), "{refused:?}");
        assert!(store.in_doubt().unwrap().is_empty() && store.running() == 0);
        assert_eq!((read_number(&store, at(page, 0)).unwrap(), read_word(&words, 4096).unwrap()), (0, 0));
    }
    // A read-only transaction votes read-only, and validates once more (E10.3).
    let mut reader = store.begin();
    reader.heap(|tx| tx.read(&words, 0)).unwrap();
    assert!(matches!(reader.prepare(BRANCH).unwrap(), Vote::ReadOnly));
}

/// E9.10, E10.5: more words than fit into one record, twice: in the prepare records, and at the commit.
#[test]
fn many_words_are_prepared_and_committed_whole() {
    for was_restored in [false, true] {
        let (disk, store, _, words) = place_with_words();
        let mut txn = store.begin();
        txn.heap(|tx| (0..6000).try_for_each(|word| tx.write(&words, word * 8, word + 1))).unwrap();
        let before = store.log().current_lsn();
        let branch = prepared(txn, BRANCH);
        assert!(branch.since().get() > before.get() + 3, "it takes many records");
        drop((branch, words));
        let (disk, store) = match was_restored {
            true => {
                drop(store);
                let disk = after_a_crash(&disk);
                let store = open(&disk).unwrap();
                (disk, store)
            }
            false => (disk, store),
        };
        let from = disk.journal_len();
        store.prepared(BRANCH).unwrap().commit(Commit::Sync).unwrap();
        assert_eq!(store.log().space().overdrawn.0, 0, "E9.5");
        let journal = disk.journal();
        let mut ended = 0;
        for at in from..=disk.journal_len() {
            let store = open(&Arc::new(journal.crash(at, Loss::Random(at as u64)))).unwrap();
            let words = store.memory().heap("words").unwrap();
            let found = read_word(&words, 0).and_then(|first| Ok([first, read_word(&words, 5999 * 8)?]));
            match store.in_doubt().unwrap().len() {
                0 => assert_eq!(found.unwrap(), [1, 6000]),
                _ => assert!(matches!(found, Err(cedrat_heap::Error::InDoubt { .. }))),
            }
            ended += usize::from(store.in_doubt().unwrap().is_empty());
        }
        assert!(ended > 0);
    }
}

/// Writes one byte.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {}

impl Delta for Mark {
    const NAME: &'static str = "test.mark";

    fn apply(&self, record: &mut [u8]) -> Result<(), Refused> {
        record[0] = 1;
        Ok(())
    }
}

/// A keeper of one record that signals when it is notified of an undo, and then waits.
struct Slow(Mutex<Option<(Sender<()>, Receiver<()>)>>);

impl Unflushed for Slow {
    fn oldest(&self) -> Option<Lsn> {
        None
    }

    fn flush(&self, _: Lsn, _: &ToPages<'_>) -> Result<()> {
        Ok(())
    }

    fn taken_back(&self, _: TakenBack) {
        let meeting = self.0.lock().take();
        if let Some((has_begun, may_go_on)) = meeting {
            has_begun.send(()).unwrap();
            may_go_on.recv().unwrap();
        }
    }

    fn ended(&self, _: TxnId, _: Option<Lsn>) {}
}

/// E9.8: during the rollback, while none of it may be in the log, no other transaction can prepare under its
/// identifier.
#[test]
fn identifier_is_free_after_logged_rollback() {
    let disk = Arc::new(SimDisk::new());
    let open = |disk: &Arc<SimDisk>| {
        let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
        Store::open(media, options(), registry().delta::<Mark>())
    };
    let store = open(&disk).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let record = store
        .transact(|txn| {
            let page = txn.allocate()?;
            txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::VERSIONED))?;
            txn.update(at(page, 0), &VersionedInsert { record: (&[0_u8; 8][..]).into() })?;
            Ok(at(page, 0))
        })
        .unwrap();
    let ((begun, has_begun), (go_on, may_go_on)) = (channel(), channel());
    let keeper = store.keep_log_for(Arc::new(Slow(Mutex::new(Some((begun, may_go_on))))));
    let mut txn = store.begin();
    txn.defer(&keeper, record, &Mark {}).unwrap();
    let held = prepared(txn, BRANCH);
    let rolls_back = std::thread::spawn(move || held.rollback());
    has_begun.recv().unwrap();
    let mut txn = store.begin();
    txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
    assert!(matches!(txn.prepare(BRANCH), Err(Error::Branch(BranchError::Exists { .. }))));
    let crashed = after_a_crash(&disk);
    go_on.send(()).unwrap();
    rolls_back.join().unwrap().unwrap();
    drop(add_and_prepare(&store, page, 1, BRANCH));
    assert_eq!(ids(&open(&crashed).unwrap()), [BRANCH]);
}

/// E9.11: hidden are the records that a branch of an earlier opening has inserted, until its outcome, and no others.
#[test]
fn inserted_record_is_hidden_until_outcome() {
    for commits in [false, true] {
        let (disk, store, _) = place();
        let insert = |txn: &mut Txn, at| txn.update(at, &VersionedInsert { record: (&[0_u8; 8][..]).into() });
        let page = store.transact(|txn| {
            let page = txn.allocate()?;
            txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::VERSIONED))?;
            insert(txn, at(page, 0))?;
            Ok(page)
        });
        let page = page.unwrap();
        let (old, new) = (at(page, 0), at(page, 1));
        let mut txn = store.begin();
        insert(&mut txn, new).unwrap();
        drop(prepared(txn, BRANCH));
        let store = open(&after_a_crash(&disk)).unwrap();
        assert!(store.is_in_doubt(new) && !store.is_in_doubt(old), "E9.11");
        let branch = store.prepared(BRANCH).unwrap();
        if commits {
            drop(branch.commit(Commit::Sync).unwrap())
        } else {
            branch.rollback().unwrap()
        }
        assert!(!store.is_in_doubt(new), "E9.11");
    }
}
