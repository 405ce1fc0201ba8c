//! Threads of a seeded scheduler: the names of `real`, on top of `shuttle`.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

use crate::limits::{Hang, Limits, first_seed};

pub use shuttle::sync::WaitTimeoutResult;
pub use shuttle::thread_local;

/// Atomic integers and fences, sequentially consistent whatever ordering is requested.
pub mod atomic {
    pub use shuttle::sync::atomic::{
        AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

/// Threads.
pub mod thread {
    pub use shuttle::thread::{
        Builder, JoinHandle, Result, Scope, ScopedJoinHandle, Thread, ThreadId, current, panicking, park, scope, spawn,
        yield_now,
    };

    /// Spawns a thread within `scope`; the scheduler can always create one.
    ///
    /// # Errors
    /// None.
    pub fn spawn_in<'scope, 'env, T: Send + 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        _name: &str,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> std::io::Result<ScopedJoinHandle<'scope, T>> {
        Ok(scope.spawn(body))
    }

    /// Returns the number of threads that run at the same time: a constant, so that schedules repeat on any machine.
    pub fn parallelism() -> usize {
        4
    }
}

/// Whether the mutex was free a moment ago: always `false`, for the scheduler does not expose it, and no correctness
/// depends on it.
pub fn is_free<T>(_: &Mutex<T>) -> bool {
    false
}

/// Marks a turn of a loop that waits for another thread; the scheduler runs another one.
pub fn spin_hint() {
    shuttle::thread::yield_now();
}

/// Steps after which a schedule counts as an endless loop. A suite that goes through hundreds of recoveries in one
/// schedule takes about a million, which is the scheduler's own default.
const STEPS_MAX: usize = 20_000_000;

/// Stack of a scheduled thread: enough for recovery and for formatting a panic; the scheduler's own default is 32
/// KiB.
const STACK_BYTES: usize = 1 << 20;

/// Runs `body` `schedules` times, each time with other interleavings, all of them determined by `seed` and by the environment variable
/// `CEDRAT_SEED`.
pub fn explore(seed: u64, schedules: usize, body: impl Fn() + Send + Sync + 'static) {
    let scheduler = shuttle::scheduler::RandomScheduler::new_from_seed(first_seed(seed), schedules);
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS_MAX);
    shuttle::Runner::new(scheduler, config).run(body);
}

/// Whether the calling thread is one of a scheduled run: `true`, for this build has no others.
pub const fn is_scheduled() -> bool {
    true
}

/// Returns the number of turns that a loop spins before its thread sleeps: one, for another turn is only another step.
pub const fn spins(_turns: usize) -> usize {
    1
}

/// Runs `body` as a part of the run that [`explore`] has begun.
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

/// A mutex without poisoning; the interface of `parking_lot::Mutex`.
pub struct Mutex<T: ?Sized>(shuttle::sync::Mutex<T>);

/// Access to the data of a [`Mutex`], until dropped.
pub struct MutexGuard<'a, T: ?Sized> {
    /// Empty only inside [`Condvar::wait`], which borrows the guard exclusively.
    held: Option<shuttle::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// Creates a free mutex around `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    /// Returns the value; ownership proves that no thread holds the mutex.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free, and locks it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard { held: Some(guard) }
    }

    /// Locks the mutex if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(MutexGuard { held: Some(guard) }),
            Err(TryLockError::Poisoned(poisoned)) => Some(MutexGuard { held: Some(poisoned.into_inner()) }),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Returns the value without locking: the exclusive borrow proves that no thread holds the mutex.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Reading the value would be a step of the schedule.
        f.write_str("Mutex(..)")
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("the guard waits on a condition variable")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("the guard waits on a condition variable")
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A condition variable; the interface of `parking_lot::Condvar`.
#[derive(Default)]
pub struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    /// Creates a condition variable without waiters.
    pub const fn new() -> Condvar {
        Condvar(shuttle::sync::Condvar::new())
    }

    /// Releases the mutex, waits for a notification, and locks the mutex again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect("a guard waits once at a time");
        guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits while `condition` returns `true`.
    pub fn wait_while<T>(&self, guard: &mut MutexGuard<'_, T>, mut condition: impl FnMut(&mut T) -> bool) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Waits as [`Condvar::wait`] does: no time passes under the scheduler, so the wait never times out.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
        let held = guard.held.take().expect("a guard waits once at a time");
        let (held, result) = self.0.wait_timeout(held, time).unwrap_or_else(PoisonError::into_inner);
        guard.held = Some(held);
        result
    }

    /// Wakes one waiting thread, if there is one.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes every waiting thread.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar(..)")
    }
}

/// A reader-writer lock without poisoning; the interface of `parking_lot::RwLock`.
pub struct RwLock<T: ?Sized>(shuttle::sync::RwLock<T>);

/// Shared access to the data of a [`RwLock`], until dropped.
pub type RwLockReadGuard<'a, T> = shuttle::sync::RwLockReadGuard<'a, T>;

/// Exclusive access to the data of a [`RwLock`], until dropped.
pub type RwLockWriteGuard<'a, T> = shuttle::sync::RwLockWriteGuard<'a, T>;

impl<T> RwLock<T> {
    /// Creates a free lock around `value`.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(shuttle::sync::RwLock::new(value))
    }

    /// Returns the value; ownership proves that no thread holds the lock.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no thread holds the lock exclusively, and locks it shared.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no thread holds the lock, and locks it exclusively.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`write`](RwLock::write): no time passes.
    pub fn try_write_for(&self, _patience: Duration) -> Option<RwLockWriteGuard<'_, T>> {
        Some(self.write())
    }

    /// Locks it shared if no thread holds it exclusively.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        free(self.0.try_read())
    }

    /// Locks it exclusively if no thread holds it.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        free(self.0.try_write())
    }

    /// Returns the value without locking: the exclusive borrow proves that no thread holds the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

impl<T: ?Sized> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RwLock(..)")
    }
}

fn free<G>(attempt: Result<G, TryLockError<G>>) -> Option<G> {
    match attempt {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
