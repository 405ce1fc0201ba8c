//! A word that a forked child finds to be zero.
//!
//! A child has the memory of its parent, and none of its threads: a mutex that another thread has locked stays locked there
//! forever. So it has to notice that it is a child before it waits for anything, at the price of one load.
//!
//! `unsafe` here is sound because
//! 1. the word lies in memory of its own, which is aligned, zero or initialised, and released only by the drop of its owner;
//! 2. it is accessed only as an atomic, for which each value is valid, so the system may clear it in a child.

pub use word::OwnWord;

#[cfg(all(target_os = "linux", not(any(cedrat_shuttle, miri))))]
mod word {
    use std::fmt;
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A word that belongs to the process that has created it. Where the system cannot clear it in forked children, they find the
    /// value of their parent.
    pub struct OwnWord {
        word: NonNull<AtomicU32>,
        /// Whether it lies in a mapping of its own, of this length.
        mapped_len: Option<usize>,
    }

    // SAFETY: 1 and 2; it is memory, not bound to a thread, and lends only an atomic.
    unsafe impl Send for OwnWord {}
    // SAFETY: as above.
    unsafe impl Sync for OwnWord {}

    impl OwnWord {
        /// Creates a word with this value, which is not zero.
        pub fn new(value: u32) -> OwnWord {
            let own = mapped().unwrap_or_else(|| {
                let word = NonNull::from(Box::leak(Box::new(AtomicU32::new(0))));
                OwnWord { word, mapped_len: None }
            });
            own.store(value);
            own
        }

        fn word(&self) -> &AtomicU32 {
            // SAFETY: 1 and 2.
            unsafe { self.word.as_ref() }
        }

        /// Returns the value; in a forked child 0.
        #[inline(always)]
        pub fn load(&self) -> u32 {
            self.word().load(Ordering::Acquire)
        }

        /// Sets the value.
        pub fn store(&self, value: u32) {
            self.word().store(value, Ordering::Release);
        }
    }

    /// Maps a page that a child does not get; `None`: the system refuses.
    fn mapped() -> Option<OwnWord> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: 1; a fresh mapping at an address of the system's choice touches no existing memory.
        let (base, len) = unsafe {
            let len = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).ok()?;
            (libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0), len)
        };
        if base == libc::MAP_FAILED {
            return None;
        }
        let own = OwnWord { word: NonNull::new(base.cast())?, mapped_len: Some(len) };
        // SAFETY: 1; the page is ours, and the advice does not change its content here.
        let advised = unsafe { libc::madvise(base, len, libc::MADV_WIPEONFORK) };
        (advised == 0).then_some(own)
    }

    impl Drop for OwnWord {
        fn drop(&mut self) {
            match self.mapped_len {
                // SAFETY: 1; it was mapped with this length, and no borrow is left. A failure would leave it mapped.
                Some(len) => _ = unsafe { libc::munmap(self.word.as_ptr().cast(), len) },
                // SAFETY: 1; it was leaked from a box.
                None => drop(unsafe { Box::from_raw(self.word.as_ptr()) }),
            }
        }
    }

    impl fmt::Debug for OwnWord {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_tuple("OwnWord").field(&self.load()).finish()
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn word_is_cleared_in_child() {
            let own = OwnWord::new(7);
            assert_eq!(own.load(), 7);
            // SAFETY: the child only loads a word and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: it ends without running anything else.
                unsafe { libc::_exit(own.load() as i32) };
            }
            let mut status = -1;
            // SAFETY: the status is borrowed until the call returns.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!((status, own.load()), (0, 7), "E1.9d");
            own.store(8);
            assert_eq!(own.load(), 8);
        }
    }
}

#[cfg(not(all(target_os = "linux", not(any(cedrat_shuttle, miri)))))]
mod word {
    use crate::atomic::{AtomicU32, Ordering};

    /// A word that belongs to the process that has created it. This build does not fork.
    #[derive(Debug)]
    pub struct OwnWord(AtomicU32);

    impl OwnWord {
        /// Creates a word with this value, which is not zero.
        pub fn new(value: u32) -> OwnWord {
            OwnWord(AtomicU32::new(value))
        }

        /// Returns the value.
        pub fn load(&self) -> u32 {
            self.0.load(Ordering::Acquire)
        }

        /// Sets the value.
        pub fn store(&self, value: u32) {
            self.0.store(value, Ordering::Release);
        }
    }
}
