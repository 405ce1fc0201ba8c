//! Measures the cost of appending small records, the lag of durability, and the speed of reading a log.
//!
//! `cargo run --release -p cedrat-wal --example append_cost DIRECTORY [append|memory|read] [SECONDS] [MB_PER_SECOND]`
//!
//! `append` runs three set-ups in fresh logs below the directory, for SECONDS each; with a rate, the threads together
//! keep to it. `memory` does the same with a disk that takes no time. `read` creates a log of one GiB, looks at it
//! and scans it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cedrat_media::{Durability, Media, RealDisk};
use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cedrat_sync::{Arc, Condvar, Mutex, thread};
use cedrat_wal::*;

const BODY: [u8; 75] = [0x5a; 75];
/// Records between two measurements of the unwritten bytes.
const BATCH: u64 = 64;
const LOG_BYTES_MAX: u64 = 4 << 30;
/// The size from which the log is truncated.
const LOG_BYTES_KEPT: u64 = 256 << 20;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A disk that takes no time, and keeps nothing.
#[derive(Debug)]
struct Nowhere;

impl Sink for Nowhere {
    fn stabilise(&self, piece: Piece<'_>, local: &dyn Local) -> std::io::Result<()> {
        // The headers of segments are read again.
        if piece.offset == 0 { local.write(Durability::Durable) } else { Ok(()) }
    }
}

/// The disk, and the nanoseconds that the slowest write took: no record is durable sooner.
#[derive(Debug, Default)]
struct Timed {
    slowest: AtomicU64,
}

impl Sink for Timed {
    fn stabilise(&self, _piece: Piece<'_>, local: &dyn Local) -> std::io::Result<()> {
        let began = Instant::now();
        local.write(Durability::Durable)?;
        self.slowest.fetch_max(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }
}

fn options(partitions: u16) -> LogOptions {
    LogOptions { partitions, log_bytes_max: LOG_BYTES_MAX, ..LogOptions::default() }
}

/// Signals the end of a set-up.
#[derive(Default)]
struct End {
    come: AtomicBool,
    waiting: Mutex<()>,
    changed: Condvar,
}

impl End {
    fn has_come(&self) -> bool {
        self.come.load(Ordering::Relaxed)
    }

    /// Waits for the end, at most for `at_most`.
    fn wait(&self, at_most: Duration) {
        let mut waiting = self.waiting.lock();
        if !self.has_come() {
            self.changed.wait_for(&mut waiting, at_most);
        }
    }

