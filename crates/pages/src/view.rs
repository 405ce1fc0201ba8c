//! Views of a page: the access that each kind of latch permits.
//!
//! | view | held | gives |
//! |---|---|---|
//! | [`PageRef`] | the latch, shared ([`LatchedPage`]) or exclusive, or a [`PageBuf`] | slices |
//! | [`PageMut`] | the exclusive latch, inside one change | writes to body, kind and layout word |
//! | [`OptimisticPage`] | nothing | copies of numbers and bytes that may be inconsistent until validated (E12) |
//!
//! All offsets count from the first byte of the body; an access outside of it is refused.
//!
//! [`PageMut`] has methods that write but lends no `&mut [u8]`: readers without a latch read the same bytes at the
//! same time, which is sound for atomic words only (reason 3 of `frames`). [`PageMut::edit`] lends a copy instead.

use std::fmt;
use std::ops::{Deref, Range};

use cedrat_sync::planted;
use cedrat_wal::Lsn;

use crate::frames::PageWords;
use crate::latch::{ExclusiveLatch, SharedLatch};
use crate::page::{BODY_LEN, Damaged, LayoutKind, PAGE_LEN, PageId, at};

/// A page that does not change while this lives.
///
/// Neither `Clone` nor `Copy`, and everything that it lends borrows it: with a [`LatchedPage`] nothing outlives the
/// latch.
pub struct PageRef<'a> {
    words: &'a PageWords,
    id: PageId,
}

impl<'a> PageRef<'a> {
    pub(crate) fn within(words: &'a PageWords, latch: &'a ExclusiveLatch<'_>) -> PageRef<'a> {
        PageRef { words, id: latch.page() }
    }

    /// Returns the number of the page.
    pub fn id(&self) -> PageId {
        self.id
    }

    /// Returns the LSN of the last record that changed the page; [`Lsn::ZERO`] if none ever did.
    pub fn lsn(&self) -> Lsn {
        Lsn::new(self.words.word(at::LSN / 8))
    }

    /// Returns the layout of the body.
    pub fn kind(&self) -> LayoutKind {
        LayoutKind(self.words.number(at::KIND, 2) as u16)
    }

    /// Returns the eight bytes of the header that belong to the layout.
    pub fn layout_word(&self) -> u64 {
        self.words.word(at::LAYOUT / 8)
    }

    /// Returns the whole page, header included.
    pub fn bytes(&self) -> &[u8; PAGE_LEN] {
        // SAFETY: 4; a `PageRef` is stored together with the latch that it needs, which cannot be moved away from it,
        // or it borrows one, or it borrows a buffer that is written only through an exclusive borrow.
        unsafe { self.words.bytes() }
    }

    /// Returns the body.
    pub fn body(&self) -> &[u8; BODY_LEN] {
        self.bytes()[at::BODY..].try_into().expect("a page is header and body")
    }

    /// Returns a part of the body.
    ///
    /// # Errors
    /// The part is not within the body.
    pub fn slice(&self, range: Range<usize>) -> Result<&[u8], Damaged> {
        let start = range.start;
        self.body().get(range).ok_or_else(|| Damaged::in_body(self.id, start, "a reference leads out of the page"))
    }

    /// Returns the two bytes at `offset`.
    ///
    /// # Errors
    /// They are not within the body; so for the other numbers.
    pub fn u16_at(&self, offset: usize) -> Result<u16, Damaged> {
        Ok(number(self.words, self.id, offset, 2)? as u16)
    }

    /// Returns the four bytes at `offset`.
    pub fn u32_at(&self, offset: usize) -> Result<u32, Damaged> {
        Ok(number(self.words, self.id, offset, 4)? as u32)
    }

    /// Returns the eight bytes at `offset`.
    pub fn u64_at(&self, offset: usize) -> Result<u64, Damaged> {
        number(self.words, self.id, offset, 8)
    }

    /// Returns the same page as a reader without a latch sees it, so that one function can serve both.
    ///
    /// Its reads need no validation while `self` lives.
    pub fn as_optimistic(&self) -> OptimisticPage<'_> {
        OptimisticPage { words: self.words, id: self.id }
    }
}

impl fmt::Debug for PageRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageRef").field("id", &self.id).field("lsn", &self.lsn()).field("kind", &self.kind()).finish()
    }
}

