//! The body of a log record (drawn in docs/formats/records.md).
//!
//! ```text
//! update        shape | operation | page | [slot] | [undo number | [undo slot] | length | arguments] … undo arguments
//! compensation  shape | undo next | operation | page | [slot] | arguments
//! nested end    shape | undo next | [undo number | undo arguments]
//! undo only     shape | undo number | undo arguments
//! user          number of the kind's name | bytes
//! commit        [0x80 | length | changes of records] | heap words (docs/formats/heap.md), or nothing
//! heap part     heap words
//! prepare       which part: 1 if another one follows, plus 2 if one came before | that part of the branch (`branch.rs`)
//! carried       LSN | kind | body of the record that is carried forward (`carry.rs`)
//! outcome       1: committed, 2: rolled back, 3: forgotten | identifier of the branch (`heuristic.rs`)
//! rollback end  nothing
//! ```
//!
//! Numbers are varints. *Undo next* is a position in the transaction's partition plus one, 0 for none. The *shape*
//! states which parts follow: its low three bits are the kind of undo; the next bit states that the slot is 0 and
//! omitted; one more states, in an update, that the update counts only if its transaction commits, and, in a nested
//! end, that such updates after *undo next* no longer count.

use cedrat_heap::HEAP_PART;
use cedrat_pages::{PageId, Slot};
use cedrat_wal::{ByteLen, Kind, LogOffset, Lsn, record_len_bound};

use crate::carry::take_space;
use crate::encode::varint;
use crate::heuristic::{self, OUTCOME, OutcomeCode};
use crate::operation::RecordId;

/// A copy of a record that a prepared transaction still needs, carried forward in the log.
pub const CARRIED: Kind = match Kind::new(11) {
    Some(kind) => kind,
    None => unreachable!(),
};

const SLOT_ZERO: u8 = 0x08;
const UNDO_MASK: u8 = 0x07;
/// In an update: it counts only if its transaction commits. In a nested end: such updates after *undo next* no longer
/// count.
const COMMITTED_ONLY: u8 = 0x10;

/// First byte of a commit record's body that contains changes of records. Heap words never begin with it.
const CHANGES: u8 = 0x80;

/// Flags of a prepare record: another part follows; another part came before.
const GOES_ON: u8 = 1;
const GOES_BEFORE: u8 = 2;
/// Flag of a prepare record: it belongs to a copy that was carried forward.
const COPY: u8 = 4;

/// The kind of undo that a record carries. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum UndoShape {
    None = 0,
    Derived = 1,
    Operation = 2,
    OperationAt = 3,
    Logical = 4,
    Finish = 5,
}

impl UndoShape {
    fn from_bits(bits: u8) -> Option<UndoShape> {
        Some(match bits {
            0 => UndoShape::None,
            1 => UndoShape::Derived,
            2 => UndoShape::Operation,
            3 => UndoShape::OperationAt,
            4 => UndoShape::Logical,
            5 => UndoShape::Finish,
            _ => return None,
        })
    }
}

/// A record's undo, as logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoggedUndo<'a> {
    None,
    Derived,
    Operation { number: u32, slot: Option<Slot>, arguments: &'a [u8] },
    Logical { number: u32, arguments: &'a [u8] },
    Finish { number: u32, arguments: &'a [u8] },
}

impl LoggedUndo<'_> {
    pub(crate) fn number(&self) -> Option<u32> {
        match *self {
            LoggedUndo::None | LoggedUndo::Derived => None,
            LoggedUndo::Operation { number, .. }
            | LoggedUndo::Logical { number, .. }
            | LoggedUndo::Finish { number, .. } => Some(number),
        }
    }
}

/// A change of a page, as logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Redo<'a> {
    pub(crate) operation: u32,
    pub(crate) at: RecordId,
    pub(crate) arguments: &'a [u8],
}

