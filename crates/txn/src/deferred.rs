//! Changes of records that are logged now and applied to their pages later (Lemon §7: `update` and `flush`).
//!
//! A component that keeps records in memory in a form of its own, such as an object cache, would otherwise need each
//! page in memory as well, only to change it. Instead it logs a [`Delta`] with [`DeferredChanges::defer`], which neither
//! reads nor changes a page, and writes a record to its page with [`UnflushedRecords::flush_record`] when it evicts the
//! record, however often the record has changed meanwhile.
//!
//! ```text
//!   in its page ──defer──▶ changed ──commit──▶ committed ──flush_record──▶ in its page
//!                             │ ▲                  │ ▲
//!                   rollback ─┘ └─ defer       defer  └─ rollback of that: as it was
//! ```
//!
//! Records of one page are flushed in any order, so the page's LSN does not show which deferred changes the page has.
//! In a page of the versioned layout the version of each record does: it is the LSN of the newest change that the
//! record has (Lemon §7.2; E19.2). A change that is not in its page holds the log, through its transaction until that
//! ends, then through its [`Unflushed`] (E19.4).
//!
//! | undo (Lemon §7.1) | call | a loser's change after a crash |
//! |---|---|---|
//! | none: uncommitted changes are not flushed | [`DeferredChanges::defer`] | is in no page, and is not redone (E19.5) |
//! | an inverse from the caller | [`DeferredChanges::defer_inverse`] | is redone and undone, like any other (E19.6) |
//! | none: atomicity relaxed | [`DeferredChanges::defer`], [without](crate::TxnOptions::without_atomicity) | is redone and stays |

use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt;

use cedrat_pages::layout::{Versioned, VersionedMut};
use cedrat_pages::{Damaged, LatchedPage, LayoutKind, PageId, PageMut, PageRef, Slot};
use cedrat_sync::{Arc, Mutex, Weak, planted};
use cedrat_wal::{Kind, LogOffset, Lsn, RecordHead, Spending, TxnId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::body::{CARRIED_LONGER_MAX, COMPENSATION_LONGER_MAX, Head, UndoShape, record_space};
use crate::encode;
use crate::error::{Error, Result};
#[cfg(doc)]
use crate::object_cache::{DeferredChanges, UnflushedRecords};
use crate::operation::{RecordId, Refused};
use crate::registry::Misfit;
use crate::rollback::ChainRecord;
use crate::store::{Inner, Store};
use crate::transaction::{ChangeMode, END_SPACE, Txn};
use crate::update::unspeakable;

/// A change of exactly one record of a versioned page. Its fields are its arguments, which are logged.
///
/// Registered with [`DeltaRegistry::delta`](crate::object_cache::DeltaRegistry::delta). The serialised form is a permanent
/// format, like that of an [`crate::Operation`].
pub trait Delta: Serialize + DeserializeOwned + fmt::Debug + Send + Sync + 'static {
    /// The permanent name by which a store identifies it, for example `"shop.article_renamed.v1"`.
    const NAME: &'static str;

    /// Changes the record. Its length stays the same.
    ///
    /// Recovery calls it in log order on the result of the earlier changes. The result must depend on the
    /// arguments and these bytes alone, and the function has no other effect.
    ///
    /// # Errors
    /// [`Refused`] if the change cannot have been logged for this record; the store then does not open. So apply the
    /// change to the kept record *before* it is logged.
    fn apply(&self, record: &mut [u8]) -> Result<(), Refused>;
}

/// A component that keeps records with changes that are not in their pages.
///
/// All methods may be called from any thread, also from within a call of a transaction, which may take a checkpoint to
/// make room in the log. So hold no latch that one of these methods needs during a call of the store. The methods must
/// not panic, use or begin a transaction, or take a checkpoint. The component must not hold the [`Store`], which would
/// then keep itself open.
pub trait Unflushed: Send + Sync {
    /// Returns the oldest change in any kept record that its page may not have, among the changes of transactions that
    /// have [ended](Unflushed::ended); `None` if there is none. The log is kept from there on, and redo begins no later
    /// (Lemon §7.2).
    fn oldest(&self) -> Option<Lsn>;

