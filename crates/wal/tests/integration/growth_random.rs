//! Random transactions in logs that grow, with crashes, full disks and small limits: what was acknowledged is found, and every
//! loser is rolled back in the space that it has reserved (E16.1, E16.10).

use cedrat_media::{Kill, Loss, Media, SimDisk};
use cedrat_sync::{Arc, Mutex, thread};
use cedrat_wal::*;
use std::collections::BTreeMap;

use crate::common::*;

/// The beginning of each body: its kind, its transaction, the length of its undo.
const HEAD: usize = 13;
const UPDATE: u8 = 1;
const UNDO: u8 = 2;
const END: u8 = 3;

/// Cases with a seed each, and openings of each.
const CASES: u64 = 40;
const OPENINGS: u64 = 4;

/// Returns the length of a body, up to `max`: more often a short one.
fn random_len(random: &mut Random, max: usize) -> usize {
    let max = match random.below(12) {
        0 => max,
        1..3 => max / 8,
        3..5 => max / 64,
        _ => 400,
    };
    let len = if random.one_in(10) { max } else { random.below(max as u64 + 1) as usize };
    len.max(HEAD)
}

fn bound(len: usize) -> ByteLen {
    record_len_bound(ByteLen(len as u64))
}

fn body(kind: u8, txn: u64, undo: usize, len: usize) -> Vec<u8> {
    let mut body: Vec<u8> = (0..len).map(|at| (at as u64 * 31 + txn * 7 + undo as u64) as u8).collect();
    body[0] = kind;
    body[1..9].copy_from_slice(&txn.to_le_bytes());
    body[9..HEAD].copy_from_slice(&(undo as u32).to_le_bytes());
    body
}

/// Returns kind, transaction and length of the undo.
fn parse(body: &[u8]) -> (u8, u64, usize) {
    let undo = u32::from_le_bytes(body[9..HEAD].try_into().expect("four bytes"));
    (body[0], u64::from_le_bytes(body[1..9].try_into().expect("eight bytes")), undo as usize)
}

/// The records of all openings that may be found: LSN to body.
type Appended = Mutex<BTreeMap<u64, Vec<u8>>>;

struct Txn {
    id: u64,
    partition: PartitionId,
    first: Lsn,
    room: Reservation,
    /// The lengths of the undo records that it owes.
    owed: Vec<usize>,
}

impl Txn {
    fn append(&mut self, log: &Log, appended: &Appended, kind: u8, undo: usize, len: usize) -> Lsn {
        let body = body(kind, self.id, undo, len);
        let mut appended = appended.lock();
        let lsn = log.append(self.partition, update(self.id, None), &[&body], &mut self.room).lsn;
        appended.insert(lsn.get(), body);
        if self.first == Lsn::ZERO {
            self.first = lsn;
        }
        lsn
    }

    /// Reserves as transactions do: what is missing, unless a record is long.
    fn reserve(&mut self, log: &Log, forward: ByteLen, undo: ByteLen) -> Result<(), LogFull> {
        let end = bound(HEAD).0;
        let owed = self.owed.iter().map(|&len| bound(len).0).sum::<u64>() + end;
        let (has_forward, has_undo) = (self.room.forward().0, self.room.undo().0);
        let is_long = log.needs_longer_segments(forward, undo);
        let whole = if is_long { (forward.0, undo.0) } else { (0, 0) };
        let forward = (forward.0 + end).saturating_sub(has_forward).max(whole.0);
        let undo = (owed + undo.0).saturating_sub(has_undo).max(whole.1);
        let generous = |bytes: u64| if bytes == 0 { 0 } else { bytes.max(4096) };
        if log.reserve_more(&mut self.room, ByteLen(generous(forward)), ByteLen(generous(undo))).is_ok() {
            return Ok(());
        }
        log.reserve_more(&mut self.room, ByteLen(forward), ByteLen(undo))
    }

    /// Appends all undo, with a force now and then.
    fn roll_back(mut self, log: &Log, appended: &Appended, random: &mut Random) -> Lsn {
        self.room.spend(Spending::Undo);
        let mut since_force = 0;
        while let Some(undo) = self.owed.pop() {
            let lsn = self.append(log, appended, UNDO, 0, undo);
            since_force += 1;
            if since_force > 100 && random.one_in(50) {
                since_force = 0;
                log.force(lsn).expect("E16.1: a rollback lacks its space");
            }
        }
        self.append(log, appended, END, 0, HEAD)
    }
}

