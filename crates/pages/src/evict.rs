//! Eviction of pages by the clock algorithm.
//!
//! The frames in use form a ring, on which a hand moves. A page that it finds *cold* has not been used since the
//! hand's last visit and may be evicted; any other is made cold. Reading or changing a page makes it warm.
//!
//! A cold page that differs from home must be written before its eviction. Such pages are gathered and written
//! together, by the cleaner thread if there is one and it keeps up, else by the thread that needs a frame.

use std::collections::{HashSet, TryReserveError};

use cedrat_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use cedrat_sync::thread::yield_now;
use cedrat_sync::{Condvar, Mutex, is_scheduled, planted};

use crate::double_write::BATCH_PAGES_MAX;
use crate::error::PoolError;
use crate::page::PageId;
use crate::pool::{Counters, Pool};
use crate::write_back::HeldPagePolicy;

/// The number of fruitless rounds through all frames after which the whole pool counts as held. Latches are held for
/// moments, so one is released long before, unless threads that hold pages wait for further ones. Only reads and writes
/// of pages take longer, and each is awaited within a round.
const ROUNDS_MAX: usize = 100_000;

/// The same under the seeded scheduler, where every round is hundreds of steps.
const SCHEDULED_ROUNDS_MAX: usize = 200;

/// The ring of frames.
pub(crate) struct Clock {
    /// For each frame the page in it, plus one; 0 if it is free.
    ring: Box<[AtomicU64]>,
    free: Mutex<Vec<usize>>,
    hand: AtomicUsize,
}

/// A frame reserved for the thread that requested it; unless filled, it is free again when dropped.
#[must_use]
pub(crate) struct FreeFrame<'a> {
    clock: &'a Clock,
    frame: usize,
}

/// The reads of pages into frames that run now. How long they take depends on the device.
#[derive(Default)]
pub(crate) struct Loads {
    state: Mutex<LoadState>,
    ended: Condvar,
}

#[derive(Default)]
struct LoadState {
    running: usize,
    ended: u64,
    waiting: usize,
}

/// A read that runs. Drop ends it.
pub(crate) struct Load<'a>(&'a Loads);

impl Loads {
    pub(crate) fn begin(&self) -> Load<'_> {
        self.state.lock().running += 1;
        Load(self)
    }

    /// Waits until one of the reads that run has ended. Returns `false` at once if there is none.
    fn await_one(&self) -> bool {
        let mut state = self.state.lock();
        if state.running == 0 || planted!("loads_not_awaited") {
            return false;
        }
        let before = state.ended;
        state.waiting += 1;
        while state.ended == before {
            self.ended.wait(&mut state);
        }
        state.waiting -= 1;
        true
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.running -= 1;
        state.ended += 1;
        if state.waiting > 0 {
            self.0.ended.notify_all();
        }
    }
}

impl Clock {
    /// # Errors
    /// There is not enough memory for the ring.
    pub(crate) fn new(frames: usize) -> Result<Clock, TryReserveError> {
        let (mut ring, mut free) = (Vec::new(), Vec::new());
        ring.try_reserve_exact(frames)?;
        free.try_reserve_exact(frames)?;
        ring.extend((0..frames).map(|_| AtomicU64::new(0)));
        free.extend((0..frames).rev());
        Ok(Clock { ring: ring.into_boxed_slice(), free: Mutex::new(free), hand: AtomicUsize::new(0) })
    }

    pub(crate) fn frames(&self) -> usize {
        self.ring.len()
    }

    pub(crate) fn free_frames(&self) -> usize {
        self.free.lock().len()
    }

    pub(crate) fn in_use(&self) -> usize {
        self.frames() - self.free_frames()
    }

