//! Acknowledgements that a check must not pass: of commits that were never written.
#![cfg(not(cedrat_shuttle))]

use cedrat_check::{self as check, Fault, Outcome, Run, Scenario};
use cedrat_heap::{HeapOptions, MemoryOptions};
use cedrat_txn::{Commit, Options, Registry, Store};

/// A counter in a heap. If it lies, it acknowledges one more commit than it has made.
struct Counter {
    lies: bool,
}

impl Scenario for Counter {
    type State = u64;
    type Roots = ();

    fn options(&self) -> Options {
        Options { memory: MemoryOptions::small(), ..Options::simulated() }
    }

    fn registry(&self) -> Registry {
        Registry::new()
    }

    fn set_up(&self, store: &Store) -> Outcome {
        store.memory().create_heap("heap", &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) })?;
        Ok(())
    }

    fn run(&self, run: &Run<Counter>, (): &()) -> Outcome {
        let heap = run.store().memory().heap("heap")?;
        let mut session = heap.memory().session()?;
        for _ in 0..10 {
            let done = run.on_heaps(&mut session, Commit::Sync, |tx| {
                tx.update(&heap, 0, |count| count + 1)?;
                Ok(|count: &mut u64| *count += 1)
            })?;
            if self.lies && run.model() == 10 {
                run.disk().mark(done.get() + 1);
            }
        }
        Ok(())
    }

    fn read(&self, store: &Store, (): &()) -> Outcome<u64> {
        let heap = store.memory().heap("heap")?;
        Ok(heap.memory().run(Commit::Async, |tx| tx.read(&heap, 0))?.value)
    }
}

/// The disk is the same as before the last acknowledgement: the check judges it again.
#[test]
fn acknowledgement_after_last_write_is_checked() {
    check::crashes("honest", Counter { lies: false }).without_losers().again(50, 0).kills(0).run().unwrap();
    let failure =
        check::crashes("liar", Counter { lies: true }).without_losers().again(50, 0).kills(0).run().unwrap_err();
    assert!(failure.fault == Fault::Model && failure.seen.contains("acknowledged commit is lost"), "{failure}");
}

/// A workload without a commit.
struct Nothing;

impl Scenario for Nothing {
    type State = ();
    type Roots = ();

    fn registry(&self) -> Registry {
        Registry::new()
    }

    fn set_up(&self, _: &Store) -> Outcome {
        Ok(())
    }

    fn run(&self, _: &Run<Nothing>, (): &()) -> Outcome {
        Ok(())
    }

    fn read(&self, _: &Store, (): &()) -> Outcome {
        Ok(())
    }
}

#[test]
fn workload_without_commits_does_not_pass() {
    let failure = check::crashes("nothing", Nothing).run().expect_err("nothing was checked");
    assert!(failure.fault == Fault::NotCovered, "{failure}");
}
