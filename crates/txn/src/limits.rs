//! Limits of running transactions, and the rollback of those that exceed them (E16.3).
//!
//! A transaction holds the log from its first record on, whether it is active or idle. One that holds more than its
//! limit, or is older than its limit, is rolled back: by the store if no call of its owner runs, else by its owner.
//! Each transaction is measured separately. Prepared transactions have no limit: their records are carried forward
//! instead (E9.5).

use std::fmt;
use std::time::{Duration, Instant};

use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cedrat_sync::thread::{self, ThreadId};
use cedrat_sync::{Arc, Condvar, Mutex, planted};
use cedrat_wal::{LogFull, Lsn};

use crate::checkpoint::StandIn;
use crate::claim::{Claim, Excess};
use crate::error::{Error, Result};
use crate::holder::Holders;
use crate::nested::{Identity, holds_latches};
use crate::options::Options;
use crate::store::{Inner, Store};
use crate::table::Entry;
use crate::transaction::Txn;

/// The source of time for [`Options::txn_time_limit`]. Tests supply one that they advance themselves.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the time since some fixed moment. Never decreases.
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The limits of a store's transactions.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Bytes of log that one transaction may hold.
    bytes: u64,
    /// Bytes of log above which a prepared transaction is carried forward.
    carry: u64,
    time: Option<Duration>,
    clock: Arc<dyn Clock>,
    /// The number of written log bytes at which transactions are measured next.
    due_at: AtomicU64,
    is_due: AtomicBool,
    rolling_back: RollingBack,
    /// Transactions that have only locks; `None` without a time limit.
    holders: Option<Holders>,
}

/// Rollbacks by the store, of one thread at a time, unless an undo runs another transaction. A thread that finds the log full
/// waits for the rollback by another thread, which may make room; no waiting thread has a latch.
#[derive(Debug, Default)]
struct RollingBack {
    /// Whether a thread rolls back: most transactions begin while none does.
    is_running: AtomicBool,
    by: Mutex<Vec<Roller>>,
    changed: Condvar,
}

/// A thread that rolls back.
#[derive(Debug)]
struct Roller {
    thread: ThreadId,
    /// Whether it is one of the store's own threads, on which others rely to measure transactions.
    is_checkpointer: bool,
    /// An undo has begun another transaction, which may need what a waiting transaction has locked: nothing waits any more.
    is_in_another: bool,
    /// Measures transactions meanwhile.
    stand_in: Option<StandIn>,
}

/// Numbers of the transactions that the store has rolled back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RolledBack {
    /// Transactions that had records.
    changed: usize,
    /// Transactions that had only locks.
    readers: usize,
}

impl RolledBack {
    /// Whether a checkpoint can release log that they held.
    pub(crate) fn has_freed_log(self) -> bool {
        self.changed > 0 || self.readers > 0 && planted!("checkpoint_after_released_locks")
    }
}

/// The right to roll back. Drop passes it on.
struct Turn<'a>(&'a RollingBack);

