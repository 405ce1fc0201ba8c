//! The operation of the space map.

use cedrat_pages::{BODY_LEN, Damaged, LayoutKind, PageMut, PageRef, Slot};
use serde::{Deserialize, Serialize};

use crate::operation::{Operation, RecordId, Refused};
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

fn is_used(body: &[u8], bit: usize) -> bool {
    body[bit / 8] & 1 << (bit % 8) != 0
}

impl Operation for SetSpace {
    const NAME: &'static str = "cedrat.set_space.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        if self.range().is_empty() || self.range().end > BODY_LEN * 8 {
            return Err(Refused::new("a group does not have these pages"));
        }
        if page.kind() != SPACE_MAP && page.kind() != LayoutKind::NONE {
            return Err(Damaged::wrong_kind(page.id()).into());
        }
        for bit in self.range() {
            let number = page.id().get() + bit as u64;
            if is_always_used(number) {
                return Err(Refused::new(format!("page {number} belongs to the store itself")));
            }
            if is_used(page.body(), bit) == self.used {
                let is = if self.used { "in use already" } else { "not allocated, or freed already" };
                return Err(Refused::new(format!("page {number} is {is}")));
            }
        }
        Ok(Undo::derived(0))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        if page.kind() == LayoutKind::NONE {
            page.format(SPACE_MAP);
            // The bit of the map itself, and that of the catalogue.
            page.put_u8(0, if page.id().get() == 0 { 0b11 } else { 0b1 })?;
        }
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
}
