//! The archive of a store: its log, with what the store has recycled (Lemon §3.4; E18.9).
//!
//! 1. No part of the log is recycled before it is archived.
//! 2. The archiver thread extends the archive, and the indexer thread indexes it. Each checkpoint extends it, too, before it truncates
//!    the log.
//! 3. A failure is recorded, and does not stop the store. Until an attempt succeeds, the log keeps all that is not archived: a full log
//!    refuses transactions then, as on a full disk, and no transaction is rolled back for it.
//! 4. A panic of the archive's medium is a failure, too. It may have interrupted an attempt anywhere, so this opening makes no further
//!    attempt.
//! 5. If there is an archiver thread, checkpoints leave the archive's disk to it, and wait for it no longer than
//!    [`Options::archive_wait_max`](crate::Options). So a disk that hangs holds up no checkpoint and no transaction without limit.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant, SystemTime};

use cedrat_heap::Memory;
use cedrat_media::Media;
use cedrat_pages::{PageBuf, PageId};
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::thread::{Builder, JoinHandle, ThreadId};
use cedrat_sync::{Arc, Condvar, Mutex, planted};
use cedrat_wal::{ArchivePoint, FoundArchive, Log, LogArchive, LogError, LogOffset, Lsn};

use crate::error::{Error, Result};
use crate::options::Options;
use crate::rebuild::Rebuilder;
use crate::restore;
use crate::store::{Inner, Store};
use crate::trace::{event, span};

/// Minimum time between two extensions by the archiver thread.
const PERIOD_MIN: Duration = Duration::from_millis(1);

/// The state of the archive of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchiveStatus {
    /// The LSN up to which the archive has all records.
    pub up_to: Lsn,
    /// The failure of the last attempt to extend it, if that failed. Attempts go on, unless a call of the archive's medium has panicked.
    pub failure: Option<String>,
    /// The LSN up to which records are in the index by which damaged pages are rebuilt. The indexer thread indexes the others, or
    /// else the reader of a damaged page.
    pub indexed_up_to: Lsn,
    /// The failure of the indexer thread when it last extended that index, or checked the backup: damaged pages may not be
    /// rebuilt.
    pub rebuild_failure: Option<String>,
    /// The time since when an attempt to extend it runs, or a checkpoint waits for one; `None` if neither is the case. A time long ago
    /// means that the disk of the archive does not answer.
    pub waits_since: Option<SystemTime>,
}

impl ArchiveStatus {
    fn at(up_to: Lsn) -> ArchiveStatus {
        ArchiveStatus { up_to, failure: None, indexed_up_to: Lsn::ZERO, rebuild_failure: None, waits_since: None }
    }
}

/// The point before which an archive forgets everything.
#[derive(Clone, Copy, Debug)]
pub enum ForgetBefore<'a> {
    /// The first record that restores of this backup, and of younger ones, need. The backup is only read.
    Backup(&'a Arc<dyn Media>),
    /// The record with this LSN. Backups that need older records are not restored with the archive any more.
    Lsn(Lsn),
    /// The last record of the last moment up to this time.
    Time(SystemTime),
}

/// Lets an archive that no store has open forget the log before a backup, an LSN or a moment. Returns the first LSN that it keeps.
///
/// # Errors
/// Those of [`Store::forget_archive`]; [`LogError::InUse`] if a store has it open.
pub fn forget_archive(archive: &Arc<dyn Media>, before: ForgetBefore<'_>) -> Result<Lsn> {
    let point = point(archive, before)?;
    let mut archive = LogArchive::open_alone(archive)?;
    archive.forget(&point)?;
    Ok(archive.begins())
}

/// Returns the point of an archive up to which it may forget everything.
fn point(archive: &Arc<dyn Media>, before: ForgetBefore<'_>) -> Result<ArchivePoint> {
    let found = FoundArchive::look(archive)?;
    let lsn = match before {
        ForgetBefore::Backup(backup) => {
            let (_not_open, backup) = restore::look(backup)?;
            return Ok(found.point_of_backup(&backup)?);
        }
        ForgetBefore::Lsn(lsn) => lsn,
        ForgetBefore::Time(time) => found.moment_at(time).ok_or(Error::NoSuchMoment { time })?.up_to,
    };
    Ok(found.point_at(lsn)?)
}