    fn set(&self) {
        let _waiting = self.waiting.lock();
        self.come.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }
}

/// Returns the time that this thread spent on a processor, in nanoseconds: other load does not count.
fn on_cpu() -> u64 {
    let words = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    words.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// The measurements of one appender.
struct Measured {
    records: u64,
    /// Nanoseconds per record, for each batch.
    batches: Vec<f32>,
    on_cpu: u64,
}

impl Measured {
    fn median(&mut self) -> f32 {
        let middle = self.batches.len() / 2;
        *self.batches.select_nth_unstable_by(middle, f32::total_cmp).1
    }

    fn mean(&self) -> f32 {
        self.batches.iter().sum::<f32>() / self.batches.len() as f32
    }
}

/// Appends until `end`, at most `rate` bytes a second.
fn appender(log: &Log, partition: PartitionId, rate: Option<f64>, end: &End) -> Outcome<Measured> {
    let bound = record_len_bound(ByteLen(BODY.len() as u64));
    let mut reservation = log.reserve(ByteLen(0), ByteLen(0))?;
    let mut measured = Measured { records: 0, batches: Vec::with_capacity(1 << 20), on_cpu: 0 };
    let (began, on_cpu_before) = (Instant::now(), on_cpu());
    while !end.has_come() {
        log.throttle(partition)?;
        let batch = Instant::now();
        for n in 0..BATCH {
            log.reserve_more(&mut reservation, bound, ByteLen(0))?;
            let head = RecordHead::new(Kind::USER, TxnId(measured.records + n), None);
            log.append(partition, head, &[&BODY], &mut reservation);
        }
        measured.batches.push(batch.elapsed().as_nanos() as f32 / BATCH as f32);
        measured.records += BATCH;
        if let Some(rate) = rate {
            let due = Duration::from_secs_f64((measured.records * BODY.len() as u64) as f64 / rate);
            if let Some(early) = due.checked_sub(began.elapsed()).filter(|early| early.as_micros() > 500) {
                end.wait(early);
            }
        }
    }
    measured.on_cpu = on_cpu() - on_cpu_before;
    Ok(measured)
}

/// Samples of the time from an LSN's draw until it was durable, as an upper bound.
#[derive(Default)]
struct Lag {
    pending: VecDeque<(Instant, Lsn)>,
    all: Vec<Duration>,
}

impl Lag {
    fn sample(&mut self, log: &Log) {
        let durable = log.durable_lsn();
        while let Some(&(drawn, lsn)) = self.pending.front()
            && lsn <= durable
        {
            self.all.push(drawn.elapsed());
            self.pending.pop_front();
        }
        self.pending.push_back((Instant::now(), log.current_lsn()));
    }

    fn at(&mut self, share: f64) -> f64 {
        self.all.sort_unstable();
        let at = ((self.all.len() - 1) as f64 * share) as usize;
        self.all[at].as_secs_f64() * 1e3
    }
}

/// Samples the lag and keeps the log short until the time is over.
fn watch(log: &Log, end: &End, seconds: u64) -> Outcome<Lag> {
    let mut lag = Lag::default();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(seconds) {
        lag.sample(log);
        if log.space().segments_in_use * (16 << 20) > LOG_BYTES_KEPT {
            let lsn = log.durable_lsn();
            log.checkpoint_control(&Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 })?;
            log.truncate(Lsn::MAX);
        }
        end.wait(Duration::from_micros(500));
    }
    Ok(lag)
}

/// The duration, the maximum MB a second, and the target.
struct How {
    seconds: u64,
    rate: Option<f64>,
    in_memory: bool,
}

/// Runs one set-up of this many threads, which share this many partitions.
fn append(directory: &Path, (threads, partitions): (u16, u16), how: &How) -> Outcome<()> {
    let How { seconds, rate, in_memory } = *how;
    let timed = Arc::new(Timed::default());
    let sink: Arc<dyn Sink> = if in_memory { Arc::new(Nowhere) } else { Arc::clone(&timed) as _ };
    let log = Log::create(&fresh(directory)?, &LogOptions { sink, ..options(partitions) }, &[])?;
    // Creates the first segments in advance, as in a log that has been used for a while.
    drop(log.reserve(ByteLen(LOG_BYTES_KEPT), ByteLen(0))?);
    let writer = log.start_writer();
    let end = End::default();
    let share = rate.map(|rate| rate * 1e6 / f64::from(threads));
    let (measured, mut lag) = thread::scope(|scope| -> Outcome<_> {
        let (log, end) = (&log, &end);
        let appenders: Vec<_> = (0..threads)
            .map(|number| scope.spawn(move || appender(log, PartitionId(number % partitions), share, end)))
            .collect();
        let lag = watch(log, end, seconds);
        end.set();
        let measured: Outcome<Vec<_>> =
            appenders.into_iter().map(|appender| appender.join().expect("an appender does not panic")).collect();
        Ok((measured?, lag?))
    })?;
    drop(writer);
    print!("{threads} threads, {partitions} partitions:");
    let mut records = 0;
    for mut measured in measured {
        let each = measured.on_cpu as f64 / measured.records as f64;
        print!(
            "  {:.1} ns an append (median; mean {:.1}, on a processor with throttling {each:.1})",
            measured.median(),
            measured.mean()
        );
        records += measured.records;
    }
    let bytes = records * record_len_bound(ByteLen(BODY.len() as u64)).0;
    println!(
        "  {:.2} million/s, {:.0} MB/s; lag: {:.1} ms at most, {:.1} ms for 99 of 100, {:.1} ms for half; \
         slowest write {:.1} ms",
        records as f64 / seconds as f64 / 1e6,
        bytes as f64 / seconds as f64 / 1e6,
        lag.at(1.0),
        lag.at(0.99),
        lag.at(0.5),
        timed.slowest.load(Ordering::Relaxed) as f64 / 1e6
    );
    Ok(())
}

/// Creates a log of one GiB, looks at it and scans it twice.
fn read(directory: &Path, partitions: u16) -> Outcome<()> {
    let media = fresh(directory)?;
    let log = Log::create(&media, &options(partitions), &[])?;
    let bound = record_len_bound(ByteLen(BODY.len() as u64));
    let mut reservation = log.reserve(ByteLen(0), ByteLen(0))?;
    let mut records: u64 = 0;
    while log.bytes_since(Lsn::new(1)).0 < 1 << 30 {
        // Each partition gets a thousand in turn: as uneven as transactions make it.
        let partition = PartitionId((records / 1000 % u64::from(partitions)) as u16);
        for _ in 0..1000 {
            log.reserve_more(&mut reservation, bound, ByteLen(0))?;
            log.append(partition, RecordHead::new(Kind::USER, TxnId(records), None), &[&BODY], &mut reservation);
            records += 1;
        }
        log.throttle(partition)?;
    }
    log.force(Lsn::MAX)?;
    drop((reservation, log));
    let began = Instant::now();
    let found = Log::look(&media)?;
    println!("{partitions} partitions, 1 GiB, {records} records: look {:.2} s", began.elapsed().as_secs_f64());
    for _ in 0..2 {
        let (began, on_cpu_before) = (Instant::now(), on_cpu());
        let mut scan = found.scan(Lsn::ZERO)?;
        let mut bytes = 0;
        while let Some(next) = scan.next()? {
            bytes += next.record.body.len();
        }
        let cpu = (on_cpu() - on_cpu_before) as f64 / 1e9;
        println!("  scan {:.2} s ({cpu:.2} s on a processor), {bytes} bytes of bodies", began.elapsed().as_secs_f64());
    }
    Ok(())
}

fn fresh(directory: &Path) -> Outcome<Arc<dyn Media>> {
    let _ = std::fs::remove_dir_all(directory);
    std::fs::create_dir_all(directory)?;
    Ok(Arc::new(RealDisk::new(directory)))
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("name a directory for the log")?).join("append-cost");
    let mode = arguments.next().unwrap_or_else(|| "append".into());
    let seconds = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let rate = arguments.next().map(|text| text.parse()).transpose()?;
    if mode == "read" {
        read(&directory, 1)?;
        read(&directory, 2)?;
    } else {
        let how = How { seconds, rate, in_memory: mode == "memory" };
        for setup in [(1, 1), (2, 1), (2, 2)] {
            append(&directory, setup, &how)?;
        }
    }
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
