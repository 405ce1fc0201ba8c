//! Figure `load` (Lemon's Figure 3): many random pairs in one transaction, then random gets.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Instant;

use crate::Settings;
use crate::job::{Job, Outcome, Scratch, peak_rss_bytes};
use crate::keys::{Keys, Picks};
use crate::report::{Goal, Point, Report, median, params};
use crate::systems::{self, Result, Sizing, Which};

const POOL_BYTES: u64 = 256 << 20;
const THREADS: [u32; 2] = [1, 2];

/// System, its structure, and whether it is presized.
const ROWS: [(Which, &str, bool); 5] = [
    (Which::Cedrat, "hash", false),
    (Which::BdbHash, "hash", true),
    (Which::BdbBtree, "btree", false),
    (Which::Lmdb, "btree", false),
    (Which::Memory, "hash", false),
];

/// Memory that a store may use beyond its pool.
pub(crate) const MEMORY_BESIDE_POOL: u64 = 64 << 20;

/// Measures everything and reports which ratios were reached.
pub(crate) fn figure(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let (records, repetitions) = if settings.quick { (200_000, 1) } else { (1_000_000, 5) };
    let mut outcomes: BTreeMap<usize, Vec<Outcome>> = BTreeMap::new();
    for repetition in 1..=repetitions {
        settings.tell(&format!("load: repetition {repetition} of {repetitions}"));
        for (row, &(which, _, presized)) in ROWS.iter().enumerate() {
            let presize_records = if presized { records } else { 0 };
            let sizing = Sizing { pool_bytes: POOL_BYTES, presize_records };
            let job = Job::Load { which, sizing, records, gets: records, threads: THREADS.to_vec() };
            outcomes.entry(row).or_default().push(scratch.run(&job)?);
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
    goals(&mut report);
    crate::large::add(settings, scratch, &mut report)?;
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

/// Runs [`Job::Load`] in the child.
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
