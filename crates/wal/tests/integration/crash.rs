//! Power failures at every moment of a small workload, repeatedly: every acknowledged record is found.

use cedrat_media::{Durability, Kill, Loss, Media, OpenMode, SimDisk, write_all_at};
use cedrat_sync::{Arc, Mutex, thread};
use cedrat_wal::*;
use std::collections::{BTreeMap, HashSet};

use crate::common::*;

/// The appended records: LSN to body. Shared by the threads of a workload.
type Appendeds = Arc<Mutex<BTreeMap<u64, Vec<u8>>>>;

/// A workload with its options.
struct Workload {
    options: LogOptions,
    /// The number of threads; each uses the partition with its number, modulo.
    threads: u16,
    records: u64,
    /// One record of this many is forced.
    force_one_in: u64,
    body_len: usize,
    checkpoint_one_in: u64,
    /// Whether segments are begun ahead of need, as early as possible.
    ahead: bool,
}

fn options(partitions: u16) -> LogOptions {
    LogOptions { partitions, ..LogOptions::small() }
}

/// Appends, forces, and marks acknowledged LSNs.
fn work(log: &Log, sim: &Arc<SimDisk>, workload: &Workload, appended: &Appendeds, salt: u64) {
    if workload.ahead {
        drop(log.reserve(ByteLen(5 * SEGMENT_LEN_MIN), ByteLen(0))); // reserves the space for beginning ahead
    }
    let one = |number: u16| {
        let partition = PartitionId(number % workload.options.partitions);
        let mut reservation = log.reserve(ByteLen(0), ByteLen(0)).unwrap();
        for n in 0..workload.records {
            let body: Vec<u8> = (0..workload.body_len as u64).map(|at| (at * 7 + n + salt * 31) as u8).collect();
            let bound = record_len_bound(ByteLen(body.len() as u64 + 16));
            if log.reserve_more(&mut reservation, bound, ByteLen(0)).is_err() {
                return; // the disk is gone
            }
            let id = (salt << 32 | u64::from(number) << 16 | n).to_le_bytes();
            let mut appended = appended.lock();
            let place = log.append(partition, update(u64::from(number), None), &[&id, &body], &mut reservation);
            appended.insert(place.lsn.get(), [&id[..], &body].concat());
            drop(appended);
            if n % workload.force_one_in == 0 {
                match log.force(place.lsn) {
                    Ok(forced) => sim.mark(forced.up_to().get()),
                    Err(_) => return,
                }
            }
            if workload.ahead && log.begin_ahead().is_err() {
                return;
            }
            if number == 0 && n % workload.checkpoint_one_in == workload.checkpoint_one_in - 1 {
                let lsn = place.lsn;
                let checkpoint = Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: n };
                if log.checkpoint_control(&checkpoint).is_err() {
                    return;
                }
                log.truncate(Lsn::MAX);
            }
        }
    };
    if workload.threads == 1 {
        return one(0);
    }
    thread::scope(|scope| {
        for number in 0..workload.threads {
            scope.spawn(move || one(number));
        }
    });
}

/// Checks the state after a crash: every acknowledged record is found, no record is found that was never appended,
/// and the prefix is dense.
fn judge(media: &Arc<dyn Media>, acknowledged: u64, appended: &BTreeMap<u64, Vec<u8>>) -> Found {
    let found = Log::look(media).expect("a crash never makes a log unopenable (E20.3)");
    assert!(found.end_lsn().get() > acknowledged, "W4: {acknowledged} was acknowledged, {:?}", found.end_lsn());
    let mut expected = found.control().checkpoint.scan_lsn.get();
    let mut scan = found.scan(Lsn::ZERO).unwrap();
    while let Some(next) = scan.next().expect("a crash damages nothing that counts") {
        let lsn = next.record.lsn.get();
        if !appended.contains_key(&expected) {
            expected = *appended.range(expected..).next().expect("a record that was appended").0; // E1.5
        }
        assert_eq!(lsn, expected, "W1");
        assert_eq!(Some(next.record.body), appended.get(&lsn).map(Vec::as_slice), "E1.3: LSN {lsn}");
        expected += 1;
    }
    found
}