    /// Flushes all changes older than `before` that are committed or have an inverse; called by a checkpoint.
    ///
    /// Normally `before` is the time of the previous checkpoint, so a record that changes constantly is flushed once
    /// per checkpoint interval. If the log is full, or the store is being closed, `before` is the current time. An
    /// implementation that flushes nothing makes the log grow, also for [prepared](Txn::prepare) transactions.
    ///
    /// # Errors
    /// Those of [`ToPages::flush_record`] for the first record that could not be written; the other records must be
    /// written nevertheless. The checkpoint returns the error, and the log is kept from the oldest change on that is in
    /// no page.
    fn flush(&self, before: Lsn, pages: &ToPages<'_>) -> Result<()>;

    /// Reports that a deferred change was undone by a rollback or by a return to a savepoint. Called for each change,
    /// newest first, except for those of a transaction without atomicity, which stay.
    fn taken_back(&self, change: TakenBack);

    /// Stops keeping this record. Called before a change in its page, after which it has been
    /// [kept](DeferredChanges::kept), is undone there, and after all later deferred changes were undone. Also called before a
    /// transaction that prepared in an earlier opening of the store changes the record in its page. It may wait until
    /// a [flush](ToPages::flush_record) of this record by another thread has ended: the caller holds no page.
    fn withdrawn(&self, at: RecordId) {
        let _ = at;
    }

    /// Reports that the transaction has ended: committed, with its commit record at this LSN, which may not be durable
    /// yet, or rolled back. From now on [`oldest`](Unflushed::oldest) must include its changes. Its locks are still
    /// held.
    fn ended(&self, txn: TxnId, committed: Option<Lsn>);
}

/// A deferred change that was undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenBack {
    /// The transaction.
    pub txn: TxnId,
    /// The record.
    pub at: RecordId,
    /// The change.
    pub change: Lsn,
    /// The LSN of its inverse, which was logged now and is the record's new version. `None` if there was no inverse:
    /// the record is as it was before the change, with the version that it had.
    pub inverse: Option<Lsn>,
}

/// Registration of an [`Unflushed`], for which the log is kept and by which transactions defer changes. Cheap to clone.
///
/// When the last clone is dropped, including those in transactions, the unflushed changes are left to the recovery of
/// the next opening: their pages stay as they are, and the log is kept for them as long as the store is open.
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

/// The registered keepers of a store.
#[derive(Default)]
pub(crate) struct Keepers(Mutex<Known>);

#[derive(Default)]
struct Known {
    next_number: u64,
    unflushed: Vec<(u64, Arc<dyn Unflushed>)>,
    /// The oldest unflushed change of dropped keepers.
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

    /// Returns all keepers. They are called without the mutex, since they run foreign code.
    fn all(&self) -> (Vec<Arc<dyn Unflushed>>, Option<Lsn>) {
        let known = self.0.lock();
        (known.unflushed.iter().map(|(_, unflushed)| Arc::clone(unflushed)).collect(), known.left_behind)
    }

    /// Returns the oldest change of an ended transaction that is not in its page.
    pub(crate) fn oldest(&self) -> Option<Lsn> {
        let (all, left_behind) = self.all();
        all.iter().filter_map(|unflushed| unflushed.oldest()).chain(left_behind).min()
    }

    /// Announces that a transaction of an earlier opening is about to change the record in its page. Its locks have
    /// excluded all other transactions; a keeper that read without locks must drop the record.
    pub(crate) fn withdrawn(&self, at: RecordId) {
        self.all().0.iter().for_each(|unflushed| unflushed.withdrawn(at));
    }

