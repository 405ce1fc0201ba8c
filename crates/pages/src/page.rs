//! The bytes that every page has, whatever its body contains.
//!
//! Little endian, drawn in `docs/formats/page.md`, version 1. Offsets in *this* module count from the first byte of
//! the page; everywhere else in the crate they count from the first byte of the body, so that a layout need not know
//! how long the header is.

use std::fmt;

use cedrat_wal::Lsn;

/// The number of bytes in a page: one block of the device, so that one direct call reads or writes a page.
pub const PAGE_LEN: usize = 4096;

/// The number of bytes of a page that belong to its layout.
pub const BODY_LEN: usize = PAGE_LEN - at::BODY;

/// The version of the page format that this code writes, and the newest that it reads.
pub const PAGE_FORMAT: u16 = 1;

/// Offsets of the header's fields.
pub(crate) mod at {
    pub(crate) const CHECKSUM: usize = 0; //             CRC-32C of the bytes after this field
    pub(crate) const FORMAT: usize = CHECKSUM + 4; //    version of these bytes
    pub(crate) const KIND: usize = FORMAT + 2; //        which layout the body has
    pub(crate) const LSN: usize = KIND + 2; //           last record that changed the page
    pub(crate) const PAGE: usize = LSN + 8; //           its own number: catches a write to the wrong place
    pub(crate) const LAYOUT: usize = PAGE + 8; //        eight bytes for the layout
    pub(crate) const BODY: usize = LAYOUT + 8;
}
const _: () = assert!(at::BODY == 32 && at::LSN.is_multiple_of(8) && at::PAGE.is_multiple_of(8));
const _: () = assert!(PAGE_LEN == cedrat_media::BLOCK_LEN && BODY_LEN == 4064);

/// The number of a page: its position in the page file, counted in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(u64);

