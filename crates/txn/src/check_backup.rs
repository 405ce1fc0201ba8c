//! The check of each byte of a backup (Lemon §3.4; E18.14).
//!
//! A backup to which no opening has written is checked byte by byte: pages, free ones too, heaps, log, and what lies between
//! them. If it was opened since, only its log is: its pages and heaps are checked as those of a store ([`Store::check`]).
//!
//! [`Store::check`]: crate::Store::check

use cedrat_heap::check_copied_heaps;
use cedrat_media::Media;
use cedrat_pages::{Home, PoolError, PoolOptions, check_copied_pages};
use cedrat_sync::{Arc, planted};
use cedrat_wal::{Found, FoundArchive, LogError, Lsn};

use crate::error::{Error, Result};
use crate::recovery::{NamedPages, pages_are_there};
use crate::restore;

/// The report of a check of a backup.
#[derive(Debug)]
#[non_exhaustive]
pub struct BackupCheck {
    /// The damage that was found, with file and offset: each damaged page, and the first damage of each other file; a hundred at
    /// most.
    pub problems: Vec<Error>,
    /// The LSN at which the backup ends.
    pub up_to: Lsn,
    /// Whether an opening has written to it since it was made: then only its log was checked.
    pub was_opened: bool,
    /// The number of pages that were checked.
    pub pages: u64,
}

/// The maximum number of problems that are reported.
const PROBLEMS_MAX: usize = 100;

/// Checks each byte of a backup, which is not open, and each record of an archive. Both are only read.
///
/// # Errors
/// Damage that leaves nothing to be checked, with file and offset; [`LogError::Foreign`](cedrat_wal::LogError::Foreign): it is no backup;
/// [`OpenError::InUse`](crate::OpenError::InUse); errors of the disk.
pub fn check_backup(backup: &Arc<dyn Media>, archive: Option<&Arc<dyn Media>>) -> Result<BackupCheck> {
    let (_not_open, found) = restore::look(backup)?;
    let (up_to, was_opened) = (found.end_lsn().previous(), !found.is_untouched_copy());
    let mut check = BackupCheck { problems: Vec::new(), up_to, was_opened, pages: 0 };
    let mut add = |problem: Error| {
        if check.problems.len() < PROBLEMS_MAX {
            check.problems.push(problem);
        }
    };
    found.check_bytes(&mut |damage| add(damage.into()))?;
    if !was_opened {
        check.pages = check_copied_pages(&**backup, &mut |damage| add(damage.into()))?;
        match check_page_file_len(backup, &found) {
            // The log has been checked before.
            Ok(()) | Err(Error::Log(LogError::Damaged { .. })) => {}
            Err(damage @ (Error::Pages(PoolError::Foreign { .. }) | Error::BadRecord { .. })) => add(damage),
            Err(error) => return Err(error),
        }
        check_copied_heaps(&**backup, &found.control().store, &mut |damage| add(damage.into()))?;
    }
    if let Some(archive) = archive {
        FoundArchive::look(archive)?.check_records().or_else(|damage| {
            add(damage.into());
            Ok::<_, Error>(())
        })?;
    }
    Ok(check)
}

/// Checks that the page file has each page that log and space maps name. A page that was never written is named nowhere else.
fn check_page_file_len(backup: &Arc<dyn Media>, found: &Found) -> Result<()> {
    if planted!("pages_of_log_unchecked") {
        return Ok(());
    }
    let home = Home::look(backup, &PoolOptions::default())?;
    pages_are_there(&home, found, NamedPages::end_in(found)?)
}
