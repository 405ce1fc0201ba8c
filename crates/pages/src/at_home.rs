//! A page as it is in the files of a store, whole or damaged: for tools.

use cedrat_media::{AlignedBuf, Media, OpenMode, read_exact_at};

use crate::double_write;
use crate::error::PoolError;
use crate::file::PAGE_FILE;
use crate::page::{Damaged, PAGE_LEN, PageId, verify};
use crate::view::PageBuf;
use crate::written::WrittenBits;

/// A page as it is in the page file. Recovery may change it.
#[derive(Debug)]
#[non_exhaustive]
pub struct PageAtHome {
    /// Its bytes.
    pub bytes: PageBuf,
    /// The path of the page file.
    pub file: String,
    /// The number of whole pages in the file.
    pub pages: u64,
    /// The damage of the page, if it does not verify.
    pub damage: Option<Damaged>,
    /// Whether the file `written` notes the page as written; `None` if there is no such file, or it is not valid.
    pub was_written: Option<bool>,
    /// The offset of a whole copy in the double-write area, from which an opening restores a damaged page.
    pub copy_at: Option<u64>,
}

impl PageAtHome {
    /// Reads a page, and changes nothing.
    ///
    /// # Errors
    /// [`PoolError::Beyond`]: the file has no such page. [`PoolError::Io`].
    pub fn look(media: &dyn Media, page: PageId) -> Result<PageAtHome, PoolError> {
        let failed = |error| PoolError::io(format!("reading page {page} of {PAGE_FILE}"), error);
        let file = media.open(PAGE_FILE, OpenMode::Read).map_err(failed)?;
        let path = media.path(file);
        let pages = media.len(file).map_err(failed)? / PAGE_LEN as u64;
        if page.get() >= pages {
            return Err(PoolError::Beyond { file: path, page, pages });
        }
        let mut bytes = AlignedBuf::zeroed(PAGE_LEN);
        read_exact_at(media, file, page.file_offset(), &mut bytes).map_err(failed)?;
        let bytes: &[u8; PAGE_LEN] = (&bytes[..]).try_into().expect("the length of a page");
        let was_written = WrittenBits::look(media).ok().flatten().map(|bits| bits.has(page));
        let is_lost = was_written == Some(true) && bytes.iter().all(|&byte| byte == 0);
        let damage = if is_lost { Some(Damaged::lost(page)) } else { verify(bytes, page).err() };
        let copy_at = double_write::whole_copy(media, page).ok().flatten();
        Ok(PageAtHome { bytes: PageBuf::from_bytes(page, bytes), file: path, pages, damage, was_written, copy_at })
    }
}
