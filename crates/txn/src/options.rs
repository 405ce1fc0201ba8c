//! The options of a store.

use std::fmt;
use std::time::Duration;

use cedrat_heap::MemoryOptions;
use cedrat_media::{Encryption, Media};
use cedrat_pages::PoolOptions;
use cedrat_sync::Arc;
use cedrat_wal::LogOptions;

use crate::limits::{Clock, SystemClock};
use crate::locks::{LockManager, PageLocks};
use crate::report::Progress;

/// Maximum number of threads that recover a store. Each may take about 20 MB for the records that wait for it.
pub(crate) const REDO_THREADS_MAX: usize = 64;

/// Options of a store. Those marked *fixed* take effect when the store is created, and are ignored later.
pub struct Options {
    /// Memory for pages, in bytes: a hard limit.
    pub pool_bytes: u64,
    /// The size of the log on disk, in bytes, all partitions together.
    pub log_limit_bytes: u64,
    /// Bytes of log that one transaction may hold, counted from its first record; the store rolls back a transaction
    /// beyond it. `None`: half of [`log_limit_bytes`](Options::log_limit_bytes). Prepared transactions have no
    /// limit.
    pub txn_log_limit_bytes: Option<u64>,
    /// Bytes of log that a prepared transaction may hold; beyond it, a checkpoint carries its records forward to the
    /// head of the log, so that the old ones can be truncated. `None`: a quarter of the limit of other transactions.
    pub carry_forward_bytes: Option<u64>,
    /// Maximum run time of a transaction, from its first lock or change on; the store rolls back an older one. Prepared
    /// transactions have no limit. `None`: no limit.
    pub txn_time_limit: Option<Duration>,
    /// The clock that measures [`txn_time_limit`](Options::txn_time_limit).
    pub clock: Arc<dyn Clock>,
    /// The length of a log segment, in bytes. *Fixed.*
    pub segment_len: u64,
    /// The number of partitions of the log. One is best for synchronous commits, a few for many asynchronous ones.
    /// *Fixed.*
    pub partitions: u16,
    /// The lock manager, which isolates transactions from each other. It serves one store at a time: a clone of the
    /// options has another one ([`LockManager::for_another_store`]).
    pub locks: Arc<dyn LockManager>,
    /// Whether the store has threads of its own: log writers, a page cleaner, and a checkpointer. Correctness does not
    /// depend on them; without them, [`crate::Store::checkpoint`] runs when the log is full. If the system refuses some, the store
    /// opens without them ([`RecoveryReport::refused_threads`](crate::RecoveryReport::refused_threads)).
    pub background: bool,
    /// The number of threads that load heaps and redo pages and words in recovery, at most 64; more count as 64. If the
    /// system refuses some, fewer are used. 0: the opening thread itself, in a repeatable order.
    pub redo_threads: usize,
    /// Bytes of log behind the redo point from which an opening does not redo all changes before it ends. It does so later: those of
    /// a page before the page is first read, and the rest in a thread of the store, or, without [threads](Options::background), in
    /// [`crate::Store::complete_recovery`], in the next checkpoint, or when the log is full. `u64::MAX`: the opening redoes all, and damage
    /// that redo meets refuses the opening instead of stopping the store later.
    pub redo_on_demand_bytes: u64,
    /// Memory for the log that such an opening has read, in bytes, until all is redone: records that lie beyond it are read again, each
    /// by itself, when their page is. `None`: as much as [`pool_bytes`](Options::pool_bytes).
    pub redo_memory_bytes: Option<u64>,
    /// The growth of the log, in bytes, after which the checkpointer runs; `u64::MAX`: only when the log is full.
    pub checkpoint_every_bytes: u64,
    /// Whether an opening that had something to recover ends with a checkpoint, so that the next one need not recover
    /// the same again. With `background`, the checkpointer takes it concurrently.
    pub checkpoint_when_opened: bool,
    /// Whether a missing store is created.
    pub create: bool,
    /// Whether a commit in mode `Sync` may return before it is durable: the "no flush" mode (Lemon §1). A crash
    /// may then lose the newest transactions, each as a whole and the newest first; the store stays consistent.
    pub no_flush: bool,
    /// The maximum number of times that [`crate::Store::transact`] runs a transaction that loses deadlocks.
    pub attempts: u32,
    /// Callback for the progress of a long recovery, of [redo on demand](Options::redo_on_demand_bytes) also after the opening.
    pub progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
    /// The directory of the [archive](crate::restore) of the log, which is begun if it is empty. Open the store with it always:
    /// checkpoints without it release log that it lacks, and the next opening with it is refused. `None`: no archive.
    pub archive: Option<Arc<dyn Media>>,
    /// The keys with which all files of the store, of its archive and of its backups are encrypted. A new store is created with the
    /// newest one. The media of the options and of [`Store::open`](crate::Store::open) are those of the encrypted files. `None`: the
    /// store is not encrypted.
    pub encryption: Option<Encryption>,
    /// The time between two extensions of the archive by the store's own thread.
    pub archive_period: Duration,
    /// Maximum time for which a checkpoint waits for the disk of the archive, if the store has [threads](Options::background). After
    /// that it goes on without, and a full log refuses transactions with that reason, until the disk answers.
    pub archive_wait_max: Duration,
    /// The number of bytes of archived log after which a file of the archive's index is written; damaged pages are rebuilt by
    /// that index. Until then its entries are in memory, and take at most a quarter of that.
    pub archive_run_bytes: u64,
    /// The directory of a [backup](crate::Store::backup) of the store, which the archive continues: damaged pages are rebuilt
    /// from it. The newer it is, the less of the archive is read. `None`: pages are rebuilt if the archive has all of their records.
    pub backup: Option<Arc<dyn Media>>,
    /// Further options of the log. Fields that exist here are overwritten.
    pub log: LogOptions,
    /// Options of the transactional memory of heaps.
    pub memory: MemoryOptions,
    /// Further options of the page pool. Fields that exist here are overwritten.
    pub pool: PoolOptions,
    /// A planted fault, for tests that show that it is detected.
    #[cfg(feature = "planted-faults")]
    pub fault: Option<Fault>,
}

