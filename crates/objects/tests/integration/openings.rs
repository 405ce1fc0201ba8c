//! Handles that outlive their opening, branches that do, and panics inside nested transactions.
#![cfg(not(cedrat_shuttle))] // threads: threads.rs

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use cedrat_media::{Loss, Media, SimDisk};
use cedrat_objects::{ObjectDelta, Objects, Options, UndoPolicy, register_delta};
use cedrat_pages::Slot;
use cedrat_sync::Arc;
use cedrat_txn::object_cache::InDoubtRecords;
use cedrat_txn::{Commit, Error, RecordId, Refused, Result, Store, TxnOptions};
use serde::{Deserialize, Serialize};

use crate::common::{self, Place, get, is_absent, place};

fn is_misuse<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Misuse(_)))
}

/// E16.8, E19.10: the object has moved to a longer record, which is undone.
#[test]
fn panic_within_nested_transaction_takes_objects_back() {
    for policy in [UndoPolicy::CommittedOnly, UndoPolicy::Inverses] {
        let place = place(policy);
        let [moved, changed] = [b"a short one", b"another one"].map(|bytes| place.insert(bytes));
        let mut txn = place.begin();
        let nested = catch_unwind(AssertUnwindSafe(|| {
            txn.nested_transaction::<()>(|txn| {
                place.objects.put(txn, changed, b"ANOTHER one")?;
                place.objects.put(txn, moved, &[7; 2000])?;
                panic!("it is to panic");
            })
        }));
        assert!(nested.is_err());
        txn.commit(Commit::Sync).unwrap();
        for place in [&place, &place.crashed()] {
            assert_eq!(place.get(moved), Some(b"a short one".to_vec()), "{policy:?}");
            assert_eq!(place.get(changed), Some(b"another one".to_vec()), "{policy:?}");
            place.check();
        }
    }
}

/// S7: the cache belongs to one opening.
#[test]
fn handle_of_another_opening_is_refused() {
    let old = place(UndoPolicy::CommittedOnly);
    let id = old.insert(b"kept");
    old.transact(|txn| old.objects.put(txn, id, b"KEPT"));
    let (new, objects) = (old.crashed(), &old.objects);
    let store = &new.store;
    let mut txn = store.begin();
    assert!(is_misuse(objects.read(&mut txn, id, |_| ())), "S7");
    assert!(is_misuse(objects.put(&mut txn, id, b"lost")), "S7");
    assert!(is_misuse(objects.insert(&mut txn, b"lost")), "S7");
    assert!(is_misuse(objects.remove(&mut txn, id)), "S7");
    assert!(is_misuse(objects.ids(&mut txn)), "S7");
    assert!(is_misuse(objects.try_lock_all(&mut txn)), "S7");
    assert!(is_misuse(objects.read_committed(store, id, |_| ())), "S7");
    assert!(is_misuse(objects.flush(store, id)) && is_misuse(objects.flush_all(store)), "S7");
    assert!(is_misuse(objects.evict(store, id)) && is_misuse(objects.pages(store)), "S7");
    assert!(is_misuse(objects.sweep(store)) && is_misuse(objects.clone().drop(store, "objects")), "S7");
    txn.commit(Commit::Sync).unwrap();
    assert_eq!(new.get(id), Some(b"KEPT".to_vec()));
    new.check();
}

