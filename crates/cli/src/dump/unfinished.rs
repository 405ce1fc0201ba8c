//! A directory whose store does not open until it is complete: its control file has another name until then.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cedrat_media::{ForwardMedia, Media, RealDisk};
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

impl ForwardMedia for Renamed {
    fn target(&self) -> &dyn Media {
        &self.0
    }

    fn target_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        Cow::Borrowed(if name == CONTROL_FILE { UNFINISHED } else { name })
    }

    fn forward_list(&self, directory: &str) -> io::Result<Vec<String>> {
        let mut names = self.0.list(directory)?;
        if directory.is_empty() {
            names.iter_mut().filter(|name| *name == UNFINISHED).for_each(|name| *name = CONTROL_FILE.into());
            names.sort();
        }
        Ok(names)
    }
}
