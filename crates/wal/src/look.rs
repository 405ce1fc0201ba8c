//! Finds the end of the log without writing anything (E1, E20).
//!
//! Three steps: assign files to the parts of partitions; walk over the block headers of each partition to its end,
//! and over the blocks after the end, to collect recorded durable LSNs; then read the records of the newest blocks to find the
//! first missing LSN. Records below the promise are read by the scan that follows.

use cedrat_media::{AlignedBuf, FileId, Media, OpenMode};
use cedrat_sync::atomic::AtomicU64;
use cedrat_sync::{Arc, RwLock, planted};
use std::collections::{BTreeMap, VecDeque};
use std::io;

use crate::block::{BLOCK_UNIT, BlockHeader, SEQUENCE_NONE, SegmentHead, SegmentHeader, segment_at};
use crate::checksum::block_seed;
use crate::control::Control;
use crate::error::LogError;
use crate::opening::Opening;
use crate::options::segment_len_is_possible;
use crate::read::{Blocks, CHUNK_LEN, Faults, Reader};
use crate::record;
use crate::segment::{Geometry, InUse, LOG_DIRECTORY, SEGMENT_HEADER_LEN, Slot, file_name, file_number};
use crate::verdict::{Body, Head, Verdict, verdict};
use crate::{LogOffset, Lsn, PartitionId, Position};

/// The segment files that no partition uses.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Files ready for another life.
    pub(crate) free: Vec<Arc<Slot>>,
    /// Segments that the newest epoch freed when it began.
    pub(crate) given_back: Vec<Arc<Slot>>,
    /// Files that were never completed, or with an unusable header.
    pub(crate) unready: Vec<u32>,
}

/// The ends of the log after the checkpoint.
#[derive(Debug)]
pub(crate) struct Ends {
    /// The first missing LSN.
    pub(crate) end: Lsn,
    /// The largest LSN seen in any block, valid or dead.
    pub(crate) seen: Lsn,
    /// Per partition, its end: the first offset without a valid block.
    pub(crate) stops: Vec<LogOffset>,
    /// Per partition, the recorded offset below which it was durable: the blocks from this offset to its end count,
    /// but may be only in a cache.
    pub(crate) promised: Vec<LogOffset>,
    /// Per partition, a sparse index of blocks by their first LSN.
    pub(crate) index: Vec<Vec<(Lsn, LogOffset)>>,
}

/// Opens every segment file and reads its header.
pub(crate) fn files(media: &dyn Media, control: &Control, mode: OpenMode) -> Result<(Vec<InUse>, Files), LogError> {
    let geometry = Geometry { segment_len: control.segment_len };
    let mut in_use: Vec<_> = control.partitions.iter().map(|_| BTreeMap::new()).collect();
    let mut files = Files::default();
    let names = media.list(LOG_DIRECTORY).map_err(|error| LogError::io("listing the log's directory", error))?;
    for number in names.iter().filter_map(|name| file_number(name)) {
        let name = file_name(number);
        let file = media.open(&name, mode).map_err(|error| LogError::io(format!("opening {name}"), error))?;
        let path = media.path(file);
        let io = |error| LogError::io(format!("reading {path}"), error);
        let bytes = beginning(media, file).map_err(io)?;
        let header = match SegmentHeader::decode(&bytes) {
            SegmentHead::Whole(header) => Some(header),
            SegmentHead::Version(found) => {
                return Err(LogError::Version {
                    file: path,
                    offset: segment_at::VERSION as u64,
                    found: u32::from(found),
                    known: u32::from(crate::block::LOG_FORMAT_VERSION),
                });
            }
            SegmentHead::Zero | SegmentHead::Bad => None,
        };
        let Some(header) = header else {
            refuse_if_used(control, &bytes, &path)?;
            files.unready.push(number);
            continue;
        };
        if header.store != control.store {
            let (offset, found, wanted) = (segment_at::STORE as u64, header.store, control.store);
            return Err(LogError::ForeignSegment { file: path, offset, found, wanted });
        }
        if header.segment_len > geometry.segment_len || !segment_len_is_possible(header.segment_len) {
            let what = "this log segment has another length than in the control file";
            return Err(LogError::damaged(path, segment_at::SEGMENT_LEN as u64, what));
        }
        let whole = media.len(file).map_err(io)? >= header.segment_len;
        let kept = control
            .partitions
            .get(header.partition.index())
            .is_some_and(|known| header.sequence >= geometry.sequence(known.scan_from));
        if header.sequence == SEQUENCE_NONE || !kept {
            refuse_if_used(control, &bytes, &path)?;
            let slot = Arc::new(Slot::new(number, name, file, header.segment_len));
            if whole {
                files.free.push(Arc::clone(&slot));
            } else {
                files.unready.push(number);
            }
            if header.sequence == SEQUENCE_NONE && Some(header.epoch) == control.epochs.newest().map(|it| it.number) {
                files.given_back.push(slot);
            }
            continue;
        }
        let slot = Arc::new(Slot::new(number, name, file, header.segment_len));
        if !whole {
            let len = media.len(file).map_err(io)?;
            return Err(LogError::damaged(path, len, "the log segment is truncated here"));
        }
        if in_use[header.partition.index()].insert(header.sequence, slot).is_some() {
            let what = "two log segments claim the same part of the log";
            return Err(LogError::damaged(path, segment_at::SEQUENCE as u64, what));
        }
    }
    Ok((in_use.into_iter().map(RwLock::new).collect(), files))
}

