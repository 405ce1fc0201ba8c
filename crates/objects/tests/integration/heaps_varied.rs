//! Several heaps beside a table, through many openings: heaps are created, grown and dropped between transactions over two of
//! them, the table and regions of pages, while the disk fills, fails, panics or loses its power at any call.
#![cfg(not(cedrat_shuttle))] // a panic ends a schedule

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cedrat_check::Rng;
use cedrat_heap::{Heap, HeapOptions, Locking};
use cedrat_media::{Call, Fault, Kill, Loss, Media, SimDisk};
use cedrat_pages::{LayoutKind, PageId};
use cedrat_structures::HashTable;
use cedrat_sync::Arc;
use cedrat_txn::{Commit, Error, FormatFresh, Options, RecordId, Registry, Result, SetRange, Store, Txn};

type Table = HashTable<u64, u64>;

const CHUNK: u64 = 4096;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Keys of regions in the table, above those of plain numbers.
const REGIONS: u64 = 1000;
/// Pages of a region: so many that their space is returned to the file system.
const REGION_LEN: u64 = 20;

/// A heap: its size, and the words and blocks in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Content {
    size: u64,
    has_blocks: bool,
    /// Raw words that are not zero, by offset.
    words: BTreeMap<u64, u64>,
    /// Blocks by offset, each with its length and its first word.
    blocks: BTreeMap<u64, (u64, u64)>,
}

/// The content of the store. Without a table it was never created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    table: Option<BTreeMap<u64, u64>>,
    heaps: BTreeMap<String, Content>,
}

/// The outcome of a step.
enum Outcome<T> {
    Done(T),
    Failed(Error),
    Panicked,
}

struct Run {
    random: Rng,
    disk: Arc<SimDisk>,
    /// The states that a crash may leave, oldest first; the last is the newest.
    states: Vec<State>,
    counts: BTreeMap<String, u64>,
}

impl Run {
    fn new(seed: u64) -> Run {
        Run {
            random: Rng::new(seed),
            disk: Arc::new(SimDisk::new()),
            states: vec![State::default()],
            counts: BTreeMap::new(),
        }
    }

    fn count(&mut self, what: &str) {
        *self.counts.entry(what.chars().filter(|c| !c.is_ascii_digit()).take(60).collect()).or_default() += 1;
    }

    fn options(&mut self) -> Options {
        let base = Options::simulated();
        let segments = *self.random.pick(&[10, 16, 24, 40]);
        let mut options = Options {
            pool_bytes: *self.random.pick(&[8, 16, 64, 1024]) * 4096,
            partitions: 1 + self.random.below(2) as u16,
            log_limit_bytes: segments * base.segment_len,
            checkpoint_when_opened: self.random.one_in(2),
            redo_threads: *self.random.pick(&[0, 0, 1, 3]),
            background: self.random.one_in(3),
            checkpoint_every_bytes: *self.random.pick(&[5_000, 20_000, 100_000, u64::MAX]),
            ..base
        };
        options.log.block_len_max = *self.random.pick(&[8 << 10, 32 << 10]);
        options.memory.stripes_log2 = *self.random.pick(&[4, 6, 8, 10]);
        options.memory.stripe_words_log2 = *self.random.pick(&[0, 2, 5]);
        options.memory.sessions_max = *self.random.pick(&[3, 16]);
        options.memory.snapshot_extension = self.random.one_in(2);
        options.memory.locking = *self.random.pick(&[Locking::CommitTime, Locking::EncounterTime]);
        options
    }

    fn crash(&mut self) {
        if self.random.one_in(3) {
            let mut cursor = self.disk.journal().cursor();
            cursor.advance_to(cursor.journal().len());
            let kill = if self.random.one_in(3) {
                Kill::FailedSync(self.random.next_u64())
            } else {
                Kill::Process(self.random.next_u64())
            };
            self.disk = Arc::new(cursor.kill(kill));
            return;
        }
        let loss = match self.random.below(5) {
            0 => Loss::Everything,
            1 => Loss::Nothing,
            2 => Loss::Whole(self.random.next_u64()),
            _ => Loss::Random(self.random.next_u64()),
        };
        self.disk = Arc::new(self.disk.cut_power(loss));
    }

    fn try_open(&mut self) -> Outcome<Store> {
        let (media, options): (Arc<dyn Media>, _) = (Arc::<SimDisk>::clone(&self.disk), self.options());
        let registry = Registry::new().with(cedrat_structures::register);
        attempt(|| Store::open(media, options, registry).map_err(|error| Error::user(error.to_string())))
    }

