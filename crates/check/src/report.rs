//! Result of a check: a row of numbers, or one failure with the line that repeats it.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::io::Write as _;
use std::path::Path;

use crate::case::{Case, Crash};
use crate::history::Acknowledged;

/// The environment variable with the path of a file to which each check appends its row: `name<TAB>states<TAB>distinct`.
pub const STATES_VARIABLE: &str = "CEDRAT_CRASH_STATES";

/// Numbers of a check that has found no failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The check's name.
    pub name: String,
    /// The seed of the run.
    pub seed: u64,
    /// Commits that the workload made.
    pub commits: usize,
    /// Boundaries between two I/O calls at which a crash was tried, without those inside recovery.
    pub points: usize,
    /// Distinct images whose recovery had a transaction to undo.
    pub losers: usize,
    /// Images of the disk after a crash.
    pub states: usize,
    /// Distinct images, by hash; only these were recovered and compared.
    pub distinct: usize,
    /// Distinct images after a second crash, inside recovery.
    pub in_recovery: usize,
    /// Distinct images after a power loss that followed one to three kills of the process.
    pub after_kills: usize,
    /// Faults that were injected and took effect (I/O errors, damaged bytes).
    pub faults: usize,
    /// Images that were recovered again in a fresh process.
    pub fresh: usize,
    /// Parts of the check that could not be done, with the reasons.
    pub notes: Vec<String>,
}

impl Report {
    /// Adds the numbers of another run of the same check, for instance with another seed.
    ///
    /// The images of two runs count as distinct: they come from different logs.
    pub fn add(&mut self, other: &Report) {
        self.commits += other.commits;
        self.points += other.points;
        self.losers += other.losers;
        self.states += other.states;
        self.distinct += other.distinct;
        self.in_recovery += other.in_recovery;
        self.after_kills += other.after_kills;
        self.faults += other.faults;
        self.fresh += other.fresh;
        self.notes.extend_from_slice(&other.notes);
    }

    /// Prints the row. If it counts crash states and the environment variable [`STATES_VARIABLE`] names a file, appends
    /// `name<TAB>states<TAB>distinct` to that file.
    ///
    /// # Panics
    /// If that file cannot be written, because the row is required then.
    pub fn print(&self) {
        println!("{self}");
        if self.states == 0 {
            return;
        }
        if let Some(path) = std::env::var_os(STATES_VARIABLE) {
            self.append_to(Path::new(&path))
                .unwrap_or_else(|error| panic!("{STATES_VARIABLE} names {}: {error}", Path::new(&path).display()));
        }
    }

    fn append_to(&self, path: &Path) -> std::io::Result<()> {
        let row = format!("{}\t{}\t{}\n", self.name, self.states, self.distinct);
        // One write call, so that rows of tests that run side by side do not mix.
        std::fs::OpenOptions::new().create(true).append(true).open(path)?.write_all(row.as_bytes())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<28} {:>7} states {:>7} distinct {:>6} in recovery {:>6} after kills {:>6} with losers {:>5} points {:>5} commits",
            self.name,
            self.states,
            self.distinct,
            self.in_recovery,
            self.after_kills,
            self.losers,
            self.points,
            self.commits
        )?;
        if self.faults > 0 {
            write!(f, " {:>6} faults", self.faults)?;
        }
        if self.fresh > 0 {
            write!(f, " {:>2} in fresh processes", self.fresh)?;
        }
        write!(f, "  seed {}", self.seed)?;
        self.notes.iter().try_for_each(|note| write!(f, "\nnote: {note}"))
    }
}

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The workload itself failed without an injected fault.
    Workload,
    /// The store did not open after a crash.
    Refused,
    /// The state of the store is not a legal outcome.
    Model,
    /// `Store::check` or the scenario's own check found a problem.
    Check,
    /// A call panicked.
    Panicked,
    /// The threads of the workload deadlocked, or a step exceeded a limit.
    Hang,
    /// A fresh process recovers another state from the same image.
    FreshProcess,
    /// An undo took more of the log than its `LOG_BYTES_MAX`.
    LogBound,
    /// After an error the store was neither stopped nor usable.
    Unusable,
    /// The check found no failure, but its crashes did not reach the undo that it has to test.
    NotCovered,
}

