//! The main job, end to end, on text of every kind.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{cedrat, errors, json, printed, text};

fn tour(path: &Path, more: &[&str]) -> Value {
    let arguments = [&["tour", text(path), "--json"], more].concat();
    json(&cedrat(&arguments))
}

#[test]
fn words_are_counted_through_kills() {
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..40 {
        let words = format!("common {number} ").repeat(100 + number);
        fs::write(folder.path().join(format!("{number}.txt")), words).expect("room");
    }
    let report = tour(folder.path(), &["--kills", "6", "--threads", "3"]);
    assert_eq!(report["files"], 40);
    assert_eq!(report["words"], (0..40).map(|n| 2 * (100 + n)).sum::<u64>());
    assert_eq!(report["distinct_words"], 41);
    // Three of the kills wait for a transaction that is halfway; each has something to undo.
    assert!(report["kills"].as_u64() >= Some(3), "{report}");
    assert!(report["transactions_undone"].as_u64() >= Some(3), "{report}");
    assert!(report["transactions_redone"].as_u64() >= Some(1), "{report}");
}

#[test]
fn no_text_at_all_is_counted_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = tour(folder.path(), &[]);
    assert_eq!((&report["files"], &report["words"]), (&0.into(), &0.into()));
}

#[test]
fn tour_kills_as_often_as_requested() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("one");
    fs::write(&path, "to be or not to be").expect("room");
    let report = tour(&path, &["--kills", "3"]);
    assert_eq!((&report["words"], &report["distinct_words"]), (&6.into(), &4.into()));
    assert!(report["transactions_undone"].as_u64() >= Some(1), "{report}");
}

#[test]
fn files_with_same_new_words_avoid_deadlock() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in 0..8 {
        // Each file meets the words in another order.
        let words: Vec<String> = (0..3000).map(|word| format!("w{}", (word * 7 + file * 375) % 3000)).collect();
        fs::write(folder.path().join(file.to_string()), words.join(" ")).expect("room");
    }
    let report = tour(folder.path(), &["--kills", "1", "--threads", "8"]);
    assert_eq!((&report["words"], &report["distinct_words"]), (&24_000.into(), &3000.into()));
}

#[test]
fn strange_text_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = format!("{} {}", "x".repeat(3 << 20), "ö日".repeat(100_000));
    fs::write(folder.path().join("long"), long).expect("room");
    fs::write(folder.path().join("latin"), b"caf\xe9 na\xefve \xff\xfe").expect("room");
    fs::write(folder.path().join("empty"), "").expect("room");
    let report = tour(folder.path(), &["--kills", "2"]);
    assert_eq!(report["files"], 3);
}

#[test]
fn a_kept_store_can_be_looked_into() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a"), "one two two").expect("room");
    let kept = folder.path().join("kept");
    let run = cedrat(&["tour", text(&folder.path().join("a")), "--keep", text(&kept)]);
    let table = printed(&run);
    assert!(table.contains("words") && table.contains("3 (2 different)"), "{table}");
    let store = kept.join("store");
    printed(&cedrat(&["verify", text(&store)]));
    let again = cedrat(&["tour", text(&folder.path().join("a")), "--keep", text(&kept)]);
    assert_eq!(again.status.code(), Some(1), "{}", errors(&again));
}
