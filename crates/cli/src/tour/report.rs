//! Report at the end of a tour.

use serde::Serialize;

use super::supervisor::Course;
use crate::output::{self, Outcome, grouped};

/// The figures of a tour that ended well.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Text files that were counted.
    files: u64,
    /// Words, repeated ones included.
    words: u64,
    /// Different words.
    distinct_words: u64,
    /// How often the working process was killed.
    kills: u64,
    /// Committed transactions that recovery redid, over all recoveries.
    transactions_redone: u64,
    /// Unfinished transactions that recovery undid, over all recoveries.
    transactions_undone: u64,
    /// Total duration of the recoveries.
    recovery_ms: f64,
    /// Durable transactions for each second of work.
    commits_per_s: f64,
}

impl Report {
    pub(crate) fn new(files: u64, words: u64, distinct_words: u64, course: &Course) -> Report {
        let sum = |part: fn(&super::protocol::Opened) -> u64| course.recoveries.iter().map(part).sum();
        let micros: u64 = sum(|opened| opened.micros);
        let seconds = course.working.as_secs_f64();
        Report {
            files,
            words,
            distinct_words,
            kills: course.kills,
            transactions_redone: sum(|opened| opened.redone),
            transactions_undone: sum(|opened| opened.undone),
            recovery_ms: micros as f64 / 1000.0,
            commits_per_s: if seconds > 0.0 { course.commits as f64 / seconds } else { 0.0 },
        }
    }

    /// Prints it as a short table, or as one JSON object.
    pub(crate) fn print(&self, json: bool) -> Outcome {
        if json {
            return output::json(self);
        }
        output::rows(&[
            ("files", grouped(self.files)),
            ("words", format!("{} ({} different)", grouped(self.words), grouped(self.distinct_words))),
            ("kills", grouped(self.kills)),
            ("transactions redone", grouped(self.transactions_redone)),
            ("transactions undone", grouped(self.transactions_undone)),
            ("recovery time", format!("{:.1} ms", self.recovery_ms)),
            ("commits per second", grouped(self.commits_per_s as u64)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::protocol::Opened;
    use super::*;

    #[test]
    fn figures_are_summed_over_recoveries() {
        let opened = Opened { done: Vec::new(), redone: 3, undone: 1, micros: 1_500 };
        let course = Course {
            kills: 2,
            recoveries: vec![opened.clone(), opened],
            commits: 50,
            working: Duration::from_millis(500),
        };
        let report = Report::new(1, 2, 2, &course);
        assert_eq!((report.transactions_redone, report.transactions_undone), (6, 2));
        assert_eq!((report.recovery_ms, report.commits_per_s), (3.0, 100.0));
        let idle = Report::new(0, 0, 0, &Course::default());
        assert_eq!(idle.commits_per_s, 0.0);
    }
}
