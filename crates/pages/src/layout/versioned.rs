//! The versioned layout: slotted, with a version of eight bytes for each record (L049; Lemon §7.2).
//!
//! The version is the LSN of the last update of the *record*, which may be newer or older than the page's own: an object
//! that is updated in a cache and flushed later is redone by comparing record versions (E19.2).
//!
//! How its bytes lie is said in `directory.rs`; a slot is twelve bytes, and its version outlives the record (E19.1). Slots
//! from 1 to some other go where [`VersionedMut::forget`] is asked for that. From then on the page's LSN says of them what
//! their versions have said: it is newer than any change of a record that they had (E19.3), so no late redo brings one back.

use cedrat_wal::Lsn;

use super::directory::{Directory, Style};
use crate::page::{BODY_LEN, Damaged, LayoutKind, Slot};
use crate::view::{PageMut, PageRef};

const STYLE: Style = Style { kind: LayoutKind::VERSIONED, slot_len: 12, forgets: true };

/// Reads a page of versioned records.
#[derive(Debug)]
pub struct Versioned<'v> {
    page: &'v PageRef<'v>,
    directory: Directory,
}

impl<'v> Versioned<'v> {
    /// The longest record that an empty page takes.
    pub const RECORD_LEN_MAX: usize = BODY_LEN - STYLE.slot_len;

    /// What a slot takes, vacant or not, in bytes.
    pub const SLOT_LEN: usize = STYLE.slot_len;

    /// Reads `page`.
    ///
    /// # Errors
    /// It has another layout, or its numbers make no sense.
    pub fn of(page: &'v PageRef<'_>) -> Result<Versioned<'v>, Damaged> {
        Ok(Versioned { directory: Directory::of(page, STYLE)?, page })
    }

    /// One more than the highest number of a slot, be that vacant or not.
    pub fn slots(&self) -> u16 {
        self.directory.slots() as u16
    }

    /// The slots in the page, vacant ones included, by number: those that have gone are not among them.
    pub fn numbers(&self) -> impl DoubleEndedIterator<Item = Slot> + use<> {
        self.directory.numbers()
    }

    /// Slots from 1 to this one have gone.
    pub fn gone(&self) -> u16 {
        self.directory.gone as u16
    }

    /// The first slot behind slot 0 that has a record.
    ///
    /// # Errors
    /// A slot leads nowhere.
    pub fn first_record(&self) -> Result<Option<Slot>, Damaged> {
        self.directory.first_record(self.page)
    }

    /// Whether [`VersionedMut::forget`] takes this.
    ///
    /// # Errors
    /// A slot leads nowhere.
    pub fn may_forget(&self, gone: u16) -> Result<bool, Damaged> {
        self.directory.may_forget(self.page, gone)
    }

    /// A record; None if the slot is vacant or not there.
    ///
    /// # Errors
    /// The slot leads nowhere.
    pub fn get(&self, slot: Slot) -> Result<Option<&'v [u8]>, Damaged> {
        self.directory.get(self.page, slot)
    }

    /// The version of a slot: of its record, or of the last thing that was done to it if it is vacant (E19.1).
    /// [`Lsn::ZERO`] for a slot that was never used, that an undo has given back, or that has gone.
    ///
    /// # Errors
    /// The page makes no sense.
    pub fn version(&self, slot: Slot) -> Result<Lsn, Damaged> {
        match self.directory.extra_at(slot) {
            Some(at) => Ok(Lsn::new(self.page.u64_at(at)?)),
            None => Ok(Lsn::ZERO),
        }
    }

    /// All records with their versions, by number.
    pub fn iter(&self) -> impl Iterator<Item = Result<(Slot, Lsn, &'v [u8]), Damaged>> + '_ {
        self.numbers().filter_map(|slot| {
            let record = self.get(slot).transpose()?;
            Some(record.and_then(|record| Ok((slot, self.version(slot)?, record))))
        })
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

/// Writes a page of versioned records; each change of a record says its new version.
#[derive(Debug)]
pub struct VersionedMut<'v, 'p> {
    page: &'v mut PageMut<'p>,
    directory: Directory,
}

impl<'v, 'p> VersionedMut<'v, 'p> {
    /// Makes `page` a page without records and without remembered versions.
    pub fn format(page: &'v mut PageMut<'p>) -> VersionedMut<'v, 'p> {
        VersionedMut { directory: Directory::format(page, STYLE), page }
    }

    /// Writes `page`.
    ///
    /// # Errors
    /// It has another layout, or its numbers make no sense.
    pub fn of(page: &'v mut PageMut<'p>) -> Result<VersionedMut<'v, 'p>, Damaged> {
        Ok(VersionedMut { directory: Directory::of(&page.page_ref(), STYLE)?, page })
    }

    /// Puts a record into a vacant slot; slots before it that are not there yet become vacant, with version zero.
    ///
    /// # Errors
    /// The slot is not vacant, or there is no room; nothing was changed.
    pub fn insert(&mut self, slot: Slot, version: Lsn, record: &[u8]) -> Result<(), Damaged> {
        self.directory.insert(self.page, slot, record)?;
        self.set_version(slot, version)
    }

    /// Replaces a record by one of any length.
    ///
    /// # Errors
    /// There is none, or there is no room; nothing was changed.
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

    /// Takes a record out. Its slot is vacant afterwards and remembers this version (E19.1).
    ///
    /// # Errors
    /// There is none.
    pub fn delete(&mut self, slot: Slot, version: Lsn) -> Result<(), Damaged> {
        self.directory.delete(self.page, slot, false)?;
        self.set_version(slot, version)
    }

    /// Takes out a record whose slot its insertion had made: the page has `slots` slots again, as it had before. For the
    /// undo of that insertion only, which must give back the slot's own bytes too: another undo may need them. A slot
    /// that never held anything else has no version to remember (E19.1): that it is gone is said by the page's LSN
    /// (E19.3).
    ///
    /// # Errors
    /// There is none.
    pub fn withdraw(&mut self, slot: Slot, slots: u16) -> Result<(), Damaged> {
        self.directory.withdraw(self.page, slot, slots)
    }

    /// Has the slots from 1 to `gone` go, which are vacant: their bytes are others', and nothing is put there any more. If all
    /// slots behind slot 0 are vacant, all of them go, and the next to come is the one behind `gone`, which may be less than
    /// before, too.
    ///
    /// Of slots that have gone only the page's LSN says which changes they had: it is never to be older than this change.
    ///
    /// # Errors
    /// One of those slots has a record, or there is no slot 0.
    pub fn forget(&mut self, gone: u16) -> Result<(), Damaged> {
        self.directory.forget(self.page, gone)
    }

    /// Moves the records together. Numbers, contents and versions stay.
    ///
    /// # Errors
    /// The page makes no sense.
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
