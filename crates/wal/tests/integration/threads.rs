//! Concurrent committers: on real threads in an ordinary build, under a seeded scheduler in a shuttle build.

use cedrat_media::{Loss, Media, SimDisk};
use cedrat_sync::atomic::{AtomicUsize, Ordering};
use cedrat_sync::{Arc, explore, thread};
use cedrat_wal::*;

use crate::common::*;

/// Three committers on two partitions, each acknowledged as `force` returns; then the power fails, and the records
/// reported as durable are searched for.
fn committers(options: &LogOptions, partition_commits: bool) {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let log = Log::create(&media, options, &[]).unwrap();
    drop(log.reserve(ByteLen(1000), ByteLen(0)).unwrap());
    let threads: Vec<_> = (0..3u16)
        .map(|number| {
            let (log, sim) = (log.clone(), Arc::clone(&sim));
            thread::spawn(move || {
                let partition = PartitionId(number % 2);
                let mut reservation = log.reserve(ByteLen(500), ByteLen(0)).unwrap();
                for n in 0..2 {
                    let head = update(u64::from(number), None);
                    let place = log.append(partition, head, &[&[n; 10]], &mut reservation);
                    if partition_commits {
                        log.force_partition(Position { partition, offset: place.offset }).unwrap();
                    }
                    log.force(place.lsn).unwrap();
                    sim.mark(place.lsn.get());
                    assert!(log.is_stable(place.lsn), "W4");
                }
            })
        })
        .collect();
    let durable = log.durable_lsn();
    let journal = sim.journal();
    let crashed: Arc<dyn Media> = Arc::new(journal.crash(journal.len(), Loss::Everything));
    let acknowledged = journal.marks().iter().map(|mark| Lsn::new(mark.label)).max();
    let end = Log::look(&crashed).unwrap().end_lsn();
    assert!(end > durable, "E3.2: {durable:?} was called durable, the log ends at {end:?}");
    assert!(Some(end) > acknowledged, "W4: {acknowledged:?} was acknowledged, the log ends at {end:?}");
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(log.durable_lsn(), Lsn::new(6));
    assert_eq!(lsns(log.scan(Lsn::ZERO).unwrap()), (1..=6).collect::<Vec<_>>(), "W1");
}

fn options(writes_in_flight: usize) -> LogOptions {
    LogOptions { partitions: 2, writes_in_flight, ..LogOptions::small() }
}

#[test]
fn committers_with_one_write_at_a_time() {
    explore(11, 700, || committers(&options(1), false));
}

#[test]
fn committers_with_several_writes_in_flight() {
    explore(12, 700, || committers(&options(3), false));
}

#[test]
fn commits_of_one_partition() {
    explore(13, 300, || committers(&options(2), true));
}

/// Commits of each thread beside which scans run: few in each schedule of the scheduler, many on real threads, where
/// chance chooses the one schedule.
const COMMITS_BESIDE_SCANS: u32 = if cfg!(cedrat_shuttle) { 2 } else { 200 };

/// A scan that begins during other commits reads, without damage, all records up to the LSN that was durable before
/// it began.
#[test]
fn scan_beside_committers_finds_no_damage() {
    explore(15, 1500, || {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = Log::create(&media, &options(2), &[]).unwrap();
        drop(log.reserve(ByteLen(1000), ByteLen(0)).unwrap());
        let committing = Arc::new(AtomicUsize::new(2));
        let committers: Vec<_> = (0..2u16)
            .map(|number| {
                let (log, committing) = (log.clone(), Arc::clone(&committing));
                thread::spawn(move || {
                    for n in 0..COMMITS_BESIDE_SCANS {
                        let mut reservation = log.reserve(ByteLen(500), ByteLen(0)).unwrap();
                        let partition = PartitionId(number);
                        let place = log.append(partition, update(1, None), &[&[n as u8; 10]], &mut reservation);
                        log.force(place.lsn).unwrap();
                    }
                    committing.fetch_sub(1, Ordering::SeqCst);
                })
            })
            .collect();
        let mut from = Lsn::ZERO;
        for scans in 1.. {
            let is_last = committing.load(Ordering::SeqCst) == 0 || cfg!(cedrat_shuttle) && scans == 3;
            let durable = log.durable_lsn();
            let mut scan = log.scan(from).unwrap();
            let mut found = Lsn::ZERO;
            while let Some(next) = scan.next().unwrap_or_else(|error| panic!("E3.6: {error}")) {
                found = next.record.lsn;
            }
            assert!(found >= durable, "E3.6: LSN {durable} was durable, the scan ends with {found}");
            if is_last {
                break;
            }
            from = durable; // what was read need not be read again
        }
        committers.into_iter().for_each(|committer| committer.join().unwrap());
    });
}

#[cfg(all(feature = "planted-faults", cedrat_shuttle))]
#[test]
fn planted_lsn_before_bound_is_caught() {
    let caught = caught(|| {
        explore(14, 20_000, || {
            committers(&LogOptions { fault: Some(Fault::DrawnBeforeBound), ..options(2) }, false);
        });
    });
    assert!(caught.contains("E3.2") || caught.contains("W4"), "{caught}");
}

