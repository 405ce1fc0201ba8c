//! The writer threads: asynchronous commits and promises when idle; segments ahead of need; wakers of tickets.
//!
//! No correctness depends on them; without them, committers, throttled appenders, reservations and tickets do their work.
//!
//! Several threads write, each for partitions of its own: a thread that waits for the latch of one partition, whose
//! holder may have lost its processor, delays no other partition. Preparing a segment takes as long as writing all of
//! it, and beginning one takes three writes: separate threads do that.
//!
//! Wakers run on one more thread and on no other. A waker is code of the user: it may drop a transaction, take a checkpoint
//! or close the store, and so wait for a mutex, a latch or a block of any thread that writes the log (E16.8h).

use cedrat_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use cedrat_sync::{Arc, Condvar, Mutex, hurry, planted, thread};
use std::time::Duration;

use crate::error::{StopReason, Stopped};
use crate::log::Shared;
use crate::reservation::Spending;
use crate::space::Space;
use crate::{LogOptions, PartitionId};

/// The maximum number of threads that write; the partitions are distributed among them.
const WRITERS_MAX: u16 = 8;

/// The writer threads; they end, having flushed everything, when this is dropped.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
    /// The thread that wakes tasks.
    wakes: Option<thread::JoinHandle<()>>,
    refused: Vec<String>,
    /// The process of the threads.
    process: u32,
}

/// The state through which requests reach the threads.
#[derive(Debug)]
pub(crate) struct WriterState {
    running: AtomicBool,
    /// The process of the threads: a forked child has none of them.
    process: AtomicU32,
    /// Whether the threads sleep long: everything is durable and promised.
    idle: AtomicBool,
    /// Whether the log has no free space (E16.9): open blocks are left to be filled, while only rollbacks append.
    saving: AtomicBool,
    /// Whether another record was appended since that was asked last.
    hurried: AtomicBool,
    /// Requests to the threads that write.
    write: Vec<Call>,
    /// Requests to the thread that begins segments.
    begin: Call,
    /// Requests to the thread that prepares segments.
    make: Call,
    /// Requests to the thread that wakes tasks.
    wake: Call,
    /// The number of times that the threads were started.
    starts: AtomicU64,
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
    /// Whether the request is for records in open blocks too.
    open: bool,
    quit: bool,
}

impl Call {
    /// Requests the work of the thread. Cheap if a request is pending already.
    fn ask(&self, open: bool) {
        let mut asked = self.asked.lock();
        asked.open |= open;
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

    /// Waits for a request, or until `at_most` has elapsed. Returns the requests since the last call.
    fn hear(&self, at_most: impl Fn() -> Option<Duration>) -> Asked {
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
        let quit = asked.quit;
        std::mem::replace(&mut *asked, Asked { quit, ..Asked::default() })
    }
}

impl WriterState {
    pub(crate) fn new(partitions: u16) -> WriterState {
        let write = (0..partitions.min(WRITERS_MAX)).map(|_| Call::default()).collect();
        let [running, idle, saving, hurried] = [(); 4].map(|()| AtomicBool::new(false));
        let [begin, make, wake] = [(); 3].map(|()| Call::default());
        let (process, starts) = (AtomicU32::new(0), AtomicU64::new(0));
        WriterState { running, process, idle, saving, hurried, write, begin, make, wake, starts }
    }

    /// Whether the threads do what they are asked for.
    pub(crate) fn is_running(&self) -> bool {
        let is_this_process = || self.process.load(Ordering::Relaxed) == std::process::id();
        self.running.load(Ordering::SeqCst) && (is_this_process() || planted!("child_awaits_threads"))
    }

    fn begin_running(&self) {
        self.process.store(std::process::id(), Ordering::Relaxed);
        self.running.store(true, Ordering::SeqCst);
    }

    /// Requests a flush from the thread that writes the partition. Cheap if a request is pending already.
    pub(crate) fn flush(&self, partition: PartitionId) {
        self.of(partition).ask(true);
    }

    /// Requests that tasks whose tickets are ready are woken. Cheap if a request is pending already.
    pub(crate) fn wake_tasks(&self) {
        self.wake.ask(false);
    }

