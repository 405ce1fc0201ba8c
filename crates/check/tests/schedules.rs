//! Workloads with threads under the seeded scheduler of an ordinary build: right ones pass, and each planted race is caught.
#![forbid(unsafe_code)]
#![cfg(all(feature = "scheduler", not(cedrat_shuttle)))]

#[path = "integration/accounts.rs"]
mod accounts;
#[path = "integration/heap_bank.rs"]
mod heap_bank;

use std::collections::BTreeSet;
use std::time::Duration;

use cedrat_check as check;
use cedrat_check::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use cedrat_check::sync::{Condvar, Mutex, spin_hint};
use cedrat_check::{Failure, Fault, Outcome, Report, Run, Scenario};
use cedrat_pages::{Damaged, LayoutKind, PageId, PageMut, PageRef, Slot};
use cedrat_sync::Arc;
use cedrat_txn::{FormatFresh, NoLocks, Operation, Options, RecordId, Refused, Registry, Store, Undo};
use heap_bank::HeapBank;
use serde::{Deserialize, Serialize};

/// Sets a number; its undo restores the previous one.
#[derive(Debug, Serialize, Deserialize)]
struct Set(i64);

fn number(page: &PageRef<'_>, slot: usize) -> Result<i64, Damaged> {
    Ok(page.u64_at(slot * 8)? as i64)
}

impl Operation for Set {
    const NAME: &'static str = "test.set";
    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        Ok(Undo::op(Set(number(page, usize::from(at.0))?)))
    }
    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        page.put_u64(usize::from(at.0) * 8, self.0 as u64)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    CountReadBeforeLock,
    LockReleasedBeforeCommit,
    LockReleasedBeforeRollback,
    NoLock,
    OneLockPerThread,
    SumReadBeforeLock,
    TicketDrawnTwice,
    TicketComparedThenStored,
    FlagBeforeData,
    TwoOrders,
    WakeUpLost,
    OneOfTwoWoken,
    FlagNeverSet,
    SelfLocked,
}

const BUGS: [Bug; 14] = [
    Bug::CountReadBeforeLock,
    Bug::LockReleasedBeforeCommit,
    Bug::LockReleasedBeforeRollback,
    Bug::NoLock,
    Bug::OneLockPerThread,
    Bug::SumReadBeforeLock,
    Bug::TicketDrawnTwice,
    Bug::TicketComparedThenStored,
    Bug::FlagBeforeData,
    Bug::TwoOrders,
    Bug::WakeUpLost,
    Bug::OneOfTwoWoken,
    Bug::FlagNeverSet,
    Bug::SelfLocked,
];

const THREADS: usize = 3;
const TURNS: usize = 3;
const COUNT: usize = 0;
const SUM: usize = 1;
/// Slots that threads draw by tickets.
const TICKETS: usize = 8;
const SLOTS: usize = TICKETS + THREADS * TURNS;

/// Threads that count on one page, isolated by locks of their own.
struct Counting {
    bug: Bug,
}

/// State shared by the threads of one run.
#[derive(Default)]
struct Shared {
    count: Mutex<()>,
    of_threads: [Mutex<()>; THREADS],
    sum: Mutex<()>,
    tickets: AtomicU64,
    drawn: Mutex<BTreeSet<usize>>,
    value: AtomicI64,
    is_set: AtomicU64,
    arrived: Mutex<usize>,
    arrival: Condvar,
}

fn read(run: &Run<Counting>, page: PageId, slot: usize) -> Outcome<i64> {
    Ok(number(&*run.store().read(page)?, slot)?)
}

fn at(page: PageId, slot: usize) -> RecordId {
    RecordId::new(page, Slot(slot as u16))
}

