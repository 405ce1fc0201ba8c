//! Errors of the log, with the remedy of each.

use std::io;

use cedrat_media::KeyError;
use cedrat_sync::Arc;
use thiserror::Error;

use crate::checksum::StoreId;
use crate::{LogOffset, Lsn};

/// The reason why a log could not be created, opened, read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogError {
    /// There is no store here, or its creation never finished.
    #[error("{file}: there is no complete store in this directory; create one")]
    Absent {
        /// The control file that is missing or was never completed.
        file: String,
    },
    /// The directory has files: a store, perhaps.
    #[error("{file}: the directory is not empty; choose another directory, or open the store that is in this one")]
    AlreadyThere {
        /// The first file that was found.
        file: String,
    },
    /// Bytes that were once durable are missing or changed. Nothing was written. Restore a copy.
    #[error("{file}, byte {offset}: {what}; restore this file from a copy")]
    Damaged {
        /// The file.
        file: String,
        /// The offset in the file, in bytes.
        offset: u64,
        /// The fault at this offset.
        what: String,
    },
    /// The file is of a version that this program does not read.
    #[error("{file}, byte {offset}: format version {found}, this program reads {known}; use a newer program")]
    Version {
        /// The file.
        file: String,
        /// The offset of the version in the file.
        offset: u64,
        /// The version found.
        found: u32,
        /// The version this program reads.
        known: u32,
    },
    /// Another process, or another part of this one, has the directory open. Close it there first.
    #[error("{path}: the directory is open elsewhere; close it there first")]
    InUse {
        /// The lock file.
        path: String,
    },
    /// The directory holds a log of another kind. Choose another directory.
    #[error("{file}: found {found}, expected {wanted}; choose another directory")]
    Foreign {
        /// The control file.
        file: String,
        /// The kind that was found.
        found: &'static str,
        /// The kind that was to be opened.
        wanted: &'static str,
    },
    /// A log segment of another store lies in the log's directory. Nothing was written.
    #[error(
        "{file}, byte {offset}: this log segment belongs to store {}, and the log to store {}; move the file back to its \
         store, and restore the segment of this name from a copy, if this store had one",
        hexadecimal(.found), hexadecimal(.wanted)
    )]
    ForeignSegment {
        /// The segment file.
        file: String,
        /// The offset of the store's identifier in the file.
        offset: u64,
        /// The store to which it belongs.
        found: StoreId,
        /// The store to which the log belongs.
        wanted: StoreId,
    },
    /// A limit of the log or of its options is exceeded.
    #[error("{what} is {given}, at most {limit} is possible")]
    Limit {
        /// The limited quantity.
        what: &'static str,
        /// The requested value.
        given: u64,
        /// The largest possible value.
        limit: u64,
    },
    /// An option is invalid.
    #[error("option {option}: {what}")]
    Options {
        /// The option's name.
        option: &'static str,
        /// The reason why it cannot be used.
        what: String,
    },
    /// The position was recycled: it precedes the oldest record kept.
    #[error("cannot read {what}; the log was truncated, or never had it")]
    Truncated {
        /// The requested position.
        what: String,
    },
    /// An archive lacks records that the log has recycled.
    #[error(
        "the archive has partition {partition} of the log up to offset {}, and the log begins later: open the store with an archive in \
         another directory, then take a backup", .offset.get()
    )]
    ArchiveGap {
        /// A partition of the log.
        partition: u16,
        /// The offset up to which the archive has it.
        offset: LogOffset,
    },
    /// An archive cannot restore a backup to this record.
    #[error(
        "cannot restore to LSN {}: the backup ends at LSN {}, and the archive continues it to LSN {}; choose an LSN between them, or \
         another backup", .target.get(), .first.get(), .last.get()
    )]
    Unreachable {
        /// The requested LSN.
        target: Lsn,
        /// The LSN at which the backup ends: it has all changes up to there.
        first: Lsn,
        /// The last LSN of the archive.
        last: Lsn,
    },
    /// An archive begins later than a backup needs it: it has forgotten what was before, or was begun later.
    #[error(
        "the backup needs the log from LSN {} on, and the archive begins at LSN {}: it has forgotten what was before, or was begun later; \
         use a younger backup, or restore this one without the archive", .needed.get(), .begins.get()
    )]
    ArchiveBeginsLater {
        /// The LSN from which on the backup needs the log.
        needed: Lsn,
        /// The first LSN of the archive.
        begins: Lsn,
    },
    /// An archive ends before an LSN.
    #[error("the archive ends at LSN {}, before LSN {}: extend it, then try again", .last.get(), .lsn.get())]
    NotArchived {
        /// The LSN.
        lsn: Lsn,
        /// The last LSN of the archive.
        last: Lsn,
    },
    /// The directory is encrypted with another key, or with one and none was given, or with none.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The log was stopped permanently; only reopening the store helps.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// There is no space for the data to be written.
    #[error(transparent)]
    Full(#[from] LogFull),
    /// The disk reported an error.
    #[error("{doing}: {source}")]
    Io {
        /// The failed operation and its file.
        doing: String,
        /// The error of the disk.
        source: io::Error,
    },
}

