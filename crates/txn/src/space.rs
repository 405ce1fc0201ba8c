//! Which pages are in use: bitmap pages, and what is free kept in memory beside them.
//!
//! The page file is cut into groups of [`GROUP_PAGES`] pages. The first page of a group is its *space map*: one bit for
//! each page of the group, 1 for a page in use. Its own bit is always 1, and so is the catalogue's in the first group. A
//! space map that was never written says that nothing of its group was ever used.
//!
//! Allocating and freeing are operations on the space map like any other: logged, repeated and undone (their inverse is
//! each other). What makes them cheap is the cache of free extents, loaded once when the store is opened. It holds only
//! what *may* be taken:
//!
//! - a page freed by a transaction comes in when that transaction has ended (E7.1), for its free might be undone;
//! - while recovery undoes losers, the cache is not used at all: pages come from beyond every page in use and every page
//!   that a loser may have freed (E7.3), for its free might still be undone.
//!
//! The last [`UNDO_PAGES`] pages of the page file are for undo: forward work does not take a page without as many behind
//! it, so that a full disk fails the change that needs a page and not the rollback that does (E16.6).

use std::collections::{BTreeMap, BTreeSet};

use cedrat_pages::{BODY_LEN, LayoutKind, PageId, Pool};
use cedrat_sync::Mutex;
use cedrat_wal::Lsn;

use crate::builtin::SetSpace;
use crate::error::{Error, Result};
use crate::operation::RecordId;
use crate::transaction::{Freed, Txn};
use crate::update::UndoOf;

/// Pages that one space map speaks of, itself included: 127 MiB.
pub const GROUP_PAGES: u64 = BODY_LEN as u64 * 8;

/// The longest possible region of contiguous pages: a group without its space map.
pub const REGION_PAGES_MAX: u64 = GROUP_PAGES - 1;

/// Pages at the end of the page file that only undo takes (E16.6): 256 KiB.
///
/// A structure whose old place was taken by others may need a page to put something back. Log is reserved by each change
/// for its own undo (E16.1); of pages few undos need any, so that all share these.
pub const UNDO_PAGES: u64 = 64;

/// The layout of space maps.
pub const SPACE_MAP: LayoutKind = LayoutKind(8);

/// Freed space is given back to the file system in pieces of at least so many pages: 64 KiB.
const PUNCH_PAGES_MIN: u64 = 16;

/// Contiguous pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extent {
    pub(crate) first: u64,
    pub(crate) pages: u64,
}

impl Extent {
    pub(crate) fn end(self) -> u64 {
        self.first + self.pages
    }

    fn first_page(self) -> PageId {
        PageId::new(self.first)
    }
}

/// The space map that speaks of a page, and the page's bit in it.
pub(crate) fn place_of(page: u64) -> (PageId, u16) {
    (PageId::new(page / GROUP_PAGES * GROUP_PAGES), (page % GROUP_PAGES) as u16)
}

/// Whether a page is in use whatever its bit says: space maps, and the catalogue.
pub(crate) fn is_always_used(page: u64) -> bool {
    page.is_multiple_of(GROUP_PAGES) || page == crate::CATALOGUE.get()
}

/// What may be allocated.
#[derive(Debug)]
pub(crate) struct Space {
    free: Mutex<Free>,
}

#[derive(Debug)]
struct Free {
    /// Free extents by their first page. No two touch.
    by_first: BTreeMap<u64, u64>,
    /// The same by length.
    by_len: BTreeSet<(u64, u64)>,
    /// From here on nothing was ever in use.
    tail: u64,
    /// Recovery undoes losers: only the tail is used (E7.3).
    tail_only: bool,
    /// Freed, and not yet given back to the file system: with the LSN of the free.
    unpunched: Vec<Freed>,
}

impl Space {
    /// For recovery: everything before `tail` is left alone.
    pub(crate) fn beyond(tail: u64) -> Space {
        Space {
            free: Mutex::new(Free {
                by_first: BTreeMap::new(),
                by_len: BTreeSet::new(),
                tail: tail.max(crate::CATALOGUE.get() + 1),
                tail_only: true,
                unpunched: Vec::new(),
            }),
        }
    }

