//! Figure `heap-choices`: costs and gains of the options of transactional memory, without a log. Meant for the record of
//! decisions rather than for comparisons.

use super::run::Turns;
use super::words::Run;
use super::{Choices, Setting};
use crate::Settings;
use crate::job::{Job, Outcome, Scratch};
use crate::report::{Params, Point, Report, median, params};
use crate::systems::Result;

const THREADS: [u32; 2] = [1, 2];

/// Measures each option separately, with the defaults for all others.
pub(crate) fn figure(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let heaps: [u64; 2] = if settings.quick { [64 << 20, 1 << 30] } else { [64 << 20, 4 << 30] };
    let seconds = settings.seconds(5.0, 0.5);
    let mut report = Report::default();
    for heap_bytes in heaps {
        for (name, value, choices) in all_choices() {
            let labels = |threads: u32| labels(heap_bytes, threads, name, &value);
            let runs: Vec<Run> =
                THREADS.into_iter().filter(|&threads| settings.wants(&labels(threads))).map(Run::single).collect();
            if runs.is_empty() {
                continue;
            }
            settings.tell(&format!("heap-choices: {} MiB, {name} {value}", heap_bytes >> 20));
            let setting = Setting { heap_bytes, blocks: false, log: None, choices };
            let job = Job::HeapWords { setting, runs: runs.clone(), turns: Turns::of(seconds), plain: false };
            let outcomes = (0..settings.repetitions()).map(|_| scratch.run(&job)).collect::<Result<Vec<Outcome>>>()?;
            for run in runs {
                for (metric, unit) in [("txn_per_s", "1/s"), ("conflicts_per_s", "1/s")] {
                    let name = format!("{}:{metric}", run.name());
                    let middle = median(outcomes.iter().map(|outcome| outcome[&name]).collect());
                    let point =
                        |value| Point::new("heap-choices", "cedrat", labels(run.threads()), metric, value, unit);
                    report.points.extend(middle.map(point));
                }
            }
        }
    }
    Ok(report)
}

fn labels(heap_bytes: u64, threads: u32, choice: &str, value: &str) -> Params {
    params! {"heap_bytes": heap_bytes, "threads": threads, "choice": choice, "value": value, "log": "none", "batch": 1}
}

fn all_choices() -> Vec<(&'static str, String, Choices)> {
    let default = Choices::default;
    let mut all = vec![
        ("default", String::new(), default()),
        ("locking", "encounter-time".into(), Choices { encounter_time: true, ..default() }),
        ("huge-pages", "off".into(), Choices { plain_pages: true, ..default() }),
        ("snapshot-extension", "off".into(), Choices { fixed_snapshots: true, ..default() }),
    ];
    for log2 in [14, 16, 18, 20, 22] {
        all.push(("stripes-log2", log2.to_string(), Choices { stripes_log2: Some(log2), ..default() }));
    }
    for log2 in [0, 2, 3] {
        let words = (1 << log2).to_string();
        all.push(("stripe-words", words, Choices { stripe_words_log2: Some(log2), ..default() }));
    }
    all
}
