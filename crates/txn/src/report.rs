//! Reports of recovery and checks.

use std::time::Duration;

use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_wal::Lsn;

/// The report of an opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Whether this opening created the store; there was nothing to recover then.
    pub created: bool,
    /// The LSN from which the log was read.
    pub scanned_from: Lsn,
    /// The LSN after the last valid record.
    pub end: Lsn,
    /// Number of records read.
    pub records: u64,
    /// Bytes of log read in one pass.
    pub log_bytes: u64,
    /// Number of records whose change was not yet in its page. While pages are pending, it grows.
    pub redone: u64,
    /// Number of pages that redo accessed.
    pub pages: u64,
    /// Number of transactions found committed in the log.
    pub winners: u64,
    /// Number of transactions found completely rolled back in the log.
    pub rolled_back: u64,
    /// Number of transactions that were undone.
    pub losers: u64,
    /// Number of records that were undone.
    pub undone: u64,
    /// Number of transactions found prepared, without an outcome.
    pub in_doubt: u64,
    /// Bytes of all heaps.
    pub heap_bytes: u64,
    /// Number of heap words that winners wrote after those checkpoints.
    pub heap_words: u64,
    /// Time to load heaps, unless that is done on demand, and to read and analyse the log.
    pub analysis: Duration,
    /// Number of pages that are [redone on demand](crate::Options::redo_on_demand_bytes), and were not yet; 0 after the end of redo.
    pub pending_pages: u64,
    /// Bytes of log that redo on demand has still to read.
    pub pending_log_bytes: u64,
    /// Bytes of heaps that are [loaded on demand](cedrat_heap::MemoryOptions::load_on_demand_bytes), and were not yet.
    pub absent_heap_bytes: u64,
    /// Time to repeat history; for redo on demand, from the opening until its end, or until now.
    pub redo: Duration,
    /// Time to undo losers.
    pub undo: Duration,
    /// Total time, including the checkpoint at the end.
    pub total: Duration,
    /// An error of the system for each thread that it has refused of those that
    /// [`Options::background`](crate::Options::background) requests: the store works without them.
    pub refused_threads: Vec<String>,
}

/// The undo of one operation, or the runs of one logical undo or finish; see [`Store::undone`](crate::Store::undone).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undone {
    /// Number of undos, or of runs.
    pub times: u64,
    /// The most bytes of log that one run of a logical undo or finish has taken; 0 for an operation. If it exceeds
    /// `LOG_BYTES_MAX`, a rollback may find the log full.
    pub log_bytes_max: u64,
}

/// [`Undone`], while transactions run.
#[derive(Debug, Default)]
pub(crate) struct UndoCounts {
    pub(crate) times: AtomicU64,
    pub(crate) log_bytes_max: AtomicU64,
}

impl UndoCounts {
    pub(crate) fn read(&self) -> Undone {
        Undone { times: self.times.load(Ordering::Relaxed), log_bytes_max: self.log_bytes_max.load(Ordering::Relaxed) }
    }
}

/// The progress of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// The log is read and analysed.
    Analysis {
        /// Bytes read.
        done: u64,
        /// Total bytes.
        of: u64,
    },
    /// History is repeated.
    Redo {
        /// Bytes read.
        done: u64,
        /// Total bytes.
        of: u64,
    },
    /// Heaps are [loaded](cedrat_heap::MemoryOptions::load_on_demand_bytes) after the opening.
    Load {
        /// Bytes loaded.
        done: u64,
        /// Total bytes.
        of: u64,
    },
    /// Losers are undone.
    Undo {
        /// Transactions undone.
        done: u64,
        /// Total transactions.
        of: u64,
    },
}

/// The result of [`crate::Store::check`] for a sound store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Number of allocated pages, including space maps.
    pub pages_allocated: u64,
    /// Number of free pages below the highest allocated one.
    pub pages_free: u64,
    /// Number of pages of each layout kind, by its number.
    pub kinds: std::collections::BTreeMap<u16, u64>,
}
