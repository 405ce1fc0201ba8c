//! A sharded lock table with direct hand-over.
//!
//! Each lock has a queue. The transaction that releases a lock grants the requests at the front, and wakes exactly
//! their threads, each once (E15.5). A request that blocks searches the waits-for graph once; if its wait would close a
//! cycle, it is refused ([`super::deadlock`]). Requests that do not block access only their own shard, and no state
//! that all share.
//!
//! Mutexes are taken in this order: `detecting`, a shard of locks, a shard of transactions.

use std::time::{Duration, Instant};

use cedrat_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use cedrat_sync::{Arc, Mutex, MutexGuard, planted, thread_number};
use cedrat_wal::TxnId;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::deadlock::{Search, own_transaction_before};
use super::held::{Held, RESOURCES, Txns};
use super::lock::{Hashed, Lock, Take};
use super::waiter::{Outcome, Waiter};
use super::{Deadlock, HasStopped, LockCounts, LockMode, LockState, NotGiven, Refusal, Resource, WaitPolicy};
use crate::nested::latching_txn;
use crate::trace::event;

const SHARDS: usize = 64;

/// Capacity that a shard keeps, however few locks it has: transactions with millions of locks recur.
const SHARD_KEPT: usize = 1024;

/// Lists of locks that each shard of transactions keeps for reuse.
const SPARE: usize = 4;

/// Time that a request waits before it searches for transactions of its own thread, which could not end meanwhile.
///
/// A transaction may have been moved to another thread since its newest lock: then it usually ends earlier.
const PATIENCE: Duration = Duration::from_secs(10);

/// Number of refusals by the policy after which a repeated transaction waits: otherwise it might be refused again and again, since
/// each run has a new age.
const REFUSALS_MAX: u32 = 4;

/// Returns the place of a lock in its shard while it is uncontended. The shard is chosen by bits beside these.
fn place_of(of: Hashed) -> usize {
    (of.hash >> 40) as usize % UNCONTENDED
}

/// Locks, their holders and their queues.
#[derive(Debug)]
pub(super) struct LockTable {
    shards: Box<[Mutex<Locks>; SHARDS]>,
    txns: Box<[Mutex<Txns>; SHARDS]>,
    /// Held over each search for a cycle, its decision, and each withdrawal of a request.
    detecting: Mutex<()>,
    /// Number of transactions that are registered as waiting.
    waiting: AtomicUsize,
    counters: Counters,
    patience: Duration,
    policy: WaitPolicy,
    wait_max: Option<Duration>,
    /// The signal of the store that it serves.
    has_stopped: Mutex<Option<HasStopped>>,
}

/// A lock with one holder, for which no other transaction has asked.
#[derive(Clone, Copy, Debug)]
struct UncontendedLock {
    of: Hashed,
    txn: TxnId,
    mode: LockMode,
}

/// Number of locks of a shard that need no entry in its table.
const UNCONTENDED: usize = 8;

/// A shard of locks.
///
/// Most locks are held by one transaction, and released before another one asks for them. Such a lock has a place of its own, by
/// its hash, as long as the table is empty when it is granted, and the place is free. The first request of another transaction
/// moves it to the table.
#[derive(Debug, Default)]
pub(super) struct Locks {
    table: HashTable<Lock>,
    uncontended: [Option<UncontendedLock>; UNCONTENDED],
    #[cfg(test)]
    pub(super) operations: u64,
}

/// Maximum number of locks that are noted together.
const NEW_LOCKS: usize = 8;

/// Locks that were granted, and are not noted for their release yet. Dropping this value notes them.
struct NewLocks<'t> {
    table: &'t LockTable,
    txn: TxnId,
    locks: [Hashed; NEW_LOCKS],
    count: usize,
}

impl NewLocks<'_> {
    #[inline]
    fn add(&mut self, of: Hashed) {
        if self.count == NEW_LOCKS {
            self.note();
        }
        self.locks[self.count] = of;
        self.count += 1;
    }

    #[inline]
    fn note(&mut self) {
        if self.count > 0 {
            self.table.txns(self.txn).lock().note_all(self.txn, &self.locks[..self.count]);
            self.count = 0;
        }
    }
}

impl Drop for NewLocks<'_> {
    #[inline]
    fn drop(&mut self) {
        self.note();
    }
}

