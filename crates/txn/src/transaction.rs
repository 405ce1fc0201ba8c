//! Transactions, from begin to commit or rollback.
//!
//! ```text
//!            update, nested …            commit record appended
//!   Active ──────────────────▶ Active ─────────────────────────▶ Ended
//!      │                                                            ▲
//!      └── rollback, or dropped: undone step by step, then ─────────┘
//! ```
//!
//! A transaction's records are a chain in one partition (E8.1): each names its predecessor. Rollback follows the chain from its
//! end; compensation records and the ends of nested top actions skip the records that must not be undone (again).

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use cedrat_heap::Joined;
use cedrat_pages::{LatchedPage, OptimisticPage, PageId};
use cedrat_sync::{Arc, planted};
use cedrat_wal::{ByteLen, Kind, LogOffset, Lsn, PartitionId, RecordHead, Reservation, Spending, Ticket, TxnId};

use crate::body::{CARRIED_LONGER_MAX, Head, record_space};
use crate::carry::CarryReservation;
use crate::deferred::Deferred;
use crate::error::{Error, Result};
use crate::holder::Holder;
use crate::locking::LockCache;
use crate::locks::LockMode;
use crate::nested::Nesting;
use crate::operation::{Operation, RecordId};
use crate::recovery::Loser;
use crate::savepoint::Savepoints;
use crate::space::Extent;
use crate::store::{Inner, Store};
use crate::table::{Entry, Memory};
use crate::update::{REPORT_EVERY, UndoOf};

pub use cedrat_heap::Commit;

/// The guarantees of a transaction, each of which can be given up by name.
///
/// ```
/// # use cedrat_txn::TxnOptions;
/// let options = TxnOptions::default().without_isolation().without_durability();
/// assert!(options.atomicity);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TxnOptions {
    /// Whether it is undone as a whole if it does not commit. Without atomicity, a rollback leaves the changes in
    /// place, and less log is written: changes are redo-only. A nested top action, or a call of [`Txn::isolated`] or
    /// [`Txn::ordered`], is still atomic: if it fails or a crash interrupts it, it is undone or finished. Once it has
    /// ended, it stays.
    pub atomicity: bool,
    /// Whether it takes locks. Without isolation, it sees uncommitted changes of others, and they see its own.
    pub isolation: bool,
    /// Whether a commit in mode `Sync` waits until it is durable. Without durability, it acts like [`Commit::NoFlush`].
    pub durability: bool,
    /// Whether it waits for locks of prepared transactions, whose outcome may take days. If not, it gets
    /// [`Error::InDoubt`] instead, if the lock manager supports that (as [`PageLocks`](crate::PageLocks) does for the
    /// requests of [`Txn::lock`]).
    pub waits_for_prepared: bool,
}

impl Default for TxnOptions {
    fn default() -> TxnOptions {
        TxnOptions { atomicity: true, isolation: true, durability: true, waits_for_prepared: true }
    }
}

impl TxnOptions {
    /// Returns the options without [`atomicity`](TxnOptions::atomicity).
    pub const fn without_atomicity(self) -> TxnOptions {
        TxnOptions { atomicity: false, ..self }
    }

    /// Returns the options without [`isolation`](TxnOptions::isolation).
    pub const fn without_isolation(self) -> TxnOptions {
        TxnOptions { isolation: false, ..self }
    }

    /// Returns the options without [`durability`](TxnOptions::durability).
    pub const fn without_durability(self) -> TxnOptions {
        TxnOptions { durability: false, ..self }
    }

    /// Returns the options without [waiting for prepared transactions](TxnOptions::waits_for_prepared).
    pub const fn without_waiting_for_prepared(self) -> TxnOptions {
        TxnOptions { waits_for_prepared: false, ..self }
    }
}

/// Mode of the changes made now (E14.1: each mode changes several pages in its own way).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeMode {
    /// One page at a time, each under its lock.
    Plain,
    /// Within a nested top action: latches only (E15.3).
    Nested,
    /// Within declared full isolation: the big lock is held.
    Isolated,
    /// Within an ordered sequence: redo-only.
    Ordered,
}

/// Stage of a transaction's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Calls may read and change the store.
    Active,
    /// The store has doomed it within a nested sequence or under latches, where it cannot roll back at once: only undo
    /// is admitted.
    UndoOnly,
    /// Recovery has found it in the log and has not finished with it: a drop abandons it instead of rolling it back.
    Recovered,
    /// It has ended, or its state belongs to another owner.
    Ended,
}

