//! Checkpoints: they bound recovery and the log (Lemon §3.4).
//!
//! A checkpoint is *fuzzy*: transactions go on while pages are written home. It leaves no record. Its result is two
//! numbers in the control file:
//!
//! - the *redo point*: every change by an older record is at home, those of records that are kept elsewhere included
//!   (E19.4);
//! - the *scan point*: the smallest of the redo point, the first LSN of the oldest transaction that had not ended,
//!   whose records its undo may need, and what the checkpoints of heaps still need.
//!
//! Log before the scan point is given back (W5).

use cedrat_pages::WriteBack;
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::thread::{Builder, JoinHandle};
use cedrat_sync::{Arc, Condvar, Mutex};
use cedrat_wal::{Checkpoint, Lsn};

use crate::deferred::ToPages;
use crate::error::{Error, Result};
use crate::store::Inner;

/// When a checkpoint is due, and that one is taken at a time.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    one_at_a_time: Mutex<()>,
    /// How many have come to their end.
    taken: AtomicU64,
    /// Bytes of log written since the store was opened, more or less.
    written: AtomicU64,
    /// At this many a checkpoint is due.
    due_at: AtomicU64,
    every: AtomicU64,
    /// The clock when the last one was taken.
    last: AtomicU64,
    /// The last one that was tried, if it has failed.
    failed: Mutex<Option<Failed>>,
    wish: Arc<Wish>,
}

/// A checkpoint that has failed.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) why: String,
    /// It found no room in the log itself: whoever keeps the log is the cause, and not this.
    pub(crate) wanted_log: bool,
}

impl Failed {
    fn of(error: &Error) -> Failed {
        let wanted_log = matches!(error, Error::LogFull { .. } | Error::PinsLog { .. });
        Failed { why: error.to_string(), wanted_log }
    }
}

/// How the checkpointer is called.
#[derive(Debug, Default)]
struct Wish {
    what: Mutex<What>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum What {
    #[default]
    Nothing,
    Checkpoint,
    End,
}

impl Wish {
    fn say(&self, what: What) {
        let mut wish = self.what.lock();
        if *wish != What::End {
            *wish = what;
        }
        self.changed.notify_one();
    }

    fn hear(&self) -> What {
        let mut wish = self.what.lock();
        while *wish == What::Nothing {
            self.changed.wait(&mut wish);
        }
        let heard = *wish;
        if heard == What::Checkpoint {
            *wish = What::Nothing;
        }
        heard
    }
}

impl Checkpoints {
    /// Calls the checkpointer, if there is one.
    pub(crate) fn ask(&self) {
        self.wish.say(What::Checkpoint);
    }

    /// Counts log that was written, and calls the checkpointer when enough has come together.
    #[inline]
    pub(crate) fn note(&self, bytes: u64) {
        let every = self.every.load(Ordering::Relaxed);
        if every == 0 {
            return; // no checkpointer
        }
        let written = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if written >= self.due_at.load(Ordering::Relaxed) {
            self.due_at.store(written.saturating_add(every), Ordering::Relaxed);
            self.ask();
        }
    }

    /// A checkpoint begins. Returns how much log it needs not be called for any more, once it has come to its end.
    fn begins(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Why the log may not be given up.
    pub(crate) fn failed(&self) -> Option<Failed> {
        self.failed.lock().clone()
    }

    /// A checkpoint has come to its end, whoever called for it: the next is due when as much was written since its beginning.
    fn has_come_to_its_end(&self, written: u64) {
        let due_at = written.saturating_add(self.every.load(Ordering::Relaxed));
        self.due_at.fetch_max(due_at, Ordering::Relaxed);
        self.taken.fetch_add(1, Ordering::AcqRel);
    }
}

impl Inner {
    /// Writes pages home, then moves redo point and scan point.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let _alone = self.checkpoints.one_at_a_time.lock();
        self.take_checkpoint(Lsn::new(self.checkpoints.last.load(Ordering::Relaxed)))
    }

    /// As [`checkpoint`](Inner::checkpoint), and nothing is left for the next one.
    pub(crate) fn last_checkpoint(&self) -> Result<()> {
        let _alone = self.checkpoints.one_at_a_time.lock();
        self.take_checkpoint(self.log.current_lsn().next())
    }

    fn take_checkpoint(&self, flush_before: Lsn) -> Result<()> {
        let taken = self.try_checkpoint(flush_before);
        *self.checkpoints.failed.lock() = taken.as_ref().err().map(Failed::of);
        taken
    }

