//! Archives that are extended by the log of a store that has lost other files.

use cedrat_heap::HeapOptions;
use cedrat_media::{Call, Durability, Fault, Loss, Media, OpenMode, SimDisk};
use cedrat_pages::{PAGE_FILE, PageId};
use cedrat_txn::{
    BackupOptions, Commit, Error, OpenError, Options, RestoreTarget, Store, Vote, archive_remaining_log, check_backup,
    restore,
};
use cedrat_wal::{LogError, LogOptions, Lsn};
use std::io::ErrorKind;

use crate::common::*;

/// A store with an archive and a backup, in which a word of each heap and a number of a page are changed together.
struct World {
    disk: SimDisk,
    archive: SimDisk,
    backup: SimDisk,
    store: Store,
    page: PageId,
}

fn opened(disk: &SimDisk, archive: Option<&SimDisk>) -> Result<Store, OpenError> {
    Store::open(media(disk), Options { archive: archive.map(media), partitions: 3, ..options() }, registry())
}

fn create_heap(store: &Store, name: &str) {
    let words = HeapOptions { chunk_len: 4096, size: 4096, ..HeapOptions::raw(1 << 16) };
    store.memory().create_heap(name, &words).unwrap();
}

fn add(store: &Store, page: PageId, mode: Commit) {
    let mut txn = store.begin();
    for heap in store.memory().heaps() {
        txn.heap(|tx| tx.update(&heap, 0, |value| value + 1)).unwrap();
    }
    txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
    txn.commit(mode).unwrap();
}

fn word(store: &Store, heap: &str) -> u64 {
    let heap = store.memory().heap(heap).unwrap();
    store.memory().run(Commit::Async, |tx| tx.read(&heap, 0)).unwrap().value
}

fn after_crash(disk: &SimDisk) -> SimDisk {
    disk.journal().crash(disk.journal_len(), Loss::Everything)
}

impl World {
    /// A store with one commit in the backup, and one that the archive lacks.
    fn new() -> World {
        let (disk, archive, backup) = (SimDisk::new(), SimDisk::new(), SimDisk::new());
        let store = opened(&disk, Some(&archive)).unwrap();
        let page = store.transact(page_with_zeros).unwrap();
        create_heap(&store, "words");
        add(&store, page, Commit::Sync);
        store.backup(&media(&backup), BackupOptions::default()).unwrap();
        store.extend_archive().unwrap();
        add(&store, page, Commit::Sync);
        World { disk, archive, backup, store, page }
    }

    /// Ends the store as a crash does, which has lost files.
    fn lose(self, files: &[&str]) -> Lost {
        let World { disk, archive, backup, store, page } = self;
        let image = after_crash(&disk);
        drop(store);
        for file in files {
            image.remove(file).unwrap();
        }
        Lost { disk: image, archive: after_crash(&archive), backup: after_crash(&backup), page }
    }
}

/// The disks of a store that has lost files.
struct Lost {
    disk: SimDisk,
    archive: SimDisk,
    backup: SimDisk,
    page: PageId,
}

impl Lost {
    fn restored(&self, target: RestoreTarget) -> Store {
        let to = SimDisk::new();
        restore(&media(&self.backup), Some(&media(&self.archive)), &media(&to), target).expect("E18.23");
        opened(&after_crash(&to), None).expect("E18.23")
    }

    fn assert_restored(&self, sum: i64) {
        let store = self.restored(RestoreTarget::Newest);
        assert_eq!(read_number(&store, at(self.page, 0)).unwrap(), sum, "E18.23");
        assert_eq!(word(&store, "words"), sum as u64, "E18.23");
        store.check().unwrap();
    }
}

