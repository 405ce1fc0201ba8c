//! Locks, which isolate transactions from each other; latches, elsewhere, protect the bytes of one page access (Lemon
//! §3.2, §4.1).
//!
//! The choice of locks is left to a [`LockManager`]. The store calls it at fixed moments, in normal operation and in
//! recovery; structures call it through [`crate::Txn::lock`]. Undo never does.

#[cfg(test)]
mod contention;
mod deadlock;
mod held;
mod lock;
#[cfg(test)]
mod model;
mod modes;
mod none;
mod page_locks;
mod policy;
mod table;
mod waiter;
mod words;

use std::fmt;

use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_wal::TxnId;

use crate::operation::RecordId;

pub use modes::LockMode;
pub use none::NoLocks;
pub use page_locks::PageLocks;
pub use policy::{PageLockOptions, WaitPolicy};
pub(crate) use words::Words;

/// A lockable resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// A page.
    Page(PageId),
    /// A key of a structure, by its hash: two keys with the same hash share a lock.
    Key {
        /// The structure's root page.
        structure: PageId,
        /// The key's hash.
        hash: u64,
    },
    /// A record, by its address: each has a lock of its own, so that unrelated transactions never conflict, even if a
    /// holder is in doubt for days.
    Record(RecordId),
    /// A whole structure, by its root page: the big lock of Lemon §4.3, and the target of intention modes.
    Structure(PageId),
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Page(page) => write!(f, "page {page}"),
            Resource::Key { structure, hash } => write!(f, "key {hash:016x} of the structure at page {structure}"),
            Resource::Record(at) => write!(f, "the record at {at}"),
            Resource::Structure(root) => write!(f, "the structure at page {root}"),
        }
    }
}

/// A lock was refused because waiting for it would never end, or because the lock manager lets it wait no longer.
///
/// Usually it would have closed a waits-for cycle. The requesting transaction is the victim: roll it back, and run it
/// again. If several transactions close a cycle at the same time, those that search the waits-for graph first are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("transaction {txn} {refusal} at {resource}; {}", refusal.advice())]
#[non_exhaustive]
pub struct Deadlock {
    /// The requesting transaction.
    pub txn: TxnId,
    /// The requested resource.
    pub resource: Resource,
    /// The reason.
    pub refusal: Refusal,
}

impl Deadlock {
    /// Returns the refusal of a request that would close a waits-for cycle.
    pub fn new(txn: TxnId, resource: Resource) -> Deadlock {
        Deadlock { txn, resource, refusal: Refusal::Cycle }
    }
}

/// The reason why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The request would close a waits-for cycle.
    Cycle,
    /// An open transaction of the same thread. The request would wait for it, directly or through others, or was made under the
    /// latches of its nested top action.
    OwnThread(TxnId),
    /// The [policy](WaitPolicy) forbids the wait.
    Policy,
    /// The request has waited for [`PageLockOptions::wait_max`].
    Timeout,
}

impl Refusal {
    fn advice(self) -> &'static str {
        match self {
            Refusal::Cycle | Refusal::Policy => "roll it back and run it again",
            Refusal::OwnThread(_) => "end that one first",
            Refusal::Timeout => "roll it back, and look for a transaction that stays open (Store::locks)",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Cycle => f.write_str("would wait for itself"),
            Refusal::OwnThread(own) => write!(f, "would wait for transaction {own} of the same thread"),
            Refusal::Policy => f.write_str("may not wait by the policy of the lock manager"),
            Refusal::Timeout => f.write_str("has waited for the maximum time"),
        }
    }
}

/// The reason why a lock was refused to a transaction that does not wait for prepared ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotGiven {
    /// Waiting would never end.
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
    /// A prepared transaction holds the lock.
    #[error("transaction {0} is prepared, and holds it")]
    Prepared(TxnId),
}

/// Counters of lock waits and their cost since the lock manager was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockCounts {
    /// Requests that had to wait.
    pub blocked: u64,
    /// Requests that were granted after a wait, by the transaction that released.
    pub granted: u64,
    /// Threads woken up: once for each request that was decided after a wait.
    pub wake_ups: u64,
    /// Requests that were refused because their wait would not have ended, or was forbidden.
    pub deadlocks: u64,
    /// Searches for a cycle in the waits-for graph: at most one for each request that had to wait.
    pub searches: u64,
    /// Holders and waiters that the searches examined.
    pub search_steps: u64,
}

