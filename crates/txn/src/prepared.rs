//! Two-phase commit, on the side of a participant: a transaction that guarantees to commit, and waits for its outcome
//! (E9).
//!
//! ```text
//!           prepare                     commit, or rollback
//!   Active ─────────▶ held ────────────────────────────────────▶ Ended
//!                     │  ▲                  ▲
//!             dropped │  │ Store::prepared  │
//!                     ▼  │                  │
//!                    in doubt ──▶ (closed, crashed, opened again) ──▶ in doubt
//! ```
//!
//! A prepared transaction keeps everything but its thread: its locks, its room in the log, its entry in the table of
//! running transactions. After a crash they are restored from its records when the store is opened ([`restore`]).

use std::fmt;

use cedrat_heap::{HEAP_PART, Joined, PreparedWords};
use cedrat_sync::{Arc, planted};
use cedrat_wal::{ByteLen, Kind, LogFull, LogOffset, Lsn, PartitionId, Reservation, Ticket, TxnId};

use crate::body::{Body, Head, LoggedUndo, record_space};
use crate::branch::{BRANCH_ID_LEN_MAX, Branch};
use crate::branches::State;
use crate::carry::{CarryReservation, Kept, SPACE_LEN_MAX};
use crate::deferred::{Deferred, has_change};
use crate::error::{BranchError, Error, Result};
use crate::explain::hexadecimal;
use crate::heuristic::{HeuristicOutcome, OUTCOME, OUTCOME_SPACE, OutcomeCode};
use crate::operation::RecordId;
use crate::recovery::Loser;
use crate::registry::Misfit;
use crate::store::{Inner, Store};
use crate::table::Entry;
use crate::transaction::{Commit, END_SPACE, Freed, Txn, TxnOptions};

/// The vote of a transaction that was asked to prepare.
#[derive(Debug)]
#[must_use = "a prepared transaction waits for its outcome"]
pub enum Vote {
    /// It has changed nothing, and has ended. Everything that it has read is durable.
    ReadOnly,
    /// It can commit or roll back, and waits for the outcome.
    Prepared(Prepared),
}

/// A handle of a prepared transaction, which can be committed or rolled back, also after a crash.
///
/// If the handle is dropped, the transaction stays *in doubt*: it keeps its locks and the log, also over a restart of
/// the store, until a caller takes it up again with [`Store::prepared`] and ends it.
#[must_use = "dropped, it stays in doubt and keeps its locks"]
pub struct Prepared {
    store: Store,
    txn: TxnId,
    id: Vec<u8>,
    since: Lsn,
    /// The transaction, while it is being ended; otherwise it is parked in the store, and checkpoints carry its records
    /// forward.
    ending: Option<Box<Txn>>,
    has_ended: bool,
}

/// A prepared transaction without an outcome, as [`Store::in_doubt`] lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InDoubt {
    /// The identifier under which it prepared.
    pub id: Vec<u8>,
    /// Its number.
    pub txn: TxnId,
    /// The LSN of its prepare record.
    pub since: Lsn,
}

impl InDoubt {
    /// Lists the prepared transactions without an outcome that opening a store would find, for tools that do not open
    /// it.
    ///
    /// # Errors
    /// Damage of the log; [`Error::BadRecord`].
    pub fn look(found: &cedrat_wal::Found) -> Result<Vec<InDoubt>> {
        Ok(crate::recovery::look_at_branches(found)?.0)
    }
}

/// Party that decides the outcome of a prepared transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decider {
    Manager,
    Operator,
}

/// The state of a prepared transaction, without the store, which it would keep open.
#[derive(Debug)]
pub(crate) struct Parked {
    id: TxnId,
    partition: PartitionId,
    last: Option<LogOffset>,
    owed: u64,
    reservation: Option<Reservation>,
    entry: Option<Arc<Entry>>,
    heap: Option<Joined>,
    freed: Vec<Freed>,
    deferred: Deferred,
    options: TxnOptions,
    was_restored: bool,
    /// The reservation for the next copies of its records.
    pub(crate) carry: CarryReservation,
}

