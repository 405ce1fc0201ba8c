//! Mutexes and read-write locks that report a wrong order: the interface of `parking_lot`, for tests.
//!
//! A deadlock needs two threads at the wrong moment, so tests seldom meet one. The orders that make it possible show in every run:
//! one thread has taken lock B while it held A, and some thread, then or later, takes A while it holds B. Each lock of each store
//! is watched by itself, and the second thread panics instead of waiting; the message names the places in the source.
//!
//! `try_lock` and its kind do not wait, so they may be called in any order.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use parking_lot::WaitTimeoutResult;

type Place = &'static Location<'static>;

/// The locks that were taken while another one was held, by all threads of the process.
#[derive(Default)]
struct Orders {
    /// For each lock those that were waited for while it was held: where it was taken, and where they were.
    then: HashMap<u64, HashMap<u64, (Place, Place)>>,
}

impl Orders {
    /// Notes that `second` is waited for while `first` is held. Returns what speaks against it: the places where a thread has taken
    /// `second`, and then a lock on the way to `first`.
    fn note(&mut self, first: (u64, Place), second: (u64, Place)) -> Result<(), (Place, Place)> {
        if let Some(contrary) = self.way(second.0, first.0) {
            return Err(contrary);
        }
        self.then.entry(first.0).or_default().insert(second.0, (first.1, second.1));
        Ok(())
    }

    /// The first step on the way from one lock to another, if there is one.
    fn way(&self, from: u64, to: u64) -> Option<(Place, Place)> {
        let mut seen = HashSet::from([from]);
        let steps = |lock| self.then.get(&lock).into_iter().flatten();
        let mut open: Vec<(u64, (Place, Place))> = steps(from).map(|(&next, &places)| (next, places)).collect();
        while let Some((lock, first_step)) = open.pop() {
            if lock == to {
                return Some(first_step);
            }
            if seen.insert(lock) {
                open.extend(steps(lock).map(|(&next, _)| (next, first_step)));
            }
        }
        None
    }
}

/// One for the process: any of its threads may take a lock.
static ORDERS: LazyLock<parking_lot::Mutex<Orders>> = LazyLock::new(parking_lot::Mutex::default);

/// Orders that one thread remembers, so that it seldom asks for [`ORDERS`].
const REMEMBERED_MAX: usize = 4096;

thread_local! {
    static HELD: RefCell<Vec<(u64, Place)>> = const { RefCell::new(Vec::new()) };
    static REMEMBERED: RefCell<HashSet<(u64, u64)>> = RefCell::default();
}

/// The number of a lock, given when it is first taken, and given once.
#[derive(Default)]
struct Number(AtomicU64);

impl Number {
    const fn new() -> Number {
        Number(AtomicU64::new(0))
    }

    fn get(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = self.0.load(Ordering::Relaxed);
        if number != 0 {
            return number;
        }
        let new = NEXT.fetch_add(1, Ordering::Relaxed);
        self.0.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|given| given, |_| new)
    }

    /// The thread is about to wait for this lock.
    ///
    /// # Panics
    /// If it holds this lock, or one that some thread has waited for while it held this one.
    #[track_caller]
    fn wait(&self) {
        let place = Location::caller();
        let wrong = HELD.with_borrow(|held| held.iter().find_map(|&first| self.is_wrong_behind(first, place)));
        if let Some(wrong) = wrong
            && !std::thread::panicking()
        {
            panic!("{wrong}");
        }
    }

    fn is_wrong_behind(&self, first: (u64, Place), place: Place) -> Option<String> {
        let number = self.get();
        if first.0 == number {
            return Some(format!("{place}: takes a lock that this thread has taken at {}", first.1));
        }
        REMEMBERED.with_borrow_mut(|remembered| {
            if remembered.contains(&(first.0, number)) {
                return None;
            }
            if let Err((before, behind)) = ORDERS.lock().note(first, (number, place)) {
                return Some(format!(
                    "locks in two orders: {place} waits for one while that of {} is held; it was held at {before}, where {behind} \
                     led to the other",
                    first.1
                ));
            }
            if remembered.len() == REMEMBERED_MAX {
                remembered.clear();
            }
            remembered.insert((first.0, number));
            None
        })
    }

    #[track_caller]
    fn taken(&self) -> Held {
        let number = self.get();
        HELD.with_borrow_mut(|held| held.push((number, Location::caller())));
        Held(number)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        let number = *self.0.get_mut();
        if number != 0 {
            ORDERS.lock().then.remove(&number);
        }
    }
}

/// A lock among those that this thread holds.
struct Held(u64);

impl Drop for Held {
    fn drop(&mut self) {
        // A thread that ends may drop guards after what it remembers.
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(at) = held.iter().rposition(|&(number, _)| number == self.0) {
                held.remove(at);
            }
        });
    }
}

/// A mutex.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    number: Number,
    inner: parking_lot::Mutex<T>,
}

/// Access to what a [`Mutex`] protects, until dropped.
pub struct MutexGuard<'a, T: ?Sized> {
    inner: parking_lot::MutexGuard<'a, T>,
    number: &'a Number,
    held: Option<Held>,
}

