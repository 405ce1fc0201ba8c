//! Collections of objects under crashes, with each undo policy: objects that grow, move and are removed, caches that are too
//! small, sweeps.
#![cfg(not(cedrat_shuttle))] // threads: threads.rs

use std::collections::BTreeMap;

use cedrat_check as check;
use cedrat_check::{Outcome, Rng, Run, Scenario};
use cedrat_objects::{ObjectDelta, ObjectError, ObjectId, Objects, UndoPolicy, register_delta};
use cedrat_sync::Arc;
use cedrat_txn::{Commit, Error, NoLocks, Options, Refused, Registry, Store, Txn, TxnOptions};
use serde::{Deserialize, Serialize};

use crate::common::read_all;

const NAME: &str = "warehouse";

/// Length of the number at the beginning of an object; it never changes.
const NUMBER_LEN: usize = 8;

/// Changes all bytes of an object but its number. Repeated or reordered, it has another result.
#[derive(Debug, Serialize, Deserialize)]
struct Stir {
    by: u8,
}

impl ObjectDelta for Stir {
    const NAME: &'static str = "test.stir";

    fn apply(&self, object: &mut [u8]) -> Result<(), Refused> {
        stir(object, self.by)
    }
}

fn stir(object: &mut [u8], by: u8) -> Result<(), Refused> {
    let bytes = object.get_mut(NUMBER_LEN..).ok_or(Refused::new("an object begins with its number"))?;
    bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(31).wrapping_add(by));
    Ok(())
}

#[derive(Debug, Serialize, Deserialize)]
struct Unstir {
    by: u8,
}

impl ObjectDelta for Unstir {
    const NAME: &'static str = "test.unstir";

    fn apply(&self, object: &mut [u8]) -> Result<(), Refused> {
        const INVERSE_OF_31: u8 = 223;
        const _: () = assert!(31_u8.wrapping_mul(INVERSE_OF_31) == 1);
        let bytes = object.get_mut(NUMBER_LEN..).ok_or(Refused::new("an object begins with its number"))?;
        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_sub(self.by).wrapping_mul(INVERSE_OF_31));
        Ok(())
    }
}

/// Parameters of the workload.
#[derive(Clone, Debug)]
struct Warehouse {
    undo: UndoPolicy,
    cache_bytes: u64,
    steps: u64,
    options: fn() -> Options,
}

/// The store has no locks: one thread works, and open transactions keep to their own objects.
fn unlocked() -> Options {
    Options { locks: Arc::new(NoLocks), ..Options::simulated() }
}

fn warehouse(undo: UndoPolicy) -> Warehouse {
    Warehouse { undo, cache_bytes: 1 << 20, steps: 60, options: unlocked }
}

/// Objects by their numbers.
type State = BTreeMap<u64, Vec<u8>>;

/// A change of a transaction, as the model applies it.
#[derive(Clone, Debug)]
enum Did {
    Put(u64, Vec<u8>),
    Stir(u64, u8),
    Remove(u64),
}

fn effect(did: Vec<Did>) -> impl Fn(&mut State) + Send + 'static {
    move |state| {
        for did in &did {
            match did {
                Did::Put(number, bytes) => drop(state.insert(*number, bytes.clone())),
                Did::Stir(number, by) => stir(state.get_mut(number).expect("it is there"), *by).expect("it fits"),
                Did::Remove(number) => drop(state.remove(number)),
            }
        }
    }
}

/// View of a transaction, and its changes so far.
#[derive(Clone)]
struct Work {
    alive: BTreeMap<u64, ObjectId>,
    did: Vec<Did>,
    /// Whether it keeps to the objects of transactions that stay open for a while, since there are no locks.
    is_lunch: bool,
}

struct Clerk<'a> {
    run: &'a Run<Warehouse>,
    scenario: &'a Warehouse,
    objects: Objects,
    alive: BTreeMap<u64, ObjectId>,
    next_number: u64,
    chance: Rng,
}

/// Returns whether an object belongs to transactions that stay open for a while.
fn is_for_lunch(number: u64) -> bool {
    number.is_multiple_of(4)
}

