//! Requests that wait, and are reordered, joined and cancelled before they reach pages: a logical log in memory (Lemon §8.2).
//!
//! A call of a wrapper function becomes a value, a [`Request`]. A [`Demultiplexer`] routes requests into queues by page, as in the paper's
//! Figure 6, and drains one queue after the other: requests of one part of the page file run together, so that each page is read from
//! the disk once for many of them.
//!
//! ```
//! use cedrat_pages::PageId;
//! use cedrat_structures::requests::{Demultiplexer, Joined, Request, Routing};
//!
//! /// Adds to a number on a page.
//! struct Add(PageId, u64);
//!
//! impl Request for Add {
//!     fn page(&self) -> PageId {
//!         self.0
//!     }
//!
//!     fn join(self, later: Add) -> Joined<Add> {
//!         Joined::One(Add(self.0, self.1 + later.1))
//!     }
//! }
//!
//! let requests = Demultiplexer::new(Routing::Regions { pages: 100 }, 4, 1_000);
//! for n in [7, 300, 7] {
//!     requests.push(Add(PageId::new(n), 1)).map_err(|full| full.to_string())?;
//! }
//! let mut sums = Vec::new();
//! let drained = requests.drain(|_, Add(page, sum)| {
//!     sums.push((page.get(), sum));
//!     Ok::<_, String>(())
//! })?;
//! assert_eq!(sums, [(7, 2), (300, 1)]);
//! assert_eq!(drained.joined, 1);
//! # Ok::<(), String>(())
//! ```

use std::error::Error;
use std::fmt;

use cedrat_pages::PageId;
use cedrat_sync::atomic::{AtomicUsize, Ordering};
use cedrat_sync::{Condvar, Mutex, thread};

/// A call that can wait.
///
/// Two requests with different pages or [orders](Request::order) must commute: it must not matter which runs first. Others keep the order in
/// which they were pushed.
pub trait Request: Sized {
    /// Returns the page that it reads or changes first, by which it is routed.
    fn page(&self) -> PageId;

    /// Returns its place within the page, a slot for example: requests run in this order.
    fn order(&self) -> u64 {
        0
    }

    /// Joins it with a later request of the same page and order.
    fn join(self, later: Self) -> Joined<Self> {
        Joined::Apart(self, later)
    }
}

/// The result of [`Request::join`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined<R> {
    /// Both run.
    Apart(R, R),
    /// One request runs that does the same.
    One(R),
    /// They cancel each other, so none runs.
    None,
}

/// The queue of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// A contiguous region of the page file has one queue: requests of a queue are near each other.
    Regions {
        /// The number of pages of a region, not zero. A region that fits into the pool of pages is best.
        pages: u64,
    },
    /// Pages are distributed over the queues by a hash, so that the queues are equally long.
    Hash,
}

impl Routing {
    fn queue(self, page: PageId, queues: usize) -> usize {
        let number = match self {
            Routing::Regions { pages } => page.get() / pages,
            // Fibonacci hashing: the upper bits depend on all bits.
            Routing::Hash => page.get().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32,
        };
        (number % queues as u64) as usize
    }
}

/// The reason why a request was not accepted: so many wait as may wait. Drain the queues, then push it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full<R> {
    /// The request.
    pub request: R,
    /// The maximum number of waiting requests.
    pub limit: usize,
}

impl<R> fmt::Display for Full<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests wait, which is the limit: drain the queues, and push the request again", self.limit)
    }
}

impl<R: fmt::Debug> Error for Full<R> {}

/// The report of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// The number of requests that ran.
    pub done: u64,
    /// The number of requests that did not run, because they were joined with others or cancelled by them.
    pub joined: u64,
    /// The number of times that a queue was emptied.
    pub batches: u64,
}

impl Drained {
    fn add(&mut self, other: Drained) {
        self.done += other.done;
        self.joined += other.joined;
        self.batches += other.batches;
    }
}

/// Queues of requests (Lemon, Figure 6).
///
/// It is in memory: a crash loses what waits, as it loses the transaction that the requests belong to. It may be shared by threads.
#[derive(Debug)]
pub struct Demultiplexer<R> {
    routing: Routing,
    queues: Box<[Mutex<Vec<R>>]>,
    waiting: AtomicUsize,
    limit: usize,
}

impl<R: Request> Demultiplexer<R> {
    /// Creates empty queues, in which up to `limit` requests wait together. Zero queues are one.
    pub fn new(routing: Routing, queues: usize, limit: usize) -> Demultiplexer<R> {
        let queues = (0..queues.max(1)).map(|_| Mutex::new(Vec::new())).collect();
        Demultiplexer { routing, queues, waiting: AtomicUsize::new(0), limit }
    }

