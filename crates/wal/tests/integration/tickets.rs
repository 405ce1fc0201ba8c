//! Tickets that threads and tasks await while others write, end the writer threads, and close or stop the log: each wait ends
//! (E16.8k, E1.8).

use std::collections::BTreeSet;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};

use cedrat_media::{Loss, Media, SimDisk};
use cedrat_sync::{Arc, Condvar, Mutex, explore, thread};
use cedrat_wal::*;

use crate::common::lsns;

/// A task that its thread runs: it sleeps until it is woken.
#[derive(Default)]
struct Task {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Task {
    fn wake(self: std::sync::Arc<Self>) {
        *self.woken.lock() = true;
        self.changed.notify_one();
    }
}

fn block_on(ticket: Ticket) -> Result<Forced, Stopped> {
    let task = std::sync::Arc::new(Task::default());
    let waker = Waker::from(std::sync::Arc::clone(&task));
    let mut ticket = pin!(ticket);
    loop {
        if let Poll::Ready(result) = ticket.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        let mut woken = task.woken.lock();
        while !std::mem::take(&mut *woken) {
            task.changed.wait(&mut woken);
        }
    }
}

/// The way in which the log ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The threads end, then the log.
    WriterThenClose,
    /// The log ends under its threads.
    CloseThenWriter,
    Stop,
    /// The threads end, and no other handle than those of the tickets is left.
    Drop,
}

/// Awaits records in several ways while the log ends. Returns the LSNs that were acknowledged.
fn acknowledged_beside(media: &Arc<dyn Media>, end: End) -> BTreeSet<u64> {
    let log = Log::create(media, &LogOptions { partitions: 2, ..LogOptions::small() }, &[]).unwrap();
    let writer = log.start_writer();
    let waiters: Vec<_> = (0..3)
        .map(|number| {
            let mut room = log.reserve(ByteLen(4000), ByteLen(0)).unwrap();
            let head = RecordHead::new(Kind::COMMIT, TxnId(number), None);
            let log = log.clone();
            thread::spawn(move || {
                let lsn = log.append(PartitionId(number as u16 % 2), head, &[b"x"], &mut room).lsn;
                let ticket = log.ticket(lsn);
                drop((log, room));
                let result = if number == 0 { ticket.wait() } else { block_on(ticket) };
                result.is_ok().then_some(lsn.get())
            })
        })
        .collect();
    match end {
        End::WriterThenClose => {
            drop(writer);
            drop(log.close());
        }
        End::CloseThenWriter => {
            drop(log.close());
            drop(writer);
        }
        End::Stop => {
            log.stop("asked by a test");
            drop(writer);
        }
        End::Drop => drop(writer),
    }
    drop(log);
    waiters.into_iter().filter_map(|waiter| waiter.join().unwrap()).collect()
}

#[test]
fn tickets_end_with_their_log() {
    for (seed, end) in [End::WriterThenClose, End::CloseThenWriter, End::Stop, End::Drop].into_iter().enumerate() {
        explore(50 + seed as u64, 400, move || {
            let disk = Arc::new(SimDisk::new());
            let media: Arc<dyn Media> = Arc::<SimDisk>::clone(&disk);
            let acknowledged = acknowledged_beside(&media, end);
            if matches!(end, End::Drop) {
                assert_eq!(acknowledged.len(), 3, "nothing has stopped the log");
            }
            // No handle is left, and no waker keeps one.
            let found = Log::look(&media).unwrap();
            drop(found.begin(&[], &LogOptions::small()).expect("E16.8k: the directory is free again"));
            let after: Arc<dyn Media> = Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything));
            let found: BTreeSet<u64> = lsns(Log::look(&after).unwrap().scan(Lsn::ZERO).unwrap()).into_iter().collect();
            assert!(acknowledged.is_subset(&found), "W3: {end:?}: {acknowledged:?} of {found:?}");
        });
    }
}
