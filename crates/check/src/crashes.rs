//! All crashes of a workload: run it once, then cut its journal at every I/O call.
//!
//! ```text
//! set up ── run the workload once ──▶ journal of all I/O calls, with acknowledgements
//!                                        │ at each boundary, for each of several losses, and behind each
//!                                        │ record of each log block
//!                                        ▼
//!                              post-crash image ── seen before? skip
//!                                        │
//!                     open (= recover) ──┼── read: some prefix of the commits, all acknowledged ones in it
//!                                        │   check: pages, structures
//!                                        ▼
//!         sometimes: run the workload again on it, and cut the journal of *recovery and run* likewise
//! ```
//!
//! The second journal begins with the recovery, so its cuts are crashes inside recovery (R5), and then crashes in the life
//! of a store that had recovered: the place where LSNs of a lost tail could come back (E1).

use std::collections::BTreeSet;
use std::time::Duration;

use cedrat_media::{Cursor, Image, Journal, Loss, SimDisk};
use cedrat_sync::{Arc, HAS_SCHEDULER, Limits, is_scheduled};
use cedrat_txn::Store;

use crate::case::{Case, Crash};
use crate::coverage::{Coverage, Exempt};
use crate::cut::LogWrite;
use crate::fresh::{Site, Verdict, is_started_for_an_image};
use crate::history::{Acknowledged, Prefixes};
use crate::probe::{Probe, explored};
use crate::report::{Failure, Fault, Report, Seen};
use crate::rng::{self, Rng};
use crate::run::{LIMITS, Mismatch, Run, Script, Watch};
use crate::scenario::{Error, Scenario};
use crate::words::difference;

/// Checks `scenario` under crashes. Configure the result and [`run`](Crashes::run) it.
///
/// `name` appears in the report's row and in the line that repeats a failure.
///
/// # Panics
/// If `name` is empty or has white space: a case's line could not be read back.
pub fn crashes<S: Scenario>(name: &str, scenario: S) -> Crashes<S> {
    Crashes { probe: Probe::new(name, scenario), plan: Plan::default() }
}

/// A crash check that was not run yet.
pub struct Crashes<S: Scenario> {
    pub(crate) probe: Probe<S>,
    pub(crate) plan: Plan,
}

#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    distinct_min: usize,
    distinct_max: usize,
    again_every: usize,
    again_points_max: usize,
    kills: usize,
    behind_records: bool,
    /// States that may be tried to find a smaller workload that fails.
    pub(crate) shrink_states: usize,
    exempt: Exempt,
    /// Images that are recovered in a fresh process.
    pub(crate) fresh: usize,
    /// Schedules of a workload with threads.
    schedules: u64,
    /// Limits of each schedule.
    pub(crate) limits: Limits,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            seed: rng::seed(1),
            distinct_min: 2_000,
            distinct_max: usize::MAX,
            again_every: 50,
            again_points_max: 40,
            kills: 20,
            behind_records: true,
            shrink_states: 2_000,
            exempt: Exempt::default(),
            fresh: 3,
            schedules: 10,
            limits: LIMITS,
        }
    }
}

impl Plan {
    /// The plan of a trial of a part of the workload.
    pub(crate) fn for_part(&self, distinct_max: usize) -> Plan {
        Plan { distinct_max, kills: 0, fresh: 0, ..self.clone() }
    }
}

/// Distinct states of each schedule but the first.
const SCHEDULE_STATES: usize = 50;

/// Rounds over all crash points after which a workload is taken to have no more distinct states.
const ROUNDS_MAX: u64 = 64;

/// Rounds in a row that found next to nothing new, after which the same is concluded.
const BARREN_ROUNDS_MAX: u64 = 3;

/// Next to nothing: one new state in so many images.
const BARREN_SHARE: usize = 20;

impl<S: Scenario> Crashes<S> {
    /// Sets the seed of the workload's chance, of the losses and of the schedule (default: that of
    /// [`SEED_VARIABLE`](crate::SEED_VARIABLE), or 1).
    pub fn seed(mut self, seed: u64) -> Self {
        self.plan.seed = seed;
        self
    }

