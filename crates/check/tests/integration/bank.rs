//! A bank with accounts on several pages, and concurrent clerks: the workload for the engine itself.
//!
//! Clerks move money between two accounts at a time, in no order of pages, so they deadlock; they roll transactions back,
//! completely or to a savepoint; one of them may also take checkpoints.

use cedrat_check::{Outcome, Rng, Run, Scenario};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Commit, Operation, Options, RecordId, Refused, Registry, Result, Store, Txn, Undo};
use serde::{Deserialize, Serialize};

use crate::accounts::{BALANCE, Deposit, OpenAccounts, balance};

/// Number of accounts on one page. Few, so that a bank of a hundred accounts fills a small pool.
const ACCOUNTS_OF_PAGE: u64 = 4;

/// Parameters of the workload.
#[derive(Clone, Debug)]
pub(crate) struct Bank {
    /// Number of accounts.
    pub(crate) accounts: u64,
    /// Number of concurrent clerks.
    pub(crate) clerks: u64,
    /// Number of transfers of each clerk.
    pub(crate) transfers: u64,
    /// One in so many transfers commits without waiting.
    pub(crate) async_one_in: u64,
    /// After every so many transfers, the first clerk takes a checkpoint; 0: never.
    pub(crate) checkpoint_every: u64,
    /// Bytes written along with each transfer, so that the log fills.
    pub(crate) memo_len: usize,
    /// The store under it.
    pub(crate) options: fn() -> Options,
}

impl Default for Bank {
    fn default() -> Bank {
        Bank {
            accounts: 8,
            clerks: 1,
            transfers: 40,
            async_one_in: 3,
            checkpoint_every: 0,
            memo_len: 1_200,
            options: Options::simulated,
        }
    }
}

/// Writes a memo behind the accounts of a page.
#[derive(Debug, Serialize, Deserialize)]
struct Memo {
    bytes: Vec<u8>,
}

const MEMO_AT: usize = ACCOUNTS_OF_PAGE as usize * 8;

impl Operation for Memo {
    const NAME: &'static str = "bank.memo";
    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Undo::before_image(page, MEMO_AT, self.bytes.len())
    }
    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        page.put(MEMO_AT, &self.bytes)
    }
}

/// Accounts and amount of a transfer.
#[derive(Clone, Copy)]
struct Transfer {
    from: u64,
    to: u64,
    amount: i64,
}

impl Transfer {
    fn by_chance(chance: &mut Rng, accounts: u64) -> Transfer {
        let from = chance.below(accounts);
        let to = (from + 1 + chance.below(accounts - 1)) % accounts;
        Transfer { from, to, amount: 1 + chance.below(50) as i64 }
    }

    fn perform(self, txn: &mut Txn, pages: &[PageId]) -> Result<()> {
        txn.update(record(pages, self.from), &Deposit { amount: -self.amount })?;
        txn.update(record(pages, self.to), &Deposit { amount: self.amount })
    }

    fn effect(self) -> impl Fn(&mut Vec<i64>) + Send + 'static {
        move |balances| {
            balances[self.from as usize] -= self.amount;
            balances[self.to as usize] += self.amount;
        }
    }
}

fn record(pages: &[PageId], account: u64) -> RecordId {
    let slot = Slot((account % ACCOUNTS_OF_PAGE) as u16);
    RecordId::new(pages[(account / ACCOUNTS_OF_PAGE) as usize], slot)
}

impl Bank {
    fn clerk(&self, run: &Run<Bank>, number: u64, pages: &[PageId]) -> Outcome {
        let mut chance = run.rng(number);
        let mut waiting = Vec::new();
        for done in 1..=self.transfers {
            let transfer = Transfer::by_chance(&mut chance, self.accounts);
            match chance.below(7) {
                6 => self.over_lunch(run, number, &mut chance, transfer, pages)?,
                // A rollback of all of it, then of half of it.
                0 => run.roll_back(|txn| Ok(transfer.perform(txn, pages)?))?,
                1 => {
                    let other = Transfer::by_chance(&mut chance, self.accounts);
                    run.transact(|txn| {
                        transfer.perform(txn, pages)?;
                        let before = txn.savepoint();
                        other.perform(txn, pages)?;
                        txn.rollback_to(before)?;
                        Ok(transfer.effect())
                    })?;
                }
                2 => {
                    let other = Transfer::by_chance(&mut chance, self.accounts);
                    run.transact(|txn| {
                        transfer.perform(txn, pages)?;
                        let failed: Result<()> = txn.nested_transaction(|txn| {
                            other.perform(txn, pages)?;
                            Err(Refused::new("not today").into())
                        });
                        match failed {
                            Err(error) if error.is_worth_retrying() => Err(error)?,
                            _ => Ok(transfer.effect()),
                        }
                    })?;
                }
                _ if chance.one_in(self.async_one_in) => {
                    waiting.push(run.transact_async(|txn| {
                        transfer.perform(txn, pages)?;
                        Ok(transfer.effect())
                    })?);
                }
                _ => {
                    let memo_len = chance.index(self.memo_len + 1);
                    let memo = Memo { bytes: chance.bytes(memo_len) };
                    run.transact(|txn| {
                        transfer.perform(txn, pages)?;
                        if !memo.bytes.is_empty() {
                            txn.update(record(pages, transfer.to), &memo)?;
                        }
                        Ok(transfer.effect())
                    })?;
                }
            }
            waiting.retain(|ticket| !run.acknowledge_if_stable(ticket));
            if number == 0 && self.checkpoint_every > 0 && done % self.checkpoint_every == 0 {
                run.store().checkpoint()?;
            }
        }
        for ticket in waiting {
            run.acknowledge(&ticket)?;
        }
        Ok(())
    }
}

