//! Figure `object-cache` (Lemon's Figure 5): updates of objects per second through a cache that holds twice the hot set; by
//! how much of an object changes where the pool holds all, and, where it holds next to nothing, by how often the object
//! is a hot one.
//!
//! All pages go past the system's cache. The application has the same room for objects over each system, and each system
//! the same for pages. At its end a store is killed in the middle of a transaction; it is opened again, and every object
//! compared with what was acknowledged.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::Settings;
use crate::job::{Job, Outcome, Yard, rate, run_and_kill, run_in, say_and_wait};
use crate::random::Random;
use crate::report::{Goal, Params, Point, Report, median, params};
use crate::systems::Result;
use crate::systems::objects::{self, System, Update};

/// As in the paper: objects, how many of them are hot, how often one of those is picked, and updates of a transaction.
pub(crate) const OBJECTS: u32 = 5_000;
const HOT: u32 = OBJECTS / 10;
const HOT_PERCENT: u64 = 90;
const UPDATES: u64 = 100;
/// The application's cache holds twice the hot set.
pub(crate) const CACHED: u32 = 2 * HOT;

/// Bytes of an object.
pub(crate) const OBJECT_LEN: usize = 1024;

/// The first is an integer, the second a tenth of an object.
const CHANGED_BYTES: [usize; 4] = [4, 102, 512, 1024];

/// A pool that holds all, and one that is a twentieth of the objects, a fifth of the cache.
const LARGE_POOL: u64 = 32 << 20;
const SMALL_POOL: u64 = 256 << 10;

/// How often a hot object is picked, of a hundred times, over the small pool.
const HOT_PERCENTS: [u64; 5] = [0, 50, 70, 90, 100];

/// How an update is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Variant {
    /// The whole object, to its page, with its undo.
    Plain,
    /// The whole object is logged, its page is written when it leaves the cache.
    UpdateFlush,
    /// What has changed is logged, its page is written when it leaves the cache.
    Delta,
    /// Berkeley DB: the whole object.
    Full,
    /// Berkeley DB: what has changed (`DB_DBT_PARTIAL`).
    Partial,
    /// As `Partial`, by an application that has no cache: its room is the store's too, whose pages are as long as suits one
    /// object best.
    Uncached,
}

/// What is left of a transaction that has not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Undo {
    /// A prefix of it (Lemon §7.1, the third way, that of its figures).
    Relaxed,
    /// Nothing: what is not committed is in no page (the first way).
    CommittedOnly,
    /// Nothing: its inverses are logged (the second way).
    Inverses,
    /// Nothing: before-images are logged, as by stores that know of no objects.
    Logged,
}

/// A store, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Way {
    pub(crate) system: System,
    pub(crate) variant: Variant,
    pub(crate) undo: Undo,
}

const fn cedrat(variant: Variant, undo: Undo) -> Way {
    Way { system: System::Cedrat, variant, undo }
}

const fn peer(system: System, variant: Variant) -> Way {
    Way { system, variant, undo: Undo::Logged }
}

/// The paper's, and Berkeley DB's.
const WAYS: [Way; 7] = [
    cedrat(Variant::Plain, Undo::Logged),
    cedrat(Variant::UpdateFlush, Undo::Relaxed),
    cedrat(Variant::Delta, Undo::Relaxed),
    peer(System::BdbBtree, Variant::Full),
    peer(System::BdbBtree, Variant::Partial),
    peer(System::BdbHash, Variant::Full),
    peer(System::BdbHash, Variant::Partial),
];

/// Transactions with atomicity.
const ATOMIC: [Way; 2] = [cedrat(Variant::Delta, Undo::CommittedOnly), cedrat(Variant::Delta, Undo::Inverses)];

/// Without a second copy of what is in the store's own cache.
const UNCACHED: [Way; 2] = [peer(System::BdbBtree, Variant::Uncached), peer(System::BdbHash, Variant::Uncached)];

impl Way {
    fn variant(self) -> &'static str {
        match self.variant {
            Variant::Plain => "plain",
            Variant::UpdateFlush => "update-flush",
            Variant::Delta => "delta",
            Variant::Full => "full",
            Variant::Partial => "partial",
            Variant::Uncached => "partial-uncached",
        }
    }

    fn undo(self) -> &'static str {
        match self.undo {
            Undo::Relaxed => "relaxed",
            Undo::CommittedOnly => "committed-only",
            Undo::Inverses => "inverses",
            Undo::Logged => "logged",
        }
    }
}

