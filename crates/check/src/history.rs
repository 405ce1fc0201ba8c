//! History of a workload, and the states that a crash may leave of it.
//!
//! Every commit has one LSN, which is its place in the order (invariant E10.1, W1): a recovered store must have the effects
//! of a *prefix* of the commits in LSN order: exactly of those whose records the log still has. And the log must reach at
//! least to the newest commit that was acknowledged before the crash (W4). These are all requirements.
//!
//! Commits that are recoverable with their own log partition alone (`Partition`, Hathi §3) may be present beyond the end of
//! the log too: of each partition those up to some LSN, and at least the acknowledged ones (E8).

use std::fmt::Debug;

use cedrat_media::Mark;

use crate::words::difference;

type Effect<S> = Box<dyn Fn(&mut S) + Send>;

/// Commits that were acknowledged before a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// Every commit up to this LSN is durable; 0 if there is none.
    pub(crate) up_to: u64,
    /// LSNs of commits that are durable with their own partition alone.
    pub(crate) alone: Vec<u64>,
}

/// Marks of commits that are durable with their partition alone have this bit.
const ALONE: u64 = 1 << 63;

impl Acknowledged {
    /// Returns the mark that is set when a commit is acknowledged.
    pub(crate) fn mark(lsn: u64, alone: bool) -> u64 {
        if alone { lsn | ALONE } else { lsn }
    }

    /// Decodes the marks before a crash.
    pub(crate) fn of(marks: &[Mark]) -> Acknowledged {
        let mut acknowledged = Acknowledged::default();
        for mark in marks {
            match mark.label & ALONE {
                0 => acknowledged.up_to = acknowledged.up_to.max(mark.label),
                _ => acknowledged.alone.push(mark.label & !ALONE),
            }
        }
        acknowledged
    }
}

/// A commit, and its effect on the model.
struct Commit<S> {
    lsn: u64,
    /// The partition that suffices to recover the commit, if there is one.
    alone: Option<u16>,
    effect: Effect<S>,
}

/// The commits of one run of a workload, with their effects on the model.
pub(crate) struct History<S> {
    start: S,
    commits: Vec<Commit<S>>,
    /// Commits with an unknown outcome, because the call failed: the last actions of their threads.
    unknown: Vec<Effect<S>>,
    /// The model after the commits so far; `None` after one was entered behind a later one.
    now: Option<S>,
    newest: u64,
}

impl<S: Clone + PartialEq + Debug> History<S> {
    /// Makes a history that begins with the state of the store before the workload.
    pub(crate) fn new(start: S) -> History<S> {
        History { now: Some(start.clone()), start, commits: Vec::new(), unknown: Vec::new(), newest: 0 }
    }

    /// Enters a commit that failed; only reopening shows whether it was kept.
    pub(crate) fn unknown(&mut self, effect: Effect<S>) {
        self.unknown.push(effect);
    }

    /// Enters a commit record at `lsn`. Threads may call in any order; the LSN decides.
    pub(crate) fn committed(&mut self, lsn: u64, alone: Option<u16>, effect: Effect<S>) {
        match &mut self.now {
            Some(now) if lsn >= self.newest => effect(now),
            _ => self.now = None,
        }
        self.newest = self.newest.max(lsn);
        self.commits.push(Commit { lsn, alone, effect });
    }

    /// The model after the commits so far.
    pub(crate) fn model(&mut self) -> &S {
        if self.now.is_none() {
            self.commits.sort_by_key(|commit| commit.lsn);
        }
        let History { now, start, commits, .. } = self;
        now.get_or_insert_with(|| {
            let mut now = start.clone();
            commits.iter().for_each(|commit| (commit.effect)(&mut now));
            now
        })
    }

    /// The number of commits so far.
    pub(crate) fn commits(&self) -> usize {
        self.commits.len()
    }

    /// Returns all prefixes, to verify states.
    pub(crate) fn prefixes(mut self) -> Prefixes<S> {
        self.commits.sort_by_key(|commit| commit.lsn);
        let mut states = vec![self.start];
        for commit in &self.commits {
            let mut next = states[states.len() - 1].clone();
            (commit.effect)(&mut next);
            states.push(next);
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
        Prefixes { states, commits: self.commits, endings }
    }
}

/// The states after 0, 1, 2, … commits.
pub(crate) struct Prefixes<S> {
    states: Vec<S>,
    commits: Vec<Commit<S>>,
    /// The last state with each subset of the commits with an unknown outcome.
    endings: Vec<S>,
}

impl<S: Clone + PartialEq + Debug> Prefixes<S> {
    pub(crate) fn commits(&self) -> usize {
        self.commits.len()
    }

