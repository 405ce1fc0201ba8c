//! Tokens for the moment when a commit is stable (Hathi §3: split-phase commit).

use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, Mutex};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::Lsn;
use crate::error::Stopped;
use crate::log::{Forced, Shared};

/// A token for the moment when an LSN is stable.
///
/// It may be waited for, asked, or awaited with any runtime. Awaited without a writer thread
/// ([`Log::start_writer`](crate::Log::start_writer)), the first poll writes the log itself and so blocks; with one, it
/// never does.
#[derive(Clone, Debug)]
pub struct Ticket {
    shared: Arc<Shared>,
    lsn: Lsn,
}

impl Ticket {
    pub(crate) fn new(shared: &Arc<Shared>, lsn: Lsn) -> Ticket {
        Ticket { shared: Arc::clone(shared), lsn }
    }

    /// The LSN waited for.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Returns when the LSN is stable, forcing the log if nobody else does.
    pub fn wait(&self) -> Result<Forced, Stopped> {
        self.shared.force(self.lsn)
    }

    /// Whether the LSN is stable: what was acknowledged before will be found after any crash.
    pub fn is_stable(&self) -> bool {
        self.shared.is_stable(self.lsn)
    }
}

impl Future for Ticket {
    type Output = Result<Forced, Stopped>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = &self.shared;
        if let Err(stopped) = shared.check_running() {
            return Poll::Ready(Err(stopped));
        }
        if shared.is_stable(self.lsn) {
            return Poll::Ready(Ok(Forced::new(self.lsn)));
        }
        if !shared.writer.is_running() {
            return Poll::Ready(shared.force(self.lsn));
        }
        shared.tickets.register(self.lsn, context.waker());
        // It may have become stable, or the writer may have gone, before the registration was seen.
        if shared.is_stable(self.lsn) || !shared.writer.is_running() || shared.check_running().is_err() {
            context.waker().wake_by_ref();
        } else {
            shared.flush_soon(self.lsn);
        }
        Poll::Pending
    }
}

/// Those who await tickets.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    any: AtomicBool,
    waiting: Mutex<Vec<(Lsn, Waker)>>,
}

impl Tickets {
    fn register(&self, lsn: Lsn, waker: &Waker) {
        let mut waiting = self.waiting.lock();
        let same = |(other, known): &(Lsn, Waker)| *other == lsn && known.will_wake(waker);
        if !waiting.iter().any(same) {
            waiting.push((lsn, waker.clone()));
        }
        self.any.store(true, Ordering::SeqCst);
    }

    /// Wakes those whose LSN is stable now.
    pub(crate) fn wake(&self, shared: &Shared) {
        if self.any.load(Ordering::SeqCst) {
            let durable = shared.durable_lsn();
            self.wake_where(|lsn| lsn <= durable);
        }
    }

    /// Wakes all, stable or not: they look for themselves.
    pub(crate) fn wake_all(&self) {
        self.wake_where(|_| true);
    }

    fn wake_where(&self, stable: impl Fn(Lsn) -> bool) {
        let mut waiting = self.waiting.lock();
        let (ready, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *waiting).into_iter().partition(|&(lsn, _)| stable(lsn));
        *waiting = rest;
        self.any.store(!waiting.is_empty(), Ordering::SeqCst);
        drop(waiting);
        for (_, waker) in ready {
            waker.wake();
        }
    }
}
