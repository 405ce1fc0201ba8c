//! The one door to threads, latches and atomics.
//!
//! Every crate above takes its threads, mutexes, condition variables and atomics from here and from nowhere
//! else. In an ordinary build they are `parking_lot`'s and the standard library's. Built with
//! `RUSTFLAGS="--cfg cedrat_shuttle"` the same names stand over [`shuttle`](https://docs.rs/shuttle), whose
//! seeded scheduler runs one thread at a time and chooses at every operation who goes next; a failing
//! schedule can then be repeated from its seed.
//!
//! Three habits follow from having two worlds behind one door:
//!
//! 1. Locks do not poison. A panic under a lock is judged by whoever owns the data, not by the lock.
//! 2. Nothing correct depends on time: under the scheduler no time passes, and a timed wait is a plain wait.
//! 3. A loop that waits for another thread calls [`spin_hint`] in every turn, or the scheduler never leaves it.
//!
//! In a shuttle build these types may be used only inside [`explore`]. Such a build is tested with `--tests`: the
//! programs in the documentation run on ordinary threads.

#![deny(unsafe_code)]

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
mod word;

pub use fetch::prefetch_to_write;
pub use hurry::hurry;
pub use world::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult, atomic, explore, is_free,
    spin_hint, thread, thread_local,
};

pub use lane::{Closing, Lane};
pub use std::sync::{Arc, Weak};
pub use word::WaitWord;