/// The archive of an open store.
#[derive(Debug)]
pub(crate) struct Archive {
    archive: Mutex<LogArchive>,
    rebuilder: Rebuilder,
    archive_disk: Arc<dyn Media>,
    progress: Mutex<Progress>,
    /// An attempt has ended or is requested, or the archiver ends.
    changed: Condvar,
    wait_max: Duration,
    /// Whether the last checkpoint has found that the archive lacks log.
    lagged_at_checkpoint: AtomicBool,
}

/// The part of the state that other threads read while the archive is extended.
#[derive(Debug)]
struct Progress {
    status: ArchiveStatus,
    /// For each partition of the log, the offset from which on it is not archived.
    kept_from: Vec<LogOffset>,
    /// The time of `status.waits_since`, for the threads that wait.
    waits_since: Option<Instant>,
    is_running: bool,
    /// Whether a checkpoint has waited for the disk for too long since the last attempt has ended.
    is_overdue: bool,
    /// The number of attempts that have ended.
    ended: u64,
    /// The message of a panic: this opening makes no further attempt.
    panic: Option<String>,
    /// Whether a checkpoint has requested an attempt of the archiver.
    is_requested: bool,
    archiver: ArchiverState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArchiverState {
    /// There is no archiver: each checkpoint extends the archive itself.
    Missing,
    Serves,
    /// The archiver is to end.
    Ends,
}

impl Progress {
    fn wait_begins(&mut self) {
        if self.waits_since.is_none() {
            self.waits_since = Some(Instant::now());
            self.status.waits_since = Some(SystemTime::now());
        }
    }

    fn wait_ends(&mut self) {
        (self.waits_since, self.status.waits_since, self.is_overdue) = (None, None, false);
        if self.is_requested {
            self.wait_begins();
        }
    }

    /// Returns the time that a checkpoint may still wait.
    fn left_to_wait(&mut self, wait_max: Duration) -> Duration {
        self.wait_begins();
        match self.waits_since {
            Some(_) if planted!("hanging_archive_awaited") => panic!("it would wait without limit"),
            Some(since) => wait_max.saturating_sub(since.elapsed()),
            None => wait_max,
        }
    }
}

impl Archive {
    /// Opens the archive of a log, before anything of it is recycled.
    pub(crate) fn open(to: &Arc<dyn Media>, log: &Log, memory: &Memory, options: &Options) -> Result<Archive> {
        let rebuilder = Rebuilder::open(to, log, options.backup.as_ref(), options.archive_run_bytes)?;
        let archive = LogArchive::open(to, log)?;
        memory.refuse_plain_stores();
        let progress = Progress {
            status: ArchiveStatus::at(archive.up_to()),
            kept_from: archive.kept_from(),
            waits_since: None,
            is_running: false,
            is_overdue: false,
            ended: 0,
            panic: None,
            is_requested: false,
            archiver: ArchiverState::Missing,
        };
        Ok(Archive {
            archive: Mutex::new(archive),
            rebuilder,
            archive_disk: Arc::clone(to),
            progress: Mutex::new(progress),
            changed: Condvar::new(),
            wait_max: options.archive_wait_max,
            lagged_at_checkpoint: AtomicBool::new(false),
        })
    }

    /// Archives all log that has become durable since the last extension.
    pub(crate) fn extend(&self, log: &Log, memory: &Memory) -> Result<Lsn> {
        self.extend_locked(&mut self.archive.lock(), log, memory)
    }

    /// Reads the archive as it is now.
    pub(crate) fn look(&self) -> Result<FoundArchive> {
        Ok(FoundArchive::look(&self.archive_disk)?)
    }