/// Position of a transaction in the log, and its log space.
#[derive(Debug, Default)]
pub(crate) struct LogCursor {
    /// The position of its newest record.
    pub(crate) last: Option<LogOffset>,
    pub(crate) reservation: Option<Reservation>,
    /// Maximum log space that undoing everything so far takes.
    pub(crate) owed: u64,
    /// Maximum log space by which the undo of its changes has grown since ([`Undo::none_with_space`](crate::Undo)). The growth is
    /// not undone, so this never decreases.
    pub(crate) grown: u64,
    /// Bytes of log that were not yet reported to the checkpointer.
    pub(crate) unreported: u64,
    /// Bytes of its records, approximately.
    pub(crate) logged: u64,
}

impl LogCursor {
    /// Returns the maximum log space that undoing everything takes.
    #[inline]
    pub(crate) fn owed_in_all(&self) -> u64 {
        self.owed + self.grown
    }
}

/// A transaction.
///
/// It belongs to one thread at a time and may be moved to another. Dropped before its end, by an error or a panic, it
/// rolls back. No method may be called while the same thread holds a page that it read elsewhere ([`Store::read`]): the
/// thread would wait for its own latch.
pub struct Txn {
    pub(crate) store: Store,
    pub(crate) id: TxnId,
    pub(crate) partition: PartitionId,
    pub(crate) state: State,
    pub(crate) cursor: LogCursor,
    pub(crate) change_mode: ChangeMode,
    pub(crate) nesting: Nesting,
    pub(crate) savepoints: Savepoints,
    pub(crate) options: TxnOptions,
    /// Whether it is undoing: then it takes no locks (E15.1) and spends what was reserved for undo (E16.1).
    pub(crate) undoing: bool,
    /// The newest LSN of anything that was read.
    seen: Cell<Lsn>,
    pub(crate) lock_cache: LockCache,
    pub(crate) entry: Option<Arc<Entry>>,
    /// Its state while it has locks and no entry, if its time has a limit.
    pub(crate) holder: OnceCell<Arc<Holder>>,
    /// Its reads and writes in heaps.
    pub(crate) heap: RefCell<Option<Joined>>,
    /// Moment since which its work is repeated after conflicts over heap words.
    pub(crate) repeated_since: Option<Instant>,
    /// Space that becomes free when the transaction ends (E7.1).
    pub(crate) freed: Vec<Freed>,
    /// Changes that are not in their pages.
    pub(crate) deferred: Deferred,
    /// Buffers for the parts of a record.
    pub(crate) head: Vec<u8>,
    pub(crate) arguments: Vec<u8>,
    /// The caller holds latches of a structure, which a rollback would need too.
    under_latch: bool,
    /// Number of running calls, one within the other; during these its state belongs to its owner (E16.8).
    pub(crate) calls: u32,
    /// Whether its freed and deferred changes are in its entry.
    pub(crate) has_deposit: bool,
    /// Whether it prepared in an earlier opening.
    pub(crate) was_restored: bool,
    /// The reservation for copies of the records of a prepared transaction.
    pub(crate) carry: CarryReservation,
}

/// Space freed by a transaction that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) extent: Extent,
    pub(crate) lsn: Lsn,
}

/// Log space of the record that ends a transaction, kept back from the beginning so that no end fails for lack of it.
pub(crate) const END_SPACE: u64 = record_space(0);

impl Txn {
    #[inline]
    pub(crate) fn new(store: Store, id: TxnId) -> Txn {
        let partition = store.inner.partition_of(id);
        Txn {
            store,
            id,
            partition,
            state: State::Active,
            cursor: LogCursor::default(),
            change_mode: ChangeMode::Plain,
            nesting: Nesting::default(),
            savepoints: Savepoints::default(),
            options: TxnOptions::default(),
            undoing: false,
            seen: Cell::new(Lsn::ZERO),
            lock_cache: LockCache::default(),
            entry: None,
            holder: OnceCell::new(),
            heap: RefCell::new(None),
            repeated_since: None,
            freed: Vec::new(),
            deferred: Deferred::default(),
            head: Vec::new(),
            arguments: Vec::new(),
            under_latch: false,
            calls: 0,
            has_deposit: false,
            was_restored: false,
            carry: CarryReservation::default(),
        }
    }

