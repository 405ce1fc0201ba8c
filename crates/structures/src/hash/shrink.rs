//! When a table shrinks: measured and done at checkpoints, in parts of some milliseconds.
//!
//! A table halves its number of buckets if the overflow pages would then be a quarter of those from which on it grows. Once it
//! shrinks, it goes on to seven eighths of those, so that a table which has lost most entries becomes as dense as one that was never
//! larger. So the number of entries must fall by a quarter, or rise by a tenth at least, before buckets merge, or split, again.
//!
//! The measure is taken from some of the buckets. Nothing depends on it but the number of pages.

use std::ops::Range;

use cedrat_pages::{ExclusiveStructure, PageId};
use cedrat_sync::Arc;
use cedrat_txn::{Commit, Result, Store, Txn, Upkeep, UpkeepProgress};

use super::bucket::{self, KeyHash, Space};
use super::resident::{Resident, Shrinking};
use super::table::RawHashTable;
use super::write::{OverflowLimit, lacks_space};

/// Number of buckets, after the merges, that are measured.
const BUCKETS_MEASURED: u64 = 256;

/// Number of buckets merged under one latch, and of chains folded.
const MERGES_AT_ONCE: u64 = 16;

/// Number of buckets that are read to find chains to fold.
const BUCKETS_READ: u64 = 64;

/// The part of the overflow pages from which on a table grows, in eighths, up to which buckets merge.
const BEGINS_BELOW: u64 = 2;
/// The same, for a table that shrinks already.
const ENDS_ABOVE: u64 = 7;

/// Part of the pages that folding must free.
const FOLDED_PART: u64 = 8;

/// The pages of some of the buckets.
#[derive(Debug, Default)]
struct Measure {
    /// Number of buckets after the merges, of those that were read.
    buckets: u64,
    /// Number of pages that they would have, and of those that they and their partners have now.
    pages_merged: u64,
    pages: u64,
    /// Number of pages that folding alone would free.
    foldable: u64,
    entries: u64,
    /// Length of all entries.
    bytes: u64,
}

/// The pages that entries need, if they are assigned in order to the first with space.
#[derive(Debug, Default)]
struct Needed(Vec<Space>);

impl Needed {
    fn add(&mut self, key_len: usize, value_len: usize) {
        if !self.0.iter_mut().any(|space| space.take(key_len, value_len)) {
            let mut space = Space::EMPTY;
            space.take(key_len, value_len);
            self.0.push(space);
        }
    }

    fn pages(&self) -> u64 {
        self.0.len().max(1) as u64
    }
}

impl Upkeep for Resident {
    fn upkeep(self: Arc<Self>, store: &Store, root: PageId) -> Result<UpkeepProgress> {
        let seed = self.identity();
        if seed == 0 {
            return Ok(UpkeepProgress::Done);
        }
        let table = RawHashTable { root, seed, opening: store.opening(), resident: self };
        match table.shrink(store) {
            Err(error) if lacks_space(&error) => Ok(UpkeepProgress::Done),
            shrunk => shrunk,
        }
    }
}

impl RawHashTable {
    /// Does the next part of the work.
    pub(super) fn shrink(&self, store: &Store) -> Result<UpkeepProgress> {
        match self.resident.shrinking() {
            Shrinking::Not if !self.resident.take_thinned() => Ok(UpkeepProgress::Done),
            Shrinking::Not => self.decide(store, BEGINS_BELOW),
            Shrinking::Merging { to, .. } if self.resident.buckets() <= to => self.decide(store, ENDS_ABOVE),
            Shrinking::Merging { to, overflow_max } => self.merge_some(store, to, overflow_max),
            Shrinking::Folding { next } => self.fold_some(store, next),
        }
    }

