//! Media recovery: any page, any file, and the newest part of any file of a store, of its archive or of its backup is destroyed. What
//! opens or is restored then has the state of the model, or the error names the damage; nothing is silently lost.
#![forbid(unsafe_code)]
#![cfg(not(cedrat_shuttle))]

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cedrat::Options;
use cedrat::heap::HeapOptions;
use cedrat::media::{Durability, Loss, Media, OpenMode, SimDisk};
use cedrat::pages::PAGE_FILE;
use cedrat::prelude::*;
use cedrat::txn::{BackupOptions, RestoreTarget};
use cedrat::wal::Lsn;
use cedrat_tests::seed::{Random, from_environment, seeds};
use cedrat_txn::{archive_remaining_log, check_backup};

/// Number of histories.
const HISTORIES: u64 = 12;
/// Number of losses after each history.
const LOSSES: u64 = 12;
/// Length of a page, and of a block of any other file.
const PAGE_LEN: u64 = 4096;
/// Number of keys of the table: so many that the store grows by more than its page file has space for.
const KEYS: u64 = 300;
/// Number of words of the heap that are changed.
const WORDS: u64 = 600;

type Failed = Box<dyn std::error::Error>;

/// The content of a store.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    table: BTreeMap<u64, Vec<u8>>,
    words: BTreeMap<u64, u64>,
}

/// A store with an archive and a backup, and its states.
struct History {
    random: Random,
    disk: SimDisk,
    archive: SimDisk,
    backup: SimDisk,
    store: Option<Store>,
    now: State,
    /// The state after each commit, and its LSN.
    states: Vec<(Lsn, State)>,
}

fn media(disk: &SimDisk) -> Arc<dyn Media> {
    Arc::new(disk.clone())
}

fn after_power_loss(disk: &SimDisk) -> SimDisk {
    disk.journal().crash(disk.journal_len(), Loss::Everything)
}

fn options(archive: Option<&SimDisk>, backup: Option<&SimDisk>) -> Options {
    let mut options =
        Options { archive: archive.map(media), backup: backup.map(media), partitions: 2, ..Options::simulated() };
    (options.pool_bytes, options.archive_run_bytes) = (256 << 10, 4 << 10);
    options
}

fn opened(disk: &SimDisk, archive: Option<&SimDisk>, backup: Option<&SimDisk>) -> Result<Store, OpenError> {
    Store::open(media(disk), options(archive, backup), cedrat::registry())
}

/// Reads all of a store, and checks its pages.
fn state_of(store: &Store) -> Result<State, Failed> {
    let mut state = State::default();
    let mut txn = store.begin();
    for pair in HashTable::<u64, Vec<u8>>::open(&mut txn, "table")?.iter(&mut txn)? {
        let (key, value) = pair?;
        state.table.insert(key, value);
    }
    txn.rollback()?;
    let heap = store.memory().heap("words")?;
    state.words = heap.atomically(|tx| {
        let mut words = BTreeMap::new();
        for number in 0..WORDS {
            let word = tx.read(&heap, number * 8)?;
            if word != 0 {
                words.insert(number, word);
            }
        }
        Ok(words)
    })?;
    store.check()?;
    Ok(state)
}

