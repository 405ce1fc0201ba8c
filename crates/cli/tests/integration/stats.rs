//! `cedrat stats`: what the log of a store consists of.

use cedrat::prelude::*;
use serde_json::Value;

use crate::common::{cedrat, files, json, printed, text};

fn sum(shares: &Value, field: &str) -> u64 {
    shares.as_array().expect("a list").iter().map(|share| share[field].as_u64().expect("a number")).sum()
}

#[test]
fn log_of_open_store_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = cedrat::open(folder.path()).expect("a folder");
    let table = store.transact(|txn| HashTable::<u64, String>::create(txn, "table")).expect("there is room");
    store.checkpoint().expect("there is room");
    let before = json(&cedrat(&["stats", text(folder.path()), "--json"]));
    for number in 0..30 {
        store.transact(|txn| table.insert(txn, &number, &"x".repeat(100))).expect("there is room");
    }
    let mut txn = store.begin();
    table.insert(&mut txn, &1000, &"y".into()).expect("there is room");
    txn.rollback().expect("it is undone");
    store.log().force(store.log().current_lsn()).expect("a disk");
    let stats = json(&cedrat(&["stats", text(folder.path()), "--json"]));
    let more = |field: &str| stats[field].as_u64().expect("a number") - before[field].as_u64().expect("a number");
    assert_eq!((more("committed"), more("rolled_back")), (30, 1), "{before} {stats}");
    assert_eq!(sum(&stats["kinds"], "count"), stats["records"].as_u64().expect("a number"));
    assert_eq!(sum(&stats["kinds"], "bytes"), stats["bytes"].as_u64().expect("a number"));
    assert!(sum(&stats["operations"], "bytes") > 30 * 100, "{stats}");
    let busiest = stats["busy_pages"][0]["changes"].as_u64().expect("a number");
    assert!(busiest >= 30 && busiest <= sum(&stats["operations"], "count"), "{stats}");
    assert!(stats["pages_changed"].as_u64() >= Some(1), "{stats}");

    store.close().expect("a checkpoint");
    let unchanged = files(folder.path());
    let shown = printed(&cedrat(&["stats", text(folder.path())]));
    assert!(shown.contains("transactions") && shown.contains("changed"), "{shown}");
    assert!(files(folder.path()) == unchanged, "a file was changed");
}
