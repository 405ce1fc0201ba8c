//! Copies of a log: of one in use, for backups, and of an archive, for restores (Lemon §3.4).
//!
//! 1. A copy has every record from a checkpoint on, up to an LSN that the caller chooses. It opens like the log that a crash
//!    right after that LSN leaves.
//! 2. Blocks are written once, so they are copied without a latch. Of each partition those below one offset are copied, read
//!    after that LSN was durable; so each partition has all of its records up to that LSN.
//! 3. A promise names records of all partitions (E20.1). In a copied block it is at most that LSN: records after it may be
//!    missing in the copies of other partitions.
//! 4. Until its control file is complete, which is written last, the copy is refused as damaged.
//! 5. Each block and each of its records is verified: what the copy needs is found to be damaged now, and not by its opening.

use cedrat_media::{AlignedBuf, Durability, Media, OpenMode, write_all_at};
use cedrat_sync::{Arc, planted};
use std::io;
use std::ops::Range;

use crate::archive::FoundArchive;
use crate::block::{BLOCK_HEADER_LEN, BlockHeader, SegmentHeader};
use crate::checksum::record_seed;
use crate::control::{Control, ControlFile};
use crate::log::Log;
use crate::open::Found;
use crate::read::Reader;
use crate::record;
use crate::segment::{LOG_DIRECTORY, SEGMENT_HEADER_LEN, Slot, file_name};
use crate::verdict::{Body, Head, verdict};
use crate::{LogError, LogOffset, Lsn, PartitionId, Position, Stopped};

/// The number of bytes that are read and written at a time, unless a block is longer.
const PIECE_LEN: usize = 1 << 20;

/// The end of a copy of a log.
#[derive(Debug)]
pub struct CopyEnd {
    up_to: Lsn,
    /// For each partition.
    offsets: Vec<LogOffset>,
}

impl CopyEnd {
    /// Returns an end behind all records that there are now, once they are durable.
    ///
    /// # Errors
    /// The log has stopped.
    pub fn now(log: &Log) -> Result<CopyEnd, Stopped> {
        let up_to =
            if planted!("copy_without_force") { log.durable_lsn() } else { log.force(log.current_lsn())?.up_to() };
        let offsets = (0..log.partitions()).map(|partition| log.flushed(PartitionId(partition))).collect();
        Ok(CopyEnd { up_to, offsets })
    }

    /// The LSN up to which a copy with this end has all records.
    pub fn up_to(&self) -> Lsn {
        self.up_to
    }
}

/// A copy of a log that is not complete.
#[derive(Debug)]
pub struct LogCopy {
    to: Arc<dyn Media>,
    control: ControlFile,
    /// The number of the next segment file.
    next: u32,
}

impl LogCopy {
    /// Begins a copy in a directory without a log.
    ///
    /// # Errors
    /// [`LogError::AlreadyThere`]: the directory has files. [`LogError::Io`].
    pub fn begin(to: &Arc<dyn Media>) -> Result<LogCopy, LogError> {
        let io = |error| LogError::io("beginning the copy of a log", error);
        refuse_other_files(&**to, |_| false)?;
        let (control, _lock) = ControlFile::create(&**to, true)?;
        // With a segment file, a control file that is not complete is damage, and not a creation to be repeated.
        to.open(&file_name(0), OpenMode::Create)
            .and_then(|_| to.sync_directory(LOG_DIRECTORY))
            .and_then(|()| to.sync_directory(""))
            .map_err(io)?;
        Ok(LogCopy { to: Arc::clone(to), control, next: 0 })
    }

    /// Copies a log from the checkpoint of `since`, a control file of this opening, to `end`. The log keeps everything from that
    /// checkpoint on meanwhile.
    ///
    /// # Errors
    /// [`LogError::Damaged`] if a block was changed since it was written; [`LogError::Io`].
    pub fn copy(mut self, log: &Log, since: &Control, end: CopyEnd) -> Result<CopiedLog, LogError> {
        let reader = &log.shared().reader;
        let CopyEnd { up_to, offsets } = end;
        let mut control = Control { promise: up_to, generation: 1, ..log.control() };
        (control.checkpoint, control.epochs) = (since.checkpoint, since.epochs.clone());
        for (index, end) in offsets.into_iter().enumerate() {
            let known = &mut control.partitions[index];
            known.scan_from = since.partitions[index].scan_from;
            known.durable_below = end;
            known.segments_begun = end.get().div_ceil(reader.geometry.capacity());
            let begin = Position { partition: PartitionId(index as u16), offset: known.scan_from };
            self.copy_partition(reader, begin, end, Limits { promise: up_to, ..Limits::NONE })?;
        }
        Ok(CopiedLog { copy: self, control })
    }

