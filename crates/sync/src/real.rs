//! Threads of the operating system.

pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult};
pub use std::thread_local;

/// Atomic numbers and fences.
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

    /// Spawns a thread within `scope`, if the system has one to give; plain spawning panics when it has none.
    ///
    /// # Errors
    /// What the system says.
    pub fn spawn_in<'scope, 'env, T: Send + 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        name: &str,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> std::io::Result<ScopedJoinHandle<'scope, T>> {
        Builder::new().name(name.into()).spawn_scoped(scope, body)
    }

    /// How many threads run at the same time here, at most.
    pub fn parallelism() -> usize {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
    }
}

/// Whether nobody held the mutex a moment ago. A hint, on which nothing correct depends.
#[inline]
pub fn is_free<T>(mutex: &Mutex<T>) -> bool {
    !mutex.is_locked()
}

/// Says that this thread turns in a loop until another one has done something.
#[inline]
pub fn spin_hint() {
    std::hint::spin_loop();
}

/// Runs `body` once on real threads; in a shuttle build, `schedules` times under a scheduler seeded by `seed`.
///
/// A test written with `explore` is thus an ordinary test here and a search through interleavings there.
pub fn explore(seed: u64, schedules: usize, body: impl Fn() + Send + Sync + 'static) {
    let _ = (seed, schedules);
    body();
}
