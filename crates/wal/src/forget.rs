//! Retention: an archive forgets its beginning, on request (Lemon §3.4; E18.13).
//!
//! 1. The archive keeps every record from an LSN on, and the moments from there on.
//! 2. A new file of moments is written first, then the control file, which names it and the new beginning. Last, the files
//!    before that are removed. A crash, or a failure, leaves the archive with its old beginning or with its new one.
//! 3. Files that are left are removed by the next call, or by the next opening.
//! 4. The control file forgets the epochs, and their dead numbers, before the new beginning.

use cedrat_sync::planted;

use crate::archive::{FoundArchive, LogArchive};
use crate::copy::{has_same_records, refuse_later_beginning};
use crate::moments::{self, Moments};
use crate::open::Found;
use crate::segment::{Geometry, LOG_DIRECTORY, file_number};
use crate::{LogError, LogOffset, Lsn, PartitionId};

/// A position in an archive before which it may forget everything.
#[derive(Clone, Debug)]
pub struct ArchivePoint {
    /// The first LSN to keep.
    lsn: Lsn,
    /// For each partition, the offset of a block. All records from that LSN on lie there or later.
    offsets: Vec<LogOffset>,
}

impl ArchivePoint {
    /// Returns the first LSN to keep.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }
}

impl FoundArchive {
    /// Returns the point before which restores of a backup, and of younger ones, need nothing.
    ///
    /// # Errors
    /// [`LogError::ArchiveBeginsLater`]: the archive does not reach the backup any more. [`LogError::NotArchived`]: it lacks the end of
    /// the backup. [`LogError::Foreign`]: it is of another store, or of another history of it. [`LogError::Damaged`], [`LogError::Io`].
    pub fn point_of_backup(&self, backup: &Found) -> Result<ArchivePoint, LogError> {
        let foreign = |found| {
            let wanted = "the archive of the backup's history";
            Err(LogError::Foreign { file: self.found.control_path(), found, wanted })
        };
        if self.found.control().store != backup.control().store {
            return foreign("the archive of another store");
        }
        refuse_later_beginning(backup, &self.found)?;
        let (last, end) = (self.lsns().1, backup.end_lsn().previous());
        if end > last {
            return Err(LogError::NotArchived { lsn: end, last });
        }
        if !has_same_records(backup, self.found.reader(), self.found.control())? {
            return foreign("the archive of another history of the store");
        }
        self.point_at(backup.control().checkpoint.scan_lsn)
    }

    /// Returns the point before which lie only records before an LSN. If the archive begins later, that is its beginning.
    ///
    /// # Errors
    /// [`LogError::NotArchived`]: the archive ends before.
    pub fn point_at(&self, lsn: Lsn) -> Result<ArchivePoint, LogError> {
        let last = self.lsns().1;
        if lsn > last.next() {
            return Err(LogError::NotArchived { lsn, last });
        }
        let partitions = 0..self.found.control().partitions.len();
        let offsets = partitions.map(|index| self.found.first_block(PartitionId(index as u16), lsn)).collect();
        Ok(ArchivePoint { lsn, offsets })
    }
}

/// Returns the beginning of the newest segment of an archive with this end. A log that extends it must have these blocks.
pub(crate) fn newest_segment(geometry: Geometry, end: LogOffset) -> LogOffset {
    if planted!("newest_blocks_forgotten") {
        return end;
    }
    geometry.begin(geometry.sequence(LogOffset::new(end.get().saturating_sub(1))))
}

impl LogArchive {
    /// Returns the first LSN that the archive keeps.
    pub fn begins(&self) -> Lsn {
        self.control.checkpoint.scan_lsn
    }

    /// Forgets what lies before a point, which was found in this archive since it was opened, or before.
    ///
    /// # Errors
    /// [`LogError::Io`]: the archive has its old beginning or the new one; the next call tries again.
    pub fn forget(&mut self, point: &ArchivePoint) -> Result<(), LogError> {
        let mut control = self.control.clone();
        let checkpoint = &mut control.checkpoint;
        checkpoint.scan_lsn = checkpoint.scan_lsn.max(point.lsn);
        checkpoint.redo_lsn = checkpoint.redo_lsn.max(checkpoint.scan_lsn);
        let geometry = Geometry { segment_len: control.segment_len };
        for (known, &offset) in control.partitions.iter_mut().zip(&point.offsets) {
            known.scan_from = known.scan_from.max(offset.min(newest_segment(geometry, known.durable_below)));
        }
        let begin = control.checkpoint.scan_lsn;
        let scan_from: Vec<_> = control.partitions.iter().map(|known| known.scan_from).collect();
        control.epochs.forget_before(begin, &scan_from);
        if !planted!("dead_numbers_kept") {
            control.epochs.forget_dead_before(begin);
        }
        if control != self.control {
            if planted!("forgotten_before_named") {
                self.remove_before(&scan_from)?;
            }
            let (_, all) = self.moments.read(&*self.to)?;
            let number = self.new_moments_file()?;
            let moments = Moments::write_from(&*self.to, number, &all, begin)?;
            (control.moments_file, control.checkpoint.next_txn) = (number, moments.end());
            self.write(control)?;
            self.moments = moments;
        }
        self.remove_before(&scan_from)
    }

    fn remove_before(&mut self, scan_from: &[LogOffset]) -> Result<(), LogError> {
        let geometry = Geometry { segment_len: self.control.segment_len };
        let is_kept =
            |&(partition, sequence): &(PartitionId, u64)| sequence >= geometry.sequence(scan_from[partition.index()]);
        let dropped = self.segments.iter().filter(|(key, _)| !is_kept(key)).map(|(_, segment)| segment.number);
        self.forgotten.extend(dropped);
        self.segments.retain(|key, _| is_kept(key));
        self.remove_forgotten()
    }

    /// Returns the number of a file of moments that no control file has named.
    fn new_moments_file(&self) -> Result<u32, LogError> {
        let names = self.to.list("").map_err(|error| LogError::io("listing the directory of an archive", error))?;
        let known = names.iter().filter_map(|name| moments::file_number(name)).max();
        Ok(known.unwrap_or(0).max(self.control.moments_file) + 1)
    }

    /// Removes the files of segments and moments that are not of the archive any more. Others stay: a segment with a damaged header
    /// may be repaired.
    pub(crate) fn remove_forgotten(&mut self) -> Result<(), LogError> {
        let io = |error| LogError::io("removing what an archive has forgotten", error);
        if !self.forgotten.is_empty() {
            for name in self.to.list(LOG_DIRECTORY).map_err(io)? {
                if file_number(&name).is_some_and(|number| self.forgotten.contains(&number)) {
                    self.to.remove(&format!("{LOG_DIRECTORY}/{name}")).map_err(io)?;
                }
            }
            self.to.sync_directory(LOG_DIRECTORY).map_err(io)?;
            self.forgotten.clear();
        }
        for name in self.to.list("").map_err(io)? {
            if moments::file_number(&name).is_some_and(|number| number != self.control.moments_file) {
                self.to.remove(&name).map_err(io)?;
            }
        }
        Ok(())
    }
}
