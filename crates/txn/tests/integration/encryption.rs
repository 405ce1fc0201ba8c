//! Encrypted stores, with archives, backups and views (E24).
#![cfg(not(cedrat_shuttle))]

use cedrat_heap::HeapOptions;
use cedrat_media::{Durability, Encryption, KEY_FILE, Key, KeyError, Loss, Media, OpenMode, SimDisk, write_all_at};
use cedrat_pages::{PAGE_FILE, PageId};
use cedrat_sync::Arc;
use cedrat_txn::{
    BackupChain, BackupOptions, Commit, Error, OpenError, Options, Reader, ReaderFiles, RestoreTarget, Store, View,
    check_backup, open_as_of, restore, restore_stream,
};
use cedrat_wal::{CONTROL_FILE, LogError, Lsn};
use std::io::Write;
use std::sync::Mutex;

use crate::common::*;

/// Bytes that no encrypted file has.
const MARKER: [u8; 8] = *b"plain!!\x01";

fn key(byte: u8) -> Encryption {
    Encryption::with_key(Key::new([byte; 32]))
}

fn with_key(byte: u8) -> Options {
    Options { encryption: Some(key(byte)), ..options() }
}

fn opened(disk: &SimDisk, options: Options) -> Result<Store, OpenError> {
    Store::open(media(disk), options, registry())
}

fn decrypted(disk: &SimDisk, byte: u8) -> Arc<dyn Media> {
    key(byte).open(&media(disk)).unwrap()
}

/// Returns the error of a key that an opening was refused with.
#[track_caller]
fn key_error(error: impl Into<Error>) -> KeyError {
    match error.into() {
        Error::Log(LogError::Key(error)) => error,
        other => panic!("{other}"),
    }
}

/// An encrypted store with an archive, in which a word and a number of a page are changed together, by the marker.
struct World {
    disk: SimDisk,
    archive: SimDisk,
    store: Store,
    page: PageId,
}

impl World {
    fn new() -> World {
        let (disk, archive) = (SimDisk::new(), SimDisk::new());
        let store = opened(&disk, Options { archive: Some(media(&archive)), ..with_key(1) }).unwrap();
        let page = store.transact(page_with_zeros).unwrap();
        let words = HeapOptions { chunk_len: 4096, size: 4096, ..HeapOptions::raw(1 << 16) };
        store.memory().create_heap("words", &words).unwrap();
        let world = World { disk, archive, store, page };
        world.add();
        world
    }

    fn add(&self) -> Lsn {
        let heap = self.store.memory().heap("words").unwrap();
        self.store
            .transact(|txn| {
                txn.heap(|tx| tx.write(&heap, 0, u64::from_le_bytes(MARKER)))?;
                txn.heap(|tx| tx.update(&heap, 8, |value| value + 1))?;
                txn.update(at(self.page, 0), &Add { amount: 1 })?;
                let now = read_number(&self.store, at(self.page, 1))?;
                txn.update(at(self.page, 1), &Add { amount: i64::from_le_bytes(MARKER) - now })
            })
            .unwrap();
        self.store.log().durable_lsn()
    }

    fn backup(&self) -> SimDisk {
        let to = SimDisk::new();
        self.store.backup(&media(&to), BackupOptions::default()).unwrap();
        to
    }
}

/// Returns the count of a store, and checks that its word has the same.
#[track_caller]
fn count_in(store: &Store, page: PageId) -> i64 {
    let heap = store.memory().heap("words").unwrap();
    let word = store.memory().run(Commit::Async, |tx| tx.read(&heap, 8)).unwrap().value;
    let on_page = read_number(store, at(page, 0)).unwrap();
    assert_eq!(word as i64, on_page, "of one moment");
    assert_eq!(read_number(store, at(page, 1)).unwrap(), i64::from_le_bytes(MARKER));
    store.check().unwrap();
    on_page
}

/// Checks that no file of a disk has the marker, or the magic number of a format; also not below its newest bytes.
#[track_caller]
fn assert_encrypted(disk: &SimDisk) {
    let image = disk.image();
    let mut names: Vec<String> = Vec::new();
    for directory in ["", "log", "heaps", "index"] {
        let files = disk.list(directory).unwrap().into_iter();
        names.extend(files.map(|name| if directory.is_empty() { name } else { format!("{directory}/{name}") }));
    }
    assert!(names.iter().any(|name| name == "key"), "E24.1: {names:?}");
    for name in names {
        let bytes = image.file(&name).unwrap();
        for wanted in [&MARKER[..], b"CEDRATCF", b"CEDRATHC", b"CEDRATIN", b"CSEG", b"CBLK", b"words"] {
            assert!(!bytes.windows(wanted.len()).any(|found| found == wanted), "E24.1: {name} has {wanted:?}");
        }
    }
}

