//! `cedrat heap bench`: a first impression of how fast heaps are on this machine.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use cedrat::heap::{Commit, Heap, HeapOptions, Session};
use cedrat::txn::{Options, Store};
use cedrat_wal::{ByteLen, Log, Lsn};
use serde::Serialize;
use tempfile::TempDir;

use crate::arguments::{HeapBench, HeapCommitMode};
use crate::output::{self, Failure, Outcome, bytes, grouped};
use crate::threads::spawn;

/// Words that each transaction reads and writes.
const WORDS: usize = 6;

/// Time between two looks at how far durability is behind.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Measured figures.
#[derive(Debug, Serialize)]
struct Measured {
    threads: u64,
    bytes: u64,
    commit: &'static str,
    partitions: u16,
    seconds: f64,
    txn_per_s: f64,
    conflicts_per_s: f64,
    /// The longest time for which a commit was not durable yet.
    durable_lag_ms_max: f64,
}

/// Measures, and prints what came out.
pub(crate) fn bench(arguments: &HeapBench) -> Outcome {
    let threads = arguments.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get) as u64);
    let folder = match &arguments.directory {
        Some(directory) => TempDir::new_in(directory)?,
        None => tempfile::tempdir()?,
    };
    let store = make_store(&folder, arguments)?;
    let heap = store.memory().create_heap("bench", &HeapOptions::raw(arguments.bytes))?;
    touch(&heap)?;
    store.checkpoint()?;
    let measured = measure(store.log(), &heap, arguments, threads)?;
    if arguments.json { output::json(&measured) } else { print(&measured) }
}

/// A store with a log that is bounded, as that of a store that runs for long is.
fn make_store(folder: &TempDir, arguments: &HeapBench) -> Result<Store, Failure> {
    let bound = 2 * arguments.bytes + (1 << 30);
    let options = Options {
        partitions: arguments.partitions,
        log_limit_bytes: bound,
        checkpoint_every_bytes: bound / 3,
        ..Options::default()
    };
    let store = cedrat::open_with(folder.path(), options, crate::registry())?;
    // Segments are recycled in a store that has been running; here they are made before the clock runs.
    drop(store.log().reserve(ByteLen(bound / 4), ByteLen(0))?);
    Ok(store)
}

/// Writes to each page of memory, for the first who does has to wait for it.
fn touch(heap: &Heap) -> Outcome {
    let mut session = heap.memory().session()?;
    for offset in (0..heap.size()).step_by(4096) {
        session.run(Commit::Async, |tx| tx.write(heap, offset, 1))?;
    }
    Ok(())
}

fn measure(log: &Log, heap: &Heap, arguments: &HeapBench, threads: u64) -> Result<Measured, Failure> {
    let memory = heap.memory();
    let (commit, name) = match arguments.commit {
        HeapCommitMode::Async => (Commit::Async, "async"),
        HeapCommitMode::Sync => (Commit::Sync, "sync"),
        HeapCommitMode::Partition => (Commit::Partition, "partition"),
    };
    let sessions = (0..threads).map(|_| memory.session()).collect::<cedrat::heap::Result<Vec<_>>>()?;
    let conflicts = memory.counted().conflicts;
    let (stop, (ended, end)) = (&AtomicBool::new(false), channel());
    let from = Instant::now();
    let until = from + arguments.seconds;
    let (transactions, elapsed, lag) = thread::scope(|scope| {
        let watch = spawn(scope, move || watch(log, &end))?;
        let workers = sessions
            .into_iter()
            .zip(1..)
            .map(|(session, seed)| spawn(scope, move || work(heap, session, commit, seed, stop, until)))
            .collect::<Result<Vec<_>, Failure>>()
            .inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
        let (mut transactions, mut last) = (0, Lsn::ZERO);
        for worker in workers {
            let done = worker.join().expect("a thread of the measurement does not panic")?;
            transactions += done.0;
            last = last.max(done.1);
        }
        memory.is_stable(last, true)?;
        let elapsed = from.elapsed();
        drop(ended);
        Ok::<_, Failure>((transactions, elapsed, watch.join().expect("looking does not panic")))
    })?;
    let per_second = |count: u64| count as f64 / elapsed.as_secs_f64();
    Ok(Measured {
        threads,
        bytes: heap.size(),
        commit: name,
        partitions: arguments.partitions,
        seconds: elapsed.as_secs_f64(),
        txn_per_s: per_second(transactions),
        conflicts_per_s: per_second(memory.counted().conflicts - conflicts),
        durable_lag_ms_max: lag.as_secs_f64() * 1e3,
    })
}

/// Runs transactions until the time is over; returns how many, and the last one's LSN.
fn work(
    heap: &Heap,
    mut session: Session,
    commit: Commit,
    seed: u64,
    stop: &AtomicBool,
    until: Instant,
) -> Result<(u64, Lsn), Failure> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next_place = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        ((u128::from(random) * u128::from(heap.size() / 8)) >> 64) as u64 * 8
    };
    let (mut count, mut last) = (0, Lsn::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let places: [u64; WORDS] = std::array::from_fn(|_| next_place());
        let done = session.run(commit, |tx| {
            places.iter().try_for_each(|&place| {
                let value = tx.read(heap, place)?;
                tx.write(heap, place, value.wrapping_add(1))
            })
        });
        if done.is_err() || Instant::now() >= until {
            stop.store(true, Ordering::Relaxed); // one that failed ends all
        }
        last = done?.lsn;
        count += 1;
    }
    Ok((count, last))
}

/// Looks at the log until the other end of `end` is gone; returns the longest time for which an LSN was drawn and not
/// durable.
fn watch(log: &Log, end: &Receiver<()>) -> Duration {
    let mut drawn: VecDeque<(Instant, Lsn)> = VecDeque::new();
    let mut worst = Duration::ZERO;
    while end.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        let (now, durable) = (Instant::now(), log.durable_lsn());
        while let Some(&(since, lsn)) = drawn.front() {
            worst = worst.max(now - since);
            if lsn > durable {
                break;
            }
            drawn.pop_front();
        }
        let newest = log.current_lsn();
        if newest > durable && drawn.back().is_none_or(|&(_, lsn)| lsn < newest) {
            drawn.push_back((now, newest));
        }
    }
    worst
}

fn print(measured: &Measured) -> Outcome {
    output::rows(&[
        ("heap", bytes(measured.bytes)),
        ("threads", measured.threads.to_string()),
        ("commits", format!("{}, {} log partitions", measured.commit, measured.partitions)),
        ("transactions", format!("{} a second, of {WORDS} random words", grouped(measured.txn_per_s as u64))),
        ("conflicts", format!("{} a second", grouped(measured.conflicts_per_s as u64))),
        ("durable after", format!("at most {:.1} ms", measured.durable_lag_ms_max)),
    ])
}
