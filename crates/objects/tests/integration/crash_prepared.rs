//! Prepared transactions under crashes: in doubt after a restart if their prepare was acknowledged, never partly applied,
//! with their locks held, and ended with their outcome (E9).
#![cfg(not(cedrat_shuttle))] // threads: prepared_threads.rs of cedrat-txn

use cedrat_check as check;
use cedrat_objects::UndoPolicy;
use cedrat_txn::Fault;

use crate::branches::Branches;

fn passes(check: check::Crashes<Branches>) {
    check.seed(check::seed(1)).run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

/// E9.1 to E9.8, with changes that count only if they are committed (E9.7).
#[test]
fn transfers_in_two_phases_survive_every_crash() {
    passes(check::crashes("prepared", Branches::default()).at_least(3_000).again(12, 50));
}

/// Inverses are applied in pages.
#[test]
fn two_phase_inverse_transfers_survive_every_crash() {
    let branches = Branches { undo: UndoPolicy::Inverses, ..Branches::default() };
    passes(check::crashes("prepared-inverses", branches).at_least(2_000).again(15, 40));
}

/// R5: the second crash comes at every single call of recovery, and while the recovered branches are ended.
#[test]
fn in_doubt_branches_survive_every_crash() {
    let branches = Branches { steps: 12, ..Branches::default() };
    passes(check::crashes("prepared-recovery", branches).at_least(2_000).again(6, usize::MAX));
}

/// E9.1, R5: each failure while a branch is restored.
#[test]
fn prepared_transaction_survives_faults_of_openings() {
    let check = check::openings("prepared-openings", Branches::default()).seed(check::seed(1)).bases(2).every(16);
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

/// E9.13: branches in doubt are carried forward at each checkpoint, time after time.
#[test]
fn repeatedly_carried_branches_survive_every_crash() {
    let branches = Branches { carries: true, steps: 30, ..Branches::default() };
    passes(check::crashes("prepared-carried", branches).at_least(1_000).again(12, 50));
}

/// The same, with inverses.
#[test]
fn carried_branches_survive_every_crash() {
    let branches = Branches { carries: true, steps: 40, undo: UndoPolicy::Inverses, ..Branches::default() };
    passes(check::crashes("prepared-carried-inverses", branches).at_least(1_000).again(15, 40));
}

/// Asserts that a planted fault is found, for the expected reason.
#[track_caller]
fn caught(fault: Fault, undo: UndoPolicy, because: &str) {
    let branches = Branches { fault: Some(fault), undo, ..Branches::default() };
    let check = check::crashes(&format!("planted-{fault:?}"), branches).at_least(2_000).again(10, 60);
    let failure = check.run().expect_err("the planted fault must be caught").to_string();
    println!("{failure}");
    assert!(failure.contains(because), "another mistake was found than was planted: {failure}");
}

/// E9.2.
#[test]
fn unforced_prepare_record_is_caught() {
    caught(Fault::PrepareNotForced, UndoPolicy::CommittedOnly, "an acknowledged commit is lost");
}

/// E9.1.
#[test]
fn prepared_transaction_undone_by_recovery_is_caught() {
    caught(Fault::PreparedUndone, UndoPolicy::CommittedOnly, "in_doubt: {}");
}

/// E9.3.
#[test]
fn locks_that_are_not_restored_are_missed() {
    caught(Fault::LocksNotRestored, UndoPolicy::CommittedOnly, "in its pages, its word, its block, its object");
}

/// E9.4.
#[test]
fn unforced_rollback_is_caught() {
    caught(Fault::RollbackNotForced, UndoPolicy::CommittedOnly, "an acknowledged commit is lost");
}

/// E9.5.
#[test]
fn log_truncated_under_branch_is_caught() {
    caught(Fault::PreparedNotKept, UndoPolicy::Inverses, "");
}

/// E9.6.
#[test]
fn pages_freed_before_outcome_are_caught() {
    caught(Fault::FreedTooEarly, UndoPolicy::CommittedOnly, "page");
}

/// E9.7.
#[test]
fn deferred_change_applied_twice_is_caught() {
    caught(Fault::DeferredMadeTwice, UndoPolicy::CommittedOnly, "in its pages, its word, its block, its object");
}
