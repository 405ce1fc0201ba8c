//! Memory mapping of the words of a heap.
//!
//! This module holds the `unsafe` of the engine of this crate. It is sound because
//!
//! 1. a [`Region`] maps its range once and unmaps it only when dropped; every reference into it borrows it;
//! 2. the range is private, anonymous memory: every word reads as zero until written, and no file and no other process
//!    can change it;
//! 3. words are only ever accessed as aligned 64-bit atomics, so a transaction that writes back does not race, in the sense
//!    of the language, with readers that have not noticed it yet;
//! 4. a prefetch is a hint: it reads nothing that the program could observe, whatever the address;
//! 5. a [`Table`] has a power of two of words, and an index is masked to its size before use;
//! 6. the number of loaded words of a [`Region`] is that of all its words, or 0.
//!
//! Under a seeded scheduler, and under Miri, words are atomics in ordinary memory: these runs explore readers that come
//! between two stores of a writer.

use std::io;

use cedrat_sync::atomic::{AtomicU64, Ordering};

/// Bytes in a word, the unit of reading, writing and conflict.
pub const WORD_LEN: u64 = 8;

/// How a region is mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Whether to request huge pages: random words then cost one miss instead of two.
    pub(crate) huge: bool,
    /// Required start address, so that raw addresses into the region survive a restart.
    pub(crate) address: Option<usize>,
    /// Address space that others need later, in bytes: where it is limited, a heap does not take it to grow.
    pub(crate) beside: u64,
}

/// A range of words, initially zero, that consumes memory only for the pages that are written.
#[derive(Debug)]
pub(crate) struct Region {
    words: backing::Words,
    /// Number of words that may be used: all, or none while words of a heap are absent (E4.6).
    loaded: AtomicU64,
}

impl Region {
    /// Reserves `words` words.
    pub(crate) fn new(words: usize, mapping: Mapping) -> io::Result<Region> {
        let words = backing::Words::new(words.max(1), mapping)?;
        let loaded = AtomicU64::new(words.all().len() as u64);
        Ok(Region { words, loaded })
    }

    /// Lets each use of a word find it absent, until [`Region::complete`].
    pub(crate) fn make_absent(&self) {
        self.loaded.store(0, Ordering::Relaxed);
    }

    /// Lets all words be used; those that were absent are stored.
    pub(crate) fn complete(&self) {
        // Pairs with that of `word`: the caller has seen all stores.
        self.loaded.store(self.words().len() as u64, Ordering::Release);
    }

    /// Returns whether no word is absent.
    #[inline(always)]
    pub(crate) fn is_complete(&self) -> bool {
        self.loaded.load(Ordering::Acquire) > 0
    }

    /// Returns a word; `None` where it may be absent, or beyond the end. It costs what a check of the bounds does.
    #[inline(always)]
    pub(crate) fn word(&self, index: u64) -> Option<&AtomicU64> {
        if index >= self.loaded.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: 6.
        Some(unsafe { self.words().get_unchecked(index as usize) })
    }

    /// Returns whether the system has so many more bytes of address space.
    pub(crate) fn is_possible(bytes: u64) -> bool {
        backing::is_possible(bytes)
    }

    /// Returns all words, also absent ones.
    #[inline(always)]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        self.words.all()
    }

    /// Asks the processor to prefetch the cache line of this word. An index outside of the region is ignored.
    #[inline(always)]
    pub(crate) fn prefetch(&self, index: usize) {
        if let Some(word) = self.words().get(index) {
            backing::prefetch(word);
        }
    }

    /// Returns the address of the first byte.
    pub(crate) fn address(&self) -> usize {
        self.words().as_ptr() as usize
    }

    /// Copies words into bytes, little endian, while other threads may change them: each word is consistent, a set of words
    /// need not be.
    pub(crate) fn copy(&self, first: usize, into: &mut [u8]) {
        let words = &self.words()[first..first + into.len() / 8];
        for (word, bytes) in words.iter().zip(into.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
    }

    /// Stores bytes at any offset and of any length; no other thread may store to their words concurrently.
    pub(crate) fn store_bytes(&self, offset: u64, bytes: &[u8]) {
        let (mut at, mut bytes) = (offset, bytes);
        while !bytes.is_empty() {
            let skip = (at % WORD_LEN) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(8 - skip));
            let word = &self.words()[(at / WORD_LEN) as usize];
            let mut value = word.load(Ordering::Relaxed).to_le_bytes();
            value[skip..skip + now.len()].copy_from_slice(now);
            word.store(u64::from_le_bytes(value), Ordering::Relaxed);
            (at, bytes) = (at + now.len() as u64, later);
        }
    }

    /// Fills words from bytes, before any other thread uses them.
    pub(crate) fn fill(&self, first: usize, from: &[u8]) {
        let words = &self.words()[first..first + from.len() / 8];
        for (word, bytes) in words.iter().zip(from.chunks_exact(8)) {
            word.store(u64::from_le_bytes(bytes.try_into().expect("eight bytes")), Ordering::Relaxed);
        }
    }

    /// Fills words as [`Region::fill`] does, except those whose bits are set: bit `n % 64` of `kept[n / 64]` stands for the
    /// word `first + n`.
    pub(crate) fn fill_except(&self, first: usize, from: &[u8], kept: &[AtomicU64]) {
        let words = &self.words()[first..first + from.len() / 8];
        for ((words, bytes), kept) in words.chunks(64).zip(from.chunks(64 * 8)).zip(kept) {
            let kept = kept.load(Ordering::Relaxed);
            for (at, (word, bytes)) in words.iter().zip(bytes.chunks_exact(8)).enumerate() {
                if kept >> at & 1 == 0 {
                    word.store(u64::from_le_bytes(bytes.try_into().expect("eight bytes")), Ordering::Relaxed);
                }
            }
        }
    }
}

