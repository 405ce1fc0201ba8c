//! A timed run: threads that commit without waiting, measured until all of their commits are durable.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cedrat::heap::{Memory, Session};
use cedrat::wal::Lsn;
use serde::{Deserialize, Serialize};

use super::lag::Lag;
use crate::job::Outcome;
use crate::systems::Result;

/// Work of a thread until it was asked to stop.
#[derive(Clone, Copy)]
pub(super) struct Done {
    pub(super) transactions: u64,
    /// Once this LSN is stable, so are all of its commits.
    pub(super) last: Lsn,
}

/// Division of a run into turns: with a log, without one, again with a log. The speed of the machine varies by half from
/// one minute to the next, so only measurements in alternating turns are comparable.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Turns {
    count: u32,
    seconds: f64,
    with_checkpoint: bool,
}

impl Turns {
    /// Divides `seconds` into turns.
    pub(super) fn of(seconds: f64) -> Turns {
        const COUNT: u32 = 4;
        Turns { count: COUNT, seconds: seconds / f64::from(COUNT), with_checkpoint: false }
    }

    /// Returns one turn, extended if necessary until a checkpoint completes in it. (A background checkpoint would continue
    /// in the turns of others too.)
    pub(super) fn with_checkpoint(seconds: f64) -> Turns {
        Turns { count: 1, seconds, with_checkpoint: true }
    }

    /// Takes turns as [`Turns::take`] does, over several runs without twins: in each turn they run one after the other.
    /// `run` receives the index and the duration.
    pub(super) fn of_each(
        self,
        runs: usize,
        mut run: impl FnMut(usize, Length) -> Result<Outcome>,
    ) -> Result<Vec<Outcome>> {
        let mut outcomes = vec![Outcome::new(); runs];
        for turn in 1..=self.count {
            for (number, outcome) in outcomes.iter_mut().enumerate() {
                let length = Length { seconds: self.seconds, with_checkpoint: self.with_checkpoint };
                for (metric, value) in run(number, length)? {
                    combine(outcome, turn, &metric, value);
                }
            }
        }
        Ok(outcomes)
    }

    /// Takes turns. `logged` and `unlogged` receive the duration; their results are combined, with the rate of the latter
    /// as [`UNLOGGED_RATE`].
    pub(super) fn take(
        self,
        mut logged: impl FnMut(Length) -> Result<Outcome>,
        mut unlogged: impl FnMut(Length) -> Result<Option<Outcome>>,
    ) -> Result<Outcome> {
        let mut outcome = Outcome::new();
        for turn in 1..=self.count {
            if let Some(rate) = unlogged(Length { seconds: self.seconds, with_checkpoint: false })? {
                combine(&mut outcome, turn, UNLOGGED_RATE, rate["txn_per_s"]);
            }
            let length = Length { seconds: self.seconds, with_checkpoint: self.with_checkpoint };
            for (metric, value) in logged(length)? {
                combine(&mut outcome, turn, &metric, value);
            }
        }
        Ok(outcome)
    }
}

/// A metric of a run.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    of_turns: OfTurns,
}

/// Combination of the values of several turns.
#[derive(Clone, Copy)]
enum OfTurns {
    Mean,
    Largest,
    Sum,
}

impl Metric {
    const fn new(name: &'static str, unit: &'static str, of_turns: OfTurns) -> Metric {
        Metric { name, unit, of_turns }
    }
}

/// All metrics of a run, or of its turns combined.
pub(super) const METRICS: [Metric; 8] = [
    Metric::new("txn_per_s", "1/s", OfTurns::Mean),
    Metric::new(UNLOGGED_RATE, "1/s", OfTurns::Mean),
    Metric::new("conflicts_per_s", "1/s", OfTurns::Mean),
    Metric::new("partition_made_sync_per_s", "1/s", OfTurns::Mean),
    Metric::new("durable_lag_ms_mean", "ms", OfTurns::Mean),
    Metric::new("durable_lag_ms_max", "ms", OfTurns::Largest),
    Metric::new("unwatched_ms_max", "ms", OfTurns::Largest),
    Metric::new("checkpoints", "", OfTurns::Sum),
];

const UNLOGGED_RATE: &str = "unlogged_txn_per_s";