impl PageId {
    /// Creates the number.
    pub const fn new(number: u64) -> PageId {
        PageId(number)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the offset of the page in the page file, in bytes.
    pub const fn file_offset(self) -> u64 {
        self.0 * PAGE_LEN as u64
    }

    /// Returns the page that is `pages` pages later. Beyond all numbers it is the greatest one, which no file has: the bytes
    /// that name a page may be corrupt.
    pub const fn after(self, pages: u64) -> PageId {
        PageId(self.0.saturating_add(pages))
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The number of a record within its page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u16);

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The layout of a page's body. The numbers are never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayoutKind(pub u16);

impl LayoutKind {
    /// A page that was not formatted yet.
    pub const NONE: LayoutKind = LayoutKind(0);
    /// An array of bytes ([`crate::layout::Raw`]).
    pub const RAW: LayoutKind = LayoutKind(1);
    /// Records of one length ([`crate::layout::Fixed`]).
    pub const FIXED: LayoutKind = LayoutKind(2);
    /// Records of any length ([`crate::layout::Slotted`]).
    pub const SLOTTED: LayoutKind = LayoutKind(3);
    /// Records of any length, each with a version ([`crate::layout::Versioned`]).
    pub const VERSIONED: LayoutKind = LayoutKind(4);
    /// The first number for layouts of users; those below are Cedrat's own.
    pub const USER_FIRST: LayoutKind = LayoutKind(1024);
}

/// The bytes of a page are invalid. Nothing was changed.
///
/// The page was altered by something other than Cedrat, or an operation was applied to a page of another layout. The
/// store cannot repair it; restore the page from a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("page {page} is damaged at its byte {byte}: {what}")]
pub struct Damaged {
    /// The page.
    pub page: PageId,
    /// The first invalid byte, counted from the beginning of the page.
    pub byte: u16,
    /// A description of the damage.
    pub what: &'static str,
}

impl Damaged {
    /// Reports damage at `offset` bytes into the body of `page`.
    pub fn in_body(page: PageId, offset: usize, what: &'static str) -> Damaged {
        let byte = at::BODY.saturating_add(offset).min(PAGE_LEN) as u16;
        Damaged { page, byte, what }
    }

    /// Reports damage in the eight bytes of the header that belong to the layout.
    pub fn in_layout_word(page: PageId, what: &'static str) -> Damaged {
        Damaged { page, byte: at::LAYOUT as u16, what }
    }

    /// Reports that the page does not have the layout that its reader expected.
    pub fn wrong_kind(page: PageId) -> Damaged {
        Damaged { page, byte: at::KIND as u16, what: "the page has another layout than its reader expects" }
    }

    /// Reports that the page reads as never written, but has been written home (E22.3).
    pub(crate) fn lost(page: PageId) -> Damaged {
        Damaged { page, byte: 0, what: "the page was written home and reads as zeros: the write was lost" }
    }

    /// Reports that the page was changed by a record that the log does not have.
    pub(crate) fn newer_than_log(page: PageId) -> Damaged {
        Damaged { page, byte: at::LSN as u16, what: "the page is newer than the log, which has lost its end" }
    }
}

/// Returns the LSN in the header of `page`.
pub(crate) fn lsn_of(page: &[u8; PAGE_LEN]) -> Lsn {
    Lsn::new(u64::from_le_bytes(field(page, at::LSN)))
}

/// Returns the checksum that `page` should carry.
pub(crate) fn checksum_of(page: &[u8; PAGE_LEN]) -> u32 {
    crc32c::crc32c(&page[at::FORMAT..])
}

/// Returns the checksum that `page` carries.
pub(crate) fn stored_checksum_of(page: &[u8; PAGE_LEN]) -> u32 {
    u32::from_le_bytes(field(page, at::CHECKSUM))
}

/// Prepares `page` for its write home as page `id` (E11.6): number, format and checksum.
pub(crate) fn seal(page: &mut [u8; PAGE_LEN], id: PageId) {
    page[at::FORMAT..at::FORMAT + 2].copy_from_slice(&PAGE_FORMAT.to_le_bytes());
    page[at::PAGE..at::PAGE + 8].copy_from_slice(&id.get().to_le_bytes());
    let checksum = checksum_of(page);
    page[at::CHECKSUM..at::CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Checks that `page`, read from the offset of page `id`, was sealed for it, or was never written.
///
/// A page that was never written consists of zeros and counts as sound: LSN 0, no layout.
///
/// # Errors
/// Names the byte of the header at which the damage was detected.
pub fn verify(page: &[u8; PAGE_LEN], id: PageId) -> Result<(), Damaged> {
    let damaged = |byte: usize, what| Err(Damaged { page: id, byte: byte as u16, what });
    if stored_checksum_of(page) != checksum_of(page) {
        if page.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        return damaged(at::CHECKSUM, "the checksum does not match: the page was altered, or written only in part");
    }
    if u16::from_le_bytes(field(page, at::FORMAT)) > PAGE_FORMAT {
        return damaged(at::FORMAT, "the page was written by a newer version of Cedrat");
    }
    if u16::from_le_bytes(field(page, at::FORMAT)) == 0 {
        return damaged(at::FORMAT, "no page has format 0");
    }
    if u64::from_le_bytes(field(page, at::PAGE)) != id.get() {
        return damaged(at::PAGE, "another page was written to this place");
    }
    Ok(())
}

/// Whether `page`, which verifies, was never written.
pub(crate) fn is_unwritten(page: &[u8; PAGE_LEN]) -> bool {
    u16::from_le_bytes(field(page, at::FORMAT)) == 0
}

fn field<const N: usize>(page: &[u8; PAGE_LEN], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&page[at..at + N]);
    bytes
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn sealed(id: u64) -> [u8; PAGE_LEN] {
        let mut page = [0; PAGE_LEN];
        for (i, byte) in page.iter_mut().enumerate().skip(at::KIND) {
            *byte = (i * 31) as u8;
        }
        seal(&mut page, PageId::new(id));
        page
    }

    #[test]
    fn sealed_page_verifies_only_at_its_place() {
        let page = sealed(7);
        assert_eq!(verify(&page, PageId::new(7)), Ok(()));
        let elsewhere = verify(&page, PageId::new(8)).unwrap_err();
        assert_eq!(elsewhere.byte as usize, at::PAGE, "a misdirected write differs from a torn one");
    }

    #[test]
    fn a_page_never_written_is_sound() {
        assert_eq!(verify(&[0; PAGE_LEN], PageId::new(3)), Ok(()));
    }

    /// E11.6.
    #[test]
    fn damage_of_any_bit_is_seen() {
        let page = sealed(7);
        for byte in 0..PAGE_LEN {
            for bit in 0..8 {
                let mut damaged = page;
                damaged[byte] ^= 1 << bit;
                assert!(verify(&damaged, PageId::new(7)).is_err(), "byte {byte} bit {bit}");
            }
        }
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        let mut page = sealed(7);
        page[at::FORMAT] = PAGE_FORMAT as u8 + 1;
        let checksum = checksum_of(&page);
        page[at::CHECKSUM..at::CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
        let refusal = verify(&page, PageId::new(7)).unwrap_err();
        assert!(refusal.to_string().contains("newer version"), "{refusal}");
    }

    #[test]
    fn damage_names_the_page_and_the_byte() {
        let message = Damaged::in_body(PageId::new(9), 10, "why").to_string();
        assert_eq!(message, "page 9 is damaged at its byte 42: why");
    }

    /// The drawing and the constants agree.
    #[test]
    fn the_header_is_as_drawn() {
        let expected = [
            (at::CHECKSUM, 4),
            (at::FORMAT, 2),
            (at::KIND, 2),
            (at::LSN, 8),
            (at::PAGE, 8),
            (at::LAYOUT, 8),
            (at::BODY, BODY_LEN),
        ];
        assert_eq!(drawn("## The header of a page"), expected);
    }

    /// Returns byte and length of the rows of the first table after a heading of docs/formats/page.md.
    pub(crate) fn drawn(heading: &str) -> Vec<(usize, usize)> {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/page.md");
        let page = std::fs::read_to_string(page).expect("the drawing");
        let section = page.split(heading).nth(1).expect("the heading");
        let table = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
        table
            .filter_map(|row| {
                let mut cells = row.split('|').skip(1).map(str::trim);
                // `32 + 16 *i*` is the first of many.
                let byte = cells.next()?.split(' ').next()?.parse().ok()?;
                Some((byte, cells.next()?.parse().ok()?))
            })
            .collect()
    }
}