/// Two appenders whose `decide` returns `true` or `false`, or panics: each LSN is filled.
fn deciders() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let log = Log::create(&media, &options(2), &[]).unwrap();
    let threads: Vec<_> = (0..2u64)
        .map(|number| {
            let log = log.clone();
            thread::spawn(move || {
                let mut reservation = log.reserve(ByteLen(500), ByteLen(0)).unwrap();
                for n in number..number + 3 {
                    let append = || {
                        let partition = PartitionId(number as u16);
                        log.append_deciding(partition, update(n, None), &[b"body"], &mut reservation, |_| match n % 3 {
                            0 => true,
                            1 => false,
                            _ => std::panic::resume_unwind(Box::new("the outcome is unknown")),
                        })
                    };
                    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(append)) {
                        Ok(decided) => assert_eq!(decided.kept, n % 3 == 0),
                        Err(_) => assert_eq!(n % 3, 2, "only every third outcome is unknown"),
                    }
                }
                log.force(log.current_lsn()).unwrap();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(log.durable_lsn(), Lsn::new(6), "E2.2");
    let mut scan = Log::look(&media).unwrap().scan(Lsn::ZERO).unwrap();
    let mut voids = 0;
    for lsn in 1..=6 {
        let record = scan.next().unwrap().expect("E2.2").record;
        assert_eq!(record.lsn, Lsn::new(lsn), "E2.2");
        voids += usize::from(record.head.kind == Kind::VOID);
    }
    assert_eq!(voids, 4, "of three answers one is yes");
}

#[test]
fn whatever_is_decided_each_number_is_filled() {
    explore(17, 700, deciders);
}

/// Entries of several parts, appended concurrently: no part of another entry is between the parts of one (E8).
fn appenders_of_long_entries() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let options = EntryLogOptions { log: options(1), background: false, ..EntryLogOptions::default() };
    let log = Arc::new(EntryLog::open(&media, &options).unwrap());
    let len = 2 * log.log().body_len_max();
    let threads: Vec<_> = (0..2u8)
        .map(|number| {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                for n in 0..2 {
                    let lsn = log.append(&vec![number * 2 + n; len]).unwrap();
                    log.force(lsn).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut cursor = log.cursor(Lsn::ZERO).unwrap();
    let mut found = Vec::new();
    while let Some(entry) = cursor.next().expect("E8: parts follow each other") {
        assert!(entry.bytes.len() == len && entry.bytes.iter().all(|byte| *byte == entry.bytes[0]), "E8");
        found.push(entry.bytes[0]);
    }
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2, 3]);
}

#[test]
fn parts_of_entries_do_not_mix() {
    explore(18, 200, appenders_of_long_entries);
}

/// Waiting threads are woken when the log stops, with the reason.
#[test]
fn stop_wakes_waiting_threads() {
    explore(15, 300, || {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = Log::create(&media, &options(1), &[]).unwrap();
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let log = log.clone();
                thread::spawn(move || {
                    let mut reservation = log.reserve(ByteLen(100), ByteLen(0)).ok()?;
                    let place = log.append(PartitionId(0), update(1, None), &[b"body"], &mut reservation);
                    log.force(place.lsn).err()
                })
            })
            .collect();
        log.stop("the test says so");
        for waiter in waiters {
            let _ = waiter.join().unwrap(); // durable before the stop, or failed with the reason
        }
        let stopped = log.stopped().expect("E16.5: it says why it stopped");
        assert!(stopped.to_string().contains("the test says so"));
        assert!(log.force(log.current_lsn()).is_err(), "E16.5");
        assert!(matches!(log.reserve(ByteLen(1), ByteLen(0)), Err(LogFull::Stopped(_))), "E16.5");
    });
}

/// Appenders and a truncating checkpointer share a small log.
#[test]
fn checkpoints_run_beside_committers() {
    explore(16, 100, || {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = Log::create(&media, &options(2), &[]).unwrap();
        let committer = {
            let log = log.clone();
            thread::spawn(move || {
                let mut reservation = log.reserve(ByteLen(100_000), ByteLen(0)).unwrap();
                for _ in 0..20 {
                    let place = log.append(PartitionId(0), update(1, None), &[&[5; 4000]], &mut reservation);
                    log.force(place.lsn).unwrap();
                }
            })
        };
        for _ in 0..3 {
            let lsn = log.durable_lsn().next();
            log.checkpoint_control(&Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 }).unwrap();
            log.truncate(Lsn::MAX);
            thread::yield_now();
        }
        committer.join().unwrap();
        let found = Log::look(&media).unwrap();
        assert_eq!(found.end_lsn(), Lsn::new(21));
        let mut scan = found.scan(Lsn::ZERO).unwrap();
        while scan.next().expect("W3").is_some() {}
    });
}
