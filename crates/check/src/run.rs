//! The workload's interface to a check: performs transactions and enters their effects on the model.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cedrat_heap::{Interrupt, Session, Tx};
use cedrat_media::SimDisk;
use cedrat_sync::{Arc, Limits, schedule, thread};
use cedrat_txn::{Commit, Prepared, Store, Txn};
use cedrat_wal::{Lsn, Ticket};

use crate::history::{Acknowledged, History};
use crate::probe::message_of;
use crate::rng::Rng;
use crate::scenario::{Outcome, Scenario};
use crate::words::difference;

/// Returns whether a transaction lost to another one: a deadlock, or a conflict over heap words.
fn is_worth_retrying(error: &crate::Error) -> bool {
    error.downcast_ref::<cedrat_txn::Error>().is_some_and(cedrat_txn::Error::is_worth_retrying)
}

fn is_deadlock(error: &crate::Error) -> bool {
    matches!(error.downcast_ref::<cedrat_txn::Error>(), Some(cedrat_txn::Error::Deadlock(_)))
}

/// Maximum number of restarts of [`Run::transact`] after a deadlock. Victims alternate, so a workload that needs more has a
/// live lock, which must be reported.
const ATTEMPTS_MAX: usize = 100;

/// One run of a workload: the store, random numbers, and the history of commits.
///
/// Cheap to clone; clones share the history. All methods may be called from any thread.
pub struct Run<S: Scenario> {
    inner: Arc<Inner<S>>,
}

struct Inner<S: Scenario> {
    store: Store,
    disk: Arc<SimDisk>,
    seed: u64,
    // Held for a moment and never across a call into the store, so the seeded scheduler need not know it.
    history: Mutex<History<S::State>>,
    /// Data for the comparison of store and model while the workload runs; `None` if faults are injected.
    watch: Option<Watch<S>>,
    /// Whether threads of [`Run::in_threads`] run: during that time the model never equals the store.
    crowded: AtomicBool,
    script: Arc<Script>,
    /// Limits of the threads of [`Run::in_threads`].
    limits: Limits,
    /// Number of calls of [`Run::in_threads`].
    schedules: AtomicU64,
    /// The first difference seen.
    mismatch: Mutex<Option<String>>,
}

/// Default limits of the threads of a workload. A transaction takes hundreds of steps, and a second hundreds of thousands.
pub(crate) const LIMITS: Limits = Limits { steps_max: 5_000_000, time_max: Duration::from_secs(60) };

/// Transactions that a run leaves out, and the number of those that it has begun.
#[derive(Debug, Default)]
pub(crate) struct Script {
    skipped: BTreeSet<usize>,
    begun: AtomicUsize,
    has_threads: AtomicBool,
}

impl Script {
    pub(crate) fn new(skipped: BTreeSet<usize>) -> Script {
        Script { skipped, ..Script::default() }
    }

    /// Whether threads have run.
    pub(crate) fn has_threads(&self) -> bool {
        self.has_threads.load(Ordering::SeqCst)
    }

    /// Number of transactions so far, skipped ones included; `None` if threads have numbered them in a random order.
    pub(crate) fn transactions(&self) -> Option<usize> {
        (!self.has_threads()).then(|| self.begun.load(Ordering::SeqCst))
    }

    /// Counts a transaction. Returns whether it is to be left out.
    fn skips_next(&self) -> bool {
        self.skipped.contains(&self.begun.fetch_add(1, Ordering::SeqCst))
    }
}

/// Data for reading the state of the store.
pub(crate) struct Watch<S: Scenario> {
    pub(crate) scenario: Arc<S>,
    pub(crate) roots: S::Roots,
}

/// Difference of store and model while the workload runs.
#[derive(Debug)]
pub(crate) struct Mismatch(pub(crate) String);

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mismatch {}

/// Number of commits after each of which store and model are compared; later, comparisons become rarer, so that they do not take
/// quadratic time.
const COMPARED_MAX: usize = 400;

