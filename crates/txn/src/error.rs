//! The errors of a store, with the remedy for each.

use std::io;
use std::time::{Duration, SystemTime};

use cedrat_pages::{Damaged, PageId, PoolError};
use cedrat_wal::{LogError, LogFull, Lsn, Stopped, TxnId};

use crate::heuristic::HeuristicOutcome;
use crate::locks::{Deadlock, Refusal};
use crate::operation::Refused;
use crate::replicas::ReplicaError;

/// The result of everything that may fail in a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a call failed. Unless a variant says otherwise, the call did nothing, and the transaction may
/// continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operation declined.
    #[error("refused: {0}")]
    Refused(#[from] Refused),
    /// The transaction was chosen to resolve a deadlock. Roll it back and run it again, unless it would wait for [another
    /// transaction of its thread](crate::Refusal::OwnThread): end that one first.
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
    /// The log has no room. Roll back, or end the transactions that hold it, and try again. If the last checkpoint has
    /// failed, remove the cause of that failure first: until a checkpoint succeeds, ending transactions makes no room.
    #[error("{full}{}{}",
        oldest.map(|txn| format!("; transaction {txn} is the oldest and keeps the log from being truncated")).unwrap_or_default(),
        checkpoint.as_ref().map(|why| format!("; the log was not truncated: {why}")).unwrap_or_default())]
    LogFull {
        /// The error of the log.
        full: LogFull,
        /// The oldest transaction that has not ended.
        oldest: Option<TxnId>,
        /// The reason why the last checkpoint has not truncated the log: it failed, or the archive was not extended.
        checkpoint: Option<String>,
    },
    /// This transaction was rolled back because it held too much of the log. Run it again, in smaller steps, or
    /// raise the limit.
    #[error(
        "transaction {txn} was rolled back: it kept {pinned_bytes} bytes of the log, from LSN {first} on, {}",
        if pinned_bytes > limit_bytes {
            format!(
                "and the limit is {limit_bytes}; use smaller transactions, or raise log_limit_bytes or txn_log_limit_bytes"
            )
        } else {
            "and was the oldest when the log was full; use shorter transactions, or raise log_limit_bytes, or pool_bytes: with a \
             small pool more log is reserved for undo".into()
        }
    )]
    PinsLog {
        /// The transaction.
        txn: TxnId,
        /// Its first record.
        first: Lsn,
        /// The bytes of log that it held when it was measured.
        pinned_bytes: u64,
        /// The limit ([`Options::txn_log_limit_bytes`](crate::Options::txn_log_limit_bytes)). If the log is full and no
        /// transaction exceeds it, the oldest transaction is rolled back.
        limit_bytes: u64,
    },
    /// The store is a [view](crate::open_as_of) of the past, which is only read.
    #[error("{}", LogFull::ReadOnly)]
    ReadOnly,
    /// The backup was ended because the log was full, and the backup kept it from being truncated. Its directory is no store.
    /// Try again while less is written, without a limit of its rate, or with a larger log.
    #[error(
        "the backup was ended after {bytes} bytes, because the log was full: try again without bytes_per_second_max, or raise \
         log_limit_bytes"
    )]
    BackupEnded {
        /// The number of bytes of pages and heaps that were copied.
        bytes: u64,
    },
    /// An incremental backup continues another backup than the one before it. Name the full backup, then each of its increments in
    /// their order.
    #[error("{increment}: {why}; name the full backup, and each of its incremental backups in their order")]
    NotContinued {
        /// The list of the incremental backup.
        increment: String,
        /// The reason.
        why: String,
    },
    /// The store cannot continue a backup by an incremental one. Take a full backup.
    #[error("the backup that ends at LSN {} cannot be continued: {why}; take a full backup", .up_to.get())]
    CannotContinue {
        /// The LSN at which the earlier backup ends.
        up_to: Lsn,
        /// The reason.
        why: &'static str,
    },
    /// The archive has no moment up to the time to which a backup was to be restored, or before which it was to forget everything; or
    /// there is no archive.
    #[error(
        "no moment up to {} s after 1970 (UTC): there is no archive, or it begins later; choose a later time, or an older archive",
        time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
    )]
    NoSuchMoment {
        /// The time.
        time: SystemTime,
    },
    /// The backup from which damaged pages are rebuilt could not be read when the store was opened.
    #[error("the backup from which damaged pages are rebuilt cannot be read: {why}; open the store again when it can")]
    BackupUnreadable {
        /// The reason.
        why: String,
    },
    /// A damaged page cannot be rebuilt: the archive does not have all of its records. Open the store with a backup.
    #[error(
        "page {page} cannot be rebuilt: the archive begins at LSN {}, after the first records of the page, and the store was opened \
         without a backup; open it with Options::backup", .archived_from.get()
    )]
    NoImage {
        /// The page.
        page: PageId,
        /// The first LSN of the archive.
        archived_from: Lsn,
    },
    /// A call of the archive's [`Media`](cedrat_media::Media) has panicked while the archive was extended: it is not extended any
    /// more. The store goes on until its log is full.
    #[error("the medium of the archive panicked: {message}; open the store again to extend the archive")]
    ArchivePanicked {
        /// The message of the panic.
        message: String,
    },
    /// A change stream needs records that neither the log nor an archive has any more. Read the present state from the store itself,
    /// and begin a new stream; a consumer [restarts](crate::Consumer::restart). A consumer with a higher limit, or an archive, keeps
    /// more.
    #[error(
        "{} needs the log from LSN {from} on, and it is kept from LSN {kept_from} on: the changes between are lost; begin a new \
         stream at the present position, and raise the limit of the consumer, or open the store with an archive",
        consumer.as_ref().map_or_else(|| "the change stream".into(), |name| format!("consumer \"{name}\" of the change stream"))
    )]
    ChangesLost {
        /// The consumer; `None`: a stream without one.
        consumer: Option<String>,
        /// The first LSN that is needed.
        from: Lsn,
        /// The LSN from which on the log, or the archive, has all records.
        kept_from: Lsn,
    },
    /// The connection of a replica ended or was refused, or a commit was not confirmed by enough replicas.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    /// There is no consumer of this name.
    #[error("there is no consumer \"{name}\": Store::consumers and `cedrat consumers` list them")]
    NoSuchConsumer {
        /// The name.
        name: String,
    },
    /// This transaction was rolled back because it ran longer than
    /// [`Options::txn_time_limit`](crate::Options::txn_time_limit). Run it again, in less time.
    #[error(
        "transaction {txn} was rolled back: it ran for {age:?}, and the limit is {limit:?}; use shorter transactions, or raise \
         txn_time_limit"
    )]
    TimeLimit {
        /// The transaction.
        txn: TxnId,
        /// Its age when the store found the limit exceeded.
        age: Duration,
        /// The limit.
        limit: Duration,
    },
    /// The store stopped. Reopen it; only then is it known which commits were kept.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The bytes of a page are invalid. Restore the page file from a copy.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The page file or its pool failed.
    #[error(transparent)]
    Pages(#[from] PoolError),
    /// The log failed, or its bytes are invalid.
    #[error(transparent)]
    Log(LogError),
    /// The log, or the call, needs something that is not registered. Nothing was changed.
    #[error("{what} \"{name}\" is not registered: register it and open the store again")]
    Unregistered {
        /// An operation, an undo, or a record kind.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A record of the log contradicts itself. Nothing was changed. Restore the log from a copy.
    #[error("the log's record {lsn} is corrupt: {what}; restore the log from a copy")]
    BadRecord {
        /// The record.
        lsn: Lsn,
        /// The contradiction that was found.
        what: String,
    },
    /// An argument exceeds the maximum length.
    #[error("{what} has {given} bytes; at most {limit} are possible")]
    TooLarge {
        /// The argument.
        what: &'static str,
        /// Its length in bytes.
        given: u64,
        /// The maximum length in bytes.
        limit: u64,
    },
    /// A region cannot have this many contiguous pages.
    #[error("cannot allocate a region of {pages} pages: choose 1 to {limit}")]
    RegionLength {
        /// The number of pages requested.
        pages: u64,
        /// The maximum number of pages.
        limit: u64,
    },
    /// `Partition` was requested for the commit of a page transaction.
    #[error(
        "partition commits are for heap transactions only: the redo of a page needs its predecessors in all partitions; \
         commit with Sync or Async"
    )]
    PartitionCommit,
    /// A prepared transaction holds a resource that is needed, and this transaction does not wait for prepared ones
    /// ([`TxnOptions::waits_for_prepared`](crate::TxnOptions::waits_for_prepared)). End the prepared transaction, then
    /// run this one again.
    #[error(
        "a needed lock is held by the prepared transaction {id}, whose outcome is unknown: commit it or roll it back \
         (Store::in_doubt and `cedrat info` list it), then try again"
    )]
    InDoubt {
        /// The identifier, in hexadecimal digits.
        id: String,
    },
    /// A store did not open: an undo of recovery has returned [`InDoubt`](Error::InDoubt), because a transaction that it runs
    /// needs a lock of a prepared transaction. Nothing is lost. An undo acquires no locks of its own: register one of this name
    /// that does without that transaction, open the store again, and end the prepared transaction.
    #[error(
        "recovery cannot run the undo \"{undo}\": it needs a lock of the prepared transaction {id}, whose outcome is unknown; \
         register an undo of this name that acquires no lock, open the store again, and commit that transaction or roll it back"
    )]
    UndoInDoubt {
        /// The name of the undo.
        undo: String,
        /// The identifier of the prepared transaction, in hexadecimal digits.
        id: String,
    },
    /// A prepared transaction was not found, or cannot be prepared or ended here.
    #[error(transparent)]
    Branch(#[from] BranchError),
    /// A store did not open.
    #[error(transparent)]
    Open(Box<OpenError>),
    /// The call is not allowed here, for example a lock request within a nested top action.
    #[error("{0}")]
    Misuse(&'static str),
    /// A file operation in another part of the store failed.
    #[error("{doing}: {source}")]
    Io {
        /// The operation and the file.
        doing: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An error of the heap part of the store, or of the transaction. After [`cedrat_heap::Error::Conflict`] roll back
    /// and run the transaction again.
    #[error(transparent)]
    Heap(cedrat_heap::Error),
    /// The application's own error, passed through a transaction.
    #[error(transparent)]
    User(Box<dyn std::error::Error + Send + Sync>),
}

/// The reason why a store did not open. A store that is refused before its recovery begins is not changed; what recovery
/// has written, the next opening continues.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The store is already open in another process or elsewhere in this one. Close it there first.
    #[error("{path}: the store is open elsewhere; close it there first")]
    InUse {
        /// The lock file.
        path: String,
    },
    /// The log contains records of something that is not registered. Register it, and open the store again.
    #[error("{what} \"{name}\" is used in the log and is not registered: register it and open the store again")]
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
    /// The arguments of an operation have another type than those in the log, and would be decoded wrongly. Nothing was
    /// changed. Register the type that wrote them, and give the other one a name of its own.
    #[error(
        "the log has arguments of another type for \"{name}\" than those that are registered: register the old type under this \
         name, and the new one under another"
    )]
    OtherArguments {
        /// The operation's name.
        name: String,
    },
    /// A file could not be read or written, or is damaged; or an undo of recovery failed.
    #[error(transparent)]
    Failed(Error),
}

