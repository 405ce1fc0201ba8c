//! A check of the whole store, for `cedrat verify` and for tests.

use cedrat_pages::layout::Layout;
use cedrat_pages::{Damaged, LayoutKind, PageId, PageRef, PoolError, Slot};

use crate::error::{Error, Result};
use crate::report::CheckReport;
use crate::space::{GROUP_PAGES, SPACE_MAP, is_always_used, used_from_map};
use crate::store::Store;

impl Store {
    /// Reads every page in use and verifies its checksum, its number and its layout; verifies every space map as well.
    ///
    /// Transactions may run meanwhile. Free pages are skipped: their content is undefined.
    ///
    /// # Errors
    /// The first damage found, with file and offset.
    pub fn check(&self) -> Result<CheckReport> {
        self.check_beyond(Err)
    }

    /// As [`check`](Store::check), but continues after each damage for which `damaged` returns `Ok`. If a space map is
    /// damaged, the pages that it describes are skipped, because their state is unknown.
    ///
    /// # Errors
    /// Those of `damaged`, which receives each damage with file and offset. The store stopped.
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

    /// Returns the pages that transactions have allocated and not freed, ascending.
    ///
    /// Transactions may run meanwhile; pages that they allocate or free during the call may be missing or included.
    ///
    /// # Errors
    /// A space map is damaged. The store stopped.
    pub fn pages_in_use(&self) -> Result<Vec<PageId>> {
        let pool = self.pool();
        let mut used = Vec::new();
        for map in (0..pool.len_pages()).step_by(GROUP_PAGES as usize).map(PageId::new) {
            used_from_map(pool, map, |page| used.push(page))?;
        }
        used.retain(|&page| !is_always_used(page));
        Ok(used.into_iter().map(PageId::new).collect())
    }

    fn check_page(&self, page: PageId, report: &mut CheckReport) -> Result<()> {
        let pool = self.pool();
        let page = match pool.read(page) {
            // Its transaction has not formatted it, so nothing relies on its content (E22.3a).
            Err(PoolError::Damaged { .. }) if pool.may_be_half_punched(page)? => {
                *report.kinds.entry(LayoutKind::NONE.0).or_default() += 1;
                return Ok(());
            }
            read => read?,
        };
        *report.kinds.entry(page.kind().0).or_default() += 1;
        // A page of an unregistered layout is only counted: its owner alone can verify it.
        if let Some(layout) = self.inner.layouts.get(page.kind()) {
            layout.check(&page).map_err(|damaged| pool.damaged(damaged))?;
        }
        Ok(())
    }
}

/// The space map as a layout, for tools.
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
            return Err(Damaged::in_body(page.id(), 0, "a space map marks itself as free"));
        }
        Ok(())
    }

    fn records(&self, _: &PageRef<'_>, _: &mut dyn FnMut(Slot, &[u8])) -> Result<(), Damaged> {
        Ok(())
    }

    fn fields(&self, page: &PageRef<'_>) -> Result<Vec<(&'static str, u64)>, Damaged> {
        let used = page.body().iter().map(|byte| u64::from(byte.count_ones())).sum();
        Ok(vec![("pages in use", used), ("pages of the group", GROUP_PAGES)])
    }
}
