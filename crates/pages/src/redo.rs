//! Redo on demand: pages whose records are redone when the pages are needed, not before the store opens (Graefe, Guy and Sauer,
//! "Instant recovery with write-ahead logging", 2nd edition 2016; Lemon §3).
//!
//! 1. A page is *pending* while records of it are known that may be missing in it. Only its source ends that, with the page latched,
//!    and no page becomes pending again.
//! 2. A reader or a writer finds a pending page absent, also if its bytes are in its frame. The load of the page redoes all of its
//!    records before it shows the page (R8).
//! 3. The drain redoes the records of many pages in the order of the log. Between two of its visits a page stays in its frame, is
//!    written home or evicted, with the records that it has: the redo point is not beyond the others (R9).

use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, RwLock, planted};

use crate::error::PoolError;
use crate::evict::FreeFrame;
use crate::exclusive::Exclusive;
use crate::latch::{Latch, Loading};
use crate::page::PageId;
use crate::pool::Pool;

/// The source of the records that pages may lack after a crash.
pub trait PendingRedo: Send + Sync {
    /// Whether the page is pending.
    fn is_pending(&self, page: PageId) -> bool;

    /// Whether the first of the pending records formats the page, so that it need not be read at home.
    fn formats(&self, page: PageId) -> bool;

    /// Redoes all pending records of the page, which is not pending on return. Called under the page's latch; it uses no other page
    /// of the pool.
    ///
    /// # Errors
    /// [`PoolError::NotRedone`], [`PoolError::Stopped`]: the page is pending still.
    fn redo(&self, page: &mut Exclusive<'_>) -> Result<(), PoolError>;
}

/// The source of pending records, if there are any.
#[derive(Default)]
pub(crate) struct Redoing {
    /// Checked first, since a store without pending pages is the usual one.
    is_on: AtomicBool,
    source: RwLock<Option<Arc<dyn PendingRedo>>>,
}

impl Redoing {
    /// Whether pages may be pending.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Returns the source if the page is pending.
    fn of(&self, page: PageId) -> Option<Arc<dyn PendingRedo>> {
        if !self.is_on() || planted!("pending_page_read_unredone") {
            return None;
        }
        let source = self.source.read().clone()?;
        source.is_pending(page).then_some(source)
    }
}

/// A page that redo of a part of its records is to change.
pub enum ForRedo<'a> {
    /// The page, to which no reader has access.
    Pending(Exclusive<'a>),
    /// All of its records were redone meanwhile.
    Done,
}

impl Pool {
    /// Sets the source of pending records, before any page is in memory, or removes it when no page is pending any more.
    pub fn redo_on_demand(&self, source: Option<Arc<dyn PendingRedo>>) {
        let mut current = self.redoing.source.write();
        self.redoing.is_on.store(source.is_some(), Ordering::Release);
        *current = source;
    }

    /// Returns a frame for the page, unless it is pending in one.
    pub(crate) fn frame_unless_pending(&self, latch: &Latch<'_>) -> Result<Option<FreeFrame<'_>>, PoolError> {
        if latch.is_pending() { Ok(None) } else { self.free_frame().map(Some) }
    }

    /// Returns a pending page for redo of some of its records. Readers do not see it before [`Exclusive::end_redo`].
    ///
    /// `formats`: the first of these records formats the page, and it is not read at home.
    ///
    /// # Errors
    /// As [`Pool::read`].
    pub fn exclusive_for_redo(&self, page: PageId, formats: bool) -> Result<ForRedo<'_>, PoolError> {
        self.file.check(page)?;
        loop {
            let latch = self.latch(page)?;
            let frame = self.frame_unless_pending(&latch)?;
            let Some(loading) = latch.begin_load() else {
                if latch.is_in() && !latch.is_pending() {
                    return Ok(ForRedo::Done);
                }
                continue;
            };
            let _running = self.loads.begin();
            if self.redoing.of(page).is_none() {
                return Ok(ForRedo::Done);
            }
            if !loading.is_in_frame() {
                let Some(frame) = frame else { continue };
                if formats {
                    let frame = frame.fill(page);
                    return Ok(ForRedo::Pending(Exclusive::new(self, loading.hold_for_redo(), Some(frame))));
                }
                self.read_into(page, frame)?;
            }
            return Ok(ForRedo::Pending(Exclusive::new(self, loading.hold_for_redo(), None)));
        }
    }

    /// Ends the load of a page whose bytes are in its frame, or that has none and is formatted: redoes what is pending.
    pub(crate) fn finish_load(&self, page: PageId, loading: Loading<'_>) -> Result<(), PoolError> {
        let Some(source) = self.redoing.of(page) else {
            loading.finish();
            return Ok(());
        };
        let mut held = Exclusive::new(self, loading.hold_for_redo(), None);
        source.redo(&mut held)?;
        held.end_redo();
        Ok(())
    }

    /// Whether the page is pending and its first pending record formats it.
    pub(crate) fn is_formatted_by_redo(&self, page: PageId) -> bool {
        self.redoing.of(page).is_some_and(|source| source.formats(page))
    }

    /// Whether the page is pending, so that even a caller that will format it must not take it for a free page.
    pub(crate) fn is_pending(&self, page: PageId) -> bool {
        self.redoing.of(page).is_some()
    }

    /// Shows a page to readers whose pending records are all redone, if it is in a frame. `redone` is called under its latch.
    ///
    /// # Errors
    /// [`PoolError::Limit`]: there is no such page.
    pub fn show_redone(&self, page: PageId, redone: impl FnOnce()) -> Result<(), PoolError> {
        let latch = self.latch(page)?;
        loop {
            match latch.begin_load() {
                Some(loading) => {
                    redone();
                    if loading.is_in_frame() {
                        loading.finish();
                    }
                    return Ok(());
                }
                // Another thread has redone it.
                None if latch.is_in() && !latch.is_pending() => return Ok(()),
                None => {}
            }
        }
    }
}
