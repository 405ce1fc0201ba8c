//! Copies of a log that threads append to.

use cedrat_media::{Damage, Loss, Media, SimDisk};
use cedrat_sync::atomic::{AtomicUsize, Ordering};
use cedrat_sync::{Arc, explore, thread};
use cedrat_wal::*;
use std::collections::BTreeSet;

use crate::common::*;

/// Records of each thread: few in each schedule of the scheduler.
const RECORDS: u64 = if cfg!(cedrat_shuttle) { 3 } else { 300 };
const PARTITIONS: u16 = 3;

fn options() -> LogOptions {
    LogOptions { partitions: PARTITIONS, writes_in_flight: 2, ..LogOptions::small() }
}

/// Appends records to a partition, and forces some of them.
fn append(log: &Log, partition: u16) {
    for number in 0..RECORDS {
        let mut reservation = log.reserve(ByteLen(500), ByteLen(0)).unwrap();
        let bytes = [number as u8; 100];
        let place = log.append(PartitionId(partition), update(number, None), &[&bytes], &mut reservation);
        if number % 3 == u64::from(partition) {
            log.force(place.lsn).unwrap();
        }
    }
}

/// Returns the LSNs of a copy, after it has lost all that was not durable.
fn lsns_of(copy: &SimDisk) -> Result<Vec<u64>, LogError> {
    let copy: Arc<dyn Media> = Arc::new(copy.cut_power(Loss::Everything));
    Ok(lsns(Log::look(&copy)?.scan(Lsn::ZERO)?))
}

/// Copies the log while others append, and returns the LSN up to which the copy must reach.
fn copy(log: &Log, to: &SimDisk) -> Lsn {
    try_copy(log, to).unwrap()
}

fn try_copy(log: &Log, to: &SimDisk) -> Result<Lsn, LogError> {
    let since = log.control();
    let copy = LogCopy::begin(&(Arc::new(to.clone()) as Arc<dyn Media>))?;
    let end = CopyEnd::now(log).unwrap();
    let up_to = end.up_to();
    copy.copy(log, &since, end)?.complete()?;
    Ok(up_to)
}

