//! Allocations that fail in a scripted workload: whatever happens to the process, the next one finds every acknowledged commit, and
//! none in part.
//!
//! Each transaction of the script changes a hash table, an object in the cache and a word of a heap, so that a part of one shows.
//! Each run is a process of its own: this program, executed again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cedrat::heap::HeapOptions;
use cedrat::media::{Media, RealDisk};
use cedrat::objects::{ObjectId, Objects};
use cedrat::structures::HashTable;
use cedrat::txn::BackupOptions;
use cedrat_pages::{PageId, Slot};
use cedrat_txn::{Error, OpenError, Options, Result, Store};

use super::{COUNTED, FAILS_FROM_THEN_ON, FAILS_IN, MIN, Output, run};

/// The variable with the folder, the mode, `one` or `all`, and the number of the first allocation that fails.
const WORKLOAD: &str = "CEDRAT_FAILED_WORKLOAD";

/// The variable that lets each allocation fail, not only some.
const EVERY: &str = "CEDRAT_EVERY_ALLOCATION";

/// The number of runs of each mode, at least half of it.
const RUNS: u64 = 400;

/// Processes that run at a time.
const WORKERS: u64 = 2;

/// The number of transactions in the script.
const TRANSACTIONS: u64 = 12;

/// The transaction after which a backup is taken.
const BACKED_UP: u64 = 6;

/// Length of the longest object: it does not fit the buffers that other transactions have left.
const LONG: usize = 1_500;

fn open(folder: &Path) -> std::result::Result<Store, OpenError> {
    let options = Options { pool_bytes: 256 << 10, ..Options::simulated() };
    cedrat::open_with(folder.join("store"), options, cedrat::registry())
}

fn objects(store: &Store) -> Result<Objects> {
    Objects::open_or_create(store, "objects", cedrat::objects::Options::default()).map_err(Error::user)
}

/// Returns the heap word that names an object.
fn word_of(id: ObjectId) -> u64 {
    id.page.get() << 16 | u64::from(id.slot.0)
}

/// Returns the object that a heap word names.
fn object_at(word: u64) -> ObjectId {
    ObjectId::new(PageId::new(word >> 16), Slot(word as u16))
}

