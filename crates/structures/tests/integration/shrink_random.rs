//! Random histories of a hash table that grows and shrinks by turns: open transactions, savepoints, prepared branches, walks, full
//! disks, checkpoints with merges, and crashes within those, against a model.

use std::collections::{BTreeMap, BTreeSet};

use cedrat_media::{Loss, SimDisk};
use cedrat_pages::PageId;
use cedrat_structures::RawHashTable;
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, thread};
use cedrat_txn::{Commit, Error, NoLocks, Options, Result, Savepoint, Store, Txn, Vote};

use crate::common::{Random, check_all, open_with, seeds};

/// Number of transactions that may be open at once, each with keys of its own.
const SLOTS: u64 = 4;

impl Random {
    /// Returns the length and the filling of a value.
    fn value(&mut self) -> Value {
        let len = match self.below(40) {
            0 => 3700,
            1..4 => 900 + self.below(900),
            4..30 => 150 + self.below(60),
            _ => self.below(30),
        };
        (len as u16, self.below(256) as u8)
    }
}

type Value = (u16, u8);
type Model = BTreeMap<u64, Value>;
/// The changes of a transaction.
type Changes = BTreeMap<u64, Option<Value>>;

fn bytes((len, fill): Value) -> Vec<u8> {
    vec![fill; usize::from(len)]
}

fn apply(model: &mut Model, changes: &Changes) {
    for (&key, value) in changes {
        match value {
            Some(value) => drop(model.insert(key, *value)),
            None => drop(model.remove(&key)),
        }
    }
}

/// The transaction of a slot.
enum Slot {
    Free,
    Open { txn: Box<Txn>, changes: Changes, savepoints: Vec<(Savepoint, Changes)> },
    Branch { id: u64, changes: Changes },
}

impl Slot {
    fn changes(&self) -> Option<&Changes> {
        match self {
            Slot::Free => None,
            Slot::Open { changes, .. } | Slot::Branch { changes, .. } => Some(changes),
        }
    }
}

/// The parameters of a history.
#[derive(Clone, Copy)]
struct Shape {
    seed: u64,
    partitions: u16,
    pool_bytes: u64,
    keys: u64,
    checkpoint_when_opened: bool,
}

impl Shape {
    fn options(self) -> Options {
        Options {
            locks: Arc::new(NoLocks),
            partitions: self.partitions,
            pool_bytes: self.pool_bytes,
            log_limit_bytes: 48 << 20,
            checkpoint_when_opened: self.checkpoint_when_opened,
            redo_on_demand_bytes: if self.checkpoint_when_opened { u64::MAX } else { 0 },
            ..Options::simulated()
        }
    }
}

struct World {
    shape: Shape,
    random: Random,
    disk: Arc<SimDisk>,
    store: Option<Store>,
    root: PageId,
    /// The pages in use without the table's.
    other_pages: u64,
    /// The states after each commit from the last durable one on.
    committed: Vec<Model>,
    slots: Vec<Slot>,
    branches: u64,
    grows: bool,
    is_full: bool,
    merged: u64,
}

fn table_in(store: &Store, root: PageId) -> RawHashTable {
    RawHashTable::open(store, root).unwrap()
}

fn content(store: &Store, root: PageId) -> Model {
    let mut txn = store.begin();
    let mut model = Model::new();
    for pair in table_in(store, root).iter(&mut txn).unwrap() {
        let (key, value) = pair.unwrap();
        let fill = value.first().copied().unwrap_or(0);
        assert!(value.iter().all(|&byte| byte == fill));
        let key = u64::from_le_bytes(key[..].try_into().unwrap());
        let before = model.insert(key, (value.len() as u16, fill));
        assert_eq!(before, None, "S10b: key {key} twice");
    }
    txn.rollback().unwrap();
    model
}

/// As the table has it: the filling of an empty value is not stored.
fn stored(mut model: Model) -> Model {
    model.values_mut().filter(|value| value.0 == 0).for_each(|value| value.1 = 0);
    model
}

