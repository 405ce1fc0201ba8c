//! Figure `heap-sync`: small durable transactions by threads and by commit mode, and mixed modes (Hathi, Figure 3(b)),
//! beside the bare group-commit loop.

use std::path::Path;

use super::mode::Mode;
use super::run::{Length, METRICS, Turns, timed};
use super::vacation::{Agency, Contention, Run, add_points, setting as agency_setting};
use super::{Choices, LogSetting, PARTITIONS_MAX, Place, Setting};
use crate::Settings;
use crate::ceiling::Strategy;
use crate::job::{Job, Outcome, Scratch};
use crate::random::Random;
use crate::report::{Goal, Params, Point, Report, median, params};
use crate::systems::Result;

const THREADS: [u32; 5] = [1, 2, 8, 50, 200];

const MODES: [Mode; 8] = [
    Mode::Async,
    Mode::Sync,
    Mode::Partition,
    Mode::Token,
    Mode::MixedSync(100),
    Mode::MixedPartition(100),
    Mode::MixedSync(1000),
    Mode::MixedPartition(1000),
];

/// Threads of the mixes over the travel agency.
const AGENCY_THREADS: u32 = 2;

const HEAP_BYTES: u64 = 64 << 20;

/// Words that belong to a thread, if each has its own.
const OWN_WORDS: u64 = 1024;

/// Bytes of log that a transaction of one word takes, rounded up to a length that the ceiling can pack into a block.
const RECORD_LEN: usize = 32;

/// Measures everything and reports which ratios were reached.
pub(crate) fn figure(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let mut report = Report::default();
    for threads in THREADS {
        small(settings, scratch, threads, &mut report)?;
    }
    agency(settings, scratch, &mut report)?;
    goals(&mut report);
    report.notes.push("1 in 1000 sync costs one wait for the disk beside 1000 transactions: the quicker those are, the larger its part".into());
    report.notes.push("Hathi, Figure 3(b), of all asynchronous: all sync -87 %, 1 in 1000 sync -3 %; of 1 in 100 sync and 1 in 100 partition it gives 50 % and 40 %, and calls partition about 25 % faster".into());
    Ok(report)
}

/// Measures transactions of one word, and the ceiling, with this many threads. All modes take turns.
fn small(settings: &Settings, scratch: &mut Scratch, threads: u32, report: &mut Report) -> Result<()> {
    settings.tell(&format!("heap-sync: {threads} threads"));
    let ceiling = params! {"threads": threads};
    let strategies = if settings.wants(&ceiling) { best_strategies(settings, scratch, threads)? } else { Vec::new() };
    let ways = ways(settings, threads);
    let mut rates = vec![Vec::new(); strategies.len()];
    let mut outcomes = vec![Vec::new(); ways.len()];
    for _ in 0..settings.repetitions() {
        for (strategy, rates) in strategies.iter().zip(&mut rates) {
            let job = ceiling_job(strategy, threads, settings.seconds(2.0, 0.5));
            rates.push(scratch.run(&job)?["commits_per_s"]);
        }
        for (way, outcomes) in ways.iter().zip(&mut outcomes) {
            outcomes.push(scratch.run(&way.job)?);
        }
    }
    if let Some(best) = rates.into_iter().filter_map(median).reduce(f64::max) {
        report.points.push(Point::new("heap-sync", "ceiling", ceiling, "txn_per_s", best, "1/s"));
    }
    for (way, outcomes) in ways.iter().zip(&outcomes) {
        for metric in METRICS {
            let values = outcomes.iter().filter_map(|outcome| outcome.get(metric.name).copied());
            let point = |value| Point::new("heap-sync", "cedrat", way.labels.clone(), metric.name, value, metric.unit);
            report.points.extend(median(values.collect()).map(point));
        }
    }
    Ok(())
}

fn ceiling_job(strategy: &str, threads: u32, seconds: f64) -> Job {
    Job::Ceiling { strategy: strategy.into(), threads, seconds, record_len: RECORD_LEN }
}

/// Returns the two strategies of the bare loop that did best in a short trial.
fn best_strategies(settings: &Settings, scratch: &mut Scratch, threads: u32) -> Result<Vec<String>> {
    let mut trials = Vec::new();
    for strategy in Strategy::for_threads(threads).into_iter().filter(|strategy| strategy.system() == "ceiling") {
        let name = strategy.name();
        let reached = scratch.run(&ceiling_job(&name, threads, settings.probe_seconds()))?["commits_per_s"];
        trials.push((reached, name));
    }
    trials.sort_by(|left, right| right.0.total_cmp(&left.0));
    Ok(trials.into_iter().take(2).map(|(_, name)| name).collect())
}

/// One configuration of transactions of one word.
struct Way {
    labels: Params,
    job: Job,
}

