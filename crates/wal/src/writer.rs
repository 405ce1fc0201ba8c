//! The writer threads: asynchronous commits and promises when idle; segments ahead of need.
//!
//! Nothing correct depends on them; without them, committers, throttled appenders and reservations do their work. They are
//! two because making a segment takes as long as writing all of it, and commits should not wait so long.

use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, Condvar, Mutex, thread};
use std::time::Duration;

use crate::log::Shared;

/// The writer threads; they end, having flushed everything, when this is dropped.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
    preparer: Option<thread::JoinHandle<()>>,
}

/// How the thread is spoken to.
#[derive(Debug, Default)]
pub(crate) struct WriterState {
    running: AtomicBool,
    /// The thread sleeps long: everything is durable and promised.
    idle: AtomicBool,
    asked: Mutex<Asked>,
    changed: Condvar,
    /// For the thread that makes segments.
    preparing: Mutex<Preparing>,
    short: Condvar,
}

#[derive(Debug, Default)]
struct Asked {
    flush: bool,
    quit: bool,
}

#[derive(Debug, Default)]
struct Preparing {
    /// There are too few segments.
    short: bool,
    quit: bool,
}

impl WriterState {
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst)
    }

    /// Asks the thread to flush what there is. Cheap if it was asked already.
    pub(crate) fn flush_now(&self) {
        let mut asked = self.asked.lock();
        if !asked.flush {
            asked.flush = true;
            drop(asked);
            self.changed.notify_one();
        }
    }

    /// Something was appended: the thread must not sleep on.
    #[inline]
    pub(crate) fn appended(&self, sealed: bool) {
        if sealed || self.idle.load(Ordering::Relaxed) {
            self.appended_slowly();
        }
    }

    #[cold]
    fn appended_slowly(&self) {
        if self.is_running() {
            self.idle.store(false, Ordering::Relaxed);
            self.flush_now();
        }
    }
}

impl Writer {
    pub(crate) fn start(shared: &Arc<Shared>) -> Writer {
        let writer = &shared.writer;
        *writer.asked.lock() = Asked::default();
        *writer.preparing.lock() = Preparing::default();
        writer.running.store(true, Ordering::SeqCst);
        let spawn = |name: &str, run: fn(&Shared)| {
            let shared = Arc::clone(shared);
            thread::Builder::new().name(name.into()).spawn(move || run(&shared)).ok()
        };
        let thread = spawn("cedrat-log", run);
        if thread.is_none() {
            // The log works without; what the threads would do is done by those who need it.
            writer.running.store(false, Ordering::SeqCst);
        }
        let preparer = spawn("cedrat-segments", prepare);
        Writer { shared: Arc::clone(shared), thread, preparer }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let writer = &self.shared.writer;
        writer.asked.lock().quit = true;
        writer.changed.notify_one();
        writer.preparing.lock().quit = true;
        writer.short.notify_one();
        for thread in [self.thread.take(), self.preparer.take()].into_iter().flatten() {
            let _ = thread.join(); // a panic there was reported there
        }
        writer.running.store(false, Ordering::SeqCst);
        writer.idle.store(false, Ordering::SeqCst);
        self.shared.tickets.wake_all();
    }
}

/// Makes segments as long as there are too few, whenever that is said.
fn prepare(shared: &Shared) {
    let writer = &shared.writer;
    loop {
        let mut preparing = writer.preparing.lock();
        while !preparing.short && !preparing.quit {
            writer.short.wait(&mut preparing);
        }
        if preparing.quit {
            return;
        }
        preparing.short = false;
        drop(preparing);
        if shared.prepare_segment().is_err() {
            // The next reservation tries again, and says so.
        }
    }
}

fn run(shared: &Shared) {
    let interval = Duration::from_millis(shared.options.flush_interval_ms.max(1));
    let writer = &shared.writer;
    let mut before = shared.clock.newest();
    loop {
        let mut asked = writer.asked.lock();
        if !asked.flush && !asked.quit {
            // An idle thread is woken by the next append; looking once in a while makes up for a lost word.
            let idle = writer.idle.load(Ordering::Relaxed);
            writer.changed.wait_for(&mut asked, if idle { interval * 100 } else { interval });
        }
        let quit = asked.quit;
        asked.flush = false;
        drop(asked);
        let newest = shared.clock.newest();
        if shared.force(newest).is_err() {
            shared.tickets.wake_all();
            return;
        }
        if shared.space.is_short() {
            writer.preparing.lock().short = true;
            writer.short.notify_one();
        }
        if quit {
            return;
        }
        if newest == before && shared.promise().is_ok() {
            // Two looks without a record between them: sleep until there is one.
            writer.idle.store(true, Ordering::SeqCst);
            if shared.clock.newest() != newest {
                writer.idle.store(false, Ordering::SeqCst);
            }
        }
        before = newest;
    }
}
