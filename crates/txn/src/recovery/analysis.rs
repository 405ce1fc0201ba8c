//! The first pass: reads and verifies the log, determines winners and losers, and changes nothing.

use std::collections::{HashMap, HashSet};

use cedrat_heap::FoundHeaps;
use cedrat_sync::planted;
use cedrat_wal::{ByteLen, Found, Kind, LogError, LogOffset, Lsn, PartitionId, RecordRef, Retained, Scanned, TxnId};

use super::named_pages::named_by;
use super::parts::Parts;
use super::pending::Pending;
use super::uncounted::Uncounted;
use crate::body::{Body, LoggedUndo, Redo};
use crate::branch::Branch;
use crate::carry::take_space;
use crate::error::{Error, Result};
use crate::heuristic::{FoundOutcomes, HeuristicBranch, OutcomeCode};
use crate::options::Options;
use crate::prepared;
use crate::registry::{Does, Numbers};
use crate::report::Progress;
use crate::space::{Extent, GROUP_PAGES, SpaceChange, SpaceNumbers};
use crate::trace::{event, span};

/// A transaction without an end record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loser {
    pub(crate) id: TxnId,
    pub(crate) partition: PartitionId,
    /// The LSNs of its first and its newest record.
    pub(crate) first: Lsn,
    pub(crate) last_lsn: Lsn,
    pub(crate) last: LogOffset,
}

/// The result of analysis.
#[derive(Debug, Default)]
pub(crate) struct Analysis {
    pub(crate) losers: Vec<Loser>,
    /// Prepared transactions without an outcome.
    pub(crate) in_doubt: Vec<prepared::Found>,
    /// Heuristic outcomes.
    pub(crate) outcomes: FoundOutcomes,
    pub(crate) winners: u64,
    pub(crate) rolled_back: u64,
    pub(crate) records: u64,
    pub(crate) log_bytes: u64,
    /// The first record from the redo point on that changes a page; `None` if only heaps were written.
    pub(crate) redo_from: Option<Lsn>,
    /// The end of the pages that records change, allocate or free.
    pub(crate) pages_end: u64,
    /// The smallest transaction number above those of all records.
    pub(crate) next_txn: u64,
    /// Deferred changes that must not be redone.
    pub(crate) uncounted: Uncounted,
    /// Pages freed by transactions without an end.
    pub(crate) freed: Vec<Extent>,
    /// The records to be redone, by page, and what stays in memory of the log for that, if redo may be done on demand.
    pub(crate) pending: Option<(Pending, Retained)>,
}

/// The length of log from which another thread reads it for analysis, in bytes. A thread takes some ten microseconds to start.
const AHEAD_BYTES_MIN: u64 = 64 << 10;

/// Number of records between two progress reports.
pub(super) const TELL_EVERY: u64 = 1 << 16;

pub(crate) fn analyse(
    found: &Found,
    known: &Numbers,
    heaps: &mut FoundHeaps,
    options: &Options,
    tell: &dyn Fn(Progress),
) -> Result<Analysis> {
    span!("analysis");
    let mut analysis = Analysis::default();
    let mut parts = Parts::default();
    let mut running = Running::default();
    let mut preparing = Preparing::default();
    let mut freed: HashMap<TxnId, Vec<Extent>> = HashMap::new();
    let space = SpaceNumbers::of(known);
    let checkpoint = &found.control().checkpoint;
    let scan = found.scan(checkpoint.scan_lsn)?;
    analysis.log_bytes = scan.progress().1.0;
    analysis.pending = (analysis.log_bytes > options.redo_on_demand_bytes).then(|| notes(options));
    let has_thread = options.redo_threads > 0 && analysis.log_bytes >= AHEAD_BYTES_MIN;
    let mut scan = if has_thread { scan.ahead() } else { scan.here() };
    while let Some(scanned) = scan.next()? {
        let record = scanned.record;
        analysis.records += 1;
        let corrupt = |what: &str| corrupt(found, &record, what);
        let body = Body::parse(record.head.kind, record.body).map_err(|bad| corrupt(bad.0))?;
        may_stand_here(&record, &body).map_err(corrupt)?;
        is_registered(body.unwrapped_in(&mut None), known)?;
        are_deltas(body.unwrapped_in(&mut None), known).map_err(|what| corrupt(&what))?;
        let is_plain = is_plain(&body);
        if !(is_plain && preparing.0.is_empty()) {
            preparing.note(&record, &body).map_err(corrupt)?;
        }
        if !is_plain {
            analysis.uncounted.note(&record, &body);
            analysis.outcomes.note(&record, &body);
            parts.note(found, heaps, &record, &body)?;
        }
        for redo in body.redos() {
            let space = analysis.note_redo((known, &space), checkpoint.redo_lsn, (&scanned, &body), &redo);
            let extents = space.map_err(corrupt)?;
            if !extents.is_empty() {
                freed.entry(record.head.txn).or_default().extend(extents);
            }
        }
        for extent in carried_space(&body).map_err(corrupt)? {
            analysis.pages_end = analysis.pages_end.max(extent.end());
            freed.entry(record.head.txn).or_default().push(extent);
        }
        let id = record.head.txn;
        analysis.count(&record);
        if matches!(record.head.kind, Kind::COMMIT | Kind::ROLLBACK_END) && !freed.is_empty() {
            freed.remove(&id);
        }
        if id != TxnId::NONE {
            running.record(&record).map_err(corrupt)?;
        }
        if analysis.records % TELL_EVERY == 0 {
            let (done, of) = scan.progress();
            tell(Progress::Analysis { done: done.0, of: of.0 });
        }
    }
    heaps.finish_replay();
    tell(Progress::Analysis { done: analysis.log_bytes, of: analysis.log_bytes });
    analysis.losers = running.others.into_values().chain(running.current).collect();
    analysis.losers.sort_unstable_by_key(|loser| loser.id);
    analysis.freed = freed.into_values().flatten().collect();
    analysis.in_doubt = preparing.in_doubt(&mut analysis.losers, heaps)?;
    event!(INFO, records = analysis.records, losers = analysis.losers.len(), "log analysed");
    Ok(analysis)
}

