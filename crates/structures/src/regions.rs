//! The pages of a growing structure: regions of contiguous pages, each as long as all before it.
//!
//! The idea is from Lemon's ArrayList (§6.1): a structure's pages are numbered 0, 1, 2, … and placed in regions. Region
//! 0 is page 0, region 1 page 1, region 2 pages 2 and 3, each next one as long as all before it, up to
//! [`REGION_PAGES_MAX`]; from there on every region has that length. So the position of a page is computed from a short
//! list of first pages, which an open structure keeps in memory, and growing copies nothing.

/// Maximum number of pages in one region. A region lies within one page of the space map, which this stays well below.
pub(crate) const REGION_PAGES_MAX: u64 = 1 << 13;

/// Number of regions of doubling length: 1, 1, 2, 4, …, [`REGION_PAGES_MAX`] pages.
const DOUBLING_REGIONS: u64 = REGION_PAGES_MAX.ilog2() as u64 + 2;

/// Number of pages in all doubling regions.
const DOUBLING_PAGES: u64 = 2 * REGION_PAGES_MAX;

/// Returns the region of page number `page` of a structure, and its offset within the region.
#[inline]
pub(crate) fn place(page: u64) -> (usize, u64) {
    if page == 0 {
        return (0, 0);
    }
    if page < DOUBLING_PAGES {
        let level = page.ilog2();
        return (level as usize + 1, page - (1 << level));
    }
    let beyond = page - DOUBLING_PAGES;
    ((DOUBLING_REGIONS + beyond / REGION_PAGES_MAX) as usize, beyond % REGION_PAGES_MAX)
}

/// Returns the number of pages in region number `region`.
pub(crate) fn region_pages(region: usize) -> u64 {
    match region as u64 {
        0 => 1,
        doubling if doubling < DOUBLING_REGIONS => 1 << (doubling - 1),
        _ => REGION_PAGES_MAX,
    }
}

/// Returns the number of pages in the first `regions` regions.
pub(crate) const fn pages_in(regions: usize) -> u64 {
    let regions = regions as u64;
    if regions == 0 {
        return 0;
    }
    if regions <= DOUBLING_REGIONS {
        return 1 << (regions - 1);
    }
    DOUBLING_PAGES + (regions - DOUBLING_REGIONS) * REGION_PAGES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lie_one_after_another_without_gaps() {
        let mut page = 0;
        for region in 0..(DOUBLING_REGIONS as usize + 4) {
            assert_eq!(pages_in(region), page);
            for offset in 0..region_pages(region) {
                assert_eq!(place(page), (region, offset));
                page += 1;
            }
        }
    }
}
