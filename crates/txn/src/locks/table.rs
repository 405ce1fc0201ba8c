//! A hashed lock table with deadlock detection.
//!
//! Locks lie in shards by their resource's hash. Who must wait says whom it waits for in one common graph, and asks
//! there whether its own wait would close a circle; if so it is refused. A wait begins with its edges in the graph
//! and is woken whenever a lock of its shard changes, so that edges are never stale for long: each wakened waiter
//! recomputes its own, and checks again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use cedrat_sync::{Arc, Condvar, Mutex};
use cedrat_wal::TxnId;
use hashbrown::HashTable;

use super::{Deadlock, LockMode, NotGiven, Resource};

const SHARDS: usize = 64;

/// For so many resources memory is asked at once, and kept for the next transaction: most lock no more.
const RESOURCES: usize = 8;

/// A shard keeps memory for so many locks, however few it has: transactions of millions come and go.
const SHARD_KEPT: usize = 1024;

/// Each shard keeps so many lists for later.
const SPARE: usize = 4;

/// Who holds what, and who waits.
#[derive(Debug, Default)]
pub(super) struct LockTable {
    shards: Vec<Shard>,
    /// What each transaction holds, so that it can all be given back.
    held: Vec<Mutex<Held>>,
    waits: Mutex<Waits>,
}

#[derive(Debug, Default)]
struct Shard {
    locks: Mutex<HashTable<Lock>>,
}

/// A resource and its hash: who gives it back does not hash it again.
#[derive(Clone, Copy, Debug)]
struct Hashed {
    resource: Resource,
    hash: u64,
}

impl Hashed {
    fn new(resource: Resource) -> Hashed {
        Hashed { resource, hash: Words::default().hash_one(resource) }
    }

    fn is_of(self) -> impl Fn(&Lock) -> bool {
        move |lock| lock.of.resource == self.resource
    }
}

/// What transactions hold, and the memory of lists that were given back.
#[derive(Debug, Default)]
struct Held {
    by: HashMap<TxnId, Vec<Hashed>, Words>,
    spare: Vec<Vec<Hashed>>,
}

#[derive(Debug)]
struct Lock {
    of: Hashed,
    holders: Holders,
    /// In order of arrival; those who hold the resource and want more stand in front.
    queue: VecDeque<Waiter>,
}

/// Who holds a lock: one as a rule, for whom no memory is asked.
#[derive(Debug, Default)]
struct Holders {
    first: Option<(TxnId, LockMode)>,
    others: Vec<(TxnId, LockMode)>,
}

impl Holders {
    fn iter(&self) -> impl Iterator<Item = &(TxnId, LockMode)> {
        self.first.iter().chain(&self.others)
    }

    fn set(&mut self, txn: TxnId, mode: LockMode) {
        if let Some((_, held)) = self.first.iter_mut().chain(&mut self.others).find(|(holder, _)| *holder == txn) {
            *held = mode;
        } else if self.first.is_none() {
            self.first = Some((txn, mode));
        } else {
            self.others.push((txn, mode));
        }
    }

    fn remove(&mut self, txn: TxnId) {
        match self.first {
            Some((holder, _)) if holder == txn => self.first = self.others.pop(),
            _ => self.others.retain(|(holder, _)| *holder != txn),
        }
    }

    /// The first is there if any is.
    fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

#[derive(Clone, Debug)]
struct Waiter {
    txn: TxnId,
    bell: Arc<Bell>,
}

/// Rung when a waiter's turn may have come.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    condition: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock() = true;
        self.condition.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock();
        while !*rung {
            self.condition.wait(&mut rung);
        }
        *rung = false;
    }
}

/// Who waits for whom.
#[derive(Debug, Default)]
struct Waits {
    edges: HashMap<TxnId, Vec<TxnId>>,
}

impl Waits {
    /// Whether `from` is reached from any of `others`.
    fn closes_a_circle(&self, from: TxnId, others: &[TxnId]) -> bool {
        let mut seen: HashSet<TxnId> = HashSet::new();
        let mut open: Vec<TxnId> = others.to_vec();
        while let Some(txn) = open.pop() {
            if txn == from {
                return true;
            }
            if seen.insert(txn)
                && let Some(next) = self.edges.get(&txn)
            {
                open.extend_from_slice(next);
            }
        }
        false
    }
}

