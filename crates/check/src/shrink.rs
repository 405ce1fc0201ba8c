//! A part of a failing workload that fails too.
//!
//! The search leaves out halves of the transactions, then quarters, down to single ones, as long as the rest fails in the
//! same way (delta debugging). It ends with its budget of crash states, so it ends at the same place on every machine.

use std::collections::BTreeSet;

use crate::crashes::{Crashes, Walk};
use crate::report::{Failure, Fault, Smaller};
use crate::scenario::Scenario;

/// Cost of a trial in states, besides those that it meets: it runs the workload.
const RUN_COST: usize = 20;

/// A part must fail within twice the states of the whole workload up to its failure, plus this number.
const STATES_MORE: usize = 50;

impl<S: Scenario> Crashes<S> {
    /// Adds a smaller failure to the failure of `walk`, if the budget finds one.
    pub(crate) fn with_smaller(&self, failure: Failure, walk: &Walk<'_, S>) -> Failure {
        let may_shrink = failure.case.kills.is_empty()
            && !matches!(failure.fault, Fault::Workload | Fault::NotCovered | Fault::FreshProcess);
        let Some(of) = walk.script.transactions().filter(|_| may_shrink) else { return failure };
        let states_max = walk.report.distinct * 2 + STATES_MORE;
        let mut search =
            Search { check: self, wanted: &failure, states_max, left: self.plan.shrink_states, found: None };
        let transactions = search.smallest(of);
        match search.found {
            Some(smaller) => {
                let smaller = Smaller { transactions, of, failure: Box::new(smaller) };
                Failure { smaller: Some(smaller), ..failure }
            }
            None => failure,
        }
    }
}

struct Search<'a, S: Scenario> {
    check: &'a Crashes<S>,
    wanted: &'a Failure,
    /// States that one trial may meet.
    states_max: usize,
    /// States that all further trials may meet.
    left: usize,
    /// Failure of the smallest part so far.
    found: Option<Failure>,
}

impl<S: Scenario> Search<'_, S> {
    /// Leaves out as many of `of` transactions as possible. Returns the number of the remaining ones.
    fn smallest(&mut self, of: usize) -> usize {
        let mut kept: Vec<usize> = (0..of).collect();
        let mut size = of;
        while size > 1 && self.left > 0 {
            size = size.div_ceil(2);
            let mut at = 0;
            while at < kept.len() && self.left > 0 {
                let end = kept.len().min(at + size);
                let fewer = [&kept[..at], &kept[end..]].concat();
                match self.fails(of, &fewer) {
                    true => kept = fewer,
                    false => at = end,
                }
            }
        }
        kept.len()
    }

    /// Returns whether these transactions of `of` alone fail in the same way.
    fn fails(&mut self, of: usize, kept: &[usize]) -> bool {
        let mut skipped: BTreeSet<usize> = (0..of).collect();
        kept.iter().for_each(|number| {
            skipped.remove(number);
        });
        let distinct_max = self.states_max.min(self.left);
        let plan = self.check.plan.for_part(distinct_max);
        let mut walk = Walk::new(&self.check.probe, &plan, skipped);
        let failure = walk.go(plan.seed, None).err();
        self.left = self.left.saturating_sub(walk.report.distinct + RUN_COST);
        let failure = failure.filter(|failure| is_alike(failure, self.wanted));
        let fails = failure.is_some();
        self.found = failure.or(self.found.take());
        fails
    }
}

/// Returns whether two failures are of one kind, and both before the first crash or both after one.
fn is_alike(one: &Failure, other: &Failure) -> bool {
    one.fault == other.fault && one.case.crashes.is_empty() == other.case.crashes.is_empty()
}
