//! Numbers of threads, for code that compares them more often than `ThreadId` allows at its cost.

use crate::thread_local;

thread_local! {
    static HERE: u8 = const { 0 };
}

/// Returns the number of the calling thread: unique among the living threads, and not 0.
#[inline]
pub fn thread_number() -> usize {
    HERE.with(|here| std::ptr::from_ref(here).addr())
}