    /// Returns a transaction without an end, as recovery found it.
    pub(crate) fn found(store: Store, found: &Loser) -> Txn {
        let mut txn = Txn::new(store, found.id);
        txn.partition = found.partition;
        txn.cursor.last = Some(found.last);
        txn.state = State::Recovered;
        txn
    }

    /// Returns a loser: it has records and is about to be undone.
    pub(crate) fn loser(store: Store, loser: &Loser) -> Txn {
        let mut txn = Txn::found(store, loser);
        let inner = &txn.store.inner;
        // The previous run reserved room for it; forward work never used that room (E16.2).
        txn.cursor.reservation = Some(inner.log.reservation_for_recovery());
        txn.entry = Some(inner.table.enter_loser(loser.id, loser.first));
        txn.calls = 1;
        txn.undoing = true;
        txn
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Inner {
        &self.store.inner
    }

    /// Returns its number, unique over the lifetime of the store.
    pub fn id(&self) -> TxnId {
        self.id
    }

    /// Returns its store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the guarantees that it gives.
    pub fn options(&self) -> TxnOptions {
        self.options
    }

    /// Whether this is an undo: of this transaction while it rolls back, or of a loser in recovery.
    pub fn is_undoing(&self) -> bool {
        self.undoing
    }

    // ---- reading ----------------------------------------------------------------------------------------------

    /// Reads a page under its shared latch, after the lock manager has admitted the read.
    ///
    /// Drop the page soon. Within a nested top action, and in undo, only the latch protects it.
    ///
    /// # Errors
    /// [`Error::Deadlock`], or the page cannot be read.
    pub fn read(&self, page: PageId) -> Result<LatchedPage<'_>> {
        if self.change_mode == ChangeMode::Plain && !self.undoing {
            self.alive()?;
            self.lock_page(page, LockMode::Shared)?;
        }
        self.read_latched(page)
    }

