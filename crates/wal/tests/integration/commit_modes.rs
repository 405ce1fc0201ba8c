//! Tickets, asynchronous commits, partition commits, other durability targets, user record kinds.

use cedrat_media::{Loss, Media, RealDisk, SimDisk};
use cedrat_sync::{Arc, Mutex, thread};
use cedrat_wal::*;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};

use crate::common::*;

fn sim(options: &LogOptions) -> (Arc<SimDisk>, Arc<dyn Media>, Log) {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let log = Log::create(&media, options, &[]).unwrap();
    (sim, media, log)
}

fn append(log: &Log, reservation: &mut Reservation) -> Appended {
    log.append(PartitionId(0), update(1, None), &[&[7; 100]], reservation)
}

/// A runtime of a few lines: waits on a channel for its waker.
struct Channel(mpsc::Sender<()>);

impl Wake for Channel {
    fn wake(self: std::sync::Arc<Self>) {
        let _ = self.0.send(()); // without a receiver no task waits
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let (sender, receiver) = mpsc::channel();
    let waker = Waker::from(std::sync::Arc::new(Channel(sender)));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(ready) => return ready,
            Poll::Pending => receiver.recv().expect("the waker is kept"),
        }
    }
}

#[test]
fn tickets_are_waited_for_asked_and_awaited() {
    let (_, _, log) = sim(&LogOptions::small());
    let mut reservation = log.reserve(ByteLen(10_000), ByteLen(0)).unwrap();
    let tickets: Vec<Ticket> = (0..10).map(|_| log.ticket(append(&log, &mut reservation).lsn)).collect();
    assert!(tickets.iter().all(|ticket| !ticket.is_stable()));
    assert_eq!(tickets[4].wait().unwrap().up_to(), tickets[4].lsn());
    assert!(tickets.iter().all(Ticket::is_stable), "one block took them all");
    let ticket = log.ticket(append(&log, &mut reservation).lsn);
    let lsn = ticket.lsn();
    assert_eq!(block_on(ticket).unwrap().up_to(), lsn, "without a writer thread the poll writes");
    assert!(log.is_stable(lsn));
}

#[test]
fn writer_flushes_async_commits_and_prepares() {
    let directory = tempfile::tempdir().unwrap();
    let media: Arc<dyn Media> = Arc::new(RealDisk::new(directory.path()));
    let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
    let writer = log.start_writer();
    let mut reservation = log.reserve(ByteLen(100_000), ByteLen(0)).unwrap();
    for _ in 0..20 {
        let ticket = log.ticket(append(&log, &mut reservation).lsn);
        let lsn = ticket.lsn();
        assert!(block_on(ticket).unwrap().up_to() >= lsn);
    }
    // No caller forces this record; the interval does.
    let last = append(&log, &mut reservation);
    while !log.is_stable(last.lsn) {
        thread::yield_now();
    }
    drop(writer); // it might flush the next record before the stop
    let pending = log.ticket(append(&log, &mut reservation).lsn);
    log.stop("enough");
    assert!(block_on(pending).is_err(), "E16.5");
}

#[test]
fn dropping_the_writer_flushes_what_there_is() {
    let (_, _, log) = sim(&LogOptions { flush_interval_ms: 1_000_000, ..LogOptions::small() });
    let writer = log.start_writer();
    let mut reservation = log.reserve(ByteLen(10_000), ByteLen(0)).unwrap();
    let last = append(&log, &mut reservation);
    drop(writer);
    assert!(log.is_stable(last.lsn));
    let ticket = log.ticket(append(&log, &mut reservation).lsn);
    block_on(ticket).expect("and tickets go on without it");
}

/// A task that owns the writer threads, and is dropped by its waker.
struct Owner {
    writer: Mutex<Option<Writer>>,
    log: Log,
    dropped: mpsc::Sender<(bool, Lsn)>,
}

impl Wake for Owner {
    fn wake(self: std::sync::Arc<Self>) {
        let mut reservation = self.log.reserve(ByteLen(10_000), ByteLen(0)).unwrap();
        let last = append(&self.log, &mut reservation).lsn;
        let writer = self.writer.lock().take();
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(writer)));
        self.dropped.send((dropped.is_ok() && self.log.is_stable(last), last)).unwrap();
    }
}

