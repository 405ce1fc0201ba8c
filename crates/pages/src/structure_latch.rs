//! Latches of structures, which protect pointers between pages while these change.
//!
//! Every insert, and a get whose optimistic read failed, takes its structure's latch shared; a change of shape takes
//! it exclusively. So the shared side is spread over several counters, each on cache lines of its own: readers on
//! different cores do not contend for a line. The price is paid by the writer, which reads all of them. Readers that
//! only read can use a [`Stamp`], which writes nothing at all.

use std::cell::Cell;

use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use cedrat_sync::{Arc, WaitWord, is_scheduled, spin_hint, spins, thread_local};

use crate::order::{Held, LatchRank, Latched};

/// The number of reader counters. Under the seeded scheduler one is used, so that a schedule does not depend on addresses.
const SHARDS: usize = 16;

/// The number of spins before sleeping: a few. An exclusive latch is held across several page changes, usually longer
/// than sleeping and waking take.
const SPINS: usize = 40;

/// A thread changes the shape, or waits until the last reader has left.
const EXCLUSIVE: u64 = 1;
/// The increment of the version, one change of shape.
const VERSION: u64 = 2;

/// Two cache lines, because processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Readers(AtomicU64);

thread_local! {
    /// A variable whose address identifies the thread.
    static HERE: Cell<u8> = const { Cell::new(0) };
}

/// A latch that protects the shape of one structure over several pages.
///
/// Taken before any page latch, and in ascending rank; debug builds panic otherwise. A waiting writer holds new
/// readers back, so a thread must not take the same latch twice. Not held across calls into user code.
#[derive(Debug)]
pub struct StructureLatch {
    rank: LatchRank,
    state: AtomicU64,
    readers: [Readers; SHARDS],
    /// The wait queue of threads that wait for the end of a change.
    opened: WaitQueue,
    /// The wait queue of the writer that waits for the last reader.
    drained: WaitQueue,
}

/// A queue of threads that wait for a condition.
///
/// A latch has two queues, because a thread that is woken needlessly has to sleep again: with hundreds of threads on
/// a few processors that was most of the cost of an insert.
#[derive(Debug, Default)]
struct WaitQueue {
    /// Changes with every wake-up.
    calls: WaitWord,
    /// Whether a thread may have gone to sleep since the last wake-up. Not a count that sleepers reduce: with more threads
    /// than processors they run long after they were woken, and every release until then would wake again.
    has_sleepers: AtomicBool,
}

impl WaitQueue {
    /// Returns when `is_so` returns `true`; it must read with sequential consistency.
    fn sleep_until(&self, is_so: impl Fn() -> bool) {
        for _ in 0..spins(SPINS) {
            if is_so() {
                return;
            }
            spin_hint();
        }
        loop {
            // Read before the flag is set: a wake-up resets the flag and then changes this number, which ends the sleep.
            let calls = self.calls.load();
            // Sequentially consistent with `wake`: either it sees the sleeper or the sleeper sees the condition.
            self.has_sleepers.store(true, Ordering::SeqCst);
            if is_so() {
                return;
            }
            self.calls.wait(calls, None);
        }
    }

    /// Wakes all sleepers, which check their condition again. To be called after the change of the condition, with
    /// sequential consistency.
    #[inline]
    fn wake(&self) {
        if self.has_sleepers.load(Ordering::SeqCst) && self.has_sleepers.swap(false, Ordering::SeqCst) {
            self.call();
        }
    }

    #[cold]
    fn call(&self) {
        loop {
            let calls = self.calls.load();
            if self.calls.change(calls, calls.wrapping_add(1)) {
                return self.calls.wake_all();
            }
        }
    }
}

/// The moment at which an optimistic reader began.
#[derive(Clone, Copy, Debug)]
pub struct Stamp(u64);

impl StructureLatch {
    /// Creates a latch that no thread holds.
    pub fn new(rank: LatchRank) -> StructureLatch {
        StructureLatch {
            rank,
            state: AtomicU64::new(0),
            readers: std::array::from_fn(|_| Readers(AtomicU64::new(0))),
            opened: WaitQueue::default(),
            drained: WaitQueue::default(),
        }
    }

    /// Returns the rank of the latch.
    pub fn rank(&self) -> LatchRank {
        self.rank
    }

