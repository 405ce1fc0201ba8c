//! A simulated disk: in memory, deterministic, with every fault on request.
//!
//! It has two uses. *Live*, it is a [`Media`] with faults: calls fail, reads and writes are short, space runs out,
//! sectors become corrupt. *Afterwards* its [`Journal`] knows every call, and returns the disk that a power failure
//! at any moment would have left, with any choice of lost bytes; so one run of a workload shows all crashes of that
//! run.
//!
//! A write becomes visible to readers when it ends. Between its beginning and its end other threads may run, under a
//! seeded scheduler at any point that the scheduler chooses; a crash in between finds the write in flight.

mod cursor;
mod faults;
mod image;
mod journal;
mod live;
mod loss;
mod medium;
mod random;
mod volatile;

pub use cursor::Cursor;
pub use faults::{Call, Damage, Fault};
pub use image::Image;
pub use journal::{Journal, Mark};
pub use loss::{Kill, Loss};

use crate::durable_calls::Reported;
use crate::names::{check_directory, split};
use crate::{Durability, FileId, LockGuard, Media, OpenMode, SECTOR_LEN};
use cedrat_sync::{Arc, Condvar, Mutex, MutexGuard};
use faults::Effect;
use image::space_of;
use journal::{Entry, FileNumber, SyncOutcome};
use live::{State, power_lost};
use medium::Medium;
use random::Random;
use std::fmt;
use std::io::{self, ErrorKind};

/// The maximum length of a file; a wrong offset is then an error instead of exhausted memory.
const LEN_MAX: u64 = 1 << 36;

/// A disk in memory that forgets, fails, and records its calls as its test requests.
///
/// Without faults it is a correct disk whose cache is never written back without a sync. Threads may share it.
///
/// A clone is another handle to the same disk: one for the store, one for the test that breaks it.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    /// Notified when a durable write has got the error of another.
    stray_error_taken: Arc<Condvar>,
}

impl SimDisk {
    /// Creates an empty disk.
    pub fn new() -> SimDisk {
        SimDisk::from_image(Image::default())
    }

    /// Creates a disk on which all of `image` is durable.
    pub fn from_image(image: Image) -> SimDisk {
        SimDisk::from_medium(Medium::from(image))
    }

    /// Creates a disk that has volatile changes from the beginning.
    fn from_medium(medium: Medium) -> SimDisk {
        SimDisk { state: Arc::new(Mutex::new(State::new(medium))), stray_error_taken: Arc::default() }
    }

    /// Returns the journal of all calls so far.
    pub fn journal(&self) -> Journal {
        let state = self.state.lock();
        Journal {
            initial: state.initial.clone(),
            entries: state.entries.as_slice().into(),
            marks: state.marks.as_slice().into(),
        }
    }

    /// Returns the number of entries in the journal so far; see [`Journal::len`].
    pub fn journal_len(&self) -> usize {
        self.state.lock().entries.len()
    }

    /// Puts a mark between the entries of the journal; see [`Mark`].
    pub fn mark(&self, label: u64) {
        let mut state = self.state.lock();
        let position = state.entries.len();
        state.marks.push(Mark { label, position });
    }

    /// Returns the content that callers see now, durable or not: the state that a process finds when restarted after
    /// a kill.
    pub fn image(&self) -> Image {
        let state = self.state.lock();
        let contents = |&number: &FileNumber| state.files[number].contents.clone();
        Image { files: state.names.iter().map(|(name, number)| (name.clone(), contents(number))).collect() }
    }

    /// Cuts the power now, calls in flight included, and returns the remaining disk.
    pub fn cut_power(&self, loss: Loss) -> SimDisk {
        self.state.lock().powered = false;
        let journal = self.journal();
        journal.crash(journal.len(), loss)
    }

    /// Adds a fault. Faults are independent; each counts calls from its addition on.
    pub fn inject(&self, fault: Fault) {
        let mut state = self.state.lock();
        state.faults.add(fault);
        state.misreports |= state.faults.misreport();
    }

    /// Removes all faults that have not struck yet, or strike repeatedly. A power loss that has struck stays.
    pub fn clear_faults(&self) {
        self.state.lock().faults.clear();
    }

