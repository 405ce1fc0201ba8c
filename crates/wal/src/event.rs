//! Waiting for a block to become durable.
//!
//! Each block has one event, on which the committers of the block sleep. Group commit spends most of its time on
//! wake-ups, so no thread is woken without a reason: the thread that made a block durable wakes all its sleepers with
//! one call. When a block should be written and no thread writes it, one sleeper is woken to lead; it would have been
//! woken anyway.

use cedrat_sync::WaitWord;
use std::time::Duration;

const OPEN: u32 = 0;
/// One sleeper should look again: there may be something to write.
const LEADER_WANTED: u32 = 1;
const DONE: u32 = 2;

/// The wait queue of the committers of one block.
#[derive(Debug, Default)]
pub(crate) struct Event(WaitWord);

impl Event {
    /// Waits until the block is durable, the log stopped, or this thread is requested to lead; at most for
    /// `patience`, if it is given. Returns whether the patience elapsed.
    pub(crate) fn wait(&self, patience: Option<Duration>) -> bool {
        loop {
            match self.0.load() {
                OPEN => self.0.wait(OPEN, patience),
                LEADER_WANTED if self.0.change(LEADER_WANTED, OPEN) => return false,
                LEADER_WANTED => {}
                _ => return false,
            }
            if patience.is_some() && self.0.load() == OPEN {
                return true;
            }
        }
    }

    /// Wakes all waiters, permanently.
    pub(crate) fn set_done(&self) {
        self.0.store(DONE);
        self.0.wake_all();
    }

    /// Wakes one waiter to lead, or the next one to arrive.
    pub(crate) fn ask_to_lead(&self) {
        if self.0.change(OPEN, LEADER_WANTED) {
            self.0.wake_one();
        }
    }
}
