//! `cedrat bank`: a crash workload whose promises can be checked from outside.
//!
//! A bank is a store with three things: its accounts, an [`ArrayList`] of balances; the transfers made, a
//! [`HashTable`] of 64 of them to an entry, one bit each, so that a hundred million take no more than a few
//! dozen megabytes; and its terms, which never change.

mod acks;
mod run;
mod verify;

pub(crate) use run::run;
pub(crate) use verify::verify;

use std::path::Path;
use std::sync::Arc;

use cedrat::media::RealDisk;
use cedrat::structures::{ArrayList, Catalogue, HashTable};
use cedrat::txn::{Options, Result, Store, Txn};

/// What each account holds when it is opened.
const OPENING_BALANCE: i64 = 1000;

/// The most bytes that a balance takes: a number of 64 bits in groups of 7.
const BALANCE_LEN_MAX: u16 = 10;

/// The kind of the record that each transfer leaves in the log, with its number in eight bytes, the highest
/// first: for whoever wants to follow a transfer through the log.
pub(crate) const TRANSFER: &str = "bank.transfer";

/// How many transfers share an entry of the table of transfers.
const TRANSFERS_IN_ENTRY: u64 = u64::BITS as u64;

/// The key of the terms under which the number of entries given out is kept.
const ENTRIES_TAKEN: &str = "entries taken";

/// The key of the terms that says how many accounts there are.
const ACCOUNTS: &str = "accounts";

/// Opens the store of a bank, which is recovering it.
fn open(directory: &Path, create: bool, partitions: u16) -> Result<Store> {
    let options = Options { create, partitions, ..Options::default() };
    let media = Arc::new(RealDisk::new(directory));
    Store::open(media, options, crate::registry())
}

/// An open bank. Cheap to clone; all clones are the same bank.
#[derive(Clone, Debug)]
struct Bank {
    accounts: ArrayList<i64>,
    transfers: HashTable<u64, u64>,
    terms: HashTable<String, u64>,
}

impl Bank {
    /// The bank in this store, if its accounts were ever opened.
    fn open(txn: &mut Txn) -> Result<Option<Bank>> {
        if Catalogue::open(txn.store())?.find(txn, "bank.accounts")?.is_none() {
            return Ok(None);
        }
        Ok(Some(Bank {
            accounts: ArrayList::open(txn, "bank.accounts")?,
            transfers: HashTable::open(txn, "bank.transfers")?,
            terms: HashTable::open(txn, "bank.terms")?,
        }))
    }

    /// Opens the accounts of a new bank: all of it in one transaction.
    fn create(txn: &mut Txn, accounts: u64) -> Result<Bank> {
        let bank = Bank {
            accounts: ArrayList::create(txn, "bank.accounts", BALANCE_LEN_MAX)?,
            transfers: HashTable::create(txn, "bank.transfers")?,
            terms: HashTable::create(txn, "bank.terms")?,
        };
        for _ in 0..accounts {
            bank.accounts.push(txn, &OPENING_BALANCE)?;
        }
        bank.terms.insert(txn, ACCOUNTS, &accounts)?;
        Ok(bank)
    }

    /// How many accounts there are.
    fn accounts(&self, txn: &mut Txn) -> Result<u64> {
        Ok(self.terms.get(txn, ACCOUNTS)?.unwrap_or(0))
    }

    /// Takes an entry of the table of transfers for one thread alone: [`TRANSFERS_IN_ENTRY`] numbers that
    /// nobody else was or will be given, also after a restart.
    ///
    /// The transaction need not be stable before the numbers are used: whoever makes one of them stable makes
    /// this one stable with it, because it came before.
    fn take_entry(&self, txn: &mut Txn) -> Result<u64> {
        let entry = self.terms.get(txn, ENTRIES_TAKEN)?.unwrap_or(0);
        self.terms.insert(txn, ENTRIES_TAKEN, &(entry + 1))?;
        Ok(entry)
    }

    /// Moves `amount` between two accounts, as far as the first has it, and records the transfer.
    fn transfer(&self, txn: &mut Txn, id: u64, from: u64, to: u64, amount: i64) -> Result<()> {
        let balance = self.accounts.get(txn, from)?.unwrap_or(0);
        let amount = amount.min(balance);
        self.accounts.set(txn, from, &(balance - amount))?;
        let balance = self.accounts.get(txn, to)?.unwrap_or(0);
        self.accounts.set(txn, to, &(balance + amount))?;
        txn.log_record(TRANSFER, &id.to_be_bytes())?;
        let (entry, bit) = (id / TRANSFERS_IN_ENTRY, id % TRANSFERS_IN_ENTRY);
        let recorded = self.transfers.get(txn, &entry)?.unwrap_or(0);
        self.transfers.insert(txn, &entry, &(recorded | 1 << bit))?;
        Ok(())
    }

    /// Whether a transfer is recorded.
    fn has_recorded(&self, txn: &mut Txn, id: u64) -> Result<bool> {
        let (entry, bit) = (id / TRANSFERS_IN_ENTRY, id % TRANSFERS_IN_ENTRY);
        let recorded = self.transfers.get(txn, &entry)?.unwrap_or(0);
        Ok(recorded & 1 << bit != 0)
    }
}
