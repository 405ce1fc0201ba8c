//! The file system of the operating system.
//!
//! A file is opened twice if the file system allows direct I/O: aligned calls bypass the operating system's cache,
//! straight between the caller's buffer and the device; all others go through the cache. Both descriptors refer to
//! the same inode, and one `fdatasync` covers both. (Bouncing small writes through an aligned copy was the
//! alternative: it must read the rest of the block first, and two neighbours that do so concurrently lose one's
//! bytes.)

use crate::durable_calls::{DurableCalls, Reported};
use crate::names::{check_directory, split};
use crate::{BLOCK_LEN, Durability, FileId, LockGuard, Media, OpenMode, ZEROS_LEN};
use cedrat_sync::{Arc, Mutex, RwLock, planted};
use rustix::fs::{
    AtFlags, CWD, Dir, FallocateFlags, FileType, FlockOperation, Mode, OFlags, StatxFlags, openat, statat, statx,
};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use rustix::process::{Resource, getrlimit};
use rustix::stdio::{stderr, stdin, stdout};
use std::collections::HashMap;
use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

/// The number of times that a file is locked because another one has got its name meanwhile. An opening that has deleted a lock
/// file causes one more.
const LOCK_ATTEMPTS: u32 = 100;

/// A directory of the operating system's file system; Linux only.
///
/// Creating one touches nothing; the directory is created with the first file in it. The directory, and those in it, may be
/// symbolic links; files may not.
#[derive(Debug)]
pub struct RealDisk {
    directory: PathBuf,
    /// The directory, from its first use on: all files lie in it, though the process changes its working directory, or the
    /// directory gets another name.
    root: Mutex<Option<Arc<OwnedFd>>>,
    direct: bool,
    /// The process that created it. A forked child has its memory and its files, and none of its threads.
    process: u32,
    files: RwLock<Files>,
}

/// Slots are never reused, so that the id of a removed file stays invalid.
#[derive(Debug, Default)]
struct Files {
    slots: Vec<Option<Slot>>,
    /// Ids by name and by whether they may change the file.
    ids: HashMap<(String, bool), FileId>,
}

/// File of an id, and its rights. Two ids of a name share its descriptors, of which a process has few.
#[derive(Debug, Clone)]
struct Slot {
    file: Arc<RealFile>,
    /// Whether the file may be changed through this id.
    writable: bool,
}

#[derive(Debug)]
struct RealFile {
    path: PathBuf,
    /// The descriptor that goes through the operating system's cache.
    buffered: OwnedFd,
    /// The descriptor that bypasses it; `None` if the file system refuses.
    direct: Option<OwnedFd>,
    /// The call that gets the error of a durable write through the direct descriptor.
    direct_reported: Reported,
    durable_calls: DurableCalls,
}

impl RealDisk {
    /// Creates a medium of the files below `directory`, bypassing the operating system's cache if the file system
    /// allows it.
    pub fn new(directory: impl Into<PathBuf>) -> RealDisk {
        let (directory, process) = (directory.into(), std::process::id());
        RealDisk { directory, root: Mutex::default(), direct: true, process, files: RwLock::default() }
    }

    /// Creates a medium of the files below `directory`, through the operating system's cache.
    pub fn buffered(directory: impl Into<PathBuf>) -> RealDisk {
        RealDisk { direct: false, ..RealDisk::new(directory) }
    }

    /// Returns the directory of the files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether aligned calls on this file bypass the operating system's cache.
    pub fn is_direct(&self, file: FileId) -> bool {
        self.file(file).is_ok_and(|file| file.direct.is_some())
    }

