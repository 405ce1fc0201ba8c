//! `cedrat dump` and `cedrat load`: what goes into a dump comes out of it, and bad dumps leave no store.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use cedrat::graph::{Changes, Graph, Mode, Reference, Stage};
use cedrat::heap::HeapOptions;
use cedrat::objects::{self, Objects};
use cedrat::prelude::*;
use cedrat::structures::{Catalogue, Named, PageList, Records};
use serde_json::Value;

use crate::common::{cedrat, command, errors, files, json, printed, text};
use crate::face::killed_bank;
use crate::stores::{add_foreign, one_of_each, prepare};

/// Runs `cedrat dump`, and keeps its output in a file.
fn dumped(folder: &Path, store: &str) -> PathBuf {
    let to = folder.join(format!("{store}.dump"));
    fs::write(&to, printed(&cedrat(&["dump", text(&folder.join(store))]))).expect("room");
    to
}

fn loaded(folder: &Path, from: &Path, to: &str) -> Value {
    json(&cedrat(&["load", text(from), text(&folder.join(to)), "--json"]))
}

/// Names, kinds and schemas of the structures.
fn catalogue_of(store: &Store) -> Vec<Named> {
    let catalogue = Catalogue::open(store).expect("it is there");
    let listed = store.transact(|txn| catalogue.list(txn)).expect("it is not locked");
    listed.into_iter().map(|named| Named { root: cedrat_pages::PageId::new(0), ..named }).collect()
}

/// The elements of all plain structures, in their order where they have one.
fn elements_of(store: &Store) -> BTreeMap<&'static str, Vec<String>> {
    let read = |txn: &mut Txn| {
        let mut all = BTreeMap::new();
        let table = HashTable::<u64, String>::open(txn, "table")?;
        let entries: Result<BTreeSet<String>> = table.iter(txn)?.map(|entry| Ok(format!("{:?}", entry?))).collect();
        all.insert("table", entries?.into_iter().collect());
        let array = ArrayList::<u64>::open(txn, "array")?;
        let elements: Result<Vec<_>> = array.iter(txn)?.map(|element| Ok(element?.to_string())).collect();
        all.insert("array", elements?);
        all.insert("list", List::<String>::open(txn, "list")?.iter(txn)?.collect::<Result<_>>()?);
        all.insert("page list", PageList::<String>::open(txn, "page list")?.iter(txn)?.collect::<Result<_>>()?);
        let records = Records::open(txn, "records")?.all(txn)?;
        all.insert("records", records.into_iter().map(|(_, bytes)| format!("{bytes:?}")).collect());
        Ok(all)
    };
    let mut all = store.transact(read).expect("they are not locked");
    let objects = Objects::open(store, "objects", objects::Options::default()).expect("it is there");
    let read = |txn: &mut Txn| {
        objects.ids(txn)?.into_iter().map(|id| objects.read(txn, id, |bytes| format!("{bytes:?}"))).collect()
    };
    all.insert("objects", store.transact(read).expect("they are not locked"));
    all
}

#[test]
fn every_structure_survives_dump_and_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = one_of_each(&folder.path().join("store"));
    let (names, elements) = (catalogue_of(&store), elements_of(&store));
    store.close().expect("a checkpoint");
    let before = files(&folder.path().join("store"));
    let dump = dumped(folder.path(), "store");
    assert!(files(&folder.path().join("store")) == before, "a file was changed");
    let report = loaded(folder.path(), &dump, "again");
    assert_eq!(report["structures"].as_array().map(Vec::len), Some(names.len()), "{report}");
    let verdict = json(&cedrat(&["verify", text(&folder.path().join("again")), "--json"]));
    assert_eq!(verdict["ok"], true, "{verdict}");
    let again = cedrat::open(folder.path().join("again")).expect("it is whole");
    assert_eq!(catalogue_of(&again), names, "schemas included");
    assert_eq!(elements_of(&again), elements);
    let wrong = again.transact(|txn| HashTable::<u64, u64>::open(txn, "table").map(drop));
    assert!(wrong.is_err(), "its values are strings");
    again.close().expect("it is not in use");
}

