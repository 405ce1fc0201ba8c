//! The user's extension point: changes of one page that can be redone and undone (Lemon §3.1, §4.4).

use std::borrow::Cow;
use std::fmt;

use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::changes::Meaning;
use crate::error::Result;
use crate::transaction::Txn;
use crate::undo::Undo;

/// The address of a record, or of any other location within a page: Lemon's `recordid` (Lemon §4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    /// The page.
    pub page: PageId,
    /// The slot within the page. The operation defines its meaning; pages without slots use slot 0.
    pub slot: Slot,
}

impl RecordId {
    /// Returns the address of `slot` in `page`.
    pub const fn new(page: PageId, slot: Slot) -> RecordId {
        RecordId { page, slot }
    }

    /// Returns the address of the whole page, for operations that do not use slots.
    pub const fn page(page: PageId) -> RecordId {
        RecordId { page, slot: Slot(0) }
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} slot {}", self.page, self.slot)
    }
}

/// A change of one page. Its fields are its arguments, which are written to the log.
///
/// `prepare` and `redo` run under the page's latch, on the caller's thread, and access nothing but the page.
/// Normal execution *is* `redo`, so the code that recovery depends on runs in every ordinary update. The five
/// rules of Lemon §4.4 follow from the types, except one: the result of `redo` must depend on its arguments and its
/// page alone. `cedrat::check` finds operations that break it.
///
/// The serialised form of the arguments (by `postcard`) is a permanent format: once a store contains records of an
/// operation, changed arguments need a new name.
pub trait Operation: Serialize + DeserializeOwned + fmt::Debug + Send + Sync + 'static {
    /// The permanent name by which a store identifies the operation, for example `"shop.add_stock.v1"`.
    const NAME: &'static str;

    /// Whether `redo` overwrites the whole page, layout included, whatever its content: the page then need not be read
    /// first, and `prepare` may see it as never written.
    const FORMATS: bool = false;

    /// Whether a commit record may contain it, as a change of a whole page
    /// ([`CommitChanges::with_page`](crate::object_cache::CommitChanges::with_page)). It has no undo then, and its slot is 0.
    const COMMITS: bool = false;

    /// Checks the page before it changes, and returns the undo of the change, or refuses.
    ///
    /// It must refuse all invalid arguments: nothing can be refused later.
    ///
    /// # Errors
    /// [`Refused`], with a reason for the caller. Nothing has happened.
    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused>;

    /// Changes the page.
    ///
    /// # Errors
    /// [`Damaged`] if the page is not what `prepare` accepted. The store then stops.
    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged>;

    /// Runs instead of [`redo`](Operation::redo) at the first execution ("sometimes useful to have them differ", Lemon
    /// §4.4). Both must leave the same bytes.
    ///
    /// # Errors
    /// As [`redo`](Operation::redo).
    #[inline]
    fn first(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        self.redo(page, at)
    }

    /// Computes the undo from the arguments when it is needed, for operations whose `prepare` returned
    /// [`Undo::derived`]: nothing is logged for it.
    fn derive_undo(&self, at: RecordId) -> Undo {
        let _ = at;
        Undo::none()
    }

    /// Returns the meaning of the operation at this place in the [change stream](crate::ChangeStream). By default the stream has its
    /// name and its arguments.
    fn meaning(&self, at: RecordId) -> Meaning {
        let _ = at;
        Meaning::Raw
    }
}

/// An undo that describes its effect by meaning, not by page: "remove this key" (Lemon §4.2).
///
/// It runs as a nested top action inside the transaction that rolls back: its page steps carry ordinary undo, and
/// only its end advances to the next record to undo. It takes no lock, but the latches that the structure's
/// other operations take. It must succeed: an error stops the store.
///
/// If a crash interrupts it, it runs again. Its own steps are undone first, but a nested top action that it has itself
/// ended with [`Undo::none`] stays, and the second run meets it. So either leave all steps to the undo's own action, or
/// be idempotent: "remove this key, if it is there". The same holds for [`Finish`], whose steps are never undone.
///
/// Its end is logged after `undo` has returned and released its latches. If other transactions may change the same pages
/// in between, no step may have an undo that their changes invalidate: after a crash it would be applied to these pages.
/// Make the step redo-only ([`Txn::update_logical`] with [`Undo::none`]), or the steps a [`Txn::nested`] action that has the
/// latch and ends with [`Undo::none`].
pub trait LogicalUndo: Serialize + DeserializeOwned + fmt::Debug + Send + Sync + 'static {
    /// The permanent name by which a store identifies it.
    const NAME: &'static str;

    /// The maximum log space of its page steps, in bytes, so that rollback always has room. At least 64 for each step.
    const LOG_BYTES_MAX: u32 = 16 * 1024;

    /// Undoes the change. It needs no lock: what it changes, the transaction has locked. If it runs other transactions and
    /// recovery calls it, they get [`Error::InDoubt`](crate::Error::InDoubt) instead of a lock of a prepared transaction, and
    /// the undo does without them.
    ///
    /// # Errors
    /// Any error stops the store: a change that cannot be undone cannot be rolled back.
    fn undo(&self, txn: &mut Txn) -> Result<()>;
}

/// An undo that completes a change instead of reverting it (LLADD, "bucket split"): run when the transaction rolls
/// back, it checks how far an ordered sequence of redo-only changes came and finishes it.
///
/// It must be idempotent, and able to finish every prefix of its sequence. Its own changes are redo-only too, so after
/// a crash within it, it runs again.
pub trait Finish: Serialize + DeserializeOwned + fmt::Debug + Send + Sync + 'static {
    /// The permanent name by which a store identifies it.
    const NAME: &'static str;

    /// The maximum log space of finishing, in bytes.
    const LOG_BYTES_MAX: u32 = 16 * 1024;

    /// Checks the sequence, and completes it if it is unfinished.
    ///
    /// # Errors
    /// Any error stops the store.
    fn finish(&self, txn: &mut Txn) -> Result<()>;
}

/// A refusal by an operation: it cannot be applied to this page with these arguments. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    reason: Cow<'static, str>,
}

impl Refused {
    /// Creates a refusal. `reason` is a sentence for the caller with the cause and, if there is one, the remedy.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Refused {
        Refused { reason: reason.into() }
    }

    /// Returns the reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl From<Damaged> for Refused {
    fn from(damaged: Damaged) -> Refused {
        Refused::new(damaged.to_string())
    }
}
