//! Cache of objects: the changes that are not in their pages yet, and the choice of records to evict.
//!
//! ```text
//!             bring                 changed                    ended, committed
//!   in its page ──▶ Clean ───────────────────▶ Pending ───────────────────────▶ Dirty
//!        ▲           │ ▲                         │ │                              │
//!        └─ let go ──┘ └── taken back ───────────┘ │ let go, with inverses only   │ flushed
//!                      └───────────────────────────┼──────────────────────────────┘
//!                                                  ▼
//!                                                Thin: its page has it, its inverses are kept
//! ```
//!
//! One latch guards the table of records. It is held while the table is read or changed, and while a change is appended to
//! the log, for which space was reserved; never over I/O (E19.18). Only single records wait for I/O, in one of these phases
//! (`transfer` contains the steps):
//!
//! ```text
//!   absent ──admit──▶ Loading ──the page still has it──▶ Present ◀──────────────────────────────┐
//!     ▲                  │                                 │ │                                  │
//!     ├── it has not ────┘         not in its page: flush ─┘ └─ in its page: removed ─▶ absent  │
//!     │                                                    ▼                                    │
//!     └───────── to be removed, and unchanged since ─── Flushing ── written, or an error ───────┘
//! ```
//!
//! | phase | hit, change | load | flush, evict | hand over, withdraw, clear |
//! |---|---|---|---|---|
//! | `Loading` | finds no bytes | waits | waits | waits |
//! | `Present` | at once | at once, if it has bytes | begins | at once |
//! | `Flushing` | at once: the flush has a copy | waits, if it has no bytes | waits | waits |
//!
//! A thread that has a record in `Loading` or `Flushing` waits only for pages and the disk: not for another record, for space
//! in the cache, or for a lock. So each such phase ends (docs/inside/latches.md).

use cedrat_pages::layout::Versioned;
use cedrat_pages::{LatchedPage, LayoutKind, PageId};
use cedrat_sync::{Arc, Mutex, planted};
use cedrat_txn::object_cache::{KeptRecord, TakenBack, ToPages, Unflushed, UnflushedRecords};
use cedrat_txn::{RecordId, Result, Store};
use cedrat_wal::{Lsn, TxnId};

use crate::changing::{Back, Changing};
use crate::delta::RecordDelta;
use crate::error::ObjectError;
use crate::kept::{Flushable, Image, Kept, Owed, UndoState};
use crate::record;
use crate::state::{State, Touched};
use crate::transfer::{Reservation, Waiting};

/// Access to pages: a store, or the pages that a checkpoint provides.
pub(crate) trait Pages {
    fn read(&self, page: PageId) -> Result<LatchedPage<'_>>;
    fn flush_record(&self, kept: &KeptRecord<'_>) -> Result<()>;

    /// Returns whether the page still has this version of a record.
    fn has(&self, at: RecordId, version: Lsn) -> Result<bool> {
        let page = self.read(at.page)?;
        // It may have left its collection, and have been allocated for something else (E19.16).
        if page.kind() != LayoutKind::VERSIONED {
            return Ok(false);
        }
        let versioned = Versioned::of(&page)?;
        Ok(versioned.get(at.slot)?.is_some() && versioned.version(at.slot)? == version)
    }
}

impl Pages for Store {
    fn read(&self, page: PageId) -> Result<LatchedPage<'_>> {
        Store::read(self, page)
    }

    fn flush_record(&self, kept: &KeptRecord<'_>) -> Result<()> {
        UnflushedRecords::flush_record(self, kept)
    }
}

impl Pages for ToPages<'_> {
    fn read(&self, page: PageId) -> Result<LatchedPage<'_>> {
        ToPages::read(self, page)
    }

    fn flush_record(&self, kept: &KeptRecord<'_>) -> Result<()> {
        ToPages::flush_record(self, kept)
    }
}

/// Committed state of a record, for readers without a transaction.
pub(crate) enum Committed {
    /// The state that was committed last.
    Image(Image),
    /// The page contains the committed state.
    InItsPage,
    /// The insertion of the record is not committed.
    Unborn,
}

