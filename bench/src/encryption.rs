//! Figure `encryption`: loads and durable commits of an encrypted store, beside those of a plain one.

use crate::Settings;
use crate::job::{Job, Scratch};
use crate::report::{Goal, Point, Report, median, params};
use crate::systems::{Result, Sizing, Which};

/// With a pool of a part of the table pages are written and read, too.
const POOLS: [u64; 2] = [256 << 20, 16 << 20];
const THREADS: [u32; 3] = [1, 8, 50];
const STORES: [Which; 2] = [Which::Cedrat, Which::CedratEncrypted];

/// The least ratio of an encrypted store to a plain one.
const WANTED: f64 = 0.85;

/// One measurement of both stores, in turns.
struct Row {
    metric: &'static str,
    /// Bytes of the pool, and number of threads.
    params: (u64, u32),
    job: fn(Which, (u64, u32), bool) -> Job,
    rates: [Vec<f64>; 2],
}

fn load(which: Which, (pool_bytes, threads): (u64, u32), is_quick: bool) -> Job {
    let records = if is_quick { 200_000 } else { 1_000_000 };
    let sizing = Sizing { pool_bytes, presize_records: 0 };
    Job::Load { which, sizing, records, gets: records / 10, threads: vec![threads] }
}

fn commit(which: Which, (_, threads): (u64, u32), is_quick: bool) -> Job {
    Job::Commit { which, threads, outstanding: 1, seconds: if is_quick { 0.5 } else { 2.0 } }
}

/// Measures both stores in turns, and reports their ratios.
pub(crate) fn figure(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let mut rows = Vec::new();
    for pool_bytes in POOLS {
        rows.push(Row { metric: "inserts_per_s", params: (pool_bytes, 1), job: load, rates: Default::default() });
    }
    for threads in THREADS {
        rows.push(Row { metric: "commits_per_s", params: (POOLS[0], threads), job: commit, rates: Default::default() });
    }
    let repetitions = if settings.quick { 1 } else { 5 };
    for repetition in 1..=repetitions {
        settings.tell(&format!("encryption: repetition {repetition} of {repetitions}"));
        for row in &mut rows {
            for (which, rates) in STORES.into_iter().zip(&mut row.rates) {
                rates.push(scratch.run(&(row.job)(which, row.params, settings.quick))?[row.metric]);
            }
        }
    }
    let mut report = Report::default();
    for row in rows {
        let (pool_bytes, threads) = row.params;
        let [plain, encrypted] = row.rates.map(|rates| median(rates).unwrap_or(0.0));
        for (which, rate) in STORES.into_iter().zip([plain, encrypted]) {
            let params = params! {"pool_bytes": pool_bytes, "threads": threads, "store": which.way()};
            report.points.push(Point::new("encryption", which.system(), params, row.metric, rate, "1/s"));
        }
        let name = format!("{}, pool of {} MiB, threads {threads}: encrypted / plain", row.metric, pool_bytes >> 20);
        report.goals.push(Goal::at_least(&name, (plain > 0.0).then(|| encrypted / plain), WANTED));
    }
    Ok(report)
}
