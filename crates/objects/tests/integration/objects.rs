//! Objects, without crashes except a clean restart. Crash states: `crash_objects.rs`.
#![cfg(not(cedrat_shuttle))] // threads: threads.rs

use cedrat_objects::{ObjectError, ObjectId, Objects, Options, UndoPolicy};
use cedrat_pages::Slot;
use cedrat_pages::layout::Versioned;
use cedrat_structures::StructureError;
use cedrat_txn::{Commit, Error, Txn, TxnOptions, Undo, Vote};

use crate::common::{self, Add, HalfWay, POLICIES, Place, Subtract, get, is_absent, number, place, place_with};

/// L071: objects survive a restart, with their identities.
#[test]
fn committed_objects_survive_reopening() {
    for policy in POLICIES {
        let place = place(policy);
        let ids: Vec<_> = (0..200_u64).map(|value| place.insert(&number(value, 0, "name"))).collect();
        for (value, &id) in ids.iter().enumerate().filter(|(value, _)| value % 3 == 0) {
            place.transact(|txn| place.objects.update(txn, id, Add { amount: value as u64 }));
        }
        place.transact(|txn| place.objects.remove(txn, ids[7]));
        let reopened = place.crashed();
        for place in [&place, &reopened] {
            for (value, &id) in ids.iter().enumerate() {
                let expected = match value {
                    7 => None,
                    _ if value % 3 == 0 => Some(number(2 * value as u64, 1, "name")),
                    _ => Some(number(value as u64, 0, "name")),
                };
                assert_eq!(place.get(id), expected, "{policy:?}, {value}");
            }
            assert_eq!(place.objects.ids(&mut place.store.begin()).unwrap().len(), 199);
            place.check();
        }
    }
}

/// L072, L073, L077: a change of an object in the cache neither reads nor changes its page, and logs only the difference.
#[test]
fn a_change_leaves_the_page_alone() {
    let place = place(UndoPolicy::CommittedOnly);
    let id = place.insert(&[7; 1000]);
    assert_eq!(place.get(id), Some(vec![7; 1000]));
    place.store.checkpoint().unwrap();
    let before = place.store.pool().stats();
    let newest = place.store.log().current_lsn();
    let mut changed = vec![7; 1000];
    changed[500..504].copy_from_slice(b"1234");
    place.transact(|txn| place.objects.put(txn, id, &changed));
    let after = place.store.pool().stats();
    assert_eq!((after.pages_read, after.dirty_pages), (before.pages_read, 0));
    let mut scan = place.store.log().scan(newest.next()).unwrap();
    let mut logged = 0;
    while let Some(record) = scan.next().unwrap() {
        logged += record.body.len();
    }
    assert!((5..40).contains(&logged), "{logged} bytes were logged for four");
    assert_eq!(place.objects.statistics().flushes, 0);
    place.objects.flush(&place.store, id).unwrap();
    assert_eq!(place.objects.statistics().flushes, 1);
    assert_eq!(place.store.pool().stats().dirty_pages, 1);
    place.objects.flush(&place.store, id).unwrap();
    assert_eq!(place.objects.statistics().flushes, 1, "there was nothing to flush any more");
    assert_eq!(place.crashed().get(id), Some(changed));
}

/// L074, L075: a rollback, and a return to a savepoint, restore the previous state, in the cache and in the page.
#[test]
fn rolled_back_insertion_leaves_nothing() {
    for policy in [UndoPolicy::CommittedOnly, UndoPolicy::Inverses] {
        for flushes in [false, true] {
            let place = place(policy);
            let (objects, store) = (&place.objects, &place.store);
            let id = place.insert(&number(1, 0, "one"));
            let other = place.insert(&number(1, 0, "other"));
            let flush = || {
                if flushes {
                    objects.flush_all(store).unwrap()
                }
            };
            let mut txn = store.begin();
            objects.update(&mut txn, id, Add { amount: 5 }).unwrap();
            flush();
            let savepoint = txn.savepoint();
            objects.update_with(&mut txn, id, Add { amount: 7 }, Subtract { amount: 7 }).unwrap();
            objects.put(&mut txn, id, b"something else, and longer").unwrap();
            objects.remove(&mut txn, other).unwrap();
            let born = objects.insert(&mut txn, b"born").unwrap();
            objects.put(&mut txn, born, b"grown up, and beyond what it had room for when it was born").unwrap();
            flush();
            assert_eq!(objects.read(&mut txn, id, <[u8]>::to_vec).unwrap(), b"something else, and longer");
            assert!(is_absent(&objects.read(&mut txn, other, |_| ()).unwrap_err()));
            txn.rollback_to(savepoint).unwrap();
            assert_eq!(objects.read(&mut txn, id, <[u8]>::to_vec).unwrap(), number(6, 1, "one"));
            assert_eq!(objects.read(&mut txn, other, <[u8]>::to_vec).unwrap(), number(1, 0, "other"));
            assert!(is_absent(&objects.read(&mut txn, born, |_| ()).unwrap_err()));
            flush();
            txn.rollback().unwrap();
            let reopened = place.crashed();
            for place in [&place, &reopened] {
                assert_eq!(place.get(id), Some(number(1, 0, "one")), "{policy:?} {flushes}");
                assert_eq!(place.get(other), Some(number(1, 0, "other")));
                assert_eq!(place.get(born), None);
                place.check();
            }
        }
    }
}

