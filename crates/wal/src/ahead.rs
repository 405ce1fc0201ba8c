//! Read-ahead: another thread reads the next chunk of a partition while the caller processes the records of this one.

use cedrat_media::AlignedBuf;
use cedrat_sync::{Arc, Condvar, Mutex, thread};

use crate::read::Reader;
use crate::{LogError, LogOffset, Position};

/// A thread that reads one chunk at a time on request; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Ahead {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

/// A chunk that was read ahead.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) begin: LogOffset,
    pub(crate) bytes: AlignedBuf,
    /// The result of [`Reader::fill`].
    pub(crate) there: Result<bool, LogError>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    asked: Option<(Position, AlignedBuf)>,
    /// A request was made, and its result not taken yet.
    pending: bool,
    read: Option<Piece>,
    quit: bool,
    /// The thread has ended: nothing more is read.
    gone: bool,
}

impl Ahead {
    /// Starts the thread; `None` if the system cannot create one.
    pub(crate) fn start(reader: &Arc<Reader>) -> Option<Ahead> {
        let shared = Arc::new(Shared::default());
        let thread = {
            let (shared, reader) = (Arc::clone(&shared), Arc::clone(reader));
            thread::Builder::new().name("cedrat-log-read".into()).spawn(move || run(&shared, &reader)).ok()?
        };
        Some(Ahead { shared, thread: Some(thread) })
    }

    /// Requests the bytes from `position` on, as many as `bytes` holds. The previous result must have been taken.
    pub(crate) fn ask(&self, position: Position, bytes: AlignedBuf) {
        let mut state = self.shared.state.lock();
        debug_assert!(!state.pending, "one piece at a time is read ahead");
        state.pending = true;
        state.asked = Some((position, bytes));
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits for the requested chunk and returns it; `None` if there was no request.
    ///
    /// # Panics
    /// With the panic of the thread, if it panicked.
    pub(crate) fn take(&mut self) -> Option<Piece> {
        let mut state = self.shared.state.lock();
        while state.pending && state.read.is_none() && !state.gone {
            self.shared.changed.wait(&mut state);
        }
        let lost = state.pending && state.read.is_none();
        state.pending = false;
        let read = state.read.take();
        drop(state);
        if lost
            && let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
        {
            std::panic::resume_unwind(panic);
        }
        read
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.state.lock().quit = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic concerns a result that no caller asked for
        }
    }
}

/// Records on every way out, panic included, that the thread has ended, so that no caller waits for it.
struct Gone<'a>(&'a Shared);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.state.lock().gone = true;
        self.0.changed.notify_all();
    }
}

fn run(shared: &Shared, reader: &Reader) {
    let _gone_at_end = Gone(shared);
    let mut state = shared.state.lock();
    while !state.quit {
        let Some((position, mut bytes)) = state.asked.take() else {
            shared.changed.wait(&mut state);
            continue;
        };
        drop(state);
        let there = reader.fill(position, &mut bytes);
        state = shared.state.lock();
        state.read = Some(Piece { begin: position.offset, bytes, there });
        shared.changed.notify_all();
    }
}

// Under the scheduler a panic in any thread fails the test.
#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;
    use crate::PartitionId;
    use crate::epoch::Epochs;
    use crate::opening::Opening;
    use crate::read::Faults;
    use crate::segment::Geometry;
    use cedrat_media::SimDisk;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn waiter_of_panicked_thread_panics() {
        let reader = Arc::new(Reader {
            media: Arc::new(SimDisk::new()),
            store: [7; 16],
            geometry: Geometry { segment_len: 1 << 20 },
            epochs: Epochs { list: Vec::new() },
            block_seeds: Vec::new(),
            in_use: Vec::new(),
            recycled_below: Vec::new(),
            faults: Faults::default(),
            opening: Opening::default(),
        });
        let (tell, answer) = mpsc::channel();
        let waiting = thread::spawn(move || {
            let mut ahead = Ahead::start(&reader).expect("a thread");
            // A partition that the log does not have.
            let nowhere = Position { partition: PartitionId(77), offset: LogOffset::ZERO };
            ahead.ask(nowhere, AlignedBuf::zeroed(4096));
            let taken = catch_unwind(AssertUnwindSafe(|| ahead.take()));
            tell.send(taken.is_err()).expect("the test waits for it");
            // After the panic was passed on, the caller reads for itself.
            ahead.ask(nowhere, AlignedBuf::zeroed(4096));
            assert!(ahead.take().is_none());
        });
        assert_eq!(answer.recv_timeout(Duration::from_secs(60)), Ok(true), "no wait without end");
        waiting.join().expect("no second panic");
    }
}
