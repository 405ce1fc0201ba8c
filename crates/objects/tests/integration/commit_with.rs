//! Changes of objects that are part of the commit record.
#![cfg(not(cedrat_shuttle))] // threads: graph_threads.rs

use std::collections::BTreeSet;

use cedrat_media::{Loss, SimDisk};
use cedrat_objects::{Edit, NewObjects, ObjectId, Objects, Options, UndoPolicy};
use cedrat_sync::Arc;
use cedrat_txn::{Commit, Error, Store, Txn, TxnOptions};
use cedrat_wal::{ByteLen, Log, Reservation};

use crate::common::{Place, get, open_on, place, place_with};

/// Opens the disk after a crash at each call since the mark, with different losses, and checks what is found.
fn at_each_crash(place: &Place, mut check: impl FnMut(&Store, &Objects, &str)) {
    let journal = place.disk.journal();
    let mut cursor = journal.cursor();
    loop {
        let losses = [Loss::Everything, Loss::Nothing, Loss::TornLast(0b0101), Loss::Random(1), Loss::Random(2)];
        for loss in losses.into_iter().filter(|_| !cursor.marks().is_empty()) {
            let disk = Arc::new(SimDisk::from_image(cursor.image(loss)));
            let store = open_on(&disk, cedrat_txn::Options::simulated());
            let objects = Objects::open(&store, "objects", place.options).unwrap();
            check(&store, &objects, &format!("{loss:?} at {}", cursor.at()));
            objects.check(&store.begin()).unwrap().expect_sound();
        }
        if !cursor.advance() {
            break;
        }
    }
}

/// E19.15, E19.13: one record and one moment for all changed objects, whether they were in the cache or not, and for new
/// ones.
#[test]
fn a_commit_record_has_the_changes() {
    let place = place(UndoPolicy::CommittedOnly);
    let (objects, store) = (&place.objects, &place.store);
    let ids: Vec<_> = [&b"one"[..], b"two", b"three", &[4; 100]].iter().map(|bytes| place.insert(bytes)).collect();
    ids.iter().for_each(|&id| drop(place.get(id)));
    let mut txn = store.begin();
    let born = objects.insert(&mut txn, b"born").unwrap();
    ids.iter().for_each(|&id| objects.lock_for_change(&mut txn, id).unwrap());
    objects.evict(store, ids[1]).unwrap();
    let newest = store.log().current_lsn();
    let edits = [
        Edit::Range { at: 1, bytes: b"NE"[..].into() },
        Edit::Whole(b"number two".to_vec()),
        Edit::Nothing,
        Edit::Whole(vec![4; 10]),
    ];
    let edit = |number: usize, _: &[u8]| Some(edits[number].clone());
    let ticket = objects.commit_with(&mut txn, ids.iter().copied(), Commit::Async, edit).unwrap().unwrap();
    assert_eq!((ticket.lsn(), store.log().current_lsn()), (newest.next(), newest.next()), "there is no other record");
    let expected = [&b"oNE"[..], b"number two", b"three", &[4; 10], b"born"];
    let all: Vec<_> = ids.iter().copied().chain([born]).collect();
    for (&id, &bytes) in all.iter().zip(&expected) {
        assert_eq!(objects.read_committed(store, id, <[u8]>::to_vec).unwrap().0, bytes);
    }
    // Its locks may belong to others now.
    place.transact(|txn| objects.put(txn, ids[2], b"3"));
    ticket.wait().unwrap();
    objects.flush(store, ids[3]).unwrap();
    let reopened = place.crashed();
    for place in [&place, &reopened] {
        for (&id, &bytes) in all.iter().zip(&expected) {
            assert_eq!(place.get(id), Some(if id == ids[2] { &b"3"[..] } else { bytes }.to_vec()));
        }
        place.check();
    }
}