    /// Copies the records of an archive from the checkpoint of a backup to `target`, and no later one. With pages and heaps of the
    /// backup, this is the log that a crash right after `target` leaves.
    ///
    /// # Errors
    /// [`LogError::Unreachable`]: `target` is before the end of the backup, or behind the end of the archive. [`LogError::Foreign`]:
    /// the archive is of another store, or of another history of it. [`LogError::Damaged`], [`LogError::Io`].
    pub fn restore(self, backup: &Found, archive: &FoundArchive, target: Lsn) -> Result<CopiedLog, LogError> {
        self.restore_from(backup, &archive.found, target)
    }

    /// Copies all records of a backup from its checkpoint on.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Io`].
    pub fn restore_all(self, backup: &Found) -> Result<CopiedLog, LogError> {
        self.restore_from(backup, backup, backup.end_lsn().previous())
    }

    /// Copies what a log has from the checkpoint of a backup to `target`.
    fn restore_from(mut self, backup: &Found, archive: &Found, target: Lsn) -> Result<CopiedLog, LogError> {
        let since = backup.control();
        if archive.control().store != since.store {
            let (found, wanted) = ("the archive of another store", "an archive of the store of the backup");
            return Err(LogError::Foreign { file: archive.control_path(), found, wanted });
        }
        // Its pages may have all changes that its log has.
        let (first, newest) = (backup.end_lsn().previous(), archive.end_lsn().previous());
        refuse_later_beginning(backup, archive)?;
        if !(first..=newest).contains(&target) && !planted!("unreachable_target_restored") {
            return Err(LogError::Unreachable { target, first, last: newest });
        }
        if !has_same_records(backup, archive.reader(), archive.control())? {
            let (found, wanted) =
                ("the archive of another history of the store", "the archive of the backup's history");
            return Err(LogError::Foreign { file: archive.control_path(), found, wanted });
        }
        let of_archive = archive.control().clone();
        let mut control = Control { generation: 1, checkpoint: since.checkpoint, moments_file: 0, ..of_archive };
        // At its end, blocks are copied whole: the restored log continues the archive. Its last ones may have no record that counts.
        let is_whole = target == newest && control.epochs.forget_unreached(&archive.control().partitions, newest);
        let last = if is_whole { target } else { control.epochs.end_at(target) };
        let last_copied = if is_whole { Lsn::MAX } else { last };
        control.promise = last;
        let begins = control.epochs.newest().map(|epoch| epoch.begins.clone()).unwrap_or_default();
        for (index, known) in control.partitions.iter_mut().enumerate() {
            let partition = PartitionId(index as u16);
            // The archive may have forgotten blocks without a record that the backup needs.
            known.scan_from = since.partitions[index].scan_from.max(known.scan_from);
            let stop = archive.ends()[index];
            // No epoch, and no checkpoint, begins behind the end: there may be blocks without records before them.
            let begun = begins.get(index).map_or(known.scan_from, |&begin| begin.max(known.scan_from));
            let end = if is_whole { stop } else { archive.end_before(partition, last)?.max(begun).min(stop) };
            known.durable_below = end;
            known.segments_begun = end.get().div_ceil(archive.reader().geometry.capacity());
            let begin = Position { partition, offset: known.scan_from };
            self.copy_partition(
                archive.reader(),
                begin,
                end,
                Limits { promise: last, last: last_copied, ..Limits::NONE },
            )?;
        }
        Ok(CopiedLog { copy: self, control })
    }

    /// Copies the blocks of a partition from one offset to another one.
    fn copy_partition(
        &mut self,
        reader: &Reader,
        begin: Position,
        end: LogOffset,
        limits: Limits,
    ) -> Result<(), LogError> {
        let geometry = reader.geometry;
        let (first, behind) = (geometry.sequence(begin.offset), end.get().div_ceil(geometry.capacity()));
        for sequence in first..behind {
            let from = begin.offset.max(geometry.begin(sequence));
            let to = end.min(geometry.begin(sequence + 1));
            let (partition, number) = (begin.partition, self.next);
            self.copy_segment(reader, Position { partition, offset: from }, to, limits).map_err(
                |error| match error {
                    Failed::Log(error) => error,
                    Failed::Media(error) => LogError::io(format!("copying the log to {}", file_name(number)), error),
                },
            )?;
        }
        Ok(())
    }

