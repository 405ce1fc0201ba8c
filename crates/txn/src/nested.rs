//! Changes of several pages, by one of three calls (E14.1; Lemon §4.3).
//!
//! | call | while it runs | if it fails half-way | once it has ended |
//! |---|---|---|---|
//! | [`Txn::nested`] | the structure's latches exclude others | undone page by page, under the latches | stays, whatever the outcome of the transaction; undone by meaning |
//! | [`Txn::isolated`] | a lock to the end of the transaction excludes others | undone page by page | undone page by page with the transaction |
//! | [`Txn::ordered`] | each step leaves the structure readable | *finished*, not undone | stays |

use std::cell::Cell;
use std::marker::PhantomData;

use cedrat_pages::PageId;
use cedrat_sync::{Arc, planted, thread_local};
use cedrat_wal::{Kind, Log, LogOffset, TxnId};

use crate::body::{Head, UndoShape, record_space};
use crate::error::{Error, Result};
use crate::locks::{LockMode, Resource};
use crate::operation::Finish;
use crate::store::{Inner, Store};
use crate::transaction::{ChangeMode, Txn, in_destructor};
use crate::undo::{Undo, UndoKind};
use crate::update::undo_space;

thread_local! {
    /// The number of nested top actions, ordered sequences and latches of [`LatchGuard`] that this thread has, and the transaction
    /// of the first.
    static LATCHED: Cell<(u32, TxnId)> = const { Cell::new((0, TxnId::NONE)) };
}

/// Whether the calling thread runs an action under latches, of whichever transaction.
pub(crate) fn holds_latches() -> bool {
    latching_txn().is_some()
}

/// Returns the transaction for whose action the calling thread holds latches.
pub(crate) fn latching_txn() -> Option<TxnId> {
    let (count, of) = LATCHED.with(Cell::get);
    (count > 0).then_some(of)
}