/// A page under its shared latch, from [`crate::Pool::read`].
///
/// Drop it soon: threads that change the page wait for it. At most a few are held at once, and none while a page is
/// changed (docs/inside/latches.md).
#[derive(Debug)]
pub struct LatchedPage<'a> {
    page: PageRef<'a>,
    _latch: SharedLatch<'a>,
}

impl<'a> LatchedPage<'a> {
    pub(crate) fn new(words: &'a PageWords, latch: SharedLatch<'a>) -> LatchedPage<'a> {
        LatchedPage { page: PageRef { words, id: latch.page() }, _latch: latch }
    }
}

impl<'a> Deref for LatchedPage<'a> {
    type Target = PageRef<'a>;

    fn deref(&self) -> &PageRef<'a> {
        &self.page
    }
}

/// A page that is being changed, by one redo of one record.
///
/// It exists only inside [`crate::Exclusive::change`] and [`PageBuf::change`], which stamp the record's LSN
/// afterwards; it gives no way to set LSN, number or checksum.
pub struct PageMut<'a> {
    words: &'a PageWords,
    id: PageId,
    lsn: Lsn,
    /// The page's LSN after the change.
    stamp: Lsn,
}

impl<'a> PageMut<'a> {
    pub(crate) fn under(words: &'a PageWords, latch: &'a mut ExclusiveLatch<'_>, lsn: Lsn, stamp: Lsn) -> PageMut<'a> {
        PageMut { words, id: latch.page(), lsn, stamp }
    }

    /// Ends the change.
    pub(crate) fn stamp(self) {
        self.words.store(at::LSN, &self.stamp.get().to_le_bytes());
    }

    /// Returns the number of the page.
    pub fn id(&self) -> PageId {
        self.id
    }

    /// Returns the LSN of the record that is being redone. The page will carry it afterwards, unless it has a newer
    /// one and only one of its records is updated ([`crate::Exclusive::change_record`]).
    pub fn changing_at(&self) -> Lsn {
        self.lsn
    }

    /// Returns the current content of the page.
    pub fn page_ref(&self) -> PageRef<'_> {
        PageRef { words: self.words, id: self.id }
    }

    /// Returns the layout of the body.
    pub fn kind(&self) -> LayoutKind {
        self.page_ref().kind()
    }

    /// Returns the eight bytes of the header that belong to the layout.
    pub fn layout_word(&self) -> u64 {
        self.words.word(at::LAYOUT / 8)
    }

    /// Sets the eight bytes of the header that belong to the layout.
    pub fn set_layout_word(&mut self, word: u64) {
        self.words.store(at::LAYOUT, &word.to_le_bytes());
    }

    /// Clears the page: body and layout word become zero, and the layout `kind`.
    pub fn format(&mut self, kind: LayoutKind) {
        self.words.fill(at::LAYOUT, PAGE_LEN - at::LAYOUT, 0);
        self.words.store(at::KIND, &kind.0.to_le_bytes());
    }

    /// Writes `bytes` into the body from `offset` on.
    ///
    /// # Errors
    /// They do not fit there; nothing was written. So for the other writing methods.
    pub fn put(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Damaged> {
        let from = inside(self.id, offset, bytes.len())?;
        self.words.store(from, bytes);
        Ok(())
    }

    /// Writes one byte.
    pub fn put_u8(&mut self, offset: usize, value: u8) -> Result<(), Damaged> {
        self.put(offset, &[value])
    }

    /// Writes two bytes.
    pub fn put_u16(&mut self, offset: usize, value: u16) -> Result<(), Damaged> {
        self.put_number(offset, 2, value.into())
    }

    /// Writes four bytes.
    pub fn put_u32(&mut self, offset: usize, value: u32) -> Result<(), Damaged> {
        self.put_number(offset, 4, value.into())
    }

    /// Writes eight bytes.
    pub fn put_u64(&mut self, offset: usize, value: u64) -> Result<(), Damaged> {
        self.put_number(offset, 8, value)
    }

    #[inline]
    fn put_number(&mut self, offset: usize, len: usize, value: u64) -> Result<(), Damaged> {
        self.words.set_number(inside(self.id, offset, len)?, len, value);
        Ok(())
    }

    /// Sets every byte of `range` to `byte`.
    pub fn fill(&mut self, range: Range<usize>, byte: u8) -> Result<(), Damaged> {
        let len = range.end.saturating_sub(range.start);
        let from = inside(self.id, range.start, len)?;
        self.words.fill(from, len, byte);
        Ok(())
    }

    /// Copies `range` of the body to `offset`; the two may overlap.
    pub fn copy_within(&mut self, range: Range<usize>, offset: usize) -> Result<(), Damaged> {
        let len = range.end.saturating_sub(range.start);
        let from = inside(self.id, range.start, len)?;
        let to = inside(self.id, offset, len)?;
        let mut copy = [0; BODY_LEN];
        self.words.load(from, &mut copy[..len]);
        self.words.store(to, &copy[..len]);
        Ok(())
    }

    /// Lends a copy of `range` of the body to `edit` and writes it back.
    pub fn edit<R>(&mut self, range: Range<usize>, edit: impl FnOnce(&mut [u8]) -> R) -> Result<R, Damaged> {
        let len = range.end.saturating_sub(range.start);
        let from = inside(self.id, range.start, len)?;
        let mut copy = [0; BODY_LEN];
        let copy = &mut copy[..len];
        self.words.load(from, copy);
        let result = edit(copy);
        self.words.store(from, copy);
        Ok(result)
    }
}

impl fmt::Debug for PageMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageMut")
            .field("id", &self.id)
            .field("changing_at", &self.lsn)
            .field("kind", &self.kind())
            .finish()
    }
}

