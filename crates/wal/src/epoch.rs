//! Epochs: the ownership of LSNs and offsets by openings of the store (E1).
//!
//! Every opening that appends is an epoch. It continues each partition where the epoch before it ended, and draws
//! LSNs above all that were seen. So each offset and each LSN has at most one owner. Everything else in the segments
//! (records beyond the first missing LSN, blocks of a segment's earlier life) has no owner and is ignored.
//!
//! # Joined epochs (E1.7)
//!
//! A checkpoint lets the log forget old epochs. Where one crash follows another without a checkpoint in between, the
//! table would outgrow the control file, and the store could not be opened any more. So the oldest epochs are
//! *joined* when the table gets long: one entry stands for several of them. It no longer records which of them owned
//! which offset, but keeps which of their LSNs are alive. No stale block becomes valid by that:
//!
//! - The newest epoch is never joined. Beyond the ends that were found when it began, where stale blocks are, each
//!   offset has one owner as before.
//! - Before those ends is one unbroken chain of blocks, each of which begins where the one before it ends. All were
//!   verified, and were synced before the newest epoch began, over whatever these offsets held before. This chain is
//!   what recovery reads.
//! - Suppose that a block of the chain were exchanged later for an older block of the same offset, damage that no
//!   crash does. Then the older block's numbers are dead: its epoch ended before them, since they were beyond the end
//!   of the log. So no record of it counts, and the missing ones are detected (E20.2).

use cedrat_sync::planted;
use std::ops::Range;

use crate::control::ControlPartition;
use crate::{LogOffset, Lsn, PartitionId};

/// The maximum distance of the numbers of joined openings: finding a record tries the seed of each of them.
pub(crate) const JOINED_MAX: u32 = 1 << 20;

/// One opening of the store, or several joined ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// The epoch's number, from 1; of joined epochs, the newest's.
    pub number: u32,
    /// Of joined epochs, the oldest's number; else the same as `number`.
    pub oldest: u32,
    /// The first LSN.
    pub first: Lsn,
    /// The LSN after the last: the first missing one when the next epoch began. [`Lsn::MAX`] while the epoch lasts.
    pub end: Lsn,
    /// For each partition, the offset where the epoch's first block begins or would begin.
    pub begins: Vec<LogOffset>,
    /// Dead numbers between `first` and `end`: the gaps between joined epochs. Ascending, none empty.
    pub dead: Vec<Range<Lsn>>,
}

impl Epoch {
    /// Creates an epoch of a single opening.
    pub(crate) fn new(number: u32, first: Lsn, end: Lsn, begins: Vec<LogOffset>) -> Epoch {
        Epoch { number, oldest: number, first, end, begins, dead: Vec::new() }
    }

    /// Whether a block with this epoch number belongs to this epoch.
    pub(crate) fn is_of(&self, number: u32) -> bool {
        (self.oldest..=self.number).contains(&number)
    }

    /// Returns the unbroken range of alive numbers around `lsn`; empty if `lsn` itself is dead.
    ///
    /// The numbers of a block start within or after the range of its own opening, so those beyond this range are dead
    /// (E1.2).
    pub(crate) fn run(&self, lsn: Lsn) -> Range<Lsn> {
        let after = self.dead.partition_point(|dead| dead.start <= lsn);
        let first = after.checked_sub(1).map_or(self.first, |at| self.dead[at].end);
        let end = self.dead.get(after).map_or(self.end, |dead| dead.start);
        if first <= lsn && lsn < end { first..end } else { lsn..lsn }
    }

    /// Joins this epoch and the next.
    fn joined(self, next: Epoch) -> Epoch {
        let mut dead = self.dead;
        let (first, end) = match (self.first == self.end, next.first == next.end) {
            (_, true) => (self.first, self.end),
            (true, false) => (next.first, next.end),
            (false, false) => {
                if self.end < next.first && !planted!("joined_epochs_have_no_gap") {
                    dead.push(self.end..next.first);
                }
                (self.first, next.end)
            }
        };
        dead.extend(next.dead);
        Epoch { number: next.number, oldest: self.oldest, first, end, begins: self.begins, dead }
    }
}

