//! Heuristic outcomes: branches that an operator has ended, of which their transaction manager does not know (E9.4).
//!
//! ```text
//!   prepare │ outcome: committed   │ commit                   one record before the commit record
//!   prepare │ outcome: rolled back │ compensations … │ end    the first record of the rollback
//!                                                … │ outcome │   a copy, of no transaction
//!                                                … │ forgotten │ of no transaction
//! ```
//!
//! The record of a commit counts with the commit record behind it; that of a rollback is its beginning. So the end of a
//! branch and its outcome are atomic across crashes. The store keeps the outcome until it is forgotten: a checkpoint copies
//! its record to the head of the log instead of keeping the log for it.

use std::collections::{BTreeMap, HashMap};

use cedrat_sync::{Mutex, MutexGuard, planted};
use cedrat_wal::{Kind, LogOffset, Lsn, PartitionId, RecordHead, RecordRef, TxnId};

use crate::body::{Body, CUT, Corrupt, record_space};
use crate::branch::BRANCH_ID_LEN_MAX;
use crate::carry::CarryReservation;
use crate::checkpoint::Carries;
use crate::error::{BranchError, Result};
use crate::explain::hexadecimal;
use crate::store::{Inner, Store};

/// The record of the outcome of a branch that an operator has ended.
pub const OUTCOME: Kind = match Kind::new(12) {
    Some(kind) => kind,
    None => unreachable!(),
};

/// The outcome of a branch that an operator has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeuristicOutcome {
    /// All of its changes stay.
    Committed,
    /// None of its changes stays.
    RolledBack,
}

/// A branch that an operator has ended and that is not forgotten yet, as [`Store::heuristic_branches`] lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeuristicBranch {
    /// The identifier under which it prepared.
    pub id: Vec<u8>,
    /// The outcome.
    pub outcome: HeuristicOutcome,
    /// The LSN of the record of the outcome, or of its newest copy.
    pub lsn: Lsn,
}

impl HeuristicBranch {
    /// Lists the heuristic outcomes that opening a store would find, for tools that do not open it.
    ///
    /// # Errors
    /// Damage of the log; [`Error::BadRecord`](crate::Error::BadRecord).
    pub fn look(found: &cedrat_wal::Found) -> Result<Vec<HeuristicBranch>> {
        Ok(crate::recovery::look_at_branches(found)?.1)
    }
}

/// The content of a record of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum OutcomeCode {
    Committed = 1,
    RolledBack = 2,
    Forgotten = 3,
}

impl OutcomeCode {
    pub(crate) fn from_number(number: u8) -> Option<OutcomeCode> {
        [OutcomeCode::Committed, OutcomeCode::RolledBack, OutcomeCode::Forgotten]
            .into_iter()
            .find(|logged| *logged as u8 == number)
    }
}

impl From<HeuristicOutcome> for OutcomeCode {
    fn from(outcome: HeuristicOutcome) -> OutcomeCode {
        match outcome {
            HeuristicOutcome::Committed => OutcomeCode::Committed,
            HeuristicOutcome::RolledBack => OutcomeCode::RolledBack,
        }
    }
}

/// Takes the body of the record of an outcome.
pub(crate) fn take(bytes: &[u8]) -> Result<(OutcomeCode, &[u8]), Corrupt> {
    let (&number, id) = bytes.split_first().ok_or(CUT)?;
    let logged =
        OutcomeCode::from_number(number).ok_or(Corrupt("its outcome is unknown; it may be of a newer version"))?;
    if id.is_empty() || id.len() > BRANCH_ID_LEN_MAX {
        return Err(Corrupt("the identifier of its branch has an invalid length"));
    }
    Ok((logged, id))
}

/// The maximum log space of the record of an outcome.
pub(crate) const OUTCOME_SPACE: u64 = record_space(1 + BRANCH_ID_LEN_MAX);

