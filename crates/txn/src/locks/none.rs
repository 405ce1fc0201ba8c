//! A lock manager without locks.

use cedrat_wal::TxnId;

use super::{Deadlock, LockManager, LockMode, Resource};

/// Grants every request at once: transactions are isolated by the application, or not at all.
///
/// "Many applications do not require such a general scheme. If deadlock avoidance can be used, the application does
/// not have to abort partial transactions" (Lemon §4.1). This is how a store opts out of isolation.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLocks;

impl LockManager for NoLocks {
    fn lock(&self, _: TxnId, _: Resource, _: LockMode) -> Result<(), Deadlock> {
        Ok(())
    }

    fn ended(&self, _: TxnId) {}
}
