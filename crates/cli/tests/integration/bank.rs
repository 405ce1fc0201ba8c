//! The crash workload: killed fifty times, it has everything it acknowledged.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Output, Stdio};

use crate::common::{cedrat, command, errors, json, printed, text};

/// How often the bank is killed.
const KILLS: u64 = 50;

/// Where a bank keeps its accounts: in pages, or in a heap.
const FACES: [&[&str]; 2] = [&[], &["--heap"]];

/// Runs the bank until it has printed `lines` acknowledgements, kills it, and adds what it printed to `acks`.
///
/// The moment of the kill is one of its progress, but its threads may be anywhere in their work.
fn run_and_kill(store: &Path, acks: &Path, commit: &str, face: &[&str], lines: u64) {
    let mut process = command()
        .args(["bank", "run", text(store), "--accounts", "50", "--threads", "4"])
        .args(["--commit", commit, "--partitions", "2"])
        .args(face)
        .stdout(Stdio::piped())
        .spawn()
        .expect("cedrat runs");
    let mut stdout = BufReader::new(process.stdout.take().expect("it is a pipe"));
    let mut acks = OpenOptions::new().append(true).create(true).open(acks).expect("a file");
    let mut line = String::new();
    let mut seen = 0;
    while stdout.read_line(&mut line).expect("UTF-8") > 0 {
        if line.ends_with('\n') {
            acks.write_all(line.as_bytes()).expect("room");
        }
        line.clear();
        seen += 1;
        if seen == lines {
            process.kill().expect("it runs");
        }
    }
    let status = process.wait().expect("it ended");
    assert_eq!(status.code(), None, "it was killed, it did not end by itself");
}

#[test]
fn killed_bank_in_pages_keeps_promises() {
    kill_repeatedly_and_check(&[]);
}

#[test]
fn killed_bank_in_heap_keeps_promises() {
    kill_repeatedly_and_check(&["--heap"]);
}

fn kill_repeatedly_and_check(face: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, acks) = (folder.path().join("bank"), folder.path().join("acks"));
    for kill in 0..KILLS {
        let commit = if kill % 2 == 0 { "sync" } else { "async" };
        run_and_kill(&store, &acks, commit, face, 1 + kill * 7 % 90);
        if kill % 5 == 4 {
            let verdict = verdict(text(&store), text(&acks), face);
            let verdict = json(&verdict);
            assert_eq!(verdict["ok"], true, "after {} kills: {verdict}", kill + 1);
            let count = fs::read_to_string(&acks).expect("acks").lines().count();
            assert_eq!(verdict["acknowledged"], count);
            assert_eq!(verdict["total"], 50_000);
        }
    }
    let acks = fs::read_to_string(&acks).expect("acks");
    let mut ids: Vec<&str> = acks.lines().collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "a number was acknowledged twice");
    assert!(count as u64 > KILLS);
}

/// Verifies a bank.
fn verdict(store: &str, acks: &str, face: &[&str]) -> Output {
    cedrat(&[&["bank", "verify", store, "--acks", acks, "--json"], face].concat())
}

/// Makes a bank with some transfers, and the list of its acknowledgements.
fn small_bank(folder: &Path, face: &[&str]) -> (String, String) {
    let (store, acks) = (folder.join("bank"), folder.join("acks"));
    let run = ["bank", "run", text(&store), "--accounts", "10", "--threads", "2", "--transfers", "100"];
    let run = cedrat(&[&run, face].concat());
    fs::write(&acks, printed(&run)).expect("room");
    (text(&store).to_string(), text(&acks).to_string())
}

#[test]
fn unrecorded_transfer_counts_as_missing() {
    for face in FACES {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, acks) = small_bank(folder.path(), face);
        let lines = fs::read_to_string(&acks).expect("acks");
        assert_eq!(lines.lines().count(), 100);
        assert_eq!(json(&verdict(&store, &acks, face))["acknowledged"], 100);
        // One that never was, and one that is beyond everything that could have been.
        for id in ["999999", "99999999999999"] {
            fs::write(&acks, format!("{lines}ack {id}\n")).expect("room");
            let verdict = verdict(&store, &acks, face);
            assert_eq!(verdict.status.code(), Some(1));
            assert!(errors(&verdict).contains(id), "{}", errors(&verdict));
        }
    }
}

