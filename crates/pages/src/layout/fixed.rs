//! The fixed layout: records of one length, numbered from 0 without gaps.
//!
//! The layout word holds the length of a record and the number of records, two bytes each. Record *i* begins at byte
//! *i × length* of the body, so a record is found without reading anything else.

use super::expect_kind;
use crate::page::{BODY_LEN, Damaged, LayoutKind, Slot};
use crate::view::{PageMut, PageRef};

/// The numbers in the layout word.
#[derive(Clone, Copy, Debug)]
struct Shape {
    record_len: u16,
    count: u16,
}

impl Shape {
    fn of(page: &PageRef<'_>) -> Result<Shape, Damaged> {
        expect_kind(page, LayoutKind::FIXED)?;
        let word = page.layout_word();
        let shape = Shape { record_len: word as u16, count: (word >> 16) as u16 };
        if shape.record_len == 0 || shape.count > shape.capacity() {
            return Err(Damaged::in_layout_word(page.id(), "the records do not fit the page"));
        }
        Ok(shape)
    }

    fn word(self) -> u64 {
        u64::from(self.record_len) | u64::from(self.count) << 16
    }

    fn capacity(self) -> u16 {
        (BODY_LEN / usize::from(self.record_len)) as u16
    }

    /// Returns the offset of the record.
    fn find(self, page: &PageRef<'_>, slot: Slot) -> Result<usize, Damaged> {
        if slot.0 >= self.count {
            return Err(Damaged::in_layout_word(page.id(), "there is no record of that number"));
        }
        Ok(usize::from(slot.0) * usize::from(self.record_len))
    }
}

/// A reader of a page of fixed-length records.
#[derive(Debug)]
pub struct Fixed<'v> {
    page: &'v PageRef<'v>,
    shape: Shape,
}

impl<'v> Fixed<'v> {
    /// Returns the number of records of `record_len` bytes that fit a page; 0 for a length of 0 or beyond a page.
    pub const fn capacity_for(record_len: u16) -> u16 {
        if record_len == 0 { 0 } else { (BODY_LEN / record_len as usize) as u16 }
    }

    /// Creates a reader of `page`.
    ///
    /// # Errors
    /// It has another layout, or its numbers are invalid.
    pub fn of(page: &'v PageRef<'_>) -> Result<Fixed<'v>, Damaged> {
        Ok(Fixed { shape: Shape::of(page)?, page })
    }

    /// Returns the length of a record in bytes.
    pub fn record_len(&self) -> u16 {
        self.shape.record_len
    }

    /// Returns the number of records in the page.
    pub fn count(&self) -> u16 {
        self.shape.count
    }

    /// Returns the number of records that the page can hold.
    pub fn capacity(&self) -> u16 {
        self.shape.capacity()
    }

    /// Returns a record; `None` if there is none of this number.
    pub fn get(&self, slot: Slot) -> Option<&'v [u8]> {
        let start = self.shape.find(self.page, slot).ok()?;
        self.page.slice(start..start + usize::from(self.shape.record_len)).ok()
    }

    /// Returns all records, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &'v [u8])> + '_ {
        (0..self.count()).filter_map(|slot| Some((Slot(slot), self.get(Slot(slot))?)))
    }
}

/// A writer of a page of fixed-length records.
#[derive(Debug)]
pub struct FixedMut<'v, 'p> {
    page: &'v mut PageMut<'p>,
    shape: Shape,
}

impl<'v, 'p> FixedMut<'v, 'p> {
    /// Formats `page` for records of `record_len` bytes, with none in it.
    ///
    /// # Errors
    /// No record of that length fits.
    pub fn format(page: &'v mut PageMut<'p>, record_len: u16) -> Result<FixedMut<'v, 'p>, Damaged> {
        if Fixed::capacity_for(record_len) == 0 {
            return Err(Damaged::in_layout_word(page.id(), "no record of that length fits a page"));
        }
        page.format(LayoutKind::FIXED);
        let shape = Shape { record_len, count: 0 };
        page.set_layout_word(shape.word());
        Ok(FixedMut { page, shape })
    }

