//! Every crash of small workloads: what was acknowledged is there, what was not is whole or absent.

mod common;

use cedrat_media::SimDisk;
use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_txn::{Commit, Options, Result, Store, Undo};
use common::*;

const NUMBERS: u16 = 6;

/// All that the workload of a test changes.
type State = Vec<i64>;

fn state(store: &Store, pages: &[PageId]) -> State {
    pages
        .iter()
        .flat_map(|&page| (0..NUMBERS).map(move |slot| at(page, slot)))
        .map(|at| read_number(store, at).unwrap())
        .collect()
}

/// Runs `step` for each number below `steps`, each in a transaction of its own that is committed and acknowledged; then
/// opens the store after every crash, and after every crash of that opening, and compares.
fn crash_everywhere(
    options: impl Fn() -> Options,
    steps: u64,
    mut step: impl FnMut(&Store, &[PageId], u64) -> Result<()>,
) -> usize {
    let disk = Arc::new(SimDisk::new());
    let mut states = Vec::new();
    let pages: Vec<PageId>;
    {
        let store = open_with(&disk, options()).unwrap();
        pages = store.transact(|txn| (0..3).map(|_| page_with_zeros(txn)).collect::<Result<_>>()).unwrap();
        disk.mark(0);
        states.push(state(&store, &pages));
        for number in 1..=steps {
            step(&store, &pages, number).unwrap();
            disk.mark(number);
            states.push(state(&store, &pages));
        }
    }
    let judge = |store: &Store, marks: &[u64], name: &str| {
        let Some(&newest) = marks.last() else { return };
        let found = state(store, &pages);
        let possible = &states[newest as usize..states.len().min(newest as usize + 2)];
        assert!(possible.contains(&found), "{name}: acknowledged {newest}, found {found:?} not in {possible:?}");
        store.check().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(store.running(), 0, "{name}");
    };
    let mut count = 0;
    every_crash(&disk, 2, |crashed, marks, name| {
        count += 1;
        match open_with(crashed, options()) {
            Ok(store) => {
                judge(&store, marks, name);
            }
            Err(error) => panic!("{name}: {error}"),
        }
        // Now the same opening is itself cut short, everywhere (R5). Every fifth crash: they are many.
        if count % 5 == 0 {
            count += every_crash(crashed, 1, |twice, _, second| {
                let store =
                    open_with(twice, options()).unwrap_or_else(|error| panic!("{name}, then {second}: {error}"));
                judge(&store, marks, &format!("{name}, then {second}"));
            });
        }
    });
    count
}

fn two_partitions() -> Options {
    Options { partitions: 2, ..options() }
}

#[test]
fn transfers_are_whole_or_absent() {
    let states = crash_everywhere(two_partitions, 12, |store, pages, number| {
        let mut txn = store.begin();
        let (from, to) = (pages[number as usize % 3], pages[(number as usize + 1) % 3]);
        let slot = number as u16 % NUMBERS;
        txn.update(at(from, slot), &Add { amount: -(number as i64) })?;
        txn.update(at(to, slot), &Add { amount: number as i64 })?;
        if number % 5 == 0 {
            store.checkpoint()?;
        }
        txn.commit(Commit::Sync)?;
        // Another transaction changes everything and thinks better of it.
        let mut other = store.begin();
        for &page in pages {
            other.update(at(page, 0), &Add { amount: 1000 })?;
        }
        if number % 4 == 0 {
            store.checkpoint()?; // uncommitted changes go home: steal
        }
        if number % 2 == 0 { other.rollback() } else { Ok(drop(other)) }
    });
    assert!(states > 300, "{states}");
}

#[test]
fn logical_undo_survives_being_cut_in_half() {
    let states = crash_everywhere(options, 6, |store, pages, number| {
        let mut txn = store.begin();
        let target = pages[number as usize % 3];
        txn.nested((), |txn| {
            txn.update(at(target, 1), &Add { amount: 5 })?;
            txn.update(at(pages[0], 2), &Add { amount: 7 })?;
            txn.update(at(pages[0], 2), &Add { amount: -7 })?;
            Ok(((), Undo::logical(&Subtract { page: target.get(), slot: 1, amount: 5 })))
        })?;
        let undo = Undo::logical(&Subtract { page: target.get(), slot: 3, amount: 9 });
        txn.update_logical(at(target, 3), &Add { amount: 9 }, undo)?;
        store.log().force(store.log().current_lsn())?;
        match number % 3 {
            0 => store.checkpoint()?,
            1 => txn.update(at(pages[2], 5), &Add { amount: 1 })?,
            _ => {}
        }
        if number % 2 == 0 { txn.rollback() } else { txn.commit(Commit::Sync).map(|_| ()) }
    });
    assert!(states > 100, "{states}");
}
