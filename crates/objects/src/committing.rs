//! Changes of objects in a commit record: all of them take effect in the cache at one moment, when the record is in the log
//! (E19.15).
//!
//! The new states are computed before, one by one and with no latch held: the transaction has locked the objects, so they do
//! not change. But they may be evicted meanwhile, or be changed by a transaction without isolation; so each one is verified
//! again under the latch.

use cedrat_sync::Arc;
use cedrat_sync::{MutexGuard, planted};
use cedrat_txn::{CommitChanges, RecordId, Result};
use cedrat_wal::{Lsn, TxnId};

use crate::cache::Cache;
use crate::delta::{PATCH_HEAD_LEN_MAX, Patch};
use crate::edit::{Edit, Edited, edited};
use crate::kept::{Image, Kept};
use crate::record::{self, Header};
use crate::state::State;

/// The planned change of a record.
pub(crate) struct Planned {
    at: RecordId,
    /// Version of the record for which the change was computed.
    version: Lsn,
    patch: Patch,
    /// Line of the record in the cache, once it was looked up.
    line: usize,
}

impl Planned {
    /// Returns whether the record still has the version for which the change was computed.
    fn is_of(&self, kept: &Kept) -> bool {
        kept.version == self.version || planted!("changed_object_overwritten")
    }
}

/// All planned changes of a commit, in the order of the records' places.
pub(crate) struct Plan {
    all: Vec<Planned>,
    /// Number of insertions of objects, by one operation each.
    insertions: usize,
    arguments_len_max: usize,
}

impl Plan {
    /// Returns a plan with memory for so many changes, if they are few, as usual.
    pub(crate) fn for_changes(changes: usize) -> Plan {
        Plan { all: Vec::with_capacity(changes.min(8)), insertions: 0, arguments_len_max: 0 }
    }

    /// Adds the change that `edit` makes of the object in this record. `false`: the change cannot be part of a commit record.
    pub(crate) fn add(
        &mut self,
        at: RecordId,
        (found, header): &(Image, Header),
        edit: impl FnOnce(&[u8]) -> Option<Edit>,
    ) -> Result<bool> {
        if header.is_dead() || header.is_target() || header.forward.is_some() {
            return Ok(false);
        }
        let old = record::object(&found.bytes, header);
        let Some(edit) = edit(old) else { return Ok(false) };
        let patch = match edited(old, edit)? {
            Edited::Nothing => None,
            Edited::Put { put, .. } => Some(Patch::PutBytes(put)),
            Edited::Whole(bytes) if bytes.len() > header.capacity => return Ok(false),
            Edited::Whole(bytes) => Patch::between(old, &bytes),
        };
        if let Some(patch) = patch {
            self.arguments_len_max += PATCH_HEAD_LEN_MAX + patch.put_len();
            self.all.push(Planned { at, version: found.version, patch, line: 0 });
        }
        Ok(true)
    }

    /// Adds insertions, by an operation whose arguments have at most so many bytes.
    pub(crate) fn add_insertion(&mut self, arguments_len_max: usize) {
        self.insertions += 1;
        self.arguments_len_max += arguments_len_max;
    }

    /// Upper bound of its length in a commit record, in bytes.
    pub(crate) fn len_max(&self) -> usize {
        CommitChanges::len_bound(self.all.len() + self.insertions, self.arguments_len_max)
    }

    pub(crate) fn say(&self, changes: &mut CommitChanges<'_>) -> Result<()> {
        self.all.iter().try_for_each(|planned| match &planned.patch {
            Patch::PutBytes(put) => changes.push(planned.at, put),
            Patch::Resize(resize) => changes.push(planned.at, resize),
        })
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
        for Planned { line, patch, .. } in &self.plan.all {
            let kept = self.state.lines[*line].as_mut().expect("a record that is being changed stays pinned");
            let bytes = kept.bytes.as_mut().expect("it was there to be changed");
            patch.apply_again(Arc::make_mut(bytes));
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