impl History {
    fn new(seed: u64) -> History {
        let (disk, archive, backup) = (SimDisk::new(), SimDisk::new(), SimDisk::new());
        let store = opened(&disk, Some(&archive), None).expect("a new store");
        store.transact(|txn| HashTable::<u64, Vec<u8>>::create(txn, "table").map(drop)).expect("room");
        let words = HeapOptions { chunk_len: 4096, size: 8192, ..HeapOptions::raw(1 << 16) };
        store.memory().create_heap("words", &words).expect("room");
        let (now, states) = (State::default(), Vec::new());
        let mut history = History { random: Random::new(seed), disk, archive, backup, store: Some(store), now, states };
        history.back_up();
        for _ in 0..20 + history.random.below(60) {
            history.step();
        }
        history
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn step(&mut self) {
        match self.random.below(16) {
            0 => self.store().checkpoint().expect("room"),
            1 => drop(self.store().extend_archive().expect("room")),
            2 => self.back_up(),
            3 => self.reopen(),
            _ => self.change(),
        }
    }

    fn change(&mut self) {
        let store = self.store().clone();
        let heap = store.memory().heap("words").expect("it was created");
        let mut txn = store.begin();
        let table = HashTable::<u64, Vec<u8>>::open(&mut txn, "table").expect("it was created");
        let mut next = self.now.clone();
        for _ in 0..=self.random.below(6) {
            let key = self.random.below(KEYS);
            if self.random.below(4) == 0 {
                table.remove(&mut txn, &key).expect("it is not locked");
                next.table.remove(&key);
            } else {
                let value = vec![self.random.below(256) as u8; self.random.below(2_000) as usize];
                table.insert(&mut txn, &key, &value).expect("it is not locked");
                next.table.insert(key, value);
            }
            let word = self.random.below(WORDS);
            txn.heap(|tx| tx.update(&heap, word * 8, |value| value + 1)).expect("it is not locked");
            *next.words.entry(word).or_default() += 1;
        }
        if self.random.below(5) == 0 {
            txn.rollback().expect("always possible");
            return;
        }
        txn.commit(Commit::Sync).expect("room");
        self.now = next;
        self.states.push((store.log().durable_lsn(), self.now.clone()));
    }

    fn back_up(&mut self) {
        let to = SimDisk::new();
        self.store().backup(&media(&to), BackupOptions::default()).expect("room");
        self.backup = after_power_loss(&to);
    }

    fn reopen(&mut self) {
        drop(self.store.take());
        self.disk = after_power_loss(&self.disk);
        self.archive = after_power_loss(&self.archive);
        self.store = Some(opened(&self.disk, Some(&self.archive), None).expect("it opens"));
    }

    /// Ends the store, by a close or a power loss, and returns what is on its disks.
    fn end(mut self) -> Disks {
        let store = self.store.take().expect("it is open");
        if self.random.below(2) == 0 {
            store.close().expect("room");
        } else {
            drop(store);
        }
        let archived = cedrat::wal::FoundArchive::look(&media(&self.archive)).expect("an archive").lsns().1;
        Disks {
            home: after_power_loss(&self.disk),
            archive: after_power_loss(&self.archive),
            backup: self.backup,
            archived,
            states: self.states,
        }
    }
}

/// The disks of a store that has ended.
struct Disks {
    home: SimDisk,
    archive: SimDisk,
    backup: SimDisk,
    /// The archive has all records up to this LSN.
    archived: Lsn,
    states: Vec<(Lsn, State)>,
}

impl Disks {
    /// Returns the state at an LSN.
    fn state_at(&self, lsn: Lsn) -> State {
        let found = self.states.iter().rfind(|(of, _)| *of <= lsn);
        found.map(|(_, state)| state.clone()).unwrap_or_default()
    }

    fn newest(&self) -> State {
        self.state_at(Lsn::MAX)
    }

    /// Whether a state is the newest one, or an older one that is not older than the archive.
    fn is_since_archive(&self, state: &State) -> bool {
        let since = self.states.partition_point(|(lsn, _)| *lsn <= self.archived);
        *state == self.state_at(self.archived) || self.states[since..].iter().any(|(_, known)| known == state)
    }
}

/// Copies a disk, so that a loss concerns the copy alone.
fn copied(disk: &SimDisk) -> SimDisk {
    SimDisk::from_image(disk.image())
}

/// A part of a file that is destroyed.
struct Destroyed {
    file: String,
    what: String,
    is_one_page: bool,
}

impl fmt::Display for Destroyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.what)
    }
}

fn fill(disk: &SimDisk, file: &str, from: u64, len: u64, random: &mut Random) -> String {
    let id = disk.open(file, OpenMode::ReadWrite).expect("it is there");
    let (how, byte) = match random.below(3) {
        0 => ("zeros", 0),
        1 => ("ones", 0xff),
        _ => ("random bytes", 1),
    };
    let bytes: Vec<u8> = (0..len).map(|_| if byte == 1 { random.below(256) as u8 } else { byte }).collect();
    disk.write_at(id, from, &bytes, Durability::Durable).expect("room");
    format!("{how} from byte {from} to {}", from + len)
}

/// Destroys a page, a file, or its newest part.
fn destroy(disk: &SimDisk, random: &mut Random) -> Destroyed {
    let names: Vec<String> = disk.image().names().map(str::to_owned).collect();
    let file = names[random.below(names.len() as u64) as usize].clone();
    let id = disk.open(&file, OpenMode::ReadWrite).expect("it is there");
    let len = disk.len(id).expect("it is there");
    let pages = len.div_ceil(PAGE_LEN);
    let kind = random.below(if len == 0 { 1 } else { 8 });
    let what = match kind {
        0 => {
            disk.remove(&file).expect("it is there");
            "removed".to_owned()
        }
        1 => {
            disk.set_len(id, random.below(len)).expect("it is there");
            "shortened".to_owned()
        }
        2 => fill(disk, &file, 0, len, random),
        3 => {
            let tail = 1 + random.below(len.min(16 << 10));
            fill(disk, &file, len - tail, tail, random)
        }
        4 => {
            let bit = random.below(len * 8);
            let mut byte = [0];
            disk.read_at(id, bit / 8, &mut byte).expect("it is there");
            byte[0] ^= 1 << (bit % 8);
            disk.write_at(id, bit / 8, &byte, Durability::Durable).expect("room");
            format!("bit {bit}")
        }
        _ => {
            let page = random.below(pages) * PAGE_LEN;
            fill(disk, &file, page, PAGE_LEN.min(len - page), random)
        }
    };
    Destroyed { file, what, is_one_page: kind > 3 }
}