/// Reads the header of a segment and its first block, as far as they exist.
fn beginning(media: &dyn Media, file: FileId) -> io::Result<AlignedBuf> {
    let mut bytes = AlignedBuf::zeroed(2 * BLOCK_UNIT);
    let mut read = 0;
    while read < bytes.len() {
        match media.read_at(file, read as u64, &mut bytes[read..])? {
            0 => break,
            more => read += more,
        }
    }
    Ok(bytes)
}

/// Checks a file with an unusable header. A segment's header is durable before its first block is written (W8). So if
/// the first block belongs to the kept part of the log, the header was damaged since.
fn refuse_if_used(control: &Control, bytes: &[u8], path: &str) -> Result<(), LogError> {
    let geometry = Geometry { segment_len: control.segment_len };
    for (index, known) in control.partitions.iter().enumerate() {
        let seed = block_seed(&control.store, PartitionId(index as u16));
        let Some(block) = BlockHeader::decode(&bytes[BLOCK_UNIT..], seed) else {
            continue;
        };
        let sequence = geometry.sequence(block.offset);
        if block.offset == geometry.begin(sequence) && sequence >= geometry.sequence(known.scan_from) {
            let what = "the header of a log segment that was durable is damaged";
            return Err(LogError::damaged(path, 0, what));
        }
    }
    Ok(())
}

/// Creates a reader of these files.
pub(crate) fn reader(media: &Arc<dyn Media>, control: &Control, in_use: Vec<InUse>, faults: Faults) -> Reader {
    Reader {
        media: Arc::clone(media),
        store: control.store,
        geometry: Geometry { segment_len: control.segment_len },
        epochs: control.epochs.clone(),
        block_seeds: (0..control.partitions.len() as u16)
            .map(|partition| block_seed(&control.store, PartitionId(partition)))
            .collect(),
        recycled_below: in_use.iter().map(|_| AtomicU64::new(0)).collect(),
        in_use,
        faults,
        opening: Opening::default(),
    }
}

/// The result of the walk over one partition.
#[derive(Debug)]
struct Walked {
    blocks: Blocks,
    stop: LogOffset,
    head: Head,
    /// Blocks that may hold LSNs beyond the promise.
    newest: VecDeque<BlockHeader>,
    index: Vec<(Lsn, LogOffset)>,
}

impl Walked {
    fn new(reader: &Arc<Reader>, partition: PartitionId, from: LogOffset, until: LogOffset) -> Walked {
        let blocks = Blocks::new(reader, partition, until);
        Walked { blocks, stop: from, head: Head::Missing, newest: VecDeque::new(), index: Vec::new() }
    }

