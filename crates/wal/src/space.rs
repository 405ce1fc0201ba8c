//! Log space, reserved so that a rollback never runs out of it (E16).
//!
//! The unit of the disk is a prepared segment: its file exists, filled and synced, so that writing it cannot fail for
//! lack of disk space. The unit of reservations is a byte. A reservation is granted if the prepared segments not in
//! use could hold it in the worst case:
//!
//! - one segment per partition and one more are never reserved: each partition may stop short of filling its last
//!   one;
//! - three quarters of the others can be reserved; the rest covers block headers, the ends of segments that were too
//!   short for a record (a record is at most an eighth of a segment file, E16.10), and the ends of blocks that were full.
//!
//! A force closes a block that is not full, and the rest of it, up to 4 KiB, is lost. The next record of the
//! partition pays for that (E16.7): its reservation has space for two such rests besides its records, and if one was
//! spent, growing the reservation replaces it first. So forward work is refused before its padding takes space that
//! is reserved for other transactions. A rollback is never refused: with the bytes for undo, space is reserved for the
//! forces that it needs itself, to write pages home ([`LogOptions::undo_records_per_force`](crate::LogOptions)), at
//! least an eighth of those bytes. The cost of forces beyond that comes from the segments that are never reserved. While
//! there is no other space, neither the writer threads nor a cleaner of pages close a block of their own accord that only
//! rollbacks have begun (E16.9).
//!
//! Appended bytes are deducted from the reservation; the segments that hold them show in `taken`. A segment that is
//! begun ahead of need counts as taken from then on, for no other partition can have it; none is begun if less than
//! half of the reservable space would stay free.

use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Mutex, planted};

use crate::block::BLOCK_UNIT;
use crate::clock::Alone;
use crate::options::LogOptions;
use crate::segment::Geometry;
use crate::{ByteLen, PartitionId};

/// Returns the number of segments that are never reserved.
pub(crate) const fn segments_kept_back(partitions: u16) -> u64 {
    partitions as u64 + 1
}

/// Returns the fewest segments with which a log can work: one in use per partition, those held back, and one to
/// reserve.
pub(crate) const fn segments_least(partitions: u16) -> u64 {
    partitions as u64 + segments_kept_back(partitions) + 1
}

/// Space for padding that a reservation has besides its records: the rest of a block that a force closed, and a block
/// that only carries a promise.
pub(crate) const PADDING: u64 = 2 * BLOCK_UNIT as u64;

/// The minimum log space that is reserved for a record of undo.
pub const UNDO_RECORD_LEN_MIN: u64 = 64;

/// The records of undo per force from which on an eighth of their bytes covers the padding.
pub const UNDO_RECORDS_PER_FORCE_MAX: u64 = 8 * BLOCK_UNIT as u64 / UNDO_RECORD_LEN_MIN;

/// The number of free segments that a log keeps beyond those that are reserved or kept back: the two that it prepares ahead of need,
/// and one more, so that a load which varies a little creates none.
const SEGMENTS_READY: u64 = 3;

/// The shared account of log space.
#[derive(Debug)]
pub(crate) struct Space {
    /// The number of bytes for blocks in a free segment, at least.
    segment_room: AtomicU64,
    /// The length of new segment files.
    segment_len: AtomicU64,
    /// The longest record that may be reserved: an eighth of the room of a segment, unless segments have their full length.
    record_max: AtomicU64,
    kept_back: u64,
    /// The maximum size of the log on disk.
    bytes_max: u64,
    /// The size of the prepared segments.
    bytes: AtomicU64,
    /// The number of segment files from which on new ones become longer.
    longer_from: u64,
    /// The number of records of a rollback for which it needs one force.
    undo_records_per_force: u64,
    /// The numbers of segments that exist, and of those of them that are taken. In one word: of a short file that is freed, or
    /// taken, both change at the same time (E16.10a).
    segments: AtomicU64,
    /// For each partition, the sequence number after its newest segment that counts as taken.
    taken_before: Vec<AtomicU64>,
    /// Apart from what each update reads.
    reserved: Alone<AtomicU64>,
    overdrawn: AtomicU64,
    /// Held while segments are created for a reservation that did not fit.
    pub(crate) growing: Mutex<()>,
}

/// One segment that exists, and one that holds, or will hold, records still kept, in the word that counts both.
const PREPARED: u64 = 1 << 32;
const TAKEN: u64 = 1;

/// The numbers of segments at one moment.
struct Segments {
    prepared: u64,
    taken: u64,
}

