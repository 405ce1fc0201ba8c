//! An open store: what its transactions share.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;

use cedrat_heap::{FoundHeaps, LogKeeper, Memory};
use cedrat_media::{LockGuard, Media};
use cedrat_pages::layout::Layouts;
use cedrat_pages::{Cleaner, LatchedPage, OptimisticPage, PageId, Pool};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex, Weak};
use cedrat_wal::{CONTROL_FILE, Log, LogError, LogOptions, Lsn, PartitionId, TxnId, Writer};

use crate::checkpoint::{Checkpointer, Checkpoints};
use crate::deferred::Keepers;
use crate::error::{Error, Result};
use crate::in_doubt::Hidden;
use crate::locks::LockManager;
use crate::options::Options;
use crate::prepared::Branches;
use crate::recovery;
use crate::registry::{Numbers, Registry};
use crate::report::RecoveryReport;
use crate::space::Space;
use crate::table::Table;
use crate::transaction::{Commit, Freed, Txn, TxnOptions};

/// The page at which the catalogue of named roots begins. It is in use from the beginning and cannot be freed.
pub const CATALOGUE: PageId = PageId::new(1);

pub use cedrat_wal::LOCK_FILE;

/// An open store. Cheap to clone; all clones are the same store, and may be used from any thread.
///
/// The last one dropped, transactions included, closes it: what was committed asynchronously is forced, and the threads
/// end. [`Store::close`] does more for the next opening.
#[derive(Clone)]
pub struct Store {
    // Dropped in this order: the lease last, which waits for the threads that use what `inner` holds.
    pub(crate) inner: Arc<Inner>,
    lease: Arc<Lease>,
}

/// What the transactions of a store share.
pub(crate) struct Inner {
    pub(crate) log: Log,
    pub(crate) pool: Arc<Pool>,
    pub(crate) memory: Memory,
    pub(crate) locks: Arc<dyn LockManager>,
    pub(crate) numbers: Numbers,
    pub(crate) set_space_number: u32,
    pub(crate) table: Table,
    pub(crate) space: Space,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) keepers: Keepers,
    pub(crate) branches: Branches,
    pub(crate) hidden: Hidden,
    pub(crate) next_txn: Arc<AtomicU64>,
    /// The newest commit record appended; it may not be durable yet.
    pub(crate) newest_commit: AtomicU64,
    pub(crate) log_limit_bytes: u64,
    pub(crate) body_len_max: usize,
    pub(crate) no_flush: bool,
    attempts: u32,
    pub(crate) layouts: Layouts,
    residents: Mutex<Residents>,
    report: Mutex<RecoveryReport>,
    #[cfg(feature = "planted-faults")]
    pub(crate) fault: Option<crate::Fault>,
    /// No other opening of the store succeeds while this lives.
    _lock: LockGuard,
}

/// What structures keep in memory, by their root pages and its type.
type Residents = HashMap<(PageId, TypeId), Arc<dyn Any + Send + Sync>>;

/// Keeps the store's threads, and ends them.
struct Lease {
    inner: Arc<Inner>,
    threads: Mutex<Option<Threads>>,
}

/// Ended in this order: who wants work done before who does it.
struct Threads {
    _checkpointer: Checkpointer,
    _cleaner: Cleaner,
    _writer: Writer,
}

impl Store {
    /// Opens a store, which is recovering it: there is no other way in (R1). Creates it if there is none and
    /// [`Options::create`] says so.
    ///
    /// When this returns, history was repeated, and every transaction without a commit record was undone (E15.2), but for those
    /// that are [in doubt](Store::in_doubt), which have their locks again.
    ///
    /// # Errors
    /// [`Error::InUse`]; [`Error::Unregistered`], and damage of any file, with nothing written (R2).
    pub fn open(media: Arc<dyn Media>, options: Options, registry: Registry) -> Result<Store> {
        registry.check()?;
        if !options.create && !names(&media)?.iter().any(|name| name == CONTROL_FILE) {
            // Before the lock, which would leave its file behind (R2).
            return Err(LogError::Absent { file: CONTROL_FILE.into() }.into());
        }
        let lock = lock(&media)?;
        let store = match Log::look(&media) {
            Ok(found) if found.control().is_log_alone() => {
                let (file, found, wanted) = (CONTROL_FILE.into(), "a log alone", "a store");
                return Err(LogError::Foreign { file, found, wanted }.into());
            }
            Ok(found) => recovery::recover(media, found, lock, &options, &registry)?,
            Err(LogError::Absent { .. }) if options.create => create(media, lock, &options, &registry)?,
            Err(error) => return Err(error.into()),
        };
        if options.background {
            store.start_threads(&options)?;
        }
        Ok(store)
    }

