//! Killed processes, failed syncs that forget, and power losses generations later (R6). Each row of the other suites has some
//! such states too; this file has more of them, and planted faults in what an opening makes durable.
#![cfg(not(cedrat_shuttle))]

use cedrat_check as check;
use cedrat_txn::Options;

use crate::bank::Bank;
use crate::heap_bank::HeapBank;

const KILLS: usize = 60;

fn bank(options: fn() -> Options) -> Bank {
    Bank { accounts: 160, transfers: 24, checkpoint_every: 5, memo_len: 600, options, ..Bank::default() }
}

fn heap_bank(options: fn() -> Options) -> HeapBank {
    HeapBank { transfers: 30, checkpoint_every: 4, options, ..HeapBank::default() }
}

fn small() -> Options {
    Options { pool_bytes: 32 * 4096, partitions: 2, ..Options::simulated() }
}

#[track_caller]
fn passes<S: check::Scenario>(name: &str, scenario: S) {
    let check = check::crashes(name, scenario).at_most(1).kills(KILLS);
    let report = check.run().unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.after_kills >= KILLS * 8, "{report}");
    report.print();
}

#[track_caller]
fn caught<S: check::Scenario>(name: &str, scenario: S) {
    let check = check::crashes(name, scenario).at_most(1).kills(10 * KILLS);
    let failure = check.run().expect_err("the planted fault must be caught");
    assert!(!failure.case.kills.is_empty() && failure.seen.contains("I/O calls"), "{failure}");
    println!("{failure}");
}

/// R6.
#[test]
fn killed_bank_survives_power_loss() {
    passes("kills-bank", bank(small));
}

/// R6.
#[test]
fn killed_heaps_survive_power_loss() {
    passes("kills-heap", heap_bank(small));
}

#[test]
fn homes_that_are_not_synced_are_caught() {
    caught(
        "planted-homes-not-synced",
        bank(|| {
            let mut options = small();
            options.pool.fault = Some(cedrat_pages::Fault::HomesNotSynced);
            options
        }),
    );
}

#[test]
fn homes_that_are_only_synced_are_caught() {
    caught(
        "planted-homes-only-synced",
        bank(|| {
            let mut options = small();
            options.pool.fault = Some(cedrat_pages::Fault::HomesOnlySynced);
            options
        }),
    );
}

#[test]
fn merely_synced_log_tail_is_caught() {
    caught(
        "planted-tail-only-synced",
        bank(|| {
            let mut options = small();
            options.log.fault = Some(cedrat_wal::Fault::TailOnlySynced);
            options
        }),
    );
}
