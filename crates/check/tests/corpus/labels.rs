//! Labels: each slot of a page names one of many words.
//!
//! The wrong ones store a word's number, which a counter in a static gives out. All checks in one process pass: the static survives
//! each simulated crash. A process that starts again numbers nothing, and redoes other numbers.

use cedrat_check::{self as check, Case, Crashes, Fault, Outcome, Run, Scenario};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_sync::Arc;
use cedrat_txn::{NoLocks, Operation, Options, Refused, Registry, Store, Undo};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use crate::support::{at, get, pages, put};

/// The numbers of all words so far.
static NUMBERS: Mutex<BTreeMap<i64, i64>> = Mutex::new(BTreeMap::new());

/// Numbers a word.
fn number(word: i64) -> i64 {
    let mut numbers = NUMBERS.lock().expect("not poisoned");
    let next = numbers.len() as i64 + 1;
    *numbers.entry(word).or_insert(next)
}

/// The number of a word that has one.
fn known_number(word: i64) -> i64 {
    NUMBERS.lock().expect("not poisoned").get(&word).copied().unwrap_or(0)
}

#[derive(Debug, Serialize, Deserialize)]
struct Label {
    word: i64,
    is_numbered: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Restore {
    before: i64,
}

impl Operation for Label {
    const NAME: &'static str = "labels.label";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        if self.is_numbered {
            number(self.word);
        }
        Ok(Undo::op(Restore { before: get(page, usize::from(at.0))? }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        let label = if self.is_numbered { known_number(self.word) } else { self.word };
        put(page, usize::from(at.0), label)
    }
}

impl Operation for Restore {
    const NAME: &'static str = "labels.restore";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        Ok(Undo::op(Restore { before: get(page, usize::from(at.0))? }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        put(page, usize::from(at.0), self.before)
    }
}

const SLOTS: usize = 8;

struct Labels {
    is_numbered: bool,
}

impl Scenario for Labels {
    /// A map without an order: its `Debug` form is another one in each process.
    type State = HashMap<usize, i64>;
    type Roots = PageId;

    fn options(&self) -> Options {
        Options { locks: Arc::new(NoLocks), ..Options::simulated() }
    }

    fn registry(&self) -> Registry {
        Registry::new().operation::<Label>().operation::<Restore>()
    }

    fn set_up(&self, store: &Store) -> Outcome<PageId> {
        Ok(pages(store, 1)?[0])
    }

    fn run(&self, run: &Run<Self>, page: &PageId) -> Outcome {
        let is_numbered = self.is_numbered;
        for round in 0..40 {
            let (one, other) = (round % SLOTS, (round + 3) % SLOTS);
            let word = round as i64 * 7 + 1_000;
            run.transact(|txn| {
                txn.update_latched(at(*page, one), &Label { word, is_numbered })?;
                txn.update_latched(at(*page, other), &Label { word: word + 1, is_numbered })?;
                Ok(move |state: &mut HashMap<usize, i64>| {
                    for (slot, word) in [(one, word), (other, word + 1)] {
                        state.insert(slot, if is_numbered { known_number(word) } else { word });
                    }
                })
            })?;
            if round % 10 == 9 {
                run.store().checkpoint()?;
            }
        }
        Ok(())
    }

    fn read(&self, store: &Store, page: &PageId) -> Outcome<HashMap<usize, i64>> {
        let page = store.read(*page)?;
        Ok((0..SLOTS).map(|slot| Ok((slot, get(&page, slot)?))).collect::<Result<_, Damaged>>()?)
    }
}

fn labels(name: &str, is_numbered: bool) -> Crashes<Labels> {
    check::crashes(name, Labels { is_numbered }).at_least(100).again(50, 4).kills(2).shrink(0)
}

#[test]
fn fresh_processes_recover_same_state() {
    let report = labels("labels", false).run().unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((report.fresh, report.notes.as_slice()), (3, [].as_slice()), "{report}");
}

#[test]
fn operation_with_counter_in_static_fails() {
    let failure = labels("labels-numbered", true).run().expect_err("a new process has another counter");
    assert_eq!(failure.fault, Fault::FreshProcess, "{failure}");
    println!("{failure}");
}

#[test]
fn counter_in_static_survives_one_process() {
    let report = labels("labels-alone", true).fresh_processes(0).run().unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.fresh, 0);
}

#[test]
fn repeated_case_recovers_in_fresh_process() {
    let case = "labels-repeated seed=1 at=100/nothing".parse::<Case>().expect("a case");
    let failure = labels("labels-repeated", true).repeat(&case).expect_err("a new process has another counter");
    assert_eq!(failure.fault, Fault::FreshProcess, "{failure}");
}

#[test]
fn unnamed_thread_gets_a_note() {
    let check = std::thread::spawn(|| labels("labels-unnamed", false).run());
    let report = check.join().expect("no panic").unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.fresh, 0);
    assert!(report.notes.iter().any(|note| note.contains("name of the running test is unknown")), "{report}");
}
