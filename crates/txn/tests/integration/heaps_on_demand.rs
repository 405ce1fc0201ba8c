//! Heaps that are loaded on demand: stores that open before the words of their heaps are in memory (E4.6 to E4.8).

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use cedrat_heap::{Error as HeapError, Heap, HeapOptions, MemoryOptions};
use cedrat_media::{BLOCK_LEN, Call, Damage, Durability, Fault, Loss, Media, OpenMode, SimDisk};
use cedrat_sync::{Arc, Mutex, thread};
use cedrat_txn::{BackupOptions, Commit, Error, Options, Store, Vote};

use crate::common::*;
use crate::rebuilt::after;

const CHUNK: u64 = 4096;
const BRANCH: &[u8] = b"branch";

fn on_demand() -> Options {
    Options { checkpoint_when_opened: false, ..Options::simulated() }
}

fn with_threads() -> Options {
    Options { background: true, redo_threads: 2, ..on_demand() }
}

fn raw(chunks: u64) -> HeapOptions {
    HeapOptions { chunk_len: CHUNK, size_max: 4 * chunks * CHUNK, ..HeapOptions::raw(chunks * CHUNK) }
}

fn words_of(store: &Store) -> Heap {
    store.memory().heap("words").unwrap()
}

fn word(heap: &Heap, offset: u64) -> u64 {
    heap.atomically(|tx| tx.read(heap, offset)).unwrap()
}

fn file_of(disk: &SimDisk, store: &Store) -> String {
    let infos = cedrat_heap::look(disk, &store.log().control().store).unwrap();
    format!("heaps/words.{}", infos[0].checkpoint & 1)
}

fn place_of(chunk: u64) -> u64 {
    chunk * (CHUNK + BLOCK_LEN as u64)
}

/// Returns the disk of a store that was closed, whose heap has `chunks` chunks: the words of chunk `n` at its beginning and at its
/// end have the values `n + 1` and `n + 101`.
fn closed(chunks: u64) -> Arc<SimDisk> {
    let disk = Arc::new(SimDisk::new());
    let store = open_with(&disk, on_demand()).unwrap();
    let heap = store.memory().create_heap("words", &raw(chunks)).unwrap();
    let fill = |chunk: u64| {
        heap.atomically(|tx| {
            tx.write(&heap, chunk * CHUNK, chunk + 1)?;
            tx.write(&heap, (chunk + 1) * CHUNK - 8, chunk + 101)
        })
    };
    (0..chunks).try_for_each(fill).unwrap();
    drop(heap);
    store.close().unwrap();
    disk
}

fn assert_filled(heap: &Heap, chunks: u64) {
    for chunk in 0..chunks {
        let found = [chunk * CHUNK, chunk * CHUNK + 8, (chunk + 1) * CHUNK - 8].map(|offset| word(heap, offset));
        assert_eq!(found, [chunk + 1, 0, chunk + 101], "E4.6: chunk {chunk}");
    }
}

#[test]
fn chunk_is_loaded_at_first_use() {
    let disk = closed(8);
    let store = open_with(&disk, on_demand()).unwrap();
    let heap = words_of(&store);
    let absent = || store.recovery().absent_heap_bytes / CHUNK;
    assert_eq!(absent(), 8);
    assert_eq!(word(&heap, 3 * CHUNK), 4, "E4.6");
    assert_eq!((word(&heap, 4 * CHUNK - 8), absent()), (104, 7));
    // Words that are written and never read.
    heap.atomically(|tx| tx.write(&heap, 5 * CHUNK, 77)).unwrap();
    assert_eq!((word(&heap, 5 * CHUNK), word(&heap, 6 * CHUNK - 8), absent()), (77, 106, 6), "E4.7");
    heap.atomically(|tx| tx.write_bytes(&heap, 7 * CHUNK + 2, &[9])).unwrap();
    assert_eq!((word(&heap, 7 * CHUNK), absent()), (8 | 9 << 16, 5), "E4.6");
    heap.atomically(|tx| tx.update(&heap, 0, |value| value + 10)).unwrap();
    assert_eq!(word(&heap, 0), 11);
    assert!(matches!(heap.stored_plainly(0, 8), Err(HeapError::Misuse(_))), "it would be overwritten");
    heap.load().unwrap();
    assert_eq!((absent(), word(&heap, 2 * CHUNK), word(&heap, 5 * CHUNK)), (0, 3, 77));
    heap.stored_plainly(0, 8).unwrap();
}

