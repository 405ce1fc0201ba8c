//! Points in time: while threads commit, backups are taken and the archive grows. Each point that these have is restored, or viewed, and
//! has exactly the transactions up to its LSN.
#![forbid(unsafe_code)]
#![cfg(not(cedrat_shuttle))]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use cedrat::heap::{Heap, HeapOptions};
use cedrat::media::{Loss, Media, SimDisk};
use cedrat::prelude::*;
use cedrat::txn::{BackupOptions, RestoreTarget, View, open_as_of};
use cedrat::wal::Lsn;
use cedrat::{Commit, Options};
use cedrat_tests::seed::{Random, seeds};

/// Number of loads, each of which has new stores.
const LOADS: u64 = 25;
/// Number of points of each load.
const POINTS: u64 = 40;
/// Number of backups that are taken under each load.
const BACKUPS: u64 = 4;
/// Number of threads that commit.
const WRITERS: u64 = 3;
/// The length of each value: the store grows by more than the page file of its first backup has space for.
const VALUE_LEN: usize = 700;
/// Commits of each writer between two backups.
const COMMITS: u64 = 40;

fn media(disk: &SimDisk) -> Arc<dyn Media> {
    Arc::new(disk.clone())
}

fn options() -> Options {
    let mut options = Options { partitions: 2, ..Options::simulated() };
    (options.pool_bytes, options.archive_run_bytes) = (256 << 10, 4 << 10);
    options
}

