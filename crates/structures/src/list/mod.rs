//! The simple linked list (Lemon §6.2): records of any length, each with the address of the next.
//!
//! It is the model of a structure that is isolated by one big lock: every change reads like that of a list in memory,
//! and each step carries its own undo. Neighbours may be far apart, so a walk reads one page per step; the
//! [page-oriented list](crate::PageList) does not.
//!
//! ```text
//! a node:
//! 0           8           10
//! | next page | next slot | the element's bytes
//! ```

mod typed;

use cedrat_pages::layout::Slotted;
use cedrat_pages::{BODY_LEN, LayoutKind, PageId};
use cedrat_txn::locks::{LockMode, Resource};
use cedrat_txn::{FormatFresh, RecordId, Result, SmallBytes, Store, Txn};

use crate::checked::Checked;
use crate::ends::{self, Ends, Place, SetEnds};
use crate::error::{OfStore, StructureError, check_passed, damaged};
use crate::kinds;
use crate::records::{self, DeleteRecord, InsertRecord, SLOTTED_LEN_MAX, UpdateRecord, check_len};

pub use typed::List;

/// Number of bytes in front of a node's element.
const LINK_LEN: usize = 10;

/// Maximum number of nodes on a page.
const NODES_OF_PAGE_MAX: u64 = (BODY_LEN / LINK_LEN) as u64;

/// A transactional linked list of elements of any bytes.
///
/// A handle; the list itself is in the store. A transaction that changes it holds it exclusively to its end, one that
/// reads it shares it with other readers (`Resource::Structure`). If the store's lock manager does not lock, only one
/// transaction at a time may use the list.
#[derive(Clone, Debug)]
pub struct RawList {
    root: PageId,
}

/// An element and the address of the next.
#[derive(Clone, Debug)]
struct Node {
    next: Place,
    element: Vec<u8>,
}

impl Node {
    fn bytes(next: Place, element: &[u8]) -> SmallBytes {
        let mut bytes = SmallBytes::new();
        bytes.extend_from_slice(&next.page.to_le_bytes());
        bytes.extend_from_slice(&next.slot.to_le_bytes());
        bytes.extend_from_slice(element);
        bytes
    }
}

impl RawList {
    /// Maximum length of an element, in bytes.
    pub const ELEMENT_LEN_MAX: usize = SLOTTED_LEN_MAX - LINK_LEN;

    /// Creates an empty list.
    ///
    /// # Errors
    /// Those of any change.
    pub fn create(txn: &mut Txn) -> Result<RawList> {
        let root = txn.allocate()?;
        txn.isolated(root, |txn| txn.update(RecordId::page(root), &FormatFresh::new(kinds::LIST_ROOT)))?;
        Ok(RawList { root })
    }

    /// Opens the list with this root page.
    ///
    /// # Errors
    /// [`StructureError::WrongRoot`].
    pub fn open(store: &Store, root: PageId) -> Result<RawList> {
        ends::open(store, root, kinds::LIST_ROOT)?;
        Ok(RawList { root })
    }

    /// Returns the root page, which identifies the list.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// Inserts an element before the first.
    ///
    /// # Errors
    /// [`cedrat_txn::Error::TooLarge`] beyond [`RawList::ELEMENT_LEN_MAX`] bytes; [`cedrat_txn::Error::Deadlock`] from
    /// the lock; a full log or disk. The same for all methods that change the list.
    pub fn push_front(&self, txn: &mut Txn, element: &[u8]) -> Result<()> {
        check_len(element, Self::ELEMENT_LEN_MAX)?;
        txn.isolated(self.root, |txn| self.insert_after(txn, None, element))
    }

    /// Appends an element.
    ///
    /// # Errors
    /// As [`push_front`](RawList::push_front).
    pub fn push_back(&self, txn: &mut Txn, element: &[u8]) -> Result<()> {
        check_len(element, Self::ELEMENT_LEN_MAX)?;
        txn.isolated(self.root, |txn| {
            let last = self.ends(txn)?.last.record();
            self.insert_after(txn, last, element)
        })
    }

    /// Inserts an element before element `index`, or after the last.
    ///
    /// # Errors
    /// [`StructureError::OutOfBounds`]; as [`push_front`](RawList::push_front).
    pub fn insert(&self, txn: &mut Txn, index: u64, element: &[u8]) -> Result<()> {
        check_len(element, Self::ELEMENT_LEN_MAX)?;
        txn.isolated(self.root, |txn| {
            let before = match index.checked_sub(1) {
                None => None,
                Some(before) => match self.locate(txn, before)? {
                    Ok(at) => Some(at),
                    Err(len) => return Err(StructureError::OutOfBounds { index, len }.into()),
                },
            };
            self.insert_after(txn, before, element)
        })
    }