#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// E24.1, in all directories that get bytes of the store.
#[test]
fn encrypted_store_writes_no_plain_bytes() {
    let world = World::new();
    let full = world.backup();
    world.store.checkpoint().unwrap();
    world.add();
    world.store.extend_archive().unwrap();
    let since = SimDisk::new();
    let chain = world.store.backup_chain(&media(&full), &[]).unwrap();
    let continued = || BackupOptions { since: Some(&chain), ..BackupOptions::default() };
    world.store.backup(&media(&since), continued()).unwrap();
    let (bytes, streamed) = (Bytes::default(), SimDisk::new());
    world.store.backup_to_stream(bytes.clone(), continued()).unwrap();
    restore_stream(&mut &**bytes.0.lock().unwrap(), &media(&streamed)).unwrap();
    let scratch = SimDisk::new();
    let view = View {
        backup: media(&full),
        archive: Some(media(&world.archive)),
        moment: RestoreTarget::Newest,
        scratch: media(&scratch),
    };
    let (viewed, _) = open_as_of(&view, with_key(1), registry()).unwrap();
    assert_eq!(count_in(&viewed, world.page), 2);
    for disk in [&world.disk, &world.archive, &full, &since, &streamed, &scratch] {
        assert_encrypted(disk);
    }
    // Incremental backups are of the same state, by both ways.
    for increment in [&since, &streamed] {
        let chain = BackupChain::open(&decrypted(&full, 1), &[decrypted(increment, 1)]).unwrap();
        let to = SimDisk::new();
        restore(chain.media(), None, &key(4).open_or_create(&media(&to)).unwrap(), RestoreTarget::Newest).unwrap();
        assert_eq!(count_in(&opened(&to, with_key(4)).unwrap(), world.page), 2);
        assert_encrypted(&to);
    }
}

/// E24.3: also of archives and backups, and nothing is overwritten.
#[test]
fn other_keys_are_refused() {
    let world = World::new();
    let backup = world.backup();
    world.store.close().unwrap();
    let disks = [&world.disk, &world.archive, &backup];
    let before = disks.map(|disk| disk.image().hash());
    for disk in [&world.disk, &backup] {
        assert!(matches!(key_error(opened(disk, options()).unwrap_err()), KeyError::Missing { .. }), "E24.3");
        let error = key_error(opened(disk, with_key(2)).unwrap_err());
        assert!(matches!(&error, KeyError::Wrong { file, .. } if file == "key"), "E24.3: {error}");
        let to = SimDisk::new();
        let error = restore(&media(disk), None, &media(&to), RestoreTarget::Newest).unwrap_err();
        assert!(matches!(key_error(error), KeyError::Missing { .. }), "E24.3");
        assert!(to.list("").unwrap().is_empty(), "E24.3: nothing was restored");
        assert!(check_backup(&media(disk), None).is_err());
    }
    let both = decrypted(&backup, 1);
    let error = restore(&both, Some(&media(&world.archive)), &media(&SimDisk::new()), RestoreTarget::Newest);
    assert!(matches!(key_error(error.unwrap_err()), KeyError::Missing { .. }), "E24.3");
    // The archive of an encrypted store with another key, and a plain one.
    let (plain, other) = (SimDisk::new(), SimDisk::new());
    write_all_at(&plain, plain.open("moments", OpenMode::Create).unwrap(), 0, &[1; 9], Durability::Durable).unwrap();
    drop(opened(&other, with_key(2)).unwrap());
    for archive in [&plain, &other] {
        let before = archive.image().hash();
        let error = opened(&world.disk, Options { archive: Some(media(archive)), ..with_key(1) }).unwrap_err();
        assert!(matches!(key_error(error), KeyError::NotEncrypted { .. } | KeyError::Wrong { .. }), "E24.3");
        assert_eq!(archive.image().hash(), before, "E24.3: nothing was changed");
    }
    for (disk, before) in disks.into_iter().zip(before).skip(1) {
        assert_eq!(disk.image().hash(), before, "E24.3: nothing was changed");
    }
    assert_eq!(count_in(&opened(&world.disk, with_key(1)).unwrap(), world.page), 1);
}

