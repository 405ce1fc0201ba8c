//! Commit modes that the figures compare (Hathi §3, Figure 3(b)).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use cedrat::heap::{Commit, Session};
use cedrat::wal::Lsn;
use serde::{Deserialize, Serialize};

use super::run::Done;
use crate::systems::Result;

/// Number of outstanding commits of a thread that waits for tokens: as many as threads commit in the few milliseconds that
/// a write and the scheduling of its thread may take. With fewer, the latency of the disk and the number of commits per
/// write are the limit.
const OUTSTANDING: usize = 64 << 10;

/// A mode of committing a sequence of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mode {
    /// Waiting for none of them.
    Async,
    /// Waiting for each.
    Sync,
    /// Waiting for each one's own partition.
    Partition,
    /// Waiting for each, [`OUTSTANDING`] later (split-phase commit).
    Token,
    /// Waiting for one in this many, and with it for all before.
    MixedSync(u64),
    /// Waiting for the partition of one in this many.
    MixedPartition(u64),
}

impl Mode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Async => "async",
            Mode::Sync => "sync",
            Mode::Partition => "partition",
            Mode::Token => "token",
            Mode::MixedSync(_) => "mixed-sync",
            Mode::MixedPartition(_) => "mixed-partition",
        }
    }

    /// Returns n if only one in n transactions is waited for.
    pub(super) fn one_in(self) -> Option<u64> {
        match self {
            Mode::MixedSync(one_in) | Mode::MixedPartition(one_in) => Some(one_in),
            _ => None,
        }
    }

    /// Returns the commit option of transaction `number`.
    fn commit(self, number: u64) -> Commit {
        match self {
            Mode::Async | Mode::Token => Commit::Async,
            Mode::Sync => Commit::Sync,
            Mode::Partition => Commit::Partition,
            Mode::MixedSync(one_in) if number.is_multiple_of(one_in) => Commit::Sync,
            Mode::MixedPartition(one_in) if number.is_multiple_of(one_in) => Commit::Partition,
            Mode::MixedSync(_) | Mode::MixedPartition(_) => Commit::Async,
        }
    }

    /// Runs transactions, each by a call of `each`, until `stop` is set.
    pub(super) fn drive(
        self,
        session: &mut Session,
        stop: &AtomicBool,
        mut each: impl FnMut(&mut Session, Commit) -> Result<Lsn>,
    ) -> Result<Done> {
        let mut done = Done { transactions: 0, last: Lsn::ZERO };
        let mut outstanding = VecDeque::with_capacity(OUTSTANDING);
        while !stop.load(Ordering::Relaxed) {
            done.transactions += 1;
            let lsn = each(session, self.commit(done.transactions))?;
            done.last = done.last.max(lsn);
            if self == Mode::Token {
                outstanding.push_back(lsn);
                wait_for_oldest(session, &mut outstanding)?;
            }
        }
        Ok(done)
    }
}

/// Waits for the oldest commit if the maximum is outstanding, and removes all others that became stable with it.
fn wait_for_oldest(session: &Session, outstanding: &mut VecDeque<Lsn>) -> Result<()> {
    let memory = session.memory();
    let (Some(log), Some(&oldest)) = (memory.log(), outstanding.front()) else { return Ok(()) };
    if outstanding.len() < OUTSTANDING {
        return Ok(());
    }
    memory.is_stable(oldest, true)?;
    let durable = log.durable_lsn();
    let stable = outstanding.partition_point(|&lsn| lsn <= durable);
    outstanding.drain(..stable);
    Ok(())
}
