//! Records of the page layouts (Lemon §4.2): put in, changed, taken out.
//!
//! Where a record goes is decided before it is logged ([`cedrat_pages::layout::Slotted::vacant`] tells a good place) and is part of
//! the address: redo finds the same place again. Undo puts back what was there: the page is to be locked to the end of
//! the transaction, as [`crate::Txn::update`] does by default, or the change to be part of a nested top action.

use cedrat_pages::layout::{Fixed, FixedMut, Slotted, SlottedMut, Versioned, VersionedMut};
use cedrat_pages::{Damaged, PageMut, PageRef, Slot};
use serde::{Deserialize, Serialize};

use crate::operation::{Operation, Refused};
use crate::registry::Registry;
use crate::small_bytes::SmallBytes;
use crate::undo::Undo;

pub(super) fn register(registry: Registry) -> Registry {
    registry
        .operation::<FormatFixed>()
        .operation::<FixedSetCount>()
        .operation::<FixedSet>()
        .operation::<FixedRestore>()
        .operation::<SlottedInsert>()
        .operation::<SlottedUpdate>()
        .operation::<SlottedDelete>()
        .operation::<VersionedInsert>()
        .operation::<VersionedUpdate>()
        .operation::<VersionedDelete>()
        .operation::<VersionedWithdraw>()
}

// ---- fixed ----------------------------------------------------------------------------------------------------

/// Formats a page that was just allocated for records of one length. Redo-only, as [`crate::FormatFresh`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatFixed {
    /// The length of each record, in bytes.
    pub record_len: u16,
    /// How many records there are from the beginning; all zero.
    pub count: u16,
}

impl Operation for FormatFixed {
    const NAME: &'static str = "cedrat.format_fixed.v1";
    const FORMATS: bool = true;

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        if self.count > Fixed::capacity_for(self.record_len) || Fixed::capacity_for(self.record_len) == 0 {
            return Err(Refused::new(format!("{} records of {} bytes do not fit a page", self.count, self.record_len)));
        }
        Ok(Undo::none())
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        FixedMut::format(page, self.record_len)?.set_count(self.count)
    }
}

/// Makes a page of fixed-length records hold so many. New ones are zero; those that go are remembered by the undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedSetCount {
    /// How many.
    pub count: u16,
}

impl Operation for FixedSetCount {
    const NAME: &'static str = "cedrat.fixed_set_count.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        let fixed = Fixed::of(page)?;
        if self.count > fixed.capacity() {
            return Err(Refused::new(format!("the page holds at most {} records", fixed.capacity())));
        }
        let mut leaving = SmallBytes::new();
        for slot in (self.count..fixed.count()).map(Slot) {
            leaving.extend_from_slice(fixed.get(slot).unwrap_or_default());
        }
        Ok(if leaving.is_empty() {
            Undo::op(FixedSetCount { count: fixed.count() })
        } else {
            Undo::op(FixedRestore { count: fixed.count(), records: leaving })
        })
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        FixedMut::of(page)?.set_count(self.count)
    }
}

/// Makes a page of fixed-length records hold `count` again, the last of which are `records`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedRestore {
    /// How many records.
    pub count: u16,
    /// The last ones, one behind the other.
    pub records: SmallBytes,
}

impl Operation for FixedRestore {
    const NAME: &'static str = "cedrat.fixed_restore.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        let fixed = Fixed::of(page)?;
        let records = self.records.len() / usize::from(fixed.record_len());
        if self.count > fixed.capacity() || usize::from(self.count) != usize::from(fixed.count()) + records {
            return Err(Refused::new("these records do not follow those that are there"));
        }
        Ok(Undo::op(FixedSetCount { count: fixed.count() }))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let record_len = usize::from(Fixed::of(&page.page_ref())?.record_len());
        let mut fixed = FixedMut::of(page)?;
        let first = fixed.count();
        fixed.set_count(self.count)?;
        for (slot, record) in (first..).map(Slot).zip(self.records.chunks(record_len)) {
            fixed.set(slot, record)?;
        }
        Ok(())
    }
}

/// Overwrites a fixed-length record from its first byte on. Undone by the bytes that were there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedSet {
    /// What is to stand there; at most a record's length.
    pub record: SmallBytes,
}

impl Operation for FixedSet {
    const NAME: &'static str = "cedrat.fixed_set.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let fixed = Fixed::of(page)?;
        let Some(now) = fixed.get(at) else {
            return Err(no_record(page, at));
        };
        match now.get(..self.record.len()) {
            Some(before) => Ok(Undo::op(FixedSet { record: before.into() })),
            None => Err(Refused::new(format!("records of this page have {} bytes", now.len()))),
        }
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        FixedMut::of(page)?.set(at, &self.record)
    }
}

// ---- slotted --------------------------------------------------------------------------------------------------

