//! The state of a page: one word with its residence and its holders (vmcache: Leis et al., SIGMOD 2023).
//!
//! ```text
//!            begin_load            finish_load
//!     Out ───────────────▶ Loading ───────────▶ In ◀──┬──▶ Shared × n
//!      ▲                      │                 │     └──▶ Exclusive
//!      └──── abandon ─────────┘                 │
//!      └───────────── evict ── Exclusive ◀── cold, clean, not held
//! ```
//!
//! After a crash a page may be *Pending* between Out and In: its bytes are in its frame, and records of it are still to be redone
//! (R8). To readers and writers it is out: they begin to load it, which redoes the rest.
//!
//! | state | bits | may be looked at | may be written |
//! |---|---|---|---|
//! | Out | none of `RESIDENT`, `PENDING` and `EXCLUSIVE` | – | – |
//! | Loading | `EXCLUSIVE` | – | by the loader |
//! | Pending | `PENDING` | by write-back | – |
//! | In | `RESIDENT` | optimistically | – |
//! | Shared | `RESIDENT`, count > 0 | yes | – |
//! | Exclusive | `RESIDENT`, `EXCLUSIVE` | by the holder | by the holder |
//!
//! The version increases whenever data that a reader may have read ceases to be valid: at the end of a change, of a
//! load and of an eviction. A reader without a latch notes the word and reads. The result is valid if afterwards
//! neither version nor `EXCLUSIVE` nor `RESIDENT` have changed (E12.2).
//!
//! A thread that must wait spins a few times, then sets `WAITERS` and sleeps; a thread that releases the latch and
//! finds the bit wakes the sleepers, if that ends what one of them waits for.
//!
//! A writer that sleeps because of readers also sets `BARRED`, so that an endless stream of readers does not starve it
//! (E13.6). Until a writer has had the page, `BARRED` holds off readers, but never for good: a thread may hold a page
//! shared, in a [`LatchedPage`](crate::LatchedPage) of the program, and wait for another thread that reads it. It does
//! not hold off:
//!
//! - a thread that holds a page shared already, because the writer of that page may wait for it;
//! - write-back, which holds the area mutex, for which a holder of a shared page may wait.

use cedrat_sync::atomic::{AtomicU64, Ordering, fence};
use cedrat_sync::{Condvar, Mutex, is_scheduled, planted, spin_hint, spins};
use std::time::{Duration, Instant};

use crate::order::{Held, HeldShared, Latched};
use crate::page::PageId;

/// The bits that count the holders of the shared latch.
const SHARED: u64 = (1 << 12) - 1;
/// A thread loads, changes or evicts the page.
const EXCLUSIVE: u64 = 1 << 12;
/// A thread sleeps until the page is released.
const WAITERS: u64 = 1 << 13;
/// The page's bytes are in its frame.
const RESIDENT: u64 = 1 << 14;
/// The page was not used since the clock's hand passed.
const COLD: u64 = 1 << 15;
/// A copy of the page is being written home; until it is durable there, the frame must stay.
const WRITING: u64 = 1 << 16;
/// A writer sleeps until the readers have left; other readers let it pass.
const BARRED: u64 = 1 << 17;
/// The page's bytes are in its frame, and records may be missing in them that redo has not reached. Not together with `RESIDENT`.
const PENDING: u64 = 1 << 18;
/// The increment of the version.
const VERSION: u64 = 1 << 19;

/// The bits of which one is set while the page's bytes are in its frame.
const IN_FRAME: u64 = RESIDENT | PENDING;

/// The bits that must be equal before and after for an optimistic read to be valid.
const WITNESS: u64 = !(VERSION - 1) | EXCLUSIVE | RESIDENT;

/// Whether a writer holds the page, or no further reader can be counted.
#[inline(always)]
fn is_closed(word: u64) -> bool {
    word & EXCLUSIVE != 0 || word & SHARED == SHARED
}

/// Whether the page's bytes are in its frame, and no thread holds it.
#[inline(always)]
fn is_idle(word: u64) -> bool {
    word & IN_FRAME != 0 && word & (EXCLUSIVE | SHARED) == 0
}

/// The longest time for which a reader is held off. The readers that hold the page leave within microseconds, unless they
/// have lost their processor.
const HOLD_OFF: Duration = Duration::from_millis(10);