    /// Goes on over whole blocks to the end of the partition. `recorded` returns the LSN up to which records were durable.
    fn walk_to_end(&mut self, mut recorded: impl FnMut(&BlockHeader) -> Lsn) -> Result<(), LogError> {
        loop {
            let (head, header) = self.blocks.head(self.stop)?;
            let (Head::Whole, Some(header)) = (head, header) else {
                self.head = head;
                break;
            };
            let recorded = recorded(&header);
            self.add(header, recorded);
        }
        self.blocks.chunk_len = CHUNK_LEN;
        Ok(())
    }

    /// Goes on behind a block. Records up to `recorded` were durable.
    fn add(&mut self, header: BlockHeader, recorded: Lsn) {
        const INDEX_STEP: u64 = 64 << 10;
        /// Reading this many bytes takes as long as starting another read.
        const LONG_BLOCK: u32 = 128 << 10;
        // Only headers are needed here: where blocks are long, most of the bytes between them need not be read.
        self.blocks.chunk_len = if header.len >= LONG_BLOCK { BLOCK_UNIT } else { CHUNK_LEN };
        self.stop = header.end();
        if header.is_empty() {
            return;
        }
        let far = |&(_, last): &(Lsn, LogOffset)| header.offset.since(last).0 >= INDEX_STEP;
        if self.index.last().is_none_or(far) {
            self.index.push((header.first_lsn, header.offset));
        }
        while self.newest.front().is_some_and(|oldest| oldest.last_lsn <= recorded) {
            self.newest.pop_front();
        }
        self.newest.push_back(header);
    }
}

/// The recorded durable LSNs, and positions of partitions, found so far.
struct RecordedDurable {
    lsn: Lsn,
    own: Vec<LogOffset>,
    seen: Lsn,
}

impl RecordedDurable {
    fn take(&mut self, partition: PartitionId, header: &BlockHeader) {
        self.lsn = self.lsn.max(header.promise);
        let own = &mut self.own[partition.index()];
        *own = (*own).max(header.own_promise);
        self.seen = self.seen.max(header.last_lsn).max(header.promise);
    }
}

/// Finds the end of the log, or reports damage.
pub(crate) fn ends(reader: &Arc<Reader>, control: &Control) -> Result<Ends, LogError> {
    let first = reader.epochs.newest().map_or(Lsn::new(1), |epoch| epoch.first);
    let mut recorded = RecordedDurable {
        // The end of an epoch was made durable before the next one began.
        lsn: control.promise.max(first.previous()),
        own: control.partitions.iter().map(|known| known.durable_below).collect(),
        seen: first.previous(),
    };
    let mut walks = Vec::new();
    for index in 0..control.partitions.len() {
        walks.push(walk(reader, control, PartitionId(index as u16), BehindLen::ALL, &mut recorded)?);
    }
    ends_of(reader, control, walks, recorded)
}

/// Finds the end of a log that another process may be writing: all records up to it are there, and up to `known` were before.
///
/// Blocks appear while this reads, so what a block of one partition promises may not have been there when another partition was read.
/// A second walk finds everything that the first one has found promised: that was durable before the second one began (E26.2).
pub(crate) fn ends_beside(reader: &Arc<Reader>, control: &Control, known: Lsn) -> Result<Ends, LogError> {
    let first = reader.epochs.newest().map_or(Lsn::new(1), |epoch| epoch.first);
    let mut recorded = RecordedDurable {
        lsn: control.promise.max(first.previous()).max(known),
        own: control.partitions.iter().map(|known| known.durable_below).collect(),
        seen: first.previous(),
    };
    let mut walks = Vec::new();
    for index in 0..control.partitions.len() {
        walks.push(walk(reader, control, PartitionId(index as u16), BehindLen::NEAR, &mut recorded)?);
    }
    for walked in walks.iter_mut().filter(|_| !planted!("live_log_walked_once")) {
        walked.blocks = Blocks::new(reader, walked.blocks.partition, LogOffset::new(u64::MAX));
        walked.walk_to_end(|_| recorded.lsn)?;
    }
    let promised = recorded.lsn;
    let ends = ends_of(reader, control, walks, recorded)?;
    Ok(if planted!("unpromised_log_not_read") { Ends { end: promised.next(), ..ends } } else { ends })
}