/// E9.11: a branch of an earlier opening has its changes, with inverses, in pages.
#[test]
fn in_doubt_change_with_inverse_is_refused() {
    for commits in [false, true] {
        let old = place(UndoPolicy::Inverses);
        let [changed, moved, removed, other, outgrown] = [1, 2, 3, 4, 5].map(|byte| old.insert(&[byte; 40]));
        old.transact(|txn| old.objects.put(txn, outgrown, &[5; 1000]));
        let mut txn = old.begin();
        old.objects.put(&mut txn, changed, &[9; 40]).unwrap();
        old.objects.put(&mut txn, outgrown, &[9; 1000]).unwrap();
        old.objects.put(&mut txn, moved, &[9; 2000]).unwrap();
        old.objects.remove(&mut txn, removed).unwrap();
        let inserted = old.objects.insert(&mut txn, &[9; 40]).unwrap();
        drop(txn.prepare(b"branch").unwrap()); // it stays in doubt
        let options = Options { undo: UndoPolicy::CommittedOnly, ..old.options };
        let new = Place { options, ..old }.crashed();
        let read = |id| new.objects.read_committed(&new.store, id, <[u8]>::to_vec).map(|(bytes, _)| bytes);
        // A program with outdated identities requests places where no object is.
        for page in new.objects.pages(&new.store).unwrap() {
            let mut txn = new.store.begin_with(TxnOptions::default().without_waiting_for_prepared());
            (1..20).for_each(|slot| _ = new.objects.read(&mut txn, RecordId::new(page, Slot(slot)), |_| ()));
        }
        for id in [changed, moved, removed, outgrown] {
            let seen = read(id);
            assert!(matches!(seen, Err(Error::InDoubt { .. })), "{id}: {seen:?}");
        }
        assert_eq!(read(other).unwrap(), [4; 40]);
        assert!(is_absent(&read(inserted).unwrap_err()));
        let branch = new.store.prepared(b"branch").unwrap();
        let expected = if commits {
            branch.commit(Commit::Sync).map(drop).unwrap();
            [Some(vec![9; 40]), Some(vec![9; 2000]), None, Some(vec![9; 1000]), Some(vec![9; 40])]
        } else {
            branch.rollback().unwrap();
            [Some(vec![1; 40]), Some(vec![2; 40]), Some(vec![3; 40]), Some(vec![5; 1000]), None]
        };
        for (id, expected) in [changed, moved, removed, outgrown, inserted].into_iter().zip(expected) {
            assert_eq!(read(id).ok(), expected);
            assert_eq!(get(&new.store, &new.objects, id), expected);
        }
        new.check();
    }
}

/// E19.9: the transaction of a branch has removed a dead record of another one, and the next opening uses the slot again. The
/// rollback of the branch undoes nothing there.
#[test]
fn branch_rollback_keeps_later_object() {
    let old = place(UndoPolicy::CommittedOnly);
    let [removed, _] = [b"removed", b"another"].map(|bytes| old.insert(bytes));
    old.transact(|txn| old.objects.remove(txn, removed));
    let mut txn = old.begin();
    old.objects.insert(&mut txn, b"in doubt").unwrap();
    drop(txn.prepare(b"branch").unwrap());
    let new = old.crashed();
    let later = new.insert(b"later");
    assert_eq!(later, removed, "the slot was vacant");
    new.transact(|txn| new.objects.put(txn, later, b"LATER"));
    new.store.prepared(b"branch").unwrap().rollback().unwrap();
    assert_eq!(new.get(later), Some(b"LATER".to_vec()), "a committed change");
    new.store.checkpoint().unwrap();
    assert_eq!(new.crashed().get(later), Some(b"LATER".to_vec()), "a durable one");
    new.check();
}

/// The failure of a [`Bug`].
#[derive(Clone, Copy)]
enum Fails {
    Never,
    Panics,
    Refuses,
}

std::thread_local! {
    static FAILS: Cell<Fails> = const { Cell::new(Fails::Never) };
}

/// A delta of an application that was changed between two openings, and now has a bug.
#[derive(Debug, Serialize, Deserialize)]
struct Bug {}

impl ObjectDelta for Bug {
    const NAME: &'static str = "test.bug";

    fn apply(&self, _: &mut [u8]) -> Result<(), Refused> {
        match FAILS.get() {
            Fails::Never => Ok(()),
            Fails::Panics => panic!("as planned"),
            Fails::Refuses => Err(Refused::new("as planned")),
        }
    }
}

fn open_with_bug(disk: &Arc<SimDisk>) -> Store {
    let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
    let options = cedrat_txn::Options { checkpoint_when_opened: false, ..cedrat_txn::Options::simulated() };
    Store::open(media, options, common::registry().with(register_delta::<Bug>)).unwrap()
}

