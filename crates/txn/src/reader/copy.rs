//! The private copy of a store that a reader has.

use cedrat_heap::{WantedHeaps, restore_heaps};
use cedrat_media::Media;
use cedrat_pages::{PageId, PagesBeside};
use cedrat_sync::{Arc, planted};
use cedrat_wal::{ByteLen, CONTROL_FILE, Checkpoint, Log, LogBeside, LogError, Lsn};
use std::collections::BTreeSet;

use super::{ATTEMPTS, ReaderFiles};
use crate::body::Body;
use crate::encryption;
use crate::error::{Error, Result};
use crate::increment;
use crate::options::Options;
use crate::space::GROUP_PAGES;
use crate::store::CATALOGUE;

/// The length of the copied log at which a copy is begun anew if there is a newer checkpoint.
const LOG_LEN_MAX: ByteLen = ByteLen(64 << 20);

/// A private copy of a store: its log from a checkpoint on, its heaps at that time, and the pages that were needed.
pub(super) struct Copy {
    log: LogBeside,
    pages: Arc<PagesBeside>,
    copies_pages: bool,
    /// The pages that the log names up to this LSN, and this number of pages of the file, were asked for.
    asked_up_to: Lsn,
    asked_pages: u64,
}

/// The state of a store that each checkpoint and each opening changes.
pub(super) fn state(files: &ReaderFiles, options: &Options) -> Result<(u64, Checkpoint)> {
    let control = Log::look_at_control(&live(files, options)?)?;
    Ok((control.generation, control.checkpoint))
}

/// Opens the directory of the store anew.
pub(super) fn live(files: &ReaderFiles, options: &Options) -> Result<Arc<dyn Media>> {
    let media = (files.store)().map_err(|error| Error::io("opening the directory of the store", error))?;
    Ok(match &options.encryption {
        Some(keys) => keys.open(&media)?,
        None => media,
    })
}

/// Returns an empty directory for private files of a reader.
pub(super) fn scratch(files: &ReaderFiles, options: &Options) -> Result<Arc<dyn Media>> {
    let media = (files.scratch)().map_err(|error| Error::io("creating a directory for private files", error))?;
    Ok(match &options.encryption {
        Some(keys) => keys.open_or_create(&media)?,
        None => media,
    })
}

impl Copy {
    /// Begins a copy, which has no record and no page yet.
    pub(super) fn begin(files: &ReaderFiles, options: &Options) -> Result<Copy> {
        let live = live(files, options)?;
        increment::refuse(&*live, "a store")?;
        let media = scratch(files, options)?;
        encryption::refuse_plain(
            &*live,
            Some(&media),
            "ReaderFiles::scratch: the store is encrypted, and this is not",
        )?;
        let log = LogBeside::begin(&live, &media)?;
        if log.control().is_log_alone() {
            return Err(LogError::Foreign { file: CONTROL_FILE.into(), found: "a log alone", wanted: "a store" }.into());
        }
        // Both are read after the redo point, and before the end of the log is determined.
        let pages = Arc::new(PagesBeside::begin(&live, &media)?);
        let wanted = WantedHeaps { includes_backups: true, ..WantedHeaps::default() };
        restore_heaps(&*live, &*media, &log.control().store, log.control().promise, &wanted)?;
        let copies_pages = files.copies_pages;
        Ok(Copy { log, pages, copies_pages, asked_up_to: Lsn::ZERO, asked_pages: 0 })
    }

    /// Copies what the log got since, and the pages that it names. Returns the copy with the LSN up to which it has all records; `None` if
    /// the log does not continue it.
    pub(super) fn extend(mut self, live: &Arc<dyn Media>) -> Result<Option<(Copy, Lsn)>> {
        for attempt in 1.. {
            let Some(lsn) = self.log.extend(live)? else { return Ok(None) };
            let asked = self.pages_to_ask_for(lsn)?;
            // A page at home has no change that the log lacks (E11.4): the next end of the log is not before it.
            if self.pages.fetch(asked)? <= lsn || attempt == ATTEMPTS || planted!("reader_ends_log_before_pages") {
                return Ok(Some((self, lsn)));
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Returns the pages that recovery up to an LSN reads, in ascending order, without those that were returned before.
    fn pages_to_ask_for(&mut self, lsn: Lsn) -> Result<BTreeSet<PageId>> {
        let count = self.pages.grow()?;
        let mut pages = BTreeSet::new();
        let found = self.log.found()?;
        let from = self.asked_up_to.next().max(self.log.control().checkpoint.redo_lsn);
        let mut scan = found.scan(from)?;
        while let Some(scanned) = scan.next()? {
            let record = scanned.record;
            let body =
                Body::parse(record.head.kind, record.body).map_err(|bad| Error::bad_record(record.lsn, bad.0))?;
            pages.extend(body.redos().map(|redo| redo.at.page).filter(|page| page.get() < count));
        }
        let step = if self.copies_pages { 1 } else { GROUP_PAGES };
        let first = self.asked_pages.next_multiple_of(step);
        pages.extend((first..count).step_by(step as usize).map(PageId::new));
        pages.extend((CATALOGUE.get() < count).then_some(CATALOGUE));
        (self.asked_up_to, self.asked_pages) = (lsn, count);
        Ok(pages)
    }

    /// Whether another copy, from a newer checkpoint on, would be better: views read much log.
    pub(super) fn is_outdated(&self, live: &Arc<dyn Media>) -> Result<bool> {
        let own = self.log.control().checkpoint;
        Ok(self.log.bytes() > LOG_LEN_MAX && Log::look_at_control(live)?.checkpoint.redo_lsn > own.redo_lsn)
    }

    pub(super) fn pages(&self) -> &Arc<PagesBeside> {
        &self.pages
    }

    /// Writes the control file of a view.
    pub(super) fn write_control(&self, view: &dyn Media) -> Result<()> {
        Ok(self.log.write_control(view)?)
    }
}