    /// Returns the directory of the files.
    fn root(&self) -> Result<Arc<OwnedFd>, Errno> {
        let mut root = self.root.lock();
        if let Some(root) = &*root
            && !planted!("directory_found_by_name")
        {
            return Ok(Arc::clone(root));
        }
        // Not to be read: a directory of another user may permit only the search for a name.
        let (here, flags) = (Path::new("."), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC);
        let path = if self.directory.as_os_str().is_empty() { here } else { &self.directory };
        let opened = Arc::new(open_file(CWD, path, flags, Mode::empty())?);
        *root = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Creates the directory of the files, or one in it, unless it exists.
    fn make_directory(&self, name: &str) -> io::Result<()> {
        let path = self.directory.join(name);
        let root = match self.root() {
            Err(Errno::NOENT) => {
                make_directory(&self.directory)?;
                self.root()
            }
            root => root,
        };
        let failed = |errno| failed("make", &path, None, errno);
        let root = root.map_err(failed)?;
        if name.is_empty() || open_directory(&root, Path::new(name)).is_ok() {
            return Ok(());
        }
        match rustix::fs::mkdirat(&root, name, Mode::from_raw_mode(0o777)) {
            Err(errno) if errno != Errno::EXIST => Err(failed(errno)),
            _ => {
                sync_parent(root.as_fd(), Path::new(""), &self.directory)?;
                sync_path(root.as_fd(), Path::new("."), &self.directory)
            }
        }
    }

    /// Fails in a forked child: the child and its parent would overwrite each other's bytes.
    fn check_process(&self) -> io::Result<()> {
        let (own, this) = (self.process, std::process::id());
        if own == this || planted!("forked_child_writes") {
            return Ok(());
        }
        let path = self.directory.display();
        let message =
            format!("{path} was opened by process {own}, and process {this} was forked from it: open it there again");
        Err(io::Error::other(message))
    }

    fn slot(&self, id: FileId) -> io::Result<Slot> {
        self.check_process()?;
        let files = self.files.read();
        files.slots.get(id.0 as usize).cloned().flatten().ok_or_else(|| {
            let message = format!("file {} of {} was removed", id.0, self.directory.display());
            io::Error::new(io::ErrorKind::NotFound, message)
        })
    }

    fn file(&self, id: FileId) -> io::Result<Arc<RealFile>> {
        Ok(self.slot(id)?.file)
    }

    /// Returns the file as `file` does, for calls that change it.
    fn file_to_change(&self, id: FileId) -> io::Result<Arc<RealFile>> {
        let Slot { file, writable } = self.slot(id)?;
        if writable {
            return Ok(file);
        }
        let message = format!("{} was opened for reading only: open it for writing too", file.path.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    }

    fn open_both(&self, name: &str, mode: OpenMode) -> io::Result<RealFile> {
        let path = self.directory.join(name);
        let root = self.root().map_err(|errno| failed("open", &path, None, errno))?;
        // The opening of a named pipe would wait for another process: `control` is one in directories of other programs.
        if mode != OpenMode::Create
            && let Ok(found) = statat(&root, name, AtFlags::SYMLINK_NOFOLLOW)
        {
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Fifo => {
                    let message = "it is a named pipe: a store has none";
                    return Err(explained("open", &path, None, io::Error::new(io::ErrorKind::InvalidInput, message)));
                }
                FileType::Symlink if !no_link().is_empty() => return Err(is_link("open", &path)),
                FileType::RegularFile if mode == OpenMode::ReadWrite => check_one_name(found.st_nlink, &path)?,
                _ => {}
            }
        }
        let access = if mode == OpenMode::Read { OFlags::RDONLY } else { OFlags::RDWR } | OFlags::CLOEXEC;
        let create = if mode == OpenMode::Create { OFlags::CREATE | OFlags::EXCL } else { OFlags::empty() };
        let permissions = Mode::from_raw_mode(0o644);
        let open = |flags| open_file(&root, Path::new(name), flags | no_link(), permissions);
        let buffered = open(access | create).map_err(|errno| failed("open", &path, None, errno))?;
        let direct = match self.direct.then(|| open(access | OFlags::DIRECT)) {
            // The file system has no direct I/O; `is_direct` reports it.
            None | Some(Err(Errno::INVAL | Errno::OPNOTSUPP)) => None,
            Some(opened) => Some(opened.map_err(|errno| failed("open", &path, None, errno))?),
        };
        let direct_reported = direct.as_ref().map_or(Reported::ToAnyCall, reported);
        Ok(RealFile { path, buffered, direct, direct_reported, durable_calls: DurableCalls::default() })
    }
}

impl Media for RealDisk {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        self.check_process()?;
        let (directory, _) = split(name)?;
        let writable = mode != OpenMode::Read;
        let key = (name.to_owned(), writable);
        let mut files = self.files.write();
        if mode == OpenMode::Create {
            self.make_directory(directory)?;
        } else if let Some(&id) = files.ids.get(&key) {
            return Ok(id);
        }
        let other = files.ids.get(&(name.to_owned(), !writable)).map(|id| id.0 as usize);
        let file = match other.and_then(|other| files.slots[other].as_ref()) {
            Some(other) if !writable => Arc::clone(&other.file),
            _ => Arc::new(self.open_both(name, mode)?),
        };
        if let Some(Some(slot)) = other.map(|other| &mut files.slots[other]) {
            // The older descriptors are closed: an opening reads all files before it opens them for writing.
            slot.file = Arc::clone(&file);
        }
        let id = FileId(u32::try_from(files.slots.len()).expect("fewer than 2^32 files are opened"));
        files.slots.push(Some(Slot { file, writable }));
        files.ids.insert(key, id);
        Ok(id)
    }