/// E4.7: words that replay has stored before their chunk was loaded.
#[test]
fn replayed_words_outlive_their_chunk() {
    let disk = closed(6);
    let store = open_with(&disk, on_demand()).unwrap();
    let heap = words_of(&store);
    for (round, offset) in [8, CHUNK, CHUNK, 2 * CHUNK - 8, 5 * CHUNK].into_iter().enumerate() {
        heap.atomically(|tx| tx.write(&heap, offset, 1000 + round as u64)).unwrap();
    }
    for redo_threads in [0, 3] {
        let crashed = Arc::new(disk.cut_power(Loss::Everything));
        let store = open_with(&crashed, Options { redo_threads, ..on_demand() }).unwrap();
        let heap = words_of(&store);
        assert_eq!(store.recovery().absent_heap_bytes, 6 * CHUNK);
        let found = [0, 8, CHUNK, 2 * CHUNK - 8, 3 * CHUNK, 5 * CHUNK, 6 * CHUNK - 8].map(|offset| word(&heap, offset));
        assert_eq!(found, [1, 1000, 1002, 1003, 4, 1004, 106], "E4.7");
    }
}

/// E4.8: the first checkpoint copies chunks that nothing has used, and the second overwrites the file that they came from.
#[test]
fn crashes_of_first_checkpoints_lose_nothing() {
    let disk = closed(5);
    let from = disk.journal_len();
    let store = open_with(&disk, on_demand()).unwrap();
    let heap = words_of(&store);
    for round in 1..=3 {
        heap.atomically(|tx| tx.write(&heap, 8 * round, round)).unwrap();
        disk.mark(round);
        store.checkpoint().unwrap();
        assert_eq!(store.recovery().absent_heap_bytes, 0, "E4.8");
    }
    drop((heap, store));
    assert!(disk.journal_len() > from + 15);
    every_crash(&disk, 2, |crashed, marks, name| {
        let Ok(store) = open_with(crashed, on_demand()) else { return };
        let Ok(heap) = store.memory().heap("words") else { return };
        let Some(&least) = marks.last() else { return };
        assert_eq!(word(&heap, 8 * least), least, "{name}");
        let found = (1..5).map(|chunk| [word(&heap, chunk * CHUNK), word(&heap, (chunk + 1) * CHUNK - 8)]);
        assert!(found.eq((1..5).map(|chunk| [chunk + 1, chunk + 101])), "E4.8: {name}");
        store.checkpoint().unwrap();
        let store = open_with(&Arc::new(crashed.cut_power(Loss::Everything)), on_demand()).unwrap();
        let heap = words_of(&store);
        assert_eq!((word(&heap, 8 * least), word(&heap, CHUNK)), (least, 2), "E4.8: {name}, after another checkpoint");
    });
}

/// Damage of an absent chunk: no word of it is ever seen, and the store stops. The others are as they were.
#[test]
fn damaged_chunk_stops_store_at_first_use() {
    let harms: [fn(&SimDisk, &str); 3] = [
        |disk, file| disk.corrupt(file, place_of(3) + BLOCK_LEN as u64 + 100, Damage::Flip { bit: 1 }).unwrap(),
        |disk, file| disk.corrupt(file, place_of(3) + 50, Damage::Flip { bit: 1 }).unwrap(),
        // The chunk of another checkpoint, as a disk may return it once, is whole.
        |disk, file| {
            let file = disk.open(file, OpenMode::ReadWrite).unwrap();
            let other = disk.open("heaps/older", OpenMode::Read).unwrap();
            let mut chunk = vec![0; CHUNK as usize + BLOCK_LEN];
            cedrat_media::read_exact_at(disk, other, place_of(3), &mut chunk).unwrap();
            cedrat_media::write_all_at(disk, file, place_of(3), &chunk, Durability::Durable).unwrap();
        },
    ];
    for harm in harms {
        for by_checkpoint in [false, true] {
            let disk = closed(6);
            let (store, file) = open_and_keep_older(&disk);
            harm(&disk, &file);
            let heap = words_of(&store);
            assert_eq!(word(&heap, 2 * CHUNK), 3);
            heap.atomically(|tx| tx.write(&heap, 0, 5)).unwrap();
            let error = match by_checkpoint {
                true => store.checkpoint().unwrap_err(),
                false => Error::from(heap.atomically(|tx| tx.read(&heap, 3 * CHUNK + 16)).unwrap_err()),
            };
            let message = error.to_string();
            let at = place_of(3)..place_of(4);
            let is_named = at.clone().any(|at| message.contains(&file) && message.contains(&at.to_string()));
            assert!(is_named, "E4.9: {message}");
            let stopped = heap.atomically(|tx| tx.write(&heap, 8, 5)).unwrap_err();
            assert!(matches!(&stopped, HeapError::Stopped(_)), "E4.9: {stopped}");
            assert!(stopped.to_string().contains(&file), "E4.9: {stopped}");
        }
    }
}

