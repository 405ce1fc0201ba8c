//! Archives of stores, and restores of their backups to any point in time.

use cedrat_heap::{Heap, HeapOptions};
use cedrat_media::{Call, Durability, Fault, Kill, Loss, Media, OpenMode, SimDisk};
use cedrat_pages::{LayoutKind, PageId};
use cedrat_sync::Arc;
use cedrat_txn::{
    BackupOptions, Commit, Error, FormatFresh, OpenError, Options, RecordId, RestoreReport, RestoreTarget, Result,
    Store, View, open_as_of, restore,
};
use cedrat_wal::{FoundArchive, LogError, Lsn};
use std::io;

use crate::common::*;
use crate::parts::Part;

fn archived(to: Arc<dyn Media>) -> Options {
    Options { archive: Some(to), txn_log_limit_bytes: Some(u64::MAX), ..options() }
}

/// A store with an archive, in which a word and a number of a page are changed together.
struct World {
    store: Store,
    archive: SimDisk,
    page: PageId,
    heap: Heap,
    sum: i64,
    /// For each commit, its LSN and the sum.
    commits: Vec<(Lsn, i64)>,
}

fn words(size: u64) -> HeapOptions {
    HeapOptions { chunk_len: 4096, size, ..HeapOptions::raw(1 << 16) }
}

impl World {
    fn new() -> World {
        let archive = SimDisk::new();
        let store = Store::open(Arc::new(SimDisk::new()), archived(media(&archive)), registry()).unwrap();
        let page = store.transact(page_with_zeros).unwrap();
        let heap = store.memory().create_heap("words", &words(1 << 14)).unwrap();
        World { store, archive, page, heap, sum: 0, commits: Vec::new() }
    }

    fn add(&mut self) {
        let both = self.store.transact(|txn| {
            txn.heap(|tx| tx.update(&self.heap, 0, |value| value + 1))?;
            txn.update(at(self.page, 0), &Add { amount: 1 })
        });
        both.unwrap();
        self.sum += 1;
        self.commits.push((self.store.log().durable_lsn(), self.sum));
    }

    fn backup(&self) -> SimDisk {
        let to = SimDisk::new();
        self.store.backup(&media(&to), BackupOptions::default()).unwrap();
        to
    }

    fn restored(&self, backup: &SimDisk, target: RestoreTarget) -> Result<(SimDisk, RestoreReport)> {
        let to = SimDisk::new();
        let report = restore(&media(backup), Some(&media(&self.archive)), &media(&to), target)?;
        Ok((after_power_loss(&to), report))
    }

    /// Returns the sum as it was right after the record with an LSN.
    fn sum_at(&self, lsn: Lsn) -> i64 {
        let after = self.commits.partition_point(|&(at, _)| at <= lsn);
        after.checked_sub(1).map_or(0, |at| self.commits[at].1)
    }
}

/// Returns a disk as a power failure leaves it now.
fn after_power_loss(disk: &SimDisk) -> SimDisk {
    disk.journal().crash(disk.journal_len(), Loss::Everything)
}

/// Returns the number that word and page of a store have.
fn sum_in(disk: &SimDisk, page: PageId) -> i64 {
    let store = open(&Arc::new(disk.clone())).unwrap();
    let on_page = read_number(&store, at(page, 0)).unwrap();
    assert_eq!(word(&store, "words", 0), Some(on_page as u64), "E18.10: of one moment");
    store.check().unwrap();
    on_page
}

/// Returns a word of a heap; `None` if there is no such heap.
fn word(store: &Store, heap: &str, offset: u64) -> Option<u64> {
    let heap = store.memory().heap(heap).ok()?;
    Some(store.memory().run(Commit::Async, |tx| tx.read(&heap, offset)).unwrap().value)
}

fn refused<T>(result: Result<T>) -> LogError {
    match result.err().expect("it is refused") {
        Error::Log(error) => error,
        other => panic!("{other}"),
    }
}

