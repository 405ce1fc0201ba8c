//! Who is running: transactions that have written at least one record and have not ended.

use std::collections::HashMap;

use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex};
use cedrat_wal::{Lsn, TxnId};

use crate::deferred::Deferred;
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

/// Each shard keeps the memory of so many transactions for later ones.
const SPARE: usize = 4;

/// Longer buffers are not kept.
const KEPT_LEN_MAX: usize = 4096;

/// Memory that a transaction needs from its first record on, and leaves to a later one.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Of the parts of a record.
    pub(crate) head: Vec<u8>,
    pub(crate) arguments: Vec<u8>,
    pub(crate) deferred: Deferred,
}

impl Memory {
    /// How many bytes it has.
    fn len(&self) -> usize {
        self.head.capacity() + self.arguments.capacity() + self.deferred.memory_len()
    }
}

#[derive(Debug, Default)]
struct Shard {
    running: HashMap<TxnId, Arc<Entry>, Words>,
    spare: Vec<(Arc<Entry>, Memory)>,
}

/// All running transactions of a store.
///
/// A checkpoint reads the clock, then this table. Who is not in it yet draws its first LSN after that reading
/// (`enter` comes before the first draw), so it cannot be older than the clock; who is no longer in it has appended
/// its last record, and the checkpoint forces the log before it relies on that (E3.1 in spirit).
#[derive(Debug, Default)]
pub(crate) struct Table {
    shards: [Mutex<Shard>; SHARDS],
}

impl Table {
    fn shard(&self, id: TxnId) -> &Mutex<Shard> {
        &self.shards[id.0 as usize % SHARDS]
    }

    /// Enters a transaction that is about to write its first record. `newest` reads the clock.
    pub(crate) fn enter(&self, id: TxnId, newest: impl FnOnce() -> Lsn) -> (Arc<Entry>, Memory) {
        let Shard { running, spare } = &mut *self.shard(id).lock();
        let (mut entry, memory) = spare.pop().unwrap_or_else(|| (Arc::new(Entry::new(id, Lsn::ZERO)), new_memory()));
        // The clock is read while the shard is held: a checkpoint that comes later sees the entry, and one that came
        // earlier read the clock earlier.
        *Arc::get_mut(&mut entry).expect("a spare one is nobody's") = Entry::new(id, newest().next());
        let before = running.insert(id, Arc::clone(&entry));
        debug_assert!(before.is_none(), "a transaction enters once");
        (entry, memory)
    }

    /// Enters a loser, or a prepared transaction, found by recovery.
    pub(crate) fn enter_loser(&self, id: TxnId, first: Lsn) -> Arc<Entry> {
        let entry = Arc::new(Entry::new(id, first));
        self.shard(id).lock().running.insert(id, Arc::clone(&entry));
        entry
    }

    /// Takes out a transaction whose last record was appended.
    pub(crate) fn leave(&self, mut entry: Arc<Entry>, memory: Memory) {
        let Shard { running, spare } = &mut *self.shard(entry.id).lock();
        running.remove(&entry.id);
        // Who dooms the oldest may have it still.
        let is_alone = Arc::get_mut(&mut entry).is_some();
        if is_alone && spare.len() < SPARE && memory.len() <= KEPT_LEN_MAX {
            spare.push((entry, memory));
        }
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
            .filter_map(|shard| shard.lock().running.values().filter(counts).min_by_key(|entry| entry.first).cloned())
            .min_by_key(|entry| entry.first)
    }

    /// The oldest change that a running transaction has deferred, or is about to.
    pub(crate) fn oldest_deferred(&self) -> Option<Lsn> {
        let since = |entry: &Arc<Entry>| entry.deferred_since.load(Ordering::SeqCst);
        let oldest = |shard: &Mutex<Shard>| shard.lock().running.values().map(since).filter(|&since| since != 0).min();
        self.shards.iter().filter_map(oldest).min().map(Lsn::new)
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().running.len()).sum()
    }
}

/// As much as the parts of most records take, at once instead of piece by piece.
fn new_memory() -> Memory {
    Memory { head: Vec::with_capacity(32), arguments: Vec::with_capacity(128), deferred: Deferred::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_the_one_that_entered_first() {
        let table = Table::default();
        let mut entered = Vec::new();
        for (id, clock) in [(3, 10), (1, 20), (18, 5), (2, 30)] {
            entered.push(table.enter(TxnId(id), || Lsn::new(clock)));
        }
        assert_eq!(table.oldest().map(|entry| (entry.id, entry.first)), Some((TxnId(18), Lsn::new(6))));
        let (entry, memory) = entered.swap_remove(2);
        table.leave(entry, memory);
        assert_eq!(table.oldest().map(|entry| entry.id), Some(TxnId(3)));
        assert_eq!(table.len(), 3);
    }

    /// What the next one gets is as new, and what somebody else still looks at is not given away.
    #[test]
    fn memory_goes_to_the_next() {
        let table = Table::default();
        let (entry, memory) = table.enter(TxnId(3), || Lsn::new(10));
        entry.doom();
        entry.defers(Lsn::new(11));
        let (looked_at, memory) = (Arc::clone(&entry), Memory { head: Vec::with_capacity(77), ..memory });
        table.leave(entry, memory);
        let (entry, memory) = table.enter(TxnId(3 + SHARDS as u64), || Lsn::new(20));
        assert!(!Arc::ptr_eq(&entry, &looked_at) && memory.head.capacity() < 77);
        entry.doom();
        entry.defers(Lsn::new(21));
        let was = Arc::as_ptr(&entry);
        table.leave(entry, memory);
        let (entry, _) = table.enter(TxnId(3), || Lsn::new(30));
        assert_eq!((Arc::as_ptr(&entry), entry.id, entry.first), (was, TxnId(3), Lsn::new(31)));
        assert!(!entry.is_doomed() && !entry.has_announced(Lsn::MAX) && table.oldest_deferred().is_none());
    }

    /// Of a large transaction nothing stays.
    #[test]
    fn much_memory_goes_to_nobody() {
        let table = Table::default();
        let (entry, memory) = table.enter(TxnId(3), || Lsn::new(10));
        let deferred = Deferred::with_memory_for(KEPT_LEN_MAX);
        table.leave(entry, Memory { deferred, ..memory });
        assert!(table.shard(TxnId(3)).lock().spare.is_empty());
    }
}
