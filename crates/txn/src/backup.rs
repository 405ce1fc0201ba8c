//! Backups while transactions run (Lemon §3.4, LLADD §3).
//!
//! A backup is a directory that opens like a store after a crash: pages and heaps as they were at some moment after a checkpoint,
//! each at another one, and the log from that checkpoint on (E18).
//!
//! 1. A running backup keeps the log from its checkpoint on, and the pages that are freed after it: they are neither punched nor
//!    used again. Checkpoints go on, and truncate the log when the backup has ended.
//! 2. Pages and heaps are copied before the end of the log's copy is determined: none of them has a change that is not in the
//!    copied log.
//! 3. A full log ends the backup, and not a transaction: then the backup fails.
//! 4. An incremental backup has the pages and chunks that changed since an earlier backup, and the log since its own checkpoint
//!    (E18.18).
//! 5. The control file is written last. Without it the directory is refused as damaged.

use std::fmt;
use std::io;
use std::time::Duration;

use cedrat_heap::{EarlierHeaps, HeapsCopy};
use cedrat_media::Media;
use cedrat_pages::{EarlierPages, PAGE_FILE};
use cedrat_sync::{Arc, Mutex, planted};
use cedrat_wal::{Checkpoint, Control, CopyEnd, LogCopy, LogError, LogOffset, Lsn};

use crate::chain::BackupChain;
use crate::error::{Error, Result};
use crate::increment::{ChangedFile, Identity, IncrementList, IncrementMedia};
use crate::known_backups::{self, BACKUPS_FILE};
use crate::pace::Pace;
use crate::store::{Inner, Store};
use crate::trace::{event, span};

/// Options of a backup.
#[derive(Default)]
pub struct BackupOptions<'a> {
    /// The earlier backup that an incremental one continues: what changed since is copied. `None`: all is copied.
    pub since: Option<&'a BackupChain>,
    /// The maximum number of bytes of pages and heaps that are read in a second; 0: no limit.
    pub bytes_per_second_max: u64,
    /// Called after each piece, by the thread that backs up.
    pub progress: Option<&'a mut dyn FnMut(BackupProgress)>,
}

impl fmt::Debug for BackupOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupOptions")
            .field("since", &self.since)
            .field("bytes_per_second_max", &self.bytes_per_second_max)
            .field("progress", &self.progress.is_some())
            .finish()
    }
}

/// The progress of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupProgress {
    /// The number of bytes of pages and heaps that were read.
    pub bytes: u64,
    /// The number of bytes of pages and heaps that the store had when the backup began.
    pub of: u64,
}

/// The report of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// The LSN up to which the backup has every committed transaction. It may have later ones.
    pub up_to: Lsn,
    /// The number of bytes of pages and heaps that were read.
    pub bytes: u64,
    /// The number of pages of the store that have been written.
    pub pages: u64,
    /// The reason why no incremental backup can continue this one; `None`: one can. The backup is complete in any case, and a later
    /// one of the same store may be continued.
    pub cannot_continue: Option<String>,
    /// Total time.
    pub total: Duration,
}

/// The running backups.
#[derive(Debug)]
pub(crate) struct Backups {
    media: Arc<dyn Media>,
    running: Mutex<Vec<Arc<Running>>>,
    /// Held while a backup is added to the store's list of backups.
    noting: Mutex<()>,
}

/// A running backup.
#[derive(Debug)]
struct Running {
    checkpoint: Checkpoint,
    /// For each partition of the log, the offset from which on it is copied. No segment from there on is recycled: the first ones may
    /// have no record that the checkpoint needs, but the blocks of a partition are read without gaps.
    scan_from: Vec<LogOffset>,
    pace: Pace,
}

impl Backups {
    pub(crate) fn new(media: &Arc<dyn Media>) -> Backups {
        Backups { media: Arc::clone(media), running: Mutex::default(), noting: Mutex::default() }
    }

    /// Returns the directory of the store.
    pub(crate) fn media(&self) -> &dyn Media {
        &*self.media
    }

    /// Returns the oldest LSN from which on running backups need freed pages.
    pub(crate) fn redo_needed(&self) -> Lsn {
        let oldest = self.running.lock().iter().map(|backup| backup.checkpoint.redo_lsn).min();
        oldest.filter(|_| !planted!("pages_of_backup_reused")).unwrap_or(Lsn::MAX)
    }

    /// Returns the LSN from which on each running backup keeps the log.
    pub(crate) fn scan_lsns(&self) -> Vec<Lsn> {
        self.running.lock().iter().map(|backup| backup.checkpoint.scan_lsn).collect()
    }

