//! Unit tests of the real disk.

use super::*;
use crate::{AlignedBuf, read_exact_at, write_all_at};
use std::cell::RefCell;

std::thread_local! {
    /// Directories that this thread has made durable.
    static SYNCED: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
    /// Called by this thread each time when it has locked a file.
    static WHEN_LOCKED: RefCell<Option<fn(&Path)>> = const { RefCell::new(None) };
}

pub(super) fn note_locked(path: &Path) {
    WHEN_LOCKED.with_borrow(|act| act.iter().for_each(|act| act(path)));
}

pub(super) fn note_synced(directory: &OwnedFd) {
    let path = fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    SYNCED.with_borrow_mut(|synced| synced.extend(path));
}

/// A process that was killed may have made the directory of the medium, or the one above it, and not its name durable.
#[test]
fn directory_of_killed_process_becomes_durable() {
    let above = tempfile::tempdir().unwrap();
    let above = above.path().canonicalize().unwrap();
    let synced = || SYNCED.take();
    fs::create_dir_all(above.join("new/store")).unwrap();
    let disk = RealDisk::new(above.join("new/store"));
    synced();
    disk.sync_directory("").unwrap();
    assert!(synced().contains(&above.join("new")), "the name of the medium's directory is durable");

    fs::create_dir(above.join("other")).unwrap();
    RealDisk::new(above.join("other/store")).open("file", OpenMode::Create).unwrap();
    let durable = synced();
    assert!(durable.contains(&above.join("other")) && durable.contains(&above), "{durable:?}");
}

/// Above the directory of a medium may be one of an automounter or of the kernel, which has no names to make durable.
#[test]
fn medium_below_foreign_directories_is_durable() {
    let proc = Path::new("/proc");
    assert!(sync_path(CWD, proc, proc).is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput));
    for path in ["/proc/self", "/", ""].map(Path::new) {
        sync_parent(CWD, path, path).unwrap();
    }
}

/// Wherever the file system has direct I/O, aligned calls use a descriptor that bypasses the operating system's cache.
#[test]
fn aligned_calls_bypass_the_cache() {
    let directory = tempfile::tempdir().unwrap();
    let (direct, buffered) = (RealDisk::new(directory.path()), RealDisk::buffered(directory.path()));
    let id = direct.open("file", OpenMode::Create).unwrap();
    let block = AlignedBuf::zeroed(BLOCK_LEN);
    let file = direct.file(id).unwrap();
    let allowed = rustix::fs::open(&file.path, OFlags::RDWR | OFlags::DIRECT, Mode::empty()).is_ok();
    assert_eq!(direct.is_direct(id), allowed);
    let bypassing = file.direct_for(0, &block);
    assert_eq!(bypassing.is_some(), allowed);
    if let Some(descriptor) = bypassing {
        assert!(rustix::fs::fcntl_getfl(descriptor).unwrap().contains(OFlags::DIRECT));
    }
    assert!(file.direct_for(1, &block).is_none() && file.direct_for(0, &block[1..]).is_none());
    let id = buffered.open("file", OpenMode::ReadWrite).unwrap();
    assert!(!buffered.is_direct(id) && buffered.file(id).unwrap().direct_for(0, &block).is_none());
}

/// A daemon closes its standard descriptors, and libraries in it write messages to them nevertheless.
#[test]
fn standard_descriptors_are_not_taken() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, b"bytes").unwrap();
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let open = || open_file(CWD, &path, flags, Mode::empty()).unwrap();
    let (first, second) = (open(), open());
    assert!(first.as_raw_fd() >= DESCRIPTOR_MIN, "E1.11");
    let least = first.as_raw_fd().max(second.as_raw_fd()) + 1;
    let moved = at_least(first, least).unwrap();
    assert!(moved.as_raw_fd() >= least, "E1.11");
    assert!(rustix::io::fcntl_getfd(&moved).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    let mut bytes = [0; 5];
    rustix::io::pread(&moved, &mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"bytes");
    let kept = second.as_raw_fd();
    assert_eq!(at_least(second, kept).unwrap().as_raw_fd(), kept);
}

/// A forked child has the same open files, and another process id.
#[test]
fn forked_child_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(directory.path());
    let file = disk.open("file", OpenMode::Create).unwrap();
    let child = RealDisk { process: disk.process + 1, files: disk.files, ..RealDisk::new(directory.path()) };
    let refused = [
        child.open("file", OpenMode::Read).map(drop),
        child.write_at(file, 0, b"x", Durability::Volatile).map(drop),
        child.sync(file),
        child.lock("file").map(drop),
        child.remove("file"),
    ];
    for refused in refused {
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("was forked from it"), "E1.9: {message}");
    }
}

#[test]
fn forked_child_keeps_no_lock() {
    let directory = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(directory.path());
    disk.open("file", OpenMode::Create).unwrap();
    let path = directory.path().join("file");
    let lock = |path: &Path| Holder::lock(CWD, path.to_str().unwrap(), path);
    let owner = lock(&path).unwrap();
    let share = |process| Holder { file: owner.file.try_clone().unwrap(), process };
    drop(share(owner.process + 1));
    assert!(disk.lock("file").is_err(), "E1.9: a child that ends leaves its parent the lock");
    let child = share(owner.process + 1);
    drop(owner);
    disk.lock("file").expect("the child outlives its parent's opening");
    drop(child);
}

