//! Workloads, undos and structures with one fault each, which [`check::crashes`] finds.
//!
//! Faults of single operations are in `planted_operations.rs`; here the fault lies in the combination of correct operations,
//! and only a crash, or a rollback at the wrong moment, shows it.

use std::sync::Mutex;

use cedrat_check as check;
use cedrat_check::{Failure, Fault, Outcome, Run, Scenario};
use cedrat_pages::{Damaged, LatchRank, LayoutKind, PageId, PageMut, PageRef, Slot, StructureLatch};
use cedrat_sync::Arc;
use cedrat_txn::{
    Commit, Finish, LogicalUndo, NoLocks, Operation, Options, RecordId, Refused, Registry, Result, Store, Txn, Undo,
};
use serde::{Deserialize, Serialize};

/// Numbers of eight bytes in raw pages.
#[derive(Debug, Serialize, Deserialize)]
struct Add(i64);

fn number(page: &PageRef<'_>, at: Slot) -> Result<i64, Damaged> {
    Ok(page.u64_at(usize::from(at.0) * 8)? as i64)
}

impl Operation for Add {
    const NAME: &'static str = "test.add";
    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        number(page, at)?;
        Ok(Undo::op(Add(self.0.wrapping_neg())))
    }
    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        let sum = number(&page.page_ref(), at)?.wrapping_add(self.0);
        page.put_u64(usize::from(at.0) * 8, sum as u64)
    }
}

/// Sets a number; its undo restores the previous number, even if another transaction has changed it since.
#[derive(Debug, Serialize, Deserialize)]
struct Set(i64);

impl Operation for Set {
    const NAME: &'static str = "test.set";
    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        Ok(Undo::op(Set(number(page, at)?)))
    }
    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        page.put_u64(usize::from(at.0) * 8, self.0 as u64)
    }
}

/// Adds, without an undo.
#[derive(Debug, Serialize, Deserialize)]
struct AddForGood(i64);

impl Operation for AddForGood {
    const NAME: &'static str = "test.add_for_good";
    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::none())
    }
    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        Add(self.0).redo(page, at)
    }
}

/// Formats a fresh page for numbers.
#[derive(Debug, Serialize, Deserialize)]
struct Clear;

impl Operation for Clear {
    const NAME: &'static str = "test.clear";
    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::none())
    }
    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        page.format(LayoutKind::RAW);
        Ok(())
    }
}

/// Moves an amount back from the second page to the first; faulty if it does only half of that.
#[derive(Debug, Serialize, Deserialize)]
struct MoveBack {
    pages: [u64; 2],
    amount: i64,
    half: bool,
}

impl LogicalUndo for MoveBack {
    const NAME: &'static str = "test.move_back";
    fn undo(&self, txn: &mut Txn) -> Result<()> {
        txn.update_latched(at(self.pages[0], 0), &Add(self.amount))?;
        if !self.half {
            txn.update_latched(at(self.pages[1], 0), &Add(-self.amount))?;
        }
        Ok(())
    }
}

/// Sets the numbers of the second page to the one of the first; faulty if it reads only one of them.
#[derive(Debug, Serialize, Deserialize)]
struct CatchUp {
    pages: [u64; 2],
    looks_once: bool,
}

impl Finish for CatchUp {
    const NAME: &'static str = "test.catch_up";
    fn finish(&self, txn: &mut Txn) -> Result<()> {
        let missing = |txn: &Txn, slot| -> Result<i64> {
            let wanted = number(&*txn.read_latched(PageId::new(self.pages[0]))?, Slot(0))?;
            Ok(wanted - number(&*txn.read_latched(PageId::new(self.pages[1]))?, Slot(slot))?)
        };
        let of_the_first = missing(txn, 0)?;
        for slot in 0..3 {
            let missing = if self.looks_once { of_the_first } else { missing(txn, slot)? };
            txn.update_latched(at(self.pages[1], slot), &AddForGood(missing))?;
        }
        Ok(())
    }
}

/// An operation that changes a second page within its redo, through a global store.
#[derive(Debug, Serialize, Deserialize)]
struct AddToTwo {
    amount: i64,
    other: u64,
}

/// The store of that operation: there is no regular way to pass it.
static STORE: Mutex<Option<Store>> = Mutex::new(None);