    /// Reads a page under its latch alone: it may contain uncommitted changes of other transactions. For structures
    /// that do not lock pages.
    ///
    /// # Errors
    /// The page cannot be read.
    pub fn read_latched(&self, page: PageId) -> Result<LatchedPage<'_>> {
        let page = self.inner().pool.read(page)?;
        self.still_isolated()?;
        self.saw(page.lsn());
        Ok(page)
    }

    /// Reads a page without latch or lock; see [`cedrat_pages::Pool::optimistic`].
    ///
    /// # Errors
    /// The page cannot be read.
    #[inline]
    pub fn optimistic<R>(&self, page: PageId, mut look: impl FnMut(OptimisticPage<'_>) -> Option<R>) -> Result<R> {
        let (result, lsn) = self.inner().pool.optimistic(page, |page| Some((look(page)?, page.lsn())))?;
        self.still_isolated()?;
        self.saw(lsn);
        Ok(result)
    }

    /// Notes that this transaction has read a change with this LSN.
    #[inline]
    pub(crate) fn saw(&self, lsn: Lsn) {
        if lsn > self.seen.get() {
            self.seen.set(lsn);
        }
    }

    // ---- changing ---------------------------------------------------------------------------------------------

    /// Changes one page by one operation, after the lock manager has admitted the update. All page changes take this path
    /// (`docs/inside/walk.md`).
    ///
    /// Within [`nested`](Txn::nested), [`isolated`](Txn::isolated) and [`ordered`](Txn::ordered) no page is locked.
    ///
    /// # Errors
    /// [`Error::Refused`] by the operation; [`Error::Deadlock`]; [`Error::LogFull`]. Nothing has happened then.
    /// [`Error::PinsLog`]: the transaction was rolled back. [`Error::Damaged`], [`Error::Stopped`]: the store stopped.
    #[inline]
    pub fn update<O: Operation>(&mut self, at: RecordId, operation: &O) -> Result<()> {
        self.lock_for_update(at.page)?;
        self.as_last_step(|txn| txn.road(at, operation, UndoOf::Own).map(|_| ()))
    }

    /// Changes a page as [`update`](Txn::update) does, without a lock on it: for structures that lock something else.
    ///
    /// The undo of the change must remain valid whatever other transactions do to the page meanwhile: an undo by key,
    /// by a slot that no other transaction takes, or one that commutes.
    ///
    /// # Errors
    /// As [`update`](Txn::update).
    #[inline]
    pub fn update_latched<O: Operation>(&mut self, at: RecordId, operation: &O) -> Result<()> {
        self.road_under_latch(at, operation, UndoOf::Own)
    }

    /// Changes a page as [`update_latched`](Txn::update_latched) does, with this undo in place of the operation's own. It is
    /// usually a logical one: a nested top action of a single record.
    ///
    /// # Errors
    /// As [`update`](Txn::update).
    #[inline]
    pub fn update_logical<O: Operation>(&mut self, at: RecordId, operation: &O, undo: crate::Undo) -> Result<()> {
        self.road_under_latch(at, operation, UndoOf::Given(undo))
    }

    /// Runs the update path for a caller that holds latches of its structure: a doomed transaction gets an error, and
    /// rolls back at the next call that holds none.
    #[inline]
    fn road_under_latch<O: Operation>(&mut self, at: RecordId, operation: &O, undo_of: UndoOf) -> Result<()> {
        self.under_latch = true;
        let done = self.in_call(|txn| txn.road(at, operation, undo_of));
        self.under_latch = false;
        done.map(|_| ())
    }

    /// Writes a record of the application's own, of a kind that was registered under this name. It is part of the
    /// transaction's chain, has neither redo nor undo, and can be read by [`cedrat_wal::Log::scan`].
    ///
    /// # Errors
    /// [`Error::Unregistered`], [`Error::TooLarge`], [`Error::LogFull`]. [`Error::PinsLog`]: the transaction was rolled
    /// back. That takes the latches of its undo, so the caller must hold none of them, except within
    /// [`nested`](Txn::nested) or [`ordered`](Txn::ordered), where the rollback comes later.
    pub fn log_record(&mut self, kind: &'static str, bytes: &[u8]) -> Result<Lsn> {
        let number = self
            .inner()
            .numbers
            .of_name(kind)
            .ok_or_else(|| Error::Unregistered { what: "the record kind", name: kind.into() })?;
        self.as_last_step(|txn| {
            txn.alive()?;
            txn.enter()?;
            txn.reserve_for_records(record_space(bytes.len()), 0)?;
            Head(&mut txn.head).user(number);
            let lsn = txn.append(Kind::USER, bytes)?.lsn;
            txn.note_logged(record_space(bytes.len()));
            Ok(lsn)
        })
    }

    // ---- transactions within it ----------------------------------------------------------------------------------

    /// Runs `work` as a transaction within this one: if it fails or panics, its changes are undone, and this
    /// transaction continues.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn nested_transaction<T>(&mut self, work: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> {
        self.alive()?;
        if self.change_mode == ChangeMode::Ordered {
            return Err(Error::Misuse("cannot roll back within an ordered sequence: it is redo-only"));
        }
        self.in_sequence(self.change_mode, |txn| Ok((work(txn)?, None)))
    }

    // ---- the end ----------------------------------------------------------------------------------------------

    /// Commits, and returns when `mode` requires.
    ///
    /// Locks are released when the commit record is appended, before it is durable. Other transactions may then read the
    /// changes, but do not become durable earlier: a crash cuts the log at one point.
    ///
    /// # Errors
    /// [`Error::Stopped`]: only reopening the store shows whether the commit was kept. With any other error the
    /// transaction was rolled back.
    pub fn commit(mut self, mode: Commit) -> Result<Ticket> {
        if mode == Commit::Partition && !planted!("partition_commit_of_pages") {
            return Err(Error::PartitionCommit); // dropped: rolled back
        }
        self.begin_call()?;
        self.alive()?;
        self.nests_nothing()?;
        if self.entry.as_ref().is_some_and(|entry| entry.claim.is_doomed()) {
            return Err(self.obey());
        }
        let lsn = match self.heap.take() {
            Some(heap) => self.commit_with_heap(heap).map_err(|error| self.inner().explain_full(error))?,
            None if self.entry.is_some() => {
                self.head.clear();
                self.append(Kind::COMMIT, &[])?.lsn
            }
            None => self.newest_read(),
        };
        self.note_commit(lsn);
        let ticket = self.finish_commit(lsn, mode);
        self.store.measure_if_due();
        ticket
    }

    /// Completes a commit whose record is in the log: releases all that the transaction held, and returns as `mode` requires.
    pub(crate) fn finish_commit(&mut self, lsn: Lsn, mode: Commit) -> Result<Ticket> {
        self.leave(Some(lsn));
        self.report_bytes();
        let inner = &self.store.inner;
        let is_forced = mode == Commit::Sync && !inner.no_flush && self.options.durability;
        if is_forced && !planted!("commit_not_forced") {
            inner.log.force(lsn)?;
        }
        inner.counts.committed(mode);
        Ok(inner.log.ticket(lsn))
    }

    /// Notes that the commit record was appended, before another transaction can read what was committed (E10.9).
    pub(crate) fn note_commit(&self, lsn: Lsn) {
        if let Some(entry) = &self.entry {
            entry.commits_at(lsn);
        }
    }

    /// Returns the LSN that must be durable before a transaction that wrote nothing is acknowledged ("null write", E10.9).
    pub(crate) fn newest_read(&self) -> Lsn {
        match self.seen.get() {
            Lsn::ZERO => Lsn::ZERO,
            seen => self.inner().table.newest_read(seen, &self.inner().log),
        }
    }

    /// Rolls back: nothing of the transaction remains.
    ///
    /// # Errors
    /// [`Error::Stopped`], if the store did; the next opening then completes the rollback.
    pub fn rollback(mut self) -> Result<()> {
        self.roll_back()?;
        self.store.measure_if_due();
        Ok(())
    }

    pub(crate) fn roll_back(&mut self) -> Result<()> {
        if self.inner().log.is_forked() {
            return Err(self.leave_to_parent());
        }
        // If the store has taken the transaction, the store rolls it back.
        if self.has_ended() || self.begin_call().is_err() {
            return Ok(());
        }
        let undone = self.roll_back_in_call();
        self.end_call();
        undone
    }

    fn roll_back_in_call(&mut self) -> Result<()> {
        self.report_bytes();
        drop(self.heap.take());
        let undone = match &self.entry {
            Some(_) => {
                self.inner().counts.rolled_back();
                self.undo_all()
            }
            None => Ok(()),
        };
        // Also after a failure: the store has stopped, and the threads that wait for its locks must be woken.
        self.leave(None);
        undone
    }

    pub(crate) fn undo_all(&mut self) -> Result<()> {
        self.inner().alive_here()?;
        self.change_mode = ChangeMode::Plain;
        self.undo_everything()?;
        self.end_rollback();
        Ok(())
    }

    /// Writes the last record of a transaction that was undone.
    pub(crate) fn end_rollback(&mut self) {
        self.undoing = true;
        self.head.clear();
        // Cannot fail: the room was kept back, and a stop of the store only drops the record.
        let _ = self.append(Kind::ROLLBACK_END, &[]);
    }

    /// Ends the transaction, and releases everything that it held. `committed`: its commit record.
    pub(crate) fn leave(&mut self, committed: Option<Lsn>) {
        self.state = State::Ended;
        self.had_only_locks();
        self.cursor.reservation = None;
        // Before this transaction releases the log (E19.4), and its locks.
        self.deferred.ended(self.id, committed);
        // From now on the keepers hold the log themselves.
        self.deferred.forget();
        let inner = &self.store.inner;
        if let Some(entry) = self.entry.take() {
            let (head, arguments) = (std::mem::take(&mut self.head), std::mem::take(&mut self.arguments));
            let memory = Memory { head, arguments, deferred: std::mem::take(&mut self.deferred) };
            inner.table.leave(entry, memory, inner.log.known_durable_lsn());
        }
        inner.locks.ended(self.id);
        // Not the LSN of the free: until the end of this transaction is durable too, a crash would undo the free (E7.2).
        let ended_at = inner.log.current_lsn();
        for freed in self.freed.drain(..) {
            inner.release(Freed { lsn: ended_at, ..freed });
        }
    }

    /// Ends the copy that a forked child has of the transaction, without releasing anything (E1.9d): the words of heaps are not
    /// mapped, and any mutex may be locked by a thread that the child does not have.
    #[cold]
    fn leave_to_parent(&mut self) -> Error {
        self.state = State::Ended;
        std::mem::forget(self.heap.take());
        std::mem::forget(self.holder.take());
        self.inner().why_not_alive()
    }

    /// Marks it as ended without releasing anything: its state now belongs to another owner.
    pub(crate) fn mark_ended(&mut self) {
        self.state = State::Ended;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    // ---- for other modules -----------------------------------------------------------------------------------------

    /// Checks that the transaction may continue. One that must roll back may still call this in its logical undos.
    #[inline]
    pub(crate) fn alive(&self) -> Result<()> {
        let is_closed = match self.state {
            State::Active | State::Recovered => false,
            State::UndoOnly => !self.undoing,
            State::Ended => true,
        };
        if is_closed || self.calls == 0 && self.is_taken() {
            return Err(self.why_not_alive());
        }
        self.inner().alive()
    }

    #[cold]
    pub(crate) fn why_not_alive(&self) -> Error {
        match self.inner().alive() {
            Err(stopped) => stopped,
            Ok(()) if self.has_ended() && !self.is_taken() => {
                Error::Misuse("the transaction was rolled back; begin another")
            }
            Ok(()) => self.over_limit_error(),
        }
    }

    /// Rolls back a doomed transaction, at once or as soon as the nested sequence has been undone. Returns its error.
    #[cold]
    pub(crate) fn obey(&mut self) -> Error {
        let error = self.over_limit_error();
        if !self.may_roll_back_now() {
            debug_assert!(self.state == State::Active, "recovery obeys no limit");
            self.state = State::UndoOnly;
            return error;
        }
        match self.roll_back() {
            Ok(()) => error,
            Err(failed) => failed,
        }
    }

    /// Whether the caller holds no latch of a structure, which a rollback would need too.
    pub(crate) fn may_roll_back_now(&self) -> bool {
        self.nesting.depth == 0 && !self.undoing && !self.under_latch
    }

    /// Counts bytes of log, to be reported to the checkpointer.
    #[inline]
    pub(crate) fn note_logged(&mut self, bytes: u64) {
        self.cursor.unreported += bytes;
        if self.cursor.unreported >= REPORT_EVERY {
            self.report_bytes();
        }
    }

    pub(crate) fn report_bytes(&mut self) {
        let inner = &self.store.inner;
        inner.checkpoints.note(std::mem::take(&mut self.cursor.unreported), &inner.limits);
    }

    /// Called before the first record: the transaction becomes visible to checkpoints.
    #[inline]
    pub(crate) fn enter(&mut self) -> Result<()> {
        if self.entry.is_none() {
            self.enter_first()?;
        }
        Ok(())
    }

    fn enter_first(&mut self) -> Result<()> {
        self.cursor.owed = 0;
        self.reserve_for_records(END_SPACE, END_SPACE)?;
        self.cursor.owed = END_SPACE;
        let since = self.had_only_locks();
        let inner = &self.store.inner;
        let since = since.unwrap_or_else(|| inner.limits.now());
        let (entry, memory) = inner.table.enter(self.id, since, || inner.log.current_lsn());
        let Memory { head, arguments, deferred } = memory;
        (self.entry, self.head, self.arguments, self.deferred) = (Some(entry), head, arguments, deferred);
        Ok(())
    }

    /// Whether the log has room reserved for this many more bytes of records and of their undo (E6.2).
    #[inline]
    pub(crate) fn has_reserved(&self, forward: u64, undo: u64) -> bool {
        if self.undoing {
            return true; // paid from the reservation for undo (E16.1)
        }
        self.cursor.reservation.as_ref().is_some_and(|reservation| {
            reservation.forward().0 >= forward + self.kept_back()
                && reservation.undo().0 >= self.cursor.owed_in_all() + undo
        }) && !self.is_long(forward, undo)
    }

    /// Whether the segments of the log are too short for a record (E16.10).
    #[inline]
    fn is_long(&self, forward: u64, undo: u64) -> bool {
        let log = &self.store.inner.log;
        log.needs_longer_segments(ByteLen(forward), ByteLen(undo)) && !planted!("long_record_reserved_in_pieces")
    }

    /// Returns the room for the transaction's own end, and for the end of each open nested sequence.
    fn kept_back(&self) -> u64 {
        END_SPACE * u64::from(1 + self.nesting.ends)
    }

    /// Reserves the log space that [`has_reserved`](Txn::has_reserved) misses. The caller holds no latch: this may wait for
    /// the disk, and for a checkpoint.
    pub(crate) fn reserve_for_records(&mut self, forward: u64, undo: u64) -> Result<()> {
        if self.has_reserved(forward, undo) {
            return Ok(());
        }
        cedrat_pages::assert_no_page_latch("log space");
        // Larger pieces than requested, so that most updates already have room.
        const PIECE: u64 = 4096;
        let (has_forward, has_undo) = self
            .cursor
            .reservation
            .as_ref()
            .map_or((0, 0), |reservation| (reservation.forward().0, reservation.undo().0));
        // Requested as a whole, a long record makes the segments of the log longer.
        let whole = if self.is_long(forward, undo) { (forward, undo) } else { (0, 0) };
        let forward = (forward + self.kept_back()).saturating_sub(has_forward).max(whole.0);
        let undo = (self.cursor.owed_in_all() + undo).saturating_sub(has_undo).max(whole.1);
        let generous = |bytes: u64| if bytes == 0 { 0 } else { bytes.max(PIECE) };
        match self.reserve(generous(forward), generous(undo)) {
            Err(Error::LogFull { .. }) => {}
            reserved => return reserved,
        }
        self.inner().free_log_space();
        match self.reserve(forward, undo) {
            Ok(()) => Ok(()),
            Err(Error::LogFull { full, .. }) => self.log_is_full(full, forward, undo),
            Err(other) => Err(other),
        }
    }

    pub(crate) fn reserve(&mut self, forward: u64, undo: u64) -> Result<()> {
        let log = &self.store.inner.log;
        match &mut self.cursor.reservation {
            Some(reservation) => log.reserve_more(reservation, ByteLen(forward), ByteLen(undo))?,
            none => *none = Some(log.reserve(ByteLen(forward), ByteLen(undo))?),
        }
        Ok(())
    }

    /// Appends a record of this transaction: `self.head`, then `arguments`. Room was reserved before.
    pub(crate) fn append(&mut self, kind: Kind, arguments: &[u8]) -> Result<cedrat_wal::Appended> {
        let len = self.head.len() + arguments.len();
        // What a prepared transaction may carry forward must fit into a record as a copy too (E9.13).
        let is_copied = [Kind::USER, Kind::UNDO_ONLY, Kind::NESTED_END].contains(&kind);
        self.store.inner.check_len(len + if is_copied { CARRIED_LONGER_MAX } else { 0 })?;
        self.cursor.logged += record_space(len) + CARRIED_LONGER_MAX as u64;
        let reservation = self.cursor.reservation.as_mut().expect("E6.2: room is reserved before a record is made");
        reservation.spend(if self.undoing { Spending::Undo } else { Spending::Forward });
        let head = RecordHead::new(kind, self.id, self.cursor.last);
        let appended = self.store.inner.log.append(self.partition, head, &[&self.head, arguments], reservation);
        self.cursor.last = Some(appended.offset);
        Ok(appended)
    }
}

