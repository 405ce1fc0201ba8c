//! The slotted layout: records of any length, each of which keeps its number while others are added, removed and
//! moved.
//!
//! `directory.rs` describes the bytes; a slot is four bytes.

use super::directory::{Directory, Style};
use crate::page::{BODY_LEN, Damaged, LayoutKind, Slot};
use crate::view::{PageMut, PageRef};

const STYLE: Style = Style { kind: LayoutKind::SLOTTED, slot_len: 4, forgets: false };

/// A reader of a slotted page.
#[derive(Debug)]
pub struct Slotted<'v> {
    page: &'v PageRef<'v>,
    directory: Directory,
}

impl<'v> Slotted<'v> {
    /// The length of the longest record that an empty page can hold.
    pub const RECORD_LEN_MAX: usize = BODY_LEN - STYLE.slot_len;

    /// Creates a reader of `page`.
    ///
    /// # Errors
    /// It has another layout, or its numbers are invalid.
    pub fn of(page: &'v PageRef<'_>) -> Result<Slotted<'v>, Damaged> {
        Ok(Slotted { directory: Directory::of(page, STYLE)?, page })
    }

    /// Returns the number of slots in the page, vacant ones included: every record's number is smaller.
    pub fn slots(&self) -> u16 {
        self.directory.slots() as u16
    }

    /// Returns a record; `None` if the slot is vacant or not present.
    ///
    /// # Errors
    /// The slot refers to an invalid offset.
    pub fn get(&self, slot: Slot) -> Result<Option<&'v [u8]>, Damaged> {
        self.directory.get(self.page, slot)
    }

    /// Returns all records, by number.
    pub fn iter(&self) -> impl Iterator<Item = Result<(Slot, &'v [u8]), Damaged>> + '_ {
        (0..self.slots()).map(Slot).filter_map(|slot| Some(self.get(slot).transpose()?.map(|record| (slot, record))))
    }

    /// Returns the slot for the next record: the vacant slot of the lowest number. `None` if no more slots are
    /// possible.
    ///
    /// # Errors
    /// The page is invalid.
    pub fn vacant(&self) -> Result<Option<Slot>, Damaged> {
        self.directory.vacant(self.page)
    }

    /// Returns the length of the longest record that fits at `slot`, in place of the present record if there is one;
    /// `None` if none fits.
    ///
    /// # Errors
    /// The page is invalid.
    pub fn room(&self, slot: Slot) -> Result<Option<usize>, Damaged> {
        self.directory.room(self.page, slot)
    }

    /// Checks that the whole page is valid.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self) -> Result<(), Damaged> {
        self.directory.check(self.page)
    }
}

/// A writer of a slotted page. Every method is a redo: deterministic, and it refuses nothing that its reader has
/// promised.
#[derive(Debug)]
pub struct SlottedMut<'v, 'p> {
    page: &'v mut PageMut<'p>,
    directory: Directory,
}

impl<'v, 'p> SlottedMut<'v, 'p> {
    /// Formats `page` as a slotted page without records.
    pub fn format(page: &'v mut PageMut<'p>) -> SlottedMut<'v, 'p> {
        SlottedMut { directory: Directory::format(page, STYLE), page }
    }

    /// Creates a writer of `page`.
    ///
    /// # Errors
    /// It has another layout, or its numbers are invalid.
    pub fn of(page: &'v mut PageMut<'p>) -> Result<SlottedMut<'v, 'p>, Damaged> {
        Ok(SlottedMut { directory: Directory::of(&page.page_ref(), STYLE)?, page })
    }

    /// Puts a record into a vacant slot; missing slots before it are created as vacant ones.
    ///
    /// # Errors
    /// The slot is not vacant, or there is no space; nothing was changed.
    pub fn insert(&mut self, slot: Slot, record: &[u8]) -> Result<(), Damaged> {
        self.directory.insert(self.page, slot, None, record)
    }

    /// Replaces a record by one of any length.
    ///
    /// # Errors
    /// There is none, or there is no space; nothing was changed.
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

    /// Removes a record. Its slot is vacant afterwards, or removed if it was the last.
    ///
    /// # Errors
    /// There is none.
    pub fn delete(&mut self, slot: Slot) -> Result<(), Damaged> {
        self.directory.delete(self.page, slot, true)
    }

    /// Moves the records together. Numbers and contents stay. Only needed to do it early, for the other methods do it
    /// when necessary.
    ///
    /// # Errors
    /// The page is invalid.
    pub fn compact(&mut self) -> Result<(), Damaged> {
        self.directory.compact(self.page)
    }
}
