//! Room in the log, so that a rollback always has some (E16).
//!
//! The unit of the disk is a prepared segment: its file exists, filled and synced, so that writing it cannot meet a
//! full disk. The unit of the promise is a byte. A reservation is granted when the prepared segments that nobody
//! uses could take it in the worst case:
//!
//! - one segment per partition and one more are never promised: each partition may stop short of filling its last
//!   one, and committing fills blocks up to 4 KiB without anybody having asked for that;
//! - of the others three quarters are promised; the rest covers block headers and the ends of segments that a record
//!   did not fit into (a record is at most an eighth of a segment).
//!
//! What is appended is taken from the reservation; that it lies in a segment now shows in `taken`. A segment that is begun ahead of
//! need counts as taken from then on, for no other partition can have it; none is where less than half of what can be promised
//! would stay free.

use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex};

use crate::{ByteLen, PartitionId};

/// How much a reservation asks for at a time, to keep shared counters out of the way of small updates.
const ASKED_AT_LEAST: u64 = 8 * 1024;

/// Segments that are never promised to anybody.
pub(crate) const fn segments_kept_back(partitions: u16) -> u64 {
    partitions as u64 + 1
}

/// A reservation tells the shared accounts of what was used when it is so much. Until then they count more as reserved
/// than is, which promises too little, never too much (E16.1).
const TOLD_AT_MOST: u64 = 8 * 1024;

/// The fewest segments with which a log can work: one in use per partition, those kept back, and one to promise.
pub(crate) const fn segments_least(partitions: u16) -> u64 {
    partitions as u64 + segments_kept_back(partitions) + 1
}

/// The accounts.
#[derive(Debug)]
pub(crate) struct Space {
    /// Bytes for blocks in one segment.
    segment_capacity: u64,
    kept_back: u64,
    pub(crate) segments_max: u64,
    /// Segments that exist.
    prepared: AtomicU64,
    /// Segments that hold, or will hold, what was appended and is still kept.
    taken: AtomicU64,
    /// For each partition, the sequence number behind its newest segment that counts as taken.
    taken_before: Vec<AtomicU64>,
    reserved: AtomicU64,
    overdrawn: AtomicU64,
    /// Held while segments are made for a reservation that there was no room for.
    pub(crate) growing: Mutex<()>,
}

/// How the log's room is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSpace {
    /// The log may take this many bytes on disk.
    pub limit: ByteLen,
    /// Segment files that exist.
    pub segments: u64,
    /// Segments that hold records still kept, or were begun ahead of need.
    pub segments_in_use: u64,
    /// Bytes reserved and not used yet. What was used is told some KiB at a time.
    pub reserved: ByteLen,
    /// Bytes that another reservation can still get from the segments that exist.
    pub free: ByteLen,
    /// Bytes appended beyond what was reserved for them; 0 unless somebody above counts wrongly.
    pub overdrawn: ByteLen,
}

impl Space {
    pub(crate) fn new(segment_capacity: u64, partitions: u16, segments_max: u64) -> Space {
        Space {
            segment_capacity,
            kept_back: segments_kept_back(partitions),
            segments_max,
            prepared: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            taken_before: (0..partitions).map(|_| AtomicU64::new(0)).collect(),
            reserved: AtomicU64::new(0),
            overdrawn: AtomicU64::new(0),
            growing: Mutex::new(()),
        }
    }

    /// What may be promised in all, with the segments that exist.
    fn promisable(&self) -> u64 {
        let prepared = self.prepared.load(Ordering::Acquire);
        let taken = self.taken.load(Ordering::Acquire);
        let free = prepared.saturating_sub(taken + self.kept_back);
        free * self.segment_capacity / 4 * 3
    }

