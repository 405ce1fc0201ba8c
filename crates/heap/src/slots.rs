//! Slots, in which running transactions publish their start and the LSN that they are about to commit.
//!
//! ```text
//! committer                                    checkpointer
//! 1. committing := snapshot + 1                1. clock := newest
//! 2. lsn := newest += 1 (in the log)           2. per slot: committing
//! 3. words are written back                    before := min(clock, committing - 1)
//! 4. committing := none
//! ```
//!
//! As in the log's clock (E3.1): a checkpointer whose clock covers an LSN has seen either the draw, and so the bound
//! published before it, or the end of the write-back after it. Every commit up to `before` is therefore in the words that
//! are copied from then on (E4.1).

use std::time::{Duration, Instant};

use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cedrat_sync::{Mutex, thread_number};
use cedrat_wal::TxnId;

use crate::stripes::Stripes;
use crate::waits::{Awaited, Via};

/// Not an LSN: no transaction runs, none is being committed.
const NONE: u64 = u64::MAX;

/// Published state of one session. Only its owner writes it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Slot {
    taken: AtomicBool,
    /// Snapshot with which the running transaction began.
    start: AtomicU64,
    /// Lower bound of the LSN that the commit in progress draws.
    committing: AtomicU64,
    /// Thread that has begun the running transaction, or has acquired its newest lock, if it takes locks before it commits.
    thread: AtomicU64,
    /// Whether that thread is in a call that runs the transaction until it commits.
    within_call: AtomicBool,
    /// Number of the prepared transaction that holds its locks until it receives its outcome; else 0.
    prepared: AtomicU64,
    /// Set while the session repeats a transaction.
    repetition: Mutex<Option<Repetition>>,
    /// Commits that have written words.
    #[cfg(feature = "counts")]
    commits: AtomicU64,
}

/// Repetition of a transaction after conflicts.
#[derive(Clone, Copy, Debug)]
struct Repetition {
    since: Instant,
    /// The larger transaction that is repeated with it, and releases its locks each time.
    txn: Option<TxnId>,
    /// The stripe that it last met locked, once it has been repeated for long.
    awaits: Option<u32>,
}

/// All slots of a memory.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Box<[Slot]>,
    /// Exclusive upper bound of the slots that were ever taken.
    high: AtomicU64,
}

impl Slots {
    pub(crate) fn new(count: u32) -> Slots {
        let slot = || Slot {
            taken: AtomicBool::new(false),
            start: AtomicU64::new(NONE),
            committing: AtomicU64::new(NONE),
            thread: AtomicU64::new(0),
            within_call: AtomicBool::new(false),
            prepared: AtomicU64::new(0),
            repetition: Mutex::new(None),
            #[cfg(feature = "counts")]
            commits: AtomicU64::new(0),
        };
        Slots { slots: (0..count).map(|_| slot()).collect(), high: AtomicU64::new(0) }
    }

    /// Claims a free slot.
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

    /// Returns a lower bound of the snapshots with which the running transactions began.
    pub(crate) fn oldest_start(&self) -> u64 {
        self.used().map(|slot| slot.start.load(Ordering::Acquire)).min().unwrap_or(NONE)
    }

    /// Returns an LSN up to which the words of every commit are written back. `clock` was read before (E4.1).
    pub(crate) fn written_back(&self, clock: u64) -> u64 {
        let bound = self.used().map(|slot| slot.committing.load(Ordering::Acquire)).min().unwrap_or(NONE);
        clock.min(bound - 1)
    }

    /// Returns the number of commits of all slots that have written words.
    #[cfg(feature = "counts")]
    pub(crate) fn commits(&self) -> u64 {
        self.used().map(|slot| slot.commits.load(Ordering::Relaxed)).sum()
    }

    /// Returns whether a repeated transaction awaits a stripe.
    #[cfg(all(test, not(cedrat_shuttle)))]
    pub(crate) fn awaits_any(&self) -> bool {
        self.used().any(|slot| slot.repetition.lock().is_some_and(|repetition| repetition.awaits.is_some()))
    }