fn acknowledged(marks: &[cedrat_media::Mark]) -> u64 {
    marks.iter().map(|mark| mark.label).max().unwrap_or(0)
}

/// Returns the records of a run that were still found when the next one began.
fn kept(found: &Found) -> BTreeMap<u64, Vec<u8>> {
    let mut kept = BTreeMap::new();
    let mut scan = found.scan(Lsn::ZERO).unwrap();
    while let Some(next) = scan.next().unwrap() {
        kept.insert(next.record.lsn.get(), next.record.body.to_vec());
    }
    kept
}

/// Runs a workload once and checks every crash of it; every `again`th crash state is continued, and crashed again at every moment.
/// At every `again`th call the process is killed, too: the next one finds volatile bytes (R6, A9), and crashes at every moment.
/// Returns the number of distinct states.
fn every_crash(name: &str, workload: &Workload, losses: &[Loss], again: usize) -> usize {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let log = Log::create(&media, &workload.options, &["a name"]).unwrap();
    let created = sim.journal_len();
    let appended = Appendeds::default();
    work(&log, &sim, workload, &appended, 1);
    let grows = workload.options.segments_before_longer.is_some();
    assert!(!grows || !log.needs_longer_segments(ByteLen(SEGMENT_LEN_MIN / 8), ByteLen(0)), "it did not grow");
    drop(log);
    let appended = appended.lock().clone();
    let (mut seen, mut judged, mut tried) = (HashSet::new(), HashSet::new(), 0);
    let mut cursor = sim.journal().cursor();
    cursor.advance_to(created);
    loop {
        for &loss in losses {
            let image = cursor.image(loss);
            let before = acknowledged(cursor.marks());
            if !judged.insert((image.hash(), before)) {
                continue; // the same bytes, and no more acknowledged than before
            }
            seen.insert(image.hash());
            let disk = Arc::new(SimDisk::from_image(image));
            let media: Arc<dyn Media> = Arc::clone(&disk) as _;
            let found = judge(&media, before, &appended);
            if judged.len() % again == 0 {
                let second = Workload { records: 5, threads: 1, options: workload.options.clone(), ..*workload };
                tried += go_on(&disk, found, before, &second, &mut seen, false);
            }
        }
        let at = cursor.at();
        if at.is_multiple_of(again) && !cursor.unsettled().is_empty() {
            for kill in [Kill::Process(at as u64), Kill::FailedSync(at as u64)] {
                let disk = Arc::new(cursor.kill(kill));
                let media: Arc<dyn Media> = Arc::clone(&disk) as _;
                let before = acknowledged(cursor.marks());
                let found = judge(&media, before, &appended);
                let next = Workload { records: 5, threads: 1, options: workload.options.clone(), ..*workload };
                tried += go_on(&disk, found, before, &next, &mut seen, true);
            }
        }
        if !cursor.advance() {
            report_crash_states(name, tried + judged.len(), seen.len());
            return seen.len();
        }
    }
}

/// Begins again on a disk after a crash or a kill, appends a little, and checks every crash of that; after a kill, those behind the
/// opening. Returns their number.
fn go_on(
    disk: &Arc<SimDisk>,
    found: Found,
    before: u64,
    workload: &Workload,
    seen: &mut HashSet<u64>,
    is_killed: bool,
) -> usize {
    let mut tried = 0;
    let mut model = kept(&found);
    let mut from = 0;
    if let Ok(log) = found.begin(&["another name"], &workload.options) {
        if is_killed {
            from = disk.journal_len();
        }
        let appended = Appendeds::default();
        work(&log, disk, workload, &appended, 2);
        for (lsn, body) in std::mem::take(&mut *appended.lock()) {
            assert!(model.insert(lsn, body).is_none(), "E1.2: LSN {lsn} was used again");
        }
    }
    let mut cursor = disk.journal().cursor();
    cursor.advance_to(from);
    loop {
        for loss in [Loss::Everything, Loss::Random(5)] {
            let image = cursor.image(loss);
            seen.insert(image.hash());
            let media: Arc<dyn Media> = Arc::new(SimDisk::from_image(image));
            judge(&media, acknowledged(cursor.marks()).max(before), &model);
            tried += 1;
        }
        if !cursor.advance() {
            return tried;
        }
    }
}