impl Txn {
    /// Ends without a record: stops the store first, and the next opening completes the recovery.
    fn abandon(&mut self) {
        self.inner()
            .log
            .stop(format!("the opening failed before transaction {} was recovered; open the store again", self.id));
        drop(self.heap.take());
        self.leave(None);
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        match self.state {
            State::Ended => return,
            State::Recovered if !planted!("dropped_loser_rolled_back") => return in_destructor(self, Txn::abandon),
            _ => {}
        }
        // An error means that the store stopped; the next opening undoes the rest, and every later call reports it.
        in_destructor(self, |txn| drop(txn.roll_back()));
        if !self.has_ended() {
            // It panicked. The threads that wait for its locks must learn that the store has stopped.
            in_destructor(self, |txn| txn.leave(None));
        }
    }
}

/// Runs the last work of a destructor. A panic in it, of an operation's undo for example, stops the store. Unwinding
/// continues only if the thread was not unwinding before: otherwise the process would abort, and with it programs that
/// have nothing to do with this store.
pub(crate) fn in_destructor(txn: &mut Txn, work: impl FnOnce(&mut Txn)) {
    let unwinds_already = std::thread::panicking();
    let done = catch_unwind(AssertUnwindSafe(|| work(txn)));
    if let Err(panic) = done {
        txn.inner().log.stop(format!("the end of transaction {} panicked; open the store again", txn.id));
        if !unwinds_already {
            resume_unwind(panic);
        }
    }
}

impl fmt::Debug for Txn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Txn")
            .field("id", &self.id)
            .field("partition", &self.partition)
            .field("state", &self.state)
            .field("last", &self.cursor.last)
            .field("change_mode", &self.change_mode)
            .field("undoing", &self.undoing)
            .finish_non_exhaustive()
    }
}
