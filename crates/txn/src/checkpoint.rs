//! Checkpoints: they bound recovery and the log (Lemon §3.4).
//!
//! A checkpoint is *fuzzy*: transactions continue while pages are written. It appends no record. Its result is two
//! numbers in the control file:
//!
//! - the *redo point*: every change by an older record is in the page file, including changes of records that are kept
//!   elsewhere (E19.4);
//! - the *scan point*: the minimum of the redo point, the first LSN of the oldest transaction that had not ended, whose
//!   undo may need its records, and the LSN that the checkpoints of heaps still need.
//!
//! Log before the scan point is released (W5).

use std::time::{Duration, Instant};

use cedrat_pages::WriteBack;
use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cedrat_sync::thread::{Builder, JoinHandle, ThreadId};
use cedrat_sync::{Arc, Condvar, Mutex, planted};
use cedrat_wal::{Checkpoint, Log, Lsn};

use crate::archive::Archive;
use crate::deferred::ToPages;
use crate::error::{Error, Result};
use crate::limits::{Limits, RolledBack};
use crate::store::{Inner, Store};
use crate::table::Entry;
use crate::trace::{event, span};

/// The schedule of checkpoints, and the mutex that serialises them.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    one_at_a_time: Mutex<()>,
    /// The number of completed checkpoints.
    taken: AtomicU64,
    /// Bytes of log written since the store was opened, approximately.
    written: AtomicU64,
    /// The value of `written` at which a checkpoint is due.
    due_at: AtomicU64,
    every: AtomicU64,
    /// The clock when the last checkpoint was taken.
    last: AtomicU64,
    /// The failure of the last attempt, if it failed.
    failed: Mutex<Option<Failed>>,
    wish: Arc<CheckpointRequest>,
}

/// A checkpoint that has failed.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) why: String,
    /// It found no room in the log itself: the cause is whatever holds the log, not the checkpoint.
    pub(crate) wanted_log: bool,
}

impl Failed {
    fn of(error: &Error) -> Failed {
        let wanted_log = matches!(error, Error::LogFull { .. } | Error::PinsLog { .. });
        Failed { why: error.to_string(), wanted_log }
    }
}

/// The request to the checkpointer thread.
#[derive(Debug, Default)]
struct CheckpointRequest {
    what: Mutex<What>,
    changed: Condvar,
    /// Threads that may serve requests besides the checkpointer, and whether each is relieved. One that has ended has dropped its
    /// reference.
    stand_ins: Mutex<Vec<(Arc<AtomicBool>, JoinHandle<()>)>>,
}

/// A greater request includes the smaller ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    #[default]
    Nothing,
    /// Measure transactions.
    Limits,
    /// Measure transactions and take a checkpoint.
    Checkpoint,
    End,
}

impl CheckpointRequest {
    fn say(&self, what: What) {
        let mut wish = self.what.lock();
        *wish = what.max(*wish);
        // A stand-in that is relieved leaves the request to the others.
        self.changed.notify_all();
    }

    /// Whether a request waits.
    fn is_waiting(&self) -> bool {
        *self.what.lock() != What::Nothing
    }

    /// Waits for a request, for at most `period`; after that time transactions are measured. A stand-in ends when it is
    /// relieved.
    fn hear(&self, period: Option<Duration>, is_relieved: &AtomicBool) -> What {
        let mut wish = self.what.lock();
        while *wish == What::Nothing || is_relieved.load(Ordering::Relaxed) {
            if is_relieved.load(Ordering::Relaxed) {
                return What::End;
            }
            match period {
                None => self.changed.wait(&mut wish),
                Some(period) if self.changed.wait_for(&mut wish, period).timed_out() => {
                    *wish = What::Limits.max(*wish);
                }
                Some(_) => {}
            }
        }
        let heard = *wish;
        if heard != What::End {
            *wish = What::Nothing;
        }
        heard
    }
}

impl Checkpoints {
    /// Requests a checkpoint, if there is a checkpointer.
    pub(crate) fn ask(&self) {
        self.wish.say(What::Checkpoint);
    }