/// E19.14: places are chosen first, and their space is not given away until they are filled, in any order.
#[test]
fn places_are_chosen_before_there_are_bytes() {
    let place = place(UndoPolicy::CommittedOnly);
    let mut txn = place.store.begin();
    let reserved: Vec<_> =
        (0..30).map(|number| place.objects.reserve(&mut txn, 100 + 50 * (number % 20)).unwrap()).collect();
    let ids: Vec<_> = reserved.iter().map(|reserved| reserved.id()).collect();
    // These insertions use the remaining space.
    let others: Vec<_> = (0..40).map(|number| place.insert(&[number; 700])).collect();
    for (number, reserved) in reserved.into_iter().enumerate().rev() {
        if number % 7 != 3 {
            place.objects.fill(&mut txn, reserved, &vec![number as u8; 100 + 50 * (number % 20)]).unwrap();
        }
    }
    let short = place.objects.reserve(&mut txn, 20).unwrap();
    assert!(matches!(place.objects.fill(&mut txn, short, &[0; 25]), Err(Error::Misuse(_))));
    let mut other = place.store.begin();
    let stranger = place.objects.reserve(&mut txn, 20).unwrap();
    assert!(matches!(place.objects.fill(&mut other, stranger, b""), Err(Error::Misuse(_))));
    txn.commit(Commit::Sync).unwrap();
    let reopened = place.crashed();
    for place in [&place, &reopened] {
        for (number, &id) in ids.iter().enumerate() {
            let expected = (number % 7 != 3).then(|| vec![number as u8; 100 + 50 * (number % 20)]);
            assert_eq!(place.get(id), expected, "{number}");
        }
        for (number, &id) in others.iter().enumerate() {
            assert_eq!(place.get(id), Some(vec![number as u8; 700]));
        }
        place.check();
    }
}

/// E19.13: a read without a lock, during a transaction that changes the object.
#[test]
fn committed_object_is_read_without_lock() {
    let place = place(UndoPolicy::CommittedOnly);
    let (objects, store) = (&place.objects, &place.store);
    let committed = |id| match objects.read_committed(store, id, <[u8]>::to_vec) {
        Ok((bytes, version)) => Some((bytes, version)),
        Err(error) if is_absent(&error) => None,
        Err(error) => panic!("{error}"),
    };
    let bytes = |id| committed(id).map(|(bytes, _)| bytes);
    let (id, gone) = (place.insert(b"one"), place.insert(b"gone"));
    let before = committed(id);
    let mut txn = store.begin();
    objects.put(&mut txn, id, b"two").unwrap();
    let born = objects.insert(&mut txn, b"born").unwrap();
    objects.remove(&mut txn, gone).unwrap();
    assert_eq!((committed(id), bytes(born), bytes(gone)), (before.clone(), None, Some(b"gone".to_vec())));
    objects.put(&mut txn, id, &[3; 500]).unwrap(); // it moves
    objects.flush_all(store).unwrap();
    assert_eq!((committed(id), bytes(born), bytes(gone)), (before.clone(), None, Some(b"gone".to_vec())));
    txn.commit(Commit::Async).unwrap();
    assert_eq!((bytes(id), bytes(born), bytes(gone)), (Some(vec![3; 500]), Some(b"born".to_vec()), None));
    assert_ne!(committed(id), before);
    let mut txn = store.begin();
    objects.put(&mut txn, id, b"lost").unwrap();
    let lost = objects.insert(&mut txn, b"lost").unwrap();
    txn.rollback().unwrap();
    for _ in 0..2 {
        assert_eq!((bytes(id), bytes(born), bytes(lost)), (Some(vec![3; 500]), Some(b"born".to_vec()), None));
        objects.evict(store, id).unwrap();
    }
    let others = self::place(UndoPolicy::Inverses);
    let id = others.insert(b"");
    assert!(matches!(others.objects.read_committed(&others.store, id, |_| ()), Err(Error::Misuse(_))));
}