    fn fault(&mut self, nth: u64) -> Fault {
        match self.random.below(6) {
            0 => Fault::forgetful_sync().nth(1 + nth / 4),
            1 | 2 => Fault::panic(Call::Any).nth(nth),
            3 => Fault::error(Call::Any, io::ErrorKind::Other).nth(nth),
            _ => Fault::power_loss(Call::Any).nth(nth),
        }
    }

    fn open(&mut self) -> Store {
        while self.random.one_in(3) {
            let nth = 1 + self.random.below(150);
            let fault = self.fault(nth);
            self.disk.inject(fault);
            self.count("opening with a fault");
            if let Outcome::Done(store) = self.try_open() {
                drop(store);
            }
            self.crash();
        }
        self.disk.clear_faults();
        match self.try_open() {
            Outcome::Done(store) => store,
            Outcome::Failed(error) => panic!("it does not open: {error}"),
            Outcome::Panicked => panic!("its opening panics"),
        }
    }

    /// Keeps the newest state among the possible ones that the store is in.
    fn judge(&mut self, store: &Store) {
        let found = read(store);
        let Some(at) = self.states.iter().rposition(|state| *state == found) else {
            panic!("none of {} states is {found:#?}; the newest is {:#?}", self.states.len(), self.states.last());
        };
        self.states.drain(..at);
        self.states.truncate(1);
    }

    fn newest(&self) -> State {
        self.states.last().expect("there is one").clone()
    }

    /// Handles the outcome of a step, after which the newest state may be `after`. Returns whether the store goes on.
    fn ends<T>(&mut self, store: &Store, outcome: Outcome<T>, after: State, is_durable: bool) -> bool {
        let before = self.states.clone();
        match outcome {
            Outcome::Done(_) => {
                if is_durable {
                    self.states.clear();
                }
                self.states.push(after);
                return true;
            }
            Outcome::Failed(error) => {
                self.count(&error.to_string());
                if store.log().is_stopped() || error.to_string().contains("power") {
                    self.states.push(after);
                    return false;
                }
                if !self.random.one_in(8) {
                    self.states = before;
                    return true;
                }
                self.disk.clear_faults();
            }
            Outcome::Panicked => {
                self.count("panic");
                self.states.push(after.clone());
                if store.log().is_stopped() {
                    return false;
                }
                self.disk.clear_faults();
                let found = read(store);
                if found == after {
                    return true;
                }
            }
        }
        self.states = before;
        assert_eq!(read(store), self.newest(), "a step without effect has one");
        true
    }

    /// Changes one heap or the table, in the model and in the transaction.
    fn change(&mut self, txn: &mut Txn, state: &mut State) -> Result<()> {
        let memory = txn.store().memory();
        let name = *self.random.pick(&NAMES);
        let table = Table::open(txn, "table")?;
        let Some(content) = state.heaps.get_mut(name).filter(|_| self.random.below(4) > 0) else {
            return self.change_table(txn, &table, state.table.as_mut().expect("it was created"));
        };
        let heap = memory.heap(name)?;
        let value = 1 + self.random.below(u64::MAX >> 20);
        if !content.has_blocks {
            // Often at the end, which may be new.
            let words = content.size / 8;
            let word = if self.random.one_in(2) { words - 1 - self.random.below(8) } else { self.random.below(words) };
            txn.heap(|tx| tx.write(&heap, word * 8, value))?;
            content.words.insert(word * 8, value);
            return Ok(());
        }
        let any = content.blocks.keys().copied().nth(self.random.below(content.blocks.len() as u64 + 1) as usize);
        match any {
            Some(offset) if self.random.one_in(2) => {
                txn.heap(|tx| tx.free(&heap, offset))?;
                content.blocks.remove(&offset);
            }
            Some(offset) => {
                txn.heap(|tx| tx.write(&heap, offset, value))?;
                content.blocks.get_mut(&offset).expect("it is there").1 = value;
            }
            None => {
                let len = *self.random.pick(&[8, 100, 3000, 20_000]);
                let offset = txn.heap(|tx| {
                    let offset = tx.allocate(&heap, len)?;
                    tx.write(&heap, offset, value)?;
                    Ok(offset)
                })?;
                content.blocks.insert(offset, (len, value));
            }
        }
        Ok(())
    }

