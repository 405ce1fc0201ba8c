//! Carrying prepared transactions forward, so that they do not hold the log (E9.13).
//!
//! A branch may be in doubt for months. If its records hold more than a little of the log, a checkpoint copies those
//! that its commit or its rollback still needs to the head of the log. From then on the transaction consists of the
//! copies:
//!
//! ```text
//!   update │ update │ nested end │ prepare │ … others … │ copy │ copy │ copy │ prepare (copy)
//!   └───────── truncated ────────────────┘              └─ a chain of its own, as before ─┘
//! ```
//!
//! A copy contains the LSN of its record, by which pages identify deferred changes, and the record itself. Changes that
//! were undone are omitted, so undo goes from each copy to the previous one. The copies take effect with the last
//! copied prepare record. Until that record is durable the log keeps the originals: after a crash the newest complete
//! set is used.
//!
//! Deferred changes with inverses, and the compensations of those that were undone, are flushed before: redo may begin between
//! them, and of what was undone there is no copy. If a keeper does not flush them, the transaction is not carried forward.
//! Changes without inverses are not flushed before the commit; redo takes them from the copies alone.

use cedrat_sync::planted;
use cedrat_wal::{ByteLen, Kind, LogOffset, Lsn, Reservation, record_len_bound};

use crate::body::{Body, CARRIED, CARRIED_LONGER_MAX, CUT, Corrupt, Head, LoggedUndo, record_space};
use crate::branch::Branch;
use crate::checkpoint::Carries;
use crate::encode::varint;
use crate::error::{Error, Result};
use crate::prepared::Parked;
use crate::space::Extent;
use crate::store::{Inner, Store};
use crate::transaction::{Freed, Txn};

/// Appends a range of pages that a transaction frees, and the LSN at which it freed them.
pub(crate) fn put_space(bytes: &mut Vec<u8>, first: u64, pages: u64, lsn: Lsn) {
    [first, pages, lsn.get()].into_iter().for_each(|number| varint::put(bytes, number));
}

/// The maximum number of bytes that [`put_space`] appends.
pub(crate) const SPACE_LEN_MAX: usize = 30;

/// Calls `seen` for each range that [`put_space`] has appended.
pub(crate) fn take_space(mut bytes: &[u8], mut seen: impl FnMut(u64, u64, Lsn)) -> Result<(), Corrupt> {
    let rest = &mut bytes;
    while !rest.is_empty() {
        let mut number = || varint::take(rest).ok_or(CUT);
        let (first, pages, lsn) = (number()?, number()?, number()?);
        first.checked_add(pages).ok_or(Corrupt("the range of pages is too large"))?;
        seen(first, pages, Lsn::new(lsn));
    }
    Ok(())
}

/// The data of a prepared transaction that is to be copied.
struct Needed {
    /// Positions of records, newest first.
    records: Vec<LogOffset>,
    /// The prepared branch, as its prepare records contain it.
    branch: Vec<u8>,
    /// Maximum log space of all copies.
    len: u64,
}

/// A reservation in the log for the next copies of a prepared transaction.
#[derive(Debug, Default)]
pub(crate) struct CarryReservation {
    /// Maximum log space of the copies; 0 while unknown.
    pub(crate) len: u64,
    reservation: Option<Reservation>,
    /// The reservation was made in the previous run and has not been used since.
    is_of_run_before: bool,
}

impl CarryReservation {
    pub(crate) fn of(len: u64) -> CarryReservation {
        CarryReservation { len, reservation: None, is_of_run_before: false }
    }

    /// Returns the reservation of a transaction that prepared in an earlier opening.
    pub(crate) fn restored(txn: &Txn) -> Result<CarryReservation> {
        Ok(CarryReservation::of_earlier_run(txn.inner(), txn.needed()?.len))
    }

    /// Returns a reservation for copies of records of an earlier opening.
    pub(crate) fn of_earlier_run(inner: &Inner, len: u64) -> CarryReservation {
        let mut carry = CarryReservation::of(len);
        carry.reserve(inner);
        if carry.reservation.is_none() {
            (carry.reservation, carry.is_of_run_before) = (Some(inner.log.reservation_for_recovery()), true);
        }
        carry
    }

