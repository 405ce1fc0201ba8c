//! A log grows with its use: more segment files, and longer ones (E16.10).

use cedrat_media::{Call, Fault, Kill, Loss, Media, OpenMode, SimDisk};
use cedrat_sync::{Arc, thread};
use cedrat_wal::*;
use std::io::ErrorKind;

use crate::common::*;

const SMALL: usize = 1000;
/// The length of an update with a long undo.
const HEAD: usize = 10;
/// Bodies of records that need longer segments, the second one of their full length.
const LONG: [usize; 2] = [10_000, 60_000];
/// Small records of undo.
const UNDOS: u64 = 60;

/// Options with segments of eight times the length of the first files.
fn growing() -> LogOptions {
    LogOptions { segment_len: 8 * SEGMENT_LEN_MIN, log_bytes_max: 64 * SEGMENT_LEN_MIN, ..LogOptions::small() }
}

fn create(sim: &Arc<SimDisk>, options: &LogOptions) -> Log {
    let media: Arc<dyn Media> = Arc::clone(sim) as _;
    Log::create(&media, options, &[]).expect("a log is created")
}

fn bound(len: usize) -> ByteLen {
    record_len_bound(ByteLen(len as u64))
}

fn append(log: &Log, len: usize, room: &mut Reservation) -> Lsn {
    log.append(PartitionId(0), update(1, None), &[&vec![7; len]], room).lsn
}

/// Updates with undo reserved: small ones, then longer and longer ones. Returns the number of them, the small ones as one, whose
/// undo must have space after a crash, and marks it. `Err` with it: the log has stopped.
fn try_updates(log: &Log, sim: &SimDisk) -> Result<u64, u64> {
    let mut room = log.reserve(ByteLen(0), ByteLen(0)).expect("nothing is asked");
    let mut done = 0;
    for (records, undo) in [(UNDOS, SMALL), (1, LONG[0]), (1, LONG[1])] {
        for _ in 0..records {
            log.reserve_more(&mut room, bound(SMALL), bound(undo)).map_err(|_| done)?;
            append(log, SMALL, &mut room);
        }
        log.force(Lsn::MAX).map_err(|_| done)?;
        done += 1;
        sim.mark(done);
    }
    room.abandon();
    Ok(done)
}

fn updates(log: &Log, sim: &SimDisk) {
    try_updates(log, sim).expect("the log runs");
}

/// Opens the log on a full disk, and undoes what has been marked.
fn undo_on_full_disk(disk: &Arc<SimDisk>, marked: u64, context: &str) {
    disk.set_capacity(Some(disk.space()));
    let media: Arc<dyn Media> = Arc::clone(disk) as _;
    let found = Log::look(&media).expect("E20.3");
    assert!(marked == 0 || found.end_lsn().get() > UNDOS + marked - 1, "W4: {context}");
    let log = found.begin(&[], &growing()).expect("it opens");
    let mut room = log.reservation_for_recovery();
    for &len in LONG.iter().take(marked.saturating_sub(1) as usize) {
        append(&log, len, &mut room);
    }
    for _ in 0..UNDOS * marked.min(1) {
        append(&log, SMALL, &mut room);
    }
    log.force(Lsn::MAX).unwrap_or_else(|error| panic!("E16.10: {context}: {error}"));
    let end = log.current_lsn();
    drop((room, log));
    assert!(Log::look(&media).expect("it opens").end_lsn() > end, "W4: {context}");
}

/// Power fails, or the process is killed, at each moment of the growth, and the disk is full then.
#[test]
fn crash_during_growth_leaves_undo_room() {
    let sim = Arc::new(SimDisk::new());
    let log = create(&sim, &growing());
    let created = sim.journal_len();
    updates(&log, &sim);
    drop(log);
    let mut cursor = sim.journal().cursor();
    cursor.advance_to(created);
    let mut tried = 0;
    loop {
        let marked = cursor.marks().iter().map(|mark| mark.label).max().unwrap_or(0);
        let at = cursor.at();
        for loss in [Loss::Everything, Loss::Nothing, Loss::Random(at as u64), Loss::Whole(3), Loss::TornLast(1)] {
            let disk = Arc::new(SimDisk::from_image(cursor.image(loss)));
            undo_on_full_disk(&disk, marked, &format!("{loss:?} at {at}"));
            tried += 1;
        }
        for kill in [Kill::Process(at as u64), Kill::FailedSync(at as u64)] {
            undo_on_full_disk(&Arc::new(cursor.kill(kill)), marked, &format!("{kill:?} at {at}"));
            tried += 1;
        }
        if !cursor.advance() {
            return report_crash_states("log, growth", tried, tried);
        }
    }
}

