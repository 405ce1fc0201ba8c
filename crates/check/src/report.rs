//! What a check says at its end: a row of numbers, or one failure with the line that repeats it.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::io::Write as _;
use std::path::Path;

use crate::case::Case;

/// The name of the environment variable that names a file to which each check appends its row:
/// `name<TAB>states<TAB>distinct`.
pub const STATES_VARIABLE: &str = "CEDRAT_CRASH_STATES";

/// What a check went through without finding anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The check's name.
    pub name: String,
    /// The seed it ran with.
    pub seed: u64,
    /// Commits that the workload made.
    pub commits: usize,
    /// Boundaries between two I/O calls at which a crash was tried, those inside recovery not counted.
    pub points: usize,
    /// Post-crash images that were made.
    pub states: usize,
    /// Different ones among them, by hash; only these were recovered and compared.
    pub distinct: usize,
    /// Different ones among these that a second crash, inside recovery, has left.
    pub in_recovery: usize,
    /// Faults that were injected and met (I/O errors, damaged bytes).
    pub faults: usize,
}

impl Report {
    /// Adds the numbers of another run of the same check, for instance with another seed.
    ///
    /// The images of two runs count as different ones: they come from different logs.
    pub fn add(&mut self, other: &Report) {
        self.commits += other.commits;
        self.points += other.points;
        self.states += other.states;
        self.distinct += other.distinct;
        self.in_recovery += other.in_recovery;
        self.faults += other.faults;
    }

    /// Prints the row; if it counts crash states, appends `name<TAB>states<TAB>distinct` to the file that the environment
    /// variable [`STATES_VARIABLE`] names, if it is set.
    ///
    /// # Panics
    /// If that file cannot be written: whoever set the variable relies on the row.
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
            "{:<28} {:>7} states {:>7} distinct {:>6} in recovery {:>5} points {:>5} commits",
            self.name, self.states, self.distinct, self.in_recovery, self.points, self.commits
        )?;
        if self.faults > 0 {
            write!(f, " {:>6} faults", self.faults)?;
        }
        write!(f, "  seed {}", self.seed)
    }
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The workload itself failed although nothing was injected.
    Workload,
    /// The store did not open after a crash.
    Refused,
    /// What the store holds is no legal outcome.
    Model,
    /// `Store::check` or the scenario's own check found something.
    Check,
    /// Something panicked.
    Panicked,
    /// After an error the store was neither stopped nor usable.
    Unusable,
}

/// One broken promise, with the line that repeats it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The check's name.
    pub name: String,
    /// Where it happened: seed, crash point, loss.
    pub case: Box<Case>,
    /// What kind of promise was broken.
    pub fault: Fault,
    /// What was seen, for a reader.
    pub seen: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {:?}: {}\nrepeat with: {}='{}' (see docs/use/checking.md)",
            self.name,
            self.fault,
            self.seen,
            crate::case::CASE_VARIABLE,
            self.case
        )
    }
}

impl Error for Failure {}

/// Which images were seen.
#[derive(Default)]
pub(crate) struct Seen(HashSet<u64>);

impl Seen {
    /// True if `hash` was not seen before.
    pub(crate) fn is_new(&mut self, hash: u64) -> bool {
        self.0.insert(hash)
    }
}
