//! `cedrat bank verify`: was anything lost that was promised?

use std::fs::File;
use std::io::{BufRead, BufReader};

use cedrat::txn::Store;
use cedrat_wal::{Log, LogError};
use serde::Serialize;

use super::heap::HeapBank;
use super::pages::Bank;
use super::{OPENING_BALANCE, acks, check_place, open};
use crate::arguments::BankVerify;
use crate::disks::Disks;
use crate::output::{self, Context, Failure, Outcome, fail, grouped};

/// Maximum number of missing transfers that are named.
const NAMED_MAX: usize = 10;

/// Result of a verification.
#[derive(Debug, Default, Serialize)]
struct Verdict {
    /// Whether everything is as it should be.
    ok: bool,
    /// Number of accounts.
    accounts: u64,
    /// The sum of all balances.
    total: i64,
    /// Expected total.
    expected_total: i64,
    /// Accounts that hold less than nothing.
    overdrawn: u64,
    /// Transfers that were acknowledged.
    acknowledged: u64,
    /// Number of these that are not recorded.
    missing: u64,
    /// The first of them.
    missing_ids: Vec<u64>,
}

/// Recovers the bank and compares it with what its runs have promised.
pub(crate) fn verify(arguments: &BankVerify, disks: &Disks) -> Outcome {
    let acks_file = File::open(&arguments.acks).while_doing(arguments.acks.display())?;
    let acks_file = BufReader::new(acks_file);
    // Looked at first, because a run that was killed before its store was made has promised nothing.
    let is_absent = match disks.plain_or_open(&arguments.directory)? {
        Some(media) => matches!(Log::look(&media), Err(LogError::Absent { .. })),
        None => true,
    };
    let verdict = match is_absent {
        true => judge(Verdict::default(), acks_file, |_| Ok(false))?,
        false => {
            let store = open(&arguments.directory, disks, false, 1).while_doing("opening the bank")?;
            check_place(&store, arguments.heap)?;
            let verdict = match arguments.heap {
                true => examine_heap(&store, acks_file)?,
                false => examine(&store, acks_file)?,
            };
            store.close()?;
            verdict
        }
    };
    report(&verdict, arguments.json)
}

fn examine(store: &Store, acks_file: impl BufRead) -> Result<Verdict, Failure> {
    let mut txn = store.begin();
    let Some(bank) = Bank::open(&mut txn)? else {
        return judge(Verdict::default(), acks_file, |_| Ok(false));
    };
    let accounts = bank.accounts(&mut txn)?;
    let mut verdict = Verdict { accounts, expected_total: accounts as i64 * OPENING_BALANCE, ..Verdict::default() };
    for account in 0..accounts {
        let balance = bank.accounts.get(&mut txn, account)?.unwrap_or(0);
        verdict.total += balance;
        verdict.overdrawn += u64::from(balance < 0);
    }
    let verdict = judge(verdict, acks_file, |id| Ok(bank.contains_transfer(&mut txn, id)?))?;
    txn.rollback()?;
    Ok(verdict)
}

/// As [`examine`], of a bank in heaps.
fn examine_heap(store: &Store, acks_file: impl BufRead) -> Result<Verdict, Failure> {
    let Some(bank) = HeapBank::open(&store.memory())? else {
        return judge(Verdict::default(), acks_file, |_| Ok(false));
    };
    let accounts = bank.accounts();
    let mut verdict = Verdict { accounts, expected_total: accounts as i64 * OPENING_BALANCE, ..Verdict::default() };
    let mut account_store = bank.account_store()?;
    for account in 0..accounts {
        let balance = account_store.balance(account)?;
        verdict.total += balance;
        verdict.overdrawn += u64::from(balance < 0);
    }
    judge(verdict, acks_file, |id| account_store.contains_transfer(id))
}

/// Completes a verdict with what was acknowledged.
fn judge(
    mut verdict: Verdict,
    acks_file: impl BufRead,
    mut recorded: impl FnMut(u64) -> Result<bool, Failure>,
) -> Result<Verdict, Failure> {
    verdict.acknowledged = acks::each_ack(acks_file, |id| {
        if !recorded(id)? {
            verdict.missing += 1;
            if verdict.missing_ids.len() < NAMED_MAX {
                verdict.missing_ids.push(id);
            }
        }
        Ok(())
    })?;
    verdict.ok = verdict.total == verdict.expected_total && verdict.overdrawn == 0 && verdict.missing == 0;
    Ok(verdict)
}

fn report(verdict: &Verdict, json: bool) -> Outcome {
    if json {
        output::json(verdict)?;
    } else {
        output::rows(&[
            ("accounts", grouped(verdict.accounts)),
            ("total", verdict.total.to_string()),
            ("acknowledged", grouped(verdict.acknowledged)),
            ("missing", grouped(verdict.missing)),
        ])?;
    }
    if verdict.missing > 0 {
        return fail(format!("{} acknowledged transfers are not recorded: {:?}", verdict.missing, verdict.missing_ids));
    }
    if !verdict.ok {
        return fail(format!(
            "the total is {}, it should be {}; {} accounts hold less than nothing",
            verdict.total, verdict.expected_total, verdict.overdrawn
        ));
    }
    Ok(())
}