impl RollingBack {
    /// Waits for the right to roll back. `None` if this thread rolls back already, in an undo that runs another transaction; or
    /// if such an undo of another thread may wait for a lock of the caller (`has_locks`).
    fn begin(&self, has_locks: bool, is_checkpointer: bool) -> Option<Turn<'_>> {
        let thread = thread::current().id();
        let mut by = self.by.lock();
        loop {
            if by.iter().any(|roller| roller.thread == thread) {
                return None;
            }
            let is_blocked = |roller: &Roller| roller.is_in_another && !planted!("blocked_undo_awaited");
            if (has_locks || planted!("rollbacks_behind_blocked_undo")) && by.iter().any(is_blocked) {
                return None;
            }
            // An undo that is blocked may wait for a transaction whose rollback is due as well.
            if by.iter().all(is_blocked) {
                by.push(Roller { thread, is_checkpointer, is_in_another: false, stand_in: None });
                self.is_running.store(true, Ordering::Relaxed);
                return Some(Turn(self));
            }
            self.changed.wait(&mut by);
        }
    }

    /// Notes that a transaction begins, perhaps in an undo of a thread that rolls back.
    #[cold]
    fn transaction_begins(&self, inner: &Arc<Inner>) {
        let thread = thread::current().id();
        let is_this = |roller: &&mut Roller| roller.thread == thread;
        let needs_stand_in = match self.by.lock().iter_mut().find(is_this) {
            Some(roller) => !std::mem::replace(&mut roller.is_in_another, true) && roller.is_checkpointer,
            None => return,
        };
        self.changed.notify_all();
        if needs_stand_in && !planted!("blocked_checkpointer_alone") {
            // Not under the mutex: a failure stops the store, which wakes others.
            let stand_in = StandIn::start(inner);
            if let Some(roller) = self.by.lock().iter_mut().find(is_this) {
                roller.stand_in = stand_in;
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let thread = thread::current().id();
        let mut by = self.0.by.lock();
        by.retain(|roller| roller.thread != thread);
        self.0.is_running.store(!by.is_empty(), Ordering::Relaxed);
        drop(by);
        self.0.changed.notify_all();
    }
}

impl Limits {
    pub(crate) fn of(options: &Options) -> Limits {
        let bytes = options.txn_log_limit_bytes.unwrap_or(options.log_limit_bytes / 2).max(1);
        Limits {
            bytes,
            carry: options.carry_forward_bytes.unwrap_or(bytes / 4),
            time: options.txn_time_limit,
            clock: Arc::clone(&options.clock),
            due_at: AtomicU64::new(bytes / 4),
            is_due: AtomicBool::new(false),
            rolling_back: RollingBack::default(),
            holders: options.txn_time_limit.map(|_| Holders::default()),
        }
    }

    /// Returns the time at which a transaction enters; zero without a time limit, to save the call of the clock.
    #[inline]
    pub(crate) fn now(&self) -> Duration {
        if self.time.is_some() { self.clock.now() } else { Duration::ZERO }
    }

    /// Returns the time since a transaction has entered; `None` without a time limit.
    pub(crate) fn age(&self, entered: Duration) -> Option<Duration> {
        self.time.map(|_| self.clock.now().saturating_sub(entered))
    }

    /// Returns the transactions that have only locks, if their time has a limit.
    #[inline]
    pub(crate) fn holders(&self) -> Option<&Holders> {
        self.holders.as_ref()
    }

    /// Notes that a transaction begins.
    #[inline]
    pub(crate) fn transaction_begins(&self, inner: &Arc<Inner>) {
        // This thread has set it, if it runs an undo of such a rollback.
        if self.rolling_back.is_running.load(Ordering::Relaxed) {
            self.rolling_back.transaction_begins(inner);
        }
    }

    /// Returns the bytes of log that a prepared transaction may hold.
    pub(crate) fn carry_bytes(&self) -> u64 {
        self.carry
    }

    /// Returns the interval at which transactions are measured while nothing is written.
    pub(crate) fn period(&self) -> Option<Duration> {
        self.time.map(|time| (time / 4).max(Duration::from_millis(1)))
    }

    /// Notes the bytes of log written since the opening. Returns whether transactions must be measured now.
    #[inline]
    pub(crate) fn note(&self, written: u64) -> bool {
        let is_due = written >= self.due_at.load(Ordering::Relaxed);
        if is_due {
            self.due_at.store(written.saturating_add((self.bytes / 4).max(1)), Ordering::Relaxed);
            self.is_due.store(true, Ordering::Relaxed);
        }
        is_due
    }

    /// Whether a measurement of transactions is due; clears the request.
    #[inline]
    pub(crate) fn take_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed) && self.is_due.swap(false, Ordering::Relaxed)
    }
}

