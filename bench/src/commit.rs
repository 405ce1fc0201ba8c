//! Figure `commit` (Lemon's Figure 4): durable transactions per second, one insert each, by threads.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::Settings;
use crate::ceiling::{Loop, RECORD_LEN, Strategy};
use crate::disk::{Block, Ring};
use crate::job::{Job, Outcome, Scratch, rate};
use crate::keys::key;
use crate::report::{Goal, Point, Report, median, params};
use crate::systems::{self, Result, Sizing, Which};

const THREADS: [u32; 5] = [1, 2, 8, 50, 200];

/// Blocks of the ceiling's file: 64 MiB, as much as a few log segments.
const RING_BLOCKS: u64 = (64 << 20) / 4096;

/// Buffer pool of every system: the table always fits.
const POOL_BYTES: u64 = 256 << 20;

/// Minimum rates of the ceiling for a valid run, as multiples of the raw rate.
const VALID: [(u32, f64); 3] = [(1, 0.95), (2, 1.25), (8, 3.0)];

const STORES: [Which; 7] = [
    Which::Cedrat,
    Which::CedratLocked,
    Which::BdbHash,
    Which::BdbHashLocked,
    Which::BdbBtree,
    Which::BdbBtreeLocked,
    Which::Lmdb,
];

/// Number of outstanding commits of one thread that waits for tokens.
const OUTSTANDING: u32 = 64;

/// One measurement: a job that can be repeated, and its results so far.
struct Row {
    system: &'static str,
    /// Strategy of the ceiling, or configuration of a peer.
    way: String,
    threads: u32,
    outstanding: u32,
    job: Job,
    rates: Vec<f64>,
    /// For the ceiling: raw 4 KiB direct writes per second, just before and after each of `rates`.
    raw: Vec<f64>,
}

/// Measures everything and reports which ratios were reached.
pub(crate) fn figure(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let (probe, seconds, repetitions) = if settings.quick { (0.2, 0.5, 1) } else { (0.4, 2.0, 3) };

    let mut rows = Vec::new();
    for threads in THREADS {
        settings.tell(&format!("commit: {threads} threads, looking for the best way of each system"));
        rows.extend(best_ways(scratch, threads, probe, seconds)?);
    }
    let which = Which::Cedrat;
    rows.push(Row {
        system: which.system(),
        way: which.way().into(),
        threads: 1,
        outstanding: OUTSTANDING,
        job: Job::Commit { which, threads: 1, outstanding: OUTSTANDING, seconds },
        rates: Vec::new(),
        raw: Vec::new(),
    });
    for repetition in 1..=repetitions {
        for threads in THREADS {
            settings.tell(&format!("commit: repetition {repetition} of {repetitions}, {threads} threads"));
            for row in rows.iter_mut().filter(|row| row.threads == threads) {
                let outcome = scratch.run(&row.job)?;
                row.rates.push(outcome["commits_per_s"]);
                row.raw.extend(outcome.get("raw_writes_per_s"));
            }
        }
    }
    Ok(report(&rows))
}