/// E24.3: the file with the data key of the store, or of its archive, is lost or is that of another directory.
#[test]
fn lost_and_foreign_key_files_are_refused() {
    let world = World::new();
    world.add();
    let other = World::new();
    let disks = [world.disk.clone(), world.archive.clone()].map(|disk| disk.cut_power(Loss::Random(3)));
    let foreign = other.disk.image().file(KEY_FILE).unwrap().to_vec();
    for damaged in 0..2 {
        for is_lost in [true, false] {
            let disks = [0, 1].map(|disk| SimDisk::from_image(disks[disk].image()));
            if is_lost {
                disks[damaged].remove(KEY_FILE).unwrap();
            } else {
                let file = disks[damaged].open(KEY_FILE, OpenMode::ReadWrite).unwrap();
                write_all_at(&disks[damaged], file, 0, &foreign, Durability::Durable).unwrap();
            }
            let before = disks.each_ref().map(|disk| disk.image().hash());
            let options = Options { archive: Some(media(&disks[1])), ..with_key(1) };
            let error = opened(&disks[0], options).expect_err("E24.3");
            let after = disks.each_ref().map(|disk| disk.image().hash());
            // The archive is opened when the store has recovered.
            let is_unchanged = after[1] == before[1] && (after[0] == before[0] || damaged == 1 && !is_lost);
            assert!(is_unchanged, "E24.3: nothing was changed: {damaged} {is_lost}: {error}");
            if damaged == 1 {
                assert_eq!(count_in(&opened(&disks[0], with_key(1)).unwrap(), world.page), 2);
            }
        }
    }
}

/// E24.3.
#[test]
fn plain_store_is_refused_with_key() {
    let disk = SimDisk::new();
    drop(opened(&disk, options()).unwrap());
    let before = disk.image().hash();
    let error = key_error(opened(&disk, with_key(1)).unwrap_err());
    assert!(matches!(&error, KeyError::NotEncrypted { file } if file != "lock"), "E24.3: {error}");
    assert_eq!(disk.image().hash(), before, "E24.3: nothing was changed");
    // Its backup may be encrypted nevertheless.
    let (store, to) = (opened(&disk, options()).unwrap(), SimDisk::new());
    store.backup(&key(1).open_or_create(&media(&to)).unwrap(), BackupOptions::default()).unwrap();
    assert_encrypted(&to);
    drop(opened(&to, with_key(1)).unwrap());
}

/// E24.1a.
#[test]
fn plain_copies_of_encrypted_store_are_refused() {
    let disk = SimDisk::new();
    let wrapped = key(1).open_or_create(&media(&disk)).unwrap();
    let archive = Options { archive: Some(media(&SimDisk::new())), ..options() };
    let error = Store::open(Arc::clone(&wrapped), archive, registry()).unwrap_err();
    assert!(matches!(error, OpenError::Failed(Error::Misuse(_))), "E24.1a: {error}");
    let store = Store::open(wrapped, options(), registry()).unwrap();
    let to = SimDisk::new();
    let error = store.backup(&media(&to), BackupOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Misuse(_)) && to.list("").unwrap().is_empty(), "E24.1a: {error}");
    assert!(matches!(store.rotate_key(&key(2)), Err(Error::Misuse(_))));
}

/// W4, R5, E24.2: from the first byte of a store on.
#[test]
fn encrypted_store_survives_every_crash() {
    let disk = SimDisk::new();
    let store = opened(&disk, with_key(1)).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    disk.mark(0);
    for count in 1..=4 {
        store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
        disk.mark(count);
        if count == 2 {
            store.checkpoint().unwrap();
        }
    }
    drop(store);
    let judged = every_crash(&disk, 2, |crashed, marks, case| {
        let store = open_with(crashed, with_key(1)).unwrap_or_else(|error| panic!("E24.2: {case}: {error}"));
        if let Some(&acknowledged) = marks.last() {
            let found = read_number(&store, at(page, 0)).unwrap() as u64;
            assert!(found == acknowledged || found == acknowledged + 1, "W4: {case}: {found}");
        }
        store.check().unwrap();
    });
    assert!(judged > 80, "{judged}");
}

/// E24.4.
#[test]
fn key_is_changed_while_store_is_open() {
    let world = World::new();
    let before = world.backup();
    world.store.rotate_key(&key(2)).unwrap();
    world.add();
    let after = world.backup();
    world.store.close().unwrap();
    let options = |byte| Options { archive: Some(media(&world.archive)), ..with_key(byte) };
    assert!(matches!(key_error(opened(&world.disk, options(1)).unwrap_err()), KeyError::Wrong { .. }), "E24.4");
    assert_eq!(count_in(&opened(&world.disk, options(2)).unwrap(), world.page), 2);
    assert_eq!(count_in(&opened(&before, with_key(1)).unwrap(), world.page), 1);
    assert_eq!(count_in(&opened(&after, with_key(2)).unwrap(), world.page), 2);
    // A store whose archive still has the old key opens with both.
    key(2).rotate(&world.archive, &key(1)).unwrap();
    assert!(opened(&world.disk, options(2)).is_err());
    let both = Encryption::with_keys(Key::new([2; 32]), vec![Key::new([1; 32])]);
    let store = opened(&world.disk, Options { encryption: Some(both), ..options(2) }).unwrap();
    store.rotate_key(&key(3)).unwrap();
    drop(store);
    assert_eq!(count_in(&opened(&world.disk, options(3)).unwrap(), world.page), 2);
}

