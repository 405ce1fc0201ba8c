//! Errors, and interrupts of transactions.

use std::fmt;
use std::io;

use cedrat_wal::{LogError, LogFull, Stopped, TxnId};

/// Error of a call of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes outside of the heap.
    #[error("heap {heap}: {len} bytes at offset {offset} do not lie in the heap, which has offsets {from} to {to}")]
    OutOfRange {
        /// Heap's name.
        heap: String,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// First offset that may be used.
        from: u64,
        /// End of the heap, exclusive.
        to: u64,
    },
    /// A word does not begin at a multiple of eight.
    #[error("heap {heap}: offset {offset} is not a multiple of 8, as words need; use bytes there")]
    Misaligned {
        /// Heap's name.
        heap: String,
        /// Offset of the word.
        offset: u64,
    },
    /// No allocated block begins here.
    #[error("heap {heap}: no allocated block begins at offset {offset}; it was freed before, or never allocated")]
    NotAllocated {
        /// Heap's name.
        heap: String,
        /// Offset of the expected block.
        offset: u64,
    },
    /// A block is too short for the requested access, as to an element past the end of an array.
    #[error("heap {heap}: the block at offset {offset} has {has} bytes, and the access needs {len}")]
    BlockTooShort {
        /// Heap's name.
        heap: String,
        /// Offset of the block.
        offset: u64,
        /// Minimum length that the access requires, in bytes.
        len: u64,
        /// Length of the block, in bytes.
        has: u64,
    },
    /// The heap has no space for a block.
    #[error("heap {heap}: no space for a block of {len} bytes; {}", room_hint(*room_to_grow))]
    HeapFull {
        /// Heap's name.
        heap: String,
        /// Requested length.
        len: u64,
        /// Number of bytes that `Memory::grow_heap` could add.
        room_to_grow: u64,
    },
    /// There is no heap, root or structure of this name.
    #[error("there is no {what} named {name:?}")]
    Unknown {
        /// Kind of object that was looked up.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The name is in use.
    #[error("there already is a {what} named {name:?}")]
    Exists {
        /// Kind of object that was to be created.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The named object has another type than the requested one.
    #[error("{name:?} is a {found}, not a {wanted}; open it with its own type")]
    WrongType {
        /// Name of the object.
        name: String,
        /// Its type.
        found: String,
        /// Requested type.
        wanted: String,
    },
    /// An option is invalid.
    #[error("option {option}: {what}")]
    Options {
        /// Name of the option.
        option: &'static str,
        /// Reason why it is invalid.
        what: String,
    },
    /// A documented limit is exceeded.
    #[error("{what}: {given}; at most {limit}")]
    Limit {
        /// Quantity that is limited.
        what: &'static str,
        /// Requested amount.
        given: u64,
        /// Maximum amount.
        limit: u64,
    },
    /// A call that is invalid in this state.
    #[error("{0}")]
    Misuse(&'static str),
    /// The application rolled the transaction back.
    #[error("rolled back by the program: {0}")]
    Aborted(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A write conflict, in a transaction that cannot be restarted here.
    #[error("write conflict with another transaction; roll back and try again")]
    Conflict,
    /// A prepared transaction that has not received its outcome yet holds a required lock. Try again after its outcome.
    #[error("prepared transaction {txn} holds a needed lock; try again after its outcome")]
    InDoubt {
        /// Its number, as `Store::in_doubt` lists it.
        txn: TxnId,
    },
    /// A file is damaged.
    #[error("{file}, offset {offset}: {what}")]
    Damaged {
        /// Name of the file.
        file: String,
        /// Offset in the file.
        offset: u64,
        /// Description of the damage.
        what: String,
    },
    /// The operating system returned an error.
    #[error("{doing}: {source}")]
    Io {
        /// Operation that failed.
        doing: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The log has no space.
    #[error(transparent)]
    LogFull(#[from] LogFull),
    /// Between the moments of an archive next to a restored LSN, a heap of this name was dropped, and another one created.
    #[error(
        "cannot restore the heap {name} to this LSN: between two moments of the archive it was dropped, and another one of its name \
         created; restore to the LSN of a moment (`cedrat archive DIR --moments`)"
    )]
    TwoHeaps {
        /// The name of the heap.
        name: String,
    },
    /// The store stopped; only reopening helps.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// An error of the log.
    #[error(transparent)]
    Log(#[from] LogError),
}

fn room_hint(room_to_grow: u64) -> String {
    match room_to_grow {
        0 => "the heap is as large as it may become: free blocks".to_owned(),
        bytes => format!("free blocks, or grow the heap (Memory::grow_heap), by up to {bytes} bytes"),
    }
}

/// Result of most calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> Error {
        Error::Io { doing: doing.into(), source }
    }

    pub(crate) fn damaged(file: impl Into<String>, offset: u64, what: impl Into<String>) -> Error {
        Error::Damaged { file: file.into(), offset, what: what.into() }
    }
}

/// Reason why a transaction's work cannot continue: pass it up with `?`.
///
/// The call that runs the transaction rolls it back and, after a conflict, runs the work again. Any error turns into an
/// interrupt that rolls the transaction back; the call that ran it then returns the error.
pub struct Interrupt(Option<Box<InterruptCause>>);

/// Cause of an interrupt other than a conflict.
#[derive(Debug)]
pub(crate) enum InterruptCause {
    /// Run the work again when something that it read has changed.
    Retry,
    /// Roll back and return this error.
    Failed(Error),
}

impl Interrupt {
    /// A write conflict: run the work again.
    pub(crate) const CONFLICT: Interrupt = Interrupt(None);

    /// Returns an interrupt that rolls back, waits until another transaction changes something that this one has read, and
    /// runs the work again. The transaction's work returns it as an error.
    ///
    /// The wait has no limit. If another open transaction of this thread prevents that change, end it first.
    pub fn retry() -> Interrupt {
        Interrupt(Some(Box::new(InterruptCause::Retry)))
    }

    /// Returns an interrupt that rolls back; the call that ran the transaction returns [`Error::Aborted`] with this reason.
    pub fn abort(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Interrupt {
        Interrupt::failed(Error::Aborted(reason.into()))
    }

    #[cold]
    pub(crate) fn failed(error: Error) -> Interrupt {
        Interrupt(Some(Box::new(InterruptCause::Failed(error))))
    }

    /// Returns whether it is a write conflict.
    pub(crate) fn is_conflict(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether the heap has no space for a block.
    pub(crate) fn is_heap_full(&self) -> bool {
        matches!(self.0.as_deref(), Some(InterruptCause::Failed(Error::HeapFull { .. })))
    }

    /// Returns the cause; `None` after a conflict.
    pub(crate) fn cause(self) -> Option<InterruptCause> {
        self.0.map(|cause| *cause)
    }

    /// Converts to the error for a caller that cannot run the work again.
    pub fn into_error(self) -> Error {
        match self.cause() {
            Some(InterruptCause::Failed(error)) => error,
            Some(InterruptCause::Retry) | None => Error::Conflict,
        }
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("Conflict"),
            Some(why) => why.fmt(f),
        }
    }
}

impl From<Error> for Interrupt {
    fn from(error: Error) -> Interrupt {
        match error {
            Error::Conflict => Interrupt::CONFLICT,
            other => Interrupt::failed(other),
        }
    }
}
