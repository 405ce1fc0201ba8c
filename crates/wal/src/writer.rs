//! The writer threads: asynchronous commits and promises when idle; segments ahead of need.
//!
//! Nothing correct depends on them; without them, committers, throttled appenders and reservations do their work.
//!
//! Several write, each for partitions of its own: who waits for one partition's latch, whose holder may have lost its
//! processor, keeps no other partition waiting. Making a segment takes as long as writing all of it, and beginning one
//! three writes: threads of their own do that.

use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, Condvar, Mutex, hurry, thread};
use std::time::Duration;

use crate::log::Shared;
use crate::{LogOptions, PartitionId};

/// So many threads write, at most; the partitions are dealt out among them.
const WRITERS_MAX: u16 = 8;

/// The writer threads; they end, having flushed everything, when this is dropped.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// How the threads are spoken to.
#[derive(Debug)]
pub(crate) struct WriterState {
    running: AtomicBool,
    /// The threads sleep long: everything is durable and promised.
    idle: AtomicBool,
    /// Those who write.
    write: Vec<Call>,
    /// Who begins segments.
    begin: Call,
    /// Who makes segments.
    make: Call,
}

/// How one thread is called.
#[derive(Debug, Default)]
struct Call {
    asked: Mutex<Asked>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Asked {
    something: bool,
    quit: bool,
}

impl Call {
    /// Asks the thread to do what it does. Cheap if it was asked already.
    fn ask(&self) {
        let mut asked = self.asked.lock();
        if !asked.something {
            asked.something = true;
            drop(asked);
            self.changed.notify_one();
        }
    }

    fn ask_to_quit(&self) {
        self.asked.lock().quit = true;
        self.changed.notify_one();
    }

    /// Returns when the thread was asked, or when `at_most` is over. Says whether it is to quit.
    fn hear(&self, at_most: impl Fn() -> Option<Duration>) -> bool {
        let mut asked = self.asked.lock();
        if !asked.something && !asked.quit {
            match at_most() {
                Some(time) => {
                    self.changed.wait_for(&mut asked, time);
                }
                None => {
                    while !asked.something && !asked.quit {
                        self.changed.wait(&mut asked);
                    }
                }
            }
        }
        asked.something = false;
        asked.quit
    }
}

impl WriterState {
    pub(crate) fn new(partitions: u16) -> WriterState {
        let write = (0..partitions.min(WRITERS_MAX)).map(|_| Call::default()).collect();
        let (running, idle) = (AtomicBool::new(false), AtomicBool::new(false));
        WriterState { running, idle, write, begin: Call::default(), make: Call::default() }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst)
    }

    /// Asks the thread that writes a partition to flush what there is. Cheap if it was asked already.
    pub(crate) fn flush(&self, partition: PartitionId) {
        self.write[partition.index() % self.write.len()].ask();
    }

    /// Something was appended: the partition's thread must not sleep on.
    #[inline]
    pub(crate) fn appended(&self, partition: PartitionId, sealed: bool) {
        if sealed || self.idle.load(Ordering::Relaxed) {
            self.appended_slowly(partition);
        }
    }

    #[cold]
    fn appended_slowly(&self, partition: PartitionId) {
        if !self.is_running() {
            return;
        }
        if self.idle.swap(false, Ordering::Relaxed) {
            self.write.iter().for_each(Call::ask); // none sleeps long any more
        } else {
            self.flush(partition);
        }
    }

    /// How long a thread that writes waits to be asked before it writes what there is.
    fn patience(&self, options: &LogOptions) -> Duration {
        let interval = Duration::from_millis(options.flush_interval_ms.max(1));
        // An idle thread is woken by the next append; looking once in a while makes up for a lost word.
        if self.idle.load(Ordering::Relaxed) { interval * 100 } else { interval }
    }

    fn all(&self) -> impl Iterator<Item = &Call> {
        self.write.iter().chain([&self.begin, &self.make])
    }
}

impl Writer {
    pub(crate) fn start(shared: &Arc<Shared>) -> Writer {
        let writer = &shared.writer;
        writer.all().for_each(|call| *call.asked.lock() = Asked::default());
        writer.running.store(true, Ordering::SeqCst);
        let mut threads = Vec::new();
        for number in 0..writer.write.len() {
            threads.extend(spawn(shared, format!("cedrat-log-{number}"), move |shared| write(shared, number)));
        }
        if threads.len() < writer.write.len() {
            // The log works without; what the threads would do is done by those who need it.
            writer.running.store(false, Ordering::SeqCst);
        }
        threads.extend(spawn(shared, "cedrat-begins".into(), begin));
        threads.extend(spawn(shared, "cedrat-segments".into(), make));
        Writer { shared: Arc::clone(shared), threads }
    }
}