/// The state of a lock, as [`LockManager::locks`] reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockState {
    /// The locked resource.
    pub resource: Resource,
    /// The transactions that hold it, with their modes.
    pub holders: Vec<(TxnId, LockMode)>,
    /// The transactions that wait for it, in the order in which it is granted.
    pub waiters: Vec<LockWait>,
}

/// A request that waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockWait {
    /// The transaction that waits.
    pub txn: TxnId,
    /// The mode in which it would hold the lock.
    pub mode: LockMode,
    /// The holders that it waits for, directly or through the waiters before it: its edges in the waits-for graph.
    pub waits_for: Vec<TxnId>,
}

/// Question whether a store has stopped, is being closed, or is being opened: see [`LockManager::serves`].
#[derive(Clone)]
pub struct HasStopped(Arc<dyn Fn() -> bool + Send + Sync>);

impl HasStopped {
    pub(crate) fn new(has_stopped: impl Fn() -> bool + Send + Sync + 'static) -> HasStopped {
        HasStopped(Arc::new(has_stopped))
    }

    /// Whether the store has stopped, or is being closed, or recovery runs.
    pub fn now(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for HasStopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HasStopped").finish()
    }
}

/// The policy that decides which transactions may read and change which resources (Lemon §4.1; LLADD "modular lock
/// managers").
///
/// The store calls it on the transaction's thread, never while that thread holds a page latch. A transaction whose
/// request was refused may continue, though most will roll back.
pub trait LockManager: Send + Sync + fmt::Debug {
    /// Grants `txn` the resource in `mode`, in addition to the modes that it holds; waits as long as others hold it in
    /// a conflicting mode.
    ///
    /// # Errors
    /// [`Deadlock`] if waiting would never end.
    fn lock(&self, txn: TxnId, resource: Resource, mode: LockMode) -> Result<(), Deadlock>;

    /// As [`lock`](LockManager::lock), without waiting for prepared transactions, whose outcome may take days.
    /// `is_prepared` identifies them; it is called with latches held, for any transaction.
    ///
    /// The default waits for them.
    ///
    /// # Errors
    /// [`NotGiven`]; also during the wait, when a transaction in its way [prepares](LockManager::prepared). A prepared
    /// transaction is in the way also if only an earlier queued request waits for it.
    fn lock_unless_prepared(
        &self,
        txn: TxnId,
        resource: Resource,
        mode: LockMode,
        is_prepared: &dyn Fn(TxnId) -> bool,
    ) -> Result<(), NotGiven> {
        let _ = is_prepared;
        Ok(self.lock(txn, resource, mode)?)
    }

    /// Calls [`lock`](LockManager::lock) for each of these resources, in their order, or, with `is_prepared`,
    /// [`lock_unless_prepared`](LockManager::lock_unless_prepared).
    ///
    /// # Errors
    /// As there. The locks of the resources before are granted.
    fn lock_all(
        &self,
        txn: TxnId,
        resources: &mut dyn Iterator<Item = (Resource, LockMode)>,
        is_prepared: Option<&dyn Fn(TxnId) -> bool>,
    ) -> Result<(), NotGiven> {
        for (resource, mode) in resources {
            match is_prepared {
                Some(is_prepared) => self.lock_unless_prepared(txn, resource, mode, is_prepared)?,
                None => self.lock(txn, resource, mode)?,
            }
        }
        Ok(())
    }

    /// As [`lock`](LockManager::lock), but returns `false` and grants nothing if it would have to wait.
    ///
    /// The default grants nothing.
    fn try_lock(&self, txn: TxnId, resource: Resource, mode: LockMode) -> bool {
        let _ = (txn, resource, mode);
        false
    }

    /// Called when [`Store::transact`](crate::Store::transact) repeats a transaction as `txn`, which has no locks yet: requests of its
    /// earlier runs were refused so often by the [policy](Refusal::Policy) of this lock manager.
    fn repeats(&self, txn: TxnId, refusals: u32) {
        let _ = (txn, refusals);
    }

    /// Called when a rollback of `txn` begins on this thread: no other thread releases its locks now. `ends`: the rollback is not
    /// to a savepoint; a lock that another thread still waits for changes nothing then.
    fn rolls_back(&self, txn: TxnId, ends: bool) {
        let _ = (txn, ends);
    }

