//! Errors of the page layer, with the remedy of each.

use std::io;

use cedrat_wal::Stopped;
use thiserror::Error;

use crate::page::{Damaged, PageId};

/// The reason why a page could not be read, or not be written home.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The bytes of a page differ from those written. Restore the page from a copy.
    #[error("{file}, byte {offset}: {damage}; {}restore it from a copy", not_rebuilt(.why_not_rebuilt))]
    Damaged {
        /// The page file.
        file: String,
        /// The offset of the first bad byte in the file.
        offset: u64,
        /// A description of the damage.
        damage: Damaged,
        /// The reason why the page was not rebuilt ([`Rebuild`](crate::Rebuild)); empty if nothing is there to rebuild pages.
        why_not_rebuilt: String,
    },
    /// The records of the page that were in the log at the opening could not be redone. Open the store again.
    #[error("page {page} is not as the log requires: its records cannot be redone: {why}; open the store again")]
    NotRedone {
        /// The page.
        page: PageId,
        /// The reason.
        why: String,
    },
    /// A file of another program, of a newer version, or truncated.
    #[error("{file}, byte {offset}: {what}")]
    Foreign {
        /// The file.
        file: String,
        /// The offset in the file.
        offset: u64,
        /// A description of the fault.
        what: String,
    },
    /// The page is beyond the end of the page file: it was never allocated, or the file was truncated.
    #[error("{file}: page {page} does not exist: the file has {pages} pages")]
    Beyond {
        /// The page file.
        file: String,
        /// The requested page.
        page: PageId,
        /// The number of pages in the file.
        pages: u64,
    },
    /// The page file cannot have so many pages: address space is reserved for fewer. Reopen the store with a larger
    /// `PoolOptions::pages_max`, or in a process with a higher limit of address space.
    #[error(
        "the page file needs {pages} pages, but address space is reserved for {limit}; reopen the store with a larger \
         PoolOptions::pages_max (page_space_bytes in C), or raise the limit of the process (ulimit -v)"
    )]
    Limit {
        /// The number of pages requested.
        pages: u64,
        /// The number of pages possible.
        limit: u64,
    },
    /// The disk has no space for more pages. Nothing has changed; free some space on it and try again.
    #[error("{file}: the disk has no space for {pages} pages; free space and try again")]
    DiskFull {
        /// The page file.
        file: String,
        /// The number of pages that it was to hold.
        pages: u64,
    },
    /// Every frame is held. Hold fewer pages at once, or open the store with a larger pool.
    #[error("all {capacity} frames of the buffer pool are held at once; hold fewer pages, or make the pool larger")]
    AllHeld {
        /// The number of frames of the pool.
        capacity: usize,
    },
    /// An option is invalid.
    #[error("option {option}: {what}")]
    Options {
        /// The option's name.
        option: &'static str,
        /// The reason why it cannot be used.
        what: String,
    },
    /// The disk reported an error.
    #[error("{doing}: {source}")]
    Io {
        /// The failed operation and its file.
        doing: String,
        /// The error of the disk.
        source: io::Error,
    },
    /// An earlier failure stopped the store. Reopen it.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

fn not_rebuilt(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!("it was not rebuilt from the archive: {why}; ") }
}

impl PoolError {
    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> PoolError {
        PoolError::Io { doing: doing.into(), source }
    }

    pub(crate) fn damaged(file: String, damage: Damaged) -> PoolError {
        let offset = damage.page.file_offset() + u64::from(damage.byte);
        PoolError::Damaged { file, offset, damage, why_not_rebuilt: String::new() }
    }

    /// Adds the reason why the page was not rebuilt.
    pub(crate) fn not_rebuilt(self, why: String) -> PoolError {
        match self {
            PoolError::Damaged { file, offset, damage, .. } => {
                PoolError::Damaged { file, offset, damage, why_not_rebuilt: why }
            }
            PoolError::Io { doing, source } => PoolError::io(format!("{doing}; {}", not_rebuilt(&why)), source),
            other => other,
        }
    }
}