    /// Goes round the crash points, each time with other losses, until so many different states were met or no new ones
    /// come (default 2,000). Every crash point is visited in any case.
    pub fn at_least(mut self, distinct: usize) -> Self {
        self.plan.distinct_min = distinct;
        self
    }

    /// Stops after so many different states, though crash points remain (default: none). For a quick look only.
    pub fn at_most(mut self, distinct: usize) -> Self {
        self.plan.distinct_max = distinct;
        self
    }

    /// Runs the workload again on a recovered store, and crashes recovery and run at up to `points` of their I/O calls
    /// (default 40): after the first states, then after ever fewer, and in the end after every `states`-th one (default 50); at
    /// least once, after the last state.
    /// `usize::MAX` points means at every one; 0 that no recovery is crashed.
    ///
    /// # Panics
    /// If `states` is 0.
    pub fn again(mut self, states: usize, points: usize) -> Self {
        assert!(states > 0, "after every 0th state means nothing");
        self.plan.again_every = states;
        self.plan.again_points_max = points;
        self
    }

    /// Kills the process at so many I/O calls of the workload, opens the store again while what was not synced can still be read,
    /// and cuts the power later (default 20). Some of the lives after a kill are killed again.
    pub fn kills(mut self, kills: usize) -> Self {
        self.plan.kills = kills;
        self
    }

    /// Sets how many images, spread over the workload, are recovered again in a fresh process (default 3): its statics are not those
    /// of the process that ran the workload. The test binary is executed again with the name of the running test; where that is
    /// impossible, [`Report::notes`] has the reason. [`Scenario::set_up`] is called there on an empty disk, for the roots.
    ///
    /// Such a process has a minute to reach the check. Then the time limit of a state holds.
    pub fn fresh_processes(mut self, images: usize) -> Self {
        self.plan.fresh = images;
        self
    }

    /// Sets how long the opening of one state may take, and the reading, and the verification (default a minute); a run of the
    /// workload may take ten times as long. Beyond, the failure is printed as [`Fault::Hang`] and the process is aborted: a
    /// thread that loops cannot be stopped.
    pub fn time_limit(mut self, time_max: Duration) -> Self {
        self.probe.clock.time_max = time_max;
        self
    }

    /// Exempts the logical undo, finish or operation of this name: the check passes though it was never undone, or never ran.
    pub fn never_undone(mut self, name: impl Into<String>) -> Self {
        self.plan.exempt.names.insert(name.into());
        self
    }

    /// Crashes between calls to the disk only, and not behind each record: for transactions without atomicity, of which a
    /// crash may leave some changes whether or not their commit is durable. The model has only whole transactions.
    pub fn between_calls_only(mut self) -> Self {
        self.plan.behind_records = false;
        self
    }

    /// Sets how many crash states may be tried to find a part of a failing workload that fails too (default 2,000; 0: none is
    /// searched). Transactions of [`Run::transact`], [`Run::transact_async`] and [`Run::roll_back`] are left out; where threads
    /// perform them, nothing is.
    pub fn shrink(mut self, states: usize) -> Self {
        self.plan.shrink_states = states;
        self
    }

    /// Sets how many schedules of a workload with threads are tried (default 10), if the build has the seeded scheduler (feature
    /// `scheduler`): the seed and those after it. The crashes of the first are tried in full, of each other one 50 states.
    pub fn schedules(mut self, schedules: u64) -> Self {
        self.plan.schedules = schedules;
        self
    }

    /// Sets how many steps the threads of one [`Run::in_threads`] may take under the seeded scheduler, and how long they may run
    /// (default 5 million and a minute). A step is an operation on an atomic, a lock or a thread. Beyond, the check fails with
    /// [`Fault::Hang`].
    pub fn limits(mut self, steps_max: usize, time_max: Duration) -> Self {
        self.plan.limits = Limits { steps_max, time_max };
        self
    }

    /// Permits that no crash comes inside a transaction.
    pub fn without_losers(mut self) -> Self {
        self.plan.exempt.losers = true;
        self
    }