/// The parsed body of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    Update {
        redo: Redo<'a>,
        undo: LoggedUndo<'a>,
        /// Counts only if its transaction commits (E19.5).
        committed_only: bool,
    },
    Compensation {
        redo: Redo<'a>,
        undo_next: Option<LogOffset>,
    },
    NestedEnd {
        undo_next: Option<LogOffset>,
        undo: LoggedUndo<'a>,
        /// Whether changes after `undo_next` that count only if committed no longer count.
        goes_back: bool,
    },
    UndoOnly {
        undo: LoggedUndo<'a>,
    },
    User {
        number: u32,
        bytes: &'a [u8],
    },
    Commit {
        changes: Changes<'a>,
        heap: &'a [u8],
    },
    HeapPart {
        heap: &'a [u8],
    },
    Prepare {
        /// Whether this record has the first part.
        begins: bool,
        /// Whether another record has the next part; until the last part the transaction is not prepared.
        goes_on: bool,
        /// Whether it belongs to a copy, whose first part begins with the LSN of the original prepare record.
        is_copy: bool,
        part: &'a [u8],
    },
    Carried(Carried<'a>),
    Outcome {
        logged: OutcomeCode,
        /// The identifier of the branch.
        id: &'a [u8],
    },
    RollbackEnd,
    Void,
}

/// A copy of an older record of a prepared transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried<'a> {
    /// The LSN of the original record; a copy of a copy keeps it.
    pub(crate) lsn: Lsn,
    /// [`Kind::VOID`] stands for [space](take_space) that the transaction frees, not for a record.
    pub(crate) kind: Kind,
    pub(crate) body: &'a [u8],
}

impl<'a> Carried<'a> {
    pub(crate) fn take(mut bytes: &'a [u8]) -> Result<Carried<'a>, Corrupt> {
        let rest = &mut bytes;
        let lsn = Lsn::new(varint::take(rest).ok_or(CUT)?);
        let (&kind, body) = rest.split_first().ok_or(CUT)?;
        let kind =
            Kind::new(kind).filter(|kind| matches!(*kind, Kind::UPDATE | Kind::UNDO_ONLY | Kind::USER | Kind::VOID));
        let kind = kind.ok_or(Corrupt("records of this kind are not carried forward; it may be of a newer version"))?;
        Ok(Carried { lsn, kind, body })
    }

    /// Returns the record that was copied.
    fn body(&self) -> Result<Body<'a>, Corrupt> {
        Body::parse(self.kind, self.body)
    }
}

/// Largest number of bytes by which a copy is longer than its record.
pub(crate) const CARRIED_LONGER_MAX: usize = 10 + 1;

/// The changes of records in a commit record, in ascending order of their addresses, at most one per record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes<'a>(&'a [u8]);

impl<'a> Changes<'a> {
    /// Takes the changes off the front of a commit record's body, and validates all of them.
    fn take(bytes: &mut &'a [u8]) -> Result<Changes<'a>, Corrupt> {
        let Some((&CHANGES, mut rest)) = bytes.split_first() else { return Ok(Changes::default()) };
        let changes = Changes(with_length(&mut rest)?);
        *bytes = rest;
        let (mut left, mut before) = (changes, None);
        while !left.0.is_empty() {
            let change = left.take_one()?;
            if before >= Some(change.at) {
                return Err(Corrupt("its changes are not in the order of their records"));
            }
            before = Some(change.at);
        }
        Ok(changes)
    }

    #[inline]
    fn take_one(&mut self) -> Result<Redo<'a>, Corrupt> {
        let rest = &mut self.0;
        let operation = number(rest)?;
        let at = place(rest, 0)?;
        Ok(Redo { operation, at, arguments: with_length(rest)? })
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Redo<'a>;

    #[inline]
    fn next(&mut self) -> Option<Redo<'a>> {
        (!self.0.is_empty()).then(|| self.take_one().expect("they were looked at when they were taken"))
    }
}

/// The reason why a body is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt(pub(crate) &'static str);

pub(crate) const CUT: Corrupt = Corrupt("it is truncated");