/// Counters of events on the path of requests that block; other requests count nothing.
#[derive(Debug, Default)]
struct Counters {
    blocked: AtomicU64,
    granted: AtomicU64,
    wake_ups: AtomicU64,
    deadlocks: AtomicU64,
    searches: AtomicU64,
    search_steps: AtomicU64,
}

fn count(counter: &AtomicU64, events: u64) {
    counter.fetch_add(events, Ordering::Relaxed);
}

/// The result of a request that was not refused at once.
#[derive(Debug)]
pub(super) enum Request {
    Granted,
    Blocked(Arc<Waiter>),
}

impl Locks {
    pub(super) fn find(&self, of: Hashed) -> Option<&Lock> {
        self.table.find(of.hash, of.is_of())
    }

    fn find_mut(&mut self, of: Hashed) -> Option<&mut Lock> {
        self.table.find_mut(of.hash, of.is_of())
    }

    /// Returns the mode in which a transaction holds a lock.
    fn mode_of(&self, of: Hashed, txn: TxnId) -> Option<LockMode> {
        match &self.uncontended[place_of(of)] {
            Some(lock) if lock.of.resource == of.resource => (lock.txn == txn).then_some(lock.mode),
            _ => self.find(of)?.mode_of(txn),
        }
    }

    /// Moves a lock to the table, if it is not there.
    #[cold]
    fn contend(&mut self, of: Hashed) {
        if let Some(lock) = self.uncontended[place_of(of)].take_if(|lock| lock.of.resource == of.resource) {
            self.entry(of).insert(Lock::held(of, lock.txn, lock.mode));
        }
    }

    #[inline]
    fn entry(&mut self, of: Hashed) -> Entry<'_, Lock> {
        self.table.entry(of.hash, of.is_of(), |lock| lock.of.hash)
    }

    /// Grants a lock as [`Lock::take`] does. Usually no other transaction uses the resource: then there is nothing to compare.
    #[inline]
    fn take(&mut self, of: &Hashed, txn: TxnId, mode: LockMode) -> Take {
        #[cfg(test)]
        {
            self.operations += 1;
        }
        let place = &mut self.uncontended[place_of(*of)];
        match place {
            None if self.table.is_empty() || planted!("lock_beside_table_and_in_it") => {
                *place = Some(UncontendedLock { of: *of, txn, mode });
                return Take::Granted { first: true };
            }
            Some(lock) if lock.of.resource == of.resource => {
                if lock.txn == txn {
                    let (before, joined) = (lock.mode, lock.mode.join(mode));
                    lock.mode = joined;
                    return if joined == before { Take::Held } else { Take::Granted { first: false } };
                }
                self.contend(*of);
            }
            _ => {}
        }
        self.take_in_table(*of, txn, mode)
    }

    #[inline(never)]
    fn take_in_table(&mut self, of: Hashed, txn: TxnId, mode: LockMode) -> Take {
        match self.entry(of) {
            Entry::Vacant(vacant) => {
                vacant.insert(Lock::held(of, txn, mode));
                Take::Granted { first: true }
            }
            Entry::Occupied(mut lock) => lock.get_mut().take(txn, mode),
        }
    }

    /// Releases the lock of `txn`, and hands it over. The granted requests are added to `decided`.
    #[inline]
    fn release(&mut self, of: Hashed, txn: TxnId, decided: &mut Vec<Arc<Waiter>>) {
        #[cfg(test)]
        {
            self.operations += 1;
        }
        let place = &mut self.uncontended[place_of(of)];
        match place {
            Some(lock) if lock.of.resource == of.resource => {
                if lock.txn == txn {
                    *place = None;
                }
            }
            _ => self.release_in_table(of, txn, decided),
        }
    }

    #[inline(never)]
    fn release_in_table(&mut self, of: Hashed, txn: TxnId, decided: &mut Vec<Arc<Waiter>>) {
        let Ok(mut entry) = self.table.find_entry(of.hash, of.is_of()) else { return };
        if !entry.get().is_held_alone_by(txn) {
            entry.get_mut().release(txn, decided);
            if !entry.get().is_idle() {
                return;
            }
        }
        entry.remove();
        self.shrink();
    }

    /// Grants a lock whatever others hold. Returns whether the transaction did not hold it before.
    fn force(&mut self, of: Hashed, txn: TxnId, mode: LockMode) -> bool {
        self.contend(of);
        self.entry(of).or_insert_with(|| Lock::new(of)).into_mut().force(txn, mode)
    }

    /// Returns which of these locks are beside the table, and which are in it.
    #[cfg(test)]
    pub(super) fn places<const LEN: usize>(&self, of: [Hashed; LEN]) -> ([bool; LEN], [bool; LEN]) {
        let is_at = |of: Hashed| self.uncontended[place_of(of)].is_some_and(|lock| lock.of.resource == of.resource);
        (of.map(is_at), of.map(|of| self.find(of).is_some()))
    }

    /// Adds the states of all locks to `all`.
    fn states(&self, all: &mut Vec<LockState>) {
        let state = |lock: &UncontendedLock| LockState {
            resource: lock.of.resource,
            holders: vec![(lock.txn, lock.mode)],
            waiters: Vec::new(),
        };
        all.extend(self.uncontended.iter().flatten().map(state));
        all.extend(self.table.iter().map(Lock::state));
    }

    /// Returns the number of locks.
    fn len(&self) -> usize {
        self.table.len() + self.uncontended.iter().flatten().count()
    }

    /// Frees memory after a lock was removed.
    #[inline]
    fn shrink(&mut self) {
        let (len, capacity) = (self.table.len(), self.table.capacity());
        if capacity > SHARD_KEPT && len < capacity / 8 {
            self.table.shrink_to(2 * len, |lock| lock.of.hash);
        }
    }

    /// Changes a lock, and removes it if it is idle afterwards.
    fn change<T>(&mut self, of: Hashed, change: impl FnOnce(&mut Lock) -> T) -> Option<T> {
        #[cfg(test)]
        {
            self.operations += 1;
        }
        let mut entry = self.table.find_entry(of.hash, of.is_of()).ok()?;
        let changed = change(entry.get_mut());
        if entry.get().is_idle() {
            entry.remove();
            self.shrink();
        }
        Some(changed)
    }
}