    /// Returns the offsets of the log from which on running backups need it, one for each partition; none without a backup.
    pub(crate) fn log_needed(&self) -> Vec<LogOffset> {
        let running = self.running.lock();
        let mut needed: Vec<LogOffset> = Vec::new();
        for backup in running.iter().filter(|_| !planted!("log_of_backup_truncated")) {
            needed.resize(backup.scan_from.len(), LogOffset::new(u64::MAX));
            needed.iter_mut().zip(&backup.scan_from).for_each(|(needed, &from)| *needed = from.min(*needed));
        }
        needed
    }

    /// Whether a running backup keeps log before an LSN.
    pub(crate) fn keep_log_before(&self, scan_lsn: Lsn) -> bool {
        let is_kept = self.running.lock().iter().any(|backup| backup.checkpoint.scan_lsn < scan_lsn);
        is_kept && !planted!("backup_keeps_full_log")
    }

    /// Ends the backups that keep log before an LSN.
    pub(crate) fn end_before(&self, scan_lsn: Lsn) {
        if planted!("backup_fills_log") {
            return;
        }
        self.running.lock().retain(|backup| {
            let is_kept = backup.checkpoint.scan_lsn >= scan_lsn;
            if !is_kept {
                backup.pace.end();
            }
            is_kept
        });
    }
}

/// A backup, as long as it runs.
struct Backup<'s, 'o> {
    inner: &'s Inner,
    /// The content of the control file at the checkpoint.
    since: Control,
    running: Arc<Running>,
    bytes: u64,
    of: u64,
    progress: Option<&'o mut dyn FnMut(BackupProgress)>,
}

/// The backup before an incremental one.
struct Earlier {
    identity: Identity,
    pages: EarlierPages,
    heaps: EarlierHeaps,
}

impl Store {
    /// Copies the store to an empty directory, while transactions run. The copy opens like this store after a crash, and has
    /// every transaction that committed before this call. Both have the same identity: never let both take part in
    /// two-phase commits.
    ///
    /// With [`BackupOptions::since`] the backup is incremental: all pages of the store are read, and all chunks of the earlier backup's
    /// heaps, and those that changed since are written. It is [restored](crate::restore) with the earlier backups
    /// ([`BackupChain::media`]).
    ///
    /// A heap that is created or dropped meanwhile may be in the backup or not.
    ///
    /// # Errors
    /// [`Error::BackupEnded`]: the log was full, and the backup kept it from being truncated. [`Error::Log`] with
    /// [`LogError::AlreadyThere`]: the directory is not empty. [`Error::CannotContinue`]: the earlier backup is of another store or
    /// another history, or was opened since. Damage of this store, and errors of the disks: the directory is no backup then.
    pub fn backup(&self, to: &Arc<dyn Media>, options: BackupOptions<'_>) -> Result<BackupReport> {
        span!("backup");
        self.inner.alive()?;
        let earlier = options.since.map(|chain| self.earlier(chain)).transpose()?;
        let media = &self.encrypted(to)?;
        let to: &Arc<dyn Media> = match earlier {
            Some(_) => &(Arc::new(IncrementMedia(Arc::clone(media))) as Arc<dyn Media>),
            None => media,
        };
        if let Some(file) = HeapsCopy::foreign_file(&**to)?.filter(|_| !planted!("foreign_heaps_ignored")) {
            return Err(LogError::AlreadyThere { file }.into());
        }
        let log = LogCopy::begin(to)?;
        let mut backup = Backup::begin(&self.inner, options)?;
        let copied = backup.copy(to, log, earlier.as_ref()).and_then(|(report, changed)| {
            let list = |earlier: &Earlier| {
                IncrementList::write(&**media, self.inner.log.control().store, earlier.identity, changed)
            };
            earlier.as_ref().map_or(Ok(()), list).map(|()| report)
        });
        match copied {
            Err(_) if backup.is_ended() => Err(Error::BackupEnded { bytes: backup.bytes }),
            Err(error) => self.inner.alive().and(Err(error)),
            Ok(report) => {
                event!(
                    INFO,
                    up_to = report.up_to.get(),
                    bytes = report.bytes,
                    pages = report.pages,
                    "backup completed"
                );
                Ok(report)
            }
        }
    }

    /// Refuses a backup that this store cannot continue.
    fn earlier(&self, chain: &BackupChain) -> Result<Earlier> {
        let store = self.inner.log.control().store;
        let refused = |why| Err(Error::CannotContinue { up_to: chain.up_to(), why });
        if chain.store() != store {
            return refused("it is of another store");
        }
        if chain.was_opened() {
            return refused("it was opened as a store since it was made");
        }
        let is_known = known_backups::has(&*self.inner.backups.media, &store, chain.identity())
            .map_err(|error| Error::io("reading the list of backups", error))?;
        if !is_known && !planted!("backup_of_other_history_continued") {
            return refused(
                "the store's list of its backups lacks it: another history of the store made it, 256 newer ones were made, or the \
                 list could not be written",
            );
        }
        Ok(Earlier { identity: chain.identity(), pages: chain.pages()?, heaps: chain.heaps()? })
    }
}

