//! The ordinary life of a log: append, force, close, look, scan, begin, read backwards, truncate.

use cedrat_media::{Media, RealDisk, SimDisk};
use cedrat_sync::Arc;
use cedrat_wal::*;

const P0: PartitionId = PartitionId(0);

fn real() -> (tempfile::TempDir, Arc<dyn Media>) {
    let directory = tempfile::tempdir().unwrap();
    let media: Arc<dyn Media> = Arc::new(RealDisk::new(directory.path()));
    (directory, media)
}

fn head(txn: u64, previous: Option<LogOffset>) -> RecordHead {
    RecordHead::new(Kind::UPDATE, TxnId(txn), previous)
}

/// Appends `count` records of one transaction, `body_len` bytes each, and returns their LSNs and offsets.
fn append(log: &Log, partition: PartitionId, txn: u64, count: usize, body_len: usize) -> Vec<Appended> {
    let mut reservation = log.reserve(ByteLen(0), ByteLen(0)).unwrap();
    let mut places: Vec<Appended> = Vec::new();
    for n in 0..count {
        let body = vec![n as u8; body_len];
        let bound = record_len_bound(ByteLen(body_len as u64));
        log.throttle(partition).unwrap();
        log.reserve_more(&mut reservation, bound, ByteLen(0)).unwrap();
        let previous = places.last().map(|place| place.offset);
        places.push(log.append(partition, head(txn, previous), &[&body], &mut reservation));
    }
    places
}

fn lsns(mut scan: Scan) -> Vec<u64> {
    let mut lsns = Vec::new();
    while let Some(found) = scan.next().unwrap() {
        lsns.push(found.record.lsn.get());
    }
    lsns
}

#[test]
fn rejected_record_leaves_a_void() {
    let (_directory, media) = real();
    let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
    let mut reservation = log.reserve(ByteLen(1000), ByteLen(0)).unwrap();
    let mut append = |decide: &dyn Fn(Lsn) -> bool| {
        let head = RecordHead { partition_commit: true, ..head(7, None) };
        log.append_deciding(P0, head, &[b"two ", b"parts"], &mut reservation, decide)
    };
    assert!(append(&|lsn| lsn == Lsn::new(1)).kept, "the answer is to the LSN that was drawn");
    let refused = append(&|_| false);
    assert_eq!((refused.appended.lsn, refused.kept), (Lsn::new(2), false));
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| append(&|_| panic!("no answer"))));
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"no answer"), "it goes on");
    assert!(append(&|_| true).kept);
    assert_eq!(log.space().overdrawn, ByteLen(0), "E16.1");
    log.force(Lsn::MAX).unwrap();
    assert_eq!(log.durable_lsn(), Lsn::new(4), "E2.2");

    let found = Log::look(&media).unwrap();
    let mut scan = found.scan(Lsn::ZERO).unwrap();
    for lsn in 1..=4 {
        let record = scan.next().unwrap().expect("E2.2").record;
        let void = RecordHead::new(Kind::VOID, TxnId::NONE, None);
        let kept = RecordHead { partition_commit: true, ..head(7, None) };
        let expected = if lsn == 2 || lsn == 3 { (void, &b""[..]) } else { (kept, &b"two parts"[..]) };
        assert_eq!((record.lsn, (record.head, record.body)), (Lsn::new(lsn), expected), "E2.2");
    }
    assert!(scan.next().unwrap().is_none());
}

