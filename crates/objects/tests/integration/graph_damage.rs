//! Graphs with invalid bytes: an error or a problem that names page and slot, never a wrong object.
#![cfg(not(cedrat_shuttle))]

use cedrat_media::Loss;
use cedrat_objects::graph::{Changes, Graph, GraphError, Identity, Mode, Options, Reference};
use cedrat_objects::{ObjectId, Objects};
use cedrat_pages::{PageId, PoolError, Slot};
use cedrat_structures::RawHashTable;
use cedrat_sync::Arc;
use cedrat_txn::{Commit, Error, Txn};

use crate::graph_common::{NAME, Place, just, open_on, pattern, place, underneath};

fn at(identity: Identity) -> ObjectId {
    ObjectId::new(PageId::new(identity.get() >> 16), Slot((identity.get() & 0xffff) as u16))
}

/// Changes records as a graph never does.
fn behind_its_back(place: &Place, work: impl FnOnce(&Objects, &mut Txn)) {
    let objects = underneath(&place.graph);
    let mut txn = place.graph.store().begin();
    work(&objects, &mut txn);
    txn.commit(Commit::Async).unwrap();
}

/// Returns the only problem, which names this object.
#[track_caller]
fn problem(place: &Place, identity: Identity) -> String {
    let checked = place.graph.check().unwrap();
    let [problem] = &checked.problems[..] else { panic!("one problem was to be found: {:?}", checked.problems) };
    let named = format!("page {}: the object at {}: ", identity.get() >> 16, at(identity));
    assert!(problem.starts_with(&named), "{problem}");
    problem[named.len()..].to_string()
}

/// Makes an object that is a root, with one reference and so many bytes.
fn root(place: &Place, len: usize) -> Identity {
    let mut changes = Changes::new();
    let new = changes.add(1, &pattern(len, 0), &[Reference::NULL]);
    changes.set_root("root", new);
    place.commit(&changes)[0]
}

/// Returns the pieces of an object, which has two.
fn pieces(place: &Place, identity: Identity) -> [Identity; 2] {
    let read = |bytes: &[u8]| {
        assert_eq!(bytes.len(), 24 + 16);
        [24, 32].map(|from| u64::from_le_bytes(*bytes[from..].first_chunk().unwrap()))
    };
    let objects = underneath(&place.graph);
    let words = objects.read(&mut place.graph.store().begin(), at(identity), read).unwrap();
    words.map(|word| Identity::new(word).unwrap())
}

/// E21.4.
#[test]
fn dangling_references_are_reported() {
    let place = place();
    for len in [8, 6000] {
        let id = root(&place, len);
        let to = |word: u64| {
            place.commit(Changes::new().patch_reference(id, 8 + len as u32, Reference::from_word(word)));
        };
        place.check();
        to(id.get() + 300);
        assert!(problem(&place, id).contains("is not an object"));
        to(id.get());
        place.check();
        if len > 4000 {
            to(pieces(&place, id)[0].get());
            assert!(problem(&place, id).contains("is not an object"));
        }
    }
}

#[test]
fn dangling_roots_are_reported() {
    let place = place();
    let id = root(&place, 8);
    let store = place.graph.store();
    let roots = PageId::new(store.read(place.graph.root_page()).unwrap().u64_at(8).unwrap());
    let table = RawHashTable::open(store, roots).unwrap();
    store.transact(|txn| table.put(txn, b"lost", &(id.get() + 300).to_le_bytes()).map(just)).unwrap();
    let problems = place.graph.check().unwrap().problems;
    assert!(problems.len() == 1 && problems[0].contains("the root \"lost\" refers to"), "{problems:?}");
}

#[test]
fn unreachable_object_may_dangle() {
    let place = place();
    let id = place.add(b"", &[Reference::NULL]);
    place.commit(Changes::new().patch_reference(id, 8, Identity::new(id.get() + 300).unwrap()));
    place.check();
}

/// E21.4: a read reports it, too.
#[test]
fn invalid_pieces_are_reported() {
    let place = place();
    for case in 0..4 {
        let id = root(&place, 6000);
        let [first, second] = pieces(&place, id);
        behind_its_back(&place, |objects, txn| match case {
            0 => objects.remove(txn, at(first)).unwrap(),
            1 => objects.put(txn, at(second), &[0, 0, 0, 0, 3, 0, 0, 0, 1, 2]).unwrap(),
            2 => objects.put(txn, at(second), b"\x01\0\0\0\0\0\0\0").unwrap(),
            _ => objects.put(txn, at(first), &[0, 0, 0, 0, 2, 1, 0, 0]).unwrap(),
        });
        problem(&place, id);
        let error = place.graph.read(id).unwrap_err().to_string();
        assert!(error.starts_with("pages, byte "), "{error}");
        if case != 1 {
            assert_damage(&place, Changes::new().patch(id, 8, &pattern(6000, 1)));
        }
    }
}

