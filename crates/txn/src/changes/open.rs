//! The transactions that are open at the position of a stream.

use std::collections::HashMap;

use cedrat_sync::planted;
use cedrat_wal::{Kind, LogOffset, Lsn, RecordRef, TxnId};

use crate::body::{Body, CARRIED, Carried, LoggedUndo};
use crate::error::{Error, Result};

/// Transactions with a record that was read, and without an end.
#[derive(Debug, Default)]
pub(super) struct OpenTransactions(HashMap<TxnId, OpenTransaction>);

#[derive(Debug)]
struct OpenTransaction {
    /// The first record that is needed when it commits.
    first: Lsn,
    last: LogOffset,
    copies: Option<Copies>,
    /// The newest record before copies that lack changes.
    original: Option<LogOffset>,
    /// The LSN of the first record, of which only copies were read that lack changes.
    lost: Option<Lsn>,
}

/// The changes of a transaction that has committed, besides those in its chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Noted {
    /// The newest record before copies that lack changes.
    pub(super) original: Option<LogOffset>,
    /// The LSN of its first record, if that was not read, and copies lack changes.
    pub(super) lost: Option<Lsn>,
}

/// Copies of the records of a prepared transaction, which a checkpoint has carried forward (E9.13).
#[derive(Debug)]
struct Copies {
    first: Lsn,
    /// The newest record before them; `None` if none was read.
    before: Option<LogOffset>,
    /// The LSN of the first record that was copied.
    original: Lsn,
    /// Whether a nested action is among them, of which only the undo is copied.
    lack_changes: bool,
}

impl OpenTransactions {
    /// Notes a record. Returns, for a commit record, what its transaction has besides.
    pub(super) fn note(&mut self, record: &RecordRef<'_>) -> Result<Noted> {
        let id = record.head.txn;
        if id == TxnId::NONE {
            return Ok(Noted::default());
        }
        if matches!(record.head.kind, Kind::COMMIT | Kind::ROLLBACK_END) {
            let noted = self.0.remove(&id).map(|ended| Noted { original: ended.original, lost: ended.lost });
            return Ok(noted.unwrap_or_default());
        }
        let offset = record.position.offset;
        let is_known = self.0.contains_key(&id);
        let fresh = || OpenTransaction { first: record.lsn, last: offset, copies: None, original: None, lost: None };
        let open = self.0.entry(id).or_insert_with(fresh);
        if record.head.kind == CARRIED {
            let carried = Carried::take(record.body).map_err(|bad| Error::bad_record(record.lsn, bad.0))?;
            let parsed = Body::parse(carried.kind, carried.body);
            let lacks = matches!(parsed, Ok(Body::UndoOnly { undo: LoggedUndo::Logical { .. } }));
            if record.head.previous.is_none() {
                let before = is_known.then_some(open.last);
                open.copies = Some(Copies { first: record.lsn, before, original: carried.lsn, lack_changes: false });
            }
            open.copies.iter_mut().for_each(|copies| copies.lack_changes |= lacks);
        } else if record.head.kind == Kind::PREPARE {
            let body =
                Body::parse(record.head.kind, record.body).map_err(|bad| Error::bad_record(record.lsn, bad.0))?;
            if let Body::Prepare { is_copy: true, goes_on: false, .. } = body {
                open.copied();
            }
        }
        if open.copies.is_none() {
            open.last = offset;
        }
        Ok(Noted::default())
    }

    /// Returns the first LSN that is needed to go on behind a position.
    pub(super) fn needs(&self, behind: Lsn) -> Lsn {
        self.0.values().map(|open| open.first).min().map_or(behind.next(), |first| first.min(behind.next()))
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl OpenTransaction {
    /// Notes that copies count from now on.
    fn copied(&mut self) {
        let Some(copies) = self.copies.take() else { return };
        if copies.lack_changes && !planted!("lacking_copies_delivered") {
            match copies.before {
                _ if self.original.is_some() || self.lost.is_some() => {}
                None if !planted!("unread_branch_delivered") => self.lost = Some(copies.original),
                before => self.original = before,
            }
        } else if self.original.is_none() && self.lost.is_none() {
            self.first = copies.first;
        }
    }
}
