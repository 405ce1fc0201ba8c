//! The tail of a partition: the block that takes records, and the blocks that are being written.
//!
//! ```text
//!            seal               take               write, complete
//! Open ────────────▶ Sealed ────────────▶ InFlight ────────────▶ Durable (forgotten)
//! ```
//!
//! - `Open`: exactly one per partition; takes records under the latch
//! - `Sealed`: complete, header written; its offset and bytes never change again (W2)
//! - `InFlight`: a thread is writing it, outside the latch; up to `writes_in_flight` at a time
//! - `Durable`: written, and so is every block before it; only then its waiters wake
//!
//! One mutex protects all of it. It is held for tens of nanoseconds, for some hundreds while a short block is sealed,
//! and never over I/O.

use cedrat_media::AlignedBuf;
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex, is_scheduled, planted, thread};
use std::collections::VecDeque;
use std::time::Duration;

use crate::block::{BLOCK_HEADER_LEN, BLOCK_UNIT, BlockHeader};
use crate::checksum::record_seed;
use crate::clock::{Bounds, Clock};
use crate::event::Event;
use crate::record::{self, Body, Content, FRAME_LEN_MAX, Kind, RecordHead};
use crate::reservation::Cost;
use crate::segment::{Geometry, Pool};
use crate::space::Space;
use crate::{LogOffset, Lsn, PartitionId, Position, TxnId};

/// The distance between two entries of the index from LSNs to offsets.
const INDEX_STEP: u64 = 64 << 10;

/// The length of a processor's cache line in bytes.
const LINE_LEN: usize = 64;

/// A block with fewer bytes is copied out of the buffer in which it was filled: if each commit makes a block, as many
/// long buffers would be occupied as blocks wait for one slow write.
const SHORT_LEN: usize = 64 << 10;

/// Committers in a group: up to twice this many share one block; more make two groups.
const GROUP_MIN: u32 = 8;

/// Returns the time for which the first committer of a block waits for others. Under a scheduler no time passes, so it does
/// not wait.
fn patience() -> Option<Duration> {
    (!is_scheduled()).then_some(Duration::from_micros(100))
}

/// One partition of an open log.
///
/// All that an append reads and writes here begins the partition, in two adjacent cache lines: where several processors append,
/// another one wrote each of them last.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Partition {
    pub(crate) bounds: Bounds,
    pub(crate) tail: Mutex<Tail>,
    pub(crate) id: PartitionId,
    /// Sealed bytes that are not durable yet; readable without the latch.
    pub(crate) unwritten: AtomicU64,
    /// Everything below this offset is durable (E8.2).
    pub(crate) flushed: AtomicU64,
}

/// The properties that do not change while the log is open.
#[derive(Clone, Debug)]
pub(crate) struct Constants {
    pub(crate) partition: PartitionId,
    pub(crate) geometry: Geometry,
    pub(crate) block_seed: u32,
    pub(crate) epoch: u32,
    pub(crate) block_len_max: usize,
    /// The number of buffers kept for the next blocks: as many as are being written when appenders begin to be
    /// throttled. A new buffer is cleared under the latch.
    pub(crate) spare_buffers: usize,
    pub(crate) space: Arc<Space>,
    pub(crate) pool: Arc<Pool>,
}

/// The state that the latch protects: first what each append uses.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Tail {
    open: Open,
    /// Bytes of blocks that were closed before they were full; the next record pays for them (E16.7).
    unpaid_padding: u64,
    /// Whether the log stopped: records are dropped.
    stopped: bool,
    constants: Constants,
    /// Sealed blocks and blocks in flight, in the order of offsets; the first `taken` are in flight or written.
    queue: VecDeque<Queued>,
    taken: usize,
    pub(crate) in_flight: usize,
    flushed: LogOffset,
    unwritten: u64,
    spare: Vec<AlignedBuf>,
    /// Block beginnings, each with the first LSN at or after it in this partition.
    index: VecDeque<(Lsn, LogOffset)>,
    /// The offset where this opening began.
    began: LogOffset,
    /// Whether records were sealed since the last block that promised everything (E20.4).
    unpromised: bool,
    /// The last LSN in any sealed block.
    last_sealed: Lsn,
    /// The newest segment with a file, and its room.
    segment: (u64, u64),
    /// The number of committers expected for the next block: those of the last one, and those that arrived meanwhile.
    expected: u32,
    /// The first LSN whose record was dropped: it never becomes durable.
    first_dropped: Option<Lsn>,
}

