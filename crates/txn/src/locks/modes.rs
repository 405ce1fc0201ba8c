//! Lock modes and their compatibility (Gray's table, cited by Lemon §4.1 for hierarchical locking).

/// The mode in which a resource is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Some part of the resource is held shared.
    IntentionShared,
    /// Some part of the resource is held exclusively.
    IntentionExclusive,
    /// The resource is read.
    Shared,
    /// The resource is read as a whole, and some part is held exclusively.
    SharedIntentionExclusive,
    /// The resource is changed by one transaction.
    Exclusive,
}

use LockMode::{
    Exclusive as X, IntentionExclusive as IX, IntentionShared as IS, Shared as S, SharedIntentionExclusive as SIX,
};

const ALL: [LockMode; 5] = [IS, IX, S, SIX, X];

/// Whether two transactions may hold a resource in these modes at once. Rows and columns are in the order of `ALL`.
const AGREES: [[bool; 5]; 5] = [
    //          IS     IX     S      SIX    X
    /* IS  */ [true, true, true, true, false],
    /* IX  */ [true, true, false, false, false],
    /* S   */ [true, false, true, false, false],
    /* SIX */ [true, false, false, false, false],
    /* X   */ [false, false, false, false, false],
];

/// The weakest mode that covers both.
const JOINED: [[LockMode; 5]; 5] = [
    //          IS   IX   S    SIX  X
    /* IS  */ [IS, IX, S, SIX, X],
    /* IX  */ [IX, IX, SIX, SIX, X],
    /* S   */ [S, SIX, S, SIX, X],
    /* SIX */ [SIX, SIX, SIX, SIX, X],
    /* X   */ [X, X, X, X, X],
];

impl LockMode {
    /// All modes.
    pub const ALL: [LockMode; 5] = ALL;

    #[inline]
    fn row(self) -> usize {
        self as usize
    }

    /// Whether another transaction may hold the same resource in `other` at the same time.
    pub fn agrees_with(self, other: LockMode) -> bool {
        AGREES[self.row()][other.row()]
    }

    /// Whether a holder of this mode may have written.
    pub fn is_to_write(self) -> bool {
        !matches!(self, IS | S)
    }

    /// Returns the weakest mode that covers both: the mode of a transaction that has requested both.
    #[inline]
    pub fn join(self, other: LockMode) -> LockMode {
        JOINED[self.row()][other.row()]
    }

    /// Whether holding this mode implies holding `other`.
    #[inline]
    pub fn covers(self, other: LockMode) -> bool {
        self.join(other) == self
    }
}

/// Number of modes.
pub(super) const MODES: usize = ALL.len();

/// A set of modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modes(u8);

/// The modes that each mode conflicts with, in the order of `ALL`.
const CONFLICTS: [u8; MODES] = {
    let mut sets = [0; MODES];
    let mut row = 0;
    while row < MODES {
        let mut column = 0;
        while column < MODES {
            if !AGREES[row][column] {
                sets[row] |= 1 << column;
            }
            column += 1;
        }
        row += 1;
    }
    sets
};

impl Modes {
    pub(super) const NONE: Modes = Modes(0);

    pub(super) fn of(mode: LockMode) -> Modes {
        Modes(1 << mode as u8)
    }

    /// Returns the modes whose count is not 0.
    pub(super) fn counted(counts: &[u32; MODES]) -> Modes {
        ALL.into_iter().filter(|mode| counts[mode.row()] != 0).fold(Modes::NONE, Modes::with)
    }

    pub(super) fn has(self, mode: LockMode) -> bool {
        self.0 & Modes::of(mode).0 != 0
    }

    pub(super) fn and(self, others: Modes) -> Modes {
        Modes(self.0 | others.0)
    }

    pub(super) fn with(self, mode: LockMode) -> Modes {
        self.and(Modes::of(mode))
    }

    pub(super) fn but(self, others: Modes) -> Modes {
        Modes(self.0 & !others.0)
    }

    /// Returns all modes that conflict with at least one of these.
    pub(super) fn conflicts(self) -> Modes {
        Modes((0..MODES).filter(|row| self.0 & 1 << row != 0).fold(0, |set, row| set | CONFLICTS[row]))
    }

    /// Whether one of these conflicts with `mode`.
    pub(super) fn conflict_with(self, mode: LockMode) -> bool {
        CONFLICTS[mode.row()] & self.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_modes_conflict_like_their_members() {
        for set in 0..1_u8 << MODES {
            let set = Modes(set);
            for mode in ALL {
                let one_conflicts = ALL.into_iter().any(|other| set.has(other) && !other.agrees_with(mode));
                assert_eq!(set.conflict_with(mode), one_conflicts, "{set:?} {mode:?}");
                assert_eq!(set.conflicts().has(mode), one_conflicts, "{set:?} {mode:?}");
            }
        }
    }

    #[test]
    fn enum_order_matches_tables() {
        for (row, mode) in ALL.into_iter().enumerate() {
            assert_eq!(mode.row(), row);
        }
    }

    #[test]
    fn agreement_is_mutual() {
        for a in ALL {
            for b in ALL {
                assert_eq!(a.agrees_with(b), b.agrees_with(a), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn join_is_weakest_mode_with_both_conflicts() {
        let enemies = |mode: LockMode| ALL.map(|other| !mode.agrees_with(other));
        for a in ALL {
            for b in ALL {
                let joined = enemies(a.join(b));
                let either = enemies(a).into_iter().zip(enemies(b)).map(|(a, b)| a | b);
                assert!(joined.into_iter().zip(either).all(|(joined, either)| joined >= either), "{a:?} {b:?}");
                assert_eq!(a.join(b), b.join(a));
                assert!(a.join(b).covers(a) && a.join(b).covers(b));
                for c in ALL {
                    assert!(!(c.covers(a) && c.covers(b)) || c.covers(a.join(b)), "{c:?} is weaker");
                }
            }
        }
    }
}