fn lacks_space(error: &Error) -> bool {
    matches!(error, Error::LogFull { .. } | Error::Pages(_) | Error::PinsLog { .. })
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let shape = Shape {
            seed,
            partitions: 1 + random.below(3) as u16,
            pool_bytes: [128 << 10, 512 << 10, 2 << 20][random.below(3) as usize],
            keys: [100, 400, 1200][random.below(3) as usize],
            checkpoint_when_opened: random.one_in(2),
        };
        let disk = Arc::new(SimDisk::new());
        let store = open_with(&disk, shape.options());
        check_all(&store); // creates the catalogue
        let table = store.transact(RawHashTable::create).unwrap();
        let (other_pages, root) = (store.check().unwrap().pages_allocated - 2, table.root());
        World {
            shape,
            random,
            disk,
            store: Some(store),
            root,
            other_pages,
            committed: vec![Model::new()],
            slots: (0..SLOTS).map(|_| Slot::Free).collect(),
            branches: 0,
            grows: true,
            is_full: false,
            merged: 0,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    /// Returns what the table has now, with the changes of the open transactions.
    fn now(&self) -> Model {
        let mut model = self.committed.last().expect("there is one").clone();
        self.slots.iter().filter_map(Slot::changes).for_each(|changes| apply(&mut model, changes));
        stored(model)
    }

    /// Changes some keys of a slot. An error is one of space.
    fn change(&mut self, txn: &mut Txn, slot: u64, changes: &mut Changes) -> Result<()> {
        let table = table_in(self.store(), self.root);
        let keys = self.shape.keys;
        let removes_one_in = if self.grows { 5 } else { 1 };
        let first = self.random.below(keys);
        let most = [4, 40, keys / 2][self.random.below(3) as usize];
        let count = 1 + self.random.below(most);
        let removes = self.random.one_in(removes_one_in) || !self.grows && !self.random.one_in(6);
        for n in 0..count {
            let key = ((first + n) % keys) * SLOTS + slot;
            if removes {
                if table.remove(txn, &key.to_le_bytes())? {
                    changes.insert(key, None);
                }
            } else {
                let value = self.random.value();
                table.put(txn, &key.to_le_bytes(), &bytes(value))?;
                changes.insert(key, Some(value));
            }
        }
        Ok(())
    }

    /// Begins a transaction in a slot, goes on with the one there, or ends it.
    fn step_of_slot(&mut self) {
        let n = self.random.below(SLOTS);
        match std::mem::replace(&mut self.slots[n as usize], Slot::Free) {
            Slot::Free => {
                let txn = self.store().begin();
                self.go_on(n, txn, Changes::new(), Vec::new());
            }
            Slot::Open { txn, changes, savepoints } => match self.random.below(10) {
                0..4 => self.go_on(n, *txn, changes, savepoints),
                4 => txn.rollback().expect("E16.1: a rollback cannot fail"),
                5 => self.prepare(n, *txn, changes),
                _ => self.commit(*txn, &changes),
            },
            Slot::Branch { id, changes } if self.random.one_in(4) => self.decide(id, &changes),
            branch => self.slots[n as usize] = branch,
        }
    }

    fn go_on(&mut self, n: u64, mut txn: Txn, mut changes: Changes, mut savepoints: Vec<(Savepoint, Changes)>) {
        if self.random.one_in(3) {
            savepoints.push((txn.savepoint(), changes.clone()));
        }
        if let Err(error) = self.change(&mut txn, n, &mut changes) {
            assert!(self.is_full && lacks_space(&error), "seed {}: {error}", self.shape.seed);
            return txn.rollback().expect("E16.1: a rollback cannot fail");
        }
        if !savepoints.is_empty() && self.random.one_in(3) {
            let at = self.random.below(savepoints.len() as u64) as usize;
            savepoints.truncate(at + 1);
            let (savepoint, before) = savepoints.pop().expect("there is one");
            txn.rollback_to(savepoint).expect("E16.1: a rollback cannot fail");
            changes = before;
        }
        self.slots[n as usize] = Slot::Open { txn: Box::new(txn), changes, savepoints };
    }

    fn commit(&mut self, txn: Txn, changes: &Changes) {
        let is_sync = self.random.one_in(3);
        txn.commit(if is_sync { Commit::Sync } else { Commit::NoFlush }).unwrap();
        self.committed(changes, is_sync);
    }

    fn committed(&mut self, changes: &Changes, is_durable: bool) {
        let mut model = self.committed.last().expect("there is one").clone();
        apply(&mut model, changes);
        self.committed.push(model);
        if is_durable {
            self.all_durable();
        }
    }

    fn all_durable(&mut self) {
        self.committed.drain(..self.committed.len() - 1);
    }

    fn prepare(&mut self, n: u64, txn: Txn, changes: Changes) {
        self.branches += 1;
        let id = self.branches * SLOTS + n;
        match txn.prepare(&id.to_le_bytes()) {
            Ok(Vote::Prepared(prepared)) => {
                drop(prepared);
                self.all_durable();
                self.slots[n as usize] = Slot::Branch { id, changes };
            }
            Ok(Vote::ReadOnly) => assert!(changes.is_empty()),
            Err(error) => assert!(self.is_full && lacks_space(&error), "seed {}: {error}", self.shape.seed),
        }
    }

    fn decide(&mut self, id: u64, changes: &Changes) {
        let prepared = self.store().prepared(&id.to_le_bytes()).unwrap();
        if self.random.one_in(2) {
            prepared.commit(Commit::Sync).unwrap();
            self.committed(changes, true);
        } else {
            prepared.rollback().expect("E16.1: a rollback cannot fail");
            self.store().log().force(self.store().log().current_lsn()).unwrap();
            self.all_durable();
        }
    }

    /// Takes a checkpoint, and looks at crashes within it.
    fn checkpoint(&mut self) {
        let (begun, pages) = (self.disk.journal_len(), self.store().check().unwrap().pages_allocated);
        let taken = self.store().checkpoint();
        assert!(taken.is_ok() || self.is_full, "seed {}: {taken:?}", self.shape.seed);
        let end = self.disk.journal_len();
        let has_merged = self.store().check().unwrap().pages_allocated < pages;
        self.merged += u64::from(has_merged);
        for _ in 0..if has_merged { 4 } else { 1 } {
            let at = begun + self.random.below((end - begun + 1) as u64) as usize;
            let disk = Arc::new(self.disk.journal().crash(at, Loss::Random(self.random.below(1 << 40))));
            let store = open_with(&disk, self.shape.options());
            self.judge(&store, &format!("crash at {at} of {begun}..{end}"));
        }
        if taken.is_ok() {
            self.all_durable();
        }
    }

    /// Compares a store after a crash with the states that it may have, and returns the one that it has.
    fn judge(&self, store: &Store, case: &str) -> usize {
        let case = format!("seed {}: {case}", self.shape.seed);
        let found = content(store, self.root);
        let in_doubt: BTreeSet<u64> = store
            .in_doubt()
            .unwrap()
            .iter()
            .map(|branch| u64::from_le_bytes(branch.id[..].try_into().unwrap()))
            .collect();
        let fits = |model: &Model| {
            let mut model = model.clone();
            for slot in &self.slots {
                if let Slot::Branch { id, changes } = slot {
                    assert!(in_doubt.contains(id), "{case}: branch {id} is lost");
                    apply(&mut model, changes);
                }
            }
            stored(model) == found
        };
        let Some(at) = self.committed.iter().position(fits) else {
            let mut model = self.committed.last().unwrap().clone();
            self.slots.iter().for_each(|slot| {
                if let Slot::Branch { changes, .. } = slot {
                    apply(&mut model, changes)
                }
            });
            let model = stored(model);
            let lost: Vec<_> = model.iter().filter(|(key, value)| found.get(key) != Some(value)).take(20).collect();
            let more: Vec<_> = found.iter().filter(|(key, value)| model.get(key) != Some(value)).take(20).collect();
            panic!("{case}: of {} states none; missing {lost:?}, more {more:?}", self.committed.len());
        };
        if in_doubt.is_empty() {
            self.check_pages(store, &case);
        } else {
            let checked = table_in(store, self.root).check(&store.begin()).unwrap();
            assert!(checked.is_sound(), "{case}: {:?}", checked.problems);
        }
        at
    }

    /// Checks that the table is sound, and that no page is lost.
    fn check_pages(&self, store: &Store, case: &str) {
        let checked = table_in(store, self.root).check(&store.begin()).unwrap();
        assert!(checked.is_sound(), "{case}: {:?}", checked.problems);
        let pages: BTreeSet<_> = checked.pages.iter().collect();
        assert_eq!(pages.len(), checked.pages.len(), "{case}: a page twice");
        let allocated = store.check().unwrap().pages_allocated;
        assert_eq!(allocated, self.other_pages + pages.len() as u64, "{case}: pages");
        check_all(store);
    }

    fn reopen(&mut self) {
        self.free_disk();
        let is_closed = self.random.one_in(4);
        for slot in &mut self.slots {
            if let Slot::Open { .. } = slot {
                *slot = Slot::Free;
            }
        }
        let store = self.store.take().expect("it is open");
        let loss = if is_closed {
            store.close().unwrap();
            self.all_durable();
            Loss::Everything
        } else {
            drop(store);
            Loss::Random(self.random.below(1 << 40))
        };
        self.disk = Arc::new(self.disk.journal().crash(self.disk.journal_len(), loss));
        let store = open_with(&self.disk, self.shape.options());
        if self.random.one_in(3) {
            store.checkpoint().unwrap();
        }
        let at = self.judge(&store, "reopened");
        self.committed = vec![self.committed.swap_remove(at)];
        self.store = Some(store);
    }

    /// Walks over the table while others change it: the entries that stay are returned once (S10b).
    fn walk(&mut self) {
        let before = self.now();
        let store = self.store().clone();
        let mut txn = store.begin();
        let table = table_in(&store, self.root);
        let mut touched = BTreeSet::<u64>::new();
        let mut seen = BTreeMap::new();
        let pauses = 1 + self.random.below(12);
        let every = 1 + before.len() as u64 / pauses;
        for (n, pair) in table.iter(&mut txn).unwrap().enumerate() {
            let (key, value) = pair.unwrap();
            let key = u64::from_le_bytes(key[..].try_into().unwrap());
            *seen.entry(key).or_insert(0) += 1;
            let is_known = before.get(&key).is_some_and(|&known| bytes(known) == value);
            assert!(is_known || touched.contains(&key), "seed {}: S10b: key {key}", self.shape.seed);
            if n as u64 % every == every - 1 {
                self.step_of_slot();
                if self.random.one_in(2) {
                    let _ = self.store().checkpoint();
                }
                let now = self.now();
                let changed = |key: &&u64| before.get(key) != now.get(key);
                touched.extend(before.keys().chain(now.keys()).filter(changed));
                self.slots.iter().filter_map(Slot::changes).for_each(|changes| touched.extend(changes.keys()));
            }
        }
        drop(txn);
        for key in before.keys().filter(|key| !touched.contains(key)) {
            assert_eq!(seen.get(key), Some(&1), "seed {}: S10b: key {key}", self.shape.seed);
        }
        assert!(seen.values().all(|&times| times == 1) || !touched.is_empty());
    }

    fn fill_disk(&mut self) {
        let left = self.random.below(64) * 4096;
        self.disk.set_capacity(Some(self.disk.space() + left));
        self.is_full = true;
    }

    fn free_disk(&mut self) {
        self.disk.set_capacity(None);
        if std::mem::take(&mut self.is_full) {
            self.store().checkpoint().unwrap();
            self.all_durable();
        }
    }

    fn step(&mut self) {
        match self.random.below(60) {
            0..40 => self.step_of_slot(),
            40..50 => self.checkpoint(),
            50..53 => self.walk(),
            53..55 => self.grows = !self.grows,
            55 => self.fill_disk(),
            56..58 => self.free_disk(),
            _ => self.reopen(),
        }
        if self.random.one_in(4) {
            assert_eq!(content(self.store(), self.root), self.now(), "seed {}", self.shape.seed);
        }
    }

    /// Ends all transactions, and removes all: every page comes back.
    fn end(&mut self) {
        self.free_disk();
        for n in 0..SLOTS as usize {
            match std::mem::replace(&mut self.slots[n], Slot::Free) {
                Slot::Free => {}
                Slot::Open { txn, .. } => txn.rollback().unwrap(),
                Slot::Branch { id, changes } => self.decide(id, &changes),
            }
        }
        let store = self.store().clone();
        assert_eq!(content(&store, self.root), self.now(), "seed {}", self.shape.seed);
        self.check_pages(&store, &format!("seed {}: at the end", self.shape.seed));
        let table = table_in(&store, self.root);
        let keys: Vec<u64> = self.now().into_keys().collect();
        store.transact(|txn| keys.iter().try_for_each(|key| table.remove(txn, &key.to_le_bytes()).map(drop))).unwrap();
        store.checkpoint().unwrap();
        let pages = table.check(&store.begin()).unwrap().pages.len();
        assert!(pages <= 2, "seed {}: {pages} pages of an empty table", self.shape.seed);
        self.check_pages(&store, &format!("seed {}: empty", self.shape.seed));
    }
}

/// However a table grows and shrinks, the store has what was committed, after crashes too, and each page once.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn shrinking_table_matches_model() {
    let mut merged = 0;
    for seed in seeds(6) {
        let mut world = World::new(seed);
        for _ in 0..120 {
            world.step();
        }
        world.end();
        merged += world.merged;
    }
    assert!(merged > 0, "buckets merge");
}

