//! A change of a record in the cache, on its way into the log.

use cedrat_sync::{Arc, MutexGuard};
use cedrat_wal::{Lsn, TxnId};

use crate::cache::{State, Touched};
use crate::delta::difference;
use crate::kept::{Inverse, Kept, PENDING_BYTES, Pending, Was};
use crate::record;

/// How a change is taken back, should it be.
pub(crate) enum Back {
    /// It counts only if it is committed: the cache puts back what was there.
    NotCounting,
    /// The log has this, which takes so many bytes. It leads back to this version.
    Inverse { inverse: Arc<dyn Inverse>, bytes: u64, to: Lsn },
    /// It is not: its transaction has no atomicity.
    Stays,
}

/// A record that has been changed in the cache, and is about to be in the log. Dropped before, it is as it was.
pub(crate) struct Changing<'c> {
    pub(crate) state: MutexGuard<'c, State>,
    pub(crate) line: usize,
    pub(crate) txn: TxnId,
    pub(crate) is_logged: bool,
}

impl Changing<'_> {
    fn kept(&mut self) -> &mut Kept {
        self.state.lines[self.line].as_mut().expect("nobody lets go of a record that is being changed")
    }

    /// The record. Whoever looks at it has it as it was.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        Arc::make_mut(self.kept().bytes.as_mut().expect("it was there to be changed"))
    }

    /// A delta says rightly what it changes: nothing else could be put back.
    #[cfg(debug_assertions)]
    pub(crate) fn assert_unchanged_elsewhere(&mut self, before: &[u8]) {
        let (from, to) = (self.state.before_at, self.state.before_at + self.state.before.len());
        let now = self.bytes();
        assert!(now[..from] == before[..from] && now[to..] == before[to..], "a delta changes more than it says");
    }

    pub(crate) fn remember(&mut self, back: Back) {
        let (was, bytes) = match back {
            Back::NotCounting => {
                let State { lines, before, before_at, .. } = &*self.state;
                let kept = lines[self.line].as_ref().expect("nobody lets go of a record that is being changed");
                let now = kept.bytes.as_ref().expect("it was there to be changed");
                let changed = difference(before, &now[*before_at..][..before.len()]);
                let (version, committed) = (kept.version, kept.committed);
                let (at, len) = (before_at + changed.start, changed.len());
                (Was::Before { at, bytes: before[changed].into(), version, committed }, len as u64)
            }
            Back::Inverse { inverse, bytes, .. } => (Was::Inverse(inverse), bytes),
            Back::Stays => return,
        };
        self.state.was = Some((was, PENDING_BYTES + bytes));
    }

    /// The log has the change, with this LSN.
    pub(crate) fn logged(mut self, change: Lsn) {
        self.is_logged = true;
        let (txn, line, was) = (self.txn, self.line, self.state.was.take());
        let kept = self.kept();
        kept.changes_at(change);
        kept.was_used = true;
        let (at, died) = (kept.at(), kept.bytes.as_ref().is_some_and(|record| record::is_dead(record)));
        let is_first = was.is_some() && !kept.is_pending();
        if let Some((was, cost_bytes)) = was {
            // Many objects are changed once, and remember no more.
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