/// A copy has all records up to its LSN, and perhaps some more, without a gap.
#[test]
fn copy_beside_committers_is_whole() {
    explore(21, if cfg!(cedrat_shuttle) { 300 } else { 3 }, || {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = Log::create(&media, &options(), &[]).unwrap();
        let appending = Arc::new(AtomicUsize::new(usize::from(PARTITIONS)));
        let threads: Vec<_> = (0..PARTITIONS)
            .map(|partition| {
                let (log, appending) = (log.clone(), Arc::clone(&appending));
                thread::spawn(move || {
                    append(&log, partition);
                    appending.fetch_sub(1, Ordering::SeqCst);
                })
            })
            .collect();
        loop {
            let is_last = appending.load(Ordering::SeqCst) == 0 || cfg!(cedrat_shuttle);
            let to = SimDisk::new();
            let up_to = copy(&log, &to);
            let found = lsns_of(&to).unwrap();
            assert!(found.len() as u64 >= up_to.get(), "E18.1: {} of {up_to:?}", found.len());
            assert!(found.iter().copied().eq(1..=found.len() as u64), "E18.1");
            if is_last {
                break;
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// E18.1: no thread has made the last record durable.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn copy_has_records_not_yet_durable() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let log = Log::create(&media, &options(), &[]).unwrap();
    let mut room = log.reserve(ByteLen(500), ByteLen(0)).unwrap();
    let last = log.append(PartitionId(1), update(1, None), &[&[7; 100]], &mut room).lsn;
    let to = SimDisk::new();
    copy(&log, &to);
    assert_eq!(lsns_of(&to).unwrap(), [last.get()], "E18.1");
}

/// Segment files have several lengths, and the last block of a short one covers the rest of its segment.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn copy_has_files_as_short() {
    let disk = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&disk) as _;
    let options = LogOptions { log_bytes_max: 64 << 20, ..LogOptions::growing() };
    let log = Log::create(&media, &options, &[]).unwrap();
    for number in 0..400 {
        let bytes = vec![number as u8; 100 + number * 20];
        let mut room = log.reserve(record_len_bound(ByteLen(bytes.len() as u64)), ByteLen(0)).unwrap();
        log.append(PartitionId(0), update(1, None), &[&bytes], &mut room);
    }
    let to = SimDisk::new();
    let up_to = copy(&log, &to);
    assert_eq!(up_to, Lsn::new(400));
    assert!(lsns_of(&to).unwrap().into_iter().eq(1..=400), "E18.1");
    let lens = |disk: &SimDisk| {
        let image = disk.image();
        let files = image.names().filter(|name| name.starts_with("log/"));
        files.map(|name| image.file(name).unwrap().len()).collect::<BTreeSet<_>>()
    };
    let copied = lens(&to);
    assert!(copied.len() > 1 && copied.is_subset(&lens(&disk)), "{copied:?}");
}

/// E18.7: a bit of a header or of a record has changed, or a block was not written.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn damaged_block_is_not_copied() {
    for (at, damage) in [
        (20, Damage::Flip { bit: 1 }),
        (100, Damage::Flip { bit: 1 }),
        (500, Damage::Flip { bit: 1 }),
        (0, Damage::Stale),
        (512, Damage::Stale),
    ] {
        let disk = SimDisk::new();
        let media: Arc<dyn Media> = Arc::new(disk.clone());
        let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
        let mut offsets = Vec::new();
        for number in 0..10 {
            let mut room = log.reserve(record_len_bound(ByteLen(1000)), ByteLen(0)).unwrap();
            let place = log.append(PartitionId(0), update(number, None), &[&[7; 1000]], &mut room);
            log.force(place.lsn).unwrap();
            offsets.push(place.offset.get());
        }
        // Behind the header of the segment.
        let begin = offsets[6] / 4096 * 4096 + 4096;
        disk.corrupt("log/000000", begin + at, damage).unwrap();
        let to = SimDisk::new();
        let error = try_copy(&log, &to).expect_err("E18.7");
        let LogError::Damaged { file, offset, .. } = &error else { panic!("{error}") };
        assert_eq!((&**file, offset / 4096 * 4096), ("log/000000", begin), "E18.7: {error}");
    }
}

/// A log that was opened from a copy goes on, and the other one as well.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn copy_is_opened_and_continued() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let log = Log::create(&media, &options(), &["an operation"]).unwrap();
    append(&log, 0);
    append(&log, 2);
    let to = SimDisk::new();
    let up_to = copy(&log, &to);
    append(&log, 1);
    log.close().unwrap();
    let to: Arc<dyn Media> = Arc::new(to);
    let copied = Log::look(&to).unwrap().begin(&["an operation"], &options()).unwrap();
    append(&copied, 1);
    copied.force(copied.current_lsn()).unwrap();
    let found = lsns(copied.scan(Lsn::ZERO).unwrap());
    assert_eq!(found.len() as u64, up_to.get() + RECORDS);
    assert_eq!(copied.control().names, ["an operation"]);
}

/// At each call of the copy's medium the power fails: the copy is complete, or refused.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn unfinished_copy_is_refused() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let log = Log::create(&media, &options(), &[]).unwrap();
    append(&log, 0);
    let to = SimDisk::new();
    let up_to = copy(&log, &to);
    let mut cursor = to.journal().cursor();
    let (mut refused, mut complete) = (0, 0);
    while cursor.advance() {
        for seed in 0..4 {
            let image: Arc<dyn Media> = Arc::new(SimDisk::from_image(cursor.image(Loss::Random(seed))));
            match Log::look(&image) {
                Ok(found) => {
                    assert_eq!(lsns(found.scan(Lsn::ZERO).unwrap()).len() as u64, up_to.get(), "E18.1a");
                    complete += 1;
                }
                Err(LogError::Damaged { .. } | LogError::Absent { .. }) => refused += 1,
                Err(other) => panic!("E18.1a: {other}"),
            }
        }
    }
    assert!(refused > 100 && complete > 0, "{refused} {complete}");
}

#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn directory_with_files_is_refused() {
    let to: Arc<dyn Media> = Arc::new(SimDisk::new());
    drop(Log::create(&to, &options(), &[]).unwrap());
    let error = LogCopy::begin(&to).unwrap_err();
    assert!(matches!(error, LogError::AlreadyThere { .. }), "{error}");
}