/// The number of spins before sleeping. A latch is held for well under a microsecond unless its page is being read
/// from disk.
const SPINS: usize = 100;

/// The wait queues of page latches: a few, shared by all pages.
#[derive(Debug)]
pub(crate) struct Parking {
    queues: Box<[(Mutex<()>, Condvar)]>,
}

impl Parking {
    pub(crate) fn new() -> Parking {
        let queues = if cfg!(cedrat_shuttle) { 2 } else { 64 };
        Parking { queues: (0..queues).map(|_| (Mutex::new(()), Condvar::new())).collect() }
    }

    fn queue(&self, page: PageId) -> &(Mutex<()>, Condvar) {
        &self.queues[page.get() as usize % self.queues.len()]
    }
}

/// The result of an attempt to take a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Taken,
    /// Another thread holds the latch in a conflicting mode.
    Busy,
    /// The page must be loaded first.
    Absent,
}

/// The latch of one page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latch<'a> {
    pub(crate) word: &'a AtomicU64,
    pub(crate) parking: &'a Parking,
    pub(crate) page: PageId,
}

/// The word as an optimistic reader found it.
#[derive(Clone, Copy)]
pub(crate) struct Witness(u64);

impl<'a> Latch<'a> {
    /// Begins an optimistic read, if the page is resident, not latched exclusively, and marked as used.
    #[inline(always)]
    pub(crate) fn witness(&self) -> Option<Witness> {
        let word = self.word.load(Ordering::Acquire);
        (word & (EXCLUSIVE | RESIDENT | COLD) == RESIDENT).then_some(Witness(word))
    }

    /// Ends an optimistic read: whether all reads since `witness` were consistent with one moment (E12.2).
    #[inline(always)]
    pub(crate) fn still(&self, witness: Witness) -> bool {
        // The loads of the page's words must not sink below this one; they cannot be Acquire one by one.
        fence(Ordering::Acquire);
        planted!("optimistic_read_not_validated") || (self.word.load(Ordering::Relaxed) ^ witness.0) & WITNESS == 0
    }

