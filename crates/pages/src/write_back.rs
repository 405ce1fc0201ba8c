//! Write-back: writing changes home (E11), and the redo point for changes not yet home (E3.4).
//!
//! ```text
//!   dirty ──copy under the shared latch──▶ staged ──force──▶ its log is durable
//!                                                               │
//!   clean ◀──sync home── at home ◀──write home── safe ◀──write the double-write area
//! ```
//!
//! After the copy the frame counts as clean and may be changed again; the copy counts as dirty, by its recovery LSN
//! in [`InFlight`], until it is durable at home. The latch is held for the copy only (E11.1).
//!
//! One batch is in flight at a time: there is only one double-write area. An error in flight is final (W6): the pages
//! that it covered may be at home or not, and only the log, read again at the next opening, can decide.

use std::io;

use cedrat_media::{Durability, write_all_at};
use cedrat_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use cedrat_sync::{planted, thread};
use cedrat_wal::{Forced, Lsn};

use crate::double_write::DoubleWrite;
use crate::error::PoolError;
use crate::page::{PageId, lsn_of};
#[cfg(feature = "planted-faults")]
use crate::pool::Fault;
use crate::pool::{Counters, Pool};
use crate::view::LatchedPage;

/// The maximum number of helpers that write scattered pages home: with the writer's thread, as many concurrent writes
/// as pay on one device.
const HELPERS_MAX: usize = 7;
/// The number of writes that make a thread worthwhile.
const RUNS_A_HELPER: usize = 8;

/// The pages to be written home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBack {
    /// All whose oldest change not yet home is older than this: afterwards the redo point is no smaller. Not to be
    /// called by a thread that holds a page.
    Below(Lsn),
    /// The maximum number of pages, chosen from those not used lately.
    Pages(usize),
}

/// The treatment of a page that another thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldPagePolicy {
    /// Skip it: the writing thread may hold other pages itself.
    Skip,
    /// The same, and skip each page that is newer than this LSN.
    SkipNewer(Lsn),
    /// Wait for it.
    Wait,
}

/// The oldest recovery LSN among copies that are being written home.
pub(crate) struct InFlight(AtomicU64);

impl Default for InFlight {
    fn default() -> InFlight {
        InFlight(AtomicU64::new(u64::MAX))
    }
}

impl InFlight {
    fn depart(&self, recovery_lsn: u64) {
        self.0.fetch_min(recovery_lsn, Ordering::SeqCst);
    }

    fn arrive(&self) {
        self.0.store(u64::MAX, Ordering::SeqCst);
    }

