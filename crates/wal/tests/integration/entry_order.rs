//! Calls of a log without a store in any order: errors, never damage, a panic, an endless wait, or a loss of forced entries.
//!
//! Handles of the log below outlive the opening, cursors outlive truncations, logs are stopped, closed, dropped and opened
//! again, and the power is cut.
#![cfg(not(cedrat_shuttle))]

use cedrat_media::{Loss, Media, RealDisk, SimDisk};
use cedrat_sync::Arc;
use cedrat_wal::*;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::common::Random;

const CASES: u64 = 150;
const CALLS: usize = 150;

/// Runs the cases; `CEDRAT_SEED` selects others.
fn run_cases(cases: u64, disk: impl Fn() -> Disk) {
    let by = std::env::var("CEDRAT_SEED").map_or(1, |text| text.parse().expect("CEDRAT_SEED is a number"));
    for case in 1..=cases {
        let seed = u64::wrapping_add(u64::wrapping_mul(by, 1_000_003), case);
        let made = catch_unwind(AssertUnwindSafe(|| Calls::new(seed, disk()).run()));
        if let Err(panic) = made {
            eprintln!("case {case}; to repeat: CEDRAT_SEED={by}");
            resume_unwind(panic);
        }
    }
}

enum Disk {
    Simulated(SimDisk),
    Real(tempfile::TempDir),
}

impl Disk {
    fn media(&self) -> Arc<dyn Media> {
        match self {
            Disk::Simulated(disk) => Arc::new(disk.clone()),
            Disk::Real(folder) => Arc::new(RealDisk::new(folder.path())),
        }
    }
}

/// A handle, and the number of its opening.
struct Of<T> {
    opening: usize,
    it: T,
}

struct Calls {
    random: Random,
    disk: Disk,
    logs: Vec<Of<EntryLog>>,
    below: Vec<Of<Log>>,
    cursors: Vec<Of<(EntryCursor, Lsn)>>,
    opening: usize,
    /// Each appended entry that was not truncated, by its LSN.
    entries: BTreeMap<Lsn, Vec<u8>>,
    forced: Lsn,
    truncated: Lsn,
    /// Whether a crash, or a stop, may have lost what was not forced.
    may_lose: bool,
}