    /// Measures the table, and decides what to do: `eighths` of the overflow pages from which on it grows allow merges.
    fn decide(&self, store: &Store, eighths: u64) -> Result<UpkeepProgress> {
        let txn = store.begin();
        let buckets = self.resident.buckets();
        let to = halved(buckets);
        let Some(measure) = self.measure(&txn, buckets, to)? else {
            self.resident.note_thinned(); // it grows: the next checkpoint measures again
            self.resident.set_shrinking(Shrinking::Not);
            return Ok(UpkeepProgress::Done);
        };
        let entry_len = measure.bytes / measure.entries.max(1);
        let limit = OverflowLimit::for_len(entry_len as usize).pages(to);
        let overflow = (measure.pages_merged - measure.buckets) * to / measure.buckets;
        let shrinking = if buckets > 1 && overflow * 8 <= limit * eighths {
            // Until they are folded, the chains may have more pages.
            Shrinking::Merging { to, overflow_max: limit.max(self.overflow_now(&txn)?) }
        } else if measure.foldable * FOLDED_PART > measure.pages {
            Shrinking::Folding { next: 0 }
        } else {
            Shrinking::Not
        };
        self.resident.set_shrinking(shrinking);
        Ok(if shrinking == Shrinking::Not { UpkeepProgress::Done } else { UpkeepProgress::More })
    }

    fn overflow_now(&self, txn: &Txn) -> Result<u64> {
        let _shape = self.resident.latch.shared();
        self.check_alive(txn)?;
        self.overflow_pages(txn)
    }

    /// Measures some of the buckets; `None` if their number is not `buckets` any more.
    fn measure(&self, txn: &Txn, buckets: u64, to: u64) -> Result<Option<Measure>> {
        let mut measure = Measure { buckets: to.min(BUCKETS_MEASURED), ..Measure::default() };
        for n in 0..measure.buckets {
            let bucket = n * to / measure.buckets;
            let _shape = self.resident.latch.shared();
            self.check_alive(txn)?;
            if self.resident.buckets() != buckets {
                return Ok(None);
            }
            let mut merged = Needed::default();
            for member in [bucket, bucket + to].into_iter().filter(|&member| member < buckets) {
                let mut needed = Needed::default();
                let pages = self.entry_lens(txn, member, |key_len, value_len| {
                    needed.add(key_len, value_len);
                    merged.add(key_len, value_len);
                    measure.entries += 1;
                    measure.bytes += bucket::entry_len(key_len, value_len) as u64;
                })?;
                measure.pages += pages;
                measure.foldable += pages.saturating_sub(needed.pages());
            }
            measure.pages_merged += merged.pages();
        }
        Ok(Some(measure))
    }

    /// Calls `each` with the lengths of each entry of a bucket, and returns its number of pages. The latch is held.
    fn entry_lens(&self, txn: &Txn, bucket: u64, mut each: impl FnMut(usize, usize)) -> Result<u64> {
        let buckets = self.resident.buckets();
        let chain = self.chain_seen(txn, bucket, |_, page| {
            for entry in bucket::entries(page.body())? {
                let (key, value) = entry?;
                if KeyHash::of(key, self.seed).bucket(buckets) == bucket {
                    each(key.len(), value.len());
                }
            }
            Ok(())
        })?;
        Ok(chain.len() as u64)
    }

