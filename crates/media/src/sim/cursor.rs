//! A walk along a journal, which can show every crash.
//!
//! The walk passes each entry once, with the durable state and the changes still volatile; an image for any [`Loss`]
//! then costs only the changes that survive.

use super::SimDisk;
use super::image::{Contents, Image};
use super::journal::{CallId, Entry, FileNumber, Journal, Mark, SyncOutcome};
use super::loss::{Fate, Judge, Kill, Loss};
use super::medium::{Medium, NameChange};
use super::random::Random;
use super::volatile::{Cached, Change, What};
use crate::{Durability, SECTOR_LEN};
use cedrat_sync::Arc;
use std::collections::{BTreeMap, BTreeSet};

/// A moment in a journal at which the power may fail.
///
/// Cloning costs as much as an image; clones divide a walk among threads.
#[derive(Clone, Debug)]
pub struct Cursor {
    journal: Journal,
    at: usize,
    medium: Medium,
    /// Writes that have begun and not ended.
    writes: BTreeMap<CallId, Flight>,
    syncs: BTreeMap<CallId, SyncFlight>,
}

#[derive(Clone, Debug)]
struct Flight {
    file: FileNumber,
    offset: u64,
    bytes: Arc<[u8]>,
    durability: Durability,
}

#[derive(Clone, Debug)]
struct SyncFlight {
    file: FileNumber,
    began: usize,
}

impl Cursor {
    pub(super) fn new(journal: Journal) -> Cursor {
        Cursor { at: 0, medium: journal.initial.clone(), writes: BTreeMap::new(), syncs: BTreeMap::new(), journal }
    }

    /// Returns the number of entries passed: the power fails after these.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the journal.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the marks already made; see [`Journal::marks_before`].
    pub fn marks(&self) -> &[Mark] {
        self.journal.marks_before(self.at)
    }

    /// Returns the number of changes that a crash here may lose. If it is 0, every [`Loss`] gives the same image.
    pub fn volatile_changes(&self) -> usize {
        self.writes.len() + self.medium.volatile_changes()
    }

    /// Passes entries until `at` of them are passed.
    ///
    /// # Panics
    /// If `at` was passed already, or is beyond the journal's end.
    pub fn advance_to(&mut self, at: usize) {
        assert!(self.at <= at && at <= self.journal.len(), "{at} lies not between {} and the end", self.at);
        while self.at < at {
            self.advance();
        }
    }

    /// Passes one entry; `false` at the end of the journal.
    pub fn advance(&mut self) -> bool {
        let Some(entry) = self.journal.entries.get(self.at).cloned() else {
            return false;
        };
        self.at += 1;
        match entry {
            Entry::Create { name } => {
                self.medium.files.push(Cached::default());
                self.change_name(name, Some(self.medium.files.len() - 1));
            }
            Entry::Remove { name } => self.change_name(name, None),
            Entry::SyncDirectory { directory } => self.settle_names(&directory),
            Entry::WriteBegin { call, file, offset, bytes, durability } => {
                self.writes.insert(call, Flight { file, offset, bytes, durability });
            }
            Entry::WriteEnd { call, taken, failed } => {
                let flight = self.writes.remove(&call).expect("a write ends after it began");
                self.end_write(flight, taken, failed);
            }
            Entry::SyncBegin { call, file } => {
                self.syncs.insert(call, SyncFlight { file, began: self.at });
            }
            Entry::SyncEnd { call, outcome } => {
                let flight = self.syncs.remove(&call).expect("a sync ends after it began");
                let file = &mut self.medium.files[flight.file];
                match outcome {
                    SyncOutcome::Done => file.settle_before(flight.began),
                    SyncOutcome::Failed => {}
                    SyncOutcome::Forgotten => file.forget_before(flight.began),
                }
            }
            Entry::Reserve { file, offset, len } => self.change(file, What::Reserve { offset, len }),
            Entry::Punch { file, offset, len } => self.change(file, What::Zeros { offset, len }),
            Entry::SetLen { file, len } => self.change(file, What::SetLen { len }),
            Entry::Corrupt { file, offset, bytes } => self.medium.files[file].write_durably(offset, &bytes),
        }
        true
    }

    /// Returns the write that the next entry begins: the file's name, the offset, and the bytes. `None`: the next
    /// entry is another call.
    pub fn next_write(&self) -> Option<(Arc<str>, u64, Arc<[u8]>)> {
        let Entry::WriteBegin { file, offset, bytes, .. } = self.journal.entries.get(self.at)? else {
            return None;
        };
        let named = |(name, number): (&Arc<str>, FileNumber)| (number == *file).then(|| name.clone());
        let durable = self.medium.names.iter().find_map(|(name, number)| named((name, *number)));
        let changed = || self.medium.name_changes.iter().find_map(|change| named((&change.name, change.file?)));
        Some((durable.or_else(changed)?, *offset, bytes.clone()))
    }

