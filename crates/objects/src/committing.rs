//! What a commit record says of objects: they change in the cache when it is in the log, all at one moment (E19.15).

use cedrat_sync::{Arc, MutexGuard};
use cedrat_txn::{CommitChanges, RecordId, Refused, Result};
use cedrat_wal::{Lsn, TxnId};

use crate::cache::{Cache, State};
use crate::delta::Patch;
use crate::edit::{Edit, Edited, edited};
use crate::record::{self, Header};

/// Records that are about to be changed by a commit record. Dropped before it is in the log, they are as they were.
pub(crate) struct Committing<'c> {
    state: MutexGuard<'c, State>,
    txn: TxnId,
}

impl Committing<'_> {
    /// The log has the commit record, with this LSN: all of them change, at one moment.
    pub(crate) fn logged(mut self, commit: Lsn) {
        let State { lines, decided, .. } = &mut *self.state;
        for (line, patch) in decided.drain(..) {
            let kept = lines[line].as_mut().expect("nobody lets go of a record that is being changed");
            let bytes = kept.bytes.as_mut().expect("it was there to be changed");
            patch.apply(Arc::make_mut(bytes)).expect("E6.1: it was made for these very bytes");
            kept.changes_at(commit);
            kept.was_used = true;
        }
        self.state.are_born(self.txn);
    }
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.state.decided.clear();
    }
}

impl Cache {
    /// Says what a commit record is to have: `edit` sees each object, the first with number 0, and says what becomes of it. So
    /// long, and until the record is in the log, the latch is held.
    ///
    /// `None` if `edit` says so, or if a record is `missing` in the cache, holds no object of its own, or has changes that are
    /// not committed; if the transaction has changed others before; or if an object does not fit its record any more. Nothing has happened then. So also after an error.
    pub(crate) fn commit(
        &self,
        txn: TxnId,
        all: impl Iterator<Item = RecordId>,
        mut edit: impl FnMut(usize, &[u8]) -> Option<Edit>,
        changes: &mut CommitChanges<'_>,
        missing: &mut Vec<RecordId>,
    ) -> Result<Option<Committing<'_>>> {
        let mut committing = Committing { state: self.state.lock(), txn };
        if committing.state.has_touched(txn) {
            return Ok(None); // they are of the same moment, which comes when it has ended
        }
        for (number, at) in all.enumerate() {
            let State { index, lines, decided, statistics, .. } = &mut *committing.state;
            let line = index.get(&at).copied();
            let Some((line, bytes, kept)) = line.and_then(|line| {
                let kept = lines[line].as_ref()?;
                Some((line, kept.bytes.as_ref()?, kept))
            }) else {
                missing.push(at);
                continue;
            };
            if !missing.is_empty() {
                continue; // which others are missing is all that is of interest now
            }
            statistics.hits += 1;
            if kept.is_pending() || !record::is_plain(bytes) {
                return Ok(None);
            }
            let header = Header::of(bytes).map_err(Refused::from)?;
            let old = record::object(bytes, &header);
            let Some(edit) = edit(number, old) else { return Ok(None) };
            let patch = match edited(old, edit)? {
                Edited::Nothing => continue,
                Edited::Put { put, .. } => Patch::PutBytes(put),
                Edited::Whole(bytes) if bytes.len() > header.capacity => return Ok(None),
                Edited::Whole(bytes) => match Patch::between(old, &bytes) {
                    Some(patch) => patch,
                    None => continue,
                },
            };
            match &patch {
                Patch::PutBytes(put) => changes.push(at, put)?,
                Patch::Resize(resize) => changes.push(at, resize)?,
            }
            decided.push((line, patch));
        }
        Ok(missing.is_empty().then_some(committing))
    }
}
