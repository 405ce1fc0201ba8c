//! The third pass: undoes losers in one sweep over all of them and over all partitions, newest record first (E5.3).
//!
//! The order matters for logical undo. A nested top action that the crash interrupted is undone page by page, and that
//! must happen before any logical undo reads the pages that it has changed. Its records for these pages are newer than
//! those of all other transactions, because its latches excluded them until it ended; so descending order suffices.

use std::collections::BinaryHeap;

use cedrat_sync::planted;
use cedrat_wal::Lsn;

use super::analysis::Loser;
use crate::error::Result;
use crate::report::Progress;
use crate::rollback::Chain;
use crate::store::Store;
use crate::transaction::Txn;

/// Undoes all losers. Returns the number of records undone.
///
/// After a failure no loser is undone any further: the remaining transactions are abandoned when dropped.
pub(crate) fn undo(store: &Store, losers: Vec<Loser>, tell: &dyn Fn(Progress)) -> Result<u64> {
    if planted!("begun_before_undo") {
        let store = store.clone();
        cedrat_sync::thread::spawn(move || undo_all(&store, losers, &|_| {}));
        return Ok(0);
    }
    undo_all(store, losers, tell)
}

fn undo_all(store: &Store, losers: Vec<Loser>, tell: &dyn Fn(Progress)) -> Result<u64> {
    let of = losers.len() as u64;
    let mut undone = 0;
    let mut done = 0;
    let mut open: Vec<(Txn, Chain)> = Vec::with_capacity(losers.len());
    // The newest record of each loser that was not yet examined.
    let mut next: BinaryHeap<(Lsn, usize)> = BinaryHeap::with_capacity(losers.len());
    for loser in losers {
        let txn = Txn::loser(store.clone(), &loser);
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

/// Reports the pages that a loser changed to the lock manager, from its newest record to its oldest.
fn restore_locks(store: &Store, txn: &Txn) -> Result<()> {
    let mut chain = txn.chain();
    let mut more = chain.advance(txn.cursor.last)?;
    while more.is_some() {
        if let Some(page) = chain.record().page()? {
            store.locks().recovered(txn.id, page);
        }
        more = chain.previous()?;
    }
    Ok(())
}