    pub(crate) fn flush(&self, before: Lsn, pages: &ToPages<'_>) -> Result<()> {
        // All keepers are called even if one fails: each holds the log by itself.
        let all = self.all();
        all.0.iter().map(|unflushed| unflushed.flush(before, pages)).fold(Ok(()), Result::and)
    }
}

/// A record as its keeper has it, to be written to its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptRecord<'a> {
    /// The address of the record.
    pub at: RecordId,
    /// The bytes of the record, as many as in the page.
    pub bytes: &'a [u8],
    /// The oldest change in it that the page may not have.
    pub since: Lsn,
    /// The newest change in it: the record's version.
    pub version: Lsn,
    /// The log must be durable up to this LSN before the page is written: the commit record of the newest change. If
    /// that change has an inverse, or was made without atomicity, `version` suffices.
    pub committed: Lsn,
}

/// Access to pages for flushing records. Lent to an [`Unflushed`], which does not hold the store.
pub struct ToPages<'a>(pub(crate) &'a Inner);

impl fmt::Debug for ToPages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToPages")
    }
}

impl Keeper {
    /// Registers `unflushed` with its store.
    pub(crate) fn of(store: &Store, unflushed: Arc<dyn Unflushed>) -> Keeper {
        let number = store.inner.keepers.enter(Arc::clone(&unflushed));
        Keeper(Arc::new(Registration { inner: Arc::downgrade(&store.inner), number, unflushed }))
    }
}

impl ToPages<'_> {
    /// As [`Store::read`]. Drop the page before flushing a record.
    ///
    /// A page that was damaged and rebuilt may have a newer version of a record than was flushed to it: with all deferred changes
    /// and inverses up to that LSN (E18.17d).
    ///
    /// # Errors
    /// The page cannot be read.
    pub fn read(&self, page: PageId) -> Result<LatchedPage<'_>> {
        Ok(self.0.pool.read(page)?)
    }

    /// Writes a record with all its deferred changes to its page (Lemon §7.1: `flush()`). Nothing is logged, since the
    /// log has the changes.
    ///
    /// The caller must not flush an uncommitted change unless it has an inverse or was made without atomicity,
    /// and must keep [`Unflushed::oldest`] at `since` until this call has returned.
    ///
    /// # Errors
    /// [`Error::Refused`] if the page has no such record, or one of another length; [`Error::Misuse`] if the page's
    /// record is newer, and the page was not rebuilt, or the LSNs are not in order. Then, or if the page cannot be read, nothing has
    /// happened.
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
        let was_rebuilt = || inner.pool.was_rebuilt(at.page) && !planted!("flush_into_rebuilt_page_refused");
        if has > version && was_rebuilt() {
            return Ok(()); // it was rebuilt with a later change
        }
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
        done.map_err(|damaged| inner.stop_for_damage(&damaged, "flushing a record")) // under the latch (E6.3b)
    }
}

/// Returns the version of the record that is about to be replaced by one of `len` bytes.
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

/// Undo of a transaction's deferred changes. All of them are undone the same way: an inverse may rely on the result of
/// earlier changes, and changes that count only if committed leave no result after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeferredUndo {
    /// Nothing to undo: the change counts only if it is committed.
    CommittedOnly,
    /// A change that the caller has given.
    Inverse,
    /// No undo: the change stays.
    None,
}

/// The state that a transaction keeps of its deferred changes.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    keepers: Vec<Keeper>,
    undo: Option<DeferredUndo>,
    newest: Option<LogOffset>,
    /// Changes in pages after which their records were kept, newest last.
    kept: Vec<(LogOffset, RecordId, Keeper)>,
}

impl Deferred {
    /// Returns the memory of its lists, in bytes.
    pub(crate) fn memory_len(&self) -> usize {
        self.keepers.capacity() * size_of::<Keeper>()
            + self.kept.capacity() * size_of::<(LogOffset, RecordId, Keeper)>()
    }

    #[cfg(test)]
    pub(crate) fn with_memory_for(kept: usize) -> Deferred {
        Deferred { kept: Vec::with_capacity(kept), ..Deferred::default() }
    }

