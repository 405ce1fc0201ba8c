//! Figure `load` (Lemon's Figure 3): many random pairs in one transaction, then random gets.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Instant;

use crate::Settings;
use crate::job::{Job, Outcome, Yard, peak_rss_bytes};
use crate::keys::{Keys, Picks};
use crate::report::{Goal, Point, Report, median, params};
use crate::systems::cedrat::{Cedrat, options};
use crate::systems::{self, Result, Session, Sizing, Which};

const POOL_BYTES: u64 = 256 << 20;
const THREADS: [u32; 2] = [1, 2];

/// System, the structure it uses, and whether it is presized.
const ROWS: [(Which, &str, bool); 5] = [
    (Which::Cedrat, "hash", false),
    (Which::BdbHash, "hash", true),
    (Which::BdbBtree, "btree", false),
    (Which::Lmdb, "btree", false),
    (Which::Memory, "hash", false),
];

/// The store that is larger than its pool: records, random gets, bytes of pool; and the same, small, for `--quick`.
const LARGE: (u64, u64, u64) = (20_000_000, 500_000, 64 << 20);
const LARGE_QUICK: (u64, u64, u64) = (1_000_000, 50_000, 8 << 20);
const LARGE_THREADS: u32 = 16;

/// Inserts of one transaction of the large store.
const LARGE_BATCH: u64 = 1_000;

/// What a store may take beyond its pool.
const MEMORY_BESIDE_POOL: u64 = 64 << 20;

/// Measures everything and says which ratios were reached.
pub(crate) fn figure(settings: &Settings, yard: &mut Yard) -> Result<Report> {
    let (records, repetitions) = if settings.quick { (200_000, 1) } else { (1_000_000, 5) };
    let mut outcomes: BTreeMap<usize, Vec<Outcome>> = BTreeMap::new();
    for repetition in 1..=repetitions {
        settings.tell(&format!("load: repetition {repetition} of {repetitions}"));
        for (row, &(which, _, presized)) in ROWS.iter().enumerate() {
            let presize_records = if presized { records } else { 0 };
            let sizing = Sizing { pool_bytes: POOL_BYTES, presize_records };
            let job = Job::Load { which, sizing, records, gets: records, threads: THREADS.to_vec() };
            outcomes.entry(row).or_default().push(yard.run(&job)?);
        }
    }
    let mut report = Report::default();
    for (row, outcomes) in &outcomes {
        let (which, structure, _) = ROWS[*row];
        let middle =
            |metric: &str| median(outcomes.iter().filter_map(|outcome| outcome.get(metric).copied()).collect());
        let mut add = |threads: u32, metric: &str, value: Option<f64>, unit: &str| {
            let params = params! {"structure": structure, "threads": threads, "records": records};
            report.points.extend(value.map(|value| Point::new("load", which.system(), params, metric, value, unit)));
        };
        add(1, "inserts_per_s", middle("inserts_per_s"), "1/s");
        for threads in THREADS {
            add(threads, "gets_per_s", middle(&format!("gets_per_s-{threads}")), "1/s");
        }
        add(1, "log_bytes_per_insert", middle("log_bytes_per_insert"), "B");
        add(1, "peak_rss_bytes", middle("peak_rss_bytes"), "B");
    }
    let (records, gets, pool_bytes) = if settings.quick { LARGE_QUICK } else { LARGE };
    settings.tell(&format!("load: {records} records with a pool of {} MiB", pool_bytes >> 20));
    let outcome = yard.run(&Job::Large { records, gets, pool_bytes, threads: LARGE_THREADS })?;
    let large = params! {
        "structure": "hash", "threads": LARGE_THREADS, "records": records, "pool_bytes": pool_bytes
    };
    for (metric, unit) in [("inserts_per_s", "1/s"), ("gets_per_s", "1/s"), ("peak_rss_bytes", "B")] {
        report.points.push(Point::new("load", "cedrat", large.clone(), metric, outcome[metric], unit));
    }
    goals(&mut report);
    let memory = report.value("cedrat", "peak_rss_bytes", &large);
    let wanted = (pool_bytes + MEMORY_BESIDE_POOL) as f64;
    report.goals.push(Goal::at_most(format!("peak memory of {records} records, bytes"), memory, wanted));
    Ok(report)
}

