//! The changes of one transaction.

use std::collections::VecDeque;
use std::fmt;
use std::time::SystemTime;

use cedrat_sync::planted;
use cedrat_wal::{Kind, Lsn, TxnId};

use super::chain::{Chain, Counted, Place};
use super::change::{Change, Meaning};
use super::source::Source;
use super::{ChangeStream, CommitRecord, StreamToken};
use crate::body::{Body, Redo};
use crate::error::{Error, Result};
use crate::operation::RecordId;
use crate::registry::Numbers;

/// The changes of one committed transaction, in their order: see [`ChangeStream::next`].
///
/// They are read on demand, so a transaction of any length needs little memory.
pub struct ChangeSet<'s> {
    stream: &'s mut ChangeStream,
    commit: CommitRecord,
    /// The position before the transaction.
    before: StreamToken,
    pieces: Option<Pieces>,
    changes: VecDeque<Change>,
    /// The number of changes that were returned.
    returned: u64,
}

/// The rest of a transaction's records.
#[derive(Debug)]
struct Pieces {
    chain: Chain,
    /// The ends of the other pieces, the oldest last.
    later: Vec<Place>,
    /// The rest of the present piece, the oldest last.
    records: Vec<Counted>,
    /// Whether the commit record is left.
    has_commit: bool,
}