/// Combines a turn's value with those before it.
fn combine(outcome: &mut Outcome, turn: u32, metric: &str, value: f64) {
    let known = METRICS.iter().find(|known| known.name == metric).expect("every metric is in the list");
    let all = outcome.entry(metric.to_owned()).or_default();
    match known.of_turns {
        OfTurns::Mean => *all += (value - *all) / f64::from(turn),
        OfTurns::Largest => *all = all.max(value),
        OfTurns::Sum => *all += value,
    }
}

/// Duration of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    pub(super) seconds: f64,
    /// Whether to continue until a checkpoint has completed; but for at most [`PATIENCE`] times as long.
    pub(super) with_checkpoint: bool,
}

const PATIENCE: f64 = 6.0;

/// Measures transactions per second of `threads` threads, with the related metrics. The measurement ends when the last one
/// is durable.
///
/// Each thread receives its number, a session, and the flag that stops it.
pub(super) fn timed(
    memory: &Memory,
    threads: u32,
    length: Length,
    work: impl Fn(u32, &mut Session, &AtomicBool) -> Result<Done> + Sync,
) -> Result<Outcome> {
    let (stop, drained, checkpoints) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let is_over = |from: Instant| {
        let passed = |seconds| from.elapsed() >= Duration::from_secs_f64(seconds);
        let wanting = length.with_checkpoint && checkpoints.load(Ordering::Relaxed) == 0;
        passed(if wanting { length.seconds * PATIENCE } else { length.seconds })
    };
    let before = memory.counted();
    let (outcome, lag) = thread::scope(|scope| {
        let watch = scope.spawn(|| Lag::watch(memory, &drained, &checkpoints));
        let outcome = run(memory, threads, &is_over, &stop, &work);
        drained.store(true, Ordering::Relaxed);
        Ok::<_, crate::systems::Error>((outcome?, watch.join().map_err(|_| "the watching thread panicked")?))
    })?;
    let (transactions, elapsed) = outcome;
    let per_second = |count: u64| count as f64 / elapsed.as_secs_f64();
    let after = memory.counted();
    let made_sync = after.partition_commits_made_sync - before.partition_commits_made_sync;
    let mut outcome = Outcome::from([
        ("txn_per_s".into(), per_second(transactions)),
        ("conflicts_per_s".into(), per_second(after.conflicts - before.conflicts)),
    ]);
    if memory.log().is_some() {
        outcome.insert("partition_made_sync_per_s".into(), per_second(made_sync));
        outcome.extend(lag.mean().map(|mean| ("durable_lag_ms_mean".into(), mean.as_secs_f64() * 1e3)));
        outcome.insert("durable_lag_ms_max".into(), lag.worst.as_secs_f64() * 1e3);
        outcome.insert("unwatched_ms_max".into(), lag.blind.as_secs_f64() * 1e3);
        outcome.insert("checkpoints".into(), checkpoints.load(Ordering::Relaxed) as f64);
    }
    Ok(outcome)
}

/// Returns the number of transactions, and the time until the last was durable.
fn run(
    memory: &Memory,
    threads: u32,
    is_over: &dyn Fn(Instant) -> bool,
    stop: &AtomicBool,
    work: &(impl Fn(u32, &mut Session, &AtomicBool) -> Result<Done> + Sync),
) -> Result<(u64, Duration)> {
    let sessions = (0..threads).map(|_| memory.session()).collect::<cedrat::heap::Result<Vec<_>>>()?;
    let from = Instant::now();
    let (mut transactions, mut last) = (0, Lsn::ZERO);
    thread::scope(|scope| {
        let workers: Vec<_> = sessions
            .into_iter()
            .zip(0..)
            .map(|(mut session, number)| {
                scope.spawn(move || {
                    let done = work(number, &mut session, stop);
                    if done.is_err() {
                        stop.store(true, Ordering::Relaxed); // a failed thread ends all
                    }
                    done
                })
            })
            .collect();
        while !stop.load(Ordering::Relaxed) && !is_over(from) {
            // The interval at which the end of the measurement is checked: the workers run meanwhile.
            thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            let done = worker.join().map_err(|_| "a measuring thread panicked")??;
            transactions += done.transactions;
            last = last.max(done.last);
        }
        Ok::<_, crate::systems::Error>(())
    })?;
    memory.is_stable(last, true)?;
    Ok((transactions, from.elapsed()))
}
