//! The locks of each transaction, and the request on which it is blocked.

use std::collections::HashMap;

use cedrat_sync::{Arc, planted, thread_number};
use cedrat_wal::TxnId;

use super::lock::Hashed;
use super::waiter::Waiter;
use super::words::Words;
use crate::by_txn::ByTxn;

/// Capacity of a transaction's first list of locks: most transactions hold at most this many.
pub(super) const RESOURCES: usize = 8;

/// A shard of transactions.
#[derive(Debug, Default)]
pub(super) struct Txns {
    /// The locks of each transaction, for their release.
    pub(super) held: ByTxn<Held>,
    /// The request on which each transaction is blocked.
    pub(super) waiting: HashMap<TxnId, Arc<Waiter>, Words>,
    pub(super) spare: Vec<Vec<Hashed>>,
}

/// The locks of a transaction.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) locks: Vec<Hashed>,
    /// The thread that has acquired the newest one, or rolls back; 0 for a prepared transaction, which any thread may end.
    pub(super) thread: usize,
    /// Whether that thread ends it, though another one may still acquire a lock for it, which has waited since before.
    pub(super) is_rolled_back: bool,
    /// Whether an older transaction waits for it: then it must not wait.
    pub(super) is_wounded: bool,
    /// Whether it waits whatever the policy.
    pub(super) is_patient: bool,
}

impl Held {
    /// Whether a policy may refuse the transaction: a prepared one, and one that is rolled back, are not.
    pub(super) fn may_be_refused(&self) -> bool {
        let ends = self.thread == 0 || self.is_rolled_back;
        !(ends || self.is_patient && !planted!("patient_transaction_wounded"))
    }
}

impl Txns {
    pub(super) fn note(&mut self, txn: TxnId, of: Hashed) {
        self.list(txn).push(of);
    }

    #[inline]
    pub(super) fn note_all(&mut self, txn: TxnId, new: &[Hashed]) {
        self.list(txn).extend_from_slice(new);
    }

    pub(super) fn list(&mut self, txn: TxnId) -> &mut Vec<Hashed> {
        let spare = &mut self.spare;
        let mut locks = || spare.pop().unwrap_or_else(|| Vec::with_capacity(RESOURCES));
        let held = self.held.get_or_insert_with(txn, || Held {
            locks: locks(),
            thread: 0,
            is_rolled_back: false,
            is_wounded: false,
            is_patient: false,
        });
        if !held.is_rolled_back || planted!("late_lock_moves_transaction") {
            held.thread = thread_number();
        }
        &mut held.locks
    }

    /// Whether the transaction is prepared.
    pub(super) fn is_ownerless(&self, txn: TxnId) -> bool {
        self.held.get(txn).is_some_and(|held| held.thread == 0)
    }

    pub(super) fn set_ownerless(&mut self, txn: TxnId) {
        if let Some(held) = self.held.get_mut(txn) {
            held.thread = 0;
        }
    }
}
