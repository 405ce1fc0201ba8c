//! Random histories of a store whose redo goes on while it is used: transactions, branches, structures, heaps, checkpoints, archives,
//! backups, views of the past, damage, failures of the disk, and crashes at any moment, also of the redo of an earlier crash.

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::time::Duration;

use cedrat_heap::HeapOptions;
use cedrat_media::{Call, Damage, Fault, Kill, Loss, Media, OpenMode, SimDisk};
use cedrat_pages::{PAGE_FILE, PAGE_LEN, PageId};
use cedrat_structures::{RawHashTable, RawList, register};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Condvar, Mutex, thread};
use cedrat_txn::{
    BackupChain, BackupOptions, Commit, NoLocks, OpenError, Options, Registry, RestoreTarget, Result, Store, Txn, View,
    Vote, open_as_of, restore,
};
use cedrat_wal::{Found, Log, LogError, Lsn};

use crate::common::{Random, check_all, media};
use crate::parts::Part;

const HEAPS: [&str; 2] = ["words", "others"];
/// Number of words of each heap.
const WORDS: u64 = 32;
const KEYS: u64 = 300;

/// The content of the store, with the changes of branches in doubt.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    tables: [BTreeMap<Vec<u8>, Vec<u8>>; 2],
    list: VecDeque<Vec<u8>>,
    words: [Vec<u64>; HEAPS.len()],
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
    has_archive: bool,
}

struct World {
    random: Random,
    chosen: Chosen,
    /// The disk of the store, and of its archive.
    disk: SimDisk,
    /// The journal of the disk at the end of the opening.
    opened_at: usize,
    store: Option<Store>,
    roots: Roots,
    /// The states since the last one that was found, and the first of them that a crash may lead to.
    states: Vec<State>,
    durable: usize,
    branch: u64,
    backups: Vec<SimDisk>,
    /// The journal of the disk at the end of the newest backup.
    backed_up_at: usize,
    /// States of the past, without branches in doubt, and the newest record of each.
    past: VecDeque<(Lsn, State)>,
    /// Whether calls may fail.
    is_faulty: bool,
    counts: Counts,
}

/// Numbers of events, so that no part of the test is idle.
#[derive(Debug, Default)]
struct Counts {
    was_pending: u64,
    crashes_of_redo: u64,
    views: u64,
    damaged: u64,
    refused: u64,
}

fn archive_of(disk: &SimDisk) -> Arc<dyn Media> {
    Arc::new(Part::of(disk, "kept"))
}

