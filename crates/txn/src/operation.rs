//! What a user extends: changes of one page that can be repeated and taken back (Lemon §3.1, §4.4).

use std::borrow::Cow;
use std::fmt;

use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Result;
use crate::transaction::Txn;
use crate::undo::Undo;

/// A record, or any other place, within a page: what Lemon calls a `recordid` (Lemon §4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    /// The page.
    pub page: PageId,
    /// The place in it. What it means is the operation's affair; pages without slots use slot 0.
    pub slot: Slot,
}

impl RecordId {
    /// The record in `slot` of `page`.
    pub const fn new(page: PageId, slot: Slot) -> RecordId {
        RecordId { page, slot }
    }

    /// The page as a whole, for operations that have no use for slots.
    pub const fn page(page: PageId) -> RecordId {
        RecordId { page, slot: Slot(0) }
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} slot {}", self.page, self.slot)
    }
}

/// A change of one page: its arguments are the fields, which are written to the log.
///
/// `prepare` and `redo` run under the page's latch, on the caller's thread, and reach nothing but the page
/// (E13.1). Normal execution *is* `redo` (E6.4), so the code that recovery depends on runs in every ordinary
/// update. The five rules of Lemon §4.4 follow from the types, but one: `redo` must be a function of its
/// arguments and of its page alone. `cedrat::check` finds operations that break it.
///
/// The serialised form of the arguments (by `postcard`) is a format: once a store holds records of an
/// operation, give changed arguments a new name.
pub trait Operation: Serialize + DeserializeOwned + fmt::Debug + Send + Sync + 'static {
    /// The name under which a store knows the operation for ever, for example `"shop.add_stock.v1"`.
    const NAME: &'static str;

    /// Whether `redo` overwrites the whole page, layout included, whatever was there: the page then need not be read
    /// first, and `prepare` may see it as never written.
    const FORMATS: bool = false;

    /// Looks at the page before it changes, and says how the change will be undone, or refuses (E6.1).
    ///
    /// Everything that can be wrong with the arguments is refused here: after this, nothing can.
    ///
    /// # Errors
    /// [`Refused`], with a reason for the caller. Nothing has happened.
    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused>;

    /// Changes the page.
    ///
    /// # Errors
    /// [`Damaged`] if the page is not what `prepare` accepted. The store then stops (E6.3).
    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged>;

    /// What the first execution does instead of [`redo`](Operation::redo) ("sometimes useful to have them
    /// differ", Lemon §4.4). Both must leave the same bytes.
    ///
    /// # Errors
    /// As [`redo`](Operation::redo).
    #[inline]
    fn first(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        self.redo(page, at)
    }

    /// The undo, computed from the arguments when it is needed, for operations whose `prepare` returned
    /// [`Undo::derived`]: nothing is logged for it.
    fn derive_undo(&self, at: RecordId) -> Undo {
        let _ = at;
        Undo::none()
    }
}

/// An undo that names what it takes back by meaning, not by page: "remove this key" (Lemon §4.2).
///
/// It runs as a nested top action inside the rolling transaction (E5): its page steps carry ordinary undo, and
/// only its end says that the next record is to be undone. It asks for no lock (E15.1); it takes the latches
/// that the structure's other operations take. It must succeed: an error stops the store.
///
/// Cut short by a crash, it runs again. Its own steps are taken back first; but a nested top action that it has itself
/// ended with [`Undo::none`] stays, and is met by the second run. So either leave all steps to the undo's own action, or be
/// idempotent: "remove this key, if it is there". The same goes for [`Finish`], whose steps are never taken back.
pub trait LogicalUndo: Serialize + DeserializeOwned + fmt::Debug + Send + Sync + 'static {
    /// The name under which a store knows it for ever.
    const NAME: &'static str;

    /// The most log that its page steps take, in bytes, so that rollback always has room (E16.1).
    const LOG_BYTES_MAX: u32 = 16 * 1024;

    /// Takes the change back.
    ///
    /// # Errors
    /// Any error stops the store: what cannot be undone cannot be rolled back.
    fn undo(&self, txn: &mut Txn) -> Result<()>;
}

/// An undo that completes instead of taking back (LLADD, "bucket split"): run when the transaction rolls back,
/// it looks how far an ordered sequence of redo-only changes came and finishes it.
///
/// It must be idempotent, and finish from every prefix of its sequence; its own changes are redo-only too, so a
/// crash within it leads to its being run again.
pub trait Finish: Serialize + DeserializeOwned + fmt::Debug + Send + Sync + 'static {
    /// The name under which a store knows it for ever.
    const NAME: &'static str;

    /// The most log that finishing takes, in bytes (E16.1).
    const LOG_BYTES_MAX: u32 = 16 * 1024;

    /// Checks, and finishes what is unfinished.
    ///
    /// # Errors
    /// Any error stops the store.
    fn finish(&self, txn: &mut Txn) -> Result<()>;
}

/// An operation declined: it cannot be applied to this page with these arguments. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    reason: Cow<'static, str>,
}

impl Refused {
    /// A refusal, with a sentence for the caller that says why and, if there is one, the way out.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Refused {
        Refused { reason: reason.into() }
    }

    /// Why.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl From<Damaged> for Refused {
    fn from(damaged: Damaged) -> Refused {
        Refused::new(damaged.to_string())
    }
}
