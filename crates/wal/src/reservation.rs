//! Reservations of log space, from which records and the padding of blocks are paid.

use cedrat_sync::atomic::Ordering;
use cedrat_sync::{Arc, planted};

use crate::log::Log;
use crate::space::{PADDING, Space};
use crate::{ByteLen, LogFull};

/// The minimum number of bytes that a reservation requests at a time, so that small updates do not touch shared
/// counters.
const ASKED_AT_LEAST: u64 = 8 * 1024;

/// The number of used bytes from which a reservation reports them to the shared account. Until then they still count
/// as reserved, so the account grants too little, never too much (E16.1).
const UNREPORTED_MAX: u64 = 8 * 1024;

/// Log space of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) record: u64,
    /// Padding of the blocks before the record.
    pub(crate) padding: u64,
}

/// The part of a reservation that pays for appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spending {
    /// The forward part, for ordinary work. It never touches the undo part.
    Forward,
    /// The undo part, then the forward part, for compensation and the records of a logical undo.
    Undo,
}

/// Reserved log space: one part for forward records, one for their undo.
///
/// A transaction keeps a reservation from its first record to its last. Dropping it returns the unused rest.
#[derive(Debug)]
pub struct Reservation {
    space: Arc<Space>,
    forward: u64,
    undo: u64,
    /// For the padding of blocks: [`PADDING`], and the padding reserved with undo.
    padding: u64,
    undo_padding: u64,
    /// Padding for which no space was left. It makes `forward` smaller for all records but the one that ends the transaction.
    padding_owed: u64,
    /// Taken from the account and not assigned yet.
    spare: u64,
    /// Used, but not yet returned to the account: threads share the account, and an update per record would contend
    /// for it.
    used: u64,
    /// Log bytes taken by its records, without padding.
    paid: u64,
    spending: Spending,
    /// Set for recovery, which spends the reservations of the previous run.
    unlimited: bool,
}

impl Reservation {
    pub(crate) fn empty(space: &Arc<Space>, unlimited: bool) -> Reservation {
        let space = Arc::clone(space);
        Reservation {
            space,
            forward: 0,
            undo: 0,
            padding: 0,
            undo_padding: 0,
            padding_owed: 0,
            spare: 0,
            used: 0,
            paid: 0,
            spending: Spending::Forward,
            unlimited,
        }
    }

    /// Takes space from existing segments; `false` if they do not suffice.
    #[inline]
    pub(crate) fn try_grow(&mut self, forward: u64, undo: u64) -> bool {
        if forward == 0 && undo == 0 {
            return true;
        }
        if self.space.needs_longer_segments(forward, undo) {
            return false;
        }
        // Padding that was spent is missing in `forward()`, so a caller that checks there requests it again.
        let missing = self.padding_missing();
        let moved = missing.min(self.forward);
        let undo_padding = if planted!("undo_without_padding") { 0 } else { self.space.undo_padding(undo) };
        let asked = forward.saturating_add(undo).saturating_add(undo_padding).saturating_add(missing - moved);
        if self.spare < asked && !self.take(asked) {
            return false;
        }
        self.spare -= asked;
        self.forward += forward;
        self.forward -= moved;
        self.padding = PADDING;
        self.used += std::mem::take(&mut self.padding_owed);
        self.undo += undo;
        self.undo_padding += undo_padding;
        true
    }

    #[cold]
    fn take(&mut self, asked: u64) -> bool {
        self.tell();
        let missing = asked - self.spare;
        // Some more than requested, so that the next small updates need not get here; but not at the limit.
        for bytes in [missing.max(ASKED_AT_LEAST), missing] {
            if self.space.try_take(bytes) {
                self.spare += bytes;
                return true;
            }
        }
        false
    }

    /// Pays for a record.
    #[inline]
    pub(crate) fn pay(&mut self, cost: Cost) {
        self.paid += cost.record;
        if self.unlimited {
            return;
        }
        if cost.padding > 0 {
            self.pay_padding(cost.padding);
        }
        let bytes = cost.record;
        let mut due = bytes;
        if self.spending == Spending::Undo || planted!("undo_part_spent_forward") {
            due -= pay_from(&mut self.undo, due);
        }
        due -= pay_from(&mut self.forward, due);
        if due > 0 {
            due -= self.overdraw(due);
        }
        self.used += bytes - due;
        if self.used >= UNREPORTED_MAX {
            self.tell();
        }
    }

