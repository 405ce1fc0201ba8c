//! The reports of a log after it has stopped: fewer records than are stable, never more (E16.5).

use cedrat_media::{Durability, Media, SimDisk};
use cedrat_sync::{Arc, explore, thread};
use cedrat_wal::*;

use crate::common::*;

/// A stop drops later records. The write that was in flight succeeds nevertheless, and then everything that the
/// partition *has* is durable: the dropped record must not be taken for a part of that (W4).
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn a_record_dropped_after_the_stop_is_never_called_stable() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let gate = Arc::new(Gate::default());
    let options = LogOptions { sink: Arc::new(Gated(Arc::clone(&gate))), ..LogOptions::small() };
    let log = Log::create(&media, &options, &[]).unwrap();
    let mut room = log.reserve(ByteLen(4000), ByteLen(0)).unwrap();
    let commit = |txn| RecordHead::new(Kind::COMMIT, TxnId(txn), None);
    let kept = log.append(PartitionId(0), commit(1), &[b"x"], &mut room);
    let writer = {
        let log = log.clone();
        thread::spawn(move || log.force(kept.lsn).map(|_| ()))
    };
    gate.wait_until_reached(Lsn::new(1));
    log.stop("as if the control file could not be written");
    let dropped = log.append(PartitionId(0), commit(2), &[b"y"], &mut room);
    let ticket = log.ticket(dropped.lsn);
    gate.open();
    // It may return its success or the stop.
    let _ = writer.join().unwrap();
    assert!(!ticket.is_stable(), "E16.5: a dropped record is acknowledged");
    assert!(!log.is_stable(dropped.lsn), "W4");
    assert!(log.durable_lsn() < dropped.lsn, "E3.2");
}

/// The LSN of a record whose body panics gets no record, not even a void one.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn panicking_body_stops_log() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
    let mut room = log.reserve(ByteLen(4000), ByteLen(0)).unwrap();
    let mut append = |from: &[u32]| {
        let pair = |&number: &u32| (10_u32.checked_sub(number).expect("at most ten"), 0);
        let head = RecordHead::new(Kind::COMMIT, TxnId::NONE, None);
        log.append_pairs_deciding(PartitionId(0), head, Pairs { head: [0; 4], from, pair }, &mut room, |_| true)
    };
    let kept = append(&[1, 10]);
    log.force(kept.appended.lsn).unwrap();
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| append(&[10, 11]))).is_err());
    assert!(log.stopped().is_some(), "E2.2");
    assert!(log.force(Lsn::MAX).is_err());
    assert_eq!(log.durable_lsn(), kept.appended.lsn);
    drop(log);
    let found = Log::look(&media).unwrap();
    let mut scan = found.scan(Lsn::ZERO).unwrap();
    assert_eq!(scan.next().unwrap().map(|scanned| scanned.record.lsn), Some(kept.appended.lsn));
    assert!(scan.next().unwrap().is_none());
}

/// Panics in the write of the first record, as an application's sink may.
#[derive(Debug)]
struct Panicking;

impl Sink for Panicking {
    fn stabilise(&self, piece: Piece<'_>, local: &dyn Local) -> std::io::Result<()> {
        assert!(piece.first_lsn == Lsn::ZERO, "the replica is unreachable");
        local.write(Durability::Durable)
    }
}

#[test]
fn panic_of_a_sink_stops_the_log() {
    explore(42, 300, || {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let options = LogOptions { sink: Arc::new(Panicking), ..LogOptions::small() };
        let log = Log::create(&media, &options, &[]).unwrap();
        let committers: Vec<_> = (0..3u64)
            .map(|txn| {
                let log = log.clone();
                thread::spawn(move || {
                    let mut room = log.reserve(ByteLen(1000), ByteLen(0))?;
                    let head = RecordHead::new(Kind::COMMIT, TxnId(txn), None);
                    let lsn = log.append(PartitionId(0), head, &[b"x"], &mut room).lsn;
                    Ok::<_, LogFull>(log.force(lsn)?)
                })
            })
            .collect();
        for committer in committers {
            let error = committer.join().expect("the panic stays in the sink").expect_err("E16.5").to_string();
            assert!(error.contains("the replica is unreachable"), "{error}");
        }
        assert!(log.is_stopped());
    });
}

#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn panicking_sink_fails_the_force() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let options = LogOptions { sink: Arc::new(Panicking), ..LogOptions::small() };
    let log = Log::create(&media, &options, &[]).unwrap();
    let mut room = log.reserve(ByteLen(1000), ByteLen(0)).unwrap();
    let lsn = log.append(PartitionId(0), RecordHead::new(Kind::COMMIT, TxnId(1), None), &[b"x"], &mut room).lsn;
    assert!(log.force(lsn).is_err(), "E16.4");
    assert!(log.is_stopped(), "E16.4");
}
