//! Faults while a store opens: at each call of a recovery that has work to do, an error, a full disk, a forgetful sync, or a
//! panic.
//!
//! ```text
//! run the workload once ──▶ journal ── cut it: images whose recovery has losers, half-done actions, prepared transactions
//!                                        │ open without faults: the expected state
//!                                        │ open with one fault ── an error, a panic, or the expected state
//!                                        ▼
//!               the process starts again, after a kill and after a power failure ── the expected state
//! ```
//!
//! A failed opening changes only the duration of the next one, which finds exactly the same log. So the expected state is
//! known, and no list of legal prefixes is needed.

use cedrat_media::{Image, Journal, Loss, SimDisk};
use cedrat_sync::Arc;
use cedrat_txn::Store;

use crate::case::{Case, Crash, Injected};
use crate::crashes::image_after;
use crate::cut::LogWrite;
use crate::history::brief;
use crate::io_errors::inject;
use crate::probe::{Probe, explored};
use crate::report::{Failure, Fault, Report, Seen};
use crate::rng::{self, Rng};
use crate::run::Run;
use crate::scenario::{Error, Scenario};

/// Checks that faults while the store of `scenario` opens lose nothing. Configure the result and [`run`](Openings::run) it.
///
/// # Panics
/// If `name` is empty or has white space.
pub fn openings<S: Scenario>(name: &str, scenario: S) -> Openings<S> {
    Openings { probe: Probe::new(name, scenario), seed: rng::seed(1), bases: 6, every: 1 }
}

/// A check of faults during openings that was not run yet.
pub struct Openings<S: Scenario> {
    probe: Probe<S>,
    seed: u64,
    bases: usize,
    every: u64,
}

/// Largest number of cuts of the workload's journal that are opened to determine the work of recovery there: this many
/// between calls to the disk, and this many behind records.
const CANDIDATES_MAX: usize = 120;

/// Largest free space of a full disk, in steps.
const FULL_STEPS: u64 = 12;

impl<S: Scenario> Openings<S> {
    /// Sets the seed (default: that of [`SEED_VARIABLE`](crate::SEED_VARIABLE), or 1).
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how many crash images are opened with faults (default 6): those with most to undo and to restore.
    pub fn bases(mut self, bases: usize) -> Self {
        self.bases = bases;
        self
    }

    /// Lets every `calls`-th call of each opening fail in turn (default 1: each).
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
    /// The first broken promise, with the line that repeats it; [`Fault::NotCovered`] if no opening had a loser or a prepared
    /// transaction.
    pub fn run(self) -> Result<Report, Failure> {
        crate::speed::advise(&self.probe.name);
        let case = Case::asked_for(&self.probe.name);
        let seed = case.as_ref().map_or(self.seed, |case| case.seed);
        explored(seed, move || Trial::new(&self, seed)?.go(case.as_ref()))
    }
}

/// A running check.
struct Trial<'a, S: Scenario> {
    check: &'a Openings<S>,
    case: Case,
    /// The disk's journal, from the set-up of the store on.
    journal: Journal,
    /// The first boundary at which it is cut.
    from: usize,
    roots: S::Roots,
    seen: Seen,
    report: Report,
}

/// An image that is opened with faults.
struct Base<T> {
    case: Case,
    image: Image,
    /// State of the store after an opening without faults.
    expected: T,
    /// Calls of that opening.
    calls: u64,
    /// Losers, prepared transactions, and records undone.
    losers: u64,
    in_doubt: u64,
    undone: u64,
}

