//! What an open hash table keeps in memory: its latch, and a copy of its root page.

use cedrat_pages::{LatchRank, PageId, PageRef, StructureLatch};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_txn::{Result, Store};

use super::bucket::KeyHash;
use super::header::{Header, REGIONS_MAX};
use crate::error::{StructureError, damaged};
use crate::kinds;
use crate::regions::place;

/// The rank of every hash table's latch: no thread holds two.
const RANK: LatchRank = LatchRank(100);

/// The rank of the latches over chains: taken under the table's latch, one at a time.
const CHAIN_RANK: LatchRank = LatchRank(101);

/// Chains share so many latches. Few buckets have chains, so few threads meet; a latch takes two kilobytes.
const CHAIN_LATCHES: usize = 8;

/// The root page in memory, one for each table and open store.
///
/// The numbers are atomic because readers without a latch look at them; they are written only under the exclusive
/// latch, so that whoever holds it shared, or finds its stamp unchanged, has seen one state of them.
#[derive(Debug)]
pub(super) struct Resident {
    pub(super) latch: StructureLatch,
    /// Who changes entries of a bucket with several pages, under the table's latch held shared, holds one of these (S2).
    chains: [StructureLatch; CHAIN_LATCHES],
    /// The seed of the table that lives here; zero if none does.
    identity: AtomicU64,
    buckets: AtomicU64,
    regions: Box<[AtomicU64]>,
    region_count: AtomicU64,
    /// Buckets that should have been split, had somebody been alone with the table. Nobody misses them after a crash.
    splits_owed: AtomicU64,
}

impl Resident {
    /// The table whose root page is `page`.
    pub(super) fn load(store: &Store, page: &PageRef<'_>) -> Result<Resident> {
        let resident = Resident {
            latch: StructureLatch::new(RANK),
            chains: std::array::from_fn(|_| StructureLatch::new(CHAIN_RANK)),
            identity: AtomicU64::new(0),
            buckets: AtomicU64::new(1),
            regions: (0..REGIONS_MAX).map(|_| AtomicU64::new(0)).collect(),
            region_count: AtomicU64::new(0),
            splits_owed: AtomicU64::new(0),
        };
        resident.set(&read(store, page)?);
        Ok(resident)
    }

    /// Makes the copy what the root page says. The caller holds the latch exclusively, or is the only one who knows
    /// `self`.
    pub(super) fn set(&self, header: &Header) {
        for (cached, first) in self.regions.iter().zip(&header.regions) {
            cached.store(*first, Ordering::Relaxed);
        }
        self.region_count.store(header.regions.len() as u64, Ordering::Relaxed);
        self.buckets.store(header.buckets, Ordering::Relaxed);
        self.identity.store(if header.live { header.seed } else { 0 }, Ordering::Relaxed);
    }

    /// Whether the copy is what the root page says. The latch is held, so that no split comes between.
    pub(super) fn is_copy_of(&self, header: &Header) -> bool {
        header.live && self.identity() == header.seed && self.buckets() == header.buckets
    }

    /// Nobody may use the table any more.
    pub(super) fn bury(&self) {
        self.identity.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn identity(&self) -> u64 {
        self.identity.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn buckets(&self) -> u64 {
        self.buckets.load(Ordering::Relaxed)
    }

    pub(super) fn set_buckets(&self, buckets: u64) {
        self.buckets.store(buckets, Ordering::Relaxed);
    }

    /// Notes that so many buckets should be split, together with those owed already.
    pub(super) fn owe_splits(&self, splits: u64) {
        self.splits_owed.fetch_max(splits, Ordering::Relaxed);
    }

    /// Notes that so many more should be.
    pub(super) fn owe_more_splits(&self, splits: u64) {
        self.splits_owed.fetch_add(splits, Ordering::Relaxed);
    }

    pub(super) fn splits_owed(&self) -> u64 {
        self.splits_owed.load(Ordering::Relaxed)
    }

    /// Notes that so many were split, or that it cannot be done. The latch is held exclusively.
    pub(super) fn splits_done(&self, splits: u64) {
        let owed = self.splits_owed();
        self.splits_owed.fetch_sub(splits.min(owed), Ordering::Relaxed);
    }

    pub(super) fn region_count(&self) -> usize {
        self.region_count.load(Ordering::Relaxed) as usize
    }

    pub(super) fn region(&self, number: usize) -> PageId {
        PageId::new(self.regions[number].load(Ordering::Relaxed))
    }

    pub(super) fn add_region(&self, first: PageId) {
        let count = self.region_count();
        self.regions[count].store(first.get(), Ordering::Relaxed);
        self.region_count.store(count as u64 + 1, Ordering::Relaxed);
    }

    /// First page of a bucket in use.
    #[inline]
    pub(super) fn page_of(&self, bucket: u64) -> PageId {
        let (region, offset) = place(bucket);
        self.region(region).after(offset)
    }

    /// The latch over the chain of a bucket, for those who hold the table's latch shared.
    pub(super) fn chain_latch(&self, bucket: u64) -> &StructureLatch {
        &self.chains[bucket as usize % CHAIN_LATCHES]
    }

    /// First page of the bucket where a key of this hash belongs.
    #[inline]
    pub(super) fn page_for(&self, hash: KeyHash) -> PageId {
        self.page_of(hash.bucket(self.buckets()))
    }
}

/// What is expected at its root.
pub(super) const TABLE: &str = "a hash table";

/// Reads the root page of a table.
pub(super) fn read(store: &Store, page: &PageRef<'_>) -> Result<Header> {
    if page.kind() != kinds::HASH_ROOT {
        return Err(StructureError::WrongRoot { page: page.id(), expected: TABLE }.into());
    }
    Header::read(page.body()).map_err(|_| damaged(store, page.id(), "the root of a hash table makes no sense"))
}