    /// Pays for the padding of blocks: from the padding reserved for them, then from new space. If there is none, the padding takes
    /// space that is never reserved (E16.2). Forward work pays that back from its next records, but not from the one that ends
    /// the transaction, which is appended without another request (E16.7b).
    ///
    /// A rollback takes new space first: while there is some, other threads can force the log, and its own padding is for its
    /// own forces.
    #[cold]
    fn pay_padding(&mut self, padding: u64) {
        let mut due = padding;
        if self.spending == Spending::Undo {
            due = self.take_padding(due);
            due -= pay_from(&mut self.undo_padding, due);
        }
        due -= pay_from(&mut self.padding, due);
        due -= pay_from(&mut self.spare, due);
        due = self.take_padding(due);
        if self.spending == Spending::Forward && planted!("end_pays_padding") {
            due -= pay_from(&mut self.forward, due);
        } else if self.spending == Spending::Forward {
            self.padding_owed += due;
        }
        self.used += padding - due;
    }

    /// Returns the sum of the padding that was spent and the padding that is owed.
    #[inline]
    fn padding_missing(&self) -> u64 {
        PADDING - self.padding + self.padding_owed
    }

    /// Takes new space for padding. Returns the number of bytes for which there is none.
    fn take_padding(&self, due: u64) -> u64 {
        if due > 0 && self.space.try_take(due) { 0 } else { due }
    }

    /// Pays for bytes that were not requested, from bytes taken ahead, and counts the rest as overdrawn. Returns the number of
    /// bytes paid.
    #[cold]
    fn overdraw(&mut self, due: u64) -> u64 {
        let paid = pay_from(&mut self.spare, due);
        self.space.overdraw(due - paid);
        paid
    }

    #[cold]
    fn tell(&mut self) {
        self.space.give_back(std::mem::take(&mut self.used));
    }

    /// Returns the unused part, for [`Log::adopt_reservation`](crate::Log::adopt_reservation).
    #[inline]
    pub fn outstanding(&self) -> Outstanding {
        let left = self.forward + self.undo + self.spare;
        Outstanding { left, padding: self.padding + self.undo_padding, used: self.used }
    }

    /// Drops the reservation and returns nothing: another reservation [has adopted](crate::Log::adopt_reservation)
    /// the rest.
    pub fn abandon(mut self) {
        (self.forward, self.undo, self.spare, self.used) = (0, 0, 0, 0);
        (self.padding, self.undo_padding) = (0, 0);
    }

    pub(crate) fn adopt(space: &Arc<Space>, outstanding: Outstanding) -> Reservation {
        let mut adopted = Reservation::empty(space, false);
        let Outstanding { left, padding, used } = outstanding;
        (adopted.undo, adopted.undo_padding, adopted.used) = (left, padding, used);
        adopted.spending = Spending::Undo;
        adopted
    }

    /// Returns the part that pays for appends.
    #[inline]
    pub(crate) fn spending(&self) -> Spending {
        self.spending
    }

    /// Sets the part that pays for appends from now on. A fresh reservation spends [`Spending::Forward`].
    pub fn spend(&mut self, spending: Spending) {
        self.spending = spending;
    }

    /// Returns the number of bytes left for forward records. They are fewer than were reserved if other threads have forced the log
    /// meanwhile, because a force closes blocks that are not full.
    pub fn forward(&self) -> ByteLen {
        match self.unlimited {
            true => ByteLen(self.forward),
            false => ByteLen(self.forward.saturating_sub(self.padding_missing())),
        }
    }

    /// Returns the number of bytes left for undo.
    pub fn undo(&self) -> ByteLen {
        ByteLen(self.undo)
    }

    /// Returns the number of log bytes that its records have taken, forward and undo.
    pub fn paid(&self) -> ByteLen {
        ByteLen(self.paid)
    }

    /// Releases the part for undo: the transaction committed, or an undo cannot be requested any more.
    pub fn release_undo(&mut self) {
        self.spare += std::mem::take(&mut self.undo) + std::mem::take(&mut self.undo_padding);
    }
}

/// The unused part of a reservation, for a transfer when its owner cannot use it any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// The number of bytes for records that were not appended yet.
    pub left: u64,
    /// The number of bytes for the padding of blocks.
    pub padding: u64,
    /// The number of bytes that were used and still count as reserved.
    pub used: u64,
}

#[inline]
fn pay_from(account: &mut u64, due: u64) -> u64 {
    let paid = due.min(*account);
    *account -= paid;
    paid
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let padding = self.padding + self.undo_padding;
        self.space.give_back(self.forward + self.undo + padding + self.spare + self.used);
    }
}

