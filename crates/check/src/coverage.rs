//! Coverage of a workload's crashes: a check that never undid anything proves nothing about undo.

use std::collections::{BTreeMap, BTreeSet};

use cedrat_txn::{Explainer, Registry, Store};
use cedrat_wal::Lsn;

use crate::scenario::Error;

/// The beginning of the names of Cedrat's own operations, which have suites of their own.
const OWN: &str = "cedrat.";

/// Undo functions that the workload registered, and those that ran.
#[derive(Default)]
pub(crate) struct Coverage {
    /// Operations that were logged with an undo.
    logged: BTreeSet<String>,
    /// States whose recovery had a loser.
    losers: usize,
    /// Number of undone records by operation, and of calls by undo function, in all recoveries.
    undone: BTreeMap<String, u64>,
}

/// Parts that a check need not reach.
#[derive(Clone, Default)]
pub(crate) struct Exempt {
    pub(crate) names: BTreeSet<String>,
    pub(crate) losers: bool,
}

impl Coverage {
    /// Notes the operations with undo in the log from `from` on.
    pub(crate) fn note_log(&mut self, store: &Store, registry: &Registry, from: Lsn) -> Result<(), Error> {
        let control = store.log().control();
        let explainer = Explainer::new(registry, &control.names);
        let mut scan = store.log().scan(from.max(control.checkpoint.scan_lsn))?;
        while let Some(scanned) = scan.next()? {
            let explained = explainer.explain(&scanned.record)?;
            if let (Some(name), Some(_)) = (explained.name, explained.undo) {
                self.logged.insert(name);
            }
        }
        Ok(())
    }

    /// Notes the undo of a recovery.
    pub(crate) fn note_recovery(&mut self, store: &Store) {
        if store.recovery().losers > 0 {
            self.losers += 1;
            for (name, undone) in store.undone() {
                *self.undone.entry(name).or_default() += undone.times;
            }
        }
    }

    /// The first undo that has taken more of the log than it says: room for the rest of a rollback was not reserved.
    pub(crate) fn over_bound(store: &Store, registry: &Registry) -> Option<String> {
        let undone = store.undone();
        registry.calls().find_map(|(name, bound)| {
            let taken = undone.get(name)?.log_bytes_max;
            (taken > bound.into()).then(|| {
                format!(
                    "the undo {name} took {taken} bytes of the log, and its LOG_BYTES_MAX is {bound}: a rollback may find the log \
                     full. Declare as much as its longest run takes"
                )
            })
        })
    }

    /// Returns a description of the first undo that none of `states` crashes reached.
    pub(crate) fn gap(&self, registry: &Registry, exempt: &Exempt, states: usize) -> Option<String> {
        if self.losers == 0 && !self.logged.is_empty() && !exempt.losers {
            return Some(format!(
                "none of {states} crash states had a transaction to undo: no crash came inside a transaction. Let the \
                 workload change more than one record in a transaction, or say .without_losers()"
            ));
        }
        let own = |name: &str| name.starts_with(OWN) && !self.logged.contains(name);
        let missed = |name: &str| !own(name) && !self.undone.contains_key(name) && !exempt.names.contains(name);
        if let Some(name) = registry.calls().map(|(name, _)| name).find(|name| missed(name)) {
            return Some(format!(
                "the logical undo or finish {name} is registered, and ran in none of {states} crash states ({} of them had \
                 something to undo). Let the workload log it in a transaction that does more behind it, or say \
                 .never_undone(\"{name}\")",
                self.losers
            ));
        }
        self.logged.iter().find(|name| missed(name) && !name.starts_with(OWN)).map(|name| {
            format!(
                "the operation {name} was logged with an undo, which ran in none of {states} crash states ({} of them had \
                 something to undo). Let its transaction do more behind it, or say .never_undone(\"{name}\")",
                self.losers
            )
        })
    }
}
