//! Locks of a graph's commits.
#![cfg(not(cedrat_shuttle))] // threads: graph_threads.rs

use cedrat_objects::ObjectId;
use cedrat_objects::graph::{Changes, Graph, Identity, Mode, Reference};
use cedrat_pages::{PageId, Slot};
use cedrat_sync::Arc;
use cedrat_sync::atomic::{AtomicUsize, Ordering};
use cedrat_txn::locks::{Deadlock, LockManager, LockMode, NotGiven, PageLocks, Resource};
use cedrat_txn::{Error, Options, TxnOptions, Vote};
use cedrat_wal::TxnId;

use crate::graph_common::{NAME, Place, go_on, pattern, place_of, underneath};

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
    counted_with(cedrat_objects::graph::Options::default())
}

fn counted_with(of_graph: cedrat_objects::graph::Options) -> (Place, Arc<Counting>) {
    let locks = Arc::new(Counting::default());
    let (log_limit_bytes, segment_len) = (256 << 20, 4 << 20);
    let manager = Arc::<Counting>::clone(&locks);
    (place_of(Options { locks: manager, log_limit_bytes, segment_len, ..Options::simulated() }, of_graph), locks)
}

const PROGRAM_LOCKS: cedrat_objects::graph::Options =
    cedrat_objects::graph::Options { cache_bytes: 64 << 20, program_locks: true, class_tag: None };

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

/// E21.11.
#[test]
fn program_locks_replace_object_locks() {
    let (place, locks) = counted_with(PROGRAM_LOCKS);
    let asked = |changes: &Changes| {
        let before = locks.records.load(Ordering::Relaxed);
        place.commit(changes);
        locks.records.load(Ordering::Relaxed) - before
    };
    let ids: Vec<Identity> = (0..10).map(|number: u8| place.add(&[number; 8], &[])).collect();
    let long = place.add(&pattern(6000, 1), &[Reference::NULL]);
    let mut roots = Changes::new();
    roots.set_root("long", long);
    for (number, &id) in ids.iter().enumerate() {
        roots.set_root(&number.to_string(), id);
    }
    place.commit(&roots);

    assert_eq!(asked(&patches(&ids, 1)), 0);
    let mut made = patches(&ids, 2);
    made.add(1, b"new", &[ids[0].into()]);
    assert_eq!(asked(&made), 1, "the new object");
    // Changes that are not made with the commit record.
    assert!(asked(&patches(&[ids[0], long], 3)) >= 2);
    assert_eq!(asked(&patches(&[ids[0], ids[0]], 4)), 1);
    let mut collection = None;
    loop {
        go_on(&place.graph, &mut collection, 4).unwrap();
        if collection.is_none() {
            break;
        }
        assert_eq!(asked(&patches(&ids, 5)), 10, "while a collection runs");
    }
    assert_eq!(asked(&patches(&ids, 6)), 0);
    assert!(ids.iter().all(|&id| first_byte(&place, id) == 6));
    assert_eq!(locks.locks.locked(), 0);
    let others = Graph::open(place.graph.store(), NAME, cedrat_objects::graph::Options::default());
    assert!(matches!(others, Err(Error::Misuse(_))));
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
