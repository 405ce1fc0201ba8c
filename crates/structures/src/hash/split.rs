//! Growth by one bucket at a time (Lemon §6, §6.3), and cleanup of the bucket that was split.
//!
//! With 2^n ≤ N < 2^(n+1) buckets, a split creates bucket N, and moves to it the keys of bucket N − 2^n whose hash has
//! bit n set. It has three steps:
//!
//! | step | log | if a crash follows it |
//! |---|---|---|
//! | 1. fill the new bucket, count it in the root page | a nested top action | the split has happened; the old bucket still contains copies, which no lookup reads there |
//! | 2. purge the copies | redo-only, one small record a page | the copies are gone |
//! | 3. fold chained pages into the others | a nested top action each | as before or after it |
//!
//! So the moved entries are logged once: the old copies need no undo, because no lookup reads them from the end of step
//! 1 on (S4), and nothing is lost if step 2 never happens. The bucket's next split would drop them.

use cedrat_pages::PageId;
use cedrat_sync::planted;
use cedrat_txn::{Operation, RecordId, Result, Txn, Undo};

use super::bucket::{self, KeyHash};
use super::header::{REGIONS_MAX, buckets_max};
use super::ops::{AddRegion, Fill, SetBuckets, UNDO_OF_GROWTH_LOG_BYTES};
use super::packed::Packed;
use super::table::RawHashTable;

impl RawHashTable {
    /// Splits the bucket at the split pointer. The latch is held exclusively. Returns `false` if the table has the
    /// maximum number of buckets.
    pub(super) fn split(&self, txn: &mut Txn) -> Result<bool> {
        self.split_watched(txn, &mut |_| ())
    }

    /// As [`split`](RawHashTable::split); calls `watch` after each step, for tests that cut the power there.
    pub(super) fn split_watched(&self, txn: &mut Txn, watch: Watch<'_>) -> Result<bool> {
        let new = self.resident.buckets();
        let growth = self.resident.growth();
        if new >= buckets_max(growth) {
            return Ok(false);
        }
        let old = new - (1 << new.ilog2());
        let buckets = new + 1;
        let chain = self.chain(txn, old)?;
        let moved = self.pack(txn, &chain, |hash| hash.bucket(buckets) == new && !planted!("split_moves_nothing"))?;
        let overflow = moved.len() as i64 - 1;

        let (region, offset) = growth.place(new);
        let known = region < self.resident.region_count();
        debug_assert!(region < REGIONS_MAX, "as many buckets as regions have room for");
        let first = txn.nested((), |txn| {
            let first = if known {
                self.resident.region(region)
            } else {
                let first = txn.allocate_region(growth.region_pages(region))?;
                let add = AddRegion { regions: region as u16 + 1, first: Some(first.get()) };
                step(txn, watch, self.root, &add)?;
                first
            };
            self.fill(txn, watch, first.after(offset), moved)?;
            step(txn, watch, self.root, &SetBuckets { buckets })?;
            if planted!("purged_within_split") {
                self.purge(txn, watch, &chain, old, buckets)?;
            }
            // Undone page by page until here, and by the undo of the creation from here on.
            let grown = overflow as u32 + u32::from(!known);
            Ok((first, Undo::none_with_space(grown * UNDO_OF_GROWTH_LOG_BYTES)))
        })?;
        if !known {
            self.resident.add_region(first);
        }
        self.resident.set_buckets(buckets);
        self.resident.overflow_changed(overflow);

        // S4: not earlier.
        self.purge(txn, watch, &chain, old, buckets)?;
        self.fold(txn, watch, chain)?;
        Ok(true)
    }

    /// Packs the entries on these pages whose hash is `wanted`, into as few packages as pages are needed, at least one.
    fn pack(&self, txn: &Txn, pages: &[PageId], wanted: impl Fn(KeyHash) -> bool) -> Result<Vec<Packed>> {
        let mut packages = vec![Packed::default()];
        for &page in pages {
            self.look(txn, page, |page| {
                for entry in bucket::entries(page.body())? {
                    let (key, value) = entry?;
                    if !wanted(KeyHash::of(key, self.seed)) {
                        continue;
                    }
                    if !packages.last().expect("at least one").has_space(key, value) {
                        packages.push(Packed::default());
                    }
                    packages.last_mut().expect("at least one").push(key, value);
                }
                Ok(())
            })?;
        }
        Ok(packages)
    }

    /// Formats `first` as the first page of a bucket with these entries, and allocates the overflow pages.
    fn fill(&self, txn: &mut Txn, watch: Watch<'_>, first: PageId, packages: Vec<Packed>) -> Result<()> {
        let root = self.root.get();
        let mut next = 0;
        let overflow = packages.len() - 1;
        for (n, package) in packages.into_iter().rev().enumerate() {
            let page = if n == overflow { first } else { txn.allocate()? };
            let fill = Fill { root, seed: self.seed, next, entries: package.into_bytes().into() };
            step(txn, watch, page, &fill)?;
            next = page.get();
        }
        Ok(())
    }
}

/// A function that is called after each step: tests cut the power there.
pub(super) type Watch<'w> = &'w mut dyn FnMut(&Txn);

