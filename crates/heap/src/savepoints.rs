//! Savepoints of a transaction, and steps and calls that leave no part of themselves (H4).

use cedrat_sync::{planted, thread};

use crate::error::{Error, Interrupt, Result};
use crate::tx::{Descriptor, Tx};
use crate::write_set::WriteMark;

/// A point in a transaction to which its writes can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapSavepoint {
    writes: WriteMark,
    blocks: usize,
    /// Unique among the savepoints of all sessions, whatever their memory.
    number: u64,
}

impl Descriptor {
    /// Marks the transaction as unable to commit, because a call of it is half done.
    #[cold]
    fn leave_half_done(&mut self) {
        (self.interrupted, self.half_done) = (true, true);
    }
}

impl Tx<'_> {
    /// Sets a savepoint, to which [`Tx::back_to`] rolls back.
    pub fn savepoint(&mut self) -> HeapSavepoint {
        self.this.savepoint_number = self.this.savepoint_number.wrapping_add(1);
        let number = self.this.savepoint_number;
        self.this.savepoints.push(number);
        HeapSavepoint { writes: self.this.writes.mark(), blocks: self.this.blocks.len(), number }
    }

    /// Returns whether anything was written, allocated or freed since this point, which is the beginning of a call, or rolled
    /// back before it: afterwards as many words may be written as before.
    pub(crate) fn changed_since(&mut self, point: &HeapSavepoint) -> bool {
        // From the end: a program may keep many savepoints, and that of a call is one of the newest.
        let is_kept = self.this.savepoints.iter().rev().any(|number| *number == point.number);
        let went_back = !is_kept && !planted!("reading_call_goes_back");
        went_back || self.this.writes.mark() != point.writes || self.this.blocks.len() != point.blocks
    }

    /// Returns the current point, under the number of the newest savepoint.
    pub(crate) fn position(&mut self) -> HeapSavepoint {
        let number = self.this.savepoint_number;
        HeapSavepoint { writes: self.this.writes.mark(), blocks: self.this.blocks.len(), number }
    }

    /// Runs a step of several writes, allocations and frees as a whole: an error or a panic rolls back all of them, and the
    /// transaction may continue.
    ///
    /// Not for code of the program, which may roll back to an older savepoint ([`Tx::call`]).
    #[inline]
    pub(crate) fn whole<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T, Interrupt>) -> Result<T, Interrupt> {
        let is_outermost = !self.this.writes.is_journaling();
        let before = self.position();
        let mut whole = Whole { tx: self, before, is_outermost, is_done: false };
        let done = step(whole.tx);
        whole.is_done = done.is_ok() || planted!("half_call_kept");
        done
    }

    /// Runs one call of a transaction that is held from call to call: an error rolls back what the call has done, and the
    /// transaction continues. After a panic it cannot commit, nor after an error of a call that has rolled back writes of
    /// earlier ones: these cannot be restored.
    #[inline]
    pub(crate) fn call<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Interrupt>) -> Result<T, Interrupt> {
        let is_outermost = !self.this.writes.is_journaling();
        let before = self.savepoint();
        let mut call = Call { tx: self, has_returned: false };
        let mut done = work(call.tx);
        call.has_returned = true;
        drop(call);
        if let Err(interrupt) = &done
            && let Err(gone) = self.back_to(before)
            && !interrupt.is_conflict()
        {
            // The call has itself rolled back further.
            if !planted!("half_rolled_back_call_commits") {
                self.this.leave_half_done();
            }
            done = Err(gone);
        }
        // A program may keep savepoints of its own until the end of the transaction.
        if let Some(at) = self.this.savepoints.iter().rposition(|&number| number == before.number) {
            self.this.savepoints.remove(at);
        }
        if is_outermost && self.this.savepoints.is_empty() && !planted!("savepoints_of_calls_kept") {
            self.this.writes.unmark();
        } else if !planted!("savepoint_not_shown") {
            self.this.window.store_words = 0;
        }
        done
    }

    /// Runs a call that has no effect unless it returns something, and needs no rollback. After a panic the transaction cannot
    /// commit.
    #[inline(always)]
    pub(crate) fn at_once<T>(&mut self, work: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let before = (self.this.interrupted, self.this.half_done);
        let marked = !planted!("panicked_attempt_commits");
        (self.this.interrupted, self.this.half_done) = (marked, marked);
        let done = work(self);
        (self.this.interrupted, self.this.half_done) = before;
        done
    }

    /// Rolls back the writes, allocations and frees since the savepoint. The read set is kept.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the savepoint belongs to another transaction, or is newer than one that was rolled back to
    /// since.
    pub fn back_to(&mut self, savepoint: HeapSavepoint) -> Result<(), Interrupt> {
        let at = self.this.savepoints.iter().rposition(|&number| number == savepoint.number);
        let Some(at) = at else {
            let what = "the savepoint belongs to another transaction, or a rollback to an older one has ended it";
            return Err(Interrupt::failed(Error::Misuse(what)));
        };
        self.this.savepoints.truncate(at + 1);
        self.undo_since(&savepoint);
        Ok(())
    }

    /// Sets a mark between two transactions of a batch. Savepoints of the transactions before it become invalid.
    #[inline]
    pub(crate) fn mark(&mut self) -> HeapSavepoint {
        self.this.savepoints.clear();
        HeapSavepoint { writes: self.this.writes.mark_afresh(), blocks: self.this.blocks.len(), number: 0 }
    }

    /// Rolls back the writes, allocations and frees since the newest mark, but keeps the read set.
    #[cold]
    pub(crate) fn take_back(&mut self, mark: HeapSavepoint) {
        self.this.savepoints.clear();
        self.undo_since(&mark);
    }

    fn undo_since(&mut self, savepoint: &HeapSavepoint) {
        if !planted!("reads_undone_with_writes") {
            self.keep_reads_since(savepoint.writes);
        }
        self.this.writes.back_to(savepoint.writes);
        self.drop_blocks(savepoint.blocks);
    }
}

/// A step that runs as a whole. Drop rolls it back unless it is done, also during a panic of the program's code within it:
/// the program may catch the panic and commit.
struct Whole<'t, 'a> {
    tx: &'t mut Tx<'a>,
    before: HeapSavepoint,
    is_outermost: bool,
    is_done: bool,
}

impl Drop for Whole<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        let is_kept = self.is_done || planted!("panicked_step_kept") && thread::panicking();
        if !is_kept {
            self.tx.undo_since(&self.before);
        }
        if self.is_outermost {
            self.tx.this.writes.unmark();
        }
    }
}

/// A call that runs. Drop during a panic keeps the transaction from committing half of it.
struct Call<'t, 'a> {
    tx: &'t mut Tx<'a>,
    has_returned: bool,
}

impl Drop for Call<'_, '_> {
    fn drop(&mut self) {
        if !self.has_returned && !planted!("panicked_call_commits") {
            self.tx.this.leave_half_done();
        }
    }
}
