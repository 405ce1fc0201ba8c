//! A log without a store: entries of any length are read back complete, in their order, or not at all.

use cedrat_media::{Damage, Fault, Kill, Loss, Media, OpenMode, RealDisk, SimDisk, write_all_at};
use cedrat_sync::{Arc, thread};
use cedrat_wal::*;
use std::collections::HashSet;

use crate::common::*;

fn options() -> EntryLogOptions {
    EntryLogOptions { log: LogOptions::small(), background: false, ..EntryLogOptions::default() }
}

fn open(media: &Arc<dyn Media>) -> EntryLog {
    EntryLog::open(media, &options()).expect("it opens")
}

/// Returns an entry whose content identifies it.
fn entry(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (number * 31 + at * 7 + (at >> 8)) as u8).collect()
}

/// Lengths of entries that take one part, two, and many parts in a log of small segments.
fn lengths() -> Vec<usize> {
    vec![200, 0, 1, 7000, 7680, 7669, 7670, 15_000, 40_000, 3, 100_000, 12]
}

fn all(log: &EntryLog, after: Lsn) -> Vec<(Lsn, Vec<u8>)> {
    rest(log.cursor(after).expect("a cursor"))
}

fn rest(mut cursor: EntryCursor) -> Vec<(Lsn, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some(entry) = cursor.next().expect("what was forced is whole") {
        found.push((entry.lsn, entry.bytes.to_vec()));
    }
    assert_eq!(cursor.next().expect("nothing more"), None);
    found
}

#[test]
fn entries_of_any_length_replay_in_order() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let mut appended = Vec::new();
    for opening in 0..3 {
        let log = open(&media);
        assert_eq!(all(&log, Lsn::ZERO), appended, "after opening {opening}");
        for (number, len) in lengths().into_iter().enumerate() {
            let bytes = entry(number as u64 + opening * 100, len);
            let lsn = log.append(&bytes).expect("there is room");
            assert!(appended.last().is_none_or(|(before, _)| *before < lsn));
            appended.push((lsn, bytes));
        }
        let last = appended.last().expect("some").0;
        assert!(log.durable_lsn() < last, "nothing was forced");
        log.force(last).expect("the log runs");
        assert!(log.durable_lsn() >= last);
        for (at, (lsn, _)) in appended.iter().enumerate() {
            assert_eq!(all(&log, *lsn), appended[at + 1..], "behind entry {at}");
        }
        log.close().expect("the log runs");
    }
}

/// R2: what reads a closed log changes no byte, and creates no file.
#[test]
fn closed_log_is_read_without_change() {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    assert!(matches!(EntryLog::look(&media), Err(LogError::Absent { .. })));
    assert!(media.list("").expect("a list").is_empty());
    let log = open(&media);
    let mut appended = Vec::new();
    for (number, len) in lengths().into_iter().enumerate() {
        let bytes = entry(number as u64, len);
        appended.push((log.append(&bytes).expect("room"), bytes));
    }
    log.close().expect("the log runs");
    let before = sim.image().hash();
    assert_eq!(rest(EntryLog::look(&media).expect("it is read")), appended);
    assert_eq!(sim.image().hash(), before);
    let store: Arc<dyn Media> = Arc::new(SimDisk::new());
    drop(Log::create(&store, &LogOptions::small(), &[]).expect("a log of a store"));
    assert!(matches!(EntryLog::look(&store), Err(LogError::Foreign { .. })));
}

#[test]
fn standalone_log_opens_once_as_no_store() {
    let folder = tempfile::tempdir().expect("a directory");
    let media: Arc<dyn Media> = Arc::new(RealDisk::new(folder.path().join("log")));
    let absent = EntryLog::open(&media, &EntryLogOptions { create: false, ..options() }).map(drop);
    assert!(matches!(absent, Err(LogError::Absent { .. })), "{absent:?}");
    assert!(!folder.path().join("log").exists(), "R2");
    let log = open(&media);
    let other: Arc<dyn Media> = Arc::new(RealDisk::new(folder.path().join("log")));
    let second = EntryLog::open(&other, &options()).map(drop);
    assert!(matches!(&second, Err(LogError::InUse { path }) if path.ends_with("lock")), "{second:?}");
    drop(log);
    open(&other).close().expect("the lock was given back");

    let store: Arc<dyn Media> = Arc::new(SimDisk::new());
    drop(Log::create(&store, &LogOptions::small(), &[]).expect("the log of a store"));
    let foreign = EntryLog::open(&store, &options()).map(drop);
    assert!(matches!(foreign, Err(LogError::Foreign { .. })), "{foreign:?}");
}

