//! Losses of a crash.

use super::random::Random;

/// The volatile bytes that a crash loses.
///
/// Durable bytes always survive. A *change* below is a volatile write, a write in flight, a volatile change of a
/// file's shape, or the volatile creation or removal of a name; changes are ordered by their completion, those in
/// flight coming last. Every loss is determined by its value alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Every change is lost.
    Everything,
    /// Every change survives, those in flight too: the power failed after the caches had been written.
    Nothing,
    /// Random by the seed and the position of the crash: a change survives completely, is lost completely, or is
    /// torn, sector by sector at random.
    Random(u64),
    /// Random by the seed, as `Random`, but no write is torn: changes are only lost and thereby reordered.
    Whole(u64),
    /// Every change survives except the newest write: its sector `i` survives if bit `i % 64` is set.
    TornLast(u64),
    /// The newest change survives completely if bit 0 is set, the one before it if bit 1 is, and so on; bit 63
    /// decides for all older ones. This enumerates all subsets of a few changes.
    Subset(u64),
}

/// The end of a process while the machine stays up; see [`Cursor::kill`](super::Cursor::kill).
///
/// In both cases all, none or some sectors of each write in flight have reached the cache, at random by the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kill {
    /// The process is killed. Volatile bytes stay volatile: a later sync makes them durable.
    Process(u64),
    /// The syncs and durable writes in flight fail and forget (A9), and then the process ends: no later sync writes
    /// the bytes that they should have made durable, although these can be read.
    FailedSync(u64),
}

/// The fate of one change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Kept,
    Lost,
    /// A sector survives if its bit is set.
    Mask(u64),
    /// A sector survives at random by this seed.
    Coins(u64),
}

impl Fate {
    pub(super) fn keeps(self, sector: u64) -> bool {
        match self {
            Fate::Kept => true,
            Fate::Lost => false,
            Fate::Mask(mask) => mask >> (sector % 64) & 1 == 1,
            Fate::Coins(seed) => Random::new(seed ^ sector).below(2) == 1,
        }
    }
}

/// Determines the fates of all changes, oldest first.
pub(super) struct Judge {
    loss: Loss,
    coins: Random,
    /// Per hundred changes, the numbers of those kept completely and of those lost completely.
    kept: u64,
    lost: u64,
}

impl Judge {
    pub(super) fn new(loss: Loss, at: usize) -> Judge {
        let mut coins = Random::new(match loss {
            // The position counts too: one seed shall not lose the same writes at every position.
            Loss::Random(seed) | Loss::Whole(seed) => Random::new(seed).next() ^ at as u64,
            _ => 0,
        });
        // One seed loses little, another nearly everything: real crashes are of both kinds, and a fair coin for
        // hundreds of changes would show neither.
        let (kept, lost) = match (loss, coins.below(4)) {
            (Loss::Whole(_), 0) => (90, 10),
            (Loss::Whole(_), 1) => (10, 90),
            (Loss::Whole(_), _) => (50, 50),
            (_, 0) => (85, 5),
            (_, 1) => (5, 85),
            (_, 2) => (10, 10),
            (_, _) => (40, 40),
        };
        Judge { loss, coins, kept, lost }
    }

    /// Returns the fate of the change that has `newer` changes after it; `tears` if it is the newest write of all.
    pub(super) fn fate(&mut self, newer: usize, tears: bool) -> Fate {
        match self.loss {
            Loss::Everything => Fate::Lost,
            Loss::Nothing => Fate::Kept,
            Loss::TornLast(mask) if tears => Fate::Mask(mask),
            Loss::TornLast(_) => Fate::Kept,
            Loss::Subset(mask) if mask >> newer.min(63) & 1 == 1 => Fate::Kept,
            Loss::Subset(_) => Fate::Lost,
            Loss::Random(_) | Loss::Whole(_) => {
                let coin = self.coins.below(100);
                if coin < self.kept {
                    Fate::Kept
                } else if coin < self.kept + self.lost {
                    Fate::Lost
                } else {
                    Fate::Coins(self.coins.next())
                }
            }
        }
    }
}
