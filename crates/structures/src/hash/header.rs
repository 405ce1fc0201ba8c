//! The root page of a hash table, and the positions of its buckets.
//!
//! Bucket number n is page number n of the table's [regions](crate::regions); the root page lists their first pages.
//!
//! ```text
//! 0      8         16             18      20        32
//! | seed | buckets | region count | state | 0 … 0 | first page of region 0 | of region 1 | …
//! ```
//!
//! The low byte of the state is 1 while the table exists. The high byte names the lengths of its regions: 1 for eighths,
//! 0 in older tables, whose regions double.

use cedrat_pages::layout::FixedNumber;
use cedrat_pages::{BODY_LEN, PageId};

use crate::bytes::{BytesMut, Corrupt};
use crate::regions::Growth;

mod at {
    pub(super) const SEED: usize = 0;
    pub(super) const BUCKETS: usize = SEED + 8;
    pub(super) const REGION_COUNT: usize = BUCKETS + 8;
    pub(super) const STATE: usize = REGION_COUNT + 2;
    pub(super) const REGIONS: usize = 32;
    const _: () = assert!(STATE + 2 <= REGIONS);
}

/// The numbers of a root page, for tools.
pub(crate) const NUMBERS: &[FixedNumber] = &[
    FixedNumber::new("seed", at::SEED, 8),
    FixedNumber::new("buckets", at::BUCKETS, 8),
    FixedNumber::new("regions", at::REGION_COUNT, 2),
    FixedNumber::new("state", at::STATE, 2),
    FixedNumber::new("first bucket", at::REGIONS, 8),
];

/// Maximum number of regions in a root page.
pub(crate) const REGIONS_MAX: usize = (BODY_LEN - at::REGIONS) / 8;

/// Maximum number of buckets of a table; beyond it, chains grow.
pub(crate) const fn buckets_max(growth: Growth) -> u64 {
    growth.pages_in(REGIONS_MAX)
}

/// Maximum number of buckets of any table.
pub(crate) const BUCKETS_MAX: u64 = buckets_max(Growth::Doubling);
const _: () = assert!(BUCKETS_MAX >= buckets_max(Growth::Eighths));

/// The content of a root page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The seed, chosen at creation. Every key is hashed with it, and every page of the table repeats it.
    pub(crate) seed: u64,
    /// Number of buckets in use.
    pub(crate) buckets: u64,
    /// Whether the table exists; false once it was dropped.
    pub(crate) live: bool,
    /// The lengths of the regions.
    pub(crate) growth: Growth,
    /// First page of each region.
    pub(crate) regions: Vec<u64>,
}

impl Header {
    /// Reads a root page, and refuses invalid ones.
    pub(crate) fn read(body: &[u8]) -> Result<Header, Corrupt> {
        let word = |at: usize| -> Result<u64, Corrupt> {
            let bytes = body.get(at..at + 8).ok_or(Corrupt)?;
            Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
        };
        let small = word(at::REGION_COUNT)?;
        let region_count = usize::from(small as u16);
        let [live, growth] = ((small >> 16) as u16).to_le_bytes();
        let buckets = word(at::BUCKETS)?;
        if region_count == 0 || region_count > REGIONS_MAX || live > 1 {
            return Err(Corrupt);
        }
        let growth = match growth {
            0 => Growth::Doubling,
            1 => Growth::Eighths,
            _ => return Err(Corrupt),
        };
        if buckets == 0 || buckets > BUCKETS_MAX || growth.place(buckets - 1).0 >= region_count {
            return Err(Corrupt);
        }
        let regions = (0..region_count).map(|n| word(at::REGIONS + 8 * n)).collect::<Result<_, _>>()?;
        Ok(Header { seed: word(at::SEED)?, buckets, live: live == 1, growth, regions })
    }

    /// Writes a whole root page to a body of zeros.
    pub(crate) fn write<B: BytesMut + ?Sized>(&self, body: &mut B) -> Result<(), Corrupt> {
        body.put(at::SEED, &self.seed.to_le_bytes())?;
        put_buckets(body, self.buckets)?;
        let growth = match self.growth {
            Growth::Doubling => 0,
            Growth::Eighths => 1,
        };
        body.put(at::STATE, &[u8::from(self.live), growth])?;
        for (n, first) in self.regions.iter().enumerate() {
            put_region(body, n, *first)?;
        }
        put_region_count(body, self.regions.len())
    }

    /// Returns the page of a bucket that the regions cover.
    pub(crate) fn page_of(&self, bucket: u64) -> PageId {
        let (region, offset) = self.growth.place(bucket);
        PageId::new(self.regions[region]).after(offset)
    }
}

/// Sets the number of buckets in use.
pub(crate) fn put_buckets<B: BytesMut + ?Sized>(body: &mut B, buckets: u64) -> Result<(), Corrupt> {
    body.put(at::BUCKETS, &buckets.to_le_bytes())
}

/// Sets whether the table exists.
pub(crate) fn put_live<B: BytesMut + ?Sized>(body: &mut B, live: bool) -> Result<(), Corrupt> {
    body.put(at::STATE, &[u8::from(live)])
}

/// Sets the number of regions.
pub(crate) fn put_region_count<B: BytesMut + ?Sized>(body: &mut B, count: usize) -> Result<(), Corrupt> {
    body.put(at::REGION_COUNT, &(count as u16).to_le_bytes())
}

/// Sets the first page of a region.
pub(crate) fn put_region<B: BytesMut + ?Sized>(body: &mut B, region: usize, first: u64) -> Result<(), Corrupt> {
    body.put(at::REGIONS + 8 * region, &first.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_header_reads_back_invalid_is_refused() {
        let mut body = vec![0; BODY_LEN];
        for growth in [Growth::Doubling, Growth::Eighths] {
            let header = Header { seed: 9, buckets: 3, live: true, growth, regions: vec![5, 9, 11] };
            header.write(&mut body[..]).unwrap();
            assert_eq!(Header::read(&body), Ok(header.clone()));
            put_live(&mut body[..], false).unwrap();
            assert_eq!(Header::read(&body), Ok(Header { live: false, ..header }));
        }
        put_region_count(&mut body[..], 2).unwrap();
        assert_eq!(Header::read(&body), Err(Corrupt), "bucket 2 lies in region 2");
        put_region_count(&mut body[..], REGIONS_MAX + 1).unwrap();
        assert_eq!(Header::read(&body), Err(Corrupt));
        assert_eq!(Header::read(&vec![0; BODY_LEN]), Err(Corrupt), "a page never written");
    }
}
