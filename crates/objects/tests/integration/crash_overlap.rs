//! Transactions whose changes overlap in time, on a few objects: each changes parts of an object, with changes of others in between,
//! returns to savepoints, is prepared and carried forward, or is rolled back while a checkpoint writes pages. After many steps the
//! power fails, in a copy of the disk.
#![cfg(not(cedrat_shuttle))] // threads: threads.rs

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use cedrat_check::{Rng, seed};
use cedrat_media::{Call, Loss, SimDisk};
use cedrat_objects::{ObjectId, Objects, Options, UndoPolicy};
use cedrat_sync::Arc;
use cedrat_txn::{Commit, Registry, Savepoint, Store, Txn, Vote};

const KIND: &str = "test.filling";
const STEPS: u64 = 60;
/// Bytes of a part of an object.
const PART: usize = 4;

type State = BTreeMap<ObjectId, Vec<u8>>;
/// Objects as a transaction has left them.
type Changes = BTreeMap<ObjectId, Option<Vec<u8>>>;

struct Running {
    txn: Txn,
    changes: Changes,
    locked: BTreeSet<ObjectId>,
    savepoints: Vec<(Savepoint, Changes)>,
}

struct InDoubt {
    id: Vec<u8>,
    changes: Changes,
    locked: BTreeSet<ObjectId>,
}

fn open(disk: &SimDisk, undo: UndoPolicy) -> (Store, Objects) {
    let options = cedrat_txn::Options { carry_forward_bytes: Some(1), ..cedrat_txn::Options::simulated() };
    let registry = Registry::new().with(cedrat_structures::register).with(cedrat_objects::register).record_kind(KIND);
    let store = Store::open(Arc::new(disk.clone()), options, registry).expect("E19.4: the store opens");
    let options = Options { undo, ..Options::default() };
    let objects = Objects::open_or_create(&store, "objects", options).expect("it is there, or is created");
    (store, objects)
}

fn apply(state: &mut State, changes: Changes) {
    for (id, bytes) in changes {
        match bytes {
            Some(bytes) => drop(state.insert(id, bytes)),
            None => drop(state.remove(&id)),
        }
    }
}

struct Overlap {
    undo: UndoPolicy,
    disk: SimDisk,
    store: Store,
    objects: Objects,
    committed: State,
    running: Vec<Running>,
    in_doubt: Vec<InDoubt>,
    branches: u64,
    chance: Rng,
}

impl Overlap {
    fn of(undo: UndoPolicy, chance: Rng) -> Overlap {
        let disk = SimDisk::new();
        let (store, objects) = open(&disk, undo);
        let insert = |part| {
            let bytes = vec![part; 3 * PART];
            (store.transact(|txn| objects.insert(txn, &bytes)).expect("there is space"), bytes)
        };
        let committed = (0..5).map(insert).collect();
        let (running, in_doubt) = (Vec::new(), Vec::new());
        Overlap { undo, disk, store, objects, committed, running, in_doubt, branches: 0, chance }
    }

    fn begin(&mut self) {
        let txn = self.store.begin();
        self.running.push(Running { txn, changes: Changes::new(), locked: BTreeSet::new(), savepoints: Vec::new() });
    }

    fn take_running(&mut self) -> Running {
        if self.running.is_empty() {
            self.begin();
        }
        let at = self.chance.index(self.running.len());
        self.running.swap_remove(at)
    }

    /// Chooses an object that no other transaction has locked.
    fn any_object(&mut self, running: &Running) -> Option<(ObjectId, Vec<u8>)> {
        let of_running = self.running.iter().map(|other| &other.locked);
        let others: Vec<_> = of_running.chain(self.in_doubt.iter().map(|branch| &branch.locked)).collect();
        let mut seen = self.committed.clone();
        apply(&mut seen, running.changes.clone());
        seen.retain(|id, _| !others.iter().any(|locked| locked.contains(id)));
        let (mine, free): (Vec<_>, Vec<_>) = seen.into_iter().partition(|(id, _)| running.locked.contains(id));
        let choices = if mine.is_empty() || self.chance.one_in(3) { free } else { mine };
        (!choices.is_empty()).then(|| self.chance.pick(&choices).clone())
    }

    fn change(&mut self, running: &mut Running) {
        let kind = self.chance.below(10);
        match kind {
            0 | 1 if self.committed.len() < 8 => {
                let bytes = self.chance.bytes(3 * PART);
                let id = self.objects.insert(&mut running.txn, &bytes).expect("there is space");
                running.locked.insert(id);
                running.changes.insert(id, Some(bytes));
            }
            2 => running.savepoints.push((running.txn.savepoint(), running.changes.clone())),
            3 | 4 if !running.savepoints.is_empty() => {
                let (savepoint, changes) = running.savepoints.pop().expect("there is one");
                running.txn.rollback_to(savepoint).expect("the log runs");
                running.changes = changes;
            }
            _ => {
                let Some((id, mut bytes)) = self.any_object(running) else { return };
                running.locked.insert(id);
                if kind == 5 || !self.committed.contains_key(&id) && self.chance.one_in(2) {
                    self.objects.remove(&mut running.txn, id).expect("it is there");
                    running.changes.insert(id, None);
                } else {
                    let part = self.chance.index(3) * PART;
                    bytes[part..part + PART].copy_from_slice(&self.chance.bytes(PART));
                    self.objects.put(&mut running.txn, id, &bytes).expect("there is space");
                    running.changes.insert(id, Some(bytes));
                }
            }
        }
    }

