//! Transactions: what a program holds between begin and commit.
//!
//! ```text
//!            update, nested …            commit record appended
//!   Active ──────────────────▶ Active ─────────────────────────▶ Ended
//!      │                                                            ▲
//!      └── rollback, or dropped: undone step by step, then ─────────┘
//! ```
//!
//! A transaction's records are a chain in one partition (E8.1): each knows its predecessor. Rolling back walks the
//! chain from its end; compensation records and the ends of nested top actions lead past what must not be undone
//! (again).

use std::cell::{Cell, RefCell};
use std::fmt;

use cedrat_heap::{HeapSavepoint, Joined};
use cedrat_pages::{LatchedPage, OptimisticPage, PageId};
use cedrat_sync::Arc;
use cedrat_sync::atomic::Ordering;
use cedrat_wal::{
    ByteLen, Kind, LogFull, LogOffset, Lsn, PartitionId, Position, RecordHead, Reservation, Spending, Ticket, TxnId,
};

use crate::body::{Head, room_for};
use crate::deferred::Deferred;
use crate::error::{Error, Result};
use crate::locks::LockMode;
use crate::operation::{Operation, RecordId};
use crate::recovery::Loser;
use crate::space::Extent;
use crate::store::{Inner, Store};
use crate::table::{Entry, Memory};
use crate::update::UndoOf;

pub use cedrat_heap::Commit;

/// A place in a transaction that it can be rolled back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    pub(crate) txn: TxnId,
    pub(crate) last: Option<LogOffset>,
    pub(crate) owed: u64,
    pub(crate) scope: u32,
    /// Savepoints of the transaction are counted.
    pub(crate) number: u64,
    /// The same place in what was written to heaps; `None` if there was nothing yet.
    pub(crate) heap: Option<HeapSavepoint>,
}

/// What a transaction does without (L022): each by name, none by accident.
///
/// ```
/// # use cedrat_txn::TxnOptions;
/// let options = TxnOptions::default().without_isolation().without_durability();
/// assert!(options.atomicity);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TxnOptions {
    /// Whether it is taken back as a whole if it does not commit. Without, rolling back leaves what was done, and less log
    /// is written: changes are redo-only. A nested top action, a call of [`Txn::isolated`] or of [`Txn::ordered`] still
    /// happens as a whole or, if it fails or a crash cuts it short, not at all (or is finished); once it has ended it stays.
    pub atomicity: bool,
    /// Whether the lock manager is asked. Without, it sees what others have not committed, and they see it.
    pub isolation: bool,
    /// Whether a commit in mode `Sync` waits until it is durable. Without, it is as [`Commit::NoFlush`].
    pub durability: bool,
    /// Whether it waits for locks of prepared transactions, whose outcome may take days. Without, it is told
    /// [`Error::InDoubt`] instead, if the lock manager knows how (as [`PageLocks`](crate::PageLocks) does for what
    /// [`Txn::lock`] asks for).
    pub waits_for_prepared: bool,
}

impl Default for TxnOptions {
    fn default() -> TxnOptions {
        TxnOptions { atomicity: true, isolation: true, durability: true, waits_for_prepared: true }
    }
}

impl TxnOptions {
    /// Without [`atomicity`](TxnOptions::atomicity).
    pub const fn without_atomicity(self) -> TxnOptions {
        TxnOptions { atomicity: false, ..self }
    }

    /// Without [`isolation`](TxnOptions::isolation).
    pub const fn without_isolation(self) -> TxnOptions {
        TxnOptions { isolation: false, ..self }
    }

    /// Without [`durability`](TxnOptions::durability).
    pub const fn without_durability(self) -> TxnOptions {
        TxnOptions { durability: false, ..self }
    }

    /// Without [waiting for prepared transactions](TxnOptions::waits_for_prepared).
    pub const fn without_waiting_for_prepared(self) -> TxnOptions {
        TxnOptions { waits_for_prepared: false, ..self }
    }
}

/// How the changes of a transaction are made at the moment (E14.1: each its own way of changing several pages).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// One page at a time, each under its lock.
    Plain,
    /// Within a nested top action: latches only (E15.3).
    Nested,
    /// Within declared full isolation: the big lock is held.
    Isolated,
    /// Within an ordered sequence: redo-only.
    Ordered,
}

