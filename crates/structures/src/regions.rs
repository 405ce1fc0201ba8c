//! The pages of a growing structure: regions of contiguous pages, each as long as all before it.
//!
//! The idea is from Lemon's ArrayList (§6.1): a structure's pages are numbered 0, 1, 2, … and placed in regions. Region
//! 0 is page 0, region 1 page 1, region 2 pages 2 and 3, each next one as long as all before it, up to
//! [`REGION_PAGES_MAX`]; from there on every region has that length. So the position of a page is computed from a short
//! list of first pages, which an open structure keeps in memory, and growing copies nothing.
//!
//! A hash table grows by one page at a time, and half of a region that has just been added is unused for long. So its
//! regions are eighths of these, from [`EIGHTHS_FROM`] pages on ([`Growth::Eighths`]).

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

/// Number of pages from which on eight regions double it: below, a region would be less than two pages long.
const EIGHTHS_FROM: u64 = 1 << 4;

/// Number of regions up to [`EIGHTHS_FROM`] pages: 1, 1, 2, 4 and 8 pages.
const WHOLE_REGIONS: u64 = EIGHTHS_FROM.ilog2() as u64 + 1;

/// Number of pages from which on eighths do not get longer: they have [`REGION_PAGES_MAX`] pages.
const EIGHTHS_PAGES: u64 = 16 * REGION_PAGES_MAX;

/// Number of regions up to [`EIGHTHS_PAGES`] pages.
const EIGHTHS_REGIONS: u64 = WHOLE_REGIONS + 8 * (EIGHTHS_PAGES / EIGHTHS_FROM).ilog2() as u64;

/// The lengths of a structure's regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Each region is as long as all before it.
    Doubling,
    /// Eight regions together are as long as all before them.
    Eighths,
}

impl Growth {
    /// Returns the region of page number `page` of a structure, and its offset within the region.
    #[inline]
    pub(crate) fn place(self, page: u64) -> (usize, u64) {
        if self == Growth::Doubling || page < EIGHTHS_FROM {
            return place(page);
        }
        if page < EIGHTHS_PAGES {
            let eighth = page.ilog2() - 3;
            // The three bits below the highest one number the eighths.
            let number = WHOLE_REGIONS + 8 * u64::from(eighth + 3 - EIGHTHS_FROM.ilog2()) + (page >> eighth & 7);
            return (number as usize, page & ((1 << eighth) - 1));
        }
        let beyond = page - EIGHTHS_PAGES;
        ((EIGHTHS_REGIONS + beyond / REGION_PAGES_MAX) as usize, beyond % REGION_PAGES_MAX)
    }

    /// Returns the number of pages in region number `region`.
    pub(crate) fn region_pages(self, region: usize) -> u64 {
        match region as u64 {
            number if self == Growth::Doubling || number < WHOLE_REGIONS => region_pages(region),
            number if number < EIGHTHS_REGIONS => (EIGHTHS_FROM / 8) << ((number - WHOLE_REGIONS) / 8),
            _ => REGION_PAGES_MAX,
        }
    }

    /// Returns the number of pages in the first `regions` regions.
    pub(crate) const fn pages_in(self, regions: usize) -> u64 {
        let number = regions as u64;
        if matches!(self, Growth::Doubling) || number <= WHOLE_REGIONS {
            return pages_in(regions);
        }
        if number <= EIGHTHS_REGIONS {
            let eighths = number - WHOLE_REGIONS;
            return ((8 + eighths % 8) * (EIGHTHS_FROM / 8)) << (eighths / 8);
        }
        EIGHTHS_PAGES + (number - EIGHTHS_REGIONS) * REGION_PAGES_MAX
    }
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

    #[test]
    fn eighths_lie_one_after_another_without_gaps() {
        let mut page = 0;
        for region in 0..(EIGHTHS_REGIONS as usize + 4) {
            assert_eq!(Growth::Eighths.pages_in(region), page);
            let pages = Growth::Eighths.region_pages(region);
            assert!(page < EIGHTHS_FROM || pages <= page / 8, "{pages} pages after {page}");
            for offset in 0..pages {
                assert_eq!(Growth::Eighths.place(page), (region, offset));
                page += 1;
            }
        }
    }
}
