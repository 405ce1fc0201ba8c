//! Records of any length with a directory of slots: the common part of [`super::Slotted`] and [`super::Versioned`].
//!
//! ```text
//!  body  0                    heap_end               directory              4064
//!        │ record │ gap │ record │ ···  free  ··· │ slot 2 │ slot 1 │ slot 0 │
//! ```
//!
//! Records are stored in the heap, from the front; the directory grows from the back. A slot holds the offset of its
//! record, so records may be moved together without a visible change outside the page (Lemon §4.2). The layout
//! determines the length of a slot: four bytes for offset and length, more if it stores something else there.
//!
//! The layout word: slots in the directory, end of the heap, bytes of gaps in the heap, dropped slots, two bytes
//! each.
//!
//! A layout may *drop* slots 1 to *n*: it removes vacant slots at the front to reuse their bytes, but never reuses
//! their numbers. In the directory slot *n* + 1 then follows slot 0.

use crate::page::{BODY_LEN, Damaged, LayoutKind, PageId, Slot};
use crate::view::{PageMut, PageRef};

/// The length of the part of a slot that every layout has: offset and length of the record.
const SLOT_HEAD_LEN: usize = 2 + 2;

/// The offset of a slot without a record.
const VACANT: u16 = u16::MAX;

/// The properties in which layouts with a directory differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) kind: LayoutKind,
    /// Bytes of a slot: two for the offset, two for the length; the rest belongs to the layout and outlives the
    /// record.
    pub(super) slot_len: usize,
    /// Whether slots may be dropped.
    pub(super) forgets: bool,
}

/// A bound on slot numbers: every number is lower.
const SLOTS_MAX: usize = u16::MAX as usize;

/// A directory with the numbers of the layout word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directory {
    style: Style,
    /// The number of slots, vacant ones included.
    count: usize,
    /// The last of the dropped slots, which are 1 to this one; 0 if there are none.
    pub(super) gone: usize,
    heap_end: usize,
    /// The number of bytes in the heap that belong to no record.
    gaps: usize,
}

/// The extent of a record in the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    start: usize,
    len: usize,
}

impl Extent {
    fn end(self) -> usize {
        self.start + self.len
    }
}

impl Directory {
    /// Reads the directory's numbers, and checks that they fit the page and each other.
    pub(super) fn of(page: &PageRef<'_>, style: Style) -> Result<Directory, Damaged> {
        super::expect_kind(page, style.kind)?;
        let word = page.layout_word();
        let number = |index: u32| usize::from((word >> (index * 16)) as u16);
        let directory = Directory { style, count: number(0), heap_end: number(1), gaps: number(2), gone: number(3) };
        // Dropped slots follow slot 0.
        let may_have_gone = directory.gone == 0 || style.forgets && directory.count > 0;
        let fits = directory.count * style.slot_len <= BODY_LEN
            && may_have_gone
            && directory.slots() <= SLOTS_MAX
            && directory.heap_end <= directory.start()
            && directory.gaps <= directory.heap_end;
        if fits {
            Ok(directory)
        } else {
            Err(Damaged::in_layout_word(page.id(), "directory and records do not fit the page"))
        }
    }

    pub(super) fn format(page: &mut PageMut<'_>, style: Style) -> Directory {
        page.format(style.kind);
        Directory { style, count: 0, heap_end: 0, gaps: 0, gone: 0 }
    }

    fn save(&self, page: &mut PageMut<'_>) {
        let number = |number: usize, index: u32| (number as u64) << (index * 16);
        page.set_layout_word(
            number(self.count, 0) | number(self.heap_end, 1) | number(self.gaps, 2) | number(self.gone, 3),
        );
    }

    /// Returns one more than the highest slot number.
    pub(super) fn slots(&self) -> usize {
        self.gone + self.count
    }

    /// Returns the slots in the page, by number.
    pub(super) fn numbers(&self) -> impl DoubleEndedIterator<Item = Slot> + use<> {
        let behind = (self.gone + 1..self.slots()).map(|slot| Slot(slot as u16));
        (self.count > 0).then_some(Slot(0)).into_iter().chain(behind)
    }

    /// Returns the index of a slot in the directory, present or to come; `None` if it was dropped, or is not
    /// possible.
    fn index(&self, slot: Slot) -> Option<usize> {
        match usize::from(slot.0) {
            0 => Some(0),
            SLOTS_MAX.. => None,
            slot => slot.checked_sub(self.gone).filter(|&index| index > 0),
        }
    }

