//! An open store: the state that its transactions share.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use cedrat_heap::{FoundHeaps, Memory, StoreLink, ThreadWait};
use cedrat_media::Media;
use cedrat_pages::layout::Layouts;
use cedrat_pages::{Cleaner, LatchedPage, OptimisticPage, PageId, Pool};
use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex, Weak, planted, thread};
use cedrat_wal::{
    CONTROL_FILE, DirectoryLock, Log, LogError, LogOptions, PartitionId, StopReason, Stopped, TxnId, Writer,
};

use crate::archive::{Archive, Archiver};
use crate::backup::Backups;
use crate::branches::Branches;
use crate::checkpoint::{Checkpointer, Checkpoints};
use crate::consumers::Consumers;
use crate::counts::Counts;
use crate::deferred::Keepers;
use crate::encryption::{self, StoreKeys};
use crate::error::{Error, OpenError, Result};
use crate::heuristic::Outcomes;
use crate::in_doubt::Hidden;
use crate::increment;
use crate::limits::Limits;
use crate::locks::{HasStopped, LockManager, Refusal};
use crate::nested::holds_latches;
use crate::opening::Opening;
use crate::options::Options;
use crate::rebuild::RebuildOfStore;
use crate::recovery::{self, Completer, RestOfRedo};
use crate::registry::{Numbers, Registry};
use crate::replicas::Replicas;
use crate::report::{RecoveryReport, UndoCounts, Undone};
use crate::residents::Residents;
use crate::schema;
use crate::space::{Space, SpaceNumbers};
use crate::table::Table;
use crate::trace::{event, span};
use crate::transaction::{Commit, Freed, Txn, TxnOptions};
use crate::upkeep::Upkeep;

/// The first page of the catalogue of named roots. It is in use from the beginning and cannot be freed.
pub const CATALOGUE: PageId = PageId::new(1);

pub use cedrat_wal::LOCK_FILE;

/// An open store. Cheap to clone; all clones are the same store, and may be used from any thread.
///
/// Dropping the last clone, including those in transactions, closes it: asynchronous commits are forced, and the
/// threads end. If a [`Waker`](std::task::Waker) drops it on a thread of the store, it closes in the background; until
/// then another opening fails with [`OpenError::InUse`]. After [`Store::close`], the next opening has nothing to recover.
#[derive(Clone)]
pub struct Store {
    // Dropped in this order: the lease last, since it waits for the threads that use `inner`.
    pub(crate) inner: Arc<Inner>,
    lease: Arc<Lease>,
}

/// The state that the transactions of a store share.
pub(crate) struct Inner {
    pub(crate) log: Log,
    pub(crate) pool: Arc<Pool>,
    pub(crate) memory: Memory,
    pub(crate) locks: Arc<dyn LockManager>,
    pub(crate) numbers: Numbers,
    /// By the numbers of `numbers`.
    pub(crate) undone: Box<[UndoCounts]>,
    pub(crate) space_numbers: SpaceNumbers,
    pub(crate) table: Table,
    pub(crate) space: Space,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) rest_of_redo: RestOfRedo,
    pub(crate) backups: Backups,
    pub(crate) archive: Option<Archive>,
    pub(crate) keys: Option<StoreKeys>,
    pub(crate) consumers: Consumers,
    pub(crate) replicas: Replicas,
    pub(crate) keepers: Keepers,
    pub(crate) branches: Branches,
    pub(crate) outcomes: Outcomes,
    pub(crate) hidden: Hidden,
    pub(crate) counts: Counts,
    pub(crate) next_txn: Arc<AtomicU64>,
    pub(crate) limits: Limits,
    /// A reference to itself, for transactions that a checkpoint works with.
    this: Mutex<Weak<Inner>>,
    pub(crate) body_len_max: usize,
    pub(crate) no_flush: bool,
    attempts: u32,
    pub(crate) layouts: Layouts,
    pub(crate) opening: Opening,
    /// Whether the last handle is gone: no caller can end a prepared transaction any more.
    is_closing: AtomicBool,
    /// Whether recovery runs: no caller can end a prepared transaction yet.
    is_recovering: AtomicBool,
    /// The process that has opened the store.
    process: u32,
    pub(crate) residents: Residents,
    pub(crate) report: Mutex<RecoveryReport>,
    #[cfg(feature = "planted-faults")]
    pub(crate) fault: Option<crate::Fault>,
    /// Prevents any other opening of the store.
    _lock: DirectoryLock,
}