impl Operation for AddToTwo {
    const NAME: &'static str = "test.add_to_two";
    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::op(Add(-self.amount)))
    }
    fn redo(&self, page: &mut PageMut<'_>, slot: Slot) -> Result<(), Damaged> {
        Add(self.amount).redo(page, slot)?;
        let store = STORE.lock().expect("not poisoned").clone();
        if let Some(store) = store {
            let mut txn = store.begin();
            let second = txn.update_latched(at(self.other, slot.0), &Add(-self.amount));
            let committed = second.and_then(|()| txn.commit(Commit::Async));
            committed.map_err(|_| Damaged::in_body(page.id(), 0, "the second page"))?;
        }
        Ok(())
    }
}

fn at(page: u64, slot: u16) -> RecordId {
    RecordId::new(PageId::new(page), Slot(slot))
}

fn registry() -> Registry {
    Registry::new()
        .operation::<Add>()
        .operation::<Set>()
        .operation::<AddForGood>()
        .operation::<Clear>()
        .operation::<AddToTwo>()
        .logical::<MoveBack>()
        .finish::<CatchUp>()
}

/// Faults of the transfers from the first to the second page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    No,
    /// The commit is acknowledged before it is durable.
    RepliesEarly,
    /// A transfer is two transactions.
    TwoTransactions,
    /// A transaction whose changes cannot be undone is rolled back.
    NoUndo,
    /// Two transactions change one number without isolation, and undo restores the previous number.
    NoNestedTopAction,
    /// Like a correct nested top action, but the structure's latch is released between its two steps.
    LatchReleasedEarly,
    /// The logical undo forgets one of the pages.
    HalfLogicalUndo,
    /// A redo that changes two pages.
    TwoPagesInOneRedo,
}

struct Transfers(Wrong);

impl Transfers {
    /// A correct transfer as a nested top action.
    fn nested(&self, txn: &mut Txn, pages: [u64; 2], amount: i64) -> Result<()> {
        let half = self.0 == Wrong::HalfLogicalUndo;
        txn.nested((), |txn| {
            txn.update_latched(at(pages[0], 0), &Add(-amount))?;
            txn.update_latched(at(pages[1], 0), &Add(amount))?;
            Ok(((), Undo::logical(&MoveBack { pages, amount, half })))
        })
    }

    fn transfer(&self, run: &Run<Self>, pages: [u64; 2], amount: i64) -> Outcome {
        let moved = move |numbers: &mut Numbers| {
            numbers[0][0] -= amount;
            numbers[1][0] += amount;
        };
        match self.0 {
            Wrong::RepliesEarly => {
                let ticket = run.transact_async(|txn| {
                    self.nested(txn, pages, amount)?;
                    Ok(moved)
                })?;
                run.disk().mark(ticket.lsn().get());
            }
            Wrong::TwoTransactions => {
                run.transact(|txn| {
                    txn.update(at(pages[0], 0), &Add(-amount))?;
                    Ok(|_: &mut Numbers| ())
                })?;
                run.transact(|txn| {
                    txn.update(at(pages[1], 0), &Add(amount))?;
                    Ok(moved)
                })?;
            }
            Wrong::TwoPagesInOneRedo => {
                run.transact(|txn| {
                    txn.update_latched(at(pages[0], 0), &AddToTwo { amount: -amount, other: pages[1] })?;
                    Ok(moved)
                })?;
            }
            _ => {
                run.transact(|txn| {
                    self.nested(txn, pages, amount)?;
                    Ok(moved)
                })?;
            }
        }
        Ok(())
    }