/// Returns the ends of partitions that were walked over.
fn ends_of(
    reader: &Arc<Reader>,
    control: &Control,
    mut walks: Vec<Walked>,
    recorded: RecordedDurable,
) -> Result<Ends, LogError> {
    let mut numbers = Vec::new();
    for walked in &mut walks {
        verify_newest(walked, &recorded, &mut numbers)?;
        let index = walked.blocks.partition.index();
        let begun = reader.geometry.sequence(walked.stop) < control.partitions[index].segments_begun;
        let promised = walked.stop < recorded.own[index] || (walked.head == Head::Missing && begun);
        if let (Verdict::Refuse, why) = verdict(walked.head, Body::Bad, promised) {
            let position = Position { partition: walked.blocks.partition, offset: walked.stop };
            return Err(reader.damaged(position, why));
        }
    }
    numbers.sort_unstable();
    let mut end = recorded.lsn.next();
    for lsn in numbers {
        if lsn == end {
            end = end.next();
        }
    }
    Ok(Ends {
        end,
        seen: recorded.seen.max(end.previous()),
        stops: walks.iter().map(|walked| walked.stop).collect(),
        promised: recorded.own,
        index: walks.into_iter().map(|walked| walked.index).collect(),
    })
}

/// Returns the ends of an archive. What lies behind those that its control file names was left by an interrupted extension, or is
/// being written.
pub(crate) fn archived_ends(reader: &Arc<Reader>, control: &Control) -> Result<Ends, LogError> {
    let stops: Vec<_> = control.partitions.iter().map(|known| known.durable_below).collect();
    let recorded = RecordedDurable { lsn: control.promise, own: stops.clone(), seen: control.promise };
    let (mut numbers, mut indexes) = (Vec::new(), Vec::new());
    for (index, known) in control.partitions.iter().enumerate() {
        let mut walked = Walked::new(reader, PartitionId(index as u16), known.scan_from, known.durable_below);
        while walked.stop < known.durable_below {
            let (head, header) = walked.blocks.head(walked.stop)?;
            let (Head::Whole, Some(header)) = (head, header) else {
                let position = Position { partition: walked.blocks.partition, offset: walked.stop };
                return Err(reader.damaged(position, verdict(head, Body::None, true).1));
            };
            walked.add(header, control.promise);
        }
        walked.blocks.chunk_len = CHUNK_LEN;
        verify_newest(&mut walked, &recorded, &mut numbers)?;
        indexes.push(walked.index);
    }
    numbers.sort_unstable();
    let end = numbers.into_iter().fold(control.promise.next(), |end, lsn| if lsn == end { end.next() } else { end });
    Ok(Ends { end, seen: end.previous(), promised: stops.clone(), stops, index: indexes })
}

/// The number of bytes after the end of a partition in which blocks are searched.
#[derive(Clone, Copy, Debug)]
struct BehindLen(u64);

impl BehindLen {
    /// Everything that the partition has.
    const ALL: BehindLen = BehindLen(u64::MAX);
    /// Enough for the block after a damaged one, unless options allow longer blocks.
    const NEAR: BehindLen = BehindLen(2 << 20);
}

/// Walks over the block headers of a partition to its end, and over the blocks after the end.
fn walk(
    reader: &Arc<Reader>,
    control: &Control,
    partition: PartitionId,
    behind_len: BehindLen,
    recorded: &mut RecordedDurable,
) -> Result<Walked, LogError> {
    let from = control.partitions[partition.index()].scan_from;
    let mut walked = Walked::new(reader, partition, from, LogOffset::new(u64::MAX));
    walked.walk_to_end(|header| {
        recorded.take(partition, header);
        recorded.lsn
    })?;
    behind(&mut walked, behind_len, recorded)?;
    Ok(walked)
}