    fn lock(&self, name: &str) -> io::Result<LockGuard> {
        split(name)?;
        self.check_process()?;
        let path = self.directory.join(name);
        let root = self.root().map_err(|errno| failed("lock", &path, None, errno))?;
        for _ in 0..LOCK_ATTEMPTS {
            let holder = Holder::lock(root.as_fd(), name, &path)?;
            #[cfg(all(test, not(cedrat_shuttle)))]
            tests::note_locked(&path);
            // Between opening and locking, the file may have been deleted and created again: then another opening may
            // hold the new one.
            if holder.is_still_at(root.as_fd(), name, &path)? {
                return Ok(LockGuard::new(holder));
            }
        }
        let message = format!(
            "{} was replaced {LOCK_ATTEMPTS} times while it was being locked: end the process that deletes and creates it",
            path.display()
        );
        Err(io::Error::other(message))
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        check_directory(directory)?;
        let path = self.directory.join(directory);
        let failed = |errno| failed("list", &path, None, errno);
        let opened = self.root().and_then(|root| open_directory(&root, &Path::new(".").join(directory)));
        let opened = match opened {
            Err(Errno::NOENT) => return Ok(Vec::new()),
            opened => opened.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&opened).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = match entry.file_type() {
                FileType::Unknown => statat(&opened, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |found| FileType::from_raw_mode(found.st_mode)),
                kind => kind,
            };
            let is_file = match kind {
                // Listed, so that a file which has become a link is refused by name, and not missed; but no linked directory.
                FileType::Symlink => statat(&opened, entry.file_name(), AtFlags::empty())
                    .map_or(true, |found| FileType::from_raw_mode(found.st_mode) != FileType::Directory),
                kind => kind == FileType::RegularFile,
            };
            // Other programs put files with invalid names here.
            if let (true, Ok(name)) = (is_file, entry.file_name().to_str())
                && split(name).is_ok()
            {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        split(name)?;
        self.check_process()?;
        let path = self.directory.join(name);
        let mut files = self.files.write();
        let removed = self.root().and_then(|root| rustix::fs::unlinkat(&root, name, AtFlags::empty()));
        removed.map_err(|errno| failed("remove", &path, None, errno))?;
        for writable in [false, true] {
            if let Some(id) = files.ids.remove(&(name.to_owned(), writable)) {
                files.slots[id.0 as usize] = None;
            }
        }
        Ok(())
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        check_directory(directory)?;
        let path = self.directory.join(directory);
        let root = self.root().map_err(|errno| failed("sync", &path, None, errno))?;
        if directory.is_empty() {
            sync_parent(root.as_fd(), Path::new(""), &path)?;
        }
        sync_path(root.as_fd(), &Path::new(".").join(directory), &path)
    }

    fn len(&self, file: FileId) -> io::Result<u64> {
        self.file(file)?.len()
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let file = self.file(file)?;
        if let Some(direct) = file.direct_for(offset, buffer) {
            match retry_on_intr(|| rustix::io::pread(direct, &mut *buffer, offset)) {
                // The device requires more than our alignment; the cache does not.
                Err(Errno::INVAL) => {}
                result => {
                    return result.map_err(|errno| failed("read", &file.path, Some(offset), errno));
                }
            }
        }
        retry_on_intr(|| rustix::io::pread(&file.buffered, &mut *buffer, offset))
            .map_err(|errno| failed("read", &file.path, Some(offset), errno))
    }

    fn write_at(&self, file: FileId, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<usize> {
        let file = self.file_to_change(file)?;
        file.check_limit("write", offset, bytes.len() as u64)?;
        if let Some(direct) = file.direct_for(offset, bytes) {
            match file.write(direct, file.direct_reported, offset, bytes, durability) {
                // The device requires more than our alignment; nothing was written.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                result => return result,
            }
        }
        file.write(&file.buffered, Reported::ToAnyCall, offset, bytes, durability)
    }

    fn sync(&self, file: FileId) -> io::Result<()> {
        let file = self.file(file)?;
        let call = file.durable_calls.begin(Reported::ToAnyCall);
        // Not even an interrupted sync is repeated (W6).
        let synced = rustix::fs::fdatasync(&file.buffered).map_err(|errno| failed("sync", &file.path, None, errno));
        call.end(synced, || file.path.display().to_string())
    }

    fn allocate(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        let file = self.file_to_change(file)?;
        if len == 0 {
            return Ok(());
        }
        file.check_limit("allocate", offset, len)?;
        match retry_on_intr(|| rustix::fs::fallocate(&file.buffered, FallocateFlags::empty(), offset, len)) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                // Existing bytes stay; only bytes beyond the end can be allocated by writing.
                let end = file.len()?;
                file.write_zeros(offset.max(end), offset.saturating_add(len))
            }
            Err(errno) => Err(failed("allocate", &file.path, Some(offset), errno)),
        }
    }