    /// Counts written log, and requests a checkpoint when one is due.
    #[inline]
    pub(crate) fn note(&self, bytes: u64, limits: &Limits) {
        let every = self.every.load(Ordering::Relaxed);
        let written = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if limits.note(written) {
            self.ask_for_limits();
        }
        if every == 0 {
            return; // no checkpointer
        }
        if written >= self.due_at.load(Ordering::Relaxed) {
            self.due_at.store(written.saturating_add(every), Ordering::Relaxed);
            self.ask();
        }
    }

    /// Requests a measurement of transactions, if there is a checkpointer.
    pub(crate) fn ask_for_limits(&self) {
        if self.has_thread() {
            self.wish.say(What::Limits);
        }
    }

    /// Whether there is a checkpointer.
    pub(crate) fn has_thread(&self) -> bool {
        self.every.load(Ordering::Relaxed) != 0
    }

    /// Returns the amount of log written when a checkpoint begins; the checkpoint covers that log once it has
    /// completed.
    fn begins(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Records the end of a checkpoint, from whichever thread. The next one is due when as much has been written since
    /// its start.
    fn note_finished(&self, written: u64) {
        let due_at = written.saturating_add(self.every.load(Ordering::Relaxed));
        self.due_at.fetch_max(due_at, Ordering::Relaxed);
        self.taken.fetch_add(1, Ordering::AcqRel);
    }
}

/// The prepared transactions that a checkpoint carries forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    /// Branches that hold too much of the log.
    Heavy,
    /// The same, where the log has no room.
    InFullLog,
    /// All, since the log is to forget its epochs (E1.7a).
    All,
}

