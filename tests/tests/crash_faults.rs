//! Structures on a disk with errors, and on one with damaged bytes.
#![forbid(unsafe_code)]
#![cfg(not(cedrat_shuttle))]

#[path = "crash_workout/mod.rs"]
mod workout;

use cedrat::check;
use workout::subjects::*;
use workout::{Subject, Workout};

#[track_caller]
fn survives_errors<T: Subject>(name: &str, subject: T) {
    let workout = Workout { transactions: 40, checkpoint_every: 6, ..Workout::of(subject) };
    let check = check::io_errors(name, workout).seed(check::seed(1)).every(3);
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

#[track_caller]
fn notices_damage<T: Subject>(name: &str, subject: T) {
    let workout = Workout { transactions: 25, ..Workout::of(subject) };
    let check = check::damages(name, workout).seed(check::seed(1)).cases(1_500);
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

#[track_caller]
fn survives_openings<T: Subject>(name: &str, subject: T) {
    let workout = Workout { transactions: 40, checkpoint_every: 6, ..Workout::of(subject) };
    let check = check::openings(name, workout).seed(check::seed(1)).bases(4).every(5);
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

/// E5.3, R5.
#[test]
fn structures_survive_faults_of_openings() {
    survives_openings("hash-table-openings", Hash);
    survives_openings("page-list-openings", LinkedPages);
    survives_openings("array-list-openings", Array);
    survives_openings("catalogue-openings", Names);
}

/// E16.4, E16.5, W6.
#[test]
fn structures_survive_random_errors_of_the_disk() {
    survives_errors("hash-table-io-errors", Hash);
    survives_errors("page-list-io-errors", LinkedPages);
    survives_errors("array-list-io-errors", Array);
    survives_errors("catalogue-io-errors", Names);
}

/// E11.6, E20.2.
#[test]
fn structures_notice_random_damage() {
    notices_damage("hash-table-damages", Hash);
    notices_damage("page-list-damages", LinkedPages);
    notices_damage("list-damages", LinkedList);
    notices_damage("array-list-damages", Array);
    notices_damage("records-damages", RecordsOfAnyLength);
    notices_damage("catalogue-damages", Names);
}
