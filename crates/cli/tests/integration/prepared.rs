//! Prepared transactions, as the command shows them and resolves them.

use std::path::Path;

use cedrat::heap::{HeapOptions, MemoryOptions};
use cedrat::prelude::*;
use cedrat::txn::Vote;

use crate::common::{cedrat, errors, files, json, printed, text};

/// A store with a table and a heap, and two prepared transactions that have written to both, to words with this distance.
fn with_two_in_doubt(folder: &Path, options: Options, distance: u64) {
    let store = cedrat::open_with(folder, options, cedrat::registry()).expect("a folder");
    let words = store.memory().create_heap("words", &HeapOptions::raw(4 * distance)).expect("a heap");
    let table = store.transact(|txn| HashTable::<u64, u64>::open_or_create(txn, "table")).expect("a table");
    for (id, key) in [(&b"first"[..], 1), (b"second", 2)] {
        let mut txn = store.begin();
        table.insert(&mut txn, &key, &(10 * key)).expect("it is not locked");
        txn.heap(|tx| tx.write(&words, key * distance, 10 * key)).expect("it is not locked");
        assert!(matches!(txn.prepare(id).expect("there is room"), Vote::Prepared(_)));
    }
}

/// E9.4: the first was committed, and the second rolled back.
fn outcomes_are_kept_until_forgotten(place: &str, ids: &[&str]) {
    let heuristic = || json(&cedrat(&["info", place, "--json"]))["heuristic"].clone();
    let second = serde_json::json!({"id": ids[1], "committed": false});
    assert_eq!(heuristic(), serde_json::json!([{"id": ids[0], "committed": true}, second.clone()]), "E9.4d");
    let printed_info = printed(&cedrat(&["info", place]));
    assert!(printed_info.contains(&format!("{}: rolled back", ids[1])), "{printed_info}");
    let refused = cedrat(&["resolve", place, ids[0], "rollback"]);
    assert!(refused.status.code() == Some(1), "{}", errors(&refused));
    assert!(printed(&cedrat(&["resolve", place, ids[0], "forget"])).contains("forgotten"));
    assert_eq!(heuristic(), serde_json::json!([second]), "E9.4e");
    let again = cedrat(&["resolve", place, ids[0], "forget"]);
    assert!(again.status.code() == Some(1) && errors(&again).contains("no heuristic outcome is kept"));
}

#[test]
fn transactions_in_doubt_are_shown_and_resolved() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    with_two_in_doubt(&store, Options::default(), 4096);
    let (place, before) = (text(&store), files(&store));

    let info = json(&cedrat(&["info", place, "--json"]));
    let ids: Vec<&str> = info["in_doubt"].as_array().expect("a list").iter().filter_map(|b| b["id"].as_str()).collect();
    assert_eq!(ids, ["6669727374", "7365636f6e64"], "{info}");
    assert!(printed(&cedrat(&["info", place])).contains("6669727374: transaction "));
    let verdict = json(&cedrat(&["verify", place, "--json"]));
    assert!(verdict["ok"] == true && verdict["in_doubt"] == 2, "{verdict}");
    assert!(printed(&cedrat(&["verify", place])).contains("2 prepared transactions"));
    let log = printed(&cedrat(&["log", place]));
    assert!(log.contains("prepare") && log.contains("7365636f6e64"), "{log}");

    for (id, outcome, why) in [
        ("abc", "commit", "no identifier"),
        ("zz", "commit", "no identifier"),
        ("+f", "commit", "no identifier"),
        ("ff", "commit", "no transaction is prepared"),
        ("ff", "forget", "no heuristic outcome is kept"),
    ] {
        let refused = cedrat(&["resolve", place, id, outcome]);
        assert!(refused.status.code() == Some(1) && errors(&refused).contains(why), "{}", errors(&refused));
    }
    assert_eq!(files(&store), before, "what only looks, or is refused, changes nothing");

    let committed = cedrat(&["resolve", place, ids[0], "commit"]);
    assert!(errors(&committed).contains("warning: "), "{}", errors(&committed));
    assert!(printed(&committed).contains("committed"));
    assert!(printed(&cedrat(&["resolve", place, ids[1], "rollback"])).contains("rolled back"));
    assert_eq!(json(&cedrat(&["info", place, "--json"]))["in_doubt"], serde_json::json!([]));
    assert_eq!(json(&cedrat(&["verify", place, "--json"]))["ok"], true);
    outcomes_are_kept_until_forgotten(place, &ids);

    let store = cedrat::open(&store).expect("it is whole");
    let words = store.memory().heap("words").expect("it is there");
    let found = store.transact(|txn| {
        let table = HashTable::<u64, u64>::open_or_create(txn, "table")?;
        Ok([table.get(txn, &1)?, table.get(txn, &2)?])
    });
    assert_eq!(found.expect("nothing is locked"), [Some(10), None]);
    assert_eq!(
        [1, 2].map(|key| words.atomically(|tx| tx.read(&words, key * 4096)).expect("it is not locked")),
        [10, 0]
    );
}

/// The program has more locks of heap words than the command asks for, and the two words have the same of these.
#[test]
fn branches_with_more_locks_are_resolved() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let given = Options::default();
    let distance = 8 << (given.memory.stripes_log2 + given.memory.stripe_words_log2);
    let memory = MemoryOptions { stripes_log2: given.memory.stripes_log2 + 2, ..given.memory.clone() };
    with_two_in_doubt(&store, Options { memory, ..given }, distance);
    let place = text(&store);
    let verdict = json(&cedrat(&["verify", place, "--json"]));
    assert!(verdict["ok"] == true && verdict["in_doubt"] == 2, "{verdict}");
    assert!(printed(&cedrat(&["resolve", place, "6669727374", "commit"])).contains("committed"));
    assert!(printed(&cedrat(&["resolve", place, "7365636f6e64", "commit"])).contains("committed"));
    let store = cedrat::open(&store).expect("it is whole");
    let words = store.memory().heap("words").expect("it is there");
    assert_eq!(
        [1, 2].map(|key| words.atomically(|tx| tx.read(&words, key * distance)).expect("it is not locked")),
        [10, 20]
    );
}