#[test]
fn forced_records_are_found_after_reopening() {
    let (_directory, media) = real();
    let log = Log::create(&media, &LogOptions::small(), &["first", "second"]).unwrap();
    let places = append(&log, P0, 7, 100, 50);
    assert_eq!(log.current_lsn(), Lsn::new(100));
    assert_eq!(log.durable_lsn(), Lsn::ZERO, "it was not forced");
    assert_eq!(log.force(Lsn::new(100)).unwrap().up_to(), Lsn::new(100));
    assert!(log.is_stable(Lsn::new(100)));
    assert_eq!(lsns(log.scan(Lsn::new(1)).unwrap()), (1..=100).collect::<Vec<_>>());
    assert_eq!(lsns(log.scan(Lsn::new(90)).unwrap()), (90..=100).collect::<Vec<_>>());
    append(&log, P0, 8, 10, 50); // not forced: not found
    drop(log);

    let found = Log::look(&media).unwrap();
    assert_eq!(found.end_lsn(), Lsn::new(101));
    assert_eq!(found.control().names, ["first", "second"]);
    assert_eq!(lsns(found.scan(Lsn::ZERO).unwrap()), (1..=100).collect::<Vec<_>>());
    let record = found.read(Position { partition: P0, offset: places[41].offset }).unwrap();
    assert_eq!((record.lsn, record.head.txn), (Lsn::new(42), TxnId(7)));
    assert_eq!(record.body, [41; 50]);

    let log = found.begin(&["second", "third"], &LogOptions::small()).unwrap();
    assert_eq!(log.names(&["third", "first"]).unwrap(), [2, 0]);
    assert_eq!(log.current_lsn(), Lsn::new(100), "E1.2");
    append(&log, P0, 9, 5, 50);
    log.force(log.current_lsn()).unwrap();
    assert_eq!(lsns(log.scan(Lsn::new(99)).unwrap()), (99..=105).collect::<Vec<_>>());
}

#[test]
fn backward_scan_crosses_memory_and_disk() {
    let (_directory, media) = real();
    let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
    let mut places = append(&log, P0, 1, 3000, 40);
    log.force(places[1500].lsn).unwrap();
    let last = places.last().unwrap().offset;
    let mut reservation = log.reserve(ByteLen(100), ByteLen(0)).unwrap();
    places.push(log.append(P0, head(1, Some(last)), &[b"in the", b" open block"], &mut reservation));
    let mut backwards = log.backwards(Position { partition: P0, offset: places[3000].offset });
    for place in places.iter().rev() {
        let record = backwards.next().unwrap().expect("one more");
        assert_eq!(record.lsn, place.lsn);
        assert_eq!(record.position.offset, place.offset);
    }
    assert!(backwards.next().unwrap().is_none());
    backwards.seek(Some(places[3000].offset));
    assert_eq!(backwards.next().unwrap().unwrap().body, b"in the open block");
    backwards.seek(Some(places[2].offset));
    assert_eq!(backwards.next().unwrap().unwrap().lsn, Lsn::new(3));
    assert_eq!(backwards.next_offset(), Some(places[1].offset));

    for nowhere in [places[5].offset.get() + 1, 1 << 40, u64::MAX] {
        let position = Position { partition: P0, offset: LogOffset::new(nowhere) };
        assert!(log.read(position).is_err(), "{nowhere}");
    }
    assert!(log.read(Position { partition: PartitionId(9), offset: LogOffset::ZERO }).is_err());
}

#[test]
fn recycled_segments_keep_log_bounded() {
    let (_directory, media) = real();
    let options = LogOptions { log_bytes_max: 10 * SEGMENT_LEN_MIN, ..LogOptions::small() };
    let log = Log::create(&media, &options, &[]).unwrap();
    let mut next = 1;
    for round in 0..40 {
        let places = append(&log, P0, round, 200, 100);
        log.force(log.current_lsn()).unwrap();
        let redo = places[150].lsn;
        log.checkpoint_control(&Checkpoint { redo_lsn: redo, scan_lsn: redo, next_txn: round }).unwrap();
        log.truncate(Lsn::MAX);
        let kept = lsns(log.scan(Lsn::new(1)).unwrap());
        assert_eq!(kept, (redo.get()..=places[199].lsn.get()).collect::<Vec<_>>());
        next = places[199].lsn.get() + 1;
        assert!(log.read(Position { partition: P0, offset: places[150].offset }).is_ok());
    }
    assert!(media.list("log").unwrap().len() <= 10);
    assert_eq!(log.space().overdrawn, ByteLen(0), "E16.1");
    drop(log);
    let found = Log::look(&media).unwrap();
    assert_eq!(found.end_lsn(), Lsn::new(next));
    let log = found.begin(&[], &options).unwrap();
    assert_eq!(append(&log, P0, 99, 1, 10)[0].lsn, Lsn::new(next));
}

