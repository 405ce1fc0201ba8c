//! The first pass: reads, verifies, judges, and changes nothing.

use std::any::TypeId;
use std::collections::{HashMap, HashSet};

use cedrat_heap::FoundHeaps;
use cedrat_wal::{Found, Kind, LogError, LogOffset, Lsn, PartitionId, RecordRef, TxnId};

use crate::body::{Body, LoggedUndo, Redo};
use crate::branch::Branch;
use crate::builtin::SetSpace;
use crate::error::{Error, Result};
use crate::prepared;
use crate::registry::{Does, Numbers};
use crate::report::Progress;

/// A transaction without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loser {
    pub(crate) id: TxnId,
    pub(crate) partition: PartitionId,
    /// Its first and its newest record.
    pub(crate) first: Lsn,
    pub(crate) last_lsn: Lsn,
    pub(crate) last: LogOffset,
}

/// What the log says.
#[derive(Debug, Default)]
pub(crate) struct Analysis {
    pub(crate) losers: Vec<Loser>,
    /// Prepared transactions without an outcome.
    pub(crate) in_doubt: Vec<prepared::Found>,
    pub(crate) winners: u64,
    pub(crate) rolled_back: u64,
    pub(crate) records: u64,
    pub(crate) log_bytes: u64,
    /// The first record from the redo point on that changes a page; `None` where heaps are all that was written.
    pub(crate) redo_from: Option<Lsn>,
    /// The first page behind every page that a record changes, allocates or frees.
    pub(crate) pages_end: u64,
    /// The first transaction number that no record has.
    pub(crate) next_txn: u64,
    /// Deferred changes that are not to be redone.
    pub(crate) uncounted: Uncounted,
}

/// Which changes do not count of those that count only if their transaction commits (E19.5). What is kept in memory are
/// transactions that have made some and have not committed, and returns to savepoints.
#[derive(Debug, Default)]
pub(crate) struct Uncounted {
    without_commit: HashSet<TxnId>,
    /// From behind one place of their partition to before another: what lies there was taken back.
    returns: HashMap<TxnId, Vec<(Option<LogOffset>, LogOffset)>>,
}

impl Uncounted {
    fn note(&mut self, record: &RecordRef<'_>, body: &Body<'_>) {
        let id = record.head.txn;
        match *body {
            Body::Update { committed_only: true, .. } => {
                self.without_commit.insert(id);
            }
            Body::NestedEnd { goes_back: true, undo_next, .. } => {
                self.returns.entry(id).or_default().push((undo_next, record.position.offset));
            }
            Body::Commit { .. } if !self.without_commit.is_empty() => {
                self.without_commit.remove(&id);
            }
            _ => {}
        }
    }

    /// Whether the change at `offset` of its transaction's partition counts.
    pub(crate) fn counts(&self, id: TxnId, offset: LogOffset) -> bool {
        let was_taken_back = |returns: &Vec<(Option<LogOffset>, LogOffset)>| {
            returns.iter().any(|&(back_to, from)| back_to < Some(offset) && offset < from)
        };
        !self.without_commit.contains(&id) && !self.returns.get(&id).is_some_and(was_taken_back)
    }
}

/// Progress is told once in so many records.
pub(super) const TELL_EVERY: u64 = 1 << 16;

pub(crate) fn analyse(
    found: &Found,
    known: &Numbers,
    heaps: &mut FoundHeaps,
    tell: &dyn Fn(Progress),
) -> Result<Analysis> {
    let mut analysis = Analysis::default();
    let mut parts = Parts::default();
    let mut running = Running::default();
    let mut preparing = Preparing::default();
    let set_space = known.of_type(TypeId::of::<SetSpace>());
    let checkpoint = &found.control().checkpoint;
    let mut scan = found.scan(checkpoint.scan_lsn)?;
    while let Some(scanned) = scan.next()? {
        let record = scanned.record;
        analysis.records += 1;
        let senseless = |what: &str| senseless(found, &record, what);
        let body = Body::parse(record.head.kind, record.body).map_err(|bad| senseless(bad.0))?;
        is_registered(&body, known)?;
        are_deltas(&body, known).map_err(|what| senseless(&what))?;
        analysis.uncounted.note(&record, &body);
        preparing.note(&record, &body).map_err(senseless)?;
        for redo in body.redos() {
            if record.lsn >= checkpoint.redo_lsn {
                analysis.redo_from.get_or_insert(record.lsn);
            }
            analysis.pages_end = analysis.pages_end.max(redo.at.page.get().saturating_add(1));
            if Some(redo.operation) == set_space {
                let behind = space_end(&redo).ok_or_else(|| senseless("it makes no sense of space"))?;
                analysis.pages_end = analysis.pages_end.max(behind);
            }
        }
        let id = record.head.txn;
        match body {
            Body::Commit { heap, .. } if !heap.is_empty() => parts.commit(heaps, id, record.lsn, heap)?,
            Body::HeapPart { heap } => parts.keep(id, heap),
            Body::RollbackEnd => parts.forget(id),
            _ => {}
        }
        analysis.next_txn = analysis.next_txn.max(id.0.saturating_add(1));
        analysis.winners += u64::from(record.head.kind == Kind::COMMIT);
        analysis.rolled_back += u64::from(record.head.kind == Kind::ROLLBACK_END);
        if id != TxnId::NONE {
            running.record(&record).map_err(senseless)?;
        }
        if analysis.records % TELL_EVERY == 0 {
            let (done, of) = scan.progress();
            tell(Progress::Analysis { done: done.0, of: of.0 });
        }
    }
    heaps.finish_replay();
    let (_, of) = scan.progress();
    analysis.log_bytes = of.0;
    tell(Progress::Analysis { done: of.0, of: of.0 });
    analysis.losers = running.others.into_values().chain(running.current).collect();
    analysis.losers.sort_unstable_by_key(|loser| loser.id);
    analysis.in_doubt = preparing.in_doubt(&mut analysis.losers, heaps)?;
    Ok(analysis)
}