/// E18.10: with losers, and a log that was recycled many times.
#[test]
fn backup_is_restored_to_each_moment() {
    let mut world = World::new();
    (0..10).for_each(|_| world.add());
    let backup = world.backup();
    let first = cedrat_wal::Log::look(&media(&backup)).unwrap().end_lsn().previous();
    for round in 0..60 {
        let mut loser = world.store.begin();
        let other = page_with_zeros(&mut loser).unwrap();
        loser.update(at(other, 0), &Add { amount: 1 }).unwrap();
        (0..20).for_each(|_| world.add());
        loser.rollback().unwrap();
        if round % 7 == 0 {
            world.store.checkpoint().unwrap();
        }
    }
    let last = world.store.extend_archive().unwrap();
    assert!(world.store.log().control().checkpoint.scan_lsn > first, "the log was recycled");
    let step = if cfg!(miri) { 1000 } else { 11 };
    for target in (first.get()..=last.get()).step_by(step).map(Lsn::new) {
        let (restored, report) = world.restored(&backup, RestoreTarget::Lsn(target)).unwrap();
        assert!(report.up_to == target, "E18.10");
        assert_eq!(sum_in(&restored, world.page), world.sum_at(target), "E18.10: {target}");
    }
    let (restored, _) = world.restored(&backup, RestoreTarget::Newest).unwrap();
    assert_eq!(sum_in(&restored, world.page), world.sum);
    for lsn in [first.previous(), last.next()] {
        let error = refused(world.restored(&backup, RestoreTarget::Lsn(lsn)));
        assert!(matches!(error, LogError::Unreachable { .. }), "{error}");
    }
}

/// E18.10a: heaps that were created, grown and dropped after the backup.
#[test]
fn heaps_are_restored_as_they_were() {
    let mut world = World::new();
    world.add();
    world.store.memory().create_heap("old", &words(4096)).unwrap();
    let backup = world.backup();
    let memory = world.store.memory();
    let heap = memory.create_heap("new", &words(4096)).unwrap();
    heap.atomically(|tx| tx.write(&heap, 8, 5)).unwrap();
    world.heap.grow(1 << 15).unwrap();
    world.heap.atomically(|tx| tx.write(&world.heap, (1 << 15) - 8, 6)).unwrap();
    let before = world.store.extend_archive().unwrap();
    memory.drop_heap("new").unwrap();
    memory.drop_heap("old").unwrap();
    world.add();
    world.store.extend_archive().unwrap();
    world.add();
    let after = world.store.extend_archive().unwrap();
    let opened = |lsn| open(&Arc::new(world.restored(&backup, RestoreTarget::Lsn(lsn)).unwrap().0)).unwrap();
    let store = opened(before);
    assert_eq!((word(&store, "new", 8), word(&store, "old", 0)), (Some(5), Some(0)), "E18.10a");
    assert_eq!(word(&store, "words", (1 << 15) - 8), Some(6), "E18.10a");
    let store = opened(after);
    assert_eq!((word(&store, "new", 8), word(&store, "old", 0)), (None, None), "E18.10a");
    assert_eq!(word(&store, "words", 0), Some(3));
}

/// E18.12.
#[test]
fn plain_stores_are_refused() {
    let world = World::new();
    let refused = world.heap.stored_plainly(0, 8).unwrap_err();
    assert!(matches!(refused, cedrat_heap::Error::Misuse(_)), "E18.12: {refused}");
}

#[test]
fn backup_is_restored_to_a_time() {
    let mut world = World::new();
    world.add();
    let backup = world.backup();
    world.add();
    world.store.extend_archive().unwrap();
    let archive = media(&world.archive);
    let moments = || FoundArchive::look(&archive).unwrap().moments().to_vec();
    let (time, sum) = (moments().last().unwrap().time(), world.sum);
    while moments().last().unwrap().time() == time {
        world.add();
        world.store.extend_archive().unwrap();
    }
    let (restored, _) = world.restored(&backup, RestoreTarget::Time(time.unwrap())).unwrap();
    assert!(sum_in(&restored, world.page) >= sum);
    let long_ago = RestoreTarget::Time(std::time::UNIX_EPOCH);
    assert!(matches!(world.restored(&backup, long_ago).err(), Some(Error::NoSuchMoment { .. })));
}

