//! Asking for a processor soon: a call that neither the standard library nor rustix has.
//!
//! `unsafe` here is sound because
//! 1. the kernel reads or fills the attributes it is given, which are plain numbers, borrowed until the call returns;
//! 2. it is told their length.

#[cfg(all(target_os = "linux", not(cedrat_shuttle)))]
pub use linux::hurry;

/// Does nothing: there is no such wish here.
#[cfg(not(all(target_os = "linux", not(cedrat_shuttle))))]
pub fn hurry() {}

#[cfg(all(target_os = "linux", not(cedrat_shuttle)))]
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
        /// Of an ordinary thread: how long its turns are, in nanoseconds.
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    const _: () = assert!(size_of::<Attributes>() == 48);

    const ORDINARY: u32 = 0;

    /// Turns of a tenth of a millisecond, the shortest there are.
    const TURN_NS: u64 = 100_000;

    /// Asks that this thread gets a processor soon whenever it wakes up, for the price of short turns: it gets no more of
    /// one than others, only earlier. For threads that mostly wait for a disk, and for which others wait. From Linux 6.12
    /// on anybody may ask; where it is refused nothing changes.
    pub fn hurry() {
        let mut attributes = Attributes::default();
        let len = size_of::<Attributes>();
        // SAFETY: 1 and 2; 0 is the calling thread.
        let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, len, 0) };
        if got != 0 || attributes.policy != ORDINARY {
            return; // somebody has chosen something else for this thread
        }
        attributes.size = len as u32;
        attributes.runtime = TURN_NS;
        // SAFETY: 1 and 2.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }

    #[cfg(test)]
    mod tests {
        /// Asked twice, and beside work: it changes no more than when a thread runs.
        #[test]
        fn whoever_is_in_a_hurry_goes_on() {
            let worker = std::thread::spawn(|| {
                super::hurry();
                super::hurry();
                7
            });
            assert_eq!(worker.join().unwrap(), 7);
        }
    }
}