    /// Removes the first element.
    ///
    /// # Errors
    /// As [`push_front`](RawList::push_front).
    pub fn pop_front(&self, txn: &mut Txn) -> Result<Option<Vec<u8>>> {
        txn.isolated(self.root, |txn| match self.ends(txn)?.first.record() {
            None => Ok(None),
            Some(first) => self.remove_after(txn, None, first).map(Some),
        })
    }

    /// Removes element `index`.
    ///
    /// # Errors
    /// As [`insert`](RawList::insert).
    pub fn remove(&self, txn: &mut Txn, index: u64) -> Result<Vec<u8>> {
        txn.isolated(self.root, |txn| {
            let out_of_bounds = |len| StructureError::OutOfBounds { index, len };
            let (before, at) = match index.checked_sub(1) {
                None => (None, self.ends(txn)?.first.record()),
                Some(before) => {
                    let before = self.locate(txn, before)?.map_err(out_of_bounds)?;
                    (Some(before), self.node(txn, before)?.next.record())
                }
            };
            let Some(at) = at else { return Err(out_of_bounds(index).into()) };
            self.remove_after(txn, before, at)
        })
    }

    /// Replaces element `index`.
    ///
    /// # Errors
    /// As [`insert`](RawList::insert).
    pub fn set(&self, txn: &mut Txn, index: u64, element: &[u8]) -> Result<()> {
        check_len(element, Self::ELEMENT_LEN_MAX)?;
        txn.isolated(self.root, |txn| {
            let at = self.locate(txn, index)?.map_err(|len| StructureError::OutOfBounds { index, len })?;
            let next = self.node(txn, at)?.next;
            let record = Node::bytes(next, element);
            let fits = {
                let page = txn.read_latched(at.page)?;
                let room = Slotted::of(&page).and_then(|slotted| slotted.room(at.slot));
                room.of_store(txn.store())?.is_some_and(|room| room >= record.len())
            };
            if fits {
                return txn.update(at, &UpdateRecord { record });
            }
            self.insert_after(txn, Some(at), element)?;
            self.remove(txn, index)?;
            Ok(())
        })
    }

    /// Returns element `index`.
    ///
    /// # Errors
    /// [`cedrat_txn::Error::Deadlock`] from the lock.
    pub fn get(&self, txn: &mut Txn, index: u64) -> Result<Option<Vec<u8>>> {
        txn.lock(Resource::Structure(self.root), LockMode::Shared)?;
        let Ok(at) = self.locate(txn, index)? else { return Ok(None) };
        Ok(Some(self.node(txn, at)?.element))
    }

    /// Returns the number of elements, by a walk over all of them.
    ///
    /// # Errors
    /// As [`get`](RawList::get).
    pub fn len(&self, txn: &mut Txn) -> Result<u64> {
        txn.lock(Resource::Structure(self.root), LockMode::Shared)?;
        Ok(self.locate(txn, u64::MAX)?.err().unwrap_or(u64::MAX))
    }

    /// Whether the list has no elements.
    ///
    /// # Errors
    /// As [`get`](RawList::get).
    pub fn is_empty(&self, txn: &mut Txn) -> Result<bool> {
        txn.lock(Resource::Structure(self.root), LockMode::Shared)?;
        Ok(self.ends(txn)?.first.record().is_none())
    }