    /// Records that are kept elsewhere, with changes older than `flush_before`, go to their pages first. One that cannot be
    /// written holds the log from its oldest change on, and nothing else up.
    fn try_checkpoint(&self, flush_before: Lsn) -> Result<()> {
        self.alive()?;
        let written = self.checkpoints.begins();
        self.memory.checkpoint()?;
        let now = self.log.current_lsn().next();
        let flushed = self.keepers.flush(flush_before, &ToPages(self));
        self.pool.write_back(WriteBack::Below(now))?;
        self.note_where_recovery_begins()?;
        self.checkpoints.last.store(now.get(), Ordering::Relaxed);
        self.checkpoints.has_come_to_its_end(written);
        flushed
    }

    fn note_where_recovery_begins(&self) -> Result<()> {
        // The clock before the table, the table before the force: see `Table`.
        let clock = self.log.current_lsn().next();
        // Changes go from transactions and keepers to pages: who is asked earlier vouches for what leaves him meanwhile
        // (E19.4).
        let deferred = self.oldest_deferred().unwrap_or(clock);
        let redo_lsn = self.pool.redo_point().min(deferred).min(clock);
        let oldest = self.oldest_to_keep().map_or(clock, |entry| entry.first);
        let of_heaps = self.memory.redo_from().next();
        let scan_lsn = redo_lsn.min(oldest).min(of_heaps).min(clock);
        let next_txn = self.next_txn.load(Ordering::SeqCst);
        // Who has left the table has appended its last record. Only once that is durable may its first ones go.
        self.log.force(self.log.current_lsn())?;
        self.log.checkpoint_control(&Checkpoint { redo_lsn, scan_lsn, next_txn })?;
        self.log.truncate(scan_lsn);
        self.space.punch(&self.pool, redo_lsn);
        Ok(())
    }

    /// The log is full: makes room if a checkpoint can. What stops it, whoever finds no room then is told.
    pub(crate) fn make_room(&self) {
        let taken = self.checkpoints.taken.load(Ordering::Acquire);
        let _alone = self.checkpoints.one_at_a_time.lock();
        // Whoever waited here while somebody else took one has what he waited for.
        if self.checkpoints.taken.load(Ordering::Acquire) == taken {
            // It is noted why.
            let _ = self.take_checkpoint(self.log.current_lsn().next());
        }
    }
}

/// The thread that takes checkpoints. Dropped, it ends the thread and waits for it.
pub(crate) struct Checkpointer {
    wish: Arc<Wish>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(crate) fn start(inner: &Arc<Inner>, every_bytes: u64) -> Result<Checkpointer> {
        let every = every_bytes.max(1);
        inner.checkpoints.due_at.store(every, Ordering::Relaxed);
        inner.checkpoints.every.store(every, Ordering::Relaxed);
        let wish = Arc::clone(&inner.checkpoints.wish);
        let inner = Arc::clone(inner);
        let thread = Builder::new()
            .name("cedrat-checkpoints".into())
            .spawn(move || {
                while inner.checkpoints.wish.hear() == What::Checkpoint {
                    // Another failure may pass. Until then it is noted, for whoever finds the log full.
                    if inner.checkpoint().is_err() && inner.alive().is_err() {
                        return;
                    }
                }
            })
            .map_err(|error| Error::io("starting the checkpointer thread", error))?;
        Ok(Checkpointer { wish, thread: Some(thread) })
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.wish.say(What::End);
        if let Some(thread) = self.thread.take() {
            // A panic in it was an assertion; it has been printed, and the store is closing.
            let _ = thread.join();
        }
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_somebody_takes_is_not_taken_again_at_once() {
        let checkpoints = Checkpoints::default();
        checkpoints.every.store(100, Ordering::Relaxed);
        checkpoints.due_at.store(100, Ordering::Relaxed);
        let asked = || std::mem::take(&mut *checkpoints.wish.what.lock()) == What::Checkpoint;
        checkpoints.note(90);
        let written = checkpoints.begins();
        checkpoints.note(5); // while it is taken
        checkpoints.has_come_to_its_end(written);
        checkpoints.note(90);
        assert!(!asked(), "95 bytes were written since one began");
        checkpoints.note(5);
        assert!(asked(), "a hundred were");
        // One that was begun long ago does not bring the next one forward.
        checkpoints.has_come_to_its_end(written);
        checkpoints.note(99);
        assert!(!asked());
        checkpoints.note(1);
        assert!(asked());
    }
}