impl<'s> ChangeSet<'s> {
    pub(super) fn new(stream: &'s mut ChangeStream, commit: CommitRecord, before: StreamToken) -> ChangeSet<'s> {
        ChangeSet { stream, commit, before, pieces: None, changes: VecDeque::new(), returned: 0 }
    }

    /// Returns the number of the transaction; [`TxnId::NONE`] for a transaction on heaps alone, which has none.
    pub fn txn(&self) -> TxnId {
        self.commit.txn
    }

    /// Returns the LSN of the commit record.
    pub fn lsn(&self) -> Lsn {
        self.commit.lsn
    }

    /// Returns the token of the position behind this transaction.
    pub fn token(&self) -> StreamToken {
        self.stream.token()
    }

    /// Returns a time by which the transaction had committed: that of the first moment of the archive that has it. `None` if it
    /// is not read from an archive.
    pub fn committed_before(&self) -> Option<SystemTime> {
        let Some(Source::Archive(archive)) = &self.stream.source else { return None };
        archive.moments().iter().filter(|moment| moment.up_to >= self.lsn()).find_map(|moment| moment.time())
    }

    /// Returns the next change of the transaction; `None` behind its last one.
    ///
    /// # Errors
    /// As [`ChangeStream::next`], which returns the whole transaction again after an error.
    #[allow(clippy::should_implement_trait)] // it may fail
    pub fn next(&mut self) -> Result<Option<Change>> {
        loop {
            let error = match self.next_change() {
                Ok(change) => {
                    self.returned += u64::from(change.is_some());
                    return Ok(change);
                }
                Err(error) => error,
            };
            self.begin_again(error)?;
        }
    }

    /// Reads the transaction again from its beginning, up to the change that is next.
    fn begin_again(&mut self, error: Error) -> Result<()> {
        self.stream.go_back(self.before, error)?;
        let commit = self.stream.next_commit_from(self.before)?;
        self.commit =
            commit.ok_or(Error::BadRecord { lsn: self.commit.lsn, what: "the commit record is missing".into() })?;
        (self.pieces, self.changes) = (None, VecDeque::new());
        for _ in 0..self.returned {
            if let Err(error) = self.next_change() {
                self.stream.go_back(self.before, Error::Misuse("the log was truncated while it was read"))?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn next_change(&mut self) -> Result<Option<Change>> {
        let Some(change) = self.next_of_record()? else { return Ok(None) };
        // A value that does not fit on its page any more is moved.
        if let Change::Remove { structure, key } = &change {
            let next = self.next_of_record()?;
            if let Some(Change::Put { structure: of, key: put, .. }) = &next
                && (of, put) == (structure, key)
            {
                return Ok(next);
            }
            next.into_iter().for_each(|next| self.changes.push_front(next));
        }
        Ok(Some(change))
    }

    fn next_of_record(&mut self) -> Result<Option<Change>> {
        loop {
            if let Some(change) = self.changes.pop_front() {
                return Ok(Some(change));
            }
            let Some(record) = self.next_record()? else { return Ok(None) };
            let numbers = self.stream.origin.numbers();
            describe(&record, numbers, |change| self.changes.push_back(change))?;
        }
    }

    /// Returns the next record that counts.
    fn next_record(&mut self) -> Result<Option<Counted>> {
        if self.pieces.is_none() {
            self.pieces = Some(self.first_piece()?);
        }
        let pieces = self.pieces.as_mut().expect("it was read");
        loop {
            if let Some(record) = pieces.records.pop() {
                return Ok(Some(record));
            }
            let Some(place) = pieces.later.pop() else { break };
            (pieces.records, _) = pieces.chain.piece(place)?;
        }
        let body = std::mem::take(&mut self.commit.body);
        let has_commit = std::mem::take(&mut pieces.has_commit);
        Ok(has_commit.then_some(Counted { lsn: self.commit.lsn, kind: Kind::COMMIT, body, if_kept: false }))
    }

    /// Walks to the beginning of the transaction, and returns the oldest piece.
    fn first_piece(&mut self) -> Result<Pieces> {
        let source = self.stream.source.as_ref().ok_or(Error::Misuse("the stream has no log to read"))?;
        let mut chain = Chain::new(source.backwards(self.commit.at), self.commit.original);
        let mut later = Vec::new();
        let mut records = Vec::new();
        let mut place = self.commit.previous.map(|next| Place { next, undone_from: u64::MAX });
        while let Some(from) = place {
            (records, place) = chain.piece(from)?;
            if place.is_some() && !planted!("first_piece_delivered_alone") {
                later.push(from);
            }
        }
        Ok(Pieces { chain, later, records, has_commit: true })
    }
}

/// Calls `seen` for each change of a record.
fn describe(record: &Counted, numbers: &Numbers, mut seen: impl FnMut(Change)) -> Result<()> {
    let bad = |what: &'static str| Error::bad_record(record.lsn, what);
    let body = Body::parse(record.kind, &record.body).map_err(|corrupt| bad(corrupt.0))?;
    match body {
        Body::Update { redo, .. } => describe_change(&redo, numbers, record.if_kept, &mut seen),
        Body::User { number, bytes } => {
            seen(Change::Record { kind: name_of(numbers, number), bytes: bytes.to_vec() });
        }
        Body::HeapPart { heap } => words(heap, &mut seen).map_err(bad)?,
        Body::Commit { changes, heap } => {
            changes.for_each(|redo| describe_change(&redo, numbers, false, &mut seen));
            words(heap, &mut seen).map_err(bad)?;
        }
        _ => {}
    }
    Ok(())
}

/// Calls `seen` for each change that the operation of a page declares. `only_known`: [`Change::Raw`] is left out.
fn describe_change(redo: &Redo<'_>, numbers: &Numbers, only_known: bool, seen: &mut impl FnMut(Change)) {
    let known = numbers.operation(redo.operation).and_then(|table| (table.meaning)(redo.arguments, redo.at));
    match known.unwrap_or(Meaning::Raw) {
        Meaning::Changes(changes) => changes.into_iter().for_each(seen),
        Meaning::Form => {}
        Meaning::Raw if only_known => {}
        Meaning::Raw => seen(raw(name_of(numbers, redo.operation), redo.at, redo.arguments)),
    }
}

fn raw(operation: String, at: RecordId, arguments: &[u8]) -> Change {
    Change::Raw { operation, at, arguments: arguments.to_vec() }
}

fn name_of(numbers: &Numbers, number: u32) -> String {
    numbers.name(number).map_or_else(|| format!("number {number}"), str::to_owned)
}

/// Calls `seen` for the words of a heap that a commit writes.
fn words(heap: &[u8], seen: &mut impl FnMut(Change)) -> Result<(), &'static str> {
    cedrat_heap::words_of_commit(heap, |heap, first, values| {
        let values = values.as_chunks::<8>().0.iter().map(|value| u64::from_le_bytes(*value)).collect();
        seen(Change::Words { heap, first, values });
    })
    .map_err(|corrupt| corrupt.0)
}

impl fmt::Debug for ChangeSet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeSet")
            .field("lsn", &self.commit.lsn)
            .field("txn", &self.commit.txn)
            .finish_non_exhaustive()
    }
}
