//! The operating system's file system keeps the contract of `Media`.

#![cfg(not(cedrat_shuttle))]

use cedrat_media::{AlignedBuf, BLOCK_LEN, Durability, Media, OpenMode, RealDisk, read_exact_at, write_all_at};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

fn disks() -> Vec<(TempDir, RealDisk)> {
    let make = |real: fn(std::path::PathBuf) -> RealDisk| {
        let directory = TempDir::new().unwrap();
        let disk = real(directory.path().join("store"));
        (directory, disk)
    };
    vec![make(RealDisk::new), make(RealDisk::buffered)]
}

#[test]
fn written_bytes_read_back_at_any_alignment() {
    for (_directory, disk) in disks() {
        let file = disk.open("log/000-000001", OpenMode::Create).unwrap();
        let mut block = AlignedBuf::zeroed(2 * BLOCK_LEN);
        block.fill(7);
        for durability in [Durability::Volatile, Durability::Durable] {
            write_all_at(&disk, file, BLOCK_LEN as u64, &block, durability).unwrap();
            write_all_at(&disk, file, 5000, b"small", durability).unwrap();
        }
        disk.sync(file).unwrap();
        disk.sync_directory("log").unwrap();
        disk.sync_directory("").unwrap();
        assert_eq!(disk.len(file).unwrap(), 3 * BLOCK_LEN as u64);

        let mut read = AlignedBuf::zeroed(3 * BLOCK_LEN);
        read_exact_at(&disk, file, 0, &mut read).unwrap();
        assert!(read[..BLOCK_LEN].iter().all(|&byte| byte == 0));
        assert_eq!(&read[5000..5005], b"small");
        assert!(read[5005..].iter().all(|&byte| byte == 7));
        let mut small = [0; 7];
        read_exact_at(&disk, file, 4999, &mut small).unwrap();
        assert_eq!(&small, b"\x07small\x07");

        let beyond = read_exact_at(&disk, file, 3 * BLOCK_LEN as u64 - 3, &mut small).unwrap_err();
        assert_eq!(beyond.kind(), ErrorKind::UnexpectedEof);
        assert!(beyond.to_string().contains("000-000001") && beyond.to_string().contains("12288"), "{beyond}");
    }
}

/// A program may change its working directory while a store is open, and an operator may rename that of the store. A
/// file created elsewhere would be missing when the store is opened again.
#[test]
fn renamed_directory_keeps_its_files() {
    for (above, disk) in disks() {
        disk.open("control", OpenMode::Create).unwrap();
        let (before, after) = (above.path().join("store"), above.path().join("renamed"));
        std::fs::rename(&before, &after).unwrap();
        for name in ["pages", "log/000000"] {
            let file = disk.open(name, OpenMode::Create).unwrap();
            write_all_at(&disk, file, 0, b"bytes", Durability::Durable).unwrap();
            assert_eq!(std::fs::read(after.join(name)).unwrap(), b"bytes", "E1.10");
        }
        disk.sync_directory("").unwrap();
        disk.sync_directory("log").unwrap();
        assert_eq!(disk.list("").unwrap(), ["control", "pages"]);
        assert_eq!(disk.list("log").unwrap(), ["000000"]);
        let lock = disk.lock("control").unwrap();
        assert!(RealDisk::new(&after).lock("control").is_err(), "E1.10");
        drop(lock);
        disk.remove("pages").unwrap();
        assert!(!after.join("pages").exists() && !before.exists(), "E1.10");
    }
}

#[test]
fn shapes_change() {
    for (_directory, disk) in disks() {
        let file = disk.open("pages", OpenMode::Create).unwrap();
        disk.allocate(file, 0, 1 << 20).unwrap();
        assert_eq!(disk.len(file).unwrap(), 1 << 20);
        write_all_at(&disk, file, 8192, &[1; 8192], Durability::Volatile).unwrap();
        disk.allocate(file, 0, 1 << 20).unwrap();
        disk.punch(file, 8192, 4096).unwrap();
        let mut read = [9; 8192];
        read_exact_at(&disk, file, 8192, &mut read).unwrap();
        assert_eq!((read[0], read[4095], read[4096], read[8191]), (0, 0, 1, 1), "a punched block, a kept block");
        disk.set_len(file, 100).unwrap();
        disk.set_len(file, 4096).unwrap();
        assert_eq!(disk.len(file).unwrap(), 4096);
        assert_eq!(disk.read_at(file, 4096, &mut read).unwrap(), 0, "the end of the file");
    }
}

