//! Errors of the disk at the n-th call, for each n: once, permanently, a forgetful sync, or a full disk.
//!
//! After an error a store is either *stopped*, and then acknowledges nothing more (E16.5), or as usable as before. In both
//! cases, a process that starts again finds a legal state, after a kill (all writes are present) and after a power failure
//! (only synced bytes are certain to be). A full disk does not stop the store (E16.4).

use cedrat_media::{Call, Fault as DiskFault, Image, Loss, SimDisk};
use cedrat_sync::Arc;
use cedrat_txn::Store;

use crate::case::{Case, Injected};
use crate::history::{Acknowledged, Prefixes, brief};
use crate::probe::{Probe, explored};
use crate::report::{Failure, Fault, Report, Seen};
use crate::rng::{self, Rng};
use crate::run::Run;
use crate::scenario::{Error, Scenario};

/// Checks `scenario` under errors of the disk. Configure the result and [`run`](IoErrors::run) it.
///
/// # Panics
/// If `name` is empty or has white space.
pub fn io_errors<S: Scenario>(name: &str, scenario: S) -> IoErrors<S> {
    IoErrors { probe: Probe::new(name, scenario), seed: rng::seed(1), every: 1 }
}

/// A check of I/O errors that was not run yet.
pub struct IoErrors<S: Scenario> {
    probe: Probe<S>,
    seed: u64,
    every: u64,
}

/// Largest n for which the n-th sync is made to forget.
const FORGETS_MAX: u64 = 40;

/// Largest free space of a full disk, in steps of a block.
const FULL_STEPS: u64 = 48;

impl<S: Scenario> IoErrors<S> {
    /// Sets the seed (default: that of [`SEED_VARIABLE`](crate::SEED_VARIABLE), or 1).
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Lets every `calls`-th call fail in turn (default 1: each).
    ///
    /// # Panics
    /// If `calls` is 0.
    pub fn every(mut self, calls: u64) -> Self {
        assert!(calls > 0, "every 0th call means nothing");
        self.every = calls;
        self
    }

    /// Runs the check.
    ///
    /// # Errors
    /// The first broken promise, with the line that repeats it.
    pub fn run(self) -> Result<Report, Failure> {
        let case = Case::asked_for(&self.probe.name);
        let seed = case.as_ref().map_or(self.seed, |case| case.seed);
        explored(seed, move || Trial::new(&self, seed)?.go(case.as_ref()))
    }
}

/// A running check.
struct Trial<'a, S: Scenario> {
    probe: &'a Probe<S>,
    every: u64,
    case: Case,
    /// The disk after set-up and a clean close.
    base: Image,
    roots: S::Roots,
    seen: Seen,
    report: Report,
}

