//! Waiting for the next transaction.

use std::task::{Wake, Waker};
use std::time::Duration;

use cedrat_sync::{Condvar, Mutex};

use super::ChangeStream;
use super::source::Origin;
use crate::error::Result;

/// A flag that is raised when the log may have more. A stream has one for all its waits, so that the log knows it once.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    is_raised: Mutex<bool>,
    raised: Condvar,
}

impl Wake for Signal {
    fn wake(self: std::sync::Arc<Self>) {
        *self.is_raised.lock() = true;
        self.raised.notify_all();
    }
}

impl Signal {
    /// Lowers the flag, before the log is asked to raise it.
    pub(crate) fn lower(&self) {
        *self.is_raised.lock() = false;
    }

    /// Waits until the flag is raised, for about this time at most.
    pub(crate) fn wait(&self, at_most: Duration) {
        let mut is_raised = self.is_raised.lock();
        while !*is_raised {
            if self.raised.wait_for(&mut is_raised, at_most).timed_out() {
                break;
            }
        }
    }
}

impl ChangeStream {
    /// Waits until more of the log is durable, for about this time at most. [`next`](ChangeStream::next) then looks whether a
    /// transaction has committed; a thread that follows a store calls both in turn. Returns whether more is durable, or the store
    /// has stopped.
    ///
    /// It forces nothing: an asynchronous commit appears when the store has written it.
    ///
    /// # Errors
    /// [`Error::Stopped`](crate::Error::Stopped).
    pub fn wait(&self, at_most: Duration) -> Result<bool> {
        let Origin::Store(store) = &self.origin else { return Ok(false) };
        let (signal, log) = (&self.signal, &store.inner.log);
        let wanted = self.scanned.next();
        signal.lower();
        log.wake_when_durable(wanted, &Waker::from(std::sync::Arc::clone(signal)));
        signal.wait(at_most);
        store.inner.alive_here()?;
        Ok(log.is_stable(wanted))
    }

    /// Wakes a task when more of the log is durable than the stream has read, or the store has stopped.
    pub fn wake_when_more(&self, waker: &Waker) {
        match &self.origin {
            Origin::Store(store) => store.inner.log.wake_when_durable(self.scanned.next(), waker),
            Origin::Files(_) => waker.wake_by_ref(),
        }
    }
}
