//! The table of running transactions, which have written at least one record and have not ended.

use std::time::Duration;

use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex, planted};
use cedrat_wal::{Log, Lsn, TxnId};

use crate::by_txn::ByTxn;
use crate::claim::Claim;
use crate::deferred::Deferred;

/// The shared state of a running transaction.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: TxnId,
    /// No record of the transaction has a smaller LSN.
    first: Lsn,
    /// No change that may have to be undone has a smaller LSN. Of a transaction that recovery has found, records may be copies of
    /// older ones, with which pages changed.
    undone_from: Lsn,
    /// No record that it still needs has a smaller LSN.
    kept_from: AtomicU64,
    /// The time at which it entered, by the clock of the limits.
    pub(crate) entered: Duration,
    /// Ownership: the owner's call or the store.
    pub(crate) claim: Claim,
    /// Whether it is prepared: then no limit applies (E9.5).
    prepared: AtomicBool,
    /// No change that it has deferred has a smaller LSN; 0 if it has deferred none.
    deferred_since: AtomicU64,
    /// The LSN of its commit record; 0 before that is appended.
    committed: AtomicU64,
}

impl Entry {
    fn new(id: TxnId, first: Lsn, entered: Duration) -> Entry {
        Entry {
            id,
            first,
            undone_from: first,
            kept_from: AtomicU64::new(first.get()),
            entered,
            claim: Claim::new(),
            prepared: AtomicBool::new(false),
            deferred_since: AtomicU64::new(0),
            committed: AtomicU64::new(0),
        }
    }

    /// Makes it the entry of another transaction, as a [`new`](Entry::new) one.
    fn begin(&mut self, id: TxnId, first: Lsn, entered: Duration) {
        let Entry { claim, kept_from, prepared, deferred_since, committed, .. } = self;
        claim.begin();
        kept_from.store(first.get(), Ordering::Relaxed);
        prepared.store(false, Ordering::Relaxed);
        deferred_since.store(0, Ordering::Relaxed);
        committed.store(0, Ordering::Relaxed);
        (self.id, self.first, self.undone_from, self.entered) = (id, first, first, entered);
    }

    /// Returns an LSN such that no record that the transaction still needs has a smaller one.
    #[inline]
    pub(crate) fn kept_from(&self) -> Lsn {
        Lsn::new(self.kept_from.load(Ordering::Acquire))
    }

    /// Raises that LSN after the records were carried forward.
    pub(crate) fn keep_from(&self, first: Lsn) {
        if self.deferred_since.load(Ordering::Relaxed) != 0 {
            self.deferred_since.store(first.get(), Ordering::SeqCst);
        }
        self.kept_from.store(first.get(), Ordering::Release);
    }

    pub(crate) fn set_prepared(&self) {
        self.prepared.store(true, Ordering::Release);
    }

    pub(crate) fn is_prepared(&self) -> bool {
        self.prepared.load(Ordering::Acquire)
    }

    /// Announces that a change is about to be deferred, with an LSN of at least `lsn` (E19.4). Called by one thread at
    /// a time.
    pub(crate) fn defers(&self, lsn: Lsn) {
        if self.deferred_since.load(Ordering::Relaxed) == 0 {
            // Set before the draw: every reader of the clock also sees what preceded it.
            self.deferred_since.store(lsn.get(), Ordering::SeqCst);
        }
    }

    /// Returns an LSN such that no change that it has deferred has a smaller one; `None` if it has deferred none.
    pub(crate) fn deferred_since(&self) -> Option<Lsn> {
        Some(Lsn::new(self.deferred_since.load(Ordering::Relaxed))).filter(|&since| since > Lsn::ZERO)
    }

    /// Whether a deferred change with this LSN holds the log.
    pub(crate) fn has_announced(&self, lsn: Lsn) -> bool {
        let since = self.deferred_since.load(Ordering::Relaxed);
        since != 0 && since <= lsn.get()
    }

    /// Notes the LSN of the commit record, after its append and before another transaction can read what it committed.
    pub(crate) fn commits_at(&self, lsn: Lsn) {
        self.committed.store(lsn.get(), Ordering::Release);
    }

