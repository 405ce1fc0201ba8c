//! What a workload did, and which states a crash may leave of it.
//!
//! Every commit has one LSN, and that is its place in the order (invariant E10.1, W1): a recovered store must hold the
//! effects of a *prefix* of the commits in LSN order: of exactly those whose records the log still has. And the log must reach
//! at least to the newest commit that was acknowledged before the crash (W4). Nothing else is asked, and nothing less.

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

    /// Is `observed` the legal outcome of a crash that left the log ending before LSN `end`, and before which the commit at
    /// `acknowledged` (0: none) was acknowledged?
    ///
    /// Exactly the commits whose record the log still has must be in it: none is missing, and no effect of another one.
    pub(crate) fn judge(&self, observed: &S, acknowledged: u64, end: u64) -> Result<(), String> {
        if end <= acknowledged {
            return Err(format!(
                "an acknowledged commit is lost: the log ends before LSN {end}, but {acknowledged} was acknowledged before \
                 the crash"
            ));
        }
        let total = self.commits();
        let commits = self.lsns.partition_point(|lsn| *lsn < end);
        if self.states[commits] == *observed || commits == total && self.endings.contains(observed) {
            return Ok(());
        }
        let as_of = self.states.iter().rposition(|state| state == observed);
        let resembles = match as_of {
            Some(other) => format!("the state after the first {other}"),
            None => "no prefix of them".to_string(),
        };
        Err(format!(
            "the log has the first {commits} of {total} commits, the store holds {resembles}:\n  it holds   {}\n  after \
             {commits:>5} {}",
            brief(observed),
            brief(&self.states[commits]),
        ))
    }

    /// Is `observed` any prefix? For logs whose end nobody can know.
    pub(crate) fn judge_loosely(&self, observed: &S) -> Result<(), String> {
        match self.states.contains(observed) {
            true => Ok(()),
            false => Err(format!("the store holds no prefix of the {} commits: {}", self.commits(), brief(observed))),
        }
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
    fn the_end_of_the_log_says_which_prefix_is_legal() {
        let prefixes = three();
        assert_eq!(prefixes.judge(&vec![0], 0, 10), Ok(()));
        assert_eq!(prefixes.judge(&vec![0, 10], 10, 11), Ok(()));
        assert_eq!(prefixes.judge(&vec![0, 10, 20], 10, 30), Ok(()));
        assert_eq!(prefixes.judge(&vec![0, 10, 20, 30], 30, 31), Ok(()));
    }

    #[test]
    fn an_acknowledged_commit_must_be_there() {
        let wrong = three().judge(&vec![0, 10], 20, 15).unwrap_err();
        assert!(wrong.contains("acknowledged commit is lost"), "{wrong}");
    }

    #[test]
    fn an_effect_without_its_commit_is_illegal() {
        let wrong = three().judge(&vec![0, 10, 20], 0, 20).unwrap_err();
        assert!(wrong.contains("the state after the first 2"), "{wrong}");
    }

    #[test]
    fn a_later_commit_without_an_earlier_one_is_illegal() {
        let wrong = three().judge(&vec![0, 20], 0, 25).unwrap_err();
        assert!(wrong.contains("no prefix"), "{wrong}");
        assert!(three().judge_loosely(&vec![0, 20]).is_err());
        assert!(three().judge_loosely(&vec![0, 10]).is_ok());
    }

    #[test]
    fn a_commit_of_which_nobody_knows_may_be_kept_or_not() {
        let mut history = History::new(vec![0]);
        history.committed(10, Box::new(|s: &mut Vec<u32>| s.push(10)));
        history.unknown(Box::new(|s: &mut Vec<u32>| s.push(99)));
        let prefixes = history.prefixes();
        assert_eq!(prefixes.judge(&vec![0, 10], 10, 12), Ok(()));
        assert_eq!(prefixes.judge(&vec![0, 10, 99], 10, 12), Ok(()));
        assert!(prefixes.judge(&vec![0, 99], 0, 9).is_err());
    }
}
