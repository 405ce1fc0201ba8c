//! Threads of the operating system.

#[cfg(feature = "lock-order")]
pub use crate::ordered::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult};
#[cfg(not(feature = "lock-order"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult};
pub use std::thread_local;

use crate::limits::{Hang, Limits};

/// Atomic integers and fences.
pub mod atomic {
    pub use std::sync::atomic::{
        AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

/// Threads.
pub mod thread {
    pub use std::thread::{
        Builder, JoinHandle, Result, Scope, ScopedJoinHandle, Thread, ThreadId, current, panicking, park, scope, spawn,
        yield_now,
    };

    /// Spawns a thread within `scope`. Plain spawning panics where this returns an error.
    ///
    /// # Errors
    /// The error of the operating system if it cannot create a thread.
    pub fn spawn_in<'scope, 'env, T: Send + 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        name: &str,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> std::io::Result<ScopedJoinHandle<'scope, T>> {
        Builder::new().name(name.into()).spawn_scoped(scope, body)
    }

    /// Returns the number of threads that this machine runs at the same time, at least 1.
    pub fn parallelism() -> usize {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
    }
}

/// Whether the mutex was free a moment ago. A hint, on which no correctness depends.
#[inline]
pub fn is_free<T>(mutex: &Mutex<T>) -> bool {
    !mutex.is_locked()
}

/// Marks a turn of a loop that waits for another thread.
#[inline]
pub fn spin_hint() {
    std::hint::spin_loop();
}

/// Runs `body` once on real threads; in a build with the scheduler, `schedules` times under a scheduler seeded by `seed`.
///
/// A test written with `explore` is thus an ordinary test in this build, and a search through interleavings in the
/// other.
pub fn explore(seed: u64, schedules: usize, body: impl Fn() + Send + Sync + 'static) {
    let _ = (seed, schedules);
    body();
}

/// Whether the calling thread is one of a scheduled run: `false`, for this build has no scheduler.
#[inline(always)]
pub const fn is_scheduled() -> bool {
    false
}

/// Returns the number of turns that a loop spins before its thread sleeps: `turns`, and one under a scheduler.
#[inline(always)]
pub const fn spins(turns: usize) -> usize {
    turns
}

/// Runs `body` once; in a build with the scheduler, with the interleaving of its threads that `seed` determines.
///
/// # Errors
/// None.
pub fn schedule<T: Send + 'static>(
    seed: u64,
    limits: Limits,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Hang> {
    let _ = (seed, limits);
    Ok(body())
}