    /// Called when `txn` has prepared: refuses the requests that wait for it and do not wait for prepared transactions.
    fn prepared(&self, txn: TxnId) {
        let _ = txn;
    }

    /// Called before `txn` reads a page on its own behalf ([`crate::Txn::read`]).
    ///
    /// # Errors
    /// As [`lock`](LockManager::lock).
    fn before_read(&self, txn: TxnId, page: PageId) -> Result<(), Deadlock> {
        self.lock(txn, Resource::Page(page), LockMode::Shared)
    }

    /// Called before `txn` changes a page outside of nested top actions ([`crate::Txn::update`]).
    ///
    /// # Errors
    /// As [`lock`](LockManager::lock).
    fn before_update(&self, txn: TxnId, page: PageId) -> Result<(), Deadlock> {
        self.lock(txn, Resource::Page(page), LockMode::Exclusive)
    }

    /// Called when `txn` has ended: after the append of its commit record, before that is durable; or after the last
    /// step of its rollback. Releases all its locks. Other threads than the transaction's own may call it.
    fn ended(&self, txn: TxnId);

    /// Whether [`recovered`](LockManager::recovered) must be called: recovery then reads the chain of each such
    /// transaction once more.
    fn restores_locks(&self) -> bool {
        false
    }

    /// Called in recovery, before any transaction begins, for each change of a page by a transaction that is neither
    /// committed nor rolled back, so that its locks can be reacquired unconditionally.
    ///
    /// Losers are undone before any transaction begins; only prepared transactions keep the locks that they get here.
    fn recovered(&self, txn: TxnId, page: PageId) {
        let _ = (txn, page);
    }

    /// Returns the locks of `txn`. Called when it prepares: the locks under which it has written are kept in the log.
    ///
    /// The default returns none: then nothing is [restored](LockManager::restore).
    fn held(&self, txn: TxnId) -> Vec<(Resource, LockMode)> {
        let _ = txn;
        Vec::new()
    }

    /// Returns all locks that are held or waited for, by resource: for reports. Each is as it was at one moment of the call;
    /// transactions may run meanwhile.
    ///
    /// The default returns none.
    fn locks(&self) -> Vec<LockState> {
        Vec::new()
    }

    /// Returns the number of distinct hashes of the keys of one structure in the result of [`held`](LockManager::held);
    /// 0 for unlimited.
    ///
    /// If the log has another number, which this one does not divide, the structure is locked instead of its keys.
    fn key_stripes(&self) -> u64 {
        0
    }

    /// Grants a prepared transaction a lock that it held when it prepared, in an earlier opening of the store. Called
    /// before any transaction begins. It is granted unconditionally: the prepared transactions were compatible before.
    fn restore(&self, txn: TxnId, resource: Resource, mode: LockMode) {
        let _ = (txn, resource, mode);
    }

    /// Called when a store is opened with this lock manager, before any request. `has_stopped` says whether that store has
    /// stopped: what a request waits for may then never end, such as a prepared transaction whose outcome no caller can
    /// give any more. So it also says while recovery runs, whose undo may run transactions. A request is refused that waits
    /// and finds this; the transaction returns the reason of the stop.
    ///
    /// The default waits on.
    fn serves(&self, has_stopped: HasStopped) {
        let _ = has_stopped;
    }

    /// Returns the transactions for which `thread` waits in a request, directly or through the requests before it, and the thread
    /// that will end each: a number of [`cedrat_sync::thread_number`], or 0 if any thread may. Called to find out whether a wait
    /// of another kind would end ([`Store::waits_for`](crate::Store::waits_for)).
    ///
    /// The default returns none: then such a wait through a lock does not end.
    fn awaited_by(&self, thread: usize) -> Vec<(TxnId, usize)> {
        let _ = thread;
        Vec::new()
    }

    /// Returns a lock manager of the same kind without any locks, for another store: transactions of two stores have
    /// the same numbers. Called when [`Options`](crate::Options) are cloned.
    ///
    /// The default is `None`: then the clones share this one, and at most one of them may be used at a time.
    fn for_another_store(&self) -> Option<Arc<dyn LockManager>> {
        None
    }
}
