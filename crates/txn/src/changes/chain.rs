//! The records of one committed transaction that count, found from its commit record backwards.
//!
//! Undo leaves records that say where it went on: everything between that place and such a record was taken back, or changed only
//! the form of a structure (`rollback.rs` has the table). A nested action that ended with an undo of its own is different: it
//! stays, and its records count.
//!
//! A walk keeps a megabyte of records at most. A longer chain is walked twice: first to its beginning, to note where pieces begin,
//! then piece by piece, the oldest first (E23.5).

use cedrat_sync::planted;
use cedrat_wal::{Backwards, Kind, LogOffset, Lsn};

use crate::body::{Body, CARRIED, Carried, LoggedUndo};
use crate::error::{Error, Result};

/// The number of records in one piece of a chain.
const PIECE_RECORDS: usize = 4096;

/// The length of the bodies in one piece of a chain, which the last record may exceed.
const PIECE_BYTES: usize = 1 << 20;

/// A record that counts.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) lsn: Lsn,
    pub(super) kind: Kind,
    pub(super) body: Vec<u8>,
    /// Whether only an operation that is never undone counts: the transaction has taken back what surrounds it.
    pub(super) if_kept: bool,
}

/// The position of a walk: the record that is next, and the offset from which on records were taken back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) next: LogOffset,
    pub(super) undone_from: u64,
}

/// A walk along the chain of one transaction.
#[derive(Debug)]
pub(super) struct Chain {
    backwards: Backwards,
    /// The newest record before the transaction was carried forward, if it was.
    original: Option<LogOffset>,
}

impl Chain {
    pub(super) fn new(backwards: Backwards, original: Option<LogOffset>) -> Chain {
        Chain { backwards, original }
    }

    /// Returns the records of a piece that ends at a place, newest first, and the place where the piece before it ends.
    pub(super) fn piece(&mut self, from: Place) -> Result<(Vec<Counted>, Option<Place>)> {
        let mut records = Vec::new();
        let mut bytes = 0;
        let mut undone_from = from.undone_from;
        self.backwards.seek(Some(from.next));
        while let Some(read) = self.backwards.next()? {
            let (mut lsn, mut kind, mut body) = (read.lsn, read.head.kind, read.body);
            let (offset, mut previous) = (read.position.offset, read.head.previous);
            if kind == CARRIED {
                let carried = Carried::take(body).map_err(|bad| Error::bad_record(lsn, bad.0))?;
                (lsn, kind, body) = (carried.lsn, carried.kind, carried.body);
            }
            let parsed = Body::parse(kind, body).map_err(|bad| Error::bad_record(lsn, bad.0))?;
            let is_undone = offset.get() >= undone_from;
            let mut counts = false;
            match parsed {
                Body::Update { undo: LoggedUndo::None, committed_only: false, .. } => counts = true,
                Body::Update { .. } | Body::User { .. } => counts = !is_undone,
                Body::HeapPart { .. } => counts = true,
                Body::Compensation { undo_next, .. } | Body::NestedEnd { undo_next, undo: LoggedUndo::None, .. }
                    if !planted!("undone_changes_delivered") =>
                {
                    undone_from = undone_from.min(undo_next.map_or(0, |next| next.get() + 1));
                }
                // The copies lack what only a nested action changed.
                Body::Prepare { is_copy: true, .. } if self.original.is_some() => previous = self.original.take(),
                _ => {}
            }
            if counts {
                bytes += body.len();
                records.push(Counted { lsn, kind, body: body.to_vec(), if_kept: is_undone });
            }
            self.backwards.seek(previous);
            let Some(next) = previous else { return Ok((records, None)) };
            if records.len() >= PIECE_RECORDS || bytes >= PIECE_BYTES {
                return Ok((records, Some(Place { next, undone_from })));
            }
        }
        Ok((records, None))
    }
}
