//! A private copy of the log of a store that another process may be writing, for readers beside it (E26).
//!
//! 1. The copy begins at the checkpoint of the control file that was read first, and is extended by what the log got since. The writer
//!    knows nothing of it: if it has recycled blocks that the copy lacks, or has begun another epoch, the copy is begun anew.
//! 2. It ends at the first missing LSN. Blocks are never rewritten, so what was read stays, but it may be in the cache of the system
//!    alone: the files are synced before anything of it is shown. Every later opening finds it (W3).
//! 3. Promises are limited to that LSN, and later records are left out, as in copies for backups: the copy opens like the log that a
//!    crash right after that LSN leaves.

use cedrat_media::{Durability, FileId, Media, OpenMode, write_all_at};
use cedrat_sync::{Arc, planted};
use std::collections::BTreeMap;

use crate::block::SegmentHeader;
use crate::control::{Control, ControlFile};
use crate::copy::{BlocksToCopy, Limits};
use crate::log::Log;
use crate::open::Found;
use crate::segment::file_name;
use crate::{ByteLen, LogError, LogOffset, Lsn, PartitionId};

/// A private copy of a log that another process may be writing.
#[derive(Debug)]
pub struct LogBeside {
    to: Arc<dyn Media>,
    control: Control,
    /// For each partition, the end of the blocks that were copied as a whole.
    copied: Vec<LogOffset>,
    /// The files of the segments.
    files: BTreeMap<(PartitionId, u64), FileId>,
}

impl LogBeside {
    /// Begins a copy in a directory without a log. It has no record before it is [extended](LogBeside::extend).
    ///
    /// # Errors
    /// [`LogError::Absent`], [`LogError::Damaged`], [`LogError::Foreign`]: the directory has no log of a store. [`LogError::Io`].
    pub fn begin(live: &Arc<dyn Media>, to: &Arc<dyn Media>) -> Result<LogBeside, LogError> {
        let control = Log::look_at_control(live)?;
        let copied = control.partitions.iter().map(|known| known.scan_from).collect();
        Ok(LogBeside {
            to: Arc::clone(to),
            control: Control { generation: 1, ..control },
            copied,
            files: BTreeMap::new(),
        })
    }

    /// Returns the content of the control file that the copy has, with the checkpoint of its beginning.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Returns the number of bytes of blocks that were copied.
    pub fn bytes(&self) -> ByteLen {
        let partitions = self.copied.iter().zip(&self.control.partitions);
        ByteLen(partitions.map(|(copied, known)| copied.since(known.scan_from).0).sum())
    }

    /// Copies what the log got since, and returns the LSN up to which the copy has all records. It is at least the LSN of each record
    /// that was durable when the call began. `None`: the copy cannot be continued, because another epoch has begun.
    ///
    /// # Errors
    /// [`LogError::Damaged`]: the log is damaged; or its blocks were recycled since, or while they were read: begin another copy.
    /// [`LogError::Io`].
    pub fn extend(&mut self, live: &Arc<dyn Media>) -> Result<Option<Lsn>, LogError> {
        let mut now = Log::look_at_control(live)?;
        let epoch = |control: &Control| control.epochs.newest().map(|epoch| epoch.number);
        if now.store != self.control.store || epoch(&now) != epoch(&self.control) {
            return Ok(None);
        }
        for (known, &copied) in now.partitions.iter_mut().zip(&self.copied) {
            known.scan_from = copied;
        }
        let found = Found::look_beside(live, now, self.control.promise)?;
        found.refuse_archive()?;
        let last = found.end_lsn().previous();
        self.sync(&found, live)?;
        let mut ends = Vec::new();
        for index in 0..self.copied.len() {
            let partition = PartitionId(index as u16);
            let (whole, end) = found.ends_up_to(partition, last)?;
            self.copy(&found, partition, end, last)?;
            self.copied[index] = whole;
            ends.push(end);
        }
        let capacity = found.reader().geometry.capacity();
        for (known, end) in self.control.partitions.iter_mut().zip(ends) {
            known.durable_below = known.durable_below.max(end);
            known.segments_begun = known.durable_below.get().div_ceil(capacity);
        }
        let Control { names, schemas, .. } = found.control().clone();
        (self.control.names, self.control.schemas, self.control.promise) = (names, schemas, last);
        Ok(Some(last))
    }

    /// Makes durable what was found, in the log itself (E26.2).
    fn sync(&self, found: &Found, live: &Arc<dyn Media>) -> Result<(), LogError> {
        if planted!("log_beside_not_synced") {
            return Ok(());
        }
        let geometry = found.reader().geometry;
        for (index, (&from, &stop)) in self.copied.iter().zip(found.ends()).enumerate() {
            let segments = geometry.sequence(from)..stop.get().div_ceil(geometry.capacity());
            for sequence in segments.filter(|_| from < stop) {
                let slot = found.reader().slot(PartitionId(index as u16), geometry.begin(sequence));
                let file = slot.map(|slot| slot.file).ok_or_else(|| recycled(live, geometry.begin(sequence)))?;
                live.sync(file).map_err(|error| LogError::io(format!("syncing {}", live.path(file)), error))?;
            }
        }
        Ok(())
    }

