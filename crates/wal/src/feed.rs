//! The part of a log that an archive lacks: passed to it in the same process, or over a connection (Lemon §3.4, §9).
//!
//! 1. A [`LogState`] says how far a log is durable, and which epochs and names it has. It is taken before blocks are copied.
//! 2. [`Log::copy_since`] passes whole, verified blocks from the position of an archive on, partition by partition. It may end
//!    early; then it names an LSN up to which the archive will have all records.
//! 3. No block that is passed promises more than the archive had before it (E18.9a).
//! 4. An archive at the other end of a connection verifies the blocks again, and compares its newest ones with those of the log by
//!    checksums (E18.9b).

use cedrat_sync::planted;
use std::ops::Range;

use crate::archive::{LogArchive, may_follow};
use crate::block::{BLOCK_HEADER_LEN, BLOCK_UNIT, BlockHeader};
use crate::checksum::{StoreId, block_seed, record_seed};
use crate::control::{Control, SLOT_LEN, SlotFault};
use crate::copy::{BlocksToCopy, Limits};
use crate::epoch::Epoch;
use crate::forget::newest_segment;
use crate::log::Log;
use crate::moments::{Moment, now_millis};
use crate::open::Found;
use crate::options::segment_len_is_possible;
use crate::read::Reader;
use crate::segment::Geometry;
use crate::{LogError, LogOffset, Lsn, PartitionId, Position, record};

/// The name of received bytes in errors.
const RECEIVED: &str = "the received log";

/// The state of a log, or of an archive, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogState {
    /// Its promise is the LSN up to which every record is durable, and its partitions name the offsets up to which they are.
    pub(crate) control: Control,
    /// Milliseconds since 1970, UTC: every synchronous commit that had returned then is durable.
    pub(crate) millis: u64,
}

/// The log that an archive is of, as it is at one moment: that of an open store, or one that was [found](Found) and that no program
/// has open.
#[derive(Debug)]
pub struct LogToArchive<'l> {
    pub(crate) state: LogState,
    pub(crate) reader: &'l Reader,
}

impl<'l> From<&'l Log> for LogToArchive<'l> {
    fn from(log: &'l Log) -> LogToArchive<'l> {
        LogToArchive { state: log.state(), reader: &log.shared().reader }
    }
}

impl<'l> From<&'l Found> for LogToArchive<'l> {
    fn from(found: &'l Found) -> LogToArchive<'l> {
        let mut control = found.control().clone();
        control.promise = found.end_lsn().previous();
        for (known, &end) in control.partitions.iter_mut().zip(found.ends()) {
            if !planted!("remaining_records_left") {
                known.durable_below = end.max(known.scan_from);
            }
        }
        LogToArchive { state: LogState { control, millis: now_millis() }, reader: found.reader() }
    }
}

/// The end of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// It has all records up to this LSN.
    pub up_to: Lsn,
    /// For each partition, the offset up to which it has all blocks.
    pub offsets: Vec<LogOffset>,
}

/// A run of whole blocks of one segment of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogPiece<'a> {
    /// The partition.
    pub partition: PartitionId,
    /// The length of the segment's file.
    pub segment_len: u64,
    /// The offset of the first block.
    pub offset: LogOffset,
    /// The offset of the block after the last one. It lies behind the bytes if the last block covers the rest of a short file.
    pub next: LogOffset,
    /// The blocks.
    pub bytes: &'a [u8],
}

/// The checksum of the newest blocks of an archive in one partition, as the log has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlocksChecksum {
    /// The offset of the first of these blocks. Older ones need not be in the log.
    pub begin: LogOffset,
    /// CRC-32C of the blocks up to the end of the archive, without promises.
    pub crc: u32,
}

impl LogState {
    /// Returns the identity of the store.
    pub fn store(&self) -> StoreId {
        self.control.store
    }

    /// Returns the LSN up to which every record is durable.
    pub fn up_to(&self) -> Lsn {
        self.control.promise
    }

    /// Returns the LSN from which on recovery reads the log; of an archive, its first LSN.
    pub fn first(&self) -> Lsn {
        self.control.checkpoint.scan_lsn
    }

