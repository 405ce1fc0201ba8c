//! Figure `locks`: cost of a contended lock to its waiters and to all others, by threads.

use std::collections::VecDeque;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use cedrat::pages::PageId;
use cedrat::txn::{LockManager, LockMode, PageLocks, Resource};
use cedrat::wal::TxnId;

use crate::Settings;
use crate::job::{Scratch, rate};
use crate::report::{Goal, Point, Report, median, params};
use crate::systems::Result;

const THREADS: [u32; 4] = [2, 50, 200, 400];

/// Time for which each holder keeps the contended lock.
const HOLD: Duration = Duration::from_micros(100);

/// Transactions that hold a structure in an intention mode.
const HOLDERS: u64 = 20_000;

const HOT: Resource = Resource::Page(PageId::new(1));
const UNRELATED: Resource = Resource::Page(PageId::new(2));
const ROOT: Resource = Resource::Structure(PageId::new(3));

/// Measures hand-overs, an unrelated lock meanwhile, and a lock with very many holders.
pub(crate) fn figure(settings: &Settings, _: &mut Scratch) -> Result<Report> {
    let (seconds, repetitions) = if settings.quick { (0.3, 1) } else { (2.0, 3) };
    let seconds = settings.seconds.unwrap_or(seconds);
    let mut report = Report::default();
    for threads in THREADS {
        settings.tell(&format!("locks: {threads} threads"));
        let (mut table, mut mutex, mut unrelated) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..repetitions {
            let (hand_over, beside) = contended(threads, seconds)?;
            table.push(hand_over);
            unrelated.extend(beside);
            mutex.push(fifo_mutex(threads, seconds)?);
        }
        for (system, values, metric, unit) in [
            ("cedrat", table, "hand_over_us", "µs"),
            ("fifo-mutex", mutex, "hand_over_us", "µs"),
            ("cedrat", unrelated, "unrelated_lock_ns", "ns"),
        ] {
            let point = |value| Point::new("locks", system, params! {"threads": threads}, metric, value, unit);
            report.points.extend(median(values).map(point));
        }
    }
    settings.tell("locks: an unrelated lock alone, and one with many holders");
    let alone = lock_and_release_ns(&PageLocks::default(), UNRELATED, LockMode::Exclusive, 1 << 40);
    report.points.push(Point::new("locks", "cedrat", params! {"threads": 0}, "unrelated_lock_ns", alone, "ns"));
    for holders in [1, HOLDERS] {
        let locks = PageLocks::default();
        (1..=holders).try_for_each(|txn| locks.lock(TxnId(txn), ROOT, LockMode::IntentionExclusive))?;
        let cost = lock_and_release_ns(&locks, ROOT, LockMode::IntentionExclusive, 1 << 40);
        report.points.push(Point::new("locks", "cedrat", params! {"holders": holders}, "intention_ns", cost, "ns"));
    }
    goals(&mut report);
    Ok(report)
}

fn goals(report: &mut Report) {
    for threads in THREADS {
        let at = params! {"threads": threads};
        let reached = report.value("cedrat", "hand_over_us", &at).map(|value| value / HOLD.as_secs_f64() / 1e6);
        let what = format!("hand-over of a lock / the time that it is held, {threads} threads");
        report.goals.push(Goal::at_most(what, reached, 2.0));
        let ratio = report.ratio(("cedrat", "hand_over_us", &at), ("fifo-mutex", "hand_over_us", &at));
        let what = format!("hand-over of a lock / of a FIFO mutex, {threads} threads");
        report.goals.push(Goal::at_most(what, ratio, 1.25));
    }
    let (alone, beside) = (params! {"threads": 0}, params! {"threads": 400});
    let ratio = report.ratio(("cedrat", "unrelated_lock_ns", &beside), ("cedrat", "unrelated_lock_ns", &alone));
    report.goals.push(Goal::at_most("an unrelated lock beside 400 waiting threads / alone", ratio, 1.5));
    let (one, many) = (params! {"holders": 1}, params! {"holders": HOLDERS});
    let ratio = report.ratio(("cedrat", "intention_ns", &many), ("cedrat", "intention_ns", &one));
    report.goals.push(Goal::at_most(format!("IX beside {HOLDERS} holders / beside one"), ratio, 2.0));
}

fn hold() {
    let from = Instant::now();
    while from.elapsed() < HOLD {
        spin_loop();
    }
}

/// Microseconds from one hand-over to the next, the hold included, and nanoseconds of an unrelated lock meanwhile.
fn contended(threads: u32, seconds: f64) -> Result<(f64, Option<f64>)> {
    let (locks, next) = (PageLocks::default(), AtomicU64::new(1));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let mut costs = Vec::new();
            while !over.load(Ordering::Relaxed) {
                // An interval between samples: more of them would take processor time from the threads that are measured.
                thread::sleep(Duration::from_millis(5));
                costs.push(lock_and_release_ns(&locks, UNRELATED, LockMode::Exclusive, 1 << 40));
            }
            median(costs)
        });
        let rate = rate(threads, seconds, |_, goes_on| {
            loop {
                let txn = TxnId(next.fetch_add(1, Ordering::Relaxed));
                locks.lock(txn, HOT, LockMode::Exclusive)?;
                hold();
                locks.ended(txn);
                if !goes_on(1) {
                    return Ok(());
                }
            }
        });
        over.store(true, Ordering::Relaxed);
        let beside = beside.join().map_err(|_| "the thread beside panicked")?;
        Ok((1e6 / rate?, beside))
    })
}

/// Returns the median of short series of the same request, for a lock without conflicts.
fn lock_and_release_ns(locks: &PageLocks, resource: Resource, mode: LockMode, first: u64) -> f64 {
    const SERIES: u64 = 16;
    let series = |number: u64| {
        let from = Instant::now();
        for txn in 0..SERIES {
            let txn = TxnId(first + number * SERIES + txn);
            locks.lock(txn, resource, mode).expect("a lock without conflicts");
            locks.ended(txn);
        }
        from.elapsed().as_nanos() as f64 / SERIES as f64
    };
    median((0..101).map(series).collect()).expect("some series")
}

/// The ceiling: a mutex that each holder hands to the thread that has waited longest.
#[derive(Default)]
struct FifoMutex {
    state: Mutex<(bool, VecDeque<(Thread, Arc<AtomicBool>)>)>,
}

impl FifoMutex {
    fn lock(&self) {
        let mine = {
            let mut state = self.state.lock().expect("nothing panics under it");
            if !state.0 {
                state.0 = true;
                return;
            }
            let mine = Arc::new(AtomicBool::new(false));
            state.1.push_back((thread::current(), Arc::clone(&mine)));
            mine
        };
        while !mine.load(Ordering::Acquire) {
            thread::park();
        }
    }

    fn unlock(&self) {
        let next = {
            let mut state = self.state.lock().expect("nothing panics under it");
            let next = state.1.pop_front();
            state.0 = next.is_some();
            next
        };
        if let Some((thread, flag)) = next {
            flag.store(true, Ordering::Release);
            thread.unpark();
        }
    }
}

fn fifo_mutex(threads: u32, seconds: f64) -> Result<f64> {
    let mutex = FifoMutex::default();
    let rate = rate(threads, seconds, |_, goes_on| {
        loop {
            mutex.lock();
            hold();
            mutex.unlock();
            if !goes_on(1) {
                return Ok(());
            }
        }
    })?;
    Ok(1e6 / rate)
}