/// Statistics of a collection's cache since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Number of requests for records that were in the cache.
    pub hits: u64,
    /// Number of records that were loaded from their pages.
    pub misses: u64,
    /// Number of records that were evicted for lack of space.
    pub evictions: u64,
    /// Number of writes of a record to its page.
    pub flushes: u64,
    /// Number of records in the cache. An object that has outgrown its first record has two.
    pub records: u64,
    /// Memory of the records, in bytes, as counted against [`Options::cache_bytes`](crate::Options::cache_bytes).
    pub bytes: u64,
}

/// The cache of one collection. It holds the log for changes that are not flushed.
pub(crate) struct Cache {
    pub(crate) state: Mutex<State>,
    pub(crate) waiting: Waiting,
    pub(crate) cache_bytes: u64,
}

impl Cache {
    pub(crate) fn new(cache_bytes: u64) -> Cache {
        Cache { state: Mutex::default(), waiting: Waiting::default(), cache_bytes }
    }

    /// Returns a record, if its bytes are in the cache.
    pub(crate) fn get(&self, at: RecordId) -> Option<Image> {
        let mut state = self.state.lock();
        let line = state.line(at)?;
        state.note_request(at, line);
        let kept = state.lines[line].as_mut()?;
        kept.was_used = true;
        let image = kept.image()?;
        state.statistics.hits += 1;
        Some(image)
    }

    /// Calls `look` with a record that is in the cache and as `wanted`, while the latch is held; returns the version as well.
    pub(crate) fn look<T>(
        &self,
        at: RecordId,
        wanted: impl FnOnce(&[u8]) -> bool,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Option<(T, Lsn)> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let line = state.line(at)?;
        state.note_request(at, line);
        let kept = state.lines[line].as_mut()?;
        let bytes = kept.bytes.as_ref().filter(|bytes| wanted(bytes))?;
        kept.was_used = true;
        state.statistics.hits += 1;
        Some((look(bytes), kept.version))
    }

    /// Like [`get`](Cache::get), but not counted as a use.
    pub(crate) fn peek(&self, at: RecordId) -> Option<Image> {
        self.state.lock().kept(at)?.image()
    }

    /// Returns the committed state of a record.
    pub(crate) fn committed(&self, at: RecordId) -> Committed {
        let state = self.state.lock();
        if state.unborn.contains(&at) && !planted!("uncommitted_insertion_seen") {
            return Committed::Unborn;
        }
        match state.kept(at).and_then(Kept::to_flush) {
            Some(Flushable { bytes, version, .. }) => Committed::Image(Image { bytes, version }),
            None => Committed::InItsPage,
        }
    }

    /// Notes that a record is about to be inserted in its page.
    pub(crate) fn note_insertion(&self, txn: TxnId, at: RecordId) {
        self.state.lock().note_insertion(txn, at);
    }

    /// Notes that the insertion has failed.
    pub(crate) fn forget_insertion(&self, txn: TxnId, at: RecordId) {
        let mut state = self.state.lock();
        state.unborn.remove(&at);
        let is_last = state.born_by.get_mut(&txn).is_some_and(|born| {
            born.retain(|&other| other != at);
            born.is_empty()
        });
        if is_last {
            state.born_by.remove(&txn);
        }
    }

    /// Keeps a record as its page has it, if there is space, and the record is not about to leave its page: dead, or with an
    /// insertion that may be undone. `None` if the page was read too early: read it again (E19.17).
    pub(crate) fn bring(&self, at: RecordId, found: Image, pages: &dyn Pages) -> Result<Option<Image>> {
        let (room, state) = self.reserve(self.state.lock(), Kept::clean_bytes(&found), at, pages)?;
        let (mut room, mut state) = (room.ok(), state); // without room, the record is returned and not kept
        state.statistics.misses += 1;
        self.settle(&mut state, at);
        let Some(kept) = state.kept(at) else {
            if state.unborn.contains(&at) || record::is_dead(&found.bytes) {
                return Ok(Some(found));
            }
            let Some(room) = room.take() else { return Ok(Some(found)) };
            return Ok(self.admit(room, state, at, &found, pages)?.map(|_| found));
        };
        if let Some(image) = kept.image() {
            return Ok(Some(image));
        }
        if found.version < kept.in_page {
            return Ok(None); // it was flushed meanwhile
        }
        let mut bytes = found.bytes;
        Owed::pay(&kept.owed, found.version, Arc::make_mut(&mut bytes))?;
        let image = Image { bytes, version: kept.version };
        if let Some(room) = &mut room {
            room.release(&mut state, u64::MAX);
        }
        state.with(at, |kept| {
            kept.bytes = Some(Arc::clone(&image.bytes));
            kept.was_used = true;
            kept.owed.clear();
        });
        Ok(Some(image))
    }

