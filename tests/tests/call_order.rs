//! Calls of the public API in any order: errors, never damage, a panic, an endless wait, or a loss of acknowledged changes.
//!
//! Handles are cloned and outlive their openings, are used with another store, and move between threads; stores are closed,
//! opened, and lose their power; savepoints and branches are used out of order.
#![forbid(unsafe_code)]
#![cfg(not(cedrat_shuttle))]

#[path = "call_order/judge.rs"]
mod judge;
#[path = "call_order/place.rs"]
mod place;
#[path = "call_order/world.rs"]
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use cedrat::check::{Rng, seed};
use world::{Call, World};

/// Number of calls of one case.
const CALLS: usize = 160;

fn run(calls: &[Call], directory: Option<&Path>) -> Result<(), String> {
    let made = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(directory);
        for (number, call) in calls.iter().enumerate() {
            world.call(*call).map_err(|why| format!("call {number}, {call:?}: {why}"))?;
        }
        world.end()
    }));
    made.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("a panic: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("of another kind")))
    })
}

fn run_fresh(calls: &[Call], is_real: bool) -> Result<(), String> {
    if !is_real {
        return run(calls, None);
    }
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    run(calls, Some(folder.path()))
}

/// Leaves calls out as long as the case still fails.
fn shrunk(mut calls: Vec<Call>, is_real: bool) -> (Vec<Call>, String) {
    let mut why = run_fresh(&calls, is_real).err().unwrap_or_default();
    let mut len = calls.len() / 2;
    while len > 0 {
        let mut at = 0;
        while at < calls.len() {
            let mut fewer = calls.clone();
            fewer.drain(at..(at + len).min(calls.len()));
            match run_fresh(&fewer, is_real) {
                Err(other) => (calls, why) = (fewer, other),
                Ok(()) => at += len,
            }
        }
        len /= 2;
    }
    (calls, why)
}

fn explore(test: &str, cases: u64, is_real: bool) {
    let seed = seed(1);
    for number in 0..cases {
        let mut rng = Rng::new(seed).part(number);
        let calls: Vec<Call> = (0..CALLS).map(|_| Call::random(&mut rng)).collect();
        if run_fresh(&calls, is_real).is_err() {
            let (calls, why) = shrunk(calls, is_real);
            let calls: Vec<String> = calls.iter().map(|call| format!("  {call:?}")).collect();
            panic!(
                "case {number}: {why}\nof these calls:\n{}\nto repeat: CEDRAT_SEED={seed} cargo test -p cedrat-tests --test \
                 call_order {test}",
                calls.join("\n")
            );
        }
    }
}

/// S7, E1.8, W3, W4, E5.3, E9.2.
#[test]
fn random_calls_damage_nothing() {
    explore("random_calls_damage_nothing", 300, false);
}

#[test]
fn random_calls_damage_no_real_file() {
    explore("random_calls_damage_no_real_file", 10, true);
}
