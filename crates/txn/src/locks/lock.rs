//! One lock: its holders, counted by mode, and its queue.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use cedrat_pages::PageId;
use cedrat_sync::{Arc, planted};
use cedrat_wal::TxnId;
use hashbrown::HashTable;

use super::modes::{MODES, Modes};
use super::waiter::Waiter;
use super::words::Words;
use super::{LockMode, LockState, LockWait, Resource};

/// A table of holders that is this much larger than its content is shrunk.
const SLACK: usize = 8;

/// A resource and its hash, so that releasing does not hash it again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashed {
    pub(super) resource: Resource,
    pub(super) hash: u64,
}

impl Hashed {
    /// A value for places that are not used.
    pub(super) const NONE: Hashed = Hashed { resource: Resource::Page(PageId::new(0)), hash: 0 };

    pub(super) fn new(resource: Resource) -> Hashed {
        Hashed { resource, hash: Words::default().hash_one(resource) }
    }

    pub(super) fn is_of(self) -> impl Fn(&Lock) -> bool {
        move |lock| lock.of.resource == self.resource
    }
}

/// A locked resource. It is in its shard only while it has a holder or a waiter.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) of: Hashed,
    holders: Holders,
    /// Allocated by the first wait.
    queue: Option<Box<Queue>>,
}

/// The result of a request that does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    /// The transaction held the lock in this mode already.
    Held,
    /// Granted; `first`: the transaction did not hold it before.
    Granted { first: bool },
    /// Other transactions are in the way.
    Blocked,
}

impl Lock {
    pub(super) fn new(of: Hashed) -> Lock {
        Lock { of, holders: Holders::default(), queue: None }
    }

    /// Returns a lock with one holder.
    #[inline]
    pub(super) fn held(of: Hashed, txn: TxnId, mode: LockMode) -> Lock {
        let mut lock = Lock::new(of);
        lock.holders.first = Some((txn, mode));
        lock.holders.counts[mode as usize] = 1;
        lock
    }

    pub(super) fn mode_of(&self, txn: TxnId) -> Option<LockMode> {
        self.holders.get(txn)
    }

    pub(super) fn holders(&self) -> &Holders {
        &self.holders
    }

    fn waiting(&self) -> impl Iterator<Item = &Arc<Waiter>> {
        self.queue.iter().flat_map(|queue| &queue.waiters)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.holders.len() == 0 && !self.has_waiters()
    }

    /// Returns whether the lock is idle once this transaction, which holds it, has released it.
    #[inline]
    pub(super) fn is_held_alone_by(&self, txn: TxnId) -> bool {
        let Holders { first, others, .. } = &self.holders;
        self.queue.is_none() && others.is_none() && first.is_some_and(|(holder, _)| holder == txn)
    }