    fn change_table(&mut self, txn: &mut Txn, table: &Table, model: &mut BTreeMap<u64, u64>) -> Result<()> {
        let key = self.random.below(100);
        if key < 80 {
            let value = self.random.next_u64();
            table.insert(txn, &key, &value)?;
            model.insert(key, value);
            return Ok(());
        }
        let key = REGIONS + key % 6;
        if let Some(&first) = model.get(&key) {
            txn.free_region(PageId::new(first), REGION_LEN)?;
            table.remove(txn, &key)?;
            model.remove(&key);
            return Ok(());
        }
        let first = txn.allocate_region(REGION_LEN)?;
        for page in (0..REGION_LEN).map(|page| first.after(page)) {
            txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
            let bytes = (page.get() ^ key).to_le_bytes();
            txn.update(RecordId::page(page), &SetRange { offset: 0, bytes: bytes[..].into() })?;
        }
        table.insert(txn, &key, &first.get())?;
        model.insert(key, first.get());
        Ok(())
    }

    fn transaction(&mut self, store: &Store) -> bool {
        let mut after = self.newest();
        let (mode, rolls_back) =
            (*self.random.pick(&[Commit::Sync, Commit::Async, Commit::Async]), self.random.one_in(8));
        let changes = 1 + self.random.below(5);
        let outcome = attempt(|| {
            let mut txn = store.begin();
            for _ in 0..changes {
                self.change(&mut txn, &mut after)?;
            }
            if rolls_back { txn.rollback() } else { txn.commit(mode).map(drop) }
        });
        if rolls_back {
            after = self.newest();
        }
        let is_durable = mode == Commit::Sync && !rolls_back;
        self.ends(store, outcome, after, is_durable)
    }

    /// Creates, grows or drops a heap. Each of these is durable when it returns, whatever commits before it are.
    fn change_heaps(&mut self, store: &Store) -> bool {
        let memory = store.memory();
        let name = *self.random.pick(&NAMES);
        let mut after = self.newest();
        let Some(content) = after.heaps.get_mut(name) else {
            let size = CHUNK * (1 + self.random.below(6));
            let has_blocks = self.random.one_in(2);
            let size = if has_blocks { size + 3 * CHUNK } else { size };
            let options = HeapOptions {
                size_max: size + CHUNK * self.random.below(20),
                chunk_len: CHUNK,
                blocks: has_blocks,
                ..HeapOptions::raw(size)
            };
            let outcome = attempt(|| Ok(memory.create_heap(name, &options).map(drop)?));
            after.heaps.insert(name.to_owned(), Content { size, has_blocks, ..Content::default() });
            return self.ends(store, outcome, after, true);
        };
        let heap = match memory.heap(name) {
            Ok(heap) => heap,
            Err(error) => panic!("heap {name} is gone: {error}"),
        };
        if self.random.one_in(4) {
            let outcome = match attempt(|| Ok(memory.drop_heap(name)?)) {
                // Only a file is left of it.
                Outcome::Failed(error) if error.to_string().contains("is dropped") => Outcome::Done(()),
                outcome => outcome,
            };
            after.heaps.remove(name);
            if matches!(outcome, Outcome::Done(())) {
                let write = || Ok(memory.run(Commit::Async, |tx| tx.write(&heap, heap.first_offset(), 1))?);
                assert!(!matches!(attempt(write), Outcome::Done(_)), "a dropped heap is written");
            }
            return self.in_all_states(store, outcome, after, |state| {
                state.heaps.remove(name);
            });
        }
        let size = content.size + CHUNK * (1 + self.random.below(5));
        if size > heap.size_max() {
            assert!(heap.grow(size).is_err());
            return true;
        }
        content.size = size;
        let outcome = attempt(|| Ok(heap.grow(size)?));
        self.in_all_states(store, outcome, after, |state| {
            if let Some(content) = state.heaps.get_mut(name) {
                content.size = size;
            }
        })
    }

    /// As `ends`, for a durable change that makes no commit before it durable.
    fn in_all_states<T>(
        &mut self,
        store: &Store,
        outcome: Outcome<T>,
        after: State,
        change: impl Fn(&mut State),
    ) -> bool {
        let before = self.states.clone();
        let changed = before.iter().cloned().map(|mut state| {
            change(&mut state);
            state
        });
        let changed: Vec<State> = changed.collect();
        let is_done = matches!(outcome, Outcome::Done(_));
        let goes_on = self.ends(store, outcome, after, false);
        if is_done {
            self.states = changed;
        } else if !goes_on {
            self.states = before.into_iter().chain(changed).collect();
        }
        goes_on
    }

