//! Growing by one bucket at a time (Lemon §6, §6.3), and tidying the bucket that was split.
//!
//! With 2^n ≤ N < 2^(n+1) buckets, splitting means: bucket N comes into being and takes from bucket N − 2^n the keys
//! whose hash has bit n set. It goes in three steps:
//!
//! | step | log | if a crash comes after it |
//! |---|---|---|
//! | 1. fill the new bucket, count it in the root page | a nested top action | the split has happened; the old bucket still holds copies, which nobody looks for there |
//! | 2. purge the copies | redo-only, one small record a page | the split is tidy |
//! | 3. fold chained pages into those before them | a nested top action each | as before or after it |
//!
//! So the moved entries are logged once: their copies need no undo, because they are nobody's from the end of
//! step 1 on (S4), and nothing is lost if step 2 never happens. The bucket's next split would drop them.

use cedrat_pages::PageId;
use cedrat_txn::{RecordId, Result, Txn, Undo};

use super::bucket::{self, KeyHash};
use super::header::{BUCKETS_MAX, REGIONS_MAX};
use super::ops::{AddRegion, Append, Fill, Link, Purge, SetBuckets};
use super::packed::Packed;
use super::table::RawHashTable;
use crate::regions::{place, region_pages};

impl RawHashTable {
    /// Splits the bucket at the split pointer. The latch is held exclusively. False if the table is as wide as it can
    /// be.
    pub(super) fn split(&self, txn: &mut Txn) -> Result<bool> {
        let new = self.resident.buckets();
        if new >= BUCKETS_MAX {
            return Ok(false);
        }
        let old = new - (1 << new.ilog2());
        let buckets = new + 1;
        let chain = self.chain(txn, old)?;
        let moved = self.pack(txn, &chain, |hash| hash.bucket(buckets) == new)?;

        let (region, offset) = place(new);
        let known = region < self.resident.region_count();
        debug_assert!(region < REGIONS_MAX, "as many buckets as regions have room for");
        let first = txn.nested((), |txn| {
            let first = if known {
                self.resident.region(region)
            } else {
                let first = txn.allocate_region(region_pages(region))?;
                let add = AddRegion { regions: region as u16 + 1, first: Some(first.get()) };
                txn.update_latched(RecordId::page(self.root), &add)?;
                first
            };
            self.fill(txn, first.after(offset), moved)?;
            txn.update_latched(RecordId::page(self.root), &SetBuckets { buckets })?;
            Ok((first, Undo::none()))
        })?;
        if !known {
            self.resident.add_region(first);
        }
        self.resident.set_buckets(buckets);

        // S4: not a moment earlier.
        for &page in &chain {
            let purge = Purge { root: self.root.get(), bucket: old, buckets };
            txn.update_latched(RecordId::page(page), &purge)?;
        }
        self.fold(txn, chain)?;
        Ok(true)
    }

    /// The entries on these pages whose hash says so, in as few packages as pages are needed, at least one.
    fn pack(&self, txn: &Txn, pages: &[PageId], wanted: impl Fn(KeyHash) -> bool) -> Result<Vec<Packed>> {
        let mut packages = vec![Packed::default()];
        for &page in pages {
            self.look(txn, page, |page| {
                for entry in bucket::entries(page.body())? {
                    let (key, value) = entry?;
                    if !wanted(KeyHash::of(key, self.seed)) {
                        continue;
                    }
                    if !packages.last().expect("at least one").has_room(key, value) {
                        packages.push(Packed::default());
                    }
                    packages.last_mut().expect("at least one").push(key, value);
                }
                Ok(())
            })?;
        }
        Ok(packages)
    }

    /// Makes `first` the first page of a bucket with these entries, and allocates what pages it needs beyond.
    fn fill(&self, txn: &mut Txn, first: PageId, packages: Vec<Packed>) -> Result<()> {
        let root = self.root.get();
        let mut next = 0;
        let overflow = packages.len() - 1;
        for (n, package) in packages.into_iter().rev().enumerate() {
            let page = if n == overflow { first } else { txn.allocate()? };
            let fill = Fill { root, seed: self.seed, next, entries: package.into_bytes().into() };
            txn.update_latched(RecordId::page(page), &fill)?;
            next = page.get();
        }
        Ok(())
    }

    /// Moves the entries of chained pages to the pages before them, where they fit, and gives the emptied pages back.
    fn fold(&self, txn: &mut Txn, chain: Vec<PageId>) -> Result<()> {
        let root = self.root.get();
        let mut chain = chain.into_iter();
        let mut into = chain.next().expect("a bucket has a page");
        for page in chain {
            let mut packages = self.pack(txn, &[page], |_| true)?;
            let package = packages.pop().filter(|_| packages.is_empty());
            let fits = match &package {
                Some(package) => {
                    self.look(txn, into, |into| bucket::has_room_for(into, package.count(), package.len()))?
                }
                None => false,
            };
            let (Some(package), true) = (package, fits) else {
                into = page;
                continue;
            };
            let next = self.look(txn, page, |page| bucket::next(page))?;
            txn.nested((), |txn| {
                if package.count() > 0 {
                    let append = Append { root, entries: package.into_bytes().into() };
                    txn.update_latched(RecordId::page(into), &append)?;
                }
                txn.update_latched(RecordId::page(into), &Link { root, next })?;
                txn.free(page)?;
                Ok(((), Undo::none()))
            })?;
        }
        Ok(())
    }
}
