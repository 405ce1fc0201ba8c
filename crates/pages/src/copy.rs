//! Copies of the page file while pages change, for backups (Lemon §3.4).
//!
//! 1. A page is copied as it lies at home, perhaps older than in memory and newer than its neighbours. Together with all
//!    records from a redo point on, which was set before the copy began, such pages are those of a crash.
//! 2. A page that is on its way home while it is copied may be read in parts of two images. It is read again while no batch
//!    goes home; if it does not verify then, it is copied from memory, perhaps [rebuilt](crate::Rebuild), or else the copy is refused.
//! 3. A copy of changes has the pages whose LSN is at least that of the redo point of an earlier copy. Each other page was home with all
//!    of its changes when that redo point was set, so the earlier copy has it as it is now, or without bytes: it was punched, and
//!    a crash has undone that. Then a copy of changes has it.
//! 4. The copy is as long as the file when the end of the log's copy is determined: that log may name pages that the
//!    file got meanwhile (E18.3a).
//! 5. A page is noted as written in the copy if it has bytes there (E22).

use cedrat_media::{
    AlignedBuf, CopiedUnits, Durability, FileId, Media, OpenMode, copy_file, read_exact_at, write_all_at,
};
use cedrat_sync::{Arc, planted};
use cedrat_wal::Lsn;
use std::io;

use crate::double_write::DOUBLE_WRITE_FILE;
use crate::error::PoolError;
use crate::file::PAGE_FILE;
use crate::page::{Damaged, PAGE_LEN, PageId, is_unwritten, lsn_of, seal, verify};
use crate::pool::Pool;
use crate::written::{WRITTEN_FILE, WrittenBits, WrittenPages};

/// The number of pages that are read at a time.
const PAGES_AT_ONCE: u64 = 256;

/// Copies the files of the pages of a store that is not open, a backup for example, durably but for their names. Returns the number
/// of bytes.
///
/// # Errors
/// [`PoolError::Io`].
pub fn copy_page_files(from: &dyn Media, to: &dyn Media) -> Result<u64, PoolError> {
    let failed = |name: &str, error| PoolError::io(format!("copying {name}"), error);
    let names = from.list("").map_err(|error| failed("a directory", error))?;
    let files =
        [PAGE_FILE, WRITTEN_FILE, DOUBLE_WRITE_FILE].into_iter().filter(|&file| names.iter().any(|name| name == file));
    let mut bytes = 0;
    for name in files {
        bytes += copy_file(from, to, name).map_err(|error| failed(name, error))?;
    }
    Ok(bytes)
}

/// Gives a page file that is not open space for this number of pages, durably. A longer file is left as it is.
///
/// # Errors
/// [`PoolError::Io`].
pub fn grow_page_file(media: &dyn Media, pages: u64) -> Result<(), PoolError> {
    let grow = || {
        let file = media.open(PAGE_FILE, OpenMode::ReadWrite)?;
        let (len, wanted) = (media.len(file)?, pages.saturating_mul(PAGE_LEN as u64));
        if len < wanted {
            media.allocate(file, len, wanted - len)?;
            media.sync(file)?;
        }
        Ok(())
    };
    grow().map_err(|error| PoolError::io(format!("growing {PAGE_FILE} to {pages} pages"), error))
}