    /// Runs the check. With the environment variable [`CASE_VARIABLE`](crate::CASE_VARIABLE) naming a case of this
    /// check, runs that case only.
    ///
    /// A workload with threads runs with several seeds in a build with the feature `scheduler`. In a build with `--cfg
    /// cedrat_shuttle` everything, recoveries included, runs under the seeded scheduler.
    ///
    /// # Errors
    /// The first broken promise, with the line that repeats it; [`Fault::NotCovered`] if none is broken, but no crash came inside
    /// a transaction, or an undo that is registered or was logged never ran.
    pub fn run(self) -> Result<Report, Failure> {
        if let Some(case) = Case::asked_for(&self.probe.name) {
            return self.repeat(&case);
        }
        let Some(site) = self.enter(self.plan.seed) else { return Ok(self.empty_report()) };
        crate::speed::advise(&self.probe.name);
        let seed = self.plan.seed;
        explored(seed, move || {
            let mut walk = Walk { site: Some(&site), ..Walk::new(&self.probe, &self.plan, BTreeSet::new()) };
            let report = walk.go(seed, None).map_err(|failure| self.with_smaller(failure, &walk))?;
            self.other_schedules(report, &walk)
        })
    }

    /// Runs a workload with threads with other seeds, if its threads are scheduled by seeds.
    fn other_schedules(&self, mut report: Report, first: &Walk<'_, S>) -> Result<Report, Failure> {
        if !first.script.has_threads() || is_scheduled() {
            return Ok(report);
        }
        if !HAS_SCHEDULER {
            crate::speed::advise_scheduler(&self.probe.name);
            return Ok(report);
        }
        let plan = Plan { again_points_max: 0, ..self.plan.for_part(SCHEDULE_STATES) };
        for seed in (1..self.plan.schedules).map(|more| self.plan.seed.wrapping_add(more)) {
            let plan = Plan { seed, ..plan.clone() };
            match Walk::new(&self.probe, &plan, BTreeSet::new()).go(seed, None) {
                Ok(more) => report.add(&more),
                Err(failure) if failure.fault == Fault::NotCovered => {} // a part need not cover
                Err(failure) => return Err(failure),
            }
        }
        Ok(report)
    }

    /// Runs one case only.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn repeat(self, case: &Case) -> Result<Report, Failure> {
        let case = case.clone();
        let Some(site) = self.enter(case.seed) else { return Ok(self.empty_report()) };
        explored(case.seed, move || {
            let walk = Walk::new(&self.probe, &self.plan, case.skipped.clone());
            Walk { site: Some(&site), ..walk }.go(case.seed, Some(&case))
        })
    }

    /// Begins a run. In a process that was started to recover an image of this run, does that and ends the process; in one that
    /// was started for another run, returns `None`: what the test does before that run is done by the parent.
    fn enter(&self, seed: u64) -> Option<Site> {
        let site = Site::enter(&self.probe.name, seed);
        if let Some(job) = site.job() {
            let verdict = Walk::new(&self.probe, &self.plan, BTreeSet::new()).recover_alone(&job);
            job.end(
                &verdict.unwrap_or_else(|failure| Verdict::Differs(format!("{:?}: {}", failure.fault, failure.seen))),
            );
        }
        (!is_started_for_an_image()).then_some(site)
    }

    fn empty_report(&self) -> Report {
        Report { name: self.probe.name.clone(), seed: self.plan.seed, ..Report::default() }
    }
}

/// A running check.
pub(crate) struct Walk<'a, S: Scenario> {
    pub(crate) probe: &'a Probe<S>,
    pub(crate) plan: &'a Plan,
    pub(crate) seen: Seen,
    pub(crate) report: Report,
    coverage: Coverage,
    /// Transactions of the first life that are left out.
    skipped: BTreeSet<usize>,
    /// Transactions of the first life.
    pub(crate) script: Arc<Script>,
    /// The workload runs again after the first state with a loser from this number of distinct states on.
    next_again: usize,
    /// This run, for a fresh process; `None`: no image is recovered in one, or no more.
    pub(crate) site: Option<&'a Site>,
    /// Hash of the disk after the set-up.
    pub(crate) set_up: u64,
}

/// The workload runs again after every tenth state that was met before, at first.
const AGAIN_SHARE: usize = 10;

