//! Crash-state checking for operations and structures, Cedrat's own and yours.
//!
//! - [`operation`] tests a single operation on generated pages: does redo repeat, does undo restore, does it stay on its
//!   page?
//! - [`layout`] tests a page layout on good pages, on those of another kind and on garbage.
//! - [`crashes`] runs a workload once on a simulated disk, cuts the power at every I/O call, with every kind of loss, and behind
//!   every record of the log; recovers, and compares with a model; then again inside the recovery.
//! - [`openings`] lets every call of a recovery fail in turn, by an error, a full disk or a panic, and opens again.
//!
//! Each failure is reported with one line that repeats it. `docs/use/checking.md` leads through an example.

#![forbid(unsafe_code)]

mod case;
mod clock;
mod coverage;
mod crashes;
mod cut;
mod damage;
mod fresh;
mod history;
mod io_errors;
mod kills;
mod layout;
mod openings;
mod operation;
mod probe;
mod report;
mod rng;
mod run;
mod scenario;
mod shrink;
mod speed;
mod words;

pub use case::{CASE_VARIABLE, Case, Crash, Injected};
pub use crashes::{Crashes, crashes};
pub use damage::{Damages, damages};
pub use io_errors::{IoErrors, io_errors};
pub use layout::{BrokenLayout, LayoutCheck, layout};
pub use openings::{Openings, openings};
pub use operation::{Broken, OperationCheck, Rule, Tried, operation};
pub use report::{Failure, Fault, Report, STATES_VARIABLE, Smaller};
pub use rng::{Rng, SEED_VARIABLE, seed};
pub use run::Run;
pub use scenario::{Error, Outcome, Scenario};

pub use cedrat_sync::Hang;

/// Locks, atomics and threads that the seeded scheduler knows, for operations and workloads whose threads wait for one another.
///
/// In a build without the feature `scheduler` they are those of `parking_lot` and the standard library.
pub mod sync {
    pub use cedrat_sync::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic, explore, spin_hint, thread,
        thread_local,
    };
}
