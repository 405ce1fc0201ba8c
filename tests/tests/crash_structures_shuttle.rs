//! Structures under crashes, with threads that the seeded scheduler interleaves: a failing schedule repeats from its seed.
#![forbid(unsafe_code)]
#![cfg(cedrat_shuttle)]

#[path = "crash_workout/mod.rs"]
mod workout;

use cedrat::check;
use workout::subjects::*;
use workout::{Subject, Workout};

/// Several schedules, a few hundred states each.
#[track_caller]
fn schedules<T: Subject>(name: &str, subject: fn() -> T) {
    let mut total: Option<check::Report> = None;
    for schedule in 0..25 {
        let workout = Workout { threads: 3, transactions: 5, checkpoint_every: 2, ..Workout::of(subject()) };
        let seed = check::seed(1) * 1_000 + schedule;
        let check = check::crashes(name, workout).seed(seed).at_least(300).at_most(400).again(60, 10);
        let report = check.run().unwrap_or_else(|failure| panic!("{failure}"));
        match &mut total {
            Some(total) => total.add(&report),
            None => total = Some(report),
        }
    }
    total.expect("there were seeds").print();
}

#[test]
fn schedules_of_hash_tables_survive_random_crashes() {
    schedules("hash-table-schedules", || Hash);
}

#[test]
fn schedules_of_lists_survive_random_crashes() {
    schedules("page-list-schedules", || LinkedPages);
}

#[test]
fn schedules_of_counters_survive_random_crashes() {
    schedules("increment-schedules", || Counters);
}
