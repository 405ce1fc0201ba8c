//! Figure `heap-words` (Hathi, Figure 3(a)): transactions of six random words, by threads, with and without a log.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cedrat::heap::{Commit, Heap, Interrupt, Session, Tx};
use cedrat::wal::Lsn;
use serde::{Deserialize, Serialize};

use super::run::{Done, Length, METRICS, Turns, timed};
use super::writes::Writes;
use super::{Choices, LogSetting, Logging, PARTITIONS_MAX, Place, Setting, UNLOGGED};
use crate::Settings;
use crate::job::{Job, Outcome, Scratch};
use crate::random::Random;
use crate::raw_words::{WORDS_IN_ROUND, Words};
use crate::report::{Goal, Params, Point, Report, median, params};
use crate::systems::Result;

const THREADS: [u32; 4] = [1, 2, 4, 8];

/// Numbers of transactions that a thread runs in one call: one, or enough to overlap their cache misses well.
const BATCHES: [u64; 2] = [1, 64];

/// Transactions between two checks of the stop flag.
const TRANSACTIONS: u64 = 64;

/// Words of a large transaction: 512 bytes (Hathi §5).
const LARGE: usize = 64;

/// Thread counts for large transactions.
const LARGE_THREADS: [u32; 2] = [4, 8];

/// Required rate with a log, relative to the rate without one.
const OF_UNLOGGED: f64 = 0.92;

/// Maximum lag of durability.
const LAG_MS_MAX: f64 = 20.0;

/// Rate of Hathi with 8 threads, and its ratio to that of its transactional memory alone.
const HATHI_TXN_PER_S: f64 = 1.25e6;
const HATHI_OF_VOLATILE: f64 = 0.62;

/// One run of a child over its heap.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    threads: u32,
    batch: u64,
    words: usize,
}

impl Run {
    /// Returns a run of transactions one at a time.
    pub(super) fn single(threads: u32) -> Run {
        Run { threads, batch: 1, words: WORDS_IN_ROUND }
    }

    pub(super) fn threads(self) -> u32 {
        self.threads
    }

    pub(super) fn name(self) -> String {
        format!("{}-{}-{}", self.threads, self.batch, self.words)
    }
}

/// A setting, the labels of its points, and the runs over it.
struct Series {
    bench: &'static str,
    setting: Setting,
    params: Params,
    runs: Vec<Run>,
    turns: Turns,
    /// Whether words of plain memory are measured as well: the ceiling.
    plain: bool,
}

impl Series {
    fn params(&self, run: Run) -> Params {
        let mut params = self.params.clone();
        params.extend(params! {"threads": run.threads, "batch": run.batch});
        params
    }

    /// Removes the runs that were not requested.
    fn wanted(mut self, settings: &Settings) -> Series {
        let mut runs = std::mem::take(&mut self.runs);
        runs.retain(|&run| settings.wants(&self.params(run)));
        Series { runs, ..self }
    }
}

/// Measures everything and reports which ratios were reached.
pub(crate) fn figure(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let heaps: [u64; 2] = if settings.quick { [64 << 20, 1 << 30] } else { [64 << 20, 4 << 30] };
    let mut report = Report::default();
    for heap_bytes in heaps {
        for series in all_series(settings, heap_bytes) {
            measure(settings, scratch, &series.wanted(settings), &mut report)?;
        }
    }
    goals(&mut report, heaps[1]);
    report.notes.push("Hathi, Figure 3(a): 1.25 million txn/s at 8 threads, 38 % below its transactional memory alone; one log instead of partitions 45 % of that".into());
    Ok(report)
}

/// Figure `heap-large`: larger transactions (Hathi §5), which hold more locks for longer, with four and eight threads.
pub(crate) fn large(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    const HEAP_BYTES: u64 = 64 << 20;
    let mut report = Report::default();
    let seconds = settings.seconds(10.0, 1.0);
    let log = whole_log(PARTITIONS_MAX as u16, seconds);
    let series = Series {
        bench: "heap-large",
        setting: Setting { heap_bytes: HEAP_BYTES, blocks: false, log: Some(log), choices: Choices::default() },
        params: params! {"heap_bytes": HEAP_BYTES, "log": Logging::Many.name(), "words": LARGE},
        runs: LARGE_THREADS.map(|threads| Run { words: LARGE, ..Run::single(threads) }).to_vec(),
        turns: Turns::of(seconds),
        plain: false,
    };
    measure(settings, scratch, &series.wanted(settings), &mut report)?;
    let of = |threads: u32| ("cedrat", "txn_per_s", params! {"threads": threads});
    let [(system, metric, four), (_, _, eight)] = LARGE_THREADS.map(of);
    let reached = report.ratio((system, metric, &eight), (system, metric, &four));
    report.goals.push(Goal::at_least("512 bytes: 8 threads / 4 (Hathi: half)", reached, 0.5));
    Ok(report)
}

