//! Allocation of pages: bitmap pages, and a cache of free extents in memory.
//!
//! The page file is divided into groups of [`GROUP_PAGES`] pages. The first page of a group is its *space map*: one bit
//! for each page of the group, 1 for a page in use. Its own bit is always 1, and so is the catalogue's in the first
//! group. If a space map was never written, no page of its group was ever in use.
//!
//! Allocating and freeing are operations on the space map like any other: logged, redone and undone (each is the
//! inverse of the other). The cache of free extents, loaded once when the store is opened, makes them cheap. It holds
//! only pages that *may* be allocated:
//!
//! - a page freed by a transaction is added when that transaction has ended (E7.1), for its free might be undone;
//! - while recovery undoes losers, it holds the pages that were free at the crash, except those that transactions
//!   without an end have freed (E7.3), and no page is added: such a free might still be undone.
//!
//! The last [`UNDO_PAGES`] pages of the page file are for undo: forward work takes a page only if that many follow it.
//! So a full disk fails the change that needs a page and not the rollback that does (E16.6).
//!
//! The space of free pages is returned to the file system. Such pages are *holes* until their space is allocated again,
//! before they are used: otherwise a full disk would fail the write of a changed page, and so stop the store.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};

use cedrat_pages::{BODY_LEN, LayoutKind, PageId, Pool, PoolError};
use cedrat_sync::{Mutex, planted};
use cedrat_wal::Lsn;

use crate::builtin::{SetSpace, SetSpaceScattered};
use crate::error::{Error, Result};
use crate::operation::RecordId;
use crate::registry::Numbers;
use crate::transaction::{Freed, Txn};
use crate::update::UndoOf;

/// Number of pages that one space map describes, itself included: 127 MiB.
pub const GROUP_PAGES: u64 = BODY_LEN as u64 * 8;

/// Maximum length of a region of contiguous pages: a group without its space map.
pub const REGION_PAGES_MAX: u64 = GROUP_PAGES - 1;

/// Number of pages at the end of the page file that only undo takes: 256 KiB.
///
/// A structure may need a page to restore something whose old place is occupied again. Each change reserves log for its
/// own undo, but few undos need pages, so all share these.
pub const UNDO_PAGES: u64 = 64;

/// Maximum distance in pages between the first and the last page of one call of [`Txn::free_scattered`], plus one.
pub const SCATTERED_PAGES: u64 = 256;

/// Maximum log space of one call of [`Txn::free_scattered`].
pub const SCATTERED_LOG_BYTES: u64 = 40 + SCATTERED_PAGES / 8;

/// The layout of space maps.
pub const SPACE_MAP: LayoutKind = LayoutKind(8);

/// Minimum number of pages of an extent whose space is returned to the file system: 64 KiB.
const PUNCH_PAGES_MIN: u64 = 16;

/// Number of pages of a hole that are filled at a time: that costs a sync.
const FILLED_AT_ONCE: u64 = 256;

/// A range of contiguous pages.
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

/// The numbers of the operations that change space maps, as far as the store knows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceNumbers {
    range: Option<u32>,
    scattered: Option<u32>,
}

impl SpaceNumbers {
    pub(crate) fn of(numbers: &Numbers) -> SpaceNumbers {
        SpaceNumbers {
            range: numbers.of_type(TypeId::of::<SetSpace>()),
            scattered: numbers.of_type(TypeId::of::<SetSpaceScattered>()),
        }
    }

    pub(crate) fn is_incomplete(&self) -> bool {
        self.range.is_none() || self.scattered.is_none()
    }

    pub(crate) fn contains(&self, operation: u32) -> bool {
        self.range == Some(operation) || self.scattered == Some(operation)
    }

    /// Parses a change of a space map; `None` if the arguments are not those of such a change, or do not fit a space map
    /// within its group.
    pub(crate) fn change(&self, operation: u32, map: PageId, arguments: &[u8]) -> Option<SpaceChange> {
        // The whole group must have page numbers.
        map.get().checked_add(GROUP_PAGES).filter(|_| map.get().is_multiple_of(GROUP_PAGES))?;
        let at = |first: u64, pages| Extent { first: map.get() + first, pages };
        let change = if self.range == Some(operation) {
            let change: SetSpace = postcard::from_bytes(arguments).ok()?;
            let extents = vec![at(change.first.into(), change.pages.into())];
            SpaceChange { used: change.used, extents }
        } else {
            let change: SetSpaceScattered = postcard::from_bytes(arguments).ok()?;
            SpaceChange { used: change.used, extents: joined(change.bits().map(|bit| at(bit as u64, 1)).collect()) }
        };
        let end = map.get() + GROUP_PAGES;
        change.extents.iter().all(|extent| extent.pages > 0 && extent.end() <= end).then_some(change)
    }
}

