//! Undo: rollback, savepoints, and recovery all follow a transaction's chain.
//!
//! | record | action | next to undo |
//! |---|---|---|
//! | update, deferred in this run | its keeper is notified; an inverse is logged, and not applied (E19.6) | the record before |
//! | update, with the inverse of its page | compensation on the page | the record before |
//! | update, with a logical undo | the call, as a nested top action (E5) | the record before, once its end is logged |
//! | update, redo-only; user's own; heap words; prepare | nothing: heaps contain only committed words | the record before |
//! | compensation | nothing: never undone (E5.4) | its undo next |
//! | nested end, without undo; return to a savepoint | nothing | its undo next |
//! | nested end, with undo | the call, as a nested top action | its undo next, once its end is logged |
//! | undo only | the call: finishes the sequence | the record before, once its end is logged |

use cedrat_pages::PageId;
use cedrat_sync::planted;
use cedrat_wal::{Backwards, Kind, LogOffset, Lsn, Position, TxnId};

use crate::body::{Body, CARRIED, Carried, LoggedUndo, Redo};
use crate::error::{Error, Result};
use crate::operation::RecordId;
use crate::registry::{CallError, Does, Misfit};
use crate::savepoint::Savepoint;
use crate::transaction::{ChangeMode, END_SPACE, Txn};
use crate::undo::{Undo, UndoKind};

/// A cursor over a transaction's records, newest first.
pub(crate) struct Chain {
    txn: TxnId,
    backwards: Backwards,
    record: ChainRecord,
}

/// A record with a copy of its body, since undoing it writes to the log from which it was read.
#[derive(Debug)]
pub(crate) struct ChainRecord {
    lsn: Lsn,
    offset: LogOffset,
    kind: Kind,
    previous: Option<LogOffset>,
    body: Vec<u8>,
    /// The LSN of the copy, if the record is one.
    copied_at: Option<Lsn>,
}

impl Chain {
    /// Returns the current record.
    pub(crate) fn record(&self) -> &ChainRecord {
        &self.record
    }

    /// Moves to the record at `to`, and returns its LSN.
    pub(crate) fn advance(&mut self, to: Option<LogOffset>) -> Result<Option<Lsn>> {
        if to.is_none() {
            return Ok(None);
        }
        self.backwards.seek(to);
        let Some(read) = self.backwards.next()? else { return Ok(None) };
        if read.head.txn != self.txn {
            return Err(Error::bad_record(read.lsn, "it is in the chain of another transaction"));
        }
        let record = &mut self.record;
        record.lsn = read.lsn;
        record.offset = read.position.offset;
        record.kind = read.head.kind;
        record.previous = read.head.previous;
        record.body.clear();
        record.copied_at = None;
        let mut body = read.body;
        if read.head.kind == CARRIED {
            // From here on it stands for the original record, at another position.
            let carried = Carried::take(body).map_err(|bad| Error::bad_record(read.lsn, bad.0))?;
            (record.lsn, record.kind, record.copied_at) = (carried.lsn, carried.kind, Some(read.lsn));
            body = carried.body;
        }
        record.body.extend_from_slice(body);
        Ok(Some(record.lsn))
    }

    /// Moves to the record that is next to undo.
    pub(crate) fn step_back(&mut self) -> Result<Option<Lsn>> {
        let next = self.record.next_to_undo()?;
        self.advance(next)
    }

    /// Moves to the previous record, whichever is next to undo.
    pub(crate) fn previous(&mut self) -> Result<Option<Lsn>> {
        self.advance(self.record.previous)
    }
}

/// A deferred change.
pub(crate) struct DeferredChange<'a> {
    pub(crate) at: RecordId,
    /// The number and the arguments of the inverse.
    pub(crate) inverse: Option<(u32, &'a [u8])>,
    pub(crate) committed_only: bool,
}