impl Inner {
    /// Writes pages to the page file, then advances redo point and scan point.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.alive()?; // a forked child has none of the threads that it would wait for
        let _alone = self.checkpoints.one_at_a_time.lock();
        self.take_checkpoint(Lsn::new(self.checkpoints.last.load(Ordering::Relaxed)), Carries::Heavy)
    }

    /// As [`checkpoint`](Inner::checkpoint), and then calls `next` before another one.
    pub(crate) fn after_checkpoint<T>(&self, next: impl FnOnce() -> T) -> Result<T> {
        self.alive()?;
        let _alone = self.checkpoints.one_at_a_time.lock();
        self.take_checkpoint(self.log.current_lsn().next(), Carries::Heavy)?;
        Ok(next())
    }

    /// As [`checkpoint`](Inner::checkpoint), and holds no log from before it, so that the log forgets its epochs.
    pub(crate) fn forget_epochs(&self) -> Result<()> {
        let _alone = self.checkpoints.one_at_a_time.lock();
        self.take_checkpoint(self.log.current_lsn().next(), Carries::All)
    }

    /// As [`checkpoint`](Inner::checkpoint), and leaves no change for the next one.
    pub(crate) fn last_checkpoint(&self) -> Result<()> {
        self.alive()?;
        self.complete_redo()?;
        let _alone = self.checkpoints.one_at_a_time.lock();
        self.take_checkpoint(self.log.current_lsn().next(), Carries::Heavy)
    }

    fn take_checkpoint(&self, flush_before: Lsn, carries: Carries) -> Result<()> {
        span!("checkpoint");
        let began = Instant::now();
        let taken = self.try_checkpoint(flush_before, carries);
        match &taken {
            Ok(()) => {
                self.counts.checkpointed(began.elapsed());
                let _checkpoint = self.log.control().checkpoint;
                event!(
                    INFO,
                    redo_lsn = _checkpoint.redo_lsn.get(),
                    scan_lsn = _checkpoint.scan_lsn.get(),
                    "checkpoint taken"
                );
            }
            Err(_error) => {
                event!(ERROR, error = %_error, "checkpoint failed");
            }
        }
        *self.checkpoints.failed.lock() = taken.as_ref().err().map(Failed::of);
        taken
    }

    /// Flushes records that are kept elsewhere and have changes older than `flush_before` first. A record that cannot
    /// be written holds the log from its oldest change on, but does not stop the checkpoint.
    fn try_checkpoint(&self, flush_before: Lsn, carries: Carries) -> Result<()> {
        self.alive_here()?;
        self.redo_for_checkpoint(carries != Carries::Heavy)?;
        let written = self.checkpoints.begins();
        // Log that redo needs is kept in any case, and the changes of a branch may not be in their pages yet (E9.13).
        let carried = if self.rest_of_redo.is_any() {
            Ok(())
        } else {
            self.carry_branches_forward(carries).and(self.carry_outcomes_forward(carries))
        };
        self.memory.checkpoint()?;
        let now = self.log.current_lsn().next();
        let flushed = self.keepers.flush(flush_before, &ToPages(self));
        self.pool.write_back(WriteBack::Below(now))?;
        self.note_where_recovery_begins(carries)?;
        self.checkpoints.last.store(now.get(), Ordering::Relaxed);
        self.checkpoints.note_finished(written);
        self.reserve_to_carry();
        self.reserve_for_outcomes();
        flushed.and(carried)
    }

    fn note_where_recovery_begins(&self, carries: Carries) -> Result<()> {
        // Read the clock before the table, and the table before the force: see `Table`.
        let clock = self.log.current_lsn().next();
        // Changes move from transactions to keepers to pages. The source is read before the destination, so a change
        // that moves meanwhile is seen in at least one of them (E19.4).
        let deferred = self.oldest_deferred().unwrap_or(clock);
        // Records that are redone move from the rest of redo to pages.
        let noted = self.rest_of_redo.needs_log_from().unwrap_or(clock);
        let to_redo = self.rest_of_redo.oldest().filter(|_| !planted!("checkpoint_passes_pending_records"));
        let redo_lsn = self.pool.redo_point().min(deferred).min(to_redo.unwrap_or(clock)).min(clock);
        let oldest = self.oldest_to_keep().map_or(clock, |entry| entry.kept_from());
        // Behind the table: an outcome is kept before its branch leaves that (E9.4d).
        let outcomes = self.outcomes.kept_from().unwrap_or(clock);
        let of_heaps = self.memory.redo_from().next();
        let scan_lsn = redo_lsn.min(oldest).min(outcomes).min(of_heaps).min(noted).min(clock);
        // Records that were carried forward have their old LSNs in pages or with their keepers. Their copies lie after
        // the points that were set when they were made, and those points never move back (E9.13).
        let before = self.log.control().checkpoint;
        let (redo_lsn, scan_lsn) = (redo_lsn.max(before.redo_lsn), scan_lsn.max(before.scan_lsn));
        let next_txn = self.next_txn.load(Ordering::SeqCst);
        // A transaction that has left the table has appended its last record. Only once that is durable may its first
        // ones be truncated.
        self.log.force(self.log.current_lsn())?;
        self.pool.note_written()?;
        let mut needed = Vec::new();
        if let Some(archive) = &self.archive {
            archive.extend_for_checkpoint(&self.log, &self.memory, carries == Carries::InFullLog);
            archive.limit_truncation(&mut needed);
        }
        self.consumers.limit_truncation(&self.log, scan_lsn, carries != Carries::Heavy, &mut needed)?;
        self.log.checkpoint_control_keeping(&Checkpoint { redo_lsn, scan_lsn, next_txn }, &needed)?;
        if carries == Carries::InFullLog {
            self.backups.end_before(scan_lsn);
        }
        self.log.truncate_before(scan_lsn, &self.backups.log_needed());
        self.space.punch(&self.pool, redo_lsn.min(self.backups.redo_needed()));
        Ok(())
    }

    /// Returns the reason why the last checkpoint has released no log, if there is one: it failed, or the archive did.
    pub(crate) fn truncation_failure(&self) -> Option<Failed> {
        let of_archive = || self.archive.as_ref().and_then(Archive::hindrance);
        let not_archived =
            || of_archive().map(|why| Failed { why, wanted_log: planted!("unarchived_log_blamed_on_others") });
        self.checkpoints.failed.lock().clone().or_else(not_archived)
    }

    /// Whether a checkpoint may release log or pages, or succeed where the last one failed: as long as checkpoints fail, no
    /// transaction is rolled back for the log that it holds (E16.3). If not, it would only force the log, which takes space
    /// from the rollback that holds the log (E16.1), at each attempt of each other transaction.
    fn can_free_log_space(&self) -> bool {
        let released_before = self.log.control().checkpoint.scan_lsn;
        let is_held = |entry: Arc<Entry>| !entry.is_prepared() && entry.kept_from() <= released_before;
        !self.table.oldest().is_some_and(is_held)
            || self.space.waits_to_punch()
            || self.checkpoints.failed.lock().is_some()
            || planted!("full_log_checkpointed_in_vain")
    }

    /// Makes room in a full log if a checkpoint can. A failure is recorded and reported to the caller that then finds
    /// no room.
    pub(crate) fn free_log_space(&self) {
        let taken = self.checkpoints.taken.load(Ordering::Acquire);
        let _alone = self.checkpoints.one_at_a_time.lock();
        // A thread that waited here while another one took a checkpoint is done, unless a backup, the archive or a consumer keeps what
        // that has released.
        let is_taken = self.checkpoints.taken.load(Ordering::Acquire) != taken;
        let by_backup = self.backups.keep_log_before(self.log.control().checkpoint.scan_lsn);
        let by_archive = self.archive.as_ref().is_some_and(Archive::lagged_at_checkpoint);
        let by_consumer = self.consumers.keep_log_before(self.log.control().checkpoint.scan_lsn);
        let by_redo = self.rest_of_redo.is_any();
        if by_backup || by_archive || by_consumer || by_redo || !is_taken && self.can_free_log_space() {
            // `take_checkpoint` records the failure.
            let _ = self.take_checkpoint(self.log.current_lsn().next(), Carries::InFullLog);
        } else if let Some(archive) = &self.archive {
            // Its failure may be why the log is full.
            archive.extend_for_checkpoint(&self.log, &self.memory, true);
        }
    }
}

