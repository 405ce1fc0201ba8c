//! Operations on a whole table: iterating, checking, dropping.

use std::cmp::Reverse;
use std::collections::HashSet;

use cedrat_pages::PageId;
use cedrat_sync::planted;
use cedrat_txn::locks::{LockMode, Resource};
use cedrat_txn::{GROUP_PAGES, LogicalUndo, RecordId, Result, SCATTERED_LOG_BYTES, SCATTERED_PAGES, Txn};

use super::bucket::{self, KeyHash};
use super::ops::{SetLive, Unfound};
use super::resident;
use super::table::RawHashTable;
use crate::checked::Checked;
use crate::regions::REGION_PAGES_MAX;

/// Maximum log space in which the undo of a creation frees overflow pages: what it declares, without the regions.
const UNDO_FREES_LOG_BYTES: u64 = <Unfound as LogicalUndo>::LOG_BYTES_MAX as u64 - 600 * FREE_LOG_BYTES;

/// Maximum log space of the record that frees contiguous pages.
const FREE_LOG_BYTES: u64 = 40;

/// Number of contiguous pages that are worth a record of their own.
const LONG_RUN_PAGES: u64 = SCATTERED_PAGES / 4;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

impl RawHashTable {
    /// Iterates over all entries, in no particular order.
    ///
    /// The table is locked shared to the end of the transaction, so the walk sees one state of it. (With a lock manager
    /// that does not lock, an entry that stays during the walk is nevertheless seen exactly once.)
    ///
    /// # Errors
    /// [`cedrat_txn::Error::Deadlock`] from the lock on the table.
    pub fn iter<'t>(&self, txn: &'t mut Txn) -> Result<Entries<'t>> {
        txn.store().check_opening(self.opening)?; // S7
        txn.lock(Resource::Structure(self.root), LockMode::Shared)?;
        let buckets = {
            let _shape = self.resident.latch.shared();
            self.check_alive(txn)?;
            self.resident.buckets()
        };
        Ok(Entries { table: self.clone(), txn, buckets, next: 0, entries: Vec::new().into_iter() })
    }

    /// Returns the number of entries, by a walk over the table.
    ///
    /// # Errors
    /// As [`iter`](RawHashTable::iter).
    pub fn len(&self, txn: &mut Txn) -> Result<u64> {
        let mut len = 0;
        for entry in self.iter(txn)? {
            entry?;
            len += 1;
        }
        Ok(len)
    }

    /// Whether the table has no entries.
    ///
    /// # Errors
    /// As [`iter`](RawHashTable::iter).
    pub fn is_empty(&self, txn: &mut Txn) -> Result<bool> {
        Ok(self.iter(txn)?.next().transpose()?.is_none())
    }

    /// Frees the table's pages. Other handles get an error from then on.
    ///
    /// The table is locked exclusively to the end of the transaction, which isolates the change of many pages.
    ///
    /// # Errors
    /// [`cedrat_txn::Error::Deadlock`] from the lock on the table.
    pub fn drop(self, txn: &mut Txn) -> Result<()> {
        txn.store().check_opening(self.opening)?; // S7
        txn.isolated(self.root, |txn| self.give_back(txn))
    }

    pub(super) fn give_back(&self, txn: &mut Txn) -> Result<()> {
        let _shape = self.resident.latch.exclusive();
        let header = resident::read(txn.store(), &*txn.read_latched(self.root)?)?;
        let mut overflow = Vec::new();
        for bucket in 0..header.buckets {
            overflow.extend_from_slice(&self.chain(txn, bucket)?[1..]);
        }
        // The log space of undo is bounded (E16.1): rather than exceed it, the undo of a creation leaks overflow pages
        // that lie in very many places, because other transactions allocated pages between them.
        let mut left = if txn.is_undoing() { UNDO_FREES_LOG_BYTES } else { u64::MAX };
        for part in parts(overflow) {
            if left < part.log_bytes() {
                continue;
            }
            left -= part.log_bytes();
            match part {
                Part::Run(first, pages) => txn.free_region(first, pages)?,
                Part::Scattered(pages) => txn.free_scattered(&pages)?,
            }
        }
        for (number, first) in header.regions.iter().enumerate() {
            txn.free_region(PageId::new(*first), header.growth.region_pages(number))?;
        }
        txn.update_latched(RecordId::page(self.root), &SetLive { live: false })?;
        txn.free(self.root)?;
        self.resident.bury();
        Ok(())
    }

    /// Walks the table and verifies it: every page belongs to it, every key to its bucket, and no key exists twice.
    ///
    /// Meant for a table without concurrent changes; buckets do not split meanwhile.
    ///
    /// # Errors
    /// Only those that prevent the walk. Defects are in the result.
    pub fn check(&self, txn: &Txn) -> Result<Checked> {
        txn.store().check_opening(self.opening)?; // S7
        let _shape = self.resident.latch.shared();
        let mut checked = Checked::default();
        checked.pages.push(self.root);
        let header = match resident::read(txn.store(), &*txn.read_latched(self.root)?) {
            Ok(header) if header.live => header,
            Ok(_) => return Ok(checked.with_problem(self.root, "the table was dropped")),
            Err(error) => return Ok(checked.with_problem(self.root, error)),
        };
        for (number, first) in header.regions.iter().enumerate() {
            checked.pages.extend((0..header.growth.region_pages(number)).map(|n| PageId::new(*first).after(n)));
        }
        let mut keys = HashSet::new();
        for bucket in 0..header.buckets {
            let chain = match self.chain(txn, bucket) {
                Ok(chain) => chain,
                Err(error) => {
                    checked.problem(header.page_of(bucket), error);
                    continue;
                }
            };
            checked.pages.extend(&chain[1..]);
            checked.overflow += chain.len() as u64 - 1;
            keys.clear();
            for page in chain {
                let looked = self.look(txn, page, |page| {
                    bucket::check(page.body(), self.seed)?;
                    for entry in bucket::entries(page.body())? {
                        let (key, value) = entry?;
                        // Copies left behind by a split that a crash interrupted do not count (S1).
                        if KeyHash::of(key, self.seed).bucket(header.buckets) != bucket {
                            continue;
                        }
                        checked.elements += 1;
                        checked.bytes += (key.len() + value.len()) as u64;
                        if !keys.insert(key.to_vec()) {
                            checked.problem(page.id(), format_args!("key {} is there twice", key.escape_ascii()));
                        }
                    }
                    Ok(())
                });
                if let Err(error) = looked {
                    checked.problem(page, error);
                }
            }
        }
        Ok(checked)
    }
}

