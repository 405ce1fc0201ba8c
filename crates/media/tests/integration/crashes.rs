//! Possible and impossible losses of a crash.

#![cfg(not(cedrat_shuttle))]

use cedrat_media::{
    BLOCK_LEN, Durability, FileId, Image, Journal, Loss, Media, OpenMode, SECTOR_LEN, SimDisk, write_all_at,
};
use std::collections::BTreeSet;

const LOSSES: [Loss; 3] = [Loss::Everything, Loss::Nothing, Loss::Random(7)];

fn disk_with_file() -> (SimDisk, FileId) {
    let disk = SimDisk::new();
    let file = disk.open("file", OpenMode::Create).unwrap();
    disk.sync_directory("").unwrap();
    (disk, file)
}

fn write(disk: &SimDisk, file: FileId, offset: u64, bytes: &[u8], durability: Durability) {
    write_all_at(disk, file, offset, bytes, durability).unwrap();
}

fn image(journal: &Journal, at: usize, loss: Loss) -> Image {
    let mut cursor = journal.cursor();
    cursor.advance_to(at);
    cursor.image(loss)
}

fn last(journal: &Journal, loss: Loss) -> Vec<u8> {
    image(journal, journal.len(), loss).file("file").expect("its name is durable")
}

/// Returns all images that some seed gives.
fn every(journal: &Journal, at: usize, loss: impl Fn(u64) -> Loss) -> BTreeSet<Vec<u8>> {
    let mut cursor = journal.cursor();
    cursor.advance_to(at);
    (0..3000).map(|seed| cursor.image(loss(seed)).file("file").unwrap_or_default()).collect()
}

#[test]
fn a_sync_keeps_what_ended_before_it() {
    let (disk, file) = disk_with_file();
    write(&disk, file, 0, &[1; 100], Durability::Volatile);
    disk.sync(file).unwrap();
    write(&disk, file, 0, &[2; 50], Durability::Volatile);
    let journal = disk.journal();
    assert_eq!(last(&journal, Loss::Everything), [1; 100]);
    assert_eq!(last(&journal, Loss::Nothing), [[2; 50], [1; 50]].concat());
    assert_eq!(image(&journal, journal.len() - 3, Loss::Everything).file("file").unwrap(), b"");
}

#[test]
fn durable_write_is_not_overwritten_by_older() {
    let (disk, file) = disk_with_file();
    write(&disk, file, 0, &[1; 3 * SECTOR_LEN], Durability::Volatile);
    write(&disk, file, SECTOR_LEN as u64, &[2; SECTOR_LEN], Durability::Durable);
    let journal = disk.journal();
    let images = every(&journal, journal.len(), Loss::Random);
    assert_eq!(images.len(), 4, "the two sectors beside it are free");
    for bytes in images {
        assert_eq!(bytes[SECTOR_LEN..2 * SECTOR_LEN], [2; SECTOR_LEN]);
    }
}

#[test]
fn durable_write_in_flight_may_tear() {
    let (disk, file) = disk_with_file();
    write(&disk, file, 0, &[1; 2 * SECTOR_LEN], Durability::Durable);
    let journal = disk.journal();
    assert_eq!(every(&journal, journal.len(), Loss::Random).len(), 1);
    assert_eq!(every(&journal, journal.len() - 1, Loss::Random).len(), 4);
}

#[test]
fn any_subset_of_sectors_may_survive() {
    let (disk, file) = disk_with_file();
    write(&disk, file, 0, &[0; 2 * SECTOR_LEN], Durability::Durable);
    write(&disk, file, 0, &[1; 2 * SECTOR_LEN], Durability::Volatile);
    write(&disk, file, 0, &[2; SECTOR_LEN], Durability::Volatile);
    let journal = disk.journal();
    let images = every(&journal, journal.len(), Loss::Random);
    let expected: BTreeSet<_> = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
        .map(|(first, second): (u8, u8)| [[first; SECTOR_LEN], [second; SECTOR_LEN]].concat())
        .into();
    assert_eq!(images, expected);
    let untorn = every(&journal, journal.len(), Loss::Whole);
    assert_eq!(untorn.len(), 4, "whole writes only: {{}}, {{1}}, {{2}}, {{1, 2}}");
    assert_eq!(every(&journal, journal.len(), Loss::Subset), untorn);
}

#[test]
fn only_the_newest_write_is_torn() {
    let (disk, file) = disk_with_file();
    write(&disk, file, 0, &[1; BLOCK_LEN], Durability::Volatile);
    write(&disk, file, 4096, &[2; BLOCK_LEN], Durability::Volatile);
    let bytes = last(&disk.journal(), Loss::TornLast(0b0000_0101));
    let sectors: Vec<u8> = bytes.chunks(SECTOR_LEN).map(|sector| sector[0]).collect();
    assert_eq!(sectors, [1, 1, 1, 1, 1, 1, 1, 1, 2, 0, 2]);
}