    fn punch(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        let file = self.file_to_change(file)?;
        if len == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry_on_intr(|| rustix::fs::fallocate(&file.buffered, flags, offset, len)) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let end = file.len()?;
                file.write_zeros(offset, offset.saturating_add(len).min(end))
            }
            Err(errno) => Err(failed("punch", &file.path, Some(offset), errno)),
        }
    }

    fn set_len(&self, file: FileId, len: u64) -> io::Result<()> {
        let file = self.file_to_change(file)?;
        // A file that is longer than the limit may be shortened, and settled.
        if file.len()? < len {
            file.check_limit("set the length of", len, 0)?;
        }
        retry_on_intr(|| rustix::fs::ftruncate(&file.buffered, len))
            .map_err(|errno| failed("set the length of", &file.path, Some(len), errno))
    }

    fn path(&self, file: FileId) -> String {
        match self.file(file) {
            Ok(file) => file.path.display().to_string(),
            Err(error) => error.to_string(),
        }
    }
}

/// A file that is locked by `flock`, so by an open file description: other openings are excluded, in this process
/// too. A forked child shares the lock, until the child ends; so the owner unlocks explicitly, instead of only
/// closing its descriptor.
struct Holder {
    file: OwnedFd,
    /// The process that locked it.
    process: u32,
}