/// The reason why a transaction cannot be prepared or ended under an identifier. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BranchError {
    /// Another transaction is prepared under this identifier, or the heuristic outcome of one is not forgotten. Choose another
    /// identifier, end that transaction, or forget its outcome.
    #[error(
        "the identifier {id} is in use by a prepared transaction or by a heuristic outcome: end the transaction, forget the \
         outcome, or choose another identifier"
    )]
    Exists {
        /// The identifier, in hexadecimal digits.
        id: String,
    },
    /// No transaction is prepared under this identifier.
    #[error(
        "no transaction is prepared under the identifier {id}: it has ended, or was never prepared; Store::in_doubt and \
         `cedrat info` list the prepared ones"
    )]
    Unknown {
        /// The identifier, in hexadecimal digits.
        id: String,
    },
    /// No heuristic outcome is kept under this identifier.
    #[error(
        "no heuristic outcome is kept under the identifier {id}: it was forgotten, or no operator has ended a transaction of this \
         identifier; Store::heuristic_branches and `cedrat info` list the outcomes"
    )]
    NoOutcome {
        /// The identifier, in hexadecimal digits.
        id: String,
    },
    /// An operator has ended the transaction that was prepared under this identifier. When its transaction manager knows,
    /// forget it.
    #[error(
        "an operator has {} the prepared transaction {id}: report this to its transaction manager, then call \
         Store::forget_heuristic, or `cedrat resolve DIR {id} forget`",
        match outcome { HeuristicOutcome::Committed => "committed", HeuristicOutcome::RolledBack => "rolled back" }
    )]
    Heuristic {
        /// The identifier, in hexadecimal digits.
        id: String,
        /// The outcome.
        outcome: HeuristicOutcome,
    },
    /// The prepared transaction has another handle. End it there, or drop that handle.
    #[error("the prepared transaction {id} has another handle: end the transaction there, or drop that handle")]
    Held {
        /// The identifier, in hexadecimal digits.
        id: String,
    },
}