/// Makes a graph with a cycle over two commits, a long object, a value, and a dropped class.
pub(crate) fn with_graph(directory: &Path) {
    let store = cedrat::open(directory).expect("a folder");
    let graph = Graph::create(&store, "graph", cedrat::graph::Options::default()).expect("there is room");
    let [dropped, class] = [b"dropped", b"class 2"].map(|definition| graph.define_class(definition).expect("it fits"));
    let mut collection = graph.collect([]).expect("it begins");
    while collection.stage() != Stage::Done {
        match collection.stage() {
            Stage::Marked => collection.seal([]).expect("nothing is open"),
            _ => collection.step(100).expect("it is whole"),
        };
    }
    assert!(collection.drop_classes(&[dropped]).expect("it is unused").is_some());
    drop(collection);
    let mut changes = Changes::new();
    let first = changes.add(class, b"first", &[Reference::NULL, Reference::value(7, 99).expect("it fits")]);
    changes.set_root("first", first);
    let first = graph.commit(&changes, Mode::Sync).expect("there is room").identities[0];
    let mut changes = Changes::new();
    let long = changes.add(class, &[3; 100_000], &[first.into()]);
    changes.patch_reference(first, 16, long);
    changes.set_root("value", Reference::value(1, 5).expect("it fits"));
    graph.commit(&changes, Mode::Sync).expect("there is room");
    drop(graph);
    store.close().expect("it is not in use");
}

#[test]
fn graph_keeps_cycles_classes_and_roots() {
    let folder = tempfile::tempdir().expect("a folder");
    with_graph(&folder.path().join("store"));
    let dump = dumped(folder.path(), "store");
    loaded(folder.path(), &dump, "again");
    let store = cedrat::open(folder.path().join("again")).expect("it is whole");
    let graph = Graph::open(&store, "graph", cedrat::graph::Options::default()).expect("it is there");
    graph.check().expect("it can be walked").expect_sound();
    assert_eq!(graph.classes_len(), 2);
    assert_eq!((graph.class(1), graph.class(2).as_deref()), (None, Some(&b"class 2"[..])));
    assert_eq!(graph.root("value").expect("it is there"), Reference::value(1, 5));
    let first = graph.root("first").expect("it is there").and_then(Reference::identity).expect("an object");
    let object = graph.object(first).expect("it is there");
    assert_eq!((&object.data[..5], object.references[1]), (&b"first"[..], Reference::value(7, 99).expect("it fits")));
    let long = object.references[0].identity().expect("an object");
    let long = graph.object(long).expect("it is there");
    assert_eq!((long.data.len(), &long.references[..]), (100_000, &[Reference::from(first)][..]));
}

#[test]
fn heaps_keep_blocks_and_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = cedrat::open(folder.path().join("store")).expect("a folder");
    let blocks = store.memory().create_heap("blocks", &HeapOptions::new(4 << 20)).expect("a heap");
    let raw = HeapOptions { size_max: 8 << 20, ..HeapOptions::raw(1 << 20) };
    let raw = store.memory().create_heap("raw", &raw).expect("a heap");
    let offsets: Vec<u64> =
        (1..40).map(|len| blocks.atomically(|tx| tx.allocate(&blocks, len * 24)).expect("there is room")).collect();
    let freed = offsets[7];
    blocks.atomically(|tx| tx.free(&blocks, freed)).expect("it is allocated");
    blocks.atomically(|tx| tx.write(&blocks, offsets[0], 0xFFFF_FFFF_FFFF_FFFF)).expect("it is allocated");
    raw.atomically(|tx| tx.write(&raw, 0, 7).and_then(|()| tx.write(&raw, (1 << 20) - 8, 9))).expect("a commit");
    let usage = blocks.verify().expect("it is sound");
    let maximum = blocks.size_max();
    drop((blocks, raw));
    store.close().expect("it is not in use");

    let dump = dumped(folder.path(), "store");
    loaded(folder.path(), &dump, "again");
    let store = cedrat::open(folder.path().join("again")).expect("it is whole");
    let (blocks, raw) =
        (store.memory().heap("blocks").expect("it is there"), store.memory().heap("raw").expect("it is"));
    assert_eq!((blocks.verify().expect("it is sound"), blocks.size_max()), (usage, maximum));
    assert_eq!(blocks.atomically(|tx| tx.read(&blocks, offsets[0])).expect("a word"), u64::MAX);
    assert_eq!(raw.size_max(), 8 << 20);
    assert_eq!(raw.atomically(|tx| Ok([tx.read(&raw, 0)?, tx.read(&raw, (1 << 20) - 8)?])).expect("words"), [7, 9]);
    let new = blocks.atomically(|tx| tx.allocate(&blocks, 8 * 24)).expect("there is room");
    assert!(new == freed || !offsets.contains(&new), "no block is given twice");
    assert_eq!(blocks.verify().expect("it is sound").blocks, usage.blocks + 1);
}

