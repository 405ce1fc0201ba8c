//! A collection whose objects are added and removed, under crashes: pages are emptied and filled again, and their slots
//! removed.
#![cfg(not(cedrat_shuttle))] // threads: threads.rs

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cedrat_check as check;
use cedrat_check::{Outcome, Rng, Run, Scenario};
use cedrat_objects::{ObjectId, Objects};
use cedrat_txn::{Commit, Options, Registry, Store};

use crate::common::read_all;

const NAME: &str = "waiting room";

/// Number of objects that stay.
const STAY: usize = 4;

/// Objects by their numbers: the lowest is the oldest.
type State = BTreeMap<u64, Vec<u8>>;

#[derive(Clone, Debug)]
struct WaitingRoom {
    steps: u64,
    pool_bytes: u64,
    /// Whether the number of objects varies, and empty pages are given back to the store.
    shrinks: bool,
    /// Number of pages that were given back to the store, in all runs.
    taken_out: Arc<AtomicU64>,
}

struct Attendant<'a> {
    room: &'a WaitingRoom,
    run: &'a Run<WaitingRoom>,
    objects: Objects,
    waiting: BTreeMap<u64, ObjectId>,
    next_number: u64,
    chance: Rng,
}

impl Attendant<'_> {
    fn bytes(&mut self) -> Vec<u8> {
        let len = *self.chance.pick(&[20, 900, 2500, 3700, 3700]);
        [&self.next_number.to_le_bytes()[..], &vec![self.chance.below(256) as u8; len]].concat()
    }

    /// Adds some objects, and removes the oldest.
    fn transaction(&mut self) -> Outcome {
        let mut txn = self.run.store().begin();
        let mut waiting = self.waiting.clone();
        let (mut came, mut went) = (Vec::new(), Vec::new());
        for _ in 0..1 + self.chance.below(3) {
            let bytes = self.bytes();
            waiting.insert(self.next_number, self.objects.insert(&mut txn, &bytes)?);
            came.push((self.next_number, bytes));
            self.next_number += 1;
            let most = if self.room.shrinks && self.next_number % 40 < 20 { 4 * STAY } else { STAY };
            for _ in 0..waiting.len().saturating_sub(most).min(2) {
                // Now and then the second newest.
                let number = if self.chance.one_in(4) { waiting.keys().rev().nth(1) } else { waiting.keys().next() };
                let number = *number.expect("some are there");
                self.objects.remove(&mut txn, waiting.remove(&number).expect("it is there"))?;
                went.push(number);
            }
        }
        if self.chance.one_in(4) {
            return Ok(txn.rollback()?);
        }
        let effect = move |state: &mut State| {
            state.extend(came.clone());
            went.iter().for_each(|number| drop(state.remove(number)));
        };
        let ticket = self.run.commit(txn, Commit::Async, effect)?;
        self.waiting = waiting;
        if self.chance.one_in(2) {
            self.run.acknowledge(&ticket)?;
        }
        Ok(())
    }

    fn take_out_pages(&mut self) -> Outcome {
        let store = self.run.store();
        let mut txn = store.begin();
        let mut before = None;
        for page in self.objects.pages(store)? {
            let is_out = match before {
                Some(before) => self.objects.take_out(&mut txn, before, page)?,
                None => false,
            };
            self.room.taken_out.fetch_add(u64::from(is_out), Ordering::Relaxed);
            before = before.filter(|_| is_out).or(Some(page));
        }
        match self.chance.one_in(4) {
            true => Ok(txn.rollback()?),
            false => Ok(txn.commit(Commit::Async).map(drop)?),
        }
    }

    fn step(&mut self) -> Outcome {
        match self.chance.below(14) {
            0 => Ok(self.objects.flush_all(self.run.store())?),
            1 => Ok(self.run.store().checkpoint()?),
            2 => self.objects.sweep(self.run.store()).map(drop).map_err(Into::into),
            3 | 4 if self.room.shrinks => self.take_out_pages(),
            _ => self.transaction(),
        }
    }
}

impl WaitingRoom {
    fn open(&self, store: &Store) -> Outcome<Objects> {
        Ok(Objects::open_or_create(store, NAME, cedrat_objects::Options::default())?)
    }
}

