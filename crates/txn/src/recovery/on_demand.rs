//! Redo on demand: the store opens after analysis and undo, and redo goes on meanwhile (Graefe, Guy and Sauer, "Instant recovery with
//! write-ahead logging", 2nd edition 2016).
//!
//! 1. A page that is loaded is redone first, from the records that analysis has noted for it (R8).
//! 2. The *drain* redoes all others, by the code of the second pass: it reads the log once, in its order, and changes the pages of a
//!    batch that are still pending. Page by page it would read the whole log many times.
//! 3. What the drain has passed is in the pages, and they are dirty. The redo point is not beyond it (R9), so a crash, at any moment,
//!    is a crash during redo.
//!
//! A thread of the store drains. Without it, a checkpoint does first, and so does a transaction that finds the log full.

use std::ops::Range;
use std::time::Instant;

use cedrat_pages::{Exclusive, PageId, PendingRedo, PoolError};
use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cedrat_sync::thread::{Builder, JoinHandle, ThreadId};
use cedrat_sync::{Arc, Mutex, Weak, planted};
use cedrat_wal::{Lsn, Position, RecordRef, Retained};

use super::apply::Change;
use super::kept::Kept;
use super::pending::Pending;
use super::redo::{Part, counts, lsns, redo};
use super::uncounted::Uncounted;
use crate::body::Body;
use crate::error::{Error, Result};
use crate::options::{Options, REDO_THREADS_MAX};
use crate::report::{Progress, RecoveryReport};
use crate::store::{Inner, Store};
use crate::trace::{event, span};

/// Redo of an opening that goes on while transactions run.
pub(crate) struct OnDemand {
    inner: Weak<Inner>,
    pending: Mutex<Pending>,
    /// The part of the log that stays in memory.
    retained: Retained,
    uncounted: Uncounted,
    /// The end of the records to be redone.
    end: Lsn,
    threads: usize,
    began: Instant,
    /// Every record before it is redone, or on its way home in a dirty page.
    drained_to: AtomicU64,
    /// Held by the thread that drains.
    draining: Mutex<()>,
    /// Bytes of log that the drain has read, and those that it reads in all.
    bytes: [AtomicU64; 2],
    records: AtomicU64,
    pages: AtomicU64,
    /// Whether a checkpoint is requested at the end.
    ends_with_checkpoint: bool,
    progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
}

/// The redo of an open store that is not complete, if there is one.
#[derive(Default)]
pub(crate) struct RestOfRedo {
    current: Mutex<Option<Arc<OnDemand>>>,
    /// Whether a thread of the store drains.
    has_thread: AtomicBool,
}

impl RestOfRedo {
    fn get(&self) -> Option<Arc<OnDemand>> {
        self.current.lock().clone()
    }

    /// Whether pages may be pending.
    pub(crate) fn is_any(&self) -> bool {
        self.current.lock().is_some()
    }

    /// Returns the first record that may not be redone. To be read before the state of pages.
    pub(crate) fn oldest(&self) -> Option<Lsn> {
        self.get().map(|rest| Lsn::new(rest.drained_to.load(Ordering::SeqCst)))
    }

    /// Returns the LSN from which on redo may read the log. To be read before the state of pages.
    pub(crate) fn needs_log_from(&self) -> Option<Lsn> {
        let rest = self.get()?;
        let noted = rest.pending.lock().needs_log_from();
        noted.into_iter().chain(self.oldest()).min()
    }

    /// Adds what was redone since the opening to its report.
    pub(crate) fn report(&self, report: &mut RecoveryReport) {
        if let Some(rest) = self.get() {
            rest.report(report);
        }
    }
}

impl OnDemand {
    /// Lets pages be redone on demand from now on.
    pub(crate) fn begin(
        store: &Store,
        (pending, retained): (Pending, Retained),
        uncounted: Uncounted,
        lsns: Range<Lsn>,
        options: &Options,
    ) {
        let inner = &store.inner;
        let bytes = inner.log.bytes_since(lsns.start).0;
        let rest = Arc::new(OnDemand {
            inner: Arc::downgrade(inner),
            pending: Mutex::new(pending),
            retained,
            uncounted,
            end: lsns.end,
            threads: options.redo_threads.min(REDO_THREADS_MAX),
            began: Instant::now(),
            drained_to: AtomicU64::new(lsns.start.get()),
            draining: Mutex::new(()),
            bytes: [AtomicU64::new(0), AtomicU64::new(bytes)],
            records: AtomicU64::new(0),
            pages: AtomicU64::new(0),
            ends_with_checkpoint: options.checkpoint_when_opened,
            progress: options.progress.clone(),
        });
        event!(INFO, bytes, pages = rest.pending.lock().len(), "history is repeated on demand");
        *inner.rest_of_redo.current.lock() = Some(Arc::clone(&rest));
        inner.pool.redo_on_demand(Some(rest));
    }

    pub(crate) fn is_pending(&self, page: PageId) -> bool {
        self.pending.lock().has(page)
    }

