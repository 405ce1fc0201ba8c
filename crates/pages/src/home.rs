//! The state of the home files before anything is opened for writing.
//!
//! An opening that refuses has written nothing (R2), so every reason for [`Pool::open`] to refuse is checked here
//! first.

use cedrat_media::{AlignedBuf, FileId, Media, OpenMode, read_exact_at};
use cedrat_sync::Arc;
use cedrat_wal::Lsn;

use crate::double_write;
use crate::error::PoolError;
use crate::file::{PAGE_FILE, needed_for};
use crate::page::{PAGE_LEN, PageId, verify};
#[cfg(doc)]
use crate::pool::Pool;
use crate::pool::{PoolOptions, address_space_of};
use crate::view::PageBuf;
use crate::written;

/// Page file and double-write area as they were found.
#[derive(Debug)]
pub struct Home {
    media: Arc<dyn Media>,
    /// `None`: there is no page file.
    file: Option<FileId>,
    pages: u64,
    promised: Lsn,
}

impl Home {
    /// Looks at the files, and changes nothing.
    ///
    /// # Errors
    /// The errors with which [`Pool::open`] would refuse these files and options, except for a full disk.
    pub fn look(media: &Arc<dyn Media>, options: &PoolOptions) -> Result<Home, PoolError> {
        options.check()?;
        let failed = |error| PoolError::io("measuring the page file", error);
        let file = match media.open(PAGE_FILE, OpenMode::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            file => Some(file.map_err(failed)?),
        };
        let len = file.map_or(Ok(0), |file| media.len(file)).map_err(failed)?;
        let pages = len / PAGE_LEN as u64;
        if pages > options.pages_max {
            return Err(PoolError::Limit { pages, limit: options.pages_max });
        }
        let promised = double_write::promised(&**media)?;
        written::look(&**media, options.pages_max)?;
        Ok(Home { media: Arc::clone(media), file, pages, promised })
    }

    /// Checks that the files that exist can be opened for writing. Changes nothing.
    ///
    /// # Errors
    /// Access to one of them is refused.
    pub fn check_access(&self) -> Result<(), PoolError> {
        for name in [PAGE_FILE, double_write::DOUBLE_WRITE_FILE, written::WRITTEN_FILE] {
            match self.media.open(name, OpenMode::ReadWrite) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(PoolError::io(format!("opening {name}"), error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the number of whole pages in the page file.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the address space that the pool needs for these pages, in bytes.
    pub fn address_space(&self) -> u64 {
        address_space_of(needed_for(self.pages))
    }

    /// Returns the LSN up to which the log is known to be durable from the double-write area: an end of the log
    /// before this is damage. Zero if no page was ever written home.
    pub fn promised(&self) -> Lsn {
        self.promised
    }

    /// Returns the page at home; `None` if it is beyond the file, or does not verify: a crash may have torn it, and
    /// opening the pool then restores it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn page(&self, page: PageId) -> Result<Option<PageBuf>, PoolError> {
        let Some(file) = self.file.filter(|_| page.get() < self.pages) else {
            return Ok(None);
        };
        let mut bytes = AlignedBuf::zeroed(PAGE_LEN);
        read_exact_at(&*self.media, file, page.file_offset(), &mut bytes)
            .map_err(|error| PoolError::io(format!("reading page {page} of {}", self.path()), error))?;
        let bytes: &[u8; PAGE_LEN] = (&bytes[..]).try_into().expect("the length of a page");
        Ok(verify(bytes, page).is_ok().then(|| PageBuf::from_bytes(page, bytes)))
    }

    /// Checks that the page file contains a page that is known to have been in use.
    ///
    /// # Errors
    /// [`PoolError::Foreign`]: the file was truncated.
    pub fn has(&self, page: PageId) -> Result<(), PoolError> {
        if page.get() < self.pages {
            return Ok(());
        }
        Err(PoolError::Foreign {
            file: self.path(),
            offset: self.pages * PAGE_LEN as u64,
            what: format!("the page file ends here, but page {page} was in use; restore the file from a copy"),
        })
    }

    fn path(&self) -> String {
        self.file.map_or_else(|| PAGE_FILE.to_owned(), |file| self.media.path(file))
    }
}
