//! The ceiling of `heap-words`: random words of memory read and written by threads that know of no transaction. Depends
//! on no part of Cedrat.
//!
//! `unsafe` here is sound because
//! 1. the memory is mapped once, private and anonymous, and given back when its owner is dropped; what is lent from it
//!    borrows the owner;
//! 2. it reads as zero until written, and words are only touched as aligned 64-bit atomics.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::job::rate;
use crate::random::Random;
use crate::systems::Result;

/// How many words a transaction of `heap-words` reads and writes, and so a round here.
pub(crate) const WORDS_IN_ROUND: usize = 6;

/// Rounds between two looks at whether to go on.
const ROUNDS: u64 = 64;

/// Words of memory, each page of which is there.
pub(crate) struct Words {
    base: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: 2.
unsafe impl Sync for Words {}

impl Words {
    /// In huge pages, where the system has them.
    pub(crate) fn map(bytes: u64) -> Result<Words> {
        let bytes = usize::try_from(bytes)?;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: 1; the kernel chooses a place where nothing else is.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error().into());
        }
        let words = Words { base, bytes };
        // SAFETY: 1; advice changes no content. A kernel without huge pages refuses, and has plain ones.
        unsafe { libc::madvise(words.base, bytes, libc::MADV_HUGEPAGE) };
        words.all().iter().step_by(512).for_each(|word| word.store(1, Ordering::Relaxed));
        Ok(words)
    }

    /// Rounds per second.
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