/// Returns the rows to repeat: of each system the two configurations that did best in a short trial.
fn best_ways(scratch: &mut Scratch, threads: u32, probe: f64, seconds: f64) -> Result<Vec<Row>> {
    let mut ways: Vec<(&'static str, String, Job, Job)> = Vec::new();
    for strategy in Strategy::for_threads(threads) {
        let job = |seconds| Job::Ceiling { strategy: strategy.name(), threads, seconds, record_len: RECORD_LEN };
        ways.push((strategy.system(), strategy.name(), job(probe), job(seconds)));
    }
    for which in STORES {
        let job = |seconds| Job::Commit { which, threads, outstanding: 1, seconds };
        ways.push((which.system(), which.way().into(), job(probe), job(seconds)));
    }
    let mut systems: Vec<&'static str> = ways.iter().map(|way| way.0).collect();
    systems.dedup();

    let mut rows = Vec::new();
    for system in systems {
        let mut trials = Vec::new();
        for (_, way, short, long) in ways.iter().filter(|way| way.0 == system) {
            let reached = scratch.run(short)?["commits_per_s"];
            trials.push((reached, way, long));
        }
        trials.sort_by(|left, right| right.0.total_cmp(&left.0));
        rows.extend(trials.iter().take(2).map(|&(_, way, job)| Row {
            system,
            way: way.clone(),
            threads,
            outstanding: 1,
            job: job.clone(),
            rates: Vec::new(),
            raw: Vec::new(),
        }));
    }
    Ok(rows)
}

fn report(rows: &[Row]) -> Report {
    let mut report = Report::default();
    let rate = |row: &Row| median(row.rates.clone()).unwrap_or(0.0);
    let mut seen: Vec<(&str, u32, u32)> = rows.iter().map(|row| (row.system, row.threads, row.outstanding)).collect();
    seen.dedup();
    for (system, threads, outstanding) in seen {
        let params = params! {"threads": threads, "outstanding": outstanding};
        let best = rows
            .iter()
            .filter(|row| (row.system, row.threads, row.outstanding) == (system, threads, outstanding))
            .max_by(|left, right| rate(left).total_cmp(&rate(right)));
        if let Some(best) = best {
            let point = Point::new("commit", system, params, "commits_per_s", rate(best), "1/s");
            report.points.push(point);
            // In pairs: the speed of the disk varies over time.
            let multiples = best.rates.iter().zip(&best.raw).map(|(rate, raw)| rate / raw).collect();
            if let (Some(multiple), Some(raw)) = (median(multiples), median(best.raw.clone())) {
                let params = params! {"threads": threads, "outstanding": outstanding};
                let mut add = |metric, value, unit| {
                    report.points.push(Point::new("commit", system, params.clone(), metric, value, unit));
                };
                add("raw_4k_writes_per_s", raw, "1/s");
                add("per_raw_4k_write", multiple, "ratio");
            }
            if !best.way.is_empty() {
                report.notes.push(format!("{system} at {threads} threads: {} was best", best.way));
            }
        }
    }
    goals(&mut report);
    report
}

fn goals(report: &mut Report) {
    const METRIC: &str = "commits_per_s";
    let one = params! {"threads": 1, "outstanding": 1};
    let mut goals = Vec::new();
    for (threads, multiple) in VALID {
        let at = params! {"threads": threads, "outstanding": 1};
        let reached = report.value("ceiling", "per_raw_4k_write", &at);
        if reached.is_some_and(|reached| reached < multiple) {
            report.notes.push(format!(
                "this run is NOT VALID: the ceiling at {threads} threads is below {multiple} × the raw write rate"
            ));
        }
        goals.push(Goal::at_least(
            format!("run is valid: ceiling / raw 4 KiB write, {threads} threads"),
            reached,
            multiple,
        ));
    }
    for threads in THREADS {
        let at = params! {"threads": threads, "outstanding": 1};
        let wanted = match threads {
            1 | 2 => 0.9,
            200 => 0.85,
            _ => 0.75,
        };
        let reached = report.ratio(("cedrat", METRIC, &at), ("ceiling", METRIC, &at));
        goals.push(Goal::at_least(format!("cedrat / ceiling, {threads} threads"), reached, wanted));
        let berkeley = ["bdb-hash", "bdb-btree"]
            .into_iter()
            .max_by(|left, right| {
                report
                    .value(left, METRIC, &at)
                    .unwrap_or(0.0)
                    .total_cmp(&report.value(right, METRIC, &at).unwrap_or(0.0))
            })
            .unwrap_or("bdb-btree");
        let reached = report.ratio(("cedrat", METRIC, &at), (berkeley, METRIC, &at));
        goals.push(Goal::at_least(format!("cedrat / {berkeley}, {threads} threads"), reached, 1.0));
    }
    let tokens = params! {"threads": 1, "outstanding": OUTSTANDING};
    let reached = report.ratio(("cedrat", METRIC, &tokens), ("cedrat", METRIC, &one));
    goals.push(Goal::at_least("cedrat: 64 outstanding from one thread / one at a time", reached, 20.0));
    report.goals = goals;
}

/// Returns 4 KiB direct durable writes per second, one after the other.
fn raw_writes(ring: &Ring, seconds: f64) -> Result<f64> {
    let block = [Block::ZERO];
    rate(1, seconds, |_, go_on| {
        let mut at = 0;
        loop {
            ring.write(at, &block)?;
            at += 1;
            if !go_on(1) {
                return Ok(());
            }
        }
    })
}

/// Runs [`Job::Ceiling`] in the child.
pub(crate) fn ceiling(dir: &Path, strategy: &str, threads: u32, seconds: f64, record_len: usize) -> Result<Outcome> {
    let strategy = Strategy::named(strategy).ok_or_else(|| format!("no strategy is called {strategy}"))?;
    let raw_ring = Ring::create(&dir.join("raw"), RING_BLOCKS)?;
    let raw_before = raw_writes(&raw_ring, seconds / 4.0)?;
    let ring = Ring::create(&dir.join("ring"), RING_BLOCKS)?;
    let group = Loop::new(ring, strategy);
    let stop = AtomicBool::new(false);
    let reached = std::thread::scope(|scope| {
        for _ in 0..group.writers() {
            scope.spawn(|| group.write_until(&stop).expect("the disk takes the ceiling's writes"));
        }
        let reached = rate(threads, seconds, |number, go_on| {
            let mut record = vec![0; record_len];
            record[..4].copy_from_slice(&number.to_le_bytes());
            loop {
                group.commit(&record)?;
                if !go_on(1) {
                    return Ok(());
                }
            }
        });
        stop.store(true, Ordering::Relaxed);
        group.wake_writers();
        reached
    })?;
    let raw = (raw_before + raw_writes(&raw_ring, seconds / 4.0)?) / 2.0;
    Ok(Outcome::from([("commits_per_s".into(), reached), ("raw_writes_per_s".into(), raw)]))
}

/// Runs [`Job::Commit`] in the child.
pub(crate) fn commits(dir: &Path, which: Which, threads: u32, outstanding: u32, seconds: f64) -> Result<Outcome> {
    let sizing = Sizing { pool_bytes: POOL_BYTES, presize_records: 0 };
    let system = systems::create(which, dir, sizing)?;
    system.settle()?;
    let next = AtomicU64::new(0);
    let reached = rate(threads, seconds, |_, go_on| {
        let mut session = system.session()?;
        let mut next_key = || key(next.fetch_add(1, Ordering::Relaxed));
        if outstanding > 1 {
            return session.insert_outstanding(outstanding, &mut next_key, go_on);
        }
        loop {
            session.insert_durably(next_key())?;
            if !go_on(1) {
                return Ok(());
            }
        }
    })?;
    Ok(Outcome::from([("commits_per_s".into(), reached)]))
}
