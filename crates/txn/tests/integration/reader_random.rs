//! Random interleavings of a writer and its readers: each call of a reader may fall between any two writes of the writer, and within
//! one.
//!
//! The writer runs first, on a disk that records each change. The changes are repeated, one after the other and writes in parts, on the
//! disk that readers see, some of them before each call of a reader.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;

use cedrat_heap::HeapOptions;
use cedrat_media::{Durability, FileId, LockGuard, Loss, Media, OpenMode, SimDisk, write_all_at};
use cedrat_pages::PageId;
use cedrat_sync::{Arc, Mutex};
use cedrat_txn::{Commit, Error, NoLocks, Options, Reader, ReaderFiles, Store, Vote};
use cedrat_wal::Lsn;

use crate::common::*;

/// A recorded change of a disk.
#[derive(Clone, Debug)]
enum Step {
    Create(String),
    Remove(String),
    Write(String, u64, Vec<u8>, Durability),
    Sync(String),
    SyncDirectory(String),
    Allocate(String, u64, u64),
    Punch(String, u64, u64),
    SetLen(String, u64),
    /// Every record up to this LSN was acknowledged as durable.
    Acknowledged(Lsn),
}

/// A disk that records its changes.
#[derive(Debug)]
struct Recorder {
    disk: SimDisk,
    names: Mutex<HashMap<FileId, String>>,
    steps: Arc<Mutex<Vec<Step>>>,
}

impl Recorder {
    fn note(&self, file: FileId, step: impl FnOnce(String) -> Step) {
        let name = self.names.lock()[&file].clone();
        self.steps.lock().push(step(name));
    }
}

impl Media for Recorder {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        let file = self.disk.open(name, mode)?;
        self.names.lock().insert(file, name.to_owned());
        if mode == OpenMode::Create {
            self.steps.lock().push(Step::Create(name.to_owned()));
        }
        Ok(file)
    }

    fn lock(&self, name: &str) -> io::Result<LockGuard> {
        self.disk.lock(name)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.disk.list(directory)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)?;
        self.steps.lock().push(Step::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.disk.sync_directory(directory)?;
        self.steps.lock().push(Step::SyncDirectory(directory.to_owned()));
        Ok(())
    }

    fn len(&self, file: FileId) -> io::Result<u64> {
        self.disk.len(file)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.read_at(file, offset, buffer)
    }

    fn write_at(&self, file: FileId, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<usize> {
        let written = self.disk.write_at(file, offset, bytes, durability)?;
        self.note(file, |name| Step::Write(name, offset, bytes[..written].to_vec(), durability));
        Ok(written)
    }

    fn sync(&self, file: FileId) -> io::Result<()> {
        self.disk.sync(file)?;
        self.note(file, Step::Sync);
        Ok(())
    }

    fn allocate(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        self.disk.allocate(file, offset, len)?;
        self.note(file, |name| Step::Allocate(name, offset, len));
        Ok(())
    }

    fn punch(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        self.disk.punch(file, offset, len)?;
        self.note(file, |name| Step::Punch(name, offset, len));
        Ok(())
    }

    fn set_len(&self, file: FileId, len: u64) -> io::Result<()> {
        self.disk.set_len(file, len)?;
        self.note(file, |name| Step::SetLen(name, len));
        Ok(())
    }

    fn path(&self, file: FileId) -> String {
        self.disk.path(file)
    }
}

/// The disk that readers see, and the changes that are still to come.
#[derive(Debug)]
struct Replayed {
    disk: SimDisk,
    steps: VecDeque<Step>,
    random: Random,
    /// The number of changes that may come before a call of a reader; 0: none.
    pace: u64,
    acknowledged: Lsn,
}

