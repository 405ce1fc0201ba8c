//! The interface for object caches: components that keep records in memory, and write their pages later (Lemon §7).
//!
//! It is for authors of a cache, such as `cedrat-objects`; users of a cache need none of it.
//!
//! | task | interface |
//! |---|---|
//! | define a change of a record | [`Delta`], [`DeltaRegistry`] |
//! | keep the log for changes that are in no page | [`Unflushed`], [`UnflushedRecords`] → [`Keeper`] |
//! | change records | [`DeferredChanges`]; within the commit record: [`CommitChanges`] |
//! | lock records, or all of them | [`RecordLocks`] |
//! | read records without locks while transactions are in doubt | [`InDoubtRecords`] |

use cedrat_sync::{Arc, planted};
use cedrat_wal::{Lsn, Ticket};

pub use crate::committing::CommitChanges;
pub use crate::deferred::{Delta, Keeper, KeptRecord, TakenBack, ToPages, Unflushed};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
pub use crate::in_doubt::InDoubtRecords;
pub use crate::locking::RecordLocks;
use crate::operation::{Operation, RecordId};
pub use crate::registry::DeltaRegistry;
use crate::store::Store;
use crate::transaction::{Commit, Txn};

/// The changes of kept records by a transaction. Implemented by [`Txn`].
pub trait DeferredChanges {
    /// Logs a change of a versioned record without reading or changing its page (Lemon §7.1: `update()`). The `keeper`
    /// that keeps the record has the change from now on. Returns the new version of the record.
    ///
    /// If the transaction does not commit, the change does not count, and no undo is logged. In a transaction [without
    /// atomicity](crate::TxnOptions::without_atomicity) it counts from now on, and a crash or a rollback leaves a
    /// prefix of its changes. No lock is taken: the keeper of the record isolates it.
    ///
    /// Before a record is changed in its page ([`Txn::update`]) it must be flushed and no longer kept; so a transaction
    /// that has itself deferred changes of the record cannot update it. After the update, also by the same transaction,
    /// the record may be kept again.
    ///
    /// # Errors
    /// [`Error::Misuse`] within a nested top action or an ordered sequence, in undo, beside
    /// [`defer_inverse`](DeferredChanges::defer_inverse), or for another store's keeper; [`Error::Refused`] if there is
    /// no such page; [`Error::TooLarge`], [`Error::LogFull`]. Nothing has happened then. [`Error::PinsLog`]: the
    /// transaction was rolled back.
    fn defer<D: Delta>(&mut self, keeper: &Keeper, at: RecordId, delta: &D) -> Result<Lsn>;

    /// As [`defer`](DeferredChanges::defer), if `change` applies the change to the kept record. It is called after
    /// everything else that can refuse and everything that may wait for the log. If it returns `Some`, the change is
    /// logged, and nothing can fail any more; if it returns `None` or an error, nothing is logged.
    ///
    /// So `change` may take the keeper's latch and keep it in its result until the caller knows the LSN, just as an
    /// update holds the latch of its page. `change` may flush records, but must not change anything through a
    /// transaction.
    ///
    /// # Errors
    /// As [`defer`](DeferredChanges::defer); those of `change`. Nothing has happened then.
    fn defer_when<D: Delta, C>(
        &mut self,
        keeper: &Keeper,
        at: RecordId,
        delta: &D,
        change: impl FnOnce(&Txn) -> Result<Option<C>>,
    ) -> Result<Option<(Lsn, C)>>;

    /// As [`defer`](DeferredChanges::defer), with a change that undoes it: a rollback logs that inverse and notifies the
    /// keeper. A record with such changes may be flushed before they are committed.
    ///
    /// # Errors
    /// As [`defer`](DeferredChanges::defer); [`Error::Misuse`] beside `defer` in one transaction.
    fn defer_inverse<D: Delta, I: Delta>(
        &mut self,
        keeper: &Keeper,
        at: RecordId,
        delta: &D,
        inverse: &I,
    ) -> Result<Lsn>;

    /// As [`defer_when`](DeferredChanges::defer_when), with a change that undoes it.
    ///
    /// # Errors
    /// As [`defer_inverse`](DeferredChanges::defer_inverse); those of `change`. Nothing has happened then.
    fn defer_inverse_when<D: Delta, I: Delta, C>(
        &mut self,
        keeper: &Keeper,
        at: RecordId,
        delta: &D,
        inverse: &I,
        change: impl FnOnce(&Txn) -> Result<Option<C>>,
    ) -> Result<Option<(Lsn, C)>>;

    /// Registers a record as kept after the change of its page that this transaction has just made: before that change
    /// is undone, the keeper is [notified](Unflushed::withdrawn). Nothing is logged. The keeper is also notified of the
    /// transaction's end.
    ///
    /// # Errors
    /// [`Error::Misuse`] within a nested top action or an ordered sequence, in undo, before the first change, or for another
    /// store's keeper.
    fn kept(&mut self, keeper: &Keeper, at: RecordId) -> Result<()>;

    /// Checks in advance whether a change may be deferred now, and whether a record may be
    /// [kept](DeferredChanges::kept) once it is changed.
    ///
    /// # Errors
    /// [`Error::Misuse`], as there.
    fn may_keep(&self, keeper: &Keeper) -> Result<()>;

    /// Notes that the transaction has read a change with this LSN from a kept record. A `Sync` commit then waits until
    /// that change is durable.
    ///
    /// # Errors
    /// [`Error::PinsLog`], [`Error::TimeLimit`] if the store has rolled the transaction back: without its locks it may have
    /// read a change that is not committed.
    fn note_read(&self, version: Lsn) -> Result<()>;

