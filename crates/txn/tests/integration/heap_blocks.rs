//! Blocks that span several spans, in commits that survive a crash without others (E8.5, E17).

use std::sync::mpsc;
use std::time::Duration;

use cedrat_heap::{Commit, Error, Heap, HeapOptions, Locking, Session};
use cedrat_media::{Loss, Media, SimDisk};
use cedrat_sync::{Arc, thread};
use cedrat_txn::{Options, Registry, Store};
use cedrat_wal::{ByteLen, Reservation};

fn open(disk: &Arc<SimDisk>) -> Store {
    let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
    let mut options = Options { partitions: 2, ..Options::simulated() };
    // One stripe per word: a write to a neighbouring word does not affect its version.
    (options.memory.stripe_words_log2, options.memory.stripes_log2) = (0, 18);
    Store::open(media, options, Registry::new()).unwrap()
}

/// The capacity of a block of three of the smallest spans, and of one of seven.
const THREE: u64 = 3 * 2048 - 16;
const SEVEN: u64 = 7 * 2048 - 16;

struct Scene {
    disk: Arc<SimDisk>,
    store: Store,
    heap: Heap,
    /// Sessions in different partitions.
    one: Session,
    other: Session,
}

fn scene() -> Scene {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk);
    let options = HeapOptions { chunk_len: 4096, size_max: 96 << 10, ..HeapOptions::new(96 << 10) };
    let heap = store.memory().create_heap("heap", &options).unwrap();
    let mut sessions: Vec<Session> = (0..2).map(|_| store.memory().session().unwrap()).collect();
    let partition = |session: &mut Session| {
        let alone = session.run(Commit::Partition, |tx| {
            let block = tx.allocate(&heap, 8)?;
            tx.free(&heap, block)
        });
        alone.unwrap().alone.map(|position| position.partition)
    };
    let (mut one, mut other) = (sessions.remove(0), sessions.remove(0));
    assert_ne!(partition(&mut one), partition(&mut other), "each in its own");
    store.memory().run(Commit::Sync, |tx| tx.allocate(&heap, 8)).unwrap();
    Scene { disk, store, heap, one, other }
}

impl Scene {
    /// Allocates blocks of this length until the heap is full.
    fn fill(&mut self, len: u64) -> Vec<u64> {
        let mut blocks = Vec::new();
        loop {
            match self.one.run(Commit::Sync, |tx| tx.allocate(&self.heap, len)) {
                Ok(done) => blocks.push(done.value),
                Err(Error::HeapFull { .. }) => return blocks,
                Err(other) => panic!("{other}"),
            }
        }
    }

    /// Allocates a long block by a commit of one partition, over spans of which one was freed by a commit of the other
    /// partition that is not durable. After a crash that loses the free, the block is not there.
    fn a_long_block(mut self, freed: u64) {
        let long = self.one.run(Commit::Partition, |tx| tx.allocate(&self.heap, SEVEN)).unwrap();
        assert!((long.value..long.value + SEVEN).contains(&freed), "it lies over what was freed");
        let crashed = Arc::new(self.disk.cut_power(Loss::Everything));
        drop(self.store);
        let store = open(&crashed);
        let heap = store.memory().heap("heap").unwrap();
        let is_there = |block| store.memory().run(Commit::Async, |tx| tx.block_len(&heap, block)).is_ok();
        assert!(!is_there(long.value) || !is_there(freed), "two blocks overlap");
        heap.verify().unwrap();
        if is_there(long.value) {
            heap.atomically(|tx| tx.free(&heap, long.value)).unwrap();
        }
        drop((heap, store));
        let store = open(&Arc::new(crashed.cut_power(Loss::Nothing)));
        store.memory().heap("heap").unwrap().verify().unwrap();
        assert!(long.alone.is_none(), "E8.5");
    }
}

#[test]
fn long_block_waits_for_free_below_it() {
    let mut scene = scene();
    let all = scene.fill(THREE);
    let heap = scene.heap.clone();
    scene.other.run(Commit::Sync, |tx| tx.free(&heap, all[2])).unwrap();
    scene.other.run(Commit::Sync, |tx| tx.free(&heap, all[4])).unwrap();
    scene.other.run(Commit::NoFlush, |tx| tx.free(&heap, all[3])).unwrap();
    scene.a_long_block(all[3]);
}

#[test]
fn long_block_waits_for_cleared_spans() {
    let mut scene = scene();
    let heap = scene.heap.clone();
    let first = scene.one.run(Commit::Sync, |tx| tx.allocate(&heap, THREE)).unwrap().value;
    // Four spans of blocks whose contents are not valid headers.
    let small = scene.fill(250);
    for some in small.chunks(50) {
        let write = scene.one.run(Commit::Sync, |tx| some.iter().try_for_each(|&at| tx.free(&heap, at)));
        write.unwrap();
    }
    scene.other.run(Commit::Sync, |tx| tx.free(&heap, first)).unwrap();
    let long = scene.one.run(Commit::Partition, |tx| {
        let long = tx.allocate(&heap, SEVEN)?;
        (0..SEVEN / 8).try_for_each(|at| tx.write(&heap, long + at * 8, 0xdead))?;
        Ok(long)
    });
    let long = long.unwrap();
    assert!(long.value <= first && long.value + SEVEN > first + THREE, "it lies over what was cleared");
    assert!(long.alone.is_none(), "E8.5");
}

/// Reserves all free space of the log.
fn all_of_the_log(store: &Store) -> Reservation {
    store.checkpoint().unwrap();
    let mut all = store.log().reserve(ByteLen(0), ByteLen(0)).unwrap();
    for piece in [100_000, 1000, 10, 1] {
        while store.log().reserve_more(&mut all, ByteLen(piece), ByteLen(0)).is_ok() {}
    }
    all
}

/// E17.7b: the spans can be cleared only at the end of a transaction, and the log has no space for this.
#[test]
fn full_log_ends_repeated_allocation() {
    for (locking, sessions_max) in [(Locking::CommitTime, 1), (Locking::EncounterTime, 3)] {
        let mut options = Options::simulated();
        (options.memory.locking, options.memory.sessions_max) = (locking, sessions_max);
        let store = Store::open(Arc::new(SimDisk::new()), options, Registry::new()).unwrap();
        let options = HeapOptions { chunk_len: 4096, size_max: 96 << 10, ..HeapOptions::new(96 << 10) };
        let heap = store.memory().create_heap("heap", &options).unwrap();
        // Otherwise the session keeps log space for its next commit.
        let some = store.log().reserve(ByteLen(1 << 20), ByteLen(0)).unwrap();
        let most = all_of_the_log(&store);
        drop(some);
        let mut blocks = Vec::new();
        while let Ok(block) = heap.atomically(|tx| tx.allocate(&heap, 100)) {
            blocks.push(block);
        }
        blocks.iter().for_each(|&block| heap.atomically(|tx| tx.free(&heap, block)).unwrap());
        let rest = all_of_the_log(&store);
        let (done, result) = mpsc::channel();
        let of_thread = heap.clone();
        let allocate = move |heap: &Heap| {
            heap.atomically(|tx| {
                if locking == Locking::EncounterTime {
                    tx.allocate(heap, 16)?; // it locks a word of the table
                }
                tx.allocate(heap, 9000)
            })
        };
        thread::spawn(move || done.send(allocate(&of_thread)));
        let refused = result.recv_timeout(Duration::from_secs(40)).expect("E17.7b: no repetition without end");
        assert!(matches!(refused, Err(Error::LogFull(_))), "E17.7b: {refused:?}");
        drop((most, rest));
        allocate(&heap).expect("all of the heap is free");
    }
}
