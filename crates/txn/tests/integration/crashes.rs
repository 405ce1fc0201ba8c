//! Every crash of small workloads: acknowledged transactions survive, others are whole or absent.

use std::fmt::Debug;

use cedrat_media::{Media, SimDisk};
use cedrat_pages::{LayoutKind, PageId, Slot};
use cedrat_sync::{Arc, thread};
use cedrat_txn::{Commit, Error, Finish, FormatFresh, NoLocks, Options, Result, Store, Txn, Undo};
use cedrat_wal::{ByteLen, SEGMENT_LEN_MIN};
use serde::{Deserialize, Serialize};

use crate::common::*;

const NUMBERS: u16 = 6;

/// All values that the workload of a test changes.
type State = Vec<i64>;

fn state(store: &Store, pages: &[PageId]) -> State {
    pages
        .iter()
        .flat_map(|&page| (0..NUMBERS).map(move |slot| at(page, slot)))
        .map(|at| read_number(store, at).unwrap())
        .collect()
}

/// Runs `step`, which may commit, for each number up to `steps`; then opens the store after every crash, and after
/// every crash of that opening, and compares with the acknowledged state.
///
/// `look` reads the state of the store; it is called after each step, and after each opening.
fn crash_everywhere<S: PartialEq + Debug>(
    options: impl Fn() -> Options,
    steps: u64,
    look: impl Fn(&Store, &[PageId]) -> S,
    mut step: impl FnMut(&Store, &[PageId], u64) -> Result<()>,
) -> usize {
    let disk = Arc::new(SimDisk::new());
    let mut states = Vec::new();
    let pages: Vec<PageId>;
    {
        let store = open_with(&disk, options()).unwrap();
        pages = store.transact(|txn| (0..3).map(|_| page_with_zeros(txn)).collect::<Result<_>>()).unwrap();
        disk.mark(0);
        states.push(look(&store, &pages));
        for number in 1..=steps {
            step(&store, &pages, number).unwrap();
            disk.mark(number);
            states.push(look(&store, &pages));
        }
    }
    let judge = |store: &Store, marks: &[u64], name: &str| {
        let Some(&newest) = marks.last() else { return };
        let found = look(store, &pages);
        let possible = &states[newest as usize..states.len().min(newest as usize + 2)];
        assert!(possible.contains(&found), "{name}: acknowledged {newest}, found {found:?} not in {possible:?}");
        store.check().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(store.running(), 0, "{name}");
    };
    let mut count = 0usize;
    every_crash(&disk, 2, |crashed, marks, name| {
        count += 1;
        match open_with(crashed, options()) {
            Ok(store) => judge(&store, marks, name),
            Err(error) => panic!("{name}: {error}"),
        }
        // Now the same opening is itself interrupted at every point (R5). Only every fifth crash, since there are many.
        if count.is_multiple_of(5) {
            count += every_crash(crashed, 1, |twice, _, second| {
                // Without a checkpoint at its end, so that the next opening recovers its own records.
                let options = Options { checkpoint_when_opened: false, ..options() };
                let store = open_with(twice, options).unwrap_or_else(|error| panic!("{name}, then {second}: {error}"));
                judge(&store, marks, &format!("{name}, then {second}"));
            });
        }
    });
    count
}

fn two_partitions() -> Options {
    Options { partitions: 2, ..options() }
}

fn transfer(store: &Store, pages: &[PageId], number: u64) -> Result<()> {
    let mut txn = store.begin();
    let (from, to) = (pages[number as usize % 3], pages[(number as usize + 1) % 3]);
    let slot = number as u16 % NUMBERS;
    txn.update(at(from, slot), &Add { amount: -(number as i64) })?;
    txn.update(at(to, slot), &Add { amount: number as i64 })?;
    if number.is_multiple_of(5) {
        store.checkpoint()?;
    }
    txn.commit(Commit::Sync)?;
    // Another transaction changes everything, and rolls back.
    let mut other = store.begin();
    for &page in pages {
        other.update(at(page, 0), &Add { amount: 1000 })?;
    }
    if number.is_multiple_of(4) {
        store.checkpoint()?; // uncommitted changes are written to the page file: steal
    }
    // It rolls back to a savepoint, too, before it is interrupted.
    let back = other.savepoint();
    for &page in pages {
        other.update(at(page, 1), &Add { amount: 2000 })?;
    }
    other.rollback_to(back)?;
    store.log().force(store.log().current_lsn())?;
    if number.is_multiple_of(2) {
        return other.rollback();
    }
    drop(other);
    Ok(())
}

#[test]
fn transfers_are_whole_or_absent() {
    let states = crash_everywhere(two_partitions, 12, state, transfer);
    assert!(states > 300, "{states}");
}

