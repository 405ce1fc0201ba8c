//! The bytes of a record (docs/formats/objects.md).
//!
//! ```text
//! 0       1   2     4
//! | state | 0 | len | object, len bytes | unused, up to the capacity |
//!   1       1   2     capacity
//! ```
//!
//! A record keeps its length as long as it lives, so its page needs no space for a deferred change. An object that has
//! outgrown its record lies in another one, the *target*; the first ten bytes behind the header then contain its place.

use cedrat_pages::layout::Versioned;
use cedrat_pages::{Damaged, PageId, PageRef, Slot};
use cedrat_structures::chain::PageLink;
use cedrat_txn::{RecordId, Refused, Result, Store};
use cedrat_wal::Lsn;

/// The longest object, in bytes. A log record must hold it twice, before and after, also in the smallest log.
pub const OBJECT_LEN_MAX: usize = 3800;

mod at {
    pub(super) const STATE: usize = 0;
    pub(super) const ZERO: usize = STATE + 1;
    pub(super) const LEN: usize = ZERO + 1;
    pub(super) const OBJECT: usize = LEN + 2;
}

/// Length of the header.
pub(crate) const HEADER_LEN: usize = at::OBJECT;

/// Length of a place: page and slot.
pub(crate) const PLACE_LEN: usize = 8 + 2;

/// Smallest capacity: the place of a target fits.
pub(crate) const CAPACITY_MIN: usize = PLACE_LEN;

/// Capacities are multiples of this.
const CAPACITY_STEP: usize = 8;

/// Slot of the page's link; not an object. No versioned record of other crates begins like a link of a page that is not spare.
pub(crate) const LINK: Slot = PageLink::SLOT;

// An empty page has space for its link and the longest record.
const _: () = assert!(PageLink::LEN + 12 + HEADER_LEN + OBJECT_LEN_MAX <= Versioned::RECORD_LEN_MAX);

mod bit {
    /// The object was removed.
    pub(super) const DEAD: u8 = 1;
    /// The object lies in another record, the target.
    pub(super) const FORWARD: u8 = 2;
    /// The record is a target, without an identity of its own.
    pub(super) const TARGET: u8 = 4;
}

/// Returns the capacity of a record for `len` bytes.
pub(crate) fn capacity_for(len: usize) -> usize {
    len.max(CAPACITY_MIN).next_multiple_of(CAPACITY_STEP).min(OBJECT_LEN_MAX)
}

/// Makes a record.
pub(crate) fn new_record(object: &[u8], capacity: usize, is_target: bool) -> Vec<u8> {
    let mut record = Vec::with_capacity(HEADER_LEN + capacity);
    extend_with_record(&mut record, object, capacity, is_target);
    record
}

/// Appends a record.
#[inline]
pub(crate) fn extend_with_record(bytes: &mut Vec<u8>, object: &[u8], capacity: usize, is_target: bool) {
    let state = if is_target { bit::TARGET } else { 0 };
    let [low, high] = (object.len() as u16).to_le_bytes();
    let end = bytes.len() + HEADER_LEN + capacity;
    bytes.extend_from_slice(&[state, 0, low, high]);
    bytes.extend_from_slice(object);
    bytes.resize(end, 0);
}

/// Header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    state: u8,
    /// Length of the object.
    pub(crate) len: usize,
    /// Maximum length of the object.
    pub(crate) capacity: usize,
    /// Place of the target.
    pub(crate) forward: Option<RecordId>,
}

/// An invalid header: the offset in the record, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadHeader {
    pub(crate) offset: usize,
    pub(crate) what: &'static str,
}

impl From<BadHeader> for Refused {
    fn from(bad: BadHeader) -> Refused {
        Refused::new(bad.what)
    }
}

impl Header {
    /// Parses the header of a record, which may be any bytes.
    pub(crate) fn of(record: &[u8]) -> Result<Header, BadHeader> {
        let bad = |offset, what| Err(BadHeader { offset, what });
        let Some(capacity) = record.len().checked_sub(HEADER_LEN).filter(|&capacity| capacity >= CAPACITY_MIN) else {
            return bad(at::STATE, "the record is too short for an object");
        };
        let (state, len) = (record[at::STATE], usize::from(u16::from_le_bytes([record[at::LEN], record[at::LEN + 1]])));
        if state & !(bit::DEAD | bit::FORWARD | bit::TARGET) != 0 {
            return bad(at::STATE, "the object's state is invalid");
        }
        if state & bit::FORWARD != 0 && state & bit::TARGET != 0 {
            return bad(at::STATE, "the object would have to be looked for in a third record");
        }
        if record[at::ZERO] != 0 {
            return bad(at::ZERO, "the object's header has a byte that should be zero");
        }
        if len > capacity {
            return bad(at::LEN, "the object is longer than its record");
        }
        let forward = (state & bit::FORWARD != 0).then(|| place(&record[at::OBJECT..]));
        if forward.is_some_and(|to| to.page == PageId::new(0) || to.slot == LINK) {
            return bad(at::OBJECT, "the object is said to lie where none can");
        }
        Ok(Header { state, len, capacity, forward })
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state & bit::DEAD != 0
    }

    pub(crate) fn is_target(&self) -> bool {
        self.state & bit::TARGET != 0
    }
}

/// Serialises a place.
pub(crate) fn place_bytes(place: RecordId) -> [u8; PLACE_LEN] {
    let mut bytes = [0; PLACE_LEN];
    bytes[..8].copy_from_slice(&place.page.get().to_le_bytes());
    bytes[8..].copy_from_slice(&place.slot.0.to_le_bytes());
    bytes
}

