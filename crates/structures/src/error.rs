//! Errors of structures, in addition to those of any transaction.

use cedrat_pages::{Damaged, LatchedPage, PageId};
use cedrat_txn::{Error, Result, Store};

/// The reason why a structure refused. It comes wrapped in [`Error::User`]; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StructureError {
    /// The catalogue has no such name. Create it, or look at the list of names.
    #[error("no structure is named \"{name}\"; create it first")]
    NoSuchName {
        /// The requested name.
        name: String,
    },
    /// The catalogue has this name already. Open it, or choose another.
    #[error("a structure named \"{name}\" exists already; open it, or choose another name")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The name stands for a structure of another kind.
    #[error("\"{name}\" is {found}, not {expected}")]
    WrongKind {
        /// The name.
        name: String,
        /// The requested kind.
        expected: String,
        /// The actual kind.
        found: String,
    },
    /// The structure was created with elements of other types, which would be decoded wrongly. Open it with those, or its
    /// bytes at its root in the catalogue.
    #[error(
        "\"{name}\" was created with elements of other types: open it with those, or copy them from there to a structure of \
         the new types"
    )]
    OtherTypes {
        /// The name.
        name: String,
    },
    /// The page is not the root of such a structure: a wrong page number, or the structure was dropped.
    #[error("page {page} is not the root of {expected}; look the root up in the catalogue")]
    WrongRoot {
        /// The page.
        page: PageId,
        /// The expected structure.
        expected: &'static str,
    },
    /// The structure was dropped, or its creation was rolled back. Its pages may belong to another structure by now.
    #[error("the structure at page {root} was dropped, or its creation was rolled back; open it again by its name")]
    Gone {
        /// Its root page.
        root: PageId,
    },
    /// There is no such element.
    #[error("index {index} is out of bounds: there are {len} elements")]
    OutOfBounds {
        /// The requested index.
        index: u64,
        /// The number of elements.
        len: u64,
    },
    /// There is no such record.
    #[error("there is no record at {record}; it was deleted, or the page belongs to another collection")]
    NoSuchRecord {
        /// The requested record.
        record: cedrat_txn::RecordId,
    },
    /// A value could not be encoded, or bytes not be decoded as the requested type.
    #[error("{what}: {why}; open the structure with the types that it was written with")]
    Encoding {
        /// The value concerned.
        what: &'static str,
        /// The error of the encoding.
        why: String,
    },
    /// The structure cannot grow any further.
    #[error("{what} cannot grow beyond {limit} pages")]
    TooManyPages {
        /// The structure.
        what: &'static str,
        /// The limit, in pages.
        limit: u64,
    },
}

impl From<StructureError> for Error {
    fn from(error: StructureError) -> Error {
        Error::user(error)
    }
}

impl StructureError {
    /// Whether a name is missing or taken: a concurrent transaction may have added or removed it.
    pub fn is_about_a_name(&self) -> bool {
        matches!(self, StructureError::NoSuchName { .. } | StructureError::NameTaken { .. })
    }

    /// Returns the structure's error in a transaction's error, if there is one.
    pub fn of(error: &Error) -> Option<&StructureError> {
        match error {
            Error::User(inner) => inner.downcast_ref(),
            _ => None,
        }
    }
}

/// Reads a page that a caller names as a root. Since the number may be arbitrary, a page beyond the file is not damage.
pub(crate) fn root_page<'s>(store: &'s Store, root: PageId, expected: &'static str) -> Result<LatchedPage<'s>> {
    if root.get() >= store.pool().len_pages() {
        return Err(StructureError::WrongRoot { page: root, expected }.into());
    }
    store.read(root)
}

/// Returns the error for a page whose bytes are invalid.
pub(crate) fn damaged(store: &Store, page: PageId, what: &'static str) -> Error {
    store.pool().damaged(Damaged::in_body(page, 0, what)).into()
}

/// Refuses a walk that has passed more elements than all pages can contain: a cycle, without which no walk is that long.
pub(crate) fn check_passed(store: &Store, passed: u64, per_page: u64, at: PageId) -> Result<()> {
    if passed > store.pool().len_pages().saturating_mul(per_page) {
        return Err(damaged(store, at, "the links of the list form a cycle"));
    }
    Ok(())
}

/// Damage that is known by its position in a page.
pub(crate) trait OfStore<T> {
    /// Converts it to an error with file and offset.
    fn of_store(self, store: &Store) -> Result<T>;
}

impl<T> OfStore<T> for Result<T, Damaged> {
    fn of_store(self, store: &Store) -> Result<T> {
        self.map_err(|damaged| store.pool().damaged(damaged).into())
    }
}
