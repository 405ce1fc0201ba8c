//! Slots of a page that may still be given away, and its space for their records.

use cedrat_pages::layout::Versioned;
use cedrat_pages::{BODY_LEN, Damaged, Slot};
use cedrat_structures::chain::PageLink;
use cedrat_sync::planted;

use crate::record::LINK;

/// Slots of a page that were not given away since the collection was opened.
#[derive(Debug)]
pub(crate) struct Slots {
    /// Slots that were vacant then, the lowest number last.
    pub(crate) vacant: Vec<Slot>,
    /// The lowest slot that did not exist then, or was not given away yet.
    pub(crate) next: u16,
    /// Space that was promised to future records, in bytes.
    pub(crate) promised: usize,
    /// Space that the page certainly has besides that, in bytes: it was there when the page was read, and only promised records
    /// use space. Records that fit, with a slot each, are promised without reading the page again.
    pub(crate) spare: usize,
    /// Slots are being removed; none of them is given away meanwhile.
    pub(crate) is_forgetting: bool,
    /// The page has left the collection. If it comes back, `next` is still valid (E19.11).
    pub(crate) is_away: bool,
}

/// Result of a search for a slot with space for a record.
pub(crate) enum SlotSearch {
    Slot(Slot),
    /// Space, after slots up to this one were removed.
    Behind(u16),
    None,
}

/// Slots of fewer bytes are not worth the log record of their removal. They are removed before the page is full: a transaction
/// with several promised places in it prevents all removals, and would find it full after the first.
const WORTH_LEN: usize = BODY_LEN / 8;

impl Slots {
    pub(crate) fn of(versioned: &Versioned<'_>) -> Result<Slots, Damaged> {
        let (mut vacant, mut is_empty) = (Vec::new(), true);
        for slot in versioned.numbers().rev().filter(|&slot| slot != LINK) {
            match versioned.get(slot)? {
                None => vacant.push(slot),
                Some(_) => is_empty = false,
            }
        }
        // A page without records begins again, with all possible places.
        let (vacant, next) = if is_empty { (Vec::new(), 1) } else { (vacant, versioned.slots()) };
        Ok(Slots { vacant, next, promised: 0, spare: 0, is_forgetting: false, is_away: false })
    }

    pub(crate) fn peek(&self) -> Slot {
        self.vacant.last().copied().unwrap_or(Slot(self.next))
    }

    pub(crate) fn take(&mut self) {
        if self.vacant.pop().is_none() {
            self.next += u16::from(!planted!("place_given_twice")); // the highest number is not the number of a slot
        } else if self.vacant.is_empty() {
            self.vacant = Vec::new(); // frees its memory
        }
    }

    /// Notes the space of the page at the slot that was taken last. Not all of it: the page is read again after some records, to
    /// see whether slots should be removed.
    pub(crate) fn note_space(&mut self, room: Option<usize>) {
        self.spare = room.map_or(0, |room| room.saturating_sub(self.promised)).min(WORTH_LEN);
    }

    /// Takes a slot for a record of this length, if the page certainly has space for it.
    pub(crate) fn take_within_spare(&mut self, len: usize) -> Option<Slot> {
        if self.next == u16::MAX {
            return None; // there are no further slots
        }
        self.spare = self.spare.checked_sub(len + Versioned::SLOT_LEN)?;
        let slot = self.peek();
        self.take();
        self.promised += len;
        Some(slot)
    }

    /// Returns the last slot to remove, if a record of this length has space after that. The removed slots were given away,
    /// or are not given away any more, and precede the first one with a record. `is_full`: without that there is no space.
    pub(crate) fn may_go(&self, versioned: &Versioned<'_>, len: usize, is_full: bool) -> Result<Option<u16>, Damaged> {
        if self.promised > 0 || self.is_forgetting {
            return Ok(None); // one of them may be about to get a record
        }
        if self.next == u16::MAX {
            return Ok(None); // there are no further slots
        }
        if !is_full && usize::from(versioned.slots() - versioned.gone()) * Versioned::SLOT_LEN < WORTH_LEN {
            return Ok(None); // as a rule
        }
        let Some(free) = versioned.room(LINK)?.and_then(|room| room.checked_sub(PageLink::LEN)) else {
            return Ok(None);
        };
        let first = versioned.first_record()?;
        let gone = first.map_or(self.next, |first| first.0) - 1;
        let (going, coming) = match first {
            Some(_) => (gone - versioned.gone(), (self.next + 1).saturating_sub(versioned.slots())),
            None => (versioned.numbers().count() as u16 - 1, 1),
        };
        let going_len = usize::from(going) * Versioned::SLOT_LEN;
        let has_space = free + going_len >= usize::from(coming) * Versioned::SLOT_LEN + len;
        let is_worth_it = going_len >= WORTH_LEN || is_full && first.is_none();
        Ok((has_space && is_worth_it).then_some(gone))
    }
}

#[cfg(test)]
mod tests {
    use cedrat_pages::layout::VersionedMut;
    use cedrat_pages::{PageBuf, PageId};
    use cedrat_wal::Lsn;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// E19.14: records have room in the places that they were promised without reading the page, in any order.
        #[test]
        fn places_within_spare_have_room(
            present in 0_usize..BODY_LEN - 200, lens in prop::collection::vec(1_usize..300, 1..40), from_behind: bool,
        ) {
            let mut page = PageBuf::new(PageId::new(3));
            page.change(Lsn::new(1), |page| {
                let mut versioned = VersionedMut::format(page);
                versioned.insert(LINK, Lsn::new(1), &[0; PageLink::LEN])?;
                versioned.insert(Slot(1), Lsn::new(1), &vec![0; present])
            }).unwrap();
            let mut slots = Slots::of(&Versioned::of(&page.page_ref()).unwrap()).unwrap();
            let first = slots.peek();
            slots.take();
            slots.promised = 10;
            let room = Versioned::of(&page.page_ref()).unwrap().room(first).unwrap();
            prop_assume!(room.is_some_and(|room| room >= 10));
            slots.note_space(room);
            let within = |len: usize| Some((slots.take_within_spare(len)?, len));
            let mut places: Vec<_> = [(first, 10)].into_iter().chain(lens.into_iter().filter_map(within)).collect();
            if from_behind {
                places.reverse();
            }
            page.change(Lsn::new(2), |page| {
                let mut versioned = VersionedMut::of(page)?;
                places.iter().try_for_each(|&(slot, len)| versioned.insert(slot, Lsn::new(2), &vec![1; len]))
            }).unwrap();
        }
    }
}
