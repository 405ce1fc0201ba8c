//! The page file: pages at home, page n at byte n × 4096.

use std::io;

use cedrat_media::{FileId, Media, OpenMode, read_exact_at};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex};
use cedrat_wal::Log;

use crate::error::PoolError;
use crate::page::{PAGE_LEN, PageId, verify};

/// The name of the page file.
pub const PAGE_FILE: &str = "pages";

/// The file grows by an eighth, but at least by this many pages (1 MiB) and at most by `GROWTH_MAX`: growing costs a
/// sync, and a growing file is several times slower to write (docs/inside/media.md).
const GROWTH_MIN: u64 = 256;
const GROWTH_MAX: u64 = 16384;

/// Pages at home.
#[derive(Debug)]
pub(crate) struct PageFile {
    media: Arc<dyn Media>,
    file: FileId,
    /// Pages that the file has durable room for.
    pages: AtomicU64,
    pages_max: u64,
    growing: Mutex<()>,
}

/// Opens a file, or creates it durably.
pub(crate) fn open_or_create(media: &dyn Media, name: &str) -> Result<FileId, PoolError> {
    let opened = match media.open(name, OpenMode::ReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            media.open(name, OpenMode::Create).and_then(|file| media.sync_directory("").map(|()| file))
        }
        opened => opened,
    };
    opened.map_err(|error| PoolError::io(format!("opening {name}"), error))
}

impl PageFile {
    pub(crate) fn open(media: &Arc<dyn Media>, pages_max: u64) -> Result<PageFile, PoolError> {
        let file = open_or_create(&**media, PAGE_FILE)?;
        let len = media.len(file).map_err(|error| PoolError::io("measuring the page file", error))?;
        let pages = len / PAGE_LEN as u64;
        if pages > pages_max {
            return Err(PoolError::Limit { pages, limit: pages_max });
        }
        Ok(PageFile {
            media: Arc::clone(media),
            file,
            pages: AtomicU64::new(pages),
            pages_max,
            growing: Mutex::new(()),
        })
    }

    pub(crate) fn id(&self) -> FileId {
        self.file
    }

    pub(crate) fn path(&self) -> String {
        self.media.path(self.file)
    }

    pub(crate) fn pages(&self) -> u64 {
        self.pages.load(Ordering::Acquire)
    }

    /// Makes room for at least `pages` pages. On return the room is durable, so that a later write home meets neither a
    /// full disk nor, after a crash, the end of the file.
    pub(crate) fn ensure(&self, pages: u64, log: &Log) -> Result<(), PoolError> {
        if pages <= self.pages() {
            return Ok(());
        }
        if pages > self.pages_max {
            return Err(PoolError::Limit { pages, limit: self.pages_max });
        }
        let _growing = self.growing.lock();
        let now = self.pages();
        if pages <= now {
            return Ok(());
        }
        let generous = (now + (now / 8).clamp(GROWTH_MIN, GROWTH_MAX)).clamp(pages, self.pages_max);
        let reserve = |target: u64| {
            let (offset, len) = (now * PAGE_LEN as u64, (target - now) * PAGE_LEN as u64);
            self.media.allocate(self.file, offset, len).map(|()| target)
        };
        let target = reserve(generous).or_else(|error| match error.kind() {
            io::ErrorKind::StorageFull if generous > pages => reserve(pages),
            _ => Err(error),
        });
        let target = target.map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => PoolError::DiskFull { file: self.path(), pages },
            _ => PoolError::io(format!("growing {} to {pages} pages", self.path()), error),
        })?;
        if let Err(error) = self.media.sync(self.file) {
            // W6: after a failed sync nobody knows what the file holds.
            let doing = format!("syncing {}", self.path());
            log.stop(format!("{doing} failed: {error}"));
            return Err(PoolError::io(doing, error));
        }
        self.pages.store(target, Ordering::Release);
        Ok(())
    }

    /// That the page lies in the file.
    pub(crate) fn check(&self, page: PageId) -> Result<(), PoolError> {
        let pages = self.pages();
        if page.get() < pages { Ok(()) } else { Err(PoolError::Beyond { file: self.path(), page, pages }) }
    }

    /// Fills `into` with the pages from `first` on, whatever their bytes; `into` is a multiple of a page long.
    pub(crate) fn read(&self, first: PageId, into: &mut [u8]) -> Result<(), PoolError> {
        read_exact_at(&*self.media, self.file, first.file_offset(), into)
            .map_err(|error| PoolError::io(format!("reading page {first} of {}", self.path()), error))
    }

    /// That these bytes are page `id` (E11.6).
    pub(crate) fn verify(&self, bytes: &[u8], id: PageId) -> Result<(), PoolError> {
        let page = bytes.try_into().expect("one page is verified at a time");
        verify(page, id).map_err(|damage| PoolError::damaged(self.path(), damage))
    }

    /// Gives the space of `count` pages from `first` on back to the file system.
    pub(crate) fn punch(&self, first: PageId, count: u64) -> Result<(), PoolError> {
        self.media
            .punch(self.file, first.file_offset(), count * PAGE_LEN as u64)
            .map_err(|error| PoolError::io(format!("giving back space of {}", self.path()), error))
    }
}