    /// Reads every space map. No transaction runs, so what is free may be taken.
    pub(crate) fn load(&self, pool: &Pool) -> Result<()> {
        let mut free = self.free.lock();
        *free = Free {
            by_first: BTreeMap::new(),
            by_len: BTreeSet::new(),
            tail: crate::CATALOGUE.get() + 1,
            tail_only: false,
            unpunched: Vec::new(),
        };
        let mut used_before = free.tail;
        for map in (0..pool.len_pages()).step_by(GROUP_PAGES as usize) {
            used_from_map(pool, PageId::new(map), |used| {
                if used >= used_before {
                    for extent in between_maps(used_before, used) {
                        free.insert(extent);
                    }
                    used_before = used + 1;
                }
            })?;
        }
        free.tail = used_before;
        Ok(())
    }

    /// For recovery, once history is repeated and before anything is undone: what is in use is left alone, too.
    pub(crate) fn leave_alone_what_is_used(&self, pool: &Pool) -> Result<()> {
        let mut free = self.free.lock();
        for map in (0..pool.len_pages()).step_by(GROUP_PAGES as usize) {
            used_from_map(pool, PageId::new(map), |used| free.tail = free.tail.max(used + 1))?;
        }
        Ok(())
    }

    /// Takes contiguous pages within one group that end at or before `end`, if there are any.
    fn take_before(&self, pages: u64, end: u64) -> Option<Extent> {
        let mut free = self.free.lock();
        if let Some((len, first)) = free.smallest_before(pages, end) {
            free.remove(Extent { first, pages: len });
            let taken = Extent { first, pages };
            free.insert(Extent { first: taken.end(), pages: len - pages });
            return Some(taken);
        }
        (free.next_of_tail(pages).end() <= end).then(|| free.take_tail(pages))
    }

    /// Takes contiguous pages within one group, wherever they are.
    fn take(&self, pages: u64) -> Extent {
        self.take_before(pages, u64::MAX).expect("the tail has no end")
    }

    /// Where those pages end that would be taken if the page file reached far enough.
    fn end_of_next(&self, pages: u64) -> u64 {
        let free = self.free.lock();
        let lowest = free.smallest_before(pages, u64::MAX).map(|(_, first)| first + pages);
        let tail = free.next_of_tail(pages).end();
        lowest.map_or(tail, |lowest| lowest.min(tail))
    }

    /// Gives pages back that were taken and not used, or freed by a transaction that has ended.
    fn give(&self, extent: Extent) {
        let mut free = self.free.lock();
        if !free.tail_only {
            free.give(extent);
        }
    }

    /// A free whose transaction has ended.
    pub(crate) fn release(&self, freed: Freed) {
        let mut free = self.free.lock();
        if !free.tail_only {
            free.give(freed.extent);
            free.unpunched.push(freed);
        }
    }

    /// Takes out what a prepared transaction has freed (E9.6); it is given back when that has ended.
    pub(crate) fn withhold(&self, extent: Extent) {
        let mut free = self.free.lock();
        if free.tail < extent.end() {
            for passed in between_maps(free.tail, extent.end()) {
                free.give(passed);
            }
            free.tail = extent.end();
        }
        free.take_what_is_free_of(extent);
    }

    /// Gives the space of pages freed before `redo_point` back to the file system, while they are free (E7.2).
    ///
    /// What the file system refuses stays noted, for the next time: space is lost to others meanwhile, and nothing else.
    pub(crate) fn punch(&self, pool: &Pool, redo_point: Lsn) {
        let ready: Vec<Extent> = {
            let mut free = self.free.lock();
            let (passed, waiting): (Vec<Freed>, Vec<Freed>) =
                free.unpunched.drain(..).partition(|freed| freed.lsn < redo_point);
            // A page freed, used and freed again waits for its newest free.
            let newer = joined(waiting.iter().map(|freed| freed.extent).collect());
            free.unpunched = waiting;
            // Taken out of the cache, so that nobody allocates them meanwhile.
            joined(passed.into_iter().map(|freed| freed.extent).collect())
                .into_iter()
                .flat_map(|extent| without(extent, &newer))
                .flat_map(|extent| free.take_what_is_free_of(extent))
                .collect()
        };
        let mut refused = false;
        for extent in joined(ready) {
            if extent.pages >= PUNCH_PAGES_MIN {
                refused = refused || pool.punch(extent.first_page(), extent.pages).is_err();
                if refused {
                    // The redo point has passed it already.
                    self.free.lock().unpunched.push(Freed { extent, lsn: Lsn::ZERO });
                }
            }
            self.give(extent);
        }
    }

    /// Free pages before the tail, and the tail.
    #[cfg(test)]
    fn summary(&self) -> (u64, u64) {
        let free = self.free.lock();
        (free.by_first.values().sum(), free.tail)
    }
}

