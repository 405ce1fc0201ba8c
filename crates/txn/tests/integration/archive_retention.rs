//! Archives of stores that forget what is before a backup or a moment.

use cedrat_heap::HeapOptions;
use cedrat_media::{Loss, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_txn::{BackupOptions, Error, ForgetBefore, Options, RestoreTarget, Result, Store, forget_archive, restore};
use cedrat_wal::{FoundArchive, LogError, LogOptions, Lsn};
use std::time::UNIX_EPOCH;

use crate::common::*;

fn opened(disk: &SimDisk, to: &SimDisk) -> Store {
    Store::open(media(disk), Options { archive: Some(media(to)), ..options() }, registry()).unwrap()
}

/// A store with an archive, and a backup after each of some steps.
struct World {
    store: Store,
    to: SimDisk,
    page: PageId,
    /// With the number that the store has when it is made, and the end of the archive after it.
    backups: Vec<(SimDisk, i64, Lsn)>,
}

impl World {
    fn on(disk: &SimDisk) -> World {
        let to = SimDisk::new();
        let store = opened(disk, &to);
        let page = store.transact(page_with_zeros).unwrap();
        let mut world = World { store, to, page, backups: Vec::new() };
        for _ in 0..4 {
            (0..60).for_each(|_| world.add());
            let backup = SimDisk::new();
            world.store.backup(&media(&backup), BackupOptions::default()).unwrap();
            let sum = read_number(&world.store, at(world.page, 0)).unwrap();
            // Each step has a heap of its own.
            let name = format!("heap{sum}");
            let options = HeapOptions { chunk_len: 4096, size: 4096, ..HeapOptions::raw(1 << 16) };
            world.store.memory().create_heap(&name, &options).unwrap();
            world.add();
            let lsn = world.store.extend_archive().unwrap();
            world.backups.push((backup, sum, lsn));
        }
        world
    }

    fn add(&self) {
        self.store.transact(|txn| txn.update(at(self.page, 0), &Add { amount: 1 })).unwrap();
    }

    fn restored(&self, backup: usize, target: RestoreTarget) -> Result<Store> {
        let to = SimDisk::new();
        let archive = self.to.journal().crash(self.to.journal_len(), Loss::Everything);
        restore(&media(&self.backups[backup].0), Some(&media(&archive)), &media(&to), target)?;
        Ok(open(&Arc::new(to)).expect("E18.10"))
    }

    fn assert_kept_from(&self, backup: usize) {
        for index in 0..self.backups.len() {
            let (_, sum, lsn) = self.backups[index];
            match self.restored(index, RestoreTarget::Lsn(lsn)) {
                Ok(store) => {
                    assert!(index >= backup, "E18.13: {index}");
                    assert_eq!(read_number(&store, at(self.page, 0)).unwrap(), sum + 1, "E18.13");
                    store.memory().heap(&format!("heap{sum}")).expect("E18.13b: the moment has a heap more");
                }
                Err(Error::Log(LogError::ArchiveBeginsLater { .. })) => assert!(index < backup, "E18.13: {index}"),
                Err(other) => panic!("E18.13: {other}"),
            }
        }
    }
}

/// E18.13: from a backup, an LSN and a time on.
#[test]
fn store_forgets_archived_beginning() {
    let world = World::on(&SimDisk::new());
    let backup = media(&world.backups[1].0);
    let first = world.store.forget_archive(ForgetBefore::Backup(&backup)).unwrap();
    assert_eq!(first, FoundArchive::look(&media(&world.to)).unwrap().lsns().0);
    world.assert_kept_from(1);
    world.store.forget_archive(ForgetBefore::Lsn(Lsn::new(1))).expect("there is nothing to forget");
    world.assert_kept_from(1);
    world.store.forget_archive(ForgetBefore::Lsn(world.backups[1].2)).unwrap();
    world.assert_kept_from(2);
    let early = world.store.forget_archive(ForgetBefore::Time(UNIX_EPOCH)).unwrap_err();
    assert!(matches!(early, Error::NoSuchMoment { .. }), "{early}");
    let late = world.store.forget_archive(ForgetBefore::Lsn(Lsn::new(1 << 40))).unwrap_err();
    assert!(matches!(late, Error::Log(LogError::NotArchived { .. })), "{late}");
    world.assert_kept_from(2);
    let old = world.restored(2, RestoreTarget::Lsn(world.backups[0].2)).map(drop).unwrap_err();
    assert!(matches!(old, Error::Log(LogError::Unreachable { .. })), "E18.13a: {old}");
    let old = world.restored(2, RestoreTarget::Time(UNIX_EPOCH)).map(drop).unwrap_err();
    assert!(matches!(old, Error::NoSuchMoment { .. }), "E18.13a: {old}");
    let long_after = UNIX_EPOCH + std::time::Duration::from_secs(1 << 40);
    world.store.forget_archive(ForgetBefore::Time(long_after)).unwrap();
    world.assert_kept_from(4);
    world.add();
    world.store.extend_archive().expect("E18.9");
    let backup = SimDisk::new();
    world.store.backup(&media(&backup), BackupOptions::default()).unwrap();
    world.add();
    world.store.extend_archive().unwrap();
    let to = SimDisk::new();
    restore(&media(&backup), Some(&media(&world.to)), &media(&to), RestoreTarget::Newest).expect("E18.13");
}

/// An archive that a store has open is forgotten by the store, and other archives without one.
#[test]
fn archive_forgets_without_store() {
    let disk = SimDisk::new();
    let world = World::on(&disk);
    let before = ForgetBefore::Lsn(world.backups[1].2);
    let refused = forget_archive(&media(&world.to), before).unwrap_err();
    assert!(refused.to_string().contains("open elsewhere"), "{refused}");
    let World { store, to, page, backups } = world;
    store.close().unwrap();
    let of_store = forget_archive(&media(&disk), ForgetBefore::Lsn(Lsn::new(2))).unwrap_err();
    assert!(matches!(of_store, Error::Log(_)), "a store is no archive: {of_store}");
    forget_archive(&media(&to), before).unwrap();
    let other = SimDisk::new();
    let log = LogOptions { store: Some([7; 16]), ..options().log };
    drop(Store::open(media(&other), Options { log, ..options() }, registry()).unwrap());
    let foreign = forget_archive(&media(&to), ForgetBefore::Backup(&media(&other))).unwrap_err();
    assert!(matches!(foreign, Error::Log(LogError::Foreign { .. })), "{foreign}");
    let store = opened(&disk, &to);
    let world = World { store, to, page, backups };
    world.assert_kept_from(2);
    world.add();
    world.store.extend_archive().expect("E18.9");
}
