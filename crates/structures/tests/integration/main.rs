//! Tests of structures through the public interface: one program, because linking takes longer than most tests.
#![forbid(unsafe_code)]

mod changes;
mod changes_random;
mod common;
mod crashes;
mod hash;
mod lists;
mod on_demand;
#[path = "../../../txn/tests/integration/parts.rs"]
mod parts;
#[path = "../../../wal/tests/integration/random.rs"]
mod random;
mod requests;
mod shrink;
mod shrink_random;
mod threads;
