//! Damaged bytes: promised records are found or refused with file and offset; a log with a torn tail opens.

use cedrat_media::{Damage, Durability, Media, OpenMode, SimDisk, write_all_at};
use cedrat_sync::Arc;
use cedrat_wal::*;

use crate::common::*;

/// Returns a log of `partitions`, with records forced one block each, closed cleanly; and the number of its records.
fn written(partitions: u16, promise: bool) -> (Arc<SimDisk>, u64) {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let options = LogOptions { partitions, ..LogOptions::small() };
    let log = Log::create(&media, &options, &["name"]).unwrap();
    let mut reservation = log.reserve(ByteLen(40_000), ByteLen(0)).unwrap();
    let mut last = Lsn::ZERO;
    for n in 0..24u16 {
        let body = vec![n as u8; 30 + usize::from(n) * 40];
        let place = log.append(PartitionId(n / 3 % partitions), update(1, None), &[&body], &mut reservation);
        last = place.lsn;
        if n % 2 == 1 {
            log.force(last).unwrap();
        }
    }
    if promise {
        log.promise().unwrap();
    }
    (sim, last.get())
}

/// Looks and scans; returns the number of records, or the error.
fn read(sim: &SimDisk) -> Result<u64, LogError> {
    let media: Arc<dyn Media> = Arc::new(SimDisk::from_image(sim.image()));
    let before = SimDisk::from_image(sim.image()).image().hash();
    let found = Log::look(&media)?;
    let mut scan = found.scan(Lsn::ZERO)?;
    let mut count = 0;
    while let Some(next) = scan.next()? {
        count += 1;
        assert_eq!(next.record.lsn.get(), count);
        assert_eq!(next.record.body[0], (count - 1) as u8);
    }
    assert_eq!(sim.image().hash(), before, "R2: looking changes nothing");
    Ok(count)
}

fn log_files(sim: &SimDisk) -> Vec<String> {
    sim.image().names().filter(|name| name.starts_with("log/")).map(str::to_owned).collect()
}

/// Returns offsets of bytes of a file that are not zero, a few per sector.
fn places(sim: &SimDisk, name: &str) -> Vec<u64> {
    let bytes = sim.image().file(name).unwrap();
    let mut places: Vec<u64> = Vec::new();
    for (sector, part) in bytes.chunks(512).enumerate() {
        let used: Vec<_> = (0..part.len()).filter(|&at| part[at] != 0).collect();
        places.extend(used.iter().step_by(used.len().div_ceil(40).max(1)).map(|&at| (sector * 512 + at) as u64));
    }
    places
}

#[test]
fn damage_below_durable_lsn_names_offset() {
    for partitions in [1, 2] {
        let (sim, last) = written(partitions, true);
        assert_eq!(read(&sim).unwrap(), last);
        let (mut refused, mut harmless) = (0, 0);
        for name in log_files(&sim) {
            for at in places(&sim, &name) {
                let damaged = SimDisk::from_image(sim.image());
                damaged.corrupt(&name, at, Damage::Flip { bit: (at % 8) as u8 }).unwrap();
                match read(&damaged) {
                    // No promise covers the promise block; the headers of free segments are not needed.
                    Ok(count) => {
                        assert_eq!(count, last, "W3: {name} {at}");
                        harmless += 1;
                    }
                    Err(LogError::Damaged { file, offset, .. }) => {
                        let distance = at.abs_diff(offset);
                        let segment_header = at < 4096;
                        assert!(
                            segment_header || (file == name && distance < 4096),
                            "E20.2: {name} {at}: {file} {offset}"
                        );
                        refused += 1;
                    }
                    Err(LogError::Version { file, offset, .. }) => {
                        panic!("{file} {offset}: a checksum covers the version")
                    }
                    Err(other) => panic!("{name} {at}: {other}"),
                }
            }
        }
        assert!(refused > 200 && harmless < refused, "{refused} {harmless}");
    }
}

