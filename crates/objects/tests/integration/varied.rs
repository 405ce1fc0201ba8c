//! One store through many openings: each with other options, a disk that fills and becomes free again, prepared transactions that
//! outlive crashes, and power that fails at any call, also of an opening.
#![cfg(not(cedrat_shuttle))]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cedrat_check::Rng;
use cedrat_heap::{Heap, HeapOptions};
use cedrat_media::{Call, Fault, Kill, Loss, Media, SimDisk};
use cedrat_structures::{Catalogue, HashTable, check_named};
use cedrat_sync::Arc;
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_txn::{Clock, Commit, Error, OpenError, Options, Registry, Result, Savepoint, Store, Txn, Vote};
use cedrat_wal::{Log, LogError, Replica, ReplicaSink, StableWhen};

type Table = HashTable<u64, Vec<u8>>;

/// The content that counts at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    exists: bool,
    table: BTreeMap<u64, Vec<u8>>,
    words: BTreeMap<u64, u64>,
    /// Prepared transactions, with their changes.
    branches: BTreeMap<Vec<u8>, Changes>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Changes {
    table: BTreeMap<u64, Option<Vec<u8>>>,
    words: BTreeMap<u64, u64>,
    /// Keys that it has locked.
    locked: BTreeSet<u64>,
}

impl State {
    fn apply(&mut self, changes: &Changes) {
        for (key, value) in &changes.table {
            match value {
                Some(value) => drop(self.table.insert(*key, value.clone())),
                None => drop(self.table.remove(key)),
            }
        }
        self.words.extend(&changes.words);
    }
}

/// A transaction of the test that has not ended.
struct Running {
    txn: Txn,
    changes: Changes,
    savepoints: Vec<(Savepoint, Changes)>,
}

/// A clock that each step of the test advances.
#[derive(Debug, Default)]
struct Steps(AtomicU64);

impl Clock for Steps {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

struct Run {
    /// Whether the files of the log become longer.
    grows: bool,
    clock: Arc<Steps>,
    random: Rng,
    disk: Arc<SimDisk>,
    /// The states that a crash may leave, oldest first; the last is the newest.
    states: Vec<State>,
    branch: u64,
    /// A replica that alone makes the log stable: the disk may lose all of it that was not synced for another reason.
    replica: Option<Replica>,
    counts: BTreeMap<String, u64>,
}

const KEYS: u64 = 300;
const WORDS: u64 = 64;

impl Run {
    fn new(seed: u64) -> Run {
        Run {
            grows: seed / 3 % 2 == 1,
            clock: Arc::new(Steps::default()),
            random: Rng::new(seed),
            disk: Arc::new(SimDisk::new()),
            states: vec![State::default()],
            branch: 0,
            replica: seed.is_multiple_of(3).then(Replica::new),
            counts: BTreeMap::new(),
        }
    }

    fn count(&mut self, what: &str) {
        *self.counts.entry(what.chars().filter(|c| !c.is_ascii_digit()).take(60).collect()).or_default() += 1;
    }

    fn options(&mut self) -> Options {
        let mut base = Options::simulated();
        if self.grows {
            base = Options::simulated_growth();
            base.segment_len *= 2;
        }
        // At a small limit, files that have become too short are removed.
        let segments = *self.random.pick(if self.grows { &[6, 6, 7, 8, 16, 40] } else { &[8, 10, 12, 16, 24, 40] });
        let txn_log_limit_bytes = *self.random.pick(&[None, None, Some(100_000), Some(u64::MAX)]);
        let carry_forward_bytes = *self.random.pick(&[None, None, Some(1), Some(20_000)]);
        let mut options = Options {
            pool_bytes: *self.random.pick(&[8, 9, 16, 32, 64, 1024]) * 4096,
            partitions: 1 + self.random.below(2) as u16,
            log_limit_bytes: segments * base.segment_len,
            txn_log_limit_bytes,
            carry_forward_bytes,
            checkpoint_when_opened: self.random.one_in(2),
            redo_threads: *self.random.pick(&[0, 0, 1, 3]),
            background: self.random.one_in(4),
            checkpoint_every_bytes: *self.random.pick(&[20_000, 100_000, u64::MAX]),
            txn_time_limit: self.random.one_in(3).then(|| Duration::from_secs(10)),
            clock: Arc::<Steps>::clone(&self.clock),
            ..base
        };
        options.log.block_len_max = *self.random.pick(&[8 << 10, 16 << 10, 32 << 10]);
        options.log.writes_in_flight = *self.random.pick(&[1, 2, 8]);
        options
    }

