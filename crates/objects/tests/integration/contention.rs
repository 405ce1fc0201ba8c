//! E19.18: a thread that waits for I/O blocks other threads only from that record.
//!
//! The test holds one call of the medium until the other threads have done their work and were joined. A thread that waited
//! for the held call would never end: nothing here depends on time.
#![cfg(not(cedrat_shuttle))] // interleavings: threads.rs

use cedrat_media::{Call, SimDisk};
use cedrat_objects::{ObjectId, Objects, Options};
use cedrat_pages::PAGE_FILE;
use cedrat_sync::{Arc, Condvar, Mutex, thread};
use cedrat_txn::{Commit, Store};

use crate::common::{Add, get, number, registry};

/// Directory of the log segments.
const LOG: &str = "log/";

/// Calls that can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    ReadOfPages,
    ForceOfLog,
    SyncOfPages,
}

impl Held {
    fn of(call: Call, name: &str) -> Option<Held> {
        match call {
            Call::Read if name == PAGE_FILE => Some(Held::ReadOfPages),
            Call::Write if name.starts_with(LOG) => Some(Held::ForceOfLog),
            Call::Sync if name == PAGE_FILE => Some(Held::SyncOfPages),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    closed_for: Option<Held>,
    holds_one: bool,
}

/// A gate that can hold one call at a time.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    /// Returns a gate before the calls of a disk.
    fn before(disk: &SimDisk) -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        let passed = Arc::clone(&gate);
        disk.before_each_call(move |_, call, name| passed.pass(Held::of(call, name)));
        gate
    }

    /// Closes the gate for the next such call; later ones are not held.
    fn close(&self, call: Held) {
        self.state.lock().closed_for = Some(call);
    }

    fn wait_until_one_is_held(&self) {
        let mut state = self.state.lock();
        while !state.holds_one {
            self.changed.wait(&mut state);
        }
    }

    fn open(&self) {
        self.state.lock().holds_one = false;
        self.changed.notify_all();
    }

    fn pass(&self, call: Option<Held>) {
        let mut state = self.state.lock();
        if call.is_some() && state.closed_for == call {
            *state = State { closed_for: None, holds_one: true };
            self.changed.notify_all();
            while state.holds_one {
                self.changed.wait(&mut state);
            }
        }
    }
}

/// A store with objects of a page each, a few of which fit into memory.
struct Fixture {
    disk: SimDisk,
    gate: Arc<Gate>,
    store: Store,
    objects: Objects,
    ids: Vec<ObjectId>,
}

const OBJECTS: usize = 40;
/// Objects that are in the cache before a call is held.
const WARM: std::ops::Range<usize> = 0..4;
/// Number of objects that fit into the cache.
const ROOM: u64 = 6;
const OBJECT_LEN: usize = 3600;
const POOL_PAGES: usize = 8;

fn open(disk: &SimDisk) -> (Store, Objects) {
    let options = cedrat_txn::Options { pool_bytes: (POOL_PAGES as u64) << 12, ..cedrat_txn::Options::simulated() };
    let store = Store::open(Arc::new(disk.clone()), options, registry()).unwrap();
    let cache_bytes = ROOM * (OBJECT_LEN as u64 + 400);
    let objects = Objects::open_or_create(&store, "objects", Options { cache_bytes, ..Options::default() }).unwrap();
    (store, objects)
}

impl Fixture {
    fn new() -> Fixture {
        let disk = SimDisk::new();
        let gate = Gate::before(&disk);
        let (store, objects) = open(&disk);
        let bytes = number(0, 0, &"x".repeat(OBJECT_LEN - 9));
        let ids = (0..OBJECTS).map(|_| store.transact(|txn| objects.insert(txn, &bytes)).unwrap()).collect();
        store.checkpoint().unwrap();
        let fixture = Fixture { disk, gate, store, objects, ids };
        WARM.for_each(|one| fixture.add(one));
        fixture.evict_pages_but([]);
        fixture
    }

    /// Changes an object, without waiting for the disk.
    fn add(&self, one: usize) {
        let mut txn = self.store.begin();
        self.objects.update(&mut txn, self.ids[one], Add { amount: 1 }).unwrap();
        txn.commit(Commit::Async).unwrap();
    }

