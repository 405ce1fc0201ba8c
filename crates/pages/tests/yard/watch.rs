//! A medium that takes a checkpoint before every write and sync: it notes where redo might begin from then on.

use std::io;

use cedrat_media::{Durability, FileId, LockGuard, Media, OpenMode, SimDisk};
use cedrat_pages::Pool;
use cedrat_sync::{Arc, Mutex, Weak};

/// Marks of this kind carry a redo point; others the LSN of a change.
pub(crate) const REDO_POINT: u64 = 1 << 40;

#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) disk: Arc<SimDisk>,
    /// Whose redo point is noted.
    pub(crate) pool: Mutex<Weak<Pool>>,
}

impl Watched {
    fn note(&self) {
        let pool = self.pool.lock().upgrade();
        if let Some(pool) = pool {
            self.disk.mark(REDO_POINT | pool.redo_point().get());
        }
    }
}

impl Media for Watched {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        self.disk.open(name, mode)
    }
    fn lock(&self, name: &str) -> io::Result<LockGuard> {
        self.disk.lock(name)
    }
    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.disk.list(directory)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.disk.sync_directory(directory)
    }
    fn len(&self, file: FileId) -> io::Result<u64> {
        self.disk.len(file)
    }
    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.read_at(file, offset, buffer)
    }
    fn write_at(&self, file: FileId, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<usize> {
        self.note();
        self.disk.write_at(file, offset, bytes, durability)
    }
    fn sync(&self, file: FileId) -> io::Result<()> {
        self.note();
        self.disk.sync(file)
    }
    fn allocate(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        self.disk.allocate(file, offset, len)
    }
    fn punch(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        self.disk.punch(file, offset, len)
    }
    fn set_len(&self, file: FileId, len: u64) -> io::Result<()> {
        self.disk.set_len(file, len)
    }
    fn path(&self, file: FileId) -> String {
        self.disk.path(file)
    }
}