/// Checks each page of a copy of the pages of a store that was not opened since, free ones too, and the file of written pages.
/// `damaged` receives each damage. Returns the number of pages.
///
/// # Errors
/// [`PoolError::Foreign`]: the file of written pages; [`PoolError::Io`].
pub fn check_copied_pages(media: &dyn Media, damaged: &mut dyn FnMut(PoolError)) -> Result<u64, PoolError> {
    let failed = |error| PoolError::io(format!("reading {PAGE_FILE}"), error);
    // Without the file, no page is noted.
    let written = WrittenBits::look(media)?;
    let file = media.open(PAGE_FILE, OpenMode::Read).map_err(failed)?;
    let pages = media.len(file).map_err(failed)? / PAGE_LEN as u64;
    let mut buffer = AlignedBuf::zeroed(PAGES_AT_ONCE as usize * PAGE_LEN);
    for first in (0..pages).step_by(PAGES_AT_ONCE as usize) {
        let bytes = &mut buffer[..PAGES_AT_ONCE.min(pages - first) as usize * PAGE_LEN];
        read_exact_at(media, file, PageId::new(first).file_offset(), bytes).map_err(failed)?;
        for (image, page) in bytes.chunks_exact(PAGE_LEN).zip((first..).map(PageId::new)) {
            let image = image.try_into().expect("a page");
            let checked = verify(image, page).and_then(|()| {
                match (is_unwritten(image), written.as_ref().is_some_and(|bits| bits.has(page))) {
                    (true, true) => Err(Damaged::lost(page)),
                    (false, false) => Err(Damaged { page, byte: 0, what: "the page is not noted as written" }),
                    _ => Ok(()),
                }
            });
            if let Err(damage) =
                checked.or_else(|error| if planted!("free_pages_unchecked") { Ok(()) } else { Err(error) })
            {
                damaged(PoolError::damaged(media.path(file), damage));
            }
        }
    }
    // Behind the end of a file that was shortened.
    for page in written.iter().flat_map(|bits| bits.from(pages)) {
        if !planted!("shortened_copy_unchecked") {
            damaged(PoolError::damaged(media.path(file), Damaged::lost(page)));
        }
    }
    Ok(pages)
}

/// The pages of an earlier copy.
#[derive(Debug)]
pub struct EarlierPages {
    redo_lsn: Lsn,
    written: Option<WrittenBits>,
}

impl EarlierPages {
    /// Reads which pages an earlier copy has, which was made after this redo point was set.
    ///
    /// # Errors
    /// [`PoolError::Foreign`]: the file of written pages; [`PoolError::Io`].
    pub fn look(media: &dyn Media, redo_lsn: Lsn) -> Result<EarlierPages, PoolError> {
        Ok(EarlierPages { redo_lsn, written: WrittenBits::look(media)? })
    }

    /// Whether it has a page as it is now, with this LSN.
    fn has(&self, page: PageId, lsn: Lsn) -> bool {
        let has_bytes = self.written.as_ref().is_some_and(|bits| bits.has(page)) || planted!("punched_page_is_older");
        has_bytes && Lsn::ZERO < lsn && lsn < self.redo_lsn
    }
}

/// The pages that were copied.
#[derive(Debug)]
pub struct CopiedPages {
    /// The number of pages that have bytes.
    pub pages: u64,
    /// The length of the page file, in bytes.
    pub file_len: u64,
    /// The pages that a copy of changes has; of a whole copy nothing.
    pub units: CopiedUnits,
}

impl Pool {
    /// Returns the length of the page file, in bytes.
    pub fn file_len(&self) -> u64 {
        self.file.pages() * PAGE_LEN as u64
    }

