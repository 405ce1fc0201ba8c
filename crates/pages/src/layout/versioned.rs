//! The versioned layout: slotted, with a version of eight bytes for each record (Lemon §7.2).
//!
//! The version is the LSN of the last update of the *record*, which may be newer or older than the page's own: an
//! object that is updated in a cache and flushed later is redone by comparing record versions.
//!
//! `directory.rs` describes the bytes; a slot is twelve bytes, and its version outlives the record.
//! [`VersionedMut::forget`] drops slots from 1 to a given one. From then on the page's LSN stands for their versions:
//! it is newer than any change of their records, so no late redo brings one back.

use cedrat_sync::planted;
use cedrat_wal::Lsn;

use super::directory::{Directory, Style};
use crate::page::{BODY_LEN, Damaged, LayoutKind, Slot};
use crate::view::{PageMut, PageRef};

const STYLE: Style = Style { kind: LayoutKind::VERSIONED, slot_len: 12, forgets: true };

/// A reader of a page of versioned records.
#[derive(Debug)]
pub struct Versioned<'v> {
    page: &'v PageRef<'v>,
    directory: Directory,
}

impl<'v> Versioned<'v> {
    /// The length of the longest record that an empty page can hold.
    pub const RECORD_LEN_MAX: usize = BODY_LEN - STYLE.slot_len;

    /// The length of a slot, vacant or not, in bytes.
    pub const SLOT_LEN: usize = STYLE.slot_len;