    /// Copies the blocks of a partition up to an offset, without records after `last`.
    fn copy(&mut self, found: &Found, partition: PartitionId, end: LogOffset, last: Lsn) -> Result<(), LogError> {
        let geometry = found.reader().geometry;
        let mut at = self.copied[partition.index()];
        let mut blocks = BlocksToCopy::new(found.reader(), partition, Limits { promise: last, last, ..Limits::NONE });
        // Also without blocks, a segment within which the log ends has a file.
        for sequence in geometry.sequence(at)..end.get().div_ceil(geometry.capacity()) {
            let segment_end = end.min(geometry.begin(sequence + 1));
            let file = self.file(found, partition, sequence)?;
            while at < segment_end {
                let (bytes, next) = blocks.read(at, segment_end)?;
                write_all_at(&*self.to, file, geometry.in_file(at), bytes, Durability::Volatile).map_err(failed)?;
                at = next;
            }
        }
        Ok(())
    }

    /// Returns the file of a segment, which it creates if there is none.
    fn file(&mut self, found: &Found, partition: PartitionId, sequence: u64) -> Result<FileId, LogError> {
        if let Some(&file) = self.files.get(&(partition, sequence)) {
            return Ok(file);
        }
        let geometry = found.reader().geometry;
        let slot = found.reader().slot(partition, geometry.begin(sequence));
        let segment_len = slot.map_or(geometry.segment_len, |slot| slot.len());
        let epoch = self.control.epochs.newest().map_or(0, |epoch| epoch.number);
        let header = SegmentHeader { partition, store: self.control.store, sequence, segment_len, epoch };
        let name = file_name(self.files.len() as u32);
        let file = self.to.open(&name, OpenMode::Create).map_err(failed)?;
        self.to.set_len(file, segment_len).map_err(failed)?;
        write_all_at(&*self.to, file, 0, &header.block(), Durability::Volatile).map_err(failed)?;
        self.files.insert((partition, sequence), file);
        Ok(file)
    }

    /// Returns the copy as it is found when it is opened.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Io`].
    pub fn found(&self) -> Result<Found, LogError> {
        Found::look_at(&self.to, self.control.clone())
    }

    /// Writes the control file of the copy to `view`, a medium that shows its segments.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn write_control(&self, view: &dyn Media) -> Result<(), LogError> {
        let (file, _not_locked) = ControlFile::create(view, true)?;
        file.write(view, &self.control)
    }
}

fn failed(error: std::io::Error) -> LogError {
    LogError::io("copying the log of a store beside its writer", error)
}

fn recycled(live: &Arc<dyn Media>, at: LogOffset) -> LogError {
    let what = format!("the segment with offset {at} of the log was recycled while it was read");
    let control = live.open(crate::CONTROL_FILE, OpenMode::Read).map(|file| live.path(file));
    LogError::damaged(control.unwrap_or_else(|_| crate::CONTROL_FILE.into()), 0, what)
}

#[cfg(test)]
mod tests {
    use cedrat_media::{ForwardMedia, SimDisk};
    use cedrat_sync::atomic::{AtomicU32, Ordering};
    use cedrat_sync::{Mutex, explore};

    use super::*;
    use crate::LogOptions;
    use crate::copy::tests::append;

    /// A disk on which the log gets records while the second partition is read.
    struct Appended {
        disk: SimDisk,
        log: Mutex<Log>,
        reads: AtomicU32,
    }

    impl std::fmt::Debug for Appended {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.disk.fmt(f)
        }
    }

    impl ForwardMedia for Appended {
        fn target(&self) -> &dyn Media {
            &self.disk
        }

        fn forward_read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
            let is_second = self.disk.path(file).ends_with("000001");
            // The first read is that of the segment's header.
            if is_second && self.reads.fetch_add(1, Ordering::SeqCst) == 1 {
                let log = self.log.lock();
                append(&log, 0);
                append(&log, 1);
            }
            self.disk.read_at(file, offset, buffer)
        }
    }

    /// E26.7a: a block of the second partition promises a record of the first one, which was read before.
    #[test]
    fn promise_written_meanwhile_is_kept() {
        explore(1, 1, || {
            let disk = SimDisk::new();
            let media: Arc<dyn Media> = Arc::new(disk.clone());
            let log =
                Log::create(&media, &LogOptions { partitions: 2, ..LogOptions::small() }, &[]).expect("a new log");
            append(&log, 0);
            let known = append(&log, 1);
            let live: Arc<dyn Media> =
                Arc::new(Appended { disk, log: Mutex::new(log.clone()), reads: AtomicU32::new(0) });
            let to: Arc<dyn Media> = Arc::new(SimDisk::new());
            let mut beside = LogBeside::begin(&live, &to).expect("there is a log");
            let lsn = beside.extend(&live).expect("E26.7a").expect("it is of one epoch");
            assert!(lsn > known, "the record was written meanwhile");
            let mut scan = beside.found().and_then(|found| found.scan(Lsn::ZERO)).expect("E26.7a");
            let mut last = Lsn::ZERO;
            while let Some(found) = scan.next().expect("E26.7a: no record is missing") {
                last = found.record.lsn;
            }
            assert_eq!(last, lsn, "E26.1");
        });
    }
}