/// A power of two of words, addressed modulo their number, so that no index is out of bounds.
#[derive(Debug)]
pub(crate) struct Table {
    region: Region,
    mask: usize,
}

impl Table {
    /// Creates a table of `2^count_log2` words.
    pub(crate) fn new(count_log2: u32, huge: bool) -> io::Result<Table> {
        let count = 1usize << count_log2;
        let region = Region::new(count, Mapping { huge, ..Mapping::default() })?;
        assert_eq!(region.words().len(), count, "reason 5");
        Ok(Table { region, mask: count - 1 })
    }

    /// Returns the number of words.
    pub(crate) fn count(&self) -> usize {
        self.mask + 1
    }

    /// Returns the address of the first word.
    pub(crate) fn address(&self) -> usize {
        self.region.address()
    }

    /// Returns the index modulo the number of words.
    #[inline(always)]
    pub(crate) fn cut(&self, index: usize) -> usize {
        index & self.mask
    }

    /// Returns the word at this index, modulo the number of words.
    #[inline(always)]
    pub(crate) fn at(&self, index: usize) -> &AtomicU64 {
        self.view().at(index)
    }

    /// Returns a view of the whole table, by value.
    #[inline(always)]
    pub(crate) fn view(&self) -> TableView<'_> {
        TableView { words: self.region.words(), mask: self.mask }
    }

    /// Asks the processor to prefetch the cache line of a word.
    #[inline(always)]
    pub(crate) fn prefetch(&self, index: usize) {
        backing::prefetch(self.at(index));
    }
}

/// A [`Table`] by value, for passing around.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableView<'a> {
    words: &'a [AtomicU64],
    mask: usize,
}

impl<'a> TableView<'a> {
    /// Returns the word at this index, modulo the number of words.
    #[inline(always)]
    pub(crate) fn at(self, index: usize) -> &'a AtomicU64 {
        // SAFETY: 5; the mask is one less than the number of words.
        unsafe { self.words.get_unchecked(index & self.mask) }
    }
}

#[cfg(not(any(cedrat_shuttle, miri)))]
mod backing {
    use std::io;
    use std::ptr::NonNull;

    use cedrat_sync::OwnWord;
    use cedrat_sync::atomic::AtomicU64;
    use rustix::io::Errno;
    use rustix::mm::{Advice, MapFlags, MlockFlags, MprotectFlags, ProtFlags};
    use rustix::mm::{madvise, mlock_with, mmap_anonymous, mprotect, munlock, munmap};

    use super::Mapping;

    const HUGE_LEN: usize = 2 << 20;

    #[derive(Debug)]
    pub(super) struct Words {
        base: NonNull<AtomicU64>,
        count: usize,
        /// Address of the mapping, which is longer than the words, so that they can begin at a huge page.
        mapped: NonNull<u8>,
        mapped_len: usize,
        /// Not zero in the process that has mapped it. In a forked child other memory may lie there.
        process: OwnWord,
    }

    // SAFETY: 1 and 3; it is memory, not bound to a thread, and lends only atomics.
    unsafe impl Send for Words {}
    // SAFETY: as above.
    unsafe impl Sync for Words {}

    impl Words {
        pub(super) fn new(count: usize, mapping: Mapping) -> io::Result<Words> {
            let len = count.checked_mul(8).and_then(|len| len.checked_next_multiple_of(HUGE_LEN));
            let too_long = || io::Error::new(io::ErrorKind::OutOfMemory, "the range is longer than the address space");
            let len = len.ok_or_else(too_long)?;
            let (mapped, mapped_len) = match mapping.address {
                None => (map(None, len + HUGE_LEN)?, len + HUGE_LEN),
                Some(address) => (map(Some(address), len)?, len),
            };
            let skip = match mapping.address {
                None => mapped.as_ptr().align_offset(HUGE_LEN),
                Some(_) => 0,
            };
            let words = Words {
                // SAFETY: 1; `skip` is less than the HUGE_LEN bytes that were mapped beyond `len`.
                base: unsafe { mapped.add(skip) }.cast(),
                count,
                mapped,
                mapped_len,
                process: OwnWord::new(1),
            };
            words.make_accessible()?;
            let advice = if mapping.huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
            // A hint: a kernel without support uses small pages.
            // SAFETY: 1; the range was just mapped and nothing else refers to it.
            let _ = unsafe { madvise(words.base.as_ptr().cast(), len, advice) };
            // SAFETY: as above. A child of `fork` would make every change copy its page.
            let _ = unsafe { madvise(words.base.as_ptr().cast(), len, Advice::LinuxDontFork) };
            Ok(words)
        }