    /// Returns the index as [`index`](Directory::index) does, of a slot that is present.
    fn present(&self, slot: Slot) -> Option<usize> {
        self.index(slot).filter(|&index| index < self.count)
    }

    /// Returns the beginning of the directory in the body.
    fn start(&self) -> usize {
        BODY_LEN - self.count * self.style.slot_len
    }

    fn slot_at(&self, index: usize) -> usize {
        BODY_LEN - (index + 1) * self.style.slot_len
    }

    /// Returns the offset of the layout's own part of a slot; `None` if there is no such slot.
    pub(super) fn extra_at(&self, slot: Slot) -> Option<usize> {
        self.present(slot).map(|index| self.slot_at(index) + SLOT_HEAD_LEN)
    }

    /// Returns the extent of a slot's record; `None` if the slot is vacant or not present.
    fn find(&self, page: &PageRef<'_>, slot: Slot) -> Result<Option<Extent>, Damaged> {
        let Some(index) = self.present(slot) else { return Ok(None) };
        let at = self.slot_at(index);
        let (start, len) = (page.u16_at(at)?, page.u16_at(at + 2)?);
        if start == VACANT {
            return Ok(None);
        }
        let extent = Extent { start: usize::from(start), len: usize::from(len) };
        if extent.end() <= self.heap_end {
            Ok(Some(extent))
        } else {
            Err(Damaged::in_body(page.id(), at, "a slot leads out of the heap of records"))
        }
    }

