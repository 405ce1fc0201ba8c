//! The second pass: repeats history, each record in its page and nowhere else, in LSN order for each page (R4).
//!
//! One thread reads the log and sorts the records by page into one lane per worker: the demultiplexer of Lemon §8. A
//! worker takes a batch, groups it by page, and brings each page up to date under one latch. So a page is looked up
//! once per batch instead of once per record, and pages are read ahead in their order on disk.

use std::collections::HashSet;

use cedrat_pages::{Exclusive, ForRedo, PageId, PoolError};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Closing, Lane, planted, thread};
use cedrat_wal::{Lsn, RecordRef};

use super::analysis::TELL_EVERY;
use super::apply::Change;
use super::on_demand::OnDemand;
use super::uncounted::Uncounted;
use crate::body::{Body, Redo};
use crate::error::{Error, Result};
use crate::operation::RecordId;
use crate::report::Progress;
use crate::store::Inner;

/// Maximum number of records, or bytes of arguments, at which a batch is handed over. Larger batches visit each page less
/// often; with these, all batches of two workers together take about 40 MB. A batch has no more records than the pool has
/// frames: small pools are for processes with little memory.
const BATCH_RECORDS: usize = 64 << 10;
const BATCH_BYTES: usize = 2 << 20;
/// Batches that wait for one worker: enough to keep it busy, few enough to bound memory.
const LANE_LEN: usize = 2;
/// Pages that are read ahead together.
const READ_AHEAD_PAGES: usize = 256;

/// The result of redo.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Redone {
    pub(crate) records: u64,
    pub(crate) pages: u64,
}

/// The part of the log that is redone.
pub(crate) struct Part<'a> {
    /// The first record.
    pub(crate) from: Lsn,
    /// The end: later records were written by this opening.
    pub(crate) end: Lsn,
    /// The changes in it that do not count.
    pub(crate) uncounted: &'a Uncounted,
    /// Redo of an open store: only pages that are still pending are changed.
    pub(crate) on_demand: Option<&'a OnDemand>,
}

/// How far each lane is.
struct Reached(Vec<AtomicU64>);

impl Reached {
    fn new(lanes: usize, from: Lsn) -> Reached {
        Reached((0..lanes).map(|_| AtomicU64::new(from.get())).collect())
    }

    /// Excludes the lanes that got no worker. Called before any batch is handed over.
    fn use_lanes(&self, lanes: usize) {
        self.0[lanes..].iter().for_each(|unused| unused.store(u64::MAX, Ordering::SeqCst));
    }

    /// Notes that a lane has redone its records before an LSN. Returns the one before which all lanes have.
    fn note(&self, lane: usize, lsn: Lsn) -> Lsn {
        self.0[lane].store(lsn.get(), Ordering::SeqCst);
        Lsn::new(self.0.iter().map(|lsn| lsn.load(Ordering::SeqCst)).min().unwrap_or(0))
    }
}

