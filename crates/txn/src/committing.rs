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

use std::fmt;

use cedrat_wal::{Kind, Lsn, Ticket};

use crate::body::{CHANGE_HEAD_LEN_MAX, Head, put_change, room_for};
use crate::deferred::{Delta, Keeper, TakenBackBy};
use crate::encode;
use crate::error::{Error, Result};
use crate::operation::{RecordId, Refused};
use crate::store::Inner;
use crate::transaction::{Commit, Txn};
use crate::update::unspeakable;

/// The changes of records that a commit record will contain: see [`Txn::commit_with_changes`].
pub struct CommitChanges<'t> {
    inner: &'t Inner,
    bytes: Vec<u8>,
    len_max: usize,
    newest: Option<RecordId>,
}

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
        if self.newest >= Some(at) {
            return Err(Error::Misuse("a commit changes each record once, in the order of their places"));
        }
        if at.page.get() >= self.inner.pool.len_pages() {
            return Err(Refused::new(format!("there is no page {}", at.page)).into());
        }
        let operation = self.inner.number_of_delta::<D>()?;
        let encode = |bytes: &mut Vec<u8>| encode::into_vec(delta, bytes).map_err(|_| unspeakable(D::NAME));
        let before = self.bytes.len();
        put_change(&mut self.bytes, operation, at, encode)?;
        if self.bytes.len() > self.len_max {
            self.bytes.truncate(before);
            return Err(Error::Misuse("the changes of a commit take more room than was asked for"));
        }
        self.newest = Some(at);
        Ok(())
    }
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
        self.as_one_call(|txn| txn.commit_with_changes_in_call(keeper, len_max, mode, change, logged))
    }

    fn commit_with_changes_in_call<C>(
        &mut self,
        keeper: &Keeper,
        len_max: usize,
        mode: Commit,
        change: impl FnOnce(&Txn, &mut CommitChanges<'_>) -> Result<Option<C>>,
        logged: impl FnOnce(C, Lsn),
    ) -> Result<Option<Ticket>> {
        if mode == Commit::Partition {
            return Err(Error::PartitionCommit);
        }
        let by = self.may_defer(keeper, false)?;
        if self.depth > 0 {
            return Err(Error::Misuse("a transaction commits outside of what it nests"));
        }
        let is_too_long = room_for(len_max) > self.inner().body_len_max as u64;
        if by != TakenBackBy::NotCounting || self.heap.get_mut().is_some() || is_too_long {
            return Ok(None);
        }
        self.may_change()?;
        self.enter()?;
        self.store.inner.log.throttle(self.partition)?;
        self.room_for_records(room_for(len_max), 0)?;
        let mut bytes = std::mem::take(&mut self.arguments);
        bytes.clear();
        let inner = &*self.store.inner;
        let mut changes = CommitChanges { inner, bytes, len_max, newest: None };
        let changed = change(self, &mut changes);
        let CommitChanges { bytes, .. } = changes;
        let lsn =
            changed.and_then(|changed| changed.map(|changed| self.log_commit(&bytes, changed, logged)).transpose());
        self.arguments = bytes;
        lsn?.map(|lsn| self.has_committed(lsn, mode)).transpose()
    }

    fn log_commit<C>(&mut self, changes: &[u8], changed: C, logged: impl FnOnce(C, Lsn)) -> Result<Lsn> {
        self.head.clear();
        if !changes.is_empty() {
            Head(&mut self.head).commit_with_changes(changes.len());
            let newest = self.inner().log.current_lsn();
            // Set before the LSN is drawn, so that a checkpoint that has read the clock after the draw finds the log
            // held (E19.4).
            self.entry.as_ref().expect("it has entered").defers(newest.next());
        }
        let lsn = self.append(Kind::COMMIT, changes)?.lsn;
        // Nothing can fail from here on.
        self.note_commit(lsn);
        logged(changed, lsn);
        self.unreported += room_for(changes.len());
        Ok(lsn)
    }
}
