//! Archives: copies of a log that are extended while it is in use, and keep what the log does not need any more (Lemon §3.4).
//!
//! 1. An archive is a directory like that of a log: [`Log::look`] reads its records, from where it began on.
//! 2. The log recycles no segment with a block that the archive lacks, if its owner passes [`LogArchive::kept_from`] to
//!    [`Log::truncate_before`].
//! 3. Only durable blocks are archived. Their promises are lowered as in a [copy](crate::LogCopy): none names a record that
//!    was not durable in the archive before.
//! 4. The control file of the archive is written when the blocks that it names are durable. A crash before leaves the archive as
//!    it was.
//! 5. A log continues where its last opening has ended, and keeps all blocks that were durable then. One that has begun an epoch
//!    before the end of the archive was restored from an older copy: it has another future, and another archive.

use cedrat_media::{Durability, FileId, LockGuard, Media, OpenMode, write_all_at};
use cedrat_sync::{Arc, planted};
use std::collections::{BTreeMap, BTreeSet};

use crate::block::SegmentHeader;
use crate::control::{Control, ControlFile};
use crate::copy::{BlocksToCopy, Limits};
use crate::epoch::Epochs;
use crate::log::Log;
use crate::look;
use crate::segment::{LOG_DIRECTORY, file_name};
use crate::{LogError, LogOffset, Lsn, PartitionId};

/// An archive of a log, open for more.
#[derive(Debug)]
pub struct LogArchive {
    to: Arc<dyn Media>,
    file: ControlFile,
    control: Control,
    /// Segment files, by partition and sequence number.
    segments: BTreeMap<(PartitionId, u64), FileId>,
    /// The number of the next segment file.
    next: u32,
    _lock: Option<LockGuard>,
}

impl LogArchive {
    /// Opens the archive of a log, or begins it in an empty directory: then it has all records that the log keeps now.
    ///
    /// # Errors
    /// [`LogError::Foreign`]: it is of another store, or this log was restored and lacks what the archive has. [`LogError::Truncated`]: the log has recycled records that the archive
    /// lacks. [`LogError::AlreadyThere`]: the directory has files, and no archive. [`LogError::Damaged`], [`LogError::Io`].
    pub fn open(to: &Arc<dyn Media>, log: &Log) -> Result<LogArchive, LogError> {
        let now = log.control();
        let archive = match ControlFile::open(&**to, OpenMode::ReadWrite) {
            Err(LogError::Absent { .. }) => return LogArchive::begin(to, now),
            opened => opened?,
        };
        let (file, control) = archive;
        if control.store != now.store || control.segment_len != now.segment_len {
            let (found, wanted) = ("the archive of another store", "an archive of this one");
            return Err(LogError::Foreign { file: file.path(&**to), found, wanted });
        }
        let newest = now.epochs.newest().expect("a log that is open has one");
        for (index, known) in control.partitions.iter().enumerate() {
            let is_archived_only = newest.number != control.epochs.newest().map_or(0, |epoch| epoch.number)
                && known.durable_below > newest.begins[index];
            if is_archived_only && !planted!("other_future_archived") {
                let (found, wanted) = ("the archive of another future of this store", "an archive of its past");
                return Err(LogError::Foreign { file: file.path(&**to), found, wanted });
            }
            if known.durable_below < now.partitions[index].scan_from {
                let what =
                    format!("what follows offset {} of partition {index} in the archive", known.durable_below.get());
                return Err(LogError::Truncated { what });
            }
        }
        let (in_use, files) = look::files(&**to, &control, OpenMode::ReadWrite)?;
        let mut segments = BTreeMap::new();
        let mut next = files.unready.iter().max().map_or(0, |number| number + 1);
        for (index, in_use) in in_use.iter().enumerate() {
            for (&sequence, slot) in in_use.read().iter() {
                segments.insert((PartitionId(index as u16), sequence), slot.file);
                next = next.max(slot.number + 1);
            }
        }
        Ok(LogArchive { to: Arc::clone(to), file, control, segments, next, _lock: None })
    }

    fn begin(to: &Arc<dyn Media>, now: Control) -> Result<LogArchive, LogError> {
        let io = |error| LogError::io("beginning an archive", error);
        for directory in ["", LOG_DIRECTORY] {
            if let Some(file) = to.list(directory).map_err(io)?.into_iter().next() {
                let file = if directory.is_empty() { file } else { format!("{directory}/{file}") };
                return Err(LogError::AlreadyThere { file });
            }
        }
        let mut control = Control { promise: now.checkpoint.scan_lsn.previous(), generation: 1, ..now };
        for known in &mut control.partitions {
            known.durable_below = known.scan_from;
            known.segments_begun = 0;
        }
        let (file, lock) = ControlFile::create(&**to, true)?;
        to.sync_directory("").map_err(io)?;
        file.write(&**to, &control)?;
        Ok(LogArchive { to: Arc::clone(to), file, control, segments: BTreeMap::new(), next: 0, _lock: lock })
    }

