//! Part of figure `load`: a store many times larger than its pool works, and stays within its memory limit.

use std::path::Path;
use std::thread;
use std::time::Instant;

use crate::Settings;
use crate::job::{Job, Outcome, Scratch, peak_rss_bytes, run_in};
use crate::keys::{Keys, Picks};
use crate::load::MEMORY_BESIDE_POOL;
use crate::report::{Goal, Point, Report, params};
use crate::systems::cedrat::{Cedrat, options};
use crate::systems::{Result, Session};

/// Size of the store.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) records: u64,
    /// Random inserts with the small pool, beyond `records`.
    pub(crate) inserts: u64,
    pub(crate) gets: u64,
    pub(crate) pool_bytes: u64,
}

const FULL: Size = Size { records: 20_000_000, inserts: 200_000, gets: 500_000, pool_bytes: 64 << 20 };
const QUICK: Size = Size { records: 1_000_000, inserts: 20_000, gets: 50_000, pool_bytes: 8 << 20 };

/// Enough to have many page reads in flight.
const THREADS: u32 = 16;

/// Pool size for filling: filling a hash table through a small pool costs a random read and write per record.
const FILLING_POOL_BYTES: u64 = 2 << 30;

/// Inserts of one transaction.
const BATCH: u64 = 1_000;

/// Measures, and adds the results to the report of `load`.
pub(crate) fn add(settings: &Settings, scratch: &mut Scratch, report: &mut Report) -> Result<()> {
    let size = if settings.quick { QUICK } else { FULL };
    let Size { records, inserts, gets, pool_bytes } = size;
    settings.tell(&format!("load: {records} records, then a pool of {} MiB", pool_bytes >> 20));
    let dir = scratch.fresh()?;
    let root = run_in(&dir, &Job::LargeFill { records })?["root"] as u64;
    let outcome = run_in(&dir, &Job::LargeUse { root, records, inserts, gets, pool_bytes, threads: THREADS })?;
    std::fs::remove_dir_all(&dir)?;

    let large = params! {"structure": "hash", "threads": THREADS, "records": records, "pool_bytes": pool_bytes};
    for (metric, unit) in [("inserts_per_s", "1/s"), ("gets_per_s", "1/s"), ("peak_rss_bytes", "B")] {
        report.points.push(Point::new("load", "cedrat", large.clone(), metric, outcome[metric], unit));
    }
    let memory = report.value("cedrat", "peak_rss_bytes", &large);
    let wanted = (pool_bytes + MEMORY_BESIDE_POOL) as f64;
    report.goals.push(Goal::at_most(format!("peak memory of {records} records, bytes"), memory, wanted));
    Ok(())
}

/// Runs [`Job::LargeFill`] in the child.
pub(crate) fn fill(dir: &Path, records: u64) -> Result<Outcome> {
    let cedrat = Cedrat::create_with(dir, options(FILLING_POOL_BYTES, true))?;
    load_in_batches(&cedrat, 0, records)?;
    let root = cedrat.root();
    cedrat.close()?;
    Ok(Outcome::from([("root".into(), root as f64)]))
}

fn load_in_batches(cedrat: &Cedrat, first: u64, end: u64) -> Result<()> {
    for first in (first..end).step_by(BATCH as usize) {
        let mut session = cedrat;
        session.load(Keys::new(first, end.min(first + BATCH)))?;
    }
    Ok(())
}

/// Runs [`Job::LargeUse`] in the child.
pub(crate) fn measure(dir: &Path, root: u64, size: Size, threads: u32) -> Result<Outcome> {
    let cedrat = Cedrat::reopen(dir, options(size.pool_bytes, true), root)?;
    let threads = u64::from(threads);
    let seconds = in_threads(threads, &|number| {
        let place = |number| size.records + size.inserts * number / threads;
        load_in_batches(&cedrat, place(number), place(number + 1))
    })?;
    let inserts_per_s = size.inserts as f64 / seconds;
    let gets = size.gets / threads;
    let seconds = in_threads(threads, &|number| {
        let mut session = &cedrat;
        session.get_all(Picks::new(number + 1, gets, size.records + size.inserts))
    })?;
    Ok(Outcome::from([
        ("inserts_per_s".into(), inserts_per_s),
        ("gets_per_s".into(), (gets * threads) as f64 / seconds),
        ("peak_rss_bytes".into(), peak_rss_bytes()?),
    ]))
}

/// Returns the seconds until every thread, given its number, has done its work.
fn in_threads(threads: u64, work: &(dyn Fn(u64) -> Result<()> + Sync)) -> Result<f64> {
    let from = Instant::now();
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|number| scope.spawn(move || work(number))).collect();
        handles.into_iter().try_for_each(|handle| handle.join().map_err(|_| "a thread panicked")?)
    })?;
    Ok(from.elapsed().as_secs_f64())
}