/// Owns the store's threads, and ends them.
struct Lease {
    inner: Arc<Inner>,
    threads: Mutex<Option<Threads>>,
    /// Whether one of the store's own threads owns it: then its drop closes nothing.
    is_a_threads: bool,
}

/// Ended in this order: threads that request work before those that do it. Those that the system has refused are missing (R7).
struct Threads {
    drainer: Option<Completer>,
    loader: Option<Completer>,
    archiver: Option<Archiver>,
    checkpointer: Option<Checkpointer>,
    cleaner: Option<Cleaner>,
    writer: Writer,
}

impl Store {
    /// Opens a store and recovers it. Creates the store if it is missing and [`Options::create`] is set.
    ///
    /// When this returns, the changes in the log were redone, or are redone in each page before it is read
    /// ([`Options::redo_on_demand_bytes`]), and every transaction without a commit record was undone. The
    /// [in-doubt](Store::in_doubt) ones were not: they have their locks again.
    ///
    /// # Errors
    /// [`OpenError::InUse`]; [`OpenError::Unregistered`], and damage of any file, with nothing written, except that of a page which
    /// recovery has to change: then the next opening continues.
    pub fn open(media: Arc<dyn Media>, options: Options, registry: Registry) -> Result<Store, OpenError> {
        span!("opening");
        let opened = Store::open_any(media, options, registry);
        if let Err(_error) = &opened {
            event!(ERROR, error = %_error, "the opening was refused, or failed");
        }
        Ok(opened?)
    }

    fn open_any(media: Arc<dyn Media>, options: Options, registry: Registry) -> Result<Store> {
        registry.check()?;
        // Before anything is created (R2).
        if !planted!("options_checked_late") {
            pool_options(&options).check()?;
            options.memory.check()?;
        }
        if options.backup.is_some() && options.archive.is_none() {
            return Err(Error::Misuse(
                "Options::backup: pages are rebuilt from a backup and an archive; set Options::archive, too",
            ));
        }
        if !options.create && !names(&media)?.iter().any(|name| name == CONTROL_FILE) {
            // Checked before locking, which would leave its file behind (R2).
            return Err(LogError::Absent { file: CONTROL_FILE.into() }.into());
        }
        if let Some(found) = encryption::look(&media, &options)? {
            increment::refuse(&*found, "a store")?;
        }
        let lock = lock(&media)?;
        let (media, options, keys) = encryption::decrypted(media, options)?;
        let store = match Log::look(&media) {
            Ok(found) if found.control().is_log_alone() => {
                let (file, found, wanted) = (CONTROL_FILE.into(), "a log alone", "a store");
                return Err(LogError::Foreign { file, found, wanted }.into());
            }
            Ok(found) => recovery::recover(media, found, (lock, keys), &options, &registry)?,
            Err(LogError::Absent { .. }) if options.create => create(media, (lock, keys), &options, &registry)?,
            Err(error) => return Err(error.into()),
        };
        if options.background {
            store.start_threads(&options)?;
        }
        Ok(store)
    }

    pub(crate) fn around(inner: Inner) -> Store {
        let inner = Arc::new(inner);
        *inner.this.lock() = Arc::downgrade(&inner);
        let this = Arc::downgrade(&inner);
        let has_stopped = move || this.upgrade().is_none_or(|inner| inner.is_recovering() || inner.may_wait().is_err());
        inner.locks.serves(HasStopped::new(has_stopped));
        if inner.archive.is_some() {
            inner.pool.rebuild_with(RebuildOfStore::of(&inner));
        }
        inner.memory.set_store_link(Arc::new(LinkOfMemory(Arc::downgrade(&inner))));
        let lease = Lease::of(&inner, false);
        Store { inner, lease }
    }

