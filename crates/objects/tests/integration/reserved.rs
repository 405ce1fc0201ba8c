//! Reserved places: only the transaction that has reserved one gives it to an object, in its own collection, and only as long
//! as it is reserved (E6.1, E19.13, S6, S7).
#![cfg(not(cedrat_shuttle))]

use cedrat_objects::{NewObjects, Objects, Options, Reserved, UndoPolicy};
use cedrat_txn::{Commit, Error, Result, Store, Txn};
use cedrat_wal::Ticket;

use crate::common::{Place, get, place};

/// Commits with one new object, in this place, as part of the commit record.
fn commit_new(objects: &Objects, txn: &mut Txn, reserved: &Reserved<'_>) -> Result<Option<Ticket>> {
    let mut new = NewObjects::default();
    new.add(reserved, b"new").expect("it fits");
    objects.commit_with_new(txn, new, [], Commit::Sync, |_, _| None)
}

#[track_caller]
fn assert_misuse<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(Error::Misuse(_))), "{result:?}");
}

fn others(store: &Store) -> Objects {
    Objects::create(store, "others", Options::default()).expect("the name is free")
}

/// S7.
#[test]
fn place_of_other_collection_is_refused() {
    let place = place(UndoPolicy::CommittedOnly);
    let (objects, others) = (&place.objects, others(&place.store));
    let mut txn = place.begin();
    let id = {
        let reserved = others.reserve(&mut txn, 3).unwrap();
        let id = reserved.id();
        assert_misuse(commit_new(objects, &mut txn, &reserved));
        assert_misuse(objects.fill(&mut txn, reserved, b"new"));
        id
    };
    assert!(others.read_committed(&place.store, id, |_| ()).is_err(), "E19.13: nothing was committed");
    txn.commit(Commit::Sync).unwrap();
    assert_eq!(get(&place.store, &others, id), None);
    place.check();
}

/// S7.
#[test]
fn place_of_other_transaction_is_refused() {
    let place = place(UndoPolicy::CommittedOnly);
    let objects = &place.objects;
    let (mut one, mut other) = (place.begin(), place.begin());
    let reserved = objects.reserve(&mut one, 3).unwrap();
    assert_misuse(commit_new(objects, &mut other, &reserved));
    drop(other);
    let id = reserved.id();
    assert!(commit_new(objects, &mut one, &reserved).unwrap().is_some());
    assert_eq!(place.get(id), Some(b"new".to_vec()));
    place.check();
}

/// S7.
#[test]
fn place_in_other_store_is_refused() {
    let [here, there] = [(); 2].map(|()| place(UndoPolicy::CommittedOnly));
    let [mut here_txn, mut there_txn] = [&here, &there].map(Place::begin);
    assert_eq!(here_txn.id(), there_txn.id(), "the stores are alike");
    let reserved = there.objects.reserve(&mut there_txn, 3).unwrap();
    here.objects.reserve(&mut here_txn, 3).unwrap();
    assert_misuse(commit_new(&here.objects, &mut here_txn, &reserved));
    assert_misuse(here.objects.fill(&mut here_txn, reserved, b"new"));
    here.check();
}

/// E6.1: the slot of a place that is reserved no longer may be gone. A commit record with it could not be redone, and the store
/// would never open again.
#[test]
fn forgotten_slot_is_refused_before_commit() {
    let place = place(UndoPolicy::CommittedOnly);
    let objects = &place.objects;
    let turn_over = |txn: &mut Txn| {
        let id = objects.insert(txn, &[2; 40])?;
        objects.remove(txn, id)
    };
    place.transact(turn_over); // the collection has a page
    let mut txn = place.begin();
    let mut new = NewObjects::default();
    let reserved = objects.reserve(&mut txn, 40).unwrap();
    new.add(&reserved, &[1; 40]).unwrap();
    drop(reserved);
    // Its page is emptied and filled, so that vacant slots are removed.
    (0..200).for_each(|_| place.transact(turn_over));
    let reserved = objects.reserve(&mut txn, 40).unwrap();
    new.add(&reserved, &[3; 40]).expect("it is in the same page");
    // As much space is promised as the new objects need.
    let _other = objects.reserve(&mut txn, 40).unwrap();
    let refused = objects.commit_with_new(&mut txn, new, [], Commit::Sync, |_, _| None);
    assert!(matches!(refused, Err(Error::Refused(_))), "E6.1: {refused:?}");
    drop(txn);
    place.insert(b"the store goes on");
    place.crashed().check();
}

/// S6: a page that has left the collection, because nothing is reserved there any more, may belong to another one.
#[test]
fn page_that_has_left_gets_no_object() {
    let place = place(UndoPolicy::CommittedOnly);
    let (objects, store) = (&place.objects, &place.store);
    let others = others(store);
    let ids = [(); 3].map(|()| place.insert(&[1; 3700]));
    place.transact(|txn| objects.remove(txn, ids[1]));
    let mut txn = place.begin();
    let mut new = NewObjects::default();
    let reserved = objects.reserve(&mut txn, 3700).unwrap();
    assert_eq!(reserved.id().page, ids[1].page, "the page of the removed object");
    new.add(&reserved, b"new").unwrap();
    drop(reserved);
    assert!(place.transact(|txn| objects.take_out(txn, ids[0].page, ids[1].page)));
    let other = store.transact(|txn| others.insert(txn, b"other")).unwrap();
    assert_eq!(other.page, ids[1].page, "the page is used again");
    let refused = objects.commit_with_new(&mut txn, new, [], Commit::Sync, |_, _| None);
    assert!(matches!(refused, Err(Error::Refused(_))), "S6: {refused:?}");
    drop(txn);
    assert_eq!(store.transact(|txn| others.ids(txn)).unwrap(), [other]);
    place.check();
}