/// One point of the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) way: Way,
    pub(crate) pool_bytes: u64,
    pub(crate) changed_bytes: usize,
    pub(crate) hot_percent: u64,
}

impl Place {
    fn all() -> Vec<Place> {
        let mut all = Vec::new();
        for changed_bytes in CHANGED_BYTES {
            let ways = WAYS.iter().chain(ATOMIC.iter().filter(|_| changed_bytes == CHANGED_BYTES[0]));
            let at = |&way| Place { way, pool_bytes: LARGE_POOL, changed_bytes, hot_percent: HOT_PERCENT };
            all.extend(ways.map(at));
        }
        for hot_percent in HOT_PERCENTS {
            let ways = WAYS.iter().chain(&ATOMIC).chain(&UNCACHED);
            let at = |&way| Place { way, pool_bytes: SMALL_POOL, changed_bytes: CHANGED_BYTES[0], hot_percent };
            all.extend(ways.map(at));
        }
        all
    }

    fn labels(self) -> Params {
        params! {
            "variant": self.way.variant(),
            "changed_bytes": self.changed_bytes,
            "pool_bytes": self.pool_bytes,
            "hot_percent": self.hot_percent,
            "undo": self.way.undo(),
        }
    }
}

/// Measures each point, and verifies what each has left.
pub(crate) fn figure(settings: &Settings, yard: &mut Yard) -> Result<Report> {
    let seconds = settings.seconds(4.0, 0.5);
    let places: Vec<Place> = Place::all().into_iter().filter(|place| settings.wants(&place.labels())).collect();
    let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); places.len()];
    let mut verified = 0.0;
    for repetition in 1..=settings.repetitions() {
        settings.tell(&format!("object-cache: repetition {repetition} of {}", settings.repetitions()));
        for (&place, outcomes) in places.iter().zip(&mut outcomes) {
            let outcome = measure(yard, place, seconds)?;
            verified += outcome["verified"];
            outcomes.push(outcome);
        }
    }
    let mut report = Report::default();
    for (place, outcomes) in places.iter().zip(&outcomes) {
        for (metric, unit) in [("updates_per_s", "1/s"), ("log_bytes_per_update", "B")] {
            let middle = median(outcomes.iter().map(|outcome| outcome[metric]).collect());
            let system = place.way.system.name();
            let point = |value| Point::new("object-cache", system, place.labels(), metric, value, unit);
            report.points.extend(middle.map(point));
        }
    }
    let points = places.len() as u32 * settings.repetitions();
    report
        .notes
        .push(format!("{points} stores were killed within a transaction, and {verified:.0} objects verified then"));
    goals(&mut report);
    Ok(report)
}

fn measure(yard: &mut Yard, place: Place, seconds: f64) -> Result<Outcome> {
    let dir = yard.fresh()?;
    let mut outcome: Outcome = run_and_kill(&dir, &Job::ObjectCache { place, seconds })?;
    let turns = outcome["turns"] as u64;
    outcome.extend(run_in(&dir, &Job::ObjectCacheVerify { place, turns })?);
    std::fs::remove_dir_all(&dir)?;
    Ok(outcome)
}

/// What the paper says: one integer of a kilobyte is twice as fast by both optimisations as by neither; and what is asked for
/// beside Berkeley DB.
fn goals(report: &mut Report) {
    const METRIC: &str = "updates_per_s";
    for (pool_bytes, wanted) in [(LARGE_POOL, 1.5), (SMALL_POOL, 3.0)] {
        let at = |way: &Way| {
            Place { way: *way, pool_bytes, changed_bytes: CHANGED_BYTES[0], hot_percent: HOT_PERCENT }.labels()
        };
        let value = |way: &Way| report.value(way.system.name(), METRIC, &at(way));
        let delta = value(&WAYS[2]);
        let over = |other: Option<f64>| Some(delta? / other?);
        let best = |ways: &[Way]| {
            ways.iter().map(value).collect::<Option<Vec<f64>>>().map(|of| of.into_iter().fold(0.0, f64::max))
        };
        let (plain, berkeley, uncached) = (value(&WAYS[0]), best(&WAYS[3..]), best(&UNCACHED));
        let pool = format!("pool of {} KiB", pool_bytes >> 10);
        let mut goals = vec![
            Goal::at_least(format!("delta / plain, {pool}"), over(plain), 2.0),
            Goal::at_least(format!("delta / Berkeley DB's best, {pool}"), over(berkeley), wanted),
        ];
        if pool_bytes == SMALL_POOL {
            goals.push(Goal::at_least(
                "delta / Berkeley DB with all of the memory for its own cache",
                over(uncached),
                1.0,
            ));
        }
        report.goals.extend(goals);
    }
}

