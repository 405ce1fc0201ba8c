//! Two-phase commit, on the side of a participant: a transaction that promises to commit, and waits to be told (E9).
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
//! A prepared transaction keeps what it has but its thread: locks, room in the log, its place in the table of those who
//! run. What of that a crash takes is found in its records when the store is opened ([`restore`]).

use std::collections::BTreeMap;
use std::fmt;

use cedrat_heap::{HEAP_PART, Joined, PreparedWords};
use cedrat_sync::{Arc, Mutex};
use cedrat_wal::{ByteLen, Kind, LogOffset, Lsn, PartitionId, Reservation, Ticket, TxnId};

use crate::body::{Body, Head, Redo, room_for};
use crate::branch::{BRANCH_ID_LEN_MAX, Branch};
use crate::builtin::SetSpace;
use crate::deferred::{Deferred, has_change};
use crate::error::{Error, Result};
use crate::explain::hexadecimal;
use crate::in_doubt::Left;
use crate::operation::RecordId;
use crate::recovery::Loser;
use crate::registry::Misfit;
use crate::space::Extent;
use crate::store::{Inner, Store};
use crate::table::Entry;
use crate::transaction::{Commit, END_ROOM, Freed, Txn, TxnOptions};

/// What a transaction answers that was asked to prepare.
#[derive(Debug)]
#[must_use = "a prepared transaction waits for its outcome"]
pub enum Vote {
    /// It has changed nothing, and has ended. What it has read is durable.
    ReadOnly,
    /// It commits or rolls back, as it will be told.
    Prepared(Prepared),
}

/// A transaction that is prepared: it can be committed, and rolled back, whatever happens.
///
/// Dropped, it stays *in doubt*: it keeps its locks and the log, also over a restart of the store, until somebody takes it
/// up again with [`Store::prepared`] and ends it.
#[must_use = "dropped, it stays in doubt and keeps its locks"]
pub struct Prepared {
    txn: Option<Box<Txn>>,
    id: Vec<u8>,
    since: Lsn,
    was_restored: bool,
}

/// A prepared transaction without an outcome, as [`Store::in_doubt`] lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InDoubt {
    /// Under which it prepared.
    pub id: Vec<u8>,
    /// Its number.
    pub txn: TxnId,
    /// The LSN of its prepare record.
    pub since: Lsn,
}

impl InDoubt {
    /// The prepared transactions without an outcome that opening a store would find, for tools that do not open it.
    ///
    /// # Errors
    /// Damage of the log; [`Error::BadRecord`].
    pub fn look(found: &cedrat_wal::Found) -> Result<Vec<InDoubt>> {
        crate::recovery::look_in_doubt(found)
    }
}

/// All prepared transactions of a store, by their identifiers.
#[derive(Debug, Default)]
pub(crate) struct Branches(Mutex<BTreeMap<Vec<u8>, Known>>);

#[derive(Debug)]
struct Known {
    txn: TxnId,
    state: State,
    /// Of one that prepared in an earlier opening.
    left: Option<Arc<Left>>,
}

#[derive(Debug)]
enum State {
    /// Not yet.
    Preparing,
    /// By whoever has its [`Prepared`].
    Held(Lsn),
    Parked(Lsn, Box<Parked>),
    /// Its outcome is certain, and nobody asks for it under its identifier any more. What it has changed is not in pages before
    /// it leaves.
    Ending(Lsn),
}

/// What a prepared transaction has, without the store, which it would keep open.
#[derive(Debug)]
struct Parked {
    id: TxnId,
    partition: PartitionId,
    last: Option<LogOffset>,
    owed: u64,
    room: Option<Reservation>,
    entry: Option<Arc<Entry>>,
    heap: Option<Joined>,
    freed: Vec<Freed>,
    deferred: Deferred,
    options: TxnOptions,
    was_restored: bool,
}

impl Parked {
    fn of(mut txn: Box<Txn>, was_restored: bool) -> Parked {
        let parked = Parked {
            id: txn.id,
            partition: txn.partition,
            last: txn.last,
            owed: txn.owed,
            room: txn.room.take(),
            entry: txn.entry.take(),
            heap: txn.heap.take(),
            freed: std::mem::take(&mut txn.freed),
            deferred: std::mem::take(&mut txn.deferred),
            options: txn.options,
            was_restored,
        };
        txn.is_parked();
        parked
    }

