//! Work that structures postpone until there is a checkpoint, such as giving back pages that removals have left nearly empty.

use cedrat_pages::{PageId, PageRef};
use cedrat_sync::{Arc, planted};
use cedrat_wal::Lsn;

use crate::error::Result;
use crate::store::Store;
use crate::trace::event;

/// Work of a structure at checkpoints, as a part of its resident state ([`Store::resident_with_upkeep`]).
pub trait Upkeep: Send + Sync + 'static {
    /// Does a part of the work, in transactions of its own, and returns how far it came. It is called at a checkpoint, on the
    /// thread that takes it, with no latch held; until it returns, no other checkpoint begins on that thread. So a part takes
    /// some milliseconds, and waits for no transaction and no lock.
    ///
    /// # Errors
    /// Any: the structure is left alone until the next checkpoint, which does not fail for it.
    fn upkeep(self: Arc<Self>, store: &Store, root: PageId) -> Result<UpkeepProgress>;
}

/// The progress of an [`Upkeep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpkeepProgress {
    /// Nothing is left to do now.
    Done,
    /// There is more to do, and something may have changed.
    More,
}

/// The result of the upkeep of all structures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UpkeepReport {
    pub(crate) has_changed: bool,
    pub(crate) is_interrupted: bool,
}

impl Store {
    /// Lets each structure do what it has postponed, until `is_over`.
    pub(crate) fn keep_up(&self, is_over: impl Fn() -> bool) -> UpkeepReport {
        let mut kept = UpkeepReport::default();
        for (root, upkeep) in self.inner.residents.kept() {
            loop {
                if is_over() || self.inner.alive().is_err() {
                    return UpkeepReport { is_interrupted: true, ..kept };
                }
                match Arc::clone(&upkeep).upkeep(self, root) {
                    Ok(UpkeepProgress::More) => kept.has_changed = true,
                    Ok(UpkeepProgress::Done) => break,
                    Err(_error) => {
                        // The next call that uses the structure gets the same error, if it is more than a lack of space.
                        event!(WARN, root = root.get(), error = %_error, "upkeep of a structure was given up");
                        break;
                    }
                }
            }
        }
        kept
    }

    /// Returns which changes of pages are settled: of those made so far, no other may still have to be undone.
    pub fn settled(&self) -> SettledChanges {
        if planted!("open_transactions_ignored") {
            return SettledChanges { before: Lsn::MAX };
        }
        // The clock is read before the table: see `Table`.
        let next = self.inner.log.current_lsn().next();
        SettledChanges { before: self.inner.table.undone_from().map_or(next, |oldest| oldest.min(next)) }
    }
}

/// The changes of pages that no transaction has to undo any more ([`Store::settled`]).
#[derive(Clone, Copy, Debug)]
pub struct SettledChanges {
    /// Each transaction that has made a change with a smaller LSN has ended.
    before: Lsn,
}

impl SettledChanges {
    /// Whether all changes of a page are among them.
    pub fn contains(&self, page: &PageRef<'_>) -> bool {
        page.lsn() < self.before
    }
}