/// The block that takes records.
#[derive(Debug)]
#[repr(C)]
struct Open {
    bytes: AlignedBuf,
    used: usize,
    /// The end of the space for records.
    room: usize,
    offset: LogOffset,
    first_lsn: Lsn,
    last_lsn: Lsn,
    record_seed: u32,
    event: Arc<Event>,
    /// Committers that wait for this block, or lead it.
    committers: u32,
    /// Whether one of them waits with a timeout.
    watched: bool,
}

#[derive(Debug)]
struct Queued {
    block: Arc<Block>,
    committers: u32,
    written: bool,
}

/// A sealed block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) header: BlockHeader,
    bytes: AlignedBuf,
    write_len: usize,
    event: Arc<Event>,
}

impl Block {
    pub(crate) fn offset(&self) -> LogOffset {
        self.header.offset
    }

    /// The used bytes, header included.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.header.used as usize]
    }

    /// The bytes to write: the used bytes, padded with zeros.
    pub(crate) fn write_bytes(&self) -> &[u8] {
        &self.bytes[..self.write_len]
    }
}

/// The location of a record that is not on disk yet.
#[derive(Debug)]
pub(crate) enum InMemory {
    Sealed(Arc<Block>),
    /// A copy of part of the open block.
    Open {
        begin: LogOffset,
        bytes: Vec<u8>,
    },
}

/// The history of a committer's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    First,
    Again,
    /// It waited with a timeout, and was woken before the timeout.
    Unwatched,
    /// It waited with a timeout, which has elapsed.
    Impatient,
}

/// The next action of a committer.
#[derive(Debug)]
pub(crate) enum Next {
    /// Its record is durable.
    Durable,
    /// Write this block, then ask again.
    Write(Arc<Block>),
    /// Wait for this event, at most for this time, then ask again.
    Wait(Arc<Event>, Option<Duration>),
    /// The log stopped: no action helps.
    Stopped,
}

/// The waiters that a completed write releases.
#[derive(Debug, Default)]
pub(crate) struct Completed {
    /// Events of the blocks that became durable, the oldest first: their waiters are to be woken.
    durable: Vec<Arc<Event>>,
    /// The event on which a committer waits that should write the next block.
    lead: Option<Arc<Event>>,
    pub(crate) advanced: bool,
}

impl Completed {
    /// Wakes these waiters. Not under the latch.
    pub(crate) fn wake(&self) {
        if let Some(event) = &self.lead {
            event.ask_to_lead();
        }
        for event in &self.durable {
            event.set_done();
        }
    }
}

impl Partition {
    /// Creates a partition that begins at `offset`; everything before it is durable, with LSNs up to `before`.
    pub(crate) fn new(id: PartitionId, offset: LogOffset, before: Lsn, constants: Constants) -> Partition {
        let tail = Tail {
            open: Open::new(offset, AlignedBuf::new(), 0, &constants, None),
            constants,
            queue: VecDeque::new(),
            taken: 0,
            in_flight: 0,
            flushed: offset,
            unwritten: 0,
            spare: Vec::new(),
            index: VecDeque::new(),
            began: offset,
            unpromised: false,
            last_sealed: before,
            segment: (u64::MAX, 0),
            expected: 1,
            stopped: false,
            unpaid_padding: 0,
            first_dropped: None,
        };
        Partition {
            id,
            bounds: Bounds::new(),
            tail: Mutex::new(tail),
            unwritten: AtomicU64::new(0),
            flushed: AtomicU64::new(offset.get()),
        }
    }

    /// Whether the block at this offset is durable.
    pub(crate) fn is_flushed(&self, offset: LogOffset) -> bool {
        offset.get() < self.flushed.load(Ordering::Acquire)
    }

    /// Returns the first block to write of those present now, the open one included if `open` is set, and the offset of
    /// the last of them.
    pub(crate) fn take_first(
        &self,
        durable: Lsn,
        writes_in_flight: usize,
        open: bool,
    ) -> (Option<Arc<Block>>, LogOffset) {
        let mut tail = self.tail.lock();
        let last = match tail.queue.back() {
            _ if open => tail.open.offset,
            Some(sealed) => sealed.block.offset(),
            None => return (None, tail.flushed),
        };
        (tail.take_up_to(self, durable, last, writes_in_flight), last)
    }