#[cfg(test)]
impl Default for LockTable {
    fn default() -> LockTable {
        LockTable::with_patience(PATIENCE)
    }
}

impl LockTable {
    pub(super) fn new(policy: WaitPolicy, wait_max: Option<Duration>) -> LockTable {
        LockTable { policy, wait_max, ..LockTable::with_patience(PATIENCE) }
    }

    pub(super) fn with_patience(patience: Duration) -> LockTable {
        LockTable {
            shards: Box::new(std::array::from_fn(|_| Mutex::default())),
            txns: Box::new(std::array::from_fn(|_| Mutex::default())),
            detecting: Mutex::default(),
            waiting: AtomicUsize::new(0),
            counters: Counters::default(),
            patience,
            policy: WaitPolicy::default(),
            wait_max: None,
            has_stopped: Mutex::default(),
        }
    }

    pub(super) fn serves(&self, has_stopped: HasStopped) {
        *self.has_stopped.lock() = Some(has_stopped);
    }

    pub(super) fn shard(&self, of: Hashed) -> &Mutex<Locks> {
        // The hash table inside uses the low and the highest bits; the shard uses those between.
        &self.shards[(of.hash >> 32) as usize % SHARDS]
    }

    fn txns(&self, txn: TxnId) -> &Mutex<Txns> {
        &self.txns[txn.0 as usize % SHARDS]
    }

    /// Acquires a lock, and waits if necessary. With `is_prepared`, it does not wait for transactions for which that
    /// returns `true`.
    pub(super) fn lock(
        &self,
        txn: TxnId,
        resource: Resource,
        mode: LockMode,
        is_prepared: Option<&dyn Fn(TxnId) -> bool>,
    ) -> Result<(), NotGiven> {
        match self.request(txn, resource, mode, is_prepared)? {
            Request::Granted => Ok(()),
            Request::Blocked(waiter) => {
                let mut _is_new = true;
                let began = Instant::now();
                let left = || {
                    self.wait_max.map_or(self.patience, |max| max.saturating_sub(began.elapsed()).min(self.patience))
                };
                while waiter.park(left()) == Outcome::Waiting {
                    if left().is_zero() && self.wait_max.is_some() && !planted!("long_wait_goes_on") {
                        self.refuse(&waiter, || Some(Refusal::Timeout))?;
                        continue;
                    }
                    if std::mem::take(&mut _is_new) {
                        event!(WARN, txn = txn.0, ?resource, ?mode, "a transaction has waited long for a lock");
                    }
                    self.refuse_wait_for_own(&waiter)?;
                    self.refuse_wait_under_latches(&waiter)?;
                    self.refuse_if_stopped(&waiter)?;
                }
                self.end_wait(&waiter)
            }
        }
    }

