//! What recovery and checks tell.

use std::time::Duration;

use cedrat_wal::Lsn;

/// What an opening did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Whether the store was created by this opening; there was nothing to recover then.
    pub created: bool,
    /// Where the log was read from.
    pub scanned_from: Lsn,
    /// The LSN after the last that counts.
    pub end: Lsn,
    /// Records read.
    pub records: u64,
    /// Bytes of log read in one pass.
    pub log_bytes: u64,
    /// Records whose change was not yet in its page.
    pub redone: u64,
    /// Pages that redo looked at.
    pub pages: u64,
    /// Transactions that were found committed in the log read.
    pub winners: u64,
    /// Transactions that were found rolled back to their end.
    pub rolled_back: u64,
    /// Transactions that were undone.
    pub losers: u64,
    /// Records that were undone.
    pub undone: u64,
    /// Transactions that were found prepared, without an outcome.
    pub in_doubt: u64,
    /// Bytes of all heaps, loaded from their checkpoints.
    pub heap_bytes: u64,
    /// Heap words that winners wrote behind those.
    pub heap_words: u64,
    /// Time taken to load heaps, and to read and judge the log.
    pub analysis: Duration,
    /// Time taken to repeat history.
    pub redo: Duration,
    /// Time taken to undo losers.
    pub undo: Duration,
    /// Time taken in all, the checkpoint at the end included.
    pub total: Duration,
}

/// How far recovery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// The log is read and judged.
    Analysis {
        /// Bytes read.
        done: u64,
        /// Bytes in all.
        of: u64,
    },
    /// History is repeated.
    Redo {
        /// Bytes read.
        done: u64,
        /// Bytes in all.
        of: u64,
    },
    /// Losers are undone.
    Undo {
        /// Transactions undone.
        done: u64,
        /// Transactions in all.
        of: u64,
    },
}

/// What [`crate::Store::check`] found in a sound store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Pages that are allocated, space-map pages included.
    pub pages_allocated: u64,
    /// Pages below the highest allocated one that are free.
    pub pages_free: u64,
    /// Pages of each layout kind, by its number.
    pub kinds: std::collections::BTreeMap<u16, u64>,
}
