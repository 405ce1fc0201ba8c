//! The cleaner: a thread that keeps frames free ahead of need (D021; the Architecture paper's future work).
//!
//! The pool works without it: a thread that needs a frame and finds none frees one. With it, that is rare.

use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::thread::{Builder, JoinHandle, ThreadId};
use cedrat_sync::{Arc, Condvar, Mutex, planted};

use crate::error::PoolError;
use crate::pool::Pool;

/// The state through which the pool wakes its cleaner.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// Whether a cleaner runs; otherwise no thread wakes it.
    listens: AtomicBool,
    call: Mutex<Call>,
    rung: Condvar,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum Call {
    #[default]
    None,
    Clean,
    End,
}

/// The handle of the cleaner thread; dropping it ends the thread and waits for it.
#[derive(Debug)]
#[must_use = "dropping it ends the cleaner"]
pub struct Cleaner {
    pool: Arc<Pool>,
    thread: Option<JoinHandle<()>>,
}

impl Pool {
    /// Starts a thread that keeps [`crate::PoolOptions::free_ahead`] frames free.
    ///
    /// It ends when the handle is dropped, or when the store stops.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub fn start_cleaner(self: &Arc<Pool>) -> Result<Cleaner, PoolError> {
        let pool = Arc::clone(self);
        let thread = Builder::new()
            .name("cedrat-cleaner".into())
            .spawn(move || {
                let stop = StopOnPanic(&pool);
                stop.0.clean_when_called();
            })
            .map_err(|error| PoolError::io("starting the cleaner thread", error))?;
        self.bell.listens.store(true, Ordering::Release);
        Ok(Cleaner { pool: Arc::clone(self), thread: Some(thread) })
    }

    /// Wakes the cleaner if fewer frames are free than half of those that should be.
    #[inline]
    pub(crate) fn call_cleaner_if_low(&self) {
        if self.bell.listens.load(Ordering::Relaxed) && self.clock.free_frames() < self.free_ahead().div_ceil(2) {
            let mut call = self.bell.call.lock();
            if *call == Call::None {
                *call = Call::Clean;
                self.bell.rung.notify_one();
            }
        }
    }

    pub(crate) fn has_cleaner(&self) -> bool {
        self.bell.listens.load(Ordering::Relaxed)
    }

    fn free_ahead(&self) -> usize {
        let frames = self.clock.frames();
        self.options.free_ahead.unwrap_or(frames / 16).min(frames / 2)
    }

    fn clean_when_called(&self) {
        loop {
            let mut call = self.bell.call.lock();
            self.bell.rung.wait_while(&mut call, |call| *call == Call::None);
            if *call == Call::End {
                return;
            }
            *call = Call::None;
            drop(call);
            if self.clean().is_err() {
                // The store has stopped, and reports the reason to every caller.
                return;
            }
        }
    }

    fn clean(&self) -> Result<(), PoolError> {
        loop {
            let missing = self.free_ahead().saturating_sub(self.clock.free_frames());
            if missing == 0 {
                return Ok(());
            }
            let before = self.clock.free_frames();
            let dirty = self.sweep(missing);
            if !dirty.is_empty() {
                self.write_and_evict(&dirty)?;
            } else if self.clock.free_frames() <= before {
                // All warm or held; the next thread that finds no frame wakes the cleaner again.
                return Ok(());
            }
        }
    }
}

/// Stops the store when the cleaner panics: the pages that it was writing home are neither at home nor known as
/// dirty.
struct StopOnPanic<'a>(&'a Pool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if cedrat_sync::thread::panicking() && !planted!("cleaner_dies_silently") {
            self.0.bell.listens.store(false, Ordering::Release);
            self.0.log.stop("the cleaner thread panicked; open the store again");
        }
    }
}

impl Cleaner {
    /// Whether it is this thread, which must not drop the handle then: it would wait for itself.
    pub fn is_on(&self, id: ThreadId) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.thread().id() == id)
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        self.pool.bell.listens.store(false, Ordering::Release);
        *self.pool.bell.call.lock() = Call::End;
        self.pool.bell.rung.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic in it has stopped the store, and was printed.
            let _ = thread.join();
        }
        // Allows another cleaner to be started.
        *self.pool.bell.call.lock() = Call::None;
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;
    use crate::page::PageId;
    use crate::pool::PoolOptions;
    use cedrat_media::{Media, SimDisk};
    use cedrat_wal::{Log, LogOptions};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Also in a pool in which every frame is in use and every page is warm.
    #[test]
    fn cleaner_frees_frames_ahead_of_need() {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
        let options = PoolOptions { capacity_pages: 16, pages_max: 64, free_ahead: Some(8), ..PoolOptions::default() };
        let pool = Pool::open(media, log, options).expect("a pool");
        pool.ensure_len(64).expect("a simulated disk grows");
        pool.bell.listens.store(true, Ordering::Release);
        for number in 0..16 {
            drop(pool.read(PageId::new(number)).expect("a page never written"));
        }
        assert_eq!(pool.clock.free_frames(), 0);
        assert_eq!(*pool.bell.call.lock(), Call::Clean, "few free frames wake the cleaner");
        pool.clean().expect("nothing is written");
        assert!(pool.clock.free_frames() >= 8);
    }

    #[test]
    fn panic_of_the_cleaner_stops_the_store() {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
        let options = PoolOptions { capacity_pages: 8, pages_max: 64, ..PoolOptions::default() };
        let pool = Pool::open(media, log.clone(), options).expect("a pool");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _stop = StopOnPanic(&pool);
            panic!("as planned");
        }));
        assert!(panicked.is_err() && log.is_stopped(), "E16.5");
    }
}
