//! Lock requests of a transaction, and the cache of locks that it need not request again.

use std::cell::Cell;

use cedrat_pages::PageId;
use cedrat_sync::planted;
use cedrat_wal::TxnId;

use crate::error::{Error, Result};
use crate::locks::{Deadlock, LockMode, NotGiven, Resource};
use crate::operation::RecordId;
use crate::transaction::{ChangeMode, Txn};

const WITHIN_A_NESTED_ACTION: &str = "cannot lock within a nested top action: acquire the lock before it begins"; // E15.3

/// Locks that a transaction acquired last, which it need not request again.
#[derive(Debug, Default)]
pub(crate) struct LockCache {
    /// The page locked last, and its mode: most updates of a row are of one page.
    page: Cell<Option<(PageId, LockMode)>>,
    /// The structure locked last, and its mode: most keys of a transaction are of one table.
    structure: Cell<Option<(PageId, LockMode)>>,
    /// The structure that the transaction has locked as a whole by [`RecordLocks::try_lock_structure`].
    whole_structure: Cell<Option<PageId>>,
}

/// The locks of a collection's records: several at once, or the whole collection instead of very many. Implemented by
/// [`Txn`].
pub trait RecordLocks {
    /// As [`Txn::lock`], without waiting for prepared transactions: for callers that can choose another resource.
    ///
    /// # Errors
    /// Those of [`Txn::lock`]; [`Error::InDoubt`].
    fn lock_unless_in_doubt(&mut self, resource: Resource, mode: LockMode) -> Result<()>;

    /// Locks a whole structure exclusively if no other transaction is in the way; never waits. Returns `false`, and the
    /// transaction keeps its locks, if one is.
    ///
    /// For transactions that would otherwise take very many locks in it. Not for transactions that will prepare: while
    /// in doubt they would exclude all others.
    ///
    /// # Errors
    /// [`Error::Misuse`] within a nested top action.
    fn try_lock_structure(&mut self, root: PageId) -> Result<bool>;

    /// Whether the transaction holds a lock of this structure, by [`try_lock_structure`](RecordLocks::try_lock_structure)
    /// or as its most recent lock, that makes locks of its parts in this mode unnecessary.
    fn has_whole(&self, root: PageId, mode: LockMode) -> bool;

    /// Acquires exclusive locks of records of a structure as [`Txn::lock`] does, in their order, and before them that of
    /// the structure, to change parts of it.
    ///
    /// # Errors
    /// Those of [`Txn::lock`]. The locks of the structure, and of the records before the failed one, remain granted.
    fn lock_records(&mut self, root: PageId, records: impl IntoIterator<Item = RecordId>) -> Result<()>;

    /// Makes the transaction [not wait for prepared transactions](crate::TxnOptions::waits_for_prepared) from now on: for
    /// a structure that receives the transaction while holding something that others wait for.
    fn stop_waiting_for_prepared(&mut self);
}

impl RecordLocks for Txn {
    fn lock_unless_in_doubt(&mut self, resource: Resource, mode: LockMode) -> Result<()> {
        self.lock_as(resource, mode, false)
    }

    fn try_lock_structure(&mut self, root: PageId) -> Result<bool> {
        if self.undoing || !self.options.isolation {
            return Ok(false);
        }
        if matches!(self.change_mode, ChangeMode::Nested | ChangeMode::Ordered) {
            return Err(Error::Misuse(WITHIN_A_NESTED_ACTION));
        }
        self.alive()?;
        if self.has_whole(root, LockMode::Exclusive) {
            return Ok(true);
        }
        self.requests_lock();
        if !self.inner().locks.try_lock(self.id, Resource::Structure(root), LockMode::Exclusive) {
            return Ok(false);
        }
        self.keeps_lock()?;
        self.lock_cache.whole_structure.set(Some(root));
        self.heap_keeps_up()?;
        Ok(true)
    }

    fn has_whole(&self, root: PageId, mode: LockMode) -> bool {
        let is_last = self.lock_cache.structure.get().is_some_and(|(locked, held)| locked == root && held.covers(mode));
        is_last || self.lock_cache.whole_structure.get() == Some(root)
    }

    fn lock_records(&mut self, root: PageId, records: impl IntoIterator<Item = RecordId>) -> Result<()> {
        const INTENTION: LockMode = LockMode::IntentionExclusive;
        if !self.may_lock()? || self.has_whole(root, LockMode::Exclusive) {
            return Ok(());
        }
        let inner = self.inner();
        let is_prepared = |txn| inner.branches.is_held(txn);
        let unless: Option<&dyn Fn(TxnId) -> bool> = if self.waits_for_prepared() { None } else { Some(&is_prepared) };
        let structure = (!self.has_whole(root, INTENTION)).then_some((Resource::Structure(root), INTENTION));
        let (mut first, mut records) = (structure, records.into_iter());
        let record = |record| (Resource::Record(record), LockMode::Exclusive);
        let mut all = std::iter::from_fn(|| first.take().or_else(|| records.next().map(record)));
        self.requests_lock();
        let given = inner.locks.lock_all(self.id, &mut all, unless);
        // Also after an error: the locks before it were granted.
        self.keeps_lock()?;
        given.map_err(|not_given| self.not_given(not_given))?;
        if structure.is_some() {
            self.lock_cache.structure.set(structure.map(|_| (root, INTENTION)));
        }
        self.heap_keeps_up()
    }

