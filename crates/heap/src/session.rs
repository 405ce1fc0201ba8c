//! Sessions: state that a thread keeps from one transaction to the next, and the loop that runs a transaction until it
//! commits.

use std::fmt;
use std::time::Instant;

use cedrat_sync::atomic::Ordering;
use cedrat_sync::{spin_hint, thread};
use cedrat_wal::{Lsn, Position};

use crate::commit::Committed;
use crate::error::{Error, Interrupt, InterruptCause, Result};
use crate::memory::{Memory, Shared};
use crate::options::Commit;
use crate::slots::Slot;
use crate::tx::{Descriptor, Tx};

/// Outcome of a committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done<T> {
    /// Result of the work.
    pub value: T,
    /// The LSN that the transaction depends on: once it is stable ([`Memory::is_stable`]), so are the transaction and
    /// everything that it read. If the transaction wrote something, it is the LSN of its commit or a later one.
    pub lsn: Lsn,
    /// Position of the record of a `Partition` commit. `None` if the commit was made `Sync` because it depended on others,
    /// and for all other commits.
    pub alone: Option<Position>,
}

/// A thread's session in a memory: buffers, a slot that other transactions read, a partition of the log.
///
/// It belongs to one thread at a time and may be moved to another. A new session gets the partition of the log with the
/// fewest others: a few sessions are each in their own.
pub struct Session {
    memory: Memory,
    descriptor: Option<Box<Descriptor>>,
}

impl Session {
    pub(crate) fn new(memory: Memory, descriptor: Box<Descriptor>) -> Session {
        Session { memory, descriptor: Some(descriptor) }
    }

    /// Returns the memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Runs `work` in a transaction and commits it. Returns when `mode` requires.
    ///
    /// After a conflict `work` runs again, at first immediately, then after increasing waits, so it should change nothing
    /// but heaps. If it fails, or panics, everything that it wrote, allocated or freed is rolled back.
    ///
    /// A transaction that `work` itself runs is independent and commits whatever the outcome of this one. If it changes a
    /// word that this one has read, this one meets a conflict each time that it runs, and never ends. With
    /// [`Locking::EncounterTime`](crate::Locking::EncounterTime) it fails with [`Error::Misuse`] where it needs a word that
    /// this one has written, or another transaction of its thread ([`Held`](crate::Held)).
    ///
    /// # Errors
    /// Those of `work`. [`Error::LogFull`]: rolled back. [`Error::Misuse`]: a word that it needs is locked by a transaction that
    /// waits for another one of this thread ([`Locking`](crate::Locking)). [`Error::Stopped`]: only reopening the store shows whether the
    /// commit was kept.
    #[inline]
    pub fn run<T>(
        &mut self,
        mode: Commit,
        mut work: impl FnMut(&mut Tx<'_>) -> Result<T, Interrupt>,
    ) -> Result<Done<T>> {
        let shared = self.memory.shared();
        let descriptor = self.descriptor.as_mut().expect("a session has its descriptor until it is dropped");
        let (mut attempt, mut repetition) = (0, None);
        let (value, committed) = loop {
            shared.clock.running()?;
            let mut tx = Tx::begin(shared, descriptor);
            let interrupt = match work(&mut tx) {
                Ok(value) => match tx.commit(mode) {
                    Ok(committed) => {
                        std::mem::forget(tx); // the transaction holds nothing any more
                        break (value, committed);
                    }
                    Err(interrupt) => interrupt,
                },
                Err(interrupt) => interrupt,
            };
            interrupted(tx, interrupt)?;
            attempt += 1;
            repetition.get_or_insert_with(|| Repetition::begin(shared, descriptor));
            back_off(descriptor, attempt);
        };
        drop(repetition);
        wait_for(shared, mode, &committed)?;
        Ok(Done { value, lsn: committed.up_to, alone: committed.position })
    }

    /// Runs [`Session::run`] with [`Commit::Sync`] and returns the value alone.
    ///
    /// # Errors
    /// Those of [`Session::run`].
    pub fn atomically<T>(&mut self, work: impl FnMut(&mut Tx<'_>) -> Result<T, Interrupt>) -> Result<T> {
        Ok(self.run(Commit::Sync, work)?.value)
    }

    /// Lends the memory and the descriptor to a batch.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&Shared, &mut Descriptor) {
        let descriptor = self.descriptor.as_mut().expect("a session has its descriptor until it is dropped");
        (self.memory.shared(), descriptor)
    }
}

/// Repeated attempts of one transaction, in one call. Dropping it ends them.
pub(crate) struct Repetition<'m>(&'m Slot);

impl<'m> Repetition<'m> {
    #[cold]
    pub(crate) fn begin(shared: &'m Shared, descriptor: &Descriptor) -> Repetition<'m> {
        let slot = shared.slots.slot(descriptor.number);
        slot.repeats(Instant::now(), None);
        Repetition(slot)
    }
}

impl Drop for Repetition<'_> {
    fn drop(&mut self) {
        self.0.ends_repetition();
    }
}

/// Handles an interrupt of a transaction's work or commit; returns if the work is to run again.
#[cold]
pub(crate) fn interrupted(mut tx: Tx<'_>, interrupt: Interrupt) -> Result<()> {
    match interrupt.cause() {
        None => {
            tx.shared.counters.conflicts.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Some(InterruptCause::Retry) => {
            tx.let_writes_go();
            if !tx.has_read() {
                return Err(Error::Misuse(
                    "cannot wait: the transaction has read nothing, so no commit would wake it; read before Interrupt::retry",
                ));
            }
            tx.shared.wait_for_change(&tx);
            Ok(())
        }
        Some(InterruptCause::Failed(error)) => Err(error),
    }
}

/// Waits as long as the commit mode requires.
#[inline]
pub(crate) fn wait_for(shared: &Shared, mode: Commit, committed: &Committed) -> Result<()> {
    let Some(log) = shared.clock.log() else { return Ok(()) };
    match (mode, committed.position) {
        // After a stop memory is ahead of the disk, and none of it may be returned (E16.5).
        (Commit::Async | Commit::NoFlush, _) => shared.clock.running()?,
        (Commit::Partition, Some(position)) => log.force_partition(position)?,
        (Commit::Sync | Commit::Partition, _) => {
            if !log.is_stable(committed.up_to) {
                log.force(committed.up_to)?;
            }
        }
    }
    Ok(())
}

/// Waits for a random time that grows with each attempt, so that conflicting transactions do not conflict again.
#[cold]
pub(crate) fn back_off(descriptor: &mut Descriptor, attempt: u32) {
    const SPINS: u32 = 5;
    if attempt <= SPINS {
        for _ in 0..descriptor.next_random() % (1 << (attempt + 4)) {
            spin_hint();
        }
        return;
    }
    // The owner of a lock may be waiting for this processor.
    for _ in 0..descriptor.next_random() % u64::from(attempt.min(16)) + 1 {
        thread::yield_now();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            self.memory.shared().give_back_descriptor(descriptor);
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partition = self.descriptor.as_ref().map(|descriptor| descriptor.partition);
        f.debug_struct("Session").field("partition", &partition).finish_non_exhaustive()
    }
}
