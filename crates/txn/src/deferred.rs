//! Changes of records that are logged now and made in their pages later (Lemon §7: `update` and `flush`).
//!
//! Whoever keeps records in memory in a form of its own, an object cache for example, would have each page in memory a
//! second time, only to change it. Instead it logs a [`Delta`] with [`Txn::defer`], for which no page is read or
//! touched, and writes a record to its page when it lets go of it, with [`Store::flush_record`], however often it has
//! changed meanwhile.
//!
//! ```text
//!   in its page ──defer──▶ changed ──commit──▶ committed ──flush_record──▶ in its page
//!                             │ ▲                  │ ▲
//!                   rollback ─┘ └─ defer       defer  └─ rollback of that: as it was
//! ```
//!
//! Records of one page are flushed in any order, so the page's LSN cannot say which deferred changes it has. The
//! version of each record does, in a page of the versioned layout: it is the LSN of the newest change that the record
//! has (Lemon §7.2; E19.2). What is not in its page holds the log: its transaction does until it ends, then its
//! [`Unflushed`] (E19.4).
//!
//! | undo (Lemon §7.1) | call | a loser's change after a crash |
//! |---|---|---|
//! | none: what is not committed is not flushed | [`Txn::defer`] | is in no page, and not redone (E19.5) |
//! | an inverse of the caller's | [`Txn::defer_inverse`] | is redone and taken back, as any other (E19.6) |
//! | none: atomicity relaxed | [`Txn::defer`], [without](crate::TxnOptions::without_atomicity) | is redone, and stays |

use std::any::TypeId;
use std::fmt;

use cedrat_pages::layout::{Versioned, VersionedMut};
use cedrat_pages::{Damaged, LatchedPage, LayoutKind, PageId, PageMut, PageRef, Slot};
use cedrat_sync::{Arc, Mutex, Weak};
use cedrat_wal::{Kind, LogOffset, Lsn, RecordHead, Spending, TxnId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::body::{COMPENSATION_LONGER_MAX, Head, UndoShape, room_for};
use crate::encode;
use crate::error::{Error, Result};
use crate::operation::{RecordId, Refused};
use crate::registry::Misfit;
use crate::rollback::ChainRecord;
use crate::store::{Inner, Store};
use crate::transaction::{END_ROOM, How, Txn};
use crate::update::{REPORT_EVERY, unspeakable};

/// A change of one record of a versioned page, and of nothing else: its fields are its arguments, which are logged.
///
/// Registered with [`crate::Registry::delta`]. The serialised form is a format, as that of an [`crate::Operation`].
pub trait Delta: Serialize + DeserializeOwned + fmt::Debug + Send + Sync + 'static {
    /// The name under which a store knows it for ever, for example `"shop.article_renamed.v1"`.
    const NAME: &'static str;

    /// Changes the record. Its length stays.
    ///
    /// Recovery calls it, in the order of the log, on what the changes before have made of the record (L083). It is a
    /// function of the arguments and of these bytes alone, and reaches nothing else (E13.1).
    ///
    /// # Errors
    /// [`Refused`] if the record is none that the change could have been logged for: the store then does not open. So
    /// apply it to the record that is kept *before* it is logged.
    fn apply(&self, record: &mut [u8]) -> Result<(), Refused>;
}

/// Somebody who keeps records, with changes that are not in their pages.
///
/// All methods may be called from any thread, also from within a call of a transaction, which may take a checkpoint to
/// make room in the log: hold no latch over a call of the store that one of these waits for. None may panic, call a
/// transaction, begin one, or take a checkpoint. It must not hold the [`Store`], which would then keep itself open.
pub trait Unflushed: Send + Sync {
    /// The oldest change in any record kept, of those by transactions that have [ended](Unflushed::ended), that its
    /// page may not have; `None` if there is none. The log is kept from there on, and redo begins no later (E19.4;
    /// Lemon §7.2).
    fn oldest(&self) -> Option<Lsn>;

