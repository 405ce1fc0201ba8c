//! An object cache above versioned records (Lemon §7, "Object Serialization").
//!
//! A program that keeps its objects in memory needs no second copy of them in the page pool. [`Objects`] has them once:
//! a change of an object is logged, as a *delta*, and its page is left alone, neither read nor written; the page is
//! brought up to date when the object leaves the cache, however often it has changed meanwhile.
//!
//! | you want to | take |
//! |---|---|
//! | keep objects under a name | [`Objects::create`], [`Objects::open`] |
//! | change one by what has changed | [`Objects::put`], which finds it out, or a delta of your own: [`ObjectDelta`] |
//! | choose what happens without a commit | [`UndoPolicy`] |
//! | choose how much memory it takes | [`Options::cache_bytes`] |
//! | bring pages up to date | [`Objects::flush`]; checkpoints do, too |
//!
//! `docs/use/objects-cache.md` leads through an example; the bytes are drawn in `docs/formats/objects.md`.
//!
//! A program registers what it uses before it opens a store:
//! `Registry::new().with(cedrat_structures::register).with(cedrat_objects::register)`.

#![forbid(unsafe_code)]

mod cache;
mod census;
mod changing;
mod collection;
mod committing;
mod delta;
mod edit;
mod error;
mod kept;
mod place;
mod record;

use cedrat_txn::Registry;

pub use cache::Statistics;
pub use collection::{ObjectId, Objects, Options, Reserved, UndoPolicy, Version};
pub use delta::{ObjectDelta, register_delta};
pub use edit::Edit;
pub use error::ObjectError;
pub use record::OBJECT_LEN_MAX;

/// Adds this crate's operations and deltas to a registry. Needed by every program that opens a store in which they were
/// used.
pub fn register(registry: Registry) -> Registry {
    registry.with(delta::register).with(place::register)
}
