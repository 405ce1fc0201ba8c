//! Batches: small transactions that are fused into one commit, each behind a savepoint of its own.
//!
//! ```text
//! begin   work 0   mark   work 1   mark   work 2   commit      one snapshot, one draw, one record, one LSN
//! ```
//!
//! To other transactions a group is one transaction, so isolation and recovery need no argument of their own. When the work
//! of one transaction fails, the group rolls back to its mark and the others commit. The failed transaction then runs
//! again, alone, and that outcome counts: by then the blocks freed by the others are reusable and their writes are visible.
//! After a conflict the whole group runs again as a smaller group.

use cedrat_sync::planted;
use cedrat_wal::{Lsn, Position};

use crate::commit::Committed;
use crate::error::{Error, Interrupt, Result};
use crate::memory::Shared;
use crate::options::{Commit, Locking};
use crate::session::{Repetition, Session, back_off, interrupted, wait_for};
use crate::tx::{Descriptor, Tx};

/// Maximum number of transactions that share a commit.
const GROUP_MAX: usize = 16;

/// A group is closed once it has written this many words: beyond that, searching and locking cost more than a commit.
const GROUP_WORDS: usize = 48;

/// The same limits for reads and for blocks.
const GROUP_READS: usize = 256;
const GROUP_BLOCKS: usize = 32;

/// Transactions between the one that runs and the one whose words are fetched.
const AHEAD: usize = 6;

/// Failure of a batch, and the part of it that has committed.
#[derive(Debug, thiserror::Error)]
#[error("transaction {committed} of a batch failed, those before it are committed: {error}")]
pub struct BatchFailed {
    /// Error of the transaction that failed, or [`Error::Stopped`].
    #[source]
    pub error: Error,
    /// Number of transactions that have committed: those before the one that failed.
    pub committed: usize,
    /// LSN that the committed transactions wait for: once it is stable, all of them are. 0 if there are none.
    pub lsn: Lsn,
}

impl From<BatchFailed> for Error {
    fn from(failed: BatchFailed) -> Error {
        failed.error
    }
}

impl Session {
    /// Runs many small transactions and overlaps their cache misses: while one runs, the lines that the next ones will
    /// touch are prefetched. Neighbours share a commit and its LSN: other transactions see them take effect at once, in
    /// their order, and a crash keeps either all of a group or none of it.
    ///
    /// `touch(index)` is called a few transactions ahead and prefetches the words that transaction `index` will use, by
    /// [`Heap::prefetch`](crate::Heap::prefetch); `work(index, tx)` is its work. After a conflict the work of several
    /// transactions runs again, in order, so it should change nothing but heaps, or only state that a later run overwrites.
    /// Returns the LSN that the last transaction waits for: once it is stable, all of them are. `mode` is waited for once,
    /// at the end.
    ///
    /// # Errors
    /// Those of [`Session::run`], of the first transaction that fails, with the LSN of the transactions before it: they are
    /// committed, and `mode` was waited for. If waiting fails, [`Error::Stopped`].
    ///
    /// # Panics
    /// If `work` does. Of the transactions before it, those of finished groups are committed; the others leave no effect.
    #[inline]
    pub fn run_batch(
        &mut self,
        count: usize,
        mode: Commit,
        touch: impl FnMut(usize),
        work: impl FnMut(usize, &mut Tx<'_>) -> Result<(), Interrupt>,
    ) -> Result<Lsn, BatchFailed> {
        let (shared, descriptor) = self.parts();
        let each = if mode == Commit::Sync { Commit::Async } else { mode };
        let mut batch =
            Batch { shared, descriptor, each, committed: 0, up_to: Lsn::ZERO, depending: Lsn::ZERO, alone: None };
        let ran = batch.run_all(count, touch, work);
        let waited = if planted!("failed_batch_not_waited_for") && ran.is_err() { Ok(()) } else { batch.wait(mode) };
        let Batch { committed, up_to: lsn, .. } = batch;
        // After a stop memory is ahead of the disk: this outweighs the error of one transaction.
        waited.and(ran).map(|()| lsn).map_err(|error| BatchFailed { error, committed, lsn })
    }
}

/// A running batch.
struct Batch<'a> {
    shared: &'a Shared,
    descriptor: &'a mut Descriptor,
    /// Mode of each commit.
    each: Commit,
    /// Number of transactions that have committed.
    committed: usize,
    up_to: Lsn,
    /// Newest commit that is not recoverable with its partition alone.
    depending: Lsn,
    /// Newest commit that is recoverable with its partition alone.
    alone: Option<Position>,
}

