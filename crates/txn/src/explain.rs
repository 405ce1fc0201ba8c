//! A record in words: for tools that print a log without opening its store.

use std::fmt::Write as _;

use cedrat_wal::{LogOffset, RecordRef};

use crate::body::{Body, LoggedUndo, Redo};
use crate::branch::Branch;
use crate::operation::RecordId;
use crate::registry::{Does, Numbers, Registry};

/// Puts the records of one store into words.
#[derive(Debug)]
pub struct Explainer {
    numbers: Numbers,
}

/// A record in words. What a kind of record does not have is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explained {
    /// The place that it changes.
    pub at: Option<RecordId>,
    /// The name of the operation, or of the application's kind of record. Of a prepare record the identifier of what is
    /// prepared, in hexadecimal digits.
    pub name: Option<String>,
    /// The arguments: as `Debug` prints them if the operation is registered, else in hexadecimal digits. Of a record
    /// of the application's own, its bytes in hexadecimal digits.
    pub arguments: Option<String>,
    /// How it is undone.
    pub undo: Option<String>,
    /// Of a compensation or of the end of a nested top action: the place in the transaction's partition where undo
    /// would go on; `None` at the transaction's beginning.
    pub undo_next: Option<LogOffset>,
    /// What else there is to know: whether it counts.
    pub note: Option<&'static str>,
    /// Of a commit record, the changes of records that it has: each with its place, name and arguments.
    pub changes: Vec<Explained>,
}

impl Explainer {
    /// For a store whose control file has these `names`. Operations that `registry` does not know are explained
    /// without their arguments' meaning.
    pub fn new(registry: &Registry, names: &[String]) -> Explainer {
        Explainer { numbers: Numbers::bind(registry, names) }
    }

    /// What the record says.
    ///
    /// # Errors
    /// Its body makes no sense; why.
    pub fn explain(&self, record: &RecordRef<'_>) -> Result<Explained, &'static str> {
        let body = Body::parse(record.head.kind, record.body).map_err(|senseless| senseless.0)?;
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
            Body::Prepare { begins, goes_on, part } => {
                if begins && let Ok(id) = Branch::id_of(part) {
                    explained.name = Some(hexadecimal(id));
                }
                explained.note = goes_on.then_some("counts only with the prepare record behind it");
            }
            Body::Commit { changes, .. } => explained.changes = changes.map(|change| self.change(&change)).collect(),
            Body::HeapPart { .. } | Body::RollbackEnd | Body::Void => {}
        }
        Ok(explained)
    }

    /// What is changed, and how.
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

/// How bytes are told.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}"); // a string takes everything
    }
    digits
}
