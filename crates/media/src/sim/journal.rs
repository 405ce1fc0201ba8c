//! The calls of a disk, in order.
//!
//! The journal has an entry for the beginning of a call and one for its end, if other calls could come in between.

use super::SimDisk;
use super::cursor::Cursor;
use super::loss::{Fate, Loss};
use super::medium::Medium;
use super::volatile::What;
use crate::{Durability, SECTOR_LEN};
use cedrat_sync::Arc;
use std::collections::BTreeMap;

/// The number of a write or sync from its beginning to its end; unique in one journal.
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
    /// `taken` bytes were written; if `failed`, none of them is reliable.
    WriteEnd {
        call: CallId,
        taken: usize,
        failed: bool,
    },
    SyncBegin {
        call: CallId,
        file: FileNumber,
    },
    /// `Forgotten`: bytes that were volatile when the sync began will not be written by any later sync.
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

/// A note of the workload between two entries, for instance "commit of transaction 7 acknowledged".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// A value chosen by the workload.
    pub label: u64,
    /// The number of entries before it.
    pub position: usize,
}

/// All calls of a [`SimDisk`], from which any crash can be derived. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Journal {
    pub(super) initial: Medium,
    pub(super) entries: Arc<[Entry]>,
    pub(super) marks: Arc<[Mark]>,
}

impl Journal {
    /// Returns the number of entries. A crash may come before the first entry or after any, and so at `0..=len()`.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns all marks, in order.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Returns the marks made before a crash at `at`, the last of them possibly in the moment before the power fails.
    pub fn marks_before(&self, at: usize) -> &[Mark] {
        &self.marks[..self.marks.partition_point(|mark| mark.position <= at)]
    }

    /// Returns the disk that a crash after the first `at` entries leaves.
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

    /// Returns a cursor before the first entry.
    pub fn cursor(&self) -> Cursor {
        Cursor::new(self.clone())
    }
}

/// Returns the content of the sector at `sector` of a file before the newest change to it.
pub(super) fn earlier(initial: &Medium, entries: &[Entry], file: FileNumber, sector: u64) -> [u8; SECTOR_LEN] {
    let mut contents = initial.seen(file);
    let mut begun = BTreeMap::new();
    let (mut before, mut now) = ([0; SECTOR_LEN], [0; SECTOR_LEN]);
    contents.read(sector, &mut now);
    for entry in entries {
        let what = match entry {
            Entry::WriteBegin { call, file: of, offset, bytes, .. } if *of == file => {
                begun.insert(*call, (*offset, bytes.clone()));
                continue;
            }
            Entry::WriteEnd { call, taken, .. } => {
                let Some((offset, bytes)) = begun.remove(call) else {
                    continue;
                };
                What::Bytes { offset, bytes, range: 0..*taken }
            }
            Entry::Corrupt { file: of, offset, bytes } if *of == file => {
                What::Bytes { offset: *offset, bytes: bytes.clone(), range: 0..bytes.len() }
            }
            Entry::Punch { file: of, offset, len } if *of == file => What::Zeros { offset: *offset, len: *len },
            Entry::SetLen { file: of, len } if *of == file => What::SetLen { len: *len },
            Entry::Reserve { file: of, offset, len } if *of == file => What::Reserve { offset: *offset, len: *len },
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