    pub(super) fn get<'v>(&self, page: &'v PageRef<'_>, slot: Slot) -> Result<Option<&'v [u8]>, Damaged> {
        match self.find(page, slot)? {
            Some(extent) => page.slice(extent.start..extent.end()).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the vacant slot with the lowest number, or the next new one; `None` if no more slots are possible.
    pub(super) fn vacant(&self, page: &PageRef<'_>) -> Result<Option<Slot>, Damaged> {
        for (index, slot) in self.numbers().enumerate() {
            if page.u16_at(self.slot_at(index))? == VACANT {
                return Ok(Some(slot));
            }
        }
        let next = self.slots();
        Ok((self.free() >= self.style.slot_len && next < SLOTS_MAX).then_some(Slot(next as u16)))
    }

    /// Returns the number of bytes that belong neither to a record nor to the directory.
    fn free(&self) -> usize {
        self.start() - self.heap_end + self.gaps
    }

    /// Returns the length of the longest record that [`Directory::insert`] accepts at `slot`, or
    /// [`Directory::update`] if one is there; `None` if not even an empty one fits.
    pub(super) fn room(&self, page: &PageRef<'_>, slot: Slot) -> Result<Option<usize>, Damaged> {
        let present = self.find(page, slot)?.map_or(0, |extent| extent.len);
        Ok(self.index(slot).and_then(|index| Some(self.room_at(index)? + present)))
    }

    /// Returns the length of the longest record that fits into the vacant slot of this index.
    fn room_at(&self, index: usize) -> Option<usize> {
        let growth = (index + 1).saturating_sub(self.count) * self.style.slot_len;
        self.free().checked_sub(growth)
    }

    /// Puts a record into a vacant slot, and `extra` into the layout's own part of the slot, if there is one. Missing slots
    /// before it are created as vacant ones.
    pub(super) fn insert(
        &mut self,
        page: &mut PageMut<'_>,
        slot: Slot,
        extra: Option<u64>,
        record: &[u8],
    ) -> Result<(), Damaged> {
        let index = self.check_insert(&page.page_ref(), slot, record.len())?;
        let count = self.count.max(index + 1);
        let directory_start = BODY_LEN - count * self.style.slot_len;
        if self.heap_end + record.len() > directory_start {
            self.compact(page)?;
        }
        // All bytes of the slot itself are written below.
        for vacant in self.count..index {
            let at = self.slot_at(vacant);
            page.fill(at..at + self.style.slot_len, 0)?;
            page.put_u16(at, VACANT)?;
        }
        self.count = count;
        self.place(page, index, record)?;
        if let Some(extra) = extra {
            page.put_u64(self.slot_at(index) + SLOT_HEAD_LEN, extra)?;
        }
        self.save(page);
        Ok(())
    }

    /// Returns the index of a slot into which a record of `len` bytes may be put.
    fn check_insert(&self, page: &PageRef<'_>, slot: Slot, len: usize) -> Result<usize, Damaged> {
        if self.find(page, slot)?.is_some() {
            return Err(self.damaged_slot(page.id(), slot, "a record would overwrite another one"));
        }
        match self.index(slot) {
            Some(index) if self.room_at(index).is_some_and(|room| room >= len) => Ok(index),
            _ => Err(self.damaged_slot(page.id(), slot, "a record has no space in the page")),
        }
    }

    /// Replaces the record of a slot by one of any length.
    pub(super) fn update(&mut self, page: &mut PageMut<'_>, slot: Slot, record: &[u8]) -> Result<(), Damaged> {
        let (index, old) = self.check_update(&page.page_ref(), slot, record.len())?;
        if !record.is_empty() && record.len() <= old.len {
            page.put(old.start, record)?;
            page.put_u16(self.slot_at(index) + 2, record.len() as u16)?;
            self.release(page.id(), Extent { start: old.start + record.len(), len: old.len - record.len() })?;
        } else {
            page.put_u16(self.slot_at(index), VACANT)?;
            self.release(page.id(), old)?;
            if self.heap_end + record.len() > self.start() {
                self.compact(page)?;
            }
            self.place(page, index, record)?;
        }
        self.save(page);
        Ok(())
    }

    /// Returns the index of a slot and the extent of its record, which is to be replaced by one of `len` bytes.
    fn check_update(&self, page: &PageRef<'_>, slot: Slot, len: usize) -> Result<(usize, Extent), Damaged> {
        let Some(old) = self.present(slot).zip(self.find(page, slot)?) else {
            return Err(self.damaged_slot(page.id(), slot, "the record to be replaced does not exist"));
        };
        if self.room(page, slot)?.is_none_or(|room| room < len) {
            return Err(self.damaged_slot(page.id(), slot, "the longer record has no space in the page"));
        }
        Ok(old)
    }

    /// Overwrites a part of a record.
    pub(super) fn put(&self, page: &mut PageMut<'_>, slot: Slot, offset: usize, bytes: &[u8]) -> Result<(), Damaged> {
        match self.find(&page.page_ref(), slot)? {
            Some(extent) if offset.checked_add(bytes.len()).is_some_and(|end| end <= extent.len) => {
                page.put(extent.start + offset, bytes)
            }
            Some(_) => {
                Err(self.damaged_slot(page.id(), slot, "the record is shorter than what is to be written to it"))
            }
            None => Err(self.damaged_slot(page.id(), slot, "the record to be written to does not exist")),
        }
    }

    /// Removes the record of a slot. `trims`: removes vacant slots at the end of the directory too.
    pub(super) fn delete(&mut self, page: &mut PageMut<'_>, slot: Slot, trims: bool) -> Result<(), Damaged> {
        let Some((index, old)) = self.present(slot).zip(self.find(&page.page_ref(), slot)?) else {
            return Err(self.damaged_slot(page.id(), slot, "the record to be deleted does not exist"));
        };
        self.release(page.id(), old)?;
        let at = self.slot_at(index);
        page.put_u16(at, VACANT)?;
        page.put_u16(at + 2, 0)?;
        while trims && self.count > 0 && page.page_ref().u16_at(self.slot_at(self.count - 1))? == VACANT {
            self.count -= 1;
        }
        self.save(page);
        Ok(())
    }

    /// Removes the record of a slot, and vacant slots at the end of the directory down to `slots` slots.
    pub(super) fn withdraw(&mut self, page: &mut PageMut<'_>, slot: Slot, slots: u16) -> Result<(), Damaged> {
        self.delete(page, slot, false)?;
        // Slot 0 stays if slots were dropped.
        let least = usize::from(slots).max(usize::from(self.gone > 0) + self.gone);
        while self.slots() > least && page.page_ref().u16_at(self.slot_at(self.count - 1))? == VACANT {
            self.count -= 1;
        }
        self.save(page);
        Ok(())
    }

    /// Drops slots from 1 to `gone`, which must be vacant. If all slots but 0 are, the later ones are dropped too,
    /// and `gone` may be any number.
    pub(super) fn forget(&mut self, page: &mut PageMut<'_>, gone: u16) -> Result<(), Damaged> {
        if !self.may_forget(&page.page_ref(), gone)? {
            return Err(Damaged::in_layout_word(page.id(), "a slot that is to be dropped has a record"));
        }
        let gone = usize::from(gone);
        // The number of present slots after slot 0 to drop.
        let going = match self.first_record(&page.page_ref())? {
            Some(_) => gone - self.gone,
            None => self.count - 1,
        };
        let start = self.start();
        page.copy_within(start..self.slot_at(going), start + going * self.style.slot_len)?;
        self.count -= going;
        self.gone = gone;
        self.compact(page)
    }

    /// Whether [`forget`](Directory::forget) may be called.
    pub(super) fn may_forget(&self, page: &PageRef<'_>, gone: u16) -> Result<bool, Damaged> {
        if !self.style.forgets || self.count == 0 || usize::from(gone) >= SLOTS_MAX {
            return Ok(false);
        }
        let first = self.first_record(page)?;
        Ok(first.is_none_or(|first| self.gone <= usize::from(gone) && gone < first.0))
    }

    /// Returns the first slot after slot 0 that has a record.
    pub(super) fn first_record(&self, page: &PageRef<'_>) -> Result<Option<Slot>, Damaged> {
        for slot in self.numbers().skip(1) {
            if self.find(page, slot)?.is_some() {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// Moves all records together, in the order of their offsets, so that the free bytes are contiguous.
    pub(super) fn compact(&mut self, page: &mut PageMut<'_>) -> Result<(), Damaged> {
        let mut records = self.extents(&page.page_ref())?;
        records.sort_unstable_by_key(|&(slot, extent)| (extent.start, slot.0));
        let mut end = 0;
        for (slot, extent) in records {
            if extent.len > 0 && extent.start != end {
                page.copy_within(extent.start..extent.end(), end)?;
                page.put_u16(self.slot_at(self.present(slot).expect("it has a record")), end as u16)?;
            }
            end += extent.len;
        }
        self.heap_end = end;
        self.gaps = 0;
        self.save(page);
        Ok(())
    }

    /// Checks that no two records overlap, and that the gaps between them are as long as the page states.
    pub(super) fn check(&self, page: &PageRef<'_>) -> Result<(), Damaged> {
        self.extents(page).map(drop)
    }

    /// Returns every record's extent, after that check.
    fn extents(&self, page: &PageRef<'_>) -> Result<Vec<(Slot, Extent)>, Damaged> {
        let mut records = Vec::with_capacity(self.count);
        for slot in self.numbers() {
            if let Some(extent) = self.find(page, slot)? {
                records.push((slot, extent));
            }
        }
        let mut by_place: Vec<(Slot, Extent)> = records.clone();
        by_place.sort_unstable_by_key(|&(slot, extent)| (extent.start, extent.len, slot.0));
        for pair in by_place.windows(2) {
            if pair[0].1.end() > pair[1].1.start {
                return Err(self.damaged_slot(page.id(), pair[1].0, "two records overlap"));
            }
        }
        let used: usize = records.iter().map(|(_, extent)| extent.len).sum();
        if used + self.gaps != self.heap_end {
            return Err(Damaged::in_layout_word(page.id(), "the gaps between records are miscounted"));
        }
        Ok(records)
    }

    /// Appends a record to the heap, where the caller has freed enough space.
    fn place(&mut self, page: &mut PageMut<'_>, index: usize, record: &[u8]) -> Result<(), Damaged> {
        let at = self.slot_at(index);
        if self.heap_end + record.len() > self.start() {
            return Err(Damaged::in_layout_word(page.id(), "the gaps between records are miscounted"));
        }
        // An empty record has no position; one at the heap's end would be beyond the end when that moves back.
        let start = if record.is_empty() { 0 } else { self.heap_end };
        page.put(start, record)?;
        page.put_u32(at, start as u32 | (record.len() as u32) << 16)?;
        self.heap_end += record.len();
        Ok(())
    }

    /// Releases the bytes of an extent, which belong to no record any more.
    fn release(&mut self, page: PageId, extent: Extent) -> Result<(), Damaged> {
        if extent.end() == self.heap_end {
            self.heap_end = extent.start;
        } else {
            self.gaps += extent.len;
        }
        if self.gaps <= self.heap_end {
            Ok(())
        } else {
            Err(Damaged::in_layout_word(page, "the gaps between records are miscounted"))
        }
    }

    fn damaged_slot(&self, page: PageId, slot: Slot, what: &'static str) -> Damaged {
        let at = self.index(slot).map_or(0, |index| BODY_LEN.saturating_sub((index + 1) * self.style.slot_len));
        Damaged::in_body(page, at, what)
    }
}
