//! Status of a call.

use std::borrow::Cow;
use std::ffi::CStr;

use front::heap;
use front::media::KeyError;
use front::pages::PoolError;
use front::txn::{BranchError, OpenError};
use front::wal::LogError;

/// `cedrat_status` of the header: numbers and meanings are the same there, and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) enum Status {
    Ok = 0,
    Aborted = 1,
    OutOfRange = 2,
    Misaligned = 3,
    NotAllocated = 4,
    HeapFull = 5,
    Null = 6,
    Misuse = 7,
    Unknown = 8,
    Exists = 9,
    Options = 10,
    Limit = 11,
    LogFull = 12,
    Stopped = 13,
    Damaged = 14,
    InUse = 15,
    Io = 16,
    Panic = 17,
    InDoubt = 18,
    RolledBack = 19,
    ClassDropped = 20,
    ReadOnly = 21,
    ChangesLost = 22,
}

/// Names, in the order of the numbers.
pub(crate) const NAMES: [&CStr; 23] = [
    c"CEDRAT_OK",
    c"CEDRAT_ABORTED",
    c"CEDRAT_OUT_OF_RANGE",
    c"CEDRAT_MISALIGNED",
    c"CEDRAT_NOT_ALLOCATED",
    c"CEDRAT_HEAP_FULL",
    c"CEDRAT_NULL",
    c"CEDRAT_MISUSE",
    c"CEDRAT_UNKNOWN",
    c"CEDRAT_EXISTS",
    c"CEDRAT_OPTIONS",
    c"CEDRAT_LIMIT",
    c"CEDRAT_LOG_FULL",
    c"CEDRAT_STOPPED",
    c"CEDRAT_DAMAGED",
    c"CEDRAT_IN_USE",
    c"CEDRAT_IO",
    c"CEDRAT_PANIC",
    c"CEDRAT_IN_DOUBT",
    c"CEDRAT_ROLLED_BACK",
    c"CEDRAT_CLASS_DROPPED",
    c"CEDRAT_READ_ONLY",
    c"CEDRAT_CHANGES_LOST",
];

/// Reason why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) text: Cow<'static, str>,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn new(status: Status, text: impl Into<Cow<'static, str>>) -> Failure {
        Failure { status, text: text.into() }
    }

    pub(crate) fn null(what: &'static str) -> Failure {
        Failure::new(Status::Null, format!("{what} is a null pointer"))
    }
}

impl From<heap::Error> for Failure {
    #[cold]
    fn from(error: heap::Error) -> Failure {
        let status = match &error {
            // Not a mistake, and frequent: it costs no formatting.
            heap::Error::Conflict => {
                return Failure::new(Status::Aborted, "write conflict with another transaction; begin again");
            }
            heap::Error::OutOfRange { .. } => Status::OutOfRange,
            heap::Error::Misaligned { .. } => Status::Misaligned,
            heap::Error::NotAllocated { .. } => Status::NotAllocated,
            heap::Error::HeapFull { .. } => Status::HeapFull,
            heap::Error::Unknown { .. } => Status::Unknown,
            heap::Error::Exists { .. } => Status::Exists,
            heap::Error::Options { .. } => Status::Options,
            heap::Error::Limit { .. } => Status::Limit,
            heap::Error::Damaged { .. } => Status::Damaged,
            heap::Error::Io { .. } => Status::Io,
            heap::Error::InDoubt { .. } => Status::InDoubt,
            heap::Error::LogFull(front::wal::LogFull::Stopped(_)) | heap::Error::Stopped(_) => Status::Stopped,
            heap::Error::LogFull(front::wal::LogFull::ReadOnly) => Status::ReadOnly,
            heap::Error::LogFull(_) => Status::LogFull,
            heap::Error::Log(error) => of_log(error),
            _ => Status::Misuse,
        };
        Failure::new(status, error.to_string())
    }
}

impl From<front::Error> for Failure {
    #[cold]
    fn from(error: front::Error) -> Failure {
        let status = match error {
            front::Error::Heap(error) => return error.into(),
            front::Error::LogFull { .. } | front::Error::BackupEnded { .. } => Status::LogFull,
            front::Error::PinsLog { .. } | front::Error::TimeLimit { .. } => Status::RolledBack,
            front::Error::Stopped(_) => Status::Stopped,
            front::Error::Damaged(_) | front::Error::Unregistered { .. } | front::Error::BadRecord { .. } => {
                Status::Damaged
            }
            front::Error::Pages(ref error) => of_pages(error),
            front::Error::Io { .. } | front::Error::ArchivePanicked { .. } => Status::Io,
            front::Error::Log(ref error) => of_log(error),
            front::Error::Branch(ref error) => of_branch(error),
            front::Error::Open(ref error) => of_opening(error),
            front::Error::InDoubt { .. } => Status::InDoubt,
            front::Error::ReadOnly => Status::ReadOnly,
            front::Error::ChangesLost { .. } => Status::ChangesLost,
            front::Error::NoSuchConsumer { .. } => Status::Unknown,
            front::Error::TooLarge { .. } => Status::Limit,
            _ => Status::Misuse,
        };
        Failure::new(status, error.to_string())
    }
}

