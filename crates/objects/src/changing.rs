//! A change of a record in the cache, on its way into the log.

use cedrat_sync::{Arc, MutexGuard};
use cedrat_txn::{Error, RecordId, Result};
use cedrat_wal::{Lsn, TxnId};

use crate::delta::{RecordDelta, difference};
use crate::kept::{Inverse, Kept, PENDING_BYTES, Pending, UndoState};
use crate::record;
use crate::state::{State, Touched};

/// Way to undo a change.
pub(crate) enum Back {
    /// Not logged, since the change counts only if it is committed: the cache restores the previous bytes.
    CommittedOnly,
    /// The logged inverse, and its length in bytes. It restores this version.
    Inverse { inverse: Arc<dyn Inverse>, bytes: u64, to: Lsn },
    /// No undo: the transaction has no atomicity.
    Stays,
}

/// A record that was changed in the cache, before the change is in the log. Dropping this value restores the record.
pub(crate) struct Changing<'c> {
    pub(crate) state: MutexGuard<'c, State>,
    line: usize,
    txn: TxnId,
    is_logged: bool,
}

impl<'c> Changing<'c> {
    /// Changes a record whose bytes are in the cache. Returns `None` if they are not, if the record differs from the state
    /// for which the inverse was made, or if `wanted` returns `false`.
    pub(crate) fn try_make(
        mut state: MutexGuard<'c, State>,
        txn: TxnId,
        at: RecordId,
        wanted: &impl Fn(&[u8], Lsn) -> bool,
        change: &impl RecordDelta,
        back: &Back,
    ) -> Result<Option<Changing<'c>>> {
        let Some(line) = state.line(at) else { return Ok(None) };
        state.note_request(at, line);
        let State { lines, before, before_at, .. } = &mut *state;
        let kept = lines[line].as_mut().expect("the index leads to lines that are taken");
        let Some(bytes) = &kept.bytes else { return Ok(None) };
        if !wanted(bytes, kept.version) || matches!(back, Back::Inverse { to, .. } if *to != kept.version) {
            return Ok(None);
        }
        if kept.is_pending() && kept.pending.iter().any(|pending| pending.txn != txn) {
            return Err(Error::Misuse(
                "another transaction has changed the object and has not ended; isolate transactions by locks",
            ));
        }
        // Most of a long record is in no near cache: bytes outside of the change are not read.
        let changes = change.changes().unwrap_or(0..bytes.len());
        let changes = changes.start.min(bytes.len())..changes.end.min(bytes.len());
        #[cfg(debug_assertions)]
        let all = bytes.to_vec();
        *before_at = changes.start;
        before.clear();
        before.extend_from_slice(bytes.get(changes).unwrap_or_default());
        let mut changing = Changing { state, line, txn, is_logged: false };
        change.apply(changing.bytes())?;
        #[cfg(debug_assertions)]
        changing.assert_unchanged_elsewhere(&all);
        changing.remember(back);
        Ok(Some(changing))
    }

    /// Memory that the undo needs, in bytes.
    pub(crate) fn cost_bytes(&self) -> u64 {
        self.state.was.as_ref().map_or(0, |&(_, bytes)| bytes)
    }

    fn kept(&mut self) -> &mut Kept {
        self.state.lines[self.line].as_mut().expect("a record that is being changed stays pinned")
    }

    /// Returns the record, in a private copy if another reference exists.
    fn bytes(&mut self) -> &mut [u8] {
        Arc::make_mut(self.kept().bytes.as_mut().expect("it was there to be changed"))
    }

    /// Asserts that a delta changes only its declared range: nothing else could be restored.
    #[cfg(debug_assertions)]
    fn assert_unchanged_elsewhere(&mut self, before: &[u8]) {
        let (from, to) = (self.state.before_at, self.state.before_at + self.state.before.len());
        let now = self.bytes();
        assert!(now[..from] == before[..from] && now[to..] == before[to..], "a delta changes more than it says");
    }

    fn remember(&mut self, back: &Back) {
        let (was, bytes) = match back {
            Back::CommittedOnly => {
                let State { lines, before, before_at, .. } = &*self.state;
                let kept = lines[self.line].as_ref().expect("a record that is being changed stays pinned");
                let now = kept.bytes.as_ref().expect("it was there to be changed");
                let changed = difference(before, &now[*before_at..][..before.len()]);
                let (version, committed) = (kept.version, kept.committed);
                let (at, len) = (before_at + changed.start, changed.len());
                (UndoState::Before { at, bytes: before[changed].into(), version, committed }, len as u64)
            }
            Back::Inverse { inverse, bytes, .. } => (UndoState::Inverse(Arc::clone(inverse)), *bytes),
            Back::Stays => return,
        };
        self.state.was = Some((was, PENDING_BYTES + bytes));
    }

    /// Completes the change, which is in the log with this LSN.
    pub(crate) fn logged(mut self, change: Lsn) {
        self.is_logged = true;
        let (txn, line, was) = (self.txn, self.line, self.state.was.take());
        let kept = self.kept();
        kept.changes_at(change);
        kept.was_used = true;
        let (at, died) = (kept.at(), kept.bytes.as_ref().is_some_and(|record| record::is_dead(record)));
        let is_first = was.is_some() && !kept.is_pending();
        if let Some((was, cost_bytes)) = was {
            // Many objects are changed once, and need no more.
            kept.pending.reserve_exact(usize::from(kept.pending.capacity() == 0));
            kept.pending.push(Pending { txn, change, was, cost_bytes });
            kept.pending_bytes += cost_bytes;
            self.state.used_bytes += cost_bytes;
        }
        if is_first || died {
            self.state.touched.entry(txn).or_default().push(Touched { at, line, died });
        }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if self.is_logged {
            return;
        }
        let State { lines, before, before_at, was, .. } = &mut *self.state;
        *was = None;
        if let Some(bytes) = lines[self.line].as_mut().and_then(|kept| kept.bytes.as_mut()) {
            Arc::make_mut(bytes)[*before_at..][..before.len()].copy_from_slice(before);
        }
    }
}
