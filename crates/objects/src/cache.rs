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
//! One latch guards all of it. It is held while a record is flushed, so over the loading of its page; over no call of a
//! transaction, which may take a checkpoint, which asks for flushes (docs/inside/latches.md).

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::ops::Range;

use cedrat_pages::layout::Versioned;
use cedrat_pages::{LatchedPage, PageId};
use cedrat_sync::{Arc, Mutex};
use cedrat_txn::{Delta, Error, KeptRecord, RecordId, Refused, Result, Store, TakenBack, ToPages, Unflushed};
use cedrat_wal::{Lsn, TxnId};

use crate::error::ObjectError;
use crate::record::Header;

/// What a record in the cache takes beyond its bytes: its line here, its share of the index, and two allocations.
pub(crate) const OVERHEAD_BYTES: u64 = 192;

/// What a change that can be taken back takes beyond its bytes.
const PENDING_BYTES: u64 = 80;

/// The way to pages: a store, or what a checkpoint lends.
pub(crate) trait Pages {
    fn read(&self, page: PageId) -> Result<LatchedPage<'_>>;
    fn flush_record(&self, kept: &KeptRecord<'_>) -> Result<()>;
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

/// A delta that takes another one back.
pub(crate) trait Inverse: Send + Sync {
    fn take_back(&self, record: &mut [u8]) -> Result<(), Refused>;
}

impl<D: Delta> Inverse for D {
    fn take_back(&self, record: &mut [u8]) -> Result<(), Refused> {
        self.apply(record)
    }
}

/// A record at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) version: Lsn,
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

/// How a change is taken back, should it be.
pub(crate) enum Back {
    /// It counts only if it is committed: the cache puts back what was there, in this range.
    NotCounting(Range<usize>),
    /// The log has this, which takes so many bytes.
    Inverse(Arc<dyn Inverse>, u64),
    /// It is not: its transaction has no atomicity.
    Stays,
}

/// A change by a transaction that has not ended.
struct Pending {
    txn: TxnId,
    change: Lsn,
    was: Was,
    cost_bytes: u64,
}

enum Was {
    Before { at: usize, bytes: Box<[u8]>, version: Lsn, committed: Lsn },
    Inverse(Arc<dyn Inverse>),
}

/// A record that is kept.
struct Kept {
    at: RecordId,
    /// `None`: it is in its page, as of `in_page`, but for what is owed.
    bytes: Option<Arc<Vec<u8>>>,
    in_page: Lsn,
    owed: Vec<Arc<dyn Inverse>>,
    version: Lsn,
    /// Durable before it goes home.
    committed: Lsn,
    /// The oldest change that the page does not have.
    since: Option<Lsn>,
    /// The newest last.
    pending: Vec<Pending>,
    pending_bytes: u64,
    was_used: bool,
}

impl Kept {
    fn clean(at: RecordId, image: &Image) -> Kept {
        Kept {
            at,
            bytes: Some(Arc::clone(&image.bytes)),
            in_page: image.version,
            owed: Vec::new(),
            version: image.version,
            committed: image.version,
            since: None,
            pending: Vec::new(),
            pending_bytes: 0,
            was_used: true,
        }
    }

    fn cost_bytes(&self) -> u64 {
        OVERHEAD_BYTES + self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64) + self.pending_bytes
    }

    /// Whether something in it must not be flushed (E19.5).
    fn is_held(&self) -> bool {
        self.pending.iter().any(|pending| matches!(pending.was, Was::Before { .. }))
    }

    /// Whether letting it go gives memory back.
    fn may_go(&self) -> bool {
        self.bytes.is_some() && !self.is_held()
    }

    /// The record as it may be flushed: without what is pending and must not be. `None` if its bytes are not here.
    fn to_flush(&self) -> Option<Flushable> {
        let now = self.bytes.as_ref()?;
        let (version, committed) = (self.version, self.committed);
        if !self.is_held() {
            return Some(Flushable { bytes: Arc::clone(now), version, committed, still_since: None });
        }
        let mut earlier = now.to_vec();
        let (mut version, mut committed, mut still_since) = (version, committed, None);
        for pending in self.pending.iter().rev() {
            if let Was::Before { at, bytes, version: had_version, committed: had_committed } = &pending.was {
                earlier[*at..][..bytes.len()].copy_from_slice(bytes);
                (version, committed) = (*had_version, *had_committed);
                still_since = Some(pending.change);
            }
        }
        Some(Flushable { bytes: Arc::new(earlier), version, committed, still_since })
    }
}

/// A record on its way to its page.
struct Flushable {
    bytes: Arc<Vec<u8>>,
    version: Lsn,
    committed: Lsn,
    /// The oldest change that the page does not have then.
    still_since: Option<Lsn>,
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
struct Touched {
    at: RecordId,
    /// The change was its end.
    died: bool,
}

#[derive(Default)]
struct State {
    index: HashMap<RecordId, usize, BuildHasherDefault<DefaultHasher>>,
    lines: Vec<Option<Kept>>,
    vacant: Vec<usize>,
    /// The clock's hand: a line.
    hand: usize,
    used_bytes: u64,
    touched: HashMap<TxnId, Vec<Touched>>,
    /// Records whose end may be committed.
    died: Vec<RecordId>,
    /// Records whose insertion is not committed, though their pages have them; and whose they are.
    unborn: HashSet<RecordId, BuildHasherDefault<DefaultHasher>>,
    born_by: HashMap<TxnId, Vec<RecordId>>,
    statistics: Statistics,
}

impl State {
    fn kept(&self, at: RecordId) -> Option<&Kept> {
        self.lines[*self.index.get(&at)?].as_ref()
    }