impl Counting {
    fn count(&self, run: &Run<Counting>, shared: &Shared, thread: usize, page: PageId) -> Outcome {
        let early = read(run, page, COUNT)?;
        let lock = if self.bug == Bug::OneLockPerThread { &shared.of_threads[thread] } else { &shared.count };
        let mut guard = (self.bug != Bug::NoLock).then(|| lock.lock());
        let now = if self.bug == Bug::CountReadBeforeLock { early } else { read(run, page, COUNT)? };
        run.roll_back(|txn| {
            txn.update_latched(at(page, COUNT), &Set(now + 100))?;
            if self.bug == Bug::LockReleasedBeforeRollback {
                guard = None;
            }
            Ok(())
        })?;
        guard = guard.or_else(|| (self.bug == Bug::LockReleasedBeforeRollback).then(|| lock.lock()));
        let now = if self.bug == Bug::CountReadBeforeLock { early } else { read(run, page, COUNT)? };
        run.transact(|txn| {
            if self.bug == Bug::LockReleasedBeforeCommit {
                guard = None;
            }
            txn.update_latched(at(page, COUNT), &Set(now + 1))?;
            Ok(|state: &mut Vec<i64>| state[COUNT] += 1)
        })?;
        drop(guard);
        Ok(())
    }

    /// The sum is changed under both locks.
    fn sum(&self, run: &Run<Counting>, shared: &Shared, thread: usize, page: PageId) -> Outcome {
        let early = read(run, page, SUM)?;
        let other_way = self.bug == Bug::TwoOrders && thread == 1;
        let (first, second) = if other_way { (&shared.sum, &shared.count) } else { (&shared.count, &shared.sum) };
        let _first = first.lock();
        let _second = second.lock();
        if self.bug == Bug::SelfLocked && thread == 2 {
            drop(shared.sum.lock());
        }
        let now = if self.bug == Bug::SumReadBeforeLock { early } else { read(run, page, SUM)? };
        run.transact(|txn| {
            txn.update_latched(at(page, SUM), &Set(now + 10))?;
            Ok(|state: &mut Vec<i64>| state[SUM] += 10)
        })?;
        Ok(())
    }

    fn ticket(&self, shared: &Shared) -> usize {
        let tickets = &shared.tickets;
        let drawn = match self.bug {
            Bug::TicketDrawnTwice => {
                let next = tickets.load(Ordering::SeqCst);
                tickets.store(next + 1, Ordering::SeqCst);
                next
            }
            Bug::TicketComparedThenStored => loop {
                let next = tickets.load(Ordering::SeqCst);
                if tickets.load(Ordering::SeqCst) == next {
                    tickets.fetch_add(1, Ordering::SeqCst);
                    break next;
                }
            },
            _ => tickets.fetch_add(1, Ordering::SeqCst),
        };
        TICKETS + drawn as usize % (THREADS * TURNS)
    }

    /// Adds to a slot that no other thread uses.
    fn own_slot(&self, run: &Run<Counting>, shared: &Shared, page: PageId) -> Outcome {
        let slot = self.ticket(shared);
        if !shared.drawn.lock().insert(slot) {
            return Err(format!("two threads have drawn slot {slot}").into());
        }
        let now = read(run, page, slot)?;
        run.transact(|txn| {
            txn.update_latched(at(page, slot), &Set(now + 1))?;
            Ok(move |state: &mut Vec<i64>| state[slot] += 1)
        })?;
        Ok(())
    }

    /// Thread 0 passes a value to the others.
    fn pass(&self, shared: &Shared, thread: usize) -> Outcome {
        if thread > 0 {
            while shared.is_set.load(Ordering::SeqCst) == 0 {
                spin_hint();
            }
            let value = shared.value.load(Ordering::SeqCst);
            return if value == 7 { Ok(()) } else { Err(format!("the value is {value}").into()) };
        }
        if self.bug == Bug::FlagNeverSet {
            return Ok(());
        }
        if self.bug == Bug::FlagBeforeData {
            shared.is_set.store(1, Ordering::SeqCst);
        }
        shared.value.store(7, Ordering::SeqCst);
        shared.is_set.store(1, Ordering::SeqCst);
        Ok(())
    }