/// A delta that fails half-way has changed nothing, in the cache, in the page and after a crash; and earlier changes can
/// still be undone.
#[test]
fn failed_delta_changes_nothing() {
    for policy in POLICIES {
        let place = place(policy);
        let id = place.insert(&number(1, 0, "one"));
        let parts = [None, Some((2, 5)), Some((9, 2000))];
        let ways: Vec<_> = parts.into_iter().flat_map(|part| [(part, false), (part, true)]).collect();
        for (before, &(part, panics)) in ways.iter().enumerate() {
            let mut txn = place.begin();
            place.objects.update(&mut txn, id, Add { amount: 1 }).unwrap();
            let newest = place.store.log().current_lsn();
            let delta = HalfWay { panics, part };
            let broken = std::panic::AssertUnwindSafe(|| place.objects.update(&mut txn, id, delta));
            match std::panic::catch_unwind(broken) {
                Ok(refused) => assert!(matches!(refused, Err(Error::Refused(_))) && !panics, "{policy:?}"),
                Err(_) => assert!(panics, "{policy:?}"),
            }
            assert_eq!(place.store.log().current_lsn(), newest, "nothing was logged");
            let times = if policy == UndoPolicy::Relaxed { before as u64 + 1 } else { 1 };
            let now = number(1 + times, times as u8, "one");
            let what = format!("{policy:?}, {part:?}, {panics}");
            assert_eq!(place.objects.read(&mut txn, id, <[u8]>::to_vec).unwrap(), now, "{what}");
            drop(txn);
        }
        // Relaxed transactions leave their changes.
        let left = if policy == UndoPolicy::Relaxed { number(7, 6, "one") } else { number(1, 0, "one") };
        assert_eq!(place.get(id), Some(left.clone()), "{policy:?}");
        place.objects.flush_all(&place.store).unwrap();
        place.store.log().force(place.store.log().current_lsn()).unwrap();
        assert_eq!(place.crashed().get(id), Some(left));
    }
}

/// L074: no page contains uncommitted changes.
#[test]
fn uncommitted_change_is_not_flushed() {
    let place = place(UndoPolicy::CommittedOnly);
    let id = place.insert(&number(1, 0, "one"));
    let mut txn = place.store.begin();
    place.objects.update(&mut txn, id, Add { amount: 1 }).unwrap();
    let refused = place.objects.evict(&place.store, id).unwrap_err();
    assert_eq!(ObjectError::of(&refused), Some(&ObjectError::NotCommitted { id }));
    place.objects.flush_all(&place.store).unwrap();
    place.store.checkpoint().unwrap();
    assert_eq!(place.objects.statistics().flushes, 0);
    place.store.log().force(place.store.log().current_lsn()).unwrap();
    assert_eq!(place.crashed().get(id), Some(number(1, 0, "one")));
    txn.commit(Commit::Sync).unwrap();
    place.objects.evict(&place.store, id).unwrap();
    assert_eq!(place.objects.statistics().records, 0);
    assert_eq!(place.get(id), Some(number(2, 1, "one")));
}

/// E19.8: a record that changes all the time does not hold the log: its earlier committed changes are flushed.
#[test]
fn hot_object_flushes_only_committed_changes() {
    let place = place(UndoPolicy::CommittedOnly);
    let id = place.insert(&number(0, 0, "hot"));
    place.transact(|txn| place.objects.update(txn, id, Add { amount: 1 }));
    let mut txn = place.store.begin();
    place.objects.update(&mut txn, id, Add { amount: 10 }).unwrap();
    place.objects.update(&mut txn, id, Add { amount: 100 }).unwrap();
    place.objects.flush(&place.store, id).unwrap();
    assert_eq!(place.objects.statistics().flushes, 1);
    place.store.checkpoint().unwrap();
    let reopened = place.crashed();
    assert_eq!(reopened.get(id), Some(number(1, 1, "hot")));
    txn.commit(Commit::Sync).unwrap();
    place.store.checkpoint().unwrap();
    place.store.checkpoint().unwrap();
    assert_eq!(place.crashed().get(id), Some(number(111, 3, "hot")));
}