    fn extend_locked(&self, archive: &mut LogArchive, log: &Log, memory: &Memory) -> Result<Lsn> {
        span!("archive");
        let extended = self.attempt(archive, true, |archive| archive.extend(log, || memory.describe()));
        match &extended {
            Ok(_up_to) => {
                event!(DEBUG, up_to = _up_to.get(), "archive extended");
            }
            Err(_error) => {
                event!(WARN, error = %_error, "archive not extended");
            }
        }
        let mut progress = self.progress.lock();
        // A failure of the log itself is reported by the store.
        progress.status.failure = extended.as_ref().err().map(|error| format!("the archive was not extended: {error}"));
        progress.status.up_to = archive.up_to();
        progress.kept_from = archive.kept_from();
        (progress.is_running, progress.ended) = (false, progress.ended + 1);
        progress.wait_ends();
        self.changed.notify_all();
        extended
    }

    /// Prepares the rebuilding of pages, a piece at a time. Returns whether there is more to do.
    fn prepare_rebuild(&self, inner: &Inner) -> bool {
        let archived = self.archive.lock().archived();
        let prepared = catch_unwind(AssertUnwindSafe(|| self.rebuilder.prepare(inner, &archived)));
        let prepared = prepared
            .unwrap_or_else(|panic| Err(Error::ArchivePanicked { message: message_of(&*panic) }))
            .map_err(|error| error.to_string());
        let status = &mut self.progress.lock().status;
        status.rebuild_failure = prepared.as_ref().err().cloned();
        let (up_to, more) = prepared.unwrap_or((status.indexed_up_to, false));
        status.indexed_up_to = up_to;
        more
    }

    /// Waits until another attempt to extend the archive has ended than the last time. Returns `false` when the archiver ends.
    fn next_extension(&self, seen: &mut u64) -> bool {
        let mut progress = self.progress.lock();
        while progress.archiver == ArchiverState::Serves {
            if progress.ended != *seen {
                *seen = progress.ended;
                return true;
            }
            self.changed.wait(&mut progress);
        }
        false
    }

    fn is_served(&self) -> bool {
        self.progress.lock().archiver == ArchiverState::Serves
    }

    /// Returns a page with all of its durable changes.
    pub(crate) fn rebuild(&self, inner: &Inner, page: PageId) -> Result<PageBuf> {
        loop {
            let archived = {
                let mut archive = self.archive.lock();
                if !planted!("page_rebuilt_from_old_archive") {
                    self.extend_locked(&mut archive, &inner.log, &inner.memory)?;
                }
                archive.archived()
            };
            let rebuilt = self.rebuilder.rebuild(inner, &archived, page);
            // The archive may have forgotten meanwhile the log that was to be read.
            let has_forgotten = || self.archive.lock().begins() != archived.first();
            if rebuilt.is_ok() || !has_forgotten() || planted!("forgetting_refuses_page") {
                return rebuilt;
            }
        }
    }

    /// Forgets the log before a backup, an LSN or a moment, and returns the first LSN that the archive keeps.
    fn forget(&self, before: ForgetBefore<'_>) -> Result<Lsn> {
        let point = point(&self.archive_disk, before)?;
        let archive = &mut *self.archive.lock();
        let forgotten = self.attempt(archive, false, |archive| archive.forget(&point));
        self.progress.lock().wait_ends();
        forgotten.map(|()| archive.begins())
    }

    /// Runs an attempt to extend the archive, or another change of it, and catches a panic.
    fn attempt<T>(
        &self,
        archive: &mut LogArchive,
        is_extension: bool,
        work: impl FnOnce(&mut LogArchive) -> std::result::Result<T, LogError>,
    ) -> Result<T> {
        let mut progress = self.progress.lock();
        if let Some(message) = &progress.panic {
            return Err(Error::ArchivePanicked { message: message.clone() });
        }
        progress.is_running |= is_extension;
        progress.wait_begins();
        drop(progress);
        match catch_unwind(AssertUnwindSafe(|| work(archive))) {
            Ok(done) => Ok(done?),
            Err(panic) if planted!("panicked_archive_forgotten") => resume_unwind(panic),
            Err(panic) => {
                let message = self.progress.lock().panic.insert(message_of(&*panic)).clone();
                Err(Error::ArchivePanicked { message })
            }
        }
    }

