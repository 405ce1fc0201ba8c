//! Commits and reads in several threads. Run again with `RUSTFLAGS="--cfg cedrat_shuttle"`, which chooses the interleavings.

use cedrat_media::SimDisk;
use cedrat_objects::graph::{Changes, Graph, GraphError, Identity, Mode, Options, Reference, Stage};
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, explore, thread};
use cedrat_txn::Error;

use crate::graph_common::{NAME, graph_of_threads, just, open_on};

const SCHEDULES: usize = 60;

/// The tag of values that name classes.
const CLASS_TAG: u8 = 9;

fn add(graph: &Graph, data: &[u8]) -> Identity {
    let mut changes = Changes::new();
    changes.add(1, data, &[]);
    graph.commit(&changes, Mode::Async).unwrap().identities[0]
}

/// Returns the value that all bytes of the data have.
#[track_caller]
fn value(graph: &Graph, id: Identity) -> (u8, usize) {
    let data = graph.object(id).unwrap().data;
    let first = data[0];
    assert!(data.iter().all(|&byte| byte == first), "E21.3: half of a transaction was read");
    (first, data.len())
}

/// E21.3: each commit fills the object by several patches, or replaces it, longer and shorter; a reader sees one of these
/// states as a whole, and never an older one than before.
fn whole_objects_are_read(lens: &'static [usize], seed: u64) {
    explore(seed, SCHEDULES, move || {
        let graph = graph_of_threads(40_000);
        let id = add(&graph, &vec![0; lens[0]]);
        let writer = {
            let graph = graph.clone();
            thread::spawn(move || {
                for turn in 1..6_u8 {
                    let len = lens[usize::from(turn) % lens.len()];
                    let mut changes = Changes::new();
                    if turn % 2 == 0 || lens.len() == 1 {
                        // In pieces, each a change of its own.
                        let old = value(&graph, id).1;
                        let third = old / 3;
                        changes.patch(id, 8, &vec![turn; third]);
                        changes.patch(id, 8 + third as u32, &vec![turn; third]);
                        changes.patch(id, 8 + 2 * third as u32, &vec![turn; old - 2 * third]);
                    } else {
                        changes.put(id, 1, &vec![turn; len], &[]);
                    }
                    graph.commit(&changes, Mode::Async).unwrap();
                }
            })
        };
        let flusher = {
            let graph = graph.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    graph.flush().unwrap();
                    graph.store().checkpoint().unwrap();
                }
            })
        };
        // Reaches the last change, except in an unlucky schedule.
        let mut newest = 0;
        for _ in 0..400 {
            let (now, _) = value(&graph, id);
            assert!(now >= newest, "time went back");
            newest = now;
            if newest == 5 {
                break;
            }
        }
        writer.join().unwrap();
        flusher.join().unwrap();
        assert_eq!(value(&graph, id).0, 5);
        graph.check().unwrap().expect_sound();
    });
}

#[test]
fn short_objects_are_read_whole() {
    whole_objects_are_read(&[400], 31);
}

/// They move to longer records meanwhile.
#[test]
fn objects_that_grow_are_read_whole() {
    whole_objects_are_read(&[80, 400, 0, 1600], 32);
}

#[test]
fn objects_in_pieces_are_read_whole() {
    whole_objects_are_read(&[9000], 33);
}

#[test]
fn replaced_long_objects_are_read_whole() {
    whole_objects_are_read(&[9000, 9000], 39);
}

#[test]
fn objects_that_change_length_are_read_whole() {
    whole_objects_are_read(&[9000, 400, 12_000, 4000], 34);
}