const LOSSES: [Loss; 12] = [
    Loss::Everything,
    Loss::Nothing,
    Loss::Random(1),
    Loss::Random(2),
    Loss::Random(11),
    Loss::Random(12),
    Loss::Random(13),
    Loss::Random(14),
    Loss::Whole(3),
    Loss::Whole(15),
    Loss::TornLast(0b1),
    Loss::TornLast(0b1111_1110),
];

#[test]
fn one_partition_one_thread() {
    let workload = Workload {
        options: options(1),
        threads: 1,
        records: 560,
        force_one_in: 3,
        body_len: 700,
        checkpoint_one_in: 45,
        ahead: false,
    };
    let states = every_crash("log, one partition", &workload, &LOSSES, 4);
    assert!(states > 250, "{states}");
}

#[test]
fn one_partition_several_writes_in_flight() {
    let workload = Workload {
        options: options(1),
        threads: 4,
        records: 60,
        force_one_in: 1,
        body_len: 1500,
        checkpoint_one_in: 14,
        ahead: false,
    };
    let states = every_crash("log, writes in flight", &workload, &LOSSES, 4);
    assert!(states > 250, "{states}");
}

#[test]
fn concurrent_partition_writes_survive_every_crash() {
    for partitions in [2, 3] {
        let workload = Workload {
            options: options(partitions),
            threads: 4,
            records: 90,
            force_one_in: 2,
            body_len: 1000,
            checkpoint_one_in: 11,
            ahead: false,
        };
        let states = every_crash(&format!("log, {partitions} partitions, writes in flight"), &workload, &LOSSES, 3);
        assert!(states > 250, "{partitions}: {states}");
    }
}

/// W8: segments that have begun, but hold no block yet, are found, and are no loss.
#[test]
fn segments_begun_ahead_of_need() {
    for partitions in [1, 2] {
        let workload = Workload {
            options: options(partitions),
            threads: 1 + partitions,
            records: 70,
            force_one_in: 2,
            body_len: 3000,
            checkpoint_one_in: 11,
            ahead: true,
        };
        let states = every_crash(&format!("log, {partitions} partitions, begun ahead"), &workload, &LOSSES, 4);
        assert!(states > 250, "{partitions}: {states}");
    }
}

#[test]
fn segments_are_recycled_between_crashes() {
    let workload = Workload {
        options: LogOptions { log_bytes_max: 8 * SEGMENT_LEN_MIN, ..options(1) },
        threads: 1,
        records: 400,
        force_one_in: 5,
        body_len: 2500,
        checkpoint_one_in: 12,
        ahead: false,
    };
    let states = every_crash("log, segments recycled", &workload, &LOSSES, 5);
    assert!(states > 250, "{states}");
}

/// E16.10: files become longer, are freed, and are filled again or removed.
#[test]
fn growing_log_survives_every_crash() {
    for partitions in [1, 2] {
        let workload = Workload {
            options: LogOptions { partitions, log_bytes_max: 10 * 4 * SEGMENT_LEN_MIN, ..LogOptions::growing() },
            threads: partitions,
            records: 160,
            force_one_in: 4,
            body_len: 4500,
            checkpoint_one_in: 30,
            ahead: false,
        };
        let states = every_crash(&format!("log, {partitions} partitions, growing"), &workload, &LOSSES, 5);
        assert!(states > 250, "{partitions}: {states}");
    }
}

