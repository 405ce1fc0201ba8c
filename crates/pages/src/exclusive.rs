//! Exclusive access to a page; the order of the steps of a change is part of the protocol E3.

use std::fmt;

use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::planted;
use cedrat_wal::Lsn;

use crate::frames::PageWords;
use crate::latch::ExclusiveLatch;
use crate::page::{BODY_LEN, LayoutKind, PageId, at};
use crate::pool::Pool;
use crate::view::{PageMut, PageRef};

/// Exclusive access to a page, under its exclusive latch.
///
/// The order of a change is part of the protocol of redo points: [`page_ref`](Exclusive::page_ref) to check whether it is
/// possible; [`will_change`](Exclusive::will_change) *before* the LSN is drawn; the draw;
/// [`change`](Exclusive::change). No operation that waits may be called while this is held (docs/inside/latches.md).
pub struct Exclusive<'a> {
    words: &'a PageWords,
    recovery_lsn: &'a AtomicU64,
    pool: &'a Pool,
    /// The frame of a page that was not read and has not been formatted yet.
    fresh: Option<usize>,
    latch: ExclusiveLatch<'a>,
}

/// Each byte of the pattern of [`Exclusive::poison`]: as a count, a length or a page number too large for any page.
const POISON: u8 = 0xDB;

impl<'a> Exclusive<'a> {
    /// `fresh`: the frame of a page that was not read.
    pub(crate) fn new(pool: &'a Pool, latch: ExclusiveLatch<'a>, fresh: Option<usize>) -> Exclusive<'a> {
        let page = latch.page();
        Exclusive { words: pool.words(page), recovery_lsn: pool.table.recovery_lsn(page), pool, fresh, latch }
    }
}

