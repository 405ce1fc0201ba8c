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

    mod forked {
        use std::sync::atomic::{AtomicBool, Ordering};

        use front::txn::{HeuristicOutcome, Prepared, Vote};
        use front::{Commit, Error, Options, Store};

        const FORKS: usize = 40;
        /// Seconds, for a child that needs none.
        const WAITS_MAX: u32 = 20;

        unsafe extern "C" {
            fn fork() -> i32;
            fn alarm(seconds: u32) -> u32;
            fn _exit(status: i32) -> !;
            fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
        }

        fn prepare(store: &Store, id: &[u8]) -> Prepared {
            let mut txn = store.begin();
            txn.allocate().expect("there is space");
            match txn.prepare(id).expect("it is prepared") {
                Vote::Prepared(prepared) => prepared,
                Vote::ReadOnly => panic!("it has changed something"),
            }
        }

        /// Runs this in a forked child, which a signal ends if it hangs. Returns its status.
        fn in_child(work: impl FnOnce()) -> i32 {
            // SAFETY: the child runs `work` in the thread that it has, and ends.
            let child = unsafe { fork() };
            if child == 0 {
                // SAFETY: as above; it runs nothing else.
                unsafe {
                    alarm(WAITS_MAX);
                    work();
                    _exit(0);
                }
            }
            let mut status = -1;
            // SAFETY: the status is borrowed until the call returns.
            assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
            status
        }

        /// E1.9d: another thread lists the branches and the outcomes at each fork.
        #[test]
        fn child_leaves_branch_to_parent() {
            let folder = tempfile::tempdir().expect("a directory");
            let options = Options { pool_bytes: 4 << 20, ..Options::default() };
            let store = front::open_with(folder.path(), options, front::registry()).expect("a store");
            let mut prepared = Some(prepare(&store, b"own"));
            // So many that the latch of the list is held at most forks.
            (0..200_u8).for_each(|number| drop(prepare(&store, &[number])));
            for number in 0..=200_u8 {
                let ended = prepare(&store, &[number, number]).resolve(HeuristicOutcome::Committed);
                ended.expect("an operator may end it");
            }
            let ends = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !ends.load(Ordering::Relaxed) {
                        assert_eq!(store.in_doubt().expect("it is the same process").len(), 201);
                        assert_eq!(store.heuristic_branches().expect("it is the same process").len(), 201);
                    }
                });
                let statuses: Vec<i32> = (0..FORKS)
                    .map(|number| match number % 4 {
                        0 => in_child(|| drop(prepared.take())),
                        1 => in_child(|| assert!(matches!(store.in_doubt(), Err(Error::Stopped(_))), "E1.9d")),
                        2 => {
                            in_child(|| assert!(matches!(store.heuristic_branches(), Err(Error::Stopped(_))), "E1.9d"))
                        }
                        _ => in_child(|| assert!(matches!(store.prepared(b"other"), Err(Error::Stopped(_))), "E1.9d")),
                    })
                    .take_while(|&status| status == 0)
                    .collect();
                ends.store(true, Ordering::Relaxed);
                assert_eq!(statuses.len(), FORKS, "E1.9d: a child hangs, or panics");
            });
            prepared.take().expect("the parent has it").commit(Commit::Sync).expect("E1.9d");
        }
    }
}
