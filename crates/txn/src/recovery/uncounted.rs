//! Deferred changes that redo skips.

use std::collections::{HashMap, HashSet};

use cedrat_sync::planted;
use cedrat_wal::{LogOffset, RecordRef, TxnId};

use crate::body::Body;

/// The changes that do not count, among those that count only if their transaction commits (E19.5). It holds the
/// transactions that have made such changes and have not committed, the ranges of the log that returns to savepoints have
/// undone, and the places from which on the copies of prepared transactions count instead.
#[derive(Debug, Default)]
pub(crate) struct Uncounted {
    without_commit: HashSet<TxnId>,
    /// Undone ranges: each from after one position of the partition to before another.
    returns: HashMap<TxnId, Returns>,
    /// Beginning of the newest complete set of copies of a transaction (E9.13).
    copies: HashMap<TxnId, LogOffset>,
    /// Beginning of the newest set, which may be incomplete.
    copying: HashMap<TxnId, LogOffset>,
}

/// Undone ranges of a partition, in log order, none within another.
#[derive(Debug, Default)]
struct Returns(Vec<(Option<LogOffset>, LogOffset)>);

impl Returns {
    /// Adds the range that ends at its own record, the newest. It absorbs ranges that it overlaps.
    fn push(&mut self, mut back_to: Option<LogOffset>, from: LogOffset) {
        while let Some((before, _)) = self.0.pop_if(|&mut (_, end)| back_to < Some(end)) {
            back_to = back_to.min(before);
        }
        self.0.push((back_to, from));
    }

    fn has(&self, offset: LogOffset) -> bool {
        let at = self.0.partition_point(|&(_, from)| from <= offset);
        self.0.get(at).is_some_and(|&(back_to, _)| back_to < Some(offset))
    }
}

impl Uncounted {
    pub(crate) fn note(&mut self, record: &RecordRef<'_>, body: &Body<'_>) {
        let id = record.head.txn;
        if matches!(body, Body::Carried(_) | Body::Prepare { is_copy: true, .. }) {
            self.note_copy(record, body);
        }
        match *body.unwrapped_in(&mut None) {
            Body::Update { committed_only: true, .. } => {
                self.without_commit.insert(id);
            }
            Body::NestedEnd { goes_back: true, undo_next, .. } => {
                self.returns.entry(id).or_default().push(undo_next, record.position.offset);
            }
            Body::Commit { .. } if !self.without_commit.is_empty() => {
                self.without_commit.remove(&id);
            }
            _ => {}
        }
    }

    /// Notes a record of a set of copies, which ends with its last prepare record.
    fn note_copy(&mut self, record: &RecordRef<'_>, body: &Body<'_>) {
        let id = record.head.txn;
        if record.head.previous.is_none() {
            self.copying.insert(id, record.position.offset);
        }
        if matches!(body, Body::Prepare { goes_on: false, .. })
            && let Some(begin) = self.copying.remove(&id)
        {
            self.copies.insert(id, begin);
        }
    }

    /// Whether the change at `offset` of its transaction's partition counts.
    ///
    /// One of which there is a copy does not: redo may begin behind an earlier change of the same record. With the version of
    /// the later one the record would seem to have the copy of the earlier one (E19.2).
    pub(crate) fn counts(&self, id: TxnId, offset: LogOffset) -> bool {
        let is_copied = self.copies.get(&id).is_some_and(|&begin| offset < begin) && !planted!("copied_change_counts");
        !is_copied
            && !self.without_commit.contains(&id)
            && !self.returns.get(&id).is_some_and(|returns| returns.has(offset))
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn returns(all: &[(Option<u64>, u64)]) -> Returns {
        let mut returns = Returns::default();
        all.iter().for_each(|&(back_to, from)| returns.push(back_to.map(LogOffset::new), LogOffset::new(from)));
        returns
    }

    proptest! {
        #[test]
        fn merged_returns_have_the_same_offsets(steps in prop::collection::vec((1..5_u64, 0..9_u64), 0..30)) {
            let mut from = 0;
            let all: Vec<_> = steps
                .into_iter()
                .map(|(step, back)| {
                    from += step;
                    (from.checked_sub(back + 1), from)
                })
                .collect();
            let merged = returns(&all);
            for offset in 0..from + 2 {
                let is_within = |&(back_to, from): &(Option<u64>, u64)| back_to < Some(offset) && offset < from;
                let expected = all.iter().any(is_within);
                prop_assert_eq!(merged.has(LogOffset::new(offset)), expected, "offset {}", offset);
            }
        }
    }

    /// Repeated returns to one savepoint take the memory of one range, and each change is looked up once.
    #[test]
    fn repeated_returns_take_one_range() {
        let all: Vec<_> = (1..100_000).map(|at| (Some(7), 10 * at)).collect();
        assert_eq!(returns(&all).0.len(), 1);
        let apart: Vec<_> = (1..100_000).map(|at| (Some(10 * at), 10 * at + 5)).collect();
        assert_eq!(returns(&apart).0.len(), apart.len());
    }
}
