//! The workload of every structure: transactions of a few steps, some rolled back, wholly or half, some asynchronous, in one
//! or several threads, with checkpoints in between. A model follows each step.

#![allow(dead_code, reason = "not every suite uses every subject")]

pub(crate) mod pages;
pub(crate) mod subjects;

use std::fmt::Debug;

use cedrat::check::{self, Outcome, Rng, Run, Scenario};
use cedrat::txn::{Options, Registry, Store, Txn};

/// Effect of a step on the model.
pub(crate) type Effect<M> = Box<dyn Fn(&mut M) + Send>;

/// A structure, and a model of it.
pub(crate) trait Subject: Send + Sync + 'static {
    /// The model.
    type Model: Clone + PartialEq + Debug + Send + 'static;
    /// Place of the structure.
    type Root: Clone + Send + Sync + 'static;

    /// Creates the initial structure.
    fn create(&self, txn: &mut Txn) -> Outcome<Self::Root>;
    /// Makes a random change.
    fn step(&self, txn: &mut Txn, root: &Self::Root, chance: &mut Rng) -> Outcome<Effect<Self::Model>>;
    /// Reads the whole content.
    fn read(&self, txn: &mut Txn, root: &Self::Root) -> Outcome<Self::Model>;
    /// Runs the structure's own check.
    fn check(&self, txn: &mut Txn, root: &Self::Root) -> Outcome;
}

/// A subject, and the parameters of its workload.
pub(crate) struct Workout<T> {
    pub(crate) subject: std::sync::Arc<T>,
    pub(crate) transactions: u64,
    pub(crate) threads: u64,
    pub(crate) steps_max: u64,
    pub(crate) checkpoint_every: u64,
    pub(crate) options: fn() -> Options,
}

/// A small store with two partitions, whose pool holds a part of the workload's pages.
fn small() -> Options {
    Options { pool_bytes: 48 * 4096, partitions: 2, ..Options::simulated() }
}

impl<T: Subject> Workout<T> {
    pub(crate) fn of(subject: T) -> Workout<T> {
        Workout {
            subject: std::sync::Arc::new(subject),
            transactions: 60,
            threads: 1,
            steps_max: 4,
            checkpoint_every: 9,
            options: small,
        }
    }

    fn again(&self) -> Workout<T> {
        Workout { subject: self.subject.clone(), ..*self }
    }

    /// Makes some steps; returns their combined effect.
    fn steps(
        &self,
        txn: &mut Txn,
        root: &T::Root,
        chance: &mut Rng,
    ) -> Outcome<impl Fn(&mut T::Model) + Send + use<T>> {
        let mut effects = Vec::new();
        for _ in 0..1 + chance.below(self.steps_max) {
            effects.push(self.subject.step(txn, root, chance)?);
        }
        Ok(move |model: &mut T::Model| effects.iter().for_each(|effect| effect(model)))
    }

    fn sportsman(&self, run: &Run<Workout<T>>, number: u64, root: &T::Root) -> Outcome {
        let chance = run.rng(number);
        let mut waiting = Vec::new();
        for turn in 1..=self.transactions {
            // A transaction that was a deadlock victim begins again, with the same random numbers.
            let chance = chance.part(turn);
            match chance.clone().below(8) {
                0 => run.roll_back(|txn| self.steps(txn, root, &mut chance.part(0)).map(drop))?,
                1 => {
                    run.transact(|txn| {
                        let mut chance = chance.part(0);
                        let kept = self.steps(txn, root, &mut chance)?;
                        let here = txn.savepoint();
                        let _taken_back = self.steps(txn, root, &mut chance)?;
                        txn.rollback_to(here)?;
                        let more = self.steps(txn, root, &mut chance)?;
                        Ok(move |model: &mut T::Model| {
                            kept(model);
                            more(model);
                        })
                    })?;
                }
                2 | 3 => {
                    let body = |txn: &mut Txn| self.steps(txn, root, &mut chance.part(0));
                    waiting.push(run.transact_async(body)?);
                }
                _ => {
                    run.transact(|txn| self.steps(txn, root, &mut chance.part(0)))?;
                }
            }
            waiting.retain(|ticket| !run.acknowledge_if_stable(ticket));
            if number == 0 && self.checkpoint_every > 0 && turn % self.checkpoint_every == 0 {
                run.store().checkpoint()?;
            }
        }
        for ticket in waiting {
            run.acknowledge(&ticket)?;
        }
        Ok(())
    }
}

impl<T: Subject> Scenario for Workout<T> {
    type State = T::Model;
    type Roots = T::Root;

    fn options(&self) -> Options {
        (self.options)()
    }

    fn registry(&self) -> Registry {
        cedrat::registry()
    }

    fn set_up(&self, store: &Store) -> Outcome<T::Root> {
        in_transaction(store, |txn| self.subject.create(txn))
    }

    fn run(&self, run: &Run<Self>, root: &T::Root) -> Outcome {
        let (workout, root) = (self.again(), root.clone());
        run.in_threads(self.threads, move |run, number| workout.sportsman(run, number, &root))
    }

    fn read(&self, store: &Store, root: &T::Root) -> Outcome<T::Model> {
        in_transaction(store, |txn| self.subject.read(txn, root))
    }

    fn check(&self, store: &Store, root: &T::Root) -> Outcome {
        in_transaction(store, |txn| self.subject.check(txn, root))
    }
}

fn in_transaction<R>(store: &Store, work: impl FnOnce(&mut Txn) -> Outcome<R>) -> Outcome<R> {
    let mut txn = store.begin();
    let result = work(&mut txn)?;
    txn.commit(cedrat::Commit::Sync)?;
    Ok(result)
}

/// Runs a check and prints its row.
#[track_caller]
pub(crate) fn passes<T: Subject>(name: &str, workout: Workout<T>) {
    let check = check::crashes(name, workout).seed(check::seed(1)).at_least(8_000).again(6, 80);
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}
