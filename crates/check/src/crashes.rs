//! Every crash of a workload: run it once, then cut its journal at every I/O call.
//!
//! ```text
//! set up ── run the workload once ──▶ journal of all I/O calls, with acknowledgements
//!                                        │ at each boundary, for each of several losses
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

use cedrat_media::{Cursor, Journal, Loss, SimDisk};
use cedrat_sync::Arc;
use cedrat_txn::Store;

use crate::case::Case;
use crate::history::{Acknowledged, Prefixes, brief};
use crate::probe::{Probe, explored};
use crate::report::{Failure, Fault, Report, Seen};
use crate::rng::Rng;
use crate::run::Run;
use crate::scenario::{Error, Scenario};

/// Checks `scenario` under crashes. Configure the result and [`run`](Crashes::run) it.
///
/// `name` stands in the report's row and in the line that repeats a failure.
///
/// # Panics
/// If `name` is empty or has white space: a case's line could not be read back.
pub fn crashes<S: Scenario>(name: &str, scenario: S) -> Crashes<S> {
    Crashes { probe: Probe::new(name, scenario), plan: Plan::default() }
}

/// A crash check that was not run yet.
pub struct Crashes<S: Scenario> {
    probe: Probe<S>,
    plan: Plan,
}

struct Plan {
    seed: u64,
    distinct_min: usize,
    distinct_max: usize,
    again_every: usize,
    again_points_max: usize,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { seed: 1, distinct_min: 2_000, distinct_max: usize::MAX, again_every: 50, again_points_max: 40 }
    }
}

/// Rounds over all crash points after which a workload is taken to have no more distinct states.
const ROUNDS_MAX: u64 = 64;

/// Rounds in a row that found next to nothing new, after which the same is concluded.
const BARREN_ROUNDS_MAX: u64 = 3;

/// Next to nothing: one new state in so many images.
const BARREN_SHARE: usize = 20;

impl<S: Scenario> Crashes<S> {
    /// Sets the seed of the workload's chance, of the losses and of the schedule (default 1).
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

    /// After every `states`-th state, runs the workload again on the recovered store and crashes recovery and run at up to
    /// `points` of their I/O calls (default: 50 and 40). `usize::MAX` points means at every one.
    ///
    /// # Panics
    /// If `states` is 0.
    pub fn again(mut self, states: usize, points: usize) -> Self {
        assert!(states > 0, "after every 0th state means nothing");
        self.plan.again_every = states;
        self.plan.again_points_max = points;
        self
    }

    /// Runs the check. With the environment variable [`CASE_VARIABLE`](crate::CASE_VARIABLE) naming a case of this
    /// check, runs that case only.
    ///
    /// In a build with `--cfg cedrat_shuttle` everything, recoveries included, runs under the seeded scheduler.
    ///
    /// # Errors
    /// The first broken promise, with the line that repeats it.
    pub fn run(self) -> Result<Report, Failure> {
        if let Some(case) = Case::asked_for(&self.probe.name) {
            return self.repeat(&case);
        }
        let seed = self.plan.seed;
        explored(seed, move || Walk::new(&self).go(seed, None))
    }

    /// Runs one case only.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn repeat(self, case: &Case) -> Result<Report, Failure> {
        let case = case.clone();
        explored(case.seed, move || Walk::new(&self).go(case.seed, Some(&case)))
    }
}

/// A check on its way.
struct Walk<'a, S: Scenario> {
    probe: &'a Probe<S>,
    plan: &'a Plan,
    seen: Seen,
    report: Report,
}

/// One life of a store: from an empty disk or an image through recovery and a workload.
struct Life<S: Scenario> {
    journal: Journal,
    /// The first boundary at which crashes are tried.
    from: usize,
    /// The boundary at which recovery had ended.
    recovered: usize,
    prefixes: Prefixes<S::State>,
    roots: S::Roots,
}

/// A life that has only opened its store.
struct Birth<S: Scenario> {
    disk: Arc<SimDisk>,
    store: Store,
    start: S::State,
    roots: S::Roots,
    from: usize,
}