/// Without an archive a backup is restored to its end.
#[test]
fn backup_alone_is_restored() {
    let mut world = World::new();
    world.add();
    let backup = world.backup();
    world.add();
    let to = SimDisk::new();
    let report = restore(&media(&backup), None, &media(&to), RestoreTarget::Newest).unwrap();
    assert_eq!(sum_in(&after_power_loss(&to), world.page), 1);
    let later = RestoreTarget::Lsn(report.up_to.next());
    let error = refused(restore(&media(&backup), None, &media(&SimDisk::new()), later));
    assert!(matches!(error, LogError::Unreachable { .. }), "{error}");
    let error = refused(restore(&media(&backup), None, &media(&to), RestoreTarget::Newest));
    assert!(matches!(error, LogError::AlreadyThere { .. }), "{error}");
    let _open = open(&Arc::new(backup.clone())).unwrap();
    let error = restore(&media(&backup), None, &media(&SimDisk::new()), RestoreTarget::Newest).err().unwrap();
    assert!(matches!(&error, Error::Open(open) if matches!(**open, OpenError::InUse { .. })), "{error}");
}

/// E18.9b, E18.10b: a store that was restored to an earlier moment has another future.
#[test]
fn restored_store_needs_another_archive() {
    let mut world = World::new();
    world.add();
    let backup = world.backup();
    world.add();
    let before = world.store.extend_archive().unwrap();
    world.add();
    world.store.extend_archive().unwrap();
    let (earlier, _) = world.restored(&backup, RestoreTarget::Lsn(before)).unwrap();
    let World { store, heap, archive: to, page, .. } = world;
    drop((store, heap));
    let reopened = |disk: &SimDisk| Store::open(media(disk), archived(media(&to)), registry());
    let refusal = |disk: &SimDisk| match reopened(disk).map(drop).unwrap_err() {
        OpenError::Failed(Error::Log(error)) => error,
        other => panic!("{other}"),
    };
    assert!(matches!(refusal(&earlier), LogError::Foreign { .. }), "E18.9b");
    // It goes on without: its next records have the LSNs of others in the archive.
    let store = open(&Arc::new(earlier.clone())).unwrap();
    (0..3).for_each(|_| store.transact(|txn| txn.update(at(page, 0), &Add { amount: 5 })).unwrap());
    let other_backup = SimDisk::new();
    store.backup(&media(&other_backup), BackupOptions::default()).unwrap();
    drop(store);
    let error = refusal(&earlier);
    assert!(matches!(error, LogError::Foreign { .. } | LogError::ArchiveGap { .. }), "E18.9b: {error}");
    let (archive, other) = (media(&to), media(&SimDisk::new()));
    let error = restore(&media(&other_backup), Some(&archive), &other, RestoreTarget::Newest).unwrap_err();
    assert!(matches!(error, Error::Log(LogError::Foreign { .. } | LogError::Unreachable { .. })), "E18.10b: {error}");
    // A store that was restored to the end goes on.
    let newest = SimDisk::new();
    restore(&media(&backup), Some(&archive), &media(&newest), RestoreTarget::Newest).unwrap();
    let store = reopened(&newest).unwrap();
    store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
    store.extend_archive().unwrap();
}

/// E18.11: the archive's disk is full until the log is full, too.
#[test]
fn full_archive_refuses_transactions() {
    let mut world = World::new();
    world.add();
    let backup = world.backup();
    world.archive.set_capacity(Some(world.archive.space()));
    let mut loser = world.store.begin();
    let other = page_with_zeros(&mut loser).unwrap();
    loser.update(at(other, 0), &Add { amount: 1 }).unwrap();
    let refused = loop {
        let both = world.store.transact(|txn| {
            txn.heap(|tx| tx.update(&world.heap, 0, |value| value + 1))?;
            txn.update(at(world.page, 0), &Add { amount: 1 })
        });
        match both {
            Ok(()) => world.sum += 1,
            Err(error) => break error,
        }
    };
    let Error::LogFull { checkpoint: Some(why), .. } = &refused else { panic!("E18.11: {refused}") };
    assert!(why.contains("archive"), "E18.11: {why}");
    assert!(world.store.archive_status().unwrap().failure.is_some(), "E18.11");
    loser.update(at(other, 0), &Add { amount: 1 }).expect("E18.11: it was not rolled back");
    world.archive.set_capacity(None);
    loser.commit(Commit::Sync).unwrap();
    (0..100).for_each(|_| world.add());
    world.store.extend_archive().unwrap();
    assert_eq!(world.store.archive_status().unwrap().failure, None);
    let (restored, _) = world.restored(&backup, RestoreTarget::Newest).unwrap();
    assert_eq!(sum_in(&restored, world.page), world.sum, "E18.9");
}

