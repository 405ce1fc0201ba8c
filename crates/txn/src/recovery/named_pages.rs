//! The pages that the records of a log name, found without the rest of analysis.

use cedrat_wal::{Found, FoundArchive, LogError, Lsn, RecordRef};

use super::analysis::{carried_space, corrupt};
use crate::body::{Body, Redo};
use crate::error::Result;
use crate::registry::{Numbers, Registry};
use crate::space::{SpaceChange, SpaceNumbers};

/// The end of the pages that records change, allocate or free.
#[derive(Debug)]
pub(crate) struct NamedPages {
    numbers: SpaceNumbers,
    end: u64,
}

/// Returns the end of the pages that a change of a page names, and the change of space that it makes, if it makes one. The error is the
/// defect of its record.
pub(super) fn named_by(redo: &Redo<'_>, numbers: &SpaceNumbers) -> Result<(u64, Option<SpaceChange>), &'static str> {
    let end = redo.at.page.get().saturating_add(1);
    if !numbers.contains(redo.operation) {
        return Ok((end, None));
    }
    let change = numbers.change(redo.operation, redo.at.page, redo.arguments);
    let change = change.ok_or("it changes the space map beyond its end")?;
    Ok((end.max(change.end()), Some(change)))
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
            self.end = self.end.max(named_by(&redo, &self.numbers).map_err(corrupt)?.0);
        }
        for extent in carried_space(&body).map_err(corrupt)? {
            self.end = self.end.max(extent.end());
        }
        Ok(())
    }
}
