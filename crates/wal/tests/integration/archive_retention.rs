//! Archives that forget their beginning.

use cedrat_media::{Call, Durability, Fault, Loss, Media, OpenMode, SimDisk, write_all_at};
use cedrat_sync::Arc;
use cedrat_wal::*;
use std::io;

use crate::archives::{PARTITIONS, append, options};
use crate::common::*;

/// A log with an archive, and backups of it.
struct World {
    log: Log,
    to: SimDisk,
    archive: LogArchive,
    backups: Vec<SimDisk>,
}

/// Two records of which power fails before the older one is durable.
fn append_and_lose(log: &Log) {
    let mut room = log.reserve(ByteLen(4000), ByteLen(0)).unwrap();
    log.append(PartitionId(1), update(1, None), &[&[7; 200]], &mut room);
    let offset = log.append(PartitionId(0), update(1, None), &[&[7; 200]], &mut room).offset;
    log.force_partition(Position { partition: PartitionId(0), offset }).unwrap();
}

/// Returns two logs with the same beginning.
fn histories() -> [Log; 2] {
    let disk = SimDisk::new();
    let log = Log::create(&media(&disk), &options(), &[]).unwrap();
    append(&log, 20);
    drop(log);
    [(); 2].map(|()| {
        let copy = disk.cut_power(Loss::Everything);
        Log::look(&media(&copy)).unwrap().begin(&[], &options()).unwrap()
    })
}

fn checkpoint(log: &Log, archive: &LogArchive) {
    let lsn = log.durable_lsn();
    let checkpoint = Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 };
    log.checkpoint_control_keeping(&checkpoint, &archive.kept_from()).unwrap();
    log.truncate_before(Lsn::MAX, &archive.kept_from());
}

fn copied(log: &Log) -> SimDisk {
    let (to, since) = (SimDisk::new(), log.control());
    let end = CopyEnd::now(log).unwrap();
    LogCopy::begin(&media(&to)).unwrap().copy(log, &since, end).unwrap().complete().unwrap();
    to
}

impl World {
    /// A log with a backup after each of several checkpoints.
    fn new() -> World {
        let to = SimDisk::new();
        let log = Log::create(&media(&SimDisk::new()), &options(), &[]).unwrap();
        let archive = LogArchive::open(&media(&to), &log).unwrap();
        let mut world = World { log, to, archive, backups: Vec::new() };
        for _ in 0..4 {
            append(&world.log, 60);
            world.archive.extend(&world.log, || vec![1]).unwrap();
            checkpoint(&world.log, &world.archive);
            world.backups.push(copied(&world.log));
            append(&world.log, 5);
            world.archive.extend(&world.log, || vec![1]).unwrap();
        }
        world
    }

    fn forget_before(&mut self, backup: usize) -> Result<(), LogError> {
        let point = FoundArchive::look(&media(&self.to))?.point_of_backup(&look(&self.backups[backup]))?;
        self.archive.forget(&point)
    }
}

fn look(disk: &SimDisk) -> Found {
    Log::look(&media(disk)).unwrap()
}

/// Restores a backup to the end of an archive, and returns the LSNs of the restored log.
fn restored(backup: &SimDisk, archive: &SimDisk) -> Result<Vec<u64>, LogError> {
    let (to, archive) = (SimDisk::new(), FoundArchive::look(&media(archive))?);
    LogCopy::begin(&media(&to))?.restore(&look(backup), &archive, archive.lsns().1)?.complete()?;
    let restored: Arc<dyn Media> = Arc::new(to.cut_power(Loss::Everything));
    Ok(lsns(Log::look(&restored)?.scan(Lsn::ZERO)?))
}

/// E18.13: what a backup and younger ones need stays, and the rest leaves the disk.
#[test]
fn backup_is_restored_after_forgetting() {
    let mut world = World::new();
    let before = (world.to.space(), restored(&world.backups[2], &world.to).unwrap());
    world.forget_before(2).unwrap();
    assert!(world.to.space() < before.0 * 3 / 4, "E18.13: {} {}", world.to.space(), before.0);
    let after = world.to.journal().crash(world.to.journal_len(), Loss::Everything);
    for backup in 2..4 {
        let found = restored(&world.backups[backup], &after).expect("E18.13");
        assert!(before.1.ends_with(&found), "E18.13");
    }
    let error = restored(&world.backups[1], &after).unwrap_err();
    assert!(matches!(error, LogError::ArchiveBeginsLater { .. }), "E18.13a: {error}");
    let error = world.forget_before(1).unwrap_err();
    assert!(matches!(error, LogError::ArchiveBeginsLater { .. }), "E18.13a: {error}");
    let found = FoundArchive::look(&media(&after)).unwrap();
    assert_eq!(found.lsns().0, look(&world.backups[2]).control().checkpoint.scan_lsn, "E18.13");
    assert_eq!(found.descriptions(found.lsns().0), [&[1][..]], "E18.13b: the description of a forgotten moment");
    append(&world.log, 60);
    world.archive.extend(&world.log, || vec![1]).expect("E18.9");
    let last = restored(&world.backups[3], &world.to).unwrap().last().copied();
    assert_eq!(last, Some(world.log.durable_lsn().get()), "E18.9");
}