    /// Returns the end of the log.
    pub fn position(&self) -> LogPosition {
        let offsets = self.control.partitions.iter().map(|known| known.durable_below).collect();
        LogPosition { up_to: self.up_to(), offsets }
    }

    /// Returns the moment of this state, with a description of the rest of the store.
    pub fn moment(&self, description: Vec<u8>) -> Moment {
        Moment { millis: self.millis, up_to: self.up_to(), description }
    }

    /// Returns the partition and offset at which a log of this state has a gap before it continues an archive, if it has one.
    pub fn gap_after(&self, archive: &LogPosition) -> Option<(PartitionId, LogOffset)> {
        let both = archive.offsets.iter().zip(&self.control.partitions).enumerate();
        let gap = both.into_iter().find(|(_, (end, known))| **end < known.scan_from);
        gap.map(|(index, (&end, _))| (PartitionId(index as u16), end))
    }

    /// Returns the state as bytes: its time, and a slot of a control file as far as it is used.
    ///
    /// # Errors
    /// [`LogError::Limit`].
    pub fn encode(&self) -> Result<Vec<u8>, LogError> {
        let mut bytes = vec![0; 8 + SLOT_LEN];
        bytes[..8].copy_from_slice(&self.millis.to_le_bytes());
        self.control.encode(&mut bytes[8..])?;
        bytes.truncate(8 + self.control.used());
        Ok(bytes)
    }

    /// Reads a state from bytes.
    ///
    /// # Errors
    /// [`LogError::Version`]; [`LogError::Damaged`].
    pub fn decode(bytes: &[u8]) -> Result<LogState, LogError> {
        let damaged = |at: usize, what: &str| LogError::damaged("the state of a log", at as u64, what);
        let (millis, slot) = bytes.split_first_chunk::<8>().ok_or_else(|| damaged(0, "it is too short"))?;
        let control = Control::decode(slot).map_err(|fault| match fault {
            SlotFault::Zero => damaged(8, "it is empty"),
            SlotFault::Bad(at, what) => damaged(8 + at, what),
            SlotFault::Version(found) => {
                let known = crate::control::CONTROL_FORMAT_VERSION;
                LogError::Version { file: "the state of a log".into(), offset: 8, found, known }
            }
        })?;
        Ok(LogState { control, millis: u64::from_le_bytes(*millis) })
    }
}

impl LogToArchive<'_> {
    /// Passes the blocks that an archive lacks to `visit`, as [`Log::copy_since`] does.
    pub(crate) fn copy_since<E: From<LogError>>(
        &self,
        archive: &LogPosition,
        bytes_max: u64,
        visit: &mut dyn FnMut(LogPiece<'_>) -> Result<(), E>,
    ) -> Result<LogState, E> {
        let LogToArchive { state, reader } = self;
        let mut reached = state.clone();
        let each_max = bytes_max.div_ceil(archive.offsets.len().max(1) as u64);
        for (index, &begin) in archive.offsets.iter().enumerate() {
            let partition = PartitionId(index as u16);
            let end = state.control.partitions[index].durable_below.max(begin);
            // A crash may leave these blocks, and not those of other partitions that are archived with them.
            let promise = if planted!("archive_promises_too_much") { Lsn::MAX } else { archive.up_to };
            let limits = Limits { promise, own_promise: begin, ..Limits::NONE };
            let at = copy_range(reader, partition, begin..end, limits, each_max, visit)?;
            if let Some(next) = first_lsn_in(reader, partition, at..end)? {
                reached.control.promise = reached.control.promise.min(next.previous());
            }
            let known = &mut reached.control.partitions[index];
            (known.durable_below, known.segments_begun) = (at, at.get().div_ceil(reader.geometry.capacity()));
        }
        Ok(reached)
    }
}

impl Log {
    /// Returns the state of the log.
    pub fn state(&self) -> LogState {
        let millis = now_millis();
        // The LSN before the offsets: each partition has all of its records up to there.
        let up_to = self.durable_lsn();
        let ends: Vec<_> = (0..self.partitions()).map(|partition| self.flushed(PartitionId(partition))).collect();
        let mut control = self.control();
        control.promise = up_to;
        for (known, end) in control.partitions.iter_mut().zip(ends) {
            known.durable_below = end.max(known.scan_from);
        }
        LogState { control, millis }
    }

