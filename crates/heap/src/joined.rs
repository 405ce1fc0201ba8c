//! A heap transaction that is part of a larger one, which may also change pages and has one commit record for all of it
//! (E10).

use std::fmt;
use std::mem::ManuallyDrop;
use std::time::Instant;

use cedrat_sync::atomic::Ordering;
use cedrat_sync::planted;
use cedrat_wal::{Lsn, TxnId};

use crate::error::{Error, Interrupt, Result};
use crate::memory::Memory;
use crate::savepoints::HeapSavepoint;
use crate::tx::{Descriptor, Tx};

/// Heap part of a transaction over several faces.
///
/// A transaction that commits in two phases logs the bytes of [`Joined::put_prepared`], passes the LSN of that record to
/// [`Joined::validate`], and [holds](Joined::hold) its locks; at its commit it calls [`Joined::commits`] and logs as any
/// other.
///
/// Its owner writes the log: first [`Joined::parts`], then the commit record with [`Joined::last_part`], and calls
/// [`Joined::validate`] once the LSN of that record is drawn. Dropped before [`Joined::publish`], it leaves no effect.
pub struct Joined {
    memory: Memory,
    descriptor: Option<Box<Descriptor>>,
}

impl Joined {
    /// Begins with a current snapshot. Locks are taken at the commit, whatever the memory's option.
    ///
    /// # Errors
    /// [`Error::Limit`] if there are too many sessions.
    pub fn begin(memory: &Memory) -> Result<Joined> {
        let shared = memory.shared();
        let mut descriptor = shared.take_descriptor()?;
        let mut tx = ManuallyDrop::new(Tx::begin(shared, &mut descriptor));
        if !planted!("joined_locks_early") {
            tx.this.lock_early(false);
        }
        tx.slot().locks_early(false);
        Ok(Joined { memory: memory.clone(), descriptor: Some(descriptor) })
    }

    /// Notes that the larger transaction is repeated after conflicts, since that moment, and now has this number. A later conflict
    /// becomes [`Error::Misuse`] if it lasts because the owner of a word waits for another transaction of this thread (E15.7b).
    pub fn set_repeated_since(&mut self, since: Instant, txn: TxnId) {
        self.tx().slot().repeats(since, Some(txn));
    }

    /// Wraps a transaction that already runs.
    pub(crate) fn around(memory: &Memory, descriptor: Box<Descriptor>) -> Joined {
        Joined { memory: memory.clone(), descriptor: Some(descriptor) }
    }

