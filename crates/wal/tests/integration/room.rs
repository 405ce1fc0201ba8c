//! Log space is granted only if it exists (E16.1).

use cedrat_media::{Loss, Media, OpenMode, SimDisk};
use cedrat_sync::{Arc, thread};
use cedrat_wal::*;

use crate::common::*;

const BODY: [u8; 7000] = [7; 7000];

/// Appends records as long as the reservation has space for them.
fn fill(log: &Log, partition: PartitionId, room: &mut Reservation) -> Lsn {
    let mut last = Lsn::ZERO;
    while room.forward() >= record_len_bound(ByteLen(BODY.len() as u64)) {
        last = log.append(partition, update(1, None), &[&BODY], room).lsn;
    }
    last
}

/// Power fails while the first block is being written and many segments after it are full. Nothing in them counts
/// then. Their space can be reserved again, so every partition must be able to use it.
#[test]
fn unused_segments_serve_every_partition() {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let gate = Arc::new(Gate::default());
    let held = LogOptions { partitions: 2, sink: Arc::new(Gated(Arc::clone(&gate))), ..LogOptions::small() };
    let log = Log::create(&media, &held, &[]).unwrap();
    let mut room = log.reserve(ByteLen(750_000), ByteLen(0)).unwrap();
    let first = log.append(PartitionId(0), update(1, None), &[b"held back"], &mut room);
    let force = |lsn| {
        let log = log.clone();
        thread::spawn(move || log.force(lsn).map(|_| ()))
    };
    let one = force(first.lsn);
    gate.wait_until_reached(first.lsn);
    let last = fill(&log, PartitionId(0), &mut room);
    let other = force(last);
    gate.wait_until_reached(last);
    let segments = log.space().segments;
    let crashed = Arc::new(sim.cut_power(Loss::Everything));
    let media: Arc<dyn Media> = Arc::clone(&crashed) as _;
    gate.open();
    for thread in [one, other] {
        assert!(thread.join().unwrap().is_err(), "the disk is gone");
    }

    let options = LogOptions { log_bytes_max: segments * SEGMENT_LEN_MIN, ..LogOptions::small() };
    let log = Log::look(&media).unwrap().begin(&[], &options).unwrap();
    assert_eq!(log.control().partitions[0].durable_below, LogOffset::ZERO, "nothing of it counts");
    let opening = crashed.journal();
    for at in 0..=opening.len() {
        for loss in [Loss::Everything, Loss::Nothing, Loss::Random(at as u64)] {
            let media: Arc<dyn Media> = Arc::new(opening.crash(at, loss));
            let again = Log::look(&media).unwrap().begin(&[], &options).unwrap();
            assert_eq!(again.space().segments_in_use, 2, "R5: crash at {at}");
            assert!(again.durable_lsn() >= last, "E1.2");
        }
    }
    let mut room = log.reserve(ByteLen(0), ByteLen(0)).unwrap();
    let full = loop {
        if let Err(full) = log.reserve_more(&mut room, ByteLen(10_000), ByteLen(0)) {
            break full;
        }
    };
    assert!(matches!(full, LogFull::Limit { .. }), "{full}");
    let last = fill(&log, PartitionId(1), &mut room);
    log.force(last).unwrap();
    assert!(log.space().segments <= segments, "E16.1: {} segments, at most {segments} allowed", log.space().segments);
    assert_eq!(log.space().overdrawn, ByteLen(0));
    drop(log);
    let log = Log::look(&media).unwrap().begin(&[], &options).unwrap();
    assert_eq!(log.durable_lsn().get(), last.get(), "nothing of what was given back comes up again");
}

