//! The structures of docs/use/cookbook.md, and their checks.
#![forbid(unsafe_code)]

#[allow(unreachable_pub, reason = "shown as a program has them")]
mod counters;
#[allow(unreachable_pub, reason = "shown as a program has them")]
mod leaf;
#[allow(unreachable_pub, reason = "shown as a program has them")]
mod meter;
#[allow(unreachable_pub, reason = "shown as a program has them")]
mod open;
mod overtaken;
#[allow(unreachable_pub, reason = "shown as a program has them")]
mod set;
#[allow(unreachable_pub, reason = "shown as a program has them")]
mod vector;

use std::collections::BTreeSet;

use cedrat::check::{self, Outcome, Run, Scenario};
use cedrat::pages::{LayoutKind, PageId, Slot};
use cedrat::prelude::*;
use cedrat::txn::FormatFresh;

use counters::{COUNTERS, Count, Shift, counter_of};
use leaf::{Change, KEYS_MAX, Leaf};
use meter::{Meter, RollUp};
use set::{Set, Withdraw};
use vector::Vector;

fn new_page(txn: &mut Txn) -> Result<PageId> {
    let page = txn.allocate()?;
    txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
    Ok(page)
}

// ---- the set ---------------------------------------------------------------------------------------------------

struct SetWorkload;

impl Scenario for SetWorkload {
    type State = BTreeSet<u64>;
    type Roots = PageId;

    fn registry(&self) -> Registry {
        Registry::new().operation::<Change>().logical::<Withdraw>()
    }

    fn set_up(&self, store: &Store) -> Outcome<PageId> {
        Ok(store.transact(new_page)?)
    }

    fn run(&self, run: &Run<Self>, root: &PageId) -> Outcome {
        let set = Set(*root);
        let mut random = run.rng(0);
        for round in 0..12 {
            // Rolled back or committed after others have split the leaf.
            let mut late = run.store().begin();
            let key = 1_000 + random.below(1_000);
            let is_new = set.insert(&mut late, key)?;
            let keys: Vec<u64> = (0..4).map(|_| random.below(1_000) + 1_000 * random.below(3)).collect();
            let others: Vec<u64> = keys.into_iter().filter(|other| *other != key).collect();
            run.transact(|txn| {
                for other in &others {
                    set.insert(txn, *other)?;
                    assert!(set.contains(txn, *other)?);
                }
                let others = others.clone();
                Ok(move |model: &mut BTreeSet<u64>| model.extend(&others))
            })?;
            run.roll_back(|txn| Ok((0..4).try_for_each(|n| set.insert(txn, 3_000 + n).map(drop))?))?;
            if round % 3 == 0 {
                let effect = move |model: &mut BTreeSet<u64>| model.extend(is_new.then_some(key));
                let ticket = run.commit(late, Commit::Sync, effect)?;
                run.acknowledge(&ticket)?;
            } else {
                late.rollback()?;
            }
        }
        Ok(())
    }

    fn read(&self, store: &Store, root: &PageId) -> Outcome<BTreeSet<u64>> {
        Ok(leaves(store, *root)?.into_iter().flat_map(|(_, leaf)| leaf.keys).collect())
    }

    fn check(&self, store: &Store, root: &PageId) -> Outcome {
        let leaves = leaves(store, *root)?;
        let nexts = leaves.iter().skip(1).map(|(_, leaf)| leaf.low).chain([u64::MAX]);
        for ((page, leaf), end) in leaves.iter().zip(nexts) {
            let in_range = leaf.keys.iter().all(|key| (leaf.low..end).contains(key));
            if !in_range || !leaf.keys.is_sorted() {
                return Err(format!("page {page} has {leaf:?}, the next begins with {end}").into());
            }
        }
        Ok(())
    }

    fn reachable(&self, store: &Store, root: &PageId) -> Outcome<Option<Vec<PageId>>> {
        Ok(Some(leaves(store, *root)?.into_iter().map(|(page, _)| page).collect()))
    }
}

fn leaves(store: &Store, root: PageId) -> Outcome<Vec<(PageId, Leaf)>> {
    let mut leaves = vec![(root, Leaf::read(&*store.read(root)?)?)];
    while let Some((_, leaf)) = leaves.last()
        && leaf.next != 0
    {
        let page = PageId::new(leaf.next);
        leaves.push((page, Leaf::read(&*store.read(page)?)?));
    }
    Ok(leaves)
}

