//! Errors of object collections, beyond those of any transaction.

use cedrat_txn::{Error, RecordId};

/// Reason for which a collection of objects refused a call, wrapped in [`Error::User`]; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The collection does not contain such an object.
    #[error("there is no object at {id}: it was removed, or its insertion was rolled back")]
    NoSuchObject {
        /// The requested object.
        id: RecordId,
    },
    /// The cache is full of objects that must not be flushed, because their changes are not committed and have no inverse.
    #[error(
        "the object cache is full: {held_bytes} of its {cache_bytes} bytes are held by changes that are not committed; commit \
         earlier, open the collection with UndoPolicy::Inverses, or with a larger cache"
    )]
    CacheFull {
        /// Bytes in the cache.
        held_bytes: u64,
        /// Its capacity, in bytes.
        cache_bytes: u64,
    },
    /// The object has changes that are not committed and have no inverse, so it stays in the cache.
    #[error(
        "the object at {id} has changes that are not committed and have no inverse; commit them, or open the collection with \
         UndoPolicy::Inverses"
    )]
    NotCommitted {
        /// The object.
        id: RecordId,
    },
}

impl From<ObjectError> for Error {
    fn from(error: ObjectError) -> Error {
        Error::user(error)
    }
}

impl ObjectError {
    /// Returns the object error inside a transaction's error, if there is one.
    pub fn of(error: &Error) -> Option<&ObjectError> {
        match error {
            Error::User(inner) => inner.downcast_ref(),
            _ => None,
        }
    }
}