impl<S: Scenario> Clone for Run<S> {
    fn clone(&self) -> Self {
        Run { inner: Arc::clone(&self.inner) }
    }
}

impl<S: Scenario> Run<S> {
    pub(crate) fn new(store: Store, disk: Arc<SimDisk>, seed: u64, start: S::State) -> Run<S> {
        Run::watched(store, disk, seed, start, None, Arc::default(), LIMITS)
    }

    /// Makes a run that compares store and model.
    pub(crate) fn watched(
        store: Store,
        disk: Arc<SimDisk>,
        seed: u64,
        start: S::State,
        watch: Option<Watch<S>>,
        script: Arc<Script>,
        limits: Limits,
    ) -> Run<S> {
        let watch = watch.filter(|watch| watch.scenario.reads_while_running());
        let (history, mismatch) = (Mutex::new(History::new(start)), Mutex::default());
        let (crowded, schedules) = (AtomicBool::new(false), AtomicU64::new(0));
        let inner = Inner { store, disk, seed, history, watch, crowded, script, limits, schedules, mismatch };
        Run { inner: Arc::new(inner) }
    }

    /// Returns the model after all commits so far.
    pub fn model(&self) -> S::State {
        self.history().model().clone()
    }

    fn history(&self) -> MutexGuard<'_, History<S::State>> {
        self.inner.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares store and model, if no transaction is open. `after` describes the last action.
    fn compare(&self, after: &str) -> Outcome {
        let Some(watch) = &self.inner.watch else { return Ok(()) };
        let store = self.store();
        if self.inner.crowded.load(Ordering::SeqCst) || store.running() > 0 || store.log().is_stopped() {
            return Ok(());
        }
        let (commits, expected) = {
            let mut history = self.history();
            let commits = history.commits();
            if commits > COMPARED_MAX && !commits.is_multiple_of(commits / (COMPARED_MAX / 4)) {
                return Ok(());
            }
            (commits, history.model().clone())
        };
        let found = watch.scenario.read(store, &watch.roots)?;
        if found == expected {
            return Ok(());
        }
        let words = format!(
            "without any crash, after {after} ({commits} commits so far), the store holds something else than the model; - in \
             the store, + in the model:{}",
            difference(&found, &expected)
        );
        self.inner.mismatch.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(words.clone());
        Err(Mismatch(words).into())
    }

    /// Returns the first difference between store and model, even if the workload has ignored the error.
    pub(crate) fn mismatch(&self) -> Outcome {
        let words = self.inner.mismatch.lock().unwrap_or_else(PoisonError::into_inner).take();
        words.map_or(Ok(()), |words| Err(Mismatch(words).into()))
    }

    /// The store under test.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The disk under the store, for a workload that breaks it on purpose.
    pub fn disk(&self) -> &SimDisk {
        &self.inner.disk
    }

    /// Returns random numbers for part `part` of the workload (a thread, for example). The same part always gets the same
    /// numbers.
    pub fn rng(&self, part: u64) -> Rng {
        Rng::new(self.inner.seed).part(part)
    }

    /// Performs a transaction and commits it durably.
    ///
    /// `body` changes the store and returns the effect of the change on the model. If it is chosen as the victim of a
    /// deadlock it is rolled back and run again; every other error rolls it back and is returned. When this returns `Ok`, the
    /// commit counts as acknowledged: no crash from here on may lose it.
    ///
    /// # Errors
    /// Those of `body`, of the rollback and of the commit.
    pub fn transact<E>(&self, body: impl FnMut(&mut Txn) -> Outcome<E>) -> Outcome<Lsn>
    where
        E: Fn(&mut S::State) + Send + 'static,
    {
        if self.inner.script.skips_next() {
            return Ok(self.store().log().current_lsn());
        }
        let ticket = self.transact_with(Commit::Sync, body)?;
        self.acknowledge(&ticket)
    }

