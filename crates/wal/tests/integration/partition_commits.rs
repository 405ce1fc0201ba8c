//! `Partition` commits (Hathi §3, §4) under a power failure at every call: commits acknowledged with their own
//! partition alone are found by every later scan, and no scan finds any other record beyond the first missing LSN.

use cedrat_media::{Cursor, Durability, Kill, Loss, Mark, Media, SimDisk};
use cedrat_sync::{Arc, Condvar, Mutex, thread};
use cedrat_wal::*;
use std::collections::{BTreeMap, HashSet};

use crate::common::*;

/// A record as it was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Appended {
    position: Position,
    flagged: bool,
    body: Vec<u8>,
}

/// Records by LSN.
type Records = BTreeMap<u64, Appended>;

/// Lets a later block of the partition overtake a block, so that a crash between the two leaves a gap.
#[derive(Debug, Default)]
struct Overtaking {
    state: Mutex<Overtaken>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Overtaken {
    /// The partition whose next block is held back.
    hold: Option<PartitionId>,
    held: bool,
    /// Whether a later block was written.
    overtaken: bool,
}

impl Overtaking {
    fn hold_next(&self, partition: PartitionId) {
        *self.state.lock() = Overtaken { hold: Some(partition), ..Overtaken::default() };
    }

    fn wait_until_held(&self) {
        let mut state = self.state.lock();
        while !state.held {
            self.changed.wait(&mut state);
        }
    }
}

impl Sink for Overtaking {
    fn stabilise(&self, piece: Piece<'_>, local: &dyn Local) -> std::io::Result<()> {
        let mut state = self.state.lock();
        let concerned = piece.first_lsn > Lsn::ZERO && state.hold == Some(piece.position.partition);
        let overtakes = concerned && state.held;
        if concerned && !overtakes {
            state.held = true;
            self.changed.notify_all();
            while !state.overtaken {
                self.changed.wait(&mut state);
            }
            state.hold = None;
        }
        drop(state);
        local.write(Durability::Durable)?;
        if overtakes {
            self.state.lock().overtaken = true;
            self.changed.notify_all();
        }
        Ok(())
    }
}

/// One opening of the log, with the records appended to it.
struct Run {
    sim: Arc<SimDisk>,
    log: Log,
    overtaking: Arc<Overtaking>,
    reservation: Reservation,
    records: Records,
    /// The state of a generator of numbers (xorshift).
    random: u64,
}

impl Run {
    fn new(sim: &Arc<SimDisk>, log: Log, overtaking: &Arc<Overtaking>, seed: u64) -> Run {
        let reservation = log.reserve(ByteLen(0), ByteLen(0)).unwrap();
        let (sim, overtaking) = (Arc::clone(sim), Arc::clone(overtaking));
        Run { sim, log, overtaking, reservation, records: Records::new(), random: seed * 2 + 1 }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % limit
    }

    fn append(&mut self, partition: PartitionId, flagged: bool) -> (Lsn, Position) {
        let len = if self.below(8) == 0 { 3000 } else { self.below(200) };
        let body: Vec<u8> = (0..len).map(|at| (at * 7 + self.random) as u8).collect();
        self.log.reserve_more(&mut self.reservation, record_len_bound(ByteLen(len)), ByteLen(0)).unwrap();
        let head = RecordHead { partition_commit: flagged, ..RecordHead::new(Kind::COMMIT, TxnId(1), None) };
        let place = self.log.append(partition, head, &[&body], &mut self.reservation);
        let position = Position { partition, offset: place.offset };
        self.records.insert(place.lsn.get(), Appended { position, flagged, body });
        (place.lsn, position)
    }

    fn commit(&mut self, partition: PartitionId) {
        let (lsn, position) = self.append(partition, true);
        self.log.force_partition(position).unwrap();
        self.sim.mark(lsn.get() * 2 + 1);
    }

    fn force(&mut self, partition: PartitionId) {
        let flagged = self.below(2) == 0;
        let (lsn, _) = self.append(partition, flagged);
        let forced = self.log.force(lsn).unwrap();
        self.sim.mark(forced.up_to().get() * 2);
    }