    /// Changes a record for a transaction that has reserved log space for it, and logs the change next: the latch is held
    /// until then. Everything that may refuse is called here. `found`: the record, if it is not in the cache.
    ///
    /// Returns `None`, without a change, if the record is neither in the cache nor found, or its page no longer has it as it
    /// was found (E19.17), or it differs from the state for which the inverse was made, or `wanted`, which gets its bytes and
    /// its version, returns `false`. An error leaves it unchanged, too.
    #[allow(clippy::too_many_arguments, reason = "all that is asked under one latch")]
    pub(crate) fn change(
        &self,
        txn: TxnId,
        at: RecordId,
        found: Option<Image>,
        wanted: impl Fn(&[u8], Lsn) -> bool,
        change: &impl RecordDelta,
        back: Back,
        pages: &dyn Pages,
    ) -> Result<Option<Changing<'_>>> {
        let mut room = Reservation::none(self);
        let mut state = self.state.lock();
        match (state.line(at), &found) {
            (Some(_), found) => state.statistics.hits += u64::from(found.is_none()),
            (None, None) => return Ok(None),
            (None, Some(found)) => {
                let (room, reserved) = self.need_space(state, Kept::clean_bytes(found), at, pages)?;
                let Some(admitted) = self.admit(room, reserved, at, found, pages)? else { return Ok(None) };
                state = admitted;
            }
        }
        drop(found); // As a rule no other reference to its bytes exists then: they are changed in place.
        loop {
            let Some(mut changing) = Changing::try_make(state, txn, at, &wanted, change, &back)? else {
                return Ok(None);
            };
            let (used_bytes, cost_bytes) = (changing.state.used_bytes - room.bytes(), changing.cost_bytes());
            if cost_bytes == 0 || used_bytes + cost_bytes <= self.cache_bytes {
                room.release(&mut changing.state, u64::MAX);
                return Ok(Some(changing));
            }
            // Evicting others may wait for I/O, so the change is undone meanwhile.
            room.release(&mut changing.state, u64::MAX);
            drop(changing);
            (room, state) = self.need_space(self.state.lock(), cost_bytes, at, pages)?;
        }
    }

    /// Writes the flushable state of a record to its page.
    pub(crate) fn flush_one(&self, at: RecordId, pages: &dyn Pages) -> Result<()> {
        self.flush_latched(self.state.lock(), at, pages).map(drop)
    }

    /// Writes all records with changes older than `before` to their pages, as far as they may be flushed, in the order of
    /// their pages.
    pub(crate) fn flush_older(&self, before: Lsn, pages: &dyn Pages) -> Result<()> {
        let is_old = |kept: &&Kept| kept.since().is_some_and(|since| since < before);
        let mut old: Vec<RecordId> =
            self.state.lock().lines.iter().flatten().filter(is_old).map(|kept| kept.at()).collect();
        old.sort_unstable();
        // One at a time, so that other threads continue in between; and all of them, since a page that cannot be read affects
        // only some.
        old.into_iter().map(|at| self.flush_one(at, pages)).fold(Ok(()), Result::and)
    }

    /// Flushes a record and evicts it.
    pub(crate) fn evict(&self, at: RecordId, pages: &dyn Pages) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            self.settle(&mut state, at);
            match state.kept(at) {
                Some(kept) if kept.is_held() => return Err(ObjectError::NotCommitted { id: at }.into()),
                Some(kept) if kept.may_go() => {}
                _ => return Ok(()),
            }
            state = self.flush_latched(state, at, pages)?;
            if state.drop_flushed(at) {
                return Ok(());
            }
        }
    }

    /// Flushes the committed state of a record and removes the record, which is about to be changed in its page. Returns
    /// `false` if a transaction that has not ended has changed it.
    pub(crate) fn hand_over(&self, at: RecordId, pages: &dyn Pages) -> Result<bool> {
        let mut state = self.state.lock();
        loop {
            self.settle(&mut state, at);
            let Some(kept) = state.kept(at) else { return Ok(true) };
            if kept.is_pending() {
                return Ok(false);
            }
            if kept.since().is_none() {
                state.remove(at);
                return Ok(true);
            }
            state = self.flush_latched(state, at, pages)?;
        }
    }

    /// Removes all records, which are in their pages: the collection is locked, and was flushed. Returns `false` if a
    /// transaction without isolation has changed one since.
    pub(crate) fn clear(&self) -> bool {
        let mut state = self.state.lock();
        self.settle_all(&mut state);
        let is_clean = |kept: &Kept| kept.since().is_none() && !kept.is_pending();
        if !state.lines.iter().flatten().all(is_clean) {
            return false;
        }
        let all: Vec<RecordId> = state.index.keys().copied().collect();
        all.into_iter().for_each(|at| drop(state.remove(at)));
        state.died.clear();
        true
    }

    /// Returns the records whose end may have been committed, or whose insertion was undone, since the last call.
    pub(crate) fn take_died(&self) -> Vec<RecordId> {
        std::mem::take(&mut self.state.lock().died)
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let state = self.state.lock();
        Statistics { records: state.index.len() as u64, bytes: state.used_bytes, ..state.statistics }
    }
}

