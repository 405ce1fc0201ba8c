//! Objects that come and go, in one opening. Every crash: `crash_turnover.rs`.
#![cfg(not(cedrat_shuttle))] // threads: threads.rs

mod common;

use cedrat_objects::UndoPolicy;
use cedrat_txn::{Commit, Error, Result, Txn};
use common::{Place, number, place};

/// E19.11: a collection in which as much is removed as inserted stays as it is, for as long as the store is open; and who still
/// has an old identity in his hands finds nothing by it.
#[test]
fn pages_are_filled_as_often_as_they_are_emptied() {
    // Of how many bytes objects are, how many there are at a time, and how many pages those fill.
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
        // Nobody has any of the others now: they begin again, where a page has no object.
        live.keys().for_each(|&id| crashed.transact(|txn| crashed.objects.remove(txn, id)));
        crashed.objects.sweep(&crashed.store).unwrap();
        crashed.store.checkpoint().unwrap();
        let crashed = crashed.crashed();
        for page in crashed.objects.pages(&crashed.store).unwrap() {
            crashed.objects.offer_room(&crashed.store, page).unwrap();
        }
        let again: Vec<_> = (0..100).map(|_| crashed.insert(&vec![1; len])).collect();
        assert!(again.iter().any(|id| id.slot.0 == 1), "{:?}", again[0]);
        crashed.check();
    }
}

/// E19.11, E19.14: the page of a place that was chosen, and is not filled yet, is emptied meanwhile as often as others like.
#[test]
fn a_place_that_was_chosen_does_not_go() {
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

/// E19.10, E19.11: what a branch of an earlier opening has inserted, removed and changed is as the branch ends, however often its
/// page is emptied and filled beside it; and nobody gets its places before.
#[test]
fn a_page_is_filled_again_around_what_is_in_doubt() {
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

/// E19.11: when a page has had all the places that it can have, others follow.
#[test]
fn a_page_whose_places_were_all_given_away_is_left_to_the_next_opening() {
    let place = place(UndoPolicy::CommittedOnly);
    let mut given = std::collections::BTreeSet::new();
    let mut stays = None;
    for _ in 0..1000 {
        let ids =
            place.transact(|txn| (0..250).map(|_| place.objects.insert(txn, b"object")).collect::<Result<Vec<_>>>());
        // The last one stays until the next ones have come.
        let goes = stays.replace(ids[249]);
        place.transact(|txn| ids[..249].iter().chain(&goes).try_for_each(|&id| place.objects.remove(txn, id)));
        ids.into_iter().for_each(|id| assert!(given.insert(id), "{id} was given away twice"));
    }
    place.transact(|txn| stays.iter().try_for_each(|&id| place.objects.remove(txn, id)));
    assert!(given.iter().any(|id| id.slot.0 == u16::MAX - 1), "no page has given all of them away");
    let pages = place.objects.pages(&place.store).unwrap();
    assert!(pages.len() <= 8, "{} pages", pages.len());
    place.objects.sweep(&place.store).unwrap();
    place.store.checkpoint().unwrap();
    place.check();
    let crashed = place.crashed();
    pages.iter().for_each(|&page| crashed.objects.offer_room(&crashed.store, page).unwrap());
    for _ in 0..100 * pages.len() {
        let id = crashed.insert(b"object");
        assert!(pages.contains(&id.page), "it is filled again");
    }
    crashed.check();
}