/// E18.13b: power fails at each call. The archive has its old beginning or its new one, and forgets again.
#[test]
fn interrupted_forgetting_keeps_archive() {
    let mut world = World::new();
    let expected = restored(&world.backups[1], &world.to).unwrap();
    let begin = world.to.journal_len();
    world.forget_before(1).unwrap();
    let space = world.to.space();
    let mut cursor = world.to.journal().cursor();
    cursor.advance_to(begin);
    let mut cases = 0;
    while cursor.advance() {
        for loss in (0..8).map(Loss::Random).chain([Loss::Everything, Loss::Nothing]) {
            let image = SimDisk::from_image(cursor.image(loss));
            assert_eq!(restored(&world.backups[1], &image).expect("E18.13b"), expected, "E18.13b");
            let point = FoundArchive::look(&media(&image)).unwrap().point_of_backup(&look(&world.backups[1])).unwrap();
            let mut archive = LogArchive::open(&media(&image), &world.log).expect("E18.13b");
            archive.forget(&point).expect("E18.13b");
            archive.extend(&world.log, || vec![1]).expect("E18.9d");
            assert!(image.space() <= space, "E18.13b: files are left: {:?}", image.list("log"));
            assert_eq!(restored(&world.backups[1], &image).expect("E18.13b"), expected, "E18.13b");
            cases += 1;
        }
    }
    assert!(cases > 100, "{cases}");
}

/// E18.13b: a call of the archive's disk fails, and the archive is extended before it forgets again.
#[test]
fn failed_forgetting_is_repeated() {
    for call in [Call::Open, Call::Write, Call::Sync, Call::SyncDirectory, Call::Remove, Call::List] {
        for number in 1..6 {
            let mut world = World::new();
            world.to.inject(Fault::error(call, io::ErrorKind::Other).nth(number));
            let point =
                FoundArchive::look(&media(&world.to)).and_then(|it| it.point_of_backup(&look(&world.backups[1])));
            let _ = point.and_then(|point| world.archive.forget(&point));
            world.to.clear_faults();
            append(&world.log, 30);
            world.archive.extend(&world.log, || vec![1]).expect("E18.9d");
            let expected = restored(&world.backups[1], &world.to).expect("E18.13b");
            world.forget_before(1).expect("E18.13b");
            let after = world.to.cut_power(Loss::Everything);
            assert_eq!(restored(&world.backups[1], &after).expect("E18.13b"), expected, "E18.13b: {call:?} {number}");
        }
    }
}

/// E18.9b: an archive that has forgotten almost everything is not extended by a log of another history.
#[test]
fn forgetful_archive_refuses_other_history() {
    let ([one, other], to) = (histories(), SimDisk::new());
    append(&one, 20);
    let mut archive = LogArchive::open(&media(&to), &one).unwrap();
    archive.extend(&one, Vec::new).unwrap();
    let found = FoundArchive::look(&media(&to)).unwrap();
    let error = found.point_at(found.lsns().1.next().next()).unwrap_err();
    assert!(matches!(error, LogError::NotArchived { .. }), "{error}");
    archive.forget(&found.point_at(found.lsns().1.next()).unwrap()).unwrap();
    drop(archive);
    append(&other, 50);
    let error = LogArchive::open(&media(&to), &other).unwrap_err();
    assert!(matches!(error, LogError::Foreign { .. }), "E18.9b: {error}");
    LogArchive::open(&media(&to), &one).expect("E18.9b").extend(&one, Vec::new).unwrap();
}

