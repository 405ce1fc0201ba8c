//! A directory for the private files of readers, which its last user deletes.

use std::io;
use std::path::Path;

use cedrat_media::{FileId, ForwardMedia, Media, RealDisk};
use tempfile::TempDir;

/// A temporary directory of files that no crash needs.
#[derive(Debug)]
pub(crate) struct TemporaryDisk {
    // Dropped in this order: the files are closed before the directory is deleted.
    disk: RealDisk,
    _directory: TempDir,
}

impl TemporaryDisk {
    /// Creates a directory in another one.
    pub(crate) fn create(within: &Path) -> io::Result<TemporaryDisk> {
        let directory = tempfile::Builder::new().prefix("cedrat-reader-").tempdir_in(within)?;
        Ok(TemporaryDisk { disk: RealDisk::buffered(directory.path()), _directory: directory })
    }
}

impl ForwardMedia for TemporaryDisk {
    fn target(&self) -> &dyn Media {
        &self.disk
    }

    fn forward_sync(&self, _file: FileId) -> io::Result<()> {
        Ok(()) // nothing here outlives the process
    }
}
