//! Objects in memory: which changes of them are not in their pages, and who is let go when there is no room.
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
//! One latch guards all of it. It is held while a record is flushed, so over the loading of its page, and while a change is
//! appended to the log, for which there is room then; over no call of a transaction that may take a checkpoint, which asks
//! for flushes (docs/inside/latches.md).

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use cedrat_pages::layout::Versioned;
use cedrat_pages::{LatchedPage, LayoutKind, PageId};
use cedrat_sync::{Arc, Mutex};
use cedrat_txn::{Error, KeptRecord, RecordId, Refused, Result, Store, TakenBack, ToPages, Unflushed};
use cedrat_wal::{Lsn, TxnId};

use crate::changing::{Back, Changing};
use crate::delta::RecordDelta;
use crate::error::ObjectError;
use crate::kept::{Flushable, Image, Kept, Was};
use crate::record;

/// The way to pages: a store, or what a checkpoint lends.
pub(crate) trait Pages {
    fn read(&self, page: PageId) -> Result<LatchedPage<'_>>;
    fn flush_record(&self, kept: &KeptRecord<'_>) -> Result<()>;

    /// Whether the page has this version of a record, still.
    fn has(&self, at: RecordId, version: Lsn) -> Result<bool> {
        let page = self.read(at.page)?;
        // It may have left its collection, for whatever wanted it (E19.16).
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
        Store::flush_record(self, kept)
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

/// A record as those see it who belong to no transaction.
pub(crate) enum Committed {
    /// So it was committed last.
    Image(Image),
    /// The page has it as it was committed.
    InItsPage,
    /// Its insertion is not committed.
    Unborn,
}

/// What a collection's cache holds and has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Records that were asked for and were there.
    pub hits: u64,
    /// Records that were brought from their pages.
    pub misses: u64,
    /// Records that were let go to make room.
    pub evictions: u64,
    /// Records written to their pages, each time.
    pub flushes: u64,
    /// Records in the cache. An object that has outgrown its first record has two.
    pub records: u64,
    /// Memory that they take, in bytes, as it is counted against [`Options::cache_bytes`](crate::Options::cache_bytes).
    pub bytes: u64,
}

/// A record that a transaction has changed.
pub(crate) struct Touched {
    pub(crate) at: RecordId,
    /// Where it was then.
    pub(crate) line: usize,
    /// The change was its end.
    pub(crate) died: bool,
}

/// Spreads the numbers of a place, or of a transaction. Nobody chooses places to make them meet: the store gives them.
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
        // Tables take the low bits too, which depend on the low bits of what was multiplied alone.
        self.0 ^ self.0 >> 32
    }
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) index: HashMap<RecordId, usize, BuildHasherDefault<PlaceHasher>>,
    pub(crate) lines: Vec<Option<Kept>>,
    /// Where the record was that was asked for last: who changes a record has just asked for it.
    recent: usize,
    vacant: Vec<usize>,
    /// The clock's hand: a line.
    hand: usize,
    pub(crate) used_bytes: u64,
    pub(crate) touched: HashMap<TxnId, Vec<Touched>, BuildHasherDefault<PlaceHasher>>,
    /// Records whose end may be committed, or whose insertion was taken back.
    died: Vec<RecordId>,
    /// Records whose insertion is not committed, though their pages have them; and whose they are.
    unborn: HashSet<RecordId, BuildHasherDefault<PlaceHasher>>,
    born_by: HashMap<TxnId, Vec<RecordId>, BuildHasherDefault<PlaceHasher>>,
    /// The change that is being made: from here on it changes the record, and this was there.
    pub(crate) before_at: usize,
    pub(crate) before: Vec<u8>,
    /// How it is taken back, and what that takes.
    pub(crate) was: Option<(Was, u64)>,
    pub(crate) statistics: Statistics,
}

impl State {
    fn line(&self, at: RecordId) -> Option<usize> {
        match self.lines.get(self.recent) {
            Some(Some(kept)) if kept.at() == at => Some(self.recent),
            _ => self.index.get(&at).copied(),
        }
    }

