//! Reading ahead: another thread reads the next chunk of a partition while the records of this one are worked through.

use cedrat_media::AlignedBuf;
use cedrat_sync::{Arc, Condvar, Mutex, thread};

use crate::read::Reader;
use crate::{LogError, LogOffset, Position};

/// A thread that reads one chunk at a time when asked to; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Ahead {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What was read ahead.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) begin: LogOffset,
    pub(crate) bytes: AlignedBuf,
    /// As [`Reader::fill`] says.
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
    /// Something was asked for and not taken yet.
    pending: bool,
    read: Option<Piece>,
    quit: bool,
}

impl Ahead {
    /// Starts the thread; `None` if there is none to have.
    pub(crate) fn start(reader: &Arc<Reader>) -> Option<Ahead> {
        let shared = Arc::new(Shared::default());
        let thread = {
            let (shared, reader) = (Arc::clone(&shared), Arc::clone(reader));
            thread::Builder::new().name("cedrat-log-read".into()).spawn(move || run(&shared, &reader)).ok()?
        };
        Some(Ahead { shared, thread: Some(thread) })
    }

    /// Asks for the bytes from `position` on, as many as `bytes` has room for, after all that was asked for was taken.
    pub(crate) fn ask(&self, position: Position, bytes: AlignedBuf) {
        let mut state = self.shared.state.lock();
        debug_assert!(!state.pending, "one piece at a time is read ahead");
        state.pending = true;
        state.asked = Some((position, bytes));
        drop(state);
        self.shared.changed.notify_all();
    }

    /// What was asked for, as soon as it is read; `None` if nothing was.
    pub(crate) fn take(&self) -> Option<Piece> {
        let mut state = self.shared.state.lock();
        while state.pending && state.read.is_none() {
            self.shared.changed.wait(&mut state);
        }
        state.pending = false;
        state.read.take()
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.state.lock().quit = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic there was reported there
        }
    }
}

fn run(shared: &Shared, reader: &Reader) {
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