/// Returns where analysis notes what is to be redone.
fn notes(options: &Options) -> (Pending, Retained) {
    let retained_max = options.redo_memory_bytes.unwrap_or(options.pool_bytes);
    (Pending::default(), Retained::new(ByteLen(retained_max)))
}

impl Analysis {
    /// Notes a change of a page. Returns the extents that it frees. The error is the defect of the record.
    #[inline]
    fn note_redo(
        &mut self,
        (known, space): (&Numbers, &SpaceNumbers),
        redo_lsn: Lsn,
        (scanned, body): (&Scanned<'_>, &Body<'_>),
        redo: &Redo<'_>,
    ) -> Result<Vec<Extent>, &'static str> {
        if scanned.record.lsn >= redo_lsn {
            self.redo_from.get_or_insert(scanned.record.lsn);
            self.note_pending(known, scanned, body, redo);
        }
        let (end, change) = named_by(redo, space)?;
        self.pages_end = self.pages_end.max(end);
        Ok(change.map_or_else(Vec::new, SpaceChange::freed))
    }

    /// Notes a change that redo may have to make, unless all are to be made before the store opens.
    #[inline]
    fn note_pending(&mut self, known: &Numbers, scanned: &Scanned<'_>, body: &Body<'_>, redo: &Redo<'_>) {
        let Some((pending, retained)) = &mut self.pending else { return };
        let Some(table) = known.operation(redo.operation) else { return };
        let is_copy = matches!(body, Body::Carried(_));
        if !is_copy || table.by_version {
            let is_retained = retained.retain(scanned);
            pending.note(redo.at.page, &scanned.record, table.formats && !is_copy, is_retained);
        }
    }

    /// Counts transactions by their ends, and tracks the next free transaction number.
    fn count(&mut self, record: &RecordRef<'_>) {
        self.next_txn = self.next_txn.max(record.head.txn.0.saturating_add(1));
        self.winners += u64::from(record.head.kind == Kind::COMMIT);
        self.rolled_back += u64::from(record.head.kind == Kind::ROLLBACK_END);
    }

    /// Applies a planted fault.
    pub(super) fn plant(&mut self, options: &Options) {
        let _ = options;
        #[cfg(feature = "planted-faults")]
        if options.fault == Some(crate::Fault::PreparedUndone) {
            self.losers.extend(self.in_doubt.drain(..).map(|found| found.chain));
        }
    }
}