impl<'a> Body<'a> {
    /// Parses a body.
    #[inline]
    pub(crate) fn parse(kind: Kind, mut bytes: &'a [u8]) -> Result<Body<'a>, Corrupt> {
        let rest = &mut bytes;
        Ok(match kind {
            Kind::UPDATE => {
                let shape = shape(rest, SLOT_ZERO | COMMITTED_ONLY)?;
                let committed_only = shape & COMMITTED_ONLY != 0;
                let operation = number(rest)?;
                let at = place(rest, shape)?;
                let undo_shape = UndoShape::from_bits(shape & UNDO_MASK).ok_or(Corrupt("its undo is invalid"))?;
                if matches!(undo_shape, UndoShape::None | UndoShape::Derived) {
                    let undo = if undo_shape == UndoShape::None { LoggedUndo::None } else { LoggedUndo::Derived };
                    Body::Update { redo: Redo { operation, at, arguments: rest }, undo, committed_only }
                } else {
                    let undo_number = number(rest)?;
                    let slot = (undo_shape == UndoShape::OperationAt).then(|| slot(rest)).transpose()?;
                    let arguments = with_length(rest)?;
                    let undo = logged(undo_shape, undo_number, slot, rest);
                    Body::Update { redo: Redo { operation, at, arguments }, undo, committed_only }
                }
            }
            Kind::COMPENSATION => {
                let shape = shape(rest, SLOT_ZERO)?;
                let undo_next = undo_next(rest)?;
                let operation = number(rest)?;
                let at = place(rest, shape)?;
                Body::Compensation { redo: Redo { operation, at, arguments: rest }, undo_next }
            }
            Kind::NESTED_END => {
                let shape = shape(rest, COMMITTED_ONLY)?;
                let goes_back = shape & COMMITTED_ONLY != 0;
                let undo_next = undo_next(rest)?;
                Body::NestedEnd { undo_next, undo: undo_alone(shape, rest)?, goes_back }
            }
            Kind::UNDO_ONLY => {
                let shape = shape(rest, 0)?;
                Body::UndoOnly { undo: undo_alone(shape, rest)? }
            }
            Kind::USER => {
                let number = number(rest)?;
                Body::User { number, bytes: rest }
            }
            Kind::COMMIT => Body::Commit { changes: Changes::take(rest)?, heap: rest },
            HEAP_PART => Body::HeapPart { heap: rest },
            Kind::PREPARE => Body::prepare(rest)?,
            CARRIED => {
                let carried = Carried::take(rest)?;
                carried.body()?;
                if carried.kind == Kind::VOID {
                    take_space(carried.body, |_, _, _| {})?;
                }
                Body::Carried(carried)
            }
            OUTCOME => {
                let (logged, id) = heuristic::take(rest)?;
                Body::Outcome { logged, id }
            }
            Kind::ROLLBACK_END => Body::RollbackEnd,
            Kind::VOID => Body::Void,
            _ => return Err(Corrupt("its kind is unknown; it may be of a newer version")),
        })
    }

    fn prepare(bytes: &'a [u8]) -> Result<Body<'a>, Corrupt> {
        match bytes.split_first() {
            Some((&which @ 0..=7, part)) => Ok(Body::Prepare {
                begins: which & GOES_BEFORE == 0,
                goes_on: which & GOES_ON != 0,
                is_copy: which & COPY != 0,
                part,
            }),
            Some(_) => Err(Corrupt("a prepared part is unknown; it may be of a newer version")),
            None => Err(CUT),
        }
    }

    /// Returns the change of one page that the record was made for, if any.
    #[inline]
    pub(crate) fn redo(&self) -> Option<&Redo<'a>> {
        match self {
            Body::Update { redo, .. } | Body::Compensation { redo, .. } => Some(redo),
            _ => None,
        }
    }

    /// Returns all changes of pages in the record; for a commit record, its changes of records.
    #[inline]
    pub(crate) fn redos(&self) -> impl Iterator<Item = Redo<'a>> + use<'a> {
        let changes = if let Body::Commit { changes, .. } = *self { changes } else { Changes::default() };
        self.unwrapped_in(&mut None).redo().copied().into_iter().chain(changes)
    }

    /// Returns the same as [`unwrapped`](Body::unwrapped), and copies no body that is no copy: most are not.
    #[inline]
    pub(crate) fn unwrapped_in<'b>(&'b self, copied: &'b mut Option<Body<'a>>) -> &'b Body<'a> {
        if let Body::Carried(_) = self { copied.insert(self.unwrapped()) } else { self }
    }

