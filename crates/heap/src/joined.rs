//! A heap transaction that is part of a larger one, which may change pages too and has one commit record for all (E10).

use std::fmt;
use std::mem::ManuallyDrop;

use cedrat_sync::atomic::Ordering;
use cedrat_wal::Lsn;

use crate::error::{Error, Interrupt, Result};
use crate::memory::Memory;
use crate::tx::{Descriptor, HeapSavepoint, Tx};

/// The heap part of a transaction over several faces.
///
/// One that is to commit in two phases logs what [`Joined::put_prepared`] puts, asks [`Joined::may_commit`] for the LSN of that, and
/// [holds](Joined::hold) it; at its commit it says so ([`Joined::commits`]), and logs as any other.
///
/// Its owner logs: first [`Joined::parts`], then the commit record with [`Joined::last_part`], and asks
/// [`Joined::may_commit`] once the LSN of that is drawn. Dropped before [`Joined::publish`], it leaves nothing.
pub struct Joined {
    memory: Memory,
    descriptor: Option<Box<Descriptor>>,
}

impl Joined {
    /// Begins, with a snapshot of now. Locks are taken at the commit, whatever the memory's choice (E10.4).
    ///
    /// # Errors
    /// [`Error::Limit`] if there are too many sessions.
    pub fn begin(memory: &Memory) -> Result<Joined> {
        let shared = memory.shared();
        let mut descriptor = shared.take_descriptor()?;
        let mut tx = ManuallyDrop::new(Tx::begin(shared, &mut descriptor));
        tx.this.encounter = false;
        tx.slot().locks_early(false);
        Ok(Joined { memory: memory.clone(), descriptor: Some(descriptor) })
    }

    /// A transaction that runs already.
    pub(crate) fn around(memory: &Memory, descriptor: Box<Descriptor>) -> Joined {
        Joined { memory: memory.clone(), descriptor: Some(descriptor) }
    }

    pub(crate) fn tx(&mut self) -> ManuallyDrop<Tx<'_>> {
        let this = self.descriptor.as_mut().expect("it has its descriptor until it is dropped");
        // Its end is not that of the transaction.
        ManuallyDrop::new(Tx { shared: self.memory.shared(), this })
    }

    /// Reads and writes.
    ///
    /// # Errors
    /// What `work` failed with; [`Error::Conflict`] if another transaction was quicker.
    pub fn run<T>(&mut self, work: impl FnOnce(&mut Tx<'_>) -> Result<T, Interrupt>) -> Result<T> {
        let mut tx = self.tx();
        let before = tx.savepoint();
        // Until the work has returned: a panic that somebody catches leaves half of it.
        let was_interrupted = std::mem::replace(&mut tx.this.interrupted, true);
        let done = work(&mut tx);
        match done {
            Ok(value) => {
                tx.this.interrupted = was_interrupted;
                Ok(value)
            }
            Err(interrupt) => {
                let error = interrupt.into_error();
                tx.this.interrupted = was_interrupted || matches!(error, Error::Conflict);
                tx.back_to(before).map_err(Interrupt::into_error)?;
                Err(error)
            }
        }
    }

    /// As [`Joined::run`], where nothing may be written, allocated or freed.
    ///
    /// # Errors
    /// [`Error::Misuse`] if it was tried, and it is taken back then; else as [`Joined::run`].
    pub fn run_reading<T>(&mut self, work: impl FnOnce(&mut Tx<'_>) -> Result<T, Interrupt>) -> Result<T> {
        let before = self.savepoint();
        let value = self.run(work)?;
        if self.tx().has_changed_since(&before) {
            self.back_to(Some(before))?;
            return Err(Error::Misuse(
                "heap words cannot be written within a nested top action, nor in an undo (E10.7)",
            ));
        }
        Ok(value)
    }

    /// Whether anything was written, allocated or freed.
    pub fn has_writes(&mut self) -> bool {
        !self.tx().is_read_only()
    }

    /// Whether anything was read.
    pub fn has_reads(&mut self) -> bool {
        self.tx().has_read()
    }

    /// Moves the snapshot to now: called when the transaction has come to see something else of this moment, a locked
    /// page for example (E10.1).
    ///
    /// # Errors
    /// [`Error::Conflict`] if something that was read has changed.
    pub fn keep_up(&mut self) -> Result<()> {
        let mut tx = self.tx();
        let now = tx.shared.clock.now();
        if tx.this.interrupted {
            return Err(Error::Conflict);
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

    /// A place to come back to.
    pub fn savepoint(&mut self) -> HeapSavepoint {
        self.tx().savepoint()
    }

    /// Takes back what was written since the savepoint, or all. What was read stays read (E10.6).
    ///
    /// # Errors
    /// [`Error::Misuse`] if an older savepoint was gone back to since.
    pub fn back_to(&mut self, savepoint: Option<HeapSavepoint>) -> Result<()> {
        match savepoint {
            Some(savepoint) => self.tx().back_to(savepoint).map_err(Interrupt::into_error)?,
            None => self.tx().let_writes_go(),
        }
        Ok(())
    }

    /// Everything read was committed up to here.
    pub fn seen(&mut self) -> Lsn {
        Lsn::new(self.tx().newest_read(crate::Commit::Sync))
    }

    /// How much room in the log the commit takes, at most.
    pub fn log_wanted(&mut self, part_len_max: usize) -> u64 {
        self.tx().room_wanted(part_len_max)
    }

    /// Locks what is written, and puts it into the form of the log. From here to the end nothing may wait: a stripe's
    /// owner is not somebody whom the lock manager knows (E10.4).
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

    /// What goes into records of their own before the commit record.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.descriptor.iter().flat_map(|this| this.redo.all_but_last())
    }

    /// What goes into the commit record.
    pub fn last_part(&self) -> &[u8] {
        self.descriptor.as_ref().map_or(&[], |this| this.redo.last_part())
    }

    /// Whether the commit may have this LSN: what was read is still so (E2.3). Ask once: a no is counted as a void record.
    pub fn may_commit(&mut self, lsn: Lsn) -> bool {
        let may = self.tx().decide(lsn.get());
        if !may {
            self.memory.shared().counters.void_records.fetch_add(1, Ordering::Relaxed);
        }
        may
    }

    /// The commit record is in the log: now everyone sees what was written.
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
