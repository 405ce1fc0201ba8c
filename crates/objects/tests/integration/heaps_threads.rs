//! Threads that commit to two heaps, a table and a graph while the heaps grow, others come and go, the disk fills, and it fails,
//! panics or loses its power in any thread: each acknowledged commit is found, and each thread ends.
#![cfg(not(cedrat_shuttle))] // threads of the system

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cedrat_check::Rng;
use cedrat_heap::{Heap, HeapOptions};
use cedrat_media::{Call, Fault, Kill, Loss, Media, SimDisk};
use cedrat_objects::graph::{Changes, Graph, Mode};
use cedrat_structures::HashTable;
use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cedrat_sync::{Arc, thread};
use cedrat_txn::{Commit, Error, Options, Result, Store};

use crate::graph_common;

type Table = HashTable<u64, u64>;

const THREADS: u64 = 3;
const CHUNK: u64 = 4096;
const SIZE_MAX: u64 = 60 * CHUNK;

fn options(rng: &mut Rng) -> Options {
    let base = Options::simulated();
    Options {
        pool_bytes: [16, 64, 1024][rng.below(3) as usize] * 4096,
        log_limit_bytes: [16, 40][rng.below(2) as usize] * base.segment_len,
        background: rng.below(4) > 0,
        checkpoint_every_bytes: [5_000, 50_000][rng.below(2) as usize],
        redo_threads: rng.below(3) as usize,
        ..base
    }
}

/// The handles that the threads share.
#[derive(Clone)]
struct Parts {
    store: Store,
    table: Table,
    heaps: [Heap; 2],
    graph: Graph,
}

impl Parts {
    fn of(store: Store, is_new: bool) -> Parts {
        let options = HeapOptions { size_max: SIZE_MAX, chunk_len: CHUNK, ..HeapOptions::raw(2 * CHUNK) };
        let memory = store.memory();
        let of_graph = cedrat_objects::graph::Options::default();
        if is_new {
            let heaps = ["a", "b"].map(|name| memory.create_heap(name, &options).expect("a heap"));
            let table = store.transact(|txn| Table::create(txn, "table")).expect("a table");
            let graph = Graph::create(&store, "graph", of_graph).expect("a graph");
            graph.define_class(b"a class").expect("there is room");
            return Parts { store, table, heaps, graph };
        }
        let heaps = ["a", "b"].map(|name| memory.heap(name).expect("it was created"));
        let table = store.transact(|txn| Table::open(txn, "table")).expect("it was created");
        let graph = Graph::open(&store, "graph", of_graph).expect("it was created");
        Parts { store, table, heaps, graph }
    }

    /// Adds one to the thread's number in both heaps and in the table. Returns the new number, if it is durable.
    fn count(&self, own: u64, rng: &mut Rng) -> Result<u64> {
        let mut txn = self.store.begin();
        let next = self.table.get(&mut txn, &own)?.unwrap_or(0) + 1;
        self.table.insert(&mut txn, &own, &next)?;
        for heap in &self.heaps {
            txn.heap(|tx| tx.write(heap, own * 512, next))?;
        }
        match rng.below(6) {
            0 => txn.rollback().map(|()| 0),
            1 => txn.commit(Commit::Async)?.wait().map(|_| next).map_err(Error::from),
            2 => txn.commit(Commit::Async).map(|_| 0),
            _ => txn.commit(Commit::Sync).map(|_| next),
        }
    }

    /// Grows a heap, and notes its size at its end and in the other one. Returns the size, if there was something to grow.
    fn grow(&self, rng: &mut Rng) -> Result<u64> {
        let one = rng.below(2) as usize;
        let (heap, other) = (&self.heaps[one], &self.heaps[1 - one]);
        let size = heap.size() + CHUNK * (1 + rng.below(2));
        if size > SIZE_MAX {
            return Ok(0);
        }
        heap.grow(size)?;
        self.store.memory().run(Commit::Sync, |tx| {
            tx.write(heap, size - 8, size)?;
            tx.write(other, 8 * (100 + one as u64), size)
        })?;
        Ok(size)
    }

    fn come_and_go(&self, rng: &mut Rng) -> Result<()> {
        let memory = self.store.memory();
        let options = HeapOptions { chunk_len: CHUNK, ..HeapOptions::raw(CHUNK * (1 + rng.below(4))) };
        let heap = memory.create_heap("c", &options)?;
        memory.run(Commit::Async, |tx| {
            tx.write(&heap, 0, 1)?;
            tx.write(&self.heaps[0], 8 * 102, 1)
        })?;
        Ok(memory.drop_heap("c")?)
    }

    fn add_object(&self) -> Result<()> {
        let mut changes = Changes::new();
        changes.add(1, b"an object", &[]);
        self.graph.commit(&changes, Mode::Async).map(drop)
    }

