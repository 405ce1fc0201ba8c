//! Many openings, each ended by a crash, without a checkpoint: the table of epochs holds them all (E1.7).

use cedrat_media::{Damage, Durability, Loss, Media, OpenMode, SimDisk, write_all_at};
use cedrat_sync::Arc;
use cedrat_wal::*;

use crate::common::*;

/// Appends one record each to three partitions. The first is forced; the second is lost with the power; so the third,
/// which its partition makes durable, is dead, and its number is never reused.
fn one_life(log: &Log, life: u64) -> (Lsn, Position) {
    let mut room = log.reserve(ByteLen(1000), ByteLen(0)).unwrap();
    let partition = |number: u64| PartitionId(((life + number) % u64::from(log.partitions())) as u16);
    let mut append = |number, what: &[u8]| {
        let place = log.append(partition(number), update(1, None), &[&life.to_le_bytes(), what], &mut room);
        (place.lsn, Position { partition: partition(number), offset: place.offset })
    };
    let kept = append(0, b"kept");
    log.force(kept.0).unwrap();
    append(1, b"lost");
    let (_, dead) = append(2, b"dead");
    log.force_partition(dead).unwrap();
    kept
}

/// Appends two full blocks, sealed before the first is written, so that neither promises the other. Returns the
/// offset of the second.
fn two_blocks(log: &Log) -> LogOffset {
    let mut room = log.reserve(ByteLen(100_000), ByteLen(0)).unwrap();
    let mut append = || log.append(PartitionId(0), update(1, None), &[&[7; 7000]], &mut room);
    let places: Vec<Appended> = (0..9).map(|_| append()).collect();
    log.force(places[7].lsn).unwrap();
    LogOffset::new(places[4].offset.get() / 4096 * 4096)
}

