//! Merges: the last bucket goes back into the one that it was split from, the inverse of a split.
//!
//! | step | log | if a crash follows it |
//! |---|---|---|
//! | 1. purge copies of entries from the other bucket (S10) | redo-only, one small record a page | as before it |
//! | 2. fold the chain of the other bucket | a nested top action each | as before or after it |
//! | 3. move the entries there, count one bucket less, free the other pages | a nested top action | the merge has happened |
//! | 4. clear the page of the last bucket, if its region stays | redo-only | a page that no lookup reads has old entries |
//!
//! Merges and folds need that no change of these pages may still have to be undone (S10a). Otherwise the rollback of a
//! transaction that has removed most entries of a table would need the pages that were freed, perhaps on a full disk.

use cedrat_pages::PageId;
use cedrat_sync::planted;
use cedrat_txn::{Result, SettledChanges, Txn, Undo};

use super::bucket::{self, KeyHash, Space};
use super::fold::Plan;
use super::ops::{AddRegion, Fill, Link, SetBuckets, UNDO_OF_GROWTH_LOG_BYTES};
use super::packed::Packed;
use super::split::{Watch, step};
use super::table::RawHashTable;

/// The entries of the last bucket, and where they go.
struct Moves {
    plan: Plan,
    /// The entries for which the other bucket has no space, by new pages.
    added: Vec<Packed>,
}

impl RawHashTable {
    /// Merges the last bucket into the one that it was split from, unless it is the only one. The latch is held exclusively.
    /// Returns `false` if a change of their pages may still have to be undone.
    pub(super) fn merge(&self, txn: &mut Txn, settled: SettledChanges) -> Result<bool> {
        self.merge_watched(txn, settled, &mut |_| ())
    }

    /// As [`merge`](RawHashTable::merge); calls `watch` after each step, for tests that cut the power there.
    pub(super) fn merge_watched(&self, txn: &mut Txn, settled: SettledChanges, watch: Watch<'_>) -> Result<bool> {
        let buckets = self.resident.buckets();
        if buckets < 2 {
            return Ok(false);
        }
        let last = buckets - 1;
        let into = last - (1 << last.ilog2());
        let (Some(source), Some(target)) =
            (self.settled_chain(txn, last, settled)?, self.settled_chain(txn, into, settled)?)
        else {
            return Ok(false);
        };
        if !planted!("merged_into_copies") {
            self.purge_copies(txn, watch, &target, into)?;
        }
        let target = self.fold(txn, watch, target)?;
        let moves = self.plan_merge(txn, &source, &target, last)?;
        let added = moves.added.len() as u32;

        let (region, offset) = self.resident.growth().place(last);
        let frees_region = offset == 0;
        let first = target[0];
        txn.nested((), |txn| {
            self.append_moves(txn, watch, first, moves)?;
            step(txn, watch, self.root, &SetBuckets { buckets: last })?;
            if frees_region {
                step(txn, watch, self.root, &AddRegion { regions: region as u16, first: None })?;
                txn.free_region(source[0], self.resident.growth().region_pages(region))?;
            }
            source[1..].iter().try_for_each(|&page| txn.free(page))?;
            watch(txn);
            Ok(((), Undo::none_with_space(added * UNDO_OF_GROWTH_LOG_BYTES)))
        })?;
        self.resident.set_buckets(last);
        self.resident.overflow_changed(i64::from(added) - (source.len() as i64 - 1));
        if frees_region {
            self.resident.remove_region();
        } else {
            // No key belongs there while there are so many buckets. A tool that reads single pages finds no old entries.
            self.purge(txn, watch, &source[..1], last, last)?;
        }
        Ok(true)
    }

    /// Folds the chain of a bucket, after the copies on it were purged. The latch is held exclusively. Returns `false` if a change of
    /// its pages may still have to be undone.
    pub(super) fn fold_settled(&self, txn: &mut Txn, bucket: u64, settled: SettledChanges) -> Result<bool> {
        let Some(chain) = self.settled_chain(txn, bucket, settled)? else { return Ok(false) };
        self.purge_copies(txn, &mut |_| (), &chain, bucket)?;
        self.fold(txn, &mut |_| (), chain)?;
        Ok(true)
    }

