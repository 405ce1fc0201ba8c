//! Tests of the command as a process: one program, because linking takes longer than most tests.
#![forbid(unsafe_code)]

mod backup;
mod bank;
mod changes;
mod common;
mod face;
mod heap;
mod objects;
mod prepared;
mod tour;
mod trace;
