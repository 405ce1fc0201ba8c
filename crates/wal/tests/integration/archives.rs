//! Archives of logs that are in use.

use cedrat_media::{Kill, Loss, Media, SimDisk};
use cedrat_sync::Arc;
use cedrat_wal::*;

use crate::common::*;

pub(crate) const PARTITIONS: u16 = 2;

pub(crate) fn options() -> LogOptions {
    LogOptions { partitions: PARTITIONS, ..LogOptions::growing() }
}

/// Appends records to all partitions in turn, and makes them durable.
pub(crate) fn append(log: &Log, records: u64) {
    for number in 0..records {
        let bytes = vec![number as u8; 500 + (number as usize * 97) % 3000];
        let mut room = log.reserve(record_len_bound(ByteLen(bytes.len() as u64)), ByteLen(0)).unwrap();
        log.append(PartitionId((number % u64::from(PARTITIONS)) as u16), update(1, None), &[&bytes], &mut room);
    }
    log.force(log.current_lsn()).unwrap();
}

/// Needs nothing of the log any more, but what the archive lacks.
fn recycle(log: &Log, archive: &LogArchive) {
    let lsn = log.durable_lsn();
    log.checkpoint_control(&Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 }).unwrap();
    log.truncate_before(Lsn::MAX, &archive.kept_from());
}

fn lsns_of(media: &Arc<dyn Media>) -> Result<Vec<u64>, LogError> {
    Ok(lsns(Log::look(media)?.scan(Lsn::ZERO)?))
}

/// The log is recycled many times; the archive has every record.
#[test]
fn archive_keeps_recycled_records() {
    let (disk, to) = (SimDisk::new(), SimDisk::new());
    let log = Log::create(&media(&disk), &options(), &[]).unwrap();
    let mut archive = LogArchive::open(&media(&to), &log).unwrap();
    for round in 0..40 {
        append(&log, 50);
        if round % 3 > 0 {
            assert_eq!(archive.extend(&log, Vec::new).unwrap(), log.durable_lsn());
        }
        recycle(&log, &archive);
    }
    archive.extend(&log, Vec::new).unwrap();
    let last = log.durable_lsn().get();
    let after: Arc<dyn Media> = Arc::new(to.cut_power(Loss::Everything));
    assert!(lsns_of(&after).unwrap().into_iter().eq(1..=last), "E18.9");
    assert!(lsns_of(&media(&disk)).unwrap().len() < last as usize, "the log was recycled");
}

/// Power fails at each call of the archive's medium. What it had before is there, and the next opening has the rest.
#[test]
fn interrupted_archive_is_extended_again() {
    let (disk, to) = (SimDisk::new(), SimDisk::new());
    let log = Log::create(&media(&disk), &options(), &[]).unwrap();
    let mut archive = LogArchive::open(&media(&to), &log).unwrap();
    let mut known = vec![(to.journal_len(), 0)];
    for _ in 0..6 {
        append(&log, 30);
        known.push((to.journal_len(), archive.extend(&log, Vec::new).unwrap().get()));
        // The call before has ended where the next one begins.
        known.last_mut().unwrap().0 = to.journal_len();
    }
    let last = log.durable_lsn().get();
    let mut cursor = to.journal().cursor();
    cursor.advance_to(known[0].0);
    while cursor.advance() {
        let before = known.iter().rev().find(|&&(at, _)| at <= cursor.at()).unwrap().1;
        for loss in (0..8).map(Loss::Random).chain([Loss::Everything, Loss::Nothing]) {
            let image: Arc<dyn Media> = Arc::new(SimDisk::from_image(cursor.image(loss)));
            let found = lsns_of(&image).unwrap();
            assert!(found.len() as u64 >= before && found.iter().copied().eq(1..=found.len() as u64), "E18.9");
            let mut again = LogArchive::open(&image, &log).unwrap();
            again.extend(&log, Vec::new).unwrap();
            drop(again);
            assert!(lsns_of(&image).unwrap().into_iter().eq(1..=last), "E18.9");
        }
    }
}

