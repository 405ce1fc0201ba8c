//! Scans of all records in the order of LSNs: partitions are merged, and a missing number is detected.

use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, planted};
use std::ops::Range;

use crate::read::{Blocks, Chunk, Reader};
use crate::record::{self, RecordHead, RecordRef};
use crate::verdict::{Body, Head, Verdict, verdict};
use crate::{ByteLen, LogError, LogOffset, Lsn, PartitionId, Position};

/// A record of a scan, with the shared chunk that holds it, so that it can be passed to another thread without a
/// copy.
#[derive(Clone, Debug)]
pub struct Scanned<'a> {
    /// The record.
    pub record: RecordRef<'a>,
    /// The chunk that holds the body. Many records share one chunk of up to a megabyte.
    pub chunk: &'a Arc<Chunk>,
    /// The range of the body in the chunk, for [`Chunk::body`].
    pub body: Range<usize>,
}

/// Records in the order of LSNs, without an allocation for each.
#[derive(Debug)]
pub struct Scan {
    reader: Arc<Reader>,
    cursors: Vec<Cursor>,
    /// The cursor whose record was returned last: it advances at the next call.
    given: Option<usize>,
    /// The number that must come next.
    expected: Lsn,
    /// The end of the unbroken range of alive numbers that contains `expected`.
    run_end: Lsn,
    /// The first number that need not be present.
    end: Lsn,
    bytes: u64,
    /// Set when the end was reached and nothing was missing.
    complete: Option<Arc<AtomicBool>>,
    failed: bool,
}

/// The bounds of a scan.
pub(crate) struct Bounds {
    /// The first LSN to return.
    pub(crate) from: Lsn,
    /// The LSN after the last one that must be present.
    pub(crate) end: Lsn,
    /// Per partition, the first block to read, and the offset where reading stops.
    pub(crate) places: Vec<(LogOffset, LogOffset)>,
}

impl Scan {
    pub(crate) fn new(
        reader: &Arc<Reader>,
        bounds: Bounds,
        complete: Option<Arc<AtomicBool>>,
    ) -> Result<Scan, LogError> {
        let mut cursors = Vec::new();
        let mut bytes = 0;
        for (index, &(begin, stop)) in bounds.places.iter().enumerate() {
            let partition = PartitionId(index as u16);
            let mut cursor = Cursor::new(Blocks::new(reader, partition, stop), begin, &bounds);
            cursor.advance()?;
            cursors.push(cursor);
            bytes += match planted!("scan_counts_offsets") {
                true => stop.since(begin).0,
                false => reader.bytes_between(partition, begin, stop),
            };
        }
        let mut scan = Scan {
            reader: Arc::clone(reader),
            cursors,
            given: None,
            expected: Lsn::ZERO,
            run_end: Lsn::ZERO,
            end: bounds.end,
            bytes,
            complete,
            failed: false,
        };
        scan.expect(bounds.from);
        Ok(scan)
    }

