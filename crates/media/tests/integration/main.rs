//! Tests of disks through the public interface: one program, because linking takes longer than most tests. Tests that limit
//! their process are a program of their own, beside this directory.
#![forbid(unsafe_code)]

mod crashes;
mod encryption;
mod encryption_faults;
mod faults;
mod kills;
mod model;
mod threads;