impl Replayed {
    /// Makes the next change. Returns whether there was one.
    fn advance(&mut self) -> bool {
        let Some(step) = self.steps.pop_front() else { return false };
        let disk = &self.disk;
        let file = |name: &String| disk.open(name, OpenMode::ReadWrite).unwrap();
        match &step {
            Step::Create(name) => drop(disk.open(name, OpenMode::Create).unwrap()),
            Step::Remove(name) => disk.remove(name).unwrap(),
            Step::Write(name, offset, bytes, Durability::Durable) => {
                // Others see it before it is durable.
                self.steps.push_front(Step::Sync(name.clone()));
                self.steps.push_front(Step::Write(name.clone(), *offset, bytes.clone(), Durability::Volatile));
            }
            Step::Write(name, offset, bytes, durability) => {
                let sectors = bytes.len() as u64 / 512;
                if *offset % 512 == 0 && sectors > 1 && self.random.below(2) == 0 {
                    // In two parts, in either order: a reader may come between.
                    let cut = (1 + self.random.below(sectors - 1)) * 512;
                    let (one, other) = bytes.split_at(cut as usize);
                    let one = Step::Write(name.clone(), *offset, one.to_vec(), *durability);
                    let other = Step::Write(name.clone(), offset + cut, other.to_vec(), *durability);
                    let (first, second) = if self.random.below(2) == 0 { (one, other) } else { (other, one) };
                    self.steps.push_front(second);
                    self.steps.push_front(first);
                } else {
                    write_all_at(disk, file(name), *offset, bytes, *durability).unwrap();
                }
            }
            Step::Sync(name) => disk.sync(file(name)).unwrap(),
            Step::SyncDirectory(name) => disk.sync_directory(name).unwrap(),
            Step::Allocate(name, offset, len) => disk.allocate(file(name), *offset, *len).unwrap(),
            Step::Punch(name, offset, len) => disk.punch(file(name), *offset, *len).unwrap(),
            Step::SetLen(name, len) => disk.set_len(file(name), *len).unwrap(),
            Step::Acknowledged(lsn) => self.acknowledged = *lsn,
        }
        true
    }
}

/// A disk that is read, and changes before each call.
#[derive(Debug)]
struct Changing(Arc<Mutex<Replayed>>);

impl Changing {
    fn disk(&self) -> SimDisk {
        let mut replayed = self.0.lock();
        let pace = replayed.pace;
        let steps = if pace == 0 || replayed.random.below(3) > 0 { 0 } else { replayed.random.below(pace) };
        for _ in 0..steps {
            replayed.advance();
        }
        replayed.disk.clone()
    }
}

impl Media for Changing {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        assert_eq!(mode, OpenMode::Read, "E26.3: {name}");
        self.disk().open(name, mode)
    }

    fn lock(&self, name: &str) -> io::Result<LockGuard> {
        panic!("E26.3: a reader locks {name}")
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.disk().list(directory)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        panic!("E26.3: a reader removes {name}")
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        panic!("E26.3: a reader syncs {directory}")
    }

    fn len(&self, file: FileId) -> io::Result<u64> {
        self.disk().len(file)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk().read_at(file, offset, buffer)
    }

    fn write_at(&self, file: FileId, _: u64, _: &[u8], _: Durability) -> io::Result<usize> {
        panic!("E26.3: a reader writes {}", self.path(file))
    }

    fn sync(&self, file: FileId) -> io::Result<()> {
        self.disk().sync(file)
    }

    fn allocate(&self, file: FileId, _: u64, _: u64) -> io::Result<()> {
        panic!("E26.3: a reader writes {}", self.path(file))
    }

    fn punch(&self, file: FileId, _: u64, _: u64) -> io::Result<()> {
        panic!("E26.3: a reader writes {}", self.path(file))
    }

    fn set_len(&self, file: FileId, _: u64) -> io::Result<()> {
        panic!("E26.3: a reader writes {}", self.path(file))
    }

    fn path(&self, file: FileId) -> String {
        self.0.lock().disk.path(file)
    }
}

/// The committed state: the pages that the directory page names, with their numbers, and a word of a heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    pages: BTreeMap<u16, i64>,
    word: u64,
}

/// The number of slots of the directory page.
const SLOTS: u64 = 24;

