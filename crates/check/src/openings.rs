//! Faults while a store opens: at each call of a recovery that has work to do, an error, a full disk, a forgetful sync, or a
//! panic.
//!
//! ```text
//! run the workload once ──▶ journal ── cut it: images whose recovery has losers, half-done actions, prepared transactions,
//!                                        │      heap words to replay
//!                                        │ open without faults: the expected state, a prefix of the commits
//!                                        │ open with one fault ── an error, a panic, or the expected state
//!                                        ▼
//!               the process starts again, after a kill and after a power failure ── the expected state
//! ```
//!
//! A failed opening changes only the duration of the next one, which finds exactly the same log. So the expected state is
//! known, and only the opening without faults is compared with the commits of the workload.

use cedrat_media::{Call, Image, Journal, Loss, SimDisk};
use cedrat_sync::Arc;
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_txn::Store;

use crate::case::{Case, Crash, Injected};
use crate::crashes::image_after;
use crate::cut::LogWrite;
use crate::history::{Acknowledged, Prefixes, brief};
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
/// between calls to the disk without a loss, this many with one, and this many behind records.
const CANDIDATES_MAX: usize = 80;

/// Largest free space of a full disk, in steps.
const FULL_STEPS: u64 = 12;

impl<S: Scenario> Openings<S> {
    /// Sets the seed (default: that of [`SEED_VARIABLE`](crate::SEED_VARIABLE), or 1).
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how many crash images are opened with faults (default 6): those with most to undo, with most prepared transactions
    /// and with most heap words to replay, and some at random.
    pub fn bases(mut self, bases: usize) -> Self {
        self.bases = bases;
        self
    }

    /// Lets every `calls`-th call of each opening fail in turn (default 1: each). Different images have different ones.
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
    /// The first broken promise, with the line that repeats it; [`Fault::NotCovered`] if no opening had a loser, a prepared
    /// transaction or a heap word to replay.
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
    prefixes: Prefixes<S::State>,
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
    /// Calls of that opening, and the syncs among them.
    calls: u64,
    syncs: u64,
    /// Losers, prepared transactions, records undone, and heap words replayed.
    losers: u64,
    in_doubt: u64,
    undone: u64,
    heap_words: u64,
}

impl<T> Base<T> {
    /// Returns the amounts of one kind of work, that kind first, for each kind.
    fn work(&self) -> [(u64, u64, u64); KINDS] {
        [
            (self.losers, self.undone, self.heap_words),
            (self.in_doubt, self.losers, self.undone),
            (self.heap_words, self.in_doubt, self.losers),
            (self.image.hash(), 0, 0),
        ]
    }
}

/// Kinds of work of an opening: undo, prepared transactions, heap words; and any kind, at random.
const KINDS: usize = 4;

