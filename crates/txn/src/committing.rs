//! Changes of records within the commit record (E19.15).
//!
//! A change that counts only if its transaction commits has no value in the log before the commit. So a caller that
//! knows all its changes at the commit writes one record for all of them, where [`DeferredChanges::defer`] writes one per change:
//!
//! ```text
//!   defer, defer, defer, commit      update │ update │ update │ commit
//!   commit_with_changes              commit: change, change, change
//! ```
//!
//! Nothing has to be undone: either the whole record is in the log, and the transaction has committed, or none of it
//! is. Redo compares each change with the version of its record, as for any deferred change. All versions are the LSN
//! of the commit, so no record may be changed twice.
//!
//! The record may also contain an operation that changes a page at once ([`CommitChanges::with_page`]): its page is latched
//! from before the record is appended until it has changed, so no other thread sees a part of the commit there. Redo
//! compares it with the LSN of the page. It stands before the deltas of records of its page, which may raise that LSN.

use std::any::TypeId;
use std::fmt;

use cedrat_pages::{Exclusive, PageId};
use cedrat_sync::{Arc, Weak};
use cedrat_wal::{Kind, Lsn, StopReason, Stopped, Ticket};

use crate::body::{Head, put_change, record_space};
use crate::builtin::VersionedInsert;
use crate::deferred::{DeferredUndo, Delta, Keeper};
use crate::encode;
use crate::error::{Error, Result};
#[cfg(doc)]
use crate::object_cache::DeferredChanges;
use crate::operation::{Operation, RecordId, Refused};
use crate::registry::decode;
use crate::store::{Inner, Store};
use crate::transaction::{Commit, Txn};
use crate::update::unspeakable;

/// The changes of records that a commit record will contain, in its form: see [`DeferredChanges::commit_with_changes`]. They
/// may include an operation on a page.
///
/// They do not keep the store open: after its end, changes cannot be added.
pub struct CommitChanges<O = VersionedInsert> {
    inner: Weak<Inner>,
    /// A number of pages that the store has, at least. With the number of the newest delta, it spares most changes a shared
    /// reference to the store, which all its threads would count.
    pages: u64,
    bytes: Vec<u8>,
    newest: Option<RecordId>,
    /// The type of the newest delta, and its number: most deltas of a commit are of one type.
    number: Option<(TypeId, u32)>,
    page: Option<(PageId, O)>,
    /// Whether the operation on the page has had its turn in the order of addresses.
    has_page: bool,
}

impl<O> fmt::Debug for CommitChanges<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitChanges").field("len", &self.bytes.len()).field("newest", &self.newest).finish()
    }
}

impl CommitChanges {
    /// Returns an empty set of changes in this store.
    pub fn new(store: &Store) -> CommitChanges {
        CommitChanges::of(store, None, Vec::new())
    }
}

impl<O> CommitChanges<O> {
    fn of(store: &Store, page: Option<(PageId, O)>, bytes: Vec<u8>) -> CommitChanges<O> {
        let inner = Arc::downgrade(&store.inner);
        CommitChanges { inner, pages: 0, bytes, newest: None, number: None, page, has_page: false }
    }
}

impl<O: Operation> CommitChanges<O> {
    /// Returns a set of changes in this store that consists of an operation on a page ([`Operation::COMMITS`]), if there is
    /// one. It uses the memory of an earlier one.
    ///
    /// # Errors
    /// [`Error::Misuse`] for an operation that a commit record does not contain.
    #[inline]
    pub fn with_page(store: &Store, page: Option<(PageId, O)>, mut memory: Vec<u8>) -> Result<CommitChanges<O>> {
        if page.is_some() && !O::COMMITS {
            return Err(Error::Misuse("a commit record does not contain this operation: see Operation::COMMITS"));
        }
        memory.clear();
        Ok(CommitChanges::of(store, page, memory))
    }

    /// Returns the store, if it is open.
    fn inner(&self) -> Result<Arc<Inner>> {
        let closed = || Stopped { reason: Arc::new(StopReason::Closed) };
        self.inner.upgrade().ok_or_else(|| Error::Stopped(closed()))
    }

    /// Returns the changes so far as the commit record will contain them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a change. Each record may be changed once, in ascending order of addresses.
    ///
    /// # Errors
    /// [`Error::Misuse`] for another order; [`Error::Refused`] if there is no such page; [`Error::Unregistered`];
    /// [`Error::Stopped`] if the store was closed. Then the change is not added, nor is one whose encoding panics.
    pub fn push<D: Delta>(&mut self, at: RecordId, delta: &D) -> Result<()> {
        let operation = self.prepare_push::<D>(at)?;
        put_change(&mut self.bytes, operation, at, |bytes| encoded(delta, bytes))?;
        self.newest = Some(at);
        Ok(())
    }

