//! The kinds of undo (Lemon §4.2).

use std::any::TypeId;

use cedrat_pages::{PageRef, Slot};

use crate::builtin::SetRange;
use crate::operation::{Finish, LogicalUndo, Operation, Refused};
use crate::small_bytes::SmallBytes;

/// The undo of one change. [`Operation::prepare`] returns it; it is logged with the change.
#[derive(Clone, Debug)]
pub struct Undo {
    pub(crate) kind: UndoKind,
    /// Maximum log space of its execution beyond one record of its own size.
    pub(crate) log_bytes: u32,
}

/// The function to call, and its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) of: TypeId,
    pub(crate) name: &'static str,
    pub(crate) arguments: SmallBytes,
}

#[derive(Clone, Debug)]
pub(crate) enum UndoKind {
    /// Redo-only.
    None,
    /// Computed from the redo's arguments when needed.
    Derived,
    /// An operation on the same page.
    Operation { call: Call, slot: Option<Slot> },
    /// A nested top action of its own.
    Logical(Call),
    /// Completes a sequence instead of reverting it.
    Finish(Call),
    /// The arguments could not be serialised; logging it is refused.
    Unspeakable(&'static str),
}

impl Undo {
    /// Returns an undo that does nothing: the change is redo-only. For changes that are invisible if the transaction
    /// fails, and for those that follow a [`Finish`].
    pub const fn none() -> Undo {
        Undo { kind: UndoKind::None, log_bytes: 0 }
    }

    /// As [`none`](Undo::none), for a change by which the undo of an earlier one takes more log space, by at most `log_bytes`: a
    /// structure grows, and the undo of its creation frees what it has then. The space stays reserved to the end of the
    /// transaction, since the change stays if the transaction returns to a savepoint before it.
    pub const fn none_with_space(log_bytes: u32) -> Undo {
        Undo { kind: UndoKind::None, log_bytes }
    }

    /// Returns the inverse operation on the same record: physiological undo.
    ///
    /// Its `prepare` is not called: it must not refuse.
    #[inline]
    pub fn op<O: Operation>(inverse: O) -> Undo {
        Undo::operation(&inverse, None)
    }

    /// Returns the inverse operation on another slot of the same page.
    #[inline]
    pub fn op_at<O: Operation>(slot: Slot, inverse: O) -> Undo {
        Undo::operation(&inverse, Some(slot))
    }

    fn operation<O: Operation>(inverse: &O, slot: Option<Slot>) -> Undo {
        match call::<O, _>(O::NAME, inverse) {
            Ok(call) => Undo { kind: UndoKind::Operation { call, slot }, log_bytes: 0 },
            Err(name) => Undo { kind: UndoKind::Unspeakable(name), log_bytes: 0 },
        }
    }

    /// Captures `len` bytes of the body from `offset` on as the undo: physical undo.
    ///
    /// # Errors
    /// The range does not lie in the body.
    pub fn before_image(page: &PageRef<'_>, offset: usize, len: usize) -> Result<Undo, Refused> {
        Ok(Undo::op(SetRange::now(page, offset, len)?))
    }

    /// Returns a logical call, run as a nested top action.
    #[inline]
    pub fn logical<L: LogicalUndo>(undo: &L) -> Undo {
        match call::<L, _>(L::NAME, undo) {
            Ok(call) => Undo { kind: UndoKind::Logical(call), log_bytes: L::LOG_BYTES_MAX },
            Err(name) => Undo { kind: UndoKind::Unspeakable(name), log_bytes: 0 },
        }
    }

    /// As [`logical`](Undo::logical), for a call with a smaller log bound than that of its type: one that contains a
    /// key of known length.
    #[inline]
    pub fn logical_within<L: LogicalUndo>(undo: &L, log_bytes: u32) -> Undo {
        debug_assert!(log_bytes <= L::LOG_BYTES_MAX);
        Undo { log_bytes, ..Undo::logical(undo) }
    }

    /// Returns a call that completes a sequence instead of reverting it.
    #[inline]
    pub fn finish<F: Finish>(finish: &F) -> Undo {
        match call::<F, _>(F::NAME, finish) {
            Ok(call) => Undo { kind: UndoKind::Finish(call), log_bytes: F::LOG_BYTES_MAX },
            Err(name) => Undo { kind: UndoKind::Unspeakable(name), log_bytes: 0 },
        }
    }

    /// Returns an undo that [`Operation::derive_undo`] computes when it is needed: no bytes of it are logged.
    ///
    /// `log_bytes` is the maximum log space of that undo: 0 for an operation on the same page that takes no more than
    /// the change itself, [`LogicalUndo::LOG_BYTES_MAX`] for a logical one.
    pub const fn derived(log_bytes: u32) -> Undo {
        Undo { kind: UndoKind::Derived, log_bytes }
    }

    /// Whether there is nothing to undo.
    pub fn is_none(&self) -> bool {
        matches!(self.kind, UndoKind::None)
    }

    /// Describes how it would be logged: for tests of a single operation.
    pub fn describe(&self) -> String {
        match &self.kind {
            UndoKind::None => "redo-only".into(),
            UndoKind::Derived => "derived from the redo".into(),
            UndoKind::Operation { call, slot: None } => format!("operation {}", call.name),
            UndoKind::Operation { call, slot: Some(slot) } => format!("operation {} at slot {slot}", call.name),
            UndoKind::Logical(call) => format!("logical {}", call.name),
            UndoKind::Finish(call) => format!("finish {}", call.name),
            UndoKind::Unspeakable(name) => format!("{name}, whose arguments cannot be serialised"),
        }
    }

    /// Returns the arguments as they are logged.
    pub(crate) fn arguments(&self) -> &[u8] {
        match &self.kind {
            UndoKind::None | UndoKind::Derived | UndoKind::Unspeakable(_) => &[],
            UndoKind::Operation { call, .. } | UndoKind::Logical(call) | UndoKind::Finish(call) => &call.arguments,
        }
    }
}

#[inline]
fn call<T: 'static, S: serde::Serialize>(name: &'static str, arguments: &S) -> Result<Call, &'static str> {
    let arguments = postcard::serialize_with_flavor(arguments, SmallBytes::new()).map_err(|_| name)?;
    Ok(Call { of: TypeId::of::<T>(), name, arguments })
}
