//! Every kind of fault of a simulated disk, seen from both sides: the result of the call, and the state after a
//! crash.

#![cfg(not(cedrat_shuttle))]

use cedrat_media::{
    BLOCK_LEN, Call, Damage, Durability, Fault, FileId, Loss, Media, OpenMode, SECTOR_LEN, SimDisk, read_exact_at,
    write_all_at,
};
use std::collections::BTreeSet;
use std::io::ErrorKind;

const SECTOR: u64 = SECTOR_LEN as u64;

fn disk_with_file() -> (SimDisk, FileId) {
    let disk = SimDisk::new();
    let file = disk.open("file", OpenMode::Create).unwrap();
    disk.sync_directory("").unwrap();
    (disk, file)
}

fn write(disk: &SimDisk, file: FileId, offset: u64, bytes: &[u8]) {
    write_all_at(disk, file, offset, bytes, Durability::Volatile).unwrap();
}

fn read(disk: &SimDisk, file: FileId, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    read_exact_at(disk, file, offset, &mut bytes).unwrap();
    bytes
}

fn after_crash(disk: &SimDisk, loss: Loss) -> Vec<u8> {
    let journal = disk.journal();
    let mut cursor = journal.cursor();
    cursor.advance_to(journal.len());
    cursor.image(loss).file("file").unwrap()
}

#[test]
fn the_nth_call_fails_once() {
    let (disk, file) = disk_with_file();
    disk.inject(Fault::error(Call::Write, ErrorKind::TimedOut).nth(2));
    write(&disk, file, 0, b"1");
    let error = disk.write_at(file, 1, b"2", Durability::Volatile).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.to_string().contains("file"), "{error}");
    write(&disk, file, 1, b"3");
    assert_eq!(read(&disk, file, 0, 2), b"13");
}

#[test]
fn every_call_from_nth_on_fails() {
    let (disk, file) = disk_with_file();
    let other = disk.open("log/other", OpenMode::Create).unwrap();
    disk.inject(Fault::error(Call::Any, ErrorKind::Other).nth(2).of("log/").permanent());
    assert!(disk.len(other).is_ok());
    for _ in 0..3 {
        assert!(disk.len(other).is_err() && disk.sync(other).is_err() && disk.remove("log/other").is_err());
        assert!(disk.open("log/other", OpenMode::Read).is_err() && disk.read_at(other, 0, &mut [0]).is_err());
        assert!(disk.len(file).is_ok(), "the other file is well");
    }
    disk.clear_faults();
    assert!(disk.len(other).is_ok());
}

#[test]
fn every_kind_of_call_can_fail() {
    let (disk, file) = disk_with_file();
    let kinds = [
        Call::Open,
        Call::Lock,
        Call::List,
        Call::Remove,
        Call::SyncDirectory,
        Call::Len,
        Call::Read,
        Call::Write,
        Call::Sync,
        Call::Allocate,
        Call::Punch,
        Call::SetLen,
    ];
    let all = |disk: &SimDisk| {
        let outcomes = [
            disk.open("file", OpenMode::Read).is_err(),
            disk.lock("file").is_err(),
            disk.list("").is_err(),
            disk.remove("none").err().is_some_and(|error| error.kind() != ErrorKind::NotFound),
            disk.sync_directory("").is_err(),
            disk.len(file).is_err(),
            disk.read_at(file, 0, &mut [0]).is_err(),
            disk.write_at(file, 0, b"x", Durability::Durable).is_err(),
            disk.sync(file).is_err(),
            disk.allocate(file, 0, 1).is_err(),
            disk.punch(file, 0, 1).is_err(),
            disk.set_len(file, 1).is_err(),
        ];
        outcomes.iter().positions()
    };
    assert_eq!(all(&disk), []);
    for (index, kind) in kinds.into_iter().enumerate() {
        disk.inject(Fault::error(kind, ErrorKind::Other));
        assert_eq!(all(&disk), [index], "{kind:?}");
    }
}

trait Positions {
    fn positions(self) -> Vec<usize>;
}

impl<'a, I: Iterator<Item = &'a bool>> Positions for I {
    fn positions(self) -> Vec<usize> {
        self.enumerate().filter_map(|(index, &is)| is.then_some(index)).collect()
    }
}

#[test]
fn a_failed_write_may_have_happened() {
    let (disk, file) = disk_with_file();
    write_all_at(&disk, file, 0, &[1; 2 * SECTOR_LEN], Durability::Durable).unwrap();
    disk.inject(Fault::error(Call::Write, ErrorKind::Other));
    disk.write_at(file, 0, &[2; 2 * SECTOR_LEN], Durability::Durable).unwrap_err();
    disk.sync(file).unwrap();
    let images: BTreeSet<_> = (0..500).map(|seed| after_crash(&disk, Loss::Random(seed))).collect();
    assert_eq!(images.len(), 4, "not even a sync says what became of it");
}

