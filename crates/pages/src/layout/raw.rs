//! The raw layout: an array of bytes.

use std::ops::Range;

use super::expect_kind;
use crate::page::{BODY_LEN, Damaged, LayoutKind};
use crate::view::{PageMut, PageRef};

/// A reader of a raw page.
#[derive(Debug)]
pub struct Raw<'v> {
    page: &'v PageRef<'v>,
}

impl<'v> Raw<'v> {
    /// The number of bytes in a raw page.
    pub const LEN: usize = BODY_LEN;

    /// Creates a reader of `page`.
    ///
    /// # Errors
    /// It has another layout.
    pub fn of(page: &'v PageRef<'_>) -> Result<Raw<'v>, Damaged> {
        expect_kind(page, LayoutKind::RAW)?;
        Ok(Raw { page })
    }

    /// Returns a part of the array.
    ///
    /// # Errors
    /// It is not within the page.
    pub fn get(&self, range: Range<usize>) -> Result<&'v [u8], Damaged> {
        self.page.slice(range)
    }
}

/// A writer of a raw page.
#[derive(Debug)]
pub struct RawMut<'v, 'p> {
    page: &'v mut PageMut<'p>,
}

impl<'v, 'p> RawMut<'v, 'p> {
    /// Formats `page` as a raw page of zeros.
    pub fn format(page: &'v mut PageMut<'p>) -> RawMut<'v, 'p> {
        page.format(LayoutKind::RAW);
        RawMut { page }
    }

    /// Creates a writer of `page`.
    ///
    /// # Errors
    /// It has another layout.
    pub fn of(page: &'v mut PageMut<'p>) -> Result<RawMut<'v, 'p>, Damaged> {
        expect_kind(&page.page_ref(), LayoutKind::RAW)?;
        Ok(RawMut { page })
    }

    /// Writes `bytes` from `offset` on.
    ///
    /// # Errors
    /// They do not fit there; nothing was written.
    pub fn put(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Damaged> {
        self.page.put(offset, bytes)
    }

    /// Lends a copy of a part of the array to `edit` and writes it back.
    ///
    /// # Errors
    /// The part is not within the page.
    pub fn edit<R>(&mut self, range: Range<usize>, edit: impl FnOnce(&mut [u8]) -> R) -> Result<R, Damaged> {
        self.page.edit(range, edit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PageBuf, PageId};
    use cedrat_wal::Lsn;

    #[test]
    fn bytes_are_where_they_were_put() {
        let mut page = PageBuf::new(PageId::new(1));
        page.change(Lsn::new(1), |page| {
            let mut raw = RawMut::format(page);
            raw.put(4060, b"tail").unwrap();
            assert!(raw.put(4061, b"tail").is_err());
            raw.edit(0..2, |bytes| bytes.fill(9)).unwrap();
        });
        let page = page.page_ref();
        let raw = Raw::of(&page).unwrap();
        assert_eq!(raw.get(4060..4064), Ok(&b"tail"[..]));
        assert_eq!(raw.get(0..3), Ok(&[9, 9, 0][..]));
        assert!(raw.get(4060..4065).is_err());
    }

    #[test]
    fn page_of_another_layout_is_refused() {
        let page = PageBuf::new(PageId::new(1));
        assert!(Raw::of(&page.page_ref()).is_err());
    }
}