/// The use of the log's space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSpace {
    /// The maximum size of the log on disk.
    pub limit: ByteLen,
    /// The number of segment files, without those that are too short for reservations.
    pub segments: u64,
    /// The number of segments that hold records still kept, or that were begun ahead of need.
    pub segments_in_use: u64,
    /// The number of bytes reserved and not used yet. Used bytes are reported some KiB at a time.
    pub reserved: ByteLen,
    /// The number of bytes that another reservation can still get from the segments that exist.
    pub free: ByteLen,
    /// The number of bytes appended beyond their reservation; 0 unless a caller computes its reservation wrongly.
    pub overdrawn: ByteLen,
}

impl Space {
    pub(crate) fn new(partitions: u16, bytes_max: u64, options: &LogOptions) -> Space {
        let least = segments_least(partitions);
        Space {
            segment_room: AtomicU64::new(0),
            segment_len: AtomicU64::new(0),
            record_max: AtomicU64::new(u64::MAX),
            kept_back: segments_kept_back(partitions),
            bytes_max,
            bytes: AtomicU64::new(0),
            longer_from: least.saturating_add(options.segments_before_longer.unwrap_or(least)),
            undo_records_per_force: options.undo_records_per_force.min(UNDO_RECORDS_PER_FORCE_MAX),
            segments: AtomicU64::new(0),
            taken_before: (0..partitions).map(|_| AtomicU64::new(0)).collect(),
            reserved: Alone(AtomicU64::new(0)),
            overdrawn: AtomicU64::new(0),
            growing: Mutex::new(()),
        }
    }

    /// Returns the number of bytes that can be reserved in total, with the segments that exist.
    fn promisable(&self) -> u64 {
        let Segments { prepared, taken } = self.segments();
        let free = prepared.saturating_sub(taken + self.kept_back);
        free * self.segment_room() / 4 * 3
    }

    fn segments(&self) -> Segments {
        let word = self.segments.load(Ordering::Acquire);
        Segments { prepared: word >> 32, taken: word & u64::from(u32::MAX) }
    }

    fn segment_room(&self) -> u64 {
        self.segment_room.load(Ordering::Acquire)
    }

    fn segment_len(&self) -> u64 {
        self.segment_len.load(Ordering::Acquire)
    }

    /// Sets the length of new segment files. Every free one has it.
    pub(crate) fn set_segment(&self, geometry: Geometry, len: u64) {
        let record_max = if len < geometry.segment_len { geometry.room(len) / 8 } else { u64::MAX };
        self.segment_len.store(len, Ordering::Release);
        self.segment_room.store(geometry.room(len), Ordering::Release);
        self.record_max.store(record_max, Ordering::Release);
    }

    /// Whether free segments are too short for such a reservation.
    #[inline]
    pub(crate) fn needs_longer_segments(&self, forward: u64, undo: u64) -> bool {
        forward.max(undo) > self.record_max.load(Ordering::Acquire) && !planted!("short_segments_for_long_records")
    }

    /// Returns the maximum size of the log on disk.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Returns the number of segments that are never reserved.
    pub(crate) fn kept_back(&self) -> u64 {
        self.kept_back
    }

    /// Returns the padding to reserve with so many bytes of undo: a block for each force.
    pub(crate) fn undo_padding(&self, undo: u64) -> u64 {
        let records = match planted!("forces_of_small_pool_not_reserved") {
            true => UNDO_RECORDS_PER_FORCE_MAX,
            false => self.undo_records_per_force,
        };
        let per_force = UNDO_RECORD_LEN_MIN * records;
        undo.saturating_mul(BLOCK_UNIT as u64).div_ceil(per_force)
    }