#[test]
fn change_of_leaf_keeps_rules() {
    let tried = check::operation::<Change>(|random, page| {
        let key = random.below(12);
        let change = match random.below(3) {
            0 => Change::Add(key),
            1 => Change::Remove(Leaf::read(page).ok().and_then(|leaf| leaf.keys.first().copied()).unwrap_or(key)),
            _ => Change::Write(Leaf { low: key, next: key, keys: (0..random.below(KEYS_MAX as u64 + 2)).collect() }),
        };
        (change, Slot(0))
    })
    .pages(|random, page| {
        let count = random.below(KEYS_MAX as u64 + 1);
        page.put_u64(16, count).expect("in the page");
        (0..count as usize).for_each(|n| page.put_u64(24 + 8 * n, 2 * n as u64).expect("in the page"));
    })
    .run()
    .unwrap_or_else(|broken| panic!("{broken}"));
    assert!(tried.performed > 1_000 && tried.refused > 1_000, "{tried:?}");
}

#[test]
fn set_survives_crashes() {
    check::crashes("set", SetWorkload).run().unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn set_is_changed_by_threads() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = open::open(folder.path()).expect("it opens");
    let set = Set(store.transact(new_page).expect("a page"));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, set) = (&store, &set);
            scope.spawn(move || {
                for n in 0..100 {
                    let mut txn = store.begin();
                    assert!(set.insert(&mut txn, 4 * (n * 37 % 100) + thread).expect("it inserts"));
                    let ended = if n % 2 == 0 { txn.commit(Commit::Async).map(drop) } else { txn.rollback() };
                    ended.expect("it ends");
                }
            });
        }
    });
    let expected: BTreeSet<u64> =
        (0..100).step_by(2).flat_map(|n| (0..4).map(move |thread| 4 * (n * 37 % 100) + thread)).collect();
    assert_eq!(SetWorkload.read(&store, &set.0).expect("it reads"), expected);
    SetWorkload.check(&store, &set.0).expect("it is sorted");
}

// ---- the array -------------------------------------------------------------------------------------------------

struct VectorWorkload;

impl Scenario for VectorWorkload {
    type State = Vec<u64>;
    type Roots = PageId;

    fn registry(&self) -> Registry {
        Registry::new()
    }

    fn set_up(&self, store: &Store) -> Outcome<PageId> {
        Ok(store.transact(Vector::create)?.0)
    }

    fn run(&self, run: &Run<Self>, root: &PageId) -> Outcome {
        let vector = Vector(*root);
        for round in 0..12 {
            run.transact(|txn| {
                (0..3).try_for_each(|n| vector.push(txn, 10 * round + n))?;
                let popped = vector.pop(txn)?;
                assert_eq!(popped, Some(10 * round + 2));
                Ok(move |model: &mut Vec<u64>| model.extend([10 * round, 10 * round + 1]))
            })?;
            run.roll_back(|txn| {
                (0..round % 4 + 2).try_for_each(|n| vector.push(txn, n))?;
                (0..round % 5 + 5).try_for_each(|_| vector.pop(txn).map(drop))?;
                Ok(vector.push(txn, 7)?)
            })?;
            if round % 4 == 3 {
                run.transact(|txn| {
                    (0..5).try_for_each(|_| vector.pop(txn).map(drop))?;
                    Ok(|model: &mut Vec<u64>| model.truncate(model.len().saturating_sub(5)))
                })?;
            }
        }
        Ok(())
    }

    fn read(&self, store: &Store, root: &PageId) -> Outcome<Vec<u64>> {
        let vector = Vector(*root);
        Ok(store.transact(|txn| {
            let mut values = Vec::new();
            while let Some(value) = vector.get(txn, values.len() as u64)? {
                values.push(value);
            }
            Ok(values)
        })?)
    }

    fn reachable(&self, store: &Store, root: &PageId) -> Outcome<Option<Vec<PageId>>> {
        let page = store.read(*root)?;
        let pages = page.u64_at(0)?.div_ceil(vector::PAGE_LEN) as usize;
        let entries = (1..=pages).map(|entry| Ok(PageId::new(page.u64_at(8 * entry)?)));
        Ok(Some(entries.chain([Ok(*root)]).collect::<Outcome<_>>()?))
    }
}

#[test]
fn vector_survives_crashes() {
    check::crashes("vector", VectorWorkload).run().unwrap_or_else(|failure| panic!("{failure}"));
}