#[test]
fn logical_undo_survives_being_cut_in_half() {
    let states = crash_everywhere(options, 6, state, |store, pages, number| {
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
        if number.is_multiple_of(2) { txn.rollback() } else { txn.commit(Commit::Sync).map(|_| ()) }
    });
    assert!(states > 100, "{states}");
}

/// Reads the directory in the first page: slot *n* contains the number of the page of object *n*, whose first number
/// must be *n*. The space map must agree: no page is lost, and none is used twice.
fn objects(store: &Store, pages: &[PageId]) -> Vec<i64> {
    let directory: Vec<i64> = (0..8).map(|slot| read_number(store, at(pages[0], slot)).unwrap()).collect();
    for (object, &page) in directory.iter().enumerate().filter(|(_, page)| **page != 0) {
        assert_eq!(read_number(store, at(PageId::new(page as u64), 0)).unwrap(), object as i64);
    }
    let in_use = directory.iter().filter(|page| **page != 0).count() as u64;
    assert_eq!(store.check().unwrap().pages_allocated, 2 + 3 + in_use, "space was lost, or is in two hands");
    directory
}

#[test]
fn space_is_neither_lost_nor_given_twice() {
    let make = |txn: &mut Txn, directory: PageId, object: u16| {
        let page = txn.allocate()?;
        txn.update(at(page, 0), &FormatFresh::new(LayoutKind::RAW))?;
        txn.update(at(page, 0), &Add { amount: object.into() })?;
        txn.update(at(directory, object), &Add { amount: page.get() as i64 })
    };
    let discard = |txn: &mut Txn, directory: PageId, object: u16| {
        let page = number(&*txn.read(directory)?, Slot(object))?;
        if page != 0 {
            txn.update(at(directory, object), &Add { amount: -page })?;
            txn.free(PageId::new(page as u64))?;
        }
        Ok::<_, Error>(())
    };
    let states = crash_everywhere(options, 10, objects, |store, pages, step| {
        let object = (step % 8) as u16;
        let mut txn = store.begin();
        discard(&mut txn, pages[0], object)?;
        make(&mut txn, pages[0], object)?;
        txn.commit(Commit::Sync)?;
        let mut other = store.begin();
        discard(&mut other, pages[0], object)?;
        make(&mut other, pages[0], object)?;
        if step.is_multiple_of(3) {
            store.checkpoint()?;
        }
        store.log().force(store.log().current_lsn())?;
        other.rollback()
    });
    assert!(states > 200, "{states}");
}

/// Slots 0 and 1 of the first page: a move subtracts from one and adds to the other in separate steps.
#[derive(Debug, Serialize, Deserialize)]
struct FinishMove {
    page: u64,
}

impl Finish for FinishMove {
    const NAME: &'static str = "test.finish_move";

    fn finish(&self, txn: &mut Txn) -> Result<()> {
        let page = PageId::new(self.page);
        let sum = {
            let page = txn.read_latched(page)?;
            number(&page, Slot(0))? + number(&page, Slot(1))?
        };
        if sum != 0 { txn.update(at(page, 1), &Add { amount: -sum }) } else { Ok(()) }
    }
}

#[test]
fn an_ordered_sequence_cut_short_is_finished() {
    let disk = Arc::new(SimDisk::new());
    let registry = || registry().finish::<FinishMove>();
    let open = |disk: &Arc<SimDisk>| {
        let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
        Store::open(media, options(), registry())
    };
    let store = open(&disk).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    disk.mark(0);
    let mut txn = store.begin();
    for _ in 0..3 {
        txn.ordered((), &FinishMove { page: page.get() }, |txn| {
            txn.update(at(page, 0), &Add { amount: -10 })?;
            store.checkpoint()?; // the half-done move reaches the page file
            txn.update(at(page, 1), &Add { amount: 10 })
        })
        .unwrap();
    }
    txn.rollback().unwrap();
    assert_eq!(read_number(&store, at(page, 1)).unwrap(), 30);
    drop(store);
    every_crash(&disk, 3, |crashed, marks, name| {
        if marks.is_empty() {
            return;
        }
        let store = open(crashed).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (from, to) = (read_number(&store, at(page, 0)).unwrap(), read_number(&store, at(page, 1)).unwrap());
        assert!(from + to == 0 && to % 10 == 0 && (0..=30).contains(&to), "{name}: {from} {to}");
    });
}

