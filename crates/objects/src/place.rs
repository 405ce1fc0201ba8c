//! Placement of records: the pages of a collection, and the slots that may still be given away.
//!
//! The root page contains the numbers of the first and the last page; slot 0 of each page that of the next
//! (docs/formats/objects.md). A page is added by a nested top action and stays when the transaction rolls back; removals of
//! empty pages work the same way (E19.16).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasherDefault;

use cedrat_pages::layout::{FixedNumber, OpaqueLayout, Versioned, VersionedMut};
use cedrat_pages::{BODY_LEN, Damaged, LayoutKind, PageId, PageMut, PageRef, Slot};
use cedrat_structures::StructureError;
use cedrat_structures::chain::{PageChain, PageLink};
use cedrat_sync::{Arc, Mutex, RwLock, RwLockReadGuard, planted};
use cedrat_txn::locks::{LockMode, Resource};
use cedrat_txn::object_cache::{DeferredChanges, InDoubtRecords, Keeper, RecordLocks};
use cedrat_txn::{
    Error, FormatFresh, Operation, RecordId, Refused, Registry, Result, SetRange, SmallBytes, Store, Txn, Undo,
    VersionedDelete, VersionedInsert, VersionedUpdate,
};
use serde::{Deserialize, Serialize};

use crate::cache::Cache;
use crate::record::{self, Header, LINK, ObjectPage, said};
use crate::slots::{SlotSearch, Slots};
use crate::state::PlaceHasher;

/// Layout of the root page of a collection.
pub(crate) const ROOT: LayoutKind = LayoutKind(23);

/// Offsets of the maker, and of the word that is not zero once the collection was dropped.
const MAKER_AT: usize = 16;
const STATE_AT: usize = 24;

/// The numbers of the root page, for tools.
const NUMBERS: &[FixedNumber] = &[
    FixedNumber::new("first page", 0, 8),
    FixedNumber::new("last page", 8, 8),
    FixedNumber::new("transaction that has made it", MAKER_AT, 8),
    FixedNumber::new("dropped", STATE_AT, 8),
];

/// Identification of a collection in its root page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identification {
    /// Transaction that has created it, and no other collection with this root.
    maker: u64,
    is_dropped: bool,
}

impl Identification {
    /// Reads the identification of an existing collection.
    pub(crate) fn read(store: &Store, root: PageId) -> Result<Identification> {
        let page = store.read(root)?;
        if page.kind() != ROOT {
            return Err(said(store, Damaged::wrong_kind(root)));
        }
        let word = |at| page.u64_at(at).map_err(|damaged| said(store, damaged));
        let found = Identification { maker: word(MAKER_AT)?, is_dropped: word(STATE_AT)? != 0 };
        if found.is_dropped { Err(StructureError::Gone { root }.into()) } else { Ok(found) }
    }

    /// Writes the identification of a collection that this transaction creates.
    pub(crate) fn write(txn: &mut Txn, root: PageId) -> Result<()> {
        let bytes = SmallBytes::from(&txn.id().0.to_le_bytes()[..]);
        txn.update(RecordId::page(root), &SetRange { offset: MAKER_AT as u16, bytes })
    }

    /// Marks the collection as dropped, before its pages are freed, which keep their content.
    pub(crate) fn bury(txn: &mut Txn, root: PageId) -> Result<()> {
        let bytes = SmallBytes::from(&1_u64.to_le_bytes()[..]);
        txn.update(RecordId::page(root), &SetRange { offset: STATE_AT as u16, bytes })
    }
}

/// First and last page; stored as 0 if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) first: Option<PageId>,
    pub(crate) last: Option<PageId>,
}

impl Ends {
    /// Reads a root page; `None` for another kind of page.
    pub(crate) fn of(page: &PageRef<'_>) -> Result<Option<Ends>, Damaged> {
        if page.kind() != ROOT {
            return Ok(None);
        }
        let page_at = |offset| page.u64_at(offset).map(|number| (number != 0).then(|| PageId::new(number)));
        Ok(Some(Ends { first: page_at(0)?, last: page_at(8)? }))
    }

    fn set(self) -> SetRange {
        let mut bytes = SmallBytes::new();
        for page in [self.first, self.last] {
            bytes.extend_from_slice(&page.map_or(0, PageId::get).to_le_bytes());
        }
        SetRange { offset: 0, bytes }
    }
}