    /// Copies the blocks of one segment to a new file.
    fn copy_segment(&mut self, reader: &Reader, begin: Position, end: LogOffset, limits: Limits) -> Result<(), Failed> {
        let to = &*self.to;
        let mode = if self.next == 0 { OpenMode::ReadWrite } else { OpenMode::Create };
        let file = to.open(&file_name(self.next), mode)?;
        self.next += 1;
        let mut blocks = BlocksToCopy::new(reader, begin.partition, limits);
        let file_len = match reader.slot(begin.partition, begin.offset) {
            Some(slot) => slot.len(),
            // An archive that has nothing of the segment yet has no file for it; the log that continues there needs one.
            None if begin.offset >= end && !planted!("segment_without_blocks_missed") => reader.geometry.segment_len,
            None => blocks.slot(begin.offset)?.len(),
        };
        to.allocate(file, 0, file_len)?;
        let sequence = reader.geometry.sequence(begin.offset);
        let epoch = reader.epochs.newest().map_or(0, |epoch| epoch.number);
        let store = reader.store;
        let header = SegmentHeader { partition: begin.partition, store, sequence, segment_len: file_len, epoch };
        write_all_at(to, file, 0, &header.block(), Durability::Volatile)?;
        let mut at = begin.offset;
        let mut written = SEGMENT_HEADER_LEN;
        while at < end {
            let (bytes, next) = blocks.read(at, end)?;
            let place = reader.geometry.in_file(at);
            write_all_at(to, file, place, bytes, Durability::Volatile)?;
            written = place + bytes.len() as u64;
            at = next;
        }
        // A log writes only to places that were written before.
        to.write_zeros(file, written, file_len.saturating_sub(written))?;
        Ok(to.sync(file)?)
    }
}

/// Refuses a directory with files other than its `own`, before a copy or an archive begins in it.
pub(crate) fn refuse_other_files(media: &dyn Media, own: impl Fn(&str) -> bool) -> Result<(), LogError> {
    for directory in ["", LOG_DIRECTORY] {
        let names = media.list(directory).map_err(|error| LogError::io("listing a directory", error))?;
        if let Some(file) = names.into_iter().find(|file| !directory.is_empty() || !own(file)) {
            let file = if directory.is_empty() { file } else { format!("{directory}/{file}") };
            return Err(LogError::AlreadyThere { file });
        }
    }
    Ok(())
}

/// A copy that has all blocks, and no control file.
#[derive(Debug)]
pub struct CopiedLog {
    copy: LogCopy,
    control: Control,
}

impl CopiedLog {
    /// Returns the content of the control file.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Makes the copy complete and durable, if the other files of the directory are.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn complete(self) -> Result<(), LogError> {
        let CopiedLog { copy: LogCopy { to, control: file, .. }, control } = self;
        let io = |error| LogError::io("completing the copy of a log", error);
        to.sync_directory(LOG_DIRECTORY).map_err(io)?;
        to.sync_directory("").map_err(io)?;
        file.write(&*to, &control)
    }
}

/// The parts of blocks that are not copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// No block promises a later record.
    pub(crate) promise: Lsn,
    /// No block promises that a later offset of its partition is durable.
    pub(crate) own_promise: LogOffset,
    /// No block has a later record.
    pub(crate) last: Lsn,
}

impl Limits {
    pub(crate) const NONE: Limits = Limits { promise: Lsn::MAX, own_promise: LogOffset::new(u64::MAX), last: Lsn::MAX };
}

/// The blocks of a partition, piece by piece.
pub(crate) struct BlocksToCopy<'l> {
    reader: &'l Reader,
    partition: PartitionId,
    limits: Limits,
    /// Whether the rest of each block stays as it was read. Else it becomes zeros: in a file with an earlier life it is anything.
    pub(crate) keep_padding: bool,
    piece: AlignedBuf,
}