fn all_series(settings: &Settings, heap_bytes: u64) -> Vec<Series> {
    let mut all = Vec::new();
    for logging in Logging::ALL {
        for checkpoints in [false, true] {
            for (partitions, threads) in logging.groups(&THREADS) {
                let seconds = settings.seconds(10.0, 1.0);
                let (log, turns) = match checkpoints {
                    true => (bounded_log(partitions, heap_bytes), Turns::with_checkpoint(seconds)),
                    false => (whole_log(partitions, seconds), Turns::of(seconds)),
                };
                let runs =
                    threads.iter().flat_map(|&threads| BATCHES.map(|batch| Run { batch, ..Run::single(threads) }));
                let params = params! {
                    "heap_bytes": heap_bytes,
                    "log": logging.name(),
                    "checkpoints": if checkpoints { "on" } else { "off" },
                };
                let setting = Setting { heap_bytes, blocks: false, log: Some(log), choices: Choices::default() };
                // Measured once, because it does not depend on the log.
                let plain = logging == Logging::One && !checkpoints;
                all.push(Series { bench: "heap-words", setting, params, runs: runs.collect(), turns, plain });
            }
        }
    }
    all
}

/// Returns a bounded log, which requires checkpoints to keep up.
fn bounded_log(partitions: u16, heap_bytes: u64) -> LogSetting {
    let bound = 2 * heap_bytes + (1 << 30);
    LogSetting { partitions, limit_bytes: bound, checkpoint_every_bytes: Some(bound / 3), ready_bytes: bound / 3 }
}

/// Returns a log that holds a run.
fn whole_log(partitions: u16, seconds: f64) -> LogSetting {
    const BYTES_PER_S: f64 = 1.2e9;
    LogSetting {
        partitions,
        limit_bytes: (seconds * BYTES_PER_S) as u64 + (2 << 30),
        checkpoint_every_bytes: None,
        ready_bytes: ((seconds * BYTES_PER_S / 2.0) as u64).min(4 << 30),
    }
}

fn measure(settings: &Settings, scratch: &mut Scratch, series: &Series, report: &mut Report) -> Result<()> {
    if series.runs.is_empty() {
        return Ok(());
    }
    settings.tell(&format!("{}: {}", series.bench, serde_json::to_string(&series.params)?));
    let job = Job::HeapWords {
        setting: series.setting.clone(),
        runs: series.runs.clone(),
        turns: series.turns,
        plain: series.plain,
    };
    let outcome = scratch.run(&job)?;
    let mut ceilings: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for &run in &series.runs {
        let value = |metric: &str| outcome.get(&format!("{}:{metric}", run.name())).copied();
        let mut add = |system: &str, params: Params, metric: &str, value: Option<f64>, unit: &str| {
            report.points.extend(value.map(|value| Point::new(series.bench, system, params, metric, value, unit)));
        };
        for metric in METRICS {
            add("cedrat", series.params(run), metric.name, value(metric.name), metric.unit);
        }
        let of_unlogged = value("txn_per_s").zip(value("unlogged_txn_per_s")).map(|(with, without)| with / without);
        add("cedrat", series.params(run), "of_unlogged", of_unlogged, "");
        if let Some(plain) = value("plain_per_s") {
            let mut params = series.params(run);
            params.insert("log".into(), UNLOGGED.into());
            let unlogged = value("unlogged_txn_per_s");
            add("cedrat", params.clone(), "txn_per_s", unlogged, "1/s");
            add("cedrat", params, "of_ceiling", unlogged.map(|unlogged| unlogged / plain), "");
            let (heap_bytes, threads, batch) = (series.setting.heap_bytes, run.threads, run.batch);
            let of_this = params! {"heap_bytes": heap_bytes, "threads": threads, "batch": batch};
            add("ceiling", of_this.clone(), "beside_writes", value("plain_beside_writes"), "");
            add("ceiling", of_this, "durable_lag_ms_max", value("bare_lag_ms_max"), "ms");
            ceilings.entry(run.threads).or_default().push(plain);
        }
    }
    for (threads, rates) in ceilings {
        let params = params! {"heap_bytes": series.setting.heap_bytes, "threads": threads};
        report
            .points
            .extend(median(rates).map(|rate| Point::new("heap-words", "ceiling", params, "txn_per_s", rate, "1/s")));
    }
    Ok(())
}