    /// Iterates over all elements, in order.
    ///
    /// # Errors
    /// As [`get`](RawList::get).
    pub fn iter<'t>(&self, txn: &'t mut Txn) -> Result<RawListElements<'t>> {
        txn.lock(Resource::Structure(self.root), LockMode::Shared)?;
        let next = self.ends(txn)?.first;
        Ok(RawListElements { list: self.clone(), txn, next, passed: 0 })
    }

    /// Frees the list's pages.
    ///
    /// # Errors
    /// As [`push_front`](RawList::push_front).
    pub fn drop(self, txn: &mut Txn) -> Result<()> {
        txn.isolated(self.root, |txn| {
            for page in self.pages(txn)? {
                txn.free(page)?;
            }
            txn.update(RecordId::page(self.root), &SetEnds(Ends::default()))?;
            txn.free(self.root)
        })
    }

    /// Walks the list and verifies it.
    ///
    /// # Errors
    /// Only those that prevent the walk. Defects are in the result.
    pub fn check(&self, txn: &Txn) -> Result<Checked> {
        let mut checked = Checked::default();
        checked.pages.push(self.root);
        let ends = match self.ends(txn) {
            Ok(ends) => ends,
            Err(error) => return Ok(checked.with_problem(self.root, error)),
        };
        let mut seen = std::collections::HashSet::new();
        let (mut last, mut next) = (Place::default(), ends.first);
        while let Some(at) = next.record() {
            if !seen.insert(at) {
                return Ok(checked.with_problem(at.page, "the elements of the list form a cycle"));
            }
            match self.node(txn, at) {
                Ok(node) => {
                    checked.bytes += node.element.len() as u64;
                    (last, next) = (next, node.next);
                }
                Err(error) => return Ok(checked.with_problem(at.page, error)),
            }
        }
        if last != ends.last {
            checked.problem(self.root, "it does not name the last element as such");
        }
        checked.elements = seen.len() as u64;
        match self.pages(txn) {
            Ok(pages) => {
                for &page in &pages {
                    let view = txn.read_latched(page)?;
                    if let Err(error) = Slotted::of(&view).and_then(|slotted| slotted.check()) {
                        checked.problem(page, error);
                    }
                }
                checked.pages.extend(pages);
            }
            Err(error) => checked.problem(self.root, error),
        }
        Ok(checked)
    }

    fn ends(&self, txn: &Txn) -> Result<Ends> {
        ends::read(&*txn.read_latched(self.root)?, kinds::LIST_ROOT)
    }

    /// Returns the pages of the elements, and the one for the next element.
    fn pages(&self, txn: &Txn) -> Result<std::collections::BTreeSet<PageId>> {
        let ends = self.ends(txn)?;
        let mut pages: std::collections::BTreeSet<_> =
            (ends.spare != 0).then_some(PageId::new(ends.spare)).into_iter().collect();
        let (mut passed, mut next) = (0, ends.first);
        while let Some(at) = next.record() {
            passed += 1;
            check_passed(txn.store(), passed, NODES_OF_PAGE_MAX, at.page)?;
            pages.insert(at.page);
            next = self.node(txn, at)?.next;
        }
        Ok(pages)
    }

    fn node(&self, txn: &Txn, at: RecordId) -> Result<Node> {
        let page = txn.read_latched(at.page)?;
        let record = Slotted::of(&page).and_then(|slotted| slotted.get(at.slot)).of_store(txn.store())?;
        let parts = record.and_then(|record| Some((record.first_chunk::<LINK_LEN>()?, &record[LINK_LEN..])));
        let (link, element) =
            parts.ok_or_else(|| damaged(txn.store(), at.page, "an element of a list is not where its link says"))?;
        let (page, slot) = link.split_at(8);
        let next = Place {
            page: u64::from_le_bytes(page.try_into().expect("eight bytes")),
            slot: u16::from_le_bytes(slot.try_into().expect("two bytes")),
        };
        Ok(Node { next, element: element.to_vec() })
    }

    /// Returns the address of element `index`, or else the number of elements.
    fn locate(&self, txn: &Txn, index: u64) -> Result<Result<RecordId, u64>> {
        let mut passed = 0;
        let mut next = self.ends(txn)?.first;
        while let Some(at) = next.record() {
            if passed == index {
                return Ok(Ok(at));
            }
            passed += 1;
            check_passed(txn.store(), passed, NODES_OF_PAGE_MAX, at.page)?;
            next = self.node(txn, at)?.next;
        }
        Ok(Err(passed))
    }

    /// Inserts a node after `before`, or before the first.
    fn insert_after(&self, txn: &mut Txn, before: Option<RecordId>, element: &[u8]) -> Result<()> {
        let next = match before {
            None => self.ends(txn)?.first,
            Some(before) => self.node(txn, before)?.next,
        };
        let record = Node::bytes(next, element);
        let at = self.vacant(txn, record.len())?;
        txn.update(at, &InsertRecord { record })?;
        self.link(txn, before, at.into(), next)
    }

    /// Removes the node at `at`, which follows `before`, or is the first.
    fn remove_after(&self, txn: &mut Txn, before: Option<RecordId>, at: RecordId) -> Result<Vec<u8>> {
        let node = self.node(txn, at)?;
        self.link(txn, before, node.next, at.into())?;
        txn.update(at, &DeleteRecord {})?;
        let is_empty = {
            let page = txn.read_latched(at.page)?;
            Slotted::of(&page).of_store(txn.store())?.iter().next().is_none()
        };
        if is_empty && self.ends(txn)?.spare != at.page.get() {
            txn.free(at.page)?;
        }
        Ok(node.element)
    }

    /// Makes `next` follow `before`, or be the first, and updates the end: `other` is the node that follows a new one,
    /// or the one that is removed.
    fn link(&self, txn: &mut Txn, before: Option<RecordId>, next: Place, other: Place) -> Result<()> {
        let mut ends = self.ends(txn)?;
        let comes = other.record().is_none() && next.record().is_some();
        let leaves = other == ends.last && other.record().is_some() && next.record().is_none();
        if comes {
            ends.last = next;
        } else if leaves {
            ends.last = before.map(Place::from).unwrap_or_default();
        }
        match before {
            None => ends.first = next,
            Some(before) => {
                let element = self.node(txn, before)?.element;
                txn.update(before, &UpdateRecord { record: Node::bytes(next, &element) })?;
            }
        }
        if ends != self.ends(txn)? {
            txn.update(RecordId::page(self.root), &SetEnds(ends))?;
        }
        Ok(())
    }

    /// Returns a vacant address for a record of this length: on the page of the last insert, or on a new page.
    fn vacant(&self, txn: &mut Txn, len: usize) -> Result<RecordId> {
        let mut ends = self.ends(txn)?;
        if ends.spare != 0 {
            let page = PageId::new(ends.spare);
            let view = txn.read_latched(page)?;
            if let Some(slot) = records::vacant(&view, len).of_store(txn.store())? {
                return Ok(RecordId::new(page, slot));
            }
        }
        let page = txn.allocate()?;
        txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::SLOTTED))?;
        self.leave_spare(txn, ends.spare)?;
        ends.spare = page.get();
        txn.update(RecordId::page(self.root), &SetEnds(ends))?;
        Ok(RecordId::new(page, cedrat_pages::Slot(0)))
    }

    /// Retires the page for new nodes: it becomes an ordinary page, and is freed if it is empty.
    fn leave_spare(&self, txn: &mut Txn, spare: u64) -> Result<()> {
        if spare == 0 {
            return Ok(());
        }
        let page = PageId::new(spare);
        let is_empty = {
            let view = txn.read_latched(page)?;
            Slotted::of(&view).of_store(txn.store())?.iter().next().is_none()
        };
        if is_empty { txn.free(page) } else { Ok(()) }
    }
}