    /// Returns the content of the medium if the power fails here.
    pub fn image(&self, loss: Loss) -> Image {
        let total = self.volatile_changes();
        let mut judge = Judge::new(loss, self.at);
        if total == 0 || loss == Loss::Everything {
            return self.image_of(&self.medium.names, |number| self.medium.files[number].durable.clone());
        }

        // All changes, oldest first, so that fates do not depend on their storage here.
        let mut changes = Vec::with_capacity(total);
        for (number, file) in self.medium.files.iter().enumerate() {
            changes.extend(file.volatile.iter().map(|change| (change.position, Candidate::Change(number, change))));
        }
        changes.extend(self.medium.name_changes.iter().map(|change| (change.position, Candidate::Name(change))));
        changes.sort_by_key(|(position, _)| *position);
        changes.extend(self.writes.values().map(|flight| (self.at, Candidate::Flight(flight))));
        let newest_write = changes.iter().rposition(|(_, change)| change.is_write());

        let mut names = self.medium.names.clone();
        let mut contents: Vec<_> = self.medium.files.iter().map(|file| file.durable.clone()).collect();
        for (index, (_, change)) in changes.into_iter().enumerate() {
            let fate = judge.fate(total - 1 - index, newest_write == Some(index));
            match change {
                Candidate::Change(number, change) => change.what.apply(&mut contents[number], fate),
                Candidate::Flight(flight) => {
                    contents[flight.file].write_sectors(flight.offset, &flight.bytes, |sector| fate.keeps(sector));
                }
                Candidate::Name(change) if fate.keeps(0) => change.apply(&mut names),
                Candidate::Name(_) => {}
            }
        }
        self.image_of(&names, |number| std::mem::take(&mut contents[number]))
    }

    /// Whether a sync or a durable write is in flight, which a [`Kill::FailedSync`] would fail.
    pub fn is_syncing(&self) -> bool {
        !self.syncs.is_empty() || self.writes.values().any(|flight| flight.durability == Durability::Durable)
    }

    /// Whether a crash here may remove a name, or bring one back.
    pub fn has_volatile_names(&self) -> bool {
        !self.medium.name_changes.is_empty()
    }

    /// Returns the names of the files that a crash here may change, those with calls in flight included; sorted.
    pub fn unsettled(&self) -> Vec<&str> {
        let flights = self.writes.values().map(|flight| flight.file).chain(self.syncs.values().map(|sync| sync.file));
        let changed = self.medium.files.iter().enumerate().filter(|(_, file)| !file.volatile.is_empty());
        let numbers: BTreeSet<FileNumber> = flights.chain(changed.map(|(number, _)| number)).collect();
        let mut names: Vec<&str> = self.medium.name_changes.iter().map(|change| &*change.name).collect();
        names.extend(self.medium.names.iter().filter(|(_, number)| numbers.contains(number)).map(|(name, _)| &**name));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the disk as the next process finds it when this process ends here and the machine stays up: volatile
    /// bytes can be read, and a later power loss may still lose them, until they are made durable.
    pub fn kill(&self, kill: Kill) -> SimDisk {
        let (mut coins, fails) = match kill {
            Kill::Process(seed) => (Random::new(seed), false),
            Kill::FailedSync(seed) => (Random::new(seed), true),
        };
        let mut medium = self.medium.clone();
        if fails {
            self.syncs.values().for_each(|sync| medium.files[sync.file].forget_before(sync.began));
        }
        for flight in self.writes.values() {
            let fate = match coins.below(4) {
                0 => Fate::Lost,
                1 => Fate::Coins(coins.next()),
                _ => Fate::Kept,
            };
            let forgotten = fails && flight.durability == Durability::Durable;
            medium.files[flight.file].volatile.extend(flight.reached(fate, forgotten));
        }
        medium.date_back();
        SimDisk::from_medium(medium)
    }

    fn image_of(
        &self,
        names: &BTreeMap<Arc<str>, FileNumber>,
        mut contents: impl FnMut(FileNumber) -> Contents,
    ) -> Image {
        Image { files: names.iter().map(|(name, &number)| (name.clone(), contents(number))).collect() }
    }

    fn change_name(&mut self, name: Arc<str>, file: Option<FileNumber>) {
        self.medium.name_changes.push(NameChange { name, file, position: self.at });
    }

    fn settle_names(&mut self, directory: &str) {
        let names = &mut self.medium.names;
        self.medium.name_changes.retain(|change| {
            let concerned = change.name.split_once('/').map_or("", |(directory, _)| directory) == directory;
            if concerned {
                change.apply(names);
            }
            !concerned
        });
    }

    fn change(&mut self, file: FileNumber, what: What) {
        self.medium.files[file].volatile.push(Change { what, position: self.at, forgotten: false });
    }

    fn end_write(&mut self, flight: Flight, taken: usize, failed: bool) {
        let Flight { file, offset, bytes, durability } = flight;
        let state = &mut self.medium.files[file];
        if failed || durability == Durability::Volatile {
            let range = if failed { 0..bytes.len() } else { 0..taken };
            let what = What::Bytes { offset, bytes, range };
            state.volatile.push(Change { what, position: self.at, forgotten: failed });
        } else {
            state.write_durably(offset, &bytes[..taken]);
        }
    }
}

impl Flight {
    /// Returns the parts of the write that have reached the cache when its process ends: one change for each run of
    /// its sectors.
    fn reached(&self, fate: Fate, forgotten: bool) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::new();
        let mut start = 0;
        for sector in 0.. {
            if start == self.bytes.len() {
                break;
            }
            let end = ((self.offset as usize + start + 1).next_multiple_of(SECTOR_LEN) - self.offset as usize)
                .min(self.bytes.len());
            if fate.keeps(sector) {
                match changes.last_mut().map(|change| &mut change.what) {
                    Some(What::Bytes { range, .. }) if range.end == start => range.end = end,
                    _ => {
                        let (offset, bytes) = (self.offset + start as u64, self.bytes.clone());
                        let what = What::Bytes { offset, bytes, range: start..end };
                        changes.push(Change { what, position: 0, forgotten });
                    }
                }
            }
            start = end;
        }
        changes
    }
}

enum Candidate<'a> {
    Change(FileNumber, &'a Change),
    Flight(&'a Flight),
    Name(&'a NameChange),
}

impl Candidate<'_> {
    fn is_write(&self) -> bool {
        match self {
            Candidate::Change(_, change) => matches!(change.what, What::Bytes { .. }),
            Candidate::Flight(_) => true,
            Candidate::Name(_) => false,
        }
    }
}