    /// Verifies that `observed` is a legal outcome of a crash that left the log ending before LSN `end`, after the commits of
    /// `acknowledged` were acknowledged.
    ///
    /// It must contain exactly the commits whose records the log still has, and no effect of another one.
    pub(crate) fn judge(&self, observed: &S, acknowledged: &Acknowledged, end: u64) -> Result<(), String> {
        let up_to = acknowledged.up_to;
        if end <= up_to {
            return Err(format!(
                "an acknowledged commit is lost: the log ends before LSN {end}, but {up_to} was acknowledged before \
                 the crash"
            ));
        }
        let total = self.commits();
        let commits = self.commits.partition_point(|commit| commit.lsn < end);
        if self.commits[commits..].iter().any(|commit| commit.alone.is_some()) {
            return self.judge_beyond(observed, acknowledged, commits);
        }
        if self.states[commits] == *observed || commits == total && self.endings.contains(observed) {
            return Ok(());
        }
        let as_of = self.states.iter().rposition(|state| state == observed);
        let resembles = match as_of {
            Some(other) => format!("the state after the first {other}"),
            None => "no prefix of them".to_string(),
        };
        Err(format!(
            "the log has the first {commits} of {total} commits, the store holds {resembles}; - in the store, + in the \
             model:{}",
            difference(observed, &self.states[commits]),
        ))
    }

    /// Like [`judge`](Prefixes::judge), if commits that are recoverable alone lie beyond the end of the log.
    fn judge_beyond(&self, observed: &S, acknowledged: &Acknowledged, commits: usize) -> Result<(), String> {
        let beyond: Vec<&Commit<S>> = self.commits[commits..].iter().filter(|commit| commit.alone.is_some()).collect();
        let mut partitions: Vec<u16> = beyond.iter().filter_map(|commit| commit.alone).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let found = self.some_cut(observed, acknowledged, commits, &beyond, &partitions, &mut Vec::new());
        if found || commits == self.commits() && self.endings.contains(observed) {
            return Ok(());
        }
        Err(format!(
            "the log has the first {commits} of {} commits, and beyond them there are {} that need only their own \
             partitions ({} of all that were acknowledged alone); no choice of those gives what the store holds:\n  it \
             holds   {}\n  after {commits:>5} {}",
            self.commits(),
            beyond.len(),
            acknowledged.alone.len(),
            brief(observed),
            brief(&self.states[commits]),
        ))
    }

    /// Returns whether some cut through each partition explains the observed state: of each partition the commits before its
    /// cut are present and those behind it are not. `cuts` contains the cuts of the first few partitions.
    fn some_cut(
        &self,
        observed: &S,
        acknowledged: &Acknowledged,
        commits: usize,
        beyond: &[&Commit<S>],
        partitions: &[u16],
        cuts: &mut Vec<u64>,
    ) -> bool {
        let Some(&partition) = partitions.get(cuts.len()) else {
            let is_there = |commit: &&&Commit<S>| {
                let at = partitions.iter().position(|&known| Some(known) == commit.alone);
                at.is_some_and(|at| commit.lsn < cuts[at])
            };
            let mut state = self.states[commits].clone();
            beyond.iter().filter(is_there).for_each(|commit| (commit.effect)(&mut state));
            return state == *observed;
        };
        let own = beyond.iter().filter(|commit| commit.alone == Some(partition));
        let lsns: Vec<u64> = own.map(|commit| commit.lsn).collect();
        let acknowledged_to = lsns.iter().rposition(|lsn| acknowledged.alone.contains(lsn)).map_or(0, |last| last + 1);
        (acknowledged_to..=lsns.len()).any(|count| {
            cuts.push(lsns.get(count).copied().unwrap_or(u64::MAX));
            let explains = self.some_cut(observed, acknowledged, commits, beyond, partitions, cuts);
            cuts.pop();
            explains
        })
    }

    /// Verifies that `observed` is any prefix, for logs with an unknown end.
    pub(crate) fn judge_loosely(&self, observed: &S) -> Result<(), String> {
        match self.states.contains(observed) {
            true => Ok(()),
            false => Err(format!("the store holds no prefix of the {} commits: {}", self.commits(), brief(observed))),
        }
    }

    /// The state if nothing was lost.
    pub(crate) fn last(&self) -> &S {
        &self.states[self.states.len() - 1]
    }
}

/// Returns the beginning of a value's debug form, short enough for a message.
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

    fn acknowledged_to(up_to: u64) -> Acknowledged {
        Acknowledged { up_to, alone: Vec::new() }
    }