/// Opens a store on demand. Keeps the checkpoint before the newest one as a file `heaps/older`, with other words in the chunk 3.
fn open_and_keep_older(disk: &Arc<SimDisk>) -> (Store, String) {
    let store = open_with(disk, on_demand()).unwrap();
    let heap = words_of(&store);
    let older = file_of(disk, &store);
    for round in 0..2 {
        heap.atomically(|tx| tx.write(&heap, 3 * CHUNK + 16, 40 + round)).unwrap();
        store.checkpoint().unwrap();
    }
    heap.atomically(|tx| tx.write(&heap, 3 * CHUNK + 16, 42)).unwrap();
    // The file of the checkpoint before.
    let other = if older.ends_with('0') { "heaps/words.1" } else { "heaps/words.0" };
    let kept = disk.open(other, OpenMode::Read).unwrap();
    let mut bytes = vec![0; place_of(6) as usize];
    cedrat_media::read_exact_at(&**disk, kept, 0, &mut bytes).unwrap();
    drop(heap);
    store.close().unwrap();
    let store = open_with(disk, on_demand()).unwrap();
    let copy = disk.open("heaps/older", OpenMode::Create).unwrap();
    cedrat_media::write_all_at(&**disk, copy, 0, &bytes, Durability::Durable).unwrap();
    let file = file_of(disk, &store);
    (store, file)
}

/// The thread of the store loads the rest, beside transactions; a store that is closed meanwhile does not wait for all of it.
#[test]
fn thread_loads_rest_of_heap() {
    let disk = closed(40);
    for closes_early in [true, false] {
        let (reached, is_reached) = mpsc::channel();
        let (resume, is_resumed) = mpsc::channel::<()>();
        let (reached, is_resumed) = (Mutex::new(reached), Mutex::new(is_resumed));
        disk.before_each_call(move |_, call, _| {
            let is_loader = std::thread::current().name() == Some("cedrat-loads");
            if is_loader && call == Call::Read {
                let _ = reached.lock().send(());
                let _ = is_resumed.lock().recv();
            }
        });
        let store = open_with(&disk, Options { redo_threads: 0, ..with_threads() }).unwrap();
        is_reached.recv_timeout(Duration::from_secs(60)).expect("it begins");
        let heap = words_of(&store);
        assert!(store.recovery().absent_heap_bytes > 0);
        assert_eq!(word(&heap, 39 * CHUNK), 40, "E4.6");
        drop(resume);
        if !closes_early {
            store.complete_recovery().unwrap();
            assert_eq!(store.recovery().absent_heap_bytes, 0);
            assert_filled(&heap, 40);
        }
        drop((heap, store));
        disk.before_each_call(|_, _, _| {});
    }
}

/// Damage that the thread of the store meets.
#[test]
fn damage_found_by_thread_stops_store() {
    let disk = closed(20);
    let file = {
        let store = open_with(&disk, on_demand()).unwrap();
        file_of(&disk, &store)
    };
    disk.corrupt(&file, place_of(15) + BLOCK_LEN as u64, Damage::Flip { bit: 1 }).unwrap();
    let store = open_with(&disk, with_threads()).unwrap();
    let ended = std::time::Instant::now() + Duration::from_secs(60);
    while !store.log().is_stopped() && std::time::Instant::now() < ended {
        thread::yield_now();
    }
    let why = store.log().stopped().expect("E4.9: the thread reads each chunk").to_string();
    assert!(why.contains(&file) && why.contains(&(place_of(15) + BLOCK_LEN as u64).to_string()), "E4.9: {why}");
}