    fn try_take(&self, bytes: u64) -> bool {
        let promisable = self.promisable();
        self.reserved
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |reserved| {
                reserved.checked_add(bytes).filter(|&all| all <= promisable)
            })
            .is_ok()
    }

    fn give_back(&self, bytes: u64) {
        let before = self.reserved.fetch_sub(bytes, Ordering::AcqRel);
        debug_assert!(before >= bytes, "E16.1: more was given back than was taken");
    }

    /// One more segment exists.
    pub(crate) fn segment_prepared(&self) {
        self.prepared.fetch_add(1, Ordering::AcqRel);
    }

    /// An older segment of some partition holds what is kept.
    pub(crate) fn segment_found(&self) {
        self.taken.fetch_add(1, Ordering::AcqRel);
    }

    /// A partition has got to its segment with this number. It gets to one after the other, and each counts once.
    pub(crate) fn segment_taken(&self, partition: PartitionId, sequence: u64) {
        let before = self.taken_before[partition.index()].fetch_max(sequence + 1, Ordering::AcqRel);
        if before <= sequence {
            self.taken.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Counts a segment as taken before its partition gets there, if there is room for it and another one beside all that is
    /// promised, and half of it all.
    pub(crate) fn take_ahead(&self, partition: PartitionId, sequence: u64) -> bool {
        // Whoever finds no room meanwhile waits for this latch, and asks again.
        let _alone = self.growing.lock();
        let room = self.room_ahead().max(self.promisable() / 2);
        let there_is = self.try_take(room);
        if there_is {
            // Held while it is counted: so nobody is promised in between what it takes away.
            self.segment_taken(partition, sequence);
            self.give_back(room);
        }
        there_is
    }

    /// What should be free beside all that is promised: a segment to begin, and another one for those who ask meanwhile.
    fn room_ahead(&self) -> u64 {
        2 * (self.segment_capacity / 4 * 3)
    }

    /// Whole segments were given back.
    pub(crate) fn segments_recycled(&self, count: u64) {
        self.taken.fetch_sub(count, Ordering::AcqRel);
    }

    /// Whether more segments should be prepared, to be ahead of need.
    pub(crate) fn is_short(&self) -> bool {
        let reserved = self.reserved.load(Ordering::Acquire);
        let prepared = self.prepared.load(Ordering::Acquire);
        prepared < self.segments_max && self.promisable() < reserved + self.room_ahead()
    }

    /// Whether another segment may be made.
    pub(crate) fn may_grow(&self) -> bool {
        self.prepared.load(Ordering::Acquire) < self.segments_max
    }

    pub(crate) fn show(&self, segment_len: u64) -> LogSpace {
        let reserved = self.reserved.load(Ordering::Acquire);
        LogSpace {
            limit: ByteLen(self.segments_max * segment_len),
            segments: self.prepared.load(Ordering::Acquire),
            segments_in_use: self.taken.load(Ordering::Acquire),
            reserved: ByteLen(reserved),
            free: ByteLen(self.promisable().saturating_sub(reserved)),
            overdrawn: ByteLen(self.overdrawn.load(Ordering::Acquire)),
        }
    }
}

/// Which part of a reservation appends are paid from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spending {
    /// Ordinary work: the forward part. It never touches the part for undo (E16.2).
    Forward,
    /// Compensation, and whatever a logical undo logs: the undo part, then the forward part.
    Undo,
}

/// Room in the log that was promised: some for forward records, some for their undo (E16.1).
///
/// A transaction keeps one from its first record to its last. Dropping it gives back what is left.
#[derive(Debug)]
pub struct Reservation {
    space: Arc<Space>,
    forward: u64,
    undo: u64,
    /// Taken from the account and not asked for yet.
    spare: u64,
    /// Used, and not given back to the account yet: many threads share that, and each record would disturb them all.
    used: u64,
    spending: Spending,
    /// Recovery spends what the run before it had reserved.
    unlimited: bool,
}

impl Reservation {
    pub(crate) fn empty(space: &Arc<Space>, unlimited: bool) -> Reservation {
        let space = Arc::clone(space);
        Reservation { space, forward: 0, undo: 0, spare: 0, used: 0, spending: Spending::Forward, unlimited }
    }

