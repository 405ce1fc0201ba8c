//! Records: bytes at a page and a slot (Lemon §4.4, `recordid`), and the operations on one of them.
//!
//! Lists and arrays are built from the four operations, and your own structures can be too. Their undo is
//! physiological: it finds its page by number and its record by slot. So their callers must prevent others from taking
//! the slot or its room meanwhile: with the page locks of [`Txn::update`] (as [`Records`] does), or with the big lock
//! of [`Txn::isolated`] (as [`List`](crate::List) does).

use cedrat_pages::layout::{Fixed, FixedMut, Slotted, SlottedMut};
use cedrat_pages::{Damaged, LayoutKind, PageId, PageMut, PageRef, Slot};
use cedrat_sync::planted;
use cedrat_txn::locks::{LockMode, Resource};
use cedrat_txn::{Error, FormatFresh, Operation, RecordId, Refused, Registry, Result, SmallBytes, Store, Txn, Undo};
use serde::{Deserialize, Serialize};

use crate::catalogue::Kind;
use crate::chain::{PageChain, PageLink};
use crate::checked::Checked;
use crate::ends::{self, Ends, Place, SetEnds};
use crate::error::{OfStore, StructureError, damaged};
use crate::{kinds, named};

/// Inserts a record into a vacant slot of a slotted page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsertRecord {
    /// The record.
    pub record: SmallBytes,
}

impl Operation for InsertRecord {
    const NAME: &'static str = "cedrat.record.insert.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let slotted = Slotted::of(page)?;
        if slotted.get(at)?.is_some() {
            return Err(Refused::new("there is a record in this slot already"));
        }
        if slotted.room(at)?.is_none_or(|room| room < self.record.len()) {
            return Err(Refused::new("the record does not fit the page"));
        }
        Ok(Undo::op(DeleteRecord {}))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        SlottedMut::of(page)?.insert(at, &self.record)
    }
}

/// Replaces a record of a slotted page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateRecord {
    /// The new record.
    pub record: SmallBytes,
}

impl Operation for UpdateRecord {
    const NAME: &'static str = "cedrat.record.update.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let slotted = Slotted::of(page)?;
        let old = slotted.get(at)?.ok_or(Refused::new("there is no record in this slot"))?;
        if slotted.room(at)?.is_none_or(|room| room < self.record.len()) {
            return Err(Refused::new("the record does not fit the page"));
        }
        Ok(Undo::op(UpdateRecord { record: old.into() }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        SlottedMut::of(page)?.update(at, &self.record)
    }
}

/// Deletes a record from a slotted page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteRecord {}

impl Operation for DeleteRecord {
    const NAME: &'static str = "cedrat.record.delete.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let slotted = Slotted::of(page)?;
        let old = slotted.get(at)?.ok_or(Refused::new("there is no record in this slot"))?;
        Ok(Undo::op(InsertRecord { record: old.into() }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        SlottedMut::of(page)?.delete(at)
    }
}

/// Overwrites the front of a record on a page of fixed-length records; its undo is the before-image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetFixed {
    /// The new front of the record.
    pub record: SmallBytes,
}

impl Operation for SetFixed {
    const NAME: &'static str = "cedrat.record.set_fixed.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let fixed = Fixed::of(page)?;
        let old = fixed.get(at).ok_or(Refused::new("there is no record of this number"))?;
        let old = old.get(..self.record.len()).ok_or(Refused::new("the page's records are shorter than this one"))?;
        Ok(Undo::op(SetFixed { record: old.into() }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        FixedMut::of(page)?.set(at, &self.record)
    }
}

pub(crate) fn register(registry: Registry) -> Registry {
    registry.operation::<InsertRecord>().operation::<UpdateRecord>().operation::<DeleteRecord>().operation::<SetFixed>()
}

/// Maximum length of a record of [`Records`] and [`List`](crate::List), in bytes; a list needs some of them itself. A
/// log record must hold two, before and after, in the smallest log too.
pub(crate) const SLOTTED_LEN_MAX: usize = 3800;
const _: () = assert!(SLOTTED_LEN_MAX + 4 + PageLink::LEN <= Slotted::RECORD_LEN_MAX);

pub(crate) const LINK: Slot = PageLink::SLOT;

/// Room from which on a page is listed as spare: one that is listed later fills up soon, and each listing changes the root.
const SPARE_SPACE_MIN: usize = Slotted::RECORD_LEN_MAX / 2;

/// Maximum number of spare pages that one insert tries. Those without room for the record are listed no longer.
const SPARES_TRIED: usize = 8;

/// Returns the link of a page, if it belongs to a collection.
fn link_of(page: &PageRef<'_>) -> Result<Option<PageLink>, Damaged> {
    if page.kind() != LayoutKind::SLOTTED {
        return Ok(None);
    }
    Ok(Slotted::of(page)?.get(LINK)?.and_then(PageLink::of))
}

/// A collection of records of any bytes, each found by its [`RecordId`], which a record keeps as long as it exists. An
/// address outside of the collection is refused, also that of another collection.
///
/// Isolation is by page, as in Lemon §4.1: a transaction locks the pages whose records it reads or changes. Records are
/// on slotted pages; slot 0 of each names its collection and the next page.
///
/// If the store's lock manager does not lock, only one transaction at a time may use the collection.
#[derive(Clone, Debug)]
pub struct Records {
    root: PageId,
}

impl Records {
    /// Creates an empty collection under a new name.
    ///
    /// # Errors
    /// [`StructureError::NameTaken`]; those of any change.
    pub fn create(txn: &mut Txn, name: &str) -> Result<Records> {
        let make = |txn: &mut Txn| -> Result<Records> {
            let root = txn.allocate()?;
            txn.update(RecordId::page(root), &FormatFresh::new(kinds::RECORDS_ROOT))?;
            Records::open_root(txn.store(), root)
        };
        named::create(txn, name, Kind::Records, 0, make, Records::root)
    }