/// Many threads that need the same absent chunks.
#[test]
fn threads_share_load_of_chunk() {
    for _ in 0..20 {
        let disk = closed(12);
        let store = open_with(&disk, with_threads()).unwrap();
        let heap = words_of(&store);
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for chunk in 0..12 {
                        assert_eq!(word(&heap, (chunk + 1) * CHUNK - 8), chunk + 101, "E4.6");
                        heap.atomically(|tx| tx.update(&heap, chunk * CHUNK, |value| value + 1)).unwrap();
                    }
                });
            }
        });
        let sums = (0..12).map(|chunk| word(&heap, chunk * CHUNK));
        assert!(sums.eq((0..12).map(|chunk| chunk + 7)), "E4.7");
    }
}

/// A block that is filled with plain stores, over chunks that are absent.
#[test]
fn filled_block_outlives_its_chunks() {
    let disk = Arc::new(SimDisk::new());
    let store = open_with(&disk, on_demand()).unwrap();
    let options = HeapOptions { chunk_len: CHUNK, size_max: 1 << 19, ..HeapOptions::new(1 << 19) };
    let heap = store.memory().create_heap("blocks", &options).unwrap();
    // So that the chunks have old words where the block will be.
    for len in [100, 60_000] {
        let block = heap
            .atomically(|tx| {
                let block = tx.allocate(&heap, len)?;
                tx.write_bytes(&heap, block, &vec![0xee; len as usize])?;
                Ok(block)
            })
            .unwrap();
        heap.atomically(|tx| tx.free(&heap, block)).unwrap();
    }
    drop(heap);
    store.close().unwrap();
    for len in [100, 60_000] {
        let store = open_with(&disk, on_demand()).unwrap();
        let heap = store.memory().heap("blocks").unwrap();
        let absent = store.recovery().absent_heap_bytes;
        let block = heap.atomically(|tx| {
            let block = tx.allocate_filled(&heap, len)?;
            tx.fill(&heap, block, &vec![7; len as usize])?;
            Ok(block)
        });
        let block = block.unwrap();
        assert!(len > 100 || store.recovery().absent_heap_bytes > 0 && absent > 0);
        let check = |store: &Store| {
            let heap = store.memory().heap("blocks").unwrap();
            heap.load().unwrap();
            let mut bytes = vec![0; len as usize];
            heap.atomically(|tx| tx.read_bytes(&heap, block, &mut bytes)).unwrap();
            assert!(bytes.iter().all(|&byte| byte == 7), "E4.7");
            heap.verify().unwrap();
        };
        check(&store);
        check(&open_with(&Arc::new(after(&disk, Loss::Everything)), on_demand()).unwrap());
        heap.atomically(|tx| tx.free(&heap, block)).unwrap();
    }
}

#[test]
fn absent_heap_is_backed_up_whole() {
    let disk = closed(8);
    let store = open_with(&disk, on_demand()).unwrap();
    let to = SimDisk::new();
    store.backup(&(Arc::new(to.clone()) as Arc<dyn Media>), BackupOptions::default()).unwrap();
    let copied = open_with(&Arc::new(to.cut_power(Loss::Everything)), on_demand()).unwrap();
    assert_filled(&words_of(&copied), 8);
}

#[test]
fn absent_heap_grows_and_is_dropped() {
    let disk = closed(4);
    let store = open_with(&disk, on_demand()).unwrap();
    let heap = words_of(&store);
    heap.grow(9 * CHUNK).unwrap();
    assert_eq!((word(&heap, 4 * CHUNK), store.recovery().absent_heap_bytes), (0, 4 * CHUNK));
    heap.atomically(|tx| tx.write(&heap, 9 * CHUNK - 8, 5)).unwrap();
    store.checkpoint().unwrap();
    let store = open_with(&Arc::new(disk.cut_power(Loss::Everything)), on_demand()).unwrap();
    let heap = words_of(&store);
    assert_eq!(word(&heap, 9 * CHUNK - 8), 5);
    store.memory().drop_heap("words").unwrap();
    assert_filled(&heap, 4);
}