fn goals(report: &mut Report, heap_bytes: u64) {
    let at = |log: &str, threads: u32, batch: u64| {
        let checkpoints = "off";
        params! {"heap_bytes": heap_bytes, "log": log, "threads": threads, "batch": batch, "checkpoints": checkpoints}
    };
    for threads in [1, 2] {
        let best = |batch| {
            let ways =
                ["async-1", "async-n"].map(|log| report.value("cedrat", "of_unlogged", &at(log, threads, batch)));
            ways.into_iter().flatten().reduce(f64::max)
        };
        let reached = best(1);
        let (one, many) = (at(UNLOGGED, threads, 1), at(UNLOGGED, threads, 64));
        let of_ceiling = |at: &Params| report.value("cedrat", "of_ceiling", at);
        let (of_plain, batched_of_plain) = (of_ceiling(&one), of_ceiling(&many));
        let batched = report.ratio(("cedrat", "txn_per_s", &many), ("cedrat", "txn_per_s", &one));
        let named = |what: &str| format!("{what}, threads: {threads}");
        report.goals.extend([
            Goal::at_least(named("durable / without a log"), reached, OF_UNLOGGED),
            Goal::at_least(named("without a log / plain memory"), of_plain, 0.22),
            Goal::at_least(named("batched / one at a time, without a log"), batched, 3.0),
            Goal::at_least(named("batched, without a log / plain memory"), batched_of_plain, 0.5),
        ]);
    }
    for threads in &THREADS[1..] {
        // Each relative to the run that took turns with it: the two are minutes apart.
        let (many, one) = (at("async-n", *threads, 1), at("async-1", *threads, 1));
        let reached = report.ratio(("cedrat", "of_unlogged", &many), ("cedrat", "of_unlogged", &one));
        report.goals.push(Goal::at_least(
            format!("a partition for each thread / one, threads: {threads}"),
            reached,
            1.0,
        ));
    }
    let durable = at("async-n", 8, 1);
    let reached = report.value("cedrat", "txn_per_s", &durable);
    report.goals.push(Goal::at_least("durable transactions per second, 8 threads", reached, HATHI_TXN_PER_S));
    let reached = report.value("cedrat", "of_unlogged", &durable);
    report.goals.push(Goal::at_least("durable / without a log, 8 threads (Hathi's ratio)", reached, HATHI_OF_VOLATILE));
    let ours = |point: &&Point| (point.system.as_str(), point.metric.as_str()) == ("cedrat", "durable_lag_ms_max");
    let worst = report.points.iter().filter(ours).map(|point| point.value).reduce(f64::max);
    report.goals.push(Goal::at_most("durability is never behind by more, ms", worst, LAG_MS_MAX));
}

/// Runs [`Job::HeapWords`] in the child.
pub(crate) fn runs(dir: &Path, setting: &Setting, runs: &[Run], turns: Turns, plain: bool) -> Result<Outcome> {
    let place = Place::make(dir, setting)?;
    let twin = setting.log.is_some().then(|| Place::make(dir, &setting.unlogged())).transpose()?;
    let plain = plain.then(|| Plain::make(dir, setting.heap_bytes)).transpose()?;
    let mut outcome = Outcome::new();
    for &run in runs {
        place.settle()?;
        let mut plain_rates = PlainRates::default();
        let durable_per_s = Cell::new(None);
        let ran = turns.take(
            |length| {
                let ran = run.over(&place, length)?;
                durable_per_s.set(Some(ran["txn_per_s"]));
                Ok(ran)
            },
            |length| {
                if let Some(plain) = &plain {
                    plain.measure(run.threads, length.seconds / 4.0, durable_per_s.get(), &mut plain_rates)?;
                }
                twin.as_ref().map(|twin| run.over(twin, length)).transpose()
            },
        )?;
        let all = ran.into_iter().chain(plain_rates.outcome());
        outcome.extend(all.map(|(metric, value)| (format!("{}:{metric}", run.name()), value)));
    }
    Ok(outcome)
}

/// Memory without transactions, and a file for concurrent writes.
struct Plain {
    words: Words,
    writes: Writes,
}

/// Minimum log bytes of a transaction: its words and their addresses.
const BARE_BYTES: f64 = (WORDS_IN_ROUND * 2 * size_of::<u64>()) as f64;

