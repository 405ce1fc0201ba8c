//! One measurement in a process of its own, which has its own peak memory; a peer that crashes takes nothing else with it.
//!
//! The parent starts this program again as `bench child DIR JOB` and reads one JSON object, of names and numbers, from its
//! stdout.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::heap;
use crate::systems::{Result, Sizing, Which};

/// Measurement of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// The bare group-commit loop, with raw 4 KiB direct writes before and after it.
    Ceiling { strategy: String, threads: u32, seconds: f64, record_len: usize },
    /// One insert per durable transaction.
    Commit { which: Which, threads: u32, outstanding: u32, seconds: f64 },
    /// Fills a store, with enough memory for all of it, closes it, and reports the root of its table.
    LargeFill { records: u64 },
    /// Opens that store with a pool that is a small part of it, inserts more at random places, then gets.
    LargeUse { root: u64, records: u64, inserts: u64, gets: u64, pool_bytes: u64, threads: u32 },
    /// Fills a store, reports the root of its table, and waits for its SIGKILL.
    RecoveryFill { records: u64 },
    /// Opens that store and reads; `started` is the time since 1970 when the parent began to wait.
    RecoveryOpen { root: u64, records: u64, started: Duration },
    /// Fills a store with a table and a heap, and closes it.
    OpeningFill { size: crate::opening::Size },
    /// Changes that store, reports the length of the log, and waits for its SIGKILL.
    OpeningChange { size: crate::opening::Size, has_checkpoints: bool },
    /// Opens that store and reads; `started` as above.
    Opening { size: crate::opening::Size, started: Duration },
    /// One large transaction, then gets with each number of threads.
    Load { which: Which, sizing: Sizing, records: u64, gets: u64, threads: Vec<u32> },
    /// Transactions of a hundred updates of objects, then one that does not end: waits for its SIGKILL.
    ObjectCache { place: crate::objects::Place, seconds: f64 },
    /// Opens that store, and compares each object with the result of this many transactions.
    ObjectCacheVerify { place: crate::objects::Place, turns: u64 },
    /// Transactions of six random words of a heap, in runs one after the other; in turns with the same over a heap without
    /// a log, if this one has one, and with words of plain memory, if requested.
    HeapWords { setting: heap::Setting, runs: Vec<heap::words::Run>, turns: heap::run::Turns, plain: bool },
    /// Transactions of one word, in one commit mode.
    HeapSync { partitions: u16, threads: u32, mode: heap::Mode, shared: bool, seconds: f64 },
    /// Clients of a travel agency, in runs one after the other; in turns with the clients of a twin without a log, if
    /// requested.
    HeapVacation {
        setting: heap::Setting,
        agency: heap::vacation::Agency,
        runs: Vec<heap::vacation::Run>,
        turns: heap::run::Turns,
        twin: bool,
    },
}

/// Results of a child, by metric.
pub(crate) type Outcome = BTreeMap<String, f64>;

/// Directory for the data of a run; removed when this is dropped.
pub(crate) struct Scratch {
    path: PathBuf,
    made: u32,
}

impl Scratch {
    /// Opens `CEDRAT_BENCH_DIR`, or a directory beside this program, which is on a real disk.
    pub(crate) fn open() -> Result<Scratch> {
        let base = match std::env::var_os("CEDRAT_BENCH_DIR") {
            Some(dir) => PathBuf::from(dir),
            None => std::env::current_exe()?.with_file_name("bench-data"),
        };
        let named = |path: &Path, error| format!("{}: {error}; set CEDRAT_BENCH_DIR", path.display());
        std::fs::create_dir_all(&base).map_err(|error| named(&base, error))?;
        let paths = (1..).map(|number| base.join(format!("run-{}-{number}", std::process::id())));
        let made = |path: PathBuf| match std::fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => None,
            Err(error) => Some(Err(named(&path, error))),
            Ok(()) => Some(Ok(path)),
        };
        let path = paths.into_iter().find_map(made).expect("there is always a next number")?;
        Ok(Scratch { path, made: 0 })
    }

    /// Creates a new, empty directory.
    pub(crate) fn fresh(&mut self) -> Result<PathBuf> {
        self.made += 1;
        let dir = self.path.join(self.made.to_string());
        std::fs::create_dir(&dir)?;
        Ok(dir)
    }

    /// Runs `job` in a child over a fresh directory, which is removed afterwards.
    pub(crate) fn run(&mut self, job: &Job) -> Result<Outcome> {
        let dir = self.fresh()?;
        let outcome = run_in(&dir, job);
        std::fs::remove_dir_all(&dir)?;
        outcome
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("{}: {error}; remove it by hand", self.path.display());
        }
    }
}

/// Returns the command of a child that performs `job` over `dir`.
pub(crate) fn command(dir: &Path, job: &Job) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("child").arg(dir).arg(serde_json::to_string(job)?);
    command.stdin(Stdio::null()).stderr(Stdio::inherit()).stdout(Stdio::piped());
    Ok(command)
}

