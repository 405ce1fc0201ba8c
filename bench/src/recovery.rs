//! Figure `recovery`: the log of `load` is replayed over a page file to which no page was written back.
//!
//! A child fills a store and is killed with SIGKILL; another opens it. The time from before that process is started to its
//! first answered get includes reading the log and undo, and redo of the pages that these need. The time to full speed includes
//! all of redo.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Settings;
use crate::job::{Job, Outcome, Scratch, run_and_kill, run_in, say_and_wait};
use crate::keys::{Keys, key, value};
use crate::report::{Goal, Point, Report, median, params};
use crate::systems::cedrat::{Cedrat, options};
use crate::systems::{Error, Result, Session};

const POOL_BYTES: u64 = 256 << 20;

/// Number of unfinished transactions at the kill, and inserts of each.
const LOSERS: u64 = 4;
const LOSER_INSERTS: u64 = 1_000;

/// Measures everything and reports which ratios were reached.
pub(crate) fn figure(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let (records, repetitions) = if settings.quick { (200_000, 1) } else { (1_000_000, 5) };
    let mut outcomes = Vec::new();
    for repetition in 1..=repetitions {
        settings.tell(&format!("recovery: repetition {repetition} of {repetitions}"));
        let dir = scratch.fresh()?;
        let root = run_and_kill(&dir, &Job::RecoveryFill { records })?;
        let started = SystemTime::now().duration_since(UNIX_EPOCH)?;
        outcomes.push(run_in(&dir, &Job::RecoveryOpen { root, records, started })?);
        std::fs::remove_dir_all(&dir)?;
    }
    let mut report = Report::default();
    for (metric, unit) in [
        ("redo_records_per_s", "1/s"),
        ("first_answer_s", "s"),
        ("full_speed_s", "s"),
        ("analysis_s", "s"),
        ("redo_s", "s"),
        ("undo_s", "s"),
        ("redone_records", "records"),
        ("undone_records", "records"),
        ("log_bytes", "B"),
        ("peak_rss_bytes", "B"),
    ] {
        let middle = median(outcomes.iter().filter_map(|outcome| outcome.get(metric).copied()).collect());
        let point = |value| Point::new("recovery", "cedrat", params! {"records": records}, metric, value, unit);
        report.points.extend(middle.map(point));
    }
    let rate = report.value("cedrat", "redo_records_per_s", &params! {"records": records});
    report.goals =
        vec![Goal::at_least("records replayed a second to full speed, undo and first get included", rate, 1e6)];
    Ok(report)
}

/// Runs [`Job::RecoveryFill`] in the child: returns only with an error.
pub(crate) fn fill(dir: &Path, records: u64) -> Result<Outcome> {
    let cedrat = Cedrat::create_with(dir, options(POOL_BYTES, false))?;
    (&mut &cedrat).load(Keys::new(0, records))?;
    let mut unfinished = Vec::new();
    for loser in 0..LOSERS {
        let mut txn = cedrat.store().begin();
        for insert in 0..LOSER_INSERTS {
            cedrat.insert(&mut txn, key(records + loser * LOSER_INSERTS + insert))?;
        }
        unfinished.push(txn);
    }
    let log = cedrat.store().log();
    log.force(log.current_lsn())?;
    say_and_wait(&cedrat.root())
}

/// Runs [`Job::RecoveryOpen`] in the child.
pub(crate) fn open(dir: &Path, root: u64, records: u64, started: Duration) -> Result<Outcome> {
    let cedrat = Cedrat::reopen(dir, options(POOL_BYTES, false), root)?;
    let mut txn = cedrat.store().begin();
    let answer = cedrat.get(&mut txn, key(0))?;
    let now = || SystemTime::now().duration_since(UNIX_EPOCH);
    let answered = now()? - started;
    cedrat.store().complete_recovery()?;
    let completed = now()? - started;

    let expect = |number: u64, answer: Option<u64>, expected: Option<u64>| {
        if answer == expected { Ok(()) } else { Err(Error::from(format!("record {number} has the value {answer:?}"))) }
    };
    expect(0, answer, Some(value(key(0))))?;
    for number in 0..records {
        expect(number, cedrat.get(&mut txn, key(number))?, Some(value(key(number))))?;
    }
    for number in records..records + LOSERS * LOSER_INSERTS {
        expect(number, cedrat.get(&mut txn, key(number))?, None)?;
    }
    drop(txn);
    let report = cedrat.store().recovery();
    Ok(Outcome::from([
        ("first_answer_s".into(), answered.as_secs_f64()),
        ("full_speed_s".into(), completed.as_secs_f64()),
        ("redo_records_per_s".into(), report.redone as f64 / completed.as_secs_f64()),
        ("analysis_s".into(), report.analysis.as_secs_f64()),
        ("redo_s".into(), report.redo.as_secs_f64()),
        ("undo_s".into(), report.undo.as_secs_f64()),
        ("redone_records".into(), report.redone as f64),
        ("undone_records".into(), report.undone as f64),
        ("log_bytes".into(), report.log_bytes as f64),
        ("peak_rss_bytes".into(), crate::job::peak_rss_bytes()?),
    ]))
}
