//! Graphs, without crashes except a clean restart. Crash states: `graph_crash_graph.rs`.
#![cfg(not(cedrat_shuttle))] // threads: graph_threads.rs

use cedrat_objects::ObjectError;
use cedrat_objects::graph::{Changes, Graph, GraphError, Identity, Mode, Object, Options, Reference, Stage};
use cedrat_structures::{Checked, StructureError};
use cedrat_txn::Error;
use proptest::prelude::*;

use crate::graph_common::{self, NAME, is_absent, just, pattern, place, place_with};

/// E21.2: new objects refer to each other before any of them exists.
#[test]
fn cyclic_objects_are_created_in_one_commit() {
    let place = place();
    let mut changes = Changes::new();
    let second = changes.next(1);
    let first = changes.add(1, b"first", &[second, Reference::NULL]);
    changes.add(1, b"second", &[first, second, Reference::value(7, 5).unwrap()]);
    changes.set_root("both", first);
    let ids = place.commit(&changes);
    let crashed = place.crashed();
    for place in [&place, &crashed] {
        assert_eq!(place.graph.root("both").unwrap(), Some(ids[0].into()));
        let first = place.object(ids[0]);
        assert_eq!((first.class, &first.data[..]), (1, &b"first\0\0\0"[..]));
        assert_eq!(first.references, [ids[1].into(), Reference::NULL]);
        let second = place.object(ids[1]);
        let value = Reference::value(7, 5).unwrap();
        assert_eq!(second.references, [ids[0].into(), ids[1].into(), value]);
        place.check();
    }
}

#[test]
fn patches_and_puts_apply_in_order() {
    let place = place();
    let other = place.add(b"other", &[]);
    let id = place.add(b"12345678", &[Reference::NULL]);
    let mut changes = Changes::new();
    let new = changes.add(1, b"new", &[other.into()]);
    changes.patch(id, 10, b"xy").patch(id, 12, b"z").patch_reference(id, 16, new);
    changes.patch(id, 32, &other.get().to_le_bytes());
    let ids = place.commit(&changes);
    let crashed = place.crashed();
    for place in [&place, &crashed] {
        let object = place.object(id);
        assert_eq!(&object.data, b"12xyz678");
        assert_eq!(object.references, [ids[0].into(), Reference::NULL, other.into()]);
        place.check();
    }
    let mut changes = Changes::new();
    changes.put(id, 1, b"", &[other.into()]).patch_reference(id, 8, Reference::NULL);
    place.commit(&changes);
    assert_eq!(place.object(id), Object { class: 1, data: vec![], references: vec![Reference::NULL] });
}

#[test]
fn roots_are_named_listed_and_taken_away() {
    let place = place();
    let id = place.add(b"", &[]);
    let mut changes = Changes::new();
    changes.set_root("b", id).set_root("a", id).set_root("", id).set_root("c", Reference::value(1, 1).unwrap());
    place.commit(&changes);
    changes = Changes::new();
    changes.remove_root("b").remove_root("never there").set_root("a", Reference::value(2, 2).unwrap());
    place.commit(&changes);
    let crashed = place.crashed();
    for place in [&place, &crashed] {
        let roots = place.graph.roots().unwrap();
        let names: Vec<&str> = roots.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["", "a", "c"]);
        assert_eq!(place.graph.root("a").unwrap(), Reference::value(2, 2));
        assert_eq!(place.graph.root("b").unwrap(), None);
        place.check();
    }
}

#[test]
fn classes_are_numbered_and_read_back() {
    let place = place();
    let long = pattern(10_000, 3);
    assert_eq!(place.graph.define_class(&long).unwrap(), 2);
    assert_eq!(place.graph.define_class(b"").unwrap(), 3);
    place.add(b"", &[]); // durable, and so are the commits before it
    let crashed = place.crashed();
    for place in [&place, &crashed] {
        let classes = place.graph.classes();
        assert_eq!(classes, [&b"the only one"[..], &long, b""].map(|class| Some(class.into())));
        place.check();
    }
    assert_eq!(crashed.graph.define_class(b"next").unwrap(), 4);
    let too_long = vec![0; (1 << 24) + 1];
    assert!(matches!(place.graph.define_class(&too_long), Err(Error::TooLarge { .. })));
}