    /// Appends two commits, of which the later one's block is written first.
    fn overtake(&mut self, partition: PartitionId) {
        self.commit(partition); // alone, so that the next ones do not wait for other committers
        let flagged = self.below(3) > 0;
        let (first, held) = self.append(partition, flagged);
        self.overtaking.hold_next(partition);
        let (log, sim, overtaking) = (self.log.clone(), Arc::clone(&self.sim), Arc::clone(&self.overtaking));
        thread::scope(|scope| {
            scope.spawn(move || {
                log.force_partition(held).unwrap();
                if flagged {
                    sim.mark(first.get() * 2 + 1);
                }
            });
            overtaking.wait_until_held();
            if self.below(2) == 0 {
                self.append(partition, false);
            }
            self.commit(partition);
        });
    }

    fn checkpoint(&mut self) {
        let back = self.below(6);
        let lsn = Lsn::new(self.log.durable_lsn().get().saturating_sub(back).max(1));
        self.log.checkpoint_control(&Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 }).unwrap();
        self.log.truncate(Lsn::MAX);
    }

    fn work(&mut self, steps: u64) {
        for _ in 0..steps {
            let partition = PartitionId(self.below(u64::from(self.log.partitions())) as u16);
            match self.below(32) {
                0..=15 => drop(self.append(partition, self.random.is_multiple_of(2))),
                16..=24 => self.commit(partition),
                25 => self.force(partition),
                26..=30 => self.overtake(partition),
                _ => self.checkpoint(),
            }
        }
    }
}

/// The records that must be found on a disk.
struct Known {
    /// The records found when the run began: they stay found, and no other record of earlier runs reappears.
    kept: Records,
    /// The first LSN of the run.
    first: u64,
    run: Records,
}

/// Returns all records of a scan, which are in the order of LSNs.
fn scanned(mut scan: Scan) -> Records {
    let mut records = Records::new();
    while let Some(next) = scan.next().expect("a crash damages nothing that counts") {
        let record = next.record;
        let lsn = record.lsn.get();
        assert!(records.last_key_value().is_none_or(|(&last, _)| last < lsn), "W1: LSN {lsn} comes too late");
        let flagged = record.head.partition_commit;
        records.insert(lsn, Appended { position: record.position, flagged, body: record.body.to_vec() });
    }
    records
}

impl Known {
    fn judge(&self, media: &Arc<dyn Media>, options: &LogOptions, marks: &[Mark]) -> (Found, Records) {
        let found = look(media, options).expect("a crash never makes a log unopenable (E20.3)");
        let records = scanned(found.scan(Lsn::ZERO).unwrap());
        if let Some(&middle) = records.keys().nth(records.len() * 2 / 3) {
            let later = scanned(found.scan(Lsn::new(middle)).unwrap());
            assert!(records.range(middle..).eq(&later), "E8.4: from {middle} on a scan finds {:?}", later.keys());
        }
        let (from, end) = (found.control().checkpoint.scan_lsn.get(), found.end_lsn().get());
        let before: Records = records.range(..self.first).map(|(&lsn, record)| (lsn, record.clone())).collect();
        let kept: Records = self.kept.range(from..).map(|(&lsn, record)| (lsn, record.clone())).collect();
        assert!(before == kept, "E8.4: {:?} of earlier runs, not {:?}", before.keys(), kept.keys());
        for (lsn, record) in records.range(self.first..) {
            assert_eq!(self.run.get(lsn), Some(record), "E1.3: LSN {lsn}");
        }
        self.judge_run(&found, &records, from, end);
        for mark in marks {
            let lsn = mark.label / 2;
            if mark.label % 2 == 0 {
                assert!(lsn < end, "W4: {lsn} was forced, the log ends at {end}");
            } else {
                assert!(lsn < from || records.contains_key(&lsn), "E8.4: {lsn} was forced with its partition");
            }
        }
        (found, records)
    }

