//! Handles that outlive their opening: they fail, and never write (E1.8).

use cedrat_media::{Media, OpenMode, RealDisk, SimDisk};
use cedrat_sync::{Arc, explore, thread};
use cedrat_wal::*;
use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::common::*;

fn commit(log: &Log, room: &mut Reservation, body: &[u8]) -> Lsn {
    log.append(PartitionId(0), RecordHead::new(Kind::COMMIT, TxnId(1), None), &[body], room).lsn
}

fn is_closed(stopped: &Stopped) -> bool {
    matches!(*stopped.reason, StopReason::Closed)
}

fn is_closed_error(error: &LogError) -> bool {
    matches!(error, LogError::Stopped(stopped) if is_closed(stopped))
}

fn reopen(media: &Arc<dyn Media>) -> Result<Log, LogError> {
    Log::look(media)?.begin(&[], &LogOptions::small())
}

#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn stale_clone_of_closed_log_writes_nothing() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
    let mut room = log.reserve(ByteLen(4000), ByteLen(0)).unwrap();
    let first = commit(&log, &mut room, b"first");
    let stale = log.clone();
    let mut old_scan = {
        log.force(first).unwrap();
        log.scan(Lsn::ZERO).unwrap()
    };
    let ticket = log.ticket(first);
    log.close().unwrap();
    drop(log);

    let log = reopen(&media).unwrap();
    let mut new_room = log.reserve(ByteLen(4000), ByteLen(0)).unwrap();
    let second = commit(&log, &mut new_room, b"second");
    log.force(second).unwrap();

    let dropped = commit(&stale, &mut room, b"of an opening that has ended");
    assert!(is_closed(&stale.force(dropped).unwrap_err()), "E1.8");
    assert!(is_closed(&stale.stopped().unwrap()), "E1.8");
    assert!(is_closed(&stale.promise().unwrap_err()), "E1.8");
    assert!(is_closed(&stale.begin_ahead().unwrap_err()), "E1.8");
    assert!(is_closed_error(&stale.scan(Lsn::ZERO).unwrap_err()), "E1.8");
    assert!(is_closed_error(&stale.names(&["new"]).unwrap_err()), "E1.8");
    let checkpoint = Checkpoint { redo_lsn: dropped, scan_lsn: dropped, next_txn: 2 };
    assert!(is_closed_error(&stale.checkpoint_control(&checkpoint).unwrap_err()), "E1.8");
    assert_eq!(stale.truncate(Lsn::MAX), 0, "E1.8");
    assert!(is_closed(&stale.ticket(dropped).wait().unwrap_err()), "E1.8");
    assert!(ticket.wait().is_ok(), "what was durable when the log was closed is durable");
    while let Ok(Some(_)) = old_scan.next() {}
    drop((stale, room));
    drop(new_room);
    drop(log);
    let log = reopen(&media).unwrap();
    let kept = lsns(log.scan(Lsn::ZERO).unwrap());
    assert!(kept.contains(&second.get()), "W3: a block that was durable is gone");
}

#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn log_with_a_live_handle_is_in_use() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
    let other = log.clone();
    drop(log);
    assert!(matches!(reopen(&media), Err(LogError::InUse { .. })), "E1.8");
    drop(other);
    reopen(&media).unwrap();
}

/// A scan may outlive the log; it does not read records that the next opening writes.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn scan_of_an_ended_opening_reads_nothing_new() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
    let mut room = log.reserve(ByteLen(400_000), ByteLen(0)).unwrap();
    for _ in 0..60 {
        commit(&log, &mut room, &[1; 5000]);
    }
    log.force(Lsn::MAX).unwrap();
    let mut scan = log.scan(Lsn::ZERO).unwrap();
    scan.next().unwrap().unwrap();
    drop((room, log));
    let log = reopen(&media).unwrap();
    let end = loop {
        match scan.next() {
            Ok(Some(_)) => {}
            other => break other.map(drop),
        }
    };
    assert!(is_closed_error(&end.unwrap_err()), "E1.8");
    drop(log);
}