    /// Records that a write has finished, and takes the next block to write, if it begins at `last` or before. The
    /// caller wakes the released waiters after the latch is released.
    pub(crate) fn complete(
        &self,
        block: Arc<Block>,
        writes_in_flight: usize,
        durable: Lsn,
        last: Option<LogOffset>,
    ) -> (Completed, Option<Arc<Block>>) {
        let mut tail = self.tail.lock();
        tail.in_flight -= 1;
        let at = tail.queue.partition_point(|queued| queued.block.offset() < block.offset());
        tail.queue[at].written = true;
        drop(block);
        let mut completed = Completed::default();
        let mut committers = 0;
        while tail.queue.front().is_some_and(|queued| queued.written) {
            let queued = tail.queue.pop_front().expect("there is a first one");
            tail.taken -= 1;
            tail.flushed = queued.block.header.end();
            tail.unwritten -= queued.block.write_len as u64;
            completed.advanced = true;
            if queued.committers > 0 {
                completed.durable.push(Arc::clone(&queued.block.event));
            }
            committers += queued.committers;
            if tail.spare.len() < tail.constants.spare_buffers
                && let Ok(block) = Arc::try_unwrap(queued.block)
                && block.bytes.len() == tail.constants.block_len_max
            {
                tail.spare.push(block.bytes);
            }
        }
        if completed.advanced {
            if planted!("lsn_before_place") {
                self.bounds.flushed_before(tail.first_unflushed());
                (0..1_000).for_each(|_| thread::yield_now());
            }
            // The offset before the LSN: a scan reads the durable LSN first and then stops at this offset, so every
            // record up to that LSN must be below it (E3.6).
            self.flushed.store(tail.flushed.get(), Ordering::Release);
            self.bounds.flushed_before(tail.first_unflushed());
            self.unwritten.store(tail.unwritten, Ordering::Relaxed);
        }
        if committers > 0 {
            let others: u32 = tail.queue.iter().map(|queued| queued.committers).sum();
            tail.expected = committers + others + tail.open.committers;
        }
        let next = last.and_then(|last| tail.take_up_to(self, durable, last, writes_in_flight));
        if tail.in_flight < writes_in_flight {
            completed.lead = tail.event_to_wake();
        }
        (completed, next)
    }

    /// Drops all records appended from now on and wakes all waiters.
    pub(crate) fn stop(&self) {
        let mut tail = self.tail.lock();
        tail.stopped = true;
        let mut events: Vec<_> = tail.queue.iter().map(|queued| Arc::clone(&queued.block.event)).collect();
        events.push(Arc::clone(&tail.open.event));
        drop(tail);
        events.iter().for_each(|event| event.set_done());
    }
}

impl Open {
    fn new(
        offset: LogOffset,
        bytes: AlignedBuf,
        room: usize,
        constants: &Constants,
        before: Option<LogOffset>,
    ) -> Open {
        let geometry = constants.geometry;
        let sequence = geometry.sequence(offset);
        if before.is_none_or(|before| geometry.sequence(before) != sequence) {
            constants.space.segment_taken(constants.partition, sequence);
        }
        Open {
            offset,
            bytes,
            used: BLOCK_HEADER_LEN,
            room,
            first_lsn: Lsn::ZERO,
            last_lsn: Lsn::ZERO,
            record_seed: record_seed(constants.block_seed, constants.epoch, sequence as u32),
            event: Arc::new(Event::default()),
            committers: 0,
            watched: false,
        }
    }

    fn is_empty(&self) -> bool {
        self.used == BLOCK_HEADER_LEN
    }
}

impl Tail {
    /// Ensures that a record with a body of `body_len` bytes fits into the open block. Returns whether a block was
    /// sealed for it.
    #[inline]
    pub(crate) fn make_room(&mut self, partition: &Partition, clock: &Clock, body_len: usize) -> bool {
        let needed = FRAME_LEN_MAX + body_len;
        if self.open.used + needed <= self.open.room {
            return false;
        }
        self.roll(partition, clock.known_durable(), needed)
    }