#[test]
fn damage_above_durable_lsn_ends_log() {
    let (sim, last) = written(1, false);
    let mut cut = 0;
    for name in log_files(&sim) {
        for at in places(&sim, &name) {
            let damaged = SimDisk::from_image(sim.image());
            damaged.corrupt(&name, at, Damage::Flip { bit: 3 }).unwrap();
            match read(&damaged) {
                Ok(count) if count == last => {}
                Ok(count) => {
                    assert_eq!(count, last - 2, "E20.3: the newest block alone, {name} {at}");
                    cut += 1;
                }
                Err(LogError::Damaged { .. }) => {}
                Err(other) => panic!("{name} {at}: {other}"),
            }
        }
    }
    assert!(cut > 10, "the window that remains: {cut}");
}

#[test]
fn stale_misdirected_and_missing_pieces_are_refused() {
    let (sim, last) = written(1, true);
    for name in log_files(&sim) {
        for at in places(&sim, &name) {
            for damage in [Damage::Stale, Damage::Misdirected { to: 4096 * 5 }] {
                let damaged = SimDisk::from_image(sim.image());
                damaged.corrupt(&name, at, damage).unwrap();
                match read(&damaged) {
                    Ok(count) => assert_eq!(count, last, "{name} {at} {damage:?}"),
                    Err(LogError::Damaged { .. }) => {}
                    Err(other) => panic!("{name} {at}: {other}"),
                }
            }
        }
        let damaged = SimDisk::from_image(sim.image());
        damaged.remove(&name).unwrap();
        match read(&damaged) {
            Ok(count) => assert_eq!(count, last, "W8: {name} was free"),
            Err(error) => assert!(matches!(error, LogError::Damaged { .. }), "W8: {error}"),
        }
    }
}

#[test]
fn truncated_foreign_and_hostile_files_never_panic() {
    let (sim, last) = written(2, true);
    // The lock file is empty.
    let names: Vec<String> = sim.image().names().filter(|&name| name != LOCK_FILE).map(str::to_owned).collect();
    for name in &names {
        let len = sim.image().file(name).unwrap().len() as u64;
        for cut in [0, 1, 100, 511, 512, 4095, 4096, 4200, 8192, 12_345, len - 1] {
            let damaged = SimDisk::from_image(sim.image());
            let file = damaged.open(name, OpenMode::ReadWrite).unwrap();
            damaged.set_len(file, cut.min(len)).unwrap();
            match read(&damaged) {
                Ok(count) => assert_eq!(count, last, "{name} cut to {cut}"),
                Err(error) => {
                    assert!(error.to_string().contains(name.as_str()) || error.to_string().contains("log"), "{error}")
                }
            }
        }
        for pattern in 0..20u64 {
            let damaged = SimDisk::from_image(sim.image());
            let file = damaged.open(name, OpenMode::ReadWrite).unwrap();
            let mut state = pattern.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
            let garbage: Vec<u8> = (0..20_000)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    if pattern == 0 { 0xff } else { state as u8 }
                })
                .collect();
            write_all_at(&damaged, file, pattern * 300, &garbage, Durability::Volatile).unwrap();
            match read(&damaged) {
                Ok(count) => assert_eq!(count, last, "{name} garbage {pattern}"),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}

#[test]
fn control_file_survives_loss_of_copy() {
    let (sim, last) = written(1, true);
    for slot in [0, 65_536] {
        for at in [0, 8, 12, 16, 20, 40, 60, 100, 130] {
            let damaged = SimDisk::from_image(sim.image());
            damaged.corrupt("control", slot + at, Damage::Flip { bit: 1 }).unwrap();
            assert_eq!(read(&damaged).unwrap(), last, "{slot} {at}");
            damaged.corrupt("control", 65_536 - slot + at, Damage::Flip { bit: 1 }).unwrap();
            let error = read(&damaged).unwrap_err();
            assert!(matches!(&error, LogError::Damaged { file, .. } if file == "control"), "{error}");
        }
    }
}

#[test]
fn foreign_store_and_newer_version_are_named() {
    let (sim, _) = written(1, true);
    let other = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&other) as _;
    let options = LogOptions { store: Some(*b"another store..."), ..LogOptions::small() };
    let log = Log::create(&media, &options, &[]).unwrap();
    let mut reservation = log.reserve(ByteLen(1000), ByteLen(0)).unwrap();
    log.append(PartitionId(0), update(1, None), &[b"foreign"], &mut reservation);
    log.force(Lsn::MAX).unwrap();
    let name = &log_files(&other)[0];
    let foreign = other.image().file(name).unwrap();
    let damaged = SimDisk::from_image(sim.image());
    let file = damaged.open(name, OpenMode::ReadWrite).unwrap();
    write_all_at(&damaged, file, 0, &foreign, Durability::Volatile).unwrap();
    let error = read(&damaged).unwrap_err().to_string();
    let hexadecimal = |store: &[u8]| store.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let [found, wanted] = [b"another store...", b"a store in tests"].map(|store| hexadecimal(store));
    let words = format!("this log segment belongs to store {found}, and the log to store {wanted}; move the file back");
    assert!(error.starts_with(name.as_str()) && error.contains(&words), "{error}");
    assert!(!error.contains("restore this file"), "a copy of this file is as foreign: {error}");

    // A valid control file of version 3.
    let damaged = SimDisk::from_image(sim.image());
    let file = damaged.open("control", OpenMode::ReadWrite).unwrap();
    let mut slot = damaged.image().file("control").unwrap()[..65_536].to_vec();
    slot[12] = 3;
    let used = u32::from_le_bytes(slot[16..20].try_into().unwrap()) as usize;
    let crc = crc32c::crc32c(&slot[12..used]);
    slot[8..12].copy_from_slice(&crc.to_le_bytes());
    write_all_at(&damaged, file, 0, &slot, Durability::Volatile).unwrap();
    let error = read(&damaged).unwrap_err();
    assert!(
        matches!(&error, LogError::Version { file, offset: 12, found: 3, known: 2 } if file == "control"),
        "{error}"
    );
}

