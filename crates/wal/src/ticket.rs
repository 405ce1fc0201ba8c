//! Tickets for the stability of a commit (Hathi §3: split-phase commit).

use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, Mutex};
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::Lsn;
use crate::error::Stopped;
use crate::log::{Forced, Shared};

/// A ticket that is ready once an LSN is stable.
///
/// A caller may wait for it, poll it, or await it with any runtime. Awaited without a writer thread
/// ([`Log::start_writer`](crate::Log::start_writer)), the first poll writes the log itself and so blocks; with one,
/// it never does. A writer thread has a thread beside it that wakes tasks and does nothing else: a waker may use the store,
/// and while it does, other tasks wait to be woken.
#[derive(Clone, Debug)]
pub struct Ticket {
    shared: Arc<Shared>,
    lsn: Lsn,
}

impl Ticket {
    pub(crate) fn new(shared: &Arc<Shared>, lsn: Lsn) -> Ticket {
        Ticket { shared: Arc::clone(shared), lsn }
    }

    /// Returns the LSN of this ticket.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Returns when the LSN is stable; forces the log if no other thread does.
    pub fn wait(&self) -> Result<Forced, Stopped> {
        self.shared.force(self.lsn).or_else(|stopped| self.known_when_closed().ok_or(stopped))
    }

    /// A closed log acknowledges nothing new; records that were durable when it was closed stay acknowledged.
    fn known_when_closed(&self) -> Option<Forced> {
        (self.shared.is_closed() && self.shared.is_stable(self.lsn)).then(|| Forced::new(self.lsn))
    }

    /// Whether the LSN is stable: a record acknowledged before is found after any crash.
    pub fn is_stable(&self) -> bool {
        self.shared.is_stable(self.lsn)
    }
}

impl Future for Ticket {
    type Output = Result<Forced, Stopped>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = &self.shared;
        if let Err(stopped) = shared.check_running() {
            return Poll::Ready(self.known_when_closed().ok_or(stopped));
        }
        if shared.is_stable(self.lsn) {
            return Poll::Ready(Ok(Forced::new(self.lsn)));
        }
        if !shared.writer.is_running() {
            return Poll::Ready(shared.force(self.lsn));
        }
        let place = shared.tickets.register(self.lsn, context.waker());
        // It may have become stable, or the writer may have ended, before the registration was visible.
        if shared.is_stable(self.lsn) || !shared.writer.is_running() || shared.check_running().is_err() {
            // Withdrawn: perhaps no thread wakes tasks any more, and a waker that holds the log would keep it.
            drop(shared.tickets.withdraw(place));
            context.waker().wake_by_ref();
        } else {
            shared.flush_soon(self.lsn);
        }
        Poll::Pending
    }
}

/// Wakers of awaited tickets, by LSN: registering and waking cost no more with many other waiters, for one LSN or for
/// many.
///
/// No code of a waker runs under the mutex, neither its clone nor its drop: it may poll, or drop, a ticket of the same log.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    any: AtomicBool,
    waiting: Mutex<BTreeMap<Place, Waker>>,
}

/// The key of a waker: its LSN and the addresses that identify its task. A task that is polled again has the same
/// key.
type Place = (Lsn, usize, usize);

fn place_of(lsn: Lsn, waker: &Waker) -> Place {
    (lsn, waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr())
}

impl Tickets {
    /// Returns the key of the registration.
    pub(crate) fn register(&self, lsn: Lsn, waker: &Waker) -> Place {
        let known = place_of(lsn, waker);
        if self.waiting.lock().contains_key(&known) {
            return known;
        }
        let clone = waker.clone();
        // Of the clone, which lives as long as its key: the address of the other one may belong to another task by then.
        let place = place_of(lsn, &clone);
        let mut waiting = self.waiting.lock();
        let replaced = waiting.insert(place, clone);
        self.any.store(true, Ordering::SeqCst);
        drop(waiting);
        drop(replaced);
        place
    }

    /// Removes a registration.
    fn withdraw(&self, place: Place) -> Option<Waker> {
        self.waiting.lock().remove(&place)
    }