/// The disk becomes full at each step of the growth: the long record is refused, and the undo of the others has space.
#[test]
fn full_disk_during_growth_refuses_record() {
    let mut refused = 0;
    for pieces in 0..200 {
        let sim = Arc::new(SimDisk::new());
        let log = create(&sim, &growing());
        let mut room = log.reserve(ByteLen(0), ByteLen(0)).expect("nothing is asked");
        for _ in 0..UNDOS {
            log.reserve_more(&mut room, bound(SMALL), bound(SMALL)).expect("there is space");
            append(&log, SMALL, &mut room);
        }
        log.force(Lsn::MAX).expect("the log runs");
        sim.set_capacity(Some(sim.space() + pieces * 16_384));
        match log.reserve_more(&mut room, bound(LONG[1]), ByteLen(0)) {
            Ok(()) => drop(append(&log, LONG[1], &mut room)),
            Err(full) => {
                assert!(matches!(full, LogFull::Disk { .. }), "{full}");
                refused += 1;
            }
        }
        room.spend(Spending::Undo);
        for _ in 0..UNDOS {
            append(&log, SMALL, &mut room);
        }
        log.force(Lsn::MAX).expect("E16.10");
        assert_eq!(log.space().overdrawn, ByteLen(0), "E16.1");
        sim.set_capacity(None);
        log.reserve_more(&mut room, bound(LONG[1]), ByteLen(0)).expect("there is space again");
        append(&log, LONG[1], &mut room);
        log.force(Lsn::MAX).expect("the log runs");
    }
    assert!((10..200).contains(&refused), "{refused}");
}

/// E16.10f: the disk becomes full while files become longer, and the log is opened again. What could be reserved can be reserved.
#[test]
fn half_grown_log_reserves_on_full_disk() {
    let mut half_grown = 0;
    for pieces in 0..60 {
        let sim = Arc::new(SimDisk::new());
        let log = create(&sim, &growing());
        let mut many = Vec::new();
        while log.space().segments < 7 {
            many.push(log.reserve(ByteLen(7000), ByteLen(0)).expect("there is space"));
        }
        drop(many);
        sim.set_capacity(Some(sim.space() + pieces * 16_384));
        half_grown += u64::from(log.reserve(bound(LONG[0]), ByteLen(0)).is_err());
        drop(log.reserve(bound(SMALL), bound(SMALL)).expect("there is space"));
        drop(log);
        let disk = Arc::new(sim.cut_power(Loss::Everything));
        disk.set_capacity(Some(disk.space()));
        let media: Arc<dyn Media> = disk;
        let log = Log::look(&media).expect("E20.3").begin(&[], &growing()).expect("it opens");
        let room = log.reserve(bound(SMALL), bound(SMALL));
        room.unwrap_or_else(|full| panic!("E16.10f: {full} after {pieces}: {:?}", log.space()));
    }
    assert!((10..60).contains(&half_grown), "{half_grown}");
}

