//! Figure `opening`: the time to the first answer of a large store whose process was killed, and the time until nothing is left to recover.
//!
//! A child fills an array and a heap. Another one changes random elements and words of both, and is killed with SIGKILL while
//! transactions are open: once just before a checkpoint would have shortened the log behind the redo point, and once after as much log
//! without any checkpoint. A third one opens the store: the times count from before it is started.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cedrat::heap::{Heap, HeapOptions};
use cedrat::structures::ArrayList;
use cedrat::{Commit, Options, Store, Txn};
use serde::{Deserialize, Serialize};

use crate::Settings;
use crate::job::{Job, Outcome, Scratch, run_and_kill, run_in, say_and_wait};
use crate::random::Random;
use crate::report::{Goal, Params, Point, Report, median, params};
use crate::systems::{Error, Result};

/// Bytes of the value of an element.
const VALUE_LEN: usize = 400;

/// Bytes of an element, with the length of its value.
const ELEMENT_LEN: u16 = VALUE_LEN as u16 + 2;

/// Most changes concern the first elements, one in so many of all, which fit the pool.
const HOT: u64 = 20;

/// Elements and words that a transaction changes while the store is filled.
const FILLED_AT_ONCE: u64 = 512;

/// Elements and words that each later transaction changes.
const CHANGES: u64 = 8;

/// Number of transactions that are open at the kill.
const LOSERS: u64 = 8;

/// Sizes of a store, in bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Size {
    pages: u64,
    heap: u64,
    log: u64,
}

impl Size {
    fn elements(self) -> u64 {
        self.pages / u64::from(ELEMENT_LEN)
    }

    fn params(self, has_checkpoints: bool) -> Params {
        params! {"pages": self.pages, "heap": self.heap, "log": self.log, "checkpoints": u64::from(has_checkpoints)}
    }
}

/// Measures everything and reports which goals were reached.
pub(crate) fn figure(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let log = settings.bytes.unwrap_or(if settings.quick { 32 << 20 } else { 1 << 30 });
    let size = Size { pages: 10 * log, heap: 4 * log, log };
    let repetitions = if settings.quick { 1 } else { 3 };
    let dir = scratch.fresh()?;
    settings.tell("opening: filling a store");
    run_in(&dir, &Job::OpeningFill { size })?;
    let mut report = Report::default();
    for has_checkpoints in [true, false] {
        let mut outcomes = Vec::new();
        for repetition in 1..=repetitions {
            settings.tell(&format!("opening: checkpoints {has_checkpoints}, repetition {repetition} of {repetitions}"));
            let _: u64 = run_and_kill(&dir, &Job::OpeningChange { size, has_checkpoints })?;
            let started = SystemTime::now().duration_since(UNIX_EPOCH)?;
            outcomes.push(run_in(&dir, &Job::Opening { size, started })?);
        }
        add_points(&mut report, &size.params(has_checkpoints), &outcomes);
    }
    let value = |metric| report.value("cedrat", metric, &size.params(true));
    report.goals = vec![
        Goal::at_most("seconds from the kill to the first answer", value("first_answer_s"), 1.0),
        Goal::at_most("seconds from the kill to full speed", value("full_speed_s"), 15.0),
    ];
    Ok(report)
}

fn add_points(report: &mut Report, params: &Params, outcomes: &[Outcome]) {
    for (metric, unit) in [
        ("first_answer_s", "s"),
        ("full_speed_s", "s"),
        ("analysis_s", "s"),
        ("undo_s", "s"),
        ("redo_s", "s"),
        ("records", "records"),
        ("log_bytes", "B"),
        ("peak_rss_bytes", "B"),
    ] {
        let middle = median(outcomes.iter().filter_map(|outcome| outcome.get(metric).copied()).collect());
        report.points.extend(middle.map(|value| Point::new("opening", "cedrat", params.clone(), metric, value, unit)));
    }
}

fn options(size: Size) -> Options {
    let mut options = Options { pool_bytes: (size.pages / 10).max(32 << 20), ..Options::default() };
    // As by default at 1 GiB of log, and in proportion; only heaps are loaded at once by default.
    options.checkpoint_every_bytes = size.log / 4;
    options.redo_on_demand_bytes = size.log / 16;
    options.memory.load_on_demand_bytes = size.log / 16;
    options
}

struct Filled {
    store: Store,
    array: ArrayList<Vec<u8>>,
    heap: Heap,
    elements: u64,
    words: u64,
}

impl Filled {
    fn new(dir: &Path, options: Options, size: Size, is_new: bool) -> Result<Filled> {
        let store = cedrat::open_with(dir, options, cedrat::registry())?;
        let array = store.transact(|txn| ArrayList::open_or_create(txn, "array", ELEMENT_LEN))?;
        let memory = store.memory();
        let heap =
            if is_new { memory.create_heap("heap", &HeapOptions::raw(size.heap))? } else { memory.heap("heap")? };
        Ok(Filled { store, array, heap, elements: size.elements(), words: size.heap / 8 })
    }