fn spawn(
    shared: &Arc<Shared>,
    name: String,
    run: impl FnOnce(&Shared) + Send + 'static,
) -> Option<thread::JoinHandle<()>> {
    let shared = Arc::clone(shared);
    thread::Builder::new().name(name).spawn(move || run(&shared)).ok()
}

impl Drop for Writer {
    fn drop(&mut self) {
        let writer = &self.shared.writer;
        writer.all().for_each(Call::ask_to_quit);
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // a panic there was reported there
        }
        writer.running.store(false, Ordering::SeqCst);
        writer.idle.store(false, Ordering::SeqCst);
        self.shared.tickets.wake_all();
    }
}

/// Makes segments as long as there are too few, whenever that is said.
fn make(shared: &Shared) {
    while !shared.writer.make.hear(|| None) {
        if shared.prepare_segment().is_err() {
            // The next reservation tries again, and says so.
        }
    }
}

/// Begins segments ahead of need, whenever one is wanted.
fn begin(shared: &Shared) {
    hurry();
    while !shared.writer.begin.hear(|| None) {
        if shared.begin_ahead().is_err() {
            return; // the log stopped
        }
    }
}

/// Writes the partitions of one thread. The first one looks after the rest as well.
fn write(shared: &Shared, number: usize) {
    hurry();
    let writer = &shared.writer;
    let own = || shared.partitions.iter().skip(number).step_by(writer.write.len());
    let mut before = shared.clock.newest();
    loop {
        let quit = writer.write[number].hear(|| Some(writer.patience(&shared.options)));
        let newest = shared.clock.newest();
        let written = match quit {
            true => shared.force(newest).map(drop),
            false => own().try_for_each(|partition| shared.write_out(partition)),
        };
        if written.is_err() {
            shared.tickets.wake_all();
            return;
        }
        if quit {
            return;
        }
        if own().any(|partition| shared.ahead_of(partition).is_some()) {
            writer.begin.ask();
        }
        if number > 0 {
            continue;
        }
        if shared.space.is_short() {
            writer.make.ask();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteLen, EntryLog, EntryLogOptions, Kind, Log, Lsn, RecordHead, TxnId};
    use cedrat_media::{Media, SimDisk};
    use cedrat_sync::explore;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    /// A writer that is roused for nothing takes a processor from those who commit.
    #[test]
    fn who_awaits_a_ticket_rouses_only_writers_of_partitions_that_are_late() {
        explore(1, 1, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let options = LogOptions { partitions: 4, ..LogOptions::small() };
            let log = Log::create(&media, &options, &[]).expect("a log is created");
            let mut room = log.reserve(ByteLen(4000), ByteLen(0)).expect("there is room");
            let mut append = |partition| {
                let head = RecordHead::new(Kind::COMMIT, TxnId(1), None);
                log.append(PartitionId(partition), head, &[b"x"], &mut room).lsn
            };
            let written = append(0);
            log.force(written).expect("the log runs");
            append(1);
            let awaited = append(2);
            append(0);
            append(3);
            let writer = &log.shared().writer;
            // As if its threads were there, and had not heard anything yet.
            writer.running.store(true, Ordering::SeqCst);
            let asked = || {
                let take = |call: &Call| std::mem::take(&mut call.asked.lock().something);
                writer.write.iter().map(take).collect::<Vec<_>>()
            };
            assert_eq!(asked(), [false; 4]);
            let poll = |lsn: Lsn| pin!(log.ticket(lsn)).poll(&mut Context::from_waker(Waker::noop()));
            assert!(poll(awaited).is_pending());
            // Partition 0 has a later record only, partition 3 too.
            assert_eq!(asked(), [false, true, true, false]);
            assert!(poll(written).is_ready());
            assert_eq!(asked(), [false; 4], "nothing is late");
            writer.running.store(false, Ordering::SeqCst);
        });
    }

    /// Who appends to a log alone forces it soon. A writer that has begun with a part of it by then keeps him waiting.
    #[test]
    fn the_writer_of_a_log_alone_leaves_new_entries_to_who_forces_them() {
        explore(1, 1, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let options = EntryLogOptions { background: false, ..EntryLogOptions::default() };
            let log = EntryLog::open(&media, &options).expect("it opens");
            let shared = log.log().shared();
            let writer = &shared.writer;
            // As if its thread were there, and waited.
            writer.running.store(true, Ordering::SeqCst);
            for _ in 0..100 {
                log.append(&[7; 1000]).expect("there is room");
                assert!(!writer.write[0].asked.lock().something, "an append rouses it");
                assert_eq!(writer.patience(&shared.options), Duration::from_millis(100));
            }
            assert_eq!(log.durable_lsn(), Lsn::ZERO);
            writer.running.store(false, Ordering::SeqCst);
        });
    }
}
