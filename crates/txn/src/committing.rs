//! Changes of records within the commit record (E19.15).
//!
//! A change that counts only if its transaction commits has no value in the log before the commit. So a caller that
//! knows all its changes at the commit writes one record for all of them, where [`Txn::defer`] writes one per change:
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
//! The record may also contain an operation that changes a page at once ([`Txn::commit_with_page`]): its page is latched
//! from before the record is appended until it has changed, so no other thread sees a part of the commit there. Redo
//! compares it with the LSN of the page. It stands before the deltas of records of its page, which may raise that LSN.

use std::any::TypeId;
use std::fmt;

use cedrat_pages::{Exclusive, PageId};
use cedrat_sync::Arc;
use cedrat_wal::{Kind, Lsn, Ticket};

use crate::body::{CHANGE_HEAD_LEN_MAX, Head, put_change, room_for};
use crate::builtin::VersionedInsert;
use crate::deferred::{Delta, Keeper, TakenBackBy};
use crate::encode;
use crate::error::{Error, Result};
use crate::operation::{Operation, RecordId, Refused};
use crate::registry::decode;
use crate::store::Inner;
use crate::transaction::{Commit, Txn};
use crate::update::unspeakable;

/// The changes of records that a commit record will contain: see [`Txn::commit_with_changes`].
pub struct CommitChanges<'t> {
    inner: &'t Inner,
    bytes: &'t mut Vec<u8>,
    len_max: usize,
    newest: Option<RecordId>,
    /// The type of the newest delta, and its number: most deltas of a commit are of one type.
    number: Option<(TypeId, u32)>,
    /// The change of a page, until its turn in the order of addresses.
    page: Option<PageChange<'t>>,
}

/// An operation on a page: its address, its number, and its encoding.
type PageChange<'t> = (RecordId, u32, &'t dyn Fn(&mut Vec<u8>) -> Result<()>);

impl fmt::Debug for CommitChanges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitChanges").field("len", &self.bytes.len()).field("newest", &self.newest).finish()
    }
}

impl CommitChanges<'_> {
    /// Returns the maximum number of bytes of this many changes, whose arguments have `arguments_len` bytes in all.
    pub const fn len_bound(changes: usize, arguments_len: usize) -> usize {
        changes * CHANGE_HEAD_LEN_MAX + arguments_len
    }

    /// Adds a change. Each record may be changed once, in ascending order of addresses.
    ///
    /// # Errors
    /// [`Error::Misuse`] for another order, or for more bytes than announced; [`Error::Refused`] if there is no such
    /// page; [`Error::Unregistered`]. Then the change is not added, nor is one whose encoding panics.
    pub fn push<D: Delta>(&mut self, at: RecordId, delta: &D) -> Result<()> {
        let operation = self.prepare_push::<D>(at)?;
        self.put(at, |bytes| put_change(bytes, operation, at, |bytes| encoded(delta, bytes)))
    }

    /// Adds a change as [`push`](CommitChanges::push) does, whose delta was serialised before (by `postcard`).
    ///
    /// `arguments` must be those of a `D`, which only debug builds check: recovery refuses a commit record with others.
    ///
    /// # Errors
    /// As there.
    pub fn push_serialised<D: Delta>(&mut self, at: RecordId, arguments: &[u8]) -> Result<()> {
        debug_assert!(decode::<D>(arguments).is_some(), "E6.1: recovery could not read the arguments of {}", D::NAME);
        let operation = self.prepare_push::<D>(at)?;
        self.put(at, |bytes| {
            encode::put_serialised_change(bytes, operation, at, arguments);
            Ok(())
        })
    }

    /// Checks that a change of this record may follow, adds that of a page that comes before, and returns the delta's number.
    #[inline]
    fn prepare_push<D: Delta>(&mut self, at: RecordId) -> Result<u32> {
        if self.newest >= Some(at) {
            return Err(Error::Misuse("a commit changes each record once, in the order of their places"));
        }
        if at.page.get() >= self.inner.pool.len_pages() {
            return Err(Refused::new(format!("there is no page {}", at.page)).into());
        }
        if self.page.as_ref().is_some_and(|&(page, ..)| page <= at) {
            self.push_page()?;
        }
        let operation = match self.number {
            Some((of, number)) if of == TypeId::of::<D>() => number,
            _ => self.inner.number_of_delta::<D>()?,
        };
        self.number = Some((TypeId::of::<D>(), operation));
        Ok(operation)
    }

    /// Adds the change of a page, if there is one that was not added.
    fn push_page(&mut self) -> Result<()> {
        if let Some((at, operation, encode)) = self.page {
            self.put(at, |bytes| put_change(bytes, operation, at, encode))?;
            self.page = None;
        }
        Ok(())
    }

    #[inline]
    fn put(&mut self, at: RecordId, put: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        let before = self.bytes.len();
        put(self.bytes)?;
        if self.bytes.len() > self.len_max {
            self.bytes.truncate(before);
            return Err(Error::Misuse("the changes of a commit take more room than was asked for"));
        }
        self.newest = Some(at);
        Ok(())
    }
}

#[inline]
fn encoded<D: Delta>(delta: &D, bytes: &mut Vec<u8>) -> Result<()> {
    encode::into_vec(delta, bytes).map_err(|_| unspeakable(D::NAME))
}

