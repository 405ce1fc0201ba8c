//! Failures of the disk while the log is open: stops are final, a full disk is not.

use cedrat_media::{Call, Durability, Fault as DiskFault, KeyError, Loss, Media, OpenMode, SimDisk};
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, Mutex, explore, thread};
use cedrat_wal::*;
use std::io::ErrorKind;

use crate::common::*;

fn new() -> (Arc<SimDisk>, Arc<dyn Media>, Log) {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
    (sim, media, log)
}

fn append(log: &Log, reservation: &mut Reservation) -> Appended {
    log.append(PartitionId(0), update(1, None), &[&[7; 100]], reservation)
}

#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn failed_write_stops_log_permanently() {
    let (sim, media, log) = new();
    let mut reservation = log.reserve(ByteLen(10_000), ByteLen(0)).unwrap();
    let kept = append(&log, &mut reservation);
    log.force(kept.lsn).unwrap();
    sim.inject(DiskFault::error(Call::Write, ErrorKind::Other).of("log/"));
    let lost = append(&log, &mut reservation);
    let stopped = log.force(lost.lsn).unwrap_err();
    assert!(stopped.to_string().contains("log/"), "{stopped}");
    // The disk would work again; the log does not try it (W6, E16.4).
    let writes = sim.journal_len();
    assert_eq!(log.force(lost.lsn), Err(stopped.clone()));
    assert_eq!(log.stopped(), Some(stopped));
    assert!(log.ticket(lost.lsn).wait().is_err(), "E16.5");
    assert!(log.promise().is_err(), "E16.5");
    assert!(log.checkpoint_control(&log.control().checkpoint).is_err(), "E16.5");
    for _ in 0..1000 {
        append(&log, &mut reservation); // dropped
    }
    assert_eq!(sim.journal_len(), writes, "W6");
    assert!(!log.is_stable(lost.lsn));
    drop(log);
    sim.clear_faults();
    assert!(Log::look(&media).unwrap().end_lsn() > kept.lsn, "W4");
}

#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn failed_control_write_stops_log() {
    let (sim, _, log) = new();
    sim.inject(DiskFault::error(Call::Write, ErrorKind::Other).of("control"));
    assert!(log.checkpoint_control(&log.control().checkpoint).is_err());
    let stopped = log.stopped().expect("W6").to_string();
    assert!(stopped.contains("the log stopped: writing control failed"), "{stopped}");
}

/// The control file notes each segment that begins.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn failed_note_of_segment_stops_log() {
    let (sim, _, log) = new();
    let mut reservation = log.reserve(ByteLen(200_000), ByteLen(0)).unwrap();
    sim.inject(DiskFault::error(Call::Write, ErrorKind::Other).of("control"));
    let last = (0..1000).map(|_| append(&log, &mut reservation)).last().unwrap();
    let stopped = log.force(last.lsn).unwrap_err().to_string();
    assert!(stopped.contains("the log stopped: writing control failed"), "{stopped}");
}

/// Any call fails, at any moment: no panic, and every acknowledged record is found.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn every_call_may_fail() {
    for nth in 1..200 {
        let sim = Arc::new(SimDisk::new());
        let media: Arc<dyn Media> = Arc::clone(&sim) as _;
        sim.inject(DiskFault::error(Call::Any, ErrorKind::Other).nth(nth));
        let mut acknowledged = Lsn::ZERO;
        let run = |acknowledged: &mut Lsn| -> Option<()> {
            let log = Log::create(&media, &LogOptions::small(), &["a"]).ok()?;
            let mut reservation = log.reserve(ByteLen(0), ByteLen(0)).ok()?;
            for n in 0..30 {
                log.reserve_more(&mut reservation, ByteLen(4000), ByteLen(0)).ok()?;
                let place = log.append(PartitionId(0), update(1, None), &[&[7; 3000]], &mut reservation);
                log.force(place.lsn).ok()?;
                *acknowledged = place.lsn;
                if n % 10 == 9 {
                    let lsn = place.lsn;
                    log.checkpoint_control(&Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 }).ok()?;
                    log.truncate(Lsn::MAX);
                }
            }
            Some(())
        };
        run(&mut acknowledged);
        sim.clear_faults();
        let crashed: Arc<dyn Media> = Arc::new(sim.journal().crash(sim.journal_len(), Loss::Everything));
        match Log::look(&crashed) {
            Ok(found) => {
                assert!(found.end_lsn() > acknowledged, "W4: call {nth}");
                found.begin(&[], &LogOptions::small()).unwrap();
            }
            Err(LogError::Absent { .. }) => assert_eq!(acknowledged, Lsn::ZERO, "call {nth}"),
            Err(other) => panic!("call {nth}: {other}"),
        }
    }
}