/// Each call of the growth fails once. The log may stop, but it opens with all that was acknowledged.
#[test]
fn failed_growth_loses_nothing() {
    for nth in 1..60 {
        let sim = Arc::new(SimDisk::new());
        let log = create(&sim, &growing());
        let mut room = log.reserve(bound(SMALL), ByteLen(0)).expect("there is space");
        let first = append(&log, SMALL, &mut room);
        log.force(first).expect("the log runs");
        sim.inject(Fault::error(Call::Any, ErrorKind::Other).nth(nth));
        let mut last = first;
        for len in LONG {
            if log.reserve_more(&mut room, bound(len), ByteLen(0)).is_ok() {
                let lsn = append(&log, len, &mut room);
                last = log.force(lsn).map_or(last, |forced| forced.up_to());
            }
        }
        sim.clear_faults();
        drop((room, log));
        let media: Arc<dyn Media> = Arc::new(sim.cut_power(Loss::Random(nth)));
        let found = Log::look(&media).expect("E20.3");
        assert!(found.end_lsn() > last, "W4: call {nth}");
        let log = found.begin(&[], &growing()).expect("it opens");
        drop(log.reserve(bound(LONG[1]), ByteLen(0)).expect("it grows"));
    }
}

/// Files that a checkpoint frees after new ones have become longer do not count on a full disk, but a rollback may use them.
#[test]
fn short_files_serve_rollbacks() {
    let sim = Arc::new(SimDisk::new());
    let log = create(&sim, &growing());
    let mut room = log.reserve(ByteLen(0), ByteLen(0)).expect("nothing is asked");
    for _ in 0..200 {
        log.reserve_more(&mut room, bound(SMALL), ByteLen(0)).expect("there is space");
        append(&log, SMALL, &mut room);
    }
    log.reserve_more(&mut room, bound(LONG[0]), ByteLen(0)).expect("there is space");
    let lsn = append(&log, LONG[0], &mut room);
    log.force(lsn).expect("the log runs");
    drop(room);
    sim.set_capacity(Some(sim.space()));
    let before = log.space();
    log.checkpoint_control(&Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 }).expect("the log runs");
    let freed = log.truncate(Lsn::MAX);
    assert!(freed >= 3, "{freed}");
    assert!(log.space().free <= before.free, "E16.10a: they do not count");
    // What fits into files of 128 KiB, and into those of 64 KiB.
    let records = (before.segments - before.segments_in_use) * 116 + freed * 52;
    let mut room = log.reservation_for_recovery();
    for _ in 0..records {
        append(&log, SMALL, &mut room);
    }
    log.force(Lsn::MAX).expect("E16.10a");
}

/// Appends records of `bytes` in all, with a checkpoint after each 500 kB.
fn steady_load(log: &Log, bytes: usize) {
    let mut room = log.reserve(ByteLen(0), ByteLen(0)).expect("nothing is asked");
    for number in 0..bytes / SMALL {
        if number % 100 == 0 {
            room = log.reserve(ByteLen(0), ByteLen(0)).expect("nothing is asked"); // another transaction
        }
        log.reserve_more(&mut room, bound(SMALL), ByteLen(0)).expect("there is space");
        let lsn = append(log, SMALL, &mut room);
        if number % 500 == 499 {
            log.force(lsn).expect("the log runs");
            let checkpoint = Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 };
            log.checkpoint_control(&checkpoint).expect("the log runs");
            log.truncate(Lsn::MAX);
        }
    }
}

/// The log takes what lies between two checkpoints, and some more; however much is written in all.
#[test]
fn log_size_follows_its_use() {
    let sim = Arc::new(SimDisk::new());
    let options = LogOptions { segment_len: 16 << 20, log_bytes_max: 1 << 30, ..LogOptions::small() };
    let log = create(&sim, &options);
    drop(log.reserve(bound(SMALL), bound(SMALL)).expect("there is space"));
    assert!(sim.space() <= 512 << 10, "{}", sim.space());
    steady_load(&log, 5_000_000);
    let before = sim.space();
    assert!(before <= 3 << 20, "{before}");
    steady_load(&log, 100_000_000);
    assert_eq!(sim.space(), before);
    assert!(log.space().segments < 20);
    drop(log.reserve(ByteLen(100 << 20), ByteLen(0)).expect("there is space"));
    assert_eq!(log.space().segments_in_use, 1);
}