/// A joined entry does not record the owner of an offset. A disk that brings an older block back there is detected
/// nevertheless: the numbers in it are dead, and the lost ones are missing.
#[test]
fn stale_block_of_joined_epoch_is_refused() {
    const FILE: &str = "log/000000";
    let names: Vec<String> = (0..240).map(|n| format!("{n:0>240}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let reopened = |disk: &SimDisk| {
        let media: Arc<dyn Media> = Arc::new(SimDisk::from_image(disk.image()));
        Log::look(&media).and_then(|found| found.begin(&[], &LogOptions::small()))
    };
    let mut sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let one_block = |log: &Log| {
        let mut room = log.reserve(ByteLen(1000), ByteLen(0)).unwrap();
        log.append(PartitionId(0), update(1, None), &[b"kept"], &mut room);
        log.force(Lsn::MAX).unwrap();
    };
    let log = Log::create(&media, &LogOptions::small(), &names).unwrap();
    one_block(&log); // else nothing of this epoch is kept, and the table forgets it
    let second = two_blocks(&log);
    sim = Arc::new(sim.cut_power(Loss::Everything));
    // The first of the two is torn, so the second is after the end.
    sim.corrupt(FILE, 2 * 4096, Damage::Flip { bit: 0 }).unwrap();
    let range = 4096 + second.get() as usize..SEGMENT_LEN_MIN as usize;
    let stale = sim.image().file(FILE).unwrap()[range.clone()].to_vec();
    for life in 0..100 {
        sim = Arc::new(SimDisk::from_image(sim.image()));
        let media: Arc<dyn Media> = Arc::clone(&sim) as _;
        let log = Log::look(&media).unwrap().begin(&[], &LogOptions::small()).unwrap();
        if life == 0 {
            assert_eq!(two_blocks(&log), second, "the same places again");
        }
        one_block(&log);
        sim = Arc::new(sim.cut_power(Loss::Everything));
    }
    assert_ne!(sim.image().file(FILE).unwrap()[range], stale);
    let epochs = reopened(&sim).unwrap().control().epochs;
    assert!(epochs.iter().next().unwrap().oldest < epochs.iter().next().unwrap().number, "joined");
    let damaged = SimDisk::from_image(sim.image());
    let file = damaged.open(FILE, OpenMode::ReadWrite).unwrap();
    write_all_at(&damaged, file, 4096 + second.get(), &stale, Durability::Durable).unwrap();
    match reopened(&damaged).map(|_| ()) {
        Err(LogError::Damaged { what, .. }) => assert!(what.contains("was durable and is missing"), "E20.2: {what}"),
        other => panic!("{other:?}"),
    }
}

fn lives(partitions: u16, count: u64, names: &[&str]) {
    let options = LogOptions { partitions, log_bytes_max: 160 * SEGMENT_LEN_MIN, ..LogOptions::small() };
    let mut sim = Arc::new(SimDisk::new());
    let mut media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let mut log = Log::create(&media, &options, names).unwrap();
    let mut kept: Vec<(Lsn, Position)> = Vec::new();
    for life in 0..count {
        kept.push(one_life(&log, life));
        drop(log);
        sim = Arc::new(SimDisk::from_image(sim.cut_power(Loss::Everything).image()));
        media = Arc::clone(&sim) as _;
        let found = Log::look(&media).unwrap();
        if life % 10 == 9 || life + 1 == count {
            let mut scan = found.scan(Lsn::ZERO).unwrap();
            for &(lsn, position) in &kept {
                let next = scan.next().unwrap().expect("W3: a durable record is there").record;
                assert_eq!((next.lsn, next.position), (lsn, position), "E1.3");
                assert_eq!(&next.body[8..], b"kept");
            }
            assert!(scan.next().unwrap().is_none(), "E1.5: what is dead stays dead");
        }
        log = found.begin(&[], &options).unwrap_or_else(|error| panic!("opening {life}: {error}"));
    }
    for (life, &(lsn, position)) in (0u64..).zip(&kept) {
        let record = log.read(position).unwrap();
        assert_eq!((record.lsn, &record.body[..8]), (lsn, &life.to_le_bytes()[..]), "E1.4");
    }
    let table_len = log.control().epochs.iter().count() as u64;
    assert!(table_len < count, "joined: {table_len}");
    let now = log.current_lsn().next();
    log.checkpoint_control(&Checkpoint { redo_lsn: now, scan_lsn: now, next_txn: 1 }).unwrap();
    let scanned = lsns(log.scan(Lsn::ZERO).unwrap());
    assert_eq!(scanned, [0; 0]);
}

#[test]
fn many_crashes_do_not_fill_epoch_table() {
    lives(64, 300, &[]);
}

/// Names share the slot with the table; here they leave space for a few entries only.
#[test]
fn epoch_table_fits_with_long_names() {
    let names: Vec<String> = (0..240).map(|n| format!("{n:0>250}")).collect();
    lives(3, 200, &names.iter().map(String::as_str).collect::<Vec<_>>());
}

/// As many names as a log takes leave room for the epochs of later openings.
#[test]
fn names_leave_room_for_openings() {
    for partitions in [1, 64] {
        let options = LogOptions { partitions, log_bytes_max: 256 * SEGMENT_LEN_MIN, ..LogOptions::small() };
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = Log::create(&media, &options, &[]).unwrap();
        let mut names = 0;
        for more in [500, 20, 1] {
            let refused = loop {
                let new: Vec<String> = (names..names + more).map(|n| format!("name {n}")).collect();
                match log.names(&new.iter().map(String::as_str).collect::<Vec<_>>()) {
                    Ok(_) => names += more,
                    Err(refused) => break refused,
                }
            };
            assert!(matches!(refused, LogError::Limit { .. }), "{refused}");
        }
        assert!(names > 3000 && log.control().names.len() == names && log.stopped().is_none());
        log.close().unwrap();
        for life in 0..20 {
            let log = Log::look(&media).unwrap().begin(&[], &options).unwrap();
            one_life(&log, life);
            log.close().unwrap();
        }
        assert_eq!(Log::look(&media).unwrap().control().names.len(), names);
    }
}
