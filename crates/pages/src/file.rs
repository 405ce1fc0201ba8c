//! The page file, the home of pages: page n is at byte n × 4096.

use std::io;

use cedrat_media::{FileId, Media, OpenMode, read_exact_at};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex, planted};
use cedrat_wal::Log;

use crate::error::PoolError;
use crate::page::{Damaged, PAGE_LEN, PageId, is_unwritten, verify};
use crate::written::WrittenPages;

/// The name of the page file.
pub const PAGE_FILE: &str = "pages";

/// The number of pages by which the file grows: an eighth, at least `GROWTH_MIN` (1 MiB) and at most `GROWTH_MAX`, because growing
/// costs a sync, and a growing file is several times slower to write (docs/inside/media.md). A small file begins with
/// `GROWTH_FIRST` pages and doubles until it grows by `GROWTH_MIN`.
const GROWTH_FIRST: u64 = 32;
const GROWTH_MIN: u64 = 256;
const GROWTH_MAX: u64 = 16384;

/// Returns the number of pages for which a file of `pages` pages needs frames.
pub(crate) fn needed_for(pages: u64) -> u64 {
    pages + GROWTH_MIN
}

/// The open page file.
#[derive(Debug)]
pub(crate) struct PageFile {
    media: Arc<dyn Media>,
    file: FileId,
    /// The number of pages for which the file has durable space.
    pages: AtomicU64,
    pages_max: u64,
    written: WrittenPages,
    growing: Mutex<()>,
    syncing: Mutex<()>,
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
            written: WrittenPages::open(media, pages_max)?,
            growing: Mutex::new(()),
            syncing: Mutex::new(()),
        })
    }

    /// Returns the number of pages for which an opening needs frames: those of the file, and some to grow by.
    pub(crate) fn pages_needed(&self) -> u64 {
        needed_for(self.pages()).min(self.pages_max)
    }

    /// Limits the file to `pages_max` pages.
    pub(crate) fn limit_to(&mut self, pages_max: u64) {
        self.pages_max = pages_max;
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

    /// Allocates space for at least `pages` pages. On return the space is durable, so that a later write home meets
    /// neither a full disk nor, after a crash, the end of the file.
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
        let generous =
            (now + (now / 8).clamp(now.clamp(GROWTH_FIRST, GROWTH_MIN), GROWTH_MAX)).clamp(pages, self.pages_max);
        let reserve = |target: u64| {
            self.written.ensure(target, log)?;
            let (offset, len) = (now * PAGE_LEN as u64, (target - now) * PAGE_LEN as u64);
            self.media.allocate(self.file, offset, len).map(|()| target)
        };
        let target = reserve(generous).or_else(|error| match error.kind() {
            io::ErrorKind::FileTooLarge if planted!("size_limit_not_retried") => Err(error),
            io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge if generous > pages => reserve(pages),
            _ => Err(error),
        });
        let target = target.map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => PoolError::DiskFull { file: self.path(), pages },
            _ => PoolError::io(format!("growing {} to {pages} pages", self.path()), error),
        })?;
        self.sync(log)?;
        self.pages.store(target, Ordering::Release);
        Ok(())
    }

    /// Allocates space again for pages that were punched, durably.
    pub(crate) fn reserve(&self, first: PageId, pages: u64, log: &Log) -> Result<(), PoolError> {
        let allocated = self.media.allocate(self.file, first.file_offset(), pages * PAGE_LEN as u64);
        allocated.map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => PoolError::DiskFull { file: self.path(), pages: self.pages() },
            _ => PoolError::io(format!("reserving {pages} pages of {} from page {first} on", self.path()), error),
        })?;
        self.sync(log)
    }

    /// Whether the page has been written home and was not punched since.
    pub(crate) fn was_written(&self, page: PageId) -> bool {
        self.written.has(page)
    }

    /// Makes all writes durable. If that fails, the log stops (W6).
    ///
    /// One sync at a time: after one that fails the next reports success (A9), so it must find the log stopped.
    pub(crate) fn sync(&self, log: &Log) -> Result<(), PoolError> {
        let doing = || format!("syncing {}", self.path());
        let _one_at_a_time = self.syncing.lock();
        if let Some(stopped) = log.stopped() {
            return Err(PoolError::io(doing(), io::Error::other(stopped)));
        }
        let synced = self.media.sync(self.file);
        let synced = if planted!("failed_sync_ignored") { Ok(()) } else { synced };
        synced.map_err(|error| {
            log.stop(format!("{} failed: {error}", doing()));
            PoolError::io(doing(), error)
        })
    }

    /// Allocates space to note each page as written, in a store that an older version has created.
    pub(crate) fn ensure_noted(&self, log: &Log) -> Result<(), PoolError> {
        let pages = self.pages();
        self.written.ensure(pages, log).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => PoolError::DiskFull { file: self.path(), pages },
            _ => PoolError::io("growing the file of written pages", error),
        })
    }

    /// Makes durable the bytes that an earlier process wrote and this one has read: bytes in the cache, and the
    /// length, even if a sync of them failed and forgot them (R6).
    pub(crate) fn settle(&self, log: &Log) -> Result<(), PoolError> {
        let failed = |error| PoolError::io(format!("setting the length of {}", self.path()), error);
        let len = self.media.len(self.file).map_err(failed)?;
        self.media.set_len(self.file, len).map_err(failed)?;
        self.sync(log)
    }

    /// Checks that the page is in the file.
    pub(crate) fn check(&self, page: PageId) -> Result<(), PoolError> {
        let pages = self.pages();
        if page.get() < pages { Ok(()) } else { Err(PoolError::Beyond { file: self.path(), page, pages }) }
    }

    /// Fills `into` with the pages from `first` on, whatever their bytes; the length of `into` is a multiple of a
    /// page.
    pub(crate) fn read(&self, first: PageId, into: &mut [u8]) -> Result<(), PoolError> {
        read_exact_at(&*self.media, self.file, first.file_offset(), into)
            .map_err(|error| PoolError::io(format!("reading page {first} of {}", self.path()), error))
    }

    /// Checks that these bytes are page `id` (E11.6), and zeros only if it was not written home (E22.3).
    pub(crate) fn verify(&self, bytes: &[u8], id: PageId) -> Result<(), PoolError> {
        if planted!("page_not_verified") {
            return Ok(());
        }
        let page = bytes.try_into().expect("one page is verified at a time");
        let verified = match verify(page, id) {
            Ok(()) if is_unwritten(page) && self.written.has(id) && !planted!("lost_page_not_noticed") => {
                Err(Damaged::lost(id))
            }
            verified => verified,
        };
        verified.map_err(|damage| PoolError::damaged(self.path(), damage))
    }

    /// Returns the set of pages that have been written home.
    pub(crate) fn written(&self) -> &WrittenPages {
        &self.written
    }

    /// Returns the space of extents, each `count` pages from `first` on, to the file system. No page of them may be
    /// on its way home meanwhile.
    pub(crate) fn punch(&self, extents: &[(PageId, u64)], log: &Log) -> Result<(), PoolError> {
        for &(first, count) in extents {
            self.written.remove((0..count).map(|page| first.after(page)));
        }
        if !planted!("punched_before_noted") {
            self.written.write(log)?;
        }
        for &(first, count) in extents {
            self.media
                .punch(self.file, first.file_offset(), count * PAGE_LEN as u64)
                .map_err(|error| PoolError::io(format!("giving back space of {}", self.path()), error))?;
        }
        Ok(())
    }
}