    /// From now on some reads and writes of more than a sector are short, at random by the seed; `None`: never.
    pub fn shorten(&self, seed: Option<u64>) {
        self.state.lock().short = seed.map(Random::new);
    }

    /// Limits the space of all files together, in bytes of whole blocks; `None`: no limit. As on XFS, `allocate` needs so much
    /// free space as the whole range has, also where the file has space already.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity = bytes;
    }

    /// Returns the space that all files take, in bytes of whole blocks.
    pub fn space(&self) -> u64 {
        self.state.lock().space
    }

    /// Calls `hook` before each call of [`Media`] but `path`, with the disk, the kind of the call, and the name of its file or
    /// directory. The disk is not locked meanwhile: the hook may wait, and panic.
    pub fn before_each_call(&self, hook: impl Fn(&SimDisk, Call, &str) + Send + Sync + 'static) {
        self.state.lock().hook = Some(Arc::new(hook));
    }

    /// Returns the number of calls of [`Media`] so far; the next is number `calls() + 1` for a fault injected at the
    /// beginning.
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Damages bytes at rest, on the medium and so for every reader, now and after every later crash.
    ///
    /// Fails with `NotFound` without such a file, and with `InvalidInput` beyond its end.
    pub fn corrupt(&self, name: &str, offset: u64, damage: Damage) -> io::Result<()> {
        let mut state = self.state.lock();
        let number = state.number(name)?;
        let len = state.files[number].contents.len();
        let sector = offset - offset % SECTOR_LEN as u64;
        match damage {
            _ if offset >= len => Err(beyond(name, offset, len)),
            Damage::Flip { bit } => {
                let mut byte = [0];
                state.files[number].contents.read(offset, &mut byte);
                state.corrupt(number, offset, &[byte[0] ^ 1 << bit]);
                Ok(())
            }
            Damage::Stale => {
                let stale = journal::earlier(&state.initial, &state.entries, number, sector);
                state.corrupt(number, sector, &stale[..SECTOR_LEN.min((len - sector) as usize)]);
                Ok(())
            }
            Damage::Misdirected { to } if to >= len => Err(beyond(name, to, len)),
            Damage::Misdirected { to } => {
                let to = to - to % SECTOR_LEN as u64;
                let mut moved = [0; SECTOR_LEN];
                let present = state.files[number].contents.read(sector, &mut moved);
                let stale = journal::earlier(&state.initial, &state.entries, number, sector);
                state.corrupt(number, to, &moved[..present.min((len - to) as usize)]);
                state.corrupt(number, sector, &stale[..present]);
                Ok(())
            }
        }
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        SimDisk::new()
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimDisk(..)")
    }
}