/// A store, and the content that it must have.
struct World {
    disk: Arc<SimDisk>,
    store: Store,
    words: BTreeMap<u64, u64>,
    size: u64,
    blocks: BTreeMap<u64, (u64, u8)>,
    /// Words of the prepared transaction.
    prepared: Option<Vec<(u64, u64)>>,
    random: u64,
    openings: u64,
    absent_at_use: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let disk = Arc::new(SimDisk::new());
        let store = open_with(&disk, on_demand()).unwrap();
        store.memory().create_heap("words", &raw(6)).unwrap();
        let options = HeapOptions { chunk_len: CHUNK, size_max: 1 << 19, ..HeapOptions::new(1 << 18) };
        store.memory().create_heap("blocks", &options).unwrap();
        let (words, blocks, prepared) = (BTreeMap::new(), BTreeMap::new(), None);
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        World { disk, store, words, size: 6 * CHUNK, blocks, prepared, random, openings: 0, absent_at_use: 0 }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % end
    }

    fn note_absent(&mut self) {
        self.absent_at_use += u64::from(self.store.recovery().absent_heap_bytes > 0);
    }

    /// Words that no prepared transaction holds: its words are at odd multiples of 512.
    fn offset(&mut self) -> u64 {
        let place = self.below(self.size / 1024);
        place * 1024 + 8 * self.below(8)
    }

    /// Reads a word and writes it.
    fn update(&mut self) {
        let heap = words_of(&self.store);
        self.note_absent();
        let (offset, value) = (self.offset(), self.below(1 << 40));
        let Some(before) = unless_held(heap.atomically(|tx| tx.update(&heap, offset, |_| value))) else { return };
        assert_eq!(before, self.words.insert(offset, value).unwrap_or(0), "E4.6: {offset}");
    }

    /// Writes words that it does not read.
    fn write(&mut self) {
        let heap = words_of(&self.store);
        self.note_absent();
        let count = 1 + self.below(6);
        let writes: Vec<(u64, u64)> = (0..count).map(|_| (self.offset(), self.below(1 << 40))).collect();
        let write = || heap.atomically(|tx| writes.iter().try_for_each(|&(at, value)| tx.write(&heap, at, value)));
        if unless_held(write()).is_some() {
            self.words.extend(writes);
        }
    }

    fn allocate(&mut self, filled: bool) {
        let heap = self.store.memory().heap("blocks").unwrap();
        self.note_absent();
        let len = [24, 200, 3000, 20_000][self.below(4) as usize];
        let byte = self.below(200) as u8 + 1;
        let bytes = vec![byte; len as usize];
        let block = heap.atomically(|tx| {
            if filled {
                let block = tx.allocate_filled(&heap, len)?;
                tx.fill(&heap, block, &bytes)?;
                return Ok(block);
            }
            let block = tx.allocate(&heap, len)?;
            tx.write_bytes(&heap, block, &bytes)?;
            Ok(block)
        });
        match block {
            Ok(block) => assert!(self.blocks.insert(block, (len, byte)).is_none(), "E17.3: it was allocated"),
            Err(HeapError::HeapFull { .. } | HeapError::InDoubt { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn free(&mut self) {
        let nth = self.below(self.blocks.len().max(1) as u64) as usize;
        let Some(&block) = self.blocks.keys().nth(nth) else { return };
        let heap = self.store.memory().heap("blocks").unwrap();
        self.note_absent();
        if unless_held(heap.atomically(|tx| tx.free(&heap, block))).is_some() {
            self.blocks.remove(&block);
        }
    }

    fn prepare(&mut self) {
        if self.prepared.is_some() {
            return self.end_prepared();
        }
        let heap = words_of(&self.store);
        let places = self.size / 1024;
        let writes: Vec<(u64, u64)> = (0..3).map(|_| (self.below(places) * 1024 + 512, self.below(1 << 40))).collect();
        let mut txn = self.store.begin();
        txn.heap(|tx| writes.iter().try_for_each(|&(offset, value)| tx.write(&heap, offset, value))).unwrap();
        let Vote::Prepared(_) = txn.prepare(BRANCH).unwrap() else { panic!("it has written") };
        self.prepared = Some(writes);
    }

    fn end_prepared(&mut self) {
        let writes = self.prepared.take().unwrap();
        let branch = self.store.prepared(BRANCH).unwrap();
        if self.below(3) > 0 {
            branch.commit(Commit::Sync).unwrap();
            self.words.extend(writes);
        } else {
            branch.rollback().unwrap();
        }
    }

    fn backup(&mut self) {
        let to = SimDisk::new();
        match self.store.backup(&(Arc::new(to.clone()) as Arc<dyn Media>), BackupOptions::default()) {
            Err(Error::BackupEnded { .. }) => return,
            report => _ = report.unwrap(),
        }
        let store = open_with(&Arc::new(to.cut_power(Loss::Everything)), on_demand()).unwrap();
        self.compare(&store, "a backup");
    }

    fn reopen(&mut self, name: &str) {
        self.openings += 1;
        let redo_threads = self.below(3) as usize;
        self.store = open_with(&self.disk, Options { redo_threads, ..on_demand() }).unwrap();
        if self.below(4) == 0 {
            self.compare(&self.store, name);
        }
    }

    fn crash(&mut self) {
        let seed = self.below(1 << 30);
        let loss =
            [Loss::Everything, Loss::Nothing, Loss::Random(seed), Loss::TornLast(0b0101)][self.below(4) as usize];
        self.disk = Arc::new(self.disk.cut_power(loss));
        self.reopen("a crash");
    }

    fn crash_within_checkpoint(&mut self) {
        let (call, nth) = ([Call::Write, Call::Sync, Call::Read][self.below(3) as usize], self.below(12) + 1);
        self.disk.inject(Fault::power_loss(call).nth(nth));
        let _ = self.store.checkpoint();
        self.crash();
    }

    fn compare(&self, store: &Store, name: &str) {
        let heap = words_of(store);
        for offset in (0..heap.size()).step_by(8) {
            let Some(found) = unless_held(heap.atomically(|tx| tx.read(&heap, offset))) else { continue };
            assert_eq!(found, self.words.get(&offset).copied().unwrap_or(0), "E4.6: {name}, {offset}");
        }
        let heap = store.memory().heap("blocks").unwrap();
        for (&block, &(len, byte)) in &self.blocks {
            let mut bytes = vec![0; len as usize];
            if unless_held(heap.atomically(|tx| tx.read_bytes(&heap, block, &mut bytes))).is_none() {
                continue;
            }
            assert!(bytes.iter().all(|&found| found == byte), "E4.6: {name}, block {block}");
        }
        let Some(usage) = unless_held(heap.verify()) else { return };
        assert_eq!(usage.blocks, self.blocks.len() as u64, "E17: {name}");
    }

    fn step(&mut self) {
        match self.below(30) {
            0..=5 => self.update(),
            6..=10 => self.write(),
            11..=12 => self.allocate(true),
            13..=14 => self.allocate(false),
            15..=16 => self.free(),
            17..=18 => self.prepare(),
            19..=20 => self.store.checkpoint().unwrap(),
            21..=23 => self.crash(),
            24..=25 => self.crash_within_checkpoint(),
            26 => self.backup(),
            27 if self.size < 20 * CHUNK => {
                self.size += CHUNK;
                words_of(&self.store).grow(self.size).unwrap();
            }
            28 => self.store.complete_recovery().unwrap(),
            _ => {
                self.store.checkpoint().unwrap();
                self.reopen_closed();
            }
        }
    }

    fn reopen_closed(&mut self) {
        let other = Arc::new(SimDisk::new());
        let store = std::mem::replace(&mut self.store, open_with(&other, on_demand()).unwrap());
        store.close().unwrap();
        self.reopen("a close");
    }
}

/// Returns a result, except that a prepared transaction holds the lock of a word.
fn unless_held<T>(result: cedrat_heap::Result<T>) -> Option<T> {
    match result {
        Err(HeapError::InDoubt { .. }) => None,
        result => Some(result.unwrap()),
    }
}

/// E4.6 to E4.8: whatever happens between two openings.
#[test]
fn random_histories_on_demand_lose_nothing() {
    let (mut openings, mut absent) = (0, 0);
    for seed in 1..=40 {
        let mut world = World::new(seed);
        for _ in 0..60 {
            world.step();
        }
        world.crash();
        world.compare(&world.store, &format!("the end of seed {seed}"));
        openings += world.openings;
        absent += world.absent_at_use;
    }
    assert!(openings > 400 && absent > 300, "{openings} openings, {absent} uses of heaps with absent chunks");
}

/// The opening loads heaps below the limit, and those of views.
#[test]
fn short_heap_is_loaded_at_opening() {
    let disk = closed(4);
    for (load_on_demand_bytes, absent) in [(4 * CHUNK - 1, 4), (4 * CHUNK, 0), (u64::MAX, 0)] {
        let memory = MemoryOptions { load_on_demand_bytes, ..MemoryOptions::small() };
        let store = open_with(&disk, Options { memory, ..on_demand() }).unwrap();
        assert_eq!(store.recovery().absent_heap_bytes, absent * CHUNK);
    }
}
