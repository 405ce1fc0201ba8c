//! What `info`, `verify` and `log` have in common: a store is looked at, and not changed.

use std::path::Path;
use std::sync::Arc;

use cedrat::media::{LockGuard, Media, RealDisk};
use cedrat::txn::{InDoubt, LOCK_FILE};
use cedrat::wal::{Found, Log};

use crate::output::{Context, Failure};

/// A store that nobody else has open while this lives.
pub(crate) struct Looked {
    pub(crate) found: Found,
    _alone: Option<LockGuard>,
}

impl Looked {
    /// Reads control file and log of the store in `directory`.
    pub(crate) fn at(directory: &Path) -> Result<Looked, Failure> {
        let media: Arc<dyn Media> = Arc::new(RealDisk::new(directory));
        // Not every store has the file yet: a crash may have come before. Then what is missing is said below.
        let alone = match media.lock(LOCK_FILE) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            locked => Some(locked.while_doing("the store is open elsewhere, or cannot be locked")?),
        };
        let found = Log::look(&media).while_doing(directory.display())?;
        Ok(Looked { found, _alone: alone })
    }

    /// Transactions that are prepared and were not told their outcome, as the next opening will find them.
    pub(crate) fn in_doubt(&self) -> Result<Vec<InDoubt>, Failure> {
        Ok(InDoubt::look(&self.found)?)
    }
}
