//! Tests of the page pool through the public interface: one program, because linking takes longer than most tests. Tests
//! that run under Miri are a program of their own, beside this directory.
#![forbid(unsafe_code)]

mod crash;
mod double_write;
mod fixture;
mod interleavings;
mod pool;
mod written;
