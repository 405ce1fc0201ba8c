//! What can go wrong with graphs beyond what can go wrong in any transaction.

use cedrat_txn::Error;

use crate::word::Identity;

/// Why a graph declined. It comes wrapped in [`Error::User`]; nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The changes make no sense; nothing was looked at but they themselves.
    #[error("entry {entry}, at byte {offset} of the changes: {what}")]
    BadEntry {
        /// The entry, counted from 0.
        entry: usize,
        /// Where in the changes it begins, in bytes.
        offset: usize,
        /// What is wrong.
        what: String,
    },
    /// An entry could not be done.
    #[error("entry {entry}, at byte {offset} of the changes: {source}")]
    Entry {
        /// The entry, counted from 0.
        entry: usize,
        /// Where in the changes it begins, in bytes.
        offset: usize,
        /// Why.
        source: Box<Error>,
    },
    /// There are more new objects than the caller has room for identities.
    #[error("the changes make {new_objects} objects, and there is room for {identities_max} identities; give more")]
    TooManyNew {
        /// New objects.
        new_objects: u64,
        /// Identities that there is room for.
        identities_max: u64,
    },
    /// A change does not fit the object that it is for.
    #[error("{what}")]
    DoesNotFit {
        /// Why.
        what: &'static str,
    },
    /// What is stored makes no sense.
    #[error("{what}; verify the store")]
    Senseless {
        /// Why.
        what: &'static str,
    },
    /// There is no such object in the graph.
    #[error("the graph has no object {identity} (page, slot): it was collected, or its commit has not happened")]
    NoSuchObject {
        /// The identity asked for.
        identity: Identity,
    },
}

impl From<GraphError> for Error {
    fn from(error: GraphError) -> Error {
        Error::user(error)
    }
}

impl GraphError {
    /// The graph's own complaint in a transaction's error, if it is one.
    pub fn of(error: &Error) -> Option<&GraphError> {
        match error {
            Error::User(inner) => inner.downcast_ref(),
            _ => None,
        }
    }

    /// What it is about: the error of the entry, where one could not be done.
    pub fn cause(error: &Error) -> &Error {
        match GraphError::of(error) {
            Some(GraphError::Entry { source, .. }) => GraphError::cause(source),
            _ => error,
        }
    }
}

pub(crate) fn does_not_fit(what: &'static str) -> Error {
    GraphError::DoesNotFit { what }.into()
}

/// Of an object as it is stored: whoever knows where it lies says that it is damaged.
pub(crate) fn senseless(what: &'static str) -> Error {
    GraphError::Senseless { what }.into()
}