/// Finds the prepared transactions without an outcome, and the heuristic outcomes, and skips the rest of analysis.
pub(crate) fn look_at_branches(found: &Found) -> Result<(Vec<prepared::InDoubt>, Vec<HeuristicBranch>)> {
    let mut preparing = Preparing::default();
    let mut outcomes = FoundOutcomes::default();
    let mut scan = found.scan(found.control().checkpoint.scan_lsn)?;
    while let Some(scanned) = scan.next()? {
        let record = scanned.record;
        let corrupt = |what: &str| corrupt(found, &record, what);
        let body = Body::parse(record.head.kind, record.body).map_err(|bad| corrupt(bad.0))?;
        may_stand_here(&record, &body).map_err(corrupt)?;
        preparing.note(&record, &body).map_err(corrupt)?;
        outcomes.note(&record, &body);
    }
    let mut in_doubt = Vec::new();
    for (txn, found) in preparing.0 {
        if let Some(whole) = found.whole {
            let (since, branch) = whole.read()?;
            let id = Branch::id_of(branch).map_err(|bad| Error::bad_record(since, bad.0))?.to_vec();
            in_doubt.push(prepared::InDoubt { id, txn, since });
        }
    }
    in_doubt.sort_unstable_by_key(|branch| branch.since);
    Ok((in_doubt, outcomes.into_branches()))
}

/// The transactions with prepare records, the content of these, and whether it is complete.
#[derive(Debug, Default)]
pub(crate) struct Preparing(HashMap<TxnId, OfPrepared>);

/// The prepare records of a transaction, and of each copy that was carried forward (E9.13): the newest complete set
/// counts.
#[derive(Debug, Default)]
struct OfPrepared {
    whole: Option<Whole>,
    /// The parts of an incomplete set, and whether it is a copy.
    next: Option<(Vec<u8>, bool)>,
    /// The LSN of a part whose beginning lies before the scan: a later copy is needed.
    is_cut: Option<Lsn>,
}

/// A complete set of the parts of a prepared transaction.
#[derive(Debug)]
struct Whole {
    bytes: Vec<u8>,
    is_copy: bool,
    /// The last record of the set.
    lsn: Lsn,
    offset: LogOffset,
}

impl Whole {
    /// Returns the LSN of the original prepare record, and the prepared branch.
    fn read(&self) -> Result<(Lsn, &[u8])> {
        if !self.is_copy {
            return Ok((self.lsn, &self.bytes));
        }
        let (since, branch) = Branch::of_copy(&self.bytes).map_err(|bad| Error::bad_record(self.lsn, bad.0))?;
        is_older(since, self.lsn).map_err(|what| Error::bad_record(self.lsn, what))?;
        Ok((since, branch))
    }
}

impl Preparing {
    /// Notes a record. The error is the defect of the record.
    fn note(&mut self, record: &RecordRef<'_>, body: &Body<'_>) -> Result<(), &'static str> {
        let id = record.head.txn;
        match *body {
            Body::Prepare { begins, goes_on, is_copy, part } => {
                let found = self.0.entry(id).or_default();
                if begins {
                    // A crash may have cut a copy short, and a later one replaced it.
                    if !is_copy && (found.next.is_some() || found.whole.is_some()) {
                        return Err(NOT_NEXT);
                    }
                    found.next = Some((Vec::new(), is_copy));
                }
                let Some((bytes, of_copy)) = &mut found.next else {
                    // The earlier parts were truncated, because a copy follows.
                    found.is_cut = Some(record.lsn);
                    return if found.whole.is_some() { Err(NOT_NEXT) } else { Ok(()) };
                };
                if *of_copy != is_copy {
                    return Err(NOT_NEXT);
                }
                bytes.extend_from_slice(part);
                if !goes_on {
                    let bytes = std::mem::take(bytes);
                    let (lsn, offset) = (record.lsn, record.position.offset);
                    *found = OfPrepared { whole: Some(Whole { bytes, is_copy, lsn, offset }), ..OfPrepared::default() };
                }
            }
            // A commit by an operator whose commit record a crash may have taken (E9.4c).
            Body::Outcome { logged: OutcomeCode::Committed, .. } => {}
            Body::HeapPart { .. } | Body::Carried(_) => {}
            // Its outcome, or the beginning of a rollback (E9.4).
            _ if !self.0.is_empty() => drop(self.0.remove(&id)),
            _ => {}
        }
        Ok(())
    }

    /// Returns the prepared transactions without an outcome, and removes them from `losers`, which are in the order of
    /// their numbers.
    fn in_doubt(self, losers: &mut Vec<Loser>, heaps: &mut FoundHeaps) -> Result<Vec<prepared::Found>> {
        let mut found = Vec::new();
        let (mut ids, mut prepared) = (HashSet::new(), HashSet::new());
        for (id, of) in self.0 {
            let Some(whole) = of.whole else {
                match of.is_cut {
                    Some(lsn) => return Err(Error::bad_record(lsn, NOT_NEXT)),
                    None => continue,
                }
            };
            let (since, bytes) = whole.read()?;
            let branch = Branch::take(bytes).map_err(|bad| Error::bad_record(since, bad.0))?;
            if !ids.insert(branch.id.clone()) {
                return Err(Error::bad_record(since, "another transaction is prepared under its identifier"));
            }
            let at = losers.binary_search_by_key(&id, |loser| loser.id);
            let at = at.map_err(|_| Error::bad_record(since, "its transaction has ended before it is prepared"))?;
            let mut chain = losers[at];
            prepared.insert(id);
            // The beginning of an incomplete copy may follow, which has no effect.
            (chain.last, chain.last_lsn) = (whole.offset, whole.lsn);
            let has_words = !branch.heap.is_empty();
            let words = has_words.then(|| heaps.prepared(id, since, &branch.heap)).transpose()?;
            found.push(prepared::Found { chain, branch, words, since });
        }
        losers.retain(|loser| !prepared.contains(&loser.id));
        found.sort_unstable_by_key(|found| found.since);
        Ok(found)
    }
}