/// Returns the object after a transaction.
fn object_of(transaction: u64) -> Vec<u8> {
    let len = if transaction.is_multiple_of(4) { LONG } else { 8 };
    transaction.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// The structures of the script.
struct Structures {
    store: Store,
    objects: Objects,
    table: HashTable<u64, u64>,
}

impl Structures {
    fn open(store: Store) -> Result<Structures> {
        if store.memory().heap("words").is_err() {
            store.memory().create_heap("words", &HeapOptions::raw(64 << 10))?;
        }
        let table = store.transact(|txn| HashTable::open_or_create(txn, "table").map_err(Error::user))?;
        let objects = objects(&store)?;
        Ok(Structures { store, objects, table })
    }

    /// Runs the transaction with this number; `commits`: otherwise it rolls back.
    fn transact(&self, number: u64, commits: bool) -> Result<()> {
        let heap = self.store.memory().heap("words")?;
        self.store.transact(|txn| {
            self.table.insert(txn, &number, &number).map_err(Error::user)?;
            let bytes = object_of(number);
            let id = if number == 1 {
                word_of(self.objects.insert(txn, &bytes).map_err(Error::user)?)
            } else {
                let id = txn.heap(|tx| tx.read(&heap, 8))?;
                self.objects.put(txn, object_at(id), &bytes).map_err(Error::user)?;
                id
            };
            txn.heap(|tx| {
                tx.write(&heap, 8, id)?;
                tx.write(&heap, 0, number)
            })?;
            if commits { Ok(()) } else { Err(Error::user("it is to roll back")) }
        })
    }
}

/// Acknowledges a step. The buffer of the standard output exists already.
fn acknowledge(step: &str, number: u64) {
    println!("{step} {number}");
}

fn script(folder: &Path) -> Result<()> {
    let mut structures = Structures::open(open(folder)?)?;
    for number in 1..=TRANSACTIONS {
        structures.transact(number, true)?;
        acknowledge("committed", number);
        match number {
            3 | 9 => structures.store.checkpoint()?,
            4 => drop(structures.transact(number + 1, false)),
            BACKED_UP => {
                let to: Arc<dyn Media> = Arc::new(RealDisk::new(folder.join("backup")));
                structures.store.backup(&to, BackupOptions::default())?;
                acknowledge("copied", number);
            }
            8 => {
                let Structures { store, objects, table } = structures;
                drop((objects, table));
                store.close()?;
                structures = Structures::open(open(folder)?)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Runs in a process of its own, and does nothing in any other.
#[test]
fn process_runs_script() {
    let Ok(workload) = std::env::var(WORKLOAD) else { return };
    let [folder, mode, fails_in] = workload.split('|').collect::<Vec<_>>()[..] else { panic!("{workload}") };
    println!("\nstarted 0");
    FAILS_FROM_THEN_ON.store(mode == "all", Ordering::Relaxed);
    FAILS_IN.store(fails_in.parse().expect("a number"), Ordering::Relaxed);
    MIN.store(1, Ordering::Relaxed);
    let done = script(Path::new(folder));
    MIN.store(u64::MAX, Ordering::Relaxed);
    match done {
        Ok(()) => acknowledge("ended", COUNTED.load(Ordering::Relaxed)),
        Err(error) => println!("refused {error}"),
    }
}

/// Returns the last number with which a step was acknowledged.
fn acknowledged(output: &Output, step: &str) -> Option<u64> {
    let mut numbers = output.out.lines().filter_map(|line| line.strip_prefix(step)?.trim().parse().ok());
    numbers.next_back()
}

fn run_script(folder: &Path, mode: &str, fails_in: u64) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "workload::process_runs_script", "--nocapture"]);
    command.env(WORKLOAD, format!("{}|{mode}|{fails_in}", folder.display()));
    run(command)
}

/// Returns the number of the last transaction that a store has, and asserts that it has this one, and each before, as a whole.
#[track_caller]
fn last_transaction(store: Store) -> u64 {
    store.check().expect("it is sound");
    let structures = Structures::open(store).expect("what is missing is created");
    let heap = structures.store.memory().heap("words").expect("it was created");
    let (last, id) = heap.atomically(|tx| Ok((tx.read(&heap, 0)?, tx.read(&heap, 8)?))).expect("no other runs");
    let numbers = (1..=TRANSACTIONS + 1).map(|number| {
        structures.store.transact(|txn| structures.table.get(txn, &number).map_err(Error::user)).expect("it is read")
    });
    let expected = (1..=TRANSACTIONS + 1).map(|number| (number <= last).then_some(number));
    assert_eq!(numbers.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "the table; the heap has {last}");
    if last > 0 {
        let read = |bytes: &[u8]| bytes.to_vec();
        let object = structures
            .store
            .transact(|txn| structures.objects.read(txn, object_at(id), read).map_err(Error::user))
            .expect("it was inserted");
        assert_eq!(object, object_of(last), "the object; the heap has {last}");
    }
    // It can be used.
    structures.transact(last + 1, true).expect("the disk is whole");
    last
}

/// Runs the script with an allocation that fails, and asserts what is left. Returns whether the process has died of it.
fn survives(mode: &str, fails_in: u64) -> bool {
    let folder = folder();
    let output = run_script(folder.path(), mode, fails_in);
    let context = || format!("mode {mode}, allocation {fails_in}: {output:?}");
    let died = !output.status.success();
    assert!(!died || output.err.contains("memory allocation of"), "{}", context());
    let committed = acknowledged(&output, "committed").unwrap_or(0);
    let store = open(folder.path()).unwrap_or_else(|error| panic!("{error}; {}", context()));
    let last = last_transaction(store);
    assert!(last == committed || last == committed + 1, "W4: {last} is the last one; {}", context());
    if let Some(copied) = acknowledged(&output, "copied") {
        let store = cedrat::open(folder.path().join("backup")).unwrap_or_else(|error| panic!("{error}; {}", context()));
        assert_eq!(last_transaction(store), copied, "E18: the backup; {}", context());
    }
    died
}

/// Returns a folder in memory, if there is such a file system: a process that dies loses nothing there that it has written.
fn folder() -> tempfile::TempDir {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    tempfile::tempdir_in(parent).expect("a directory")
}

/// Lets allocations fail, each in another run, and asserts that most of them were needed.
fn each_fails(mode: &str) {
    let whole = folder();
    let output = run_script(whole.path(), mode, 0);
    let all = acknowledged(&output, "ended").unwrap_or_else(|| panic!("a run without a fault: {output:?}"));
    let step = if std::env::var_os(EVERY).is_some() { 1 } else { all.div_ceil(RUNS) };
    // Each round of a soak begins elsewhere.
    let seed = std::env::var("CEDRAT_SEED").map_or(0, |seed| seed.parse::<u64>().expect("a number"));
    let (next, died) = (AtomicU64::new(1 + seed % step), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(fails_in) = Some(next.fetch_add(step, Ordering::Relaxed)).filter(|&next| next <= all) {
                    died.fetch_add(u64::from(survives(mode, fails_in)), Ordering::Relaxed);
                }
            });
        }
    });
    let died = died.into_inner();
    println!("{all} allocations, one in {step} failed, {died} processes died");
    assert!(died > all / step / 2, "{died} processes died, of {}", all / step);
}

/// W4, E8: the process aborts, or a call returns an error.
#[test]
fn failed_allocation_of_workload_loses_nothing() {
    each_fails("one");
}

/// W4, E8: no memory is left.
#[test]
fn workload_without_memory_loses_nothing() {
    each_fails("all");
}