    /// Passes the blocks that an archive lacks to `visit`, up to `state`, or about `bytes_max` bytes of them. Returns the state that
    /// the archive will have: `state` itself if it has all.
    ///
    /// # Errors
    /// Those of `visit`. [`LogError::Truncated`]: the log was not kept. [`LogError::Damaged`] names a block; [`LogError::Io`].
    pub fn copy_since<E: From<LogError>>(
        &self,
        archive: &LogPosition,
        state: &LogState,
        bytes_max: u64,
        visit: &mut dyn FnMut(LogPiece<'_>) -> Result<(), E>,
    ) -> Result<LogState, E> {
        LogToArchive { state: state.clone(), reader: &self.shared().reader }.copy_since(archive, bytes_max, visit)
    }

    /// Whether it may have written the blocks of an archive of this state, by its store, its epochs and their offsets.
    pub fn may_continue(&self, archive: &LogState) -> bool {
        let now = self.control();
        archive.store() == now.store && may_continue(&archive.control, &self.state().control)
    }

    /// Returns the checksums of the newest blocks that an archive of this state should have.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Io`].
    pub fn checksums_of(&self, archive: &LogState) -> Result<Vec<BlocksChecksum>, LogError> {
        let (reader, now) = (&self.shared().reader, self.state());
        let ranges = compared_ranges(&archive.control, &now.control, reader.geometry);
        // The newest archived record, too: behind it a segment may have only blocks without records.
        let of_newest = self.offsets_from(archive.up_to());
        let checksums = ranges.into_iter().enumerate().map(|(index, range)| {
            let first = of_newest[index].max(archive.control.partitions[index].scan_from);
            let begin = range.start.min(first);
            let range = begin..range.end;
            let crc = checksum(reader, PartitionId(index as u16), range)?.unwrap_or(0);
            Ok(BlocksChecksum { begin, crc })
        });
        checksums.collect()
    }
}

impl LogArchive {
    /// Returns its end.
    pub fn position(&self) -> LogPosition {
        LogPosition { up_to: self.up_to(), offsets: self.kept_from() }
    }

    /// Returns its state, by which the log at the other end of a connection recognises it.
    pub fn state(&self) -> LogState {
        LogState { control: self.control.clone(), millis: 0 }
    }

    /// Continues with the log at the other end of a connection, which is in this state, and has these checksums of the newest archived
    /// blocks.
    ///
    /// # Errors
    /// [`LogError::Foreign`]: the log is of another store, or of another history of it. [`LogError::ArchiveGap`]: it has recycled
    /// records that the archive lacks. [`LogError::Damaged`], [`LogError::Io`], of the archive.
    pub fn continue_received(&mut self, log: &LogState, checksums: &[BlocksChecksum]) -> Result<(), LogError> {
        let reader = self.archived().reader;
        self.continue_with(log, &reader, |archived| {
            let ends = archived.partitions.iter().map(|known| known.durable_below);
            let both = ends.zip(checksums).enumerate();
            let mut is_same = archived.partitions.len() == checksums.len();
            for (index, (end, wanted)) in both {
                let range = wanted.begin.min(end)..end;
                let begins = archived.partitions[index].scan_from <= range.start;
                is_same &= begins && checksum(&reader, PartitionId(index as u16), range)?.unwrap_or(0) == wanted.crc;
            }
            let is_same = is_same || planted!("received_blocks_not_compared");
            match unrecognised(&reader, archived, &log.control, checksums)? {
                Some(partition) if is_same && !planted!("unrecognised_log_followed") => {
                    let offset = archived.partitions[partition].durable_below;
                    Err(LogError::ArchiveGap { partition: partition as u16, offset })
                }
                _ => Ok(is_same),
            }
        })
    }