    fn has_waiters(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| !queue.waiters.is_empty())
    }

    /// Grants the lock if no other holder conflicts, and no waiter is overtaken except by a holder that upgrades.
    ///
    /// An upgrade that overtakes needs no wake-up: it makes no waiter's request possible that was not.
    pub(super) fn take(&mut self, txn: TxnId, mode: LockMode) -> Take {
        let held = self.holders.get(txn);
        let wanted = held.map_or(mode, |held| held.join(mode));
        if held == Some(wanted) {
            return Take::Held;
        }
        if held.is_none() && self.has_waiters() && !planted!("waiters_overtaken") || !self.holders.admit(held, wanted) {
            return Take::Blocked;
        }
        self.holders.set(txn, held, wanted);
        Take::Granted { first: held.is_none() }
    }

    /// Grants the lock whatever others hold. Returns whether the transaction did not hold it before.
    pub(super) fn force(&mut self, txn: TxnId, mode: LockMode) -> bool {
        let held = self.holders.get(txn);
        self.holders.set(txn, held, held.map_or(mode, |held| held.join(mode)));
        held.is_none()
    }

    /// Adds a blocked request to the queue: an upgrade behind other upgrades, any other at the end.
    pub(super) fn enqueue(&mut self, txn: TxnId, mode: LockMode, unless_prepared: bool) -> Arc<Waiter> {
        let held = self.holders.get(txn);
        let wanted = held.map_or(mode, |held| held.join(mode));
        let queue = self.queue.get_or_insert_default();
        queue.arrivals += 1;
        let waiter = Waiter::new(txn, self.of, wanted, held.is_some(), unless_prepared, queue.arrivals);
        let waiter = Arc::new(waiter);
        queue.insert(Arc::clone(&waiter));
        waiter
    }

    /// Withdraws a request that is still undecided, and grants the requests that it blocked. Returns whether it was in
    /// the queue.
    pub(super) fn cancel(&mut self, waiter: &Waiter, decided: &mut Vec<Arc<Waiter>>) -> bool {
        let Some(queue) = &mut self.queue else { return false };
        let Some(at) = queue.waiters.iter().position(|other| other.arrival == waiter.arrival) else { return false };
        queue.remove(at).withdraw();
        self.grant_next(decided);
        true
    }

    /// Releases the lock of `txn`, and hands it over.
    pub(super) fn release(&mut self, txn: TxnId, decided: &mut Vec<Arc<Waiter>>) {
        self.holders.remove(txn);
        self.grant_next(decided);
    }

    /// Grants the requests at the front of the queue, up to the first that a holder conflicts with. Each is added to
    /// `decided`, for the caller to wake.
    fn grant_next(&mut self, decided: &mut Vec<Arc<Waiter>>) {
        let Some(queue) = &mut self.queue else { return };
        if planted!("all_waiters_woken") {
            decided.extend(queue.waiters.iter().cloned());
        }
        while let Some(front) = queue.waiters.front() {
            let held = self.holders.get(front.txn);
            if !self.holders.admit(held, front.wanted) {
                return;
            }
            self.holders.set(front.txn, held, front.wanted);
            let granted = queue.remove(0);
            granted.grant(held.is_none());
            decided.push(granted);
        }
    }

    /// Returns a prepared transaction that a request of `txn` at the end of the queue would wait for, directly or
    /// through other waiters.
    pub(super) fn prepared_before(
        &self,
        txn: TxnId,
        mode: LockMode,
        is_prepared: &dyn Fn(TxnId) -> bool,
    ) -> Option<TxnId> {
        let held = self.holders.get(txn);
        let own = Modes::of(held.map_or(mode, |held| held.join(mode)));
        let before = self.waiting().take_while(|waiter| held.is_none() || waiter.upgrades);
        let modes = before.fold(own, |modes, waiter| modes.with(waiter.wanted));
        let in_the_way = self.holders.iter().filter(|(_, mode)| modes.conflict_with(*mode));
        in_the_way.map(|(holder, _)| holder).find(|&holder| holder != txn && is_prepared(holder))
    }

    /// Whether the queue has a waiter that is to be refused when a transaction in its way prepares.
    pub(super) fn has_waiters_unless_prepared(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.unless_prepared != 0)
    }

    /// Refuses the requests that wait for `prepared` and do not wait for prepared transactions. They, and the requests
    /// that can be granted then, are added to `decided`.
    pub(super) fn refuse_unless_prepared(&mut self, prepared: TxnId, decided: &mut Vec<Arc<Waiter>>) {
        let (Some(held), Some(queue)) = (self.holders.get(prepared), &mut self.queue) else { return };
        let (mut modes, mut at) = (Modes::NONE, 0);
        while let Some(waiter) = queue.waiters.get(at) {
            let with = modes.with(waiter.wanted);
            if waiter.unless_prepared && waiter.txn != prepared && with.conflict_with(held) {
                let refused = queue.remove(at);
                refused.refuse(prepared);
                decided.push(refused);
            } else {
                (modes, at) = (with, at + 1);
            }
        }
        self.grant_next(decided);
    }

    /// Returns the other holders for which a waiter waits, directly or through the waiters before it.
    pub(super) fn holders_before(&self, waiter: &Waiter) -> Vec<TxnId> {
        let before = self.waiting().take_while(|other| !waiter.is_before(other));
        let modes = before.fold(Modes::of(waiter.wanted), |modes, other| modes.with(other.wanted));
        let in_the_way = self.holders.iter().filter(|(txn, mode)| *txn != waiter.txn && modes.conflict_with(*mode));
        in_the_way.map(|(txn, _)| txn).collect()
    }

    /// Returns the state, for reports.
    pub(super) fn state(&self) -> LockState {
        let mut holders: Vec<_> = self.holders.iter().collect();
        holders.sort_unstable_by_key(|&(txn, _)| txn);
        let wait = |waiter: &Arc<Waiter>| {
            let mut waits_for = self.holders_before(waiter);
            waits_for.sort_unstable();
            LockWait { txn: waiter.txn, mode: waiter.wanted, waits_for }
        };
        LockState { resource: self.of.resource, holders, waiters: self.waiting().map(wait).collect() }
    }

    /// Returns the modes of `waiter` and of all waiters before it except `without`; fewer if those already conflict
    /// with everything that the whole queue conflicts with. Adds the number of waiters examined to `steps`.
    pub(super) fn modes_up_to(&self, waiter: &Waiter, without: &Waiter, steps: &mut u64) -> Modes {
        let Some(queue) = &self.queue else { return Modes::NONE };
        let mut modes = Modes::NONE;
        for other in &queue.waiters {
            *steps += 1;
            if waiter.is_before(other) {
                break;
            }
            if other.txn != without.txn {
                modes = modes.with(other.wanted);
                if modes.conflicts() == queue.modes().conflicts() {
                    break;
                }
            }
        }
        modes
    }
}