/// A log with the smallest limit takes the longest record that it may have, whatever it has written before.
#[test]
fn smallest_log_takes_longest_record() {
    let options = LogOptions { segment_len: 1 << 20, log_bytes_max: 4 << 20, ..LogOptions::small() };
    for small in [0, 100_000, 400_000, 1_000_000] {
        let log = create(&Arc::new(SimDisk::new()), &options);
        let longest = log.body_len_max();
        steady_load(&log, small);
        let mut room = log.reserve(bound(longest), ByteLen(0)).expect("E16.10");
        let lsn = append(&log, longest, &mut room);
        log.force(lsn).expect("the log runs");
        let read = log.scan(lsn).expect("it is there").next().expect("no damage").map(|found| found.record.body.len());
        assert_eq!(read, Some(longest));
    }
}

/// Returns a log of long segments in short files, with so many small records.
fn with_small_records(sim: &Arc<SimDisk>, records: usize) -> Log {
    let options = LogOptions { segment_len: 16 << 20, log_bytes_max: 1 << 30, ..LogOptions::small() };
    let log = create(sim, &options);
    let mut room = log.reserve(ByteLen(0), ByteLen(0)).expect("nothing is asked");
    for _ in 0..records {
        log.reserve_more(&mut room, bound(SMALL), ByteLen(0)).expect("there is space");
        append(&log, SMALL, &mut room);
    }
    log.force(Lsn::MAX).expect("the log runs");
    log
}

/// The bytes that a record keeps are those of the files, although short files leave the rest of their segments unused.
#[test]
fn kept_bytes_are_bytes_of_files() {
    let log = with_small_records(&Arc::new(SimDisk::new()), 300);
    let kept = log.bytes_since(Lsn::new(1)).0;
    assert!((300_000..400_000).contains(&kept), "{kept}");
}

/// E16.10d: so are those that a scan reports, though its offsets are far apart.
#[test]
fn scan_reports_bytes_of_files() {
    let sim = Arc::new(SimDisk::new());
    drop(with_small_records(&sim, 250));
    let media: Arc<dyn Media> = sim;
    let found = Log::look(&media).expect("it opens");
    let mut scan = found.scan(Lsn::ZERO).expect("it is there");
    let (_, bytes) = scan.progress();
    assert!((250_000..300_000).contains(&bytes.0), "{bytes:?}");
    let mut half = ByteLen(0);
    for record in 0..250 {
        assert!(scan.next().expect("no damage").is_some());
        half = if record == 125 { scan.progress().0 } else { half };
    }
    assert_eq!(scan.progress().0, bytes);
    assert!((100_000..200_000).contains(&half.0), "{half:?}");
}

/// Returns the length of all segment files.
fn files_len(sim: &SimDisk) -> u64 {
    let image = sim.image();
    let files = image.names().filter(|name| name.starts_with("log/"));
    files.map(|name| image.file(name).expect("it has this name").len() as u64).sum()
}

/// Appends small records, as far as they have space, then twenty of the longest, and frees what lies before each of these. Checks each
/// of these.
fn longer_and_longer(log: &Log, small: usize, mut check: impl FnMut(Lsn)) {
    let free_before = |lsn| {
        log.checkpoint_control(&Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 }).expect("the log runs");
        log.truncate(Lsn::MAX);
    };
    let mut lsn = Lsn::ZERO;
    let mut room = log.reserve(ByteLen(0), ByteLen(0)).expect("nothing is asked");
    for _ in 0..small {
        if log.reserve_more(&mut room, bound(SMALL), ByteLen(0)).is_err() {
            break;
        }
        lsn = append(log, SMALL, &mut room);
    }
    drop(room);
    free_before(lsn);
    let longest = log.body_len_max();
    for _ in 0..20 {
        let mut room = log.reserve(bound(longest), bound(longest)).expect("there is space");
        lsn = append(log, longest, &mut room);
        check(lsn);
        free_before(lsn);
    }
}

/// E16.10b: files that a checkpoint frees are shorter than new ones, and together they are more than the limit.
#[test]
fn short_files_keep_the_limit() {
    for small in [100, 1000, 5000] {
        let sim = Arc::new(SimDisk::new());
        let options = LogOptions { segment_len: 1 << 20, log_bytes_max: 6 << 20, ..LogOptions::small() };
        let log = create(&sim, &options);
        longer_and_longer(&log, small, |_| {
            let len = files_len(&sim);
            assert!(len <= options.log_bytes_max, "E16.10b: {len} after {small}");
        });
    }
}

