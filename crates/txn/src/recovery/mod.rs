//! Recovery: analysis, redo, undo (Lemon §3.4; docs/inside/recovery.md).
//!
//! 1. **Analysis** loads the checkpoints of heaps, or leaves that to their first use, reads the log from the scan point and changes nothing on the disk.
//!    It finds winners and losers, and checks that everything in the log is registered (R3) and that log, pages and
//!    heaps fit together. It replays the heap writes of winners in memory as it reads them. Every refusal happens here
//!    (R2).
//! 2. A new epoch begins (E1.1). From here on recovery writes.
//! 3. **Redo** repeats history from the first change of a page after the redo point on, page by page, in any number of
//!    threads (R4).
//! 4. **Undo** undoes losers in one descending sweep (E5.3), with the code of rollback. Prepared transactions without
//!    an outcome are left as they are. They get their locks again before, since an undo may run transactions (E9).
//!
//! A crash during recovery costs only time (R5): redo skips the changes that each page already has, and undo has left
//! compensation records.

mod analysis;
mod apply;
mod home;
mod kept;
mod named_pages;
mod on_demand;
mod parts;
mod pending;
mod redo;
mod uncounted;
mod undo;

use analysis::Analysis;
pub(crate) use analysis::{Loser, look_at_branches};
pub(crate) use apply::Change;
pub(crate) use home::pages_are_there;
pub(crate) use named_pages::NamedPages;
pub(crate) use on_demand::{Completer, RestOfRedo};
pub(crate) use redo::{counts, lsns};
pub(crate) use uncounted::Uncounted;

use std::time::Instant;

use cedrat_heap::FoundHeaps;
use cedrat_media::Media;
use cedrat_pages::{Home, Pool, PoolOptions};
use cedrat_sync::{Arc, planted};
use cedrat_wal::{ByteLen, Found, Log, UNDO_RECORDS_PER_FORCE_MAX};

use on_demand::OnDemand;

use crate::error::Result;
use crate::options::{Options, REDO_THREADS_MAX};
use crate::prepared;
use crate::registry::Registry;
use crate::report::{Progress, RecoveryReport};
use crate::schema;
use crate::store::{Held, Inner, Store, StoreParts, frames_for, log_options, pool_options};
use crate::trace::{event, span};

/// Opens an existing store.
pub(crate) fn recover(
    media: Arc<dyn Media>,
    found: Found,
    (lock, keys): Held,
    options: &Options,
    registry: &Registry,
) -> Result<Store> {
    let tell = |progress: Progress| {
        event!(DEBUG, ?progress, "progress of recovery");
        options.progress.iter().for_each(|listener| listener(progress));
    };
    let began = Instant::now();
    let home = Home::look(&media, &pool_options(options))?;
    home::log_is_whole(&home, &found)?;
    let checkpoint = found.control().checkpoint;
    let known = schema::bind(registry, found.control())?;
    let threads = options.redo_threads.min(REDO_THREADS_MAX);
    let of_pages = if planted!("heaps_take_room_of_pages") { 0 } else { home.address_space() };
    let mut heaps = FoundHeaps::load(&media, found.control().store, &options.memory, threads, of_pages)?;
    heaps.fit(checkpoint.scan_lsn, found.end_lsn())?;
    let mut analysis = analysis::analyse(&found, &known, &mut heaps, options, &tell)?;
    analysis.plant(options);
    home::pages_are_there(&home, &found, analysis.pages_end)?;
    if !planted!("access_checked_late") {
        home.check_access()?;
        heaps.check_access()?;
    }
    let mut report = report_of(&found, &analysis, &heaps);
    report.analysis = began.elapsed();

    let names: Vec<&str> = registry.names().collect();
    let log = found.begin_locked(&lock, &names, &log_options(options))?;
    let pool = Pool::open(Arc::clone(&media), log.clone(), pool_for_undo(options, &log, &analysis))?;
    let pages_end = analysis.pages_end.max(crate::CATALOGUE.get() + 1);
    pool.ensure_len(pages_end)?;
    let next_txn = analysis.next_txn.max(checkpoint.next_txn);
    let parts = StoreParts { media, log, pool, heaps, lock, keys };
    let store = Store::around(Inner::new(parts, options, registry, next_txn)?);
    store.inner.set_recovering(true);

    let opening = Opening { store: &store, succeeds: false };
    redo_or_postpone(&store, &mut analysis, options, &mut report, &tell)?;

    let undo_began = Instant::now();
    report.undone = restore_and_undo(&store, analysis, &tell)?;
    report.undo = undo_began.elapsed();

    // A checkpoint of heaps that have changed loads them.
    let loads = report.heap_words > 0 && store.inner.memory.absent_bytes() > 0;
    let goes_on = loads || store.inner.rest_of_redo.is_any();
    if options.checkpoint_when_opened && !options.background && !goes_on {
        store.inner.checkpoint()?; // else the checkpointer does, while the first transactions run
    }
    if store.inner.log.control().has_many_epochs() && store.inner.forget_epochs().is_err() {
        // There is space for many more openings: only if the store has stopped does this one fail.
        store.inner.alive()?;
    }
    report.total = began.elapsed();
    store.set_report(report);
    opening.succeeded();
    Ok(store) // E15.2: undo has ended before a caller can begin a transaction
}