    /// Opens the collection of this name.
    ///
    /// # Errors
    /// [`StructureError::NoSuchName`], [`StructureError::WrongKind`].
    pub fn open(txn: &mut Txn, name: &str) -> Result<Records> {
        let root = named::root(txn, name, Kind::Records, 0)?;
        Records::open_root(txn.store(), root)
    }

    /// Opens the collection with this root page.
    ///
    /// # Errors
    /// [`StructureError::WrongRoot`].
    pub fn open_root(store: &Store, root: PageId) -> Result<Records> {
        ends::open(store, root, kinds::RECORDS_ROOT)?;
        Ok(Records { root })
    }

    /// Returns the root page, which identifies the collection.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// Inserts a record, and returns its address.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::Deadlock`] from the lock on a page; a full log or disk.
    pub fn insert(&self, txn: &mut Txn, record: &[u8]) -> Result<RecordId> {
        check_len(record, SLOTTED_LEN_MAX)?;
        txn.lock(Resource::Structure(self.root), LockMode::IntentionExclusive)?;
        let mut ends = self.ends(txn)?;
        for _ in 0..SPARES_TRIED {
            if ends.spare == 0 {
                break;
            }
            let spare = PageId::new(ends.spare);
            if let Some(at) = insert_on(txn, spare, record)? {
                return Ok(at);
            }
            self.unlist(txn, &mut ends, spare)?;
        }
        if let Some(last) = ends.last.record()
            && let Some(at) = insert_on(txn, last.page, record)?
        {
            return Ok(at);
        }
        let page = as_a_whole(txn, |txn| self.add_page(txn, ends))?;
        insert_on(txn, page, record)?.ok_or_else(|| damaged(txn.store(), page, "a fresh page has no room"))
    }

    /// Returns the record at `at`.
    ///
    /// # Errors
    /// [`StructureError::NoSuchRecord`]; [`Error::Deadlock`] from the lock on the page.
    pub fn read(&self, txn: &mut Txn, at: RecordId) -> Result<Vec<u8>> {
        txn.lock(Resource::Structure(self.root), LockMode::IntentionShared)?;
        self.find(txn, at, LockMode::Shared, <[u8]>::to_vec)
    }

    /// Replaces the record at `at`.
    ///
    /// # Errors
    /// [`StructureError::NoSuchRecord`]; [`Error::Refused`] if its page has no room for it: delete it and insert it
    /// again; [`Error::TooLarge`]; [`Error::Deadlock`].
    pub fn update(&self, txn: &mut Txn, at: RecordId, record: &[u8]) -> Result<()> {
        check_len(record, SLOTTED_LEN_MAX)?;
        txn.lock(Resource::Structure(self.root), LockMode::IntentionExclusive)?;
        self.find(txn, at, LockMode::Exclusive, |_| ())?;
        txn.update(at, &UpdateRecord { record: record.into() })
    }

    /// Deletes the record at `at`.
    ///
    /// # Errors
    /// [`StructureError::NoSuchRecord`]; [`Error::Deadlock`].
    pub fn delete(&self, txn: &mut Txn, at: RecordId) -> Result<()> {
        txn.lock(Resource::Structure(self.root), LockMode::IntentionExclusive)?;
        self.find(txn, at, LockMode::Exclusive, |_| ())?;
        as_a_whole(txn, |txn| {
            txn.update(at, &DeleteRecord {})?;
            let ends = self.ends(txn)?;
            if ends.last.page == at.page.get() {
                return Ok(()); // the next insert tries there in any case
            }
            self.list(txn, ends, at.page)
        })
    }