    /// Takes room from what exists; `false` if that is not enough.
    #[inline]
    pub(crate) fn try_grow(&mut self, forward: u64, undo: u64) -> bool {
        let asked = forward.saturating_add(undo);
        if self.spare < asked && !self.take(asked) {
            return false;
        }
        self.spare -= asked;
        self.forward += forward;
        self.undo += undo;
        true
    }

    #[cold]
    fn take(&mut self, asked: u64) -> bool {
        self.tell();
        let missing = asked - self.spare;
        // Some more than asked, so that the next small updates need not come here; but not at the border.
        for bytes in [missing.max(ASKED_AT_LEAST), missing] {
            if self.space.try_take(bytes) {
                self.spare += bytes;
                return true;
            }
        }
        false
    }

    /// Pays for a record of `bytes`.
    #[inline]
    pub(crate) fn pay(&mut self, bytes: u64) {
        if self.unlimited {
            return;
        }
        let mut due = bytes;
        if self.spending == Spending::Undo {
            due -= pay_from(&mut self.undo, due);
        }
        due -= pay_from(&mut self.forward, due);
        if due > 0 {
            due -= self.overdraw(due);
        }
        self.used += bytes - due;
        if self.used >= TOLD_AT_MOST {
            self.tell();
        }
    }

    /// Pays what was not asked for: from what was taken ahead, and what that cannot pay is counted. Returns what it paid.
    #[cold]
    fn overdraw(&mut self, due: u64) -> u64 {
        let paid = pay_from(&mut self.spare, due);
        self.space.overdrawn.fetch_add(due - paid, Ordering::Relaxed);
        paid
    }

    #[cold]
    fn tell(&mut self) {
        self.space.give_back(std::mem::take(&mut self.used));
    }

    /// Which part appends are paid from, from now on. A fresh reservation spends [`Spending::Forward`].
    pub fn spend(&mut self, spending: Spending) {
        self.spending = spending;
    }

    /// Bytes left for forward records.
    pub fn forward(&self) -> ByteLen {
        ByteLen(self.forward)
    }

    /// Bytes left for undo.
    pub fn undo(&self) -> ByteLen {
        ByteLen(self.undo)
    }

    /// Gives up the part for undo: the transaction committed, or the undo of something can no longer be asked for.
    pub fn release_undo(&mut self) {
        self.spare += std::mem::take(&mut self.undo);
    }
}

