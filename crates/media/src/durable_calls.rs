//! Durable calls on one file that overlap.
//!
//! Linux reports an error of writing back to one of the durable calls on a descriptor, and success to all others
//! (A9a). The call that gets the error need not be the one whose bytes are lost. So a durable call succeeds only if no
//! durable call that overlapped it has failed.

use cedrat_sync::{Condvar, Mutex, planted};
use std::collections::BTreeSet;
use std::io;

/// The durable writes and syncs of one file.
#[derive(Debug, Default)]
pub(crate) struct DurableCalls {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the next call.
    next: u64,
    /// The calls in flight that may get the error of another one.
    in_flight: BTreeSet<u64>,
    failures: u64,
    newest_failure: Option<(io::ErrorKind, String)>,
}

/// The party that gets the error of a durable call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reported {
    /// The call itself: its bytes bypass the cache.
    ToItself,
    /// Any durable call on the file.
    ToAnyCall,
}

/// A durable call in flight.
pub(crate) struct DurableCall<'a> {
    calls: &'a DurableCalls,
    /// `None` if its error is reported to itself.
    number: Option<u64>,
    failures_before: u64,
    has_ended: bool,
}

impl DurableCalls {
    /// Notes that a durable call begins.
    pub(crate) fn begin(&self, reported: Reported) -> DurableCall<'_> {
        let mut state = self.state.lock();
        let number = (reported == Reported::ToAnyCall).then_some(state.next);
        state.next += 1;
        state.in_flight.extend(number);
        DurableCall { calls: self, number, failures_before: state.failures, has_ended: false }
    }
}

impl DurableCall<'_> {
    /// Ends the call and returns its result: an error if a call that overlapped it has failed.
    ///
    /// A call that may have lost its error to another one waits for those in flight: the thread that has got the error
    /// need not have noted it yet.
    pub(crate) fn end<T>(mut self, result: io::Result<T>, path: impl FnOnce() -> String) -> io::Result<T> {
        self.note_end(result.as_ref().err());
        let done = result?;
        if planted!("error_of_overlapping_write_ignored") {
            return Ok(done);
        }
        let mut state = self.calls.state.lock();
        if self.number.is_some() {
            let end = state.next;
            self.calls.ended.wait_while(&mut state, |state| state.in_flight.first().is_some_and(|first| *first < end));
        }
        match &state.newest_failure {
            Some((kind, error)) if state.failures > self.failures_before => {
                let path = path();
                let message = format!(
                    "a write to {path} may be lost, because a durable write or sync beside it failed ({error}): \
                     open the store again"
                );
                Err(io::Error::new(*kind, message))
            }
            _ => Ok(done),
        }
    }

    fn note_end(&mut self, error: Option<&io::Error>) {
        let mut state = self.calls.state.lock();
        if let Some(number) = self.number {
            state.in_flight.remove(&number);
        }
        // A refused call has written nothing, and has got no error of writing back.
        if let Some(error) = error.filter(|error| error.kind() != io::ErrorKind::InvalidInput) {
            state.failures += 1;
            state.newest_failure = Some((error.kind(), error.to_string()));
        }
        self.has_ended = true;
        self.calls.ended.notify_all();
    }
}

impl Drop for DurableCall<'_> {
    /// A call that panicked counts as failed.
    fn drop(&mut self) {
        if !self.has_ended {
            self.note_end(Some(&io::Error::other("the medium panicked")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat_sync::{Arc, explore, thread};

    fn end(call: DurableCall<'_>, result: io::Result<()>) -> io::Result<()> {
        call.end(result, || "file".into())
    }

    fn error() -> io::Result<()> {
        Err(io::Error::other("lost"))
    }

    /// A9a: the second call takes the error of the first, and notes it at any moment.
    #[test]
    fn overlapping_call_of_failed_one_fails() {
        explore(21, 1000, || {
            let calls = Arc::new(DurableCalls::default());
            let first = calls.begin(Reported::ToAnyCall);
            let began = Arc::new(Mutex::new(false));
            let other = {
                let (calls, began) = (Arc::clone(&calls), Arc::clone(&began));
                thread::spawn(move || {
                    let second = calls.begin(Reported::ToAnyCall);
                    *began.lock() = true;
                    end(second, error())
                })
            };
            while !*began.lock() {
                thread::yield_now();
            }
            let first = end(first, Ok(()));
            assert!(first.is_err_and(|error| error.to_string().contains("lost")), "A9a");
            assert!(other.join().unwrap().is_err());
        });
    }

    #[test]
    fn later_call_of_failed_one_succeeds() {
        explore(1, 1, || {
            let calls = DurableCalls::default();
            assert!(end(calls.begin(Reported::ToAnyCall), error()).is_err());
            assert!(end(calls.begin(Reported::ToAnyCall), Ok(())).is_ok());
        });
    }

    /// It would take a commit twice as long.
    #[test]
    fn direct_call_waits_for_no_other() {
        explore(1, 1, || {
            let calls = DurableCalls::default();
            let (cached, direct) = (calls.begin(Reported::ToAnyCall), calls.begin(Reported::ToItself));
            assert!(end(direct, Ok(())).is_ok());
            let direct = calls.begin(Reported::ToItself);
            assert!(end(cached, error()).is_err());
            assert!(end(direct, Ok(())).is_err(), "A9a");
        });
    }

    /// A direct write that the device refuses goes through the cache next.
    #[test]
    fn refused_call_fails_no_other() {
        explore(1, 1, || {
            let calls = DurableCalls::default();
            let (refused, other) = (calls.begin(Reported::ToItself), calls.begin(Reported::ToAnyCall));
            assert!(end(refused, Err(io::ErrorKind::InvalidInput.into())).is_err());
            assert!(end(other, Ok(())).is_ok());
        });
    }

    #[test]
    fn panicked_call_fails_overlapping_ones() {
        explore(1, 1, || {
            let calls = DurableCalls::default();
            let (panicked, other) = (calls.begin(Reported::ToAnyCall), calls.begin(Reported::ToAnyCall));
            drop(panicked);
            assert!(end(other, Ok(())).is_err(), "A9a");
        });
    }
}