    /// Asks for all changes older than `before` to be flushed, as far as they are committed: a checkpoint is being
    /// taken.
    ///
    /// Ordinarily `before` is when the checkpoint before was taken, so a record that changes all the time is flushed
    /// once in the time of a checkpoint; where the log is full, or the store is closed, it is now. Who flushes nothing
    /// keeps the log growing.
    ///
    /// # Errors
    /// Those of [`ToPages::flush_record`], of the first record that could not be written; others are to be written
    /// nevertheless. The checkpoint says so, and the log is kept from the oldest change on that is in no page.
    fn flush(&self, before: Lsn, pages: &ToPages<'_>) -> Result<()>;

    /// A change is taken back, by a rollback or by a return to a savepoint. Called for each, the newest first; not for
    /// those of a transaction without atomicity, which stay.
    fn taken_back(&self, change: TakenBack);

    /// The change in its page that this record has been [kept](Txn::kept) behind is about to be taken back there, after
    /// all that was deferred since: it is not to be kept any longer (E19.7). Called as well before the record is changed in
    /// its page by a transaction that was prepared in an earlier opening of the store.
    fn withdrawn(&self, at: RecordId) {
        let _ = at;
    }

    /// The transaction has ended: committed, with its commit record at this LSN, which may not be durable yet; or
    /// rolled back. From now on its changes are to be counted by [`oldest`](Unflushed::oldest). Its locks are still
    /// held.
    fn ended(&self, txn: TxnId, committed: Option<Lsn>);
}

/// A deferred change that was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenBack {
    /// The transaction.
    pub txn: TxnId,
    /// The record.
    pub at: RecordId,
    /// The change.
    pub change: Lsn,
    /// The LSN of its inverse, logged now: the record has the version of it. `None` if there was no inverse: the record
    /// is as it was before the change, with the version that it had.
    pub inverse: Option<Lsn>,
}

/// Keeps the log for an [`Unflushed`], and hands its changes to transactions. Cheap to clone.
///
/// When the last one is dropped, those in transactions included, what is not flushed is left to the recovery of the
/// next opening: its pages stay as they are, and the log is kept for it as long as the store is open.
#[derive(Clone)]
pub struct Keeper(Arc<Registration>);

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keeper").field(&self.0.number).finish()
    }
}

struct Registration {
    inner: Weak<Inner>,
    number: u64,
    unflushed: Arc<dyn Unflushed>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.keepers.leave(self.number, self.unflushed.oldest());
        }
    }
}

/// Those who keep the log of a store.
#[derive(Default)]
pub(crate) struct Keepers(Mutex<Known>);

#[derive(Default)]
struct Known {
    next_number: u64,
    unflushed: Vec<(u64, Arc<dyn Unflushed>)>,
    /// The oldest change of those who have gone.
    left_behind: Option<Lsn>,
}

impl Keepers {
    fn enter(&self, unflushed: Arc<dyn Unflushed>) -> u64 {
        let mut known = self.0.lock();
        let number = known.next_number;
        known.next_number += 1;
        known.unflushed.push((number, unflushed));
        number
    }

    fn leave(&self, number: u64, oldest: Option<Lsn>) {
        let mut known = self.0.lock();
        known.left_behind = known.left_behind.into_iter().chain(oldest).min();
        known.unflushed.retain(|(other, _)| *other != number);
    }

    /// All of them; asked outside of the mutex, for what they do is not ours.
    fn all(&self) -> (Vec<Arc<dyn Unflushed>>, Option<Lsn>) {
        let known = self.0.lock();
        (known.unflushed.iter().map(|(_, unflushed)| Arc::clone(unflushed)).collect(), known.left_behind)
    }

    /// The oldest change of an ended transaction that is not in its page.
    pub(crate) fn oldest(&self) -> Option<Lsn> {
        let (all, left_behind) = self.all();
        all.iter().filter_map(|unflushed| unflushed.oldest()).chain(left_behind).min()
    }

