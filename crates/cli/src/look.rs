//! Common part of `info`, `verify` and `log`: a store is read, and not changed.

use std::path::Path;
use std::{fs, io};

use cedrat::media::{LockGuard, Media as _, OpenMode, RealDisk};
use cedrat::txn::{Options, Store};
use cedrat_txn::{HeuristicBranch, InDoubt, LOCK_FILE};
use cedrat_wal::{CONTROL_FILE, Found, Log, LogBeside};
use tempfile::TempDir;

use crate::disks::{self, Disks};
use crate::output::{Context, Failure, Outcome, fail};

/// A store that no other process can open while this lives.
pub(crate) struct Looked {
    pub(crate) found: Found,
    /// Whether aligned reads and writes of the store bypass the operating system's cache.
    pub(crate) is_direct: bool,
    _alone: Option<LockGuard>,
    /// The copy of a log that another process writes.
    scratch: Option<TempDir>,
}

/// The number of attempts to copy a log that another process writes.
const ATTEMPTS: usize = 16;

/// Returns a private copy of the log of a store that another process has open.
fn copy_of_log(directory: &Path, scratch: &Path, disks: &Disks) -> Result<Found, Failure> {
    let live = disks.open(directory)?;
    let to = disks::scratch(&*live, scratch)?;
    let mut copy = LogBeside::begin(&live, &to).while_doing(directory.display())?;
    match copy.extend(&live).while_doing(directory.display())? {
        Some(_) => Ok(copy.found()?),
        None => fail("another process opens the store now; try again"),
    }
}

/// Whether another process has the store in a directory open.
pub(crate) fn is_open_elsewhere(directory: &Path, disks: &Disks) -> Result<bool, Failure> {
    is_directory(directory)?;
    match disks.open(directory)?.lock(LOCK_FILE) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        // What is wrong with the directory is reported by those that read it.
        _ => Ok(false),
    }
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
        Ok(Looked { found, is_direct, _alone: alone, scratch: None })
    }

    /// Reads control file and log as [`at`](Looked::at) does, also of a store that another process has open: as of the newest record.
    pub(crate) fn at_any(directory: &Path, disks: &Disks) -> Result<Looked, Failure> {
        if !is_open_elsewhere(directory, disks)? {
            return Looked::at(directory, disks);
        }
        let scratch = tempfile::tempdir()?;
        let mut attempts = 0;
        let found = loop {
            attempts += 1;
            // The log may be recycled while it is read.
            match copy_of_log(directory, &scratch.path().join(attempts.to_string()), disks) {
                Err(_) if attempts < ATTEMPTS => {}
                found => break found?,
            }
        };
        let disk = RealDisk::new(directory);
        let is_direct = disk.open(CONTROL_FILE, OpenMode::Read).is_ok_and(|file| disk.is_direct(file));
        Ok(Looked { found, is_direct, _alone: None, scratch: Some(scratch) })
    }

    /// Whether another process has the store open.
    pub(crate) fn is_open_elsewhere(&self) -> bool {
        self.scratch.is_some()
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
