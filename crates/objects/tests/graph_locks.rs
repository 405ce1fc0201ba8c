//! Locks of a graph's commits.
#![cfg(not(cedrat_shuttle))] // threads: graph_threads.rs

#[path = "graph_common/mod.rs"]
mod common;

use cedrat_objects::ObjectId;
use cedrat_objects::graph::{Changes, Identity, Mode, Reference};
use cedrat_pages::{PageId, Slot};
use cedrat_sync::Arc;
use cedrat_sync::atomic::{AtomicUsize, Ordering};
use cedrat_txn::locks::{Deadlock, LockManager, LockMode, NotGiven, PageLocks, Resource};
use cedrat_txn::{Options, TxnOptions, Vote};
use cedrat_wal::TxnId;
use common::{Place, pattern, place_with, underneath};

/// Counts the requests for record locks.
#[derive(Debug, Default)]
struct Counting {
    locks: PageLocks,
    records: AtomicUsize,
}

impl Counting {
    fn count(&self, resource: Resource) {
        self.records.fetch_add(usize::from(matches!(resource, Resource::Record(_))), Ordering::Relaxed);
    }
}

impl LockManager for Counting {
    fn lock(&self, txn: TxnId, resource: Resource, mode: LockMode) -> Result<(), Deadlock> {
        self.count(resource);
        self.locks.lock(txn, resource, mode)
    }

    fn lock_unless_prepared(
        &self,
        txn: TxnId,
        resource: Resource,
        mode: LockMode,
        is_prepared: &dyn Fn(TxnId) -> bool,
    ) -> Result<(), NotGiven> {
        self.count(resource);
        self.locks.lock_unless_prepared(txn, resource, mode, is_prepared)
    }

    fn try_lock(&self, txn: TxnId, resource: Resource, mode: LockMode) -> bool {
        self.locks.try_lock(txn, resource, mode)
    }

    fn prepared(&self, txn: TxnId) {
        self.locks.prepared(txn);
    }

    fn ended(&self, txn: TxnId) {
        self.locks.ended(txn);
    }

    fn held(&self, txn: TxnId) -> Vec<(Resource, LockMode)> {
        self.locks.held(txn)
    }
}

const MANY: usize = 70_000;

fn counted() -> (Place, Arc<Counting>) {
    let locks = Arc::new(Counting::default());
    let (log_limit_bytes, segment_len) = (256 << 20, 4 << 20);
    let manager = Arc::<Counting>::clone(&locks);
    (place_with(Options { locks: manager, log_limit_bytes, segment_len, ..Options::simulated() }), locks)
}

/// Makes a root, very many objects, and one in pieces.
fn very_many() -> Changes {
    let mut changes = Changes::new();
    let first = changes.next(1);
    changes.set_root("first", first);
    for number in 0..MANY {
        changes.add(1, &(number as u64).to_le_bytes(), &[]);
    }
    changes.add(1, &pattern(6000, 1), &[Reference::NULL]);
    changes
}

fn patches(ids: &[Identity], byte: u8) -> Changes {
    let mut changes = Changes::new();
    for &id in ids {
        changes.patch(id, 8, &[byte]);
    }
    changes
}

fn at(identity: Identity) -> ObjectId {
    ObjectId::new(PageId::new(identity.get() >> 16), Slot(identity.get() as u16))
}

/// Returns the first byte of an object's data.
fn first_byte(place: &Place, id: Identity) -> u8 {
    place.object(id).data[0]
}

/// E21.10.
#[test]
fn huge_commit_locks_whole_graph() {
    let (place, locks) = counted();
    let asked = |work: &mut dyn FnMut()| {
        let before = locks.records.load(Ordering::Relaxed);
        work();
        locks.records.load(Ordering::Relaxed) - before
    };
    let mut ids = Vec::new();
    assert_eq!(asked(&mut || ids = place.commit(&very_many())), 0);
    let ids = &ids[..MANY];
    assert_eq!(asked(&mut || drop(place.commit(&patches(ids, 1)))), 0);
    assert_eq!(asked(&mut || drop(place.commit(&patches(&ids[..10], 2)))), 10, "few are locked each by itself");
    // Repeated changes of one object count once.
    let again: Vec<Identity> = ids[..10].iter().copied().cycle().take(MANY).collect();
    assert_eq!(asked(&mut || drop(place.commit(&patches(&again, 3)))), 10);
    // It does not wait for a transaction that has locked another object.
    let stranger = place.add(&[0; 8], &[]);
    let objects = underneath(&place.graph);
    let mut other = place.graph.store().begin();
    objects.lock_for_change(&mut other, at(stranger)).unwrap();
    assert_eq!(asked(&mut || drop(place.commit(&patches(ids, 4)))), MANY);
    drop(other);
    assert_eq!(asked(&mut || drop(place.commit(&patches(ids, 5)))), 0);
    assert_eq!(locks.locks.locked(), 0);
    assert!(ids.iter().all(|&id| first_byte(&place, id) == 5));
}

/// E21.10: a branch may be in doubt for days, and blocks only commits that change the same objects.
#[test]
fn huge_branch_locks_each_object() {
    let (place, locks) = counted();
    let ids = place.commit(&very_many());
    let stranger = place.add(&[0; 8], &[]);
    let before = locks.records.load(Ordering::Relaxed);
    let branch = place.graph.prepare(patches(&ids[..MANY], 1), b"branch").unwrap();
    assert!(locks.records.load(Ordering::Relaxed) - before >= MANY);
    place.graph.commit(patches(&[stranger], 2), Mode::Sync).unwrap();
    // No other transaction can lock the whole collection meanwhile.
    let mut txn = place.graph.store().begin_with(TxnOptions::default().without_waiting_for_prepared());
    assert!(!underneath(&place.graph).try_lock_all(&mut txn).unwrap());
    drop(txn);
    let Vote::Prepared(prepared) = branch.vote else { panic!("it has changed something") };
    prepared.rollback().unwrap();
    assert_eq!((first_byte(&place, ids[0]), first_byte(&place, stranger)), (0, 2));
    let mut txn = place.graph.store().begin();
    assert!(underneath(&place.graph).try_lock_all(&mut txn).unwrap());
}