    /// Returns the pages of a bucket, if no change of them has to be undone any more (S10a).
    fn settled_chain(&self, txn: &Txn, bucket: u64, settled: SettledChanges) -> Result<Option<Vec<PageId>>> {
        let mut is_settled = true;
        let chain = self.chain_seen(txn, bucket, |_, page| {
            is_settled &= settled.contains(page);
            Ok(())
        })?;
        Ok(is_settled.then_some(chain))
    }

    /// Plans the move of the entries on the pages of `source` to those of `target`.
    fn plan_merge(&self, txn: &Txn, source: &[PageId], target: &[PageId], last: u64) -> Result<Moves> {
        let buckets = last + 1;
        let mut plan = Plan::default();
        for (&page, space) in target.iter().zip(self.spaces(txn, target)?) {
            plan.page(page, space);
        }
        let mut added: Vec<(Space, Packed)> = Vec::new();
        for &page in source {
            self.look(txn, page, |page| {
                for entry in bucket::entries(page.body())? {
                    let (key, value) = entry?;
                    if KeyHash::of(key, self.seed).bucket(buckets) != last || plan.place(key, value) {
                        continue;
                    }
                    let fits = added.iter_mut().find_map(|(space, package)| {
                        let fits = space.take(key.len(), value.len());
                        fits.then_some(package)
                    });
                    if let Some(package) = fits {
                        package.push(key, value);
                        continue;
                    }
                    let mut space = Space::EMPTY;
                    space.take(key.len(), value.len());
                    added.push((space, Packed::one(key, value)));
                }
                Ok(())
            })?;
        }
        Ok(Moves { plan, added: added.into_iter().map(|(_, package)| package).collect() })
    }