    pub(crate) fn around(inner: Inner) -> Store {
        let inner = Arc::new(inner);
        inner.memory.set_log_keeper(Arc::new(LogOfHeaps(Arc::downgrade(&inner))));
        let lease = Arc::new(Lease { inner: Arc::clone(&inner), threads: Mutex::new(None) });
        Store { inner, lease }
    }

    fn start_threads(&self, options: &Options) -> Result<()> {
        let threads = Threads {
            _writer: self.inner.log.start_writer(),
            _cleaner: self.inner.pool.start_cleaner()?,
            _checkpointer: Checkpointer::start(&self.inner, options.checkpoint_every_bytes)?,
        };
        *self.lease.threads.lock() = Some(threads);
        if options.checkpoint_when_opened && self.recovery().redone + self.recovery().undone > 0 {
            // What recovery has in memory goes home behind the first transactions' backs.
            self.inner.checkpoints.ask();
        }
        Ok(())
    }

    /// Begins a transaction. It costs nothing until it changes something.
    #[inline]
    pub fn begin(&self) -> Txn {
        let id = TxnId(self.inner.next_txn.fetch_add(1, Ordering::Relaxed));
        Txn::new(self.clone(), id)
    }

    /// Begins a transaction that does without some of what transactions promise.
    pub fn begin_with(&self, options: TxnOptions) -> Txn {
        let mut txn = self.begin();
        txn.options = options;
        txn
    }

    /// Runs `work` in a transaction, and commits it durably.
    ///
    /// **Promise:** when this returns `Ok`, the changes survive a power failure (unless the store was opened in no-flush
    /// mode). When `work` fails, nothing of it remains: should the rollback be cut short because the store stops, the next
    /// opening completes it. The error is that of `work` all the same, for it says why; the store's is met by the next call.
    ///
    /// **Again:** `work` is run again after a deadlock, and after a conflict over heap words, so it should touch nothing but
    /// the store.
    ///
    /// # Errors
    /// Those of `work`, of which an application's own go through [`Error::user`]; [`Error::Deadlock`] after
    /// [`Options::attempts`] runs; those of [`Txn::commit`].
    pub fn transact<T>(&self, mut work: impl FnMut(&mut Txn) -> Result<T>) -> Result<T> {
        let mut attempts_left = self.inner.attempts;
        loop {
            let mut txn = self.begin();
            let (error, rolled_back) = match work(&mut txn) {
                Ok(value) => match txn.commit(Commit::Sync) {
                    Ok(_) => return Ok(value),
                    Err(error) => (error, Ok(())),
                },
                Err(error) => (error, txn.rollback()),
            };
            if !error.is_worth_retrying() {
                return Err(error);
            }
            // A store that has stopped would be asked in vain.
            rolled_back?;
            // Conflicts over heap words are not counted: the other one may be waiting for this processor with its stripes locked,
            // and a hundred attempts are over sooner.
            attempts_left = attempts_left.saturating_sub(u32::from(matches!(error, Error::Deadlock(_))));
            if attempts_left == 0 {
                return Err(error);
            }
            // Who was quicker may not have ended yet, and may wait for this processor.
            cedrat_sync::thread::yield_now();
        }
    }

    /// Why the last checkpoint has failed, if it has, in words: until one succeeds the log is not given up, or not all of it,
    /// and may fill up. Those that nobody asks for are taken in the background.
    pub fn checkpoint_failure(&self) -> Option<String> {
        self.inner.checkpoints.failed().map(|failed| failed.why)
    }

    /// What the opening did.
    pub fn recovery(&self) -> RecoveryReport {
        self.inner.report.lock().clone()
    }

    pub(crate) fn set_report(&self, report: RecoveryReport) {
        *self.inner.report.lock() = report;
    }

