//! A bank in two heaps that its transactions change together: `bank.accounts` and `bank.transfers`.
//!
//! ```text
//! bank.accounts   word 0    how many accounts there are; 0 until the bank is open
//!                 word 1    how many entries of the transfers were given out
//!                 word 8 …  for each account, what it holds beyond the opening balance
//! bank.transfers  word n    the transfers 64 n … 64 n + 63, one bit each
//! ```
//!
//! So heaps that were just created, all zero, are a bank in which nothing has happened yet.

use cedrat::heap::{Error, Heap, HeapOptions, Interrupt, Memory, Result, Session, Tx};
use cedrat::txn::Commit;
use cedrat::wal::Ticket;

use super::run::{AccountStore, Transfer};
use super::{OPENING_BALANCE, TRANSFERS_IN_ENTRY};
use crate::output::{Context, Failure};

const ACCOUNTS: &str = "bank.accounts";
const TRANSFERS: &str = "bank.transfers";

/// Where things lie in the heap of accounts.
const COUNT_AT: u64 = 0;
const ENTRIES_TAKEN_AT: u64 = 8;
const FIRST_ACCOUNT_AT: u64 = 64;

/// The heap of transfers begins so large, and doubles as it fills, up to so many bytes: 68,719,476,736 transfers.
const TRANSFERS_BYTES: u64 = 1 << 20;
const TRANSFERS_BYTES_MAX: u64 = 8 << 30;

/// An open bank.
pub(super) struct HeapBank {
    accounts: Heap,
    transfers: Heap,
    count: u64,
}

impl HeapBank {
    /// The bank in these heaps, if its accounts were ever opened.
    pub(super) fn open(memory: &Memory) -> Result<Option<HeapBank>> {
        let (Some(accounts), Some(transfers)) = (find(memory, ACCOUNTS)?, find(memory, TRANSFERS)?) else {
            return Ok(None);
        };
        let count = accounts.atomically(|tx| tx.read(&accounts, COUNT_AT))?;
        Ok((count > 0).then_some(HeapBank { accounts, transfers, count }))
    }

    /// The bank in these heaps; if there is none, one with so many accounts.
    pub(super) fn open_or_create(memory: &Memory, count: u64) -> Result<HeapBank> {
        if let Some(bank) = HeapBank::open(memory)? {
            return Ok(bank);
        }
        // What is there was left by a run that was killed before anything could happen in it.
        for name in [ACCOUNTS, TRANSFERS] {
            if find(memory, name)?.is_some() {
                memory.drop_heap(name)?;
            }
        }
        let growing = HeapOptions { size_max: TRANSFERS_BYTES_MAX, ..HeapOptions::raw(TRANSFERS_BYTES) };
        let transfers = memory.create_heap(TRANSFERS, &growing)?;
        let accounts = memory.create_heap(ACCOUNTS, &HeapOptions::raw(FIRST_ACCOUNT_AT + count * 8))?;
        accounts.atomically(|tx| tx.write(&accounts, COUNT_AT, count))?;
        Ok(HeapBank { accounts, transfers, count })
    }

    /// Returns the number of accounts.
    pub(super) fn accounts(&self) -> u64 {
        self.count
    }

    pub(super) fn account_store(&self) -> Result<HeapAccounts<'_>, Failure> {
        Ok(HeapAccounts { bank: self, session: self.accounts.memory().session()? })
    }

    /// Moves money between two accounts, as far as the first has it, and records the transfer.
    fn transfer(&self, tx: &mut Tx<'_>, transfer: &Transfer) -> Result<(), Interrupt> {
        let &Transfer { id, from, to, amount } = transfer;
        let amount = amount.min(self.balance(tx, from)?);
        for (account, change) in [(from, -amount), (to, amount)] {
            let at = FIRST_ACCOUNT_AT + account * 8;
            let beyond = tx.read(&self.accounts, at)?;
            tx.write(&self.accounts, at, beyond.wrapping_add_signed(change))?;
        }
        let entry = id / TRANSFERS_IN_ENTRY * 8;
        let recorded = tx.read(&self.transfers, entry)?;
        tx.write(&self.transfers, entry, recorded | 1 << (id % TRANSFERS_IN_ENTRY))
    }

    fn balance(&self, tx: &mut Tx<'_>, account: u64) -> Result<i64, Interrupt> {
        let beyond = tx.read(&self.accounts, FIRST_ACCOUNT_AT + account * 8)?;
        Ok(OPENING_BALANCE.wrapping_add(beyond as i64))
    }
}

fn find(memory: &Memory, name: &str) -> Result<Option<Heap>> {
    match memory.heap(name) {
        Ok(heap) => Ok(Some(heap)),
        Err(Error::Unknown { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A thread's way into the bank.
pub(super) struct HeapAccounts<'a> {
    bank: &'a HeapBank,
    session: Session,
}

impl HeapAccounts<'_> {
    /// Returns the balance of an account.
    pub(super) fn balance(&mut self, account: u64) -> Result<i64, Failure> {
        Ok(self.session.run(Commit::Async, |tx| self.bank.balance(tx, account))?.value)
    }

    /// Whether a transfer is recorded.
    pub(super) fn contains_transfer(&mut self, id: u64) -> Result<bool, Failure> {
        let (transfers, entry) = (&self.bank.transfers, id / TRANSFERS_IN_ENTRY * 8);
        if entry >= transfers.size() {
            return Ok(false);
        }
        let recorded = self.session.run(Commit::Async, |tx| tx.read(transfers, entry))?.value;
        Ok(recorded & 1 << (id % TRANSFERS_IN_ENTRY) != 0)
    }
}

impl AccountStore for HeapAccounts<'_> {
    fn take_entry(&mut self) -> Result<u64, Failure> {
        let HeapBank { accounts, transfers, .. } = self.bank;
        let taken = self.session.run(Commit::Async, |tx| {
            let entry = tx.read(accounts, ENTRIES_TAKEN_AT)?;
            tx.write(accounts, ENTRIES_TAKEN_AT, entry + 1)?;
            Ok(entry)
        })?;
        let entry = taken.value;
        if entry * 8 >= transfers.size() {
            // Other threads that are here at the same time ask for the same size.
            let size = (TRANSFERS_BYTES << 1).max((entry * 8 + 8).next_power_of_two());
            self.session.memory().grow_heap(TRANSFERS, size).while_doing("making room for more transfers")?;
        }
        Ok(entry)
    }

    fn transfer(&mut self, mode: Commit, transfer: &Transfer) -> Result<Ticket, Failure> {
        let done = self.session.run(mode, |tx| self.bank.transfer(tx, transfer))?;
        let log = self.session.memory().log().expect("a store has a log");
        Ok(log.ticket(done.lsn))
    }
}