    /// Acquires locks in this order, as [`lock`](LockTable::lock) does each. Their list is extended once for several of them.
    pub(super) fn lock_all(
        &self,
        txn: TxnId,
        resources: impl Iterator<Item = (Resource, LockMode)>,
        is_prepared: Option<&dyn Fn(TxnId) -> bool>,
    ) -> Result<(), NotGiven> {
        let mut new = NewLocks { table: self, txn, locks: [Hashed::NONE; NEW_LOCKS], count: 0 };
        for (resource, mode) in resources {
            let of = Hashed::new(resource);
            let mut locks = self.shard(of).lock();
            match locks.take(&of, txn, mode) {
                Take::Held => {}
                Take::Granted { first } => {
                    drop(locks);
                    if first {
                        new.add(of);
                    }
                }
                Take::Blocked => {
                    drop(locks);
                    // A search for a cycle must find them, and a transaction that is rolled back during the wait releases them.
                    new.note();
                    self.lock(txn, resource, mode, is_prepared)?;
                }
            }
        }
        Ok(())
    }

    /// Requests a lock. A blocked request is in the queue, and closes no cycle: its thread [waits](Waiter::park), and
    /// then [ends the wait](LockTable::end_wait).
    #[inline]
    pub(super) fn request(
        &self,
        txn: TxnId,
        resource: Resource,
        mode: LockMode,
        is_prepared: Option<&dyn Fn(TxnId) -> bool>,
    ) -> Result<Request, NotGiven> {
        let of = Hashed::new(resource);
        let mut locks = self.shard(of).lock();
        match locks.take(&of, txn, mode) {
            Take::Held => Ok(Request::Granted),
            Take::Granted { first } => {
                drop(locks);
                if first {
                    self.txns(txn).lock().note(txn, of);
                }
                Ok(Request::Granted)
            }
            Take::Blocked => self.block(locks, of, txn, mode, is_prepared),
        }
    }

    /// Adds a request that conflicts to the queue of its lock, or refuses it. Apart from the others, which are short.
    #[cold]
    fn block(
        &self,
        mut locks: MutexGuard<'_, Locks>,
        of: Hashed,
        txn: TxnId,
        mode: LockMode,
        is_prepared: Option<&dyn Fn(TxnId) -> bool>,
    ) -> Result<Request, NotGiven> {
        let lock = locks.find_mut(of).expect("another transaction holds it, or waits for it");
        if let Some(prepared) = is_prepared.and_then(|is| lock.prepared_before(txn, mode, is)) {
            return Err(NotGiven::Prepared(prepared));
        }
        let waiter = lock.enqueue(txn, mode, is_prepared.is_some());
        drop(locks);
        count(&self.counters.blocked, 1);
        // Only waiters behind it in its queue wait for a transaction that holds nothing, and each of them searches
        // itself.
        if self.register(&waiter) {
            self.refuse_by_policy(&waiter)?;
            self.refuse_deadlock(&waiter)?;
        }
        if self.policy == WaitPolicy::WoundWait {
            self.wound_younger(&waiter);
        }
        if waiter.upgrades && !planted!("overtaken_waiter_not_refused") {
            self.refuse_overtaken(&waiter);
        }
        Ok(Request::Blocked(waiter))
    }

    /// Refuses the requests that wait for prepared transactions now because this upgrade has overtaken them, and do not wait for
    /// such transactions.
    fn refuse_overtaken(&self, upgrade: &Waiter) {
        let of = upgrade.of;
        let holders = match self.shard(of).lock().find(of) {
            Some(lock) if lock.has_waiters_unless_prepared() => lock.holders_before(upgrade),
            _ => return,
        };
        let is_prepared = |txn: &TxnId| self.txns(*txn).lock().is_ownerless(*txn);
        holders.into_iter().filter(is_prepared).for_each(|prepared| self.refuse_unless_prepared(of, prepared));
    }

    /// Acquires a lock if that needs no wait.
    pub(super) fn try_lock(&self, txn: TxnId, resource: Resource, mode: LockMode) -> bool {
        let of = Hashed::new(resource);
        let taken = self.shard(of).lock().take(&of, txn, mode);
        if taken == (Take::Granted { first: true }) {
            self.txns(txn).lock().note(txn, of);
        }
        taken != Take::Blocked
    }

