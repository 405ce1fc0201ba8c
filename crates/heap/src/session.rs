//! Sessions: what a thread keeps from one transaction to the next, and how transactions are run until they commit.

use std::fmt;

use cedrat_sync::atomic::Ordering;
use cedrat_sync::{spin_hint, thread};
use cedrat_wal::{Lsn, Position};

use crate::commit::Committed;
use crate::error::{Error, Interrupt, Result, Why};
use crate::memory::{Memory, Shared};
use crate::options::Commit;
use crate::tx::{Descriptor, Tx};

/// What a transaction came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done<T> {
    /// What the work returned.
    pub value: T,
    /// When this LSN is stable ([`Memory::is_stable`]), so is the transaction, and all that it read. Of a transaction that
    /// wrote something, the LSN of its commit or a later one.
    pub lsn: Lsn,
    /// Of a `Partition` commit: where its record lies. `None` if the commit was made `Sync` because it depended on others
    /// (E8.5), and of all other commits.
    pub alone: Option<Position>,
}

/// A thread's place in a memory: buffers, a slot in what others look at, a partition of the log.
///
/// It belongs to one thread at a time and may be moved to another. A new one is in the partition of the log with the fewest
/// others: a few are each in their own.
pub struct Session {
    memory: Memory,
    descriptor: Option<Box<Descriptor>>,
}

impl Session {
    pub(crate) fn new(memory: Memory, descriptor: Box<Descriptor>) -> Session {
        Session { memory, descriptor: Some(descriptor) }
    }

    /// The memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Runs `work` in a transaction and commits it; returns when `mode` says.
    ///
    /// After a conflict `work` is run again, at once at first, then after longer and longer waits, so it should change
    /// nothing but heaps. If it fails, or panics, nothing remains of what it wrote, allocated or freed.
    ///
    /// Another transaction that `work` runs is one of its own, which commits whatever becomes of this one. If it changes what
    /// this one has read, this one meets a conflict each time that it is run, and never ends. With
    /// [`Locking::EncounterTime`](crate::Locking::EncounterTime) it fails with [`Error::Misuse`] where it needs what this one
    /// has written.
    ///
    /// # Errors
    /// What `work` failed with. [`Error::LogFull`]: rolled back. [`Error::Stopped`]: only reopening the store tells
    /// whether the commit was kept.
    #[inline]
    pub fn run<T>(
        &mut self,
        mode: Commit,
        mut work: impl FnMut(&mut Tx<'_>) -> Result<T, Interrupt>,
    ) -> Result<Done<T>> {
        let shared = self.memory.shared();
        let descriptor = self.descriptor.as_mut().expect("a session has its descriptor until it is dropped");
        let mut attempt = 0;
        let (value, committed) = loop {
            shared.clock.running()?;
            let mut tx = Tx::begin(shared, descriptor);
            let interrupt = match work(&mut tx) {
                Ok(value) => match tx.commit(mode) {
                    Ok(committed) => {
                        std::mem::forget(tx); // it holds nothing any more
                        break (value, committed);
                    }
                    Err(interrupt) => interrupt,
                },
                Err(interrupt) => interrupt,
            };
            interrupted(tx, interrupt)?;
            attempt += 1;
            back_off(descriptor, attempt);
        };
        wait_for(shared, mode, &committed)?;
        Ok(Done { value, lsn: committed.up_to, alone: committed.position })
    }

    /// [`Session::run`] with [`Commit::Sync`], for the value alone.
    ///
    /// # Errors
    /// Those of [`Session::run`].
    pub fn atomically<T>(&mut self, work: impl FnMut(&mut Tx<'_>) -> Result<T, Interrupt>) -> Result<T> {
        Ok(self.run(Commit::Sync, work)?.value)
    }

    /// Runs many small transactions, each on its own, and overlaps their cache misses: while one runs, what the next ones
    /// will touch is fetched.
    ///
    /// `touch(index)` is called a few transactions ahead and names what transaction `index` will use, by
    /// [`Heap::prefetch`](crate::Heap::prefetch); `work(index, tx)` is its work. Returns the LSN that the last of them
    /// waits for: once that is stable, all are. `mode` is waited for once, at the end.
    ///
    /// # Errors
    /// Those of [`Session::run`], of the first transaction that fails; those before it are committed.
    #[inline]
    pub fn run_batch(
        &mut self,
        count: usize,
        mode: Commit,
        mut touch: impl FnMut(usize),
        mut work: impl FnMut(usize, &mut Tx<'_>) -> Result<(), Interrupt>,
    ) -> Result<Lsn> {
        const AHEAD: usize = 6;
        for index in 0..AHEAD.min(count) {
            touch(index);
        }
        let mut up_to = Lsn::ZERO;
        for index in 0..count {
            if index + AHEAD < count {
                touch(index + AHEAD);
            }
            let each = match mode {
                Commit::Sync => Commit::Async,
                other => other,
            };
            up_to = up_to.max(self.run(each, |tx| work(index, tx))?.lsn);
        }
        if mode == Commit::Sync {
            self.memory.is_stable(up_to, true)?;
        }
        Ok(up_to)
    }
}

/// Judges what interrupted a transaction's work or commit; returns if it is to be run again.
#[cold]
fn interrupted(mut tx: Tx<'_>, interrupt: Interrupt) -> Result<()> {
    match interrupt.why() {
        None => {
            tx.shared.counters.conflicts.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Some(Why::Retry) => {
            tx.let_writes_go();
            if !tx.has_read() {
                return Err(Error::Misuse("a transaction that has read nothing would wait for ever"));
            }
            tx.shared.wait_for_change(&tx);
            Ok(())
        }
        Some(Why::Failed(error)) => Err(error),
    }
}

/// Waits as long as the commit mode asks for.
#[inline]
pub(crate) fn wait_for(shared: &Shared, mode: Commit, committed: &Committed) -> Result<()> {
    let Some(log) = shared.clock.log() else { return Ok(()) };
    match (mode, committed.position) {
        // After a stop memory is ahead of the disk, and nothing of it may be told (E16.5).
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

/// Waits a little, at random and longer each time, so that those who collide do not collide again.
#[cold]
pub(crate) fn back_off(descriptor: &mut Descriptor, attempt: u32) {
    const SPINS: u32 = 5;
    if attempt <= SPINS {
        for _ in 0..descriptor.next_random() % (1 << (attempt + 4)) {
            spin_hint();
        }
        return;
    }
    // Somebody with a lock may be waiting for this processor.
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