/// A writer, and the states that it has committed.
struct Writer {
    random: Random,
    recorder: Arc<Recorder>,
    options: Options,
    store: Option<Store>,
    directory: PageId,
    /// A page for transactions that do not end.
    others: PageId,
    pages: BTreeMap<u16, PageId>,
    now: State,
    states: Vec<(Lsn, State)>,
}

fn has_heap(seed: u64) -> bool {
    !seed.is_multiple_of(3)
}

impl Writer {
    fn new(seed: u64) -> Writer {
        let mut random = Random::new(seed);
        let recorder = Arc::new(Recorder {
            disk: SimDisk::new(),
            names: Mutex::default(),
            steps: Arc::new(Mutex::new(Vec::new())),
        });
        let simulated = if random.below(3) == 0 { Options::simulated_growth() } else { options() };
        let options = Options {
            pool_bytes: (16 + random.below(40)) * 4096,
            partitions: 1 + random.below(3) as u16,
            // Transactions of one thread that are open at the same time change different pages.
            locks: Arc::new(NoLocks),
            ..simulated
        };
        let store = Store::open(Arc::clone(&recorder) as _, options.clone(), registry()).unwrap();
        let directory = store.transact(page_with_zeros).unwrap();
        let others = store.transact(page_with_zeros).unwrap();
        if has_heap(seed) {
            let words = HeapOptions { chunk_len: 4096, size: 8192, ..HeapOptions::raw(1 << 16) };
            store.memory().create_heap("words", &words).unwrap();
        }
        let mut writer = Writer {
            random,
            recorder,
            options,
            store: Some(store),
            directory,
            others,
            pages: BTreeMap::new(),
            now: State::default(),
            states: Vec::new(),
        };
        writer.note();
        writer.acknowledge();
        writer
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn note(&mut self) {
        let lsn = self.store().log().current_lsn();
        self.states.push((lsn, self.now.clone()));
    }

    fn acknowledge(&self) {
        let lsn = self.store().log().durable_lsn();
        self.recorder.steps.lock().push(Step::Acknowledged(lsn));
    }

    /// Changes a few pages, allocates some, frees some, and changes a word, in one transaction.
    fn change(&mut self, seed: u64) {
        let mut txn = self.store().begin();
        let (mut pages, mut now) = (self.pages.clone(), self.now.clone());
        for _ in 0..1 + self.random.below(5) {
            let slot = self.random.below(SLOTS) as u16;
            let amount = 1 + self.random.below(100) as i64;
            match pages.get(&slot).copied() {
                Some(page) if self.random.below(3) > 0 => {
                    txn.update(at(page, 0), &Add { amount }).unwrap();
                    *now.pages.get_mut(&slot).unwrap() += amount;
                }
                Some(page) => {
                    txn.update(at(self.directory, slot), &Add { amount: -(page.get() as i64) }).unwrap();
                    txn.free(page).unwrap();
                    pages.remove(&slot);
                    now.pages.remove(&slot);
                }
                None => {
                    let page = page_with_zeros(&mut txn).unwrap();
                    txn.update(at(page, 0), &Add { amount }).unwrap();
                    txn.update(at(self.directory, slot), &Add { amount: page.get() as i64 }).unwrap();
                    pages.insert(slot, page);
                    now.pages.insert(slot, amount);
                }
            }
        }
        if has_heap(seed) {
            let heap = self.store().memory().heap("words").unwrap();
            let amount = 1 + self.random.below(9);
            txn.heap(|tx| tx.update(&heap, 0, |value| value + amount)).unwrap();
            now.word += amount;
        }
        match self.random.below(5) {
            0 => txn.rollback().unwrap(),
            1 => {
                txn.commit(Commit::Async).unwrap();
                (self.pages, self.now) = (pages, now);
                self.note();
            }
            _ => {
                txn.commit(Commit::Sync).unwrap();
                (self.pages, self.now) = (pages, now);
                self.note();
                self.acknowledge();
            }
        }
    }

    fn run(&mut self, seed: u64, steps: u64) {
        let mut open = None;
        for _ in 0..steps {
            match self.random.below(16) {
                0..=9 => self.change(seed),
                10 | 11 => self.store().checkpoint().unwrap(),
                12 if open.is_none() => {
                    let mut txn = self.store().begin();
                    txn.update(at(self.others, 0), &Add { amount: 1 }).unwrap();
                    page_with_zeros(&mut txn).unwrap();
                    open = Some(txn);
                }
                13 => drop(open.take()),
                14 => {
                    if let Some(txn) = open.take() {
                        let id = self.random.below(1 << 60).to_le_bytes();
                        let Vote::Prepared(prepared) = txn.prepare(&id).unwrap() else {
                            panic!("it has changed a page")
                        };
                        prepared.rollback().unwrap();
                    }
                }
                15 if self.random.below(3) == 0 => {
                    drop(open.take());
                    let store = self.store.take().expect("it is open");
                    if self.random.below(2) == 0 {
                        store.close().unwrap();
                    } else {
                        drop(store);
                    }
                    let media: Arc<dyn Media> = Arc::clone(&self.recorder) as _;
                    self.store = Some(Store::open(media, self.options.clone(), registry()).unwrap());
                    self.note();
                    self.acknowledge();
                }
                _ => {}
            }
        }
        drop(open);
    }
}

/// Returns the state that a store has.
fn state_of(store: &Store, directory: PageId, has_heap: bool) -> Result<State, Error> {
    let mut state = State::default();
    for slot in 0..SLOTS as u16 {
        let page = read_number(store, at(directory, slot))?;
        if page != 0 {
            state.pages.insert(slot, read_number(store, at(PageId::new(page as u64), 0))?);
        }
    }
    if has_heap {
        let heap = store.memory().heap("words").expect("E26.1: it was created");
        state.word = store.memory().run(Commit::Async, |tx| tx.read(&heap, 0)).unwrap().value;
    }
    Ok(state)
}

/// Readers of one history, and what they have to show.
struct Readers {
    replayed: Arc<Mutex<Replayed>>,
    writer: Writer,
    seed: u64,
}

impl Readers {
    fn open(&self, copies_pages: bool) -> Reader {
        let replayed = Arc::clone(&self.replayed);
        let files = ReaderFiles {
            store: Arc::new(move || Ok(Arc::new(Changing(Arc::clone(&replayed))) as Arc<dyn Media>)),
            scratch: Arc::new(|| Ok(media(&SimDisk::new()))),
            copies_pages,
        };
        let acknowledged = self.replayed.lock().acknowledged;
        let opened = Reader::open(files, Options { locks: Arc::new(NoLocks), ..options() }, registry());
        let reader = opened.unwrap_or_else(|error| panic!("E26.7, seed {}: {error}", self.seed));
        assert!(reader.lsn() >= acknowledged, "E26.1a, seed {}", self.seed);
        reader
    }