/// E21.1b: in whatever order the entries are.
#[test]
fn refused_commit_defines_no_class() {
    let place = place();
    let id = place.add(b"12345678", &[]);
    let long = pattern(10_000, 3);
    let make = |patched| {
        let mut changes = Changes::new();
        let new = changes.add(3, b"of the second", &[]);
        changes.define_class(2, &long).define_class(3, b"");
        changes.set_root("new", new).put(id, 2, b"of the first", &[]).patch(patched, 8, b"x");
        changes
    };
    let absent = Identity::new(id.get() + 77).unwrap();
    assert!(is_absent(&place.graph.commit(make(absent), Mode::Sync).unwrap_err()));
    for place in [&place, &place.crashed()] {
        assert_eq!((place.graph.classes_len(), place.graph.class(2)), (1, None));
        place.check();
        let new = place.commit(&make(id))[0];
        for place in [place, &place.crashed()] {
            assert_eq!(place.graph.classes(), [&b"the only one"[..], &long, b""].map(|class| Some(class.into())));
            assert_eq!((place.object(id).class, place.object(new).class), (2, 3));
            place.check();
        }
    }
}

#[test]
fn class_needs_next_number() {
    let place = place();
    let refused = |make: &dyn Fn(&mut Changes)| {
        let mut changes = Changes::new();
        make(&mut changes);
        let error = place.graph.commit(&changes, Mode::Sync).unwrap_err();
        assert_eq!(place.graph.classes_len(), 1);
        error.to_string()
    };
    assert!(refused(&|changes| just(changes.define_class(3, b""))).contains("the next number is 2"));
    assert!(refused(&|changes| just(changes.define_class(1, b""))).contains("the next number is 2"));
    assert!(refused(&|changes| just(changes.define_class(0, b""))).contains("cannot have the number 0"));
    assert!(refused(&|changes| just(changes.define_class(2, b"").define_class(4, b""))).contains("behind class 2"));
    let too_long = vec![0; (1 << 24) + 1];
    assert!(refused(&|changes| just(changes.define_class(2, &too_long))).contains("16777216"));
    let without_class = |changes: &mut Changes| just(changes.define_class(2, b"").add(3, b"", &[]));
    assert!(refused(&without_class).contains("class is 3"));
}