/// Repeats history, or lets it be repeated on demand, if the log is long enough for that.
fn redo_or_postpone(
    store: &Store,
    analysis: &mut Analysis,
    options: &Options,
    report: &mut RecoveryReport,
    tell: &dyn Fn(Progress),
) -> Result<()> {
    let began = Instant::now();
    let uncounted = std::mem::take(&mut analysis.uncounted);
    let Some(from) = analysis.redo_from.filter(|_| !planted!("opened_without_redo")) else {
        return Ok(());
    };
    let is_long = store.inner.log.bytes_since(from).0 > options.redo_on_demand_bytes;
    if let Some(pending) = analysis.pending.take().filter(|(pending, _)| is_long && pending.is_complete()) {
        OnDemand::begin(store, pending, uncounted, from..report.end, options);
        return Ok(());
    }
    span!("redo");
    let part = redo::Part { from, end: report.end, uncounted: &uncounted, on_demand: None };
    let redone = redo::redo(&store.inner, &part, options.redo_threads.min(REDO_THREADS_MAX), tell)?;
    (report.redone, report.pages, report.redo) = (redone.records, redone.pages, began.elapsed());
    event!(INFO, records = report.redone, pages = report.pages, "history repeated");
    Ok(())
}

/// Restores prepared transactions and kept outcomes, then undoes losers. Returns the number of records undone.
fn restore_and_undo(store: &Store, analysis: Analysis, tell: &dyn Fn(Progress)) -> Result<u64> {
    span!("undo");
    let inner = &store.inner;
    if planted!("checkpoint_before_undo") {
        inner.checkpoint()?;
    }
    inner.space.load_for_undo(&inner.pool, analysis.freed)?;
    let (mut losers, mut undone) = (analysis.losers, 0);
    let _losers = losers.len();
    if planted!("branches_restored_after_undo") {
        undone = undo::undo(store, std::mem::take(&mut losers), tell)?;
    }
    // An undo may run transactions and checkpoints: these find the branches, their locks and the outcomes (E9.1d).
    prepared::restore(store, analysis.in_doubt)?;
    inner.restore_outcomes(analysis.outcomes);
    undone += undo::undo(store, losers, tell)?;
    inner.space.load(&inner.pool)?;
    inner.withhold_freed_by_branches();
    event!(INFO, losers = _losers, records = undone, "losers undone");
    Ok(undone)
}

/// Returns the options of a pool that is large enough for the undo. What the run before has reserved for the forces by which undo
/// frees frames may depend on its pool (E16.1); a larger pool than this needs no more.
fn pool_for_undo(options: &Options, log: &Log, analysis: &Analysis) -> PoolOptions {
    let mut pool = pool_options(options);
    let undoes = !analysis.losers.is_empty() || !analysis.in_doubt.is_empty();
    if undoes && !log.has_room_for_undo(ByteLen(analysis.log_bytes)) && !planted!("undo_in_small_pool") {
        pool.capacity_pages = pool.capacity_pages.max(frames_for(UNDO_RECORDS_PER_FORCE_MAX));
    }
    pool
}

/// Returns the report as far as the analysis knows it.
fn report_of(found: &Found, analysis: &Analysis, heaps: &FoundHeaps) -> RecoveryReport {
    RecoveryReport {
        scanned_from: found.control().checkpoint.scan_lsn,
        end: found.end_lsn(),
        records: analysis.records,
        log_bytes: analysis.log_bytes,
        winners: analysis.winners,
        rolled_back: analysis.rolled_back,
        losers: analysis.losers.len() as u64,
        in_doubt: analysis.in_doubt.len() as u64,
        heap_bytes: heaps.bytes(),
        heap_words: heaps.words_replayed(),
        ..RecoveryReport::default()
    }
}

/// The writing part of an opening. Drop after an error or a panic stops the store, so that later destructors write
/// nothing, and the next opening repeats it all (R5).
struct Opening<'a> {
    store: &'a Store,
    succeeds: bool,
}

impl Opening<'_> {
    fn succeeded(mut self) {
        self.store.inner.set_recovering(false);
        self.succeeds = true;
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if !self.succeeds {
            self.store.log().stop("its opening failed; open the store again");
        }
    }
}