impl Parked {
    pub(crate) fn of(mut txn: Box<Txn>) -> Parked {
        let parked = Parked {
            id: txn.id,
            partition: txn.partition,
            last: txn.cursor.last,
            owed: txn.cursor.owed_in_all(),
            reservation: txn.cursor.reservation.take(),
            entry: txn.entry.take(),
            heap: txn.heap.take(),
            freed: std::mem::take(&mut txn.freed),
            deferred: std::mem::take(&mut txn.deferred),
            options: txn.options,
            was_restored: txn.was_restored,
            carry: std::mem::take(&mut txn.carry),
        };
        txn.mark_ended();
        parked
    }

    /// Returns the LSN from which it holds the log, and the maximum log space of copies of its records.
    pub(crate) fn kept(&self) -> Option<(Lsn, u64)> {
        Some((self.entry.as_ref()?.kept_from(), self.carry.len))
    }

    pub(crate) fn taken_up(self, store: &Store) -> Txn {
        let mut txn = Txn::new(store.clone(), self.id);
        txn.partition = self.partition;
        txn.cursor.last = self.last;
        txn.cursor.owed = self.owed;
        txn.cursor.reservation = self.reservation;
        txn.entry = self.entry;
        txn.heap = self.heap.into();
        txn.freed = self.freed;
        txn.deferred = self.deferred;
        txn.options = self.options;
        txn.was_restored = self.was_restored;
        txn.carry = self.carry;
        txn.calls = 1;
        txn
    }
}

impl Store {
    /// Returns all transactions that are prepared and have no outcome, oldest first, including those that another
    /// thread is about to end.
    ///
    /// # Errors
    /// [`Error::Stopped`] in a process that was forked from that of the store.
    pub fn in_doubt(&self) -> Result<Vec<InDoubt>> {
        self.check_not_forked()?;
        Ok(self.inner.branches.in_doubt())
    }

    /// Refuses a call of a forked child that needs a latch of the branches or their outcomes: a thread of the parent may have
    /// held it at the fork (E1.9d).
    pub(crate) fn check_not_forked(&self) -> Result<()> {
        if self.inner.log.is_forked() { self.inner.alive() } else { Ok(()) }
    }

    /// Takes up the transaction that prepared under this identifier and was dropped, or was found when the store was
    /// opened.
    ///
    /// # Errors
    /// [`BranchError::Unknown`]; [`BranchError::Heuristic`]; [`BranchError::Held`] while another handle exists; [`Error::TooLarge`]
    /// for an identifier that no transaction can have; [`Error::Stopped`] in a process that was forked from that of the store.
    pub fn prepared(&self, id: &[u8]) -> Result<Prepared> {
        check_len(id)?;
        self.check_not_forked()?;
        let taken_up = self.inner.branches.take_up(id);
        // Looked up afterwards: the outcome is kept before the branch is gone.
        let (since, txn) = taken_up.map_err(|error| match self.inner.outcomes.of(id) {
            Some(outcome) => BranchError::Heuristic { id: hexadecimal(id), outcome }.into(),
            None => error,
        })?;
        Ok(Prepared { store: self.clone(), txn, id: id.to_vec(), since, ending: None, has_ended: false })
    }
}