    fn committed(&self) -> Lsn {
        Lsn::new(self.committed.load(Ordering::Acquire))
    }
}

const SHARDS: usize = 16;

/// Number of transactions whose memory each shard keeps for later ones.
const SPARE: usize = 4;

/// Maximum length of buffers that are kept.
const KEPT_LEN_MAX: usize = 4096;

/// Memory that a transaction needs from its first record on, and that a later one reuses.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Buffers for the parts of a record.
    pub(crate) head: Vec<u8>,
    pub(crate) arguments: Vec<u8>,
    pub(crate) deferred: Deferred,
}

impl Memory {
    /// Returns its size in bytes.
    fn len(&self) -> usize {
        self.head.capacity() + self.arguments.capacity() + self.deferred.memory_len()
    }
}

#[derive(Debug, Default)]
struct Shard {
    running: ByTxn<Arc<Entry>>,
    /// Transactions that committed recently.
    committed: Committed,
    spare: Vec<(Arc<Entry>, Memory)>,
}

/// Transactions whose commit records are not durable yet, or were not until recently, in two groups: the newer group
/// takes new commits, and becomes the older one as soon as that is durable. So neither spans more than a few writes of
/// the log.
#[derive(Debug, Default)]
struct Committed {
    older: Group,
    newer: Group,
}

/// A group of committed transactions.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// No record of any of them has a smaller LSN.
    first: Lsn,
    /// No commit record of any of them has a greater LSN.
    last: Lsn,
}

impl Default for Group {
    fn default() -> Group {
        Group { first: Lsn::MAX, last: Lsn::ZERO }
    }
}

impl Committed {
    fn add(&mut self, first: Lsn, commit: Lsn, durable: Lsn) {
        if self.older.last <= durable {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.first = self.newer.first.min(first);
        self.newer.last = self.newer.last.max(commit);
    }
}

/// All running transactions of a store.
///
/// A checkpoint reads the clock, then this table. A transaction that is not in it yet draws its first LSN after that
/// reading (`enter` precedes the first draw), so the LSN is not below the clock. A transaction that is no longer in it
/// has appended its last record, and the checkpoint forces the log before it relies on that (compare E3.1).
#[derive(Debug, Default)]
pub(crate) struct Table {
    shards: [Mutex<Shard>; SHARDS],
    /// Every transaction with a record up to this LSN has ended, and if it committed, its commit is durable (E10.9).
    /// Never decreases while transactions begin.
    settled: AtomicU64,
}

impl Table {
    fn shard(&self, id: TxnId) -> &Mutex<Shard> {
        &self.shards[id.0 as usize % SHARDS]
    }

    /// Enters a transaction that is about to write its first record, in a call of its owner. `newest` reads the LSN clock.
    pub(crate) fn enter(&self, id: TxnId, entered: Duration, newest: impl FnOnce() -> Lsn) -> (Arc<Entry>, Memory) {
        let Shard { running, spare, .. } = &mut *self.shard(id).lock();
        let fresh = || (Arc::new(Entry::new(id, Lsn::ZERO, entered)), new_memory());
        let (mut entry, memory) = spare.pop().unwrap_or_else(fresh);
        // The clock is read while the shard is locked: a later checkpoint sees the entry, and an earlier one read the
        // clock earlier.
        Arc::get_mut(&mut entry).expect("a spare one has no other owner").begin(id, newest().next(), entered);
        running.insert(id, Arc::clone(&entry));
        (entry, memory)
    }

    /// Enters a loser, or a prepared transaction, found by recovery.
    pub(crate) fn enter_loser(&self, id: TxnId, first: Lsn) -> Arc<Entry> {
        let entry = Arc::new(Entry { undone_from: Lsn::ZERO, ..Entry::new(id, first, Duration::ZERO) });
        self.settled.store(0, Ordering::Release); // no transaction has begun yet
        self.shard(id).lock().running.insert(id, Arc::clone(&entry));
        entry
    }