    #[cold]
    fn roll(&mut self, partition: &Partition, durable: Lsn, needed: usize) -> bool {
        let geometry = self.constants.geometry;
        let block_len = (BLOCK_HEADER_LEN + needed).next_multiple_of(BLOCK_UNIT);
        let mut sealed = false;
        loop {
            let empty = self.open.is_empty();
            let used = if empty { 0 } else { self.open.used.next_multiple_of(BLOCK_UNIT) as u64 };
            let next = LogOffset::new(self.open.offset.get() + used);
            // The rest of a segment, if it is too short for the record, belongs to the segment's last block; all of it, if the
            // segment was begun ahead in a short file.
            let skipped = if self.left(next, block_len as u64) < block_len as u64 { geometry.left(next) } else { 0 };
            if used + skipped == 0 {
                break;
            }
            self.seal(partition, durable, used + skipped);
            sealed = true;
        }
        let offset = self.open.offset;
        let len = self.constants.block_len_max.max(block_len);
        if self.open.bytes.len() < len {
            self.open.bytes = match self.spare.pop() {
                Some(bytes) if bytes.len() >= len => bytes,
                _ => AlignedBuf::zeroed(len),
            };
        }
        self.open.room = len.min(self.left(offset, 0) as usize);
        sealed
    }

    /// Returns the room that a segment has from the offset on. One without a file gets one with room for `needed` bytes.
    fn left(&mut self, offset: LogOffset, needed: u64) -> u64 {
        let geometry = self.constants.geometry;
        let (sequence, begin) = (geometry.sequence(offset), offset.get() % geometry.capacity());
        if self.segment.0 != sequence {
            let Constants { pool, space, partition, .. } = &self.constants;
            // Before its file may count: a short one is no space for reservations (E16.10a).
            space.segment_taken(*partition, sequence);
            self.segment = (sequence, pool.claim(space, *partition, sequence, needed));
        }
        self.segment.1.saturating_sub(begin)
    }

    /// Prefetches the cache lines that placing a short record writes.
    #[inline]
    pub(crate) fn prefetch_to_place(&self) {
        self.open.bytes.prefetch_to_write(self.open.used);
        self.open.bytes.prefetch_to_write(self.open.used + LINE_LEN);
    }

    /// Places a record. The caller has ensured that it fits.
    #[inline(always)]
    pub(crate) fn place(&mut self, lsn: Lsn, head: RecordHead, body: impl Content) -> (LogOffset, Cost) {
        let open = &mut self.open;
        let offset = LogOffset::new(open.offset.get() + open.used as u64);
        if self.stopped && planted!("dropped_record_durable") {
            return (offset, Cost::default());
        }
        if self.stopped {
            self.first_dropped.get_or_insert(lsn);
            return (offset, Cost::default());
        }
        let to = &mut open.bytes[open.used..open.room];
        let len = record::encode(to, open.record_seed, offset, lsn, head, body);
        open.used += len;
        // Buffers rotate, so the lines of the next record are in no cache. The first of them was fetched with this
        // one.
        open.bytes.prefetch_to_write(open.used + LINE_LEN);
        open.bytes.prefetch_to_write(open.used + 2 * LINE_LEN);
        if open.first_lsn == Lsn::ZERO {
            open.first_lsn = lsn;
        }
        open.last_lsn = lsn;
        let padding = std::mem::take(&mut self.unpaid_padding);
        (offset, Cost { record: len as u64, padding })
    }

    /// Places a record without content.
    #[cold]
    pub(crate) fn place_void(&mut self, lsn: Lsn) -> (LogOffset, Cost) {
        self.place(lsn, RecordHead::new(Kind::VOID, TxnId::NONE, None), Body::EMPTY)
    }