    fn stop_waiting_for_prepared(&mut self) {
        self.options = self.options.without_waiting_for_prepared();
    }
}

impl Txn {
    /// Acquires a lock, which is held to the end of the transaction.
    ///
    /// Within a nested top action there are latches only: acquire locks before it. Undo acquires none.
    ///
    /// # Errors
    /// [`Error::Deadlock`]; [`Error::Misuse`] within a nested top action; [`Error::InDoubt`] if it does not wait for prepared
    /// transactions.
    #[inline]
    pub fn lock(&mut self, resource: Resource, mode: LockMode) -> Result<()> {
        self.lock_as(resource, mode, self.waits_for_prepared())
    }

    /// Whether its requests wait for prepared transactions. None does while recovery runs: no caller can end them (E9.1e).
    #[inline]
    fn waits_for_prepared(&self) -> bool {
        self.options.waits_for_prepared && !self.is_refused_by_branches()
    }

    fn is_refused_by_branches(&self) -> bool {
        self.inner().is_recovering() && !planted!("undo_waits_for_branch")
    }

    /// Whether the transaction takes locks.
    #[inline]
    fn may_lock(&self) -> Result<bool> {
        if self.undoing || !self.options.isolation {
            return Ok(false);
        }
        if matches!(self.change_mode, ChangeMode::Nested | ChangeMode::Ordered)
            && !planted!("lock_within_nested_action")
        {
            return Err(Error::Misuse(WITHIN_A_NESTED_ACTION));
        }
        self.alive()?;
        Ok(true)
    }

    #[inline]
    fn lock_as(&mut self, resource: Resource, mode: LockMode, waits_for_prepared: bool) -> Result<()> {
        if !self.may_lock()? {
            return Ok(());
        }
        let structure = match resource {
            Resource::Structure(root) => Some(root),
            _ => None,
        };
        if structure.is_some_and(|root| self.has_whole(root, mode)) {
            return Ok(());
        }
        self.lock_now(resource, mode, waits_for_prepared)?;
        if let Some(root) = structure {
            self.lock_cache.structure.set(Some((root, mode)));
        }
        Ok(())
    }

    #[inline]
    fn lock_now(&self, resource: Resource, mode: LockMode, waits_for_prepared: bool) -> Result<()> {
        self.requests_lock();
        if waits_for_prepared {
            self.inner().locks.lock(self.id, resource, mode).map_err(|deadlock| self.refused(deadlock))?;
        } else {
            self.lock_unless_prepared(resource, mode)?;
        }
        self.keeps_lock()?;
        self.heap_keeps_up()
    }

    #[inline]
    fn lock_unless_prepared(&self, resource: Resource, mode: LockMode) -> Result<()> {
        let inner = self.inner();
        let is_prepared = |txn| inner.branches.is_held(txn);
        let given = inner.locks.lock_unless_prepared(self.id, resource, mode, &is_prepared);
        given.map_err(|not_given| self.not_given(not_given))
    }

    #[cold]
    fn not_given(&self, not_given: NotGiven) -> Error {
        match not_given {
            NotGiven::Deadlock(deadlock) => {
                self.inner().counts.refused_deadlock();
                self.refused(deadlock)
            }
            NotGiven::Prepared(txn) => Error::InDoubt { id: self.inner().branches.id_of(txn) },
        }
    }

    /// Returns the error of a request that would wait without end, perhaps because the store has stopped or is being closed.
    #[cold]
    pub(crate) fn refused(&self, deadlock: Deadlock) -> Error {
        self.inner().may_wait().err().unwrap_or(deadlock.into())
    }

    /// Locks the page if its changes are isolated by page locks.
    #[inline]
    pub(crate) fn lock_for_update(&self, page: PageId) -> Result<()> {
        if self.change_mode == ChangeMode::Plain && !self.undoing {
            self.alive()?;
            self.lock_page(page, LockMode::Exclusive)?;
        }
        Ok(())
    }

    pub(crate) fn lock_page(&self, page: PageId, mode: LockMode) -> Result<()> {
        if !self.options.isolation {
            return Ok(());
        }
        if let Some((locked, held)) = self.lock_cache.page.get()
            && locked == page
            && held.covers(mode)
        {
            return Ok(());
        }
        self.requests_lock();
        if self.is_refused_by_branches() {
            self.lock_unless_prepared(Resource::Page(page), mode)?;
        } else {
            let locks = &self.inner().locks;
            match mode {
                LockMode::Shared => locks.before_read(self.id, page),
                _ => locks.before_update(self.id, page),
            }
            .map_err(|deadlock| self.refused(deadlock))?;
        }
        self.keeps_lock()?;
        self.lock_cache.page.set(Some((page, mode)));
        self.heap_keeps_up()
    }
}