    /// A record is about to be changed in its page by a transaction of an earlier opening, whose locks have kept everyone
    /// from it; who went without locks keeps it no longer.
    pub(crate) fn withdrawn(&self, at: RecordId) {
        self.all().0.iter().for_each(|unflushed| unflushed.withdrawn(at));
    }

    pub(crate) fn flush(&self, before: Lsn, pages: &ToPages<'_>) -> Result<()> {
        // All of them, whoever fails: each holds the log up by itself.
        let all = self.all();
        all.0.iter().map(|unflushed| unflushed.flush(before, pages)).fold(Ok(()), Result::and)
    }
}

/// A record as its keeper has it, on the way to its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptRecord<'a> {
    /// Its place.
    pub at: RecordId,
    /// The record: as long as the one in the page.
    pub bytes: &'a [u8],
    /// The oldest change in it that the page may not have.
    pub since: Lsn,
    /// The newest change in it: the record's version.
    pub version: Lsn,
    /// The log is durable up to here before the page goes home: the commit record of the newest change. If that has an
    /// inverse, or was made without atomicity, `version` is enough.
    pub committed: Lsn,
}

/// The way of records to their pages. Lent to an [`Unflushed`], which does not hold the store.
pub struct ToPages<'a>(pub(crate) &'a Inner);

impl fmt::Debug for ToPages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToPages")
    }
}

impl Store {
    /// From now on the log is kept for what `unflushed` has not flushed; with the answer its changes are deferred.
    pub fn keep_log_for(&self, unflushed: Arc<dyn Unflushed>) -> Keeper {
        let number = self.inner.keepers.enter(Arc::clone(&unflushed));
        Keeper(Arc::new(Registration { inner: Arc::downgrade(&self.inner), number, unflushed }))
    }

    /// As [`ToPages::flush_record`].
    ///
    /// # Errors
    /// As there.
    pub fn flush_record(&self, kept: &KeptRecord<'_>) -> Result<()> {
        ToPages(&self.inner).flush_record(kept)
    }
}

impl ToPages<'_> {
    /// As [`Store::read`]. Drop the page before a record is flushed.
    ///
    /// # Errors
    /// If the page cannot be read.
    pub fn read(&self, page: PageId) -> Result<LatchedPage<'_>> {
        Ok(self.0.pool.read(page)?)
    }

    /// Writes a record with all its deferred changes to its page (Lemon §7.1: `flush()`). Nothing is logged: the log
    /// has the changes.
    ///
    /// What is not committed is not flushed, unless it has an inverse, or was made without atomicity (E19.5): the
    /// caller sees to it. It keeps [`Unflushed::oldest`] at `since` until this has returned (E19.4).
    ///
    /// # Errors
    /// [`Error::Refused`] if the page has no such record, or one of another length; [`Error::Misuse`] if the page's is
    /// newer, or the LSNs are not in order. Nothing has happened then, nor if the page cannot be read.
    pub fn flush_record(&self, kept: &KeptRecord<'_>) -> Result<()> {
        let inner = self.0;
        inner.alive()?;
        let KeptRecord { at, bytes, since, version, committed } = *kept;
        let drawn = Lsn::ZERO < since && since <= version && version <= committed;
        if !drawn || committed > inner.log.current_lsn() {
            return Err(Error::Misuse(
                "of a record that is flushed: since ≤ version ≤ committed, none of them to come",
            ));
        }
        let mut page = inner.pool.exclusive(at.page)?;
        let has = version_to_replace(&page.page_ref(), at.slot, bytes.len())?;
        if has > version {
            return Err(Error::Misuse(
                "the record in the page is newer: it was changed there; do not keep it any longer",
            ));
        }
        if has == version {
            return Ok(());
        }
        page.will_change(since);
        let put = |page: &mut PageMut<'_>| VersionedMut::of(page)?.put(at.slot, version, 0, bytes);
        let done = page.change_record(version, committed, put);
        drop(page);
        done.map_err(|damaged| inner.stop_for_damage(&damaged, "flushing a record"))
    }
}

