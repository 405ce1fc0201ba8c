//! Figure `read-only`: transactions that only read and end with a durable commit, alone and beside a thread that writes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cedrat::structures::HashTable;
use cedrat::{Commit, Store};

use crate::Settings;
use crate::job::{Scratch, rate};
use crate::report::{Goal, Point, Report, median, params};
use crate::systems::Result;

/// Keys of each table: they fit any pool.
const KEYS: u64 = 1_000;

const METRIC: &str = "commits_per_s";

/// Measures one reading thread, alone and beside another one that commits changes of another table without waiting.
pub(crate) fn figure(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let (seconds, repetitions) = if settings.quick { (0.3, 1) } else { (2.0, 5) };
    let seconds = settings.seconds.unwrap_or(seconds);
    let store = cedrat::open(scratch.fresh()?)?;
    let [read, written] = ["read", "written"].map(|name| {
        store.transact(|txn| {
            let table = HashTable::<u64, u64>::create(txn, name)?;
            (0..KEYS).try_for_each(|key| table.insert(txn, &key, &key).map(drop))?;
            Ok(table)
        })
    });
    let (read, written) = (read?, written?);
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..repetitions {
        for (writers, rates) in rates.iter_mut().enumerate() {
            settings.tell(&format!("read-only: beside {writers} writing threads"));
            rates.push(beside(&store, &written, writers, || reads_per_s(&store, &read, seconds))?);
        }
    }
    let mut report = Report::default();
    for (writers, rates) in rates.into_iter().enumerate() {
        let point = |value| Point::new("read-only", "cedrat", params! {"writers": writers}, METRIC, value, "1/s");
        report.points.extend(median(rates).map(point));
    }
    let (alone, beside) = (params! {"writers": 0}, params! {"writers": 1});
    // The writer and the log take processors too: the bound is for waits, which would make it a twentieth.
    let ratio = report.ratio(("cedrat", METRIC, &beside), ("cedrat", METRIC, &alone));
    report.goals.push(Goal::at_least("read-only commits beside a writer of another table / alone", ratio, 0.33));
    Ok(report)
}

/// Runs `measured` while so many threads change the table.
fn beside(
    store: &Store,
    table: &HashTable<u64, u64>,
    writers: usize,
    measured: impl FnOnce() -> Result<f64>,
) -> Result<f64> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..writers)
            .map(|_| {
                scope.spawn(|| -> cedrat::Result<()> {
                    let mut key = 0;
                    while !over.load(Ordering::Relaxed) {
                        key = (key + 1) % KEYS;
                        let mut txn = store.begin();
                        table.insert(&mut txn, &key, &key)?;
                        txn.commit(Commit::Async)?;
                    }
                    Ok(())
                })
            })
            .collect();
        let measured = measured();
        over.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().map_err(|_| "a writing thread panicked")??;
        }
        measured
    })
}

fn reads_per_s(store: &Store, table: &HashTable<u64, u64>, seconds: f64) -> Result<f64> {
    rate(1, seconds, |_, goes_on| {
        let mut key = 0;
        loop {
            key = (key + 7) % KEYS;
            let mut txn = store.begin();
            if table.get(&mut txn, &key)? != Some(key) {
                return Err(format!("key {key} is lost").into());
            }
            txn.commit(Commit::Sync)?;
            if !goes_on(1) {
                return Ok(());
            }
        }
    })
}