/// Which objects an application has in memory: a clock of as many as it has room for.
pub(crate) struct Resident {
    objects: Vec<Use>,
    clock: Vec<u32>,
    hand: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Absent,
    Unused,
    Used,
}

impl Resident {
    pub(crate) fn new() -> Resident {
        Resident { objects: vec![Use::Absent; OBJECTS as usize], clock: Vec::new(), hand: 0 }
    }

    /// Uses an object; says whether it was there.
    pub(crate) fn touch(&mut self, number: u32) -> bool {
        if self.objects[number as usize] != Use::Absent {
            self.objects[number as usize] = Use::Used;
            return true;
        }
        self.objects[number as usize] = Use::Unused;
        if self.clock.len() < CACHED as usize {
            self.clock.push(number);
            return false;
        }
        loop {
            let oldest = &mut self.clock[self.hand];
            self.hand = (self.hand + 1) % CACHED as usize;
            let state = &mut self.objects[*oldest as usize];
            if *state == Use::Unused {
                *state = Use::Absent;
                *oldest = number;
                return false;
            }
            *state = Use::Unused;
        }
    }
}

/// The transactions of a point, the same each time: the first number is 1.
struct Turns {
    random: Random,
    hot_percent: u64,
    changed_bytes: usize,
}

impl Turns {
    fn of(place: &Place) -> Turns {
        Turns { random: Random::new(1), hot_percent: place.hot_percent, changed_bytes: place.changed_bytes }
    }

    /// The updates of the next one. Hot objects lie as far from each other as others.
    fn next(&mut self) -> Vec<Update> {
        let update = |_| {
            let random = &mut self.random;
            let number = match random.below(100) < self.hot_percent {
                true => random.below(HOT.into()) as u32 * (OBJECTS / HOT),
                false => random.below(OBJECTS.into()) as u32,
            };
            Update { number, at: random.below((OBJECT_LEN - self.changed_bytes + 1) as u64) as u16 }
        };
        (0..UPDATES).map(update).collect()
    }
}

/// What a turn writes.
fn byte(turn: u64) -> u8 {
    turn as u8
}

/// The child's side of [`Job::ObjectCache`]: never returns, unless with an error.
pub(crate) fn run(dir: &Path, place: Place, seconds: f64) -> Result<Outcome> {
    let mut store = objects::create(dir, &place)?;
    store.load(&vec![0; OBJECT_LEN])?;
    crate::disk::settle();
    let log_before = store.log_bytes()?;
    let (turns, running) = (AtomicU64::new(0), Mutex::new((store, Turns::of(&place))));
    let reached = rate(1, seconds, |_, go_on| {
        let (store, turns_of) = &mut *running.lock().expect("one thread");
        loop {
            let turn = turns.load(Ordering::Relaxed) + 1;
            store.transaction(&turns_of.next(), place.changed_bytes, byte(turn))?;
            turns.store(turn, Ordering::Relaxed);
            if !go_on(UPDATES) {
                return Ok(());
            }
        }
    })?;
    let (mut store, mut turns_of) = running.into_inner().expect("one thread");
    let turns = turns.into_inner();
    let logged = store.log_bytes()? - log_before;
    store.leave_unfinished(&turns_of.next(), place.changed_bytes, byte(turns + 1))?;
    let outcome = Outcome::from([
        ("updates_per_s".into(), reached),
        ("log_bytes_per_update".into(), logged as f64 / (turns * UPDATES) as f64),
        ("turns".into(), turns as f64),
    ]);
    say_and_wait(&outcome)
}