impl Txn {
    /// Prepares (Lemon §3.4, "two-phase commit"): when this returns, everything that the transaction has done and read
    /// is durable, it keeps its locks, and it can be committed as well as rolled back, also after any crash. `id`
    /// identifies it from now on: 1 to [`BRANCH_ID_LEN_MAX`] bytes; for XA those of the branch's identifier.
    ///
    /// A transaction that has changed nothing ends: [`Vote::ReadOnly`].
    ///
    /// It waits for the disk even if the transaction, or the store, does without durability.
    ///
    /// # Errors
    /// [`BranchError::Exists`]; [`Error::TooLarge`]; [`Error::Misuse`] for a transaction without atomicity, which
    /// cannot roll back; [`Error::LogFull`]; a conflict over heap words. The transaction was rolled back.
    /// [`Error::Stopped`]: only reopening the store shows whether it is prepared.
    pub fn prepare(mut self, id: &[u8]) -> Result<Vote> {
        if id.is_empty() {
            return Err(Error::Misuse("the identifier of a prepared transaction is empty; give it one"));
        }
        check_len(id)?;
        if !self.options.atomicity {
            return Err(Error::Misuse("a transaction without atomicity cannot be rolled back, so it cannot prepare"));
        }
        // This call never ends: the store does not take a prepared transaction.
        self.begin_call()?;
        self.alive()?;
        self.nests_nothing()?;
        if self.entry.as_ref().is_some_and(|entry| entry.claim.is_doomed()) {
            return Err(self.obey());
        }
        let has_words = self.heap.get_mut().as_mut().is_some_and(Joined::wrote);
        if self.entry.is_none() && !has_words {
            return self.vote_read_only();
        }
        let store = self.store.clone();
        let inner = &store.inner;
        inner.branches.enter(id, self.id)?;
        let preparing = Preparing { inner, id };
        if inner.outcomes.of(id).is_some() {
            return Err(BranchError::Exists { id: hexadecimal(id) }.into());
        }
        // After an error it is dropped: rolled back.
        let (since, len) = self.log_prepare(id)?;
        self.report_bytes();
        self.force_prepared(since)?;
        if let Some(entry) = &self.entry {
            entry.set_prepared();
        }
        self.carry = CarryReservation::of(self.cursor.logged + len);
        self.carry.reserve(inner);
        let txn = self.id;
        let parked = Some(Box::new(Parked::of(Box::new(self))));
        inner.branches.is(id, State::InDoubt { since, is_held: true, parked });
        std::mem::forget(preparing);
        // Before a lock manager's own code, which may panic: the branch is in doubt then.
        let (store, id) = (store.clone(), id.to_vec());
        let prepared = Prepared { store, txn, id, since, ending: None, has_ended: false };
        inner.locks.prepared(txn);
        Ok(Vote::Prepared(prepared))
    }

    fn vote_read_only(mut self) -> Result<Vote> {
        let mut seen = self.newest_read();
        if let Some(mut heap) = self.heap.take() {
            heap.keep_up()?;
            seen = seen.max(heap.seen());
        }
        self.leave(Some(seen));
        self.inner().log.force(seen)?;
        Ok(Vote::ReadOnly)
    }

    /// E9.2. Everything that it has read was committed by earlier records.
    fn force_prepared(&self, since: Lsn) -> Result<()> {
        if !self.inner().plants(Plant::PrepareNotForced) && !planted!("prepare_not_forced") {
            self.inner().log.force(since)?;
        }
        Ok(())
    }