    fn step(&mut self, store: &Store) -> bool {
        match self.random.below(20) {
            0 => {
                let outcome = attempt(|| store.checkpoint());
                let newest = self.newest();
                self.ends(store, outcome, newest, false)
            }
            1 => {
                let free = self.random.below(300_000);
                let capacity = (!self.random.one_in(3)).then(|| self.disk.space() + free);
                self.disk.set_capacity(capacity);
                true
            }
            2..=5 => self.change_heaps(store),
            _ => self.transaction(store),
        }
    }

    fn create(&mut self, store: &Store) -> bool {
        let outcome = attempt(|| store.transact(|txn| Table::create(txn, "table").map(drop)));
        self.ends(store, outcome, State { table: Some(BTreeMap::new()), ..State::default() }, true)
    }

    /// Runs one opening of the store.
    fn opening(&mut self) {
        let store = self.open();
        store.check().expect("its pages are sound");
        self.judge(&store);
        let is_faulty = self.random.one_in(2);
        if is_faulty {
            let nth = 1 + self.random.below(800);
            let fault = self.fault(nth);
            self.disk.inject(fault);
        }
        let mut goes_on = self.newest().table.is_some() || self.create(&store);
        for _ in 0..self.random.below(150) {
            goes_on = goes_on && self.step(&store);
        }
        if let Some(stopped) = store.log().stopped() {
            assert!(is_faulty, "E16: it stopped without a cause: {stopped}");
            self.count(&format!("stop: {stopped}"));
        }
        self.disk.set_capacity(None);
        if goes_on && !is_faulty && self.random.one_in(2) {
            assert_eq!(read(&store), self.newest());
        }
        if goes_on && self.random.one_in(4) {
            if let Outcome::Done(()) = attempt(|| store.close()) {
                let newest = self.newest();
                self.states = vec![newest];
            }
        } else {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(store)));
        }
        self.crash();
    }
}

fn attempt<T>(work: impl FnOnce() -> Result<T>) -> Outcome<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Outcome::Done(value),
        Ok(Err(error)) => Outcome::Failed(error),
        Err(_) => Outcome::Panicked,
    }
}

fn read(store: &Store) -> State {
    let mut txn = store.begin();
    let mut state = State::default();
    if let Ok(table) = Table::open(&mut txn, "table") {
        let mut entries = BTreeMap::new();
        for key in (0..80).chain(REGIONS..REGIONS + 6) {
            if let Some(value) = table.get(&mut txn, &key).expect("it is read") {
                entries.insert(key, value);
            }
        }
        assert_eq!(table.len(&mut txn).expect("it is read"), entries.len() as u64);
        for (key, first) in entries.range(REGIONS..) {
            for page in (0..REGION_LEN).map(|page| PageId::new(*first).after(page)) {
                let found = store.read(page).expect("it is read").u64_at(0).expect("it is long enough");
                assert_eq!(found, page.get() ^ key, "page {page}");
            }
        }
        state.table = Some(entries);
    }
    txn.rollback().expect("nothing was changed");
    for heap in store.memory().heaps() {
        state.heaps.insert(heap.name().to_owned(), content(&heap));
    }
    state
}

fn content(heap: &Heap) -> Content {
    let has_blocks = heap.first_offset() > 0;
    let mut content = Content { size: heap.size(), has_blocks, ..Content::default() };
    let read = |offset| heap.atomically(|tx| tx.read(heap, offset)).expect("it is read");
    if has_blocks {
        let mut blocks = Vec::new();
        heap.each_block(|offset, len, _| blocks.push((offset, len))).expect("its account is sound");
        content.blocks = blocks.into_iter().map(|(offset, len)| (offset, (len, read(offset)))).collect();
    } else {
        let mut bytes = vec![0; heap.size() as usize];
        heap.atomically(|tx| tx.read_bytes(heap, 0, &mut bytes)).expect("it is read");
        let words = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        content.words = (0..).step_by(8).zip(words).filter(|(_, word)| *word != 0).collect();
    }
    content
}

#[test]
fn changing_heaps_lose_nothing() {
    let mut counts = BTreeMap::new();
    let first = cedrat_check::seed(0);
    for seed in first..first + 12 {
        let mut run = Run::new(seed);
        let all = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..12 {
                run.opening();
            }
            let store = run.open();
            run.judge(&store);
        }));
        for (what, count) in run.counts {
            *counts.entry(what).or_insert(0) += count;
        }
        if let Err(panic) = all {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
    println!("{counts:#?}");
}