        /// Lets the range be read and written, after it was mapped without access: if the program has locked its future memory
        /// (`mlockall`), an accessible range would get memory at once, all of it. Its pages are locked when they are written.
        fn make_accessible(&self) -> io::Result<()> {
            let (at, len) = (self.mapped.as_ptr().cast(), self.mapped_len);
            // SAFETY: 1; nothing refers to the range yet, and it has no content.
            let is_locked = unsafe { madvise(at, len, Advice::LinuxDontNeed) } == Err(Errno::INVAL);
            // SAFETY: as above.
            if is_locked && unsafe { mlock_with(at, len, MlockFlags::ONFAULT) }.is_err() {
                // A kernel before 4.4.
                // SAFETY: as above.
                unsafe { munlock(at, len) }?;
            }
            // SAFETY: as above.
            unsafe { mprotect(at, len, MprotectFlags::READ | MprotectFlags::WRITE) }?;
            Ok(())
        }

        #[inline(always)]
        pub(super) fn all(&self) -> &[AtomicU64] {
            // SAFETY: 1, 2 and 3; the range has `count` words, aligned since it begins at a page, initialised to zero.
            unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.count) }
        }
    }

    /// Maps `len` bytes without access, at the address if one is given, and never over an existing mapping.
    fn map(address: Option<usize>, len: usize) -> io::Result<NonNull<u8>> {
        let at = address.map_or(std::ptr::null_mut(), |address| address as *mut core::ffi::c_void);
        let mut flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        if address.is_some() {
            flags |= MapFlags::FIXED_NOREPLACE;
        }
        // SAFETY: a fresh mapping, at an address of the system's choice or at one where nothing is mapped, touches no
        // existing memory.
        let base = unsafe { mmap_anonymous(at, len, ProtFlags::empty(), flags)? };
        if address.is_some() && base != at {
            // A kernel before 4.17 takes the address for a hint.
            // SAFETY: it was just mapped, and nothing refers to it.
            unsafe { munmap(base, len)? };
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(NonNull::new(base.cast()).expect("a mapping does not begin at address zero"))
    }

    pub(super) fn is_possible(bytes: u64) -> bool {
        usize::try_from(bytes / 8).is_ok_and(|words| Words::new(words, Mapping::default()).is_ok())
    }

    impl Drop for Words {
        fn drop(&mut self) {
            if self.process.load() == 0 {
                return; // E1.9f
            }
            // SAFETY: 1; this is the range that was mapped, by this process, and no borrow of it is left.
            let _ = unsafe { munmap(self.mapped.as_ptr().cast(), self.mapped_len) };
        }
    }

    #[inline(always)]
    pub(super) fn prefetch(word: &AtomicU64) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: 4.
        unsafe {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = word;
    }
}

#[cfg(any(cedrat_shuttle, miri))]
mod backing {
    use std::io;

    use cedrat_sync::atomic::AtomicU64;

    use super::Mapping;

    #[derive(Debug)]
    pub(super) struct Words(Box<[AtomicU64]>);

    impl Words {
        pub(super) fn new(count: usize, _: Mapping) -> io::Result<Words> {
            Ok(Words((0..count).map(|_| AtomicU64::new(0)).collect()))
        }

        pub(super) fn all(&self) -> &[AtomicU64] {
            &self.0
        }
    }

    /// There is no limit, and the memory would be allocated.
    pub(super) fn is_possible(_: u64) -> bool {
        true
    }

    pub(super) fn prefetch(_: &AtomicU64) {}
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn words_start_as_zero_and_keep_values() {
        let region = Region::new(1000, Mapping { huge: true, ..Mapping::default() }).expect("mapped");
        assert!(region.words().iter().all(|word| word.load(Ordering::Relaxed) == 0));
        region.fill(10, &[1; 16]);
        let mut back = [0; 24];
        region.copy(9, &mut back);
        assert_eq!((back[7], back[8], back[23]), (0, 1, 1));
        region.prefetch(5);
        region.prefetch(usize::MAX);
    }

    #[test]
    fn a_fixed_address_is_kept_or_refused() {
        let address = 0x5000_0000_0000;
        let mapping = Mapping { address: Some(address), ..Mapping::default() };
        let first = Region::new(10, mapping).expect("nothing is mapped there");
        assert_eq!(first.address(), address);
        assert!(Region::new(10, mapping).is_err(), "never over what is there");
        drop(first);
        assert!(Region::new(10, mapping).is_ok());
    }
}
