//! Objects that are added and removed, in one opening. Crash states: `crash_turnover.rs`.
#![cfg(not(cedrat_shuttle))] // threads: threads.rs

use cedrat_media::Loss;
use cedrat_objects::{ObjectId, Objects, Options, UndoPolicy};
use cedrat_pages::layout::Versioned;
use cedrat_pages::{PageId, Slot};
use cedrat_sync::Arc;
use cedrat_txn::locks::NoLocks;
use cedrat_txn::{Commit, Error, Result, Store, Txn};

use crate::common::{Place, get, is_absent, number, open_on, place, place_with};

/// E19.11: a collection in which as much is removed as inserted keeps its size, for as long as the store is open; an old
/// identity finds nothing.
#[test]
fn emptied_pages_are_refilled() {
    // Length of the objects, number of objects at a time, and number of pages that they fill.
    for (len, count, fill) in [(100, 5, 1), (100, 200, 7), (1000, 5, 2), (3800, 5, 5)] {
        let place = place(UndoPolicy::CommittedOnly);
        let mut given = std::collections::BTreeSet::new();
        let mut live = std::collections::VecDeque::new();
        for turn in 0..4000_u64 {
            let bytes = number(turn, 0, &"x".repeat(len - 9));
            let id = place.transact(|txn| {
                if live.len() == count {
                    let (oldest, _) = live.pop_front().unwrap();
                    place.objects.remove(txn, oldest)?;
                }
                place.objects.insert(txn, &bytes)
            });
            assert!(given.insert(id), "{id} was given away twice");
            live.push_back((id, bytes));
        }
        let pages = place.objects.pages(&place.store).unwrap().len();
        assert!(pages <= 2 * fill + 1, "{pages} pages for {count} objects of {len} bytes");
        let live = std::collections::BTreeMap::from_iter(live);
        let crashed = place.crashed();
        for place in [&place, &crashed] {
            for &id in &given {
                let found = place.objects.read_committed(&place.store, id, <[u8]>::to_vec).ok();
                assert_eq!(found.map(|(bytes, _)| bytes).as_ref(), live.get(&id), "{id}");
            }
            place.check();
        }
        // Old identities are not used any more: numbers begin again in pages without an object.
        live.keys().for_each(|&id| crashed.transact(|txn| crashed.objects.remove(txn, id)));
        crashed.objects.sweep(&crashed.store).unwrap();
        crashed.store.checkpoint().unwrap();
        let crashed = crashed.crashed();
        for page in crashed.objects.pages(&crashed.store).unwrap() {
            crashed.objects.offer_space(&crashed.store, page).unwrap();
        }
        let again: Vec<_> = (0..100).map(|_| crashed.insert(&vec![1; len])).collect();
        assert!(again.iter().any(|id| id.slot.0 == 1), "{:?}", again[0]);
        crashed.check();
    }
}

/// E19.11, E19.14: the page of a reserved place that is not filled yet is emptied meanwhile, as often as others like.
#[test]
fn reserved_place_keeps_its_page() {
    let place = place(UndoPolicy::CommittedOnly);
    let turn_over = |txn: &mut Txn| {
        let id = place.objects.insert(txn, &[1; 1000])?;
        place.objects.remove(txn, id)
    };
    for before in [0, 1, 40, 160] {
        (0..before).for_each(|_| place.transact(turn_over));
        let mut txn = place.begin();
        let reserved = place.objects.reserve(&mut txn, 1000).unwrap();
        let id = reserved.id();
        (0..400).for_each(|_| place.transact(turn_over));
        assert_eq!(place.objects.fill(&mut txn, reserved, b"filled").unwrap(), id);
        txn.commit(Commit::Sync).unwrap();
        assert_eq!(place.crashed().get(id), Some(b"filled".to_vec()));
        place.transact(|txn| place.objects.remove(txn, id));
    }
    let pages = place.objects.pages(&place.store).unwrap().len();
    assert!(pages < 8, "{pages} pages");
    place.check();
}