    fn kept(&self, at: RecordId) -> Option<&Kept> {
        self.lines[self.line(at)?].as_ref()
    }

    /// Changes a record, and keeps count of memory.
    fn with<R>(&mut self, at: RecordId, change: impl FnOnce(&mut Kept) -> R) -> Option<R> {
        let line = self.line(at)?;
        self.with_line(line, change)
    }

    fn with_line<R>(&mut self, line: usize, change: impl FnOnce(&mut Kept) -> R) -> Option<R> {
        let kept = self.lines[line].as_mut()?;
        let before = kept.cost_bytes();
        let result = change(kept);
        self.used_bytes = self.used_bytes - before + kept.cost_bytes();
        Some(result)
    }

    fn put(&mut self, kept: Kept) -> usize {
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

    fn remove(&mut self, at: RecordId) -> Option<Kept> {
        let line = self.index.remove(&at)?;
        let kept = self.lines[line].take()?;
        self.used_bytes -= kept.cost_bytes();
        self.vacant.push(line);
        Some(kept)
    }

    /// Lets go of others until so many bytes more fit; says whether they do.
    fn make_room(&mut self, bytes: u64, cache_bytes: u64, except: RecordId, pages: &dyn Pages) -> Result<bool> {
        while self.used_bytes + bytes > cache_bytes {
            let Some(victim) = self.victim(except) else { return Ok(false) };
            self.let_go(victim, pages)?;
            self.statistics.evictions += 1;
        }
        Ok(true)
    }

    fn need_room(&mut self, bytes: u64, cache_bytes: u64, except: RecordId, pages: &dyn Pages) -> Result<()> {
        match self.make_room(bytes, cache_bytes, except, pages)? {
            true => Ok(()),
            false => Err(ObjectError::CacheFull { held_bytes: self.used_bytes, cache_bytes }.into()),
        }
    }

    /// Whom the clock's hand finds unused; within two rounds, or there is none.
    fn victim(&mut self, except: RecordId) -> Option<RecordId> {
        for _ in 0..2 * self.lines.len() {
            let line = self.hand;
            self.hand = (line + 1) % self.lines.len();
            let Some(kept) = &mut self.lines[line] else { continue };
            if kept.at() == except || !kept.may_go() {
                continue;
            }
            if !std::mem::take(&mut kept.was_used) {
                return Some(kept.at());
            }
        }
        None
    }

    /// Writes a record to its page as far as it may be (E19.5, E19.8).
    fn flush(&mut self, at: RecordId, pages: &dyn Pages) -> Result<()> {
        let Some(kept) = self.kept(at) else { return Ok(()) };
        let Some(since) = kept.since() else { return Ok(()) };
        let flushable = match kept.to_flush() {
            Some(flushable) => flushable,
            None => {
                let bytes = paid(kept, pages)?.into();
                Flushable { bytes, version: kept.version, committed: kept.committed, still_since: None }
            }
        };
        let Flushable { bytes, version, committed, still_since } = flushable;
        if still_since == Some(since) {
            return Ok(());
        }
        pages.flush_record(&KeptRecord { at, bytes: &bytes, since, version, committed })?;
        self.statistics.flushes += 1;
        self.with(at, |kept| {
            kept.since = still_since.unwrap_or(Lsn::ZERO);
            kept.in_page = version;
            kept.owed.clear();
        });
        self.remove_if_empty(at);
        Ok(())
    }

    /// Forgets a thin record of which nothing is left that its page has not.
    fn remove_if_empty(&mut self, at: RecordId) {
        let is_empty = |kept: &Kept| kept.bytes.is_none() && kept.since().is_none() && !kept.is_pending();
        if self.kept(at).is_some_and(is_empty) {
            self.remove(at);
        }
    }

    /// What this transaction has inserted is there for all.
    pub(crate) fn are_born(&mut self, txn: TxnId) {
        for at in self.born_by.remove(&txn).unwrap_or_default() {
            self.unborn.remove(&at);
        }
    }

    /// Lets go of a record that may go: nothing of it that its page has not is forgotten (E19.9).
    fn let_go(&mut self, at: RecordId, pages: &dyn Pages) -> Result<()> {
        self.flush(at, pages)?;
        let is_pending = self.kept(at).is_some_and(Kept::is_pending);
        if is_pending {
            self.with(at, |kept| kept.bytes = None);
        } else {
            self.remove(at);
        }
        Ok(())
    }
}

/// A thin record, with what it owes: what its page is to have.
fn paid(kept: &Kept, pages: &dyn Pages) -> Result<Vec<u8>> {
    let page = pages.read(kept.at().page)?;
    let versioned = Versioned::of(&page)?;
    let record = versioned.get(kept.at().slot)?;
    let mut record = record.ok_or_else(|| Refused::new(format!("there is no record at {}", kept.at())))?.to_vec();
    for inverse in &kept.owed {
        inverse.take_back(&mut record)?;
    }
    Ok(record)
}

/// The cache of one collection. It keeps the log for what it has not flushed.
pub(crate) struct Cache {
    pub(crate) state: Mutex<State>,
    cache_bytes: u64,
}

impl Cache {
    pub(crate) fn new(cache_bytes: u64) -> Cache {
        Cache { state: Mutex::default(), cache_bytes }
    }

