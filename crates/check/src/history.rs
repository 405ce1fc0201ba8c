//! What a workload did, and which states a crash may leave of it.
//!
//! Every commit has one LSN, and that is its place in the order (invariant E10.1, W1): a recovered store must hold the
//! effects of a *prefix* of the commits in LSN order: of exactly those whose records the log still has. And the log must reach
//! at least to the newest commit that was acknowledged before the crash (W4). Nothing else is asked, and nothing less.
//!
//! Commits that are recoverable with their own log partition alone (`Partition`, Hathi §3) may be there beyond the end of the
//! log too: of each partition those up to some place, and at least those that were acknowledged (E8).

use std::fmt::Debug;

use cedrat_media::Mark;

type Effect<S> = Box<dyn Fn(&mut S) + Send>;

/// What a workload was told before a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// Every commit up to this LSN is durable; 0: none.
    pub(crate) up_to: u64,
    /// So are these, each with its partition alone.
    pub(crate) alone: Vec<u64>,
}

/// Marks of commits that are durable with their partition alone have this bit.
const ALONE: u64 = 1 << 63;

impl Acknowledged {
    /// The mark to be set where a commit is acknowledged.
    pub(crate) fn mark(lsn: u64, alone: bool) -> u64 {
        if alone { lsn | ALONE } else { lsn }
    }

    /// What the marks before a crash say.
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

/// A commit, and what it does to the model.
struct Commit<S> {
    lsn: u64,
    /// The partition with which alone it is recoverable.
    alone: Option<u16>,
    effect: Effect<S>,
}

/// The commits of one run of a workload, with what each does to the model.
pub(crate) struct History<S> {
    start: S,
    commits: Vec<Commit<S>>,
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
    pub(crate) fn committed(&mut self, lsn: u64, alone: Option<u16>, effect: Effect<S>) {
        self.commits.push(Commit { lsn, alone, effect });
    }

    /// All prefixes, ready for judging.
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
    /// The last state and some of the commits of which nobody knows.
    endings: Vec<S>,
}

impl<S: Clone + PartialEq + Debug> Prefixes<S> {
    pub(crate) fn commits(&self) -> usize {
        self.commits.len()
    }

    /// Is `observed` the legal outcome of a crash that left the log ending before LSN `end`, and before which the commit at
    /// `acknowledged` (0: none) was acknowledged?
    ///
    /// Exactly the commits whose record the log still has must be in it: none is missing, and no effect of another one.
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
            "the log has the first {commits} of {total} commits, the store holds {resembles}:\n  it holds   {}\n  after \
             {commits:>5} {}",
            brief(observed),
            brief(&self.states[commits]),
        ))
    }

    /// As [`judge`](Prefixes::judge), where commits that are recoverable alone lie beyond the end of the log.
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

    /// Whether some cut through each partition explains what is observed: of each partition the commits before its cut are
    /// there and those behind are not. `cuts` has the cuts of the first few partitions.
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
        let told = lsns.iter().rposition(|lsn| acknowledged.alone.contains(lsn)).map_or(0, |last| last + 1);
        (told..=lsns.len()).any(|count| {
            cuts.push(lsns.get(count).copied().unwrap_or(u64::MAX));
            let explains = self.some_cut(observed, acknowledged, commits, beyond, partitions, cuts);
            cuts.pop();
            explains
        })
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

    fn told(up_to: u64) -> Acknowledged {
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
    fn commits_alone_are_there_beyond_the_end_up_to_their_partitions_hole() {
        for legal in [vec![0, 10], vec![0, 10, 30], vec![0, 10, 30, 40], vec![0, 10, 40], vec![0, 10, 30, 40, 50]] {
            assert_eq!(alone().judge(&legal, &told(10), 20), Ok(()), "{legal:?}");
        }
        for wrong in [vec![0, 10, 50], vec![0, 10, 20, 40], vec![0, 30], vec![0, 10, 40, 50]] {
            assert!(alone().judge(&wrong, &told(10), 20).is_err(), "{wrong:?}");
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
    fn commits_count_in_the_order_of_their_lsns() {
        assert_eq!(*three().last(), vec![0, 10, 20, 30]);
    }

    #[test]
    fn the_end_of_the_log_says_which_prefix_is_legal() {
        let prefixes = three();
        assert_eq!(prefixes.judge(&vec![0], &told(0), 10), Ok(()));
        assert_eq!(prefixes.judge(&vec![0, 10], &told(10), 11), Ok(()));
        assert_eq!(prefixes.judge(&vec![0, 10, 20], &told(10), 30), Ok(()));
        assert_eq!(prefixes.judge(&vec![0, 10, 20, 30], &told(30), 31), Ok(()));
    }

    #[test]
    fn an_acknowledged_commit_must_be_there() {
        let wrong = three().judge(&vec![0, 10], &told(20), 15).unwrap_err();
        assert!(wrong.contains("acknowledged commit is lost"), "{wrong}");
    }

    #[test]
    fn an_effect_without_its_commit_is_illegal() {
        let wrong = three().judge(&vec![0, 10, 20], &told(0), 20).unwrap_err();
        assert!(wrong.contains("the state after the first 2"), "{wrong}");
    }

    #[test]
    fn a_later_commit_without_an_earlier_one_is_illegal() {
        let wrong = three().judge(&vec![0, 20], &told(0), 25).unwrap_err();
        assert!(wrong.contains("no prefix"), "{wrong}");
        assert!(three().judge_loosely(&vec![0, 20]).is_err());
        assert!(three().judge_loosely(&vec![0, 10]).is_ok());
    }

    #[test]
    fn a_commit_of_which_nobody_knows_may_be_kept_or_not() {
        let mut history = History::new(vec![0]);
        history.committed(10, None, Box::new(|s: &mut Vec<u32>| s.push(10)));
        history.unknown(Box::new(|s: &mut Vec<u32>| s.push(99)));
        let prefixes = history.prefixes();
        assert_eq!(prefixes.judge(&vec![0, 10], &told(10), 12), Ok(()));
        assert_eq!(prefixes.judge(&vec![0, 10, 99], &told(10), 12), Ok(()));
        assert!(prefixes.judge(&vec![0, 99], &told(0), 9).is_err());
    }
}
