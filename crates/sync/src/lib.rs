//! The one source of threads, locks and atomics.
//!
//! Every crate above takes its threads, mutexes, condition variables and atomics from this crate and from no other.
//! In an ordinary build they are those of `parking_lot` and the standard library. Built with `RUSTFLAGS="--cfg
//! cedrat_shuttle"`, the same names stand for [`shuttle`](https://docs.rs/shuttle), whose seeded scheduler runs one
//! thread at a time and chooses at every operation which thread runs next; a failing schedule can then be repeated
//! from its seed.
//!
//! Three rules follow from having two implementations behind one interface:
//!
//! 1. Locks do not poison. The owner of the data, not the lock, handles a panic under the lock.
//! 2. No correctness depends on time: under the scheduler no time passes, and a timed wait is a plain wait.
//! 3. A loop that waits for another thread calls [`spin_hint`] in every turn; otherwise the scheduler never leaves
//!    it.
//!
//! In a shuttle build these types may be used only inside [`explore`]. Such a build is tested with `--tests`: the
//! examples in the documentation run on ordinary threads.

#![deny(unsafe_code)]

#[cfg(all(feature = "lock-order", not(cedrat_shuttle)))]
mod ordered;
#[cfg(not(cedrat_shuttle))]
mod real;
#[cfg(not(cedrat_shuttle))]
use real as world;

#[cfg(cedrat_shuttle)]
mod scheduled;
#[cfg(cedrat_shuttle)]
use scheduled as world;

#[allow(unsafe_code)] // its reasons are numbered there
mod fetch;
#[allow(unsafe_code)] // its reasons are numbered there
mod hurry;
mod lane;
mod planted;
mod word;

pub use fetch::prefetch_to_write;
pub use hurry::hurry;
pub use world::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult, atomic, explore, is_free,
    spin_hint, thread, thread_local,
};

pub use lane::{Closing, Lane};
pub use planted::is_planted;
pub use std::sync::{Arc, Weak};
pub use word::WaitWord;
