//! Heaps under crashes: commits in every mode, checkpoints by chunk, transactions over heaps and pages.
#![cfg(not(cedrat_shuttle))] // the same under the seeded scheduler: heap_shuttle.rs

use cedrat_check as check;
use cedrat_txn::Options;

use crate::heap_bank::HeapBank;

fn passes(check: check::Crashes<HeapBank>) {
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

/// H3, W4: sync and async commits of words and bytes.
#[test]
fn words_survive_every_crash() {
    let heap_bank = HeapBank { transfers: 400, ..HeapBank::default() };
    passes(check::crashes("heap", heap_bank).at_least(15_000).again(6, 80));
}

/// E4: transactions that straddle a chunk that was copied and one that was not; the log is trimmed behind them.
#[test]
fn words_with_checkpoints_survive_every_crash() {
    let heap_bank = HeapBank { transfers: 60, checkpoint_every: 4, ..HeapBank::default() };
    passes(check::crashes("heap-checkpoints", heap_bank).at_least(15_000).again(6, 80));
}

/// E8.1, E1, E2: clerks in partitions of their own.
#[test]
fn words_in_three_partitions_survive_every_crash() {
    let options = || Options { partitions: 3, ..Options::simulated() };
    let heap_bank = HeapBank { clerks: 3, checkpoint_every: 9, options, ..HeapBank::default() };
    passes(check::crashes("heap-partitions", heap_bank).at_least(15_000).again(6, 80));
}

/// E8.2, E8.4: commits that need only their own partition, beyond records that others lost and up to their partition's first
/// hole.
#[test]
fn commits_alone_survive_every_crash() {
    let options = || Options { partitions: 3, ..Options::simulated() };
    let heap_bank = HeapBank { clerks: 3, words: 12, transfers: 120, alone_one_in: 2, options, ..HeapBank::default() };
    passes(check::crashes("heap-partition-commits", heap_bank).at_least(15_000).again(6, 80));
}

/// E8.5: commits that would need only their own partition but depend on changes that another partition may lose.
#[test]
fn dependent_partition_commits_survive_every_crash() {
    let options = || Options { partitions: 2, ..Options::simulated() };
    let heap_bank = HeapBank {
        sessions: 2,
        words: 6,
        transfers: 240,
        alone_one_in: 2,
        checkpoint_every: 30,
        options,
        ..HeapBank::default()
    };
    passes(check::crashes("heap-partition-commits-dependent", heap_bank).at_least(10_000).again(6, 80));
}

/// The same with checkpoints, which contain changes that are not durable yet.
#[test]
fn commits_alone_with_checkpoints_survive_every_crash() {
    let options = || Options { partitions: 2, ..Options::simulated() };
    let heap_bank =
        HeapBank { clerks: 2, words: 12, alone_one_in: 2, checkpoint_every: 6, options, ..HeapBank::default() };
    passes(check::crashes("heap-partition-commits-checkpoints", heap_bank).at_least(15_000).again(6, 80));
}

/// E10: one commit record for heap words and pages.
#[test]
fn words_and_pages_survive_every_crash() {
    let options = || Options { partitions: 2, ..Options::simulated() };
    let heap_bank = HeapBank { clerks: 2, places: 4, checkpoint_every: 7, options, ..HeapBank::default() };
    passes(check::crashes("heap-and-pages", heap_bank).at_least(15_000).again(6, 80));
}

/// E10.5: transactions longer than a record, with checkpoints in between.
#[test]
fn large_transactions_survive_every_crash() {
    let heap_bank = HeapBank { large: 700, places: 4, transfers: 60, checkpoint_every: 9, ..HeapBank::default() };
    passes(check::crashes("heap-large", heap_bank).at_least(10_000).again(6, 80));
}

/// W5, E16.1: a log of a few segments.
#[test]
fn words_in_small_log_survive_every_crash() {
    let options = || Options { log_limit_bytes: 8 * 64 * 1024, ..Options::simulated() };
    let heap_bank = HeapBank { large: 300, transfers: 120, checkpoint_every: 25, options, ..HeapBank::default() };
    passes(check::crashes("heap-small-log", heap_bank).at_least(10_000).again(6, 80));
}

/// R5: the second crash comes at every call of recovery.
#[test]
fn heap_recovery_survives_crash_at_every_call() {
    let heap_bank = HeapBank { places: 4, transfers: 30, checkpoint_every: 8, ..HeapBank::default() };
    passes(check::crashes("heap-recovery", heap_bank).at_least(3_000).again(4, usize::MAX));
}

/// E16.4, E16.5, W6: an asynchronous commit with a failed flush is never acknowledged, nor any later commit.
#[test]
fn heaps_survive_every_error_of_the_disk() {
    let heap_bank = HeapBank { places: 4, checkpoint_every: 6, ..HeapBank::default() };
    check::io_errors("heap-io-errors", heap_bank).run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

/// E20.2: damage in log, root and chunk files is detected, with file and offset.
#[test]
fn heaps_notice_damage() {
    let heap_bank = HeapBank { places: 4, checkpoint_every: 6, ..HeapBank::default() };
    check::damages("heap-damages", heap_bank).cases(3_000).run().unwrap_or_else(|failure| panic!("{failure}")).print();
}
