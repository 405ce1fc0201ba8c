//! Every structure under crashes, compared with plain memory.
#![forbid(unsafe_code)]
#![cfg(not(cedrat_shuttle))] // under the seeded scheduler: crash_structures_shuttle.rs

#[path = "crash_workout/mod.rs"]
mod workout;

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

/// E5.1, E13.4, E15.3: splits and logical undo of several threads at once.
#[test]
fn threaded_hash_tables_survive_random_crashes() {
    passes("hash-table-threads", Workout { threads: 3, transactions: 20, ..Workout::of(Hash) });
}

/// S10: merges of buckets, also by threads, beside open transactions.
#[test]
fn shrinking_hash_tables_survive_random_crashes() {
    let workout = |threads| Workout { threads, checkpoint_every: 2, ..Workout::of(ShrinkingHash) };
    passes("hash-table-shrink", workout(1));
    passes("hash-table-shrink-threads", Workout { transactions: 20, ..workout(3) });
}

#[test]
fn names_survive_random_crashes() {
    passes("catalogue", Workout::of(Names));
}