/// A transaction.
///
/// It belongs to one thread at a time and may be moved to another. Dropped unfinished, by error or panic, it rolls
/// back. No method may be called while the same thread holds a page it read from elsewhere ([`Store::read`]): the
/// latch would be waited for by its own holder.
pub struct Txn {
    pub(crate) store: Store,
    pub(crate) id: TxnId,
    pub(crate) partition: PartitionId,
    /// The newest record.
    pub(crate) last: Option<LogOffset>,
    pub(crate) how: How,
    /// How many nested things are open.
    pub(crate) depth: u32,
    /// The innermost of them, and how many there were in all: a savepoint belongs to one.
    pub(crate) scope: u32,
    pub(crate) scopes: u32,
    /// How many of them will log an end, for which room is kept back: it cannot fail for want of room once a step was made.
    pub(crate) ends: u32,
    /// How many savepoints were taken.
    savepoints: Cell<u64>,
    /// Savepoints that were rolled back over: from behind the first of each pair to the second. Ascending, and none touch.
    gone: Vec<(u64, u64)>,
    pub(crate) options: TxnOptions,
    /// Whether what happens now is undo: it takes no locks (E15.1) and spends what was reserved for it (E16.1).
    pub(crate) undoing: bool,
    pub(crate) room: Option<Reservation>,
    /// Log that undoing everything so far takes, at most.
    pub(crate) owed: u64,
    /// The newest LSN of anything read.
    seen: Cell<Lsn>,
    /// The page locked last, and how: most updates of a row are of one page.
    pub(crate) locked: Cell<Option<(PageId, LockMode)>>,
    /// The structure locked last, and how: most keys of a transaction are of one table.
    pub(crate) locked_structure: Cell<Option<(PageId, LockMode)>>,
    /// A structure of which it has all, by [`Txn::try_lock_structure`].
    pub(crate) whole_structure: Cell<Option<PageId>>,
    pub(crate) entry: Option<Arc<Entry>>,
    /// What it reads and writes in heaps.
    pub(crate) heap: RefCell<Option<Joined>>,
    /// Space that becomes free when the transaction ends (E7.1).
    pub(crate) freed: Vec<Freed>,
    /// Changes that are not in their pages.
    pub(crate) deferred: Deferred,
    /// Buffers for the parts of a record.
    pub(crate) head: Vec<u8>,
    pub(crate) arguments: Vec<u8>,
    /// Others doomed it while it could not roll back at once.
    must_roll_back: bool,
    /// The caller holds latches of a structure, which a rollback would ask for too.
    under_latch: bool,
    /// Bytes of log that the checkpointer has not heard of.
    pub(crate) unreported: u64,
    ended: bool,
}

/// Space freed by a transaction that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) extent: Extent,
    pub(crate) lsn: Lsn,
}

/// Log for the record that ends a transaction, kept back from the beginning so that no end can fail for want of it.
pub(crate) const END_ROOM: u64 = room_for(0);

impl Txn {
    pub(crate) fn new(store: Store, id: TxnId) -> Txn {
        let partition = store.inner.partition_of(id);
        Txn {
            store,
            id,
            partition,
            last: None,
            how: How::Plain,
            depth: 0,
            scope: 0,
            scopes: 0,
            ends: 0,
            savepoints: Cell::new(0),
            gone: Vec::new(),
            options: TxnOptions::default(),
            undoing: false,
            room: None,
            owed: 0,
            seen: Cell::new(Lsn::ZERO),
            locked: Cell::new(None),
            locked_structure: Cell::new(None),
            whole_structure: Cell::new(None),
            entry: None,
            heap: RefCell::new(None),
            freed: Vec::new(),
            deferred: Deferred::default(),
            head: Vec::new(),
            arguments: Vec::new(),
            must_roll_back: false,
            under_latch: false,
            unreported: 0,
            ended: false,
        }
    }