    /// Returns the transactions whose words `thread` waits for, as it repeats others; except for `via`, which releases its own locks
    /// each time.
    pub(crate) fn awaited_by(&self, thread: usize, via: Via, stripes: &Stripes) -> Vec<Awaited> {
        let mut awaited = Vec::new();
        for (number, slot) in self.used().enumerate().filter(|(_, slot)| slot.thread() == thread) {
            let Some(Repetition { txn, awaits: Some(stripe), .. }) = *slot.repetition.lock() else { continue };
            if via == Via::Slot(number as u32) || txn.is_some_and(|txn| via == Via::Txn(txn)) {
                continue;
            }
            let owner = stripes.look(stripe).owner();
            awaited.extend(owner.map(|owner| Awaited { thread: self.slot(owner).thread(), via: Via::Slot(owner) }));
        }
        awaited
    }
}

impl Slot {
    /// Counts a commit. Only the session that has the slot does.
    #[cfg(feature = "counts")]
    pub(crate) fn count_commit(&self) {
        self.commits.store(self.commits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Publishes that a transaction begins. Not ordered with its next reads: code that relies on it checks versions as well
    /// (E17.1).
    #[inline(always)]
    pub(crate) fn begin(&self, snapshot: u64) {
        self.start.store(snapshot, Ordering::Release);
    }

    /// Publishes that the transaction takes locks while its work runs; `within_call`: in a call of this thread that runs it
    /// until it commits.
    pub(crate) fn locks_early(&self, within_call: bool) {
        self.within_call.store(within_call, Ordering::Relaxed);
        self.lock_here();
    }

    /// Publishes that this thread may acquire locks for the transaction.
    pub(crate) fn lock_here(&self) {
        self.thread.store(thread_number() as u64, Ordering::Relaxed);
    }

    /// Returns the thread that has begun the running transaction or has made its last call that may lock, if the transaction
    /// takes locks before it commits; otherwise 0 or any thread.
    pub(crate) fn thread(&self) -> usize {
        self.thread.load(Ordering::Relaxed) as usize
    }

    /// Publishes that the session repeats a transaction, since that moment or an earlier one.
    pub(crate) fn repeats(&self, since: Instant, txn: Option<TxnId>) {
        self.repetition.lock().get_or_insert(Repetition { since, txn, awaits: None });
    }

    /// Publishes that the session repeats none any more.
    pub(crate) fn ends_repetition(&self) {
        *self.repetition.lock() = None;
    }

    /// Publishes that the repeated transaction has met a locked stripe, if it has been repeated for `patience`, and returns whether
    /// it has.
    pub(crate) fn awaits(&self, stripe: u32, patience: Duration) -> bool {
        let mut repetition = self.repetition.lock();
        let Some(repetition) = repetition.as_mut().filter(|repetition| repetition.since.elapsed() >= patience) else {
            return false;
        };
        repetition.awaits = Some(stripe);
        true
    }

    /// Returns the moment since which the session repeats a transaction.
    pub(crate) fn repeated_since(&self) -> Option<Instant> {
        Some(self.repetition.lock().as_ref()?.since)
    }

    /// Returns the larger transaction that is repeated with this one.
    pub(crate) fn repeated_txn(&self) -> Option<TxnId> {
        self.repetition.lock().as_ref()?.txn
    }

    /// Returns whether a transaction that meets a lock of this one, on the current thread, would wait for that thread: one of
    /// the two runs in a call that does not return before it has committed.
    pub(crate) fn waits_for_this_thread(&self, other: &Slot) -> bool {
        self.thread() == thread_number()
            && (self.within_call.load(Ordering::Relaxed) || other.within_call.load(Ordering::Relaxed))
    }

    /// Publishes that the prepared transaction with this number holds its locks from now on; 0: none.
    pub(crate) fn holds(&self, txn: u64) {
        self.prepared.store(txn, Ordering::Relaxed);
    }

    /// Returns the prepared transaction that holds its locks here.
    pub(crate) fn prepared(&self) -> Option<u64> {
        Some(self.prepared.load(Ordering::Relaxed)).filter(|&txn| txn != 0)
    }

    /// Returns the snapshot with which the running transaction began.
    pub(crate) fn started(&self) -> u64 {
        self.start.load(Ordering::Relaxed)
    }

    /// Publishes that the transaction has ended.
    #[inline(always)]
    pub(crate) fn end(&self) {
        self.start.store(NONE, Ordering::Release);
    }

    /// Publishes that a commit is about to draw an LSN newer than `known` (E3.1).
    #[inline(always)]
    pub(crate) fn commits_after(&self, known: u64) {
        self.committing.store(known + 1, Ordering::Release);
    }

    /// Publishes that the commit's words are written back, or that there will be none.
    #[inline(always)]
    pub(crate) fn committed(&self) {
        self.committing.store(NONE, Ordering::Release);
    }
}