    /// Runs `work` as one call: the store does not roll the transaction back before `work` has ended. For steps that
    /// belong together and about which the caller keeps state outside of the transaction.
    ///
    /// It should be short: a transaction over its limit is not rolled back during the call.
    ///
    /// # Errors
    /// Those of `work`; [`Error::PinsLog`], [`Error::TimeLimit`] if the store has rolled the transaction back.
    fn as_one_call<T>(&mut self, work: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T>;

    /// Commits with changes of kept records in the commit record. The result is that of one
    /// [`defer_when`](DeferredChanges::defer_when) per change, followed by [`Txn::commit`].
    ///
    /// `latch` is called after everything that may wait, and must not apply a change yet; it may take the keeper's latch and
    /// keep it in its result. `logged` receives that result, the LSN of the commit, which is the new version of all these
    /// records, and the bytes of the changes, whose memory it may take. It applies the changes; it cannot fail. With the latch
    /// held, no other thread comes between the record in the log and the kept records.
    ///
    /// The page of an [operation](CommitChanges::with_page) is latched before `latch` is called, and stays so until `logged` has
    /// returned: neither may use a page. It was changed before `logged` is called. No lock is taken. The changes are empty
    /// after a commit.
    ///
    /// Returns `None`, without any effect, and the transaction continues, if `latch` returns `None`, if the
    /// transaction has also written to heaps, if it has given up atomicity, or if the log has no record of this length.
    ///
    /// # Errors
    /// As [`defer`](DeferredChanges::defer); [`Error::Misuse`] for changes in another store; [`Error::Refused`] by the
    /// operation on a page. Then nothing has happened, and the transaction continues unless it was rolled back.
    /// [`Error::Stopped`]: only reopening the store shows whether the commit was kept.
    fn commit_with_changes<O: Operation, C>(
        &mut self,
        keeper: &Keeper,
        changes: &mut CommitChanges<O>,
        mode: Commit,
        latch: impl FnOnce(&Txn) -> Option<C>,
        logged: impl FnOnce(C, Lsn, &mut Vec<u8>),
    ) -> Result<Option<Ticket>>;
}

impl DeferredChanges for Txn {
    fn defer<D: Delta>(&mut self, keeper: &Keeper, at: RecordId, delta: &D) -> Result<Lsn> {
        let logged = self.log_deferred(keeper, at, delta, None::<&D>, |_| Ok(Some(())))?;
        Ok(logged.expect("it was wanted").0)
    }

    fn defer_when<D: Delta, C>(
        &mut self,
        keeper: &Keeper,
        at: RecordId,
        delta: &D,
        change: impl FnOnce(&Txn) -> Result<Option<C>>,
    ) -> Result<Option<(Lsn, C)>> {
        self.log_deferred(keeper, at, delta, None::<&D>, change)
    }

    fn defer_inverse<D: Delta, I: Delta>(
        &mut self,
        keeper: &Keeper,
        at: RecordId,
        delta: &D,
        inverse: &I,
    ) -> Result<Lsn> {
        let logged = self.log_deferred(keeper, at, delta, Some(inverse), |_| Ok(Some(())))?;
        Ok(logged.expect("it was wanted").0)
    }

    fn defer_inverse_when<D: Delta, I: Delta, C>(
        &mut self,
        keeper: &Keeper,
        at: RecordId,
        delta: &D,
        inverse: &I,
        change: impl FnOnce(&Txn) -> Result<Option<C>>,
    ) -> Result<Option<(Lsn, C)>> {
        self.log_deferred(keeper, at, delta, Some(inverse), change)
    }

    fn kept(&mut self, keeper: &Keeper, at: RecordId) -> Result<()> {
        self.note_kept(keeper, at)
    }

    fn may_keep(&self, keeper: &Keeper) -> Result<()> {
        self.check_may_keep(keeper)
    }

    #[inline]
    fn note_read(&self, version: Lsn) -> Result<()> {
        self.saw(version);
        if planted!("kept_record_read_without_locks") { Ok(()) } else { self.still_isolated() }
    }

    #[inline]
    fn as_one_call<T>(&mut self, work: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> {
        self.in_call(work)
    }

    fn commit_with_changes<O: Operation, C>(
        &mut self,
        keeper: &Keeper,
        changes: &mut CommitChanges<O>,
        mode: Commit,
        latch: impl FnOnce(&Txn) -> Option<C>,
        logged: impl FnOnce(C, Lsn, &mut Vec<u8>),
    ) -> Result<Option<Ticket>> {
        self.in_call(|txn| txn.commit_with_changes_in_call(keeper, changes, mode, latch, logged))
    }
}

/// The records of a store with changes that are in no page yet. Implemented by [`Store`].
pub trait UnflushedRecords {
    /// Registers `unflushed`: from now on the log is kept for its unflushed changes. Changes are deferred through the
    /// returned keeper.
    fn keep_log_for(&self, unflushed: Arc<dyn Unflushed>) -> Keeper;

    /// As [`ToPages::flush_record`].
    ///
    /// # Errors
    /// As [`ToPages::flush_record`].
    fn flush_record(&self, kept: &KeptRecord<'_>) -> Result<()>;
}

impl UnflushedRecords for Store {
    fn keep_log_for(&self, unflushed: Arc<dyn Unflushed>) -> Keeper {
        Keeper::of(self, unflushed)
    }

    fn flush_record(&self, kept: &KeptRecord<'_>) -> Result<()> {
        ToPages(&self.inner).flush_record(kept)
    }
}