impl Holder {
    fn lock(root: BorrowedFd<'_>, name: &str, path: &Path) -> io::Result<Holder> {
        // A separate open: the lock belongs to the open file description, so another opening in this process is
        // excluded too.
        let open = |access| open_file(root, Path::new(name), access | OFlags::CLOEXEC | no_link(), Mode::empty());
        let file = match open(OFlags::RDWR) {
            // A read-only copy can be looked at. Network file systems lock only files that are open for writing.
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => open(OFlags::RDONLY),
            opened => opened,
        };
        let file = file.map_err(|errno| match errno {
            Errno::LOOP => is_link("lock", path),
            errno => failed("lock", path, None, errno),
        })?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Holder { file, process: std::process::id() }),
            Err(Errno::WOULDBLOCK) => {
                let message =
                    format!("{} is held by another process or another opening: close it first", path.display());
                Err(io::Error::new(io::ErrorKind::WouldBlock, message))
            }
            Err(errno) => Err(failed("lock", path, None, errno)),
        }
    }

    /// Whether the name still refers to the locked file.
    fn is_still_at(&self, root: BorrowedFd<'_>, name: &str, path: &Path) -> io::Result<bool> {
        let locked = rustix::fs::fstat(&self.file).map_err(|errno| failed("lock", path, None, errno))?;
        match statat(root, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) => Ok((named.st_dev, named.st_ino) == (locked.st_dev, locked.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(failed("lock", path, None, errno)),
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if self.process == std::process::id() || planted!("child_gives_lock_up") {
            // An error here recurs when the descriptor is closed.
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
    }
}

impl RealFile {
    /// Returns the direct descriptor if this call is aligned for it.
    fn direct_for(&self, offset: u64, buffer: &[u8]) -> Option<&OwnedFd> {
        let aligned = offset.is_multiple_of(BLOCK_LEN as u64)
            && buffer.len().is_multiple_of(BLOCK_LEN)
            && buffer.as_ptr().addr().is_multiple_of(BLOCK_LEN);
        self.direct.as_ref().filter(|_| aligned)
    }

    fn len(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstat(&self.buffered).map_err(|errno| failed("measure", &self.path, None, errno))?;
        Ok(u64::try_from(stat.st_size).expect("lengths are not negative"))
    }

    /// Refuses a call that would change bytes beyond the process's limit of the file size, as the operating system does. That
    /// would also send SIGXFSZ, whose default is to kill the program.
    ///
    /// The limit is read at each call, because a program may change it; a change during a call may still cause the signal.
    fn check_limit(&self, what: &str, offset: u64, len: u64) -> io::Result<()> {
        let is_beyond = |limit| offset.checked_add(len).is_none_or(|end| end > limit);
        if getrlimit(Resource::Fsize).current.is_some_and(is_beyond) && !planted!("file_size_limit_ignored") {
            return Err(failed(what, &self.path, Some(offset), Errno::FBIG));
        }
        Ok(())
    }

    fn write(
        &self,
        descriptor: &OwnedFd,
        reported: Reported,
        offset: u64,
        bytes: &[u8],
        durability: Durability,
    ) -> io::Result<usize> {
        let call = (durability == Durability::Durable).then(|| self.durable_calls.begin(reported));
        let written = write(descriptor, offset, bytes, durability);
        let written = written.map_err(|errno| failed("write", &self.path, Some(offset), errno));
        match call {
            Some(call) => call.end(written, || self.path.display().to_string()),
            None => written,
        }
    }

    /// Fills a range with zeros, if the file system cannot reserve or punch.
    fn write_zeros(&self, mut offset: u64, end: u64) -> io::Result<()> {
        self.check_limit("fill", offset, end.saturating_sub(offset))?;
        let zeros = vec![0; ZEROS_LEN.min(end.saturating_sub(offset)) as usize];
        while offset < end {
            let part = ZEROS_LEN.min(end - offset) as usize;
            offset += write(&self.buffered, offset, &zeros[..part], Durability::Volatile)
                .map_err(|errno| failed("fill", &self.path, Some(offset), errno))? as u64;
        }
        Ok(())
    }
}

/// Returns the call that gets the error of a durable write through a direct descriptor.
///
/// Some file systems accept direct I/O and write through the cache nevertheless: ext4 with `data=journal`, btrfs with
/// checksums. The kernel reports an alignment for files whose direct I/O bypasses it, since Linux 6.1.
fn reported(direct: &OwnedFd) -> Reported {
    match statx(direct, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(found) if found.stx_mask & StatxFlags::DIOALIGN.bits() != 0 && found.stx_dio_offset_align != 0 => {
            Reported::ToItself
        }
        _ => Reported::ToAnyCall,
    }
}

fn write(fd: &OwnedFd, offset: u64, bytes: &[u8], durability: Durability) -> Result<usize, Errno> {
    if durability == Durability::Volatile {
        return retry_on_intr(|| rustix::io::pwrite(fd, bytes, offset));
    }
    let slices = [IoSlice::new(bytes)];
    match retry_on_intr(|| rustix::io::pwritev2(fd, &slices, offset, ReadWriteFlags::DSYNC)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            let written = retry_on_intr(|| rustix::io::pwrite(fd, bytes, offset))?;
            rustix::fs::fdatasync(fd.as_fd())?;
            Ok(written)
        }
        result => result,
    }
}

/// Makes a directory, and those above it that are missing, durable.
///
/// A process that made one may have been killed before the sync. So the sync of a new one makes the one above it durable too,
/// and [`Media::sync_directory`] of the whole medium makes the directory of the medium durable.
fn make_directory(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(Path::new(""));
    make_directory(parent)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(explained("make", path, None, error)),
        _ => {
            sync_parent(CWD, parent, parent)?;
            sync_parent(CWD, path, path)
        }
    }
}

/// Returns the flag that refuses a symbolic link. Removing a file, and creating it again, would replace a link: the store would
/// have left the file to which it leads.
fn no_link() -> OFlags {
    if planted!("links_followed") { OFlags::empty() } else { OFlags::NOFOLLOW }
}