    /// Returns the offsets, one for each partition, from which on the archive lacks the log.
    pub fn kept_from(&self) -> Vec<LogOffset> {
        self.control.partitions.iter().map(|known| known.durable_below).collect()
    }

    /// Returns the LSN up to which the archive has all records.
    pub fn up_to(&self) -> Lsn {
        self.control.promise
    }

    /// Archives what has become durable since, and returns the LSN up to which the archive has all records now.
    ///
    /// # Errors
    /// [`LogError::Damaged`] names a block of the log. [`LogError::Io`], of the log or of the archive: the archive is as it was, and
    /// the next call tries again.
    pub fn extend(&mut self, log: &Log) -> Result<Lsn, LogError> {
        let up_to = log.durable_lsn();
        let ends: Vec<_> = (0..log.partitions()).map(|partition| log.flushed(PartitionId(partition))).collect();
        let now = log.control();
        let mut control = self.control.clone();
        control.epochs = merged(&control.epochs, &now.epochs);
        (control.names, control.schemas) = (now.names, now.schemas);
        let mut changed = BTreeSet::new();
        for (index, end) in ends.into_iter().enumerate() {
            let known = &mut control.partitions[index];
            let begin = known.durable_below;
            known.durable_below = end.max(begin);
            known.segments_begun = end.get().div_ceil(log.shared().reader.geometry.capacity());
            self.archive(log, PartitionId(index as u16), begin..end, &mut changed)?;
        }
        let io = |error| LogError::io("extending an archive", error);
        changed.iter().try_for_each(|&file| self.to.sync(file)).map_err(io)?;
        self.to.sync_directory(LOG_DIRECTORY).map_err(io)?;
        control.promise = control.promise.max(up_to);
        control.generation += 1;
        self.file.write(&*self.to, &control)?;
        self.control = control;
        Ok(self.up_to())
    }

    /// Copies the blocks of a range of a partition.
    fn archive(
        &mut self,
        log: &Log,
        partition: PartitionId,
        range: std::ops::Range<LogOffset>,
        changed: &mut BTreeSet<FileId>,
    ) -> Result<(), LogError> {
        let reader = &log.shared().reader;
        let geometry = reader.geometry;
        // A crash may leave these blocks, and not those of other partitions that are archived with them.
        let promise = if planted!("archive_promises_too_much") { Lsn::MAX } else { self.control.promise };
        let limits = Limits { promise, own_promise: range.start, ..Limits::NONE };
        let mut blocks = BlocksToCopy::new(reader, partition, limits);
        let mut at = range.start;
        while at < range.end {
            let sequence = geometry.sequence(at);
            let len = blocks.slot(at)?.len();
            let file = self.segment(partition, sequence, len)?;
            changed.insert(file);
            let end = range.end.min(geometry.begin(sequence + 1));
            while at < end {
                let (bytes, next) = blocks.read(at, end)?;
                let written = write_all_at(&*self.to, file, geometry.in_file(at), bytes, Durability::Volatile);
                written.map_err(|error| LogError::io(format!("writing {}", self.to.path(file)), error))?;
                at = next;
            }
        }
        Ok(())
    }

    /// Returns the file of a segment, which is created if there is none.
    fn segment(&mut self, partition: PartitionId, sequence: u64, len: u64) -> Result<FileId, LogError> {
        if let Some(&file) = self.segments.get(&(partition, sequence)) {
            return Ok(file);
        }
        let name = file_name(self.next);
        let epoch = self.control.epochs.newest().map_or(0, |epoch| epoch.number);
        let header = SegmentHeader { partition, store: self.control.store, sequence, segment_len: len, epoch };
        let made = self.to.open(&name, OpenMode::Create).and_then(|file| {
            self.to.set_len(file, len)?;
            if !planted!("archived_header_first") {
                self.to.sync(file)?;
            }
            // With its header the file has its length, and without it no block (W8).
            write_all_at(&*self.to, file, 0, &header.block(), Durability::Durable)?;
            Ok(file)
        });
        let file = made.map_err(|error| LogError::io(format!("creating {name}"), error))?;
        self.next += 1;
        self.segments.insert((partition, sequence), file);
        Ok(file)
    }
}

/// Returns the epochs of an archive, and those that the log has now: what it has joined replaces the single ones.
fn merged(archived: &Epochs, now: &Epochs) -> Epochs {
    let is_replaced = |number: u32| now.iter().any(|epoch| epoch.is_of(number));
    let mut list: Vec<_> = archived.iter().filter(|epoch| !is_replaced(epoch.number)).cloned().collect();
    list.extend(now.iter().cloned());
    Epochs { list }
}