impl Store {
    /// Rolls back each transaction that is over a [limit](Options::txn_log_limit_bytes), unless a call of its owner
    /// runs; that call rolls it back at its end. Within a [nested top action](Txn::nested) nothing is rolled back: that is
    /// left to the next thread that holds no latches. Returns the number of transactions rolled back. The next checkpoint
    /// releases the log that they held.
    ///
    /// The store calls this whenever a certain amount of log was written, and when the log is full.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn enforce_limits(&self) -> Result<usize> {
        self.roll_back_over_limit(None, false).map(|RolledBack { changed, readers }| changed + readers)
    }

    /// Enforces the limits if that was postponed until no latch is held. The caller's transaction has its outcome, so no error
    /// is returned: a rollback of another transaction that fails stops the store, and the next call reports that.
    #[inline]
    pub(crate) fn measure_if_due(&self) {
        if self.inner.limits.take_due() && !self.inner.checkpoints.has_thread() {
            let _ = self.enforce_limits();
        }
    }

    /// As [`enforce_limits`](Store::enforce_limits), and treats `also` as over its limit, whatever it holds. `has_locks`: the
    /// caller's own transaction may hold some.
    pub(crate) fn roll_back_over_limit(&self, also: Option<&Arc<Entry>>, has_locks: bool) -> Result<RolledBack> {
        self.inner.alive()?;
        if holds_latches() && !planted!("rolled_back_under_other_latches") {
            // An undo might need one of them, and this thread would wait for itself.
            self.inner.doom_over_limit(also);
            return Ok(RolledBack::default());
        }
        let limits = &self.inner.limits;
        let Some(_turn) = limits.rolling_back.begin(has_locks, self.is_a_threads()) else {
            // The caller may be the only one that notices a full log: it measures when it has released its locks.
            if has_locks && !planted!("full_log_not_measured_later") {
                self.inner.measure_later();
            }
            return Ok(RolledBack::default());
        };
        limits.is_due.store(false, Ordering::Relaxed);
        let over = self.inner.over_limit_and(also);
        let readers = self.inner.release_readers_over_limit();
        let mut changed = 0;
        for (entry, excess) in over {
            entry.claim.doom(excess);
            if !planted!("idle_transaction_kept") && entry.claim.take() {
                Txn::taken(self.clone(), entry).roll_back()?;
                changed += 1;
            }
        }
        Ok(RolledBack { changed, readers })
    }
}

impl Inner {
    /// Returns the transactions over a limit, oldest first.
    fn over_limit(&self) -> Vec<(Arc<Entry>, Excess)> {
        let limits = &self.limits;
        let now = limits.now();
        let mut is_over = true;
        let mut over = Vec::new();
        for entry in self.table.all(|entry| !entry.is_prepared()) {
            let age = now.saturating_sub(entry.entered);
            // Younger transactions hold less.
            let kept = if is_over { Some(self.kept_by(entry.kept_from())) } else { None };
            is_over = matches!(kept, Some(Excess::Bytes { pinned, limit }) if pinned > limit);
            match (kept, limits.time) {
                (Some(kept), _) if is_over => over.push((entry, kept)),
                (_, Some(limit)) if age > limit && !planted!("age_not_measured") => {
                    over.push((entry, Excess::Time { age, limit }))
                }
                (_, Some(_)) => {}
                (_, None) => break,
            }
        }
        over
    }

    /// Rolls back the transactions that have only locks, and have had them for too long. Returns their number.
    fn release_readers_over_limit(&self) -> usize {
        let (Some(holders), Some(limit)) = (self.limits.holders(), self.limits.time) else { return 0 };
        let taken = holders.take_older(self.limits.now(), limit);
        taken.iter().for_each(|&id| self.locks.ended(id));
        taken.len()
    }

    fn over_limit_and(&self, also: Option<&Arc<Entry>>) -> Vec<(Arc<Entry>, Excess)> {
        let mut over = self.over_limit();
        if let Some(also) = also
            && !over.iter().any(|(entry, _)| entry.id == also.id)
        {
            over.push((Arc::clone(also), self.kept_by(also.kept_from())));
        }
        over
    }

    /// Dooms the transactions over their limits, and `also`. The store rolls them back on the next thread that holds no
    /// latch.
    pub(crate) fn doom_over_limit(&self, also: Option<&Arc<Entry>>) {
        for (entry, excess) in self.over_limit_and(also) {
            entry.claim.doom(excess);
        }
        self.measure_later();
    }

    /// Lets the checkpointer measure transactions, or the next thread at the end of its transaction.
    fn measure_later(&self) {
        self.limits.is_due.store(true, Ordering::Relaxed);
        self.checkpoints.ask_for_limits();
    }

