//! Tests of transactions through the public interface: one program, because to link one takes longer than most tests. A
//! test that limits or measures its process is a program of its own, beside this directory.

mod carried;
mod closing;
mod common;
mod crashes;
mod deferred;
mod epochs;
mod full_disk;
mod heap_blocks;
mod heaps;
mod heaps_come_and_go;
mod heuristic;
mod idle_sessions;
mod in_call;
mod interleavings;
mod kept;
mod latched;
mod limits;
mod lost_log;
mod mixed;
mod nesting;
mod null_write;
mod opening;
mod panics;
mod prepared;
mod refusals;
mod rollback;
mod savepoints;
mod schemas;
mod size;
mod space;
mod text;
mod transactions;
mod undo_at_opening;
mod waits_of_own;
mod withdrawn;