    fn of(&self, partition: PartitionId) -> &Call {
        &self.write[partition.index() % self.write.len()]
    }

    /// Notes an append: the partition's thread must not sleep on.
    #[inline]
    pub(crate) fn appended(&self, partition: PartitionId, sealed: bool, spending: Spending) {
        if sealed || self.idle.load(Ordering::Relaxed) || self.saving.load(Ordering::Relaxed) {
            self.appended_slowly(partition, sealed, spending);
        }
    }

    #[cold]
    fn appended_slowly(&self, partition: PartitionId, sealed: bool, spending: Spending) {
        if !self.is_running() {
            return;
        }
        if spending == Spending::Forward {
            self.hurried.store(true, Ordering::Release);
        }
        if self.idle.swap(false, Ordering::Relaxed) {
            self.write.iter().for_each(|call| call.ask(true)); // none sleeps long any more
        } else if sealed {
            self.of(partition).ask(false);
        }
    }

    /// Whether a thread leaves open blocks to be filled in this round, unless it was asked for their records (E16.9).
    ///
    /// The first thread decides that. An appender that misses `saving` has placed its record before a thread looks for
    /// blocks to write; one that finds it sets `hurried`.
    fn leaves_open_blocks(&self, number: usize, is_used_up: impl Fn() -> bool) -> bool {
        if number > 0 {
            return self.saving.load(Ordering::Acquire);
        }
        let is_used_up = is_used_up() && !planted!("open_blocks_written_unasked");
        let was_saving = self.saving.swap(is_used_up, Ordering::AcqRel);
        let is_hurried = self.hurried.swap(false, Ordering::AcqRel);
        let leaves = is_used_up && was_saving && !is_hurried;
        if is_used_up && !leaves {
            self.write[1..].iter().for_each(|call| call.ask(true));
        }
        leaves
    }

    /// Returns the time for which a writing thread waits for a request before it writes unasked.
    fn patience(&self, options: &LogOptions) -> Duration {
        let interval = Duration::from_millis(options.flush_interval_ms.max(1));
        // An idle thread is woken by the next append; an occasional check compensates for a lost wake-up.
        if self.idle.load(Ordering::Relaxed) { interval * 100 } else { interval }
    }

    /// The threads that a waker may wait for.
    fn working(&self) -> impl Iterator<Item = &Call> {
        self.write.iter().chain([&self.begin, &self.make])
    }
}

impl Writer {
    pub(crate) fn start(shared: &Arc<Shared>) -> Writer {
        let writer = &shared.writer;
        writer.working().chain([&writer.wake]).for_each(|call| *call.asked.lock() = Asked::default());
        let start = writer.starts.fetch_add(1, Ordering::SeqCst) + 1;
        writer.begin_running();
        let mut started = Writer {
            shared: Arc::clone(shared),
            threads: Vec::new(),
            wakes: None,
            refused: Vec::new(),
            process: std::process::id(),
        };
        started.wakes = started.spawn("cedrat-wakes".into(), move |shared| wake(shared, start));
        for number in 0..writer.write.len() {
            let thread = started.spawn(format!("cedrat-log-{number}"), move |shared| write(shared, number));
            started.threads.extend(thread);
        }
        if !started.refused.is_empty() {
            // The log works without them; the threads that need their work do it themselves.
            writer.running.store(false, Ordering::SeqCst);
        }
        let begins = started.spawn("cedrat-begins".into(), begin);
        let makes = started.spawn("cedrat-segments".into(), make);
        started.threads.extend(begins.into_iter().chain(makes));
        started
    }

    /// Returns an error of the system for each thread that it has refused: the log works without them.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    fn spawn(&mut self, name: String, run: impl FnOnce(&Shared) + Send + 'static) -> Option<thread::JoinHandle<()>> {
        let started = spawn(&self.shared, name.clone(), run);
        started.map_err(|error| self.refused.push(format!("starting the thread {name}: {error}"))).ok()
    }
}