    /// Compares the store with what was acknowledged.
    fn judge(&self, what: &str, acknowledged: &[AtomicU64]) {
        let mut txn = self.store.begin();
        let word = |heap: &Heap, offset| heap.atomically(|tx| tx.read(heap, offset)).expect("it is read");
        for own in 0..THREADS {
            let found = self.table.get(&mut txn, &own).expect("it is read").unwrap_or(0);
            let known = acknowledged[own as usize].load(Ordering::SeqCst);
            assert!(found >= known, "{what}: {known} acknowledged to thread {own}, {found} found");
            assert_eq!([0, 1].map(|heap| word(&self.heaps[heap], own * 512)), [found; 2], "{what}: a half transaction");
            acknowledged[own as usize].store(found, Ordering::SeqCst);
        }
        for one in 0..2 {
            let (heap, other) = (&self.heaps[one], &self.heaps[1 - one]);
            let size = word(other, 8 * (100 + one as u64));
            assert!(size <= heap.size(), "{what}: {size} was used of {}", heap.size());
            assert!(size == 0 || word(heap, size - 8) == size, "{what}: a half transaction at {size}");
            let known = acknowledged[THREADS as usize + one].load(Ordering::SeqCst);
            assert!(heap.size() >= known, "{what}: growth to {known} is lost");
        }
        txn.rollback().expect("nothing was changed");
        self.store.check().expect("its pages are sound");
        self.graph.check().expect("it is read").expect_sound();
    }
}

fn works(parts: &Parts, own: u64, rng: &mut Rng, acknowledged: &[AtomicU64]) -> Result<()> {
    let note = |at: usize, number| _ = acknowledged[at].fetch_max(number, Ordering::SeqCst);
    match rng.below(40) {
        0 => {
            let before = parts.heaps.each_ref().map(Heap::size);
            parts.grow(rng)?;
            (0..2).for_each(|one| note(THREADS as usize + one, before[one]));
        }
        1 if own == 0 => parts.come_and_go(rng)?,
        2 => parts.add_object()?,
        _ => note(own as usize, parts.count(own, rng)?),
    }
    Ok(())
}

fn fault(rng: &mut Rng) -> Fault {
    let nth = 1 + rng.below(4000);
    let of = ["", "", "heaps", "pages", "written", "control", "log/", "double-write"][rng.below(8) as usize];
    let nth = if of.is_empty() { nth } else { 1 + nth / 40 };
    match rng.below(6) {
        0 => Fault::forgetful_sync().nth(1 + nth / 10),
        1..=3 => Fault::panic(Call::Any).nth(nth).of(of),
        4 => Fault::error(Call::Any, io::ErrorKind::Other).nth(nth).of(of),
        _ => Fault::power_loss(Call::Any).nth(nth).of(of),
    }
}

fn crash(rng: &mut Rng, disk: &SimDisk) -> Arc<SimDisk> {
    let seed = rng.next_u64();
    if rng.below(3) > 0 {
        return Arc::new(disk.cut_power(if rng.below(3) == 0 { Loss::Everything } else { Loss::Random(seed) }));
    }
    // No thread gets a later call through.
    drop(disk.cut_power(Loss::Nothing));
    let mut cursor = disk.journal().cursor();
    cursor.advance_to(cursor.journal().len());
    Arc::new(cursor.kill(if rng.below(2) == 0 { Kill::Process(seed) } else { Kill::FailedSync(seed) }))
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut disk = Arc::new(SimDisk::new());
    let acknowledged: Arc<Vec<AtomicU64>> = Arc::new((0..THREADS + 2).map(|_| AtomicU64::new(0)).collect());
    for opening in 0..5 {
        let what = format!("seed {seed}, opening {opening}");
        let store =
            Store::open(Arc::<SimDisk>::clone(&disk) as Arc<dyn Media>, options(&mut rng), graph_common::registry());
        let parts = Parts::of(store.unwrap_or_else(|error| panic!("{what}: {error}")), opening == 0);
        parts.judge(&what, &acknowledged);
        let is_faulty = rng.below(3) > 0;
        if is_faulty {
            disk.inject(fault(&mut rng));
        }
        let ends = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..THREADS)
            .map(|own| {
                let (parts, ends, acknowledged) = (parts.clone(), Arc::clone(&ends), Arc::clone(&acknowledged));
                let mut rng = rng.part(own + 10 * opening);
                thread::spawn(move || {
                    while !ends.load(Ordering::SeqCst) {
                        let worked = catch_unwind(AssertUnwindSafe(|| works(&parts, own, &mut rng, &acknowledged)));
                        if !matches!(worked, Ok(Ok(()))) && parts.store.log().is_stopped() {
                            return;
                        }
                    }
                })
            })
            .collect();
        for _ in 0..60 {
            match rng.below(4) {
                0 => drop(catch_unwind(AssertUnwindSafe(|| parts.store.checkpoint()))),
                1 => disk.set_capacity(Some(disk.space() + rng.below(200_000))),
                _ => disk.set_capacity(None),
            }
            (0..100).for_each(|_| thread::yield_now());
        }
        if let Some(stopped) = parts.store.log().stopped() {
            assert!(is_faulty, "{what}: it stopped without a cause: {stopped}");
        }
        ends.store(true, Ordering::SeqCst);
        let goes_on = rng.below(2) == 0;
        if goes_on {
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            disk.clear_faults();
            disk.set_capacity(None);
            let _ = catch_unwind(AssertUnwindSafe(|| drop(parts)));
            disk = crash(&mut rng, &disk);
        } else {
            disk = crash(&mut rng, &disk);
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        }
    }
}

#[test]
fn growing_heaps_lose_nothing_beside_threads() {
    let first = cedrat_check::seed(0);
    (first..first + 2).for_each(run);
}