/// Whether a record changes a page, or the chain of its transaction, and nothing that is decided by other records: most do.
fn is_plain(body: &Body<'_>) -> bool {
    matches!(
        body,
        Body::Update { committed_only: false, .. }
            | Body::Compensation { .. }
            | Body::NestedEnd { goes_back: false, .. }
            | Body::UndoOnly { .. }
    )
}

const NOT_NEXT: &str = "it is not the next part of what its transaction prepares";

/// Transactions whose end was not yet read.
#[derive(Debug, Default)]
struct Running {
    /// The transaction of the last record. Most records follow one of their own transaction; the map is accessed only
    /// when the transaction changes.
    current: Option<Loser>,
    others: HashMap<TxnId, Loser>,
}

impl Running {
    /// Notes a record. The error is the defect of the record.
    #[inline]
    fn record(&mut self, record: &RecordRef<'_>) -> Result<(), &'static str> {
        let id = record.head.txn;
        if self.current.is_none_or(|loser| loser.id != id) {
            // A lookup hashes even if no other transaction runs, which is the usual case after single commits.
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
            return Err("its transaction is in another partition");
        }
        loser.last = offset;
        loser.last_lsn = record.lsn;
        Ok(())
    }
}

/// Checks that `lsn`, which the copy at `copy` names, is older than the copy. The error is the defect of the copy.
fn is_older(lsn: Lsn, copy: Lsn) -> Result<(), &'static str> {
    if Lsn::ZERO < lsn && lsn < copy { Ok(()) } else { Err("it is a copy of a record that is not older") }
}