impl Analysis {
    /// Makes a planted mistake.
    pub(super) fn plant(&mut self, options: &crate::Options) {
        let _ = options;
        #[cfg(feature = "planted-faults")]
        if options.fault == Some(crate::Fault::PreparedUndone) {
            self.losers.extend(self.in_doubt.drain(..).map(|found| found.chain));
        }
    }
}

/// Who is in doubt, without anything else that analysis finds out.
pub(crate) fn look_in_doubt(found: &Found) -> Result<Vec<prepared::InDoubt>> {
    let mut preparing = Preparing::default();
    let mut scan = found.scan(found.control().checkpoint.scan_lsn)?;
    while let Some(scanned) = scan.next()? {
        let record = scanned.record;
        let senseless = |what: &str| senseless(found, &record, what);
        let body = Body::parse(record.head.kind, record.body).map_err(|bad| senseless(bad.0))?;
        preparing.note(&record, &body).map_err(senseless)?;
    }
    let mut in_doubt = Vec::new();
    for (txn, (bytes, since)) in preparing.0 {
        if let Some(since) = since {
            let id = Branch::id_of(&bytes).map_err(|bad| Error::bad_record(since, bad.0))?.to_vec();
            in_doubt.push(prepared::InDoubt { id, txn, since });
        }
    }
    in_doubt.sort_unstable_by_key(|branch| branch.since);
    Ok(in_doubt)
}

/// Transactions with prepare records: what stands in these, and whether all of it does.
#[derive(Debug, Default)]
pub(crate) struct Preparing(HashMap<TxnId, (Vec<u8>, Option<Lsn>)>);

impl Preparing {
    /// The error says what is wrong with the record.
    fn note(&mut self, record: &RecordRef<'_>, body: &Body<'_>) -> Result<(), &'static str> {
        let id = record.head.txn;
        match *body {
            Body::Prepare { begins, goes_on, part } => {
                let (bytes, since) = self.0.entry(id).or_default();
                if begins != bytes.is_empty() || since.is_some() {
                    return Err("it is not the next part of what its transaction prepares");
                }
                bytes.extend_from_slice(part);
                *since = (!goes_on).then_some(record.lsn);
            }
            Body::HeapPart { .. } => {}
            // Its outcome, or a rollback that has begun (E9.4).
            _ if !self.0.is_empty() => drop(self.0.remove(&id)),
            _ => {}
        }
        Ok(())
    }

    /// Those without an outcome, who are no losers.
    fn in_doubt(self, losers: &mut Vec<Loser>, heaps: &mut FoundHeaps) -> Result<Vec<prepared::Found>> {
        let mut found = Vec::new();
        let mut ids = HashSet::new();
        for (id, (bytes, since)) in self.0 {
            let Some(since) = since else { continue };
            let branch = Branch::take(&bytes).map_err(|bad| Error::bad_record(since, bad.0))?;
            if !ids.insert(branch.id.clone()) {
                return Err(Error::bad_record(since, "another transaction is prepared under its identifier (E9.8)"));
            }
            let at = losers.iter().position(|loser| loser.id == id);
            let chain = losers.remove(at.expect("it has records and no end"));
            let has_words = !branch.heap.is_empty();
            let words = has_words.then(|| heaps.prepared(id, since, &branch.heap)).transpose()?;
            found.push(prepared::Found { chain, branch, words, since });
        }
        found.sort_unstable_by_key(|found| found.since);
        Ok(found)
    }
}