    /// Returns the record that was copied, for a copy, or else the record itself.
    #[inline]
    pub(crate) fn unwrapped(&self) -> Body<'a> {
        match self {
            Body::Carried(carried) => carried.body().expect("it was looked at when it was parsed"),
            body => *body,
        }
    }
}

fn logged(shape: UndoShape, number: u32, slot: Option<Slot>, arguments: &[u8]) -> LoggedUndo<'_> {
    match shape {
        UndoShape::None => LoggedUndo::None,
        UndoShape::Derived => LoggedUndo::Derived,
        UndoShape::Operation | UndoShape::OperationAt => LoggedUndo::Operation { number, slot, arguments },
        UndoShape::Logical => LoggedUndo::Logical { number, arguments },
        UndoShape::Finish => LoggedUndo::Finish { number, arguments },
    }
}

fn undo_alone<'a>(shape: u8, rest: &mut &'a [u8]) -> Result<LoggedUndo<'a>, Corrupt> {
    match UndoShape::from_bits(shape & UNDO_MASK) {
        Some(UndoShape::None) => Ok(LoggedUndo::None),
        Some(shape @ (UndoShape::Logical | UndoShape::Finish)) => {
            let number = number(rest)?;
            Ok(logged(shape, number, None, rest))
        }
        _ => Err(Corrupt("its undo needs a page, and it names none")),
    }
}

/// Takes the shape. Besides the kind of undo only the bits of `known` may be set.
#[inline]
fn shape(rest: &mut &[u8], known: u8) -> Result<u8, Corrupt> {
    let (&shape, others) = rest.split_first().ok_or(CUT)?;
    *rest = others;
    if shape & !(UNDO_MASK | known) != 0 {
        return Err(Corrupt("its shape is unknown; it may be of a newer version"));
    }
    Ok(shape)
}

/// Takes a byte string that is preceded by its length.
#[inline]
fn with_length<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Corrupt> {
    let len = varint::take(rest).ok_or(CUT)?;
    let len = usize::try_from(len).ok().filter(|&len| len <= rest.len()).ok_or(CUT)?;
    let (bytes, others) = rest.split_at(len);
    *rest = others;
    Ok(bytes)
}

#[inline]
fn number(rest: &mut &[u8]) -> Result<u32, Corrupt> {
    let number = varint::take(rest).ok_or(CUT)?;
    u32::try_from(number).map_err(|_| Corrupt("a number is too large"))
}

#[inline]
fn slot(rest: &mut &[u8]) -> Result<Slot, Corrupt> {
    let number = varint::take(rest).ok_or(CUT)?;
    u16::try_from(number).map(Slot).map_err(|_| Corrupt("a slot is too large"))
}

#[inline]
fn place(rest: &mut &[u8], shape: u8) -> Result<RecordId, Corrupt> {
    let page = varint::take(rest).ok_or(CUT)?;
    let slot = if shape & SLOT_ZERO != 0 { Slot(0) } else { slot(rest)? };
    Ok(RecordId { page: PageId::new(page), slot })
}

#[inline]
fn undo_next(rest: &mut &[u8]) -> Result<Option<LogOffset>, Corrupt> {
    let number = varint::take(rest).ok_or(CUT)?;
    Ok(number.checked_sub(1).map(LogOffset::new))
}

/// Writes the part of a body that precedes the arguments.
pub(crate) struct Head<'a>(pub(crate) &'a mut Vec<u8>);