/// The scenario of E1: partition 0 loses 50, partition 1 keeps 51 to 80; the next run appends less than was lost; a
/// second crash must not bring 51 to 80 back.
fn crash_recover_append_less_crash_again(options: &LogOptions) {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let log = Log::create(&media, options, &[]).unwrap();
    let mut reservation = log.reserve(ByteLen(10_000), ByteLen(0)).unwrap();
    let mut append = |log: &Log, partition, body: &[u8]| {
        log.append(PartitionId(partition), update(1, None), &[body], &mut reservation)
    };
    for _ in 1..50 {
        append(&log, 0, b"first life, kept");
    }
    log.force(Lsn::new(49)).unwrap();
    append(&log, 0, b"first life, lost"); // 50
    let mut last = None;
    for _ in 51..=80 {
        last = Some(append(&log, 1, b"first life, whole but dead"));
    }
    let position = Position { partition: PartitionId(1), offset: last.unwrap().offset };
    log.force_partition(position).unwrap();
    assert_eq!(log.durable_lsn(), Lsn::new(49), "E3.2");
    drop(log);

    let disk = SimDisk::from_image(sim.journal().crash(sim.journal_len(), Loss::Everything).image());
    let media: Arc<dyn Media> = Arc::new(disk);
    let look = |media| look(media, options);
    let found = look(&media).unwrap();
    assert_eq!(found.end_lsn(), Lsn::new(50));
    let log = found.begin(&[], options).unwrap();
    let mut expected: Vec<u64> = (1..50).collect();
    for _ in 0..3 {
        let place = append(&log, 0, b"second life");
        assert!(place.lsn > Lsn::new(80), "E1.2: {:?}", place.lsn);
        log.force(place.lsn).unwrap();
        expected.push(place.lsn.get());
    }
    drop(log);
    let found = look(&media).unwrap();
    let mut scan = found.scan(Lsn::ZERO).unwrap();
    for lsn in expected {
        let next = scan.next().unwrap().expect("one more");
        assert_eq!(next.record.lsn.get(), lsn, "E1.3");
        assert_eq!(next.record.body == b"second life", lsn > 80, "E1.3");
    }
    assert!(scan.next().unwrap().is_none(), "E1.3");
}

#[test]
fn dead_records_do_not_come_back() {
    crash_recover_append_less_crash_again(&options(2));
}

#[cfg(feature = "planted-faults")]
#[test]
fn planted_a_stale_epoch_accepted_is_caught() {
    let options = LogOptions { fault: Some(Fault::StaleEpochAccepted), ..options(2) };
    let caught = caught(|| crash_recover_append_less_crash_again(&options));
    assert!(caught.contains("E1."), "{caught}");
}

#[cfg(feature = "planted-faults")]
#[test]
fn reply_before_flush_is_caught() {
    let workload = Workload {
        options: LogOptions { fault: Some(Fault::ReplyBeforeFlush), ..options(1) },
        threads: 1,
        records: 20,
        force_one_in: 3,
        body_len: 100,
        checkpoint_one_in: 1000,
        ahead: false,
    };
    let caught = caught(|| {
        every_crash("log, planted", &workload, &LOSSES, 1000);
    });
    assert!(caught.contains("W4"), "{caught}");
}

/// R6: after a kill, the tail that an opening has found is only synced, though a sync that has failed may have forgotten it.
#[cfg(feature = "planted-faults")]
#[test]
fn tail_synced_alone_loses_records() {
    let workload = Workload {
        options: LogOptions { fault: Some(Fault::TailOnlySynced), ..options(1) },
        threads: 1,
        records: 60,
        force_one_in: 3,
        body_len: 700,
        checkpoint_one_in: 1000,
        ahead: false,
    };
    let caught = caught(|| {
        every_crash("log, planted", &workload, &[Loss::Everything], 1);
    });
    assert!(caught.contains("that was durable is gone"), "{caught}");
}