/// One case: its options, and what must be found.
struct Case {
    random: Random,
    options: LogOptions,
    appended: Arc<Appended>,
    next_txn: u64,
}

impl Case {
    fn new(seed: u64) -> Case {
        let mut random = Random::new(seed);
        let segment_len = SEGMENT_LEN_MIN << random.below(6);
        let segment_len = if random.one_in(4) { segment_len + 4096 * random.below(16) } else { segment_len };
        let partitions = 1 + random.below(3) as u16;
        let least = 2 * u64::from(partitions) + 2;
        let segments = if random.one_in(3) { least } else { least + random.below(40) };
        let block_len_max = [16 << 10, 32 << 10, 64 << 10, 1 << 20][random.below(4) as usize];
        let log_bytes_max = segments * segment_len + random.below(segment_len);
        let options = LogOptions { partitions, segment_len, log_bytes_max, block_len_max, ..LogOptions::small() };
        Case { random, options, appended: Arc::default(), next_txn: 1 }
    }

    fn begin(&mut self, log: &Log) -> Result<Txn, LogFull> {
        let partition = PartitionId(self.random.below(u64::from(self.options.partitions)) as u16);
        let room = log.reserve(bound(HEAD), bound(HEAD))?;
        self.next_txn += 1;
        Ok(Txn { id: self.next_txn - 1, partition, first: Lsn::ZERO, room, owed: Vec::new() })
    }

    fn force(&self, log: &Log, sim: &SimDisk, lsn: Lsn) {
        let forced = log.force(lsn).unwrap_or_else(|error| panic!("E16.1: {error}; {:?}", log.space()));
        sim.mark(forced.up_to().get());
    }

    /// Rolls a transaction back, on a full disk.
    fn roll_back(&mut self, log: &Log, sim: &SimDisk, txn: Txn, capacity: Option<u64>) {
        sim.set_capacity(Some(sim.space()));
        let lsn = txn.roll_back(log, &self.appended, &mut self.random);
        self.force(log, sim, lsn);
        assert_eq!(log.space().overdrawn, ByteLen(0), "E16.1");
        sim.set_capacity(capacity);
    }

