//! Operations that give a page a layout.

use cedrat_pages::{BODY_LEN, Damaged, LayoutKind, PageMut, PageRef, Slot};
use serde::{Deserialize, Serialize};

use crate::changes::Meaning;
use crate::operation::{Operation, RecordId, Refused};
use crate::small_bytes::SmallBytes;
use crate::undo::Undo;

/// Formats a page that the same transaction has just allocated: zero body, this layout. Redo-only: if the transaction
/// rolls back, the page is free and its content is irrelevant.
///
/// The page is not read: its bytes in the page file may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatFresh {
    /// The number of the layout ([`LayoutKind`]).
    pub kind: u16,
    /// The eight bytes of the header that belong to the layout.
    pub layout_word: u64,
}

impl FormatFresh {
    /// Returns a format with this layout and a layout word of zero.
    pub const fn new(kind: LayoutKind) -> FormatFresh {
        FormatFresh { kind: kind.0, layout_word: 0 }
    }
}

impl Operation for FormatFresh {
    const NAME: &'static str = "cedrat.format_fresh.v1";
    const FORMATS: bool = true;

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::none())
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        page.format(LayoutKind(self.kind));
        page.set_layout_word(self.layout_word);
        Ok(())
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

/// Formats a page that is in use. Its undo restores the whole page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatPage {
    /// The number of the layout ([`LayoutKind`]).
    pub kind: u16,
    /// The eight bytes of the header that belong to the layout.
    pub layout_word: u64,
}

impl Operation for FormatPage {
    const NAME: &'static str = "cedrat.format.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::op(RestorePage::now(page)))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        page.format(LayoutKind(self.kind));
        page.set_layout_word(self.layout_word);
        Ok(())
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

/// Sets a whole page: layout, layout word and body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestorePage {
    /// The number of the layout ([`LayoutKind`]).
    pub kind: u16,
    /// The eight bytes of the header that belong to the layout.
    pub layout_word: u64,
    /// The body without the zeros at its end.
    pub body: SmallBytes,
}

impl RestorePage {
    /// Captures the page as it is now.
    pub fn now(page: &PageRef<'_>) -> RestorePage {
        let body = page.body();
        let len = body.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        RestorePage { kind: page.kind().0, layout_word: page.layout_word(), body: body[..len].into() }
    }
}

impl Operation for RestorePage {
    const NAME: &'static str = "cedrat.restore_page.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        if self.body.len() > BODY_LEN {
            return Err(Refused::new("a page's body does not hold so many bytes"));
        }
        Ok(Undo::op(RestorePage::now(page)))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        page.format(LayoutKind(self.kind));
        page.set_layout_word(self.layout_word);
        page.put(0, &self.body)
    }
}