    /// Notes that a batch has changed a page by its records before an LSN. Returns whether the page is redone.
    pub(crate) fn redone_before(&self, page: PageId, lsn: Lsn) -> bool {
        self.pending.lock().redone_before(page, lsn) || planted!("half_redone_page_shown")
    }

    /// Notes that the drain has redone all records before an LSN.
    pub(crate) fn drained_before(&self, lsn: Lsn) {
        self.drained_to.fetch_max(lsn.get(), Ordering::SeqCst);
        self.pending.lock().drop_before(lsn);
        self.retained.drop_before(lsn);
    }

    pub(crate) fn add_records(&self, records: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
    }

    fn report(&self, report: &mut RecoveryReport) {
        let [done, of] = self.bytes.each_ref().map(|bytes| bytes.load(Ordering::Relaxed));
        report.redone += self.records.load(Ordering::Relaxed);
        report.pages += self.pages.load(Ordering::Relaxed);
        report.redo += self.began.elapsed();
        report.pending_pages = self.pending.lock().len() as u64;
        report.pending_log_bytes = of.saturating_sub(done);
    }

    /// Redoes the records of a page at these positions; those that were kept are in memory.
    fn redo_page(&self, inner: &Inner, page: &mut Exclusive<'_>, positions: &[Position], kept: &Kept) -> Result<u64> {
        let (before, after) = kept.split(positions);
        let mut redone = self.redo_records_at(inner, page, before)?;
        for record in kept.records() {
            redone += self.redo_record(inner, page, &record)?;
        }
        redone += self.redo_records_at(inner, page, after)?;
        Ok(redone)
    }

    fn redo_records_at(&self, inner: &Inner, page: &mut Exclusive<'_>, positions: &[Position]) -> Result<u64> {
        let mut records = inner.log.records(positions, Some(&self.retained));
        let mut redone = 0;
        while let Some(record) = records.next()? {
            redone += self.redo_record(inner, page, &record)?;
        }
        Ok(redone)
    }

    fn redo_record(&self, inner: &Inner, page: &mut Exclusive<'_>, record: &RecordRef<'_>) -> Result<u64> {
        let body = Body::parse(record.head.kind, record.body).map_err(|bad| Error::bad_record(record.lsn, bad.0))?;
        if !counts(inner, &self.uncounted, record, &body) {
            return Ok(0);
        }
        let id = page.id();
        let (lsn, newest) = lsns(record.lsn, &body);
        let mut redone = 0;
        for redo in body.redos().filter(|redo| redo.at.page == id) {
            let operation = redo.operation;
            let table = inner.numbers.operation(operation).ok_or_else(|| inner.unregistered(operation))?;
            let change = Change { lsn, newest, at: redo.at, arguments: redo.arguments };
            let done = inner.redo_change(page, table, &change);
            redone += u64::from(done.map_err(|misfit| inner.stop_for_misfit(misfit, operation, lsn))?);
        }
        Ok(redone)
    }

    /// Redoes everything that is pending.
    fn drain(&self, inner: &Inner) -> Result<()> {
        span!("redo");
        let tell = |progress: Progress| {
            if let Progress::Redo { done, of } = progress {
                self.bytes[0].store(done, Ordering::Relaxed);
                self.bytes[1].store(of, Ordering::Relaxed);
            }
            event!(DEBUG, ?progress, "progress of recovery");
            self.progress.iter().for_each(|listener| listener(progress));
        };
        let from = Lsn::new(self.drained_to.load(Ordering::SeqCst));
        let part = Part { from, end: self.end, uncounted: &self.uncounted, on_demand: Some(self) };
        self.pages.fetch_add(redo(inner, &part, self.threads, &tell)?.pages, Ordering::Relaxed);
        // Only those are left whose newest records do not count.
        let left = self.pending.lock().pages();
        for page in left {
            inner.pool.show_redone(page, || self.pending.lock().redone(page))?;
        }
        Ok(())
    }
}

impl PendingRedo for OnDemand {
    fn is_pending(&self, page: PageId) -> bool {
        OnDemand::is_pending(self, page)
    }

    fn formats(&self, page: PageId) -> bool {
        self.pending.lock().formats(page)
    }

    fn redo(&self, page: &mut Exclusive<'_>) -> Result<(), PoolError> {
        let id = page.id();
        let not_redone = |why: String| PoolError::NotRedone { page: id, why };
        let inner = self.inner.upgrade().ok_or_else(|| not_redone("the store is closed".into()))?;
        let Some((positions, kept, from)) = self.pending.lock().begin_read(id) else { return Ok(()) };
        let _reading = Reading { of: self, from };
        let redone = self.redo_page(&inner, page, &positions, &kept).map_err(|error| match error {
            Error::Stopped(stopped) => PoolError::Stopped(stopped),
            other => not_redone(other.to_string()),
        })?;
        self.add_records(redone);
        self.pages.fetch_add(1, Ordering::Relaxed);
        self.pending.lock().redone(id);
        Ok(())
    }
}

/// A load that reads records. Drop ends it.
struct Reading<'a> {
    of: &'a OnDemand,
    from: Lsn,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.of.pending.lock().end_read(self.from);
    }
}