impl Free {
    fn insert(&mut self, extent: Extent) {
        if extent.pages > 0 {
            self.by_first.insert(extent.first, extent.pages);
            self.by_len.insert((extent.pages, extent.first));
        }
    }

    fn remove(&mut self, extent: Extent) {
        self.by_first.remove(&extent.first);
        self.by_len.remove(&(extent.pages, extent.first));
    }

    /// The smallest free extent of at least so many pages whose first `pages` end at or before `end`.
    fn smallest_before(&self, pages: u64, end: u64) -> Option<(u64, u64)> {
        if self.tail_only {
            return None;
        }
        self.by_len.range((pages, 0)..).find(|(_, first)| first + pages <= end).copied()
    }

    /// The next pages of the tail, within one group and behind its space map.
    fn next_of_tail(&self, pages: u64) -> Extent {
        let mut first = self.tail;
        if first.is_multiple_of(GROUP_PAGES) {
            first += 1; // the group's space map
        }
        let group_end = first.next_multiple_of(GROUP_PAGES);
        if first + pages > group_end {
            first = group_end + 1;
        }
        Extent { first, pages }
    }

    fn take_tail(&mut self, pages: u64) -> Extent {
        let taken = self.next_of_tail(pages);
        let passed = Extent { first: self.tail, pages: taken.first - self.tail };
        if !self.tail_only {
            for extent in between_maps(passed.first, passed.end()) {
                self.give(extent);
            }
        }
        self.tail = taken.end();
        taken
    }

    fn give(&mut self, extent: Extent) {
        let Extent { mut first, mut pages } = extent;
        if let Some((&before, &len)) = self.by_first.range(..first).next_back() {
            debug_assert!(before + len <= first, "E7.1: page {first} is free twice");
            if before + len == first {
                self.remove(Extent { first: before, pages: len });
                first = before;
                pages += len;
            }
        }
        let end = first + pages;
        if let Some(&len) = self.by_first.get(&end) {
            self.remove(Extent { first: end, pages: len });
            pages += len;
        }
        self.insert(Extent { first, pages });
    }

    /// Takes out those parts of `extent` that are free at the moment.
    fn take_what_is_free_of(&mut self, extent: Extent) -> Vec<Extent> {
        let overlapping: Vec<Extent> = self
            .by_first
            .range(..extent.end())
            .rev()
            .map(|(&first, &pages)| Extent { first, pages })
            .take_while(|free| free.end() > extent.first)
            .collect();
        let mut taken = Vec::new();
        for free in overlapping {
            self.remove(free);
            let first = free.first.max(extent.first);
            let end = free.end().min(extent.end());
            self.insert(Extent { first: free.first, pages: first - free.first });
            self.insert(Extent { first: end, pages: free.end() - end });
            taken.push(Extent { first, pages: end - first });
        }
        taken
    }
}

/// The pages from `first` up to `end` without the places of space maps, of which a group that was passed over has none yet.
fn between_maps(first: u64, end: u64) -> Vec<Extent> {
    let maps: Vec<Extent> = (first.next_multiple_of(GROUP_PAGES)..end)
        .step_by(GROUP_PAGES as usize)
        .map(|first| Extent { first, pages: 1 })
        .collect();
    without(Extent { first, pages: end - first }, &maps)
}

/// The same pages in as few extents as possible, ascending.
fn joined(mut extents: Vec<Extent>) -> Vec<Extent> {
    extents.sort_unstable();
    let mut joined: Vec<Extent> = Vec::new();
    for extent in extents {
        match joined.last_mut() {
            Some(last) if last.end() >= extent.first => {
                last.pages = last.end().max(extent.end()) - last.first;
            }
            _ => joined.push(extent),
        }
    }
    joined
}

/// The parts of `extent` that lie in none of `others`, which are joined and ascending.
fn without(extent: Extent, others: &[Extent]) -> Vec<Extent> {
    let mut parts = Vec::new();
    let mut first = extent.first;
    let begin = others.partition_point(|other| other.end() <= extent.first);
    for other in others[begin..].iter().take_while(|other| other.first < extent.end()) {
        if other.first > first {
            parts.push(Extent { first, pages: other.first - first });
        }
        first = other.end();
    }
    if first < extent.end() {
        parts.push(Extent { first, pages: extent.end() - first });
    }
    parts
}