    /// Checks which of the run's records are found.
    fn judge_run(&self, found: &Found, records: &Records, from: u64, end: u64) {
        for (lsn, record) in self.run.range(from..) {
            let is_found = records.contains_key(lsn);
            if *lsn < end {
                assert!(is_found, "W1: LSN {lsn} lies before the first missing one, {end}");
            } else if !record.flagged {
                assert!(!is_found, "E8.4: LSN {lsn} lies beyond the first missing one, {end}, and is not flagged");
            } else if is_found {
                assert_ne!(*lsn, end, "E20.3: the first missing LSN is there");
                for (earlier, other) in self.run.range(from..*lsn) {
                    if other.position.partition == record.position.partition {
                        let whole = found.read(other.position).is_ok_and(|whole| whole.body == other.body);
                        assert!(whole, "E8.4: LSN {lsn} lies behind a hole of its partition at {earlier}");
                    }
                }
            }
        }
        if let Some(missing) = self.run.get(&end) {
            let partition = usize::from(missing.position.partition.0);
            assert!(missing.position.offset >= found.ends()[partition], "E20.3: {end} is not missing");
        }
    }
}

/// The search through crashes, crashes after them, and crashes after those.
struct Search<'a> {
    options: &'a LogOptions,
    overtaking: &'a Arc<Overtaking>,
    losses: &'a [Loss],
    seen: HashSet<u64>,
    tried: usize,
    /// The number of states with records beyond the first missing LSN.
    beyond: usize,
}