/// Fills a log of `partitions` until it refuses, with a forced block for each record, the worst case for padding;
/// then undoes everything, all of it in one partition, the worst case for segments.
fn fill_and_undo(partitions: u16, segments: u64) {
    let (_directory, media) = real();
    let options = LogOptions { partitions, log_bytes_max: segments * SEGMENT_LEN_MIN, ..LogOptions::small() };
    let log = Log::create(&media, &options, &[]).unwrap();
    let mut reservation = log.reserve(ByteLen(0), ByteLen(0)).unwrap();
    let bound = record_len_bound(ByteLen(200));
    let mut done = 0u16;
    let full = loop {
        match log.reserve_more(&mut reservation, bound, bound) {
            Ok(()) => log.append(PartitionId(done % partitions), head(1, None), &[&[7; 200]], &mut reservation),
            Err(full) => break full,
        };
        done += 1;
        log.force(log.current_lsn()).unwrap();
    };
    assert!(matches!(full, LogFull::Limit { .. }), "{full}");
    reservation.spend(Spending::Undo);
    for n in 0..done {
        log.append(P0, head(1, None), &[&[8; 200]], &mut reservation);
        if n % 16 == 0 {
            log.force(log.current_lsn()).unwrap();
        }
    }
    drop(reservation);
    log.force(log.current_lsn()).unwrap();
    let space = log.space();
    assert_eq!(space.overdrawn, ByteLen(0), "E16.1");
    assert!(space.segments <= segments && space.segments_in_use <= segments, "E16.2: {space:?}");
    // A checkpoint frees space again.
    let redo = log.current_lsn().next();
    log.checkpoint_control(&Checkpoint { redo_lsn: redo, scan_lsn: redo, next_txn: 2 }).unwrap();
    assert!(log.truncate(Lsn::MAX) > 0);
    log.reserve(bound, bound).unwrap();
}

#[test]
fn full_log_refuses_forward_accepts_undo() {
    fill_and_undo(1, 6);
    fill_and_undo(1, 30);
    fill_and_undo(3, 14);
}

/// A checkpoint with LSNs before the last one, or beyond the newest, moves neither back nor too far.
#[test]
fn checkpoint_lsn_is_monotonic_and_bounded() {
    let (_directory, media) = real();
    let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
    append(&log, P0, 1, 20, 50);
    let checkpoint = |lsn, next_txn| {
        let lsn = Lsn::new(lsn);
        log.checkpoint_control(&Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn }).unwrap();
        log.control().checkpoint
    };
    assert_eq!(checkpoint(10, 7).scan_lsn, Lsn::new(10));
    assert_eq!(checkpoint(5, 3), Checkpoint { redo_lsn: Lsn::new(10), scan_lsn: Lsn::new(10), next_txn: 7 });
    assert_eq!(checkpoint(1000, 8).scan_lsn, Lsn::new(21));
    append(&log, P0, 1, 1, 50);
    log.force(Lsn::MAX).unwrap();
    assert_eq!(lsns(Log::look(&media).unwrap().scan(Lsn::ZERO).unwrap()), [21]);
}

#[test]
fn large_records_cross_segments_but_not_blocks() {
    let (_directory, media) = real();
    let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
    let max = log.body_len_max();
    let mut model = Vec::new();
    for n in 0..60usize {
        let len = if n % 3 == 0 { max } else { n * 37 % 3000 };
        let place = append(&log, P0, n as u64, 1, len)[0];
        model.push((place, len));
        if n % 7 == 0 {
            log.force(place.lsn).unwrap();
        }
    }
    log.force(log.current_lsn()).unwrap();
    for (place, len) in model {
        let record = log.read(Position { partition: P0, offset: place.offset }).unwrap();
        assert_eq!((record.lsn, record.body.len()), (place.lsn, len));
    }
    assert_eq!(lsns(log.scan(Lsn::ZERO).unwrap()).len(), 60);
}

