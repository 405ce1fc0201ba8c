//! Who is running: transactions that have written at least one record and have not ended.

use std::collections::HashMap;

use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex};
use cedrat_wal::{Lsn, TxnId};

use crate::locks::Words;

/// A running transaction, as others see it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: TxnId,
    /// No record of the transaction has a smaller LSN.
    pub(crate) first: Lsn,
    /// Set by others: it keeps too much of the log and is to roll back at its next step (E16.3).
    doomed: AtomicBool,
    /// No change that it has deferred has a smaller LSN; 0: there is none.
    deferred_since: AtomicU64,
}

impl Entry {
    fn new(id: TxnId, first: Lsn) -> Entry {
        Entry { id, first, doomed: AtomicBool::new(false), deferred_since: AtomicU64::new(0) }
    }

    /// Says that a change is about to be deferred, with an LSN of at least `lsn` (E19.4). Of one transaction at a time.
    pub(crate) fn defers(&self, lsn: Lsn) {
        if self.deferred_since.load(Ordering::Relaxed) == 0 {
            // Before the draw, which every reader of the clock sees together with what came before it.
            self.deferred_since.store(lsn.get(), Ordering::SeqCst);
        }
    }

    /// Whether a deferred change with this LSN holds the log.
    pub(crate) fn has_announced(&self, lsn: Lsn) -> bool {
        let since = self.deferred_since.load(Ordering::Relaxed);
        since != 0 && since <= lsn.get()
    }

    pub(crate) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_doomed(&self) -> bool {
        self.doomed.load(Ordering::Relaxed)
    }
}

const SHARDS: usize = 16;

type Entries = HashMap<TxnId, Arc<Entry>, Words>;

/// All running transactions of a store.
///
/// A checkpoint reads the clock, then this table. Who is not in it yet draws its first LSN after that reading
/// (`enter` comes before the first draw), so it cannot be older than the clock; who is no longer in it has appended
/// its last record, and the checkpoint forces the log before it relies on that (E3.1 in spirit).
#[derive(Debug, Default)]
pub(crate) struct Table {
    shards: [Mutex<Entries>; SHARDS],
}

impl Table {
    fn shard(&self, id: TxnId) -> &Mutex<Entries> {
        &self.shards[id.0 as usize % SHARDS]
    }

    /// Enters a transaction that is about to write its first record. `newest` reads the clock.
    pub(crate) fn enter(&self, id: TxnId, newest: impl FnOnce() -> Lsn) -> Arc<Entry> {
        let mut shard = self.shard(id).lock();
        // The clock is read while the shard is held: a checkpoint that comes later sees the entry, and one that came
        // earlier read the clock earlier.
        let entry = Arc::new(Entry::new(id, newest().next()));
        let before = shard.insert(id, Arc::clone(&entry));
        debug_assert!(before.is_none(), "a transaction enters once");
        entry
    }

    /// Enters a loser, or a prepared transaction, found by recovery.
    pub(crate) fn enter_loser(&self, id: TxnId, first: Lsn) -> Arc<Entry> {
        let entry = Arc::new(Entry::new(id, first));
        self.shard(id).lock().insert(id, Arc::clone(&entry));
        entry
    }

    /// Takes out a transaction whose last record was appended.
    pub(crate) fn leave(&self, id: TxnId) {
        self.shard(id).lock().remove(&id);
    }

    /// The one with the smallest first LSN.
    pub(crate) fn oldest(&self) -> Option<Arc<Entry>> {
        self.oldest_but(|_| false)
    }

    /// The same without those of which `is_left_out` says so.
    pub(crate) fn oldest_but(&self, is_left_out: impl Fn(TxnId) -> bool) -> Option<Arc<Entry>> {
        let counts = |entry: &&Arc<Entry>| !is_left_out(entry.id);
        self.shards
            .iter()
            .filter_map(|shard| shard.lock().values().filter(counts).min_by_key(|entry| entry.first).cloned())
            .min_by_key(|entry| entry.first)
    }

    /// The oldest change that a running transaction has deferred, or is about to.
    pub(crate) fn oldest_deferred(&self) -> Option<Lsn> {
        let since = |entry: &Arc<Entry>| entry.deferred_since.load(Ordering::SeqCst);
        let oldest = |shard: &Mutex<Entries>| shard.lock().values().map(since).filter(|&since| since != 0).min();
        self.shards.iter().filter_map(oldest).min().map(Lsn::new)
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_the_one_that_entered_first() {
        let table = Table::default();
        for (id, clock) in [(3, 10), (1, 20), (18, 5), (2, 30)] {
            table.enter(TxnId(id), || Lsn::new(clock));
        }
        assert_eq!(table.oldest().map(|entry| (entry.id, entry.first)), Some((TxnId(18), Lsn::new(6))));
        table.leave(TxnId(18));
        assert_eq!(table.oldest().map(|entry| entry.id), Some(TxnId(3)));
        assert_eq!(table.len(), 3);
    }
}