/// The thread that takes checkpoints. Drop ends the thread and waits for it.
pub(crate) struct Checkpointer {
    wish: Arc<CheckpointRequest>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(crate) fn start(inner: &Arc<Inner>, every_bytes: u64) -> Result<Checkpointer> {
        let wish = Arc::clone(&inner.checkpoints.wish);
        let served = Arc::clone(inner);
        let thread = Builder::new()
            .name("cedrat-checkpoints".into())
            .spawn(move || serve(&served, &AtomicBool::new(false)))
            .map_err(|error| Error::io("starting the checkpointer thread", error))?;
        // Only now: without the thread, the transactions do its work.
        let every = every_bytes.max(1);
        inner.checkpoints.due_at.store(every, Ordering::Relaxed);
        inner.checkpoints.every.store(every, Ordering::Relaxed);
        Ok(Checkpointer { wish, thread: Some(thread) })
    }

    /// Whether it is this thread, or one of its stand-ins is.
    pub(crate) fn is_on(&self, id: ThreadId) -> bool {
        let stand_ins = self.wish.stand_ins.lock();
        self.thread.iter().chain(stand_ins.iter().map(|(_, thread)| thread)).any(|thread| thread.thread().id() == id)
    }
}

/// Serves requests until the end of the store, or until a stand-in is relieved.
fn serve(inner: &Arc<Inner>, is_relieved: &AtomicBool) {
    let _stop = StopOnPanic(inner.log.clone());
    let mut has_work = false;
    loop {
        let wish = inner.checkpoints.wish.hear(inner.limits.period(), is_relieved);
        if wish == What::End {
            return;
        }
        let rolled_back = Store::of_thread(inner).roll_back_over_limit(None, false);
        // Another failure may be transient. Until the next success it is recorded, and reported when the log is full.
        let is_wanted = wish == What::Checkpoint || rolled_back.is_ok_and(RolledBack::has_freed_log);
        if is_wanted && inner.checkpoint().is_err() && inner.alive().is_err() {
            return;
        }
        if is_wanted || has_work {
            let kept = Store::of_thread(inner).keep_up(|| inner.checkpoints.wish.is_waiting());
            has_work = kept.is_interrupted;
            // The space of the pages that this has freed is returned by a checkpoint after it.
            if kept.has_changed && inner.checkpoint().is_err() && inner.alive().is_err() {
                return;
            }
        }
    }
}