/// L076.
#[test]
fn relaxed_transactions_leave_what_they_did() {
    let place = place(UndoPolicy::Relaxed);
    let mut txn = place.store.begin();
    let misuse = place.objects.insert(&mut txn, b"object").unwrap_err();
    assert!(matches!(&misuse, Error::Misuse(why) if why.contains("without_atomicity")), "{misuse}");
    drop(txn);
    let id = place.insert(&number(1, 0, "one"));
    let mut txn = place.begin();
    place.objects.update(&mut txn, id, Add { amount: 1 }).unwrap();
    txn.rollback().unwrap();
    assert_eq!(place.get(id), Some(number(2, 1, "one")));
    let mut txn = place.begin();
    place.objects.update(&mut txn, id, Add { amount: 1 }).unwrap();
    place.store.log().force(place.store.log().current_lsn()).unwrap();
    assert_eq!(place.crashed().get(id), Some(number(3, 2, "one")));
}

/// E19.12: an object that grows keeps its identity, is found in one step however often it moves, and its old space is used
/// again.
#[test]
fn objects_grow_and_shrink() {
    for policy in POLICIES {
        let place = place(policy);
        let id = place.insert(b"");
        let neighbour = place.insert(b"neighbour");
        let lens = [3, 10, 11, 40, 100, 5, 1000, 0, 3800, 17, 3799];
        for (turn, len) in lens.into_iter().enumerate() {
            let bytes = vec![turn as u8; len];
            place.transact(|txn| place.objects.put(txn, id, &bytes));
            assert_eq!(place.get(id), Some(bytes.clone()));
            if turn % 2 == 0 {
                place.objects.flush_all(&place.store).unwrap();
            }
            let reopened = place.crashed();
            assert_eq!(reopened.get(id), Some(bytes));
            assert_eq!(reopened.get(neighbour), Some(b"neighbour".to_vec()));
            reopened.check();
        }
        place.check();
        let left = place.objects.sweep(&place.store).unwrap();
        assert!(left > 0, "{policy:?}: records that it has left");
        assert_eq!(place.objects.sweep(&place.store).unwrap(), 0);
        place.check();
        let too_long = place.objects.put(&mut place.begin(), id, &[0; 3801]).unwrap_err();
        assert!(matches!(too_long, Error::TooLarge { .. }), "{too_long}");
    }
}

/// E19.10, E19.11: the space of a removed object is used again, its identity only after the store was reopened.
#[test]
fn space_is_reused_but_identities_are_not() {
    for policy in POLICIES {
        let place = place(policy);
        let mut given = std::collections::BTreeSet::new();
        let mut live: Vec<_> = Vec::new();
        for turn in 0..40_u64 {
            for _ in 0..3 {
                let id = place.insert(&number(turn, 0, &"x".repeat(900)));
                assert!(given.insert(id), "{policy:?}: {id} was given away twice");
                live.push(id);
            }
            // The identity of an insertion that is rolled back is not given away again, either.
            let mut txn = place.store.begin();
            if policy != UndoPolicy::Relaxed {
                assert!(given.insert(place.objects.insert(&mut txn, b"rolled back").unwrap()));
            }
            drop(txn);
            while live.len() > 3 {
                let id = live.remove(0);
                place.transact(|txn| place.objects.remove(txn, id));
            }
            if turn == 20 {
                place.objects.sweep(&place.store).unwrap();
            }
        }
        let pages = place.objects.check(&place.store.begin()).unwrap().pages.len();
        assert!(pages < 10, "{policy:?}: {pages} pages for three objects");
        place.check();
        let reopened = place.crashed();
        reopened.objects.sweep(&reopened.store).unwrap();
        let again: Vec<_> = (0..20).map(|_| reopened.insert(b"again")).collect();
        assert!(again.iter().any(|id| given.contains(id)), "vacant places are used after the store was opened anew");
        reopened.check();
    }
}

/// E19.11: also in a page without insertions since the store was opened.
#[test]
fn identities_of_unread_pages_are_not_reused() {
    for sweeps in [false, true] {
        let place = place(UndoPolicy::CommittedOnly);
        let ids: Vec<_> = (0..8).map(|value| place.insert(&number(value, 0, &"x".repeat(900)))).collect();
        let reopened = place.crashed();
        reopened.transact(|txn| reopened.objects.remove(txn, ids[0]));
        if sweeps {
            assert_eq!(reopened.objects.sweep(&reopened.store).unwrap(), 1);
        }
        let given: Vec<_> = (0..12).map(|value| reopened.insert(&number(value, 0, &"y".repeat(900)))).collect();
        assert!(given.iter().any(|id| id.page == ids[0].page), "its room is used");
        assert!(!given.contains(&ids[0]), "its place is not");
        reopened.check();
    }
}