    fn try_open(&mut self, mut options: Options) -> Result<Store, OpenError> {
        let media: Arc<dyn Media> = Arc::<SimDisk>::clone(&self.disk);
        if let Some(replica) = &mut self.replica {
            match Log::look(&media) {
                Err(LogError::Absent { .. }) => *replica = Replica::new(),
                // Without power it fails, and so does the opening.
                _ => drop(replica.restore(&*media)),
            }
            options.log.sink = Arc::new(ReplicaSink::new(replica.clone(), StableWhen::Replica));
        }
        Store::open(media, options, Registry::new().with(cedrat_structures::register))
    }

    fn loss(&mut self) -> Loss {
        match self.random.below(5) {
            0 => Loss::Everything,
            1 => Loss::Nothing,
            2 => Loss::Whole(self.random.next_u64()),
            _ => Loss::Random(self.random.next_u64()),
        }
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
        let loss = self.loss();
        self.disk = Arc::new(self.disk.cut_power(loss));
    }

    fn open(&mut self) -> Store {
        if self.random.one_in(3) {
            let nth = 1 + self.random.below(120);
            self.disk.inject(Fault::power_loss(Call::Any).nth(nth));
            let options = self.options();
            drop(self.try_open(options));
            self.count("opening without power");
            self.crash();
        }
        if self.random.one_in(4) {
            self.disk.set_capacity(Some(self.disk.space()));
            let options = self.options();
            match self.try_open(options) {
                Ok(store) => {
                    self.count("opening on a full disk");
                    return store;
                }
                Err(error) => {
                    let is_new = !self.states[0].exists;
                    assert!(is_new, "{error}");
                    self.count(&format!("full: {error}"));
                }
            }
            self.disk.set_capacity(None);
        }
        let options = self.options();
        let debug = format!("{options:?}");
        match self.try_open(options) {
            Ok(store) => store,
            Err(error) => panic!("it does not open with {debug}: {error}"),
        }
    }

    /// Returns the entries that no prepared transaction has locked.
    fn entries(&self, store: &Store, table: &Table) -> BTreeMap<u64, Vec<u8>> {
        let mut txn = store.begin();
        let mut table_found = BTreeMap::new();
        for key in 0..KEYS {
            let locked = self.states.iter().any(|state| state.branches.values().any(|c| c.locked.contains(&key)));
            if locked {
                continue;
            }
            match table.get(&mut txn, &key) {
                Ok(Some(value)) => drop(table_found.insert(key, value)),
                Ok(None) => {}
                Err(Error::Deadlock(_)) | Err(Error::InDoubt { .. }) => {}
                Err(error) => panic!("key {key}: {error}"),
            }
        }
        txn.rollback().unwrap();
        table_found
    }

    /// Compares the store with the states that are possible, and keeps the one it is in.
    fn judge(&mut self, store: &Store) -> Option<(Table, Heap)> {
        self.disk.set_capacity(None);
        store.check().expect("its pages are sound");
        let found = (|| -> Result<Option<(Table, Heap)>> {
            let mut txn = store.begin();
            let table = match Table::open(&mut txn, "table") {
                Ok(table) => table,
                Err(error) if error.to_string().contains("table") => return Ok(None),
                Err(error) => return Err(error),
            };
            txn.rollback()?;
            let Ok(heap) = store.memory().heap("words") else { return Ok(None) };
            Ok(Some((table, heap)))
        })()
        .expect("it is read");
        let Some((table, heap)) = found else {
            assert!(!self.states[0].exists, "the structures are gone");
            self.states = vec![State::default()];
            return None;
        };
        let branches: BTreeSet<Vec<u8>> = store.in_doubt().unwrap().into_iter().map(|branch| branch.id).collect();
        let mut words = BTreeMap::new();
        for word in 0..WORDS {
            // Those that a prepared transaction has written are locked, and others of their stripes.
            match store.begin().heap(|tx| tx.read(&heap, word * 8)) {
                Ok(value) => drop(words.insert(word, value)),
                Err(Error::Heap(cedrat_heap::Error::InDoubt { .. })) => {}
                Err(error) => panic!("word {word}: {error}"),
            }
        }
        let table_found = self.entries(store, &table);
        let locked_keys: BTreeSet<u64> = self
            .states
            .iter()
            .flat_map(|state| state.branches.values().flat_map(|c| c.locked.iter().copied()))
            .collect();
        let fits = |state: &State| {
            let mut wanted = state.table.clone();
            wanted.retain(|key, _| !locked_keys.contains(key));
            state.exists
                && state.branches.keys().cloned().collect::<BTreeSet<_>>() == branches
                && wanted == table_found
                && words.iter().all(|(word, value)| state.words.get(word).copied().unwrap_or(0) == *value)
        };
        let Some(at) = self.states.iter().rposition(fits) else {
            panic!(
                "none of {} states fits: {branches:?}, {} keys; newest has {:?}, {} keys",
                self.states.len(),
                table_found.len(),
                self.states.last().unwrap().branches.keys().collect::<Vec<_>>(),
                self.states.last().unwrap().table.len()
            );
        };
        let state = self.states.swap_remove(at);
        self.states = vec![state];
        Some((table, heap))
    }

