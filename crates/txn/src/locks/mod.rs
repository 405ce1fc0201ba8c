//! Locks isolate transactions from each other; latches, elsewhere, keep bytes in one piece (Lemon §3.2, §4.1).
//!
//! Which locks there are is left to a [`LockManager`]. The store calls it at fixed moments, in normal operation and
//! in recovery; structures call it through [`crate::Txn::lock`]. Undo never does (E15.1).

mod modes;
mod none;
mod page_locks;
mod table;

use std::fmt;

use cedrat_pages::PageId;
use cedrat_wal::TxnId;

use crate::operation::RecordId;

pub use modes::LockMode;
pub use none::NoLocks;
pub use page_locks::PageLocks;
pub(crate) use table::Words;

/// What can be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// A page.
    Page(PageId),
    /// A key of a structure, by its hash: two keys of one hash share a lock.
    Key {
        /// The structure's root page.
        structure: PageId,
        /// The key's hash.
        hash: u64,
    },
    /// A record, by its place: one lock for each, so that strangers never meet at it, also where who holds it is in doubt for days.
    Record(RecordId),
    /// A whole structure, by its root page: the big lock of Lemon §4.3, and what intention modes are for.
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

/// A lock was refused, because granting it would have closed a circle of transactions that wait for each other.
///
/// The transaction that asked is the victim: roll it back, and run it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("transaction {txn} would wait for itself at {resource}; roll it back and run it again")]
pub struct Deadlock {
    /// The transaction that asked.
    pub txn: TxnId,
    /// What it asked for.
    pub resource: Resource,
}

/// Why a lock was not given to a transaction that does not wait for prepared ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotGiven {
    /// Waiting would never end.
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
    /// This one is prepared, and holds it.
    #[error("transaction {0} is prepared, and holds it")]
    Prepared(TxnId),
}

/// Decides which transactions may see and change what (Lemon §4.1; LLADD "modular lock managers").
///
/// The store calls it on the transaction's thread, never while that thread holds a page latch. A transaction that
/// was refused may go on, though most will roll back.
pub trait LockManager: Send + Sync + fmt::Debug {
    /// Gives `txn` the resource in `mode`, in addition to what it holds; waits as long as others hold it in a mode
    /// that does not agree.
    ///
    /// # Errors
    /// [`Deadlock`] if waiting would never end.
    fn lock(&self, txn: TxnId, resource: Resource, mode: LockMode) -> Result<(), Deadlock>;

    /// As [`lock`](LockManager::lock), but for who does not wait for prepared transactions, which `is_prepared` knows: the outcome
    /// of one may take days. It is asked with latches held, and may be asked of any transaction.
    ///
    /// The default waits for them.
    ///
    /// # Errors
    /// [`NotGiven`]; also once it waits, when who holds the resource [prepares](LockManager::prepared).
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

    /// As [`lock`](LockManager::lock), but where it would have to wait for anybody, nothing is given, and the answer is `false`.
    ///
    /// The default gives nothing.
    fn try_lock(&self, txn: TxnId, resource: Resource, mode: LockMode) -> bool {
        let _ = (txn, resource, mode);
        false
    }

    /// Called when `txn` has prepared: those who do not wait for such a one are to be told.
    fn prepared(&self, txn: TxnId) {
        let _ = txn;
    }

    /// Called before `txn` reads a page under its own name ([`crate::Txn::read`]).
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

    /// Called when `txn` has ended: with the append of its commit record, before that is durable; or after the last
    /// step of its rollback. Everything it holds is free.
    fn ended(&self, txn: TxnId);

    /// Whether [`recovered`](LockManager::recovered) is to be called: recovery then reads the chain of each such
    /// transaction once more.
    fn restores_locks(&self) -> bool {
        false
    }

    /// Called in recovery, before anyone else begins, for each change of a page by a transaction that is neither
    /// committed nor rolled back, so that its locks can be taken again without asking (E15.2).
    ///
    /// Losers are undone before any transaction begins; only prepared transactions keep what they get here.
    fn recovered(&self, txn: TxnId, page: PageId) {
        let _ = (txn, page);
    }

    /// What `txn` holds. Called when it prepares: the locks under which it has written are kept in the log (E9.3).
    ///
    /// The default says nothing: then nothing is [restored](LockManager::restore).
    fn held(&self, txn: TxnId) -> Vec<(Resource, LockMode)> {
        let _ = txn;
        Vec::new()
    }

    /// How many different hashes the keys of one structure have in what [`held`](LockManager::held) says; 0: all.
    ///
    /// Where another number, which does not divide it, stands in the log, the structure is locked instead of its keys.
    fn key_stripes(&self) -> u64 {
        0
    }

    /// Gives a prepared transaction what it held when it prepared, in an earlier opening of the store. Called before anyone
    /// begins. Granted whatever else was given so: the transactions have agreed before (E9.3).
    fn restore(&self, txn: TxnId, resource: Resource, mode: LockMode) {
        let _ = (txn, resource, mode);
    }
}
