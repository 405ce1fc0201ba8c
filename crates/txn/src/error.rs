//! What can go wrong, and what to do next.

use std::io;

use cedrat_pages::{Damaged, PoolError};
use cedrat_wal::{LogError, LogFull, Lsn, Stopped, TxnId};

use crate::locks::Deadlock;
use crate::operation::Refused;

/// The result of everything that may fail in a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. Unless a variant says otherwise, the call did nothing, and the transaction may go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operation declined.
    #[error("refused: {0}")]
    Refused(#[from] Refused),
    /// The transaction was chosen to resolve a deadlock. Roll it back and run it again.
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
    /// The log has no room. Roll back, or end the transactions that hold it, and try again. Where the last checkpoint has
    /// failed, mend what it says first: until one succeeds, nothing that ends makes room.
    #[error("{full}{}{}",
        oldest.map(|txn| format!("; transaction {txn} is the oldest and keeps the log from being given up")).unwrap_or_default(),
        checkpoint.as_ref().map(|why| format!("; the last checkpoint has failed: {why}")).unwrap_or_default())]
    LogFull {
        /// What the log says.
        full: LogFull,
        /// The oldest transaction that has not ended.
        oldest: Option<TxnId>,
        /// Why the last checkpoint has failed, which would have given log up.
        checkpoint: Option<String>,
    },
    /// This transaction was rolled back because it kept the log from being given up for too long (E16.3). Run it
    /// again, in smaller steps, or raise the log's limit.
    #[error(
        "transaction {txn} was rolled back: it kept the log from LSN {first} on, up to the limit of {limit_bytes} bytes; \
         use smaller transactions or raise log_limit_bytes"
    )]
    PinsLog {
        /// The transaction.
        txn: TxnId,
        /// Its first record.
        first: Lsn,
        /// The log's limit.
        limit_bytes: u64,
    },
    /// The store stopped (E16.5). Reopen it; only then is it known what was kept.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A page's bytes make no sense. Restore the page file from a copy.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The page file or its pool failed.
    #[error(transparent)]
    Pages(#[from] PoolError),
    /// The log failed, or its bytes make no sense.
    #[error(transparent)]
    Log(LogError),
    /// Another process, or another part of this one, has the store open. Close it there first.
    #[error("{path}: the store is open elsewhere; close it there first")]
    InUse {
        /// The lock file.
        path: String,
    },
    /// The log holds records of something that the registry does not know (R3). Nothing was changed.
    #[error("{what} \"{name}\" stands in the log but is not registered; register it and open the store again")]
    Unregistered {
        /// An operation, an undo, or a record kind.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Two things were registered under one name.
    #[error("\"{name}\" is registered twice, or its number is taken; give one of them another")]
    RegisteredTwice {
        /// The name.
        name: String,
    },
    /// A record of the log contradicts itself. Nothing was changed. Restore the log from a copy.
    #[error("the log's record {lsn} makes no sense: {what}; restore the log from a copy")]
    BadRecord {
        /// The record.
        lsn: Lsn,
        /// What is wrong with it.
        what: String,
    },
    /// An argument is longer than possible.
    #[error("{what} has {given} bytes; at most {limit} are possible")]
    TooLarge {
        /// What.
        what: &'static str,
        /// How long it is, in bytes.
        given: u64,
        /// How long it may be, in bytes.
        limit: u64,
    },
    /// There is no room for so many contiguous pages in one region.
    #[error("a region of {pages} pages was asked for; choose 1 to {limit}")]
    RegionLength {
        /// How many were asked for.
        pages: u64,
        /// The most that is possible.
        limit: u64,
    },
    /// `Partition` was asked for at the commit of a page transaction (E8.3).
    #[error(
        "partition commits are for heap transactions only: the redo of a page needs its predecessors in all partitions; \
         commit with Sync or Async"
    )]
    PartitionCommit,
    /// Another transaction is prepared under this identifier (E9.8). Choose another, or end that one.
    #[error("a transaction is prepared under the identifier {id} already; end that one, or choose another identifier")]
    BranchExists {
        /// The identifier, in hexadecimal digits.
        id: String,
    },
    /// No transaction is prepared under this identifier.
    #[error(
        "no transaction is prepared under the identifier {id}: it was ended, or never prepared; see who is in doubt"
    )]
    NoBranch {
        /// The identifier, in hexadecimal digits.
        id: String,
    },
    /// What is needed a prepared transaction holds, and this one does not wait for it
    /// ([`TxnOptions::waits_for_prepared`](crate::TxnOptions::waits_for_prepared)). End that one, then run this one again.
    #[error(
        "what is needed is held by the transaction that is prepared under the identifier {id}, which was not told its outcome: \
         commit it or roll it back (see who is in doubt), then try again"
    )]
    InDoubt {
        /// The identifier, in hexadecimal digits.
        id: String,
    },
    /// Somebody else has the prepared transaction in hand. Let it be ended there, or be dropped.
    #[error("the transaction that is prepared under the identifier {id} is being ended by somebody else")]
    BranchHeld {
        /// The identifier, in hexadecimal digits.
        id: String,
    },
    /// The call makes no sense here, for example a lock asked for within a nested top action (E15.3).
    #[error("{0}")]
    Misuse(&'static str),
    /// Another part of the store failed to work with a file.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done, to which file.
        doing: String,
        /// The disk's answer.
        source: io::Error,
    },
    /// The heap part of the store, or of the transaction. After [`cedrat_heap::Error::Conflict`] roll back and run the
    /// transaction again.
    #[error(transparent)]
    Heap(cedrat_heap::Error),
    /// The application's own error, passed through a transaction.
    #[error(transparent)]
    User(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// The application's own error, so that a closure can return it and so roll back.
    pub fn user(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::User(error.into())
    }

    /// Whether running the transaction again may succeed without any other remedy.
    pub fn is_worth_retrying(&self) -> bool {
        matches!(self, Error::Deadlock(_) | Error::Heap(cedrat_heap::Error::Conflict))
    }

    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> Error {
        Error::Io { doing: doing.into(), source }
    }

    pub(crate) fn bad_record(lsn: Lsn, what: impl Into<String>) -> Error {
        Error::BadRecord { lsn, what: what.into() }
    }
}

impl From<cedrat_heap::Error> for Error {
    fn from(error: cedrat_heap::Error) -> Error {
        match error {
            cedrat_heap::Error::Stopped(stopped) => Error::Stopped(stopped),
            cedrat_heap::Error::LogFull(full) => full.into(),
            cedrat_heap::Error::Log(error) => error.into(),
            other => Error::Heap(other),
        }
    }
}

impl From<LogError> for Error {
    fn from(error: LogError) -> Error {
        match error {
            LogError::Stopped(stopped) => Error::Stopped(stopped),
            LogError::Full(full) => full.into(),
            other => Error::Log(other),
        }
    }
}

impl From<LogFull> for Error {
    fn from(full: LogFull) -> Error {
        match full {
            LogFull::Stopped(stopped) => Error::Stopped(stopped),
            full => Error::LogFull { full, oldest: None, checkpoint: None },
        }
    }
}