    /// Makes a wait visible to searches. Returns whether the transaction holds any lock.
    fn register(&self, waiter: &Arc<Waiter>) -> bool {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut txns = self.txns(waiter.txn).lock();
        txns.waiting.insert(waiter.txn, Arc::clone(waiter));
        txns.held.get(waiter.txn).is_some()
    }

    /// Withdraws a request whose wait would close a cycle.
    fn refuse_deadlock(&self, waiter: &Arc<Waiter>) -> Result<(), Deadlock> {
        self.refuse(waiter, || {
            let mut search = Search::new(self, waiter);
            let found = search.finds_cycle();
            count(&self.counters.searches, 1);
            count(&self.counters.search_steps, search.steps);
            found.then_some(Refusal::Cycle)
        })
    }

    /// Withdraws a request that may not wait by the policy. Its transaction holds locks: without one it may always wait.
    fn refuse_by_policy(&self, waiter: &Arc<Waiter>) -> Result<(), Deadlock> {
        let is = |which: fn(&Held) -> bool| self.txns(waiter.txn).lock().held.get(waiter.txn).is_some_and(which);
        let waits_always = self.policy == WaitPolicy::DetectCycles || planted!("policy_of_waits_ignored");
        if waits_always || is(|held| held.is_patient) {
            return Ok(());
        }
        let is_refused = || match self.policy {
            WaitPolicy::DetectCycles => false,
            WaitPolicy::NoWait => true,
            WaitPolicy::WaitDie => self.holders_before(waiter).iter().any(|holder| holder.0 < waiter.txn.0),
            WaitPolicy::WoundWait => is(|held| held.is_wounded),
        };
        self.refuse(waiter, || is_refused().then_some(Refusal::Policy))
    }

    /// Returns the holders for which a request waits.
    fn holders_before(&self, waiter: &Waiter) -> Vec<TxnId> {
        let shard = self.shard(waiter.of).lock();
        shard.find(waiter.of).map(|lock| lock.holders_before(waiter)).unwrap_or_default()
    }

    /// Lets the younger transactions for which a request waits be refused where they wait, now or later. A prepared one, and one that
    /// is rolled back, end without a wait; and a patient one may wait.
    fn wound_younger(&self, waiter: &Waiter) {
        let mut decided = Vec::new();
        {
            let _detecting = self.detecting.lock();
            for victim in self.holders_before(waiter).into_iter().filter(|holder| holder.0 > waiter.txn.0) {
                let mut txns = self.txns(victim).lock();
                let Some(held) = txns.held.get_mut(victim).filter(|held| held.may_be_refused()) else { continue };
                held.is_wounded = true;
                let waits = txns.waiting.get(&victim).cloned();
                drop(txns);
                let Some(waits) = waits.filter(|_| !planted!("wounded_waiter_waits_on")) else { continue };
                let mut locks = self.shard(waits.of).lock();
                if locks.change(waits.of, |lock| lock.cancel(&waits, &mut decided)) == Some(true) {
                    decided.push(waits);
                }
            }
        }
        self.wake(decided);
    }

    /// Withdraws a request that waits for a transaction of its own thread. That cannot end during the wait, unless it was
    /// moved to another thread since its newest lock.
    #[cold]
    pub(super) fn refuse_wait_for_own(&self, waiter: &Arc<Waiter>) -> Result<(), Deadlock> {
        self.refuse(waiter, || own_transaction_before(self, waiter).map(Refusal::OwnThread))
    }

    /// Withdraws a request that waits under the latches of another transaction's nested top action. Threads that wait for a latch
    /// are in no queue of this table, and one of them may hold the lock.
    #[cold]
    fn refuse_wait_under_latches(&self, waiter: &Arc<Waiter>) -> Result<(), Deadlock> {
        self.refuse(waiter, || {
            latching_txn().filter(|_| !planted!("lock_awaited_under_latches")).map(Refusal::OwnThread)
        })
    }

