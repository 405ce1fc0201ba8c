//! Objects that refer to each other, above the object cache.
//!
//! A [`Graph`] is a collection of objects, a table of names for some of them, its *roots*, and a table of classes. It knows
//! which eight bytes of an object are references, and nothing else of what is in it: languages with objects of their own keep
//! theirs here, whatever these mean to them.
//!
//! | you want to | take |
//! |---|---|
//! | keep a graph under a name | [`Graph::create`], [`Graph::open`] |
//! | change many objects at once, and have all of it or nothing | [`Changes`], [`Graph::commit`] |
//! | do that together with other stores, in two phases | [`Graph::prepare`] |
//! | look at an object, beside whoever changes it | [`Graph::read`], [`Graph::object`] |
//! | begin somewhere | [`Graph::root`], [`Graph::roots`] |
//! | keep what describes objects | [`Graph::define_class`] |
//! | remove what nobody reaches | [`Graph::collect`] |
//! | look at all there is | [`Graph::object_pages`], [`Graph::objects_of_page`] |
//!
//! `docs/use/graph.md` leads through an example; the bytes are drawn in `docs/formats/graph.md`.
//!
//! A program registers what it uses before it opens a store:
//! `Registry::new().with(cedrat_structures::register).with(cedrat_objects::register).with(cedrat_graph::register)`.

#![forbid(unsafe_code)]

mod branch;
mod changes;
mod check;
mod classes;
mod collect;
mod commit;
mod entries;
mod error;
mod graph;
mod long;
mod object;
mod reading;
mod root;
mod survey;
mod word;

use cedrat_txn::Registry;

pub use branch::Branch;
pub use changes::Changes;
pub use collect::{Collected, Collection, Stage};
pub use commit::{Changed, Mode};
pub use error::GraphError;
pub use graph::{Graph, Options, ROOT_NAME_LEN_MAX};
pub use object::{OBJECT_LEN_MAX, Object};
pub use word::{Identity, Reference};

/// Adds this crate's pages and records to a registry. Needed by every program that opens a store in which there is a graph.
pub fn register(registry: Registry) -> Registry {
    registry.with(root::register).record_kind(branch::NOTE)
}
