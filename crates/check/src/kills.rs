//! Process kills, and power losses after them.
//!
//! ```text
//! a life ──kill──▶ volatile bytes stay readable ──▶ recovery and workload ──▶ power loss ──▶ judged
//!                                                          │
//!                                                          └──kill──▶ … the same again, a few generations deep
//! ```
//!
//! A process that is killed leaves writes in the cache that no sync has covered, or that a failed sync has forgotten (A9).
//! The next opening reads them. It must make durable everything that it relies on; otherwise the power loss may remove it
//! although a later commit was acknowledged (R6).
//!
//! Until the opening has ended nothing new was acknowledged: an earlier power loss may leave any state that the killed life
//! could have left.

use cedrat_media::{Cursor, Kill, Loss, SimDisk};
use cedrat_sync::Arc;
use cedrat_txn::Store;
use std::collections::{BTreeMap, BTreeSet};

use crate::case::{Case, Crash};
use crate::crashes::{Birth, Life, Walk, points};
use crate::history::{Acknowledged, Prefixes};
use crate::report::{Failure, Fault};
use crate::rng::Rng;
use crate::scenario::{Error, Scenario};

/// Largest number of processes that are killed one after the other.
const GENERATIONS_MAX: usize = 3;

/// One in so many lives after a kill is killed again.
const KILLED_AGAIN_ONE_IN: u64 = 2;

/// Power losses tried in each life after a kill.
const CUTS: usize = 14;

/// The commits that explain what a power loss leaves, and which of them were acknowledged.
struct Judge<'a, S: Scenario> {
    prefixes: &'a Prefixes<S::State>,
    acknowledged: Acknowledged,
}

impl<S: Scenario> Clone for Judge<'_, S> {
    fn clone(&self) -> Self {
        Judge { prefixes: self.prefixes, acknowledged: self.acknowledged.clone() }
    }
}

