//! What can be chosen when a store is opened.

use std::fmt;

use cedrat_heap::MemoryOptions;
use cedrat_pages::PoolOptions;
use cedrat_sync::Arc;
use cedrat_wal::LogOptions;

use crate::locks::{LockManager, PageLocks};
use crate::report::Progress;

/// Choices for a store. Those marked *fixed* are made once, when the store is created, and ignored later.
#[derive(Clone)]
pub struct Options {
    /// Memory for pages, in bytes: a hard bound.
    pub pool_bytes: u64,
    /// The log's size on disk, in bytes, all partitions together (E16).
    pub log_limit_bytes: u64,
    /// The length of a log segment, in bytes. *Fixed.*
    pub segment_len: u64,
    /// How many partitions the log has. One is best for synchronous commits, a few for many asynchronous ones.
    /// *Fixed.*
    pub partitions: u16,
    /// Who isolates transactions from each other.
    pub locks: Arc<dyn LockManager>,
    /// Whether the store has threads of its own: writers of the log, a page cleaner, and a checkpointer. Nothing correct
    /// depends on them; without them, [`crate::Store::checkpoint`] is called where the log fills up.
    pub background: bool,
    /// How many threads load heaps and redo pages and words in recovery. 0: the opening thread itself, in a repeatable order.
    pub redo_threads: usize,
    /// The checkpointer works whenever the log has grown by this many bytes; `u64::MAX`: only where the log is full.
    pub checkpoint_every_bytes: u64,
    /// Whether an opening that had something to recover ends with a checkpoint, so that the next one need not recover the
    /// same again. With `background`, the checkpointer takes it meanwhile.
    pub checkpoint_when_opened: bool,
    /// Whether a missing store is created.
    pub create: bool,
    /// Whether a commit in mode `Sync` may return before it is durable: the "no flush" mode (Lemon §1, L022). A crash
    /// may then lose the newest transactions, each as a whole and the newest first; the store stays consistent.
    pub no_flush: bool,
    /// How often [`crate::Store::transact`] runs a transaction that lost a deadlock, at most.
    pub attempts: u32,
    /// Told how far a long recovery has come.
    pub progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
    /// Choices for the log that have no name here. Fields that have one are overwritten.
    pub log: LogOptions,
    /// Choices for the transactional memory of heaps.
    pub memory: MemoryOptions,
    /// Choices for the page pool that have no name here. Fields that have one are overwritten.
    pub pool: PoolOptions,
    /// A deliberate mistake, for tests that show that it is noticed.
    #[cfg(feature = "planted-faults")]
    pub fault: Option<Fault>,
}

/// A deliberate mistake. Tests plant one and show that it is caught. Those of the log and of the pool are planted
/// through `Options::log` and `Options::pool`.
#[cfg(feature = "planted-faults")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A compensation record names the record it compensates as the next to undo (against E5.4).
    CompensationChainWrong,
    /// Checkpoints do not ask for what was deferred and is in no page (against E19.4).
    KeepersNotAsked,
    /// Deferred changes are redone by the LSN of their page (against E19.2).
    RedoneByPageLsn,
    /// What counts only if committed is redone whether it was or not (against E19.5).
    UncommittedCounts,
    /// Redo leaves out the changes that a commit record has (against E19.15).
    CommitChangesLeftOut,
    /// Preparing does not wait until it is durable (against E9.2).
    PrepareNotForced,
    /// Recovery undoes prepared transactions (against E9.1).
    PreparedUndone,
    /// A prepared transaction has no locks any more when the store was opened again (against E9.3).
    LocksNotRestored,
    /// The rollback of a prepared transaction lets its locks go before its end is durable (against E9.4).
    RollbackNotForced,
    /// What a prepared transaction has freed is given to others before its outcome (against E9.6).
    FreedTooEarly,
    /// Checkpoints do not ask for prepared transactions (against E9.5).
    PreparedNotKept,
    /// What a prepared transaction of an earlier opening has deferred is made twice (against E9.7).
    DeferredMadeTwice,
}

impl Default for Options {
    fn default() -> Options {
        let log = LogOptions::default();
        Options {
            pool_bytes: 256 << 20,
            log_limit_bytes: 1 << 30,
            segment_len: log.segment_len,
            partitions: log.partitions,
            locks: Arc::new(PageLocks::default()),
            background: true,
            redo_threads: 2,
            checkpoint_every_bytes: 256 << 20,
            checkpoint_when_opened: true,
            create: true,
            no_flush: false,
            attempts: 100,
            progress: None,
            log,
            memory: MemoryOptions::default(),
            pool: PoolOptions::default(),
            #[cfg(feature = "planted-faults")]
            fault: None,
        }
    }
}

impl Options {
    /// A small store without threads of its own, whose every run is the same: for simulations and tests.
    pub fn simulated() -> Options {
        let log = LogOptions::small();
        let mut pool = PoolOptions::default();
        // Under the seeded scheduler each page's latch word is a large object, and every schedule has its own.
        pool.pages_max = if cfg!(cedrat_shuttle) { 1 << 12 } else { 1 << 20 };
        Options {
            pool_bytes: 1 << 20,
            log_limit_bytes: log.log_bytes_max,
            segment_len: log.segment_len,
            partitions: log.partitions,
            background: false,
            redo_threads: 0,
            log,
            memory: MemoryOptions::small(),
            pool,
            ..Options::default()
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("pool_bytes", &self.pool_bytes)
            .field("log_limit_bytes", &self.log_limit_bytes)
            .field("segment_len", &self.segment_len)
            .field("partitions", &self.partitions)
            .field("locks", &self.locks)
            .field("background", &self.background)
            .field("redo_threads", &self.redo_threads)
            .field("checkpoint_every_bytes", &self.checkpoint_every_bytes)
            .field("checkpoint_when_opened", &self.checkpoint_when_opened)
            .field("create", &self.create)
            .field("no_flush", &self.no_flush)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}
