//! Requests for early scheduling: a system call that neither the standard library nor rustix offers.
//!
//! `unsafe` here is sound because
//! 1. the kernel reads or fills the attributes, which are plain integers, borrowed until the call returns;
//! 2. the call passes their length.

#[cfg(all(target_os = "linux", not(any(cedrat_shuttle, miri))))]
pub use linux::hurry;

/// Does nothing: the platform has no such request.
#[cfg(not(all(target_os = "linux", not(any(cedrat_shuttle, miri)))))]
pub fn hurry() {}

#[cfg(all(target_os = "linux", not(any(cedrat_shuttle, miri))))]
mod linux {
    /// The first version of the kernel's `struct sched_attr`.
    #[derive(Default)]
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        /// For an ordinary thread, the length of its time slices in nanoseconds.
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    const _: () = assert!(size_of::<Attributes>() == 48);

    const ORDINARY: u32 = 0;

    /// Time slices of a tenth of a millisecond, the shortest that the kernel allows.
    const TURN_NS: u64 = 100_000;

    /// Requests that this thread gets a processor soon after each wake-up, at the price of short time slices: its
    /// share of processor time stays the same, but comes earlier. Meant for threads that mostly wait for a disk, and
    /// for which other threads wait. From Linux 6.12 on no privilege is needed; where the kernel refuses, nothing
    /// changes.
    pub fn hurry() {
        let mut attributes = Attributes::default();
        let len = size_of::<Attributes>();
        // SAFETY: 1 and 2; 0 is the calling thread.
        let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, len, 0) };
        if got != 0 || attributes.policy != ORDINARY {
            return; // another policy was chosen for this thread
        }
        attributes.size = len as u32;
        attributes.runtime = TURN_NS;
        // SAFETY: 1 and 2.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }

    #[cfg(test)]
    mod tests {
        /// Two requests, next to ordinary work: they change only the time at which a thread runs.
        #[test]
        fn hurried_thread_goes_on() {
            let worker = std::thread::spawn(|| {
                super::hurry();
                super::hurry();
                7
            });
            assert_eq!(worker.join().unwrap(), 7);
        }
    }
}