/// The version of the record that is about to be replaced by one of `len` bytes.
fn version_to_replace(page: &PageRef<'_>, slot: Slot, len: usize) -> Result<Lsn> {
    let versioned = Versioned::of(page)?;
    match versioned.get(slot)? {
        Some(record) if record.len() == len => Ok(versioned.version(slot)?),
        Some(record) => {
            let (id, has) = (page.id(), record.len());
            Err(Refused::new(format!("record {slot} of page {id} has {has} bytes, not {len}")).into())
        }
        None => Err(Refused::new(format!("page {} has no record {slot}", page.id())).into()),
    }
}

/// How a transaction's deferred changes are taken back. It is one way for all of them: an inverse may rely on what the
/// changes before it have left, and those that count only if committed leave nothing after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakenBackBy {
    NotCounting,
    Inverse,
    Nothing,
}

/// What a transaction remembers of its deferred changes.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    keepers: Vec<Keeper>,
    by: Option<TakenBackBy>,
    newest: Option<LogOffset>,
    /// Changes in pages behind which their records are kept, the newest last.
    kept: Vec<(LogOffset, RecordId, Keeper)>,
}

impl Deferred {
    /// How many bytes its lists take.
    pub(crate) fn memory_len(&self) -> usize {
        self.keepers.capacity() * size_of::<Keeper>()
            + self.kept.capacity() * size_of::<(LogOffset, RecordId, Keeper)>()
    }

    #[cfg(test)]
    pub(crate) fn with_memory_for(kept: usize) -> Deferred {
        Deferred { kept: Vec::with_capacity(kept), ..Deferred::default() }
    }

    /// Whether anything was deferred behind this place.
    pub(crate) fn since(&self, place: Option<LogOffset>) -> bool {
        self.newest > place
    }

    /// Everything behind this place was taken back.
    pub(crate) fn back_to(&mut self, place: Option<LogOffset>) {
        self.newest = self.newest.min(place);
        self.kept.retain(|&(behind, ..)| Some(behind) <= place);
    }

    /// The change at this place is about to be taken back in its page (E19.7).
    #[inline]
    pub(crate) fn withdraws(&mut self, place: LogOffset) {
        while let Some((_, at, keeper)) = self.kept.pop_if(|&mut (behind, ..)| behind == place) {
            keeper.0.unflushed.withdrawn(at);
        }
    }

    /// Whether this transaction, in this run, has deferred anything.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        !self.keepers.is_empty()
    }

    fn taken_back(&self, change: TakenBack) {
        self.keepers.iter().for_each(|keeper| keeper.0.unflushed.taken_back(change));
    }

    pub(crate) fn ended(&self, txn: TxnId, committed: Option<Lsn>) {
        self.keepers.iter().for_each(|keeper| keeper.0.unflushed.ended(txn, committed));
    }

    /// All of it; its memory stays.
    pub(crate) fn forget(&mut self) {
        let Deferred { keepers, by, newest, kept } = self;
        keepers.clear();
        kept.clear();
        (*by, *newest) = (None, None);
    }
}

impl Txn {
    /// Logs a change of a versioned record without touching or reading its page (Lemon §7.1: `update()`). The record is
    /// kept by whom `keeper` is for, who has the change in it from now on; returns the version that the record then
    /// has.
    ///
    /// Should the transaction not commit, the change does not count, and no undo is logged; in a transaction [without
    /// atomicity](crate::TxnOptions::without_atomicity) it counts from now on, and what a crash or a rollback leaves is
    /// a prefix of its changes. No lock is taken: whoever keeps the record isolates it.
    ///
    /// Before a record is changed in its page ([`Txn::update`]) it has to be flushed, and is not to be kept any longer;
    /// so not by a transaction that has itself deferred changes of it. After that, also by the same transaction, it may
    /// be kept again.
    ///
    /// # Errors
    /// [`Error::Misuse`] within a nested top action or an ordered sequence, in undo, beside [`Txn::defer_inverse`], or
    /// for another store's keeper; [`Error::Refused`] if there is no such page; [`Error::TooLarge`],
    /// [`Error::LogFull`]. Nothing has happened then. [`Error::PinsLog`]: the transaction was rolled back.
    pub fn defer<D: Delta>(&mut self, keeper: &Keeper, at: RecordId, delta: &D) -> Result<Lsn> {
        let logged = self.log_deferred(keeper, at, delta, None::<&D>, |_| Ok(Some(())))?;
        Ok(logged.expect("it was wanted").0)
    }