impl Scenario for WaitingRoom {
    type State = State;
    /// Number of pages that do not belong to the collection.
    type Roots = u64;

    fn options(&self) -> Options {
        Options { pool_bytes: self.pool_bytes, ..Options::simulated() }
    }

    /// Changes stay in the cache until it flushes them.
    fn reads_while_running(&self) -> bool {
        false
    }

    fn registry(&self) -> Registry {
        Registry::new().with(cedrat_structures::register).with(cedrat_objects::register)
    }

    fn set_up(&self, store: &Store) -> Outcome<u64> {
        let objects = self.open(store)?;
        // Uses up places: a page has few left when it is found again.
        for turn in 0..40 {
            let id = store.transact(|txn| objects.insert(txn, &[0; 3700]))?;
            if turn != 20 {
                store.transact(|txn| objects.remove(txn, id))?;
            }
        }
        Ok(store.check()?.pages_allocated - objects.check(&store.begin())?.pages.len() as u64)
    }

    fn run(&self, run: &Run<WaitingRoom>, _: &u64) -> Outcome {
        let objects = self.open(run.store())?;
        // Insertions find space of earlier openings only if it is offered.
        objects.pages(run.store())?.into_iter().try_for_each(|page| objects.offer_space(run.store(), page))?;
        let waiting: BTreeMap<u64, ObjectId> =
            read_all(run.store(), &objects)?.into_iter().map(|(number, (id, _))| (number, id)).collect();
        let next_number = waiting.keys().last().map_or(0, |number| number + 1);
        let mut attendant = Attendant { room: self, run, objects, waiting, next_number, chance: run.rng(0) };
        (0..self.steps).try_for_each(|_| attendant.step())?;
        let pages = attendant.objects.pages(run.store())?.len();
        if self.steps >= 100 && pages > 2 * STAY + 4 && !self.shrinks {
            return Err(format!("{pages} pages for {STAY} objects").into());
        }
        Ok(())
    }

    fn read(&self, store: &Store, _: &u64) -> Outcome<State> {
        let all = read_all(store, &self.open(store)?)?;
        Ok(all.into_iter().map(|(number, (_, bytes))| (number, bytes)).collect())
    }

    fn check(&self, store: &Store, others: &u64) -> Outcome {
        let checked = self.open(store)?.check(&store.begin())?;
        if !checked.is_sound() {
            return Err(checked.problems.join("; ").into());
        }
        let (own, all) = (checked.pages.len() as u64, store.check()?.pages_allocated);
        if own + others == all {
            Ok(())
        } else {
            Err(format!("{all} pages, of which {own} and {others} are known").into())
        }
    }
}

/// E19.1, E19.3, E19.11: changes of removed objects are not redone on later objects in their places.
#[test]
fn turnover_survives_every_crash() {
    for (name, pool_bytes, seed) in [("objects-turnover", 1 << 20, 1), ("objects-turnover-eviction", 8 * 4096, 2)] {
        let scenario = WaitingRoom { steps: 120, pool_bytes, shrinks: false, taken_out: Arc::default() };
        let crashes = check::crashes(name, scenario).at_least(2_500).again(8, 60);
        crashes.seed(check::seed(seed)).run().unwrap_or_else(|failure| panic!("{failure}")).print();
    }
}

/// E19.16: pages leave and come back, and each has exactly one owner after every crash.
#[test]
fn page_removals_survive_every_crash() {
    for (name, pool_bytes, seed) in [("objects-shrink", 1 << 20, 3), ("objects-shrink-eviction", 8 * 4096, 4)] {
        let taken_out = Arc::default();
        let scenario = WaitingRoom { steps: 160, pool_bytes, shrinks: true, taken_out: Arc::clone(&taken_out) };
        let crashes = check::crashes(name, scenario).at_least(2_500).again(8, 60);
        crashes.seed(check::seed(seed)).run().unwrap_or_else(|failure| panic!("{failure}")).print();
        assert_ne!(taken_out.load(Ordering::Relaxed), 0, "no page was taken out");
    }
}
