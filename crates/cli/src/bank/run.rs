//! `cedrat bank run`: threads move money until the process is killed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

use cedrat::txn::Commit;
use cedrat::wal::Ticket;

use super::heap::HeapBank;
use super::pages::{Bank, PageAccounts};
use super::{TRANSFERS_IN_ENTRY, check_place, open};
use crate::arguments::{BankRun, CommitMode};
use crate::disks::Disks;
use crate::output::{Context, Failure, Outcome, fail, line};
use crate::threads::spawn;

/// Maximum number of outstanding tickets of a thread.
const OUTSTANDING_MAX: usize = 256;

/// The most that one transfer moves.
const AMOUNT_MAX: u64 = 100;

/// When the threads end by themselves.
struct End {
    transfers_left: AtomicU64,
    at: Option<Instant>,
}

/// Ends the other threads' work too when one thread's ends early.
struct Ends<'a>(&'a End);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.transfers_left.store(0, Ordering::Relaxed);
    }
}

impl End {
    /// Takes one of the transfers that are left.
    fn another(&self) -> bool {
        if self.at.is_some_and(|at| Instant::now() >= at) {
            return false;
        }
        self.transfers_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// One transfer.
pub(super) struct Transfer {
    pub(super) id: u64,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) amount: i64,
}

/// One thread's way into a bank.
pub(super) trait AccountStore {
    /// Takes an entry of the transfers for this thread alone: [`TRANSFERS_IN_ENTRY`] numbers that no other thread
    /// was or will be given, also after a restart.
    ///
    /// The transaction need not be durable before the numbers are used: a transfer that becomes durable makes
    /// this one durable with it, because it came before.
    fn take_entry(&mut self) -> Result<u64, Failure>;

    /// Makes and records a transfer. The ticket tells when it is stable.
    fn transfer(&mut self, mode: Commit, transfer: &Transfer) -> Result<Ticket, Failure>;
}

/// Runs the bank. Returns only if an end was asked for.
pub(crate) fn run(arguments: &BankRun, disks: &Disks) -> Outcome {
    let store = open(&arguments.directory, disks, true, arguments.partitions).while_doing("opening the bank")?;
    check_place(&store, arguments.heap)?;
    if arguments.heap {
        let bank = HeapBank::open_or_create(&store.memory(), arguments.accounts)?;
        serve(arguments, bank.accounts(), || bank.account_store())?;
        drop(bank);
    } else {
        let (bank, accounts) = store.transact(|txn| {
            let bank = match Bank::open(txn)? {
                Some(bank) => bank,
                None => Bank::create(txn, arguments.accounts)?,
            };
            let accounts = bank.accounts(txn)?;
            Ok((bank, accounts))
        })?;
        serve(arguments, accounts, || Ok(PageAccounts { store: &store, bank: &bank }))?;
        drop(bank);
    }
    store.close()?;
    Ok(())
}

/// Runs the threads, each with accounts opened by itself.
fn serve<D: AccountStore + Send>(
    arguments: &BankRun,
    accounts: u64,
    account_store: impl Fn() -> Result<D, Failure>,
) -> Outcome {
    if accounts != arguments.accounts {
        return fail(format!(
            "this bank has {accounts} accounts, not {}: say --accounts {accounts}",
            arguments.accounts
        ));
    }
    let end = &End {
        transfers_left: AtomicU64::new(arguments.transfers.unwrap_or(u64::MAX)),
        at: arguments.seconds.map(|seconds| Instant::now() + seconds),
    };
    // Before any thread works, because the others would go on after a failure.
    let teller = |number| Ok(Teller { account_store: account_store()?, accounts, random: Random::new(number) });
    let tellers = (0..arguments.threads).map(teller).collect::<Result<Vec<_>, Failure>>()?;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for teller in tellers {
            let work = move || {
                let _ends = Ends(end);
                match arguments.commit {
                    CommitMode::Sync => teller.work_in_step(end),
                    CommitMode::Async => teller.work_ahead(end),
                }
            };
            threads.push(spawn(scope, work).inspect_err(|_| drop(Ends(end)))?);
        }
        threads.into_iter().try_for_each(|thread| thread.join().expect("a teller does not panic"))
    })
}

/// One thread of the bank.
struct Teller<D> {
    account_store: D,
    accounts: u64,
    random: Random,
}

impl<D: AccountStore> Teller<D> {
    /// Waits for each transfer to be stable, and acknowledges it.
    fn work_in_step(mut self, end: &End) -> Outcome {
        self.work(end, Commit::Sync, |id, _stable| acknowledge(id))
    }

    /// Does not wait: another thread acknowledges each transfer when its ticket says that it is stable.
    fn work_ahead(mut self, end: &End) -> Outcome {
        std::thread::scope(|scope| {
            let (tickets, outstanding): (SyncSender<(u64, Ticket)>, _) = sync_channel(OUTSTANDING_MAX);
            let wait = move || {
                for (id, ticket) in outstanding {
                    ticket.wait()?;
                    acknowledge(id)?;
                }
                Ok::<_, Failure>(())
            };
            let waiter = spawn(scope, wait)?;
            let worked = self.work(end, Commit::Async, |id, ticket| {
                // If the waiter is gone it says why itself.
                let _ = tickets.send((id, ticket));
                Ok(())
            });
            drop(tickets);
            waiter.join().expect("the waiter does not panic")?;
            worked
        })
    }

    fn work(&mut self, end: &End, mode: Commit, mut committed: impl FnMut(u64, Ticket) -> Outcome) -> Outcome {
        let mut ids = 0..0;
        while end.another() {
            if ids.is_empty() {
                let entry = self.account_store.take_entry()?;
                ids = entry * TRANSFERS_IN_ENTRY..(entry + 1) * TRANSFERS_IN_ENTRY;
            }
            let Some(id) = ids.next() else { continue };
            let (from, to) = self.two_accounts();
            let amount = self.random.below(AMOUNT_MAX) as i64 + 1;
            let ticket = self.account_store.transfer(mode, &Transfer { id, from, to, amount })?;
            committed(id, ticket)?;
        }
        Ok(())
    }

    /// Two different accounts.
    fn two_accounts(&mut self) -> (u64, u64) {
        let from = self.random.below(self.accounts);
        let distance = 1 + self.random.below(self.accounts - 1);
        (from, (from + distance) % self.accounts)
    }
}

fn acknowledge(id: u64) -> Outcome {
    line(format_args!("ack {id}"))?;
    Ok(())
}

/// Numbers that are different enough: xorshift, from a seed that differs by thread and run.
struct Random(u64);

impl Random {
    fn new(thread: u64) -> Random {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
        let nanos = now.map_or(1, |time| time.subsec_nanos());
        Random((u64::from(nanos) << 32 | thread) ^ 0x9e37_79b9_7f4a_7c15)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