    fn value(&self, one: usize) -> u64 {
        let bytes = get(&self.store, &self.objects, self.ids[one]).expect("it is there");
        u64::from_le_bytes(*bytes.first_chunk().unwrap())
    }

    /// Fills the pool with pages of objects that are not in the cache, and last with those of these objects.
    fn evict_pages_but<const N: usize>(&self, kept: [usize; N]) {
        for one in (OBJECTS / 2..OBJECTS).chain(kept) {
            self.objects.read_committed(&self.store, self.ids[one], |_| ()).unwrap();
        }
    }

    /// Runs `work` in a thread until it makes a call that is held; then, in another thread, work that must not wait for it.
    fn beside(&self, call: Held, work: impl FnOnce() + Send, others: impl FnOnce() + Send) {
        self.gate.close(call);
        thread::scope(|scope| {
            let held = scope.spawn(work);
            self.gate.wait_until_one_is_held();
            scope.spawn(others).join().unwrap();
            assert!(!held.is_finished(), "its call is held");
            self.gate.open();
            held.join().unwrap();
        });
    }

    /// Hits, updates and reads without locks of all objects in the cache.
    fn use_what_is_warm(&self) {
        for one in WARM {
            let before = self.value(one);
            self.add(one);
            assert_eq!(self.value(one), before + 1);
            self.objects.read_committed(&self.store, self.ids[one], |_| ()).unwrap();
        }
        let mut txn = self.store.begin();
        let mut warm: Vec<ObjectId> = WARM.map(|one| self.ids[one]).collect();
        warm.sort_unstable();
        warm.iter().for_each(|&id| self.objects.lock_for_change(&mut txn, id).unwrap());
        let one_more = |_, old: &[u8]| {
            let number = u64::from_le_bytes(*old.first_chunk().unwrap()) + 1;
            Some(cedrat_objects::Edit::Range { at: 0, bytes: number.to_le_bytes()[..].into() })
        };
        let changed = self.objects.commit_with(&mut txn, warm, Commit::Async, one_more).unwrap();
        assert!(changed.is_some(), "in the commit record");
    }

    /// Checks the committed values, now and after a crash.
    fn check(self, values: [u64; 4]) {
        let found = |fixture: &Fixture| [0, 1, 2, 3].map(|one| fixture.value(one));
        assert_eq!(found(&self), values);
        self.store.checkpoint().unwrap();
        let journal = self.disk.journal();
        let disk = journal.crash(self.disk.journal_len(), cedrat_media::Loss::Everything);
        let gate = Gate::before(&disk);
        let (store, objects) = open(&disk);
        let fixture = Fixture { disk, gate, store, objects, ids: self.ids };
        assert_eq!(found(&fixture), values);
        fixture.objects.check(&fixture.store.begin()).unwrap().expect_sound();
    }
}

/// E19.18.
#[test]
fn load_keeps_no_other_object_waiting() {
    let fixture = Fixture::new();
    let cold = || assert_eq!(fixture.value(10), 0);
    fixture.beside(Held::ReadOfPages, cold, || {
        fixture.use_what_is_warm();
        assert_eq!(fixture.value(11), 0, "another load, with I/O of its own");
    });
    fixture.check([3; 4]);
}

/// Two threads request one object: one waits, and both get it.
#[test]
fn load_blocks_only_its_own_object() {
    let fixture = Fixture::new();
    thread::scope(|scope| {
        fixture.gate.close(Held::ReadOfPages);
        let first = scope.spawn(|| fixture.value(10));
        fixture.gate.wait_until_one_is_held();
        let second = scope.spawn(|| fixture.value(10));
        fixture.use_what_is_warm();
        assert!(!first.is_finished() && !second.is_finished(), "there is one way to it");
        fixture.gate.open();
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (0, 0));
    });
    assert_eq!(fixture.objects.statistics().records, WARM.len() as u64 + 1);
    fixture.check([3; 4]);
}

