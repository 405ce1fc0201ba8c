//! Changes of objects in a commit record: all of them take effect in the cache at one moment, when the record is in the log
//! (E19.15).
//!
//! The new states are computed before, one by one and with no latch held: the transaction has locked the objects, so they do
//! not change. But they may be evicted meanwhile, or be changed by a transaction without isolation; so each one is verified
//! again under the latch.

use std::fmt;

use cedrat_pages::PageId;
use cedrat_sync::{Arc, MutexGuard, planted};
use cedrat_txn::object_cache::CommitChanges;
use cedrat_txn::{RecordId, Result, Store};
use cedrat_wal::{Lsn, TxnId};

use crate::cache::Cache;
#[cfg(debug_assertions)]
use crate::delta::Patch;
use crate::delta::{PutBytes, Resize, changed_range, difference};
use crate::edit::{Edit, within};
use crate::insertions::InsertAll;
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
    fn apply(&self, changes: &[u8], record: &mut [u8]) {
        let bytes = &changes[..self.end][self.end - usize::from(self.put_len)..];
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

/// Memory of a plan, which a later one reuses.
#[derive(Default)]
pub(crate) struct PlanMemory {
    all: Vec<Planned>,
    changes: Vec<u8>,
}

impl PlanMemory {
    /// Maximum lengths that are kept: the memory of a large commit is freed.
    const KEPT_CHANGES: usize = 64;
    const KEPT_LEN: usize = 4096;

    /// Returns whether it is small enough to be kept.
    pub(crate) fn is_small(&self) -> bool {
        self.all.capacity() <= PlanMemory::KEPT_CHANGES && self.changes.capacity() <= PlanMemory::KEPT_LEN
    }
}

/// All planned changes of a commit, in the order of the records' places.
pub(crate) struct Plan {
    pub(crate) all: Vec<Planned>,
    /// The changes as they are logged, with the insertions of new objects.
    pub(crate) changes: CommitChanges<InsertAll>,
}

impl Plan {
    pub(crate) fn new(store: &Store, insertion: Option<(PageId, InsertAll)>, memory: PlanMemory) -> Result<Plan> {
        let PlanMemory { mut all, changes } = memory;
        all.clear();
        Ok(Plan { all, changes: CommitChanges::with_page(store, insertion, changes)? })
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

    /// Plans a change of an object's bytes, and perhaps of its length.
    #[inline]
    fn put(&mut self, at: RecordId, version: Lsn, len: Option<u16>, offset: u16, bytes: &[u8]) -> Result<()> {
        let put_len = bytes.len() as u16;
        match len {
            None => self.changes.push_serialised::<PutBytes, _>(at, [offset, put_len], bytes)?,
            Some(len) => self.changes.push_serialised::<Resize, _>(at, [len, offset, put_len], bytes)?,
        }
        let end = self.changes.as_bytes().len();
        self.all.push(Planned { at, version, line: 0, end, put_len, offset, len });
        Ok(())
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
    /// [`Error::Refused`](cedrat_txn::Error::Refused) if the bytes do not lie within the object;
    /// [`Error::Misuse`](cedrat_txn::Error::Misuse) if the objects are not in the order of their identities.
    #[inline]
    pub fn put_range(self, at: usize, bytes: &[u8]) -> Result<bool> {
        let there = within(self.object, at, bytes.len())?;
        let differ = difference(there, bytes);
        if !differ.is_empty() {
            self.plan_put(None, at + differ.start, &bytes[differ])?;
        }
        Ok(true)
    }

    /// Replaces the object. Returns whether its place has room for that.
    ///
    /// # Errors
    /// [`Error::Misuse`](cedrat_txn::Error::Misuse) if the objects are not in the order of their identities.
    pub fn replace(self, bytes: &[u8]) -> Result<bool> {
        if bytes.len() > self.capacity {
            return Ok(false);
        }
        if let Some(range) = changed_range(self.object, bytes) {
            let len = (bytes.len() != self.object.len()).then_some(bytes.len() as u16);
            self.plan_put(len, range.start, &bytes[range])?;
        }
        Ok(true)
    }

    /// Makes the change that an edit describes. Returns whether its place has room for that.
    ///
    /// # Errors
    /// As [`put_range`](Change::put_range).
    pub fn make(self, edit: Edit) -> Result<bool> {
        match edit {
            Edit::Nothing => Ok(true),
            Edit::Range { at, bytes } => self.put_range(at, &bytes),
            Edit::Whole(bytes) => self.replace(&bytes),
        }
    }

    #[inline]
    fn plan_put(self, len: Option<u16>, offset: usize, bytes: &[u8]) -> Result<()> {
        self.plan.put(self.at, self.version, len, offset as u16, bytes)
    }
}

/// Records that a commit record is about to change. Dropping this value before the record is in the log leaves them
/// unchanged.
pub(crate) struct Committing<'c> {
    state: MutexGuard<'c, State>,
    txn: TxnId,
    all: &'c mut Vec<Planned>,
}

impl Committing<'_> {
    /// Applies all changes at one moment; the commit record is in the log with this LSN.
    pub(crate) fn logged(mut self, commit: Lsn, changes: &mut Vec<u8>) {
        for planned in &*self.all {
            let kept = self.state.lines[planned.line].as_mut().expect("a record that is being changed stays pinned");
            let bytes = kept.bytes.as_mut().expect("it was there to be changed");
            planned.apply(changes, Arc::make_mut(bytes));
            kept.changes_at(commit);
            kept.was_used = true;
        }
        self.state.are_born(self.txn);
        self.state.reuse(PlanMemory { all: std::mem::take(self.all), changes: std::mem::take(changes) });
    }
}

impl Cache {
    /// Returns memory for the plan of a commit. `None` if the transaction has changed objects that wait for its end.
    pub(crate) fn begin_commit(&self, txn: TxnId) -> Option<PlanMemory> {
        let mut state = self.state.lock();
        (!state.touched.contains_key(&txn)).then(|| state.spare_plans.pop().unwrap_or_default())
    }

    /// Latches the cache until the commit record with the planned changes is in the log.
    ///
    /// `None` if a record is `missing` in the cache, or has changed, by a transaction without isolation. Nothing was changed
    /// then.
    pub(crate) fn commit<'c>(
        &'c self,
        txn: TxnId,
        all: &'c mut Vec<Planned>,
        missing: &mut Vec<RecordId>,
    ) -> Option<Committing<'c>> {
        let mut state = self.state.lock();
        for planned in &mut *all {
            let line = state.line(planned.at);
            let kept = line.and_then(|line| Some((line, state.lines[line].as_ref()?)));
            match kept.filter(|(_, kept)| kept.bytes.is_some()) {
                Some((_, kept)) if kept.is_pending() || !planned.is_of(kept) => return None,
                Some((line, _)) => planned.line = line,
                None => missing.push(planned.at),
            }
        }
        state.statistics.hits += all.len() as u64;
        missing.is_empty().then_some(Committing { state, txn, all })
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use cedrat_media::SimDisk;
    use cedrat_pages::Slot;
    use cedrat_txn::{Options, Registry};
    use proptest::prelude::*;

    use super::*;
    use crate::delta::Patch;

    /// A planned change is logged as its delta is.
    #[test]
    fn planned_changes_are_as_serialised() {
        let registry = Registry::new().with(crate::register);
        let store = Store::open(Arc::new(SimDisk::new()), Options::simulated(), registry).expect("a store");
        let at = RecordId::new(PageId::new(0), Slot(1));
        proptest!(|(len: Option<u16>, offset: u16, bytes in prop::collection::vec(0_u8.., 0..300))| {
            let mut plan = Plan::new(&store, None, PlanMemory::default()).expect("nothing is inserted");
            plan.put(at, Lsn::ZERO, len, offset, &bytes).expect("the page is there");
            let mut alike = CommitChanges::new(&store);
            let pushed = match Patch::of(len, offset, &bytes) {
                Patch::PutBytes(put) => alike.push(at, &put),
                Patch::Resize(resize) => alike.push(at, &resize),
            };
            pushed.expect("the page is there");
            prop_assert_eq!(plan.changes.as_bytes(), alike.as_bytes());
        });
    }
}
