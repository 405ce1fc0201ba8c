//! Faults in heaps, planted behind a cargo feature, and the check that finds each. Those that need threads at every step of
//! each other are in heap_isolation.rs and heap_shuttle.rs.
#![cfg(not(cedrat_shuttle))]

use cedrat_check as check;
use cedrat_heap::Fault;
use cedrat_txn::Options;

use crate::heap_bank::HeapBank;

fn options(fault: Option<Fault>) -> Options {
    let mut options = Options { partitions: 2, ..Options::simulated() };
    options.memory.fault = fault;
    options
}

#[track_caller]
fn caught(name: &str, heap_bank: HeapBank) -> check::Failure {
    let check = check::crashes(&format!("planted-{name}"), heap_bank).at_least(20_000).again(20, 60);
    let failure = check.run().expect_err("the planted fault must be caught");
    println!("{failure}");
    failure
}

/// E4.3.
#[test]
fn early_generation_switch_is_caught() {
    let options = || options(Some(Fault::GenerationSwitchedEarly));
    let heap_bank = HeapBank { checkpoint_every: 5, options, ..HeapBank::default() };
    let failure = caught("generation-early", heap_bank);
    assert_eq!(failure.fault, check::Fault::Refused, "{failure}");
}

/// E8.5.
#[test]
fn commit_depending_on_lost_one_is_caught() {
    let options = || options(Some(Fault::AloneWhateverItRead));
    let heap_bank = HeapBank { sessions: 2, words: 6, alone_one_in: 2, options, ..HeapBank::default() };
    let failure = caught("alone-dependent", heap_bank);
    assert_eq!(failure.fault, check::Fault::Model, "{failure}");
}