/// A log block written in recovery is cut behind at most so many of its records.
const RECOVERY_CUTS_MAX: usize = 12;

/// One life of a store: from an empty disk or an image through recovery and a workload.
pub(crate) struct Life<S: Scenario> {
    pub(crate) journal: Journal,
    /// The first boundary at which crashes are tried.
    pub(crate) from: usize,
    /// The boundary at which recovery had ended.
    pub(crate) recovered: usize,
    pub(crate) prefixes: Prefixes<S::State>,
    pub(crate) roots: S::Roots,
}

/// A life that has only opened its store.
pub(crate) struct Birth<S: Scenario> {
    pub(crate) disk: Arc<SimDisk>,
    pub(crate) store: Store,
    pub(crate) start: S::State,
    pub(crate) roots: S::Roots,
    pub(crate) from: usize,
}

impl<'a, S: Scenario> Walk<'a, S> {
    pub(crate) fn new(probe: &'a Probe<S>, plan: &'a Plan, skipped: BTreeSet<usize>) -> Walk<'a, S> {
        Walk {
            probe,
            plan,
            seen: Seen::default(),
            report: Report { name: probe.name.clone(), seed: plan.seed, ..Report::default() },
            coverage: Coverage::default(),
            script: Arc::new(Script::new(skipped.clone())),
            skipped,
            next_again: 1,
            site: None,
            set_up: 0,
        }
    }

    pub(crate) fn go(&mut self, seed: u64, case: Option<&Case>) -> Result<Report, Failure> {
        let start = Case::new(&self.probe.name, seed).without(&self.skipped);
        let birth = self.probe.guarded(&start, Fault::Workload, || self.birth())?;
        let first = self.first_life(birth, seed, &start)?;
        self.report.commits = first.prefixes.commits();
        self.set_up = hash_after_set_up(&first);
        match case {
            Some(case) if case.kills.is_empty() => self.repeat(first, case)?,
            Some(case) => self.repeat_kills(&first, case)?,
            None => {
                self.all_crashes(&first, &start)?;
                self.must_crash_recovery(&first, &start)?;
                self.all_kills(&first, &start, self.plan.kills)?;
                self.must_be_covered(&start)?;
            }
        }
        Ok(self.report.clone())
    }

    /// The life on an empty disk.
    fn first_life(&mut self, birth: Birth<S>, seed: u64, start: &Case) -> Result<Life<S>, Failure> {
        let store = birth.store.clone();
        let from = store.log().current_lsn().next();
        let life = self.probe.guarded(start, Fault::Workload, || self.live(birth, seed, &self.script))?;
        let registry = self.probe.scenario.registry();
        self.probe.guarded(start, Fault::Workload, || self.coverage.note_log(&store, &registry, from))?;
        self.must_be_within_bounds(&store, start)?;
        Ok(life)
    }

    /// Every crash point of the first life, again and again with other losses.
    fn all_crashes(&mut self, first: &Life<S>, start: &Case) -> Result<(), Failure> {
        let chance = Rng::new(self.plan.seed).part(0xc4a5);
        self.report.points = first.journal.len() + 1 - first.from;
        let mut barren = 0;
        for round in 0..ROUNDS_MAX {
            let (before, tried) = (self.report.distinct, self.report.states);
            let mut cursor = first.journal.cursor();
            cursor.advance_to(first.from);
            loop {
                for loss in losses(round, &cursor, &chance) {
                    self.crash(first, start, Crash::between(cursor.at(), loss), || cursor.image(loss))?;
                }
                if round == 0 {
                    self.behind_each_record(first, start, &cursor)?;
                }
                if self.is_full() || !cursor.advance() {
                    break;
                }
            }
            let (new, tried) = (self.report.distinct - before, self.report.states - tried);
            barren = if new * BARREN_SHARE < tried { barren + 1 } else { 0 };
            let enough = round > 0 && self.report.distinct >= self.plan.distinct_min;
            if enough || barren == BARREN_ROUNDS_MAX || self.is_full() {
                break;
            }
        }
        Ok(())
    }

    /// Crashes the recovery at the end of the workload if none was crashed yet: there were too few states for a turn. Says so if
    /// that reaches none either.
    fn must_crash_recovery(&mut self, first: &Life<S>, start: &Case) -> Result<(), Failure> {
        if self.plan.again_points_max == 0 || self.report.in_recovery > 0 {
            return Ok(());
        }
        if !self.is_full() {
            let crash = Crash::between(first.journal.len(), Loss::Nothing);
            let case = start.then(crash);
            let image = self.probe.guarded(&case, Fault::Workload, || image_after(&first.journal, crash))?;
            let birth = self.examine(first, crash.at, &Arc::new(SimDisk::from_image(image)), &case)?;
            let next = self.live_on(birth, &case)?;
            self.crashes_after(&next, &case)?;
        }
        if self.report.in_recovery == 0 {
            self.report.notes.push("no crash came inside a recovery: there are too few states".to_string());
        }
        Ok(())
    }

    /// Returns whether the limit of distinct states is reached.
    fn is_full(&self) -> bool {
        self.report.distinct >= self.plan.distinct_max
    }

    /// Returns the log block that the next call writes, if it is to be cut.
    fn log_write(&self, cursor: &Cursor) -> Option<LogWrite> {
        if self.plan.behind_records { LogWrite::next(cursor) } else { None }
    }

    /// Crashes behind each record that the next call writes to the log.
    fn behind_each_record(&mut self, life: &Life<S>, start: &Case, cursor: &Cursor) -> Result<(), Failure> {
        let Some(write) = self.log_write(cursor) else { return Ok(()) };
        for records in 1..write.records() {
            if let Some(image) = write.image(records) {
                self.crash(life, start, Crash::behind(cursor.at(), records), || image)?;
            }
        }
        Ok(())
    }

    /// Crashes the first life once, and sometimes the life after it many times.
    fn crash(
        &mut self,
        life: &Life<S>,
        start: &Case,
        crash: Crash,
        image: impl FnOnce() -> Image,
    ) -> Result<(), Failure> {
        if self.is_full() {
            return Ok(());
        }
        let acknowledged = Acknowledged::of(life.journal.marks_before(crash.at));
        let Some(image) = self.new_image(image(), &acknowledged) else { return Ok(()) };
        let case = start.then(crash);
        let before = image.image();
        let birth = self.examine(life, crash.at, &image, &case)?;
        if self.wants_fresh_process(life, crash.at, &birth) {
            self.recover_in_fresh_process(&before, &birth.start, &case)?;
        }
        // A recovery with undo is more valuable; but the others get their turn too.
        let wants = self.next_again + if birth.store.recovery().losers > 0 { 0 } else { self.plan.again_every };
        if self.plan.again_points_max == 0 || self.report.distinct < wants {
            return Ok(());
        }
        let next = self.live_on(birth, &case)?;
        self.crashes_after(&next, &case)?;
        let distinct = self.report.distinct;
        self.next_again = distinct + (distinct / AGAIN_SHARE).clamp(1, self.plan.again_every);
        Ok(())
    }

    /// Crashes a life that began with a recovery: half of the crashes lie within it.
    fn crashes_after(&mut self, next: &Life<S>, case: &Case) -> Result<(), Failure> {
        let mut chance = Rng::new(self.plan.seed).part(self.report.distinct as u64);
        let mut cursor = next.journal.cursor();
        for at in points_after(next, self.plan.again_points_max, &mut chance) {
            cursor.advance_to(at);
            let loss = Loss::Random(chance.next_u64());
            self.crash_after(next, case, Crash::between(at, loss), cursor.image(loss))?;
            let Some(write) = self.log_write(&cursor) else { continue };
            let cuts_max = if at < next.recovered { RECOVERY_CUTS_MAX } else { 1 };
            for records in points(write.records(), cuts_max, &mut chance) {
                if let Some(image) = write.image(records) {
                    self.crash_after(next, case, Crash::behind(at, records), image)?;
                }
            }
        }
        Ok(())
    }

    /// Crashes a life that began with a recovery.
    fn crash_after(&mut self, life: &Life<S>, case: &Case, crash: Crash, image: Image) -> Result<(), Failure> {
        let acknowledged = Acknowledged::of(life.journal.marks_before(crash.at));
        if let Some(image) = self.new_image(image, &acknowledged) {
            self.report.in_recovery += usize::from(crash.at < life.recovered);
            self.examine(life, crash.at, &image, &case.then(crash))?;
        }
        Ok(())
    }

    /// Returns the disk after a crash, if its image is new, or may lack commits that were acknowledged since.
    pub(crate) fn new_image(&mut self, image: Image, acknowledged: &Acknowledged) -> Option<Arc<SimDisk>> {
        self.report.states += 1;
        let hash = image.hash();
        let new = self.seen.add(hash);
        self.report.distinct += usize::from(new);
        (new || self.seen.may_lack(hash, acknowledged)).then(|| Arc::new(SimDisk::from_image(image)))
    }

    /// Fails if the crashes have not reached the undo that the check is for.
    fn must_be_covered(&self, start: &Case) -> Result<(), Failure> {
        if self.is_full() {
            return Ok(()); // cut short on purpose
        }
        if self.report.commits == 0 {
            let gap = "the workload has committed nothing that the run knows of, so nothing could be lost".to_string();
            return Err(self.probe.failure(start, Fault::NotCovered, gap));
        }
        let registry = self.probe.scenario.registry();
        match self.coverage.gap(&registry, &self.plan.exempt, self.report.distinct) {
            Some(gap) => Err(self.probe.failure(start, Fault::NotCovered, gap)),
            None => Ok(()),
        }
    }

    fn must_be_within_bounds(&self, store: &Store, case: &Case) -> Result<(), Failure> {
        match Coverage::over_bound(store, &self.probe.scenario.registry()) {
            Some(seen) => Err(self.probe.failure(case, Fault::LogBound, seen)),
            None => Ok(()),
        }
    }

    /// Repeats one case, without counting.
    fn repeat(&mut self, first: Life<S>, case: &Case) -> Result<(), Failure> {
        let mut life = first;
        let mut so_far = Case::new(&case.name, case.seed).without(&case.skipped);
        for (number, crash) in case.crashes.iter().enumerate() {
            so_far = so_far.then(*crash);
            let image = self.probe.guarded(&so_far, Fault::Workload, || image_after(&life.journal, *crash))?;
            let before = image.clone();
            let image = Arc::new(SimDisk::from_image(image));
            self.report.states += 1;
            let birth = self.examine(&life, crash.at, &image, &so_far)?;
            if number + 1 == case.crashes.len() && self.plan.fresh > 0 {
                self.recover_in_fresh_process(&before, &birth.start, &so_far)?;
            }
            // Behind the last crash too: the failure may have come in the life after it.
            life = self.live_on(birth, &so_far)?;
        }
        Ok(())
    }

    /// Begins the life on an empty disk.
    pub(crate) fn birth(&self) -> Result<Birth<S>, Error> {
        let disk = Arc::new(SimDisk::new());
        let store = self.probe.open(&disk)?;
        let roots = self.probe.scenario.set_up(&store)?;
        let start = self.probe.scenario.read(&store, &roots)?;
        let from = disk.journal_len();
        Ok(Birth { disk, store, start, roots, from })
    }

    /// Lives on from a recovered store, with another seed.
    fn live_on(&self, birth: Birth<S>, case: &Case) -> Result<Life<S>, Failure> {
        // Another workload after each crash, and the same one when the case is repeated.
        let seed = xxhash_rust::xxh3::xxh3_64(case.to_string().as_bytes());
        self.probe.guarded(case, Fault::Workload, || self.live(birth, seed, &Arc::default()))
    }

    /// Runs the workload on an open store.
    pub(crate) fn live(&self, birth: Birth<S>, seed: u64, script: &Arc<Script>) -> Result<Life<S>, Error> {
        let Birth { disk, store, start, roots, from } = birth;
        let recovered = disk.journal_len();
        let scenario = &self.probe.scenario;
        let watch = Watch { scenario: Arc::clone(scenario), roots: roots.clone() };
        let run =
            Run::watched(store.clone(), disk.clone(), seed, start, Some(watch), Arc::clone(script), self.plan.limits);
        let ran = scenario.run(&run, &roots);
        run.mismatch()?;
        ran?;
        // Records that no commit has forced are to be cut too.
        store.log().force(store.log().current_lsn())?;
        let prefixes = run.into_history().prefixes();
        let now = scenario.read(&store, &roots)?;
        if now != *prefixes.last() {
            let words = format!(
                "without any crash, at its end, the store does not hold what was committed; - in the store, + in the model:{}",
                difference(&now, prefixes.last())
            );
            return Err(Mismatch(words).into());
        }
        self.probe.no_leak(&store, &roots)?;
        Ok(Life { journal: disk.journal(), from, recovered, prefixes, roots })
    }

    /// Recovers an image and verifies it.
    fn examine(&mut self, life: &Life<S>, at: usize, image: &Arc<SimDisk>, case: &Case) -> Result<Birth<S>, Failure> {
        let acknowledged = Acknowledged::of(life.journal.marks_before(at));
        let hash = image.image().hash();
        let (store, start) = self.probe.examine(case, image, &life.roots, &life.prefixes, &acknowledged)?;
        self.seen.judged(hash, store.recovery().end.get(), &acknowledged);
        self.coverage.note_recovery(&store);
        self.must_be_within_bounds(&store, case)?;
        self.report.losers += usize::from(store.recovery().losers > 0);
        Ok(Birth { disk: image.clone(), store, start, roots: life.roots.clone(), from: 0 })
    }
}