    /// Like [`Run::transact`], without waiting: a crash may lose the commit, together with all later ones, until
    /// [`Run::acknowledge`] was called with its ticket.
    ///
    /// # Errors
    /// Those of `body`, of the rollback and of the commit.
    pub fn transact_async<E>(&self, body: impl FnMut(&mut Txn) -> Outcome<E>) -> Outcome<Ticket>
    where
        E: Fn(&mut S::State) + Send + 'static,
    {
        if self.inner.script.skips_next() {
            let log = self.store().log();
            return Ok(log.ticket(log.current_lsn()));
        }
        self.transact_with(Commit::Async, body)
    }

    fn transact_with<E>(&self, mode: Commit, mut body: impl FnMut(&mut Txn) -> Outcome<E>) -> Outcome<Ticket>
    where
        E: Fn(&mut S::State) + Send + 'static,
    {
        let mut deadlocks = 0;
        loop {
            let mut txn = self.store().begin();
            let failed = match body(&mut txn) {
                Ok(effect) => match self.commit(txn, mode, effect) {
                    Ok(ticket) => return Ok(ticket),
                    Err(error) => error, // rolled back
                },
                Err(error) => {
                    txn.rollback()?;
                    self.compare("a rollback")?;
                    error
                }
            };
            deadlocks += usize::from(is_deadlock(&failed));
            if !is_worth_retrying(&failed) || deadlocks == ATTEMPTS_MAX {
                return Err(failed);
            }
            thread::yield_now();
        }
    }

