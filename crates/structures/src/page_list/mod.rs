//! The page-oriented linked list (Lemon §6.2, Figure 2): a list of pages, each with a list of its own.
//!
//! Neighbours in the list are on one page as long as they fit. So a change is usually one log record, and a walk reads
//! all elements of a page under one pin.

mod ops;
pub(crate) mod sequence;
mod typed;

use std::collections::HashSet;

use cedrat_pages::PageId;
use cedrat_txn::locks::{LockMode, Resource};
use cedrat_txn::{Error, FormatFresh, Operation, RecordId, Registry, Result, Store, Txn};

use crate::bytes::Corrupt;
use crate::checked::Checked;
use crate::ends::{self, Ends, Place, SetEnds};
use crate::error::{StructureError, check_passed, damaged};
use crate::kinds;
use sequence::Links;

pub use sequence::RECORD_LEN_MAX;
pub use typed::PageList;

pub(crate) fn register(registry: Registry) -> Registry {
    registry
        .operation::<ops::Begin>()
        .operation::<ops::Insert>()
        .operation::<ops::Remove>()
        .operation::<ops::Replace>()
        .operation::<ops::SetLinks>()
}

/// A transactional list of records of any bytes, page by page.
///
/// A handle; the list itself is in the store. A transaction that changes it holds it exclusively to its end, one that
/// reads it shares it with other readers (`Resource::Structure`): the "big lock" of Lemon §4.3, which permits plain
/// undo for each change. If the store's lock manager does not lock, only one transaction at a time may use the list.
#[derive(Clone, Debug)]
pub struct RawPageList {
    root: PageId,
}

/// The position of a record.
#[derive(Clone, Copy, Debug)]
struct At {
    page: PageId,
    /// The index within the page.
    index: usize,
}

impl RawPageList {
    /// Creates an empty list.
    ///
    /// # Errors
    /// Those of any change.
    pub fn create(txn: &mut Txn) -> Result<RawPageList> {
        let root = txn.allocate()?;
        txn.isolated(root, |txn| txn.update(RecordId::page(root), &FormatFresh::new(kinds::PAGE_LIST_ROOT)))?;
        Ok(RawPageList { root })
    }

    /// Opens the list with this root page.
    ///
    /// # Errors
    /// [`StructureError::WrongRoot`].
    pub fn open(store: &Store, root: PageId) -> Result<RawPageList> {
        ends::open(store, root, kinds::PAGE_LIST_ROOT)?;
        Ok(RawPageList { root })
    }

    /// Returns the root page, which identifies the list.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// Appends a record.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond [`RECORD_LEN_MAX`] bytes; [`Error::Deadlock`] from the lock; a full log or disk. The same for
    /// all methods that change the list.
    pub fn push_back(&self, txn: &mut Txn, record: &[u8]) -> Result<()> {
        check_len(record)?;
        self.isolated(txn, |txn| {
            let last = PageId::new(self.ends(txn)?.last.page);
            if last.get() == 0 {
                return self.begin(txn, record);
            }
            let index = self.look(txn, last, sequence::count)?;
            self.insert_at(txn, At { page: last, index }, record)
        })
    }

    /// Inserts a record before the first.
    ///
    /// # Errors
    /// As [`push_back`](RawPageList::push_back).
    pub fn push_front(&self, txn: &mut Txn, record: &[u8]) -> Result<()> {
        check_len(record)?;
        self.isolated(txn, |txn| {
            let first = PageId::new(self.ends(txn)?.first.page);
            if first.get() == 0 {
                return self.begin(txn, record);
            }
            self.insert_at(txn, At { page: first, index: 0 }, record)
        })
    }

    /// Inserts a record before record `index`, or after the last.
    ///
    /// # Errors
    /// [`StructureError::OutOfBounds`]; as [`push_back`](RawPageList::push_back).
    pub fn insert(&self, txn: &mut Txn, index: u64, record: &[u8]) -> Result<()> {
        check_len(record)?;
        self.isolated(txn, |txn| match self.locate(txn, index)? {
            Ok(at) => self.insert_at(txn, at, record),
            Err(len) if index == len => self.push_back(txn, record),
            Err(len) => Err(StructureError::OutOfBounds { index, len }.into()),
        })
    }

    /// Removes record `index`.
    ///
    /// # Errors
    /// As [`insert`](RawPageList::insert).
    pub fn remove(&self, txn: &mut Txn, index: u64) -> Result<Vec<u8>> {
        self.isolated(txn, |txn| {
            let at = self.locate(txn, index)?.map_err(|len| StructureError::OutOfBounds { index, len })?;
            self.remove_at(txn, at)
        })
    }