/// Returns all of them, with one partition and with several.
fn ways(settings: &Settings, threads: u32) -> Vec<Way> {
    let mut counts = vec![1, threads.min(PARTITIONS_MAX) as u16];
    counts.dedup();
    let of_own = MODES.map(|mode| (mode, false));
    let mut ways = Vec::new();
    for (mode, shared) in of_own.into_iter().chain([(Mode::Sync, true)]) {
        for &partitions in &counts {
            let mut labels = params! {
                "threads": threads,
                "mode": mode.name(),
                "words": if shared { "shared" } else { "own" },
                "partitions": partitions,
                "workload": "words",
            };
            add_mix(&mut labels, mode);
            let seconds = settings.seconds(2.0, 0.5);
            ways.push(Way { labels, job: Job::HeapSync { partitions, threads, mode, shared, seconds } });
        }
    }
    ways.retain(|way| settings.wants(&way.labels));
    ways
}

fn add_mix(labels: &mut Params, mode: Mode) {
    labels.extend(mode.one_in().map(|one_in| ("sync_one_in".to_string(), one_in.into())));
}

/// Measures the mixes over the travel agency, as in Hathi.
fn agency(settings: &Settings, scratch: &mut Scratch, report: &mut Report) -> Result<()> {
    let agency = Agency::new(Contention::Low, settings);
    let labels = |mode: Mode| {
        let mut labels = params! {
            "threads": AGENCY_THREADS,
            "mode": mode.name(),
            "partitions": AGENCY_THREADS,
            "workload": "vacation",
            "relations": agency.relations(),
        };
        add_mix(&mut labels, mode);
        labels
    };
    let modes = MODES.into_iter().filter(|&mode| settings.wants(&labels(mode)));
    let runs: Vec<Run> = modes.map(|mode| Run { threads: AGENCY_THREADS, mode }).collect();
    if runs.is_empty() {
        return Ok(());
    }
    settings.tell("heap-sync: the travel agency");
    let seconds = settings.seconds(5.0, 0.5);
    let setting = agency_setting(agency, AGENCY_THREADS as u16, seconds);
    let outcome = scratch.run(&Job::HeapVacation {
        setting,
        agency,
        runs: runs.clone(),
        turns: Turns::of(seconds),
        twin: false,
    })?;
    for run in runs {
        add_points(report, "heap-sync", &labels(run.mode), run, &outcome);
    }
    Ok(())
}

fn goals(report: &mut Report) {
    let rate = |system: &str, labels: &Params| report.value(system, "txn_per_s", labels);
    let mut goals = Vec::new();
    for threads in THREADS {
        let bare = rate("ceiling", &params! {"threads": threads});
        let at = params! {"threads": threads, "mode": "sync", "words": "own", "partitions": 1, "workload": "words"};
        let reached = rate("cedrat", &at).zip(bare).map(|(reached, bare)| reached / bare);
        let wanted = if threads <= 8 { 0.9 } else { 0.75 };
        goals.push(Goal::at_least(format!("sync / ceiling, {threads} threads"), reached, wanted));
    }
    let of_agency = |mode: Mode| {
        let mut at = params! {"mode": mode.name(), "workload": "vacation"};
        add_mix(&mut at, mode);
        rate("cedrat", &at)
    };
    let mut compare = |what: &str, above: Mode, below: Mode, wanted: f64| {
        let reached = of_agency(above).zip(of_agency(below)).map(|(above, below)| above / below);
        goals.push(Goal::at_least(format!("travel agency: {what}"), reached, wanted));
    };
    compare("1 in 1000 sync / async", Mode::MixedSync(1000), Mode::Async, 0.97);
    compare("1 in 100 sync / async", Mode::MixedSync(100), Mode::Async, 0.4);
    compare("1 in 100 partition / 1 in 100 sync", Mode::MixedPartition(100), Mode::MixedSync(100), 1.0);
    compare("async / sync", Mode::Async, Mode::Sync, 4.0);
    report.goals = goals;
}

/// Runs [`Job::HeapSync`] in the child.
pub(crate) fn run(
    dir: &Path,
    partitions: u16,
    threads: u32,
    mode: Mode,
    shared: bool,
    seconds: f64,
) -> Result<Outcome> {
    let log = LogSetting { partitions, limit_bytes: 4 << 30, checkpoint_every_bytes: None, ready_bytes: 256 << 20 };
    let place = Place::make(
        dir,
        &Setting { heap_bytes: HEAP_BYTES, blocks: false, log: Some(log), choices: Choices::default() },
    )?;
    let heap = &place.heap;
    timed(&place.memory, threads, Length { seconds, with_checkpoint: false }, |number, session, stop| {
        let mut random = Random::new(number.into());
        let (first, words) = if shared { (0, heap.size() / 8) } else { (u64::from(number) * OWN_WORDS, OWN_WORDS) };
        mode.drive(session, stop, |session, commit| {
            let offset = (first + random.below(words)) * 8;
            let value = random.next();
            Ok(session.run(commit, |tx| tx.write(heap, offset, value))?.lsn)
        })
    })
}
