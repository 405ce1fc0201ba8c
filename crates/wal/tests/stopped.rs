//! What a log says after it has stopped: less than it knows, never more (E16.5).

mod common;

use cedrat_media::{Media, SimDisk};
use cedrat_sync::{Arc, thread};
use cedrat_wal::*;
use common::*;

/// A stop drops what is appended after it. The write that was in flight succeeds all the same, and then everything that
/// the partition *has* is durable: the dropped record must not be taken for a part of that (W4).
#[test]
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
    // Whether it hears of its success or of the stop is left open.
    let _ = writer.join().unwrap();
    assert!(!ticket.is_stable(), "E16.5: a dropped record is acknowledged");
    assert!(!log.is_stable(dropped.lsn), "W4");
    assert!(log.durable_lsn() < dropped.lsn, "E3.2");
}