/// E19.10: a removal that is not committed is not final, wherever its page is.
#[test]
fn uncommitted_removal_keeps_its_record() {
    for policy in [UndoPolicy::CommittedOnly, UndoPolicy::Inverses] {
        let place = place(policy);
        let ids: Vec<_> = (0..8).map(|value| place.insert(&number(value, 0, &"x".repeat(900)))).collect();
        let mut txn = place.store.begin();
        place.objects.remove(&mut txn, ids[0]).unwrap();
        place.objects.put(&mut txn, ids[4], &[4; 2000]).unwrap();
        place.objects.flush_all(&place.store).unwrap();
        txn.rollback().unwrap();
        let mut txn = place.store.begin();
        place.objects.remove(&mut txn, ids[0]).unwrap();
        place.objects.flush_all(&place.store).unwrap();
        // An insertion of another transaction checks the record that the first one has offered.
        for value in 8..24 {
            place.insert(&number(value, 0, &"x".repeat(900)));
        }
        txn.rollback().unwrap();
        let reopened = place.crashed();
        for place in [&place, &reopened] {
            assert_eq!(place.get(ids[0]), Some(number(0, 0, &"x".repeat(900))), "{policy:?}");
            assert_eq!(place.get(ids[4]), Some(number(4, 0, &"x".repeat(900))), "{policy:?}");
            place.check();
        }
    }
}

/// E19.9: a cache far smaller than the data.
#[test]
fn small_cache_evicts_unneeded_records() {
    for policy in POLICIES {
        let options = Options { cache_bytes: 8_000, undo: policy };
        let place = place_with(options, cedrat_txn::Options::simulated());
        let ids: Vec<_> = (0..60).map(|value| place.insert(&number(value, 0, &"x".repeat(300)))).collect();
        let mut expected: Vec<u64> = (0..60).collect();
        for turn in 0..600_usize {
            let which = turn * 7 % 60;
            let mut txn = place.begin();
            place.objects.update(&mut txn, ids[which], Add { amount: turn as u64 }).unwrap();
            if turn % 5 == 4 && policy != UndoPolicy::Relaxed {
                txn.rollback().unwrap();
            } else {
                expected[which] += turn as u64;
                txn.commit(Commit::NoFlush).unwrap();
            }
            assert!(place.objects.statistics().bytes <= options.cache_bytes);
        }
        assert!(place.objects.statistics().evictions > 100);
        let values = |place: &common::Place| -> Vec<u64> {
            let value = |bytes: Vec<u8>| u64::from_le_bytes(*bytes.first_chunk().unwrap());
            ids.iter().map(|&id| value(place.get(id).unwrap())).collect()
        };
        assert_eq!(values(&place), expected, "{policy:?}");
        place.store.log().force(place.store.log().current_lsn()).unwrap();
        assert_eq!(values(&place.crashed()), expected, "{policy:?}");
    }
}

/// L075: with inverses a transaction may change more than the cache holds, and be rolled back.
#[test]
fn inverses_allow_changes_beyond_cache() {
    for ends in ["commit", "rollback", "savepoint", "crash"] {
        let options = Options { cache_bytes: 30_000, undo: UndoPolicy::Inverses };
        let place = place_with(options, cedrat_txn::Options::simulated());
        let ids: Vec<_> = (0..60).map(|value| place.insert(&number(value, 0, &"x".repeat(600)))).collect();
        let mut txn = place.store.begin();
        let savepoint = txn.savepoint();
        for turn in 0..2 {
            for &id in &ids {
                if turn == 0 {
                    place.objects.update(&mut txn, id, Add { amount: 1000 }).unwrap();
                } else {
                    let (there, back) = (Add { amount: 1000 }, Subtract { amount: 1000 });
                    place.objects.update_with(&mut txn, id, there, back).unwrap();
                }
            }
        }
        assert!(place.objects.statistics().evictions > 60);
        let mut kept = 0;
        match ends {
            "commit" => {
                kept = 2;
                txn.commit(Commit::Sync).unwrap();
            }
            "rollback" => txn.rollback().unwrap(),
            "savepoint" => {
                txn.rollback_to(savepoint).unwrap();
                for &id in &ids[..30] {
                    assert_eq!(place.objects.read(&mut txn, id, |bytes| bytes[8]).unwrap(), 0);
                }
                txn.commit(Commit::Sync).unwrap();
            }
            _ => {
                place.store.log().force(place.store.log().current_lsn()).unwrap();
                std::mem::forget(txn);
            }
        }
        let reopened = place.crashed();
        if ends == "rollback" {
            // The undo of an evicted change happens in its page, whether or not the object is read.
            place.objects.flush_all(&place.store).unwrap();
            ids.iter().for_each(|&id| place.objects.evict(&place.store, id).unwrap());
            assert_eq!(place.objects.statistics().records, 0);
        }
        for (value, &id) in ids.iter().enumerate() {
            let expected = number(value as u64 + 1000 * kept, kept as u8, &"x".repeat(600));
            assert_eq!(reopened.get(id), Some(expected.clone()), "{ends}");
            if ends != "crash" {
                assert_eq!(place.get(id), Some(expected), "{ends}");
            }
        }
        if ends != "crash" {
            place.objects.flush_all(&place.store).unwrap();
            place.check();
        }
    }
}

