//! What can go wrong with pages, and what to do next.

use std::io;

use cedrat_wal::Stopped;
use thiserror::Error;

use crate::page::{Damaged, PageId};

/// Why a page could not be had, or could not be written home.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The bytes of a page are not what was written. Restore the page from a copy.
    #[error("{file}, byte {offset}: {damage}; restore it from a copy")]
    Damaged {
        /// The page file.
        file: String,
        /// Where in the file the first bad byte lies.
        offset: u64,
        /// What is bad about it.
        damage: Damaged,
    },
    /// A file of another program, of a newer version, or cut short.
    #[error("{file}, byte {offset}: {what}")]
    Foreign {
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// The page lies beyond the end of the page file: it was never allocated, or the file was cut short.
    #[error("{file}: page {page} was asked for, but the file ends after {pages} pages")]
    Beyond {
        /// The page file.
        file: String,
        /// The page asked for.
        page: PageId,
        /// Pages that the file holds.
        pages: u64,
    },
    /// The page file cannot grow to so many pages: `PoolOptions::pages_max`. Reopen the store with a larger limit.
    #[error("{pages} pages are wanted, at most {limit} are possible; open the store with a larger limit of pages")]
    Limit {
        /// Pages wanted.
        pages: u64,
        /// Pages possible.
        limit: u64,
    },
    /// The disk has no room for more pages. Nothing has changed; free some space on it and try again.
    #[error("{file}: the disk has no room for {pages} pages; free space and try again")]
    DiskFull {
        /// The page file.
        file: String,
        /// Pages that it was to hold.
        pages: u64,
    },
    /// Every frame is held by somebody. Hold fewer pages at once, or open the store with a larger pool.
    #[error("all {capacity} frames of the buffer pool are held at once; hold fewer pages, or make the pool larger")]
    AllHeld {
        /// Frames of the pool.
        capacity: usize,
    },
    /// An option makes no sense.
    #[error("option {option}: {what}")]
    Options {
        /// The option's name.
        option: &'static str,
        /// Why it cannot be used.
        what: String,
    },
    /// The disk answered with an error.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done, to which file.
        doing: String,
        /// The disk's answer.
        source: io::Error,
    },
    /// An earlier failure stopped the store. Reopen it.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl PoolError {
    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> PoolError {
        PoolError::Io { doing: doing.into(), source }
    }

    pub(crate) fn damaged(file: String, damage: Damaged) -> PoolError {
        let offset = damage.page.file_offset() + u64::from(damage.byte);
        PoolError::Damaged { file, offset, damage }
    }
}