/// E21.1: commits in several threads, in opposite orders, over the same objects.
#[test]
fn commits_meet() {
    explore(35, SCHEDULES, || {
        let graph = graph_of_threads(1 << 20);
        let ids: Vec<Identity> = (0..3).map(|_| add(&graph, &[0; 16])).collect();
        let threads: Vec<_> = (0..2_u8)
            .map(|own| {
                let (graph, ids) = (graph.clone(), ids.clone());
                thread::spawn(move || {
                    for turn in 0..4_u8 {
                        let mut changes = Changes::new();
                        let mut order = ids.clone();
                        if own == 1 {
                            order.reverse();
                        }
                        let value = own * 100 + turn + 1;
                        order.iter().for_each(|&id| just(changes.patch(id, 8, &[value; 16])));
                        let new = changes.add(1, &[value; 16], &[ids[0].into()]);
                        changes.set_root("newest", new).set_root(&format!("newest of {own}"), new);
                        graph.commit(&changes, Mode::Async).unwrap();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let newest = graph.root("newest").unwrap().unwrap().identity().unwrap();
        let (last, _) = value(&graph, newest);
        assert!(last == 4 || last == 104);
        ids.iter().for_each(|&id| assert_eq!(value(&graph, id).0, last, "one commit was the last on all of them"));
        graph.check().unwrap().expect_sound();
    });
}

/// E21.5, E21.6: a ball is moved from hand to hand, one commit each, and gets a coat each time; collections never remove it,
/// though each hand may have been scanned before the ball came, and the other one after it left.
fn a_ball_is_moved_beside_collections(ball_len: usize, seed: u64) {
    explore(seed, SCHEDULES, move || {
        let graph = graph_of_threads(1 << 20);
        let mut changes = Changes::new();
        let ball = changes.next(2);
        let left = changes.add(1, b"", &[ball]);
        let right = changes.add(1, b"", &[Reference::NULL]);
        changes.add(1, &vec![7; ball_len], &[]);
        changes.set_root("left", left).set_root("right", right);
        let ids = graph.commit(&changes, Mode::Async).unwrap().identities;
        let hands = [ids[0], ids[1]];
        let mover = {
            let graph = graph.clone();
            thread::spawn(move || {
                for turn in 0..5 {
                    let (from, to) = (hands[turn % 2], hands[(turn + 1) % 2]);
                    let ball = graph.object(from).unwrap().references[0];
                    let mut changes = Changes::new();
                    let coat = changes.add(1, &vec![7; ball_len / 2 / 8 * 8], &[ball]);
                    changes.patch_reference(to, 8, coat);
                    if turn % 2 == 0 {
                        changes.patch_reference(from, 8, Reference::NULL);
                    } else {
                        changes.put(from, 1, b"", &[Reference::NULL]);
                    }
                    changes.add(1, &vec![8; ball_len], &[ball]); // garbage
                    graph.commit(&changes, Mode::Async).unwrap();
                }
            })
        };
        let collector = {
            let graph = graph.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    let mut collection = graph.collect([]).unwrap();
                    while collection.step(2).unwrap() != Stage::Done {
                        if collection.stage() == Stage::Marked {
                            collection.seal([]).unwrap();
                        }
                    }
                }
            })
        };
        mover.join().unwrap();
        collector.join().unwrap();
        let mut coats = 0;
        let mut at = graph.object(hands[1]).unwrap().references[0];
        while let Some(identity) = at.identity() {
            let object = graph.object(identity).unwrap();
            assert!(object.data.iter().all(|&byte| byte == 7));
            at = object.references.first().copied().unwrap_or_default();
            coats += 1;
        }
        assert_eq!(coats, 6, "the ball, and five coats");
        graph.check().unwrap().expect_sound();
        let mut collection = graph.collect([]).unwrap();
        while collection.step(100).unwrap() != Stage::Done {
            if collection.stage() == Stage::Marked {
                collection.seal([]).unwrap();
            }
        }
        drop(collection);
        assert_eq!(graph.check().unwrap().elements, 8, "the garbage went");
    });
}

#[test]
fn a_short_ball_is_not_collected() {
    a_ball_is_moved_beside_collections(24, 36);
}

#[test]
fn a_ball_in_pieces_is_not_collected() {
    a_ball_is_moved_beside_collections(9000, 37);
}

/// E21.6: objects in pieces are inserted into the pages that a collection is sweeping.
#[test]
fn object_created_during_sweep_stays() {
    explore(38, 4 * SCHEDULES, || {
        let graph = graph_of_threads(1 << 20);
        // One page is full, and the next, with one object, has room for a whole piece.
        let mut changes = Changes::new();
        for len in [3784, 176, 8] {
            changes.add(1, &vec![9; len], &[]);
        }
        graph.commit(&changes, Mode::Async).unwrap();
        let mut collection = graph.collect([]).unwrap();
        while collection.step(1).unwrap() != Stage::Marked {}
        assert_eq!(collection.seal([]).unwrap(), Stage::Sweeping);
        let adder = {
            let graph = graph.clone();
            thread::spawn(move || {
                for turn in 0..3 {
                    let mut changes = Changes::new();
                    let new = changes.add(1, &vec![turn; 3856], &[]);
                    changes.set_root(&turn.to_string(), new);
                    graph.commit(&changes, Mode::Async).unwrap();
                }
            })
        };
        while collection.step(1).unwrap() != Stage::Done {}
        adder.join().unwrap();
        assert_eq!(collection.collected().objects, 3);
        for turn in 0..3 {
            let root = graph.root(&turn.to_string()).unwrap().and_then(Reference::identity).unwrap();
            assert_eq!(value(&graph, root), (turn, 3856));
        }
        graph.check().unwrap().expect_sound();
    });
}

/// E21.5: no object is reached between the check that all were scanned and the turn to sweeping.
#[test]
fn reads_while_collection_is_sealed_stay_whole() {
    const PAIRS: usize = if cfg!(cedrat_shuttle) { 4 } else { 1000 };
    const PAGES: usize = if cfg!(cedrat_shuttle) { 2 } else { 1000 };
    explore(40, 4 * SCHEDULES, || {
        let graph = graph_of_threads(1 << 20);
        (0..PAGES).for_each(|_| just(add(&graph, &[0; 3700])));
        // The first of each refers to the second, and nothing to the first: the program has its identity, and has not read it
        // yet.
        let mut changes = Changes::new();
        for _ in 0..PAIRS {
            let second = changes.next(1);
            changes.add(1, &[0; 8], &[second]);
            changes.add(1, &[0; 8], &[]);
        }
        let ids = graph.commit(&changes, Mode::Async).unwrap().identities;
        let mut collection = graph.collect([]).unwrap();
        while collection.step(1000).unwrap() != Stage::Marked {}
        let is_sealed = Arc::new(AtomicBool::new(false));
        let reader = {
            let (graph, ids, is_sealed) = (graph.clone(), ids.clone(), is_sealed.clone());
            thread::spawn(move || {
                while !is_sealed.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                let read: Vec<usize> = (0..PAIRS).filter(|pair| graph.read(ids[2 * pair]).is_ok()).collect();
                read
            })
        };
        while collection.stage() != Stage::Sweeping {
            if collection.stage() == Stage::Marked {
                // The iterator over the program's objects runs when no commit runs any more.
                let alive = std::iter::from_fn(|| {
                    is_sealed.store(true, Ordering::Release);
                    None
                });
                collection.seal(alive).unwrap();
            } else {
                collection.step(1000).unwrap();
            }
        }
        let read = reader.join().unwrap();
        while collection.step(1000).unwrap() != Stage::Done {}
        for pair in read {
            assert!(graph.read(ids[2 * pair + 1]).is_ok(), "E21.5: what was read leads to what was removed");
        }
    });
}

/// E21.7: a new collection is requested repeatedly while a sweeping one is abandoned; the one that continues it sweeps all
/// pages.
#[test]
fn abandoned_collection_is_resumed_with_its_pages() {
    const TURNS: usize = if cfg!(cedrat_shuttle) { 1 } else { 300 };
    explore(42, 4 * SCHEDULES, || {
        let graph = graph_of_threads(1 << 20);
        for _ in 0..TURNS {
            let garbage: Vec<Identity> = (0..3).map(|_| add(&graph, &[0; 1500])).collect();
            let mut collection = graph.collect([]).unwrap();
            while collection.step(1000).unwrap() != Stage::Marked {}
            collection.seal([]).unwrap();
            let is_asked_for = Arc::new(AtomicBool::new(false));
            let next = {
                let (graph, is_asked_for) = (graph.clone(), is_asked_for.clone());
                thread::spawn(move || {
                    loop {
                        match graph.collect([]) {
                            Ok(next) => break next,
                            Err(_) => is_asked_for.store(true, Ordering::Release),
                        }
                        thread::yield_now();
                    }
                })
            };
            while !is_asked_for.load(Ordering::Acquire) {
                thread::yield_now();
            }
            drop(collection);
            let mut next = next.join().unwrap();
            assert_eq!(next.stage(), Stage::Sweeping);
            while next.step(1000).unwrap() != Stage::Done {}
            assert_eq!(next.collected().objects, 3);
            drop(next);
            garbage.iter().for_each(|&id| assert!(graph.read(id).is_err()));
        }
        assert_eq!(graph.check().unwrap().elements, 0);
    });
}

/// A check holds the locks that a definition requests, and counts the classes.
#[test]
fn check_terminates_during_class_definitions() {
    const TURNS: usize = if cfg!(cedrat_shuttle) { 2 } else { 300 };
    explore(41, SCHEDULES, || {
        let graph = graph_of_threads(1 << 20);
        // The check takes some time between the two.
        let mut changes = Changes::new();
        (0..if cfg!(cedrat_shuttle) { 1 } else { 200 }).for_each(|_| just(changes.add(1, &[0; 64], &[])));
        graph.commit(&changes, Mode::Async).unwrap();
        let definer = {
            let graph = graph.clone();
            thread::spawn(move || {
                for _ in 0..TURNS {
                    graph.define_class(b"another").unwrap();
                }
            })
        };
        for _ in 0..TURNS {
            graph.check().unwrap().expect_sound();
        }
        definer.join().unwrap();
        assert_eq!(graph.classes_len() as usize, TURNS + 1);
    });
}

/// E21.1b: of two commits that define a class by the same number, one is refused.
#[test]
fn concurrent_definitions_have_numbers_without_gaps() {
    const CLASSES: u8 = if cfg!(cedrat_shuttle) { 2 } else { 50 };
    explore(42, SCHEDULES, || {
        let graph = graph_of_threads(1 << 20);
        let define = |who: u8, graph: &Graph| {
            for class in 0..CLASSES {
                let mut number = graph.classes_len() + 1;
                loop {
                    let mut changes = Changes::new();
                    let new = changes.add(number, &[who, class], &[]);
                    changes.define_class(number, &[who, class]).set_root(&format!("{who} {class}"), new);
                    let Err(error) = graph.commit(&changes, Mode::Async) else { break };
                    match GraphError::of(GraphError::cause(&error)) {
                        Some(&GraphError::ClassNumber { next, .. }) => number = next,
                        _ => panic!("{error}"),
                    }
                }
            }
        };
        let other = {
            let graph = graph.clone();
            thread::spawn(move || define(1, &graph))
        };
        define(0, &graph);
        // A reader knows the class of each object that it finds, and may use it.
        for (_, to) in graph.roots().unwrap() {
            let object = graph.object(to.identity().unwrap()).unwrap();
            assert_eq!(graph.class(object.class).unwrap()[..], object.data[..2], "E21.1c");
            let mut changes = Changes::new();
            changes.add(object.class, &object.data, &[]);
            graph.commit(&changes, Mode::Async).expect("E21.1d");
        }
        other.join().unwrap();
        assert_eq!(graph.classes_len(), 1 + 2 * u32::from(CLASSES));
        graph.check().unwrap().expect_sound();
    });
}

/// A commit of an object of a class, which defines the class if it has no number; returns the number.
fn commit_of_class(graph: &Graph, definition: u8, known: Option<u32>, named: Option<u32>) -> Result<u32, Error> {
    let number = known.unwrap_or_else(|| graph.classes_len() + 1);
    let mut changes = Changes::new();
    if known.is_none() {
        changes.define_class(number, &[definition]);
    }
    let name = named.and_then(|class| Reference::value(CLASS_TAG, u64::from(class) << 24)).unwrap_or_default();
    let new = changes.add(number, &[definition; 8], &[name]);
    changes.set_root("newest", new);
    graph.commit(&changes, Mode::Async).map(|_| number)
}

/// E21.12: commits use classes beside collections that drop them, and define dropped ones again.
#[test]
fn class_of_object_stays_defined() {
    const TURNS: u8 = if cfg!(cedrat_shuttle) { 3 } else { 100 };
    explore(43, SCHEDULES, || {
        let options = Options { class_tag: Some(CLASS_TAG), ..Options::default() };
        let options_of_store = cedrat_txn::Options { partitions: 2, ..cedrat_txn::Options::simulated() };
        let graph = Graph::create(&open_on(&Arc::new(SimDisk::new()), options_of_store), NAME, options).unwrap();
        let writer = {
            let graph = graph.clone();
            thread::spawn(move || {
                let mut numbers = [None; 2];
                for turn in 0..TURNS {
                    let [own, other] = [usize::from(turn % 2), usize::from(turn + 1) % 2];
                    loop {
                        match commit_of_class(&graph, own as u8, numbers[own], numbers[other]) {
                            Ok(number) => break numbers[own] = Some(number),
                            Err(error) => match GraphError::of(GraphError::cause(&error)) {
                                Some(&GraphError::ClassDropped { class }) => {
                                    numbers
                                        .iter_mut()
                                        .filter(|known| **known == Some(class))
                                        .for_each(|known| *known = None);
                                }
                                _ => panic!("{error}"),
                            },
                        }
                    }
                }
            })
        };
        for _ in 0..TURNS {
            let mut collection = graph.collect([]).unwrap();
            while collection.step(1).unwrap() != Stage::Done {
                if collection.stage() == Stage::Marked {
                    collection.seal([]).unwrap();
                }
            }
            let unused = collection.unused_classes().unwrap();
            drop(collection.drop_classes(&unused).unwrap());
        }
        writer.join().unwrap();
        graph.check().unwrap().expect_sound();
        let newest = graph.root("newest").unwrap().and_then(Reference::identity).unwrap();
        let object = graph.object(newest).unwrap();
        assert_eq!(graph.class(object.class).as_deref(), Some(&object.data[..1]), "E21.12");
        if let Some((_, named)) = object.references[0].as_value() {
            assert!(graph.class((named >> 24) as u32).is_some(), "E21.12");
        }
    });
}
