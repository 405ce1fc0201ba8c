//! Every built-in operation, and the allocation of pages, under crashes, compared with plain memory.
#![forbid(unsafe_code)]
#![cfg(not(cedrat_shuttle))]

#[path = "crash_workout/mod.rs"]
mod workout;

use workout::pages::*;
use workout::{Workout, passes};

#[test]
fn fixed_records_survive_random_crashes() {
    passes("fixed-records", Workout::of(FixedPage));
}

#[test]
fn slotted_records_survive_random_crashes() {
    passes("slotted-records", Workout::of(SlottedPage));
}

/// E19.1, E19.2.
#[test]
fn versioned_records_survive_random_crashes() {
    passes("versioned-records", Workout::of(VersionedPage));
}

#[test]
fn ranges_of_bytes_survive_random_crashes() {
    passes("set-range", Workout::of(RawPage));
}

/// E7.1, E7.2, E7.3.
#[test]
fn allocated_pages_survive_random_crashes() {
    passes("space", Workout::of(Space));
}
