//! The search for a cycle in the waits-for graph.
//!
//! No edges are stored. They follow from the locks: a waiter waits for the holders that conflict with it or with a
//! waiter before it, and so, transitively, for what those wait for. A search begins once, when a request blocks, and
//! examines one lock at a time.
//!
//! **No deadlock is missed.** Every member of a cycle holds a lock and waits, so it was enqueued and registered, and
//! then searched. The edges of a cycle do not change until a member is refused. So the member that registered last has
//! seen them all.
//!
//! **No search finds a cycle that never existed.** Along a path, each transaction is seen holding a lock before it is
//! seen waiting. A waiting transaction releases nothing, so it held the lock the whole time. By induction from the end,
//! which is the searching transaction itself, all of them still wait. Withdrawn requests would break this, so the mutex
//! `detecting` is held over each search, its decision, and each withdrawal.

use std::collections::{HashMap, HashSet};

use cedrat_sync::{Arc, planted};
use cedrat_wal::TxnId;

use super::Resource;
use super::lock::Lock;
use super::modes::Modes;
use super::table::LockTable;
use super::waiter::{Outcome, Waiter};
use super::words::Words;

/// With more holders than this, and fewer waiting transactions, the search scans the waiting transactions instead.
const HOLDERS_GONE_THROUGH: usize = 64;

/// A search for a cycle through one blocked request.
pub(super) struct Search<'a> {
    table: &'a LockTable,
    from: &'a Waiter,
    /// Waiting transactions whose locks were not examined yet.
    open: Vec<Arc<Waiter>>,
    seen: HashSet<TxnId, Words>,
    /// The modes for which the holders of a lock were scanned.
    done: HashMap<Resource, Modes, Words>,
    /// All waiting transactions, loaded when first needed.
    all: Option<Vec<Arc<Waiter>>>,
    /// Number of waiters and holders that were examined.
    pub(super) steps: u64,
}

impl<'a> Search<'a> {
    pub(super) fn new(table: &'a LockTable, from: &'a Arc<Waiter>) -> Search<'a> {
        let (seen, done) = (HashSet::default(), HashMap::default());
        Search { table, from, open: vec![Arc::clone(from)], seen, done, all: None, steps: 0 }
    }

    /// Whether the request waits for itself, directly or through others.
    pub(super) fn finds_cycle(&mut self) -> bool {
        while let Some(waiter) = self.open.pop() {
            let shard = self.table.shard(waiter.of).lock();
            let lock = shard.find(waiter.of).filter(|_| waiter.outcome() == Outcome::Waiting);
            let Some(lock) = lock else { continue };
            self.steps += 1;
            let Some(modes) = self.modes_in_front(lock, &waiter) else { return true };
            let done = self.done.entry(lock.of.resource).or_insert(Modes::NONE);
            let new = modes.but(*done);
            *done = done.and(new);
            let blockers = self.blockers(lock, new.conflicts());
            drop(shard);
            for txn in blockers {
                self.open.extend(self.table.waiting(txn));
            }
        }
        false
    }

    /// Returns the modes whose conflicts `waiter` waits for; `None` if it waits for the request that began the search.
    fn modes_in_front(&mut self, lock: &Lock, waiter: &Waiter) -> Option<Modes> {
        if planted!("cycle_not_found") {
            return Some(Modes::NONE);
        }
        let from = self.from;
        let is_start = waiter.txn == from.txn;
        let same_lock = lock.of.resource == from.of.resource;
        if same_lock && !is_start && from.is_before(waiter) {
            return None;
        }
        let others = lock.modes_up_to(waiter, from, &mut self.steps);
        if lock.mode_of(from.txn).is_some_and(|held| others.conflict_with(held)) {
            return None;
        }
        Some(if is_start { others.with(from.wanted) } else { others })
    }

    /// Returns holders in modes that conflict with `conflicting` and were not seen before. Those that certainly wait
    /// are opened at once.
    fn blockers(&mut self, lock: &Lock, conflicting: Modes) -> Vec<TxnId> {
        if conflicting == Modes::NONE {
            return Vec::new();
        }
        let holders = lock.holders();
        if holders.len() > HOLDERS_GONE_THROUGH && holders.len() > self.table.waiting_now() {
            let all = self.all.get_or_insert_with(|| self.table.all_waiting());
            for waiter in all.iter().filter(|waiter| waiter.txn != self.from.txn) {
                self.steps += 1;
                if holders.get(waiter.txn).is_some_and(|mode| conflicting.has(mode)) && self.seen.insert(waiter.txn) {
                    self.open.push(Arc::clone(waiter));
                }
            }
            return Vec::new();
        }
        self.steps += holders.len() as u64;
        let in_the_way = holders.iter().filter(|(txn, mode)| *txn != self.from.txn && conflicting.has(*mode));
        in_the_way.map(|(txn, _)| txn).filter(|&txn| self.seen.insert(txn)).collect()
    }
}

/// Returns a transaction for which a blocked request waits, directly or through others, and which is one of the thread that
/// waits: its newest lock was acquired there, or it is rolled back there. Only its thread ends it, and that cannot while it waits.
pub(super) fn own_transaction_before(table: &LockTable, from: &Arc<Waiter>) -> Option<TxnId> {
    if planted!("own_transaction_awaited") {
        return None;
    }
    let all = table.all_waiting();
    let (mut seen, mut open) = (HashSet::<TxnId, Words>::default(), vec![Arc::clone(from)]);
    seen.insert(from.txn);
    while let Some(waiter) = open.pop() {
        let shard = table.shard(waiter.of).lock();
        let lock = shard.find(waiter.of).filter(|_| waiter.outcome() == Outcome::Waiting);
        let holders = lock.map(|lock| lock.holders_before(&waiter)).unwrap_or_default();
        drop(shard);
        for holder in holders {
            if !seen.insert(holder) {
                continue;
            }
            if let Some(waiter) = table.waiting(holder) {
                open.push(waiter);
                continue;
            }
            match table.thread_of(holder) {
                0 => {}
                thread if thread == from.thread => return Some(holder),
                // Its thread may be waiting with another transaction.
                thread => open.extend(all.iter().filter(|waiter| waiter.thread == thread).cloned()),
            }
        }
    }
    None
}