impl<'a> Search<'a> {
    fn new(options: &'a LogOptions, overtaking: &'a Arc<Overtaking>, losses: &'a [Loss]) -> Search<'a> {
        Search { options, overtaking, losses, seen: HashSet::new(), tried: 0, beyond: 0 }
    }

    /// Checks every crash of a run. After one in so many it continues: `one_in` has a number for each run after this
    /// one.
    fn every_crash(&mut self, sim: &SimDisk, begin: usize, known: &Known, one_in: &[usize]) {
        let mut judged = HashSet::new();
        let mut cursor = sim.journal().cursor();
        cursor.advance_to(begin);
        loop {
            for &loss in self.losses {
                let image = cursor.image(loss);
                if !judged.insert((image.hash(), cursor.marks().len())) {
                    continue;
                }
                self.seen.insert(image.hash());
                self.tried += 1;
                let disk = Arc::new(SimDisk::from_image(image));
                let media: Arc<dyn Media> = Arc::clone(&disk) as _;
                let (found, kept) = known.judge(&media, self.options, cursor.marks());
                self.beyond +=
                    usize::from(kept.last_key_value().is_some_and(|(&last, _)| last > found.end_lsn().get()));
                if let Some((&one_in, rest)) = one_in.split_first()
                    && judged.len().is_multiple_of(one_in)
                {
                    self.go_on(&disk, found, kept, rest);
                }
            }
            if !cursor.advance() {
                return;
            }
        }
    }

    fn go_on(&mut self, disk: &Arc<SimDisk>, found: Found, kept: Records, one_in: &[usize]) {
        let (known, _) = self.next_run(disk, found, kept);
        self.every_crash(disk, 0, &known, one_in);
    }

    /// Begins the log again and runs on. Returns what is known then, and the place in the journal at which the log had begun.
    fn next_run(&mut self, disk: &Arc<SimDisk>, found: Found, kept: Records) -> (Known, usize) {
        let log = found.begin(&[], self.options).unwrap();
        let begun = disk.journal_len();
        let first = log.current_lsn().get() + 1;
        assert!(scanned(log.scan(Lsn::ZERO).unwrap()) == kept, "E8.4: the open log has what was found");
        let mut run = Run::new(disk, log, self.overtaking, self.tried as u64);
        run.work(6);
        (Known { kept, first, run: std::mem::take(&mut run.records) }, begun)
    }

    /// Kills the process once in `step` calls, begins the log again while volatile bytes can be read, and cuts the power: in that
    /// opening and behind it. As long as its epoch is not durable, any state is legal that the killed run could have left; then what
    /// it has found is durable.
    fn every_kill(&mut self, sim: &SimDisk, begin: usize, known: &Known, step: usize) {
        let mut cursor = sim.journal().cursor();
        cursor.advance_to(begin);
        while cursor.advance() {
            if !cursor.unsettled().is_empty() && cursor.at().is_multiple_of(step) {
                for kill in [Kill::Process(cursor.at() as u64), Kill::FailedSync(cursor.at() as u64)] {
                    self.kill(&cursor, kill, known);
                }
            }
        }
    }

    fn kill(&mut self, cursor: &Cursor, kill: Kill, known: &Known) {
        let disk = Arc::new(cursor.kill(kill));
        let media: Arc<dyn Media> = Arc::clone(&disk) as _;
        let (found, kept) = known.judge(&media, self.options, cursor.marks());
        self.beyond += usize::from(kept.last_key_value().is_some_and(|(&last, _)| last > found.end_lsn().get()));
        let newest = |found: &Found| found.control().epochs.iter().map(|epoch| epoch.number).max();
        let epoch = newest(&found);
        let (next, begun) = self.next_run(&disk, found, kept);
        let mut power = disk.journal().cursor();
        while power.at() < begun {
            let image = power.image(Loss::Everything);
            self.tried += 1;
            if self.seen.insert(image.hash()) {
                let media: Arc<dyn Media> = Arc::new(SimDisk::from_image(image));
                let left = look(&media, self.options).expect("a crash never makes a log unopenable (E20.3)");
                let judge = if newest(&left) == epoch { known } else { &next };
                judge.judge(&media, self.options, cursor.marks());
            }
            assert!(power.advance(), "the log had begun later");
        }
        self.every_crash(&disk, begun, &next, &[]);
    }
}

const LOSSES: [Loss; 6] =
    [Loss::Everything, Loss::Nothing, Loss::Random(1), Loss::Random(2), Loss::Whole(3), Loss::TornLast(0b1111_0110)];

/// Runs a workload, and returns its disk, the place in the journal at which it began, and what is known of it.
fn first_run(options: &LogOptions, overtaking: &Arc<Overtaking>, seed: u64) -> (Arc<SimDisk>, usize, Known) {
    let sim = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = Arc::clone(&sim) as _;
    let log = Log::create(&media, options, &[]).unwrap();
    let begin = sim.journal_len();
    let mut run = Run::new(&sim, log, overtaking, seed);
    run.work(60);
    let known = Known { kept: Records::new(), first: 1, run: std::mem::take(&mut run.records) };
    (sim, begin, known)
}

/// Returns options of a log whose blocks overtake each other.
fn overtaking(partitions: u16) -> (LogOptions, Arc<Overtaking>) {
    let overtaking = Arc::new(Overtaking::default());
    let sink: Arc<dyn Sink> = Arc::clone(&overtaking) as _;
    (LogOptions { partitions, sink, ..LogOptions::small() }, overtaking)
}

/// Returns the number of states tried, of distinct ones, and of those with records beyond the first missing LSN.
fn search(
    partitions: u16,
    seed: u64,
    losses: &[Loss],
    one_in: &[usize],
    plant: impl FnOnce(&mut LogOptions),
) -> [usize; 3] {
    let (mut options, overtaking) = overtaking(partitions);
    plant(&mut options);
    let (sim, begin, known) = first_run(&options, &overtaking, seed);
    let mut search = Search::new(&options, &overtaking, losses);
    search.every_crash(&sim, begin, &known, one_in);
    [search.tried, search.seen.len(), search.beyond]
}

#[test]
fn partition_commits_survive_every_crash() {
    let mut sums = [0; 3];
    for seed in 0..30 {
        let found = search(2 + seed as u16 % 2, seed, &LOSSES, &[3, 15], |_| {});
        sums.iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
    }
    let [tried, distinct, beyond] = sums;
    report_crash_states("log-partition-commits", tried, distinct);
    assert!(distinct > 10_000, "{distinct}");
    assert!(beyond > 1000, "{beyond}: what this is about does happen");
}

/// Returns what a search finds behind kills: the number of states tried, of distinct ones, and of those with records beyond the
/// first missing LSN.
fn search_kills(seed: u64, plant: impl FnOnce(&mut LogOptions)) -> [usize; 3] {
    let (mut options, overtaking) = overtaking(2 + seed as u16 % 2);
    plant(&mut options);
    let (sim, begin, known) = first_run(&options, &overtaking, seed);
    let mut search = Search::new(&options, &overtaking, &[Loss::Everything, Loss::Random(1)]);
    search.every_kill(&sim, begin, &known, 5);
    [search.tried, search.seen.len(), search.beyond]
}

/// R6, A9: the log begins again after a kill, or after a sync that has failed and forgotten, and has durably what it has found.
#[test]
fn partition_commits_survive_kill_and_crash() {
    let mut sums = [0; 3];
    for seed in 0..8 {
        let found = search_kills(seed, |_| {});
        sums.iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
    }
    let [tried, distinct, beyond] = sums;
    report_crash_states("log-partition-commits-kills", tried, distinct);
    assert!(beyond > 100, "{beyond}: what this is about does happen");
}

#[cfg(feature = "planted-faults")]
#[test]
fn tail_synced_alone_is_caught() {
    let caught = caught(|| {
        for seed in 0..8 {
            search_kills(seed, |options| options.fault = Some(Fault::TailOnlySynced));
        }
    });
    assert!(caught.contains("that was durable is gone"), "{caught}");
}

#[cfg(feature = "planted-faults")]
#[test]
fn partition_holes_and_stale_epochs_are_caught() {
    for fault in [Fault::HolesPassedOver, Fault::StaleEpochAccepted] {
        let caught = caught(|| {
            search(2, 1, &[Loss::Everything], &[], |options| options.fault = Some(fault));
        });
        assert!(caught.contains("E8.4"), "{fault:?}: {caught}");
    }
}

/// Crash after crash without a checkpoint, until the table joins its oldest epochs (E1.7): commits of each run beyond
/// its gap stay found, and other records there stay dead.
#[test]
fn partition_commits_survive_joined_epochs() {
    let names: Vec<String> = (0..249).map(|number| format!("{number:0>240}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for every_run_is_kept in [true, false] {
        let options = LogOptions { partitions: 2, ..LogOptions::small() };
        let mut sim = Arc::new(SimDisk::new());
        let media: Arc<dyn Media> = Arc::clone(&sim) as _;
        let mut log = Log::create(&media, &options, &names).unwrap();
        let mut committed = Records::new();
        for life in 0..150 {
            let mut run = Run::new(&sim, log, &Arc::default(), life);
            if every_run_is_kept {
                let (lsn, _) = run.append(PartitionId(0), false);
                run.log.force(lsn).unwrap();
                committed.insert(lsn.get(), run.records[&lsn.get()].clone());
            }
            run.append(PartitionId(0), true); // lost: it was never forced
            for _ in 0..2 {
                run.append(PartitionId(1), false); // dead
                let (lsn, position) = run.append(PartitionId(1), true);
                run.log.force_partition(position).unwrap();
                committed.insert(lsn.get(), run.records[&lsn.get()].clone());
            }
            drop(run);
            sim = Arc::new(SimDisk::from_image(sim.cut_power(Loss::Everything).image()));
            let media: Arc<dyn Media> = Arc::clone(&sim) as _;
            let found = Log::look(&media).unwrap();
            assert!(scanned(found.scan(Lsn::ZERO).unwrap()) == committed, "E8.4: after run {life}");
            log = found.begin(&[], &options).unwrap();
            assert!(scanned(log.scan(Lsn::ZERO).unwrap()) == committed, "E8.4: in run {life}");
        }
        for (lsn, record) in &committed {
            assert_eq!(log.read(record.position).unwrap().lsn.get(), *lsn, "E1.7: each opening's seed is tried");
        }
        let epochs = log.control().epochs;
        let oldest = epochs.iter().next().unwrap();
        assert!(oldest.oldest < oldest.number, "joined");
    }
}