/// The outcomes that analysis finds in the log.
#[derive(Debug, Default)]
pub(crate) struct FoundOutcomes {
    by_id: BTreeMap<Vec<u8>, (HeuristicOutcome, Lsn)>,
    /// Records of commits, each with its position: they count if the commit record follows.
    open: HashMap<TxnId, (Vec<u8>, Lsn, LogOffset)>,
}

impl FoundOutcomes {
    /// Notes a record, in the order of the log.
    pub(crate) fn note(&mut self, record: &RecordRef<'_>, body: &Body<'_>) {
        let (txn, lsn) = (record.head.txn, record.lsn);
        match *body {
            Body::Outcome { logged: OutcomeCode::Forgotten, id } => drop(self.by_id.remove(id)),
            Body::Outcome { logged: OutcomeCode::RolledBack, id } => {
                self.counts(id.to_vec(), HeuristicOutcome::RolledBack, lsn)
            }
            Body::Outcome { logged: OutcomeCode::Committed, id } if txn == TxnId::NONE => {
                self.counts(id.to_vec(), HeuristicOutcome::Committed, lsn);
            }
            Body::Outcome { logged: OutcomeCode::Committed, id } => {
                self.open.insert(txn, (id.to_vec(), lsn, record.position.offset));
            }
            Body::Commit { .. } if !self.open.is_empty() => {
                // If a crash has taken the commit record, the branch may have got another end since.
                if let Some((id, lsn, offset)) = self.open.remove(&txn)
                    && (record.head.previous == Some(offset) || planted!("outcome_counts_without_commit"))
                {
                    self.counts(id, HeuristicOutcome::Committed, lsn);
                }
            }
            _ => {}
        }
    }

    fn counts(&mut self, id: Vec<u8>, outcome: HeuristicOutcome, lsn: Lsn) {
        self.by_id.insert(id, (outcome, lsn));
    }

    pub(crate) fn into_branches(self) -> Vec<HeuristicBranch> {
        self.by_id.into_iter().map(|(id, (outcome, lsn))| HeuristicBranch { id, outcome, lsn }).collect()
    }
}

/// The outcome of a branch, until it is forgotten.
#[derive(Debug)]
struct OutcomeEntry {
    outcome: HeuristicOutcome,
    lsn: Lsn,
    /// Room for the next copy, or for the record that it is forgotten.
    room: CarryReservation,
}

/// The heuristic outcomes of a store.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    by_id: Mutex<BTreeMap<Vec<u8>, OutcomeEntry>>,
}

impl Outcomes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, OutcomeEntry>> {
        self.by_id.lock()
    }

    pub(crate) fn of(&self, id: &[u8]) -> Option<HeuristicOutcome> {
        Some(self.lock().get(id)?.outcome)
    }

    /// Returns the oldest LSN from which the log is needed.
    pub(crate) fn kept_from(&self) -> Option<Lsn> {
        if planted!("outcome_not_kept") {
            return None;
        }
        self.lock().values().map(|kept| kept.lsn).min()
    }
}

impl Store {
    /// Returns the branches that were ended by [`Prepared::resolve`](crate::Prepared::resolve), in this opening and earlier
    /// ones, and that are not forgotten.
    ///
    /// # Errors
    /// [`Error::Stopped`](crate::Error::Stopped) in a process that was forked from that of the store.
    pub fn heuristic_branches(&self) -> Result<Vec<HeuristicBranch>> {
        self.check_not_forked()?;
        let known = self.inner.outcomes.lock();
        let all =
            known.iter().map(|(id, kept)| HeuristicBranch { id: id.clone(), outcome: kept.outcome, lsn: kept.lsn });
        Ok(all.collect())
    }

    /// Forgets the heuristic outcome of a branch: its transaction manager knows it. Durable when this returns; the
    /// identifier can be used again.
    ///
    /// # Errors
    /// [`BranchError::NoOutcome`]; [`Error::LogFull`](crate::Error::LogFull): the outcome is kept.
    /// [`Error::Stopped`](crate::Error::Stopped): only reopening the store shows whether it is forgotten.
    pub fn forget_heuristic(&self, id: &[u8]) -> Result<()> {
        let inner = &self.inner;
        inner.alive()?;
        let mut known = inner.outcomes.lock();
        let kept = known.get_mut(id).ok_or_else(|| BranchError::NoOutcome { id: hexadecimal(id) })?;
        let lsn = inner.log_outcome_alone(id, OutcomeCode::Forgotten, &mut kept.room)?;
        known.remove(id);
        drop(known);
        if !planted!("forgetting_not_forced") {
            inner.log.force(lsn)?;
        }
        Ok(())
    }
}

