//! Output of the command about heaps.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use cedrat::Store;
use cedrat::heap::HeapOptions;
use serde_json::Value;

use crate::common::{cedrat, errors, files, json, printed, text};

/// A store with one heap that keeps account of blocks and one that does not.
fn two_heaps(directory: &Path) -> Store {
    let store = cedrat::open(directory).expect("a store");
    let memory = store.memory();
    let blocks = memory.create_heap("blocks", &HeapOptions::new(8 << 20)).expect("a heap");
    let raw = memory.create_heap("raw", &HeapOptions::raw(4 << 20)).expect("a heap");
    blocks.atomically(|tx| (0..3).try_for_each(|_| tx.allocate(&blocks, 100).map(drop))).expect("a commit");
    for offset in [0, 8, 3 << 20] {
        raw.atomically(|tx| tx.write(&raw, offset, 7)).expect("a commit");
    }
    drop((blocks, raw, memory));
    store
}

#[test]
fn heaps_are_listed_with_their_checkpoints() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = two_heaps(folder.path());
    drop(store); // no checkpoint yet
    let about = json(&cedrat(&["heap", "info", text(folder.path()), "--json"]));
    assert_eq!(about["heaps"][0]["name"], "blocks");
    assert_eq!(about["heaps"][0]["blocks"], true);
    assert_eq!(about["heaps"][1]["bytes"], 4 << 20);
    assert_eq!(about["heaps"][1]["blocks"], false);
    assert_eq!(about["heaps"][1]["checkpoint"], 0);
    cedrat::open(folder.path()).expect("a store").close().expect("a checkpoint");
    let about = json(&cedrat(&["heap", "info", text(folder.path()), "--json"]));
    let raw = &about["heaps"][1];
    assert!(raw["checkpoint"].as_u64() > Some(0), "{about}");
    assert_eq!(raw["chunks"], 4);
    assert!(raw["redo_from"].as_u64() <= raw["reflects"].as_u64(), "{about}");
    assert!(folder.path().join(raw["checkpoint_file"].as_str().expect("a file")).is_file(), "{about}");
    assert!(printed(&cedrat(&["heap", "info", text(folder.path())])).contains("it keeps account of them"));
}

#[test]
fn a_store_without_heaps_has_none() {
    let folder = tempfile::tempdir().expect("a folder");
    cedrat::open(folder.path()).expect("a store").close().expect("closed");
    let about = json(&cedrat(&["heap", "info", text(folder.path()), "--json"]));
    assert_eq!(about["heaps"].as_array().map(Vec::len), Some(0));
    assert_eq!(json(&cedrat(&["heap", "verify", text(folder.path()), "--json"]))["ok"], true);
}

#[test]
fn verification_of_heaps_includes_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(two_heaps(folder.path()));
    let before = files(folder.path());
    for command in [&["heap", "verify"][..], &["verify"]] {
        let verdict = json(&cedrat(&[command, &[text(folder.path()), "--json"]].concat()));
        assert_eq!(verdict["ok"], true, "{verdict}");
        assert_eq!(verdict["heaps"][0]["blocks"], 3, "{verdict}");
        assert_eq!(verdict["heaps"][0]["bytes_allocated"], 300, "{verdict}");
        assert_eq!(verdict["heaps"][1]["name"], "raw", "{verdict}");
    }
    let verdict = json(&cedrat(&["heap", "verify", text(folder.path()), "--json"]));
    assert!(verdict["words_replayed"].as_u64() >= Some(3), "{verdict}");
    assert!(files(folder.path()) == before, "a file was changed");
}

#[test]
fn damaged_chunk_is_reported_with_place() {
    let folder = tempfile::tempdir().expect("a folder");
    two_heaps(folder.path()).close().expect("a checkpoint");
    let about = json(&cedrat(&["heap", "info", text(folder.path()), "--json"]));
    let name = about["heaps"][1]["checkpoint_file"].as_str().expect("a file");
    let file = OpenOptions::new().write(true).open(folder.path().join(name)).expect("a file");
    file.write_all_at(b"damage", 4096 + 100).expect("room"); // in the words of the first chunk
    drop(file);
    let verdict = cedrat(&["heap", "verify", text(folder.path())]);
    assert_eq!(verdict.status.code(), Some(1));
    assert!(errors(&verdict).contains(name), "{}", errors(&verdict));
    assert!(errors(&verdict).contains("offset"), "{}", errors(&verdict));
}

#[test]
fn all_damaged_chunks_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    two_heaps(folder.path()).close().expect("a checkpoint");
    let verify = |more: &[&str]| cedrat(&[&["heap", "verify", text(folder.path())], more].concat());
    let sound = json(&verify(&["--json"]));
    let of_raw = |verdict: &Value, what: &str| verdict["checkpoints"][1][what].as_u64().expect("a number");
    // It has four, of which two were written to.
    assert_eq!((of_raw(&sound, "sound"), of_raw(&sound, "never_written"), of_raw(&sound, "damaged")), (2, 2, 0));
    let about = json(&cedrat(&["heap", "info", text(folder.path()), "--json"]));
    let mut places = Vec::new();
    for heap in 0..2 {
        let name = about["heaps"][heap]["checkpoint_file"].as_str().expect("a file");
        let file = OpenOptions::new().write(true).open(folder.path().join(name)).expect("a file");
        for chunk in [0, 3].into_iter().take(heap + 1) {
            let at = chunk * (4096 + (1 << 20));
            file.write_all_at(b"damage", at + 4096 + 100).expect("room");
            places.push((name.to_owned(), at + 4096));
        }
    }
    let verdict = verify(&[]);
    assert_eq!(verdict.status.code(), Some(1));
    let said = errors(&verdict);
    for (name, at) in &places {
        assert!(said.lines().any(|line| line.contains(name) && line.contains(&at.to_string())), "{name} {at}: {said}");
    }
    assert_eq!(said.lines().filter(|line| line.contains("checksum")).count(), places.len(), "{said}");
    let verdict = verify(&["--json"]);
    let verdict: Value = serde_json::from_slice(&verdict.stdout).expect("one JSON object");
    assert_eq!((of_raw(&verdict, "sound"), of_raw(&verdict, "never_written"), of_raw(&verdict, "damaged")), (0, 2, 2));
    assert_eq!(verdict["problems"].as_array().map(Vec::len), Some(3), "{verdict}");
}

#[test]
fn a_measurement_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    for commit in ["async", "sync", "partition"] {
        let measured = json(&cedrat(
            &[
                &["heap", "bench", text(folder.path()), "--bytes", "1048576", "--seconds", "0.1"][..],
                &["--threads", "2", "--partitions", "2", "--commit", commit, "--json"],
            ]
            .concat(),
        ));
        assert!(measured["txn_per_s"].as_f64() > Some(0.0), "{measured}");
        assert_eq!(measured["commit"], commit);
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn parts_of_large_commit_have_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = cedrat::open(folder.path()).expect("a store");
    let heap = store.memory().create_heap("raw", &HeapOptions::raw(4 << 20)).expect("a heap");
    heap.atomically(|tx| (0..heap.size()).step_by(16).try_for_each(|offset| tx.write(&heap, offset, u64::MAX)))
        .expect("a commit");
    drop((heap, store));
    let log = printed(&cedrat(&["log", text(folder.path())]));
    assert!(log.contains("heap-part"), "{log}");
}
