//! The cleaner: a thread that keeps frames free ahead of need (D021; the Architecture paper's future work).
//!
//! Without it everything works as well: whoever needs a frame and finds none makes one. With it, that is rare.

use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::thread::{Builder, JoinHandle};
use cedrat_sync::{Arc, Condvar, Mutex};

use crate::error::PoolError;
use crate::pool::Pool;

/// How the pool and its cleaner speak to each other.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// Whether a cleaner listens; so that nobody rings in vain.
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

/// The cleaner thread; dropped, it ends the thread and waits for it.
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
    /// The system has no thread to give.
    pub fn start_cleaner(self: &Arc<Pool>) -> Result<Cleaner, PoolError> {
        let pool = Arc::clone(self);
        let thread = Builder::new()
            .name("cedrat-cleaner".into())
            .spawn(move || pool.clean_when_called())
            .map_err(|error| PoolError::io("starting the cleaner thread", error))?;
        self.bell.listens.store(true, Ordering::Release);
        Ok(Cleaner { pool: Arc::clone(self), thread: Some(thread) })
    }

    /// Calls the cleaner if fewer than half the frames that should be free are.
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
                // The store has stopped and says why to everybody who asks it for something.
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
                // All warm or held; the next one who finds no frame calls again.
                return Ok(());
            }
        }
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        self.pool.bell.listens.store(false, Ordering::Release);
        *self.pool.bell.call.lock() = Call::End;
        self.pool.bell.rung.notify_one();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if ended.is_err() && !cedrat_sync::thread::panicking() {
                panic!("the cleaner thread panicked");
            }
        }
        // So that another cleaner may be started.
        *self.pool.bell.call.lock() = Call::None;
    }
}