/// Removes a record that is no longer needed: the end of its object is committed. Redo-only: it stays removed, whether or not
/// the transaction that found it commits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Purge {
    /// The record is not dead, but a target without a forward.
    pub(crate) is_orphan: bool,
}

impl Operation for Purge {
    const NAME: &'static str = "cedrat.objects.purge.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let versioned = Versioned::of(page)?;
        let record =
            versioned.get(at)?.filter(|_| at != LINK).ok_or(Refused::new("there is no record in this slot"))?;
        let header = Header::of(record)?;
        if header.is_dead() || self.is_orphan && header.is_target() {
            Ok(Undo::none())
        } else {
            Err(Refused::new("the record holds an object"))
        }
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        let version = page.changing_at();
        VersionedMut::of(page)?.delete(at, version)
    }
}

/// Removes vacant slots of a page that are not given away any more (E19.11), so that their bytes can be used. Redo-only: the
/// new state of the page does not depend on the outcome of the transaction that found it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ForgetSlots {
    /// The last slot to remove.
    pub(crate) gone: u16,
}

impl Operation for ForgetSlots {
    const NAME: &'static str = "cedrat.objects.forget_slots.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        match Versioned::of(page)?.may_forget(self.gone)? {
            true => Ok(Undo::none()),
            false => Err(Refused::new("a slot that is to be dropped has a record")),
        }
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        VersionedMut::of(page)?.forget(self.gone)
    }
}

pub(crate) fn register(registry: Registry) -> Registry {
    let registry = registry.operation::<Purge>().operation::<ForgetSlots>();
    registry.layout(Arc::new(OpaqueLayout { kind: ROOT, name: "collection of objects, root", numbers: NUMBERS }))
}

/// State of the pages in memory.
#[derive(Debug, Default)]
struct Known {
    /// Page for the next record.
    current: Option<PageId>,
    /// Pages where records may be dead, or were purged.
    with_space: BTreeMap<PageId, BTreeSet<Slot>>,
    /// An identity is given away once (E19.11). For pages where one was, or a record was purged, including pages that have
    /// left.
    slots: HashMap<PageId, Slots, BuildHasherDefault<PlaceHasher>>,
    /// The page of each thread that is choosing a place there, or purging; no more than there are threads. The page does not
    /// leave meanwhile.
    visits: Vec<PageId>,
}

/// Presence of a thread in a page of the collection, which does not leave it meanwhile (E19.16). The thread may wait for I/O;
/// other threads do not wait for it.
struct Visit<'p> {
    places: &'p Places,
    page: PageId,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let mut known = self.places.known.lock();
        let visit = known.visits.iter().rposition(|&page| page == self.page).expect("it was entered");
        known.visits.swap_remove(visit);
    }
}

/// Result of a search for a place that reads no page.
enum Candidate<'p> {
    Place(RecordId),
    Page(Visit<'p>),
    None,
}

/// A place for a future record: neither the place nor its space in the page is given away again. Dropping it releases the
/// space (E19.14), but not the place (E19.11).
#[derive(Debug)]
pub(crate) struct PlaceReservation<'p> {
    pub(crate) places: &'p Places,
    pub(crate) at: RecordId,
    /// Length of the record, in bytes.
    len: usize,
}

impl Drop for PlaceReservation<'_> {
    fn drop(&mut self) {
        self.places.give_back(self.at.page, self.len);
    }
}

/// Allocator of places for records.
#[derive(Debug)]
pub(crate) struct Places {
    root: PageId,
    known: Mutex<Known>,
    /// Held while a page is added or removed.
    growing: Mutex<()>,
    /// Held shared by threads that iterate over all pages; exclusively by a thread that removes a page (E19.16), which never
    /// waits for it. A thread that chooses a place in one page [visits](Visit) that page.
    leaving: RwLock<()>,
}

impl Places {
    pub(crate) fn new(root: PageId, ends: Ends) -> Places {
        let known = Known { current: ends.last, ..Known::default() };
        Places { root, known: Mutex::new(known), growing: Mutex::default(), leaving: RwLock::default() }
    }