#[test]
fn failed_sync_may_repeat_on_forgiving_disk() {
    let (disk, file) = disk_with_file();
    write(&disk, file, 0, &[1; 10]);
    disk.inject(Fault::error(Call::Sync, ErrorKind::Other));
    disk.sync(file).unwrap_err();
    assert_eq!(after_crash(&disk, Loss::Everything), b"");
    disk.sync(file).unwrap();
    assert_eq!(after_crash(&disk, Loss::Everything), [1; 10]);
}

/// The case for W6.
#[test]
fn forgetful_sync_fails_then_falsely_succeeds() {
    let (disk, file) = disk_with_file();
    write_all_at(&disk, file, 0, &[1; 3 * SECTOR_LEN], Durability::Durable).unwrap();
    write(&disk, file, 0, &[2; 3 * SECTOR_LEN]);
    disk.inject(Fault::forgetful_sync());
    disk.sync(file).unwrap_err();
    disk.sync(file).unwrap();
    assert_eq!(read(&disk, file, 0, 3 * SECTOR_LEN), [2; 3 * SECTOR_LEN], "the cache hides it");
    assert_eq!(after_crash(&disk, Loss::Everything), [1; 3 * SECTOR_LEN], "the crash shows it");
    assert_eq!(after_crash(&disk, Loss::Nothing), [2; 3 * SECTOR_LEN], "or the bytes had got there after all");

    write(&disk, file, SECTOR, &[3; SECTOR_LEN]);
    disk.sync(file).unwrap();
    let expected = [[1; SECTOR_LEN], [3; SECTOR_LEN], [1; SECTOR_LEN]].concat();
    assert_eq!(after_crash(&disk, Loss::Everything), expected, "what is written again is synced again");
    let expected = [[2; SECTOR_LEN], [3; SECTOR_LEN], [2; SECTOR_LEN]].concat();
    assert_eq!(after_crash(&disk, Loss::Nothing), expected, "and old bytes do not come over it");
}

#[test]
fn space_runs_out_and_comes_back() {
    let (disk, file) = disk_with_file();
    let block = BLOCK_LEN as u64;
    disk.set_capacity(Some(4 * block));
    disk.allocate(file, 0, 2 * block).unwrap();
    let other = disk.open("other", OpenMode::Create).unwrap();
    let full = disk.allocate(other, 0, 3 * block).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    assert_eq!(disk.len(other).unwrap(), 0, "and nothing was changed");
    assert_eq!(disk.write_at(other, 100, &[1; 3 * BLOCK_LEN], Durability::Volatile).unwrap(), 2 * BLOCK_LEN - 100);
    let full = disk.write_at(other, 2 * block, b"x", Durability::Durable).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    assert_eq!(disk.space(), 4 * block);

    write(&disk, file, 0, &[2; 2 * BLOCK_LEN]);
    write(&disk, other, 0, &[2; 2 * BLOCK_LEN]);
    disk.punch(file, 0, block).unwrap();
    write(&disk, other, 2 * block, b"x");
    disk.remove("other").unwrap();
    assert_eq!(disk.space(), block);
    let full = disk.allocate(file, 0, 4 * block).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull, "A10a");
    disk.allocate(file, 2 * block, 2 * block).unwrap();
    disk.allocate(file, 0, block).unwrap();
}

