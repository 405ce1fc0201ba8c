//! Which opening of the store owns which LSNs and which places (E1).
//!
//! Every opening that appends is an epoch. It takes each partition from where the epoch before it ended there, and
//! draws LSNs above all that were seen. So each place and each LSN has at most one owner, and whatever else lies in
//! the segments (records beyond the first missing LSN, blocks of a segment's earlier life) belongs to nobody.

use crate::{LogOffset, Lsn, PartitionId};

/// One opening of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Its number, from 1.
    pub number: u32,
    /// Its first LSN.
    pub first: Lsn,
    /// The LSN after its last: the first missing one when the next epoch began. [`Lsn::MAX`] while it lasts.
    pub end: Lsn,
    /// For each partition, where its first block lies or would lie.
    pub begins: Vec<LogOffset>,
}

/// The epochs whose records the log still keeps, oldest first; the last one is the newest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epochs {
    pub(crate) list: Vec<Epoch>,
}

impl Epochs {
    /// The epochs, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Epoch> {
        self.list.iter()
    }

    /// The newest epoch.
    pub(crate) fn newest(&self) -> Option<&Epoch> {
        self.list.last()
    }

    /// The epoch that owns the places from `offset` on in `partition`, and where the next one takes over.
    pub(crate) fn owner(&self, partition: PartitionId, offset: LogOffset) -> Option<(&Epoch, LogOffset)> {
        let begin = |epoch: &Epoch| epoch.begins[partition.index()];
        // Several epochs may begin at one place, when nothing was written between them: the last one owns it.
        let after = self.list.partition_point(|epoch| begin(epoch) <= offset);
        let epoch = self.list[..after].last()?;
        let until = self.list.get(after).map_or(LogOffset::new(u64::MAX), begin);
        Some((epoch, until))
    }

    /// Whether `lsn` lies between two epochs, or before all of them: such numbers count as present (E1.5).
    /// Returns the first number not dead from `lsn` on.
    pub(crate) fn skip_dead(&self, lsn: Lsn) -> Lsn {
        let after = self.list.partition_point(|epoch| epoch.first <= lsn);
        match after.checked_sub(1).map(|at| &self.list[at]) {
            Some(epoch) if lsn < epoch.end => lsn,
            _ => match self.list[after..].iter().find(|epoch| epoch.first < epoch.end) {
                Some(epoch) => epoch.first,
                None => lsn,
            },
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs() -> Epochs {
        let epoch = |number, first, end, begins: [u64; 2]| Epoch {
            number,
            first: Lsn::new(first),
            end: Lsn::new(end),
            begins: begins.map(LogOffset::new).to_vec(),
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
    fn old_epochs_are_forgotten_only_when_no_place_of_theirs_is_read() {
        let mut kept = epochs();
        kept.forget_before(Lsn::new(85), &[LogOffset::new(0), LogOffset::new(8192)]);
        assert_eq!(kept, epochs());
        kept.forget_before(Lsn::new(85), &[LogOffset::new(4096), LogOffset::new(8192)]);
        assert_eq!(kept.list[0].number, 3);
        kept.forget_before(Lsn::new(1000), &[LogOffset::new(1 << 20); 2]);
        assert_eq!(kept.list.len(), 1);
    }
}