    /// Whether any task waits.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::SeqCst)
    }

    /// Wakes the tasks whose LSN is stable now. The caller has computed the durable LSN since it has written.
    pub(crate) fn wake(&self, durable: impl FnOnce() -> Lsn) {
        if self.any() {
            self.wake_up_to(durable());
        }
    }

    /// Wakes all tasks, stable or not: each checks its own LSN.
    pub(crate) fn wake_all(&self) {
        self.wake_up_to(Lsn::MAX);
    }

    fn wake_up_to(&self, durable: Lsn) {
        let mut waiting = self.waiting.lock();
        let rest = if durable == Lsn::MAX { BTreeMap::new() } else { waiting.split_off(&(durable.next(), 0, 0)) };
        let ready = std::mem::replace(&mut *waiting, rest);
        self.any.store(!waiting.is_empty(), Ordering::SeqCst);
        drop(waiting);
        for waker in ready.into_values() {
            // A panic belongs to the task, and its hook has reported it; other tasks still wait to be woken here, and
            // no other thread wakes them. The payload is foreign code, too: its drop may panic again.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                std::mem::forget(payload);
            }
        }
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;
    use crate::clock::{Bounds, Clock, Steps};
    use cedrat_sync::atomic::AtomicUsize;
    use cedrat_sync::thread;
    use std::task::Wake;

    #[derive(Default)]
    struct Counting {
        woken: AtomicUsize,
        panics: bool,
    }

    /// Payload of a panic, whose drop panics, too.
    struct Payload;

    impl Drop for Payload {
        fn drop(&mut self) {
            panic!("the payload of a panic panics");
        }
    }

    impl Wake for Counting {
        fn wake(self: std::sync::Arc<Self>) {
            self.woken.fetch_add(1, Ordering::SeqCst);
            if self.panics {
                std::panic::panic_any(Payload);
            }
        }
    }

    /// A task that registers beside the write of its LSN is woken, or finds the LSN durable: of the two threads that compute the
    /// durable LSN, the second one sees what the first has done before. `./x test` runs this under Miri.
    #[test]
    fn ticket_registered_beside_write_is_woken() {
        let (tickets, clock, bounds) = (Tickets::default(), Clock::new(Lsn::ZERO), Bounds::new());
        let durable = || clock.durable(std::iter::once(&bounds));
        let lsn = clock.draw(&bounds, Steps::BoundThenDraw, |lsn| lsn);
        let task = Arc::new(Counting::default());
        let is_durable = thread::scope(|scope| {
            scope.spawn(|| {
                bounds.flushed_before(None);
                durable();
                tickets.wake(durable);
            });
            let registers = scope.spawn(|| {
                tickets.register(lsn, &Waker::from(Arc::clone(&task)));
                clock.known_durable() >= lsn || durable() >= lsn
            });
            registers.join().expect("registering does not panic")
        });
        let is_woken = task.woken.load(Ordering::SeqCst) == 1;
        assert!(is_durable || is_woken, "neither woken nor durable");
    }

    /// Many tasks wait for one LSN: read-only transactions after one commit.
    #[test]
    fn tasks_of_one_lsn_wake_once() {
        let tickets = Tickets::default();
        let tasks: Vec<_> = (0..100_000).map(|_| Arc::new(Counting::default())).collect();
        for _ in 0..2 {
            for task in &tasks {
                tickets.register(Lsn::new(7), &Waker::from(Arc::clone(task)));
            }
        }
        tickets.wake_up_to(Lsn::new(6));
        assert!(tasks.iter().all(|task| task.woken.load(Ordering::SeqCst) == 0));
        tickets.wake_up_to(Lsn::new(7));
        assert!(tasks.iter().all(|task| task.woken.load(Ordering::SeqCst) == 1));
    }

    /// In any order of registration, and with a waker that panics.
    #[test]
    fn wakers_of_stable_tickets_wake_once() {
        let tickets = Tickets::default();
        let count = 20_000;
        let tasks: Vec<_> =
            (0..count).map(|at| Arc::new(Counting { panics: at == 10, ..Counting::default() })).collect();
        for at in 0..count {
            let lsn = at * 7919 % count;
            let waker = Waker::from(Arc::clone(&tasks[lsn]));
            tickets.register(Lsn::new(lsn as u64), &waker);
            tickets.register(Lsn::new(lsn as u64), &waker);
        }
        let woken =
            |range: std::ops::Range<usize>| range.map(|at| tasks[at].woken.load(Ordering::SeqCst)).sum::<usize>();
        tickets.wake_up_to(Lsn::new(999));
        assert_eq!((woken(0..1000), woken(1000..count)), (1000, 0));
        tickets.wake_all();
        assert_eq!(woken(0..count), count);
        assert!(tickets.waiting.lock().is_empty() && !tickets.any.load(Ordering::SeqCst));
    }
}