/// A violated guarantee, with the line that repeats it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The check's name.
    pub name: String,
    /// Position of the failure: seed, crash point, loss.
    pub case: Box<Case>,
    /// Kind of the failure.
    pub fault: Fault,
    /// Description of the failure.
    pub seen: String,
    /// The last records of the log at the opening after the last crash, a line each, oldest first.
    pub log: Vec<String>,
    /// A part of the workload that fails in the same way, if there is one.
    pub smaller: Option<Smaller>,
}

/// A part of a workload that fails like the whole.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Smaller {
    /// Number of its transactions.
    pub transactions: usize,
    /// Number of transactions of the whole workload.
    pub of: usize,
    /// Its failure.
    pub failure: Box<Failure>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}: {}", self.name, self.fault, self.seen)?;
        self.case.crashes.iter().enumerate().try_for_each(|(number, crash)| tell_crash(f, number, crash))?;
        if !self.log.is_empty() {
            write!(f, "\nthe log ended with:")?;
            self.log.iter().try_for_each(|record| write!(f, "\n  {record}"))?;
        }
        if self.fault == Fault::NotCovered {
            return Ok(());
        }
        write!(f, "\nrepeat with: {}='{}' (see docs/use/checking.md)", crate::case::CASE_VARIABLE, self.case)?;
        match &self.smaller {
            Some(Smaller { transactions, of, failure }) => {
                write!(f, "\n{transactions} of the {of} transactions of the workload fail too:\n{failure}")
            }
            None => Ok(()),
        }
    }
}

/// Writes a line about one of the crashes of a case.
fn tell_crash(f: &mut fmt::Formatter<'_>, number: usize, crash: &Crash) -> fmt::Result {
    let life = if number == 0 { "the workload" } else { "the recovery, and the workload after it" };
    write!(f, "\ncrash {} comes in {life}, after {} entries of the disk's journal", number + 1, crash.at)?;
    match crash.records {
        Some(records) => write!(f, "; of the log block written next it leaves the first {records} records"),
        None => Ok(()),
    }
}

impl Error for Failure {}

/// Images so far, each with its verdict's state, if it was judged.
///
/// A disk often looks as it did before: after a sync, or where a crash loses all that came since. It need not be recovered again,
/// but what was acknowledged since must not be lost in it.
#[derive(Default)]
pub(crate) struct Seen(HashMap<u64, Option<Judged>>);

/// State that the verdict on an image depends on, besides the image.
struct Judged {
    /// The end of its log: commits before this LSN are in it.
    end: u64,
    /// Number of commits that were acknowledged with their partition alone.
    alone: usize,
}

impl Seen {
    /// Adds `hash`; returns whether it is new.
    pub(crate) fn add(&mut self, hash: u64) -> bool {
        let before = self.0.len();
        self.0.entry(hash).or_default();
        self.0.len() > before
    }

    /// Whether a judged image is to be judged again: commits that it may lack were acknowledged since.
    pub(crate) fn may_lack(&self, hash: u64, acknowledged: &Acknowledged) -> bool {
        self.0.get(&hash).and_then(Option::as_ref).is_some_and(|&Judged { end, alone }| {
            acknowledged.up_to >= end
                || acknowledged.alone.len() > alone && acknowledged.alone.iter().any(|&lsn| lsn >= end)
        })
    }

    /// Notes that an image is legal: its log ends before the LSN `end`, and has all acknowledged commits.
    pub(crate) fn judged(&mut self, hash: u64, end: u64, acknowledged: &Acknowledged) {
        self.0.insert(hash, Some(Judged { end, alone: acknowledged.alone.len() }));
    }
}
