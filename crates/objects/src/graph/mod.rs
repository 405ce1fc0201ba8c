//! Objects that refer to each other, above the object cache.
//!
//! A [`Graph`] is a collection of objects, a table of names for some of them, its *roots*, and a table of classes. It
//! knows which eight bytes of an object are references, and does not interpret the others: a runtime of another
//! language stores its objects here in a form of its own.
//!
//! | you want to | use |
//! |---|---|
//! | keep a graph under a name | [`Graph::create`], [`Graph::open`] |
//! | change many objects at once, all or nothing | [`Changes`], [`Graph::commit`] |
//! | do that together with other stores, in two phases | [`Graph::prepare`] |
//! | read an object, while commits may change it | [`Graph::read`], [`Graph::object`] |
//! | find the first object | [`Graph::root`], [`Graph::roots`] |
//! | store descriptions of objects | [`Changes::define_class`], [`Graph::define_class`] |
//! | remove unreachable objects | [`Graph::collect`] |
//! | remove the definitions of classes without objects | [`Collection::drop_classes`] |
//! | list all objects | [`Graph::object_pages`], [`Graph::objects_of_page`] |
//!
//! `docs/use/graph.md` leads through an example; the bytes are drawn in `docs/formats/graph.md`.

mod branch;
mod changes;
mod check;
mod class_use;
mod classes;
mod commit;
mod entries;
mod error;
mod gate;
mod gc;
mod handle;
mod long;
mod object;
mod reading;
mod root;
pub(crate) mod salvage;
mod survey;
mod word;

use cedrat_txn::Registry;

pub use branch::Branch;
pub use changes::Changes;
pub use commit::{Changed, Mode};
pub use error::GraphError;
pub use gc::{Collected, Collection, Stage};
pub use handle::{Graph, Options, ROOT_NAME_LEN_MAX};
pub use object::{OBJECT_LEN_MAX, Object};
pub use word::{Identity, Reference};

/// Adds the pages and records of graphs to a registry.
pub(super) fn register(registry: Registry) -> Registry {
    registry.with(root::register).record_kind(branch::NOTE)
}
