//! What can go wrong, and what interrupts a transaction.

use std::fmt;
use std::io;

use cedrat_wal::{LogError, LogFull, Stopped, TxnId};

/// What a call of this crate failed with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes outside of the heap.
    #[error("heap {heap}: {len} bytes at offset {offset} do not lie in the heap, which has offsets {from} to {to}")]
    OutOfRange {
        /// The heap's name.
        heap: String,
        /// Where the bytes begin.
        offset: u64,
        /// How many they are.
        len: u64,
        /// The first offset that may be used.
        from: u64,
        /// The first offset behind the heap.
        to: u64,
    },
    /// A word does not begin at a multiple of eight.
    #[error("heap {heap}: offset {offset} is not a multiple of 8; words are, use bytes for anything else")]
    Misaligned {
        /// The heap's name.
        heap: String,
        /// The offset.
        offset: u64,
    },
    /// No allocated block begins here.
    #[error("heap {heap}: no allocated block begins at offset {offset}; it was freed before, or never allocated")]
    NotAllocated {
        /// The heap's name.
        heap: String,
        /// The offset.
        offset: u64,
    },
    /// A block is shorter than what is looked for in it, as an element behind an array's last.
    #[error("heap {heap}: the block at offset {offset} has {has} bytes; {len} are needed for what was asked for")]
    BlockTooShort {
        /// The heap's name.
        heap: String,
        /// Where the block begins.
        offset: u64,
        /// How many bytes it would have at least.
        len: u64,
        /// How many it has.
        has: u64,
    },
    /// The heap has no room for a block.
    #[error("heap {heap}: no room for a block of {len} bytes; {}", room_hint(*room_to_grow))]
    HeapFull {
        /// The heap's name.
        heap: String,
        /// The length asked for.
        len: u64,
        /// How many bytes `Memory::grow_heap` could add.
        room_to_grow: u64,
    },
    /// There is no heap, root or structure of this name.
    #[error("there is no {what} named {name:?}")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The name is taken.
    #[error("there already is a {what} named {name:?}")]
    Exists {
        /// What was to be made.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// What lies there has another type than the one asked for.
    #[error("{name:?} is a {found}, not a {wanted}; open it as what it is")]
    WrongType {
        /// The name.
        name: String,
        /// What it is.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// An option makes no sense.
    #[error("option {option}: {what}")]
    Options {
        /// Its name.
        option: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// A limit that is written down.
    #[error("{what}: {given}; at most {limit}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How much was asked for.
        given: u64,
        /// The most there can be.
        limit: u64,
    },
    /// A call that makes no sense here.
    #[error("{0}")]
    Misuse(&'static str),
    /// The application rolled back by its own wish.
    #[error("rolled back by the program: {0}")]
    Aborted(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What a transaction read was changed by others, and it cannot be repeated here.
    #[error("another transaction was quicker; roll back and try again")]
    Conflict,
    /// A transaction that is prepared, and was not told yet whether it commits, holds what is needed. Try again when it was.
    #[error("transaction {txn} is prepared and holds what is needed; try again when it was told whether it commits")]
    InDoubt {
        /// Its number, as `Store::in_doubt` lists it.
        txn: TxnId,
    },
    /// A file is damaged.
    #[error("{file}, offset {offset}: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// The operating system refused something.
    #[error("{doing}: {source}")]
    Io {
        /// What was attempted.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// The log has no room.
    #[error(transparent)]
    LogFull(#[from] LogFull),
    /// The store stopped; only reopening helps.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
}

fn room_hint(room_to_grow: u64) -> String {
    match room_to_grow {
        0 => "the heap is as large as it may become: free blocks".to_owned(),
        bytes => format!("free blocks, or grow the heap (Memory::grow_heap), by up to {bytes} bytes"),
    }
}

/// The result of most calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> Error {
        Error::Io { doing: doing.into(), source }
    }

    pub(crate) fn damaged(file: impl Into<String>, offset: u64, what: impl Into<String>) -> Error {
        Error::Damaged { file: file.into(), offset, what: what.into() }
    }
}

/// Why a transaction's work cannot go on: pass it up with `?`.
///
/// Whoever runs the transaction rolls back and, after a conflict, runs the work again. Any error turns into an
/// interrupt that rolls the transaction back and is then returned by the call that ran it.
pub struct Interrupt(Option<Box<Why>>);

/// What becomes of an interrupted transaction.
#[derive(Debug)]
pub(crate) enum Why {
    /// Run it again when something that it read has changed.
    Retry,
    /// Roll back and return this.
    Failed(Error),
}

impl Interrupt {
    /// Another transaction was quicker: run the work again.
    pub(crate) const CONFLICT: Interrupt = Interrupt(None);

    /// Rolls back, waits until something that the transaction has read is changed by others, and runs it again. To be
    /// returned as an error by the transaction's work.
    pub fn retry() -> Interrupt {
        Interrupt(Some(Box::new(Why::Retry)))
    }

    /// Rolls back; the call that ran the transaction returns [`Error::Aborted`] with this.
    pub fn abort(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Interrupt {
        Interrupt::failed(Error::Aborted(reason.into()))
    }

    #[cold]
    pub(crate) fn failed(error: Error) -> Interrupt {
        Interrupt(Some(Box::new(Why::Failed(error))))
    }

    /// What to do; `None` after a conflict.
    pub(crate) fn why(self) -> Option<Why> {
        self.0.map(|why| *why)
    }

    /// The error that a caller gets who cannot run the work again by himself.
    pub fn into_error(self) -> Error {
        match self.why() {
            Some(Why::Failed(error)) => error,
            Some(Why::Retry) | None => Error::Conflict,
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