    fn taken_up(self, store: &Store) -> Txn {
        let mut txn = Txn::new(store.clone(), self.id);
        txn.partition = self.partition;
        txn.last = self.last;
        txn.owed = self.owed;
        txn.room = self.room;
        txn.entry = self.entry;
        txn.heap = self.heap.into();
        txn.freed = self.freed;
        txn.deferred = self.deferred;
        txn.options = self.options;
        txn
    }
}

impl Branches {
    /// From now on nobody else prepares under this identifier (E9.8).
    fn enter(&self, id: &[u8], txn: TxnId) -> Result<()> {
        let mut known = self.0.lock();
        if known.contains_key(id) {
            return Err(Error::BranchExists { id: hexadecimal(id) });
        }
        known.insert(id.to_vec(), Known { txn, state: State::Preparing, left: None });
        Ok(())
    }

    fn is(&self, id: &[u8], state: State) {
        if let Some(known) = self.0.lock().get_mut(id) {
            known.state = state;
        }
    }

    fn leave(&self, id: &[u8]) {
        self.0.lock().remove(id);
    }

    fn take_up(&self, id: &[u8]) -> Result<(Lsn, Parked)> {
        let mut branches = self.0.lock();
        let known = branches.get_mut(id).filter(|known| known.since().is_some());
        let known = known.ok_or_else(|| Error::NoBranch { id: hexadecimal(id) })?;
        match known.state {
            State::Parked(since, _) => match std::mem::replace(&mut known.state, State::Held(since)) {
                State::Parked(since, parked) => Ok((since, *parked)),
                State::Preparing | State::Held(_) | State::Ending(_) => unreachable!("it was just looked at"),
            },
            State::Preparing | State::Held(_) | State::Ending(_) => Err(Error::BranchHeld { id: hexadecimal(id) }),
        }
    }

    fn in_doubt(&self) -> Vec<InDoubt> {
        let branches = self.0.lock();
        let mut all: Vec<InDoubt> = branches.iter().filter_map(|(id, known)| known.listed(id)).collect();
        all.sort_unstable_by_key(|branch| branch.since);
        all
    }

    /// What those of earlier openings have noted that are in doubt, or have not ended to the last step (E21.9).
    pub(crate) fn noted(&self, kind: u32) -> Vec<(InDoubt, Vec<Vec<u8>>)> {
        let branches = self.0.lock();
        let noted = |(id, known): (&Vec<u8>, &Known)| {
            let (State::Held(since) | State::Parked(since, _) | State::Ending(since)) = known.state else {
                return None;
            };
            Some((InDoubt { id: id.clone(), txn: known.txn, since }, known.left.as_ref()?.noted(kind)))
        };
        let mut all: Vec<_> = branches.iter().filter_map(noted).collect();
        all.sort_unstable_by_key(|(branch, _)| branch.since);
        all
    }

    /// Whether this one is prepared, and its outcome is open.
    pub(crate) fn is_held(&self, txn: TxnId) -> bool {
        self.0.lock().values().any(|known| known.txn == txn && known.since().is_some())
    }

    /// Whether this one is prepared, and has not ended to the last step.
    pub(crate) fn is_there(&self, txn: TxnId) -> bool {
        self.0.lock().values().any(|known| known.txn == txn && !matches!(known.state, State::Preparing))
    }

    /// Under which identifier it is prepared, in hexadecimal digits; nothing, if it has just ended.
    pub(crate) fn id_of(&self, txn: TxnId) -> String {
        let branches = self.0.lock();
        branches.iter().find(|(_, known)| known.txn == txn).map_or_else(String::new, |(id, _)| hexadecimal(id))
    }

    fn restored(&self, id: &[u8], since: Lsn, parked: Box<Parked>, left: Arc<Left>) {
        if let Some(known) = self.0.lock().get_mut(id) {
            known.state = State::Parked(since, parked);
            known.left = Some(left);
        }
    }
}

impl Known {
    /// Since when it is in doubt, if it is.
    fn since(&self) -> Option<Lsn> {
        match self.state {
            State::Preparing | State::Ending(_) => None,
            State::Held(since) | State::Parked(since, _) => Some(since),
        }
    }

    fn listed(&self, id: &[u8]) -> Option<InDoubt> {
        Some(InDoubt { id: id.to_vec(), txn: self.txn, since: self.since()? })
    }
}

impl Store {
    /// All transactions that are prepared and have no outcome, the oldest first; also those that somebody in this program is
    /// about to end.
    pub fn in_doubt(&self) -> Vec<InDoubt> {
        self.inner.branches.in_doubt()
    }