/// R6, A9: the process is killed at each call of the archive's medium, perhaps because a sync has failed. What the next one has archived
/// is there after a power failure.
#[test]
fn killed_archive_is_extended_again() {
    let (disk, to) = (SimDisk::new(), SimDisk::new());
    let log = Log::create(&media(&disk), &options(), &[]).unwrap();
    let mut archive = LogArchive::open(&media(&to), &log).unwrap();
    for _ in 0..4 {
        append(&log, 30);
        archive.extend(&log, Vec::new).unwrap();
    }
    let last = log.durable_lsn().get();
    let mut cursor = to.journal().cursor();
    while cursor.advance() {
        for kill in (0..4).flat_map(|seed| [Kill::Process(seed), Kill::FailedSync(seed)]) {
            let killed = cursor.kill(kill);
            let mut again = LogArchive::open(&media(&killed), &log).unwrap();
            again.extend(&log, Vec::new).unwrap();
            let crashed = media(&killed.journal().crash(killed.journal_len(), Loss::Everything));
            drop(again);
            let found = lsns_of(&crashed).unwrap_or_else(|error| panic!("R6: {} {kill:?}: {error}", cursor.at()));
            assert!(found.into_iter().eq(1..=last), "R6: {} {kill:?}", cursor.at());
        }
    }
}

/// A block is durable, and archived, in one partition; power fails before an older record of another one is. The next epoch does not
/// count it.
#[test]
fn archive_skips_dead_records() {
    let (disk, to) = (SimDisk::new(), SimDisk::new());
    let log = Log::create(&media(&disk), &options(), &[]).unwrap();
    append(&log, 20);
    let mut archive = LogArchive::open(&media(&to), &log).unwrap();
    let add = |partition| {
        let mut room = log.reserve(ByteLen(4000), ByteLen(0)).unwrap();
        log.append(PartitionId(partition), update(1, None), &[&[7; 200]], &mut room).offset
    };
    add(1);
    let offset = add(0);
    log.force_partition(Position { partition: PartitionId(0), offset }).unwrap();
    assert_eq!(archive.extend(&log, Vec::new).unwrap(), Lsn::new(20));
    assert!(archive.kept_from()[0] > offset, "it is archived");
    drop(archive);
    let crashed = media(&disk.cut_power(Loss::Everything));
    let log = Log::look(&crashed).unwrap().begin(&[], &options()).unwrap();
    append(&log, 30);
    let mut archive = LogArchive::open(&media(&to), &log).unwrap();
    archive.extend(&log, Vec::new).unwrap();
    drop(log);
    assert_eq!(lsns_of(&media(&to)).unwrap(), lsns_of(&crashed).unwrap(), "E18.9");
}

/// A log with three epochs, a backup of the first one, and an archive. The restored log has each target's records.
#[test]
fn backup_is_restored_to_each_lsn() {
    let (mut disk, to) = (SimDisk::new(), SimDisk::new());
    let mut log = Log::create(&media(&disk), &options(), &[]).unwrap();
    append(&log, 20);
    let backup = SimDisk::new();
    let since = log.control();
    let end = CopyEnd::now(&log).unwrap();
    let first = end.up_to().get();
    LogCopy::begin(&media(&backup)).unwrap().copy(&log, &since, end).unwrap().complete().unwrap();
    for _ in 0..3 {
        append(&log, 25);
        // Of these two records, power fails before the older one is durable.
        let mut room = log.reserve(ByteLen(4000), ByteLen(0)).unwrap();
        log.append(PartitionId(1), update(1, None), &[&[7; 200]], &mut room);
        let offset = log.append(PartitionId(0), update(1, None), &[&[7; 200]], &mut room).offset;
        drop(room);
        log.force_partition(Position { partition: PartitionId(0), offset }).unwrap();
        LogArchive::open(&media(&to), &log).unwrap().extend(&log, Vec::new).unwrap();
        disk = disk.cut_power(Loss::Everything);
        log = Log::look(&media(&disk)).unwrap().begin(&[], &options()).unwrap();
    }
    append(&log, 10);
    LogArchive::open(&media(&to), &log).unwrap().extend(&log, Vec::new).unwrap();
    let archive = FoundArchive::look(&media(&to)).unwrap();
    let backup = Log::look(&media(&backup)).unwrap();
    let all = lsns_of(&media(&to)).unwrap();
    let restored = |target: u64| {
        let disk = SimDisk::new();
        let restored = LogCopy::begin(&media(&disk))?.restore(&backup, &archive, Lsn::new(target))?;
        restored.complete()?;
        lsns_of(&media(&disk.cut_power(Loss::Everything)))
    };
    for target in first..=*all.last().unwrap() {
        let expected: Vec<u64> = all.iter().copied().filter(|&lsn| lsn <= target).collect();
        assert_eq!(restored(target).unwrap(), expected, "E18.10: {target}");
    }
    for target in [first - 1, all.last().unwrap() + 1] {
        let error = restored(target).unwrap_err();
        assert!(matches!(error, LogError::Unreachable { .. }), "E18.10: {error}");
    }
}

