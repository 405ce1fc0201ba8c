//! Waiting for a block.
//!
//! Each block has one event; whoever needs the block to be durable waits on it. Waking is what group commit spends
//! its time on, so no waiter is woken for nothing, and the work is shared: the thread that made the block durable
//! wakes a few, each of whom wakes a few more before it goes its way.

use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Condvar, Mutex, thread};
use std::time::Duration;

/// How many others a thread wakes.
const WAKES: usize = 2;

/// Where committers wait for one block.
#[derive(Debug, Default)]
pub(crate) struct Event {
    done: AtomicBool,
    state: Mutex<State>,
    /// For the one waiter that looks at the time.
    timed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    sleepers: Vec<thread::Thread>,
    /// A sleeper, or the timed waiter, should write the block.
    lead: bool,
    timed_waits: bool,
}

impl Event {
    /// Waits until the block is done, the log stopped, or this thread is asked to lead; at most for `patience`.
    pub(crate) fn wait(&self, patience: Option<Duration>) {
        match patience {
            Some(patience) => self.wait_timed(patience),
            None => self.sleep(),
        }
        if self.done.load(Ordering::Acquire) {
            self.wake_some();
        }
    }

    fn sleep(&self) {
        let mut state = self.state.lock();
        if self.done.load(Ordering::Acquire) || std::mem::take(&mut state.lead) {
            return;
        }
        let me = thread::current();
        let id = me.id();
        state.sleepers.push(me);
        drop(state);
        loop {
            thread::park();
            if self.done.load(Ordering::Acquire) {
                return;
            }
            let mut state = self.state.lock();
            // Whoever was asked to lead is no longer among the sleepers; a wake-up without a reason changes nothing.
            if !state.sleepers.iter().any(|sleeper| sleeper.id() == id) {
                state.lead = false;
                return;
            }
        }
    }

    fn wait_timed(&self, patience: Duration) {
        let mut state = self.state.lock();
        if self.done.load(Ordering::Acquire) || std::mem::take(&mut state.lead) {
            return;
        }
        state.timed_waits = true;
        self.timed.wait_for(&mut state, patience);
        state.timed_waits = false;
    }

    /// Wakes everybody, for good.
    pub(crate) fn set_done(&self) {
        self.done.store(true, Ordering::Release);
        self.wake_some();
    }

    fn wake_some(&self) {
        let mut state = self.state.lock();
        let timed = std::mem::take(&mut state.timed_waits);
        let left = state.sleepers.len().saturating_sub(WAKES);
        let woken = state.sleepers.split_off(left);
        drop(state);
        if timed {
            self.timed.notify_one();
        }
        for sleeper in woken {
            sleeper.unpark();
        }
    }

    /// Wakes one waiter to lead, or the next one to come.
    pub(crate) fn ask_to_lead(&self) {
        let mut state = self.state.lock();
        if state.timed_waits {
            drop(state);
            self.timed.notify_one();
            return;
        }
        state.lead = true;
        let leader = state.sleepers.pop();
        drop(state);
        if let Some(leader) = leader {
            leader.unpark();
        }
    }
}
