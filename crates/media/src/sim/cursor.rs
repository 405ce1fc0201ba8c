//! A walk along a journal, on which every crash can be seen.
//!
//! The walk passes each entry once, holding the durable state and the changes still volatile; an image for
//! any [`Loss`] then costs only the changes that survive.

use super::image::{Contents, Image};
use super::journal::{CallId, Entry, FileNumber, Journal, Mark, SyncOutcome};
use super::loss::{Judge, Loss};
use super::volatile::{Cached, Change, What};
use crate::Durability;
use cedrat_sync::Arc;
use std::collections::BTreeMap;

/// A moment in a journal at which the power may fail.
///
/// Cloning costs as much as an image, so that a walk can be divided among threads.
#[derive(Clone, Debug)]
pub struct Cursor {
    journal: Journal,
    at: usize,
    files: Vec<Cached>,
    /// The names that are durable.
    names: BTreeMap<Arc<str>, FileNumber>,
    name_changes: Vec<NameChange>,
    /// Begun and not ended.
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

#[derive(Clone, Debug)]
struct NameChange {
    name: Arc<str>,
    /// The file that now has the name, or none any more.
    file: Option<FileNumber>,
    position: usize,
}

impl Cursor {
    pub(super) fn new(journal: Journal) -> Cursor {
        let initial = &journal.initial.files;
        Cursor {
            at: 0,
            files: initial.values().cloned().map(Cached::new).collect(),
            names: initial.keys().cloned().zip(0..).collect(),
            name_changes: Vec::new(),
            writes: BTreeMap::new(),
            syncs: BTreeMap::new(),
            journal,
        }
    }

    /// Entries passed: the power fails after so many.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The journal it walks over.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The marks already made; see [`Journal::marks_before`].
    pub fn marks(&self) -> &[Mark] {
        self.journal.marks_before(self.at)
    }

    /// How many changes a crash here may take away. None: every [`Loss`] gives the same image.
    pub fn volatile_changes(&self) -> usize {
        self.writes.len() + self.name_changes.len() + self.files.iter().map(|file| file.volatile.len()).sum::<usize>()
    }

    /// Passes entries until `at` are passed.
    ///
    /// # Panics
    /// If `at` lies behind, or beyond the journal's end.
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
                self.files.push(Cached::default());
                self.change_name(name, Some(self.files.len() - 1));
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
                let file = &mut self.files[flight.file];
                match outcome {
                    SyncOutcome::Done => file.settle_before(flight.began),
                    SyncOutcome::Failed => {}
                    SyncOutcome::Forgotten => file.forget_before(flight.began),
                }
            }
            Entry::Reserve { file, offset, len } => self.change(file, What::Reserve { offset, len }),
            Entry::Punch { file, offset, len } => self.change(file, What::Zeros { offset, len }),
            Entry::SetLen { file, len } => self.change(file, What::SetLen { len }),
            Entry::Corrupt { file, offset, bytes } => self.files[file].write_durably(offset, &bytes),
        }
        true
    }

    /// What lies on the medium if the power fails here.
    pub fn image(&self, loss: Loss) -> Image {
        let total = self.volatile_changes();
        let mut judge = Judge::new(loss, self.at);
        if total == 0 || loss == Loss::Everything {
            return self.image_of(&self.names, |number| self.files[number].durable.clone());
        }

        // All changes, oldest first, so that fates do not depend on how they are kept here.
        let mut changes = Vec::with_capacity(total);
        for (number, file) in self.files.iter().enumerate() {
            changes.extend(file.volatile.iter().map(|change| (change.position, Candidate::Change(number, change))));
        }
        changes.extend(self.name_changes.iter().map(|change| (change.position, Candidate::Name(change))));
        changes.sort_by_key(|(position, _)| *position);
        changes.extend(self.writes.values().map(|flight| (self.at, Candidate::Flight(flight))));
        let newest_write = changes.iter().rposition(|(_, change)| change.is_write());

        let mut names = self.names.clone();
        let mut contents: Vec<_> = self.files.iter().map(|file| file.durable.clone()).collect();
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

    fn image_of(
        &self,
        names: &BTreeMap<Arc<str>, FileNumber>,
        mut contents: impl FnMut(FileNumber) -> Contents,
    ) -> Image {
        Image { files: names.iter().map(|(name, &number)| (name.clone(), contents(number))).collect() }
    }

    fn change_name(&mut self, name: Arc<str>, file: Option<FileNumber>) {
        self.name_changes.push(NameChange { name, file, position: self.at });
    }

    fn settle_names(&mut self, directory: &str) {
        let names = &mut self.names;
        self.name_changes.retain(|change| {
            let concerned = change.name.split_once('/').map_or("", |(directory, _)| directory) == directory;
            if concerned {
                change.apply(names);
            }
            !concerned
        });
    }

    fn change(&mut self, file: FileNumber, what: What) {
        self.files[file].volatile.push(Change { what, position: self.at, forgotten: false });
    }

    fn end_write(&mut self, flight: Flight, taken: usize, failed: bool) {
        let Flight { file, offset, bytes, durability } = flight;
        let state = &mut self.files[file];
        if failed || durability == Durability::Volatile {
            let range = if failed { 0..bytes.len() } else { 0..taken };
            let what = What::Bytes { offset, bytes, range };
            state.volatile.push(Change { what, position: self.at, forgotten: failed });
        } else {
            state.write_durably(offset, &bytes[..taken]);
        }
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

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<Arc<str>, FileNumber>) {
        match self.file {
            Some(file) => names.insert(self.name.clone(), file),
            None => names.remove(&self.name),
        };
    }
}
