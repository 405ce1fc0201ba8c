//! Table of a cache: records, their memory and their phases. Nothing here waits; the latch around it belongs to `cache`.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use cedrat_sync::Arc;
use cedrat_sync::planted;
use cedrat_txn::RecordId;
use cedrat_wal::{Lsn, TxnId};

use crate::cache::Statistics;
use crate::committing::PlanMemory;
use crate::kept::{Flushable, Kept, Owed, Phase, UndoState};

/// A record that a transaction has changed.
pub(crate) struct Touched {
    pub(crate) at: RecordId,
    /// Its line at that time.
    pub(crate) line: usize,
    /// The change was the removal of the object.
    pub(crate) died: bool,
}

/// Hash function for a place, or a transaction. Collisions cannot be provoked, because the store allocates the numbers.
#[derive(Default)]
pub(crate) struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(26) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        // Hash tables also use the low bits, which depend only on the low bits of the factors.
        self.0 ^ self.0 >> 32
    }
}

/// Number of recent records.
const RECENT: usize = 32;

fn recent_of(at: RecordId) -> usize {
    (at.page.get() as usize ^ usize::from(at.slot.0)) % RECENT
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) index: HashMap<RecordId, usize, BuildHasherDefault<PlaceHasher>>,
    pub(crate) lines: Vec<Option<Kept>>,
    /// Lines of the records that were requested last, by the low bits of their places: changes usually follow requests.
    recent: [usize; RECENT],
    vacant: Vec<usize>,
    /// Hand of the clock algorithm: a line.
    hand: usize,
    /// Memory of all records, reservations included.
    pub(crate) used_bytes: u64,
    /// The reserved part of it.
    pub(crate) reserved_bytes: u64,
    /// Records that are not in [`Phase::Present`].
    pub(crate) busy: usize,
    pub(crate) touched: HashMap<TxnId, Vec<Touched>, BuildHasherDefault<PlaceHasher>>,
    /// Records whose end may be committed, or whose insertion was undone.
    pub(crate) died: Vec<RecordId>,
    /// Records in pages with an uncommitted insertion; `born_by` lists them by transaction.
    pub(crate) unborn: HashSet<RecordId, BuildHasherDefault<PlaceHasher>>,
    pub(crate) born_by: HashMap<TxnId, Vec<RecordId>, BuildHasherDefault<PlaceHasher>>,
    /// Empty lists for `born_by`: most transactions insert few records, and each would allocate one.
    spare_born: Vec<Vec<RecordId>>,
    /// Memory for the plans of commits.
    pub(crate) spare_plans: Vec<PlanMemory>,
    /// Offset and previous bytes of the change that is being made.
    pub(crate) before_at: usize,
    pub(crate) before: Vec<u8>,
    /// Its undo, and the memory of that.
    pub(crate) was: Option<(UndoState, u64)>,
    pub(crate) statistics: Statistics,
}

impl State {
    #[inline]
    pub(crate) fn line(&self, at: RecordId) -> Option<usize> {
        let recent = self.recent[recent_of(at)];
        match self.lines.get(recent) {
            Some(Some(kept)) if kept.at() == at => Some(recent),
            _ => self.index.get(&at).copied(),
        }
    }

    /// Notes that this record was requested, which has this line.
    #[inline]
    pub(crate) fn note_request(&mut self, at: RecordId, line: usize) {
        self.recent[recent_of(at)] = line;
    }

    pub(crate) fn kept(&self, at: RecordId) -> Option<&Kept> {
        self.lines[self.line(at)?].as_ref()
    }

    /// Changes a record, and updates the memory count.
    pub(crate) fn with<R>(&mut self, at: RecordId, change: impl FnOnce(&mut Kept) -> R) -> Option<R> {
        let line = self.line(at)?;
        self.with_line(line, change)
    }

    pub(crate) fn with_line<R>(&mut self, line: usize, change: impl FnOnce(&mut Kept) -> R) -> Option<R> {
        let kept = self.lines[line].as_mut()?;
        let before = kept.cost_bytes();
        let result = change(kept);
        self.used_bytes = self.used_bytes - before + kept.cost_bytes();
        Some(result)
    }

    pub(crate) fn put(&mut self, kept: Kept) -> usize {
        self.used_bytes += kept.cost_bytes();
        let line = self.vacant.pop().unwrap_or_else(|| {
            self.lines.push(None);
            self.lines.len() - 1
        });
        let before = self.index.insert(kept.at(), line);
        debug_assert!(before.is_none(), "a record is kept once");
        self.lines[line] = Some(kept);
        line
    }

    pub(crate) fn remove(&mut self, at: RecordId) -> Option<Kept> {
        let line = self.index.remove(&at)?;
        let kept = self.lines[line].take()?;
        self.used_bytes -= kept.cost_bytes();
        self.vacant.push(line);
        Some(kept)
    }

    /// Returns the record, of those that `may_be` one, that the clock's hand finds unused, or `None` after two rounds.
    pub(crate) fn victim(&mut self, may_be: impl Fn(RecordId) -> bool) -> Option<RecordId> {
        for _ in 0..2 * self.lines.len() {
            let line = self.hand;
            self.hand = (line + 1) % self.lines.len();
            let Some(kept) = &mut self.lines[line] else { continue };
            if !kept.may_go() || !may_be(kept.at()) {
                continue;
            }
            if !std::mem::take(&mut kept.was_used) {
                return Some(kept.at());
            }
        }
        None
    }