    /// Closes the open block with a length of `len` bytes, up to the next one, and opens the next.
    fn seal(&mut self, partition: &Partition, durable: Lsn, len: u64) {
        let geometry = self.constants.geometry;
        let (sequence, room) = self.segment;
        // A block in the place after the room covers the rest of its segment: none fits behind it.
        let end = self.open.offset.get() % geometry.capacity() + len;
        let is_last = sequence == geometry.sequence(self.open.offset) && end > room;
        let len = if is_last { geometry.left(self.open.offset) } else { len };
        let next = LogOffset::new(self.open.offset.get() + len);
        let mut bytes = std::mem::take(&mut self.open.bytes);
        let used = self.open.used;
        let kept = if used < SHORT_LEN && bytes.len() > SHORT_LEN {
            let mut short = AlignedBuf::zeroed(used.next_multiple_of(BLOCK_UNIT));
            short[..used].copy_from_slice(&bytes[..used]);
            std::mem::replace(&mut bytes, short)
        } else {
            AlignedBuf::new()
        };
        let opened = Open::new(next, kept, 0, &self.constants, Some(self.open.offset));
        let open = std::mem::replace(&mut self.open, opened);
        let mut bytes = if bytes.is_empty() { AlignedBuf::zeroed(BLOCK_UNIT) } else { bytes };
        let write_len = open.used.next_multiple_of(BLOCK_UNIT);
        let header = BlockHeader {
            used: open.used as u32,
            len: len as u32,
            epoch: self.constants.epoch,
            life: self.constants.geometry.sequence(open.offset) as u32,
            offset: open.offset,
            first_lsn: open.first_lsn,
            last_lsn: open.last_lsn,
            promise: if planted!("block_promises_itself") { open.last_lsn } else { durable }, // E20.1
            own_promise: if planted!("no_promise_of_the_partition") { LogOffset::ZERO } else { self.flushed },
        };
        bytes[open.used..write_len].fill(0);
        header.encode(&mut bytes, self.constants.block_seed);
        if open.first_lsn > Lsn::ZERO {
            self.unpromised = true;
            self.last_sealed = open.last_lsn;
            // Also the first one of an opening: otherwise none could be forgotten of the epochs before (E1.7a).
            let is_first = |last| last < self.began && !planted!("first_block_not_indexed");
            let far = |&(_, last): &(Lsn, LogOffset)| open.offset.since(last).0 >= INDEX_STEP || is_first(last);
            if self.index.back().is_none_or(far) {
                self.index.push_back((open.first_lsn, open.offset));
            }
        }
        let block = Block { header, bytes, write_len, event: open.event };
        self.unwritten += write_len as u64;
        partition.unwritten.store(self.unwritten, Ordering::Relaxed);
        self.queue.push_back(Queued { block: Arc::new(block), committers: open.committers, written: false });
    }

    /// Seals the open block as it is, if it holds records or `even_empty` is set.
    fn seal_open(&mut self, partition: &Partition, durable: Lsn, even_empty: bool) {
        if !self.open.is_empty() || even_empty {
            let is_paid = !planted!("rest_of_block_not_paid");
            self.unpaid_padding +=
                u64::from(is_paid) * (self.open.used.next_multiple_of(BLOCK_UNIT) - self.open.used) as u64;
            let len = self.open.used.next_multiple_of(BLOCK_UNIT) as u64;
            self.seal(partition, durable, len);
        }
    }

    /// Seals a block without records that only carries the promise (E20.4), if records are still unpromised and no
    /// block is pending. Returns its offset.
    pub(crate) fn seal_promise(&mut self, partition: &Partition, durable: Lsn) -> Option<LogOffset> {
        let idle = self.open.is_empty() && self.queue.is_empty();
        if !idle || !self.unpromised || self.stopped || planted!("promise_not_written") {
            return None;
        }
        let offset = self.open.offset;
        self.seal_open(partition, durable, true);
        self.unpromised = false;
        Some(offset)
    }

    /// Takes the next block that no thread writes yet, sealed or open.
    fn take(&mut self, partition: &Partition, durable: Lsn) -> Option<Arc<Block>> {
        if self.taken == self.queue.len() {
            self.seal_open(partition, durable, false);
        }
        let block = Arc::clone(&self.queue.get(self.taken)?.block);
        self.taken += 1;
        self.in_flight += 1;
        Some(block)
    }

    /// Takes a block as `take` does, for a thread that writes for others: none that begins after `last`, and not the
    /// open block while committers gather in it. Those write it themselves.
    fn take_up_to(
        &mut self,
        partition: &Partition,
        durable: Lsn,
        last: LogOffset,
        writes_in_flight: usize,
    ) -> Option<Arc<Block>> {
        let next = self.queue.get(self.taken).map_or(self.open.offset, |queued| queued.block.offset());
        let gathers = self.taken == self.queue.len() && self.open.committers > 0;
        let may = self.in_flight < writes_in_flight && next <= last && !gathers && !self.stopped;
        if may { self.take(partition, durable) } else { None }
    }