/// Number of keys that no thread changes, in the last slot.
const KEPT: u64 = 300;

fn kept_key(n: u64) -> [u8; 8] {
    (n * SLOTS + 3).to_le_bytes()
}

/// Writers that let the table grow and shrink by turns, readers, walks and explicit checkpoints beside the checkpointer.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn threads_find_entries_during_merges() {
    let options = || Options { locks: Arc::new(NoLocks), log_limit_bytes: 32 << 20, ..Options::simulated() };
    for seed in 0..2 {
        let disk = Arc::new(SimDisk::new());
        let partitions = 1 + 2 * seed as u16;
        let threads =
            Options { background: true, pool_bytes: 512 << 10, checkpoint_every_bytes: 64 << 10, ..options() };
        let store = open_with(&disk, Options { partitions, ..threads });
        let table = store.transact(RawHashTable::create).unwrap();
        let root = table.root();
        let put = |n: u64, txn: &mut Txn| table.put(txn, &kept_key(n), &[3; 200]).map(drop);
        store.transact(|txn| (0..KEPT).try_for_each(|n| put(n, txn))).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let others: Vec<_> = (0..4)
            .map(|kind| {
                let (store, is_over) = (store.clone(), Arc::clone(&is_over));
                thread::spawn(move || {
                    let mut random = Random::new(seed * 7 + kind);
                    while !is_over.load(Ordering::Relaxed) {
                        disturb(&store, root, kind, &mut random);
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..3)
            .map(|slot| {
                let store = store.clone();
                thread::spawn(move || write_by_turns(&store, root, slot, seed))
            })
            .collect();
        let mut model = Model::new();
        writers.into_iter().for_each(|writer| model.extend(writer.join().expect("no writer panics")));
        is_over.store(true, Ordering::Relaxed);
        others.into_iter().for_each(|other| other.join().expect("no thread panics"));
        model.extend((0..KEPT).map(|n| (n * SLOTS + 3, (200, 3))));
        assert_eq!(content(&store, root), stored(model.clone()), "seed {seed}");
        let has_each_page_once = || {
            let checked = table.check(&store.begin()).unwrap();
            checked.expect_sound();
            store.check().unwrap().pages_allocated == 2 + checked.pages.len() as u64
        };
        // The checkpointer may still merge buckets between both.
        assert!((0..100).any(|_| has_each_page_once()), "seed {seed}: pages");
        store.log().force(store.log().current_lsn()).unwrap();
        let crashed = Arc::new(disk.cut_power(Loss::Everything));
        drop((store, table));
        let store = open_with(&crashed, options());
        assert_eq!(content(&store, root), stored(model), "seed {seed}");
        check_all(&store);
    }
}

/// Looks up a key, walks over the table, takes a checkpoint, or creates and drops another table.
fn disturb(store: &Store, root: PageId, kind: u64, random: &mut Random) {
    match kind {
        0 => {
            let key = kept_key(random.below(KEPT));
            let got = table_in(store, root).get(&mut store.begin(), &key).unwrap();
            assert_eq!(got.as_deref(), Some(&[3; 200][..]), "S10: key {key:?}");
        }
        1 => {
            let mut txn = store.begin();
            let pairs = table_in(store, root).iter(&mut txn).unwrap().map(Result::unwrap);
            let seen = pairs.filter(|(key, _)| u64::from(key[0]) % SLOTS == 3).count();
            assert_eq!(seen as u64, KEPT, "S10b");
        }
        2 => store.checkpoint().unwrap(),
        _ => create_and_drop(store),
    }
}

fn create_and_drop(store: &Store) {
    let table = store
        .transact(|txn| {
            let table = RawHashTable::create(txn)?;
            (0..100_u64).try_for_each(|n| table.put(txn, &n.to_le_bytes(), &[9; 300]).map(drop))?;
            Ok(table)
        })
        .unwrap();
    store.transact(|txn| (0..90_u64).try_for_each(|n| table.remove(txn, &n.to_le_bytes()).map(drop))).unwrap();
    store.transact(|txn| table.clone().drop(txn)).unwrap();
}

/// Fills and empties the keys of a slot by turns. Returns what is there at the end.
fn write_by_turns(store: &Store, root: PageId, slot: u64, seed: u64) -> Model {
    const KEYS: u64 = 700;
    let mut random = Random::new(seed * 31 + slot);
    let mut model = Model::new();
    for turn in 0..4 {
        let grows = turn % 2 == 0;
        for _ in 0..25 {
            let mut changes = Changes::new();
            let mut txn = store.begin();
            let table = table_in(store, root);
            let savepoint = txn.savepoint();
            for pass in 0..2 {
                let first = random.below(KEYS);
                for n in first..first + random.below(50) {
                    let key = (n % KEYS) * SLOTS + slot;
                    if grows {
                        let value = random.value();
                        table.put(&mut txn, &key.to_le_bytes(), &bytes(value)).unwrap();
                        changes.insert(key, Some(value));
                    } else {
                        table.remove(&mut txn, &key.to_le_bytes()).unwrap();
                        changes.insert(key, None);
                    }
                }
                if pass == 0 && random.one_in(6) {
                    txn.rollback_to(savepoint).unwrap();
                    changes.clear();
                }
            }
            if random.one_in(6) {
                txn.rollback().unwrap();
            } else {
                txn.commit(if random.one_in(4) { Commit::Sync } else { Commit::NoFlush }).unwrap();
                apply(&mut model, &changes);
            }
        }
    }
    model
}