    /// Inserts a record, in a place that was not used since the collection was opened, and locks it to the end of the
    /// transaction.
    ///
    /// Its page is not locked: the undo of the insertion vacates a slot that no other transaction has (E19.11), keeps the
    /// version, and needs no space. With a lock, two transactions that insert into one page, and have locked an object
    /// before, would be each other's victims again and again.
    pub(crate) fn insert(&self, txn: &mut Txn, cache: &Cache, keeper: &Keeper, record: Vec<u8>) -> Result<RecordId> {
        let promise = self.promise(txn, cache, record.len())?;
        self.keep(txn, cache, keeper, promise, record)
    }

    /// Finds a place for a record of this length, and locks it to the end of the transaction.
    pub(crate) fn promise(&self, txn: &mut Txn, cache: &Cache, len: usize) -> Result<PlaceReservation<'_>> {
        loop {
            let promise = match self.visit_some(cache, len) {
                Candidate::Place(at) => PlaceReservation { places: self, at, len },
                Candidate::Page(visit) => match self.promise_in(txn, cache, visit, len)? {
                    Some(promise) => promise,
                    None => continue,
                },
                Candidate::None => {
                    self.add_page(txn)?;
                    continue;
                }
            };
            if txn.has_whole(self.root, LockMode::Exclusive) {
                return Ok(promise);
            }
            match txn.lock_unless_in_doubt(Resource::Record(promise.at), LockMode::Exclusive) {
                Ok(()) => return Ok(promise),
                // A branch in doubt since an earlier opening had it, and left it vacant: the next place is as good.
                Err(Error::InDoubt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Finds a place in the page that is visited; `None` if there is none yet, or none any more.
    fn promise_in(
        &self,
        txn: &mut Txn,
        cache: &Cache,
        visit: Visit<'_>,
        len: usize,
    ) -> Result<Option<PlaceReservation<'_>>> {
        let page = visit.page;
        self.purge_dead(txn, cache, page)?;
        match self.take_slot(txn, page, len)? {
            // The visit ends when the page has promised a place.
            SlotSearch::Slot(slot) => Ok(Some(PlaceReservation { places: self, at: RecordId::new(page, slot), len })),
            SlotSearch::Behind(gone) => {
                self.forget_slots(txn, page, gone)?;
                Ok(None)
            }
            SlotSearch::None => {
                self.mark_full(page);
                Ok(None)
            }
        }
    }

    /// Inserts the record that a place was promised to.
    pub(crate) fn keep(
        &self,
        txn: &mut Txn,
        cache: &Cache,
        keeper: &Keeper,
        promise: PlaceReservation<'_>,
        record: Vec<u8>,
    ) -> Result<RecordId> {
        let at = promise.at;
        assert_eq!(record.len(), promise.len, "a record is as long as the room that it was promised");
        // Refused before anything was done.
        txn.may_keep(keeper)?;
        // Before its page shows it: a reader without locks checks in the other order (E19.13).
        cache.note_insertion(txn.id(), at);
        let insertion = VersionedInsert { record: record.into() };
        let inserted = txn.as_one_call(|txn| {
            txn.update_logical(at, &insertion, Undo::op(VersionedDelete {}))?;
            txn.kept(keeper, at)
        });
        if let Err(error) = inserted {
            cache.forget_insertion(txn.id(), at);
            return Err(error);
        }
        Ok(at)
    }

    /// Returns whether records of this length in all were promised space in a page, which then belongs to the collection.
    pub(crate) fn has_promised(&self, page: PageId, len: usize) -> bool {
        let known = self.known.lock();
        known.slots.get(&page).is_some_and(|slots| slots.promised >= len)
    }

    fn give_back(&self, page: PageId, len: usize) {
        let mut known = self.known.lock();
        known.slots.get_mut(&page).expect("it was promised").promised -= len;
    }

    /// Takes a place for a record of this length, if a page is known to have one; otherwise enters a page that may have space.
    fn visit_some(&self, cache: &Cache, len: usize) -> Candidate<'_> {
        let died = cache.take_died();
        let mut known = self.known.lock();
        for at in died {
            if !known.is_away(at.page) {
                known.with_space.entry(at.page).or_default().insert(at.slot);
            }
        }
        if let Some(at) = known.take_within_spare(len) {
            return Candidate::Place(at);
        }
        let Some(page) = known.current.or_else(|| known.with_space.keys().next().copied()) else {
            return Candidate::None;
        };
        known.visit(page);
        Candidate::Page(Visit { places: self, page })
    }

    /// Enters this page, unless it is leaving.
    fn visit(&self, page: PageId) -> Option<Visit<'_>> {
        let mut known = self.known.lock();
        (!known.is_away(page)).then(|| {
            known.visit(page);
            Visit { places: self, page }
        })
    }

