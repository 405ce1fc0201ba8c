//! The disk as its callers see it, and what it remembers of them.

use super::faults::{Call, Effect, Faults};
use super::image::{Contents, Image};
use super::journal::{CallId, Entry, FileNumber, Mark};
use super::random::Random;
use crate::{BLOCK_LEN, SECTOR_LEN};
use cedrat_sync::Arc;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};

/// Everything behind the one mutex of a disk.
pub(super) struct State {
    pub(super) initial: Image,
    pub(super) entries: Vec<Entry>,
    pub(super) marks: Vec<Mark>,
    pub(super) files: Vec<LiveFile>,
    pub(super) names: BTreeMap<Arc<str>, FileNumber>,
    pub(super) locked: BTreeSet<FileNumber>,
    /// Bytes of space taken by all files, in whole blocks.
    pub(super) space: u64,
    pub(super) capacity: Option<u64>,
    pub(super) faults: Faults,
    pub(super) short: Option<Random>,
    pub(super) calls: u64,
    pub(super) powered: bool,
}

/// A file as callers see it: every write that ended, wherever its bytes lie.
pub(super) struct LiveFile {
    pub(super) name: Arc<str>,
    pub(super) contents: Contents,
    pub(super) removed: bool,
}

impl State {
    pub(super) fn new(image: Image) -> State {
        let live = |(name, contents): (&Arc<str>, &Contents)| LiveFile {
            name: name.clone(),
            contents: contents.clone(),
            removed: false,
        };
        State {
            entries: Vec::new(),
            marks: Vec::new(),
            files: image.files.iter().map(live).collect(),
            names: image.files.keys().cloned().zip(0..).collect(),
            locked: BTreeSet::new(),
            space: image.files.values().map(Contents::space).sum(),
            capacity: None,
            faults: Faults::default(),
            short: None,
            calls: 0,
            powered: true,
            initial: image,
        }
    }

    pub(super) fn strike(&mut self, call: Call, name: &str) -> Option<Effect> {
        self.calls += 1;
        self.faults.strike(call, name)
    }

    pub(super) fn struck(&mut self, effect: Option<Effect>, number: FileNumber) -> Option<io::Error> {
        let name = self.files[number].name.clone();
        self.struck_by_name(effect, &name)
    }

    /// The error of a call that is struck, having switched the power off if that is it.
    pub(super) fn struck_by_name(&mut self, effect: Option<Effect>, name: &str) -> Option<io::Error> {
        match effect? {
            Effect::Error(kind) => Some(io::Error::new(kind, format!("{name}: the simulated disk fails as asked"))),
            Effect::Forget => {
                Some(io::Error::other(format!("{name}: the simulated disk fails to sync, and forgets, as asked")))
            }
            Effect::PowerLoss => {
                self.powered = false;
                Some(power_lost())
            }
            Effect::LoseWrite | Effect::MisdirectWrite { .. } => None,
        }
    }

    pub(super) fn number(&self, name: &str) -> io::Result<FileNumber> {
        let number = self.names.get(name).copied();
        number.ok_or_else(|| io::Error::new(ErrorKind::NotFound, format!("{name} does not exist")))
    }

    pub(super) fn create(&mut self, name: &str) -> FileNumber {
        let name: Arc<str> = name.into();
        self.files.push(LiveFile { name: name.clone(), contents: Contents::default(), removed: false });
        self.names.insert(name.clone(), self.files.len() - 1);
        self.entries.push(Entry::Create { name });
        self.files.len() - 1
    }

    /// Unique in the journal: two calls do not begin at the same entry.
    pub(super) fn next_call(&self) -> CallId {
        self.entries.len() as CallId
    }

    /// How many of `len` bytes a read or write does: mostly all, else some whole sectors.
    pub(super) fn shortened(&mut self, len: usize) -> usize {
        let Some(coins) = &mut self.short else {
            return len;
        };
        if len <= SECTOR_LEN || coins.below(2) == 0 {
            return len;
        }
        let sectors = (len - 1) / SECTOR_LEN;
        SECTOR_LEN * (1 + coins.below(sectors as u64) as usize)
    }

    /// Bytes of space left.
    pub(super) fn room(&self) -> u64 {
        self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.space))
    }

    pub(super) fn full(&self, number: FileNumber, offset: u64) -> io::Error {
        let name = &self.files[number].name;
        io::Error::new(ErrorKind::StorageFull, format!("{name} at offset {offset}: the simulated disk is full"))
    }

    /// Changes a file, keeping count of the space.
    pub(super) fn change(&mut self, number: FileNumber, change: impl FnOnce(&mut Contents)) {
        let contents = &mut self.files[number].contents;
        self.space -= contents.space();
        change(contents);
        self.space += contents.space();
    }

    /// Writes as many of the bytes as there is space for.
    pub(super) fn take_in(&mut self, number: FileNumber, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let file = &self.files[number];
        if file.removed {
            return Err(io::Error::new(ErrorKind::NotFound, format!("{} was removed", file.name)));
        }
        let mut taken = bytes.len();
        while taken > 0 && file.contents.space_wanted(offset, taken as u64) > self.room() {
            // Back to the beginning of the block that the last byte lies in.
            let end = offset + taken as u64 - 1;
            taken = (end - end % BLOCK_LEN as u64).saturating_sub(offset) as usize;
        }
        if taken == 0 && !bytes.is_empty() {
            return Err(self.full(number, offset));
        }
        self.change(number, |contents| contents.write(offset, &bytes[..taken]));
        Ok(taken)
    }

    pub(super) fn corrupt(&mut self, number: FileNumber, offset: u64, bytes: &[u8]) {
        self.change(number, |contents| contents.write(offset, bytes));
        self.entries.push(Entry::Corrupt { file: number, offset, bytes: bytes.into() });
    }
}

pub(super) fn power_lost() -> io::Error {
    io::Error::other("the simulated disk has lost its power: take what is left from its journal")
}
