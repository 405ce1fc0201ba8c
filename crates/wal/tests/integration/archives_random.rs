//! Random histories of a log, its archive and its backups, on disks that fail independently of each other.

use cedrat_media::{Loss, SimDisk};
use cedrat_wal::*;

use crate::common::*;

const PARTITIONS: u16 = 3;

/// So short that runs are merged twice.
const RUN_LEN: u64 = 256;

const KEYS: u64 = 7;
const OTHER_KEY: u64 = 1 << 63;

fn keys(record: &RecordRef<'_>, keys: &mut Vec<u64>) -> Result<(), LogError> {
    keys.extend([record.lsn.get() % KEYS, OTHER_KEY + record.lsn.get() / 8 % KEYS]);
    Ok(())
}

/// A log with an archive, the backups that were made of it, and the records that it should have.
struct World {
    random: Random,
    options: LogOptions,
    disk: SimDisk,
    to: SimDisk,
    log: Log,
    archive: LogArchive,
    index: RecordIndex,
    backups: Vec<SimDisk>,
    /// The LSNs of all records that were appended and not lost.
    records: Vec<u64>,
    /// Records up to this LSN are durable.
    durable: u64,
    /// The length of the disk's journal when the archive was extended, or the log forced or opened. It fails later.
    acknowledged: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let (disk, to) = (SimDisk::new(), SimDisk::new());
        let base = if seed.is_multiple_of(2) { LogOptions::small() } else { LogOptions::growing() };
        let options = LogOptions { partitions: PARTITIONS, ..base };
        let log = Log::create(&media(&disk), &options, &[]).unwrap();
        let archive = LogArchive::open(&media(&to), &log).unwrap();
        let index = RecordIndex::open(&media(&to), &archive.archived(), RUN_LEN).unwrap();
        let acknowledged = disk.journal_len();
        let (random, backups, records) = (Random::new(seed), Vec::new(), Vec::new());
        World { random, options, disk, to, log, archive, index, backups, records, durable: 0, acknowledged }
    }

    fn append(&mut self) {
        let len = if self.random.one_in(10) { self.random.within(4_000, 7_000) } else { self.random.within(1, 600) };
        let bound = record_len_bound(ByteLen(len));
        let Ok(mut room) = self.log.reserve(bound, ByteLen(0)) else { return self.recycle() };
        let partition = PartitionId(self.random.below(u64::from(PARTITIONS)) as u16);
        let appended = self.log.append(partition, update(1, None), &[&vec![3; len as usize]], &mut room);
        self.records.push(appended.lsn.get());
        match self.random.below(8) {
            0 => self.force(),
            1 => self.log.force_partition(Position { partition, offset: appended.offset }).unwrap(),
            _ => {}
        }
    }

    fn force(&mut self) {
        self.durable = self.log.force(self.log.current_lsn()).unwrap().up_to().get();
        self.acknowledged = self.disk.journal_len();
    }

    fn extend(&mut self) {
        let before = self.to.journal_len();
        let up_to = self.archive.extend(&self.log, || vec![1]).unwrap();
        self.durable = self.durable.max(up_to.get());
        self.acknowledged = self.disk.journal_len();
        if self.random.one_in(4) {
            let at = self.point(before, self.to.journal_len());
            let loss = self.loss();
            self.to = self.to.journal().crash(at, loss);
            self.open_archive();
        }
    }

    fn open_archive(&mut self) {
        self.archive = LogArchive::open(&media(&self.to), &self.log).expect("E18.9");
        self.index = RecordIndex::open(&media(&self.to), &self.archive.archived(), RUN_LEN).expect("E18.16");
    }

    /// Indexes the archive by two keys of each record, and compares the entries with the records. Perhaps power fails meanwhile.
    fn index(&mut self) {
        let archived = self.archive.archived();
        let before = self.to.journal_len();
        self.index.catch_up(&archived, &mut keys).expect("E18.16");
        if self.random.one_in(3) {
            let at = self.point(before, self.to.journal_len());
            let loss = self.loss();
            self.to = self.to.journal().crash(at, loss);
            self.open_archive();
            self.index.catch_up(&self.archive.archived(), &mut keys).expect("E18.16");
        }
        assert_eq!(self.index.up_to(), archived.up_to());
        for key in [self.random.below(KEYS), OTHER_KEY + self.random.below(KEYS)] {
            let mut found = Vec::new();
            for layer in 0..self.index.layers() {
                let positions = self.index.positions(layer, key).expect("E18.16");
                let kept: Vec<_> = positions.into_iter().filter(|&at| archived.has(at)).collect();
                let (mut records, mut lsns) = (archived.records(&kept), Vec::new());
                while let Some(record) = records.next().expect("E18.16") {
                    lsns.push(record.lsn.get());
                }
                lsns.retain(|&lsn| lsn >= archived.first().get());
                lsns.sort_unstable();
                let after = self.index.after(layer).get();
                assert!(lsns.first().is_none_or(|&first| after < first), "E18.16: {lsns:?} {after}");
                found.splice(0..0, lsns);
            }
            let is_indexed = |&&lsn: &&u64| (archived.first()..=archived.up_to()).contains(&Lsn::new(lsn));
            let has_key = |&&lsn: &&u64| lsn % KEYS == key || OTHER_KEY + lsn / 8 % KEYS == key;
            let expected: Vec<u64> = self.records.iter().filter(is_indexed).filter(has_key).copied().collect();
            assert_eq!(found, expected, "E18.16: key {key}");
        }
    }

    fn recycle(&mut self) {
        self.force();
        let lsn = Lsn::new(self.durable);
        let checkpoint = Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 };
        if self.random.below(3) > 0 {
            self.extend();
        }
        self.log.checkpoint_control_keeping(&checkpoint, &self.archive.kept_from()).unwrap();
        self.log.truncate_before(Lsn::MAX, &[]);
        self.acknowledged = self.disk.journal_len();
    }

    /// Returns a place of a journal behind a call that has returned: it has where the next one begins.
    fn point(&mut self, from: usize, to: usize) -> usize {
        self.random.within((from + 1).min(to) as u64, to as u64) as usize
    }

    fn loss(&mut self) -> Loss {
        match self.random.below(3) {
            0 => Loss::Everything,
            1 => Loss::Nothing,
            _ => Loss::Random(self.random.below(1 << 40)),
        }
    }

    fn reopen(&mut self) {
        if self.random.one_in(3) {
            self.log.promise().unwrap();
            self.durable = self.log.durable_lsn().get();
            self.acknowledged = self.disk.journal_len();
            if self.random.one_in(2) {
                self.extend();
            }
        }
        let at = self.point(self.acknowledged, self.disk.journal_len());
        let loss = self.loss();
        self.begin_on(self.disk.journal().crash(at, loss));
    }

    /// Goes on with the log on this disk.
    fn begin_on(&mut self, disk: SimDisk) {
        self.disk = disk;
        let found = Log::look(&media(&self.disk)).expect("the log is whole");
        let end = found.end_lsn().get();
        assert!(end > self.durable, "{end} {}", self.durable);
        self.records.retain(|&lsn| lsn < end);
        self.log = found.begin(&[], &self.options).unwrap();
        self.durable = self.durable.max(end - 1);
        self.acknowledged = self.disk.journal_len();
        // The other archive is open until here.
        self.to = self.to.journal().crash(self.to.journal_len(), Loss::Nothing);
        self.open_archive();
    }

    fn back_up(&mut self) {
        let (to, since) = (SimDisk::new(), self.log.control());
        let end = CopyEnd::now(&self.log).unwrap();
        self.durable = self.durable.max(end.up_to().get());
        LogCopy::begin(&media(&to)).unwrap().copy(&self.log, &since, end).unwrap().complete().unwrap();
        self.acknowledged = self.disk.journal_len();
        self.backups.push(to);
    }

    /// The archive forgets what is before a backup or an LSN. Its disk may fail at any call.
    fn forget(&mut self) {
        let found = FoundArchive::look(&media(&self.to)).unwrap();
        let (first, last) = found.lsns();
        let point = if self.random.one_in(3) || self.backups.is_empty() {
            found.point_at(Lsn::new(self.random.within(first.get(), last.get().max(first.get()))))
        } else {
            let index = self.random.below(self.backups.len() as u64) as usize;
            found.point_of_backup(&Log::look(&media(&self.backups[index])).unwrap())
        };
        let point = match point {
            Ok(point) => point,
            Err(LogError::ArchiveBeginsLater { .. } | LogError::NotArchived { .. }) => return,
            Err(error) => panic!("E18.13: {error}"),
        };
        let before = self.to.journal_len();
        self.archive.forget(&point).expect("E18.13");
        if self.random.one_in(2) {
            let at = self.point(before, self.to.journal_len());
            let loss = self.loss();
            self.to = self.to.journal().crash(at, loss);
            self.archive = LogArchive::open(&media(&self.to), &self.log).expect("E18.13b");
        }
    }

    /// Restores a backup to an LSN, and compares the records with those of the log.
    fn restore(&mut self) {
        if self.backups.is_empty() {
            return;
        }
        let index = self.random.below(self.backups.len() as u64) as usize;
        let backup = Log::look(&media(&self.backups[index])).unwrap();
        let archive = FoundArchive::look(&media(&self.to)).unwrap();
        let (first, last) = (backup.end_lsn().previous(), archive.lsns().1);
        assert!(last >= self.archive.up_to(), "E18.9");
        if first > last {
            return;
        }
        let is_newest = self.random.one_in(3);
        let target = if is_newest { last } else { Lsn::new(self.random.within(first.get(), last.get())) };
        let to = SimDisk::new();
        let copied = LogCopy::begin(&media(&to)).unwrap().restore(&backup, &archive, target);
        if backup.control().checkpoint.scan_lsn < archive.lsns().0 {
            let error = copied.map(drop).expect_err("E18.13a");
            assert!(matches!(error, LogError::ArchiveBeginsLater { .. }), "E18.13a: {error}");
            return;
        }
        let copied = copied.expect("E18.10");
        copied.complete().unwrap();
        let to = to.journal().crash(to.journal_len(), Loss::Everything);
        let scan_lsn = backup.control().checkpoint.scan_lsn.get();
        let expected = |last: u64| self.records.iter().copied().filter(move |&lsn| scan_lsn <= lsn && lsn <= last);
        let found = Log::look(&media(&to)).expect("E18.10");
        assert!(
            lsns(found.scan(Lsn::ZERO).expect("E18.10")).into_iter().eq(expected(target.get())),
            "E18.10: {target}"
        );
        if is_newest && self.random.one_in(2) {
            // What the archive lacks is lost, with the disk; later backups are of another future.
            let is_past = |backup: &SimDisk| Log::look(&media(backup)).unwrap().end_lsn() <= target.next();
            self.backups.retain(is_past);
            self.durable = self.durable.min(target.get());
            let durable = self.durable;
            self.records.retain(|&lsn| lsn <= durable.max(target.get()));
            return self.begin_on(to);
        }
        // Another future, without an archive: it is opened twice.
        let log = found.begin(&[], &self.options).expect("E18.10");
        let mut all: Vec<u64> = expected(target.get()).collect();
        for partition in 0..PARTITIONS {
            let mut room = log.reserve(ByteLen(4000), ByteLen(0)).unwrap();
            let partition = PartitionId(self.random.within(0, u64::from(partition)) as u16);
            all.push(log.append(partition, update(1, None), &[&[4; 50]], &mut room).lsn.get());
        }
        log.force(log.current_lsn()).unwrap();
        if log.current_lsn() > self.archive.up_to() || self.random.one_in(2) {
            let other = self.to.journal().crash(self.to.journal_len(), Loss::Nothing);
            let opened = LogArchive::open(&media(&other), &log).and_then(|mut archive| archive.extend(&log, Vec::new));
            let is_end = !self.records.iter().any(|lsn| (target.get() + 1..=last.get()).contains(lsn));
            assert!(is_end || opened.is_err(), "E18.9b: {target} {last}");
        }
        drop(log);
        let found = Log::look(&media(&to)).expect("E18.10: it is opened again");
        assert_eq!(lsns(found.scan(Lsn::ZERO).expect("E18.10")), all, "E18.10");
    }
}

/// E18.9, E18.10, E18.13.
#[test]
fn random_histories_are_archived_and_restored() {
    for seed in seeds(200) {
        let caught = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..150 {
                match world.random.below(32) {
                    0..16 => world.append(),
                    16..18 => world.force(),
                    18..21 => world.extend(),
                    21..23 => world.recycle(),
                    31 => world.index(),
                    23..25 => world.reopen(),
                    25 => world.back_up(),
                    30 => world.forget(),
                    _ => world.restore(),
                }
            }
        });
        assert!(caught.is_ok(), "seed {seed}");
    }
}
