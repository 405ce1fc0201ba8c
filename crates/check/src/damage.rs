//! Silent damage of bytes at rest: a scenario's store must detect it, or it must be harmless.
//!
//! The check simulates four faults of real disks: bits flip, a sector keeps its old content (a write was lost), a sector
//! becomes zeros, and a sector is written to another place (a misdirected write). After each the store must refuse with an
//! error, or have a legal state: never a wrong result, never a panic.
//!
//! The legal states depend on the end of the workload. After a clean close, everything was promised, so nothing may be
//! missing (E20.2, E20.4). After a crash no promise covers the newest block of the log, and damage to it reads as the torn
//! tail of a crash: then any prefix is legal. And an old version of a whole page is a valid page; only a copy elsewhere could
//! show the difference. So stale sectors are tried in the log and the control file, not in the page file.

use cedrat_media::{Durability, Image, Loss, Media, OpenMode, SECTOR_LEN, SimDisk, write_all_at};
use cedrat_sync::Arc;

use crate::case::{Case, Injected};
use crate::history::{Acknowledged, Prefixes};
use crate::probe::{Probe, explored};
use crate::report::{Failure, Fault, Report, Seen};
use crate::rng::{self, Rng};
use crate::run::Run;
use crate::scenario::{Error, Scenario};

/// Checks `scenario` under silent damage. Configure the result and [`run`](Damages::run) it.
///
/// # Panics
/// If `name` is empty or has white space.
pub fn damages<S: Scenario>(name: &str, scenario: S) -> Damages<S> {
    Damages { probe: Probe::new(name, scenario), seed: rng::seed(1), cases: 1_000 }
}

/// A check of silent damage that was not run yet.
pub struct Damages<S: Scenario> {
    probe: Probe<S>,
    seed: u64,
    cases: u64,
}

impl<S: Scenario> Damages<S> {
    /// Sets the seed (default: that of [`SEED_VARIABLE`](crate::SEED_VARIABLE), or 1).
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how many damages are tried (default 1,000).
    pub fn cases(mut self, cases: u64) -> Self {
        self.cases = cases;
        self
    }

    /// Runs the check.
    ///
    /// # Errors
    /// The first broken promise, with the line that repeats it.
    pub fn run(self) -> Result<Report, Failure> {
        let case = Case::asked_for(&self.probe.name);
        let seed = case.as_ref().map_or(self.seed, |case| case.seed);
        explored(seed, move || {
            let trial = Trial::new(&self.probe, seed)?;
            match case.as_ref().and_then(|case| case.injected) {
                Some(Injected::Damage(number)) => trial.go(number..number + 1),
                _ => trial.go(0..self.cases),
            }
        })
    }
}

/// A check on its way.
struct Trial<'a, S: Scenario> {
    probe: &'a Probe<S>,
    case: Case,
    /// The disk at an earlier moment, the source of stale sectors.
    before: Image,
    crashed: Image,
    closed: Image,
    roots: S::Roots,
    prefixes: Prefixes<S::State>,
    seen: Seen,
    report: Report,
}

