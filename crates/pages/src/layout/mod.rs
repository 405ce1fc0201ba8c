//! Page layouts: the four of Lemon §4.2, and a registry for those of users.
//!
//! | layout | records | for |
//! |---|---|---|
//! | [`Raw`] | none: an array of bytes | users with a format of their own |
//! | [`Fixed`] | of one length, numbered without gaps | arrays |
//! | [`Slotted`] | of any length, each keeping its number while others come and go | most things |
//! | [`Versioned`] | as slotted, each with a version that outlives it | objects that are flushed out of order (§7.2) |
//!
//! A layout is a *view*: a reader over a [`PageRef`], a writer over a [`PageMut`](crate::PageMut). Opening a view
//! checks the kind and the few numbers that the rest depends on; every later step checks each reference before
//! following it. Whatever bytes a page has, the result is a value or [`Damaged`], never a panic and never an endless
//! loop.
//!
//! The writers are meant for `redo`: the same call on the same bytes always leaves the same bytes. An operation
//! checks in `prepare`, by the reader's `room` and `get`, everything that a writer would refuse as `Damaged`.

mod directory;
mod fixed;
mod raw;
mod registry;
mod slotted;
mod versioned;

#[cfg(test)]
mod tests;

pub use fixed::{Fixed, FixedMut};
pub use raw::{Raw, RawMut};
pub use registry::{FixedNumber, KindTaken, Layout, Layouts, OpaqueLayout, Parts};
pub use slotted::{Slotted, SlottedMut};
pub use versioned::{Versioned, VersionedMut};

use crate::page::{Damaged, LayoutKind};
use crate::view::PageRef;

/// Checks that the page has the layout that its reader expects.
fn expect_kind(page: &PageRef<'_>, kind: LayoutKind) -> Result<(), Damaged> {
    if page.kind() == kind { Ok(()) } else { Err(Damaged::wrong_kind(page.id())) }
}
