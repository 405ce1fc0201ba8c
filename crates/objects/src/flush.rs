//! Objects leave the cache on request: flush and eviction (Lemon §7.1).

use cedrat_txn::{RecordId, Result, Store};

use crate::cache::Statistics;
use crate::collection::{ObjectId, Objects};
use crate::kept::Image;
use crate::record::Header;

impl Objects {
    /// Writes an object to its page, as far as permitted (Lemon §7.1, `flush`): with
    /// [`CommittedOnly`](crate::UndoPolicy::CommittedOnly) without uncommitted changes. It stays in the cache. Nothing is
    /// logged or forced, because the log already contains the changes.
    ///
    /// # Errors
    /// If the page cannot be read.
    pub fn flush(&self, store: &Store, id: ObjectId) -> Result<()> {
        self.check_opening(store)?;
        self.records_of(id).into_iter().try_for_each(|at| self.shared.cache.flush_one(at, store))
    }

    /// Like [`flush`](Objects::flush), for all objects, in the order of their pages.
    ///
    /// # Errors
    /// Errors of [`flush`](Objects::flush).
    pub fn flush_all(&self, store: &Store) -> Result<()> {
        self.check_opening(store)?;
        self.shared.cache.flush_older(store.log().current_lsn().next(), store)
    }

    /// Flushes an object and evicts it.
    ///
    /// # Errors
    /// [`NotCommitted`](crate::ObjectError::NotCommitted); as [`flush`](Objects::flush).
    pub fn evict(&self, store: &Store, id: ObjectId) -> Result<()> {
        self.check_opening(store)?;
        self.records_of(id).into_iter().try_for_each(|at| self.shared.cache.evict(at, store))
    }

    /// Returns the object's records that are in the cache.
    fn records_of(&self, id: ObjectId) -> Vec<RecordId> {
        let forward = |image: Image| Header::of(&image.bytes).ok().and_then(|header| header.forward);
        let target = self.shared.cache.peek(id).and_then(forward);
        target.into_iter().chain([id]).collect()
    }

    /// Statistics of the cache.
    pub fn statistics(&self) -> Statistics {
        self.shared.cache.statistics()
    }
}