    /// Adds a change as [`push`](CommitChanges::push) does, of a delta whose serialised form (by `postcard`) consists of these
    /// numbers, at most three, and then these bytes.
    ///
    /// They must be the arguments of a `D`, which only debug builds check: recovery refuses a commit record with others.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn push_serialised<D: Delta, const N: usize>(
        &mut self,
        at: RecordId,
        numbers: [u16; N],
        bytes: &[u8],
    ) -> Result<()> {
        let operation = self.prepare_push::<D>(at)?;
        let arguments_len = encode::put_serialised_change(&mut self.bytes, operation, at, numbers, bytes);
        debug_assert!(
            decode::<D>(&self.bytes[self.bytes.len() - arguments_len..]).is_some(),
            "recovery could not read the arguments of {}: they are not decoded as they were encoded",
            D::NAME
        );
        self.newest = Some(at);
        Ok(())
    }

    /// Checks that a change of this record may follow, adds that of a page that comes before, and returns the delta's number.
    #[inline]
    fn prepare_push<D: Delta>(&mut self, at: RecordId) -> Result<u32> {
        if self.newest >= Some(at) {
            return Err(Error::Misuse("a commit changes each record once, in the order of their places"));
        }
        if at.page.get() >= self.pages {
            self.pages = self.inner()?.pool.len_pages();
            if at.page.get() >= self.pages {
                return Err(Refused::new(format!("there is no page {}", at.page)).into());
            }
        }
        if !self.has_page && self.page.as_ref().is_some_and(|&(page, _)| RecordId::page(page) <= at) {
            self.push_page()?;
        }
        let operation = match self.number {
            Some((of, number)) if of == TypeId::of::<D>() => number,
            _ => self.inner()?.number_of_delta::<D>()?,
        };
        self.number = Some((TypeId::of::<D>(), operation));
        Ok(operation)
    }

    /// Adds the operation on a page, if there is one that was not added.
    fn push_page(&mut self) -> Result<()> {
        if let Some((page, operation)) = &self.page
            && !self.has_page
        {
            let (at, number) = (RecordId::page(*page), self.inner()?.number_of::<O>()?);
            let encode = |bytes: &mut Vec<u8>| encode::into_vec(operation, bytes).map_err(|_| unspeakable(O::NAME));
            put_change(&mut self.bytes, number, at, encode)?;
            (self.newest, self.has_page) = (Some(at), true);
        }
        Ok(())
    }
}

#[inline]
fn encoded<D: Delta>(delta: &D, bytes: &mut Vec<u8>) -> Result<()> {
    encode::into_vec(delta, bytes).map_err(|_| unspeakable(D::NAME))
}

impl Txn {
    /// See [`DeferredChanges::commit_with_changes`].
    pub(crate) fn commit_with_changes_in_call<O: Operation, C>(
        &mut self,
        keeper: &Keeper,
        changes: &mut CommitChanges<O>,
        mode: Commit,
        latch: impl FnOnce(&Txn) -> Option<C>,
        logged: impl FnOnce(C, Lsn, &mut Vec<u8>),
    ) -> Result<Option<Ticket>> {
        if mode == Commit::Partition {
            return Err(Error::PartitionCommit);
        }
        if changes.inner.as_ptr() != Arc::as_ptr(&self.store.inner) {
            return Err(Error::Misuse("the changes of the commit were made for another store"));
        }
        let undo = self.may_defer(keeper, false)?;
        self.nests_nothing()?;
        changes.push_page()?;
        let space = record_space(changes.bytes.len());
        let is_too_long = space > self.inner().body_len_max as u64;
        if undo != DeferredUndo::CommittedOnly || self.heap.get_mut().is_some() || is_too_long {
            return Ok(None);
        }
        self.admit_change()?;
        self.enter()?;
        self.store.inner.log.throttle(self.partition)?;
        self.reserve_for_records(space, 0)?;
        let lsn = self.latch_and_log(changes, latch, logged)?;
        lsn.map(|lsn| self.finish_commit(lsn, mode)).transpose()
    }

    /// Latches the page and the keeper, and appends the commit record.
    fn latch_and_log<O: Operation, C>(
        &mut self,
        changes: &mut CommitChanges<O>,
        latch: impl FnOnce(&Txn) -> Option<C>,
        logged: impl FnOnce(C, Lsn, &mut Vec<u8>),
    ) -> Result<Option<Lsn>> {
        let inner = Arc::clone(&self.store.inner);
        let CommitChanges { bytes, page, .. } = changes;
        let mut latched = None;
        if let Some((id, operation)) = page.as_ref() {
            let page = inner.pool.exclusive(*id)?;
            operation.prepare(&page.page_ref(), RecordId::page(*id).slot)?;
            latched = Some((page, operation));
        }
        let Some(keeper) = latch(self) else { return Ok(None) };
        let lsn = self.log_commit(bytes, latched, |lsn, bytes| logged(keeper, lsn, bytes))?;
        // Another commit with them would change the page, and its record would not say so.
        bytes.clear();
        (changes.page, changes.newest, changes.has_page) = (None, None, false);
        Ok(Some(lsn))
    }

    fn log_commit<O: Operation>(
        &mut self,
        changes: &mut Vec<u8>,
        page: Option<(Exclusive<'_>, &O)>,
        logged: impl FnOnce(Lsn, &mut Vec<u8>),
    ) -> Result<Lsn> {
        self.head.clear();
        let newest = self.inner().log.current_lsn();
        if !changes.is_empty() {
            Head(&mut self.head).commit_with_changes(changes.len());
            // Set before the LSN is drawn, so that a checkpoint that has read the clock after the draw finds the log
            // held (E19.4).
            self.entry.as_ref().expect("it has entered").defers(newest.next());
        }
        let mut page = page;
        if let Some((page, _)) = &mut page {
            page.will_change(newest.next());
        }
        let lsn = self.append(Kind::COMMIT, changes)?.lsn;
        // Nothing can fail from here on.
        self.note_commit(lsn);
        self.cursor.unreported += record_space(changes.len());
        let done = match &mut page {
            Some((page, operation)) => {
                let slot = RecordId::page(page.id()).slot;
                page.change(lsn, |page| operation.first(page, slot))
            }
            None => Ok(()),
        };
        logged(lsn, changes);
        done.map_err(|damaged| self.store.inner.stop_for_damage(&damaged, O::NAME))?;
        Ok(lsn)
    }
}
