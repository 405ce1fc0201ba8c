//! The log of a store that has lost other files (E18.23).
//!
//! An archive lacks what was committed since it was last extended. If the log of the lost store is whole, it has the rest.

use cedrat_heap::describe_heaps;
use cedrat_media::Media;
use cedrat_sync::Arc;
#[cfg(doc)]
use cedrat_wal::LogError;
use cedrat_wal::{FoundArchive, LogArchive, Lsn};

use crate::encryption;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::restore;

/// The archive after the remaining log of a store was added.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemainingLog {
    /// The archive has all records up to this LSN, which is the last one of the store.
    pub up_to: Lsn,
    /// The damage of the store's own list of heaps, if it has any: the list is that of the last extension of the archive. A heap that
    /// was created since is not restored.
    pub lost_heaps: Option<String>,
}

/// Extends the archive of a store that is not open by the log that the store still has. Unless heaps are [lost](RemainingLog::lost_heaps),
/// a restore from this archive has every transaction that had committed. The store is only read, and needs nothing but its control file,
/// its log and the file `heaps.root`. An empty directory becomes an archive that has all records that the log keeps.
///
/// # Errors
/// [`OpenError::InUse`](crate::OpenError::InUse) within [`Error::Open`] if the store is open. [`Error::Log`]: with [`LogError::Absent`] or
/// [`LogError::Damaged`], the control file or a block of the log is lost; with [`LogError::ArchiveGap`], [`LogError::Foreign`] and
/// [`LogError::InUse`] as for [`Options::archive`](crate::Options). Errors of the disks. After an error the archive has what it had
/// before, or more, and the call may be repeated.
pub fn archive_remaining_log(store: &Arc<dyn Media>, archive: &Arc<dyn Media>) -> Result<RemainingLog> {
    let why = "the store is encrypted, and the archive is not: open it with its keys";
    encryption::refuse_plain(&**store, Some(archive), why)?;
    let (_not_open, found) = restore::look(store)?;
    let mut to = LogArchive::open(archive, &found)?;
    let known = FoundArchive::look(archive)?;
    let known = known.descriptions(known.lsns().1).into_iter().next_back().unwrap_or_default();
    let (heaps, lost_heaps) = match describe_heaps(&**store, &found.control().store, known) {
        Ok(heaps) => (heaps, None),
        // Without a list of its own, the moment has that of the one before.
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let up_to = to.extend(&found, || heaps)?;
    Ok(RemainingLog { up_to, lost_heaps })
}