/// Returns the hash of the disk with which the workload has begun.
fn hash_after_set_up<S: Scenario>(first: &Life<S>) -> u64 {
    let mut cursor = first.journal.cursor();
    cursor.advance_to(first.from);
    cursor.image(Loss::Nothing).hash()
}

/// Returns the disk after a crash of this journal.
pub(crate) fn image_after(journal: &Journal, crash: Crash) -> Result<Image, Error> {
    if crash.at > journal.len() {
        return Err(
            format!("the journal has {} entries, not {}: it is another workload's", journal.len(), crash.at).into()
        );
    }
    let mut cursor = journal.cursor();
    cursor.advance_to(crash.at);
    let Some(records) = crash.records else { return Ok(cursor.image(crash.loss)) };
    let image = LogWrite::next(&cursor).and_then(|write| write.image(records));
    image.ok_or_else(|| {
        format!("entry {} writes no log block of {records} records: it is another workload's", crash.at).into()
    })
}

/// Returns the crash points of a life that began with a recovery.
fn points_after<S: Scenario>(life: &Life<S>, max: usize, chance: &mut Rng) -> Vec<usize> {
    let recovery = life.recovered.min(life.journal.len());
    let mut all = points(recovery, max.div_ceil(2), chance);
    let rest = points(life.journal.len() + 1 - recovery, max - all.len().min(max), chance);
    all.extend(rest.into_iter().map(|at| recovery + at));
    all
}

