//! `cedrat page`: pages of every layout, whole and damaged.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;

use crate::common::{cedrat, errors, files, json, printed, text};
use crate::face::killed_bank;
use crate::stores::{add_foreign, destroy, leak, one_of_each};

fn shown(store: &Path, page: u64) -> Value {
    json(&cedrat(&["page", text(store), &page.to_string(), "--json"]))
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn field(shown: &Value, name: &str) -> Option<u64> {
    let fields = shown["fields"].as_array().expect("a list");
    fields.iter().find(|field| field["name"] == name).map(|field| number(&field["value"]))
}

/// The first page of the store with this layout, by name and number.
fn first_of(store: &Path, (layout, name): (u16, &str), owner: &str) -> Value {
    let bytes = std::fs::read(store.join("pages")).expect("a file");
    let pages = bytes.chunks(4096).zip(0..).filter(|(page, _)| page[6..8] == layout.to_le_bytes());
    let is_it = |shown: &Value| {
        shown["layout_name"] == name && shown["owner"].as_str().is_some_and(|shown| shown.starts_with(owner))
    };
    pages.map(|(_, page)| shown(store, page)).find(is_it).unwrap_or_else(|| panic!("no {name} of {owner}"))
}

const BUCKET: (u16, &str) = (17, "hash table, bucket");

#[test]
fn pages_are_printed_by_layout() {
    let folder = tempfile::tempdir().expect("a folder");
    one_of_each(folder.path()).close().expect("a checkpoint");
    let before = files(folder.path());
    let map = shown(folder.path(), 0);
    assert_eq!((map["owner"].as_str(), map["checksum"].as_str()), (Some("the space maps"), Some("whole")), "{map}");
    assert!(field(&map, "pages in use") > Some(10), "{map}");
    let catalogue = shown(folder.path(), 1);
    assert_eq!((catalogue["owner"].as_str(), number(&catalogue["own_number"])), (Some("the catalogue"), 1));
    let bucket = first_of(folder.path(), BUCKET, "table");
    let parts = &bucket["records"][0]["parts"];
    assert_eq!((parts[0]["name"].as_str(), parts[1]["name"].as_str()), (Some("key"), Some("value")));
    assert_eq!(field(&bucket, "entries"), Some(number(&bucket["record_count"])));
    let array = first_of(folder.path(), (18, "array list, root"), "array");
    assert_eq!(field(&array, "elements"), Some(500));
    let sequence = first_of(folder.path(), (21, "page-oriented list, records"), "page list");
    assert!(sequence["records"].to_string().contains("656c656d656e742030206f6620"), "element 0 of: {sequence}");
    let objects = first_of(folder.path(), (4, "versioned"), "objects");
    assert!(number(&objects["records"][1]["version"]) > 0, "{objects}");
    let fixed = first_of(folder.path(), (2, "fixed"), "array");
    assert_eq!(field(&fixed, "record length"), Some(16));
    let root = field(&bucket, "root").expect("it is there").to_string();
    let printed_root = printed(&cedrat(&["page", text(folder.path()), &root]));
    assert!(printed_root.contains("hash table, root") && printed_root.contains("owner     table, "), "{printed_root}");
    assert!(files(folder.path()) == before, "a file was changed");
    let behind = cedrat(&["page", text(folder.path()), "1000000"]);
    assert!(behind.status.code() == Some(1) && errors(&behind).contains("does not exist"), "{}", errors(&behind));
}

#[test]
fn unknown_layout_is_dumped() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = one_of_each(folder.path());
    let (foreign, leaked) = (add_foreign(&store), leak(&store, 1));
    store.close().expect("a checkpoint");
    assert_eq!(shown(folder.path(), foreign.get())["owner"], "foreign, a structure of kind 1024");
    let leaked = shown(folder.path(), leaked.get());
    assert!(leaked["owner"].as_str().expect("known").contains("allocated"), "{leaked}");
    let bytes = printed(&cedrat(&["page", text(folder.path()), "1", "--bytes"]));
    assert!(bytes.contains("bytes     0000  ") && bytes.contains("*"), "{bytes}");
    assert!(printed(&cedrat(&["page", text(folder.path()), "1"])).lines().count() < bytes.lines().count());
}

#[test]
fn damaged_page_is_shown_with_place() {
    let folder = tempfile::tempdir().expect("a folder");
    one_of_each(folder.path()).close().expect("a checkpoint");
    let page = number(&first_of(folder.path(), BUCKET, "table")["page"]);
    destroy(folder.path(), page);
    let output = cedrat(&["page", text(folder.path()), &page.to_string(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let offset = page * 4096;
    assert!(errors(&output).contains(&format!("pages, byte {offset}: page {page} is damaged")), "{}", errors(&output));
    let damaged: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((number(&damaged["damage"]["offset"]), damaged["checksum"].as_str()), (offset, Some("damaged")));
    assert_eq!(damaged["bytes"].as_str().map(str::len), Some(8192), "all bytes are shown");
    assert_eq!(damaged["double_write_offset"], Value::Null);
    assert_eq!(damaged["layout_name"], "hash table, bucket", "what is readable is shown");

    // A page of zeros, of which the file `written` says that it was written.
    let file = OpenOptions::new().write(true).open(folder.path().join("pages")).expect("a file");
    file.write_all_at(&[0; 4096], page * 4096).expect("room");
    let lost = cedrat(&["page", text(folder.path()), &page.to_string()]);
    assert!(lost.status.code() == Some(1) && errors(&lost).contains("the write was lost"), "{}", errors(&lost));
}

#[test]
fn copy_of_torn_page_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    one_of_each(folder.path()).close().expect("a checkpoint");
    let file = OpenOptions::new().write(true).open(folder.path().join("pages")).expect("a file");
    let area = std::fs::read(folder.path().join("double-write")).expect("a file");
    let page = u64::from_le_bytes(area[40..48].try_into().expect("eight bytes"));
    file.write_all_at(&[0xFF; 8], page * 4096 + 100).expect("room");
    let output = cedrat(&["page", text(folder.path()), &page.to_string(), "--json"]);
    let torn: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), number(&torn["double_write_offset"])), (Some(1), 4096));
    let recovered = json(&cedrat(&["page", text(folder.path()), &page.to_string(), "--recovered", "--json"]));
    assert_eq!((recovered["ok"].as_bool(), recovered["is_recovered"].as_bool()), (Some(true), Some(true)));
}

#[test]
fn page_is_shown_without_control_file() {
    let folder = tempfile::tempdir().expect("a folder");
    one_of_each(folder.path()).close().expect("a checkpoint");
    std::fs::remove_file(folder.path().join("control")).expect("it is there");
    let shown = shown(folder.path(), 1);
    assert_eq!((shown["ok"].as_bool(), &shown["owner"]), (Some(true), &Value::Null));
    assert!(shown["problems"][0].as_str().expect("a problem").contains("the owner of the page is unknown"), "{shown}");
}

#[test]
fn recovery_of_page_is_announced() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("bank");
    killed_bank(&store);
    let home = shown(&store, 1);
    let after = number(&home["recovered_lsn"]);
    let recovered = json(&cedrat(&["page", text(&store), "1", "--recovered", "--json"]));
    assert_eq!(number(&recovered["lsn"]), after);
    assert!(after > number(&home["lsn"]), "{home}");
    assert!(printed(&cedrat(&["page", text(&store), "1"])).contains("see --recovered"));
}
