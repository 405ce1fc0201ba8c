//! Graphs under crashes: reference cycles, patches, growth into pieces and back, roots that are set and removed, classes.
#![cfg(not(cedrat_shuttle))] // threads: graph_threads.rs

use std::collections::{BTreeMap, BTreeSet};

use cedrat_check as check;
use cedrat_check::{Outcome, Rng, Run, Scenario};
use cedrat_objects::ObjectError;
use cedrat_objects::graph::{
    Changes, Collection, Graph, GraphError, Identity, Mode, Object, Options, Reference, Stage,
};
use cedrat_txn::{Error, Registry, Store};

use crate::graph_common::{self, NAME};

/// An object of the model. Its data begin with its number, and it refers to others by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Thing {
    class: u32,
    data: Vec<u8>,
    references: Vec<Option<u64>>,
}

/// Definitions of classes, `None` of dropped ones, roots, and the objects that these reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    classes: Vec<Option<Vec<u8>>>,
    roots: BTreeMap<String, u64>,
    things: BTreeMap<u64, Thing>,
}

impl State {
    /// Forgets unreachable objects, which are not compared.
    fn forget_unreached(&mut self) {
        let mut reached = BTreeSet::new();
        let mut open: Vec<u64> = self.roots.values().copied().collect();
        while let Some(number) = open.pop() {
            if reached.insert(number) {
                open.extend(self.things[&number].references.iter().flatten());
            }
        }
        self.things.retain(|number, _| reached.contains(number));
    }
}

/// A change, as the model applies it.
#[derive(Clone, Debug)]
enum Did {
    Class(Vec<u8>),
    Drop(Vec<u32>),
    Put(u64, Thing),
    Patch(u64, usize, Vec<u8>),
    Refer(u64, usize, Option<u64>),
    Root(String, Option<u64>),
}

fn effect(did: Vec<Did>) -> impl Fn(&mut State) + Send + 'static {
    move |state| {
        for did in did.clone() {
            match did {
                Did::Class(definition) => state.classes.push(Some(definition)),
                Did::Drop(numbers) => numbers.iter().for_each(|&number| state.classes[number as usize - 1] = None),
                Did::Put(number, thing) => drop(state.things.insert(number, thing)),
                Did::Patch(number, at, bytes) => {
                    state.things.get_mut(&number).expect("it is there").data[at..][..bytes.len()]
                        .copy_from_slice(&bytes);
                }
                Did::Refer(number, index, to) => {
                    let references = &mut state.things.get_mut(&number).expect("it is there").references;
                    references.resize(references.len().max(index + 1), None);
                    references[index] = to;
                }
                Did::Root(name, Some(to)) => drop(state.roots.insert(name, to)),
                Did::Root(name, None) => drop(state.roots.remove(&name)),
            }
        }
        state.forget_unreached();
    }
}

#[derive(Clone, Debug)]
struct Web {
    cache_bytes: u64,
    steps: u64,
    collects: bool,
    options: fn() -> cedrat_txn::Options,
}

/// The workload that changes the graph, and the current content of the graph.
struct Spider<'a> {
    run: &'a Run<Web>,
    graph: Graph,
    state: State,
    identities: BTreeMap<u64, Identity>,
    next_number: u64,
    chance: Rng,
    collects: bool,
    collection: Option<Collection>,
}

/// A commit in preparation.
struct Work {
    changes: Changes,
    defined: Changes,
    did: Vec<Did>,
    new: Vec<u64>,
    /// All objects; new ones are at the end.
    numbers: Vec<u64>,
}

