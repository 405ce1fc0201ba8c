//! Tests of the repository itself, in place of recurring questions of reviewers.
#![forbid(unsafe_code)]

mod dependencies;
mod features;
mod invariants;
mod language;
mod layers;
mod links;
mod metadata;
mod packages;
mod planted;
mod poms;
mod script;
mod tidy;
