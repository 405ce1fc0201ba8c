//! Waiting for a block.
//!
//! Each block has one event. Whoever needs the block to be durable waits on it; the thread that made it durable
//! wakes them all with one call. When nobody writes and somebody should, one waiter is woken to lead: it would have
//! been woken anyway, so leading costs no wake-up more.

use cedrat_sync::{Condvar, Mutex};

/// Where committers wait for one block.
#[derive(Debug, Default)]
pub(crate) struct Event {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    done: bool,
    /// How many waiters have been asked to lead and have not woken yet.
    leads: u32,
    waiting: u32,
}

impl Event {
    /// Waits until the block is done, the log stopped, or this thread is asked to lead.
    pub(crate) fn wait(&self) {
        let mut state = self.state.lock();
        state.waiting += 1;
        while !state.done && state.leads == 0 {
            self.changed.wait(&mut state);
        }
        state.waiting -= 1;
        if !state.done {
            state.leads -= 1;
        }
    }

    /// Wakes everybody, for good.
    pub(crate) fn set_done(&self) {
        let mut state = self.state.lock();
        state.done = true;
        let anybody = state.waiting > 0;
        drop(state);
        if anybody {
            self.changed.notify_all();
        }
    }

    /// Wakes one waiter to lead; the next one to come, if nobody waits yet.
    pub(crate) fn ask_to_lead(&self) {
        let mut state = self.state.lock();
        state.leads += 1;
        drop(state);
        self.changed.notify_one();
    }
}
