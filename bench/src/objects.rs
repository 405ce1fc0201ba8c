//! Figure `object-cache` (Lemon's Figure 5): updates of objects per second through a cache that holds twice the hot set, by
//! how much of an object changes, and by the size of the page pool.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Settings;
use crate::job::{Job, Outcome, Yard, rate};
use crate::random::Random;
use crate::report::{Goal, Params, Point, Report, median, params};
use crate::systems::Result;
use crate::systems::objects::{self, Update};

/// As in the paper: objects, how many of them are hot, how often one of those is picked, and updates of a transaction.
pub(crate) const OBJECTS: u32 = 5_000;
const HOT: u32 = OBJECTS / 10;
const HOT_PERCENT: u64 = 90;
const UPDATES: u64 = 100;
/// The application's cache holds twice the hot set.
pub(crate) const CACHED: u32 = 2 * HOT;

/// Bytes of an object.
pub(crate) const OBJECT_LEN: usize = 1024;

const CHANGED_BYTES: [usize; 4] = [4, 102, 512, 1024];

/// A pool that holds all, and one that is a quarter of the cache.
const POOL_BYTES: [u64; 2] = [32 << 20, 256 << 10];

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
}

/// A store, and how it is used.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Way {
    pub(crate) system: objects::System,
    pub(crate) variant: Variant,
}

impl Way {
    fn all() -> Vec<Way> {
        use objects::System::{BdbBtree, BdbHash, Cedrat};
        let of = |system, variants: &[Variant]| variants.iter().map(|&variant| Way { system, variant }).collect();
        let ways: [Vec<Way>; 3] = [
            of(Cedrat, &[Variant::Plain, Variant::UpdateFlush, Variant::Delta]),
            of(BdbBtree, &[Variant::Full, Variant::Partial]),
            of(BdbHash, &[Variant::Full, Variant::Partial]),
        ];
        ways.concat()
    }

    fn variant(self) -> &'static str {
        match self.variant {
            Variant::Plain => "plain",
            Variant::UpdateFlush => "update-flush",
            Variant::Delta => "delta",
            Variant::Full => "full",
            Variant::Partial => "partial",
        }
    }
}

/// Measures each way.
pub(crate) fn figure(settings: &Settings, yard: &mut Yard) -> Result<Report> {
    let seconds = settings.seconds(4.0, 0.5);
    let mut report = Report::default();
    let mut wanted = Vec::new();
    for pool_bytes in POOL_BYTES {
        for changed_bytes in CHANGED_BYTES {
            let ways = Way::all().into_iter().map(|way| (pool_bytes, changed_bytes, way));
            wanted.extend(ways.filter(|&at| settings.wants(&labels(at))));
        }
    }
    let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); wanted.len()];
    for repetition in 1..=settings.repetitions() {
        settings.tell(&format!("object-cache: repetition {repetition} of {}", settings.repetitions()));
        for (&(pool_bytes, changed_bytes, way), outcomes) in wanted.iter().zip(&mut outcomes) {
            outcomes.push(yard.run(&Job::ObjectCache { way, pool_bytes, changed_bytes, seconds })?);
        }
    }
    for (&at, outcomes) in wanted.iter().zip(&outcomes) {
        for (metric, unit) in [("updates_per_s", "1/s"), ("log_bytes_per_update", "B")] {
            let middle = median(outcomes.iter().map(|outcome| outcome[metric]).collect());
            let point = |value| Point::new("object-cache", at.2.system.name(), labels(at), metric, value, unit);
            report.points.extend(middle.map(point));
        }
    }
    goals(&mut report);
    Ok(report)
}

fn labels((pool_bytes, changed_bytes, way): (u64, usize, Way)) -> Params {
    params! {"variant": way.variant(), "changed_bytes": changed_bytes, "pool_bytes": pool_bytes}
}

