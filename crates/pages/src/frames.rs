//! The memory of pages.
//!
//! This module and [`crate::view`] hold every `unsafe` of the crate. They are sound because
//!
//! 1. a [`Reservation`] maps its range once and unmaps it only when dropped; whatever is lent from it borrows it;
//! 2. the range is private, anonymous memory: every byte of it reads as zero until written, no file and no other
//!    process can change it, and returning pages to the system makes them zero again, never unmapped;
//! 3. frames are accessed only as aligned 64-bit atomic words, so that a writer under the exclusive latch and readers
//!    without a latch do not race in the sense of the language. There is one exception:
//! 4. a byte slice is lent only to a holder of the page's latch, shared or exclusive, and for no longer than the
//!    latch is held; no thread writes the words in that time, for writing takes the exclusive latch.
//!
//! If frames are returned to the system while readers without a latch still read them, the words become zero under
//! these readers. They must tolerate that anyway (E12.3): the state word shows it afterwards.

use std::io;
use std::ptr::NonNull;
// The words of a page are data, not synchronisation: they are real atomics also under a seeded scheduler.
use std::sync::atomic::{AtomicU64, Ordering};

use cedrat_sync::{OwnWord, planted};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munlock, munmap};

use crate::page::PAGE_LEN;

/// The number of words in a page.
pub(crate) const PAGE_WORDS: usize = PAGE_LEN / 8;

/// The bytes of one page, as words that any thread may read at any time.
#[repr(C, align(8))]
pub(crate) struct PageWords([AtomicU64; PAGE_WORDS]);

impl PageWords {
    /// Creates a page of zeros outside the pool.
    pub(crate) fn zeroed() -> Box<PageWords> {
        Box::new(PageWords([const { AtomicU64::new(0) }; PAGE_WORDS]))
    }