/// A planted fault. Tests plant one and show that it is detected. Those of the log and of the pool are planted through
/// `Options::log` and `Options::pool`.
#[cfg(feature = "planted-faults")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A compensation record names the record it compensates as the next to undo (against E5.4).
    CompensationChainWrong,
    /// Checkpoints ignore deferred changes that are in no page (against E19.4).
    KeepersNotAsked,
    /// Deferred changes are redone by the LSN of their page (against E19.2).
    RedoneByPageLsn,
    /// Changes that count only if committed are always redone (against E19.5).
    UncommittedCounts,
    /// Redo omits the changes in commit records (against E19.15).
    CommitChangesLeftOut,
    /// `prepare` does not wait until the prepare record is durable (against E9.2).
    PrepareNotForced,
    /// Recovery undoes prepared transactions (against E9.1).
    PreparedUndone,
    /// Reopening the store does not restore the locks of prepared transactions (against E9.3).
    LocksNotRestored,
    /// The rollback of a prepared transaction releases its locks before its end is durable (against E9.4).
    RollbackNotForced,
    /// Pages freed by a prepared transaction are allocated again before its outcome (against E9.6).
    FreedTooEarly,
    /// Checkpoints ignore prepared transactions (against E9.5).
    PreparedNotKept,
    /// The deferred changes of a prepared transaction of an earlier opening are applied twice (against E9.7).
    DeferredMadeTwice,
}