    /// Takes the reservation, for copies of at most `len` bytes.
    ///
    /// # Errors
    /// The log has no room. What was reserved stays reserved, for the next attempt.
    pub(crate) fn take(&mut self, inner: &Inner, len: u64) -> Result<Reservation> {
        self.len = len;
        if let Some(reservation) = self.reservation.as_mut().filter(|_| !self.is_of_run_before) {
            let missing = match inner.log.needs_longer_segments(ByteLen(len), ByteLen(0)) {
                true => len,
                false => len.saturating_sub(reservation.forward().0),
            };
            let grown = inner.log.reserve_more(reservation, ByteLen(missing), ByteLen(0));
            if grown.is_err() && planted!("refused_carry_loses_room") {
                self.reservation = None;
            }
            grown?;
        }
        self.is_of_run_before = false;
        match self.reservation.take() {
            Some(reservation) => Ok(reservation),
            None => Ok(inner.log.reserve(ByteLen(len), ByteLen(0))?),
        }
    }
}

impl Inner {
    /// Carries branches forward.
    ///
    /// A branch that cannot be carried holds the log until the next checkpoint; the error is that of the log.
    pub(crate) fn carry_branches_forward(&self, carries: Carries) -> Result<()> {
        let Some(inner) = self.this() else { return Ok(()) };
        let mut carried = Ok(());
        for id in self.branches.ids() {
            let Some(mut branch) = Borrowed::of(self, &id) else { continue };
            let is_worth =
                branch.parked().kept().is_some_and(|(first, len)| self.is_worth_carrying(first, len, carries));
            if is_worth && !planted!("branch_not_carried") {
                let since = branch.since;
                carried = carried.and(branch.taken_up(&Store::of_thread(&inner)).carry_forward(since));
            }
        }
        carried
    }

    /// Whether records from `first` on, whose copies take `len` bytes, are to be copied.
    pub(crate) fn is_worth_carrying(&self, first: Lsn, len: u64, carries: Carries) -> bool {
        let limit = match carries {
            Carries::Heavy => self.limits.carry_bytes(),
            Carries::InFullLog => self.limits.carry_bytes() / 4,
            Carries::All => return !planted!("epochs_held_by_branch"),
        };
        self.log.bytes_since(first).0 > limit.max(2 * len)
    }

    /// Reserves room for the next copies of each branch that has none, after the log was truncated.
    pub(crate) fn reserve_to_carry(&self) {
        for id in self.branches.ids() {
            if let Some(mut branch) = Borrowed::of(self, &id) {
                branch.parked().carry.reserve(self);
            }
        }
    }
}

/// A branch that a checkpoint has borrowed. Drop gives it back, also after a panic: its outcome is open, and it must neither be
/// rolled back nor be kept from the thread that ends it (E9.1).
struct Borrowed<'a> {
    inner: &'a Inner,
    id: &'a [u8],
    since: Lsn,
    /// Present until it is taken up.
    parked: Option<Box<Parked>>,
    /// Present from then on.
    txn: Option<Box<Txn>>,
}

impl<'a> Borrowed<'a> {
    /// Borrows a branch; `None` if it is being ended.
    fn of(inner: &'a Inner, id: &'a [u8]) -> Option<Borrowed<'a>> {
        let (since, parked) = inner.branches.borrow_parked(id)?;
        Some(Borrowed { inner, id, since, parked: Some(parked), txn: None })
    }

    fn parked(&mut self) -> &mut Parked {
        self.parked.as_mut().expect("it is not taken up")
    }

    fn taken_up(&mut self, store: &Store) -> &mut Txn {
        let parked = self.parked.take().expect("it is taken up once");
        self.txn.insert(Box::new(parked.taken_up(store)))
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if planted!("carrying_panic_rolls_back") && std::thread::panicking() {
            return drop(self.txn.take());
        }
        if planted!("carrying_panic_keeps_branch") && std::thread::panicking() {
            return std::mem::forget(self.parked.take());
        }
        let parked = self.parked.take().or_else(|| Some(Box::new(Parked::of(self.txn.take()?))));
        self.inner.branches.give_back(self.id, parked);
    }
}