/// The child's side of [`Job::ObjectCacheVerify`].
pub(crate) fn verify(dir: &Path, place: Place, turns: u64) -> Result<Outcome> {
    // Redo of a small pool would take as long as what was measured.
    let mut store = objects::reopen(dir, &Place { pool_bytes: LARGE_POOL, ..place })?;
    let found = (0..OBJECTS).map(|number| store.read(number)).collect::<Result<Vec<_>>>()?;
    let kept = kept_of_unfinished(&place, turns, &found)?;
    Ok(Outcome::from([("verified".into(), found.len() as f64), ("kept_of_unfinished".into(), kept as f64)]))
}

/// Complains unless the objects are what so many turns have left, or, where atomicity is relaxed, these and a prefix of
/// the next: says of how many updates.
fn kept_of_unfinished(place: &Place, turns: u64, found: &[Vec<u8>]) -> Result<usize> {
    let mut turns_of = Turns::of(place);
    let mut truth = vec![vec![0; OBJECT_LEN]; OBJECTS as usize];
    let apply = |truth: &mut Vec<Vec<u8>>, update: Update, turn: u64| {
        truth[update.number as usize][update.at.into()..][..place.changed_bytes].fill(byte(turn));
    };
    for turn in 1..=turns {
        turns_of.next().into_iter().for_each(|update| apply(&mut truth, update, turn));
    }
    let differs = found.iter().zip(&truth).position(|(found, truth)| found != truth);
    let Some(first) = differs else { return Ok(0) };
    if place.way.undo == Undo::Relaxed {
        for (kept, update) in (1..).zip(turns_of.next()) {
            apply(&mut truth, update, turns + 1);
            if found == truth {
                return Ok(kept);
            }
        }
    }
    Err(format!("{place:?}: object {first} is not what {turns} transactions have left").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(hot_percent: u64, way: Way) -> Place {
        Place { way, pool_bytes: LARGE_POOL, changed_bytes: 4, hot_percent }
    }

    #[test]
    fn the_hot_set_stays() {
        let (mut resident, mut turns) = (Resident::new(), Turns::of(&place(HOT_PERCENT, WAYS[0])));
        let mut touch = |times: u64| {
            let updates = (0..times / UPDATES).flat_map(|_| turns.next());
            updates.filter(|update| resident.touch(update.number)).count()
        };
        touch(20_000);
        let hits = touch(10_000);
        assert!((9_000..9_600).contains(&hits), "{hits}");
        let in_memory = resident.objects.iter().filter(|&&state| state != Use::Absent).count();
        assert_eq!((resident.clock.len(), in_memory), (CACHED as usize, CACHED as usize));
    }

    /// A lost update is seen, a kept one of an unfinished transaction only where it may be.
    #[test]
    fn what_was_lost_or_kept_is_seen() {
        let apply = |found: &mut Vec<Vec<u8>>, update: &Update, turn: u8| {
            found[update.number as usize][update.at.into()..][..4].fill(turn);
        };
        let place_of = |way| place(HOT_PERCENT, way);
        let mut turns = Turns::of(&place_of(WAYS[0]));
        let mut found = vec![vec![0; OBJECT_LEN]; OBJECTS as usize];
        turns.next().iter().for_each(|update| apply(&mut found, update, 1));
        let before = found.clone();
        let second = turns.next();
        second.iter().for_each(|update| apply(&mut found, update, 2));
        assert_eq!(kept_of_unfinished(&place_of(WAYS[0]), 2, &found).unwrap(), 0);
        assert!(kept_of_unfinished(&place_of(WAYS[0]), 1, &found).is_err());
        assert_eq!(kept_of_unfinished(&place_of(WAYS[2]), 1, &found).unwrap(), 100);
        let mut prefix = before.clone();
        second[..7].iter().for_each(|update| apply(&mut prefix, update, 2));
        assert_eq!(kept_of_unfinished(&place_of(WAYS[2]), 1, &prefix).unwrap(), 7);
        assert!(kept_of_unfinished(&place_of(ATOMIC[0]), 1, &prefix).is_err());
        assert!(kept_of_unfinished(&place_of(WAYS[2]), 2, &prefix).is_err());
        let mut gap = before;
        second[1..7].iter().for_each(|update| apply(&mut gap, update, 2));
        assert!(kept_of_unfinished(&place_of(WAYS[2]), 1, &gap).is_err());
    }
}