impl<'a, S: Scenario> Trial<'a, S> {
    fn new(check: &'a Openings<S>, seed: u64) -> Result<Trial<'a, S>, Failure> {
        let probe = &check.probe;
        let case = Case::new(&probe.name, seed);
        let mut report = Report { name: probe.name.clone(), seed, ..Report::default() };
        let (journal, from, prefixes, roots) = probe.guarded(&case, Fault::Workload, || {
            let disk = Arc::new(SimDisk::new());
            let store = probe.open(&disk)?;
            let roots = probe.scenario.set_up(&store)?;
            let from = disk.journal_len();
            let start = probe.scenario.read(&store, &roots)?;
            let run = Run::new(store, disk.clone(), seed, start);
            probe.scenario.run(&run, &roots)?;
            let prefixes = run.into_history().prefixes();
            report.commits = prefixes.commits();
            Ok((disk.journal(), from, prefixes, roots))
        })?;
        Ok(Trial { check, case, journal, from, prefixes, roots, seen: Seen::default(), report })
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
                for (number, base) in (0..).zip(self.bases()?) {
                    for injected in self.all(&base, number) {
                        self.disturbed(&base, injected)?;
                    }
                }
            }
        }
        Ok(self.report)
    }

    fn all(&self, base: &Base<S::State>, number: u64) -> Vec<Injected> {
        let mut all = Vec::new();
        let every = self.check.every;
        for n in (1 + number % every..=base.calls).step_by(every as usize) {
            all.extend([Injected::Once(n), Injected::Permanent(n), Injected::Panics(n)]);
        }
        all.extend((1 + number % every..=base.syncs).step_by(every as usize).map(Injected::Forgets));
        all.extend((0..FULL_STEPS).map(|step| Injected::Full(step * step * 4096)));
        all
    }

    /// Cuts the workload's journal between its calls, with and without a loss, and behind the records that they write. A log block
    /// ends at a random record, so calls alone may never come inside a transaction.
    fn cuts(&self) -> Vec<(Crash, Image)> {
        let mut cursor = self.journal.cursor();
        cursor.advance_to(self.from);
        let (mut between, mut losing, mut behind) = (Vec::new(), Vec::new(), Vec::new());
        let chance = Rng::new(self.case.seed);
        loop {
            let cut = |loss| (Crash::between(cursor.at(), loss), cursor.image(loss));
            between.push(cut(Loss::Nothing));
            if cursor.volatile_changes() > 0 {
                losing.push(cut(Loss::Random(chance.part(cursor.at() as u64).next_u64())));
            }
            if let Some(write) = LogWrite::next(&cursor) {
                let cut = |records| Some((Crash::behind(cursor.at(), records), write.image(records)?));
                behind.extend((1..write.records()).filter_map(cut));
            }
            if !cursor.advance() {
                break;
            }
        }
        [between, losing, behind].into_iter().flat_map(|cuts| evenly(cuts, CANDIDATES_MAX)).collect()
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
        with_most_work(&mut bases, self.check.bases);
        if bases.iter().all(|base| base.losers + base.in_doubt + base.heap_words == 0) {
            let seen = "no cut of the workload's journal has a loser, a prepared transaction or a heap word to replay. Let the \
                        workload change more than one record in a transaction";
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
        self.must_be_prefix(&case, crash, &store, &expected)?;
        let (calls, syncs) = probe.guarded(&case, Fault::Refused, || {
            let disk = Arc::new(SimDisk::from_image(image.clone()));
            let syncs = Arc::new(AtomicU64::new(0));
            let counted = Arc::clone(&syncs);
            disk.before_each_call(move |_, call, _| {
                counted.fetch_add(u64::from(call == Call::Sync), Ordering::Relaxed);
            });
            let store = probe.open(&disk)?;
            let counts = (disk.calls(), syncs.load(Ordering::Relaxed));
            drop(store);
            Ok(counts)
        })?;
        let did = store.recovery();
        let (losers, in_doubt, undone, heap_words) = (did.losers, did.in_doubt, did.undone, did.heap_words);
        Ok(Base { case, image, expected, calls, syncs, losers, in_doubt, undone, heap_words })
    }

    /// Fails if an opening without faults does not find the commits of its log, among them all acknowledged ones. Workloads that
    /// enter no commit have no such list.
    fn must_be_prefix(&self, case: &Case, crash: Crash, store: &Store, found: &S::State) -> Result<(), Failure> {
        if self.prefixes.commits() == 0 {
            return Ok(());
        }
        let acknowledged = Acknowledged::of(self.journal.marks_before(crash.at));
        let judged = self.prefixes.judge(found, &acknowledged, store.recovery().end.get());
        judged.map_err(|seen| self.check.probe.failure(case, Fault::Model, seen))
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
        let seed = xxhash_rust::xxh3::xxh3_64(case.to_string().as_bytes());
        let journal = disk.journal();
        let mut cursor = journal.cursor();
        cursor.advance_to(journal.len());
        for image in [disk.image(), cursor.image(Loss::Everything), cursor.image(Loss::Random(seed))] {
            self.started_again(&case, base, image)?;
        }
        Ok(())
    }

    fn must_be_expected(&self, case: &Case, base: &Base<S::State>, state: &S::State) -> Result<(), Failure> {
        if *state == base.expected {
            return Ok(());
        }
        let seen = format!(
            "after an opening that failed, the next one finds something else:\n  it holds  {}\n  expected  {}",
            brief(state),
            brief(&base.expected)
        );
        Err(self.check.probe.failure(case, Fault::Model, seen))
    }

    /// Starts the process again, and sometimes continues the workload.
    fn started_again(&mut self, case: &Case, base: &Base<S::State>, image: Image) -> Result<(), Failure> {
        /// The workload runs again after one in so many openings.
        const GOES_ON_ONE_IN: usize = 16;
        self.report.states += 1;
        if !self.seen.add(image.hash()) {
            return Ok(());
        }
        self.report.distinct += 1;
        let probe = &self.check.probe;
        let disk = Arc::new(SimDisk::from_image(image));
        let (store, state) = self.opened(case, &disk)?;
        self.must_be_expected(case, base, &state)?;
        if self.report.distinct.is_multiple_of(GOES_ON_ONE_IN) {
            probe.guarded(case, Fault::Workload, || {
                let run = Run::new(store, disk, case.seed, state);
                probe.scenario.run(&run, &self.roots)
            })?;
        }
        Ok(())
    }
}

/// Leaves at most `count` images: for each kind of work those with most of it, in turn, and no two with the same amounts if there
/// are others.
fn with_most_work<T>(bases: &mut Vec<Base<T>>, count: usize) {
    for at in 0..count.min(bases.len()) {
        let kind = at % KINDS;
        let (chosen, others) = bases.split_at(at);
        let is_new = |base: &Base<T>| chosen.iter().all(|other| other.work()[..KINDS - 1] != base.work()[..KINDS - 1]);
        let key = |&other: &usize| (is_new(&others[other]), others[other].work()[kind]);
        let most = (0..others.len()).rev().max_by_key(key).map(|other| at + other);
        bases.swap(at, most.expect("not empty"));
    }
    bases.truncate(count);
}

/// Returns at most `max` of `all`, at even distances.
fn evenly<T>(all: Vec<T>, max: usize) -> Vec<T> {
    let step = all.len().div_ceil(max).max(1);
    all.into_iter().step_by(step).collect()
}