    /// Returns the next action of a committer that needs the block at this offset to be durable.
    pub(crate) fn next_step(
        &mut self,
        partition: &Partition,
        durable: Lsn,
        offset: LogOffset,
        step: Step,
        writes_in_flight: usize,
    ) -> Next {
        if offset < self.flushed {
            return Next::Durable;
        }
        if self.stopped {
            return Next::Stopped;
        }
        let open = offset >= self.open.offset;
        if open && self.open.is_empty() {
            return Next::Durable; // the block is empty
        }
        if open {
            self.open.committers += u32::from(step == Step::First);
            if matches!(step, Step::Impatient | Step::Unwatched) {
                self.open.watched = false;
            }
            let worth_it = step == Step::Impatient || self.open.committers >= self.enough();
            if worth_it && self.in_flight < writes_in_flight {
                return self.write_next(partition, durable);
            }
            // While a write is in flight, its completion will find this block; else one committer has to wait with a
            // timeout.
            let watches = self.in_flight == 0 && !self.open.watched;
            self.open.watched |= watches;
            return Next::Wait(Arc::clone(&self.open.event), if watches { patience() } else { None });
        }
        let at = self.queue.partition_point(|queued| queued.block.offset() <= offset).saturating_sub(1);
        // Counted before anything is written: the next block written may be an older one, and then this committer
        // waits.
        self.queue[at].committers += u32::from(step == Step::First);
        if at >= self.taken && self.in_flight < writes_in_flight {
            return self.write_next(partition, durable);
        }
        Next::Wait(Arc::clone(&self.queue[at].block.event), None)
    }

    /// Returns the number of committers that make a block worth writing. Few committers gather: one write for all of
    /// them costs as much as one for each. Many form two groups, so that one group is written while the other one
    /// runs.
    fn enough(&self) -> u32 {
        match self.expected {
            _ if is_scheduled() => 1,
            few if few <= 2 * GROUP_MIN => few,
            many => many / 2,
        }
    }

    fn write_next(&mut self, partition: &Partition, durable: Lsn) -> Next {
        match self.take(partition, durable) {
            Some(block) => Next::Write(block),
            None => unreachable!("a block that is not written yet was asked for"),
        }
    }

    /// Returns the offset of the last block that holds an LSN up to this one and is not durable.
    pub(crate) fn last_block_up_to(&self, lsn: Lsn) -> Option<LogOffset> {
        if !self.open.is_empty() && self.open.first_lsn <= lsn {
            return Some(self.open.offset);
        }
        let mut blocks = self.queue.iter().rev().map(|queued| &queued.block.header);
        blocks.find(|header| !header.is_empty() && header.first_lsn <= lsn).map(|header| header.offset)
    }

    /// Returns the event of a waiting committer that a finished write should wake: to write the next block, or to
    /// wait with a timeout.
    fn event_to_wake(&self) -> Option<Arc<Event>> {
        let mut untaken = self.queue.iter().skip(self.taken);
        if let Some(queued) = untaken.find(|queued| queued.committers > 0) {
            return Some(Arc::clone(&queued.block.event));
        }
        let open = &self.open;
        let now = self.in_flight == 0 || open.committers >= self.enough();
        (open.committers > 0 && !open.watched && now).then(|| Arc::clone(&open.event))
    }

    /// Returns the smallest LSN here that is not durable: after a stop, a dropped one is not, though nothing is left
    /// to write.
    pub(crate) fn first_unflushed(&self) -> Option<Lsn> {
        let open = (!self.open.is_empty()).then_some(self.open.first_lsn);
        let mut blocks = self.queue.iter().map(|queued| &queued.block.header);
        blocks.find(|header| !header.is_empty()).map(|header| header.first_lsn).or(open).or(self.first_dropped)
    }