/// Puts a record into a vacant slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlottedInsert {
    /// The record.
    pub record: SmallBytes,
}

impl Operation for SlottedInsert {
    const NAME: &'static str = "cedrat.slotted_insert.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let slotted = Slotted::of(page)?;
        if slotted.get(at)?.is_some() {
            return Err(Refused::new(format!("slot {at} of page {} is not vacant", page.id())));
        }
        has_room(slotted.room(at)?, self.record.len(), page)?;
        Ok(Undo::op(SlottedDelete {}))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        SlottedMut::of(page)?.insert(at, &self.record)
    }
}

/// Replaces a record by one of any length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlottedUpdate {
    /// The record as it is to be.
    pub record: SmallBytes,
}

impl Operation for SlottedUpdate {
    const NAME: &'static str = "cedrat.slotted_update.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let slotted = Slotted::of(page)?;
        let Some(now) = slotted.get(at)? else {
            return Err(no_record(page, at));
        };
        has_room(slotted.room(at)?, self.record.len(), page)?;
        Ok(Undo::op(SlottedUpdate { record: now.into() }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        SlottedMut::of(page)?.update(at, &self.record)
    }
}

/// Takes a record out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlottedDelete {}

impl Operation for SlottedDelete {
    const NAME: &'static str = "cedrat.slotted_delete.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        match Slotted::of(page)?.get(at)? {
            Some(now) => Ok(Undo::op(SlottedInsert { record: now.into() })),
            None => Err(no_record(page, at)),
        }
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        SlottedMut::of(page)?.delete(at)
    }
}

// ---- versioned ------------------------------------------------------------------------------------------------

/// Puts a record into a vacant slot; its version becomes the LSN of the change (E19).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionedInsert {
    /// The record.
    pub record: SmallBytes,
}

impl Operation for VersionedInsert {
    const NAME: &'static str = "cedrat.versioned_insert.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let versioned = Versioned::of(page)?;
        if versioned.get(at)?.is_some() {
            return Err(Refused::new(format!("slot {at} of page {} is not vacant", page.id())));
        }
        has_room(versioned.room(at)?, self.record.len(), page)?;
        let slots = versioned.slots();
        Ok(if at.0 < slots { Undo::op(VersionedDelete {}) } else { Undo::op(VersionedWithdraw { slots }) })
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        let version = page.changing_at();
        VersionedMut::of(page)?.insert(at, version, &self.record)
    }
}

/// Replaces a record; its version becomes the LSN of the change, of the undo too: a version never goes back (E19.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionedUpdate {
    /// The record as it is to be.
    pub record: SmallBytes,
}

impl Operation for VersionedUpdate {
    const NAME: &'static str = "cedrat.versioned_update.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let versioned = Versioned::of(page)?;
        let Some(now) = versioned.get(at)? else {
            return Err(no_record(page, at));
        };
        has_room(versioned.room(at)?, self.record.len(), page)?;
        Ok(Undo::op(VersionedUpdate { record: now.into() }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        let version = page.changing_at();
        VersionedMut::of(page)?.update(at, version, &self.record)
    }
}

/// Takes a record out; the slot remembers the version (E19.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionedDelete {}

impl Operation for VersionedDelete {
    const NAME: &'static str = "cedrat.versioned_delete.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        match Versioned::of(page)?.get(at)? {
            Some(now) => Ok(Undo::op(VersionedInsert { record: now.into() })),
            None => Err(no_record(page, at)),
        }
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        let version = page.changing_at();
        VersionedMut::of(page)?.delete(at, version)
    }
}

/// Takes back the insertion of a record into a slot that was not there before: the slot goes too.
///
/// A slot that stayed would keep its bytes of the directory, and the undo of an older change, back to a longer record, might
/// not find the room that it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionedWithdraw {
    /// How many slots there were before the insertion.
    pub slots: u16,
}

impl Operation for VersionedWithdraw {
    const NAME: &'static str = "cedrat.versioned_withdraw.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        match Versioned::of(page)?.get(at)? {
            Some(now) if self.slots <= at.0 => Ok(Undo::op(VersionedInsert { record: now.into() })),
            Some(_) => Err(Refused::new("the slot was there before; delete the record instead")),
            None => Err(no_record(page, at)),
        }
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        VersionedMut::of(page)?.withdraw(at, self.slots)
    }
}

fn no_record(page: &PageRef<'_>, at: Slot) -> Refused {
    Refused::new(format!("page {} has no record {at}", page.id()))
}

fn has_room(room: Option<usize>, wanted: usize, page: &PageRef<'_>) -> Result<(), Refused> {
    match room {
        Some(room) if room >= wanted => Ok(()),
        Some(room) => {
            Err(Refused::new(format!("the record has {wanted} bytes; page {} has room for {room}", page.id())))
        }
        None => Err(Refused::new(format!("page {} takes no more records", page.id()))),
    }
}
