//! Bounded queues that pass work from one thread to another.

use std::collections::VecDeque;

use crate::{Condvar, Mutex};

/// A bounded queue from one thread to another, in order.
///
/// Either end may disappear at any moment, also by a panic. The thread at each end holds a [`Closing`], which closes
/// the lane on every way out, and no thread waits at a closed lane.
#[derive(Debug)]
pub struct Lane<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    places: usize,
}

#[derive(Debug)]
struct State<T> {
    pieces: VecDeque<T>,
    closed: bool,
}

impl<T> Lane<T> {
    /// Creates an empty lane for `places` pieces: enough to keep the taker busy, few enough to bound memory.
    pub fn new(places: usize) -> Lane<T> {
        let state = State { pieces: VecDeque::with_capacity(places), closed: false };
        Lane { state: Mutex::new(state), changed: Condvar::new(), places }
    }

    /// Waits for a free place and adds the piece. A piece that is put after closing is dropped.
    pub fn put(&self, piece: T) {
        let mut state = self.state.lock();
        while state.pieces.len() >= self.places && !state.closed {
            self.changed.wait(&mut state);
        }
        if !state.closed {
            state.pieces.push_back(piece);
            self.changed.notify_all();
        }
    }

    /// Waits for a piece and returns it; `None` once the lane is closed and empty.
    pub fn take(&self) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(piece) = state.pieces.pop_front() {
                self.changed.notify_all();
                return Some(piece);
            }
            if state.closed {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Whether the lane is closed, so that what is put is dropped.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Closes the lane: no piece is added any more; those in it can still be taken.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}

/// Closes a lane when dropped.
#[derive(Debug)]
pub struct Closing<'a, T>(pub &'a Lane<T>);

impl<T> Drop for Closing<'_, T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arc, explore, thread};

    #[test]
    fn all_items_arrive_in_order() {
        explore(5, 300, || {
            let lane = Arc::new(Lane::new(2));
            let taker = {
                let lane = Arc::clone(&lane);
                thread::spawn(move || std::iter::from_fn(|| lane.take()).collect::<Vec<u32>>())
            };
            (0..7).for_each(|piece| lane.put(piece));
            lane.close();
            assert_eq!(taker.join().unwrap(), (0..7).collect::<Vec<_>>());
        });
    }

    #[test]
    fn sender_does_not_wait_after_receiver_ends() {
        explore(6, 300, || {
            let lane = Arc::new(Lane::new(1));
            let taker = {
                let lane = Arc::clone(&lane);
                thread::spawn(move || {
                    let _closed_at_end = Closing(&lane);
                    lane.take()
                })
            };
            (0..5).for_each(|piece| lane.put(piece));
            assert_eq!(taker.join().unwrap(), Some(0));
        });
    }
}