impl Spider<'_> {
    fn data(&mut self, number: u64) -> Vec<u8> {
        let most = *self.chance.pick(&[2, 20, 200, 470, 480, 1500]);
        let words = self.chance.below(most);
        let rest = (0..words * 8).map(|_| self.chance.below(256) as u8).collect::<Vec<u8>>();
        [&number.to_le_bytes()[..], &rest].concat()
    }

    fn reference(&self, work: &Work, to: Option<u64>) -> Reference {
        let Some(to) = to else { return Reference::NULL };
        match work.new.iter().position(|&number| number == to) {
            Some(index) => Changes::new().next(index as u64),
            None => self.identities[&to].into(),
        }
    }

    fn any(&mut self, work: &Work) -> Option<u64> {
        (!work.numbers.is_empty()).then(|| *self.chance.pick(&work.numbers))
    }

    /// Chooses one of the objects that existed before the commit.
    fn any_old(&mut self, work: &Work) -> Option<u64> {
        let old = &work.numbers[..work.numbers.len() - work.new.len()];
        (!old.is_empty()).then(|| *self.chance.pick(old))
    }

    /// Returns the object of this number as the model has it now, with the current number of references.
    fn now(&self, work: &Work, number: u64) -> Thing {
        let mut state = State { things: self.state.things.clone(), ..State::default() };
        state.roots = (0..).map(|key: u64| key.to_string()).zip(work.numbers.iter().copied()).collect();
        effect(work.did.clone())(&mut state);
        state.things[&number].clone()
    }

    fn offset(thing: &Thing, index: usize) -> u32 {
        (8 + thing.data.len() + 8 * index) as u32
    }

    fn change(&mut self, work: &mut Work) {
        let kind = self.chance.below(12);
        let Some(old) = self.any_old(work) else { return };
        let now = self.now(work, old);
        match kind {
            0..=2 => {
                let data = self.data(old);
                let references: Vec<_> = (0..self.chance.below(4)).map(|_| self.any(work)).collect();
                let words: Vec<_> = references.iter().map(|&to| self.reference(work, to)).collect();
                let class = self.class(work);
                work.changes.put(self.identities[&old], class, &data, &words);
                work.did.push(Did::Put(old, Thing { class, data, references }));
            }
            3..=6 => {
                let at = self.chance.below(now.data.len() as u64 - 7) as usize;
                let len = self.chance.below((now.data.len() - at) as u64 + 1).min(5000) as usize;
                let mut bytes: Vec<u8> = (0..len).map(|_| self.chance.below(256) as u8).collect();
                if at < 8 {
                    // The number stays the same.
                    let kept = (8 - at).min(len);
                    bytes[..kept].copy_from_slice(&old.to_le_bytes()[at..][..kept]);
                }
                work.changes.patch(self.identities[&old], 8 + at as u32, &bytes);
                work.did.push(Did::Patch(old, at, bytes));
            }
            7..=9 => {
                // Sometimes behind the end, with a gap, also into pieces.
                let most = *self.chance.pick(&[1, 1, 3, 600]);
                let index = self.chance.below(now.references.len() as u64 + most) as usize;
                let to = if self.chance.one_in(4) { None } else { self.any(work) };
                let word = self.reference(work, to);
                work.changes.patch_reference(self.identities[&old], Self::offset(&now, index), word);
                work.did.push(Did::Refer(old, index, to));
            }
            _ => {
                let name = format!("root {}", self.chance.below(6));
                let to = if self.chance.one_in(3) { None } else { self.any(work) };
                work.changes.set_root(&name, self.reference(work, to));
                work.did.push(Did::Root(name, to));
            }
        }
    }

    /// Chooses the class of an object, sometimes one that the commit defines behind it.
    fn class(&mut self, work: &mut Work) -> u32 {
        let here = work.did.iter().filter(|did| matches!(did, Did::Class(_))).count();
        let count = (self.state.classes.len() + here) as u32;
        let is_there = |number: &u32| self.state.classes.get(*number as usize - 1).is_none_or(Option::is_some);
        let known: Vec<u32> = (1..=count).filter(is_there).collect();
        if !known.is_empty() && (known.len() > 40 || !self.chance.one_in(8)) {
            return *self.chance.pick(&known);
        }
        let definition = graph_common::pattern(*self.chance.pick(&[0, 9, 4_000]), u64::from(count));
        work.defined.define_class(count + 1, &definition);
        work.did.push(Did::Class(definition));
        count + 1
    }

    /// Adds new objects that refer to each other, also in cycles.
    fn add_some(&mut self, work: &mut Work) {
        let count = 1 + self.chance.below(3);
        work.new = (self.next_number..self.next_number + count).collect();
        self.next_number += count;
        work.numbers.extend(&work.new);
        for number in work.new.clone() {
            let data = self.data(number);
            let references: Vec<_> = (0..self.chance.below(4)).map(|_| self.any(work)).collect();
            let words: Vec<_> = references.iter().map(|&to| self.reference(work, to)).collect();
            let class = self.class(work);
            work.changes.add(class, &data, &words);
            work.did.push(Did::Put(number, Thing { class, data, references }));
        }
        let first = work.new[0];
        let name = format!("root {}", self.chance.below(6));
        work.changes.set_root(&name, self.reference(work, Some(first)));
        work.did.push(Did::Root(name, Some(first)));
    }

    fn commit(&mut self) -> Outcome {
        let numbers = self.state.things.keys().copied().collect();
        let (changes, defined) = (Changes::new(), Changes::new());
        let mut work = Work { changes, defined, did: Vec::new(), new: Vec::new(), numbers };
        if self.state.things.len() < 14 && self.chance.one_in(2) || self.state.things.len() < 3 {
            self.add_some(&mut work);
        }
        for _ in 0..self.chance.below(5) {
            self.change(&mut work);
        }
        let mut identities = Vec::new();
        let bytes = [work.changes.as_bytes(), work.defined.as_bytes()].concat();
        let commit = || {
            let changed = self.graph.commit(&bytes, Mode::Async)?;
            identities.clone_from(&changed.identities);
            Ok(changed.ticket().clone())
        };
        let did = effect(work.did.clone());
        match self.run.commits(commit, effect(work.did)) {
            Ok(ticket) => {
                did(&mut self.state);
                self.identities.extend(work.new.into_iter().zip(identities));
                if self.chance.one_in(3) {
                    self.run.acknowledge(&ticket)?;
                }
                Ok(())
            }
            Err(error) if is_full(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Each object is reachable from the roots.
    fn collect(&mut self) -> Outcome {
        let objects = 1 + self.chance.below(8) as usize;
        let done = self.collection.as_mut().filter(|collection| collection.stage() == Stage::Done);
        if let Some(collection) = done.filter(|_| self.chance.one_in(2)) {
            let unused = collection.unused_classes()?;
            let some: Vec<u32> = unused.into_iter().filter(|_| self.chance.one_in(2)).collect();
            if !some.is_empty() {
                let did = effect(vec![Did::Drop(some.clone())]);
                let dropping =
                    || collection.drop_classes(&some)?.ok_or_else(|| Error::user("a class in use is unused"));
                let ticket = self.run.commits(dropping, effect(vec![Did::Drop(some.clone())]))?;
                did(&mut self.state);
                if self.chance.one_in(2) {
                    self.run.acknowledge(&ticket)?;
                }
            }
        }
        Ok(graph_common::go_on(&self.graph, &mut self.collection, objects)?)
    }

    fn step(&mut self) -> Outcome {
        if self.collects && self.chance.one_in(2) {
            return self.collect();
        }
        match self.chance.below(10) {
            0 => Ok(self.graph.flush()?),
            1 => Ok(self.run.store().checkpoint()?),
            _ => self.commit(),
        }
    }
}

fn is_full(error: &check::Error) -> bool {
    let cause = error.downcast_ref().map(GraphError::cause).and_then(ObjectError::of);
    matches!(cause, Some(ObjectError::CacheFull { .. }))
}

/// Reads all objects, and their identities.
fn read_all(graph: &Graph) -> Outcome<(State, BTreeMap<u64, Identity>)> {
    let classes = graph.classes().iter().map(|class| class.as_ref().map(|class| class.to_vec())).collect();
    let (mut state, mut identities) = (State { classes, ..State::default() }, BTreeMap::new());
    let mut numbers = BTreeMap::new();
    let mut found = BTreeMap::new();
    let mut open = Vec::new();
    let roots = graph.roots()?;
    open.extend(roots.iter().filter_map(|(_, to)| to.identity()));
    while let Some(identity) = open.pop() {
        if found.contains_key(&identity) {
            continue;
        }
        let object = graph.object(identity)?;
        let number = u64::from_le_bytes(*object.data.first_chunk().ok_or("an object without a number")?);
        open.extend(object.references.iter().filter_map(|to| to.identity()));
        numbers.insert(identity, number);
        if identities.insert(number, identity).is_some() {
            return Err(format!("object {number} is there twice").into());
        }
        found.insert(identity, object);
    }
    for (identity, object) in found {
        let references = object.references.iter().map(|to| to.identity().map(|to| numbers[&to])).collect();
        let Object { class, data, .. } = object;
        state.things.insert(numbers[&identity], Thing { class, data, references });
    }
    for (name, to) in roots {
        let to = to.identity().ok_or("a root that leads to no object")?;
        state.roots.insert(name, numbers[&to]);
    }
    Ok((state, identities))
}

impl Web {
    fn open(&self, store: &Store) -> Outcome<Graph> {
        Ok(Graph::open_or_create(store, NAME, Options { cache_bytes: self.cache_bytes, ..Options::default() })?)
    }
}

impl Scenario for Web {
    type State = State;
    type Roots = ();

    fn options(&self) -> cedrat_txn::Options {
        (self.options)()
    }

    /// Changes stay in the cache until it flushes them.
    fn reads_while_running(&self) -> bool {
        false
    }

    fn registry(&self) -> Registry {
        graph_common::registry()
    }

    fn set_up(&self, store: &Store) -> Outcome {
        let graph = self.open(store)?;
        graph.define_class(b"things")?;
        let mut changes = Changes::new();
        for number in 0..6_u64 {
            let others: Vec<_> = (0..number).map(|other| Changes::new().next(other)).collect();
            let new = changes.add(1, &[&number.to_le_bytes()[..], &[number as u8; 40]].concat(), &others);
            changes.set_root(&format!("root {number}"), new);
        }
        graph.commit(&changes, Mode::Sync)?;
        Ok(())
    }

    fn run(&self, run: &Run<Web>, (): &()) -> Outcome {
        let graph = self.open(run.store())?;
        let (state, identities) = read_all(&graph)?;
        let next_number = state.things.keys().last().map_or(0, |number| number + 1);
        let mut spider = Spider {
            run,
            graph,
            state,
            identities,
            next_number,
            chance: run.rng(0),
            collects: self.collects,
            collection: None,
        };
        (0..self.steps).try_for_each(|_| spider.step())
    }

    fn read(&self, store: &Store, (): &()) -> Outcome<State> {
        Ok(read_all(&self.open(store)?)?.0)
    }

    fn check(&self, store: &Store, (): &()) -> Outcome {
        let checked = self.open(store)?.check()?;
        if checked.is_sound() { Ok(()) } else { Err(checked.problems.join("; ").into()) }
    }
}

fn passes(check: check::Crashes<Web>) {
    check.seed(check::seed(1)).run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

fn roomy() -> cedrat_txn::Options {
    cedrat_txn::Options { log_limit_bytes: 16 << 20, ..cedrat_txn::Options::simulated() }
}

/// E21.1, E21.1b, E21.2, E21.4.
#[test]
fn a_web_of_objects_survives_every_crash() {
    let scenario = Web { cache_bytes: 1 << 20, steps: 70, collects: false, options: roomy };
    passes(check::crashes("graph", scenario).at_least(2_500).again(8, 60));
}

/// Cache and pool are smaller than the working set.
#[test]
fn graph_in_tiny_cache_survives_every_crash() {
    let options = || cedrat_txn::Options { pool_bytes: 12 * 4096, partitions: 2, ..roomy() };
    let scenario = Web { cache_bytes: 24_000, steps: 70, collects: false, options };
    passes(check::crashes("graph-eviction", scenario).at_least(2_500).again(8, 60));
}

/// E21.5: a crash ends a running collection; the objects that it has removed are unreachable.
#[test]
fn graph_survives_every_crash_during_gc() {
    let scenario = Web { cache_bytes: 1 << 20, steps: 140, collects: true, options: roomy };
    passes(check::crashes("graph-collect", scenario).at_least(2_500).again(8, 60));
}