impl Log {
    /// Reserves log space for records and for undoing them; [`record_len_bound`](crate::record_len_bound)
    /// returns the space that a record takes. May wait for the disk, so the caller must hold no latch for which other
    /// threads wait.
    ///
    /// # Errors
    ///
    /// If there is no space, nothing has happened; the error names the remedy.
    pub fn reserve(&self, forward: ByteLen, undo: ByteLen) -> Result<Reservation, LogFull> {
        self.shared().check_running()?;
        if self.shared().is_read_only.load(Ordering::Relaxed) {
            return Err(LogFull::ReadOnly);
        }
        let mut reservation = Reservation::empty(&self.shared().space, false);
        self.reserve_more(&mut reservation, forward, undo)?;
        Ok(reservation)
    }

    /// Refuses reservations from now on, with [`LogFull::ReadOnly`]. Those that exist keep their space.
    pub fn refuse_records(&self) {
        self.shared().is_read_only.store(true, Ordering::Relaxed);
    }

    /// Adds space to a reservation. Cheap as long as the space reserved ahead lasts; else as [`Log::reserve`].
    ///
    /// # Errors
    ///
    /// If there is no space, the reservation is unchanged.
    #[inline]
    pub fn reserve_more(&self, reservation: &mut Reservation, forward: ByteLen, undo: ByteLen) -> Result<(), LogFull> {
        if reservation.try_grow(forward.0, undo.0) {
            return Ok(());
        }
        self.shared().make_space(reservation, forward.0, undo.0)
    }

    /// Whether records of this length, or their undo, need longer segment files (E16.10), also in a reservation that has the space:
    /// it may come from several requests. A request for a whole record makes the files longer. Cheap.
    #[inline]
    pub fn needs_longer_segments(&self, forward: ByteLen, undo: ByteLen) -> bool {
        self.shared().space.needs_longer_segments(forward.0, undo.0)
    }

    /// Takes over the rest of another reservation ([`Reservation::outstanding`]), all of it for undo. The other one
    /// is [abandoned](Reservation::abandon), and not used any more.
    pub fn adopt_reservation(&self, outstanding: Outstanding) -> Reservation {
        Reservation::adopt(&self.shared().space, outstanding)
    }

    /// Creates a reservation without a limit, for recovery only: it spends the space that the previous run had
    /// reserved for undo.
    pub fn reservation_for_recovery(&self) -> Reservation {
        Reservation::empty(&self.shared().space, true)
    }