/// E16: a full log refuses an entry before anything is placed, and has space again later.
#[test]
fn full_log_is_reported_until_truncated() {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let mut options = options();
    options.log.log_bytes_max = 8 * SEGMENT_LEN_MIN;
    let log = EntryLog::open(&media, &options).expect("it opens");
    let bytes = entry(1, 10_000);
    let (mut count, mut most) = (0, 0);
    for round in 0..20 {
        let mut last = Lsn::ZERO;
        let full = loop {
            match log.append(&bytes) {
                Ok(lsn) => last = lsn,
                Err(error) => break error,
            }
            count += 1;
            log.force(last).expect("the log runs");
        };
        assert!(matches!(full, LogError::Full(LogFull::Limit { .. })), "{full}");
        assert!(!all(&log, Lsn::ZERO).is_empty());
        let durable = log.durable_lsn();
        assert_eq!(durable, last, "E16: nothing of the refused one was placed");
        log.truncate(last).expect("the log runs");
        assert_eq!(all(&log, Lsn::ZERO), [], "round {round}");
        most = most.max(sim.image().names().filter(|name| name.starts_with("log/")).count());
    }
    assert!(count > 20 * 20, "{count}");
    assert!(most <= 8, "{most} segments");
    let long = log.append(&entry(1, 600_000)).map(drop);
    assert!(matches!(long, Err(LogError::Full(_))), "{long:?}");
    let longer = log.append(&vec![0; ENTRY_LEN_MAX + 1]).map(drop);
    assert!(matches!(longer, Err(LogError::Limit { .. })), "{longer:?}");
    let lsn = log.append(b"goes on").expect("there is room");
    log.close().expect("it closes");
    let log = EntryLog::open(&media, &options).expect("it opens");
    assert_eq!(all(&log, Lsn::ZERO), [(lsn, b"goes on".to_vec())]);
}

/// A truncation is no damage, also if it leaves no segment, since the log ends where one does.
#[test]
fn cursor_behind_truncation_reports_truncated_entries() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let log = open(&media);
    let append = || {
        let last = log.append(&entry(1, 2000)).expect("there is room");
        log.force(last).expect("the log runs");
        last
    };
    // Each is a block; a segment has room for fifteen.
    for more in 0..16 {
        append();
        let segments = log.log().space().segments_in_use;
        while log.log().space().segments_in_use < segments + 2 {
            append();
        }
        (0..more).for_each(|_| {
            append();
        });
        // It reads one segment ahead, and none of the next ones.
        let mut cursor = log.cursor(Lsn::ZERO).expect("a cursor");
        log.truncate(append()).expect("the log runs");
        let behind = loop {
            match cursor.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("an entry is left out"),
                Err(error) => break error,
            }
        };
        assert!(matches!(behind, LogError::Truncated { .. }), "E20.2a: {behind}");
    }
}

/// E16.5: a failed sync stops the log.
#[test]
fn after_a_failed_write_nothing_is_forced() {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let log = open(&media);
    let first = log.append(b"first").expect("there is room");
    log.force(first).expect("the log runs");
    let second = log.append(b"second").expect("there is room");
    let fault = Fault::error(cedrat_media::Call::Write, std::io::ErrorKind::Other);
    sim.inject(fault.of("log/").permanent());
    assert!(matches!(log.force(second), Err(LogError::Stopped(_))));
    sim.clear_faults();
    assert!(matches!(log.force(second), Err(LogError::Stopped(_))), "a stopped log stays stopped");
    assert!(matches!(log.append(b"third"), Err(LogError::Stopped(_))));
    assert!(matches!(log.truncate(first), Err(LogError::Stopped(_))));
    assert!(matches!(log.close(), Err(LogError::Stopped(_))));
    let found = all(&open(&media), Lsn::ZERO);
    assert_eq!(found[0], (first, b"first".to_vec()));
    assert!(found.len() == 1 || found[1..] == [(second, b"second".to_vec())]);
}

