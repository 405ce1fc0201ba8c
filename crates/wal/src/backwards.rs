//! Reads of records by position: single records, those of a list, and those of one transaction, newest first.

use cedrat_media::AlignedBuf;
use cedrat_sync::Arc;
use std::ops::Range;

use crate::block::BLOCK_UNIT;
use crate::log::Shared;
use crate::partition::{Block, InMemory};
use crate::read::{Chunk, Reader};
use crate::record::{self, Frame, NotARecord, Record, RecordRef};
use crate::retained::Retained;
use crate::{LogError, LogOffset, PartitionId, Position};

/// The initial size of the window onto the disk, in bytes; it doubles with each use.
const WINDOW_LEN_MIN: u64 = 8 << 10;
const WINDOW_LEN_MAX: u64 = 256 << 10;

/// The maximum number of bytes between two records of a list that are read at once: to read these costs less than another read.
const GAP_MAX: u64 = 16 << 10;

/// The records of one transaction in one partition, newest first (Lemon §3.4: rollback).
///
/// They are read through a window, so that a long transaction needs one read for many records.
#[derive(Debug)]
pub struct Backwards {
    records: Records,
    partition: PartitionId,
    next: Option<LogOffset>,
    window_len: u64,
}

/// The records of a list of positions, in its order.
///
/// Records near each other are read at once.
#[derive(Debug)]
pub struct RecordsAt<'p> {
    records: Records,
    positions: &'p [Position],
    retained: Option<&'p Retained>,
}

/// The log, and the window through which its records are read.
#[derive(Debug)]
struct Records {
    reader: Arc<Reader>,
    /// Present for an open log, which keeps its newest records in memory.
    shared: Option<Arc<Shared>>,
    window: Window,
}

#[derive(Debug)]
struct Window {
    partition: PartitionId,
    begin: LogOffset,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Disk(AlignedBuf),
    Sealed(Arc<Block>),
    Open(Vec<u8>),
    Retained(Arc<Chunk>),
}

impl Window {
    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Disk(bytes) => bytes,
            Bytes::Sealed(block) => block.bytes(),
            Bytes::Open(bytes) => bytes,
            Bytes::Retained(chunk) => chunk.bytes(),
        }
    }

    fn find(&self, at: Position) -> Option<&[u8]> {
        let at = at.offset.get().checked_sub(self.begin.get()).filter(|_| at.partition == self.partition)?;
        let at = usize::try_from(at).ok()?;
        self.bytes().get(at..).filter(|rest| !rest.is_empty())
    }
}

impl Backwards {
    pub(crate) fn new(reader: &Arc<Reader>, shared: Option<Arc<Shared>>, from: Position) -> Backwards {
        let records = Records::new(reader, shared);
        Backwards { records, partition: from.partition, next: Some(from.offset), window_len: WINDOW_LEN_MIN }
    }

    /// Returns the record at the current position, and moves to the previous record of the transaction; `None` after
    /// its first one.
    ///
    /// # Errors
    ///
    /// [`LogError::Damaged`] if no valid record begins at that position.
    #[allow(clippy::should_implement_trait)] // it lends
    pub fn next(&mut self) -> Result<Option<RecordRef<'_>>, LogError> {
        let Some(offset) = self.next else {
            return Ok(None);
        };
        let position = Position { partition: self.partition, offset };
        let window_len = &mut self.window_len;
        let record = self.records.read(position, &mut |needed| {
            let begin = needed.end.saturating_sub(*window_len).min(needed.start);
            *window_len = (*window_len * 2).min(WINDOW_LEN_MAX);
            begin..needed.end
        })?;
        self.next = record.head.previous;
        Ok(Some(record))
    }

    /// Continues at this offset instead, as after a compensation record; `None`: no record is left.
    pub fn seek(&mut self, to: Option<LogOffset>) {
        self.next = to;
    }

    /// Returns the offset of the next record.
    pub fn next_offset(&self) -> Option<LogOffset> {
        self.next
    }

    /// Reads only the record at the current position.
    pub(crate) fn read_one(mut self) -> Result<Record, LogError> {
        match self.next()? {
            Some(record) => Ok(record.to_record()),
            None => unreachable!("a new walk has a first record"),
        }
    }
}