/// Opens a store and reads all of it.
fn found(disk: &SimDisk, archive: Option<&SimDisk>, backup: Option<&SimDisk>) -> Result<State, Failed> {
    state_of(&opened(disk, archive, backup)?)
}

/// Restores to the newest state, and reads all of it.
fn restored(backup: &SimDisk, archive: &SimDisk) -> Result<State, Failed> {
    let to = SimDisk::new();
    cedrat_txn::restore(&media(backup), Some(&media(archive)), &media(&to), RestoreTarget::Newest)?;
    found(&after_power_loss(&to), None, None)
}

/// A part of the store is lost: the store opens with all of its state, or it is restored with all of its state if its log is whole.
fn lose_home(disks: &Disks, random: &mut Random) {
    let home = copied(&disks.home);
    let destroyed = destroy(&home, random);
    let is_of_log = destroyed.file.starts_with("log/") || destroyed.file == "control";
    match found(&copied(&home), Some(&copied(&disks.archive)), Some(&copied(&disks.backup))) {
        Ok(state) if is_of_log => assert!(disks.is_since_archive(&state), "{destroyed}: an older state"),
        Ok(state) => assert!(state == disks.newest(), "E18.17, {destroyed}: another state"),
        Err(error) if destroyed.file == PAGE_FILE && destroyed.is_one_page => panic!("E18.17, {destroyed}: {error}"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let archive = copied(&disks.archive);
    let remaining = archive_remaining_log(&media(&home), &media(&archive));
    let state = restored(&disks.backup, &archive).unwrap_or_else(|error| panic!("E18.23, {destroyed}: {error}"));
    match remaining {
        Ok(_) if is_of_log => assert!(disks.is_since_archive(&state), "E18.23, {destroyed}: an older state"),
        Ok(_) => assert!(state == disks.newest(), "E18.23, {destroyed}: another state"),
        Err(error) if !is_of_log => panic!("E18.23, {destroyed}: {error}"),
        Err(_) => assert!(state == disks.state_at(disks.archived), "E18.10, {destroyed}: another state"),
    }
}

/// A part of the archive is lost: the store has its state, and a restore has that of the archive or is refused.
fn lose_archive(disks: &Disks, random: &mut Random) {
    let archive = copied(&disks.archive);
    let destroyed = destroy(&archive, random);
    if let Ok(state) = found(&copied(&disks.home), Some(&copied(&archive)), Some(&copied(&disks.backup))) {
        assert!(state == disks.newest(), "{destroyed}: another state");
    }
    let state = found(&copied(&disks.home), None, None).expect("the store is whole");
    assert!(state == disks.newest(), "{destroyed}: another state");
    if let Ok(state) = restored(&disks.backup, &archive) {
        assert!(state == disks.state_at(disks.archived), "E18.10, {destroyed}: another state");
    }
}

/// A part of the backup is lost: a restore has the state of the archive, or the damage is named by it or by a check.
fn lose_backup(disks: &Disks, random: &mut Random) {
    let backup = copied(&disks.backup);
    let destroyed = destroy(&backup, random);
    if backup.image().hash() == disks.backup.image().hash() {
        return;
    }
    let is_noticed = check_backup(&media(&backup), None).map_or(true, |check| !check.problems.is_empty());
    match restored(&backup, &disks.archive) {
        Ok(state) => assert!(state == disks.state_at(disks.archived), "E18.10, {destroyed}: another state"),
        Err(error) => assert!(is_noticed, "E18.14, {destroyed}: {error}, and the check has found nothing"),
    }
}

/// E18.10, E18.14, E18.17, E18.23.
#[test]
fn destroyed_media_lose_nothing_silently() {
    let mut failed = 0;
    for seed in seeds(HISTORIES) {
        let disks = History::new(seed).end();
        for loss in 0..LOSSES {
            let mut random = Random::new(seed << 16 | loss);
            let lose = [lose_home, lose_home, lose_archive, lose_backup][random.below(4) as usize];
            // Each loss has disks of its own, so the others can be tried after a failure.
            let caught = catch_unwind(AssertUnwindSafe(|| lose(&disks, &mut random)));
            if caught.is_err() {
                eprintln!("history {seed}, loss {loss}");
                failed += 1;
            }
        }
    }
    assert_eq!(failed, 0, "losses, with the seed {}", from_environment());
}