    /// Returns a free frame, if there is one.
    pub(crate) fn free(&self) -> Option<FreeFrame<'_>> {
        let frame = self.free.lock().pop()?;
        Some(FreeFrame { clock: self, frame })
    }

    /// Frees the frame of an evicted page. Called while the page is still latched exclusively, so that a page is in
    /// the ring at most once.
    pub(crate) fn vacate(&self, frame: usize) {
        self.ring[frame].store(0, Ordering::Release);
        self.free.lock().push(frame);
    }

    /// Returns the page in a frame, if there is one.
    pub(crate) fn page_in(&self, frame: usize) -> Option<PageId> {
        self.ring[frame].load(Ordering::Acquire).checked_sub(1).map(PageId::new)
    }

    /// Returns every page that is in memory throughout this call, in no order.
    pub(crate) fn pages(&self) -> impl Iterator<Item = PageId> + '_ {
        (0..self.frames()).filter_map(|frame| self.page_in(frame))
    }

    fn advance(&self) -> usize {
        self.hand.fetch_add(1, Ordering::Relaxed) % self.frames()
    }
}

impl FreeFrame<'_> {
    /// Assigns the frame to `page`.
    pub(crate) fn fill(self, page: PageId) -> usize {
        let frame = self.frame;
        self.clock.ring[frame].store(page.get() + 1, Ordering::Release);
        std::mem::forget(self);
        frame
    }
}

impl Drop for FreeFrame<'_> {
    fn drop(&mut self) {
        self.clock.free.lock().push(self.frame);
    }
}

impl Pool {
    /// Returns a frame for one more page. Evicts a page if no frame is free, after writing it home if necessary.
    pub(crate) fn free_frame(&self) -> Result<FreeFrame<'_>, PoolError> {
        for _ in 0..if is_scheduled() { SCHEDULED_ROUNDS_MAX } else { ROUNDS_MAX } {
            if let Some(frame) = self.clock.free() {
                self.call_cleaner_if_low();
                return Ok(frame);
            }
            let dirty = self.sweep(1);
            if let Some(frame) = self.clock.free() {
                return Ok(frame);
            }
            if dirty.is_empty() {
                // After a stop, pages on their way home stay in their frames.
                if let Some(stopped) = self.log.stopped()
                    && !planted!("frame_awaited_after_stop")
                {
                    return Err(stopped.into());
                }
                // All warm, held, or already being written home or read (E13.7).
                self.await_write_back();
                if !self.loads.await_one() {
                    yield_now();
                }
            } else {
                let patience = self.patience_of_cleaner();
                self.write_and_evict(&dirty, patience)?;
                if patience != HeldPagePolicy::Skip && self.clock.free_frames() == 0 {
                    self.write_and_evict(&dirty, HeldPagePolicy::Skip)?;
                }
            }
        }
        Err(PoolError::AllHeld { capacity: self.clock.frames() })
    }

    /// Returns a frame for one more page, if one is available without writing.
    pub(crate) fn free_frame_without_writing(&self) -> Option<FreeFrame<'_>> {
        self.clock.free().or_else(|| {
            self.sweep(1);
            self.clock.free()
        })
    }

    /// Moves the hand until `wanted` clean cold pages were evicted, a batch of dirty cold ones was found, or every
    /// frame was passed twice. Returns the dirty ones with their frames.
    pub(crate) fn sweep(&self, wanted: usize) -> Vec<(PageId, usize)> {
        let (mut evicted, mut dirty) = (0, Vec::new());
        for _ in 0..2 * self.clock.frames() {
            if evicted >= wanted || dirty.len() >= BATCH_PAGES_MAX {
                break;
            }
            let frame = self.clock.advance();
            let Some(page) = self.clock.page_in(frame) else {
                continue;
            };
            if !self.table.latch(page).is_some_and(|latch| latch.pass()) {
                continue;
            }
            if self.table.recovery_lsn(page).load(Ordering::Relaxed) != 0 {
                dirty.push((page, frame));
            } else if self.evict(page, frame) {
                evicted += 1;
            }
        }
        dirty
    }

    /// Returns the treatment of pages by the cleaner, and at first by a thread that needs a frame: while the log is used up, no
    /// page goes home for which the log would be forced (E16.9).
    pub(crate) fn patience_of_cleaner(&self) -> HeldPagePolicy {
        match self.log.is_used_up() && !planted!("cleaner_forces_used_up_log") {
            true => HeldPagePolicy::SkipNewer(self.log.durable_lsn()),
            false => HeldPagePolicy::Skip,
        }
    }

    /// Writes pages home and evicts those that were not used meanwhile.
    pub(crate) fn write_and_evict(&self, dirty: &[(PageId, usize)], patience: HeldPagePolicy) -> Result<(), PoolError> {
        // The hand may have passed a frame twice within one sweep.
        let pages: HashSet<PageId> = dirty.iter().map(|&(page, _)| page).collect();
        let mut pages: Vec<PageId> = pages.into_iter().collect();
        self.write_pages(&mut pages, patience)?;
        for &(page, frame) in dirty {
            self.evict(page, frame);
        }
        Ok(())
    }

    /// Frees the frame of a cold, clean page, unless the page is held. Never waits.
    fn evict(&self, page: PageId, frame: usize) -> bool {
        let Some(evicting) = self.table.latch(page).and_then(|latch| latch.try_evict()) else {
            return false;
        };
        // Under the latch: the frame must still hold this page, and home must have every change (E11.2).
        if self.clock.page_in(frame) != Some(page)
            || self.table.recovery_lsn(page).load(Ordering::Acquire) != 0
            || self.frames.give_back(page.get() as usize).is_err()
        {
            return false;
        }
        self.clock.vacate(frame);
        evicting.finish();
        Counters::add(&self.counters.evicted, 1);
        true
    }
}