    /// Notes a page for insertions, if it has space, or dead records.
    pub(crate) fn offer(&self, store: &Store, page: PageId) -> Result<()> {
        /// Less space is not worth a visit.
        const SPACE_LEN: usize = BODY_LEN / 4;
        let view = store.read(page)?;
        let mut known = self.known.lock();
        let mut offer = || -> Result<(), Damaged> {
            let objects = self.own(&view)?.filter(|_| !known.is_away(page));
            let Some(objects) = objects else { return Ok(()) };
            let mut dead = BTreeSet::new();
            for slot in objects.slots() {
                let is_dead = objects.get(slot)?.is_some_and(|found| found.header.is_dead());
                if is_dead && !store.is_changed_in_doubt(RecordId::new(page, slot)) {
                    dead.insert(slot);
                }
            }
            // The state of a page without promised places is not kept: a sweep visits all pages.
            let unknown;
            let slots = match known.slots.get(&page) {
                Some(slots) => slots,
                None => {
                    unknown = Slots::of(&objects.versioned)?;
                    &unknown
                }
            };
            let has_space = objects.versioned.room(slots.peek())?.is_some_and(|room| room >= SPACE_LEN)
                || slots.may_go(&objects.versioned, SPACE_LEN, true)?.is_some();
            if has_space || !dead.is_empty() {
                known.with_space.entry(page).or_default().extend(dead);
            }
            Ok(())
        };
        offer().map_err(|damaged| said(store, damaged))
    }