/// A thread that does the work of the checkpointer, or of another stand-in, while that runs an undo that may wait for a lock:
/// of a transaction, perhaps, whose own rollback is due meanwhile. Drop relieves the thread, and does not wait for it, because
/// it may run such an undo itself.
#[derive(Debug)]
pub(crate) struct StandIn {
    wish: Arc<CheckpointRequest>,
    is_relieved: Arc<AtomicBool>,
}

impl StandIn {
    /// Starts one. If the system has no thread left, the store stops, as after an undo that fails: this one could wait without
    /// end.
    #[cold]
    pub(crate) fn start(inner: &Arc<Inner>) -> Option<StandIn> {
        let wish = Arc::clone(&inner.checkpoints.wish);
        let is_relieved = Arc::new(AtomicBool::new(false));
        let serves = (Arc::clone(inner), Arc::clone(&is_relieved));
        // Held until the thread is in the list: it may drop the last handle, and then looks for itself there.
        let mut stand_ins = wish.stand_ins.lock();
        let thread = Builder::new().name("cedrat-stands-in".into()).spawn(move || serve(&serves.0, &serves.1));
        let started = thread.map(|thread| {
            stand_ins.retain(|(is_relieved, _)| Arc::strong_count(is_relieved) > 1);
            stand_ins.push((Arc::clone(&is_relieved), thread));
        });
        drop(stand_ins);
        if let Err(error) = started {
            inner.log.stop(format!("no thread could be started that enforces limits beside an undo: {error}"));
            return None;
        }
        Some(StandIn { wish, is_relieved })
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // Under the mutex: otherwise the thread could wait after its last look.
        let _what = self.wish.what.lock();
        self.is_relieved.store(true, Ordering::Relaxed);
        self.wish.changed.notify_all();
    }
}

/// Stops the store when the checkpointer panics: without it the log would fill up without any report of the cause.
struct StopOnPanic(Log);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if cedrat_sync::thread::panicking() && !planted!("checkpointer_dies_silently") {
            self.0.stop("the checkpointer thread panicked; open the store again");
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.wish.say(What::End);
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has stopped the store and was printed.
            let _ = thread.join();
        }
        let next = || self.wish.stand_ins.lock().pop();
        // One starts another before it ends.
        while let Some((_, thread)) = next() {
            let _ = thread.join();
        }
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn running_checkpoint_is_not_repeated() {
        let (checkpoints, limits) = (Checkpoints::default(), Limits::of(&crate::Options::default()));
        checkpoints.every.store(100, Ordering::Relaxed);
        checkpoints.due_at.store(100, Ordering::Relaxed);
        let asked = || std::mem::take(&mut *checkpoints.wish.what.lock()) == What::Checkpoint;
        checkpoints.note(90, &limits);
        let written = checkpoints.begins();
        checkpoints.note(5, &limits); // during the checkpoint
        checkpoints.note_finished(written);
        checkpoints.note(90, &limits);
        assert!(!asked(), "95 bytes were written since one began");
        checkpoints.note(5, &limits);
        assert!(asked(), "a hundred were");
        // The end of a checkpoint that began long ago does not make the next one due earlier.
        checkpoints.note_finished(written);
        checkpoints.note(99, &limits);
        assert!(!asked());
        checkpoints.note(1, &limits);
        assert!(asked());
    }
}
