//! Transactions that have locks and no record yet. What they have locked stops others like the locks of a transaction that has
//! changed something, so a time limit counts for them too (E16.3d). Without one they are not tracked: most transactions change
//! something soon.

use std::time::Duration;

use cedrat_sync::{Arc, Mutex, planted};
use cedrat_wal::TxnId;

use crate::by_txn::ByTxn;
use crate::claim::{Claim, Excess};
use crate::transaction::Txn;

/// The shared state of a transaction that has locks and no record.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) id: TxnId,
    /// The time of its first lock, by the clock of the limits.
    since: Duration,
    pub(crate) claim: Claim,
}

const SHARDS: usize = 16;

/// All such transactions of a store with a time limit.
#[derive(Debug, Default)]
pub(crate) struct Holders([Mutex<ByTxn<Arc<Holder>>>; SHARDS]);

impl Holders {
    fn shard(&self, id: TxnId) -> &Mutex<ByTxn<Arc<Holder>>> {
        &self.0[id.0 as usize % SHARDS]
    }

    fn remove(&self, id: TxnId) {
        self.shard(id).lock().remove(id);
    }

    /// Takes those that are older than `limit`, and in no call: their owners can no longer use them. The caller releases
    /// their locks.
    pub(crate) fn take_older(&self, now: Duration, limit: Duration) -> Vec<TxnId> {
        let mut taken = Vec::new();
        for shard in &self.0 {
            let mut shard = shard.lock();
            let old = |holder: &&Arc<Holder>| now.saturating_sub(holder.since) > limit;
            let old: Vec<Arc<Holder>> = shard.values().filter(old).cloned().collect();
            for holder in old {
                holder.claim.doom(Excess::Time { age: now.saturating_sub(holder.since), limit });
                if !planted!("idle_reader_kept") && holder.claim.take() {
                    // It has nothing to undo. From now on its owner releases a lock that is granted late.
                    holder.claim.end_taken();
                    shard.remove(holder.id);
                    taken.push(holder.id);
                }
            }
        }
        taken
    }
}

impl Txn {
    /// Notes that the transaction requests a lock.
    #[inline]
    pub(crate) fn requests_lock(&self) {
        if self.entry.is_none() && self.inner().limits.holders().is_some() && self.holder.get().is_none() {
            self.holds_locks();
        }
    }

    #[cold]
    fn holds_locks(&self) {
        let limits = &self.inner().limits;
        let Some(holders) = limits.holders() else { return };
        let holder = Arc::new(Holder { id: self.id, since: limits.now(), claim: Claim::new() });
        if self.calls == 0 {
            holder.claim.end_call(None, cedrat_wal::Outstanding::default());
        }
        holders.shard(self.id).lock().insert(self.id, Arc::clone(&holder));
        let _ = self.holder.set(holder);
    }

    /// Ends the time in which the transaction had only locks, in a call: it has a record now, or ends. Returns when that time
    /// began.
    #[inline]
    pub(crate) fn had_only_locks(&mut self) -> Option<Duration> {
        let holder = self.holder.take()?;
        self.inner().limits.holders()?.remove(self.id);
        Some(holder.since)
    }

    /// Returns the right to access it, if it shares that with the store.
    #[inline]
    pub(crate) fn claim(&self) -> Option<&Claim> {
        match &self.entry {
            Some(entry) => Some(&entry.claim),
            None => self.holder.get().map(|holder| &holder.claim),
        }
    }
}
