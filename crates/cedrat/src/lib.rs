#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

pub use cedrat_check as check;
pub use cedrat_graph as graph;
pub use cedrat_heap as heap;
pub use cedrat_media as media;
pub use cedrat_objects as objects;
pub use cedrat_pages as pages;
pub use cedrat_structures as structures;
pub use cedrat_txn as txn;
pub use cedrat_wal as wal;

pub use cedrat_txn::{Commit, Error, Options, Registry, Result, Store, Txn};

/// Common imports of a program that uses a store.
pub mod prelude {
    pub use cedrat_structures::{ArrayList, HashTable, List};
    pub use cedrat_txn::{
        Commit, Error, Finish, LogicalUndo, Operation, Options, RecordId, Refused, Registry, Result, Store, Txn, Undo,
    };
}

/// Opens the store in a directory, or creates it. Every opening runs recovery.
///
/// **Guarantee:** all changes of acknowledged commits are present, and no changes of transactions that did not commit.
/// **Threads:** any; one process at a time.
///
/// # Errors
/// [`Error::InUse`] if the store is open elsewhere; damage, with file and offset; [`Error::Unregistered`] if the log needs
/// operations of the program's own: then use [`open_with`]. A store that is refused is not changed.
pub fn open(directory: impl AsRef<Path>) -> Result<Store> {
    open_with(directory, Options::default(), registry())
}

/// Like [`open`], with options, and with a registry that contains the program's own operations.
///
/// # Errors
/// Errors of [`open`]; and if the options are invalid.
pub fn open_with(directory: impl AsRef<Path>, options: Options, registry: Registry) -> Result<Store> {
    let media = Arc::new(media::RealDisk::new(directory.as_ref()));
    Store::open(media, options, registry)
}

/// Returns a registry of all operations of Cedrat, to which a program adds its own.
pub fn registry() -> Registry {
    Registry::new().with(structures::register).with(objects::register).with(graph::register)
}

/// Programs in the documentation are compiled and run as tests.
#[cfg(doctest)]
mod documentation {
    #[doc = include_str!("../../../docs/use/first-steps.md")]
    struct FirstSteps;
    #[doc = include_str!("../../../docs/use/operations.md")]
    struct Operations;
    #[doc = include_str!("../../../docs/use/cookbook.md")]
    struct Cookbook;
    #[doc = include_str!("../../../docs/use/checking.md")]
    struct Checking;
    #[doc = include_str!("../../../docs/use/commit-modes.md")]
    struct CommitModes;
    #[doc = include_str!("../../../docs/use/two-phase.md")]
    struct TwoPhase;
    #[doc = include_str!("../../../docs/use/heaps.md")]
    struct Heaps;
    #[doc = include_str!("../../../docs/use/objects-cache.md")]
    struct ObjectsCache;
    #[doc = include_str!("../../../docs/use/graph.md")]
    struct Graph;
}
