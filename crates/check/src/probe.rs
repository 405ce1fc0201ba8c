//! Shared code of the checks of a scenario: opens its store, and converts each error into a failure with its case.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use cedrat_media::{Media, SimDisk};
use cedrat_sync::{Arc, Hang};
use cedrat_txn::Store;

use crate::case::Case;
use crate::clock::Clock;
use crate::history::{Acknowledged, Prefixes};
use crate::report::{Failure, Fault};
use crate::run::Mismatch;
use crate::scenario::{Error, Scenario};
use crate::words::last_records;

/// A scenario under the name of its check.
pub(crate) struct Probe<S: Scenario> {
    pub(crate) name: String,
    pub(crate) scenario: Arc<S>,
    pub(crate) clock: Clock,
}

impl<S: Scenario> Probe<S> {
    /// # Panics
    /// If `name` is not one word: a case's line could not be read back.
    pub(crate) fn new(name: &str, scenario: S) -> Probe<S> {
        assert!(!name.is_empty() && !name.contains(char::is_whitespace), "the name of a check is one word");
        Probe { name: name.to_string(), scenario: Arc::new(scenario), clock: Clock::new() }
    }

    pub(crate) fn open(&self, disk: &Arc<SimDisk>) -> Result<Store, Error> {
        let media: Arc<dyn Media> = disk.clone();
        let mut options = self.scenario.options();
        options.pool.poison_free = true;
        // Both ways of redo, and of loading heaps, by the image alone, so that a case that is repeated opens it in the same way.
        let (hash, from) = (disk.image().hash(), [0, u64::MAX]);
        options.redo_on_demand_bytes = from[(hash % 2) as usize];
        options.memory.load_on_demand_bytes = from[(hash / 2 % 2) as usize];
        let store = Store::open(media, options, self.scenario.registry())?;
        Ok(store)
    }

    /// Recovers an image and verifies it: a legal state (with at least the `acknowledged` commits), and a sound store.
    pub(crate) fn examine(
        &self,
        case: &Case,
        image: &Arc<SimDisk>,
        roots: &S::Roots,
        prefixes: &Prefixes<S::State>,
        acknowledged: &Acknowledged,
    ) -> Result<(Store, S::State), Failure> {
        let before = image.image();
        self.judge(case, image, roots, prefixes, acknowledged).map_err(|failure| {
            let log = last_records(&before, &self.scenario.registry());
            Failure { log, ..failure }
        })
    }

    fn judge(
        &self,
        case: &Case,
        image: &Arc<SimDisk>,
        roots: &S::Roots,
        prefixes: &Prefixes<S::State>,
        acknowledged: &Acknowledged,
    ) -> Result<(Store, S::State), Failure> {
        let scenario = &self.scenario;
        let store = self.guarded(case, Fault::Refused, || self.open(image))?;
        let state = self.guarded(case, Fault::Model, || {
            let state = scenario.read(&store, roots)?;
            prefixes.judge(&state, acknowledged, store.recovery().end.get())?;
            Ok(state)
        })?;
        self.whole(case, &store, roots)?;
        Ok((store, state))
    }

    /// Verifies what the model does not contain: pages, structures, leaks.
    pub(crate) fn whole(&self, case: &Case, store: &Store, roots: &S::Roots) -> Result<(), Failure> {
        self.guarded(case, Fault::Check, || {
            store.check()?;
            self.scenario.check(store, roots)?;
            self.no_leak(store, roots)
        })
    }

    /// Compares the pages in use with those that the scenario reaches.
    pub(crate) fn no_leak(&self, store: &Store, roots: &S::Roots) -> Result<(), Error> {
        // A prepared transaction may still free what it has allocated.
        if !store.in_doubt()?.is_empty() {
            return Ok(());
        }
        let Some(reached) = self.scenario.reachable(store, roots)? else { return Ok(()) };
        let (used, reached): (BTreeSet<_>, BTreeSet<_>) =
            (store.pages_in_use()?.into_iter().collect(), reached.into_iter().collect());
        if let Some(page) = reached.difference(&used).next() {
            return Err(format!("page {page} is reached, and is free").into());
        }
        let leaked: Vec<String> = used.difference(&reached).map(ToString::to_string).collect();
        match leaked.is_empty() {
            true => Ok(()),
            false => Err(format!("pages leak: in use and not reached are {}", leaked.join(", ")).into()),
        }
    }

    /// Runs a step; its error becomes the failure `fault` of `case`, its panic another.
    pub(crate) fn guarded<T>(
        &self,
        case: &Case,
        fault: Fault,
        step: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Failure> {
        match self.timed(case, fault, step) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) if error.is::<Mismatch>() => Err(self.failure(case, Fault::Model, error.to_string())),
            Ok(Err(error)) if error.is::<Hang>() => Err(self.failure(case, Fault::Hang, error.to_string())),
            Ok(Err(error)) => Err(self.failure(case, fault, error.to_string())),
            Err(words) => Err(self.failure(case, Fault::Panicked, words)),
        }
    }

    /// Runs a step within its time limit; the message of a panic becomes the error.
    pub(crate) fn timed<T>(&self, case: &Case, fault: Fault, step: impl FnOnce() -> T) -> Result<T, String> {
        self.clock.timed(case, fault, || quietly(step))
    }

    pub(crate) fn failure(&self, case: &Case, fault: Fault, seen: String) -> Failure {
        let seen = if case.injected.is_none() { without_advice(seen) } else { seen };
        Failure { name: self.name.clone(), case: Box::new(case.clone()), fault, seen, log: Vec::new(), smaller: None }
    }
}

/// Errors of the engine without their advice to restore a copy: the simulated disk has damaged nothing.
fn without_advice(words: String) -> String {
    let Some(begin) = words.find("; restore ") else { return words };
    const END: &str = " from a copy";
    match words[begin..].find(END) {
        Some(end) => without_advice(words[..begin].to_string() + &words[begin + end + END.len()..]),
        None => words,
    }
}

/// Runs `check` under the seeded scheduler in a build that has no other threads, and returns its result.
pub(crate) fn explored<T: Send + 'static>(seed: u64, check: impl Fn() -> T + Send + Sync + 'static) -> T {
    if cfg!(not(cedrat_shuttle)) {
        return check(); // `Run::in_threads` calls the scheduler
    }
    let result = Arc::new(Mutex::new(None));
    let to = Arc::clone(&result);
    cedrat_sync::explore(seed, 1, move || {
        let outcome = check();
        *to.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    });
    let outcome = result.lock().unwrap_or_else(PoisonError::into_inner).take();
    outcome.expect("the check has ended")
}

/// Runs `step`; the message of a panic becomes the error.
pub(crate) fn quietly<T>(step: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(step)).map_err(|panic| message_of(&*panic))
}

/// The message of a panic.
pub(crate) fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "a panic without a message".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_to_restore_is_left_out() {
        let words =
            "pages, byte 8: wrong; restore it from a copy; then: log, byte 9: wrong; restore this file from a copy";
        assert_eq!(without_advice(words.to_string()), "pages, byte 8: wrong; then: log, byte 9: wrong");
        assert_eq!(without_advice("nothing; restore all".to_string()), "nothing; restore all");
    }
}
