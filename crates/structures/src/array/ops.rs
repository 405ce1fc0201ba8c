//! The operations on the root page of an array list.

use cedrat_pages::layout::Fixed;
use cedrat_pages::{Damaged, PageMut, PageRef, Slot};
use cedrat_txn::{Meaning, Operation, RecordId, Refused, Result, Undo};
use serde::{Deserialize, Serialize};

use super::{REGIONS_MAX, Shape, at};
use crate::bytes::{BytesMut, Corrupt};
use crate::kinds;

/// Formats a fresh page as the root of an empty array.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FoundArray {
    pub(super) element_len: u16,
}

impl Operation for FoundArray {
    const NAME: &'static str = "cedrat.array.found.v1";
    const FORMATS: bool = true;

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::none())
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        page.format(kinds::ARRAY_ROOT);
        let per_page = Fixed::capacity_for(self.element_len);
        let shape = Shape { element_len: self.element_len, per_page, len: 0, region_count: 0, pages: 0 };
        shape.write(page).map_err(damaged(page))
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

/// Sets the length of the array, and adds a region that it has grown into.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SetShape {
    pub(super) len: u64,
    pub(super) pages: u64,
    /// The number and first page of a new region; as an undo, the number of the region to remove, and 0.
    pub(super) region: Option<(u16, u64)>,
}

impl Operation for SetShape {
    const NAME: &'static str = "cedrat.array.set_shape.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        if page.kind() != kinds::ARRAY_ROOT {
            return Err(Refused::new("the page is not the root of an array list"));
        }
        let shape = Shape::read(page).map_err(|_| Refused::new("the root of an array list is corrupt"))?;
        if self.region.is_some_and(|(number, _)| number != shape.region_count || usize::from(number) >= REGIONS_MAX) {
            return Err(Refused::new("regions of an array list come one after another"));
        }
        let region = self.region.map(|(number, _)| (number, 0));
        Ok(Undo::op(SetShape { len: shape.len, pages: shape.pages, region }))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        self.apply(page).map_err(damaged(page))
    }
}

impl SetShape {
    fn apply(&self, page: &mut PageMut<'_>) -> Result<(), Corrupt> {
        let mut shape = Shape::read(&*page)?;
        (shape.len, shape.pages) = (self.len, self.pages);
        if let Some((number, first)) = self.region {
            BytesMut::put(page, at::REGIONS + 8 * usize::from(number), &first.to_le_bytes())?;
            shape.region_count = if first == 0 { number } else { number + 1 };
        }
        shape.write(page)
    }
}

fn damaged(page: &PageMut<'_>) -> impl Fn(Corrupt) -> Damaged + use<> {
    let id = page.id();
    move |_| Damaged::in_body(id, 0, "the root of an array list is not what its operation left")
}