    /// Extends the archive as [`extend`](Archive::extend) does, for a checkpoint: by the archiver, if there is one. A failure is recorded.
    /// If `waits` is not set, an attempt that runs already is not waited for.
    pub(crate) fn extend_for_checkpoint(&self, log: &Log, memory: &Memory, waits: bool) {
        let is_extended = self.await_archiver(waits).unwrap_or_else(|| {
            let archive = if waits { Some(self.archive.lock()) } else { self.archive.try_lock() };
            archive.is_some_and(|mut archive| self.extend_locked(&mut archive, log, memory).is_ok())
        });
        self.lagged_at_checkpoint.store(!is_extended, Ordering::Relaxed);
    }

    /// Waits until the archiver has made an attempt that begins now, and returns whether the archive was extended. `None`: there is no
    /// archiver.
    fn await_archiver(&self, waits: bool) -> Option<bool> {
        let mut progress = self.progress.lock();
        if progress.archiver != ArchiverState::Serves {
            return None;
        }
        if progress.is_running && !waits {
            return Some(false);
        }
        let awaited = progress.ended + 1 + u64::from(progress.is_running);
        progress.is_requested = true;
        self.changed.notify_all();
        while progress.ended < awaited {
            let left = progress.left_to_wait(self.wait_max);
            if left.is_zero() {
                progress.is_overdue = true;
                return Some(false);
            }
            self.changed.wait_for(&mut progress, left);
            if progress.archiver != ArchiverState::Serves {
                return None;
            }
        }
        Some(progress.status.failure.is_none())
    }

    /// Waits until the archiver is to extend the archive: on request, or after `period`. Returns `false` when it is to end.
    fn next_attempt(&self, period: Duration) -> bool {
        let mut progress = self.progress.lock();
        while progress.archiver == ArchiverState::Serves && progress.panic.is_none() {
            let is_due = progress.is_requested || self.changed.wait_for(&mut progress, period).timed_out();
            if is_due && progress.archiver == ArchiverState::Serves {
                progress.is_requested = false;
                return true;
            }
        }
        false
    }

    /// Starts or ends the work of the archiver.
    fn set_archiver(&self, state: ArchiverState) {
        let mut progress = self.progress.lock();
        progress.archiver = state;
        self.changed.notify_all();
    }

    /// Whether the last checkpoint has found that the archive lacks log: the next one may release more.
    pub(crate) fn lagged_at_checkpoint(&self) -> bool {
        self.lagged_at_checkpoint.load(Ordering::Relaxed)
    }

    pub(crate) fn status(&self) -> ArchiveStatus {
        self.progress.lock().status.clone()
    }

    /// Returns the reason why the log keeps what is not archived, if there is one: the last attempt has failed, or its disk hangs.
    pub(crate) fn hindrance(&self) -> Option<String> {
        let progress = self.progress.lock();
        let since = progress.waits_since.filter(|_| progress.is_overdue && !planted!("hanging_archive_not_named"));
        let of_disk = since.map(|since| {
            format!("the archive was not extended: its disk has not answered for {} s", since.elapsed().as_secs())
        });
        of_disk.or_else(|| progress.status.failure.clone())
    }

    /// Lowers the offsets from which on the log is kept to those from which on it is not archived; adds them if there are none.
    pub(crate) fn limit_truncation(&self, offsets: &mut Vec<LogOffset>) {
        if planted!("log_recycled_before_archived") {
            return;
        }
        let progress = self.progress.lock();
        offsets.resize(progress.kept_from.len(), LogOffset::new(u64::MAX));
        offsets.iter_mut().zip(&progress.kept_from).for_each(|(offset, &from)| *offset = from.min(*offset));
    }
}

/// Returns the message of a panic.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<&str>().map(|message| (*message).to_owned());
    message.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}

impl Store {
    /// Returns the state of the store's archive; `None` if it was opened without one ([`Options::archive`](Options)).
    pub fn archive_status(&self) -> Option<ArchiveStatus> {
        self.inner.archive.as_ref().map(Archive::status)
    }

    /// Archives all log that is durable now, and returns the LSN up to which the archive has all records. The archiver thread does
    /// the same in each [`Options::archive_period`](Options). So do each checkpoint and [`Store::close`]; a drop does not.
    ///
    /// # Errors
    /// [`Error::Misuse`] without an archive. Errors of its disk: the archive is as it was, and the store goes on.
    pub fn extend_archive(&self) -> Result<Lsn> {
        self.archive()?.extend(&self.inner.log, &self.inner.memory)
    }