/// E18.9: checkpoints go on, and the process ends, while the archive lacks log.
#[test]
fn lagging_archive_is_extended_later() {
    let (disk, archive, backup) = (Arc::new(SimDisk::new()), SimDisk::new(), SimDisk::new());
    let opened = |disk: Arc<SimDisk>| Store::open(disk, archived(media(&archive)), registry()).unwrap();
    let store = opened(Arc::clone(&disk));
    let page = store.transact(page_with_zeros).unwrap();
    store.backup(&media(&backup), BackupOptions::default()).unwrap();
    let add = |store: &Store| store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
    archive.set_capacity(Some(archive.space()));
    for _ in 0..4 {
        (0..100).for_each(|_| add(&store));
        store.checkpoint().unwrap();
    }
    archive.set_capacity(None);
    drop(store);
    let store = opened(Arc::new(after_power_loss(&disk)));
    add(&store);
    store.extend_archive().expect("E18.9");
    let to = SimDisk::new();
    restore(&media(&backup), Some(&media(&archive)), &media(&to), RestoreTarget::Newest).expect("E18.9");
    assert_eq!(read_number(&open(&Arc::new(to)).unwrap(), at(page, 0)).unwrap(), 401, "E18.9");
}

/// E18.9d: an attempt to extend the archive fails at each of its calls. The next attempt succeeds.
#[test]
fn failed_extension_is_repeated() {
    let failures = [Call::Open, Call::SetLen, Call::Write, Call::Sync, Call::SyncDirectory]
        .map(|call| Fault::error(call, io::ErrorKind::Other));
    for failure in failures.into_iter().chain([Fault::forgetful_sync()]) {
        for number in 1..12 {
            let mut world = World::new();
            let backup = world.backup();
            // More than one segment file.
            (0..20).for_each(|_| world.add());
            world.archive.inject(failure.clone().nth(number));
            (0..3).for_each(|_| drop(world.store.extend_archive()));
            world.archive.clear_faults();
            world.add();
            world.store.extend_archive().expect("E18.9d");
            world.archive = after_power_loss(&world.archive);
            let (restored, _) = world.restored(&backup, RestoreTarget::Newest).unwrap();
            assert_eq!(sum_in(&restored, world.page), world.sum, "E18.9d: {failure:?} {number}");
        }
    }
}

