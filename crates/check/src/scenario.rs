//! Subject of a check: a store, a workload over it, and the model that judges it.

use std::fmt::Debug;

use cedrat_pages::PageId;
use cedrat_txn::{Options, Registry, Store};

use crate::run::Run;

/// Any error: the steps of a scenario may return the errors of all their calls.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Result of a scenario's step.
pub type Outcome<T = ()> = Result<T, Error>;

/// A workload over a store, with a model of its effects.
///
/// The steps are called in this order: [`set_up`](Scenario::set_up) once on a fresh store; [`run`](Scenario::run) once; then,
/// after each crash and recovery, [`read`](Scenario::read) and [`check`](Scenario::check) many thousand times, so these
/// two should be quick. After some recoveries `run` is called again on the recovered store.
///
/// The threads of the workload share the scenario. Unless it uses [`Run::in_threads`], it must be deterministic: the same
/// seed must lead to the same I/O calls, or a printed case cannot be repeated. So it must draw random numbers only from
/// [`Run::rng`], and must not depend on an iteration order that changes from run to run.
pub trait Scenario: Send + Sync + 'static {
    /// The model: the content of the store, in plain memory. A `BTreeMap` or a number is sufficient; the simpler, the better.
    type State: Clone + PartialEq + Debug + Send + 'static;

    /// Places in the store (page numbers, handles by name), as `set_up` has found or made them.
    type Roots: Clone + Send + Sync + 'static;

    /// The store's options. The default is [`Options::simulated`]: a crash state costs a recovery, so stores are small.
    fn options(&self) -> Options {
        Options::simulated()
    }

    /// Whether [`read`](Scenario::read) returns the model's state while the workload runs too, whenever no transaction is
    /// open. Then store and model are compared after every commit and every rollback, not only after crashes. `false` for a
    /// workload over a cache of its own, whose changes reach the pages later.
    fn reads_while_running(&self) -> bool {
        true
    }

    /// The operations that the workload uses.
    fn registry(&self) -> Registry;

    /// Makes the initial state of the workload, on a fresh store. It is not crashed.
    ///
    /// # Errors
    /// Errors of its calls; the check then fails.
    fn set_up(&self, store: &Store) -> Outcome<Self::Roots>;

    /// Performs transactions, and enters the effect of each commit on the model into `run`.
    ///
    /// # Errors
    /// Errors of its calls; without injected faults, the check then fails.
    fn run(&self, run: &Run<Self>, roots: &Self::Roots) -> Outcome
    where
        Self: Sized;

    /// Reads the whole state.
    ///
    /// # Errors
    /// Errors of its calls; the check then fails.
    fn read(&self, store: &Store, roots: &Self::Roots) -> Outcome<Self::State>;

    /// Verifies what the model does not contain: chains, counts, free space.
    ///
    /// # Errors
    /// A description of the problem; the check then fails.
    fn check(&self, store: &Store, roots: &Self::Roots) -> Outcome {
        let _ = (store, roots);
        Ok(())
    }

    /// Lists all pages that the store's content reaches from its roots, including those of the catalogue and of structures.
    /// After each recovery they must be the pages in use: another page in use is a leak, and none of them may be free. The
    /// default, `None`, disables the comparison.
    ///
    /// # Errors
    /// Errors of its calls; the check then fails.
    fn reachable(&self, store: &Store, roots: &Self::Roots) -> Outcome<Option<Vec<PageId>>> {
        let _ = (store, roots);
        Ok(None)
    }
}