/// E11.6: as in a plain store.
#[test]
fn damage_of_encrypted_files_is_found() {
    let world = World::new();
    world.store.checkpoint().unwrap();
    // The newest batch of pages, which is kept twice, has another page.
    let other = world.store.transact(page_with_zeros).unwrap();
    world.store.transact(|txn| txn.update(at(other, 0), &Add { amount: 1 })).unwrap();
    world.store.close().unwrap();
    for (name, offset) in [(PAGE_FILE, world.page.get() * 4096 + 100), (CONTROL_FILE, 30)] {
        let disk = SimDisk::from_image(world.disk.image());
        let file = disk.open(name, OpenMode::ReadWrite).unwrap();
        let slots = if name == CONTROL_FILE { vec![offset, offset + 65_536] } else { vec![offset] };
        for offset in slots {
            let mut byte = [0];
            disk.read_at(file, offset, &mut byte).unwrap();
            write_all_at(&disk, file, offset, &[byte[0] ^ 1], Durability::Durable).unwrap();
        }
        let error =
            opened(&disk, with_key(1)).map_err(Error::from).and_then(|store| read_number(&store, at(world.page, 0)));
        let error = error.expect_err("E11.6").to_string();
        assert!(error.contains(name) && error.contains("byte"), "{error}");
    }
}

/// Opens a reader of a disk. Its private files are on disks that are added to `scratch`.
fn reader_of(disk: &SimDisk, scratch: &Arc<Mutex<Vec<SimDisk>>>, options: Options) -> Result<Reader, OpenError> {
    let (disk, scratch) = (disk.clone(), Arc::clone(scratch));
    let begin = move || {
        let to = SimDisk::new();
        scratch.lock().unwrap().push(to.clone());
        Ok(media(&to))
    };
    let files =
        ReaderFiles { store: Arc::new(move || Ok(media(&disk))), scratch: Arc::new(begin), copies_pages: false };
    Reader::open(files, options, registry())
}

/// E24.1, E24.3, E26.1: a reader of an encrypted store beside its writer, also beyond a change of keys.
#[test]
fn encrypted_store_is_read_beside_its_writer() {
    let world = World::new();
    let scratch = Arc::<Mutex<Vec<SimDisk>>>::default();
    let open = |options: Options| reader_of(&world.disk, &scratch, options);
    let count = |reader: &Reader| reader.transact(|txn| Ok(count_in(txn.store(), world.page))).unwrap();
    let old = open(with_key(1)).unwrap();
    assert_eq!(count(&old), 1, "E26.1");
    let lsn = world.add();
    assert!(old.refresh().unwrap() >= lsn, "E26.1a");
    assert_eq!(count(&old), 2, "E26.1");
    assert!(matches!(key_error(open(options()).unwrap_err()), KeyError::Missing { .. }), "E24.3");
    assert!(matches!(key_error(open(with_key(2)).unwrap_err()), KeyError::Wrong { .. }), "E24.3");
    let both = Encryption::with_keys(Key::new([2; 32]), vec![Key::new([1; 32])]);
    let kept = open(Options { encryption: Some(both), ..options() }).unwrap();
    world.store.rotate_key(&key(2)).unwrap();
    world.add();
    assert!(matches!(key_error(old.refresh().unwrap_err()), KeyError::Wrong { .. }), "E24.3");
    assert_eq!(count(&old), 2, "E26.1: it shows the state that it had");
    kept.refresh().unwrap();
    assert_eq!(count(&kept), 3, "E26.1: it has both keys");
    assert_eq!(count(&open(with_key(2)).unwrap()), 3, "E24.3");
    assert!(matches!(key_error(open(with_key(1)).unwrap_err()), KeyError::Wrong { .. }), "E24.3");
    let private = scratch.lock().unwrap();
    let written: Vec<_> = private.iter().filter(|disk| !disk.list("").unwrap().is_empty()).collect();
    assert!(written.len() >= 6, "E24.1: {} private directories", written.len());
    written.into_iter().for_each(assert_encrypted);
}
