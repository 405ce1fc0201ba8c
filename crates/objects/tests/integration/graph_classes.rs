//! Classes without objects are dropped; all others stay (E21.12). Crash states: `graph_crash_graph.rs`, races: `graph_threads.rs`.
#![cfg(not(cedrat_shuttle))] // threads: graph_threads.rs

use cedrat_objects::graph::{Changes, Collection, Graph, GraphError, Identity, Mode, Options, Reference, Stage};
use cedrat_txn::{Commit, Error};

use crate::graph_common::{NAME, Place, just, pattern, place_of};

/// The tag of values that name classes.
const TAG: u8 = 9;

const OPTIONS: Options = Options { cache_bytes: 64 << 20, program_locks: false, class_tag: Some(TAG) };

/// A graph with classes 1 to 5.
fn place() -> Place {
    let place = place_of(cedrat_txn::Options::simulated(), OPTIONS);
    (2..=5_u8).for_each(|number| assert_eq!(place.graph.define_class(&[number]).unwrap(), number.into()));
    place
}

/// A value that names a class.
fn name_of(class: u64) -> Reference {
    Reference::value(TAG, class << 24 | 7).unwrap()
}

fn finish(collection: &mut Collection) {
    while collection.step(100).unwrap() != Stage::Done {
        if collection.stage() == Stage::Marked {
            collection.seal([]).unwrap();
        }
    }
}

/// Collects garbage, and drops all unused classes.
fn drop_unused(graph: &Graph) -> Vec<u32> {
    let mut collection = graph.collect([]).unwrap();
    finish(&mut collection);
    let unused = collection.unused_classes().unwrap();
    assert!(collection.drop_classes(&unused).unwrap().is_some());
    unused
}

#[track_caller]
fn expect_dropped(graph: &Graph, changes: &Changes, dropped: u32) {
    let error = graph.commit(changes, Mode::Sync).unwrap_err();
    match GraphError::of(GraphError::cause(&error)) {
        Some(&GraphError::ClassDropped { class }) => assert_eq!(class, dropped),
        _ => panic!("E21.12a: {error}"),
    }
}

fn adding(class: u32, references: &[Reference]) -> Changes {
    let mut changes = Changes::new();
    changes.add(class, b"an object", references);
    changes
}

fn rooted(name: &str, class: u32, data: &[u8], references: &[Reference]) -> Changes {
    let mut changes = Changes::new();
    let new = changes.add(class, data, references);
    changes.set_root(name, new);
    changes
}

fn crashed(place: &Place) -> Place {
    let log = place.graph.store().log();
    log.force(log.current_lsn()).unwrap();
    let (disk, store) = place.crashed_store(cedrat_txn::Options::simulated());
    Place { disk, graph: Graph::open(&store, NAME, OPTIONS).unwrap() }
}

/// E21.12: a class stays that a reachable object has, or names by a value, and so does one that a root names.
#[test]
fn classes_without_objects_are_dropped() {
    let place = place();
    place.commit(&rooted("kept", 2, b"reachable", &[name_of(4)]));
    place.commit(Changes::new().set_root("constant", name_of(5)));
    place.add(b"garbage of class 1", &[]);
    place.commit(&adding(3, &[name_of(1)]));
    assert_eq!(drop_unused(&place.graph), [1, 3]);
    for place in [&place, &crashed(&place)] {
        let classes = place.graph.classes();
        let there: Vec<bool> = classes.iter().map(Option::is_some).collect();
        assert_eq!(there, [false, true, false, true, true], "E21.12");
        assert_eq!((place.graph.class(3), place.graph.classes_len()), (None, 5));
        place.check();
    }
}

/// E21.12a: also after a crash, and for values.
#[test]
fn dropped_number_stays_taken() {
    let place = place();
    let object = place.commit(&rooted("kept", 2, &pattern(16, 0), &[name_of(2)]))[0];
    let long = place.commit(&rooted("long", 2, &pattern(30_000, 0), &[name_of(2)]))[0];
    assert_eq!(drop_unused(&place.graph), [1, 3, 4, 5]);
    for place in [&place, &crashed(&place)] {
        let graph = &place.graph;
        expect_dropped(graph, &adding(3, &[]), 3);
        expect_dropped(graph, &adding(2, &[name_of(4)]), 4);
        expect_dropped(graph, Changes::new().put(object, 5, b"", &[]), 5);
        expect_dropped(graph, Changes::new().set_root("constant", name_of(1)), 1);
        for (object, references_at) in [(object, 8 + 16), (long, 8 + 30_000)] {
            expect_dropped(graph, Changes::new().patch_reference(object, references_at, name_of(3)), 3);
            // The same bytes as data are no value.
            graph.commit(Changes::new().patch(object, 16, &name_of(3).word().to_le_bytes()), Mode::Sync).unwrap();
            graph.commit(Changes::new().patch_reference(object, references_at, name_of(2)), Mode::Sync).unwrap();
        }
        let next = graph.classes_len() + 1;
        let mut changes = rooted("new", next, b"", &[]);
        place.commit(changes.define_class(next, b"again"));
        place.check();
    }
}