/// E18.23: without its page file the store cannot be opened.
#[test]
fn commits_after_last_extension_are_restored() {
    let world = World::new();
    add(&world.store, world.page, Commit::Sync);
    let lost = world.lose(&[PAGE_FILE]);
    let before = lost.disk.image().hash();
    assert!(opened(&lost.disk, Some(&lost.archive)).is_err());
    let remaining = archive_remaining_log(&media(&lost.disk), &media(&lost.archive)).expect("E18.23");
    assert_eq!(remaining.lost_heaps, None);
    assert_eq!(lost.disk.image().hash(), before, "E18.23b: the store is only read");
    lost.assert_restored(3);
    // It may be repeated.
    assert_eq!(archive_remaining_log(&media(&lost.disk), &media(&lost.archive)).unwrap(), remaining);
    lost.assert_restored(3);
}

/// E18.23: heaps of the last second, and branches in doubt.
#[test]
fn remaining_log_restores_heaps_and_branches() {
    let world = World::new();
    create_heap(&world.store, "young");
    add(&world.store, world.page, Commit::Sync);
    let mut branch = world.store.begin();
    page_with_zeros(&mut branch).unwrap();
    let Vote::Prepared(prepared) = branch.prepare(b"branch").unwrap() else { panic!("it has changed something") };
    drop(prepared);
    let lost = world.lose(&[PAGE_FILE]);
    archive_remaining_log(&media(&lost.disk), &media(&lost.archive)).expect("E18.23");
    lost.assert_restored(3);
    let store = lost.restored(RestoreTarget::Newest);
    assert_eq!(word(&store, "young"), 1, "E18.23");
    assert_eq!(store.in_doubt().unwrap().len(), 1, "E18.23");
}

/// E18.23a.
#[test]
fn lost_list_of_heaps_is_reported() {
    for files in [&["heaps.root"][..], &["heaps.root", "heaps/words.0", "heaps/words.1"]] {
        let lost = World::new().lose(files);
        let remaining = archive_remaining_log(&media(&lost.disk), &media(&lost.archive)).expect("E18.23");
        let report = remaining.lost_heaps.expect("E18.23a");
        assert!(report.contains("heaps.root"), "{report}");
        lost.assert_restored(2);
    }
}

/// E18.10e: lost, or read as zeros.
#[test]
fn backup_without_list_of_heaps_is_refused() {
    for is_removed in [true, false] {
        let lost = World::new().lose(&[]);
        if is_removed {
            lost.backup.remove("heaps.root").unwrap();
        } else {
            let file = lost.backup.open("heaps.root", OpenMode::ReadWrite).unwrap();
            let len = lost.backup.len(file).unwrap();
            lost.backup.write_at(file, 0, &vec![0; len as usize], Durability::Durable).unwrap();
        }
        let to = media(&SimDisk::new());
        let refused = restore(&media(&lost.backup), Some(&media(&lost.archive)), &to, RestoreTarget::Newest);
        let message = refused.expect_err("E18.10e").to_string();
        assert!(message.contains("heaps.root"), "{message}");
        assert_eq!(check_backup(&media(&lost.backup), None).unwrap().problems.len(), 1, "E18.14");
    }
}

/// E18.23: the archive was lost, too.
#[test]
fn remaining_log_begins_archive() {
    let world = World::new();
    let mut lost = world.lose(&[PAGE_FILE]);
    lost.archive = SimDisk::new();
    archive_remaining_log(&media(&lost.disk), &media(&lost.archive)).expect("E18.23");
    lost.assert_restored(2);
}

/// E18.23: a store that was not lost after all goes on with the archive.
#[test]
fn archive_continues_after_remaining_log() {
    let world = World::new();
    for round in 0..4 {
        add(&world.store, world.page, if round % 2 == 0 { Commit::Sync } else { Commit::Async });
    }
    let lost = world.lose(&[]);
    let mut disk = lost.disk.clone();
    let mut sum = 0;
    for _ in 0..5 {
        archive_remaining_log(&media(&disk), &media(&lost.archive)).expect("E18.23");
        let store = opened(&disk, Some(&lost.archive)).expect("E18.23c");
        let found = read_number(&store, at(lost.page, 0)).unwrap();
        assert!(found >= sum + 2, "{found} after {sum}");
        sum = found;
        add(&store, lost.page, Commit::Sync);
        let archived = store.extend_archive().unwrap();
        add(&store, lost.page, Commit::Sync);
        let image = after_crash(&disk);
        drop(store);
        disk = image;
        let restored = lost.restored(RestoreTarget::Lsn(archived));
        assert_eq!(read_number(&restored, at(lost.page, 0)).unwrap(), sum + 1, "E18.23c");
    }
}

