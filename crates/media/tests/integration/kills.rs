//! The disk after a process kill, and the losses of a later power failure.

#![cfg(not(cedrat_shuttle))]

use cedrat_media::{Call, Durability, Fault, FileId, Kill, Loss, Media, OpenMode, SECTOR_LEN, SimDisk, write_all_at};

fn disk_with_file() -> (SimDisk, FileId) {
    let disk = SimDisk::new();
    let file = disk.open("file", OpenMode::Create).unwrap();
    disk.sync_directory("").unwrap();
    (disk, file)
}

/// Returns the disk after a kill at the `at`-th entry, with its one file open.
fn killed(disk: &SimDisk, at: usize, kill: Kill) -> (SimDisk, FileId) {
    let mut cursor = disk.journal().cursor();
    cursor.advance_to(at);
    let disk = cursor.kill(kill);
    let file = disk.open("file", OpenMode::ReadWrite).unwrap();
    (disk, file)
}

fn read(disk: &SimDisk, file: FileId) -> Vec<u8> {
    let mut bytes = vec![0; disk.len(file).unwrap() as usize];
    cedrat_media::read_exact_at(disk, file, 0, &mut bytes).unwrap();
    bytes
}

fn lost(disk: &SimDisk) -> Option<Vec<u8>> {
    let journal = disk.journal();
    let mut cursor = journal.cursor();
    cursor.advance_to(journal.len());
    cursor.image(Loss::Everything).file("file")
}

#[test]
fn killed_writes_are_volatile_until_sync() {
    let (disk, file) = disk_with_file();
    write_all_at(&disk, file, 0, &[1; 100], Durability::Volatile).unwrap();
    let (disk, file) = killed(&disk, disk.journal_len(), Kill::Process(1));
    assert_eq!(read(&disk, file), [1; 100]);
    assert_eq!(lost(&disk).unwrap(), []);
    // Two processes later the result is the same.
    let (disk, file) = killed(&disk, 0, Kill::Process(2));
    assert_eq!((read(&disk, file), lost(&disk).unwrap()), (vec![1; 100], vec![]));
    disk.sync(file).unwrap();
    assert_eq!(lost(&disk).unwrap(), [1; 100]);
}

#[test]
fn killed_sync_may_be_made_again() {
    let (disk, file) = disk_with_file();
    write_all_at(&disk, file, 0, &[1; 100], Durability::Volatile).unwrap();
    disk.sync(file).unwrap();
    let (disk, file) = killed(&disk, disk.journal_len() - 1, Kill::Process(1));
    assert_eq!(lost(&disk).unwrap(), []);
    disk.sync(file).unwrap();
    assert_eq!(lost(&disk).unwrap(), [1; 100]);
}

/// A9: over any number of openings.
#[test]
fn failed_sync_is_forgotten_by_later_openings() {
    let (disk, file) = disk_with_file();
    write_all_at(&disk, file, 0, &[1; 2 * SECTOR_LEN], Durability::Volatile).unwrap();
    disk.sync(file).unwrap();
    let (disk, file) = killed(&disk, disk.journal_len() - 1, Kill::FailedSync(1));
    disk.sync(file).unwrap();
    let (disk, file) = killed(&disk, disk.journal_len(), Kill::Process(1));
    disk.sync(file).unwrap();
    assert_eq!(read(&disk, file), [1; 2 * SECTOR_LEN]);
    assert_eq!(lost(&disk).unwrap(), [], "both syncs lied");
    write_all_at(&disk, file, 0, &[1; SECTOR_LEN], Durability::Volatile).unwrap();
    disk.sync(file).unwrap();
    assert_eq!(lost(&disk).unwrap(), [1; SECTOR_LEN], "what was written again is durable");
}

/// A5: each sector of a failed durable write is present or not; sectors present may be lost later.
#[test]
fn failed_durable_write_is_read_in_part() {
    let (disk, file) = disk_with_file();
    write_all_at(&disk, file, 0, &[1; 2 * SECTOR_LEN], Durability::Durable).unwrap();
    let mut found = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let (disk, file) = killed(&disk, disk.journal_len() - 1, Kill::FailedSync(seed));
        disk.sync(file).unwrap();
        assert_eq!(lost(&disk).unwrap(), []);
        let mut bytes = read(&disk, file);
        bytes.resize(2 * SECTOR_LEN, 0);
        found.insert([bytes[0], bytes[SECTOR_LEN]]);
    }
    assert_eq!(found.len(), 4, "{found:?}");
}

/// A13.
#[test]
fn killed_creation_needs_its_directory_synced() {
    let disk = SimDisk::new();
    let file = disk.open("file", OpenMode::Create).unwrap();
    write_all_at(&disk, file, 0, &[1; 10], Durability::Durable).unwrap();
    let (disk, file) = killed(&disk, disk.journal_len(), Kill::Process(1));
    write_all_at(&disk, file, 0, &[2; 10], Durability::Durable).unwrap();
    assert_eq!(lost(&disk), None);
    disk.sync_directory("").unwrap();
    assert_eq!(lost(&disk).unwrap(), [2; 10]);
}

#[test]
fn kill_names_what_is_unsettled() {
    let (disk, file) = disk_with_file();
    write_all_at(&disk, file, 0, &[1; 10], Durability::Volatile).unwrap();
    disk.inject(Fault::forgetful_sync());
    disk.sync(file).unwrap_err();
    disk.inject(Fault::power_loss(Call::Sync));
    disk.sync(file).unwrap_err();
    let mut cursor = disk.journal().cursor();
    assert!(cursor.unsettled().is_empty() && !cursor.is_syncing());
    cursor.advance();
    assert_eq!(cursor.unsettled(), ["file"], "its name");
    cursor.advance();
    assert!(cursor.unsettled().is_empty());
    while cursor.advance() {}
    assert_eq!(cursor.unsettled(), ["file"]);
    assert!(cursor.is_syncing());
}
