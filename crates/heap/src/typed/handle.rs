//! Handles: references to values in a heap.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU64;

use super::plain::{Plain, description};
use crate::region::WORD_LEN;

/// A reference to a value in its own block, made by [`HeapTx::create`](crate::HeapTx::create). It can be copied freely, and
/// stored in other values.
///
/// It is an offset without a heap: use it with the heap that it came from. Using it after the value was deleted is an
/// error, unless another block begins at that offset by then.
pub struct Handle<T> {
    offset: NonZeroU64,
    of: PhantomData<fn() -> T>,
}

/// Consecutive values in one block, made by [`HeapTx::create_array`](crate::HeapTx::create_array).
pub struct Array<T> {
    offset: NonZeroU64,
    of: PhantomData<fn() -> T>,
}

/// A reference to a part of a value: a field, an element.
pub struct Field<T> {
    block: u64,
    /// Number of words before it in the block.
    at: u64,
    of: PhantomData<fn() -> T>,
}

/// A reference to a value: in its own block, or a part of another.
pub trait Place: Copy {
    /// Type of the value.
    type Of: Plain;

    /// Returns the place as a part of its block.
    fn field(self) -> Field<Self::Of>;
}

/// A reference to a whole block: it can be deleted, and named as a root.
pub trait Whole: Copy {
    /// Returns the offset of the block.
    fn offset(self) -> u64;

    /// Returns the reference to the block at this offset; `None` for 0. Its use checks that such a block begins there, but
    /// not its type.
    fn at_offset(offset: u64) -> Option<Self>;

    /// Returns a description of the value's type that distinguishes types.
    fn type_name() -> String;
}

impl<T: Plain> Place for Handle<T> {
    type Of = T;

    #[inline(always)]
    fn field(self) -> Field<T> {
        Field { block: self.offset.get(), at: 0, of: PhantomData }
    }
}

impl<T: Plain> Place for Field<T> {
    type Of = T;

    #[inline(always)]
    fn field(self) -> Field<T> {
        self
    }
}

impl<T> Field<T> {
    /// Returns the part that begins some words after the beginning. For code that `#[derive(Plain)]` generates.
    #[inline(always)]
    pub fn part<P>(self, words: usize) -> Field<P> {
        Field { block: self.block, at: self.at + words as u64, of: PhantomData }
    }

    /// Returns the block that contains it.
    #[inline(always)]
    pub(crate) fn block(self) -> u64 {
        self.block
    }

    /// Returns the number of words before it in the block.
    #[inline(always)]
    pub(crate) fn before(self) -> u64 {
        self.at
    }
}

impl<T: Plain, const N: usize> Field<[T; N]> {
    /// Returns the place of an element.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn at(self, index: usize) -> Field<T> {
        assert!(index < N, "element {index} of {N}");
        self.part(index * T::WORDS)
    }
}

impl<T: Plain> Array<T> {
    /// Returns the place of an element; its use checks that it exists.
    #[inline(always)]
    pub fn at(self, index: u64) -> Field<T> {
        let words = index.saturating_mul(T::WORDS as u64).min(u64::MAX / WORD_LEN / 2);
        Field { block: self.offset.get(), at: words, of: PhantomData }
    }
}

macro_rules! handle {
    ($name:ident, $label:literal, $type_name:expr) => {
        impl<T: Plain> Whole for $name<T> {
            #[inline(always)]
            fn offset(self) -> u64 {
                self.offset.get()
            }

            #[inline(always)]
            fn at_offset(offset: u64) -> Option<Self> {
                NonZeroU64::new(offset).map(|offset| $name { offset, of: PhantomData })
            }

            fn type_name() -> String {
                $type_name(description::<T>())
            }
        }

        impl<T: Plain> Plain for $name<T> {
            const WORDS: usize = 1;

            #[inline(always)]
            fn to_words(&self, words: &mut [u64]) {
                words[0] = self.offset.get();
            }

            #[inline(always)]
            fn of_words(words: &[u64]) -> Option<Self> {
                Self::at_offset(words[0])
            }

            fn describe(into: &mut String, _: bool) {
                into.push_str(concat!($label, "<"));
                T::describe(into, false);
                into.push('>');
            }
        }

        impl<T: Plain> Plain for Option<$name<T>> {
            const WORDS: usize = 1;

            #[inline(always)]
            fn to_words(&self, words: &mut [u64]) {
                words[0] = self.map_or(0, |handle| handle.offset.get());
            }

            #[inline(always)]
            fn of_words(words: &[u64]) -> Option<Self> {
                Some($name::at_offset(words[0]))
            }

            fn describe(into: &mut String, _: bool) {
                into.push_str(concat!("Option<", $label, "<"));
                T::describe(into, false);
                into.push_str(">>");
            }
        }

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<T> {}

        impl<T> PartialEq for $name<T> {
            fn eq(&self, other: &Self) -> bool {
                self.offset == other.offset
            }
        }

        impl<T> Eq for $name<T> {}

        impl<T> Hash for $name<T> {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.offset.hash(state);
            }
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($label, "({})"), self.offset)
            }
        }
    };
}

handle!(Handle, "Handle", |of: String| of);
handle!(Array, "Array", |of: String| format!("Array<{of}>"));

impl<T> Clone for Field<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Field<T> {}

impl<T> fmt::Debug for Field<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field({} + {})", self.block, self.at * WORD_LEN)
    }
}
