//! What is checked: a store, a workload over it, and the model that judges it.

use std::fmt::Debug;

use cedrat_txn::{Options, Registry, Store};

use crate::run::Run;

/// Any error: a scenario's steps may fail with whatever they call fails with.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The end of a scenario's step.
pub type Outcome<T = ()> = Result<T, Error>;

/// A workload over a store, with a model that says what it must have done.
///
/// The steps are called in this order: [`set_up`](Scenario::set_up) once on a fresh store; [`run`](Scenario::run) once; then,
/// after each crash and recovery, [`read`](Scenario::read) and [`check`](Scenario::check) many thousand times, so these
/// two should be quick. After some recoveries `run` is called again on the recovered store.
///
/// A scenario is shared by the threads of its workload. Unless it uses [`Run::in_threads`], it must be deterministic: the
/// same seed must lead to the same I/O calls, or a printed case cannot be repeated. So it draws chance only from
/// [`Run::rng`], and iterates over nothing whose order changes from run to run.
pub trait Scenario: Send + Sync + 'static {
    /// The model: what the store holds, in plain memory. A `BTreeMap` or a number does well; the duller, the better.
    type State: Clone + PartialEq + Debug + Send + 'static;

    /// Where things are in the store (page numbers, handles by name), as `set_up` found or made them.
    type Roots: Clone + Send + Sync + 'static;

    /// The store's options. The default is [`Options::simulated`]: a crash state costs a recovery, so stores are small.
    fn options(&self) -> Options {
        Options::simulated()
    }

    /// The operations that the workload uses.
    fn registry(&self) -> Registry;

    /// Makes what the workload starts from, on a fresh store. No crash is tried in it.
    ///
    /// # Errors
    /// Whatever its calls return; the check then fails.
    fn set_up(&self, store: &Store) -> Outcome<Self::Roots>;

    /// Performs transactions, telling `run` what each commit does to the model.
    ///
    /// # Errors
    /// Whatever its calls return; where no fault is injected, the check then fails.
    fn run(&self, run: &Run<Self>, roots: &Self::Roots) -> Outcome
    where
        Self: Sized;

    /// Reads the whole state back.
    ///
    /// # Errors
    /// Whatever its calls return; the check then fails.
    fn read(&self, store: &Store, roots: &Self::Roots) -> Outcome<Self::State>;

    /// Checks what the model cannot see: chains, counts, free space.
    ///
    /// # Errors
    /// With a sentence that says what is wrong; the check then fails.
    fn check(&self, store: &Store, roots: &Self::Roots) -> Outcome {
        let _ = (store, roots);
        Ok(())
    }
}
