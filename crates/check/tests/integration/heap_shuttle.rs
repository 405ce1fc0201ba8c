//! Heaps under crashes, with clerks that the seeded scheduler interleaves: commits and checkpoints at every step of each
//! other.
#![cfg(cedrat_shuttle)]

use cedrat_check as check;
use cedrat_heap::Fault;
use cedrat_txn::Options;

use crate::heap_bank::HeapBank;

/// Tests crashes of many schedules, up to the first failure.
fn schedules(name: &str, count: u64, heap_bank: &HeapBank) -> Result<check::Report, check::Failure> {
    let mut total: Option<check::Report> = None;
    for schedule in 0..count {
        let seed = check::seed(1) * 1_000 + schedule;
        let check = check::crashes(name, heap_bank.clone()).seed(seed).at_least(250).at_most(400).again(50, 10);
        let report = check.run()?;
        match &mut total {
            Some(total) => total.add(&report),
            None => total = Some(report),
        }
    }
    Ok(total.expect("there were schedules"))
}

/// A small store that two clerks and a checkpointer use heavily.
fn busy(options: fn() -> Options) -> HeapBank {
    HeapBank { clerks: 3, words: 6, transfers: 5, checkpoint_every: 2, options, ..HeapBank::default() }
}

fn two_partitions() -> Options {
    Options { partitions: 2, ..Options::simulated() }
}

/// E2, E3, E4.
#[test]
fn schedules_of_heap_bank_survive_crashes() {
    let report = schedules("heap-schedules", 60, &busy(two_partitions));
    report.unwrap_or_else(|failure| panic!("{failure}")).print();
}

/// E8, E10: with commits that need only their own partition, or include pages.
#[test]
fn schedules_of_commits_alone_survive_crashes() {
    let heap_bank = HeapBank { words: 9, alone_one_in: 2, ..busy(two_partitions) };
    let report = schedules("heap-schedules-alone", 40, &heap_bank);
    report.unwrap_or_else(|failure| panic!("{failure}")).print();
}

#[test]
fn schedules_of_words_and_pages_survive_crashes() {
    let heap_bank = HeapBank { places: 3, ..busy(two_partitions) };
    let report = schedules("heap-schedules-pages", 40, &heap_bank);
    report.unwrap_or_else(|failure| panic!("{failure}")).print();
}

#[track_caller]
fn caught(name: &str, options: fn() -> Options) {
    let failure = schedules(name, 400, &busy(options)).expect_err("the planted fault must be caught");
    println!("{failure}");
}

/// E4.1: another thread begins to copy between the draw and the write-back of a clerk.
#[test]
fn chunk_with_too_new_bound_is_caught() {
    caught("planted-chunk-before", || {
        let mut options = two_partitions();
        options.memory.fault = Some(Fault::ChunkBeforeTooNew);
        options
    });
}