    /// 10; then 20 lost; then 30 and 50 with partition 1 alone, 40 with partition 2.
    fn alone() -> Prefixes<Vec<u32>> {
        let mut history = History::new(vec![0]);
        for (lsn, alone) in [(10_u64, None), (20, None), (30, Some(1)), (40, Some(2)), (50, Some(1))] {
            history.committed(lsn, alone, Box::new(move |s: &mut Vec<u32>| s.push(lsn as u32)));
        }
        history.prefixes()
    }

    #[test]
    fn independent_commits_end_at_partition_hole() {
        for legal in [vec![0, 10], vec![0, 10, 30], vec![0, 10, 30, 40], vec![0, 10, 40], vec![0, 10, 30, 40, 50]] {
            assert_eq!(alone().judge(&legal, &acknowledged_to(10), 20), Ok(()), "{legal:?}");
        }
        for wrong in [vec![0, 10, 50], vec![0, 10, 20, 40], vec![0, 30], vec![0, 10, 40, 50]] {
            assert!(alone().judge(&wrong, &acknowledged_to(10), 20).is_err(), "{wrong:?}");
        }
        let acknowledged = Acknowledged { up_to: 10, alone: vec![40] };
        assert!(alone().judge(&vec![0, 10, 30], &acknowledged, 20).is_err());
        assert_eq!(alone().judge(&vec![0, 10, 30, 40], &acknowledged, 20), Ok(()));
    }

    fn three() -> Prefixes<Vec<u32>> {
        let mut history = History::new(vec![0]);
        // Threads report in any order.
        for lsn in [30_u64, 10, 20] {
            history.committed(lsn, None, Box::new(move |s: &mut Vec<u32>| s.push(lsn as u32)));
        }
        history.prefixes()
    }

    #[test]
    fn commits_apply_in_lsn_order() {
        assert_eq!(*three().last(), vec![0, 10, 20, 30]);
    }

    #[test]
    fn model_applies_commits_in_lsn_order() {
        let mut history = History::new(vec![0]);
        for (lsn, wanted) in [(10_u64, vec![0, 10]), (30, vec![0, 10, 30]), (20, vec![0, 10, 20, 30])] {
            history.committed(lsn, None, Box::new(move |s: &mut Vec<u32>| s.push(lsn as u32)));
            assert_eq!(*history.model(), wanted);
        }
    }

    #[test]
    fn log_end_decides_legal_prefix() {
        let prefixes = three();
        assert_eq!(prefixes.judge(&vec![0], &acknowledged_to(0), 10), Ok(()));
        assert_eq!(prefixes.judge(&vec![0, 10], &acknowledged_to(10), 11), Ok(()));
        assert_eq!(prefixes.judge(&vec![0, 10, 20], &acknowledged_to(10), 30), Ok(()));
        assert_eq!(prefixes.judge(&vec![0, 10, 20, 30], &acknowledged_to(30), 31), Ok(()));
    }

    #[test]
    fn an_acknowledged_commit_must_be_there() {
        let wrong = three().judge(&vec![0, 10], &acknowledged_to(20), 15).unwrap_err();
        assert!(wrong.contains("acknowledged commit is lost"), "{wrong}");
    }

    #[test]
    fn an_effect_without_its_commit_is_illegal() {
        let wrong = three().judge(&vec![0, 10, 20], &acknowledged_to(0), 20).unwrap_err();
        assert!(wrong.contains("the state after the first 2"), "{wrong}");
    }

    #[test]
    fn commit_without_its_predecessor_is_illegal() {
        let wrong = three().judge(&vec![0, 20], &acknowledged_to(0), 25).unwrap_err();
        assert!(wrong.contains("no prefix"), "{wrong}");
        assert!(three().judge_loosely(&vec![0, 20]).is_err());
        assert!(three().judge_loosely(&vec![0, 10]).is_ok());
    }

    #[test]
    fn unacknowledged_commit_may_be_kept() {
        let mut history = History::new(vec![0]);
        history.committed(10, None, Box::new(|s: &mut Vec<u32>| s.push(10)));
        history.unknown(Box::new(|s: &mut Vec<u32>| s.push(99)));
        let prefixes = history.prefixes();
        assert_eq!(prefixes.judge(&vec![0, 10], &acknowledged_to(10), 12), Ok(()));
        assert_eq!(prefixes.judge(&vec![0, 10, 99], &acknowledged_to(10), 12), Ok(()));
        assert!(prefixes.judge(&vec![0, 99], &acknowledged_to(0), 9).is_err());
    }
}
