//! Pages for readers beside the process that writes them (E26).
//!
//! 1. A page is read from the page file when a reader needs it, and kept in a private copy: for the reader it does not change again.
//!    Together with all records from a redo point on, which was read before, such pages are those of a crash.
//! 2. A page that is read while it goes home may be torn; it is read again. If the writer has died meanwhile, its image is in the
//!    double-write area, which the next copy has.
//! 3. A page whose LSN is newer than the state of a view is no base for redo up to that state: the view refuses it. It is in the copy
//!    from then on, so a view of a later state has it.
//! 4. The file of written pages is copied before any page. A page that is noted there and reads as zeros was freed and punched since.

use cedrat_media::{
    AlignedBuf, Durability, FileId, ForwardMedia, Media, OpenMode, copy_file, read_exact_at, write_all_at,
};
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, Mutex, planted, thread};
use cedrat_wal::Lsn;
use std::io;

use crate::double_write::DOUBLE_WRITE_FILE;
use crate::error::PoolError;
use crate::file::PAGE_FILE;
use crate::page::{PAGE_LEN, PageId, lsn_of, verify};
use crate::written::WRITTEN_FILE;

/// The number of pages that are read at a time.
const PAGES_AT_ONCE: u64 = 256;

/// The number of times that a page is read until its checksum matches. A write of a page takes microseconds, unless its process was
/// stopped within it.
const READS_MAX: usize = 1000;

/// A private copy of the page file of a store that another process may be writing, filled as pages are read.
#[derive(Debug)]
pub struct PagesBeside {
    live: Arc<dyn Media>,
    from: FileId,
    copy: Arc<dyn Media>,
    to: FileId,
    has: Mutex<PageSet>,
}

/// A set of pages.
#[derive(Debug, Default)]
struct PageSet(Vec<u64>);

impl PageSet {
    fn has(&self, page: PageId) -> bool {
        let (word, bit) = place_of(page);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    fn add(&mut self, page: PageId) {
        let (word, bit) = place_of(page);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit;
    }
}

fn place_of(page: PageId) -> (usize, u64) {
    ((page.get() / 64) as usize, 1 << (page.get() % 64))
}

impl PagesBeside {
    /// Begins a copy without pages in a directory that has none, with the other files of pages. The caller has read the redo point.
    ///
    /// # Errors
    /// [`PoolError::Io`].
    pub fn begin(live: &Arc<dyn Media>, copy: &Arc<dyn Media>) -> Result<PagesBeside, PoolError> {
        let failed = |error| PoolError::io(format!("copying the files of {PAGE_FILE}"), error);
        let names = live.list("").map_err(failed)?;
        let others =
            [WRITTEN_FILE, DOUBLE_WRITE_FILE].into_iter().filter(|&file| names.iter().any(|name| name == file));
        for name in others.filter(|_| !planted!("written_pages_not_copied")) {
            copy_file(&**live, &**copy, name).map_err(failed)?;
        }
        let from = live.open(PAGE_FILE, OpenMode::Read).map_err(failed)?;
        let to = copy.open(PAGE_FILE, OpenMode::Create).map_err(failed)?;
        let pages = PagesBeside { live: Arc::clone(live), from, copy: Arc::clone(copy), to, has: Mutex::default() };
        pages.grow()?;
        Ok(pages)
    }

    /// Makes the copy as long as the page file is now, which never shrinks. Returns the number of pages.
    ///
    /// # Errors
    /// [`PoolError::Io`].
    pub fn grow(&self) -> Result<u64, PoolError> {
        let pages = self.live.len(self.from).map(|len| len / PAGE_LEN as u64);
        let grown = pages.and_then(|pages| self.copy.set_len(self.to, pages * PAGE_LEN as u64).map(|()| pages));
        grown.map_err(|error| PoolError::io(format!("measuring {PAGE_FILE}"), error))
    }

    /// Reads those of the pages, in ascending order, that the copy does not have. Returns the newest of their LSNs.
    ///
    /// # Errors
    /// [`PoolError::Io`].
    pub fn fetch(&self, pages: impl IntoIterator<Item = PageId>) -> Result<Lsn, PoolError> {
        let mut newest = Lsn::ZERO;
        let mut run: Option<(PageId, u64)> = None;
        let mut has = self.has.lock();
        for page in pages {
            match &mut run {
                _ if has.has(page) => {}
                Some((first, count)) if first.after(*count) == page && *count < PAGES_AT_ONCE => *count += 1,
                run => {
                    let ended = run.replace((page, 1));
                    newest = newest.max(self.fetch_run(&mut has, ended)?);
                }
            }
        }
        Ok(newest.max(self.fetch_run(&mut has, run)?))
    }

