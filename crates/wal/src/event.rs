//! Waiting for a block.
//!
//! Each block has one event; whoever needs the block to be durable sleeps on it. Waking is what group commit spends its
//! time on, so nobody is woken for nothing: the thread that made a block durable wakes all who sleep on it with one
//! call. When nobody writes and somebody should, one sleeper is woken to lead; it would have been woken anyway.

use cedrat_sync::WaitWord;
use std::time::Duration;

const OPEN: u32 = 0;
/// One sleeper should look again: there may be something to write.
const LEADER_WANTED: u32 = 1;
const DONE: u32 = 2;

/// Where committers wait for one block.
#[derive(Debug, Default)]
pub(crate) struct Event(WaitWord);

impl Event {
    /// Waits until the block is done, the log stopped, or this thread is asked to lead; at most for `patience`, if it is
    /// given. Says whether patience ran out.
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

    /// Wakes everybody, for good.
    pub(crate) fn set_done(&self) {
        self.0.store(DONE);
        self.0.wake_all();
    }

    /// Wakes one waiter to lead, or the next one to come.
    pub(crate) fn ask_to_lead(&self) {
        if self.0.change(OPEN, LEADER_WANTED) {
            self.0.wake_one();
        }
    }
}