fn place(bytes: &[u8]) -> RecordId {
    let (page, slot) = bytes[..PLACE_LEN].split_at(8);
    let page = u64::from_le_bytes(page.try_into().expect("eight bytes"));
    RecordId::new(PageId::new(page), Slot(u16::from_le_bytes(slot.try_into().expect("two bytes"))))
}

/// Returns the object in a record with this header.
pub(crate) fn object<'r>(record: &'r [u8], header: &Header) -> &'r [u8] {
    &record[at::OBJECT..][..header.len]
}

/// Returns the object of a record if its identity is the record's place, and it was not removed.
#[inline]
pub(crate) fn plain_object(record: &[u8]) -> Option<&[u8]> {
    let (&[state, _, low, high], body) = record.split_first_chunk()?;
    if state == 0 { body.get(..u16::from_le_bytes([low, high]).into()) } else { None }
}

/// Returns the bytes behind a record's header, up to its capacity.
pub(crate) fn body(record: &mut [u8]) -> &mut [u8] {
    &mut record[at::OBJECT..]
}

pub(crate) fn set_len(record: &mut [u8], len: u16) {
    record[at::LEN..at::OBJECT].copy_from_slice(&len.to_le_bytes());
}

/// Returns whether a record with a valid header is dead.
pub(crate) fn is_dead(record: &[u8]) -> bool {
    record[at::STATE] & bit::DEAD != 0
}

/// Returns whether a record with a valid header contains an object whose identity is the record's place.
pub(crate) fn is_plain(record: &[u8]) -> bool {
    record[at::STATE] == 0
}

pub(crate) fn set_dead(record: &mut [u8], is_dead: bool) {
    record[at::STATE] = record[at::STATE] & !bit::DEAD | if is_dead { bit::DEAD } else { 0 };
}

pub(crate) fn set_forward(record: &mut [u8], is_forward: bool) {
    record[at::STATE] = record[at::STATE] & !bit::FORWARD | if is_forward { bit::FORWARD } else { 0 };
}

/// A record in its page.
pub(crate) struct Found<'p> {
    pub(crate) bytes: &'p [u8],
    pub(crate) header: Header,
    pub(crate) version: Lsn,
}

/// A page of objects.
pub(crate) struct ObjectPage<'p> {
    pub(crate) versioned: Versioned<'p>,
    page: PageId,
    /// Address of the body in memory, to compute the offset of a record.
    body_at: usize,
    pub(crate) link: PageLink,
}

impl<'p> ObjectPage<'p> {
    /// Parses a page; `None` if it is not a page of objects.
    pub(crate) fn of(page: &'p PageRef<'_>) -> Result<Option<ObjectPage<'p>>, Damaged> {
        if page.kind() != cedrat_pages::LayoutKind::VERSIONED {
            return Ok(None);
        }
        let versioned = Versioned::of(page)?;
        let link = versioned.get(LINK)?.and_then(PageLink::of).filter(|link| !link.is_spare());
        let Some(link) = link else { return Ok(None) };
        Ok(Some(ObjectPage { versioned, page: page.id(), body_at: page.body().as_ptr() as usize, link }))
    }

    /// Returns the record in a slot, if there is one.
    pub(crate) fn get(&self, slot: Slot) -> Result<Option<Found<'p>>, Damaged> {
        if slot == LINK {
            return Ok(None);
        }
        let Some(record) = self.versioned.get(slot)? else { return Ok(None) };
        let header = Header::of(record).map_err(|bad| {
            let in_body = record.as_ptr() as usize - self.body_at + bad.offset;
            Damaged::in_body(self.page, in_body, bad.what)
        })?;
        Ok(Some(Found { bytes: record, header, version: self.versioned.version(slot)? }))
    }

    /// The slots of records.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        self.versioned.numbers().filter(|&slot| slot != LINK)
    }
}

/// Reports damage of a page, with file and offset.
pub(crate) fn said(store: &Store, damaged: Damaged) -> cedrat_txn::Error {
    store.pool().damaged(damaged).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_what_was_written() {
        let mut record = new_record(b"object", capacity_for(6), false);
        let header = Header::of(&record).unwrap();
        assert_eq!((header.len, header.capacity, header.forward), (6, 16, None));
        assert!(!header.is_dead() && !header.is_target());
        assert_eq!(object(&record, &header), b"object");
        let to = RecordId::new(PageId::new(77), Slot(3));
        body(&mut record)[..PLACE_LEN].copy_from_slice(&place_bytes(to));
        set_forward(&mut record, true);
        set_dead(&mut record, true);
        let header = Header::of(&record).unwrap();
        assert_eq!((header.forward, header.is_dead()), (Some(to), true));
    }

    #[test]
    fn record_with_invalid_header_is_refused() {
        let right = new_record(b"object", 16, false);
        let with = |offset: usize, byte: u8| {
            let mut record = right.clone();
            record[offset] = byte;
            Header::of(&record).map_err(|bad| bad.offset)
        };
        assert_eq!(with(0, 8), Err(0));
        assert_eq!(with(0, bit::FORWARD | bit::TARGET), Err(0));
        assert_eq!(with(1, 1), Err(1));
        assert_eq!(with(2, 17), Err(2));
        assert_eq!(with(3, 1), Err(2));
        assert!(Header::of(&right[..HEADER_LEN + CAPACITY_MIN - 1]).is_err());
        let mut nowhere = new_record(&[0; 10], 16, false);
        set_forward(&mut nowhere, true);
        assert_eq!(Header::of(&nowhere).map_err(|bad| bad.offset), Err(at::OBJECT));
    }
}