    /// A loser, as recovery found it: it has records and is about to be undone.
    pub(crate) fn loser(store: Store, loser: &Loser) -> Result<Txn> {
        let mut txn = Txn::new(store, loser.id);
        let inner = &txn.store.inner;
        // The run before reserved for it; forward work never used that room (E16.2).
        txn.room = Some(inner.log.reservation_for_recovery());
        txn.entry = Some(inner.table.enter_loser(loser.id, loser.first));
        txn.partition = loser.partition;
        txn.last = Some(loser.last);
        txn.undoing = true;
        Ok(txn)
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Inner {
        &self.store.inner
    }

    /// Its number: unique over the life of the store.
    pub fn id(&self) -> TxnId {
        self.id
    }

    /// Its store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Where its newest record lies, to follow it backwards ([`cedrat_wal::Log::backwards`]).
    pub fn position(&self) -> Option<Position> {
        self.last.map(|offset| Position { partition: self.partition, offset })
    }

    /// What it does without.
    pub fn options(&self) -> TxnOptions {
        self.options
    }

    /// Whether this is an undo: of this transaction while it rolls back, or of a loser in recovery.
    pub fn is_undoing(&self) -> bool {
        self.undoing
    }

    // ---- reading ----------------------------------------------------------------------------------------------

    /// Reads a page: under the lock manager's callback for reads, then the shared latch.
    ///
    /// Drop the page soon. Within a nested top action, and in undo, there is only the latch (E15).
    ///
    /// # Errors
    /// [`Error::Deadlock`], or if the page cannot be read.
    pub fn read(&self, page: PageId) -> Result<LatchedPage<'_>> {
        if self.how == How::Plain && !self.undoing {
            self.alive()?;
            self.lock_page(page, LockMode::Shared)?;
        }
        self.read_latched(page)
    }

