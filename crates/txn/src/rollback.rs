//! Taking back: rollback, savepoints, and recovery's undo are one walk along a transaction's chain.
//!
//! | record | what is done | next to undo |
//! |---|---|---|
//! | update, deferred in this run | its keeper is told; an inverse is logged, and not done (E19.6) | the record before |
//! | update, with the inverse of its page | compensation on the page | the record before |
//! | update, with a logical undo | the call, as a nested top action (E5) | the record before, once its end is logged |
//! | update, redo-only; user's own; heap words; prepare | nothing: heaps hold only what was committed | the record before |
//! | compensation | nothing: never undone (E5.4) | what it says |
//! | nested end, without undo; return to a savepoint | nothing | what it says |
//! | nested end, with undo | the call, as a nested top action | what it says, once its end is logged |
//! | undo only | the call: finishes what was begun | the record before, once its end is logged |

use cedrat_pages::PageId;
use cedrat_wal::{Backwards, Kind, LogOffset, Lsn, Position, TxnId};

use crate::body::{Body, LoggedUndo, Redo};
use crate::error::{Error, Result};
use crate::operation::RecordId;
use crate::registry::{CallError, Does, Misfit};
use crate::transaction::{END_ROOM, How, Txn};
use crate::undo::{Undo, UndoKind};

/// A transaction's records, newest first, as undo walks them.
pub(crate) struct Chain {
    txn: TxnId,
    backwards: Backwards,
    record: ChainRecord,
}

/// A record with a body of its own: undoing it writes to the log it was read from.
#[derive(Debug)]
pub(crate) struct ChainRecord {
    lsn: Lsn,
    offset: LogOffset,
    kind: Kind,
    previous: Option<LogOffset>,
    body: Vec<u8>,
}

impl Chain {
    /// The record it stands at.
    pub(crate) fn record(&self) -> &ChainRecord {
        &self.record
    }

    /// Goes to the record at `to`, and says when it was written.
    pub(crate) fn advance(&mut self, to: Option<LogOffset>) -> Result<Option<Lsn>> {
        if to.is_none() {
            return Ok(None);
        }
        self.backwards.seek(to);
        let Some(read) = self.backwards.next()? else { return Ok(None) };
        if read.head.txn != self.txn {
            return Err(Error::bad_record(read.lsn, "it stands in another transaction's chain"));
        }
        let record = &mut self.record;
        record.lsn = read.lsn;
        record.offset = read.position.offset;
        record.kind = read.head.kind;
        record.previous = read.head.previous;
        record.body.clear();
        record.body.extend_from_slice(read.body);
        Ok(Some(record.lsn))
    }

    /// On to what is next to undo.
    pub(crate) fn step_back(&mut self) -> Result<Option<Lsn>> {
        let next = self.record.next_to_undo()?;
        self.advance(next)
    }

    /// On to the record before, whatever is next to undo.
    pub(crate) fn previous(&mut self) -> Result<Option<Lsn>> {
        self.advance(self.record.previous)
    }
}

/// A change that was deferred.
pub(crate) struct DeferredChange<'a> {
    pub(crate) at: RecordId,
    /// The inverse's number, and its arguments.
    pub(crate) inverse: Option<(u32, &'a [u8])>,
    pub(crate) committed_only: bool,
}

impl ChainRecord {
    pub(crate) fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The update, as one that was deferred.
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

    fn is_committed_only(&self) -> Result<bool> {
        Ok(matches!(self.parse()?, Body::Update { committed_only: true, .. }))
    }