impl ChainRecord {
    pub(crate) fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Parses the update as a deferred change.
    pub(crate) fn deferred(&self) -> Result<DeferredChange<'_>> {
        let Body::Update { redo, undo, committed_only } = self.parse()? else {
            return Err(Error::bad_record(self.lsn, "it is no update"));
        };
        let inverse = match undo {
            LoggedUndo::Operation { number, arguments, .. } => Some((number, arguments)),
            _ => None,
        };
        Ok(DeferredChange { at: redo.at, inverse, committed_only })
    }

    /// Returns the LSN at which it lies in the log: that of the copy, if the record is one.
    pub(crate) fn logged_at(&self) -> Lsn {
        self.copied_at.unwrap_or(self.lsn)
    }

    pub(crate) fn is_copy(&self) -> bool {
        self.copied_at.is_some()
    }

    pub(crate) fn offset(&self) -> LogOffset {
        self.offset
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    fn is_committed_only(&self) -> Result<bool> {
        Ok(matches!(self.parse()?, Body::Update { committed_only: true, .. }))
    }

    pub(crate) fn parse(&self) -> Result<Body<'_>> {
        Body::parse(self.kind, &self.body).map_err(|bad| Error::bad_record(self.lsn, bad.0))
    }

    /// Returns the page that the record changed.
    pub(crate) fn page(&self) -> Result<Option<PageId>> {
        Ok(self.parse()?.redo().map(|redo| redo.at.page))
    }

    /// Returns the position at which undo continues after this record.
    pub(crate) fn next_to_undo(&self) -> Result<Option<LogOffset>> {
        let next = match self.parse()? {
            Body::Update { .. }
            | Body::UndoOnly { .. }
            | Body::User { .. }
            | Body::HeapPart { .. }
            | Body::Prepare { .. }
            | Body::Carried(_)
            | Body::Outcome { .. }
            | Body::Void => self.previous,
            Body::NestedEnd { undo_next, .. } | Body::Compensation { undo_next, .. } => undo_next,
            Body::Commit { .. } | Body::RollbackEnd => {
                return Err(Error::bad_record(self.lsn, "a transaction that has ended is being undone"));
            }
        };
        if next >= Some(self.offset) {
            return Err(Error::bad_record(self.lsn, "the record that it names as the next to undo is not older"));
        }
        Ok(next)
    }
}

/// An executable undo: as logged, or derived from the redo.
enum Step<'a> {
    Nothing,
    Page {
        operation: u32,
        at: RecordId,
        arguments: &'a [u8],
    },
    /// An undo on a page, derived from the redo.
    DerivedPage {
        operation: u32,
        at: RecordId,
        arguments: crate::SmallBytes,
    },
    Call {
        number: u32,
        arguments: &'a [u8],
        change_mode: ChangeMode,
    },
    DerivedCall {
        number: u32,
        arguments: crate::SmallBytes,
        change_mode: ChangeMode,
    },
}

/// Stops the store if an undo panics: it is half done, and only recovery can continue.
///
/// It ignores whether the thread is panicking, since a rollback may run while the application's own panic unwinds.
struct StopOnPanic<'a> {
    txn: &'a mut Txn,
    returned: bool,
}

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if !self.returned {
            self.txn.inner().log.stop(format!("the undo of transaction {} panicked", self.txn.id));
        }
    }
}

impl Txn {
    /// Returns a cursor over this transaction's chain.
    pub(crate) fn chain(&self) -> Chain {
        let offset = self.cursor.last.unwrap_or(LogOffset::ZERO);
        Chain {
            txn: self.id,
            backwards: self.inner().log.backwards(Position { partition: self.partition, offset }),
            record: ChainRecord {
                lsn: Lsn::ZERO,
                offset,
                kind: Kind::VOID,
                previous: None,
                body: Vec::new(),
                copied_at: None,
            },
        }
    }

    /// Undoes everything since a savepoint that was checked.
    pub(crate) fn return_to(&mut self, savepoint: Savepoint) -> Result<()> {
        if self.has_ended() {
            return Err(self.why_not_alive()); // its chain ends with a commit, or with the end of its rollback
        }
        self.forget_savepoints_since(savepoint);
        self.heap_back_to(savepoint.heap)?;
        self.undo_back_to(savepoint.last, savepoint.owed)
    }

    /// Undoes every record after `back_to`, newest first; the transaction continues. Afterwards `owed` is the log space
    /// that undoing the rest takes.
    ///
    /// A failure stops the store, since a change that cannot be undone must not stay either.
    pub(crate) fn undo_back_to(&mut self, back_to: Option<LogOffset>, owed: u64) -> Result<()> {
        self.undo_since(back_to, owed, true)
    }