    /// Creates a reader of `page`.
    ///
    /// # Errors
    /// It has another layout, or its numbers are invalid.
    pub fn of(page: &'v PageRef<'_>) -> Result<Versioned<'v>, Damaged> {
        Ok(Versioned { directory: Directory::of(page, STYLE)?, page })
    }

    /// Returns one more than the highest slot number, vacant slots included.
    pub fn slots(&self) -> u16 {
        self.directory.slots() as u16
    }

    /// Returns the slots in the page, vacant ones included, by number, without dropped ones.
    pub fn numbers(&self) -> impl DoubleEndedIterator<Item = Slot> + use<> {
        self.directory.numbers()
    }

    /// Returns the last of the dropped slots, which are 1 to this one; 0 if there are none.
    pub fn gone(&self) -> u16 {
        self.directory.gone as u16
    }

    /// Returns the first slot after slot 0 that has a record.
    ///
    /// # Errors
    /// A slot refers to an invalid offset.
    pub fn first_record(&self) -> Result<Option<Slot>, Damaged> {
        self.directory.first_record(self.page)
    }

    /// Whether [`VersionedMut::forget`] accepts this number.
    ///
    /// # Errors
    /// A slot refers to an invalid offset.
    pub fn may_forget(&self, gone: u16) -> Result<bool, Damaged> {
        self.directory.may_forget(self.page, gone)
    }

    /// Returns a record; `None` if the slot is vacant or not present.
    ///
    /// # Errors
    /// The slot refers to an invalid offset.
    pub fn get(&self, slot: Slot) -> Result<Option<&'v [u8]>, Damaged> {
        self.directory.get(self.page, slot)
    }

    /// Returns the version of a slot: of its record, or of its last change if it is vacant. [`Lsn::ZERO`] for
    /// a slot that was never used, that an undo has removed, or that was dropped.
    ///
    /// # Errors
    /// The page is invalid.
    pub fn version(&self, slot: Slot) -> Result<Lsn, Damaged> {
        match self.directory.extra_at(slot) {
            Some(at) => Ok(Lsn::new(self.page.u64_at(at)?)),
            None => Ok(Lsn::ZERO),
        }
    }

    /// Returns all records with their versions, by number.
    pub fn iter(&self) -> impl Iterator<Item = Result<(Slot, Lsn, &'v [u8]), Damaged>> + '_ {
        self.numbers().filter_map(|slot| {
            let record = self.get(slot).transpose()?;
            Some(record.and_then(|record| Ok((slot, self.version(slot)?, record))))
        })
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

/// A writer of a page of versioned records; each change of a record sets its new version.
#[derive(Debug)]
pub struct VersionedMut<'v, 'p> {
    page: &'v mut PageMut<'p>,
    directory: Directory,
}

impl<'v, 'p> VersionedMut<'v, 'p> {
    /// Formats `page` as a page without records and without remembered versions.
    pub fn format(page: &'v mut PageMut<'p>) -> VersionedMut<'v, 'p> {
        VersionedMut { directory: Directory::format(page, STYLE), page }
    }

    /// Creates a writer of `page`.
    ///
    /// # Errors
    /// It has another layout, or its numbers are invalid.
    pub fn of(page: &'v mut PageMut<'p>) -> Result<VersionedMut<'v, 'p>, Damaged> {
        Ok(VersionedMut { directory: Directory::of(&page.page_ref(), STYLE)?, page })
    }

    /// Puts a record into a vacant slot; missing slots before it are created as vacant ones, with version zero.
    ///
    /// # Errors
    /// The slot is not vacant, or there is no space; nothing was changed.
    pub fn insert(&mut self, slot: Slot, version: Lsn, record: &[u8]) -> Result<(), Damaged> {
        self.directory.insert(self.page, slot, Some(version.get()), record)
    }

    /// Replaces a record by one of any length.
    ///
    /// # Errors
    /// There is none, or there is no space; nothing was changed.
    pub fn update(&mut self, slot: Slot, version: Lsn, record: &[u8]) -> Result<(), Damaged> {
        self.directory.update(self.page, slot, record)?;
        self.set_version(slot, version)
    }

    /// Overwrites a part of a record, from `offset` within it on.
    ///
    /// # Errors
    /// There is no such record, or it is too short.
    pub fn put(&mut self, slot: Slot, version: Lsn, offset: usize, bytes: &[u8]) -> Result<(), Damaged> {
        self.directory.put(self.page, slot, offset, bytes)?;
        self.set_version(slot, version)
    }

    /// Removes a record. Its slot is vacant afterwards and remembers this version.
    ///
    /// # Errors
    /// There is none.
    pub fn delete(&mut self, slot: Slot, version: Lsn) -> Result<(), Damaged> {
        self.directory.delete(self.page, slot, false)?;
        self.set_version(slot, if planted!("version_forgotten") { Lsn::ZERO } else { version })
    }

    /// Removes a record whose slot its insertion had created: the page has `slots` slots again, as before. For the
    /// undo of that insertion only, which must free the slot's own bytes too: another undo may need them. A slot that
    /// never held anything else has no version to remember: the page's LSN records its removal.
    ///
    /// # Errors
    /// There is none.
    pub fn withdraw(&mut self, slot: Slot, slots: u16) -> Result<(), Damaged> {
        self.directory.withdraw(self.page, slot, slots)
    }

    /// Drops the slots from 1 to `gone`, which must be vacant: their bytes are reused, and no record is put there any
    /// more. If all slots after slot 0 are vacant, all of them are dropped, and the next new slot is the one after
    /// `gone`, which may then be lower than before, too.
    ///
    /// Only the page's LSN records the changes of dropped slots: it must never be older than this change.
    ///
    /// # Errors
    /// One of those slots has a record, or there is no slot 0.
    pub fn forget(&mut self, gone: u16) -> Result<(), Damaged> {
        self.directory.forget(self.page, gone)
    }

    /// Moves the records together. Numbers, contents and versions stay.
    ///
    /// # Errors
    /// The page is invalid.
    pub fn compact(&mut self) -> Result<(), Damaged> {
        self.directory.compact(self.page)
    }

    fn set_version(&mut self, slot: Slot, version: Lsn) -> Result<(), Damaged> {
        match self.directory.extra_at(slot) {
            Some(at) => self.page.put_u64(at, version.get()),
            None => Err(Damaged::in_layout_word(self.page.id(), "there is no record of that number")),
        }
    }
}
