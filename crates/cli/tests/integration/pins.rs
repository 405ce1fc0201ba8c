//! `cedrat pins` and `cedrat locks`: what a store without a process holds.

use std::path::Path;

use cedrat::prelude::*;
use serde_json::Value;

use crate::common::{cedrat, files, json, printed, text};
use crate::face::killed_bank;
use crate::stores::{one_of_each, prepare};

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

#[test]
fn prepared_transaction_pins_and_locks() {
    let folder = tempfile::tempdir().expect("a folder");
    prepare(&one_of_each(folder.path()), b"order");
    let before = files(folder.path());
    let pins = json(&cedrat(&["pins", text(folder.path()), "--json"]));
    let holder = list(&pins["holders"]).iter().find(|it| it["holder"] == "prepared transaction").expect("it is there");
    assert_eq!(holder["id"], "6f72646572");
    assert!(holder["lsn"].as_u64() >= pins["scan_lsn"].as_u64() && holder["bytes"].as_u64() > Some(0), "{pins}");
    let locks = json(&cedrat(&["locks", text(folder.path()), "--json"]));
    let [transaction] = list(&locks["transactions"]) else { panic!("{locks}") };
    assert_eq!((&transaction["id"], &transaction["transaction"]), (&holder["id"], &holder["transaction"]));
    let key = list(&transaction["locks"]).iter().find(|held| held["resource"] == "key").expect("a key is locked");
    assert_eq!((key["structure"].as_str(), key["mode"].as_str()), (Some("table"), Some("exclusive")), "{locks}");
    let shown = printed(&cedrat(&["locks", text(folder.path())]));
    assert!(shown.contains("(table): exclusive"), "{shown}");
    assert!(files(folder.path()) == before, "a file was changed");
    printed(&cedrat(&["resolve", text(folder.path()), "6f72646572", "rollback"]));
    assert!(list(&json(&cedrat(&["locks", text(folder.path()), "--json"]))["transactions"]).is_empty());
}

/// A structure that a prepared transaction has made has no name yet: the catalogue is locked.
#[test]
fn locked_catalogue_delays_no_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = cedrat::open(folder.path()).expect("a folder");
    let mut txn = store.begin();
    HashTable::<u64, u64>::create(&mut txn, "new").expect("there is room");
    let vote = txn.prepare(b"new").expect("there is room");
    drop((vote, store));
    let locks = json(&cedrat(&["locks", text(folder.path()), "--json"]));
    assert!(!list(&locks["transactions"][0]["locks"]).is_empty(), "{locks}");
}

#[test]
fn killed_and_closed_stores_are_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("bank");
    killed_bank(&store);
    let pins = json(&cedrat(&["pins", text(&store), "--json"]));
    assert!(pins["bytes"].as_u64() > Some(0) && pins["newest_lsn"].as_u64() > pins["redo_lsn"].as_u64(), "{pins}");
    one_of_each(&folder.path().join("closed")).close().expect("a checkpoint");
    let shown = printed(&cedrat(&["pins", text(&folder.path().join("closed"))]));
    assert!(shown.contains("the next checkpoint releases all of it"), "{shown}");
}

/// Makes a store whose archive lacks its newest commit.
fn behind_its_archive(folder: &Path) {
    let options = cedrat::archived_in(folder.join("archive"), Options::default());
    let options = Options { background: false, ..options };
    let store = cedrat::open_with(folder.join("store"), options, cedrat::registry()).expect("a folder");
    store.extend_archive().expect("there is room");
    store.transact(|txn| HashTable::<u64, u64>::create(txn, "table").map(drop)).expect("there is room");
}

#[test]
fn archive_that_lags_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    behind_its_archive(folder.path());
    let (store, archive) = (folder.path().join("store"), folder.path().join("archive"));
    let holders = |more: &[&str]| {
        let pins = json(&cedrat(&[&["pins", text(&store), "--json"], more].concat()));
        list(&pins["holders"]).iter().filter(|holder| holder["holder"] == "archive").count()
    };
    assert_eq!((holders(&[]), holders(&["--archive", text(&archive)])), (0, 1));
    let options = cedrat::archived_in(&archive, Options::default());
    let again = cedrat::open_with(&store, options, cedrat::registry()).expect("it is whole");
    again.close().expect("it is not in use");
    assert_eq!(holders(&["--archive", text(&archive)]), 0);
}