    fn newest(&self) -> State {
        self.states.last().expect("there is one").clone()
    }

    /// Notes an outcome: certain, or possible after a crash.
    fn becomes(&mut self, state: State, is_durable: bool) {
        if is_durable {
            self.states.clear();
        }
        self.states.push(state);
    }

    /// Returns whether the store goes on after this error.
    fn goes_on(&mut self, error: &Error) -> bool {
        let text = error.to_string();
        self.count(&text);
        let stopped = matches!(error, Error::Stopped(_)) || text.contains("power");
        !stopped
    }

    fn change(&mut self, running: &mut Running, others: &[Running], table: &Table, heap: &Heap) -> Result<()> {
        // This thread would wait for itself: at last without success, but for seconds.
        let branches = self.newest().branches;
        let key = loop {
            let key = self.random.below(KEYS);
            let is_locked = |changes: &Changes| changes.locked.contains(&key);
            if !branches.values().any(is_locked) && !others.iter().any(|other| is_locked(&other.changes)) {
                break key;
            }
        };
        let word = loop {
            let word = self.random.below(WORDS);
            if !branches.values().any(|branch| branch.words.contains_key(&word)) {
                break word;
            }
        };
        running.changes.locked.insert(key);
        match self.random.below(6) {
            0 => {
                if table.remove(&mut running.txn, &key)? {
                    running.changes.table.insert(key, None);
                }
            }
            1 => {
                let value = self.random.next_u64();
                running.txn.heap(|tx| tx.write(heap, word * 8, value))?;
                running.changes.words.insert(word, value);
            }
            2 => {
                running.savepoints.push((running.txn.savepoint(), running.changes.clone()));
            }
            3 if self.random.one_in(3) => {
                if let Some((savepoint, changes)) = running.savepoints.pop() {
                    running.txn.rollback_to(savepoint)?;
                    let locked = std::mem::take(&mut running.changes.locked);
                    running.changes = Changes { locked, ..changes };
                }
            }
            _ => {
                let len = self.random.below(900);
                let value = vec![key as u8; len as usize];
                table.insert(&mut running.txn, &key, &value)?;
                running.changes.table.insert(key, Some(value));
            }
        }
        Ok(())
    }

    /// Ends a transaction. `false`: the store has stopped.
    fn end(&mut self, running: Running) -> bool {
        let mut after = self.newest();
        let Running { txn, changes, .. } = running;
        match self.random.below(8) {
            0 => match txn.rollback() {
                Ok(()) => true,
                Err(error) => self.goes_on(&error),
            },
            1 => {
                drop(txn);
                true
            }
            2 | 3 if after.branches.len() < 4 => {
                self.branch += 1;
                let id = format!("branch {}", self.branch).into_bytes();
                let before = self.states.clone();
                after.branches.insert(id.clone(), changes);
                self.becomes(after, false);
                match txn.prepare(&id) {
                    Ok(Vote::Prepared(prepared)) => {
                        drop(prepared);
                        let newest = self.newest();
                        self.becomes(newest, true);
                        true
                    }
                    Ok(Vote::ReadOnly) => {
                        self.states = before;
                        true
                    }
                    Err(error) => self.refused(&error, before),
                }
            }
            kind => {
                // Without a change it waits only for the commits of what it has read.
                let changes_nothing = changes.table.is_empty() && changes.words.is_empty();
                let mode = if kind < 6 && !changes_nothing { Commit::Sync } else { Commit::Async };
                after.apply(&changes);
                let before = self.states.clone();
                self.becomes(after, false);
                match txn.commit(mode) {
                    Ok(_) => {
                        if mode == Commit::Sync {
                            let newest = self.newest();
                            self.becomes(newest, true);
                        }
                        true
                    }
                    Err(error) => self.refused(&error, before),
                }
            }
        }
    }

    /// After an error the store is as it was before, if it goes on. Returns whether it does.
    fn refused(&mut self, error: &Error, before: Vec<State>) -> bool {
        let goes_on = self.goes_on(error);
        if goes_on {
            self.states = before;
        }
        goes_on
    }