impl<'l> BlocksToCopy<'l> {
    pub(crate) fn new(reader: &'l Reader, partition: PartitionId, limits: Limits) -> BlocksToCopy<'l> {
        BlocksToCopy { reader, partition, limits, keep_padding: false, piece: AlignedBuf::zeroed(0) }
    }

    /// Returns the segment file that holds an offset.
    pub(crate) fn slot(&self, at: LogOffset) -> Result<Arc<Slot>, LogError> {
        let reader = self.reader;
        let missing = || reader.damaged(self.position(at), "this segment of the log has no file");
        reader.slot(self.partition, at).ok_or_else(missing)
    }

    fn position(&self, offset: LogOffset) -> Position {
        Position { partition: self.partition, offset }
    }

    /// Returns whole blocks from an offset on, up to `end` at most, within the [`Limits`], and the offset behind them. That is behind the
    /// end of a short file if its last block covers the rest.
    pub(crate) fn read(&mut self, at: LogOffset, end: LogOffset) -> Result<(&[u8], LogOffset), LogError> {
        let (reader, position) = (self.reader, self.position(at));
        self.read_before(at, end)?
            .ok_or_else(|| reader.damaged(position, "a block of the log crosses the end of the copy"))
    }

    /// Reads as [`read`](BlocksToCopy::read) does. `None`: the first block crosses `end`.
    pub(crate) fn read_before(
        &mut self,
        at: LogOffset,
        end: LogOffset,
    ) -> Result<Option<(&[u8], LogOffset)>, LogError> {
        let reader = self.reader;
        // The offset may be that of the archive of another side.
        let in_file = self.slot(at)?.len().checked_sub(reader.geometry.in_file(at));
        let behind = || reader.damaged(self.position(at), "this offset lies behind the end of its segment file");
        let in_file = in_file.ok_or_else(behind)?;
        let mut wanted = PIECE_LEN;
        loop {
            let len = end.since(at).0.min(wanted as u64).min(in_file);
            if self.piece.len() as u64 != len {
                self.piece = AlignedBuf::zeroed(len as usize);
            }
            if !reader.fill(self.position(at), &mut self.piece)? {
                return Err(reader.damaged(self.position(at), "this segment of the log has no file"));
            }
            match self.whole_blocks(at, len == in_file)? {
                Whole::Up(len) => {
                    let next = LogOffset::new(at.get() + len as u64);
                    return Ok(Some((&self.piece[..len.min(self.piece.len())], next)));
                }
                Whole::Needs(len) if len as u64 > end.since(at).0 => return Ok(None),
                Whole::Needs(len) => wanted = len,
            }
        }
    }

    /// Verifies the blocks of the piece, and limits their promises. The last block of a file may cover more than the file has.
    fn whole_blocks(&mut self, begin: LogOffset, has_file_end: bool) -> Result<Whole, LogError> {
        let seed = self.reader.block_seeds[self.partition.index()];
        let mut done = 0;
        while done < self.piece.len() {
            let at = LogOffset::new(begin.get() + done as u64);
            let header = self.reader.whole_head(self.position(at), &self.piece[done..])?;
            let len = header.len as usize;
            if len > self.piece.len() - done && !has_file_end {
                return Ok(if done == 0 { Whole::Needs(len) } else { Whole::Up(done) });
            }
            let (used, last) = self.records_to_copy(&header, &self.piece[done..])?;
            let behind = self.piece.len().min(done + len);
            if !self.keep_padding && !planted!("padding_copied") {
                self.piece[done + header.used as usize..behind].fill(0);
            }
            let limited = BlockHeader {
                used: used as u32,
                last_lsn: last,
                promise: header.promise.min(self.limits.promise),
                own_promise: header.own_promise.min(self.limits.own_promise),
                ..header
            };
            if limited != header && !planted!("later_promise_copied") {
                self.piece[done + used..done + header.used as usize].fill(0);
                limited.encode(&mut self.piece[done..], seed);
            }
            done += len;
        }
        Ok(Whole::Up(done))
    }

    /// Verifies the records of a block, whose bytes these are, and perhaps more. Returns the end and the last LSN of those to copy.
    fn records_to_copy(&self, header: &BlockHeader, bytes: &[u8]) -> Result<(usize, Lsn), LogError> {
        if header.is_empty() || planted!("damaged_record_copied") {
            return Ok((header.used as usize, header.last_lsn));
        }
        let seed = record_seed(self.reader.block_seeds[self.partition.index()], header.epoch, header.life);
        let (mut at, mut last) = (BLOCK_HEADER_LEN, header.first_lsn);
        while at < header.used as usize {
            let offset = LogOffset::new(header.offset.get() + at as u64);
            let frame = bytes.get(at..header.used as usize).map(|bytes| record::decode(bytes, seed, offset));
            let Some(Ok(frame)) = frame else {
                let (_, why) = verdict(Head::Whole, Body::Bad, true);
                return Err(self.reader.damaged(self.position(offset), why));
            };
            if frame.lsn > self.limits.last && !planted!("records_after_target_copied") {
                return Ok((at, last));
            }
            (at, last) = (at + frame.len, frame.lsn);
        }
        Ok((at, last))
    }
}

/// Whether two readers have the same blocks in a range of a partition, but for their promises, and for records after `last`.
pub(crate) fn are_same(
    one: &Reader,
    other: &Reader,
    partition: PartitionId,
    range: Range<LogOffset>,
    last: Lsn,
) -> Result<bool, LogError> {
    let limits = Limits { promise: Lsn::ZERO, own_promise: LogOffset::ZERO, last };
    let mut ones = BlocksToCopy::new(one, partition, limits);
    let mut others = BlocksToCopy::new(other, partition, limits);
    let mut at = range.start;
    while at < range.end {
        let (Some((bytes, next)), Some((others, _))) =
            (ones.read_before(at, range.end)?, others.read_before(at, range.end)?)
        else {
            return Ok(false);
        };
        if bytes != others {
            return Ok(false);
        }
        at = next;
    }
    Ok(true)
}

/// Refuses an archive that lacks records which a backup needs, because it begins later.
pub(crate) fn refuse_later_beginning(backup: &Found, archive: &Found) -> Result<(), LogError> {
    let (needed, begins) = (backup.control().checkpoint.scan_lsn, archive.control().checkpoint.scan_lsn);
    if begins > needed && !planted!("forgotten_log_restored") {
        return Err(LogError::ArchiveBeginsLater { needed, begins });
    }
    Ok(())
}

/// Whether an archive has the records of a backup.
pub(crate) fn has_same_records(backup: &Found, archive: &Reader, control: &Control) -> Result<bool, LogError> {
    let last = backup.end_lsn().previous();
    let both = backup.control().partitions.iter().zip(&control.partitions);
    for (index, (known, archived)) in both.enumerate() {
        let partition = PartitionId(index as u16);
        let begin = Position { partition, offset: archived.scan_from };
        if !backup.begins_at(begin, control.checkpoint.scan_lsn)? && !planted!("forgotten_blocks_not_compared") {
            return Ok(false);
        }
        let range = known.scan_from.max(archived.scan_from)..backup.end_before(partition, last)?;
        if !are_same(backup.reader(), archive, partition, range, last)? {
            return Ok(planted!("other_future_restored"));
        }
    }
    Ok(true)
}

/// The whole blocks at the beginning of a piece.
enum Whole {
    /// The number of their bytes.
    Up(usize),
    /// There is none: the number of bytes of the first block.
    Needs(usize),
}

/// The reason why a segment was not copied.
enum Failed {
    Log(LogError),
    /// An error of the copy's medium.
    Media(io::Error),
}

impl From<LogError> for Failed {
    fn from(error: LogError) -> Failed {
        Failed::Log(error)
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Media(error)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use cedrat_media::SimDisk;
    use cedrat_sync::explore;

    use super::*;
    use crate::{ByteLen, Kind, LogOptions, RecordHead, TxnId};

    /// Appends a record, and makes it durable.
    pub(crate) fn append(log: &Log, partition: u16) -> Lsn {
        let mut room = log.reserve(ByteLen(500), ByteLen(0)).expect("there is space");
        let head = RecordHead::new(Kind::UPDATE, TxnId(1), None);
        let lsn = log.append(PartitionId(partition), head, &[&[1; 100]], &mut room).lsn;
        log.force(lsn).expect("the log runs");
        lsn
    }

    /// E18.6: the copy of a partition ends later than the copies of those before it, and its last block promises their records.
    #[test]
    fn later_promises_are_limited() {
        explore(1, 1, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let log =
                Log::create(&media, &LogOptions { partitions: 2, ..LogOptions::small() }, &[]).expect("a new log");
            let since = log.control();
            append(&log, 0);
            let up_to = append(&log, 1);
            let mut end = CopyEnd::now(&log).expect("the log runs");
            append(&log, 0);
            append(&log, 1);
            end.offsets[1] = log.flushed(PartitionId(1));
            let to: Arc<dyn Media> = Arc::new(SimDisk::new());
            let copy = LogCopy::begin(&to).expect("the directory is empty");
            copy.copy(&log, &since, end).and_then(CopiedLog::complete).expect("the disk works");
            let mut scan = Log::look(&to).and_then(|found| found.scan(Lsn::ZERO)).expect("E18.6");
            let mut last = Lsn::ZERO;
            while let Some(found) = scan.next().expect("E18.6") {
                last = found.record.lsn;
            }
            assert_eq!(last, up_to, "E18.6: the copy of the first partition ends there");
        });
    }
}
