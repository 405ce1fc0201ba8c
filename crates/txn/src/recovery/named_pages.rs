//! The pages that the records of a log name, found without the rest of analysis.

use cedrat_wal::{Found, FoundArchive, LogError, Lsn, RecordRef};

use super::analysis::{carried_space, corrupt};
use crate::body::Body;
use crate::error::Result;
use crate::registry::{Numbers, Registry};
use crate::space::SpaceNumbers;

/// The end of the pages that records change, allocate or free.
#[derive(Debug)]
pub(crate) struct NamedPages {
    numbers: SpaceNumbers,
    end: u64,
}

impl NamedPages {
    /// Reads a log from its checkpoint on, and returns the end of the pages that it names.
    pub(crate) fn end_in(found: &Found) -> Result<u64> {
        let mut named = NamedPages::new(found);
        let mut scan = found.scan(found.control().checkpoint.scan_lsn)?;
        while let Some(scanned) = scan.next()? {
            named.note(found, &scanned.record)?;
        }
        Ok(named.end)
    }

    /// Reads the records of an archive after the end of a backup, up to `target`, and returns the end of the pages that they name.
    pub(crate) fn end_after(backup: &Found, archive: &FoundArchive, target: Lsn) -> Result<u64> {
        let mut named = NamedPages::new(archive.log());
        archive.visit_after(backup, target, &mut |record| named.note(archive.log(), record))?;
        Ok(named.end)
    }

    fn new(found: &Found) -> NamedPages {
        let known = Numbers::bind(&Registry::new(), &found.control().names);
        NamedPages { numbers: SpaceNumbers::of(&known), end: 0 }
    }

    fn note(&mut self, found: &Found, record: &RecordRef<'_>) -> Result<(), LogError> {
        let corrupt = |what: &str| corrupt(found, record, what);
        let body = Body::parse(record.head.kind, record.body).map_err(|bad| corrupt(bad.0))?;
        for redo in body.redos() {
            self.end = self.end.max(redo.at.page.get().saturating_add(1));
            if self.numbers.contains(redo.operation) {
                let change = self.numbers.change(redo.operation, redo.at.page, redo.arguments);
                self.end = self.end.max(change.map_or(0, |change| change.end()));
            }
        }
        for extent in carried_space(&body).map_err(corrupt)? {
            self.end = self.end.max(extent.end());
        }
        Ok(())
    }
}
