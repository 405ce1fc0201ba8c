//! The writer threads: asynchronous commits and promises when idle; segments ahead of need.
//!
//! No correctness depends on them; without them, committers, throttled appenders and reservations do their work.
//!
//! Several threads write, each for partitions of its own: a thread that waits for the latch of one partition, whose
//! holder may have lost its processor, delays no other partition. Preparing a segment takes as long as writing all of
//! it, and beginning one takes three writes: separate threads do that.

use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, Condvar, Mutex, hurry, thread};
use std::time::Duration;

use crate::error::StopReason;
use crate::log::Shared;
use crate::space::Space;
use crate::{LogOptions, PartitionId};

/// The maximum number of threads that write; the partitions are distributed among them.
const WRITERS_MAX: u16 = 8;

/// The writer threads; they end, having flushed everything, when this is dropped.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// The state through which requests reach the threads.
#[derive(Debug)]
pub(crate) struct WriterState {
    running: AtomicBool,
    /// Whether the threads sleep long: everything is durable and promised.
    idle: AtomicBool,
    /// Requests to the threads that write.
    write: Vec<Call>,
    /// Requests to the thread that begins segments.
    begin: Call,
    /// Requests to the thread that prepares segments.
    make: Call,
}

/// Requests to one thread.
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
    /// Requests the work of the thread. Cheap if a request is pending already.
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

    /// Waits for a request, or until `at_most` has elapsed. Returns whether the thread is to quit.
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

    /// Requests a flush from the thread that writes the partition. Cheap if a request is pending already.
    pub(crate) fn flush(&self, partition: PartitionId) {
        self.write[partition.index() % self.write.len()].ask();
    }

    /// Notes an append: the partition's thread must not sleep on.
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

    /// Returns the time for which a writing thread waits for a request before it writes unasked.
    fn patience(&self, options: &LogOptions) -> Duration {
        let interval = Duration::from_millis(options.flush_interval_ms.max(1));
        // An idle thread is woken by the next append; an occasional check compensates for a lost wake-up.
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
            // The log works without them; the threads that need their work do it themselves.
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
    let run = move || {
        let _stops_the_log = StopsIfPanicking(&shared);
        run(&shared);
    };
    thread::Builder::new().name(name).spawn(run).ok()
}

/// Stops the log when its thread panics: committers and tickets depend on the thread.
struct StopsIfPanicking<'a>(&'a Shared);

impl Drop for StopsIfPanicking<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop(StopReason::Asked("a thread that writes the log panicked".into()));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let writer = &self.shared.writer;
        writer.all().for_each(Call::ask_to_quit);
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // a panic of the thread was reported there
        }
        writer.running.store(false, Ordering::SeqCst);
        writer.idle.store(false, Ordering::SeqCst);
        self.shared.tickets.wake_all();
    }
}

/// Prepares a segment at each request, if it is still needed.
fn make(shared: &Shared) {
    while !shared.writer.make.hear(|| None) {
        if shared.prepare_segment(Space::is_short).is_err() {
            // The next reservation tries again, and reports the error.
        }
    }
}

/// Begins segments ahead of need, at each request.
fn begin(shared: &Shared) {
    hurry();
    while !shared.writer.begin.hear(|| None) {
        if shared.begin_ahead().is_err() {
            return; // the log stopped
        }
    }
}

/// Writes the partitions of one thread. The first thread also requests segments and writes promises.
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
            // Two checks without a record between them: sleep until there is one.
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

    /// A writer that is woken without need takes a processor from committers.
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
            // As if its threads were running, and had received no request yet.
            writer.running.store(true, Ordering::SeqCst);
            let asked = || {
                let take = |call: &Call| std::mem::take(&mut call.asked.lock().something);
                writer.write.iter().map(take).collect::<Vec<_>>()
            };
            assert_eq!(asked(), [false; 4]);
            let poll = |lsn: Lsn| pin!(log.ticket(lsn)).poll(&mut Context::from_waker(Waker::noop()));
            assert!(poll(awaited).is_pending());
            // Partition 0 has a later record only, and so has partition 3.
            assert_eq!(asked(), [false, true, true, false]);
            assert!(poll(written).is_ready());
            assert_eq!(asked(), [false; 4], "nothing is late");
            writer.running.store(false, Ordering::SeqCst);
        });
    }

    /// The appender of an entry soon forces it. A writer that has begun with a part of it by then delays the
    /// appender.
    #[test]
    fn the_writer_of_a_log_alone_leaves_new_entries_to_who_forces_them() {
        explore(1, 1, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let options = EntryLogOptions { background: false, ..EntryLogOptions::default() };
            let log = EntryLog::open(&media, &options).expect("it opens");
            let shared = log.log().shared();
            let writer = &shared.writer;
            // As if its thread were running, and waited.
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

    /// A request to prepare a segment may be served when a reservation has prepared the last one already.
    #[test]
    fn prepared_segments_keep_to_the_limit() {
        explore(5, 300, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let options = LogOptions { log_bytes_max: 12 * crate::SEGMENT_LEN_MIN, ..LogOptions::small() };
            let log = Log::create(&media, &options, &[]).expect("a log is created");
            let shared = log.shared();
            assert!(shared.space.is_short());
            shared.writer.make.ask();
            let mut all = log.reserve(ByteLen(0), ByteLen(0)).expect("nothing is asked");
            while log.reserve_more(&mut all, ByteLen(10_000), ByteLen(0)).is_ok() {}
            assert_eq!(log.space().segments, 12);
            let maker = spawn(shared, "maker".into(), make).expect("a thread");
            while shared.writer.make.asked.lock().something {
                thread::yield_now();
            }
            shared.writer.make.ask_to_quit();
            maker.join().expect("no panic");
            assert_eq!(log.space().segments, 12, "the limit");
        });
    }
}