impl LockTable {
    pub(super) fn new() -> LockTable {
        LockTable {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            held: (0..SHARDS).map(|_| Mutex::default()).collect(),
            waits: Mutex::default(),
        }
    }

    fn shard(&self, of: Hashed) -> &Shard {
        // The table inside uses the low and the highest bits; the shard those between.
        &self.shards[(of.hash >> 32) as usize % SHARDS]
    }

    fn held(&self, txn: TxnId) -> &Mutex<Held> {
        &self.held[txn.0 as usize % SHARDS]
    }

    /// Locks, waiting if need be; not for one of whom `is_prepared` says so.
    pub(super) fn lock(
        &self,
        txn: TxnId,
        resource: Resource,
        mode: LockMode,
        is_prepared: Option<&dyn Fn(TxnId) -> bool>,
    ) -> Result<(), NotGiven> {
        let of = Hashed::new(resource);
        let shard = self.shard(of);
        let mut locks = shard.locks.lock();
        let lock = lock_of(&mut locks, of);
        let held = lock.mode_of(txn);
        let wanted = held.map_or(mode, |held| held.join(mode));
        if held == Some(wanted) {
            return Ok(());
        }
        if lock.may_have(txn, wanted, held.is_some()) {
            lock.give(txn, wanted);
            // An upgrade may pass those who wait; they have a new reason to.
            lock.ring_all();
            drop(locks);
            self.note(txn, of, held.is_none());
            return Ok(());
        }
        let bell = Arc::new(Bell::default());
        let waiter = Waiter { txn, bell: Arc::clone(&bell) };
        if held.is_some() {
            let upgrades = lock.queue.iter().take_while(|waiter| lock.mode_of(waiter.txn).is_some()).count();
            lock.queue.insert(upgrades, waiter);
        } else {
            lock.queue.push_back(waiter);
        }
        lock.ring_all();
        loop {
            let lock = lock_of(&mut locks, of);
            if lock.is_next(txn) && lock.agrees(txn, wanted) {
                lock.queue.retain(|waiter| waiter.txn != txn);
                lock.give(txn, wanted);
                // Those behind may share it, or have new reasons to wait.
                lock.ring_all();
                self.waits.lock().edges.remove(&txn);
                drop(locks);
                self.note(txn, of, held.is_none());
                return Ok(());
            }
            let others = lock.in_the_way(txn, wanted);
            let prepared = is_prepared.and_then(|is| others.iter().copied().find(|&other| is(other)));
            {
                let mut waits = self.waits.lock();
                if prepared.is_some() || waits.closes_a_circle(txn, &others) {
                    waits.edges.remove(&txn);
                    drop(waits);
                    lock.queue.retain(|waiter| waiter.txn != txn);
                    lock.ring_all();
                    remove_if_idle(&mut locks, of);
                    return Err(prepared.map_or_else(|| Deadlock { txn, resource }.into(), NotGiven::Prepared));
                }
                waits.edges.insert(txn, others);
            }
            drop(locks);
            bell.wait();
            locks = shard.locks.lock();
        }
    }

    fn note(&self, txn: TxnId, of: Hashed, new: bool) {
        if new {
            let Held { by, spare } = &mut *self.held(txn).lock();
            by.entry(txn).or_insert_with(|| spare.pop().unwrap_or_else(|| Vec::with_capacity(RESOURCES))).push(of);
        }
    }

    /// Gives a lock without asking whether others agree.
    pub(super) fn grant(&self, txn: TxnId, resource: Resource, mode: LockMode) {
        let of = Hashed::new(resource);
        let mut locks = self.shard(of).locks.lock();
        let lock = lock_of(&mut locks, of);
        let held = lock.mode_of(txn);
        lock.give(txn, held.map_or(mode, |held| held.join(mode)));
        // Those who wait have a new reason to.
        lock.ring_all();
        drop(locks);
        self.note(txn, of, held.is_none());
    }

    /// Wakes those who wait for what a transaction holds: they have a new reason not to.
    pub(super) fn ring_for(&self, txn: TxnId) {
        for of in self.list(txn) {
            if let Some(lock) = self.shard(of).locks.lock().find(of.hash, of.is_of()) {
                lock.ring_all();
            }
        }
    }

