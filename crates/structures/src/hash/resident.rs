//! The state of an open hash table in memory: its latch, and a copy of its root page.

use cedrat_pages::{LatchRank, PageId, PageRef, PartLatch, StructureLatch};
use cedrat_sync::Mutex;
use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cedrat_txn::{Result, Store};

use super::bucket::KeyHash;
use super::header::{Header, REGIONS_MAX};
use crate::error::{StructureError, damaged};
use crate::kinds;
use crate::regions::Growth;

/// The rank of the latches of all hash tables: no thread holds two.
const RANK: LatchRank = LatchRank(100);

/// The rank of the latches over chains: taken under the table's latch, one at a time.
const CHAIN_RANK: LatchRank = LatchRank(101);

/// Number of latches that all chains share. Half of the buckets may have chains, and with more threads than processors
/// a holder may have lost its processor: threads that wait for it hold up splits, because they hold the table's latch.
const CHAIN_LATCHES: usize = 64;

/// The root page in memory, one for each table and open store.
///
/// The numbers are atomic because readers without a latch read them. They are written only under the exclusive latch,
/// so a thread that holds it shared, or finds its stamp unchanged, has seen a consistent state.
#[derive(Debug)]
pub(super) struct Resident {
    pub(super) latch: StructureLatch,
    /// Held by a thread that changes entries of a bucket with several pages under the table's shared latch (S2).
    chains: Box<[PartLatch]>,
    /// The seed of the table with this root; zero if there is none.
    identity: AtomicU64,
    buckets: AtomicU64,
    regions: Box<[AtomicU64]>,
    region_count: AtomicU64,
    /// Whether the regions are eighths.
    eighths: AtomicBool,
    /// Number of splits that were postponed because the latch was not free. They may be lost in a crash.
    splits_owed: AtomicU64,
    /// Whether entries were removed, or replaced, since the table was last measured.
    was_thinned: AtomicBool,
    shrinking: Mutex<Shrinking>,
    /// Number of overflow pages; [`UNKNOWN`] until it is needed. Nothing depends on it but when buckets split.
    overflow_pages: AtomicU64,
}

/// The work that lets a table with few entries take fewer pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shrinking {
    /// Nothing.
    Not,
    /// Buckets are merged until there are `to`, as long as there are at most `overflow_max` overflow pages. The table does not grow
    /// before there are more (S10c).
    Merging { to: u64, overflow_max: u64 },
    /// The chains of buckets are folded; those of the buckets before `next` were.
    Folding { next: u64 },
}

/// The number of overflow pages of a table of which none was needed yet.
const UNKNOWN: u64 = u64::MAX;

impl Resident {
    /// Creates the resident state of the table with the root page `page`.
    pub(super) fn load(store: &Store, page: &PageRef<'_>) -> Result<Resident> {
        let resident = Resident {
            latch: StructureLatch::new(RANK),
            chains: (0..CHAIN_LATCHES).map(|_| PartLatch::new(CHAIN_RANK)).collect(),
            identity: AtomicU64::new(0),
            buckets: AtomicU64::new(1),
            regions: (0..REGIONS_MAX).map(|_| AtomicU64::new(0)).collect(),
            region_count: AtomicU64::new(0),
            eighths: AtomicBool::new(true),
            splits_owed: AtomicU64::new(0),
            // Before this opening, perhaps.
            was_thinned: AtomicBool::new(true),
            shrinking: Mutex::new(Shrinking::Not),
            overflow_pages: AtomicU64::new(UNKNOWN),
        };
        resident.set(&read(store, page)?);
        Ok(resident)
    }

    /// Updates the copy from the root page. The caller holds the latch exclusively, or has the only reference to
    /// `self`.
    pub(super) fn set(&self, header: &Header) {
        for (cached, first) in self.regions.iter().zip(&header.regions) {
            cached.store(*first, Ordering::Relaxed);
        }
        self.region_count.store(header.regions.len() as u64, Ordering::Relaxed);
        self.eighths.store(header.growth == Growth::Eighths, Ordering::Relaxed);
        self.buckets.store(header.buckets, Ordering::Relaxed);
        self.overflow_pages.store(UNKNOWN, Ordering::Relaxed);
        self.identity.store(if header.live { header.seed } else { 0 }, Ordering::Relaxed);
    }

    /// Whether the copy matches the root page. The latch is held, so no split comes in between.
    pub(super) fn is_copy_of(&self, header: &Header) -> bool {
        header.live && self.identity() == header.seed && self.buckets() == header.buckets
    }