/// A call that fails is no damage: the remedy is another one.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn failed_call_does_not_damage_unfinished_log() {
    let sim = SimDisk::new();
    sim.open("control", OpenMode::Create).unwrap();
    let mut failed = 0;
    for nth in 1..20 {
        let disk = Arc::new(SimDisk::from_image(sim.image()));
        let media: Arc<dyn Media> = Arc::clone(&disk) as _;
        disk.inject(DiskFault::error(Call::Any, ErrorKind::Other).nth(nth));
        match Log::look(&media).map(drop) {
            Err(LogError::Io { .. } | LogError::Key(KeyError::Io { .. })) => failed += 1,
            found => assert!(matches!(found, Err(LogError::Absent { .. })), "call {nth}: {found:?}"),
        }
    }
    assert!(failed > 2, "{failed}");
}

/// Looking and beginning may fail at every call as well; both can then be repeated.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn every_call_of_an_opening_may_fail() {
    let (sim, _, log) = new();
    let mut reservation = log.reserve(ByteLen(10_000), ByteLen(0)).unwrap();
    let last = (0..20).map(|_| append(&log, &mut reservation)).last().unwrap();
    log.force(last.lsn).unwrap();
    drop((reservation, log));
    for nth in 1..100 {
        let disk = Arc::new(SimDisk::from_image(sim.image()));
        let media: Arc<dyn Media> = Arc::clone(&disk) as _;
        disk.inject(DiskFault::error(Call::Any, ErrorKind::Other).nth(nth));
        let before = disk.image().hash();
        match Log::look(&media) {
            Ok(found) => drop(found.begin(&["new"], &LogOptions::small())),
            Err(error) => {
                assert!(matches!(error, LogError::Io { .. }), "{error}");
                assert_eq!(disk.image().hash(), before, "R2");
            }
        }
        disk.clear_faults();
        let found = Log::look(&media).expect("it opens without the fault");
        assert_eq!(found.end_lsn(), last.lsn.next(), "call {nth}");
        found.begin(&["new"], &LogOptions::small()).unwrap();
    }
}

/// E16.4: nothing is lost, and the limit may be raised.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn lack_of_descriptors_refuses_append() {
    let (sim, _, log) = new();
    let mut reservation = log.reserve(ByteLen(100), ByteLen(0)).unwrap();
    sim.inject(DiskFault::error(Call::Open, ErrorKind::QuotaExceeded).of("log/").permanent());
    let full = loop {
        match log.reserve_more(&mut reservation, ByteLen(200), ByteLen(0)) {
            Ok(()) => drop(append(&log, &mut reservation)),
            Err(full) => break full,
        }
    };
    assert!(matches!(full, LogFull::Descriptors { .. }), "{full}");
    log.force(log.current_lsn()).expect("E16.4");
    sim.clear_faults();
    log.reserve_more(&mut reservation, ByteLen(200), ByteLen(0)).expect("the next segment has a file");
    append(&log, &mut reservation);
    log.force(log.current_lsn()).expect("the log runs");
}

#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn a_full_disk_refuses_and_recovers() {
    let (sim, _, log) = new();
    let mut reservation = log.reserve(ByteLen(100), ByteLen(100)).unwrap();
    sim.set_capacity(Some(sim.space() + 10_000));
    let mut done = 0;
    let full = loop {
        match log.reserve_more(&mut reservation, ByteLen(200), ByteLen(200)) {
            Ok(()) => drop(append(&log, &mut reservation)),
            Err(full) => break full,
        }
        done += 1;
    };
    assert!(matches!(full, LogFull::Disk { segment_len: SEGMENT_LEN_MIN }), "E16.4: {full}");
    assert!(log.stopped().is_none(), "E16.4");
    reservation.spend(Spending::Undo);
    for _ in 0..done {
        append(&log, &mut reservation);
    }
    log.force(log.current_lsn()).expect("what was reserved has room (E16.1)");
    assert_eq!(log.space().overdrawn, ByteLen(0));
    sim.set_capacity(None);
    log.reserve(ByteLen(100_000), ByteLen(0)).expect("space returned");
}