    /// Logs that the transaction is prepared. Returns the LSN of its last prepare record, and the maximum log space of
    /// copies.
    fn log_prepare(&mut self, id: &[u8]) -> Result<(Lsn, u64)> {
        self.enter()?;
        let mut heap = self.heap.get_mut().take();
        let locks = &self.inner().locks;
        let mut held = locks.held(self.id);
        held.retain(|(_, mode)| mode.is_to_write());
        let (owed, key_stripes) = (self.cursor.owed_in_all(), locks.key_stripes());
        let branch = Branch { id: id.to_vec(), owed, key_stripes, locks: held, heap: Vec::new() };
        let mut bytes = Vec::new();
        branch.put(&mut bytes);
        let body_len_max = self.inner().body_len_max;
        let part_len_max = body_len_max - 1;
        // Everything that may wait comes first: no thread waits while stripes are being locked (E10.4). Includes room
        // for the commit, and for an outcome that an operator decides (E9.5).
        let [of_words, of_commit] =
            heap.as_mut().map_or([0; 2], |heap| [heap.prepared_len_max(body_len_max), heap.log_wanted(body_len_max)]);
        let len_max = bytes.len() as u64 + of_words;
        let parts_max = len_max.div_ceil(part_len_max as u64);
        self.reserve_for_records(len_max + parts_max * record_space(0) + OUTCOME_SPACE + of_commit, 0)?;
        if let Some(heap) = &mut heap {
            heap.prepare(body_len_max)?;
            if heap.wrote() {
                heap.put_prepared(&mut bytes);
            }
        }
        let parts = bytes.len().div_ceil(part_len_max);
        let (before, last) = bytes.split_at((parts - 1) * part_len_max);
        for (at, part) in before.chunks(part_len_max).enumerate() {
            Head(&mut self.head).prepare(at == 0, true, false);
            self.append(Kind::PREPARE, part)?;
        }
        Head(&mut self.head).prepare(parts == 1, false, false);
        let space = SPACE_LEN_MAX * self.freed.len();
        let len =
            (bytes.len() + space) as u64 + (4 + parts as u64 + space as u64 / part_len_max as u64) * record_space(0);
        let Some(mut heap) = heap else { return Ok((self.append(Kind::PREPARE, last)?.lsn, len)) };
        let appended = self.append_deciding(Kind::PREPARE, last, |lsn| heap.validate(lsn))?;
        if heap.wrote() {
            heap.hold(self.id);
            *self.heap.get_mut() = Some(heap);
        }
        Ok((appended.lsn, len))
    }
}

/// An identifier under which a transaction prepares. Drop frees it, before the transaction is rolled back, also after a panic.
struct Preparing<'a> {
    inner: &'a Inner,
    id: &'a [u8],
}

impl Drop for Preparing<'_> {
    fn drop(&mut self) {
        if !planted!("identifier_kept_by_panic") || !std::thread::panicking() {
            self.inner.branches.leave(self.id);
        }
    }
}

impl Prepared {
    /// Returns the identifier under which it prepared.
    pub fn id(&self) -> &[u8] {
        &self.id
    }

    /// Returns the number of the transaction.
    pub fn txn(&self) -> TxnId {
        self.txn
    }

    /// Returns the LSN of its prepare record.
    pub fn since(&self) -> Lsn {
        self.since
    }

    /// Takes the parked state of the transaction, to end it.
    fn begin_end(&mut self) -> Result<&mut Txn> {
        self.store.inner.alive()?;
        let parked = self.store.inner.branches.take_parked(&self.id);
        let parked = parked.ok_or_else(|| BranchError::Unknown { id: hexadecimal(&self.id) })?;
        let mut txn = parked.taken_up(&self.store);
        // No more copies are made.
        txn.carry = CarryReservation::default();
        Ok(self.ending.insert(Box::new(txn)))
    }

    /// Commits, and returns when `mode` requires. With another mode than `Sync` a crash may lose the outcome, never the
    /// transaction: it is in doubt again, and must be committed again.
    ///
    /// # Errors
    /// [`Error::PartitionCommit`]; if its deferred changes cannot be read from the log: then it is still in doubt.
    /// [`Error::Stopped`], [`Error::Damaged`]: only reopening the store shows whether it has committed or is in doubt.
    pub fn commit(self, mode: Commit) -> Result<Ticket> {
        if mode == Commit::Partition {
            return Err(Error::PartitionCommit);
        }
        self.commit_by(mode, Decider::Manager)
    }

