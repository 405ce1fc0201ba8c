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
//! 3. outside code appends only complete elements to the two lists, and never beyond their capacity. It changes bytes of
//!    the filter and values of writes, and nothing else.

use std::mem::{ManuallyDrop, offset_of};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::heap::NO_WINDOW;
use crate::tx::Descriptor;
use crate::write_set::{Filter, Write, WriteSet};

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
    /// Number of the first word in its heap: a multiple of the words of a stripe, and of those of the filter.
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
        heap: NO_WINDOW, // unlike the heap of a session that writes to none
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
    assert!(offset_of!(WriteSet, filter) == 24 && size_of::<Filter>() == 1024);
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

/// Ends [`List::extend_while`].
pub(crate) struct Stop;

/// Length of a list that grows; dropping it stores the length in the list.
struct Length<'a> {
    now: usize,
    of: &'a mut usize,
}

impl Drop for Length<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        *self.of = self.now;
    }
}

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

    /// Returns whether an element can be pushed without more memory.
    #[inline(always)]
    pub(crate) fn has_place(&self) -> bool {
        self.len < self.capacity
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, element: T) {
        self.reserve(1);
        // SAFETY: 1; the line above has reserved capacity.
        unsafe { self.start.add(self.len).write(element) };
        self.len += 1;
    }

    #[cold]
    #[inline(never)]
    fn grow_by(&mut self, more: usize) {
        let mut vec = self.take();
        vec.reserve(more);
        *self = List::of(vec);
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends what `next` returns for the elements of `from`, one after the other; where it returns `None`, nothing. Ends early
    /// if it returns an error, and returns how many elements of `from` were left.
    ///
    /// The capacity is compared once, not for each element.
    #[inline(always)]
    pub(crate) fn extend_while<S>(&mut self, from: &[S], mut next: impl FnMut(&S) -> Result<Option<T>, Stop>) -> usize {
        self.reserve(from.len());
        let start = self.start;
        // By value, so that it stays in a register; also if `next` panics, the list has what was appended.
        let mut len = Length { now: self.len, of: &mut self.len };
        let mut from = from.iter();
        while let Some(one) = from.next() {
            match next(one) {
                Ok(Some(element)) => {
                    // SAFETY: 1; capacity was reserved for as many elements as `from` has.
                    unsafe { start.add(len.now).write(element) };
                    len.now += 1;
                }
                Ok(None) => {}
                Err(Stop) => return from.len() + 1,
            }
        }
        0
    }

    #[inline(always)]
    fn reserve(&mut self, more: usize) {
        if self.capacity - self.len < more {
            self.grow_by(more);
        }
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
    use std::panic::{AssertUnwindSafe, catch_unwind};

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

    #[test]
    fn list_keeps_what_precedes_stop() {
        let mut list = List::default();
        let numbers: Vec<u32> = (0..300).collect();
        let even_below = |end: u32| {
            move |&number: &u32| match number {
                _ if number == end => Err(Stop),
                _ => Ok((number % 2 == 0).then_some(number)),
            }
        };
        assert_eq!(list.extend_while(&numbers, even_below(100)), 200);
        assert_eq!(list.extend_while(&numbers[100..], even_below(300)), 0);
        assert_eq!(list[..], numbers.iter().copied().filter(|number| number % 2 == 0).collect::<Vec<_>>());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            list.extend_while(&[1, 2], |&number| if number == 1 { Ok(Some(1)) } else { panic!("in the work") })
        }));
        assert!(panicked.is_err());
        assert_eq!((list.len(), list.last()), (151, Some(&1)));
    }
}