/// Blocked requests in the order in which they are granted.
#[derive(Debug, Default)]
struct Queue {
    waiters: VecDeque<Arc<Waiter>>,
    /// Number of upgrades, all at the front: requests whose transactions hold the lock already.
    upgrades: usize,
    /// Number of requests that are refused when a transaction in their way prepares.
    unless_prepared: usize,
    /// Number of requests so far.
    arrivals: u64,
    /// Number of requests for each mode.
    wanted: [u32; MODES],
}

impl Queue {
    fn insert(&mut self, waiter: Arc<Waiter>) {
        self.wanted[waiter.wanted as usize] += 1;
        self.unless_prepared += usize::from(waiter.unless_prepared);
        if waiter.upgrades {
            self.waiters.insert(self.upgrades, waiter);
            self.upgrades += 1;
        } else {
            self.waiters.push_back(waiter);
        }
    }

    fn remove(&mut self, at: usize) -> Arc<Waiter> {
        let waiter = self.waiters.remove(at).expect("the position was found in this queue");
        self.wanted[waiter.wanted as usize] -= 1;
        self.unless_prepared -= usize::from(waiter.unless_prepared);
        self.upgrades -= usize::from(waiter.upgrades);
        waiter
    }

    fn modes(&self) -> Modes {
        Modes::counted(&self.wanted)
    }
}

/// The holders of a lock: usually one, which needs no allocation.
///
/// Each lookup and each check of compatibility takes constant time, whatever their number (E15.4).
#[derive(Debug, Default)]
pub(super) struct Holders {
    first: Option<(TxnId, LockMode)>,
    others: Option<Box<HashTable<(TxnId, LockMode)>>>,
    /// Number of holders of each mode.
    counts: [u32; MODES],
    #[cfg(test)]
    pub(super) looked_at: std::cell::Cell<u64>,
}

impl Holders {
    pub(super) fn iter(&self) -> impl Iterator<Item = (TxnId, LockMode)> {
        self.first.iter().chain(self.others.iter().flat_map(|others| others.iter())).copied()
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.as_ref().map_or(0, |others| others.len())
    }

    fn hash(txn: TxnId) -> u64 {
        Words::default().hash_one(txn)
    }

    /// Whether this entry is the one of `txn`.
    fn is_of(&self, entry: &(TxnId, LockMode), txn: TxnId) -> bool {
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + 1);
        entry.0 == txn
    }

    pub(super) fn get(&self, txn: TxnId) -> Option<LockMode> {
        if let Some(first) = &self.first
            && self.is_of(first, txn)
        {
            return Some(first.1);
        }
        let others = self.others.as_ref()?;
        others.find(Self::hash(txn), |entry| self.is_of(entry, txn)).map(|entry| entry.1)
    }

    /// Whether a transaction that holds `held` may hold `wanted`, considering the other holders only.
    fn admit(&self, held: Option<LockMode>, wanted: LockMode) -> bool {
        if planted!("holders_compared_one_by_one") {
            self.iter().for_each(|holder| _ = self.is_of(&holder, TxnId::NONE));
        }
        let conflicts = Modes::of(wanted).conflicts();
        let mut conflicting = LockMode::ALL.into_iter().filter(|&mode| conflicts.has(mode));
        conflicting.all(|mode| self.counts[mode as usize] == u32::from(held == Some(mode)))
    }

    /// Sets the mode of `txn`, which held the lock in mode `held` before.
    fn set(&mut self, txn: TxnId, held: Option<LockMode>, mode: LockMode) {
        self.counts[mode as usize] += 1;
        if let Some(held) = held {
            self.counts[held as usize] -= 1;
        }
        if let Some(first) = &mut self.first
            && first.0 == txn
        {
            first.1 = mode;
        } else if held.is_some() {
            let others = self.others.as_mut().expect("a holder that is not the first is among the others");
            let entry = others.find_mut(Self::hash(txn), |entry| entry.0 == txn);
            entry.expect("a holder that is not the first is among the others").1 = mode;
        } else if self.first.is_none() {
            self.first = Some((txn, mode));
        } else {
            let others = self.others.get_or_insert_default();
            others.insert_unique(Self::hash(txn), (txn, mode), |entry| Self::hash(entry.0));
        }
    }

    fn remove(&mut self, txn: TxnId) {
        let held = match (self.first, &mut self.others) {
            (Some((holder, held)), _) if holder == txn => {
                self.first = None;
                held
            }
            (_, Some(others)) => {
                let Ok(entry) = others.find_entry(Self::hash(txn), |entry| entry.0 == txn) else { return };
                let ((_, held), _) = entry.remove();
                // A search for deadlocks scans the whole table.
                if others.capacity() > SLACK * (others.len() + SLACK) {
                    let len = others.len();
                    others.shrink_to(2 * len, |entry| Self::hash(entry.0));
                }
                held
            }
            (_, None) => return,
        };
        self.counts[held as usize] -= 1;
    }
}