#[test]
fn too_long_file_names_limit() {
    let directory = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(directory.path());
    let file = disk.open("file", OpenMode::Create).unwrap();
    let last_block = i64::MAX as u64 / BLOCK_LEN as u64 * BLOCK_LEN as u64;
    let refused = disk.allocate(file, last_block, 2 * BLOCK_LEN as u64).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    assert!(refused.to_string().ends_with("(ulimit -f)"), "{refused}");
}

#[test]
fn named_pipe_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    // With this other end, an opening that is not refused does not wait.
    let _other = rustix::fs::open(&path, OFlags::RDWR, Mode::empty()).unwrap();
    let disk = RealDisk::new(directory.path());
    for mode in [OpenMode::Read, OpenMode::ReadWrite] {
        let refused = disk.open("pipe", mode).unwrap_err();
        assert!(refused.to_string().contains("it is a named pipe"), "{refused}");
    }
}

/// A lock of a file that has no name any more excludes nothing.
#[test]
fn deleted_file_is_not_locked() {
    let directory = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(directory.path());
    disk.open("file", OpenMode::Create).unwrap();
    let path = directory.path().join("file");
    let late = Holder::lock(CWD, path.to_str().unwrap(), &path).unwrap();
    let is_still_there = || late.is_still_at(CWD, path.to_str().unwrap(), &path).unwrap();
    assert!(is_still_there());
    disk.remove("file").unwrap();
    assert!(!is_still_there());
    disk.open("file", OpenMode::Create).unwrap();
    assert!(!is_still_there());
    disk.lock("file").unwrap();
}

#[test]
fn file_replaced_again_and_again_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(directory.path());
    disk.open("file", OpenMode::Create).unwrap();
    WHEN_LOCKED.set(Some(|path| {
        let new = path.with_extension("new");
        fs::write(&new, b"").unwrap();
        fs::rename(new, path).unwrap();
    }));
    let refused = disk.lock("file").unwrap_err();
    WHEN_LOCKED.set(None);
    assert_ne!(refused.kind(), io::ErrorKind::WouldBlock, "no other opening holds it");
    assert!(refused.to_string().contains("was replaced 100 times"), "{refused}");
    disk.lock("file").unwrap();
}

/// E1.10b.
#[test]
fn hard_link_is_only_read() {
    let directory = tempfile::tempdir().unwrap();
    let (file, other) = (directory.path().join("file"), directory.path().join("other"));
    fs::write(&file, b"bytes").unwrap();
    fs::hard_link(&file, &other).unwrap();
    let disk = RealDisk::new(directory.path());
    let read = disk.open("file", OpenMode::Read).unwrap();
    assert_eq!(disk.len(read).unwrap(), 5);
    let refused = disk.open("file", OpenMode::ReadWrite).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("file: another hard link leads to the same file"), "{refused}");
    fs::remove_file(other).unwrap();
    disk.open("file", OpenMode::ReadWrite).unwrap();
}

/// E1.10a: the directories of a store may be on several disks; its files are where their names are.
#[test]
fn linked_file_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = |from: &Path, to: &str| std::os::unix::fs::symlink(from, directory.path().join(to)).unwrap();
    fs::write(elsewhere.path().join("file"), b"bytes").unwrap();
    link(&elsewhere.path().join("file"), "file");
    link(&elsewhere.path().join("missing"), "dangling");
    link(elsewhere.path(), "folder");
    let linked = elsewhere.path().join("store");
    std::os::unix::fs::symlink(directory.path(), &linked).unwrap();
    for root in [directory.path(), &linked] {
        let disk = RealDisk::new(root);
        assert_eq!(disk.list("").unwrap(), ["dangling", "file"]);
        for name in ["file", "dangling"] {
            let refused = [
                disk.open(name, OpenMode::Read).map(drop),
                disk.open(name, OpenMode::ReadWrite).map(drop),
                disk.lock(name).map(drop),
            ];
            for refused in refused {
                let refused = refused.unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
                assert!(refused.to_string().contains(&format!("{name}: it is a symbolic link")), "{refused}");
            }
            let exists = disk.open(name, OpenMode::Create).unwrap_err();
            assert_eq!(exists.kind(), io::ErrorKind::AlreadyExists, "nothing is created through it");
        }
        assert_eq!(disk.list("folder").unwrap(), ["file"]);
        let file = disk.open("folder/file", OpenMode::Read).unwrap();
        assert_eq!(disk.len(file).unwrap(), 5);
        disk.lock("folder/file").unwrap();
    }
    assert!(!elsewhere.path().join("missing").exists());
}

/// The fallback for file systems that can neither reserve nor punch, of which none is available here.
#[test]
fn zeros_can_be_written_instead() {
    let directory = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(directory.path());
    let id = disk.open("file", OpenMode::Create).unwrap();
    write_all_at(&disk, id, 0, &[1; 100], Durability::Volatile).unwrap();
    let file = disk.file(id).unwrap();
    file.write_zeros(50, 2 * ZEROS_LEN + 50).unwrap();
    assert_eq!(file.len().unwrap(), 2 * ZEROS_LEN + 50);
    let mut bytes = [7; 200];
    read_exact_at(&disk, id, 0, &mut bytes).unwrap();
    assert_eq!(bytes, *[[1; 50].as_slice(), &[0; 150]].concat());
    file.write_zeros(100, 50).unwrap();
    assert_eq!(file.len().unwrap(), 2 * ZEROS_LEN + 50, "an empty range is nothing");
}