    /// Returns the store for one of its own threads; this clone does not keep it open.
    pub(crate) fn of_thread(inner: &Arc<Inner>) -> Store {
        Store { inner: Arc::clone(inner), lease: Lease::of(inner, true) }
    }

    /// Whether it is the store of one of its own threads.
    pub(crate) fn is_a_threads(&self) -> bool {
        self.lease.is_a_threads
    }

    /// Returns whether the store was opened with threads of its own ([`Options::background`]).
    pub fn has_threads(&self) -> bool {
        self.lease.threads.lock().is_some()
    }

    fn start_threads(&self, options: &Options) -> Result<()> {
        let writer = self.inner.log.start_writer();
        let mut refused = writer.refused().to_vec();
        let cleaner =
            self.inner.pool.start_cleaner().map_err(|error| refused.push(Error::from(error).to_string())).ok();
        let checkpointer = Checkpointer::start(&self.inner, options.checkpoint_every_bytes);
        let checkpointer = checkpointer.map_err(|error| refused.push(error.to_string())).ok();
        let has_checkpointer = checkpointer.is_some();
        let loader = Completer::load(&self.inner, options).unwrap_or_else(|error| {
            refused.push(error.to_string());
            None
        });
        let drainer = Completer::drain(&self.inner).or_else(|error| {
            refused.push(error.to_string());
            self.inner.complete_redo().map(|()| None)
        })?;
        let archiver = Archiver::start(&self.inner, options.archive_period);
        let archiver = archiver.unwrap_or_else(|error| {
            refused.push(error.to_string());
            None
        });
        *self.lease.threads.lock() = Some(Threads { drainer, loader, archiver, checkpointer, cleaner, writer });
        if planted!("opening_needs_threads") && !refused.is_empty() {
            return Err(Error::io(refused.join("; "), std::io::ErrorKind::WouldBlock.into()));
        }
        self.inner.report.lock().refused_threads = refused;
        let RecoveryReport { redone, undone, mut heap_words, .. } = self.recovery();
        if planted!("replayed_words_not_counted") {
            heap_words = 0;
        }
        if options.checkpoint_when_opened && redone + undone + heap_words > 0 {
            if has_checkpointer {
                // What recovery has changed is written concurrently with the first transactions.
                self.inner.checkpoints.ask();
            } else if self.inner.checkpoint().is_err() {
                self.inner.alive()?; // the failure is recorded, as that of a checkpointer
            }
        }
        Ok(())
    }

    /// Begins a transaction. It has no cost until it changes something.
    #[inline]
    pub fn begin(&self) -> Txn {
        self.inner.limits.transaction_begins(&self.inner);
        let id = TxnId(self.inner.next_txn.fetch_add(1, Ordering::Relaxed));
        Txn::new(self.clone(), id)
    }

    /// Begins a transaction without some of the usual guarantees.
    #[inline]
    pub fn begin_with(&self, options: TxnOptions) -> Txn {
        let mut txn = self.begin();
        txn.options = options;
        txn
    }