impl<'a, S: Scenario> Trial<'a, S> {
    fn new(probe: &'a Probe<S>, seed: u64) -> Result<Trial<'a, S>, Failure> {
        let case = Case::new(&probe.name, seed);
        let scenario = &probe.scenario;
        probe.guarded(&case, Fault::Workload, || {
            let disk = Arc::new(SimDisk::new());
            let store = probe.open(&disk)?;
            let roots = scenario.set_up(&store)?;
            let start = scenario.read(&store, &roots)?;
            let run = Run::new(store.clone(), disk.clone(), seed, start);
            scenario.run(&run, &roots)?;
            let prefixes = run.into_history().prefixes();
            let journal = disk.journal();
            let (middle, last) = (journal.len() / 2, journal.len());
            let mut cursor = journal.cursor();
            cursor.advance_to(middle);
            let before = cursor.image(Loss::Nothing);
            cursor.advance_to(last);
            let crashed = cursor.image(Loss::Nothing);
            store.close()?;
            let report = Report { name: probe.name.clone(), seed, commits: prefixes.commits(), ..Report::default() };
            Ok(Trial {
                probe,
                case: case.clone(),
                before,
                crashed,
                closed: disk.image(),
                roots,
                prefixes,
                seen: Seen::default(),
                report,
            })
        })
    }

    fn go(mut self, numbers: std::ops::Range<u64>) -> Result<Report, Failure> {
        for number in numbers {
            let mut chance = Rng::new(self.case.seed).part(number);
            let case = self.case.with(Injected::Damage(number));
            let was_closed = chance.one_in(2);
            let sound = if was_closed { &self.closed } else { &self.crashed };
            let damaged = self.probe.guarded(&case, Fault::Workload, || damage(sound, &self.before, &mut chance))?;
            self.report.faults += 1;
            if self.seen.add(damaged.hash()) {
                self.judge(&case, damaged, was_closed)?;
            }
        }
        Ok(self.report)
    }

    /// Asserts that the store refuses, or has a legal state.
    fn judge(&self, case: &Case, damaged: Image, was_closed: bool) -> Result<(), Failure> {
        let disk = Arc::new(SimDisk::from_image(damaged));
        let scenario = &self.probe.scenario;
        let looked = self.probe.timed(case, Fault::Refused, || {
            let store = self.probe.open(&disk)?;
            let state = scenario.read(&store, &self.roots)?;
            // It may find the damage now; the state that was read before must be legal in any case.
            let _ = store.check();
            Ok::<_, Error>(state)
        });
        let legal = |state| match was_closed {
            true => self.prefixes.judge(state, &Acknowledged::default(), u64::MAX),
            false => self.prefixes.judge_loosely(state),
        };
        match looked {
            Err(words) => Err(self.probe.failure(case, Fault::Panicked, words)),
            Ok(Err(_)) => Ok(()),
            Ok(Ok(state)) => match legal(&state) {
                Ok(()) => Ok(()),
                Err(wrong) => Err(self.probe.failure(case, Fault::Model, wrong)),
            },
        }
    }
}

/// Returns `sound` with one to three damages in one of its files.
fn damage(sound: &Image, before: &Image, chance: &mut Rng) -> Result<Image, Error> {
    let disk = SimDisk::from_image(sound.clone());
    let names: Vec<&str> = sound.names().collect();
    let name = *chance.pick(&names);
    let Some(bytes) = sound.file(name).filter(|bytes| !bytes.is_empty()) else {
        return Ok(sound.clone());
    };
    let is_log_or_control = name.starts_with("log/") || name.starts_with("control");
    let file = disk.open(name, OpenMode::ReadWrite)?;
    for _ in 0..1 + chance.below(3) {
        let at = interesting(&bytes, chance);
        let sector = at - at % SECTOR_LEN;
        let end = (sector + SECTOR_LEN).min(bytes.len());
        let (place, wrong) = match chance.below(5) {
            0 if is_log_or_control => {
                let old = before.file(name).unwrap_or_default();
                let old = old.get(sector..end).map(<[u8]>::to_vec);
                (sector, old.unwrap_or_else(|| vec![0; end - sector]))
            }
            1 => {
                let other = interesting(&bytes, chance);
                (other - other % SECTOR_LEN, bytes[sector..end].to_vec())
            }
            2 => (sector, vec![0; end - sector]),
            _ => (at, vec![bytes[at] ^ (1 << chance.below(8))]),
        };
        let wrong = &wrong[..wrong.len().min(bytes.len() - place)];
        write_all_at(&disk, file, place as u64, wrong, Durability::Durable)?;
    }
    Ok(disk.image())
}

/// Returns an offset in a file, usually near bytes that are not zero: most of a small store's files is zeros.
fn interesting(bytes: &[u8], chance: &mut Rng) -> usize {
    let at = chance.index(bytes.len());
    let (before, behind) = bytes.split_at(at);
    let at = match behind.iter().chain(before).position(|&byte| byte != 0) {
        Some(further) if !chance.one_in(16) => (at + further) % bytes.len(),
        _ => return at,
    };
    // The first byte behind a gap usually belongs to a header.
    let near = at + chance.index(SECTOR_LEN);
    if bytes.get(near).is_some_and(|&byte| byte != 0) { near } else { at }
}
