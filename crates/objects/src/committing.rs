//! Changes of objects in a commit record: all of them take effect in the cache at one moment, when the record is in the log
//! (E19.15).
//!
//! The new states are computed before, one by one and with no latch held: the transaction has locked the objects, so they do
//! not change. But they may be evicted meanwhile, or be changed by a transaction without isolation; so each one is verified
//! again under the latch.

use std::fmt;

use cedrat_sync::Arc;
use cedrat_sync::{MutexGuard, planted};
use cedrat_txn::{CommitChanges, RecordId, Result};
use cedrat_wal::{Lsn, TxnId};

use crate::cache::Cache;
#[cfg(debug_assertions)]
use crate::delta::Patch;
use crate::delta::{PutBytes, Resize, changed_range, difference, put_arguments};
use crate::edit::{Edit, within};
use crate::kept::{Image, Kept};
use crate::record::{self, HEADER_LEN};
use crate::state::State;

/// The planned change of a record: a range, and perhaps the length of its object.
pub(crate) struct Planned {
    at: RecordId,
    /// Version of the record for which the change was computed.
    version: Lsn,
    /// Line of the record in the cache, once it was looked up.
    line: usize,
    /// End of its serialised form in the plan; the last `put_len` bytes before are those that it writes.
    end: usize,
    put_len: u16,
    /// Offset of these bytes in the object.
    offset: u16,
    /// New length of the object, if it changes.
    len: Option<u16>,
}

impl Planned {
    /// Returns whether the record still has the version for which the change was computed.
    fn is_of(&self, kept: &Kept) -> bool {
        kept.version == self.version || planted!("changed_object_overwritten")
    }

    /// Changes the record of the object for which the change was computed: it is not checked again.
    #[inline]
    fn apply(&self, arguments: &[u8], record: &mut [u8]) {
        let bytes = &arguments[..self.end][self.end - usize::from(self.put_len)..];
        #[cfg(debug_assertions)]
        let expected = {
            let mut expected = record.to_vec();
            let applied = Patch::of(self.len, self.offset, bytes).apply(&mut expected);
            assert!(applied.is_ok(), "E6.1: it was made for these very bytes");
            expected
        };
        record::body(record)[self.offset.into()..][..bytes.len()].copy_from_slice(bytes);
        if let Some(len) = self.len {
            record::set_len(record, len);
        }
        #[cfg(debug_assertions)]
        assert_eq!(record, expected, "E13.1: recovery would make another change");
    }
}

/// All planned changes of a commit, in the order of the records' places.
pub(crate) struct Plan {
    all: Vec<Planned>,
    /// The changes as they are logged, one after the other.
    arguments: Vec<u8>,
    /// Number of insertions of objects, by one operation each, and the length of their arguments.
    insertions: usize,
    insertions_len_max: usize,
}

impl Plan {
    /// Returns a plan with memory for so many changes, if they are few and small, as usual.
    pub(crate) fn for_changes(changes: usize) -> Plan {
        let few = changes.min(8);
        let (all, arguments) = (Vec::with_capacity(few), Vec::with_capacity(32 * few));
        Plan { all, arguments, insertions: 0, insertions_len_max: 0 }
    }

    /// Adds the change that `edit` makes of the object in this record. `false`: the change cannot be part of a commit record.
    #[inline]
    pub(crate) fn add(
        &mut self,
        at: RecordId,
        found: &Image,
        edit: impl FnOnce(Change<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let Some(object) = record::plain_object(&found.bytes) else { return Ok(false) };
        let capacity = found.bytes.len() - HEADER_LEN;
        edit(Change { plan: self, at, version: found.version, object, capacity })
    }

    /// Adds insertions, by an operation whose arguments have at most so many bytes.
    pub(crate) fn add_insertion(&mut self, arguments_len_max: usize) {
        self.insertions += 1;
        self.insertions_len_max += arguments_len_max;
    }

    /// Upper bound of its length in a commit record, in bytes.
    pub(crate) fn len_max(&self) -> usize {
        let arguments_len = self.arguments.len() + self.insertions_len_max;
        CommitChanges::len_bound(self.all.len() + self.insertions, arguments_len)
    }

    pub(crate) fn say(&self, changes: &mut CommitChanges<'_>) -> Result<()> {
        let mut begin = 0;
        self.all.iter().try_for_each(|planned| {
            let arguments = &self.arguments[begin..planned.end];
            begin = planned.end;
            match planned.len {
                None => changes.push_serialised::<PutBytes>(planned.at, arguments),
                Some(_) => changes.push_serialised::<Resize>(planned.at, arguments),
            }
        })
    }
}

/// The change of one object in a commit, to be made: see [`Objects::commit_changes`](crate::Objects::commit_changes).
pub struct Change<'p> {
    plan: &'p mut Plan,
    at: RecordId,
    version: Lsn,
    object: &'p [u8],
    capacity: usize,
}

