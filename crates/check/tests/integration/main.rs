//! Tests of the checks, and of the engine with them: one program, because linking takes longer than most tests. Tests that
//! need a feature, or execute themselves again, are programs of their own, beside this directory.
#![forbid(unsafe_code)]

mod accounts;
mod acknowledgements;
mod article_cache;
mod bank;
mod crash_deferred;
mod crash_engine;
mod crash_heap;
mod crash_heap_blocks;
mod crash_heap_blocks_alone;
mod crash_kills;
mod damages;
mod encrypted;
mod engine_shuttle;
mod freed;
mod heap_bank;
mod heap_isolation;
mod heap_shuttle;
mod isolation;
mod layouts;
mod openings;
mod openings_heap;
mod planted_deferred;
mod planted_engine;
mod planted_heap;
mod planted_operations;
mod planted_workloads;
mod recovery_crashes;
mod smaller;