fn options(chosen: Chosen, disk: Option<&SimDisk>, random: &mut Random) -> Options {
    let mut options = Options {
        locks: Arc::new(NoLocks),
        archive: disk.filter(|_| chosen.has_archive).map(archive_of),
        archive_period: Duration::from_millis(1),
        partitions: chosen.partitions,
        pool_bytes: chosen.pool_pages * 4096,
        background: random.below(4) > 0,
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
    for (words, heap) in state.words.iter_mut().zip(HEAPS) {
        let heap = store.memory().heap(heap)?;
        let read_all = |tx: &mut cedrat_heap::Tx<'_>| (0..WORDS).map(|word| tx.read(&heap, 8 * word)).collect();
        *words = store.memory().run(Commit::Async, read_all)?.value;
    }
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
            has_archive: random.below(2) == 0,
        };
        let disk = SimDisk::new();
        let store = open(&disk, options(chosen, Some(&disk), &mut random));
        let roots = store
            .transact(|txn| {
                let tables = [RawHashTable::create(txn)?.root(), RawHashTable::create(txn)?.root()];
                Ok(Roots { tables, list: RawList::create(txn)?.root() })
            })
            .unwrap();
        let heap = HeapOptions { chunk_len: 4096, size: 8 * WORDS, ..HeapOptions::raw(4096) };
        HEAPS.iter().for_each(|name| drop(store.memory().create_heap(name, &heap).unwrap()));
        let states = vec![State { words: [(); 2].map(|()| vec![0; WORDS as usize]), ..State::default() }];
        let opened_at = disk.journal_len();
        World {
            random,
            chosen,
            disk,
            opened_at,
            store: Some(store),
            roots,
            states,
            durable: 0,
            branch: 0,
            backups: vec![],
            backed_up_at: 0,
            past: VecDeque::new(),
            is_faulty: false,
            counts: Counts::default(),
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
                    let heap = self.store().memory().heap(HEAPS[number])?;
                    txn.heap(|tx| tx.write(&heap, 8 * word, self.random.below(1 << 40)))?;
                    let written = txn.heap(|tx| tx.read(&heap, 8 * word))?;
                    state.words[number][word as usize] = written;
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
        if self.random.below(4) == 0 && self.state().branches.is_empty() {
            self.past.push_back((self.store().log().current_lsn(), self.state().clone()));
            self.past.drain(..self.past.len().saturating_sub(20));
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
        self.backed_up_at = self.disk.journal_len();
        let restored = SimDisk::new();
        restore(chain(&self.backups)?.media(), None, &media(&restored), RestoreTarget::Newest).expect("E18.19");
        let store = open(&restored, options(self.chosen, None, &mut self.random));
        let found = read(&store, self.roots).expect("E18.1");
        assert!(is_of(&found, self.state()), "E18.1: {} backups", self.backups.len());
        check_all(&store);
        Ok(())
    }

    /// Reads a state of the past, in a view that the backup and the archive of the store make.
    fn view(&mut self) -> Result<()> {
        if !self.chosen.has_archive || self.backups.is_empty() || self.past.is_empty() {
            return Ok(());
        }
        let up_to = self.store().extend_archive()?;
        let backed_up = Log::look(&media(&self.backups[0]))?.end_lsn();
        let (at, state) = self.past[self.random.below(self.past.len() as u64) as usize].clone();
        if at < backed_up || at > up_to {
            return Ok(());
        }
        let view = View {
            backup: media(&self.backups[0]),
            archive: Some(archive_of(&self.disk)),
            moment: RestoreTarget::Lsn(at),
            scratch: media(&SimDisk::new()),
        };
        let options = options(self.chosen, None, &mut self.random);
        match open_as_of(&view, options, Registry::new().with(register)) {
            // After a crash the backup may be of another history.
            Err(OpenError::Failed(cedrat_txn::Error::Log(LogError::Foreign { .. }))) => self.backups.clear(),
            opened => {
                let (view, _) = opened.map_err(|error| match error {
                    OpenError::Failed(error) => error,
                    other => panic!("E18.22: {other}"),
                })?;
                let found = read(&view, self.roots).expect("E18.22");
                assert!(is_of(&found, &state), "E18.22: {at}: {}", difference(&found, &state));
                self.counts.views += 1;
            }
        }
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
        self.counts.crashes_of_redo += u64::from(self.store().recovery().pending_pages > 0);
        let journal = self.disk.journal();
        let len = journal.len();
        let at = match self.random.below(3) {
            0 => self.opened_at + self.random.below((len - self.opened_at + 1) as u64) as usize,
            1 => len - self.random.below((len - self.opened_at).min(30) as u64 + 1) as usize,
            _ => len,
        };
        if at < self.backed_up_at {
            self.backups.clear(); // what they have was durable, and is not after this crash
        }
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
        let crashed = self.disk.journal().crash(self.disk.journal_len(), Loss::Everything);
        self.reopen(crashed, self.durable);
    }

    /// Opens the store, which has one of the states since the one acknowledged.
    fn reopen(&mut self, disk: SimDisk, acknowledged: usize) {
        delay_redo(&disk, [0, 100, 500, 2000][self.random.below(4) as usize]);
        if self.random.below(4) == 0 {
            self.open_damaged(&disk, acknowledged);
        }
        if self.chosen.has_archive && self.random.below(3) == 0 {
            let (page, bit) = (2 + self.random.below(60), self.random.below(8) as u8);
            // An error: the page is behind the end of the file.
            let _ = disk.corrupt(PAGE_FILE, page * PAGE_LEN as u64 + 100, Damage::Flip { bit });
        }
        let options = options(self.chosen, Some(&disk), &mut self.random);
        let store = open(&disk, options);
        self.counts.was_pending += u64::from(store.recovery().pending_pages > 0);
        self.past.retain(|&(lsn, _)| lsn < store.recovery().end);
        self.is_faulty = false;
        (self.opened_at, self.backed_up_at) = (disk.journal_len(), 0);
        (self.disk, self.store) = (disk, Some(store));
        if self.random.below(3) == 0 {
            // Another crash right after the opening: it is compared later.
            self.states.drain(..acknowledged.min(self.states.len() - 1));
            self.durable = 0;
            self.counts.crashes_of_redo += u64::from(self.store().recovery().pending_pages > 0);
            let again = match self.random.below(3) {
                0 => self.disk.journal().crash(self.opened_at, Loss::Everything),
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

    /// Opens a copy of the disk with a damaged page or a damaged record. An error names the file, and when the damage is repaired
    /// nothing is lost, whatever was done before.
    fn open_damaged(&mut self, disk: &SimDisk, acknowledged: usize) {
        let copy = SimDisk::from_image(disk.image());
        let found = Log::look(&media(&copy)).expect("it is sound");
        let whole = found.end_lsn();
        let in_pages = (PAGE_FILE.to_owned(), self.random.below(40 * PAGE_LEN as u64));
        let in_log = if self.random.below(2) == 0 { self.place_of_record(&found) } else { None };
        let ((file, at), bit) = (in_log.unwrap_or(in_pages), self.random.below(8) as u8);
        drop(found);
        if copy.corrupt(&file, at, Damage::Flip { bit }).is_err() {
            return; // there is no such place
        }
        // A damaged end of the log looks as after a crash.
        if Log::look(&media(&copy)).is_ok_and(|found| found.end_lsn() < whole) {
            return;
        }
        self.counts.damaged += 1;
        let harmed = page_around(&copy, &file, at);
        let options = options(self.chosen, Some(&copy), &mut self.random);
        let candidates = self.states[acknowledged..].to_vec();
        let is_candidate = |found: &State| candidates.iter().any(|state| is_of(found, state));
        match Store::open(media(&copy), options, Registry::new().with(register)) {
            Err(error) => {
                assert!(error.to_string().contains(&file), "R2a: {file} at {at}: {error}");
                self.counts.refused += 1;
            }
            Ok(store) => {
                match store.complete_recovery().and_then(|()| read(&store, self.roots)) {
                    Ok(found) => assert!(is_candidate(&found), "R2a: {file} at {at}"),
                    Err(error) => {
                        assert!(error.to_string().contains(&file), "R2a: {file} at {at}: {error}");
                        self.counts.refused += 1;
                    }
                }
                let len = copy.journal_len();
                let crashed = copy.journal().crash(len, Loss::Random(self.random.below(1 << 40)));
                self.repaired(&crashed, (&file, at, bit), &harmed, &candidates);
            }
        }
        let crashed = copy.journal().crash(copy.journal_len(), Loss::Everything);
        self.repaired(&crashed, (&file, at, bit), &harmed, &candidates);
    }

    /// Returns the place of a byte of a record that analysis reads, if there is one.
    fn place_of_record(&mut self, found: &Found) -> Option<(String, u64)> {
        let mut scan = found.scan(found.control().checkpoint.scan_lsn).expect("it is sound");
        let mut places = Vec::new();
        while let Some(scanned) = scan.next().expect("it is sound") {
            places.push(found.place(scanned.record.position));
        }
        let number = (self.random.below(1 << 20) as usize).checked_rem(places.len())?;
        let (file, at) = places.swap_remove(number);
        Some((file, at + self.random.below(12)))
    }

    /// Repairs a damaged byte, unless its page was written since, and opens the store.
    fn repaired(&mut self, disk: &SimDisk, (file, at, bit): (&str, u64, u8), harmed: &[u8], candidates: &[State]) {
        if page_around(disk, file, at) == harmed {
            disk.corrupt(file, at, Damage::Flip { bit }).expect("it is there");
        }
        let store = open(disk, options(self.chosen, Some(disk), &mut self.random));
        let found = read(&store, self.roots).expect("R2a");
        let is_candidate = candidates.iter().any(|state| is_of(&found, state));
        assert!(is_candidate, "R2a: {file} at {at}: {}", difference(&found, &candidates[0]));
        store.complete_recovery().expect("R2a");
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
            29..31 => self.store().checkpoint(),
            31..33 => self.back_up(),
            33..35 => self.view(),
            35 => self.compare(),
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

/// Returns the page of a file that has a byte.
fn page_around(disk: &SimDisk, file: &str, at: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE_LEN];
    let open = disk.open(file, OpenMode::Read).expect("it is there");
    disk.read_at(open, at - at % PAGE_LEN as u64, &mut page).expect("it is there");
    page
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
    let mut sums = Counts::default();
    for seed in from..from + number("CEDRAT_REDO_SEEDS").unwrap_or(12) {
        if number("CEDRAT_REDO_SEEDS").is_some() {
            eprintln!("seed {seed}");
        }
        let mut world = World::new(seed);
        (0..120).for_each(|_| world.step());
        if !world.is_faulty {
            world.compare().expect("R8");
        }
        let counts = world.counts;
        sums.was_pending += counts.was_pending;
        sums.crashes_of_redo += counts.crashes_of_redo;
        sums.views += counts.views;
        sums.damaged += counts.damaged;
        sums.refused += counts.refused;
    }
    // A view needs a backup, and a state since: few seeds have both.
    let each = [sums.was_pending, sums.crashes_of_redo, sums.damaged, sums.refused];
    assert!(each.iter().all(|&count| count > 5), "{sums:?}");
}