    /// A transaction that is open while another one commits, and commits later. The fault shows only if the power fails
    /// between the two.
    fn overtaken(&self, run: &Run<Self>, pages: [u64; 2], amount: i64) -> Outcome {
        let mut open = run.store().begin();
        match self.0 {
            Wrong::NoUndo => open.update_latched(at(pages[0], 1), &AddForGood(amount))?,
            Wrong::NoNestedTopAction => add_by_setting(&mut open, pages[0], amount)?,
            Wrong::LatchReleasedEarly => {
                let latch = Arc::new(StructureLatch::new(LatchRank(1)));
                let held = latch.exclusive_owned();
                open.nested((), |txn| {
                    add_by_setting(txn, pages[0], amount)?;
                    // Another thread enters here, and uses a change that may still be undone.
                    drop(held);
                    let now = latch.exclusive_owned();
                    let passing = run.transact(|txn| {
                        add_by_setting(txn, pages[0], 1)?;
                        Ok(|numbers: &mut Numbers| numbers[0][0] += 1)
                    });
                    passing.map_err(cedrat_txn::Error::user)?;
                    drop(now);
                    txn.update_latched(at(pages[0], 1), &Add(0))?;
                    Ok(((), Undo::logical(&MoveBack { pages, amount: 0, half: true })))
                })?;
            }
            _ => self.nested(&mut open, pages, amount)?,
        }
        self.transfer(run, pages, 1)?;
        let wrong = self.0;
        if wrong == Wrong::No && amount % 2_000 == 0 {
            open.rollback()?;
            return Ok(());
        }
        let ticket = run.commit(open, Commit::Sync, move |numbers| match wrong {
            Wrong::NoUndo => numbers[0][1] += amount,
            Wrong::NoNestedTopAction | Wrong::LatchReleasedEarly => numbers[0][0] += amount,
            _ => {
                numbers[0][0] -= amount;
                numbers[1][0] += amount;
            }
        })?;
        run.acknowledge(&ticket)?;
        Ok(())
    }
}

/// Adds to the first number of a page with an operation whose undo restores the previous number.
fn add_by_setting(txn: &mut Txn, page: u64, amount: i64) -> Result<()> {
    let seen = number(&*txn.read_latched(PageId::new(page))?, Slot(0))?;
    txn.update_latched(at(page, 0), &Set(seen + amount))
}

/// Four numbers of each page.
type Numbers = [[i64; 4]; 2];

impl Scenario for Transfers {
    type State = Numbers;
    type Roots = [u64; 2];

    fn options(&self) -> Options {
        Options { locks: Arc::new(NoLocks), ..Options::simulated() }
    }

    fn registry(&self) -> Registry {
        registry()
    }

    fn set_up(&self, store: &Store) -> Outcome<[u64; 2]> {
        Ok(store.transact(|txn| {
            let mut pages = [0; 2];
            for page in &mut pages {
                let fresh = txn.allocate()?;
                txn.update(RecordId::page(fresh), &Clear)?;
                *page = fresh.get();
            }
            Ok(pages)
        })?)
    }

    fn run(&self, run: &Run<Self>, pages: &[u64; 2]) -> Outcome {
        if self.0 == Wrong::TwoPagesInOneRedo {
            *STORE.lock().expect("not poisoned") = Some(run.store().clone());
        }
        for amount in 1..=12 {
            self.transfer(run, *pages, amount * 10)?;
            self.overtaken(run, *pages, amount * 1_000)?;
            if amount % 4 == 0 {
                run.store().checkpoint()?;
            }
        }
        Ok(())
    }

    fn read(&self, store: &Store, pages: &[u64; 2]) -> Outcome<Numbers> {
        let mut numbers = [[0; 4]; 2];
        for (numbers, page) in numbers.iter_mut().zip(pages) {
            let page = store.read(PageId::new(*page))?;
            for (slot, value) in (0..).zip(numbers) {
                *value = number(&page, Slot(slot))?;
            }
        }
        Ok(numbers)
    }
}

/// Growth in an ordered sequence: the first page has the target, and the numbers of the second follow one by one. There is no
/// I/O in it: only crashes behind single records cut it.
struct Growth {
    looks_once: bool,
}

impl Scenario for Growth {
    // The model does not contain the agreement of the pages: a finish is visible though no transaction has committed.
    type State = ();
    type Roots = [u64; 2];

    fn registry(&self) -> Registry {
        registry()
    }

    fn set_up(&self, store: &Store) -> Outcome<[u64; 2]> {
        Transfers(Wrong::No).set_up(store)
    }

    fn run(&self, run: &Run<Self>, pages: &[u64; 2]) -> Outcome {
        for amount in 1..8 {
            let grow = |txn: &mut Txn| {
                let finish = CatchUp { pages: *pages, looks_once: self.looks_once };
                txn.ordered((), &finish, |txn| {
                    txn.update_latched(at(pages[0], 0), &AddForGood(amount))?;
                    (0..3).try_for_each(|slot| txn.update_latched(at(pages[1], slot), &AddForGood(amount)))
                })
            };
            if amount % 2 == 0 {
                run.roll_back(|txn| Ok(grow(txn)?))?;
            } else {
                run.transact(|txn| Ok(grow(txn).map(|()| |_: &mut ()| ())?))?;
            }
        }
        Ok(())
    }

