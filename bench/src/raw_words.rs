//! Ceiling of `heap-words`: random words of memory read and written by threads without transactions. Depends on no part of
//! Cedrat.
//!
//! `unsafe` here is sound because
//! 1. the memory is mapped once, private and anonymous, and unmapped when its owner is dropped; every reference into it
//!    borrows the owner;
//! 2. it reads as zero until written, and words are only accessed as aligned 64-bit atomics.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::job::rate;
use crate::random::Random;
use crate::systems::Result;

/// Number of words that a transaction of `heap-words`, and so a round here, reads and writes.
pub(crate) const WORDS_IN_ROUND: usize = 6;

/// Rounds between two checks of the stop flag.
const ROUNDS: u64 = 64;

/// Words of memory, of which each page was touched.
pub(crate) struct Words {
    base: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: 2.
unsafe impl Sync for Words {}

impl Words {
    /// Maps the words, in huge pages if the system has them.
    pub(crate) fn map(bytes: u64) -> Result<Words> {
        let bytes = usize::try_from(bytes)?;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: 1; the kernel chooses an unused address.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error().into());
        }
        let words = Words { base, bytes };
        // SAFETY: 1; advice changes no content. A kernel without huge pages refuses, and uses small ones.
        unsafe { libc::madvise(words.base, bytes, libc::MADV_HUGEPAGE) };
        words.all().iter().step_by(512).for_each(|word| word.store(1, Ordering::Relaxed));
        Ok(words)
    }

    /// Returns rounds per second.
    pub(crate) fn rounds_per_s(&self, threads: u32, seconds: f64) -> Result<f64> {
        let words = self.all();
        rate(threads, seconds, |number, go_on| {
            let mut random = Random::new(number.into());
            while go_on(ROUNDS) {
                for _ in 0..ROUNDS {
                    for place in random.several::<WORDS_IN_ROUND>(words.len() as u64) {
                        let word = &words[place as usize];
                        word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
                    }
                }
            }
            Ok(())
        })
    }

    fn all(&self) -> &[AtomicU64] {
        // SAFETY: 1 and 2; a mapping begins at a page.
        unsafe { std::slice::from_raw_parts(self.base.cast(), self.bytes / 8) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: 1.
        unsafe { libc::munmap(self.base, self.bytes) };
    }
}
