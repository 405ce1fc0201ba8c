//! Room in the log is promised only where it is (E16.1).

mod common;

use cedrat_media::{Loss, Media, SimDisk};
use cedrat_sync::{Arc, thread};
use cedrat_wal::*;
use common::*;

const BODY: [u8; 7000] = [7; 7000];

/// Appends records as long as the reservation has room for them.
fn fill(log: &Log, partition: PartitionId, room: &mut Reservation) -> Lsn {
    let mut last = Lsn::ZERO;
    while room.forward() >= record_len_bound(ByteLen(BODY.len() as u64)) {
        last = log.append(partition, update(1, None), &[&BODY], room).lsn;
    }
    last
}

/// Power fails while the first block is being written and many segments behind it are full. Nothing in them counts then.
/// Their room is promised to whoever asks for it, so every partition must be able to use it.
#[test]
fn segments_behind_the_end_are_room_for_every_partition() {
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
