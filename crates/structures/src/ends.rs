//! The root page of linked lists and of collections of records: their first and last nodes.
//!
//! ```text
//! 0       8             10     16     24          26     32
//! | first | first slot  | 0    | last | last slot | 0    | spare |
//! ```

use cedrat_pages::layout::FixedNumber;
use cedrat_pages::{Damaged, LayoutKind, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, RecordId, Refused, Result, Store, Undo};
use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::error::{StructureError, root_page};
use crate::kinds;

mod at {
    pub(super) const FIRST: usize = 0;
    pub(super) const LAST: usize = 16;
    pub(super) const SPARE: usize = 32;
}

/// The numbers of a root page, for tools.
pub(crate) const NUMBERS: &[FixedNumber] = &[
    FixedNumber::new("first page", at::FIRST, 8),
    FixedNumber::new("first slot", at::FIRST + 8, 2),
    FixedNumber::new("last page", at::LAST, 8),
    FixedNumber::new("last slot", at::LAST + 8, 2),
    FixedNumber::new("spare page", at::SPARE, 8),
];

/// First and last node of a list, and the page for the next node; page 0 stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ends {
    pub(crate) first: Place,
    pub(crate) last: Place,
    pub(crate) spare: u64,
}

/// A record's page and slot as plain numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) page: u64,
    pub(crate) slot: u16,
}

impl Place {
    /// Returns the place of a whole page.
    pub(crate) fn page(page: PageId) -> Place {
        Place { page: page.get(), slot: 0 }
    }

    /// Returns the address of the record, if there is one.
    pub(crate) fn record(self) -> Option<RecordId> {
        (self.page != 0).then(|| RecordId::new(PageId::new(self.page), Slot(self.slot)))
    }
}

impl From<RecordId> for Place {
    fn from(record: RecordId) -> Place {
        Place { page: record.page.get(), slot: record.slot.0 }
    }
}

/// Checks that a page, of any number, is a root of this kind, and reads it.
pub(crate) fn open(store: &Store, root: PageId, kind: LayoutKind) -> Result<Ends> {
    read(&*root_page(store, root, named(kind))?, kind)
}

/// Reads a root page of this kind.
pub(crate) fn read(page: &PageRef<'_>, kind: LayoutKind) -> Result<Ends> {
    if page.kind() != kind {
        return Err(StructureError::WrongRoot { page: page.id(), expected: named(kind) }.into());
    }
    Ok(ends(page))
}

fn named(kind: LayoutKind) -> &'static str {
    match kind {
        kinds::LIST_ROOT => "a list",
        kinds::PAGE_LIST_ROOT => "a page-oriented list",
        _ => "a collection of records",
    }
}

fn ends(page: &PageRef<'_>) -> Ends {
    let read = |at: usize| -> Result<Place, crate::bytes::Corrupt> {
        Ok(Place { page: page.word(at)?, slot: page.half(at + 8)? })
    };
    let within = "the first bytes of a body are there";
    Ends {
        first: read(at::FIRST).expect(within),
        last: read(at::LAST).expect(within),
        spare: page.word(at::SPARE).expect(within),
    }
}

/// Sets first, last and spare.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SetEnds(pub(crate) Ends);

impl Operation for SetEnds {
    const NAME: &'static str = "cedrat.list.set_ends.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        match page.kind() {
            kinds::LIST_ROOT | kinds::PAGE_LIST_ROOT | kinds::RECORDS_ROOT => Ok(Undo::op(SetEnds(ends(page)))),
            _ => Err(Refused::new("the page is not the root of a list, nor of a collection of records")),
        }
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        for (at, place) in [(at::FIRST, self.0.first), (at::LAST, self.0.last)] {
            page.put_u64(at, place.page)?;
            page.put_u16(at + 8, place.slot)?;
        }
        page.put_u64(at::SPARE, self.0.spare)
    }
}
