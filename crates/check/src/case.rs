//! One line that names one crash, and repeats it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use cedrat_media::{Kill, Loss};

/// The environment variable that makes [`crashes`](crate::crashes) run one case only. Its value is the line that a failure
/// printed.
pub const CASE_VARIABLE: &str = "CEDRAT_CASE";

/// A sequence of crashes, each with its position and its loss. The second one lies inside the recovery after the first, and
/// so on.
///
/// Its text is one line, `hash seed=7 at=412/random:9 then=17/nothing/records:3`, and parses back. Kills come before the
/// crashes: `hash seed=7 kill=412/process:3 kill=8/failed-sync:2 at=17/nothing`.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The check's name, so that a line names its test.
    pub name: String,
    /// The seed of workload and schedule.
    pub seed: u64,
    /// Transactions of the workload's first run that are left out, by their numbers from 0 on.
    pub skipped: BTreeSet<usize>,
    /// For each process that was killed before the first crash: the entries of the disk's journal before the kill, and its
    /// kind. Each journal begins with the opening after the previous kill.
    pub kills: Vec<(usize, Kill)>,
    /// The crashes, in their order. The first journal is that of the workload; each further one begins with a recovery.
    pub crashes: Vec<Crash>,
    /// Fault besides the crashes.
    pub injected: Option<Injected>,
}

/// One power failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crash {
    /// The entries of the disk's journal before it.
    pub at: usize,
    /// Unsynced bytes that the crash loses.
    pub loss: Loss,
    /// Number of records that the log has of the block that the next entry writes; `None`: that call has not begun.
    pub records: Option<usize>,
}

impl Crash {
    /// A crash between two calls to the disk.
    pub(crate) fn between(at: usize, loss: Loss) -> Crash {
        Crash { at, loss, records: None }
    }

    /// A crash behind a record that the next call writes.
    pub(crate) fn behind(at: usize, records: usize) -> Crash {
        Crash { at, loss: Loss::Nothing, records: Some(records) }
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.at, loss_as_text(self.loss))?;
        match self.records {
            Some(records) => write!(f, "/records:{records}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Crash {
    type Err = String;

    fn from_str(text: &str) -> Result<Crash, String> {
        let wrong = || format!("'{text}' is not of the form CALLS/LOSS or CALLS/LOSS/records:COUNT");
        let mut parts = text.split('/');
        let at = number(parts.next().ok_or_else(wrong)?)?;
        let loss = loss_from_text(parts.next().ok_or_else(wrong)?)?;
        let records = match parts.next() {
            Some(part) => Some(number(part.strip_prefix("records:").ok_or_else(wrong)?)?),
            None => None,
        };
        if parts.next().is_some() || records == Some(0) {
            return Err(wrong());
        }
        Ok(Crash { at, loss, records })
    }
}

/// Fault that a check injects besides power failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Injected {
    /// The n-th call to the disk is an error, once.
    Once(u64),
    /// From the n-th call on, every call is an error.
    Permanent(u64),
    /// The n-th sync is an error and forgets what it should have made durable.
    Forgets(u64),
    /// The disk takes so many more bytes and is then full.
    Full(u64),
    /// Bytes at rest are damaged, as this seed says.
    Damage(u64),
    /// The n-th call to the disk panics.
    Panics(u64),
}

impl Injected {
    fn word(self) -> (&'static str, u64) {
        match self {
            Injected::Once(n) => ("once", n),
            Injected::Permanent(n) => ("ever", n),
            Injected::Forgets(n) => ("forgets", n),
            Injected::Full(n) => ("full", n),
            Injected::Damage(n) => ("damage", n),
            Injected::Panics(n) => ("panics", n),
        }
    }

    fn from_word(word: &str, n: u64) -> Option<Injected> {
        let kinds = [
            Injected::Once,
            Injected::Permanent,
            Injected::Forgets,
            Injected::Full,
            Injected::Damage,
            Injected::Panics,
        ];
        let mut all = kinds.into_iter().map(|kind| kind(n));
        all.find(|injected| injected.word().0 == word)
    }
}

impl Case {
    pub(crate) fn new(name: &str, seed: u64) -> Case {
        let (skipped, kills, crashes) = (BTreeSet::new(), Vec::new(), Vec::new());
        Case { name: name.to_string(), seed, skipped, kills, crashes, injected: None }
    }

    /// This case of a workload from which these transactions are left out.
    pub(crate) fn without(&self, skipped: &BTreeSet<usize>) -> Case {
        let mut smaller = self.clone();
        smaller.skipped.clone_from(skipped);
        smaller
    }

    /// This case with something broken besides.
    pub(crate) fn with(&self, injected: Injected) -> Case {
        let mut broken = self.clone();
        broken.injected = Some(injected);
        broken
    }

    /// This case with one crash more.
    pub(crate) fn then(&self, crash: Crash) -> Case {
        let mut longer = self.clone();
        longer.crashes.push(crash);
        longer
    }

    /// This case with one process more that is killed.
    pub(crate) fn then_killed(&self, at: usize, kill: Kill) -> Case {
        let mut longer = self.clone();
        longer.kills.push((at, kill));
        longer
    }