impl Exclusive<'_> {
    /// Returns the number of the page.
    pub fn id(&self) -> PageId {
        self.latch.page()
    }

    /// Returns the current content of the page.
    pub fn page_ref(&self) -> PageRef<'_> {
        PageRef::within(self.words, &self.latch)
    }

    /// Publishes that a record with an LSN of at least `recovery_lsn` is about to change the page.
    ///
    /// `recovery_lsn` is one more than the newest LSN drawn, read now; in redo the record's own LSN; for a flushed
    /// record the oldest change that the page may lack. An older one that is already published stays.
    pub fn will_change(&mut self, recovery_lsn: Lsn) {
        assert!(recovery_lsn > Lsn::ZERO, "E3.3: 0 is the recovery LSN of a clean page");
        if self.is_announced_late() || planted!("change_not_announced") {
            return;
        }
        let published = self.recovery_lsn.load(Ordering::Relaxed);
        if published == 0 || published > recovery_lsn.get() {
            // Before the draw, which every reader of the clock sees together with all stores before it.
            self.recovery_lsn.store(recovery_lsn.get(), Ordering::SeqCst);
        }
    }

    /// Whether a planted fault makes the page count as dirty only from its first change on.
    #[inline]
    fn is_announced_late(&self) -> bool {
        #[cfg(feature = "planted-faults")]
        return self.pool.has_fault(crate::pool::Fault::RecoveryLsnLate);
        #[cfg(not(feature = "planted-faults"))]
        false
    }

    /// Changes the page by record `lsn`, and stamps it with that LSN.
    ///
    /// A panic inside stops the store: the page is half changed, and its log record cannot be repeated.
    pub fn change<R>(&mut self, lsn: Lsn, change: impl FnOnce(&mut PageMut<'_>) -> R) -> R {
        assert!(
            planted!("record_redone_twice") || self.page_ref().lsn() < lsn,
            "page {} has record {lsn} already: a record changes a page once, in the order of the LSNs",
            self.id()
        );
        self.change_and_stamp(lsn, lsn, change)
    }

    /// Changes one versioned record to its state after the change `version`, out of the order of the page's other
    /// changes: the page's LSN becomes `newest` if that is newer, and never decreases.
    ///
    /// `newest` is not older than `version`, and drawn: the page is written home only after the log is durable up to
    /// it.
    ///
    /// A panic inside stops the store, as in [`change`](Exclusive::change).
    pub fn change_record<R>(&mut self, version: Lsn, newest: Lsn, change: impl FnOnce(&mut PageMut<'_>) -> R) -> R {
        assert!(version <= newest, "E19.3: the log may end before change {version}, which the page would have");
        let stamp = if planted!("page_lsn_goes_back") { newest } else { self.page_ref().lsn().max(newest) };
        self.change_and_stamp(version, stamp, change)
    }

    /// Ends redo of the page, in which nothing is pending any more: readers see it when it is dropped.
    pub fn end_redo(mut self) {
        if self.fresh.is_none() {
            self.latch.come_in();
        }
    }

    /// Lets a page that is damaged at home be written there again.
    pub(crate) fn write_again(self) {
        self.pool.note_damaged_home(self.latch.page());
    }

    /// Fills the body of a free page with a pattern, under no layout. The page was freed not later than at `freed_by`.
    ///
    /// A dirty page may go home at any time, and if the log then ended before `freed_by`, a crash would need the old bytes. So
    /// the page gets that LSN.
    pub(crate) fn poison(&mut self, freed_by: Lsn) {
        self.latch.will_change();
        let lsn = self.page_ref().lsn().max(freed_by);
        let mut page = PageMut::under(self.words, &mut self.latch, lsn, lsn);
        page.format(LayoutKind::NONE);
        page.stamp();
        self.words.fill(at::BODY, BODY_LEN, POISON);
    }

    fn change_and_stamp<R>(&mut self, lsn: Lsn, stamp: Lsn, change: impl FnOnce(&mut PageMut<'_>) -> R) -> R {
        if self.is_announced_late() {
            if self.recovery_lsn.load(Ordering::Relaxed) == 0 {
                self.recovery_lsn.store(lsn.next().get(), Ordering::SeqCst);
            }
        } else {
            let recovery_lsn = self.recovery_lsn.load(Ordering::Relaxed);
            let announced = recovery_lsn != 0 && recovery_lsn <= lsn.get();
            assert!(announced, "E3.3: record {lsn} was drawn before it was announced");
        }
        self.latch.will_change();
        self.fresh = None;
        let unfinished = StopOnPanic(self.pool, self.latch.page());
        let mut page = PageMut::under(self.words, &mut self.latch, lsn, stamp);
        let result = change(&mut page);
        page.stamp();
        std::mem::forget(unfinished);
        result
    }
}

impl Pool {
    /// Lets a page that is damaged at home be written there again. The caller holds it alone.
    ///
    /// It need not be before the redo point passes its records: until then it is damaged, and is rebuilt again after a crash.
    pub(crate) fn note_damaged_home(&self, page: PageId) {
        let recovery_lsn = self.table.recovery_lsn(page);
        if recovery_lsn.load(Ordering::Relaxed) == 0 && !planted!("rebuilt_page_stays_in_memory") {
            // The last checkpoint before the store is closed writes it, too.
            recovery_lsn.store(self.log.current_lsn().get().max(1), Ordering::SeqCst);
        }
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        if let Some(frame) = self.fresh.take() {
            // Never read, never changed: the page at home is the valid one.
            self.recovery_lsn.store(0, Ordering::Release);
            self.latch.leave_out();
            self.pool.clock.vacate(frame);
        }
    }
}

impl fmt::Debug for Exclusive<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Exclusive").field(&self.page_ref()).finish()
    }
}

/// Stops the store when dropped, which happens only when a change panics.
struct StopOnPanic<'a>(&'a Pool, PageId);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if !planted!("half_change_kept") {
            self.0.log.stop(format!("the change of page {} panicked half-way", self.1));
        }
    }
}
