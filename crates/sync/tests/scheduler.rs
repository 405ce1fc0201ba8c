//! Runs of the seeded scheduler beside threads of the system, in one build.
#![cfg(all(feature = "scheduler", not(cedrat_shuttle)))]

use std::time::{Duration, Instant};

use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Condvar, Limits, Mutex, is_scheduled, schedule, thread};

const LIMITS: Limits = Limits { steps_max: 100_000, time_max: Duration::from_secs(60) };

/// Two threads add without atomicity.
fn lost_update(seed: u64, count: &Arc<AtomicU64>) -> u64 {
    let count = Arc::clone(count);
    let add = |count: &AtomicU64| count.store(count.load(Ordering::SeqCst) + 1, Ordering::SeqCst);
    schedule(seed, LIMITS, move || {
        count.store(0, Ordering::SeqCst);
        let other = Arc::clone(&count);
        let other = thread::spawn(move || add(&other));
        add(&count);
        other.join().expect("no panic");
        count.load(Ordering::SeqCst)
    })
    .expect("no hang")
}

#[test]
fn seed_repeats_its_schedule() {
    // Made outside of the runs, and used in all of them.
    let count = Arc::new(AtomicU64::new(0));
    let ends: Vec<u64> = (0..40).map(|seed| lost_update(seed, &count)).collect();
    assert!(ends.contains(&1) && ends.contains(&2), "both interleavings: {ends:?}");
    let again: Vec<u64> = (0..40).map(|seed| lost_update(seed, &count)).collect();
    assert_eq!(ends, again);
    assert!(!is_scheduled());
}

#[test]
fn deadlock_names_cycle_and_places() {
    let both = Arc::new((Mutex::new(()), Mutex::new(())));
    let hang = (0..100).find_map(|seed| {
        let both = Arc::clone(&both);
        schedule(seed, LIMITS, move || {
            let other = Arc::clone(&both);
            let other = thread::Builder::new().name("other".into()).spawn(move || {
                let first = other.1.try_lock();
                if first.is_some() {
                    drop(other.0.lock());
                }
            });
            let first = both.0.lock();
            drop(both.1.lock());
            drop(first);
            other.expect("a thread").join().expect("no panic");
        })
        .err()
    });
    let words = hang.expect("a schedule that deadlocks").to_string();
    for part in ["waits-for cycle: thread 0 -> thread 1 (other) -> thread 0", "for a mutex, held by", "scheduler.rs:"] {
        assert!(words.contains(part), "{part} in {words}");
    }
}

#[test]
fn endless_loop_exceeds_step_limit() {
    let limits = Limits { steps_max: 1_000, ..LIMITS };
    let hang = schedule(1, limits, || {
        loop {
            thread::yield_now();
        }
    });
    let words = hang.expect_err("no end").to_string();
    assert_eq!(words, "the schedule of seed 1 took more than 1000 steps");
}

#[test]
fn endless_loop_exceeds_time_limit() {
    let limits = Limits { steps_max: usize::MAX, time_max: Duration::from_millis(50) };
    let hang = schedule(1, limits, || {
        loop {
            thread::yield_now();
        }
    });
    assert!(hang.expect_err("no end").to_string().starts_with("the schedule of seed 1 took more than 50ms"));
}

/// The process may get no turn for longer than the time limit, as on a loaded machine: that is no hang.
#[test]
fn pause_does_not_end_process() {
    let limits = Limits { time_max: Duration::from_millis(1), ..LIMITS };
    let paused = schedule(1, limits, || {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
    });
    assert_eq!(paused, Ok(()));
}

/// Set in the process that blocks.
const BLOCKS_VARIABLE: &str = "CEDRAT_TEST_BLOCKS";

#[test]
fn unknown_wait_ends_process() {
    if std::env::var_os(BLOCKS_VARIABLE).is_some() {
        let limits = Limits { time_max: Duration::from_millis(1), ..LIMITS };
        // A scheduled thread that waits for a channel of the system blocks all others of its run.
        let ended = schedule(1, limits, move || {
            let (sender, receiver) = std::sync::mpsc::channel::<()>();
            let waits = thread::spawn(move || receiver.recv().is_ok());
            assert!(!waits.join().expect("no panic"));
            drop(sender);
        });
        panic!("the run has ended: {ended:?}");
    }
    let this = std::env::current_exe().expect("this program has a path");
    let mut command = std::process::Command::new(this);
    command.args(["--exact", "unknown_wait_ends_process"]).env(BLOCKS_VARIABLE, "");
    let output = command.output().expect("this program can be executed again");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("a scheduled run made no step for 10s"), "{words}");
}

#[test]
fn panic_of_a_body_is_passed_on() {
    let panic = std::panic::catch_unwind(|| schedule(1, LIMITS, || panic!("in the body")));
    assert_eq!(panic.expect_err("it panics").downcast_ref::<&str>(), Some(&"in the body"));
    assert!(!is_scheduled());
}

#[test]
fn runs_and_system_threads_work_at_once() {
    let shared = Arc::new((Mutex::new(0_u64), Condvar::new()));
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let shared = &shared;
            scope.spawn(move || {
                (0..20).for_each(|turn| {
                    let of_run = Arc::clone(shared);
                    schedule(seed * 100 + turn, LIMITS, move || {
                        let other = Arc::clone(&of_run);
                        let other = thread::spawn(move || *other.0.lock() += 1);
                        *of_run.0.lock() += 1;
                        of_run.1.notify_all();
                        other.join().expect("no panic");
                    })
                    .expect("no hang");
                });
            });
        }
        let mut count = shared.0.lock();
        shared.1.wait_while(&mut count, |count| *count == 0);
        drop(count);
    });
    assert_eq!(*shared.0.lock(), 160);
}

cedrat_sync::thread_local! {
    static OWN: std::cell::Cell<u64> = const { std::cell::Cell::new(7) };
}

#[test]
fn run_threads_have_their_own_locals() {
    OWN.with(|own| own.set(1));
    let seen = schedule(1, LIMITS, || {
        let read = || {
            let before = OWN.with(std::cell::Cell::get);
            OWN.with(|own| own.set(before + 1));
            thread::yield_now();
            OWN.with(std::cell::Cell::get)
        };
        let other = thread::spawn(read);
        (read(), other.join().expect("no panic"))
    });
    assert_eq!(seen, Ok((8, 8)));
    assert_eq!(OWN.with(std::cell::Cell::get), 1);
}
