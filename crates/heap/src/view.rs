//! View of a thread's transaction for code outside of the library, so that loads and stores need no call: the header of the
//! C interface has both as inline functions (`cedrat_view` in `include/cedrat.h`; H5).
//!
//! This module has `unsafe`. It is sound because
//!
//! 1. a [`List`] owns the memory that it points at: that of a `Vec` of this capacity, of which the first `len` elements are
//!    initialised;
//! 2. a [`Seat`] owns a descriptor that came from a box, and lends it only while the seat itself is borrowed. The address is
//!    handed to code outside of the library, which reads and writes the descriptor only between calls with its `Held`, in
//!    the thread that makes them: no reference into it lives then;
//! 3. outside code appends only complete elements to the two lists, and never beyond their capacity. It changes nothing
//!    else.

use std::mem::{ManuallyDrop, offset_of};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::tx::Descriptor;
use crate::write_set::{Write, WriteSet};

/// Addresses of the words that outside code may load and store directly: the beginning of a [`Descriptor`].
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Window {
    /// Address of the first word.
    pub(crate) from: u64,
    /// Number of words that may be loaded; 0 if no transaction runs or if each load needs the call.
    pub(crate) words: u64,
    /// Number of words that may be stored to.
    pub(crate) store_words: u64,
    /// Number of the first word in its heap: a multiple of the words of a stripe, and of the bits of the filter.
    pub(crate) first: u64,
    /// Address of the table of stripes.
    pub(crate) stripes: u64,
    /// Added to a word's number, divided by the words of a stripe, to give the number of its stripe,
    pub(crate) salt: u64,
    /// which is masked to these bits.
    pub(crate) mask: u64,
    /// Number of the heap.
    pub(crate) heap: u32,
    /// Words in a stripe, as a power of two.
    pub(crate) stripe_words_log2: u32,
}

impl Window {
    /// A window without words.
    pub(crate) const CLOSED: Window = Window {
        from: 0,
        words: 0,
        store_words: 0,
        first: 0,
        stripes: 0,
        salt: 0,
        mask: 0,
        heap: u32::MAX - 1, // a number of no heap that a session writes to
        stripe_words_log2: 0,
    };
}

// Layout of `cedrat_view` in the header. A different layout needs a different CEDRAT_VIEW_VERSION.
const _: () = {
    assert!(size_of::<Window>() == 64);
    assert!(offset_of!(Window, heap) == 56 && offset_of!(Window, stripe_words_log2) == 60);
    assert!(offset_of!(Descriptor, window) == 0);
    assert!(offset_of!(Descriptor, snapshot) == 64);
    assert!(offset_of!(Descriptor, reads) == 72 && size_of::<List<u32>>() == 24);
    assert!(offset_of!(Descriptor, writes) == 96);
    assert!(offset_of!(WriteSet, filter) == 24);
    assert!(size_of::<Write>() == 32);
    assert!(offset_of!(Write, word) == 0 && offset_of!(Write, value) == 8 && offset_of!(Write, heap) == 16);
    assert!(offset_of!(Write, stripe) == 20 && offset_of!(Write, bytes) == 24 && offset_of!(Write, read) == 25);
};

/// A vector whose parts have a fixed layout for C.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct List<T: Copy> {
    start: NonNull<T>,
    len: usize,
    capacity: usize,
}

// SAFETY: 1; it is equivalent to a vector.
unsafe impl<T: Copy + Send> Send for List<T> {}
// SAFETY: as above.
unsafe impl<T: Copy + Sync> Sync for List<T> {}

impl<T: Copy> List<T> {
    pub(crate) fn with_capacity(capacity: usize) -> List<T> {
        List::of(Vec::with_capacity(capacity))
    }

    fn of(vec: Vec<T>) -> List<T> {
        let mut vec = ManuallyDrop::new(vec);
        let start = NonNull::new(vec.as_mut_ptr()).expect("a vector's pointer is not null");
        List { start, len: vec.len(), capacity: vec.capacity() }
    }

    /// Takes the vector and leaves an empty one in its place.
    fn take(&mut self) -> Vec<T> {
        let taken = ManuallyDrop::new(std::mem::replace(self, List::of(Vec::new())));
        // SAFETY: 1.
        unsafe { Vec::from_raw_parts(taken.start.as_ptr(), taken.len, taken.capacity) }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, element: T) {
        if self.len == self.capacity {
            self.grow();
        }
        // SAFETY: 1; the line above has reserved capacity.
        unsafe { self.start.add(self.len).write(element) };
        self.len += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let mut vec = self.take();
        vec.reserve(1);
        *self = List::of(vec);
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl<T: Copy> Default for List<T> {
    fn default() -> List<T> {
        List::of(Vec::new())
    }
}

impl<T: Copy> Deref for List<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: 1.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Copy> DerefMut for List<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: 1; `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Copy> Drop for List<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// A descriptor at an address known to outside code.
#[derive(Debug)]
pub(crate) struct Seat(NonNull<Descriptor>);

// SAFETY: 2; it is equivalent to a box.
unsafe impl Send for Seat {}
// SAFETY: as above.
unsafe impl Sync for Seat {}

impl Seat {
    pub(crate) fn new(descriptor: Box<Descriptor>) -> Seat {
        Seat(NonNull::from(Box::leak(descriptor)))
    }

    /// Returns the address of the descriptor, valid as long as this seat lives.
    pub(crate) fn address(&self) -> NonNull<Descriptor> {
        self.0
    }

    pub(crate) fn into_box(self) -> Box<Descriptor> {
        let seat = ManuallyDrop::new(self);
        // SAFETY: 2; the seat itself is not dropped.
        unsafe { Box::from_raw(seat.0.as_ptr()) }
    }
}

impl Deref for Seat {
    type Target = Descriptor;

    #[inline(always)]
    fn deref(&self) -> &Descriptor {
        // SAFETY: 2.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Seat {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Descriptor {
        // SAFETY: 2; `&mut self` makes it the only reference.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // SAFETY: 2; nothing uses the descriptor any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn list_is_vector() {
        let mut list = List::default();
        let mut vector = Vec::new();
        for number in 0..1000_u32 {
            list.push(number);
            vector.push(number);
            assert_eq!(list[..], vector);
        }
        list.truncate(10);
        list[3] = 7;
        assert_eq!((list.len(), list[3], list.last()), (10, 7, Some(&9)));
        list.clear();
        assert!(list.is_empty());
        assert_eq!(List::<u32>::with_capacity(5).len(), 0);
    }
}