    /// Undoes every record; the transaction ends.
    pub(crate) fn undo_everything(&mut self) -> Result<()> {
        self.undo_since(None, END_SPACE, false)
    }

    fn undo_since(&mut self, back_to: Option<LogOffset>, owed: u64, goes_on: bool) -> Result<()> {
        if self.cursor.last <= back_to {
            return Ok(());
        }
        self.inner().alive_here()?;
        if !planted!("rolled_back_by_thread_unknown") {
            self.inner().locks.rolls_back(self.id, !goes_on);
        }
        let before = (self.undoing, self.change_mode);
        self.undoing = true;
        let undone = self.walk_back_to(back_to, goes_on);
        self.deferred.back_to(back_to);
        (self.undoing, self.change_mode) = before;
        self.cursor.owed = owed.max(END_SPACE);
        if let Err(error) = &undone {
            self.inner().log.stop(format!("transaction {} could not be undone: {error}", self.id));
        }
        undone
    }

    fn walk_back_to(&mut self, back_to: Option<LogOffset>, goes_on: bool) -> Result<()> {
        let mut chain = self.chain();
        let mut more = chain.advance(self.cursor.last)?;
        let mut some_would_count = false;
        while more.is_some() && Some(chain.record.offset) > back_to {
            some_would_count |= self.deferred.is_any() && chain.record.is_committed_only()?;
            self.undo_record(&chain.record)?;
            more = chain.step_back()?;
        }
        // For a transaction that may still commit.
        if some_would_count && goes_on { self.log_return_to(back_to) } else { Ok(()) }
    }

    /// Undoes one record, if it needs undo. Returns whether it did.
    pub(crate) fn undo_record(&mut self, record: &ChainRecord) -> Result<bool> {
        let lsn = record.lsn;
        let (undo, redo) = match record.parse()? {
            Body::Update { redo, .. } if self.has_deferred(&redo) => return self.take_back_deferred(record),
            Body::Update { redo, undo, .. } => (undo, Some(redo)),
            Body::NestedEnd { undo, .. } | Body::UndoOnly { undo } => (undo, None),
            _ => (LoggedUndo::None, None),
        };
        let of = redo.as_ref().map(|redo| redo.operation);
        let next = record.next_to_undo()?;
        let next = self.planted(record.offset, next);
        let step = self.step(undo, redo, lsn)?;
        if !matches!(step, Step::Nothing) {
            self.deferred.withdraws(record.offset);
        }
        match step {
            Step::Nothing => return Ok(false),
            Step::Page { operation, at, arguments } => self.compensate(operation, at, arguments, next)?,
            Step::DerivedPage { operation, at, arguments } => self.compensate(operation, at, &arguments, next)?,
            Step::Call { number, arguments, change_mode } => self.undo_by_call(number, arguments, change_mode, next)?,
            Step::DerivedCall { number, arguments, change_mode } => {
                self.undo_by_call(number, &arguments, change_mode, next)?
            }
        }
        if let Some(operation) = of {
            self.inner().note_undone(operation);
        }
        Ok(true)
    }

    /// Whether the change was deferred in this run. Recovery undoes such a change in its page, like any other.
    fn has_deferred(&self, redo: &Redo<'_>) -> bool {
        let is_delta = |number| self.inner().numbers.operation(number).is_some_and(|table| table.by_version);
        self.deferred.is_any() && is_delta(redo.operation)
    }

    fn step<'a>(&self, undo: LoggedUndo<'a>, redo: Option<Redo<'a>>, lsn: Lsn) -> Result<Step<'a>> {
        Ok(match (undo, redo) {
            (LoggedUndo::None, _) => Step::Nothing,
            (LoggedUndo::Logical { number, arguments }, _) => {
                Step::Call { number, arguments, change_mode: ChangeMode::Nested }
            }
            (LoggedUndo::Finish { number, arguments }, _) => {
                Step::Call { number, arguments, change_mode: ChangeMode::Ordered }
            }
            (LoggedUndo::Operation { number, slot, arguments }, Some(redo)) => Step::Page {
                operation: number,
                at: RecordId { page: redo.at.page, slot: slot.unwrap_or(redo.at.slot) },
                arguments,
            },
            (LoggedUndo::Derived, Some(redo)) => self.derived(redo, lsn)?,
            (LoggedUndo::Operation { .. } | LoggedUndo::Derived, None) => {
                return Err(Error::bad_record(lsn, "its undo needs a page, and it names none"));
            }
        })
    }

