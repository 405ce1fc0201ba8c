//! Backups of a store beside transactions.

use cedrat_heap::{Heap, HeapOptions};
use cedrat_media::{Call, Loss, Media, OpenMode, SimDisk};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use cedrat_sync::{Arc, thread};
use cedrat_txn::{BackupOptions, BackupReport, Commit, Error, Operation, Refused, Store, Txn, Undo};
use cedrat_wal::Lsn;
use serde::{Deserialize, Serialize};

use crate::common::*;

const THREADS: usize = 2;
/// Transactions of each thread.
const ROUNDS: u64 = 300;

/// A store in which a word and a number of a page are changed together.
struct World {
    store: Store,
    page: PageId,
    /// A page that is changed only by transactions that do not commit.
    other: PageId,
    heap: Heap,
}

impl World {
    fn new() -> World {
        let (store, page) = store_with(options(), registry());
        let heap = store.memory().create_heap("words", &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(1 << 16) });
        let other = store.transact(page_with_zeros).unwrap();
        World { store, page, other, heap: heap.unwrap() }
    }

    fn add(&self, amount: i64) {
        let both = self.store.transact(|txn| {
            txn.heap(|tx| tx.update(&self.heap, 0, |value| value.wrapping_add_signed(amount)))?;
            txn.update(at(self.page, 0), &Add { amount })
        });
        both.unwrap();
    }

    /// Allocates pages and frees them, and rolls a change back.
    fn turn_over(&self) {
        let pages: Vec<PageId> = (0..3).map(|_| self.store.transact(page_with_zeros).unwrap()).collect();
        self.store.transact(|txn| pages.iter().try_for_each(|&page| txn.free(page))).unwrap();
        let mut txn = self.store.begin();
        txn.update(at(self.page, 1), &Add { amount: 7 }).unwrap();
        txn.rollback().unwrap();
    }

    fn backup(&self, to: &SimDisk) -> cedrat_txn::Result<BackupReport> {
        self.store.backup(&(Arc::new(to.clone()) as Arc<dyn Media>), BackupOptions::default())
    }

    /// Opens a backup that has lost what was not durable. Returns the number that word and page have.
    fn sum_in(&self, backup: &SimDisk) -> i64 {
        let store = open(&Arc::new(backup.cut_power(Loss::Everything))).unwrap();
        let heap = store.memory().heap("words").unwrap();
        let word = store.memory().run(Commit::Async, |tx| tx.read(&heap, 0)).unwrap().value;
        let on_page = read_number(&store, at(self.page, 0)).unwrap();
        assert_eq!(word as i64, on_page, "E18: of one moment");
        assert_eq!(read_number(&store, at(self.other, 0)).unwrap(), 0, "E18: a change that was not committed");
        store.check().unwrap();
        on_page
    }
}

/// E18.1.
#[test]
fn backup_has_acknowledged_commits() {
    let world = Arc::new(World::new());
    let (acknowledged, running) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicUsize::new(THREADS)));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (world, acknowledged, running) = (Arc::clone(&world), Arc::clone(&acknowledged), Arc::clone(&running));
            thread::spawn(move || {
                for _ in 0..ROUNDS {
                    world.add(1);
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                    world.turn_over();
                }
                running.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    let (mut backups, mut ended) = (0, 0);
    while running.load(Ordering::SeqCst) > 0 || backups == 0 {
        let mut loser = world.store.begin();
        loser.update(at(world.other, 0), &Add { amount: 1 }).unwrap();
        let before = acknowledged.load(Ordering::SeqCst);
        let to = SimDisk::new();
        let report = world.backup(&to);
        drop(loser);
        if let Err(Error::BackupEnded { .. }) = report {
            ended += 1; // the log is small
            continue;
        }
        report.unwrap();
        let sum = world.sum_in(&to);
        let after = acknowledged.load(Ordering::SeqCst) + THREADS as i64;
        assert!(before <= sum && sum <= after, "E18: {before} <= {sum} <= {after}");
        backups += 1;
    }
    println!("{backups} backups, {ended} ended by a full log");
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Calls `run` during a backup, before each write of the backup to a file.
fn run_during_backup(world: &Arc<World>, file: &'static str, run: impl Fn(&World) + Send + Sync + 'static) -> SimDisk {
    let to = SimDisk::new();
    let beside = Arc::clone(world);
    to.before_each_call(move |_, call, name| {
        if call == Call::Write && name.starts_with(file) {
            run(&beside);
        }
    });
    to
}

/// E18.1, E18.2: the backup needs the log from its checkpoint on, and pages that are freed since.
#[test]
fn checkpoints_keep_log_of_backup() {
    for file in ["pages", "heaps", "log"] {
        let world = Arc::new(World::new());
        world.add(3);
        let to = run_during_backup(&world, file, |world| {
            world.add(2);
            world.turn_over();
            world.store.checkpoint().unwrap();
        });
        world.backup(&to).unwrap();
        assert!(world.sum_in(&to) >= 3, "E18.1: beside the copy of {file}");
    }
}

/// E18.2: a backup begins wherever its first block lies in a segment, also behind all records.
#[test]
fn segment_without_needed_record_is_kept() {
    for commits in 0..16 {
        let world = Arc::new(World::new());
        (0..commits).for_each(|_| world.add(1));
        let to = run_during_backup(&world, "heaps/words", |world| {
            // A block of several kilobytes, before which an end of a segment is left empty.
            let words =
                world.heap.atomically(|tx| (1..1000).try_for_each(|word| tx.write(&world.heap, 8 * word, word)));
            words.unwrap();
            world.add(1);
            world.store.checkpoint().unwrap();
        });
        world.backup(&to).expect("E18.2");
        assert!(world.sum_in(&to) >= commits, "E18.1");
    }
}

/// E18.1: a checkpoint of the original, which the backup does not have, has its first commits.
#[test]
fn backup_has_commits_of_new_heap() {
    let world = Arc::new(World::new());
    world.add(1);
    let is_called = AtomicBool::new(false);
    let to = run_during_backup(&world, "heaps/words", move |world| {
        if is_called.swap(true, Ordering::SeqCst) {
            return;
        }
        let options = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) };
        let heap = world.store.memory().create_heap("new", &options).unwrap();
        heap.atomically(|tx| tx.write(&heap, 0, 7)).unwrap();
        world.store.checkpoint().unwrap();
        heap.atomically(|tx| tx.write(&heap, 8, 8)).unwrap();
    });
    world.backup(&to).unwrap();
    let store = open(&Arc::new(to.cut_power(Loss::Everything))).unwrap();
    let heap = store.memory().heap("new").unwrap();
    let words = store.memory().run(Commit::Async, |tx| Ok([tx.read(&heap, 0)?, tx.read(&heap, 8)?])).unwrap();
    assert_eq!(words.value, [7, 8], "E18.1");
}