impl Bank {
    /// Runs a transaction that stays open while another one commits, or a checkpoint is taken: its records become durable,
    /// and it is a loser if the power fails now. It uses the clerk's own till, on the last pages, so that no other clerk
    /// waits for it.
    fn over_lunch(
        &self,
        run: &Run<Bank>,
        number: u64,
        chance: &mut Rng,
        transfer: Transfer,
        pages: &[PageId],
    ) -> Outcome {
        let till = self.accounts.next_multiple_of(ACCOUNTS_OF_PAGE) + number * ACCOUNTS_OF_PAGE;
        let own = Transfer { from: till, to: till + 1, amount: 7 };
        let mut open = run.store().begin();
        own.perform(&mut open, pages)?;
        if chance.one_in(2) {
            // Half of it is undone already: recovery must not undo that again.
            let before = open.savepoint();
            own.perform(&mut open, pages)?;
            open.rollback_to(before)?;
        }
        if self.checkpoint_every > 0 && chance.one_in(2) {
            // Only the newest record makes the page dirty when the checkpoint begins.
            run.store().checkpoint()?;
            open.update(record(pages, till), &Deposit { amount: -1 })?;
            run.store().checkpoint()?;
            open.update(record(pages, till), &Deposit { amount: 1 })?;
        }
        run.transact(|txn| {
            transfer.perform(txn, pages)?;
            Ok(transfer.effect())
        })?;
        if chance.one_in(2) {
            open.rollback()?;
        } else {
            run.commit(open, Commit::Async, own.effect())?;
        }
        Ok(())
    }

    /// Number of accounts and tills.
    fn places(&self) -> u64 {
        self.accounts.next_multiple_of(ACCOUNTS_OF_PAGE) + self.clerks * ACCOUNTS_OF_PAGE
    }
}

impl Scenario for Bank {
    type State = Vec<i64>;
    type Roots = Vec<PageId>;

    fn options(&self) -> Options {
        (self.options)()
    }

    fn registry(&self) -> Registry {
        Registry::new().operation::<Deposit>().operation::<OpenAccounts>().operation::<Memo>()
    }

    fn set_up(&self, store: &Store) -> Outcome<Vec<PageId>> {
        Ok(store.transact(|txn| {
            let mut pages = Vec::new();
            for _ in 0..self.places() / ACCOUNTS_OF_PAGE {
                let page = txn.allocate()?;
                txn.update(RecordId::page(page), &OpenAccounts { count: ACCOUNTS_OF_PAGE })?;
                pages.push(page);
            }
            Ok(pages)
        })?)
    }

    fn run(&self, run: &Run<Bank>, pages: &Vec<PageId>) -> Outcome {
        let (bank, pages) = (self.clone(), pages.clone());
        run.in_threads(self.clerks, move |run, number| bank.clerk(run, number, &pages))
    }

    fn read(&self, store: &Store, pages: &Vec<PageId>) -> Outcome<Vec<i64>> {
        (0..self.places())
            .map(|account| {
                let at = record(pages, account);
                Ok(balance(&*store.read(at.page)?, at.slot)?)
            })
            .collect()
    }

    fn check(&self, store: &Store, pages: &Vec<PageId>) -> Outcome {
        let total: i64 = self.read(store, pages)?.iter().sum();
        match total == BALANCE * self.places() as i64 {
            true => Ok(()),
            false => Err(format!("the bank holds {total}").into()),
        }
    }
}