    /// Takes up the transaction that prepared under this identifier and was dropped, or was found when the store was opened.
    ///
    /// # Errors
    /// [`Error::NoBranch`]; [`Error::BranchHeld`] while somebody else has it.
    pub fn prepared(&self, id: &[u8]) -> Result<Prepared> {
        let (since, parked) = self.inner.branches.take_up(id)?;
        let was_restored = parked.was_restored;
        Ok(Prepared { txn: Some(Box::new(parked.taken_up(self))), id: id.to_vec(), since, was_restored })
    }
}

impl Txn {
    /// Prepares (Lemon §3.4, "two-phase commit"): when this returns, all that the transaction has done and read is durable,
    /// it keeps its locks, and it can be committed as well as rolled back, also after any crash. `id` is how it is found
    /// again, 1 to [`BRANCH_ID_LEN_MAX`] bytes; for XA those of the branch's identifier.
    ///
    /// A transaction that has changed nothing ends: [`Vote::ReadOnly`].
    ///
    /// It waits for the disk whatever durability the transaction, or the store, does without.
    ///
    /// # Errors
    /// [`Error::BranchExists`]; [`Error::TooLarge`]; [`Error::Misuse`] for a transaction without atomicity, which cannot roll
    /// back; [`Error::LogFull`]; a conflict over heap words. The transaction was rolled back. [`Error::Stopped`]: only
    /// reopening the store tells whether it is prepared.
    pub fn prepare(mut self, id: &[u8]) -> Result<Vote> {
        if id.is_empty() || id.len() > BRANCH_ID_LEN_MAX {
            let (what, given) = ("the identifier of a prepared transaction", id.len() as u64);
            return Err(match id.len() {
                0 => Error::Misuse("the identifier of a prepared transaction is empty; give it one"),
                _ => Error::TooLarge { what, given, limit: BRANCH_ID_LEN_MAX as u64 },
            });
        }
        if !self.options.atomicity {
            return Err(Error::Misuse("a transaction without atomicity cannot be rolled back, so it cannot prepare"));
        }
        self.alive()?;
        debug_assert!(self.depth == 0, "a transaction prepares outside of what it nests");
        if self.entry.as_ref().is_some_and(|entry| entry.is_doomed()) {
            return Err(self.obey());
        }
        let has_words = self.heap.get_mut().as_mut().is_some_and(Joined::has_writes);
        if self.entry.is_none() && !has_words {
            return self.vote_read_only();
        }
        let store = self.store.clone();
        let inner = &store.inner;
        inner.branches.enter(id, self.id)?;
        let since = match self.log_prepare(id) {
            Ok(since) => since,
            Err(error) => {
                inner.branches.leave(id);
                return Err(error); // dropped: rolled back
            }
        };
        self.report_bytes();
        if let Err(stopped) = self.force_prepared(since) {
            inner.branches.leave(id);
            return Err(stopped);
        }
        inner.branches.is(id, State::Held(since));
        inner.locks.prepared(self.id);
        Ok(Vote::Prepared(Prepared { txn: Some(Box::new(self)), id: id.to_vec(), since, was_restored: false }))
    }