/// E19.10, E19.11: objects that a branch of an earlier opening has inserted, removed and changed follow its outcome, however
/// often its page is emptied and filled meanwhile; and its places are not given away before.
#[test]
fn page_is_refilled_around_in_doubt_records() {
    use UndoPolicy::{CommittedOnly, Inverses};
    for (undo, is_committed) in [(CommittedOnly, false), (CommittedOnly, true), (Inverses, false), (Inverses, true)] {
        let mut place = place(undo);
        let [goes, changes, other] = [(); 3].map(|()| place.insert(&[1; 900]));
        let mut txn = place.begin();
        let comes = place.objects.insert(&mut txn, &[2; 900]).unwrap();
        place.objects.remove(&mut txn, goes).unwrap();
        place.objects.put(&mut txn, changes, &[3; 900]).unwrap();
        let mut taken_back = comes;
        let refused = txn.nested_transaction(|txn| {
            taken_back = place.objects.insert(txn, &[4; 20])?;
            Err::<(), _>(Error::Misuse("by the application"))
        });
        assert!(refused.is_err() && taken_back != comes);
        drop(txn.prepare(b"branch").unwrap());
        place = place.crashed();
        let mut given = std::collections::BTreeSet::from([goes, changes, other, comes, taken_back]);
        let mut turn_over = |place: &Place| {
            for _ in 0..300 {
                let id = place.insert(&[5; 900]);
                assert!(given.insert(id), "{id} was given away twice");
                place.transact(|txn| place.objects.remove(txn, id));
            }
            place.check();
        };
        place.transact(|txn| place.objects.remove(txn, other));
        turn_over(&place);
        let branch = place.store.prepared(b"branch").unwrap();
        match is_committed {
            true => drop(branch.commit(Commit::Sync).unwrap()),
            false => branch.rollback().unwrap(),
        }
        turn_over(&place);
        let crashed = place.crashed();
        for place in [&place, &crashed] {
            let wanted = if is_committed { [None, Some(3), Some(2)] } else { [Some(1), Some(1), None] };
            for (id, wanted) in [goes, changes, comes].into_iter().zip(wanted) {
                assert_eq!(place.get(id), wanted.map(|byte| vec![byte; 900]), "{id}, {undo:?}, {is_committed}");
            }
            place.check();
        }
        assert!(crashed.objects.pages(&crashed.store).unwrap().len() <= 3);
    }
}

/// E19.11, E19.16: when a page has used all its possible places, others follow.
#[test]
fn page_without_slots_waits_for_opening() {
    let place = place(UndoPolicy::CommittedOnly);
    let mut given = std::collections::BTreeSet::new();
    place.insert(&[0; 3700]); // on the first page
    let mut stays = None;
    for _ in 0..1000 {
        let ids =
            place.transact(|txn| (0..250).map(|_| place.objects.insert(txn, b"object")).collect::<Result<Vec<_>>>());
        // The last one stays until the next ones were inserted.
        let goes = stays.replace(ids[249]);
        place.transact(|txn| ids[..249].iter().chain(&goes).try_for_each(|&id| place.objects.remove(txn, id)));
        ids.into_iter().for_each(|id| assert!(given.insert(id), "{id} was given away twice"));
    }
    place.transact(|txn| stays.iter().try_for_each(|&id| place.objects.remove(txn, id)));
    let last = given.iter().find(|id| id.slot.0 == u16::MAX - 1).expect("a page has given all of them away");
    assert!(
        !take_out_all(&place.store, &place.objects).contains(&last.page),
        "E19.16: it would be of no use if it came back"
    );
    let pages = place.objects.pages(&place.store).unwrap();
    assert!(pages.len() <= 8, "{} pages", pages.len());
    place.objects.sweep(&place.store).unwrap();
    place.store.checkpoint().unwrap();
    place.check();
    let crashed = place.crashed();
    pages.iter().for_each(|&page| crashed.objects.offer_space(&crashed.store, page).unwrap());
    for _ in 0..100 * pages.len() {
        let id = crashed.insert(b"object");
        assert!(pages.contains(&id.page), "it is filled again");
    }
    crashed.check();
}

