//! Reads blocks from segment files.
//!
//! Reading files of any content neither panics nor takes more memory than a chunk per partition.

use cedrat_media::{AlignedBuf, Media};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, planted};
use std::ops::Range;

use crate::ahead::Ahead;
use crate::block::{BLOCK_HEADER_LEN, BLOCK_UNIT, BlockHeader};
use crate::checksum::{StoreId, record_seed};
use crate::epoch::Epochs;
use crate::opening::Opening;
use crate::segment::{Geometry, InUse, Slot};
use crate::verdict::{Body, Head, verdict};
use crate::{LogError, LogOffset, PartitionId, Position};

/// The number of bytes read at a time in sequential reading.
pub(crate) const CHUNK_LEN: usize = 1 << 20;

/// The number of remaining bytes from which a read-ahead thread is started.
const AHEAD_MIN: u64 = 4 << 20;

/// A piece of the log as it was read, shared by the records in it.
#[derive(Debug)]
pub struct Chunk {
    begin: LogOffset,
    bytes: AlignedBuf,
}

impl Chunk {
    /// Returns the bytes of a record's body, by the range that came with it.
    ///
    /// # Panics
    ///
    /// If the range came from another chunk and does not fit into this one.
    pub fn body(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the offset of the first byte in its partition.
    pub(crate) fn begin(&self) -> LogOffset {
        self.begin
    }
}

/// The state needed to read a log: its segments and the owners of offsets.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) media: Arc<dyn Media>,
    pub(crate) store: StoreId,
    pub(crate) geometry: Geometry,
    pub(crate) epochs: Epochs,
    /// Per partition, the seed of its block headers.
    pub(crate) block_seeds: Vec<u32>,
    /// Per partition, the segments in use.
    pub(crate) in_use: Vec<InUse>,
    /// Per partition, the sequence number below which its segments were recycled.
    pub(crate) recycled_below: Vec<AtomicU64>,
    pub(crate) faults: Faults,
    pub(crate) opening: Opening,
}

/// Planted faults of readers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// Blocks of any epoch are accepted (against E1.3).
    pub(crate) any_epoch: bool,
    /// Records after a partition's first gap count (against E8.4).
    pub(crate) over_holes: bool,
}

impl Reader {
    /// Returns the segment file that holds the offset, if there is one.
    pub(crate) fn slot(&self, partition: PartitionId, offset: LogOffset) -> Option<Arc<Slot>> {
        let sequence = self.geometry.sequence(offset);
        self.in_use[partition.index()].read().get(&sequence).cloned()
    }

    /// Returns the number of bytes of segment files from one offset of a partition to another one.
    pub(crate) fn bytes_between(&self, partition: PartitionId, from: LogOffset, to: LogOffset) -> u64 {
        let in_use = self.in_use[partition.index()].read();
        self.geometry
            .bytes_between(from, to, |range| in_use.range(range).map(|(_, slot)| self.geometry.room(slot.len())).sum())
    }

    /// Returns the seeds of the records of the epoch that owns the offset; one for each opening if several were
    /// joined.
    pub(crate) fn record_seeds(
        &self,
        partition: PartitionId,
        offset: LogOffset,
    ) -> impl Iterator<Item = u32> + Clone + use<> {
        let life = self.geometry.sequence(offset) as u32;
        let block_seed = self.block_seeds[partition.index()];
        let numbers = self.epochs.owner(partition, offset).map(|(epoch, _)| epoch.oldest..=epoch.number);
        numbers.into_iter().flatten().rev().map(move |epoch| record_seed(block_seed, epoch, life))
    }

    /// Whether the segment that holds the offset was recycled since the log was opened.
    pub(crate) fn is_recycled(&self, partition: PartitionId, offset: LogOffset) -> bool {
        let first_kept = self.recycled_below[partition.index()].load(Ordering::Acquire);
        self.geometry.sequence(offset) < first_kept && !planted!("recycled_segment_is_lost")
    }

    /// Returns the file and offset of a position, for people.
    pub(crate) fn place(&self, position: Position) -> (String, u64) {
        match self.slot(position.partition, position.offset) {
            Some(slot) => (self.media.path(slot.file), self.geometry.in_file(position.offset)),
            None => {
                let sequence = self.geometry.sequence(position.offset);
                let name = format!("log (partition {}, segment {sequence}: no file)", position.partition);
                (name, self.geometry.in_file(position.offset))
            }
        }
    }