impl Media for SimDisk {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        split(name)?;
        let mut state = self.begin(Call::Open, name)?;
        let number = match (mode, state.number(name)) {
            (OpenMode::Create, Ok(_)) => {
                return Err(io::Error::new(ErrorKind::AlreadyExists, format!("{name} exists already")));
            }
            (OpenMode::Create, Err(_)) => state.create(name),
            (_, found) => found?,
        };
        Ok(FileId((number as u32) << 1 | u32::from(mode != OpenMode::Read)))
    }

    fn lock(&self, name: &str) -> io::Result<LockGuard> {
        split(name)?;
        let mut state = self.begin(Call::Lock, name)?;
        let number = state.number(name)?;
        if !state.locked.insert(number) {
            let message = format!("{name} is held by another opening: close it first");
            return Err(io::Error::new(ErrorKind::WouldBlock, message));
        }
        Ok(LockGuard::new(Holder { state: self.state.clone(), number }))
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        check_directory(directory)?;
        let state = self.begin(Call::List, directory)?;
        let within = |name: &Arc<str>| {
            let (parent, last) = split(name).expect("it was checked when the file was created");
            (parent == directory).then(|| last.to_owned())
        };
        Ok(state.names.keys().filter_map(within).collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        split(name)?;
        let mut state = self.begin(Call::Remove, name)?;
        let number = state.number(name)?;
        let name = state.files[number].name.clone();
        state.names.remove(&name);
        state.files[number].removed = true;
        state.change(number, |contents| contents.set_len(0));
        state.entries.push(Entry::Remove { name });
        Ok(())
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        check_directory(directory)?;
        let mut state = self.begin(Call::SyncDirectory, directory)?;
        state.entries.push(Entry::SyncDirectory { directory: directory.into() });
        Ok(())
    }

    fn len(&self, file: FileId) -> io::Result<u64> {
        let (state, number) = self.begin_file(Call::Len, file)?;
        Ok(state.files[number].contents.len())
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let (mut state, number) = self.begin_file(Call::Read, file)?;
        let wanted = state.shortened(buffer.len());
        Ok(state.files[number].contents.read(offset, &mut buffer[..wanted]))
    }

    fn write_at(&self, file: FileId, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<usize> {
        let (mut state, number, effect) = self.begin_change(Call::Write, file)?;
        let bytes = &bytes[..state.shortened(bytes.len())];
        let offset = match effect {
            Some(Effect::LoseWrite) => return Ok(bytes.len()),
            Some(Effect::MisdirectWrite { to }) => to,
            _ => offset,
        };
        check_end(&state.files[number].name, offset, bytes.len() as u64)?;
        let write = Write { number, offset, bytes, durability, effect };
        if !state.misreports || durability == Durability::Volatile {
            return self.write(state, &write);
        }
        let (calls, name) = (Arc::clone(&state.files[number].durable_calls), state.files[number].name.clone());
        let overlapping = calls.begin(Reported::ToAnyCall);
        overlapping.end(self.write(state, &write), || name.to_string())
    }

    fn sync(&self, file: FileId) -> io::Result<()> {
        let (mut state, number, effect) = self.begin_any(Call::Sync, file)?;
        let call = state.next_call();
        state.entries.push(Entry::SyncBegin { call, file: number });
        if let Some(error) = state.struck(effect, number) {
            if state.powered {
                let forgets = matches!(effect, Some(Effect::Forget));
                let outcome = if forgets { SyncOutcome::Forgotten } else { SyncOutcome::Failed };
                state.entries.push(Entry::SyncEnd { call, outcome });
            }
            return Err(error);
        }
        drop(state);

        let mut state = self.powered()?;
        state.entries.push(Entry::SyncEnd { call, outcome: SyncOutcome::Done });
        Ok(())
    }

    fn allocate(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        let (mut state, number) = self.begin_shape(Call::Allocate, file)?;
        check_end(&state.files[number].name, offset, len)?;
        // XFS wants free space for the whole range, before it sees which parts have space already.
        if space_of(offset, len) > state.room() {
            return Err(state.full(number, offset));
        }
        state.change(number, |contents| contents.reserve(offset, len));
        state.entries.push(Entry::Reserve { file: number, offset, len });
        Ok(())
    }

    fn punch(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        let (mut state, number) = self.begin_shape(Call::Punch, file)?;
        state.change(number, |contents| contents.zero_sectors(offset, len, |_| true));
        state.entries.push(Entry::Punch { file: number, offset, len });
        Ok(())
    }

    fn set_len(&self, file: FileId, len: u64) -> io::Result<()> {
        let (mut state, number) = self.begin_shape(Call::SetLen, file)?;
        check_end(&state.files[number].name, len, 0)?;
        state.change(number, |contents| contents.set_len(len));
        state.entries.push(Entry::SetLen { file: number, len });
        Ok(())
    }

    fn path(&self, file: FileId) -> String {
        let state = self.state.lock();
        state.files.get((file.0 >> 1) as usize).map_or("no file", |file| &file.name).to_owned()
    }
}

/// The checks at the beginning of a call: the power is on, the file exists and may be changed, and no fault strikes.
impl SimDisk {
    fn powered(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        if state.powered { Ok(state) } else { Err(power_lost()) }
    }

    /// Calls the hook, if there is one.
    fn announce(&self, call: Call, name_of: impl FnOnce(&State) -> Option<Arc<str>>) {
        let state = self.state.lock();
        let Some(hook) = state.hook.clone() else { return };
        let name = name_of(&state);
        drop(state);
        if let Some(name) = name {
            hook(self, call, &name);
        }
    }

    /// Begins a call by name.
    fn begin(&self, call: Call, name: &str) -> io::Result<MutexGuard<'_, State>> {
        self.announce(call, |_| Some(name.into()));
        let mut state = self.powered()?;
        let effect = state.strike(call, name);
        match state.struck_by_name(effect, name) {
            None => Ok(state),
            Some(error) => Err(error),
        }
    }

    /// Begins a call on a file; the caller applies the effects.
    fn begin_any(&self, call: Call, file: FileId) -> io::Result<(MutexGuard<'_, State>, FileNumber, Option<Effect>)> {
        let number = (file.0 >> 1) as usize;
        self.announce(call, |state| state.files.get(number).map(|live| live.name.clone()));
        let mut state = self.powered()?;
        let name = match state.files.get(number) {
            Some(live) if !live.removed => live.name.clone(),
            _ => {
                return Err(io::Error::new(ErrorKind::NotFound, format!("file {number} was removed")));
            }
        };
        let effect = state.strike(call, &name);
        Ok((state, number, effect))
    }

    /// Begins a call as `begin_any` does, and refuses ids that only read.
    fn begin_change(
        &self,
        call: Call,
        file: FileId,
    ) -> io::Result<(MutexGuard<'_, State>, FileNumber, Option<Effect>)> {
        let begun = self.begin_any(call, file)?;
        if file.0 & 1 == 1 {
            return Ok(begun);
        }
        let name = &begun.0.files[begun.1].name;
        let message = format!("{name} was opened for reading only: open it for writing too");
        Err(io::Error::new(ErrorKind::PermissionDenied, message))
    }

    /// Begins a call that changes a file's shape.
    fn begin_shape(&self, call: Call, file: FileId) -> io::Result<(MutexGuard<'_, State>, FileNumber)> {
        let (mut state, number, effect) = self.begin_change(call, file)?;
        match state.struck(effect, number) {
            None => Ok((state, number)),
            Some(error) => Err(error),
        }
    }

    /// Begins a call that changes nothing.
    fn begin_file(&self, call: Call, file: FileId) -> io::Result<(MutexGuard<'_, State>, FileNumber)> {
        let (mut state, number, effect) = self.begin_any(call, file)?;
        match state.struck(effect, number) {
            None => Ok((state, number)),
            Some(error) => Err(error),
        }
    }
}