/// Removes all pages that are not needed, and returns them.
fn take_out_all(store: &Store, objects: &Objects) -> Vec<PageId> {
    let (mut before, mut gone) = (None, Vec::new());
    for page in objects.pages(store).unwrap() {
        let is_out = before.is_some_and(|before| store.transact(|txn| objects.take_out(txn, before, page)).unwrap());
        if is_out { gone.push(page) } else { before = Some(page) }
    }
    gone
}

/// E19.16, E19.11, S6: pages in which nothing has stayed are reused by others, and come back with other places.
#[test]
fn shrinking_object_collection_frees_its_pages() {
    const COUNT: usize = 40;
    let place = place(UndoPolicy::CommittedOnly);
    let (store, objects) = (&place.store, &place.objects);
    let allocated = || store.check().unwrap().pages_allocated;
    let mut given = std::collections::BTreeSet::new();
    let other = Objects::create(store, "other", place.options).unwrap();
    let fill = |objects: &Objects, byte| -> Vec<ObjectId> {
        (0..COUNT).map(|_| store.transact(|txn| objects.insert(txn, &[byte; 3700])).unwrap()).collect()
    };
    let mut most = 0;
    for turn in 0..3 {
        let ids = fill(objects, 1);
        ids.iter().for_each(|&id| assert!(given.insert(id), "{id} was given away twice"));
        most = most.max(allocated());
        let full = allocated();
        place.transact(|txn| ids[1..COUNT - 1].iter().try_for_each(|&id| objects.remove(txn, id)));
        let gone = take_out_all(store, objects);
        assert!(gone.len() >= COUNT - 4, "{} pages of {COUNT}", gone.len());
        assert_eq!(allocated(), full - gone.len() as u64);
        for &page in &gone {
            let view = store.read(page).unwrap();
            assert_eq!(Versioned::of(&view).unwrap().get(Slot(0)).unwrap(), None, "S6: page {page}");
        }
        place.check();
        // Also after their blocks were given back to the file system.
        (0..2).for_each(|_| store.checkpoint().unwrap());
        ids[1..COUNT - 1].iter().for_each(|&id| assert_eq!(place.get(id), None));
        // Another collection has the pages, and old identities do not find anything in them.
        let others = fill(&other, 2);
        assert!(others.iter().any(|id| gone.contains(&id.page)), "no other page has one");
        for &id in &ids[1..COUNT - 1] {
            assert_eq!(place.get(id), None);
            assert!(objects.read_committed(store, id, |_| ()).is_err());
            assert!(is_absent(&store.transact(|txn| objects.remove(txn, id)).unwrap_err()));
        }
        others.iter().for_each(|&id| assert_eq!(get(store, &other, id), Some(vec![2; 3700])));
        other.check(&store.begin()).unwrap().expect_sound();
        let crashed = place.crashed();
        assert_eq!(crashed.get(ids[0]), Some(vec![1; 3700]));
        crashed.check();
        store.transact(|txn| others.iter().try_for_each(|&id| other.remove(txn, id))).unwrap();
        take_out_all(store, &other);
        place.transact(|txn| [ids[0], ids[COUNT - 1]].iter().try_for_each(|&id| objects.remove(txn, id)));
        assert!(turn == 0 || allocated() < most);
    }
    assert!(most < 4 * COUNT as u64, "{most} pages");
    place.check();
}