/// The write of a committer is in flight while another thread closes the log.
#[test]
fn close_returns_after_the_last_write() {
    explore(41, 400, || {
        let sim = Arc::new(SimDisk::new());
        let media: Arc<dyn Media> = Arc::clone(&sim) as _;
        let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
        let mut room = log.reserve(ByteLen(4000), ByteLen(0)).unwrap();
        let committers: Vec<_> = (0..2)
            .map(|_| {
                let log = log.clone();
                let lsn = commit(&log, &mut room, b"x");
                thread::spawn(move || log.force(lsn).is_ok())
            })
            .collect();
        let closed = log.close();
        let calls = sim.journal().len();
        let acknowledged: Vec<_> = committers.into_iter().map(|committer| committer.join().unwrap()).collect();
        assert_eq!(sim.journal().len(), calls, "E1.8: a file was changed after the log was closed");
        assert!(closed.is_ok());
        drop((room, log));
        let found = lsns(reopen(&media).unwrap().scan(Lsn::ZERO).unwrap());
        assert_eq!(found, [1, 2], "{acknowledged:?}");
    });
}

#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn clone_from_a_log_alone_ends_with_it() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let options = EntryLogOptions { log: LogOptions::small(), background: false, ..EntryLogOptions::default() };
    for is_closed_by_call in [true, false] {
        let log = EntryLog::open(&media, &options).unwrap();
        let stale = log.log().clone();
        let last = log.append(b"entry").unwrap();
        log.force(last).unwrap();
        if is_closed_by_call {
            log.close().unwrap()
        } else {
            drop(log)
        }
        let again = EntryLog::open(&media, &options).unwrap();
        assert!(is_closed(&stale.force(Lsn::MAX).unwrap_err()), "E1.8");
        drop(again);
    }
}

/// Calls in any order, over handles of any opening: errors, never a panic, and no acknowledged record is lost.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn calls_in_any_order_lose_nothing() {
    for seed in 0..150 {
        Calls::new(seed).run();
    }
}

struct Calls {
    random: u64,
    media: Arc<dyn Media>,
    logs: Vec<(Log, Reservation)>,
    writers: Vec<Writer>,
    scans: Vec<Scan>,
    tickets: Vec<Ticket>,
    /// Bodies by LSN, of all acknowledged records.
    acknowledged: BTreeMap<u64, u8>,
    appended: Mutex<BTreeMap<u64, u8>>,
}

impl Calls {
    fn new(seed: u64) -> Calls {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = Log::create(&media, &LogOptions::small(), &[]).unwrap();
        let room = log.reserve(ByteLen(0), ByteLen(0)).unwrap();
        Calls {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            media,
            logs: vec![(log, room)],
            writers: Vec::new(),
            scans: Vec::new(),
            tickets: Vec::new(),
            acknowledged: BTreeMap::new(),
            appended: Mutex::default(),
        }
    }

    fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 20) as usize % below
    }

    fn run(&mut self) {
        for step in 0..120u32 {
            let call = self.random(14);
            if self.logs.is_empty() || call == 0 {
                self.open();
                continue;
            }
            let at = self.random(self.logs.len());
            let (log, room) = &mut self.logs[at];
            match call {
                1..=3 => {
                    if log.reserve_more(room, ByteLen(200), ByteLen(0)).is_ok() && !log.is_stopped() {
                        let lsn = commit(log, room, &[step as u8; 20]);
                        self.appended.lock().unwrap().insert(lsn.get(), step as u8);
                    }
                }
                4 | 5 => {
                    if let Ok(forced) = log.force(Lsn::MAX) {
                        self.acknowledge(forced.up_to());
                    }
                }
                6 => drop(log.close()),
                7 => {
                    let log = log.clone();
                    if let Ok(room) = log.reserve(ByteLen(100), ByteLen(0)) {
                        self.logs.push((log, room));
                    }
                }
                8 => drop(self.logs.swap_remove(at)),
                9 => self.scans.extend(log.scan(Lsn::ZERO)),
                10 => self.tickets.push(log.ticket(log.current_lsn())),
                11 => {
                    if self.writers.is_empty() {
                        self.writers.push(log.start_writer());
                    } else {
                        self.writers.clear();
                    }
                }
                12 => {
                    if let Some(mut scan) = self.scans.pop() {
                        while let Ok(Some(_)) = scan.next() {}
                    }
                }
                _ => {
                    if let Some(Ok(forced)) = self.tickets.pop().map(|ticket| ticket.wait()) {
                        self.acknowledge(forced.up_to());
                    }
                }
            }
        }
        self.writers.clear();
        self.logs.clear();
        self.scans.clear();
        self.tickets.clear();
        self.open();
        assert_eq!(self.logs.len(), 1, "every handle is gone");
    }

    fn acknowledge(&mut self, up_to: Lsn) {
        let appended = self.appended.lock().unwrap();
        self.acknowledged.extend(appended.range(..=up_to.get()).map(|(&lsn, &body)| (lsn, body)));
    }

    /// Opens the log; refused while handles exist of an opening that has not ended.
    fn open(&mut self) {
        match reopen(&self.media) {
            Ok(log) => {
                let mut scan = log.scan(Lsn::ZERO).expect("W3");
                let mut found = BTreeMap::new();
                while let Some(next) = scan.next().expect("W3: nothing durable is damaged") {
                    found.insert(next.record.lsn.get(), next.record.body[0]);
                }
                for (lsn, body) in &self.acknowledged {
                    assert_eq!(found.get(lsn), Some(body), "W3: LSN {lsn} was acknowledged");
                }
                *self.appended.lock().unwrap() = found;
                let room = log.reserve(ByteLen(0), ByteLen(0)).unwrap();
                self.logs.push((log, room));
            }
            Err(LogError::InUse { .. }) => {}
            Err(error) => panic!("the log opens: {error}"),
        }
    }
}

/// E1.8: the lock file may be deleted, and another process may have created the control file since the lock was taken.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn control_file_that_has_come_is_locked() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let real = |number: usize| Arc::new(RealDisk::new(directories[number].path())) as Arc<dyn Media>;
    let simulated = || Arc::new(SimDisk::new()) as Arc<dyn Media>;
    for (media, other_goes_on) in [(simulated(), false), (real(0), false), (simulated(), true), (real(1), true)] {
        let held = cedrat_wal::lock(&*media).unwrap();
        media.open(CONTROL_FILE, OpenMode::Create).unwrap();
        let other = other_goes_on.then(|| media.lock(CONTROL_FILE).unwrap());
        let created = Log::create_locked(&media, &held, &LogOptions::small(), &[]);
        assert_eq!(matches!(created, Err(LogError::InUse { .. })), other_goes_on, "{created:?}");
        drop(other);
        let log = created.or_else(|_| Log::create_locked(&media, &held, &LogOptions::small(), &[])).unwrap();
        media.remove(LOCK_FILE).unwrap();
        assert!(matches!(cedrat_wal::lock(&*media), Err(LogError::InUse { .. })));
        log.close().unwrap();
    }
}

/// E1.8: likewise if the other process has created a whole log.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn log_that_has_come_is_locked() {
    for other_goes_on in [false, true] {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let held = cedrat_wal::lock(&*media).unwrap();
        media.remove(LOCK_FILE).unwrap();
        let other = Log::create(&media, &LogOptions::small(), &[]).unwrap();
        if !other_goes_on {
            other.close().unwrap();
        }
        let begun = || Log::look(&media).unwrap().begin_locked(&held, &[], &LogOptions::small());
        let first = begun();
        assert_eq!(matches!(first, Err(LogError::InUse { .. })), other_goes_on, "{first:?}");
        drop(other);
        let log = first.or_else(|_| begun()).unwrap();
        media.remove(LOCK_FILE).unwrap();
        assert!(matches!(cedrat_wal::lock(&*media), Err(LogError::InUse { .. })));
        log.close().unwrap();
    }
}
