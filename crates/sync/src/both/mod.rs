//! Threads of the operating system and, within a run of the seeded scheduler, threads of that run: each operation asks, when it
//! is called, for which of them it is.
//!
//! The state is that of `real`: a lock is one of the system, an atomic one of the processor. A thread of a run never sleeps on
//! them. It tries, and waits in the run's own table, which the scheduler knows. So what was made outside of a run, a store for
//! instance, may be used in it, and afterwards. While a run lasts, threads outside of it must not wait for one of its threads.

pub mod atomic;
mod run;
pub mod thread;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::time::Duration;

use crate::real;
use run::{Place, begin_wait, end_wait, point, released, switch, taken, wait_for_lock, wake};

pub use crate::local_of_both as thread_local;
pub use run::{explore, is_scheduled, schedule};

/// The address by which a run knows an object.
fn address<T: ?Sized>(object: &T) -> usize {
    std::ptr::from_ref(object).cast::<()>().addr()
}

/// Takes a lock by `attempt`, waiting in the run's table as often as it is taken.
fn take<G>(lock: usize, what: &'static str, place: Place, attempt: impl Fn() -> Option<G>) -> G {
    switch(place);
    loop {
        if let Some(guard) = attempt() {
            taken(lock, place);
            return guard;
        }
        wait_for_lock(lock, what, place);
    }
}

/// Takes a lock by `attempt` if it is free.
fn try_take<G>(lock: usize, place: Place, attempt: impl FnOnce() -> Option<G>) -> Option<G> {
    if is_scheduled() {
        switch(place);
    }
    let guard = attempt()?;
    if is_scheduled() {
        taken(lock, place);
    }
    Some(guard)
}

/// A mutex.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(real::Mutex<T>);

/// Access to the data of a [`Mutex`], until dropped.
pub struct MutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
    /// Empty only while the thread waits on a condition variable.
    held: Option<real::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// Creates a free mutex around `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(real::Mutex::new(value))
    }

    /// Returns the value; ownership proves that no thread holds the mutex.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free, and locks it.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = match is_scheduled() {
            true => self.take(Location::caller()),
            false => self.0.lock(),
        };
        MutexGuard { lock: self, held: Some(held) }
    }

    fn take(&self, place: Place) -> real::MutexGuard<'_, T> {
        take(address(self), "a mutex", place, || self.0.try_lock())
    }

    /// Locks the mutex if it is free.
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = try_take(address(self), Location::caller(), || self.0.try_lock())?;
        Some(MutexGuard { lock: self, held: Some(held) })
    }

    /// Returns the value without locking: the exclusive borrow proves that no thread holds the mutex.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.held = None;
        if is_scheduled() {
            released(address(self.lock));
        }
    }
}

const WAITS: &str = "the guard waits on a condition variable";

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.held.as_ref().expect(WAITS)
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect(WAITS)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Whether the mutex was free a moment ago. A hint, on which no correctness depends; within a scheduled run always `false`.
pub fn is_free<T>(mutex: &Mutex<T>) -> bool {
    !is_scheduled() && real::is_free(&mutex.0)
}

/// Marks a turn of a loop that waits for another thread.
#[inline]
pub fn spin_hint() {
    if is_scheduled() { shuttle::thread::yield_now() } else { real::spin_hint() }
}

/// Returns the number of turns that a loop spins before its thread sleeps: `turns`, and one within a scheduled run, where another
/// turn is only another step.
#[inline]
pub fn spins(turns: usize) -> usize {
    if is_scheduled() { 1 } else { turns }
}

/// Whether a wait has timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns whether it has.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(real::Condvar);

impl Condvar {
    /// Creates a condition variable without waiters.
    pub const fn new() -> Condvar {
        Condvar(real::Condvar::new())
    }

    /// Releases the mutex, waits for a notification, and locks the mutex again.
    #[track_caller]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        match is_scheduled() {
            true => self.wait_in_run(guard, Location::caller()),
            false => self.0.wait(guard.held.as_mut().expect(WAITS)),
        }
    }

    fn wait_in_run<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, place: Place) {
        begin_wait(address(self), "a notification of a condition variable", place);
        guard.held = None;
        released(address(guard.lock));
        end_wait();
        guard.held = Some(guard.lock.take(place));
    }

    /// Waits while `condition` returns `true`.
    #[track_caller]
    pub fn wait_while<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, mut condition: impl FnMut(&mut T) -> bool) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Waits as [`Condvar::wait`] does, for at most `time`. Within a scheduled run no time passes.
    #[track_caller]
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
        if is_scheduled() {
            self.wait_in_run(guard, Location::caller());
            return WaitTimeoutResult(false);
        }
        WaitTimeoutResult(self.0.wait_for(guard.held.as_mut().expect(WAITS), time).timed_out())
    }

    /// Wakes one waiting thread, if there is one.
    #[track_caller]
    pub fn notify_one(&self) {
        self.notify(false);
    }

    /// Wakes every waiting thread.
    #[track_caller]
    pub fn notify_all(&self) {
        self.notify(true);
    }

    #[track_caller]
    fn notify(&self, all: bool) {
        if is_scheduled() {
            switch(Location::caller());
            wake(address(self), all);
        }
        // Threads outside of the run may wait, too.
        match all {
            true => self.0.notify_all(),
            false => self.0.notify_one() as usize,
        };
    }
}