impl<'p> RecordsAt<'p> {
    pub(crate) fn new(
        reader: &Arc<Reader>,
        positions: &'p [Position],
        retained: Option<&'p Retained>,
    ) -> RecordsAt<'p> {
        RecordsAt { records: Records::new(reader, None), positions, retained }
    }

    /// Returns the next record; `None` after the last position.
    ///
    /// # Errors
    /// [`LogError::Damaged`]: no record begins at the position. [`LogError::Truncated`]: the log does not have the position.
    /// [`LogError::Io`].
    #[allow(clippy::should_implement_trait)] // it lends
    pub fn next(&mut self) -> Result<Option<RecordRef<'_>>, LogError> {
        let Some((&position, following)) = self.positions.split_first() else {
            return Ok(None);
        };
        self.positions = following;
        if self.records.window.find(position).is_none()
            && let Some(chunk) = self.retained.and_then(|retained| retained.find(position))
        {
            let (partition, begin) = (position.partition, chunk.begin());
            self.records.window = Window { partition, begin, bytes: Bytes::Retained(chunk) };
        }
        let ahead = &mut |needed: Range<u64>| needed.start..needed.end.max(end_of_near(position, following));
        self.records.read(position, ahead).map(Some)
    }
}

/// Returns an offset behind the first bytes of the last record that follows a position without a long gap.
fn end_of_near(position: Position, following: &[Position]) -> u64 {
    let begin = position.offset.get();
    let mut last = begin;
    for next in following {
        let is_near = next.partition == position.partition && (last..=last + GAP_MAX).contains(&next.offset.get());
        if !is_near || next.offset.get() > begin + WINDOW_LEN_MAX {
            break;
        }
        last = next.offset.get();
    }
    last + BLOCK_UNIT as u64
}

impl Records {
    fn new(reader: &Arc<Reader>, shared: Option<Arc<Shared>>) -> Records {
        let window = Window { partition: PartitionId(0), begin: LogOffset::ZERO, bytes: Bytes::Open(Vec::new()) };
        Records { reader: Arc::clone(reader), shared, window }
    }