/// Pages that one log record frees.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// The first of contiguous pages, and their number.
    Run(PageId, u64),
    /// Pages that are near each other, ascending.
    Scattered(Vec<PageId>),
}

impl Part {
    fn pages(&self) -> u64 {
        match self {
            Part::Run(_, pages) => *pages,
            Part::Scattered(pages) => pages.len() as u64,
        }
    }

    fn log_bytes(&self) -> u64 {
        if matches!(self, Part::Run(..)) { FREE_LOG_BYTES } else { SCATTERED_LOG_BYTES }
    }
}

/// Returns these pages in few parts, largest first. None crosses a page of the space map, which belongs to no table.
fn parts(pages: Vec<PageId>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut near: Vec<(PageId, u64)> = Vec::new();
    for (first, pages) in runs(pages) {
        let is_far = near.first().is_some_and(|(begin, _)| {
            let spanned = first.get() + pages - begin.get();
            spanned > SCATTERED_PAGES || begin.get() / GROUP_PAGES != first.get() / GROUP_PAGES
        });
        if is_far {
            parts.extend(part_of(&mut near));
        }
        if pages >= LONG_RUN_PAGES {
            parts.push(Part::Run(first, pages));
        } else {
            near.push((first, pages));
        }
    }
    parts.extend(part_of(&mut near));
    parts.sort_by_key(|part| Reverse(part.pages()));
    parts
}

/// Joins runs that are near each other, and leaves none.
fn part_of(near: &mut Vec<(PageId, u64)>) -> Option<Part> {
    match near[..] {
        [] => None,
        [_] => near.pop().map(|(first, pages)| Part::Run(first, pages)),
        _ => Some(Part::Scattered(
            near.drain(..).flat_map(|(first, pages)| (0..pages).map(move |n| first.after(n))).collect(),
        )),
    }
}

/// Returns the runs of contiguous pages among these, ascending.
fn runs(mut pages: Vec<PageId>) -> Vec<(PageId, u64)> {
    pages.sort_unstable();
    let mut runs: Vec<(PageId, u64)> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some((first, len)) if page.get() - first.get() == *len && *len < REGION_PAGES_MAX => *len += 1,
            _ => runs.push((page, 1)),
        }
    }
    runs
}