    /// Returns all records with their addresses, in the order of pages and slots. The collection is locked shared to
    /// the end of the transaction.
    ///
    /// # Errors
    /// [`Error::Deadlock`]; damage.
    pub fn all(&self, txn: &mut Txn) -> Result<Vec<(RecordId, Vec<u8>)>> {
        txn.lock(Resource::Structure(self.root), LockMode::Shared)?;
        let mut all = Vec::new();
        for page in self.pages(txn)? {
            let view = txn.read_latched(page)?;
            for record in Slotted::of(&view).of_store(txn.store())?.iter() {
                let (slot, record) = record.of_store(txn.store())?;
                if slot != LINK {
                    all.push((RecordId::new(page, slot), record.to_vec()));
                }
            }
        }
        Ok(all)
    }

    /// Frees the collection's pages.
    ///
    /// # Errors
    /// [`Error::Deadlock`] from the lock on the collection.
    pub fn drop(self, txn: &mut Txn) -> Result<()> {
        txn.isolated(self.root, |txn| {
            for page in self.pages(txn)? {
                // Freed pages keep their bytes for a while: these must not name a later owner of this root (S6).
                if !planted!("link_of_freed_page_kept") {
                    txn.update(RecordId::new(page, LINK), &DeleteRecord {})?;
                }
                txn.free(page)?;
            }
            txn.update(RecordId::page(self.root), &SetEnds(Ends::default()))?;
            txn.free(self.root)
        })
    }

    /// Walks the collection and verifies it.
    ///
    /// # Errors
    /// Only those that prevent the walk. Defects are in the result.
    pub fn check(&self, txn: &Txn) -> Result<Checked> {
        let mut checked = Checked::default();
        checked.pages.push(self.root);
        let pages = match self.pages(txn) {
            Ok(pages) => pages,
            Err(error) => return Ok(checked.with_problem(self.root, error)),
        };
        for page in pages {
            checked.pages.push(page);
            let view = txn.read_latched(page)?;
            let looked = Slotted::of(&view).and_then(|slotted| {
                slotted.check()?;
                let mut lengths = Vec::new();
                for record in slotted.iter() {
                    let (slot, record) = record?;
                    lengths.extend((slot != LINK).then_some(record.len() as u64));
                }
                Ok(lengths)
            });
            match looked {
                Ok(lengths) => {
                    checked.elements += lengths.len() as u64;
                    checked.bytes += lengths.iter().sum::<u64>();
                }
                Err(error) => checked.problem(page, error),
            }
        }
        Ok(checked)
    }

    fn ends(&self, txn: &Txn) -> Result<Ends> {
        ends::read(&*txn.read(self.root)?, kinds::RECORDS_ROOT)
    }

    /// Finds a record in a page of this collection, and locks the page. The collection is already locked, so the page
    /// remains in it.
    fn find<R>(&self, txn: &mut Txn, at: RecordId, mode: LockMode, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let none = || StructureError::NoSuchRecord { record: at };
        if at.slot == LINK || !self.has(txn, at.page)? {
            return Err(none().into());
        }
        txn.lock(Resource::Page(at.page), mode)?;
        let view = txn.read_latched(at.page)?;
        // The transaction that added the page may have been rolled back meanwhile.
        let record = self.get(&view, at.slot).of_store(txn.store())?;
        Ok(record.map(look).ok_or_else(none)?)
    }

    /// Whether a page exists and belongs to this collection (S6).
    fn has(&self, txn: &Txn, page: PageId) -> Result<bool> {
        let store = txn.store();
        Ok(page.get() < store.pool().len_pages() && self.owns(&*txn.read_latched(page)?).of_store(store)?)
    }

    /// Returns the record in a slot of a page, if the page belongs to this collection.
    fn get<'v>(&self, page: &'v PageRef<'_>, slot: Slot) -> Result<Option<&'v [u8]>, Damaged> {
        if self.owns(page)? { Slotted::of(page)?.get(slot) } else { Ok(None) }
    }

    fn owns(&self, page: &PageRef<'_>) -> Result<bool, Damaged> {
        Ok(link_of(page)?.is_some_and(|link| link.root == self.root))
    }