/// The latches of an action, counted until they are released.
#[derive(Debug)]
struct CountedLatches<G>(#[allow(dead_code, reason = "released by its drop")] G);

impl<G> CountedLatches<G> {
    fn of(txn: TxnId, latches: G) -> CountedLatches<G> {
        LATCHED.with(|latched| {
            let (count, of) = latched.get();
            latched.set((count + 1, if count == 0 { txn } else { of }));
        });
        CountedLatches(latches)
    }
}

impl<G> Drop for CountedLatches<G> {
    fn drop(&mut self) {
        LATCHED.with(|latched| {
            let (count, of) = latched.get();
            latched.set((count - 1, of));
        });
    }
}

/// Notes that the calling thread has a latch over whole transactions, until it is dropped ([`Store::latched`]).
#[must_use = "dropped at once, it notes nothing"]
#[derive(Debug)]
pub struct LatchGuard {
    _counted: Option<CountedLatches<()>>,
    /// The count is that of the thread.
    _of_thread: PhantomData<*const ()>,
}

impl Store {
    /// Notes that the calling thread has a latch while it runs whole transactions, not one nested top action: for structures that
    /// serialise their callers. Acquire the latch first, and drop the result before it.
    ///
    /// Until then the thread rolls back no other transaction, and waits for no such rollback: an undo might need the latch. So a
    /// transaction may find the log full that would have space otherwise: release the latch,
    /// [enforce the limits](Store::enforce_limits), and if that has rolled back any, try again.
    pub fn latched(&self) -> LatchGuard {
        let counted = (!planted!("latch_over_transactions_not_noted")).then(|| CountedLatches::of(TxnId::NONE, ()));
        LatchGuard { _counted: counted, _of_thread: PhantomData }
    }
}

impl Txn {
    /// Runs a nested top action: the changes of `work` stay even if this transaction rolls back; then the undo that
    /// `work` returned reverts their *meaning* (Lemon §4.3).
    ///
    /// 1. Take the latches that keep others from seeing the structure half changed, and pass them in: they are released
    ///    when the action has ended, or has been undone.
    /// 2. `work` changes any number of pages with this transaction, without locks.
    /// 3. It returns its value and the undo of the whole: [`Undo::logical`], [`Undo::finish`], or [`Undo::none`] for a
    ///    purely structural change, such as the split of a bucket.
    ///
    /// If `work` fails or panics, its steps are undone page by page before the latches are released.
    ///
    /// If `work` runs another transaction, that one may wait for a lock or a heap word whose owner waits for a latch of the
    /// action. No search finds this cycle, so the wait ends with an error after ten seconds ([`Deadlock`](crate::Deadlock)).
    ///
    /// # Errors
    /// Those of `work`; [`Error::LogFull`]; [`Error::PinsLog`], after which the transaction can only be rolled back.
    pub fn nested<G, T>(&mut self, latches: G, work: impl FnOnce(&mut Txn) -> Result<(T, Undo)>) -> Result<T> {
        let latches = CountedLatches::of(self.id, latches);
        self.alive()?;
        if self.change_mode == ChangeMode::Ordered {
            return Err(Error::Misuse("an ordered sequence is redo-only; a nested top action cannot lie within it"));
        }
        // One call: the store rolls nothing back while the structure's latches are held.
        self.in_call(|txn| {
            let result = txn.in_sequence(ChangeMode::Nested, |txn| {
                let (value, undo) = work(txn)?;
                Ok((value, Some(undo)))
            });
            drop(latches); // after the end record, or the physical undo
            result
        })
    }

    /// Runs `work` under declared full isolation: the big lock on the structure at `root` is taken to the end of the
    /// transaction, and several pages may be changed under it with ordinary undo ("given isolation, Lemon needs nothing
    /// else", §4.3).
    ///
    /// With [`crate::NoLocks`] the caller is responsible for the isolation.
    ///
    /// # Errors
    /// Those of `work`, whose changes are then undone; [`Error::Deadlock`].
    pub fn isolated<T>(&mut self, root: PageId, work: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> {
        if !planted!("isolated_section_not_locked") {
            self.lock(Resource::Structure(root), LockMode::Exclusive)?;
        }
        let stays = self.change_mode == ChangeMode::Plain && self.gave_up_atomicity();
        self.in_sequence(ChangeMode::Isolated, |txn| Ok((work(txn)?, stays.then(Undo::none))))
    }

    /// Runs an ordered sequence of redo-only changes with a check-and-finish undo (LLADD, bucket split; Lemon §6).
    ///
    /// `finish` is logged first. Each change of `work` is logged without undo, and must leave the structure readable.
    /// If `work` fails or panics, or a crash cuts the sequence, `finish` is called: it checks how far the sequence came
    /// and completes it. The sequence is never reverted, so `finish` must find the pages allocated within it.
    ///
    /// # Errors
    /// Those of `work`; the sequence has then been finished nevertheless. [`Error::LogFull`], [`Error::PinsLog`]: it
    /// has not begun; after the latter the transaction can only be rolled back.
    pub fn ordered<G, F: Finish, T>(
        &mut self,
        latches: G,
        finish: &F,
        work: impl FnOnce(&mut Txn) -> Result<T>,
    ) -> Result<T> {
        let latches = CountedLatches::of(self.id, latches);
        self.alive()?;
        let undo = Undo::finish(finish);
        let undo_space = undo_space(&undo, 0);
        self.in_call(|txn| {
            let result = txn.in_sequence(ChangeMode::Ordered, |txn| {
                // Inside the sequence, since the victim of a full log outside of nested actions rolls back at once, and
                // its undo would need the latches that are held here.
                txn.enter()?;
                txn.reserve_for_records(record_space(undo.arguments().len()), undo_space)?;
                let (shape, call) = txn.inner().shape_of(&undo)?;
                let (number, _) = call.expect("a finish is a call");
                Head(&mut txn.head).undo_only(shape, number);
                txn.append(Kind::UNDO_ONLY, undo.arguments())?;
                txn.cursor.owed += undo_space;
                Ok((work(txn)?, Some(Undo::none())))
            });
            drop(latches);
            result
        })
    }

    /// Runs `work` so that it happens as a whole or is undone to its beginning, after an error or a panic. If `work`
    /// returns an undo of the whole, its end is logged, and later rollbacks skip it.
    pub(crate) fn in_sequence<T>(
        &mut self,
        change_mode: ChangeMode,
        work: impl FnOnce(&mut Txn) -> Result<(T, Option<Undo>)>,
    ) -> Result<T> {
        let mut open = Open {
            of: self.identity(),
            log: self.inner().log.clone(),
            last: self.cursor.last,
            owed: self.cursor.owed,
            change_mode: self.change_mode,
            nesting: self.nesting,
            txn: self,
            done: false,
        };
        open.txn.change_mode = change_mode;
        open.txn.nesting.open();
        let result = work(open.txn);
        assert!(!open.is_exchanged(), "the transaction was exchanged for another one");
        match result.and_then(|done| open.txn.still_isolated().map(|()| done)) {
            Ok((value, undo)) => {
                if let Some(undo) = undo {
                    open.end(&undo)?;
                }
                open.done = true;
                Ok(value)
            }
            Err(error) => {
                open.done = true;
                open.take_back()?;
                Err(error)
            }
        }
    }

    /// Undoes a sequence that failed or panicked, as one call, including the state that the last call has left in the
    /// entry.
    fn take_back_to(&mut self, last: Option<LogOffset>, owed: u64) -> Result<()> {
        // If the store has taken the transaction, the store undoes it itself.
        if planted!("panic_leaves_deferred") && std::thread::panicking() {
            return self.undo_back_to(last, owed);
        }
        if self.begin_call().is_err() {
            return Ok(());
        }
        let undone = self.undo_back_to(last, owed);
        self.end_call();
        undone
    }

    /// Returns what distinguishes it from all other transactions, also of other stores.
    #[inline]
    pub(crate) fn identity(&self) -> Identity {
        (self.id, Arc::as_ptr(&self.store.inner))
    }

    /// Checks that the transaction may end: it can be moved out of a sequence that it nests.
    pub(crate) fn nests_nothing(&self) -> Result<()> {
        if self.nesting.depth == 0 {
            Ok(())
        } else {
            Err(Error::Misuse("cannot end a transaction within its nested top action"))
        }
    }

    /// Writes the end of a nested top action: rollback continues at `undo_next` once `undo` was done (E5.2).
    pub(crate) fn end_nested(&mut self, undo_next: Option<LogOffset>, undo: &Undo) -> Result<()> {
        let (shape, call) = self.inner().shape_of(undo)?;
        Head(&mut self.head).nested_end(undo_next, shape, call.map(|(number, _)| number));
        self.append(Kind::NESTED_END, undo.arguments())?;
        Ok(())
    }

    /// Writes the end of an undo of more than one record.
    pub(crate) fn end_undo(&mut self, undo_next: Option<LogOffset>) -> Result<()> {
        Head(&mut self.head).nested_end(undo_next, UndoShape::None, None);
        self.append(Kind::NESTED_END, &[])?;
        Ok(())
    }
}

/// Nested sequences of a transaction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nesting {
    /// Number of open sequences.
    pub(crate) depth: u32,
    /// The innermost of them: a savepoint belongs to one.
    pub(crate) scope: u32,
    /// Number of all sequences so far.
    scopes: u32,
    /// Number of open sequences that will log an end. Room is kept back for each, so that no end fails for lack of room
    /// after a step.
    pub(crate) ends: u32,
}

impl Nesting {
    fn open(&mut self) {
        self.depth += 1;
        self.ends += 1;
        self.scopes += 1;
        self.scope = self.scopes;
    }

    /// Returns to the state before a sequence was opened. The numbers of sequences are not used again.
    fn close_to(&mut self, before: Nesting) {
        *self = Nesting { scopes: self.scopes, ..before };
    }
}

/// The number of a transaction, and the address of its store.
pub(crate) type Identity = (TxnId, *const Inner);

/// A sequence that has begun and not ended. Drop during a panic undoes it.
struct Open<'t> {
    txn: &'t mut Txn,
    /// The transaction that began it, and the log of its store.
    of: Identity,
    log: Log,
    /// The transaction's newest record when the sequence began.
    last: Option<LogOffset>,
    owed: u64,
    change_mode: ChangeMode,
    nesting: Nesting,
    done: bool,
}

