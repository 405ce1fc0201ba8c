//! Encrypted stores, as operators use them.

use std::fs;
use std::path::Path;
use std::process::Output;

use cedrat::heap::HeapOptions;
use cedrat::media::{Encryption, Key};
use cedrat::prelude::*;
use cedrat::txn::BackupOptions;

use crate::common::{cedrat, errors, json, printed, text};

fn keyed() -> Options {
    Options { encryption: Some(Encryption::with_key(Key::new([7; 32]))), ..Options::default() }
}

/// Makes an encrypted store with an archive and a backup, and two key files.
fn make(folder: &Path) {
    fs::write(folder.join("key"), [7; 32]).expect("a file");
    fs::write(folder.join("new"), format!("{}\n", "08".repeat(32))).expect("a file");
    let options = cedrat::archived_in(folder.join("archive"), keyed());
    let store = cedrat::open_with(folder.join("store"), options, cedrat::registry()).expect("a folder");
    let table = store.transact(|txn| HashTable::<u64, u64>::open_or_create(txn, "table")).expect("a table");
    let heap = store.memory().create_heap("words", &HeapOptions::raw(1 << 16)).expect("a heap");
    heap.atomically(|tx| tx.write(&heap, 8, 5)).expect("room");
    cedrat::backup(&store, folder.join("backup"), BackupOptions::default()).expect("there is room");
    store.transact(|txn| table.insert(txn, &1, &42)).expect("it is not locked");
    drop((table, heap));
    store.close().expect("nothing else uses it");
}

#[track_caller]
fn refused(output: &Output, wanted: &str) {
    assert!(output.status.code() == Some(1) && errors(output).contains(wanted), "{wanted}: {}", errors(output));
}

#[test]
fn encrypted_store_is_read_with_key() {
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path());
    let place = |name: &str| text(&folder.path().join(name)).to_owned();
    let (store, archive, backup, key, new) =
        (place("store"), place("archive"), place("backup"), place("key"), place("new"));
    let dumped = printed(&cedrat(&["dump", &store, "--key-file", &key]));
    assert!(dumped.contains("\"table\""), "{dumped}");
    for arguments in [
        &["info", &store][..],
        &["verify", &store],
        &["space", &store],
        &["page", &store, "1"],
        &["pins", &store, "--archive", &archive],
        &["locks", &store],
        &["log", &store],
        &["changes", &store],
        &["consumers", &store],
        &["objects", &store],
        &["heap", "info", &store],
        &["heap", "verify", &store],
        &["scrub", &store, "--archive", &archive, "--backup", &backup],
        &["archive", &archive],
        &["backup", "verify", &backup, "--archive", &archive],
    ] {
        let without = cedrat(arguments);
        assert_ne!(without.status.code(), Some(0), "{arguments:?}");
        assert!(
            format!("{}{}", errors(&without), String::from_utf8_lossy(&without.stdout)).contains("no key was given"),
            "{arguments:?}: {}",
            errors(&without)
        );
        refused(&cedrat(&[arguments, &["--key-file", &new]].concat()), "was encrypted with the key");
        let with = cedrat(&[arguments, &["--key-file", &key]].concat());
        let has_graph = !errors(&with).contains("has no graph of objects");
        assert!(with.status.success() || !has_graph, "{arguments:?}: {}", errors(&with));
    }
    refused(&cedrat(&["info", &store, "--key-file", &store]), "store");
    refused(&cedrat(&["tour", "--key-file", &key]), "opens no encrypted store");
}

#[test]
fn encrypted_copies_are_made_and_restored() {
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path());
    let place = |name: &str| text(&folder.path().join(name)).to_owned();
    let (store, archive, key, new) = (place("store"), place("archive"), place("key"), place("new"));
    let is_restored =
        |to: &str, key: &str| printed(&cedrat(&["dump", to, "--key-file", key])).contains("\"value\":\"2a\"");
    let (full, since) = (place("full"), place("since"));
    printed(&cedrat(&["backup", &store, &full, "--archive", &archive, "--key-file", &key]));
    let increment = ["backup", &store, &since, "--archive", &archive, "--since", &full, "--key-file", &key];
    printed(&cedrat(&increment));
    printed(&cedrat(&["restore", &full, &since, &place("restored"), "--key-file", &key]));
    assert!(is_restored(&place("restored"), &key));
    // Another key, and an archive.
    let (backup, other) = (place("backup"), place("other"));
    let arguments = ["restore", &backup, &other, "--archive", &archive, "--key-file", &key, "--new-key-file", &new];
    printed(&cedrat(&arguments));
    refused(&cedrat(&["dump", &other, "--key-file", &key]), "was encrypted with the key");
    assert!(is_restored(&other, &new));
    let salvaged = place("salvaged");
    json(&cedrat(&["salvage", &store, &salvaged, "--json", "--key-file", &key]));
    assert!(is_restored(&salvaged, &key));
    // A plain store becomes encrypted.
    let (dump, plain) = (place("dump"), place("plain"));
    fs::write(&dump, printed(&cedrat(&["dump", &store, "--key-file", &key]))).expect("a file");
    printed(&cedrat(&["load", &dump, &plain]));
    refused(&cedrat(&["dump", &plain, "--key-file", &key]), "not encrypted");
    printed(&cedrat(&["restore", &plain, &place("encrypted"), "--new-key-file", &new]));
    assert!(is_restored(&place("encrypted"), &new));
}

#[test]
fn key_of_store_is_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path());
    let place = |name: &str| text(&folder.path().join(name)).to_owned();
    let (store, key, new) = (place("store"), place("key"), place("new"));
    refused(&cedrat(&["rotate-key", &store, "--new-key-file", &new]), "--key-file");
    refused(&cedrat(&["rotate-key", &store, "--key-file", &new, "--new-key-file", &new]), "was encrypted with the key");
    let rotated = json(&cedrat(&["rotate-key", &store, "--key-file", &key, "--new-key-file", &new, "--json"]));
    assert_eq!(rotated["key"], Key::new([8; 32]).fingerprint());
    refused(&cedrat(&["info", &store, "--key-file", &key]), "was encrypted with the key");
    printed(&cedrat(&["verify", &store, "--key-file", &new]));
    printed(&cedrat(&["verify", &store, "--key-file", &key, "--key-file", &new]));
}