    /// Returns the eight bytes from `index * 8` on.
    #[inline(always)]
    pub(crate) fn word(&self, index: usize) -> u64 {
        u64::from_le(self.0[index].load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn set_word(&self, index: usize, word: u64) {
        self.0[index].store(word.to_le(), Ordering::Relaxed);
    }

    /// Returns `len` ≤ 8 bytes from `at` on, as a little-endian number; the caller has checked the bounds.
    #[inline(always)]
    pub(crate) fn number(&self, at: usize, len: usize) -> u64 {
        debug_assert!(len <= 8 && at + len <= PAGE_LEN);
        let (index, shift) = (at / 8, at % 8);
        let mut value = self.word(index) >> (shift * 8);
        if shift + len > 8 {
            value |= self.word(index + 1) << ((8 - shift) * 8);
        }
        if len < 8 { value & ((1 << (len * 8)) - 1) } else { value }
    }

    /// Copies bytes out; the caller has checked the bounds.
    #[inline]
    pub(crate) fn load(&self, at: usize, into: &mut [u8]) {
        let (first, rest) = into.split_at_mut(into.len().min(at.next_multiple_of(8) - at));
        self.load_within_a_word(at, first);
        let at = at + first.len();
        let (words, last) = rest.as_chunks_mut::<8>();
        for (index, word) in (at / 8..).zip(words.iter_mut()) {
            *word = self.word(index).to_le_bytes();
        }
        self.load_within_a_word(at + size_of_val(words), last);
    }

    #[inline]
    fn load_within_a_word(&self, at: usize, into: &mut [u8]) {
        if !into.is_empty() {
            into.copy_from_slice(&self.word(at / 8).to_le_bytes()[at % 8..][..into.len()]);
        }
    }

    /// Whether the bytes from `at` on equal `expected`; the caller has checked the bounds.
    #[inline]
    pub(crate) fn equal(&self, mut at: usize, mut expected: &[u8]) -> bool {
        while !expected.is_empty() {
            let len = expected.len().min(8);
            let (now, later) = expected.split_at(len);
            let mut word = [0; 8];
            word[..len].copy_from_slice(now);
            if self.number(at, len) != u64::from_le_bytes(word) {
                return false;
            }
            (expected, at) = (later, at + len);
        }
        true
    }

    /// Copies bytes in; the caller has checked the bounds and is the page's only writer.
    #[inline]
    pub(crate) fn store(&self, at: usize, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(at.next_multiple_of(8) - at));
        self.store_within_a_word(at, first);
        let at = at + first.len();
        let (words, last) = rest.as_chunks::<8>();
        for (index, word) in (at / 8..).zip(words) {
            self.set_word(index, u64::from_le_bytes(*word));
        }
        self.store_within_a_word(at + size_of_val(words), last);
    }

    #[inline]
    fn store_within_a_word(&self, at: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut word = self.word(at / 8).to_le_bytes();
        word[at % 8..][..bytes.len()].copy_from_slice(bytes);
        self.set_word(at / 8, u64::from_le_bytes(word));
    }

    /// Writes the lowest `len` bytes of a number, 1 to 8; the caller has checked the bounds and is the page's only writer.
    #[inline]
    pub(crate) fn set_number(&self, at: usize, len: usize, value: u64) {
        let (index, shift) = (at / 8, at % 8 * 8);
        let mask = u64::MAX >> (64 - len * 8);
        self.set_word(index, self.word(index) & !(mask << shift) | (value & mask) << shift);
        let done = 64 - shift;
        if len * 8 > done {
            self.set_word(index + 1, self.word(index + 1) & !(mask >> done) | (value & mask) >> done);
        }
    }

    /// Sets `len` bytes from `at` on to `byte`; the caller has checked the bounds and is the page's only writer.
    pub(crate) fn fill(&self, mut at: usize, mut len: usize, byte: u8) {
        let word = u64::from_le_bytes([byte; 8]);
        while len > 0 {
            let now = len.min(8 - at % 8);
            match now {
                8 => self.set_word(at / 8, word),
                part => self.set_number(at, part, word),
            }
            (at, len) = (at + now, len - now);
        }
    }

    /// Returns the bytes of the page.
    ///
    /// # Safety
    /// No thread may write the page while the slice lives.
    #[inline(always)]
    pub(crate) unsafe fn bytes(&self) -> &[u8; PAGE_LEN] {
        // SAFETY: 4; the array has exactly this many initialised bytes, and atomics have the layout of their numbers.
        unsafe { &*self.0.as_ptr().cast::<[u8; PAGE_LEN]>() }
    }
}

/// Refuses a system whose pages of memory have `system_page_len` bytes, if these are more than a frame. It would take back whole
/// pages, and with a frame that is evicted the frames beside it.
pub(crate) fn check_system(system_page_len: usize) -> io::Result<()> {
    if system_page_len <= PAGE_LEN || planted!("larger_memory_pages_accepted") {
        return Ok(());
    }
    let what = format!(
        "the pages of memory of this system have {system_page_len} bytes, and at most {PAGE_LEN} are supported: use a kernel with \
         pages of {PAGE_LEN} bytes"
    );
    Err(io::Error::new(io::ErrorKind::Unsupported, what))
}

/// A range of virtual memory, all zero, that takes memory only where it is written.
pub(crate) struct Reservation {
    base: NonNull<u8>,
    len: usize,
    /// Not zero in the process that has mapped it. In a forked child other memory may lie there.
    process: OwnWord,
}

// SAFETY: 1 and 3; the reservation is memory, not bound to a thread, and lends only atomics.
unsafe impl Send for Reservation {}
// SAFETY: as above.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `len` bytes, rounded up to whole pages.
    ///
    /// Neither shared with a forked child nor backed by huge pages (E12.4): a child would make every change copy, and
    /// a huge page would be allocated as a whole for a single frame.
    pub(crate) fn new(len: usize) -> io::Result<Reservation> {
        let len = len.max(1).next_multiple_of(PAGE_LEN);
        // SAFETY: a fresh mapping at an address of the system's choice touches no existing memory.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)
        }?;
        let base = NonNull::new(base.cast::<u8>()).expect("the system maps nothing at address 0");
        let reservation = Reservation { base, len, process: OwnWord::new(1) };
        // If the program has locked its future memory (`mlockall`), an accessible range would get memory at once, all of it.
        // SAFETY: 1; the range is ours, and unlocking does not change its content.
        unsafe { munlock(reservation.base.as_ptr().cast(), len) }?;
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: 1; the range is ours, and nothing refers to it yet.
        unsafe { mprotect(reservation.base.as_ptr().cast(), len, access) }?;
        let fork = if planted!("frames_shared_with_child") { Advice::LinuxDoFork } else { Advice::LinuxDontFork };
        for advice in [fork, Advice::LinuxNoHugepage] {
            // SAFETY: 1; the range is ours, and neither advice changes its content.
            let advised = unsafe { madvise(reservation.base.as_ptr().cast(), len, advice) };
            match advised {
                // A kernel built without huge pages does not know this advice.
                Err(Errno::INVAL) if advice == Advice::LinuxNoHugepage => {}
                other => other?,
            }
        }
        Ok(reservation)
    }

    /// Returns the page at `index`; the caller has checked that it is in the range.
    #[inline(always)]
    pub(crate) fn page(&self, index: usize) -> &PageWords {
        assert!(index < self.len / PAGE_LEN, "frame {index} lies beyond the reserved range");
        // SAFETY: 1, 2 and 3; the line above keeps it in range, and the base is aligned to a page.
        unsafe { &*self.base.as_ptr().add(index * PAGE_LEN).cast::<PageWords>() }
    }

    /// Returns the pair of words at `index`, for tables.
    #[cfg(not(cedrat_shuttle))]
    #[inline(always)]
    pub(crate) fn pair(&self, index: usize) -> &[cedrat_sync::atomic::AtomicU64; 2] {
        assert!(index < self.len / 16, "entry {index} lies beyond the reserved range");
        // SAFETY: 1, 2 and 3; the line above keeps it in range, and sixteen divides every offset and the base. The atomics are those
        // of the standard library, or have their layout.
        unsafe { &*self.base.as_ptr().add(index * 16).cast() }
    }

    /// Returns the memory of the page at `index` to the system; it reads as zero afterwards.
    pub(crate) fn give_back(&self, index: usize) -> io::Result<()> {
        assert!(index < self.len / PAGE_LEN, "frame {index} lies beyond the reserved range");
        // SAFETY: 1 and 2; the page is in range, and becoming zero is a change like any other.
        let give_back =
            || unsafe { madvise(self.base.as_ptr().add(index * PAGE_LEN).cast(), PAGE_LEN, Advice::LinuxDontNeed) };
        match give_back() {
            // The program has locked all its memory, with `mlockall`. The range as a whole is unlocked: by single pages it would
            // be divided into more mappings than a process may have.
            Err(Errno::INVAL) if !planted!("locked_memory_kept") => {
                // SAFETY: 1; the range is ours, and unlocking does not change its content.
                unsafe { munlock(self.base.as_ptr().cast(), self.len) }?;
                give_back()?;
            }
            result => result?,
        }
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.process.load() == 0 {
            return; // E1.9f
        }
        // SAFETY: 1; this process has mapped the range, and nothing lent from it outlives it. Failure would leave it mapped,
        // which is harmless.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_access_agrees_at_every_offset() {
        let page = PageWords::zeroed();
        let bytes: Vec<u8> = (0..PAGE_LEN).map(|i| (i * 7 + i / 256) as u8).collect();
        page.store(0, &bytes);
        for at in (0..64).chain(PAGE_LEN - 64..PAGE_LEN) {
            for len in 0..=(PAGE_LEN - at).min(20) {
                let mut copy = vec![0; len];
                page.load(at, &mut copy);
                assert_eq!(copy, bytes[at..at + len]);
                assert!(page.equal(at, &bytes[at..at + len]));
                if len > 0 {
                    copy[len - 1] ^= 1;
                    assert!(!page.equal(at, &copy));
                }
                if (1..=8).contains(&len) {
                    let mut word = [0; 8];
                    word[..len].copy_from_slice(&bytes[at..at + len]);
                    let number = u64::from_le_bytes(word);
                    assert_eq!(page.number(at, len), number, "{at} {len}");
                    // Higher bytes of the number are not written, and the neighbours stay.
                    page.set_number(at, len, !number);
                    assert_eq!(page.number(at, len), !number & u64::MAX >> (64 - 8 * len), "{at} {len}");
                    page.set_number(at, len, number);
                    assert!(page.equal(0, &bytes), "{at} {len}");
                }
            }
        }
    }

    #[test]
    fn store_and_fill_leave_neighbours_unchanged() {
        for at in 0..24 {
            for len in 0..24 {
                let page = PageWords::zeroed();
                page.fill(0, 64, 0xEE);
                page.store(at, &vec![0x11; len]);
                page.fill(at, len / 2, 0x22);
                let mut seen = [0; 64];
                page.load(0, &mut seen);
                let mut expected = [0xEE; 64];
                expected[at..at + len].fill(0x11);
                expected[at..at + len / 2].fill(0x22);
                assert_eq!(seen, expected, "{at} {len}");
            }
        }
    }

    /// E12.4, as the system reports it.
    #[cfg(target_os = "linux")]
    #[test]
    fn frames_avoid_forks_and_huge_pages() {
        let range = Reservation::new(64 * PAGE_LEN).unwrap();
        let here = range.base.as_ptr().addr();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        // The system may have merged the range with an adjacent one that has the same flags.
        let holds_us = |line: &&str| {
            let bounds = line.split(' ').next().and_then(|bounds| bounds.split_once('-'));
            let number = |digits| usize::from_str_radix(digits, 16).ok();
            bounds.is_some_and(|(from, to)| number(from) <= Some(here) && Some(here) < number(to))
        };
        let mut lines = maps.lines().skip_while(|line| !holds_us(line));
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags: ")).expect("the range is mapped");
        let has = |flag| flags.split(' ').any(|one| one == flag);
        assert!(has("dc") && has("nh") && has("nr"), "no copy, no huge pages, no reserve: {flags}");
    }

    /// On 64-bit Arm and others a kernel may have pages of 16 or 64 KiB.
    #[test]
    fn larger_memory_pages_are_refused() {
        check_system(rustix::param::page_size()).unwrap();
        let refused = check_system(4 * PAGE_LEN).expect_err("E12.5");
        assert!(refused.to_string().contains("have 16384 bytes"), "{refused}");
    }

    /// A pool that cannot return a page evicts none: each request fails once all frames are in use.
    #[test]
    fn locked_page_is_given_back() {
        let range = Reservation::new(2 * PAGE_LEN).unwrap();
        range.page(0).store(100, b"here");
        range.page(1).store(100, b"there");
        // SAFETY: the range is mapped, and locking does not change its content.
        unsafe { rustix::mm::mlock(range.base.as_ptr().cast(), range.len) }.unwrap();
        range.give_back(0).expect("E12.4");
        assert!(range.page(0).equal(100, &[0; 4]));
        assert!(range.page(1).equal(100, b"there"));
    }

    #[test]
    fn a_page_given_back_reads_as_zero() {
        let range = Reservation::new(16 * PAGE_LEN).unwrap();
        range.page(3).store(100, b"here");
        range.page(4).store(100, b"there");
        range.give_back(3).unwrap();
        assert!(range.page(3).equal(100, &[0; 4]));
        assert!(range.page(4).equal(100, b"there"));
    }
}
