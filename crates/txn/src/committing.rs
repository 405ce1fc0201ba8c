//! Changes of records that the commit record itself has (E19.15).
//!
//! What counts only if its transaction commits is worth nothing in the log before that. So who knows at the commit what it is
//! going to change has one record for all of it, where [`Txn::defer`] makes one for each change:
//!
//! ```text
//!   defer, defer, defer, commit      update │ update │ update │ commit
//!   commit_with_changes              commit: change, change, change
//! ```
//!
//! There is nothing to take back then: the record is in the log as a whole or not at all, and with it the transaction has
//! committed. Each change is redone by the version of its record as any that was deferred; all versions are the LSN of the
//! commit, so no record is changed twice.

use std::fmt;

use cedrat_wal::{Kind, Lsn, Ticket};

use crate::body::{CHANGE_HEAD_LEN_MAX, Head, Redo, put_change, room_for};
use crate::deferred::{Delta, Keeper, TakenBackBy};
use crate::encode;
use crate::error::{Error, Result};
use crate::operation::{RecordId, Refused};
use crate::store::Inner;
use crate::transaction::{Commit, Txn};
use crate::update::unspeakable;

/// Changes of records for a commit record: see [`Txn::commit_with_changes`].
pub struct CommitChanges<'t> {
    inner: &'t Inner,
    bytes: Vec<u8>,
    len_max: usize,
    /// Arguments of one of them.
    arguments: Vec<u8>,
    newest: Option<RecordId>,
}

impl fmt::Debug for CommitChanges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitChanges").field("len", &self.bytes.len()).field("newest", &self.newest).finish()
    }
}

impl CommitChanges<'_> {
    /// The most bytes that so many changes take, whose arguments have so many in all.
    pub const fn len_bound(changes: usize, arguments_len: usize) -> usize {
        changes * CHANGE_HEAD_LEN_MAX + arguments_len
    }

    /// Adds one. Records are changed once each, in the order of their places.
    ///
    /// # Errors
    /// [`Error::Misuse`] for another order, or for more than was said; [`Error::Refused`] if there is no such page;
    /// [`Error::Unregistered`].
    pub fn push<D: Delta>(&mut self, at: RecordId, delta: &D) -> Result<()> {
        if self.newest >= Some(at) {
            return Err(Error::Misuse("a commit changes each record once, in the order of their places"));
        }
        if at.page.get() >= self.inner.pool.len_pages() {
            return Err(Refused::new(format!("there is no page {}", at.page)).into());
        }
        let operation = self.inner.number_of_delta::<D>()?;
        self.arguments.clear();
        encode::into_vec(delta, &mut self.arguments).map_err(|_| unspeakable(D::NAME))?;
        put_change(&mut self.bytes, Redo { operation, at, arguments: &self.arguments });
        self.newest = Some(at);
        if self.bytes.len() > self.len_max {
            return Err(Error::Misuse("the changes of a commit take more room than was asked for"));
        }
        Ok(())
    }
}

impl Txn {
    /// Commits, and changes kept records in the commit record: as [`defer_when`](Txn::defer_when) would for each of them, and
    /// then [`commit`](Txn::commit). The transaction has ended then.
    ///
    /// `change` says what is changed, at most `len_max` bytes of it ([`CommitChanges::len_bound`]). It is called when all that may
    /// wait was waited for, and makes no change yet; the keeper's latch may be taken there and be held in its answer. `logged`
    /// is told the LSN, the version of all these records from now on, and makes the changes; it cannot fail. So nobody comes
    /// between the record in the log and what is kept.
    ///
    /// `None`, and nothing has happened, and the transaction goes on: `change` says so; it belongs to heaps too; it has given up
    /// atomicity; or no record of the log is so long.
    ///
    /// # Errors
    /// As [`defer`](Txn::defer), and those of `change`: nothing has happened then, and the transaction goes on unless it was
    /// rolled back. [`Error::Stopped`]: only reopening the store tells whether the commit was kept.
    pub fn commit_with_changes<C>(
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
        let (mut bytes, arguments) = (std::mem::take(&mut self.arguments), std::mem::take(&mut self.head));
        bytes.clear();
        let inner = &*self.store.inner;
        let mut changes = CommitChanges { inner, bytes, len_max, arguments, newest: None };
        let changed = change(self, &mut changes);
        let CommitChanges { bytes, arguments, .. } = changes;
        self.head = arguments;
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
            // Before the draw: a checkpoint that read the clock behind it finds the log held (E19.4).
            self.entry.as_ref().expect("it has entered").defers(newest.next());
        }
        let lsn = self.append(Kind::COMMIT, changes)?.lsn;
        // From here nothing can fail.
        self.inner().note_commit(lsn);
        logged(changed, lsn);
        self.unreported += room_for(changes.len());
        Ok(lsn)
    }
}