/// Objects that must not be flushed stay, and an error explains how to change more.
#[test]
fn a_cache_full_of_changes_refuses_more() {
    let options = Options { cache_bytes: 6_000, undo: UndoPolicy::CommittedOnly };
    let place = place_with(options, cedrat_txn::Options::simulated());
    let ids: Vec<_> = (0..20).map(|value| place.insert(&number(value, 0, &"x".repeat(600)))).collect();
    let mut txn = place.store.begin();
    let mut changed = 0;
    let refused = loop {
        match place.objects.update(&mut txn, ids[changed], Add { amount: 1 }) {
            Ok(()) => changed += 1,
            Err(error) => break error,
        }
    };
    assert!((3..10).contains(&changed), "{changed}");
    assert!(matches!(ObjectError::of(&refused), Some(ObjectError::CacheFull { .. })), "{refused}");
    assert!(refused.to_string().contains("UndoPolicy::Inverses"), "{refused}");
    // Reads continue, without the cache.
    assert_eq!(place.objects.read(&mut txn, ids[19], <[u8]>::to_vec).unwrap(), number(19, 0, &"x".repeat(600)));
    txn.commit(Commit::Sync).unwrap();
    for (value, &id) in ids.iter().enumerate() {
        let added = u64::from(value < changed);
        assert_eq!(place.get(id), Some(number(value as u64 + added, added as u8, &"x".repeat(600))));
    }
    place.transact(|txn| place.objects.update(txn, ids[19], Add { amount: 1 }));
}

/// E19.4: a checkpoint does not flush new changes; the log is kept for them.
#[test]
fn log_is_kept_for_unflushed_changes() {
    for policy in POLICIES {
        let place = place(policy);
        let id = place.insert(&number(0, 0, "one"));
        place.store.checkpoint().unwrap();
        for turn in 1..4 {
            place.transact(|txn| place.objects.update(txn, id, Add { amount: 1 }));
            place.store.checkpoint().unwrap();
            // The second checkpoint flushes changes that were new at the first, and newer changes with them.
            assert_eq!(place.objects.statistics().flushes, turn / 2);
            assert_eq!(place.crashed().get(id), Some(number(turn, turn as u8, "one")), "{policy:?}");
        }
    }
}

/// L079: checkpoints flush old changes, so an object that changes all the time does not fill a small log.
#[test]
fn checkpoints_keep_the_log_short() {
    for policy in POLICIES {
        let of_store = cedrat_txn::Options { log_limit_bytes: 8 * 64 * 1024, ..cedrat_txn::Options::simulated() };
        let place = place_with(Options { undo: policy, ..Options::default() }, of_store);
        let id = place.insert(&number(0, 0, "hot"));
        let cold = place.insert(&number(0, 0, "cold"));
        place.transact(|txn| place.objects.update(txn, cold, Add { amount: 1 }));
        for _ in 0..15_000 {
            let mut txn = place.begin();
            place.objects.update(&mut txn, id, Add { amount: 1 }).unwrap();
            txn.commit(Commit::NoFlush).unwrap();
        }
        assert!(place.objects.statistics().flushes < 100, "{:?}", place.objects.statistics());
        let common::Place { disk, store, objects, options } = place;
        drop(objects);
        store.close().unwrap();
        let store = common::open_on(&disk, cedrat_txn::Options::simulated());
        assert_eq!(store.recovery().redone, 0, "closing has flushed all");
        let objects = Objects::open(&store, "objects", options).unwrap();
        assert_eq!(get(&store, &objects, id), Some(number(15_000, (15_000 % 256) as u8, "hot")));
        assert_eq!(get(&store, &objects, cold), Some(number(1, 1, "cold")));
    }
}

