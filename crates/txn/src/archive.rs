//! The archive of a store: its log, with what the store has recycled (Lemon §3.4; E18.9).
//!
//! 1. No part of the log is recycled before it is archived.
//! 2. The archiver thread extends the archive. Each checkpoint does, too, before it truncates the log.
//! 3. A failure is recorded, and does not stop the store. Until an attempt succeeds the log keeps what is not archived: a full log
//!    refuses transactions then, as on a full disk, and no transaction is rolled back for it.

use std::time::Duration;

use cedrat_heap::Memory;
use cedrat_media::Media;
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::thread::{Builder, JoinHandle, ThreadId};
use cedrat_sync::{Arc, Condvar, Mutex, planted};
use cedrat_wal::{FoundArchive, Log, LogArchive, LogOffset, Lsn};

use crate::error::{Error, Result};
use crate::store::{Inner, Store};

/// Minimum time between two extensions by the archiver thread.
const PERIOD_MIN: Duration = Duration::from_millis(1);

/// The state of the archive of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchiveStatus {
    /// The archive has all records up to this LSN.
    pub up_to: Lsn,
    /// The failure of the last attempt to extend it, if it failed. Attempts go on.
    pub failure: Option<String>,
}

/// The archive of an open store.
#[derive(Debug)]
pub(crate) struct Archive {
    to: Arc<dyn Media>,
    archive: Mutex<LogArchive>,
    progress: Mutex<Progress>,
    /// Whether the last checkpoint has found that the archive lacks log.
    lagged_at_checkpoint: AtomicBool,
}

/// The part of the state that others read while the archive is extended.
#[derive(Debug)]
struct Progress {
    status: ArchiveStatus,
    /// For each partition of the log, the offset from which on it is not archived.
    kept_from: Vec<LogOffset>,
}

impl Archive {
    /// Opens the archive of a log, before anything of it is recycled.
    pub(crate) fn open(to: &Arc<dyn Media>, log: &Log, memory: &Memory) -> Result<Archive> {
        let archive = LogArchive::open(to, log)?;
        memory.refuse_plain_stores();
        let status = ArchiveStatus { up_to: archive.up_to(), failure: None };
        let progress = Progress { status, kept_from: archive.kept_from() };
        Ok(Archive {
            to: Arc::clone(to),
            archive: Mutex::new(archive),
            progress: Mutex::new(progress),
            lagged_at_checkpoint: AtomicBool::new(false),
        })
    }

    /// Archives what has become durable since.
    pub(crate) fn extend(&self, log: &Log, memory: &Memory) -> Result<Lsn> {
        self.extend_locked(&mut self.archive.lock(), log, memory)
    }

    /// Reads the archive as it is now.
    pub(crate) fn look(&self) -> Result<FoundArchive> {
        Ok(FoundArchive::look(&self.to)?)
    }

    fn extend_locked(&self, archive: &mut LogArchive, log: &Log, memory: &Memory) -> Result<Lsn> {
        let extended = archive.extend(log, || memory.describe());
        let failure = extended.as_ref().err().map(|error| format!("the archive was not extended: {error}"));
        let kept_from = archive.kept_from();
        // A failure of the log itself is reported by the store.
        *self.progress.lock() = Progress { status: ArchiveStatus { up_to: archive.up_to(), failure }, kept_from };
        Ok(extended?)
    }

    /// Extends the archive as [`extend`](Archive::extend) does, for a checkpoint. A failure is recorded. If `waits` is not set, a
    /// thread that extends it already is not waited for.
    pub(crate) fn extend_for_checkpoint(&self, log: &Log, memory: &Memory, waits: bool) {
        let archive = if waits { Some(self.archive.lock()) } else { self.archive.try_lock() };
        let is_extended = archive.is_some_and(|mut archive| self.extend_locked(&mut archive, log, memory).is_ok());
        self.lagged_at_checkpoint.store(!is_extended, Ordering::Relaxed);
    }

    /// Whether the last checkpoint has found that the archive lacks log: the next one may release more.
    pub(crate) fn lagged_at_checkpoint(&self) -> bool {
        self.lagged_at_checkpoint.load(Ordering::Relaxed)
    }

    pub(crate) fn status(&self) -> ArchiveStatus {
        self.progress.lock().status.clone()
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

impl Store {
    /// Returns the state of the store's archive; `None` if it was opened without one ([`Options::archive`](crate::Options)).
    pub fn archive_status(&self) -> Option<ArchiveStatus> {
        self.inner.archive.as_ref().map(Archive::status)
    }

    /// Archives all that is durable now, and returns the LSN up to which the archive has all records. The archiver thread does
    /// the same each [`Options::archive_period`](crate::Options), each checkpoint does, and [`Store::close`]; a drop does not.
    ///
    /// # Errors
    /// [`Error::Misuse`] without an archive. Errors of its disk: the archive is as it was, and the store goes on.
    pub fn extend_archive(&self) -> Result<Lsn> {
        self.inner.alive_here()?;
        let without = "the store was opened without an archive: set Options::archive";
        self.inner.archive.as_ref().ok_or(Error::Misuse(without))?.extend(&self.inner.log, &self.inner.memory)
    }
}

/// The thread that extends the archive. Drop ends the thread and waits for it.
pub(crate) struct Archiver {
    end: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Archiver {
    /// Starts the thread, if the store has an archive.
    pub(crate) fn start(inner: &Arc<Inner>, period: Duration) -> Result<Option<Archiver>> {
        if inner.archive.is_none() {
            return Ok(None);
        }
        let end = Arc::new((Mutex::new(false), Condvar::new()));
        let (inner, ended) = (Arc::clone(inner), Arc::clone(&end));
        let thread = Builder::new()
            .name("cedrat-archiver".into())
            .spawn(move || serve(&inner, &ended, period))
            .map_err(|error| Error::io("starting the archiver thread", error))?;
        Ok(Some(Archiver { end, thread: Some(thread) }))
    }

    pub(crate) fn is_on(&self, id: ThreadId) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.thread().id() == id)
    }
}

fn serve(inner: &Inner, (is_ended, changed): &(Mutex<bool>, Condvar), period: Duration) {
    let mut ended = is_ended.lock();
    while !*ended && inner.alive().is_ok() {
        if changed.wait_for(&mut ended, period.max(PERIOD_MIN)).timed_out() {
            drop(ended);
            // A failure is recorded, and the next attempt may succeed.
            inner.archive.iter().for_each(|archive| drop(archive.extend(&inner.log, &inner.memory)));
            ended = is_ended.lock();
        }
    }
}

impl Drop for Archiver {
    fn drop(&mut self) {
        *self.end.0.lock() = true;
        self.end.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was printed; checkpoints go on to extend the archive.
            let _ = thread.join();
        }
    }
}
