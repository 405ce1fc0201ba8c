//! The slotted layout: records of any length, each keeping its number while others come, go and move (L048).
//!
//! How its bytes lie is said in `directory.rs`; a slot is four bytes.

use super::directory::{Directory, Style};
use crate::page::{BODY_LEN, Damaged, LayoutKind, Slot};
use crate::view::{PageMut, PageRef};

const STYLE: Style = Style { kind: LayoutKind::SLOTTED, slot_len: 4, forgets: false };

/// Reads a slotted page.
#[derive(Debug)]
pub struct Slotted<'v> {
    page: &'v PageRef<'v>,
    directory: Directory,
}

impl<'v> Slotted<'v> {
    /// The longest record that an empty page takes.
    pub const RECORD_LEN_MAX: usize = BODY_LEN - STYLE.slot_len;

    /// Reads `page`.
    ///
    /// # Errors
    /// It has another layout, or its numbers make no sense.
    pub fn of(page: &'v PageRef<'_>) -> Result<Slotted<'v>, Damaged> {
        Ok(Slotted { directory: Directory::of(page, STYLE)?, page })
    }

    /// Slots in the page, vacant ones included: every record's number is smaller.
    pub fn slots(&self) -> u16 {
        self.directory.slots() as u16
    }

    /// A record; None if the slot is vacant or not there.
    ///
    /// # Errors
    /// The slot leads nowhere.
    pub fn get(&self, slot: Slot) -> Result<Option<&'v [u8]>, Damaged> {
        self.directory.get(self.page, slot)
    }

    /// All records, by number.
    pub fn iter(&self) -> impl Iterator<Item = Result<(Slot, &'v [u8]), Damaged>> + '_ {
        (0..self.slots()).map(Slot).filter_map(|slot| Some(self.get(slot).transpose()?.map(|record| (slot, record))))
    }

    /// Where the next record should go: the vacant slot of the lowest number. None if the page can take no more slots.
    ///
    /// # Errors
    /// The page makes no sense.
    pub fn vacant(&self) -> Result<Option<Slot>, Damaged> {
        self.directory.vacant(self.page)
    }

    /// The longest record that can be put at `slot`, whether one is there now (to be replaced) or not; None if none can.
    ///
    /// # Errors
    /// The page makes no sense.
    pub fn room(&self, slot: Slot) -> Result<Option<usize>, Damaged> {
        self.directory.room(self.page, slot)
    }

    /// That the whole page makes sense.
    ///
    /// # Errors
    /// It does not.
    pub fn check(&self) -> Result<(), Damaged> {
        self.directory.check(self.page)
    }
}

/// Writes a slotted page. Every method is a redo: deterministic, and refusing only what its reader would not promise.
#[derive(Debug)]
pub struct SlottedMut<'v, 'p> {
    page: &'v mut PageMut<'p>,
    directory: Directory,
}

impl<'v, 'p> SlottedMut<'v, 'p> {
    /// Makes `page` a slotted page without records.
    pub fn format(page: &'v mut PageMut<'p>) -> SlottedMut<'v, 'p> {
        SlottedMut { directory: Directory::format(page, STYLE), page }
    }

    /// Writes `page`.
    ///
    /// # Errors
    /// It has another layout, or its numbers make no sense.
    pub fn of(page: &'v mut PageMut<'p>) -> Result<SlottedMut<'v, 'p>, Damaged> {
        Ok(SlottedMut { directory: Directory::of(&page.page_ref(), STYLE)?, page })
    }

    /// Puts a record into a vacant slot; slots before it that are not there yet become vacant.
    ///
    /// # Errors
    /// The slot is not vacant, or there is no room; nothing was changed.
    pub fn insert(&mut self, slot: Slot, record: &[u8]) -> Result<(), Damaged> {
        self.directory.insert(self.page, slot, record)
    }

    /// Replaces a record by one of any length.
    ///
    /// # Errors
    /// There is none, or there is no room; nothing was changed.
    pub fn update(&mut self, slot: Slot, record: &[u8]) -> Result<(), Damaged> {
        self.directory.update(self.page, slot, record)
    }

    /// Overwrites a part of a record, from `offset` within it on.
    ///
    /// # Errors
    /// There is no such record, or it is too short.
    pub fn put(&mut self, slot: Slot, offset: usize, bytes: &[u8]) -> Result<(), Damaged> {
        self.directory.put(self.page, slot, offset, bytes)
    }

    /// Takes a record out. Its slot is vacant afterwards, or gone if it was the last.
    ///
    /// # Errors
    /// There is none.
    pub fn delete(&mut self, slot: Slot) -> Result<(), Damaged> {
        self.directory.delete(self.page, slot, true)
    }

    /// Moves the records together. Numbers and contents stay; only needed by those who want it done now, for the other
    /// methods do it when they must.
    ///
    /// # Errors
    /// The page makes no sense.
    pub fn compact(&mut self) -> Result<(), Damaged> {
        self.directory.compact(self.page)
    }
}