#[test]
fn unknown_kinds_are_skipped_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = one_of_each(&folder.path().join("store"));
    add_foreign(&store);
    store.close().expect("a checkpoint");
    let output = cedrat(&["dump", text(&folder.path().join("store"))]);
    assert!(errors(&output).contains("skipped: foreign, a structure of kind 1024"), "{}", errors(&output));
    let dump = dumped(folder.path(), "store");
    let report = loaded(folder.path(), &dump, "again");
    assert_eq!(report["skipped"][0]["name"], "foreign", "{report}");
    let shown = printed(&cedrat(&["load", text(&dump), text(&folder.path().join("third"))]));
    assert!(shown.contains("skipped     foreign"), "{shown}");
}

#[test]
fn unrecovered_stores_are_dumped_as_recovered() {
    let folder = tempfile::tempdir().expect("a folder");
    killed_bank(&folder.path().join("bank"));
    let dump = dumped(folder.path(), "bank");
    loaded(folder.path(), &dump, "bank again");
    // Prepared changes are not in the dump.
    prepare(&one_of_each(&folder.path().join("store")), b"order");
    let dump = dumped(folder.path(), "store");
    loaded(folder.path(), &dump, "again");
    let again = cedrat::open(folder.path().join("again")).expect("it is whole");
    let value = again.transact(|txn| HashTable::<u64, String>::open(txn, "table")?.get(txn, &7));
    assert_eq!(value.expect("it is not locked").as_deref(), Some("value 7"));
}

/// Lines without their checksums, with new ones.
fn with_checksums(lines: &[String]) -> String {
    let mut checksum = 0;
    let mut all = String::new();
    for line in lines {
        checksum = crc32c::crc32c_append(checksum, line.as_bytes());
        all += &format!("{line},\"crc\":\"{checksum:08x}\"}}\n");
    }
    all
}

/// Checks that a dump is refused for a reason, and leaves nothing.
fn refused(folder: &Path, dump: &str, why: &str) {
    let (from, to) = (folder.join("bad.dump"), folder.join("bad"));
    fs::write(&from, dump).expect("room");
    let output = cedrat(&["load", text(&from), text(&to)]);
    assert!(output.status.code() == Some(1) && errors(&output).contains(why), "{why}: {}", errors(&output));
    assert!(!to.exists(), "{why}: a directory is left");
}