/// E19.18: the record is changed while an older copy of it is written to its page: the newer change is not lost.
#[test]
fn flush_keeps_no_object_waiting() {
    let fixture = Fixture::new();
    let flush = || fixture.objects.flush(&fixture.store, fixture.ids[0]).unwrap();
    fixture.beside(Held::ReadOfPages, flush, || {
        fixture.use_what_is_warm();
        assert_eq!(fixture.value(11), 0);
        assert_eq!(fixture.objects.statistics().flushes, 0, "of this one first");
    });
    fixture.check([3; 4]);
}

#[test]
fn flush_of_all_keeps_no_object_waiting() {
    let fixture = Fixture::new();
    let flush = || fixture.objects.flush_all(&fixture.store).unwrap();
    fixture.beside(Held::ReadOfPages, flush, || fixture.use_what_is_warm());
    fixture.check([3; 4]);
}

/// E19.18.
/// Victims with committed changes whose pages are not in memory.
#[test]
fn eviction_keeps_no_object_waiting() {
    let fixture = Fixture::new();
    // Only dirty records are left to evict.
    fixture.evict_pages_but([4, 5, 6]);
    [4, 5].into_iter().for_each(|one| assert_eq!(fixture.value(one), 0));
    [4, 5].into_iter().for_each(|one| fixture.add(one));
    fixture.evict_pages_but([6]);
    assert_eq!(fixture.objects.statistics().records, ROOM);
    let evicting = || assert_eq!(fixture.value(6), 0);
    fixture.beside(Held::ReadOfPages, evicting, || fixture.use_what_is_warm());
    assert_eq!(fixture.objects.statistics().records, ROOM);
    assert!(fixture.objects.statistics().evictions > 0);
    fixture.check([3; 4]);
}

/// E19.18: the frame that a flush needs contains a page with a log that is not durable yet.
#[test]
fn log_force_keeps_no_object_waiting() {
    let fixture = Fixture::new();
    // All frames are dirty, by records that were not forced.
    while fixture.store.pool().stats().dirty_pages < POOL_PAGES {
        let mut txn = fixture.store.begin();
        fixture.objects.insert(&mut txn, &number(0, 0, &"x".repeat(OBJECT_LEN - 9))).unwrap();
        txn.commit(Commit::Async).unwrap();
    }
    let flush = || fixture.objects.flush(&fixture.store, fixture.ids[0]).unwrap();
    fixture.beside(Held::ForceOfLog, flush, || fixture.use_what_is_warm());
    fixture.check([3; 4]);
}

/// E19.18.
#[test]
fn checkpoint_keeps_no_object_waiting() {
    for call in [Held::ReadOfPages, Held::ForceOfLog, Held::SyncOfPages] {
        let fixture = Fixture::new();
        fixture.store.checkpoint().unwrap(); // older changes go to their pages next
        fixture.add(0);
        fixture.beside(call, || fixture.store.checkpoint().unwrap(), || fixture.use_what_is_warm());
        fixture.check([4, 3, 3, 3]);
    }
}

/// E19.18: a page that leaves its collection blocks only threads that need this page.
#[test]
fn page_that_leaves_keeps_no_insertion_waiting() {
    let fixture = Fixture::new();
    let (before, leaving) = (fixture.ids[10].page, fixture.ids[11].page);
    fixture.store.transact(|txn| fixture.objects.remove(txn, fixture.ids[11])).unwrap();
    fixture.objects.flush_all(&fixture.store).unwrap();
    let small = || {
        let mut txn = fixture.store.begin();
        fixture.objects.insert(&mut txn, b"small").unwrap();
        txn.commit(Commit::Async).unwrap();
    };
    // Its dead record is purged; the page before it is not in memory.
    let purge = || fixture.store.transact(|txn| fixture.objects.take_out(txn, leaving, leaving)).unwrap();
    assert!(!purge(), "no page leads to itself");
    fixture.evict_pages_but([]);
    small();
    // Its own page is in memory, though it contains no object.
    fixture.objects.read_committed(&fixture.store, fixture.ids[11], |_| ()).unwrap_err();
    let take_out = || {
        assert!(fixture.store.transact(|txn| fixture.objects.take_out(txn, before, leaving)).unwrap());
    };
    fixture.beside(Held::ReadOfPages, take_out, || {
        small();
        fixture.use_what_is_warm();
    });
    assert!(!fixture.objects.pages(&fixture.store).unwrap().contains(&leaving));
    fixture.check([3; 4]);
}