    /// A record, if its bytes are here.
    pub(crate) fn get(&self, at: RecordId) -> Option<Image> {
        let mut state = self.state.lock();
        let line = state.line(at)?;
        state.recent = line;
        let kept = state.lines[line].as_mut()?;
        kept.was_used = true;
        let image = kept.image()?;
        state.statistics.hits += 1;
        Some(image)
    }

    /// Lets `look` see a record that is here and as `wanted`, while the latch is held; with its version.
    pub(crate) fn look<T>(
        &self,
        at: RecordId,
        wanted: impl FnOnce(&[u8]) -> bool,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Option<(T, Lsn)> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let line = state.line(at)?;
        state.recent = line;
        let kept = state.lines[line].as_mut()?;
        let bytes = kept.bytes.as_ref().filter(|bytes| wanted(bytes))?;
        kept.was_used = true;
        state.statistics.hits += 1;
        Some((look(bytes), kept.version))
    }

    /// As [`get`](Cache::get), without being counted as a use.
    pub(crate) fn peek(&self, at: RecordId) -> Option<Image> {
        self.state.lock().kept(at)?.image()
    }

    /// What of a record is committed.
    pub(crate) fn committed(&self, at: RecordId) -> Committed {
        let state = self.state.lock();
        if state.unborn.contains(&at) {
            return Committed::Unborn;
        }
        match state.kept(at).and_then(Kept::to_flush) {
            Some(Flushable { bytes, version, .. }) => Committed::Image(Image { bytes, version }),
            None => Committed::InItsPage,
        }
    }

    /// A record is about to be inserted in its page.
    pub(crate) fn is_born(&self, txn: TxnId, at: RecordId) {
        let mut state = self.state.lock();
        state.unborn.insert(at);
        state.born_by.entry(txn).or_default().push(at);
    }

