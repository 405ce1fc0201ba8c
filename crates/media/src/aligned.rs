//! Block-aligned buffers. This module holds every `unsafe` of the crate.
//!
//! Sound because
//! 1. `start` is dangling while `capacity` is 0; otherwise it was allocated with `layout(capacity)` by the global
//!    allocator and is owned by this value alone;
//! 2. all `capacity` bytes were zeroed when allocated, so every byte is initialised, and `len ≤ capacity`;
//! 3. `capacity` is a multiple of [`BLOCK_LEN`] that `layout` has accepted, hence at most `isize::MAX`.

#![allow(unsafe_code)]

use crate::BLOCK_LEN;
use cedrat_sync::prefetch_to_write;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A growing byte buffer that begins at a multiple of [`BLOCK_LEN`] in memory, as direct I/O requires.
///
/// Growing moves the bytes; new bytes are zero. Any length is possible; [`AlignedBuf::pad_to_block`] fills the last
/// block.
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
}

// SAFETY: 1: this value alone owns the bytes, as a `Vec<u8>` does.
unsafe impl Send for AlignedBuf {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// Creates an empty buffer without an allocation.
    pub const fn new() -> AlignedBuf {
        AlignedBuf { start: NonNull::dangling(), len: 0, capacity: 0 }
    }

    /// Creates a buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> AlignedBuf {
        let mut buffer = AlignedBuf::with_capacity(len);
        buffer.len = len;
        buffer
    }

    /// Creates an empty buffer with capacity for `capacity` bytes, rounded up to whole blocks.
    pub fn with_capacity(capacity: usize) -> AlignedBuf {
        let capacity = capacity.next_multiple_of(BLOCK_LEN);
        if capacity == 0 {
            return AlignedBuf::new();
        }
        let layout = layout(capacity);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        AlignedBuf { start, len: 0, capacity }
    }

    /// Prefetches the cache line of the byte at `at`, which is about to be written. Does nothing for an index outside
    /// of the bytes in use.
    #[inline]
    pub fn prefetch_to_write(&self, at: usize) {
        if let Some(byte) = self.get(at) {
            prefetch_to_write(byte);
        }
    }

    /// Returns the number of bytes in use.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no byte is in use.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bytes that fit without a move; a multiple of [`BLOCK_LEN`].
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the bytes in use.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: 2 and 3; if capacity is 0, the pointer dangles but is aligned for bytes, and `len` is 0.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Returns the bytes in use, mutable.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Resizes the buffer to `len` bytes, new bytes being zero.
    pub fn resize(&mut self, len: usize) {
        self.reserve(len);
        let old = std::mem::replace(&mut self.len, len);
        if len > old {
            // An earlier, longer use may have left its bytes here.
            self.as_mut_slice()[old..].fill(0);
        }
    }

    /// Appends bytes; doubles the capacity if they do not fit.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let old = self.len;
        self.reserve(old + bytes.len());
        self.len = old + bytes.len();
        self.as_mut_slice()[old..].copy_from_slice(bytes);
    }

    /// Appends zeros up to the next multiple of [`BLOCK_LEN`].
    pub fn pad_to_block(&mut self) {
        self.resize(self.len.next_multiple_of(BLOCK_LEN));
    }

    /// Empties the buffer and keeps its capacity.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Grows the capacity to at least `needed` bytes.
    fn reserve(&mut self, needed: usize) {
        if needed > self.capacity {
            let mut larger = AlignedBuf::with_capacity(needed.max(self.capacity * 2));
            larger.len = self.len;
            larger.as_mut_slice().copy_from_slice(self.as_slice());
            *self = larger;
        }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.capacity > 0 {
            // SAFETY: 1.
            unsafe { dealloc(self.start.as_ptr(), layout(self.capacity)) }
        }
    }
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, BLOCK_LEN).expect("a buffer fits into the address space")
}

impl Default for AlignedBuf {
    fn default() -> Self {
        AlignedBuf::new()
    }
}

impl Clone for AlignedBuf {
    fn clone(&self) -> Self {
        let mut copy = AlignedBuf::with_capacity(self.len);
        copy.extend_from_slice(self);
        copy
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} of {} bytes)", self.len, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_aligned(buffer: &AlignedBuf) -> bool {
        buffer.as_slice().as_ptr().addr().is_multiple_of(BLOCK_LEN)
    }

    #[test]
    fn it_grows_and_stays_aligned() {
        let mut buffer = AlignedBuf::new();
        let mut model = Vec::new();
        for round in 0..3000u32 {
            buffer.extend_from_slice(&round.to_le_bytes());
            model.extend_from_slice(&round.to_le_bytes());
        }
        assert_eq!(buffer.as_slice(), model);
        assert!(is_aligned(&buffer));
        assert_eq!(buffer.capacity() % BLOCK_LEN, 0);
        assert_eq!(buffer.clone().as_slice(), model);
    }

    #[test]
    fn resized_buffer_exposes_no_earlier_bytes() {
        let mut buffer = AlignedBuf::zeroed(10);
        buffer.fill(7);
        buffer.resize(2);
        buffer.pad_to_block();
        assert_eq!(buffer.len(), BLOCK_LEN);
        assert_eq!(&buffer[..2], &[7, 7]);
        assert!(buffer[2..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn nothing_is_allocated_for_nothing() {
        let buffer = AlignedBuf::zeroed(0);
        assert!(buffer.is_empty() && buffer.as_slice().is_empty() && buffer.capacity() == 0);
    }
}