/// E18.4, E18.1a.
#[test]
fn full_log_ends_backup() {
    let world = Arc::new(World::new());
    let before = world.store.log().current_lsn();
    let to = run_during_backup(&world, "pages", |world| {
        let begin = world.store.log().control().checkpoint.scan_lsn;
        // Until the log was full, and a transaction has taken a checkpoint.
        while world.store.log().control().checkpoint.scan_lsn == begin {
            world.add(1);
        }
    });
    let error = world.backup(&to).unwrap_err();
    assert!(matches!(error, Error::BackupEnded { .. }), "E18.4: {error}");
    assert!(world.store.log().current_lsn() >= Lsn::new(before.get() + 1000), "E18.4: no transaction was refused");
    open(&Arc::new(to.cut_power(Loss::Nothing))).map(drop).expect_err("E18.1a");
}

/// E18.4: a transaction that began after the backup holds less of the log than that, and less than its limit.
#[test]
fn full_log_ends_backup_first() {
    let world = Arc::new(World::new());
    let is_called = AtomicBool::new(false);
    let to = run_during_backup(&world, "pages", move |world| {
        if is_called.swap(true, Ordering::SeqCst) {
            return;
        }
        let add = |times| (0..times).for_each(|_| world.add(1));
        // Each time a block of the log, which has room for a thousand.
        add(700);
        let mut younger = world.store.begin();
        younger.update(at(world.other, 0), &Add { amount: 1 }).unwrap();
        add(1);
        world.store.checkpoint().unwrap();
        add(450);
        younger.commit(Commit::Sync).expect("E18.4: it was not rolled back");
    });
    let error = world.backup(&to).unwrap_err();
    assert!(matches!(error, Error::BackupEnded { .. }), "E18.4: {error}");
}

/// Takes so many checkpoints that pages which are dirty now are home, and redo needs no record of before.
fn write_home(store: &Store) {
    for _ in 0..3 {
        store.checkpoint().unwrap();
    }
}

/// Changes a number that must be `from`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Replace {
    from: i64,
    to: i64,
}

impl Operation for Replace {
    const NAME: &'static str = "test.replace";