    /// From here on it does [without waiting for prepared transactions](TxnOptions::waits_for_prepared): for a structure
    /// that is given the transaction while it holds what others wait for.
    pub fn waits_for_prepared_no_longer(&mut self) {
        self.options = self.options.without_waiting_for_prepared();
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

    /// E9.2. Everything that it has read was committed by records before this one.
    fn force_prepared(&self, since: Lsn) -> Result<()> {
        if !self.inner().plants(Plant::PrepareNotForced) {
            self.inner().log.force(since)?;
        }
        Ok(())
    }

    /// Logs that the transaction is prepared: the LSN of the record that says so.
    fn log_prepare(&mut self, id: &[u8]) -> Result<Lsn> {
        self.enter()?;
        let mut heap = self.heap.get_mut().take();
        let locks = &self.inner().locks;
        let mut held = locks.held(self.id);
        held.retain(|(_, mode)| mode.is_to_write());
        let (owed, key_stripes) = (self.owed, locks.key_stripes());
        let branch = Branch { id: id.to_vec(), owed, key_stripes, locks: held, heap: Vec::new() };
        let mut bytes = Vec::new();
        branch.put(&mut bytes);
        let body_len_max = self.inner().body_len_max;
        let part_len_max = body_len_max - 1;
        // What may wait comes first: nobody waits while stripes are being locked (E10.4). And room for the commit (E9.5).
        let [of_words, of_commit] =
            heap.as_mut().map_or([0; 2], |heap| [heap.prepared_len_max(body_len_max), heap.log_wanted(body_len_max)]);
        let len_max = bytes.len() as u64 + of_words;
        let parts_max = len_max.div_ceil(part_len_max as u64);
        self.room_for_records(len_max + parts_max * room_for(0) + of_commit, 0)?;
        if let Some(heap) = &mut heap {
            heap.prepare(body_len_max)?;
            if heap.has_writes() {
                heap.put_prepared(&mut bytes);
            }
        }
        let parts = bytes.len().div_ceil(part_len_max);
        let (before, last) = bytes.split_at((parts - 1) * part_len_max);
        for (at, part) in before.chunks(part_len_max).enumerate() {
            Head(&mut self.head).prepare(at == 0, true);
            self.append(Kind::PREPARE, part)?;
        }
        Head(&mut self.head).prepare(parts == 1, false);
        let Some(mut heap) = heap else { return Ok(self.append(Kind::PREPARE, last)?.lsn) };
        let appended = self.append_deciding(Kind::PREPARE, last, |lsn| heap.may_commit(lsn))?;
        if heap.has_writes() {
            heap.hold(self.id);
            *self.heap.get_mut() = Some(heap);
        }
        Ok(appended.lsn)
    }
}

impl Prepared {
    /// Under which it prepared.
    pub fn id(&self) -> &[u8] {
        &self.id
    }

    /// The number of the transaction.
    pub fn txn(&self) -> TxnId {
        self.held().id
    }

    /// The LSN of its prepare record.
    pub fn since(&self) -> Lsn {
        self.since
    }

    fn held(&self) -> &Txn {
        self.txn.as_ref().expect("it has its transaction until it ends")
    }

    fn held_mut(&mut self) -> &mut Txn {
        self.txn.as_mut().expect("it has its transaction until it ends")
    }

    /// Commits, and returns when `mode` says. With another mode than `Sync` a crash may lose the outcome, never the
    /// transaction: it is in doubt again, and to be committed again.
    ///
    /// # Errors
    /// [`Error::PartitionCommit`]; if what it has deferred cannot be read from the log: it is in doubt still.
    /// [`Error::Stopped`], [`Error::Damaged`]: only reopening the store tells whether it has committed or is in doubt.
    pub fn commit(mut self, mode: Commit) -> Result<Ticket> {
        if mode == Commit::Partition {
            return Err(Error::PartitionCommit);
        }
        self.held().alive()?;
        let late = if self.was_restored { self.held().late_changes()? } else { Vec::new() };
        let lsn = self.held_mut().log_outcome()?;
        let mut txn = self.ends();
        let inner = Arc::clone(&txn.store.inner);
        // Before anything that refers to it (E9.11).
        inner.hidden.reveal(txn.id);
        let made = inner.hidden.over_late(late.is_empty(), || txn.make_late(&late, lsn));
        // Also after a failure: the store has stopped, and those who wait for the locks must hear it.
        txn.leave(Some(lsn));
        inner.branches.leave(&self.id);
        txn.report_bytes();
        made?;
        if mode == Commit::Sync && !inner.no_flush && txn.options.durability {
            inner.log.force(lsn)?;
        }
        Ok(inner.log.ticket(lsn))
    }