    /// Changes a random element, most often a hot one.
    fn set(&self, txn: &mut Txn, random: &mut Random, turn: u64) -> Result<()> {
        let is_hot = random.below(10) > 0;
        let index = random.below(if is_hot { self.elements / HOT } else { self.elements });
        Ok(self.array.set(txn, index, &value(index, turn))?)
    }

    /// Changes random elements in one transaction, and random words in another.
    fn change(&self, random: &mut Random, turn: u64) -> Result<()> {
        let mut txn = self.store.begin();
        for _ in 0..CHANGES {
            self.set(&mut txn, random, turn)?;
        }
        txn.commit(Commit::Async)?;
        let words: Vec<u64> = (0..CHANGES).map(|_| random.below(self.words)).collect();
        self.store
            .memory()
            .run(Commit::Async, |tx| words.iter().try_for_each(|word| tx.write(&self.heap, word * 8, word + turn)))?;
        Ok(())
    }
}

/// Returns a value that begins with the number of its element.
fn value(index: u64, turn: u64) -> Vec<u8> {
    let mut value = vec![turn as u8; VALUE_LEN];
    value[..8].copy_from_slice(&index.to_le_bytes());
    value
}

/// Runs [`Job::OpeningFill`] in the child.
pub(crate) fn fill(dir: &Path, size: Size) -> Result<Outcome> {
    let filled = Filled::new(dir, options(size), size, true)?;
    for first in (0..filled.elements).step_by(FILLED_AT_ONCE as usize) {
        let mut txn = filled.store.begin();
        for index in first..(first + FILLED_AT_ONCE).min(filled.elements) {
            filled.array.push(&mut txn, &value(index, 0))?;
        }
        txn.commit(Commit::Async)?;
    }
    for first in (0..filled.words).step_by(FILLED_AT_ONCE as usize) {
        filled.store.memory().run(Commit::Async, |tx| {
            (first..first + FILLED_AT_ONCE).try_for_each(|word| tx.write(&filled.heap, word * 8, word))
        })?;
    }
    let Filled { store, array, heap, .. } = filled;
    drop((array, heap));
    store.close()?;
    Ok(Outcome::new())
}

/// Runs [`Job::OpeningChange`] in the child: returns only with an error.
pub(crate) fn change(dir: &Path, size: Size, has_checkpoints: bool) -> Result<Outcome> {
    let mut options = options(size);
    let mut behind_redo_point = options.checkpoint_every_bytes - options.checkpoint_every_bytes / 32;
    if !has_checkpoints {
        options.checkpoint_every_bytes = u64::MAX;
        options.log_limit_bytes = 4 * size.log;
        behind_redo_point = size.log;
    }
    let filled = Filled::new(dir, options, size, false)?;
    filled.store.checkpoint()?;
    let log = filled.store.log();
    let began = log.current_lsn();
    let is_long = || {
        let behind = log.bytes_since(log.control().checkpoint.redo_lsn).0;
        log.bytes_since(began).0 >= size.log && behind >= behind_redo_point
    };
    let mut random = Random::new(1);
    for turn in 1.. {
        filled.change(&mut random, turn)?;
        if turn % 1024 == 0 && is_long() {
            break;
        }
    }
    let mut open = Vec::new();
    for _ in 0..LOSERS {
        let mut txn = filled.store.begin();
        let index = random.below(filled.elements);
        filled.array.set(&mut txn, index, &value(index, u64::MAX))?;
        open.push(txn);
    }
    log.force(log.current_lsn())?;
    say_and_wait(&log.bytes_since(began).0)
}

/// Runs [`Job::Opening`] in the child.
pub(crate) fn open(dir: &Path, size: Size, started: Duration) -> Result<Outcome> {
    let filled = Filled::new(dir, options(size), size, false)?;
    let mut random = Random::new(2);
    let wrong = |index: u64| Error::from(format!("element {index} has another value"));
    let check = |index: u64| -> Result<()> {
        let mut txn = filled.store.begin();
        let found = filled.array.get(&mut txn, index)?.ok_or_else(|| wrong(index))?;
        if found.len() == VALUE_LEN && found[..8] == index.to_le_bytes() { Ok(()) } else { Err(wrong(index)) }
    };
    check(random.below(filled.elements))?;
    let word = random.below(filled.words);
    filled.store.memory().run(Commit::Async, |tx| tx.read(&filled.heap, word * 8))?;
    let since_start = || Ok::<_, Error>(SystemTime::now().duration_since(UNIX_EPOCH)? - started);
    let answered = since_start()?;
    filled.store.complete_recovery()?;
    let completed = since_start()?;
    for _ in 0..1_000 {
        check(random.below(filled.elements))?;
    }
    let report = filled.store.recovery();
    Ok(Outcome::from([
        ("first_answer_s".into(), answered.as_secs_f64()),
        ("full_speed_s".into(), completed.as_secs_f64()),
        ("analysis_s".into(), report.analysis.as_secs_f64()),
        ("redo_s".into(), report.redo.as_secs_f64()),
        ("undo_s".into(), report.undo.as_secs_f64()),
        ("records".into(), report.records as f64),
        ("log_bytes".into(), report.log_bytes as f64),
        ("peak_rss_bytes".into(), crate::job::peak_rss_bytes()?),
    ]))
}