    /// Returns the undo that an operation derives from its redo's arguments.
    fn derived<'a>(&self, redo: Redo<'a>, lsn: Lsn) -> Result<Step<'a>> {
        let inner = self.inner();
        let table = inner.numbers.operation(redo.operation).ok_or_else(|| inner.unregistered(redo.operation))?;
        let undo: Undo = (table.derive)(redo.arguments, redo.at).map_err(|misfit| match misfit {
            Misfit::Arguments => Error::bad_record(lsn, "its arguments are not those of its operation"),
            Misfit::Page(damaged) => damaged.into(),
            Misfit::Record(refused) => refused.into(),
        })?;
        let number = |of| {
            inner
                .numbers
                .of_type(of)
                .ok_or_else(|| Error::Unregistered { what: "the undo derived by", name: inner.name_of(redo.operation) })
        };
        Ok(match undo.kind {
            UndoKind::None => Step::Nothing,
            UndoKind::Operation { call, slot } => Step::DerivedPage {
                operation: number(call.of)?,
                at: RecordId { page: redo.at.page, slot: slot.unwrap_or(redo.at.slot) },
                arguments: call.arguments,
            },
            UndoKind::Logical(call) => Step::DerivedCall {
                number: number(call.of)?,
                arguments: call.arguments,
                change_mode: ChangeMode::Nested,
            },
            UndoKind::Finish(call) => Step::DerivedCall {
                number: number(call.of)?,
                arguments: call.arguments,
                change_mode: ChangeMode::Ordered,
            },
            UndoKind::Derived | UndoKind::Unspeakable(_) => {
                return Err(Error::bad_record(lsn, "its operation derives an undo that is not possible"));
            }
        })
    }

    /// Runs a logical undo as a nested top action (E5): if a crash interrupts it, its page steps are undone first, and
    /// then it runs again.
    fn undo_by_call(
        &mut self,
        number: u32,
        arguments: &[u8],
        change_mode: ChangeMode,
        next: Option<LogOffset>,
    ) -> Result<()> {
        let ends_first = planted!("undo_ends_before_its_steps");
        if ends_first {
            self.end_undo(next)?;
        }
        let begun_as = std::mem::replace(&mut self.change_mode, change_mode);
        let before = self.log_paid();
        self.nesting.depth += 1;
        let called = {
            let mut guard = StopOnPanic { txn: self, returned: false };
            let called = guard.txn.call(number, arguments);
            guard.returned = true;
            called
        };
        self.nesting.depth -= 1;
        self.change_mode = begun_as;
        called?;
        self.inner().note_undo_log(number, self.log_paid() - before);
        if ends_first { Ok(()) } else { self.end_undo(next) }
    }

    /// Bytes of log that the transaction's records have taken.
    fn log_paid(&self) -> u64 {
        self.cursor.reservation.as_ref().map_or(0, |reservation| reservation.paid().0)
    }

    fn call(&mut self, number: u32, arguments: &[u8]) -> Result<()> {
        let inner = self.inner();
        let table = match inner.numbers.entry(number).map(|entry| entry.does) {
            Some(Does::Logical(table) | Does::Finish(table)) => table,
            _ => return Err(inner.unregistered(number)),
        };
        inner.note_undone(number);
        let called = (table.call)(arguments, self);
        called.map_err(|error| match error {
            CallError::Failed(Error::InDoubt { id }) if self.inner().is_recovering() => {
                Error::UndoInDoubt { undo: self.inner().name_of(number), id } // E9.1f
            }
            CallError::Failed(error) => error,
            CallError::Arguments => Error::bad_record(Lsn::ZERO, "the arguments of an undo are not its own"),
        })
    }

    /// Returns the undo next of a compensation: `next`, unless a fault is planted.
    fn planted(&self, offset: LogOffset, next: Option<LogOffset>) -> Option<LogOffset> {
        #[cfg(feature = "planted-faults")]
        if self.inner().fault == Some(crate::Fault::CompensationChainWrong) {
            return Some(offset);
        }
        if planted!("compensation_names_itself") { Some(offset) } else { next }
    }
}