impl Calls {
    fn new(seed: u64, disk: Disk) -> Calls {
        Calls {
            random: Random::new(seed),
            disk,
            logs: Vec::new(),
            below: Vec::new(),
            cursors: Vec::new(),
            opening: 0,
            entries: BTreeMap::new(),
            forced: Lsn::ZERO,
            truncated: Lsn::ZERO,
            may_lose: false,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn options(&mut self) -> EntryLogOptions {
        let background = self.below(4) == 0;
        EntryLogOptions { log: LogOptions::small(), background, ..EntryLogOptions::default() }
    }

    /// Whether a call of this opening may fail so; the disk of an older one may exist no longer.
    fn may_fail(&self, opening: usize, error: &LogError) -> bool {
        let is_older = opening != self.opening && matches!(error, LogError::Io { .. });
        is_older || matches!(error, LogError::Stopped(_) | LogError::Full(_))
    }

    fn forced(&mut self, opening: usize, up_to: Lsn) {
        if opening == self.opening {
            self.forced = self.forced.max(up_to);
        }
    }

    /// Opens the log and compares its entries; it is in use while a log of the newest opening lives.
    fn open(&mut self) {
        let options = self.options();
        let is_open = self.logs.iter().any(|log| log.opening == self.opening);
        let log = match EntryLog::open(&self.disk.media(), &options) {
            Err(LogError::InUse { .. }) if is_open => return,
            opened => opened.expect("it opens"),
        };
        assert!(!is_open, "E1.8: it was open");
        let mut cursor = log.cursor(Lsn::ZERO).expect("a cursor");
        let mut found = BTreeMap::new();
        while let Some(entry) = cursor.next().expect("W3: what is kept is whole") {
            assert!(entry.lsn > self.truncated, "a truncated entry is read");
            found.insert(entry.lsn, entry.bytes.to_vec());
        }
        let last = found.keys().next_back().copied().unwrap_or(Lsn::ZERO);
        let kept = if self.may_lose { self.forced.max(last) } else { Lsn::MAX };
        self.entries.retain(|lsn, _| *lsn <= kept);
        assert!(found == self.entries, "W3: {:?} of {:?}, forced {}", found.keys(), self.entries.keys(), self.forced);
        self.opening += 1;
        self.may_lose = false;
        self.forced = last;
        self.logs.push(Of { opening: self.opening, it: log });
    }

    fn append(&mut self, at: usize) {
        let len = [3, 100, 700, 7_669, 20_000][self.below(5) as usize] + self.below(7) as usize;
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
        let Of { opening, it: log } = &self.logs[at];
        let opening = *opening;
        match log.append(&bytes) {
            Ok(lsn) if opening == self.opening => assert!(self.entries.insert(lsn, bytes).is_none(), "an LSN twice"),
            Ok(_) => {}
            Err(error) => assert!(self.may_fail(opening, &error), "{error}"),
        }
    }

    fn force(&mut self, at: usize) {
        let up_to = if self.below(2) == 0 { Lsn::MAX } else { Lsn::new(self.below(60)) };
        let Of { opening, it: log } = &self.logs[at];
        let (opening, newest) = (*opening, log.log().current_lsn());
        match log.force(up_to) {
            Ok(()) => self.forced(opening, up_to.min(newest)),
            Err(error) => assert!(self.may_fail(opening, &error), "{error}"),
        }
    }

    fn truncate(&mut self, at: usize) {
        let newest = self.logs[at].it.log().current_lsn().get();
        let pick = self.below(self.entries.len() as u64 + 1) as usize;
        let up_to = self.entries.keys().nth(pick).map_or(Lsn::MAX, |lsn| *lsn);
        let Of { opening, it: log } = &self.logs[at];
        let opening = *opening;
        match log.truncate(up_to) {
            Ok(()) if opening == self.opening => {
                self.truncated = self.truncated.max(up_to.min(Lsn::new(newest)));
                self.entries.retain(|lsn, _| *lsn > self.truncated);
            }
            Ok(()) => {}
            Err(error) => assert!(self.may_fail(opening, &error), "{error}"),
        }
    }

    /// Reads one entry by a cursor, which may be older than a truncation, or than the opening.
    fn read(&mut self) {
        let Some(Of { opening, it: (mut cursor, after) }) = self.cursors.pop() else { return };
        match cursor.next() {
            Ok(Some(entry)) => {
                assert!(entry.lsn > after, "entries are read in order");
                let next = self.entries.range(after.next()..).next().map(|(lsn, _)| *lsn);
                if opening == self.opening && next == Some(entry.lsn) {
                    assert_eq!(Some(entry.bytes), self.entries.get(&entry.lsn).map(Vec::as_slice));
                }
                let after = entry.lsn;
                self.cursors.push(Of { opening, it: (cursor, after) });
            }
            Ok(None) | Err(LogError::Truncated { .. }) => {}
            Err(error) => assert!(self.may_fail(opening, &error), "{error}"),
        }
    }

    fn end(&mut self, at: usize) {
        let Of { opening, it: log } = self.logs.swap_remove(at);
        match self.below(3) {
            0 => match log.close() {
                Ok(()) => self.forced(opening, Lsn::MAX),
                Err(error) => assert!(self.may_fail(opening, &error), "{error}"),
            },
            _ => {
                let is_stopped = log.log().is_stopped();
                self.may_lose |= opening == self.opening && is_stopped;
                drop(log);
                // Without a thread that writes it, what was not forced is lost.
                self.may_lose |= opening == self.opening;
            }
        }
    }

    /// Calls the log below, whose handle may outlive the opening.
    fn use_below(&mut self) {
        let pick = self.below(self.below.len() as u64 + 1) as usize;
        let Some(Of { opening, it: log }) = self.below.get(pick) else { return };
        let is_open = self.logs.iter().any(|entries| entries.opening == *opening);
        let forced = log.force(Lsn::MAX).map(|forced| forced.up_to());
        assert!(is_open || forced.is_err(), "E1.8: a log that was closed has forced");
        let opening = *opening;
        if let Ok(up_to) = forced {
            self.forced(opening, up_to);
        }
    }

    fn cut_power(&mut self) {
        let loss = [Loss::Everything, Loss::Random(self.below(1000))][self.below(2) as usize];
        if let Disk::Simulated(disk) = &self.disk {
            self.disk = Disk::Simulated(disk.cut_power(loss));
            self.may_lose = true;
            self.opening += 1; // handles of the one before are of a disk that no longer exists
            self.open();
        }
    }

    fn run(&mut self) {
        for _ in 0..CALLS {
            let call = self.below(24);
            if self.logs.is_empty() || call == 0 {
                self.open();
                continue;
            }
            let at = self.below(self.logs.len() as u64) as usize;
            match call {
                1..=9 => self.append(at),
                10..=12 => self.force(at),
                13 => self.truncate(at),
                14 => self.end(at),
                15 => {
                    let Of { opening, it: log } = &self.logs[at];
                    self.below.push(Of { opening: *opening, it: log.log().clone() });
                }
                16 => self.use_below(),
                17 if self.below(4) == 0 => {
                    self.logs[at].it.stop("the test stops it");
                    self.may_lose |= self.logs[at].opening == self.opening;
                }
                18 => self.cut_power(),
                19 | 20 => {
                    let after = Lsn::new(self.below(60));
                    let Of { opening, it: log } = &self.logs[at];
                    let opening = *opening;
                    match log.cursor(after) {
                        Ok(cursor) => self.cursors.push(Of { opening, it: (cursor, after) }),
                        Err(error) => assert!(self.may_fail(opening, &error), "{error}"),
                    }
                }
                _ => self.read(),
            }
        }
        while !self.logs.is_empty() {
            self.end(0);
        }
        self.open();
    }
}

/// E1.8, W3.
#[test]
fn random_calls_lose_no_forced_entry() {
    run_cases(CASES, || Disk::Simulated(SimDisk::new()));
}

#[test]
fn random_calls_damage_no_real_file() {
    run_cases(8, || Disk::Real(tempfile::tempdir().unwrap()));
}