/// A transaction whose validation fails after the draw fills its LSN with a void record.
fn voids_between_commits(options: &LogOptions) {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let log = Log::create(&media, options, &[]).unwrap();
    let mut reservation = log.reserve(ByteLen(10_000), ByteLen(0)).unwrap();
    let mut last = Lsn::ZERO;
    for n in 0..10 {
        let kind = if n == 5 { Kind::VOID } else { Kind::COMMIT };
        let head = RecordHead::new(kind, TxnId(n), None);
        last = log.append(PartitionId(0), head, &[], &mut reservation).lsn;
        log.force(last).unwrap();
    }
    drop(log);
    let found = Log::look(&media).unwrap();
    assert_eq!(found.end_lsn(), last.next(), "E2.2");
    let mut scan = found.scan(Lsn::ZERO).unwrap();
    while scan.next().expect("E2.2: every number is there").is_some() {}
}

#[test]
fn a_void_fills_its_number() {
    voids_between_commits(&options(1));
}

#[cfg(feature = "planted-faults")]
#[test]
fn unfilled_drawn_lsn_is_caught() {
    let options = LogOptions { fault: Some(Fault::DrawnNotFilled), ..options(1) };
    let caught = caught(|| voids_between_commits(&options));
    assert!(caught.contains("E2.2"), "{caught}");
}

/// R1a: also if the write of the control file, which has several sectors, loses the first one.
#[test]
fn crash_during_creation_leaves_nothing_or_store() {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let long = ["c".repeat(NAME_LEN_MAX), "d".repeat(NAME_LEN_MAX), "e".repeat(NAME_LEN_MAX)];
    let names = ["a", "b", &long[0], &long[1], &long[2]];
    let log = Log::create(&media, &options(2), &names).unwrap();
    drop(log.reserve(ByteLen(100), ByteLen(0)).unwrap());
    drop(log);
    let mut cursor = sim.journal().cursor();
    loop {
        for loss in LOSSES.into_iter().chain([Loss::TornLast(!1)]) {
            let media: Arc<dyn Media> = Arc::new(SimDisk::from_image(cursor.image(loss)));
            match Log::look(&media) {
                Ok(found) => {
                    let log = found.begin(&[], &options(2)).unwrap();
                    assert_eq!(log.names(&["b"]).unwrap(), [1]);
                }
                Err(LogError::Absent { .. }) => {
                    Log::create(&media, &options(2), &names).expect("a creation cut off is done again");
                }
                Err(other) => panic!("{other}"),
            }
        }
        if !cursor.advance() {
            break;
        }
    }
}

/// R6: the files were copied, and nothing of the copy is durable when an opening begins. It continues in segments that
/// were free.
#[test]
fn unsynced_copy_survives_power_failure() {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let log = Log::create(&media, &options(1), &[]).unwrap();
    drop(log.reserve(ByteLen(3 * SEGMENT_LEN_MIN), ByteLen(0)).unwrap()); // prepares segments
    drop(log);
    let original = sim.image();
    let copy = Arc::new(SimDisk::new());
    for name in original.names() {
        let file = copy.open(name, OpenMode::Create).unwrap();
        write_all_at(&*copy, file, 0, &original.file(name).unwrap(), Durability::Volatile).unwrap();
    }
    let media: Arc<dyn Media> = Arc::clone(&copy) as _;
    let log = Log::look(&media).unwrap().begin(&[], &options(1)).unwrap();
    let mut reservation = log.reserve(ByteLen(0), ByteLen(0)).unwrap();
    let mut last = Lsn::ZERO;
    while log.control().partitions[0].segments_begun < 3 {
        log.reserve_more(&mut reservation, record_len_bound(ByteLen(1000)), ByteLen(0)).unwrap();
        last = log.append(PartitionId(0), update(1, None), &[&[7; 1000]], &mut reservation).lsn;
        log.force(last).unwrap();
    }
    let after: Arc<dyn Media> = Arc::new(copy.cut_power(Loss::Everything));
    let found = Log::look(&after).expect("a power failure never makes a log unopenable (E20.3)");
    assert_eq!(found.end_lsn(), last.next(), "W4");
}