/// A page that may change, or be evicted, while it is read.
///
/// Every number is a copy and may be inconsistent; no value derived from it may leave [`crate::Pool::optimistic`]
/// except through the result of the closure, which is validated. `None` means that an offset is outside of
/// the body: return `None`, and the pool tries again. Loops over values read must end whatever the values.
#[derive(Clone, Copy)]
pub struct OptimisticPage<'a> {
    words: &'a PageWords,
    id: PageId,
}

impl<'a> OptimisticPage<'a> {
    #[inline(always)]
    pub(crate) fn new(words: &'a PageWords, id: PageId) -> OptimisticPage<'a> {
        OptimisticPage { words, id }
    }

    /// Returns the number of the requested page.
    pub fn id(&self) -> PageId {
        self.id
    }

    /// Returns the LSN of the last record that changed the page.
    #[inline(always)]
    pub fn lsn(&self) -> Lsn {
        Lsn::new(self.words.word(at::LSN / 8))
    }

    /// Returns the layout of the body.
    #[inline(always)]
    pub fn kind(&self) -> LayoutKind {
        LayoutKind(self.words.number(at::KIND, 2) as u16)
    }

    /// Returns the eight bytes of the header that belong to the layout.
    #[inline(always)]
    pub fn layout_word(&self) -> u64 {
        self.words.word(at::LAYOUT / 8)
    }

    /// Returns the byte at `offset`.
    #[inline(always)]
    pub fn u8_at(&self, offset: usize) -> Option<u8> {
        Some(self.number(offset, 1)? as u8)
    }

    /// Returns the two bytes at `offset`.
    #[inline(always)]
    pub fn u16_at(&self, offset: usize) -> Option<u16> {
        Some(self.number(offset, 2)? as u16)
    }

    /// Returns the four bytes at `offset`.
    #[inline(always)]
    pub fn u32_at(&self, offset: usize) -> Option<u32> {
        Some(self.number(offset, 4)? as u32)
    }

    /// Returns the eight bytes at `offset`.
    #[inline(always)]
    pub fn u64_at(&self, offset: usize) -> Option<u64> {
        self.number(offset, 8)
    }

    /// Copies the bytes from `offset` on into `into`.
    #[inline]
    pub fn copy_to(&self, offset: usize, into: &mut [u8]) -> Option<()> {
        let from = within_body(offset, into.len())?;
        self.words.load(from, into);
        Some(())
    }

    /// Whether the bytes from `offset` on equal `expected`.
    #[inline]
    pub fn equals(&self, offset: usize, expected: &[u8]) -> Option<bool> {
        let from = within_body(offset, expected.len())?;
        Some(self.words.equal(from, expected))
    }

    /// Returns the offsets within `range` of bytes equal to `tag`, ascending; eight bytes are compared at a time.
    ///
    /// A search of a hash bucket uses it: one byte of each key's hash is stored in a row, and only entries whose byte
    /// matches are compared.
    #[inline]
    pub fn find_tag(&self, range: Range<usize>, tag: u8) -> Option<TagMatches<'a>> {
        let len = range.end.checked_sub(range.start)?;
        let from = within_body(range.start, len)?;
        Some(TagMatches::new(self.words, from, from + len, tag))
    }