    /// Ends it as an operator decides, because its transaction manager is lost. The store keeps the outcome until it is
    /// forgotten ([`Store::forget_heuristic`]), for a manager that returns. Both are durable when this returns.
    ///
    /// # Errors
    /// Those of [`commit`](Prepared::commit) or [`rollback`](Prepared::rollback).
    pub fn resolve(self, outcome: HeuristicOutcome) -> Result<()> {
        match outcome {
            HeuristicOutcome::Committed => self.commit_by(Commit::Sync, Decider::Operator).map(drop),
            HeuristicOutcome::RolledBack => self.rollback_by(Decider::Operator),
        }
    }

    fn commit_by(mut self, mode: Commit, by: Decider) -> Result<Ticket> {
        let id = self.id.clone();
        let txn = self.begin_end()?;
        let late = if txn.was_restored { txn.late_changes()? } else { Vec::new() };
        let lsn = txn.log_outcome((by == Decider::Operator).then_some(&id))?;
        let mut txn = self.ends();
        let inner = Arc::clone(&txn.store.inner);
        let made = inner.hidden.over_late(late.is_empty(), || {
            // What it has inserted is changed while it is hidden, and seen before anything that refers to it (E9.11).
            let (of_new, others): (Vec<OrphanedChange>, Vec<OrphanedChange>) =
                late.into_iter().partition(|change| inner.hidden.is_inserted(change.at));
            txn.make_late(&of_new, lsn)?;
            inner.hidden.reveal(txn.id);
            txn.make_late(&others, lsn)
        });
        // Also after a failure: the store has stopped, and the threads that wait for the locks must be woken.
        txn.leave(Some(lsn));
        txn.inner().counts.committed(Commit::Sync);
        inner.branches.leave(&self.id);
        txn.report_bytes();
        made?;
        if by == Decider::Operator || mode == Commit::Sync && !inner.no_flush && txn.options.durability {
            inner.log.force(lsn)?;
        }
        Ok(inner.log.ticket(lsn))
    }

    /// Rolls back: nothing of the transaction remains, and that is durable when this returns.
    ///
    /// # Errors
    /// [`Error::Stopped`]: only reopening the store shows whether it is rolled back or in doubt.
    pub fn rollback(self) -> Result<()> {
        self.rollback_by(Decider::Manager)
    }

    fn rollback_by(mut self, by: Decider) -> Result<()> {
        let id = self.id.clone();
        let txn = self.begin_end()?;
        let mut changed = Vec::new();
        if txn.was_restored {
            txn.along_what_counts(|record, _| {
                // A change without undo stays in the page, and the record may be another transaction's by now (E19.9).
                if let Body::Update { redo, undo, .. } = record
                    && *undo != LoggedUndo::None
                {
                    changed.push(redo.at);
                }
                Ok(())
            })?;
        }
        let withdrawn = |inner: &Inner| changed.iter().for_each(|&at| inner.keepers.withdrawn(at));
        withdrawn(txn.inner());
        if by == Decider::Operator {
            txn.log_heuristic(&id, HeuristicOutcome::RolledBack)?;
        }
        let mut txn = self.ends();
        // E9.4: then the heap's locks, and all others.
        txn.inner().counts.rolled_back();
        let undone = txn.undo_all().and_then(|()| {
            let inner = txn.inner();
            // A place to which a record was moved has no lock of its own: others may have read it before it was undone.
            withdrawn(inner);
            if !inner.plants(Plant::RollbackNotForced) && !planted!("rollback_of_branch_not_forced") {
                inner.log.force(inner.log.current_lsn())?;
            }
            Ok(())
        });
        txn.inner().hidden.reveal(txn.id);
        drop(txn.heap.take());
        txn.leave(None);
        txn.inner().branches.leave(&self.id);
        txn.report_bytes();
        undone
    }