    /// As [`defer`](Txn::defer), if `change` makes the change in what is kept: it is called when everything else that can
    /// refuse has agreed and all that may wait for the log has been waited for. If it says `Some`, the change is logged, and
    /// nothing can fail any more; if `None` or an error, nothing is.
    ///
    /// So the keeper's latch may be taken in `change`, and be held, in its answer, until the caller knows the LSN: as a
    /// page's latch is held on the road of an update. `change` may flush records, and calls no transaction to change
    /// anything.
    ///
    /// # Errors
    /// As [`defer`](Txn::defer); those of `change`. Nothing has happened then.
    pub fn defer_when<D: Delta, C>(
        &mut self,
        keeper: &Keeper,
        at: RecordId,
        delta: &D,
        change: impl FnOnce(&Txn) -> Result<Option<C>>,
    ) -> Result<Option<(Lsn, C)>> {
        self.log_deferred(keeper, at, delta, None::<&D>, change)
    }

    /// As [`defer`](Txn::defer), with a change that takes it back: rolling back logs it, and the keeper is told. A
    /// record with such changes may be flushed before they are committed.
    ///
    /// # Errors
    /// As [`defer`](Txn::defer); [`Error::Misuse`] beside `defer` in one transaction.
    pub fn defer_inverse<D: Delta, I: Delta>(
        &mut self,
        keeper: &Keeper,
        at: RecordId,
        delta: &D,
        inverse: &I,
    ) -> Result<Lsn> {
        let logged = self.log_deferred(keeper, at, delta, Some(inverse), |_| Ok(Some(())))?;
        Ok(logged.expect("it was wanted").0)
    }

    /// As [`defer_when`](Txn::defer_when), with a change that takes it back.
    ///
    /// # Errors
    /// As [`defer_inverse`](Txn::defer_inverse); those of `change`. Nothing has happened then.
    pub fn defer_inverse_when<D: Delta, I: Delta, C>(
        &mut self,
        keeper: &Keeper,
        at: RecordId,
        delta: &D,
        inverse: &I,
        change: impl FnOnce(&Txn) -> Result<Option<C>>,
    ) -> Result<Option<(Lsn, C)>> {
        self.log_deferred(keeper, at, delta, Some(inverse), change)
    }

    /// Says that a record is kept, behind the change of its page that this transaction has just made: should that be taken
    /// back, its keeper is [told](Unflushed::withdrawn) before. Nothing is logged. The keeper is told of the transaction's
    /// end, too.
    ///
    /// # Errors
    /// [`Error::Misuse`] within a nested top action or an ordered sequence, in undo, before the first change, or for another
    /// store's keeper.
    pub fn kept(&mut self, keeper: &Keeper, at: RecordId) -> Result<()> {
        self.may_keep(keeper)?;
        let behind = self.last.ok_or(Error::Misuse("nothing was changed yet; say so after the change"))?;
        self.keep(keeper);
        self.deferred.newest = Some(behind);
        self.deferred.kept.push((behind, at, keeper.clone()));
        Ok(())
    }

    #[inline]
    fn keep(&mut self, keeper: &Keeper) {
        if !self.deferred.keepers.iter().any(|known| Arc::ptr_eq(&known.0, &keeper.0)) {
            self.deferred.keepers.push(keeper.clone());
        }
    }