    fn resolve(&mut self, store: &Store) -> bool {
        let mut after = self.newest();
        let Some(id) = after.branches.keys().next().cloned() else { return true };
        let prepared = match store.prepared(&id) {
            Ok(prepared) => prepared,
            Err(error) => {
                let goes_on = self.goes_on(&error);
                assert!(!goes_on, "the branch is gone: {error}");
                return false;
            }
        };
        let changes = after.branches.remove(&id).expect("it is there");
        let commits = self.random.one_in(2);
        if commits {
            after.apply(&changes);
        }
        let before = self.states.clone();
        self.becomes(after, false);
        let done = if commits { prepared.commit(Commit::Sync).map(drop) } else { prepared.rollback() };
        match done {
            Ok(()) => {
                let newest = self.newest();
                self.becomes(newest, true);
                true
            }
            Err(error) => self.refused(&error, before),
        }
    }

    fn create(&mut self, store: &Store) -> Option<(Table, Heap)> {
        let made = (|| -> Result<(Table, Heap)> {
            let heap = match store.memory().heap("words") {
                Ok(heap) => heap,
                Err(_) => {
                    store.memory().create_heap("words", &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) })?
                }
            };
            let table = store.transact(|txn| match Table::create(txn, "table") {
                Err(error) if error.to_string().contains("taken") => Table::open(txn, "table"),
                other => other,
            })?;
            Ok((table, heap))
        })();
        match made {
            Ok(made) => {
                self.becomes(State { exists: true, ..State::default() }, true);
                Some(made)
            }
            Err(error) => {
                self.states.push(State { exists: true, ..State::default() });
                self.count(&format!("creation: {error}"));
                None
            }
        }
    }

    /// Takes one step. Returns whether the store goes on.
    fn step(&mut self, store: &Store, running: &mut Vec<Running>, table: &Table, heap: &Heap) -> bool {
        match self.random.below(40) {
            0 => store.checkpoint().map_or_else(|error| self.goes_on(&error), |()| true),
            1 | 2 => {
                let free = self.random.below(400_000);
                let capacity = (!self.random.one_in(3)).then(|| self.disk.space() + free);
                self.disk.set_capacity(capacity);
                true
            }
            3 => self.resolve(store),
            4..=6 if running.len() < 4 => {
                running.push(Running { txn: store.begin(), changes: Changes::default(), savepoints: Vec::new() });
                true
            }
            7..=9 if !running.is_empty() => {
                let at = self.random.below(running.len() as u64) as usize;
                let one = running.swap_remove(at);
                self.end(one)
            }
            _ if !running.is_empty() => {
                let at = self.random.below(running.len() as u64) as usize;
                let mut one = running.swap_remove(at);
                match self.change(&mut one, running, table, heap) {
                    Ok(()) => {
                        running.push(one);
                        true
                    }
                    Err(error) => {
                        let goes_on = self.goes_on(&error);
                        drop(one);
                        goes_on
                    }
                }
            }
            _ => true,
        }
    }

    /// Runs one opening of the store.
    fn opening(&mut self) {
        let store = self.open();
        let Some((table, heap)) = self.judge(&store).or_else(|| self.create(&store)) else {
            drop(store);
            return self.crash();
        };
        let dies = self.random.one_in(2);
        if dies {
            let nth = 1 + self.random.below(1500);
            self.disk.inject(Fault::power_loss(Call::Any).nth(nth));
        }
        let mut running: Vec<Running> = Vec::new();
        let mut goes_on = true;
        for _ in 0..self.random.below(400) {
            let passed = u64::from(self.random.one_in(8));
            self.clock.0.fetch_add(passed, Ordering::Relaxed);
            goes_on = self.step(&store, &mut running, &table, &heap);
            if !goes_on {
                break;
            }
        }
        if let Some(stopped) = store.log().stopped() {
            assert!(dies, "E16: it stopped without a cause: {stopped}");
        }
        drop(running);
        let is_closed = goes_on && self.random.one_in(4);
        drop((table, heap));
        if is_closed {
            if store.close().is_ok() {
                let newest = self.newest();
                self.becomes(newest, true);
            }
        } else {
            drop(store);
        }
        self.crash();
    }
}

#[test]
fn random_openings_lose_nothing() {
    let mut counts = BTreeMap::new();
    let first = cedrat_check::seed(0);
    for seed in first..first + 20 {
        let mut run = Run::new(seed);
        let all = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..12 {
                run.opening();
            }
            // Everything that has a name is sound.
            run.disk.set_capacity(None);
            let options = run.options();
            let store = run.try_open(options).expect("it opens");
            if run.judge(&store).is_some() {
                let mut txn = store.begin();
                let catalogue = Catalogue::open(&store).unwrap();
                for named in catalogue.list(&mut txn).unwrap() {
                    if let Some(checked) = check_named(&txn, &named).unwrap() {
                        assert!(checked.problems.is_empty(), "{:?}", checked.problems);
                    }
                }
            }
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