    /// Changes a record, and keeps count of memory.
    fn with<R>(&mut self, at: RecordId, change: impl FnOnce(&mut Kept) -> R) -> Option<R> {
        let kept = self.lines[*self.index.get(&at)?].as_mut()?;
        let before = kept.cost_bytes();
        let result = change(kept);
        self.used_bytes = self.used_bytes - before + kept.cost_bytes();
        Some(result)
    }

    fn put(&mut self, kept: Kept) {
        self.used_bytes += kept.cost_bytes();
        let line = self.vacant.pop().unwrap_or_else(|| {
            self.lines.push(None);
            self.lines.len() - 1
        });
        let before = self.index.insert(kept.at, line);
        debug_assert!(before.is_none(), "a record is kept once");
        self.lines[line] = Some(kept);
    }

    fn remove(&mut self, at: RecordId) -> Option<Kept> {
        let line = self.index.remove(&at)?;
        let kept = self.lines[line].take()?;
        self.used_bytes -= kept.cost_bytes();
        self.vacant.push(line);
        Some(kept)
    }

    /// Whom the clock's hand finds unused; within two rounds, or there is none.
    fn victim(&mut self, except: RecordId) -> Option<RecordId> {
        for _ in 0..2 * self.lines.len() {
            let line = self.hand;
            self.hand = (line + 1) % self.lines.len();
            let Some(kept) = &mut self.lines[line] else { continue };
            if kept.at == except || !kept.may_go() {
                continue;
            }
            if !std::mem::take(&mut kept.was_used) {
                return Some(kept.at);
            }
        }
        None
    }

    /// Writes a record to its page as far as it may be (E19.5, E19.8).
    fn flush(&mut self, at: RecordId, pages: &dyn Pages) -> Result<()> {
        let Some(kept) = self.kept(at) else { return Ok(()) };
        let Some(since) = kept.since else { return Ok(()) };
        let flushable = match kept.to_flush() {
            Some(flushable) => flushable,
            None => {
                let bytes = Arc::new(paid(kept, pages)?);
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
            kept.since = still_since;
            kept.in_page = version;
            kept.owed.clear();
        });
        self.remove_if_empty(at);
        Ok(())
    }