/// Calls `seen` for every page in use in the group of `map`, ascending.
pub(crate) fn used_from_map(pool: &Pool, map: PageId, mut seen: impl FnMut(u64)) -> Result<()> {
    let page = pool.read(map)?;
    if page.kind() == LayoutKind::NONE {
        // Never written. The map itself counts as used only once something of its group is.
        return Ok(());
    }
    if page.kind() != SPACE_MAP {
        return Err(pool.damaged(cedrat_pages::Damaged::wrong_kind(map)).into());
    }
    for (at, &byte) in page.body().iter().enumerate() {
        let mut bits = byte;
        while bits != 0 {
            seen(map.get() + 8 * at as u64 + u64::from(bits.trailing_zeros()));
            bits &= bits - 1;
        }
    }
    Ok(())
}

impl Txn {
    /// Allocates a page. What lies in it is undefined: format it first, as a rule with [`crate::FormatFresh`].
    ///
    /// If the transaction rolls back, the page is free again. The space map is shared by all transactions: no lock is asked
    /// for.
    ///
    /// # Errors
    /// The page file cannot grow: the disk, or [`cedrat_pages::PoolOptions::pages_max`]; [`Error::LogFull`].
    /// [`Error::PinsLog`]: the transaction was rolled back. So hold no latch that its undo asks for, except within
    /// [`nested`](Txn::nested) or [`ordered`](Txn::ordered), where it rolls back later.
    pub fn allocate(&mut self) -> Result<PageId> {
        self.allocate_region(1)
    }

    /// Allocates contiguous pages, and returns the first.
    ///
    /// # Errors
    /// As [`allocate`](Txn::allocate); and more than [`REGION_PAGES_MAX`], or none, were asked for.
    pub fn allocate_region(&mut self, pages: u64) -> Result<PageId> {
        if pages == 0 || pages > REGION_PAGES_MAX {
            return Err(Error::RegionLength { pages, limit: REGION_PAGES_MAX });
        }
        self.alive()?;
        let extent = self.take_extent(pages)?;
        match self.set_space(extent, true) {
            Ok(_) => Ok(extent.first_page()),
            Err(error) => {
                self.inner().space.give(extent);
                Err(error)
            }
        }
    }

    /// Free pages that the page file has, and that are nobody else's from now on.
    fn take_extent(&self, pages: u64) -> Result<Extent> {
        let (pool, space) = (&self.inner().pool, &self.inner().space);
        if self.undoing {
            // From its own share only if there are no others, so that a share is left to the next undo.
            let len = pool.len_pages();
            let extent = space
                .take_before(pages, len.saturating_sub(UNDO_PAGES))
                .or_else(|| space.take_before(pages, len))
                .unwrap_or_else(|| space.take(pages));
            return pool.ensure_len(extent.end()).map(|()| extent).map_err(|error| {
                space.give(extent);
                error.into()
            });
        }
        loop {
            // Nothing is taken before the file reaches far enough: while the disk refuses, undo may need these very pages.
            if let Some(extent) = space.take_before(pages, pool.len_pages().saturating_sub(UNDO_PAGES)) {
                return Ok(extent);
            }
            pool.ensure_len(space.end_of_next(pages) + UNDO_PAGES)?;
        }
    }

    /// Frees a page. It can be allocated again when this transaction has ended (E7.1).
    ///
    /// # Errors
    /// [`Error::Refused`] if the page is not allocated; [`Error::LogFull`], and [`Error::PinsLog`] as from
    /// [`allocate`](Txn::allocate).
    pub fn free(&mut self, page: PageId) -> Result<()> {
        self.free_region(page, 1)
    }

    /// Frees contiguous pages, as they were allocated or in parts.
    ///
    /// # Errors
    /// As [`free`](Txn::free); nothing is freed then.
    pub fn free_region(&mut self, first: PageId, pages: u64) -> Result<()> {
        let extent = Extent { first: first.get(), pages };
        let within_a_group = first.get() % GROUP_PAGES + pages <= GROUP_PAGES;
        if pages == 0 || pages > REGION_PAGES_MAX || !within_a_group {
            return Err(Error::RegionLength { pages, limit: REGION_PAGES_MAX });
        }
        let lsn = self.set_space(extent, false)?;
        self.freed.push(Freed { extent, lsn });
        Ok(())
    }

    fn set_space(&mut self, extent: Extent, used: bool) -> Result<Lsn> {
        let (map, bit) = place_of(extent.first);
        let operation = SetSpace { first: bit, pages: extent.pages as u16, used };
        self.road(RecordId::page(map), &operation, UndoOf::Own)
    }