#[test]
fn bad_dumps_are_refused_by_line() {
    let folder = tempfile::tempdir().expect("a folder");
    one_of_each(&folder.path().join("store")).close().expect("a checkpoint");
    let dump = fs::read_to_string(dumped(folder.path(), "store")).expect("UTF-8");
    let lines: Vec<&str> = dump.lines().collect();
    let bodies: Vec<String> =
        lines.iter().map(|line| line.rsplit_once(",\"crc\"").expect("a checksum").0.to_owned()).collect();
    assert_eq!(with_checksums(&bodies), dump, "the test computes checksums as the command does");
    let last = lines.len();
    for count in [1, 2, last / 2, last - 1] {
        let cut = format!("{}\n", lines[..count].join("\n"));
        refused(folder.path(), &cut, &format!("line {count} of the dump: the file ends behind it"));
    }
    refused(folder.path(), &dump[..dump.len() / 2], "the file ends within this line");
    refused(folder.path(), &dump.replacen("\"lsn\":", "\"lsm\":", 1), "line 1 of the dump: its checksum");
    refused(
        folder.path(),
        &dump.replacen("\"version\":1", "\"version\":3", 1),
        "line 1 of the dump: the dump has version 3",
    );
    refused(folder.path(), "hello\n", "line 1 of the dump: this is no dump");
    refused(folder.path(), &format!("{dump}{}\n", lines[1]), &format!("line {} of the dump", last + 1));
    let changed = |at: usize, from: &str, to: &str| {
        let mut bodies = bodies.clone();
        assert!(bodies[at].contains(from), "{}", bodies[at]);
        bodies[at] = bodies[at].replacen(from, to, 1);
        with_checksums(&bodies)
    };
    refused(
        folder.path(),
        &changed(1, "array-list", "b-tree"),
        "line 2 of the dump: it is invalid: unknown variant `b-tree`",
    );
    refused(folder.path(), &changed(1, ",\"element_bytes\":16", ""), "line 2 of the dump: an array list has no");
    refused(
        folder.path(),
        &changed(2, "\"bytes\":\"0", "\"bytes\":\"x"),
        "line 3 of the dump: it is invalid: these are no",
    );
    refused(
        folder.path(),
        &changed(last - 1, "\"heaps\":1", "\"heaps\":2"),
        &format!("line {last} of the dump: it counts"),
    );
    let end = bodies.iter().position(|body| body.contains("\"line\":\"end\"")).expect("an end");
    refused(folder.path(), &changed(end, "\"lines\":500", "\"lines\":501"), &format!("line {} of the dump", end + 1));
    let mut without = bodies.clone();
    without.remove(3);
    refused(folder.path(), &with_checksums(&without), "it counts 500 lines, and there are 499");
}

#[test]
fn existing_files_are_not_touched() {
    let folder = tempfile::tempdir().expect("a folder");
    one_of_each(&folder.path().join("store")).close().expect("a checkpoint");
    let dump = dumped(folder.path(), "store");
    let full = folder.path().join("store");
    let before = files(&full);
    let output = cedrat(&["load", text(&dump), text(&full)]);
    assert!(output.status.code() == Some(1) && errors(&output).contains("is not empty"), "{}", errors(&output));
    assert!(files(&full) == before, "a file was changed");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("room");
    fs::write(folder.path().join("cut.dump"), &fs::read(&dump).expect("a file")[..9000]).expect("room");
    let output = cedrat(&["load", text(&folder.path().join("cut.dump")), text(&empty)]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_dir(&empty).expect("it stays").count(), 0);
    printed(&cedrat(&["load", text(&dump), text(&empty)]));
}

/// A loader that is killed has given the store no control file.
#[test]
fn killed_load_leaves_no_store() {
    let folder = tempfile::tempdir().expect("a folder");
    one_of_each(&folder.path().join("store")).close().expect("a checkpoint");
    let dump = fs::read(dumped(folder.path(), "store")).expect("a file");
    let to = folder.path().join("killed");
    let mut child = command()
        .args(["load", "-", text(&to)])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("cedrat runs");
    let mut input = child.stdin.take().expect("it is a pipe");
    // More than a pipe holds: behind this write the loader has read a part, and waits for the rest.
    input.write_all(&dump[..dump.len() - 100]).expect("it reads");
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    let refused = cedrat(&["info", text(&to)]);
    assert_eq!(refused.status.code(), Some(1), "it opens");
    assert!(cedrat::open(&to).is_err(), "it opens");
    assert!(!to.join("control").exists());
}