    /// Marks the outcome as certain: the branch cannot be resolved by its identifier any more.
    fn ends(&mut self) -> Box<Txn> {
        let txn = self.ending.take().expect("its end has begun");
        self.has_ended = true;
        txn.inner().branches.is(&self.id, State::Ending(self.since));
        txn
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        if self.store.inner.log.is_forked() {
            // The branch is its parent's (E1.9d).
            return;
        }
        let branches = &self.store.inner.branches;
        if self.store.inner.alive().is_err() {
            // The transaction cannot end in this opening; threads that wait for its locks must learn that the store has
            // stopped.
            let txn =
                self.ending.take().or_else(|| Some(Box::new(branches.take_parked(&self.id)?.taken_up(&self.store))));
            branches.leave(&self.id);
            if let Some(mut txn) = txn {
                drop(txn.heap.take());
                txn.leave(None);
            }
            return;
        }
        if let Some(txn) = self.ending.take() {
            branches.give_back(&self.id, Some(Box::new(Parked::of(txn))));
        }
        branches.let_go(&self.id);
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = hexadecimal(&self.id);
        f.debug_struct("Prepared").field("id", &id).field("txn", &self.txn).field("since", &self.since).finish()
    }
}

// ---- the second phase -------------------------------------------------------------------------------------------

/// A deferred change that is in no page and has no keeper any more.
struct OrphanedChange {
    lsn: Lsn,
    at: RecordId,
    operation: u32,
    arguments: Vec<u8>,
}

impl Txn {
    /// Logs that the transaction has committed, and returns the LSN.
    fn log_outcome(&mut self, of_operator: Option<&Vec<u8>>) -> Result<Lsn> {
        self.head.clear();
        let heap = self.heap.get_mut().take();
        let Some(mut heap) = heap else {
            self.log_heuristic_commit(of_operator)?;
            let lsn = self.append(Kind::COMMIT, &[])?.lsn;
            self.note_commit(lsn);
            return Ok(lsn);
        };
        heap.commits();
        for part in heap.parts().filter(|_| !planted!("words_of_branch_not_repeated")) {
            self.append(HEAP_PART, part)?; // E9.10
        }
        self.log_heuristic_commit(of_operator)?;
        let lsn = self.append(Kind::COMMIT, heap.last_part())?.lsn;
        self.note_commit(lsn);
        heap.publish(lsn);
        Ok(lsn)
    }

    /// Logs that an operator commits it: the record directly before the commit record (E9.4c).
    fn log_heuristic_commit(&mut self, of_operator: Option<&Vec<u8>>) -> Result<()> {
        let logged = of_operator.map_or(Ok(()), |id| self.log_heuristic(id, HeuristicOutcome::Committed));
        self.head.clear();
        logged
    }

    /// Logs the outcome that an operator has decided, and keeps it.
    fn log_heuristic(&mut self, id: &[u8], outcome: HeuristicOutcome) -> Result<()> {
        self.head.clear();
        self.head.push(OutcomeCode::from(outcome) as u8);
        let lsn = self.append(OUTCOME, id)?.lsn;
        self.inner().keep_outcome(id, outcome, lsn);
        Ok(())
    }

