//! Faults of deferred changes, planted behind a cargo feature and switched on one by one, and the check that finds each.
//!
//! The same shop passes without them (`crash_deferred.rs`).
#![cfg(not(cedrat_shuttle))]

use cedrat_check as check;
use cedrat_txn::{Fault, Options};

use crate::article_cache::{Shop, unlocked};

#[track_caller]
fn caught(name: &str, options: fn() -> Options) {
    let shop = Shop { options, ..Shop::default() };
    let check = check::crashes(&format!("planted-{name}"), shop).at_least(2_000).again(20, 60);
    let failure = check.run().expect_err("the planted fault must be caught");
    println!("{failure}");
}

/// E19.4.
#[test]
fn keepers_that_are_not_asked_are_missed() {
    caught("keepers-not-asked", || Options { fault: Some(Fault::KeepersNotAsked), ..unlocked() });
}

/// E19.2.
#[test]
fn redo_by_page_lsn_is_caught() {
    caught("redone-by-page-lsn", || Options { fault: Some(Fault::RedoneByPageLsn), ..unlocked() });
}

/// E19.5.
#[test]
fn redo_of_uncommitted_change_is_caught() {
    caught("uncommitted-counts", || Options { fault: Some(Fault::UncommittedCounts), ..unlocked() });
}

/// E19.15.
#[test]
fn omitted_commit_changes_are_caught() {
    caught("commit-changes-left-out", || Options { fault: Some(Fault::CommitChangesLeftOut), ..unlocked() });
}