#[cfg(test)]
mod tests {
    use cedrat_media::{Call, Media, SimDisk};
    use cedrat_sync::atomic::AtomicBool;
    use cedrat_sync::{Arc, explore, thread};
    use cedrat_wal::{Log, LogOptions};

    use super::*;
    use crate::pool::PoolOptions;

    /// Creates a pool of eight frames, and a switch: while it is set, no read of a page ends.
    fn pool_on_slow_disk() -> (Pool, Arc<(Mutex<bool>, Condvar)>) {
        let disk = SimDisk::new();
        let media: Arc<dyn Media> = Arc::new(disk.clone());
        let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
        let options = PoolOptions { capacity_pages: 8, pages_max: 64, ..PoolOptions::default() };
        let pool = Pool::open(media, log, options).expect("a pool");
        pool.ensure_len(20).expect("there is room");
        let slow = Arc::new((Mutex::new(true), Condvar::new()));
        let switch = Arc::clone(&slow);
        disk.before_each_call(move |_, call, name| {
            let mut is_slow = switch.0.lock();
            while *is_slow && call == Call::Read && name == crate::PAGE_FILE {
                switch.1.wait(&mut is_slow);
            }
        });
        (pool, slow)
    }

    /// A device may take seconds for a read, after a time of rest for example.
    #[test]
    fn slow_reads_fail_no_request() {
        explore(1, 20, || {
            let (pool, slow) = pool_on_slow_disk();
            let is_refused = AtomicBool::new(false);
            let (pool, is_refused) = (&pool, &is_refused);
            thread::scope(|scope| {
                let read = |page| pool.read(PageId::new(page)).map(drop);
                let spawn = |page| thread::spawn_in(scope, "reads", move || read(page)).expect("a thread");
                let readers: Vec<_> = (1..=8).map(spawn).collect();
                while pool.clock.free_frames() > 0 {
                    yield_now();
                }
                let late = move || read(9).inspect_err(|_| is_refused.store(true, Ordering::SeqCst));
                let late = thread::spawn_in(scope, "reads", late).expect("a thread");
                while pool.loads.state.lock().waiting == 0 && !is_refused.load(Ordering::SeqCst) {
                    yield_now();
                }
                *slow.0.lock() = false;
                slow.1.notify_all();
                for reader in readers.into_iter().chain([late]) {
                    reader.join().expect("no panic").expect("E13.7: a frame becomes free");
                }
            });
        });
    }
}