    fn oldest(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Pool {
    /// Returns the LSN from which redo may begin: every change by an older record is durable at home.
    ///
    /// Reads the state of every frame; changes nothing.
    pub fn redo_point(&self) -> Lsn {
        // The clock before the first page: a page that is clean when checked is dirtied later by a newer LSN only.
        let mut redo_point = self.log.current_lsn().next().get();
        for page in self.clock.pages() {
            let recovery_lsn = self.table.recovery_lsn(page).load(Ordering::SeqCst);
            if recovery_lsn != 0 && !planted!("dirty_page_not_counted") {
                redo_point = redo_point.min(recovery_lsn);
            }
        }
        // The copies after the last page: a copy departs before its page looks clean (E11.3).
        Lsn::new(redo_point.min(self.in_flight.oldest()))
    }

    /// Returns a page with the oldest change that is not durable at home, and the LSN of that change: for reports. A page on
    /// its way home is not considered.
    pub fn oldest_change(&self) -> Option<(PageId, Lsn)> {
        let recovery_lsn = |page| (page, Lsn::new(self.table.recovery_lsn(page).load(Ordering::SeqCst)));
        self.clock.pages().map(recovery_lsn).filter(|&(_, lsn)| lsn > Lsn::ZERO).min_by_key(|&(_, lsn)| lsn)
    }

    /// Writes pages home and returns their number. On return they are durable there.
    ///
    /// # Errors
    /// The log could not be forced, or a write failed: the store has stopped.
    pub fn write_back(&self, want: WriteBack) -> Result<usize, PoolError> {
        match want {
            WriteBack::Below(lsn) => {
                let mut pages: Vec<PageId> = self
                    .clock
                    .pages()
                    .filter(|&page| {
                        let recovery_lsn = self.table.recovery_lsn(page).load(Ordering::SeqCst);
                        recovery_lsn != 0 && recovery_lsn < lsn.get()
                    })
                    .collect();
                let written = self.write_pages(&mut pages, HeldPagePolicy::Wait)?;
                // Another thread may have had a copy in flight: with the area free, it has arrived.
                self.await_write_back();
                Ok(written)
            }
            WriteBack::Pages(wanted) => {
                let mut written = 0;
                while written < wanted {
                    let dirty = self.sweep(0);
                    if dirty.is_empty() {
                        break;
                    }
                    let mut pages: Vec<PageId> = dirty.iter().map(|&(page, _)| page).collect();
                    pages.truncate(wanted - written);
                    match self.write_pages(&mut pages, HeldPagePolicy::Skip)? {
                        0 => break,
                        pages => written += pages,
                    }
                }
                Ok(written)
            }
        }
    }

    /// Makes durable which pages have been written home. A redo point that was computed before this call may be made
    /// durable after it. One sync at most; a block of the file for 31,744 neighbouring pages that were new at
    /// home.
    ///
    /// # Errors
    /// A write failed: the store has stopped.
    pub fn note_written(&self) -> Result<(), PoolError> {
        self.file.written().write(&self.log)
    }

    /// Waits until every batch that was in flight at the call has finished.
    pub(crate) fn await_write_back(&self) {
        drop(self.area.lock());
    }

    /// Writes the dirty ones of `pages` home, in the order of their homes.
    pub(crate) fn write_pages(&self, pages: &mut [PageId], patience: HeldPagePolicy) -> Result<usize, PoolError> {
        pages.sort_unstable();
        let mut written = 0;
        let mut rest = &*pages;
        while !rest.is_empty() {
            let mut area = self.area.lock();
            let (batch, others) = rest.split_at(self.grow_area(&mut area, rest.len())?.min(rest.len()));
            written += self.write_batch(&mut area, batch, patience)?;
            rest = others;
        }
        Counters::add(&self.counters.written, written);
        Ok(written)
    }

    /// Returns the number of pages that a batch may have, for a batch of up to `pages` pages. If the area has grown and that
    /// cannot be made durable, the log stops (W6).
    fn grow_area(&self, area: &mut DoubleWrite, pages: usize) -> Result<usize, PoolError> {
        area.grow(pages).map_err(|error| {
            let doing = "growing the double-write area";
            self.log.stop(format!("{doing} failed: {error}"));
            PoolError::io(doing, error)
        })
    }

    fn write_batch(
        &self,
        area: &mut DoubleWrite,
        pages: &[PageId],
        patience: HeldPagePolicy,
    ) -> Result<usize, PoolError> {
        // From the first copy on, frames count as clean whose changes are only in the area's buffer.
        let unfinished = StopUnlessHome(self);
        let (staged, newest) = self.stage(area, pages, patience);
        if staged.is_empty() {
            std::mem::forget(unfinished);
            return Ok(0);
        }
        self.bring_home(area, &staged, newest)?;
        std::mem::forget(unfinished);
        Ok(staged.len())
    }

    /// Writes the staged images home, durably, after the log of their changes.
    fn bring_home(&self, area: &mut DoubleWrite, staged: &[PageId], newest: Lsn) -> Result<(), PoolError> {
        let forced = self.force(newest)?;
        self.send_home(area, staged, newest, forced).map_err(|error| {
            let doing = format!("writing pages to {}", self.file.path());
            self.log.stop(format!("{doing} failed: {error}"));
            PoolError::io(doing, error)
        })?;
        // Before they have arrived: a redo point beyond them is computed afterwards (E22.1).
        self.file.written().add(staged);
        for &page in staged {
            if planted!("change_since_copy_forgotten") {
                self.table.recovery_lsn(page).store(0, Ordering::SeqCst);
            }
            self.latch(page)?.clear_writing();
        }
        self.in_flight.arrive();
        Ok(())
    }

    /// Copies the dirty ones of `pages` into the area's buffer. Returns them, and the newest LSN among them.
    fn stage(&self, area: &mut DoubleWrite, pages: &[PageId], patience: HeldPagePolicy) -> (Vec<PageId>, Lsn) {
        let mut staged = Vec::with_capacity(pages.len());
        let mut newest = Lsn::ZERO;
        for &page in pages {
            let Some(latch) = self.table.latch(page) else {
                continue;
            };
            let held = match patience {
                HeldPagePolicy::Skip | HeldPagePolicy::SkipNewer(_) => latch.try_shared_in_passing(),
                HeldPagePolicy::Wait => latch.shared_in_passing(),
            };
            let Some(held) = held else { continue };
            let seen = LatchedPage::new(self.words(page), held);
            let recovery_lsn = self.table.recovery_lsn(page);
            let dirty_since = recovery_lsn.load(Ordering::Acquire);
            let is_too_new = matches!(patience, HeldPagePolicy::SkipNewer(lsn) if seen.lsn() > lsn);
            if dirty_since == 0 || is_too_new {
                continue;
            }
            // E11.3: first the copy counts as dirty, then the frame no more.
            self.in_flight.depart(if planted!("copy_not_counted") { u64::MAX } else { dirty_since });
            latch.set_writing();
            recovery_lsn.store(0, Ordering::SeqCst);
            let image = area.image(staged.len());
            image.copy_from_slice(seen.bytes());
            newest = newest.max(lsn_of(image));
            staged.push(page);
            if planted!("latch_kept_over_write") {
                std::mem::forget(seen);
            }
        }
        (staged, newest)
    }

    fn force(&self, up_to: Lsn) -> Result<Option<Forced>, PoolError> {
        #[cfg(feature = "planted-faults")]
        if self.has_fault(Fault::WalRuleSkipped) {
            return Ok(None);
        }
        if planted!("page_before_its_log") {
            return Ok(None);
        }
        // Refused after a stop, also if the log is durable: one of the pages may be half changed (E6.3b).
        Ok(Some(self.log.force(up_to)?))
    }

    /// Writes the staged images to the area and home, durably. `forced` is `None` only with a planted fault.
    fn send_home(
        &self,
        area: &mut DoubleWrite,
        staged: &[PageId],
        newest: Lsn,
        forced: Option<Forced>,
    ) -> io::Result<()> {
        if let Some(forced) = forced {
            assert!(newest <= forced.up_to(), "E11.4: a page would reach the disk before its log");
        }
        area.write(staged, forced.map_or(Lsn::ZERO, |forced| forced.up_to()))?;
        self.write_homes(area, staged)?;
        self.file.sync(&self.log).map_err(io::Error::other)
    }

    /// Writes the images home. Pages adjacent at home are adjacent in the area, so one write covers them.
    ///
    /// Scattered pages need a write each, and a device handles several concurrent writes far faster than one after
    /// the other. If the store may use threads of its own, which the presence of a cleaner indicates, a few help;
    /// else, as in simulations, this thread makes every write, in order.
    ///
    /// The helpers are created for one batch and end with it. Creating one costs far less than one of the eight
    /// writes that it takes over, and nothing next to the batch's two syncs. A permanent crew would have to own the
    /// images, or share the area with the next batch; helpers in a scope borrow the images, and none outlives them,
    /// whatever fails (E11.5).
    fn write_homes(&self, area: &DoubleWrite, staged: &[PageId]) -> io::Result<()> {
        let mut first = 0;
        let runs: Vec<(usize, &[PageId])> = staged
            .chunk_by(|a, b| a.after(1) == *b)
            .map(|run| {
                let index = first;
                first += run.len();
                (index, run)
            })
            .collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(&(index, run)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let bytes = area.images(index, run.len());
                write_all_at(&*self.media, self.file.id(), run[0].file_offset(), bytes, Durability::Volatile)?;
            }
            Ok(())
        };
        let helpers = if self.has_cleaner() { (runs.len() / RUNS_A_HELPER).min(HELPERS_MAX) } else { 0 };
        if helpers == 0 {
            return work();
        }
        thread::scope(|scope| {
            // If the system cannot create more threads, fewer writes are concurrent.
            let spawn = |_| thread::spawn_in(scope, "cedrat-writes-home", work).ok();
            let helping: Vec<_> = (0..helpers).map_while(spawn).collect();
            let mine = work();
            let theirs = helping.into_iter().map(|helper| helper.join().expect("writing does not panic"));
            theirs.fold(mine, |all, one: io::Result<()>| all.and(one))
        })
    }
}

/// Stops the store when dropped: on an error or a panic between the first copy and the last home. Otherwise the next
/// batch would take the place of this one in the area, and the log of its pages would be freed (E11.3, E11.5).
struct StopUnlessHome<'a>(&'a Pool);