impl fmt::Debug for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change").field("at", &self.at).field("object", &self.object).finish_non_exhaustive()
    }
}

impl<'p> Change<'p> {
    /// The object as it is.
    pub fn object(&self) -> &'p [u8] {
        self.object
    }

    /// Overwrites the bytes from `at` on; the length stays the same. Bytes that are equal are not logged. Returns `true`.
    ///
    /// # Errors
    /// [`Error::Refused`](cedrat_txn::Error::Refused) if the bytes do not lie within the object.
    #[inline]
    pub fn put_range(self, at: usize, bytes: &[u8]) -> Result<bool> {
        let there = within(self.object, at, bytes.len())?;
        let differ = difference(there, bytes);
        if !differ.is_empty() {
            self.plan_put(None, at + differ.start, &bytes[differ]);
        }
        Ok(true)
    }

    /// Replaces the object. Returns whether its place has room for that.
    pub fn replace(self, bytes: &[u8]) -> bool {
        if bytes.len() > self.capacity {
            return false;
        }
        if let Some(range) = changed_range(self.object, bytes) {
            let len = (bytes.len() != self.object.len()).then_some(bytes.len() as u16);
            self.plan_put(len, range.start, &bytes[range]);
        }
        true
    }

    /// Makes the change that an edit describes. Returns whether its place has room for that.
    ///
    /// # Errors
    /// As [`put_range`](Change::put_range).
    pub fn make(self, edit: Edit) -> Result<bool> {
        match edit {
            Edit::Nothing => Ok(true),
            Edit::Range { at, bytes } => self.put_range(at, &bytes),
            Edit::Whole(bytes) => Ok(self.replace(&bytes)),
        }
    }

    #[inline]
    fn plan_put(self, len: Option<u16>, offset: usize, bytes: &[u8]) {
        let Change { plan, at, version, .. } = self;
        let (offset, put_len) = (offset as u16, bytes.len() as u16);
        put_arguments(&mut plan.arguments, len, offset, bytes);
        plan.all.push(Planned { at, version, line: 0, end: plan.arguments.len(), put_len, offset, len });
    }
}

/// Records that a commit record is about to change. Dropping this value before the record is in the log leaves them
/// unchanged.
pub(crate) struct Committing<'c> {
    state: MutexGuard<'c, State>,
    txn: TxnId,
    plan: &'c Plan,
}

impl Committing<'_> {
    /// Applies all changes at one moment; the commit record is in the log with this LSN.
    pub(crate) fn logged(mut self, commit: Lsn) {
        for planned in &self.plan.all {
            let kept = self.state.lines[planned.line].as_mut().expect("a record that is being changed stays pinned");
            let bytes = kept.bytes.as_mut().expect("it was there to be changed");
            planned.apply(&self.plan.arguments, Arc::make_mut(bytes));
            kept.changes_at(commit);
            kept.was_used = true;
        }
        self.state.are_born(self.txn);
    }
}

impl Cache {
    /// Returns whether this transaction has changed objects that wait for its end.
    pub(crate) fn has_touched(&self, txn: TxnId) -> bool {
        self.state.lock().touched.contains_key(&txn)
    }

    /// Latches the cache until the commit record with the planned changes is in the log.
    ///
    /// `None` if a record is `missing` in the cache, or has changed, by a transaction without isolation. Nothing was changed
    /// then.
    pub(crate) fn commit<'c>(
        &'c self,
        txn: TxnId,
        plan: &'c mut Plan,
        missing: &mut Vec<RecordId>,
    ) -> Option<Committing<'c>> {
        let mut state = self.state.lock();
        for planned in &mut plan.all {
            let line = state.line(planned.at);
            let kept = line.and_then(|line| Some((line, state.lines[line].as_ref()?)));
            match kept.filter(|(_, kept)| kept.bytes.is_some()) {
                Some((_, kept)) if kept.is_pending() || !planned.is_of(kept) => return None,
                Some((line, _)) => planned.line = line,
                None => missing.push(planned.at),
            }
        }
        state.statistics.hits += plan.all.len() as u64;
        missing.is_empty().then_some(Committing { state, txn, plan })
    }
}