    /// Lets the archive forget the log before a backup, an LSN or a moment, and returns the first LSN that it keeps. It reads the archive
    /// first; transactions and extensions of the archive go on meanwhile.
    ///
    /// # Errors
    /// [`Error::Misuse`] without an archive. [`Error::Log`] with [`LogError::ArchiveBeginsLater`]: the archive does not reach back to the
    /// backup any more; with [`LogError::NotArchived`]: it ends before the backup or the LSN; with [`LogError::Foreign`]: it is not of
    /// the backup's history. [`Error::NoSuchMoment`]. Damage of archive or backup: nothing is forgotten. Errors of the disk: the archive
    /// has its old beginning or the new one, and the next call tries again.
    pub fn forget_archive(&self, before: ForgetBefore<'_>) -> Result<Lsn> {
        let backup;
        let before = match before {
            ForgetBefore::Backup(media) => {
                backup = self.decrypted(media)?;
                ForgetBefore::Backup(&backup)
            }
            other => other,
        };
        self.archive()?.forget(before)
    }

    fn archive(&self) -> Result<&Archive> {
        self.inner.alive_here()?;
        let without = "the store was opened without an archive: set Options::archive";
        self.inner.archive.as_ref().ok_or(Error::Misuse(without))
    }
}

/// The archiver thread, which extends the archive, and the indexer thread, which prepares the rebuilding of pages. A backup whose disk
/// hangs, and a long read of the archive, delay only the indexer. Drop ends the threads and waits for them.
pub(crate) struct Archiver {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
}

impl Archiver {
    /// Starts the threads, if the store has an archive.
    pub(crate) fn start(inner: &Arc<Inner>, period: Duration) -> Result<Option<Archiver>> {
        let Some(archive) = &inner.archive else { return Ok(None) };
        archive.set_archiver(ArchiverState::Serves);
        let mut archiver = Archiver { inner: Arc::clone(inner), threads: Vec::new() };
        let period = period.max(PERIOD_MIN);
        // Dropped, it ends those that were started, and checkpoints extend the archive themselves.
        archiver.spawn("cedrat-archiver", move |inner, archive| serve(inner, archive, period))?;
        archiver.spawn("cedrat-indexer", serve_index)?;
        Ok(Some(archiver))
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce(&Inner, &Archive) + Send + 'static) -> Result<()> {
        let served = Arc::clone(&self.inner);
        let run = move || {
            if let Some(archive) = &served.archive {
                work(&served, archive);
            }
        };
        let started = Builder::new().name(name.into()).spawn(run);
        self.threads.push(started.map_err(|error| Error::io("starting the threads of an archive", error))?);
        Ok(())
    }

    pub(crate) fn is_on(&self, id: ThreadId) -> bool {
        self.threads.iter().any(|thread| thread.thread().id() == id)
    }
}

fn serve(inner: &Inner, archive: &Archive, period: Duration) {
    /// Lets checkpoints extend the archive themselves, also after a panic.
    struct Ended<'a>(&'a Archive);
    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            self.0.set_archiver(ArchiverState::Missing);
        }
    }
    let _ended = Ended(archive);
    while archive.next_attempt(period) && inner.alive().is_ok() {
        // A failure is recorded, and the next attempt may succeed.
        let _ = archive.extend(&inner.log, &inner.memory);
        if planted!("archiver_waits_for_backup") {
            archive.prepare_rebuild(inner);
        }
    }
}

fn serve_index(inner: &Inner, archive: &Archive) {
    let mut seen = 0;
    while archive.next_extension(&mut seen) && inner.alive().is_ok() {
        while archive.prepare_rebuild(inner) && archive.is_served() {}
    }
}

impl Drop for Archiver {
    fn drop(&mut self) {
        if let Some(archive) = &self.inner.archive {
            archive.set_archiver(if self.threads.is_empty() { ArchiverState::Missing } else { ArchiverState::Ends });
        }
        for thread in self.threads.drain(..) {
            // A panic in the thread was printed; checkpoints go on to extend the archive.
            let _ = thread.join();
        }
    }
}
