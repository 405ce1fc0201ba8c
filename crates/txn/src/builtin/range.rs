//! Physical logging: bytes at an offset (Lemon §4.2; LLADD `set_range`, which logs only a part of a record).

use cedrat_pages::{Damaged, PageMut, PageRef, Slot};
use serde::{Deserialize, Serialize};

use crate::operation::{Operation, Refused};
use crate::small_bytes::SmallBytes;
use crate::undo::Undo;

/// Sets bytes of a page's body. Its undo restores the bytes that were there before.
///
/// For pages whose layout permits writes from outside, such as raw pages. The undo restores bytes, not meaning: no
/// other transaction may have moved them, so the page must stay locked, or the change must be part of a nested top
/// action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRange {
    /// The offset in the body, in bytes.
    pub offset: u16,
    /// The new bytes.
    pub bytes: SmallBytes,
}

impl SetRange {
    /// Captures the bytes that the page has there now: a before-image.
    ///
    /// # Errors
    /// The range does not lie in the body.
    pub fn now(page: &PageRef<'_>, offset: usize, len: usize) -> Result<SetRange, Refused> {
        let bytes = page.slice(offset..offset.saturating_add(len))?;
        Ok(SetRange { offset: offset as u16, bytes: bytes.into() })
    }
}

impl Operation for SetRange {
    const NAME: &'static str = "cedrat.set_range.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Undo::before_image(page, self.offset.into(), self.bytes.len())
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        page.put(self.offset.into(), &self.bytes)
    }
}