/// E19.15: new objects of a commit stand in its record, before changes of other objects in their page, which redo finds by
/// their version. After every crash all of it is there, or nothing.
#[test]
fn commit_record_has_new_objects() {
    let place = place(UndoPolicy::CommittedOnly);
    let (objects, store) = (&place.objects, &place.store);
    let ids = [&b"one"[..], b"two"].map(|bytes| place.insert(bytes));
    ids.iter().for_each(|&id| drop(place.get(id)));
    store.checkpoint().unwrap();
    let mut txn = store.begin();
    ids.iter().for_each(|&id| objects.lock_for_change(&mut txn, id).unwrap());
    let reserved = [5, 40].map(|len| objects.reserve(&mut txn, len).unwrap());
    let new_ids = [reserved[0].id(), reserved[1].id()];
    assert!(new_ids.iter().all(|new| new.page == ids[0].page), "the insertion is in the page of the changes");
    let mut new = NewObjects::default();
    new.add(&reserved[0], b"three").unwrap();
    new.add(&reserved[1], &[0; 40]).unwrap().fill(4);
    place.disk.mark(0);
    let newest = store.log().current_lsn();
    let edit = |_: usize, _: &[u8]| Some(Edit::Range { at: 0, bytes: b"ONE"[..].into() });
    let ticket = objects.commit_with_new(&mut txn, new, ids, Commit::Async, edit).unwrap().unwrap();
    assert_eq!((ticket.lsn(), store.log().current_lsn()), (newest.next(), newest.next()), "there is no other record");
    for (id, bytes) in new_ids.into_iter().zip([&b"three"[..], &[4; 40]]) {
        assert_eq!(objects.read_committed(store, id, <[u8]>::to_vec).unwrap().0, bytes);
    }
    ticket.wait().unwrap();
    objects.flush(store, ids[0]).unwrap();
    store.checkpoint().unwrap();
    place.check();

    let all = [ids, new_ids].concat();
    let (before, after) = (
        [Some(b"one".to_vec()), Some(b"two".to_vec()), None, None],
        [Some(b"ONE".to_vec()), Some(b"ONE".to_vec()), Some(b"three".to_vec()), Some(vec![4; 40])],
    );
    let mut seen = BTreeSet::new();
    at_each_crash(&place, |store, objects, crash| {
        let found: Vec<_> = all.iter().map(|&id| get(store, objects, id)).collect();
        assert!(found == before || found == after, "{crash}: {found:?}");
        seen.insert(found == after);
    });
    assert_eq!(seen.len(), 2);
}

/// New objects that are not part of a commit record may still be filled in their places.
#[test]
fn refused_new_objects_are_still_filled() {
    let place = place(UndoPolicy::CommittedOnly);
    let (objects, store) = (&place.objects, &place.store);
    let id = place.insert(b"one");
    let mut txn = store.begin();
    objects.lock_for_change(&mut txn, id).unwrap();
    let reserved = [3, 3000, 3000].map(|len| objects.reserve(&mut txn, len).unwrap());
    let mut new = NewObjects::default();
    assert!(new.add(&reserved[0], &[7; 20]).is_none(), "it is longer than its place");
    assert!(new.is_empty() && new.add(&reserved[1], &[7; 3000]).is_some());
    assert!(new.add(&reserved[0], b"two").is_none(), "its place is before the last one");
    assert!(new.add(&reserved[2], b"two").is_none(), "it is in another page");
    let newest = store.log().current_lsn();
    let refused = objects.commit_with_new(&mut txn, new, [id], Commit::Async, |_, _| None).unwrap();
    assert!(refused.is_none() && store.log().current_lsn() == newest);
    let ids = reserved.map(|reserved| objects.fill(&mut txn, reserved, b"two").unwrap());
    // A record is where one is to be inserted: nothing is changed.
    let mut taken = NewObjects::default();
    let mut others = store.begin();
    let [reserved, _promised] = [(); 2].map(|()| objects.reserve(&mut others, 3).unwrap());
    taken.add(&reserved, b"new").unwrap();
    let same = reserved.id();
    objects.fill(&mut others, reserved, b"old").unwrap();
    let refused = objects.commit_with_new(&mut others, taken, [], Commit::Async, |_, _| None);
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    others.commit(Commit::Sync).unwrap();
    txn.commit(Commit::Sync).unwrap();
    for place in [&place, &place.crashed()] {
        assert_eq!(ids.map(|id| place.get(id)), [const { Some(()) }; 3].map(|_| Some(b"two".to_vec())));
        assert_eq!(place.get(same), Some(b"old".to_vec()));
        place.check();
    }
}

