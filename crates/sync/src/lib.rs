//! The one source of threads, locks and atomics.
//!
//! Every crate above takes its threads, mutexes, condition variables and atomics from this crate and from no other. There are
//! three implementations behind one interface:
//!
//! - In an ordinary build they are those of `parking_lot` and the standard library.
//! - With the feature `scheduler`, they are still these, except within [`schedule`] and [`explore`]. There, a seeded
//!   scheduler (that of [`shuttle`](https://docs.rs/shuttle)) runs one thread at a time and chooses at every operation
//!   which thread runs next; a failing schedule can be repeated from its seed.
//! - Built with `RUSTFLAGS="--cfg cedrat_shuttle"`, they are those of `shuttle` itself, and may be used only inside
//!   [`explore`]. Such a build is tested with `--tests`: the examples in the documentation run on ordinary threads.
//!
//! Three rules follow:
//!
//! 1. Locks do not poison. The owner of the data, not the lock, handles a panic under the lock.
//! 2. No correctness depends on time: under the scheduler no time passes, and a timed wait is a plain wait.
//! 3. A loop that waits for another thread calls [`spin_hint`] in every turn; otherwise the scheduler never leaves
//!    it.

#![deny(unsafe_code)]

#[cfg(all(feature = "scheduler", not(cedrat_shuttle)))]
mod both;
#[cfg(all(feature = "lock-order", not(cedrat_shuttle)))]
#[cfg_attr(feature = "scheduler", allow(dead_code, unreachable_pub))] // `both` uses and exports a part
mod ordered;
#[cfg(not(cedrat_shuttle))]
#[cfg_attr(feature = "scheduler", allow(dead_code, unreachable_pub, unused_imports))] // as above
mod real;
#[cfg(cedrat_shuttle)]
mod scheduled;

#[cfg(all(feature = "scheduler", not(cedrat_shuttle)))]
use both as world;
#[cfg(not(any(feature = "scheduler", cedrat_shuttle)))]
use real as world;
#[cfg(cedrat_shuttle)]
use scheduled as world;

#[allow(unsafe_code)] // its reasons are numbered there
mod fetch;
#[allow(unsafe_code)] // its reasons are numbered there
mod hurry;
mod lane;
mod limits;
mod number;
#[allow(unsafe_code)] // its reasons are numbered there
mod own;
mod planted;
#[cfg_attr(feature = "scheduler", allow(unreachable_pub))] // as above
mod word;

/// Whether this build has the seeded scheduler.
pub const HAS_SCHEDULER: bool = cfg!(any(feature = "scheduler", cedrat_shuttle));

pub use fetch::prefetch_to_write;
pub use hurry::hurry;
pub use limits::{Hang, Limits};
pub use number::thread_number;
pub use own::OwnWord;
pub use world::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult, atomic, explore, is_free,
    is_scheduled, schedule, spin_hint, spins, thread, thread_local,
};

pub use lane::{Closing, Lane};
pub use planted::is_planted;
pub use std::sync::{Arc, Weak};
#[cfg(not(all(feature = "scheduler", not(cedrat_shuttle))))]
pub use word::WaitWord;
#[cfg(all(feature = "scheduler", not(cedrat_shuttle)))]
pub use world::WaitWord;
