//! Transactions in any commit mode, run again after a deadlock; [`Store::transact`] does it for mode `Sync`.

use cedrat::txn::{Commit, Result, Store, Txn};
use cedrat::wal::Ticket;

/// Runs `work` in a transaction and commits it in `mode`; runs it again after a deadlock.
pub(crate) fn commit<T>(
    store: &Store,
    mode: Commit,
    mut work: impl FnMut(&mut Txn) -> Result<T>,
) -> Result<(T, Ticket)> {
    loop {
        let mut txn = store.begin();
        match work(&mut txn) {
            Ok(value) => return Ok((value, txn.commit(mode)?)),
            Err(error) if error.is_worth_retrying() => txn.rollback()?,
            Err(error) => return Err(error),
        }
    }
}