    /// Returns the case of the environment variable, if it belongs to the check of this name.
    pub(crate) fn asked_for(name: &str) -> Option<Case> {
        let line = std::env::var(CASE_VARIABLE).ok()?;
        let case: Case = line.parse().unwrap_or_else(|wrong| panic!("{CASE_VARIABLE}='{line}': {wrong}"));
        (case.name == name).then_some(case)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} seed={}", self.name, self.seed)?;
        if let Some(injected) = self.injected {
            let (word, n) = injected.word();
            write!(f, " {word}={n}")?;
        }
        if !self.skipped.is_empty() {
            write!(f, " skip={}", ranges_as_text(&self.skipped))?;
        }
        for (at, kill) in &self.kills {
            write!(f, " kill={at}/{}", kill_as_text(*kill))?;
        }
        for (number, crash) in self.crashes.iter().enumerate() {
            let word = if number == 0 { "at" } else { "then" };
            write!(f, " {word}={crash}")?;
        }
        Ok(())
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(line: &str) -> Result<Case, String> {
        let mut words = line.split_whitespace();
        let name = words.next().ok_or("the line is empty")?;
        let mut case = Case::new(name, 0);
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}' is not of the form key=value"))?;
            match key {
                "seed" => case.seed = number(value)?,
                "skip" => case.skipped = ranges_from_text(value)?,
                "kill" => {
                    let wrong = || format!("'{value}' is not of the form CALLS/KILL");
                    let (at, kill) = value.split_once('/').ok_or_else(wrong)?;
                    case.kills.push((number(at)?, kill_from_text(kill)?));
                }
                "at" | "then" => case.crashes.push(value.parse()?),
                _ => {
                    let injected = Injected::from_word(key, number(value)?);
                    case.injected = Some(injected.ok_or_else(|| format!("'{key}' means nothing here"))?);
                }
            }
        }
        Ok(case)
    }
}

/// `0-3,7` for 0, 1, 2, 3 and 7.
fn ranges_as_text(numbers: &BTreeSet<usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last): (usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

fn ranges_from_text(text: &str) -> Result<BTreeSet<usize>, String> {
    let mut numbers = BTreeSet::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (number(first)?, number(last)?);
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

fn loss_as_text(loss: Loss) -> String {
    match loss {
        Loss::Everything => "everything".to_string(),
        Loss::Nothing => "nothing".to_string(),
        Loss::Random(seed) => format!("random:{seed}"),
        Loss::Whole(seed) => format!("whole:{seed}"),
        Loss::TornLast(mask) => format!("torn:{mask}"),
        Loss::Subset(mask) => format!("subset:{mask}"),
    }
}

fn kill_as_text(kill: Kill) -> String {
    match kill {
        Kill::Process(seed) => format!("process:{seed}"),
        Kill::FailedSync(seed) => format!("failed-sync:{seed}"),
    }
}

fn kill_from_text(text: &str) -> Result<Kill, String> {
    match text.split_once(':') {
        Some(("process", seed)) => Ok(Kill::Process(number(seed)?)),
        Some(("failed-sync", seed)) => Ok(Kill::FailedSync(number(seed)?)),
        _ => Err(format!("'{text}' is no kill")),
    }
}

fn loss_from_text(text: &str) -> Result<Loss, String> {
    let (kind, argument) = text.split_once(':').unwrap_or((text, ""));
    Ok(match kind {
        "everything" => Loss::Everything,
        "nothing" => Loss::Nothing,
        "random" => Loss::Random(number(argument)?),
        "whole" => Loss::Whole(number(argument)?),
        "torn" => Loss::TornLast(number(argument)?),
        "subset" => Loss::Subset(number(argument)?),
        _ => return Err(format!("'{text}' is no loss")),
    })
}

fn number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number in range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_everything() {
        let losses = [
            Loss::Everything,
            Loss::Nothing,
            Loss::Random(u64::MAX),
            Loss::Whole(3),
            Loss::TornLast(0xff),
            Loss::Subset(5),
        ];
        for loss in losses {
            let case = Case::new("bank", 7).then(Crash::between(412, loss)).then(Crash::behind(17, 3));
            assert_eq!(case.to_string().parse(), Ok(case));
        }
        let killed = Case::new("bank", 7).then_killed(3, Kill::Process(5)).then_killed(9, Kill::FailedSync(u64::MAX));
        let case = killed.then(Crash::between(412, Loss::Nothing));
        assert_eq!(case.to_string().parse(), Ok(case));
        let case = Case::new("bank", 7).without(&BTreeSet::from([0, 1, 2, 5, 7, 8])).then(Crash::behind(3, 1));
        assert_eq!(case.to_string(), "bank seed=7 skip=0-2,5,7-8 at=3/nothing/records:1");
        assert_eq!(case.to_string().parse(), Ok(case));
        let case = Case::new("bank", 7).with(Injected::Forgets(12));
        assert_eq!(case.to_string(), "bank seed=7 forgets=12");
        assert_eq!(case.to_string().parse(), Ok(case));
        let case = Case::new("bank", 7).then(Crash::between(412, Loss::Nothing)).with(Injected::Panics(3));
        assert_eq!(case.to_string(), "bank seed=7 panics=3 at=412/nothing");
        assert_eq!(case.to_string().parse(), Ok(case));
    }

    #[test]
    fn bad_line_names_wrong_word() {
        for line in [
            "",
            "bank at",
            "bank at=3",
            "bank at=3/some",
            "bank at=x/nothing",
            "bank at=3/nothing/records:0",
            "bank by=3",
            "bank kill=3/some:1",
            "bank skip=3-x",
        ] {
            assert!(line.parse::<Case>().is_err(), "{line}");
        }
    }
}