    /// Reads a page under its latch alone: what another transaction has written and not committed may be seen. For
    /// structures that lock something else than pages.
    ///
    /// # Errors
    /// If the page cannot be read.
    pub fn read_latched(&self, page: PageId) -> Result<LatchedPage<'_>> {
        let page = self.inner().pool.read(page)?;
        self.saw(page.lsn());
        Ok(page)
    }

    /// Looks at a page without latch or lock; see [`cedrat_pages::Pool::optimistic`] (E12).
    ///
    /// # Errors
    /// If the page cannot be read.
    #[inline]
    pub fn optimistic<R>(&self, page: PageId, mut look: impl FnMut(OptimisticPage<'_>) -> Option<R>) -> Result<R> {
        let (result, lsn) = self.inner().pool.optimistic(page, |page| Some((look(page)?, page.lsn())))?;
        self.saw(lsn);
        Ok(result)
    }

    /// Says that this transaction has seen what was changed at `lsn`, from a cache for example: its commit, if `Sync`,
    /// then waits until that is durable.
    #[inline]
    pub fn saw(&self, lsn: Lsn) {
        if lsn > self.seen.get() {
            self.seen.set(lsn);
        }
    }

    // ---- changing ---------------------------------------------------------------------------------------------

    /// Changes one page by one operation, under the lock manager's callback for updates: the one road
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
        self.road(at, operation, UndoOf::Own).map(|_| ())
    }

    /// As [`update`](Txn::update), without a lock on the page: for structures that lock something else.
    ///
    /// The change must then be one whose undo stands whatever others do to the page meanwhile: an undo by key, by a
    /// slot that nobody else takes, or one that commutes.
    ///
    /// # Errors
    /// As [`update`](Txn::update).
    #[inline]
    pub fn update_latched<O: Operation>(&mut self, at: RecordId, operation: &O) -> Result<()> {
        self.road_under_latch(at, operation, UndoOf::Own)
    }

    /// As [`update_latched`](Txn::update_latched), with another undo than the operation's own, as a rule a logical one:
    /// a nested top action of length one, in one record.
    ///
    /// # Errors
    /// As [`update`](Txn::update).
    #[inline]
    pub fn update_logical<O: Operation>(&mut self, at: RecordId, operation: &O, undo: crate::Undo) -> Result<()> {
        self.road_under_latch(at, operation, UndoOf::Given(undo))
    }

    /// The road, for a caller that holds latches of its structure: a doomed transaction is told so, and rolls back at the
    /// next call that holds none.
    #[inline]
    fn road_under_latch<O: Operation>(&mut self, at: RecordId, operation: &O, undo_of: UndoOf) -> Result<()> {
        self.under_latch = true;
        let done = self.road(at, operation, undo_of);
        self.under_latch = false;
        done.map(|_| ())
    }

    /// Writes a record of the application's own, of a kind that was registered under this name. It is part of the
    /// transaction's chain, has neither redo nor undo, and is found by [`cedrat_wal::Log::scan`].
    ///
    /// # Errors
    /// [`Error::Unregistered`], [`Error::TooLarge`], [`Error::LogFull`]. [`Error::PinsLog`]: the transaction was rolled back.
    /// So hold no latch that its undo asks for, except within [`nested`](Txn::nested) or [`ordered`](Txn::ordered), where it
    /// rolls back later.
    pub fn log_record(&mut self, kind: &'static str, bytes: &[u8]) -> Result<Lsn> {
        let number = self
            .inner()
            .numbers
            .of_name(kind)
            .ok_or_else(|| Error::Unregistered { what: "the record kind", name: kind.into() })?;
        self.alive()?;
        self.enter()?;
        self.room_for_records(room_for(bytes.len()), 0)?;
        Head(&mut self.head).user(number);
        Ok(self.append(Kind::USER, bytes)?.lsn)
    }

    // ---- savepoints -------------------------------------------------------------------------------------------

    /// Marks a place that [`rollback_to`](Txn::rollback_to) returns to.
    pub fn savepoint(&self) -> Savepoint {
        let number = self.savepoints.get() + 1;
        self.savepoints.set(number);
        let heap = self.heap.borrow_mut().as_mut().map(Joined::savepoint);
        Savepoint { txn: self.id, last: self.last, owed: self.owed, scope: self.scope, number, heap }
    }

    /// What was done since this savepoint is gone, and so are the savepoints taken since.
    pub(crate) fn forget_savepoints_since(&mut self, savepoint: Savepoint) {
        while self.gone.last().is_some_and(|&(behind, _)| behind >= savepoint.number) {
            self.gone.pop();
        }
        let newest = self.savepoints.get();
        if newest > savepoint.number {
            self.gone.push((savepoint.number, newest));
        }
    }

    pub(crate) fn check_savepoint(&self, savepoint: &Savepoint) -> Result<()> {
        if savepoint.txn != self.id {
            return Err(Error::Misuse("the savepoint belongs to another transaction"));
        }
        if savepoint.scope != self.scope {
            return Err(Error::Misuse("the savepoint was taken inside or outside of what is nested here"));
        }
        // Behind it lies the way back to the older one; to follow it from here would undo more than was asked for.
        let newer_than = self.gone.partition_point(|&(behind, _)| behind < savepoint.number);
        if self.gone[..newer_than].last().is_some_and(|&(_, newest)| savepoint.number <= newest) {
            return Err(Error::Misuse("an older savepoint was rolled back to, and with that this one is gone"));
        }
        Ok(())
    }

    /// Undoes everything done since `savepoint`; the transaction goes on from there. Locks stay (a lock given back
    /// early could show others what a later undo restores).
    ///
    /// # Errors
    /// [`Error::Misuse`] if the savepoint is another transaction's, was not taken at this depth of nesting, or is newer than
    /// one that was rolled back to since. Failure of the undo itself stops the store.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.check_savepoint(&savepoint)?;
        if self.how == How::Ordered {
            return Err(Error::Misuse("an ordered sequence is redo-only; there is no way back within it"));
        }
        self.forget_savepoints_since(savepoint);
        self.heap_back_to(savepoint.heap)?;
        self.undo_back_to(savepoint.last, savepoint.owed)
    }

    /// A transaction within this one: if `work` fails, or panics, all it did is undone, and this one goes on.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn nested_transaction<T>(&mut self, work: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> {
        self.alive()?;
        if self.how == How::Ordered {
            return Err(Error::Misuse("an ordered sequence is redo-only; there is no way back within it"));
        }
        self.in_sequence(self.how, |txn| Ok((work(txn)?, None)))
    }

    // ---- the end ----------------------------------------------------------------------------------------------

    /// Commits, and returns when `mode` says.
    ///
    /// Locks are released when the commit record is appended, before it is durable: others may read on, but cannot be
    /// durable earlier, since the log is cut at one point.
    ///
    /// # Errors
    /// [`Error::Stopped`]: only reopening the store tells whether the commit was kept. With any other error the
    /// transaction was rolled back.
    pub fn commit(mut self, mode: Commit) -> Result<Ticket> {
        if mode == Commit::Partition {
            return Err(Error::PartitionCommit); // dropped: rolled back
        }
        self.alive()?;
        debug_assert!(self.depth == 0, "a transaction commits outside of what it nests");
        if self.entry.as_ref().is_some_and(|entry| entry.is_doomed()) {
            return Err(self.obey());
        }
        let lsn = match self.heap.take() {
            Some(heap) => self.commit_with_heap(heap)?,
            None if self.entry.is_some() => {
                self.head.clear();
                self.append(Kind::COMMIT, &[])?.lsn
            }
            None => self.newest_read(),
        };
        if self.entry.is_some() {
            self.inner().note_commit(lsn);
        }
        self.has_committed(lsn, mode)
    }

    /// What is left to do once the commit record is in the log: what it held is others', and the caller returns when `mode` says.
    pub(crate) fn has_committed(&mut self, lsn: Lsn, mode: Commit) -> Result<Ticket> {
        self.leave(Some(lsn));
        self.report_bytes();
        let inner = &self.store.inner;
        if mode == Commit::Sync && !inner.no_flush && self.options.durability {
            inner.log.force(lsn)?;
        }
        Ok(inner.log.ticket(lsn))
    }

    /// What has to be durable before anybody is told what a transaction has read that wrote nothing ("null write"). It was
    /// written below `seen`, and its writer's commit lies somewhere up to the newest one.
    pub(crate) fn newest_read(&self) -> Lsn {
        match self.seen.get() {
            Lsn::ZERO => Lsn::ZERO,
            seen => seen.max(Lsn::new(self.inner().newest_commit.load(Ordering::Acquire))),
        }
    }

    /// Rolls back: nothing of the transaction remains.
    ///
    /// # Errors
    /// [`Error::Stopped`], if the store did; the next opening then completes the rollback.
    pub fn rollback(mut self) -> Result<()> {
        self.roll_back()
    }

    pub(crate) fn roll_back(&mut self) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        self.report_bytes();
        drop(self.heap.take());
        let undone = if self.entry.is_some() { self.undo_all() } else { Ok(()) };
        // Also after a failure: the store has stopped, and those who wait for our locks must hear it.
        self.leave(None);
        undone
    }

    pub(crate) fn undo_all(&mut self) -> Result<()> {
        self.inner().alive()?;
        self.how = How::Plain;
        self.undo_everything()?;
        self.end_rollback();
        Ok(())
    }

    /// Writes the last record of a transaction that is undone.
    pub(crate) fn end_rollback(&mut self) {
        self.undoing = true;
        self.head.clear();
        // Cannot fail: the room was kept back, and the store's stopping only drops the record.
        let _ = self.append(Kind::ROLLBACK_END, &[]);
    }

    /// The transaction has ended: what it held is others'. `committed`: its commit record.
    pub(crate) fn leave(&mut self, committed: Option<Lsn>) {
        self.ended = true;
        self.room = None;
        // Before this transaction lets go of the log (E19.4), and of its locks.
        self.deferred.ended(self.id, committed);
        // The keepers hold the log themselves by now.
        self.deferred.forget();
        let inner = &self.store.inner;
        if let Some(entry) = self.entry.take() {
            let (head, arguments) = (std::mem::take(&mut self.head), std::mem::take(&mut self.arguments));
            inner.table.leave(entry, Memory { head, arguments, deferred: std::mem::take(&mut self.deferred) });
        }
        inner.locks.ended(self.id);
        // Not the LSN of the free: until the end of this transaction is durable too, a crash would undo it (E7.2).
        let ended_at = inner.log.current_lsn();
        for freed in self.freed.drain(..) {
            inner.release(Freed { lsn: ended_at, ..freed });
        }
    }

    /// What it had is somebody else's, and it has nothing to end.
    pub(crate) fn is_parked(&mut self) {
        self.ended = true;
    }

    // ---- help for the other rooms -----------------------------------------------------------------------------

    /// Whether the transaction may go on. One that must roll back does so by calls of its own, in its logical undos.
    #[inline]
    pub(crate) fn alive(&self) -> Result<()> {
        if self.ended || self.must_roll_back && !self.undoing {
            return Err(self.why_not_alive());
        }
        self.inner().alive()
    }

    #[cold]
    fn why_not_alive(&self) -> Error {
        match self.inner().alive() {
            Err(stopped) => stopped,
            Ok(()) if self.ended => Error::Misuse("the transaction was rolled back; begin another"),
            Ok(()) => self.pins_log(),
        }
    }

    fn pins_log(&self) -> Error {
        let first = self.entry.as_ref().map_or(Lsn::ZERO, |entry| entry.first);
        Error::PinsLog { txn: self.id, first, limit_bytes: self.inner().log_limit_bytes }
    }

    /// Obeys, if others doomed this transaction: rolls back, at once or as soon as what is nested has been undone.
    #[cold]
    pub(crate) fn obey(&mut self) -> Error {
        let error = self.pins_log();
        if self.depth > 0 || self.undoing || self.under_latch {
            self.must_roll_back = true;
            return error;
        }
        match self.roll_back() {
            Ok(()) => error,
            Err(failed) => failed,
        }
    }

    pub(crate) fn report_bytes(&mut self) {
        self.store.inner.checkpoints.note(std::mem::take(&mut self.unreported));
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
        self.owed = 0;
        self.room_for_records(END_ROOM, END_ROOM)?;
        self.owed = END_ROOM;
        let inner = &self.store.inner;
        let (entry, memory) = inner.table.enter(self.id, || inner.log.current_lsn());
        let Memory { head, arguments, deferred } = memory;
        (self.entry, self.head, self.arguments, self.deferred) = (Some(entry), head, arguments, deferred);
        Ok(())
    }

    /// Whether there is room in the log for so many more bytes of records and of their undo (E6.2).
    #[inline]
    pub(crate) fn has_room(&self, forward: u64, undo: u64) -> bool {
        if self.undoing {
            return true; // paid from what was reserved for it (E16.1)
        }
        self.room
            .as_ref()
            .is_some_and(|room| room.forward().0 >= forward + self.kept_back() && room.undo().0 >= self.owed + undo)
    }

    /// Room for the transaction's own end, and for the end of each nested action that is open.
    fn kept_back(&self) -> u64 {
        END_ROOM * u64::from(1 + self.ends)
    }

    /// Reserves what [`has_room`](Txn::has_room) misses. Holds no latch: it may wait for the disk, and for a checkpoint.
    pub(crate) fn room_for_records(&mut self, forward: u64, undo: u64) -> Result<()> {
        if self.has_room(forward, undo) {
            return Ok(());
        }
        // Bigger pieces than asked for, so that most updates find room already.
        const PIECE: u64 = 4096;
        let (has_forward, has_undo) = self.room.as_ref().map_or((0, 0), |room| (room.forward().0, room.undo().0));
        let forward = (forward + self.kept_back()).saturating_sub(has_forward);
        let undo = (self.owed + undo).saturating_sub(has_undo);
        let generous = |bytes: u64| if bytes == 0 { 0 } else { bytes.max(PIECE) };
        if self.reserve(generous(forward), generous(undo)).is_ok() {
            return Ok(());
        }
        self.inner().make_room();
        match self.reserve(forward, undo) {
            Ok(()) => Ok(()),
            Err(Error::LogFull { full, .. }) => {
                let oldest = self.inner().table.oldest();
                let failed = self.inner().checkpoints.failed();
                // While checkpoints fail the end of a transaction gives nothing up; whoever finds no room is told why they do.
                let is_its_fault = failed.as_ref().is_none_or(|failed| failed.wanted_log);
                if let (Some(oldest), LogFull::Limit { .. }, true) = (&oldest, &full, is_its_fault) {
                    oldest.doom();
                    if oldest.id == self.id {
                        return Err(self.obey());
                    }
                }
                let checkpoint = failed.map(|failed| failed.why);
                Err(Error::LogFull { full, oldest: oldest.map(|entry| entry.id), checkpoint })
            }
            Err(other) => Err(other),
        }
    }

    fn reserve(&mut self, forward: u64, undo: u64) -> Result<()> {
        let log = &self.store.inner.log;
        match &mut self.room {
            Some(room) => log.reserve_more(room, ByteLen(forward), ByteLen(undo))?,
            none => *none = Some(log.reserve(ByteLen(forward), ByteLen(undo))?),
        }
        Ok(())
    }

    /// Appends a record of this transaction: `self.head`, then `arguments`. Room was reserved.
    pub(crate) fn append(&mut self, kind: Kind, arguments: &[u8]) -> Result<cedrat_wal::Appended> {
        let len = self.head.len() + arguments.len();
        self.store.inner.check_len(len)?;
        let room = self.room.as_mut().expect("E6.2: room is reserved before a record is made");
        room.spend(if self.undoing { Spending::Undo } else { Spending::Forward });
        let head = RecordHead::new(kind, self.id, self.last);
        let appended = self.store.inner.log.append(self.partition, head, &[&self.head, arguments], room);
        self.last = Some(appended.offset);
        Ok(appended)
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        // An error means that the store stopped; the next opening undoes what is left, and every later call says so.
        let _ = self.roll_back();
    }
}

impl fmt::Debug for Txn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Txn")
            .field("id", &self.id)
            .field("partition", &self.partition)
            .field("last", &self.last)
            .field("how", &self.how)
            .field("undoing", &self.undoing)
            .finish_non_exhaustive()
    }
}