    /// It was not.
    pub(crate) fn is_not_born(&self, txn: TxnId, at: RecordId) {
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

    /// Keeps a record as its page has it, if there is room, and it is not about to leave its page: dead, or one whose insertion may
    /// be taken back. `None` if the page was read too early: read it again (E19.17).
    pub(crate) fn bring(&self, at: RecordId, found: Image, pages: &dyn Pages) -> Result<Option<Image>> {
        let mut state = self.state.lock();
        let has_room = state.make_room(Kept::clean_bytes(&found), self.cache_bytes, at, pages)?;
        state.statistics.misses += 1;
        let Some(kept) = state.kept(at) else {
            if has_room && !state.unborn.contains(&at) && !record::is_dead(&found.bytes) {
                if !pages.has(at, found.version)? {
                    return Ok(None);
                }
                state.put(Kept::clean(at, &found));
            }
            return Ok(Some(found));
        };
        if let Some(image) = kept.image() {
            return Ok(Some(image));
        }
        if kept.in_page != found.version {
            return Ok(None); // it was flushed meanwhile
        }
        let mut bytes = found.bytes;
        for inverse in &kept.owed {
            inverse.take_back(Arc::make_mut(&mut bytes))?;
        }
        let image = Image { bytes, version: kept.version };
        state.with(at, |kept| {
            kept.bytes = Some(Arc::clone(&image.bytes));
            kept.was_used = true;
            kept.owed.clear();
        });
        Ok(Some(image))
    }

    /// Changes a record for a transaction that has room in the log for it, and logs it next: so long the latch is held.
    /// Everything that can refuse is asked here. `found`: the record, if it is not in the cache.
    ///
    /// `None` if it is neither here nor found, or its page has it no more as it was found (E19.17), or not as it was when its inverse
    /// was made, or if `wanted`, which is told its bytes and its version, does not want it: nothing has happened then. So
    /// also after an error.
    #[allow(clippy::too_many_arguments, reason = "all that is asked under one latch")]
    pub(crate) fn change(
        &self,
        txn: TxnId,
        at: RecordId,
        found: Option<Image>,
        wanted: impl FnOnce(&[u8], Lsn) -> bool,
        change: &impl RecordDelta,
        back: Back,
        pages: &dyn Pages,
    ) -> Result<Option<Changing<'_>>> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let line = match (state.line(at), &found) {
            (Some(line), found) => {
                state.statistics.hits += u64::from(found.is_none());
                line
            }
            (None, None) => return Ok(None),
            (None, Some(found)) => {
                state.need_room(Kept::clean_bytes(found), self.cache_bytes, at, pages)?;
                if !pages.has(at, found.version)? {
                    return Ok(None);
                }
                state.put(Kept::clean(at, found))
            }
        };
        drop(found); // Nobody else has its bytes then, as a rule: they are changed where they lie.
        state.recent = line;
        let kept = state.lines[line].as_mut().expect("the index leads to lines that are taken");
        let Some(bytes) = &kept.bytes else { return Ok(None) };
        if !wanted(bytes, kept.version) || matches!(back, Back::Inverse { to, .. } if to != kept.version) {
            return Ok(None);
        }
        if kept.is_pending() && kept.pending.iter().any(|pending| pending.txn != txn) {
            return Err(Error::Misuse(
                "another transaction has changed the object and has not ended; isolate transactions by locks",
            ));
        }
        // Most of a long record is in no near cache: what the change leaves alone is not looked at.
        let changes = change.changes().unwrap_or(0..bytes.len());
        let changes = changes.start.min(bytes.len())..changes.end.min(bytes.len());
        #[cfg(debug_assertions)]
        let all = bytes.to_vec();
        state.before_at = changes.start;
        state.before.clear();
        state.before.extend_from_slice(bytes.get(changes).unwrap_or_default());
        let mut changing = Changing { state: guard, line, txn, is_logged: false };
        change.apply(changing.bytes())?;
        #[cfg(debug_assertions)]
        changing.assert_unchanged_elsewhere(&all);
        changing.remember(back);
        if let Some((_, cost_bytes)) = changing.state.was {
            changing.state.need_room(cost_bytes, self.cache_bytes, at, pages)?;
        }
        Ok(Some(changing))
    }

    /// Writes a record to its page as far as it may be.
    pub(crate) fn flush_one(&self, at: RecordId, pages: &dyn Pages) -> Result<()> {
        self.state.lock().flush(at, pages)
    }

    /// Writes all records to their pages, as far as they may be, that have changes older than `before`. In the order of
    /// their pages.
    pub(crate) fn flush_older(&self, before: Lsn, pages: &dyn Pages) -> Result<()> {
        let is_old = |kept: &&Kept| kept.since().is_some_and(|since| since < before);
        let mut old: Vec<RecordId> =
            self.state.lock().lines.iter().flatten().filter(is_old).map(|kept| kept.at()).collect();
        old.sort_unstable();
        // One at a time, so that others can go on in between; and all of them, for a page that cannot be read is of some alone.
        old.into_iter().map(|at| self.flush_one(at, pages)).fold(Ok(()), Result::and)
    }