    #[inline(always)]
    fn attempt(&self, mut next: impl FnMut(u64) -> Result<u64, Attempt>) -> Attempt {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let wanted = match next(word) {
                Ok(wanted) => wanted,
                Err(refused) => return refused,
            };
            match self.word.compare_exchange_weak(word, wanted, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Attempt::Taken,
                Err(now) => word = now,
            }
        }
    }

    /// Takes the latch shared unless the word has one of the bits of `respects`. A reader, who `warms` the page, needs all of its
    /// records in it; write-back does not.
    #[inline(always)]
    fn attempt_shared(&self, warms: bool, respects: u64) -> Attempt {
        let (keep, present) = if warms { (!COLD, RESIDENT) } else { (!0, IN_FRAME) };
        self.attempt(|word| {
            if is_closed(word) || word & respects != 0 {
                Err(Attempt::Busy)
            } else if word & present == 0 {
                Err(Attempt::Absent)
            } else {
                Ok((word & keep) + 1)
            }
        })
    }

    #[inline(always)]
    fn attempt_exclusive(&self) -> Attempt {
        let attempt = self.attempt(|word| {
            if word & (EXCLUSIVE | SHARED) != 0 {
                Err(Attempt::Busy)
            } else if word & RESIDENT == 0 {
                Err(Attempt::Absent)
            } else {
                Ok((word & !COLD) | EXCLUSIVE)
            }
        });
        self.announce(attempt)
    }

    /// Ensures that a reader that sees one of the writer's words also sees that the word is `EXCLUSIVE` (with
    /// [`Latch::still`]).
    #[inline(always)]
    fn announce(&self, attempt: Attempt) -> Attempt {
        fence(Ordering::Release);
        attempt
    }

    /// Waits for the latch and takes it shared; `None` if the page is out.
    #[inline]
    pub(crate) fn shared(self) -> Option<SharedLatch<'a>> {
        let held = HeldShared::take(self.page);
        let attempt = match self.attempt_shared(true, BARRED) {
            Attempt::Busy => {
                if held.is_only() {
                    self.hold_off();
                }
                self.wait_shared(true)
            }
            attempt => attempt,
        };
        (attempt == Attempt::Taken).then(|| SharedLatch { latch: self, _held: Some(held) })
    }

    /// Waits for the shared latch as [`Latch::shared`] does, for write-back: writing a page home does not count as
    /// use.
    pub(crate) fn shared_in_passing(self) -> Option<SharedLatch<'a>> {
        let held = HeldShared::take(self.page);
        let attempt = self.wait_shared(false);
        (attempt == Attempt::Taken).then(|| SharedLatch { latch: self, _held: Some(held) })
    }

    /// Takes the latch shared, or returns `Absent`; never `Busy`.
    #[cold]
    fn wait_shared(&self, warms: bool) -> Attempt {
        loop {
            match self.attempt_shared(warms, 0) {
                Attempt::Busy => self.wait_while(0, is_closed),
                attempt => return attempt,
            }
        }
    }

    /// Lets a writer pass that sleeps because of readers: returns when a writer has had the page, or after [`HOLD_OFF`].
    /// Under the scheduler, where no time passes, the writer may pass or not.
    #[cold]
    fn hold_off(&self) {
        if is_scheduled() {
            return spin_hint();
        }
        let end = Instant::now() + HOLD_OFF;
        let (queue, woken) = self.parking.queue(self.page);
        let mut queue = queue.lock();
        loop {
            let word = self.word.load(Ordering::Relaxed);
            let left = end.saturating_duration_since(Instant::now());
            if word & BARRED == 0 || left.is_zero() {
                return;
            }
            if self.mark(word, WAITERS) {
                woken.wait_for(&mut queue, left);
            }
        }
    }

    /// Takes the shared latch as [`Latch::shared_in_passing`] does, if that is possible without waiting, so in any
    /// order.
    pub(crate) fn try_shared_in_passing(self) -> Option<SharedLatch<'a>> {
        (self.attempt_shared(false, 0) == Attempt::Taken).then(|| SharedLatch { latch: self, _held: None })
    }

    /// Waits for the latch and takes it exclusively; `None` if the page is out.
    #[inline]
    pub(crate) fn exclusive(self) -> Option<ExclusiveLatch<'a>> {
        let held = Held::take(Latched::ExclusivePage(self.page));
        loop {
            match self.attempt_exclusive() {
                Attempt::Taken => {
                    return Some(ExclusiveLatch { latch: self, changed: false, ends: (0, 0), _held: Some(held) });
                }
                Attempt::Absent => return None,
                Attempt::Busy => self.wait_while(BARRED, |word| word & (EXCLUSIVE | SHARED) != 0),
            }
        }
    }

    /// Takes the latch exclusively as [`Latch::exclusive`] does, if that is possible without waiting, so in any order.
    pub(crate) fn try_exclusive(self) -> Option<ExclusiveLatch<'a>> {
        let is_taken = self.attempt_exclusive() == Attempt::Taken;
        is_taken.then(|| ExclusiveLatch { latch: self, changed: false, ends: (0, 0), _held: None })
    }

    /// Begins to load the page; `None` if it is in, or after another thread's load of it has ended.
    pub(crate) fn begin_load(self) -> Option<Loading<'a>> {
        let attempt = self.attempt(|word| {
            if word & RESIDENT != 0 {
                Err(Attempt::Absent) // there is nothing to load
            } else if word & (EXCLUSIVE | SHARED) != 0 {
                Err(Attempt::Busy) // another thread loads it, or write-back copies it
            } else {
                Ok((word & !COLD) | EXCLUSIVE)
            }
        });
        match self.announce(attempt) {
            Attempt::Taken => return Some(Loading { latch: self }),
            Attempt::Busy => {
                self.wait_while(0, |word| word & EXCLUSIVE != 0 || word & RESIDENT == 0 && word & SHARED != 0);
            }
            Attempt::Absent => {}
        }
        None
    }

    /// Begins to load the page as [`Latch::begin_load`] does, but never waits.
    pub(crate) fn try_begin_load(self) -> Option<Loading<'a>> {
        let attempt = self.attempt(|word| match word & (IN_FRAME | EXCLUSIVE) {
            0 => Ok((word & !COLD) | EXCLUSIVE),
            _ => Err(Attempt::Busy),
        });
        (self.announce(attempt) == Attempt::Taken).then(|| Loading { latch: self })
    }

    /// Passes the clock's hand over the page: `true` if the page was already cold, and is neither held nor being
    /// written.
    ///
    /// A page that was warm becomes cold.
    pub(crate) fn pass(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        if !is_idle(word) {
            return false;
        }
        if word & COLD == 0 {
            // If it fails, another thread uses the page, and it is not cold.
            let _ = self.word.compare_exchange(word, word | COLD, Ordering::Relaxed, Ordering::Relaxed);
            return false;
        }
        word & WRITING == 0
    }

    /// Lets the clock's hand evict the page at its next pass.
    pub(crate) fn cool(&self) {
        let word = self.word.load(Ordering::Relaxed);
        if is_idle(word) {
            let _ = self.word.compare_exchange(word, word | COLD, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Takes a page that is in, cold, held by no thread and not being written home, to evict it.
    pub(crate) fn try_evict(self) -> Option<Evicting<'a>> {
        let attempt = self.attempt(|word| {
            let is_evictable = is_idle(word) && word & (COLD | WRITING) == COLD;
            if is_evictable { Ok(word | EXCLUSIVE) } else { Err(Attempt::Busy) }
        });
        (self.announce(attempt) == Attempt::Taken).then(|| Evicting { latch: self })
    }

    /// Marks the page as being written home. The caller holds the latch, shared.
    pub(crate) fn set_writing(&self) {
        self.word.fetch_or(WRITING, Ordering::Relaxed);
    }

    /// Marks the copy of the page as durable at home.
    pub(crate) fn clear_writing(&self) {
        self.word.fetch_and(!WRITING, Ordering::Relaxed);
    }

    /// Whether the page's bytes are in its frame, or about to be.
    pub(crate) fn is_in(&self) -> bool {
        self.word.load(Ordering::Relaxed) & (IN_FRAME | EXCLUSIVE) != 0
    }

    /// Whether the page is in its frame, and waits there for redo. Only a hint, unless its load has begun.
    pub(crate) fn is_pending(&self) -> bool {
        self.word.load(Ordering::Relaxed) & PENDING != 0
    }

    /// Returns when the word is not `busy`. Before the thread sleeps because of readers, it sets `bar` too.
    #[cold]
    fn wait_while(&self, bar: u64, busy: impl Fn(u64) -> bool) {
        for _ in 0..spins(SPINS) {
            if !busy(self.word.load(Ordering::Relaxed)) {
                return;
            }
            spin_hint();
        }
        let (queue, woken) = self.parking.queue(self.page);
        let mut queue = queue.lock();
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if !busy(word) {
                return;
            }
            let bar = if word & SHARED == 0 || planted!("readers_overtake_writer") { 0 } else { bar };
            if self.mark(word, WAITERS | bar) {
                woken.wait(&mut queue);
            }
        }
    }

    /// Sets bits on the very word after which a thread sleeps: the thread that ends that state finds them, and then locks
    /// the wait queue, which the caller has locked. Returns `false` if the word has changed.
    fn mark(&self, word: u64, bits: u64) -> bool {
        word & bits == bits
            || self.word.compare_exchange(word, word | bits, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wake(&self) {
        let (queue, woken) = self.parking.queue(self.page);
        let _queue = queue.lock();
        self.word.fetch_and(!WAITERS, Ordering::Relaxed);
        woken.notify_all();
    }

    /// Releases the exclusive latch: resets `EXCLUSIVE` and `clear`, sets `set`.
    fn end_exclusive(&self, clear: u64, set: u64, new_version: bool) {
        let mut word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & EXCLUSIVE != 0 && word & SHARED == 0, "E13: released without being held");
        loop {
            // Whether the writer that sleeps had this turn or another one: it sets the bit again.
            let mut wanted = (word & !(EXCLUSIVE | BARRED | clear)) | set;
            if new_version {
                // After 2^46 versions the count wraps; no reader is suspended that long.
                wanted = wanted.wrapping_add(VERSION);
            }
            match self.word.compare_exchange_weak(word, wanted, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        if word & WAITERS != 0 {
            self.wake();
        }
    }
}

/// The shared latch of a page: the page does not change while this lives.
#[derive(Debug)]
pub(crate) struct SharedLatch<'a> {
    latch: Latch<'a>,
    _held: Option<HeldShared>,
}

impl SharedLatch<'_> {
    pub(crate) fn page(&self) -> PageId {
        self.latch.page
    }
}

impl Drop for SharedLatch<'_> {
    #[inline]
    fn drop(&mut self) {
        let word = self.latch.word.fetch_sub(1, Ordering::Release);
        debug_assert!(word & SHARED != 0 && word & EXCLUSIVE == 0, "E13: released without being held");
        // The last reader makes room for a writer, the first one to leave of the largest number for a reader.
        if word & WAITERS != 0 && matches!(word & SHARED, 1 | SHARED) {
            self.latch.wake();
        }
    }
}