/// E18.13c: crashes that leave dead numbers fill the control file of an archive, which long names have nearly filled. It forgets them.
#[test]
fn full_epoch_table_is_forgotten() {
    let (mut disk, to) = (SimDisk::new(), SimDisk::new());
    let names: Vec<String> = (0..228).map(|number| format!("{number:0>250}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut log = Log::create(&media(&disk), &options(), &names).unwrap();
    drop(LogArchive::open(&media(&to), &log).unwrap());
    let mut crashes = 0;
    let full = loop {
        append(&log, 2);
        append_and_lose(&log);
        let extended = LogArchive::open(&media(&to), &log).and_then(|mut archive| {
            archive.extend(&log, Vec::new)?;
            checkpoint(&log, &archive);
            Ok(())
        });
        if let Err(error) = extended {
            break error;
        }
        disk = disk.cut_power(Loss::Everything);
        log = Log::look(&media(&disk)).unwrap().begin(&[], &options()).unwrap();
        crashes += 1;
        assert!(crashes < 2000, "the table is not full");
    };
    assert!(matches!(full, LogError::Limit { .. }), "{full}");
    assert!(full.to_string().contains("forget"), "E18.13c: it says what to do: {full}");
    let found = FoundArchive::look(&media(&to)).unwrap();
    let last = found.lsns().1;
    LogArchive::open_alone(&media(&to)).unwrap().forget(&found.point_at(last).unwrap()).unwrap();
    let mut archive = LogArchive::open(&media(&to), &log).expect("E18.13c");
    archive.extend(&log, Vec::new).expect("E18.13c");
    checkpoint(&log, &archive);
    let backup = copied(&log);
    append(&log, 20);
    archive.extend(&log, Vec::new).expect("E18.13c");
    assert_eq!(restored(&backup, &to).expect("E18.13c").last(), Some(&log.durable_lsn().get()), "E18.13c");
}

/// E18.14: segments that are used again have old bytes behind the records of a block. The copy has none.
#[test]
fn copy_has_zeros_between_blocks() {
    let options = LogOptions { partitions: PARTITIONS, ..LogOptions::small() };
    let log = Log::create(&media(&SimDisk::new()), &options, &[]).unwrap();
    let append_long = |number: u64| {
        let bytes = vec![9; 1_000 + (number as usize * 1_237) % 6_000];
        let mut room = log.reserve(record_len_bound(ByteLen(bytes.len() as u64)), ByteLen(0)).unwrap();
        log.append(PartitionId((number % 2) as u16), update(1, None), &[&bytes], &mut room);
    };
    for round in 0..30 {
        (round * 31..round * 31 + 20).for_each(append_long);
        let lsn = log.force(log.current_lsn()).unwrap().up_to();
        log.checkpoint_control(&Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 }).unwrap();
        log.truncate_before(Lsn::MAX, &[]);
        let since = log.control();
        (round * 31..round * 31 + 20).for_each(append_long);
        let (copy, end) = (SimDisk::new(), CopyEnd::now(&log).unwrap());
        LogCopy::begin(&media(&copy)).unwrap().copy(&log, &since, end).unwrap().complete().unwrap();
        look(&copy).check_bytes(&mut |damage| panic!("E18.14: {damage}")).unwrap();
    }
}

/// E18.10b: a backup of another history has the same LSNs at offsets that the archive has forgotten.
#[test]
fn forgetful_archive_refuses_foreign_backup() {
    let ([one, other], to) = (histories(), SimDisk::new());
    append(&one, 200);
    let mut archive = LogArchive::open(&media(&to), &one).unwrap();
    archive.extend(&one, Vec::new).unwrap();
    // As many records, all of them short.
    for number in 0..160 {
        let mut room = other.reserve(ByteLen(500), ByteLen(0)).unwrap();
        other.append(PartitionId(number % PARTITIONS), update(1, None), &[&[3; 8]], &mut room);
        if number == 150 {
            let lsn = other.force(other.current_lsn()).unwrap().up_to();
            other.checkpoint_control(&Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 }).unwrap();
        }
    }
    let backup = copied(&other);
    let found = FoundArchive::look(&media(&to)).unwrap();
    archive.forget(&found.point_at(look(&backup).control().checkpoint.scan_lsn).unwrap()).unwrap();
    let error = restored(&backup, &to).unwrap_err();
    assert!(matches!(error, LogError::Foreign { .. }), "E18.10b: {error}");
    let error = FoundArchive::look(&media(&to)).unwrap().point_of_backup(&look(&backup)).unwrap_err();
    assert!(matches!(error, LogError::Foreign { .. }), "E18.10b: {error}");
}

/// A segment with a damaged header is not one that was forgotten: it may be repaired.
#[test]
fn damaged_segment_stays_in_archive() {
    let world = World::new();
    let name = world.to.image().names().filter(|name| name.starts_with("log/")).map(str::to_owned).nth(1).unwrap();
    let file = world.to.open(&name, OpenMode::ReadWrite).unwrap();
    write_all_at(&world.to, file, 0, &[0; 8192], Durability::Durable).unwrap();
    let World { log, to, archive, .. } = world;
    drop(archive);
    drop(LogArchive::open(&media(&to), &log));
    assert!(to.image().file(&name).is_some_and(|bytes| !bytes.is_empty()), "{name}");
}