impl Inner {
    /// Redoes everything that is pending, or waits until another thread has done so.
    ///
    /// # Errors
    /// Redo failed, and the store has stopped; or it is being closed.
    pub(crate) fn complete_redo(&self) -> Result<()> {
        let Some(rest) = self.rest_of_redo.get() else { return Ok(()) };
        let _alone = rest.draining.lock();
        if !self.rest_of_redo.is_any() {
            return Ok(());
        }
        if let Err(error) = rest.drain(self) {
            // It is not stopped by its end: the redo point is that of the records that are left.
            if !self.is_closing() {
                self.log.stop(format!("redo of the log failed: {error}"));
            }
            return Err(error);
        }
        let mut report = self.report.lock();
        rest.report(&mut report);
        (report.pending_pages, report.pending_log_bytes) = (0, 0);
        event!(INFO, records = report.redone, pages = report.pages, "history repeated");
        // Under the mutex of the report: a reader of it adds to it what has been redone, once.
        *self.rest_of_redo.current.lock() = None;
        drop(report);
        self.pool.redo_on_demand(None);
        if rest.ends_with_checkpoint {
            self.checkpoints.ask();
        }
        Ok(())
    }

    /// Loads all heaps that are [loaded on demand](cedrat_heap::MemoryOptions::load_on_demand_bytes), or waits until other threads
    /// have. Ends early once the store is being closed: what was not changed needs no checkpoint.
    ///
    /// # Errors
    /// A chunk is damaged, or cannot be read: the store has stopped.
    pub(crate) fn load_heaps(&self, threads: usize, tell: &(dyn Fn(Progress) + Sync)) -> Result<()> {
        span!("load");
        let of = self.memory.absent_bytes();
        let goes_on = |left: u64| {
            tell(Progress::Load { done: of.saturating_sub(left), of });
            !self.is_closing()
        };
        Ok(self.memory.load_heaps(threads, &goes_on)?)
    }

    /// Completes redo before a checkpoint, unless a thread of the store does beside it.
    pub(crate) fn redo_for_checkpoint(&self, must_release_log: bool) -> Result<()> {
        if must_release_log || !self.rest_of_redo.has_thread.load(Ordering::Relaxed) {
            self.complete_redo()?;
        }
        Ok(())
    }
}

/// A thread that completes the opening: it drains, or loads heaps. Drop ends it after its batch, or its chunk, and waits for it.
pub(crate) struct Completer {
    thread: Option<JoinHandle<()>>,
}

impl Completer {
    /// Starts the thread that drains, if there is something to redo. If the system refuses it, the calling thread redoes it.
    pub(crate) fn drain(inner: &Arc<Inner>) -> Result<Option<Completer>> {
        if !inner.rest_of_redo.is_any() {
            return Ok(None);
        }
        inner.rest_of_redo.has_thread.store(true, Ordering::Relaxed);
        let started = Completer::start(inner, "cedrat-drains", |served| {
            // A failure has stopped the store, which reports the reason to every caller.
            let _ = served.complete_redo();
            served.rest_of_redo.has_thread.store(false, Ordering::Relaxed);
        });
        if started.is_err() {
            inner.rest_of_redo.has_thread.store(false, Ordering::Relaxed);
        }
        started.map(Some)
    }

    /// Starts the thread that loads heaps, if one is not loaded. If the system refuses it, they are loaded as they are used.
    pub(crate) fn load(inner: &Arc<Inner>, options: &Options) -> Result<Option<Completer>> {
        if inner.memory.absent_bytes() == 0 {
            return Ok(None);
        }
        let (threads, progress) = (options.redo_threads.min(REDO_THREADS_MAX), options.progress.clone());
        let load = move |served: &Inner| {
            let tell = |now: Progress| {
                event!(DEBUG, progress = ?now, "progress of recovery");
                progress.iter().for_each(|listener| listener(now));
            };
            // As above.
            let _ = served.load_heaps(threads, &tell);
        };
        Completer::start(inner, "cedrat-loads", load).map(Some)
    }

    fn start(inner: &Arc<Inner>, name: &str, complete: impl FnOnce(&Inner) + Send + 'static) -> Result<Completer> {
        let served = Arc::clone(inner);
        let work = move || {
            let _stop = StopOnPanic(&served);
            complete(&served);
        };
        let started = Builder::new().name(name.into()).spawn(work);
        let thread = started.map_err(|error| Error::io(format!("starting the thread {name}"), error))?;
        Ok(Completer { thread: Some(thread) })
    }

    /// Whether it is this thread.
    pub(crate) fn is_on(&self, id: ThreadId) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.thread().id() == id)
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic in it has stopped the store, and was printed.
            let _ = thread.join();
        }
    }
}

/// Stops the store when the thread panics: without the drain checkpoints would release no log, without any report of the cause.
struct StopOnPanic<'a>(&'a Inner);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if cedrat_sync::thread::panicking() {
            self.0.log.stop("a thread that completes the opening panicked; open the store again");
        }
    }
}