    #[inline(always)]
    fn number(&self, offset: usize, len: usize) -> Option<u64> {
        let within = within_body(offset, len);
        assert!(within.is_some() || !planted!("garbage_panics"), "it leads out of the page");
        let from = within?;
        Some(self.words.number(from, len))
    }
}

impl fmt::Debug for OptimisticPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OptimisticPage").field("id", &self.id).finish()
    }
}

/// The bytes of a range that equal a tag: see [`OptimisticPage::find_tag`].
pub struct TagMatches<'a> {
    words: &'a PageWords,
    /// One high bit for each byte of the current word that matches and was not yet returned.
    found: u64,
    /// The beginning of the current word, in bytes of the page.
    word_at: usize,
    end: usize,
    pattern: u64,
}

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = LOW_BITS << 7;

impl<'a> TagMatches<'a> {
    #[inline(always)]
    fn new(words: &'a PageWords, from: usize, end: usize, tag: u8) -> TagMatches<'a> {
        let mut matches = TagMatches { words, found: 0, word_at: from & !7, end, pattern: LOW_BITS * u64::from(tag) };
        if from < end {
            matches.look();
            matches.found &= u64::MAX << ((from % 8) * 8);
        }
        matches
    }

    /// Fills `found` for the word at `word_at`. Exact: no byte is reported because of its neighbour's carry.
    #[inline(always)]
    fn look(&mut self) {
        let difference = self.words.word(self.word_at / 8) ^ self.pattern;
        let nonzero = ((difference & !HIGH_BITS) + !HIGH_BITS) | difference;
        self.found = !nonzero & HIGH_BITS;
        if self.end - self.word_at < 8 {
            self.found &= (1 << ((self.end - self.word_at) * 8)) - 1;
        }
    }
}

impl Iterator for TagMatches<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        while self.found == 0 {
            self.word_at += 8;
            if self.word_at >= self.end {
                // Stay at the end, however often `next` is called.
                self.word_at -= 8;
                return None;
            }
            self.look();
        }
        let byte = self.found.trailing_zeros() as usize / 8;
        self.found &= self.found - 1;
        Some(self.word_at + byte - at::BODY)
    }
}

/// A page outside the pool: for tests of operations and layouts, and for tools.
pub struct PageBuf {
    words: Box<PageWords>,
    id: PageId,
}

impl PageBuf {
    /// Creates a page of zeros: never written.
    pub fn new(id: PageId) -> PageBuf {
        PageBuf { words: PageWords::zeroed(), id }
    }

    /// Creates a page with these bytes, valid or not.
    pub fn from_bytes(id: PageId, bytes: &[u8; PAGE_LEN]) -> PageBuf {
        let page = PageBuf::new(id);
        page.words.store(0, bytes);
        page
    }

    /// Returns the page, for reading.
    pub fn page_ref(&self) -> PageRef<'_> {
        PageRef { words: &self.words, id: self.id }
    }

    /// Changes the page as redo of record `lsn` would.
    pub fn change<R>(&mut self, lsn: Lsn, change: impl FnOnce(&mut PageMut<'_>) -> R) -> R {
        self.change_and_stamp(lsn, lsn, change)
    }

    /// Changes one versioned record as [`crate::Exclusive::change_record`] does.
    pub fn change_record<R>(&mut self, version: Lsn, newest: Lsn, change: impl FnOnce(&mut PageMut<'_>) -> R) -> R {
        let stamp = self.page_ref().lsn().max(newest);
        self.change_and_stamp(version, stamp, change)
    }

    fn change_and_stamp<R>(&mut self, lsn: Lsn, stamp: Lsn, change: impl FnOnce(&mut PageMut<'_>) -> R) -> R {
        let mut page = PageMut { words: &self.words, id: self.id, lsn, stamp };
        let result = change(&mut page);
        page.stamp();
        result
    }
}

impl Clone for PageBuf {
    fn clone(&self) -> PageBuf {
        PageBuf::from_bytes(self.id, self.page_ref().bytes())
    }
}

impl fmt::Debug for PageBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.page_ref().fmt(f)
    }
}

/// Returns the offset within the page, if `len` bytes from `offset` of the body on are within it.
#[inline(always)]
fn within_body(offset: usize, len: usize) -> Option<usize> {
    if planted!("bounds_not_checked") {
        return Some(at::BODY + offset);
    }
    (len <= BODY_LEN && offset <= BODY_LEN - len).then(|| at::BODY + offset)
}