    /// Flushes a record and lets it go.
    pub(crate) fn evict(&self, at: RecordId, pages: &dyn Pages) -> Result<()> {
        let mut state = self.state.lock();
        match state.kept(at) {
            Some(kept) if kept.is_held() => Err(ObjectError::NotCommitted { id: at }.into()),
            Some(kept) if kept.may_go() => state.let_go(at, pages),
            _ => Ok(()),
        }
    }

    /// Flushes what is committed of a record and forgets it: it is about to be changed in its page. `false`: somebody has
    /// changed it and has not ended.
    pub(crate) fn hand_over(&self, at: RecordId, pages: &dyn Pages) -> Result<bool> {
        let mut state = self.state.lock();
        if state.kept(at).is_some_and(Kept::is_pending) {
            return Ok(false);
        }
        state.flush(at, pages)?;
        state.remove(at);
        Ok(true)
    }

    /// Forgets all, which are in their pages: the collection is locked, and was flushed. `false`: somebody without locks
    /// has changed one since.
    pub(crate) fn clear(&self) -> bool {
        let mut state = self.state.lock();
        let is_clean = |kept: &Kept| kept.since().is_none() && !kept.is_pending();
        if !state.lines.iter().flatten().all(is_clean) {
            return false;
        }
        let all: Vec<RecordId> = state.index.keys().copied().collect();
        all.into_iter().for_each(|at| drop(state.remove(at)));
        state.died.clear();
        true
    }

