//! A limit of the rate at which a backup or a scrub reads.

use std::time::{Duration, Instant};

use cedrat_sync::{Condvar, Mutex};

/// Maximum time until a waiting reader checks whether it is to end.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The rate of a reader since it began.
#[derive(Debug)]
pub(crate) struct Pace {
    pub(crate) began: Instant,
    /// 0: no limit.
    bytes_per_second_max: u64,
    /// Whether the reader is to end.
    is_ended: Mutex<bool>,
    ended: Condvar,
}

impl Pace {
    pub(crate) fn new(bytes_per_second_max: u64) -> Pace {
        Pace { began: Instant::now(), bytes_per_second_max, is_ended: Mutex::new(false), ended: Condvar::new() }
    }

    /// Ends the reader, also while it waits.
    pub(crate) fn end(&self) {
        *self.is_ended.lock() = true;
        self.ended.notify_all();
    }

    pub(crate) fn is_ended(&self) -> bool {
        *self.is_ended.lock()
    }

    /// Waits until the rate allows this number of bytes in total. Returns `false` if the reader is to end, or `is_stopped`.
    pub(crate) fn wait(&self, bytes: u64, is_stopped: impl Fn() -> bool) -> bool {
        let due = match self.bytes_per_second_max {
            0 => Duration::ZERO,
            rate => Duration::try_from_secs_f64(bytes as f64 / rate as f64).unwrap_or(Duration::MAX),
        };
        let mut is_ended = self.is_ended.lock();
        loop {
            if *is_ended || is_stopped() {
                return false;
            }
            let left = due.saturating_sub(self.began.elapsed());
            if left.is_zero() {
                return true;
            }
            self.ended.wait_for(&mut is_ended, left.min(WAIT_MAX));
        }
    }
}