/// An older copy of a log goes on without what the archive has.
#[test]
fn restored_log_needs_another_archive() {
    let (disk, to) = (SimDisk::new(), SimDisk::new());
    let log = Log::create(&media(&disk), &options(), &[]).unwrap();
    append(&log, 20);
    let older = media(&disk.journal().crash(disk.journal_len(), Loss::Everything));
    append(&log, 20);
    LogArchive::open(&media(&to), &log).unwrap().extend(&log, Vec::new).unwrap();
    let other = Log::look(&older).unwrap().begin(&[], &options()).unwrap();
    append(&other, 100);
    let error = LogArchive::open(&media(&to), &other).unwrap_err();
    assert!(matches!(error, LogError::Foreign { .. }), "{error}");
    assert!(lsns_of(&media(&to)).unwrap().into_iter().eq(1..=40), "it is as it was");
}

/// The log forgets the epoch before, of which the archive has all records, and not its end yet. So it forgets an opening without records
/// after that, which would show the end.
#[test]
fn end_of_epoch_is_archived_at_opening() {
    let (mut disk, to) = (SimDisk::new(), SimDisk::new());
    let log = Log::create(&media(&disk), &options(), &[]).unwrap();
    append(&log, 20);
    LogArchive::open(&media(&to), &log).unwrap().extend(&log, Vec::new).unwrap();
    drop(log);
    for _ in 0..2 {
        for _ in 0..2 {
            disk = disk.cut_power(Loss::Everything);
            drop(Log::look(&media(&disk)).unwrap().begin(&[], &options()).unwrap());
        }
        disk = disk.cut_power(Loss::Everything);
        let log = Log::look(&media(&disk)).unwrap().begin(&[], &options()).unwrap();
        let archive = LogArchive::open(&media(&to), &log).expect("E18.9a");
        append(&log, 20);
        let lsn = log.durable_lsn();
        let checkpoint = Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 };
        log.checkpoint_control_keeping(&checkpoint, &archive.kept_from()).unwrap();
    }
}

/// Two openings of the same log go on in different ways, with the same number, from the same offsets on.
#[test]
fn other_opening_with_same_number_is_foreign() {
    let (disk, to) = (SimDisk::new(), SimDisk::new());
    let log = Log::create(&media(&disk), &options(), &[]).unwrap();
    append(&log, 20);
    let older = disk.journal().crash(disk.journal_len(), Loss::Everything);
    drop(log);
    let opened = |disk: &SimDisk| Log::look(&media(disk)).unwrap().begin(&[], &options()).unwrap();
    let (one, other) = (opened(&disk.cut_power(Loss::Everything)), opened(&older));
    append(&one, 20);
    LogArchive::open(&media(&to), &one).unwrap().extend(&one, Vec::new).unwrap();
    append(&other, 10);
    append(&other, 30);
    assert!(other.durable_lsn() > one.durable_lsn());
    let error = LogArchive::open(&media(&to), &other).unwrap_err();
    assert!(matches!(error, LogError::Foreign { .. }), "E18.9b: {error}");
    append(&one, 40);
    LogArchive::open(&media(&to), &one).unwrap().extend(&one, Vec::new).unwrap();
    let (backup, since) = (SimDisk::new(), other.control());
    let end = CopyEnd::now(&other).unwrap();
    LogCopy::begin(&media(&backup)).unwrap().copy(&other, &since, end).unwrap().complete().unwrap();
    let (backup, archive) = (Log::look(&media(&backup)).unwrap(), FoundArchive::look(&media(&to)).unwrap());
    let copy = LogCopy::begin(&media(&SimDisk::new())).unwrap();
    let error = copy.restore(&backup, &archive, backup.end_lsn()).map(drop).unwrap_err();
    assert!(matches!(error, LogError::Foreign { .. }), "E18.10b: {error}");
}