/// Also objects that no root reaches; pieces are not objects.
#[test]
fn all_objects_are_listed_page_by_page() {
    let place = place();
    let mut ids: Vec<Identity> =
        [8, 10_000, 3000, 3000, 2_000_000, 0].map(|len| place.add(&pattern(len, 0), &[])).to_vec();
    let removed = ids.remove(2);
    place.commit(Changes::new().set_root("root", ids[1]));
    ids.sort_unstable();
    let all = |place: &graph_common::Place| {
        let pages = place.graph.object_pages().unwrap();
        let of_page = |page| place.graph.objects_of_page(page).unwrap();
        let mut all: Vec<Identity> = pages.into_iter().flat_map(of_page).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(all(&place).len(), ids.len() + 1);
    let mut collection = place.graph.collect(ids.clone()).unwrap();
    while collection.step(100).unwrap() != Stage::Done {
        if collection.stage() == Stage::Marked {
            collection.seal([]).unwrap();
        }
    }
    drop(collection);
    assert!(is_absent(&place.graph.read(removed).unwrap_err()));
    assert_eq!(all(&place), ids);
    assert_eq!(all(&place.crashed()).len(), ids.len() + 1, "what was removed was not durable");
}

/// An object may become long, short, longer, and any length in between.
#[test]
fn objects_of_any_length_can_be_replaced() {
    let place = place();
    let other = place.add(b"other", &[]);
    let id = place.add(b"", &[]);
    for (turn, len) in [3784, 3792, 3800, 8, 100_000, 7584, 7592, 100_000, 100_008, 0].into_iter().enumerate() {
        let data = pattern(len, turn as u64);
        let mut changes = Changes::new();
        changes.put(id, 1, &data, &[other.into(), Reference::NULL]);
        let new = changes.add(1, &data, &[]);
        changes.patch_reference(id, 8 + len.next_multiple_of(8) as u32, new);
        let new = place.commit(&changes)[0];
        let crashed = place.crashed();
        for place in [&place, &crashed] {
            let object = place.object(id);
            assert_eq!((object.data == data, object.references), (true, vec![new.into(), Reference::NULL]), "{len}");
            assert_eq!(place.object(new).data, data);
            place.check();
        }
    }
}

/// Two levels of nodes: more pieces than a head has words for.
#[test]
fn object_has_as_many_pieces_as_needed() {
    let place = place_with(cedrat_txn::Options { log_limit_bytes: 64 << 20, ..cedrat_txn::Options::simulated() });
    let data = pattern(4 << 20, 1);
    let id = place.add(&data, &[]);
    assert!(place.object(id).data == data);
    place.check();
    let mut changes = Changes::new();
    // Pieces in the first, the middle and the last part, and behind the end.
    changes.patch(id, 8, b"begin").patch(id, 2_000_000, &pattern(10_000, 2)).patch(id, (4 << 20) + 1, b"the end");
    changes.patch_reference(id, (6 << 20) + 8, id);
    place.graph.commit(&changes, Mode::Async).unwrap().wait().unwrap();
    let mut expected = data;
    expected[..5].copy_from_slice(b"begin");
    expected[2_000_000 - 8..][..10_000].copy_from_slice(&pattern(10_000, 2));
    expected[(4 << 20) - 7..].copy_from_slice(b"the end");
    let crashed = place.crashed();
    for place in [&place, &crashed] {
        let object = place.object(id);
        assert!(object.data == expected[..4 << 20]);
        assert_eq!(object.references.len(), (2 << 20) / 8 + 1);
        assert_eq!(object.references.last(), Some(&id.into()));
        assert!(object.references[1..(2 << 20) / 8].iter().all(|&word| word == Reference::NULL));
        place.check();
    }
}

/// E21.1: a refused commit changes nothing, and the error names the entry.
#[test]
fn refused_commit_names_entry_and_changes_nothing() {
    let place = place();
    let id = place.add(b"12345678", &[Reference::NULL]);
    let long = place.add(&pattern(9000, 0), &[]);
    let piece = (1..1000_u64).map(|slot| Identity::new(long.get() & !0xffff | slot).unwrap());
    let piece = piece.chain((1..40).map(|page| Identity::new(((long.get() >> 16) + page) << 16 | 1).unwrap()));
    let pieces: Vec<Identity> = piece.filter(|&at| place.graph.read(at).is_err()).collect();
    let before = place.graph.check().unwrap();
    let refused = |change: &dyn Fn(&mut Changes)| {
        let mut changes = Changes::new();
        changes.add(1, b"lost", &[]);
        changes.patch(id, 8, b"lost").set_root("lost", id);
        change(&mut changes);
        changes.set_root("lost", Reference::NULL);
        let error = place.graph.commit(&changes, Mode::Sync).unwrap_err();
        let words = error.to_string();
        // Two entries of 24 bytes and one with a short name before it.
        assert!(words.starts_with("entry 3, at byte 80 of the changes: "), "{words}");
        assert_eq!(&place.object(id).data, b"12345678");
        assert_eq!(place.graph.root("lost").unwrap(), None);
        assert_eq!(place.graph.check().unwrap(), before);
        words
    };
    let none = Identity::new(id.get() + 77).unwrap();
    let far = Identity::new(1 << 40 | 1).unwrap();
    for absent in [none, far].into_iter().chain(pieces.iter().copied().take(3)) {
        assert!(refused(&|changes| just(changes.patch(absent, 8, b"x"))).contains("no object"));
        assert!(refused(&|changes| just(changes.put(absent, 1, b"", &[]))).contains("no object"));
        // E21.4.
        assert!(refused(&|changes| just(changes.set_root("root", absent))).contains("no object"));
    }
    assert!(refused(&|changes| just(changes.patch(id, 7, b"xx"))).contains("put the object anew"));
    assert!(refused(&|changes| just(changes.patch(id, 20, &[0; 4]))).contains("whole words"));
    assert!(refused(&|changes| just(changes.patch(id, 12, &[0; 6]))).contains("whole words"));
    assert!(refused(&|changes| just(changes.patch(long, 9008, &[0; 4]))).contains("whole words"));
    assert!(refused(&|changes| just(changes.patch_reference(id, 16, Reference::from_word(5)))).contains("is invalid"));
    let next = Changes::new().next(9);
    assert!(refused(&|changes| just(changes.patch_reference(id, 16, next))).contains("new object 9"));
    assert!(refused(&|changes| just(changes.patch(id, u32::MAX, b"x"))).contains("where no object does"));
    assert!(refused(&|changes| just(changes.set_root("new", next))).contains("new object 9"));
    assert!(refused(&|changes| just(changes.set_root(&"x".repeat(1025), id))).contains("1025 bytes"));
    assert!(refused(&|changes| just(changes.add(0, b"", &[]))).contains("class is 0"));
    assert!(refused(&|changes| just(changes.add(2, b"", &[]))).contains("there are 1"));
    assert!(refused(&|changes| just(changes.put(id, 1, b"", &[next]))).contains("new object 9"));
    place.check();
}

#[test]
fn unknown_object_is_not_read() {
    let place = place();
    let id = place.add(b"", &[]);
    for number in [id.get() + 1, 1 << 16 | 1, (1 << 55) | 1] {
        let error = place.graph.read(Identity::new(number).unwrap()).unwrap_err();
        assert!(is_absent(&error), "{error}");
    }
}

/// The changes of one commit must fit the cache; new objects do not count.
#[test]
fn commit_larger_than_cache_is_refused() {
    let disk = cedrat_sync::Arc::new(cedrat_media::SimDisk::new());
    let store = graph_common::open_on(&disk, cedrat_txn::Options::simulated());
    let graph = Graph::create(&store, NAME, Options { cache_bytes: 50_000, ..Options::default() }).unwrap();
    graph.define_class(b"").unwrap();
    let mut changes = Changes::new();
    (0..100).for_each(|_| just(changes.add(1, &[1; 2000], &[])));
    let ids = graph.commit(&changes, Mode::Sync).unwrap().identities;
    changes = Changes::new();
    ids.iter().for_each(|&id| just(changes.put(id, 1, &[2; 2000], &[])));
    let error = graph.commit(&changes, Mode::Sync).unwrap_err();
    let cause = ObjectError::of(GraphError::cause(&error));
    assert!(matches!(cause, Some(ObjectError::CacheFull { .. })), "{error}");
    assert!(ids.iter().all(|&id| graph.object(id).unwrap().data == [1; 2000]));
    assert!(matches!(Graph::open(&store, NAME, Options::default()), Err(Error::Misuse(_))), "other options");
}

#[test]
fn graphs_have_names_and_are_dropped() {
    let place = place();
    let store = place.graph.store().clone();
    assert!(Graph::create(&store, NAME, Options::default()).is_err());
    let before = store.check().unwrap().pages_allocated;
    let other = Graph::open_or_create(&store, "other", Options::default()).unwrap();
    other.define_class(b"").unwrap();
    let mut changes = Changes::new();
    let new = changes.add(1, &pattern(20_000, 0), &[]);
    changes.set_root("root", new);
    other.commit(&changes, Mode::Sync).unwrap();
    let again = Graph::open_or_create(&store, "other", Options::default()).unwrap();
    assert_eq!(again.roots().unwrap().len(), 1);
    let object = again.root("root").unwrap().and_then(Reference::identity).unwrap();
    assert!(again.read(object).is_ok());
    let error = again.clone().drop(NAME).unwrap_err();
    assert!(matches!(StructureError::of(&error), Some(StructureError::WrongRoot { .. })), "{error}");
    other.drop("other").unwrap();
    assert!(again.commit(&changes, Mode::Sync).is_err());
    let error = again.read(object).unwrap_err();
    assert!(matches!(StructureError::of(&error), Some(StructureError::Gone { .. })), "S5: {error}");
    assert!(Graph::open(&store, "other", Options::default()).is_err());
    assert_eq!(store.check().unwrap().pages_allocated, before);
    place.check();
}

/// All bytes of a gap would have to be written.
#[test]
fn patch_far_beyond_end_is_refused() {
    let place = place();
    let id = place.add(b"", &[]);
    let refused = |offset: u32| {
        let error = place.graph.commit(Changes::new().patch(id, offset, &[0; 8]), Mode::Sync).unwrap_err();
        assert!(matches!(GraphError::of(GraphError::cause(&error)), Some(GraphError::DoesNotFit { .. })), "{error}");
    };
    refused((16 << 20) + 16);
    refused((1 << 31) - 8);
    place.commit(Changes::new().patch(id, 100_000, &[0; 8]));
    assert_eq!(place.graph.read(id).unwrap().len(), 100_008);
}

/// A change of one object by a caller.
#[derive(Clone, Debug)]
enum Does {
    Patch(usize, usize),
    Put(usize, usize),
}

fn does() -> impl Strategy<Value = Does> {
    let at = prop_oneof![0..60_usize, 3700..3900_usize, 0..20_000_usize];
    prop_oneof![
        3 => (at.clone(), prop_oneof![0..40_usize, 0..9_000_usize]).prop_map(|(at, len)| Does::Patch(at, len)),
        1 => (at, 0..3_usize).prop_map(|(len, references)| Does::Put(len, references)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Patches and puts of any place and length change an object like a vector.
    #[test]
    fn an_object_is_as_its_model(turns in prop::collection::vec(prop::collection::vec(does(), 1..5), 1..6)) {
        let place = place();
        let id = place.add(b"", &[]);
        let mut model = place.graph.read(id).unwrap();
        for (turn, turns) in turns.iter().enumerate() {
            let mut changes = Changes::new();
            for does in turns {
                match *does {
                    Does::Put(len, references) => {
                        let data = pattern(len.next_multiple_of(8), turn as u64);
                        let references = vec![Reference::from(id); references];
                        changes.put(id, 1, &data, &references);
                        model = [&1_u32.to_le_bytes()[..], &(data.len() as u32).to_le_bytes(), &data].concat();
                        references.iter().for_each(|word| model.extend(word.word().to_le_bytes()));
                    }
                    Does::Patch(at, len) => {
                        let data_end = 8 + u32::from_le_bytes(*model[4..].first_chunk().unwrap()) as usize;
                        let at = at + 8;
                        // Any bytes in the data, whole words behind them.
                        let (at, end) = if at + len <= data_end {
                            (at, at + len)
                        } else {
                            (if at < data_end { at } else { at & !7 }, (at + len) & !7)
                        };
                        let end = end.max(at);
                        let mut bytes = pattern(end - at, 5 + turn as u64);
                        if end > data_end {
                            let first = data_end.saturating_sub(at);
                            bytes[first..].as_chunks_mut().0.iter_mut().for_each(|word| *word = id.get().to_le_bytes());
                        }
                        changes.patch(id, at as u32, &bytes);
                        if !bytes.is_empty() {
                            model.resize(model.len().max(end), 0);
                            model[at..end].copy_from_slice(&bytes);
                        }
                    }
                }
            }
            place.commit(&changes);
            prop_assert!(place.graph.read(id).unwrap() == model);
        }
        place.check();
        prop_assert!(place.crashed().graph.read(id).unwrap() == model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// E21.1: invalid changes are refused by name, and nothing has happened, whatever their bytes are.
    #[test]
    fn any_bytes_are_changes_or_refused(
        flips in prop::collection::vec((0..400_usize, any::<u8>()), 1..4),
        cut in prop::option::of(0..400_usize),
    ) {
        let place = place();
        let id = place.add(b"12345678", &[Reference::NULL]);
        let now = || {
            let Checked { elements, problems, .. } = place.graph.check().unwrap();
            (elements, problems, place.graph.roots().unwrap(), place.graph.read(id).unwrap())
        };
        let before = now();
        let mut changes = Changes::new();
        let new = changes.add(1, b"new", &[id.into(), changes.next(1)]);
        changes.add(1, &[7; 64], &[]);
        changes.patch(id, 9, b"xyz").patch_reference(id, 24, new).put(id, 1, b"put", &[new, new]).set_root("new", new);
        let mut bytes = changes.as_bytes().to_vec();
        for (at, byte) in flips {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(cut.unwrap_or(bytes.len()).max(1));
        if let Err(error) = place.graph.commit(&bytes, Mode::Async) {
            // A patch far behind the end needs more log than there is.
            let is_too_much = matches!(error, Error::PinsLog { .. } | Error::LogFull { .. });
            prop_assert!(is_too_much || error.to_string().starts_with("entry "), "{}", error);
            prop_assert_eq!(now(), before);
        }
    }
}