    /// What a structure keeps in memory while the store is open: its latch, a copy of its header. Made by the first who asks;
    /// forgotten when the root page is freed.
    ///
    /// `init` may run in two threads at once; one result is kept.
    ///
    /// # Errors
    /// Those of `init`.
    pub fn resident<T: Send + Sync + 'static>(&self, root: PageId, init: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        self.resident_of(root, |_| true, init)
    }

    /// As [`resident`](Store::resident), if it is of the structure that the caller means: another one, which has had the root
    /// page before and was made resident by somebody who was late, is forgotten.
    ///
    /// # Errors
    /// Those of `init`.
    pub fn resident_of<T: Send + Sync + 'static>(
        &self,
        root: PageId,
        is_meant: impl Fn(&T) -> bool,
        init: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let key = (root, TypeId::of::<T>());
        let known = |residents: &Residents| {
            let known = Arc::clone(residents.get(&key)?).downcast().expect("the key holds the type");
            is_meant(&known).then_some(known)
        };
        let found = known(&self.inner.residents.lock());
        if let Some(resident) = found {
            return Ok(resident);
        }
        // Outside of the mutex, because it may read pages.
        let made = Arc::new(init()?);
        let mut residents = self.inner.residents.lock();
        if let Some(resident) = known(&residents) {
            return Ok(resident);
        }
        residents.insert(key, Arc::<T>::clone(&made));
        Ok(made)
    }

    /// Reads a page under its shared latch, outside of any transaction: it may hold what no one committed yet.
    ///
    /// Drop it soon, and before this thread changes any page.
    ///
    /// # Errors
    /// If the page cannot be read.
    pub fn read(&self, page: PageId) -> Result<LatchedPage<'_>> {
        Ok(self.inner.pool.read(page)?)
    }

    /// Looks at a page without a latch; see [`Pool::optimistic`].
    ///
    /// # Errors
    /// If the page cannot be read.
    #[inline]
    pub fn optimistic<R>(&self, page: PageId, look: impl FnMut(OptimisticPage<'_>) -> Option<R>) -> Result<R> {
        Ok(self.inner.pool.optimistic(page, look)?)
    }

    /// The log: to force it, to iterate over it, to ask for its durable position. It is not for appending: records without
    /// a transaction would be lost on recovery's table of who is running.
    pub fn log(&self) -> &Log {
        &self.inner.log
    }

    /// The store's heaps: to create and find them, and to run transactions on them alone.
    ///
    /// Heaps and sessions that come from it keep the store open. For transactions over heaps and pages: [`Txn::heap`].
    pub fn memory(&self) -> Memory {
        let lease: Arc<Lease> = Arc::clone(&self.lease);
        self.inner.memory.with_lease(lease)
    }

    /// The page pool.
    pub fn pool(&self) -> &Pool {
        &self.inner.pool
    }

    /// The lock manager that the store was opened with.
    pub fn locks(&self) -> &Arc<dyn LockManager> {
        &self.inner.locks
    }

    /// How many transactions have written something and have not ended.
    pub fn running(&self) -> usize {
        self.inner.table.len()
    }

    /// Takes a checkpoint: pages go home, the redo point moves up, log that nobody needs is given back, and so is the space
    /// of pages that stayed free. Transactions go on meanwhile (it is *fuzzy*).
    ///
    /// # Errors
    /// The store stopped.
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.checkpoint()
    }

    /// Closes the store so that the next opening has nothing to do: takes a checkpoint, writes the log's promise, ends the
    /// threads.
    ///
    /// # Errors
    /// [`Error::Misuse`] while other clones, transactions, heaps or sessions live: then nothing is closed, but this clone is gone. The
    /// store stopped.
    pub fn close(self) -> Result<()> {
        if Arc::strong_count(&self.lease) > 1 {
            return Err(Error::Misuse(
                "other clones of the store, its transactions, heaps or sessions still live; drop them first",
            ));
        }
        self.inner.last_checkpoint()?;
        self.inner.log.promise()?;
        Ok(())
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("log", &self.inner.log).field("pool", &self.inner.pool).finish_non_exhaustive()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.threads.get_mut().take());
        let log = &self.inner.log;
        if log.stopped().is_none() {
            // What fails here stops the log, and the next opening judges; there is nobody left to tell.
            let _ = log.force(log.current_lsn());
            let _ = log.promise();
        }
    }
}

impl Inner {
    /// Puts the rooms together. `names` are bound as the log's control file has them now.
    pub(crate) fn new(rooms: Rooms, options: &Options, registry: &Registry, tail: u64, next_txn: u64) -> Result<Inner> {
        let Rooms { log, pool, heaps, lock } = rooms;
        let numbers = Numbers::bind(registry, &log.control().names);
        let set_space_number = numbers
            .of_type(TypeId::of::<crate::SetSpace>())
            .ok_or(Error::Misuse("the registry has no built-in operations"))?;
        let next_txn = Arc::new(AtomicU64::new(next_txn.max(1)));
        Ok(Inner {
            memory: heaps.open(log.clone(), Arc::clone(&next_txn))?,
            body_len_max: log.body_len_max(),
            log,
            pool: Arc::new(pool),
            locks: Arc::clone(&options.locks),
            numbers,
            set_space_number,
            table: Table::default(),
            space: Space::beyond(tail),
            checkpoints: Checkpoints::default(),
            keepers: Keepers::default(),
            branches: Branches::default(),
            hidden: Hidden::default(),
            next_txn,
            newest_commit: AtomicU64::new(0),
            log_limit_bytes: options.log_limit_bytes,
            no_flush: options.no_flush,
            attempts: options.attempts.max(1),
            layouts: registry.layouts().clone(),
            residents: Mutex::default(),
            report: Mutex::default(),
            #[cfg(feature = "planted-faults")]
            fault: options.fault,
            _lock: lock,
        })
    }