    /// Whether no record waits to be sealed or written.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.queue.is_empty()
    }

    /// Returns the offset of the oldest sealed block that is not durable.
    pub(crate) fn oldest_sealed(&self) -> Option<LogOffset> {
        self.queue.front().map(|queued| queued.block.offset())
    }

    /// Returns the record at `position`, if it is not on disk yet.
    pub(crate) fn in_memory(&self, position: Position) -> Option<InMemory> {
        const BEFORE: usize = 16 << 10;
        let offset = position.offset;
        if offset < self.flushed {
            return None;
        }
        if offset >= self.open.offset {
            let at = usize::try_from(offset.since(self.open.offset).0).ok()?;
            let rest = self.open.bytes.get(at..self.open.used)?;
            let frame = record::decode(rest, self.open.record_seed, offset).ok()?;
            let begin = at.saturating_sub(BEFORE);
            return Some(InMemory::Open {
                begin: LogOffset::new(self.open.offset.get() + begin as u64),
                bytes: self.open.bytes[begin..at + frame.len].to_vec(),
            });
        }
        let after = self.queue.partition_point(|queued| queued.block.offset() <= offset);
        let queued = self.queue.get(after.checked_sub(1)?)?;
        Some(InMemory::Sealed(Arc::clone(&queued.block)))
    }

    /// Returns the approximate position of the next record.
    pub(crate) fn end(&self) -> LogOffset {
        LogOffset::new(self.open.offset.get() + self.open.used as u64)
    }

    /// Returns the offset of a block such that every record from `lsn` on is in this block or a later one. `oldest` is the
    /// first block kept.
    pub(crate) fn first_block(&self, lsn: Lsn, oldest: LogOffset) -> LogOffset {
        if self.is_idle() && self.last_sealed < lsn {
            return self.open.offset.max(oldest); // no record of this partition is as late
        }
        let after = self.index.partition_point(|&(first, _)| first <= lsn);
        after.checked_sub(1).map_or(oldest, |at| self.index[at].1.max(oldest))
    }

    /// Forgets index entries of blocks before this offset, which are not requested any more.
    pub(crate) fn forget_index_before(&mut self, keep: LogOffset) {
        while self.index.front().is_some_and(|&(_, offset)| offset < keep) {
            self.index.pop_front();
        }
    }

    /// Adds a block that was found at opening to the index.
    pub(crate) fn index_found(&mut self, first: Lsn, offset: LogOffset) {
        self.index.push_back((first, offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteLen, Log, LogOptions};
    use cedrat_media::{Media, SimDisk};
    use cedrat_sync::explore;

    /// While one write is slow, each commit after it makes a block that waits. Each keeps only its used bytes, not
    /// the long buffer in which it was filled: the next blocks use that buffer.
    #[test]
    fn waiting_short_blocks_keep_no_long_buffers() {
        explore(1, 1, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let options = LogOptions { segment_len: 1 << 20, block_len_max: 512 << 10, ..LogOptions::small() };
            let options = LogOptions { log_bytes_max: 32 << 20, ..options };
            let log = Log::create(&media, &options, &[]).expect("a log is created");
            let partition = &log.shared().partitions[0];
            let mut room = log.reserve(ByteLen(300_000), ByteLen(0)).expect("there is room");
            // As taken by writers that have not finished yet.
            let mut block_of = |records: usize, len: usize| {
                for number in 0..records {
                    let head = RecordHead::new(Kind::COMMIT, TxnId(1), None);
                    log.append(PartitionId(0), head, &[&vec![number as u8 + 1; len]], &mut room);
                }
                let (block, _) = partition.take_first(log.durable_lsn(), usize::MAX, true);
                block.expect("records wait in the open block")
            };
            let mut waiting = vec![block_of(1, 100)];
            let long = partition.tail.lock().open.bytes.as_ptr();
            for number in 1..40 {
                waiting.push(block_of(1 + number % 3, number * 100));
                assert_eq!(partition.tail.lock().open.bytes.as_ptr(), long, "the next ones are filled in the same");
            }
            for block in &waiting {
                assert_eq!(block.bytes.len(), block.write_bytes().len(), "no more than is written");
                let last = block.bytes()[block.bytes().len() - 1];
                assert!((1..=3).contains(&last), "what was filled in is there");
            }
            // Copying a long one would cost more than another buffer.
            let long_one = block_of(2, 50_000);
            assert_eq!(long_one.bytes.as_ptr(), long);
            assert_eq!(long_one.bytes.len(), options.block_len_max);
        });
    }
}
