//! A directory whose store does not open until it is complete: its control file has another name until then.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cedrat_media::{Durability, FileId, LockGuard, Media, OpenMode, RealDisk};
use cedrat_wal::CONTROL_FILE;

use crate::output::{Context, Failure, Outcome, fail};

/// The name of the control file until the store is complete.
const UNFINISHED: &str = "control.unfinished";

/// A new directory for a store. Dropped before it is complete, it is removed, or emptied if it was there before.
pub(super) struct Unfinished {
    directory: PathBuf,
    was_there: bool,
    is_complete: bool,
}

impl Unfinished {
    /// Creates the directory, or accepts an empty one.
    pub(super) fn create(directory: &Path) -> Result<Unfinished, Failure> {
        let was_there = match fs::create_dir(directory) {
            Ok(()) => false,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                crate::look::is_directory(directory)?;
                true
            }
            Err(error) => return Err(error).while_doing(format!("creating {}", directory.display())),
        };
        if was_there && fs::read_dir(directory).while_doing(directory.display())?.next().is_some() {
            return fail(format!("{} is not empty; name a new directory", directory.display()));
        }
        Ok(Unfinished { directory: directory.to_owned(), was_there, is_complete: false })
    }

    /// Returns the directory for the store.
    pub(super) fn media(&self) -> Arc<dyn Media> {
        Arc::new(Renamed(RealDisk::new(&self.directory)))
    }

    /// Gives the control file of the closed store its name, durably. From now on the store opens.
    pub(super) fn complete(mut self) -> Outcome {
        let place = |name: &str| self.directory.join(name);
        fs::rename(place(UNFINISHED), place(CONTROL_FILE)).while_doing("completing the store")?;
        self.is_complete = true;
        File::open(&self.directory).and_then(|directory| directory.sync_all()).while_doing("completing the store")
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        // What cannot be removed does not open.
        if !self.was_there {
            let _ = fs::remove_dir_all(&self.directory);
            return;
        }
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

/// A directory in which the control file has its other name.
#[derive(Debug)]
struct Renamed(RealDisk);

fn renamed(name: &str) -> &str {
    if name == CONTROL_FILE { UNFINISHED } else { name }
}

impl Media for Renamed {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        self.0.open(renamed(name), mode)
    }

    fn lock(&self, name: &str) -> io::Result<LockGuard> {
        self.0.lock(renamed(name))
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let mut names = self.0.list(directory)?;
        if directory.is_empty() {
            names.iter_mut().filter(|name| *name == UNFINISHED).for_each(|name| *name = CONTROL_FILE.into());
            names.sort();
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(renamed(name))
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.0.sync_directory(directory)
    }

    fn len(&self, file: FileId) -> io::Result<u64> {
        self.0.len(file)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(file, offset, buffer)
    }

    fn write_at(&self, file: FileId, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<usize> {
        self.0.write_at(file, offset, bytes, durability)
    }

    fn sync(&self, file: FileId) -> io::Result<()> {
        self.0.sync(file)
    }

    fn allocate(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        self.0.allocate(file, offset, len)
    }

    fn punch(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        self.0.punch(file, offset, len)
    }

    fn set_len(&self, file: FileId, len: u64) -> io::Result<()> {
        self.0.set_len(file, len)
    }

    fn path(&self, file: FileId) -> String {
        self.0.path(file)
    }
}