#[test]
fn short_reads_and_writes_finally_complete() {
    let bytes: Vec<u8> = (0..100 * SECTOR_LEN).map(|index| (index / 7) as u8).collect();
    let lengths = |seed| {
        let (disk, file) = disk_with_file();
        disk.shorten(Some(seed));
        write(&disk, file, 300, &bytes);
        assert_eq!(read(&disk, file, 300, bytes.len()), bytes);
        let mut buffer = vec![0; bytes.len()];
        (0..50).map(|_| disk.read_at(file, 0, &mut buffer).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(lengths(1), lengths(1));
    assert_ne!(lengths(1), lengths(2));
    assert!(lengths(1).iter().any(|&len| len < bytes.len()) && lengths(1).iter().all(|&len| len > 0));
}

#[test]
fn bit_flips_once_and_permanently() {
    let (disk, file) = disk_with_file();
    write(&disk, file, 0, &[0b1000; 1000]);
    disk.sync(file).unwrap();
    disk.corrupt("file", 700, Damage::Flip { bit: 3 }).unwrap();
    let mut expected = [0b1000; 1000];
    expected[700] = 0;
    assert_eq!(read(&disk, file, 0, 1000), expected);
    assert_eq!(after_crash(&disk, Loss::Everything), expected);
    assert_eq!(disk.corrupt("file", 1000, Damage::Stale).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(disk.corrupt("none", 0, Damage::Stale).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn sectors_become_stale_or_misplaced() {
    let (disk, file) = disk_with_file();
    write(&disk, file, 0, &[1; 4 * SECTOR_LEN]);
    write(&disk, file, SECTOR, &[2; SECTOR_LEN]);
    write(&disk, file, 3 * SECTOR, &[3; SECTOR_LEN]);
    disk.sync(file).unwrap();
    disk.corrupt("file", SECTOR + 5, Damage::Stale).unwrap();
    disk.corrupt("file", 3 * SECTOR, Damage::Misdirected { to: 10 }).unwrap();
    let expected = [[3; SECTOR_LEN], [1; SECTOR_LEN], [1; SECTOR_LEN], [1; SECTOR_LEN]].concat();
    assert_eq!(after_crash(&disk, Loss::Everything), expected);
    assert_eq!(read(&disk, file, 0, 4 * SECTOR_LEN), expected);
}

#[test]
fn writes_are_lost_and_misdirected() {
    let (disk, file) = disk_with_file();
    write(&disk, file, 0, &[1; 3 * SECTOR_LEN]);
    disk.inject(Fault::lost_write());
    disk.inject(Fault::misdirected_write(2 * SECTOR).nth(2));
    write(&disk, file, 0, &[2; SECTOR_LEN]);
    write(&disk, file, SECTOR, &[3; SECTOR_LEN]);
    disk.sync(file).unwrap();
    let expected = [[1; SECTOR_LEN], [1; SECTOR_LEN], [3; SECTOR_LEN]].concat();
    assert_eq!(after_crash(&disk, Loss::Everything), expected);
}

#[test]
fn after_a_power_loss_nothing_answers() {
    let (disk, file) = disk_with_file();
    disk.inject(Fault::power_loss(Call::Any).nth(3));
    write_all_at(&disk, file, 0, &[1; 2 * SECTOR_LEN], Durability::Durable).unwrap();
    disk.len(file).unwrap();
    disk.write_at(file, 0, &[2; 2 * SECTOR_LEN], Durability::Durable).unwrap_err();
    disk.clear_faults();
    assert!(disk.len(file).is_err() && disk.open("file", OpenMode::Read).is_err() && disk.sync(file).is_err());
    let images: BTreeSet<_> = (0..500).map(|seed| after_crash(&disk, Loss::Random(seed))).collect();
    assert_eq!(images.len(), 4, "the write that was cut off may be torn");
}

#[test]
fn power_loss_is_possible_at_every_call() {
    let workload = |disk: &SimDisk| {
        let file = disk.open("file", OpenMode::Create)?;
        disk.sync_directory("")?;
        for round in 0..5 {
            disk.write_at(file, round * 10, &[1; 10], Durability::Volatile)?;
            disk.sync(file)?;
        }
        disk.len(file)
    };
    let whole = SimDisk::new();
    assert_eq!(workload(&whole).unwrap(), 50);
    for at in 1..=whole.calls() {
        let disk = SimDisk::new();
        disk.inject(Fault::power_loss(Call::Any).nth(at));
        workload(&disk).unwrap_err();
        assert_eq!(disk.calls(), at);
    }
}

#[test]
fn names_modes_locks_match_real_disk() {
    let (disk, file) = disk_with_file();
    assert_eq!(disk.open("file", OpenMode::Create).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(disk.open("none", OpenMode::Read).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.open("file", OpenMode::ReadWrite).unwrap(), file);
    let reader = disk.open("file", OpenMode::Read).unwrap();
    let refused = disk.write_at(reader, 0, b"x", Durability::Volatile).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    disk.open("log/b", OpenMode::Create).unwrap();
    disk.open("log/a", OpenMode::Create).unwrap();
    assert_eq!(disk.list("").unwrap(), ["file"]);
    assert_eq!(disk.list("log").unwrap(), ["a", "b"]);
    let held = disk.lock("file").unwrap();
    assert_eq!(disk.lock("file").unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(held);
    disk.lock("file").unwrap();
    disk.remove("file").unwrap();
    assert_eq!(disk.len(file).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.lock("file").unwrap_err().kind(), ErrorKind::NotFound);
    assert_ne!(disk.open("file", OpenMode::Create).unwrap(), file);
    let far = disk.open("file", OpenMode::ReadWrite).unwrap();
    assert_eq!(disk.set_len(far, u64::MAX).unwrap_err().kind(), ErrorKind::FileTooLarge);
    assert_eq!(disk.allocate(far, u64::MAX, 9).unwrap_err().kind(), ErrorKind::FileTooLarge);
}