/// E18.9, E18.9a: a crash at each call of store and archive, which are on one disk. The archive loses nothing that it had, and lacks
/// nothing that the store has recycled.
#[test]
fn crashed_store_extends_its_archive() {
    let disk = Arc::new(SimDisk::new());
    let opened = |disk: &Arc<SimDisk>| {
        Store::open(Arc::clone(disk) as _, archived(Arc::new(Part::of(disk, "archive"))), registry())
    };
    let store = opened(&disk).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let backup = SimDisk::new();
    store.backup(&media(&backup), BackupOptions::default()).unwrap();
    let begin = disk.journal_len();
    for round in 0..30_u64 {
        store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
        disk.mark(round + 1);
        if round % 4 == 0 {
            store.checkpoint().unwrap();
        }
    }
    drop(store);
    let mut cursor = disk.journal().cursor();
    cursor.advance_to(begin);
    let mut cases = 0;
    while cursor.advance() {
        let acknowledged = cursor.marks().iter().map(|mark| mark.label).max().unwrap_or(0);
        let crashed = match cases % 4 {
            0 => SimDisk::from_image(cursor.image(Loss::Everything)),
            1 => SimDisk::from_image(cursor.image(Loss::Random(cases))),
            2 => cursor.kill(Kill::Process(cases)),
            _ => cursor.kill(Kill::FailedSync(cases)),
        };
        cases += 1;
        let mut disk = Arc::new(crashed);
        for _ in 0..2 {
            let store = opened(&disk).expect("E18.9a");
            store.transact(|txn| txn.update(at(page, 1), &Add { amount: 1 })).unwrap();
            store.checkpoint().unwrap();
            let sum = read_number(&store, at(page, 0)).unwrap();
            assert!(sum >= acknowledged as i64);
            let last = store.extend_archive().expect("E18.9");
            let to = SimDisk::new();
            let archive: Arc<dyn Media> = Arc::new(Part::of(&disk, "archive"));
            restore(&media(&backup), Some(&archive), &media(&to), RestoreTarget::Lsn(last)).expect("E18.9");
            let restored = open(&Arc::new(after_power_loss(&to))).unwrap();
            assert_eq!(read_number(&restored, at(page, 0)).unwrap(), sum, "E18.9");
            drop(store);
            disk = Arc::new(after_power_loss(&disk));
        }
    }
    println!("{cases} crashes");
}

fn reopened(disk: &SimDisk, archive: &SimDisk) -> std::result::Result<Store, OpenError> {
    Store::open(media(disk), archived(media(archive)), registry())
}

/// A world whose store is on this disk.
fn world_on(disk: &SimDisk) -> World {
    let archive = SimDisk::new();
    let store = reopened(disk, &archive).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let heap = store.memory().create_heap("words", &words(1 << 14)).unwrap();
    World { store, archive, page, heap, sum: 0, commits: Vec::new() }
}

/// E18.9b: the disk of a closed store is lost.
#[test]
fn restored_closed_store_continues_archive() {
    let disk = SimDisk::new();
    let mut world = world_on(&disk);
    world.add();
    let backup = world.backup();
    world.add();
    let World { store, archive, page, heap, sum, .. } = world;
    drop(heap);
    store.close().unwrap();
    let to = SimDisk::new();
    restore(&media(&backup), Some(&media(&archive)), &media(&to), RestoreTarget::Newest).unwrap();
    let store = reopened(&to, &archive).expect("E18.9b");
    assert_eq!(read_number(&store, at(page, 0)).unwrap(), sum);
    store.extend_archive().unwrap();
}

/// E18.10a: between two moments a heap is created, copied by a backup, and dropped.
#[test]
fn heap_of_backup_is_restored_before_drop() {
    let mut world = World::new();
    world.add();
    world.store.extend_archive().unwrap();
    let memory = world.store.memory();
    let heap = memory.create_heap("new", &words(4096)).unwrap();
    heap.atomically(|tx| tx.write(&heap, 8, 5)).unwrap();
    let to = SimDisk::new();
    let end = world.store.backup(&media(&to), BackupOptions::default()).unwrap().up_to;
    world.add();
    memory.drop_heap("new").unwrap();
    world.add();
    world.store.extend_archive().unwrap();
    let (restored, _) = world.restored(&to, RestoreTarget::Lsn(end)).unwrap();
    assert_eq!(word(&open(&Arc::new(restored)).unwrap(), "new", 8), Some(5), "E18.10a");
}