    fn checkpoint(&mut self, log: &Log, txns: &[Txn]) {
        let open = txns.iter().filter(|txn| txn.first > Lsn::ZERO).map(|txn| txn.first).min();
        let lsn = open.unwrap_or(log.current_lsn().next());
        let checkpoint = Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: self.next_txn };
        log.checkpoint_control(&checkpoint).expect("the log runs");
        log.truncate(Lsn::MAX);
    }

    /// Runs transactions in one opening. Some stay open: a crash makes them losers.
    fn run(&mut self, log: &Log, sim: &SimDisk, capacity: Option<u64>) {
        let mut txns: Vec<Txn> = Vec::new();
        let undo_max = [HEAD, 400, log.body_len_max()][self.random.below(3) as usize];
        let checkpoint_one_in = [10, 50, 400][self.random.below(3) as usize];
        for _ in 0..20 + self.random.below(250) {
            if txns.len() < 4 && self.random.one_in(4) {
                match self.begin(log) {
                    Ok(txn) => txns.push(txn),
                    Err(_) => {
                        self.checkpoint(log, &txns);
                        if let Some(oldest) = (0..txns.len()).min_by_key(|&at| txns[at].first) {
                            self.roll_back(log, sim, txns.swap_remove(oldest), capacity);
                        }
                    }
                }
            }
            if !txns.is_empty() {
                let at = self.random.below(txns.len() as u64) as usize;
                self.step(log, sim, &mut txns, at, (undo_max, capacity));
            }
            if self.random.one_in(checkpoint_one_in) {
                self.checkpoint(log, &txns);
            }
            assert_eq!(log.space().overdrawn, ByteLen(0), "E16.1");
        }
        txns.into_iter().for_each(|txn| txn.room.abandon());
    }

    /// Continues a transaction, or ends it.
    fn step(
        &mut self,
        log: &Log,
        sim: &SimDisk,
        txns: &mut Vec<Txn>,
        at: usize,
        (undo_max, capacity): (usize, Option<u64>),
    ) {
        let mut txn = txns.swap_remove(at);
        if self.random.one_in(12) {
            if self.random.one_in(2) {
                return self.roll_back(log, sim, txn, capacity);
            }
            let lsn = txn.append(log, &self.appended, END, 0, HEAD);
            if self.random.one_in(2) {
                self.force(log, sim, lsn);
            }
            return;
        }
        let (len, undo) = (random_len(&mut self.random, log.body_len_max()), random_len(&mut self.random, undo_max));
        if txn.reserve(log, bound(len), bound(undo)).is_err() {
            txns.push(txn);
            self.checkpoint(log, txns);
            txn = txns.pop().expect("it was pushed");
            if let Err(full) = txn.reserve(log, bound(len), bound(undo)) {
                assert!(!matches!(full, LogFull::Stopped(_)), "{full}");
                return self.roll_back(log, sim, txn, capacity);
            }
        }
        let lsn = txn.append(log, &self.appended, UPDATE, undo, len);
        txn.owed.push(undo);
        txns.push(txn);
        if self.random.one_in(5) {
            self.force(log, sim, lsn);
        }
        if self.random.one_in(8) {
            log.begin_ahead().expect("the log runs");
        }
    }

    /// Opens the log after a crash, checks what is found, and rolls back the losers on a full disk.
    fn recover(&mut self, sim: &Arc<SimDisk>, acknowledged: u64) -> Log {
        sim.set_capacity(Some(sim.space()));
        let media: Arc<dyn Media> = Arc::clone(sim) as _;
        let found = Log::look(&media).expect("E20.3");
        assert!(found.end_lsn().get() > acknowledged, "W4: {acknowledged}, {}", found.end_lsn());
        let mut kept = BTreeMap::new();
        let mut losers: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut appended = self.appended.lock();
        let mut scan = found.scan(Lsn::ZERO).expect("E20.3");
        while let Some(next) = scan.next().expect("W3") {
            let (lsn, bytes) = (next.record.lsn.get(), next.record.body.to_vec());
            assert_eq!(Some(&bytes), appended.get(&lsn), "E1.3: {lsn}");
            let (kind, txn, undo) = parse(&bytes);
            match kind {
                UPDATE => losers.entry(txn).or_default().push(undo),
                UNDO => drop(losers.get_mut(&txn).and_then(Vec::pop)),
                _ => drop(losers.remove(&txn)),
            }
            kept.insert(lsn, bytes);
        }
        drop(scan);
        let oldest = found.control().checkpoint.scan_lsn.get();
        let missing = appended.range(oldest..(acknowledged + 1).max(oldest)).find(|(lsn, _)| !kept.contains_key(lsn));
        assert_eq!(missing, None, "W4");
        appended.retain(|lsn, _| *lsn < oldest || kept.contains_key(lsn));
        drop(appended);
        let log = found.begin(&[], &self.options).expect("E20.3");
        for (id, owed) in losers {
            let partition = PartitionId(self.random.below(u64::from(self.options.partitions)) as u16);
            let txn = Txn { id, partition, first: Lsn::ZERO, room: log.reservation_for_recovery(), owed };
            self.roll_back(&log, sim, txn, Some(sim.space()));
        }
        log
    }

    /// Returns the disk after a random crash since `from`, and the newest LSN that was acknowledged before.
    fn crash(&mut self, sim: &SimDisk, from: usize) -> (Arc<SimDisk>, u64) {
        let journal = sim.journal();
        let (mut cursor, len) = (journal.cursor(), journal.len());
        let at = if self.random.one_in(3) { len } else { from + self.random.below((len - from) as u64 + 1) as usize };
        cursor.advance_to(at);
        let acknowledged = cursor.marks().iter().map(|mark| mark.label).max().unwrap_or(0);
        let number = self.random.below(1 << 40);
        let loss = match self.random.below(8) {
            0 => Loss::Everything,
            1 => Loss::Nothing,
            2 | 3 => Loss::Random(number),
            4 => Loss::Whole(number),
            5 => Loss::TornLast(number),
            6 => return (Arc::new(cursor.kill(Kill::Process(number))), acknowledged),
            _ => return (Arc::new(cursor.kill(Kill::FailedSync(number))), acknowledged),
        };
        (Arc::new(SimDisk::from_image(cursor.image(loss))), acknowledged)
    }
}