    /// Prevents the removal of pages until the guard is dropped. Its holder waits for no lock.
    fn no_page_leaves(&self) -> RwLockReadGuard<'_, ()> {
        self.leaving.read()
    }

    fn mark_full(&self, page: PageId) {
        let mut known = self.known.lock();
        known.with_space.retain(|&other, slots| other != page || !slots.is_empty());
        known.current.take_if(|current| *current == page);
    }

    /// Returns a slot of this page, if it has space for `len` bytes; or the slots that the caller must remove for that.
    fn take_slot(&self, txn: &Txn, page: PageId, len: usize) -> Result<SlotSearch> {
        let view = txn.read_latched(page)?;
        let mut known = self.known.lock();
        let mut take = || -> Result<SlotSearch, Damaged> {
            let versioned = Versioned::of(&view)?;
            let slots = known.slots_of(page, &versioned)?;
            let slot = slots.peek();
            // Slots are given away in order, so the space at this one is what those before it leave in the directory.
            let promised = if planted!("promised_room_taken") { 0 } else { slots.promised };
            let is_full = versioned.room(slot)?.is_none_or(|room| room < promised + len);
            if let Some(gone) = slots.may_go(&versioned, len, is_full)? {
                slots.vacant.retain(|vacant| vacant.0 > gone);
                slots.is_forgetting = true;
                return Ok(SlotSearch::Behind(gone));
            }
            if is_full {
                return Ok(SlotSearch::None);
            }
            slots.take();
            slots.promised += len;
            slots.note_space(versioned.room(slot)?);
            known.current.get_or_insert(page);
            Ok(SlotSearch::Slot(slot))
        };
        take().map_err(|damaged| said(txn.store(), damaged))
    }

    /// Removes slots that are not given away any more.
    fn forget_slots(&self, txn: &mut Txn, page: PageId, gone: u16) -> Result<()> {
        let done = txn.update_latched(RecordId::page(page), &ForgetSlots { gone });
        let mut known = self.known.lock();
        known.slots.get_mut(&page).expect("it was taken from").is_forgetting = false;
        // Other threads may have found the page full meanwhile.
        known.with_space.entry(page).or_default();
        done
    }

    /// Purges the records of this page whose end was committed (E19.10).
    fn purge_dead(&self, txn: &mut Txn, cache: &Cache, page: PageId) -> Result<()> {
        let Some(dead) = self.known.lock().with_space.remove(&page) else { return Ok(()) };
        let mut dead = dead.into_iter();
        let purged = dead.try_for_each(|slot| self.purge(txn, cache, RecordId::new(page, slot)));
        if purged.is_err() {
            // The rest is left to the next insertion, or to a sweep.
            self.known.lock().with_space.entry(page).or_default().extend(dead);
        }
        purged
    }

    /// Purges a record, if it is dead and that cannot be undone.
    fn purge(&self, txn: &mut Txn, cache: &Cache, at: RecordId) -> Result<()> {
        let store = txn.store().clone();
        // The cache does not know the changes of branches that were prepared in an earlier opening (E19.10).
        let may_be_undone = store.is_changed_in_doubt(at) || !cache.hand_over(at, &store)?;
        if may_be_undone && !planted!("removal_not_awaited") {
            return Ok(());
        }
        let is_dead = {
            let view = txn.read_latched(at.page)?;
            let found = ObjectPage::of(&view).map_err(|damaged| said(&store, damaged))?;
            let Some(objects) = found else { return Ok(()) };
            // Before it becomes vacant, so that it is not given away.
            self.known.lock().slots_of(at.page, &objects.versioned).map_err(|damaged| said(&store, damaged))?;
            let found = objects.get(at.slot).map_err(|damaged| said(&store, damaged))?;
            found.is_some_and(|found| found.header.is_dead())
        };
        if !is_dead {
            return Ok(());
        }
        match txn.update_latched(at, &Purge { is_orphan: false }) {
            // A sweep has offered the page again, and another thread has purged the record. The place is not given away
            // (E19.11).
            Err(Error::Refused(_)) if is_vacant(txn, at)? => Ok(()),
            purged => purged,
        }
    }

    /// Purges a record that a sweep of a locked collection has found. Returns `false` if its change is in doubt.
    pub(crate) fn purge_found(&self, txn: &mut Txn, cache: &Cache, at: RecordId, is_orphan: bool) -> Result<bool> {
        let store = txn.store().clone();
        // A transaction without isolation has no lock that would show it.
        if store.is_changed_in_doubt(at) || !cache.hand_over(at, &store)? {
            return Ok(false);
        }
        {
            let view = txn.read_latched(at.page)?;
            let versioned = Versioned::of(&view).map_err(|damaged| said(&store, damaged))?;
            self.known.lock().slots_of(at.page, &versioned).map_err(|damaged| said(&store, damaged))?;
        }
        txn.update_latched(at, &Purge { is_orphan })?;
        self.known.lock().with_space.entry(at.page).or_default();
        Ok(true)
    }

    /// Adds an empty page behind the last one.
    fn add_page(&self, txn: &mut Txn) -> Result<()> {
        let growing = self.growing.lock();
        if self.known.lock().current.is_some() {
            return Ok(()); // another thread has added one
        }
        let root = self.root;
        let page = txn.nested((), |txn| {
            let mut ends = ends(txn.store(), root)?;
            let page = txn.allocate()?;
            txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::VERSIONED))?;
            let link = |next| PageLink::new(root, next).record();
            txn.update(RecordId::new(page, LINK), &VersionedInsert { record: link(None) })?;
            match ends.last {
                Some(last) => txn.update(RecordId::new(last, LINK), &VersionedUpdate { record: link(Some(page)) })?,
                None => ends.first = Some(page),
            }
            ends.last = Some(page);
            txn.update(RecordId::page(root), &ends.set())?;
            Ok((page, Undo::none()))
        })?;
        let mut known = self.known.lock();
        // The collection may have had this page before.
        if let Some(slots) = known.slots.get_mut(&page) {
            (slots.is_away, slots.spare) = (false, 0);
        }
        known.current = Some(page);
        drop(growing);
        Ok(())
    }

    /// Returns the pages of the collection, first to last.
    pub(crate) fn pages(&self, store: &Store) -> Result<Vec<PageId>> {
        let _no_page_leaves = self.no_page_leaves();
        pages(store, self.root)
    }

    /// Removes a page without records from the collection, and frees it (E19.16). `before` is its predecessor. Returns
    /// `false` without a change for the last page, and if a place in the page is promised or about to be.
    pub(crate) fn take_out(&self, txn: &mut Txn, cache: &Cache, before: PageId, page: PageId) -> Result<bool> {
        /// A page that comes back must have enough places left.
        const PLACES_MIN: u16 = 1 << 10;
        if !self.purge_all(txn, cache, page)? {
            return Ok(false);
        }
        // Does not wait for long iterations: the next collection comes here too.
        let Some(_alone) = self.leaving.try_write() else { return Ok(false) };
        let _growing = self.growing.lock();
        let link_of = |txn: &Txn, page| -> Result<Option<(Option<PageId>, bool)>> {
            let view = txn.read_latched(page)?;
            let found = self.own(&view).and_then(|own| {
                let Some(own) = own else { return Ok(None) };
                Ok(Some((own.link.next, own.versioned.first_record()?.is_none())))
            });
            found.map_err(|damaged| said(txn.store(), damaged))
        };
        let next = match (link_of(txn, before)?, link_of(txn, page)?) {
            (Some((Some(to), _)), Some((next @ Some(_), true))) if to == page => next,
            _ => return Ok(false),
        };
        let is_free = {
            let view = txn.read_latched(page)?;
            let mut known = self.known.lock();
            let is_visited = known.visits.contains(&page);
            let versioned = Versioned::of(&view).map_err(|damaged| said(txn.store(), damaged))?;
            // Checked again: a place that was promised before may have its record now, and is promised no longer.
            let is_empty = versioned.first_record().map_err(|damaged| said(txn.store(), damaged))?.is_none();
            let slots = known.slots_of(page, &versioned).map_err(|damaged| said(txn.store(), damaged))?;
            let is_promised = slots.promised > 0 && !planted!("promised_page_leaves");
            let is_free = is_empty && !is_visited && !is_promised && u16::MAX - slots.next >= PLACES_MIN;
            if is_free {
                (slots.is_away, slots.vacant) = (true, Vec::new());
                known.with_space.remove(&page);
                known.current.take_if(|current| *current == page);
            }
            is_free
        };
        if !is_free {
            return Ok(false);
        }
        let root = self.root;
        let taken_out = txn.nested((), |txn| {
            let record = PageLink::new(root, next).record();
            txn.update(RecordId::new(before, LINK), &VersionedUpdate { record })?;
            // A freed page keeps its bytes for a while: they must not show that it belongs to this collection (S6).
            txn.update(RecordId::new(page, LINK), &VersionedDelete {})?;
            txn.free(page)?;
            Ok(((), Undo::none()))
        });
        if taken_out.is_err() {
            let mut known = self.known.lock();
            known.slots.get_mut(&page).expect("it was looked at").is_away = false;
            known.with_space.entry(page).or_default();
        }
        taken_out.map(|()| true)
    }

    /// Purges all records of a page, if all are dead; returns whether they were.
    fn purge_all(&self, txn: &mut Txn, cache: &Cache, page: PageId) -> Result<bool> {
        let Some(_visit) = self.visit(page) else { return Ok(false) };
        let store = txn.store().clone();
        let records = {
            let view = txn.read_latched(page)?;
            let found = self.own(&view).and_then(|own| {
                let Some(own) = own else { return Ok(Vec::new()) };
                own.slots()
                    .map(|slot| Ok(own.get(slot)?.map(|found| (slot, found.header.is_dead()))))
                    .filter_map(Result::transpose)
                    .collect()
            });
            found.map_err(|damaged| said(&store, damaged))?
        };
        // For most records, the end is in the cache only. The purge checks whether it is committed.
        let is_dead = |&(slot, is_dead): &(Slot, bool)| {
            is_dead || cache.peek(RecordId::new(page, slot)).is_some_and(|image| record::is_dead(&image.bytes))
        };
        if !records.iter().all(is_dead) {
            return Ok(false);
        }
        records.into_iter().try_for_each(|(slot, _)| self.purge(txn, cache, RecordId::new(page, slot)))?;
        Ok(true)
    }

    /// Returns a page of this collection, parsed.
    fn own<'p>(&self, view: &'p PageRef<'_>) -> Result<Option<ObjectPage<'p>>, Damaged> {
        Ok(ObjectPage::of(view)?.filter(|objects| objects.link.root == self.root))
    }
}