fn is_link(what: &str, path: &Path) -> io::Error {
    let message = "it is a symbolic link: move the file itself here, or link its directory";
    explained(what, path, None, io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Refuses a file that has another name. A directory with that name would be a copy of the store that shares the old files and
/// lacks the new ones, so that after changes through one of the two the other one would not open. The type of the number depends on
/// the processor.
fn check_one_name(names: impl Into<u64>, path: &Path) -> io::Result<()> {
    if names.into() <= 1 || planted!("hard_links_shared") {
        return Ok(());
    }
    let message =
        "another hard link leads to the same file: copy the file, and let the copy take the place of this one";
    Err(explained("open", path, None, io::Error::new(io::ErrorKind::InvalidInput, message)))
}

/// The smallest descriptor of a file: those below are the standard input and output of the process.
const DESCRIPTOR_MIN: RawFd = 3;

fn open_directory(root: impl AsFd, name: &Path) -> Result<OwnedFd, Errno> {
    open_file(root, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a file. If the process has closed its standard output, the file does not take its descriptor: what the program
/// writes there would overwrite the file.
fn open_file(root: impl AsFd, name: &Path, flags: OFlags, permissions: Mode) -> Result<OwnedFd, Errno> {
    let held = hold_standard_descriptors();
    let opened = retry_on_intr(|| openat(&root, name, flags, permissions))?;
    drop(held);
    at_least(opened, DESCRIPTOR_MIN)
}

/// Holds the standard descriptors that are closed, by handles without access: a file that is opened meanwhile has another one,
/// and what the program writes to its standard output fails as before.
fn hold_standard_descriptors() -> Vec<OwnedFd> {
    let is_closed = |file: &BorrowedFd<'_>| rustix::io::fcntl_getfd(file) == Err(Errno::BADF);
    let mut held = Vec::new();
    if [stdin(), stdout(), stderr()].iter().any(is_closed) {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        // Without another descriptor the caller's open fails, too.
        while let Ok(handle) = openat(CWD, "/", flags, Mode::empty()) {
            if handle.as_raw_fd() >= DESCRIPTOR_MIN {
                break;
            }
            held.push(handle);
        }
    }
    held
}

/// Returns the same open file with a descriptor of at least `least`.
fn at_least(file: OwnedFd, least: RawFd) -> Result<OwnedFd, Errno> {
    if file.as_raw_fd() >= least || planted!("standard_descriptor_taken") {
        return Ok(file);
    }
    rustix::io::fcntl_dupfd_cloexec(&file, least)
}

/// Makes the name of a directory durable, of `root` itself if `name` is empty.
///
/// A directory above it that this process may not read was made by another user, and with it the name. One that cannot be
/// synced at all has no names on a disk: an automounter's or the kernel's. Found by its name "..", since those above it may be
/// closed to this process.
fn sync_parent(root: BorrowedFd<'_>, name: &Path, path: &Path) -> io::Result<()> {
    match sync_path(root, &name.join(".."), &path.join("..")) {
        Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput) => Ok(()),
        result => result,
    }
}

fn sync_path(root: BorrowedFd<'_>, name: &Path, path: &Path) -> io::Result<()> {
    let failed = |errno| failed("sync", path, None, errno);
    let directory = open_directory(root, name).map_err(failed)?;
    #[cfg(all(test, not(cedrat_shuttle)))]
    tests::note_synced(&directory);
    retry_on_intr(|| rustix::fs::fsync(&directory)).map_err(failed)
}

fn failed(what: &str, path: &Path, offset: Option<u64>, errno: Errno) -> io::Error {
    explained(what, path, offset, errno.into())
}

/// Returns the same kind of error with the file, the offset and the remedy.
fn explained(what: &str, path: &Path, offset: Option<u64>, error: io::Error) -> io::Error {
    use io::ErrorKind::{FileTooLarge, PermissionDenied, QuotaExceeded, StorageFull};
    let has_no_descriptor = [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    let (kind, advice) = match error.kind() {
        _ if has_no_descriptor.contains(&error.raw_os_error()) => {
            (QuotaExceeded, "; raise the limit of open files (ulimit -n; for the system, fs.file-max)")
        }
        StorageFull | QuotaExceeded => (StorageFull, "; make space on this file system"),
        PermissionDenied => (PermissionDenied, "; check who owns it and how it was opened"),
        FileTooLarge => (FileTooLarge, "; raise the limit of the file size (ulimit -f)"),
        kind => (kind, ""),
    };
    let at = offset.map(|offset| format!(" at offset {offset}")).unwrap_or_default();
    io::Error::new(kind, format!("cannot {what} {}{at}: {error}{advice}", path.display()))
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests;
