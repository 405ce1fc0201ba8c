//! The change stream and its consumers, as operators see them.

use cedrat::prelude::*;
use cedrat::txn::ConsumerOptions;
use serde_json::Value;

use crate::common::{cedrat, errors, files, json, printed, text};

#[test]
fn changes_and_consumers_are_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let store = cedrat::open(&path).expect("a folder");
    let consumer = store.consumer("mailer", ConsumerOptions { limit_bytes: 1 << 20 }).expect("there is room");
    let table = store.transact(|txn| HashTable::<u64, u64>::open_or_create(txn, "stock")).expect("a table");
    store.transact(|txn| table.insert(txn, &1, &10)).expect("it is not locked");
    let from = store.log().current_lsn().get() + 1;
    store.transact(|txn| table.remove(txn, &1)).expect("it is not locked");
    // While it is open.
    let shown = json(&cedrat(&["consumers", text(&path), "--json"]));
    assert_eq!(
        (&shown["consumers"][0]["name"], &shown["consumers"][0]["released_bytes"]),
        (&"mailer".into(), &Value::Null)
    );
    drop((store, consumer, table));
    let before = files(&path);
    let all = printed(&cedrat(&["changes", text(&path)]));
    let kinds = ["put      catalogue", "put      stock  01  0a", "remove   stock  01"];
    assert!(kinds.iter().all(|kind| all.contains(kind)), "{all}");
    let last = printed(&cedrat(&["changes", text(&path), "--from", &from.to_string(), "--json"]));
    let last: Value = serde_json::from_str(&last).expect("one line");
    assert_eq!((&last["change"], &last["of"], &last["key"]), (&"remove".into(), &"stock".into(), &"01".into()));
    assert_eq!(files(&path), before, "nothing is changed");
    let none = cedrat(&["changes", text(&path), "--from", "1000000"]);
    assert!(printed(&none).is_empty() && errors(&none).contains("no change"));
    assert!(printed(&cedrat(&["consumers", text(&path)])).contains("mailer  at LSN"));
}

#[test]
fn released_consumer_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let store = cedrat::open(&path).expect("a folder");
    let consumer = store.consumer("dead", ConsumerOptions { limit_bytes: 0 }).expect("there is room");
    let table = store.transact(|txn| HashTable::<u64, u64>::open_or_create(txn, "stock")).expect("a table");
    store.transact(|txn| table.insert(txn, &1, &10)).expect("it is not locked");
    drop((consumer, table));
    store.close().expect("there is room");
    let shown = cedrat(&["consumers", text(&path)]);
    assert_eq!(shown.status.code(), Some(1));
    assert!(errors(&shown).contains("consumer \"dead\" was released"), "{}", errors(&shown));
    let lost = cedrat(&["changes", text(&path), "--from", "1"]);
    assert!(lost.status.code() == Some(1) && errors(&lost).contains("are lost"), "{}", errors(&lost));
}
