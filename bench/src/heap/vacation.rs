//! Figure `heap-vacation`: a travel agency's clients, after STAMP's *vacation* (IISWC 2008), with and without a log.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::mode::Mode;
use super::run::{METRICS, Turns, timed};
use super::tables::{Behaviour, Tables};
use super::{Choices, LogSetting, Logging, Place, Setting, UNLOGGED};
use crate::Settings;
use crate::job::{Job, Outcome, Scratch};
use crate::random::Random;
use crate::report::{Goal, Params, Point, Report, params};
use crate::systems::Result;

const THREADS: [u32; 4] = [1, 2, 4, 8];

/// Contention between clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Contention {
    Low,
    High,
}

impl Contention {
    const ALL: [Contention; 2] = [Contention::Low, Contention::High];

    fn name(self) -> &'static str {
        match self {
            Contention::Low => "low",
            Contention::High => "high",
        }
    }

    /// Returns the published parameters of STAMP.
    fn behaviour(self) -> Behaviour {
        match self {
            Contention::Low => Behaviour { queries: 2, asked_for: 90, reserve: 98 },
            Contention::High => Behaviour { queries: 4, asked_for: 60, reserve: 90 },
        }
    }
}

/// Tables of a child, and their clients.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Agency {
    contention: Contention,
    /// Number of items of each kind, and of customers.
    relations: u64,
}

impl Agency {
    pub(super) fn new(contention: Contention, settings: &Settings) -> Agency {
        Agency { contention, relations: if settings.quick { 1 << 16 } else { 1 << 20 } }
    }

    pub(super) fn heap_bytes(self) -> u64 {
        Tables::bytes(self.relations)
    }

    pub(super) fn relations(self) -> u64 {
        self.relations
    }
}

/// One run of a child over its tables.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(super) threads: u32,
    pub(super) mode: Mode,
}

impl Run {
    pub(super) fn name(self) -> String {
        format!("{}-{}-{}", self.threads, self.mode.name(), self.mode.one_in().unwrap_or(0))
    }
}

/// Measures everything and reports which ratios were reached.
pub(crate) fn figure(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let mut report = Report::default();
    for contention in Contention::ALL {
        let agency = Agency::new(contention, settings);
        for logging in Logging::ALL {
            for (partitions, threads) in logging.groups(&THREADS) {
                let labels = |threads| labels(agency, logging.name(), threads);
                let threads = threads.into_iter().filter(|&threads| settings.wants(&labels(threads)));
                let runs: Vec<Run> = threads.map(|threads| Run { threads, mode: Mode::Async }).collect();
                if runs.is_empty() {
                    continue;
                }
                settings.tell(&format!("heap-vacation: {} contention, {}", contention.name(), logging.name()));
                let seconds = settings.seconds(10.0, 1.0);
                let setting = setting(agency, partitions, seconds);
                let turns = Turns::of(seconds);
                let outcome =
                    scratch.run(&Job::HeapVacation { setting, agency, runs: runs.clone(), turns, twin: true })?;
                for run in runs {
                    add_points(&mut report, "heap-vacation", &labels(run.threads), run, &outcome);
                    let unlogged = outcome.get(&format!("{}:unlogged_txn_per_s", run.name()));
                    if let Some(&rate) = unlogged
                        && logging == Logging::One
                    {
                        let labels = self::labels(agency, UNLOGGED, run.threads);
                        report.points.push(Point::new("heap-vacation", "cedrat", labels, "txn_per_s", rate, "1/s"));
                    }
                }
            }
        }
    }
    goals(&mut report);
    report.notes.push(
        "Hathi §5: nearly 200,000 txn/s with the travel agency, 15 % below its transactional memory alone".into(),
    );
    Ok(report)
}

fn labels(agency: Agency, log: &str, threads: u32) -> Params {
    let (contention, relations) = (agency.contention.name(), agency.relations);
    params! {"contention": contention, "relations": relations, "log": log, "threads": threads}
}

/// Returns the setting of a heap for the tables, with a log that holds a run.
pub(super) fn setting(agency: Agency, partitions: u16, seconds: f64) -> Setting {
    let log = Some(LogSetting {
        partitions,
        limit_bytes: (seconds * 0.6e9) as u64 + (2 << 30),
        checkpoint_every_bytes: None,
        ready_bytes: ((seconds * 0.2e9) as u64).min(2 << 30),
    });
    Setting { heap_bytes: agency.heap_bytes(), blocks: true, log, choices: Choices::default() }
}

pub(super) fn add_points(report: &mut Report, bench: &str, labels: &Params, run: Run, outcome: &Outcome) {
    for metric in METRICS {
        if let Some(&value) = outcome.get(&format!("{}:{}", run.name(), metric.name)) {
            report.points.push(Point::new(bench, "cedrat", labels.clone(), metric.name, value, metric.unit));
        }
    }
}

fn goals(report: &mut Report) {
    for contention in Contention::ALL {
        for threads in [1, 2] {
            let ratio = |log: &str| {
                let at = params! {"contention": contention.name(), "log": log, "threads": threads};
                report.ratio(("cedrat", "txn_per_s", &at), ("cedrat", "unlogged_txn_per_s", &at))
            };
            let reached = ["async-1", "async-n"].into_iter().filter_map(ratio).reduce(f64::max);
            let what = format!("durable / without a log, {} contention, threads: {threads}", contention.name());
            report.goals.push(Goal::at_least(what, reached, 0.9));
        }
    }
}

/// Runs [`Job::HeapVacation`] in the child.
pub(crate) fn runs(
    dir: &Path,
    setting: &Setting,
    agency: Agency,
    runs: &[Run],
    turns: Turns,
    twin: bool,
) -> Result<Outcome> {
    let open = |setting: &Setting| {
        let place = Place::make(dir, setting)?;
        let tables = Tables::fill(&place.memory, &place.heap, agency.relations)?;
        Ok::<_, crate::systems::Error>((place, tables))
    };
    let logged = open(setting)?;
    let twin = twin.then(|| open(&setting.unlogged())).transpose()?;
    let over = |run: Run, (place, tables): &(Place, Tables), length| {
        timed(&place.memory, run.threads, length, |number, session, stop| {
            let mut random = Random::new(number.into());
            run.mode.drive(session, stop, |session, commit| {
                let action = tables.draw(&mut random, agency.contention.behaviour());
                Ok(session.run(commit, |tx| tables.perform(&mut tx.on(&place.heap), &action))?.lsn)
            })
        })
    };
    let outcomes = match &twin {
        // Each with its twin, for one thread count after the other.
        Some(twin) => runs
            .iter()
            .map(|&run| {
                logged.0.settle()?;
                turns.take(|length| over(run, &logged, length), |length| over(run, twin, length).map(Some))
            })
            .collect::<Result<Vec<Outcome>>>()?,
        None => turns.of_each(runs.len(), |number, length| over(runs[number], &logged, length))?,
    };
    let mut outcome = Outcome::new();
    for (run, ran) in runs.iter().zip(outcomes) {
        outcome.extend(ran.into_iter().map(|(metric, value)| (format!("{}:{metric}", run.name()), value)));
    }
    for (place, tables) in twin.iter().chain([&logged]) {
        tables.check(&place.memory)?;
    }
    Ok(outcome)
}
