//! A bank in pages: its accounts are an [`ArrayList`] of balances; the transfers made and the bank's terms are
//! each a [`HashTable`].

use cedrat::structures::{ArrayList, Catalogue, HashTable};
use cedrat::txn::{Commit, Result, Store, Txn};
use cedrat::wal::Ticket;

use super::run::{AccountStore, Transfer};
use super::{OPENING_BALANCE, TRANSFER, TRANSFERS_IN_ENTRY};
use crate::output::Failure;
use crate::retry::commit;

/// The most bytes that a balance takes: a number of 64 bits in groups of 7.
const BALANCE_LEN_MAX: u16 = 10;

/// The key of the terms under which the number of entries given out is kept.
const ENTRIES_TAKEN: &str = "entries taken";

/// The key of the terms that says how many accounts there are.
const ACCOUNTS: &str = "accounts";

/// An open bank. Cheap to clone; all clones are the same bank.
#[derive(Clone, Debug)]
pub(super) struct Bank {
    pub(super) accounts: ArrayList<i64>,
    transfers: HashTable<u64, u64>,
    terms: HashTable<String, u64>,
}

impl Bank {
    /// The bank in this store, if its accounts were ever opened.
    pub(super) fn open(txn: &mut Txn) -> Result<Option<Bank>> {
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
    pub(super) fn create(txn: &mut Txn, accounts: u64) -> Result<Bank> {
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

    /// Returns the number of accounts.
    pub(super) fn accounts(&self, txn: &mut Txn) -> Result<u64> {
        Ok(self.terms.get(txn, ACCOUNTS)?.unwrap_or(0))
    }

    /// Takes an entry of the table of transfers for one thread alone: [`TRANSFERS_IN_ENTRY`] numbers that
    /// no other thread was or will be given, also after a restart.
    ///
    /// The transaction need not be durable before the numbers are used: a transfer that becomes durable makes
    /// this one durable with it, because it came before.
    fn take_entry(&self, txn: &mut Txn) -> Result<u64> {
        let entry = self.terms.get(txn, ENTRIES_TAKEN)?.unwrap_or(0);
        self.terms.insert(txn, ENTRIES_TAKEN, &(entry + 1))?;
        Ok(entry)
    }

    /// Moves money between two accounts, as far as the first has it, and records the transfer.
    fn transfer(&self, txn: &mut Txn, transfer: &Transfer) -> Result<()> {
        let &Transfer { id, from, to, amount } = transfer;
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
    pub(super) fn contains_transfer(&self, txn: &mut Txn, id: u64) -> Result<bool> {
        let (entry, bit) = (id / TRANSFERS_IN_ENTRY, id % TRANSFERS_IN_ENTRY);
        let recorded = self.transfers.get(txn, &entry)?.unwrap_or(0);
        Ok(recorded & 1 << bit != 0)
    }
}

/// A thread's way into the bank.
pub(super) struct PageAccounts<'a> {
    pub(super) store: &'a Store,
    pub(super) bank: &'a Bank,
}

impl AccountStore for PageAccounts<'_> {
    fn take_entry(&mut self) -> Result<u64, Failure> {
        Ok(commit(self.store, Commit::Async, |txn| self.bank.take_entry(txn))?.0)
    }

    fn transfer(&mut self, mode: Commit, transfer: &Transfer) -> Result<Ticket, Failure> {
        Ok(commit(self.store, mode, |txn| self.bank.transfer(txn, transfer))?.1)
    }
}
