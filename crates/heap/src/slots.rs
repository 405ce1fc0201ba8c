//! What running transactions publish: when they began, and what they are about to commit.
//!
//! ```text
//! committer                                    checkpointer
//! 1. committing := snapshot + 1                1. clock := newest
//! 2. lsn := newest += 1 (in the log)           2. per slot: committing
//! 3. words are written back                    before := min(clock, committing - 1)
//! 4. committing := none
//! ```
//!
//! As in the log's clock (E3.1): a checkpointer whose clock covers an LSN has seen the draw, and so the bound before it,
//! or the end of the write-back behind it. So every commit up to `before` is in the words that are copied from then on
//! (E4.1).

use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// No LSN: nothing runs, nothing is being committed.
const NONE: u64 = u64::MAX;

/// What one session publishes. Only its owner writes it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Slot {
    taken: AtomicBool,
    /// The snapshot with which the running transaction began.
    start: AtomicU64,
    /// The commit under way draws this LSN or a later one.
    committing: AtomicU64,
    /// The thread whose call the running transaction is, where it takes locks before it commits; else 0.
    thread: AtomicU64,
    /// The number of the prepared transaction that holds its locks until it is told its outcome; else 0.
    prepared: AtomicU64,
}

/// All slots of a memory.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Box<[Slot]>,
    /// No slot from this one on was ever taken.
    high: AtomicU64,
}

impl Slots {
    pub(crate) fn new(count: u32) -> Slots {
        let slot = || Slot {
            taken: AtomicBool::new(false),
            start: AtomicU64::new(NONE),
            committing: AtomicU64::new(NONE),
            thread: AtomicU64::new(0),
            prepared: AtomicU64::new(0),
        };
        Slots { slots: (0..count).map(|_| slot()).collect(), high: AtomicU64::new(0) }
    }

    /// Takes a slot that nobody has.
    pub(crate) fn take(&self) -> Option<u32> {
        for (number, slot) in self.slots.iter().enumerate() {
            if !slot.taken.load(Ordering::Relaxed) && !slot.taken.swap(true, Ordering::AcqRel) {
                self.high.fetch_max(number as u64 + 1, Ordering::SeqCst);
                return Some(number as u32);
            }
        }
        None
    }

    #[inline(always)]
    pub(crate) fn slot(&self, number: u32) -> &Slot {
        &self.slots[number as usize]
    }

    fn used(&self) -> impl Iterator<Item = &Slot> {
        self.slots[..self.high.load(Ordering::SeqCst) as usize].iter()
    }

    /// Every transaction that runs now began with this snapshot or a later one.
    pub(crate) fn oldest_start(&self) -> u64 {
        self.used().map(|slot| slot.start.load(Ordering::Acquire)).min().unwrap_or(NONE)
    }

    /// The words of every commit up to this LSN are written back. `clock` was read before (E4.1).
    pub(crate) fn written_back(&self, clock: u64) -> u64 {
        let bound = self.used().map(|slot| slot.committing.load(Ordering::Acquire)).min().unwrap_or(NONE);
        clock.min(bound - 1)
    }
}

cedrat_sync::thread_local! {
    static HERE: u8 = const { 0 };
}

/// A number that no other thread has that lives.
fn this_thread() -> u64 {
    HERE.with(|here| std::ptr::from_ref(here).addr() as u64)
}

impl Slot {
    /// A transaction begins. Not ordered with what it reads next: what relies on it looks at versions as well (E17.1).
    #[inline(always)]
    pub(crate) fn begin(&self, snapshot: u64) {
        self.start.store(snapshot, Ordering::Release);
    }

    /// The transaction that begins has locks while its work runs; `within_call`: from here on until this call returns.
    pub(crate) fn locks_early(&self, within_call: bool) {
        self.thread.store(if within_call { this_thread() } else { 0 }, Ordering::Relaxed);
    }

    /// Whether the transaction that has locks early waits for a call of this thread to return.
    pub(crate) fn waits_for_this_thread(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == this_thread()
    }

    /// The prepared transaction with this number holds its locks from now on; 0: none.
    pub(crate) fn holds(&self, txn: u64) {
        self.prepared.store(txn, Ordering::Relaxed);
    }

    /// The prepared transaction that holds its locks here.
    pub(crate) fn prepared(&self) -> Option<u64> {
        Some(self.prepared.load(Ordering::Relaxed)).filter(|&txn| txn != 0)
    }

    /// The snapshot with which the running transaction began.
    pub(crate) fn started(&self) -> u64 {
        self.start.load(Ordering::Relaxed)
    }

    /// The transaction has ended.
    #[inline(always)]
    pub(crate) fn end(&self) {
        self.start.store(NONE, Ordering::Release);
    }

    /// A commit is about to draw an LSN newer than `known` (E3.1).
    #[inline(always)]
    pub(crate) fn commits_after(&self, known: u64) {
        self.committing.store(known + 1, Ordering::Release);
    }

    /// The commit's words are written back, or there will be none.
    #[inline(always)]
    pub(crate) fn committed(&self) {
        self.committing.store(NONE, Ordering::Release);
    }
}
