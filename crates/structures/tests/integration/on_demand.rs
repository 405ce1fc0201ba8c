//! Random histories of a store whose redo goes on while it is used: transactions, branches, structures, heaps, checkpoints, backups,
//! failures of the disk, and crashes at any moment, also of the redo of an earlier crash.

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::time::Duration;

use cedrat_heap::HeapOptions;
use cedrat_media::{Call, Damage, Fault, Kill, Loss, SimDisk};
use cedrat_pages::{PAGE_FILE, PAGE_LEN, PageId};
use cedrat_structures::{RawHashTable, RawList, register};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Condvar, Mutex, thread};
use cedrat_txn::{
    BackupChain, BackupOptions, Commit, NoLocks, Options, Registry, RestoreTarget, Result, Store, Txn, Vote, restore,
};

use crate::common::{Random, check_all, media};

const HEAP: &str = "words";
const WORDS: u64 = 64;
const KEYS: u64 = 300;

/// The content of the store, with the changes of branches in doubt.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    tables: [BTreeMap<Vec<u8>, Vec<u8>>; 2],
    list: VecDeque<Vec<u8>>,
    words: Vec<u64>,
    /// The keys that each branch in doubt has put.
    branches: BTreeMap<u64, Vec<(usize, Vec<u8>)>>,
}

/// The roots of the structures.
#[derive(Clone, Copy)]
struct Roots {
    tables: [PageId; 2],
    list: PageId,
}

/// The options that a seed chooses.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    partitions: u16,
    pool_pages: u64,
    segments: u64,
}

struct World {
    random: Random,
    chosen: Chosen,
    disk: SimDisk,
    archive: Option<SimDisk>,
    /// The journal of the disk at the end of the opening.
    opened_at: usize,
    store: Option<Store>,
    roots: Roots,
    /// The states since the last one that was found, and the first of them that a crash may lead to.
    states: Vec<State>,
    durable: usize,
    branch: u64,
    backups: Vec<SimDisk>,
    /// Whether calls may fail.
    is_faulty: bool,
    was_pending: u64,
    crashes_of_redo: u64,
}

fn options(chosen: Chosen, archive: Option<&SimDisk>, random: &mut Random) -> Options {
    let mut options = Options {
        locks: Arc::new(NoLocks),
        archive: archive.map(media),
        partitions: chosen.partitions,
        pool_bytes: chosen.pool_pages * 4096,
        // Without threads the archive and the store are of one moment.
        background: random.below(4) > 0 && archive.is_none(),
        redo_threads: [0, 2][random.below(2) as usize],
        checkpoint_when_opened: random.below(2) == 0,
        checkpoint_every_bytes: [20_000, u64::MAX][random.below(2) as usize],
        carry_forward_bytes: Some(1),
        redo_on_demand_bytes: 0,
        ..Options::simulated()
    };
    options.log_limit_bytes = chosen.segments * options.segment_len;
    options.pool.poison_free = random.below(2) == 0;
    options
}

/// Delays each read of a page by the threads that redo.
fn delay_redo(disk: &SimDisk, micros: u64) {
    let (mutex, never) = (Mutex::new(()), Condvar::new());
    let reads = AtomicU64::new(0);
    disk.before_each_call(move |_, call, name| {
        let is_redo =
            std::thread::current().name().is_some_and(|name| ["cedrat-drains", "cedrat-redo"].contains(&name));
        if micros > 0 && is_redo && call == Call::Read && name == PAGE_FILE {
            let read = reads.fetch_add(1, Ordering::Relaxed);
            let mut locked = mutex.lock();
            let longer = if read % 7 == 3 { 20 } else { 1 };
            never.wait_for(&mut locked, Duration::from_micros(micros * longer));
        }
    });
}

fn open(disk: &SimDisk, options: Options) -> Store {
    Store::open(media(disk), options, Registry::new().with(register)).expect("it opens")
}

