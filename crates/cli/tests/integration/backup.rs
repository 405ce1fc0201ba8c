//! Backups, archives and restores, as operators make them.

use std::path::Path;
use std::time::Duration;

use cedrat::heap::HeapOptions;
use cedrat::prelude::*;
use cedrat::txn::BackupOptions;
use serde_json::Value;

use crate::common::{cedrat, command, errors, files, json, printed, text};

/// The values of a table's key 1 that a store had, each with an LSN at which it had it.
type Values = Vec<(u64, u64)>;

/// Makes a store with an archive, a backup of its first state, and changes since.
fn with_archive(folder: &Path) -> Values {
    let options = cedrat::archived_in(folder.join("archive"), Options::default());
    let store = cedrat::open_with(folder.join("store"), options, cedrat::registry()).expect("a folder");
    let table = store.transact(|txn| HashTable::<u64, u64>::open_or_create(txn, "table")).expect("a table");
    let heap = store.memory().create_heap("words", &HeapOptions::raw(1 << 16)).expect("a heap");
    heap.atomically(|tx| tx.write(&heap, 8, 5)).expect("room");
    let mut values = Vec::new();
    for value in 0..4 {
        store.transact(|txn| table.insert(txn, &1, &value)).expect("it is not locked");
        values.push((value, store.extend_archive().expect("there is room").get()));
        if value == 0 {
            cedrat::backup(&store, folder.join("backup"), BackupOptions::default()).expect("there is room");
        }
    }
    values
}

fn value_in(store: &Path) -> Option<u64> {
    let store = cedrat::open(store).expect("it opens");
    store
        .transact(|txn| {
            let table = HashTable::<u64, u64>::open_or_create(txn, "table")?;
            table.get(txn, &1)
        })
        .expect("it is not locked")
}

#[test]
fn backup_is_restored_to_lsn_and_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let values = with_archive(folder.path());
    let place = |name: &str| text(&folder.path().join(name)).to_owned();
    let (archive, backup) = (place("archive"), place("backup"));
    let before = (files(Path::new(&archive)), files(Path::new(&backup)));
    let shown = json(&cedrat(&["archive", &archive, "--json", "--moments"]));
    assert!(shown["last"].as_u64() >= values.last().map(|&(_, lsn)| lsn), "{shown}");
    let moments = shown["moments"].as_array().expect("a list").clone();
    let time_of =
        |lsn: u64| moments.iter().rfind(|moment| moment["lsn"].as_u64() <= Some(lsn)).map(|it| it["time"].clone());
    for &(value, lsn) in &values[1..] {
        let (to, lsn_text) = (place(&format!("lsn{value}")), lsn.to_string());
        let report = json(&cedrat(&["restore", &backup, &to, "--archive", &archive, "--lsn", &lsn_text, "--json"]));
        assert_eq!(report["lsn"], lsn);
        assert_eq!(value_in(Path::new(&to)), Some(value));
        let to = place(&format!("time{value}"));
        let Some(Value::String(time)) = time_of(lsn) else { panic!("{moments:?}") };
        printed(&cedrat(&["restore", &backup, &to, "--archive", &archive, "--time", &time]));
        assert!(value_in(Path::new(&to)) >= Some(value), "moments may be of the same millisecond");
    }
    let to = place("newest");
    assert!(printed(&cedrat(&["restore", &backup, &to, "--archive", &archive])).contains("up to LSN"));
    assert_eq!(value_in(Path::new(&to)), Some(3));
    let again = cedrat(&["restore", &backup, &to, "--archive", &archive]);
    assert!(again.status.code() == Some(1) && errors(&again).contains("restoring the backup"), "{}", errors(&again));
    let late = cedrat(&["restore", &backup, &place("late"), "--archive", &archive, "--lsn", "1000000"]);
    assert!(late.status.code() == Some(1) && errors(&late).contains("continues it to LSN"), "{}", errors(&late));
    let early = cedrat(&["restore", &backup, &place("early"), "--archive", &archive, "--time", "1980-01-01T00:00:00Z"]);
    assert!(early.status.code() == Some(1) && errors(&early).contains("begins later"), "{}", errors(&early));
    let alone = cedrat(&["restore", &backup, &place("alone"), "--lsn", "1"]);
    assert_eq!(alone.status.code(), Some(2), "{}", errors(&alone));
    assert!(before == (files(Path::new(&archive)), files(Path::new(&backup))), "they are only read");
}