    /// Whether the store goes on.
    #[inline]
    pub(crate) fn alive(&self) -> Result<()> {
        if self.log.is_stopped() { Err(self.why_not_alive()) } else { Ok(()) }
    }

    #[cold]
    fn why_not_alive(&self) -> Error {
        self.log.stopped().expect("it has stopped").into()
    }

    /// A commit record was appended. Before its transaction's locks go: who reads what it wrote finds it here.
    pub(crate) fn note_commit(&self, lsn: Lsn) {
        self.newest_commit.fetch_max(lsn.get(), Ordering::AcqRel);
    }

    /// Space freed by a transaction that has ended.
    pub(crate) fn release(&self, freed: Freed) {
        let first = freed.extent.first;
        self.residents.lock().retain(|(root, _), _| !(first..freed.extent.end()).contains(&root.get()));
        self.space.release(freed);
    }

    pub(crate) fn partition_of(&self, id: TxnId) -> PartitionId {
        PartitionId((id.0 % u64::from(self.log.partitions())) as u16)
    }
}

/// What an open store is put together from.
pub(crate) struct Rooms {
    pub(crate) log: Log,
    pub(crate) pool: Pool,
    pub(crate) heaps: FoundHeaps,
    pub(crate) lock: LockGuard,
}

/// Heaps' commits fill the log that the store looks after.
struct LogOfHeaps(Weak<Inner>);

impl LogKeeper for LogOfHeaps {
    fn taken(&self, bytes: u64) {
        if let Some(inner) = self.0.upgrade() {
            inner.checkpoints.note(bytes);
        }
    }

    fn make_room(&self) {
        if let Some(inner) = self.0.upgrade() {
            inner.make_room();
        }
    }
}

fn lock(media: &Arc<dyn Media>) -> Result<LockGuard> {
    cedrat_wal::lock(&**media).map_err(|error| match error {
        LogError::InUse { path } => Error::InUse { path },
        LogError::Io { doing, source } => Error::io(doing, source),
        other => other.into(),
    })
}

fn names(media: &Arc<dyn Media>) -> Result<Vec<String>> {
    media.list("").map_err(|error| Error::io("listing the store's directory", error))
}

fn create(media: Arc<dyn Media>, lock: LockGuard, options: &Options, registry: &Registry) -> Result<Store> {
    if names(&media)?.iter().any(|file| file == cedrat_pages::PAGE_FILE) {
        // Pages without a log: to create a store over them would lose them for good.
        let file = CONTROL_FILE.to_owned();
        let what = format!("it is missing, but there is a page file ({})", cedrat_pages::PAGE_FILE);
        return Err(LogError::Damaged { file, offset: 0, what }.into());
    }
    let names: Vec<&str> = registry.names().collect();
    let log = Log::create(&media, &log_options(options), &names)?;
    let store = log.control().store;
    let heaps = FoundHeaps::load(&media, store, &options.memory, 0)?;
    let pool = Pool::open(media, log.clone(), pool_options(options))?;
    let tail = CATALOGUE.get() + 1;
    pool.ensure_len(tail)?;
    let inner = Inner::new(Rooms { log, pool, heaps, lock }, options, registry, tail, 1)?;
    inner.space.load(&inner.pool)?;
    let store = Store::around(inner);
    let end = store.inner.log.current_lsn().next();
    store.set_report(RecoveryReport { created: true, end, ..RecoveryReport::default() });
    Ok(store)
}

pub(crate) fn log_options(options: &Options) -> LogOptions {
    LogOptions {
        partitions: options.partitions,
        segment_len: options.segment_len,
        page_len: cedrat_pages::PAGE_LEN as u32,
        log_bytes_max: options.log_limit_bytes,
        ..options.log.clone()
    }
}

pub(crate) fn pool_options(options: &Options) -> cedrat_pages::PoolOptions {
    let mut pool = options.pool.clone();
    pool.capacity_pages = (options.pool_bytes / cedrat_pages::PAGE_LEN as u64) as usize;
    pool
}