    pub(crate) fn tx(&mut self) -> ManuallyDrop<Tx<'_>> {
        let this = self.descriptor.as_mut().expect("it has its descriptor until it is dropped");
        // Dropping this `Tx` must not end the transaction.
        ManuallyDrop::new(Tx { shared: self.memory.shared(), this })
    }

    /// Runs reads and writes. An error of `work` rolls back what it has done; the transaction cannot commit if that was also a
    /// rollback to a savepoint set before.
    ///
    /// # Errors
    /// Those of `work`; [`Error::Conflict`] after a write conflict.
    pub fn run<T>(&mut self, work: impl FnOnce(&mut Tx<'_>) -> Result<T, Interrupt>) -> Result<T> {
        let mut tx = self.tx();
        let done = tx.call(work).map_err(Interrupt::into_error);
        tx.this.interrupted |= matches!(done, Err(Error::Conflict));
        done
    }

    /// Runs `work` as [`Joined::run`] does, but refuses writes, allocations and frees.
    ///
    /// # Errors
    /// [`Error::Misuse`] if `work` wrote, allocated or freed, which is then rolled back; else as [`Joined::run`].
    pub fn run_reading<T>(&mut self, work: impl FnOnce(&mut Tx<'_>) -> Result<T, Interrupt>) -> Result<T> {
        self.run(|tx| {
            let before = tx.position();
            let value = work(tx)?;
            if tx.changed_since(&before) {
                let what = "heap words cannot be written within a nested top action, nor in an undo"; // E10.7
                return Err(Error::Misuse(what).into());
            }
            Ok(value)
        })
    }

    /// Returns whether anything was written, allocated or freed.
    pub fn wrote(&mut self) -> bool {
        !self.tx().is_read_only()
    }

    /// Moves the snapshot to now: called when the transaction has observed other state of this moment, a locked page for
    /// example.
    ///
    /// # Errors
    /// [`Error::Conflict`] if a word that was read has changed.
    pub fn keep_up(&mut self) -> Result<()> {
        let mut tx = self.tx();
        let now = tx.shared.clock.now();
        if tx.this.interrupted {
            return Err(tx.why_interrupted().into_error());
        }
        if now == tx.this.snapshot {
            return Ok(());
        }
        if !tx.all_reads_hold() {
            return Err(tx.this.conflict().into_error());
        }
        tx.this.snapshot = now;
        Ok(())
    }

    /// Sets a savepoint.
    pub fn savepoint(&mut self) -> HeapSavepoint {
        self.tx().savepoint()
    }

    /// Rolls back the writes since the savepoint, or all writes. The read set is kept.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the transaction was rolled back to an older savepoint since.
    pub fn back_to(&mut self, savepoint: Option<HeapSavepoint>) -> Result<()> {
        match savepoint {
            Some(savepoint) => self.tx().back_to(savepoint).map_err(Interrupt::into_error)?,
            None => self.tx().let_writes_go(),
        }
        Ok(())
    }

    /// Returns an LSN up to which everything read was committed.
    pub fn seen(&mut self) -> Lsn {
        Lsn::new(self.tx().newest_read(crate::Commit::Sync))
    }

    /// Returns the upper bound of the log space that the commit takes.
    pub fn log_wanted(&mut self, part_len_max: usize) -> u64 {
        self.tx().log_space_wanted(part_len_max)
    }

    /// Locks the written stripes and encodes the writes for the log. From here to the end nothing may wait: the lock
    /// manager does not know the owner of a stripe.
    ///
    /// # Errors
    /// [`Error::Conflict`].
    pub fn prepare(&mut self, part_len_max: usize) -> Result<()> {
        let mut tx = self.tx();
        let prepared = tx.prepare(part_len_max).map_err(Interrupt::into_error);
        if prepared.is_ok() {
            tx.slot().commits_after(tx.this.snapshot);
        }
        prepared
    }

    /// Returns the parts that go into records of their own before the commit record.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.descriptor.iter().flat_map(|this| this.redo.all_but_last())
    }

    /// Returns the part that goes into the commit record.
    pub fn last_part(&self) -> &[u8] {
        self.descriptor.as_ref().map_or(&[], |this| this.redo.last_part())
    }

    /// Returns whether the commit may have this LSN: no word that was read has changed. Call once: a refusal is
    /// counted as a void record.
    pub fn validate(&mut self, lsn: Lsn) -> bool {
        let may = self.tx().decide(lsn.get());
        if !may {
            self.memory.shared().counters.void_records.fetch_add(1, Ordering::Relaxed);
        }
        may
    }

    /// Publishes the writes; the commit record is in the log.
    pub fn publish(mut self, lsn: Lsn) {
        let mut tx = self.tx();
        tx.publish(lsn.get());
        tx.slot().committed();
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let mut tx = self.tx();
        tx.abandon();
        tx.slot().committed();
        tx.slot().holds(0);
        tx.slot().ends_repetition();
        if let Some(descriptor) = self.descriptor.take() {
            self.memory.shared().give_back_descriptor(descriptor);
        }
    }
}

impl fmt::Debug for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.descriptor.as_ref().map(|descriptor| descriptor.snapshot);
        f.debug_struct("Joined").field("snapshot", &snapshot).finish_non_exhaustive()
    }
}