    pub(crate) fn parse(&self) -> Result<Body<'_>> {
        Body::parse(self.kind, &self.body).map_err(|bad| Error::bad_record(self.lsn, bad.0))
    }

    /// The page it changed.
    pub(crate) fn page(&self) -> Result<Option<PageId>> {
        Ok(self.parse()?.redo().map(|redo| redo.at.page))
    }

    /// Where undoing goes on after this record.
    pub(crate) fn next_to_undo(&self) -> Result<Option<LogOffset>> {
        let next = match self.parse()? {
            Body::Update { .. }
            | Body::UndoOnly { .. }
            | Body::User { .. }
            | Body::HeapPart { .. }
            | Body::Prepare { .. }
            | Body::Void => self.previous,
            Body::NestedEnd { undo_next, .. } | Body::Compensation { undo_next, .. } => undo_next,
            Body::Commit { .. } | Body::RollbackEnd => {
                return Err(Error::bad_record(self.lsn, "a transaction that has ended is being undone"));
            }
        };
        if next >= Some(self.offset) {
            return Err(Error::bad_record(self.lsn, "what it says is next to undo does not lie before it (E5.4)"));
        }
        Ok(next)
    }
}

/// An undo ready to be done: as logged, or as derived from the redo.
enum Step<'a> {
    Nothing,
    Page {
        operation: u32,
        at: RecordId,
        arguments: &'a [u8],
    },
    /// The same, derived.
    DerivedPage {
        operation: u32,
        at: RecordId,
        arguments: crate::SmallBytes,
    },
    Call {
        number: u32,
        arguments: &'a [u8],
        how: How,
    },
    DerivedCall {
        number: u32,
        arguments: crate::SmallBytes,
        how: How,
    },
}