    /// Whether anything was deferred after this position.
    pub(crate) fn since(&self, place: Option<LogOffset>) -> bool {
        self.newest > place
    }

    /// Forgets everything after this position, which was undone.
    pub(crate) fn back_to(&mut self, place: Option<LogOffset>) {
        self.newest = self.newest.min(place);
        self.kept.retain(|&(behind, ..)| Some(behind) <= place);
    }

    /// Updates positions after records were carried forward: `to` returns the new position of each (E9.13).
    ///
    /// A record that was not copied is replaced by the newest copy of those before it. Before the first, nothing is undone.
    pub(crate) fn moves(&mut self, to: impl Fn(LogOffset) -> Option<LogOffset>) {
        let moved = |place: LogOffset| to(place).unwrap_or(place);
        self.newest = self.newest.map(moved);
        self.kept.iter_mut().for_each(|(behind, ..)| *behind = moved(*behind));
    }

    /// Announces that the change at this position is about to be undone in its page (E19.7). A record is noted with the
    /// newest position when it was kept, and there may be records that need no undo between its change and that.
    #[inline]
    pub(crate) fn withdraws(&mut self, place: LogOffset) {
        let is_due = |behind| if planted!("kept_behind_its_change_alone") { behind == place } else { behind >= place };
        while let Some((_, at, keeper)) = self.kept.pop_if(|&mut (behind, ..)| is_due(behind)) {
            keeper.0.unflushed.withdrawn(at);
        }
    }

    /// Whether this transaction has deferred anything in this run.
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

    /// Clears everything, and keeps the memory.
    pub(crate) fn forget(&mut self) {
        let Deferred { keepers, undo, newest, kept } = self;
        keepers.clear();
        kept.clear();
        (*undo, *newest) = (None, None);
    }
}

impl Txn {
    /// See [`DeferredChanges::kept`](crate::object_cache::DeferredChanges::kept).
    pub(crate) fn note_kept(&mut self, keeper: &Keeper, at: RecordId) -> Result<()> {
        self.check_may_keep(keeper)?;
        self.in_call(|txn| {
            let behind =
                txn.cursor.last.ok_or(Error::Misuse("no change precedes this call; make it after that of the page"))?;
            txn.keep(keeper);
            txn.deferred.newest = Some(behind);
            txn.deferred.kept.push((behind, at, keeper.clone()));
            Ok(())
        })
    }

    #[inline]
    fn keep(&mut self, keeper: &Keeper) {
        if !self.deferred.keepers.iter().any(|known| Arc::ptr_eq(&known.0, &keeper.0)) {
            self.deferred.keepers.push(keeper.clone());
        }
    }

    pub(crate) fn log_deferred<D: Delta, I: Delta, C>(
        &mut self,
        keeper: &Keeper,
        at: RecordId,
        delta: &D,
        inverse: Option<&I>,
        change: impl FnOnce(&Txn) -> Result<Option<C>>,
    ) -> Result<Option<(Lsn, C)>> {
        self.in_call(|txn| txn.log_deferred_in_call(keeper, at, delta, inverse, change))
    }

