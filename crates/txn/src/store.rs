//! An open store. (Signatures first; bodies follow.)
use crate::*;
use cedrat_media::Media;
use cedrat_pages::{OptimisticPage, PageId, PageRef, Pool};
use cedrat_sync::Arc;
use cedrat_wal::Log;
const NOT_YET: &str = "not yet written";

/// The page that the catalogue of named roots begins at; allocated and never freed.
pub const CATALOGUE: PageId = PageId::new(1);

/// An open store. Cheap to clone; all clones are the same store.
#[derive(Clone, Debug)]
pub struct Store {}

impl Store {
    /// Opens a store, which is recovering it (R1); creates it if there is none and the options say so.
    pub fn open(media: Arc<dyn Media>, options: Options, registry: Registry) -> Result<Store> { panic!("{NOT_YET}") }
    /// Begins a transaction.
    pub fn begin(&self) -> Txn { panic!("{NOT_YET}") }
    /// Runs `work` in a transaction and commits it in mode Sync; runs it again after a deadlock.
    pub fn transact<T>(&self, work: impl FnMut(&mut Txn) -> Result<T>) -> Result<T> { panic!("{NOT_YET}") }
    /// What the opening did.
    pub fn recovery(&self) -> &RecoveryReport { panic!("{NOT_YET}") }
    /// The state that a structure keeps in memory while the store is open; made by the first who asks.
    pub fn resident<T: Send + Sync + 'static>(&self, root: PageId, init: impl FnOnce() -> Result<T>) -> Result<Arc<T>> { panic!("{NOT_YET}") }
    /// Reads a page under its shared latch, outside of any transaction.
    pub fn read(&self, page: PageId) -> Result<PageRef<'_>> { panic!("{NOT_YET}") }
    /// Reads a page without a latch (E12).
    pub fn optimistic<R>(&self, page: PageId, look: impl FnMut(OptimisticPage<'_>) -> Option<R>) -> Result<R> { panic!("{NOT_YET}") }
    /// Writes back, moves the redo point, gives log back (fuzzy).
    pub fn checkpoint(&self) -> Result<()> { panic!("{NOT_YET}") }
    /// Walks everything: space map, checksums, layouts.
    pub fn check(&self) -> Result<CheckReport> { panic!("{NOT_YET}") }
    /// The log, for forcing and iterating.
    pub fn log(&self) -> &Log { panic!("{NOT_YET}") }
    /// The pool.
    pub fn pool(&self) -> &Pool { panic!("{NOT_YET}") }
    /// Checkpoint, promise, close. Fails with Misuse while other clones live.
    pub fn close(self) -> Result<()> { panic!("{NOT_YET}") }
}