/// A reader-writer lock.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(real::RwLock<T>);

/// Shared access to the data of a [`RwLock`], until dropped.
pub struct RwLockReadGuard<'a, T: ?Sized> {
    held: Option<real::RwLockReadGuard<'a, T>>,
    lock: usize,
}

/// Exclusive access to the data of a [`RwLock`], until dropped.
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    held: Option<real::RwLockWriteGuard<'a, T>>,
    lock: usize,
}

impl<T> RwLock<T> {
    /// Creates a free lock around `value`.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(real::RwLock::new(value))
    }

    /// Returns the value; ownership proves that no thread holds the lock.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no thread holds the lock exclusively, and locks it shared.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let (lock, place) = (address(self), Location::caller());
        let held = match is_scheduled() {
            true => take(lock, "a read lock", place, || self.0.try_read()),
            false => self.0.read(),
        };
        RwLockReadGuard { held: Some(held), lock }
    }

    /// Waits until no thread holds the lock, and locks it exclusively.
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let (lock, place) = (address(self), Location::caller());
        let held = match is_scheduled() {
            true => take(lock, "a write lock", place, || self.0.try_write()),
            false => self.0.write(),
        };
        RwLockWriteGuard { held: Some(held), lock }
    }

    /// As [`write`](RwLock::write), for at most `patience`. Then threads that wait to lock it shared are woken up. They may get
    /// the lock before the next call of this function or after it. Under the scheduler no time passes.
    #[track_caller]
    pub fn try_write_for(&self, patience: Duration) -> Option<RwLockWriteGuard<'_, T>> {
        if is_scheduled() {
            return Some(self.write());
        }
        Some(RwLockWriteGuard { held: Some(self.0.try_write_for(patience)?), lock: address(self) })
    }

    /// Locks it shared if no thread holds it exclusively.
    #[track_caller]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        let lock = address(self);
        let held = try_take(lock, Location::caller(), || self.0.try_read())?;
        Some(RwLockReadGuard { held: Some(held), lock })
    }

    /// Locks it exclusively if no thread holds it.
    #[track_caller]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        let lock = address(self);
        let held = try_take(lock, Location::caller(), || self.0.try_write())?;
        Some(RwLockWriteGuard { held: Some(held), lock })
    }

    /// Returns the value without locking: the exclusive borrow proves that no thread holds the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        self.held = None;
        if is_scheduled() {
            released(self.lock);
        }
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.held = None;
        if is_scheduled() {
            released(self.lock);
        }
    }
}

const HELD: &str = "a guard holds its lock until it is dropped";

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect(HELD)
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect(HELD)
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect(HELD)
    }
}

/// An integer whose change threads can wait for.
#[derive(Debug, Default)]
pub struct WaitWord(crate::word::WaitWord);

impl WaitWord {
    /// Creates a word that holds `value`.
    pub const fn new(value: u32) -> WaitWord {
        WaitWord(crate::word::WaitWord::new(value))
    }

    /// Returns the current value.
    #[track_caller]
    pub fn load(&self) -> u32 {
        point();
        self.0.load()
    }

    /// Sets the value without waking a thread.
    #[track_caller]
    pub fn store(&self, value: u32) {
        point();
        self.0.store(value);
    }

    /// Sets the value to `to` if it is `from`, and returns whether it was. Wakes no thread.
    #[track_caller]
    pub fn change(&self, from: u32, to: u32) -> bool {
        point();
        self.0.change(from, to)
    }

    /// Sleeps while the value is `expected`, until a wake-up or until `at_most` has elapsed. May return spuriously.
    #[track_caller]
    pub fn wait(&self, expected: u32, at_most: Option<Duration>) {
        if !is_scheduled() {
            return self.0.wait(expected, at_most);
        }
        switch(Location::caller());
        if self.0.load() == expected {
            begin_wait(address(self), "a change of a word", Location::caller());
            end_wait();
        }
    }

    /// Wakes one of the threads that sleep on the word.
    #[track_caller]
    pub fn wake_one(&self) {
        if is_scheduled() {
            switch(Location::caller());
            wake(address(self), false);
        }
        self.0.wake_one();
    }

    /// Wakes all threads that sleep on the word.
    #[track_caller]
    pub fn wake_all(&self) {
        if is_scheduled() {
            switch(Location::caller());
            wake(address(self), true);
        }
        self.0.wake_all();
    }
}