    /// Reads the record at a position. If it is not in the window, `range` extends the range of the bytes that are needed to that of the
    /// bytes to read.
    fn read(
        &mut self,
        position: Position,
        range: &mut dyn FnMut(Range<u64>) -> Range<u64>,
    ) -> Result<RecordRef<'_>, LogError> {
        let (frame, body) = self.find(position, range)?;
        Ok(RecordRef { lsn: frame.lsn, position, head: frame.head, body: &self.window.bytes()[body] })
    }

    fn find(
        &mut self,
        position: Position,
        range: &mut dyn FnMut(Range<u64>) -> Range<u64>,
    ) -> Result<(Frame, Range<usize>), LogError> {
        if position.partition.index() >= self.reader.in_use.len() {
            return Err(LogError::Truncated { what: format!("{position}: there is no such partition") });
        }
        let seeds = self.reader.record_seeds(position.partition, position.offset);
        if seeds.clone().next().is_none() {
            return Err(LogError::Truncated { what: position.to_string() });
        }
        let mut needed = BLOCK_UNIT;
        let mut loads = 0;
        loop {
            if let Some(bytes) = self.window.find(position) {
                match decode(bytes, seeds.clone(), position.offset) {
                    Ok(frame) => {
                        let at = position.offset.since(self.window.begin).0 as usize;
                        return Ok((frame, at + frame.body_at..at + frame.len));
                    }
                    Err(NotARecord::Longer { needed: more }) if loads < 3 => needed = needed.max(more),
                    // An older window may lack records appended since.
                    Err(_) if loads == 0 => {}
                    Err(_) => return Err(self.not_a_record(position)),
                }
            }
            if loads >= 3 {
                return Err(self.not_a_record(position));
            }
            loads += 1;
            self.load(position, needed, range)?;
        }
    }

    /// Returns the error for a position at which no record begins: its segment may have been recycled while it was read.
    fn not_a_record(&self, position: Position) -> LogError {
        if self.reader.is_recycled(position.partition, position.offset) {
            return LogError::Truncated { what: position.to_string() };
        }
        self.reader.damaged(position, "no record begins here")
    }

    fn load(
        &mut self,
        position: Position,
        needed: usize,
        range: &mut dyn FnMut(Range<u64>) -> Range<u64>,
    ) -> Result<(), LogError> {
        let in_memory = self.shared.as_ref().and_then(|shared| shared.in_memory(position));
        let (begin, bytes) = match in_memory {
            Some(InMemory::Sealed(block)) => (block.offset(), Bytes::Sealed(block)),
            Some(InMemory::Open { begin, bytes }) => (begin, Bytes::Open(bytes)),
            None => self.load_from_disk(position, needed, range)?,
        };
        self.window = Window { partition: position.partition, begin, bytes };
        Ok(())
    }

    fn load_from_disk(
        &mut self,
        position: Position,
        needed: usize,
        range: &mut dyn FnMut(Range<u64>) -> Range<u64>,
    ) -> Result<(LogOffset, Bytes), LogError> {
        if self.reader.slot(position.partition, position.offset).is_none() {
            return Err(LogError::Truncated { what: position.to_string() });
        }
        let unit = BLOCK_UNIT as u64;
        let geometry = self.reader.geometry;
        let segment = geometry.begin(geometry.sequence(position.offset)).get();
        let segment_end = segment + geometry.capacity();
        let at = position.offset.get();
        let Range { start, end } = range(at..at + needed as u64);
        let end = end.next_multiple_of(unit).min(segment_end);
        let begin = start.max(segment);
        let begin = begin - (begin - segment) % unit;
        let mut bytes = AlignedBuf::zeroed((end - begin) as usize);
        let first = Position { partition: position.partition, offset: LogOffset::new(begin) };
        if !self.reader.fill(first, &mut bytes)? {
            return Err(LogError::Truncated { what: position.to_string() });
        }
        Ok((first.offset, Bytes::Disk(bytes)))
    }
}

/// Decodes the frame with the first seed that fits.
fn decode(bytes: &[u8], seeds: impl Iterator<Item = u32>, offset: LogOffset) -> Result<Frame, NotARecord> {
    let mut result = Err(NotARecord::Bad);
    for seed in seeds {
        result = record::decode(bytes, seed, offset);
        // The length does not depend on the seed.
        if result != Err(NotARecord::Bad) {
            break;
        }
    }
    result
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;

    fn at(partition: u16, offset: u64) -> Position {
        Position { partition: PartitionId(partition), offset: LogOffset::new(offset) }
    }

    #[test]
    fn records_without_gaps_are_read_together() {
        let unit = BLOCK_UNIT as u64;
        let end = |following: &[Position]| end_of_near(at(1, 1000), following);
        assert_eq!(end(&[]), 1000 + unit);
        assert_eq!(end(&[at(1, 2000), at(1, 2000 + GAP_MAX)]), 2000 + GAP_MAX + unit);
        assert_eq!(end(&[at(1, 2000), at(1, 2001 + GAP_MAX)]), 2000 + unit);
        assert_eq!(end(&[at(2, 2000)]), 1000 + unit, "another partition");
        assert_eq!(end(&[at(1, 500)]), 1000 + unit, "an earlier offset");
        let many: Vec<Position> = (1..100_000).map(|number| at(1, 1000 + number * 100)).collect();
        let read = end(&many) - 1000;
        assert!(read <= WINDOW_LEN_MAX + unit && read > WINDOW_LEN_MAX - unit, "a window at most");
    }
}
