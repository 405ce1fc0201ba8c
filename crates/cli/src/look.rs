//! Common part of `info`, `verify` and `log`: a store is read, and not changed.

use std::path::Path;
use std::{fs, io};

use cedrat::media::{LockGuard, Media as _, OpenMode, RealDisk};
use cedrat::txn::{Options, Store};
use cedrat_txn::{HeuristicBranch, InDoubt, LOCK_FILE};
use cedrat_wal::{CONTROL_FILE, Found, Log};

use crate::disks::Disks;
use crate::output::{Context, Failure, Outcome, fail};

/// A store that no other process can open while this lives.
pub(crate) struct Looked {
    pub(crate) found: Found,
    /// Whether aligned reads and writes of the store bypass the operating system's cache.
    pub(crate) is_direct: bool,
    _alone: Option<LockGuard>,
}

/// Says what is wrong with a path at which no store can be.
pub(crate) fn is_directory(path: &Path) -> Outcome {
    let shown = path.display();
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fail(format!("{shown} does not exist; name the directory of a store"))
        }
        Err(error) => Err(error).while_doing(shown),
        Ok(found) if !found.is_dir() => {
            fail(format!("{shown} is no directory, as a store is; name the directory that its control file lies in"))
        }
        Ok(_) => Ok(()),
    }
}

/// Opens a store that is there, with its archive, whose log the store would release otherwise.
pub(crate) fn open_to_change(directory: &Path, archive: Option<&Path>, disks: &Disks) -> Result<Store, Failure> {
    open_with(directory, archive, disks.options(Options::default()))
}

/// Opens a store as [`open_to_change`] does, with these options.
pub(crate) fn open_with(directory: &Path, archive: Option<&Path>, options: Options) -> Result<Store, Failure> {
    let options = Options { create: false, redo_on_demand_bytes: u64::MAX, ..options };
    let options = match archive {
        Some(archive) => cedrat::archived_in(archive, options),
        None => options,
    };
    cedrat::open_with(directory, options, crate::registry()).while_doing("opening the store")
}

impl Looked {
    /// Reads control file and log of the store in `directory`.
    pub(crate) fn at(directory: &Path, disks: &Disks) -> Result<Looked, Failure> {
        is_directory(directory)?;
        let disk = RealDisk::new(directory);
        let media = disks.open(directory)?;
        // Not every store has the file yet: a crash may have come before. Then what is missing is said below.
        let alone = match media.lock(LOCK_FILE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Some(Err(error).while_doing("the store is open elsewhere")?)
            }
            locked => Some(locked.while_doing("locking the store, so that no other process opens it meanwhile")?),
        };
        let found = Log::look(&media).while_doing(directory.display())?;
        let is_direct = disk.open(CONTROL_FILE, OpenMode::Read).is_ok_and(|file| disk.is_direct(file));
        Ok(Looked { found, is_direct, _alone: alone })
    }

    /// Returns the log, and what keeps other processes from opening the store.
    pub(crate) fn into_log(self) -> (Found, Option<LockGuard>) {
        (self.found, self._alone)
    }

    /// Returns the in-doubt transactions, as the next opening will find them.
    pub(crate) fn in_doubt(&self) -> Result<Vec<InDoubt>, Failure> {
        Ok(InDoubt::look(&self.found)?)
    }

    /// Returns the branches that `cedrat resolve` has ended and that are not forgotten.
    pub(crate) fn heuristic(&self) -> Result<Vec<HeuristicBranch>, Failure> {
        Ok(HeuristicBranch::look(&self.found)?)
    }
}