/// R6: a sync fails while files become longer, and the process ends. The next one reserves space in them; then power fails.
#[test]
fn longer_files_survive_power_failure() {
    let sim = Arc::new(SimDisk::new());
    let log = create(&sim, &growing());
    let created = sim.journal_len();
    drop(log.reserve(bound(LONG[0]), ByteLen(0)).expect("it grows"));
    drop(log);
    let mut cursor = sim.journal().cursor();
    cursor.advance_to(created);
    loop {
        let at = cursor.at();
        for seed in 0..8 {
            let disk = Arc::new(cursor.kill(Kill::FailedSync(seed)));
            disk.set_capacity(Some(disk.space()));
            let media: Arc<dyn Media> = Arc::clone(&disk) as _;
            let log = Log::look(&media).expect("E20.3").begin(&[], &growing()).expect("it opens");
            let mut room = log.reserve(ByteLen(0), ByteLen(0)).expect("nothing is asked");
            let mut undos = 0;
            while log.reserve_more(&mut room, bound(HEAD), bound(SMALL)).is_ok() {
                append(&log, HEAD, &mut room);
                undos += 1;
            }
            log.force(Lsn::MAX).expect("the log runs");
            room.abandon();
            drop(log);
            let disk = Arc::new(disk.cut_power(Loss::Everything));
            disk.set_capacity(Some(disk.space()));
            let media: Arc<dyn Media> = Arc::clone(&disk) as _;
            let log = Log::look(&media).expect("E20.3").begin(&[], &growing()).expect("it opens");
            let mut room = log.reservation_for_recovery();
            for _ in 0..undos {
                append(&log, SMALL, &mut room);
            }
            log.force(Lsn::MAX).unwrap_or_else(|error| panic!("R6: {seed} at {at}: {undos} undos: {error}"));
        }
        if !cursor.advance() {
            return;
        }
    }
}

/// A sync of the growth fails and forgets, or a call of it fails: the log grows nevertheless, or stops. After a power failure the
/// undo of what was acknowledged has its space.
#[test]
fn forgotten_sync_leaves_undo_room() {
    let faults: [(fn() -> Fault, u64); 2] =
        [(Fault::forgetful_sync, 30), (|| Fault::error(Call::Any, ErrorKind::Other), 120)];
    let (mut stopped, mut grown) = (0, 0);
    for (fault, calls) in faults {
        for nth in 1..calls {
            let sim = Arc::new(SimDisk::new());
            let log = create(&sim, &growing());
            sim.inject(fault().nth(nth));
            let done = try_updates(&log, &sim);
            *if done.is_ok() { &mut grown } else { &mut stopped } += 1;
            sim.clear_faults();
            drop(log);
            let (Ok(done) | Err(done)) = done;
            for loss in [Loss::Everything, Loss::Random(nth), Loss::Whole(nth)] {
                let disk = Arc::new(sim.cut_power(loss));
                undo_on_full_disk(&disk, done, &format!("call {nth} of {calls}, {loss:?}"));
            }
            let mut cursor = sim.journal().cursor();
            cursor.advance_to(sim.journal_len());
            let killed = cursor.kill(Kill::Process(nth));
            let disk = Arc::new(killed.cut_power(Loss::Everything));
            undo_on_full_disk(&disk, done, &format!("call {nth} of {calls}, killed, then without power"));
        }
    }
    assert!(stopped > 20 && grown > 20, "{stopped} stopped, {grown} grown");
}