    fn prepare(&self, _page: &PageRef<'_>, _at: Slot) -> Result<Undo, Refused> {
        Ok(Undo::op(Replace { from: self.to, to: self.from }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        if number(&page.page_ref(), at)? != self.from {
            return Err(Damaged::in_body(page.id(), 0, "another number"));
        }
        page.put_u64(usize::from(at.0) * 8, self.to as u64)
    }
}

/// E18.2: pages are changed and freed after the backup's checkpoint, before the backup reads them.
#[test]
fn freed_pages_wait_for_backup() {
    let registry = || registry().operation::<Replace>();
    let (store, _) = store_with(options(), registry());
    // More than a backup reads at once.
    let pages: Vec<PageId> = (0..400).map(|_| store.transact(page_with_zeros).unwrap()).collect();
    store.transact(|txn| pages.iter().try_for_each(|&page| txn.update(at(page, 0), &Add { amount: 1 }))).unwrap();
    write_home(&store);
    let (beside, is_first) = (store.clone(), AtomicBool::new(true));
    let to = SimDisk::new();
    to.before_each_call(move |_, call, name| {
        if call == Call::Write && name == "pages" && is_first.swap(false, Ordering::SeqCst) {
            let change = |txn: &mut Txn, page| txn.update(at(page, 0), &Replace { from: 1, to: 2 });
            beside.transact(|txn| pages[300..].iter().try_for_each(|&page| change(txn, page))).unwrap();
            beside.transact(|txn| pages[300..].iter().try_for_each(|&page| txn.free(page))).unwrap();
            write_home(&beside);
        }
    });
    store.backup(&(Arc::new(to.clone()) as Arc<dyn Media>), BackupOptions::default()).unwrap();
    let copy: Arc<dyn Media> = Arc::new(to.cut_power(Loss::Everything));
    let store = Store::open(copy, options(), registry()).expect("E18.2");
    // Freed pages are redone, too, and are not read by the check.
    store.complete_recovery().expect("E18.2");
    store.check().unwrap();
}

/// Numbers in every sector of a page.
const SLOTS: [u16; 8] = [0, 60, 120, 180, 240, 300, 360, 420];

/// E18.5: a page goes home while it is read in two parts.
#[test]
fn torn_read_is_repeated() {
    for seed in 0..24 {
        let disk = Arc::new(SimDisk::new());
        let store = Arc::new(open(&disk).unwrap());
        let pages: Vec<PageId> = (0..40).map(|_| store.transact(page_with_zeros).unwrap()).collect();
        write_home(&store);
        let world = (Arc::clone(&store), pages.clone());
        let reads = AtomicUsize::new(0);
        disk.before_each_call(move |_, call, name| {
            // Later ones may be reads once more, when no page goes home.
            if call == Call::Read && name == "pages" && reads.fetch_add(1, Ordering::SeqCst) < 2 {
                let (store, pages) = &world;
                let add = |txn: &mut Txn, page| {
                    SLOTS.iter().try_for_each(|&slot| txn.update(at(page, slot), &Add { amount: 1 }))
                };
                store.transact(|txn| pages.iter().try_for_each(|&page| add(txn, page))).unwrap();
                store.checkpoint().unwrap();
            }
        });
        disk.shorten(Some(seed));
        let to = SimDisk::new();
        store.backup(&(Arc::new(to.clone()) as Arc<dyn Media>), BackupOptions::default()).unwrap();
        let copy = open(&Arc::new(to)).unwrap();
        for page in pages {
            let all = SLOTS.map(|slot| read_number(&copy, at(page, slot)).unwrap());
            assert!(all[0] > 0 && all.iter().all(|&one| one == all[0]), "E18.5: {all:?}");
        }
    }
}

/// E18.1a: at each call of the backup's medium the power fails.
#[test]
fn unfinished_backup_is_refused() {
    let world = World::new();
    world.add(3);
    world.turn_over();
    world.add(4);
    let to = SimDisk::new();
    world.backup(&to).unwrap();
    let mut cursor = to.journal().cursor();
    let (mut refused, mut complete) = (0, 0);
    while cursor.advance() {
        for seed in 0..3 {
            let image = SimDisk::from_image(cursor.image(Loss::Random(seed)));
            match open(&Arc::new(image.clone())) {
                // Nothing was copied yet, and a new store has taken the place.
                Ok(store) if store.recovery().created => refused += 1,
                Ok(store) => {
                    drop(store);
                    assert_eq!(world.sum_in(&image), 7, "E18.1a");
                    complete += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 50 && complete > 0, "{refused} {complete}");
}

/// E18.8: not when all is copied, perhaps hours later. Meanwhile the store could not be opened again.
#[test]
fn stopped_store_ends_backup() {
    let world = Arc::new(World::new());
    world.add(1);
    let to = run_during_backup(&world, "pages", |world| world.store.log().stop("by a test"));
    let error = world.backup(&to).unwrap_err();
    assert!(matches!(error, Error::Stopped(_)) && error.to_string().contains("by a test"), "{error}");
    assert!(to.list("heaps").unwrap().is_empty(), "nothing is copied any more");
}

#[test]
fn backup_needs_empty_directory() {
    let world = World::new();
    let to = SimDisk::new();
    world.backup(&to).unwrap();
    let error = world.backup(&to).unwrap_err();
    assert!(matches!(error, Error::Log(cedrat_wal::LogError::AlreadyThere { .. })), "{error}");
    assert_eq!(world.sum_in(&to), 0, "it is as it was");
}

/// E18.1a: also files that this store has none of would belong to the backup.
#[test]
fn backup_refuses_each_foreign_file() {
    let store = open(&Arc::new(SimDisk::new())).unwrap();
    for name in ["pages", "log/000000", "heaps/words.0"] {
        let to: Arc<dyn Media> = Arc::new(SimDisk::new());
        to.open(name, OpenMode::Create).unwrap();
        let error = store.backup(&to, BackupOptions::default()).expect_err(name).to_string();
        assert!(error.starts_with(&format!("{name}: ")), "{error}");
    }
}