#[test]
fn a_bank_keeps_its_number_of_accounts() {
    for face in FACES {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, _) = small_bank(folder.path(), face);
        let run = cedrat(&[&["bank", "run", &store, "--accounts", "11", "--threads", "1"], face].concat());
        assert_eq!(run.status.code(), Some(1));
        assert!(errors(&run).contains("--accounts 10"), "{}", errors(&run));
    }
}

/// A second bank beside the first would be judged by promises that were not its own.
#[test]
fn store_has_one_bank() {
    for (face, other, what) in [(FACES[0], FACES[1], "leave out --heap"), (FACES[1], FACES[0], "say --heap")] {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, acks) = small_bank(folder.path(), face);
        let run = ["bank", "run", &store, "--accounts", "5", "--threads", "1", "--transfers", "1"];
        let refused = cedrat(&[&run[..], other].concat());
        assert_eq!(refused.status.code(), Some(1));
        assert!(errors(&refused).contains(what), "{}", errors(&refused));
        let refused = verdict(&store, &acks, other);
        assert!(errors(&refused).contains(what), "{}", errors(&refused));
        assert_eq!(verdict(&store, &acks, face).status.code(), Some(0), "nothing was changed by it");
    }
}

#[test]
fn full_heap_of_transfers_grows() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, acks) = small_bank(folder.path(), &["--heap"]);
    let opened = cedrat::open(&store).expect("a store");
    let memory = opened.memory();
    let (accounts, transfers) = (memory.heap("bank.accounts").expect("a heap"), memory.heap("bank.transfers"));
    let entries = transfers.expect("a heap").size() / 8;
    accounts.atomically(|tx| tx.write(&accounts, 8, entries - 1)).expect("a commit"); // so many were given out
    drop((accounts, memory));
    opened.close().expect("closed");
    let run = ["bank", "run", &store, "--accounts", "10", "--threads", "2", "--transfers", "1000", "--heap"];
    let lines = fs::read_to_string(&acks).expect("acks") + &printed(&cedrat(&run));
    fs::write(&acks, lines).expect("room");
    let verdict = json(&verdict(&store, &acks, &["--heap"]));
    assert_eq!(verdict["acknowledged"], 1100);
    assert_eq!(verdict["ok"], true, "{verdict}");
}

#[test]
fn money_that_comes_from_nowhere_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, acks) = small_bank(folder.path(), &["--heap"]);
    let opened = cedrat::open(&store).expect("a store");
    let accounts = opened.memory().heap("bank.accounts").expect("a heap");
    accounts.atomically(|tx| tx.write(&accounts, 64, 1_000_000)).expect("a commit");
    drop(accounts);
    opened.close().expect("closed");
    let verdict = verdict(&store, &acks, &["--heap"]);
    assert_eq!(verdict.status.code(), Some(1));
    assert!(errors(&verdict).contains("the total is"), "{}", errors(&verdict));
}

#[test]
fn missing_bank_verifies_no_promises() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, acks) = (folder.path().join("bank"), folder.path().join("acks"));
    for face in FACES {
        fs::write(&acks, "").expect("room");
        json(&verdict(text(&store), text(&acks), face));
        fs::write(&acks, "ack 1\n").expect("room");
        assert_eq!(verdict(text(&store), text(&acks), face).status.code(), Some(1));
        assert!(!store.exists(), "verifying made a store");
    }
}

#[test]
fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("bank");
    let mut first = command()
        .args(["bank", "run", text(&store), "--accounts", "10", "--threads", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("cedrat runs");
    let mut stdout = BufReader::new(first.stdout.take().expect("it is a pipe"));
    stdout.read_line(&mut String::new()).expect("UTF-8"); // now it has the store open
    let second = cedrat(&["bank", "run", text(&store), "--accounts", "10", "--threads", "1"]);
    first.kill().expect("it runs");
    first.wait().expect("it ended");
    assert_eq!(second.status.code(), Some(1));
    assert!(errors(&second).contains("open elsewhere"), "{}", errors(&second));
}
