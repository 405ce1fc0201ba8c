//! Garbage collections while a program runs: reachable objects stay, all others are removed. Crash states: `graph_crash_graph.rs`.
#![cfg(not(cedrat_shuttle))] // threads: graph_threads.rs

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use cedrat_objects::Objects;
use cedrat_objects::graph::{Changes, Collection, Graph, Identity, Mode, Options, Reference, Stage};
use cedrat_pages::PageId;
use cedrat_txn::Error;
use proptest::prelude::*;

use crate::graph_common::{self, NAME, Place, is_absent, just, pattern, place, underneath};

/// Runs a collection until it is done.
fn finish(collection: &mut Collection, alive: &[Identity]) {
    while collection.step(3).unwrap() != Stage::Done {
        if collection.stage() == Stage::Marked {
            collection.seal(alive.iter().copied()).unwrap();
        }
    }
}

fn collect(graph: &Graph, alive: &[Identity]) -> cedrat_objects::graph::Collected {
    let mut collection = graph.collect(alive.iter().copied()).unwrap();
    finish(&mut collection, alive);
    collection.collected()
}

fn records(graph: &Graph) -> usize {
    underneath(graph).ids(&mut graph.store().begin()).unwrap().len()
}

/// J034: reference cycles too, and long objects with all their pieces.
#[test]
fn unreachable_objects_are_collected() {
    let place = place();
    let mut changes = Changes::new();
    let [kept, held] = [0, 1].map(|number| changes.next(number));
    changes.add(1, b"kept", &[Reference::NULL]);
    changes.add(1, b"held", &[kept]);
    let (a, b) = (changes.next(0), changes.next(1));
    changes.add(1, b"cycle", &[b, kept]);
    changes.add(1, b"cycle", &[a, held]);
    changes.add(1, &pattern(30_000, 0), &[a]);
    let long = changes.add(1, &pattern(30_000, 1), &[kept]);
    changes.set_root("kept", kept).set_root("long", long);
    let ids = place.commit(&changes);
    let collected = collect(&place.graph, &[ids[1]]);
    assert_eq!((collected.objects, collected.pieces), (3, 8));
    assert_eq!(collected.marked, 3 + 8);
    assert!(collected.mark_bytes > 0 && collected.mark_bytes < 3_000_000);
    let log = place.graph.store().log();
    log.force(log.current_lsn()).unwrap();
    let crashed = place.crashed();
    for place in [&place, &crashed] {
        for (number, &id) in ids.iter().enumerate() {
            assert_eq!(place.graph.read(id).is_ok(), [0, 1, 5].contains(&number), "{number}");
        }
        place.check();
        assert_eq!(place.graph.check().unwrap().elements, 3);
    }
    // The program no longer holds it.
    let collected = collect(&place.graph, &[]);
    assert_eq!((collected.objects, collected.pieces), (1, 0));
    place.commit(Changes::new().remove_root("long").remove_root("kept"));
    let collected = collect(&place.graph, &[]);
    assert_eq!((collected.objects, collected.pieces), (2, 8));
    assert_eq!(records(&place.graph), 0);
    place.check();
}

/// J035: pages whose objects were removed are filled again, and their identities are not reused.
#[test]
fn room_is_used_again() {
    let place = place();
    let mut all = BTreeSet::new();
    let mut pages = Vec::new();
    for turn in 0..12 {
        let mut changes = Changes::new();
        (0..60).for_each(|_| just(changes.add(1, &[turn; 900], &[])));
        for id in place.commit(&changes) {
            assert!(all.insert(id), "an identity was given away twice");
        }
        assert_eq!(collect(&place.graph, &[]).objects, 60);
        pages.push(place.graph.check().unwrap().pages.len());
    }
    // A turn needs fifteen pages.
    assert!(pages[11] < pages[0] + 10, "{pages:?}");
    place.check();
    // A collection finds the empty pages of the previous opening.
    let log = place.graph.store().log();
    log.force(log.current_lsn()).unwrap();
    let crashed = place.crashed();
    assert_eq!(collect(&crashed.graph, &[]).objects, 0);
    let mut changes = Changes::new();
    (0..60).for_each(|_| just(changes.add(1, &[0; 900], &[])));
    crashed.commit(&changes);
    assert_eq!(crashed.graph.check().unwrap().pages.len(), pages[11]);
    crashed.check();
}