impl Head<'_> {
    /// Writes the head of an update. `arguments_len` is the length of the redo arguments.
    #[inline]
    pub(crate) fn update(
        self,
        operation: u32,
        at: RecordId,
        undo: UndoShape,
        undo_call: Option<(u32, Option<Slot>)>,
        arguments_len: usize,
    ) {
        let bytes = self.0;
        bytes.clear();
        put_shape_and(bytes, undo, at);
        varint::put(bytes, u64::from(operation));
        put_place(bytes, at);
        if let Some((number, slot)) = undo_call {
            varint::put(bytes, u64::from(number));
            if let Some(slot) = slot {
                varint::put(bytes, u64::from(slot.0));
            }
            varint::put(bytes, arguments_len as u64);
        }
    }

    /// Writes the head of an update without undo. With `committed_only` it counts only if its transaction commits.
    #[inline]
    pub(crate) fn deferred(self, operation: u32, at: RecordId, committed_only: bool) {
        let bytes = self.0;
        bytes.clear();
        put_shape_and(bytes, UndoShape::None, at);
        if committed_only {
            bytes[0] |= COMMITTED_ONLY;
        }
        varint::put(bytes, u64::from(operation));
        put_place(bytes, at);
    }

    /// Writes the head of a compensation.
    pub(crate) fn compensation(self, operation: u32, at: RecordId, undo_next: Option<LogOffset>) {
        let bytes = self.0;
        bytes.clear();
        put_shape_and(bytes, UndoShape::None, at);
        put_undo_next(bytes, undo_next);
        varint::put(bytes, u64::from(operation));
        put_place(bytes, at);
    }

    /// Writes the end of a nested top action, without the arguments of its undo.
    pub(crate) fn nested_end(self, undo_next: Option<LogOffset>, undo: UndoShape, number: Option<u32>) {
        let bytes = self.0;
        bytes.clear();
        bytes.push(undo as u8);
        put_undo_next(bytes, undo_next);
        if let Some(number) = number {
            varint::put(bytes, u64::from(number));
        }
    }

    /// Writes a return to `undo_next`: later updates that count only if committed no longer count.
    pub(crate) fn goes_back(self, undo_next: Option<LogOffset>) {
        let bytes = self.0;
        Head(bytes).nested_end(undo_next, UndoShape::None, None);
        bytes[0] |= COMMITTED_ONLY;
    }

    /// Writes the head of an undo without redo.
    pub(crate) fn undo_only(self, undo: UndoShape, number: u32) {
        let bytes = self.0;
        bytes.clear();
        bytes.push(undo as u8);
        varint::put(bytes, u64::from(number));
    }

    /// Writes the head of one part of a prepared branch.
    pub(crate) fn prepare(self, begins: bool, goes_on: bool, is_copy: bool) {
        let bytes = self.0;
        bytes.clear();
        let parts = if goes_on { GOES_ON } else { 0 } | if begins { 0 } else { GOES_BEFORE };
        bytes.push(parts | if is_copy { COPY } else { 0 });
    }

    /// Writes the head of the copy of a record.
    pub(crate) fn carried(self, lsn: Lsn, kind: Kind) {
        let bytes = self.0;
        bytes.clear();
        varint::put(bytes, lsn.get());
        bytes.push(kind.number());
    }

    /// Writes an undo without redo, behind the head of a copy: the undo in the end record of a nested top action.
    pub(crate) fn undo_of(self, undo: &LoggedUndo<'_>) {
        let (shape, number) = match *undo {
            LoggedUndo::Finish { number, .. } => (UndoShape::Finish, number),
            _ => (UndoShape::Logical, undo.number().expect("a nested top action is undone by a call")),
        };
        self.0.push(shape as u8);
        varint::put(self.0, u64::from(number));
    }

    /// Writes the head of a commit record whose changes of records take `changes_len` bytes.
    pub(crate) fn commit_with_changes(self, changes_len: usize) {
        let bytes = self.0;
        bytes.clear();
        bytes.push(CHANGES);
        varint::put(bytes, changes_len as u64);
    }

    /// Writes the head of a record of the application's own kind.
    pub(crate) fn user(self, number: u32) {
        let bytes = self.0;
        bytes.clear();
        varint::put(bytes, u64::from(number));
    }
}

#[inline]
fn put_shape_and(bytes: &mut Vec<u8>, undo: UndoShape, at: RecordId) {
    bytes.push(undo as u8 | if at.slot.0 == 0 { SLOT_ZERO } else { 0 });
}

/// A change that is being appended. Unless it is finished, what was appended is removed again: after an error, and after a
/// panic, which the caller may catch.
struct Unfinished<'b> {
    bytes: &'b mut Vec<u8>,
    begin: usize,
}

impl Drop for Unfinished<'_> {
    #[inline]
    fn drop(&mut self) {
        self.bytes.truncate(self.begin);
    }
}

