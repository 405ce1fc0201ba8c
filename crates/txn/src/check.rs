//! Looking at everything: what `cedrat verify` does with an open store, and tests at their end.

use cedrat_pages::layout::Layout;
use cedrat_pages::{Damaged, LayoutKind, PageId, PageRef, PoolError, Slot};

use crate::error::{Error, Result};
use crate::report::CheckReport;
use crate::space::{GROUP_PAGES, SPACE_MAP, used_from_map};
use crate::store::Store;

impl Store {
    /// Reads every page in use: its checksum, its number, and whether its layout makes sense of it; and every space map.
    ///
    /// Transactions may run meanwhile. Pages that are free are not looked at: what lies there means nothing.
    ///
    /// # Errors
    /// The first damage found, with file and offset.
    pub fn check(&self) -> Result<CheckReport> {
        self.check_beyond(Err)
    }

    /// As [`check`](Store::check), but goes on behind each damage that `damaged` takes. Behind that of a space map nothing is
    /// known of the pages that it is about, and they are not looked at.
    ///
    /// # Errors
    /// Those of `damaged`, to which each damage is given, with file and offset. The store stopped.
    pub fn check_beyond(&self, mut damaged: impl FnMut(Error) -> Result<()>) -> Result<CheckReport> {
        let mut beyond = |checked: Result<()>| match checked {
            Err(error @ Error::Pages(PoolError::Damaged { .. } | PoolError::Beyond { .. })) => damaged(error),
            other => other,
        };
        let pool = self.pool();
        let mut report = CheckReport::default();
        let mut end = 0;
        for map in (0..pool.len_pages()).step_by(GROUP_PAGES as usize).map(PageId::new) {
            let mut used = Vec::new();
            beyond(used_from_map(pool, map, |page| used.push(PageId::new(page))))?;
            for page in used {
                end = page.get() + 1;
                report.pages_allocated += 1;
                beyond(self.check_page(page, &mut report))?;
            }
        }
        report.pages_free = end.saturating_sub(report.pages_allocated);
        Ok(report)
    }

    fn check_page(&self, page: PageId, report: &mut CheckReport) -> Result<()> {
        let pool = self.pool();
        let page = pool.read(page)?;
        *report.kinds.entry(page.kind().0).or_default() += 1;
        // A layout that nobody registered is its owner's affair; its pages are only counted.
        if let Some(layout) = self.inner.layouts.get(page.kind()) {
            layout.check(&page).map_err(|damaged| pool.damaged(damaged))?;
        }
        Ok(())
    }
}

/// Space maps, as tools see them.
#[derive(Debug)]
pub(crate) struct SpaceMapLayout;

impl Layout for SpaceMapLayout {
    fn kind(&self) -> LayoutKind {
        SPACE_MAP
    }

    fn name(&self) -> &str {
        "space map"
    }

    fn check(&self, page: &PageRef<'_>) -> Result<(), Damaged> {
        if !page.id().get().is_multiple_of(GROUP_PAGES) {
            return Err(Damaged::wrong_kind(page.id()));
        }
        if page.body()[0] & 1 == 0 {
            return Err(Damaged::in_body(page.id(), 0, "a space map says of itself that it is free"));
        }
        Ok(())
    }

    fn records(&self, _: &PageRef<'_>, _: &mut dyn FnMut(Slot, &[u8])) -> Result<(), Damaged> {
        Ok(())
    }
}
