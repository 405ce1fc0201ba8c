//! An object cache above versioned records (Lemon §7, "Object Serialization").
//!
//! A program that keeps its objects in memory needs no second copy of them in the page pool. [`Objects`] has one copy: a
//! change of an object is logged as a *delta*, and its page is neither read nor written; the page is updated when the object
//! leaves the cache, however often it has changed meanwhile.
//!
//! | you want to | use |
//! |---|---|
//! | keep objects under a name | [`Objects::create`], [`Objects::open`] |
//! | change an object by its difference | [`Objects::put`], which computes it, or a delta of your own: [`ObjectDelta`] |
//! | choose the undo of uncommitted changes | [`UndoPolicy`] |
//! | limit the memory of the cache | [`Options::cache_bytes`] |
//! | write changes to pages | [`Objects::flush`]; checkpoints do so, too |
//!
//! Objects that refer to each other, with roots and a garbage collection, are a [`graph`].
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
mod flush;
pub mod graph;
mod insertions;
mod kept;
mod place;
mod record;
pub mod salvage;
mod slots;
mod state;
mod transfer;

use cedrat_txn::Registry;

pub use cache::Statistics;
pub use collection::{ObjectId, Objects, Options, Reserved, UndoPolicy, Version};
pub use committing::Change;
pub use delta::{ObjectDelta, register_delta};
pub use edit::Edit;
pub use error::ObjectError;
pub use insertions::NewObjects;
pub use record::OBJECT_LEN_MAX;

/// Adds this crate's operations, deltas, pages and records to a registry. Every program that opens a store with a collection of
/// objects, or with a graph, needs it.
pub fn register(registry: Registry) -> Registry {
    registry.with(delta::register).with(place::register).operation::<insertions::InsertAll>().with(graph::register)
}