/// E21.12b: in each stage of a collection, by a commit or a branch.
#[test]
fn class_used_during_collection_stays() {
    let place = place();
    let object = place.commit(&rooted("patched", 1, b"12345678", &[Reference::NULL]))[0];
    let mut collection = place.graph.collect([]).unwrap();
    place.commit(&adding(2, &[]));
    while collection.step(1).unwrap() != Stage::Marked {}
    place.commit(&adding(1, &[name_of(3)]));
    while collection.seal([]).unwrap() != Stage::Sweeping {
        while collection.step(1).unwrap() != Stage::Marked {}
    }
    place.commit(Changes::new().patch_reference(object, 16, name_of(4)));
    finish(&mut collection);
    assert_eq!(collection.unused_classes().unwrap(), [5], "E21.12b");
    place.commit(&adding(5, &[]));
    assert!(collection.drop_classes(&[5]).unwrap().is_none(), "E21.12b: it has an object meanwhile");
    assert_eq!(place.graph.class(5).as_deref(), Some(&[5][..]));
    drop(collection);
    place.check();
}

/// E21.12c: of several classes none is dropped if one is in use, because they may belong together.
#[test]
fn classes_are_dropped_together() {
    let place = place();
    let mut collection = place.graph.collect([]).unwrap();
    finish(&mut collection);
    let unused = collection.unused_classes().unwrap();
    assert_eq!(unused, [1, 2, 3, 4, 5]);
    place.commit(&adding(4, &[]));
    assert!(collection.drop_classes(&unused).unwrap().is_none());
    assert!(collection.drop_classes(&[0]).unwrap().is_none() && collection.drop_classes(&[6]).unwrap().is_none());
    assert_eq!(place.graph.classes().iter().flatten().count(), 5, "E21.12c");
    let unused = collection.unused_classes().unwrap();
    assert!(collection.drop_classes(&unused).unwrap().is_some());
    assert!(collection.drop_classes(&unused).unwrap().is_none(), "they were dropped");
    assert_eq!(collection.unused_classes().unwrap(), [0; 0]);
    drop(collection);
    assert_eq!(drop_unused(&crashed(&place).graph), [4], "its object is garbage");
}

/// E21.12d: its objects are marked without being scanned.
#[test]
fn branch_in_doubt_keeps_all_classes() {
    let place = place();
    let prepare = |name: &str, class| drop(place.graph.prepare(adding(class, &[]), name.as_bytes()).unwrap());
    let end = |name: &str| {
        let branch = place.graph.store().prepared(name.as_bytes()).unwrap();
        branch.commit(Commit::Sync).map(just).unwrap();
    };
    prepare("before", 2);
    let mut collection = place.graph.collect([]).unwrap();
    end("before");
    finish(&mut collection);
    assert_eq!(collection.unused_classes().unwrap(), [0; 0], "E21.12d: of a branch that has ended");
    drop(collection);
    let mut collection = place.graph.collect([]).unwrap();
    prepare("beside", 3);
    finish(&mut collection);
    assert_eq!(collection.unused_classes().unwrap(), [0; 0], "E21.12d: of a branch in doubt");
    assert!(collection.drop_classes(&[4]).unwrap().is_none());
    end("beside");
    assert_eq!(collection.unused_classes().unwrap(), [1, 2, 4, 5]);
    drop(collection);
    place.check();
}

#[test]
fn unused_classes_need_completed_collection() {
    let place = place();
    let mut collection = place.graph.collect([]).unwrap();
    assert!(matches!(collection.unused_classes(), Err(Error::Misuse(_))));
    assert!(matches!(collection.drop_classes(&[2]), Err(Error::Misuse(_))));
    finish(&mut collection);
    place.graph.define_class(b"since the beginning").unwrap();
    assert_eq!(collection.unused_classes().unwrap(), [1, 2, 3, 4, 5]);
}

/// E21.7b: the collection that continues an abandoned one knows what was used before and since.
#[test]
fn continued_collection_knows_used_classes() {
    let place = place();
    place.commit(&rooted("kept", 2, b"", &[]));
    let garbage: Vec<Identity> = (0..10).map(|_| place.add(&[0; 3000], &[])).collect();
    let mut collection = place.graph.collect([]).unwrap();
    while collection.step(100).unwrap() != Stage::Marked {}
    collection.seal([]).unwrap();
    collection.step(2).unwrap();
    drop(collection);
    place.commit(&adding(3, &[]));
    let mut collection = place.graph.collect(garbage).unwrap();
    assert_eq!(collection.stage(), Stage::Sweeping);
    finish(&mut collection);
    assert_eq!(collection.unused_classes().unwrap(), [1, 4, 5]);
}

#[test]
fn handles_agree_on_class_tag() {
    let place = place();
    let other = Options { class_tag: None, ..OPTIONS };
    assert!(matches!(Graph::open(place.graph.store(), NAME, other), Err(Error::Misuse(_))));
}

/// E21.12: a class that is named is defined, and was not dropped.
#[test]
fn check_finds_classes_of_values() {
    let place = place_of(cedrat_txn::Options::simulated(), Options::default());
    place.commit(&rooted("kept", 1, b"12345678", &[name_of(1), name_of(77)]));
    place.commit(Changes::new().set_root("constant", name_of(78)));
    place.check();
    let problems = place.graph.check_with_class_tag(Some(TAG)).unwrap().problems;
    let [of_root, of_object] = &problems[..] else { panic!("{problems:?}") };
    assert!(of_object.contains("its class is 77, but there are 1"), "{of_object}");
    assert!(of_root.contains("the root \"constant\" names a class: its class is 78, but there are 1"), "{of_root}");
}

#[test]
fn long_definition_is_dropped() {
    let place = place();
    let long = place.graph.define_class(&pattern(20_000, 0)).unwrap();
    place.commit(&rooted("kept", 2, b"", &[]));
    assert!(drop_unused(&place.graph).contains(&long));
    for place in [&place, &crashed(&place)] {
        assert_eq!(place.graph.class(long), None);
        assert_eq!(place.graph.classes_len(), long);
        place.check();
    }
}