    pub(crate) fn damaged(&self, position: Position, what: &str) -> LogError {
        let (file, offset) = self.place(position);
        LogError::damaged(file, offset, what)
    }

    /// Fills `buffer` from the position on; the bytes must be within one segment. Bytes that the file does not have
    /// read as zero. `false`: there is no such segment.
    pub(crate) fn fill(&self, position: Position, buffer: &mut [u8]) -> Result<bool, LogError> {
        let Some(slot) = self.slot(position.partition, position.offset) else {
            return Ok(false);
        };
        debug_assert!(buffer.len() as u64 <= self.geometry.left(position.offset));
        let begin = self.geometry.in_file(position.offset);
        let mut done = 0;
        while done < buffer.len() {
            match self.media.read_at(slot.file, begin + done as u64, &mut buffer[done..]) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(_) if self.is_recycled(position.partition, position.offset) => {
                    return Err(LogError::Truncated { what: position.to_string() }); // the file may be gone
                }
                Err(error) => {
                    return Err(LogError::io(format!("reading {}", self.media.path(slot.file)), error));
                }
            }
        }
        buffer[done..].fill(0);
        self.opening.check_read()?; // E1.8
        Ok(true)
    }

    /// Reads the header of a block that was durable.
    pub(crate) fn header(&self, position: Position) -> Result<BlockHeader, LogError> {
        let mut bytes = AlignedBuf::zeroed(BLOCK_UNIT);
        if !self.fill(position, &mut bytes)? {
            return Err(self.damaged(position, "this segment of the log has no file"));
        }
        self.whole_head(position, &bytes)
    }

    /// Returns the header of a block that was durable, from its bytes.
    pub(crate) fn whole_head(&self, position: Position, bytes: &[u8]) -> Result<BlockHeader, LogError> {
        match self.judge_head(position, bytes) {
            (Head::Whole, Some(header)) => Ok(header),
            (head, _) => Err(self.damaged(position, verdict(head, Body::None, true).1)),
        }
    }

    /// Classifies the bytes at an offset where a block could begin.
    pub(crate) fn judge_head(&self, position: Position, bytes: &[u8]) -> (Head, Option<BlockHeader>) {
        let Some(header) = BlockHeader::decode(bytes, self.block_seeds[position.partition.index()]) else {
            let untouched = bytes[..BLOCK_HEADER_LEN].iter().all(|&byte| byte == 0);
            return (if untouched { Head::Zero } else { Head::Bad }, None);
        };
        let here = header.offset == position.offset
            && header.life == self.geometry.sequence(position.offset) as u32
            && u64::from(header.len) <= self.geometry.left(position.offset);
        let newest = self.epochs.newest().map_or(0, |epoch| epoch.number);
        let owner = self.epochs.owner(position.partition, position.offset);
        let head = match owner {
            _ if !here => Head::Stale,
            _ if header.epoch > newest => Head::UnknownEpoch, // E1.6
            _ if self.faults.any_epoch => Head::Whole,
            Some((epoch, until)) if epoch.is_of(header.epoch) && header.end() <= until => Head::Whole, // E1.3
            _ => Head::Stale,
        };
        (head, Some(header))
    }
}

/// A walk over the blocks of one partition.
#[derive(Debug)]
pub(crate) struct Blocks {
    pub(crate) reader: Arc<Reader>,
    pub(crate) partition: PartitionId,
    /// The offset at which reading ends.
    pub(crate) stop: LogOffset,
    /// The number of bytes read at a time, unless a block needs more.
    pub(crate) chunk_len: usize,
    chunk: Option<Arc<Chunk>>,
    /// Bytes read so far.
    pub(crate) read: u64,
    ahead: Option<Ahead>,
}

impl Blocks {
    pub(crate) fn new(reader: &Arc<Reader>, partition: PartitionId, stop: LogOffset) -> Blocks {
        Blocks { reader: Arc::clone(reader), partition, stop, chunk_len: CHUNK_LEN, chunk: None, read: 0, ahead: None }
    }

    fn position(&self, offset: LogOffset) -> Position {
        Position { partition: self.partition, offset }
    }

