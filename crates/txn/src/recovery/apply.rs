//! Redo of one change, in a page of the pool or outside of it.

use cedrat_pages::{Exclusive, PageBuf, PageMut, PageRef};
use cedrat_sync::planted;
use cedrat_wal::Lsn;

use crate::deferred::has_change;
use crate::operation::RecordId;
use crate::registry::{Misfit, OperationTable};
use crate::store::Inner;

/// A page that a change can be redone in.
pub(crate) trait RedoPage {
    fn page_ref(&self) -> PageRef<'_>;

    /// Changes the page by the record with this LSN.
    fn change(&mut self, lsn: Lsn, redo: &dyn Fn(&mut PageMut<'_>) -> Result<(), Misfit>) -> Result<(), Misfit>;

    /// Changes one versioned record to its state after a change, in a page that is at least as new as `newest` then.
    fn change_record(
        &mut self,
        version: Lsn,
        newest: Lsn,
        redo: &dyn Fn(&mut PageMut<'_>) -> Result<(), Misfit>,
    ) -> Result<(), Misfit>;
}

impl RedoPage for Exclusive<'_> {
    fn page_ref(&self) -> PageRef<'_> {
        Exclusive::page_ref(self)
    }

    fn change(&mut self, lsn: Lsn, redo: &dyn Fn(&mut PageMut<'_>) -> Result<(), Misfit>) -> Result<(), Misfit> {
        self.will_change(lsn);
        Exclusive::change(self, lsn, redo)
    }

    fn change_record(
        &mut self,
        version: Lsn,
        newest: Lsn,
        redo: &dyn Fn(&mut PageMut<'_>) -> Result<(), Misfit>,
    ) -> Result<(), Misfit> {
        self.will_change(version);
        Exclusive::change_record(self, version, newest, redo)
    }
}

impl RedoPage for PageBuf {
    fn page_ref(&self) -> PageRef<'_> {
        PageBuf::page_ref(self)
    }

    fn change(&mut self, lsn: Lsn, redo: &dyn Fn(&mut PageMut<'_>) -> Result<(), Misfit>) -> Result<(), Misfit> {
        PageBuf::change(self, lsn, redo)
    }

    fn change_record(
        &mut self,
        version: Lsn,
        newest: Lsn,
        redo: &dyn Fn(&mut PageMut<'_>) -> Result<(), Misfit>,
    ) -> Result<(), Misfit> {
        PageBuf::change_record(self, version, newest, redo)
    }
}

/// A change of a page, as redo takes it from the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    /// The LSN that tells whether a page or a record has the change.
    pub(crate) lsn: Lsn,
    /// The LSN that the page has then at least: not older than the change.
    pub(crate) newest: Lsn,
    pub(crate) at: RecordId,
    pub(crate) arguments: &'a [u8],
}

impl Inner {
    /// Redoes a change, unless the page has it. Returns whether it lacked it.
    pub(crate) fn redo_change(
        &self,
        page: &mut impl RedoPage,
        table: &OperationTable,
        change: &Change<'_>,
    ) -> Result<bool, Misfit> {
        let redo = |page: &mut PageMut<'_>| (table.redo)(change.arguments, page, change.at.slot);
        if self.is_by_version(table) {
            let has = has_change(&page.page_ref(), change.at.slot, change.lsn).map_err(Misfit::Page)?;
            if !has {
                page.change_record(change.lsn, change.newest, &redo)?; // else the record has the change (E19.2)
            } else if page.page_ref().lsn() < change.newest {
                page.change_record(change.lsn, change.newest, &|_| Ok(()))?; // it is rebuilt from the change itself
            }
            return Ok(!has);
        }
        let has = change.lsn <= page.page_ref().lsn();
        if !has {
            page.change(change.lsn, &redo)?; // else the page has the change (E6.5)
        }
        Ok(!has)
    }

    /// Whether redo decides by the version of the record.
    fn is_by_version(&self, table: &OperationTable) -> bool {
        #[cfg(feature = "planted-faults")]
        if self.fault == Some(crate::Fault::RedoneByPageLsn) {
            return false;
        }
        table.by_version && !planted!("delta_redone_by_page_lsn")
    }
}