    /// Forgets a thin record of which nothing is left that its page has not.
    fn remove_if_empty(&mut self, at: RecordId) {
        let is_empty = |kept: &Kept| kept.bytes.is_none() && kept.since.is_none() && kept.pending.is_empty();
        if self.kept(at).is_some_and(is_empty) {
            self.remove(at);
        }
    }

    /// Lets go of a record that may go: nothing of it that its page has not is forgotten (E19.9).
    fn let_go(&mut self, at: RecordId, pages: &dyn Pages) -> Result<()> {
        self.flush(at, pages)?;
        let is_pending = self.kept(at).is_some_and(|kept| !kept.pending.is_empty());
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
    let page = pages.read(kept.at.page)?;
    let versioned = Versioned::of(&page)?;
    let record = versioned.get(kept.at.slot)?;
    let mut record = record.ok_or_else(|| Refused::new(format!("there is no record at {}", kept.at)))?.to_vec();
    for inverse in &kept.owed {
        inverse.take_back(&mut record)?;
    }
    Ok(record)
}

/// The cache of one collection. It keeps the log for what it has not flushed.
pub(crate) struct Cache {
    state: Mutex<State>,
    cache_bytes: u64,
}

impl Cache {
    pub(crate) fn new(cache_bytes: u64) -> Cache {
        Cache { state: Mutex::default(), cache_bytes }
    }

    /// A record, if its bytes are here.
    pub(crate) fn get(&self, at: RecordId) -> Option<Image> {
        let mut state = self.state.lock();
        let line = *state.index.get(&at)?;
        let kept = state.lines[line].as_mut()?;
        kept.was_used = true;
        let image = Image { bytes: Arc::clone(kept.bytes.as_ref()?), version: kept.version };
        state.statistics.hits += 1;
        Some(image)
    }

