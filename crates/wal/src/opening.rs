//! One opening of a log: from its beginning to its end, after which none of its handles writes (E1.8).
//!
//! Clones of a [`Log`](crate::Log), tickets and scans may outlive the opening, and the next opening writes to the
//! same files. So each change of a file passes through [`Opening::change`], and [`Opening::end`] returns when the
//! last change has finished: the directory's lock is released after that.

use cedrat_media::{LockGuard, Media};
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, Mutex, RwLock, planted};
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::entries::DirectoryLock;
use crate::error::{LogError, StopReason, Stopped};

/// One opening of a log.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// Held shared over each change of a file, and exclusively by the end.
    changing: RwLock<()>,
    has_ended: AtomicBool,
    /// The directory's lock, unless the caller of the opening holds it.
    lock: Mutex<Option<LockGuard>>,
}

/// The handle that holds the directory's lock while a log is open.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lock<'a> {
    /// The log takes it, and holds it to the end of the opening.
    Take,
    /// The caller holds it.
    Held(&'a DirectoryLock),
}

impl<'a> Lock<'a> {
    /// Takes the lock, if the log is to hold it.
    pub(crate) fn take(self, media: &dyn Media) -> Result<Option<DirectoryLock>, LogError> {
        match self {
            Lock::Take => crate::lock(media).map(Some),
            Lock::Held(_) => Ok(None),
        }
    }

    /// Returns the lock that the caller holds.
    pub(crate) fn held(self) -> Option<&'a DirectoryLock> {
        match self {
            Lock::Take => None,
            Lock::Held(held) => Some(held),
        }
    }
}

impl Opening {
    /// Keeps the directory's lock to the end of the opening.
    pub(crate) fn keep(&self, lock: Option<LockGuard>) {
        *self.lock.lock() = lock;
    }

    /// Changes a file, unless the opening has ended. A panic of the medium or of a sink becomes an error like any
    /// other: threads wait for this change, and must learn that it failed.
    ///
    /// # Errors
    /// The errors of `change`; the result of `of` for a panic, and for a change after the end.
    pub(crate) fn change<T, E>(
        &self,
        of: impl FnOnce(io::Error) -> E,
        change: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let _not_ending = (!planted!("change_not_awaited")).then(|| self.changing.read());
        if self.has_ended.load(Ordering::Acquire) && !planted!("ended_opening_changes") {
            return Err(of(io::Error::other("the log was closed")));
        }
        match catch_unwind(AssertUnwindSafe(change)) {
            Ok(result) => result,
            Err(panic) if planted!("sink_panic_passed_on") => resume_unwind(panic),
            Err(panic) => Err(of(io::Error::other(format!("panicked: {}", message(&*panic))))),
        }
    }

    /// Ends the opening: returns when no file is being changed any more, and none ever will be.
    pub(crate) fn end(&self) {
        let alone = self.changing.write();
        self.has_ended.store(true, Ordering::Release);
        drop(alone);
        drop(self.lock.lock().take());
    }

    /// Rejects bytes read from a file after the opening ended: the next opening may have written there meanwhile.
    pub(crate) fn check_read(&self) -> Result<(), Stopped> {
        if self.has_ended.load(Ordering::Acquire) && !planted!("ended_opening_read") {
            return Err(Stopped { reason: Arc::new(StopReason::Closed) });
        }
        Ok(())
    }
}

/// Returns the message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::identity;

    fn change(opening: &Opening) -> io::Result<bool> {
        opening.change(identity, || Ok(opening.changing.try_write().is_none()))
    }

    #[test]
    fn change_holds_off_the_end() {
        assert!(change(&Opening::default()).expect("the opening lives"), "E1.8");
    }

    #[test]
    fn ended_opening_changes_no_file() {
        let opening = Opening::default();
        opening.end();
        assert!(change(&opening).is_err(), "E1.8");
    }
}