    /// Withdraws a request if the store has stopped: a transaction that is in doubt, and that no caller holds, never ends then.
    #[cold]
    pub(super) fn refuse_if_stopped(&self, waiter: &Arc<Waiter>) -> Result<(), Deadlock> {
        let has_stopped = self.has_stopped.lock().clone().is_some_and(|has_stopped| has_stopped.now());
        if has_stopped && !planted!("stop_not_noticed_by_waiter") {
            self.refuse(waiter, || Some(Refusal::Cycle))
        } else {
            Ok(())
        }
    }

    /// Withdraws a request if there is a reason.
    fn refuse(&self, waiter: &Arc<Waiter>, reason: impl FnOnce() -> Option<Refusal>) -> Result<(), Deadlock> {
        let mut decided = Vec::new();
        let refused = {
            let _detecting = self.detecting.lock();
            reason().filter(|_| {
                let mut locks = self.shard(waiter.of).lock();
                locks.change(waiter.of, |lock| lock.cancel(waiter, &mut decided)) == Some(true)
            })
        };
        self.wake(decided);
        let Some(refusal) = refused else { return Ok(()) };
        count(&self.counters.deadlocks, 1);
        self.txns(waiter.txn).lock().waiting.remove(&waiter.txn);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Err(Deadlock { refusal, ..Deadlock::new(waiter.txn, waiter.of.resource) })
    }

    /// Completes a wait that was decided; called by the thread that has waited.
    pub(super) fn end_wait(&self, waiter: &Waiter) -> Result<(), NotGiven> {
        let outcome = waiter.outcome();
        let mut txns = self.txns(waiter.txn).lock();
        txns.waiting.remove(&waiter.txn);
        // The store may have rolled the transaction back, and released the lock that this request was to strengthen.
        let first = if planted!("released_upgrade_not_noted") {
            !waiter.upgrades || txns.held.get(waiter.txn).is_none()
        } else {
            outcome == Outcome::Granted { first: true }
        };
        if first && matches!(outcome, Outcome::Granted { .. }) {
            txns.note(waiter.txn, waiter.of);
        }
        drop(txns);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        match outcome {
            Outcome::Prepared(txn) => Err(NotGiven::Prepared(txn)),
            Outcome::Granted { .. } => Ok(()),
            Outcome::Withdrawn => {
                count(&self.counters.deadlocks, 1);
                let refusal = Refusal::Policy;
                Err(Deadlock { refusal, ..Deadlock::new(waiter.txn, waiter.of.resource) }.into())
            }
            Outcome::Waiting => unreachable!("a thread that waits goes on when another decides"),
        }
    }

    fn wake(&self, decided: Vec<Arc<Waiter>>) {
        if decided.is_empty() {
            return;
        }
        let granted = decided.iter().filter(|waiter| matches!(waiter.outcome(), Outcome::Granted { .. })).count();
        count(&self.counters.granted, granted as u64);
        count(&self.counters.wake_ups, decided.len() as u64);
        decided.iter().for_each(Waiter::wake);
    }

    /// Grants a lock unconditionally.
    pub(super) fn grant(&self, txn: TxnId, resource: Resource, mode: LockMode) {
        let of = Hashed::new(resource);
        let first = self.shard(of).lock().force(of, txn, mode);
        let mut txns = self.txns(txn).lock();
        if first {
            txns.note(txn, of);
        }
        txns.set_ownerless(txn);
    }

    /// Notes that a transaction without locks was refused so often by the policy. From a number on it waits.
    pub(super) fn repeats(&self, txn: TxnId, refusals: u32) {
        if refusals >= REFUSALS_MAX && !planted!("refused_transaction_never_waits") {
            let mut txns = self.txns(txn).lock();
            txns.list(txn);
            txns.held.get_mut(txn).expect("it has a list").is_patient = true;
        }
    }

    /// Notes that this thread rolls a transaction back. Another transaction that the undo runs may wait for it.
    pub(super) fn rolls_back(&self, txn: TxnId, ends: bool) {
        if let Some(held) = self.txns(txn).lock().held.get_mut(txn) {
            (held.thread, held.is_rolled_back) = (thread_number(), ends);
        }
    }

    /// Refuses the requests that wait for `txn`, which has prepared, and do not wait for prepared transactions.
    pub(super) fn prepared(&self, txn: TxnId) {
        self.txns(txn).lock().set_ownerless(txn);
        for of in self.list(txn) {
            if planted!("prepared_not_announced")
                || !self.shard(of).lock().find(of).is_some_and(Lock::has_waiters_unless_prepared)
            {
                continue;
            }
            self.refuse_unless_prepared(of, txn);
        }
    }

