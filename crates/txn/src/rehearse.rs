//! Undo outside any store: for checks of a single operation.

use cedrat_pages::{Damaged, PageMut, Slot};

use crate::registry::{Does, Misfit, Registry};
use crate::undo::{Undo, UndoKind};

/// What came of [`Undo::rehearse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rehearsal {
    /// The change was taken back in the page.
    Undone,
    /// Nothing on this page alone takes it back: the undo is none, logical, a finish, or not yet derived.
    NotOnOnePage,
    /// The operation of this name, which would undo, is not in the registry.
    Unregistered(&'static str),
    /// The operation of this name cannot read back what it wrote.
    BadArguments(&'static str),
}

impl Undo {
    /// Whether [`crate::Operation::derive_undo`] must be asked for the undo proper.
    pub fn is_derived(&self) -> bool {
        matches!(self.kind, UndoKind::Derived)
    }

    /// Takes the change at `at` of `page` back as a rollback would, without log and without store.
    ///
    /// # Errors
    /// As [`crate::Operation::redo`] of the operation that undoes.
    pub fn rehearse(&self, registry: &Registry, page: &mut PageMut<'_>, at: Slot) -> Result<Rehearsal, Damaged> {
        let (call, slot) = match &self.kind {
            UndoKind::Operation { call, slot } => (call, slot.unwrap_or(at)),
            UndoKind::Unspeakable(name) => return Ok(Rehearsal::BadArguments(name)),
            UndoKind::None | UndoKind::Derived | UndoKind::Logical(_) | UndoKind::Finish(_) => {
                return Ok(Rehearsal::NotOnOnePage);
            }
        };
        let known = registry.entries().iter().find_map(|entry| match entry.does {
            Does::Operation(table) if entry.of == Some(call.of) => Some(table),
            _ => None,
        });
        let Some(table) = known else {
            return Ok(Rehearsal::Unregistered(call.name));
        };
        match (table.redo)(&call.arguments, page, slot) {
            Ok(()) => Ok(Rehearsal::Undone),
            Err(Misfit::Arguments) => Ok(Rehearsal::BadArguments(call.name)),
            Err(Misfit::Page(damaged)) => Err(damaged),
            Err(Misfit::Record(_)) => Ok(Rehearsal::NotOnOnePage), // a delta, which no operation's undo is
        }
    }
}