/// Repeats history, with as many of `threads` as the system gives; with none, on the calling thread.
pub(crate) fn redo(inner: &Inner, part: &Part<'_>, threads: usize, tell: &dyn Fn(Progress)) -> Result<Redone> {
    let lanes: Vec<Lane<Batch>> = (0..threads).map(|_| Lane::new(LANE_LEN)).collect();
    let reached = Reached::new(threads.max(1), part.from);
    let mut outcomes = Vec::new();
    let mut reading = Ok(());
    thread::scope(|scope| {
        // Also after a panic: the workers must not wait for a reader that has ended.
        let all_closed_at_end: Vec<_> = lanes.iter().map(Closing).collect();
        let work = |(number, lane)| {
            let (lane, reached): (&Lane<Batch>, _) = (lane, &reached);
            move || {
                // Closed on every exit, including a panic: the reader must not wait for a worker that has ended.
                let _closed_at_end = Closing(lane);
                let mut worker = Worker::new(inner, part.on_demand);
                while let Some(batch) = lane.take() {
                    worker.apply(&batch)?;
                    part.note_reached(reached, number, &batch);
                }
                Ok::<Redone, Error>(worker.done())
            }
        };
        let spawn = |lane| thread::spawn_in(scope, "cedrat-redo", work(lane)).ok();
        let workers: Vec<_> = lanes.iter().enumerate().map_while(spawn).collect();
        reached.use_lanes(workers.len().max(1));
        if workers.is_empty() {
            let mut worker = Worker::new(inner, part.on_demand);
            reading = read(inner, part, 1, tell, |_, batch| {
                worker.apply(&batch)?;
                part.note_reached(&reached, 0, &batch);
                Ok(())
            });
            outcomes.push(Ok(Ok(worker.done())));
        } else {
            // If a lane is closed early, its worker returns the cause.
            reading = read(inner, part, workers.len(), tell, |lane, batch| {
                lanes[lane].put(batch);
                Ok(())
            });
        }
        drop(all_closed_at_end);
        outcomes.extend(workers.into_iter().map(|worker| worker.join()));
    });
    let mut redone = Redone::default();
    for outcome in outcomes {
        match outcome {
            Ok(worker) => {
                let worker = worker?;
                redone.records += worker.records;
                redone.pages += worker.pages;
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    reading?;
    Ok(redone)
}

/// Reads the log and hands over batches, each to the lane of its pages.
fn read(
    inner: &Inner,
    part: &Part<'_>,
    lanes: usize,
    tell: &dyn Fn(Progress),
    mut hand_over: impl FnMut(usize, Batch) -> Result<()>,
) -> Result<()> {
    let records_max = BATCH_RECORDS.min(inner.pool.capacity_pages());
    let mut batches: Vec<Batch> = (0..lanes).map(|_| Batch::default()).collect();
    let mut scan = inner.log.scan(part.from)?;
    let mut records = 0u64;
    while let Some(scanned) = scan.next()? {
        let record = scanned.record;
        if record.lsn >= part.end {
            break;
        }
        records += 1;
        let body = Body::parse(record.head.kind, record.body).map_err(|bad| Error::bad_record(record.lsn, bad.0))?;
        if counts(inner, part.uncounted, &record, &body) {
            let (lsn, newest) = lsns(record.lsn, &body);
            for redo in body.redos() {
                let lane = lane_of(redo.at.page, lanes);
                batches[lane].push(lsn, newest, &redo);
            }
        }
        if batches.iter().any(|batch| batch.is_full(records_max)) {
            inner.may_wait()?;
            // All of them, so that what is redone of one lane is not long behind that of another.
            for (lane, batch) in batches.iter_mut().enumerate() {
                hand_over(lane, std::mem::take(batch).up_to(record.lsn))?;
            }
        }
        if records.is_multiple_of(TELL_EVERY) {
            let (done, of) = scan.progress();
            tell(Progress::Redo { done: done.0, of: of.0 });
        }
    }
    for (lane, batch) in batches.into_iter().enumerate() {
        hand_over(lane, batch.up_to(part.end.previous()))?;
    }
    Ok(())
}

/// Whether the change in a record is to be redone (E19.5).
pub(crate) fn counts(inner: &Inner, uncounted: &Uncounted, record: &RecordRef<'_>, body: &Body<'_>) -> bool {
    let _ = inner;
    #[cfg(feature = "planted-faults")]
    if inner.fault == Some(crate::Fault::UncommittedCounts) {
        return true;
    }
    #[cfg(feature = "planted-faults")]
    if inner.fault == Some(crate::Fault::CommitChangesLeftOut) && matches!(body, Body::Commit { .. }) {
        return false;
    }
    match body {
        Body::Update { committed_only: true, .. } => uncounted.counts(record.head.txn, record.position.offset),
        // Of copies only deferred changes are redone, since they may be in no page (E9.13).
        Body::Carried(_) => match body.unwrapped() {
            Body::Update { redo, committed_only, .. } => {
                let is_delta = inner.numbers.operation(redo.operation).is_some_and(|table| table.by_version);
                is_delta && (!committed_only || uncounted.counts(record.head.txn, record.position.offset))
            }
            _ => false,
        },
        _ => true,
    }
}

/// Returns the LSN of the change in a record, and the one that its page has then at least.
///
/// The version of a record shows whether it has the change that was copied (E19.2). When the copy was made, no page had the change if it
/// counts only if committed, and the redo point may have passed it since: the page is as new as the copy (E19.3b).
pub(crate) fn lsns(record: Lsn, body: &Body<'_>) -> (Lsn, Lsn) {
    let Body::Carried(carried) = body else { return (record, record) };
    let is_late = matches!(body.unwrapped_in(&mut None), Body::Update { committed_only: true, .. });
    (carried.lsn, if is_late && !planted!("copy_redone_as_old") { record } else { carried.lsn })
}

/// Returns the lane of a page. Runs of neighbouring pages share a lane, so that one call can read them; the next run is
/// in another lane.
fn lane_of(page: PageId, lanes: usize) -> usize {
    const RUN_PAGES: u64 = 32;
    let run = page.get() / RUN_PAGES;
    (run.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % lanes
}

/// Records for one worker, in LSN order.
#[derive(Debug, Default)]
struct Batch {
    items: Vec<Item>,
    arguments: Vec<u8>,
    /// The newest record that was read before it was handed over.
    up_to: Lsn,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    lsn: Lsn,
    newest: Lsn,
    at: RecordId,
    operation: u32,
    arguments_at: u32,
    arguments_len: u32,
}

impl Part<'_> {
    /// Notes that a lane has redone a batch.
    fn note_reached(&self, reached: &Reached, lane: usize, batch: &Batch) {
        let up_to = if planted!("drained_before_redone") { self.end } else { batch.up_to.next() };
        let all = reached.note(lane, up_to);
        if let Some(on_demand) = self.on_demand {
            on_demand.drained_before(all);
        }
    }
}

impl Batch {
    fn up_to(self, up_to: Lsn) -> Batch {
        Batch { up_to, ..self }
    }

    fn push(&mut self, lsn: Lsn, newest: Lsn, redo: &Redo<'_>) {
        let arguments_at = self.arguments.len() as u32;
        self.arguments.extend_from_slice(redo.arguments);
        let arguments_len = redo.arguments.len() as u32;
        self.items.push(Item { lsn, newest, at: redo.at, operation: redo.operation, arguments_at, arguments_len });
    }

    fn is_full(&self, records_max: usize) -> bool {
        self.items.len() >= records_max || self.arguments.len() >= BATCH_BYTES
    }

    fn item(&self, number: u32) -> &Item {
        &self.items[number as usize]
    }

    fn arguments(&self, item: &Item) -> &[u8] {
        &self.arguments[item.arguments_at as usize..][..item.arguments_len as usize]
    }
}

/// A redo worker, which brings pages up to date.
struct Worker<'a> {
    inner: &'a Inner,
    on_demand: Option<&'a OnDemand>,
    redone: u64,
    pages: HashSet<PageId>,
    /// The batch's pages and items, sorted by page, and within a page by LSN.
    order: Vec<(PageId, u32)>,
}

impl<'a> Worker<'a> {
    fn new(inner: &'a Inner, on_demand: Option<&'a OnDemand>) -> Worker<'a> {
        Worker { inner, on_demand, redone: 0, pages: HashSet::new(), order: Vec::new() }
    }

    fn done(self) -> Redone {
        Redone { records: self.redone, pages: self.pages.len() as u64 }
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(batch.items.iter().zip(0..).map(|(item, number)| (item.at.page, number)));
        order.sort_unstable();
        if planted!("newest_record_redone_first") {
            order.reverse();
        }
        let on_demand = self.on_demand;
        let is_pending = |page| on_demand.is_none_or(|on_demand| on_demand.is_pending(page));
        let pages: Vec<&[(PageId, u32)]> =
            order.chunk_by(|a, b| a.0 == b.0).filter(|items| is_pending(items[0].0)).collect();
        for ahead in pages.chunks(READ_AHEAD_PAGES) {
            let wanted: Vec<PageId> =
                ahead.iter().filter(|items| !self.formats(batch.item(items[0].1))).map(|items| items[0].0).collect();
            self.inner.pool.prefetch(&wanted);
            for items in ahead {
                self.redo_page(batch, items)?;
            }
        }
        self.order = order;
        Ok(())
    }

    fn formats(&self, item: &Item) -> bool {
        self.inner.numbers.operation(item.operation).is_some_and(|table| table.formats)
    }

    /// Applies a batch's records of one page.
    fn redo_page(&mut self, batch: &Batch, items: &[(PageId, u32)]) -> Result<()> {
        let (id, first) = items[0];
        let pool = &self.inner.pool;
        // A page that is formatted first need not be read: all its later records follow.
        let formats = self.formats(batch.item(first));
        let Some(on_demand) = self.on_demand else {
            let mut page = if formats { pool.exclusive_fresh(id)? } else { pool.exclusive(id)? };
            return self.redo_items(&mut page, batch, items);
        };
        let ForRedo::Pending(mut page) = self.pending_page(id, formats)? else { return Ok(()) };
        let before = self.redone;
        self.redo_items(&mut page, batch, items)?;
        on_demand.add_records(self.redone - before);
        if on_demand.redone_before(id, batch.up_to.next()) {
            page.end_redo();
        }
        Ok(())
    }

    /// Returns a pending page. Waits while transactions hold all frames: that fails their requests, and must not stop the store.
    fn pending_page(&self, id: PageId, formats: bool) -> Result<ForRedo<'a>> {
        let inner = self.inner;
        loop {
            match inner.pool.exclusive_for_redo(id, formats) {
                Err(PoolError::AllHeld { .. }) => inner.may_wait()?,
                found => return Ok(found?),
            }
            thread::yield_now();
        }
    }

    fn redo_items(&mut self, page: &mut Exclusive<'_>, batch: &Batch, items: &[(PageId, u32)]) -> Result<()> {
        self.pages.insert(page.id());
        for &(_, number) in items {
            let &Item { lsn, newest, at, operation, .. } = batch.item(number);
            let table = self.inner.numbers.operation(operation).ok_or_else(|| self.inner.unregistered(operation))?;
            let change = Change { lsn, newest, at, arguments: batch.arguments(batch.item(number)) };
            let redone = self.inner.redo_change(page, table, &change);
            let redone = redone.map_err(|misfit| self.inner.stop_for_misfit(misfit, operation, lsn))?;
            self.redone += u64::from(redone);
        }
        Ok(())
    }
}