/// Changes that cannot be part of a commit record leave the transaction unchanged.
#[test]
fn changes_beyond_commit_record_are_made_singly() {
    let place = place_with(Options { cache_bytes: 3_000, ..Options::default() }, cedrat_txn::Options::simulated());
    let (objects, store) = (&place.objects, &place.store);
    let (id, moved) = (place.insert(b"one"), place.insert(b"moves"));
    place.transact(|txn| objects.put(txn, moved, &[1; 500]));
    let many: Vec<_> = (0..30).map(|number| place.insert(&[number; 100])).collect();
    let mut txn = store.begin();
    let newest = store.log().current_lsn();
    let mut commit = |ids: &[ObjectId], edit: Option<Edit>| {
        ids.iter().for_each(|&id| objects.lock_for_change(&mut txn, id).unwrap());
        objects.commit_with(&mut txn, ids.iter().copied(), Commit::Async, |_, _| edit.clone())
    };
    let longer = Edit::Whole(vec![2; 700]);
    let put = Edit::Range { at: 0, bytes: b"1"[..].into() };
    for (ids, edit) in
        [(&[id][..], None), (&[id], Some(longer)), (&[moved], Some(put.clone())), (&many, Some(put.clone()))]
    {
        assert!(commit(ids, edit).unwrap().is_none());
    }
    let outside = Edit::Range { at: 2, bytes: b"12"[..].into() };
    assert!(matches!(commit(&[id], Some(outside)), Err(Error::Refused(_))));
    assert_eq!(
        (objects.read(&mut txn, id, <[u8]>::to_vec).unwrap(), store.log().current_lsn()),
        (b"one".to_vec(), newest)
    );
    // An object that the transaction has changed before has an uncommitted change.
    objects.put(&mut txn, id, b"two").unwrap();
    assert!(objects.commit_with(&mut txn, [id], Commit::Async, |_, _| Some(put.clone())).unwrap().is_none());
    // The change of another object would be visible before that.
    objects.lock_for_change(&mut txn, many[0]).unwrap();
    let another = [many[0]];
    assert!(objects.commit_with(&mut txn, another, Commit::Async, |_, _| Some(put.clone())).unwrap().is_none());
    txn.commit(Commit::Sync).unwrap();
    assert_eq!((place.get(id), place.get(moved)), (Some(b"two".to_vec()), Some(vec![1; 500])));
    let others = self::place(UndoPolicy::Inverses);
    let id = others.insert(b"one");
    let mut txn = others.begin();
    let inverses = others.objects.commit_with(&mut txn, [id], Commit::Async, |_, _| Some(put.clone()));
    assert!(inverses.unwrap().is_none());
}

/// Reserves all log space except `left` bytes, or a few more.
fn all_but(log: &Log, left: u64) -> Vec<Reservation> {
    let mut taken = Vec::new();
    let mut bytes = 1 << 30;
    while bytes > 8 {
        match log.reserve(ByteLen(bytes), ByteLen(0)) {
            Ok(room) => taken.push(room),
            Err(_) => bytes /= 2,
        }
    }
    let mut given_back = 0;
    while given_back < left {
        given_back += taken.pop().unwrap().forward().0;
    }
    drop(log.reserve(ByteLen(left), ByteLen(0)).unwrap());
    taken
}

