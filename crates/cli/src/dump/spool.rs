//! A temporary file with the dump of a damaged store: encrypted, if the store is.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cedrat::media::{Durability, FileId, Media, OpenMode};
use tempfile::TempDir;

use crate::disks;
use crate::output::Failure;

const NAME: &str = "salvaged";

/// A temporary file that is written from its beginning to its end, and then read. Clones share it.
#[derive(Clone)]
pub(super) struct Spool {
    media: Arc<dyn Media>,
    file: FileId,
    at: Arc<Mutex<Progress>>,
    _directory: Arc<TempDir>,
}

#[derive(Default)]
struct Progress {
    written: u64,
    read: u64,
}

impl Spool {
    /// Creates an empty file.
    pub(super) fn create(beside: &dyn Media) -> Result<Spool, Failure> {
        let directory = tempfile::tempdir()?;
        let media = disks::scratch(beside, directory.path())?;
        let file = media.open(NAME, OpenMode::Create)?;
        Ok(Spool { media, file, at: Arc::default(), _directory: Arc::new(directory) })
    }

    fn at(&self) -> MutexGuard<'_, Progress> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut at = self.at();
        let written = self.media.write_at(self.file, at.written, bytes, Durability::Volatile)?;
        at.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Spool {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut at = self.at();
        let wanted = buffer.len().min((at.written - at.read) as usize);
        let read = self.media.read_at(self.file, at.read, &mut buffer[..wanted])?;
        at.read += read as u64;
        Ok(read)
    }
}
