//! Latches of structures, where loads return any value that the memory model allows: `./x test` runs this under Miri.
#![forbid(unsafe_code)]
#![cfg(not(cedrat_shuttle))] // interleavings: interleavings.rs

use cedrat_pages::{LatchRank, StructureLatch};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::thread;

/// E12.2, E13.3: two numbers that are always equal under the latch.
#[test]
fn structures_are_seen_in_one_state() {
    let latch = StructureLatch::new(LatchRank(1));
    let numbers = [AtomicU64::new(0), AtomicU64::new(0)];
    let look = || numbers.each_ref().map(|number| number.load(Ordering::Relaxed));
    let changes = || {
        for _ in 0..3 {
            let _exclusive = latch.exclusive();
            let next = look()[0] + 1;
            numbers.iter().for_each(|number| number.store(next, Ordering::Relaxed));
        }
    };
    let shares = || {
        for _ in 0..3 {
            let _shared = latch.shared();
            let [one, other] = look();
            assert_eq!(one, other, "E13.3");
        }
    };
    let witnesses = || {
        for _ in 0..6 {
            let Some(stamp) = latch.stamp() else { continue };
            let [one, other] = look();
            assert!(!latch.is_unchanged_since(stamp) || one == other, "E12.2");
        }
    };
    thread::scope(|scope| {
        scope.spawn(changes);
        scope.spawn(changes);
        scope.spawn(shares);
        scope.spawn(witnesses);
    });
    assert_eq!(look(), [6, 6]);
}