/// E20: damage of promised records is reported with file and offset.
#[test]
fn damage_names_file_and_offset() {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let log = open(&media);
    for (number, len) in lengths().into_iter().enumerate() {
        let lsn = log.append(&entry(number as u64, len)).expect("there is room");
        log.force(lsn).expect("the log runs");
    }
    log.close().expect("it closes");
    let (mut refused, mut harmless) = (0, 0);
    let image = sim.image();
    for name in image.names().filter(|name| name.starts_with("log/")) {
        let bytes = image.file(name).expect("a file");
        for at in (0..bytes.len()).step_by(1009).filter(|&at| bytes[at] != 0) {
            let damaged = Arc::new(SimDisk::from_image(sim.image()));
            damaged.corrupt(name, at as u64, Damage::Flip { bit: 3 }).expect("a byte");
            let media: Arc<dyn Media> = damaged;
            match EntryLog::open(&media, &options()) {
                Ok(log) => {
                    assert_eq!(all(&log, Lsn::ZERO).len(), lengths().len(), "W3: {name} {at}");
                    harmless += 1;
                }
                Err(LogError::Damaged { file, .. }) => {
                    assert!(file.ends_with(name), "{file}, not {name}");
                    refused += 1;
                }
                Err(other) => panic!("{name} {at}: {other}"),
            }
        }
    }
    assert!(refused > 50, "{refused} refused, {harmless} harmless");
}

/// E8: the beginning of an entry that a crash cut off is neither an entry nor part of the next one.
#[test]
fn half_an_entry_is_none() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let first = open(&media).append(b"lost with its log").expect("room");
    assert!(first > Lsn::ZERO);
    let appended = {
        let log = open(&media);
        let lsn = log.append(b"whole").expect("room");
        let mut room = log.log().reserve(ByteLen(1000), ByteLen(0)).expect("room");
        let head = RecordHead::new(Kind::USER, TxnId::NONE, None);
        let mut put = |body: &[u8]| log.log().append(PartitionId(0), head, &[body], &mut room).lsn;
        put(&[0, 2 << 1 | 1, b'a']); // two parts follow, of which one was kept
        log.force(put(&[0, 1 << 1, b'b'])).expect("the log runs");
        lsn
    };
    let log = open(&media);
    assert_eq!(all(&log, Lsn::ZERO), [(appended, b"whole".to_vec())]);
    let next = log.append(&entry(5, 20_000)).expect("room");
    log.force(next).expect("the log runs");
    assert_eq!(all(&log, Lsn::ZERO), [(appended, b"whole".to_vec()), (next, entry(5, 20_000))]);
    // Parts that do not belong together are damage.
    for parts in [[[0, 2 << 1 | 1], [0, 0]], [[0, 1], [0, 0]], [[0, 1 << 1 | 1], [1, 0]]] {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = open(&media);
        let mut room = log.log().reserve(ByteLen(1000), ByteLen(0)).expect("room");
        let head = RecordHead::new(Kind::USER, TxnId::NONE, None);
        let lsns = parts.map(|part| log.log().append(PartitionId(0), head, &[&part], &mut room).lsn);
        log.force(lsns[1]).expect("the log runs");
        let mut cursor = log.cursor(Lsn::ZERO).expect("a cursor");
        let refused = loop {
            match cursor.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{parts:?} were taken for entries"),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, LogError::Damaged { .. }), "{refused}");
    }
}

/// The parts of entries of several threads do not mix, though only the log separates the threads.
#[test]
fn threads_append_whole_entries() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let mut options = options();
    options.log.log_bytes_max = 32 << 20;
    let log = EntryLog::open(&media, &options).expect("it opens");
    thread::scope(|scope| {
        for number in 0..4u64 {
            let log = &log;
            scope.spawn(move || {
                let bytes = entry(number, 150_000);
                for _ in 0..20 {
                    log.append(&bytes).expect("room");
                }
            });
        }
    });
    log.force(Lsn::MAX).expect("the log runs");
    let found = all(&log, Lsn::ZERO);
    assert_eq!(found.len(), 80);
    for number in 0..4 {
        let bytes = entry(number, 150_000);
        assert_eq!(found.iter().filter(|(_, found)| *found == bytes).count(), 20);
    }
}

