//! Physical logging: bytes at a place (Lemon §4.2; LLADD `set_range`, which logs only a part of a record).

use cedrat_pages::{Damaged, PageMut, PageRef, Slot};
use serde::{Deserialize, Serialize};

use crate::operation::{Operation, Refused};
use crate::small_bytes::SmallBytes;
use crate::undo::Undo;

/// Sets bytes of a page's body. Undone by what was there before.
///
/// For pages whose layout allows bytes to be set from outside, such as raw ones. The undo restores bytes, not meaning: others
/// must not have moved what lies there, so the page is to be locked, or the change part of a nested top action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRange {
    /// Where in the body, in bytes.
    pub offset: u16,
    /// What is to stand there.
    pub bytes: SmallBytes,
}

impl SetRange {
    /// The bytes that stand there now: a before-image.
    ///
    /// # Errors
    /// They do not lie in the body.
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
