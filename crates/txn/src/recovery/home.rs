//! Consistency of log and page file, checked before anything is written (R2).

use cedrat_pages::{Home, PageId};
use cedrat_sync::planted;
use cedrat_wal::{Found, LogError, Lsn, PartitionId, Position};

use crate::error::Result;
use crate::space::{GROUP_PAGES, SPACE_MAP};

/// Checks that the log reaches as far as the written pages promise. Otherwise its end was lost, and with it the records
/// that undo needs for those pages (E20.5).
pub(super) fn log_is_whole(home: &Home, found: &Found) -> Result<()> {
    let promised = home.promised();
    if promised < found.end_lsn() || planted!("shorter_log_accepted") {
        return Ok(());
    }
    let end = Position { partition: PartitionId(0), offset: found.ends()[0] };
    let (file, offset) = found.place(end);
    let what = format!(
        "the log ends before LSN {}, but pages went home when it was durable up to LSN {promised}",
        found.end_lsn()
    );
    Err(LogError::Damaged { file, offset, what }.into())
}

/// Checks that the page file reaches as far as log and space maps require. If it were extended instead, the missing
/// pages would read as zeros, which look like pages never written.
///
/// No crash leaves it shorter. Space for pages is durable before the record that allocates them is appended, and the
/// file never shrinks. So each page that a record names, or that a space map in the page file marks as used, once was
/// in it. That holds for space maps of any age: later allocations are named by the log. A map that the crash has torn
/// is skipped, since the log contains its newest changes.
///
/// `pages_end` is the end of the pages that the log names. The check cannot detect a file that was cut exactly between two groups, so that no map is left, or a file that was
/// extended again from outside.
pub(crate) fn pages_are_there(home: &Home, found: &Found, pages_end: u64) -> Result<()> {
    let has_records = found.end_lsn() > Lsn::new(1);
    if has_records {
        // Before the first record the file may be missing: the log is created first.
        home.has(crate::CATALOGUE)?;
    }
    if let Some(last) = pages_end.checked_sub(1) {
        home.has(PageId::new(last))?;
    }
    for map in (0..home.pages()).step_by(GROUP_PAGES as usize) {
        if let Some(page) = home.page(PageId::new(map))?
            && page.page_ref().kind() == SPACE_MAP
            && let Some(at) = page.page_ref().body().iter().rposition(|&byte| byte != 0)
        {
            let highest = u64::from(page.page_ref().body()[at].ilog2());
            home.has(PageId::new(map + 8 * at as u64 + highest))?;
        }
    }
    Ok(())
}
