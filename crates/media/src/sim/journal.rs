//! What was asked of the disk, in order; and from it, every state a crash could leave.
//!
//! The journal has an entry where a call begins and one where it ends, if others could come between. A
//! [`Cursor`] walks over the entries once, holding at each the durable state and the changes still volatile;
//! from there an image for any [`Loss`] costs only the changes that survive.

use super::SimDisk;
use super::image::{Contents, Image};
use super::loss::{Fate, Judge, Loss};
use crate::{Durability, SECTOR_LEN};
use cedrat_sync::Arc;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// A number for a write or sync from its begin to its end; unique in one journal.
pub(super) type CallId = u64;

/// An index into the files in order of their creation; those of the initial image come first, in order of names.
pub(super) type FileNumber = usize;

/// One entry of the journal.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    Create {
        name: Arc<str>,
    },
    Remove {
        name: Arc<str>,
    },
    SyncDirectory {
        directory: Box<str>,
    },
    WriteBegin {
        call: CallId,
        file: FileNumber,
        offset: u64,
        bytes: Arc<[u8]>,
        durability: Durability,
    },
    /// So many bytes were taken; `failed` if nobody may rely on any.
    WriteEnd {
        call: CallId,
        taken: usize,
        failed: bool,
    },
    SyncBegin {
        call: CallId,
        file: FileNumber,
    },
    /// `Forgotten`: what was volatile when the sync began will not be written by any later sync.
    SyncEnd {
        call: CallId,
        outcome: SyncOutcome,
    },
    Reserve {
        file: FileNumber,
        offset: u64,
        len: u64,
    },
    Punch {
        file: FileNumber,
        offset: u64,
        len: u64,
    },
    SetLen {
        file: FileNumber,
        len: u64,
    },
    /// Bytes that changed on the medium by themselves.
    Corrupt {
        file: FileNumber,
        offset: u64,
        bytes: Arc<[u8]>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncOutcome {
    Done,
    Failed,
    Forgotten,
}

/// A word of the workload between two entries, for instance "the caller was told that transaction 7 committed".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What the workload wanted to remember.
    pub label: u64,
    /// Entries of the journal before it.
    pub position: usize,
}

/// Everything that was asked of a [`SimDisk`], from which any crash can be made. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Journal {
    pub(super) initial: Image,
    pub(super) entries: Arc<[Entry]>,
    pub(super) marks: Arc<[Mark]>,
}

impl Journal {
    /// The number of entries. A crash may come before the first entry, after any, and so at `0..=len()`.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was asked of the disk.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All marks, in order.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// The marks a crash at `at` finds already made, the last of them in the moment before the power fails.
    pub fn marks_before(&self, at: usize) -> &[Mark] {
        &self.marks[..self.marks.partition_point(|mark| mark.position <= at)]
    }

    /// The disk as a crash after the first `at` entries leaves it.
    ///
    /// Walks from the beginning; use a [`Cursor`] to see many crashes of one journal.
    ///
    /// # Panics
    /// If `at` is greater than `len()`.
    pub fn crash(&self, at: usize, loss: Loss) -> SimDisk {
        let mut cursor = self.cursor();
        cursor.advance_to(at);
        SimDisk::from_image(cursor.image(loss))
    }

    /// A cursor before the first entry.
    pub fn cursor(&self) -> Cursor {
        let durable = &self.initial.files;
        Cursor {
            journal: self.clone(),
            at: 0,
            files: durable
                .values()
                .map(|contents| State {
                    durable: contents.clone(),
                    ..State::default()
                })
                .collect(),
            names: durable.keys().cloned().zip(0..).collect(),
            name_changes: Vec::new(),
            writes: BTreeMap::new(),
            syncs: BTreeMap::new(),
        }
    }
}

/// A moment in a journal at which the power may fail.
///
/// Cloning costs as much as an image, so that a walk can be divided among threads.
#[derive(Clone, Debug)]
pub struct Cursor {
    journal: Journal,
    at: usize,
    files: Vec<State>,
    /// The names that are durable.
    names: BTreeMap<Arc<str>, FileNumber>,
    name_changes: Vec<NameChange>,
    /// Begun and not ended.
    writes: BTreeMap<CallId, Flight>,
    syncs: BTreeMap<CallId, SyncFlight>,
}

