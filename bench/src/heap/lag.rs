//! Lag of durability: the time from the draw of an LSN until it is durable.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cedrat::heap::Memory;
use cedrat_wal::{Log, Lsn};

/// Interval between two samples.
const EVERY: Duration = Duration::from_millis(1);

/// Samples of a log.
#[derive(Default)]
pub(super) struct Lag {
    /// LSNs that are not known to be durable, with the time when each was the newest.
    drawn: VecDeque<(Instant, Lsn)>,
    /// Longest time from an LSN being the newest to the sample that found it durable, or not yet durable.
    pub(super) worst: Duration,
    /// Sum of the times until LSNs were found to be durable, and their number.
    sum: Duration,
    found: u32,
    /// Longest time between two samples: up to this part of `worst` may be due to the sampling itself.
    pub(super) blind: Duration,
    before: Option<Instant>,
    redo_from: Option<Lsn>,
}

impl Lag {
    /// Samples every millisecond until `stop`, and counts the checkpoints that complete meanwhile.
    pub(super) fn watch(memory: &Memory, stop: &AtomicBool, checkpoints: &AtomicU64) -> Lag {
        let mut lag = Lag::default();
        let Some(log) = memory.log() else { return lag };
        hurry();
        while !stop.load(Ordering::Relaxed) {
            lag.look(log);
            lag.count_checkpoints(memory, checkpoints);
            // The interval between two samples: a busy loop would take processor time from the threads that are measured.
            thread::sleep(EVERY);
        }
        lag
    }

    /// Returns the mean time from the draw of an LSN until it was durable.
    pub(super) fn mean(&self) -> Option<Duration> {
        (self.found > 0).then(|| self.sum / self.found)
    }

    fn look(&mut self, log: &Log) {
        // The durable LSN is read first, so that the newest is not behind it.
        let (now, durable) = (Instant::now(), log.durable_lsn());
        self.note(now, durable, log.current_lsn());
    }

    fn note(&mut self, now: Instant, durable: Lsn, newest: Lsn) {
        while let Some(&(drawn, lsn)) = self.drawn.front() {
            self.worst = self.worst.max(now - drawn);
            if lsn > durable {
                break;
            }
            self.sum += now - drawn;
            self.found += 1;
            self.drawn.pop_front();
        }
        if newest > durable && self.drawn.back().is_none_or(|&(_, lsn)| lsn < newest) {
            self.drawn.push_back((now, newest));
        }
        self.blind = self.blind.max(self.before.map_or(Duration::ZERO, |before| now - before));
        self.before = Some(now);
    }

    fn count_checkpoints(&mut self, memory: &Memory, checkpoints: &AtomicU64) {
        let now = memory.redo_from();
        if self.redo_from.is_some_and(|before| before != now) {
            checkpoints.fetch_add(1, Ordering::Relaxed);
        }
        self.redo_from = Some(now);
    }
}

/// Requests a high priority for this thread: it needs hardly any processor time, and more threads than processors are
/// measured. If the request is refused, it samples less often, and reports that.
fn hurry() {
    // SAFETY: a call that touches no memory; on Linux it applies to the calling thread alone.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_lag_runs_from_draw_to_durable() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut lag = Lag::default();
        lag.note(at(0), Lsn::new(7), Lsn::new(7));
        assert_eq!((lag.mean(), lag.worst), (None, Duration::ZERO), "nothing waits");
        lag.note(at(1), Lsn::new(7), Lsn::new(8));
        lag.note(at(2), Lsn::new(7), Lsn::new(8)); // noted once
        lag.note(at(3), Lsn::new(7), Lsn::new(9));
        assert_eq!((lag.mean(), lag.worst), (None, Duration::from_millis(2)), "it waits still");
        lag.note(at(5), Lsn::new(8), Lsn::new(9));
        lag.note(at(9), Lsn::new(9), Lsn::new(9));
        assert_eq!(lag.mean(), Some(Duration::from_millis(5)), "4 and 6 ms");
        assert_eq!((lag.worst, lag.blind), (Duration::from_millis(6), Duration::from_millis(4)));
    }
}