    fn log_deferred<D: Delta, I: Delta, C>(
        &mut self,
        keeper: &Keeper,
        at: RecordId,
        delta: &D,
        inverse: Option<&I>,
        change: impl FnOnce(&Txn) -> Result<Option<C>>,
    ) -> Result<Option<(Lsn, C)>> {
        let by = self.may_defer(keeper, inverse.is_some())?;
        if at.page.get() >= self.inner().pool.len_pages() {
            return Err(Refused::new(format!("there is no page {}", at.page)).into());
        }
        self.may_change()?;
        self.enter()?;
        let number = self.inner().number_of_delta::<D>()?;
        self.store.inner.log.throttle(self.partition)?;
        self.arguments.clear();
        let (arguments_len, undo_room) = match (by, inverse) {
            (TakenBackBy::Inverse, Some(inverse)) => {
                let call = (self.inner().number_of_delta::<I>()?, None);
                encode::into_vec(delta, &mut self.arguments).map_err(|_| unspeakable(D::NAME))?;
                let redo_len = self.arguments.len();
                Head(&mut self.head).update(number, at, UndoShape::Operation, Some(call), redo_len);
                encode::into_vec(inverse, &mut self.arguments).map_err(|_| unspeakable(I::NAME))?;
                (self.arguments.len(), room_for(self.arguments.len() - redo_len))
            }
            _ => {
                // The head does not say how long the arguments are: they are put right behind it, and the record is one piece.
                let committed_only = by == TakenBackBy::NotCounting;
                Head(&mut self.head).deferred(number, at, committed_only);
                let head_len = self.head.len();
                encode::into_vec(delta, &mut self.head).map_err(|_| unspeakable(D::NAME))?;
                // Of the record that says so, if a savepoint before it is returned to.
                (self.head.len() - head_len, if committed_only { END_ROOM } else { 0 })
            }
        };
        self.inner().check_len(self.head.len() + self.arguments.len() + COMPENSATION_LONGER_MAX)?;
        let body_len_bound = room_for(arguments_len);
        if !self.has_room(body_len_bound, undo_room) {
            self.room_for_records(body_len_bound, undo_room)?;
        }
        let Some(changed) = change(self)? else { return Ok(None) };

        // From here nothing can fail.
        self.keep(keeper);
        self.deferred.by = Some(by);
        self.owed += undo_room;
        let log = &self.store.inner.log;
        // Before the draw: a checkpoint that read the clock behind it finds the log held (E19.4).
        self.entry.as_ref().expect("it has entered").defers(log.current_lsn().next());
        let room = self.room.as_mut().expect("E6.2: room is reserved before a record is made");
        room.spend(Spending::Forward);
        let record = RecordHead::new(Kind::UPDATE, self.id, self.last);
        let parts: [&[u8]; 2] = [&self.head, &self.arguments];
        let parts = if self.arguments.is_empty() { &parts[..1] } else { &parts[..] };
        let appended = log.append(self.partition, record, parts, room);
        let announced = self.entry.as_ref().is_some_and(|entry| entry.has_announced(appended.lsn));
        assert!(announced, "E19.4: change {} was drawn before it was announced", appended.lsn);
        self.last = Some(appended.offset);
        self.deferred.newest = Some(appended.offset);
        self.unreported += body_len_bound;
        if self.unreported >= REPORT_EVERY {
            self.report_bytes();
        }
        Ok(Some((appended.lsn, changed)))
    }

    /// Whether changes may be deferred now, or a record be [kept](Txn::kept) once it was changed: to be asked before.
    ///
    /// # Errors
    /// [`Error::Misuse`], as there.
    pub fn may_keep(&self, keeper: &Keeper) -> Result<()> {
        if self.how != How::Plain || self.undoing {
            return Err(Error::Misuse(
                "a change was to be deferred within a nested top action, an ordered sequence, isolation declared, or undo; \
                 defer it outside of these",
            ));
        }
        if !std::ptr::eq(keeper.0.inner.as_ptr(), Arc::as_ptr(&self.store.inner)) {
            return Err(Error::Misuse("the keeper belongs to another store"));
        }
        Ok(())
    }