/// A file on the medium, and what a cache still holds of it.
#[derive(Clone, Default)]
struct State {
    durable: Contents,
    /// In the order in which the calls ended.
    volatile: Vec<Change>,
}

#[derive(Clone, Debug)]
struct Change {
    what: What,
    /// The entry after which it counts as completed.
    position: usize,
    /// No sync will write it any more, yet some of it may have reached the medium.
    forgotten: bool,
}

#[derive(Clone, Debug)]
enum What {
    /// A range of what a write was given.
    Bytes {
        offset: u64,
        bytes: Arc<[u8]>,
        range: Range<usize>,
    },
    Zeros {
        offset: u64,
        len: u64,
    },
    Reserve {
        offset: u64,
        len: u64,
    },
    SetLen {
        len: u64,
    },
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
        self.writes.len()
            + self.name_changes.len()
            + self
                .files
                .iter()
                .map(|file| file.volatile.len())
                .sum::<usize>()
    }

    /// Passes entries until `at` are passed.
    ///
    /// # Panics
    /// If `at` lies behind, or beyond the journal's end.
    pub fn advance_to(&mut self, at: usize) {
        assert!(
            self.at <= at && at <= self.journal.len(),
            "{at} lies not between {} and the end",
            self.at
        );
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
                self.files.push(State::default());
                self.change_name(name, Some(self.files.len() - 1));
            }
            Entry::Remove { name } => self.change_name(name, None),
            Entry::SyncDirectory { directory } => self.settle_names(&directory),
            Entry::WriteBegin {
                call,
                file,
                offset,
                bytes,
                durability,
            } => {
                self.writes.insert(
                    call,
                    Flight {
                        file,
                        offset,
                        bytes,
                        durability,
                    },
                );
            }
            Entry::WriteEnd {
                call,
                taken,
                failed,
            } => {
                let flight = self
                    .writes
                    .remove(&call)
                    .expect("a write ends after it began");
                self.end_write(flight, taken, failed);
            }
            Entry::SyncBegin { call, file } => {
                self.syncs.insert(
                    call,
                    SyncFlight {
                        file,
                        began: self.at,
                    },
                );
            }
            Entry::SyncEnd { call, outcome } => {
                let flight = self
                    .syncs
                    .remove(&call)
                    .expect("a sync ends after it began");
                let file = &mut self.files[flight.file];
                match outcome {
                    SyncOutcome::Done => file.settle_before(flight.began),
                    SyncOutcome::Failed => {}
                    SyncOutcome::Forgotten => file.forget_before(flight.began),
                }
            }
            Entry::Reserve { file, offset, len } => {
                self.change(file, What::Reserve { offset, len })
            }
            Entry::Punch { file, offset, len } => self.change(file, What::Zeros { offset, len }),
            Entry::SetLen { file, len } => self.change(file, What::SetLen { len }),
            Entry::Corrupt {
                file,
                offset,
                bytes,
            } => self.files[file].write_durably(offset, &bytes),
        }
        true
    }

    /// What lies on the medium if the power fails here.
    pub fn image(&self, loss: Loss) -> Image {
        let total = self.volatile_changes();
        let mut judge = Judge::new(loss);
        if total == 0 || loss == Loss::Everything {
            return self.image_of(&self.names, |number| self.files[number].durable.clone());
        }

        // All changes, oldest first, so that fates do not depend on how they are kept here.
        let mut changes = Vec::with_capacity(total);
        for (number, file) in self.files.iter().enumerate() {
            changes.extend(
                file.volatile
                    .iter()
                    .map(|change| (change.position, Candidate::Change(number, change))),
            );
        }
        changes.extend(
            self.name_changes
                .iter()
                .map(|change| (change.position, Candidate::Name(change))),
        );
        changes.sort_by_key(|(position, _)| *position);
        changes.extend(
            self.writes
                .values()
                .map(|flight| (self.at, Candidate::Flight(flight))),
        );
        let newest_write = changes.iter().rposition(|(_, change)| change.is_write());

        let mut names = self.names.clone();
        let mut contents: Vec<_> = self.files.iter().map(|file| file.durable.clone()).collect();
        for (index, (_, change)) in changes.into_iter().enumerate() {
            let fate = judge.fate(total - 1 - index, newest_write == Some(index));
            match change {
                Candidate::Change(number, change) => change.what.apply(&mut contents[number], fate),
                Candidate::Flight(flight) => {
                    contents[flight.file]
                        .write_sectors(flight.offset, &flight.bytes, |sector| fate.keeps(sector));
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
        Image {
            files: names
                .iter()
                .map(|(name, &number)| (name.clone(), contents(number)))
                .collect(),
        }
    }

    fn change_name(&mut self, name: Arc<str>, file: Option<FileNumber>) {
        self.name_changes.push(NameChange {
            name,
            file,
            position: self.at,
        });
    }

    fn settle_names(&mut self, directory: &str) {
        let names = &mut self.names;
        self.name_changes.retain(|change| {
            let concerned = change
                .name
                .split_once('/')
                .map_or("", |(directory, _)| directory)
                == directory;
            if concerned {
                change.apply(names);
            }
            !concerned
        });
    }

    fn change(&mut self, file: FileNumber, what: What) {
        self.files[file].volatile.push(Change {
            what,
            position: self.at,
            forgotten: false,
        });
    }

    fn end_write(&mut self, flight: Flight, taken: usize, failed: bool) {
        let Flight {
            file,
            offset,
            bytes,
            durability,
        } = flight;
        let state = &mut self.files[file];
        if failed || durability == Durability::Volatile {
            let range = if failed { 0..bytes.len() } else { 0..taken };
            let what = What::Bytes {
                offset,
                bytes,
                range,
            };
            state.volatile.push(Change {
                what,
                position: self.at,
                forgotten: failed,
            });
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

impl State {
    /// A sync that began after the entry `began` has succeeded.
    fn settle_before(&mut self, began: usize) {
        let mut rest = Vec::new();
        for change in std::mem::take(&mut self.volatile) {
            if change.forgotten || change.position >= began {
                rest.push(change);
            } else {
                // Only forgotten changes can be left among the older ones.
                cover(&mut rest, &change.what);
                change.what.apply(&mut self.durable, Fate::Kept);
            }
        }
        self.volatile = rest;
    }

    /// A sync that began after the entry `began` has failed, and none will try again.
    fn forget_before(&mut self, began: usize) {
        for change in self
            .volatile
            .iter_mut()
            .filter(|change| change.position < began)
        {
            change.forgotten = true;
        }
    }

    /// Bytes are on the medium now, whatever older change to them a cache still holds.
    fn write_durably(&mut self, offset: u64, bytes: &[u8]) {
        self.settle_lengths();
        let end = offset + bytes.len() as u64;
        self.volatile = std::mem::take(&mut self.volatile)
            .into_iter()
            .flat_map(|change| change.without(offset..end))
            .collect();
        self.durable.write(offset, bytes);
    }

    /// A durable write takes along the file's length, as a file system's journal keeps changes of it in order:
    /// otherwise an older cut could still take the new bytes away.
    fn settle_lengths(&mut self) {
        if !self
            .volatile
            .iter()
            .any(|change| matches!(change.what, What::SetLen { .. }))
        {
            return;
        }
        let mut rest = Vec::new();
        for change in std::mem::take(&mut self.volatile) {
            if matches!(change.what, What::SetLen { .. }) {
                cover(&mut rest, &change.what);
                change.what.apply(&mut self.durable, Fate::Kept);
            } else {
                rest.push(change);
            }
        }
        self.volatile = rest;
    }
}

/// Takes from older changes what a newer, now durable one has made obsolete.
fn cover(older: &mut Vec<Change>, newer: &What) {
    let area = match *newer {
        What::Bytes {
            offset, ref range, ..
        } => offset..offset + range.len() as u64,
        What::Zeros { offset, len } => offset..offset.saturating_add(len),
        What::SetLen { len } => len..u64::MAX,
        What::Reserve { .. } => return,
    };
    let is_length = matches!(newer, What::SetLen { .. });
    *older = std::mem::take(older)
        .into_iter()
        .filter(|change| !(is_length && matches!(change.what, What::SetLen { .. })))
        .flat_map(|change| change.without(area.clone()))
        .collect();
}

impl Change {
    /// What is left of the change outside of `area`; a change of the length concerns no bytes.
    fn without(self, area: Range<u64>) -> impl Iterator<Item = Change> {
        let (start, end) = match self.what {
            What::Bytes {
                offset, ref range, ..
            } => (offset, offset + range.len() as u64),
            What::Zeros { offset, len } | What::Reserve { offset, len } => {
                (offset, offset.saturating_add(len))
            }
            What::SetLen { .. } => (area.end, area.end),
        };
        // A reservation is undone by a cut only: bytes written into it leave the rest of it as it was.
        let untouched = end <= area.start
            || area.end <= start
            || matches!(self.what, What::Reserve { .. }) && area.end < u64::MAX;
        let pieces = if untouched {
            [Some(self), None]
        } else {
            [start..area.start.min(end), area.end.max(start)..end].map(|piece| {
                let keep = piece.start < piece.end;
                keep.then(|| Change {
                    what: self.what.part(start, piece),
                    ..self.clone()
                })
            })
        };
        pieces.into_iter().flatten()
    }
}

impl What {
    /// The part of a change that begins at `start` which lies in `piece`.
    fn part(&self, start: u64, piece: Range<u64>) -> What {
        let (offset, len) = (piece.start, piece.end - piece.start);
        match self {
            What::Bytes { bytes, range, .. } => {
                let skipped = range.start + (offset - start) as usize;
                What::Bytes {
                    offset,
                    bytes: bytes.clone(),
                    range: skipped..skipped + len as usize,
                }
            }
            What::Zeros { .. } => What::Zeros { offset, len },
            What::Reserve { .. } => What::Reserve { offset, len },
            What::SetLen { len } => What::SetLen { len: *len },
        }
    }

    fn apply(&self, contents: &mut Contents, fate: Fate) {
        match self {
            What::Bytes {
                offset,
                bytes,
                range,
            } => {
                contents.write_sectors(*offset, &bytes[range.clone()], |sector| fate.keeps(sector));
            }
            What::Zeros { offset, len } => {
                contents.zero_sectors(*offset, *len, |sector| fate.keeps(sector))
            }
            What::Reserve { offset, len } if fate.keeps(0) => contents.reserve(*offset, *len),
            What::SetLen { len } if fate.keeps(0) => contents.set_len(*len),
            What::Reserve { .. } | What::SetLen { .. } => {}
        }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes, {} volatile changes",
            self.durable.len(),
            self.volatile.len()
        )
    }
}

/// What the sector at `sector` of a file held before the newest change to it.
pub(super) fn earlier(
    initial: &Image,
    entries: &[Entry],
    file: FileNumber,
    sector: u64,
) -> [u8; SECTOR_LEN] {
    let mut contents = initial
        .files
        .values()
        .nth(file)
        .cloned()
        .unwrap_or_default();
    let mut begun = BTreeMap::new();
    let (mut before, mut now) = ([0; SECTOR_LEN], [0; SECTOR_LEN]);
    contents.read(sector, &mut now);
    for entry in entries {
        let what = match entry {
            Entry::WriteBegin {
                call,
                file: of,
                offset,
                bytes,
                ..
            } if *of == file => {
                begun.insert(*call, (*offset, bytes.clone()));
                continue;
            }
            Entry::WriteEnd { call, taken, .. } => {
                let Some((offset, bytes)) = begun.remove(call) else {
                    continue;
                };
                What::Bytes {
                    offset,
                    bytes,
                    range: 0..*taken,
                }
            }
            Entry::Corrupt {
                file: of,
                offset,
                bytes,
            } if *of == file => What::Bytes {
                offset: *offset,
                bytes: bytes.clone(),
                range: 0..bytes.len(),
            },
            Entry::Punch {
                file: of,
                offset,
                len,
            } if *of == file => What::Zeros {
                offset: *offset,
                len: *len,
            },
            Entry::SetLen { file: of, len } if *of == file => What::SetLen { len: *len },
            Entry::Reserve {
                file: of,
                offset,
                len,
            } if *of == file => What::Reserve {
                offset: *offset,
                len: *len,
            },
            _ => continue,
        };
        what.apply(&mut contents, Fate::Kept);
        let mut after = [0; SECTOR_LEN];
        contents.read(sector, &mut after);
        if after != now {
            before = std::mem::replace(&mut now, after);
        }
    }
    before
}
