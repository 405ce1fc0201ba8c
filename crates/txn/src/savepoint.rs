//! Savepoints of transactions.

use std::cell::Cell;

use cedrat_heap::{HeapSavepoint, Joined};
use cedrat_wal::{LogOffset, TxnId};

use crate::error::{Error, Result};
use crate::opening::Opening;
use crate::transaction::{ChangeMode, Txn};

/// A point in a transaction to which it can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    pub(crate) opening: Opening,
    pub(crate) txn: TxnId,
    pub(crate) last: Option<LogOffset>,
    pub(crate) owed: u64,
    pub(crate) scope: u32,
    /// The number of the savepoint within the transaction.
    number: u64,
    /// The same point in its heap writes; `None` if there were none yet.
    pub(crate) heap: Option<HeapSavepoint>,
}

/// Numbers of a transaction's savepoints.
#[derive(Debug, Default)]
pub(crate) struct Savepoints {
    /// Number of savepoints taken.
    taken: Cell<u64>,
    /// Savepoints invalidated by rollbacks: ranges from after the first number of each pair to the second, ascending,
    /// not adjacent.
    gone: Vec<(u64, u64)>,
}

impl Savepoints {
    fn take(&self) -> u64 {
        let number = self.taken.get() + 1;
        self.taken.set(number);
        number
    }

    /// Invalidates the savepoints taken since `number`.
    fn forget_since(&mut self, number: u64) {
        while self.gone.last().is_some_and(|&(behind, _)| behind >= number) {
            self.gone.pop();
        }
        let newest = self.taken.get();
        if newest > number {
            self.gone.push((number, newest));
        }
    }

    fn is_gone(&self, number: u64) -> bool {
        let newer_than = self.gone.partition_point(|&(behind, _)| behind < number);
        self.gone[..newer_than].last().is_some_and(|&(_, newest)| number <= newest)
    }
}

impl Txn {
    /// Takes a savepoint to which [`rollback_to`](Txn::rollback_to) returns.
    pub fn savepoint(&self) -> Savepoint {
        let number = self.savepoints.take();
        let heap = self.heap.borrow_mut().as_mut().map(Joined::savepoint);
        let (opening, scope) = (self.store.opening(), self.nesting.scope);
        Savepoint { opening, txn: self.id, last: self.cursor.last, owed: self.cursor.owed, scope, number, heap }
    }

    /// Invalidates the savepoints taken since this one, whose changes were undone.
    pub(crate) fn forget_savepoints_since(&mut self, savepoint: Savepoint) {
        self.savepoints.forget_since(savepoint.number);
    }

    pub(crate) fn check_savepoint(&self, savepoint: &Savepoint) -> Result<()> {
        if savepoint.opening != self.store.opening() || savepoint.txn != self.id {
            return Err(Error::Misuse("the savepoint belongs to another transaction"));
        }
        if savepoint.scope != self.nesting.scope {
            return Err(Error::Misuse("the savepoint was taken at another depth of nesting; take one at this depth"));
        }
        // After it the chain returns to the older savepoint; following it from here would undo more than requested.
        if self.savepoints.is_gone(savepoint.number) {
            return Err(Error::Misuse("a rollback to an older savepoint has ended this one; take a new one"));
        }
        Ok(())
    }

    /// Undoes everything done since `savepoint`; the transaction continues from there. Locks stay (a lock released
    /// early could show others a state that a later undo changes).
    ///
    /// # Errors
    /// [`Error::Misuse`] if the savepoint belongs to another transaction, was not taken at this depth of nesting, or is
    /// newer than one that was rolled back to since, and if the transaction has ended. A failure of the undo itself stops the
    /// store.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.check_savepoint(&savepoint)?;
        if self.change_mode == ChangeMode::Ordered {
            return Err(Error::Misuse("cannot roll back within an ordered sequence: it is redo-only"));
        }
        self.in_call(|txn| txn.return_to(savepoint))
    }
}