/// Rounds per second of plain memory, turn by turn.
#[derive(Default)]
struct PlainRates {
    alone: Vec<f64>,
    /// Rate during concurrent writes, relative to the rate without them just before.
    beside_writes: Vec<f64>,
    /// Longest time until a concurrent write was durable.
    longest: Option<Duration>,
}

impl Plain {
    fn make(dir: &Path, bytes: u64) -> Result<Plain> {
        Ok(Plain { words: Words::map(bytes)?, writes: Writes::to_file_in(dir)? })
    }

    /// Runs a turn; in the turn before, `durable_per_s` transactions per second were durable.
    fn measure(&self, threads: u32, seconds: f64, durable_per_s: Option<f64>, rates: &mut PlainRates) -> Result<()> {
        let alone = self.words.rounds_per_s(threads, seconds)?;
        rates.alone.push(alone);
        if let Some(durable_per_s) = durable_per_s {
            let bytes_per_s = durable_per_s * BARE_BYTES;
            let (rate, longest) = self.writes.beside(bytes_per_s, || self.words.rounds_per_s(threads, seconds))?;
            rates.beside_writes.push(rate / alone);
            rates.longest = rates.longest.max(Some(longest));
        }
        Ok(())
    }
}

impl PlainRates {
    fn outcome(&self) -> impl Iterator<Item = (String, f64)> {
        let mean = |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let all = [
            ("plain_per_s", mean(&self.alone)),
            ("plain_beside_writes", mean(&self.beside_writes)),
            ("bare_lag_ms_max", self.longest.map(|longest| longest.as_secs_f64() * 1e3)),
        ];
        all.into_iter().filter_map(|(metric, value)| Some((metric.to_owned(), value?)))
    }
}

impl Run {
    fn over(self, place: &Place, length: Length) -> Result<Outcome> {
        timed(&place.memory, self.threads, length, |number, session, stop| match (self.words, self.batch) {
            (WORDS_IN_ROUND, 1) => one_at_a_time::<WORDS_IN_ROUND>(&place.heap, number, session, stop),
            (WORDS_IN_ROUND, batch) => in_batches(&place.heap, batch as usize, number, session, stop),
            (LARGE, 1) => one_at_a_time::<LARGE>(&place.heap, number, session, stop),
            (words, batch) => Err(format!("{words} words in batches of {batch} are not measured").into()),
        })
    }
}

/// Offsets of six words.
type Places = [u64; WORDS_IN_ROUND];

/// The work of one transaction.
#[inline(always)]
fn add_one(tx: &mut Tx<'_>, heap: &Heap, places: &[u64]) -> std::result::Result<(), Interrupt> {
    for place in places {
        tx.update(heap, place * 8, |value| value.wrapping_add(1))?;
    }
    Ok(())
}

fn one_at_a_time<const COUNT: usize>(
    heap: &Heap,
    number: u32,
    session: &mut Session,
    stop: &AtomicBool,
) -> Result<Done> {
    let words = heap.size() / 8;
    let mut random = Random::new(number.into());
    let mut done = Done { transactions: 0, last: Lsn::ZERO };
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..TRANSACTIONS {
            let places: [u64; COUNT] = random.several(words);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Scratch;

    /// A heap, the same without a log, and plain memory take turns; each metric is present and plausible.
    #[test]
    fn short_run_reports_every_figure() {
        let mut scratch = Scratch::open().unwrap();
        let log =
            LogSetting { partitions: 2, limit_bytes: 256 << 20, checkpoint_every_bytes: None, ready_bytes: 1 << 20 };
        let setting = Setting { heap_bytes: 1 << 20, blocks: false, log: Some(log), choices: Choices::default() };
        let small = Run::single(2);
        let all = [small, Run { batch: 64, ..small }, Run { words: LARGE, ..small }];
        let outcome = runs(&scratch.fresh().unwrap(), &setting, &all, Turns::of(0.2), true).unwrap();
        for run in all {
            let value = |metric: &str| outcome[&format!("{}:{metric}", run.name())];
            for metric in ["txn_per_s", "unlogged_txn_per_s", "plain_per_s", "plain_beside_writes", "bare_lag_ms_max"] {
                assert!(value(metric) > 0.0, "{} {metric}", run.name());
            }
            assert!(value("durable_lag_ms_mean") <= value("durable_lag_ms_max"), "{}", run.name());
            assert_eq!((value("checkpoints"), value("partition_made_sync_per_s")), (0.0, 0.0), "{}", run.name());
        }
    }
}