#[test]
fn closed_store_is_backed_up() {
    let folder = tempfile::tempdir().expect("a folder");
    with_archive(folder.path());
    let place = |name: &str| text(&folder.path().join(name)).to_owned();
    let archive = place("archive");
    let report = json(&cedrat(&["backup", &place("store"), &place("copy"), "--archive", &archive, "--json"]));
    assert!(report["bytes"].as_u64() > Some(0), "{report}");
    let options = cedrat::archived_in(archive, Options::default());
    let again = cedrat::open_with(place("store"), options, cedrat::registry());
    again.expect("the archive has what the command has written").close().expect("it is not in use");
    assert!(printed(&cedrat(&["verify", &place("copy")])).contains("sound"));
    printed(&cedrat(&["restore", &place("copy"), &place("again")]));
    assert_eq!(value_in(&folder.path().join("again")), Some(3));
    let refused = cedrat(&["backup", &place("store"), &place("copy")]);
    assert!(refused.status.code() == Some(1) && errors(&refused).contains("copying the store"), "{}", errors(&refused));
}

#[test]
fn damaged_pages_are_rebuilt_by_scrub() {
    let folder = tempfile::tempdir().expect("a folder");
    with_archive(folder.path());
    let place = |name: &str| text(&folder.path().join(name)).to_owned();
    let (store, archive, backup) = (place("store"), place("archive"), place("backup"));
    // Its log is not needed any more: redo would make pages from it.
    let options = cedrat::archived_in(&archive, Options::default());
    let opened = cedrat::open_with(&store, options, cedrat::registry()).expect("it opens");
    opened.close().expect("it is not in use");
    let pages = Path::new(&store).join("pages");
    let mut bytes = std::fs::read(&pages).expect("it is there");
    let used: Vec<usize> = (1..bytes.len() / 4096).filter(|page| bytes[page * 4096..][..4096] != [0; 4096]).collect();
    assert!(used.len() >= 2, "{used:?}");
    used.iter().for_each(|page| bytes[page * 4096 + 1000] ^= 4);
    std::fs::write(&pages, bytes).expect("there is room");
    let refused = cedrat(&["scrub", &store, "--rate", "1000000000"]);
    assert!(refused.status.code() == Some(1) && errors(&refused).contains("byte 4096"), "{}", errors(&refused));
    let arguments = ["scrub", &store, "--archive", &archive, "--backup", &backup, "--json"];
    let report = json(&cedrat(&arguments));
    let rebuilt = report["rebuilt"].as_array().expect("a list").len();
    // The double-write area may have one.
    assert!(report["ok"] == true && (1..=used.len()).contains(&rebuilt), "{report}");
    assert_eq!(json(&cedrat(&arguments))["rebuilt"].as_array().map(Vec::len), Some(0), "they are sound at home");
    assert!(printed(&cedrat(&["verify", &store])).contains("sound"));
    assert_eq!(value_in(Path::new(&store)), Some(3));
}

#[test]
fn log_of_lost_store_is_saved() {
    let folder = tempfile::tempdir().expect("a folder");
    with_archive(folder.path());
    let place = |name: &str| text(&folder.path().join(name)).to_owned();
    let (store, archive, backup) = (place("store"), place("archive"), place("backup"));
    // The archiver does not come to the next commit.
    let options = Options { archive_period: Duration::from_secs(3_600), ..Options::default() };
    let opened =
        cedrat::open_with(&store, cedrat::archived_in(&archive, options), cedrat::registry()).expect("it opens");
    let table = opened.transact(|txn| HashTable::<u64, u64>::open(txn, "table")).expect("a table");
    opened.transact(|txn| table.insert(txn, &1, &9)).expect("it is not locked");
    let in_use = cedrat(&["archive", &archive, "--extend-from", &store]);
    assert!(in_use.status.code() == Some(1) && errors(&in_use).contains("open elsewhere"), "{}", errors(&in_use));
    drop(opened);
    std::fs::remove_file(Path::new(&store).join("pages")).expect("it is there");
    assert_eq!(cedrat(&["verify", &store]).status.code(), Some(1));
    let before = files(Path::new(&store));
    let shown = json(&cedrat(&["archive", &archive, "--extend-from", &store, "--json"]));
    assert!(shown["last"].as_u64() > Some(0), "{shown}");
    assert_eq!(files(Path::new(&store)), before);
    printed(&cedrat(&["restore", &backup, &place("restored"), "--archive", &archive]));
    assert_eq!(value_in(&folder.path().join("restored")), Some(9));
    let both = cedrat(&["archive", &archive, "--extend-from", &store, "--forget-before-lsn", "1"]);
    assert_eq!(both.status.code(), Some(2), "{}", errors(&both));
}