    /// Marks the table as dropped.
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

    /// Raises the number of postponed splits to at least `splits`.
    pub(super) fn owe_splits(&self, splits: u64) {
        self.splits_owed.fetch_max(splits, Ordering::Relaxed);
    }

    /// Adds to the number of postponed splits.
    pub(super) fn owe_more_splits(&self, splits: u64) {
        self.splits_owed.fetch_add(splits, Ordering::Relaxed);
    }

    pub(super) fn splits_owed(&self) -> u64 {
        self.splits_owed.load(Ordering::Relaxed)
    }

    /// Notes that splits were done, or cannot be done. The latch is held exclusively.
    pub(super) fn splits_done(&self, splits: u64) {
        let owed = self.splits_owed();
        self.splits_owed.fetch_sub(splits.min(owed), Ordering::Relaxed);
    }

    /// Returns the number of overflow pages, if it is known.
    pub(super) fn overflow_pages(&self) -> Option<u64> {
        let pages = self.overflow_pages.load(Ordering::Relaxed);
        (pages != UNKNOWN).then_some(pages)
    }

    pub(super) fn set_overflow_pages(&self, pages: u64) {
        self.overflow_pages.store(pages, Ordering::Relaxed);
    }

    /// Notes that overflow pages were added or freed.
    pub(super) fn overflow_changed(&self, by: i64) {
        let change = |pages: u64| (pages != UNKNOWN).then(|| pages.saturating_add_signed(by));
        let _ = self.overflow_pages.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }

    /// Whether the next bucket's page is allocated already.
    pub(super) fn has_free_bucket(&self) -> bool {
        self.growth().place(self.buckets()).0 < self.region_count()
    }

    pub(super) fn region_count(&self) -> usize {
        self.region_count.load(Ordering::Relaxed) as usize
    }

    #[inline]
    pub(super) fn growth(&self) -> Growth {
        if self.eighths.load(Ordering::Relaxed) { Growth::Eighths } else { Growth::Doubling }
    }

    /// Returns the first page of a region. A reader without a latch may ask for one that no table has, if it saw the
    /// numbers of two tables.
    #[inline]
    pub(super) fn region(&self, number: usize) -> PageId {
        PageId::new(self.regions.get(number).map_or(0, |first| first.load(Ordering::Relaxed)))
    }

    /// Notes that an entry was removed, or replaced by a shorter one perhaps.
    #[inline]
    pub(super) fn note_thinned(&self) {
        if !self.was_thinned.load(Ordering::Relaxed) {
            self.was_thinned.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether that was noted since the last call.
    pub(super) fn take_thinned(&self) -> bool {
        self.was_thinned.swap(false, Ordering::Relaxed)
    }

    pub(super) fn shrinking(&self) -> Shrinking {
        *self.shrinking.lock()
    }

    pub(super) fn set_shrinking(&self, shrinking: Shrinking) {
        *self.shrinking.lock() = shrinking;
    }

    pub(super) fn add_region(&self, first: PageId) {
        let count = self.region_count();
        self.regions[count].store(first.get(), Ordering::Relaxed);
        self.region_count.store(count as u64 + 1, Ordering::Relaxed);
    }

    /// Removes the last region.
    pub(super) fn remove_region(&self) {
        self.region_count.store(self.region_count() as u64 - 1, Ordering::Relaxed);
    }

    /// Returns the first page of a bucket in use.
    #[inline]
    pub(super) fn page_of(&self, bucket: u64) -> PageId {
        let (region, offset) = self.growth().place(bucket);
        self.region(region).after(offset)
    }

    /// Returns the latch of a bucket's chain, for threads that hold the table's latch shared.
    pub(super) fn chain_latch(&self, bucket: u64) -> &PartLatch {
        &self.chains[bucket as usize % CHAIN_LATCHES]
    }

    /// Returns the first page of the bucket to which a key of this hash belongs.
    #[inline]
    pub(super) fn page_for(&self, hash: KeyHash) -> PageId {
        self.page_of(hash.bucket(self.buckets()))
    }
}

/// The expected structure, for the error of a wrong root.
pub(super) const TABLE: &str = "a hash table";

/// Reads the root page of a table.
pub(super) fn read(store: &Store, page: &PageRef<'_>) -> Result<Header> {
    if page.kind() != kinds::HASH_ROOT {
        return Err(StructureError::WrongRoot { page: page.id(), expected: TABLE }.into());
    }
    Header::read(page.body()).map_err(|_| damaged(store, page.id(), "the root of a hash table is corrupt"))
}