impl Unflushed for Cache {
    fn oldest(&self) -> Option<Lsn> {
        // Not those of running transactions, which hold the log themselves.
        let of_ended = |kept: &Kept| {
            let pending = kept.pending.first().map_or(Lsn::MAX, |pending| pending.change);
            kept.since().filter(|&since| since < pending)
        };
        self.state.lock().lines.iter().flatten().filter_map(of_ended).min()
    }

    fn flush(&self, before: Lsn, pages: &ToPages<'_>) -> Result<()> {
        self.flush_older(before, pages)
    }

    fn taken_back(&self, change: TakenBack) {
        let mut state = self.state.lock();
        state.with(change.at, |kept| {
            let Some(pending) = kept.pending.pop_if(|pending| pending.change == change.change) else { return };
            kept.pending_bytes -= pending.cost_bytes;
            match pending.was {
                UndoState::Before { at, bytes, version, committed } => {
                    let now = kept.bytes.as_mut().expect("E19.9: what is not in its page is not let go");
                    Arc::make_mut(now)[at..][..bytes.len()].copy_from_slice(&bytes);
                    (kept.version, kept.committed) = (version, committed);
                    // If the page has all earlier changes, it has the record as it is now.
                    for oldest in [&mut kept.since, &mut kept.after] {
                        if *oldest >= change.change {
                            *oldest = Lsn::ZERO;
                        }
                    }
                }
                UndoState::Inverse(inverse) => {
                    let lsn = change.inverse.expect("E19.6: an inverse is logged");
                    kept.changes_at(lsn);
                    match &mut kept.bytes {
                        // Before it was logged it was tried on the same bytes.
                        Some(now) => {
                            inverse.take_back(Arc::make_mut(now)).expect("E13.1: an inverse does what it did before")
                        }
                        None => kept.owed.push(Owed { lsn, inverse }),
                    }
                }
            }
        });
    }

    fn withdrawn(&self, at: RecordId) {
        let mut state = self.state.lock();
        self.settle(&mut state, at);
        // Still unborn: the page shows it until the insertion was undone, and its place is not given away again.
        state.remove(at);
        // Its space is. The record of a branch of an earlier opening may belong to another collection.
        if state.unborn.contains(&at) {
            state.died.push(at);
        }
    }

    fn ended(&self, txn: TxnId, committed: Option<Lsn>) {
        let mut state = self.state.lock();
        state.are_born(txn);
        for Touched { at, line, died } in state.touched.remove(&txn).unwrap_or_default() {
            let is_there = matches!(state.lines.get(line), Some(Some(kept)) if kept.at() == at);
            let line = if is_there { Some(line) } else { state.line(at) };
            let is_thin = line.and_then(|line| {
                state.with_line(line, |kept| {
                    let before = kept.pending.len();
                    kept.pending.retain(|pending| pending.txn != txn);
                    if kept.pending.len() < before {
                        kept.pending_bytes = kept.pending.iter().map(|pending| pending.cost_bytes).sum();
                        kept.committed = kept.committed.max(committed.unwrap_or(Lsn::ZERO));
                    }
                    kept.bytes.is_none()
                })
            });
            if died {
                state.died.push(at);
            }
            if is_thin == Some(true) {
                state.remove_if_empty(at);
            }
        }
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests;
