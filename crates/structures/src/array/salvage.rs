//! The root page of an array list, without a store.

use cedrat_pages::{PageId, PageRef};

use super::{Shape, region};
use crate::kinds;
use crate::regions::place;

/// The elements of an array list, as its root describes them.
pub(crate) struct Elements {
    pub(crate) element_len: u16,
    pub(crate) per_page: u16,
    pub(crate) len: u64,
    /// First page of each region.
    regions: Vec<PageId>,
}

impl Elements {
    /// Reads a root page; `None` if it is another page, or invalid.
    pub(crate) fn of(page: &PageRef<'_>) -> Option<Elements> {
        let shape = Shape::read(page).ok().filter(|_| page.kind() == kinds::ARRAY_ROOT)?;
        let region = |number: u16| region(&page.body()[..], number.into()).ok();
        let regions = (0..shape.region_count).map(region).collect::<Option<Vec<_>>>()?;
        Some(Elements { element_len: shape.element_len, per_page: shape.per_page, len: shape.len, regions })
    }

    /// Returns the page of this number among the array's pages, which is less than the number of pages that its elements take.
    pub(crate) fn page(&self, number: u64) -> PageId {
        let (region, offset) = place(number);
        self.regions.get(region).map_or(PageId::new(u64::MAX), |first| first.after(offset))
    }
}