    /// Runs `work` in a transaction, and commits it durably.
    ///
    /// **Guarantee:** when this returns `Ok`, the changes survive a power failure (unless the store was opened in
    /// no-flush mode). If `work` fails, nothing of it remains; if the store stops during the rollback, the next opening
    /// completes it. The error returned is nevertheless that of `work`, since it is the cause; the next call returns
    /// that of the store.
    ///
    /// **Retries:** `work` is run again after a deadlock, and after a conflict over heap words, so it should have no effect
    /// outside of the store. If it reads a heap word and then changes the word in another transaction that commits, each run
    /// meets a conflict, and the retries never end.
    ///
    /// # Errors
    /// Those of `work`, in which [`Error::user`] wraps the application's own; [`Error::Deadlock`] after
    /// [`Options::attempts`] runs; those of [`Txn::commit`]. [`cedrat_heap::Error::Misuse`]: it was repeated for ten seconds, and
    /// the owner of a heap word that it needs waits, directly or not, for another transaction of this thread.
    pub fn transact<T>(&self, mut work: impl FnMut(&mut Txn) -> Result<T>) -> Result<T> {
        let (mut attempts_left, mut repeated_since, mut refusals) = (self.inner.attempts, None, 0);
        loop {
            let mut txn = self.begin();
            txn.repeated_since = repeated_since;
            if refusals > 0 {
                self.inner.locks.repeats(txn.id(), refusals);
            }
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
            // A retry is pointless if the store has stopped.
            rolled_back?;
            // Conflicts over heap words are not counted: the other transaction may be waiting for this processor with
            // its stripes locked, and a hundred attempts would pass sooner.
            match &error {
                Error::Deadlock(deadlock) => {
                    attempts_left = attempts_left.saturating_sub(1);
                    refusals += u32::from(deadlock.refusal == Refusal::Policy);
                }
                _ => _ = repeated_since.get_or_insert_with(Instant::now),
            }
            if attempts_left == 0 {
                return Err(error);
            }
            // The other transaction may not have ended yet, and may wait for this processor.
            cedrat_sync::thread::yield_now();
        }
    }

    /// Returns the reason why the log is not truncated, or not completely, and may fill up: the last checkpoint, perhaps in the
    /// background, has failed, or the archive was not extended.
    pub fn checkpoint_failure(&self) -> Option<String> {
        self.inner.truncation_failure().map(|failed| failed.why)
    }

    /// Returns the report of the opening, with what was redone and loaded since.
    pub fn recovery(&self) -> RecoveryReport {
        let report = self.inner.report.lock();
        let mut now = report.clone();
        self.inner.rest_of_redo.report(&mut now);
        now.absent_heap_bytes = self.inner.memory.absent_bytes();
        now
    }

    /// Completes the recovery of the opening: redoes everything that is [redone on demand](Options::redo_on_demand_bytes), and loads
    /// what is [loaded on demand](cedrat_heap::MemoryOptions::load_on_demand_bytes), or waits until the threads of the store have.
    /// Transactions may run meanwhile.
    ///
    /// # Errors
    /// The store stopped.
    pub fn complete_recovery(&self) -> Result<()> {
        self.inner.alive()?; // a forked child must not wait for the drain
        self.inner.complete_redo()?;
        self.inner.load_heaps(0, &|_| ())
    }

    /// Returns, by name, how often each operation was undone and each logical undo and finish has run since the store was
    /// opened, including recovery. Names with a count of 0 are absent.
    pub fn undone(&self) -> BTreeMap<String, Undone> {
        let counted = self.inner.numbers.all().zip(&self.inner.undone);
        let counted = counted.map(|(name, counts)| (name.to_owned(), counts.read()));
        counted.filter(|(_, undone)| undone.times > 0).collect()
    }

    pub(crate) fn set_report(&self, report: RecoveryReport) {
        *self.inner.report.lock() = report;
    }