/// A commit reports damage, too, and not a mistake of its caller.
#[track_caller]
fn assert_damage(place: &Place, changes: &Changes) {
    let error = place.graph.commit(changes, Mode::Sync).unwrap_err();
    assert!(matches!(GraphError::cause(&error), Error::Pages(PoolError::Damaged { .. })), "{error}");
}

/// The object is shorter than its header.
#[test]
fn long_object_has_length_of_header() {
    let place = place();
    for len in 1..8 {
        let id = root(&place, 8);
        behind_its_back(&place, |objects, txn| {
            let leaf = objects.insert(txn, &[&[0, 0, 0, 0, 3, 0, 0, 0], &vec![1; len][..]].concat()).unwrap();
            let head =
                [[1_u64 << 32, len as u64, 0, leaf.page.get() << 16 | u64::from(leaf.slot.0)].map(u64::to_le_bytes)];
            objects.put(txn, at(id), head.concat().as_flattened()).unwrap();
        });
        let problems = place.graph.check().unwrap().problems;
        assert!(problems.iter().any(|problem| problem.contains("shorter than an object's header")), "{problems:?}");
        let error = place.graph.object(id).unwrap_err().to_string();
        assert!(error.starts_with("pages, byte "), "{error}");
        assert!(place.graph.collect([]).unwrap().step(9).is_err());
        assert_damage(&place, Changes::new().patch(id, 8, &[0; 8]));
        behind_its_back(&place, |objects, txn| objects.remove(txn, at(id)).unwrap());
    }
}

#[test]
fn invalid_definitions_are_reported() {
    let place = place();
    let store = place.graph.store();
    let classes = PageId::new(store.read(place.graph.root_page()).unwrap().u64_at(16).unwrap());
    let table = RawHashTable::open(store, classes).unwrap();
    store.transact(|txn| table.put(txn, b"no number", b"no definition").map(just)).unwrap();
    let disk = Arc::new(place.disk.journal().crash(place.disk.journal_len(), Loss::Everything));
    let again = open_on(&disk, cedrat_txn::Options::simulated());
    let error = Graph::open(&again, NAME, Options::default()).unwrap_err();
    assert!(matches!(error, Error::Pages(PoolError::Damaged { .. })), "{error}");
}

#[test]
fn shared_piece_is_reported() {
    let place = place();
    let first = root(&place, 6000);
    place.commit(Changes::new().set_root("a", first));
    let second = root(&place, 6000);
    behind_its_back(&place, |objects, txn| {
        let head = objects.read(txn, at(first), <[u8]>::to_vec).unwrap();
        objects.put(txn, at(second), &head).unwrap();
    });
    let problems = place.graph.check().unwrap().problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems.iter().all(|problem| problem.contains("as well")), "{problems:?}");
}

#[test]
fn invalid_objects_are_reported() {
    let place = place();
    let nonsense: [&[u8]; 8] = [
        b"\x01\0",
        b"\x01\0\0\0\x04\0\0\0",
        b"\x01\0\0\0\x08\0\0\0",
        b"\x01\0\0\0\0\0\0\0abc",
        &[0, 0, 0, 0, 1, 0, 0, 0, 200, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 0, 0, 9, 0, 0, 0],
        &[0, 0, 0, 0],
        // A height above that of any object.
        &[0, 0, 0, 0, 1, 9, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 9, 0, 0, 0, 0, 0],
    ];
    for bytes in nonsense {
        let id = root(&place, 8);
        behind_its_back(&place, |objects, txn| objects.put(txn, at(id), bytes).unwrap());
        let problems = place.graph.check().unwrap().problems;
        assert!(problems.iter().any(|problem| problem.contains(&at(id).to_string())), "{bytes:?}: {problems:?}");
        let error = place.graph.object(id).unwrap_err().to_string();
        assert!(error.starts_with("pages, byte "), "{bytes:?}: {error}");
        assert!(place.graph.collect([]).unwrap().step(9).is_err(), "{bytes:?}: what it leads to is not known");
        assert_damage(&place, Changes::new().patch(id, 8, &[0; 8]));
        behind_its_back(&place, |objects, txn| objects.remove(txn, at(id)).unwrap());
    }
    let id = root(&place, 8);
    behind_its_back(&place, |objects, txn| objects.put(txn, at(id), b"\x05\0\0\0\0\0\0\0").unwrap());
    assert!(problem(&place, id).contains("its class is 5, but there are 1"));
}
