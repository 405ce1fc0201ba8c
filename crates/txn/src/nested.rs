//! Changes of several pages: three ways, each its own call (E14.1; Lemon §4.3).
//!
//! | call | while it runs | if it fails half-way | once it has ended |
//! |---|---|---|---|
//! | [`Txn::nested`] | the structure's latches keep others out | undone page by page, under the latches | stays, whatever becomes of the transaction; undone by meaning |
//! | [`Txn::isolated`] | a lock to the end of the transaction keeps others out | undone page by page | undone page by page with the transaction |
//! | [`Txn::ordered`] | each step leaves the structure readable | *finished*, not undone | stays |

use cedrat_pages::PageId;
use cedrat_wal::{Kind, LogOffset};

use crate::body::{Head, UndoShape, room_for};
use crate::error::{Error, Result};
use crate::locks::{LockMode, Resource};
use crate::operation::Finish;
use crate::transaction::{How, Txn};
use crate::undo::{Undo, UndoKind};
use crate::update::undo_room;

impl Txn {
    /// A nested top action: what `work` does stays even if this transaction rolls back; then the undo that `work` returned
    /// takes its *meaning* back (Lemon §4.3).
    ///
    /// 1. Take the latches that keep others from seeing the structure half changed, and hand them in: they are released
    ///    when the action has ended, or has been undone.
    /// 2. `work` changes as many pages as it likes with this transaction, without locks (E15.3).
    /// 3. It returns its value and the undo of the whole: [`Undo::logical`], [`Undo::finish`], or [`Undo::none`] for a
    ///    change that only shapes, such as the split of a bucket.
    ///
    /// Fails or panics `work`, its steps are undone page by page before the latches are released (E13.4).
    ///
    /// # Errors
    /// Those of `work`; [`Error::LogFull`]; [`Error::PinsLog`], after which the transaction can only be rolled back.
    pub fn nested<G, T>(&mut self, latches: G, work: impl FnOnce(&mut Txn) -> Result<(T, Undo)>) -> Result<T> {
        self.alive()?;
        if self.how == How::Ordered {
            return Err(Error::Misuse("an ordered sequence is redo-only; a nested top action cannot lie within it"));
        }
        let result = self.in_sequence(How::Nested, |txn| {
            let (value, undo) = work(txn)?;
            Ok((value, Some(undo)))
        });
        drop(latches); // after the end record, or the physical undo
        result
    }