/// E19.10, E19.16: a page stays while a place in it is reserved, or an insertion or a removal is not committed, or in doubt.
#[test]
fn needed_page_is_not_removed() {
    for undo in [UndoPolicy::CommittedOnly, UndoPolicy::Inverses] {
        let mut place = place(undo);
        let insert = |place: &Place| place.insert(&[1; 3700]);
        let ids: Vec<_> = (0..5).map(|_| insert(&place)).collect();
        let out = |place: &Place| take_out_all(&place.store, &place.objects);
        assert_eq!(out(&place), []);
        let mut txn = place.begin();
        place.objects.remove(&mut txn, ids[1]).unwrap();
        assert_eq!(out(&place), [], "it may come back");
        txn.rollback().unwrap();
        place.transact(|txn| place.objects.remove(txn, ids[1]));
        let mut txn = place.begin();
        let reserved = place.objects.reserve(&mut txn, 3700).unwrap();
        assert_eq!(reserved.id().page, ids[1].page);
        assert_eq!(out(&place), [], "it was promised");
        place.objects.fill(&mut txn, reserved, &[2; 3700]).unwrap();
        assert_eq!(out(&place), [], "it has a record");
        txn.rollback().unwrap();
        let mut txn = place.begin();
        let comes = place.objects.insert(&mut txn, &[2; 3700]).unwrap();
        place.objects.remove(&mut txn, ids[3]).unwrap();
        drop(txn.prepare(b"branch").unwrap());
        assert!(!out(&place).contains(&comes.page));
        place = place.crashed();
        assert!(!out(&place).contains(&ids[3].page) && !out(&place).contains(&comes.page), "in doubt");
        place.store.prepared(b"branch").unwrap().rollback().unwrap();
        assert_eq!(place.get(ids[3]), Some(vec![1; 3700]));
        place.transact(|txn| place.objects.remove(txn, ids[3]));
        assert!(out(&place).contains(&ids[3].page));
        let crashed = place.crashed();
        for place in [&place, &crashed] {
            assert!(!place.objects.pages(&place.store).unwrap().contains(&ids[3].page));
            place.check();
        }
    }
}

/// E19.16: a page that could not leave is filled again.
#[test]
fn page_is_reoffered_after_failed_removal() {
    let place = place(UndoPolicy::CommittedOnly);
    let ids = [(); 3].map(|()| place.insert(&[1; 3700]));
    place.transact(|txn| place.objects.remove(txn, ids[1]));
    // The removal is known from here on; this object fits behind it.
    assert_eq!(place.insert(&[3; 50]).page, ids[2].page);
    let mut txn = place.begin();
    txn.free(ids[1].page).unwrap();
    place.objects.take_out(&mut txn, ids[0].page, ids[1].page).expect_err("a page is freed once");
    txn.rollback().unwrap();
    assert_eq!(place.objects.pages(&place.store).unwrap(), ids.map(|id| id.page));
    assert_eq!(place.insert(&[2; 3700]).page, ids[1].page);
    place.check();
    place.crashed().check();
}

/// E19.10: also without locks, which would show it.
#[test]
fn a_sweep_leaves_what_is_in_doubt() {
    let of_store = || cedrat_txn::Options {
        locks: Arc::new(NoLocks),
        checkpoint_when_opened: false,
        ..cedrat_txn::Options::simulated()
    };
    let options = Options { undo: UndoPolicy::Inverses, ..Options::default() };
    let place = place_with(options, of_store());
    let id = place.insert(b"may come back");
    let mut txn = place.begin();
    place.objects.remove(&mut txn, id).unwrap();
    drop(txn.prepare(b"branch").unwrap());
    let disk = Arc::new(place.disk.journal().crash(place.disk.journal_len(), Loss::Everything));
    let store = open_on(&disk, of_store());
    let objects = Objects::open(&store, "objects", options).unwrap();
    assert_eq!(objects.sweep(&store).unwrap(), 0);
    store.prepared(b"branch").unwrap().rollback().unwrap();
    assert_eq!(get(&store, &objects, id), Some(b"may come back".to_vec()));
    store.transact(|txn| objects.remove(txn, id)).unwrap();
    assert_eq!(get(&store, &objects, id), None);
}