    fn read(&self, _: &Store, _: &[u64; 2]) -> Outcome<()> {
        Ok(())
    }

    fn check(&self, store: &Store, pages: &[u64; 2]) -> Outcome {
        let wanted = number(&*store.read(PageId::new(pages[0]))?, Slot(0))?;
        for slot in 0..3 {
            let followed = number(&*store.read(PageId::new(pages[1]))?, Slot(slot))?;
            if followed != wanted {
                return Err(format!("number {slot} is {followed}, not {wanted}").into());
            }
        }
        Ok(())
    }
}

fn find(wrong: Wrong) -> Result<check::Report, Failure> {
    let check = check::crashes(&format!("planted-{wrong:?}"), Transfers(wrong)).at_least(600).again(10, 20);
    check.never_undone(CatchUp::NAME).run()
}

#[track_caller]
fn caught(wrong: Wrong) -> Failure {
    let failure = find(wrong).expect_err("the planted fault must be caught");
    println!("{failure}");
    if !matches!(wrong, Wrong::TwoPagesInOneRedo | Wrong::TwoTransactions) {
        assert!(!failure.case.crashes.is_empty(), "only a crash shows it: {failure}");
    }
    failure
}

#[test]
fn the_right_workload_passes() {
    let report = find(Wrong::No).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.distinct > 100, "{report}");
    assert!(report.in_recovery > 10, "{report}");
}

/// The correct workload never logs the undo of an ordered sequence, which is registered.
#[test]
fn undo_that_never_ran_fails_the_check() {
    let failure = check::crashes("planted-uncovered", Transfers(Wrong::No)).run().expect_err("it covers too little");
    assert_eq!(failure.fault, Fault::NotCovered, "{failure}");
    assert!(failure.seen.contains(CatchUp::NAME), "{failure}");
}

#[test]
fn difference_while_running_is_a_model_failure() {
    let failure = caught(Wrong::TwoTransactions);
    assert_eq!(failure.fault, Fault::Model, "{failure}");
    assert!(failure.case.crashes.is_empty() && failure.seen.contains("after a commit"), "{failure}");
}

#[test]
fn reply_before_durable_commit_is_caught() {
    let failure = caught(Wrong::RepliesEarly);
    assert!(failure.seen.contains("acknowledged commit is lost"), "{failure}");
}

#[test]
fn a_change_in_two_transactions_is_caught() {
    assert_eq!(caught(Wrong::TwoTransactions).fault, Fault::Model);
}

#[test]
fn change_without_undo_is_caught() {
    caught(Wrong::NoUndo);
}

#[test]
fn a_missing_nested_top_action_is_caught() {
    caught(Wrong::NoNestedTopAction);
}

#[test]
fn early_latch_release_is_caught() {
    caught(Wrong::LatchReleasedEarly);
}

#[test]
fn a_wrong_logical_undo_is_caught() {
    caught(Wrong::HalfLogicalUndo);
}

#[test]
fn incomplete_finish_is_caught() {
    let growth = |looks_once| {
        let check = check::crashes("planted-growth", Growth { looks_once }).at_least(400);
        check.never_undone(MoveBack::NAME).run()
    };
    growth(false).unwrap_or_else(|failure| panic!("the right one: {failure}"));
    let failure = growth(true).expect_err("the planted fault must be caught");
    assert_eq!(failure.fault, Fault::Check, "{failure}");
}

#[test]
fn two_pages_in_one_redo_are_caught() {
    caught(Wrong::TwoPagesInOneRedo);
}

#[test]
fn a_failure_repeats_from_its_line() {
    let failure = caught(Wrong::HalfLogicalUndo);
    let line = failure.case.to_string();
    let case: check::Case = line.parse().expect("the line reads back");
    let again =
        check::crashes(&case.name, Transfers(Wrong::HalfLogicalUndo)).repeat(&case).expect_err("the same again");
    assert_eq!((again.seen, again.log), (failure.seen, failure.log));
}