#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn short_reads_and_writes_change_nothing() {
    let (sim, media, log) = new();
    sim.shorten(Some(4));
    let mut reservation = log.reserve(ByteLen(100_000), ByteLen(0)).unwrap();
    let last = (0..300).map(|_| append(&log, &mut reservation)).last().unwrap();
    log.force(last.lsn).unwrap();
    assert_eq!(lsns(log.scan(Lsn::ZERO).unwrap()).len(), 300);
    assert_eq!(lsns(Log::look(&media).unwrap().scan(Lsn::ZERO).unwrap()).len(), 300);
}

#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn invalid_options_are_refused_by_name() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let wrong = |change: fn(&mut LogOptions)| {
        let mut options = LogOptions::small();
        change(&mut options);
        Log::create(&media, &options, &[]).unwrap_err().to_string()
    };
    assert!(wrong(|options| options.partitions = 0).contains("partitions"));
    assert!(wrong(|options| options.partitions = 1000).contains("partitions"));
    assert!(wrong(|options| options.segment_len = 5000).contains("segment_len"));
    assert!(wrong(|options| options.log_bytes_max = 5000).contains("log_bytes_max"));
    assert!(wrong(|options| options.writes_in_flight = 0).contains("writes_in_flight"));
    assert!(wrong(|options| options.block_len_max = 100).contains("block_len_max"));
    let long = "n".repeat(NAME_LEN_MAX + 1);
    assert!(matches!(Log::create(&media, &LogOptions::small(), &[&long]), Err(LogError::Limit { .. })));
    assert!(media.list("").unwrap().is_empty(), "nothing was written");
}

/// A sink whose write of the first record loses its bytes, while the error goes to the write of the second one.
#[derive(Debug)]
struct Misreported {
    sim: SimDisk,
    /// The length of the journal before the first record is written.
    first_begins: Mutex<Option<usize>>,
    first_has_returned: AtomicBool,
}

impl Misreported {
    fn wait_until_first_is_written(&self) {
        while self.first_begins.lock().is_none_or(|begins| self.sim.journal_len() == begins) {
            thread::yield_now();
        }
    }
}

impl Sink for Misreported {
    fn stabilise(&self, piece: Piece<'_>, local: &dyn Local) -> std::io::Result<()> {
        if piece.first_lsn == Lsn::new(1) {
            self.sim.inject(DiskFault::misreported_write());
            *self.first_begins.lock() = Some(self.sim.journal_len());
        }
        let written = local.write(Durability::Durable);
        while piece.first_lsn == Lsn::new(2) && !self.first_has_returned.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        written
    }
}

/// W4a: two commits are written at the same time; Linux reports the failure of one to the other.
#[test]
fn commit_with_misreported_error_is_refused() {
    explore(43, 100, || {
        let sim = SimDisk::new();
        let media: Arc<dyn Media> = Arc::new(sim.clone());
        let (first_begins, first_has_returned) = (Mutex::default(), AtomicBool::new(false));
        let sink = Arc::new(Misreported { sim: sim.clone(), first_begins, first_has_returned });
        let options = LogOptions { writes_in_flight: 2, sink: Arc::clone(&sink) as _, ..LogOptions::small() };
        let log = Log::create(&media, &options, &[]).unwrap();
        let mut reservation = log.reserve(ByteLen(10_000), ByteLen(0)).unwrap();
        let first = append(&log, &mut reservation).lsn;
        let committer = {
            let (log, sink) = (log.clone(), Arc::clone(&sink));
            thread::spawn(move || {
                let forced = log.force(first).map(|_| ());
                sink.first_has_returned.store(true, Ordering::SeqCst);
                forced
            })
        };
        sink.wait_until_first_is_written();
        let second = append(&log, &mut reservation).lsn;
        assert_eq!((first, second), (Lsn::new(1), Lsn::new(2)));
        let second_forced = log.force(second).map(|_| ());
        let forced = [committer.join().unwrap(), second_forced];
        drop(log);
        let found = Log::look(&(Arc::new(sim.cut_power(Loss::Everything)) as _)).unwrap().end_lsn();
        for (lsn, forced) in [first, second].into_iter().zip(forced) {
            assert!(forced.is_err() || lsn < found, "W4a: LSN {lsn} was acknowledged, the log ends at {found}");
        }
    });
}