impl Drop for StopUnlessHome<'_> {
    fn drop(&mut self) {
        self.0.log.stop("pages on their way home did not all get there");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat_media::{Media, SimDisk};
    use cedrat_sync::{Arc, explore};
    use cedrat_wal::{Kind, Log, LogOptions, PartitionId, RecordHead, TxnId};

    use crate::page::LayoutKind;
    use crate::pool::PoolOptions;

    /// Creates a pool of four pages.
    fn pool_of_four() -> (Log, Pool) {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
        let options = PoolOptions { capacity_pages: 8, pages_max: 64, ..PoolOptions::default() };
        let pool = Pool::open(media, log.clone(), options).expect("a pool");
        pool.ensure_len(4).expect("there is room");
        (log, pool)
    }

    fn format(log: &Log, pool: &Pool, page: PageId) -> Lsn {
        let mut exclusive = pool.exclusive(page).expect("it is read");
        exclusive.will_change(log.current_lsn().next());
        let head = RecordHead::new(Kind::UPDATE, TxnId(1), None);
        let lsn = log.append(PartitionId(0), head, &[b"x"], &mut log.reservation_for_recovery()).lsn;
        exclusive.change(lsn, |page| page.format(LayoutKind::RAW));
        lsn
    }

    /// The copy is written, so the latch of its page is free from then on.
    #[test]
    fn copied_page_has_a_free_latch() {
        explore(1, 1, || {
            let (log, pool) = pool_of_four();
            let page = PageId::new(3);
            format(&log, &pool, page);
            let (staged, _) = pool.stage(&mut pool.area.lock(), &[page], HeldPagePolicy::Wait);
            assert_eq!(staged, [page]);
            let latch = pool.table.latch(page).expect("the page is there");
            latch.clear_writing();
            latch.cool();
            assert!(latch.try_evict().is_some(), "E11.1: its latch is held");
        });
    }

    /// The page changes between its copy and the arrival of the copy.
    #[test]
    fn page_changed_since_copy_stays_dirty() {
        explore(1, 1, || {
            let (log, pool) = pool_of_four();
            let page = PageId::new(3);
            format(&log, &pool, page);
            let (staged, newest) = pool.stage(&mut pool.area.lock(), &[page], HeldPagePolicy::Wait);
            let changed = format(&log, &pool, page);
            pool.bring_home(&mut pool.area.lock(), &staged, newest).expect("the disk works");
            assert!(pool.redo_point() <= changed, "E11.2");
        });
    }
}