/// An iterator over the entries of a table: see [`RawHashTable::iter`].
///
/// Buckets may split and merge between two steps. So the walk goes over the buckets that existed at its beginning. With each it
/// returns the entries that belonged there then, from wherever they are now: in buckets split off from it since, or in the one
/// into which it was merged (S10b).
#[derive(Debug)]
pub struct Entries<'t> {
    table: RawHashTable,
    txn: &'t Txn,
    /// Number of buckets when the walk began.
    buckets: u64,
    /// The next bucket.
    next: u64,
    entries: std::vec::IntoIter<Pair>,
}

impl Entries<'_> {
    /// Returns the entries of one bucket as it was when the walk began.
    fn family(&self, bucket: u64) -> Result<Vec<Pair>> {
        let table = &self.table;
        let _shape = table.resident.latch.shared();
        table.check_alive(self.txn)?;
        let buckets = table.resident.buckets();
        let mut pairs = Vec::new();
        let mut members = vec![now(bucket, buckets)];
        while let Some(member) = members.pop() {
            members.extend(children(member, buckets).filter(|&child| child >= self.buckets));
            for page in table.chain(self.txn, member)? {
                table.look(self.txn, page, |page| {
                    for entry in bucket::entries(page.body())? {
                        let (key, value) = entry?;
                        let hash = KeyHash::of(key, table.seed);
                        let is_wanted = hash.bucket(self.buckets) == bucket || planted!("walk_takes_whole_buckets");
                        if hash.bucket(buckets) == member && is_wanted {
                            pairs.push((key.to_vec(), value.to_vec()));
                        }
                    }
                    Ok(())
                })?;
            }
        }
        Ok(pairs)
    }
}

/// Returns the bucket with the entries of `bucket`, or those of them that no split has moved, when there are `buckets`.
fn now(bucket: u64, buckets: u64) -> u64 {
    // A bucket's number is the hash of one of its keys.
    KeyHash(bucket).bucket(buckets)
}

/// Returns the buckets that were split off from `bucket` by the time there are `buckets`.
fn children(bucket: u64, buckets: u64) -> impl Iterator<Item = u64> {
    (0..63)
        .map(|bit| 1 << bit)
        .skip_while(move |&half| half <= bucket)
        .map(move |half| bucket + half)
        .take_while(move |&child| child < buckets)
}

impl Iterator for Entries<'_> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        loop {
            if let Some(pair) = self.entries.next() {
                return Some(Ok(pair));
            }
            if self.next == self.buckets {
                return None;
            }
            match self.family(self.next) {
                Ok(pairs) => self.entries = pairs.into_iter(),
                Err(error) => {
                    self.next = self.buckets;
                    return Some(Err(error));
                }
            }
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_pages_are_freed_together() {
        let ids = |pages: &[u64]| pages.iter().copied().map(PageId::new).collect::<Vec<_>>();
        let run = |first, pages| Part::Run(PageId::new(first), pages);
        assert_eq!(parts(ids(&[9, 3, 4, 20, 5, 8])), [Part::Scattered(ids(&[3, 4, 5, 8, 9, 20]))]);
        assert_eq!(parts(ids(&[7, 7 + SCATTERED_PAGES])), [run(7, 1), run(7 + SCATTERED_PAGES, 1)], "too far");
        assert_eq!(parts(ids(&[7, 6 + SCATTERED_PAGES])), [Part::Scattered(ids(&[7, 6 + SCATTERED_PAGES]))]);
        assert_eq!(parts(ids(&[GROUP_PAGES - 1, GROUP_PAGES + 1])), [run(GROUP_PAGES - 1, 1), run(GROUP_PAGES + 1, 1)]);
        let many = (1..=REGION_PAGES_MAX + 2).map(PageId::new).collect();
        assert_eq!(parts(many), [run(1, REGION_PAGES_MAX), run(REGION_PAGES_MAX + 1, 2)]);
        assert_eq!(parts(Vec::new()), []);
    }

    #[test]
    fn every_bucket_has_one_parent() {
        for buckets in 1..300 {
            let mut born = vec![0; buckets as usize];
            born[0] = 1;
            for parent in 0..buckets {
                for child in children(parent, buckets) {
                    assert!(child > parent);
                    born[child as usize] += 1;
                }
            }
            assert!(born.iter().all(|&times| times == 1), "{born:?}");
        }
    }
}
