//! What can go wrong, and what to do next.

use std::io;

use cedrat_sync::Arc;
use thiserror::Error;

use crate::Lsn;

/// Why a log could not be created, opened, read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogError {
    /// There is no store here, or its creation never finished.
    #[error("{file}: no store was ever completed here; create one")]
    Absent {
        /// The control file that is missing or was never completed.
        file: String,
    },
    /// A store lies here already.
    #[error("{file}: a store lies here already; open it, or choose another directory")]
    AlreadyThere {
        /// The control file that was found.
        file: String,
    },
    /// Bytes that were once durable are gone or changed. Nothing was written. Restore a copy.
    #[error("{file}, byte {offset}: {what}; restore this file from a copy")]
    Damaged {
        /// The file.
        file: String,
        /// Where in the file, bytes from its beginning.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// The file is of a version that this program does not read.
    #[error("{file}, byte {offset}: format version {found}, this program reads {known}; use a newer program")]
    Version {
        /// The file.
        file: String,
        /// Where in the file the version stands.
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
    /// What lies here is of another kind. Choose another directory.
    #[error("{file}: {found} lies here, not {wanted}; choose another directory")]
    Foreign {
        /// The control file.
        file: String,
        /// What was found.
        found: &'static str,
        /// What was to be opened.
        wanted: &'static str,
    },
    /// A limit of the log or of its options is passed.
    #[error("{what} is {given}, at most {limit} is possible")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// What was asked for.
        given: u64,
        /// What is possible.
        limit: u64,
    },
    /// An option makes no sense.
    #[error("option {option}: {what}")]
    Options {
        /// The option's name.
        option: &'static str,
        /// Why it cannot be used.
        what: String,
    },
    /// The place was recycled: it lies before the oldest record kept.
    #[error("the log no longer keeps {what}; its oldest kept record is later")]
    Truncated {
        /// What was asked for.
        what: String,
    },
    /// The log was stopped, for ever; only reopening the store helps.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// There is no room for what had to be written.
    #[error(transparent)]
    Full(#[from] LogFull),
    /// The disk answered with an error.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done, to which file.
        doing: String,
        /// The disk's answer.
        source: io::Error,
    },
}

impl LogError {
    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> LogError {
        LogError::Io { doing: doing.into(), source }
    }

    pub(crate) fn damaged(file: impl Into<String>, offset: u64, what: impl Into<String>) -> LogError {
        LogError::Damaged { file: file.into(), offset, what: what.into() }
    }
}

/// The log takes no forward work until others have ended. Nothing has happened; roll back, or wait and try again.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFull {
    /// The log's configured size is used up: a checkpoint, or the end of the oldest transaction, makes room.
    #[error(
        "the log is full: {asked} bytes asked for, limit {limit} bytes; the log is kept from LSN {kept_from}: \
         end the oldest transaction, take a checkpoint, or raise the limit"
    )]
    Limit {
        /// How many bytes were asked for.
        asked: u64,
        /// The log's size in bytes, all partitions together.
        limit: u64,
        /// The oldest LSN that cannot be given up yet.
        kept_from: Lsn,
    },
    /// The disk has no room for another log segment. Free some space on it and try again.
    #[error("the disk is full: no room for another log segment of {segment_len} bytes; free space and try again")]
    Disk {
        /// The length of the segment that found no room.
        segment_len: u64,
    },
    /// The log was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// The log stopped and acknowledges nothing any more (E16.5). Reopen the store; only that tells what was kept.
#[derive(Clone, Debug, Error)]
#[error("the log stopped: {reason}; reopen the store to learn what was kept")]
pub struct Stopped {
    /// Why it stopped.
    pub reason: Arc<StopReason>,
}

impl PartialEq for Stopped {
    fn eq(&self, other: &Stopped) -> bool {
        Arc::ptr_eq(&self.reason, &other.reason)
    }
}

impl Eq for Stopped {}

/// What stopped a log. The first reason stays (W6).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StopReason {
    /// A write or sync of the log failed. What it covered may or may not be kept.
    #[error("writing {file} failed: {source}")]
    WriteFailed {
        /// The file, or the sink.
        file: String,
        /// The disk's answer.
        source: io::Error,
    },
    /// Somebody above stopped the log.
    #[error("{0}")]
    Asked(String),
}