    /// Records whose end may be committed since this was asked last, or whose insertion was taken back.
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
        // Not those of transactions that have not ended, which hold the log themselves.
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
                Was::Before { at, bytes, version, committed } => {
                    let now = kept.bytes.as_mut().expect("E19.9: what is not in its page is not let go");
                    Arc::make_mut(now)[at..][..bytes.len()].copy_from_slice(&bytes);
                    (kept.version, kept.committed) = (version, committed);
                    // If all before it is in the page, so is the record as it is now.
                    if kept.since >= change.change {
                        kept.since = Lsn::ZERO;
                    }
                }
                Was::Inverse(inverse) => {
                    let lsn = change.inverse.expect("E19.6: an inverse is logged");
                    kept.changes_at(lsn);
                    match &mut kept.bytes {
                        // Before it was logged it was tried on these very bytes.
                        Some(now) => {
                            inverse.take_back(Arc::make_mut(now)).expect("E13.1: an inverse does what it did before")
                        }
                        None => kept.owed.push(inverse),
                    }
                }
            }
        });
    }

    fn withdrawn(&self, at: RecordId) {
        let mut state = self.state.lock();
        // Still unborn: the page shows it until the insertion was taken back, and its place is not given away again.
        state.remove(at);
        // Its room is. Of a branch of an earlier opening it may be another collection's.
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
mod tests {
    use cedrat_pages::Slot;
    use cedrat_txn::Delta;

    use super::*;
    use crate::delta::{Alive, Dead};
    use crate::kept::OVERHEAD_BYTES;
    use crate::record::new_record;

    /// Pages that take everything but the records of one, and count; and have nothing any more that is older than this.
    #[derive(Default)]
    struct Taking(Mutex<Vec<Lsn>>, Option<PageId>, Lsn);

    impl Pages for Taking {
        fn read(&self, _: PageId) -> Result<LatchedPage<'_>> {
            Err(Error::Misuse("nobody asks for a page here"))
        }

        fn has(&self, _: RecordId, version: Lsn) -> Result<bool> {
            Ok(version >= self.2)
        }

        fn flush_record(&self, kept: &KeptRecord<'_>) -> Result<()> {
            if self.1 == Some(kept.at.page) {
                return Err(Error::Misuse("the page is damaged"));
            }
            self.0.lock().push(kept.version);
            Ok(())
        }
    }

    const AT: RecordId = RecordId::new(PageId::new(9), Slot(1));

    fn image(bytes: Vec<u8>, version: u64) -> Image {
        Image { bytes: bytes.into(), version: Lsn::new(version) }
    }

    /// E19.9: of a record that was let go while it is pending, a page that was read before it was flushed says nothing.
    #[test]
    fn a_page_that_was_read_too_early_is_not_believed() {
        let (cache, pages) = (Cache::new(10_000), Taking::default());
        let alive = new_record(b"object", 16, false);
        let mut dead = alive.clone();
        Dead {}.apply(&mut dead).unwrap();
        let before = image(alive.clone(), 1);
        let back = Back::Inverse { inverse: Arc::new(Alive {}), bytes: 0, to: before.version };
        let dying = cache.change(TxnId(7), AT, Some(before.clone()), |_, _| true, &Dead {}, back, &pages).unwrap();
        dying.unwrap().logged(Lsn::new(5));
        cache.evict(AT, &pages).unwrap();
        assert_eq!(*pages.0.lock(), [Lsn::new(5)]);
        assert!(cache.peek(AT).is_none());
        assert!(cache.bring(AT, before, &pages).unwrap().is_none());
        // What is owed is paid by whoever brings it.
        let inverse = Some(Lsn::new(6));
        cache.taken_back(TakenBack { txn: TxnId(7), at: AT, change: Lsn::new(5), inverse });
        let brought = cache.bring(AT, image(dead, 5), &pages).unwrap().unwrap();
        assert_eq!((&*brought.bytes, brought.version), (&*alive, Lsn::new(6)));
        cache.ended(TxnId(7), None);
        assert_eq!(cache.oldest(), inverse);
        cache.flush_one(AT, &pages).unwrap();
        assert_eq!((pages.0.lock().len(), cache.oldest()), (2, None));
    }

    /// E19.17: what has left its page, or was changed and let go of, since somebody looked there, does not come back.
    #[test]
    fn what_a_page_had_once_is_not_kept() {
        let (cache, pages) = (Cache::new(10_000), Taking(Mutex::default(), None, Lsn::new(2)));
        let once = image(new_record(b"object", 16, false), 1);
        assert!(cache.bring(AT, once.clone(), &pages).unwrap().is_none());
        let change = |found| cache.change(TxnId(7), AT, Some(found), |_, _| true, &Dead {}, Back::NotCounting, &pages);
        assert!(change(once.clone()).unwrap().is_none());
        assert_eq!(cache.statistics().records, 0);
        let now = Image { version: Lsn::new(2), ..once };
        assert!(cache.bring(AT, now, &pages).unwrap().is_some());
        assert_eq!(cache.statistics().records, 1);
    }

    /// E19.17: what is about to leave its page is seen, and not kept.
    #[test]
    fn what_leaves_its_page_soon_is_not_kept() {
        let (cache, pages) = (Cache::new(10_000), Taking::default());
        let alive = image(new_record(b"object", 16, false), 1);
        cache.is_born(TxnId(7), AT);
        assert!(cache.bring(AT, alive.clone(), &pages).unwrap().is_some());
        assert_eq!(cache.statistics().records, 0);
        cache.ended(TxnId(7), Some(Lsn::new(2)));
        let mut dead = alive.bytes.to_vec();
        Dead {}.apply(&mut dead).unwrap();
        assert!(cache.bring(AT, image(dead, 3), &pages).unwrap().is_some());
        assert_eq!(cache.statistics().records, 0);
        assert!(cache.bring(AT, alive, &pages).unwrap().is_some());
        assert_eq!(cache.statistics().records, 1);
    }

    /// Whoever looks at a record has it as it was; so has whoever comes after a change that was given up.
    #[test]
    fn a_change_is_made_in_nobodys_sight() {
        let (cache, pages) = (Cache::new(10_000), Taking::default());
        let alive = new_record(b"object", 16, false);
        cache.bring(AT, image(alive.clone(), 1), &pages).unwrap();
        let before = cache.get(AT).unwrap();
        let change = |back| cache.change(TxnId(7), AT, None, |_, _| true, &Dead {}, back, &pages).unwrap();
        drop(change(Back::Stays).unwrap());
        assert_eq!(&*cache.get(AT).unwrap().bytes, &*alive);
        // An inverse that was made for another version of it.
        let inverse = Back::Inverse { inverse: Arc::new(Alive {}), bytes: 0, to: Lsn::new(2) };
        assert!(change(inverse).is_none());
        change(Back::NotCounting).unwrap().logged(Lsn::new(5));
        assert_eq!((&*before.bytes, before.version), (&*alive, Lsn::new(1)));
        let now = cache.get(AT).unwrap();
        assert!(record::is_dead(&now.bytes) && now.version == Lsn::new(5));
        // Somebody else, who has not asked for a lock.
        assert!(cache.change(TxnId(8), AT, None, |_, _| true, &Dead {}, Back::Stays, &pages).is_err());
        cache.taken_back(TakenBack { txn: TxnId(7), at: AT, change: Lsn::new(5), inverse: None });
        assert_eq!((&*cache.get(AT).unwrap().bytes, cache.oldest()), (&*alive, None));
        assert_eq!(cache.statistics().bytes, OVERHEAD_BYTES + alive.len() as u64);
    }

    /// What a delta does not say that it changes could not be put back.
    #[test]
    #[cfg(debug_assertions)]
    #[should_panic = "a delta changes more than it says"]
    fn a_delta_that_changes_more_than_it_says_is_caught() {
        /// Changes the last byte, and says that it changes the first ones.
        #[derive(Debug, serde::Serialize, serde::Deserialize)]
        struct Elsewhere {}

        impl Delta for Elsewhere {
            const NAME: &'static str = "test.elsewhere";

            fn apply(&self, record: &mut [u8]) -> Result<(), Refused> {
                *record.last_mut().unwrap() += 1;
                Ok(())
            }
        }

        impl RecordDelta for Elsewhere {
            fn changes(&self) -> Option<std::ops::Range<usize>> {
                Some(0..4)
            }
        }

        let (cache, pages) = (Cache::new(10_000), Taking::default());
        cache.bring(AT, image(new_record(b"object", 16, false), 1), &pages).unwrap();
        let _ = cache.change(TxnId(7), AT, None, |_, _| true, &Elsewhere {}, Back::Stays, &pages);
    }

    /// A record that cannot be written keeps no others from it.
    #[test]
    fn all_others_are_written() {
        let (cache, pages) = (Cache::new(10_000), Taking(Mutex::default(), Some(AT.page), Lsn::ZERO));
        for (number, page) in [8, 9, 10].into_iter().enumerate() {
            let at = RecordId::new(PageId::new(page), Slot(1));
            let found = image(new_record(b"object", 16, false), 1);
            let changing = cache.change(TxnId(7), at, Some(found), |_, _| true, &Dead {}, Back::Stays, &pages);
            changing.unwrap().unwrap().logged(Lsn::new(5 + number as u64));
        }
        assert!(cache.flush_older(Lsn::new(100), &pages).is_err());
        assert_eq!(*pages.0.lock(), [Lsn::new(5), Lsn::new(7)]);
        assert_eq!(cache.oldest(), Some(Lsn::new(6)));
    }

    /// What is counted is what is there.
    #[test]
    fn memory_is_counted_to_the_last_byte() {
        let (cache, pages) = (Cache::new(1_000), Taking::default());
        for slot in 1..20 {
            let at = RecordId::new(PageId::new(9), Slot(slot));
            cache.bring(at, image(new_record(b"object", 16, false), 1), &pages).unwrap();
            assert!(cache.statistics().bytes <= 1_000);
        }
        assert_eq!(cache.statistics().records, 4);
        assert_eq!(cache.statistics().bytes, 4 * (OVERHEAD_BYTES + 20));
        assert!(cache.clear());
        assert_eq!((cache.statistics().records, cache.statistics().bytes), (0, 0));
    }
}