/// Threads that update with undo reserved, and threads that only commit, run until the disk is full; all force at
/// random. Then the updates are rolled back, with forces again. The log continues, and takes forward work when there
/// is space again.
fn rollbacks_on_a_full_disk(seed: u64) {
    const BODY: [u8; 100] = [3; 100];
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let log = Log::create(&media, &LogOptions { log_bytes_max: 1 << 30, ..LogOptions::small() }, &[]).unwrap();
    drop(log.reserve(ByteLen(700_000), ByteLen(0)).unwrap());
    sim.set_capacity(Some(sim.space()));
    let bound = record_len_bound(ByteLen(BODY.len() as u64));
    let workers: Vec<_> = (0..4u64)
        .map(|txn| {
            let log = log.clone();
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(txn) | 1;
            let mut one_in = move |many: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random >> 20).is_multiple_of(many)
            };
            let update = RecordHead::new(Kind::UPDATE, TxnId(txn + 1), None);
            thread::spawn(move || {
                let mut room = log.reserve(ByteLen(0), ByteLen(0)).unwrap();
                let undo = if txn < 2 { bound } else { ByteLen(0) };
                let mut updates = 0;
                let full = loop {
                    // Forward space in large pieces, as transactions reserve it.
                    let piece = ByteLen(if room.forward() < bound { 30_000 } else { 0 });
                    if let Err(full) = log.reserve_more(&mut room, piece, undo) {
                        break full;
                    }
                    let lsn = log.append(PartitionId(0), update, &[&BODY], &mut room).lsn;
                    updates += u64::from(undo.0 > 0);
                    if one_in(2) {
                        log.force(lsn).expect("E16.7: forward work stops the log");
                    }
                };
                (full, updates, room, one_in)
            })
        })
        .collect();
    let full: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
    let rollbacks: Vec<_> = full
        .into_iter()
        .map(|(full, updates, mut room, mut one_in)| {
            assert!(matches!(full, LogFull::Disk { .. }), "{full}");
            let log = log.clone();
            thread::spawn(move || {
                room.spend(Spending::Undo);
                let head = RecordHead::new(Kind::COMPENSATION, TxnId(1), None);
                for _ in 0..updates {
                    let lsn = log.append(PartitionId(0), head, &[&BODY], &mut room).lsn;
                    if one_in(100) {
                        log.force(lsn).expect("E16.1: a rollback has no room");
                    }
                }
            })
        })
        .collect();
    rollbacks.into_iter().for_each(|rollback| rollback.join().unwrap());
    log.force(Lsn::MAX).expect("E16.1");
    assert_eq!(log.space().overdrawn, ByteLen(0), "E16.1");
    sim.set_capacity(None);
    let mut room = log.reserve(ByteLen(100_000), ByteLen(0)).expect("there is space again");
    let last = log.append(PartitionId(0), update(9, None), &[&BODY], &mut room).lsn;
    log.force(last).expect("the log runs");
    drop((room, log));
    let found = lsns(Log::look(&media).unwrap().begin(&[], &LogOptions::small()).unwrap().scan(Lsn::ZERO).unwrap());
    assert_eq!(found.last(), Some(&last.get()), "W3");
}

#[test]
fn full_disk_refuses_updates_and_never_rollbacks() {
    (0..20).for_each(rollbacks_on_a_full_disk);
}

/// One reservation of the whole space, and a force after each record: the reservation pays for the rests of blocks,
/// and is used up before the log is.
#[test]
fn reservation_pays_for_the_rests_of_blocks() {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let log = Log::create(&media, &LogOptions { log_bytes_max: 1 << 30, ..LogOptions::small() }, &[]).unwrap();
    let bound = record_len_bound(ByteLen(100));
    let mut room = log.reserve(ByteLen(500_000), ByteLen(100_000)).unwrap();
    sim.set_capacity(Some(sim.space()));
    let append = |room: &mut Reservation| {
        let lsn = log.append(PartitionId(0), update(1, None), &[&[3; 100]], room).lsn;
        log.force(lsn).expect("E16.7: the log stops while room is reserved")
    };
    let mut records = 0;
    loop {
        let missing = bound.0.saturating_sub(room.forward().0);
        if missing > 0 && log.reserve_more(&mut room, ByteLen(missing), ByteLen(0)).is_err() {
            break;
        }
        append(&mut room);
        records += 1;
    }
    assert!(records > 100, "{records}");
    // The space reserved for undo is available: 99,000 bytes, and a force for each 33,000.
    room.spend(Spending::Undo);
    for _ in 0..3 {
        for _ in 0..33_000 / bound.0 {
            log.append(PartitionId(0), update(1, None), &[&[3; 100]], &mut room);
        }
        append(&mut room);
    }
    assert_eq!(log.space().overdrawn, ByteLen(0), "E16.1");
}

/// A file that another program has left among the segments does not decide their numbers.
#[test]
fn stray_file_leaves_numbers_to_segments() {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    Log::create(&media, &LogOptions::small(), &[]).unwrap().close().unwrap();
    media.open("log/2147483647", OpenMode::Create).unwrap();
    let log = Log::look(&media).unwrap().begin(&[], &LogOptions::small()).unwrap();
    let mut room = log.reserve(ByteLen(300_000), ByteLen(0)).unwrap();
    let last = fill(&log, PartitionId(0), &mut room);
    log.force(last).unwrap();
    let media: Arc<dyn Media> = Arc::new(SimDisk::from_image(sim.image()));
    assert!(Log::look(&media).unwrap().end_lsn() > last, "W3");
}