    fn log_deferred_in_call<D: Delta, I: Delta, C>(
        &mut self,
        keeper: &Keeper,
        at: RecordId,
        delta: &D,
        inverse: Option<&I>,
        change: impl FnOnce(&Txn) -> Result<Option<C>>,
    ) -> Result<Option<(Lsn, C)>> {
        let undo = self.may_defer(keeper, inverse.is_some())?;
        if at.page.get() >= self.inner().pool.len_pages() {
            return Err(Refused::new(format!("there is no page {}", at.page)).into());
        }
        self.admit_change()?;
        self.enter()?;
        let number = self.inner().number_of_delta::<D>()?;
        self.store.inner.log.throttle(self.partition)?;
        self.arguments.clear();
        let (arguments_len, undo_space) = match (undo, inverse) {
            (DeferredUndo::Inverse, Some(inverse)) => {
                let call = (self.inner().number_of_delta::<I>()?, None);
                encode::into_vec(delta, &mut self.arguments).map_err(|_| unspeakable(D::NAME))?;
                let redo_len = self.arguments.len();
                Head(&mut self.head).update(number, at, UndoShape::Operation, Some(call), redo_len);
                encode::into_vec(inverse, &mut self.arguments).map_err(|_| unspeakable(I::NAME))?;
                (self.arguments.len(), record_space(self.arguments.len() - redo_len))
            }
            _ => {
                // The head has no length of the arguments: they follow it directly, and the record is one piece.
                let committed_only = undo == DeferredUndo::CommittedOnly;
                Head(&mut self.head).deferred(number, at, committed_only);
                let head_len = self.head.len();
                encode::into_vec(delta, &mut self.head).map_err(|_| unspeakable(D::NAME))?;
                // For the record that a return to an earlier savepoint logs.
                (self.head.len() - head_len, if committed_only { END_SPACE } else { 0 })
            }
        };
        self.inner().check_len(self.head.len() + self.arguments.len() + COMPENSATION_LONGER_MAX)?;
        let body_len_bound = record_space(arguments_len);
        if !self.has_reserved(body_len_bound, undo_space) {
            self.reserve_for_records(body_len_bound, undo_space)?;
        }
        let Some(changed) = change(self)? else { return Ok(None) };

        // Nothing can fail from here on.
        self.keep(keeper);
        self.deferred.undo = Some(undo);
        self.cursor.owed += undo_space;
        let log = &self.store.inner.log;
        // Set before the LSN is drawn, so that a checkpoint that has read the clock after the draw finds the log held
        // (E19.4).
        self.entry.as_ref().expect("it has entered").defers(log.current_lsn().next());
        let reservation = self.cursor.reservation.as_mut().expect("E6.2: room is reserved before a record is made");
        reservation.spend(Spending::Forward);
        let record = RecordHead::new(Kind::UPDATE, self.id, self.cursor.last);
        let parts: [&[u8]; 2] = [&self.head, &self.arguments];
        let parts = if self.arguments.is_empty() { &parts[..1] } else { &parts[..] };
        let appended = log.append(self.partition, record, parts, reservation);
        let announced = self.entry.as_ref().is_some_and(|entry| entry.has_announced(appended.lsn));
        assert!(announced, "E19.4: change {} was drawn before it was announced", appended.lsn);
        self.cursor.last = Some(appended.offset);
        self.deferred.newest = Some(appended.offset);
        self.cursor.logged += body_len_bound + CARRIED_LONGER_MAX as u64;
        self.note_logged(body_len_bound);
        Ok(Some((appended.lsn, changed)))
    }