/// E18.10a: between two moments a heap is dropped, and another one of its name created.
#[test]
fn heap_is_restored_before_its_successor() {
    let mut world = World::new();
    let memory = world.store.memory();
    let heap = memory.create_heap("same", &words(4096)).unwrap();
    heap.atomically(|tx| tx.write(&heap, 8, 5)).unwrap();
    let backup = world.backup();
    world.add();
    let moment = world.store.extend_archive().unwrap();
    world.add();
    let target = world.store.log().durable_lsn();
    drop(heap);
    memory.drop_heap("same").unwrap();
    let heap = memory.create_heap("same", &words(4096)).unwrap();
    heap.atomically(|tx| tx.write(&heap, 8, 6)).unwrap();
    world.store.extend_archive().unwrap();
    let restored = |target| open(&Arc::new(world.restored(&backup, target).unwrap().0)).unwrap();
    assert_eq!(word(&restored(RestoreTarget::Newest), "same", 8), Some(6), "E18.10a");
    let refused = world.restored(&backup, RestoreTarget::Lsn(target)).map(drop).unwrap_err();
    assert!(matches!(refused, Error::Heap(cedrat_heap::Error::TwoHeaps { .. })), "E18.10a: {refused}");
    let before = world.restored(&backup, RestoreTarget::Lsn(moment)).unwrap().0;
    assert_eq!(word(&open(&Arc::new(before)).unwrap(), "same", 8), Some(5), "E18.10a");
}

/// An archive is no store and no backup, though it has a control file and a log.
#[test]
fn archive_is_refused_as_store() {
    let disk = SimDisk::new();
    let store = open(&Arc::new(disk.clone())).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let add = |store: &Store| store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
    (0..200).for_each(|_| add(&store));
    store.close().unwrap();
    let archive = SimDisk::new();
    let store = reopened(&disk, &archive).unwrap();
    (0..20).for_each(|_| add(&store));
    store.close().unwrap();
    let archive = after_power_loss(&archive);
    let refusal = refused(restore(&media(&archive), None, &media(&SimDisk::new()), RestoreTarget::Newest));
    assert!(matches!(refusal, LogError::Foreign { .. }), "{refusal}");
    let len = archive.journal_len();
    open(&Arc::new(archive.clone())).map(drop).expect_err("it has no pages");
    assert!(archive.journal().len() <= len + 2, "nothing was written but the lock");
}

/// A handle of the log outlives its store, whose archive is free for the next opening.
#[test]
fn dropped_store_releases_its_archive() {
    let disk = SimDisk::new();
    let World { store, archive, heap, page, .. } = world_on(&disk);
    let log = store.log().clone();
    let ticket = log.ticket(log.current_lsn());
    drop(heap);
    drop(store);
    let store = reopened(&disk, &archive).expect("it is closed");
    assert_eq!(read_number(&store, at(page, 0)).unwrap(), 0);
    drop((log, ticket));
}

/// E18.10: an extension of the archive is interrupted at each call; the heap is in no moment before it.
#[test]
fn interrupted_extension_is_restored_whole() {
    let disk = SimDisk::new();
    let mut world = world_on(&disk);
    world.add();
    let backup = world.backup();
    world.store.extend_archive().unwrap();
    let begin = world.archive.journal_len();
    let heap = world.store.memory().create_heap("new", &words(4096)).unwrap();
    for _ in 0..10 {
        let both = world.store.transact(|txn| {
            txn.heap(|tx| tx.update(&heap, 0, |value| value + 1))?;
            txn.update(at(world.page, 1), &Add { amount: 1 })
        });
        both.unwrap();
    }
    world.store.extend_archive().unwrap();
    let mut cursor = world.archive.journal().cursor();
    cursor.advance_to(begin);
    while cursor.advance() {
        for loss in (0..3).map(Loss::Random).chain([Loss::Everything, Loss::Nothing]) {
            let archive = SimDisk::from_image(cursor.image(loss));
            let to = SimDisk::new();
            restore(&media(&backup), Some(&media(&archive)), &media(&to), RestoreTarget::Newest).expect("E18.9a");
            let store = open(&Arc::new(after_power_loss(&to))).expect("E18.10");
            let on_page = read_number(&store, at(world.page, 1)).unwrap();
            assert_eq!(word(&store, "new", 0).unwrap_or(0), on_page as u64, "E18.10: {loss:?}");
        }
    }
}