    /// Returns the pages of the collection, first to last.
    fn pages(&self, txn: &Txn) -> Result<Vec<PageId>> {
        let first = ends::read(&*txn.read_latched(self.root)?, kinds::RECORDS_ROOT)?.first.page;
        let first = (first != 0).then(|| PageId::new(first));
        let store = txn.store();
        PageChain::of(store, self.root).pages(first, |page| link_of(&*txn.read_latched(page)?).of_store(store))
    }

    /// Lists a page as spare if it has much room: the next inserts try there.
    fn list(&self, txn: &mut Txn, mut ends: Ends, page: PageId) -> Result<()> {
        let (link, has_space) = {
            let view = txn.read_latched(page)?;
            (self.link(txn, &view)?, vacant(&view, SPARE_SPACE_MIN).of_store(txn.store())?.is_some())
        };
        let is_listed = link.is_spare() || ends.spare == page.get();
        if is_listed || !has_space || ends.spare != 0 && planted!("one_spare_page_listed") {
            return Ok(());
        }
        self.set_link(txn, page, PageLink { spare: ends.spare, ..link })?;
        ends.spare = page.get();
        txn.update(RecordId::page(self.root), &SetEnds(ends))
    }

    /// Removes the first spare page from the list.
    fn unlist(&self, txn: &mut Txn, ends: &mut Ends, page: PageId) -> Result<()> {
        let link = self.link(txn, &*txn.read(page)?)?;
        // A page is not marked if it was listed by a version of this crate that listed one at most.
        ends.spare = if link.is_spare() { link.spare } else { 0 };
        as_a_whole(txn, |txn| {
            self.set_link(txn, page, PageLink { spare: PageLink::NOT_SPARE, ..link })?;
            txn.update(RecordId::page(self.root), &SetEnds(*ends))
        })
    }

    /// Returns the link of a page that is one of the collection's.
    fn link(&self, txn: &Txn, page: &PageRef<'_>) -> Result<PageLink> {
        PageChain::of(txn.store(), self.root).own(page.id(), link_of(page).of_store(txn.store())?)
    }

    fn set_link(&self, txn: &mut Txn, page: PageId, link: PageLink) -> Result<()> {
        txn.update(RecordId::new(page, LINK), &UpdateRecord { record: link.record() })
    }

    /// Adds an empty page after the last. Under page locks, each change with its own undo (E14.1).
    fn add_page(&self, txn: &mut Txn, mut ends: Ends) -> Result<PageId> {
        let page = txn.allocate()?;
        txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::SLOTTED))?;
        let link = PageLink::new(self.root, None);
        txn.update(RecordId::new(page, LINK), &InsertRecord { record: link.record() })?;
        if ends.first.page == 0 {
            ends.first = Place::page(page);
        } else {
            let last = PageId::new(ends.last.page);
            let link = self.link(txn, &*txn.read(last)?)?;
            self.set_link(txn, last, PageLink { next: Some(page), ..link })?;
        }
        ends.last = Place::page(page);
        txn.update(RecordId::page(self.root), &SetEnds(ends))?;
        Ok(page)
    }
}

/// Makes changes of several pages, under their locks. If one fails, none stays: a page that was marked as spare but not listed
/// would never be listed again, if the transaction went on and committed.
fn as_a_whole<T>(txn: &mut Txn, work: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> {
    let before = txn.savepoint();
    let done = work(txn);
    if done.is_err() {
        // Fails only if the transaction has ended or the store has stopped: nothing of it stays then. The first error says why.
        let _ = txn.rollback_to(before);
    }
    done
}

/// Inserts a record on a slotted page, under the page's lock, if it fits there.
fn insert_on(txn: &mut Txn, page: PageId, record: &[u8]) -> Result<Option<RecordId>> {
    let slot = {
        let view = txn.read(page)?;
        match vacant(&view, record.len()).of_store(txn.store())? {
            Some(slot) if slot != LINK => slot,
            _ => return Ok(None),
        }
    };
    let at = RecordId::new(page, slot);
    txn.update(at, &InsertRecord { record: record.into() })?;
    Ok(Some(at))
}

/// Returns the slot for the next record of a page, if one of this length fits there.
pub(crate) fn vacant(page: &PageRef<'_>, len: usize) -> Result<Option<Slot>, Damaged> {
    let slotted = Slotted::of(page)?;
    let Some(slot) = slotted.vacant()? else { return Ok(None) };
    Ok(slotted.room(slot)?.is_some_and(|room| room >= len).then_some(slot))
}

/// Refuses a record that is too long for its page.
pub(crate) fn check_len(record: &[u8], limit: usize) -> Result<()> {
    if record.len() > limit {
        return Err(Error::TooLarge { what: "a record", given: record.len() as u64, limit: limit as u64 });
    }
    Ok(())
}
