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
//! | state | bits | may be looked at | may be written |
//! |---|---|---|---|
//! | Out | neither `RESIDENT` nor `EXCLUSIVE` | – | – |
//! | Loading | `EXCLUSIVE` | – | by the loader |
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
/// The increment of the version.
const VERSION: u64 = 1 << 18;

/// The bits that must be equal before and after for an optimistic read to be valid.
const WITNESS: u64 = !(VERSION - 1) | EXCLUSIVE | RESIDENT;

/// Whether a writer holds the page, or no further reader can be counted.
#[inline(always)]
fn is_closed(word: u64) -> bool {
    word & EXCLUSIVE != 0 || word & SHARED == SHARED
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

    /// Takes the latch shared unless the word has one of the bits of `respects`.
    #[inline(always)]
    fn attempt_shared(&self, warms: bool, respects: u64) -> Attempt {
        let keep = if warms { !COLD } else { !0 };
        self.attempt(|word| {
            if is_closed(word) || word & respects != 0 {
                Err(Attempt::Busy)
            } else if word & RESIDENT == 0 {
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
                    return Some(ExclusiveLatch { latch: self, changed: false, leaves: false, _held: Some(held) });
                }
                Attempt::Absent => return None,
                Attempt::Busy => self.wait_while(BARRED, |word| word & (EXCLUSIVE | SHARED) != 0),
            }
        }
    }

    /// Takes the latch exclusively as [`Latch::exclusive`] does, if that is possible without waiting, so in any order.
    pub(crate) fn try_exclusive(self) -> Option<ExclusiveLatch<'a>> {
        let is_taken = self.attempt_exclusive() == Attempt::Taken;
        is_taken.then(|| ExclusiveLatch { latch: self, changed: false, leaves: false, _held: None })
    }

    /// Begins to load the page; `None` if it is in, or after another thread's load of it has ended.
    pub(crate) fn begin_load(self) -> Option<Loading<'a>> {
        let attempt = self.attempt(|word| {
            if word & RESIDENT != 0 {
                Err(Attempt::Absent) // there is nothing to load
            } else if word & EXCLUSIVE != 0 {
                Err(Attempt::Busy)
            } else {
                Ok((word & !COLD) | EXCLUSIVE)
            }
        });
        match self.announce(attempt) {
            Attempt::Taken => return Some(Loading { latch: self }),
            Attempt::Busy => self.wait_while(0, |word| word & EXCLUSIVE != 0),
            Attempt::Absent => {}
        }
        None
    }

    /// Begins to load the page as [`Latch::begin_load`] does, but never waits.
    pub(crate) fn try_begin_load(self) -> Option<Loading<'a>> {
        let attempt = self.attempt(|word| match word & (RESIDENT | EXCLUSIVE) {
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
        if word & (RESIDENT | EXCLUSIVE | SHARED) != RESIDENT {
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
        if word & (RESIDENT | EXCLUSIVE | SHARED) == RESIDENT {
            let _ = self.word.compare_exchange(word, word | COLD, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Takes a page that is in, cold, held by no thread and not being written home, to evict it.
    pub(crate) fn try_evict(self) -> Option<Evicting<'a>> {
        let attempt = self.attempt(|word| match word & (RESIDENT | COLD | EXCLUSIVE | SHARED | WRITING) {
            bits if bits == RESIDENT | COLD => Ok(word | EXCLUSIVE),
            _ => Err(Attempt::Busy),
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
        self.word.load(Ordering::Relaxed) & (RESIDENT | EXCLUSIVE) != 0
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
    /// The page leaves when released.
    leaves: bool,
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
        self.leaves = true;
    }
}

impl Drop for ExclusiveLatch<'_> {
    #[inline]
    fn drop(&mut self) {
        let clear = if self.leaves { RESIDENT | COLD } else { 0 };
        self.latch.end_exclusive(clear, 0, self.changed || self.leaves);
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
        self.latch.end_exclusive(0, RESIDENT, true);
        std::mem::forget(self);
    }

    /// Ends the load as [`Loading::finish`] does, but the loader continues to hold the page exclusively.
    pub(crate) fn finish_exclusive(self) -> ExclusiveLatch<'a> {
        let latch = self.latch;
        std::mem::forget(self);
        let held = Held::take(Latched::ExclusivePage(latch.page));
        latch.word.fetch_or(RESIDENT, Ordering::Relaxed);
        ExclusiveLatch { latch, changed: true, leaves: false, _held: Some(held) }
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
        self.latch.end_exclusive(RESIDENT | COLD, 0, true);
        std::mem::forget(self);
    }
}

impl Drop for Evicting<'_> {
    fn drop(&mut self) {
        self.latch.end_exclusive(0, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(not(cedrat_shuttle))]
    use cedrat_sync::thread;

    struct Page {
        word: AtomicU64,
        parking: Parking,
    }

    impl Page {
        fn out() -> Page {
            Page { word: AtomicU64::new(0), parking: Parking::new() }
        }

        fn loaded() -> Page {
            let page = Page::out();
            page.latch().begin_load().unwrap().finish();
            page
        }

        fn latch(&self) -> Latch<'_> {
            Latch { word: &self.word, parking: &self.parking, page: PageId::new(1) }
        }

        fn state(&self) -> u64 {
            self.word.load(Ordering::Relaxed) & (VERSION - 1)
        }
    }

    /// The diagram at the top of this file: refused attempts leave the word unchanged.
    #[test]
    fn refused_latch_changes_nothing() {
        let page = Page::out();
        let latch = page.latch();
        let refused = || {
            assert!(latch.shared().is_none() && latch.exclusive().is_none(), "a page that is out cannot be held");
            assert!(latch.try_shared_in_passing().is_none() && latch.try_evict().is_none());
            assert!(latch.witness().is_none());
        };
        refused();
        assert_eq!(page.state(), 0);

        let loading = latch.begin_load().unwrap();
        assert!(latch.try_begin_load().is_none() && latch.try_shared_in_passing().is_none());
        assert!(latch.try_evict().is_none() && latch.witness().is_none() && !latch.pass());
        assert_eq!(page.state(), EXCLUSIVE);
        drop(loading);
        refused();
        assert_eq!(page.state(), 0, "abandoned, so out");

        latch.begin_load().unwrap().finish();
        assert!(latch.begin_load().is_none() && latch.try_begin_load().is_none());
        assert_eq!(page.state(), RESIDENT);
        {
            let _exclusive = latch.exclusive().unwrap();
            assert!(latch.try_shared_in_passing().is_none() && latch.try_begin_load().is_none());
            assert!(latch.try_evict().is_none() && latch.witness().is_none());
            assert_eq!(page.state(), RESIDENT | EXCLUSIVE);
        }
        {
            let _one = latch.shared().unwrap();
            let _two = latch.try_shared_in_passing().unwrap();
            assert!(latch.try_evict().is_none() && !latch.pass());
            assert_eq!(page.state(), RESIDENT + 2);
        }
        assert_eq!(page.state(), RESIDENT);
    }

    #[test]
    fn only_cold_unheld_clean_frames_are_evicted() {
        let page = Page::loaded();
        let latch = page.latch();
        assert!(latch.try_evict().is_none(), "warm");
        assert!(!latch.pass(), "the hand comes by for the first time");
        assert!(latch.pass(), "and again");
        drop(latch.try_shared_in_passing().unwrap());
        assert!(latch.pass(), "writing a page home does not warm it");
        latch.set_writing();
        assert!(!latch.pass() && latch.try_evict().is_none(), "on its way home");
        latch.clear_writing();
        drop(latch.shared().unwrap());
        assert!(latch.try_evict().is_none(), "wanted meanwhile");
        latch.cool();
        drop(latch.try_evict().unwrap());
        assert_eq!(page.state(), RESIDENT | COLD, "an eviction that is given up leaves it in");
        latch.try_evict().unwrap().finish();
        assert_eq!(page.state(), 0);
    }

    /// E12.2.
    #[test]
    fn witness_notices_all_but_readers() {
        let page = Page::loaded();
        let latch = page.latch();
        let witness = latch.witness().unwrap();
        drop(latch.shared().unwrap());
        assert!(!latch.pass(), "which makes it cold");
        latch.set_writing();
        latch.clear_writing();
        assert!(latch.still(witness), "none of that changed the page");
        drop(latch.exclusive().unwrap());
        assert!(latch.still(witness), "nor did a holder who changed nothing");
        {
            let mut exclusive = latch.exclusive().unwrap();
            assert!(!latch.still(witness), "about to change");
            exclusive.will_change();
        }
        assert!(!latch.still(witness));

        let witness = latch.witness().unwrap();
        latch.cool();
        latch.try_evict().unwrap().finish();
        assert!(!latch.still(witness));
        latch.begin_load().unwrap().finish();
        assert!(!latch.still(witness), "out and in again is not the same");
    }

    /// E12.2, where loads return any value that the memory model allows: `./x test` runs this under Miri. While a page leaves its
    /// frame, it contains the bytes of another one.
    #[cfg(not(cedrat_shuttle))]
    #[test]
    fn page_is_seen_in_one_state() {
        let page = Page::loaded();
        let words = [const { AtomicU64::new(0) }; 3];
        let look = || words.each_ref().map(|word| word.load(Ordering::Relaxed));
        let is_one = |[one, two, three]: [u64; 3]| one == two && two == three;
        let changes = || {
            for _ in 0..3 {
                let mut latch =
                    std::iter::repeat_with(|| page.latch().exclusive()).flatten().next().expect("it comes back");
                latch.will_change();
                let next = look()[0] + 1;
                words.iter().for_each(|word| word.store(next, Ordering::Relaxed));
            }
        };
        let evicts = || {
            page.latch().cool();
            let Some(leaves) = page.latch().try_evict() else { return };
            let home = look();
            leaves.finish();
            let loads = page.latch().begin_load().expect("no other thread loads it");
            (7..).zip(&words).for_each(|(other, word)| word.store(other, Ordering::Relaxed));
            words.iter().zip(home).for_each(|(word, byte)| word.store(byte, Ordering::Relaxed));
            loads.finish();
        };
        let looks = || {
            for _ in 0..16 {
                let Some(witness) = page.latch().witness() else { continue };
                let seen = look();
                assert!(!page.latch().still(witness) || is_one(seen), "E12.2: {seen:?}");
            }
            let Some(_shared) = page.latch().shared() else { return };
            assert!(is_one(look()), "E12.2");
        };
        thread::scope(|scope| {
            scope.spawn(changes);
            scope.spawn(changes);
            scope.spawn(evicts);
            scope.spawn(looks);
            scope.spawn(looks);
        });
        assert_eq!(look(), [6; 3]);
    }

    #[test]
    fn a_fresh_page_that_leaves_is_out() {
        let page = Page::out();
        let latch = page.latch();
        let mut exclusive = latch.begin_load().unwrap().finish_exclusive();
        assert_eq!(page.state(), RESIDENT | EXCLUSIVE);
        exclusive.leave_out();
        drop(exclusive);
        assert_eq!(page.state(), 0);
    }

    /// Runs `wait` in a thread, and `then` once that thread is about to sleep for the page.
    #[cfg(not(cedrat_shuttle))]
    fn with_waiter(page: &Page, wait: impl FnOnce(Latch<'_>) + Send, then: impl FnOnce()) {
        thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(page.latch()));
            while page.state() & WAITERS == 0 {
                thread::yield_now();
            }
            then();
            waiter.join().unwrap();
        });
    }

    #[cfg(not(cedrat_shuttle))]
    #[test]
    fn full_latch_wakes_reader_when_one_leaves() {
        let page = Page::loaded();
        let latch = page.latch();
        let mut readers: Vec<_> = (0..SHARED).map(|_| latch.try_shared_in_passing().unwrap()).collect();
        assert!(latch.try_shared_in_passing().is_none(), "no more can be counted");
        let mut is_woken = false;
        with_waiter(
            &page,
            |latch| drop(latch.shared().unwrap()),
            || {
                drop(readers.pop());
                is_woken = page.state() & WAITERS == 0;
                readers.clear(); // so that the waiter ends in any case
            },
        );
        assert!(is_woken);
    }

    /// E13.6.
    #[cfg(not(cedrat_shuttle))]
    #[test]
    fn waiting_writer_holds_off_new_readers() {
        let page = Page::loaded();
        let latch = page.latch();
        let held = latch.shared().unwrap();
        let is_refused = |latch: Latch<'_>| {
            let attempt = latch.attempt_shared(true, BARRED);
            drop((attempt == Attempt::Taken).then(|| SharedLatch { latch, _held: None }));
            attempt == Attempt::Busy
        };
        let mut is_held_off = false;
        with_waiter(
            &page,
            |latch| drop(latch.exclusive().unwrap()),
            || {
                is_held_off = is_refused(latch);
                if is_held_off {
                    drop(latch.shared().expect("a thread that holds a page is not held off"));
                    drop(latch.shared_in_passing().expect("nor is write-back"));
                }
                drop(held);
            },
        );
        assert!(is_held_off);
        assert_eq!(page.state(), RESIDENT, "the writer has had its turn");
        assert!(latch.shared().is_some());
    }

    /// E13.6: the holder of a page may wait for a reader of the page, behind a writer that sleeps.
    #[cfg(not(cedrat_shuttle))]
    #[test]
    fn holder_may_wait_for_reader_behind_writer() {
        let page = Page::loaded();
        let held = page.latch().shared().unwrap();
        with_waiter(
            &page,
            |latch| drop(latch.exclusive().unwrap()),
            || {
                thread::scope(|scope| {
                    scope.spawn(|| drop(page.latch().shared().unwrap())).join().unwrap();
                });
                drop(held);
            },
        );
    }

    #[test]
    fn eviction_ends_the_hold_off() {
        let page = Page::loaded();
        let latch = page.latch();
        page.word.fetch_or(BARRED | COLD, Ordering::Relaxed);
        latch.try_evict().unwrap().finish();
        assert_eq!(page.state(), 0, "its writer finds it absent");
        latch.begin_load().unwrap().finish();
        assert!(latch.shared().is_some());
    }
}