#[test]
fn archive_forgets_before_backup_and_moment() {
    let folder = tempfile::tempdir().expect("a folder");
    let values = with_archive(folder.path());
    let place = |name: &str| text(&folder.path().join(name)).to_owned();
    let (archive, backup, later) = (place("archive"), place("backup"), place("later"));
    printed(&cedrat(&["backup", &place("store"), &later, "--archive", &archive]));
    let shown = |more: &[&str]| json(&cedrat(&[&["archive", &archive, "--json"], more].concat()));
    let whole = shown(&[]);
    let kept = shown(&["--forget-before", &backup]);
    assert!(kept["first"].as_u64() >= whole["first"].as_u64(), "{kept}");
    printed(&cedrat(&["restore", &backup, &place("old"), "--archive", &archive]));
    let lsn = values[2].1.to_string();
    assert_eq!(shown(&["--forget-before-lsn", &lsn])["first"], values[2].1);
    let refused = cedrat(&["restore", &backup, &place("older"), "--archive", &archive]);
    assert!(
        refused.status.code() == Some(1) && errors(&refused).contains("the archive begins at"),
        "{}",
        errors(&refused)
    );
    let refused = cedrat(&["archive", &archive, "--forget-before", &backup]);
    assert!(refused.status.code() == Some(1) && errors(&refused).contains("forgetting"), "{}", errors(&refused));
    let early = cedrat(&["archive", &archive, "--forget-before-time", "1980-01-01T00:00:00Z"]);
    assert!(early.status.code() == Some(1) && errors(&early).contains("begins later"), "{}", errors(&early));
    let both = cedrat(&["archive", &archive, "--forget-before-lsn", &lsn, "--forget-before", &later]);
    assert_eq!(both.status.code(), Some(2), "{}", errors(&both));
    assert!(shown(&["--forget-before", &later])["first"].as_u64() > Some(values[2].1));
    printed(&cedrat(&["restore", &later, &place("newest"), "--archive", &archive]));
    assert_eq!(value_in(&folder.path().join("newest")), Some(3));
}

#[test]
fn backup_is_verified_with_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    let values = with_archive(folder.path());
    let place = |name: &str| text(&folder.path().join(name)).to_owned();
    let (archive, backup) = (place("archive"), place("backup"));
    let before = (files(Path::new(&archive)), files(Path::new(&backup)));
    let alone = json(&cedrat(&["backup", "verify", &backup, "--json"]));
    assert_eq!(alone["structures"][0]["elements"], 1, "{alone}");
    assert!(alone["ok"] == true && alone["up_to"].as_u64() < Some(values[1].1), "{alone}");
    let both = json(&cedrat(&["backup", "verify", &backup, "--archive", &archive, "--json"]));
    assert!(both["ok"] == true && both["up_to"].as_u64() >= Some(values[3].1), "{both}");
    assert_eq!(both["heaps"][0]["name"], "words", "{both}");
    assert!(printed(&cedrat(&["backup", "verify", &backup])).contains("sound"));
    assert!(before == (files(Path::new(&archive)), files(Path::new(&backup))), "they are only read");
    let page_file = Path::new(&backup).join("pages");
    let mut bytes = std::fs::read(&page_file).expect("it is there");
    let last = bytes.len() - 100;
    bytes[last] ^= 4;
    std::fs::write(&page_file, &bytes).expect("it is there");
    let damaged = cedrat(&["backup", "verify", &backup, "--archive", &archive]);
    assert_eq!(damaged.status.code(), Some(1));
    let said = errors(&damaged);
    assert!(said.contains("pages") && (said.contains("byte ") || said.contains("offset ")), "{said}");
    let no_backup = cedrat(&["backup", "verify", &archive]);
    assert!(no_backup.status.code() == Some(1) && errors(&no_backup).contains("an archive"), "{}", errors(&no_backup));
    assert_eq!(cedrat(&["backup"]).status.code(), Some(2));
}

#[test]
fn opened_backup_is_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    with_archive(folder.path());
    let backup = text(&folder.path().join("backup")).to_owned();
    assert_eq!(value_in(Path::new(&backup)), Some(0));
    assert!(printed(&cedrat(&["backup", "verify", &backup])).contains("opened"));
}