impl Inner {
    /// Logs a record of an outcome that belongs to no transaction. It takes effect at once.
    fn log_outcome_alone(&self, id: &[u8], logged: OutcomeCode, room: &mut CarryReservation) -> Result<Lsn> {
        let mut reservation = room.take(self, OUTCOME_SPACE)?;
        let record = RecordHead::new(OUTCOME, TxnId::NONE, None);
        Ok(self.log.append(PartitionId(0), record, &[&[logged as u8], id], &mut reservation).lsn)
    }

    /// Keeps an outcome, with the LSN of its record. The log is kept from there until a checkpoint has copied the record
    /// (E9.4d).
    pub(crate) fn keep_outcome(&self, id: &[u8], outcome: HeuristicOutcome, lsn: Lsn) {
        let mut room = CarryReservation::of(OUTCOME_SPACE);
        room.reserve(self);
        self.outcomes.lock().insert(id.to_vec(), OutcomeEntry { outcome, lsn, room });
    }

    /// Copies the outcomes that hold too much of the log to its head. One that cannot be copied holds the log.
    pub(crate) fn carry_outcomes_forward(&self, carries: Carries) -> Result<()> {
        let mut carried = Ok(());
        for (id, kept) in &mut *self.outcomes.lock() {
            if !self.is_worth_carrying(kept.lsn, OUTCOME_SPACE, carries) {
                continue;
            }
            match self.log_outcome_alone(id, kept.outcome.into(), &mut kept.room) {
                Ok(lsn) => kept.lsn = lsn,
                Err(error) => carried = carried.and(Err(error)),
            }
        }
        carried
    }

    /// Reserves room for the next record of each outcome that has none.
    pub(crate) fn reserve_for_outcomes(&self) {
        self.outcomes.lock().values_mut().for_each(|kept| kept.room.reserve(self));
    }

    /// Restores the outcomes that analysis has found.
    pub(crate) fn restore_outcomes(&self, found: FoundOutcomes) {
        for HeuristicBranch { id, outcome, lsn } in found.into_branches() {
            let room = CarryReservation::of_earlier_run(self, OUTCOME_SPACE);
            self.outcomes.lock().insert(id, OutcomeEntry { outcome, lsn, room });
        }
    }
}

#[cfg(test)]
mod tests {
    use cedrat_wal::Position;

    use super::*;

    fn note(found: &mut FoundOutcomes, at: u64, previous: Option<u64>, body: &Body<'_>) {
        let head = RecordHead::new(Kind::VOID, TxnId(7), previous.map(LogOffset::new));
        let position = Position { partition: PartitionId(0), offset: LogOffset::new(at) };
        found.note(&RecordRef { lsn: Lsn::new(at), position, head, body: &[] }, body);
    }

    /// E9.4c: a crash has taken the commit record, and the manager has ended the branch since.
    #[test]
    fn outcome_without_its_commit_counts_never() {
        let outcome = Body::Outcome { logged: OutcomeCode::Committed, id: b"branch" };
        let commit = Body::Commit { changes: Default::default(), heap: &[] };
        for (previous, counts) in [(10, 1), (5, 0)] {
            let mut found = FoundOutcomes::default();
            note(&mut found, 10, Some(5), &outcome);
            note(&mut found, 20, Some(previous), &commit);
            assert_eq!(found.into_branches().len(), counts, "E9.4c");
        }
        let mut found = FoundOutcomes::default();
        note(&mut found, 10, Some(5), &outcome);
        assert_eq!(found.into_branches(), [], "E9.4c");
    }
}
