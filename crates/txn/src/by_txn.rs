//! A map by transaction for one shard of many: most of the time it has at most one entry, which needs no hash table.

use std::collections::HashMap;

use cedrat_wal::TxnId;

use crate::locks::Words;

/// Values by transaction.
#[derive(Debug)]
pub(crate) struct ByTxn<V> {
    /// An entry beside the table. It may be vacant while the table has entries.
    first: Option<(TxnId, V)>,
    others: HashMap<TxnId, V, Words>,
}

impl<V> Default for ByTxn<V> {
    fn default() -> ByTxn<V> {
        ByTxn { first: None, others: HashMap::default() }
    }
}

impl<V> ByTxn<V> {
    #[inline]
    fn is_first(&self, txn: TxnId) -> bool {
        self.first.as_ref().is_some_and(|(first, _)| *first == txn)
    }

    #[inline]
    pub(crate) fn get(&self, txn: TxnId) -> Option<&V> {
        match &self.first {
            Some((first, value)) if *first == txn => Some(value),
            _ => self.others.get(&txn),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, txn: TxnId) -> Option<&mut V> {
        match &mut self.first {
            Some((first, value)) if *first == txn => Some(value),
            _ => self.others.get_mut(&txn),
        }
    }

    /// Returns the value of a transaction, after adding it if there is none.
    #[inline]
    pub(crate) fn get_or_insert_with(&mut self, txn: TxnId, fresh: impl FnOnce() -> V) -> &mut V {
        if self.first.is_none() && !self.others.contains_key(&txn) || self.is_first(txn) {
            return &mut self.first.get_or_insert_with(|| (txn, fresh())).1;
        }
        self.others.entry(txn).or_insert_with(fresh)
    }

    /// Adds the value of a transaction that has none.
    #[inline]
    pub(crate) fn insert(&mut self, txn: TxnId, value: V) {
        debug_assert!(self.get(txn).is_none(), "a transaction enters once");
        if self.first.is_none() {
            self.first = Some((txn, value));
        } else {
            self.others.insert(txn, value);
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, txn: TxnId) -> Option<V> {
        match self.first.take_if(|(first, _)| *first == txn) {
            Some((_, value)) => Some(value),
            None => self.others.remove(&txn),
        }
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.first.iter().map(|(_, value)| value).chain(self.others.values())
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// It is a map, wherever an entry lies.
        #[test]
        fn entries_are_those_of_a_map(steps: Vec<(u8, bool, u8)>) {
            let (mut map, mut model) = (ByTxn::default(), HashMap::new());
            for (txn, is_removal, value) in steps {
                let txn = TxnId(u64::from(txn % 4));
                if is_removal {
                    prop_assert_eq!(map.remove(txn), model.remove(&txn));
                } else if map.get(txn).is_none() && value % 2 == 0 {
                    map.insert(txn, value);
                    model.insert(txn, value);
                } else {
                    prop_assert_eq!(map.get_or_insert_with(txn, || value), model.entry(txn).or_insert(value));
                    *map.get_mut(txn).expect("it was added") = value;
                    model.insert(txn, value);
                }
                prop_assert_eq!(map.len(), model.len());
                (0..4).for_each(|txn| assert_eq!(map.get(TxnId(txn)), model.get(&TxnId(txn))));
                let sorted = |mut values: Vec<u8>| {
                    values.sort_unstable();
                    values
                };
                prop_assert_eq!(sorted(map.values().copied().collect()), sorted(model.values().copied().collect()));
            }
        }
    }
}
