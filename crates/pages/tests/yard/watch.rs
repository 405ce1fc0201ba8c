//! A medium that takes a checkpoint before every write and sync: it notes the redo point from then on.

use std::io;

use cedrat_media::{Durability, FileId, LockGuard, Media, OpenMode, SimDisk};
use cedrat_pages::{Pool, WRITTEN_FILE};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex, Weak};

/// Marks of this kind carry a redo point; others the LSN of a change.
pub(crate) const REDO_POINT: u64 = 1 << 40;

#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) disk: Arc<SimDisk>,
    /// The pool whose redo point is noted.
    pub(crate) pool: Mutex<Weak<Pool>>,
    /// Writes and syncs of the file of written pages.
    pub(crate) writes_of_written: AtomicU64,
    pub(crate) syncs_of_written: AtomicU64,
}

impl Watched {
    pub(crate) fn over(disk: &Arc<SimDisk>) -> Arc<Watched> {
        Arc::new(Watched {
            disk: disk.clone(),
            pool: Mutex::new(Weak::new()),
            writes_of_written: AtomicU64::new(0),
            syncs_of_written: AtomicU64::new(0),
        })
    }

    fn count(&self, calls: &AtomicU64, file: FileId) {
        if self.path(file) == WRITTEN_FILE {
            calls.fetch_add(1, Ordering::Relaxed);
        }
    }

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
        self.count(&self.writes_of_written, file);
        self.disk.write_at(file, offset, bytes, durability)
    }
    fn sync(&self, file: FileId) -> io::Result<()> {
        self.note();
        self.count(&self.syncs_of_written, file);
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
