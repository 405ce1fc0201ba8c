//! The third pass: losers are taken back, in one sweep over all of them and over all partitions, newest record first
//! (E5.3).
//!
//! The order matters where undo is logical. A nested top action that the crash cut in half is undone page by page, and
//! it must be before anyone's logical undo walks what it has changed. Its records there are newer than all others',
//! for until it ended its latches kept everybody else from logging there; so descending order does it.

use std::collections::BinaryHeap;

use cedrat_wal::Lsn;

use super::analysis::Loser;
use crate::error::Result;
use crate::report::Progress;
use crate::rollback::Chain;
use crate::store::Store;
use crate::transaction::Txn;

/// Undoes all losers; returns how many records were undone.
pub(crate) fn undo(store: &Store, losers: Vec<Loser>, tell: &dyn Fn(Progress)) -> Result<u64> {
    sweep(store, losers, tell).inspect_err(|error| {
        // Before the transactions are dropped: dropped alive, each would roll back by itself, out of order.
        store.log().stop(format!("recovery could not undo: {error}"));
    })
}

fn sweep(store: &Store, losers: Vec<Loser>, tell: &dyn Fn(Progress)) -> Result<u64> {
    let of = losers.len() as u64;
    let mut undone = 0;
    let mut done = 0;
    let mut open: Vec<(Txn, Chain)> = Vec::with_capacity(losers.len());
    // The newest record of each loser that is still to be looked at.
    let mut next: BinaryHeap<(Lsn, usize)> = BinaryHeap::with_capacity(losers.len());
    for loser in losers {
        let txn = Txn::loser(store.clone(), &loser)?;
        let mut chain = txn.chain();
        chain.advance(Some(loser.last))?;
        if store.locks().restores_locks() {
            restore_locks(store, &txn)?;
        }
        next.push((loser.last_lsn, open.len()));
        open.push((txn, chain));
    }
    while let Some((_, index)) = next.pop() {
        let (txn, chain) = &mut open[index];
        undone += u64::from(txn.undo_record(chain.record())?);
        match chain.step_back()? {
            Some(lsn) => next.push((lsn, index)),
            None => {
                txn.end_rollback();
                txn.leave(None);
                done += 1;
                tell(Progress::Undo { done, of });
            }
        }
    }
    Ok(undone)
}

/// Tells the lock manager which pages a loser changed, from its newest record to its oldest.
fn restore_locks(store: &Store, txn: &Txn) -> Result<()> {
    let mut chain = txn.chain();
    let mut more = chain.advance(txn.last)?;
    while more.is_some() {
        if let Some(page) = chain.record().page()? {
            store.locks().recovered(txn.id, page);
        }
        more = chain.previous()?;
    }
    Ok(())
}
