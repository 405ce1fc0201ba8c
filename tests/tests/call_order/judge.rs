//! Verdicts on errors: does the error blame the call or the store?

use cedrat::graph::GraphError;
use cedrat::txn::Error;
use cedrat::wal::{LogError, StopReason};

/// The verdict on an error of a store whose disk is honest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The call was refused.
    Allowed,
    /// The store has stopped.
    Stopped,
    /// The opening of the handle has ended.
    Closed,
    /// Damage, or a failure of the disk, although there was none.
    Wrong,
}

pub(crate) fn judge(error: &Error) -> Verdict {
    match GraphError::cause(error) {
        Error::Stopped(stopped)
        | Error::Log(LogError::Stopped(stopped))
        | Error::Heap(cedrat::heap::Error::Stopped(stopped)) => match *stopped.reason {
            StopReason::Closed => Verdict::Closed,
            _ => Verdict::Stopped,
        },
        Error::Damaged(_)
        | Error::Pages(_)
        | Error::Unregistered { .. }
        | Error::Open(_)
        | Error::BadRecord { .. }
        | Error::Io { .. }
        | Error::Heap(cedrat::heap::Error::Damaged { .. } | cedrat::heap::Error::Io { .. })
        | Error::Log(LogError::Damaged { .. } | LogError::Io { .. }) => Verdict::Wrong,
        Error::User(user) if user.is::<GraphError>() => match GraphError::of(error) {
            Some(GraphError::Corrupt { .. }) => Verdict::Wrong,
            _ => Verdict::Allowed,
        },
        _ => Verdict::Allowed,
    }
}