/// Returns a store's identifier in hexadecimal digits, as `cedrat info` prints it.
fn hexadecimal(store: &StoreId) -> String {
    store.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl LogError {
    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> LogError {
        LogError::Io { doing: doing.into(), source }
    }

    pub(crate) fn damaged(file: impl Into<String>, offset: u64, what: impl Into<String>) -> LogError {
        LogError::Damaged { file: file.into(), offset, what: what.into() }
    }
}

/// The log accepts no forward work until other transactions have ended. Nothing has happened; roll back, or wait and
/// try again.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFull {
    /// The log's configured size is used up: a checkpoint, or the end of the oldest transaction, frees space.
    #[error(
        "the log is full: cannot reserve {asked} bytes within the limit of {limit} bytes; it is kept from LSN {kept_from}: \
         end the oldest transaction, take a checkpoint, or raise the limit"
    )]
    Limit {
        /// The number of bytes requested.
        asked: u64,
        /// The log's size in bytes, all partitions together.
        limit: u64,
        /// The oldest LSN that cannot be removed yet.
        kept_from: Lsn,
    },
    /// The disk has no space for another log segment. Free some space on it and try again.
    #[error("the disk is full: no space for another log segment of {segment_len} bytes; free space and try again")]
    Disk {
        /// The length of the segment that could not be created.
        segment_len: u64,
    },
    /// The process or the system has no descriptor for the file of another log segment. Raise its limit and try again.
    #[error("the log has no file for another segment: {why}")]
    Descriptors {
        /// The file, the reason and the remedy.
        why: String,
    },
    /// The log is only read: it is that of a view of the past.
    #[error("this view of the store as it was takes no changes; make them in the store itself")]
    ReadOnly,
    /// The log was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// The log stopped and acknowledges nothing any more. Reopen the store; only that determines what was kept.
#[derive(Clone, Debug, Error)]
#[error("the log stopped: {reason}; reopen the store to find out which commits were kept")]
pub struct Stopped {
    /// The reason why it stopped.
    pub reason: Arc<StopReason>,
}

impl Stopped {
    /// Returns the error of a log, or of a memory without one, in a process that was forked from the one that has opened it.
    #[cold]
    pub fn forked() -> Stopped {
        let why = "it belongs to the process that has opened it, and this one was forked from that";
        Stopped { reason: Arc::new(StopReason::Asked(why.into())) }
    }
}

impl PartialEq for Stopped {
    fn eq(&self, other: &Stopped) -> bool {
        Arc::ptr_eq(&self.reason, &other.reason)
    }
}

impl Eq for Stopped {}

/// The reason why a log stopped. The first reason is kept.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StopReason {
    /// A write or sync of the log failed. The bytes that it covered may or may not be kept.
    #[error("writing {file} failed: {source}")]
    WriteFailed {
        /// The name of the file, or of the sink.
        file: String,
        /// The error of the disk.
        source: io::Error,
    },
    /// The caller stopped the log.
    #[error("{0}")]
    Asked(String),
    /// The log was closed; this handle belongs to an opening that has ended.
    #[error("it was closed, and this handle belongs to the opening that ended")]
    Closed,
}
