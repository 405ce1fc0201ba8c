//! Lock modes: what agrees with what (Gray's table, cited by Lemon §4.1 for hierarchical locking).

/// How a resource is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Some part of the resource is held shared.
    IntentionShared,
    /// Some part of the resource is held exclusively.
    IntentionExclusive,
    /// Read by many.
    Shared,
    /// Read as a whole, and some part is held exclusively.
    SharedIntentionExclusive,
    /// Changed by one.
    Exclusive,
}

use LockMode::{
    Exclusive as X, IntentionExclusive as IX, IntentionShared as IS, Shared as S, SharedIntentionExclusive as SIX,
};

const ALL: [LockMode; 5] = [IS, IX, S, SIX, X];

/// Whether two transactions may hold a resource in these modes at once. Rows and columns in the order of `ALL`.
const AGREES: [[bool; 5]; 5] = [
    //          IS     IX     S      SIX    X
    /* IS  */ [true, true, true, true, false],
    /* IX  */ [true, true, false, false, false],
    /* S   */ [true, false, true, false, false],
    /* SIX */ [true, false, false, false, false],
    /* X   */ [false, false, false, false, false],
];

/// The weakest mode that is as strong as both.
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

    /// Whether who holds it may have written.
    pub fn is_to_write(self) -> bool {
        !matches!(self, IS | S)
    }

    /// The weakest mode that is as strong as both: what a transaction holds after it asked for both.
    #[inline]
    pub fn join(self, other: LockMode) -> LockMode {
        JOINED[self.row()][other.row()]
    }

    /// Whether holding this mode means holding `other` too.
    #[inline]
    pub fn covers(self, other: LockMode) -> bool {
        self.join(other) == self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_enum_is_that_of_the_tables() {
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
    fn a_join_is_the_weakest_mode_that_conflicts_with_all_that_either_conflicts_with() {
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