fn spawn(
    shared: &Arc<Shared>,
    name: String,
    run: impl FnOnce(&Shared) + Send + 'static,
) -> std::io::Result<thread::JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let run = move || {
        let _stops_the_log = StopsIfPanicking(&shared);
        run(&shared);
    };
    thread::Builder::new().name(name).spawn(run)
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

impl Writer {
    /// Whether one of its threads is this one.
    pub fn is_on(&self, id: thread::ThreadId) -> bool {
        self.threads.iter().chain(&self.wakes).any(|thread| thread.thread().id() == id)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // A forked child has no threads to wait for (E1.9).
            std::mem::forget(self.wakes.take());
            return std::mem::forget(std::mem::take(&mut self.threads));
        }
        let writer = &self.shared.writer;
        writer.working().for_each(Call::ask_to_quit);
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // a panic of the thread was reported there
        }
        writer.running.store(false, Ordering::SeqCst);
        writer.idle.store(false, Ordering::SeqCst);
        writer.saving.store(false, Ordering::SeqCst);
        // Last: it wakes every task, and one that is polled from now on finds that no thread is running.
        writer.wake.ask_to_quit();
        if let Some(wakes) = self.wakes.take().filter(|wakes| wakes.thread().id() != thread::current().id()) {
            let _ = wakes.join();
        }
    }
}

/// Wakes the tasks whose tickets are ready, at each request; all of them when the log has stopped or the thread ends.
fn wake(shared: &Shared, start: u64) {
    let writer = &shared.writer;
    loop {
        let quits = writer.wake.hear(|| None).quit;
        if quits || shared.check_running().is_err() {
            shared.tickets.wake_all();
        } else {
            shared.tickets.wake(|| shared.durable_lsn());
        }
        // A waker may have dropped this thread's handle, and another one may have been started since.
        if quits || writer.starts.load(Ordering::SeqCst) != start {
            return;
        }
    }
}

/// Prepares a segment at each request, if it is still needed.
fn make(shared: &Shared) {
    while !shared.writer.make.hear(|| None).quit {
        if shared.space.is_short() && shared.space.has_many_segments() {
            shared.double_segments();
        }
        if shared.prepare_segment(0, Space::is_short).is_err() {
            // The next reservation tries again, and reports the error.
        }
    }
}

/// Begins segments ahead of need, at each request.
fn begin(shared: &Shared) {
    hurry();
    while !shared.writer.begin.hear(|| None).quit {
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
        let asked = writer.write[number].hear(|| Some(writer.patience(&shared.options)));
        let newest = shared.clock.newest();
        let written = match asked.quit {
            true => shared.force(newest).map(drop),
            false => write_round(shared, number, asked.open),
        };
        if written.is_err() || asked.quit {
            return;
        }
        if own().any(|partition| shared.ahead_of(partition).is_some()) {
            writer.begin.ask(false);
        }
        if number > 0 {
            continue;
        }
        if shared.space.is_short() {
            writer.make.ask(false);
        }
        if newest == before && !writer.saving.load(Ordering::Relaxed) && shared.promise().is_ok() {
            // Two checks without a record between them: sleep until there is one.
            writer.idle.store(true, Ordering::SeqCst);
            if shared.clock.newest() != newest {
                writer.idle.store(false, Ordering::SeqCst);
            }
        }
        before = newest;
    }
}