#[test]
fn names_and_modes_are_kept() {
    for (_directory, disk) in disks() {
        assert_eq!(disk.list("").unwrap(), Vec::<String>::new(), "nothing is there, and nothing was made");
        assert_eq!(disk.open("control", OpenMode::Read).unwrap_err().kind(), ErrorKind::NotFound);
        let file = disk.open("control", OpenMode::Create).unwrap();
        assert_eq!(disk.open("control", OpenMode::Create).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(disk.open("control", OpenMode::ReadWrite).unwrap(), file);
        let reader = disk.open("control", OpenMode::Read).unwrap();
        for refused in [
            disk.write_at(reader, 0, b"x", Durability::Volatile).map(drop),
            disk.set_len(reader, 1),
            disk.allocate(reader, 0, 1),
            disk.punch(reader, 0, 1),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
        disk.open("log/b", OpenMode::Create).unwrap();
        disk.open("log/a", OpenMode::Create).unwrap();
        assert_eq!(disk.list("").unwrap(), ["control"]);
        assert_eq!(disk.list("log").unwrap(), ["a", "b"]);
        disk.remove("control").unwrap();
        assert_eq!(disk.len(file).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(disk.remove("control").unwrap_err().kind(), ErrorKind::NotFound);
        let again = disk.open("control", OpenMode::Create).unwrap();
        assert_ne!(again, file, "the id of a removed file does not come back");
        assert_eq!(disk.open("../control", OpenMode::Read).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_lock_excludes_within_the_process() {
    for (_directory, disk) in disks() {
        assert_eq!(disk.lock("control").unwrap_err().kind(), ErrorKind::NotFound);
        disk.open("control", OpenMode::Create).unwrap();
        let held = disk.lock("control").unwrap();
        let refused = disk.lock("control").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
        assert!(refused.to_string().contains("control"), "{refused}");
        let second = RealDisk::new(disk.directory());
        assert_eq!(second.lock("control").unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(held);
        second.lock("control").unwrap();
    }
}

/// The test below runs itself again, in another process, with the directory in this variable.
const OTHER: &str = "CEDRAT_TEST_LOCK_DIRECTORY";

#[test]
fn a_lock_excludes_another_process() {
    if let Some(directory) = std::env::var_os(OTHER) {
        let refused = RealDisk::new(directory).lock("control").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
        return;
    }
    let (_directory, disk) = disks().remove(0);
    disk.open("control", OpenMode::Create).unwrap();
    let ask_another = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_lock_excludes_another_process"])
            .env(OTHER, disk.directory())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    };
    let held = disk.lock("control").unwrap();
    assert!(ask_another(), "the other process is refused");
    drop(held);
    assert!(!ask_another(), "and it is this lock that it was refused for");
}

/// The directory in which a child process writes with a limit of the file size.
const LIMITED: &str = "CEDRAT_TEST_LIMITED_DIRECTORY";

/// E16.4c: the default action of the signal ends the process.
#[test]
fn file_size_limit_kills_no_process() {
    let Some(directory) = std::env::var_os(LIMITED) else {
        let directory = TempDir::new().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "file_size_limit_kills_no_process", "--nocapture"])
            .env(LIMITED, directory.path())
            .output()
            .unwrap();
        assert!(child.status.success(), "E16.4c: {child:?}");
        return;
    };
    const LIMIT: u64 = 1 << 20;
    let maximum = getrlimit(Resource::Fsize).maximum;
    for (disk, name) in [(RealDisk::new(&directory), "direct"), (RealDisk::buffered(&directory), "buffered")] {
        let limit = |current| setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
        limit(Some(LIMIT));
        let file = disk.open(name, OpenMode::Create).unwrap();
        let block = AlignedBuf::zeroed(BLOCK_LEN);
        disk.allocate(file, 0, LIMIT).unwrap();
        write_all_at(&disk, file, LIMIT - BLOCK_LEN as u64, &block, Durability::Durable).unwrap();
        disk.set_len(file, LIMIT).unwrap();
        let refused = [
            disk.write_at(file, LIMIT, &block, Durability::Durable).map(drop),
            disk.write_at(file, LIMIT - 1, b"xy", Durability::Volatile).map(drop),
            disk.write_at(file, u64::MAX, b"x", Durability::Volatile).map(drop),
            disk.allocate(file, LIMIT, 1),
            disk.set_len(file, LIMIT + 1),
        ];
        for refused in refused {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::FileTooLarge, "{refused}");
            assert!(refused.to_string().ends_with("(ulimit -f)"), "{refused}");
        }
        // A limit that changes counts from the next call on.
        limit(maximum);
        disk.set_len(file, 2 * LIMIT).unwrap();
        limit(Some(LIMIT));
        disk.set_len(file, 2 * LIMIT).unwrap();
        disk.set_len(file, LIMIT + 1).unwrap();
    }
}

#[test]
fn a_full_file_system_says_so() {
    // A file system on which every write finds no space.
    let disk = RealDisk::buffered("/dev");
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let file = disk.open("full", OpenMode::ReadWrite).unwrap();
    let error = disk.write_at(file, 0, b"x", Durability::Volatile).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    let message = error.to_string();
    assert!(message.contains("/dev/full at offset 0") && message.contains("make space"), "{message}");
}

/// A process has few descriptors, and a store many files.
#[test]
fn file_opened_twice_shares_its_descriptors() {
    for (_directory, disk) in disks() {
        let descriptors = |path: &str| {
            let open = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
            open.filter(|link| std::fs::read_link(link).is_ok_and(|file| file == Path::new(path))).count()
        };
        let created = disk.open("new", OpenMode::Create).unwrap();
        let path = disk.path(created);
        let pair = descriptors(&path);
        let read = disk.open("new", OpenMode::Read).unwrap();
        assert_eq!(descriptors(&path), pair, "read behind a change");

        let found = RealDisk::new(disk.directory());
        drop(disk);
        let looked_at = found.open("new", OpenMode::Read).unwrap();
        let pair = descriptors(&path);
        let changed = found.open("new", OpenMode::ReadWrite).unwrap();
        assert_eq!(descriptors(&path), pair, "changed behind a read");
        assert!(created != read && looked_at != changed);
        let refused = found.write_at(looked_at, 0, b"x", Durability::Volatile).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        write_all_at(&found, changed, 0, b"x", Durability::Volatile).unwrap();
        let mut byte = [0];
        read_exact_at(&found, looked_at, 0, &mut byte).unwrap();
        assert_eq!(&byte, b"x");
    }
}
