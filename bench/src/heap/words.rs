//! Figure `heap-words` (Hathi, Figure 3(a)): transactions of six random words, by threads, with and without a log.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use cedrat::heap::{Commit, Heap, Interrupt, Session, Tx};
use cedrat::wal::Lsn;
use serde::{Deserialize, Serialize};

use super::run::{Done, Length, timed};
use super::{Choices, LogSetting, Logging, Place, Setting};
use crate::Settings;
use crate::job::{Job, Outcome, Yard};
use crate::random::Random;
use crate::raw_words::WORDS_IN_ROUND;
use crate::report::{Goal, Params, Point, Report, params};
use crate::systems::Result;

const THREADS: [u32; 4] = [1, 2, 4, 8];

/// How many transactions a thread runs in one call: one, or as many as overlap their cache misses well.
const BATCHES: [u64; 2] = [1, 64];

/// Transactions between two looks at whether to go on.
const TRANSACTIONS: u64 = 64;

/// The longest that durability may be behind.
const LAG_MS_MAX: f64 = 20.0;

/// What Hathi reached with 8 threads, and how much that was below its transactional memory alone.
const HATHI_TXN_PER_S: f64 = 1.25e6;
const HATHI_OF_VOLATILE: f64 = 0.62;

/// One run of a child over its heap.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    threads: u32,
    batch: u64,
}

impl Run {
    /// Transactions one at a time.
    pub(super) fn single(threads: u32) -> Run {
        Run { threads, batch: 1 }
    }

    pub(super) fn threads(self) -> u32 {
        self.threads
    }

    pub(super) fn name(self) -> String {
        format!("{}-{}", self.threads, self.batch)
    }
}

/// A place, how its points are labelled, and the runs over it.
struct Series {
    setting: Setting,
    params: Params,
    runs: Vec<Run>,
    seconds: f64,
}

impl Series {
    fn params(&self, run: Run) -> Params {
        let mut params = self.params.clone();
        params.extend(params! {"threads": run.threads, "batch": run.batch});
        params
    }
}

/// Measures everything and says which ratios were reached.
pub(crate) fn figure(settings: &Settings, yard: &mut Yard) -> Result<Report> {
    let heaps: [u64; 2] = if settings.quick { [64 << 20, 1 << 30] } else { [64 << 20, 4 << 30] };
    let mut report = Report::default();
    for heap_bytes in heaps {
        ceilings(settings, yard, heap_bytes, &mut report)?;
        for mut series in all_series(settings, heap_bytes) {
            let labels = |run: &Run| series.params(*run);
            let runs = series.runs.iter().copied().filter(|run| settings.wants(&labels(run))).collect();
            series.runs = runs;
            measure(settings, yard, &series, &mut report)?;
        }
    }
    goals(&mut report, heaps[1]);
    report.notes.push("Hathi, Figure 3(a): 1.25 million txn/s at 8 threads, 38 % below its transactional memory alone; one log instead of partitions 45 % of that".into());
    Ok(report)
}

/// The better of plain and huge pages at each number of threads.
fn ceilings(settings: &Settings, yard: &mut Yard, bytes: u64, report: &mut Report) -> Result<()> {
    let labels = |threads: u32| params! {"heap_bytes": bytes, "threads": threads};
    let threads: Vec<u32> = THREADS.into_iter().filter(|&threads| settings.wants(&labels(threads))).collect();
    if threads.is_empty() {
        return Ok(());
    }
    settings.tell(&format!("heap-words: the ceiling of {} MiB", bytes >> 20));
    let seconds = settings.seconds(5.0, 0.5);
    let mut ways = Vec::new();
    for huge in [false, true] {
        ways.push(yard.run(&Job::RawWords { bytes, huge, threads: threads.clone(), seconds })?);
    }
    for threads in threads {
        let best = ways.iter().map(|way| way[&threads.to_string()]).fold(0.0, f64::max);
        report.points.push(Point::new("heap-words", "ceiling", labels(threads), "txn_per_s", best, "1/s"));
    }
    Ok(())
}

fn all_series(settings: &Settings, heap_bytes: u64) -> Vec<Series> {
    let mut all = Vec::new();
    for logging in Logging::ALL {
        for checkpoints in [false, true] {
            if checkpoints && logging == Logging::Nothing {
                continue;
            }
            for (partitions, threads) in logging.groups(&THREADS) {
                let seconds = settings.seconds(10.0, 1.0);
                let log = partitions.map(|partitions| match checkpoints {
                    true => bounded_log(partitions, heap_bytes),
                    false => whole_log(partitions, seconds),
                });
                let runs = threads.iter().flat_map(|&threads| BATCHES.map(|batch| Run { threads, batch }));
                let params = params! {
                    "heap_bytes": heap_bytes,
                    "log": logging.name(),
                    "checkpoints": if checkpoints { "on" } else { "off" },
                };
                let setting = Setting { heap_bytes, log, choices: Choices::default() };
                all.push(Series { setting, params, runs: runs.collect(), seconds });
            }
        }
    }
    all
}

/// A bounded log, which checkpoints have to keep up with.
fn bounded_log(partitions: u16, heap_bytes: u64) -> LogSetting {
    let bound = 2 * heap_bytes + (1 << 30);
    LogSetting { partitions, limit_bytes: bound, checkpoint_every_bytes: Some(bound / 3), ready_bytes: bound / 3 }
}

