//! Encrypted stores under crashes, errors and damage: as plain ones (E24).
#![cfg(not(cedrat_shuttle))]

use cedrat_check as check;
use cedrat_media::{Encryption, Key};
use cedrat_txn::Options;

use crate::bank::Bank;
use crate::heap_bank::HeapBank;

fn options() -> Options {
    let encryption = Encryption::with_key(Key::new([24; 32]));
    Options { partitions: 2, encryption: Some(encryption), ..Options::simulated() }
}

fn heap_bank() -> HeapBank {
    HeapBank { clerks: 2, transfers: 12, checkpoint_every: 4, places: 6, options, ..HeapBank::default() }
}

fn passes<S: check::Scenario>(check: check::Crashes<S>) {
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

/// W4, R5, E11.
#[test]
fn encrypted_bank_survives_every_crash() {
    let bank = Bank { clerks: 2, transfers: 30, checkpoint_every: 9, options, ..Bank::default() };
    passes(check::crashes("bank-encrypted", bank).at_least(1_000).again(4, 20).never_undone("bank.memo"));
}

/// E4, H3: words and pages.
#[test]
fn encrypted_heap_survives_every_crash() {
    // Where an encrypted log has a record is not visible from outside, so few cuts fall within a transaction.
    let check = check::crashes("heap-encrypted", heap_bank()).at_least(1_000).again(4, 20);
    passes(check.without_losers().never_undone("accounts.deposit"));
}

/// R6, A9: what a killed process leaves.
#[test]
fn encrypted_store_survives_kills() {
    passes(check::crashes("heap-encrypted-kills", heap_bank()).at_most(1).kills(20));
}

#[test]
fn encrypted_store_survives_errors() {
    check::io_errors("heap-encrypted-errors", heap_bank()).run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

#[test]
fn damage_of_encrypted_store_is_found() {
    let check = check::damages("heap-encrypted-damages", heap_bank()).cases(600);
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}