/// Writes the partitions of one thread once.
fn write_round(shared: &Shared, number: usize, open: bool) -> Result<(), Stopped> {
    let leaves = shared.writer.leaves_open_blocks(number, || shared.space.is_used_up()) && !open;
    let mut own = shared.partitions.iter().skip(number).step_by(shared.writer.write.len());
    own.try_for_each(|partition| shared.write_out(partition, !leaves))
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
    fn ticket_wakes_only_late_writers() {
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
            writer.begin_running();
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

    /// E1.9c: in the child the poll writes by itself, which the media of the parent refuses.
    #[test]
    fn forked_child_awaits_no_thread() {
        explore(1, 1, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
            let mut room = log.reserve(ByteLen(4000), ByteLen(0)).expect("there is room");
            let head = RecordHead::new(Kind::COMMIT, TxnId(1), None);
            let lsn = log.append(PartitionId(0), head, &[b"x"], &mut room).lsn;
            let writer = &log.shared().writer;
            writer.begin_running();
            writer.process.store(std::process::id() + 1, Ordering::Relaxed);
            let polled = pin!(log.ticket(lsn)).poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_ready(), "E1.9c");
        });
    }

    /// E1.9d: another thread has held the latch at the fork, and the child does not have that thread.
    #[test]
    fn forked_child_awaits_no_latch() {
        explore(1, 1, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
            let shared = log.shared();
            let _held = (shared.partitions[0].tail.lock(), shared.stopped.lock());
            // As the system does in a child.
            shared.state.store(0);
            assert!(log.is_forked() && log.is_stopped(), "E1.9d");
            log.stop("asked by a test");
            for refused in [log.force(Lsn::MAX).map(drop), log.ticket(Lsn::MAX).wait().map(drop), log.close()] {
                assert!(refused.is_err(), "E1.9d");
            }
            assert!(log.scan(Lsn::ZERO).is_err() && log.reserve(ByteLen(1), ByteLen(0)).is_err(), "E1.9d");
        });
    }

    /// The appender of an entry soon forces it. A writer that has begun with a part of it by then delays the
    /// appender.
    #[test]
    fn standalone_log_writer_leaves_unforced_entries() {
        explore(1, 1, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let options = EntryLogOptions { background: false, ..EntryLogOptions::default() };
            let log = EntryLog::open(&media, &options).expect("it opens");
            let shared = log.log().shared();
            let writer = &shared.writer;
            // As if its thread were running, and waited.
            writer.begin_running();
            for _ in 0..50 {
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
            shared.writer.make.ask(false);
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

    /// A rollback that waits for pages appends a record from time to time. Were each of them written unasked, the rests of
    /// blocks would take more space than there is (E16.9).
    #[test]
    fn slow_rollback_on_full_disk_has_room() {
        explore(6, 1, || {
            let disk = Arc::new(SimDisk::new());
            let media: Arc<dyn Media> = Arc::clone(&disk) as _;
            let log = Log::create(&media, &LogOptions { partitions: 2, ..LogOptions::small() }, &[]).expect("a log");
            let mut others = log.reserve(ByteLen(10_000), ByteLen(0)).expect("there is room");
            let undo = crate::record_len_bound(ByteLen(50));
            let mut room = log.reserve(ByteLen(0), undo).expect("there is room");
            let mut undos = 1;
            while undos < 10_000 && log.reserve_more(&mut room, ByteLen(0), undo).is_ok() {
                undos += 1;
            }
            disk.set_capacity(Some(disk.space()));
            let mut rest = log.reserve(ByteLen(0), ByteLen(0)).expect("nothing is asked");
            while log.reserve_more(&mut rest, ByteLen(1000), ByteLen(0)).is_ok() {}
            let shared = log.shared();
            // As if the threads were running, and their time was over after each record.
            shared.writer.begin_running();
            let append = |partition: u16, room: &mut crate::Reservation| {
                let head = RecordHead::new(Kind::COMPENSATION, TxnId(1), None);
                let lsn = log.append(PartitionId(partition), head, &[&[7; 50]], room).lsn;
                for number in 0..2 {
                    let open = std::mem::take(&mut shared.writer.write[number].asked.lock().open);
                    write_round(shared, number, open).expect("E16.9: the log has no room for a rollback");
                }
                lsn
            };
            room.spend(Spending::Undo);
            for number in 0..undos {
                append(1, &mut room);
                if number % 1000 == 0 {
                    let lsn = append(0, &mut others);
                    assert_eq!(log.durable_lsn(), lsn, "other transactions are durable in time");
                }
            }
            let lsn = log.current_lsn();
            assert!(log.durable_lsn() < lsn);
            assert!(pin!(log.ticket(lsn)).poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert!(shared.writer.write[1].asked.lock().open, "a ticket asks for it");
            log.force(lsn).expect("the log runs");
            shared.writer.running.store(false, Ordering::SeqCst);
        });
    }
}