impl Error {
    /// Wraps the application's own error, so that a closure can return it and so roll back.
    pub fn user(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::User(error.into())
    }

    /// Whether running the transaction again may succeed without any other remedy.
    pub fn is_worth_retrying(&self) -> bool {
        match self {
            // The other transaction is still open then.
            Error::Deadlock(deadlock) => matches!(deadlock.refusal, Refusal::Cycle | Refusal::Policy),
            Error::Heap(error) => matches!(error, cedrat_heap::Error::Conflict),
            _ => false,
        }
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
            LogFull::ReadOnly => Error::ReadOnly,
            full => Error::LogFull { full, oldest: None, checkpoint: None },
        }
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> OpenError {
        match error {
            Error::Open(error) => *error,
            Error::Unregistered { what, name } => OpenError::Unregistered { what, name },
            Error::Log(LogError::InUse { path }) => OpenError::InUse { path },
            other => OpenError::Failed(other),
        }
    }
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Error {
        match error {
            OpenError::Failed(error) => error,
            OpenError::Unregistered { what, name } => Error::Unregistered { what, name },
            other => Error::Open(Box::new(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E16.3: a transaction within its limit is rolled back only as the oldest, because the log is full.
    #[test]
    fn error_names_limit_or_full_log() {
        let error = |pinned_bytes| {
            let error = Error::PinsLog { txn: TxnId::NONE, first: Lsn::ZERO, pinned_bytes, limit_bytes: 1000 };
            error.to_string()
        };
        assert!(error(1001).contains("the limit is 1000"), "{}", error(1001));
        assert!(error(142).contains("the oldest when the log was full"), "{}", error(142));
    }
}