    /// Declared full isolation: the big lock on the structure at `root` is taken to the end of the transaction, and several
    /// pages may be changed under it with ordinary undo ("given isolation, Lemon needs nothing else", §4.3).
    ///
    /// With [`crate::NoLocks`] the caller vouches for the isolation.
    ///
    /// # Errors
    /// Those of `work`, whose changes are then undone; [`Error::Deadlock`].
    pub fn isolated<T>(&mut self, root: PageId, work: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> {
        self.lock(Resource::Structure(root), LockMode::Exclusive)?;
        let stays = self.how == How::Plain && self.gave_up_atomicity();
        self.in_sequence(How::Isolated, |txn| Ok((work(txn)?, stays.then(Undo::none))))
    }

    /// An ordered sequence of redo-only changes behind a check-and-finish undo (LLADD, bucket split; Lemon §6).
    ///
    /// `finish` is logged first. Each change of `work` is logged without undo, and must leave the structure readable. If
    /// `work` fails or panics, or a crash cuts the sequence, `finish` is called: it looks how far the sequence came and
    /// completes it. There is no way back, so pages allocated within it are `finish`'s to find.
    ///
    /// # Errors
    /// Those of `work`; the sequence has then been finished all the same. [`Error::LogFull`], [`Error::PinsLog`]: it has not
    /// begun; after the latter the transaction can only be rolled back.
    pub fn ordered<G, F: Finish, T>(
        &mut self,
        latches: G,
        finish: &F,
        work: impl FnOnce(&mut Txn) -> Result<T>,
    ) -> Result<T> {
        self.alive()?;
        let undo = Undo::finish(finish);
        let undo_room = undo_room(&undo, 0);
        let result = self.in_sequence(How::Ordered, |txn| {
            // Within: whoever is the victim of a full log outside of what is nested rolls back at once, and its undo would
            // ask for the latches that are held here.
            txn.enter()?;
            txn.room_for_records(room_for(undo.arguments().len()), undo_room)?;
            let (shape, call) = txn.inner().shape_of(&undo)?;
            let (number, _) = call.expect("a finish is a call");
            Head(&mut txn.head).undo_only(shape, number);
            txn.append(Kind::UNDO_ONLY, undo.arguments())?;
            txn.owed += undo_room;
            Ok((work(txn)?, Some(Undo::none())))
        });
        drop(latches);
        result
    }

    /// Runs `work` so that it happens as a whole or is undone back to here, by error as by panic. With an undo of the whole
    /// its end is logged, and later rollbacks pass it by.
    pub(crate) fn in_sequence<T>(
        &mut self,
        how: How,
        work: impl FnOnce(&mut Txn) -> Result<(T, Option<Undo>)>,
    ) -> Result<T> {
        let mut open = Open {
            last: self.last,
            owed: self.owed,
            how: self.how,
            scope: self.scope,
            ends: self.ends,
            txn: self,
            done: false,
        };
        open.txn.how = how;
        open.txn.depth += 1;
        open.txn.ends += 1;
        open.txn.scopes += 1;
        open.txn.scope = open.txn.scopes;
        let id = open.txn.id;
        let result = work(open.txn);
        assert!(open.txn.id == id, "the transaction was exchanged for another one");
        match result {
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

    /// Writes the end of a nested top action: rolling back goes on at `undo_next` once `undo` was done (E5.2).
    pub(crate) fn end_nested(&mut self, undo_next: Option<LogOffset>, undo: &Undo) -> Result<()> {
        let (shape, call) = self.inner().shape_of(undo)?;
        Head(&mut self.head).nested_end(undo_next, shape, call.map(|(number, _)| number));
        self.append(Kind::NESTED_END, undo.arguments())?;
        Ok(())
    }

    /// The end of an undo that was more than one record.
    pub(crate) fn end_undo(&mut self, undo_next: Option<LogOffset>) -> Result<()> {
        Head(&mut self.head).nested_end(undo_next, UndoShape::None, None);
        self.append(Kind::NESTED_END, &[])?;
        Ok(())
    }
}

/// A sequence that has begun and not ended. Dropped so, by a panic, it is taken back.
struct Open<'t> {
    txn: &'t mut Txn,
    /// The transaction's newest record when the sequence began.
    last: Option<LogOffset>,
    owed: u64,
    how: How,
    scope: u32,
    ends: u32,
    done: bool,
}

impl Open<'_> {
    fn end(&mut self, undo: &Undo) -> Result<()> {
        if matches!(undo.kind, UndoKind::Derived | UndoKind::Operation { .. }) {
            return Err(Error::Misuse("the undo of a nested top action is logical, a finish, or none"));
        }
        if self.txn.last == self.last && undo.is_none() {
            return Ok(()); // nothing happened
        }
        self.txn.enter()?;
        // Its neighbours stay, so it stays too: a table taken back by meaning would leave its name behind.
        let undo = if self.how == How::Plain && self.txn.gave_up_atomicity() { &Undo::none() } else { undo };
        let undo_room = undo_room(undo, 0);
        // What was kept back is for this: an end without undo finds its room.
        self.txn.ends = self.ends;
        // The steps need no undo of their own any more.
        self.txn.owed = self.owed.max(crate::transaction::END_ROOM);
        self.txn.room_for_records(room_for(undo.arguments().len()), undo_room)?;
        self.txn.end_nested(self.last, undo)?;
        self.txn.owed += undo_room;
        Ok(())
    }

    fn take_back(&mut self) -> Result<()> {
        self.txn.undo_back_to(self.last, self.owed)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.done {
            // An error stops the store, and says so to everyone who calls later.
            let _ = self.take_back();
        }
        self.txn.how = self.how;
        self.txn.scope = self.scope;
        self.txn.ends = self.ends;
        self.txn.depth -= 1;
    }
}