/// Appends one change of a commit record. `put` appends the arguments; if it fails or panics, nothing is appended.
#[inline]
pub(crate) fn put_change<E>(
    bytes: &mut Vec<u8>,
    operation: u32,
    at: RecordId,
    put: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let begin = bytes.len();
    let change = Unfinished { bytes, begin };
    let bytes = &mut *change.bytes;
    varint::put(bytes, u64::from(operation));
    varint::put(bytes, at.page.get());
    varint::put(bytes, u64::from(at.slot.0));
    // The length is known afterwards. As a rule it has the one byte that is left for it here, and nothing is copied twice.
    let len_at = bytes.len();
    bytes.push(0);
    put(bytes)?;
    match bytes.len() - len_at - 1 {
        len @ 0..0x80 => bytes[len_at] = len as u8,
        len => {
            let mut len_bytes = Vec::new();
            varint::put(&mut len_bytes, len as u64);
            bytes.splice(len_at..=len_at, len_bytes);
        }
    }
    std::mem::forget(change);
    Ok(())
}

/// The maximum number of bytes that [`put_change`] appends besides the arguments.
pub(crate) const CHANGE_HEAD_LEN_MAX: usize = 5 + 10 + 3 + 5;

#[inline]
fn put_place(bytes: &mut Vec<u8>, at: RecordId) {
    varint::put(bytes, at.page.get());
    if at.slot.0 != 0 {
        varint::put(bytes, u64::from(at.slot.0));
    }
}

fn put_undo_next(bytes: &mut Vec<u8>, undo_next: Option<LogOffset>) {
    varint::put(bytes, undo_next.map_or(0, |offset| offset.get() + 1));
}

/// The maximum number of bytes before the arguments of any body.
const HEAD_LEN_MAX: u64 = 1 + 10 + 5 + 10 + 3 + 5 + 3 + 5;

/// Largest number of bytes by which the body of a compensation exceeds that of its update: the position to undo next,
/// the number of another operation, another slot.
pub(crate) const COMPENSATION_LONGER_MAX: usize = 10 + 5 + 3;