/// Runs `job` in a child over `dir`.
pub(crate) fn run_in(dir: &Path, job: &Job) -> Result<Outcome> {
    let child = command(dir, job)?.spawn()?.wait_with_output()?;
    if !child.status.success() {
        return Err(format!("{job:?} ended with {}", child.status).into());
    }
    Ok(serde_json::from_slice(&child.stdout)?)
}

/// Runs `job` in a child over `dir` until it reports a value with [`say_and_wait`], then kills it.
pub(crate) fn run_and_kill<T: DeserializeOwned>(dir: &Path, job: &Job) -> Result<T> {
    let mut child = command(dir, job)?.spawn()?;
    let mut line = String::new();
    let out = child.stdout.take().ok_or("the child's stdout was asked for")?;
    let read = BufReader::new(out).read_line(&mut line);
    child.kill()?;
    let status = child.wait()?;
    read?;
    serde_json::from_str(&line).map_err(|_| format!("{job:?} said {line:?} and ended with {status}").into())
}

/// Reports a value to the parent and waits for SIGKILL, which loses the state in memory.
pub(crate) fn say_and_wait(what: &impl Serialize) -> ! {
    println!("{}", serde_json::to_string(what).expect("numbers and names"));
    loop {
        thread::park();
    }
}

/// Performs the job in the child.
pub(crate) fn perform(dir: &Path, job: Job) -> Result<Outcome> {
    match job {
        Job::Ceiling { strategy, threads, seconds, record_len } => {
            crate::commit::ceiling(dir, &strategy, threads, seconds, record_len)
        }
        Job::Commit { which, threads, outstanding, seconds } => {
            crate::commit::commits(dir, which, threads, outstanding, seconds)
        }
        Job::LargeFill { records } => crate::large::fill(dir, records),
        Job::LargeUse { root, records, inserts, gets, pool_bytes, threads } => {
            let size = crate::large::Size { records, inserts, gets, pool_bytes };
            crate::large::measure(dir, root, size, threads)
        }
        Job::RecoveryFill { records } => crate::recovery::fill(dir, records),
        Job::RecoveryOpen { root, records, started } => crate::recovery::open(dir, root, records, started),
        Job::OpeningFill { size } => crate::opening::fill(dir, size),
        Job::OpeningChange { size, has_checkpoints } => crate::opening::change(dir, size, has_checkpoints),
        Job::Opening { size, started } => crate::opening::open(dir, size, started),
        Job::Load { which, sizing, records, gets, threads } => {
            crate::load::load(dir, which, sizing, records, gets, &threads)
        }
        Job::ObjectCache { place, seconds } => crate::objects::run(dir, place, seconds),
        Job::ObjectCacheVerify { place, turns } => crate::objects::verify(dir, place, turns),
        Job::HeapWords { setting, runs, turns, plain } => heap::words::runs(dir, &setting, &runs, turns, plain),
        Job::HeapSync { partitions, threads, mode, shared, seconds } => {
            heap::sync::run(dir, partitions, threads, mode, shared, seconds)
        }
        Job::HeapVacation { setting, agency, runs, turns, twin } => {
            heap::vacation::runs(dir, &setting, agency, &runs, turns, twin)
        }
    }
}

/// Number of rounds of a thread, in a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Tally(AtomicU64);

/// Measures rounds per second of `threads` threads. Each receives its number and a function that it calls after every few
/// rounds, and which returns whether to continue. The first fifth is not counted.
pub(crate) fn rate(
    threads: u32,
    seconds: f64,
    work: impl Fn(u32, &dyn Fn(u64) -> bool) -> Result<()> + Sync,
) -> Result<f64> {
    let tallies: Vec<Tally> = (0..threads).map(|_| Tally::default()).collect();
    let total = || tallies.iter().map(|tally| tally.0.load(Ordering::Relaxed)).sum::<u64>();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let handles: Vec<_> = tallies
            .iter()
            .zip(0..)
            .map(|(tally, number)| {
                let (work, stop) = (&work, &stop);
                scope.spawn(move || {
                    let done = work(number, &|rounds| {
                        tally.0.fetch_add(rounds, Ordering::Relaxed);
                        !stop.load(Ordering::Relaxed)
                    });
                    stop.store(true, Ordering::Relaxed); // a failed thread ends all
                    done
                })
            })
            .collect();
        // A warm-up, then the measured interval: the workers run meanwhile.
        thread::sleep(Duration::from_secs_f64(seconds / 5.0));
        let (first, from) = (total(), Instant::now());
        thread::sleep(Duration::from_secs_f64(seconds));
        let rounds = total() - first;
        let elapsed = from.elapsed();
        stop.store(true, Ordering::Relaxed);
        for handle in handles {
            handle.join().map_err(|_| "a measuring thread panicked")??;
        }
        Ok(rounds as f64 / elapsed.as_secs_f64())
    })
}

/// Returns the peak memory of this process, in bytes.
pub(crate) fn peak_rss_bytes() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM in /proc/self/status")?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok((kibibytes << 10) as f64)
}