    /// Refuses the requests for a lock that wait for `prepared`, and do not wait for prepared transactions.
    fn refuse_unless_prepared(&self, of: Hashed, prepared: TxnId) {
        let mut decided = Vec::new();
        {
            let _detecting = self.detecting.lock();
            let mut locks = self.shard(of).lock();
            if let Some(lock) = locks.find_mut(of) {
                lock.refuse_unless_prepared(prepared, &mut decided);
            }
        }
        self.wake(decided);
    }

    fn list(&self, txn: TxnId) -> Vec<Hashed> {
        self.txns(txn).lock().held.get(txn).map(|held| held.locks.clone()).unwrap_or_default()
    }

    /// Returns the locks of a transaction.
    pub(super) fn held_by(&self, txn: TxnId) -> Vec<(Resource, LockMode)> {
        let mode = |of: Hashed| self.shard(of).lock().mode_of(of, txn);
        self.list(txn).into_iter().filter_map(|of| Some((of.resource, mode(of)?))).collect()
    }

    /// Returns the states of all locks, by resource.
    pub(super) fn all(&self) -> Vec<LockState> {
        let mut all = Vec::new();
        self.shards.iter().for_each(|shard| shard.lock().states(&mut all));
        all.sort_unstable_by_key(|state| state.resource);
        all
    }

    /// Releases all locks of a transaction, and hands them over. It may be called from any thread while the transaction
    /// is in no call of its own.
    pub(super) fn release_all(&self, txn: TxnId) {
        let Some(Held { locks: mut list, .. }) = self.txns(txn).lock().held.remove(txn) else { return };
        let mut decided = Vec::new();
        for of in list.drain(..) {
            self.shard(of).lock().release(of, txn, &mut decided);
            if !decided.is_empty() {
                self.wake(std::mem::take(&mut decided));
            }
        }
        if list.capacity() == RESOURCES {
            let spare = &mut self.txns(txn).lock().spare;
            if spare.len() < SPARE {
                spare.push(list);
            }
        }
    }

    /// Returns the request on which a transaction is blocked.
    pub(super) fn waiting(&self, txn: TxnId) -> Option<Arc<Waiter>> {
        self.txns(txn).lock().waiting.get(&txn).cloned()
    }

    /// Returns the thread that has acquired the newest lock of a transaction; 0 if it has none, or has prepared.
    pub(super) fn thread_of(&self, txn: TxnId) -> usize {
        self.txns(txn).lock().held.get(txn).map_or(0, |held| held.thread)
    }

    /// Returns the transactions for which the blocked requests of `thread` wait, and the thread that ends each; 0 for a prepared
    /// one.
    pub(super) fn awaited_by(&self, thread: usize) -> Vec<(TxnId, usize)> {
        let mut awaited = Vec::new();
        for waiter in self.all_waiting().into_iter().filter(|waiter| waiter.thread == thread) {
            let shard = self.shard(waiter.of).lock();
            let lock = shard.find(waiter.of).filter(|_| waiter.outcome() == Outcome::Waiting);
            let holders = lock.map(|lock| lock.holders_before(&waiter)).unwrap_or_default();
            drop(shard);
            let thread_of = |txn| self.waiting(txn).map_or_else(|| self.thread_of(txn), |waiter| waiter.thread);
            awaited.extend(holders.into_iter().map(|txn| (txn, thread_of(txn))));
        }
        awaited
    }

    /// Returns all blocked requests.
    pub(super) fn all_waiting(&self) -> Vec<Arc<Waiter>> {
        let mut all = Vec::new();
        self.txns.iter().for_each(|txns| all.extend(txns.lock().waiting.values().cloned()));
        all
    }

    /// Returns the number of blocked requests; other threads may see changes slightly late.
    pub(super) fn waiting_now(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    pub(super) fn counts(&self) -> LockCounts {
        let Counters { blocked, granted, wake_ups, deadlocks, searches, search_steps } = &self.counters;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LockCounts {
            blocked: load(blocked),
            granted: load(granted),
            wake_ups: load(wake_ups),
            deadlocks: load(deadlocks),
            searches: load(searches),
            search_steps: load(search_steps),
        }
    }

    /// Returns the number of locks for which the table has memory.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().table.capacity()).sum()
    }

    /// Returns the number of locked resources.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}