    /// Waits until all threads have come here.
    fn meet(&self, shared: &Shared) {
        let mut arrived = shared.arrived.lock();
        *arrived += 1;
        if *arrived == THREADS {
            match self.bug {
                Bug::OneOfTwoWoken => shared.arrival.notify_one(),
                _ => shared.arrival.notify_all(),
            };
        }
        if self.bug == Bug::WakeUpLost {
            let all = *arrived == THREADS;
            drop(arrived);
            arrived = shared.arrived.lock();
            if !all {
                shared.arrival.wait(&mut arrived);
            }
            return;
        }
        shared.arrival.wait_while(&mut arrived, |arrived| *arrived < THREADS);
    }
}

impl Scenario for Counting {
    type State = Vec<i64>;
    type Roots = PageId;

    fn options(&self) -> Options {
        Options { locks: Arc::new(NoLocks), ..Options::simulated() }
    }

    fn registry(&self) -> Registry {
        Registry::new().operation::<Set>()
    }

    fn set_up(&self, store: &Store) -> Outcome<PageId> {
        Ok(store.transact(|txn| {
            let page = txn.allocate()?;
            txn.update_latched(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
            Ok(page)
        })?)
    }

    fn run(&self, run: &Run<Self>, page: &PageId) -> Outcome {
        let (this, page, shared) = (Counting { bug: self.bug }, *page, Shared::default());
        run.in_threads(THREADS as u64, move |run, thread| {
            let thread = thread as usize;
            this.pass(&shared, thread)?;
            this.meet(&shared);
            for _ in 0..TURNS {
                this.count(run, &shared, thread, page)?;
                this.sum(run, &shared, thread, page)?;
                this.own_slot(run, &shared, page)?;
            }
            Ok(())
        })
    }

    fn read(&self, store: &Store, page: &PageId) -> Outcome<Vec<i64>> {
        let page = store.read(*page)?;
        Ok((0..SLOTS).map(|slot| number(&page, slot)).collect::<Result<_, _>>()?)
    }
}

fn tried(name: &str, bug: Bug) -> Result<Report, Failure> {
    let check = check::crashes(name, Counting { bug }).at_least(100).at_most(200).again(50, 5);
    check.limits(1_000_000, Duration::from_secs(60)).run()
}

#[test]
fn right_threads_pass() {
    tried("threads-right", Bug::None).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn planted_races_are_caught() {
    let missed: Vec<Bug> = BUGS.into_iter().filter(|&bug| tried("threads-wrong", bug).is_ok()).collect();
    assert!(missed.is_empty(), "missed of {}: {missed:?}", BUGS.len());
}

#[test]
fn failing_schedule_repeats_from_its_case() {
    let failure = tried("threads-repeated", Bug::LockReleasedBeforeCommit).expect_err("a race");
    let again = check::crashes("threads-repeated", Counting { bug: Bug::LockReleasedBeforeCommit });
    let again = again.repeat(&failure.case).expect_err("the same race");
    assert_eq!((again.fault, again.seen), (failure.fault, failure.seen));
}

#[test]
fn deadlock_is_reported_with_its_cycle() {
    let failure = tried("threads-deadlock", Bug::TwoOrders).expect_err("a deadlock");
    assert_eq!(failure.fault, Fault::Hang, "{failure}");
    let words = failure.to_string();
    let parts = [
        "waits-for cycle: thread",
        "(workload 1) waits at",
        "for a mutex, held by thread",
        "schedules.rs",
        "CEDRAT_CASE=",
    ];
    parts.iter().for_each(|part| assert!(words.contains(part), "{part} in {words}"));
}

#[test]
fn endless_wait_exceeds_step_limit() {
    let failure = tried("threads-endless", Bug::FlagNeverSet).expect_err("an endless loop");
    assert_eq!(failure.fault, Fault::Hang, "{failure}");
    assert!(failure.seen.contains("more than 1000000 steps"), "{failure}");
}

/// Three threads with twelve transactions each over words of a heap and records of a page, in ten schedules, with the
/// default limits.
#[test]
fn threads_over_heap_and_page_pass() {
    let heap_bank =
        HeapBank { clerks: 3, words: 6, transfers: 12, places: 3, checkpoint_every: 5, ..HeapBank::default() };
    let check = check::crashes("threads-heap-and-page", heap_bank).at_least(250).at_most(400).again(50, 10);
    let report = check.run().unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.commits >= 300, "{report}");
    report.print();
}