/// Returns the maximum log space of a record whose arguments have `arguments` bytes in all.
#[inline]
pub(crate) const fn record_space(arguments: usize) -> u64 {
    record_len_bound(ByteLen(HEAD_LEN_MAX + arguments as u64)).0
}
const _: () = assert!(record_space(0) >= cedrat_wal::UNDO_RECORD_LEN_MIN);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::carry::{SPACE_LEN_MAX, put_space};

    fn parse(kind: Kind, parts: &[&[u8]]) -> (Vec<u8>, Kind) {
        (parts.concat(), kind)
    }

    fn put_whole(changes: &mut Vec<u8>, redo: &Redo<'_>) {
        let put = |bytes: &mut Vec<u8>| {
            bytes.extend_from_slice(redo.arguments);
            Ok::<_, ()>(())
        };
        let begin = changes.len();
        put_change(changes, redo.operation, redo.at, put).unwrap();
        let mut serialised = Vec::new();
        crate::encode::put_serialised_change(&mut serialised, redo.operation, redo.at, [], redo.arguments);
        assert_eq!(changes[begin..], serialised);
    }

    proptest! {
        #[test]
        fn updates_come_back(
            operation: u32, page: u64, slot: u16, undo in 0u8..6, number: u32, undo_slot: u16,
            arguments: Vec<u8>, undo_arguments: Vec<u8>,
        ) {
            let at = RecordId::new(PageId::new(page), Slot(slot));
            let shape = UndoShape::from_bits(undo).unwrap();
            let has_call = undo >= 2;
            let undo_slot = (shape == UndoShape::OperationAt).then_some(Slot(undo_slot));
            let undo_arguments = if has_call { undo_arguments } else { Vec::new() };
            let mut head = Vec::new();
            Head(&mut head).update(operation, at, shape, has_call.then_some((number, undo_slot)), arguments.len());
            let (bytes, kind) = parse(Kind::UPDATE, &[&head, &arguments, &undo_arguments]);
            let all = arguments.len() + undo_arguments.len();
            prop_assert!(record_len_bound(ByteLen(bytes.len() as u64)).0 <= record_space(all));
            let redo = Redo { operation, at, arguments: &arguments };
            let undo = logged(shape, number, undo_slot, &undo_arguments);
            prop_assert_eq!(Body::parse(kind, &bytes), Ok(Body::Update { redo, undo, committed_only: false }));
        }

        /// Updates that count only if committed (E19.5).
        #[test]
        fn conditional_change_is_read_back(
            operation: u32, page: u64, slot: u16, next: Option<u32>, arguments: Vec<u8>,
        ) {
            let at = RecordId::new(PageId::new(page), Slot(slot));
            let mut head = Vec::new();
            Head(&mut head).deferred(operation, at, true);
            let (bytes, kind) = parse(Kind::UPDATE, &[&head, &arguments]);
            let redo = Redo { operation, at, arguments: &arguments };
            let expected = Body::Update { redo, undo: LoggedUndo::None, committed_only: true };
            prop_assert_eq!(Body::parse(kind, &bytes), Ok(expected));

            let undo_next = next.map(|next| LogOffset::new(next.into()));
            Head(&mut head).goes_back(undo_next);
            let expected = Body::NestedEnd { undo_next, undo: LoggedUndo::None, goes_back: true };
            prop_assert_eq!(Body::parse(Kind::NESTED_END, &head), Ok(expected));
        }

        /// The length of a change's arguments has as many bytes as it needs, and a change that cannot be encoded has none.
        #[test]
        fn arguments_of_any_length_come_back(lens in proptest::collection::vec(0usize..20_000, 1..4)) {
            let arguments: Vec<Vec<u8>> = lens.iter().map(|&len| (0..len).map(|at| at as u8).collect()).collect();
            let mut changes = Vec::new();
            let redos: Vec<Redo<'_>> = arguments.iter().zip(1..).map(|(arguments, page)| {
                Redo { operation: 7, at: RecordId::new(PageId::new(page), Slot(2)), arguments }
            }).collect();
            for redo in &redos {
                put_whole(&mut changes, redo);
                let refuse = |bytes: &mut Vec<u8>| {
                    bytes.extend_from_slice(redo.arguments);
                    Err(())
                };
                prop_assert_eq!(put_change(&mut changes, redo.operation, redo.at, refuse), Err(()));
            }
            prop_assert_eq!(Changes(&changes).collect::<Vec<_>>(), redos);
        }

        /// Changes round-trip whole, each once and in order, with or without heap words behind them, which begin with a
        /// byte below 0x80 (E19.15).
        #[test]
        fn changes_of_a_commit_come_back(
            all: std::collections::BTreeMap<(u64, u16), (u32, Vec<u8>)>, heap in "[a-z]{0,5}", cut in 1usize..20,
        ) {
            let redos: Vec<Redo<'_>> = all.iter().map(|(&(page, slot), (operation, arguments))| {
                Redo { operation: *operation, at: RecordId::new(PageId::new(page), Slot(slot)), arguments }
            }).collect();
            let in_record = |redos: &[Redo<'_>]| {
                let (mut head, mut changes) = (Vec::new(), Vec::new());
                redos.iter().for_each(|redo| put_whole(&mut changes, redo));
                Head(&mut head).commit_with_changes(changes.len());
                [head, changes].concat()
            };
            let whole = in_record(&redos);
            let bytes = [&whole, heap.as_bytes()].concat();
            let body = Body::parse(Kind::COMMIT, &bytes).unwrap();
            prop_assert_eq!(body.redos().collect::<Vec<_>>(), redos.clone());
            let Body::Commit { heap: behind, .. } = body else { panic!("{body:?}") };
            prop_assert_eq!(behind, heap.as_bytes());
            prop_assert!(Body::parse(Kind::COMMIT, &whole[..whole.len().saturating_sub(cut).max(1)]).is_err());
            if let [first, ..] = *redos {
                prop_assert!(Body::parse(Kind::COMMIT, &in_record(&[first, first])).is_err());
            }
        }

        #[test]
        fn unknown_record_shape_is_refused(bits in 1u8..8, rest: Vec<u8>) {
            let body = [&[bits << 5], rest.as_slice()].concat();
            for kind in [Kind::UPDATE, Kind::COMPENSATION, Kind::NESTED_END, Kind::UNDO_ONLY] {
                prop_assert!(Body::parse(kind, &body).is_err(), "{kind:?}");
            }
            for kind in [Kind::COMPENSATION, Kind::UNDO_ONLY] {
                let body = [&[COMMITTED_ONLY], rest.as_slice()].concat();
                prop_assert!(Body::parse(kind, &body).is_err(), "{kind:?}");
            }
        }

        #[test]
        fn compensations_and_ends_come_back(operation: u32, page: u64, slot: u16, next: Option<u32>, arguments: Vec<u8>) {
            let at = RecordId::new(PageId::new(page), Slot(slot));
            let undo_next = next.map(|next| LogOffset::new(next.into()));
            let mut head = Vec::new();
            Head(&mut head).compensation(operation, at, undo_next);
            let (bytes, kind) = parse(Kind::COMPENSATION, &[&head, &arguments]);
            let redo = Redo { operation, at, arguments: &arguments };
            prop_assert_eq!(Body::parse(kind, &bytes), Ok(Body::Compensation { redo, undo_next }));

            Head(&mut head).nested_end(undo_next, UndoShape::Logical, Some(operation));
            let (bytes, kind) = parse(Kind::NESTED_END, &[&head, &arguments]);
            let undo = LoggedUndo::Logical { number: operation, arguments: &arguments };
            prop_assert_eq!(Body::parse(kind, &bytes), Ok(Body::NestedEnd { undo_next, undo, goes_back: false }));
        }

        #[test]
        fn parts_of_what_is_prepared_come_back(begins: bool, goes_on: bool, is_copy: bool, part: Vec<u8>) {
            let mut head = Vec::new();
            Head(&mut head).prepare(begins, goes_on, is_copy);
            let (bytes, kind) = parse(Kind::PREPARE, &[&head, &part]);
            prop_assert_eq!(Body::parse(kind, &bytes), Ok(Body::Prepare { begins, goes_on, is_copy, part: &part }));
        }

        #[test]
        fn copies_come_back(lsn: u64, number: u32, bytes: Vec<u8>, space: Vec<(u32, u32, u64)>) {
            let lsn = Lsn::new(lsn);
            let mut record = Vec::new();
            Head(&mut record).user(number);
            record.extend_from_slice(&bytes);
            let mut head = Vec::new();
            Head(&mut head).carried(lsn, Kind::USER);
            prop_assert!(head.len() <= CARRIED_LONGER_MAX);
            let (all, kind) = parse(CARRIED, &[&head, &record]);
            let parsed = Body::parse(kind, &all);
            prop_assert_eq!(parsed, Ok(Body::Carried(Carried { lsn, kind: Kind::USER, body: &record })));
            prop_assert_eq!(parsed.unwrap().unwrapped(), Body::User { number, bytes: &bytes });

            let mut list = Vec::new();
            for &(first, pages, lsn) in &space {
                put_space(&mut list, first.into(), pages.into(), Lsn::new(lsn));
            }
            prop_assert!(list.len() <= space.len() * SPACE_LEN_MAX);
            let mut found = Vec::new();
            let seen = |first, pages, lsn: Lsn| found.push((first as u32, pages as u32, lsn.get()));
            prop_assert_eq!(take_space(&list, seen), Ok(()));
            prop_assert_eq!(found, space);
        }

        #[test]
        fn garbage_never_panics(kind in 1u8..=63, bytes: Vec<u8>) {
            let _ = Body::parse(Kind::new(kind).unwrap(), &bytes);
        }
    }

    /// The example of docs/formats/records.md.
    #[test]
    fn a_deferred_change_is_as_drawn() {
        let mut head = Vec::new();
        Head(&mut head).deferred(21, RecordId::new(PageId::new(300), Slot(3)), true);
        assert_eq!(head, [0x10, 0x15, 0xac, 0x02, 0x03]);
    }

    #[test]
    fn a_small_update_has_a_small_head() {
        let mut head = Vec::new();
        Head(&mut head).update(20, RecordId::page(PageId::new(100_000)), UndoShape::Derived, None, 16);
        assert_eq!(head.len(), 5);
    }
}