/// Runs a case: openings that each end with a crash, of which the recovery may crash, too.
fn every_opening(seed: u64) {
    let mut case = Case::new(seed);
    let mut sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let mut log = Log::create(&media, &case.options, &[]).expect("a log is created");
    let (mut from, mut acknowledged) = (sim.journal_len(), 0);
    for _ in 0..OPENINGS {
        let capacity = match case.random.below(3) {
            0 => Some(sim.space() + case.random.below(2 * case.options.log_bytes_max)),
            1 => Some(sim.space() + case.random.below(1 << 20)),
            _ => None,
        };
        sim.set_capacity(capacity);
        let writer = case.random.one_in(3).then(|| log.start_writer());
        case.run(&log, &sim, capacity);
        drop(writer);
        for _ in 0..1 + case.random.below(2) {
            drop(log);
            let (crashed, newest) = case.crash(&sim, from);
            acknowledged = newest.max(acknowledged);
            (sim, from) = (crashed, 0);
            from += sim.journal_len();
            log = case.recover(&sim, acknowledged);
        }
    }
}

#[test]
fn random_growth_loses_nothing() {
    for seed in seeds(CASES) {
        println!("case {seed}");
        every_opening(seed);
    }
}

/// Threads run transactions until the disk is full, and roll them back then; others end meanwhile.
fn full_disk_in_threads(seed: u64) {
    let mut random = Random::new(seed);
    let case = Case::new(seed);
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let options = LogOptions { log_bytes_max: 1 << 30, ..case.options.clone() };
    let log = Log::create(&media, &options, &[]).expect("a log is created");
    let writer = random.one_in(2).then(|| log.start_writer());
    sim.set_capacity(Some(sim.space() + (1 << 20) + random.below(8 << 20)));
    let longest = [400, log.body_len_max() / 8, log.body_len_max()][random.below(3) as usize];
    let workers: Vec<_> = (0..4)
        .map(|number| {
            let (log, appended, mut random) =
                (log.clone(), Arc::clone(&case.appended), Random::new(seed + 1000 * number));
            let partition = PartitionId(number as u16 % options.partitions);
            let run = move || {
                let room = log.reserve(bound(HEAD), bound(HEAD)).ok()?;
                let mut txn = Txn { id: number + 1, partition, first: Lsn::ZERO, room, owed: Vec::new() };
                loop {
                    let (len, undo) = (random_len(&mut random, longest), random_len(&mut random, longest));
                    if let Err(full) = txn.reserve(&log, bound(len), bound(undo)) {
                        assert!(matches!(full, LogFull::Disk { .. }), "{full}");
                        return Some((txn, random));
                    }
                    let lsn = txn.append(&log, &appended, UPDATE, undo, len);
                    txn.owed.push(undo);
                    if random.one_in(5) {
                        log.force(lsn).expect("E16.7");
                    }
                }
            };
            thread::spawn(run)
        })
        .collect();
    let full: Vec<_> = workers.into_iter().filter_map(|worker| worker.join().expect("no panic")).collect();
    thread::scope(|scope| {
        for (txn, mut random) in full {
            let (log, appended) = (&log, &case.appended);
            scope.spawn(move || txn.roll_back(log, appended, &mut random));
        }
    });
    log.force(Lsn::MAX).expect("E16.1");
    assert_eq!(log.space().overdrawn, ByteLen(0), "E16.1");
    drop(writer);
    drop(log);
    let disk: Arc<dyn Media> = Arc::new(sim.cut_power(Loss::Everything));
    let found = Log::look(&disk).expect("E20.3");
    assert_eq!(lsns(found.scan(Lsn::ZERO).expect("E20.3")).len(), case.appended.lock().len(), "W4");
}

#[test]
fn threads_roll_back_on_full_disk() {
    for seed in seeds(CASES) {
        println!("case {seed}");
        full_disk_in_threads(seed);
    }
}
