//! What a scenario's store does when bytes at rest went bad: it finds out, or it does not matter.
//!
//! Three things happen to the bytes of real disks: bits flip, a sector keeps what it held before (a write was lost), and a
//! sector lies in another's place (a write went astray). After each the store must refuse with an error, or hold a legal
//! state: never a wrong answer, never a panic.
//!
//! What is legal depends on how the store was left. After a clean close, everything was promised, so nothing may be missing
//! (E20.2, E20.4). After a crash the newest block of the log is promised by nobody, and damage to it reads as the torn tail
//! of a crash: then any prefix is legal. And an old version of a whole page is a valid page; only a copy kept elsewhere could
//! tell. So stale sectors are tried in the log and the control file, not in the page file.

use cedrat_media::{Durability, Image, Loss, Media, OpenMode, SECTOR_LEN, SimDisk, write_all_at};
use cedrat_sync::Arc;

use crate::case::{Case, Injected};
use crate::history::{Acknowledged, Prefixes};
use crate::probe::{Probe, explored, quietly};
use crate::report::{Failure, Fault, Report, Seen};
use crate::rng::Rng;
use crate::run::Run;
use crate::scenario::{Error, Scenario};

/// Checks `scenario` under silent damage. Configure the result and [`run`](Damages::run) it.
///
/// # Panics
/// If `name` is empty or has white space.
pub fn damages<S: Scenario>(name: &str, scenario: S) -> Damages<S> {
    Damages { probe: Probe::new(name, scenario), seed: 1, cases: 1_000 }
}

/// A check of silent damage that was not run yet.
pub struct Damages<S: Scenario> {
    probe: Probe<S>,
    seed: u64,
    cases: u64,
}

impl<S: Scenario> Damages<S> {
    /// Sets the seed (default 1).
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
    /// The disk at some earlier moment, where stale sectors come from.
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
            if self.seen.is_new(damaged.hash()) {
                self.judge(&case, damaged, was_closed)?;
            }
        }
        Ok(self.report)
    }

    /// Refused, or legal.
    fn judge(&self, case: &Case, damaged: Image, was_closed: bool) -> Result<(), Failure> {
        let disk = Arc::new(SimDisk::from_image(damaged));
        let scenario = &self.probe.scenario;
        let looked = quietly(|| {
            let store = self.probe.open(&disk)?;
            let state = scenario.read(&store, &self.roots)?;
            // It may find the damage now; what was read before must be right all the same.
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

/// `sound` with one to three things wrong in one of its files.
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
        let (place, wrong) = match chance.below(4) {
            0 if is_log_or_control => {
                let old = before.file(name).unwrap_or_default();
                let old = old.get(sector..end).map(<[u8]>::to_vec);
                (sector, old.unwrap_or_else(|| vec![0; end - sector]))
            }
            1 => {
                let other = interesting(&bytes, chance);
                (other - other % SECTOR_LEN, bytes[sector..end].to_vec())
            }
            _ => (at, vec![bytes[at] ^ (1 << chance.below(8))]),
        };
        let wrong = &wrong[..wrong.len().min(bytes.len() - place)];
        write_all_at(&disk, file, place as u64, wrong, Durability::Durable)?;
    }
    Ok(disk.image())
}

/// A place in a file, as a rule one near which something was written: most of a small store's files is zeros.
fn interesting(bytes: &[u8], chance: &mut Rng) -> usize {
    for _ in 0..64 {
        let at = chance.index(bytes.len());
        if bytes[at] != 0 {
            return at;
        }
    }
    chance.index(bytes.len())
}