    fn refresh(&self, reader: &Reader) {
        let acknowledged = self.replayed.lock().acknowledged;
        let lsn = reader.refresh().unwrap_or_else(|error| panic!("E26.7, seed {}: {error}", self.seed));
        assert!(lsn >= acknowledged, "E26.1a, seed {}: {lsn} {acknowledged}", self.seed);
    }

    fn expected(&self, lsn: Lsn) -> &State {
        let states = &self.writer.states;
        &states[states.partition_point(|&(noted, _)| noted <= lsn) - 1].1
    }

    /// Reads everything that a reader shows, and compares it.
    fn check(&self, reader: &Reader) {
        let has_heap = has_heap(self.seed);
        let shown = reader.transact(|txn| {
            let lsn = reader.lsn();
            state_of(txn.store(), self.writer.directory, has_heap).map(|state| (lsn, state))
        });
        let (lsn, state) = shown.unwrap_or_else(|error| panic!("E26.7, seed {}: {error}", self.seed));
        assert_eq!(&state, self.expected(lsn), "E26.1, seed {}, LSN {lsn}", self.seed);
    }

    /// Reads from an earlier view: it has its own state, or says that it has not.
    fn check_old(&self, (store, lsn): &(Store, Lsn), copies_pages: bool) {
        match state_of(store, self.writer.directory, has_heap(self.seed)) {
            Ok(state) => assert_eq!(&state, self.expected(*lsn), "E26.1, seed {}, old view {lsn}", self.seed),
            Err(error) => assert!(!copies_pages, "E26.8, seed {}: {error}", self.seed),
        }
    }