    /// Returns the latch, unless the table is in such use that another thread waits for it already.
    fn latch_to_shrink(&self, txn: &Txn) -> Result<Option<ExclusiveStructure<'_>>> {
        let latch = &self.resident.latch;
        let shape = latch.try_exclusive().or_else(|| latch.exclusive_unless_closed());
        if shape.is_some() {
            self.check_alive(txn)?;
        }
        Ok(shape)
    }

    /// Merges some buckets.
    fn merge_some(&self, store: &Store, to: u64, overflow_max: u64) -> Result<UpkeepProgress> {
        let mut txn = store.begin();
        let before = self.resident.buckets();
        let Some(shape) = self.latch_to_shrink(&txn)? else { return Ok(UpkeepProgress::Done) };
        if self.resident.shrinking() != (Shrinking::Merging { to, overflow_max }) {
            return Ok(UpkeepProgress::Done); // the table has begun to grow before this thread had the latch (S10c)
        }
        let settled = store.settled();
        for _ in 0..MERGES_AT_ONCE.min(self.resident.buckets().saturating_sub(to)) {
            if self.overflow_pages(&txn)? > overflow_max {
                self.resident.set_shrinking(Shrinking::Not);
                break;
            }
            if !self.merge(&mut txn, settled)? {
                break; // the next checkpoint goes on
            }
        }
        let has_merged = self.resident.buckets() < before;
        drop(shape);
        txn.commit(Commit::NoFlush)?;
        Ok(if has_merged { UpkeepProgress::More } else { UpkeepProgress::Done })
    }

    /// Folds the chains of some buckets from bucket `next` on.
    fn fold_some(&self, store: &Store, next: u64) -> Result<UpkeepProgress> {
        let mut txn = store.begin();
        let end = self.resident.buckets().min(next + BUCKETS_READ);
        let found = self.foldable(&txn, next..end)?;
        for some in found.chunks(MERGES_AT_ONCE as usize) {
            let Some(_shape) = self.latch_to_shrink(&txn)? else { return Ok(UpkeepProgress::Done) };
            let settled = store.settled();
            for &bucket in some.iter().filter(|&&bucket| bucket < self.resident.buckets()) {
                if !self.fold_settled(&mut txn, bucket, settled)? {
                    self.resident.note_thinned(); // another time
                }
            }
        }
        txn.commit(Commit::NoFlush)?;
        let is_last = end >= self.resident.buckets();
        self.resident.set_shrinking(if is_last { Shrinking::Not } else { Shrinking::Folding { next: end } });
        // At the end no more, though some may have been left: they are read again at the next checkpoint.
        Ok(if is_last { UpkeepProgress::Done } else { UpkeepProgress::More })
    }

    /// Returns those of these buckets whose entries need fewer pages than they have.
    fn foldable(&self, txn: &Txn, buckets: Range<u64>) -> Result<Vec<u64>> {
        let _shape = self.resident.latch.shared();
        self.check_alive(txn)?;
        let mut foldable = Vec::new();
        for bucket in buckets.start..buckets.end.min(self.resident.buckets()) {
            let mut needed = Needed::default();
            let pages = self.entry_lens(txn, bucket, |key_len, value_len| needed.add(key_len, value_len))?;
            if pages > needed.pages() {
                foldable.push(bucket);
            }
        }
        Ok(foldable)
    }
}

/// Returns the greatest power of two below this number of buckets, or one.
fn halved(buckets: u64) -> u64 {
    if buckets < 2 { 1 } else { 1 << (buckets - 1).ilog2() }
}

#[cfg(test)]
mod tests {
    use cedrat_media::SimDisk;
    use cedrat_txn::{NoLocks, Options, Registry};

    use super::*;

    /// A load that removes and inserts as many entries between the parts of the work: buckets do not split as fast as they merge
    /// (S10c).
    #[test]
    fn merges_end_beside_steady_load() {
        for factor in [5, 9] {
            let options = Options { locks: Arc::new(NoLocks), log_limit_bytes: 64 << 20, ..Options::simulated() };
            let store = Store::open(Arc::new(SimDisk::new()), options, Registry::new().with(crate::register)).unwrap();
            let table = store.transact(RawHashTable::create).unwrap();
            let live = 1_200_u64;
            let each = |keys: Range<u64>, change: &dyn Fn(&mut Txn, &[u8]) -> Result<bool>| {
                for first in keys.clone().step_by(100) {
                    let mut some = first..keys.end.min(first + 100);
                    let changed =
                        store.transact(|txn| some.try_for_each(|key| change(txn, &key.to_le_bytes()).map(drop)));
                    changed.unwrap();
                }
            };
            let put = |txn: &mut Txn, key: &[u8]| table.put(txn, key, &[1; 200]);
            let remove = |txn: &mut Txn, key: &[u8]| table.remove(txn, key);
            each(0..live * factor, &put);
            each(0..live * (factor - 1), &remove);
            let before = table.resident.buckets();
            let (mut parts, mut merged) = (0, 0);
            let mut first = live * (factor - 1);
            loop {
                let buckets = table.resident.buckets();
                let kept = table.shrink(&store).unwrap();
                merged += buckets - table.resident.buckets().min(buckets);
                if kept == UpkeepProgress::Done {
                    break;
                }
                for _ in 0..4 {
                    each(first..first + 100, &remove);
                    each(first + live..first + live + 100, &put);
                    first += 100;
                }
                parts += 1;
                assert!(merged <= 2 * before, "S10c: {merged} merges of {before} buckets in {parts} parts");
            }
            let checked = table.check(&store.begin()).unwrap();
            checked.expect_sound();
            assert_eq!(checked.elements, live);
        }
    }
}
