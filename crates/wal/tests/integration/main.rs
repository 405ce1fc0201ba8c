//! Tests of the log through the public interface: one program, because linking takes longer than most tests.
#![forbid(unsafe_code)]

mod archive_retention;
mod archives;
mod archives_random;
mod closed;
mod commit_modes;
mod common;
mod copies;
mod crash;
mod damage;
mod entries;
mod entry_order;
mod epochs;
mod faults;
mod growth;
mod growth_random;
mod log;
mod partition_commits;
mod random;
mod room;
mod stopped;
mod threads;
mod tickets;
