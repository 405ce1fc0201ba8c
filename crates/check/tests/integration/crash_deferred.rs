//! Deferred changes of versioned records under crashes (Lemon §7): each kind of undo, flushes in any order, checkpoints,
//! reused slots. Without crashes: `deferred.rs` of `cedrat-txn`.
#![cfg(not(cedrat_shuttle))] // threads: interleavings.rs of cedrat-txn

use cedrat_check as check;
use cedrat_txn::Options;

use crate::article_cache::{Shop, unlocked};

fn passes(check: check::Crashes<Shop>) {
    check.seed(check::seed(1)).run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

/// E19.1, E19.2, E19.3, E19.4, E19.5, E19.6.
#[test]
fn deferred_changes_survive_every_crash() {
    passes(check::crashes("deferred", Shop::default()).at_least(6_000).again(6, 80));
}

/// E19.5: pages are written early, with commits that are not durable yet.
#[test]
fn deferred_changes_in_tiny_pool_survive_crashes() {
    let options = || Options { pool_bytes: 8 * 4096, partitions: 2, ..unlocked() };
    let shop = Shop { pages: 24, steps: 90, options, ..Shop::default() };
    passes(check::crashes("deferred-eviction", shop).at_least(4_000).again(6, 80));
}

/// R5: the second crash comes at every single call of recovery.
#[test]
fn deferred_recovery_survives_every_crash() {
    let shop = Shop { steps: 30, flushes_one_in: 3, ..Shop::default() };
    passes(check::crashes("deferred-recovery", shop).at_least(2_000).again(4, usize::MAX));
}
