//! The disk as its callers see it, with the record of their calls.

use super::SimDisk;
use super::faults::{Call, Effect, Faults};
use super::image::Contents;
use super::journal::{CallId, Entry, FileNumber, Mark};
use super::medium::Medium;
use super::random::Random;
use crate::durable_calls::DurableCalls;
use crate::{BLOCK_LEN, SECTOR_LEN};
use cedrat_sync::Arc;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};

/// The state behind the mutex of a disk.
pub(super) struct State {
    pub(super) initial: Medium,
    pub(super) entries: Vec<Entry>,
    pub(super) marks: Vec<Mark>,
    pub(super) files: Vec<LiveFile>,
    pub(super) names: BTreeMap<Arc<str>, FileNumber>,
    pub(super) locked: BTreeSet<FileNumber>,
    /// Space taken by all files, in bytes of whole blocks.
    pub(super) space: u64,
    pub(super) capacity: Option<u64>,
    pub(super) faults: Faults,
    /// Whether durable writes get each other's errors, so that they must ask for them.
    pub(super) misreports: bool,
    pub(super) short: Option<Random>,
    pub(super) calls: u64,
    pub(super) powered: bool,
    pub(super) hook: Option<Arc<Hook>>,
}

/// A function that is called before each call of [`Media`](crate::Media).
pub(super) type Hook = dyn Fn(&SimDisk, Call, &str) + Send + Sync;

/// A file as callers see it: every write that ended, durable or not.
pub(super) struct LiveFile {
    pub(super) name: Arc<str>,
    pub(super) contents: Contents,
    pub(super) removed: bool,
    pub(super) durable_calls: Arc<DurableCalls>,
    /// Whether the error of a durable write waits for another one to get it.
    pub(super) has_stray_error: bool,
}

impl LiveFile {
    fn new(name: Arc<str>, contents: Contents, removed: bool) -> LiveFile {
        LiveFile { name, contents, removed, durable_calls: Arc::default(), has_stray_error: false }
    }
}

impl State {
    pub(super) fn new(medium: Medium) -> State {
        let names = medium.names_seen();
        let mut files: Vec<LiveFile> =
            (0..medium.files.len()).map(|number| LiveFile::new("".into(), medium.seen(number), true)).collect();
        for (name, &number) in &names {
            files[number].name = name.clone();
            files[number].removed = false;
        }
        files.iter_mut().filter(|file| file.removed).for_each(|file| file.contents.set_len(0));
        State {
            entries: Vec::new(),
            marks: Vec::new(),
            space: files.iter().map(|file| file.contents.space()).sum(),
            files,
            names,
            locked: BTreeSet::new(),
            capacity: None,
            faults: Faults::default(),
            misreports: false,
            short: None,
            calls: 0,
            powered: true,
            hook: None,
            initial: medium,
        }
    }

    /// # Panics
    /// If a fault requests it: before the call has done or recorded anything.
    pub(super) fn strike(&mut self, call: Call, name: &str) -> Option<Effect> {
        self.calls += 1;
        let effect = self.faults.strike(call, name);
        assert!(!matches!(effect, Some(Effect::Panic)), "{name}: the simulated disk panics as asked");
        effect
    }

    pub(super) fn struck(&mut self, effect: Option<Effect>, number: FileNumber) -> Option<io::Error> {
        let name = self.files[number].name.clone();
        self.struck_by_name(effect, &name)
    }

    /// Returns the error of a struck call; switches the power off if the fault says so.
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
            Effect::LoseWrite | Effect::MisdirectWrite { .. } | Effect::MisreportWrite | Effect::Panic => None,
        }
    }

    pub(super) fn number(&self, name: &str) -> io::Result<FileNumber> {
        let number = self.names.get(name).copied();
        number.ok_or_else(|| io::Error::new(ErrorKind::NotFound, format!("{name} does not exist")))
    }

    pub(super) fn create(&mut self, name: &str) -> FileNumber {
        let name: Arc<str> = name.into();
        self.files.push(LiveFile::new(name.clone(), Contents::default(), false));
        self.names.insert(name.clone(), self.files.len() - 1);
        self.entries.push(Entry::Create { name });
        self.files.len() - 1
    }

    /// Returns a number that is unique in the journal: no two calls begin at the same entry.
    pub(super) fn next_call(&self) -> CallId {
        self.entries.len() as CallId
    }

    /// Returns the number of bytes, of `len`, that a read or write transfers: mostly all, else some whole sectors.
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

    /// Returns the space left, in bytes.
    pub(super) fn room(&self) -> u64 {
        self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.space))
    }

    pub(super) fn full(&self, number: FileNumber, offset: u64) -> io::Error {
        let name = &self.files[number].name;
        io::Error::new(ErrorKind::StorageFull, format!("{name} at offset {offset}: the simulated disk is full"))
    }

    /// Changes a file and updates the space taken.
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
            // Back to the beginning of the block that holds the last byte.
            let end = offset + taken as u64 - 1;
            taken = (end - end % BLOCK_LEN as u64).saturating_sub(offset) as usize;
        }
        if taken == 0 && !bytes.is_empty() {
            return Err(self.full(number, offset));
        }
        self.change(number, |contents| contents.write(offset, &bytes[..taken]));
        Ok(taken)
    }

    /// Returns the error of another durable write of the file, if one waits; no later write gets it.
    pub(super) fn take_stray_error(&mut self, number: FileNumber) -> Option<io::Error> {
        let file = &mut self.files[number];
        let name = &file.name;
        let error = || io::Error::other(format!("{name}: the simulated disk fails another write as asked"));
        std::mem::take(&mut file.has_stray_error).then(error)
    }

    pub(super) fn corrupt(&mut self, number: FileNumber, offset: u64, bytes: &[u8]) {
        self.change(number, |contents| contents.write(offset, bytes));
        self.entries.push(Entry::Corrupt { file: number, offset, bytes: bytes.into() });
    }
}

pub(super) fn power_lost() -> io::Error {
    io::Error::other("the simulated disk has lost its power: take what is left from its journal")
}