    /// Everything that was shown is found after a power failure.
    fn check_durable(&self, lsn: Lsn) {
        let disk = self.replayed.lock().disk.clone();
        let crashed = disk.journal().crash(disk.journal_len(), Loss::Everything);
        let opened = Store::open(media(&crashed), Options { locks: Arc::new(NoLocks), ..options() }, registry());
        let store = opened.unwrap_or_else(|error| panic!("E26.2, seed {}: {error}", self.seed));
        assert!(store.recovery().end > lsn, "E26.2, seed {}: {lsn} was shown", self.seed);
    }
}

fn run(seed: u64) {
    let mut writer = Writer::new(seed);
    writer.run(seed, 60 + seed % 50);
    let mut random = Random::new(seed ^ 0xabcd);
    let pace = [2, 6, 20, 60][random.below(4) as usize];
    let steps = writer.recorder.steps.lock().drain(..).collect();
    let mut replayed =
        Replayed { disk: SimDisk::new(), steps, random: Random::new(!seed), pace: 0, acknowledged: Lsn::ZERO };
    while replayed.acknowledged == Lsn::ZERO {
        assert!(replayed.advance());
    }
    replayed.pace = pace;
    let readers = Readers { replayed: Arc::new(Mutex::new(replayed)), writer, seed };
    let copies_pages = random.below(3) == 0;
    let mut reader = readers.open(copies_pages);
    let mut old = Vec::new();
    for _ in 0..60 {
        match random.below(8) {
            0 => reader = readers.open(copies_pages),
            1..=3 => readers.refresh(&reader),
            4 => old.push((reader.store(), reader.lsn())),
            5 => old.iter().for_each(|view| readers.check_old(view, copies_pages)),
            6 if random.below(6) == 0 => readers.check_durable(reader.lsn()),
            _ => readers.check(&reader),
        }
        for _ in 0..random.below(2 * pace) {
            readers.replayed.lock().advance();
        }
    }
    // The writer has died here, or has ended.
    readers.replayed.lock().pace = 0;
    readers.refresh(&reader);
    readers.check(&reader);
    readers.check_durable(reader.lsn());
}

/// E26.2: a commit is seen before it is durable, and made durable before it is shown.
#[test]
fn shown_commit_survives_power_failure() {
    let mut writer = Writer::new(3);
    writer.run(3, 12);
    let steps: VecDeque<Step> = writer.recorder.steps.lock().drain(..).collect();
    let mut replayed =
        Replayed { disk: SimDisk::new(), steps, random: Random::new(1), pace: 0, acknowledged: Lsn::ZERO };
    while replayed.acknowledged == Lsn::ZERO {
        assert!(replayed.advance());
    }
    let readers = Readers { replayed: Arc::new(Mutex::new(replayed)), writer, seed: 3 };
    let reader = readers.open(false);
    while readers.replayed.lock().advance() {
        let before = reader.lsn();
        readers.refresh(&reader);
        if reader.lsn() > before {
            readers.check_durable(reader.lsn());
        }
    }
}

/// E26.1 to E26.8.
#[test]
fn interleaved_reader_shows_committed_states() {
    let number = |name| std::env::var(name).ok().and_then(|number: String| number.parse().ok());
    for seed in number("CEDRAT_READER_SEEDS_FROM").unwrap_or(0)..number("CEDRAT_READER_SEEDS").unwrap_or(40) {
        run(seed);
    }
}