impl<'a, S: Scenario> Trial<'a, S> {
    fn new(check: &'a Openings<S>, seed: u64) -> Result<Trial<'a, S>, Failure> {
        let probe = &check.probe;
        let case = Case::new(&probe.name, seed);
        let mut report = Report { name: probe.name.clone(), seed, ..Report::default() };
        let (journal, from, roots) = probe.guarded(&case, Fault::Workload, || {
            let disk = Arc::new(SimDisk::new());
            let store = probe.open(&disk)?;
            let roots = probe.scenario.set_up(&store)?;
            let from = disk.journal_len();
            let start = probe.scenario.read(&store, &roots)?;
            let run = Run::new(store, disk.clone(), seed, start);
            probe.scenario.run(&run, &roots)?;
            report.commits = run.into_history().prefixes().commits();
            Ok((disk.journal(), from, roots))
        })?;
        Ok(Trial { check, case, journal, from, roots, seen: Seen::default(), report })
    }

    fn go(mut self, case: Option<&Case>) -> Result<Report, Failure> {
        match case.and_then(|case| Some((*case.crashes.first()?, case.injected?))) {
            Some((crash, injected)) => {
                let case = self.case.then(crash);
                let image = self.check.probe.guarded(&case, Fault::Workload, || image_after(&self.journal, crash))?;
                let base = self.base(crash, image)?;
                self.disturbed(&base, injected)?;
            }
            None => {
                for base in self.bases()? {
                    for injected in self.all(base.calls) {
                        self.disturbed(&base, injected)?;
                    }
                }
            }
        }
        Ok(self.report)
    }

    fn all(&self, calls: u64) -> Vec<Injected> {
        let mut all = Vec::new();
        for n in (1..=calls).step_by(self.check.every as usize) {
            all.extend([Injected::Once(n), Injected::Permanent(n), Injected::Forgets(n), Injected::Panics(n)]);
        }
        all.extend((0..FULL_STEPS).map(|step| Injected::Full(step * step * 4096)));
        all
    }

    /// Cuts the workload's journal between its calls, and behind the records that they write. A log block ends at a random
    /// record, so calls alone may never come inside a transaction.
    fn cuts(&self) -> Vec<(Crash, Image)> {
        let mut cursor = self.journal.cursor();
        cursor.advance_to(self.from);
        let (mut between, mut behind) = (Vec::new(), Vec::new());
        loop {
            between.push((Crash::between(cursor.at(), Loss::Nothing), cursor.image(Loss::Nothing)));
            if let Some(write) = LogWrite::next(&cursor) {
                let cut = |records| Some((Crash::behind(cursor.at(), records), write.image(records)?));
                behind.extend((1..write.records()).filter_map(cut));
            }
            if !cursor.advance() {
                break;
            }
        }
        let mut cuts = evenly(between, CANDIDATES_MAX);
        cuts.extend(evenly(behind, CANDIDATES_MAX));
        cuts
    }

    /// Returns the images whose openings have most to do.
    fn bases(&mut self) -> Result<Vec<Base<S::State>>, Failure> {
        let mut bases = Vec::new();
        for (crash, image) in self.cuts() {
            self.report.points += 1;
            if self.seen.add(image.hash()) {
                bases.push(self.base(crash, image)?);
            }
        }
        // Half of them with most to undo, half with most in doubt.
        bases.sort_by_key(|base| std::cmp::Reverse((base.losers, base.undone)));
        let most_undone = bases.len().min(self.check.bases.div_ceil(2));
        bases[most_undone..].sort_by_key(|base| std::cmp::Reverse((base.in_doubt, base.losers, base.undone)));
        bases.truncate(self.check.bases);
        if bases.iter().all(|base| base.losers + base.in_doubt == 0) {
            let seen = "no cut of the workload's journal has a loser or a prepared transaction. Let the workload change more \
                        than one record in a transaction";
            return Err(self.check.probe.failure(&self.case, Fault::NotCovered, seen.to_string()));
        }
        Ok(bases)
    }

    /// Opens an image without faults.
    fn base(&self, crash: Crash, image: Image) -> Result<Base<S::State>, Failure> {
        let probe = &self.check.probe;
        let case = self.case.then(crash);
        let disk = Arc::new(SimDisk::from_image(image.clone()));
        let (store, expected) = self.opened(&case, &disk)?;
        let calls = probe.guarded(&case, Fault::Refused, || {
            let disk = Arc::new(SimDisk::from_image(image.clone()));
            let store = probe.open(&disk)?;
            let calls = disk.calls();
            drop(store);
            Ok(calls)
        })?;
        let did = store.recovery();
        let (losers, in_doubt, undone) = (did.losers, did.in_doubt, did.undone);
        Ok(Base { case, image, expected, calls, losers, in_doubt, undone })
    }

    /// Opens a store without faults, and checks it.
    fn opened(&self, case: &Case, disk: &Arc<SimDisk>) -> Result<(Store, S::State), Failure> {
        let Openings { probe, .. } = self.check;
        let store = probe.guarded(case, Fault::Refused, || probe.open(disk))?;
        let state = probe.guarded(case, Fault::Model, || probe.scenario.read(&store, &self.roots))?;
        probe.whole(case, &store, &self.roots)?;
        Ok((store, state))
    }

    /// Runs one opening with one fault, and starts again in two ways.
    fn disturbed(&mut self, base: &Base<S::State>, injected: Injected) -> Result<(), Failure> {
        let probe = &self.check.probe;
        let case = base.case.with(injected);
        let disk = Arc::new(SimDisk::from_image(base.image.clone()));
        inject(&disk, injected);
        let opened = probe.timed(&case, Fault::Refused, || {
            let store = probe.open(&disk)?;
            let state = probe.scenario.read(&store, &self.roots)?;
            Ok::<_, Error>(state)
        });
        match opened {
            Ok(Ok(state)) if state != base.expected => {
                let seen = format!(
                    "an opening with a fault changes the outcome:\n  it holds  {}\n  expected  {}",
                    brief(&state),
                    brief(&base.expected)
                );
                return Err(probe.failure(&case, Fault::Model, seen));
            }
            Err(words) if !matches!(injected, Injected::Panics(_)) => {
                return Err(probe.failure(&case, Fault::Panicked, words));
            }
            _ => {}
        }
        self.report.faults += 1;
        disk.clear_faults();
        disk.set_capacity(None);
        let loss = Loss::Random(Rng::new(case.seed).part(self.report.states as u64).next_u64());
        let journal = disk.journal();
        let mut cursor = journal.cursor();
        cursor.advance_to(journal.len());
        for image in [disk.image(), cursor.image(Loss::Everything), cursor.image(loss)] {
            self.report.states += 1;
            if self.seen.add(image.hash()) {
                self.report.distinct += 1;
                self.started_again(&case, base, image)?;
            }
        }
        Ok(())
    }

    /// Starts the process again, and sometimes continues the workload.
    fn started_again(&self, case: &Case, base: &Base<S::State>, image: Image) -> Result<(), Failure> {
        /// The workload runs again after one in so many openings.
        const GOES_ON_ONE_IN: usize = 16;
        let probe = &self.check.probe;
        let disk = Arc::new(SimDisk::from_image(image));
        let (store, state) = self.opened(case, &disk)?;
        if state != base.expected {
            let seen = format!(
                "after an opening that failed, the next one finds something else:\n  it holds  {}\n  expected  {}",
                brief(&state),
                brief(&base.expected)
            );
            return Err(probe.failure(case, Fault::Model, seen));
        }
        if self.report.distinct.is_multiple_of(GOES_ON_ONE_IN) {
            probe.guarded(case, Fault::Workload, || {
                let run = Run::new(store, disk, case.seed, state);
                probe.scenario.run(&run, &self.roots)
            })?;
        }
        Ok(())
    }
}

/// Returns at most `max` of `all`, at even distances.
fn evenly<T>(all: Vec<T>, max: usize) -> Vec<T> {
    let step = all.len().div_ceil(max).max(1);
    all.into_iter().step_by(step).collect()
}
