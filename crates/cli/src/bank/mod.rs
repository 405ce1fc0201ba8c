//! `cedrat bank`: a crash workload whose promises can be checked from outside.
//!
//! A bank is accounts, and the transfers made: 64 of them to an entry, one bit each, so that a hundred million
//! take no more than a few dozen megabytes. They lie in the pages of a store (`pages`) or in its heaps (`heap`).

mod acks;
mod heap;
mod pages;
mod run;
mod verify;

pub(crate) use run::run;
pub(crate) use verify::verify;

use std::path::Path;
use std::sync::Arc;

use cedrat::media::RealDisk;
use cedrat::txn::{Options, Result, Store};

use crate::disks::Disks;
use crate::output::{Outcome, fail};

/// Balance of each account when it is opened.
const OPENING_BALANCE: i64 = 1000;

/// The kind of the record that each transfer over pages leaves in the log, with its number in eight bytes, the highest
/// first: for readers who follow a transfer through the log.
pub(crate) const TRANSFER: &str = "bank.transfer";

/// Number of transfers that share an entry of the table of transfers.
const TRANSFERS_IN_ENTRY: u64 = u64::BITS as u64;

/// Refuses a store that has its bank in the other place: there is one bank in a store, and its promises are about that one.
fn check_place(store: &Store, in_heaps: bool) -> Outcome {
    if in_heaps && store.transact(pages::Bank::open)?.is_some() {
        return fail("this store has its bank in pages: leave out --heap");
    }
    if !in_heaps && heap::HeapBank::open(&store.memory())?.is_some() {
        return fail("this store has its bank in heaps: say --heap");
    }
    Ok(())
}

/// Opens the store of a bank, which is recovering it.
fn open(directory: &Path, disks: &Disks, create: bool, partitions: u16) -> Result<Store> {
    let options = disks.options(Options { create, partitions, ..Options::default() });
    let media = Arc::new(RealDisk::new(directory));
    Ok(Store::open(media, options, crate::registry())?)
}