#[test]
fn impossible_calls_are_refused_without_effect() {
    let place = place(UndoPolicy::Inverses);
    let (objects, store) = (&place.objects, &place.store);
    let id = place.insert(&number(1, 0, "one"));
    let short = place.insert(b"short");
    let mut txn = store.begin();
    assert!(matches!(objects.update(&mut txn, short, Add { amount: 1 }), Err(Error::Refused(_))));
    let wrong = objects.update_with(&mut txn, id, Add { amount: 1 }, Subtract { amount: 2 }).unwrap_err();
    assert!(wrong.to_string().contains("does not restore the object"), "{wrong}");
    assert!(matches!(objects.insert(&mut txn, &[0; 3801]), Err(Error::TooLarge { .. })));
    for slot in [0, 77] {
        let absent = cedrat_objects::ObjectId::new(id.page, cedrat_pages::Slot(slot));
        assert!(is_absent(&objects.read(&mut txn, absent, |_| ()).unwrap_err()));
    }
    for page in [0, 1, objects.root().get(), 1 << 40] {
        let absent = cedrat_objects::ObjectId::new(cedrat_pages::PageId::new(page), id.slot);
        assert!(is_absent(&objects.read(&mut txn, absent, |_| ()).unwrap_err()), "page {page}");
    }
    txn.commit(Commit::Sync).unwrap();
    assert_eq!(place.get(id), Some(number(1, 0, "one")));

    let taken = Objects::create(store, "objects", place.options).unwrap_err();
    assert!(matches!(StructureError::of(&taken), Some(StructureError::NameTaken { .. })), "{taken}");
    let none = Objects::open(store, "nothing", place.options).unwrap_err();
    assert!(matches!(StructureError::of(&none), Some(StructureError::NoSuchName { .. })), "{none}");
    let other = Options { cache_bytes: 1, ..place.options };
    assert!(matches!(Objects::open(store, "objects", other), Err(Error::Misuse(_))));
    assert_eq!(Objects::open_or_create(store, "objects", place.options).unwrap().root(), objects.root());
    // An object of another collection does not belong to this one.
    let others = Objects::open_or_create(store, "others", place.options).unwrap();
    assert!(is_absent(&others.read(&mut store.begin(), id, |_| ()).unwrap_err()));
    assert_eq!(others.ids(&mut store.begin()).unwrap(), []);
    let dropped = store.transact(|txn| cedrat_structures::drop_named(txn, "objects")).unwrap_err();
    assert!(matches!(StructureError::of(&dropped), Some(StructureError::WrongKind { .. })), "{dropped}");

    // Without isolation no lock separates two transactions that change one object: the second one gets an error.
    let mut first = store.begin_with(TxnOptions::default().without_isolation());
    let mut second = store.begin_with(TxnOptions::default().without_isolation());
    objects.update(&mut first, id, Add { amount: 1 }).unwrap();
    assert!(matches!(objects.update(&mut second, id, Add { amount: 1 }), Err(Error::Misuse(_))));
}