/// The result of a run: its disk, its entries in their order, and the number of removed entries.
struct Ran {
    sim: Arc<SimDisk>,
    appended: Vec<(Lsn, Vec<u8>)>,
    given_up: u64,
}

/// Opens a log twice; appends entries of all lengths, forces now and then, and removes some.
fn run(seed: u64) -> Ran {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let mut appended = Vec::new();
    let mut given_up = 0;
    for opening in 0..2 {
        let log = open(&media);
        for number in 0..30u64 {
            let id = appended.len() as u64;
            let len = if (number + seed) % 7 == 3 { 20_000 } else { 100 + (number as usize + 3 * seed as usize) * 50 };
            let bytes = [&id.to_le_bytes()[..], &entry(id, len)].concat();
            let lsn = log.append(&bytes).expect("room");
            appended.push((lsn, bytes));
            if number % (2 + seed % 3) == 0 || number == 29 {
                log.force(lsn).expect("the log runs");
                sim.mark(id + 1); // the number of acknowledged entries
            }
            if number == 20 {
                given_up = id - 5;
                log.truncate(appended[given_up as usize - 1].0).expect("the log runs");
            }
        }
        if opening == 1 {
            log.close().expect("it closes");
            sim.mark(appended.len() as u64);
        }
    }
    Ran { sim, appended, given_up }
}

/// Power failures at every moment: acknowledged entries are found, followed by a whole number of other entries.
#[test]
fn acknowledged_entries_survive_every_crash() {
    let (mut tried, mut distinct) = (0, HashSet::new());
    for seed in 0..SEEDS {
        let ran = run(seed);
        let mut crash = ran.sim.journal().cursor();
        loop {
            let acknowledged = crash.marks().last().map_or(0, |mark| mark.label);
            for loss in [Loss::Everything, Loss::Nothing, Loss::Random(1), Loss::Random(2), Loss::Random(3)] {
                let image = crash.image(loss);
                tried += 1;
                if distinct.insert((seed, image.hash(), acknowledged)) {
                    check(&ran, SimDisk::from_image(image), acknowledged);
                }
            }
            if !crash.advance() {
                break;
            }
        }
    }
    report_crash_states("log-alone", tried, distinct.len());
}

/// Enough for the row of crash states.
const SEEDS: u64 = 24;

fn check(ran: &Ran, disk: SimDisk, acknowledged: u64) {
    let media: Arc<dyn Media> = Arc::new(disk);
    let log = open(&media);
    found(ran, &log, acknowledged);
    log.append(b"it goes on").expect("room");
    log.close().expect("the log runs");
}

/// Returns the number of entries up to the last one, which are a part of those of a run, with all acknowledged ones.
fn found(ran: &Ran, log: &EntryLog, acknowledged: u64) -> usize {
    let found = all(log, Lsn::ZERO);
    let ids: Vec<u64> = found.iter().map(|(_, bytes)| u64::from_le_bytes(bytes[..8].try_into().expect("8"))).collect();
    let first = ids.first().copied().unwrap_or(0);
    let end = first + ids.len() as u64;
    assert!(first <= ran.given_up, "L2: entry {first} is the first");
    assert!(ids.iter().copied().eq(first..end), "L2: {ids:?}");
    assert!(end >= acknowledged, "L2: {ids:?} of {acknowledged}");
    for (lsn, bytes) in &found {
        let id = u64::from_le_bytes(bytes[..8].try_into().expect("8")) as usize;
        assert_eq!((&ran.appended[id].0, &ran.appended[id].1), (lsn, bytes));
    }
    end as usize
}

