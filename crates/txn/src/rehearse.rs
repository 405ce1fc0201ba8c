//! Undo without a store, for tests of a single operation.

use cedrat_pages::{Damaged, PageMut, Slot};

use crate::registry::{Does, Misfit, Registry};
use crate::undo::{Undo, UndoKind};

/// The result of [`Undo::rehearse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rehearsal {
    /// The change was undone in the page.
    Undone,
    /// This page alone is not sufficient: the undo is none, logical, a finish, or not yet derived.
    NotOnOnePage,
    /// The operation of this name, which the undo needs, is not in the registry.
    Unregistered(&'static str),
    /// The operation of this name cannot decode its own arguments.
    BadArguments(&'static str),
}

impl Undo {
    /// Whether the actual undo must be computed by [`crate::Operation::derive_undo`].
    pub fn is_derived(&self) -> bool {
        matches!(self.kind, UndoKind::Derived)
    }

    /// Undoes the change at `at` of `page` as a rollback would, without log and store.
    ///
    /// # Errors
    /// As [`crate::Operation::redo`] of the operation that is the undo.
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
            Err(Misfit::Record(_)) => Ok(Rehearsal::NotOnOnePage), // a delta, which is never the undo of an operation
        }
    }
}