/// A process is killed at each moment of the growth. The next one is killed, too, or loses power, while it grows again.
#[test]
fn second_crash_during_growth_leaves_undo_room() {
    let sim = Arc::new(SimDisk::new());
    let log = create(&sim, &growing());
    let created = sim.journal_len();
    drop(log.reserve(bound(LONG[0]), ByteLen(0)).expect("it grows"));
    drop(log);
    let mut cursor = sim.journal().cursor();
    cursor.advance_to(created);
    let (mut tried, mut random) = (0, 1);
    loop {
        for kill in [Kill::Process(random), Kill::FailedSync(random)] {
            let again = Arc::new(cursor.kill(kill));
            let media: Arc<dyn Media> = Arc::clone(&again) as _;
            let log = Log::look(&media).expect("E20.3").begin(&[], &growing()).expect("it opens");
            updates(&log, &again);
            drop(log);
            for _ in 0..6 {
                random = (random * 7 + 5) % (1 << 40);
                let mut second = again.journal().cursor();
                second.advance_to((random % (again.journal_len() as u64 + 1)) as usize);
                let marked = second.marks().iter().map(|mark| mark.label).max().unwrap_or(0);
                let context = format!("{kill:?} at {}, then {random} at {}", cursor.at(), second.at());
                undo_on_full_disk(&Arc::new(SimDisk::from_image(second.image(Loss::Random(random)))), marked, &context);
                undo_on_full_disk(&Arc::new(SimDisk::from_image(second.image(Loss::Everything))), marked, &context);
                undo_on_full_disk(&Arc::new(second.kill(Kill::FailedSync(random))), marked, &context);
                tried += 3;
            }
        }
        if !cursor.advance() {
            return report_crash_states("log, growth twice", tried, tried);
        }
    }
}

/// E16.10c: a replica restores files that have become longer since a segment used them. They count as before.
#[test]
fn restored_files_are_as_long() {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let replica = Replica::new();
    let sink = Arc::new(ReplicaSink::new(replica.clone(), StableWhen::Both));
    let options = LogOptions { sink, ..growing() };
    let log = create(&sim, &options);
    let mut room = log.reserve(ByteLen(0), ByteLen(0)).expect("nothing is asked");
    let mut lsn = Lsn::ZERO;
    for _ in 0..150 {
        log.reserve_more(&mut room, bound(SMALL), ByteLen(0)).expect("there is space");
        lsn = append(&log, SMALL, &mut room);
    }
    drop(room);
    log.checkpoint_control(&Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 }).expect("the log runs");
    assert!(log.truncate(Lsn::MAX) > 0);
    drop(log.reserve(bound(LONG[1]), bound(LONG[1])).expect("it grows"));
    let before = log.space();
    drop(log);
    replica.restore(&*media).expect("the disk works");
    let log = Log::look(&media).expect("it opens").begin(&[], &options).expect("it opens");
    assert_eq!(log.space().segments, before.segments, "E16.10c");
}

/// E16.10e: the log has removed files whose pieces the replica had, and power fails.
#[test]
fn removed_files_are_not_restored() {
    for small in [100, 1000, 5000] {
        let sim = Arc::new(SimDisk::new());
        let replica = Replica::new();
        let sink = Arc::new(ReplicaSink::new(replica.clone(), StableWhen::Replica));
        let options = LogOptions { sink, segment_len: 1 << 20, log_bytes_max: 6 << 20, ..LogOptions::small() };
        let log = create(&sim, &options);
        longer_and_longer(&log, small, |lsn| {
            log.force(lsn).expect("the log runs");
            let disk: Arc<dyn Media> = Arc::new(sim.journal().crash(sim.journal_len(), Loss::Everything));
            replica.restore(&*disk).expect("E16.10e");
            let restored = Log::look(&disk).expect("E16.10e").begin(&[], &options).expect("it opens");
            assert!(restored.durable_lsn() >= lsn, "E16.10e");
        });
    }
}

/// A sink of a process that ends with the power of its machine.
#[derive(Debug)]
struct Powered {
    sink: ReplicaSink,
    media: Arc<dyn Media>,
}

impl Powered {
    fn check_power(&self) -> std::io::Result<()> {
        self.media.open("control", OpenMode::Read).and_then(|file| self.media.len(file)).map(drop)
    }
}