/// Checks that a record carried forward by record `lsn` may have been in the log before it (E9.13), and that pages
/// which it frees can be allocated. The error is the defect of the record.
fn is_copy_of_older(lsn: Lsn, body: &Body<'_>) -> Result<(), &'static str> {
    let Body::Carried(carried) = body else { return Ok(()) };
    if carried.kind != Kind::VOID {
        return is_older(carried.lsn, lsn);
    }
    let mut fits = Ok(());
    let seen = |first: u64, pages: u64, freed: Lsn| {
        let is_in_group = !first.is_multiple_of(GROUP_PAGES) && pages > 0 && first % GROUP_PAGES + pages <= GROUP_PAGES;
        let of_extent = if is_in_group { Ok(()) } else { Err("it frees pages that cannot be allocated") };
        fits = fits.and(of_extent).and(is_older(freed, lsn));
    };
    take_space(carried.body, seen).map_err(|bad| bad.0)?;
    fits
}

/// Returns the pages that a prepared transaction frees, from a record that was carried forward.
pub(super) fn carried_space(body: &Body<'_>) -> Result<Vec<Extent>, &'static str> {
    let mut extents = Vec::new();
    if let Body::Carried(carried) = body
        && carried.kind == Kind::VOID
    {
        let seen = |first, pages, _| extents.push(Extent { first, pages });
        take_space(carried.body, seen).map_err(|bad| bad.0)?;
    }
    Ok(extents)
}

/// Returns the error for an invalid record, with its file and offset.
#[cold]
pub(super) fn corrupt(found: &Found, record: &RecordRef<'_>, what: &str) -> LogError {
    let (file, offset) = found.place(record.position);
    LogError::Damaged { file, offset, what: format!("record {} is corrupt: {what}", record.lsn) }
}

/// Exclusive upper bound of transaction numbers, so that there is always a next one.
const NUMBER_LIMIT: u64 = 1 << 62;

/// Checks the transaction number and the copied record of a record. The error is the defect of the record.
fn may_stand_here(record: &RecordRef<'_>, body: &Body<'_>) -> Result<(), &'static str> {
    belongs_to(record.head.txn, body).and_then(|()| is_copy_of_older(record.lsn, body))
}

/// Checks whether a record may belong to the transaction that it names. Commits of heaps alone, void records, and copies
/// of outcomes name none. The error is the defect of the record.
fn belongs_to(id: TxnId, body: &Body<'_>) -> Result<(), &'static str> {
    let may_be_alone = matches!(body, Body::Commit { .. } | Body::Void | Body::Outcome { .. });
    if id == TxnId::NONE && !planted!("record_of_no_transaction") && !may_be_alone {
        return Err("it belongs to no transaction");
    }
    // The next transaction must have a number, too.
    if id.0 >= NUMBER_LIMIT && !planted!("last_number_taken") {
        Err("the number of its transaction is larger than any store's")
    } else {
        Ok(())
    }
}

/// Checks that changes that count only if their transaction commits are deltas. Redo decides on them by the version of
/// their record (E19.2, E19.15); any other operation would be redone by the LSN of the page, which must not come from
/// another change of the same commit record: so there may be one at slot 0. The error is the defect of the record.
fn are_deltas(body: &Body<'_>, known: &Numbers) -> Result<(), String> {
    if !matches!(body, Body::Commit { .. } | Body::Update { committed_only: true, .. }) {
        return Ok(());
    }
    let is_commit = matches!(body, Body::Commit { .. });
    let may_stand = |redo: &Redo<'_>| {
        let table = known.operation(redo.operation);
        table.is_some_and(|table| table.by_version || is_commit && table.commits && redo.at.slot.0 == 0)
    };
    match body.redos().find(|redo| !may_stand(redo)) {
        None => Ok(()),
        Some(redo) => {
            let name = known.name(redo.operation).unwrap_or_default();
            Err(format!("it changes the record at {} by \"{name}\", which is no delta", redo.at))
        }
    }
}

/// R3: every record of the log can be redone and undone by this program.
fn is_registered(body: &Body<'_>, known: &Numbers) -> Result<()> {
    let missing = |what, number| {
        let name = known.name(number).map_or_else(|| format!("number {number}"), str::to_owned);
        Err(Error::Unregistered { what, name })
    };
    if planted!("unregistered_operation_passed_over") {
        return Ok(());
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Carried;
    use crate::carry::put_space;

    #[test]
    fn record_of_no_transaction_is_refused() {
        let part = Body::Prepare { begins: true, goes_on: false, is_copy: false, part: b"" };
        for body in [part, Body::RollbackEnd] {
            assert!(belongs_to(TxnId::NONE, &body).is_err(), "R2");
            assert!(belongs_to(TxnId(1), &body).is_ok());
        }
        assert!(belongs_to(TxnId::NONE, &Body::Void).is_ok());
    }

    #[test]
    fn number_that_none_can_follow_is_refused() {
        assert!(belongs_to(TxnId(NUMBER_LIMIT), &Body::RollbackEnd).is_err(), "R2");
        assert!(belongs_to(TxnId(u64::MAX), &Body::Void).is_err(), "R2");
        assert!(belongs_to(TxnId(NUMBER_LIMIT - 1), &Body::RollbackEnd).is_ok());
    }

    #[test]
    fn copy_of_newer_record_is_refused() {
        let copy = |lsn| is_copy_of_older(Lsn::new(9), &Body::Carried(Carried { lsn, kind: Kind::USER, body: &[1] }));
        assert_eq!(copy(Lsn::new(8)), Ok(()));
        for lsn in [Lsn::ZERO, Lsn::new(9), Lsn::new(10), Lsn::MAX] {
            assert!(copy(lsn).is_err(), "E9.13: {lsn}");
        }
    }

    #[test]
    fn carried_space_lies_in_one_group() {
        let space = |extents: &[(u64, u64, u64)]| {
            let mut body = Vec::new();
            extents.iter().for_each(|&(first, pages, lsn)| put_space(&mut body, first, pages, Lsn::new(lsn)));
            is_copy_of_older(Lsn::new(9), &Body::Carried(Carried { lsn: Lsn::ZERO, kind: Kind::VOID, body: &body }))
        };
        let good = (GROUP_PAGES + 1, GROUP_PAGES - 1, 8);
        assert_eq!(space(&[(2, 5, 1), good]), Ok(()));
        let bad = [(0, 1, 1), (2, 0, 1), (5, GROUP_PAGES - 4, 1), (2, u64::MAX - 2, 1), (2, 1, 0), (2, 1, 9)];
        for bad in bad {
            assert!(space(&[good, bad]).is_err() && space(&[bad, good]).is_err(), "{bad:?}");
        }
    }
}
