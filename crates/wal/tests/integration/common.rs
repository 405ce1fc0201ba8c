//! Utilities shared by several tests.
#![allow(dead_code, unreachable_pub)] // the seeded scheduler and a feature leave out tests that use it

use cedrat_media::{Durability, Media, SimDisk};
use cedrat_sync::{Arc, Condvar, Mutex};
use cedrat_wal::*;

pub use crate::random::*;

pub fn media(disk: &SimDisk) -> Arc<dyn Media> {
    Arc::new(disk.clone())
}

/// Returns the head of a change.
pub fn update(txn: u64, previous: Option<LogOffset>) -> RecordHead {
    RecordHead::new(Kind::UPDATE, TxnId(txn), previous)
}

/// Looks at the log, with the planted fault of the options if there is one.
pub fn look(media: &Arc<dyn Media>, options: &LogOptions) -> Result<Found, LogError> {
    #[cfg(feature = "planted-faults")]
    return Found::look_faulty(media, options);
    #[cfg(not(feature = "planted-faults"))]
    {
        let _ = options;
        Log::look(media)
    }
}

/// Returns the message of a check that must fail.
pub fn caught(check: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).expect_err("the planted fault is caught");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().expect("a message")).to_owned(),
    }
}

/// Returns all LSNs of a scan.
pub fn lsns(mut scan: Scan) -> Vec<u64> {
    let mut lsns = Vec::new();
    while let Some(found) = scan.next().unwrap() {
        lsns.push(found.record.lsn.get());
    }
    lsns
}

/// Adds a row to the table of crash states that `./x test` prints: the number of states tried, and of distinct ones.
pub fn report_crash_states(name: &str, tried: usize, distinct: usize) {
    use std::io::Write;
    println!("{name}: {tried} crash states tried, {distinct} distinct");
    if let Some(file) = std::env::var_os("CEDRAT_CRASH_STATES") {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
        writeln!(file, "{name}\t{tried}\t{distinct}").unwrap();
    }
}

/// Holds back the first write of records until it is let through; all others pass.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    /// The newest LSN whose write has begun.
    reached: Lsn,
    open: bool,
}

impl Gate {
    /// Returns when a write with this LSN has begun, and all older writes that are not held back have ended.
    pub fn wait_until_reached(&self, lsn: Lsn) {
        let mut state = self.state.lock();
        while state.reached < lsn {
            self.changed.wait(&mut state);
        }
    }

    pub fn open(&self) {
        self.state.lock().open = true;
        self.changed.notify_all();
    }
}

/// A sink with a gate.
#[derive(Debug)]
pub struct Gated(pub Arc<Gate>);

impl Sink for Gated {
    fn stabilise(&self, piece: Piece<'_>, local: &dyn Local) -> std::io::Result<()> {
        let gate = &self.0;
        let first = piece.first_lsn == Lsn::new(1);
        if !first {
            local.write(Durability::Durable)?;
        }
        let mut state = gate.state.lock();
        state.reached = state.reached.max(piece.last_lsn);
        gate.changed.notify_all();
        while first && !state.open {
            gate.changed.wait(&mut state);
        }
        drop(state);
        if first { local.write(Durability::Durable) } else { Ok(()) }
    }
}