/// The epochs of which the log still keeps records, oldest first; the last one is the newest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epochs {
    pub(crate) list: Vec<Epoch>,
}

impl Epochs {
    /// Returns the epochs, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Epoch> {
        self.list.iter()
    }

    /// Returns the newest epoch.
    pub(crate) fn newest(&self) -> Option<&Epoch> {
        self.list.last()
    }

    /// Returns the epoch that owns the offsets from `offset` on in `partition`, and the offset where the next one
    /// takes over.
    pub(crate) fn owner(&self, partition: PartitionId, offset: LogOffset) -> Option<(&Epoch, LogOffset)> {
        let begin = |epoch: &Epoch| epoch.begins[partition.index()];
        // Several epochs may begin at the same offset, when nothing was written between them: the last one owns it.
        let after = self.list.partition_point(|epoch| begin(epoch) <= offset);
        let epoch = self.list[..after].last()?;
        let until = self.list.get(after).map_or(LogOffset::new(u64::MAX), begin);
        Some((epoch, until))
    }

    /// Returns the first number from `lsn` on that is not dead: numbers between two epochs, or before all of them,
    /// count as present (E1.5).
    pub(crate) fn skip_dead(&self, lsn: Lsn) -> Lsn {
        let after = self.list.partition_point(|epoch| epoch.first <= lsn);
        if let Some(epoch) = after.checked_sub(1).map(|at| &self.list[at])
            && lsn < epoch.end
        {
            let dead = epoch.dead.iter().find(|dead| dead.contains(&lsn));
            return dead.map_or(lsn, |dead| dead.end);
        }
        if planted!("dead_numbers_missed") {
            return lsn;
        }
        self.list[after..].iter().find(|epoch| epoch.first < epoch.end).map_or(lsn, |epoch| epoch.first)
    }

    /// Returns the newest LSN up to `lsn` that an epoch owns; `lsn` itself if there is none.
    pub(crate) fn last_alive(&self, lsn: Lsn) -> Lsn {
        let owner = self.list.iter().rfind(|epoch| epoch.first <= lsn && epoch.first < epoch.end);
        owner.map_or(lsn, |epoch| {
            let last = lsn.min(epoch.end.previous());
            epoch.dead.iter().find(|dead| dead.contains(&last)).map_or(last, |dead| dead.start.previous())
        })
    }

    /// Returns the epoch to which a block with this number belongs.
    pub(crate) fn of(&self, number: u32) -> Option<&Epoch> {
        self.list.iter().find(|epoch| epoch.is_of(number))
    }

    /// Returns the unbroken range of alive numbers around `lsn`.
    pub(crate) fn run(&self, lsn: Lsn) -> Option<Range<Lsn>> {
        self.list.iter().map(|epoch| epoch.run(lsn)).find(|run| !run.is_empty())
    }

    /// Forgets epochs after an LSN, so that the log ends there, and returns the last alive LSN up to it.
    pub(crate) fn end_at(&mut self, last: Lsn) -> Lsn {
        // The checkpoint of a backup may lie behind dead LSNs: the next epoch begins behind those, too.
        let later = self.list.partition_point(|epoch| epoch.first <= last.next());
        // A log has an epoch, also if the first one that it knows begins after its end.
        self.list.truncate(if planted!("log_without_epoch_restored") { later } else { later.max(1) });
        let Some(newest) = self.list.last_mut() else { return last };
        let end = std::mem::replace(&mut newest.end, Lsn::MAX).previous().min(last);
        // Of joined epochs, those after it are forgotten, too.
        let is_within = |dead: &&Range<Lsn>| dead.contains(&end) && dead.contains(&end.next());
        let counts = newest.dead.iter().find(is_within).map_or(end, |dead| dead.start.previous());
        newest.dead.retain(|dead| dead.start <= counts);
        counts
    }

    /// Forgets the newest epochs that an archive names and does not reach: it lacks blocks or records before them. Returns whether one
    /// is left.
    pub(crate) fn forget_unreached(&mut self, archived: &[ControlPartition], newest: Lsn) -> bool {
        let is_reached = |epoch: &Epoch| {
            let ends = archived.iter().map(|known| known.durable_below);
            epoch.first <= newest.next() && epoch.begins.iter().zip(ends).all(|(&begin, end)| begin <= end)
        };
        while self.list.last().is_some_and(|epoch| !is_reached(epoch)) {
            self.list.pop();
        }
        self.list.last_mut().map(|newest| newest.end = Lsn::MAX).is_some()
    }

    /// Returns those that an archive with these ends reaches.
    pub(crate) fn reached(&self, archived: &[ControlPartition], newest: Lsn) -> Epochs {
        let mut reached = self.clone();
        reached.forget_unreached(archived, newest);
        reached
    }

    /// Joins the two oldest epochs; `false` if one of them is the newest, or their numbers span too many openings.
    pub(crate) fn join_oldest(&mut self) -> bool {
        if self.list.len() < 3 || self.list[1].number - self.list[0].oldest > JOINED_MAX {
            return false;
        }
        let oldest = self.list.remove(0);
        let next = self.list.remove(0);
        self.list.insert(0, oldest.joined(next));
        true
    }

    /// Forgets epochs that end before `kept`; the newest stays.
    pub(crate) fn forget_before(&mut self, kept: Lsn, scan_from: &[LogOffset]) {
        while self.list.len() > 1 {
            let next = &self.list[1];
            let unneeded =
                self.list[0].end <= kept && next.begins.iter().zip(scan_from).all(|(begin, from)| begin <= from);
            if !unneeded {
                break;
            }
            self.list.remove(0);
        }
    }

    /// Forgets the dead numbers before `kept` that the oldest epoch has within it. A reader from `kept` on needs none of them.
    pub(crate) fn forget_dead_before(&mut self, kept: Lsn) {
        if let Some(oldest) = self.list.first_mut() {
            oldest.dead.retain(|dead| dead.end > kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs() -> Epochs {
        let epoch = |number, first, end, begins: [u64; 2]| {
            Epoch::new(number, Lsn::new(first), Lsn::new(end), begins.map(LogOffset::new).to_vec())
        };
        Epochs {
            list: vec![
                epoch(1, 1, 50, [0, 0]),
                epoch(2, 81, 81, [4096, 8192]),
                epoch(3, 81, 90, [4096, 8192]),
                epoch(4, 95, u64::MAX, [8192, 8192]),
            ],
        }
    }

    #[test]
    fn each_place_has_one_owner() {
        let epochs = epochs();
        let owner = |partition, offset| {
            let (epoch, until) = epochs.owner(PartitionId(partition), LogOffset::new(offset)).unwrap();
            (epoch.number, until.get())
        };
        assert_eq!(owner(0, 0), (1, 4096), "E1.3");
        assert_eq!(owner(0, 4096), (3, 8192), "E1.3");
        assert_eq!(owner(0, 8192), (4, u64::MAX), "E1.3");
        assert_eq!(owner(1, 4096), (1, 8192), "E1.3");
        assert_eq!(owner(1, 8192), (4, u64::MAX), "E1.3");
    }

    #[test]
    fn dead_ranges_count_as_present() {
        let epochs = epochs();
        for (lsn, alive) in [(1, 1), (49, 49), (50, 81), (80, 81), (81, 81), (89, 89), (90, 95), (200, 200)] {
            assert_eq!(epochs.skip_dead(Lsn::new(lsn)), Lsn::new(alive), "E1.5");
        }
    }

    #[test]
    fn last_number_is_one_that_counts() {
        let last = |epochs: &Epochs, lsn| epochs.last_alive(Lsn::new(lsn)).get();
        let mut all = epochs();
        for joined in [false, true] {
            for (lsn, alive) in [(49, 49), (50, 49), (80, 49), (81, 81), (90, 89), (94, 89), (95, 95), (200, 200)] {
                assert_eq!(last(&all, lsn), alive, "E25.5b: {lsn}, joined: {joined}");
            }
            while all.join_oldest() {}
        }
        assert_eq!(last(&Epochs { list: epochs().list.split_off(3) }, 60), 60);
    }

    #[test]
    fn joined_epochs_keep_their_dead_numbers() {
        let mut epochs = epochs();
        epochs.list[3].end = Lsn::new(120);
        epochs.list.push(Epoch::new(5, Lsn::new(120), Lsn::new(130), epochs.list[3].begins.clone()));
        epochs.list.push(Epoch::new(6, Lsn::new(131), Lsn::MAX, epochs.list[3].begins.clone()));
        let alive = |epochs: &Epochs| (1..200).filter(|&lsn| epochs.skip_dead(Lsn::new(lsn)).get() == lsn).collect();
        let before: Vec<u64> = alive(&epochs);
        while epochs.join_oldest() {
            assert_eq!(alive(&epochs), before, "E1.5");
        }
        assert_eq!(epochs.list.len(), 2, "the newest stays alone");
        let joined = &epochs.list[0];
        assert_eq!((joined.oldest, joined.number, joined.dead.len()), (1, 5, 2));
        assert!(joined.is_of(1) && joined.is_of(5) && !joined.is_of(6));
        assert_eq!(joined.run(Lsn::new(60)), Lsn::new(60)..Lsn::new(60));
        for lsn in [95, 119, 120, 129] {
            assert_eq!(joined.run(Lsn::new(lsn)), Lsn::new(95)..Lsn::new(130), "no number between the two is dead");
        }
        assert_eq!(epochs.owner(PartitionId(1), LogOffset::new(4096)).unwrap().0.number, 5);
        assert_eq!(epochs.owner(PartitionId(1), LogOffset::new(8192)).unwrap().0.number, 6, "E1.3");
    }

    /// E18.10.
    #[test]
    fn log_ends_at_any_number() {
        let ended_at = |mut epochs: Epochs, lsn| {
            let last = epochs.end_at(Lsn::new(lsn)).get();
            let newest = epochs.newest().expect("E18.10: there is one");
            assert_eq!(newest.end, Lsn::MAX, "E18.10");
            (last, newest.number)
        };
        for (lsn, end) in
            [(0, (0, 1)), (40, (40, 1)), (60, (49, 1)), (85, (85, 3)), (92, (89, 3)), (94, (94, 4)), (100, (100, 4))]
        {
            assert_eq!(ended_at(epochs(), lsn), end, "E18.10: {lsn}");
        }
        let later = Epochs { list: epochs().list.split_off(3) };
        assert_eq!(ended_at(later, 60), (60, 4), "E18.10: the only one begins behind the end");
        let joined = || {
            let mut joined = epochs();
            assert!(joined.join_oldest() && joined.join_oldest());
            joined
        };
        for (lsn, end) in [(40, (40, 3)), (60, (49, 3)), (80, (80, 3)), (85, (85, 3)), (100, (100, 4))] {
            assert_eq!(ended_at(joined(), lsn), end, "E18.10: {lsn}");
        }
    }

    #[test]
    fn epochs_are_forgotten_when_unread() {
        let mut kept = epochs();
        kept.forget_before(Lsn::new(85), &[LogOffset::new(0), LogOffset::new(8192)]);
        assert_eq!(kept, epochs());
        kept.forget_before(Lsn::new(85), &[LogOffset::new(4096), LogOffset::new(8192)]);
        assert_eq!(kept.list[0].number, 3);
        kept.forget_before(Lsn::new(1000), &[LogOffset::new(1 << 20); 2]);
        assert_eq!(kept.list.len(), 1);
    }
}
