//! Stores for tests of commands that know every kind of structure.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use cedrat::heap::HeapOptions;
use cedrat::prelude::*;
use cedrat::structures::{Catalogue, Kind, Named, PageList, Records};
use cedrat::txn::Vote;
use cedrat::{graph, objects};
use cedrat_pages::PageId;

/// Names and numbers of elements of the structures of [`one_of_each`] with elements, without objects and graphs.
pub(crate) const PLAIN: [(&str, u64); 5] =
    [("array", 500), ("list", 40), ("page list", 300), ("records", 60), ("table", 2000)];

/// Makes a store with a structure of each kind, and a heap.
pub(crate) fn one_of_each(directory: &Path) -> Store {
    let store = cedrat::open(directory).expect("a folder");
    let filled = store.transact(|txn| {
        let table = HashTable::<u64, String>::create(txn, "table")?;
        let array = ArrayList::<u64>::create(txn, "array", 16)?;
        let list = List::<String>::create(txn, "list")?;
        let page_list = PageList::<String>::create(txn, "page list")?;
        let records = Records::create(txn, "records")?;
        (0..PLAIN[0].1).try_for_each(|n| array.push(txn, &n).map(drop))?;
        (0..PLAIN[1].1).try_for_each(|n| list.push_back(txn, &format!("element {n}")))?;
        (0..PLAIN[2].1).try_for_each(|n| page_list.push_back(txn, &format!("element {n} of a page")))?;
        (0..PLAIN[3].1).try_for_each(|n| records.insert(txn, &[n as u8; 700]).map(drop))?;
        (0..PLAIN[4].1).try_for_each(|n| table.insert(txn, &n, &format!("value {n}")).map(drop))
    });
    filled.expect("there is room");
    let objects = objects::Objects::create(&store, "objects", objects::Options::default()).expect("there is room");
    store.transact(|txn| (0..9).try_for_each(|n| objects.insert(txn, &[n; 100]).map(drop))).expect("there is room");
    drop(graph::Graph::create(&store, "graph", graph::Options::default()).expect("there is room"));
    let heap = store.memory().create_heap("heap", &HeapOptions::new(8 << 20)).expect("there is room");
    heap.atomically(|tx| (0..3).try_for_each(|_| tx.allocate(&heap, 100).map(drop))).expect("a commit");
    drop((heap, objects));
    store
}

/// Leaves a transaction in doubt that has changed the table.
pub(crate) fn prepare(store: &Store, id: &[u8]) {
    let table = store.transact(|txn| HashTable::<u64, String>::open(txn, "table")).expect("it is there");
    let mut txn = store.begin();
    table.insert(&mut txn, &7, &"changed".to_owned()).expect("it is not locked");
    assert!(matches!(txn.prepare(id).expect("there is room"), Vote::Prepared(_)));
}

/// Destroys a page of a store that is closed, and its copy in the double-write area.
pub(crate) fn destroy(directory: &Path, page: u64) {
    let open = |name: &str| OpenOptions::new().write(true).open(directory.join(name)).expect("a file");
    open("pages").write_all_at(&[0xFF; 8], page * 4096 + 100).expect("room");
    open("double-write").write_all_at(&[0; 4096], 0).expect("room");
}

/// Adds pages that belong to no structure, and returns their first.
pub(crate) fn leak(store: &Store, pages: u64) -> PageId {
    store.transact(|txn| txn.allocate_region(pages)).expect("there is room")
}

/// Adds a structure of a kind that no command knows, and returns its root.
pub(crate) fn add_foreign(store: &Store) -> PageId {
    let catalogue = Catalogue::open(store).expect("there is room");
    let add = |txn: &mut Txn| {
        let root = txn.allocate()?;
        let name = "foreign".to_owned();
        catalogue.add(txn, &Named { name, kind: Kind::User(Kind::USER_FIRST), root, schema: 0 })?;
        Ok(root)
    };
    store.transact(add).expect("there is room")
}