    /// See [`DeferredChanges::may_keep`](crate::object_cache::DeferredChanges::may_keep).
    pub(crate) fn check_may_keep(&self, keeper: &Keeper) -> Result<()> {
        if self.change_mode != ChangeMode::Plain || self.undoing {
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

    pub(crate) fn may_defer(&self, keeper: &Keeper, has_inverse: bool) -> Result<DeferredUndo> {
        self.check_may_keep(keeper)?;
        let undo = match has_inverse {
            _ if self.gave_up_atomicity() => DeferredUndo::None,
            true => DeferredUndo::Inverse,
            false => DeferredUndo::CommittedOnly,
        };
        if self.deferred.undo.is_some_and(|before| before != undo) {
            return Err(Error::Misuse(
                "a transaction defers all its changes with inverses, or none: after a crash those without would not be there \
                 when an inverse runs",
            ));
        }
        Ok(undo)
    }

    /// Undoes a deferred change of this run: its page has never had it, or its keeper is notified.
    pub(crate) fn take_back_deferred(&mut self, record: &ChainRecord) -> Result<bool> {
        let deferred = record.deferred()?;
        let (at, change) = (deferred.at, record.lsn());
        let txn = self.id;
        match (deferred.inverse, deferred.committed_only) {
            (Some(_), _) if planted!("inverse_not_logged") => {
                self.deferred.taken_back(TakenBack { txn, at, change, inverse: Some(change) });
                Ok(true)
            }
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
            (None, false) => Ok(false), // without atomicity the change stays
        }
    }

    /// Flushes the records that it has changed with inverses, before a checkpoint carries its changes forward (E9.13). Returns
    /// whether their pages have all of these changes then: a keeper may flush nothing.
    pub(crate) fn flush_inverses(&self) -> Result<bool> {
        if self.deferred.undo != Some(DeferredUndo::Inverse) || planted!("carried_before_flushed") {
            return Ok(true);
        }
        let (before, pages) = (self.inner().log.current_lsn().next(), ToPages(self.inner()));
        let keepers = self.deferred.keepers.iter();
        keepers.map(|keeper| keeper.0.unflushed.flush(before, &pages)).fold(Ok(()), Result::and)?;
        Ok(planted!("carried_unflushed") || self.pages_have_inverses()?)
    }

    /// Returns whether pages have all changes that it has deferred, and their compensations.
    fn pages_have_inverses(&self) -> Result<bool> {
        let inner = self.inner();
        let mut newest = BTreeMap::new();
        let mut chain = self.chain();
        let mut more = chain.advance(self.cursor.last)?;
        while let Some(lsn) = more {
            if let Some(redo) = chain.record().parse()?.redo()
                && inner.numbers.operation(redo.operation).is_some_and(|table| table.by_version)
            {
                newest.entry(redo.at).or_insert(lsn);
            }
            more = chain.previous()?;
        }
        for (at, change) in newest {
            let page = inner.pool.read(at.page)?;
            if !has_change(&page, at.slot, change).map_err(|damaged| inner.pool.damaged(damaged))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the LSN from which on redo of a page that this transaction changes has to begin, if its next record has at least
    /// `next`.
    ///
    /// An undo in a page makes keepers forget a record (E19.7) with changes that the page has never had, and compensations of
    /// them. Redo must not begin between these: a compensation alone may not fit. So the page holds the log from the first of
    /// them on, once the transaction has ended (E19.4).
    pub(crate) fn redone_from(&self, next: Lsn) -> Lsn {
        let has_inverses = self.deferred.undo == Some(DeferredUndo::Inverse) && !planted!("withdrawn_changes_not_held");
        let deferred = self.entry.as_ref().filter(|_| has_inverses).and_then(|entry| entry.deferred_since());
        deferred.unwrap_or(next).min(next)
    }

    /// Logs that changes after `place` that count only if committed no longer count (E19.5).
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

    /// Returns the oldest change that is in no page. It is read after the clock and before the pages, and transactions
    /// before keepers, since changes move in this order: a change that moves meanwhile is seen in one of both (E19.4).
    pub(crate) fn oldest_deferred(&self) -> Option<Lsn> {
        #[cfg(feature = "planted-faults")]
        if self.fault == Some(crate::Fault::KeepersNotAsked) {
            return None;
        }
        let of_transactions = self.table.oldest_deferred();
        of_transactions.into_iter().chain(self.keepers.oldest()).min()
    }
}

/// Whether the page already has this change of a record (E19.2). A slot without a version was freed by the undo of its
/// creation, or does not exist yet: then the page's LSN decides (E19.3).
pub(crate) fn has_change(page: &PageRef<'_>, slot: Slot, change: Lsn) -> Result<bool, Damaged> {
    let version = match page.kind() {
        LayoutKind::VERSIONED => Versioned::of(page)?.version(slot)?,
        _ => Lsn::ZERO,
    };
    Ok(change <= if version == Lsn::ZERO { page.lsn() } else { version })
}

/// Applies a delta to its page: the redo of a delta.
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