impl Known {
    /// Returns whether the page has left the collection, or is about to.
    fn is_away(&self, page: PageId) -> bool {
        self.slots.get(&page).is_some_and(|slots| slots.is_away)
    }

    /// Takes a place in the page for the next record, if that certainly has space, and no records to purge before.
    fn take_within_spare(&mut self, len: usize) -> Option<RecordId> {
        let page = self.current?;
        if !self.with_space.is_empty() && self.with_space.contains_key(&page) {
            return None;
        }
        let slot = self.slots.get_mut(&page)?.take_within_spare(len)?;
        Some(RecordId::new(page, slot))
    }

    fn visit(&mut self, page: PageId) {
        debug_assert!(!self.is_away(page), "E19.16: no record is placed in a page that leaves");
        self.visits.push(page);
    }

    fn slots_of(&mut self, page: PageId, versioned: &Versioned<'_>) -> Result<&mut Slots, Damaged> {
        Ok(match self.slots.entry(page) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(vacant) => vacant.insert(Slots::of(versioned)?),
        })
    }
}

fn is_vacant(txn: &Txn, at: RecordId) -> Result<bool> {
    let view = txn.read_latched(at.page)?;
    let record = Versioned::of(&view).and_then(|versioned| versioned.get(at.slot));
    Ok(record.map_err(|damaged| said(txn.store(), damaged))?.is_none())
}