    /// Appends blocks that were received over a connection, once they are verified. They count when the extension is
    /// [complete](LogArchive::complete).
    ///
    /// # Errors
    /// [`LogError::Damaged`]: they do not continue the archive, or are invalid. [`LogError::Io`]. The next extension begins again.
    pub fn append_received(&mut self, piece: &LogPiece<'_>) -> Result<(), LogError> {
        if let Err((at, what)) = self.verify(piece) {
            let file = format!("{RECEIVED} (partition {})", piece.partition);
            return Err(LogError::damaged(file, piece.offset.get().saturating_add(at as u64), what));
        }
        self.append(piece)
    }

    /// Verifies received blocks. An error has the offset in the piece.
    fn verify(&self, piece: &LogPiece<'_>) -> Result<(), (usize, &'static str)> {
        let geometry = Geometry { segment_len: self.control.segment_len };
        let Some(&expected) = self.pending.get(piece.partition.index()) else {
            return Err((0, "the log has no such partition"));
        };
        if piece.offset != expected && !planted!("received_gap_archived") {
            return Err((
                0,
                "these blocks do not continue the archive: there is a gap before them, or they come twice",
            ));
        }
        let sequence = geometry.sequence(piece.offset);
        let is_possible = segment_len_is_possible(piece.segment_len) && piece.segment_len <= geometry.segment_len;
        let known = self.segments.get(&(piece.partition, sequence));
        let known = known.filter(|_| self.has_blocks(piece.partition, sequence));
        if !is_possible || known.is_some_and(|slot| slot.len() != piece.segment_len) {
            return Err((0, "the length of the segment is invalid"));
        }
        let len = piece.bytes.len();
        let is_within = len > 0
            && len.is_multiple_of(BLOCK_UNIT)
            && piece.next <= geometry.begin(sequence + 1)
            && geometry.in_file(piece.offset) + len as u64 <= piece.segment_len;
        if !is_within {
            return Err((0, "these blocks do not lie within their segment"));
        }
        let end = self.verify_blocks(piece, sequence)?;
        if piece.offset.get() + end as u64 != piece.next.get() {
            return Err((len, "the last block ends elsewhere"));
        }
        Ok(())
    }