impl Clerk<'_> {
    fn store(&self) -> &Store {
        self.run.store()
    }

    fn begin(&self) -> Txn {
        match self.scenario.undo {
            UndoPolicy::Relaxed => self.store().begin_with(TxnOptions::default().without_atomicity()),
            _ => self.store().begin(),
        }
    }

    fn work(&self, is_lunch: bool) -> Work {
        Work { alive: self.alive.clone(), did: Vec::new(), is_lunch }
    }

    /// Returns the number of a new object.
    fn take_number(&mut self, is_for_lunch_too: bool) -> u64 {
        while is_for_lunch(self.next_number) != is_for_lunch_too {
            self.next_number += 1;
        }
        self.next_number += 1;
        self.next_number - 1
    }

    fn bytes(&mut self, number: u64, len: u64) -> Vec<u8> {
        let rest = (0..len).map(|_| self.chance.below(256) as u8).collect::<Vec<u8>>();
        [&number.to_le_bytes()[..], &rest].concat()
    }

    fn len(&mut self) -> u64 {
        let most = *self.chance.pick(&[4, 40, 400, 1500]);
        self.chance.below(most)
    }

    fn any(&mut self, work: &Work) -> Option<(u64, ObjectId)> {
        let mine: Vec<_> = work.alive.iter().filter(|(number, _)| is_for_lunch(**number) == work.is_lunch).collect();
        (!mine.is_empty()).then(|| self.chance.pick(&mine)).map(|&(&number, &id)| (number, id))
    }

    /// Makes one change, unless it exceeds the cache.
    fn change(&mut self, txn: &mut Txn, work: &mut Work) -> Outcome {
        match self.try_change(txn, work) {
            Err(error) if is_full(&error) => Ok(()),
            other => other,
        }
    }

    fn try_change(&mut self, txn: &mut Txn, work: &mut Work) -> Outcome {
        let kind = self.chance.below(12);
        if kind < 2 && work.alive.len() < 16 {
            let len = self.len();
            let number = self.take_number(work.is_lunch);
            let bytes = self.bytes(number, len);
            let id = self.objects.insert(txn, &bytes)?;
            work.alive.insert(number, id);
            work.did.push(Did::Put(number, bytes));
            return Ok(());
        }
        let Some((number, id)) = self.any(work) else { return Ok(()) };
        match kind {
            0..=2 => {
                self.objects.remove(txn, id)?;
                work.alive.remove(&number);
                work.did.push(Did::Remove(number));
            }
            3..=5 => {
                let len = self.len();
                let bytes = self.bytes(number, len);
                self.objects.put(txn, id, &bytes)?;
                work.did.push(Did::Put(number, bytes));
            }
            _ => {
                let by = self.chance.below(256) as u8;
                if kind == 6 {
                    self.objects.update_with(txn, id, Stir { by }, Unstir { by })?;
                } else {
                    self.objects.update(txn, id, Stir { by })?;
                }
                work.did.push(Did::Stir(number, by));
            }
        }
        Ok(())
    }

    fn changes(&mut self, txn: &mut Txn, work: &mut Work, how_many: u64) -> Outcome {
        for _ in 0..how_many {
            self.change(txn, work)?;
            if self.chance.one_in(6) {
                self.flush_some()?;
            }
        }
        Ok(())
    }

    fn changes_with_second_thoughts(&mut self, txn: &mut Txn, work: &mut Work) -> Outcome {
        let how_many = 1 + self.chance.below(4);
        self.changes(txn, work, how_many)?;
        if self.chance.one_in(3) {
            let (savepoint, before) = (txn.savepoint(), work.clone());
            let how_many = 1 + self.chance.below(3);
            self.changes(txn, work, how_many)?;
            if self.chance.one_in(4) {
                self.store().checkpoint()?;
            }
            txn.rollback_to(savepoint)?;
            *work = before;
            if self.chance.one_in(2) {
                self.change(txn, work)?;
            }
        }
        Ok(())
    }

    fn flush_some(&mut self) -> Outcome {
        let ids: Vec<ObjectId> = self.alive.values().copied().collect();
        for id in ids {
            match self.chance.below(6) {
                0 | 1 => self.objects.flush(self.store(), id)?,
                2 => match self.objects.evict(self.store(), id) {
                    Err(error) if matches!(ObjectError::of(&error), Some(ObjectError::NotCommitted { .. })) => {}
                    other => other?,
                },
                _ => {}
            }
        }
        Ok(())
    }

    fn commit(&mut self, txn: Txn, work: Work) -> Outcome {
        let ticket = self.run.commit(txn, Commit::Async, effect(work.did))?;
        // The view of the other transaction's objects is that of its beginning.
        self.alive.retain(|&number, _| is_for_lunch(number) != work.is_lunch);
        self.alive.extend(work.alive.into_iter().filter(|&(number, _)| is_for_lunch(number) == work.is_lunch));
        if !work.is_lunch && self.chance.one_in(2) {
            self.run.acknowledge(&ticket)?;
        }
        Ok(())
    }

    fn transaction(&mut self) -> Outcome {
        let (mut txn, mut work) = (self.begin(), self.work(false));
        if self.scenario.undo == UndoPolicy::Relaxed {
            // Each change may survive by itself, so each is a commit of its own in the model.
            self.change(&mut txn, &mut work)?;
            return self.commit(txn, work);
        }
        self.changes_with_second_thoughts(&mut txn, &mut work)?;
        if self.chance.one_in(5) { Ok(txn.rollback()?) } else { self.commit(txn, work) }
    }

    /// Runs a transaction that stays open while another one commits, and pages are written.
    fn over_lunch(&mut self) -> Outcome {
        let (mut open, mut work) = (self.begin(), self.work(true));
        self.changes_with_second_thoughts(&mut open, &mut work)?;
        if self.chance.one_in(2) {
            self.flush_some()?;
            self.store().checkpoint()?;
        }
        self.transaction()?;
        if self.chance.one_in(2) {
            self.changes_with_second_thoughts(&mut open, &mut work)?;
        }
        match self.chance.below(3) {
            0 => Ok(open.rollback()?),
            1 => {
                self.store().log().force(self.store().log().current_lsn())?;
                self.flush_some()?;
                Ok(open.rollback()?)
            }
            _ => self.commit(open, work),
        }
    }

    fn step(&mut self) -> Outcome {
        match self.chance.below(14) {
            0..=6 => self.transaction(),
            7 | 8 if self.scenario.undo != UndoPolicy::Relaxed => self.over_lunch(),
            7..=9 => self.flush_some(),
            10 => self.objects.sweep(self.store()).map(drop).map_err(Into::into),
            11 => Ok(self.objects.flush_all(self.store())?),
            _ => Ok(self.store().checkpoint()?),
        }
    }
}