    /// Returns the next record; `None` at the end. It borrows the scan until the next call.
    ///
    /// Records that count only with their own partition (`partition_commit`) are returned beyond the first missing
    /// number as well; they are the last ones, in the order of LSNs.
    ///
    /// # Errors
    ///
    /// [`LogError::Damaged`] with file and offset if a required record is missing. The scan is over then.
    #[allow(clippy::should_implement_trait)] // it lends
    #[inline]
    pub fn next(&mut self) -> Result<Option<Scanned<'_>>, LogError> {
        match self.step() {
            Ok(Some(at)) => Ok(Some(self.cursors[at].lend())),
            Ok(None) => Ok(None),
            Err(error) => {
                self.failed = true;
                Err(error)
            }
        }
    }

    /// Returns the progress of the scan: bytes read, and bytes to be read in total.
    pub fn progress(&self) -> (ByteLen, ByteLen) {
        let read = self.cursors.iter().map(|cursor| cursor.blocks.read).sum();
        (ByteLen(std::cmp::min(read, self.bytes)), ByteLen(self.bytes))
    }

    /// Creates an error that names the position of a record.
    pub(crate) fn damaged(&self, position: Position, what: &str) -> LogError {
        self.reader.damaged(position, what)
    }

    /// Whether the number that must come next is that of a durable record (W3).
    fn is_owed(&self) -> bool {
        self.expected < self.end && !planted!("missing_record_passed_over")
    }

    #[inline]
    fn step(&mut self) -> Result<Option<usize>, LogError> {
        if self.failed {
            return Ok(None);
        }
        if let Some(given) = self.given.take() {
            self.cursors[given].advance()?;
        }
        let mut first: Option<(Lsn, usize)> = None;
        for (at, cursor) in self.cursors.iter().enumerate() {
            if let Some(lsn) = cursor.lsn()
                && first.is_none_or(|(other, _)| lsn < other)
            {
                first = Some((lsn, at));
            }
        }
        let Some((lsn, at)) = first else {
            if self.is_owed() {
                return Err(self.missing(self.expected));
            }
            if let Some(complete) = &self.complete {
                complete.store(true, Ordering::Release);
            }
            return Ok(None);
        };
        if lsn == self.expected {
            let next = lsn.next();
            if next < self.run_end {
                self.expected = next;
            } else {
                self.expect(next);
            }
        } else if lsn > self.expected && self.is_owed() {
            // A record that counts only with its own partition may have a dead number.
            let owed = lsn >= self.end || self.reader.epochs.skip_dead(lsn) == lsn;
            if owed {
                return Err(self.missing(self.expected));
            }
        } else if lsn < self.expected && self.reader.epochs.skip_dead(lsn) == lsn {
            let position = self.cursors[at].position();
            return Err(self.reader.damaged(position, "an LSN occurs twice"));
        }
        self.given = Some(at);
        Ok(Some(at))
    }

    /// Sets the number that must come next: `lsn`, or the next one that is not dead.
    fn expect(&mut self, lsn: Lsn) {
        self.expected = self.reader.epochs.skip_dead(lsn);
        self.run_end = self.reader.epochs.run(self.expected).map_or(Lsn::MAX, |run| run.end);
    }

    /// Reports a missing number that must be present: names the partition that most likely lost it (E20.2).
    fn missing(&mut self, lsn: Lsn) -> LogError {
        let mut worst: Option<(Head, Position)> = None;
        for cursor in &mut self.cursors {
            let position = Position { partition: cursor.blocks.partition, offset: cursor.blocks.stop };
            if cursor.truncated() {
                return LogError::Truncated { what: format!("LSN {lsn}") };
            }
            if let Ok((head, _)) = cursor.blocks.head(position.offset)
                && worst.is_none_or(|(other, _)| head > other)
            {
                worst = Some((head, position));
            }
        }
        match worst {
            Some((head, position)) => {
                let (judged, why) = verdict(head, Body::Bad, true);
                let why = if judged == Verdict::Refuse { why } else { "a block is gone" };
                self.reader.damaged(position, &format!("LSN {lsn} was durable and is missing: {why}"))
            }
            None => LogError::damaged("log", 0, format!("LSN {lsn} was durable and is missing")),
        }
    }
}