    /// Returns the number of waiting requests.
    pub fn len(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets a request wait until the queue of its page is drained. Requests may be pushed while queues are drained.
    ///
    /// # Errors
    /// [`Full`].
    pub fn push(&self, request: R) -> Result<(), Full<R>> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.limit {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Full { request, limit: self.limit });
        }
        self.queues[self.routing.queue(request.page(), self.queues.len())].lock().push(request);
        Ok(())
    }

    /// Runs all requests, those too that are pushed meanwhile: one queue after the other, the longest first, each in the order of its pages.
    ///
    /// # Errors
    /// Those of `work`. The requests that did not run wait on; the one that has failed does not.
    pub fn drain<E>(&self, mut work: impl FnMut(&Self, R) -> Result<(), E>) -> Result<Drained, E> {
        let mut drained = Drained::default();
        while let Some(queue) = self.longest(|_| true) {
            while let Some(batch) = self.run_batch(queue, &mut work)? {
                drained.add(batch);
            }
        }
        Ok(drained)
    }

    /// Runs all requests as [`drain`](Demultiplexer::drain) does, in so many threads. Each queue is drained by one thread at a time.
    ///
    /// # Errors
    /// The first one of `work`. The requests that did not run wait on; those that have failed do not.
    pub fn drain_in_threads<E: Send>(
        &self,
        threads: usize,
        work: impl Fn(&Self, R) -> Result<(), E> + Sync,
    ) -> Result<Drained, E>
    where
        R: Send,
    {
        let draining = Draining {
            state: Mutex::new(DrainState {
                busy: vec![false; self.queues.len()],
                drained: Drained::default(),
                failed: None,
                ends: false,
            }),
            batch_ended: Condvar::new(),
        };
        thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(|| self.drain_beside(&draining, &work));
            }
        });
        let DrainState { drained, failed, .. } = draining.state.into_inner();
        failed.map_or(Ok(drained), Err)
    }

    /// Drains queues that no other thread drains, until all are empty.
    fn drain_beside<E>(&self, draining: &Draining<E>, work: &(impl Fn(&Self, R) -> Result<(), E> + Sync)) {
        while let Some(queue) = draining.next(|busy| self.longest(|queue| !busy[queue])) {
            let ends = BatchEnds { draining, queue };
            let batch = self.run_batch(queue, &mut |requests, request| work(requests, request));
            let mut state = draining.state.lock();
            match batch {
                Ok(batch) => state.drained.add(batch.unwrap_or_default()),
                Err(error) => {
                    state.failed.get_or_insert(error);
                    state.ends = true;
                }
            }
            drop(state);
            drop(ends);
        }
    }

    /// Returns the longest of these queues that has a request.
    fn longest(&self, is_free: impl Fn(usize) -> bool) -> Option<usize> {
        let lens = self.queues.iter().map(|queue| queue.lock().len()).enumerate();
        lens.filter(|&(queue, len)| len > 0 && is_free(queue)).max_by_key(|&(_, len)| len).map(|(queue, _)| queue)
    }

    /// Runs the requests that a queue has now; `None`: it has none.
    fn run_batch<E>(
        &self,
        queue: usize,
        work: &mut impl FnMut(&Self, R) -> Result<(), E>,
    ) -> Result<Option<Drained>, E> {
        let mut requests = std::mem::take(&mut *self.queues[queue].lock());
        let before = requests.len();
        if before == 0 {
            return Ok(None);
        }
        // It is stable: those of one page and order stay in their order.
        requests.sort_by_key(|request| (request.page(), request.order()));
        let requests = joined(requests);
        let joined = before - requests.len();
        self.waiting.fetch_sub(joined, Ordering::Relaxed);
        let mut drained = Drained { joined: joined as u64, batches: 1, ..Drained::default() };
        let mut rest = Rest { queue: &self.queues[queue], requests: requests.into_iter() };
        for request in rest.requests.by_ref() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            work(self, request)?;
            drained.done += 1;
        }
        Ok(Some(drained))
    }
}

/// The requests of a batch that did not run yet. If one fails or panics, the others return to their queue.
struct Rest<'q, R> {
    queue: &'q Mutex<Vec<R>>,
    requests: std::vec::IntoIter<R>,
}

impl<R> Drop for Rest<'_, R> {
    fn drop(&mut self) {
        if self.requests.len() > 0 {
            // Before those that were pushed meanwhile, which are later.
            self.queue.lock().splice(0..0, self.requests.by_ref());
        }
    }
}

/// A drain in several threads.
struct Draining<E> {
    state: Mutex<DrainState<E>>,
    batch_ended: Condvar,
}

struct DrainState<E> {
    /// Whether a thread drains the queue.
    busy: Vec<bool>,
    drained: Drained,
    failed: Option<E>,
    /// Whether no other batch begins: a request has failed, or has panicked.
    ends: bool,
}

impl<E> Draining<E> {
    /// Returns a queue for the thread that calls; `None`: all is drained, or the drain ends.
    fn next(&self, longest: impl Fn(&[bool]) -> Option<usize>) -> Option<usize> {
        let mut state = self.state.lock();
        while !state.ends {
            if let Some(queue) = longest(&state.busy) {
                state.busy[queue] = true;
                return Some(queue);
            }
            if !state.busy.contains(&true) {
                return None;
            }
            self.batch_ended.wait(&mut state); // its requests may push others
        }
        None
    }
}

/// The batch of a queue. Its end is noted also if a request panics: other threads wait for it.
struct BatchEnds<'a, E> {
    draining: &'a Draining<E>,
    queue: usize,
}

impl<E> Drop for BatchEnds<'_, E> {
    fn drop(&mut self) {
        let mut state = self.draining.state.lock();
        state.busy[self.queue] = false;
        state.ends |= std::thread::panicking();
        drop(state);
        self.draining.batch_ended.notify_all();
    }
}

/// Joins neighbours of one page and order.
fn joined<R: Request>(requests: Vec<R>) -> Vec<R> {
    let mut kept: Vec<R> = Vec::with_capacity(requests.len());
    for later in requests {
        match kept.pop() {
            Some(request) if (request.page(), request.order()) == (later.page(), later.order()) => {
                match request.join(later) {
                    Joined::Apart(request, later) => kept.extend([request, later]),
                    Joined::One(request) => kept.push(request),
                    Joined::None => {}
                }
            }
            before => kept.extend(before.into_iter().chain([later])),
        }
    }
    kept
}
