//! What can go wrong in a structure beyond what can go wrong in any transaction.

use cedrat_pages::{Damaged, LatchedPage, PageId};
use cedrat_txn::{Error, Result, Store};

/// Why a structure declined. It comes wrapped in [`Error::User`]; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StructureError {
    /// The catalogue has no such name. Create it, or look at the list of names.
    #[error("no structure is named \"{name}\"; create it first")]
    NoSuchName {
        /// The name asked for.
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
        /// What was asked for.
        expected: String,
        /// What it is.
        found: String,
    },
    /// The page is not the root of such a structure: a wrong page number, or the structure was dropped.
    #[error("page {page} is not the root of {expected}; look the root up in the catalogue")]
    WrongRoot {
        /// The page.
        page: PageId,
        /// What was expected there.
        expected: &'static str,
    },
    /// The structure was dropped, or its creation was rolled back. Its pages may be somebody else's by now.
    #[error("the structure at page {root} was dropped, or its creation was rolled back; open it again by its name")]
    Gone {
        /// Its root page.
        root: PageId,
    },
    /// There is no such element.
    #[error("index {index} was asked for, but there are {len} elements")]
    OutOfBounds {
        /// The index asked for.
        index: u64,
        /// How many elements there are.
        len: u64,
    },
    /// There is no such record.
    #[error("there is no record at {record}; it was deleted, or the page is none of this collection")]
    NoSuchRecord {
        /// The record asked for.
        record: cedrat_txn::RecordId,
    },
    /// A value could not be written as bytes, or bytes not read as a value of the type asked for.
    #[error("{what}: {why}; open the structure with the types that it was written with")]
    Encoding {
        /// What was being done.
        what: &'static str,
        /// What the encoding says.
        why: String,
    },
    /// The structure cannot grow any further.
    #[error("{what} cannot grow beyond {limit} pages")]
    TooManyPages {
        /// What.
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
    /// Whether a name has, or has not, what it stands for: somebody else may have given or taken it meanwhile.
    pub fn is_about_a_name(&self) -> bool {
        matches!(self, StructureError::NoSuchName { .. } | StructureError::NameTaken { .. })
    }

    /// The structure's own complaint in a transaction's error, if it is one.
    pub fn of(error: &Error) -> Option<&StructureError> {
        match error {
            Error::User(inner) => inner.downcast_ref(),
            _ => None,
        }
    }
}

/// A page that somebody says is a root. The number may be any at all: a page that the file does not have is no damage.
pub(crate) fn root_page<'s>(store: &'s Store, root: PageId, expected: &'static str) -> Result<LatchedPage<'s>> {
    if root.get() >= store.pool().len_pages() {
        return Err(StructureError::WrongRoot { page: root, expected }.into());
    }
    store.read(root)
}

/// A page's bytes make no sense.
pub(crate) fn damaged(store: &Store, page: PageId, what: &'static str) -> Error {
    store.pool().damaged(Damaged::in_body(page, 0, what)).into()
}

/// Damage that whoever has looked at a page knows by the place in it.
pub(crate) trait OfStore<T> {
    /// The same with file and offset.
    fn of_store(self, store: &Store) -> Result<T>;
}

impl<T> OfStore<T> for Result<T, Damaged> {
    fn of_store(self, store: &Store) -> Result<T> {
        self.map_err(|damaged| store.pool().damaged(damaged).into())
    }
}