/// E16.3: a commit reserves space only for the difference that it logs, so no transaction is rolled back for the unchanged
/// bytes.
#[test]
fn commit_reserves_required_log_space() {
    let place = place(UndoPolicy::CommittedOnly);
    let (objects, store) = (&place.objects, &place.store);
    let ids: Vec<_> = (0..8).map(|number| place.insert(&[number; 3000])).collect();
    let held = place.insert(b"held");
    let mut idle = store.begin();
    objects.put(&mut idle, held, b"hold").unwrap();
    let mut txn = store.begin();
    ids.iter().for_each(|&id| objects.lock_for_change(&mut txn, id).unwrap());
    let taken = all_but(store.log(), 6_000);
    let edit = |_: usize, object: &[u8]| {
        let mut object = object.to_vec();
        object[1500] = 99;
        Some(Edit::Whole(object))
    };
    let committed = objects.commit_with(&mut txn, ids.iter().copied(), Commit::Async, edit);
    drop(taken);
    committed.unwrap().expect("there is room for eight bytes").wait().unwrap();
    objects.put(&mut idle, held, b"cold").unwrap();
    idle.commit(Commit::Sync).unwrap();
    let reopened = place.crashed();
    for place in [&place, &reopened] {
        assert_eq!(place.get(held), Some(b"cold".to_vec()));
        assert_eq!(ids.iter().filter(|&&id| place.get(id).unwrap()[1500] == 99).count(), ids.len());
    }
}

/// The changes are computed with no latch held, otherwise this would deadlock. Objects that are evicted meanwhile are loaded
/// again.
#[test]
fn cache_is_usable_beside_planning_commit() {
    let place = place(UndoPolicy::CommittedOnly);
    let (objects, store) = (&place.objects, &place.store);
    let ids: Vec<_> = (0..3).map(|number| place.insert(&[number; 100])).collect();
    let mut txn = store.begin();
    ids.iter().for_each(|&id| objects.lock_for_change(&mut txn, id).unwrap());
    let edit = |number: usize, _: &[u8]| {
        ids[..number].iter().for_each(|&id| objects.evict(store, id).unwrap());
        assert_eq!(objects.statistics().records, 1);
        Some(Edit::Range { at: number, bytes: b"new"[..].into() })
    };
    objects.commit_with(&mut txn, ids.iter().copied(), Commit::Sync, edit).unwrap().unwrap();
    let reopened = place.crashed();
    for place in [&place, &reopened] {
        for (number, &id) in ids.iter().enumerate() {
            let mut expected = [number as u8; 100];
            expected[number..][..3].copy_from_slice(b"new");
            assert_eq!(place.get(id), Some(expected.to_vec()));
        }
    }
}

/// Time at which a transaction without locks changes the object.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Changes {
    Before,
    Meanwhile,
    MeanwhileAndCommits,
}

/// E19.15: a computed change is valid only while the object has the same version.
#[test]
fn commit_notices_unlocked_change() {
    for when in [Changes::Before, Changes::Meanwhile, Changes::MeanwhileAndCommits] {
        let place = place(UndoPolicy::CommittedOnly);
        let (objects, store) = (&place.objects, &place.store);
        let id = place.insert(b"one two");
        let mut others = Some(store.begin_with(TxnOptions::default().without_isolation()));
        let change = |others: &mut Option<Txn>| objects.put(others.as_mut().unwrap(), id, b"3 2 1 0").unwrap();
        let mut txn = store.begin();
        objects.lock_for_change(&mut txn, id).unwrap();
        if when == Changes::Before {
            change(&mut others);
        }
        let edit = |_: usize, _: &[u8]| {
            if when != Changes::Before {
                change(&mut others);
            }
            if when == Changes::MeanwhileAndCommits {
                others.take().unwrap().commit(Commit::Async).unwrap();
            }
            Some(Edit::Range { at: 4, bytes: b"TWO"[..].into() })
        };
        assert!(objects.commit_with(&mut txn, [id], Commit::Async, edit).unwrap().is_none(), "{when:?}");
        txn.commit(Commit::Sync).unwrap();
        if let Some(others) = others {
            others.commit(Commit::Sync).unwrap();
        }
        assert_eq!((place.get(id), place.crashed().get(id)), (Some(b"3 2 1 0".to_vec()), Some(b"3 2 1 0".to_vec())));
    }
}

