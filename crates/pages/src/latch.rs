//! The state of a page: one word that says where it is and who holds it (vmcache: Leis et al., SIGMOD 2023).
//!
//! ```text
//!            begin_load            finish_load
//!     Out ───────────────▶ Loading ───────────▶ In ◀──┬──▶ Shared × n
//!      ▲                      │                 │     └──▶ Exclusive
//!      └──── abandon ─────────┘                 │
//!      └───────────── evict ── Exclusive ◀── cold, clean, held by nobody
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
//! The version rises whenever what a reader may have seen stops being true: at the end of a change, of a load and of an
//! eviction. A reader without a latch notes the word, reads, and believes what it read if afterwards neither version nor
//! `EXCLUSIVE` nor `RESIDENT` have changed (E12.2).
//!
//! Whoever must wait turns a few times, then sets `WAITERS` and sleeps; whoever releases and finds the bit wakes.

use cedrat_sync::atomic::{AtomicU64, Ordering, fence};
use cedrat_sync::{Condvar, Mutex, spin_hint};

use crate::order::{Held, Latched};
use crate::page::PageId;

/// How many hold the page shared.
const SHARED: u64 = (1 << 12) - 1;
/// Somebody loads, changes or evicts the page.
const EXCLUSIVE: u64 = 1 << 12;
/// Somebody sleeps until the page is released.
const WAITERS: u64 = 1 << 13;
/// The page's bytes are in its frame.
const RESIDENT: u64 = 1 << 14;
/// Nobody has wanted the page since the clock's hand passed.
const COLD: u64 = 1 << 15;
/// A copy of the page is on its way home; until it has arrived the frame must stay.
const WRITING: u64 = 1 << 16;
/// One version.
const VERSION: u64 = 1 << 20;

/// What must be the same before and after for an optimistic read to count.
const WITNESS: u64 = !(VERSION - 1) | EXCLUSIVE | RESIDENT;

/// Turns before sleeping. A latch is held for well under a microsecond unless its page is being read from disk.
const SPINS: usize = if cfg!(cedrat_shuttle) { 1 } else { 100 };

/// Where threads sleep that wait for pages: a few beds shared by all of them.
#[derive(Debug)]
pub(crate) struct Parking {
    beds: Box<[(Mutex<()>, Condvar)]>,
}

impl Parking {
    pub(crate) fn new() -> Parking {
        let beds = if cfg!(cedrat_shuttle) { 2 } else { 64 };
        Parking { beds: (0..beds).map(|_| (Mutex::new(()), Condvar::new())).collect() }
    }

    fn bed(&self, page: PageId) -> &(Mutex<()>, Condvar) {
        &self.beds[page.get() as usize % self.beds.len()]
    }
}