#[test]
fn store_is_read_as_of_moment() {
    let folder = tempfile::tempdir().expect("a folder");
    let values = with_archive(folder.path());
    let place = |name: &str| text(&folder.path().join(name)).to_owned();
    let (archive, backup) = (place("archive"), place("backup"));
    let options = cedrat::archived_in(&archive, Options::default());
    let _in_use = cedrat::open_with(place("store"), options, cedrat::registry()).expect("it opens");
    // The open store extends the archive.
    let before = files(Path::new(&backup));
    let of = |moment: &str| ["--as-of", moment, "--backup", &backup, "--archive", &archive].map(str::to_owned);
    let run = |command: &str, moment: &str, more: &[&str]| {
        let of = of(moment);
        let arguments: Vec<&str> = [command].into_iter().chain(of.iter().map(String::as_str)).collect();
        cedrat(&[&arguments, more].concat())
    };
    for &(value, lsn) in &values[1..] {
        let verdict = json(&run("verify", &lsn.to_string(), &["--json"]));
        assert!(
            verdict["ok"] == true && verdict["up_to"] == lsn && verdict["heaps"][0]["name"] == "words",
            "{verdict}"
        );
        let dump = printed(&run("dump", &lsn.to_string(), &[]));
        let entry = dump.lines().find(|line| line.contains("\"entry\"")).expect("it has an entry");
        assert!(entry.contains(&format!("{value:02x}")), "{value}: {entry}");
        assert!(dump.contains("\"words\""), "{dump}");
    }
    assert!(printed(&run("verify", "newest", &[])).contains("sound"));
    let early = run("verify", "1980-01-01T00:00:00Z", &[]);
    assert!(early.status.code() == Some(1) && errors(&early).contains("begins later"), "{}", errors(&early));
    for wrong in
        [&["dump"][..], &["dump", "--as-of", "7"], &["dump", &backup, "--backup", &backup], &["verify", "--as-of", "x"]]
    {
        assert_eq!(cedrat(wrong).status.code(), Some(2), "{wrong:?}");
    }
    assert!(before == files(Path::new(&backup)), "it is only read");
}

/// A file of the store is replaced by a folder: it cannot be written.
#[test]
fn backup_that_cannot_continue_is_noted() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| text(&folder.path().join(name)).to_owned();
    cedrat::open(place("store")).expect("it is created").close().expect("it is not in use");
    std::fs::create_dir(folder.path().join("store/backups")).expect("a folder");
    let copied = cedrat(&["backup", &place("store"), &place("full"), "--json"]);
    let report = json(&copied);
    assert!(report["cannot_continue"].as_str().is_some_and(|why| why.contains("backups")), "{report}");
    assert!(errors(&copied).contains("no incremental backup can continue this one"), "{}", errors(&copied));
    let refused = cedrat(&["backup", &place("store"), &place("next"), "--since", &place("full")]);
    assert!(refused.status.code() == Some(1), "{}", errors(&refused));
    printed(&cedrat(&["restore", &place("full"), &place("restored")]));
}

#[test]
fn increments_are_restored_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| text(&folder.path().join(name)).to_owned();
    let (store, full, first, second) = (place("store"), place("full"), place("first"), place("second"));
    let put = |value: u64| {
        let store = cedrat::open(&store).expect("it opens");
        let table = store.transact(|txn| HashTable::<u64, u64>::open_or_create(txn, "table")).expect("a table");
        store.transact(|txn| table.insert(txn, &1, &value)).expect("it is not locked");
        store.close().expect("it is not in use");
    };
    put(1);
    printed(&cedrat(&["backup", &store, &full]));
    put(2);
    printed(&cedrat(&["backup", &store, &first, "--since", &full]));
    put(3);
    printed(&cedrat(&["backup", &store, &second, "--since", &full, "--since", &first, "--rate", "1000000000"]));
    assert!(printed(&cedrat(&["backup", "verify", &full, &first, &second])).contains("sound"));
    printed(&cedrat(&["restore", &full, &first, &second, &place("three")]));
    assert_eq!(value_in(&folder.path().join("three")), Some(3));
    printed(&cedrat(&["restore", &full, &first, &place("two")]));
    assert_eq!(value_in(&folder.path().join("two")), Some(2));
    let gap = cedrat(&["restore", &full, &second, &place("gap")]);
    let message = errors(&gap);
    assert!(gap.status.code() == Some(1) && message.contains("second/increment: it continues"), "{message}");
    assert!(!folder.path().join("gap").exists(), "nothing is written");
    let stream = cedrat(&["backup", &store, "-", "--since", &full]).stdout;
    let restore_stream = |stream: &[u8], to: &str| {
        let file = folder.path().join("stream");
        std::fs::write(&file, stream).expect("there is room");
        let from = std::fs::File::open(file).expect("it is there");
        command().args(["restore", "-", &place(to)]).stdin(from).output().expect("cedrat runs")
    };
    let report = printed(&restore_stream(&stream, "third"));
    assert!(!report.contains("LSN"), "an increment alone has no state: {report}");
    let space = json(&cedrat(&["space", &store, "--json"]));
    let owners = space["owners"].as_array().expect("a list");
    assert!(owners.iter().all(|owner| owner["owner"] != "unknown file"), "{space}");
    printed(&cedrat(&["restore", &full, &place("third"), &place("from_stream")]));
    assert_eq!(value_in(&folder.path().join("from_stream")), Some(3));
    let torn = restore_stream(&stream[..stream.len() - 1], "torn");
    assert!(torn.status.code() == Some(1) && errors(&torn).contains("it is torn"), "{}", errors(&torn));
    let alone = cedrat(&["backup", "verify", &first]);
    assert!(alone.status.code() == Some(1) && errors(&alone).contains("an incremental backup"), "{}", errors(&alone));
}