/// A write as it reaches the disk.
struct Write<'a> {
    number: FileNumber,
    offset: u64,
    bytes: &'a [u8],
    durability: Durability,
    effect: Option<Effect>,
}

impl SimDisk {
    fn write(&self, mut state: MutexGuard<'_, State>, write: &Write<'_>) -> io::Result<usize> {
        let &Write { number, offset, bytes, durability, effect } = write;
        let call = state.next_call();
        let begin = Entry::WriteBegin { call, file: number, offset, bytes: bytes.into(), durability };
        state.entries.push(begin);
        if let Some(error) = state.struck(effect, number) {
            if state.powered {
                state.entries.push(Entry::WriteEnd { call, taken: 0, failed: true });
            }
            return Err(error);
        }
        let misreported = durability == Durability::Durable && matches!(effect, Some(Effect::MisreportWrite));
        if misreported {
            state.files[number].has_stray_error = true;
            self.stray_error_taken.wait_while(&mut state, |state| state.files[number].has_stray_error);
        }
        drop(state);

        // In flight: calls of threads that are scheduled now overlap with this write.
        let mut state = self.powered()?;
        let result = state.take_in(number, offset, bytes);
        let taken = *result.as_ref().unwrap_or(&0);
        state.entries.push(Entry::WriteEnd { call, taken, failed: misreported });
        if durability == Durability::Durable
            && let Some(error) = state.take_stray_error(number)
        {
            self.stray_error_taken.notify_all();
            return Err(error);
        }
        result
    }
}

/// Holds a file locked.
struct Holder {
    state: Arc<Mutex<State>>,
    number: FileNumber,
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.state.lock().locked.remove(&self.number);
    }
}

fn beyond(name: &str, offset: u64, len: u64) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("{name} has {len} bytes, none at offset {offset}"))
}

fn check_end(name: &str, offset: u64, len: u64) -> io::Result<()> {
    if offset.checked_add(len).is_some_and(|end| end <= LEN_MAX) {
        return Ok(());
    }
    let message = format!("{name} at offset {offset}: simulated files have at most {LEN_MAX} bytes");
    Err(io::Error::new(ErrorKind::FileTooLarge, message))
}