    /// Removes the first record.
    ///
    /// # Errors
    /// As [`push_back`](RawPageList::push_back).
    pub fn pop_front(&self, txn: &mut Txn) -> Result<Option<Vec<u8>>> {
        self.isolated(txn, |txn| {
            let first = PageId::new(self.ends(txn)?.first.page);
            if first.get() == 0 {
                return Ok(None);
            }
            self.remove_at(txn, At { page: first, index: 0 }).map(Some)
        })
    }

    /// Removes the last record.
    ///
    /// # Errors
    /// As [`push_back`](RawPageList::push_back).
    pub fn pop_back(&self, txn: &mut Txn) -> Result<Option<Vec<u8>>> {
        self.isolated(txn, |txn| {
            let last = PageId::new(self.ends(txn)?.last.page);
            if last.get() == 0 {
                return Ok(None);
            }
            let count = self.look(txn, last, sequence::count)?;
            let index = count.checked_sub(1).ok_or_else(|| damaged(txn.store(), last, "a page of a list is empty"))?;
            self.remove_at(txn, At { page: last, index }).map(Some)
        })
    }

    /// Replaces record `index`.
    ///
    /// # Errors
    /// As [`insert`](RawPageList::insert).
    pub fn set(&self, txn: &mut Txn, index: u64, record: &[u8]) -> Result<()> {
        check_len(record)?;
        self.isolated(txn, |txn| {
            let at = self.locate(txn, index)?.map_err(|len| StructureError::OutOfBounds { index, len })?;
            if self.look(txn, at.page, |body| sequence::has_space_instead(body, at.index, record.len()))? {
                let replace = ops::Replace { index: at.index as u16, record: record.into() };
                return txn.update(RecordId::page(at.page), &replace);
            }
            // It outgrew its page: removed and inserted again at the same index, which may then be on another page.
            self.remove_at(txn, at)?;
            self.insert(txn, index, record)
        })
    }

    /// Returns record `index`.
    ///
    /// # Errors
    /// [`Error::Deadlock`] from the lock.
    pub fn get(&self, txn: &mut Txn, index: u64) -> Result<Option<Vec<u8>>> {
        txn.lock(Resource::Structure(self.root), LockMode::Shared)?;
        let Ok(at) = self.locate(txn, index)? else { return Ok(None) };
        self.look(txn, at.page, |body| Ok(sequence::get(body, at.index)?.to_vec())).map(Some)
    }

    /// Returns the number of records, by a walk over the pages.
    ///
    /// # Errors
    /// As [`get`](RawPageList::get).
    pub fn len(&self, txn: &mut Txn) -> Result<u64> {
        txn.lock(Resource::Structure(self.root), LockMode::Shared)?;
        Ok(self.locate(txn, u64::MAX)?.err().unwrap_or(u64::MAX))
    }

    /// Whether the list has no records.
    ///
    /// # Errors
    /// As [`get`](RawPageList::get).
    pub fn is_empty(&self, txn: &mut Txn) -> Result<bool> {
        txn.lock(Resource::Structure(self.root), LockMode::Shared)?;
        Ok(self.ends(txn)?.first.page == 0)
    }