    /// Returns the resident state of a structure while the store is open, for example its latch and a copy of its
    /// header. It is created by the first caller, and dropped when the root page is freed.
    ///
    /// `init` may run in two threads at once; one result is kept.
    ///
    /// # Errors
    /// Those of `init`.
    pub fn resident<T: Send + Sync + 'static>(&self, root: PageId, init: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        self.resident_of(root, |_| true, init)
    }

    /// Returns the resident state as [`resident`](Store::resident) does, but replaces it if `is_meant` returns `false`. Such
    /// state belongs to another structure, which had the root page before; a late caller has created it.
    ///
    /// # Errors
    /// Those of `init`.
    pub fn resident_of<T: Send + Sync + 'static>(
        &self,
        root: PageId,
        is_meant: impl Fn(&T) -> bool,
        init: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        self.inner.residents.of(root, is_meant, init)
    }

    /// Returns the resident state as [`resident`](Store::resident) does. Checkpoints call its [`Upkeep`], as long as it is there.
    ///
    /// # Errors
    /// Those of `init`.
    pub fn resident_with_upkeep<T: Upkeep>(&self, root: PageId, init: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        self.inner.residents.of_kept(root, init)
    }

    /// Reads a page under its shared latch, outside of any transaction: it may contain uncommitted changes.
    ///
    /// Drop it soon, and before this thread changes any page.
    ///
    /// # Errors
    /// The page cannot be read.
    pub fn read(&self, page: PageId) -> Result<LatchedPage<'_>> {
        Ok(self.inner.pool.read(page)?)
    }

    /// Reads a page without a latch; see [`Pool::optimistic`].
    ///
    /// # Errors
    /// The page cannot be read.
    #[inline]
    pub fn optimistic<R>(&self, page: PageId, look: impl FnMut(OptimisticPage<'_>) -> Option<R>) -> Result<R> {
        Ok(self.inner.pool.optimistic(page, look)?)
    }

    /// Returns the log, for forcing, scanning and reading its durable position. Do not append to it: the table of
    /// running transactions, on which recovery depends, would not cover such records.
    pub fn log(&self) -> &Log {
        &self.inner.log
    }

    /// Returns the store's heaps, for creating and finding them, and for transactions on heaps alone.
    ///
    /// Heaps and sessions that come from it keep the store open. For transactions over heaps and pages: [`Txn::heap`].
    pub fn memory(&self) -> Memory {
        let lease: Arc<Lease> = Arc::clone(&self.lease);
        self.inner.memory.with_lease(lease)
    }

    /// Registers that the calling thread waits for these threads ([`cedrat_sync::thread_number`]), at something that the lock
    /// manager does not know: for structures with waits of their own. The result tells whether the wait would end.
    pub fn waits_for(&self, threads: Vec<usize>) -> ThreadWait<'_> {
        self.inner.memory.waits_for(threads)
    }

    /// Returns the page pool.
    pub fn pool(&self) -> &Pool {
        &self.inner.pool
    }

    /// Returns the lock manager with which the store was opened.
    pub fn locks(&self) -> &Arc<dyn LockManager> {
        &self.inner.locks
    }

    /// Returns the number of transactions that have written something and have not ended.
    pub fn running(&self) -> usize {
        self.inner.table.len()
    }

    /// Takes a fuzzy checkpoint: writes pages, advances the redo point, truncates the log, and releases the space of pages
    /// that stayed free. Transactions continue meanwhile; those over their limit are rolled back first
    /// ([`Store::enforce_limits`]), and structures do the work that they have postponed ([`Upkeep`]).
    ///
    /// # Errors
    /// The store stopped.
    pub fn checkpoint(&self) -> Result<()> {
        self.enforce_limits()?;
        self.inner.alive()?; // a forked child must not wait for latches
        self.keep_up(|| false);
        self.inner.checkpoint()
    }

    /// Closes the store: takes a checkpoint, so that the next opening has nothing to recover, and ends the threads.
    ///
    /// If a [`Waker`](std::task::Waker) calls it on a thread of the store, the store closes in the background, without a
    /// checkpoint: this thread may be within one.
    ///
    /// # Errors
    /// [`Error::Misuse`] while other clones, transactions, heaps or sessions exist: then the store stays open, but this
    /// clone is dropped. The store stopped. Errors of the archive: the store is closed, and its next opening archives the rest.
    pub fn close(self) -> Result<()> {
        if Arc::strong_count(&self.lease) > 1 {
            return Err(Error::Misuse(
                "other clones of the store, its transactions, heaps or sessions still live; drop them first",
            ));
        }
        if self.lease.is_on_own_thread() && !planted!("closed_within_checkpoint") {
            return Ok(());
        }
        self.inner.replicas.end_bases();
        self.inner.last_checkpoint()?;
        self.inner.log.promise()?;
        if let Some(archive) = &self.inner.archive {
            archive.extend(&self.inner.log, &self.inner.memory)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("log", &self.inner.log).field("pool", &self.inner.pool).finish_non_exhaustive()
    }
}