    fn changes(&mut self) {
        let mut running = self.take_running();
        (0..1 + self.chance.below(2)).for_each(|_| self.change(&mut running));
        self.running.push(running);
    }

    /// Commits a change of an object, as a transaction of its own between the changes of others.
    fn commit_one(&mut self) {
        self.begin();
        let mut running = self.running.pop().expect("it has begun");
        self.change(&mut running);
        running.txn.commit(Commit::Sync).expect("the log runs");
        apply(&mut self.committed, running.changes);
    }

    fn end(&mut self) {
        let Running { txn, changes, locked, .. } = self.take_running();
        match self.chance.below(4) {
            0 => txn.rollback().expect("the log runs"),
            1 => {
                txn.commit(Commit::Sync).expect("the log runs");
                apply(&mut self.committed, changes);
            }
            _ => {
                self.branches += 1;
                let id = self.branches.to_le_bytes().to_vec();
                if let Vote::Prepared(_) = txn.prepare(&id).expect("there is space") {
                    self.in_doubt.push(InDoubt { id, changes, locked });
                    self.fill_log();
                }
            }
        }
    }

    fn end_branch(&mut self) {
        let at = self.chance.index(self.in_doubt.len());
        let InDoubt { id, changes, .. } = self.in_doubt.swap_remove(at);
        let branch = self.store.prepared(&id).expect("it is in doubt");
        if self.chance.one_in(2) {
            branch.rollback().expect("E9.1: a branch can roll back");
        } else {
            branch.commit(Commit::Sync).expect("E9.1: a branch can commit");
            apply(&mut self.committed, changes);
        }
    }

    /// Writes enough log for branches to be carried forward by the next checkpoint.
    fn fill_log(&self) {
        let fill = |txn: &mut Txn| (0..3).try_for_each(|_| txn.log_record(KIND, &[1; 3000]).map(drop));
        self.store.transact(fill).expect("there is space");
    }

    /// Takes a checkpoint. In half of the cases another thread rolls a transaction back when the checkpoint writes its
    /// first page.
    fn checkpoint(&mut self) {
        let victim = self.chance.one_in(2).then(|| self.take_running());
        let victim = Arc::new(Mutex::new(victim));
        let of_hook = Arc::clone(&victim);
        self.disk.before_each_call(move |_, call, file| {
            if (call, file) != (Call::Write, "pages") {
                return;
            }
            let Some(running) = of_hook.lock().expect("no panic").take() else { return };
            let rolls_back = || running.txn.rollback().expect("the log runs");
            std::thread::spawn(rolls_back).join().expect("no panic");
        });
        self.store.checkpoint().expect("the disk works");
        self.disk.before_each_call(|_, _, _| {});
        self.running.extend(victim.lock().expect("no panic").take());
    }

    fn step(&mut self) {
        match self.chance.below(15) {
            0 if self.running.len() < 4 => self.begin(),
            0..=5 => self.changes(),
            6..=8 => self.commit_one(),
            9 | 10 if self.in_doubt.len() < 3 => self.end(),
            11 if !self.in_doubt.is_empty() => {
                self.end_branch();
                self.survives_crash();
            }
            12 => self.fill_log(),
            _ => {
                self.checkpoint();
                self.survives_crash();
            }
        }
    }

    /// Cuts the power in a copy of the disk, ends the branches there, and compares all objects, twice.
    fn survives_crash(&mut self) {
        let (journal, loss) = (self.disk.journal(), Loss::Random(self.chance.next_u64()));
        let mut disk = journal.crash(journal.len(), if self.chance.one_in(2) { Loss::Everything } else { loss });
        let mut expected = self.committed.clone();
        for is_first in [true, false] {
            let (store, objects) = open(&disk, self.undo);
            let in_doubt: BTreeSet<Vec<u8>> = store.in_doubt().unwrap().into_iter().map(|branch| branch.id).collect();
            let known = self.in_doubt.iter().filter(|_| is_first).map(|branch| branch.id.clone()).collect();
            assert_eq!(in_doubt, known, "E9.1");
            for branch in self.in_doubt.iter().filter(|_| is_first) {
                let prepared = store.prepared(&branch.id).expect("it is in doubt");
                if self.chance.one_in(2) {
                    prepared.rollback().expect("E9.1: a branch can roll back");
                } else {
                    prepared.commit(Commit::Sync).expect("E9.1: a branch can commit");
                    apply(&mut expected, branch.changes.clone());
                }
            }
            let mut txn = store.begin();
            let ids = objects.ids(&mut txn).expect("its pages can be read");
            let read = |id| (id, objects.read(&mut txn, id, <[u8]>::to_vec).expect("it is listed"));
            let found: State = ids.into_iter().map(read).collect();
            assert_eq!(found, expected, "E9.13, E19.4: first opening: {is_first}");
            drop(txn);
            disk = disk.cut_power(Loss::Everything);
        }
    }
}

fn overlapping(undo: UndoPolicy, cases: u64) {
    let chance = Rng::new(seed(4));
    for case in 0..cases {
        println!("case {case} of {undo:?}");
        let mut overlap = Overlap::of(undo, chance.part(case));
        for _ in 0..STEPS {
            overlap.step();
            if overlap.chance.one_in(12) {
                overlap.survives_crash();
            }
        }
    }
}

#[test]
fn overlapping_uncounted_changes_survive_crashes() {
    overlapping(UndoPolicy::CommittedOnly, 100);
}

#[test]
fn overlapping_inverses_survive_crashes() {
    overlapping(UndoPolicy::Inverses, 100);
}