/// Transactions whose end was not met yet.
#[derive(Debug, Default)]
struct Running {
    /// Most records follow one of their own transaction; the map is asked only where it changes.
    current: Option<Loser>,
    others: HashMap<TxnId, Loser>,
}

impl Running {
    /// The error says what is wrong with the record.
    #[inline]
    fn record(&mut self, record: &RecordRef<'_>) -> Result<(), &'static str> {
        let id = record.head.txn;
        if self.current.is_none_or(|loser| loser.id != id) {
            // Asking costs a hash even where nobody else runs, and after single commits nobody does.
            let next = if self.others.is_empty() { None } else { self.others.remove(&id) };
            if let Some(loser) = self.current.take() {
                self.others.insert(loser.id, loser);
            }
            self.current = next;
        }
        if matches!(record.head.kind, Kind::COMMIT | Kind::ROLLBACK_END) {
            self.current = None;
            return Ok(());
        }
        let (partition, offset) = (record.position.partition, record.position.offset);
        let first = record.lsn;
        let loser = self.current.get_or_insert(Loser { id, partition, first, last_lsn: first, last: offset });
        if loser.partition != partition {
            return Err("its transaction lies in another partition (E8.1)");
        }
        loser.last = offset;
        loser.last_lsn = record.lsn;
        Ok(())
    }
}

/// Heap words of transactions whose commit record was not met yet (E10.5).
#[derive(Debug, Default)]
struct Parts(HashMap<TxnId, Vec<Vec<u8>>>);

impl Parts {
    fn keep(&mut self, id: TxnId, heap: &[u8]) {
        self.0.entry(id).or_default().push(heap.to_vec());
    }

    fn forget(&mut self, id: TxnId) {
        self.0.remove(&id);
    }

    fn commit(&mut self, heaps: &mut FoundHeaps, id: TxnId, lsn: Lsn, last: &[u8]) -> Result<()> {
        if !self.0.is_empty() {
            for part in self.0.remove(&id).unwrap_or_default() {
                heaps.replay(lsn, &part)?;
            }
        }
        Ok(heaps.replay(lsn, last)?)
    }
}

/// A record that makes no sense: in which file, and where.
#[cold]
fn senseless(found: &Found, record: &RecordRef<'_>, what: &str) -> Error {
    let (file, offset) = found.place(record.position);
    LogError::Damaged { file, offset, what: format!("record {} makes no sense: {what}", record.lsn) }.into()
}

/// What counts only if its transaction commits is redone by the version of its record, so by a delta (E19.2, E19.15): anything else
/// there would be redone by the LSN of the page. The error says what is wrong with the record.
fn are_deltas(body: &Body<'_>, known: &Numbers) -> Result<(), String> {
    if !matches!(body, Body::Commit { .. } | Body::Update { committed_only: true, .. }) {
        return Ok(());
    }
    let is_delta = |number| known.operation(number).is_some_and(|table| table.by_version);
    match body.redos().find(|redo| !is_delta(redo.operation)) {
        None => Ok(()),
        Some(redo) => {
            let name = known.name(redo.operation).unwrap_or_default();
            Err(format!("it changes the record at {} by \"{name}\", which is no delta", redo.at))
        }
    }
}

/// The first page behind those that a record allocates or frees.
fn space_end(redo: &Redo<'_>) -> Option<u64> {
    let change: SetSpace = postcard::from_bytes(redo.arguments).ok()?;
    redo.at.page.get().checked_add(u64::from(change.first) + u64::from(change.pages))
}

/// R3: whatever stands in the log can be repeated and taken back by this program.
fn is_registered(body: &Body<'_>, known: &Numbers) -> Result<()> {
    let missing = |what, number| {
        let name = known.name(number).map_or_else(|| format!("number {number}"), str::to_owned);
        Err(Error::Unregistered { what, name })
    };
    for redo in body.redos() {
        if known.operation(redo.operation).is_none() {
            return missing("the operation", redo.operation);
        }
    }
    let undo = match body {
        Body::Update { undo, .. } | Body::NestedEnd { undo, .. } | Body::UndoOnly { undo } => undo,
        _ => return Ok(()),
    };
    let Some(number) = undo.number() else { return Ok(()) };
    let fits = match known.entry(number).map(|entry| entry.does) {
        Some(Does::Operation(_)) => matches!(undo, LoggedUndo::Operation { .. }),
        Some(Does::Logical(_)) => matches!(undo, LoggedUndo::Logical { .. }),
        Some(Does::Finish(_)) => matches!(undo, LoggedUndo::Finish { .. }),
        Some(Does::RecordKind) | None => false,
    };
    if fits { Ok(()) } else { missing("the undo", number) }
}
