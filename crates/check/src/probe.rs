//! What all checks of a scenario share: opening its store, and turning whatever goes wrong into a failure with its case.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use cedrat_media::{Media, SimDisk};
use cedrat_sync::Arc;
use cedrat_txn::Store;

use crate::case::Case;
use crate::history::{Acknowledged, Prefixes};
use crate::report::{Failure, Fault};
use crate::scenario::{Error, Scenario};

/// A scenario under the name of its check.
pub(crate) struct Probe<S: Scenario> {
    pub(crate) name: String,
    pub(crate) scenario: S,
}

impl<S: Scenario> Probe<S> {
    /// # Panics
    /// If `name` is not one word: a case's line could not be read back.
    pub(crate) fn new(name: &str, scenario: S) -> Probe<S> {
        assert!(!name.is_empty() && !name.contains(char::is_whitespace), "the name of a check is one word");
        Probe { name: name.to_string(), scenario }
    }

    pub(crate) fn open(&self, disk: &Arc<SimDisk>) -> Result<Store, Error> {
        let media: Arc<dyn Media> = disk.clone();
        let store = Store::open(media, self.scenario.options(), self.scenario.registry())?;
        Ok(store)
    }

    /// Recovers an image and judges it: a legal state (with at least what was `acknowledged`), and whole.
    pub(crate) fn examine(
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
        self.guarded(case, Fault::Check, || {
            store.check()?;
            scenario.check(&store, roots)
        })?;
        Ok((store, state))
    }

    /// Runs a step; its error becomes the failure `fault` of `case`, its panic another.
    pub(crate) fn guarded<T>(
        &self,
        case: &Case,
        fault: Fault,
        step: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Failure> {
        match quietly(step) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.failure(case, fault, error.to_string())),
            Err(words) => Err(self.failure(case, Fault::Panicked, words)),
        }
    }

    pub(crate) fn failure(&self, case: &Case, fault: Fault, seen: String) -> Failure {
        Failure { name: self.name.clone(), case: Box::new(case.clone()), fault, seen }
    }
}

/// Runs `check` under the seeded scheduler, if the build has it, and returns its result.
pub(crate) fn explored<T: Send + 'static>(seed: u64, check: impl Fn() -> T + Send + Sync + 'static) -> T {
    let result = Arc::new(Mutex::new(None));
    let to = Arc::clone(&result);
    cedrat_sync::explore(seed, 1, move || {
        let outcome = check();
        *to.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    });
    let outcome = result.lock().unwrap_or_else(PoisonError::into_inner).take();
    outcome.expect("the check has ended")
}

/// Runs `step`; the words of its panic are the error.
pub(crate) fn quietly<T>(step: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(step)).map_err(|panic| {
        panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_else(|| "it panicked without words".to_string())
    })
}