    /// Copies all pages to another directory, durably, and returns the number of those that have bytes. `copied` receives the
    /// number of bytes that have been read after each piece, and may refuse to go on. With an earlier copy, only pages that it
    /// does not have as they are now are written.
    ///
    /// The caller has set a redo point before, and keeps the log from it on. No page that is freed after it is punched or
    /// used again meanwhile.
    ///
    /// # Errors
    /// [`PoolError::Damaged`]: a page at home is not what was written. [`PoolError::Io`].
    pub fn copy(
        &self,
        to: &Arc<dyn Media>,
        earlier: Option<&EarlierPages>,
        copied: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> Result<CopiedPages, PoolError> {
        // Pages that are allocated from now on have all of their records behind the redo point.
        let pages = self.file.pages();
        let doing = || format!("copying pages to {PAGE_FILE}");
        let failed = |error| PoolError::io(doing(), error);
        let file = to.open(PAGE_FILE, OpenMode::Create).map_err(failed)?;
        let file_len = pages * PAGE_LEN as u64;
        match earlier {
            None => to.allocate(file, 0, file_len),
            Some(_) => to.set_len(file, file_len),
        }
        .map_err(failed)?;
        let mut units = CopiedUnits::new(PAGE_LEN as u64);
        let mut buffer = AlignedBuf::zeroed(PAGES_AT_ONCE as usize * PAGE_LEN);
        let mut noted = Vec::new();
        for first in (0..pages).step_by(PAGES_AT_ONCE as usize) {
            let count = PAGES_AT_ONCE.min(pages - first);
            let bytes = &mut buffer[..count as usize * PAGE_LEN];
            self.read_for_copy(PageId::new(first), bytes)?;
            match earlier {
                None => write_all_at(&**to, file, PageId::new(first).file_offset(), bytes, Durability::Volatile),
                Some(earlier) => write_changed(&**to, file, first, bytes, earlier, &mut units),
            }
            .map_err(failed)?;
            let images = bytes.chunks_exact(PAGE_LEN).zip(first..);
            let written = images.filter(|(image, _)| !is_unwritten((*image).try_into().expect("a page")));
            noted.extend(written.map(|(_, page)| PageId::new(page)));
            copied(bytes.len() as u64).map_err(failed)?;
        }
        to.sync(file).map_err(failed)?;
        WrittenPages::create(to, pages, &noted)?;
        Ok(CopiedPages { pages: noted.len() as u64, file_len, units })
    }

    /// Gives a copy space for all pages that the file has now, durably: the log up to here may name those that it got while it was
    /// copied.
    ///
    /// # Errors
    /// [`PoolError::Io`].
    pub fn grow_copy(&self, to: &dyn Media, copied: &mut CopiedPages, is_of_changes: bool) -> Result<(), PoolError> {
        let (before, len) = (copied.file_len, self.file_len());
        if len <= before || planted!("copy_not_grown") {
            return Ok(());
        }
        let failed = |error| PoolError::io(format!("growing the copy of {PAGE_FILE}"), error);
        let file = to.open(PAGE_FILE, OpenMode::ReadWrite).map_err(failed)?;
        let grown = if is_of_changes { to.set_len(file, len) } else { to.allocate(file, before, len - before) };
        grown.and_then(|()| to.sync(file)).map_err(failed)?;
        copied.file_len = len;
        Ok(())
    }

    /// Reads whole images of consecutive pages.
    fn read_for_copy(&self, first: PageId, bytes: &mut [u8]) -> Result<(), PoolError> {
        self.file.read(first, bytes)?;
        for (index, image) in bytes.chunks_exact_mut(PAGE_LEN).enumerate() {
            let page = first.after(index as u64);
            if self.file.verify(image, page).is_err() && !planted!("torn_page_copied") {
                self.read_whole(page, image)?;
            }
        }
        Ok(())
    }

    /// Reads the image of a page while no batch of pages goes home; if that does not verify, from memory.
    fn read_whole(&self, page: PageId, image: &mut [u8]) -> Result<(), PoolError> {
        if self.read_at_home(page, image).is_ok() {
            return Ok(());
        }
        match self.read(page) {
            Ok(latched) => image.copy_from_slice(latched.bytes()),
            // Nothing relies on its content (E22.3a).
            Err(PoolError::Damaged { .. }) if self.may_be_half_punched(page)? => image.fill(0),
            Err(error) => return Err(error),
        }
        let image: &mut [u8; PAGE_LEN] = image.try_into().expect("the length of a page");
        if lsn_of(image) > Lsn::ZERO {
            seal(image, page);
        }
        Ok(())
    }
}

/// Writes those of consecutive pages that an earlier copy does not have as they are, and notes all that have bytes.
fn write_changed(
    to: &dyn Media,
    file: FileId,
    first: u64,
    bytes: &[u8],
    earlier: &EarlierPages,
    units: &mut CopiedUnits,
) -> io::Result<()> {
    let mut begin: Option<usize> = None;
    let write = |pages: std::ops::Range<usize>| {
        let offset = PageId::new(first + pages.start as u64).file_offset();
        write_all_at(to, file, offset, &bytes[pages.start * PAGE_LEN..pages.end * PAGE_LEN], Durability::Volatile)
    };
    let count = bytes.len() / PAGE_LEN;
    for (index, image) in bytes.chunks_exact(PAGE_LEN).enumerate() {
        let (page, image): (u64, &[u8; PAGE_LEN]) = (first + index as u64, image.try_into().expect("a page"));
        let is_older = earlier.has(PageId::new(page), lsn_of(image)) || planted!("changed_pages_not_copied");
        if is_unwritten(image) || is_older {
            if is_older && !is_unwritten(image) {
                units.push_older(page);
            }
            begin.take().map_or(Ok(()), |begin| write(begin..index))?;
        } else {
            units.push_here(page, image);
            begin.get_or_insert(index);
        }
    }
    begin.map_or(Ok(()), |begin| write(begin..count))
}