    /// As [`get`](Cache::get), without being counted as a use.
    pub(crate) fn peek(&self, at: RecordId) -> Option<Image> {
        let state = self.state.lock();
        let kept = state.kept(at)?;
        Some(Image { bytes: Arc::clone(kept.bytes.as_ref()?), version: kept.version })
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

    /// Keeps a record as its page has it, if there is room. `None` if the page was read too early: read it again.
    pub(crate) fn bring(&self, at: RecordId, found: Image, pages: &dyn Pages) -> Result<Option<Image>> {
        self.make_room(OVERHEAD_BYTES + found.bytes.len() as u64, at, pages)?;
        let mut state = self.state.lock();
        state.statistics.misses += 1;
        let Some(kept) = state.kept(at) else {
            if state.used_bytes + OVERHEAD_BYTES + found.bytes.len() as u64 <= self.cache_bytes {
                state.put(Kept::clean(at, &found));
            }
            return Ok(Some(found));
        };
        if let Some(bytes) = &kept.bytes {
            return Ok(Some(Image { bytes: Arc::clone(bytes), version: kept.version }));
        }
        if kept.in_page != found.version {
            return Ok(None); // it was flushed meanwhile
        }
        let mut bytes = found.bytes.to_vec();
        for inverse in &kept.owed {
            inverse.take_back(&mut bytes)?;
        }
        let image = Image { bytes: Arc::new(bytes), version: kept.version };
        state.with(at, |kept| {
            kept.bytes = Some(Arc::clone(&image.bytes));
            kept.was_used = true;
            kept.owed.clear();
        });
        Ok(Some(image))
    }

    /// Lets go of others until so many bytes more fit; says whether they do.
    fn make_room(&self, bytes: u64, except: RecordId, pages: &dyn Pages) -> Result<bool> {
        let mut state = self.state.lock();
        while state.used_bytes + bytes > self.cache_bytes {
            let Some(victim) = state.victim(except) else { return Ok(false) };
            state.let_go(victim, pages)?;
            state.statistics.evictions += 1;
        }
        Ok(true)
    }

    /// Everything that can refuse a change of a record, asked before it is logged. `kept_bytes`: what is kept to take it
    /// back.
    pub(crate) fn may_change(
        &self,
        txn: TxnId,
        at: RecordId,
        before: &Image,
        kept_bytes: u64,
        pages: &dyn Pages,
    ) -> Result<()> {
        let mut bytes = PENDING_BYTES + kept_bytes;
        {
            let state = self.state.lock();
            match state.kept(at) {
                Some(kept) if kept.pending.iter().any(|pending| pending.txn != txn) => {
                    return Err(Error::Misuse(
                        "another transaction has changed the object and has not ended; isolate transactions by locks",
                    ));
                }
                Some(kept) if kept.bytes.is_some() => {}
                _ => bytes += OVERHEAD_BYTES + before.bytes.len() as u64,
            }
        }
        if !self.make_room(bytes, at, pages)? {
            let held_bytes = self.state.lock().used_bytes;
            return Err(ObjectError::CacheFull { held_bytes, cache_bytes: self.cache_bytes }.into());
        }
        Ok(())
    }

    /// A record was changed: the log has it.
    pub(crate) fn changed(&self, txn: TxnId, at: RecordId, before: &Image, after: Vec<u8>, change: Lsn, back: Back) {
        let died = Header::of(&after).is_ok_and(|header| header.is_dead());
        let mut state = self.state.lock();
        if state.kept(at).is_none() {
            // It was let go meanwhile, as it was.
            state.put(Kept::clean(at, before));
        }
        let is_first = state.with(at, |kept| {
            let is_first = kept.pending.is_empty();
            let was = match back {
                Back::NotCounting(range) => {
                    let bytes: Box<[u8]> = before.bytes[range.clone()].into();
                    let (version, committed) = (kept.version, kept.committed);
                    Some((bytes.len() as u64, Was::Before { at: range.start, bytes, version, committed }))
                }
                Back::Inverse(inverse, bytes) => Some((bytes, Was::Inverse(inverse))),
                Back::Stays => None,
            };
            kept.bytes = Some(Arc::new(after));
            kept.version = change;
            kept.committed = change;
            kept.since = kept.since.or(Some(change));
            kept.was_used = true;
            let Some((kept_bytes, was)) = was else { return false };
            let cost_bytes = PENDING_BYTES + kept_bytes;
            kept.pending.push(Pending { txn, change, was, cost_bytes });
            kept.pending_bytes += cost_bytes;
            is_first
        });
        if is_first == Some(true) || died {
            state.touched.entry(txn).or_default().push(Touched { at, died });
        }
    }

    /// Writes a record to its page as far as it may be.
    pub(crate) fn flush_one(&self, at: RecordId, pages: &dyn Pages) -> Result<()> {
        self.state.lock().flush(at, pages)
    }

    /// Writes all records to their pages, as far as they may be, that have changes older than `before`. In the order of
    /// their pages.
    pub(crate) fn flush_older(&self, before: Lsn, pages: &dyn Pages) -> Result<()> {
        let is_old = |kept: &&Kept| kept.since.is_some_and(|since| since < before);
        let mut old: Vec<RecordId> =
            self.state.lock().lines.iter().flatten().filter(is_old).map(|kept| kept.at).collect();
        old.sort_unstable();
        // One at a time, so that others can go on in between.
        old.into_iter().try_for_each(|at| self.flush_one(at, pages))
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
        if state.kept(at).is_some_and(|kept| !kept.pending.is_empty()) {
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
        let is_clean = |kept: &Kept| kept.since.is_none() && kept.pending.is_empty();
        if !state.lines.iter().flatten().all(is_clean) {
            return false;
        }
        let all: Vec<RecordId> = state.index.keys().copied().collect();
        all.into_iter().for_each(|at| drop(state.remove(at)));
        state.died.clear();
        true
    }

    /// Records whose end may be committed since this was asked last.
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
            kept.since.filter(|&since| since < pending)
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
                    if kept.since >= Some(change.change) {
                        kept.since = None;
                    }
                }
                Was::Inverse(inverse) => {
                    let lsn = change.inverse.expect("E19.6: an inverse is logged");
                    (kept.version, kept.committed) = (lsn, lsn);
                    kept.since = kept.since.or(Some(lsn));
                    match &mut kept.bytes {
                        // Before it was logged it was tried on these very bytes.
                        Some(now) => inverse
                            .take_back(Arc::make_mut(now).as_mut_slice())
                            .expect("E13.1: an inverse does what it did before"),
                        None => kept.owed.push(inverse),
                    }
                }
            }
        });
    }

