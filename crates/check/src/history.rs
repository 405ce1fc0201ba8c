//! What a workload did, and which states a crash may leave of it.
//!
//! Every commit has one LSN, and that is its place in the order (invariant E10.1, W1): a recovered store must hold the
//! effects of a *prefix* of the commits in LSN order, and the prefix must reach at least to the newest commit that was
//! acknowledged before the crash (W4). Nothing else is asked, and nothing less.

use std::fmt::Debug;

type Effect<S> = Box<dyn Fn(&mut S) + Send>;

/// The commits of one run of a workload, with what each does to the model.
pub(crate) struct History<S> {
    start: S,
    commits: Vec<(u64, Effect<S>)>,
    /// Commits of which nobody knows, because the call failed: the last things their threads did.
    unknown: Vec<Effect<S>>,
}

impl<S: Clone + PartialEq + Debug> History<S> {
    /// A history that begins at what the store held when the workload began.
    pub(crate) fn new(start: S) -> History<S> {
        History { start, commits: Vec::new(), unknown: Vec::new() }
    }

    /// A commit failed; whether it was kept, only reopening tells.
    pub(crate) fn unknown(&mut self, effect: Effect<S>) {
        self.unknown.push(effect);
    }

    /// A commit record was appended at `lsn`. Threads may call in any order; the LSN decides.
    pub(crate) fn committed(&mut self, lsn: u64, effect: Effect<S>) {
        self.commits.push((lsn, effect));
    }

    /// All prefixes, ready for judging.
    pub(crate) fn prefixes(mut self) -> Prefixes<S> {
        self.commits.sort_by_key(|(lsn, _)| *lsn);
        let mut states = vec![self.start];
        let mut lsns = Vec::with_capacity(self.commits.len());
        for (lsn, effect) in self.commits {
            let mut next = states[states.len() - 1].clone();
            effect(&mut next);
            states.push(next);
            lsns.push(lsn);
        }
        let mut endings = vec![states[states.len() - 1].clone()];
        for effect in self.unknown {
            for i in 0..endings.len() {
                let mut kept = endings[i].clone();
                effect(&mut kept);
                endings.push(kept);
            }
        }
        endings.remove(0);
        Prefixes { states, lsns, endings }
    }
}

/// The states after 0, 1, 2, … commits.
pub(crate) struct Prefixes<S> {
    states: Vec<S>,
    lsns: Vec<u64>,
    /// The last state and some of the commits of which nobody knows.
    endings: Vec<S>,
}

impl<S: Clone + PartialEq + Debug> Prefixes<S> {
    pub(crate) fn commits(&self) -> usize {
        self.lsns.len()
    }

    /// Is `observed` a legal outcome of a crash before which the commit at `acknowledged` (0: none) was acknowledged?
    ///
    /// Returns the number of commits in it, or what is wrong.
    pub(crate) fn judge(&self, observed: &S, acknowledged: u64) -> Result<usize, String> {
        let least = self.lsns.partition_point(|lsn| *lsn <= acknowledged);
        // Newest first: most crashes lose little.
        for commits in (least..self.states.len()).rev() {
            if self.states[commits] == *observed {
                return Ok(commits);
            }
        }
        let total = self.commits();
        if self.endings.contains(observed) {
            return Ok(total);
        }
        if let Some(older) = (0..least).rev().find(|c| self.states[*c] == *observed) {
            return Err(format!(
                "an acknowledged commit is lost: the store holds the first {older} of {total} commits, but the {least}. \
                 (LSN {acknowledged}) was acknowledged before the crash"
            ));
        }
        Err(format!(
            "the store holds no prefix of the {total} commits (at least {least} expected):\n  it holds   {}\n  after \
             {least:>5}  {}\n  after {total:>5}  {}",
            brief(observed),
            brief(&self.states[least]),
            brief(&self.states[total]),
        ))
    }

    /// The state that must hold when nothing was lost.
    pub(crate) fn last(&self) -> &S {
        &self.states[self.states.len() - 1]
    }
}

/// The beginning of a value's debug form: a failure's message is read by eyes.
pub(crate) fn brief(value: &impl Debug) -> String {
    const CHARS_MAX: usize = 700;
    let mut text = format!("{value:?}");
    if let Some((end, _)) = text.char_indices().nth(CHARS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Prefixes<Vec<u32>> {
        let mut history = History::new(vec![0]);
        // Threads report in any order.
        for lsn in [30_u64, 10, 20] {
            history.committed(lsn, Box::new(move |s: &mut Vec<u32>| s.push(lsn as u32)));
        }
        history.prefixes()
    }

    #[test]
    fn commits_count_in_the_order_of_their_lsns() {
        assert_eq!(*three().last(), vec![0, 10, 20, 30]);
    }

    #[test]
    fn every_prefix_from_the_acknowledged_one_on_is_legal() {
        let prefixes = three();
        assert_eq!(prefixes.judge(&vec![0], 0), Ok(0));
        assert_eq!(prefixes.judge(&vec![0, 10], 10), Ok(1));
        assert_eq!(prefixes.judge(&vec![0, 10, 20], 10), Ok(2));
        assert_eq!(prefixes.judge(&vec![0, 10, 20, 30], 30), Ok(3));
    }

    #[test]
    fn an_acknowledged_commit_must_be_there() {
        let wrong = three().judge(&vec![0, 10], 20).unwrap_err();
        assert!(wrong.contains("acknowledged commit is lost"), "{wrong}");
    }

    #[test]
    fn a_later_commit_without_an_earlier_one_is_illegal() {
        let wrong = three().judge(&vec![0, 20], 0).unwrap_err();
        assert!(wrong.contains("no prefix"), "{wrong}");
    }
}