/// Passes the records of a partition that count, and have an LSN of a range, to `visit`, from a block on. Returns the offset of the
/// first block with a later record, or `stop`.
pub(crate) fn visit(
    blocks: Blocks,
    begin: LogOffset,
    lsns: Range<Lsn>,
    visit: &mut dyn FnMut(&RecordRef<'_>) -> Result<(), LogError>,
) -> Result<LogOffset, LogError> {
    let end = lsns.end;
    let mut cursor = Cursor::new(blocks, begin, &Bounds { from: lsns.start, end, places: Vec::new() });
    loop {
        let at = cursor.next_block;
        if !cursor.next_block()? {
            return Ok(at);
        }
        while cursor.advance_in_block()? {
            let record = cursor.lend().record;
            if record.lsn < end {
                visit(&record)?;
            }
        }
        if cursor.last >= end {
            return Ok(at);
        }
    }
}

/// A walk over those records of one partition that count.
#[derive(Debug)]
struct Cursor {
    blocks: Blocks,
    from: Lsn,
    /// The end of the newest epoch, which the table leaves open.
    end: Lsn,
    next_block: LogOffset,
    /// The current block: the range of its unread records in the chunk, their seed, and the numbers that count.
    at: usize,
    until: usize,
    chunk_begin: u64,
    seed: u32,
    alive: Range<Lsn>,
    /// The last LSN of the current block.
    last: Lsn,
    record: Option<Current>,
}

#[derive(Debug)]
struct Current {
    lsn: Lsn,
    head: RecordHead,
    offset: LogOffset,
    body: Range<usize>,
}

impl Cursor {
    fn new(blocks: Blocks, begin: LogOffset, bounds: &Bounds) -> Cursor {
        Cursor {
            blocks,
            from: bounds.from,
            end: bounds.end,
            next_block: begin,
            at: 0,
            until: 0,
            chunk_begin: 0,
            seed: 0,
            alive: Lsn::ZERO..Lsn::ZERO,
            last: Lsn::ZERO,
            record: None,
        }
    }

    #[inline]
    fn lsn(&self) -> Option<Lsn> {
        self.record.as_ref().map(|record| record.lsn)
    }

    fn position(&self) -> Position {
        let offset = self.record.as_ref().map_or(self.next_block, |record| record.offset);
        Position { partition: self.blocks.partition, offset }
    }

    #[inline]
    fn lend(&self) -> Scanned<'_> {
        let record = self.record.as_ref().expect("a record was found");
        let chunk = self.blocks.chunk().expect("it lies in a chunk");
        Scanned {
            record: RecordRef {
                lsn: record.lsn,
                position: Position { partition: self.blocks.partition, offset: record.offset },
                head: record.head,
                body: &chunk.bytes()[record.body.clone()],
            },
            chunk,
            body: record.body.clone(),
        }
    }

    /// Advances to the next record that counts.
    #[inline]
    fn advance(&mut self) -> Result<(), LogError> {
        loop {
            if self.advance_in_block()? || !self.next_block()? {
                return Ok(());
            }
        }
    }

    /// Advances to the next record of the current block that counts; `false` if there is none.
    #[inline]
    fn advance_in_block(&mut self) -> Result<bool, LogError> {
        while self.at < self.until {
            let chunk = self.blocks.chunk().expect("the block lies in it");
            let offset = LogOffset::new(self.chunk_begin + self.at as u64);
            let bytes = &chunk.bytes()[self.at..self.until];
            let Ok(frame) = record::decode(bytes, self.seed, offset) else {
                return Err(self.damaged(offset, "a record that was durable is damaged"));
            };
            let body = self.at + frame.body_at..self.at + frame.len;
            self.at += frame.len;
            let counts = self.alive.contains(&frame.lsn) || frame.head.partition_commit;
            if counts && frame.lsn >= self.from {
                self.record = Some(Current { lsn: frame.lsn, head: frame.head, offset, body });
                return Ok(true);
            }
        }
        self.record = None;
        Ok(false)
    }

    /// Advances to the next block; `false` at the end.
    fn next_block(&mut self) -> Result<bool, LogError> {
        let offset = self.next_block;
        if offset >= self.blocks.stop {
            return Ok(false);
        }
        let (Head::Whole, Some(header)) = self.blocks.head(offset)? else {
            if self.blocks.reader.faults.over_holes {
                self.next_block = LogOffset::new(offset.get() + crate::block::BLOCK_UNIT as u64);
                return Ok(true);
            }
            let (head, _) = self.blocks.head(offset)?;
            let (_, why) = verdict(head, Body::None, true);
            return Err(self.damaged(offset, why));
        };
        self.next_block = header.end();
        self.last = if header.is_empty() { Lsn::ZERO } else { header.last_lsn };
        let reader = Arc::clone(&self.blocks.reader);
        self.alive = match reader.epochs.of(header.epoch) {
            _ if reader.faults.any_epoch || planted!("dead_lsn_accepted") => Lsn::ZERO..Lsn::MAX,
            Some(epoch) => {
                let run = epoch.run(header.first_lsn);
                run.start..run.end.min(self.end)
            }
            None => Lsn::ZERO..Lsn::ZERO,
        };
        self.seed =
            crate::checksum::record_seed(reader.block_seeds[self.blocks.partition.index()], header.epoch, header.life);
        if header.is_empty() || (header.last_lsn < self.from) {
            (self.at, self.until) = (0, 0);
            return Ok(true);
        }
        let (_, range) = self.blocks.body(&header)?;
        self.chunk_begin = header.offset.get() + crate::block::BLOCK_HEADER_LEN as u64 - range.start as u64;
        (self.at, self.until) = (range.start, range.end);
        Ok(true)
    }

    fn damaged(&self, offset: LogOffset, what: &str) -> LogError {
        if self.truncated() {
            return LogError::Truncated { what: "the records of this scan".into() };
        }
        self.blocks.reader.damaged(Position { partition: self.blocks.partition, offset }, what)
    }

    /// Whether the segment being read was recycled meanwhile.
    fn truncated(&self) -> bool {
        let reading = LogOffset::new(self.next_block.get().saturating_sub(1));
        self.blocks.reader.is_recycled(self.blocks.partition, reading)
    }
}