/// Its pages are freed, its handles return errors, and it no longer holds the log.
#[test]
fn a_collection_is_dropped() {
    let place = place(UndoPolicy::CommittedOnly);
    let (store, options) = (&place.store, place.options);
    let pages = || store.check().unwrap().pages_allocated;
    let others = Objects::create(store, "others", options).unwrap();
    let other = store.transact(|txn| others.insert(txn, b"other")).unwrap();
    let before = pages();
    let ids: Vec<_> = (0..40_u64).map(|value| place.insert(&number(value, 0, &"x".repeat(400)))).collect();
    place.transact(|txn| place.objects.put(txn, ids[3], &[3; 2000]));
    place.transact(|txn| place.objects.remove(txn, ids[4]));
    assert!(pages() > before);
    let wrong = place.objects.clone().drop(store, "others").unwrap_err();
    assert!(matches!(StructureError::of(&wrong), Some(StructureError::WrongRoot { .. })), "{wrong}");
    let wrong = place.objects.clone().drop(store, "nothing").unwrap_err();
    assert!(matches!(StructureError::of(&wrong), Some(StructureError::NoSuchName { .. })), "{wrong}");
    assert_eq!(place.get(ids[3]), Some(vec![3; 2000]), "nothing has happened");
    place.transact(|txn| place.objects.update(txn, ids[5], Add { amount: 1 }));

    let mut unlocked = store.begin_with(TxnOptions::default().without_isolation());
    place.objects.update(&mut unlocked, ids[6], Add { amount: 1 }).unwrap();
    let refused = place.objects.clone().drop(store, "objects").unwrap_err();
    assert!(matches!(refused, Error::Misuse(_)), "{refused}");
    unlocked.rollback().unwrap();

    place.objects.clone().drop(store, "objects").unwrap();
    assert_eq!(pages(), before - 1, "and its root");
    // Freed pages keep their bytes for a while: these do not refer to a later structure with this root (S6).
    for page in ids.iter().map(|id| id.page) {
        let txn = store.begin();
        let view = txn.read_latched(page).unwrap();
        assert_eq!(Versioned::of(&view).unwrap().get(Slot(0)).unwrap(), None, "page {page}");
    }
    assert_eq!(place.objects.statistics().records, 0);
    let gone = |error: Error| matches!(StructureError::of(&error), Some(StructureError::Gone { .. }));
    assert!(gone(place.objects.read(&mut store.begin(), ids[3], |_| ()).unwrap_err()));
    assert!(gone(place.objects.insert(&mut store.begin(), b"new").unwrap_err()));
    assert!(gone(place.objects.ids(&mut store.begin()).unwrap_err()));
    assert!(gone(place.objects.sweep(store).unwrap_err()));
    assert!(gone(place.objects.clone().drop(store, "objects").unwrap_err()));
    // Nor without a lock, or with a root from the catalogue.
    assert!(gone(place.objects.read_committed(store, ids[3], |_| ()).unwrap_err()));
    assert!(gone(Objects::at_root(store, place.objects.root(), options).unwrap_err()));

    let again = Objects::create(store, "objects", options).unwrap();
    assert_eq!(again.ids(&mut store.begin()).unwrap(), []);
    let id = store.transact(|txn| again.insert(txn, b"again")).unwrap();
    store.checkpoint().unwrap();
    store.checkpoint().unwrap();
    let reopened = place.crashed();
    assert_eq!(reopened.get(id), Some(b"again".to_vec()));
    let others = Objects::open(&reopened.store, "others", options).unwrap();
    assert_eq!(get(&reopened.store, &others, other), Some(b"other".to_vec()));
    assert_eq!(reopened.objects.ids(&mut reopened.store.begin()).unwrap(), [id]);
    reopened.check();
}

/// E19.10: recovery has marked the record as dead in its page, and may have to undo that.
#[test]
fn a_removal_in_doubt_is_not_purged() {
    let mut place = place(UndoPolicy::Inverses);
    let ids: Vec<ObjectId> = (0..2).map(|_| place.insert(b"to be kept, or not")).collect();
    for (&id, branch) in ids.iter().zip([b"rolled back", b"committed  "]) {
        let mut txn = place.store.begin();
        place.objects.remove(&mut txn, id).unwrap();
        let Vote::Prepared(held) = txn.prepare(branch).unwrap() else { panic!("it has changed something") };
        drop(held);
        place = place.crashed();
    }
    let has_space = |place: &Place| {
        // Offers the page, as a sweep of a graph does, and inserts.
        place.objects.offer_space(&place.store, ids[0].page).unwrap();
        place.insert(b"another");
    };
    has_space(&place);
    place.store.prepared(b"rolled back").unwrap().rollback().unwrap();
    has_space(&place);
    assert_eq!(place.get(ids[0]).as_deref(), Some(&b"to be kept, or not"[..]));
    place.store.prepared(b"committed  ").unwrap().commit(Commit::Sync).unwrap();
    has_space(&place);
    assert_eq!(place.get(ids[1]), None);
    assert_eq!(place.objects.sweep(&place.store).unwrap(), 0, "it was purged when that was certain");
    place.check();
}

/// A refused call has changed nothing, also without isolation, where no lock refuses it before.
#[test]
fn an_insertion_that_is_refused_leaves_nothing() {
    let place = place(UndoPolicy::CommittedOnly);
    let mut txn = place.store.begin_with(TxnOptions::default().without_isolation());
    let within = |txn: &mut Txn| {
        assert!(matches!(place.objects.insert(txn, b"object"), Err(Error::Misuse(_))));
        Ok(((), Undo::none()))
    };
    txn.nested((), within).unwrap();
    txn.commit(Commit::Sync).unwrap();
    assert_eq!(place.objects.ids(&mut place.store.begin()).unwrap(), []);
}