    fn list(&self, txn: TxnId) -> Vec<Hashed> {
        self.held(txn).lock().by.get(&txn).cloned().unwrap_or_default()
    }

    /// What a transaction holds.
    pub(super) fn held_by(&self, txn: TxnId) -> Vec<(Resource, LockMode)> {
        let mode = |of: Hashed| self.shard(of).locks.lock().find(of.hash, of.is_of())?.mode_of(txn);
        self.list(txn).into_iter().filter_map(|of| Some((of.resource, mode(of)?))).collect()
    }

    /// Gives back all that a transaction holds.
    pub(super) fn release_all(&self, txn: TxnId) {
        let Some(mut list) = self.held(txn).lock().by.remove(&txn) else { return };
        for of in list.drain(..) {
            let mut locks = self.shard(of).locks.lock();
            let Ok(mut entry) = locks.find_entry(of.hash, of.is_of()) else { continue };
            let lock = entry.get_mut();
            lock.holders.remove(txn);
            lock.ring_all();
            if lock.is_idle() {
                entry.remove();
                if locks.capacity() > SHARD_KEPT && locks.len() < locks.capacity() / 8 {
                    let len = locks.len();
                    locks.shrink_to(2 * len, |lock| lock.of.hash);
                }
            }
        }
        if list.capacity() == RESOURCES {
            let spare = &mut self.held(txn).lock().spare;
            if spare.len() < SPARE {
                spare.push(list);
            }
        }
    }

    /// For how many resources there is memory.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.shards.iter().map(|shard| shard.locks.lock().capacity()).sum()
    }

    /// How many resources are locked or waited for.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.locks.lock().len()).sum()
    }
}

/// The lock of a resource, made where there is none.
fn lock_of(locks: &mut HashTable<Lock>, of: Hashed) -> &mut Lock {
    let none = || Lock { of, holders: Holders::default(), queue: VecDeque::new() };
    locks.entry(of.hash, of.is_of(), |lock| lock.of.hash).or_insert_with(none).into_mut()
}

fn remove_if_idle(locks: &mut HashTable<Lock>, of: Hashed) {
    if let Ok(entry) = locks.find_entry(of.hash, of.is_of())
        && entry.get().is_idle()
    {
        entry.remove();
    }
}

impl Lock {
    fn mode_of(&self, txn: TxnId) -> Option<LockMode> {
        self.holders.iter().find(|(holder, _)| *holder == txn).map(|(_, mode)| *mode)
    }

    /// Whether every other holder agrees.
    fn agrees(&self, txn: TxnId, mode: LockMode) -> bool {
        self.holders.iter().all(|(holder, held)| *holder == txn || held.agrees_with(mode))
    }

    /// Whether it can be granted without waiting: nobody is passed by, unless he who asks holds it already.
    fn may_have(&self, txn: TxnId, mode: LockMode, upgrade: bool) -> bool {
        (upgrade || self.queue.is_empty()) && self.agrees(txn, mode)
    }

    /// Whether nobody waits before `txn`.
    fn is_next(&self, txn: TxnId) -> bool {
        self.queue.front().is_some_and(|waiter| waiter.txn == txn)
    }

    fn give(&mut self, txn: TxnId, mode: LockMode) {
        self.holders.set(txn, mode);
    }

    /// The holders that disagree, and everyone who stands before in the queue.
    fn in_the_way(&self, txn: TxnId, mode: LockMode) -> Vec<TxnId> {
        let holders = self
            .holders
            .iter()
            .filter(|(holder, held)| *holder != txn && !held.agrees_with(mode))
            .map(|(holder, _)| *holder);
        let before = self.queue.iter().map(|waiter| waiter.txn).take_while(|waiter| *waiter != txn);
        holders.chain(before).collect()
    }

    #[inline]
    fn ring_all(&self) {
        for waiter in &self.queue {
            waiter.bell.ring();
        }
    }

    fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty()
    }
}

/// Hashes a few words: numbers of pages and transactions, and the hashes of keys; no strings and nobody's attack.
pub(crate) type Words = BuildHasherDefault<WordHasher>;

#[derive(Default)]
pub(crate) struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }
}