    /// Rolls back: nothing of the transaction remains, and that is durable when this returns.
    ///
    /// # Errors
    /// [`Error::Stopped`]: only reopening the store tells whether it is rolled back or in doubt.
    pub fn rollback(mut self) -> Result<()> {
        self.held().alive()?;
        if self.was_restored {
            let txn = self.held();
            txn.along_what_counts(|record, _| {
                if let Some(redo) = record.redo() {
                    txn.inner().keepers.withdrawn(redo.at);
                }
                Ok(())
            })?;
        }
        let mut txn = self.ends();
        // E9.4: then the heap's locks, and all others.
        let undone = txn.undo_all().and_then(|()| {
            let inner = txn.inner();
            if !inner.plants(Plant::RollbackNotForced) {
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

    /// The outcome is certain: nobody asks for it under its identifier any more.
    fn ends(&mut self) -> Box<Txn> {
        let txn = self.txn.take().expect("it has its transaction until it ends");
        txn.inner().branches.is(&self.id, State::Ending(self.since));
        txn
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        let Some(mut txn) = self.txn.take() else { return };
        let inner = Arc::clone(&txn.store.inner);
        if inner.alive().is_err() {
            // Nobody will end it in this opening; those who wait for its locks must hear that the store has stopped.
            inner.branches.leave(&self.id);
            drop(txn.heap.take());
            txn.leave(None);
            return;
        }
        let parked = Box::new(Parked::of(txn, self.was_restored));
        inner.branches.is(&self.id, State::Parked(self.since, parked));
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = hexadecimal(&self.id);
        f.debug_struct("Prepared").field("id", &id).field("txn", &self.txn).field("since", &self.since).finish()
    }
}

// ---- the second phase -------------------------------------------------------------------------------------------

/// A deferred change that is in no page, and that nobody keeps any more.
struct Late {
    lsn: Lsn,
    at: RecordId,
    operation: u32,
    arguments: Vec<u8>,
}

impl Txn {
    /// Logs that the transaction has committed, and says when.
    fn log_outcome(&mut self) -> Result<Lsn> {
        self.head.clear();
        let heap = self.heap.get_mut().take();
        let Some(mut heap) = heap else {
            let lsn = self.append(Kind::COMMIT, &[])?.lsn;
            self.inner().note_commit(lsn);
            return Ok(lsn);
        };
        heap.commits();
        for part in heap.parts() {
            self.append(HEAP_PART, part)?; // E9.10
        }
        let lsn = self.append(Kind::COMMIT, heap.last_part())?.lsn;
        self.inner().note_commit(lsn);
        heap.publish(lsn);
        Ok(lsn)
    }

    /// Follows the chain from the newest record to the oldest, without what was taken back.
    pub(crate) fn along_what_counts(&self, mut look: impl FnMut(&Body<'_>, Lsn) -> Result<()>) -> Result<()> {
        let mut chain = self.chain();
        let mut more = chain.advance(self.last)?;
        while let Some(lsn) = more {
            look(&chain.record().parse()?, lsn)?;
            more = chain.step_back()?;
        }
        Ok(())
    }

    /// Changes of an earlier opening that count only if committed (E9.7): page by page, the oldest first.
    fn late_changes(&self) -> Result<Vec<Late>> {
        let mut late = Vec::new();
        self.along_what_counts(|body, lsn| {
            if let Body::Update { redo, committed_only: true, .. } = body {
                let arguments = redo.arguments.to_vec();
                late.push(Late { lsn, at: redo.at, operation: redo.operation, arguments });
            }
            Ok(())
        })?;
        late.sort_unstable_by_key(|change| (change.at.page, change.lsn));
        Ok(late)
    }

    /// Makes them in their pages, as recovery would: all those of a page at once, so that nobody sees half of a record's. A failure
    /// stops the store.
    fn make_late(&self, late: &[Late], commit: Lsn) -> Result<()> {
        let inner = self.inner();
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
    /// Changes of one page.
    fn make_late(&self, late: &[Late], commit: Lsn) -> Result<()> {
        let Some(first) = late.first() else { return Ok(()) };
        let mut page = self.pool.exclusive(first.at.page)?;
        page.will_change(late.iter().map(|change| change.lsn).min().unwrap_or(first.lsn));
        for change in late {
            let table = self.numbers.operation(change.operation).ok_or_else(|| self.unregistered(change.operation))?;
            let has = has_change(&page.page_ref(), change.at.slot, change.lsn);
            if has.map_err(|damaged| self.pool.damaged(damaged))? {
                continue;
            }
            for _ in 0..1 + u32::from(self.plants(Plant::DeferredMadeTwice)) {
                let redo = |page: &mut cedrat_pages::PageMut<'_>| (table.redo)(&change.arguments, page, change.at.slot);
                page.change_record(change.lsn, commit, redo).map_err(|misfit| match misfit {
                    Misfit::Page(damaged) => self.pool.damaged(damaged).into(),
                    Misfit::Record(refused) => refused.into(),
                    Misfit::Arguments => Error::bad_record(change.lsn, "its arguments are not those of its operation"),
                })?;
            }
        }
        Ok(())
    }
}

// ---- the next opening -------------------------------------------------------------------------------------------

/// A prepared transaction that analysis has found without an outcome.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) chain: Loser,
    pub(crate) branch: Branch,
    /// What it has written to heaps.
    pub(crate) words: Option<PreparedWords>,
    /// The LSN of its prepare record.
    pub(crate) since: Lsn,
}

/// Gives prepared transactions back what they had: before anybody begins, and before the first checkpoint.
pub(crate) fn restore(store: &Store, found: Vec<Found>) -> Result<()> {
    for Found { chain, branch, words, since } in found {
        let inner = &store.inner;
        let mut txn = Txn::new(store.clone(), chain.id);
        txn.partition = chain.partition;
        txn.last = Some(chain.last);
        txn.owed = branch.owed;
        let mut heap = words.map(|words| Joined::restored(&inner.memory, words)).transpose()?;
        let of_commit = heap.as_mut().map_or(0, |heap| heap.log_wanted(inner.body_len_max));
        txn.heap = heap.into();
        txn.room = Some(inner.room_for_restored(of_commit, branch.owed));
        let entry = inner.table.enter_loser(chain.id, chain.first);
        let (freed, deferred_since) = txn.what_it_frees_and_defers()?;
        if let Some(lsn) = deferred_since {
            entry.defers(lsn); // E19.4
        }
        txn.entry = Some(entry);
        if !inner.plants(Plant::FreedTooEarly) {
            freed.iter().for_each(|freed| inner.space.withhold(freed.extent)); // E9.6
        }
        txn.freed = freed;
        if !inner.plants(Plant::LocksNotRestored) {
            branch.restore_locks(txn.id, &*inner.locks);
        }
        inner.branches.enter(&branch.id, chain.id)?;
        let left = Arc::new(txn.what_it_left()?);
        inner.hidden.hide(txn.id, &left);
        inner.branches.restored(&branch.id, since, Box::new(Parked::of(Box::new(txn), true)), left);
    }
    Ok(())
}

impl Txn {
    /// Space that becomes free when it ends, as it noted while it ran; and its oldest change that counts only if committed.
    fn what_it_frees_and_defers(&self) -> Result<(Vec<Freed>, Option<Lsn>)> {
        let set_space = self.inner().set_space_number;
        let (mut changes, mut deferred_since) = (Vec::new(), None);
        let mut chain = self.chain();
        let mut more = chain.advance(self.last)?;
        while let Some(lsn) = more {
            let body = chain.record().parse()?;
            let redo = body.redo().filter(|redo| redo.operation == set_space);
            if let Some(change) = redo.and_then(SetSpaceAt::of) {
                changes.push((change, lsn, matches!(body, Body::Compensation { .. })));
            }
            if matches!(body, Body::Update { committed_only: true, .. }) {
                deferred_since = Some(lsn);
            }
            more = chain.previous()?;
        }
        let mut freed: Vec<Freed> = Vec::new();
        for (SetSpaceAt { used, extent }, lsn, is_undo) in changes.into_iter().rev() {
            if !used {
                freed.push(Freed { extent, lsn });
            } else if is_undo && let Some(at) = freed.iter().rposition(|freed| freed.extent == extent) {
                freed.swap_remove(at);
            }
        }
        Ok((freed, deferred_since))
    }
}

/// A change of the space map, and of which pages.
struct SetSpaceAt {
    used: bool,
    extent: Extent,
}

impl SetSpaceAt {
    fn of(redo: &Redo<'_>) -> Option<SetSpaceAt> {
        let change: SetSpace = postcard::from_bytes(redo.arguments).ok()?;
        let extent = Extent { first: redo.at.page.get() + u64::from(change.first), pages: change.pages.into() };
        Some(SetSpaceAt { used: change.used, extent })
    }
}

impl Inner {
    /// E9.5: as much as the transaction had when it prepared. What cannot be promised anew was promised in the run before, and
    /// nobody has used it since.
    fn room_for_restored(&self, of_commit: u64, owed: u64) -> Reservation {
        let room = self.log.reserve(ByteLen(of_commit + END_ROOM), ByteLen(owed));
        room.unwrap_or_else(|_| self.log.reservation_for_recovery())
    }

    /// The oldest transaction for which a checkpoint keeps the log.
    pub(crate) fn oldest_to_keep(&self) -> Option<Arc<Entry>> {
        if self.plants(Plant::PreparedNotKept) {
            let in_doubt: Vec<TxnId> = self.branches.in_doubt().iter().map(|branch| branch.txn).collect();
            return self.table.oldest_but(|txn| in_doubt.contains(&txn));
        }
        self.table.oldest()
    }

    /// Whether a mistake was planted.
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

/// Mistakes that can be planted here.
#[derive(Clone, Copy)]
enum Plant {
    PrepareNotForced,
    RollbackNotForced,
    LocksNotRestored,
    FreedTooEarly,
    PreparedNotKept,
    DeferredMadeTwice,
}