    fn kept_by(&self, first: Lsn) -> Excess {
        Excess::Bytes { pinned: self.log.bytes_since(first).0, limit: self.limits.bytes }
    }
}

impl Inner {
    /// Adds to the error of a full log what keeps the log.
    pub(crate) fn explain_full(&self, error: Error) -> Error {
        match error {
            Error::LogFull { full, oldest: None, checkpoint: None } => {
                let checkpoint = self.truncation_failure().map(|failed| failed.why);
                Error::LogFull { full, oldest: self.table.oldest().map(|entry| entry.id), checkpoint }
            }
            other => other,
        }
    }
}

impl Txn {
    /// Adopts a transaction that the store has taken from its owner, who can no longer access it.
    fn taken(store: Store, entry: Arc<Entry>) -> Txn {
        let mut txn = Txn::new(store, entry.id);
        let (last, reservation) = entry.claim.left();
        let deposit = std::mem::take(&mut *entry.claim.deposit.lock());
        txn.cursor.reservation = Some(txn.inner().log.adopt_reservation(reservation));
        (txn.cursor.last, txn.freed, txn.deferred) = (last, deposit.freed, deposit.deferred);
        txn.entry = Some(entry);
        txn.calls = 1;
        txn
    }

    /// Handles a log in which no checkpoint has made room: rolls back the transactions that hold it beyond the limit,
    /// or else the oldest, and tries once more.
    #[cold]
    pub(crate) fn log_is_full(&mut self, full: LogFull, forward: u64, undo: u64) -> Result<()> {
        let failed = self.inner().truncation_failure();
        // While checkpoints fail, the end of a transaction releases no log; the caller receives the reason for the
        // failure.
        let is_its_fault = failed.as_ref().is_none_or(|failed| failed.wanted_log);
        if is_its_fault && matches!(full, LogFull::Limit { .. }) {
            let may_roll_back = self.may_roll_back_now();
            let oldest = self.inner().table.oldest_but(Entry::is_prepared);
            if may_roll_back {
                self.store.roll_back_over_limit(oldest.as_ref(), true)?;
            } else if oldest.is_some() {
                // Nothing is rolled back under a latch: its undo might need that latch.
                self.inner().doom_over_limit(oldest.as_ref());
            }
            if self.entry.as_ref().is_some_and(|entry| entry.claim.is_doomed()) {
                return Err(self.obey());
            }
            if may_roll_back {
                self.inner().free_log_space();
                if self.reserve(forward, undo).is_ok() {
                    return Ok(());
                }
            }
        }
        Err(self.inner().explain_full(Error::LogFull { full, oldest: None, checkpoint: None }))
    }

    /// Begins a call that changes the transaction (E16.8).
    #[inline]
    pub(crate) fn begin_call(&mut self) -> Result<()> {
        if self.calls == 0
            && let Some(claim) = self.claim()
        {
            if !claim.begin_call() {
                return Err(self.lost());
            }
            if self.has_deposit {
                self.take_deposit();
            }
        }
        self.calls += 1;
        Ok(())
    }

    /// Ends a call: from now on the store may take the transaction.
    #[inline]
    pub(crate) fn end_call(&mut self) {
        self.calls -= 1;
        if self.calls > 0 {
            return;
        }
        let Some(entry) = &self.entry else {
            if let Some(holder) = self.holder.get() {
                holder.claim.end_call(None, cedrat_wal::Outstanding::default());
            }
            return;
        };
        if self.deferred.is_any() || !self.freed.is_empty() {
            // Exchanged with empty ones, both times: nothing has to be dropped.
            let deposit = &mut *entry.claim.deposit.lock();
            std::mem::swap(&mut deposit.freed, &mut self.freed);
            std::mem::swap(&mut deposit.deferred, &mut self.deferred);
            self.has_deposit = true;
        }
        let reservation =
            self.cursor.reservation.as_ref().map_or_else(Default::default, cedrat_wal::Reservation::outstanding);
        entry.claim.end_call(self.cursor.last, reservation);
    }

