//! The log of a store that has lost other files (E18.23).
//!
//! An archive lacks what was committed since it was last extended. If the log of the lost store is whole, it has the rest.

use cedrat_heap::describe_heaps;
use cedrat_media::Media;
use cedrat_sync::Arc;
use cedrat_wal::{FoundArchive, LogArchive, Lsn};

use crate::encryption;
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

/// Extends the archive of a store that is not open by the log that the store still has. Then no transaction that has committed is
/// lost by a restore from this archive. The store is only read, and needs nothing but its control file and its log. An empty
/// directory becomes an archive that has all records that the log keeps.
///
/// # Errors
/// [`OpenError::InUse`](crate::OpenError::InUse) within [`Error::Open`](crate::Error::Open) if the store is open. [`Error::Log`](crate::Error::Log): with
/// [`LogError::Absent`](cedrat_wal::LogError::Absent) or [`LogError::Damaged`](cedrat_wal::LogError::Damaged), the control file or a block
/// of the log is lost; with [`LogError::ArchiveGap`](cedrat_wal::LogError::ArchiveGap),
/// [`LogError::Foreign`](cedrat_wal::LogError::Foreign) and [`LogError::InUse`](cedrat_wal::LogError::InUse) as for [`Options::archive`](crate::Options). Errors of the disks. The archive is as it
/// was after an error.
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