/// What the paper says: one integer of a kilobyte is twice as fast by both as by neither, and no slower than Berkeley DB.
fn goals(report: &mut Report) {
    const METRIC: &str = "updates_per_s";
    for pool_bytes in POOL_BYTES {
        let at =
            |variant: &str| params! {"variant": variant, "changed_bytes": CHANGED_BYTES[0], "pool_bytes": pool_bytes};
        let (delta, plain) = (at("delta"), at("plain"));
        let reached = report.ratio(("cedrat", METRIC, &delta), ("cedrat", METRIC, &plain));
        report.goals.push(Goal::at_least(format!("delta / plain, pool of {} KiB", pool_bytes >> 10), reached, 2.0));
        for system in ["bdb-btree", "bdb-hash"] {
            for variant in ["full", "partial"] {
                let reached = report.ratio(("cedrat", METRIC, &delta), (system, METRIC, &at(variant)));
                let what = format!("delta / {system} {variant}, pool of {} KiB", pool_bytes >> 10);
                report.goals.push(Goal::at_least(what, reached, 1.0));
            }
        }
    }
}

/// Which objects an application has in memory: a clock of as many as it has room for.
pub(crate) struct Resident {
    used: HashMap<u32, bool>,
    clock: VecDeque<u32>,
}

impl Resident {
    pub(crate) fn new() -> Resident {
        Resident { used: HashMap::new(), clock: VecDeque::new() }
    }

    /// Uses an object; says whether it was there.
    pub(crate) fn touch(&mut self, number: u32) -> bool {
        if let Some(used) = self.used.get_mut(&number) {
            *used = true;
            return true;
        }
        while self.clock.len() >= CACHED as usize {
            let oldest = self.clock.pop_front().expect("it is full");
            if std::mem::take(self.used.get_mut(&oldest).expect("it is in the clock")) {
                self.clock.push_back(oldest);
            } else {
                self.used.remove(&oldest);
            }
        }
        self.clock.push_back(number);
        self.used.insert(number, false);
        false
    }
}

/// The object that an update is of: hot ones lie as far from each other as others.
fn pick(random: &mut Random) -> u32 {
    if random.below(100) < HOT_PERCENT {
        random.below(HOT.into()) as u32 * (OBJECTS / HOT)
    } else {
        random.below(OBJECTS.into()) as u32
    }
}

/// The child's side of [`Job::ObjectCache`].
pub(crate) fn run(dir: &Path, way: Way, pool_bytes: u64, changed_bytes: usize, seconds: f64) -> Result<Outcome> {
    let store = std::sync::Mutex::new(objects::create(way, dir, pool_bytes)?);
    let mut truth = vec![vec![0; OBJECT_LEN]; OBJECTS as usize];
    {
        let mut store = store.lock().expect("one thread");
        store.load(&truth)?;
    }
    let truth = std::sync::Mutex::new(&mut truth);
    let log_before = store.lock().expect("one thread").log_bytes()?;
    let updates = std::sync::atomic::AtomicU64::new(0);
    let reached = rate(1, seconds, |_, go_on| {
        let (mut store, mut truth) = (store.lock().expect("one thread"), truth.lock().expect("one thread"));
        let mut random = Random::new(1);
        for turn in 1_u64.. {
            let changes: Vec<Update> = (0..UPDATES)
                .map(|_| {
                    let number = pick(&mut random);
                    let at = random.below((OBJECT_LEN - changed_bytes + 1) as u64) as usize;
                    truth[number as usize][at..][..changed_bytes].fill(turn as u8);
                    Update { number, at: at as u16 }
                })
                .collect();
            store.transaction(&changes, changed_bytes, turn as u8)?;
            updates.fetch_add(UPDATES, std::sync::atomic::Ordering::Relaxed);
            if !go_on(UPDATES) {
                break;
            }
        }
        Ok(())
    })?;
    let mut store = store.lock().expect("one thread");
    let logged = store.log_bytes()? - log_before;
    store.check(&truth.lock().expect("one thread"))?;
    let per_update = logged as f64 / updates.into_inner() as f64;
    Ok(Outcome::from([("updates_per_s".into(), reached), ("log_bytes_per_update".into(), per_update)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hot_set_stays() {
        let (mut resident, mut random) = (Resident::new(), Random::new(3));
        for _ in 0..20_000 {
            resident.touch(pick(&mut random));
        }
        assert_eq!(resident.clock.len(), CACHED as usize);
        let hits = (0..10_000).filter(|_| resident.touch(pick(&mut random))).count();
        assert!((9_000..9_600).contains(&hits), "{hits}");
    }
}