fn is_full(error: &check::Error) -> bool {
    let of_objects = error.downcast_ref::<Error>().and_then(ObjectError::of);
    matches!(of_objects, Some(ObjectError::CacheFull { .. }))
}

impl Warehouse {
    fn open(&self, store: &Store) -> Outcome<Objects> {
        let options = cedrat_objects::Options { cache_bytes: self.cache_bytes, undo: self.undo };
        Ok(Objects::open_or_create(store, NAME, options)?)
    }
}

impl Scenario for Warehouse {
    type State = State;
    type Roots = ();

    fn options(&self) -> Options {
        (self.options)()
    }

    /// Changes stay in the cache until it flushes them.
    fn reads_while_running(&self) -> bool {
        false
    }

    fn registry(&self) -> Registry {
        Registry::new()
            .with(cedrat_structures::register)
            .with(cedrat_objects::register)
            .with(register_delta::<Stir>)
            .with(register_delta::<Unstir>)
    }

    fn set_up(&self, store: &Store) -> Outcome {
        let objects = self.open(store)?;
        let mut txn = store.begin_with(TxnOptions::default().without_atomicity());
        for number in 0..12_u64 {
            objects.insert(&mut txn, &[&number.to_le_bytes()[..], &[number as u8; 60]].concat())?;
        }
        txn.commit(Commit::Sync)?;
        Ok(())
    }

    fn run(&self, run: &Run<Warehouse>, (): &()) -> Outcome {
        let objects = self.open(run.store())?;
        let alive: BTreeMap<u64, ObjectId> =
            read_all(run.store(), &objects)?.into_iter().map(|(number, (id, _))| (number, id)).collect();
        let next_number = alive.keys().last().map_or(0, |number| number + 1);
        let mut clerk = Clerk { run, scenario: self, objects, alive, next_number, chance: run.rng(0) };
        (0..self.steps).try_for_each(|_| clerk.step())
    }

    fn read(&self, store: &Store, (): &()) -> Outcome<State> {
        let all = read_all(store, &self.open(store)?)?;
        Ok(all.into_iter().map(|(number, (_, bytes))| (number, bytes)).collect())
    }

    fn check(&self, store: &Store, (): &()) -> Outcome {
        let checked = self.open(store)?.check(&store.begin())?;
        if checked.is_sound() { Ok(()) } else { Err(checked.problems.join("; ").into()) }
    }
}

fn passes(check: check::Crashes<Warehouse>) {
    check.seed(check::seed(1)).run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

/// E19.7, E19.8, E19.10.
#[test]
fn committed_only_changes_survive_every_crash() {
    let scenario = warehouse(UndoPolicy::CommittedOnly);
    passes(check::crashes("objects", scenario).at_least(4_000).again(8, 60));
}

/// E19.7, E19.9, E19.10.
#[test]
fn changes_with_inverses_survive_every_crash() {
    let scenario = warehouse(UndoPolicy::Inverses);
    passes(check::crashes("objects-inverses", scenario).at_least(4_000).again(8, 60));
}

/// L076: each change may survive by itself, in the order of the log.
#[test]
fn relaxed_changes_survive_every_crash() {
    let scenario = Warehouse { steps: 100, ..warehouse(UndoPolicy::Relaxed) };
    passes(check::crashes("objects-relaxed", scenario).between_calls_only().at_least(3_000).again(8, 60));
}

/// E19.9: cache and pool are smaller than the working set.
#[test]
fn tiny_cache_and_pool_survive_every_crash() {
    let options = || Options { pool_bytes: 8 * 4096, partitions: 2, ..unlocked() };
    let scenario = Warehouse { cache_bytes: 4_000, steps: 80, options, ..warehouse(UndoPolicy::Inverses) };
    passes(check::crashes("objects-eviction", scenario).at_least(3_000).again(8, 60));
}

/// R5: the second crash comes at every single call of recovery.
#[test]
fn object_recovery_survives_crash_at_every_call() {
    let scenario = Warehouse { steps: 40, cache_bytes: 6_000, ..warehouse(UndoPolicy::CommittedOnly) };
    passes(check::crashes("objects-recovery", scenario).at_least(2_500).again(6, usize::MAX));
}
