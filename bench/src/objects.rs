//! Figure `object-cache` (Lemon's Figure 5): updates of objects per second through a cache that holds twice the hot set; by
//! the changed part of an object if the pool holds all, and, if it holds next to nothing, by the frequency of hot objects.
//!
//! All pages bypass the system's cache. The application has the same memory for objects over each system, and each system
//! the same for pages. At the end a store is killed in the middle of a transaction; it is opened again, and every object is
//! compared with the acknowledged state.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::Settings;
use crate::job::{Job, Outcome, Scratch, rate, run_and_kill, run_in, say_and_wait};
use crate::random::Random;
use crate::report::{Goal, Params, Point, Report, median, params};
use crate::systems::Result;
use crate::systems::objects::{self, System, Update};

/// As in the paper: number of objects, number of hot ones, how often a hot one is picked, and updates of a transaction.
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

/// Frequency of hot objects in percent, over the small pool.
const HOT_PERCENTS: [u64; 5] = [0, 50, 70, 90, 100];

/// Way of writing an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Variant {
    /// The whole object, to its page, with its undo.
    Plain,
    /// The whole object is logged, its page is written when it is evicted from the cache.
    UpdateFlush,
    /// The changed bytes are logged, the page is written when it is evicted from the cache.
    Delta,
    /// Berkeley DB: the whole object.
    Full,
    /// Berkeley DB: the changed bytes (`DB_DBT_PARTIAL`).
    Partial,
    /// As `Partial`, by an application without a cache: its memory is added to the store's, whose pages have the best
    /// length for one object.
    Uncached,
}

/// Remains of a transaction that has not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Undo {
    /// A prefix of it (Lemon §7.1, the third way, that of its figures).
    Relaxed,
    /// Nothing: uncommitted changes are in no page (the first way).
    CommittedOnly,
    /// Nothing: its inverses are logged (the second way).
    Inverses,
    /// Nothing: before-images are logged, as by stores without objects.
    Logged,
}

/// A store, and its configuration.
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

/// Configurations of the paper, and of Berkeley DB.
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

/// Configurations without a second copy of objects in the store's own cache.
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

/// Measures each point, and verifies the state that each leaves.
pub(crate) fn figure(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let seconds = settings.seconds(4.0, 0.5);
    let places: Vec<Place> = Place::all().into_iter().filter(|place| settings.wants(&place.labels())).collect();
    let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); places.len()];
    let mut verified = 0.0;
    for repetition in 1..=settings.repetitions() {
        settings.tell(&format!("object-cache: repetition {repetition} of {}", settings.repetitions()));
        for (&place, outcomes) in places.iter().zip(&mut outcomes) {
            let outcome = measure(scratch, place, seconds)?;
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

fn measure(scratch: &mut Scratch, place: Place, seconds: f64) -> Result<Outcome> {
    let dir = scratch.fresh()?;
    let mut outcome: Outcome = run_and_kill(&dir, &Job::ObjectCache { place, seconds })?;
    let turns = outcome["turns"] as u64;
    outcome.extend(run_in(&dir, &Job::ObjectCacheVerify { place, turns })?);
    std::fs::remove_dir_all(&dir)?;
    Ok(outcome)
}

/// Goals of the paper: updates of one integer of a kilobyte are twice as fast with both optimisations as with neither; and
/// the goals relative to Berkeley DB.
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

/// Objects that an application has in memory: a clock of as many as fit.
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

    /// Uses an object; returns whether it was present.
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

/// Transactions of a point, identical in each run: the first number is 1.
struct Turns {
    random: Random,
    hot_percent: u64,
    changed_bytes: usize,
}

impl Turns {
    fn of(place: &Place) -> Turns {
        Turns { random: Random::new(1), hot_percent: place.hot_percent, changed_bytes: place.changed_bytes }
    }

    /// Returns the updates of the next transaction. Hot objects are as scattered as others.
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

/// Returns the byte that a turn writes.
fn byte(turn: u64) -> u8 {
    turn as u8
}

/// Runs [`Job::ObjectCache`] in the child: returns only with an error.
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

/// Runs [`Job::ObjectCacheVerify`] in the child.
pub(crate) fn verify(dir: &Path, place: Place, turns: u64) -> Result<Outcome> {
    // Redo with a small pool would take as long as the measurement.
    let mut store = objects::reopen(dir, &Place { pool_bytes: LARGE_POOL, ..place })?;
    let found = (0..OBJECTS).map(|number| store.read(number)).collect::<Result<Vec<_>>>()?;
    let kept = kept_of_unfinished(&place, turns, &found)?;
    Ok(Outcome::from([("verified".into(), found.len() as f64), ("kept_of_unfinished".into(), kept as f64)]))
}

/// Returns an error unless the objects have the state after this many turns, or, if atomicity is relaxed, that state with a
/// prefix of the next turn: returns the number of its updates.
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

    /// The check detects a lost update, and allows one of an unfinished transaction only with relaxed atomicity.
    #[test]
    fn lost_and_kept_updates_are_noticed() {
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