#[test]
fn partitions_are_merged_by_lsn() {
    let (_directory, media) = real();
    let options = LogOptions { partitions: 3, ..LogOptions::small() };
    let log = Log::create(&media, &options, &[]).unwrap();
    let threads: Vec<_> = (0..3u16)
        .map(|partition| {
            let log = log.clone();
            cedrat_sync::thread::spawn(move || {
                for n in 0..200 {
                    let place = append(&log, PartitionId(partition), n, 1, n as usize)[0];
                    if n % 5 == 0 {
                        assert!(log.force(place.lsn).unwrap().up_to() >= place.lsn, "W4");
                        assert!(log.is_stable(place.lsn));
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    log.force(log.current_lsn()).unwrap();
    assert_eq!(lsns(log.scan(Lsn::ZERO).unwrap()), (1..=600).collect::<Vec<_>>(), "W1");
    drop(log);
    let found = Log::look(&media).unwrap();
    assert_eq!(lsns(found.scan(Lsn::ZERO).unwrap()), (1..=600).collect::<Vec<_>>(), "W1");
}

#[test]
fn second_creation_and_missing_store_differ() {
    let (_directory, media) = real();
    assert!(matches!(Log::look(&media), Err(LogError::Absent { .. })));
    let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
    assert!(matches!(Log::create(&media, &LogOptions::small(), &[]), Err(LogError::AlreadyThere { .. })));
    drop(log);
    assert_eq!(Log::look(&media).unwrap().end_lsn(), Lsn::new(1));
}

#[test]
fn durable_lsn_is_recorded_only_once() {
    let (_directory, media) = real();
    let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
    append(&log, P0, 1, 3, 10);
    log.force(Lsn::MAX).unwrap();
    let forced = log.flushed(P0);
    log.promise().unwrap();
    let end = log.flushed(P0);
    assert!(end > forced, "E20.4: the newest block is promised");
    log.promise().unwrap();
    assert_eq!(log.flushed(P0), end, "E20.4: nothing new to promise");
    append(&log, P0, 1, 1, 10);
    log.promise().unwrap();
    assert!(log.flushed(P0) > end);
    assert_eq!(lsns(log.scan(Lsn::ZERO).unwrap()), [1, 2, 3, 4]);
}

/// Long logs are read ahead by other threads. The result is the same: with blocks of all lengths, segments that end
/// anywhere, and readers that keep their records.
#[test]
fn a_long_log_is_read_ahead() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let options = LogOptions {
        partitions: 2,
        segment_len: 1 << 20,
        log_bytes_max: 64 << 20,
        block_len_max: 512 << 10,
        ..LogOptions::small()
    };
    let log = Log::create(&media, &options, &[]).unwrap();
    let mut reservation = log.reserve(ByteLen(0), ByteLen(0)).unwrap();
    let body = |lsn: u64| vec![lsn as u8; (lsn * 37 % 300 + if lsn.is_multiple_of(97) { 100_000 } else { 0 }) as usize];
    const LAST: u64 = 15_000;
    for lsn in 1..=LAST {
        let (partition, body) = (PartitionId((lsn / 50 % 2) as u16), body(lsn));
        let bound = record_len_bound(ByteLen(body.len() as u64));
        log.reserve_more(&mut reservation, bound, ByteLen(0)).unwrap();
        log.append(partition, head(1, None), &[&body], &mut reservation);
        // For a while a block for each few records, then long ones.
        if lsn % 7 == 0 && lsn / 1000 % 2 == 0 || lsn % 500 == 0 {
            log.force(Lsn::MAX).unwrap();
        }
    }
    log.force(Lsn::MAX).unwrap();
    let written: u64 = (0..2).map(|partition| log.flushed(PartitionId(partition)).get()).sum();
    assert!(written > 16 << 20, "{written}: each partition has more than is read without another thread");
    let found = Log::look(&media).unwrap();
    for mut scan in [log.scan(Lsn::ZERO).unwrap(), found.scan(Lsn::ZERO).unwrap()] {
        let mut kept = Vec::new();
        for lsn in 1..=LAST {
            let next = scan.next().unwrap().expect("every record is there");
            assert_eq!((next.record.lsn.get(), next.record.body), (lsn, &body(lsn)[..]));
            if lsn % 1000 == 0 {
                kept.push((lsn, Arc::clone(next.chunk), next.body));
            }
        }
        assert!(scan.next().unwrap().is_none());
        let (read, all) = scan.progress();
        assert_eq!(read, all);
        for (lsn, chunk, range) in kept {
            assert_eq!(chunk.body(range), body(lsn), "a kept chunk is not overwritten");
        }
    }
    drop(found.scan(Lsn::ZERO).unwrap()); // in the middle
    log.close().unwrap();
    let found = Log::look(&media).unwrap();
    found.begin(&[], &options).unwrap();
}

/// A body that is too long is refused before a number is drawn for it, so every number has its record.
#[test]
fn refused_append_draws_no_lsn() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
    let mut room = log.reserve(ByteLen(1000), ByteLen(0)).unwrap();
    let body = vec![0; log.body_len_max() + 1];
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        log.append(P0, head(1, None), &[&body], &mut room);
    }));
    assert!(refused.is_err());
    assert_eq!(log.current_lsn(), Lsn::ZERO, "E2.1");
}

/// Counts the writes of each offset of the log.
#[derive(Debug, Default)]
struct Counting(cedrat_sync::Mutex<Vec<(PartitionId, u64)>>);

impl Sink for Counting {
    fn stabilise(&self, piece: Piece<'_>, local: &dyn Local) -> std::io::Result<()> {
        if piece.offset > 0 {
            let begin = piece.position.offset.get();
            let units = (begin..begin + piece.bytes.len() as u64).step_by(4096);
            self.0.lock().extend(units.map(|unit| (piece.position.partition, unit)));
        }
        local.write(cedrat_media::Durability::Durable)
    }
}

fn counted(partitions: u16) -> (Arc<Counting>, Log) {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let sink = Arc::new(Counting::default());
    let options = LogOptions { partitions, sink: Arc::clone(&sink) as _, ..LogOptions::small() };
    (sink, Log::create(&media, &options, &[]).unwrap())
}

#[test]
fn durable_place_is_written_once() {
    let (sink, log) = counted(2);
    for n in 0..100 {
        append(&log, PartitionId(n % 2), 1, 1, usize::from(n) * 70);
        if n % 3 == 0 {
            log.force(log.current_lsn()).unwrap();
        }
    }
    log.close().unwrap();
    let mut written = sink.0.lock().clone();
    let count = written.len();
    written.sort_unstable();
    written.dedup();
    assert_eq!(written.len(), count, "W2");
    assert!(count > 60, "{count}");
}

/// The records of several blocks are appended, and nothing is written.
#[test]
fn append_writes_nothing() {
    let (sink, log) = counted(1);
    let mut room = log.reserve(ByteLen(200_000), ByteLen(0)).unwrap();
    for _ in 0..20 {
        log.append(P0, head(1, None), &[&[7; 7000]], &mut room);
    }
    assert!(sink.0.lock().is_empty(), "W7");
    log.force(Lsn::MAX).unwrap();
    assert!(sink.0.lock().len() > 30);
}

#[test]
fn force_writes_every_partition() {
    let (_sink, log) = counted(3);
    (0..3).for_each(|partition| drop(append(&log, PartitionId(partition), 1, 1, 10)));
    let forced = log.force(Lsn::MAX).unwrap().up_to();
    assert!(log.durable_lsn() >= forced, "W4");
}

/// Records that a transaction still needs are kept, though recovery would not read them.
#[test]
fn log_is_kept_as_far_as_asked() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
    let places = append(&log, P0, 1, 100, 3000);
    log.force(Lsn::MAX).unwrap();
    let next = log.current_lsn().next();
    log.checkpoint_control(&Checkpoint { redo_lsn: next, scan_lsn: next, next_txn: 1 }).unwrap();
    log.truncate(places[0].lsn);
    assert!(log.read(Position { partition: P0, offset: places[0].offset }).is_ok(), "W5");
    assert!(log.truncate(Lsn::MAX) > 0);
}

/// An opening takes the lock after it has looked. Records that another opening has made durable in between are not cut off.
#[test]
fn opening_after_early_look_loses_no_record() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
    log.force(append(&log, P0, 1, 1, 10)[0].lsn).unwrap();
    let early = Log::look(&media).unwrap();
    log.force(append(&log, P0, 2, 1, 10)[0].lsn).unwrap();
    drop(log);
    let refused = early.begin(&[], &LogOptions::small()).unwrap_err();
    assert!(refused.to_string().contains("open the store again"), "{refused}");
    let log = Log::look(&media).unwrap().begin(&[], &LogOptions::small()).unwrap();
    let mut scan = log.scan(Lsn::ZERO).unwrap();
    let mut records = 0;
    while scan.next().unwrap().is_some() {
        records += 1;
    }
    assert_eq!(records, 2, "R2: both were forced");
}

#[test]
fn largest_number_of_writes_is_possible() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let options = LogOptions { writes_in_flight: usize::MAX, ..LogOptions::small() };
    Log::create(&media, &options, &[]).unwrap().close().unwrap();
}