impl Lease {
    fn of(inner: &Arc<Inner>, is_a_threads: bool) -> Arc<Lease> {
        let (inner, threads) = (Arc::clone(inner), Mutex::new(None));
        Arc::new(Lease { inner, threads, is_a_threads })
    }

    /// Whether the calling thread is one of the store's.
    fn is_on_own_thread(&self) -> bool {
        self.threads.lock().as_ref().is_some_and(Threads::is_one_of_them)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_a_threads {
            return;
        }
        if self.inner.stop_in_forked_child() {
            // There are no threads to wait for.
            return std::mem::forget(self.threads.get_mut().take());
        }
        self.inner.is_closing.store(!planted!("close_awaits_prepared"), Ordering::Relaxed);
        let threads = self.threads.get_mut().take();
        if threads.as_ref().is_some_and(Threads::is_one_of_them) {
            return close_elsewhere(&self.inner, threads);
        }
        close(&self.inner, threads);
    }
}

impl Threads {
    /// Whether the calling thread is one of them.
    fn is_one_of_them(&self) -> bool {
        let this = thread::current().id();
        self.checkpointer.as_ref().is_some_and(|checkpointer| checkpointer.is_on(this))
            || self.drainer.as_ref().is_some_and(|drainer| drainer.is_on(this))
            || self.loader.as_ref().is_some_and(|loader| loader.is_on(this))
            || self.archiver.as_ref().is_some_and(|archiver| archiver.is_on(this))
            || self.cleaner.as_ref().is_some_and(|cleaner| cleaner.is_on(this))
            || self.writer.is_on(this)
    }
}

fn close(inner: &Inner, threads: Option<Threads>) {
    drop(threads);
    // From here on, clones of the log that outlive the store write nothing; the lock is released afterwards. An error stops
    // the log, the next opening recovers, and there is no caller to report it to.
    let _ = inner.log.close();
}

/// Closes the store in a new thread. The calling thread is one of those to wait for: it runs a waker that has dropped the last
/// handle, and may hold a mutex for which another one waits. The directory stays locked until the store is closed (E1.8).
#[cold]
fn close_elsewhere(inner: &Arc<Inner>, threads: Option<Threads>) {
    let threads = Arc::new(Mutex::new(threads));
    let closing = (Arc::clone(inner), Arc::clone(&threads));
    let closed = move || {
        let threads = closing.1.lock().take();
        close(&closing.0, threads);
    };
    if let Err(error) = thread::Builder::new().name("cedrat-closes".into()).spawn(closed) {
        inner.log.stop(format!("no thread could be started to close it: {error}"));
        // They cannot be waited for here; the process keeps the directory locked.
        std::mem::forget(threads.lock().take());
    }
}

impl Inner {
    /// Assembles the store from its parts. `names` are bound as the log's control file has them now.
    pub(crate) fn new(parts: StoreParts, options: &Options, registry: &Registry, next_txn: u64) -> Result<Inner> {
        let StoreParts { media, log, pool, heaps, lock, keys } = parts;
        schema::note(registry, &log)?;
        let numbers = Numbers::bind(registry, &log.control().names);
        let space_numbers = SpaceNumbers::of(&numbers);
        if space_numbers.is_incomplete() {
            return Err(Error::Misuse("the registry has no built-in operations"));
        }
        let next_txn = Arc::new(AtomicU64::new(next_txn.max(1)));
        let memory = heaps.open(log.clone(), Arc::clone(&next_txn))?;
        let archive = options.archive.as_ref().map(|to| Archive::open(to, &log, &memory, options)).transpose()?;
        let consumers = Consumers::open(&media, &log)?;
        if consumers.has_replicas() {
            memory.refuse_plain_stores();
        }
        Ok(Inner {
            memory,
            counts: Counts::new(&log),
            body_len_max: log.body_len_max(),
            log,
            pool: Arc::new(pool),
            locks: Arc::clone(&options.locks),
            undone: numbers.all().map(|_| UndoCounts::default()).collect(),
            numbers,
            space_numbers,
            table: Table::default(),
            space: Space::unknown(),
            checkpoints: Checkpoints::default(),
            rest_of_redo: RestOfRedo::default(),
            backups: Backups::new(&media),
            keys,
            archive,
            consumers,
            replicas: Replicas::default(),
            keepers: Keepers::default(),
            branches: Branches::default(),
            outcomes: Outcomes::default(),
            hidden: Hidden::default(),
            next_txn,
            limits: Limits::of(options),
            this: Mutex::new(Weak::new()),
            no_flush: options.no_flush,
            attempts: options.attempts.max(1),
            layouts: registry.layouts().clone(),
            opening: Opening::new(),
            is_closing: AtomicBool::new(false),
            is_recovering: AtomicBool::new(false),
            process: std::process::id(),
            residents: Residents::default(),
            report: Mutex::default(),
            #[cfg(feature = "planted-faults")]
            fault: options.fault,
            _lock: lock,
        })
    }