/// Reads the ends of the collection from its root page.
pub(crate) fn ends(store: &Store, root: PageId) -> Result<Ends> {
    let page = store.read(root)?;
    let found = Ends::of(&page).map_err(|damaged| said(store, damaged))?;
    found.ok_or_else(|| said(store, Damaged::wrong_kind(root)))
}

/// Returns the pages of a collection, first to last.
fn pages(store: &Store, root: PageId) -> Result<Vec<PageId>> {
    PageChain::of(store, root).pages(ends(store, root)?.first, |page| {
        let view = store.read(page)?;
        let objects = ObjectPage::of(&view).map_err(|damaged| said(store, damaged))?;
        Ok(objects.map(|objects| objects.link))
    })
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use cedrat_media::{Media, SimDisk};

    use super::*;
    use crate::{Objects, Options};

    /// E19.16: no page leaves while a thread iterates over the pages, or chooses a place.
    #[test]
    fn walk_along_pages_finds_each() {
        let registry = Registry::new().with(cedrat_structures::register).with(crate::register);
        let disk: Arc<dyn Media> = Arc::new(SimDisk::new());
        let store = Store::open(disk, cedrat_txn::Options::simulated(), registry).unwrap();
        let objects = Objects::create(&store, "objects", Options::default()).unwrap();
        let ids = [(); 3].map(|()| store.transact(|txn| objects.insert(txn, &[1; 3700])).unwrap());
        store.transact(|txn| objects.remove(txn, ids[1])).unwrap();
        let take_out = || store.transact(|txn| objects.take_out(txn, ids[0].page, ids[1].page)).unwrap();
        let goes_along = objects.shared.places.no_page_leaves();
        assert!(!take_out());
        drop(goes_along);
        assert_eq!(objects.pages(&store).unwrap(), ids.map(|id| id.page));
        assert!(take_out());
        assert_eq!(objects.pages(&store).unwrap(), [ids[0].page, ids[2].page]);
        assert!(!take_out(), "it is not the collection's any more");
    }

    /// A sweep visits all pages, also of a collection that is larger than memory.
    #[test]
    fn offered_pages_are_not_remembered() {
        let disk: Arc<dyn Media> = Arc::new(SimDisk::new());
        let open = || {
            let registry = Registry::new().with(cedrat_structures::register).with(crate::register);
            Store::open(Arc::clone(&disk), cedrat_txn::Options::simulated(), registry).unwrap()
        };
        let remembered = |objects: &Objects| objects.shared.places.known.lock().slots.len();
        let store = open();
        let objects = Objects::create(&store, "objects", Options::default()).unwrap();
        for len in [3700, 100].repeat(10) {
            store.transact(|txn| objects.insert(txn, &vec![1; len])).unwrap();
        }
        let pages = objects.pages(&store).unwrap();
        assert_eq!(remembered(&objects), pages.len());
        store.close().unwrap();
        let store = open();
        let objects = Objects::open(&store, "objects", Options::default()).unwrap();
        pages.iter().for_each(|&page| objects.offer_space(&store, page).unwrap());
        assert_eq!(remembered(&objects), 0);
        store.transact(|txn| objects.insert(txn, b"another")).unwrap();
        assert!((1..3).contains(&remembered(&objects)));
    }
}