/// The exclusive latch of a page: no other thread reads or changes the page while this lives, except optimistic
/// readers, whose validation fails.
#[derive(Debug)]
pub(crate) struct ExclusiveLatch<'a> {
    latch: Latch<'a>,
    changed: bool,
    /// The bits to be reset and those to be set when it is released.
    ends: (u64, u64),
    _held: Option<Held>,
}

impl ExclusiveLatch<'_> {
    pub(crate) fn page(&self) -> PageId {
        self.latch.page
    }

    /// Announces a change, before the first byte changes.
    pub(crate) fn will_change(&mut self) {
        self.changed = true;
    }

    /// Makes the page leave when the latch is released.
    pub(crate) fn leave_out(&mut self) {
        (self.changed, self.ends) = (true, (IN_FRAME | COLD, 0));
    }

    /// Lets readers see the page when the latch is released: nothing is pending any more.
    pub(crate) fn come_in(&mut self) {
        self.ends = (PENDING, RESIDENT);
    }
}

impl Drop for ExclusiveLatch<'_> {
    #[inline]
    fn drop(&mut self) {
        let (clear, set) = self.ends;
        self.latch.end_exclusive(clear, set, self.changed);
    }
}

/// The latch of a page that is being loaded; unless finished, the page stays out.
#[derive(Debug)]
#[must_use]
pub(crate) struct Loading<'a> {
    latch: Latch<'a>,
}