/// A change of a space map, and the pages concerned.
pub(crate) struct SpaceChange {
    pub(crate) used: bool,
    pub(crate) extents: Vec<Extent>,
}

impl SpaceChange {
    /// Returns the end of the pages concerned.
    pub(crate) fn end(&self) -> u64 {
        self.extents.last().map_or(0, |last| last.end())
    }

    /// Returns the pages that become free.
    pub(crate) fn freed(self) -> Vec<Extent> {
        if self.used { Vec::new() } else { self.extents }
    }

    /// Adds the pages to those that the transaction frees, or removes them.
    pub(crate) fn note(self, lsn: Lsn, freed: &mut Vec<Freed>) {
        for extent in self.extents {
            if !self.used {
                freed.push(Freed { extent, lsn });
            } else if let Some(at) = freed.iter().rposition(|freed| freed.extent == extent) {
                freed.swap_remove(at);
            }
        }
    }
}

/// Returns the space map that describes a page, and the page's bit in it.
pub(crate) fn place_of(page: u64) -> (PageId, u16) {
    (PageId::new(page / GROUP_PAGES * GROUP_PAGES), (page % GROUP_PAGES) as u16)
}

/// Whether a page is in use whatever its bit says: space maps, and the catalogue.
pub(crate) fn is_always_used(page: u64) -> bool {
    page.is_multiple_of(GROUP_PAGES) || page == crate::CATALOGUE.get()
}

/// The pages that may be allocated.
#[derive(Debug)]
pub(crate) struct Space {
    free: Mutex<Free>,
}

#[derive(Debug)]
struct Free {
    /// Free extents by their first page. No two are adjacent.
    by_first: BTreeMap<u64, u64>,
    /// The same extents by length.
    by_len: BTreeSet<(u64, u64)>,
    /// The first page from which on no page was ever in use.
    tail: u64,
    /// Recovery undoes losers: freed pages are not added (E7.3).
    undoes_losers: bool,
    /// Freed extents whose space was not yet returned to the file system, with the LSN of the free.
    unpunched: Vec<Freed>,
    /// Free pages that may have no space in the file system. Joined and ascending.
    holes: Vec<Extent>,
    /// Number of punches that run.
    punching: usize,
    /// Number of punches that have begun.
    punches: u64,
}

/// A punch that runs.
struct Punch {
    /// Pages that are not allocated meanwhile.
    ready: Vec<Extent>,
    /// The part of them whose space is returned.
    long: Vec<Extent>,
}

impl Space {
    /// Returns a cache without free pages, before the space maps are read.
    pub(crate) fn unknown() -> Space {
        Space { free: Mutex::new(Free::none()) }
    }

    /// Reads every space map. No transaction runs, so all free pages may be allocated.
    pub(crate) fn load(&self, pool: &Pool) -> Result<()> {
        let mut free = self.free.lock();
        *free = Free::none();
        let mut used_before = free.tail;
        let mut holes = Vec::new();
        for map in (0..pool.len_pages()).step_by(GROUP_PAGES as usize) {
            used_from_map(pool, PageId::new(map), |used| {
                if used >= used_before {
                    for extent in between_maps(used_before, used) {
                        free.insert(extent);
                        add_unwritten(pool, extent, &mut holes);
                    }
                    used_before = used + 1;
                }
            })?;
        }
        free.tail = used_before;
        let pages = pool.len_pages().saturating_sub(used_before);
        add_unwritten(pool, Extent { first: used_before, pages }, &mut holes);
        free.holes = holes;
        Ok(())
    }

