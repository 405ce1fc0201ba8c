//! `cedrat heap`: the heaps of a store, and how fast they are here.

mod bench;
mod info;
mod verify;

pub(crate) use bench::bench;
pub(crate) use info::info;
pub(crate) use verify::{Usage, examine, verify};