/// The thread that wakes the task cannot wait for itself; what was appended is flushed nevertheless.
#[test]
fn waker_may_drop_the_writer() {
    let (_, _, log) = sim(&LogOptions { flush_interval_ms: 1_000_000, ..LogOptions::small() });
    let writer = Mutex::new(Some(log.start_writer()));
    let mut reservation = log.reserve(ByteLen(10_000), ByteLen(0)).unwrap();
    let mut ticket = pin!(log.ticket(append(&log, &mut reservation).lsn));
    let (sender, dropped) = mpsc::channel();
    let owner = Owner { writer, log: log.clone(), dropped: sender };
    let waker = Waker::from(std::sync::Arc::new(owner));
    // If the record is durable by now, none of the threads wakes the task.
    if ticket.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
        waker.wake_by_ref();
    }
    drop(waker);
    let (is_flushed, last) = dropped.recv().unwrap();
    assert!(is_flushed, "a thread waited for itself, or did not flush");
    let ticket = log.ticket(append(&log, &mut reservation).lsn);
    assert!(block_on(ticket).unwrap().up_to() > last, "tickets go on without it");
}

#[test]
fn throttling_bounds_what_is_unwritten() {
    let (_, _, log) = sim(&LogOptions::small());
    let mut reservation = log.reserve(ByteLen(0), ByteLen(0)).unwrap();
    for _ in 0..1000 {
        log.throttle(PartitionId(0)).unwrap();
        log.reserve_more(&mut reservation, ByteLen(2200), ByteLen(0)).unwrap();
        log.append(PartitionId(0), update(1, None), &[&[7; 2000]], &mut reservation);
    }
    let written = log.flushed(PartitionId(0)).get();
    assert!(written > 1_500_000, "{written}: all but the last blocks were written without a force");
    assert!(log.durable_lsn() > Lsn::new(800));
}

/// Hathi §3: forced with its own partition alone, found even beyond a gap, up to the partition's first gap.
#[test]
fn partition_commits_are_found_beyond_a_gap() {
    let options = LogOptions { partitions: 2, ..LogOptions::small() };
    let (disk, _, log) = sim(&options);
    let mut reservation = log.reserve(ByteLen(10_000), ByteLen(0)).unwrap();
    let mut put = |log: &Log, partition, flagged, body: &[u8]| {
        let head = RecordHead { partition_commit: flagged, ..RecordHead::new(Kind::COMMIT, TxnId(1), None) };
        let place = log.append(PartitionId(partition), head, &[body], &mut reservation);
        (place.lsn, Position { partition: PartitionId(partition), offset: place.offset })
    };
    put(&log, 0, false, b"kept"); // 1
    log.force(Lsn::new(1)).unwrap();
    put(&log, 0, false, b"lost"); // 2
    put(&log, 1, true, b"flagged, kept"); // 3
    put(&log, 1, false, b"not flagged, dead"); // 4
    let (_, position) = put(&log, 1, true, b"flagged, kept"); // 5
    log.force_partition(position).unwrap();
    assert!(!log.is_stable(Lsn::new(3)));
    drop(log);

    let media: Arc<dyn Media> = Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything));
    let found = Log::look(&media).unwrap();
    assert_eq!(found.end_lsn(), Lsn::new(2));
    assert_eq!(lsns(found.scan(Lsn::ZERO).unwrap()), [1, 3, 5], "E8.3");
    let log = found.begin(&[], &options).unwrap();
    let (lsn, _) = put(&log, 0, false, b"after");
    assert!(lsn > Lsn::new(5), "E1.2");
    log.force(lsn).unwrap();
    let found = Log::look(&media).unwrap();
    assert_eq!(lsns(found.scan(Lsn::ZERO).unwrap()), [1, 3, 5, lsn.get()], "they stay found");
}

