//! Crash-state checking for operations and structures, Cedrat's own and yours.
//!
//! - [`operation`] tries a single operation on generated pages: does redo repeat, does undo restore, does it stay on its page?
//! - [`crashes`] runs a workload once on a simulated disk, cuts the power at every I/O call, with every kind of loss, recovers,
//!   and compares with a model; then again inside the recovery.
//!
//! Both print, for what they find, one line that repeats it. `docs/use/checking.md` leads through an example.

#![forbid(unsafe_code)]

mod case;
mod crashes;
mod damage;
mod history;
mod io_errors;
mod operation;
mod probe;
mod report;
mod rng;
mod run;
mod scenario;

pub use case::{CASE_VARIABLE, Case, Injected};
pub use crashes::{Crashes, crashes};
pub use damage::{Damages, damages};
pub use io_errors::{IoErrors, io_errors};
pub use operation::{Broken, OperationCheck, Rule, Tried, operation};
pub use report::{Failure, Fault, Report, STATES_VARIABLE};
pub use rng::{Rng, SEED_VARIABLE, seed};
pub use run::Run;
pub use scenario::{Error, Outcome, Scenario};
