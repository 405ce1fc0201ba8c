//! Folding: the entries of a chain move forward into its other pages, and the emptied pages are freed.
//!
//! Each step empties one page, the one with the most free space, in a nested top action (S3). The first page of a bucket stays.

use cedrat_pages::PageId;
use cedrat_txn::{Result, Txn, Undo};

use super::bucket::{self, KeyHash, Space};
use super::ops::{Append, Link, Purge};
use super::packed::Packed;
use super::split::{Watch, step};
use super::table::RawHashTable;

/// The pages that get entries, and the entries for each.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pages: Vec<(PageId, Space, Packed)>,
}

impl Plan {
    /// Adds a page with this space.
    pub(super) fn page(&mut self, page: PageId, space: Space) {
        self.pages.push((page, space, Packed::default()));
    }

    /// Assigns an entry to the first page that has space for it. Returns whether there is one.
    pub(super) fn place(&mut self, key: &[u8], value: &[u8]) -> bool {
        let found = self.pages.iter_mut().find_map(|(_, space, package)| {
            let fits = space.take(key.len(), value.len());
            fits.then_some(package)
        });
        let fits = found.is_some();
        if let Some(package) = found {
            package.push(key, value);
        }
        fits
    }

    /// Adds the entries to their pages.
    pub(super) fn append(self, table: &RawHashTable, txn: &mut Txn, watch: Watch<'_>) -> Result<()> {
        let root = table.root.get();
        for (page, _, package) in self.pages {
            if package.count() > 0 {
                step(txn, watch, page, &Append { root, entries: package.into_bytes().into() })?;
            }
        }
        Ok(())
    }
}

impl RawHashTable {
    /// Moves the entries of chained pages to the other pages of the chain as long as those of one page fit there, and frees the
    /// emptied pages. Returns those that stay. The latch is held exclusively.
    pub(super) fn fold(&self, txn: &mut Txn, watch: Watch<'_>, mut chain: Vec<PageId>) -> Result<Vec<PageId>> {
        let root = self.root.get();
        while let Some((at, plan)) = self.plan_fold(txn, &chain)? {
            let page = chain.remove(at);
            let next = self.look(txn, page, |page| bucket::next(page))?;
            txn.nested((), |txn| {
                plan.append(self, txn, watch)?;
                step(txn, watch, chain[at - 1], &Link { root, next })?;
                txn.free(page)?;
                watch(txn);
                Ok(((), Undo::none()))
            })?;
            self.resident.overflow_changed(-1);
        }
        Ok(chain)
    }

    /// Returns the index of a page that can be emptied, and the places for its entries.
    fn plan_fold(&self, txn: &Txn, chain: &[PageId]) -> Result<Option<(usize, Plan)>> {
        if chain.len() < 2 {
            return Ok(None);
        }
        let spaces = self.spaces(txn, chain)?;
        let emptiest = (1..chain.len()).max_by_key(|&at| spaces[at].free()).expect("two pages at least");
        let mut plan = Plan::default();
        for (at, &page) in chain.iter().enumerate().filter(|&(at, _)| at != emptiest) {
            plan.page(page, spaces[at]);
        }
        let fits = self.look(txn, chain[emptiest], |page| {
            for entry in bucket::entries(page.body())? {
                let (key, value) = entry?;
                if !plan.place(key, value) {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        Ok(fits.then_some((emptiest, plan)))
    }

    /// Returns the space of each of these pages.
    pub(super) fn spaces(&self, txn: &Txn, pages: &[PageId]) -> Result<Vec<Space>> {
        pages.iter().map(|&page| self.look(txn, page, |page| Space::of(page))).collect()
    }

    /// Removes the entries of other buckets from the pages of a bucket: copies that a split has left, or those that it has just
    /// moved. The latch is held exclusively.
    pub(super) fn purge(
        &self,
        txn: &mut Txn,
        watch: Watch<'_>,
        chain: &[PageId],
        bucket: u64,
        buckets: u64,
    ) -> Result<()> {
        let purge = Purge { root: self.root.get(), bucket, buckets };
        chain.iter().try_for_each(|&page| step(txn, watch, page, &purge))
    }

    /// As [`purge`](RawHashTable::purge), of those pages only that have such entries.
    pub(super) fn purge_copies(&self, txn: &mut Txn, watch: Watch<'_>, chain: &[PageId], bucket: u64) -> Result<()> {
        let buckets = self.resident.buckets();
        for page in chain {
            let has_copies = self.look(txn, *page, |page| {
                for entry in bucket::entries(page.body())? {
                    if KeyHash::of(entry?.0, self.seed).bucket(buckets) != bucket {
                        return Ok(true);
                    }
                }
                Ok(false)
            })?;
            if has_copies {
                self.purge(txn, watch, std::slice::from_ref(page), bucket, buckets)?;
            }
        }
        Ok(())
    }
}