#[inline]
fn pay_from(account: &mut u64, due: u64) -> u64 {
    let paid = due.min(*account);
    *account -= paid;
    paid
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.space.give_back(self.forward + self.undo + self.spare + self.used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat_sync::explore;

    fn space() -> Arc<Space> {
        let space = Space::new(1 << 20, 1, 10);
        space.prepared.store(4, Ordering::Relaxed);
        space.taken.store(1, Ordering::Relaxed);
        Arc::new(space)
    }

    #[test]
    fn what_is_promised_is_there_and_no_more() {
        explore(1, 1, || {
            let space = space();
            let promisable = (1 << 20) / 4 * 3;
            let mut one = Reservation::empty(&space, false);
            assert!(one.try_grow(promisable - 100, 60), "E16.1");
            assert!(!one.try_grow(30, 30), "E16.1");
            assert!(one.try_grow(20, 20), "E16.1");
            drop(one);
            assert_eq!(space.show(0).reserved, ByteLen(0));
        });
    }

    /// A segment begun ahead counts once, and never takes what somebody might still ask for at the border.
    #[test]
    fn what_is_taken_ahead_counts_once_and_leaves_room() {
        explore(1, 1, || {
            let space = Arc::new(Space::new(1 << 20, 1, 10));
            space.prepared.store(6, Ordering::Relaxed);
            space.segment_taken(PartitionId(0), 0);
            let piece = (1 << 20) / 4 * 3;
            assert_eq!(space.show(0).free, ByteLen(3 * piece));
            assert!(space.take_ahead(PartitionId(0), 1));
            assert_eq!(space.show(0).free, ByteLen(2 * piece), "E16.1");
            space.segment_taken(PartitionId(0), 1);
            assert_eq!(space.show(0).free, ByteLen(2 * piece), "it counted already");
            let mut one = Reservation::empty(&space, false);
            assert!(one.try_grow(piece, 0));
            assert!(!space.take_ahead(PartitionId(0), 2), "E16.1: the last segment is for those who ask");
            assert!(one.try_grow(piece, 0), "E16.1");
            drop(one);
            assert_eq!(space.show(0).reserved, ByteLen(0));
        });
    }

    /// However much room there is for a segment begun ahead, half of all that can be promised stays for those who ask.
    #[test]
    fn what_is_taken_ahead_leaves_half_to_others() {
        explore(1, 1, || {
            let space = Arc::new(Space::new(1 << 20, 1, 100));
            space.prepared.store(20, Ordering::Relaxed);
            space.segment_taken(PartitionId(0), 0);
            let piece = (1 << 20) / 4 * 3;
            assert_eq!(space.show(0).free, ByteLen(17 * piece));
            let mut one = Reservation::empty(&space, false);
            assert!(one.try_grow(9 * piece, 0));
            assert!(space.show(0).free.0 > 2 * space.room_ahead(), "there is room for it and for more");
            assert!(!space.take_ahead(PartitionId(0), 1), "E16.1: more than half is promised");
            assert_eq!(space.show(0).free, ByteLen(8 * piece), "a refusal takes nothing");
            drop(one);
            let mut other = Reservation::empty(&space, false);
            assert!(other.try_grow(8 * piece, 0));
            assert!(space.take_ahead(PartitionId(0), 1));
            assert_eq!(space.show(0).free, ByteLen(8 * piece), "only the segment itself went");
            assert_eq!(space.show(0).reserved, ByteLen(8 * piece));
        });
    }

    #[test]
    fn forward_work_does_not_touch_the_undo_part() {
        explore(1, 1, || {
            let space = space();
            let mut one = Reservation::empty(&space, false);
            assert!(one.try_grow(100, 200));
            one.pay(80);
            assert_eq!((one.forward(), one.undo()), (ByteLen(20), ByteLen(200)));
            one.spend(Spending::Undo);
            one.pay(150);
            assert_eq!((one.forward(), one.undo()), (ByteLen(20), ByteLen(50)), "E16.2");
            one.spend(Spending::Forward);
            one.pay(20);
            assert_eq!(one.undo(), ByteLen(50), "E16.2");
            one.release_undo();
            assert_eq!(one.undo(), ByteLen(0));
            assert_eq!(space.show(0).overdrawn, ByteLen(0));
            drop(one);
            assert_eq!(space.show(0).reserved, ByteLen(0));
        });
    }

    /// Many small records are told of together; what the accounts say meanwhile is never less than what is reserved.
    #[test]
    fn what_was_used_is_told_in_time() {
        explore(1, 1, || {
            let space = space();
            let mut one = Reservation::empty(&space, false);
            for _ in 0..10_000 {
                assert!(one.try_grow(100, 0), "E16.1: what was used comes back");
                one.pay(100);
                let reserved = space.show(0).reserved.0;
                assert!(reserved >= one.forward().0 + one.undo().0, "E16.1");
                assert!(reserved <= ASKED_AT_LEAST + TOLD_AT_MOST, "{reserved}");
            }
            // At the border the last bytes can be had, for what was used is told first.
            let left = space.show(0).free.0 + one.used + one.spare;
            assert!(one.try_grow(left, 0), "E16.1");
            assert!(!one.try_grow(1, 0), "E16.1");
            drop(one);
            assert_eq!(space.show(0).reserved, ByteLen(0));
        });
    }

    #[test]
    fn what_nobody_reserved_is_counted() {
        explore(1, 1, || {
            let space = space();
            let mut one = Reservation::empty(&space, false);
            one.pay(10);
            assert_eq!(space.show(0).overdrawn, ByteLen(10));
        });
    }
}
