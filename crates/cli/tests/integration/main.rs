//! Tests of the command as a process: one program, because linking takes longer than most tests.
#![forbid(unsafe_code)]

mod backup;
mod bank;
mod changes;
mod common;
mod completions;
mod dump;
mod encryption;
mod face;
mod guide;
mod heap;
mod objects;
mod page;
mod pins;
mod prepared;
mod readers;
mod replicas;
mod salvage;
mod space;
mod stats;
mod stores;
mod tour;
mod trace;