    /// Verifies the headers and records of received blocks, and returns the end of the last one.
    fn verify_blocks(&self, piece: &LogPiece<'_>, sequence: u64) -> Result<usize, (usize, &'static str)> {
        let seed = block_seed(&self.control.store, piece.partition);
        let mut at = 0;
        while at < piece.bytes.len() {
            let here = LogOffset::new(piece.offset.get() + at as u64);
            let header = BlockHeader::decode(&piece.bytes[at..], seed).ok_or((at, "there is no whole block"))?;
            if header.offset != here || header.life != sequence as u32 {
                return Err((at, "the block belongs elsewhere"));
            }
            if header.promise > self.control.promise {
                return Err((at, "the block promises records that the archive lacks"));
            }
            let used = piece.bytes[at..].get(..header.used as usize).ok_or((at, "the block is cut off"))?;
            let seed = record_seed(seed, header.epoch, header.life);
            let mut next = BLOCK_HEADER_LEN;
            while !header.is_empty() && next < used.len() {
                let offset = LogOffset::new(here.get() + next as u64);
                let frame = record::decode(&used[next..], seed, offset);
                next += frame.map_err(|_| (at + next, "a record is not whole"))?.len;
            }
            at += header.len as usize;
        }
        Ok(at)
    }
}

/// Passes the blocks of a range to `visit`, about `bytes_max` bytes at most, and returns the offset behind the last one.
fn copy_range<E: From<LogError>>(
    reader: &Reader,
    partition: PartitionId,
    range: Range<LogOffset>,
    limits: Limits,
    bytes_max: u64,
    visit: &mut dyn FnMut(LogPiece<'_>) -> Result<(), E>,
) -> Result<LogOffset, E> {
    let mut blocks = BlocksToCopy::new(reader, partition, limits);
    let (mut at, mut passed) = (range.start, 0);
    while at < range.end && passed < bytes_max {
        let recycled = |error| match reader.is_recycled(partition, at) {
            true => LogError::Truncated { what: Position { partition, offset: at }.to_string() },
            false => error,
        };
        let segment_len = blocks.slot(at).map_err(recycled)?.len();
        let end = range.end.min(reader.geometry.begin(reader.geometry.sequence(at) + 1));
        let (bytes, next) = blocks.read(at, end).map_err(recycled)?;
        visit(LogPiece { partition, segment_len, offset: at, next, bytes })?;
        passed += bytes.len() as u64;
        at = next;
    }
    Ok(at)
}

/// Returns the first LSN in a range of a partition that begins and ends with blocks, if there is one.
fn first_lsn_in(reader: &Reader, partition: PartitionId, range: Range<LogOffset>) -> Result<Option<Lsn>, LogError> {
    let mut at = range.start;
    while at < range.end {
        let header = reader.header(Position { partition, offset: at })?;
        if !header.is_empty() {
            return Ok(Some(header.first_lsn));
        }
        at = header.end();
    }
    Ok(None)
}

/// Returns, for each partition, the range of the newest archived blocks that the log has, too.
pub(crate) fn compared_ranges(archived: &Control, log: &Control, geometry: Geometry) -> Vec<Range<LogOffset>> {
    let both = archived.partitions.iter().zip(&log.partitions);
    both.map(|(known, now)| {
        let end = known.durable_below;
        let begin = now.scan_from.max(known.scan_from).max(newest_segment(geometry, end));
        // Of an archive with more than the log has, nothing is compared: it is of another history.
        if end > now.durable_below { end..end } else { begin.min(end)..end }
    })
    .collect()
}

/// Returns a partition with archived blocks if nothing shows that the newest archived record is of the log, which has these checksums: it
/// may have recycled the place at which another history has other records.
fn unrecognised(
    reader: &Reader,
    archived: &Control,
    log: &Control,
    checksums: &[BlocksChecksum],
) -> Result<Option<usize>, LogError> {
    if archived.promise < archived.checkpoint.scan_lsn {
        // It has no record.
        return Ok(None);
    }
    // It may end with the dead numbers between two openings.
    let newest_record = archived.epochs.last_alive(archived.promise);
    for (index, (known, compared)) in archived.partitions.iter().zip(checksums).enumerate() {
        let partition = PartitionId(index as u16);
        let mut offset = compared.begin.max(known.scan_from);
        while offset < known.durable_below {
            let header = reader.header(Position { partition, offset })?;
            if !header.is_empty() && (header.first_lsn..=header.last_lsn).contains(&newest_record) {
                return Ok(None);
            }
            offset = header.end();
        }
    }
    // It ends where the next opening begins, or one of which it knows that place, and has nothing.
    let ends = || archived.partitions.iter().map(|known| known.durable_below);
    let newest = archived.epochs.iter().rfind(|epoch| !epoch.begins.iter().copied().eq(ends()));
    let is_known = |epoch: &Epoch| {
        let is_same = |known: &Epoch| (known.number, known.first) == (epoch.number, epoch.first);
        archived.epochs.iter().any(|known| is_same(known) && known.begins == epoch.begins)
    };
    let is_next = |epoch: &Epoch| {
        epoch.begins.iter().copied().eq(ends())
            && (newest.is_some_and(|newest| epoch.oldest == newest.number + 1) || is_known(epoch))
    };
    let first = archived.partitions.iter().position(|known| known.scan_from < known.durable_below);
    Ok(if log.epochs.iter().any(is_next) { None } else { first })
}

/// Returns the checksum of the blocks of a range, without promises. `None`: no block ends where the range does.
fn checksum(reader: &Reader, partition: PartitionId, range: Range<LogOffset>) -> Result<Option<u32>, LogError> {
    let limits = Limits { promise: Lsn::ZERO, own_promise: LogOffset::ZERO, ..Limits::NONE };
    let mut blocks = BlocksToCopy::new(reader, partition, limits);
    let (mut at, mut crc) = (range.start, 0);
    while at < range.end {
        let Some((bytes, next)) = blocks.read_before(at, range.end)? else { return Ok(None) };
        crc = crc32c::crc32c_append(crc, bytes);
        at = next;
    }
    Ok(Some(crc))
}

/// Whether a log of this state may have written the blocks of an archive, by their epochs and offsets.
pub(crate) fn may_continue(archived: &Control, log: &Control) -> bool {
    archived.partitions.len() == log.partitions.len() && may_follow(archived, log)
}