impl<'a, S: Scenario> Walk<'a, S> {
    fn new(check: &'a Crashes<S>) -> Walk<'a, S> {
        Walk {
            probe: &check.probe,
            plan: &check.plan,
            seen: Seen::default(),
            report: Report { name: check.probe.name.clone(), seed: check.plan.seed, ..Report::default() },
        }
    }

    fn go(mut self, seed: u64, case: Option<&Case>) -> Result<Report, Failure> {
        let start = Case::new(&self.probe.name, seed);
        let first = self.probe.guarded(&start, Fault::Workload, || self.live(self.birth()?, seed))?;
        self.report.commits = first.prefixes.commits();
        match case {
            Some(case) => self.repeat(first, case)?,
            None => self.all_crashes(&first, &start)?,
        }
        Ok(self.report)
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
                    if self.report.distinct >= self.plan.distinct_max {
                        return Ok(());
                    }
                    self.crash(first, start, &cursor, loss)?;
                }
                if !cursor.advance() {
                    break;
                }
            }
            let (new, tried) = (self.report.distinct - before, self.report.states - tried);
            barren = if new * BARREN_SHARE < tried { barren + 1 } else { 0 };
            let enough = round > 0 && self.report.distinct >= self.plan.distinct_min;
            if enough || barren == BARREN_ROUNDS_MAX {
                break;
            }
        }
        Ok(())
    }

    /// One crash of the first life, and sometimes many of the life after it.
    fn crash(&mut self, life: &Life<S>, start: &Case, cursor: &Cursor, loss: Loss) -> Result<(), Failure> {
        let Some(image) = self.new_image(cursor, loss) else {
            return Ok(());
        };
        let case = start.then(cursor.at(), loss);
        if !self.report.distinct.is_multiple_of(self.plan.again_every) {
            return self.examine(life, cursor.at(), &image, &case).map(drop);
        }
        let next = self.next_life(life, cursor.at(), &image, &case)?;
        let mut chance = Rng::new(self.plan.seed).part(self.report.distinct as u64);
        let mut cursor = next.journal.cursor();
        for at in points(next.journal.len() + 1, self.plan.again_points_max, &mut chance) {
            cursor.advance_to(at);
            let loss = Loss::Random(chance.next_u64());
            if let Some(image) = self.new_image(&cursor, loss) {
                self.report.in_recovery += usize::from(at < next.recovered);
                self.examine(&next, at, &image, &case.then(at, loss))?;
            }
        }
        Ok(())
    }

    /// The image after a crash, if it is one that was not seen before.
    fn new_image(&mut self, cursor: &Cursor, loss: Loss) -> Option<Arc<SimDisk>> {
        let image = cursor.image(loss);
        self.report.states += 1;
        let new = self.seen.is_new(image.hash());
        self.report.distinct += usize::from(new);
        new.then(|| Arc::new(SimDisk::from_image(image)))
    }

    /// Runs one case, without counting.
    fn repeat(&mut self, first: Life<S>, case: &Case) -> Result<(), Failure> {
        let mut life = first;
        let mut so_far = Case::new(&case.name, case.seed);
        for (number, (at, loss)) in case.crashes.iter().enumerate() {
            so_far = so_far.then(*at, *loss);
            let image = Arc::new(life.journal.crash(*at, *loss));
            self.report.states += 1;
            if number + 1 == case.crashes.len() {
                self.examine(&life, *at, &image, &so_far)?;
            } else {
                life = self.next_life(&life, *at, &image, &so_far)?;
            }
        }
        Ok(())
    }

    /// The beginning of the life on an empty disk.
    fn birth(&self) -> Result<Birth<S>, Error> {
        let disk = Arc::new(SimDisk::new());
        let store = self.probe.open(&disk)?;
        let roots = self.probe.scenario.set_up(&store)?;
        let start = self.probe.scenario.read(&store, &roots)?;
        let from = disk.journal_len();
        Ok(Birth { disk, store, start, roots, from })
    }

    /// Recovers `image`, judges it, and lives on from it with another seed.
    fn next_life(&self, life: &Life<S>, at: usize, image: &Arc<SimDisk>, case: &Case) -> Result<Life<S>, Failure> {
        let (store, start) = self.examine(life, at, image, case)?;
        let birth = Birth { disk: image.clone(), store, start, roots: life.roots.clone(), from: 0 };
        // Another workload after each crash, and the same one when the case is repeated.
        let seed = xxhash_rust::xxh3::xxh3_64(case.to_string().as_bytes());
        self.probe.guarded(case, Fault::Workload, || self.live(birth, seed))
    }

    /// Runs the workload on an open store.
    fn live(&self, birth: Birth<S>, seed: u64) -> Result<Life<S>, Error> {
        let Birth { disk, store, start, roots, from } = birth;
        let recovered = disk.journal_len();
        let scenario = &self.probe.scenario;
        let run = Run::new(store.clone(), disk.clone(), seed, start);
        scenario.run(&run, &roots)?;
        let prefixes = run.into_history().prefixes();
        let now = scenario.read(&store, &roots)?;
        if now != *prefixes.last() {
            return Err(format!(
                "without any crash the store does not hold what was committed:\n  it holds  {}\n  committed {}",
                brief(&now),
                brief(prefixes.last())
            )
            .into());
        }
        Ok(Life { journal: disk.journal(), from, recovered, prefixes, roots })
    }

    /// Recovers an image and judges it.
    fn examine(
        &self,
        life: &Life<S>,
        at: usize,
        image: &Arc<SimDisk>,
        case: &Case,
    ) -> Result<(Store, S::State), Failure> {
        let acknowledged = Acknowledged::of(life.journal.marks_before(at));
        self.probe.examine(case, image, &life.roots, &life.prefixes, &acknowledged)
    }
}

/// Up to this many volatile changes, every subset of them is tried.
const SUBSETS_OF_MAX: usize = 4;

/// What is lost in round `round`: every subset where there are few changes, then tears, then chance.
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

/// All of `0..len`, or `max` of them by chance, ascending.
fn points(len: usize, max: usize, chance: &mut Rng) -> Vec<usize> {
    if len <= max {
        return (0..len).collect();
    }
    let mut points: Vec<usize> = (0..max).map(|_| chance.index(len)).collect();
    points.sort_unstable();
    points.dedup();
    points
}