impl<S: Scenario> Walk<'_, S> {
    /// Kills the first life at up to `kills` of its I/O calls, and cuts the power in the lives that follow.
    pub(crate) fn all_kills(&mut self, first: &Life<S>, start: &Case, kills: usize) -> Result<(), Failure> {
        let mut chance = Rng::new(start.seed).part(0x6b11);
        for (cursor, kill) in kill_points(first, first.from, kills, &mut chance) {
            let case = start.then_killed(cursor.at(), kill);
            self.kill(first, &[], &cursor, kill, &case, &mut chance)?;
        }
        Ok(())
    }

    /// Kills once, and runs the life after it with power losses and further kills.
    fn kill(
        &mut self,
        life: &Life<S>,
        earlier: &[Judge<'_, S>],
        cursor: &Cursor,
        kill: Kill,
        case: &Case,
        chance: &mut Rng,
    ) -> Result<(), Failure> {
        let judges = judges(life, earlier, cursor.at());
        let next = self.life_after_kill(life, &judges, cursor.kill(kill), case)?;
        let mut power = next.journal.cursor();
        for (number, at) in cuts(&next, chance).into_iter().enumerate() {
            power.advance_to(at);
            let loss = if number % 3 == 0 { Loss::Everything } else { Loss::Random(chance.next_u64()) };
            self.cut_after_kill(&next, &judges, &power, loss, &case.then(Crash::between(at, loss)))?;
        }
        if case.kills.len() < GENERATIONS_MAX && chance.one_in(KILLED_AGAIN_ONE_IN) {
            for (cursor, kill) in kill_points(&next, 0, 1, chance) {
                let case = case.then_killed(cursor.at(), kill);
                self.kill(&next, &judges, &cursor, kill, &case, chance)?;
            }
        }
        Ok(())
    }

    fn cut_after_kill(
        &mut self,
        life: &Life<S>,
        earlier: &[Judge<'_, S>],
        cursor: &Cursor,
        loss: Loss,
        case: &Case,
    ) -> Result<(), Failure> {
        let judges = judges(life, earlier, cursor.at());
        let image = cursor.image(loss);
        let hash = image.hash();
        let acknowledged = all_acknowledged(&judges);
        if let Some(disk) = self.new_image(image, &acknowledged) {
            self.report.after_kills += 1;
            let (store, _) = self.examine_any(case, &disk, life, &judges)?;
            self.seen.judged(hash, store.recovery().end.get(), &acknowledged);
        }
        Ok(())
    }

    /// Opens the store of a killed process, and continues with it.
    fn life_after_kill(
        &mut self,
        life: &Life<S>,
        judges: &[Judge<'_, S>],
        disk: SimDisk,
        case: &Case,
    ) -> Result<Life<S>, Failure> {
        let disk = Arc::new(disk);
        let (store, start) = self.examine_any(case, &disk, life, judges)?;
        let birth = Birth { disk, store, start, roots: life.roots.clone(), from: 0 };
        let seed = xxhash_rust::xxh3::xxh3_64(case.to_string().as_bytes());
        self.probe
            .guarded(case, Fault::Workload, || self.live(birth, seed, &Arc::default()))
            .map_err(|failure| in_words(failure, case))
    }

    /// Recovers a disk, and judges it: one of the judges must find its state legal.
    fn examine_any(
        &self,
        case: &Case,
        disk: &Arc<SimDisk>,
        life: &Life<S>,
        judges: &[Judge<'_, S>],
    ) -> Result<(Store, S::State), Failure> {
        let scenario = &self.probe.scenario;
        let examined = || {
            let store = self.probe.guarded(case, Fault::Refused, || self.probe.open(disk))?;
            let state = self.probe.guarded(case, Fault::Model, || {
                let state = scenario.read(&store, &life.roots)?;
                let end = store.recovery().end.get();
                let mut verdicts = judges.iter().map(|judge| judge.prefixes.judge(&state, &judge.acknowledged, end));
                let newest = verdicts.next().expect("each life has a judge");
                if newest.is_err() && !verdicts.any(|verdict| verdict.is_ok()) {
                    newest?;
                }
                Ok(state)
            })?;
            self.probe.whole(case, &store, &life.roots)?;
            Ok((store, state))
        };
        examined().map_err(|failure| in_words(failure, case))
    }

    /// Repeats one case that has kills; see [`Walk::repeat`].
    pub(crate) fn repeat_kills(&mut self, first: &Life<S>, case: &Case) -> Result<(), Failure> {
        let start = Case::new(&case.name, case.seed).without(&case.skipped);
        self.repeat_kill(first, &[], &start, case)
    }

    fn repeat_kill(
        &mut self,
        life: &Life<S>,
        earlier: &[Judge<'_, S>],
        so_far: &Case,
        case: &Case,
    ) -> Result<(), Failure> {
        let mut cursor = life.journal.cursor();
        let reach = |at: usize| match at <= life.journal.len() {
            true => Ok(at),
            false => Err(Error::from(format!(
                "the journal has {} entries, not {at}: it is another workload's",
                life.journal.len()
            ))),
        };
        let Some(&(at, kill)) = case.kills.get(so_far.kills.len()) else {
            let Some(&Crash { at, loss, .. }) = case.crashes.first() else { return Ok(()) };
            cursor.advance_to(self.probe.guarded(case, Fault::Workload, || reach(at))?);
            return self.cut_after_kill(life, earlier, &cursor, loss, &so_far.then(Crash::between(at, loss)));
        };
        cursor.advance_to(self.probe.guarded(case, Fault::Workload, || reach(at))?);
        let so_far = so_far.then_killed(at, kill);
        let judges = judges(life, earlier, at);
        let next = self.life_after_kill(life, &judges, cursor.kill(kill), &so_far)?;
        self.repeat_kill(&next, &judges, &so_far, case)
    }
}

/// The judges of what a crash of `life` at `at` leaves, the newest first.
fn judges<'a, S: Scenario>(life: &'a Life<S>, earlier: &[Judge<'a, S>], at: usize) -> Vec<Judge<'a, S>> {
    let acknowledged = Acknowledged::of(life.journal.marks_before(at));
    let mut judges = vec![Judge { prefixes: &life.prefixes, acknowledged }];
    if at < life.recovered {
        judges.extend(earlier.iter().cloned());
    }
    judges
}

/// Returns the acknowledgements of all lives that these judge.
fn all_acknowledged<S: Scenario>(judges: &[Judge<'_, S>]) -> Acknowledged {
    let mut all = Acknowledged::default();
    for Judge { acknowledged, .. } in judges {
        all.up_to = all.up_to.max(acknowledged.up_to);
        all.alone.extend_from_slice(&acknowledged.alone);
    }
    all
}

/// Describes the kills and power failures of a case.
fn in_words(failure: Failure, case: &Case) -> Failure {
    let mut words = String::new();
    for (at, kill) in &case.kills {
        words += &match kill {
            Kill::Process(_) => format!("the process was killed after {at} I/O calls, and the store opened again; "),
            Kill::FailedSync(_) => {
                format!("after {at} I/O calls a sync failed and forgot, and the store was opened again; ")
            }
        };
    }
    for Crash { at, .. } in &case.crashes {
        words += &format!("after {at} more I/O calls the power failed; ");
    }
    Failure { seen: words + "then: " + &failure.seen, ..failure }
}

/// Chooses places of a power failure in a life that began with an opening: half of them in the opening or just after it.
fn cuts<S: Scenario>(life: &Life<S>, chance: &mut Rng) -> Vec<usize> {
    let opening = (life.recovered + 8).min(life.journal.len() + 1);
    let mut cuts = points(opening, CUTS / 2, chance);
    cuts.extend(each_in_turn(&kinds(life, 0), CUTS - CUTS / 2, chance).into_iter().map(|(at, _)| at));
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Returns at most `max` places in a life's journal at which a kill leaves something volatile, ascending.
fn kill_points<S: Scenario>(life: &Life<S>, from: usize, max: usize, chance: &mut Rng) -> Vec<(Cursor, Kill)> {
    let kinds = kinds(life, from);
    let mut chosen = each_in_turn(&kinds, max, chance);
    chosen.sort_unstable_by_key(|(at, _)| *at);
    let mut cursor = life.journal.cursor();
    let reached = chosen.into_iter().map(|(at, kind)| {
        cursor.advance_to(at);
        let seed = chance.next_u64();
        let kill = if kind.is_syncing && seed & 1 == 0 { Kill::FailedSync(seed) } else { Kill::Process(seed) };
        (cursor.clone(), kill)
    });
    reached.collect()
}

/// Unsettled bytes at a place of a journal. A workload mostly writes its log; places that were chosen at random would hardly
/// ever be of another kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    is_syncing: bool,
    has_volatile_names: bool,
    /// Files in the store's directory, and directories.
    files: BTreeSet<String>,
}

/// Returns the places of a life's journal with unsettled bytes, by kind.
fn kinds<S: Scenario>(life: &Life<S>, from: usize) -> Vec<(Kind, Vec<usize>)> {
    let mut kinds: BTreeMap<Kind, Vec<usize>> = BTreeMap::new();
    let mut cursor = life.journal.cursor();
    cursor.advance_to(from);
    loop {
        let first_part = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
        let files: BTreeSet<String> = cursor.unsettled().into_iter().map(first_part).collect();
        let (is_syncing, has_volatile_names) = (cursor.is_syncing(), cursor.has_volatile_names());
        if !files.is_empty() {
            kinds.entry(Kind { is_syncing, has_volatile_names, files }).or_default().push(cursor.at());
        }
        if !cursor.advance() {
            return kinds.into_iter().collect();
        }
    }
}

/// Returns `max` places, of each kind in turn.
fn each_in_turn<'a>(kinds: &'a [(Kind, Vec<usize>)], max: usize, chance: &mut Rng) -> Vec<(usize, &'a Kind)> {
    if kinds.is_empty() {
        return Vec::new();
    }
    let first = chance.index(kinds.len());
    let turns = kinds.iter().cycle().skip(first).take(max);
    turns.map(|(kind, places)| (places[chance.index(places.len())], kind)).collect()
}
