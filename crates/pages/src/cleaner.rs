//! The cleaner: a thread that keeps frames free ahead of need (D021; the Architecture paper's future work).
//!
//! The pool works without it: a thread that needs a frame and finds none frees one. With it, that is rare.

use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::thread::{Builder, JoinHandle, ThreadId};
use cedrat_sync::{Arc, Condvar, Mutex, planted};

use crate::error::PoolError;
use crate::pool::Pool;
use crate::write_back::HeldPagePolicy;

/// The state through which the pool wakes its cleaner.
#[derive(Debug, Default)]
pub(crate) struct CleanerSignal {
    /// Whether a cleaner runs; otherwise no thread wakes it.
    is_running: AtomicBool,
    call: Mutex<Call>,
    signalled: Condvar,
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
        self.signal.is_running.store(true, Ordering::Release);
        Ok(Cleaner { pool: Arc::clone(self), thread: Some(thread) })
    }

    /// Wakes the cleaner if fewer frames are free than half of those that should be.
    #[inline]
    pub(crate) fn call_cleaner_if_low(&self) {
        if self.signal.is_running.load(Ordering::Relaxed) && self.clock.free_frames() < self.free_ahead().div_ceil(2) {
            let mut call = self.signal.call.lock();
            if *call == Call::None {
                *call = Call::Clean;
                self.signal.signalled.notify_one();
            }
        }
    }

    pub(crate) fn has_cleaner(&self) -> bool {
        self.signal.is_running.load(Ordering::Relaxed)
    }

    fn free_ahead(&self) -> usize {
        let frames = self.clock.frames();
        self.options.free_ahead.unwrap_or(frames / 16).min(frames / 2)
    }

    fn clean_when_called(&self) {
        loop {
            let mut call = self.signal.call.lock();
            self.signal.signalled.wait_while(&mut call, |call| *call == Call::None);
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
            let patience = self.patience_of_cleaner();
            if !dirty.is_empty() {
                self.write_and_evict(&dirty, patience)?;
            }
            let may_be_all = dirty.is_empty() || patience != HeldPagePolicy::Skip;
            if may_be_all && self.clock.free_frames() <= before {
                // All warm or held, or too new; the next thread that finds no frame wakes the cleaner again.
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
            self.0.signal.is_running.store(false, Ordering::Release);
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
        self.pool.signal.is_running.store(false, Ordering::Release);
        *self.pool.signal.call.lock() = Call::End;
        self.pool.signal.signalled.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic in it has stopped the store, and was printed.
            let _ = thread.join();
        }
        // Allows another cleaner to be started.
        *self.pool.signal.call.lock() = Call::None;
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;
    use crate::page::{LayoutKind, PageId};
    use crate::pool::PoolOptions;
    use cedrat_media::{Media, SimDisk};
    use cedrat_wal::{ByteLen, Kind, Log, LogOptions, PartitionId, RecordHead, TxnId};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Also in a pool in which every frame is in use and every page is warm.
    #[test]
    fn cleaner_frees_frames_ahead_of_need() {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
        let options = PoolOptions { capacity_pages: 16, pages_max: 64, free_ahead: Some(8), ..PoolOptions::default() };
        let pool = Pool::open(media, log, options).expect("a pool");
        pool.ensure_len(64).expect("a simulated disk grows");
        pool.signal.is_running.store(true, Ordering::Release);
        for number in 0..16 {
            drop(pool.read(PageId::new(number)).expect("a page never written"));
        }
        assert_eq!(pool.clock.free_frames(), 0);
        assert_eq!(*pool.signal.call.lock(), Call::Clean, "few free frames wake the cleaner");
        pool.clean().expect("nothing is written");
        assert!(pool.clock.free_frames() >= 8);
    }

    /// A rollback on a full disk has space for the forces that it needs itself, not for those of the cleaner.
    #[test]
    fn cleaner_spares_used_up_log() {
        let disk = SimDisk::new();
        let media: Arc<dyn Media> = Arc::new(disk.clone());
        let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
        let options = PoolOptions { capacity_pages: 8, pages_max: 64, free_ahead: Some(4), ..PoolOptions::default() };
        let pool = Pool::open(media, log.clone(), options).expect("a pool");
        pool.ensure_len(8).expect("there is room");
        let mut room = log.reserve(ByteLen(8000), ByteLen(0)).expect("there is room");
        let mut change = |page| {
            let mut page = pool.exclusive(PageId::new(page)).expect("it is read");
            page.will_change(log.current_lsn().next());
            let head = RecordHead::new(Kind::UPDATE, TxnId(1), None);
            let lsn = log.append(PartitionId(0), head, &[b"x"], &mut room).lsn;
            page.change(lsn, |page| page.format(LayoutKind::RAW));
            lsn
        };
        let durable = change(0);
        log.force(durable).expect("the log runs");
        let newest = (1..8).map(&mut change).last();
        disk.set_capacity(Some(disk.space()));
        let mut rest = log.reserve(ByteLen(0), ByteLen(0)).expect("nothing is asked");
        while log.reserve_more(&mut rest, ByteLen(1000), ByteLen(0)).is_ok() {}
        assert!(log.is_used_up());
        // The first visits find the pages warm.
        (0..2).for_each(|_| pool.clean().expect("the disk works"));
        assert_eq!(
            (log.durable_lsn(), pool.clock.free_frames()),
            (durable, 1),
            "E16.9: only what is durable goes home"
        );
        drop(rest);
        pool.clean().expect("the disk works");
        assert_eq!((Some(log.durable_lsn()), pool.clock.free_frames()), (newest, 8));
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