/// A transaction whose records are being copied, as it was before. Drop restores it, unless the copies have replaced the
/// records.
struct Copying<'t> {
    txn: &'t mut Txn,
    reservation: Option<Reservation>,
    last: Option<LogOffset>,
    undoing: bool,
    are_copied: bool,
    /// Copies that fail leave the rest of their room to the next ones. That of the run before, which has no limit, is used once.
    keeps_rest: bool,
}

impl<'t> Copying<'t> {
    /// Prepares a transaction for its copies, which are paid from `reservation`.
    fn of(txn: &'t mut Txn, reservation: Reservation, keeps_rest: bool) -> Copying<'t> {
        let (reservation, last) = (txn.cursor.reservation.replace(reservation), txn.cursor.last.take());
        let undoing = std::mem::replace(&mut txn.undoing, false);
        Copying { txn, reservation, last, undoing, are_copied: false, keeps_rest }
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        let rest = std::mem::replace(&mut self.txn.cursor.reservation, self.reservation.take());
        self.txn.undoing = self.undoing;
        if !self.are_copied {
            self.txn.cursor.last = self.last;
            if self.keeps_rest && !planted!("failed_copies_lose_room") {
                self.txn.carry.reservation = rest; // E9.5a: the next attempt reserves again what these copies have used
            }
        }
    }
}

impl CarryReservation {
    /// Reserves room if the log has some; otherwise the next checkpoint tries again.
    pub(crate) fn reserve(&mut self, inner: &Inner) {
        if self.reservation.is_none() && self.len > 0 {
            self.reservation = inner.log.reserve(ByteLen(self.len), ByteLen(0)).ok();
        }
    }
}

impl Txn {
    /// Copies all records that the transaction needs to the head of the log. After a failure or a panic the transaction
    /// is unchanged, and the copies made so far have no effect. Without a copy it holds the log as before.
    fn carry_forward(&mut self, since: Lsn) -> Result<()> {
        if !self.flush_inverses()? {
            return Ok(());
        }
        let needed = self.needed()?;
        let keeps_rest = !self.carry.is_of_run_before;
        let reservation = self.carry.take(&self.store.inner, needed.len)?;
        let mut copying = Copying::of(self, reservation, keeps_rest);
        let (first, moved) = copying.txn.copy(&needed, since)?;
        copying.are_copied = true;
        drop(copying);
        // The log is forced before it is truncated.
        self.entry.as_ref().expect("it has records").keep_from(first);
        let newest_before = |place| moved.partition_point(|&(from, _)| from <= place).checked_sub(1);
        self.deferred.moves(|place| newest_before(place).map(|at| moved[at].1));
        Ok(())
    }

    /// Returns the data to copy.
    fn needed(&self) -> Result<Needed> {
        let mut needed = Needed { records: Vec::new(), branch: Vec::new(), len: 0 };
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut chain = self.chain();
        let mut more = chain.advance(self.cursor.last)?;
        while more.is_some() {
            let record = chain.record();
            match record.parse()? {
                Body::Prepare { begins, is_copy: true, part, .. } if begins => {
                    let (_, part) = Branch::of_copy(part).map_err(|bad| Error::bad_record(record.lsn(), bad.0))?;
                    parts.push(part.to_vec());
                }
                Body::Prepare { part, .. } => parts.push(part.to_vec()),
                body if is_needed(&body) => {
                    needed.records.push(record.offset());
                    needed.len += record_len_bound(ByteLen((record.body().len() + CARRIED_LONGER_MAX) as u64)).0;
                }
                _ => {}
            }
            more = chain.step_back()?;
        }
        needed.branch = parts.into_iter().rev().flatten().collect();
        let part_len_max = self.part_len_max() as u64;
        let others = (self.freed.len() * SPACE_LEN_MAX + needed.branch.len() + 10) as u64;
        needed.len += others + (2 + others / part_len_max) * record_space(CARRIED_LONGER_MAX);
        Ok(needed)
    }

    fn part_len_max(&self) -> usize {
        self.inner().body_len_max - CARRIED_LONGER_MAX
    }