fn read(store: &Store, roots: Roots) -> Result<State> {
    let mut txn = store.begin();
    let mut state = State::default();
    for (table, root) in state.tables.iter_mut().zip(roots.tables) {
        let pairs: Result<Vec<_>, _> = RawHashTable::open(store, root)?.iter(&mut txn)?.collect();
        *table = pairs?.into_iter().collect();
    }
    let elements: Result<Vec<_>, _> = RawList::open(store, roots.list)?.iter(&mut txn)?.collect();
    state.list = elements?.into();
    txn.rollback()?;
    let heap = store.memory().heap(HEAP)?;
    let read_all = |tx: &mut cedrat_heap::Tx<'_>| (0..WORDS).map(|word| tx.read(&heap, 8 * word)).collect();
    state.words = store.memory().run(Commit::Async, read_all)?.value;
    for branch in store.in_doubt()? {
        state.branches.insert(u64::from_le_bytes(branch.id[..].try_into().expect("eight bytes")), Vec::new());
    }
    Ok(state)
}

/// Whether a store has this content.
fn is_of(found: &State, state: &State) -> bool {
    let branches = found.branches.keys().eq(state.branches.keys());
    branches && (&found.tables, &found.list, &found.words) == (&state.tables, &state.list, &state.words)
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let chosen = Chosen {
            partitions: [1, 3][random.below(2) as usize],
            pool_pages: [16, 24, 48, 256][random.below(4) as usize],
            segments: [24, 64, 400][random.below(3) as usize],
        };
        let (disk, archive) = (SimDisk::new(), (random.below(3) == 0).then(SimDisk::new));
        let store = open(&disk, options(chosen, archive.as_ref(), &mut random));
        let roots = store
            .transact(|txn| {
                let tables = [RawHashTable::create(txn)?.root(), RawHashTable::create(txn)?.root()];
                Ok(Roots { tables, list: RawList::create(txn)?.root() })
            })
            .unwrap();
        let heap = HeapOptions { chunk_len: 4096, size: 8 * WORDS, ..HeapOptions::raw(4096) };
        drop(store.memory().create_heap(HEAP, &heap).unwrap());
        let states = vec![State { words: vec![0; WORDS as usize], ..State::default() }];
        let opened_at = disk.journal_len();
        World {
            random,
            chosen,
            disk,
            archive,
            opened_at,
            store: Some(store),
            roots,
            states,
            durable: 0,
            branch: 0,
            backups: vec![],
            is_faulty: false,
            was_pending: 0,
            crashes_of_redo: 0,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn state(&self) -> &State {
        self.states.last().expect("there is one")
    }

    /// Notes that the newest state is durable.
    fn acknowledge(&mut self) {
        self.durable = self.states.len() - 1;
        self.disk.mark(self.durable as u64);
    }

    /// Makes some changes in a transaction and in the state.
    fn change(&mut self, txn: &mut Txn, state: &mut State) -> Result<()> {
        for _ in 0..=self.random.below(8) {
            let number = self.random.below(2) as usize;
            let key = self.random.below(KEYS).to_le_bytes().to_vec();
            let value = vec![self.random.below(256) as u8; [4, 60, 700][self.random.below(3) as usize]];
            match self.random.below(10) {
                0..5 => {
                    RawHashTable::open(self.store(), self.roots.tables[number])?.put(txn, &key, &value)?;
                    state.tables[number].insert(key, value);
                }
                5..8 => {
                    let removed = RawHashTable::open(self.store(), self.roots.tables[number])?.remove(txn, &key)?;
                    assert_eq!(removed, state.tables[number].remove(&key).is_some(), "R8: key {key:?}");
                }
                8 => {
                    let list = RawList::open(self.store(), self.roots.list)?;
                    if state.list.len() > 60 || self.random.below(3) == 0 {
                        assert_eq!(list.pop_front(txn)?, state.list.pop_front(), "R8");
                    } else {
                        list.push_back(txn, &value)?;
                        state.list.push_back(value);
                    }
                }
                _ => {
                    let word = self.random.below(WORDS);
                    let heap = self.store().memory().heap(HEAP)?;
                    txn.heap(|tx| tx.write(&heap, 8 * word, self.random.below(1 << 40)))?;
                    let written = txn.heap(|tx| tx.read(&heap, 8 * word))?;
                    state.words[word as usize] = written;
                }
            }
        }
        Ok(())
    }

    fn remove_many(&mut self) -> Result<()> {
        let mut state = self.state().clone();
        let mut txn = self.store().begin();
        let number = self.random.below(2) as usize;
        let table = RawHashTable::open(self.store(), self.roots.tables[number])?;
        let own = |key: &Vec<u8>| u64::from_le_bytes(key[..].try_into().expect("eight bytes")) < KEYS;
        let keys: Vec<Vec<u8>> = state.tables[number].keys().filter(|key| own(key)).cloned().collect();
        for key in keys.iter().filter(|_| self.random.below(4) > 0) {
            assert!(table.remove(&mut txn, key)?, "R8");
            state.tables[number].remove(key);
        }
        self.commit(txn, state)
    }

    fn commit(&mut self, txn: Txn, state: State) -> Result<()> {
        let mode = if self.random.below(3) > 0 { Commit::Sync } else { Commit::Async };
        // One that changes nothing forces nothing.
        let has_changed = state != *self.state();
        self.states.push(state);
        txn.commit(mode)?;
        if mode == Commit::Sync && has_changed {
            self.acknowledge();
        }
        Ok(())
    }

    fn transact(&mut self) -> Result<()> {
        let mut state = self.state().clone();
        let mut txn = self.store().begin();
        self.change(&mut txn, &mut state)?;
        match self.random.below(5) {
            0 => txn.rollback(),
            _ => self.commit(txn, state),
        }
    }

    fn prepare(&mut self) -> Result<()> {
        if self.state().branches.len() >= 3 {
            return self.decide();
        }
        self.branch += 1;
        let mut state = self.state().clone();
        let mut txn = self.store().begin();
        let mut keys = Vec::new();
        for key in 0..=self.random.below(8) {
            let number = self.random.below(2) as usize;
            let key = (KEYS + self.branch * 100 + key).to_le_bytes().to_vec();
            RawHashTable::open(self.store(), self.roots.tables[number])?.put(&mut txn, &key, b"branch")?;
            state.tables[number].insert(key.clone(), b"branch".to_vec());
            keys.push((number, key));
        }
        state.branches.insert(self.branch, keys);
        self.states.push(state);
        let Vote::Prepared(prepared) = txn.prepare(&self.branch.to_le_bytes())? else { panic!("it has changed") };
        drop(prepared);
        self.acknowledge();
        Ok(())
    }

    fn decide(&mut self) -> Result<()> {
        let mut state = self.state().clone();
        let Some((id, keys)) = state.branches.pop_first() else { return Ok(()) };
        let prepared = self.store().prepared(&id.to_le_bytes())?;
        if self.random.below(2) == 0 {
            self.states.push(state);
            prepared.commit(Commit::Sync)?;
        } else {
            keys.iter().for_each(|(number, key)| drop(state.tables[*number].remove(key)));
            self.states.push(state);
            prepared.rollback()?;
            self.store().log().force(self.store().log().current_lsn())?;
        }
        self.acknowledge();
        Ok(())
    }

    fn back_up(&mut self) -> Result<()> {
        if self.backups.len() > 3 {
            self.backups.clear();
        }
        let to = SimDisk::new();
        let chain = |backups: &[SimDisk]| {
            let increments: Vec<_> = backups[1..].iter().map(media).collect();
            BackupChain::open(&media(&backups[0]), &increments)
        };
        let earlier = if self.backups.is_empty() { None } else { Some(chain(&self.backups)?) };
        let copied =
            self.store().backup(&media(&to), BackupOptions { since: earlier.as_ref(), ..BackupOptions::default() });
        drop(earlier);
        if let Err(error) = copied {
            self.backups.clear(); // after a crash, it has another history
            return if matches!(error, cedrat_txn::Error::CannotContinue { .. }) { Ok(()) } else { Err(error) };
        }
        self.backups.push(to);
        let restored = SimDisk::new();
        restore(chain(&self.backups)?.media(), None, &media(&restored), RestoreTarget::Newest).expect("E18.19");
        let store = open(&restored, options(self.chosen, None, &mut self.random));
        let found = read(&store, self.roots).expect("E18.1");
        assert!(is_of(&found, self.state()), "E18.1: {} backups", self.backups.len());
        check_all(&store);
        Ok(())
    }

    /// Reads everything, and compares it with the state.
    fn compare(&mut self) -> Result<()> {
        let found = read(self.store(), self.roots)?;
        assert!(is_of(&found, self.state()), "R8: {}", difference(&found, self.state()));
        Ok(())
    }

    fn fail(&mut self) -> Result<()> {
        let call = [Call::Read, Call::Read, Call::Write, Call::Sync][self.random.below(4) as usize];
        let fault = match self.random.below(6) {
            0 => Fault::forgetful_sync(),
            1 => Fault::power_loss(call),
            2 => Fault::error(call, ErrorKind::Other).of(PAGE_FILE),
            3 => Fault::error(call, ErrorKind::Other).of("log/"),
            _ => Fault::error(call, ErrorKind::Other),
        };
        let fault = fault.nth(1 + self.random.below(40));
        self.disk.inject(if self.random.below(3) == 0 { fault.permanent() } else { fault });
        self.is_faulty = true;
        Ok(())
    }

    fn fill_disk(&mut self) -> Result<()> {
        self.disk.set_capacity(Some(self.disk.space() + self.random.below(20_000)));
        self.is_faulty = true;
        Ok(())
    }

    /// Ends the archive's disk as it is now. What it has is in the log of a crash after this.
    fn crash_archive(&mut self) {
        self.archive = self.archive.take().map(|disk| disk.journal().crash(disk.journal_len(), Loss::Everything));
    }

    /// Crashes, at the end of the journal or before, and opens the store again.
    fn crash(&mut self) {
        let has_loser = self.random.below(2) == 0 && !self.is_faulty;
        let mut loser = self.store().begin();
        if has_loser {
            let mut state = self.state().clone();
            let done = self.change(&mut loser, &mut state);
            if self.random.below(2) == 0 {
                done.and_then(|()| Ok(self.store().log().force(self.store().log().current_lsn())?))
                    .expect("the disk works");
            }
        }
        self.crashes_of_redo += u64::from(self.store().recovery().pending_pages > 0);
        self.crash_archive();
        let journal = self.disk.journal();
        let len = journal.len();
        let at = match self.random.below(3) {
            _ if self.archive.is_some() => len, // the archive is not older
            0 => self.opened_at + self.random.below((len - self.opened_at + 1) as u64) as usize,
            1 => len - self.random.below((len - self.opened_at).min(30) as u64 + 1) as usize,
            _ => len,
        };
        let acknowledged = journal.marks_before(at).last().map_or(0, |mark| mark.label as usize);
        let seed = self.random.below(1 << 40);
        let crashed = match self.random.below(6) {
            0 => journal.crash(at, Loss::Everything),
            1 => journal.crash(at, Loss::Nothing),
            2 => {
                let mut cursor = journal.cursor();
                cursor.advance_to(at);
                cursor.kill(if seed.is_multiple_of(3) { Kill::FailedSync(seed) } else { Kill::Process(seed) })
            }
            _ => journal.crash(at, Loss::Random(seed)),
        };
        let old = self.store.take();
        self.reopen(crashed, acknowledged);
        // The store before the crash ends last: what it writes goes to another disk.
        let _ = loser.rollback();
        drop(old);
    }

    fn close(&mut self) {
        match self.store.take().expect("it is open").close() {
            Ok(()) => self.acknowledge(),
            Err(error) => assert!(self.is_faulty, "R9: {error}"),
        }
        self.crash_archive();
        let crashed = self.disk.journal().crash(self.disk.journal_len(), Loss::Everything);
        self.reopen(crashed, self.durable);
    }

    /// Opens the store, which has one of the states since the one acknowledged.
    fn reopen(&mut self, disk: SimDisk, acknowledged: usize) {
        delay_redo(&disk, [0, 100, 500, 2000][self.random.below(4) as usize]);
        if self.archive.is_some() && self.random.below(3) == 0 {
            let (page, bit) = (2 + self.random.below(60), self.random.below(8) as u8);
            // An error: the page is behind the end of the file.
            let _ = disk.corrupt(PAGE_FILE, page * PAGE_LEN as u64 + 100, Damage::Flip { bit });
        }
        let options = options(self.chosen, self.archive.as_ref(), &mut self.random);
        let store = open(&disk, options);
        self.was_pending += u64::from(store.recovery().pending_pages > 0);
        self.is_faulty = false;
        self.opened_at = disk.journal_len();
        (self.disk, self.store) = (disk, Some(store));
        if self.random.below(3) == 0 {
            // Another crash right after the opening: it is compared later.
            self.states.drain(..acknowledged.min(self.states.len() - 1));
            self.durable = 0;
            self.crashes_of_redo += u64::from(self.store().recovery().pending_pages > 0);
            self.crash_archive();
            let again = match self.random.below(3) {
                0 if self.archive.is_none() => self.disk.journal().crash(self.opened_at, Loss::Everything),
                _ => self.disk.journal().crash(self.disk.journal_len(), Loss::Random(self.random.below(1 << 40))),
            };
            self.store = None;
            return self.reopen(again, 0);
        }
        if self.random.below(3) == 0 {
            self.store().complete_recovery().expect("R8");
        }
        let found = self.read_in_threads();
        let candidates = &self.states[acknowledged..];
        let Some(state) = candidates.iter().rev().find(|state| is_of(&found, state)) else {
            panic!("R8: no state is it of {}: {}", candidates.len(), difference(&found, &candidates[0]));
        };
        self.states = vec![state.clone()];
        self.durable = 0;
        self.branch = self.branch.max(self.state().branches.keys().last().copied().unwrap_or(0));
        if self.random.below(4) == 0 {
            check_all(self.store());
            self.store().check().expect("it is sound");
        }
    }

    /// Reads everything, perhaps in several threads at once.
    fn read_in_threads(&mut self) -> State {
        let threads = self.random.below(3);
        let (store, roots) = (self.store(), self.roots);
        thread::scope(|scope| {
            let read = || read(store, roots).expect("R8");
            let others: Vec<_> = (0..threads).map(|_| scope.spawn(read)).collect();
            let found = read();
            others.into_iter().for_each(|other| assert_eq!(other.join().expect("no panic"), found, "R8"));
            found
        })
    }

    fn step(&mut self) {
        let choice = self.random.below(44);
        let done = match choice {
            0..22 => self.transact(),
            22..25 => self.prepare(),
            25..28 => self.decide(),
            28 => self.remove_many(),
            29..32 => self.store().checkpoint(),
            32 => self.back_up(),
            33..36 => self.compare(),
            36 => self.store().complete_recovery(),
            37 if !self.is_faulty => self.fail(),
            38 if !self.is_faulty => self.fill_disk(),
            39 => return self.close(),
            40..43 => return self.crash(),
            _ => Ok(()),
        };
        if let Err(error) = done {
            assert!(self.is_faulty, "it fails: {error}");
            self.disk.clear_faults();
            self.disk.set_capacity(None);
            self.crash();
        }
    }
}

/// Returns a short description of the differences.
fn difference(found: &State, expected: &State) -> String {
    let mut lines = Vec::new();
    for (number, (found, expected)) in found.tables.iter().zip(&expected.tables).enumerate() {
        let differ = |key: &&Vec<u8>| found.get(*key) != expected.get(*key);
        let keys: Vec<_> = found.keys().chain(expected.keys()).filter(differ).take(5).collect();
        if !keys.is_empty() {
            lines.push(format!("table {number}: keys {keys:?}"));
        }
    }
    if found.list != expected.list {
        lines.push(format!("list of {} instead of {}", found.list.len(), expected.list.len()));
    }
    if found.words != expected.words {
        lines.push("words".into());
    }
    let (found, expected): (Vec<_>, Vec<_>) = (found.branches.keys().collect(), expected.branches.keys().collect());
    lines.push(format!("branches {found:?}, {expected:?}"));
    lines.join("; ")
}

/// R5, R8, R9: whatever happens while pages are pending, a crash leads to a state that is not older than the acknowledged one, and each
/// read finds it.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn crashes_beside_redo_keep_acknowledged_states() {
    let number = |name| std::env::var(name).ok().and_then(|number: String| number.parse().ok());
    let from = number("CEDRAT_REDO_SEEDS_FROM").unwrap_or(0);
    let (mut was_pending, mut crashes_of_redo) = (0, 0);
    for seed in from..from + number("CEDRAT_REDO_SEEDS").unwrap_or(12) {
        if number("CEDRAT_REDO_SEEDS").is_some() {
            eprintln!("seed {seed}");
        }
        let mut world = World::new(seed);
        (0..120).for_each(|_| world.step());
        if !world.is_faulty {
            world.compare().expect("R8");
        }
        was_pending += world.was_pending;
        crashes_of_redo += world.crashes_of_redo;
    }
    assert!(was_pending > 10 && crashes_of_redo > 5, "{was_pending} openings, {crashes_of_redo} crashes");
}
