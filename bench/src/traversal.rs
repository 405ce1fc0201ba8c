//! Figures `traversal` and `requests`: graphs larger than the pool, depth first and with reordered visits (Lemon, Figures 7 and 8), and
//! random updates one at a time and through queues.

#[path = "../../crates/cedrat/examples/traversal/graph.rs"]
mod graph;

use std::path::Path;
use std::time::Instant;

use cedrat::pages::{PAGE_LEN, PageId};
use cedrat::structures::RawArrayList;
use cedrat::structures::requests::{Demultiplexer, Joined, Request, Routing};
use cedrat::{Options, Store, Txn};

use crate::Settings;
use crate::job::Scratch;
use crate::random::Random;
use crate::report::{Goal, Params, Point, Report, median, params};
use crate::systems::Result;
use graph::{Graph, Mark, Reordering, Shape};

/// The part of the graph that the pool has space for.
const POOL_PART: f64 = 0.05;
/// The least memory of a pool.
const POOL_BYTES_MIN: u64 = 128 << 10;
/// The number of queues by hash: the pages of one fit into the pool.
const HASH_QUEUES: usize = 32;
/// The memory of a pool in which all pages fit.
const LARGE_POOL_BYTES: u64 = 1 << 30;

fn opened(dir: &Path, pool_bytes: u64) -> Result<Store> {
    let registry = cedrat::registry().operation::<Mark>();
    Ok(cedrat::open_with(dir, Options { pool_bytes, ..Options::default() }, registry)?)
}

/// Returns the memory for this part of the pages of a store.
fn pool_bytes_for(pages: u64, part: f64) -> u64 {
    ((pages * PAGE_LEN as u64) as f64 * part).max(POOL_BYTES_MIN as f64) as u64
}

/// One graph, and the pool that it is traversed with.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    shape: Shape,
    nodes: u32,
    degree: usize,
    fits: bool,
}

impl Case {
    fn params(&self, order: &str) -> Params {
        let hot = if let Shape::HotSet(percent) = self.shape { percent.into() } else { -1 };
        let pool = if self.fits { "all" } else { "5 %" };
        params! {"graph": self.name, "hot": hot, "degree": self.degree, "nodes": self.nodes, "pool": pool, "order": order}
    }
}

