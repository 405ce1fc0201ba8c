//! The update path, by which every change of a page is made (Lemon §3.1: `Tupdate`).
//!
//! | step | action | may fail |
//! |---|---|---|
//! | 1 | the lock manager's callback ([`Txn::update`]) | yes |
//! | 2 | the page's exclusive latch | yes |
//! | 3 | `prepare`: the undo | yes |
//! | 4 | room in the log for the record and its undo (E6.2) | yes |
//! | 5 | the page is announced as dirty (E3.3) | no |
//! | 6 | the record is appended: an LSN is drawn and filled | no |
//! | 7 | `redo`, and the LSN is stamped | only as damage, which stops the store (E6.3) |
//! | 8 | the latch is released | no |
//!
//! Rollback and recovery's undo use the same path from step 5 on ([`Txn::compensate`]); recovery's redo has its own
//! steps 5 and 7, with the same `redo`.

use std::any::TypeId;

use cedrat_pages::{Damaged, Exclusive, PoolError, Slot};
use cedrat_sync::planted;
use cedrat_wal::{Kind, LogOffset, Lsn, PartitionId, RecordHead, Spending};

use crate::body::{CARRIED_LONGER_MAX, COMPENSATION_LONGER_MAX, Head, UndoShape, record_space};
use crate::error::{Error, Result};
use crate::operation::{Operation, RecordId};
use crate::registry::Misfit;
use crate::store::Inner;
use crate::transaction::{ChangeMode, END_SPACE, Txn};
use crate::undo::{Call, Undo, UndoKind};

/// A transaction reports its log to the checkpointer in pieces of this many bytes.
pub(crate) const REPORT_EVERY: u64 = 256 << 10;

/// The choice of the undo of a change.
pub(crate) enum UndoOf {
    /// The undo that `prepare` returns.
    Own,
    /// This undo, whatever `prepare` returns.
    Given(Undo),
}

/// Executes steps 5 and 6. `head` and `arguments` of the transaction are the record's first parts; room was reserved.
///
/// A macro, because `page` borrows one field of the transaction while others change.
macro_rules! announce_and_append {
    ($txn:ident, $page:ident, $kind:expr, $last_part:expr) => {{
        let next = $txn.store.inner.log.current_lsn().next();
        $page.will_change(if $txn.undoing { $txn.redone_from(next) } else { next });
        let reservation = $txn.cursor.reservation.as_mut().expect("E6.2: room is reserved before a record is made");
        reservation.spend(if $txn.undoing { Spending::Undo } else { Spending::Forward });
        let log = &$txn.store.inner.log;
        let record = RecordHead::new($kind, $txn.id, $txn.cursor.last);
        let partition = if planted!("records_in_other_partition") { PartitionId(0) } else { $txn.partition };
        let appended = log.append(partition, record, &[&$txn.head, &$txn.arguments, $last_part], reservation);
        $txn.cursor.last = Some(appended.offset);
        appended
    }};
}

impl Txn {
    /// Executes steps 2 to 8.
    pub(crate) fn road<O: Operation>(&mut self, at: RecordId, operation: &O, undo_of: UndoOf) -> Result<Lsn> {
        self.admit_change()?;
        self.enter()?;
        let number = self.inner().number_of::<O>()?;
        self.store.inner.log.throttle(self.partition)?;
        self.arguments.clear();
        crate::encode::into_vec(operation, &mut self.arguments).map_err(|_| unspeakable(O::NAME))?;

        loop {
            let mut page = self.store.inner.latched::<O>(at)?;
            if planted!("locked_under_latch") {
                self.inner().locks.before_update(self.id, at.page).map_err(|deadlock| self.refused(deadlock))?;
            }
            let own = match operation.prepare(&page.page_ref(), at.slot) {
                Err(_) if planted!("refusal_ignored") => Undo::none(),
                prepared => prepared?,
            };
            let undo = match &undo_of {
                _ if self.is_redo_only() || self.undoing && planted!("undo_steps_without_undo") => &Undo::none(),
                UndoOf::Own => &own,
                UndoOf::Given(undo) => undo,
            };
            let (shape, call) = self.store.inner.shape_of(undo)?;
            let undo_len = undo.arguments().len();
            let body_len_bound = record_space(self.arguments.len() + undo_len);
            let undo_space =
                if planted!("undo_room_not_reserved") { 0 } else { undo_space(undo, self.arguments.len()) };
            if !self.has_reserved(body_len_bound, undo_space) {
                // Making room may wait for the disk, which is never done under a page's latch (E13.5).
                drop(page);
                let latching = planted!("room_awaited_under_latch").then(|| self.store.clone());
                let _latched = latching.as_ref().map(|store| store.read(at.page));
                self.reserve_for_records(body_len_bound, undo_space)?;
                continue;
            }
            Head(&mut self.head).update(number, at, shape, call, self.arguments.len());
            // Including the compensation: a change that is logged can be undone.
            let body_len = self.head.len() + self.arguments.len() + undo_len;
            self.store.inner.check_len(body_len + COMPENSATION_LONGER_MAX)?;

            // Nothing can fail from here on.
            self.cursor.owed += undo_space;
            let appended = announce_and_append!(self, page, Kind::UPDATE, undo.arguments());
            let done = page.change(appended.lsn, |page| {
                if planted!("changed_without_record") {
                    operation.first(page, at.slot)?;
                }
                operation.first(page, at.slot)
            });
            // Under the latch: no copy of the page is made before the store has stopped (E6.3b).
            let done = done.map_err(|damaged| self.store.inner.stop_for_damage(&damaged, O::NAME));
            drop(page);
            done?;
            self.cursor.logged += body_len_bound + CARRIED_LONGER_MAX as u64;
            self.note_logged(body_len_bound);
            return Ok(appended.lsn);
        }
    }

