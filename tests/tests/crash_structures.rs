//! Every structure under crashes, compared with plain memory.
#![forbid(unsafe_code)]
#![cfg(not(cedrat_shuttle))] // under the seeded scheduler: crash_structures_shuttle.rs

#[path = "crash_workout/mod.rs"]
mod workout;

use cedrat::check;
use cedrat_media::{Encryption, Key};
use cedrat_txn::Options;
use workout::subjects::*;
use workout::{Workout, passes};

#[test]
fn increments_survive_random_crashes() {
    passes("increment", Workout::of(Counters));
}

#[test]
fn records_survive_random_crashes() {
    passes("records", Workout::of(RecordsOfAnyLength));
}

#[test]
fn array_lists_survive_random_crashes() {
    passes("array-list", Workout::of(Array));
}

#[test]
fn linked_lists_survive_random_crashes() {
    passes("list", Workout::of(LinkedList));
}

#[test]
fn linked_lists_of_pages_survive_random_crashes() {
    passes("page-list", Workout::of(LinkedPages));
}

#[test]
fn hash_tables_survive_random_crashes() {
    passes("hash-table", Workout::of(Hash));
}

/// E24: as over plain files.
#[test]
fn encrypted_hash_tables_survive_random_crashes() {
    let options = || {
        let encryption = Some(Encryption::with_key(Key::new([24; 32])));
        Options { pool_bytes: 48 * 4096, partitions: 2, encryption, ..Options::simulated() }
    };
    let workout = Workout { transactions: 30, options, ..Workout::of(Hash) };
    let check = check::crashes("hash-table-encrypted", workout)
        .seed(check::seed(1))
        .at_least(1_500)
        .again(4, 20)
        .without_losers();
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

/// E5.1, E13.4, E15.3: splits and logical undo of several threads at once.
#[test]
fn threaded_hash_tables_survive_random_crashes() {
    passes("hash-table-threads", Workout { threads: 3, transactions: 20, ..Workout::of(Hash) });
}

/// S10: merges of buckets beside open transactions.
#[test]
fn shrinking_hash_tables_survive_random_crashes() {
    passes("hash-table-shrink", Workout { checkpoint_every: 2, ..Workout::of(ShrinkingHash) });
}

#[test]
fn names_survive_random_crashes() {
    passes("catalogue", Workout::of(Names));
}
