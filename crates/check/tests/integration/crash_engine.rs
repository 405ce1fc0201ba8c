//! The engine under crashes: log, pages, transactions, recovery, without any structure above.
#![cfg(not(cedrat_shuttle))] // the same under the seeded scheduler: engine_shuttle.rs

use cedrat_check as check;
use cedrat_txn::Options;

use crate::bank::Bank;

fn passes(check: check::Crashes<Bank>) {
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

/// W4, R5, E5.3.
#[test]
fn a_bank_survives_every_crash() {
    let bank = Bank { transfers: 120, ..Bank::default() };
    passes(check::crashes("bank", bank).at_least(8_000).again(6, 80));
}

/// E8.1, E1: records of one page lie in several partitions.
#[test]
fn bank_on_three_partitions_survives_every_crash() {
    let options = || Options { partitions: 3, ..Options::simulated() };
    let bank = Bank { clerks: 3, options, ..Bank::default() };
    passes(check::crashes("bank-partitions", bank).at_least(8_000).again(6, 80));
}

/// E3.4, E11, W5: the redo point moves while transfers run, and log segments are reused.
#[test]
fn a_bank_with_checkpoints_survives_every_crash() {
    let options = || Options { partitions: 2, ..Options::simulated() };
    let bank = Bank { clerks: 2, checkpoint_every: 3, options, ..Bank::default() };
    passes(check::crashes("bank-checkpoints", bank).at_least(8_000).again(6, 80));
}

/// E11.4: pages of transactions that have not ended are written home.
#[test]
fn bank_with_tiny_pool_survives_every_crash() {
    let options = || Options { pool_bytes: 32 * 4096, ..Options::simulated() };
    let bank = Bank { accounts: 160, options, ..Bank::default() };
    passes(check::crashes("bank-eviction", bank).at_least(8_000).again(6, 80));
}

/// W5, E16.1: a log of a few segments.
#[test]
fn bank_with_small_log_survives_every_crash() {
    let options = || Options { log_limit_bytes: 8 * 64 * 1024, ..Options::simulated() };
    let bank = Bank { transfers: 60, memo_len: 3_000, checkpoint_every: 10, options, ..Bank::default() };
    passes(check::crashes("bank-small-log", bank).at_least(8_000).again(6, 80));
}

/// E16.10: a log whose files become longer.
#[test]
fn bank_with_growing_log_survives_every_crash() {
    let options = || Options { partitions: 2, log_limit_bytes: 12 * 256 * 1024, ..Options::simulated_growth() };
    let bank = Bank { clerks: 2, transfers: 60, memo_len: 3_000, checkpoint_every: 10, options, ..Bank::default() };
    passes(check::crashes("bank-growing-log", bank).at_least(8_000).again(6, 80));
}

/// R5, in full for some states: the second crash comes at every single call of recovery.
#[test]
fn recovery_survives_a_crash_at_every_call() {
    let bank = Bank { clerks: 2, transfers: 30, memo_len: 2_400, ..Bank::default() };
    passes(check::crashes("bank-recovery", bank).at_least(3_000).again(4, usize::MAX));
}

/// E16.4, E16.5, W6.
#[test]
fn bank_survives_every_disk_error() {
    let bank = Bank { checkpoint_every: 4, ..Bank::default() };
    check::io_errors("bank-io-errors", bank).run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

/// E5.3, R5.
#[test]
fn bank_survives_faults_while_it_opens() {
    let bank = Bank { checkpoint_every: 4, ..Bank::default() };
    let check = check::openings("bank-openings", bank).seed(check::seed(1));
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

/// E11.6, E20.2.
#[test]
fn a_bank_notices_damage() {
    let bank = Bank { checkpoint_every: 4, ..Bank::default() };
    check::damages("bank-damages", bank).cases(3_000).run().unwrap_or_else(|failure| panic!("{failure}")).print();
}
