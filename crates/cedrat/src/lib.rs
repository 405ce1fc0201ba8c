#![doc = include_str!("../../../README.md")]
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

/// What a program that stores something usually needs.
pub mod prelude {
    pub use cedrat_structures::{ArrayList, HashTable, List};
    pub use cedrat_txn::{
        Commit, Error, Finish, LogicalUndo, Operation, Options, RecordId, Refused, Registry, Result, Store, Txn, Undo,
    };
}

/// Opens the store in a directory, which is recovering it; makes it if there is none.
///
/// **Promise:** everything whose commit was acknowledged is there, and nothing of any transaction that was not
/// committed. **Threads:** any; one process at a time.
///
/// # Errors
/// [`Error::InUse`] if the store is open elsewhere; what is damaged, with file and offset; [`Error::Unregistered`]
/// if the log needs operations of the program's own: then use [`open_with`]. A store that is refused is not changed.
pub fn open(directory: impl AsRef<Path>) -> Result<Store> {
    open_with(directory, Options::default(), registry())
}

/// As [`open`], with choices, and with a registry that knows the program's own operations.
///
/// # Errors
/// As [`open`]; and if the options make no sense.
pub fn open_with(directory: impl AsRef<Path>, options: Options, registry: Registry) -> Result<Store> {
    let media = Arc::new(media::RealDisk::new(directory.as_ref()));
    Store::open(media, options, registry)
}

/// All operations that come with Cedrat: what a program adds its own to.
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