/// An older copy of the control file next to a newer log: its blocks are of an epoch that it does not know (E1.6).
#[test]
fn outdated_control_file_is_refused() {
    let (sim, _) = written(1, true);
    let old = sim.image().file("control").unwrap();
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let log = Log::look(&media).unwrap().begin(&[], &LogOptions::small()).unwrap();
    let mut reservation = log.reserve_for_test();
    log.append(PartitionId(0), update(1, None), &[b"newer"], &mut reservation);
    log.force(Lsn::MAX).unwrap();
    let file = sim.open("control", OpenMode::ReadWrite).unwrap();
    write_all_at(&*sim, file, 0, &old, Durability::Volatile).unwrap();
    let error = Log::look(&media).unwrap_err();
    assert!(error.to_string().contains("epoch"), "E1.6: {error}");
}

/// A partition commit was acknowledged with its own partition alone: a gap before it is damage even where no LSN is
/// promised.
#[test]
fn hole_below_recorded_durable_lsn_is_refused() {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let log = Log::create(&media, &LogOptions { partitions: 2, ..LogOptions::small() }, &[]).unwrap();
    let mut reservation = log.reserve_for_test();
    log.append(PartitionId(0), update(1, None), &[b"never written"], &mut reservation);
    let mut offsets = Vec::new();
    for _ in 0..3 {
        let head = RecordHead { partition_commit: true, ..update(2, None) };
        let place = log.append(PartitionId(1), head, &[b"acknowledged"], &mut reservation);
        log.force_partition(Position { partition: PartitionId(1), offset: place.offset }).unwrap();
        offsets.push(place.offset);
    }
    assert_eq!(log.durable_lsn(), Lsn::ZERO);
    let name = &log_files(&sim).into_iter().find(|name| places(&sim, name).iter().any(|&at| at > 4096)).unwrap();
    let before = SimDisk::from_image(sim.image());
    before.corrupt(name, 4096 + offsets[0].get(), Damage::Flip { bit: 0 }).unwrap();
    let error = read(&before).unwrap_err();
    assert!(matches!(&error, LogError::Damaged { file, offset: 4096, .. } if file == name), "E8.2: {error}");
    let newest = SimDisk::from_image(sim.image());
    newest.corrupt(name, 4096 + offsets[2].get(), Damage::Flip { bit: 0 }).unwrap();
    let media: Arc<dyn Media> = Arc::new(newest);
    assert_eq!(lsns(Log::look(&media).unwrap().scan(Lsn::ZERO).unwrap()), [2, 3], "E20.3: the newest block alone");
}

trait ReserveForTest {
    fn reserve_for_test(&self) -> Reservation;
}

impl ReserveForTest for Log {
    fn reserve_for_test(&self) -> Reservation {
        self.reserve(ByteLen(1000), ByteLen(0)).unwrap()
    }
}