    /// Appends the copies, oldest first. Returns the LSN of the first, and the old and new position of each record, in
    /// order.
    fn copy(&mut self, needed: &Needed, since: Lsn) -> Result<(Lsn, Vec<(LogOffset, LogOffset)>)> {
        let first = self.inner().log.current_lsn().next();
        let mut moved = Vec::with_capacity(needed.records.len());
        let mut chain = self.chain();
        for &place in needed.records.iter().rev() {
            self.store.inner.log.throttle(self.partition)?;
            chain.advance(Some(place))?;
            let record = chain.record();
            let body = match record.parse()? {
                Body::NestedEnd { undo, .. } => {
                    Head(&mut self.head).carried(record.lsn(), Kind::UNDO_ONLY);
                    Head(&mut self.head).undo_of(&undo);
                    undo_arguments(&undo)
                }
                _ => {
                    Head(&mut self.head).carried(record.lsn(), record.kind());
                    record.body()
                }
            };
            let offset = self.append(CARRIED, body)?.offset;
            moved.push((place, offset));
        }
        let mut space = Vec::new();
        // Ranges are never split: each record is parsed by itself.
        let of_record = self.part_len_max() / SPACE_LEN_MAX;
        for some in self.freed.clone().chunks(of_record.max(1)) {
            space.clear();
            some.iter().for_each(|freed| put_space(&mut space, freed.extent.first, freed.extent.pages, freed.lsn));
            Head(&mut self.head).carried(Lsn::ZERO, Kind::VOID);
            self.append(CARRIED, &space)?;
        }
        let mut bytes = Vec::with_capacity(needed.branch.len() + 10);
        varint::put(&mut bytes, since.get());
        bytes.extend_from_slice(&needed.branch);
        let parts = bytes.chunks(self.part_len_max());
        let last = parts.len() - 1;
        for (at, part) in parts.enumerate() {
            Head(&mut self.head).prepare(at == 0, at < last, true);
            self.append(Kind::PREPARE, part)?;
        }
        Ok((first, moved))
    }
}

/// Whether commit, rollback or a reader may still need the record.
fn is_needed(body: &Body<'_>) -> bool {
    match body {
        Body::Update { .. } | Body::UndoOnly { .. } | Body::User { .. } => true,
        Body::NestedEnd { undo, .. } => !matches!(undo, LoggedUndo::None),
        _ => false,
    }
}

fn undo_arguments<'a>(undo: &LoggedUndo<'a>) -> &'a [u8] {
    match *undo {
        LoggedUndo::Logical { arguments, .. } | LoggedUndo::Finish { arguments, .. } => arguments,
        _ => &[],
    }
}

impl Txn {
    /// Reconstructs the transaction's state from its records in the log.
    pub(crate) fn what_it_keeps(&self) -> Result<Kept> {
        let space = self.inner().space_numbers;
        let mut kept = Kept::default();
        let mut changes = Vec::new();
        let mut chain = self.chain();
        let mut more = chain.advance(self.cursor.last)?;
        while let Some(lsn) = more {
            let record = chain.record();
            kept.first = record.logged_at();
            if record.is_copy() && record.kind() == Kind::VOID {
                let seen = |first, pages, lsn| kept.freed.push(Freed { extent: Extent { first, pages }, lsn });
                take_space(record.body(), seen).map_err(|bad| Error::bad_record(lsn, bad.0))?;
            }
            let body = record.parse()?;
            kept.is_copy |= matches!(body, Body::Prepare { is_copy: true, .. });
            let redo = body.redo().filter(|redo| space.contains(redo.operation));
            if let Some(change) = redo.and_then(|redo| space.change(redo.operation, redo.at.page, redo.arguments)) {
                changes.push((change, lsn, matches!(body, Body::Compensation { .. })));
            }
            if matches!(body, Body::Update { committed_only: true, .. }) {
                kept.deferred_since = Some(record.logged_at());
            }
            more = chain.previous()?;
        }
        if kept.is_copy {
            return Ok(kept); // a copy lists its freed space itself
        }
        for (change, lsn, is_undo) in changes.into_iter().rev() {
            if !change.used || is_undo {
                change.note(lsn, &mut kept.freed);
            }
        }
        Ok(kept)
    }
}