    pub(crate) fn may_defer(&self, keeper: &Keeper, has_inverse: bool) -> Result<TakenBackBy> {
        self.may_keep(keeper)?;
        let by = match has_inverse {
            _ if self.gave_up_atomicity() => TakenBackBy::Nothing,
            true => TakenBackBy::Inverse,
            false => TakenBackBy::NotCounting,
        };
        if self.deferred.by.is_some_and(|before| before != by) {
            return Err(Error::Misuse(
                "a transaction defers all its changes with inverses, or none: after a crash those without would not be there \
                 when an inverse runs",
            ));
        }
        Ok(by)
    }

    /// Takes a deferred change of this run back: its page has never seen it, or its keeper knows.
    pub(crate) fn take_back_deferred(&mut self, record: &ChainRecord) -> Result<bool> {
        let deferred = record.deferred()?;
        let (at, change) = (deferred.at, record.lsn());
        let txn = self.id;
        match (deferred.inverse, deferred.committed_only) {
            (Some((operation, arguments)), _) => {
                let next = record.next_to_undo()?;
                Head(&mut self.head).compensation(operation, at, next);
                let inverse = self.append(Kind::COMPENSATION, arguments)?.lsn;
                self.deferred.taken_back(TakenBack { txn, at, change, inverse: Some(inverse) });
                Ok(true)
            }
            (None, true) => {
                self.deferred.taken_back(TakenBack { txn, at, change, inverse: None });
                Ok(false)
            }
            (None, false) => Ok(false), // without atomicity: it stays
        }
    }

    /// Says that changes behind `place` that count only if committed do not count any more (E19.5).
    pub(crate) fn log_return_to(&mut self, place: Option<LogOffset>) -> Result<()> {
        Head(&mut self.head).goes_back(place);
        self.append(Kind::NESTED_END, &[])?;
        Ok(())
    }
}

impl Inner {
    #[inline]
    pub(crate) fn number_of_delta<D: Delta>(&self) -> Result<u32> {
        self.numbers
            .of_type(TypeId::of::<D>())
            .ok_or_else(|| Error::Unregistered { what: "the delta", name: D::NAME.into() })
    }

    /// The oldest change that is in no page; asked after the clock and before the pages, so that a change on its way
    /// from one to the other is seen in one of both (E19.4). Transactions first: at their end they hand over to the
    /// keepers.
    pub(crate) fn oldest_deferred(&self) -> Option<Lsn> {
        #[cfg(feature = "planted-faults")]
        if self.fault == Some(crate::Fault::KeepersNotAsked) {
            return None;
        }
        let of_transactions = self.table.oldest_deferred();
        of_transactions.into_iter().chain(self.keepers.oldest()).min()
    }
}

/// Whether the page has this change of a record already (E19.2). A slot without a version was given back by the undo of
/// what made it, or is not there yet: the page's LSN tells which (E19.3).
pub(crate) fn has_change(page: &PageRef<'_>, slot: Slot, change: Lsn) -> Result<bool, Damaged> {
    let version = match page.kind() {
        LayoutKind::VERSIONED => Versioned::of(page)?.version(slot)?,
        _ => Lsn::ZERO,
    };
    Ok(change <= if version == Lsn::ZERO { page.lsn() } else { version })
}

/// The redo of a delta.
pub(crate) fn apply_to_page<D: Delta>(delta: &D, page: &mut PageMut<'_>, at: Slot) -> Result<(), Misfit> {
    let version = page.changing_at();
    let mut record = {
        let page = page.page_ref();
        let none = || Damaged::in_layout_word(page.id(), "there is no record for a deferred change");
        let versioned = Versioned::of(&page).map_err(Misfit::Page)?;
        versioned.get(at).and_then(|record| record.ok_or_else(none)).map_err(Misfit::Page)?.to_vec()
    };
    delta.apply(&mut record).map_err(Misfit::Record)?;
    VersionedMut::of(page).and_then(|mut versioned| versioned.put(at, version, 0, &record)).map_err(Misfit::Page)
}
