//! Handles: what leads to a value in a heap.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU64;

use super::plain::{Plain, description};
use crate::region::WORD_LEN;

/// A value of its own block, made by [`HeapTx::create`](crate::HeapTx::create). Copied freely, and kept in other values.
///
/// It is an offset, and says nothing about the heap: it is used with the one that it came from. Using it after the value
/// was deleted is an error, unless another block begins there by then.
pub struct Handle<T> {
    offset: NonZeroU64,
    of: PhantomData<fn() -> T>,
}

/// Values in a row, in one block, made by [`HeapTx::create_array`](crate::HeapTx::create_array).
pub struct Array<T> {
    offset: NonZeroU64,
    of: PhantomData<fn() -> T>,
}

/// The place of a part of a value: a field, an element.
pub struct Field<T> {
    block: u64,
    /// Words before it in the block.
    at: u64,
    of: PhantomData<fn() -> T>,
}

/// Where a value lies: its own block, or a part of another.
pub trait Place: Copy {
    /// What lies there.
    type Of: Plain;

    /// The place as a part of its block.
    fn field(self) -> Field<Self::Of>;
}

/// What leads to a whole block: can be deleted, and named as a root.
pub trait Whole: Copy {
    /// Where the block begins.
    fn offset(self) -> u64;

    /// The one at this offset; `None` for 0. That such a block begins there is looked at when it is used, that it is of
    /// this type is not.
    fn at_offset(offset: u64) -> Option<Self>;

    /// What lies there, in words that tell types apart.
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
    /// The part that begins some words behind the beginning. For what `#[derive(Plain)]` writes.
    #[inline(always)]
    pub fn part<P>(self, words: usize) -> Field<P> {
        Field { block: self.block, at: self.at + words as u64, of: PhantomData }
    }

    /// The block that it lies in.
    #[inline(always)]
    pub(crate) fn block(self) -> u64 {
        self.block
    }

    /// Words before it in the block.
    #[inline(always)]
    pub(crate) fn before(self) -> u64 {
        self.at
    }
}

impl<T: Plain, const N: usize> Field<[T; N]> {
    /// The place of an element.
    ///
    /// # Panics
    /// There is no such element.
    pub fn at(self, index: usize) -> Field<T> {
        assert!(index < N, "element {index} of {N}");
        self.part(index * T::WORDS)
    }
}

impl<T: Plain> Array<T> {
    /// The place of an element; whether there is such a one is looked at when it is used.
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