    /// Undoes one change of a page by an operation on the same page: steps 2 and 5 to 8. The record is redo-only and
    /// names the next record to undo (E5.4).
    pub(crate) fn compensate(
        &mut self,
        operation: u32,
        at: RecordId,
        arguments: &[u8],
        undo_next: Option<LogOffset>,
    ) -> Result<()> {
        let table = *self.inner().numbers.operation(operation).ok_or_else(|| self.inner().unregistered(operation))?;
        self.arguments.clear();
        self.arguments.extend_from_slice(arguments);
        Head(&mut self.head).compensation(operation, at, undo_next);
        if planted!("undo_locks") {
            self.inner().locks.before_update(self.id, at.page).map_err(|deadlock| self.refused(deadlock))?;
        }
        let mut page = self.store.inner.pool.exclusive(at.page)?;
        let appended = announce_and_append!(self, page, Kind::COMPENSATION, &[]);
        let done = page.change(appended.lsn, |page| (table.redo)(&self.arguments, page, at.slot));
        let done = done.map_err(|misfit| self.inner().stop_for_misfit(misfit, operation, appended.lsn));
        drop(page);
        done?;
        self.note_space_change(operation, at, appended.lsn);
        Ok(())
    }

    /// Writes a compensation record for the caller (Lemon §1: "write a compensation record"): `operation` is applied
    /// and never undone, and rollback continues at `next`, skipping everything since. Savepoints taken since become
    /// invalid. The page is locked as by [`Txn::update`].
    ///
    /// # Errors
    /// As [`Txn::update`]; [`Error::Misuse`] for a savepoint that [`Txn::rollback_to`] would refuse.
    pub fn update_compensating<O: Operation>(
        &mut self,
        at: RecordId,
        operation: &O,
        next: crate::Savepoint,
    ) -> Result<()> {
        self.check_savepoint(&next)?;
        self.lock_for_update(at.page)?;
        self.as_last_step(|txn| txn.compensating_road(at, operation, next))
    }

    fn compensating_road<O: Operation>(&mut self, at: RecordId, operation: &O, next: crate::Savepoint) -> Result<()> {
        if self.deferred.since(next.last) {
            return Err(Error::Misuse(
                "the transaction has deferred changes since the savepoint, and a rollback would omit them",
            ));
        }
        self.admit_change()?;
        self.enter()?;
        let number = self.inner().number_of::<O>()?;
        self.store.inner.log.throttle(self.partition)?;
        self.arguments.clear();
        crate::encode::into_vec(operation, &mut self.arguments).map_err(|_| unspeakable(O::NAME))?;
        let space = record_space(self.arguments.len());
        self.reserve_for_records(space, 0)?;
        Head(&mut self.head).compensation(number, at, next.last);
        self.store.inner.check_len(self.head.len() + self.arguments.len())?;
        let mut page = self.store.inner.latched::<O>(at)?;
        operation.prepare(&page.page_ref(), at.slot)?;
        let appended = announce_and_append!(self, page, Kind::COMPENSATION, &[]);
        let done = page.change(appended.lsn, |page| operation.first(page, at.slot));
        let done = done.map_err(|damaged| self.store.inner.stop_for_damage(&damaged, O::NAME));
        drop(page);
        self.forget_savepoints_since(next);
        done
    }

    /// Whether changes are logged without undo: in an ordered sequence, and without atomicity.
    #[inline]
    fn is_redo_only(&self) -> bool {
        self.change_mode == ChangeMode::Ordered || self.change_mode == ChangeMode::Plain && self.gave_up_atomicity()
    }