#[test]
fn a_replica_decides_what_is_stable() {
    let replica = Replica::new();
    let sink = Arc::new(ReplicaSink::new(replica.clone(), StableWhen::Replica));
    let options = LogOptions { sink, ..LogOptions::small() };
    let (disk, _, log) = sim(&options);
    let mut reservation = log.reserve(ByteLen(200_000), ByteLen(0)).unwrap();
    for _ in 0..50 {
        let place = log.append(PartitionId(0), update(1, None), &[&[9; 3000]], &mut reservation);
        log.force(place.lsn).unwrap();
    }
    assert!(log.is_stable(Lsn::new(50)), "the replica has it");
    drop(log);

    // The store's own disk lost the log; the replica did not.
    let crashed = Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything));
    replica.restore(&*crashed).unwrap();
    assert!(replica.bytes() > 150_000);
    let media: Arc<dyn Media> = crashed;
    let found = Log::look(&media).unwrap();
    assert_eq!(lsns(found.scan(Lsn::ZERO).unwrap()), (1..=50).collect::<Vec<_>>());

    // With both, the own disk suffices.
    let sink = Arc::new(ReplicaSink::new(Replica::new(), StableWhen::Both));
    let (disk, _, log) = sim(&LogOptions { sink, ..LogOptions::small() });
    let mut reservation = log.reserve(ByteLen(10_000), ByteLen(0)).unwrap();
    let last = append(&log, &mut reservation);
    log.force(last.lsn).unwrap();
    let media: Arc<dyn Media> = Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything));
    assert_eq!(Log::look(&media).unwrap().end_lsn(), last.lsn.next());
}

/// A sink whose writes fail stops the log.
#[derive(Debug)]
struct Broken;

impl Sink for Broken {
    fn stabilise(&self, piece: Piece<'_>, local: &dyn Local) -> std::io::Result<()> {
        if piece.first_lsn >= Lsn::new(3) {
            return Err(std::io::Error::other("the replica is gone"));
        }
        local.write(cedrat_media::Durability::Durable)
    }
}

#[test]
fn a_sink_that_fails_stops_the_log() {
    let (_, _, log) = sim(&LogOptions { sink: Arc::new(Broken), ..LogOptions::small() });
    let mut reservation = log.reserve(ByteLen(10_000), ByteLen(0)).unwrap();
    for n in 1..=3 {
        let place = append(&log, &mut reservation);
        assert_eq!(log.force(place.lsn).is_ok(), n < 3);
    }
    assert!(log.stopped().unwrap().to_string().contains("the replica is gone"));
}

/// A user record kind: a name in the control file, its number at the beginning of the body.
#[test]
fn users_have_record_kinds_of_their_own() {
    let (_, media, log) = sim(&LogOptions::small());
    let numbers = log.names(&["com.example.audit", "com.example.mark"]).unwrap();
    assert_eq!(log.names(&["com.example.mark"]).unwrap(), [numbers[1]], "a name keeps its number");
    let mut reservation = log.reserve(ByteLen(1000), ByteLen(0)).unwrap();
    let head = RecordHead::new(Kind::USER, TxnId::NONE, None);
    let place = log.append(PartitionId(0), head, &[&[numbers[1] as u8], b"what happened"], &mut reservation);
    log.force(place.lsn).unwrap();
    drop(log);
    let found = Log::look(&media).unwrap();
    let mut scan = found.scan(Lsn::ZERO).unwrap();
    let record = scan.next().unwrap().unwrap().record;
    assert_eq!(record.head.kind, Kind::USER);
    assert_eq!(found.control().names[usize::from(record.body[0])], "com.example.mark");
    assert_eq!(&record.body[1..], b"what happened");
}

/// Redo workers get records without a copy.
#[test]
fn scanned_records_can_cross_threads() {
    let (_, _, log) = sim(&LogOptions::small());
    let mut reservation = log.reserve(ByteLen(300_000), ByteLen(0)).unwrap();
    for n in 0..2000u32 {
        log.append(PartitionId(0), update(1, None), &[&n.to_le_bytes(), &[1; 60]], &mut reservation);
    }
    log.force(Lsn::MAX).unwrap();
    let mut scan = log.scan(Lsn::ZERO).unwrap();
    let mut batch: Vec<(Arc<Chunk>, std::ops::Range<usize>)> = Vec::new();
    while let Some(next) = scan.next().unwrap() {
        batch.push((Arc::clone(next.chunk), next.body));
    }
    let sum =
        thread::spawn(move || batch.iter().map(|(chunk, body)| u64::from(chunk.body(body.clone())[0])).sum::<u64>());
    assert_eq!(sum.join().unwrap(), (0..2000u64).map(|n| n % 256).sum());
    let (read, all) = scan.progress();
    assert_eq!(read, all);
}