/// Outcome of a group.
enum Ran {
    Committed(Committed),
    /// Rolled back without effect.
    Interrupted(Interrupt),
}

impl Batch<'_> {
    #[inline]
    fn run_all(
        &mut self,
        count: usize,
        mut touch: impl FnMut(usize),
        mut work: impl FnMut(usize, &mut Tx<'_>) -> Result<(), Interrupt>,
    ) -> Result<()> {
        let mut touched = 0;
        // A lock taken by a write is not held for longer than one transaction.
        let most = if self.shared.options.locking == Locking::EncounterTime { 1 } else { GROUP_MAX };
        let (mut len, mut attempt, mut repetition) = (most, 0, None);
        while self.committed < count {
            self.shared.clock.running()?;
            let mut tx = Tx::begin(self.shared, self.descriptor);
            let (mut at, end) = (self.committed, count.min(self.committed + len));
            let mut failed = false;
            let ran = loop {
                while touched < count.min(at + AHEAD + 1) {
                    touch(touched);
                    touched += 1;
                }
                let mark = tx.mark();
                if let Err(interrupt) = work(at, &mut tx) {
                    if at == self.committed || interrupt.is_conflict() {
                        break Ran::Interrupted(interrupt);
                    }
                    tx.take_back(mark);
                    failed = true;
                    break commit(&mut tx, self.each);
                }
                at += 1;
                if at == end || tx.is_large() {
                    break commit(&mut tx, self.each);
                }
            };
            match ran {
                Ran::Committed(committed) => {
                    std::mem::forget(tx); // the transaction holds nothing any more
                    self.note(at, &committed);
                    (attempt, repetition) = (0, None);
                    // A failed transaction runs again, alone.
                    len = if failed { 1 } else { (2 * len).min(most) };
                }
                Ran::Interrupted(interrupt) if at - self.committed <= 1 || interrupt.is_conflict() => {
                    interrupted(tx, interrupt)?;
                    attempt += 1;
                    repetition.get_or_insert_with(|| Repetition::begin(self.shared, self.descriptor));
                    len = (len / 2).max(1);
                    back_off(self.descriptor, attempt);
                }
                // Running each transaction alone finds the one that the error belongs to.
                Ran::Interrupted(_) => {
                    drop(tx);
                    len = 1;
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn note(&mut self, committed: usize, last: &Committed) {
        self.committed = committed;
        self.up_to = self.up_to.max(last.up_to);
        match last.position {
            Some(position) => self.alone = Some(position),
            None => self.depending = self.depending.max(last.up_to),
        }
    }

    /// Waits as long as the mode requires, for commits recoverable alone and for all others, each up to its own LSN.
    fn wait(&self, mode: Commit) -> Result<()> {
        if self.alone.is_some() {
            wait_for(self.shared, mode, &Committed { up_to: self.up_to, position: self.alone })?;
        }
        wait_for(self.shared, mode, &Committed { up_to: self.depending, position: None })
    }
}

#[inline]
fn commit(tx: &mut Tx<'_>, mode: Commit) -> Ran {
    match tx.commit(mode) {
        Ok(committed) => Ran::Committed(committed),
        Err(interrupt) => Ran::Interrupted(interrupt),
    }
}

impl Tx<'_> {
    /// Returns whether the group should end.
    #[inline]
    fn is_large(&self) -> bool {
        let this = &*self.this;
        this.writes.all().len() >= GROUP_WORDS || this.reads.len() >= GROUP_READS || this.blocks.len() >= GROUP_BLOCKS
    }
}