    /// Creates a writer of `page`.
    ///
    /// # Errors
    /// It has another layout, or its numbers are invalid.
    pub fn of(page: &'v mut PageMut<'p>) -> Result<FixedMut<'v, 'p>, Damaged> {
        let shape = Shape::of(&page.page_ref())?;
        Ok(FixedMut { page, shape })
    }

    /// Returns the number of records in the page.
    pub fn count(&self) -> u16 {
        self.shape.count
    }

    /// Sets the number of records. New ones are zero; those beyond it are removed.
    ///
    /// # Errors
    /// The page cannot hold `count` records.
    pub fn set_count(&mut self, count: u16) -> Result<(), Damaged> {
        if count > self.shape.capacity() {
            return Err(Damaged::in_layout_word(self.page.id(), "so many records do not fit the page"));
        }
        // Removed records become zero, so new ones are zero.
        if count < self.shape.count {
            let len = usize::from(self.shape.record_len);
            self.page.fill(usize::from(count) * len..usize::from(self.shape.count) * len, 0)?;
        }
        self.shape.count = count;
        self.page.set_layout_word(self.shape.word());
        Ok(())
    }

    /// Overwrites a record from its first byte on; bytes beyond the length of `record` stay.
    ///
    /// # Errors
    /// There is no such record, or `record` is longer than the records of the page.
    pub fn set(&mut self, slot: Slot, record: &[u8]) -> Result<(), Damaged> {
        let start = self.shape.find(&self.page.page_ref(), slot)?;
        if record.len() > usize::from(self.shape.record_len) {
            return Err(Damaged::in_body(self.page.id(), start, "the record is longer than the page's records"));
        }
        self.page.put(start, record)
    }

    /// Lends a copy of a record to `edit` and writes it back.
    ///
    /// # Errors
    /// There is no such record.
    pub fn edit<R>(&mut self, slot: Slot, edit: impl FnOnce(&mut [u8]) -> R) -> Result<R, Damaged> {
        let start = self.shape.find(&self.page.page_ref(), slot)?;
        self.page.edit(start..start + usize::from(self.shape.record_len), edit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PageBuf, PageId};
    use cedrat_wal::Lsn;

    #[test]
    fn readded_records_are_zero() {
        let mut page = PageBuf::new(PageId::new(1));
        page.change(Lsn::new(1), |page| {
            let mut fixed = FixedMut::format(page, 12).unwrap();
            fixed.set_count(338).unwrap();
            assert!(fixed.set_count(339).is_err());
            for slot in 0..338 {
                fixed.set(Slot(slot), &[slot as u8; 12]).unwrap();
            }
            fixed.set_count(10).unwrap();
            fixed.set_count(12).unwrap();
            fixed.edit(Slot(3), |record| record[0] += 100).unwrap();
            assert!(fixed.set(Slot(12), &[0]).is_err());
            assert!(fixed.set(Slot(1), &[0; 13]).is_err());
        });
        let page = page.page_ref();
        let fixed = Fixed::of(&page).unwrap();
        assert_eq!((fixed.count(), fixed.capacity(), fixed.record_len()), (12, 338, 12));
        assert_eq!(fixed.get(Slot(3)), Some(&[103, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3][..]));
        assert_eq!(fixed.get(Slot(11)), Some(&[0; 12][..]));
        assert_eq!(fixed.get(Slot(12)), None);
        assert_eq!(fixed.iter().count(), 12);
    }

    #[test]
    fn every_length_is_taken_or_refused() {
        let mut page = PageBuf::new(PageId::new(1));
        for (len, capacity) in [(1, 4064), (8, 508), (4064, 1), (2033, 1)] {
            page.change(Lsn::new(1), |page| FixedMut::format(page, len).unwrap().set_count(capacity)).unwrap();
        }
        for len in [0, 4065, u16::MAX] {
            assert!(page.change(Lsn::new(1), |page| FixedMut::format(page, len).is_err()));
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_damage() {
        let mut page = PageBuf::new(PageId::new(1));
        for word in [0, 8 | 509 << 16, 0xFFFF_FFFF] {
            page.change(Lsn::new(1), |page| {
                page.format(LayoutKind::FIXED);
                page.set_layout_word(word);
            });
            assert!(Fixed::of(&page.page_ref()).is_err(), "{word:x}");
        }
    }
}
