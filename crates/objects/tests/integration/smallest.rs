//! Each structure in the smallest log with the smallest page pool.
#![cfg(not(cedrat_shuttle))]

use cedrat_media::{Loss, SimDisk};
use cedrat_objects::Objects;
use cedrat_objects::graph::{Changes, Graph, Mode};
use cedrat_structures::{ArrayList, Catalogue, HashTable, List, PageList, Records};
use cedrat_sync::Arc;
use cedrat_txn::{Options, Result, Store, Vote};

use crate::graph_common::open_on;

/// The smallest log of one or more partitions, and 8 pages.
fn smallest(partitions: u16) -> Options {
    let segments = 2 * u64::from(partitions) + 2;
    let options = Options::simulated();
    Options { pool_bytes: 8 * 4096, partitions, log_limit_bytes: segments * options.segment_len, ..options }
}

type Create = fn(&Store) -> Result<()>;

/// Creates a structure, and changes it.
const STRUCTURES: [(&str, Create); 8] = [
    ("table", |store| {
        store.transact(|txn| HashTable::<u64, u64>::create(txn, "table")?.insert(txn, &1, &2))?;
        store.transact(|txn| HashTable::<u64, u64>::open(txn, "table")?.remove(txn, &1)).map(|found| assert!(found))
    }),
    ("array", |store| store.transact(|txn| ArrayList::<u64>::create(txn, "array", 8)?.push(txn, &1)).map(drop)),
    ("list", |store| store.transact(|txn| List::<u64>::create(txn, "list")?.push_back(txn, &1)).map(drop)),
    ("page list", |store| store.transact(|txn| PageList::<u64>::create(txn, "list")?.push_back(txn, &1)).map(drop)),
    ("records", |store| store.transact(|txn| Records::create(txn, "records")?.insert(txn, b"1")).map(drop)),
    ("objects", |store| {
        let objects = Objects::create(store, "objects", cedrat_objects::Options::default())?;
        store.transact(|txn| objects.insert(txn, b"1")).map(drop)
    }),
    ("graph", |store| {
        let graph = Graph::create(store, "graph", cedrat_objects::graph::Options::default())?;
        graph.define_class(b"a class")?;
        let mut changes = Changes::new();
        changes.add(1, b"1", &[]);
        graph.commit(&changes, Mode::Sync).map(drop)
    }),
    ("heap", |store| Ok(store.memory().create_heap("heap", &cedrat_heap::HeapOptions::raw(1 << 16)).map(drop)?)),
];

/// E16.1d.
#[test]
fn smallest_log_and_pool_fit_each_structure() {
    for partitions in [1, 4] {
        for (name, create) in STRUCTURES {
            let disk = Arc::new(SimDisk::new());
            let store = open_on(&disk, smallest(partitions));
            let created = create(&store);
            assert!(created.is_ok(), "{name}, {partitions} partitions: {created:?}");
            assert_eq!(store.log().space().overdrawn.0, 0, "E16.1: {name}");
            store.check().expect("it is sound");
            drop(store);
            let after = Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything));
            open_on(&after, smallest(partitions)).check().expect("it is sound after a crash");
        }
    }
}

/// The table grows in the transaction of its creation, in part before a savepoint to which it returns.
#[test]
fn rollback_of_grown_table_has_space() {
    let options = Options { log_limit_bytes: 64 << 16, pool_bytes: 64 * 4096, ..smallest(1) };
    let disk = Arc::new(SimDisk::new());
    let store = open_on(&disk, options);
    Catalogue::open(&store).expect("it is created");
    let pages = store.check().expect("it is sound").pages_allocated;
    let mut txn = store.begin();
    let table = HashTable::<u64, Vec<u8>>::create(&mut txn, "table").expect("there is room");
    let savepoint = txn.savepoint();
    for key in 0..1000 {
        table.insert(&mut txn, &key, &vec![7; 100]).expect("there is room");
    }
    txn.rollback_to(savepoint).expect("it can be undone");
    table.insert(&mut txn, &1, &vec![7; 100]).expect("there is room");
    txn.rollback().expect("it can be undone");
    assert_eq!(store.log().space().overdrawn.0, 0, "E16.1");
    assert!(store.check().expect("it is sound").pages_allocated <= pages, "pages are lost");
}

/// The reservation outlives a crash: the branch remembers what its rollback takes.
#[test]
fn prepared_creation_rolls_back_beside_full_log() {
    let options = || Options { log_limit_bytes: 64 << 16, pool_bytes: 64 * 4096, ..smallest(1) };
    let disk = Arc::new(SimDisk::new());
    let store = open_on(&disk, options());
    Catalogue::open(&store).expect("it is created");
    let pages = store.check().expect("it is sound").pages_allocated;
    let mut txn = store.begin();
    let table = HashTable::<u64, Vec<u8>>::create(&mut txn, "table").expect("there is room");
    for key in 0..600 {
        table.insert(&mut txn, &key, &vec![7; 100]).expect("there is room");
    }
    assert!(matches!(txn.prepare(b"branch"), Ok(Vote::Prepared(_))));
    drop((table, store));
    let disk = Arc::new(disk.cut_power(Loss::Everything));
    let store = open_on(&disk, options());
    disk.set_capacity(Some(disk.space()));
    let mut others = Vec::new();
    while others.len() < 1000 {
        let mut txn = store.begin();
        match (0..20).try_for_each(|_| txn.allocate().map(drop)) {
            Ok(()) => others.push(txn),
            Err(_) => break,
        }
    }
    store.prepared(b"branch").expect("it is in doubt").rollback().expect("E16.1");
    assert_eq!(store.log().space().overdrawn.0, 0, "E16.1");
    drop(others);
    disk.set_capacity(None);
    assert!(store.check().expect("it is sound").pages_allocated <= pages, "pages are lost");
}
