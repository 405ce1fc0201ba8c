//! Pages that are damaged at home are rebuilt when they are read, and written there again (Graefe and Kuno, "Definition,
//! detection, and recovery of single-page failures, a fourth class of database failures", PVLDB 2012).
//!
//! 1. A page that is not in memory is at home with all of its changes, and all of them are in the durable log: it was written home
//!    after them (E11.4).
//! 2. So a page that cannot be read, or does not verify, is what its records in the log make of an older copy of it.
//! 3. A page that is newer than the log is not rebuilt: the damage is that of the log (E20.5).

use cedrat_media::{AlignedBuf, Media};
use cedrat_sync::{Arc, planted};
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::time::SystemTime;

use crate::at_home::PageAtHome;
use crate::error::PoolError;
use crate::page::{PAGE_LEN, PageId};
use crate::pool::Pool;
use crate::view::PageBuf;
use crate::written::WrittenBits;

/// The number of rebuilt pages that are remembered.
const REMEMBERED_MAX: usize = 1000;

/// The number of pages that a scrub reads at a time.
const PAGES_AT_ONCE: u64 = 256;

/// The source from which damaged pages are rebuilt.
pub trait Rebuild: Send + Sync {
    /// Returns a page with all changes of it that are in the durable log. The page is latched during the call, which uses no page
    /// of the pool.
    ///
    /// # Errors
    /// The reason why it cannot be rebuilt, as text.
    fn rebuild(&self, page: PageId) -> Result<PageBuf, String>;
}

/// A page that was damaged at home, and was rebuilt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RebuiltPage {
    /// The page.
    pub page: PageId,
    /// The damage, with file and offset.
    pub damage: String,
    /// The time at which it was noticed.
    pub at: SystemTime,
}

/// The source of rebuilt pages, and what it has rebuilt.
#[derive(Default)]
pub(crate) struct Rebuilding {
    source: Option<Arc<dyn Rebuild>>,
    pages: HashSet<PageId>,
    /// The newest ones, the oldest of them first.
    newest: VecDeque<RebuiltPage>,
    pub(crate) times: u64,
}

impl fmt::Debug for Rebuilding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rebuilding").field("times", &self.times).finish_non_exhaustive()
    }
}

impl Pool {
    /// Sets the source from which damaged pages are rebuilt from now on.
    pub fn rebuild_with(&self, source: Arc<dyn Rebuild>) {
        self.rebuilding.lock().source = Some(source);
    }

    /// Returns the newest thousand pages that were damaged at home and rebuilt since the pool was opened.
    pub fn rebuilt_pages(&self) -> Vec<RebuiltPage> {
        self.rebuilding.lock().newest.iter().cloned().collect()
    }

    /// Whether the page was rebuilt since the pool was opened: it may have changes that have not been flushed to it yet.
    pub fn was_rebuilt(&self, page: PageId) -> bool {
        self.rebuilding.lock().pages.contains(&page)
    }

    /// Rebuilds a page for the thread that loads it.
    pub(crate) fn rebuild(&self, page: PageId, damage: PoolError) -> Result<PageBuf, PoolError> {
        let source = self.rebuilding.lock().source.clone();
        let Some(source) = source else { return Err(damage) };
        let said = damage.to_string();
        let rebuilt = source.rebuild(page).map_err(|why| damage.not_rebuilt(why))?;
        let mut rebuilding = self.rebuilding.lock();
        rebuilding.times += 1;
        rebuilding.pages.insert(page);
        if rebuilding.newest.len() == REMEMBERED_MAX {
            rebuilding.newest.pop_front();
        }
        rebuilding.newest.push_back(RebuiltPage { page, damage: said, at: SystemTime::now() });
        Ok(rebuilt)
    }

    /// Reads pages at home, and verifies them. A damaged one is written home again if it is in memory, or can be rebuilt. Returns
    /// the damage of the others.
    ///
    /// # Errors
    /// [`PoolError::AllHeld`]; the store stopped.
    pub fn scrub(&self, first: PageId, pages: u64) -> Result<Vec<PoolError>, PoolError> {
        let mut damaged = Vec::new();
        let mut buffer = AlignedBuf::zeroed(PAGES_AT_ONCE as usize * PAGE_LEN);
        for piece in (0..pages).step_by(PAGES_AT_ONCE as usize) {
            let bytes = &mut buffer[..PAGES_AT_ONCE.min(pages - piece) as usize * PAGE_LEN];
            // Of a piece that cannot be read, each page is read.
            let is_read = self.file.read(first.after(piece), bytes).is_ok();
            for (image, page) in bytes.chunks_exact_mut(PAGE_LEN).zip((piece..).map(|page| first.after(page))) {
                if is_read && self.file.verify(image, page).is_ok() || self.read_at_home(page, image).is_ok() {
                    continue;
                }
                match self.exclusive(page) {
                    Ok(page) => page.write_again(),
                    Err(PoolError::Damaged { .. }) if self.may_be_half_punched(page)? => {}
                    Err(error @ (PoolError::Damaged { .. } | PoolError::Io { .. })) => damaged.push(error),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(damaged)
    }

    /// Reads the page while no batch of pages goes home, and verifies it.
    pub(crate) fn read_at_home(&self, page: PageId, image: &mut [u8]) -> Result<(), PoolError> {
        let _no_batch = self.area.lock();
        self.file.read(page, image)?;
        self.file.verify(image, page)
    }
}

/// Returns a page of a store that is not open, a backup for example. A page behind the end of its file that was never written there is
/// empty.
///
/// # Errors
/// [`PoolError::Damaged`], also if the page was written and reads as zeros; [`PoolError::Beyond`], if it was written and the file ends
/// before it; [`PoolError::Foreign`], [`PoolError::Io`].
pub fn copy_of_page(from: &dyn Media, page: PageId) -> Result<PageBuf, PoolError> {
    let was_written = WrittenBits::look(from)?.is_some_and(|bits| bits.has(page));
    let found = match PageAtHome::look(from, page) {
        Err(PoolError::Beyond { .. }) if !was_written => return Ok(PageBuf::new(page)),
        found => found?,
    };
    match found.damage.filter(|_| !planted!("lost_copy_rebuilt")) {
        Some(damage) => Err(PoolError::damaged(found.file, damage)),
        None => Ok(found.bytes),
    }
}