/// How an attempt to take a latch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Taken,
    /// Somebody holds it in the way.
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
    /// Begins an optimistic read, if the page can be looked at and the clock knows that it is wanted.
    #[inline(always)]
    pub(crate) fn witness(&self) -> Option<Witness> {
        let word = self.word.load(Ordering::Acquire);
        (word & (EXCLUSIVE | RESIDENT | COLD) == RESIDENT).then_some(Witness(word))
    }

    /// Ends an optimistic read: whether what was read since `witness` was true at one moment (E12.2).
    #[inline(always)]
    pub(crate) fn still(&self, witness: Witness) -> bool {
        // The loads of the page's words must not sink below this one; they may not be Acquire one by one.
        fence(Ordering::Acquire);
        (self.word.load(Ordering::Relaxed) ^ witness.0) & WITNESS == 0
    }

    #[inline(always)]
    fn attempt(&self, next: impl Fn(u64) -> Result<u64, Attempt>) -> Attempt {
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

    #[inline(always)]
    fn attempt_shared(&self, warms: bool) -> Attempt {
        let keep = if warms { !COLD } else { !0 };
        self.attempt(|word| {
            if word & EXCLUSIVE != 0 || word & SHARED == SHARED {
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

    /// Whoever sees one of the writer's words must also see that the word is `EXCLUSIVE` (with [`Latch::still`]).
    #[inline(always)]
    fn announce(&self, attempt: Attempt) -> Attempt {
        fence(Ordering::Release);
        attempt
    }

    /// Takes the latch shared and waits if need be; None if the page is out.
    #[inline]
    pub(crate) fn shared(self) -> Option<SharedLatch<'a>> {
        self.wait_shared(true)
    }

    /// As [`Latch::shared`], for write-back: the page is not wanted more for being written home.
    pub(crate) fn shared_in_passing(self) -> Option<SharedLatch<'a>> {
        self.wait_shared(false)
    }

    #[inline(always)]
    fn wait_shared(self, warms: bool) -> Option<SharedLatch<'a>> {
        let held = Held::take(Latched::SharedPage(self.page));
        loop {
            match self.attempt_shared(warms) {
                Attempt::Taken => {
                    return Some(SharedLatch { latch: self, _held: Some(held) });
                }
                Attempt::Absent => return None,
                Attempt::Busy => self.wait_while(|word| word & EXCLUSIVE != 0 || word & SHARED == SHARED),
            }
        }
    }

    /// As [`Latch::shared_in_passing`] if nobody is in the way. Never waits, so in any order.
    pub(crate) fn try_shared_in_passing(self) -> Option<SharedLatch<'a>> {
        (self.attempt_shared(false) == Attempt::Taken).then(|| SharedLatch { latch: self, _held: None })
    }

    /// Takes the latch exclusively and waits if need be; None if the page is out.
    #[inline]
    pub(crate) fn exclusive(self) -> Option<ExclusiveLatch<'a>> {
        let held = Held::take(Latched::ExclusivePage(self.page));
        loop {
            match self.attempt_exclusive() {
                Attempt::Taken => {
                    return Some(ExclusiveLatch { latch: self, changed: false, leaves: false, _held: Some(held) });
                }
                Attempt::Absent => return None,
                Attempt::Busy => self.wait_while(|word| word & (EXCLUSIVE | SHARED) != 0),
            }
        }
    }

    /// Begins to load the page; None if it is in, or somebody else loads it (who is waited for).
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
            Attempt::Busy => self.wait_while(|word| word & EXCLUSIVE != 0),
            Attempt::Absent => {}
        }
        None
    }

    /// As [`Latch::begin_load`], but never waits.
    pub(crate) fn try_begin_load(self) -> Option<Loading<'a>> {
        let attempt = self.attempt(|word| match word & (RESIDENT | EXCLUSIVE) {
            0 => Ok((word & !COLD) | EXCLUSIVE),
            _ => Err(Attempt::Busy),
        });
        (self.announce(attempt) == Attempt::Taken).then(|| Loading { latch: self })
    }

    /// The clock's hand passes: true if the page was already cold, and nobody holds or writes it.
    ///
    /// A page that was not becomes so.
    pub(crate) fn pass(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        if word & (RESIDENT | EXCLUSIVE | SHARED) != RESIDENT {
            return false;
        }
        if word & COLD == 0 {
            // Should it fail, somebody wants the page, and it is not cold.
            let _ = self.word.compare_exchange(word, word | COLD, Ordering::Relaxed, Ordering::Relaxed);
            return false;
        }
        word & WRITING == 0
    }

    /// Lets the clock's hand take the page when it comes by next.
    pub(crate) fn cool(&self) {
        let word = self.word.load(Ordering::Relaxed);
        if word & (RESIDENT | EXCLUSIVE | SHARED) == RESIDENT {
            let _ = self.word.compare_exchange(word, word | COLD, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Takes a page that is in, cold, held by nobody and not on its way home, to evict it.
    pub(crate) fn try_evict(self) -> Option<Evicting<'a>> {
        let attempt = self.attempt(|word| match word & (RESIDENT | COLD | EXCLUSIVE | SHARED | WRITING) {
            bits if bits == RESIDENT | COLD => Ok(word | EXCLUSIVE),
            _ => Err(Attempt::Busy),
        });
        (self.announce(attempt) == Attempt::Taken).then(|| Evicting { latch: self })
    }

    /// A copy of the page sets out for home. The caller holds the latch, shared.
    pub(crate) fn set_writing(&self) {
        self.word.fetch_or(WRITING, Ordering::Relaxed);
    }

    /// The copy of the page is durable at home.
    pub(crate) fn clear_writing(&self) {
        self.word.fetch_and(!WRITING, Ordering::Relaxed);
    }

    /// Whether the page's bytes are in its frame, or about to be.
    pub(crate) fn is_in(&self) -> bool {
        self.word.load(Ordering::Relaxed) & (RESIDENT | EXCLUSIVE) != 0
    }

    #[cold]
    fn wait_while(&self, busy: impl Fn(u64) -> bool) {
        for _ in 0..SPINS {
            if !busy(self.word.load(Ordering::Relaxed)) {
                return;
            }
            spin_hint();
        }
        let (bed, woken) = self.parking.bed(self.page);
        let mut bed = bed.lock();
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if !busy(word) {
                return;
            }
            // The bit is set on the very word that was busy: whoever ends that finds it, then wants our bed.
            let marked = word & WAITERS != 0
                || self.word.compare_exchange(word, word | WAITERS, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            if marked {
                woken.wait(&mut bed);
            }
        }
    }

    #[cold]
    fn wake(&self) {
        let (bed, woken) = self.parking.bed(self.page);
        let _bed = bed.lock();
        self.word.fetch_and(!WAITERS, Ordering::Relaxed);
        woken.notify_all();
    }

    /// Ends exclusive possession: `EXCLUSIVE` and `clear` go, `set` comes.
    fn end_exclusive(&self, clear: u64, set: u64, new_version: bool) {
        let mut word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & EXCLUSIVE != 0 && word & SHARED == 0, "E13: released without being held");
        loop {
            let mut wanted = (word & !(EXCLUSIVE | clear)) | set;
            if new_version {
                // After 2^44 versions the count begins again; no reader sleeps that long.
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

/// The page does not change while this lives.
#[derive(Debug)]
pub(crate) struct SharedLatch<'a> {
    latch: Latch<'a>,
    _held: Option<Held>,
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
        if word & WAITERS != 0 && word & SHARED == 1 {
            self.latch.wake();
        }
    }
}

/// Nobody else sees or changes the page while this lives, but optimistic readers, who will find out.
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

    /// Before the first byte changes.
    pub(crate) fn will_change(&mut self) {
        self.changed = true;
    }

    /// The page is out when the latch is released.
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

/// The page is being loaded; unless finished it stays out.
#[derive(Debug)]
#[must_use]
pub(crate) struct Loading<'a> {
    latch: Latch<'a>,
}

impl<'a> Loading<'a> {
    /// The bytes are in the frame: from here on others see them.
    pub(crate) fn finish(self) {
        self.latch.end_exclusive(0, RESIDENT, true);
        std::mem::forget(self);
    }

    /// As [`Loading::finish`], but the loader goes on to hold the page exclusively.
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

/// The page is held to be evicted; unless finished it stays in.
#[derive(Debug)]
#[must_use]
pub(crate) struct Evicting<'a> {
    latch: Latch<'a>,
}

impl Evicting<'_> {
    /// The frame is empty.
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

    /// The drawing at the door of this file, as attempts that must be refused and leave the word as it was.
    #[test]
    fn what_is_refused_changes_nothing() {
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
    fn only_what_is_cold_held_by_nobody_and_not_on_its_way_home_is_evicted() {
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
    fn a_witness_notices_changes_loads_and_evictions_but_not_readers() {
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
}