/// Returns the value of a key.
fn value(number: u64) -> Vec<u8> {
    let mut value = vec![0; VALUE_LEN];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

fn table_of(writer: u64) -> String {
    format!("table {writer}")
}

/// The commits of one writer, by the LSNs of their records; the first has number 1.
type Commits = Vec<Lsn>;

/// Changes the writer's table and its word of the heap in one transaction, again and again.
fn write(store: &Store, heap: &Heap, writer: u64, ends: &AtomicBool, done: &AtomicU64, seed: u64) -> Commits {
    let mut random = Random::new(seed << 8 | writer);
    let mut commits = Commits::new();
    while !ends.load(Ordering::Relaxed) {
        let number = commits.len() as u64 + 1;
        let mut txn = store.begin();
        let table = HashTable::<u64, Vec<u8>>::open(&mut txn, &table_of(writer)).expect("it was created");
        table.insert(&mut txn, &number, &value(number)).expect("no other thread uses it");
        txn.heap(|tx| tx.write(heap, writer * 8, number)).expect("no other thread uses it");
        if random.below(5) == 0 {
            txn.rollback().expect("always possible");
            continue;
        }
        let mode = [Commit::Sync, Commit::Async, Commit::NoFlush][random.below(3) as usize];
        match txn.commit(mode) {
            Ok(ticket) => commits.push(ticket.lsn()),
            Err(Error::Heap(cedrat::heap::Error::Conflict)) => continue, // with a neighbour's word
            Err(error) => panic!("a sound disk: {error}"),
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    commits
}

/// A load that has ended: its copies, and its commits.
struct Load {
    archive: SimDisk,
    /// Backups, and the LSN up to which each has all.
    backups: Vec<(SimDisk, Lsn)>,
    writers: Vec<Commits>,
    end: Lsn,
}

impl Load {
    fn run(seed: u64) -> Load {
        let (disk, archive) = (SimDisk::new(), SimDisk::new());
        let archived = Options {
            archive: Some(media(&archive)),
            background: true,
            archive_period: Duration::from_millis(1),
            ..options()
        };
        let store = Store::open(media(&disk), archived, cedrat::registry()).expect("a new store");
        for writer in 0..WRITERS {
            let create = |txn: &mut Txn| HashTable::<u64, Vec<u8>>::create(txn, &table_of(writer)).map(drop);
            store.transact(create).expect("room");
        }
        let words = HeapOptions { chunk_len: 4096, size: 8192, ..HeapOptions::raw(1 << 16) };
        let heap = store.memory().create_heap("words", &words).expect("room");
        let (ends, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut backups = Vec::new();
        let writers = thread::scope(|scope| {
            let begin = |writer| {
                let (store, heap, ends, done) = (&store, &heap, &ends, &done);
                scope.spawn(move || write(store, heap, writer, ends, done, seed))
            };
            let writers: Vec<_> = (0..WRITERS).map(begin).collect();
            for number in 1..=BACKUPS + 1 {
                while done.load(Ordering::Relaxed) < number * WRITERS * COMMITS {
                    thread::yield_now();
                }
                if number <= BACKUPS {
                    let to = SimDisk::new();
                    let report = store.backup(&media(&to), BackupOptions::default()).expect("room");
                    backups.push((to, report.up_to));
                }
            }
            ends.store(true, Ordering::Relaxed);
            writers.into_iter().map(|writer| writer.join().expect("a writer")).collect()
        });
        let end = store.log().current_lsn();
        store.log().force(end).expect("a sound disk");
        store.extend_archive().expect("a sound disk");
        drop(heap);
        store.close().expect("a sound disk");
        Load { archive, backups, writers, end }
    }

    /// Compares a restored store, or a view, with the commits up to an LSN.
    fn compare(&self, store: &Store, up_to: Lsn) {
        let heap = store.memory().heap("words").expect("it was created");
        let mut txn = store.begin();
        for (writer, commits) in (0..).zip(&self.writers) {
            let committed = commits.partition_point(|&lsn| lsn <= up_to) as u64;
            let word = heap.atomically(|tx| tx.read(&heap, writer * 8)).expect("a sound heap");
            assert_eq!(word, committed, "E18.1, E18.10: writer {writer} up to {up_to}: the heap");
            let table = HashTable::<u64, Vec<u8>>::open(&mut txn, &table_of(writer)).expect("it was created");
            let pairs = table.iter(&mut txn).expect("sound").map(|pair| pair.expect("sound"));
            let (mut found, expected): (Vec<u64>, Vec<u64>) = (Vec::new(), (1..=committed).collect());
            for (key, bytes) in pairs {
                assert!(bytes == value(key), "E18.1, E18.10: writer {writer} up to {up_to}: the value of {key}");
                found.push(key);
            }
            found.sort_unstable();
            assert_eq!(found, expected, "E18.1, E18.10: writer {writer} up to {up_to}: the table");
        }
        txn.rollback().expect("it has changed nothing");
        store.check().expect("sound pages");
    }

    /// Restores a backup, or reads it through a view, with the archive up to a target. Returns the LSN up to which it has all.
    fn judge(&self, (backup, since): &(SimDisk, Lsn), target: Option<Lsn>, is_view: bool) -> Lsn {
        let archive = target.map(|_| media(&self.archive));
        // A backup may have later commits than those that it promises.
        let is_reached = |lsn| target.map_or(lsn >= *since, |target| lsn == target);
        let moment = target.map_or(RestoreTarget::Newest, RestoreTarget::Lsn);
        if is_view {
            let view = View { backup: media(backup), archive, moment, scratch: media(&SimDisk::new()) };
            let (store, lsn) = open_as_of(&view, options(), cedrat::registry()).expect("E18.22");
            assert!(is_reached(lsn), "E18.22: {target:?} {lsn}");
            self.compare(&store, lsn);
            return lsn;
        }
        let to = SimDisk::new();
        let lsn = cedrat_txn::restore(&media(backup), archive.as_ref(), &media(&to), moment).expect("E18.10").up_to;
        assert!(is_reached(lsn), "E18.10: {target:?} {lsn}");
        let durable = to.journal().crash(to.journal_len(), Loss::Everything);
        let store = Store::open(media(&durable), options(), cedrat::registry()).expect("E18.10");
        self.compare(&store, lsn);
        lsn
    }
}

/// E18.1, E18.10, E18.22.
#[test]
fn points_under_load_have_their_commits() {
    for seed in seeds(LOADS) {
        let load = Load::run(seed);
        let mut random = Random::new(seed);
        let earliest: Vec<Lsn> =
            load.backups.iter().map(|backup| load.judge(backup, None, random.below(2) == 0)).collect();
        for _ in 0..POINTS {
            let number = random.below(BACKUPS) as usize;
            let from = earliest[number].get();
            let point = from + random.below(load.end.get() - from + 1);
            load.judge(&load.backups[number], Some(Lsn::new(point)), random.below(2) == 0);
        }
    }
}
