//! Latches of structures: who may follow the pointers between pages while they are being bent.
//!
//! Every insert, and a get that others disturb, takes its structure's latch shared; a change of shape takes it exclusively. So
//! the shared side is spread over several counters, each on cache lines of its own: readers on different cores do not
//! pass a line back and forth. The price is paid by the writer, who looks at all of them. Readers that only read may
//! do with less, a [`Stamp`], which writes nothing at all.

use std::cell::Cell;

use cedrat_sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use cedrat_sync::{Arc, WaitWord, spin_hint, thread_local};

use crate::order::{Held, LatchRank, Latched};

/// Counters of readers. Under the seeded scheduler one, so that a schedule does not depend on addresses.
const SHARDS: usize = if cfg!(cedrat_shuttle) { 1 } else { 16 };

/// Turns before sleeping: a few. An exclusive latch is held across several page changes, as a rule longer than it takes to
/// sleep and be woken.
const SPINS: usize = if cfg!(cedrat_shuttle) { 1 } else { 40 };

/// Somebody changes the shape, or waits until the last reader has gone.
const EXCLUSIVE: u64 = 1;
/// One change of shape.
const VERSION: u64 = 2;

/// Two cache lines, because processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Readers(AtomicU64);

thread_local! {
    /// Its address tells threads apart.
    static HERE: Cell<u8> = const { Cell::new(0) };
}

/// A latch that protects the shape of one structure over several pages (E13.3).
///
/// Taken before any page latch, and in ascending rank; debug builds panic otherwise. A waiting writer holds new readers
/// back, so a thread must not take the same latch twice. Not held across calls into user code.
#[derive(Debug)]
pub struct StructureLatch {
    rank: LatchRank,
    state: AtomicU64,
    readers: [Readers; SHARDS],
    /// Where those sleep that wait for the end of a change.
    opened: Bed,
    /// Where the writer sleeps until the last reader has gone.
    drained: Bed,
}

/// Where threads sleep until something is so.
///
/// Two beds for a latch, because whoever is woken for nothing has to go to sleep again: with hundreds of threads on a
/// few processors that was most of what an insert cost.
#[derive(Debug, Default)]
struct Bed {
    /// Changes with every wake-up call.
    calls: WaitWord,
    sleepers: AtomicU32,
}

impl Bed {
    /// Returns when it `is_so`, which must look with sequential consistency.
    fn sleep_until(&self, is_so: impl Fn() -> bool) {
        for _ in 0..SPINS {
            if is_so() {
                return;
            }
            spin_hint();
        }
        // Sequentially consistent with `wake`: either it sees the sleeper or the sleeper sees that it is so.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        loop {
            let calls = self.calls.load();
            if is_so() {
                break;
            }
            self.calls.wait(calls, None);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Lets those who sleep look again. To be called after it became so, with sequential consistency.
    #[inline]
    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
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
    /// A latch that nobody holds.
    pub fn new(rank: LatchRank) -> StructureLatch {
        StructureLatch {
            rank,
            state: AtomicU64::new(0),
            readers: std::array::from_fn(|_| Readers(AtomicU64::new(0))),
            opened: Bed::default(),
            drained: Bed::default(),
        }
    }

    /// Its place in the order.
    pub fn rank(&self) -> LatchRank {
        self.rank
    }

    /// Waits until nobody changes the shape, and keeps it until dropped.
    #[inline]
    pub fn shared(&self) -> SharedStructure<'_> {
        let held = Held::take(Latched::Structure(self.rank));
        SharedStructure { latch: self, shard: self.enter(), _held: held }
    }

    /// Waits until nobody else looks at or changes the shape, and keeps everybody away until dropped.
    pub fn exclusive(&self) -> ExclusiveStructure<'_> {
        let held = Held::take(Latched::Structure(self.rank));
        self.close();
        ExclusiveStructure { latch: self, _held: held }
    }

    /// As [`StructureLatch::exclusive`], if nobody is in the way now; for changes of shape that can be made later as well.
    ///
    /// Waiting for the last reader holds all others back, and where there are more threads than processors that reader may
    /// be one whose turn has not come. Trying holds them back for a moment only.
    pub fn try_exclusive(&self) -> Option<ExclusiveStructure<'_>> {
        let held = Held::take(Latched::Structure(self.rank));
        if !self.begin_close() {
            return None;
        }
        if self.readers.iter().any(|readers| readers.0.load(Ordering::SeqCst) > 0) {
            // Nothing was changed: whoever reads without the latch need not hear of it.
            self.state.fetch_sub(EXCLUSIVE, Ordering::SeqCst);
            self.opened.wake();
            return None;
        }
        fence(Ordering::Release); // as in `close`
        Some(ExclusiveStructure { latch: self, _held: held })
    }

    /// As [`StructureLatch::exclusive`], for whoever keeps the latch longer than a borrow of the structure, as a nested
    /// top action does (E13.4).
    pub fn exclusive_owned(self: &Arc<Self>) -> OwnedExclusiveStructure {
        let held = Held::take(Latched::Structure(self.rank));
        self.close();
        OwnedExclusiveStructure { latch: Arc::clone(self), _held: held }
    }

    /// As [`StructureLatch::shared`], owned.
    pub fn shared_owned(self: &Arc<Self>) -> OwnedSharedStructure {
        let held = Held::take(Latched::Structure(self.rank));
        let shard = self.enter();
        OwnedSharedStructure { latch: Arc::clone(self), shard, _held: held }
    }

    /// Begins to read without holding anything; None while somebody changes the shape: then take it shared.
    #[inline(always)]
    pub fn stamp(&self) -> Option<Stamp> {
        let state = self.state.load(Ordering::Acquire);
        (state & EXCLUSIVE == 0).then_some(Stamp(state))
    }

    /// Whether the shape has not changed since `stamp`. What was read in between counts only if so (E12.2).
    #[inline(always)]
    pub fn is_unchanged_since(&self, stamp: Stamp) -> bool {
        fence(Ordering::Acquire);
        self.state.load(Ordering::Relaxed) == stamp.0
    }

    #[inline]
    fn enter(&self) -> usize {
        let shard = this_shard();
        loop {
            // Sequentially consistent with `close`: either we see the writer or the writer sees us.
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
        for readers in &self.readers {
            self.drained.sleep_until(|| readers.0.load(Ordering::SeqCst) == 0);
        }
        // Whoever sees a change made under this latch also sees that it was held (with `is_unchanged_since`).
        fence(Ordering::Release);
    }

    /// Keeps new readers out, unless somebody else does already.
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
    let here = HERE.with(|here| std::ptr::from_ref(here).addr());
    // Thread-local memory of two threads differs in the higher bits, which the product mixes into the top.
    (here.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % SHARDS
}

/// The shape is looked at.
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

/// The shape is looked at, for as long as the holder likes.
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

/// The shape is changed.
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

/// The shape is changed, for as long as the holder likes.
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
