//! Crashes inside recoveries, of workloads with few states and no losers.
#![cfg(not(cedrat_shuttle))]

use cedrat_check::{self as check, Outcome, Run, Scenario};
use cedrat_heap::HeapOptions;
use cedrat_txn::{Commit, Registry, Store};

/// A word of a heap, counted up a few times.
struct Counter;

impl Scenario for Counter {
    type State = u64;
    type Roots = ();

    fn registry(&self) -> Registry {
        Registry::new()
    }

    fn set_up(&self, store: &Store) -> Outcome {
        store.memory().create_heap("counter", &HeapOptions { chunk_len: 4_096, ..HeapOptions::raw(4_096) })?;
        Ok(())
    }

    fn run(&self, run: &Run<Counter>, (): &()) -> Outcome {
        let heap = run.store().memory().heap("counter")?;
        let mut session = run.store().memory().session()?;
        for _ in 0..3 {
            run.on_heaps(&mut session, Commit::Sync, |tx| {
                tx.update(&heap, 0, |count| count + 1)?;
                Ok(|count: &mut u64| *count += 1)
            })?;
        }
        Ok(())
    }

    fn read(&self, store: &Store, (): &()) -> Outcome<u64> {
        let heap = store.memory().heap("counter")?;
        Ok(heap.atomically(|tx| tx.read(&heap, 0))?)
    }
}

fn checked(check: check::Crashes<Counter>) -> check::Report {
    check.kills(0).fresh_processes(0).run().unwrap_or_else(|failure| panic!("{failure}"))
}

/// The last state has its turn, whatever the number of states.
#[test]
fn few_states_have_recovery_crashed() {
    let report = checked(check::crashes("counter", Counter));
    assert!(report.distinct - report.in_recovery < 50 && report.losers == 0, "{report}");
    assert!(report.in_recovery > 0, "{report}");
    assert!(report.notes.is_empty(), "{report}");
}

#[test]
fn report_says_no_recovery_was_crashed() {
    let report = checked(check::crashes("counter", Counter).at_most(3));
    assert_eq!(report.in_recovery, 0, "{report}");
    assert!(report.to_string().contains("note: no crash came inside a recovery"), "{report}");
    let unwanted = checked(check::crashes("counter", Counter).again(1, 0));
    assert!(unwanted.notes.is_empty(), "{unwanted}");
}