impl<'a, S: Scenario> Trial<'a, S> {
    fn new(check: &'a IoErrors<S>, seed: u64) -> Result<Trial<'a, S>, Failure> {
        let probe = &check.probe;
        let case = Case::new(&probe.name, seed);
        let (base, roots) = probe.guarded(&case, Fault::Workload, || {
            let disk = Arc::new(SimDisk::new());
            let store = probe.open(&disk)?;
            let roots = probe.scenario.set_up(&store)?;
            store.close()?;
            Ok((disk.image(), roots))
        })?;
        let report = Report { name: probe.name.clone(), seed, ..Report::default() };
        Ok(Trial { probe, every: check.every, case, base, roots, seen: Seen::default(), report })
    }

    fn go(mut self, case: Option<&Case>) -> Result<Report, Failure> {
        let calls = self.undisturbed()?;
        match case.and_then(|case| case.injected) {
            Some(injected) => self.disturbed(injected)?,
            None => {
                for injected in self.all(calls) {
                    self.disturbed(injected)?;
                }
            }
        }
        Ok(self.report)
    }

    fn all(&self, calls: u64) -> Vec<Injected> {
        let mut all = Vec::new();
        for n in (1..=calls).step_by(self.every as usize) {
            all.extend([Injected::Once(n), Injected::Permanent(n)]);
        }
        all.extend((1..=FORGETS_MAX.min(calls)).map(Injected::Forgets));
        all.extend((0..FULL_STEPS).map(|blocks| Injected::Full(blocks * blocks * 256)));
        all
    }

    /// Counts the calls of opening and workload without a fault.
    fn undisturbed(&mut self) -> Result<u64, Failure> {
        let probe = self.probe;
        let (calls, commits) = probe.guarded(&self.case, Fault::Workload, || {
            let disk = Arc::new(SimDisk::from_image(self.base.clone()));
            let store = probe.open(&disk)?;
            let start = probe.scenario.read(&store, &self.roots)?;
            let run = Run::new(store, disk.clone(), self.case.seed, start);
            probe.scenario.run(&run, &self.roots)?;
            Ok((disk.calls(), run.into_history().prefixes().commits()))
        })?;
        self.report.commits = commits;
        Ok(calls)
    }

    /// Runs opening and workload with one fault, and starts again in two ways.
    fn disturbed(&mut self, injected: Injected) -> Result<(), Failure> {
        let case = self.case.with(injected);
        let disk = Arc::new(SimDisk::from_image(self.base.clone()));
        inject(&disk, injected);
        let prefixes = match self.opened(&case, &disk)? {
            Some((store, start)) => self.worked(&case, &disk, store, start)?,
            // It did not open, and returned an error: it must not have changed the state.
            None => {
                let untouched = Arc::new(SimDisk::from_image(self.base.clone()));
                let store = self.probe.guarded(&case, Fault::Refused, || self.probe.open(&untouched))?;
                let start =
                    self.probe.guarded(&case, Fault::Model, || self.probe.scenario.read(&store, &self.roots))?;
                crate::history::History::new(start).prefixes()
            }
        };
        self.report.faults += 1;
        self.started_again(&case, &disk, &prefixes)
    }

    fn opened(&self, case: &Case, disk: &Arc<SimDisk>) -> Result<Option<(Store, S::State)>, Failure> {
        let opened = self.probe.timed(case, Fault::Refused, || {
            let store = self.probe.open(disk)?;
            let start = self.probe.scenario.read(&store, &self.roots)?;
            Ok::<_, Error>((store, start))
        });
        match opened {
            Ok(result) => Ok(result.ok()),
            Err(words) => Err(self.probe.failure(case, Fault::Panicked, words)),
        }
    }

    /// Runs the workload until it fails, and verifies the store after that.
    fn worked(
        &self,
        case: &Case,
        disk: &Arc<SimDisk>,
        store: Store,
        start: S::State,
    ) -> Result<Prefixes<S::State>, Failure> {
        let probe = self.probe;
        let run = Run::new(store.clone(), disk.clone(), case.seed, start);
        let work = |run: &Run<S>| {
            probe
                .timed(case, Fault::Workload, || probe.scenario.run(run, &self.roots))
                .map_err(|words| probe.failure(case, Fault::Panicked, words))
        };
        let unusable = |seen: String| Err(probe.failure(case, Fault::Unusable, seen));
        if let Err(error) = work(&run)? {
            let stopped = store.log().stopped().is_some();
            if stopped && matches!(case.injected, Some(Injected::Full(_))) {
                return unusable(format!("a full disk stopped the store: {error}"));
            }
            // The disk works again; that must not revive a stopped store, nor prevent a sound one from working.
            disk.clear_faults();
            disk.set_capacity(None);
            let marks = disk.journal().marks().len();
            match work(&run)? {
                Ok(()) if stopped => return unusable("a stopped store went on working".to_string()),
                Err(again) if !stopped && store.log().stopped().is_none() => {
                    return unusable(format!(
                        "after '{error}' it was not stopped, yet without any further fault: {again}"
                    ));
                }
                _ => {}
            }
            if stopped && disk.journal().marks().len() > marks {
                return unusable("a stopped store acknowledged a commit".to_string());
            }
        }
        let stopped = store.log().stopped().is_some();
        let now = probe
            .timed(case, Fault::Model, || probe.scenario.read(&store, &self.roots))
            .map_err(|words| probe.failure(case, Fault::Panicked, words))?;
        drop(store);
        let prefixes = run.into_history().prefixes();
        match now {
            Ok(now) if !stopped && prefixes.judge(&now, &Acknowledged::default(), u64::MAX).is_err() => {
                Err(probe.failure(case, Fault::Model, format!("after the fault the open store holds {}", brief(&now))))
            }
            _ => Ok(prefixes),
        }
    }

    /// Starts the process again: after a kill, and after a power failure.
    fn started_again(&mut self, case: &Case, disk: &SimDisk, prefixes: &Prefixes<S::State>) -> Result<(), Failure> {
        let journal = disk.journal();
        let acknowledged = Acknowledged::of(journal.marks());
        let mut cursor = journal.cursor();
        cursor.advance_to(journal.len());
        let loss = Loss::Random(Rng::new(case.seed).part(self.report.states as u64).next_u64());
        for image in [disk.image(), cursor.image(Loss::Everything), cursor.image(loss)] {
            self.report.states += 1;
            let hash = image.hash();
            let is_new = self.seen.add(hash);
            self.report.distinct += usize::from(is_new);
            if is_new || self.seen.may_lack(hash, &acknowledged) {
                let image = Arc::new(SimDisk::from_image(image));
                let (store, _) = self.probe.examine(case, &image, &self.roots, prefixes, &acknowledged)?;
                self.seen.judged(hash, store.recovery().end.get(), &acknowledged);
            }
        }
        Ok(())
    }
}

pub(crate) fn inject(disk: &SimDisk, injected: Injected) {
    let error = || DiskFault::error(Call::Any, std::io::ErrorKind::Other);
    match injected {
        Injected::Once(n) => disk.inject(error().nth(n)),
        Injected::Permanent(n) => disk.inject(error().nth(n).permanent()),
        Injected::Forgets(n) => disk.inject(DiskFault::forgetful_sync().nth(n)),
        Injected::Full(bytes) => disk.set_capacity(Some(disk.space() + bytes)),
        Injected::Panics(n) => disk.inject(DiskFault::panic(Call::Any).nth(n)),
        Injected::Damage(_) => {}
    }
}