impl<'s, 'o> Backup<'s, 'o> {
    fn begin(inner: &'s Inner, options: BackupOptions<'o>) -> Result<Backup<'s, 'o>> {
        let (since, running) = inner.after_checkpoint(|| {
            let since = inner.log.control();
            let scan_from = since.partitions.iter().map(|partition| partition.scan_from).collect();
            let pace = Pace::new(options.bytes_per_second_max);
            let running = Arc::new(Running { checkpoint: since.checkpoint, scan_from, pace });
            inner.backups.running.lock().push(Arc::clone(&running));
            (since, running)
        })?;
        let of = inner.pool.file_len() + inner.memory.copied_len();
        Ok(Backup { inner, since, running, bytes: 0, of, progress: options.progress })
    }

    fn is_ended(&self) -> bool {
        self.running.pace.is_ended()
    }

    /// Copies pages, heaps and log. Returns the files of which an incremental backup has only changes.
    fn copy(
        &mut self,
        to: &Arc<dyn Media>,
        log: LogCopy,
        earlier: Option<&Earlier>,
    ) -> Result<(BackupReport, Vec<ChangedFile>)> {
        let inner = self.inner;
        let too_early = if planted!("backup_ends_before_pages") { Some(CopyEnd::now(&inner.log)?) } else { None };
        let mut pages = inner.pool.copy(to, earlier.map(|earlier| &earlier.pages), &mut |bytes| self.copied(bytes))?;
        let heaps = inner.memory.copy(to, earlier.map(|earlier| &earlier.heaps), &mut |bytes| self.copied(bytes))?;
        let heaps = heaps.complete(&inner.memory, || CopyEnd::now(&inner.log).map_err(cedrat_heap::Error::Stopped))?;
        inner.pool.grow_copy(&**to, &mut pages, earlier.is_some())?;
        let end = too_early.unwrap_or(heaps.end);
        let up_to = end.up_to();
        let log = log.copy(&inner.log, &self.since, end)?;
        if self.is_ended() {
            // The log may have been recycled while it was copied.
            return Err(Error::BackupEnded { bytes: self.bytes });
        }
        let cannot_continue = self.note(log.control(), heaps.checksum)?;
        log.complete()?;
        let mut changed = vec![ChangedFile::new(PAGE_FILE.into(), pages.file_len, pages.units)];
        changed.extend(heaps.files.into_iter().map(|file| ChangedFile::new(file.name, file.len, file.units)));
        let total = self.running.pace.began.elapsed();
        Ok((BackupReport { up_to, bytes: self.bytes, pages: pages.pages, cannot_continue, total }, changed))
    }

    /// Adds the backup to the store's list of backups, so that an incremental one can continue it. A failure, on a full disk for
    /// example, does not fail the backup: its reason is returned, and the backup cannot be continued.
    fn note(&self, control: &Control, heaps: u32) -> Result<Option<String>> {
        let identity = Identity::of(control, heaps)?;
        let _one_at_a_time = self.inner.backups.noting.lock();
        let noted = known_backups::note(&*self.inner.backups.media, &control.store, identity);
        let failed = noted.err().filter(|_| !planted!("unnoted_backup_hidden"));
        let why = failed.map(|error| format!("cannot write the file {BACKUPS_FILE} of the store: {error}"));
        if let Some(_why) = &why {
            event!(WARN, error = %_why, "no incremental backup can continue this one");
        }
        Ok(why)
    }

    /// Counts bytes, and waits as the rate requires. Refuses to go on if the backup was ended or the store has stopped, also while
    /// it waits.
    fn copied(&mut self, bytes: u64) -> io::Result<()> {
        self.bytes += bytes;
        if let Some(progress) = &mut self.progress {
            progress(BackupProgress { bytes: self.bytes, of: self.of });
        }
        self.inner.counts.backed_up(bytes);
        let is_stopped = || self.inner.log.is_stopped() && !planted!("stopped_store_copied");
        if self.running.pace.wait(self.bytes, is_stopped) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
    }
}

impl Drop for Backup<'_, '_> {
    fn drop(&mut self) {
        self.inner.backups.running.lock().retain(|running| !Arc::ptr_eq(running, &self.running));
    }
}