    /// Removes a transaction whose last record was appended, before its locks are released. `durable`: some LSN up to which
    /// the log is durable.
    pub(crate) fn leave(&self, mut entry: Arc<Entry>, memory: Memory, durable: Lsn) {
        entry.claim.end_taken();
        let Shard { running, committed, spare } = &mut *self.shard(entry.id).lock();
        running.remove(entry.id);
        let commit = entry.committed();
        if commit > durable {
            committed.add(entry.first, commit, durable);
        }
        // A search for transactions over their limits may still hold it, and so may the owner of one that was rolled
        // back.
        let is_alone = Arc::get_mut(&mut entry).is_some();
        if is_alone && spare.len() < SPARE && memory.len() <= KEPT_LEN_MAX {
            spare.push((entry, memory));
        }
    }

    /// Returns the LSN that must be durable before acknowledging a transaction that has read pages with LSNs up to
    /// `seen` and has written nothing (E10.9): `seen`, or the newest commit record of a transaction that may have
    /// written part of what was read.
    ///
    /// A transaction that wrote what was read has a first LSN of at most `seen`, and has noted its commit before others
    /// could read it. So unrelated commits count only if their transactions began before `seen`.
    #[inline]
    pub(crate) fn newest_read(&self, seen: Lsn, log: &Log) -> Lsn {
        if planted!("reader_waits_for_all") {
            return log.current_lsn();
        }
        if planted!("reader_waits_for_pages_alone") || seen.get() <= self.settled.load(Ordering::Acquire) {
            seen
        } else {
            self.look_for_writers(seen, log)
        }
    }

    #[cold]
    fn look_for_writers(&self, seen: Lsn, log: &Log) -> Lsn {
        // Both are read before the table: a transaction that enters later has a greater first LSN.
        let (newest, durable) = (log.current_lsn(), log.durable_lsn());
        let (mut oldest, mut wanted) = (newest.next(), seen);
        let mut count = |first: Lsn, commit: Lsn| {
            oldest = oldest.min(first);
            if first <= seen {
                wanted = wanted.max(commit);
            }
        };
        for shard in &self.shards {
            let shard = shard.lock();
            shard.running.values().for_each(|entry| count(entry.first, entry.committed()));
            let groups = [shard.committed.older, shard.committed.newer];
            groups.iter().filter(|group| group.last > durable).for_each(|group| count(group.first, group.last));
        }
        self.settled.fetch_max(oldest.previous().get(), Ordering::AcqRel);
        wanted
    }

    /// Returns the transaction with the smallest LSN that it still needs.
    pub(crate) fn oldest(&self) -> Option<Arc<Entry>> {
        self.oldest_but(|_| false)
    }

    /// The same, without those for which `is_left_out` returns `true`.
    pub(crate) fn oldest_but(&self, is_left_out: impl Fn(&Entry) -> bool) -> Option<Arc<Entry>> {
        let counts = |entry: &&Arc<Entry>| !is_left_out(entry);
        self.shards
            .iter()
            .filter_map(|shard| {
                shard.lock().running.values().filter(counts).min_by_key(|entry| entry.kept_from()).cloned()
            })
            .min_by_key(|entry| entry.kept_from())
    }

    /// Returns an LSN such that no change with a smaller one may still have to be undone; `None` if no transaction runs.
    pub(crate) fn undone_from(&self) -> Option<Lsn> {
        let oldest = |shard: &Mutex<Shard>| shard.lock().running.values().map(|entry| entry.undone_from).min();
        self.shards.iter().filter_map(oldest).min()
    }

    /// Returns all transactions for which `counts` returns `true`, oldest first.
    pub(crate) fn all(&self, counts: impl Fn(&Entry) -> bool) -> Vec<Arc<Entry>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(shard.lock().running.values().filter(|entry| counts(entry)).cloned());
        }
        all.sort_unstable_by_key(|entry| entry.kept_from());
        all
    }

    /// Returns the oldest change that a running transaction has deferred, or is about to defer.
    pub(crate) fn oldest_deferred(&self) -> Option<Lsn> {
        let since = |entry: &Arc<Entry>| entry.deferred_since.load(Ordering::SeqCst);
        let oldest = |shard: &Mutex<Shard>| shard.lock().running.values().map(since).filter(|&since| since != 0).min();
        self.shards.iter().filter_map(oldest).min().map(Lsn::new)
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().running.len()).sum()
    }
}