impl From<OpenError> for Failure {
    #[cold]
    fn from(error: OpenError) -> Failure {
        front::Error::from(error).into()
    }
}

impl From<LogError> for Failure {
    #[cold]
    fn from(error: LogError) -> Failure {
        Failure::new(of_log(&error), error.to_string())
    }
}

fn of_opening(error: &OpenError) -> Status {
    match error {
        OpenError::InUse { .. } => Status::InUse,
        OpenError::Unregistered { .. } => Status::Damaged,
        _ => Status::Misuse,
    }
}

fn of_branch(error: &BranchError) -> Status {
    match error {
        BranchError::Exists { .. } => Status::Exists,
        BranchError::Unknown { .. } | BranchError::NoOutcome { .. } | BranchError::Heuristic { .. } => Status::Unknown,
        BranchError::Held { .. } => Status::InUse,
        _ => Status::Misuse,
    }
}

fn of_log(error: &LogError) -> Status {
    match error {
        LogError::Stopped(_) => Status::Stopped,
        LogError::Full(_) => Status::LogFull,
        LogError::Absent { .. } => Status::Unknown,
        LogError::Damaged { .. } | LogError::ForeignSegment { .. } => Status::Damaged,
        LogError::Options { .. } => Status::Options,
        LogError::Limit { .. } => Status::Limit,
        LogError::InUse { .. } => Status::InUse,
        LogError::AlreadyThere { .. } => Status::Exists,
        LogError::Key(error) => of_key(error),
        LogError::Foreign { .. }
        | LogError::Truncated { .. }
        | LogError::ArchiveGap { .. }
        | LogError::ArchiveBeginsLater { .. }
        | LogError::NotArchived { .. }
        | LogError::Unreachable { .. } => Status::Misuse,
        _ => Status::Io,
    }
}

fn of_key(error: &KeyError) -> Status {
    match error {
        KeyError::Damaged { .. } => Status::Damaged,
        KeyError::Absent { .. } => Status::Unknown,
        KeyError::InUse { .. } => Status::InUse,
        KeyError::Io { .. } | KeyError::Source { .. } | KeyError::Version { .. } => Status::Io,
        _ => Status::Misuse,
    }
}

pub(crate) fn of_pages(error: &PoolError) -> Status {
    match error {
        PoolError::Damaged { .. } | PoolError::Foreign { .. } | PoolError::Beyond { .. } => Status::Damaged,
        PoolError::Limit { .. } => Status::Limit,
        PoolError::Options { .. } => Status::Options,
        _ => Status::Io,
    }
}

#[cfg(test)]
mod tests {
    use front::pages::{Damaged, PageId};

    use super::*;

    #[test]
    fn rollback_by_the_store_is_named() {
        let (txn, first) = (front::wal::TxnId(7), front::wal::Lsn::new(9));
        let age = std::time::Duration::from_secs(2);
        let of_limits = [
            front::Error::PinsLog { txn, first, pinned_bytes: 2, limit_bytes: 1 },
            front::Error::TimeLimit { txn, age, limit: age / 2 },
        ];
        for error in of_limits {
            let failure = Failure::from(error);
            assert_eq!(failure.status, Status::RolledBack);
            assert!(failure.text.contains("transaction 7 was rolled back"), "{}", failure.text);
        }
    }

    #[test]
    fn damage_is_called_so() {
        let of = |error: PoolError| Failure::from(front::Error::from(error)).status;
        let (file, damage) = (String::from("pages"), Damaged::in_body(PageId::new(7), 0, "nonsense"));
        assert_eq!(
            of(PoolError::Damaged { file: file.clone(), offset: 9, damage, why_not_rebuilt: String::new() }),
            Status::Damaged
        );
        assert_eq!(of(PoolError::Foreign { file: file.clone(), offset: 9, what: "newer".into() }), Status::Damaged);
        assert_eq!(of(PoolError::DiskFull { file, pages: 9 }), Status::Io);
        assert_eq!(of(PoolError::Limit { pages: 9, limit: 8 }), Status::Limit);
    }
}