/// Stops the store if an undo panics: what it left is half undone, and only recovery can go on from there.
///
/// It does not ask whether the thread is panicking: a rollback may run while the application's own panic unwinds.
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
    /// This transaction's chain, to be walked.
    pub(crate) fn chain(&self) -> Chain {
        let offset = self.last.unwrap_or(LogOffset::ZERO);
        Chain {
            txn: self.id,
            backwards: self.inner().log.backwards(Position { partition: self.partition, offset }),
            record: ChainRecord { lsn: Lsn::ZERO, offset, kind: Kind::VOID, previous: None, body: Vec::new() },
        }
    }

    /// Undoes every record after `back_to`, newest first, and the transaction goes on. Afterwards `owed` is what
    /// undoing the rest takes.
    ///
    /// A failure stops the store: what cannot be undone cannot be left either.
    pub(crate) fn undo_back_to(&mut self, back_to: Option<LogOffset>, owed: u64) -> Result<()> {
        self.undo_since(back_to, owed, true)
    }

    /// Undoes every record; the transaction ends.
    pub(crate) fn undo_everything(&mut self) -> Result<()> {
        self.undo_since(None, END_ROOM, false)
    }

    fn undo_since(&mut self, back_to: Option<LogOffset>, owed: u64, goes_on: bool) -> Result<()> {
        if self.last <= back_to {
            return Ok(());
        }
        self.inner().alive()?;
        let before = (self.undoing, self.how);
        self.undoing = true;
        let undone = self.walk_back_to(back_to, goes_on);
        self.deferred.back_to(back_to);
        (self.undoing, self.how) = before;
        self.owed = owed.max(END_ROOM);
        if let Err(error) = &undone {
            self.inner().log.stop(format!("transaction {} could not be undone: {error}", self.id));
        }
        undone
    }

    fn walk_back_to(&mut self, back_to: Option<LogOffset>, goes_on: bool) -> Result<()> {
        let mut chain = self.chain();
        let mut more = chain.advance(self.last)?;
        let mut some_would_count = false;
        while more.is_some() && Some(chain.record.offset) > back_to {
            some_would_count |= self.deferred.is_any() && chain.record.is_committed_only()?;
            self.undo_record(&chain.record)?;
            more = chain.step_back()?;
        }
        // Of a transaction that commits after all.
        if some_would_count && goes_on { self.log_return_to(back_to) } else { Ok(()) }
    }

    /// Undoes one record, if it wants undo: says whether it did.
    pub(crate) fn undo_record(&mut self, record: &ChainRecord) -> Result<bool> {
        let lsn = record.lsn;
        let (undo, redo) = match record.parse()? {
            Body::Update { redo, .. } if self.has_deferred(&redo) => return self.take_back_deferred(record),
            Body::Update { redo, undo, .. } => (undo, Some(redo)),
            Body::NestedEnd { undo, .. } | Body::UndoOnly { undo } => (undo, None),
            _ => (LoggedUndo::None, None),
        };
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
            Step::Call { number, arguments, how } => self.undo_by_call(number, arguments, how, next)?,
            Step::DerivedCall { number, arguments, how } => self.undo_by_call(number, &arguments, how, next)?,
        }
        Ok(true)
    }

    /// Whether the change was deferred in this run. Recovery takes one back in its page, as any other.
    fn has_deferred(&self, redo: &Redo<'_>) -> bool {
        let is_delta = |number| self.inner().numbers.operation(number).is_some_and(|table| table.by_version);
        self.deferred.is_any() && is_delta(redo.operation)
    }

    fn step<'a>(&self, undo: LoggedUndo<'a>, redo: Option<Redo<'a>>, lsn: Lsn) -> Result<Step<'a>> {
        Ok(match (undo, redo) {
            (LoggedUndo::None, _) => Step::Nothing,
            (LoggedUndo::Logical { number, arguments }, _) => Step::Call { number, arguments, how: How::Nested },
            (LoggedUndo::Finish { number, arguments }, _) => Step::Call { number, arguments, how: How::Ordered },
            (LoggedUndo::Operation { number, slot, arguments }, Some(redo)) => Step::Page {
                operation: number,
                at: RecordId { page: redo.at.page, slot: slot.unwrap_or(redo.at.slot) },
                arguments,
            },
            (LoggedUndo::Derived, Some(redo)) => self.derived(redo, lsn)?,
            (LoggedUndo::Operation { .. } | LoggedUndo::Derived, None) => {
                return Err(Error::bad_record(lsn, "an undo that needs a page, where no page is"));
            }
        })
    }

    /// The undo that an operation derives from its redo's arguments.
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
            UndoKind::Logical(call) => {
                Step::DerivedCall { number: number(call.of)?, arguments: call.arguments, how: How::Nested }
            }
            UndoKind::Finish(call) => {
                Step::DerivedCall { number: number(call.of)?, arguments: call.arguments, how: How::Ordered }
            }
            UndoKind::Derived | UndoKind::Unspeakable(_) => {
                return Err(Error::bad_record(lsn, "its operation derives no undo that could be done"));
            }
        })
    }

    /// An undo by meaning, as a nested top action (E5): cut short by a crash, its page steps are undone first, and then it
    /// runs again.
    fn undo_by_call(&mut self, number: u32, arguments: &[u8], how: How, next: Option<LogOffset>) -> Result<()> {
        let begun_as = std::mem::replace(&mut self.how, how);
        self.depth += 1;
        let called = {
            let mut guard = StopOnPanic { txn: self, returned: false };
            let called = guard.txn.call(number, arguments);
            guard.returned = true;
            called
        };
        self.depth -= 1;
        self.how = begun_as;
        called?;
        self.end_undo(next)
    }

    fn call(&mut self, number: u32, arguments: &[u8]) -> Result<()> {
        let inner = self.inner();
        let table = match inner.numbers.entry(number).map(|entry| entry.does) {
            Some(Does::Logical(table) | Does::Finish(table)) => table,
            _ => return Err(inner.unregistered(number)),
        };
        (table.call)(arguments, self).map_err(|error| match error {
            CallError::Failed(error) => error,
            CallError::Arguments => Error::bad_record(Lsn::ZERO, "the arguments of an undo are not its own"),
        })
    }

    /// What a compensation says is next: `next`, unless a fault is planted.
    fn planted(&self, offset: LogOffset, next: Option<LogOffset>) -> Option<LogOffset> {
        #[cfg(feature = "planted-faults")]
        if self.inner().fault == Some(crate::Fault::CompensationChainWrong) {
            return Some(offset);
        }
        let _ = offset;
        next
    }
}