    pub(crate) fn try_take(&self, bytes: u64) -> bool {
        let promisable = self.promisable();
        self.reserved
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |reserved| {
                reserved.checked_add(bytes).filter(|&all| all <= promisable)
            })
            .is_ok()
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        let before = self.reserved.0.fetch_sub(bytes, Ordering::AcqRel);
        debug_assert!(before >= bytes, "E16.1: more was given back than was taken");
    }

    /// Counts bytes that are appended beyond their reservation.
    pub(crate) fn overdraw(&self, bytes: u64) {
        self.overdrawn.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that a file is to have, before they are written, if the log may be as large (E16.10b).
    pub(crate) fn try_claim_bytes(&self, more: u64) -> bool {
        let larger = |bytes: u64| bytes.checked_add(more).filter(|&all| all <= self.bytes_max);
        self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, larger).is_ok()
    }

    /// Counts bytes that a file is to have, whatever the limit of the log is.
    pub(crate) fn claim_bytes(&self, more: u64) {
        self.bytes.fetch_add(more, Ordering::AcqRel);
    }

    /// Counts claimed bytes no longer: no file that counts has them.
    pub(crate) fn release_bytes(&self, more: u64) {
        self.bytes.fetch_sub(more, Ordering::AcqRel);
    }

    /// Counts one more segment, whose bytes were claimed.
    pub(crate) fn segment_filled(&self) {
        self.segments.fetch_add(PREPARED, Ordering::AcqRel);
    }

    /// Counts one more segment, and its bytes.
    pub(crate) fn segment_prepared(&self, len: u64) {
        self.claim_bytes(len);
        self.segment_filled();
    }

    /// Counts a free segment no longer.
    fn segment_retired(&self, len: u64) {
        self.segments.fetch_sub(PREPARED, Ordering::AcqRel);
        self.bytes.fetch_sub(len, Ordering::AcqRel);
    }

    /// Counts a taken segment as free; one that is too short for that no longer.
    pub(crate) fn segment_freed(&self, len: u64, is_short: bool) {
        self.segments.fetch_sub(if is_short { PREPARED + TAKEN } else { TAKEN }, Ordering::AcqRel);
        if is_short {
            self.bytes.fetch_sub(len, Ordering::AcqRel);
        }
    }

    /// Counts a free segment no longer, if no reservation needs it.
    pub(crate) fn try_retire(&self, len: u64) -> bool {
        let room = self.segment_room() / 4 * 3;
        if planted!("reserved_segment_retired") {
            self.segment_retired(len);
            return true;
        }
        let there_is = self.try_take(room);
        if there_is {
            self.segment_retired(len);
            self.give_back(room);
        }
        there_is
    }

    /// Returns the number of segments that exist beyond those that the log needs as long as its load stays as it is: those that are
    /// taken or reserved, and those that it keeps ready for more.
    pub(crate) fn spare(&self) -> u64 {
        let Segments { prepared, taken } = self.segments();
        let reserved = self.reserved.0.load(Ordering::Acquire).div_ceil(self.segment_room() / 4 * 3);
        prepared.saturating_sub(taken + reserved + self.kept_back + SEGMENTS_READY)
    }

    /// Whether the log may be larger by so many bytes.
    pub(crate) fn has_space_for(&self, more: u64) -> bool {
        self.bytes.load(Ordering::Acquire).saturating_add(more) <= self.bytes_max
    }

    /// Whether the next segments should be longer: the log is as large as twice as many of them as it needs at least, or as the
    /// options say.
    pub(crate) fn has_many_segments(&self) -> bool {
        self.bytes.load(Ordering::Acquire) >= self.longer_from.saturating_mul(self.segment_len())
    }

    /// Counts an older segment of a partition that still holds kept records.
    pub(crate) fn segment_found(&self) {
        self.segments.fetch_add(TAKEN, Ordering::AcqRel);
    }

    /// Counts a segment that its partition has reached. Segments are reached one after the other, and each counts
    /// once.
    pub(crate) fn segment_taken(&self, partition: PartitionId, sequence: u64) {
        let before = self.taken_before[partition.index()].fetch_max(sequence + 1, Ordering::AcqRel);
        if before <= sequence {
            self.segments.fetch_add(TAKEN, Ordering::AcqRel);
        }
    }

    /// Counts a segment as taken before its partition reaches it, if there is space for it and another one beyond all
    /// reservations, and if half of the reservable space stays free.
    pub(crate) fn take_ahead(&self, partition: PartitionId, sequence: u64) -> bool {
        // A thread that finds no space meanwhile waits for this latch, and tries again.
        let _alone = self.growing.lock();
        let room = self.room_ahead().max(self.promisable() / 2);
        let there_is = self.try_take(room);
        if there_is {
            // Reserved while it is counted, so that no reservation takes this space in between.
            self.segment_taken(partition, sequence);
            self.give_back(room);
        }
        there_is
    }

    /// Returns the space that should be free beyond all reservations: a segment to begin, and another one for
    /// concurrent requests.
    fn room_ahead(&self) -> u64 {
        2 * (self.segment_room() / 4 * 3)
    }

    /// Whether more segments should be prepared, to be ahead of need.
    pub(crate) fn is_short(&self) -> bool {
        let reserved = self.reserved.0.load(Ordering::Acquire);
        self.may_grow() && self.promisable() < reserved + self.room_ahead()
    }

    /// Whether at most half of the room that the log can still promise, with all segments that may be made, is reserved.
    pub(crate) fn has_room_to_spare(&self) -> bool {
        let Segments { prepared, taken } = self.segments();
        let others = self.bytes_max.saturating_sub(self.bytes.load(Ordering::Acquire)) / self.segment_len();
        let free = (prepared + others).saturating_sub(taken + self.kept_back);
        self.reserved.0.load(Ordering::Acquire) <= free * self.segment_room() / 4 * 3 / 2
    }

    /// Whether there is no space for the padding of a reservation: a rollback pays for the rests of blocks from segments
    /// that are never reserved.
    pub(crate) fn is_used_up(&self) -> bool {
        self.promisable() < self.reserved.0.load(Ordering::Acquire) + PADDING
    }

    /// Whether another segment may be created.
    pub(crate) fn may_grow(&self) -> bool {
        self.has_space_for(self.segment_len())
    }

    pub(crate) fn show(&self) -> LogSpace {
        let reserved = self.reserved.0.load(Ordering::Acquire);
        let Segments { prepared, taken } = self.segments();
        LogSpace {
            limit: ByteLen(self.bytes_max),
            segments: prepared,
            segments_in_use: taken,
            reserved: ByteLen(reserved),
            free: ByteLen(self.promisable().saturating_sub(reserved)),
            overdrawn: ByteLen(self.overdrawn.load(Ordering::Acquire)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reservation::Reservation;
    use cedrat_sync::{Arc, explore, thread};

    /// The room of a segment.
    const ROOM: u64 = (1 << 20) - 4096;

    fn space_of(bytes_max: u64) -> Space {
        let space = Space::new(1, bytes_max, &LogOptions::default());
        space.set_segment(Geometry { segment_len: 1 << 20 }, 1 << 20);
        space
    }

    /// A segment begun ahead counts once, and never takes space that a reservation might still request at the limit.
    #[test]
    fn space_taken_ahead_counts_once() {
        explore(1, 1, || {
            let space = Arc::new(space_of(10 << 20));
            space.segments.store(6 * PREPARED, Ordering::Relaxed);
            space.segment_taken(PartitionId(0), 0);
            let piece = ROOM / 4 * 3;
            assert_eq!(space.show().free, ByteLen(3 * piece));
            assert!(space.take_ahead(PartitionId(0), 1));
            assert_eq!(space.show().free, ByteLen(2 * piece), "E16.1");
            space.segment_taken(PartitionId(0), 1);
            assert_eq!(space.show().free, ByteLen(2 * piece), "it counted already");
            let mut one = Reservation::empty(&space, false);
            assert!(one.try_grow(piece - PADDING, 0));
            assert!(!space.take_ahead(PartitionId(0), 2), "E16.1: the last segment is for those who ask");
            assert!(one.try_grow(piece, 0), "E16.1");
            drop(one);
            assert_eq!(space.show().reserved, ByteLen(0));
        });
    }

    /// However much space there is for a segment begun ahead, half of the reservable space stays free.
    #[test]
    fn space_ahead_leaves_half_to_others() {
        explore(1, 1, || {
            let space = Arc::new(space_of(100 << 20));
            space.segments.store(20 * PREPARED, Ordering::Relaxed);
            space.segment_taken(PartitionId(0), 0);
            let piece = ROOM / 4 * 3;
            assert_eq!(space.show().free, ByteLen(17 * piece));
            let mut one = Reservation::empty(&space, false);
            assert!(one.try_grow(9 * piece - PADDING, 0));
            assert!(space.show().free.0 > 2 * space.room_ahead(), "there is room for it and for more");
            assert!(!space.take_ahead(PartitionId(0), 1), "E16.1: more than half is promised");
            assert_eq!(space.show().free, ByteLen(8 * piece), "a refusal takes nothing");
            drop(one);
            let mut other = Reservation::empty(&space, false);
            assert!(other.try_grow(8 * piece - PADDING, 0));
            assert!(space.take_ahead(PartitionId(0), 1));
            assert_eq!(space.show().free, ByteLen(8 * piece), "only the segment itself went");
            assert_eq!(space.show().reserved, ByteLen(8 * piece));
        });
    }

    /// A short segment that is taken, or freed, is never space for reservations.
    #[test]
    fn short_segments_are_never_promised() {
        explore(2, 2000, || {
            let space = Arc::new(space_of(10 << 20));
            space.segments.store(6 * PREPARED, Ordering::Relaxed);
            (0..4).for_each(|sequence| space.segment_taken(PartitionId(0), sequence));
            assert_eq!(space.show().free, ByteLen(0));
            let other = {
                let space = Arc::clone(&space);
                thread::spawn(move || {
                    space.segment_taken(PartitionId(0), 4);
                    space.segment_prepared(0);
                    space.segment_freed(0, true);
                })
            };
            assert_eq!(space.show().free, ByteLen(0), "E16.10a");
            other.join().expect("no panic");
            assert_eq!(space.show().free, ByteLen(0));
        });
    }
}