    /// Waits until no thread changes the shape, and keeps it unchanged until dropped.
    #[inline]
    pub fn shared(&self) -> SharedStructure<'_> {
        let held = Held::take(Latched::Structure(self.rank));
        SharedStructure { latch: self, shard: self.enter(), _held: held }
    }

    /// Waits until no other thread reads or changes the shape, and excludes all others until dropped.
    pub fn exclusive(&self) -> ExclusiveStructure<'_> {
        let held = Held::take(Latched::Structure(self.rank));
        self.close();
        ExclusiveStructure { latch: self, _held: held }
    }

    /// Takes the latch as [`StructureLatch::exclusive`] does, if that is possible without waiting; for changes of
    /// shape that can also be made later.
    ///
    /// Waiting for the last reader holds all others back, and with more threads than processors that reader may not
    /// be running. Trying holds them back for a moment only.
    pub fn try_exclusive(&self) -> Option<ExclusiveStructure<'_>> {
        let held = Held::take(Latched::Structure(self.rank));
        // Readers are looked for first: while the latch is closed for a moment, threads that arrive may fall asleep.
        if self.has_readers() || !self.begin_close() {
            return None;
        }
        if self.has_readers() {
            // Nothing was changed: optimistic readers need not fail.
            self.state.fetch_sub(EXCLUSIVE, Ordering::SeqCst);
            self.opened.wake();
            return None;
        }
        fence(Ordering::Release); // as in `wait_for_readers`
        Some(ExclusiveStructure { latch: self, _held: held })
    }

    /// Takes the latch as [`StructureLatch::exclusive`] does, unless another thread has it exclusively or waits for that;
    /// for changes of shape that many threads find due at the same time. Only one of them waits for the last reader.
    pub fn exclusive_unless_closed(&self) -> Option<ExclusiveStructure<'_>> {
        let held = Held::take(Latched::Structure(self.rank));
        if !self.begin_close() {
            return None;
        }
        self.wait_for_readers();
        Some(ExclusiveStructure { latch: self, _held: held })
    }

    /// Takes the latch as [`StructureLatch::exclusive`] does, for a caller that keeps the latch longer than a borrow
    /// of the structure, as a nested top action does.
    pub fn exclusive_owned(self: &Arc<Self>) -> OwnedExclusiveStructure {
        let held = Held::take(Latched::Structure(self.rank));
        self.close();
        OwnedExclusiveStructure { latch: Arc::clone(self), _held: held }
    }

    /// Takes the latch as [`StructureLatch::shared`] does, owned.
    pub fn shared_owned(self: &Arc<Self>) -> OwnedSharedStructure {
        let held = Held::take(Latched::Structure(self.rank));
        let shard = self.enter();
        OwnedSharedStructure { latch: Arc::clone(self), shard, _held: held }
    }

    /// Begins to read without holding a latch; `None` while a thread changes the shape: then take the latch shared.
    #[inline(always)]
    pub fn stamp(&self) -> Option<Stamp> {
        let state = self.state.load(Ordering::Acquire);
        (state & EXCLUSIVE == 0).then_some(Stamp(state))
    }

    /// Whether the shape has not changed since `stamp`. Only then is the data read in between valid.
    #[inline(always)]
    pub fn is_unchanged_since(&self, stamp: Stamp) -> bool {
        fence(Ordering::Acquire);
        self.state.load(Ordering::Relaxed) == stamp.0
    }

    #[inline]
    fn enter(&self) -> usize {
        let shard = this_shard();
        loop {
            // Sequentially consistent with `close`: either this reader sees the writer or the writer sees this
            // reader.
            self.readers[shard].0.fetch_add(1, Ordering::SeqCst);
            if self.state.load(Ordering::SeqCst) & EXCLUSIVE == 0 {
                return shard;
            }
            self.leave(shard);
            self.opened.sleep_until(|| self.state.load(Ordering::SeqCst) & EXCLUSIVE == 0);
        }
    }

    #[inline]
    fn leave(&self, shard: usize) {
        let last = self.readers[shard].0.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && self.state.load(Ordering::SeqCst) & EXCLUSIVE != 0 {
            self.drained.wake();
        }
    }

    fn close(&self) {
        while !self.begin_close() {
            self.opened.sleep_until(|| self.state.load(Ordering::SeqCst) & EXCLUSIVE == 0);
        }
        self.wait_for_readers();
    }

    fn has_readers(&self) -> bool {
        self.readers.iter().any(|readers| readers.0.load(Ordering::SeqCst) > 0)
    }

    /// Waits until the last reader has left. This thread has closed the latch.
    fn wait_for_readers(&self) {
        for readers in &self.readers {
            self.drained.sleep_until(|| readers.0.load(Ordering::SeqCst) == 0);
        }
        // A thread that sees a change made under this latch also sees that it was held (with `is_unchanged_since`).
        fence(Ordering::Release);
    }

    /// Excludes new readers, unless another thread does already.
    fn begin_close(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        state & EXCLUSIVE == 0
            && self.state.compare_exchange(state, state | EXCLUSIVE, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    fn open(&self) {
        self.state.fetch_add(VERSION - EXCLUSIVE, Ordering::SeqCst);
        self.opened.wake();
    }
}

#[inline(always)]
fn this_shard() -> usize {
    if is_scheduled() {
        return 0;
    }
    let here = HERE.with(|here| std::ptr::from_ref(here).addr());
    // Thread-local memory of two threads differs in the higher bits, which the product mixes into the top.
    (here.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % SHARDS
}

/// The shared latch of a structure.
#[derive(Debug)]
#[must_use]
pub struct SharedStructure<'a> {
    latch: &'a StructureLatch,
    shard: usize,
    _held: Held,
}

impl Drop for SharedStructure<'_> {
    #[inline]
    fn drop(&mut self) {
        self.latch.leave(self.shard);
    }
}

