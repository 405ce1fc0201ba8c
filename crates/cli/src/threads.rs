//! Threads of a command.

use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::output::Failure;

/// Starts a thread within a scope. The caller ends the other threads of the scope if the system refuses this one.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, Failure> {
    Builder::new().spawn_scoped(scope, work).map_err(|error| {
        Failure(format!(
            "cannot start a thread ({error}): request fewer (--threads), or raise the limits of threads (ulimit -u) and memory"
        ))
    })
}