fn goals(report: &mut Report) {
    let hash = params! {"structure": "hash", "threads": 1};
    let tree = params! {"structure": "btree", "threads": 1};
    let two = params! {"structure": "hash", "threads": 2};
    let inserts = report.ratio(("cedrat", "inserts_per_s", &hash), ("bdb-hash", "inserts_per_s", &hash));
    let log = report.value("cedrat", "log_bytes_per_insert", &hash);
    let gets = report.ratio(("cedrat", "gets_per_s", &hash), ("lmdb", "gets_per_s", &tree));
    let scaling = report.ratio(("cedrat", "gets_per_s", &two), ("cedrat", "gets_per_s", &hash));
    let memory = report.value("cedrat", "peak_rss_bytes", &hash);
    report.goals = vec![
        Goal::at_least("inserts: cedrat / bdb-hash presized", inserts, 1.5),
        Goal::at_most("log bytes per insert", log, 84.0),
        Goal::at_least("gets, one thread: cedrat / lmdb", gets, 1.0),
        Goal::at_least("gets: cedrat with two threads / with one", scaling, 1.8),
        Goal::at_most("peak memory, bytes", memory, (POOL_BYTES + MEMORY_BESIDE_POOL) as f64),
    ];
}

/// The child's side of [`Job::Load`].
pub(crate) fn load(
    dir: &Path,
    which: Which,
    sizing: Sizing,
    records: u64,
    gets: u64,
    threads: &[u32],
) -> Result<Outcome> {
    let system = systems::create(which, dir, sizing)?;
    let log_before = system.log_bytes()?;
    let from = Instant::now();
    system.session()?.load(Keys::new(0, records))?;
    let elapsed = from.elapsed();
    let mut outcome = Outcome::from([("inserts_per_s".into(), records as f64 / elapsed.as_secs_f64())]);
    if let (Some(before), Some(after)) = (log_before, system.log_bytes()?) {
        outcome.insert("log_bytes_per_insert".into(), (after - before) as f64 / records as f64);
    }
    for &threads in threads {
        let system = &system;
        let from = Instant::now();
        thread::scope(|scope| {
            let handles: Vec<_> = (0..threads)
                .map(|number| {
                    let picks = Picks::new(u64::from(number) + 1, gets, records);
                    scope.spawn(move || system.session()?.get_all(picks))
                })
                .collect();
            handles.into_iter().try_for_each(|handle| handle.join().map_err(|_| "a reader panicked")?)
        })?;
        let reached = (gets * u64::from(threads)) as f64 / from.elapsed().as_secs_f64();
        outcome.insert(format!("gets_per_s-{threads}"), reached);
    }
    outcome.insert("peak_rss_bytes".into(), peak_rss_bytes()?);
    Ok(outcome)
}

/// The child's side of [`Job::Large`].
pub(crate) fn large(dir: &Path, records: u64, gets: u64, pool_bytes: u64, threads: u32) -> Result<Outcome> {
    let cedrat = Cedrat::create_with(dir, options(pool_bytes, true))?;
    let threads = u64::from(threads);
    let each_thread = |work: &(dyn Fn(u64) -> Result<()> + Sync)| -> Result<f64> {
        let from = Instant::now();
        thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|number| scope.spawn(move || work(number))).collect();
            handles.into_iter().try_for_each(|handle| handle.join().map_err(|_| "a thread panicked")?)
        })?;
        Ok(from.elapsed().as_secs_f64())
    };
    let seconds = each_thread(&|number| {
        let (first, end) = (records * number / threads, records * (number + 1) / threads);
        for first in (first..end).step_by(LARGE_BATCH as usize) {
            (&mut &cedrat).load(Keys::new(first, end.min(first + LARGE_BATCH)))?;
        }
        Ok(())
    })?;
    let inserts_per_s = records as f64 / seconds;
    let seconds = each_thread(&|number| (&mut &cedrat).get_all(Picks::new(number + 1, gets / threads, records)))?;
    Ok(Outcome::from([
        ("inserts_per_s".into(), inserts_per_s),
        ("gets_per_s".into(), (gets / threads * threads) as f64 / seconds),
        ("peak_rss_bytes".into(), peak_rss_bytes()?),
    ]))
}
