//! The page table: sixteen bytes for every possible page, its latch word and its recovery LSN.
//!
//! The table is reserved like the frames themselves, so it takes memory only for pages that were once used: sixteen
//! bytes per 4096, whatever the size of the pool.

use cedrat_sync::atomic::AtomicU64;

use crate::latch::{Latch, Parking};
use crate::page::PageId;

pub(crate) struct PageTable {
    #[cfg(not(cedrat_shuttle))]
    entries: crate::frames::Reservation,
    /// The scheduler's atomics are larger than eight bytes and must be constructed.
    #[cfg(cedrat_shuttle)]
    entries: Vec<[AtomicU64; 2]>,
    pages: u64,
    parking: Parking,
}

impl PageTable {
    pub(crate) fn new(pages: u64) -> std::io::Result<PageTable> {
        #[cfg(not(cedrat_shuttle))]
        let entries = crate::frames::Reservation::new(pages as usize * 16)?;
        #[cfg(cedrat_shuttle)]
        let entries = (0..pages).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect();
        Ok(PageTable { entries, pages, parking: Parking::new() })
    }

    #[inline(always)]
    fn entry(&self, page: PageId) -> &[AtomicU64; 2] {
        #[cfg(not(cedrat_shuttle))]
        return self.entries.pair(page.get() as usize);
        #[cfg(cedrat_shuttle)]
        return &self.entries[page.get() as usize];
    }

    /// Returns the latch of a page; `None` if its number is beyond the limit.
    #[inline(always)]
    pub(crate) fn latch(&self, page: PageId) -> Option<Latch<'_>> {
        (page.get() < self.pages).then(|| Latch { word: &self.entry(page)[0], parking: &self.parking, page })
    }

    /// Returns the oldest LSN whose change of the page may not be durable at home; 0 if there is none (E3.3).
    #[inline(always)]
    pub(crate) fn recovery_lsn(&self, page: PageId) -> &AtomicU64 {
        &self.entry(page)[1]
    }
}