/// The shared latch of a structure, owned by its holder.
#[derive(Debug)]
#[must_use]
pub struct OwnedSharedStructure {
    latch: Arc<StructureLatch>,
    shard: usize,
    _held: Held,
}

impl Drop for OwnedSharedStructure {
    fn drop(&mut self) {
        self.latch.leave(self.shard);
    }
}

/// The exclusive latch of a structure.
#[derive(Debug)]
#[must_use]
pub struct ExclusiveStructure<'a> {
    latch: &'a StructureLatch,
    _held: Held,
}

impl Drop for ExclusiveStructure<'_> {
    fn drop(&mut self) {
        self.latch.open();
    }
}

/// The exclusive latch of a structure, owned by its holder.
#[derive(Debug)]
#[must_use]
pub struct OwnedExclusiveStructure {
    latch: Arc<StructureLatch>,
    _held: Held,
}

impl Drop for OwnedExclusiveStructure {
    fn drop(&mut self) {
        self.latch.open();
    }
}

/// A latch that one thread holds at a time, for a part of a structure. It takes one cache line, where a [`StructureLatch`]
/// takes two kilobytes.
///
/// In the order of latches it is a structure latch of its rank.
#[derive(Debug)]
#[repr(align(64))]
pub struct PartLatch {
    rank: LatchRank,
    /// One of [`FREE`], [`HELD`] and [`AWAITED`].
    state: WaitWord,
}

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and another thread may sleep until it is released.
const AWAITED: u32 = 2;

impl PartLatch {
    /// Creates a latch that no thread holds.
    pub const fn new(rank: LatchRank) -> PartLatch {
        PartLatch { rank, state: WaitWord::new(FREE) }
    }

    /// Waits until no other thread holds the latch, and excludes all others until dropped.
    #[inline]
    pub fn exclusive(&self) -> ExclusivePart<'_> {
        let held = Held::take(Latched::Structure(self.rank));
        if !self.state.change(FREE, HELD) {
            self.wait();
        }
        ExclusivePart { latch: self, _held: held }
    }

    #[cold]
    fn wait(&self) {
        for _ in 0..spins(SPINS) {
            if self.state.change(FREE, HELD) {
                return;
            }
            spin_hint();
        }
        // Whether others sleep is unknown from here on, so the release wakes one of them.
        while !self.state.change(FREE, AWAITED) {
            if self.state.load() == AWAITED || self.state.change(HELD, AWAITED) {
                self.state.wait(AWAITED, None);
            }
        }
    }
}

/// The latch of a part of a structure.
#[derive(Debug)]
#[must_use]
pub struct ExclusivePart<'a> {
    latch: &'a PartLatch,
    _held: Held,
}

impl Drop for ExclusivePart<'_> {
    #[inline]
    fn drop(&mut self) {
        let state = &self.latch.state;
        if !state.change(HELD, FREE) {
            state.store(FREE); // only the holder changes `AWAITED`
            state.wake_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use cedrat_sync::explore;

    use super::*;

    /// With more threads than processors, a thread that was woken runs much later: until then nothing more is to be done
    /// for it.
    #[test]
    fn sleepers_are_woken_once() {
        explore(1, 1, || {
            let queue = WaitQueue::default();
            queue.wake();
            assert_eq!(queue.calls.load(), 0, "no thread sleeps");
            // As set by a thread that has not run since.
            queue.has_sleepers.store(true, Ordering::SeqCst);
            queue.wake();
            queue.wake();
            assert_eq!(queue.calls.load(), 1);
        });
    }
}