    /// Returns a reference to itself; `None` during construction.
    pub(crate) fn this(&self) -> Option<Arc<Inner>> {
        self.this.lock().upgrade()
    }

    /// Checks that the store has not stopped.
    #[inline]
    pub(crate) fn alive(&self) -> Result<()> {
        if self.log.is_stopped() { Err(self.why_not_alive()) } else { Ok(()) }
    }

    /// Checks as [`alive`](Inner::alive), and that the store is not being closed: a transaction that an undo runs on one of its
    /// threads may wait for a prepared one, which no caller can end any more.
    pub(crate) fn may_wait(&self) -> Result<()> {
        self.alive()?;
        if self.is_closing() {
            return Err(Stopped { reason: Arc::new(StopReason::Closed) }.into());
        }
        Ok(())
    }

    /// Whether the last handle is gone.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    pub(crate) fn set_recovering(&self, is_recovering: bool) {
        self.is_recovering.store(is_recovering, Ordering::Relaxed);
    }

    /// Whether the store is being opened: a lock of a prepared transaction is refused to a transaction that an undo runs,
    /// which would wait without end.
    pub(crate) fn is_recovering(&self) -> bool {
        self.is_recovering.load(Ordering::Relaxed)
    }

    /// Checks as [`alive`](Inner::alive), and that this process has opened the store: a forked child has the handles, and
    /// not the pages.
    pub(crate) fn alive_here(&self) -> Result<()> {
        self.stop_in_forked_child();
        self.alive()
    }

    /// Stops the store, in this process alone, if the process was forked from the one that has opened it, and returns whether
    /// it was. A forked child has neither the threads nor the pages, and must not write to the files (E1.9).
    fn stop_in_forked_child(&self) -> bool {
        let is_forked = self.process != std::process::id();
        if is_forked {
            self.log.stop("it belongs to the process that has opened it, and this one was forked from that");
        }
        is_forked
    }

    #[cold]
    pub(crate) fn why_not_alive(&self) -> Error {
        self.log.stopped().expect("it has stopped").into()
    }

    /// Counts an undo; see [`Store::undone`].
    pub(crate) fn note_undone(&self, number: u32) {
        if let Some(counts) = self.undone.get(number as usize) {
            counts.times.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes the log that one run of a logical undo or finish took.
    pub(crate) fn note_undo_log(&self, number: u32, bytes: u64) {
        if let Some(counts) = self.undone.get(number as usize) {
            counts.log_bytes_max.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    /// Releases space freed by a transaction that has ended.
    pub(crate) fn release(&self, freed: Freed) {
        let first = freed.extent.first;
        self.residents.forget(freed.extent);
        // Before another transaction can allocate them.
        self.pool.poison_freed(PageId::new(first), freed.extent.pages, freed.lsn);
        self.space.release(freed);
    }

    pub(crate) fn partition_of(&self, id: TxnId) -> PartitionId {
        PartitionId((id.0 % u64::from(self.log.partitions())) as u16)
    }
}

/// The parts from which an open store is assembled.
pub(crate) struct StoreParts {
    pub(crate) media: Arc<dyn Media>,
    pub(crate) log: Log,
    pub(crate) pool: Pool,
    pub(crate) heaps: FoundHeaps,
    pub(crate) lock: DirectoryLock,
    pub(crate) keys: Option<StoreKeys>,
}

/// The store, as its memory uses it.
struct LinkOfMemory(Weak<Inner>);

impl StoreLink for LinkOfMemory {
    fn taken(&self, bytes: u64) {
        if let Some(inner) = self.0.upgrade() {
            inner.checkpoints.note(bytes, &inner.limits);
        }
    }

    fn free_log_space(&self) {
        if let Some(inner) = self.0.upgrade() {
            inner.free_log_space();
        }
    }

    fn awaited_by(&self, thread: usize) -> Vec<(TxnId, usize)> {
        let store = self.0.upgrade().filter(|_| !planted!("lock_waits_not_followed"));
        store.map(|inner| inner.locks.awaited_by(thread)).unwrap_or_default()
    }

    fn holds_latches(&self) -> bool {
        holds_latches() && !planted!("word_awaited_under_latches")
    }
}

fn lock(media: &Arc<dyn Media>) -> Result<DirectoryLock> {
    cedrat_wal::lock(&**media).map_err(|error| match error {
        LogError::InUse { path } => OpenError::InUse { path }.into(),
        LogError::Io { doing, source } => Error::io(doing, source),
        other => other.into(),
    })
}

fn names(media: &Arc<dyn Media>) -> Result<Vec<String>> {
    media.list("").map_err(|error| Error::io("listing the store's directory", error))
}

/// The lock of a store's directory, and the keys that it was opened with.
pub(crate) type Held = (DirectoryLock, Option<StoreKeys>);

fn create(media: Arc<dyn Media>, (lock, keys): Held, options: &Options, registry: &Registry) -> Result<Store> {
    if names(&media)?.iter().any(|file| file == cedrat_pages::PAGE_FILE) {
        // There are pages without a log: creating a store over them would lose them permanently.
        let file = CONTROL_FILE.to_owned();
        let what = format!("it is missing, but there is a page file ({})", cedrat_pages::PAGE_FILE);
        return Err(LogError::Damaged { file, offset: 0, what }.into());
    }
    let names: Vec<&str> = registry.names().collect();
    let log = Log::create_locked(&media, &lock, &log_options(options), &names)?;
    let store = log.control().store;
    let heaps = FoundHeaps::load(&media, store, &options.memory, 0, 0)?;
    let pool = Pool::open(Arc::clone(&media), log.clone(), pool_options(options))?;
    pool.ensure_len(CATALOGUE.get() + 1)?;
    let inner = Inner::new(StoreParts { media, log, pool, heaps, lock, keys }, options, registry, 1)?;
    inner.space.load(&inner.pool)?;
    let store = Store::around(inner);
    let end = store.inner.log.current_lsn().next();
    store.set_report(RecoveryReport { created: true, end, ..RecoveryReport::default() });
    Ok(store)
}

/// Other threads may hold half of the frames.
const FRAMES_PER_UNDO_RECORD: u64 = 2;

/// Returns the number of frames in which undo writes so many records between two forces of the log.
pub(crate) fn frames_for(undo_records_per_force: u64) -> usize {
    (undo_records_per_force * FRAMES_PER_UNDO_RECORD) as usize
}

pub(crate) fn log_options(options: &Options) -> LogOptions {
    LogOptions {
        partitions: options.partitions,
        segment_len: options.segment_len,
        page_len: cedrat_pages::PAGE_LEN as u32,
        log_bytes_max: options.log_limit_bytes,
        undo_records_per_force: (pool_options(options).capacity_pages as u64 / FRAMES_PER_UNDO_RECORD).max(1),
        ..options.log.clone()
    }
}

pub(crate) fn pool_options(options: &Options) -> cedrat_pages::PoolOptions {
    let mut pool = options.pool.clone();
    pool.capacity_pages = (options.pool_bytes / cedrat_pages::PAGE_LEN as u64) as usize;
    pool
}