/// A branch moves an object a second time: its first change, in the page of the record that the object leaves, is made, and its
/// second one, in the page of the object's identity, is not.
#[test]
fn reader_beside_half_made_branch_is_stopped() {
    let disk = Arc::new(SimDisk::new());
    let store = open_with_bug(&disk);
    let objects = Objects::create(&store, "objects", Options::default()).unwrap();
    let [removed, moved, other] =
        [3700, 1500, 1500].map(|len| store.transact(|txn| objects.insert(txn, &vec![1; len])).unwrap());
    assert!(removed.page < moved.page && moved.page == other.page);
    store.transact(|txn| objects.remove(txn, removed)).unwrap();
    store.transact(|txn| objects.put(txn, moved, &[2; 1600])).unwrap();
    let mut txn = store.begin();
    objects.update(&mut txn, other, Bug {}).unwrap();
    objects.put(&mut txn, moved, &[3; 3500]).unwrap();
    drop(txn.prepare(b"branch").unwrap());
    let store = open_with_bug(&Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything)));
    let objects = Objects::open(&store, "objects", Options::default()).unwrap();
    let branch = store.prepared(b"branch").unwrap();
    FAILS.set(Fails::Panics);
    let ended = catch_unwind(AssertUnwindSafe(|| branch.commit(Commit::Sync).map(drop)));
    FAILS.set(Fails::Never);
    assert!(ended.is_err());
    let seen = objects.read_committed(&store, moved, <[u8]>::len);
    assert!(matches!(seen, Err(Error::Stopped(_))), "{seen:?}");
}

/// E9.11: a branch has inserted an object and changed it, and the change cannot be made.
#[test]
fn half_made_insertion_stays_hidden() {
    let disk = Arc::new(SimDisk::new());
    let store = open_with_bug(&disk);
    let objects = Objects::create(&store, "objects", Options::default()).unwrap();
    let mut txn = store.begin();
    let inserted = objects.insert(&mut txn, b"inserted").unwrap();
    objects.update(&mut txn, inserted, Bug {}).unwrap();
    drop(txn.prepare(b"branch").unwrap());
    let store = open_with_bug(&Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything)));
    let objects = Objects::open(&store, "objects", Options::default()).unwrap();
    let branch = store.prepared(b"branch").unwrap();
    FAILS.set(Fails::Refuses);
    let ended = branch.commit(Commit::Sync).map(drop);
    FAILS.set(Fails::Never);
    assert!(ended.is_err() && store.log().is_stopped());
    assert!(objects.read_committed(&store, inserted, <[u8]>::to_vec).is_err(), "a state that was never committed");
    assert_eq!(store.late_commits(), None, "it has not ended");
}

/// Read that runs while a change of the branch is made; the test that commits it sets this.
static READER: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// A delta that lets a reader run while it is made.
#[derive(Debug, Serialize, Deserialize)]
struct BesideReader {}

impl ObjectDelta for BesideReader {
    const NAME: &'static str = "test.beside_reader";

    fn apply(&self, _: &mut [u8]) -> Result<(), Refused> {
        if let Some(read) = READER.lock().unwrap().take() {
            std::thread::spawn(read).join().unwrap();
        }
        Ok(())
    }
}

/// E9.11, E19.13: a branch has inserted an object and changed it; its changes are made page by page.
#[test]
fn inserted_object_is_seen_with_its_changes() {
    let open = |disk: &Arc<SimDisk>| {
        let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
        let options = cedrat_txn::Options { checkpoint_when_opened: false, ..cedrat_txn::Options::simulated() };
        Store::open(media, options, common::registry().with(register_delta::<BesideReader>)).unwrap()
    };
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk);
    let objects = Objects::create(&store, "objects", Options::default()).unwrap();
    let before = store.transact(|txn| objects.insert(txn, &[1; 3700])).unwrap();
    let mut txn = store.begin();
    objects.update(&mut txn, before, BesideReader {}).unwrap();
    let inserted = objects.insert(&mut txn, &[1; 3700]).unwrap();
    objects.put(&mut txn, inserted, &[2; 3700]).unwrap();
    assert!(before.page < inserted.page);
    drop(txn.prepare(b"branch").unwrap());
    let store = open(&Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything)));
    let objects = Objects::open(&store, "objects", Options::default()).unwrap();
    let seen = Arc::new(Mutex::new(None));
    let (result, reader) = (Arc::clone(&seen), (store.clone(), objects.clone()));
    *READER.lock().unwrap() = Some(Box::new(move || {
        let (store, objects) = reader;
        let read = objects.read_committed(&store, inserted, |bytes| bytes[0]).map(|(first, _)| first);
        *result.lock().unwrap() = Some(read.ok());
    }));
    store.prepared(b"branch").unwrap().commit(Commit::Sync).map(drop).unwrap();
    assert_eq!(*seen.lock().unwrap(), Some(Some(2)));
    assert_eq!(get(&store, &objects, inserted), Some(vec![2; 3700]));
}
