//! Commands and readers beside a process that has the store open.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;

use cedrat::prelude::*;
use cedrat::txn::{Reader, ReaderFiles};

use crate::common::{cedrat, command, files, json, printed, text};
use crate::stores::one_of_each;

/// Returns the lines of a dump without the first one, which names the LSN, and without their checksums, which cover that line.
fn dump(store: &Path) -> Vec<String> {
    let dump = printed(&cedrat(&["dump", text(store)]));
    let content = |line: &str| line.split_once(",\"crc\"").expect("a checksum").0.to_owned();
    let mut lines: Vec<String> = dump.lines().skip(1).map(content).collect();
    // The store's own threads may change the order of a table.
    lines.sort_unstable();
    lines
}

/// Compares two dumps, and names the first lines that differ.
#[track_caller]
fn assert_same(found: &[String], expected: &[String]) {
    for (number, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "E26.1: line {number}");
    }
    assert_eq!(found.len(), expected.len(), "E26.1");
}

/// E26.1, E26.3: the command is another process.
#[test]
fn open_store_is_dumped_and_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("store");
    let store = one_of_each(&place);
    let mut open = store.begin();
    let table = HashTable::<u64, String>::open(&mut open, "table").expect("it is there");
    open.rollback().expect("nothing was changed");
    let beside = dump(&place);
    let verdict = json(&cedrat(&["verify", text(&place), "--json"]));
    assert!(verdict["ok"] == true && verdict["up_to"].is_u64(), "{verdict}");
    let info = json(&cedrat(&["info", text(&place), "--json"]));
    assert!(info["open_elsewhere"] == true, "{info}");
    assert!(printed(&cedrat(&["info", text(&place)])).contains("open in another process"));
    printed(&cedrat(&["heap", "info", text(&place)]));
    let mut txn = store.begin();
    table.insert(&mut txn, &99_999, &"uncommitted".to_owned()).expect("there is room");
    assert_same(&dump(&place), &beside);
    txn.commit(Commit::Sync).expect("there is room");
    let after = dump(&place);
    assert_eq!(after.len(), beside.len() + 1, "E26.1a");
    store.close().expect("it is not in use");
    let before = files(&place);
    assert_same(&dump(&place), &after);
    assert!(files(&place) == before, "E26.3: a file was changed");
}

/// A bank in another process, and the number of transfers that it has acknowledged.
struct Bank {
    process: Child,
    acknowledged: mpsc::Receiver<()>,
}

impl Bank {
    fn run(store: &Path, face: &[&str]) -> Bank {
        let mut process = command()
            .args(["bank", "run", text(store), "--accounts", "40", "--threads", "4", "--partitions", "2"])
            .args(face)
            .stdout(Stdio::piped())
            .spawn()
            .expect("cedrat runs");
        let stdout = BufReader::new(process.stdout.take().expect("it is a pipe"));
        let (send, acknowledged) = mpsc::channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).all(|_| send.send(()).is_ok()));
        Bank { process, acknowledged }
    }

    fn wait_for(&self, transfers: u64) {
        (0..transfers).for_each(|_| self.acknowledged.recv().expect("it runs"));
    }

    fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ended");
    }
}

/// Returns the sum of all balances.
fn total(reader: &Reader) -> i64 {
    let sum = |txn: &mut Txn| {
        let accounts = ArrayList::<i64>::open(txn, "bank.accounts")?;
        accounts.iter(txn)?.try_fold(0, |sum, balance| balance.map(|balance| sum + balance))
    };
    reader.transact(sum).expect("E26.7")
}

/// E26.1, E26.6, E26.7: bank and readers are killed, and run again.
#[test]
fn killed_bank_is_read_beside_its_transfers() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("bank");
    let bank = Bank::run(&place, &[]);
    bank.wait_for(10);
    let files = |copies_pages| ReaderFiles { copies_pages, ..cedrat::reader_files(&place, folder.path()) };
    let open = |copies_pages| {
        let registry = cedrat::registry().record_kind("bank.transfer");
        Reader::open(files(copies_pages), Options::default(), registry).expect("E26.7")
    };
    let reader = open(false);
    let mut lsn = reader.lsn();
    bank.kill();
    for round in 0..6 {
        let bank = Bank::run(&place, &[]);
        for step in 0..10 {
            bank.wait_for(20);
            assert_eq!(total(&reader), 40_000, "E26.1");
            let refreshed = reader.refresh().expect("E26.7");
            assert!(refreshed > lsn, "E26.1a: transfers were acknowledged since");
            lsn = refreshed;
            if step == 5 {
                assert_eq!(total(&open(round % 2 == 0)), 40_000, "E26.1");
                let verdict = json(&cedrat(&["verify", text(&place), "--json"]));
                assert_eq!(verdict["ok"], true, "E26.1: {verdict}");
                // A reader that is killed leaves nothing in the store.
                let mut killed = command().args(["dump", text(&place)]).stdout(Stdio::null()).spawn().expect("it runs");
                killed.kill().expect("it runs");
                killed.wait().expect("it ended");
            }
        }
        bank.kill();
        assert_eq!(total(&reader), 40_000, "E26.1");
        reader.refresh().expect("E26.5");
        assert_eq!(total(&reader), 40_000, "E26.5");
    }
}