#[test]
fn one_collection_runs_and_can_be_abandoned() {
    let place = place();
    let garbage: Vec<Identity> = (0..10).map(|_| place.add(&[0; 3000], &[])).collect();
    let mut collection = place.graph.collect([]).unwrap();
    assert!(matches!(place.graph.collect([]), Err(Error::Misuse(_))));
    assert!(matches!(collection.seal([]), Err(Error::Misuse(_))), "it has not marked");
    assert_eq!(collection.step(10).unwrap(), Stage::Marked);
    assert_eq!(collection.seal([]).unwrap(), Stage::Sweeping);
    collection.step(4).unwrap();
    let swept = collection.collected().objects;
    assert!((1..10).contains(&swept));
    // Objects that are about to be removed cannot be read any more.
    assert!(garbage.iter().all(|&id| is_absent(&place.graph.read(id).unwrap_err())));
    drop(collection);
    // The next collection continues it, and the one after that begins anew.
    assert!(garbage.iter().all(|&id| is_absent(&place.graph.read(id).unwrap_err())));
    let later = place.add(b"later", &[]);
    let mut collection = place.graph.collect([]).unwrap();
    assert_eq!(collection.stage(), Stage::Sweeping);
    finish(&mut collection, &[]);
    assert_eq!(collection.collected().objects, 10 - swept);
    drop(collection);
    assert!(place.graph.read(later).is_ok());
    assert_eq!(collect(&place.graph, &[]).objects, 1);
    // A collection that is abandoned while it marks has no effect.
    let later = place.add(b"later", &[]);
    let mut collection = place.graph.collect([]).unwrap();
    collection.step(10).unwrap();
    drop(collection);
    assert!(place.graph.read(later).is_ok());
    place.check();
}

/// The iterator of live objects may read, and commit, which waits while the gate is closed.
#[test]
fn live_objects_are_listed_beside_commits() {
    let place = place();
    place.add(b"garbage", &[]);
    let made = RefCell::new(Vec::new());
    let make = || {
        let identity = place.add(b"alive", &[]);
        made.borrow_mut().push(identity);
        identity
    };
    let mut collection = place.graph.collect(iter::once_with(make)).unwrap();
    while collection.step(3).unwrap() != Stage::Marked {}
    while collection.seal(iter::once_with(make)).unwrap() != Stage::Sweeping {
        collection.step(3).unwrap();
    }
    finish(&mut collection, &[]);
    assert_eq!(collection.collected().objects, 1);
    let made = made.into_inner();
    assert!(made.len() >= 2);
    assert!(made.iter().all(|&identity| place.graph.read(identity).is_ok()));
    place.check();
}

/// E21.4, E21.7: some of the objects that it refers to were removed before the collection was abandoned; so it must not be
/// referred to any more.
#[test]
fn abandoned_collection_leaves_condemned_objects_unused() {
    let place = place();
    let mut changes = Changes::new();
    let child = changes.next(1);
    changes.add(1, b"parent", &[child]);
    changes.add(1, b"child", &[]);
    let [parent, child] = place.commit(&changes)[..] else { panic!("two were made") };
    let mut collection = place.graph.collect([]).unwrap();
    while collection.step(10).unwrap() != Stage::Marked {}
    collection.seal([]).unwrap();
    while collection.collected().objects == 0 {
        collection.step(1).unwrap();
    }
    drop(collection);
    let left = underneath(&place.graph).ids(&mut place.graph.store().begin()).unwrap();
    assert_eq!(
        left.iter().map(|id| id.page.get() << 16 | u64::from(id.slot.0)).collect::<Vec<_>>(),
        [parent.get()],
        "its child has gone"
    );
    assert!(is_absent(&place.graph.read(child).unwrap_err()));
    assert!(is_absent(&place.graph.read(parent).unwrap_err()));
    let refused = place.graph.commit(Changes::new().set_root("root", parent), Mode::Sync);
    assert!(is_absent(&refused.unwrap_err()));
    assert_eq!(collect(&place.graph, &[parent]).objects, 1);
    let refused = place.graph.commit(Changes::new().set_root("root", parent), Mode::Sync);
    assert!(is_absent(&refused.unwrap_err()));
    place.check();
}

