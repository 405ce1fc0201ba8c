//! Changes of objects that redo meets in part: those of branches that a checkpoint has carried forward, and of a transaction that
//! rolls back beside a checkpoint.
#![cfg(not(cedrat_shuttle))] // threads: threads.rs

use std::sync::Mutex;

use cedrat_media::{Call, Loss, SimDisk};
use cedrat_objects::{ObjectId, Objects, Options, UndoPolicy};
use cedrat_sync::Arc;
use cedrat_txn::{Commit, Registry, Store, Txn, Vote};

const BRANCH: &[u8] = b"branch";

/// An open store on a simulated disk, which carries every branch forward.
struct Open {
    disk: SimDisk,
    store: Store,
    objects: Objects,
}

impl Open {
    fn on(disk: SimDisk, undo: UndoPolicy) -> Open {
        let options = cedrat_txn::Options { carry_forward_bytes: Some(1), ..cedrat_txn::Options::simulated() };
        let registry = Registry::new().with(cedrat_structures::register).with(cedrat_objects::register);
        let store = Store::open(Arc::new(disk.clone()), options, registry).expect("E19.4: the store opens");
        let options = Options { undo, ..Options::default() };
        let objects = Objects::open_or_create(&store, "objects", options).expect("it is there, or is created");
        Open { disk, store, objects }
    }

    fn crashed(self, undo: UndoPolicy) -> Open {
        let disk = self.disk.cut_power(Loss::Everything);
        drop(self);
        Open::on(disk, undo)
    }

    fn insert(&self, bytes: &[u8]) -> ObjectId {
        self.store.transact(|txn| self.objects.insert(txn, bytes)).expect("there is room")
    }

    fn get(&self, id: ObjectId) -> Vec<u8> {
        self.store.transact(|txn| self.objects.read(txn, id, <[u8]>::to_vec)).expect("E9.13: the object is there")
    }

    /// Writes enough log for a branch to be carried forward by the next checkpoint.
    fn fill_log(&self) {
        for _ in 0..40 {
            self.insert(&[1; 3000]);
        }
    }

    fn end_branch(&self, commits: bool) {
        let branch = self.store.prepared(BRANCH).expect("it is in doubt");
        let ended = if commits { branch.commit(Commit::Sync).map(drop) } else { branch.rollback() };
        ended.expect("E9.1: a branch can commit and roll back");
    }
}

fn prepare(txn: Txn) {
    let prepared = txn.prepare(BRANCH).expect("there is room");
    assert!(matches!(prepared, Vote::Prepared(_)));
}

/// Runs `change` in a branch that has changed an object before, and another transaction in the middle of it. Then the branch is
/// carried forward and ended, the one before or after a power loss, the other after or before. Returns the object.
fn carried(
    undo: UndoPolicy,
    commits: bool,
    early: bool,
    change: impl Fn(&Open, &mut Txn, ObjectId, &dyn Fn()),
) -> Vec<u8> {
    let open = Open::on(SimDisk::new(), undo);
    let [changed, other] = [b"aaaaaaaaaaaa", b"oooooooooooo"].map(|bytes| open.insert(bytes));
    open.store.checkpoint().expect("the disk works");
    open.fill_log();
    let mut txn = open.store.begin();
    open.objects.put(&mut txn, changed, b"bbbbaaaaaaaa").expect("there is room");
    // Redo begins with this change after the checkpoint: the next one flushes it.
    let changes_other = || {
        open.store.transact(|txn| open.objects.put(txn, other, b"pppppppppppp")).expect("there is room");
    };
    change(&open, &mut txn, changed, &changes_other);
    prepare(txn);
    open.fill_log();
    open.store.checkpoint().expect("the disk works");
    if early {
        open.end_branch(commits);
    }
    let open = open.crashed(undo);
    if !early {
        open.end_branch(commits);
    }
    assert_eq!(open.get(other), b"pppppppppppp");
    let object = open.get(changed);
    assert_eq!(open.crashed(undo).get(changed), object);
    object
}

const CASES: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

/// E9.13, E19.2: redo begins between two changes of one object by a branch.
#[test]
fn carried_branch_keeps_each_change() {
    for undo in [UndoPolicy::CommittedOnly, UndoPolicy::Inverses] {
        for (commits, early) in CASES {
            let object = carried(undo, commits, early, |open, txn, id, changes_other| {
                changes_other();
                open.objects.put(txn, id, b"bbbbaaaacccc").expect("there is room");
            });
            let expected = if commits { b"bbbbaaaacccc" } else { b"aaaaaaaaaaaa" };
            assert_eq!(object, expected, "{undo:?}, commits: {commits}, before the power loss: {early}");
        }
    }
}

/// E9.13: redo begins between a change and its undo, by a return to a savepoint of a branch, or the page has the change and not
/// its undo. There are copies of neither.
#[test]
fn carried_branch_stays_as_returned() {
    for undo in [UndoPolicy::CommittedOnly, UndoPolicy::Inverses] {
        for is_flushed in [false, true] {
            for (commits, early) in CASES {
                let object = carried(undo, commits, early, |open, txn, id, changes_other| {
                    let before = txn.savepoint();
                    open.objects.remove(txn, id).expect("it is there");
                    if is_flushed {
                        open.objects.flush(&open.store, id).expect("its page can be read");
                    }
                    changes_other();
                    txn.rollback_to(before).expect("the log runs");
                });
                let expected = if commits { b"bbbbaaaaaaaa" } else { b"aaaaaaaaaaaa" };
                assert_eq!(object, expected, "{undo:?}, flushed: {is_flushed}, commits: {commits}, early: {early}");
            }
        }
    }
}

/// E19.4: an insertion is undone, and before it a change that its page has never had, while a checkpoint writes pages. Redo
/// begins at a page that was changed between the change and its undo.
#[test]
fn rollback_beside_checkpoint_is_redone() {
    for undo in [UndoPolicy::CommittedOnly, UndoPolicy::Inverses] {
        for returns in [false, true] {
            let open = Open::on(SimDisk::new(), undo);
            let old = open.insert(b"an old one");
            let mut txn = open.store.begin();
            let before = txn.savepoint();
            let new = open.objects.insert(&mut txn, b"a new one").expect("there is room");
            open.store.checkpoint().expect("the disk works");
            open.objects.remove(&mut txn, new).expect("it was just inserted");
            let other = open.insert(&[1; 3000]); // a page for the checkpoint to write
            let undone = Mutex::new(Some((txn, open.store.clone(), open.objects.clone())));
            open.disk.before_each_call(move |_, call, file| {
                if call != Call::Write || file != "pages" {
                    return;
                }
                let Some((mut txn, store, objects)) = undone.lock().expect("no panic").take() else { return };
                let rolls_back = move || {
                    for _ in 0..3 {
                        let mut other = store.begin();
                        objects.insert(&mut other, &[2; 3000]).expect("there is room");
                        other.commit(Commit::NoFlush).expect("the log runs");
                    }
                    if returns {
                        txn.rollback_to(before).expect("the log runs");
                        txn.commit(Commit::NoFlush).expect("the log runs");
                    } else {
                        txn.rollback().expect("the log runs");
                    }
                };
                std::thread::spawn(rolls_back).join().expect("no panic");
            });
            open.store.checkpoint().expect("the disk works");
            let open = open.crashed(undo);
            assert_eq!(open.get(old), b"an old one");
            assert_eq!(open.get(other), [1; 3000]);
            let ids = open.store.transact(|txn| open.objects.ids(txn)).expect("its pages can be read");
            assert!(!ids.contains(&new), "{undo:?}");
        }
    }
}