fn inside(id: PageId, offset: usize, len: usize) -> Result<usize, Damaged> {
    within_body(offset, len).ok_or_else(|| Damaged::in_body(id, offset, "a reference leads out of the page"))
}

fn number(words: &PageWords, id: PageId, offset: usize, len: usize) -> Result<u64, Damaged> {
    Ok(words.number(inside(id, offset, len)?, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> PageBuf {
        PageBuf::new(PageId::new(5))
    }

    #[test]
    fn change_stamps_only_lsn_in_header() {
        let mut page = page();
        page.change(Lsn::new(9), |page| {
            page.format(LayoutKind(77));
            page.set_layout_word(0x0102_0304_0506_0708);
            page.put_u32(0, 0xAABB_CCDD).unwrap();
            assert_eq!(page.changing_at(), Lsn::new(9));
            assert_eq!(page.page_ref().lsn(), Lsn::ZERO, "stamped after the change");
        });
        let seen = page.page_ref();
        assert_eq!((seen.lsn(), seen.kind()), (Lsn::new(9), LayoutKind(77)));
        assert_eq!(seen.layout_word(), 0x0102_0304_0506_0708);
        assert_eq!(seen.u32_at(0), Ok(0xAABB_CCDD));
        assert_eq!(seen.bytes()[..6], [0; 6], "checksum and format are set when the page is sealed");
    }

    /// E12.1, E12.3: also for readers without a latch, whatever they request.
    #[test]
    fn offset_outside_body_is_refused() {
        let mut page = page();
        page.change(Lsn::new(1), |page| {
            for (offset, len) in [(BODY_LEN, 1), (BODY_LEN - 1, 2), (usize::MAX, 1), (0, BODY_LEN + 1)] {
                assert!(page.put(offset, &vec![0; len]).is_err());
                assert!(page.copy_within(0..len, offset).is_err());
            }
            assert!(page.fill(5..BODY_LEN + 1, 0).is_err());
            assert!(page.edit(usize::MAX - 1..usize::MAX, |_| ()).is_err());
            assert!(page.put(BODY_LEN - 2, &[1, 2]).is_ok());
        });
        let seen = page.page_ref();
        assert!(seen.u64_at(BODY_LEN - 7).is_err());
        assert!(seen.slice(BODY_LEN..BODY_LEN + 1).is_err());
        #[allow(clippy::reversed_empty_ranges, reason = "what garbage on a page may ask for")]
        {
            assert!(seen.slice(9..3).is_err());
            assert!(seen.as_optimistic().find_tag(9..3, 0).is_none());
        }
        let loose = seen.as_optimistic();
        assert_eq!(loose.u64_at(BODY_LEN - 7), None);
        assert_eq!(loose.u16_at(usize::MAX), None);
        assert_eq!(loose.copy_to(BODY_LEN, &mut [0]), None);
        assert_eq!(loose.equals(BODY_LEN - 2, &[1, 2]), Some(true));
        assert_eq!(loose.equals(BODY_LEN - 2, &[1, 3]), Some(false));
    }

    #[test]
    fn copies_within_may_overlap() {
        let mut page = page();
        page.change(Lsn::new(1), |page| {
            page.put(0, b"abcdefghijklmnop").unwrap();
            page.copy_within(0..10, 3).unwrap();
        });
        assert_eq!(page.page_ref().slice(0..16), Ok(&b"abcabcdefghijnop"[..]));
    }

    #[test]
    fn tags_are_found_exactly_where_they_are() {
        let mut page = page();
        let row: Vec<u8> = (0..64).map(|i: u8| i.wrapping_mul(73) % 4).collect();
        page.change(Lsn::new(1), |page| page.put(3, &row).unwrap());
        // Neighbours that differ by one bit and by a borrow.
        page.change(Lsn::new(2), |page| page.put(100, &[0, 1, 0x80, 0x81, 0xFF, 0, 1, 0, 0x7F]).unwrap());
        let seen = page.page_ref();
        for range in [3..67, 3..3, 4..5, 5..9, 7..24, 10..66, 96..112, 100..101, 101..109] {
            for tag in [0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFF] {
                let found: Vec<usize> = seen.as_optimistic().find_tag(range.clone(), tag).unwrap().collect();
                let expected: Vec<usize> = range.clone().filter(|&i| seen.body()[i] == tag).collect();
                assert_eq!(found, expected, "{range:?} {tag}");
            }
        }
    }
}