    /// Iterates over all records in order, page by page.
    ///
    /// # Errors
    /// As [`get`](RawPageList::get).
    pub fn iter<'t>(&self, txn: &'t mut Txn) -> Result<PageListRecords<'t>> {
        txn.lock(Resource::Structure(self.root), LockMode::Shared)?;
        let next = self.ends(txn)?.first.page;
        Ok(PageListRecords { list: self.clone(), txn, next, pages: 0, records: Vec::new().into_iter() })
    }

    /// Frees the list's pages.
    ///
    /// # Errors
    /// As [`push_back`](RawPageList::push_back).
    pub fn drop(self, txn: &mut Txn) -> Result<()> {
        self.isolated(txn, |txn| {
            let mut next = self.ends(txn)?.first.page;
            while next != 0 {
                let page = PageId::new(next);
                next = self.look(txn, page, sequence::links)?.next;
                txn.free(page)?;
            }
            txn.update(RecordId::page(self.root), &SetEnds(Ends::default()))?;
            txn.free(self.root)
        })
    }

    /// Walks the list and verifies it: links agree in both directions, and every page belongs to it and has records.
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
        let mut seen = HashSet::new();
        let (mut before, mut next) = (0, ends.first.page);
        while next != 0 {
            let page = PageId::new(next);
            if !seen.insert(page) {
                return Ok(checked.with_problem(page, "the pages of the list form a cycle"));
            }
            checked.pages.push(page);
            let looked = self.look(txn, page, |body| {
                sequence::check(body)?;
                Ok((sequence::links(body)?, sequence::count(body)?, sequence::record_bytes(body)?))
            });
            match looked {
                Ok((links, count, bytes)) => {
                    if links.previous != before {
                        checked.problem(page, "it does not point back to the page before it");
                    }
                    if count == 0 {
                        checked.problem(page, "a page of the list is empty");
                    }
                    checked.elements += count as u64;
                    checked.bytes += bytes;
                    (before, next) = (next, links.next);
                }
                Err(error) => return Ok(checked.with_problem(page, error)),
            }
        }
        if ends.last.page != before {
            checked.problem(self.root, "it does not name the last page as such");
        }
        Ok(checked)
    }

    fn isolated<T>(&self, txn: &mut Txn, work: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> {
        txn.isolated(self.root, work)
    }

    fn ends(&self, txn: &Txn) -> Result<Ends> {
        ends::read(&*txn.read_latched(self.root)?, kinds::PAGE_LIST_ROOT)
    }

    fn look<R>(&self, txn: &Txn, page: PageId, look: impl FnOnce(&[u8]) -> Result<R, Corrupt>) -> Result<R> {
        let view = txn.read_latched(page)?;
        if view.kind() != kinds::SEQUENCE || sequence::root(view.body()) != Ok(self.root.get()) {
            return Err(damaged(txn.store(), page, "the page is not one of the list that names it"));
        }
        look(view.body()).map_err(|_| damaged(txn.store(), page, "a page of a list is corrupt"))
    }

    /// Returns the position of record `index`, or else the number of records.
    fn locate(&self, txn: &Txn, index: u64) -> Result<Result<At, u64>> {
        let (mut passed, mut pages) = (0, 0);
        let mut next = self.ends(txn)?.first.page;
        while next != 0 {
            let page = PageId::new(next);
            pages += 1;
            check_passed(txn.store(), pages, 1, page)?;
            let (count, links) =
                self.look(txn, page, |body| Ok((sequence::count(body)? as u64, sequence::links(body)?)))?;
            if index < passed + count {
                return Ok(Ok(At { page, index: (index - passed) as usize }));
            }
            passed += count;
            next = links.next;
        }
        Ok(Err(passed))
    }

    /// Inserts the first record of an empty list.
    fn begin(&self, txn: &mut Txn, record: &[u8]) -> Result<()> {
        let page = self.add_page(txn, Links { next: 0, previous: 0 })?;
        self.put(txn, page, 0, record)
    }

    fn put(&self, txn: &mut Txn, page: PageId, index: usize, record: &[u8]) -> Result<()> {
        txn.update(RecordId::page(page), &ops::Insert { index: index as u16, records: vec![record.into()] })
    }

    /// Inserts a record at a position: one log record, unless the page is full.
    fn insert_at(&self, txn: &mut Txn, at: At, record: &[u8]) -> Result<()> {
        let (fits, count, links) = self.look(txn, at.page, |body| {
            Ok((sequence::has_space(body, record.len())?, sequence::count(body)?, sequence::links(body)?))
        })?;
        if fits {
            return self.put(txn, at.page, at.index, record);
        }
        // At either end of a full page a new page leaves the full one full.
        if at.index == 0 {
            if links.previous != 0 {
                let before = PageId::new(links.previous);
                let (fits, end) = self
                    .look(txn, before, |body| Ok((sequence::has_space(body, record.len())?, sequence::count(body)?)))?;
                if fits {
                    return self.put(txn, before, end, record);
                }
            }
            let page = self.add_page(txn, Links { next: at.page.get(), previous: links.previous })?;
            return self.put(txn, page, 0, record);
        }
        let after = self.add_page(txn, Links { next: links.next, previous: at.page.get() })?;
        if at.index < count {
            let tail = self.look(txn, at.page, |body| {
                (at.index..count).map(|index| sequence::get(body, index).map(Into::into)).collect::<Result<Vec<_>, _>>()
            })?;
            txn.update(RecordId::page(after), &ops::Insert { index: 0, records: tail })?;
            let tail = ops::Remove { index: at.index as u16, count: (count - at.index) as u16 };
            txn.update(RecordId::page(at.page), &tail)?;
            if self.look(txn, at.page, |body| sequence::has_space(body, record.len()))? {
                return self.put(txn, at.page, at.index, record);
            }
            // A long record between two halves that are both too full for it: it is tried at the front of the new page,
            // and at worst gets a page of its own.
            return self.insert_at(txn, At { page: after, index: 0 }, record);
        }
        self.put(txn, after, 0, record)
    }

    /// Adds an empty page between two others, or at an end.
    fn add_page(&self, txn: &mut Txn, links: Links) -> Result<PageId> {
        let page = txn.allocate()?;
        let begin = ops::Begin { root: self.root.get(), next: links.next, previous: links.previous };
        txn.update(RecordId::page(page), &begin)?;
        self.join(txn, links.previous, links.next, page.get(), page.get())?;
        Ok(page)
    }

    /// Removes a record, and its page if it was the only one there.
    fn remove_at(&self, txn: &mut Txn, at: At) -> Result<Vec<u8>> {
        let (record, count, links) = self.look(txn, at.page, |body| {
            Ok((sequence::get(body, at.index)?.to_vec(), sequence::count(body)?, sequence::links(body)?))
        })?;
        txn.update(RecordId::page(at.page), &ops::Remove { index: at.index as u16, count: 1 })?;
        if count == 1 {
            self.join(txn, links.previous, links.next, links.next, links.previous)?;
            txn.free(at.page)?;
        }
        Ok(record)
    }

    /// Makes `next_of_previous` follow `previous`, and `previous_of_next` precede `next`; 0 stands for the root.
    fn join(
        &self,
        txn: &mut Txn,
        previous: u64,
        next: u64,
        next_of_previous: u64,
        previous_of_next: u64,
    ) -> Result<()> {
        let mut ends = self.ends(txn)?;
        if previous == 0 {
            ends.first = Place { page: next_of_previous, slot: 0 };
        } else {
            let links = self.look(txn, PageId::new(previous), sequence::links)?;
            let links = ops::SetLinks { next: next_of_previous, previous: links.previous };
            self.update(txn, previous, &links)?;
        }
        if next == 0 {
            ends.last = Place { page: previous_of_next, slot: 0 };
        } else {
            let links = self.look(txn, PageId::new(next), sequence::links)?;
            self.update(txn, next, &ops::SetLinks { next: links.next, previous: previous_of_next })?;
        }
        if ends != self.ends(txn)? {
            txn.update(RecordId::page(self.root), &SetEnds(ends))?;
        }
        Ok(())
    }

    fn update<O: Operation>(&self, txn: &mut Txn, page: u64, operation: &O) -> Result<()> {
        txn.update(RecordId::page(PageId::new(page)), operation)
    }
}

