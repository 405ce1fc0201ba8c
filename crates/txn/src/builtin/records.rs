//! Operations that insert, update and delete records of the page layouts (Lemon §4.2).
//!
//! The slot of a record is chosen before the change is logged ([`cedrat_pages::layout::Slotted::vacant`] returns a good
//! one) and is part of the address, so redo uses the same slot. Undo restores the old content: the page must stay
//! locked to the end of the transaction, as [`crate::Txn::update`] does by default, or the change must be part of a
//! nested top action.

use cedrat_pages::layout::{Fixed, FixedMut, Slotted, SlottedMut, Versioned, VersionedMut};
use cedrat_pages::{Damaged, PageMut, PageRef, Slot};
use serde::{Deserialize, Serialize};

use crate::changes::Meaning;
use crate::operation::{Operation, RecordId, Refused};
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

/// Formats a page that was just allocated for records of one length. Redo-only, like [`crate::FormatFresh`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatFixed {
    /// The length of each record, in bytes.
    pub record_len: u16,
    /// The initial number of records; all are zero.
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

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

/// Changes the number of fixed-length records in a page. New records are zero; the undo saves those that are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedSetCount {
    /// The new number of records.
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

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

/// Restores the number of fixed-length records in a page to `count`, the last of which are `records`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedRestore {
    /// The number of records.
    pub count: u16,
    /// The last records, concatenated.
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

/// Overwrites the front of a fixed-length record. Its undo restores the bytes that were there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedSet {
    /// The new bytes; at most the length of a record.
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

/// Inserts a record into a vacant slot.
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
        check_space(slotted.room(at)?, self.record.len(), page)?;
        Ok(Undo::op(SlottedDelete {}))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        SlottedMut::of(page)?.insert(at, &self.record)
    }
}

/// Replaces a record by one of any length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlottedUpdate {
    /// The new record.
    pub record: SmallBytes,
}

impl Operation for SlottedUpdate {
    const NAME: &'static str = "cedrat.slotted_update.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let slotted = Slotted::of(page)?;
        let Some(now) = slotted.get(at)? else {
            return Err(no_record(page, at));
        };
        check_space(slotted.room(at)?, self.record.len(), page)?;
        Ok(Undo::op(SlottedUpdate { record: now.into() }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        SlottedMut::of(page)?.update(at, &self.record)
    }
}

/// Deletes a record.
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

/// Inserts a record into a vacant slot; its version becomes the LSN of the change.
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
        check_space(versioned.room(at)?, self.record.len(), page)?;
        let slots = versioned.slots();
        Ok(if at.0 < slots { Undo::op(VersionedDelete {}) } else { Undo::op(VersionedWithdraw { slots }) })
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        let version = page.changing_at();
        VersionedMut::of(page)?.insert(at, version, &self.record)
    }
}

/// Replaces a record. Its version becomes the LSN of the change, or of the undo: a version never decreases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionedUpdate {
    /// The new record.
    pub record: SmallBytes,
}

impl Operation for VersionedUpdate {
    const NAME: &'static str = "cedrat.versioned_update.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let versioned = Versioned::of(page)?;
        let Some(now) = versioned.get(at)? else {
            return Err(no_record(page, at));
        };
        check_space(versioned.room(at)?, self.record.len(), page)?;
        Ok(Undo::op(VersionedUpdate { record: now.into() }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        let version = page.changing_at();
        VersionedMut::of(page)?.update(at, version, &self.record)
    }
}

/// Deletes a record; the slot keeps the version.
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

/// Undoes the insertion of a record into a new slot: the slot is removed too.
///
/// A slot that stayed would keep its bytes of the directory, and the undo of an older change, back to a longer record,
/// might find too little space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionedWithdraw {
    /// The number of slots before the insertion.
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

fn check_space(space: Option<usize>, wanted: usize, page: &PageRef<'_>) -> Result<(), Refused> {
    match space {
        Some(space) if space >= wanted => Ok(()),
        Some(space) => {
            Err(Refused::new(format!("the record has {wanted} bytes; page {} has space for {space}", page.id())))
        }
        None => Err(Refused::new(format!("page {} takes no more records", page.id()))),
    }
}
