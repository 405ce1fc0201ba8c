//! What a log says after it has stopped: less than it knows, never more (E16.5).

use cedrat_media::{Durability, Media, SimDisk};
use cedrat_sync::{Arc, Condvar, Mutex, thread};
use cedrat_wal::*;

/// Holds back the first write of records until it is let through.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    reached: bool,
    open: bool,
}

impl Gate {
    fn wait_until_reached(&self) {
        let mut state = self.state.lock();
        while !state.reached {
            self.changed.wait(&mut state);
        }
    }

    fn open(&self) {
        self.state.lock().open = true;
        self.changed.notify_all();
    }
}

#[derive(Debug)]
struct Gated(Arc<Gate>);

impl Sink for Gated {
    fn stabilise(&self, piece: Piece<'_>, local: &dyn Local) -> std::io::Result<()> {
        if piece.first_lsn > Lsn::ZERO {
            let mut state = self.0.state.lock();
            state.reached = true;
            self.0.changed.notify_all();
            while !state.open {
                self.0.changed.wait(&mut state);
            }
        }
        local.write(Durability::Durable)
    }
}

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
    gate.wait_until_reached();
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
