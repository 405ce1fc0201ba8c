//! Scrubbing: all pages in use are read at home and verified, before they are needed, and rebuilt if they are damaged.
//!
//! After Graefe and Kuno, "Self-diagnosing and self-healing indexes" (DBTest 2012): damage of a page that is not read stays
//! unnoticed until the backup from which it could be repaired is gone.

use std::ops::ControlFlow;

use cedrat_pages::{PAGE_LEN, PageId, PoolError};
use cedrat_wal::{LogError, Lsn};

use crate::error::{Error, Result};
use crate::pace::Pace;
use crate::space::{GROUP_PAGES, used_from_map};
use crate::store::{CATALOGUE, Store};
use crate::trace::span;

/// The number of pages between two calls of a scrub's observer.
const PIECE_PAGES: usize = 256;

/// Options of a scrub.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScrubOptions {
    /// The maximum number of bytes of pages that are read in a second; 0: no limit.
    pub bytes_per_second_max: u64,
}

/// The progress of a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScrubProgress {
    /// The number of pages in use that have been read.
    pub pages: u64,
    /// The number of pages of the file, in use or not, up to the last one that has been read, of [`of`](ScrubProgress::of).
    pub up_to: u64,
    /// The number of pages of the page file.
    pub of: u64,
}

/// The report of a scrub.
#[derive(Debug)]
#[non_exhaustive]
pub struct ScrubReport {
    /// The number of pages in use that were read.
    pub pages: u64,
    /// The number of records of the log that were read.
    pub log_records: u64,
    /// The number of damaged pages that were rebuilt meanwhile, by the scrub or by other readers.
    pub rebuilt: u64,
    /// The damage of each page that could not be rebuilt.
    pub damaged: Vec<Error>,
    /// Whether all was read; else the observer has ended the scrub.
    pub is_complete: bool,
}

impl Store {
    /// Reads all pages in use at home and the log, and verifies them, while transactions run. A damaged page is rebuilt from the
    /// archive ([`Options::archive`](crate::Options)), or written home again if it is in memory. `observe` is called after each
    /// megabyte at most: it may wait, so as to limit the rate, and end the scrub.
    ///
    /// # Errors
    /// Damage of the log. The store stopped. Pages that could not be rebuilt are in the report.
    pub fn scrub(
        &self,
        options: ScrubOptions,
        mut observe: impl FnMut(ScrubProgress) -> ControlFlow<()>,
    ) -> Result<ScrubReport> {
        span!("scrub");
        let (pool, pace) = (self.pool(), Pace::new(options.bytes_per_second_max));
        let before = pool.stats().pages_rebuilt;
        let mut report = ScrubReport { pages: 0, log_records: 0, rebuilt: 0, damaged: Vec::new(), is_complete: false };
        let of = pool.len_pages();
        'pages: for map in (0..of).step_by(GROUP_PAGES as usize).map(PageId::new) {
            let mut used = Vec::new();
            match used_from_map(pool, map, |page| used.push(PageId::new(page))) {
                // Which of its pages are in use is unknown: all are read.
                Err(error @ Error::Pages(PoolError::Damaged { .. })) => {
                    report.damaged.push(error);
                    used = (map.get() + 1..of.min(map.get() + GROUP_PAGES)).map(PageId::new).collect();
                }
                read => read?,
            }
            if used.is_empty() && map.get() == 0 {
                used.extend([map, CATALOGUE].into_iter().filter(|page| page.get() < of));
            }
            for piece in used.chunks(PIECE_PAGES) {
                for run in piece.chunk_by(|a, b| a.after(1) == *b) {
                    let damaged = pool.scrub(run[0], run.len() as u64)?;
                    report.damaged.extend(damaged.into_iter().map(Error::from));
                }
                report.pages += piece.len() as u64;
                let up_to = piece.last().map_or(map.get(), |last| last.get() + 1);
                if !pace.wait(report.pages * PAGE_LEN as u64, || self.log().is_stopped()) {
                    self.inner.alive()?;
                }
                if observe(ScrubProgress { pages: report.pages, up_to, of }).is_break() {
                    break 'pages;
                }
            }
            report.is_complete = map.get() + GROUP_PAGES >= of;
        }
        if report.is_complete {
            report.log_records = self.scrub_log()?;
        }
        report.rebuilt = pool.stats().pages_rebuilt - before;
        Ok(report)
    }

    /// Reads all records of the log, and returns their number. Log that is recycled meanwhile is not checked.
    fn scrub_log(&self) -> Result<u64> {
        let mut records = 0;
        let mut scan = self.log().scan(Lsn::ZERO)?;
        loop {
            match scan.next() {
                Ok(Some(_)) => records += 1,
                Ok(None) | Err(LogError::Truncated { .. }) => return Ok(records),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
