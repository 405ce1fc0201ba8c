//! End of a thread: the transactions of its descriptors are aborted.
//!
//! Each thread records the descriptors with which it began transactions. The code is sound because
//!
//! 1. a descriptor is accessed from here only under the latch of its [`Watch`], and [`Watch::forget`] removes it from there
//!    before it is freed;
//! 2. the thread that ends is the one that used the descriptor last (recorded by [`Watch::begin`]), so no call with it is
//!    in progress: a descriptor belongs to one thread at a time, and moves to another thread between transactions. In a forked
//!    child, which has a copy of the record, nothing is accessed.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::thread::Thread;

/// Reference from an ending thread to a descriptor.
pub(crate) struct Watch {
    thread: Mutex<Option<Watched>>,
    /// Thread that began the last transaction.
    owner: AtomicUsize,
}

struct Watched(NonNull<Thread>);

// SAFETY: 1; only the holder of the latch accesses the descriptor.
unsafe impl Send for Watched {}

impl Watch {
    /// Watches a descriptor, which stays valid until [`Watch::forget`].
    pub(crate) fn new(thread: NonNull<Thread>) -> Arc<Watch> {
        Arc::new(Watch { thread: Mutex::new(Some(Watched(thread))), owner: AtomicUsize::new(0) })
    }

    /// Records that a transaction begins in this thread.
    #[inline(always)]
    pub(crate) fn begin(self: &Arc<Watch>) {
        let me = MINE.try_with(std::ptr::from_ref).map_or(0, |mine| mine as usize);
        if self.owner.load(Ordering::Relaxed) != me {
            self.change_hands(me);
        }
    }

    #[cold]
    fn change_hands(self: &Arc<Watch>, me: usize) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        self.owner.store(me, Ordering::Relaxed);
        drop(thread);
        let remember = |mine: &Mine| {
            let mut watches = mine.watches.borrow_mut();
            // A descriptor may return to a thread any number of times.
            watches.retain(|watch| !Arc::ptr_eq(watch, self) && watch.is_watching());
            watches.push(Arc::clone(self));
            mine.process.set(std::process::id());
        };
        // An ending thread needs no record.
        let _ = MINE.try_with(remember);
    }

    fn is_watching(&self) -> bool {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Removes the descriptor, which is about to be freed.
    pub(crate) fn forget(&self) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn thread_ends(&self, who: usize) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if self.owner.load(Ordering::Relaxed) == who {
            self.owner.store(0, Ordering::Relaxed);
            if let Some(Watched(thread)) = &*thread {
                // SAFETY: 1 and 2.
                unsafe { (*thread.as_ptr()).abort() };
            }
        }
    }
}

/// Descriptors with which this thread began transactions.
struct Mine {
    watches: RefCell<Vec<Arc<Watch>>>,
    /// Process in which it did so.
    process: Cell<u32>,
}

thread_local! {
    static MINE: Mine = const { Mine { watches: RefCell::new(Vec::new()), process: Cell::new(0) } };
}

impl Drop for Mine {
    fn drop(&mut self) {
        // In a forked child, which may end by `exit`, heaps are not mapped and latches may be held by threads that it lacks.
        if self.process.get() != std::process::id() {
            return;
        }
        let me = std::ptr::from_ref(self) as usize;
        for watch in self.watches.borrow_mut().drain(..) {
            watch.thread_ends(me);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// A pool of threads may pass descriptors around for months.
    #[test]
    fn returning_descriptor_is_recorded_once() {
        // Not accessed: it is forgotten before the threads end.
        let watch = Watch::new(NonNull::dangling());
        let recorded = || MINE.with(|mine| mine.watches.borrow().len());
        let (to_other, from_one) = channel();
        let (to_one, from_other) = channel();
        let passed = Arc::clone(&watch);
        let other = std::thread::spawn(move || {
            while from_one.recv().is_ok() {
                passed.begin();
                to_one.send(recorded()).expect("it waits");
            }
        });
        let most = (0..100).map(|_| {
            watch.begin();
            to_other.send(()).expect("it waits");
            from_other.recv().expect("it answers").max(recorded())
        });
        let most = most.max();
        watch.forget();
        drop(to_other);
        other.join().expect("no panic");
        assert_eq!(most, Some(1));
    }
}
