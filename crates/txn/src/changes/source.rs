//! Where a stream reads records: in the log of an open store, in its archive, or in the files of a store that is not open.

use cedrat_sync::{Arc, planted};
use cedrat_wal::{Backwards, Found, FoundArchive, Log, LogError, Lsn, Position, Scan};

use crate::registry::{Numbers, Registry};
use crate::store::Store;

/// A log that can be read.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Live(Log),
    Archive(Arc<FoundArchive>),
    Files(Arc<Files>),
}

/// The store of a stream.
#[derive(Debug)]
pub(super) enum Origin {
    Store(Store),
    Files(Arc<Files>),
}

/// The files of a store, which may be open elsewhere.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) found: Found,
    pub(super) numbers: Numbers,
    /// The LSN from which on its log has all records.
    pub(super) kept_from: Lsn,
}

impl Files {
    pub(super) fn new(found: Found, registry: &Registry, kept_from: Lsn) -> Files {
        let numbers = Numbers::bind(registry, &found.control().names);
        Files { found, numbers, kept_from }
    }
}

impl Origin {
    pub(super) fn numbers(&self) -> &Numbers {
        match self {
            Origin::Store(store) => &store.inner.numbers,
            Origin::Files(files) => &files.numbers,
        }
    }
}

impl Source {
    /// Returns the LSN up to which it has all records now.
    pub(super) fn end(&self) -> Lsn {
        match self {
            Source::Live(log) if planted!("stream_reads_beyond_durable") => log.current_lsn(),
            Source::Live(log) => log.durable_lsn(),
            Source::Archive(archive) => archive.lsns().1,
            Source::Files(files) => files.found.end_lsn().previous(),
        }
    }

    /// Begins a scan of the records from an LSN on.
    pub(super) fn scan(&self, from: Lsn) -> Result<Scan, LogError> {
        match self {
            Source::Live(log) => log.scan_kept(from),
            Source::Archive(archive) => archive.log().scan_kept(from),
            Source::Files(files) => files.found.scan_kept(from),
        }
    }

    /// Reads single records, from one on.
    pub(super) fn backwards(&self, from: Position) -> Backwards {
        match self {
            Source::Live(log) => log.backwards(from),
            Source::Archive(archive) => archive.log().backwards(from),
            Source::Files(files) => files.found.backwards(from),
        }
    }
}