/// `threads.rs` shows that it does not cover a write which ends after it began.
#[test]
fn unfinished_sync_makes_nothing_durable() {
    let (disk, file) = disk_with_file();
    write(&disk, file, 0, &[1; SECTOR_LEN], Durability::Volatile);
    disk.sync(file).unwrap();
    let journal = disk.journal();
    assert_eq!(every(&journal, journal.len() - 1, Loss::Random).len(), 2);
    assert_eq!(every(&journal, journal.len(), Loss::Random).len(), 1);
}

#[test]
fn names_are_volatile_until_directory_sync() {
    let disk = SimDisk::new();
    let file = disk.open("log/a", OpenMode::Create).unwrap();
    write(&disk, file, 0, &[1; 10], Durability::Durable);
    assert_eq!(image(&disk.journal(), 3, Loss::Everything).names().count(), 0);
    disk.sync_directory("").unwrap();
    assert_eq!(image(&disk.journal(), 4, Loss::Everything).names().count(), 0, "another directory was synced");
    disk.sync_directory("log").unwrap();
    disk.remove("log/a").unwrap();
    let journal = disk.journal();
    assert_eq!(image(&journal, 6, Loss::Everything).file("log/a").unwrap(), [1; 10]);
    assert_eq!(image(&journal, 6, Loss::Nothing).names().count(), 0);
    disk.sync_directory("log").unwrap();
    assert_eq!(image(&disk.journal(), 7, Loss::Everything).names().count(), 0);
}

#[test]
fn length_changes_are_volatile_until_file_sync() {
    let (disk, file) = disk_with_file();
    disk.allocate(file, 0, 8192).unwrap();
    assert_eq!(last(&disk.journal(), Loss::Everything), b"");
    disk.sync(file).unwrap();
    assert_eq!(last(&disk.journal(), Loss::Everything), [0; 8192]);
    write(&disk, file, 0, &[1; 8192], Durability::Durable);
    disk.punch(file, 0, 4096).unwrap();
    disk.set_len(file, 6000).unwrap();
    let journal = disk.journal();
    assert_eq!(last(&journal, Loss::Everything), [1; 8192]);
    assert_eq!(last(&journal, Loss::Nothing), [[0; 4096].as_slice(), &[1; 1904]].concat());
    disk.sync(file).unwrap();
    assert_eq!(last(&disk.journal(), Loss::Everything), [[0; 4096].as_slice(), &[1; 1904]].concat());
}

#[test]
fn older_truncation_spares_durable_write() {
    let (disk, file) = disk_with_file();
    write(&disk, file, 0, &[1; 8192], Durability::Durable);
    disk.set_len(file, 0).unwrap();
    write(&disk, file, 4096, &[2; 4096], Durability::Durable);
    let journal = disk.journal();
    for loss in LOSSES {
        assert_eq!(last(&journal, loss), [[0; 4096], [2; 4096]].concat(), "{loss:?}");
    }
}

#[test]
fn marks_stand_between_the_entries() {
    let (disk, file) = disk_with_file();
    disk.mark(1);
    write(&disk, file, 0, &[1; 10], Durability::Durable);
    disk.mark(2);
    let journal = disk.journal();
    let labels = |at| journal.marks_before(at).iter().map(|mark| mark.label).collect::<Vec<_>>();
    assert_eq!(labels(journal.len() - 3), [0u64; 0]);
    assert_eq!(labels(journal.len() - 2), [1]);
    assert_eq!(labels(journal.len() - 1), [1]);
    assert_eq!(labels(journal.len()), [1, 2], "the acknowledgement came before the power failed");
}

#[test]
fn disk_after_crash_can_crash_again() {
    let (disk, file) = disk_with_file();
    write(&disk, file, 0, &[1; 4096], Durability::Durable);
    let second = disk.cut_power(Loss::Everything);
    assert!(disk.len(file).is_err(), "the first one is off");
    assert!(second.journal().is_empty(), "its history begins with the crash");
    let file = second.open("file", OpenMode::ReadWrite).unwrap();
    write(&second, file, 0, &[2; 512], Durability::Volatile);
    let journal = second.journal();
    assert_eq!(last(&journal, Loss::Everything), [1; 4096]);
    assert_eq!(last(&journal, Loss::Nothing)[..513], [[2; 512].as_slice(), &[1]].concat());
}