impl<'a> Loading<'a> {
    /// Ends the load: the bytes are in the frame, and other threads see them from here on.
    pub(crate) fn finish(self) {
        self.latch.end_exclusive(PENDING, RESIDENT, true);
        std::mem::forget(self);
    }

    /// Ends the load: the bytes are in the frame, and records may be missing in them.
    pub(crate) fn finish_pending(self) {
        self.latch.end_exclusive(0, PENDING, true);
        std::mem::forget(self);
    }

    /// Whether the bytes were in the frame when the load began: the page was pending there.
    pub(crate) fn is_in_frame(&self) -> bool {
        self.latch.is_pending()
    }

    /// Ends the load as [`Loading::finish_pending`] does, but the loader continues to hold the page exclusively. It waits for no
    /// other page meanwhile, so this may be done in any order, as the load itself.
    pub(crate) fn hold_for_redo(self) -> ExclusiveLatch<'a> {
        let latch = self.latch;
        std::mem::forget(self);
        ExclusiveLatch { latch, changed: true, ends: (0, PENDING), _held: None }
    }

    /// Ends the load as [`Loading::finish`] does, but the loader continues to hold the page exclusively.
    pub(crate) fn finish_exclusive(self) -> ExclusiveLatch<'a> {
        let latch = self.latch;
        std::mem::forget(self);
        let held = Held::take(Latched::ExclusivePage(latch.page));
        latch.word.fetch_or(RESIDENT, Ordering::Relaxed);
        ExclusiveLatch { latch, changed: true, ends: (0, 0), _held: Some(held) }
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.latch.end_exclusive(RESIDENT | COLD, 0, true);
    }
}

/// The latch of a page that is to be evicted; unless finished, the page stays in.
#[derive(Debug)]
#[must_use]
pub(crate) struct Evicting<'a> {
    latch: Latch<'a>,
}

impl Evicting<'_> {
    /// Ends the eviction: the frame is empty.
    pub(crate) fn finish(self) {
        self.latch.end_exclusive(IN_FRAME | COLD, 0, true);
        std::mem::forget(self);
    }
}

impl Drop for Evicting<'_> {
    fn drop(&mut self) {
        self.latch.end_exclusive(0, 0, false);
    }
}

#[cfg(test)]
mod tests;