/// E21.7: in whatever order its pieces are removed.
#[test]
fn half_removed_object_is_absent_not_damaged() {
    let place = place();
    // Pages that become empty lie before the object's page; its pieces are inserted there.
    let mut changes = Changes::new();
    (0..8).for_each(|_| just(changes.add(1, &[0; 3700], &[])));
    place.commit(&changes);
    let long = place.add(&[1; 500], &[]);
    place.commit(Changes::new().set_root("long", long));
    assert_eq!(collect(&place.graph, &[]).objects, 8);
    place.commit(Changes::new().put(long, 1, &[2; 12_000], &[]));
    place.commit(Changes::new().remove_root("long"));
    let mut collection = place.graph.collect([]).unwrap();
    while collection.step(1).unwrap() != Stage::Marked {}
    collection.seal([]).unwrap();
    let mut pieces_before_it = 0;
    while collection.step(1).unwrap() != Stage::Done {
        let collected = collection.collected();
        if collected.objects == 0 {
            pieces_before_it = collected.pieces;
        }
        let read = place.graph.read(long).unwrap_err();
        assert!(is_absent(&read), "{collected:?}: {read}");
    }
    assert!(pieces_before_it > 0);
}

/// E21.7: an unmarked object is neither changed nor referred to any more.
#[test]
fn condemned_objects_cannot_be_used() {
    let place = place();
    let kept = place.add(b"", &[Reference::NULL]);
    place.commit(Changes::new().set_root("kept", kept));
    let garbage = place.add(b"", &[Reference::NULL]);
    let mut collection = place.graph.collect([]).unwrap();
    while collection.step(10).unwrap() != Stage::Marked {}
    collection.seal([]).unwrap();
    let refused = |changes: &mut Changes| {
        assert!(is_absent(&place.graph.commit(changes, Mode::Sync).unwrap_err()));
    };
    refused(Changes::new().patch_reference(kept, 8, garbage));
    refused(Changes::new().put(kept, 1, b"", &[garbage.into()]));
    refused(Changes::new().put(garbage, 1, b"", &[]));
    refused(Changes::new().patch(garbage, 8, &[0; 8]));
    refused(Changes::new().set_root("garbage", garbage));
    let mut changes = Changes::new();
    changes.add(1, b"", &[garbage.into()]);
    refused(&mut changes);
    // New objects stay.
    let mut changes = Changes::new();
    let new = changes.add(1, &pattern(9000, 0), &[kept.into()]);
    changes.patch_reference(kept, 8, new).set_root("new", new);
    place.commit(&changes);
    finish(&mut collection, &[]);
    assert_eq!(collection.collected().objects, 1);
    assert_eq!(collection.step(1).unwrap(), Stage::Done);
    place.check();
}