/// E19.17: a transaction without locks that has read an object, which was purged since, does not restore it.
#[test]
fn removed_object_stays_removed_despite_edit() {
    let place = place(UndoPolicy::CommittedOnly);
    let (objects, store) = (&place.objects, &place.store);
    let id = place.insert(b"one two");
    objects.evict(store, id).unwrap();
    let mut others = store.begin_with(TxnOptions::default().without_isolation());
    let edited = objects.edit(&mut others, id, |seen| {
        assert_eq!(seen, b"one two");
        place.transact(|txn| objects.remove(txn, id));
        place.insert(b"three"); // an insertion purges
        assert_eq!(objects.statistics().records, 0);
        Ok((Edit::Range { at: 0, bytes: b"two"[..].into() }, ()))
    });
    assert!(matches!(edited, Err(Error::Refused(_))), "{edited:?}");
    others.commit(Commit::Sync).unwrap();
    assert_eq!(place.get(id), None);
    store.checkpoint().unwrap();
    let reopened = place.crashed();
    assert_eq!(reopened.get(id), None);
}

/// Also beside changes of the same page that do not count, before and after a checkpoint, and after the commit.
#[test]
fn new_objects_survive_beside_uncommitted_ones() {
    for is_flushed in [false, true] {
        let place = place(UndoPolicy::CommittedOnly);
        let (objects, store) = (&place.objects, &place.store);
        let ids = [&b"one"[..], b"two"].map(|bytes| place.insert(bytes));
        store.checkpoint().unwrap();
        // Never committed: an insertion, which is in the page, and a change, which is in the cache.
        let mut loser = store.begin();
        let lost = objects.insert(&mut loser, b"lost").unwrap();
        objects.put(&mut loser, ids[1], b"TWO").unwrap();
        let commit = |bytes: &[u8; 4]| {
            let mut txn = store.begin();
            objects.lock_for_change(&mut txn, ids[0]).unwrap();
            let reserved = objects.reserve(&mut txn, 4).unwrap();
            let mut new = NewObjects::default();
            new.add(&reserved, bytes).unwrap();
            let edit = |_: usize, _: &[u8]| Some(Edit::Range { at: 0, bytes: bytes[..3].into() });
            let ticket = objects.commit_with_new(&mut txn, new, [ids[0]], Commit::Sync, edit).unwrap();
            assert!(ticket.is_some());
            reserved.id()
        };
        let first = commit(b"new1");
        if is_flushed {
            objects.flush_all(store).unwrap();
            store.checkpoint().unwrap();
        }
        let last = objects.insert(&mut loser, b"last").unwrap();
        let second = commit(b"NEW2");
        place.disk.mark(0);
        if is_flushed {
            objects.flush(store, ids[0]).unwrap();
            store.pool().write_back(cedrat_pages::WriteBack::Below(cedrat_wal::Lsn::MAX)).unwrap();
        }
        loser.rollback().unwrap();
        store.checkpoint().unwrap();
        place.check();
        assert!([first, second, lost, last].iter().all(|new| new.page == ids[0].page));

        at_each_crash(&place, |store, objects, crash| {
            let found = [ids[0], ids[1], first, second, lost, last].map(|id| get(store, objects, id));
            let expected = [Some(&b"NEW"[..]), Some(b"two"), Some(b"new1"), Some(b"NEW2"), None, None];
            assert_eq!(found, expected.map(|bytes| bytes.map(<[u8]>::to_vec)), "{crash}");
        });
    }
}