#[test]
fn archive_of_another_store_is_refused() {
    let to = SimDisk::new();
    let log = Log::create(&media(&SimDisk::new()), &options(), &[]).unwrap();
    drop(LogArchive::open(&media(&to), &log).unwrap());
    let other = Log::create(&media(&SimDisk::new()), &LogOptions { store: Some([7; 16]), ..options() }, &[]).unwrap();
    let error = LogArchive::open(&media(&to), &other).unwrap_err();
    assert!(matches!(error, LogError::Foreign { .. }), "{error}");
    append(&log, 200);
    let lsn = log.durable_lsn();
    log.checkpoint_control(&Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 }).unwrap();
    assert!(log.truncate(Lsn::MAX) > 0);
    let error = LogArchive::open(&media(&to), &log).unwrap_err();
    assert!(matches!(error, LogError::ArchiveGap { .. }), "{error}");
}

fn opened(disk: &SimDisk) -> Log {
    Log::look(&media(disk)).unwrap().begin(&[], &options()).unwrap()
}

/// Appends a record to one partition, and makes it durable.
fn append_to(log: &Log, partition: u16, len: usize) -> Lsn {
    let bytes = vec![7; len];
    let mut room = log.reserve(record_len_bound(ByteLen(len as u64)), ByteLen(0)).unwrap();
    let lsn = log.append(PartitionId(partition), update(1, None), &[&bytes], &mut room).lsn;
    log.force(lsn).unwrap();
    lsn
}

fn copied(log: &Log) -> SimDisk {
    let (to, since) = (SimDisk::new(), log.control());
    let end = CopyEnd::now(log).unwrap();
    LogCopy::begin(&media(&to)).unwrap().copy(log, &since, end).unwrap().complete().unwrap();
    to
}

fn restored_log(backup: &SimDisk, archive: &SimDisk, target: Option<Lsn>) -> Result<SimDisk, LogError> {
    let (to, archive) = (SimDisk::new(), FoundArchive::look(&media(archive))?);
    let target = target.unwrap_or(archive.lsns().1);
    LogCopy::begin(&media(&to))?.restore(&Log::look(&media(backup))?, &archive, target)?.complete()?;
    Ok(to.cut_power(Loss::Everything))
}

/// Power fails at each call of the beginning of an archive. The next attempt begins it.
#[test]
fn interrupted_beginning_is_repeated() {
    let (disk, to) = (SimDisk::new(), SimDisk::new());
    let log = Log::create(&media(&disk), &options(), &[]).unwrap();
    append(&log, 20);
    drop(LogArchive::open(&media(&to), &log).unwrap());
    let mut cursor = to.journal().cursor();
    while cursor.advance() {
        for loss in (0..8).map(Loss::Random).chain([Loss::Everything, Loss::Nothing]) {
            let image = media(&SimDisk::from_image(cursor.image(loss)));
            let mut archive = LogArchive::open(&image, &log).expect("E18.9a");
            archive.extend(&log, Vec::new).unwrap();
        }
    }
}

