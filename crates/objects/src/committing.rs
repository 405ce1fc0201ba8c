//! What a commit record says of objects: they change in the cache when it is in the log, all at one moment (E19.15).
//!
//! What becomes of them is found out before, one by one and with no latch held: their transaction has locked them, so they stay as
//! they are. They may be let go of meanwhile, or be changed by who does without locks; so it is looked, under the latch, whether each
//! is there and as it was.

use cedrat_sync::Arc;
use cedrat_sync::MutexGuard;
use cedrat_txn::{CommitChanges, RecordId, Result};
use cedrat_wal::{Lsn, TxnId};

use crate::cache::{Cache, State};
use crate::delta::{PATCH_HEAD_LEN_MAX, Patch};
use crate::edit::{Edit, Edited, edited};
use crate::kept::Image;
use crate::record::{self, Header};

/// What a commit makes of a record.
pub(crate) struct Planned {
    at: RecordId,
    /// For the version that the record had.
    version: Lsn,
    patch: Patch,
    /// Where it is kept, once that was looked up.
    line: usize,
}

/// All that a commit makes of records, in the order of their places.
#[derive(Default)]
pub(crate) struct Plan {
    all: Vec<Planned>,
    arguments_len_max: usize,
}

impl Plan {
    /// Adds what `edit` makes of an object, which lies in this record. `false`: that is not for a commit record.
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

    /// The most bytes that it takes in a commit record.
    pub(crate) fn len_max(&self) -> usize {
        CommitChanges::len_bound(self.all.len(), self.arguments_len_max)
    }

    pub(crate) fn say(&self, changes: &mut CommitChanges<'_>) -> Result<()> {
        self.all.iter().try_for_each(|planned| match &planned.patch {
            Patch::PutBytes(put) => changes.push(planned.at, put),
            Patch::Resize(resize) => changes.push(planned.at, resize),
        })
    }
}

/// Records that are about to be changed by a commit record. Dropped before it is in the log, they are as they were.
pub(crate) struct Committing<'c> {
    state: MutexGuard<'c, State>,
    txn: TxnId,
    plan: &'c Plan,
}

impl Committing<'_> {
    /// The log has the commit record, with this LSN: all of them change, at one moment.
    pub(crate) fn logged(mut self, commit: Lsn) {
        for Planned { line, patch, .. } in &self.plan.all {
            let kept = self.state.lines[*line].as_mut().expect("nobody lets go of a record that is being changed");
            let bytes = kept.bytes.as_mut().expect("it was there to be changed");
            patch.apply(Arc::make_mut(bytes)).expect("E6.1: it was made for these very bytes");
            kept.changes_at(commit);
            kept.was_used = true;
        }
        self.state.are_born(self.txn);
    }
}

impl Cache {
    /// Whether this transaction has changed objects that wait for its end.
    pub(crate) fn has_touched(&self, txn: TxnId) -> bool {
        self.state.lock().touched.contains_key(&txn)
    }

    /// Holds the latch until the commit record is in the log, which is to have what was planned.
    ///
    /// `None` if a record is `missing` in the cache, or is not as it was: somebody does without locks. Nothing has happened then.
    pub(crate) fn commit<'c>(
        &'c self,
        txn: TxnId,
        plan: &'c mut Plan,
        missing: &mut Vec<RecordId>,
    ) -> Option<Committing<'c>> {
        let mut state = self.state.lock();
        for planned in &mut plan.all {
            let line = state.index.get(&planned.at).copied();
            let kept = line.and_then(|line| Some((line, state.lines[line].as_ref()?)));
            match kept.filter(|(_, kept)| kept.bytes.is_some()) {
                Some((_, kept)) if kept.is_pending() || kept.version != planned.version => return None,
                Some((line, _)) => planned.line = line,
                None => missing.push(planned.at),
            }
        }
        state.statistics.hits += plan.all.len() as u64;
        missing.is_empty().then_some(Committing { state, txn, plan })
    }
}