fn check_len(record: &[u8]) -> Result<()> {
    if record.len() > RECORD_LEN_MAX {
        let (given, limit) = (record.len() as u64, RECORD_LEN_MAX as u64);
        return Err(Error::TooLarge { what: "an element of a page-oriented list", given, limit });
    }
    Ok(())
}

/// An iterator over the records of a list: see [`RawPageList::iter`]. The records of a page are read together.
#[derive(Debug)]
pub struct PageListRecords<'t> {
    list: RawPageList,
    txn: &'t Txn,
    /// The next page, 0 after the last.
    next: u64,
    /// Number of pages that were read.
    pages: u64,
    records: std::vec::IntoIter<Vec<u8>>,
}

impl Iterator for PageListRecords<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        loop {
            if let Some(record) = self.records.next() {
                return Some(Ok(record));
            }
            if self.next == 0 {
                return None;
            }
            let page = PageId::new(self.next);
            self.pages += 1;
            let looked = check_passed(self.txn.store(), self.pages, 1, page).and_then(|()| {
                self.list.look(self.txn, page, |body| {
                    let records = sequence::records(body)?.map(|record| record.map(<[u8]>::to_vec));
                    Ok((records.collect::<Result<Vec<_>, _>>()?, sequence::links(body)?))
                })
            });
            match looked {
                Ok((records, links)) => {
                    self.records = records.into_iter();
                    self.next = links.next;
                }
                Err(error) => {
                    self.next = 0;
                    return Some(Err(error));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cedrat_media::SimDisk;
    use cedrat_sync::Arc;
    use cedrat_txn::Options;

    use super::*;

    #[test]
    fn cycle_of_pages_is_damage() {
        let registry = Registry::new().with(crate::register);
        let store = Store::open(Arc::new(SimDisk::new()), Options::simulated(), registry).unwrap();
        let list = store.transact(RawPageList::create).unwrap();
        let mut txn = store.begin();
        (0..9).try_for_each(|_| list.push_back(&mut txn, &[1; 1000])).unwrap();
        let Ends { first, last, .. } = list.ends(&txn).unwrap();
        list.join(&mut txn, last.page, first.page, first.page, last.page).unwrap();
        let damaged = |error: Error| error.to_string().contains("cycle");
        assert!(list.len(&mut txn).is_err_and(damaged));
        assert!(list.get(&mut txn, 1 << 40).is_err_and(damaged));
        assert!(list.iter(&mut txn).unwrap().last().unwrap().is_err_and(damaged));
        assert!(!list.check(&txn).unwrap().is_sound());
        assert!(list.drop(&mut txn).is_err());
    }
}