/// E18.10d: the last blocks of the log before a close, and those before the target, have no records.
#[test]
fn restored_log_goes_on_behind_empty_blocks() {
    let (disk, to) = (SimDisk::new(), SimDisk::new());
    let log = Log::create(&media(&disk), &options(), &[]).unwrap();
    append(&log, 20);
    let backup = copied(&log);
    let mut archive = LogArchive::open(&media(&to), &log).unwrap();
    log.promise().unwrap();
    archive.extend(&log, Vec::new).unwrap();
    drop((log, archive));
    let log = opened(&disk);
    let target = append_to(&log, 0, 100);
    let mut archive = LogArchive::open(&media(&to), &log).unwrap();
    archive.extend(&log, Vec::new).unwrap();
    let restored = restored_log(&backup, &to, Some(target)).unwrap();
    let log = opened(&restored);
    let last = [append_to(&log, 1, 100), append_to(&log, 0, 100)][1];
    drop(log);
    assert_eq!(lsns_of(&media(&restored)).expect("E18.10").last(), Some(&last.get()), "E18.10");
}

/// A log that was closed has blocks without records at its end. A log that is restored to the end of the archive continues it.
#[test]
fn log_restored_to_end_continues_archive() {
    let (disk, to) = (SimDisk::new(), SimDisk::new());
    let log = Log::create(&media(&disk), &options(), &[]).unwrap();
    append(&log, 20);
    let backup = copied(&log);
    append(&log, 20);
    let mut archive = LogArchive::open(&media(&to), &log).unwrap();
    log.promise().unwrap();
    archive.extend(&log, Vec::new).unwrap();
    drop((log, archive));
    let log = opened(&restored_log(&backup, &to, None).unwrap());
    let mut archive = LogArchive::open(&media(&to), &log).expect("E18.9b");
    append(&log, 20);
    let last = archive.extend(&log, Vec::new).unwrap();
    assert!(lsns_of(&media(&to)).unwrap().into_iter().eq(1..=last.get()), "E18.9");
}

/// A backup of another future has a short block where the archive has a long one, across its end.
#[test]
fn longer_archived_block_is_foreign() {
    let (disk, to) = (SimDisk::new(), SimDisk::new());
    let log = Log::create(&media(&disk), &options(), &[]).unwrap();
    append(&log, 20);
    drop(log);
    let (one, other) = (opened(&disk.cut_power(Loss::Everything)), opened(&disk.cut_power(Loss::Everything)));
    append_to(&one, 0, 20_000);
    append_to(&one, 0, 20_000);
    LogArchive::open(&media(&to), &one).unwrap().extend(&one, Vec::new).unwrap();
    let lsn = append_to(&other, 0, 100);
    other.checkpoint_control(&Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 }).unwrap();
    let error = restored_log(&copied(&other), &to, None).unwrap_err();
    assert!(matches!(error, LogError::Foreign { .. }), "E18.10b: {error}");
}

/// E18.10c: the archive lags when the log is opened again, and is opened, and not extended, before the log is lost.
#[test]
fn lagging_archive_is_restored_to_its_end() {
    let (disk, to) = (SimDisk::new(), SimDisk::new());
    let log = Log::create(&media(&disk), &options(), &[]).unwrap();
    append(&log, 20);
    let backup = copied(&log);
    let last = LogArchive::open(&media(&to), &log).unwrap().extend(&log, Vec::new).unwrap();
    append(&log, 20);
    drop(log);
    let log = opened(&disk.cut_power(Loss::Everything));
    append(&log, 20);
    drop(LogArchive::open(&media(&to), &log).unwrap());
    let restored = restored_log(&backup, &to, None).expect("E18.10");
    assert!(lsns_of(&media(&restored)).expect("E18.10").into_iter().eq(1..=last.get()), "E18.10");
}

