//! The operations of the space map.

use cedrat_pages::{BODY_LEN, Damaged, LayoutKind, PageMut, PageRef, Slot};
use serde::{Deserialize, Serialize};

use crate::changes::Meaning;
use crate::operation::{Operation, RecordId, Refused};
use crate::small_bytes::SmallBytes;
use crate::space::{SPACE_MAP, is_always_used};
use crate::undo::Undo;

/// Marks contiguous pages of a group as used or free. Its inverse is the same operation with the other state, so its
/// undo is derived and takes no log.
///
/// Transactions do not apply it directly: they call [`crate::Txn::allocate`] and [`crate::Txn::free`], which track the
/// pages that may be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetSpace {
    /// The first page, relative to the beginning of the group.
    pub first: u16,
    /// The number of pages.
    pub pages: u16,
    /// Whether the pages become used; otherwise they become free.
    pub used: bool,
}

impl SetSpace {
    fn range(&self) -> std::ops::Range<usize> {
        usize::from(self.first)..usize::from(self.first) + usize::from(self.pages)
    }
}

/// Marks scattered pages of a group as used or free, in one record. Its inverse is the same operation with the other
/// state.
///
/// Transactions do not apply it directly: they call [`crate::Txn::free_scattered`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetSpaceScattered {
    /// The first page, relative to the beginning of the group.
    pub first: u16,
    /// A bit for each page from the first on, the lowest bit of the first byte first: whether its state changes.
    pub mask: SmallBytes,
    /// Whether the pages become used; otherwise they become free.
    pub used: bool,
}

impl SetSpaceScattered {
    /// Returns the bits of the pages in the space map.
    pub(crate) fn bits(&self) -> impl Iterator<Item = usize> {
        let first = usize::from(self.first);
        (0..8 * self.mask.len()).filter(|bit| self.mask[bit / 8] & 1 << (bit % 8) != 0).map(move |bit| first + bit)
    }
}

fn is_used(body: &[u8], bit: usize) -> bool {
    body[bit / 8] & 1 << (bit % 8) != 0
}

/// Checks that these pages can become used, or free.
fn check(page: &PageRef<'_>, bits: impl Iterator<Item = usize>, used: bool) -> Result<(), Refused> {
    if page.kind() != SPACE_MAP && page.kind() != LayoutKind::NONE {
        return Err(Damaged::wrong_kind(page.id()).into());
    }
    for bit in bits {
        if bit >= BODY_LEN * 8 {
            return Err(Refused::new("a group does not have these pages"));
        }
        let number = page.id().get() + bit as u64;
        if is_always_used(number) {
            return Err(Refused::new(format!("page {number} belongs to the store itself")));
        }
        if is_used(page.body(), bit) == used {
            let is = if used { "in use already" } else { "not allocated, or freed already" };
            return Err(Refused::new(format!("page {number} is {is}")));
        }
    }
    Ok(())
}

/// Formats the space map if it is the first time that a page of its group is used.
fn format_map(page: &mut PageMut<'_>) -> Result<(), Damaged> {
    if page.kind() == LayoutKind::NONE {
        page.format(SPACE_MAP);
        // The bit of the map itself, and that of the catalogue.
        page.put_u8(0, if page.id().get() == 0 { 0b11 } else { 0b1 })?;
    }
    Ok(())
}

impl Operation for SetSpace {
    const NAME: &'static str = "cedrat.set_space.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        if self.range().is_empty() {
            return Err(Refused::new("a group does not have these pages"));
        }
        check(page, self.range(), self.used)?;
        Ok(Undo::derived(0))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        format_map(page)?;
        let bits = self.range();
        let first_byte = bits.start / 8;
        page.edit(first_byte..bits.end.div_ceil(8), |bytes| {
            for bit in bits {
                let mask = 1 << (bit % 8);
                let byte = &mut bytes[bit / 8 - first_byte];
                *byte = if self.used { *byte | mask } else { *byte & !mask };
            }
        })
    }

    fn derive_undo(&self, _: RecordId) -> Undo {
        Undo::op(SetSpace { used: !self.used, ..*self })
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

impl Operation for SetSpaceScattered {
    const NAME: &'static str = "cedrat.set_space_scattered.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        check(page, self.bits(), self.used)?;
        Ok(Undo::derived(0))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        format_map(page)?;
        let first_byte = usize::from(self.first) / 8;
        // The mask may be a few bits longer than the map.
        let Some(last) = self.bits().last() else { return Ok(()) };
        page.edit(first_byte..last / 8 + 1, |bytes| {
            for bit in self.bits() {
                let mask = 1 << (bit % 8);
                let byte = &mut bytes[bit / 8 - first_byte];
                *byte = if self.used { *byte | mask } else { *byte & !mask };
            }
        })
    }

    fn derive_undo(&self, _: RecordId) -> Undo {
        Undo::op(SetSpaceScattered { used: !self.used, ..self.clone() })
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}
