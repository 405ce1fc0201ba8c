//! The workload's side of a check: it performs transactions here and says what they meant.

use std::sync::{Mutex, PoisonError};

use cedrat_heap::{Interrupt, Session, Tx};
use cedrat_media::SimDisk;
use cedrat_sync::{Arc, thread};
use cedrat_txn::{Commit, Store, Txn};
use cedrat_wal::{Lsn, Ticket};

use crate::history::{Acknowledged, History};
use crate::rng::Rng;
use crate::scenario::{Outcome, Scenario};

/// Whether a transaction lost to another one: a deadlock, or a conflict over heap words.
fn is_worth_retrying(error: &crate::Error) -> bool {
    error.downcast_ref::<cedrat_txn::Error>().is_some_and(cedrat_txn::Error::is_worth_retrying)
}

fn is_deadlock(error: &crate::Error) -> bool {
    matches!(error.downcast_ref::<cedrat_txn::Error>(), Some(cedrat_txn::Error::Deadlock(_)))
}

/// How often [`Run::transact`] begins again after a deadlock. Victims alternate, so a workload that needs more has a
/// live lock, which is worth hearing about.
const ATTEMPTS_MAX: usize = 100;

/// One run of a workload: the store, chance, and the book in which commits are entered.
///
/// Cheap to clone; clones share the book. All methods may be called from any thread.
pub struct Run<S: Scenario> {
    inner: Arc<Inner<S>>,
}

struct Inner<S: Scenario> {
    store: Store,
    disk: Arc<SimDisk>,
    seed: u64,
    // Held for a moment and never across a call into the store, so the seeded scheduler need not know of it.
    history: Mutex<History<S::State>>,
}

impl<S: Scenario> Clone for Run<S> {
    fn clone(&self) -> Self {
        Run { inner: Arc::clone(&self.inner) }
    }
}

impl<S: Scenario> Run<S> {
    pub(crate) fn new(store: Store, disk: Arc<SimDisk>, seed: u64, start: S::State) -> Run<S> {
        Run { inner: Arc::new(Inner { store, disk, seed, history: Mutex::new(History::new(start)) }) }
    }

    /// The store under test.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The disk under the store, for a workload that breaks something on purpose.
    pub fn disk(&self) -> &SimDisk {
        &self.inner.disk
    }

    /// Chance of its own for part `part` of the workload (a thread, say). The same part gets the same chance again.
    pub fn rng(&self, part: u64) -> Rng {
        Rng::new(self.inner.seed).part(part)
    }

    /// Performs a transaction and commits it durably.
    ///
    /// `body` changes the store and returns what the change means for the model. If it is chosen as the victim of a
    /// deadlock it is rolled back and run again; every other error rolls it back and is returned. When this returns
    /// `Ok`, the commit counts as acknowledged: no crash from here on may lose it.
    ///
    /// # Errors
    /// Those of `body`, of the rollback and of the commit.
    pub fn transact<E>(&self, body: impl FnMut(&mut Txn) -> Outcome<E>) -> Outcome<Lsn>
    where
        E: Fn(&mut S::State) + Send + 'static,
    {
        let ticket = self.transact_with(Commit::Sync, body)?;
        self.acknowledge(&ticket)
    }

    /// As [`Run::transact`], without waiting: the commit may be lost by a crash, together with all after it, until
    /// [`Run::acknowledge`] was called with its ticket.
    ///
    /// # Errors
    /// Those of `body`, of the rollback and of the commit.
    pub fn transact_async<E>(&self, body: impl FnMut(&mut Txn) -> Outcome<E>) -> Outcome<Ticket>
    where
        E: Fn(&mut S::State) + Send + 'static,
    {
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
    /// `work` changes heaps and returns what that means for the model. After `Sync`, and after `Partition`, the commit counts
    /// as acknowledged; after `Async` its LSN is to be given to [`Run::acknowledge_lsn`].
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
        let mut history = self.inner.history.lock().unwrap_or_else(PoisonError::into_inner);
        match (&done, effect) {
            (Ok(done), Some(effect)) => {
                history.committed(done.lsn.get(), done.alone.map(|place| place.partition.0), effect);
            }
            // Whether it was kept, only reopening tells.
            (Err(cedrat_heap::Error::Stopped(_)), Some(effect)) => history.unknown(effect),
            _ => {}
        }
        drop(history);
        let done = done?;
        if matches!(mode, Commit::Sync | Commit::Partition) {
            self.inner.disk.mark(Acknowledged::mark(done.lsn.get(), done.alone.is_some()));
        }
        Ok(done.lsn)
    }