/// A log that holds a run.
fn whole_log(partitions: u16, seconds: f64) -> LogSetting {
    const BYTES_PER_S: f64 = 1.2e9;
    LogSetting {
        partitions,
        limit_bytes: (seconds * BYTES_PER_S) as u64 + (2 << 30),
        checkpoint_every_bytes: None,
        ready_bytes: ((seconds * BYTES_PER_S / 2.0) as u64).min(4 << 30),
    }
}

fn measure(settings: &Settings, yard: &mut Yard, series: &Series, report: &mut Report) -> Result<()> {
    if series.runs.is_empty() {
        return Ok(());
    }
    settings.tell(&format!("heap-words: {}", serde_json::to_string(&series.params)?));
    let job = Job::HeapWords { setting: series.setting.clone(), runs: series.runs.clone(), seconds: series.seconds };
    let outcome = yard.run(&job)?;
    for &run in &series.runs {
        for (metric, unit) in METRICS {
            if let Some(&value) = outcome.get(&format!("{}:{metric}", run.name())) {
                report.points.push(Point::new("heap-words", "cedrat", series.params(run), metric, value, unit));
            }
        }
    }
    Ok(())
}

/// What a run says, and in which units.
pub(super) const METRICS: [(&str, &str); 6] = [
    ("txn_per_s", "1/s"),
    ("conflicts_per_s", "1/s"),
    ("durable_lag_ms_max", "ms"),
    ("unwatched_ms_max", "ms"),
    ("checkpoints", ""),
    ("partition_made_sync_per_s", "1/s"),
];

fn goals(report: &mut Report, heap_bytes: u64) {
    let at = |log: &str, threads: u32| {
        let checkpoints = "off";
        params! {"heap_bytes": heap_bytes, "log": log, "threads": threads, "batch": 1, "checkpoints": checkpoints}
    };
    let (durable, volatile) = (at("async-n", 8), at("none", 8));
    let reached = report.value("cedrat", "txn_per_s", &durable);
    report.goals.push(Goal::at_least("durable transactions per second, 8 threads", reached, HATHI_TXN_PER_S));
    let reached = report.ratio(("cedrat", "txn_per_s", &durable), ("cedrat", "txn_per_s", &volatile));
    report.goals.push(Goal::at_least("durable / without a log, 8 threads", reached, HATHI_OF_VOLATILE));
    let lags = report.points.iter().filter(|point| point.metric == "durable_lag_ms_max").map(|point| point.value);
    let worst = lags.reduce(f64::max);
    report.goals.push(Goal::at_most("durability is never behind by more, ms", worst, LAG_MS_MAX));
}

/// The child's side of [`Job::HeapWords`].
pub(crate) fn runs(dir: &Path, setting: &Setting, runs: &[Run], seconds: f64) -> Result<Outcome> {
    let place = Place::make(dir, setting)?;
    let with_checkpoint = setting.log.as_ref().is_some_and(|log| log.checkpoint_every_bytes.is_some());
    let length = Length { seconds, with_checkpoint };
    let mut outcome = Outcome::new();
    for &run in runs {
        place.settle()?;
        let ran = timed(&place.memory, run.threads, length, |number, session, stop| match run.batch {
            1 => one_at_a_time(&place.heap, number, session, stop),
            batch => in_batches(&place.heap, batch as usize, number, session, stop),
        })?;
        outcome.extend(ran.into_iter().map(|(metric, value)| (format!("{}:{metric}", run.name()), value)));
    }
    Ok(outcome)
}

/// Six words.
type Places = [u64; WORDS_IN_ROUND];

/// The work of one transaction.
#[inline(always)]
fn add_one(tx: &mut Tx<'_>, heap: &Heap, places: &Places) -> std::result::Result<(), Interrupt> {
    for place in places {
        let value = tx.read(heap, place * 8)?;
        tx.write(heap, place * 8, value.wrapping_add(1))?;
    }
    Ok(())
}

fn one_at_a_time(heap: &Heap, number: u32, session: &mut Session, stop: &AtomicBool) -> Result<Done> {
    let words = heap.size() / 8;
    let mut random = Random::new(number.into());
    let mut done = Done { transactions: 0, last: Lsn::ZERO };
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..TRANSACTIONS {
            let places: Places = random.several(words);
            done.last = session.run(Commit::Async, |tx| add_one(tx, heap, &places))?.lsn;
        }
        done.transactions += TRANSACTIONS;
    }
    Ok(done)
}

fn in_batches(heap: &Heap, batch: usize, number: u32, session: &mut Session, stop: &AtomicBool) -> Result<Done> {
    let words = heap.size() / 8;
    let mut random = Random::new(number.into());
    let mut done = Done { transactions: 0, last: Lsn::ZERO };
    let mut all: Vec<Places> = vec![[0; WORDS_IN_ROUND]; batch];
    while !stop.load(Ordering::Relaxed) {
        all.fill_with(|| random.several(words));
        let touch = |index: usize| all[index].iter().for_each(|place| heap.prefetch(place * 8));
        let last = session.run_batch(batch, Commit::Async, touch, |index, tx| add_one(tx, heap, &all[index]))?;
        done.last = last;
        done.transactions += batch as u64;
    }
    Ok(done)
}
