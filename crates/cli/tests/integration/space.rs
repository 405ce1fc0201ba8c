//! `cedrat space`: each byte has an owner.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{cedrat, errors, files, json, printed, text};
use crate::face::killed_bank;
use crate::stores::{PLAIN, add_foreign, destroy, leak, one_of_each};

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Checks that the parts of each file add up to its length, and the owners to all files.
fn sums_are_exact(store: &Path, report: &Value) {
    let lengths: BTreeMap<String, u64> = files(store)
        .into_keys()
        .map(|path| (path[text(store).len() + 1..].to_owned(), fs::metadata(&path).expect("a file").len()))
        .collect();
    let shown: BTreeMap<String, u64> = list(&report["files"])
        .iter()
        .map(|file| {
            let parts = list(&file["parts"]).iter().map(|part| number(&part["bytes"])).sum();
            assert_eq!(number(&file["bytes"]), parts, "{file}");
            (file["name"].as_str().expect("a name").to_owned(), parts)
        })
        .collect();
    assert_eq!(shown, lengths);
    let total = lengths.values().sum::<u64>();
    assert_eq!(number(&report["bytes"]), total);
    assert_eq!(list(&report["owners"]).iter().map(|owner| number(&owner["bytes"])).sum::<u64>(), total, "{report}");
    let live = list(&report["owners"]).iter().filter(|owner| owner["is_live"] == true);
    assert_eq!(number(&report["live_bytes"]), live.map(|owner| number(&owner["bytes"])).sum::<u64>());
    assert!(number(&report["live_bytes"]) <= total && number(&report["data_bytes"]) <= total, "{report}");
}

fn owned(report: &Value, owner: &str, name: Option<&str>) -> u64 {
    let is_it = |total: &&Value| total["owner"] == owner && total["name"].as_str() == name;
    list(&report["owners"]).iter().find(is_it).map_or(0, |total| number(&total["bytes"]))
}

#[test]
fn every_byte_has_one_owner() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = one_of_each(folder.path());
    store.close().expect("a checkpoint");
    fs::write(folder.path().join("heaps/stray"), "not of the store").expect("room");
    let before = files(folder.path());
    let report = json(&cedrat(&["space", text(folder.path()), "--json"]));
    assert!(files(folder.path()) == before, "a file was changed");
    assert_eq!(report["ok"], true, "{report}");
    sums_are_exact(folder.path(), &report);
    assert_eq!(owned(&report, "unknown file", Some("heaps/stray")), 16);
    assert_eq!(owned(&report, "pages, unreached", None), 0, "{report}");
    assert_eq!(owned(&report, "pages, space maps", None), 4096);
    assert_eq!(report["heaps"][0]["bytes_allocated"], 300);
    assert!(owned(&report, "heap, newest checkpoint", Some("heap")) > 0);
    let structures = list(&report["structures"]);
    assert_eq!(structures.len(), PLAIN.len() + 2);
    for structure in structures {
        let name = structure["name"].as_str().expect("a name");
        assert_eq!(owned(&report, "pages, structure", Some(name)), 4096 * number(&structure["pages"]), "{structure}");
        if let Some((_, elements)) = PLAIN.iter().find(|(plain, _)| *plain == name) {
            assert_eq!(number(&structure["elements"]), *elements, "{structure}");
        }
    }
    let bytes_of = |name: &str| structures.iter().find(|it| it["name"] == name).map(|it| number(&it["element_bytes"]));
    assert_eq!(bytes_of("records"), Some(60 * 700));
    assert!(bytes_of("array") >= Some(500) && bytes_of("table") >= Some(2000 * 8), "{report}");
    let shown = printed(&cedrat(&["space", text(folder.path())]));
    assert!(shown.contains("table, a hash table: ") && shown.contains("pages, free: "), "{shown}");
}

#[test]
fn unreached_pages_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = one_of_each(folder.path());
    let leaked = leak(&store, 3);
    store.close().expect("a checkpoint");
    let report = json(&cedrat(&["space", text(folder.path()), "--json"]));
    sums_are_exact(folder.path(), &report);
    let pages: Vec<u64> = list(&report["unreached"]).iter().map(|it| number(&it["page"])).collect();
    assert_eq!(pages, [leaked.get(), leaked.get() + 1, leaked.get() + 2]);
    assert_eq!(owned(&report, "pages, unreached", None), 3 * 4096);
    let shown = printed(&cedrat(&["space", text(folder.path())]));
    assert!(shown.contains("they were leaked"), "{shown}");
}

#[test]
fn foreign_structure_keeps_its_root() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = one_of_each(folder.path());
    let root = add_foreign(&store);
    leak(&store, 1);
    store.close().expect("a checkpoint");
    let report = json(&cedrat(&["space", text(folder.path()), "--json"]));
    sums_are_exact(folder.path(), &report);
    assert_eq!(report["unwalked_structures"], serde_json::json!(["foreign"]));
    let foreign = list(&report["structures"]).iter().find(|it| it["name"] == "foreign").expect("it is listed");
    assert_eq!((number(&foreign["root"]), number(&foreign["pages"])), (root.get(), 1));
    assert_eq!(owned(&report, "pages, unreached", None), 4096);
    let shown = printed(&cedrat(&["space", text(folder.path())]));
    assert!(shown.contains("may belong to foreign"), "{shown}");
}

#[test]
fn killed_store_is_attributed() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("bank");
    killed_bank(&store);
    let before = files(&store);
    let report = json(&cedrat(&["space", text(&store), "--json"]));
    assert!(files(&store) == before, "a file was changed");
    sums_are_exact(&store, &report);
    assert!(owned(&report, "log, for redo", Some("0")) > 0, "{report}");
}

#[test]
fn damaged_page_leaves_sums_exact() {
    let folder = tempfile::tempdir().expect("a folder");
    one_of_each(folder.path()).close().expect("a checkpoint");
    let report = json(&cedrat(&["space", text(folder.path()), "--json"]));
    let table = list(&report["structures"]).iter().find(|it| it["name"] == "table").expect("it is listed");
    destroy(folder.path(), number(&table["root"]));
    let output = cedrat(&["space", text(folder.path()), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("pages, byte "), "{}", errors(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    sums_are_exact(folder.path(), &report);
    assert!(owned(&report, "pages, unreached", None) > 0, "nothing leads to the table's pages");
}