/// State of a prepared transaction, reconstructed from its records.
#[derive(Default)]
pub(crate) struct Kept {
    /// Space that becomes free when it commits, as it noted while it ran.
    pub(crate) freed: Vec<Freed>,
    /// The LSN of its oldest record.
    pub(crate) first: Lsn,
    /// The LSN of its oldest change that counts only if committed.
    pub(crate) deferred_since: Option<Lsn>,
    /// Whether its records are copies that were carried forward.
    pub(crate) is_copy: bool,
}

#[cfg(all(test, not(cedrat_shuttle)))] // a panic ends a schedule
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use cedrat_media::SimDisk;
    use cedrat_sync::Arc;

    use super::*;
    use crate::prepared::Vote;
    use crate::{Commit, Options, Registry};

    const KIND: &str = "test.filling";

    /// E9.5a: a branch that has become longer than its room needs more than the log has.
    #[test]
    fn refused_copies_keep_their_room() {
        let mut options = Options::simulated();
        options.log_limit_bytes = 24 * options.segment_len;
        let limit = options.log_limit_bytes;
        let store = Store::open(Arc::new(SimDisk::new()), options, Registry::new()).expect("a store");
        let inner = &store.inner;
        let mut carry = CarryReservation::of(1000);
        carry.reserve(inner);
        let room = |carry: &CarryReservation| carry.reservation.as_ref().map(Reservation::forward);
        assert_eq!(room(&carry), Some(ByteLen(1000)));
        carry.take(inner, limit).expect_err("the log is not longer");
        assert_eq!(room(&carry), Some(ByteLen(1000)), "E9.5a");
        let free = inner.log.space().free;
        let taken = carry.take(inner, 1000).expect("E9.5a");
        assert_eq!((taken.forward(), inner.log.space().free), (ByteLen(1000), free));
        assert_eq!(room(&carry), None);
    }

    /// E9.5a: copies fail, or panic, before the last of them.
    #[test]
    fn failed_copies_return_their_room() {
        let store = Store::open(Arc::new(SimDisk::new()), Options::simulated(), Registry::new().record_kind(KIND));
        let store = store.expect("a store");
        let mut txn = store.begin();
        txn.log_record(KIND, b"something").expect("there is room");
        txn.carry = CarryReservation::of(1000);
        for _ in 0..2 {
            let reservation = txn.carry.take(&store.inner, 1000).expect("there is room");
            let reserved = store.log().space().reserved;
            let copying = Copying::of(&mut txn, reservation, true);
            Head(&mut copying.txn.head).carried(Lsn::ZERO, Kind::VOID);
            copying.txn.append(CARRIED, &[]).expect("it has room");
            drop(copying);
            let rest = txn.carry.reservation.as_ref().map_or(0, |rest| rest.forward().0);
            assert!((1..1000).contains(&rest), "E9.5a: {rest}");
            assert!(store.log().space().reserved <= reserved);
        }
    }

    /// A checkpoint panics while it has the branch, before or after it has taken it up.
    #[test]
    fn panic_returns_the_branch() {
        for is_taken_up in [false, true] {
            let registry = Registry::new().record_kind(KIND);
            let store = Store::open(Arc::new(SimDisk::new()), Options::simulated(), registry).expect("a store");
            let mut txn = store.begin();
            txn.log_record(KIND, b"something").expect("there is room");
            let Ok(Vote::Prepared(branch)) = txn.prepare(b"branch") else { panic!("it has logged something") };
            let borrowed = || {
                let mut borrowed = Borrowed::of(&store.inner, b"branch").expect("it is parked");
                if is_taken_up {
                    borrowed.taken_up(&store);
                }
                assert!(Borrowed::of(&store.inner, b"branch").is_none(), "it is borrowed");
                panic!("as planned");
            };
            catch_unwind(AssertUnwindSafe(borrowed)).expect_err("it panics");
            assert_eq!((store.running(), store.in_doubt().expect("it is the same process").len()), (1, 1), "E9.1");
            assert!(
                Borrowed::of(&store.inner, b"branch").is_some(),
                "E9.1: the thread that ends it would wait without end"
            );
            branch.commit(Commit::Sync).expect("the log runs");
            assert_eq!((store.running(), store.in_doubt().expect("it is the same process").len()), (0, 0));
        }
    }
}