/// Makes one change of one page of a split, a merge or a fold.
pub(super) fn step<O: Operation>(txn: &mut Txn, watch: Watch<'_>, page: PageId, operation: &O) -> Result<()> {
    txn.update_latched(RecordId::page(page), operation)?;
    watch(txn);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use cedrat_media::{Media, SimDisk};
    use cedrat_sync::Arc;
    use cedrat_txn::{NoLocks, Options, Registry, Store};

    use super::super::ops::{FoundDoubling, Insert};
    use super::*;
    use crate::regions::Growth;

    fn open(disk: &Arc<SimDisk>) -> Store {
        let media: Arc<dyn Media> = Arc::clone(disk) as Arc<dyn Media>;
        let options = Options { locks: Arc::new(NoLocks), log_limit_bytes: 64 << 20, ..Options::simulated() };
        Store::open(media, options, Registry::new().with(crate::register)).unwrap()
    }

    /// Inserts without splitting, so that chains grow.
    fn put(table: &RawHashTable, txn: &mut Txn, key: u32, value: &[u8]) {
        let hash = KeyHash::of(&key.to_le_bytes(), table.seed);
        let key = key.to_le_bytes();
        let insert = Insert {
            root: table.root.get(),
            key: key[..].into(),
            value: value.into(),
            hash: Some(hash),
            chain_known: true,
        };
        let _shape = table.resident.latch.exclusive();
        table.put_anywhere(txn, &insert, hash, 0).unwrap();
    }

    /// A table whose regions double, from an older store, grows, is found sound after a crash, and gives back every page.
    #[test]
    fn table_with_doubling_regions_still_works() {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk);
        let made = store.transact(|txn| {
            let root = txn.allocate()?;
            let first = txn.allocate_region(1)?;
            let fill = Fill { root: root.get(), seed: 5, next: 0, entries: Vec::new().into() };
            txn.update_latched(RecordId::page(first), &fill)?;
            let found = FoundDoubling { seed: 5, bucket: first.get() };
            txn.update_latched(RecordId::page(root), &found)?;
            Ok(root)
        });
        let root = made.unwrap();
        let fill_up = |store: &Store, keys: std::ops::Range<u32>| {
            let filled = store.transact(|txn| {
                let table = RawHashTable::open(txn.store(), root)?;
                keys.clone().try_for_each(|key| table.put(txn, &key.to_le_bytes(), &[1; 500]).map(drop))
            });
            filled.unwrap();
        };
        fill_up(&store, 0..400);
        store.log().force(store.log().current_lsn()).unwrap();
        let store = open(&Arc::new(SimDisk::from_image(disk.image())));
        fill_up(&store, 400..1000);
        let dropped = store.transact(|txn| {
            let table = RawHashTable::open(txn.store(), root)?;
            let checked = table.check(txn)?;
            assert!(checked.is_sound(), "{:?}", checked.problems);
            assert_eq!(checked.elements, 1000);
            let reached: BTreeSet<PageId> = checked.pages.into_iter().collect();
            assert_eq!(reached, store.pages_in_use()?.into_iter().collect(), "the check reaches every page");
            assert_eq!(table.resident.growth(), Growth::Doubling);
            let regions = table.resident.region_count();
            assert_eq!(regions, Growth::Doubling.place(table.resident.buckets() - 1).0 + 1);
            table.drop(txn)
        });
        dropped.unwrap();
        let left = store.transact(RawHashTable::create).unwrap();
        assert!(store.check().unwrap().pages_allocated < 10, "{left:?}");
    }

    /// A crash after any step of any split, with any chains, loses no committed entry, keeps no uncommitted one, and
    /// leaves a sound table that can be split further (S1, S3, S4).
    #[test]
    fn crash_between_split_steps_is_survived() {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk);
        let mut committed = BTreeMap::new();
        let table = store
            .transact(|txn| {
                let table = RawHashTable::create(txn)?;
                for key in 0..60_u32 {
                    let value = vec![key as u8; 150 + (key as usize * 67) % 500];
                    put(&table, txn, key, &value);
                    committed.insert(key, value);
                }
                Ok(table)
            })
            .unwrap();

        let mut images = Vec::new();
        let mut txn = store.begin();
        for round in 0..12_u32 {
            // Uncommitted entries are moved together with the others.
            for key in 0..3 {
                put(&table, &mut txn, 1000 + 3 * round + key, &[1; 200]);
            }
            let _shape = table.resident.latch.exclusive();
            let mut watch = |txn: &Txn| {
                txn.store().log().force(txn.store().log().current_lsn()).unwrap();
                images.push(disk.image());
            };
            assert!(table.split_watched(&mut txn, &mut watch).unwrap());
        }
        txn.rollback().unwrap();
        store.log().force(store.log().current_lsn()).unwrap();
        images.push(disk.image());

        assert!(images.len() > 60, "{} steps", images.len());
        for (n, image) in images.into_iter().enumerate() {
            let store = open(&Arc::new(SimDisk::from_image(image)));
            for _ in 0..2 {
                store
                    .transact(|txn| {
                        let table = RawHashTable::open(txn.store(), table.root)?;
                        let checked = table.check(txn)?;
                        assert!(checked.is_sound(), "step {n}: {:?}", checked.problems);
                        let found: BTreeMap<u32, Vec<u8>> = table
                            .iter(txn)?
                            .map(|pair| pair.map(|(key, value)| (u32::from_le_bytes(key.try_into().unwrap()), value)))
                            .collect::<Result<_>>()?;
                        assert!(found == committed, "step {n}: {:?}", found.keys());
                        let _shape = table.resident.latch.exclusive();
                        table.split(txn).map(|_| ())
                    })
                    .unwrap();
            }
        }
    }
}
