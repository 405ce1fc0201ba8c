//! Reading single records by position, and one transaction's records newest first.

use cedrat_media::AlignedBuf;
use cedrat_sync::Arc;
use std::ops::Range;

use crate::block::BLOCK_UNIT;
use crate::log::Shared;
use crate::partition::{Block, InMemory};
use crate::read::Reader;
use crate::record::{self, Frame, NotARecord, Record, RecordRef};
use crate::{LogError, LogOffset, PartitionId, Position};

/// The initial size of the window onto the disk, in bytes; it doubles with each use.
const WINDOW_LEN_MIN: u64 = 8 << 10;
const WINDOW_LEN_MAX: u64 = 256 << 10;

/// One transaction's records in one partition, newest first (Lemon §3.4: rollback).
///
/// Reads through a window, so that a long transaction needs one read for many records.
#[derive(Debug)]
pub struct Backwards {
    reader: Arc<Reader>,
    /// Present for an open log, which keeps its newest records in memory.
    shared: Option<Arc<Shared>>,
    partition: PartitionId,
    next: Option<LogOffset>,
    window: Window,
    window_len: u64,
}

#[derive(Debug)]
struct Window {
    begin: LogOffset,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Disk(AlignedBuf),
    Sealed(Arc<Block>),
    Open(Vec<u8>),
}

impl Window {
    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Disk(bytes) => bytes,
            Bytes::Sealed(block) => block.bytes(),
            Bytes::Open(bytes) => bytes,
        }
    }

    fn find(&self, offset: LogOffset) -> Option<&[u8]> {
        let at = usize::try_from(offset.get().checked_sub(self.begin.get())?).ok()?;
        self.bytes().get(at..).filter(|rest| !rest.is_empty())
    }
}

impl Backwards {
    pub(crate) fn new(reader: &Arc<Reader>, shared: Option<Arc<Shared>>, from: Position) -> Backwards {
        Backwards {
            reader: Arc::clone(reader),
            shared,
            partition: from.partition,
            next: Some(from.offset),
            window: Window { begin: LogOffset::ZERO, bytes: Bytes::Open(Vec::new()) },
            window_len: WINDOW_LEN_MIN,
        }
    }

    /// Returns the record at the current position and moves on to the transaction's previous one; `None` after its
    /// first.
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
        let (frame, body) = self.find(position)?;
        self.next = frame.head.previous;
        let body = &self.window.bytes()[body];
        Ok(Some(RecordRef { lsn: frame.lsn, position, head: frame.head, body }))
    }

    /// Continues at this offset instead, as after a compensation record; `None`: no record is left.
    pub fn seek(&mut self, to: Option<LogOffset>) {
        self.next = to;
    }

    /// Returns the offset of the next record.
    pub fn next_offset(&self) -> Option<LogOffset> {
        self.next
    }

    /// Reads just the record at `position`.
    pub(crate) fn read_one(mut self) -> Result<Record, LogError> {
        match self.next()? {
            Some(record) => Ok(record.to_record()),
            None => unreachable!("a new walk has a first record"),
        }
    }

    fn find(&mut self, position: Position) -> Result<(Frame, Range<usize>), LogError> {
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
            if let Some(bytes) = self.window.find(position.offset) {
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
            self.load(position, needed)?;
        }
    }

    /// Returns the error for a position at which no record begins: its segment may have been recycled while it was read.
    fn not_a_record(&self, position: Position) -> LogError {
        if self.reader.is_recycled(position.partition, position.offset) {
            return LogError::Truncated { what: position.to_string() };
        }
        self.reader.damaged(position, "no record begins here")
    }

    fn load(&mut self, position: Position, needed: usize) -> Result<(), LogError> {
        let in_memory = self.shared.as_ref().and_then(|shared| shared.in_memory(position));
        self.window = match in_memory {
            Some(InMemory::Sealed(block)) => Window { begin: block.offset(), bytes: Bytes::Sealed(block) },
            Some(InMemory::Open { begin, bytes }) => Window { begin, bytes: Bytes::Open(bytes) },
            None => self.load_from_disk(position, needed)?,
        };
        Ok(())
    }

    fn load_from_disk(&mut self, position: Position, needed: usize) -> Result<Window, LogError> {
        if self.reader.slot(position.partition, position.offset).is_none() {
            return Err(LogError::Truncated { what: position.to_string() });
        }
        let unit = BLOCK_UNIT as u64;
        let geometry = self.reader.geometry;
        let segment = geometry.begin(geometry.sequence(position.offset)).get();
        let segment_end = segment + geometry.capacity();
        let end = (position.offset.get() + needed as u64).next_multiple_of(unit).min(segment_end);
        let begin = end.saturating_sub(self.window_len.max(needed as u64 + unit)).max(segment);
        let begin = begin - (begin - segment) % unit;
        self.window_len = (self.window_len * 2).min(WINDOW_LEN_MAX);
        let mut bytes = AlignedBuf::zeroed((end - begin) as usize);
        let at = Position { partition: position.partition, offset: LogOffset::new(begin) };
        if !self.reader.fill(at, &mut bytes)? {
            return Err(LogError::Truncated { what: position.to_string() });
        }
        Ok(Window { begin: LogOffset::new(begin), bytes: Bytes::Disk(bytes) })
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