/// Collects the recorded durable LSNs of valid blocks after the end of a partition. After a crash with several writes in flight
/// such blocks are normal; they have no owner, but what they promise was durable.
fn behind(walked: &mut Walked, len: BehindLen, recorded: &mut RecordedDurable) -> Result<(), LogError> {
    let reader = Arc::clone(&walked.blocks.reader);
    let partition = walked.blocks.partition;
    let geometry = reader.geometry;
    let unit = BLOCK_UNIT as u64;
    let segments: Vec<(u64, u64)> = {
        let in_use = reader.in_use[partition.index()].read();
        let behind = in_use.range(geometry.sequence(walked.stop)..);
        behind.map(|(&sequence, slot)| (sequence, slot.len() - SEGMENT_HEADER_LEN)).collect()
    };
    let until = LogOffset::new(walked.stop.get().saturating_add(len.0));
    for (sequence, len) in segments {
        let mut at = geometry.begin(sequence).max(walked.stop);
        let end = LogOffset::new(geometry.begin(sequence).get() + len).min(until);
        while at < end {
            let (head, header) = walked.blocks.head(at)?;
            match (head, header) {
                (Head::Whole, Some(header)) => {
                    recorded.take(partition, &header);
                    if reader.faults.over_holes {
                        walked.stop = header.end();
                    }
                }
                (Head::UnknownEpoch, _) => {
                    let (_, why) = verdict(head, Body::None, false);
                    return Err(reader.damaged(Position { partition, offset: at }, why));
                }
                _ => {}
            }
            at = LogOffset::new(at.get() + unit);
        }
    }
    Ok(())
}

/// Reads the records of the blocks that hold unpromised LSNs. The first block with an invalid record is the
/// partition's end.
fn verify_newest(walked: &mut Walked, recorded: &RecordedDurable, numbers: &mut Vec<Lsn>) -> Result<(), LogError> {
    let reader = Arc::clone(&walked.blocks.reader);
    let partition = walked.blocks.partition;
    let own = recorded.own[partition.index()];
    for header in std::mem::take(&mut walked.newest) {
        if header.last_lsn <= recorded.lsn {
            continue;
        }
        let before = numbers.len();
        if records_are_whole(walked, &header, recorded.lsn, numbers)? {
            continue;
        }
        numbers.truncate(before);
        let promised = header.offset < own || header.first_lsn <= recorded.lsn;
        match verdict(Head::Whole, Body::Bad, promised) {
            (Verdict::Refuse, why) => {
                return Err(reader.damaged(Position { partition, offset: header.offset }, why));
            }
            _ => {
                walked.stop = header.offset;
                walked.head = Head::Whole;
                walked.index.retain(|&(_, offset)| offset < header.offset);
                break;
            }
        }
    }
    Ok(())
}

/// Whether all records of a block verify; collects the LSNs beyond `promised`.
fn records_are_whole(
    walked: &mut Walked,
    header: &BlockHeader,
    promised: Lsn,
    numbers: &mut Vec<Lsn>,
) -> Result<bool, LogError> {
    let life = header.life;
    let seed = walked.blocks.reader.block_seeds[walked.blocks.partition.index()];
    let seed = crate::checksum::record_seed(seed, header.epoch, life);
    let (chunk, range) = walked.blocks.body(header)?;
    let begin = header.offset.get() + crate::block::BLOCK_HEADER_LEN as u64;
    let bytes = &chunk.bytes()[range];
    let mut at = 0;
    let mut last = Lsn::ZERO;
    while at < bytes.len() {
        let offset = LogOffset::new(begin + at as u64);
        let Ok(frame) = record::decode(&bytes[at..], seed, offset) else {
            return Ok(false);
        };
        if frame.lsn <= last || frame.lsn < header.first_lsn || frame.lsn > header.last_lsn {
            return Ok(false);
        }
        last = frame.lsn;
        if last > promised {
            numbers.push(last);
        }
        at += frame.len;
    }
    Ok(last == header.last_lsn)
}
