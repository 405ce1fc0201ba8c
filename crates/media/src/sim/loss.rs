//! What a crash takes away.

use super::random::Random;

/// Which of the volatile bytes a crash takes away.
///
/// What is durable always survives. A *change* below is a volatile write, a write in flight, a volatile change
/// of a file's shape, or a name volatilely made or removed; changes are ordered by when they completed, those
/// in flight coming last. Every kind of loss is determined by its value alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Every change is lost.
    Everything,
    /// Every change survives, those in flight too: the power failed after the caches had been emptied.
    Nothing,
    /// By coins from the seed and the place of the crash: a change survives whole, is lost whole, or is torn, each sector by a coin of its own.
    Random(u64),
    /// By coins from the seed, as `Random`, but no write is torn: changes are only lost and thereby reordered.
    Whole(u64),
    /// Every change survives but for the newest write: its sector `i` survives if bit `i % 64` is set.
    TornLast(u64),
    /// The newest change survives whole if bit 0 is set, the one before it if bit 1 is, and so on; bit 63 decides
    /// for all older ones. With this, all subsets of a few changes can be counted through.
    Subset(u64),
}

/// What becomes of one change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Kept,
    Lost,
    /// A sector survives if its bit is set.
    Mask(u64),
    /// A sector survives by a coin from this seed.
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

/// Tells the fates of all changes, oldest first.
pub(super) struct Judge {
    loss: Loss,
    coins: Random,
    /// Of a hundred changes, this many are kept whole, and this many lost whole.
    kept: u64,
    lost: u64,
}

impl Judge {
    pub(super) fn new(loss: Loss, at: usize) -> Judge {
        let mut coins = Random::new(match loss {
            // The place counts too: one seed shall not lose the same writes at every place.
            Loss::Random(seed) | Loss::Whole(seed) => Random::new(seed).next() ^ at as u64,
            _ => 0,
        });
        // One seed loses little, another nearly everything: real crashes come in both kinds, and a fair coin
        // for hundreds of changes would never show either.
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

    /// The fate of the change that has `newer` changes after it; `tears` if it is the newest write of all.
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