impl Open<'_> {
    /// Whether `work` has put another transaction into the place of this one.
    fn is_exchanged(&self) -> bool {
        self.txn.identity() != self.of
    }

    fn end(&mut self, undo: &Undo) -> Result<()> {
        self.txn.begin_call()?;
        let ended = self.end_in_call(undo);
        self.txn.end_call();
        ended
    }

    fn end_in_call(&mut self, undo: &Undo) -> Result<()> {
        if matches!(undo.kind, UndoKind::Derived | UndoKind::Operation { .. }) {
            return Err(Error::Misuse("the undo of a nested top action is logical, a finish, or none"));
        }
        if self.txn.cursor.last == self.last && undo.is_none() {
            return Ok(()); // nothing happened
        }
        self.txn.enter()?;
        // The neighbouring changes stay, so this one stays too: a table undone by meaning would leave its name behind.
        let undo =
            if self.change_mode == ChangeMode::Plain && self.txn.gave_up_atomicity() { &Undo::none() } else { undo };
        let undo_space = undo_space(undo, 0);
        // The reservation for ends is released for this one: an end without undo always has room.
        self.txn.nesting.ends = self.nesting.ends;
        // The steps no longer need an undo of their own.
        self.txn.cursor.owed = self.owed.max(crate::transaction::END_SPACE);
        let grown = if undo.is_none() && !planted!("growth_not_reserved") { u64::from(undo.log_bytes) } else { 0 };
        self.txn.reserve_for_records(record_space(undo.arguments().len()), undo_space + grown)?;
        self.txn.end_nested(self.last, undo)?;
        self.txn.cursor.owed += undo_space;
        self.txn.cursor.grown += grown;
        Ok(())
    }

    fn take_back(&mut self) -> Result<()> {
        self.txn.take_back_to(self.last, self.owed)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.is_exchanged() {
            // The sequence is half done, its latches are about to be released, and its transaction is out of reach.
            let why =
                "a nested sequence is half done: its transaction was exchanged for another one; open the store again";
            let log = if planted!("other_store_stopped") { &self.txn.inner().log } else { &self.log };
            return log.stop(why);
        }
        if !self.done && !planted!("unfinished_action_kept") {
            let (last, owed) = (self.last, self.owed);
            // An error stops the store, which reports it to all later callers.
            in_destructor(self.txn, |txn| drop(txn.take_back_to(last, owed)));
        }
        self.txn.change_mode = self.change_mode;
        self.txn.nesting.close_to(self.nesting);
    }
}
