//! Common behaviour of all subcommands: help, exit codes, errors on stderr, and that reading changes nothing.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{self, cedrat, command, errors, files, json, printed, text};

const SUBCOMMANDS: [&[&str]; 33] = [
    &[],
    &["tour"],
    &["bank", "run"],
    &["bank", "verify"],
    &["heap"],
    &["heap", "info"],
    &["heap", "verify"],
    &["heap", "bench"],
    &["info"],
    &["verify"],
    &["space"],
    &["page"],
    &["pins"],
    &["locks"],
    &["stats"],
    &["dump"],
    &["load"],
    &["salvage"],
    &["backup"],
    &["backup", "verify"],
    &["restore"],
    &["archive"],
    &["follow"],
    &["promote"],
    &["scrub"],
    &["log"],
    &["resolve"],
    &["objects"],
    &["objects", "store", "show"],
    &["objects", "store", "why"],
    &["objects", "store", "classes"],
    &["completions"],
    &["man"],
];

#[test]
fn every_subcommand_explains_itself() {
    for subcommand in SUBCOMMANDS {
        let help = printed(&cedrat(&[subcommand, &["--help"]].concat()));
        assert!(help.contains("Usage: cedrat"), "{help}");
        let wrong = cedrat(&[subcommand, &["--no-such-option"]].concat());
        assert_eq!(wrong.status.code(), Some(2), "{subcommand:?}");
        assert!(wrong.stdout.is_empty());
        assert!(errors(&wrong).contains("--no-such-option"));
    }
}

#[test]
fn number_out_of_range_is_refused() {
    let bench = ["heap", "bench", "--bytes", "4096"];
    let run = ["bank", "run", "--accounts", "2", "--threads", "1", "--transfers", "1"];
    let folder = tempfile::tempdir().expect("a folder");
    let place = text(folder.path());
    for seconds in ["-1", "nan", "inf", "1e300", "18446744073709551615"] {
        let given = format!("--seconds={seconds}");
        for refused in [cedrat(&[&bench[..], &[&given]].concat()), cedrat(&[&run[..], &[&given, place]].concat())] {
            assert_eq!(refused.status.code(), Some(2), "{seconds}: {}", errors(&refused));
            assert!(errors(&refused).contains("--seconds"), "{seconds}: {}", errors(&refused));
        }
    }
    let refused = cedrat(&["tour", "--kills", "18446744073709551615", place]);
    assert_eq!(refused.status.code(), Some(2), "{}", errors(&refused));
}

#[test]
fn missing_store_is_named_on_stderr() {
    let folder = tempfile::tempdir().expect("a folder");
    for subcommand in THAT_LOOK {
        let output = cedrat(&[subcommand, &[text(folder.path())]].concat());
        assert_eq!(output.status.code(), Some(1), "{subcommand:?}");
        assert!(output.stdout.is_empty(), "{subcommand:?}");
        let said = errors(&output);
        assert!(said.starts_with("cedrat: ") && said.contains("control"), "{said}");
    }
    assert!(files(folder.path()).is_empty(), "looking made files");
}

const THAT_LOOK: [&[&str]; 12] = [
    &["info"],
    &["verify"],
    &["space"],
    &["pins"],
    &["locks"],
    &["stats"],
    &["dump"],
    &["log"],
    &["heap", "info"],
    &["heap", "verify"],
    &["objects"],
    &["archive"],
];

#[test]
fn wrong_path_differs_from_empty_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let (absent, file) = (folder.path().join("absent"), folder.path().join("file"));
    fs::write(&file, "no store").expect("room");
    for subcommand in THAT_LOOK {
        for (path, why) in [(&absent, "does not exist"), (&file, "is no directory")] {
            let output = cedrat(&[subcommand, &[text(path)]].concat());
            let said = errors(&output);
            assert_eq!(output.status.code(), Some(1), "{subcommand:?}");
            assert!(said.contains(why) && said.contains(text(path)), "{subcommand:?}: {said}");
        }
    }
    assert!(!absent.exists(), "looking made a directory");
}

#[test]
fn a_reader_of_anything_may_go_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("bank");
    let arguments = ["bank", "run", text(&store), "--accounts", "20", "--threads", "1", "--transfers", "20"];
    printed(&cedrat(&arguments));
    for subcommand in [&["info"][..], &["info", "--json"], &["verify"], &["verify", "--json"], &["heap", "info"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let child = command().args(subcommand).arg(&store).stdout(writer).stderr(Stdio::piped()).spawn();
        let output = child.and_then(|child| child.wait_with_output()).expect("cedrat runs");
        assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), ""), "{subcommand:?}");
    }
}

