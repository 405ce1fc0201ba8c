//! Time limit of each step of a check. A thread that loops cannot be stopped, so the process ends, after it has printed the
//! failure.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cedrat_sync::Arc;

use crate::case::Case;
use crate::report::{Failure, Fault};

/// Default time limit of a step that recovers, reads or verifies one state.
pub(crate) const STATE_TIME_MAX: Duration = Duration::from_secs(60);

/// A run of the workload is one step; it may take so many times longer than a state.
const WORKLOAD_FACTOR: u32 = 10;

/// The step that runs now.
struct Step {
    /// Turns the description of a violation into the failure of the check.
    failure: Box<dyn Fn(String) -> Box<dyn Display> + Send>,
    what: &'static str,
    began: Instant,
    time_max: Duration,
}

type Now = Arc<Mutex<Option<Step>>>;

/// A watchdog over the steps of a check. Its thread starts with the first step.
pub(crate) struct Clock {
    pub(crate) time_max: Duration,
    now: Now,
    watchdog: OnceLock<Watchdog>,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock { time_max: STATE_TIME_MAX, now: Arc::default(), watchdog: OnceLock::new() }
    }

    /// Runs a step of `case`, whose errors are failures of the kind `fault`.
    pub(crate) fn timed<T>(&self, case: &Case, fault: Fault, step: impl FnOnce() -> T) -> T {
        let (what, time_max) = match fault {
            Fault::Workload => ("the workload", self.time_max * WORKLOAD_FACTOR),
            Fault::Refused => ("opening the store", self.time_max),
            Fault::Model => ("reading the state", self.time_max),
            _ => ("a step of the check", self.time_max),
        };
        let case = case.clone();
        let failure = move |seen| Failure {
            name: case.name.clone(),
            case: Box::new(case.clone()),
            fault: Fault::Hang,
            seen,
            log: Vec::new(),
            smaller: None,
        };
        self.timed_for(what, time_max, failure, step)
    }

    /// Runs `what` within the time limit of a state; beyond it, `failure` is printed.
    pub(crate) fn timed_as<T, F: Display + 'static>(
        &self,
        what: &'static str,
        failure: impl Fn(String) -> F + Send + 'static,
        step: impl FnOnce() -> T,
    ) -> T {
        self.timed_for(what, self.time_max, failure, step)
    }

    fn timed_for<T, F: Display + 'static>(
        &self,
        what: &'static str,
        time_max: Duration,
        failure: impl Fn(String) -> F + Send + 'static,
        step: impl FnOnce() -> T,
    ) -> T {
        if cfg!(cedrat_shuttle) {
            return step(); // the scheduler has limits of its own
        }
        let failure = Box::new(move |seen| Box::new(failure(seen)) as Box<dyn Display>);
        let before = locked(&self.now).replace(Step { failure, what, began: Instant::now(), time_max });
        self.watchdog.get_or_init(|| Watchdog::start(&self.now, self.time_max));
        let value = step();
        *locked(&self.now) = before;
        value
    }
}

fn locked(now: &Now) -> MutexGuard<'_, Option<Step>> {
    now.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Watchdog(Option<(Sender<()>, JoinHandle<()>)>);

impl Watchdog {
    fn start(now: &Now, time_max: Duration) -> Watchdog {
        let (sender, receiver) = channel();
        let now = Arc::clone(now);
        let watch = move || {
            let mut wait = time_max;
            while receiver.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let step = locked(&now);
                wait = match &*step {
                    Some(step) => step.time_max.saturating_sub(step.began.elapsed()),
                    None => time_max,
                };
                if let Some(step) = step.as_ref().filter(|_| wait.is_zero()) {
                    step.end_process();
                }
            }
        };
        // Without a watchdog the check is the same.
        let thread = thread::Builder::new().name("cedrat-check-clock".into()).spawn(watch);
        Watchdog(thread.ok().map(|thread| (sender, thread)))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            let _ = thread.join(); // it cannot panic
        }
    }
}

impl Step {
    fn end_process(&self) -> ! {
        let (what, time_max) = (self.what, self.time_max);
        let seen = format!("{what} takes longer than {time_max:?}; a thread cannot be stopped, so the process ends");
        let failure = (self.failure)(seen);
        // Not by `eprintln`, which the test harness captures: an abort loses what it has captured.
        let _ = writeln!(std::io::stderr(), "{failure}");
        std::process::abort()
    }
}
