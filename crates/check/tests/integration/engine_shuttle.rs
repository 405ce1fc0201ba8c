//! The engine under crashes, its threads interleaved by the seeded scheduler: a failing schedule repeats from its seed.
#![cfg(cedrat_shuttle)]

use cedrat_check as check;
use cedrat_txn::Options;

use crate::bank::Bank;

/// E2, E3, E11 with clerks interleaved at every step, and several writes in flight at the power failure.
#[test]
fn schedules_of_a_bank_survive_crashes() {
    let mut total: Option<check::Report> = None;
    for schedule in 0..60 {
        let seed = check::seed(1) * 1_000 + schedule;
        let options = || Options { partitions: 2, ..Options::simulated() };
        let bank = Bank { clerks: 3, transfers: 5, checkpoint_every: 2, options, ..Bank::default() };
        let check = check::crashes("bank-schedules", bank).seed(seed).at_least(250).at_most(400).again(50, 10);
        let report = check.run().unwrap_or_else(|failure| panic!("{failure}"));
        match &mut total {
            Some(total) => total.add(&report),
            None => total = Some(report),
        }
    }
    total.expect("there were seeds").print();
}
