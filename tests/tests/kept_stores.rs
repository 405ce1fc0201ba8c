//! Stores and logs of older versions open, and contain what was committed: see `kept/README.md`.
//!
//! Each is tried with both outcomes of its prepared branch. It is changed, checked, closed, and opened again. A store that
//! today's code makes by the same calls has the same content, so the model is right.
#![forbid(unsafe_code)]
#![cfg(not(cedrat_shuttle))]

#[path = "kept/make.rs"]
mod make;
#[path = "kept/model.rs"]
mod model;
#[path = "kept/text.rs"]
mod text;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use cedrat::media::{Media, OpenMode, RealDisk};
use cedrat::txn::{RestoreTarget, restore_stream};
use cedrat_media::read_exact_at;
use cedrat_wal::{EntryLog, EntryLogOptions, Lsn};
use model::{InGraph, InHeaps, InStructures, Model};

/// Kept files: their version, the store, and their text.
const KEPT: [(&str, &str, &str); 7] = [
    ("bd5dda91", "pages", include_str!("kept/bd5dda91-pages.txt")),
    ("bd5dda91", "heaps", include_str!("kept/bd5dda91-heaps.txt")),
    ("bd5dda91", "objects", include_str!("kept/bd5dda91-objects.txt")),
    ("bd5dda91", "log-alone", include_str!("kept/bd5dda91-log-alone.txt")),
    ("757cce56", "copies", include_str!("kept/757cce56-copies.txt")),
    ("757cce56", "encrypted", include_str!("kept/757cce56-encrypted.txt")),
    ("801d61b5", "pages", include_str!("kept/801d61b5-pages.txt")),
];

/// Variable that names a directory, into which the stores of today's code are written as text.
const KEEP: &str = "CEDRAT_KEEP";

/// Called by the calls that make a store, while it is open.
type End = Box<dyn FnOnce()>;

/// Expands each kept store of this name into a new directory, and today's store, and calls `take` with it.
fn each(name: &str, make: fn(&Path, End), take: impl Fn(&Path)) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let described = Arc::new(std::sync::OnceLock::new());
    let (path, filled) = (directory.path().to_path_buf(), described.clone());
    make(directory.path(), Box::new(move || drop(filled.set(text::describe(&path).expect("readable files")))));
    let described = described.get().expect("the store was made");
    if let Some(folder) = std::env::var_os(KEEP) {
        std::fs::write(Path::new(&folder).join(format!("{name}.txt")), described).expect("a directory");
    }
    // As a kill leaves it, and not as its end has left it.
    let killed = tempfile::tempdir().expect("a temporary directory");
    text::expand(described, killed.path()).expect("valid text");
    assert_eq!(&text::describe(killed.path()).expect("readable files"), described);
    eprintln!("{name} of today");
    take(killed.path());
    let mut versions = 0;
    for (version, _, text) in KEPT.iter().filter(|kept| kept.1 == name) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        text::expand(text, directory.path()).expect("valid text");
        eprintln!("{name} of {version}");
        take(directory.path());
        versions += 1;
    }
    assert!(versions > 0, "no store {name} is kept");
}

/// Opens a store, which has what was committed, decides its branch, changes and closes it, and opens it again.
fn passes<M: Model>(directory: &Path) {
    for commits in [false, true] {
        let copy = tempfile::tempdir().expect("a temporary directory");
        text::expand(&text::describe(directory).expect("readable files"), copy.path()).expect("valid text");
        let open = || cedrat::open_with(copy.path(), make::options(), make::registry()).expect("an older store opens");
        let mut model = M::default();
        let store = open();
        assert_eq!(store.in_doubt().unwrap().iter().map(|branch| &branch.id[..]).collect::<Vec<_>>(), [make::BRANCH]);
        let branch = store.prepared(make::BRANCH).expect("it is in doubt");
        if commits {
            branch.commit(cedrat::Commit::Sync).expect("always possible");
            model.commit_branch();
        } else {
            branch.rollback().expect("always possible");
        }
        model.compare(&store);
        model::check(&store);
        model.change(&store);
        model.compare(&store);
        store.close().expect("a sound disk");
        let store = open();
        assert!(store.in_doubt().unwrap().is_empty());
        model.compare(&store);
        model::check(&store);
        store.checkpoint().expect("a sound disk");
        store.close().expect("a sound disk");
    }
}

#[test]
fn older_pages_open_with_their_content() {
    each("pages", make::pages, passes::<InStructures>);
}

#[test]
fn older_copies_restore_their_store() {
    each("copies", make::copies, |directory| {
        let (full, increment) = (directory.join(make::FULL), directory.join(make::INCREMENT));
        let archive = directory.join(make::ARCHIVE);
        for backups in [&[&full][..], &[&full, &increment]] {
            let to = tempfile::tempdir().expect("a temporary directory");
            let newest = RestoreTarget::Newest;
            cedrat::restore_chain(backups, Some(&archive), to.path(), newest).expect("older copies restore");
            passes::<InStructures>(to.path());
        }
        let to = tempfile::tempdir().expect("a temporary directory");
        let mut stream = File::open(directory.join(make::STREAM)).expect("a kept file");
        let disk: Arc<dyn Media> = Arc::new(RealDisk::new(to.path()));
        restore_stream(&mut stream, &disk).expect("an older stream restores");
        passes::<InStructures>(to.path());

        let (store, options) = (directory.join(make::STORE), make::archived_options(directory));
        let opened =
            cedrat::open_with(&store, options, make::registry()).expect("an older store opens with its archive");
        opened.extend_archive().expect("an older archive grows");
        opened.close().expect("a sound disk");
        passes::<InStructures>(&store);
    });
}

#[test]
fn older_encrypted_file_is_read() {
    each("encrypted", make::encrypted, |directory| {
        let disk: Arc<dyn Media> = Arc::new(RealDisk::new(directory));
        let disk = make::keys().open(&disk).expect("an older directory");
        let (name, content) = make::ENCRYPTED;
        let file = disk.open(name, OpenMode::Read).expect("an older file");
        let mut found = [0; make::ENCRYPTED.1.len()];
        read_exact_at(&*disk, file, 0, &mut found).expect("a sound disk");
        assert_eq!(found, content);
    });
}

#[test]
fn older_heaps_open_with_their_content() {
    each("heaps", make::heaps, passes::<InHeaps>);
}

#[test]
fn older_objects_open_with_their_content() {
    each("objects", make::objects, passes::<InGraph>);
}

#[test]
fn older_log_alone_opens_with_its_entries() {
    each("log-alone", make::log_alone, |directory| {
        let media: Arc<dyn Media> = Arc::new(RealDisk::new(directory));
        let mut entries: Vec<Vec<u8>> = (5..make::ENTRIES).map(make::entry).collect();
        for _ in 0..3 {
            let options = EntryLogOptions { create: false, background: false, ..EntryLogOptions::default() };
            let log = EntryLog::open(&media, &options).expect("an older log opens");
            let mut cursor = log.cursor(Lsn::ZERO).expect("a sound log");
            let mut found = Vec::new();
            while let Some(entry) = cursor.next().expect("a sound log") {
                found.push(entry.bytes.to_vec());
            }
            assert!(found == entries, "{} entries found, {} written", found.len(), entries.len());
            entries.push(b"one more".to_vec());
            let lsn = log.append(b"one more").expect("room");
            log.force(lsn).expect("a sound disk");
            log.close().expect("a sound disk");
        }
    });
}
