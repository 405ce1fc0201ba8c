//! Restores of backups: to their end, or to any point in time that an archive has (Lemon §3.4; E18.10).
//!
//! 1. The result is what a crash right after the last restored record leaves: its first opening rolls back what had not committed
//!    then.
//! 2. Pages and heaps are those of the backup; their changes since are in the log, and the opening redoes them. The page file has space for
//!    all pages that the log names, as a store's has (E18.10f): else the opening would take it for a file that has lost its end.
//! 3. The control file is written last. Without it the directory is refused as damaged.

use std::time::{Duration, Instant, SystemTime};

use cedrat_heap::{HeapsCopy, WantedHeaps, restore_heaps};
use cedrat_media::{LockGuard, Media};
use cedrat_pages::{copy_page_files, grow_page_file};
use cedrat_sync::{Arc, planted};
use cedrat_wal::{CONTROL_FILE, CopiedLog, Found, FoundArchive, Log, LogCopy, LogError, Lsn};

use crate::error::{Error, OpenError, Result};
use crate::increment;
use crate::recovery::NamedPages;
use crate::trace::span;

/// The moment to which a backup is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreTarget {
    /// The last record of the archive, or of the backup if there is no archive.
    Newest,
    /// The record with this LSN, and all before it.
    Lsn(Lsn),
    /// The last extension of the archive up to this time. It has every [synchronous](crate::Commit::Sync) commit that returned before
    /// that extension began.
    Time(SystemTime),
}

/// The report of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The target: all records up to it were restored.
    pub up_to: Lsn,
    /// The number of bytes of the files of pages and heaps.
    pub bytes: u64,
    /// Total time.
    pub total: Duration,
}

/// Restores a backup to an empty directory, with the archive of the same store if the target is later than the backup. The backup
/// may be the directory of any store that is not open. Both are only read; the archive may be extended meanwhile.
///
/// The restored store begins another history: it needs another archive, unless it lacks nothing of this one.
///
/// # Errors
/// [`Error::Log`] with [`LogError::Unreachable`]: the target is older than the backup, or later than the archive; with
/// [`LogError::ArchiveBeginsLater`]: the archive has forgotten log that the backup needs, or was begun later; with
/// [`LogError::Foreign`]: backup and archive are not of one history of a store; with [`LogError::AlreadyThere`]: the directory has
/// files; with [`LogError::Damaged`]: a block of the log. [`Error::NoSuchMoment`]; [`Error::Heap`] with
/// [`TwoHeaps`](cedrat_heap::Error::TwoHeaps). Errors of the disks. After one other than `AlreadyThere` the directory is not a store.
/// Pages and heaps are copied without verification.
pub fn restore(
    backup: &Arc<dyn Media>,
    archive: Option<&Arc<dyn Media>>,
    to: &Arc<dyn Media>,
    target: RestoreTarget,
) -> Result<RestoreReport> {
    restore_parts(backup, archive, to, target, true)
}

/// Restores a backup as [`restore`] does. Unless `copies_pages`, `to` has the files of its pages already, without naming them.
pub(crate) fn restore_parts(
    backup: &Arc<dyn Media>,
    archive: Option<&Arc<dyn Media>>,
    to: &Arc<dyn Media>,
    target: RestoreTarget,
    copies_pages: bool,
) -> Result<RestoreReport> {
    let began = Instant::now();
    let (log, report) = restore_all_but_control(backup, archive, to, target, copies_pages)?;
    log.complete()?;
    Ok(RestoreReport { total: began.elapsed(), ..report })
}

/// Restores a backup as [`restore_parts`] does, up to the control file: the directory is a store when the log is complete.
pub(crate) fn restore_all_but_control(
    backup: &Arc<dyn Media>,
    archive: Option<&Arc<dyn Media>>,
    to: &Arc<dyn Media>,
    target: RestoreTarget,
    copies_pages: bool,
) -> Result<(CopiedLog, RestoreReport)> {
    span!("restore");
    let began = Instant::now();
    let (_not_open, found) = look(backup)?;
    let archive = archive.map(FoundArchive::look).transpose()?;
    let first = found.end_lsn().previous();
    let newest = archive.as_ref().map_or(first, |archive| archive.lsns().1);
    let target = match target {
        RestoreTarget::Newest => newest,
        RestoreTarget::Lsn(lsn) => lsn,
        RestoreTarget::Time(time) => {
            let moment = archive.as_ref().and_then(|archive| archive.moment_at(time));
            moment.ok_or(Error::NoSuchMoment { time })?.up_to
        }
    };
    if let Some(file) = HeapsCopy::foreign_file(&**to)? {
        return Err(LogError::AlreadyThere { file }.into());
    }
    let log = LogCopy::begin(to)?;
    let log = match &archive {
        Some(archive) => log.restore(&found, archive, target)?,
        None if target == first => log.restore_all(&found)?,
        None => return Err(LogError::Unreachable { target, first, last: first }.into()),
    };
    let wanted = archive.as_ref().map(|archive| WantedHeaps {
        descriptions: archive.descriptions(target),
        includes_backups: !archive.was_extended_within(first..target.next()),
    });
    let wanted = wanted.unwrap_or(WantedHeaps { includes_backups: true, ..WantedHeaps::default() });
    let mut bytes = if copies_pages { copy_page_files(&**backup, &**to)? } else { 0 };
    if let Some(archive) = archive.as_ref().filter(|_| !planted!("restored_pages_not_grown")) {
        grow_page_file(&**to, NamedPages::end_after(&found, archive, target)?)?;
    }
    bytes += restore_heaps(&**backup, &**to, &found.control().store, first, &wanted)?;
    Ok((log, RestoreReport { up_to: target, bytes, total: began.elapsed() }))
}

/// Locks a backup, and reads its log.
pub(crate) fn look(backup: &Arc<dyn Media>) -> Result<(LockGuard, Found)> {
    increment::refuse(&**backup, "a full backup")?;
    let not_open = lock(&**backup)?;
    let found = Log::look(backup)?;
    found.refuse_archive()?;
    if found.control().is_log_alone() {
        let (found, wanted) = ("a log alone", "a backup of a store");
        return Err(LogError::Foreign { file: CONTROL_FILE.into(), found, wanted }.into());
    }
    Ok((not_open, found))
}

/// Locks a backup, whose directory may be read-only.
fn lock(backup: &dyn Media) -> Result<LockGuard> {
    use std::io::ErrorKind::{NotFound, WouldBlock};
    backup.lock(CONTROL_FILE).map_err(|error| match error.kind() {
        WouldBlock => OpenError::InUse { path: CONTROL_FILE.into() }.into(),
        NotFound => LogError::Absent { file: CONTROL_FILE.into() }.into(),
        _ => Error::io(format!("locking {CONTROL_FILE}"), error),
    })
}