impl Sink for Powered {
    fn stabilise(&self, piece: Piece<'_>, local: &dyn Local) -> std::io::Result<()> {
        self.check_power()?;
        self.sink.stabilise(piece, local)
    }

    fn removing(&self, file: &str) {
        if self.check_power().is_ok() {
            self.sink.removing(file);
        }
    }
}

/// Appends longer and longer records until the power fails. Returns the newest LSN that was acknowledged, and whether it failed.
fn append_until_power_fails(log: &Log) -> (Lsn, bool) {
    let mut newest = Lsn::ZERO;
    for len in [SMALL, 20_000, LONG[0], 20_000, 20_000, 20_000, LONG[1]] {
        let Ok(mut room) = log.reserve(bound(len), bound(len)) else { return (newest, true) };
        let lsn = append(log, len, &mut room);
        let Ok(forced) = log.force(lsn) else { return (newest, true) };
        newest = forced.up_to();
    }
    (newest, false)
}

/// E16.10e: power fails at each call of the growth. A replica has no piece of a file that has lost its name.
#[test]
fn file_without_name_is_not_restored() {
    for nth in 1.. {
        let sim = Arc::new(SimDisk::new());
        let media: Arc<dyn Media> = Arc::clone(&sim) as _;
        let replica = Replica::new();
        let sink = || ReplicaSink::new(replica.clone(), StableWhen::Replica);
        let options = LogOptions { sink: Arc::new(Powered { sink: sink(), media }), ..growing() };
        let log = create(&sim, &options);
        sim.inject(Fault::power_loss(Call::Any).nth(nth));
        let (newest, has_failed) = append_until_power_fails(&log);
        drop(log);
        if !has_failed {
            assert!(nth > 100, "{nth}");
            return;
        }
        let disk: Arc<dyn Media> = Arc::new(sim.cut_power(Loss::Everything));
        replica.restore(&*disk).unwrap_or_else(|error| panic!("E16.10e: call {nth}: {error}"));
        let options = LogOptions { sink: Arc::new(sink()), ..growing() };
        let log = Log::look(&disk).expect("E20.3").begin(&[], &options).expect("it opens");
        assert!(log.durable_lsn() >= newest, "W4: call {nth}");
    }
}

/// Threads of two partitions append while files become longer, and checkpoints free them. Nothing that counts is lost.
#[test]
fn threads_append_while_log_grows() {
    const THREADS: u64 = 4;
    let sim = Arc::new(SimDisk::new());
    let options = LogOptions { partitions: 2, log_bytes_max: 1024 * SEGMENT_LEN_MIN, ..growing() };
    let log = create(&sim, &options);
    let writer = log.start_writer();
    thread::scope(|scope| {
        for number in 0..THREADS {
            let log = log.clone();
            scope.spawn(move || {
                let partition = PartitionId((number % 2) as u16);
                for record in 0..300 {
                    let body = vec![number as u8; 100 + (record * (number as usize + 1) * 97) % 30_000];
                    let mut room = log.reserve(bound(body.len()), bound(body.len())).expect("there is space");
                    let lsn = log.append(partition, update(number + 1, None), &[&body], &mut room).lsn;
                    if record % 10 == 0 {
                        log.force(lsn).expect("the log runs");
                    }
                    if number == 0 && record % 100 == 99 {
                        let lsn = log.durable_lsn();
                        let checkpoint = Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 };
                        log.checkpoint_control(&checkpoint).expect("the log runs");
                        log.truncate(Lsn::MAX);
                    }
                }
            });
        }
    });
    log.force(Lsn::MAX).expect("the log runs");
    assert_eq!(log.space().overdrawn, ByteLen(0), "E16.1");
    drop(writer);
    let from = log.control().checkpoint.scan_lsn.get();
    drop(log);
    let media: Arc<dyn Media> = Arc::new(sim.journal().crash(sim.journal_len(), Loss::Everything));
    let found = Log::look(&media).expect("it opens").begin(&[], &options).expect("it opens");
    assert_eq!(lsns(found.scan(Lsn::ZERO).expect("no damage")), (from..=THREADS * 300).collect::<Vec<_>>(), "W3");
}