/// Measures the traversals of a graph: depth first, by regions and by hash.
fn traverse(settings: &Settings, scratch: &mut Scratch, case: Case, report: &mut Report) -> Result<()> {
    settings.tell(&format!("traversal: {} of degree {}", case.name, case.degree));
    let dir = scratch.fresh()?;
    let store = opened(&dir, LARGE_POOL_BYTES)?;
    let root = Graph::create(&store, case.degree, case.shape.edges(case.nodes, case.degree, 1))?.1;
    let pages = store.pages_in_use()?.len() as u64;
    store.close()?;
    let pool_bytes = if case.fits { LARGE_POOL_BYTES } else { pool_bytes_for(pages, POOL_PART) };
    let regions = Routing::Regions { pages: (pool_bytes / PAGE_LEN as u64 / 2).max(1) };
    let choices = [
        ("depth first", None),
        ("by region", Some(Reordering { routing: regions, queues: 1 << 12 })),
        ("by hash", Some(Reordering { routing: Routing::Hash, queues: HASH_QUEUES })),
    ];
    for (order, choice) in choices {
        let mut times = Vec::new();
        // A depth-first search of a graph that does not fit takes minutes.
        let turns = if choice.is_none() && !case.fits { 1 } else { settings.repetitions() };
        for turn in 1..=turns {
            let store = opened(&dir, pool_bytes)?;
            let graph = Graph::open(&store, root)?;
            // Each traversal has a mark of its own.
            let mark = report.points.len() as u32 * 100 + turn;
            let began = Instant::now();
            let marked = store.transact(|txn| match choice {
                None => graph.depth_first(txn, mark),
                Some(choice) => Ok(graph.reordered(txn, mark, choice)?.0),
            })?;
            times.push(began.elapsed().as_secs_f64());
            if order == "depth first" && marked * 2 < graph.node_count() {
                return Err(format!("only {marked} nodes were reached").into());
            }
            store.close()?;
        }
        let seconds = median(times).expect("at least one turn");
        report.points.push(Point::new("traversal", "cedrat", case.params(order), "seconds", seconds, "s"));
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Returns how many times as long the depth-first traversal took as the other one.
fn gain(report: &Report, case: Case, order: &str) -> Option<f64> {
    let naive = case.params("depth first");
    report.ratio(("cedrat", "seconds", &naive), ("cedrat", "seconds", &case.params(order)))
}

/// Measures traversals of graphs with rings, of random ones, and of such with hot sets.
pub(crate) fn figure(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let nodes = if settings.quick { 20_000 } else { 40_000 };
    let mut report = Report::default();
    let of = |name, shape, degree, fits| Case { name, shape, nodes, degree, fits };
    let degrees: &[usize] = if settings.quick { &[3] } else { &[3, 6, 9] };
    for &degree in degrees {
        traverse(settings, scratch, of("ring", Shape::Ring, degree, false), &mut report)?;
    }
    let percents: &[u8] = if settings.quick { &[10, 100] } else { &[10, 50, 80, 95, 100] };
    for &percent in percents {
        for &degree in if settings.quick { &[3][..] } else { &[3, 9] } {
            traverse(settings, scratch, of("hot set", Shape::HotSet(percent), degree, false), &mut report)?;
        }
    }
    let (random, in_memory) = (of("random", Shape::Random, 3, false), of("random", Shape::Random, 3, true));
    for case in [random, in_memory] {
        traverse(settings, scratch, case, &mut report)?;
    }
    let local = of("hot set", Shape::HotSet(100), 3, false);
    for order in ["by region", "by hash"] {
        let goal =
            |what: &str, case, wanted| Goal::at_least(format!("{what}, {order}"), gain(&report, case, order), wanted);
        report.goals.extend([
            goal("random graph larger than the pool: depth first / reordered, seconds", random, 3.0),
            goal("graph with locality: depth first / reordered, seconds", local, 0.9),
        ]);
    }
    Ok(report)
}

/// The update of an element: a later one takes its place.
#[derive(Debug)]
struct Set {
    page: PageId,
    index: u64,
    value: u64,
}

impl Request for Set {
    fn page(&self) -> PageId {
        self.page
    }

    fn order(&self) -> u64 {
        self.index
    }

    fn join(self, later: Set) -> Joined<Set> {
        Joined::One(later)
    }
}

/// The number of updates of a transaction, which wait together.
const WINDOW: u64 = 100_000;

/// Runs a transaction of random updates, one at a time or through queues.
fn update(
    txn: &mut Txn,
    array: &RawArrayList,
    queues: Option<&Demultiplexer<Set>>,
    random: &mut Random,
) -> cedrat::Result<()> {
    let len = array.len(txn)?;
    for value in 0..WINDOW {
        let index = random.below(len);
        match queues {
            None => array.set(txn, index, &value.to_le_bytes())?,
            Some(queues) => {
                let page = array.record(txn, index)?.page;
                queues.push(Set { page, index, value }).expect("there is space for each");
            }
        }
    }
    if let Some(queues) = queues {
        queues.drain(|_, set| array.set(txn, set.index, &set.value.to_le_bytes()))?;
    }
    Ok(())
}

/// Measures random updates of an array ten times as large as the pool.
pub(crate) fn requests(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let (elements, turns) = if settings.quick { (300_000, 2_u64) } else { (3_000_000, 5) };
    let dir = scratch.fresh()?;
    settings.tell("requests: filling an array");
    let store = opened(&dir, LARGE_POOL_BYTES)?;
    let array = store.transact(|txn| RawArrayList::create(txn, 8))?;
    for first in (0..elements).step_by(10_000) {
        store.transact(|txn| {
            (first..first + 10_000).try_for_each(|n: u64| array.push(txn, &n.to_le_bytes()).map(drop))
        })?;
    }
    let pages = store.pages_in_use()?.len() as u64;
    store.close()?;
    let pool_bytes = pool_bytes_for(pages, 0.1);
    let mut report = Report::default();
    let mut times = [Vec::new(), Vec::new()];
    let store = opened(&dir, pool_bytes)?;
    let regions = Routing::Regions { pages: (pool_bytes / PAGE_LEN as u64 / 2).max(1) };
    let queues = Demultiplexer::new(regions, 64, WINDOW as usize);
    let mut random = Random::new(1);
    for turn in 0..turns * 2 {
        let side = (turn % 2) as usize;
        let began = Instant::now();
        store.transact(|txn| update(txn, &array, (side == 1).then_some(&queues), &mut random))?;
        times[side].push(began.elapsed().as_secs_f64());
    }
    for (order, times) in ["one at a time", "by region"].into_iter().zip(times) {
        let rate = WINDOW as f64 / median(times).expect("there are turns");
        let params = params! {"elements": elements, "order": order};
        report.points.push(Point::new("requests", "cedrat", params, "updates_per_s", rate, "1/s"));
    }
    let side = |order: &str| params! {"elements": elements, "order": order};
    let (queued, single) = (side("by region"), side("one at a time"));
    let gain = report.ratio(("cedrat", "updates_per_s", &queued), ("cedrat", "updates_per_s", &single));
    report.goals =
        vec![Goal::at_least("random updates, ten times the pool: through queues / one at a time", gain, 5.0)];
    Ok(report)
}
