//! Atomics of the processor, each operation of which is a step of a scheduled run. Within a run they are sequentially consistent
//! whatever ordering is requested, since one thread runs at a time.

use super::run::point;
use std::fmt;
use std::sync::atomic as os;

pub use std::sync::atomic::Ordering;

/// A fence. No step of a run: operations have their order there.
#[inline]
pub fn fence(order: Ordering) {
    os::fence(order);
}

/// An atomic type: what all have.
macro_rules! atomic {
    ($name:ident $(<$t:ident>)?, $os:ty, $value:ty, $what:literal) => {
        #[doc = $what]
        #[repr(transparent)]
        pub struct $name $(<$t>)? ($os);

        impl $(<$t>)? $name $(<$t>)? {
            /// Creates an atomic with this value.
            #[inline]
            pub const fn new(value: $value) -> Self {
                Self(<$os>::new(value))
            }

            /// Returns the value.
            #[inline]
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                point();
                self.0.load(order)
            }

            /// Sets the value.
            #[inline]
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            /// Sets the value and returns the previous one.
            #[inline]
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.swap(value, order)
            }

            /// Sets the value if it is `current`.
            ///
            /// # Errors
            /// The value, if it is another one.
            #[inline]
            #[track_caller]
            pub fn compare_exchange(
                &self, current: $value, new: $value, success: Ordering, failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// Sets the value if it is `current`; may fail although it is.
            ///
            /// # Errors
            /// The value.
            #[inline]
            #[track_caller]
            pub fn compare_exchange_weak(
                &self, current: $value, new: $value, success: Ordering, failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange_weak(current, new, success, failure)
            }

            /// Changes the value by `change`, again and again until no other thread comes between.
            ///
            /// # Errors
            /// The value, if `change` returns `None` for it.
            #[inline]
            #[track_caller]
            pub fn fetch_update(
                &self, set: Ordering, fetch: Ordering, change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                point();
                self.0.fetch_update(set, fetch, change)
            }

            /// Returns the value without synchronisation: the exclusive borrow excludes other threads.
            #[inline]
            #[track_caller]
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// Returns the value.
            #[inline]
            #[track_caller]
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }

        impl $(<$t>)? fmt::Debug for $name $(<$t>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $(<$t>)? Default for $name $(<$t>)? {
            fn default() -> Self {
                Self(<$os>::default())
            }
        }

        impl $(<$t>)? From<$value> for $name $(<$t>)? {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }
    };
}

/// Operations that combine the value with another one and return the previous one.
macro_rules! combining {
    ($name:ident, $value:ty: $($operation:ident),*) => {
        impl $name {
            $(
                /// Combines the value with `value` as the name says, and returns the previous one.
                #[inline]
                #[track_caller]
                pub fn $operation(&self, value: $value, order: Ordering) -> $value {
                    point();
                    self.0.$operation(value, order)
                }
            )*
        }
    };
}

macro_rules! integer {
    ($name:ident, $value:ty) => {
        atomic!($name, os::$name, $value, "An atomic integer.");
        combining!($name, $value: fetch_add, fetch_sub, fetch_and, fetch_or, fetch_xor, fetch_max, fetch_min);
    };
}

integer!(AtomicI64, i64);
integer!(AtomicU8, u8);
integer!(AtomicU16, u16);
integer!(AtomicU32, u32);
integer!(AtomicU64, u64);
integer!(AtomicUsize, usize);
atomic!(AtomicBool, os::AtomicBool, bool, "An atomic truth value.");
combining!(AtomicBool, bool: fetch_and, fetch_or, fetch_xor);
atomic!(AtomicPtr<T>, os::AtomicPtr<T>, *mut T, "An atomic pointer.");