    #[cold]
    fn take_deposit(&mut self) {
        let entry = self.entry.as_ref().expect("it has left something there");
        let deposit = &mut *entry.claim.deposit.lock();
        std::mem::swap(&mut deposit.freed, &mut self.freed);
        std::mem::swap(&mut deposit.deferred, &mut self.deferred);
        self.has_deposit = false;
    }

    /// Runs `work` as one call: the store does not roll the transaction back before `work` has ended.
    ///
    /// # Errors
    /// Those of `work`; [`Error::PinsLog`], [`Error::TimeLimit`] if the store has rolled the transaction back.
    #[inline]
    pub(crate) fn in_call<T>(&mut self, work: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> {
        self.begin_call()?;
        let call = InCall { of: self.identity(), txn: self };
        work(call.txn)
    }

    /// As [`in_call`](Txn::in_call), where the transaction may be rolled back at its end: the caller holds no latch.
    #[inline]
    pub(crate) fn as_last_step<T>(&mut self, work: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> {
        let done = self.in_call(work)?;
        if self.calls == 0
            && let Some(entry) = &self.entry
            && entry.claim.is_doomed()
        {
            self.obey_at_end()?;
        }
        Ok(done)
    }

    /// Rolls back at the end of a call in which the transaction was doomed.
    #[cold]
    fn obey_at_end(&mut self) -> Result<()> {
        if self.may_roll_back_now() {
            self.begin_call()?;
            let error = self.obey();
            self.calls -= 1;
            return Err(error);
        }
        Ok(())
    }

    /// Handles a transaction that the store has rolled back or is about to: drops the state that now belongs to the
    /// store.
    #[cold]
    pub(crate) fn lost(&mut self) -> Error {
        self.mark_ended();
        if let Some(reservation) = self.cursor.reservation.take() {
            reservation.abandon();
        }
        drop(self.heap.take());
        self.over_limit_error()
    }

    /// Whether the store has taken the transaction.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        self.claim().is_some_and(Claim::is_taken)
    }

    /// Checks that the store has not taken the transaction; called after reading something that its locks protect.
    #[inline]
    pub(crate) fn still_isolated(&self) -> Result<()> {
        if self.is_taken() && self.calls == 0 { Err(self.over_limit_error()) } else { Ok(()) }
    }

    /// Checks a newly granted lock. If the store has rolled the transaction back meanwhile, this call must release the
    /// lock.
    #[inline]
    pub(crate) fn keeps_lock(&self) -> Result<()> {
        if self.is_taken() && self.calls == 0 { Err(self.lost_lock()) } else { Ok(()) }
    }

    /// Releases a lock that was granted after the rollback. During the rollback no lock is released: others would change
    /// what is not undone yet.
    #[cold]
    fn lost_lock(&self) -> Error {
        let is_undone = self.claim().is_none_or(Claim::is_undone);
        if is_undone || planted!("locks_released_before_undo") {
            self.inner().locks.ended(self.id);
        }
        self.over_limit_error()
    }

    /// Returns the error for the limit that was exceeded.
    #[cold]
    pub(crate) fn over_limit_error(&self) -> Error {
        let first = self.entry.as_ref().map_or(Lsn::ZERO, |entry| entry.kept_from());
        let txn = self.id;
        match self.claim().and_then(Claim::excess) {
            Some(Excess::Time { age, limit }) => Error::TimeLimit { txn, age, limit },
            Some(Excess::Bytes { pinned, limit }) => {
                Error::PinsLog { txn, first, pinned_bytes: pinned, limit_bytes: limit }
            }
            None => {
                let pinned_bytes = self.inner().log.bytes_since(first).0;
                Error::PinsLog { txn, first, pinned_bytes, limit_bytes: self.inner().limits.bytes }
            }
        }
    }
}

/// A running call. Drop ends it, also after a panic.
struct InCall<'t> {
    txn: &'t mut Txn,
    of: Identity,
}

impl Drop for InCall<'_> {
    fn drop(&mut self) {
        // If the call has put another transaction into its place, the call of this one never ends, and the store does not take
        // it.
        if self.txn.identity() == self.of {
            self.txn.end_call();
        }
    }
}