/// Continues the log of a killed process, and returns that run, the number of entries that its opening has found, and the place in
/// the journal at which it was open.
fn after_kill(ran: &Ran, disk: SimDisk, acknowledged: u64, options: &EntryLogOptions) -> (Ran, u64, usize) {
    let sim = Arc::new(disk);
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let log = EntryLog::open(&media, options).expect("it opens");
    let opened = sim.journal_len();
    let kept = found(ran, &log, acknowledged);
    let mut appended = ran.appended[..kept].to_vec();
    for len in [300, 9_000, 40, 700] {
        let id = appended.len() as u64;
        let bytes = [&id.to_le_bytes()[..], &entry(id + 1_000, len)].concat();
        let lsn = log.append(&bytes).expect("room");
        appended.push((lsn, bytes));
        if id.is_multiple_of(2) {
            log.force(lsn).expect("the log runs");
            sim.mark(id + 1);
        }
    }
    drop(log);
    (Ran { sim, appended, given_up: ran.given_up }, kept as u64, opened)
}

/// Kills a run at places with volatile bytes, continues its log, and cuts the power in that opening and later. What the opening has
/// found is durable once it acknowledges anything. Returns the number of states tried, and of kills that have left entries that no
/// power failure would.
fn kills(seed: u64, options: &EntryLogOptions, distinct: &mut HashSet<(u64, u64, Kill)>) -> (usize, usize) {
    /// Kills of one run.
    const KILLS: usize = 24;
    let ran = run(seed);
    let (mut tried, mut volatile) = (0, 0);
    let mut cursor = ran.sim.journal().cursor();
    let step = ran.sim.journal_len() / KILLS;
    while cursor.advance() {
        if cursor.unsettled().is_empty() || !(cursor.at() + seed as usize).is_multiple_of(step) {
            continue;
        }
        let before = cursor.marks().last().map_or(0, |mark| mark.label);
        for kill in [Kill::Process(seed), Kill::FailedSync(seed), Kill::Process(seed + 100)] {
            let (next, kept, opened) = after_kill(&ran, cursor.kill(kill), before, options);
            volatile += usize::from(kept > before);
            let mut power = next.sim.journal().cursor();
            loop {
                let acknowledged = power.marks().last().map_or(before, |mark| mark.label);
                for loss in [Loss::Everything, Loss::Random(1)] {
                    let image = power.image(loss);
                    tried += 1;
                    if distinct.insert((image.hash(), acknowledged, kill)) {
                        // Until the opening has ended, anything that the killed run could have left.
                        let of = if power.at() < opened { &ran } else { &next };
                        check(of, SimDisk::from_image(image), acknowledged);
                    }
                }
                if !power.advance() {
                    break;
                }
            }
        }
    }
    (tried, volatile)
}

/// R6, A9: the next process finds volatile entries, also of a sync that has failed and forgotten.
#[test]
fn acknowledged_entries_survive_kill_and_crash() {
    let mut distinct = HashSet::new();
    let (mut tried, mut volatile) = (0, 0);
    for seed in 0..6 {
        let found = kills(seed, &options(), &mut distinct);
        (tried, volatile) = (tried + found.0, volatile + found.1);
    }
    report_crash_states("log-alone-kills", tried, distinct.len());
    assert!(volatile > 10, "{volatile} kills have left entries that no power failure would");
}

#[cfg(feature = "planted-faults")]
#[test]
fn tail_synced_alone_loses_entries() {
    let mut options = options();
    options.log.fault = Some(cedrat_wal::Fault::TailOnlySynced);
    let caught = caught(|| {
        for seed in 0..6 {
            kills(seed, &options, &mut HashSet::new());
        }
    });
    assert!(caught.contains("that was durable is gone"), "{caught}");
}

/// Foreign bytes in a file of the log are never taken for a record.
#[test]
fn a_torn_tail_is_dropped() {
    let folder = tempfile::tempdir().expect("a directory");
    let media: Arc<dyn Media> = Arc::new(RealDisk::new(folder.path()));
    let log = open(&media);
    let kept = log.append(b"kept").expect("room");
    log.force(kept).expect("the log runs");
    let torn = log.append(&entry(9, 9000)).expect("room");
    log.force(torn).expect("the log runs");
    drop(log);
    let name = media.list("log").expect("a directory").first().expect("a segment").clone();
    let file = media.open(&format!("log/{name}"), OpenMode::ReadWrite).expect("it opens");
    // The second block of records is the newest: no promise covers it.
    write_all_at(&*media, file, 4096 + 4096, &[0x5a; 4096], cedrat_media::Durability::Durable).expect("written");
    assert_eq!(all(&open(&media), Lsn::ZERO), [(kept, b"kept".to_vec())]);
}
