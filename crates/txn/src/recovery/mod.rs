//! Recovery: analysis, redo, undo (Lemon §3.4; docs/inside/recovery.md).
//!
//! 1. **Analysis** loads the checkpoints of heaps, reads the log from the scan point and changes nothing on the disk: who
//!    won, who lost, is everything registered that stands in it (R3), do log, pages and heaps fit together. What winners
//!    wrote to heaps is repeated in memory as it is met. Whatever is refused is refused here (R2).
//! 2. A new epoch begins (E1.1). From here on there is writing.
//! 3. **Redo** repeats history from the first change of a page behind the redo point on, page by page, in as many
//!    threads as one likes (R4).
//! 4. **Undo** takes losers back in one descending sweep (E5.3), by the same code as rollback. Prepared transactions without
//!    an outcome are left as they are, and get their locks again (E9).
//!
//! A crash on the way changes nothing but the time it takes (R5): redo asks each page what it knows already, and undo
//! has left compensation records.

mod analysis;
mod home;
mod redo;
mod undo;

pub(crate) use analysis::{Loser, look_in_doubt};

use std::time::Instant;

use cedrat_heap::FoundHeaps;
use cedrat_media::{LockGuard, Media};
use cedrat_pages::{Home, Pool};
use cedrat_sync::Arc;
use cedrat_wal::Found;

use crate::error::Result;
use crate::options::Options;
use crate::prepared;
use crate::registry::{Numbers, Registry};
use crate::report::{Progress, RecoveryReport};
use crate::store::{Inner, Rooms, Store, log_options, pool_options};

/// Opens a store that exists.
pub(crate) fn recover(
    media: Arc<dyn Media>,
    found: Found,
    lock: LockGuard,
    options: &Options,
    registry: &Registry,
) -> Result<Store> {
    let tell = |progress: Progress| {
        if let Some(listener) = &options.progress {
            listener(progress);
        }
    };
    let began = Instant::now();
    let home = Home::look(&media, &pool_options(options))?;
    home::log_is_whole(&home, &found)?;
    let checkpoint = found.control().checkpoint;
    let known = Numbers::bind(registry, &found.control().names);
    let mut heaps = FoundHeaps::load(&media, found.control().store, &options.memory, options.redo_threads)?;
    heaps.fit(checkpoint.scan_lsn, found.end_lsn())?;
    let mut analysis = analysis::analyse(&found, &known, &mut heaps, &tell)?;
    analysis.plant(options);
    home::pages_are_there(&home, &found, &analysis)?;
    let mut report = RecoveryReport {
        scanned_from: checkpoint.scan_lsn,
        end: found.end_lsn(),
        records: analysis.records,
        log_bytes: analysis.log_bytes,
        winners: analysis.winners,
        rolled_back: analysis.rolled_back,
        losers: analysis.losers.len() as u64,
        in_doubt: analysis.in_doubt.len() as u64,
        heap_bytes: heaps.bytes(),
        heap_words: heaps.words_replayed(),
        analysis: began.elapsed(),
        ..RecoveryReport::default()
    };

    let names: Vec<&str> = registry.names().collect();
    let log = found.begin(&names, &log_options(options))?;
    let pool = Pool::open(media, log.clone(), pool_options(options))?;
    let pages_end = analysis.pages_end.max(crate::CATALOGUE.get() + 1);
    pool.ensure_len(pages_end)?;
    let next_txn = analysis.next_txn.max(checkpoint.next_txn);
    let store = Store::around(Inner::new(Rooms { log, pool, heaps, lock }, options, registry, pages_end, next_txn)?);

    let redo_began = Instant::now();
    if let Some(from) = analysis.redo_from {
        let part = redo::Part { from, end: report.end, uncounted: &analysis.uncounted };
        let redone = redo::redo(&store, &part, options.redo_threads, &tell)?;
        report.redone = redone.records;
        report.pages = redone.pages;
    }
    report.redo = redo_began.elapsed();

    let undo_began = Instant::now();
    store.inner.space.leave_alone_what_is_used(&store.inner.pool)?;
    report.undone = undo::undo(&store, analysis.losers, &tell)?;
    store.inner.space.load(&store.inner.pool)?;
    prepared::restore(&store, analysis.in_doubt)?;
    report.undo = undo_began.elapsed();

    if options.checkpoint_when_opened && !options.background {
        store.inner.checkpoint()?; // else the checkpointer does, while the first transactions run
    }
    report.total = began.elapsed();
    store.set_report(report);
    Ok(store)
}