// ---- the counters ----------------------------------------------------------------------------------------------

struct MeterWorkload;

impl Scenario for MeterWorkload {
    type State = [i64; 3];
    type Roots = [PageId; 2];

    fn registry(&self) -> Registry {
        Registry::new().operation::<Count>().operation::<Shift>().finish::<RollUp>()
    }

    fn set_up(&self, store: &Store) -> Outcome<[PageId; 2]> {
        Ok(store.transact(|txn| Ok([new_page(txn)?, new_page(txn)?]))?)
    }

    fn run(&self, run: &Run<Self>, &[hour, day]: &[PageId; 2]) -> Outcome {
        let meter = Meter { hour, day };
        for round in 0..8_i64 {
            let counter = (round % 3) as u16;
            let mut open = run.store().begin();
            meter.count(&mut open, counter, 1_000)?;
            run.transact(|txn| {
                meter.count(txn, counter, round)?;
                meter.roll_up(txn)?; // moves what the open transaction has counted, too
                meter.count(txn, 0, 1)?;
                Ok(move |model: &mut [i64; 3]| {
                    model[counter as usize] += round;
                    model[0] += 1;
                })
            })?;
            open.rollback()?;
            run.roll_back(|txn| {
                meter.count(txn, counter, 5)?;
                Ok(meter.roll_up(txn)?) // stays, though the count does not
            })?;
        }
        Ok(())
    }

    fn read(&self, store: &Store, &[hour, day]: &[PageId; 2]) -> Outcome<[i64; 3]> {
        let meter = Meter { hour, day };
        Ok(store.transact(|txn| Ok([meter.total(txn, 0)?, meter.total(txn, 1)?, meter.total(txn, 2)?]))?)
    }

    /// Every sequence was completed: both pages have the same last roll-up.
    fn check(&self, store: &Store, &[hour, day]: &[PageId; 2]) -> Outcome {
        let rounds = [store.read(hour)?.u64_at(0)?, store.read(day)?.u64_at(0)?];
        if rounds[0] == rounds[1] { Ok(()) } else { Err(format!("a roll-up is half done: {rounds:?}").into()) }
    }
}

#[test]
fn operations_of_counters_keep_rules() {
    let tried = check::operation::<Count>(|random, _| (Count(random.number()), Slot(random.below(110) as u16))).run();
    let tried = tried.unwrap_or_else(|broken| panic!("{broken}"));
    assert!(tried.performed > 1_000 && tried.refused > 100, "{tried:?}");
    let tried = check::operation::<Shift>(|random, _| {
        let amounts = (0..random.index(COUNTERS + 10)).map(|_| random.number()).collect();
        (Shift { round: random.next_u64(), amounts }, Slot(0))
    });
    let tried = tried.run().unwrap_or_else(|broken| panic!("{broken}"));
    assert!(tried.performed > 1_000 && tried.refused > 100, "{tried:?}");
}

#[test]
fn meter_survives_crashes() {
    check::crashes("meter", MeterWorkload).run().unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn rolled_back_count_returns_from_day() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = open::open(folder.path()).expect("it opens");
    let [hour, day] = MeterWorkload.set_up(&store).expect("pages");
    let meter = Meter { hour, day };
    let mut txn = store.begin();
    meter.count(&mut txn, 2, 5).expect("it counts");
    store.transact(|other| meter.roll_up(other)).expect("it rolls up");
    txn.rollback().expect("it rolls back");
    let read = |page| counter_of(&store.read(page).expect("a page"), 2).expect("a counter");
    assert_eq!((read(hour), read(day)), (-5, 5));
}

// ---- the page --------------------------------------------------------------------------------------------------

/// Each module, without its first comment, is a block of the page.
#[test]
fn page_shows_checked_structures() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/use/cookbook.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let blocks: Vec<&str> =
        page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n')).map(|(_, code)| code).collect();
    let modules = [
        ("set", include_str!("set.rs")),
        ("leaf", include_str!("leaf.rs")),
        ("vector", include_str!("vector.rs")),
        ("meter", include_str!("meter.rs")),
        ("counters", include_str!("counters.rs")),
        ("open", include_str!("open.rs")),
    ];
    for (name, module) in modules {
        let shown = module.split_once("\n\n").expect("a comment comes first").1;
        assert!(blocks.contains(&shown), "the page shows another {name}.rs than the one that is checked");
    }
}
