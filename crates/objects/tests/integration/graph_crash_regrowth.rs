//! Graphs that shrink and grow again under crashes: the pages that they do not need belong to the store (E19.16).
#![cfg(not(cedrat_shuttle))] // threads: graph_threads_beside.rs

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cedrat_check as check;
use cedrat_check::{Outcome, Rng, Run, Scenario};
use cedrat_objects::graph::{Changes, Collection, Graph, Mode, Options, Reference, Stage};
use cedrat_txn::{Registry, Store};

use crate::graph_common::{self, NAME};

const ROOTS: u64 = 40;

/// The object of each root, by the number with which it begins.
type State = BTreeMap<String, u64>;

/// Roots get objects of about a page, and of more, or lose them; collections remove the unreachable ones.
#[derive(Clone, Debug)]
struct Tide {
    steps: u64,
    pool_bytes: u64,
    /// Number of pages that collections have given back, in all runs.
    given_back: Arc<AtomicU64>,
}

fn read_all(graph: &Graph) -> Outcome<State> {
    let mut state = State::new();
    for (name, to) in graph.roots()? {
        let object = graph.object(to.identity().ok_or("a root that leads to nothing")?)?;
        state.insert(name, u64::from_le_bytes(*object.data.first_chunk().ok_or("an object without a number")?));
    }
    Ok(state)
}

fn numbered(number: u64, len: usize) -> Vec<u8> {
    [&number.to_le_bytes()[..], &vec![1; len]].concat()
}

/// Makes the changes of a commit to some roots, and returns the new target of each.
fn change(chance: &mut Rng, is_ebb: bool, next: &mut u64) -> (Changes, Vec<(String, Option<u64>)>) {
    let mut changes = Changes::new();
    let mut did = Vec::new();
    for _ in 0..1 + chance.below(if is_ebb { 12 } else { 6 }) {
        let name = format!("root {:02}", chance.below(ROOTS));
        if is_ebb && !chance.one_in(6) {
            changes.set_root(&name, Reference::NULL);
            did.push((name, None));
        } else {
            let len = if chance.one_in(5) { 9000 } else { 3500 };
            let new = changes.add(1, &numbered(*next, len), &[]);
            changes.set_root(&name, new);
            did.push((name, Some(*next)));
            *next += 1;
        }
    }
    (changes, did)
}

impl Tide {
    fn open(&self, store: &Store) -> Outcome<Graph> {
        Ok(Graph::open_or_create(store, NAME, Options { cache_bytes: 1 << 20, ..Options::default() })?)
    }
}

impl Scenario for Tide {
    type State = State;
    /// Number of pages that do not belong to the graph.
    type Roots = u64;

    fn options(&self) -> cedrat_txn::Options {
        let simulated = cedrat_txn::Options::simulated();
        cedrat_txn::Options { pool_bytes: self.pool_bytes, log_limit_bytes: 16 << 20, ..simulated }
    }

    /// Changes stay in the cache until it flushes them.
    fn reads_while_running(&self) -> bool {
        false
    }

    fn registry(&self) -> Registry {
        graph_common::registry()
    }

    fn set_up(&self, store: &Store) -> Outcome<u64> {
        let graph = self.open(store)?;
        graph.define_class(b"things")?;
        let mut changes = Changes::new();
        for number in 0..ROOTS {
            let new = changes.add(1, &numbered(number, 3500), &[]);
            changes.set_root(&format!("root {number:02}"), new);
        }
        graph.commit(&changes, Mode::Sync)?;
        Ok(store.check()?.pages_allocated - graph.check()?.pages.len() as u64)
    }

    fn run(&self, run: &Run<Tide>, _: &u64) -> Outcome {
        let graph = self.open(run.store())?;
        let mut next = read_all(&graph)?.values().max().map_or(100, |most| most + 100);
        let mut chance = run.rng(0);
        let mut collection: Option<Collection> = None;
        for step in 0..self.steps {
            match chance.below(10) {
                0 => graph.flush()?,
                1 => run.store().checkpoint()?,
                2..=4 => {
                    let (changes, did) = change(&mut chance, step % 50 < 25, &mut next);
                    let effect = move |state: &mut State| {
                        for (name, to) in did.clone() {
                            match to {
                                Some(number) => drop(state.insert(name, number)),
                                None => drop(state.remove(&name)),
                            }
                        }
                    };
                    let commit = || Ok(graph.commit(&changes, Mode::Async)?.ticket().clone());
                    let ticket = run.commits(commit, effect)?;
                    if chance.one_in(3) {
                        run.acknowledge(&ticket)?;
                    }
                }
                _ => {
                    graph_common::go_on(&graph, &mut collection, 1 + chance.below(12) as usize)?;
                    if let Some(ended) = collection.as_ref().filter(|collection| collection.stage() == Stage::Done) {
                        self.given_back.fetch_add(ended.collected().pages, Ordering::Relaxed);
                    }
                }
            }
        }
        Ok(())
    }

    fn read(&self, store: &Store, _: &u64) -> Outcome<State> {
        read_all(&self.open(store)?)
    }

    fn check(&self, store: &Store, others: &u64) -> Outcome {
        let checked = self.open(store)?.check()?;
        if !checked.is_sound() {
            return Err(checked.problems.join("; ").into());
        }
        let (own, all) = (checked.pages.len() as u64, store.check()?.pages_allocated);
        if own + others == all {
            Ok(())
        } else {
            Err(format!("{all} pages, of which {own} and {others} are known").into())
        }
    }
}

/// E19.16: a page that a collection gives back is free, or belongs to the graph, after every crash.
#[test]
fn shrinking_graph_survives_every_crash() {
    for (name, pool_bytes, steps, seed) in
        [("graph-regrowth", 1 << 20, 80, 5), ("graph-regrowth-eviction", 12 * 4096, 40, 7)]
    {
        let given_back = Arc::default();
        let scenario = Tide { steps, pool_bytes, given_back: Arc::clone(&given_back) };
        let crashes = check::crashes(name, scenario).at_least(2_000).again(4, 40);
        crashes.seed(check::seed(seed)).run().unwrap_or_else(|failure| panic!("{failure}")).print();
        assert_ne!(given_back.load(Ordering::Relaxed), 0, "no page was given back");
    }
}