/// A second failure, to report the first one, changes nothing about the exit code.
#[test]
fn reader_of_errors_may_go_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let absent = folder.path().join("absent");
    for subcommand in THAT_LOOK {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ended = command().args(subcommand).arg(&absent).stderr(writer).status().expect("cedrat runs");
        assert_eq!(ended.code(), Some(1), "{subcommand:?}");
    }
    let store = folder.path().join("bank");
    killed_bank(&store);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let nothing = ["log", text(&store), "--transaction", "18446744073709551615"];
    assert_eq!(command().args(nothing).stderr(writer).status().expect("cedrat runs").code(), Some(0));
}

/// A bank that was killed, so that its log needs recovery.
pub(crate) fn killed_bank(store: &Path) {
    use std::io::BufRead;
    let mut process = common::command()
        .args(["bank", "run", text(store), "--accounts", "20", "--threads", "2"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("cedrat runs");
    let stdout = std::io::BufReader::new(process.stdout.take().expect("it is a pipe"));
    for line in stdout.lines().take(50) {
        line.expect("an acknowledgement");
    }
    process.kill().expect("it runs");
    process.wait().expect("it ended");
}

#[test]
fn looking_into_a_store_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("bank");
    killed_bank(&store);
    let before = files(&store);
    let store_text = text(&store);

    let info = json(&cedrat(&["info", store_text, "--json"]));
    assert_eq!(info["page_bytes"], 4096, "{info}");
    let shown = printed(&cedrat(&["info", store_text]));
    let is_direct = info["direct_io"].as_bool().expect("reported");
    assert_eq!(shown.contains("has no direct I/O"), !is_direct, "{shown}");
    let verdict = json(&cedrat(&["verify", store_text, "--json"]));
    assert_eq!(verdict["ok"], true, "{verdict}");
    printed(&cedrat(&["verify", store_text]));
    let log = printed(&cedrat(&["log", store_text, "--json"]));
    printed(&cedrat(&["log", store_text]));
    assert!(files(&store) == before, "a file was changed");

    let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let lsns: Vec<u64> = records.iter().map(|record| record["lsn"].as_u64().expect("an LSN")).collect();
    assert!(lsns.is_sorted() && lsns.len() > 50);
}

#[test]
fn the_log_is_filtered() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("bank");
    killed_bank(&store);
    let log = |more: &[&str]| -> Vec<Value> {
        let arguments = [&["log", text(&store), "--json"], more].concat();
        printed(&cedrat(&arguments)).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let all = log(&[]);
    let update = all.iter().rfind(|record| record["kind"] == "update").expect("an update");
    for name in ["transaction", "page"] {
        let number = update[name].to_string();
        let expected: Vec<&Value> = all.iter().filter(|record| record[name] == update[name]).collect();
        let found = log(&[&format!("--{name}"), &number]);
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "--{name}");
        assert!(expected.len() < all.len());
    }
    let (from, to) = (all[10]["lsn"].to_string(), all[20]["lsn"].to_string());
    assert_eq!(log(&["--from", &from, "--to", &to]), all[10..=20]);

    let nothing = cedrat(&["log", text(&store), "--transaction", "18446744073709551615"]);
    assert_eq!(printed(&nothing), "");
    assert!(errors(&nothing).contains("no such record: the log goes from LSN 1 "), "{}", errors(&nothing));
}

#[test]
fn reader_of_log_may_stop_early() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("bank");
    killed_bank(&store);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let child = command().args(["log", text(&store)]).stdout(writer).stderr(Stdio::piped()).spawn();
    let output = child.and_then(|child| child.wait_with_output()).expect("cedrat runs");
    assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), ""));
}

/// The standard library asks the system for stacks of this size, and the system refuses each thread.
const STACK_LEN: (&str, &str) = ("RUST_MIN_STACK", "1152921504606846976");

#[test]
fn refused_thread_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, words) = (folder.path().join("bank"), folder.path().join("words"));
    fs::write(&words, "to be or not to be").expect("room");
    let commands: [&[&str]; 5] = [
        &["bank", "run", text(&store), "--accounts", "9", "--threads", "2", "--transfers", "1"],
        &["bank", "run", text(&store), "--accounts", "9", "--threads", "2", "--transfers", "1", "--commit", "async"],
        &["heap", "bench", text(folder.path()), "--bytes", "1048576", "--seconds", "0.1"],
        &["tour", text(&words), "--kills", "0"],
        &["tour", text(&words), "--kills", "2"],
    ];
    for arguments in commands {
        let output = command().args(arguments).env(STACK_LEN.0, STACK_LEN.1).output().expect("cedrat runs");
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("cannot start a thread (") && said.contains("--threads"), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    }
    // Without threads of its own, a store can be read and written.
    let verified =
        command().args(["verify", text(&store)]).env(STACK_LEN.0, STACK_LEN.1).output().expect("cedrat runs");
    assert!(printed(&verified).contains("sound"), "{}", printed(&verified));
}