/// E16.10: the files of the log become longer within transactions, of which some are rolled back.
#[test]
fn growing_log_keeps_transactions_whole() {
    let growing = || Options { partitions: 2, ..Options::simulated_growth() };
    let states = crash_everywhere(growing, 6, state, |store, pages, number| {
        let change = |txn: &mut Txn| {
            (0..300).try_for_each(|n| txn.update(at(pages[n % 3], n as u16 % NUMBERS), &Add { amount: number as i64 }))
        };
        let mut txn = store.begin();
        change(&mut txn)?;
        if number.is_multiple_of(3) {
            store.checkpoint()?;
        }
        txn.commit(Commit::Sync)?;
        let mut other = store.begin();
        change(&mut other)?;
        store.log().force(store.log().current_lsn())?;
        other.rollback()?;
        let is_longer = !store.log().needs_longer_segments(ByteLen(SEGMENT_LEN_MIN / 8), ByteLen(0));
        assert!(number < 6 || is_longer, "it did not grow");
        Ok(())
    });
    assert!(states > 100, "{states}");
}

/// Several threads, each with a counter of its own in two pages: acknowledged values survive, and both pages agree.
#[test]
fn acknowledged_commits_of_threads_survive() {
    const THREADS: u16 = 3;
    const ROUNDS: u64 = 6;
    let options = || Options { partitions: 2, locks: Arc::new(NoLocks), ..options() };
    let disk = Arc::new(SimDisk::new());
    let store = open_with(&disk, options()).unwrap();
    let pages: Vec<PageId> = store.transact(|txn| (0..2).map(|_| page_with_zeros(txn)).collect()).unwrap();
    disk.mark(u64::MAX);
    let threads: Vec<_> = (0..THREADS)
        .map(|own| {
            let (store, disk, pages) = (store.clone(), Arc::clone(&disk), pages.clone());
            thread::spawn(move || {
                for round in 1..=ROUNDS {
                    let mut txn = store.begin();
                    txn.update(at(pages[0], own), &Add { amount: 1 }).unwrap();
                    txn.update(at(pages[1], own), &Add { amount: 1 }).unwrap();
                    if round == 3 && own == 0 {
                        store.checkpoint().unwrap();
                    }
                    txn.commit(Commit::Sync).unwrap();
                    disk.mark(u64::from(own) << 32 | round);
                    let mut other = store.begin();
                    other.update(at(pages[1], own), &Add { amount: 100 }).unwrap();
                    other.rollback().unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(store);
    let states = every_crash(&disk, 2, |crashed, marks, name| {
        if marks.is_empty() {
            return;
        }
        let store = open_with(crashed, options()).unwrap_or_else(|error| panic!("{name}: {error}"));
        for own in 0..THREADS {
            let acknowledged = marks.iter().filter(|mark| **mark >> 32 == u64::from(own)).count() as i64;
            let counts = pages.iter().map(|&page| read_number(&store, at(page, own)).unwrap());
            let counts: Vec<i64> = counts.collect();
            assert!(
                counts[0] == counts[1] && (acknowledged..=acknowledged + 1).contains(&counts[0]),
                "{name}: {own} {acknowledged} {counts:?}"
            );
        }
    });
    // Each commit of one thread is acknowledged by a write that ended after its previous commit was acknowledged, so
    // the thread's marks alone are at as many positions. The number of further states depends on the schedule.
    assert!(states as u64 > ROUNDS, "{states}");
}

/// The checks work: if a compensation names the record that it compensates as undo next, a record is undone twice.
#[cfg(feature = "planted-faults")]
#[test]
fn a_wrong_compensation_chain_is_caught() {
    let faulty = || Options { fault: Some(cedrat_txn::Fault::CompensationChainWrong), ..two_partitions() };
    let run = std::panic::AssertUnwindSafe(|| crash_everywhere(faulty, 12, state, transfer));
    let caught = std::panic::catch_unwind(run);
    assert!(caught.is_err(), "the fault was not seen (E5.4)");
}

/// Wherever a crash occurs between the steps of a logical undo, the next opening undoes the whole change.
#[test]
fn logical_undo_survives_crash_between_its_steps() {
    let disk = Arc::new(SimDisk::new());
    let page = open(&disk).unwrap().transact(page_with_zeros).unwrap();
    let disk = Arc::new(SimDisk::from_image(disk.image()));
    let store = open(&disk).unwrap();
    let mut txn = store.begin();
    let undo = Undo::logical(&SubtractTen { page: page.get(), slot: 0 });
    txn.update_logical(at(page, 0), &Add { amount: 10 }, undo).unwrap();
    store.log().force(store.log().current_lsn()).unwrap();
    txn.rollback().unwrap();
    let states = every_crash(&disk, 2, |disk, _, name| {
        let store = open(disk).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(numbers(&store, page), [0; 4], "E5.2: {name}");
    });
    assert!(states > 4, "{states}");
}