/// Largest number of volatile changes of which every subset is tried.
const SUBSETS_OF_MAX: usize = 4;

/// Losses of round `round`: every subset if there are few changes, then torn writes, then random ones.
fn losses(round: u64, cursor: &Cursor, chance: &Rng) -> Vec<Loss> {
    let changes = cursor.volatile_changes();
    let mut chance = chance.part(round).part(cursor.at() as u64);
    match round {
        0 if changes == 0 => vec![Loss::Nothing],
        _ if changes == 0 => Vec::new(),
        0 if changes <= SUBSETS_OF_MAX => (0..1 << changes).map(Loss::Subset).collect(),
        0 => vec![Loss::Everything, Loss::Nothing],
        1 => vec![Loss::TornLast(chance.next_u64()), Loss::Whole(chance.next_u64())],
        _ => vec![Loss::Random(chance.next_u64()), Loss::Random(chance.next_u64())],
    }
}

/// Returns all of `0..len`, or `max` of them by chance, ascending.
pub(crate) fn points(len: usize, max: usize, chance: &mut Rng) -> Vec<usize> {
    if len <= max {
        return (0..len).collect();
    }
    let mut points: Vec<usize> = (0..max).map(|_| chance.index(len)).collect();
    points.sort_unstable();
    points.dedup();
    points
}