/// E18.10d: a backup begins behind dead numbers, and has no record of its own. The restored log draws numbers behind them.
#[test]
fn restored_log_skips_dead_numbers() {
    let (disk, to) = (SimDisk::new(), SimDisk::new());
    let log = Log::create(&media(&disk), &options(), &[]).unwrap();
    append(&log, 5);
    let mut room = log.reserve(ByteLen(4000), ByteLen(0)).unwrap();
    log.append(PartitionId(1), update(1, None), &[&[7; 200]], &mut room);
    let offset = log.append(PartitionId(0), update(1, None), &[&[7; 200]], &mut room).offset;
    log.force_partition(Position { partition: PartitionId(0), offset }).unwrap();
    drop(room);
    let log = opened(&disk.cut_power(Loss::Everything));
    let next = log.current_lsn().next();
    assert!(next > Lsn::new(6), "there are dead numbers");
    log.checkpoint_control(&Checkpoint { redo_lsn: next, scan_lsn: next, next_txn: 1 }).unwrap();
    let mut archive = LogArchive::open(&media(&to), &log).unwrap();
    let backup = copied(&log);
    append(&log, 5);
    archive.extend(&log, Vec::new).unwrap();
    let restored = restored_log(&backup, &to, Some(next.previous())).unwrap();
    let log = opened(&restored);
    append(&log, 3);
    drop(log);
    assert_eq!(lsns_of(&media(&restored)).unwrap().len(), 3, "E18.10");
}

/// A piece of a log that was sent: its offset, that of the next one, its partition, the length of its segment, and its blocks.
type Sent = (LogOffset, LogOffset, PartitionId, u64, Vec<u8>);

/// Returns the pieces that an archive lacks, and the state that it has with them.
fn pieces_of(log: &Log, archive: &LogArchive) -> (Vec<Sent>, LogState) {
    let mut pieces = Vec::new();
    let state = log.copy_since(&archive.position(), &log.state(), 1 << 14, &mut |piece| {
        pieces.push((piece.offset, piece.next, piece.partition, piece.segment_len, piece.bytes.to_vec()));
        Ok::<_, LogError>(())
    });
    (pieces, state.unwrap())
}

/// E25.3b: blocks that are received over a connection. Nothing counts before the extension is complete.
#[test]
fn received_blocks_continue_the_archive() {
    let (disk, to, local) = (SimDisk::new(), SimDisk::new(), SimDisk::new());
    let log = Log::create(&media(&disk), &options(), &[]).unwrap();
    drop(LogArchive::open(&media(&local), &log).unwrap());
    drop(LogArchive::open(&media(&to), &log).unwrap());
    append(&log, 200);
    let mut archive = LogArchive::open_alone(&media(&to)).unwrap();
    let checksums = log.checksums_of(&archive.state()).unwrap();
    archive.continue_received(&log.state(), &checksums).unwrap();
    let (mut rounds, mut refused) = (0, 0);
    while archive.up_to() < log.durable_lsn() {
        let (pieces, state) = pieces_of(&log, &archive);
        for (offset, next, partition, segment_len, bytes) in &pieces {
            let (offset, next, partition, segment_len) = (*offset, *next, *partition, *segment_len);
            let later = LogOffset::new(next.get() + 4096);
            let gap = LogPiece { partition, segment_len, offset: next, next: later, bytes: &bytes[..4096] };
            let error = archive.append_received(&gap).expect_err("E25.3b").to_string();
            assert!(error.contains("continue"), "E25.3b: {error}");
            let used = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
            for at in [2, 5, 17, 40, 60, 70, used - 1].into_iter().filter(|&at| at < used) {
                let mut changed = bytes.clone();
                changed[at] ^= 4;
                let piece = LogPiece { partition, segment_len, offset, next, bytes: &changed };
                archive.append_received(&piece).expect_err("E25.3b: changed bytes");
                refused += 1;
            }
            archive.append_received(&LogPiece { partition, segment_len, offset, next, bytes }).unwrap();
        }
        assert_eq!(archive.complete(&state, None).unwrap(), state.up_to().max(archive.up_to()));
        rounds += 1;
    }
    assert!(rounds >= 3 && refused > 20, "{rounds} {refused}");
    drop(archive);
    let after: Arc<dyn Media> = Arc::new(to.cut_power(Loss::Everything));
    assert!(lsns_of(&after).unwrap().into_iter().eq(1..=log.durable_lsn().get()), "E25.3b");
    LogArchive::open(&after, &log).expect("it is an archive of this log");
}