    /// As [`Run::acknowledge`], for a commit on heaps.
    ///
    /// # Errors
    /// If the store stopped before.
    pub fn acknowledge_lsn(&self, lsn: Lsn) -> Outcome {
        self.store().memory().is_stable(lsn, true)?;
        self.inner.disk.mark(lsn.get());
        Ok(())
    }

    /// Performs the changes of `body` and takes them back again; the model must not notice.
    ///
    /// # Errors
    /// Those of the rollback; `body` may fail, it is rolled back anyway.
    pub fn roll_back<T>(&self, body: impl FnOnce(&mut Txn) -> Outcome<T>) -> Outcome {
        let mut txn = self.store().begin();
        let _ = body(&mut txn);
        txn.rollback()?;
        Ok(())
    }

    /// Enters what a face commits in transactions of its own: `commit` begins one, commits it without waiting, and returns its
    /// ticket; of one that it refuses nothing is left.
    ///
    /// # Errors
    /// Those of `commit`.
    pub fn commits<E>(&self, commit: impl FnOnce() -> cedrat_txn::Result<Ticket>, effect: E) -> Outcome<Ticket>
    where
        E: Fn(&mut S::State) + Send + 'static,
    {
        let committed = commit();
        let mut history = self.inner.history.lock().unwrap_or_else(PoisonError::into_inner);
        match &committed {
            Ok(ticket) => history.committed(ticket.lsn().get(), None, Box::new(effect)),
            // Whether it was kept, only reopening tells.
            Err(cedrat_txn::Error::Stopped(_)) => history.unknown(Box::new(effect)),
            Err(_) => {}
        }
        drop(history);
        Ok(committed?)
    }

    /// Commits `txn` and enters `effect` into the book at the place of its commit record.
    ///
    /// # Errors
    /// Those of the commit.
    pub fn commit<E>(&self, txn: Txn, mode: Commit, effect: E) -> Outcome<Ticket>
    where
        E: Fn(&mut S::State) + Send + 'static,
    {
        let committed = txn.commit(Commit::Async);
        // Entered before anybody waits: a crash may keep a commit that nobody has heard of yet.
        let mut history = self.inner.history.lock().unwrap_or_else(PoisonError::into_inner);
        match &committed {
            Ok(ticket) => history.committed(ticket.lsn().get(), None, Box::new(effect)),
            Err(error) if error.is_worth_retrying() => {} // rolled back
            Err(_) => history.unknown(Box::new(effect)),
        }
        drop(history);
        let ticket = committed?;
        if mode == Commit::Sync {
            ticket.wait()?;
        }
        Ok(ticket)
    }

    /// Enters into the book what a record at `lsn` does to the model, one that is neither a commit of [`Run::commit`] nor of
    /// heaps alone: a prepare record, the commit of what was prepared, the first record of its rollback.
    pub fn enter<E>(&self, lsn: Lsn, effect: E)
    where
        E: Fn(&mut S::State) + Send + 'static,
    {
        let mut history = self.inner.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.committed(lsn.get(), None, Box::new(effect));
    }

    /// Holds the store to what was just told: everything up to `lsn` is durable. It is not waited for.
    pub fn was_told(&self, lsn: Lsn) {
        self.inner.disk.mark(lsn.get());
    }

    /// Waits until the commit of `ticket` is durable, and holds the store to it from here on.
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

    /// Runs `body` in `threads` threads at once and waits for all; `body` is told the number of its thread.
    ///
    /// In an ordinary build these are threads of the operating system; in a build with `--cfg cedrat_shuttle` the
    /// seeded scheduler interleaves them. With one thread, `body` runs on the caller's.
    ///
    /// # Errors
    /// The first error of a thread, in the order of their numbers.
    ///
    /// # Panics
    /// If a thread panicked.
    pub fn in_threads(&self, threads: u64, body: impl Fn(&Run<S>, u64) -> Outcome + Send + Sync + 'static) -> Outcome {
        if threads == 1 {
            return body(self, 0);
        }
        let body = Arc::new(body);
        let running: Vec<_> = (0..threads)
            .map(|number| {
                let (run, body) = (self.clone(), Arc::clone(&body));
                thread::spawn(move || body(&run, number))
            })
            .collect();
        let outcomes: Vec<Outcome> =
            running.into_iter().map(|thread| thread.join().expect("a thread of the workload panicked")).collect();
        outcomes.into_iter().collect()
    }

    /// The book, at the end of the run.
    pub(crate) fn into_history(self) -> History<S::State> {
        let inner = Arc::into_inner(self.inner).expect("the workload has ended, so nobody else has the run");
        inner.history.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