    /// Makes `len` bytes from `offset` on available, within one segment. `None`: there is no such segment.
    fn load(&mut self, offset: LogOffset, len: usize) -> Result<Option<usize>, LogError> {
        if let Some(chunk) = &self.chunk
            && offset >= chunk.begin
            && offset.since(chunk.begin).0 + len as u64 <= chunk.bytes.len() as u64
        {
            return Ok(Some(offset.since(chunk.begin).0 as usize));
        }
        // A chunk without other holders is reused as the buffer.
        let mut spare = match self.chunk.take().map(Arc::try_unwrap) {
            Some(Ok(chunk)) => chunk.bytes,
            _ => AlignedBuf::new(),
        };
        let ahead = self.ahead.as_mut().and_then(Ahead::take);
        let (bytes, there) = match ahead {
            Some(piece) if piece.begin == offset && piece.bytes.len() >= len => (piece.bytes, piece.there?),
            _ => {
                let mut bytes = self.fitting(std::mem::take(&mut spare), offset, len);
                let there = self.reader.fill(self.position(offset), &mut bytes)?;
                (bytes, there)
            }
        };
        self.read += bytes.len() as u64;
        self.chunk = there.then(|| Arc::new(Chunk { begin: offset, bytes }));
        self.read_ahead(spare);
        Ok(there.then_some(0))
    }

    /// Resizes a buffer for reading from `offset` on: at least `len` bytes, and no more than the segment has.
    fn fitting(&self, mut bytes: AlignedBuf, offset: LogOffset, len: usize) -> AlignedBuf {
        // No more than the file has: the rest of a segment whose file is short has no bytes.
        let slot = self.reader.slot(self.partition, offset);
        let in_file = self.reader.geometry.in_file(offset);
        let there_is = slot.map_or(0, |slot| slot.len().saturating_sub(in_file));
        let wanted = self.stop.since(offset).0.min(self.chunk_len as u64).min(there_is);
        let wanted = (wanted as usize).max(len);
        let room = self.reader.geometry.left(offset).min(wanted.next_multiple_of(BLOCK_UNIT) as u64);
        if bytes.len() != room as usize {
            bytes.clear();
            bytes.resize(room as usize);
        }
        bytes
    }

    /// Lets another thread read the chunk needed after this one, if enough bytes follow to be worth a thread.
    fn read_ahead(&mut self, spare: AlignedBuf) {
        let Some(next) = self.next_chunk() else { return };
        if self.ahead.is_none() && self.reader.bytes_between(self.partition, next, self.stop) >= AHEAD_MIN {
            self.ahead = Ahead::start(&self.reader);
        }
        if let Some(ahead) = &self.ahead {
            ahead.ask(self.position(next), self.fitting(spare, next, 0));
        }
    }

    /// Returns the offset of the first block that is not completely in this chunk; `None` if the chain of blocks, or
    /// reading, ends before.
    fn next_chunk(&self) -> Option<LogOffset> {
        let chunk = self.chunk.as_ref()?;
        if self.stop.get() == u64::MAX {
            return None;
        }
        let mut next = chunk.begin;
        loop {
            let at = next.since(chunk.begin).0 as usize;
            let Some(head) = chunk.bytes.get(at..at + BLOCK_UNIT) else { break };
            let (Head::Whole, Some(header)) = self.reader.judge_head(self.position(next), head) else {
                return None;
            };
            if at + header.used as usize > chunk.bytes.len() {
                break;
            }
            next = header.end();
        }
        (chunk.begin < next && next < self.stop).then_some(next)
    }

    /// Classifies the bytes at `offset`, where a block should begin.
    pub(crate) fn head(&mut self, offset: LogOffset) -> Result<(Head, Option<BlockHeader>), LogError> {
        let Some(at) = self.load(offset, BLOCK_UNIT)? else {
            return Ok((Head::Missing, None));
        };
        let chunk = self.chunk.as_ref().expect("just loaded");
        Ok(self.reader.judge_head(self.position(offset), &chunk.bytes[at..at + BLOCK_UNIT]))
    }

    /// Makes the used bytes of a block available: returns the chunk that holds them, and their range.
    pub(crate) fn body(&mut self, header: &BlockHeader) -> Result<(&Arc<Chunk>, Range<usize>), LogError> {
        let used = header.used as usize;
        let at = self.load(header.offset, used)?.unwrap_or(0);
        match &self.chunk {
            Some(chunk) => Ok((chunk, at + BLOCK_HEADER_LEN..at + used)),
            None if self.reader.is_recycled(self.partition, header.offset) => {
                Err(LogError::Truncated { what: "the records of this scan".into() })
            }
            None => Err(self.reader.damaged(self.position(header.offset), "the segment file is gone")),
        }
    }

    pub(crate) fn chunk(&self) -> Option<&Arc<Chunk>> {
        self.chunk.as_ref()
    }
}