#[test]
fn damage_is_named_with_file_and_offset() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("bank");
    let run = cedrat(&["bank", "run", text(&store), "--accounts", "20", "--threads", "1", "--transfers", "200"]);
    printed(&run);
    let control = store.join("control");
    let mut bytes = fs::read(&control).expect("the control file");
    for slot in [0, bytes.len() / 2] {
        bytes[slot + 40] ^= 1; // in the newest and in the older slot
    }
    fs::write(&control, bytes).expect("room");
    let before = files(&store);
    for subcommand in ["info", "verify", "log"] {
        let output = cedrat(&[subcommand, text(&store)]);
        assert_eq!(output.status.code(), Some(1), "{subcommand}");
        let said = errors(&output);
        assert!(said.contains("control") && said.contains("byte"), "{said}");
    }
    assert!(files(&store) == before, "a damaged store was changed");
}

#[test]
fn each_damaged_page_is_named() {
    use cedrat::objects::{Objects, Options};
    let folder = tempfile::tempdir().expect("a folder");
    let store = cedrat::open(folder.path()).expect("a store");
    let objects = Objects::create(&store, "articles", Options::default()).expect("a collection");
    let insert = |txn: &mut cedrat::Txn| (0..400).try_for_each(|_| objects.insert(txn, &[1; 3600]).map(drop));
    store.transact(insert).expect("some pages of objects");
    let pages = objects.pages(&store).expect("they can be listed");
    let damaged = [pages[20], pages[30]];
    drop(objects);
    store.close().expect("it is not in use");
    let file = folder.path().join("pages");
    let mut bytes = fs::read(&file).expect("the page file");
    for page in damaged {
        bytes[page.get() as usize * 4096 + 2000] ^= 1;
    }
    fs::write(&file, bytes).expect("room");
    let output = cedrat(&["verify", text(folder.path()), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let verdict: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let problems = verdict["problems"].to_string();
    for page in damaged {
        assert!(problems.contains(&format!("page {page} ")), "{problems}");
    }
    assert!(problems.contains("articles: "), "who has the pages is not said: {problems}");
    assert!(verdict["pages"].as_u64() > Some(400), "{verdict}");
}

/// Recovery repairs a page that a crash has torn. Without a crash, it is the first sign of a bad disk.
#[test]
fn repaired_page_is_named_by_verify() {
    use cedrat::objects::{Objects, Options};
    let folder = tempfile::tempdir().expect("a folder");
    let store = cedrat::open(folder.path()).expect("a store");
    let objects = Objects::create(&store, "articles", Options::default()).expect("a collection");
    let insert = |txn: &mut cedrat::Txn| (0..5).try_for_each(|_| objects.insert(txn, &[1; 3600]).map(drop));
    store.transact(insert).expect("some pages of objects");
    let pages = objects.pages(&store).expect("they can be listed");
    drop(objects);
    store.close().expect("it is not in use");
    let verify = |more: &[&str]| cedrat(&[&["verify", text(folder.path())], more].concat());
    assert!(!printed(&verify(&[])).contains("repaired"));
    let file = folder.path().join("pages");
    let mut bytes = fs::read(&file).expect("the page file");
    for page in &pages[1..3] {
        bytes[page.get() as usize * 4096 + 2048..][..2048].fill(0);
    }
    fs::write(&file, bytes).expect("room");
    let verdict = json(&verify(&["--json"]));
    let torn: Vec<u64> = pages[1..3].iter().map(|page| page.get()).collect();
    assert_eq!((&verdict["ok"], &verdict["repaired_pages"]), (&Value::from(true), &Value::from(torn.clone())));
    let said = printed(&verify(&[]));
    let line = format!("sound in double-write: page {}, {}; the next opening", torn[0], torn[1]);
    assert!(said.contains(&line) && said.contains("verdict   sound"), "{said}");
    cedrat::open(folder.path()).expect("the store").close().expect("it is not in use");
    assert!(!printed(&verify(&[])).contains("repaired"), "the opening has repaired them");
}

/// As a copy of before is that was mounted for reading only.
#[test]
fn read_only_store_can_be_read() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    const UNPRIVILEGED: u32 = 65534;
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    cedrat::open(&store).expect("a store").close().expect("it is not in use");
    let may_only = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    files(&store).keys().for_each(|file| may_only(Path::new(file), 0o444));
    let folders = [folder.path(), &store, &store.join("log")];
    folders.into_iter().filter(|folder| folder.is_dir()).for_each(|folder| may_only(folder, 0o555));
    // The superuser changes to another user for this, and uses a copy of the command that this user may run.
    let own = folder.path().join("cedrat");
    let is_root = fs::metadata(folder.path()).expect("it is there").uid() == 0;
    if is_root {
        // By another process: one that another test begins meanwhile would inherit the file open for writing, and none could run it.
        let copied = std::process::Command::new("cp").arg(env!("CARGO_BIN_EXE_cedrat")).arg(&own).status();
        assert!(copied.expect("there is a cp").success());
        may_only(&own, 0o755);
    }
    for subcommand in ["info", "verify", "log"] {
        let mut looking = if is_root { std::process::Command::new(&own) } else { command() };
        if is_root {
            looking.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        }
        printed(&looking.args([subcommand, text(&store)]).output().expect("cedrat runs"));
    }
    folders.into_iter().filter(|folder| folder.is_dir()).for_each(|folder| may_only(folder, 0o755));
}

#[test]
fn objects_are_walked() {
    use cedrat::objects::{Objects, Options};
    let folder = tempfile::tempdir().expect("a folder");
    let store = cedrat::open(folder.path()).expect("a store");
    let objects = Objects::create(&store, "articles", Options::default()).expect("a collection");
    let insert = |txn: &mut cedrat::Txn| {
        let ids: Vec<_> = (0..5_u8).map(|number| objects.insert(txn, &[number])).collect::<cedrat::Result<Vec<_>>>()?;
        objects.put(txn, ids[3], &[3; 100])?;
        objects.remove(txn, ids[4])
    };
    store.transact(insert).expect("five objects less one");
    drop((objects, store));
    let verdict = json(&cedrat(&["verify", text(folder.path()), "--json"]));
    assert_eq!(verdict["structures"][0]["kind"], "a collection of objects");
    assert_eq!((&verdict["structures"][0]["elements"], &verdict["ok"]), (&Value::from(4), &Value::from(true)));
}

#[test]
fn graphs_are_walked() {
    use cedrat::graph::{Changes, Graph, Identity, Mode, Options};
    let folder = tempfile::tempdir().expect("a folder");
    let store = cedrat::open(folder.path()).expect("a store");
    let graph = Graph::create(&store, "people", Options::default()).expect("a graph");
    let class = graph.define_class(b"").expect("a class");
    let mut changes = Changes::new();
    let long = changes.add(class, &[7; 10_000], &[]);
    let person = changes.add(class, b"Ada", &[long]);
    changes.set_root("Ada", person);
    let ids = graph.commit(&changes, Mode::Sync).expect("two objects").identities;
    drop(graph);
    store.close().expect("it is not in use");
    let verdict = json(&cedrat(&["verify", text(folder.path()), "--json"]));
    assert_eq!(verdict["structures"][0]["kind"], "a graph of objects");
    assert_eq!((&verdict["structures"][0]["elements"], &verdict["ok"]), (&Value::from(2), &Value::from(true)));

    let store = cedrat::open(folder.path()).expect("the store");
    let graph = Graph::open(&store, "people", Options::default()).expect("the graph");
    let unknown = Identity::new(ids[1].get() + 50).expect("it could be one");
    graph.commit(Changes::new().patch_reference(ids[1], 16, unknown), Mode::Sync).expect("the commit");
    drop(graph);
    store.close().expect("it is not in use");
    let said = errors(&cedrat(&["verify", text(folder.path())]));
    assert!(said.contains(&format!("the object at {}: it refers to {unknown}", ids[1])), "{said}");
}

#[test]
fn foreign_structure_is_checked_by_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = cedrat::open(folder.path()).expect("a store");
    let add = |txn: &mut cedrat::Txn| {
        let (name, kind) = ("ledger".into(), cedrat::structures::Kind::User(1024));
        let named = cedrat::structures::Named { name, kind, root: txn.allocate()?, schema: 0 };
        cedrat::structures::Catalogue::open(txn.store())?.add(txn, &named)
    };
    store.transact(add).expect("a structure of the program's own");
    store.close().expect("it is not in use");
    let said = printed(&cedrat(&["verify", text(folder.path())]));
    let line = "ledger, a structure of kind 1024: checked page by page; only its own program can count its elements";
    assert!(said.contains(line), "{said}");
}