    fn withdrawn(&self, at: RecordId) {
        // Still unborn: the page shows it until the insertion was taken back, and its place is not given away again.
        self.state.lock().remove(at);
    }

    fn ended(&self, txn: TxnId, committed: Option<Lsn>) {
        let mut state = self.state.lock();
        for at in state.born_by.remove(&txn).unwrap_or_default() {
            state.unborn.remove(&at);
        }
        for Touched { at, died } in state.touched.remove(&txn).unwrap_or_default() {
            state.with(at, |kept| {
                let before = kept.pending.len();
                kept.pending.retain(|pending| pending.txn != txn);
                if kept.pending.len() < before {
                    kept.pending_bytes = kept.pending.iter().map(|pending| pending.cost_bytes).sum();
                    kept.committed = kept.committed.max(committed.unwrap_or(Lsn::ZERO));
                }
            });
            if died {
                state.died.push(at);
            }
            state.remove_if_empty(at);
        }
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use cedrat_pages::Slot;

    use super::*;
    use crate::delta::{Alive, Dead};
    use crate::record::new_record;

    /// Pages that take everything, and count.
    #[derive(Default)]
    struct Taking(Mutex<Vec<Lsn>>);

    impl Pages for Taking {
        fn read(&self, _: PageId) -> Result<LatchedPage<'_>> {
            Err(Error::Misuse("nobody asks for a page here"))
        }

        fn flush_record(&self, kept: &KeptRecord<'_>) -> Result<()> {
            self.0.lock().push(kept.version);
            Ok(())
        }
    }

    const AT: RecordId = RecordId::new(PageId::new(9), Slot(1));

    fn image(bytes: Vec<u8>, version: u64) -> Image {
        Image { bytes: Arc::new(bytes), version: Lsn::new(version) }
    }

    /// E19.9: of a record that was let go while it is pending, a page that was read before it was flushed says nothing.
    #[test]
    fn a_page_that_was_read_too_early_is_not_believed() {
        let (cache, pages) = (Cache::new(10_000), Taking::default());
        let alive = new_record(b"object", 16, false);
        let mut dead = alive.clone();
        Dead {}.apply(&mut dead).unwrap();
        let before = image(alive.clone(), 1);
        cache.changed(TxnId(7), AT, &before, dead.clone(), Lsn::new(5), Back::Inverse(Arc::new(Alive {}), 0));
        cache.evict(AT, &pages).unwrap();
        assert_eq!(*pages.0.lock(), [Lsn::new(5)]);
        assert!(cache.peek(AT).is_none());
        assert!(cache.bring(AT, before, &pages).unwrap().is_none());
        // What is owed is paid by whoever brings it.
        let inverse = Some(Lsn::new(6));
        cache.taken_back(TakenBack { txn: TxnId(7), at: AT, change: Lsn::new(5), inverse });
        let brought = cache.bring(AT, image(dead, 5), &pages).unwrap().unwrap();
        assert_eq!((&*brought.bytes, brought.version), (&alive, Lsn::new(6)));
        cache.ended(TxnId(7), None);
        assert_eq!(cache.oldest(), inverse);
        cache.flush_one(AT, &pages).unwrap();
        assert_eq!((pages.0.lock().len(), cache.oldest()), (2, None));
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