    /// Whether the log has space for this number of bytes of undo and their padding, whatever the previous run has reserved.
    pub fn has_room_for_undo(&self, undo: ByteLen) -> bool {
        let space = &self.shared().space;
        undo.0.saturating_add(space.undo_padding(undo.0)) <= self.space().free.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::LogOptions;
    use crate::segment::Geometry;
    use cedrat_sync::explore;

    const SEGMENT_LEN: u64 = 1 << 20;

    /// Returns an account of one partition with four segments, one of them taken.
    fn space() -> Arc<Space> {
        let geometry = Geometry { segment_len: SEGMENT_LEN };
        let space = Space::new(1, 10 * SEGMENT_LEN, &LogOptions::default());
        space.set_segment(geometry, SEGMENT_LEN);
        (0..4).for_each(|_| space.segment_prepared(SEGMENT_LEN));
        space.segment_found();
        Arc::new(space)
    }

    fn record(len: u64) -> Cost {
        Cost { record: len, padding: 0 }
    }

    /// Padding that was spent is requested again before anything else, and never taken from records.
    #[test]
    fn padding_is_replaced_before_more_is_reserved() {
        explore(1, 1, || {
            let space = space();
            let mut one = Reservation::empty(&space, false);
            assert!(one.try_grow(10_000, 800));
            assert_eq!((one.forward(), one.undo()), (ByteLen(10_000), ByteLen(800)));
            assert_eq!(one.outstanding().padding, PADDING + 800 / 8, "E16.1: undo closes blocks as well");
            one.pay(Cost { record: 100, padding: 4000 });
            assert_eq!(one.forward(), ByteLen(10_000 - 100 - 4000), "E16.7");
            assert!(one.try_grow(4100, 0));
            assert_eq!(one.forward(), ByteLen(10_000), "E16.7");
            for _ in 0..100 {
                one.pay(Cost { record: 0, padding: 4000 });
            }
            assert_eq!((one.forward, one.undo()), (10_000, ByteLen(800)), "E16.7: records have what was reserved");
            assert!(space.show().reserved.0 >= 10_800);
            drop(one);
            assert_eq!(space.show().reserved, ByteLen(0));
        });
    }

    /// Forces close blocks before the last update of a transaction and before its end, and there is no space for that.
    #[test]
    fn end_of_transaction_keeps_its_space() {
        explore(1, 1, || {
            let space = space();
            let mut one = Reservation::empty(&space, false);
            let mut others = Reservation::empty(&space, false);
            assert!(one.try_grow(100 + 22, 100));
            one.pay(Cost { record: 100, padding: PADDING });
            while others.try_grow(1000, 0) {}
            assert!(one.forward() == ByteLen(0) && !one.try_grow(1, 0), "E16.7: the next update is refused");
            one.pay(Cost { record: 22, padding: PADDING });
            assert_eq!(space.show().overdrawn, ByteLen(0), "E16.7b");
            drop((one, others));
            assert_eq!(space.show().reserved, ByteLen(0), "E16.1");
        });
    }

    /// Owed padding is replaced with the padding that was spent, and reported once.
    #[test]
    fn owed_padding_is_replaced() {
        explore(1, 1, || {
            let space = space();
            let mut one = Reservation::empty(&space, false);
            assert!(one.try_grow(20_000, 0));
            let mut others = Reservation::empty(&space, false);
            while others.try_grow(1000, 0) {}
            one.pay(Cost { record: 100, padding: 2 * PADDING });
            assert_eq!(one.forward(), ByteLen(20_000 - 100 - 2 * PADDING), "E16.7");
            drop(others);
            assert!(one.try_grow(2 * PADDING, 0));
            assert_eq!((one.forward(), one.outstanding().padding), (ByteLen(20_000 - 100), PADDING), "E16.7");
            drop(one);
            assert_eq!(space.show().reserved, ByteLen(0), "E16.1");
        });
    }

    #[test]
    fn reserved_space_is_available_and_bounded() {
        explore(1, 1, || {
            let space = space();
            let promisable = Geometry { segment_len: SEGMENT_LEN }.room(SEGMENT_LEN) / 4 * 3;
            let mut one = Reservation::empty(&space, false);
            assert!(one.try_grow(promisable - PADDING - 100, 60), "E16.1");
            assert!(!one.try_grow(30, 30), "E16.1");
            assert!(one.try_grow(10, 10), "E16.1");
            drop(one);
            assert_eq!(space.show().reserved, ByteLen(0));
        });
    }

    #[test]
    fn adopted_reservation_is_given_back_once() {
        explore(1, 1, || {
            let space = space();
            let mut one = Reservation::empty(&space, false);
            assert!(one.try_grow(100, 200));
            one.pay(record(80));
            let reserved = space.show().reserved;
            let mut adopted = Reservation::adopt(&space, one.outstanding());
            one.abandon();
            assert_eq!(space.show().reserved, reserved, "E16.1: abandoning gives nothing back");
            adopted.pay(record(220));
            assert_eq!(space.show().overdrawn, ByteLen(0));
            drop(adopted);
            assert_eq!(space.show().reserved, ByteLen(0));
        });
    }

    #[test]
    fn forward_work_leaves_undo_reservation_untouched() {
        explore(1, 1, || {
            let space = space();
            let mut one = Reservation::empty(&space, false);
            assert!(one.try_grow(100, 200));
            one.pay(record(80));
            assert_eq!((one.forward(), one.undo()), (ByteLen(20), ByteLen(200)));
            one.spend(Spending::Undo);
            one.pay(record(150));
            assert_eq!((one.forward(), one.undo()), (ByteLen(20), ByteLen(50)), "E16.2");
            one.spend(Spending::Forward);
            one.pay(record(20));
            assert_eq!(one.undo(), ByteLen(50), "E16.2");
            one.release_undo();
            assert_eq!(one.undo(), ByteLen(0));
            assert_eq!(space.show().overdrawn, ByteLen(0));
            drop(one);
            assert_eq!(space.show().reserved, ByteLen(0));
        });
    }

    /// Many small records are reported together; meanwhile the account is never lower than the reserved bytes.
    #[test]
    fn used_space_is_reported_in_time() {
        explore(1, 1, || {
            let space = space();
            let mut one = Reservation::empty(&space, false);
            for _ in 0..10_000 {
                assert!(one.try_grow(100, 0), "E16.1: what was used comes back");
                one.pay(record(100));
                let reserved = space.show().reserved.0;
                assert!(reserved >= one.forward().0 + one.undo().0, "E16.1");
                assert!(reserved <= ASKED_AT_LEAST + UNREPORTED_MAX + PADDING, "{reserved}");
            }
            // At the limit the last bytes can be reserved, for used bytes are reported first.
            let left = space.show().free.0 + one.used + one.spare;
            assert!(one.try_grow(left, 0), "E16.1");
            assert!(!one.try_grow(1, 0), "E16.1");
            drop(one);
            assert_eq!(space.show().reserved, ByteLen(0));
        });
    }

    #[test]
    fn unreserved_space_is_counted() {
        explore(1, 1, || {
            let space = space();
            let mut one = Reservation::empty(&space, false);
            one.pay(record(10));
            assert_eq!(space.show().overdrawn, ByteLen(10));
        });
    }
}