/// Allocates buffers for the parts of most records at once instead of piece by piece.
fn new_memory() -> Memory {
    Memory { head: Vec::with_capacity(32), arguments: Vec::with_capacity(128), deferred: Deferred::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Excess;

    const EXCESS: Excess = Excess::Bytes { pinned: 2, limit: 1 };

    #[test]
    fn oldest_transaction_is_first_to_enter() {
        let table = Table::default();
        let mut entered = Vec::new();
        for (id, clock) in [(3, 10), (1, 20), (18, 5), (2, 30)] {
            entered.push(table.enter(TxnId(id), Duration::ZERO, || Lsn::new(clock)));
        }
        assert_eq!(table.oldest().map(|entry| (entry.id, entry.kept_from())), Some((TxnId(18), Lsn::new(6))));
        let (entry, memory) = entered.swap_remove(2);
        table.leave(entry, memory, Lsn::ZERO);
        assert_eq!(table.oldest().map(|entry| entry.id), Some(TxnId(3)));
        assert_eq!(table.len(), 3);
    }

    /// Reused memory is reset, and memory that another thread still uses is not reused.
    #[test]
    fn memory_goes_to_the_next() {
        let table = Table::default();
        let (entry, memory) = table.enter(TxnId(3), Duration::ZERO, || Lsn::new(10));
        entry.claim.doom(EXCESS);
        entry.defers(Lsn::new(11));
        let (looked_at, memory) = (Arc::clone(&entry), Memory { head: Vec::with_capacity(77), ..memory });
        table.leave(entry, memory, Lsn::ZERO);
        let (entry, memory) = table.enter(TxnId(3 + SHARDS as u64), Duration::ZERO, || Lsn::new(20));
        assert!(!Arc::ptr_eq(&entry, &looked_at) && memory.head.capacity() < 77);
        entry.claim.doom(EXCESS);
        entry.defers(Lsn::new(21));
        let was = Arc::as_ptr(&entry);
        table.leave(entry, memory, Lsn::ZERO);
        let (entry, _) = table.enter(TxnId(3), Duration::ZERO, || Lsn::new(30));
        assert_eq!((Arc::as_ptr(&entry), entry.id, entry.kept_from()), (was, TxnId(3), Lsn::new(31)));
        assert!(!entry.claim.is_doomed() && !entry.has_announced(Lsn::MAX) && table.oldest_deferred().is_none());
    }

    /// However many transactions commit, the remembered ones span few writes of the log.
    #[test]
    fn committed_transactions_are_forgotten_when_durable() {
        let table = Table::default();
        for number in 1..1000u64 {
            let (entry, memory) = table.enter(TxnId(3), Duration::ZERO, || Lsn::new(2 * number));
            entry.commits_at(Lsn::new(2 * number + 2));
            table.leave(entry, memory, Lsn::new(2 * number.saturating_sub(5)));
            let committed = &table.shard(TxnId(3)).lock().committed;
            let oldest = committed.older.first.min(committed.newer.first);
            assert!(oldest <= Lsn::new(2 * number + 1), "the newest is remembered");
            assert!(oldest.get() + 40 >= 2 * number, "{oldest} is remembered at {}", 2 * number);
        }
    }

    /// The memory of a large transaction is not kept.
    #[test]
    fn memory_of_large_transaction_is_freed() {
        let table = Table::default();
        let (entry, memory) = table.enter(TxnId(3), Duration::ZERO, || Lsn::new(10));
        let deferred = Deferred::with_memory_for(KEPT_LEN_MAX);
        table.leave(entry, Memory { deferred, ..memory }, Lsn::ZERO);
        assert!(table.shard(TxnId(3)).lock().spare.is_empty());
    }
}