impl<T> Mutex<T> {
    /// A free mutex around `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { number: Number::new(), inner: parking_lot::Mutex::new(value) }
    }

    /// The value; no thread can hold the mutex any more.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free and takes it.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.number.wait();
        let inner = self.inner.lock();
        MutexGuard { inner, number: &self.number, held: Some(self.number.taken()) }
    }

    /// Takes the mutex if it is free.
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let inner = self.inner.try_lock()?;
        Some(MutexGuard { inner, number: &self.number, held: Some(self.number.taken()) })
    }

    /// The value, without locking: the exclusive borrow proves that no thread holds the mutex.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    /// Whether a thread held the mutex a moment ago.
    pub fn is_locked(&self) -> bool {
        self.inner.is_locked()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// A condition variable that no thread waits on.
    pub const fn new() -> Condvar {
        Condvar(parking_lot::Condvar::new())
    }

    /// Gives the mutex back, waits to be notified, takes the mutex again.
    #[track_caller]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        guard.again(|inner| self.0.wait(inner));
    }

    /// Waits while `condition` says so.
    #[track_caller]
    pub fn wait_while<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, condition: impl FnMut(&mut T) -> bool) {
        guard.again(|inner| self.0.wait_while(inner, condition));
    }

    /// As [`Condvar::wait`], for at most `time`.
    #[track_caller]
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
        guard.again(|inner| self.0.wait_for(inner, time))
    }

    /// Wakes one waiting thread, if there is one.
    pub fn notify_one(&self) -> bool {
        self.0.notify_one()
    }

    /// Wakes every waiting thread.
    pub fn notify_all(&self) -> usize {
        self.0.notify_all()
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Runs `wait`, which gives the mutex back and takes it again, behind all that the thread holds.
    #[track_caller]
    fn again<R>(&mut self, wait: impl FnOnce(&mut parking_lot::MutexGuard<'a, T>) -> R) -> R {
        self.held = None;
        self.number.wait();
        let result = wait(&mut self.inner);
        self.held = Some(self.number.taken());
        result
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Many readers or one writer.
#[derive(Default)]
pub struct RwLock<T: ?Sized> {
    number: Number,
    inner: parking_lot::RwLock<T>,
}

/// Shared access to what a [`RwLock`] protects, until dropped.
pub struct RwLockReadGuard<'a, T: ?Sized> {
    inner: parking_lot::RwLockReadGuard<'a, T>,
    _held: Held,
}

/// Exclusive access to what a [`RwLock`] protects, until dropped.
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    inner: parking_lot::RwLockWriteGuard<'a, T>,
    _held: Held,
}

impl<T> RwLock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock { number: Number::new(), inner: parking_lot::RwLock::new(value) }
    }

    /// The value; no thread can hold the lock any more.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no thread writes, and reads. A thread that reads must not ask again: a writer may wait in between.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.number.wait();
        RwLockReadGuard { inner: self.inner.read(), _held: self.number.taken() }
    }

    /// Waits until no thread reads or writes, and writes.
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.number.wait();
        RwLockWriteGuard { inner: self.inner.write(), _held: self.number.taken() }
    }

    /// As [`write`](RwLock::write), for at most `patience`. Then threads that wait to read are woken up. They may get the lock
    /// before the next call of this function or after it.
    #[track_caller]
    pub fn try_write_for(&self, patience: Duration) -> Option<RwLockWriteGuard<'_, T>> {
        self.number.wait();
        Some(RwLockWriteGuard { inner: self.inner.try_write_for(patience)?, _held: self.number.taken() })
    }

    /// Reads if no thread writes.
    #[track_caller]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        Some(RwLockReadGuard { inner: self.inner.try_read()?, _held: self.number.taken() })
    }

    /// Writes if no thread reads or writes.
    #[track_caller]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        Some(RwLockWriteGuard { inner: self.inner.try_write()?, _held: self.number.taken() })
    }

    /// The value, without locking: the exclusive borrow proves that no thread holds the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn panics(work: impl FnOnce()) -> Option<String> {
        catch_unwind(AssertUnwindSafe(work)).err().map(|panic| *panic.downcast::<String>().expect("a message"))
    }

    #[test]
    fn second_order_of_two_locks_panics() {
        let (a, b, c) = (Mutex::new(1), RwLock::new(2), Mutex::new(3));
        let both = |first: &dyn Fn() -> i32| first();
        assert_eq!(both(&|| *a.lock() + *b.read()), 3);
        assert_eq!(both(&|| *b.write() + *c.lock()), 5);
        // The same order again, a lock alone, and a lock that is not waited for.
        assert_eq!(both(&|| *a.lock() + *b.write() + *c.lock()), 6);
        assert_eq!(both(&|| *c.lock() + *a.try_lock().expect("it is free")), 4);
        let message = panics(|| {
            let _held = c.lock();
            drop(a.lock());
        });
        assert!(message.is_some_and(|message| message.contains("locks in two orders") && message.contains(file!())));
        assert_eq!(HELD.with_borrow(Vec::len), 0, "guards that a panic has dropped are not held");
    }

    #[test]
    fn lock_taken_twice_panics() {
        let (a, b) = (Mutex::new(()), RwLock::new(()));
        let twice = [
            panics(|| {
                let _held = a.lock();
                drop(a.lock());
            }),
            panics(|| {
                let _held = b.read();
                drop(b.read());
            }),
        ];
        for message in twice {
            assert!(message.is_some_and(|message| message.contains("takes a lock that this thread has taken")));
        }
    }

    #[test]
    fn waiting_takes_the_mutex_anew() {
        let (a, b, changed) = (Mutex::new(()), Mutex::new(()), Condvar::new());
        let mut first = a.lock();
        drop(b.lock());
        let message = panics(|| {
            let _second = b.lock();
            changed.wait_for(&mut first, Duration::from_millis(1));
        });
        assert!(message.is_some_and(|message| message.contains("locks in two orders")));
    }

    #[test]
    fn orders_of_a_dropped_lock_are_forgotten() {
        let a = Mutex::new(());
        let number = a.number.get();
        {
            let b = Mutex::new(());
            let _held = a.lock();
            drop(b.lock());
        }
        assert!(ORDERS.lock().then.contains_key(&number));
        drop(a);
        assert!(!ORDERS.lock().then.contains_key(&number));
    }
}