    /// Reads every space map for recovery, after redo and before undo: free pages may be allocated, except those that
    /// transactions without an end have freed (E7.3).
    pub(crate) fn load_for_undo(&self, pool: &Pool, freed: impl IntoIterator<Item = Extent>) -> Result<()> {
        self.load(pool)?;
        freed.into_iter().for_each(|extent| self.withhold(extent));
        self.free.lock().undoes_losers = true;
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

    /// Takes contiguous pages within one group, at any position.
    fn take(&self, pages: u64) -> Extent {
        self.take_before(pages, u64::MAX).expect("the tail has no end")
    }

    /// Takes contiguous pages as [`take_before`](Space::take_before) does, none of them in a hole.
    fn take_filled_before(&self, pages: u64, end: u64) -> Option<Extent> {
        let mut free = self.free.lock();
        let filled = |(&first, &len): (&u64, &u64)| without(Extent { first, pages: len }, &free.holes);
        let filled =
            free.by_first.iter().flat_map(filled).find(|part| part.pages >= pages && part.first + pages <= end);
        if let Some(Extent { first, .. }) = filled {
            let taken = Extent { first, pages };
            free.take_what_is_free_of(taken);
            return Some(taken);
        }
        let next = free.next_of_tail(pages);
        let is_filled = without(next, &free.holes) == [next];
        (is_filled && next.end() <= end).then(|| free.take_tail(pages))
    }

    /// Returns a part of a hole that contains the first pages of this extent without space, and the number of punches so far.
    fn hole_in(&self, extent: Extent) -> Option<(Extent, u64)> {
        let free = self.free.lock();
        let hole = free.holes.get(free.holes.partition_point(|hole| hole.end() <= extent.first))?;
        let first = hole.first.max(extent.first);
        // No punch of this extent runs, since it was taken; but perhaps one of the pages behind it.
        let more = if free.punching == 0 || planted!("running_punch_ignored") { FILLED_AT_ONCE } else { 0 };
        let end = hole.end().min(extent.end().max(first + more));
        (first < extent.end()).then(|| (Extent { first, pages: end - first }, free.punches))
    }

    /// Notes that pages of a hole have space again, which [`hole_in`](Space::hole_in) has returned for this extent with this
    /// number of punches. If one has begun since, those behind the extent may have lost their space.
    fn filled(&self, hole: Extent, extent: Extent, punches: u64) {
        let mut free = self.free.lock();
        let is_whole = free.punches == punches || planted!("punched_page_counts_as_filled");
        let end = if is_whole { hole.end() } else { hole.end().min(extent.end()) };
        free.fill(Extent { first: hole.first, pages: end - hole.first });
    }

    /// Returns the end of the pages that would be taken if the page file were long enough.
    fn end_of_next(&self, pages: u64) -> u64 {
        let free = self.free.lock();
        let lowest = free.smallest_before(pages, u64::MAX).map(|(_, first)| first + pages);
        let tail = free.next_of_tail(pages).end();
        lowest.map_or(tail, |lowest| lowest.min(tail))
    }

    /// Returns pages that were taken and not used, or freed by a transaction that has ended.
    fn give(&self, extent: Extent) {
        let mut free = self.free.lock();
        if !free.undoes_losers {
            free.give(extent);
        }
    }

    /// Adds an extent freed by a transaction that has ended.
    pub(crate) fn release(&self, freed: Freed) {
        let mut free = self.free.lock();
        if !free.undoes_losers || planted!("freed_taken_in_recovery") {
            free.give(freed.extent);
            free.unpunched.push(freed);
        }
    }

    /// Removes an extent that a prepared transaction has freed (E9.6); it is added when that transaction has ended.
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

    /// Returns the space of pages freed before `redo_point` to the file system, as long as they are free (E7.2).
    ///
    /// If the file system refuses, the extents stay noted for the next attempt; meanwhile only disk space is lost.
    pub(crate) fn punch(&self, pool: &Pool, redo_point: Lsn) {
        let Punch { ready, long } = self.begin_punch(redo_point);
        let places: Vec<(PageId, u64)> = long.iter().map(|extent| (extent.first_page(), extent.pages)).collect();
        let punched = if places.is_empty() { Ok(()) } else { pool.punch(&places) };
        let mut free = self.free.lock();
        free.punching -= 1;
        if punched.is_err() {
            // The redo point has already passed them.
            free.unpunched.extend(long.into_iter().map(|extent| Freed { extent, lsn: Lsn::ZERO }));
        }
        drop(free);
        ready.into_iter().for_each(|extent| self.give(extent));
    }

    /// Removes the pages freed before `redo_point` from the free ones, and notes those to punch as holes.
    fn begin_punch(&self, redo_point: Lsn) -> Punch {
        let mut free = self.free.lock();
        let ready = joined(free.take_passed(redo_point));
        let long: Vec<Extent> = ready.iter().copied().filter(|extent| extent.pages >= PUNCH_PAGES_MIN).collect();
        if !planted!("holes_not_noted") {
            free.holes.extend_from_slice(&long);
            free.holes = joined(std::mem::take(&mut free.holes));
        }
        free.punching += 1;
        free.punches += 1;
        Punch { ready, long }
    }

    /// Whether the space of freed pages was not yet returned to the file system.
    pub(crate) fn waits_to_punch(&self) -> bool {
        !self.free.lock().unpunched.is_empty()
    }

    /// Returns the number of free pages before the tail, and the tail.
    #[cfg(test)]
    fn summary(&self) -> (u64, u64) {
        let free = self.free.lock();
        (free.by_first.values().sum(), free.tail)
    }
}

impl Free {
    fn none() -> Free {
        Free {
            by_first: BTreeMap::new(),
            by_len: BTreeSet::new(),
            tail: crate::CATALOGUE.get() + 1,
            undoes_losers: false,
            unpunched: Vec::new(),
            holes: Vec::new(),
            punching: 0,
            punches: 0,
        }
    }

