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
}

/// Copies of the records of a prepared transaction, which a checkpoint has carried forward (E9.13).
#[derive(Debug)]
struct Copies {
    first: Lsn,
    /// The newest record before them.
    before: LogOffset,
    /// Whether a nested action is among them, of which only the undo is copied.
    lack_changes: bool,
}

impl OpenTransactions {
    /// Notes a record. Returns, for a commit record, the newest record before the copies of its transaction, if these lack changes.
    pub(super) fn note(&mut self, record: &RecordRef<'_>) -> Result<Option<LogOffset>> {
        let id = record.head.txn;
        if id == TxnId::NONE {
            return Ok(None);
        }
        if matches!(record.head.kind, Kind::COMMIT | Kind::ROLLBACK_END) {
            return Ok(self.0.remove(&id).and_then(|ended| ended.original));
        }
        let offset = record.position.offset;
        let fresh = || OpenTransaction { first: record.lsn, last: offset, copies: None, original: None };
        let open = self.0.entry(id).or_insert_with(fresh);
        if record.head.kind == CARRIED {
            let carried = Carried::take(record.body).map_err(|bad| Error::bad_record(record.lsn, bad.0))?;
            let parsed = Body::parse(carried.kind, carried.body);
            let lacks = matches!(parsed, Ok(Body::UndoOnly { undo: LoggedUndo::Logical { .. } }));
            if record.head.previous.is_none() {
                open.copies = Some(Copies { first: record.lsn, before: open.last, lack_changes: false });
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
        Ok(None)
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
            self.original.get_or_insert(copies.before);
        } else if self.original.is_none() {
            self.first = copies.first;
        }
    }
}