    /// Called for every compensation: the undo of a free takes the pages back, that of an allocation frees them.
    pub(crate) fn note_space_change(&mut self, operation: u32, at: RecordId, lsn: Lsn) {
        if operation != self.inner().set_space_number {
            return;
        }
        let Ok(change) = postcard::from_bytes::<SetSpace>(&self.arguments) else { return };
        let extent = Extent { first: at.page.get() + u64::from(change.first), pages: u64::from(change.pages) };
        if change.used {
            if let Some(at) = self.freed.iter().rposition(|freed| freed.extent == extent) {
                self.freed.swap_remove(at);
            }
        } else {
            self.freed.push(Freed { extent, lsn });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn space() -> Space {
        let space = Space::beyond(2);
        space.free.lock().tail_only = false;
        space
    }

    #[test]
    fn a_region_never_spans_a_space_map() {
        let space = space();
        let first = space.take(GROUP_PAGES - 10);
        assert_eq!(first.first, 2);
        let second = space.take(20);
        assert_eq!(second.first, GROUP_PAGES + 1, "the first group has only eight pages left");
        assert_eq!(space.take(8).first, GROUP_PAGES - 8, "which were not lost");
        assert_eq!(space.take(REGION_PAGES_MAX).first, 2 * GROUP_PAGES + 1);
    }

    #[test]
    fn recovery_takes_only_from_beyond() {
        let space = Space::beyond(100);
        space.release(Freed { extent: Extent { first: 5, pages: 3 }, lsn: Lsn::new(1) });
        assert_eq!(space.take(2), Extent { first: 100, pages: 2 }, "E7.3");
    }

    proptest! {
        /// Whatever is taken and given back, no page is ever in two hands, and free extents are as long as they can be.
        #[test]
        fn no_page_is_in_two_hands(steps in proptest::collection::vec((1u64..40, any::<u16>(), any::<bool>()), 1..200)) {
            let space = space();
            let mut taken: Vec<Extent> = Vec::new();
            for (pages, which, give) in steps {
                if give && !taken.is_empty() {
                    let extent = taken.swap_remove(usize::from(which) % taken.len());
                    space.give(extent);
                } else {
                    let extent = space.take(pages);
                    prop_assert_eq!(extent.pages, pages);
                    for other in &taken {
                        prop_assert!(other.end() <= extent.first || extent.end() <= other.first);
                    }
                    taken.push(extent);
                }
                let free = space.free.lock();
                let in_hands: u64 = taken.iter().map(|extent| extent.pages).sum();
                prop_assert_eq!(free.by_first.values().sum::<u64>() + in_hands + 2, free.tail);
                prop_assert_eq!(free.by_len.len(), free.by_first.len());
                for (&first, &pages) in &free.by_first {
                    prop_assert!(!free.by_first.contains_key(&(first + pages)), "two free extents touch");
                }
            }
        }
    }

    /// E9.6: also what lies behind all that is in use.
    #[test]
    fn what_is_withheld_is_nobodys() {
        let space = space();
        space.give(space.take(10));
        for extent in [Extent { first: 4, pages: 2 }, Extent { first: 20, pages: 3 }] {
            space.withhold(extent);
        }
        assert_eq!(space.summary(), (2 + 6 + 8, 23));
        let taken: Vec<u64> = (0..17).map(|_| space.take(1).first).collect();
        assert!(taken.iter().all(|page| !(4..6).contains(page) && !(20..23).contains(page)), "{taken:?}");
        space.give(Extent { first: 20, pages: 3 });
        assert_eq!(space.take(3).first, 20);
    }

    #[test]
    fn only_what_is_still_free_is_punched() {
        let space = space();
        let extent = space.take(100);
        space.give(extent);
        let again = space.take(10);
        assert_eq!(again.first, 2);
        let taken = space.free.lock().take_what_is_free_of(extent);
        assert_eq!(taken, [Extent { first: 12, pages: 90 }], "E7.2");
        assert_eq!(space.summary(), (0, 102));
    }

    #[test]
    fn what_was_freed_again_is_not_punched_yet() {
        let extent = |first, pages| Extent { first, pages };
        let newer = joined(vec![extent(14, 2), extent(5, 3), extent(6, 4)]);
        assert_eq!(newer, [extent(5, 5), extent(14, 2)]);
        assert_eq!(without(extent(2, 18), &newer), [extent(2, 3), extent(10, 4), extent(16, 4)], "E7.2");
        assert_eq!(without(extent(6, 3), &newer), []);
        assert_eq!(without(extent(20, 3), &newer), [extent(20, 3)]);
    }
}