/// A byte of the archive is damaged, anywhere: the restore or the opening fails, or nothing needed it.
#[test]
fn damaged_archive_is_restored_or_refused() {
    let mut world = World::new();
    world.add();
    let backup = world.backup();
    (0..12).for_each(|_| world.add());
    world.store.extend_archive().unwrap();
    world.heap.grow(1 << 15).unwrap();
    let heap = world.store.memory().create_heap("new", &words(4096)).unwrap();
    (0..12).for_each(|_| world.add());
    heap.atomically(|tx| tx.write(&heap, 8, 5)).unwrap();
    world.store.extend_archive().unwrap();
    // Without a record.
    let memory = world.store.memory();
    memory.create_heap("later", &words(4096)).unwrap();
    world.store.extend_archive().unwrap();
    let archive = after_power_loss(&world.archive);
    let mut wrong = Vec::new();
    for name in ["control", "log/000000", "log/000001"] {
        let file = archive.open(name, OpenMode::Read).unwrap();
        let len = archive.len(file).unwrap();
        for place in (0..len).step_by(997).chain(len.saturating_sub(40)..len) {
            let disk = after_power_loss(&archive);
            let file = disk.open(name, OpenMode::ReadWrite).unwrap();
            let mut byte = [0];
            disk.read_at(file, place, &mut byte).unwrap();
            byte[0] ^= 0x40;
            disk.write_at(file, place, &byte, Durability::Durable).unwrap();
            let to = SimDisk::new();
            if restore(&media(&backup), Some(&media(&disk)), &media(&to), RestoreTarget::Newest).is_err() {
                continue;
            }
            let store = open(&Arc::new(after_power_loss(&to))).expect("E18.10: the restore has verified it");
            let of_heaps = (word(&store, "new", 8), word(&store, "later", 0));
            let found = (read_number(&store, at(world.page, 0)).unwrap(), of_heaps.0, of_heaps.1);
            if found != (world.sum, Some(5), Some(0)) {
                wrong.push((name, place, found));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The last moment is damaged: it says of a heap without a record.
#[test]
fn damaged_last_moment_is_refused() {
    let mut world = World::new();
    world.add();
    let backup = world.backup();
    world.add();
    world.store.extend_archive().unwrap();
    world.store.memory().create_heap("later", &words(4096)).unwrap();
    world.store.extend_archive().unwrap();
    let archive = after_power_loss(&world.archive);
    let file = archive.open("moments", OpenMode::ReadWrite).unwrap();
    let place = archive.len(file).unwrap() - 1;
    archive.write_at(file, place, &[0xff], Durability::Durable).unwrap();
    world.archive = archive;
    let error = refused(world.restored(&backup, RestoreTarget::Newest));
    assert!(matches!(error, LogError::Damaged { .. }), "{error}");
}

/// E18.10f: the store has grown by pages that the backup's page file lacks; all are changed, or the last one is only allocated.
#[test]
fn pages_after_backup_are_restored() {
    for changes in [true, false] {
        let (backup, archive) = (SimDisk::new(), SimDisk::new());
        let store = Store::open(Arc::new(SimDisk::new()), archived(media(&archive)), registry()).unwrap();
        let first = store.transact(page_with_zeros).unwrap();
        store.backup(&media(&backup), BackupOptions::default()).unwrap();
        let pages: Vec<PageId> = (0..2000).map(|_| store.transact(|txn| txn.allocate()).unwrap()).collect();
        let last = if changes { *pages.last().unwrap() } else { first };
        store.transact(|txn| txn.update(RecordId::page(last), &FormatFresh::new(LayoutKind::RAW))).unwrap();
        store.transact(|txn| txn.update(at(last, 0), &Add { amount: 5 })).unwrap();
        store.extend_archive().unwrap();
        let view = View {
            backup: media(&backup),
            archive: Some(media(&archive)),
            moment: RestoreTarget::Newest,
            scratch: media(&SimDisk::new()),
        };
        let (view, _) = open_as_of(&view, options(), registry()).expect("E18.10f");
        let to = SimDisk::new();
        restore(&media(&backup), Some(&media(&archive)), &media(&to), RestoreTarget::Newest).unwrap();
        let restored = Store::open(media(&after_power_loss(&to)), options(), registry()).expect("E18.10f");
        for store in [view, restored] {
            assert_eq!(read_number(&store, at(last, 0)).unwrap(), 5);
            store.check().unwrap();
        }
    }
}
