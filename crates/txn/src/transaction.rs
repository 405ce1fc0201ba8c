//! Transactions: begin, change, savepoints, commit, rollback. (Signatures first; bodies follow.)
use crate::*;
use cedrat_pages::{OptimisticPage, PageId, PageRef};
use cedrat_wal::{Lsn, TxnId};

const NOT_YET: &str = "not yet written";

/// A transaction. Belongs to one thread at a time (Send, not Sync). Dropped unfinished, it rolls back.
#[derive(Debug)]
pub struct Txn {}

/// A place in a transaction that it can be rolled back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {}

/// When `commit` returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commit {
    /// When the commit is durable.
    #[default]
    Sync,
    /// At once; the ticket tells when it is durable.
    Async,
    /// At once, and the log writer is not asked to hurry ("no flush", Lemon §1).
    NoFlush,
    /// Heap transactions only (E8.3): refused.
    Partition,
}

impl Txn {
    /// Its number.
    pub fn id(&self) -> TxnId { panic!("{NOT_YET}") }
    /// Its store.
    pub fn store(&self) -> &Store { panic!("{NOT_YET}") }
    /// The one road: lock callback (page, exclusive; not within nested/isolated/undo), latch, prepare, reserve, append, redo, stamp.
    pub fn update<O: Operation>(&mut self, at: RecordId, operation: &O) -> Result<()> { panic!("{NOT_YET}") }
    /// A single-page change whose undo is logical: one record, a nested top action of length one. `prepare` may refuse, its undo is ignored for `undo`. Takes no lock; the caller holds the structure's latch.
    pub fn update_logical<O: Operation>(&mut self, at: RecordId, operation: &O, undo: Undo) -> Result<()> { panic!("{NOT_YET}") }
    /// A single-page change with the undo that its own `prepare` gives, but without asking for a page lock: for structures that lock keys.
    pub fn update_latched<O: Operation>(&mut self, at: RecordId, operation: &O) -> Result<()> { panic!("{NOT_YET}") }
    /// A nested top action. `latches` (any guards) are dropped when it has ended, or has been undone physically.
    /// The closure sees the same transaction; within it updates ask for no locks. It returns the undo of the whole: Undo::logical, Undo::finish or Undo::none.
    pub fn nested<G, T>(&mut self, latches: G, work: impl FnOnce(&mut Txn) -> Result<(T, Undo)>) -> Result<T> { panic!("{NOT_YET}") }
    /// Declared full isolation: takes the big lock on the structure to the end of the transaction; several pages may then be changed with ordinary undo.
    pub fn isolated<T>(&mut self, root: PageId, work: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> { panic!("{NOT_YET}") }
    /// An ordered sequence of redo-only changes behind a check-and-finish undo record.
    pub fn ordered<G, F: Finish, T>(&mut self, latches: G, finish: &F, work: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> { panic!("{NOT_YET}") }
    /// Reads a page: shared lock (not within nested), shared latch.
    pub fn read(&self, page: PageId) -> Result<PageRef<'_>> { panic!("{NOT_YET}") }
    /// Reads a page under its latch alone, no lock.
    pub fn read_latched(&self, page: PageId) -> Result<PageRef<'_>> { panic!("{NOT_YET}") }
    /// Reads a page without a latch or lock (E12).
    pub fn optimistic<R>(&self, page: PageId, look: impl FnMut(OptimisticPage<'_>) -> Option<R>) -> Result<R> { panic!("{NOT_YET}") }
    /// This transaction has seen something that was changed at `lsn` (from a cache, say): its sync commit waits for it.
    pub fn saw(&self, lsn: Lsn) { panic!("{NOT_YET}") }
    /// Asks for a lock. Refused within nested top actions; grants silently within undo (E15.1).
    pub fn lock(&mut self, resource: locks::Resource, mode: locks::LockMode) -> Result<()> { panic!("{NOT_YET}") }
    /// Marks a place to roll back to.
    pub fn savepoint(&self) -> Savepoint { panic!("{NOT_YET}") }
    /// Undoes everything after the savepoint.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> { panic!("{NOT_YET}") }
    /// A transaction within this one: an error (or panic) rolls back only it.
    pub fn nested_transaction<T>(&mut self, work: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> { panic!("{NOT_YET}") }
    /// Commits.
    pub fn commit(self, mode: Commit) -> Result<cedrat_wal::Ticket> { panic!("{NOT_YET}") }
    /// Rolls back.
    pub fn rollback(self) -> Result<()> { panic!("{NOT_YET}") }
    /// Writes a record of the application's own, of a registered kind.
    pub fn log_record(&mut self, kind: &'static str, bytes: &[u8]) -> Result<Lsn> { panic!("{NOT_YET}") }
    /// Allocates one page. Its bytes are undefined: format it first ([`builtin::FormatFresh`]).
    pub fn allocate(&mut self) -> Result<PageId> { panic!("{NOT_YET}") }
    /// Allocates `pages` contiguous pages, at most [`REGION_PAGES_MAX`].
    pub fn allocate_region(&mut self, pages: u64) -> Result<PageId> { panic!("{NOT_YET}") }
    /// Frees a page.
    pub fn free(&mut self, page: PageId) -> Result<()> { panic!("{NOT_YET}") }
    /// Frees contiguous pages.
    pub fn free_region(&mut self, first: PageId, pages: u64) -> Result<()> { panic!("{NOT_YET}") }
}