impl Txn {
    /// Commits with changes of kept records in the commit record. The result is that of one
    /// [`defer_when`](Txn::defer_when) per change, followed by [`commit`](Txn::commit).
    ///
    /// `change` collects the changes, of at most `len_max` bytes ([`CommitChanges::len_bound`]). It is called after
    /// everything that may wait, and must not apply a change yet; it may take the keeper's latch and keep it in its
    /// result. `logged` receives that result and the LSN of the commit, which is the new version of all these records,
    /// and applies the changes; it cannot fail. With the latch held, no other thread comes between the record in the
    /// log and the kept records.
    ///
    /// Returns `None`, without any effect, and the transaction continues, if `change` returns `None`, if the
    /// transaction has also written to heaps, if it has given up atomicity, or if the log has no record of this length.
    ///
    /// # Errors
    /// As [`defer`](Txn::defer), and those of `change`: then nothing has happened, and the transaction continues unless
    /// it was rolled back. [`Error::Stopped`]: only reopening the store shows whether the commit was kept.
    pub fn commit_with_changes<C>(
        &mut self,
        keeper: &Keeper,
        len_max: usize,
        mode: Commit,
        change: impl FnOnce(&Txn, &mut CommitChanges<'_>) -> Result<Option<C>>,
        logged: impl FnOnce(C, Lsn),
    ) -> Result<Option<Ticket>> {
        self.commit_with_page(keeper, None::<(PageId, &VersionedInsert)>, len_max, mode, change, logged)
    }

    /// As [`commit_with_changes`](Txn::commit_with_changes), with an operation on a page in the commit record
    /// ([`Operation::COMMITS`]), which changes the page before `logged` is called. `len_max` includes its arguments.
    ///
    /// The page is latched before `change` is called, and stays so until `logged` has returned: neither may use a page. No
    /// lock is taken.
    ///
    /// # Errors
    /// As there; [`Error::Refused`] by the operation: then nothing has happened, and the transaction continues.
    pub fn commit_with_page<O: Operation, C>(
        &mut self,
        keeper: &Keeper,
        page: Option<(PageId, &O)>,
        len_max: usize,
        mode: Commit,
        change: impl FnOnce(&Txn, &mut CommitChanges<'_>) -> Result<Option<C>>,
        logged: impl FnOnce(C, Lsn),
    ) -> Result<Option<Ticket>> {
        self.as_one_call(|txn| txn.commit_with_changes_in_call(keeper, page, len_max, mode, change, logged))
    }

    fn commit_with_changes_in_call<O: Operation, C>(
        &mut self,
        keeper: &Keeper,
        page: Option<(PageId, &O)>,
        len_max: usize,
        mode: Commit,
        change: impl FnOnce(&Txn, &mut CommitChanges<'_>) -> Result<Option<C>>,
        logged: impl FnOnce(C, Lsn),
    ) -> Result<Option<Ticket>> {
        if mode == Commit::Partition {
            return Err(Error::PartitionCommit);
        }
        let by = self.may_defer(keeper, false)?;
        self.nests_nothing()?;
        let is_too_long = room_for(len_max) > self.inner().body_len_max as u64;
        if by != TakenBackBy::NotCounting || self.heap.get_mut().is_some() || is_too_long {
            return Ok(None);
        }
        self.admit_change()?;
        self.enter()?;
        self.store.inner.log.throttle(self.partition)?;
        self.room_for_records(room_for(len_max), 0)?;
        let mut bytes = std::mem::take(&mut self.arguments);
        bytes.clear();
        let lsn = self.say_and_log(&mut bytes, page, len_max, change, logged);
        self.arguments = bytes;
        lsn?.map(|lsn| self.finish_commit(lsn, mode)).transpose()
    }

    /// Collects the changes, and appends the commit record with them.
    fn say_and_log<O: Operation, C>(
        &mut self,
        bytes: &mut Vec<u8>,
        page: Option<(PageId, &O)>,
        len_max: usize,
        change: impl FnOnce(&Txn, &mut CommitChanges<'_>) -> Result<Option<C>>,
        logged: impl FnOnce(C, Lsn),
    ) -> Result<Option<Lsn>> {
        let inner = Arc::clone(&self.store.inner);
        let encode = |bytes: &mut Vec<u8>| match page {
            Some((_, operation)) => encode::into_vec(operation, bytes).map_err(|_| unspeakable(O::NAME)),
            None => Ok(()),
        };
        let (mut change_of_page, mut latched) = (None, None);
        if let Some((id, operation)) = page {
            if !O::COMMITS {
                return Err(Error::Misuse("a commit record does not contain this operation: see Operation::COMMITS"));
            }
            let page = inner.pool.exclusive(id)?;
            operation.prepare(&page.page_ref(), RecordId::page(id).slot)?;
            change_of_page = Some((RecordId::page(id), inner.number_of::<O>()?, &encode as &dyn Fn(&mut Vec<u8>) -> _));
            latched = Some((page, operation));
        }
        let mut changes =
            CommitChanges { inner: &inner, bytes, len_max, newest: None, number: None, page: change_of_page };
        let Some(changed) = change(self, &mut changes)? else { return Ok(None) };
        changes.push_page()?;
        self.log_commit(bytes, latched, changed, logged).map(Some)
    }

    fn log_commit<O: Operation, C>(
        &mut self,
        changes: &[u8],
        page: Option<(Exclusive<'_>, &O)>,
        changed: C,
        logged: impl FnOnce(C, Lsn),
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
        let done = match &mut page {
            Some((page, operation)) => {
                let slot = RecordId::page(page.id()).slot;
                page.change(lsn, |page| operation.first(page, slot))
            }
            None => Ok(()),
        };
        logged(changed, lsn);
        self.cursor.unreported += room_for(changes.len());
        done.map_err(|damaged| self.store.inner.stop_for_damage(&damaged, O::NAME))?;
        Ok(lsn)
    }
}
