//! Descriptions of log records, for tools that print a log without opening its store.

use std::fmt::Write as _;

use cedrat_pages::PageId;
use cedrat_wal::{Kind, LogOffset, RecordHead, RecordRef};

use crate::body::{Body, LoggedUndo, Redo};
use crate::branch::Branch;
use crate::heuristic::OutcomeCode;
use crate::operation::RecordId;
use crate::registry::{Does, Numbers, Registry};

/// A formatter for the log records of one store.
#[derive(Debug)]
pub struct Explainer {
    numbers: Numbers,
}

/// The description of a record. Fields that a kind of record does not have are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explained {
    /// The record that it changes.
    pub at: Option<RecordId>,
    /// The name of the operation, or of the application's kind of record. For a prepare record, the identifier of the
    /// branch in hexadecimal digits.
    pub name: Option<String>,
    /// The arguments: as `Debug` prints them if the operation is registered, else in hexadecimal digits. For a record
    /// of the application's own, its bytes in hexadecimal digits.
    pub arguments: Option<String>,
    /// The undo of the change.
    pub undo: Option<String>,
    /// For a compensation or the end of a nested top action: the position in the transaction's partition where undo
    /// would continue; `None` at the transaction's beginning.
    pub undo_next: Option<LogOffset>,
    /// A remark, for example whether the record counts.
    pub note: Option<&'static str>,
    /// For a commit record, its changes of records, each with its address, name and arguments.
    pub changes: Vec<Explained>,
}

impl Explainer {
    /// Creates an explainer for a store whose control file has these `names`. Operations that are not in `registry` are
    /// described with their arguments as bytes.
    pub fn new(registry: &Registry, names: &[String]) -> Explainer {
        Explainer { numbers: Numbers::bind(registry, names) }
    }

    /// Describes the record.
    ///
    /// # Errors
    /// Its body is invalid; the error is the reason.
    pub fn explain(&self, record: &RecordRef<'_>) -> Result<Explained, &'static str> {
        let body = Body::parse(record.head.kind, record.body).map_err(|corrupt| corrupt.0)?;
        let mut explained = body.redo().map_or_else(Explained::default, |redo| self.change(redo));
        match body {
            Body::Update { undo, committed_only, .. } => {
                explained.undo = self.undo(&undo);
                explained.note = committed_only.then_some("counts only if its transaction commits");
            }
            Body::UndoOnly { undo } => explained.undo = self.undo(&undo),
            Body::Compensation { undo_next, .. } => explained.undo_next = undo_next,
            Body::NestedEnd { undo_next, undo, goes_back } => {
                explained.undo_next = undo_next;
                explained.undo = self.undo(&undo);
                explained.note = goes_back.then_some("changes since that count only if committed count no more");
            }
            Body::User { number, bytes } => {
                explained.name = Some(self.name(number));
                explained.arguments = Some(hexadecimal(bytes));
            }
            Body::Prepare { begins, goes_on, is_copy, part } => {
                let id = if is_copy {
                    Branch::of_copy(part).and_then(|(_, part)| Branch::id_of(part))
                } else {
                    Branch::id_of(part)
                };
                if begins && let Ok(id) = id {
                    explained.name = Some(hexadecimal(id));
                }
                explained.note = match (goes_on, is_copy) {
                    (true, _) => Some("counts only with the prepare record behind it"),
                    (false, true) => Some("a copy, carried forward with the records before it"),
                    (false, false) => None,
                };
            }
            Body::Outcome { logged, id } => {
                explained.name = Some(hexadecimal(id));
                explained.note = Some(match logged {
                    OutcomeCode::Committed => "committed by an operator",
                    OutcomeCode::RolledBack => "rolled back by an operator",
                    OutcomeCode::Forgotten => "the outcome is forgotten",
                });
            }
            Body::Carried(carried) if carried.kind == Kind::VOID => {
                explained.note = Some("pages that the prepared transaction frees");
            }
            Body::Carried(carried) => {
                let record =
                    RecordRef { head: RecordHead { kind: carried.kind, ..record.head }, body: carried.body, ..*record };
                explained = self.explain(&record)?;
                explained.note = Some("a copy, carried forward for a prepared transaction");
            }
            Body::Commit { changes, .. } => explained.changes = changes.map(|change| self.change(&change)).collect(),
            Body::HeapPart { .. } | Body::RollbackEnd | Body::Void => {}
        }
        Ok(explained)
    }

    /// Passes each change that a record makes to a page to `visit`: the name of the operation, the page, and the number of bytes of its
    /// arguments.
    ///
    /// # Errors
    /// The body of the record is invalid; the error is the reason.
    pub fn each_change(
        &self,
        record: &RecordRef<'_>,
        visit: &mut dyn FnMut(&str, PageId, usize),
    ) -> Result<(), &'static str> {
        let body = Body::parse(record.head.kind, record.body).map_err(|corrupt| corrupt.0)?;
        for redo in body.redos() {
            match self.numbers.name(redo.operation) {
                Some(name) => visit(name, redo.at.page, redo.arguments.len()),
                None => visit(&self.name(redo.operation), redo.at.page, redo.arguments.len()),
            }
        }
        Ok(())
    }

    /// Describes a change of a page.
    fn change(&self, redo: &Redo<'_>) -> Explained {
        Explained {
            at: Some(redo.at),
            name: Some(self.name(redo.operation)),
            arguments: Some(self.arguments(redo.operation, redo.arguments)),
            ..Explained::default()
        }
    }

    fn name(&self, number: u32) -> String {
        self.numbers.name(number).map_or_else(|| format!("number {number}, which has no name"), String::from)
    }

    fn arguments(&self, number: u32, arguments: &[u8]) -> String {
        let describe = match self.numbers.entry(number).map(|entry| &entry.does) {
            Some(Does::Operation(table)) => table.describe,
            Some(Does::Logical(table) | Does::Finish(table)) => table.describe,
            Some(Does::RecordKind) | None => return hexadecimal(arguments),
        };
        describe(arguments).unwrap_or_else(|| hexadecimal(arguments))
    }

    fn undo(&self, undo: &LoggedUndo<'_>) -> Option<String> {
        let called = |number: u32, arguments| format!("{} {}", self.name(number), self.arguments(number, arguments));
        match *undo {
            LoggedUndo::None => None,
            LoggedUndo::Derived => Some("derived".into()),
            LoggedUndo::Operation { number, slot: None, arguments } => Some(called(number, arguments)),
            LoggedUndo::Operation { number, slot: Some(slot), arguments } => {
                Some(format!("{} at slot {slot}", called(number, arguments)))
            }
            LoggedUndo::Logical { number, arguments } => Some(format!("logical {}", called(number, arguments))),
            LoggedUndo::Finish { number, arguments } => Some(format!("finish {}", called(number, arguments))),
        }
    }
}

/// Returns the bytes in hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}"); // writing to a string cannot fail
    }
    digits
}