    /// Performs a transaction on heaps alone and commits it in `mode`.
    ///
    /// `work` changes heaps and returns the effect on the model. After `Sync`, and after `Partition`, the commit counts as
    /// acknowledged; after `Async` its LSN must be passed to [`Run::acknowledge_lsn`].
    ///
    /// # Errors
    /// Those of the commit, and of `work`, which was rolled back then.
    pub fn on_heaps<E>(
        &self,
        session: &mut Session,
        mode: Commit,
        mut work: impl FnMut(&mut Tx<'_>) -> Result<E, Interrupt>,
    ) -> Outcome<Lsn>
    where
        E: Fn(&mut S::State) + Send + 'static,
    {
        let mut effect = None;
        let done = session.run(mode, |tx| {
            effect = Some(work(tx)?);
            Ok(())
        });
        let effect = effect.map(Box::new);
        let mut history = self.history();
        match (&done, effect) {
            (Ok(done), Some(effect)) => {
                history.committed(done.lsn.get(), done.alone.map(|place| place.partition.0), effect);
            }
            // Only reopening shows whether it was kept.
            (Err(cedrat_heap::Error::Stopped(_)), Some(effect)) => history.unknown(effect),
            _ => {}
        }
        drop(history);
        let done = done?;
        if matches!(mode, Commit::Sync | Commit::Partition) {
            self.inner.disk.mark(Acknowledged::mark(done.lsn.get(), done.alone.is_some()));
        }
        self.compare("a commit on heaps")?;
        Ok(done.lsn)
    }

    /// Like [`Run::acknowledge`], for a commit on heaps.
    ///
    /// # Errors
    /// If the store stopped before.
    pub fn acknowledge_lsn(&self, lsn: Lsn) -> Outcome {
        self.store().memory().is_stable(lsn, true)?;
        self.inner.disk.mark(lsn.get());
        Ok(())
    }

    /// Performs the changes of `body` and rolls them back; the model does not change.
    ///
    /// # Errors
    /// Those of the rollback; `body` may fail, it is rolled back anyway.
    pub fn roll_back<T>(&self, body: impl FnOnce(&mut Txn) -> Outcome<T>) -> Outcome {
        if self.inner.script.skips_next() {
            return Ok(());
        }
        let mut txn = self.store().begin();
        let _ = body(&mut txn);
        txn.rollback()?;
        self.compare("a rollback")
    }

    /// Enters a commit of an interface with transactions of its own: `commit` begins one, commits it without waiting, and
    /// returns its ticket; a commit that it refuses leaves nothing.
    ///
    /// # Errors
    /// Those of `commit`.
    pub fn commits<E>(&self, commit: impl FnOnce() -> cedrat_txn::Result<Ticket>, effect: E) -> Outcome<Ticket>
    where
        E: Fn(&mut S::State) + Send + 'static,
    {
        let before = self.store().log().current_lsn();
        let committed = commit();
        let mut history = self.history();
        match &committed {
            // A commit without changes has the LSN of an older one; its effect belongs to this moment.
            Ok(ticket) => history.committed(ticket.lsn().max(before).get(), None, Box::new(effect)),
            // Only reopening shows whether it was kept.
            Err(cedrat_txn::Error::Stopped(_)) => history.unknown(Box::new(effect)),
            Err(_) => {}
        }
        drop(history);
        let ticket = committed?;
        self.compare("a commit")?;
        Ok(ticket)
    }

    /// Commits `txn` and enters `effect` into the history at the place of its commit record.
    ///
    /// # Errors
    /// Those of the commit.
    pub fn commit<E>(&self, txn: Txn, mode: Commit, effect: E) -> Outcome<Ticket>
    where
        E: Fn(&mut S::State) + Send + 'static,
    {
        let before = self.store().log().current_lsn();
        let committed = txn.commit(Commit::Async);
        // Entered before the wait: a crash may keep a commit that was not acknowledged yet.
        let mut history = self.history();
        match &committed {
            Ok(ticket) => history.committed(ticket.lsn().max(before).get(), None, Box::new(effect)),
            Err(error) if error.is_worth_retrying() => {} // rolled back
            Err(_) => history.unknown(Box::new(effect)),
        }
        drop(history);
        let ticket = committed?;
        if mode == Commit::Sync {
            ticket.wait()?;
        }
        self.compare("a commit")?;
        Ok(ticket)
    }

    /// Enters the effect of a record at `lsn` into the history, if it is neither a commit of [`Run::commit`] nor of heaps
    /// alone, nor the [end](Run::end_prepared) of a prepared transaction: a prepare record.
    pub fn enter<E>(&self, lsn: Lsn, effect: E)
    where
        E: Fn(&mut S::State) + Send + 'static,
    {
        let mut history = self.history();
        history.committed(lsn.get(), None, Box::new(effect));
    }

    /// Ends a prepared transaction: commits it in this mode, or rolls it back if there is none; and enters `effect` into
    /// the history. After a `Sync` commit and after a rollback, the end counts as acknowledged. No other thread may write
    /// log records meanwhile.
    ///
    /// # Errors
    /// Those of the commit or the rollback.
    pub fn end_prepared<E>(&self, prepared: Prepared, mode: Option<Commit>, effect: E) -> Outcome
    where
        E: Fn(&mut S::State) + Send + 'static,
    {
        let log = self.store().log();
        match mode {
            Some(mode) => {
                let ended = prepared.commit(mode);
                let mut history = self.history();
                match &ended {
                    Ok(ticket) => history.committed(ticket.lsn().get(), None, Box::new(effect)),
                    // Only reopening shows whether it was kept.
                    Err(cedrat_txn::Error::Stopped(_)) => history.unknown(Box::new(effect)),
                    Err(_) => {}
                }
                drop(history);
                let ticket = ended?;
                if mode == Commit::Sync {
                    self.mark_acknowledged(ticket.lsn());
                }
            }
            None => {
                // Its first record decides the rollback, whatever becomes of the others (E9.4).
                self.enter(log.current_lsn().next(), effect);
                prepared.rollback()?;
                self.mark_acknowledged(log.current_lsn());
            }
        }
        self.compare("the end of a prepared transaction")
    }

    /// Notes that the store has acknowledged everything up to `lsn` as durable. Does not wait.
    pub fn mark_acknowledged(&self, lsn: Lsn) {
        self.inner.disk.mark(lsn.get());
    }

    /// Waits until the commit of `ticket` is durable, and notes that it is acknowledged.
    ///
    /// # Errors
    /// If the store stopped before.
    pub fn acknowledge(&self, ticket: &Ticket) -> Outcome<Lsn> {
        ticket.wait()?;
        self.inner.disk.mark(ticket.lsn().get());
        Ok(ticket.lsn())
    }

    /// Acknowledges the commit of `ticket` if it is durable already.
    pub fn acknowledge_if_stable(&self, ticket: &Ticket) -> bool {
        let stable = ticket.is_stable();
        if stable {
            self.inner.disk.mark(ticket.lsn().get());
        }
        stable
    }

    /// Runs `body` in `threads` threads at once and waits for all; `body` gets the number of its thread.
    ///
    /// In a build with the feature `scheduler` a seeded scheduler interleaves them, unless the store has threads of its own;
    /// otherwise the operating system does. With one thread, `body` runs in the caller's thread.
    ///
    /// Under the scheduler, threads must wait for one another by the locks of the store or of [`sync`](crate::sync) only.
    ///
    /// # Errors
    /// The first error of a thread, in the order of their numbers; under the scheduler a [`Hang`](crate::Hang), if the threads
    /// deadlock or exceed a limit.
    ///
    /// # Panics
    /// If a thread panicked.
    pub fn in_threads(&self, threads: u64, body: impl Fn(&Run<S>, u64) -> Outcome + Send + Sync + 'static) -> Outcome {
        if threads == 1 {
            return body(self, 0);
        }
        let inner = &self.inner;
        inner.crowded.store(true, Ordering::SeqCst);
        inner.script.has_threads.store(true, Ordering::SeqCst);
        let run = self.clone();
        let work = move || all_at_once(&run, threads, body);
        let ended = match self.store().has_threads() {
            true => Ok(work()),
            false => {
                let call = inner.schedules.fetch_add(1, Ordering::SeqCst);
                schedule(self.rng(SCHEDULES).part(call).next_u64(), inner.limits, work)
            }
        };
        let ended = ended.inspect_err(|_| {
            // Its locks stay locked, so it must never be closed.
            std::mem::forget(self.clone());
        })?;
        inner.crowded.store(false, Ordering::SeqCst);
        for (number, ended) in ended.into_iter().enumerate() {
            ended
                .unwrap_or_else(|panic| panic!("thread {number} of the workload panicked: {}", message_of(&*panic)))?;
        }
        self.compare("the threads of the workload")
    }

    /// Returns the history, at the end of the run.
    pub(crate) fn into_history(self) -> History<S::State> {
        let inner = Arc::into_inner(self.inner).expect("the workload has ended, so no other handle of the run is left");
        inner.history.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of a run's random numbers that seeds its schedules.
const SCHEDULES: u64 = 0x5c4e_d01e;

/// Runs `body` in `threads` threads, and returns how each has ended. A panic is caught in its thread: it would end a schedule.
fn all_at_once<S: Scenario>(
    run: &Run<S>,
    threads: u64,
    body: impl Fn(&Run<S>, u64) -> Outcome + Send + Sync + 'static,
) -> Vec<thread::Result<Outcome>> {
    let body = Arc::new(body);
    let running: Vec<_> = (0..threads)
        .map(|number| {
            let (run, body) = (run.clone(), Arc::clone(&body));
            let work = move || catch_unwind(AssertUnwindSafe(|| body(&run, number)));
            let builder = thread::Builder::new().name(format!("workload {number}"));
            builder.spawn(work).unwrap_or_else(|error| panic!("starting a thread of the workload: {error}"))
        })
        .collect();
    running.into_iter().map(|thread| thread.join().unwrap_or_else(Err)).collect()
}