    /// Removes an extent from the holes.
    fn fill(&mut self, extent: Extent) {
        let begin = self.holes.partition_point(|hole| hole.end() <= extent.first);
        let end = self.holes.partition_point(|hole| hole.first < extent.end());
        let left: Vec<Extent> = self.holes[begin..end].iter().flat_map(|&hole| without(hole, &[extent])).collect();
        self.holes.splice(begin..end, left);
    }

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

    /// Returns the smallest free extent of at least `pages` pages whose first `pages` end at or before `end`.
    fn smallest_before(&self, pages: u64, end: u64) -> Option<(u64, u64)> {
        self.by_len.range((pages, 0)..).find(|(_, first)| first + pages <= end).copied()
    }

    /// Returns the next pages of the tail, within one group and after its space map.
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
        for extent in between_maps(passed.first, passed.end()) {
            self.give(extent);
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

    /// Removes the free pages among those freed before `redo_point`, so that they are not allocated meanwhile (E7.2).
    fn take_passed(&mut self, redo_point: Lsn) -> Vec<Extent> {
        let has_passed = |freed: &Freed| freed.lsn < redo_point || planted!("punched_before_redo_point");
        let (passed, waiting): (Vec<Freed>, Vec<Freed>) = self.unpunched.drain(..).partition(has_passed);
        // A page freed, used and freed again waits for its newest free.
        let newer = joined(waiting.iter().map(|freed| freed.extent).collect());
        self.unpunched = waiting;
        let taken: Vec<Extent> = joined(passed.into_iter().map(|freed| freed.extent).collect())
            .into_iter()
            .flat_map(|extent| without(extent, &newer))
            .flat_map(|extent| self.take_what_is_free_of(extent))
            .collect();
        // Pages that were freed earlier, too few in one place to be punched then, may be enough together with these.
        taken.into_iter().flat_map(|extent| self.take_with_neighbours(extent, &newer)).collect()
    }

    /// Removes the free pages before and behind `extent`, which was taken, but none of `newer`, and none of a hole. Returns all of
    /// them.
    fn take_with_neighbours(&mut self, extent: Extent, newer: &[Extent]) -> Vec<Extent> {
        let parts = |free: Extent, holes: &[Extent]| -> Vec<Extent> {
            without(free, newer).into_iter().flat_map(|part| without(part, holes)).collect()
        };
        let before = self.by_first.range(..extent.first).next_back().map(|(&first, &pages)| Extent { first, pages });
        let before = before.and_then(|free| parts(free, &self.holes).pop()).filter(|part| part.end() == extent.first);
        let behind = self.by_first.get(&extent.end()).map(|&pages| Extent { first: extent.end(), pages });
        let behind = behind.and_then(|free| parts(free, &self.holes).into_iter().next());
        let behind = behind.filter(|part| part.first == extent.end());
        let mut all = vec![extent];
        for part in before.into_iter().chain(behind) {
            all.extend(self.take_what_is_free_of(part));
        }
        all
    }

    /// Removes the parts of `extent` that are currently free.
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

/// Returns the pages from `first` up to `end` without the positions of space maps; a skipped group has no space map
/// yet.
fn between_maps(first: u64, end: u64) -> Vec<Extent> {
    let maps: Vec<Extent> = (first.next_multiple_of(GROUP_PAGES)..end)
        .step_by(GROUP_PAGES as usize)
        .map(|first| Extent { first, pages: 1 })
        .collect();
    without(Extent { first, pages: end - first }, &maps)
}

/// Returns the same pages in as few extents as possible, ascending.
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

/// Returns the parts of `extent` that are in none of `others`, which are joined and ascending.
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

/// Adds those of some free pages to the holes that may have been punched: a page is punched only if it does not count as written
/// (E22.2).
fn add_unwritten(pool: &Pool, free: Extent, holes: &mut Vec<Extent>) {
    for page in (free.first..free.end()).filter(|&page| !pool.was_written(PageId::new(page))) {
        match holes.last_mut() {
            Some(last) if last.end() == page => last.pages += 1,
            _ => holes.push(Extent { first: page, pages: 1 }),
        }
    }
}

/// Calls `seen` for every page in use in the group of `map`, ascending.
pub(crate) fn used_from_map(pool: &Pool, map: PageId, mut seen: impl FnMut(u64)) -> Result<()> {
    let page = pool.read(map)?;
    if page.kind() == LayoutKind::NONE {
        // Never written: the map itself counts as used only once another page of its group is.
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
    /// Allocates a page. Its content is undefined: format it first, usually with [`crate::FormatFresh`].
    ///
    /// If the transaction rolls back, the page is free again. The space map is shared by all transactions: no lock is
    /// taken.
    ///
    /// # Errors
    /// The page file cannot grow: the disk is full, or [`cedrat_pages::PoolOptions::pages_max`] is reached;
    /// [`Error::LogFull`]. [`Error::PinsLog`]: the transaction was rolled back. So hold no latch that its undo takes,
    /// except within [`nested`](Txn::nested) or [`ordered`](Txn::ordered), where it rolls back later.
    pub fn allocate(&mut self) -> Result<PageId> {
        self.allocate_region(1)
    }

    /// Allocates contiguous pages, and returns the first.
    ///
    /// # Errors
    /// As [`allocate`](Txn::allocate); and if `pages` is 0 or more than [`REGION_PAGES_MAX`].
    pub fn allocate_region(&mut self, pages: u64) -> Result<PageId> {
        if pages == 0 || pages > REGION_PAGES_MAX {
            return Err(Error::RegionLength { pages, limit: REGION_PAGES_MAX });
        }
        self.alive()?;
        let extent = self.take_extent(pages)?;
        let now = self.inner().log.current_lsn(); // whatever has freed the pages is older
        let mut is_set = false;
        let done = self.as_last_step(|txn| {
            txn.set_space(extent, true)?;
            is_set = true;
            Ok(())
        });
        // Once set, only its undo gives it back: a transaction doomed during the call has been rolled back at its end.
        if done.is_err() && (!is_set || planted!("undone_allocation_given_twice")) {
            self.inner().space.give(extent);
        }
        done?;
        if !self.undoing {
            self.inner().pool.poison_allocated(extent.first_page(), extent.pages, now)?;
        }
        Ok(extent.first_page())
    }

    /// Takes free pages that the page file contains.
    fn take_extent(&self, pages: u64) -> Result<Extent> {
        let (pool, space) = (&self.inner().pool, &self.inner().space);
        if self.undoing {
            // Taken from the share of undo only if there are no others, so that the share is left to the next undo.
            let len = pool.len_pages();
            let extent = space
                .take_before(pages, len.saturating_sub(UNDO_PAGES))
                .or_else(|| space.take_before(pages, len))
                .unwrap_or_else(|| space.take(pages));
            let filled = |error| space.take_filled_before(pages, len).ok_or(error);
            // At last one that may have space nevertheless: not each hole was punched.
            let any = |error| space.take_before(pages, len).ok_or(error);
            return self.with_space(extent).or_else(filled).or_else(any);
        }
        let left = if planted!("last_pages_taken") { 0 } else { UNDO_PAGES };
        loop {
            // Nothing is taken before the file is long enough: while the disk refuses, undo may need these very pages.
            let end = pool.len_pages().saturating_sub(left);
            if let Some(extent) = space.take_before(pages, end) {
                return self.with_space(extent).or_else(|error| space.take_filled_before(pages, end).ok_or(error));
            }
            pool.ensure_len(space.end_of_next(pages) + left)?;
        }
    }

    /// Ensures that pages which were taken have space in the page file. If that fails, they are given back.
    fn with_space(&self, extent: Extent) -> Result<Extent> {
        let (pool, space) = (&self.inner().pool, &self.inner().space);
        let reserve = || {
            pool.ensure_len(extent.end())?;
            while let Some((hole, punches)) = space.hole_in(extent) {
                let least = Extent { first: hole.first, pages: hole.end().min(extent.end()) - hole.first };
                let reserve = |hole: Extent| pool.reserve(hole.first_page(), hole.pages).map(|()| hole);
                // Nearly full, a disk may have room for these pages alone.
                let filled = reserve(hole).or_else(|error| match error {
                    PoolError::DiskFull { .. } if least != hole => reserve(least),
                    _ => Err(error),
                });
                space.filled(filled?, extent, punches);
            }
            Ok(())
        };
        reserve().map(|()| extent).inspect_err(|_| space.free.lock().give(extent))
    }

    /// Frees a page. It can be allocated again when this transaction has ended.
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
        self.as_last_step(|txn| {
            let lsn = txn.set_space(extent, false)?;
            if planted!("freed_page_given_at_once") {
                txn.inner().space.give(extent);
                return Ok(());
            }
            txn.freed.push(Freed { extent, lsn });
            Ok(())
        })
    }

    /// Frees pages that lie scattered among others, in one log record of at most [`SCATTERED_LOG_BYTES`].
    ///
    /// # Errors
    /// As [`free`](Txn::free); [`Error::RegionLength`] if they are not ascending, or do not lie within one group and
    /// [`SCATTERED_PAGES`] pages. Nothing is freed then.
    pub fn free_scattered(&mut self, pages: &[PageId]) -> Result<()> {
        let (Some(first), Some(last)) = (pages.first(), pages.last()) else { return Ok(()) };
        let (map, bit) = place_of(first.get());
        let spanned = last.get().saturating_sub(first.get()) + 1;
        if !pages.is_sorted() || spanned > SCATTERED_PAGES || place_of(last.get()).0 != map {
            return Err(Error::RegionLength { pages: spanned, limit: SCATTERED_PAGES });
        }
        let mut mask = vec![0; spanned.div_ceil(8) as usize];
        for page in pages {
            let bit = page.get() - first.get();
            mask[bit as usize / 8] |= 1 << (bit % 8);
        }
        let operation = SetSpaceScattered { first: bit, mask: mask.into(), used: false };
        self.as_last_step(|txn| {
            let lsn = txn.road(RecordId::page(map), &operation, UndoOf::Own)?;
            let extents = joined(pages.iter().map(|page| Extent { first: page.get(), pages: 1 }).collect());
            SpaceChange { used: false, extents }.note(lsn, &mut txn.freed);
            Ok(())
        })
    }

    fn set_space(&mut self, extent: Extent, used: bool) -> Result<Lsn> {
        let (map, bit) = place_of(extent.first);
        let operation = SetSpace { first: bit, pages: extent.pages as u16, used };
        self.road(RecordId::page(map), &operation, UndoOf::Own)
    }

    /// Tracks the space changes of a compensation: the undo of a free takes the pages back, that of an allocation frees
    /// them.
    pub(crate) fn note_space_change(&mut self, operation: u32, at: RecordId, lsn: Lsn) {
        let numbers = self.inner().space_numbers;
        if numbers.contains(operation)
            && let Some(change) = numbers.change(operation, at.page, &self.arguments)
        {
            change.note(lsn, &mut self.freed);
        }
    }
}

#[cfg(test)]
mod tests;