    /// Whether changes outside of nested sequences stay if the transaction rolls back.
    #[inline]
    pub(crate) fn gave_up_atomicity(&self) -> bool {
        !self.options.atomicity && !self.undoing
    }

    /// Checks that a change may be made now.
    #[inline]
    pub(crate) fn admit_change(&mut self) -> Result<()> {
        self.alive()?;
        if let Some(entry) = &self.entry
            && entry.claim.is_doomed()
            && !self.undoing
        {
            return Err(self.obey());
        }
        Ok(())
    }
}

/// Returns the maximum log space of an undo: a compensation, or the steps of a logical undo and its end.
pub(crate) fn undo_space(undo: &Undo, redo_arguments_len: usize) -> u64 {
    let one_record = match &undo.kind {
        UndoKind::None => return 0,
        UndoKind::Derived => record_space(redo_arguments_len),
        _ => record_space(undo.arguments().len()),
    };
    one_record + if undo.log_bytes == 0 { 0 } else { u64::from(undo.log_bytes) + END_SPACE }
}

pub(crate) fn unspeakable(name: &'static str) -> Error {
    let _ = name;
    Error::Misuse("the arguments of an operation cannot be serialised: a sequence without a known length, or the like")
}

impl Inner {
    /// Takes the page's exclusive latch: step 2. A page that will be formatted need not be read.
    #[inline]
    fn latched<O: Operation>(&self, at: RecordId) -> Result<Exclusive<'_>, PoolError> {
        if O::FORMATS { self.pool.exclusive_fresh(at.page) } else { self.pool.exclusive(at.page) }
    }

    #[inline]
    pub(crate) fn number_of<O: Operation>(&self) -> Result<u32> {
        self.numbers
            .of_type(TypeId::of::<O>())
            .ok_or_else(|| Error::Unregistered { what: "the operation", name: O::NAME.into() })
    }

    /// Returns the shape in which an undo is logged, and its call.
    #[inline]
    #[allow(clippy::type_complexity, reason = "the call's number, and its slot if it is another one")]
    pub(crate) fn shape_of(&self, undo: &Undo) -> Result<(UndoShape, Option<(u32, Option<Slot>)>)> {
        let number = |call: &Call| {
            self.numbers
                .of_type(call.of)
                .ok_or_else(|| Error::Unregistered { what: "the undo", name: call.name.into() })
        };
        Ok(match &undo.kind {
            UndoKind::None => (UndoShape::None, None),
            UndoKind::Derived => (UndoShape::Derived, None),
            UndoKind::Operation { call, slot: None } => (UndoShape::Operation, Some((number(call)?, None))),
            UndoKind::Operation { call, slot } => (UndoShape::OperationAt, Some((number(call)?, *slot))),
            UndoKind::Logical(call) => (UndoShape::Logical, Some((number(call)?, None))),
            UndoKind::Finish(call) => (UndoShape::Finish, Some((number(call)?, None))),
            UndoKind::Unspeakable(name) => return Err(unspeakable(name)),
        })
    }

    #[inline]
    pub(crate) fn check_len(&self, body_len: usize) -> Result<()> {
        if body_len > self.body_len_max {
            return Err(Error::TooLarge {
                what: "a log record",
                given: body_len as u64,
                limit: self.body_len_max as u64,
            });
        }
        Ok(())
    }

    /// Stops the store because a redo found its page damaged after its record was logged: memory and log have diverged
    /// (E6.3).
    #[cold]
    pub(crate) fn stop_for_damage(&self, damaged: &Damaged, operation: &str) -> Error {
        self.log.stop(format!("{operation}: {damaged}"));
        self.pool.damaged(*damaged).into()
    }

    /// Stops the store because the redo of record `lsn` has failed. The caller has the latch of the page, which may be half
    /// changed (E6.3b).
    #[cold]
    pub(crate) fn stop_for_misfit(&self, misfit: Misfit, operation: u32, lsn: Lsn) -> Error {
        let name = self.name_of(operation);
        match misfit {
            Misfit::Page(damaged) => self.stop_for_damage(&damaged, &name),
            Misfit::Record(refused) => {
                self.log.stop(format!("{name}: {refused}"));
                refused.into()
            }
            Misfit::Arguments => {
                let what = format!("its arguments are not those of {name}");
                self.log.stop(what.clone());
                Error::bad_record(lsn, what)
            }
        }
    }

    #[cold]
    pub(crate) fn unregistered(&self, number: u32) -> Error {
        Error::Unregistered { what: "operation", name: self.name_of(number) }
    }

    pub(crate) fn name_of(&self, number: u32) -> String {
        self.numbers.name(number).map_or_else(|| format!("number {number}"), str::to_owned)
    }
}