    fn fetch_run(&self, has: &mut PageSet, run: Option<(PageId, u64)>) -> Result<Lsn, PoolError> {
        let Some((first, count)) = run else { return Ok(Lsn::ZERO) };
        let fetched = self.fetch_pages(has, first, count);
        fetched.map_err(|error| PoolError::io(format!("reading {count} pages of {PAGE_FILE} from {first} on"), error))
    }

    /// Reads pages, and adds those that verify. Returns the newest of their LSNs.
    fn fetch_pages(&self, has: &mut PageSet, first: PageId, count: u64) -> io::Result<Lsn> {
        let mut bytes = AlignedBuf::zeroed(count as usize * PAGE_LEN);
        read_exact_at(&*self.live, self.from, first.file_offset(), &mut bytes)?;
        let mut newest = Lsn::ZERO;
        for (index, image) in bytes.chunks_exact_mut(PAGE_LEN).enumerate() {
            let page = first.after(index as u64);
            // A page that never verifies is damaged, and not kept: the pool of the reader reports it.
            if self.read_whole(page, image)? {
                newest = newest.max(lsn_of((&*image).try_into().expect("a page")));
                has.add(page);
            }
        }
        write_all_at(&*self.copy, self.to, first.file_offset(), &bytes, Durability::Volatile)?;
        Ok(newest)
    }

    /// Reads a page again until it verifies; `false` if it never does.
    fn read_whole(&self, page: PageId, image: &mut [u8]) -> io::Result<bool> {
        for _ in 0..READS_MAX {
            if verify((&*image).try_into().expect("a page"), page).is_ok() {
                return Ok(true);
            }
            if planted!("torn_page_not_read_again") {
                return Ok(false);
            }
            thread::yield_now();
            read_exact_at(&*self.live, self.from, page.file_offset(), image)?;
        }
        Ok(false)
    }
}

/// A medium that shows the private copy of a store to a view, with the pages that the view may have.
#[derive(Debug)]
pub struct PagesAsOf {
    pages: Arc<PagesBeside>,
    lsn: Lsn,
    has_met_newer: AtomicBool,
}

impl PagesAsOf {
    /// Creates the medium of a view as of an LSN.
    pub fn new(pages: &Arc<PagesBeside>, lsn: Lsn) -> PagesAsOf {
        PagesAsOf { pages: Arc::clone(pages), lsn, has_met_newer: AtomicBool::new(false) }
    }

    /// Whether a page was requested that has changed since. A view as of a later LSN has that page.
    pub fn has_met_newer(&self) -> bool {
        self.has_met_newer.load(Ordering::SeqCst)
    }

    fn check(&self, image: &[u8]) -> io::Result<()> {
        let lsn = lsn_of(image.try_into().expect("a page"));
        if lsn <= self.lsn || planted!("newer_page_shown") {
            return Ok(());
        }
        self.has_met_newer.store(true, Ordering::SeqCst);
        Err(io::Error::other(format!(
            "the page was changed by LSN {lsn}, and this view is as of LSN {}: refresh the reader, and read again",
            self.lsn
        )))
    }
}

impl ForwardMedia for PagesAsOf {
    fn target(&self) -> &dyn Media {
        &*self.pages.copy
    }

    fn forward_open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        if name == PAGE_FILE { Ok(self.pages.to) } else { self.target().open(name, mode) }
    }

    fn forward_read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if file != self.pages.to {
            return self.target().read_at(file, offset, buffer);
        }
        let within = (offset % PAGE_LEN as u64) as usize;
        let page = PageId::new(offset / PAGE_LEN as u64);
        if page.file_offset() + PAGE_LEN as u64 > self.target().len(file)? {
            return Ok(0);
        }
        let mut has = self.pages.has.lock();
        if !has.has(page) {
            self.pages.fetch_pages(&mut has, page, 1)?;
        }
        let mut image = AlignedBuf::zeroed(PAGE_LEN);
        read_exact_at(self.target(), file, page.file_offset(), &mut image)?;
        if has.has(page) {
            self.check(&image)?;
        }
        let count = buffer.len().min(PAGE_LEN - within);
        buffer[..count].copy_from_slice(&image[within..within + count]);
        Ok(count)
    }
}