/// E18.9a, E18.23: the next attempt archives the rest.
#[test]
fn failed_remaining_log_is_repeated() {
    for call in [Call::Write, Call::Sync, Call::Open] {
        for nth in 1.. {
            let lost = World::new().lose(&[PAGE_FILE]);
            lost.archive.inject(Fault::error(call, ErrorKind::StorageFull).nth(nth));
            let failed = archive_remaining_log(&media(&lost.disk), &media(&lost.archive)).is_err();
            lost.archive.clear_faults();
            if !failed {
                break;
            }
            let crashed = Lost { archive: after_crash(&lost.archive), ..lost };
            archive_remaining_log(&media(&crashed.disk), &media(&crashed.archive)).expect("E18.23");
            crashed.assert_restored(2);
        }
    }
}

#[test]
fn bad_remaining_logs_are_refused() {
    let world = World::new();
    let refused = archive_remaining_log(&media(&world.disk), &media(&world.archive)).unwrap_err();
    assert!(matches!(refused, Error::Open(_)), "the store is open: {refused}");
    // So that a store restored from the backup alone lacks a record of the archive.
    world.store.extend_archive().unwrap();
    let lost = world.lose(&[PAGE_FILE]);
    let before = lost.archive.image().hash();
    let of = |disk: &SimDisk| archive_remaining_log(&media(disk), &media(&lost.archive)).unwrap_err();
    let other = SimDisk::new();
    let log = LogOptions { store: Some([7; 16]), ..options().log };
    drop(Store::open(media(&other), Options { partitions: 3, log, ..options() }, registry()).unwrap());
    let refused = of(&after_crash(&other));
    assert!(matches!(refused, Error::Log(LogError::Foreign { .. })), "another store: {refused}");
    let refused = of(&SimDisk::new());
    assert!(matches!(refused, Error::Log(LogError::Absent { .. })), "no store: {refused}");
    let refused = of(&lost.archive);
    assert!(matches!(refused, Error::Log(LogError::Foreign { .. }) | Error::Open(_)), "an archive: {refused}");
    let older = restored_elsewhere(&lost);
    let refused = of(&older);
    let is_named = matches!(refused, Error::Log(LogError::Foreign { .. } | LogError::ArchiveGap { .. }));
    assert!(is_named, "another history: {refused}");
    assert_eq!(lost.archive.image().hash(), before, "nothing was changed");
}

/// Returns the disk of a store that was restored to the backup, and has gone on.
fn restored_elsewhere(lost: &Lost) -> SimDisk {
    let to = SimDisk::new();
    restore(&media(&lost.backup), None, &media(&to), RestoreTarget::Newest).unwrap();
    let store = opened(&to, None).unwrap();
    (0..20).for_each(|_| add(&store, lost.page, Commit::Sync));
    assert!(store.log().durable_lsn() > Lsn::ZERO);
    drop(store);
    after_crash(&to)
}

/// E18.10: a partition of the log has had no record since the checkpoint with which the archive begins.
#[test]
fn quiet_partition_is_restored() {
    let disk = SimDisk::new();
    let store = opened(&disk, None).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    create_heap(&store, "words");
    (0..12).for_each(|_| add(&store, page, Commit::Sync));
    store.checkpoint().unwrap();
    store.close().unwrap();
    let (archive, backup) = (SimDisk::new(), SimDisk::new());
    let store = opened(&disk, Some(&archive)).unwrap();
    store.checkpoint().unwrap();
    store.backup(&media(&backup), BackupOptions::default()).unwrap();
    add(&store, page, Commit::Sync);
    store.extend_archive().unwrap();
    let lost = Lost { disk, archive, backup, page };
    lost.assert_restored(13);
}