    /// Follows the chain from the newest record to the oldest, without records that were undone.
    pub(crate) fn along_what_counts(&self, mut look: impl FnMut(&Body<'_>, Lsn) -> Result<()>) -> Result<()> {
        let mut chain = self.chain();
        let mut more = chain.advance(self.cursor.last)?;
        while let Some(lsn) = more {
            look(&chain.record().parse()?, lsn)?;
            more = chain.step_back()?;
        }
        Ok(())
    }

    /// Returns changes of an earlier opening that count only if committed (E9.7): page by page, oldest first.
    fn late_changes(&self) -> Result<Vec<OrphanedChange>> {
        let mut late = Vec::new();
        self.along_what_counts(|body, lsn| {
            if let Body::Update { redo, committed_only: true, .. } = body {
                let arguments = redo.arguments.to_vec();
                late.push(OrphanedChange { lsn, at: redo.at, operation: redo.operation, arguments });
            }
            Ok(())
        })?;
        late.sort_unstable_by_key(|change| (change.at.page, change.lsn));
        Ok(late)
    }

    /// Applies them to their pages, as recovery would: all changes of a page under one latch, so that no reader sees a
    /// record half changed. A failure stops the store.
    fn make_late(&self, late: &[OrphanedChange], commit: Lsn) -> Result<()> {
        let inner = self.inner();
        let late = if planted!("deferred_by_branch_left_out") { &[] } else { late };
        let made = late.chunk_by(|one, next| one.at.page == next.at.page).try_for_each(|of_page| {
            of_page.iter().for_each(|change| inner.keepers.withdrawn(change.at));
            inner.make_late(of_page, commit)
        });
        made.inspect_err(|error| {
            inner.log.stop(format!("what transaction {} has deferred could not be made: {error}", self.id));
        })
    }
}

impl Inner {
    /// Applies the changes of one page.
    fn make_late(&self, late: &[OrphanedChange], commit: Lsn) -> Result<()> {
        let Some(first) = late.first() else { return Ok(()) };
        let mut page = self.pool.exclusive(first.at.page)?;
        page.will_change(late.iter().map(|change| change.lsn).min().unwrap_or(first.lsn));
        for change in late {
            let table = self.numbers.operation(change.operation).ok_or_else(|| self.unregistered(change.operation))?;
            let stop = |misfit| self.stop_for_misfit(misfit, change.operation, change.lsn);
            let has = has_change(&page.page_ref(), change.at.slot, change.lsn);
            if has.map_err(|damaged| stop(Misfit::Page(damaged)))? {
                continue;
            }
            for _ in 0..1 + u32::from(self.plants(Plant::DeferredMadeTwice)) {
                let redo = |page: &mut cedrat_pages::PageMut<'_>| (table.redo)(&change.arguments, page, change.at.slot);
                page.change_record(change.lsn, commit, redo).map_err(stop)?;
            }
        }
        Ok(())
    }
}

// ---- the next opening -------------------------------------------------------------------------------------------

/// A prepared transaction without an outcome, as found by analysis.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) chain: Loser,
    pub(crate) branch: Branch,
    /// Its heap writes.
    pub(crate) words: Option<PreparedWords>,
    /// The LSN of its prepare record.
    pub(crate) since: Lsn,
}

fn check_len(id: &[u8]) -> Result<()> {
    if id.len() <= BRANCH_ID_LEN_MAX {
        return Ok(());
    }
    let (what, given) = ("the identifier of a prepared transaction", id.len() as u64);
    Err(Error::TooLarge { what, given, limit: BRANCH_ID_LEN_MAX as u64 })
}

/// Restores the state of prepared transactions, before any transaction begins and before the first checkpoint. The pages that
/// they have freed are [withheld](Inner::withhold_freed_by_branches) later.
pub(crate) fn restore(store: &Store, found: Vec<Found>) -> Result<()> {
    for Found { chain, branch, words, since } in found {
        let inner = &store.inner;
        let mut txn = Txn::found(store.clone(), &chain);
        txn.cursor.owed = branch.owed;
        txn.calls = 1;
        txn.was_restored = true;
        let mut heap = words.map(|words| Joined::restored(&inner.memory, words)).transpose()?;
        let of_commit = heap.as_mut().map_or(0, |heap| heap.log_wanted(inner.body_len_max));
        txn.heap = heap.into();
        txn.cursor.reservation = Some(inner.reserve_for_restored(of_commit + OUTCOME_SPACE, branch.owed));
        let Kept { freed, first, deferred_since, is_copy } = txn.what_it_keeps()?;
        // The records of a copy have changed pages earlier; the LSN of the first change is no longer known.
        let began = if is_copy { Lsn::new(1) } else { first };
        let entry = inner.table.enter_loser(chain.id, began);
        entry.keep_from(first);
        entry.set_prepared();
        if let Some(lsn) = deferred_since {
            entry.defers(lsn); // E19.4
        }
        txn.entry = Some(entry);
        txn.freed = freed;
        txn.carry = CarryReservation::restored(&txn)?;
        if !inner.plants(Plant::LocksNotRestored) && !planted!("locks_not_restored") {
            branch.restore_locks(txn.id, &*inner.locks);
        }
        inner.branches.enter(&branch.id, chain.id)?;
        let left = Arc::new(txn.what_it_left()?);
        inner.hidden.hide(txn.id, &left);
        inner.branches.restored(&branch.id, since, Box::new(Parked::of(Box::new(txn))), left);
    }
    Ok(())
}