/// A change of the only reference to an object, or of an object on the path to it.
type Cuts = (&'static str, usize, fn(&mut Changes, Identity, u32));

/// E21.5: objects that were reachable at the beginning stay, by whatever change their last reference was removed meanwhile;
/// the next collection removes them.
#[test]
fn objects_reachable_at_start_stay() {
    let cuts: [Cuts; 8] = [
        ("patched", 24, |changes, from, at| just(changes.patch_reference(from, at, Reference::NULL))),
        ("patched from before", 24, |changes, from, at| just(changes.patch(from, at - 8, &[0; 16]))),
        ("put", 24, |changes, from, _| just(changes.put(from, 1, b"", &[]))),
        ("put, and in pieces then", 24, |changes, from, _| just(changes.put(from, 1, &[1; 5000], &[]))),
        ("patched in pieces", 5000, |changes, from, at| just(changes.patch_reference(from, at, Reference::NULL))),
        ("put over pieces", 5000, |changes, from, _| just(changes.put(from, 1, b"", &[]))),
        ("put in pieces", 5000, |changes, from, _| just(changes.put(from, 1, &[1; 9000], &[]))),
        ("without its root", 24, |changes, _, _| just(changes.remove_root("root"))),
    ];
    for (how, len, cut) in cuts {
        let place = place();
        let mut changes = Changes::new();
        let [middle, last] = [1, 2].map(|number| changes.next(number));
        let first = changes.add(1, &pattern(len, 0), &[middle]);
        changes.add(1, b"middle", &[last]);
        changes.add(1, b"last", &[]);
        changes.set_root("root", first);
        let ids = place.commit(&changes);
        let mut collection = place.graph.collect([]).unwrap();
        let mut changes = Changes::new();
        cut(&mut changes, ids[0], 8 + len as u32);
        place.commit(&changes);
        finish(&mut collection, &[]);
        drop(collection);
        assert!(place.graph.read(ids[1]).is_ok() && place.graph.read(ids[2]).is_ok(), "{how}");
        collect(&place.graph, &[]);
        assert!(place.graph.read(ids[1]).is_err() && place.graph.read(ids[2]).is_err(), "{how}");
        place.check();
    }
}

/// E21.5: objects that the program names stay, with all that they reach, and so do objects that it reads, or refers to again.
#[test]
fn objects_in_use_stay() {
    type Has = fn(&Place, &mut Collection, Identity);
    let ways: [(&str, bool, Has); 5] = [
        ("at the beginning", true, |_, _, _| ()),
        ("read", false, |place, _, id| just(place.graph.read(id).unwrap())),
        ("referred to", false, |place, _, id| just(place.add(b"", &[id.into()]))),
        ("a root", false, |place, _, id| just(place.commit(Changes::new().set_root("root", id)))),
        ("at the end", false, |_, collection, id| {
            while collection.step(1).unwrap() != Stage::Marked {}
            assert_eq!(collection.seal([id]).unwrap(), Stage::Marking, "something has come up");
        }),
    ];
    for (how, at_the_beginning, has) in ways {
        let place = place();
        let next = place.add(b"next", &[]);
        let id = place.add(b"", &[next.into()]);
        let mut collection = place.graph.collect(at_the_beginning.then_some(id)).unwrap();
        has(&place, &mut collection, id);
        finish(&mut collection, &[]);
        drop(collection);
        assert!(place.graph.read(id).is_ok() && place.graph.read(next).is_ok(), "{how}");
        place.check();
    }
}

/// A step that exceeds the cache commits its work so far, and the next step continues.
#[test]
fn sweep_succeeds_with_small_cache() {
    let disk = cedrat_sync::Arc::new(cedrat_media::SimDisk::new());
    let store = graph_common::open_on(&disk, cedrat_txn::Options::simulated());
    let graph = Graph::create(&store, NAME, Options { cache_bytes: 20_000, ..Options::default() }).unwrap();
    graph.define_class(b"").unwrap();
    let mut changes = Changes::new();
    (0..100).for_each(|_| just(changes.add(1, &[1; 2000], &[])));
    graph.commit(&changes, Mode::Sync).unwrap();
    let mut collection = graph.collect([]).unwrap();
    let mut steps = 0;
    while collection.step(1000).unwrap() != Stage::Done {
        steps += 1;
        if collection.stage() == Stage::Marked {
            collection.seal([]).unwrap();
        }
    }
    assert_eq!(collection.collected().objects, 100);
    assert!(steps > 5, "{steps} steps");
    drop(collection);
    assert_eq!(graph.check().unwrap().elements, 0);
}

/// More open objects at once than the list can hold.
#[test]
fn marking_takes_bounded_memory() {
    let disk = cedrat_sync::Arc::new(cedrat_media::SimDisk::new());
    let options = cedrat_txn::Options { log_limit_bytes: 256 << 20, ..cedrat_txn::Options::simulated() };
    let graph = Graph::create(&graph_common::open_on(&disk, options), NAME, Options::default()).unwrap();
    graph.define_class(b"").unwrap();
    let mut changes = Changes::new();
    const COUNT: u64 = (1 << 16) + 5000;
    let all: Vec<Reference> = (0..COUNT).map(|number| changes.next(number + 1)).collect();
    let root = changes.add(1, b"", &all);
    for number in 0..COUNT {
        // Objects that are open in the marks only have references, too.
        let next = changes.next(COUNT - 1 - number + 1 + number % 100);
        changes.add(1, b"", if number < 1 << 16 { &[] } else { std::slice::from_ref(&next) });
    }
    (0..100).for_each(|_| just(changes.add(1, b"", &[])));
    changes.set_root("all", root);
    graph.commit(&changes, Mode::Async).unwrap();
    let mut collection = graph.collect([]).unwrap();
    while collection.step(100_000).unwrap() != Stage::Done {
        if collection.stage() == Stage::Marked {
            collection.seal([]).unwrap();
        }
    }
    let collected = collection.collected();
    let pages = collected.marked / 100;
    assert_eq!(collected.objects, 0);
    assert!(collected.mark_bytes < (8 << 16) + 4 * 120 * pages, "{collected:?}");
}

/// A program, the objects that it holds, and a model of the graph.
struct Program {
    place: Place,
    objects: Objects,
    held: Vec<Identity>,
    /// References of each object.
    model: BTreeMap<Identity, Vec<Option<Identity>>>,
    roots: BTreeMap<String, Identity>,
    collection: Option<Collection>,
    is_long: BTreeSet<Identity>,
}

/// Actions of the program; the numbers select among what exists.
#[derive(Clone, Debug)]
enum Does {
    Load(usize),
    Follow(usize, usize),
    Forget(usize),
    New { references: Vec<usize>, long: bool, name: Option<u8> },
    Refer(usize, usize, usize),
    Cut(usize, usize),
    Put(usize, Vec<usize>, bool),
    Name(u8, usize),
    Unname(u8),
    Step(usize),
    Flush,
}

fn does() -> impl Strategy<Value = Does> {
    let any = || 0..1000_usize;
    let some = || prop::collection::vec(0..1000_usize, 0..4);
    prop_oneof![
        2 => any().prop_map(Does::Load),
        4 => (any(), any()).prop_map(|(from, index)| Does::Follow(from, index)),
        3 => any().prop_map(Does::Forget),
        3 => (some(), prop::bool::weighted(0.2), prop::option::of(0..4_u8))
            .prop_map(|(references, long, name)| Does::New { references, long, name }),
        4 => (any(), any(), any()).prop_map(|(from, index, to)| Does::Refer(from, index, to)),
        4 => (any(), any()).prop_map(|(from, index)| Does::Cut(from, index)),
        2 => (any(), some(), prop::bool::weighted(0.2)).prop_map(|(from, to, long)| Does::Put(from, to, long)),
        2 => (0..4_u8, any()).prop_map(|(name, to)| Does::Name(name, to)),
        2 => (0..4_u8).prop_map(Does::Unname),
        12 => (1..4_usize).prop_map(Does::Step),
        1 => Just(Does::Flush),
    ]
}

fn data(long: bool) -> Vec<u8> {
    if long { pattern(5000, 3) } else { pattern(24, 3) }
}

impl Program {
    fn new() -> Program {
        let place = place();
        let objects = underneath(&place.graph);
        let (held, model, roots, is_long) = (Vec::new(), BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Program { place, objects, held, model, roots, collection: None, is_long }
    }

    fn pick(&self, number: usize) -> Option<Identity> {
        (!self.held.is_empty()).then(|| self.held[number % self.held.len()])
    }

    fn hold(&mut self, identity: Identity) {
        self.place.graph.read(identity).unwrap_or_else(|error| panic!("{identity} is reached: {error}"));
        if !self.held.contains(&identity) {
            self.held.push(identity);
        }
    }

    fn offset(&self, identity: Identity, index: usize) -> u32 {
        (8 + data(self.is_long.contains(&identity)).len() + 8 * index) as u32
    }

    fn does(&mut self, does: &Does) {
        let mut changes = Changes::new();
        match does {
            Does::Load(number) => {
                if let Some(&identity) = self.roots.values().nth(number % self.roots.len().max(1)) {
                    self.hold(identity);
                }
            }
            Does::Follow(from, index) => {
                let Some(from) = self.pick(*from) else { return };
                let references = &self.model[&from];
                if let Some(Some(to)) = references.get(index % references.len().max(1)) {
                    self.hold(*to);
                }
            }
            Does::Forget(number) => {
                if !self.held.is_empty() {
                    self.held.swap_remove(number % self.held.len());
                }
            }
            Does::New { references, long, name } => self.add(references, *long, *name),
            Does::Refer(from, index, to) => {
                let (Some(from), to) = (self.pick(*from), self.pick(*to)) else { return };
                let len = self.model[&from].len();
                self.refer(from, index % (len + 2), to);
            }
            Does::Cut(from, index) => {
                let Some(from) = self.pick(*from) else { return };
                let len = self.model[&from].len();
                if len > 0 {
                    self.refer(from, index % len, None);
                }
            }
            Does::Put(from, to, long) => {
                let Some(from) = self.pick(*from) else { return };
                let to: Vec<_> = to.iter().map(|&number| self.pick(number)).collect();
                let words: Vec<_> = to.iter().map(|&to| Reference::from(to)).collect();
                self.place.commit(changes.put(from, 1, &data(*long), &words));
                self.model.insert(from, to);
                if *long {
                    self.is_long.insert(from)
                } else {
                    self.is_long.remove(&from)
                };
            }
            Does::Name(name, to) => {
                let Some(to) = self.pick(*to) else { return };
                self.place.commit(changes.set_root(&name.to_string(), to));
                self.roots.insert(name.to_string(), to);
            }
            Does::Unname(name) => {
                self.place.commit(changes.remove_root(&name.to_string()));
                self.roots.remove(&name.to_string());
            }
            Does::Step(budget) => self.step(*budget),
            Does::Flush => self.place.graph.flush().unwrap(),
        }
    }

    fn add(&mut self, references: &[usize], long: bool, name: Option<u8>) {
        let mut changes = Changes::new();
        let to: Vec<_> = references.iter().map(|&number| self.pick(number)).collect();
        let words: Vec<_> = to.iter().map(|&to| Reference::from(to)).collect();
        let new = changes.add(1, &data(long), &words);
        if let Some(name) = name {
            changes.set_root(&name.to_string(), new);
        }
        let new = self.place.commit(&changes)[0];
        if long {
            self.is_long.insert(new);
        }
        self.model.insert(new, to);
        self.held.push(new);
        if let Some(name) = name {
            self.roots.insert(name.to_string(), new);
        }
    }

    fn refer(&mut self, from: Identity, index: usize, to: Option<Identity>) {
        let mut changes = Changes::new();
        self.place.commit(changes.patch_reference(from, self.offset(from, index), to));
        let references = self.model.get_mut(&from).unwrap();
        references.resize(references.len().max(index + 1), None);
        references[index] = to;
    }

    /// Takes a step of the collection, and begins one if there is none.
    fn step(&mut self, budget: usize) {
        let Some(collection) = &mut self.collection else {
            self.collection = Some(self.place.graph.collect(self.held.iter().copied()).unwrap());
            return;
        };
        match collection.stage() {
            Stage::Marked => just(collection.seal(self.held.iter().copied()).unwrap()),
            Stage::Done => self.collection = None,
            _ => just(collection.step(budget).unwrap()),
        }
    }

    fn reached(&self) -> BTreeSet<Identity> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<Identity> = self.held.iter().chain(self.roots.values()).copied().collect();
        while let Some(identity) = open.pop() {
            if reached.insert(identity) {
                open.extend(self.model[&identity].iter().flatten());
            }
        }
        reached
    }

    /// No dangling references: each reachable object exists. It marks nothing, unlike a read.
    fn check(&self) {
        for identity in self.reached() {
            let (page, slot) = (PageId::new(identity.get() >> 16), (identity.get() & 0xffff) as u16);
            let id = cedrat_objects::ObjectId::new(page, cedrat_pages::Slot(slot));
            let found = self.objects.read_committed(self.place.graph.store(), id, |_| ());
            assert!(found.is_ok(), "E21.5: {identity} is reached, and was collected");
        }
        self.place.graph.check().unwrap().expect_sound();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// E21.5, E21.6: whatever a program does between the steps of collections, everything that it can reach stays; and after
    /// it has stopped, everything else is removed.
    #[test]
    fn reachable_objects_stay_others_are_freed(all in prop::collection::vec(does(), 1..120)) {
        let mut program = Program::new();
        for does in &all {
            program.does(does);
            program.check();
        }
        drop(program.collection.take());
        let held = program.held.clone();
        // The first collection may continue an abandoned one.
        (0..2).for_each(|_| just(collect(&program.place.graph, &held)));
        let reached = program.reached();
        let pieces = reached.iter().filter(|identity| program.is_long.contains(identity)).count() * 2;
        prop_assert_eq!(records(&program.place.graph), reached.len() + pieces);
        for &identity in &reached {
            let object = program.place.object(identity);
            let references: Vec<_> = object.references.iter().map(|to| to.identity()).collect();
            prop_assert_eq!(&references, &program.model[&identity]);
        }
        program.place.check();
    }
}