    /// Adds the entries of the last bucket to the other one, and pages as it needs them.
    fn append_moves(&self, txn: &mut Txn, watch: Watch<'_>, first: PageId, moves: Moves) -> Result<()> {
        let root = self.root.get();
        moves.plan.append(self, txn, watch)?;
        let has_added = !moves.added.is_empty();
        let mut next = self.look(txn, first, |page| bucket::next(page))?;
        for package in moves.added {
            let page = txn.allocate()?;
            let fill = Fill { root, seed: self.seed, next, entries: package.into_bytes().into() };
            step(txn, watch, page, &fill)?;
            next = page.get();
        }
        if has_added {
            step(txn, watch, first, &Link { root, next })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cedrat_media::{Image, Loss, Media, SimDisk};
    use cedrat_sync::Arc;
    use cedrat_txn::{Commit, NoLocks, Options, Registry, Store, Vote};

    use super::super::ops::Insert;
    use super::*;

    type Model = BTreeMap<u32, Vec<u8>>;

    fn open(disk: &Arc<SimDisk>) -> Store {
        let media: Arc<dyn Media> = Arc::clone(disk) as Arc<dyn Media>;
        let options = Options { locks: Arc::new(NoLocks), log_limit_bytes: 64 << 20, ..Options::simulated() };
        Store::open(media, options, Registry::new().with(crate::register)).unwrap()
    }

    fn of_image(image: Image) -> Store {
        open(&Arc::new(SimDisk::from_image(image)))
    }

    /// Creates a table of many buckets, some of which have chains, with these entries.
    fn table_of(store: &Store, entries: &Model) -> RawHashTable {
        let made = store.transact(|txn| {
            let table = RawHashTable::create(txn)?;
            entries.iter().try_for_each(|(key, value)| table.put(txn, &key.to_le_bytes(), value).map(drop))?;
            Ok(table)
        });
        made.unwrap()
    }

    fn entries(keys: std::ops::Range<u32>) -> Model {
        keys.map(|key| (key, vec![key as u8; 100 + (key as usize * 67) % 700])).collect()
    }

    /// Merges buckets as long as it is possible. Returns their number then.
    fn merge_all(table: &RawHashTable, store: &Store, watch: Watch<'_>) -> u64 {
        let mut has_merged = true;
        while has_merged {
            let mut txn = store.begin();
            let shape = table.resident.latch.exclusive();
            has_merged = table.merge_watched(&mut txn, store.settled(), watch).unwrap();
            drop(shape);
            txn.commit(Commit::NoFlush).unwrap();
        }
        table.resident.buckets()
    }

    /// Checks the table and returns its entries.
    fn content(table: &RawHashTable, store: &Store) -> Model {
        let mut txn = store.begin();
        table.check(&txn).unwrap().expect_sound();
        let pairs = table.iter(&mut txn).unwrap().map(Result::unwrap);
        pairs.map(|(key, value)| (u32::from_le_bytes(key.try_into().unwrap()), value)).collect()
    }

    /// A crash after any step of any merge, with any chains, loses no entry, restores none, and leaves a sound table that can be
    /// merged further and grow again (S10, S3).
    #[test]
    fn crash_between_merge_steps_is_survived() {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk);
        let mut model = entries(0..120);
        let table = table_of(&store, &model);
        store.transact(|txn| (0..60_u32).try_for_each(|key| table.remove(txn, &key.to_le_bytes()).map(drop))).unwrap();
        model.retain(|&key, _| key >= 60);
        let before = table.resident.buckets();
        assert!(before >= 16, "{before} buckets");
        let mut images = Vec::new();
        let mut watch = |txn: &Txn| {
            txn.store().log().force(txn.store().log().current_lsn()).unwrap();
            images.push(disk.image());
        };
        let left = merge_all(&table, &store, &mut watch);
        assert_eq!((left, content(&table, &store)), (1, model.clone()), "S10");
        store.log().force(store.log().current_lsn()).unwrap();
        images.push(disk.image());
        assert!(images.len() > 3 * before as usize, "{} steps", images.len());
        for (n, image) in images.into_iter().enumerate() {
            let store = of_image(image);
            let table = RawHashTable::open(&store, table.root).unwrap();
            assert_eq!(content(&table, &store), model, "S10: after step {n}");
            assert_eq!(merge_all(&table, &store, &mut |_| ()), 1);
            assert_eq!(content(&table, &store), model, "S10: merged after step {n}");
            let grown = entries(200..240);
            store
                .transact(|txn| {
                    grown.iter().try_for_each(|(key, value)| table.put(txn, &key.to_le_bytes(), value).map(drop))
                })
                .unwrap();
            assert_eq!(content(&table, &store).len(), model.len() + grown.len());
        }
    }

    /// A crash leaves copies of the entries that a split has moved. They do not come back when the buckets are merged (S10).
    #[test]
    fn merge_restores_no_copy_of_split() {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk);
        let table = store.transact(RawHashTable::create).unwrap();
        let mut images = Vec::new();
        {
            // One bucket with a chain: the pages are purged one after the other.
            let mut txn = store.begin();
            for (key, value) in entries(0..40) {
                let hash = KeyHash::of(&key.to_le_bytes(), table.seed);
                let (root, key, value) = (table.root.get(), key.to_le_bytes()[..].into(), value[..].into());
                let insert = Insert { root, key, value, hash: Some(hash), chain_known: true };
                let _shape = table.resident.latch.exclusive();
                table.put_anywhere(&mut txn, &insert, hash, 0).unwrap();
            }
            txn.commit(Commit::NoFlush).unwrap();
            let mut txn = store.begin();
            let _shape = table.resident.latch.exclusive();
            let mut watch = |txn: &Txn| {
                txn.store().log().force(txn.store().log().current_lsn()).unwrap();
                images.push(disk.image());
            };
            assert!(table.split_watched(&mut txn, &mut watch).unwrap());
        }
        for image in images {
            let store = of_image(image);
            let table = RawHashTable::open(&store, table.root).unwrap();
            let buckets = table.resident.buckets();
            let hash = |key: u32| KeyHash::of(&key.to_le_bytes(), table.seed);
            let gone: Vec<u32> = (0..40).filter(|&key| hash(key).bucket(buckets) == buckets - 1).collect();
            store
                .transact(|txn| gone.iter().try_for_each(|key| table.remove(txn, &key.to_le_bytes()).map(drop)))
                .unwrap();
            assert_eq!(merge_all(&table, &store, &mut |_| ()), 1);
            let left: Vec<u32> = content(&table, &store).into_keys().collect();
            let expected: Vec<u32> = (0..40).filter(|key| !gone.contains(key)).collect();
            assert_eq!(left, expected, "S10");
        }
    }