impl Default for Options {
    fn default() -> Options {
        let log = LogOptions::default();
        Options {
            pool_bytes: 256 << 20,
            log_limit_bytes: 1 << 30,
            txn_log_limit_bytes: None,
            carry_forward_bytes: None,
            txn_time_limit: None,
            clock: Arc::new(SystemClock::default()),
            segment_len: log.segment_len,
            partitions: log.partitions,
            locks: Arc::new(PageLocks::default()),
            background: true,
            redo_threads: 2,
            redo_on_demand_bytes: 64 << 20,
            redo_memory_bytes: None,
            checkpoint_every_bytes: 256 << 20,
            checkpoint_when_opened: true,
            create: true,
            no_flush: false,
            attempts: 100,
            progress: None,
            archive: None,
            encryption: None,
            archive_period: Duration::from_secs(1),
            archive_wait_max: Duration::from_secs(10),
            archive_run_bytes: 8 << 20,
            backup: None,
            log,
            memory: MemoryOptions::default(),
            pool: PoolOptions::default(),
            #[cfg(feature = "planted-faults")]
            fault: None,
        }
    }
}

impl Clone for Options {
    fn clone(&self) -> Options {
        Options {
            pool_bytes: self.pool_bytes,
            log_limit_bytes: self.log_limit_bytes,
            txn_log_limit_bytes: self.txn_log_limit_bytes,
            carry_forward_bytes: self.carry_forward_bytes,
            txn_time_limit: self.txn_time_limit,
            clock: Arc::clone(&self.clock),
            segment_len: self.segment_len,
            partitions: self.partitions,
            locks: self.locks.for_another_store().unwrap_or_else(|| Arc::clone(&self.locks)),
            background: self.background,
            redo_threads: self.redo_threads,
            redo_on_demand_bytes: self.redo_on_demand_bytes,
            redo_memory_bytes: self.redo_memory_bytes,
            checkpoint_every_bytes: self.checkpoint_every_bytes,
            checkpoint_when_opened: self.checkpoint_when_opened,
            create: self.create,
            no_flush: self.no_flush,
            attempts: self.attempts,
            progress: self.progress.clone(),
            archive: self.archive.clone(),
            encryption: self.encryption.clone(),
            archive_period: self.archive_period,
            archive_wait_max: self.archive_wait_max,
            archive_run_bytes: self.archive_run_bytes,
            backup: self.backup.clone(),
            log: self.log.clone(),
            memory: self.memory.clone(),
            pool: self.pool.clone(),
            #[cfg(feature = "planted-faults")]
            fault: self.fault,
        }
    }
}

impl Options {
    /// Returns options of a small store without threads of its own, whose runs are deterministic: for simulations and
    /// tests.
    pub fn simulated() -> Options {
        Options::simulated_with(LogOptions::small())
    }

    /// Returns options as [`Options::simulated`] does, of a store whose log files become longer ([`LogOptions::growing`]).
    pub fn simulated_growth() -> Options {
        Options::simulated_with(LogOptions::growing())
    }

    fn simulated_with(log: LogOptions) -> Options {
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
            redo_on_demand_bytes: 0,
            redo_memory_bytes: Some(32 << 10), // some records are in memory, and others are not
            archive_run_bytes: 4 << 10,
            log,
            memory: MemoryOptions { load_on_demand_bytes: 0, ..MemoryOptions::small() },
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
            .field("txn_log_limit_bytes", &self.txn_log_limit_bytes)
            .field("txn_time_limit", &self.txn_time_limit)
            .field("segment_len", &self.segment_len)
            .field("partitions", &self.partitions)
            .field("locks", &self.locks)
            .field("background", &self.background)
            .field("redo_threads", &self.redo_threads)
            .field("redo_on_demand_bytes", &self.redo_on_demand_bytes)
            .field("redo_memory_bytes", &self.redo_memory_bytes)
            .field("checkpoint_every_bytes", &self.checkpoint_every_bytes)
            .field("checkpoint_when_opened", &self.checkpoint_when_opened)
            .field("create", &self.create)
            .field("no_flush", &self.no_flush)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}
