//! The repository asks itself what a reviewer would ask again and again.
#![forbid(unsafe_code)]

mod features;
mod floors;
mod invariants;
mod links;
mod tidy;