/// An iterator over the elements of a list: see [`RawList::iter`].
#[derive(Debug)]
pub struct RawListElements<'t> {
    list: RawList,
    txn: &'t Txn,
    next: Place,
    /// Number of elements that were read.
    passed: u64,
}

impl Iterator for RawListElements<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        let at = self.next.record()?;
        self.passed += 1;
        let passed = check_passed(self.txn.store(), self.passed, NODES_OF_PAGE_MAX, at.page);
        match passed.and_then(|()| self.list.node(self.txn, at)) {
            Ok(node) => {
                self.next = node.next;
                Some(Ok(node.element))
            }
            Err(error) => {
                self.next = Place::default();
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cedrat_media::SimDisk;
    use cedrat_sync::Arc;
    use cedrat_txn::{Error, Options, Registry};

    use super::*;

    #[test]
    fn cycle_of_elements_is_damage() {
        let registry = Registry::new().with(crate::register);
        let store = Store::open(Arc::new(SimDisk::new()), Options::simulated(), registry).unwrap();
        let list = store.transact(RawList::create).unwrap();
        let mut txn = store.begin();
        (0..9).try_for_each(|_| list.push_back(&mut txn, b"element")).unwrap();
        let Ends { first, last, .. } = list.ends(&txn).unwrap();
        let record = Node::bytes(first, b"element");
        txn.isolated(list.root, |txn| txn.update(last.record().unwrap(), &UpdateRecord { record })).unwrap();
        let damaged = |error: Error| error.to_string().contains("cycle");
        assert!(list.len(&mut txn).is_err_and(damaged));
        assert!(list.get(&mut txn, 1 << 40).is_err_and(damaged));
        assert!(list.iter(&mut txn).unwrap().last().unwrap().is_err_and(damaged));
        assert!(!list.check(&txn).unwrap().is_sound());
        assert!(list.drop(&mut txn).is_err_and(damaged));
    }
}
