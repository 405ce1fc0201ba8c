//! Connections in memory between stores and replicas, with faults of either direction.
#![cfg(not(cedrat_shuttle))] // needs threads of the system

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cedrat_media::{Media, SimDisk};
use cedrat_sync::Arc;
use cedrat_txn::{FollowProgress, Follower, ReplicaFiles, ReplicaOptions, ReplicaServer, Result};
use cedrat_wal::Lsn;

use crate::parts::Part;

/// The time after which a read of a connection without lost bytes fails its test: nothing may hang.
const HANGS: Duration = Duration::from_secs(60);

/// The time after which a read gives up if bytes were lost, as a socket does.
const GIVES_UP: Duration = Duration::from_millis(40);

/// One direction of a connection.
#[derive(Default)]
struct Direction {
    state: Mutex<(VecDeque<u8>, bool)>,
    changed: Condvar,
}

/// A fault of the bytes that one end writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    /// The connection ends before a byte.
    Cut(usize),
    /// A bit of a byte is flipped.
    Flip(usize),
    /// A write is repeated, or is lost.
    Repeat(usize),
    Lose(usize),
    /// A write arrives after the next one.
    Swap(usize),
}

impl Fault {
    /// Whether an end may wait for bytes that do not come.
    fn loses(self) -> bool {
        matches!(self, Fault::Lose(_) | Fault::Swap(_))
    }
}

/// One end of a connection in memory.
pub(crate) struct End {
    from: Arc<Direction>,
    to: Arc<Direction>,
    fault: Fault,
    wait_max: Duration,
    bytes: usize,
    writes: usize,
    /// A write that arrives later.
    late: Vec<u8>,
}

/// Returns the ends of a replica and of a store. What each writes has a fault.
pub(crate) fn pair_with(of_replica: Fault, of_store: Fault) -> (End, End) {
    let (one, other) = (Arc::<Direction>::default(), Arc::<Direction>::default());
    let wait_max = if of_replica.loses() || of_store.loses() { GIVES_UP } else { HANGS };
    let end = |from: &Arc<Direction>, to: &Arc<Direction>, fault| {
        let (from, to, late) = (Arc::clone(from), Arc::clone(to), Vec::new());
        End { from, to, fault, wait_max, bytes: 0, writes: 0, late }
    };
    (end(&one, &other, of_replica), end(&other, &one, of_store))
}

pub(crate) fn pair(of_store: Fault) -> (End, End) {
    pair_with(Fault::None, of_store)
}

impl Direction {
    fn end(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

impl Read for End {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let began = Instant::now();
        let mut state = self.from.state.lock().unwrap();
        while state.0.is_empty() && !state.1 {
            let left = self.wait_max.saturating_sub(began.elapsed());
            if left.is_zero() {
                drop(state);
                assert!(self.wait_max == GIVES_UP, "a side of a connection hangs");
                return Err(ErrorKind::TimedOut.into());
            }
            state = self.from.changed.wait_timeout(state, left).unwrap().0;
        }
        state.0.read(to)
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut bytes = bytes.to_vec();
        let (len, begin) = (bytes.len(), self.bytes);
        self.bytes += len;
        self.writes += 1;
        let mut is_cut = false;
        match self.fault {
            Fault::Cut(at) if (begin..begin + len).contains(&at) => {
                bytes.truncate(at - begin);
                is_cut = true;
            }
            Fault::Flip(at) if (begin..begin + len).contains(&at) => bytes[at - begin] ^= 1 << (at % 8),
            Fault::Repeat(write) if write == self.writes => bytes.extend_from_within(..),
            Fault::Lose(write) if write == self.writes => bytes.clear(),
            Fault::Swap(write) if write == self.writes => self.late = std::mem::take(&mut bytes),
            _ => bytes.append(&mut self.late),
        }
        let mut state = self.to.state.lock().unwrap();
        if state.1 {
            return Err(ErrorKind::BrokenPipe.into());
        }
        state.0.extend(bytes);
        drop(state);
        self.to.changed.notify_all();
        if is_cut {
            self.to.end();
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.to.end();
        self.from.end();
    }
}

/// The replica's end of a connection. `noted` gets each LSN just before it is acknowledged.
struct Noting<F> {
    end: End,
    noted: F,
}

impl<F> Read for Noting<F> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.end.read(to)
    }
}

impl<F: FnMut(Lsn)> Write for Noting<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const ACKNOWLEDGED: u8 = 8;
        if bytes[0] == ACKNOWLEDGED {
            (self.noted)(Lsn::new(u64::from_le_bytes(bytes[16..24].try_into().unwrap())));
        }
        self.end.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn replica_files(disk: &SimDisk) -> ReplicaFiles {
    let part = |name| -> Arc<dyn Media> { Arc::new(Part::of(disk, name)) };
    ReplicaFiles { home: part("home"), base: part("base"), archive: part("kept") }
}

pub(crate) fn replica_options() -> ReplicaOptions {
    let heartbeat = Duration::from_millis(5);
    ReplicaOptions { limit_bytes: u64::MAX, moments: Duration::ZERO, heartbeat, ..ReplicaOptions::default() }
}

/// Follows a store over a connection with a fault, until the replica has an LSN, and returns how both sides have ended.
pub(crate) fn follow_with(
    server: &ReplicaServer,
    follower: &mut Follower,
    until: Lsn,
    fault: Fault,
    noted: impl FnMut(Lsn),
) -> (Result<()>, Result<()>) {
    follow_over(server, follower, until, pair(fault), noted)
}

/// Follows a store over a connection, whose ends are given.
pub(crate) fn follow_over(
    server: &ReplicaServer,
    follower: &mut Follower,
    until: Lsn,
    (ours, theirs): (End, End),
    noted: impl FnMut(Lsn),
) -> (Result<()>, Result<()>) {
    let server = server.clone();
    let served = thread::spawn(move || server.serve(theirs));
    let followed = follower.follow(Noting { end: ours, noted }, &mut |progress| match progress {
        FollowProgress::Log { up_to, .. } if up_to >= until => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    (followed, served.join().unwrap())
}