    /// Buckets with a change that may have to be undone do not merge, whether its transaction is open, prepared, or was found by
    /// recovery and carried forward; they do after its end (S10a).
    #[test]
    fn merge_awaits_end_of_transactions() {
        let disk = Arc::new(SimDisk::new());
        let mut store = open(&disk);
        let mut model = entries(0..120);
        let root = table_of(&store, &model).root;
        let table = RawHashTable::open(&store, root).unwrap();
        let mut open_one = store.begin();
        table.remove(&mut open_one, &7_u32.to_le_bytes()).unwrap();
        let left = merge_all(&table, &store, &mut |_| ());
        assert!(left > 1, "S10a: {left}");
        open_one.rollback().unwrap();
        assert_eq!(content(&table, &store), model);
        assert_eq!(merge_all(&table, &store, &mut |_| ()), 1);
        let put_all = |store: &Store, model: &Model| {
            let table = RawHashTable::open(store, root).unwrap();
            store
                .transact(|txn| {
                    model.iter().try_for_each(|(key, value)| table.put(txn, &key.to_le_bytes(), value).map(drop))
                })
                .unwrap();
        };
        model.append(&mut entries(120..300));
        put_all(&store, &model);

        let table = RawHashTable::open(&store, root).unwrap();
        let mut branch = store.begin();
        for key in [7_u32, 8] {
            table.remove(&mut branch, &key.to_le_bytes()).unwrap();
        }
        let Vote::Prepared(branch) = branch.prepare(b"branch").unwrap() else { panic!("it has changed") };
        let left = merge_all(&table, &store, &mut |_| ());
        assert!(left > 1, "S10a: {left}");
        drop((branch, table));
        // Carried forward: its records are copies now.
        (0..3).for_each(|_| store.checkpoint().unwrap());
        store.log().force(store.log().current_lsn()).unwrap();
        drop(store);
        store = open(&Arc::new(disk.cut_power(Loss::Everything)));
        let table = RawHashTable::open(&store, root).unwrap();
        let before = table.resident.buckets();
        assert_eq!(merge_all(&table, &store, &mut |_| ()), before, "S10a");
        store.prepared(b"branch").unwrap().rollback().unwrap();
        assert_eq!(content(&table, &store), model);
        assert_eq!(merge_all(&table, &store, &mut |_| ()), 1);
        assert_eq!(content(&table, &store), model);
    }

    /// A walk during merges and splits returns each entry that stays exactly once (S10b).
    #[test]
    fn walk_during_merges_misses_nothing() {
        let store = open(&Arc::new(SimDisk::new()));
        let model = entries(0..120);
        let table = table_of(&store, &model);
        for turn in 0..model.len() {
            let mut txn = store.begin();
            let mut seen = Vec::new();
            for (n, pair) in table.iter(&mut txn).unwrap().enumerate() {
                let (key, _) = pair.unwrap();
                seen.push(u32::from_le_bytes(key.try_into().unwrap()));
                let mut other = store.begin();
                let _shape = table.resident.latch.exclusive();
                if n >= turn && n % 3 == 0 {
                    table.merge(&mut other, store.settled()).unwrap();
                } else if n % 5 == 0 {
                    table.split(&mut other).unwrap();
                }
                drop(_shape);
                other.commit(Commit::NoFlush).unwrap();
            }
            seen.sort_unstable();
            assert!(seen.iter().eq(model.keys()), "S10b: {seen:?}");
        }
    }
}