    /// Removes a thin record whose page has all of it.
    pub(crate) fn remove_if_empty(&mut self, at: RecordId) {
        let is_empty = |kept: &Kept| {
            kept.bytes.is_none() && kept.since().is_none() && !kept.is_pending() && kept.phase == Phase::Present
        };
        if self.kept(at).is_some_and(is_empty) {
            self.remove(at);
        }
    }

    /// Notes an insertion, which is not visible to others before the transaction's [end](State::are_born).
    pub(crate) fn note_insertion(&mut self, txn: TxnId, at: RecordId) {
        self.unborn.insert(at);
        self.born_by.entry(txn).or_insert_with(|| self.spare_born.pop().unwrap_or_default()).push(at);
    }

    /// Makes the insertions of this transaction visible to all.
    pub(crate) fn are_born(&mut self, txn: TxnId) {
        /// Lists that are kept, and their greatest capacity: the memory of a large transaction is freed.
        const SPARE: usize = 16;
        const KEPT: usize = 64;
        let Some(mut born) = self.born_by.remove(&txn) else { return };
        born.drain(..).for_each(|at| _ = self.unborn.remove(&at));
        if self.spare_born.len() < SPARE && born.capacity() <= KEPT {
            self.spare_born.push(born);
        }
    }

    /// Keeps the memory of a plan for the next commit.
    pub(crate) fn reuse(&mut self, plan: PlanMemory) {
        /// Number of plans whose memory is kept.
        const SPARE: usize = 16;
        if self.spare_plans.len() < SPARE && plan.is_small() {
            self.spare_plans.push(plan);
        }
    }

    // ---- phases -----------------------------------------------------------------------------------------------

    pub(crate) fn is_busy(&self, at: RecordId) -> bool {
        self.kept(at).is_some_and(|kept| kept.phase != Phase::Present)
    }

    /// Enters a record that is about to be loaded from its page.
    pub(crate) fn begin_load(&mut self, at: RecordId) {
        self.busy += 1;
        self.put(Kept::loading(at));
    }

    /// Takes a copy of what may be written to the page now (E19.5, E19.8); `None` if there is nothing to write.
    pub(crate) fn begin_flush(&mut self, at: RecordId) -> Option<Flush> {
        let kept = self.kept(at)?;
        let since = kept.since()?;
        let flush = match kept.to_flush() {
            Some(Flushable { bytes, version, committed, still_since }) => {
                Flush { at, since, version, committed, still_since, source: Source::Bytes(bytes) }
            }
            None => {
                let (version, committed, source) = (kept.version, kept.committed, Source::Page(kept.owed.clone()));
                Flush { at, since, version, committed, still_since: None, source }
            }
        };
        if flush.still_since == Some(since) || flush.still_since.is_some() && planted!("hot_object_not_flushed") {
            return None;
        }
        self.busy += 1;
        self.with(at, |kept| {
            kept.phase = Phase::Flushing;
            kept.since = if planted!("log_released_before_flush") { Lsn::ZERO } else { kept.since };
            kept.after = flush.still_since.unwrap_or(Lsn::ZERO);
        });
        Some(flush)
    }

    /// Completes a flush: the oldest change that the page lacks is one that was not copied, or was made since.
    pub(crate) fn finish_flush(&mut self, flush: &Flush) {
        self.statistics.flushes += 1;
        let paid = match &flush.source {
            Source::Bytes(_) => 0,
            Source::Page(owed) => owed.len(),
        };
        self.with(flush.at, |kept| {
            debug_assert_eq!(kept.since, flush.since, "E19.4: the log is held until the page has the record");
            kept.since = if planted!("change_after_copy_forgotten") { Lsn::ZERO } else { kept.after };
            kept.in_page = flush.version;
            // Undo that was added meanwhile is still owed.
            kept.owed.drain(..paid);
        });
    }

    /// Ends the I/O phase of a record. Removes a record that was to be loaded and has no bytes.
    pub(crate) fn end_phase(&mut self, at: RecordId) {
        self.busy -= 1;
        self.with(at, |kept| kept.phase = Phase::Present);
        self.remove_if_empty(at);
    }

    /// Drops the bytes of a record that its page has, and the record if none of its changes can be undone (E19.9). Returns
    /// `false` if it was changed meanwhile, or is in use.
    pub(crate) fn drop_flushed(&mut self, at: RecordId) -> bool {
        let may_drop = |kept: &Kept| kept.may_go() && kept.since().is_none();
        if !self.kept(at).is_some_and(may_drop) {
            return false;
        }
        if self.kept(at).is_some_and(Kept::is_pending) && !planted!("inverses_dropped") {
            self.with(at, |kept| kept.bytes = None);
        } else {
            self.remove(at);
        }
        true
    }
}

/// A record on its way to its page: a copy of its flushable state, made under the latch.
pub(crate) struct Flush {
    pub(crate) at: RecordId,
    pub(crate) since: Lsn,
    pub(crate) version: Lsn,
    pub(crate) committed: Lsn,
    /// The oldest change that is not in the copy.
    still_since: Option<Lsn>,
    pub(crate) source: Source,
}

/// Source of the bytes that a flush writes.
pub(crate) enum Source {
    Bytes(Arc<[u8]>),
    /// The page, with these changes undone: the bytes of the record are not in the cache.
    Page(Vec<Owed>),
}