impl Inner {
    /// Excludes the pages that prepared transactions have freed from allocation, after the space maps were read (E9.6).
    pub(crate) fn withhold_freed_by_branches(&self) {
        if self.plants(Plant::FreedTooEarly) || planted!("freed_by_branch_reused") {
            return;
        }
        for id in self.branches.ids() {
            // Waits for a checkpoint that has borrowed it; `None` only of a branch that has its outcome.
            if let Some(parked) = self.branches.take_parked(&id) {
                parked.freed.iter().for_each(|freed| self.space.withhold(freed.extent));
                self.branches.give_back(&id, Some(parked));
            }
        }
    }

    /// Reserves as much room as the transaction had when it prepared (E9.5). If the log has too little, the reservation
    /// of the previous run still covers it, since it has not been used since.
    fn reserve_for_restored(&self, of_commit: u64, owed: u64) -> Reservation {
        let reserved = match planted!("branch_reserved_as_one_record") {
            true => self.log.reserve(ByteLen(of_commit + END_SPACE), ByteLen(owed)),
            false => self.reserve_in_pieces(of_commit + END_SPACE, owed),
        };
        reserved.unwrap_or_else(|_| self.log.reservation_for_recovery())
    }

    /// Reserves space for records that the log has taken before, or their undo. For one record as long as all of them it might
    /// need longer segment files, and a full disk has no space for these (E16.10).
    fn reserve_in_pieces(&self, mut forward: u64, mut undo: u64) -> Result<Reservation, LogFull> {
        const PIECE: u64 = 4096;
        let mut reservation = self.log.reserve(ByteLen(0), ByteLen(0))?;
        while forward > 0 || undo > 0 {
            let (next_forward, next_undo) = (forward.min(PIECE), undo.min(PIECE));
            self.log.reserve_more(&mut reservation, ByteLen(next_forward), ByteLen(next_undo))?;
            (forward, undo) = (forward - next_forward, undo - next_undo);
        }
        Ok(reservation)
    }

    /// Returns the oldest transaction for which a checkpoint keeps the log.
    pub(crate) fn oldest_to_keep(&self) -> Option<Arc<Entry>> {
        if self.plants(Plant::PreparedNotKept) || planted!("prepared_not_kept") {
            return self.table.oldest_but(Entry::is_prepared);
        }
        self.table.oldest()
    }

    /// Whether a fault was planted.
    fn plants(&self, plant: Plant) -> bool {
        #[cfg(feature = "planted-faults")]
        return self.fault
            == Some(match plant {
                Plant::PrepareNotForced => crate::Fault::PrepareNotForced,
                Plant::RollbackNotForced => crate::Fault::RollbackNotForced,
                Plant::LocksNotRestored => crate::Fault::LocksNotRestored,
                Plant::FreedTooEarly => crate::Fault::FreedTooEarly,
                Plant::PreparedNotKept => crate::Fault::PreparedNotKept,
                Plant::DeferredMadeTwice => crate::Fault::DeferredMadeTwice,
            });
        #[cfg(not(feature = "planted-faults"))]
        {
            let _ = plant;
            false
        }
    }
}

/// The faults that can be planted here.
#[derive(Clone, Copy)]
enum Plant {
    PrepareNotForced,
    RollbackNotForced,
    LocksNotRestored,
    FreedTooEarly,
    PreparedNotKept,
    DeferredMadeTwice,
}
