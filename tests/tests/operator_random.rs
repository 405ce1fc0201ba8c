//! An operator at random: a store in real files with its archive, which grows and shrinks, is backed up, restored, viewed, damaged,
//! scrubbed, killed and lost, as the pages of the operations guide do it. Whatever is opened has what was committed.
#![forbid(unsafe_code)]
#![cfg(not(cedrat_shuttle))]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cedrat::heap::HeapOptions;
use cedrat::media::{Encryption, Key, Media, RealDisk};
use cedrat::pages::{PAGE_FILE, PAGE_LEN};
use cedrat::prelude::*;
use cedrat::txn::{BackupOptions, RestoreTarget, ScrubOptions, restore_stream};
use cedrat::wal::{LogError, Lsn};
use cedrat::{Commit, Options};
use cedrat_tests::seed::{Random, seeds};

/// Number of histories.
const HISTORIES: u64 = 6;
/// Number of steps of each history.
const STEPS: u64 = 40;
/// Number of keys of the table.
const KEYS: u64 = 5_000;
/// Number of words of the heap that are changed.
const WORDS: u64 = 3_000;
/// Bytes of the heap: sixteen chunks.
const HEAP_LEN: u64 = 1 << 20;

/// Returns the offset of a word, which lies in any chunk.
fn offset(number: u64) -> u64 {
    number * (HEAP_LEN / WORDS / 8 * 8)
}

/// A change of the table or of the heap, with the version that is there afterwards.
#[derive(Clone, Copy, Debug)]
enum Change {
    Insert { key: u64, version: u64 },
    Remove { key: u64 },
    Word { number: u64, version: u64 },
}

/// The content of a store: the version of each key, and each word that is not zero.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    table: BTreeMap<u64, u64>,
    words: BTreeMap<u64, u64>,
}

/// Returns the value of a key in a version; it is of any length up to half a page.
fn value(key: u64, version: u64) -> Vec<u8> {
    let len = (key.wrapping_mul(31).wrapping_add(version.wrapping_mul(977)) % 300) as usize;
    let len = if version.is_multiple_of(97) { len + 1_500 } else { len };
    let mut value = version.to_le_bytes().to_vec();
    value.resize(8 + len, (key ^ version) as u8);
    value
}

/// Reads all of a store, and checks its pages.
fn state_of(store: &Store) -> State {
    let mut state = State::default();
    let mut txn = store.begin();
    let table = HashTable::<u64, Vec<u8>>::open(&mut txn, "table").expect("it was created");
    for pair in table.iter(&mut txn).expect("a sound table") {
        let (key, bytes) = pair.expect("a sound table");
        let version = u64::from_le_bytes(bytes[..8].try_into().expect("a version"));
        assert!(bytes == value(key, version), "the value of {key}");
        state.table.insert(key, version);
    }
    txn.rollback().expect("it has changed nothing");
    let heap = store.memory().heap("words").expect("it was created");
    let words = heap.atomically(|tx| {
        let mut words = Vec::new();
        for number in 0..WORDS {
            words.push(tx.read(&heap, offset(number))?);
        }
        Ok(words)
    });
    let words = (0..).zip(words.expect("a sound heap")).filter(|(_, word)| *word != 0);
    state.words = words.collect();
    store.check().expect("sound pages");
    state
}

/// A full backup, its increments, and the LSN that the store had reached when the last one was made.
struct Chain {
    directories: Vec<PathBuf>,
    end: Lsn,
}

struct Operator {
    random: Random,
    directory: tempfile::TempDir,
    made: u64,
    keys: Option<Encryption>,
    home: PathBuf,
    chain: Chain,
    store: Option<Store>,
    now: State,
    /// The LSN of each commit, and its changes.
    commits: Vec<(Lsn, Vec<Change>)>,
    version: u64,
    redo_on_demand_bytes: u64,
    load_on_demand_bytes: u64,
}

impl Operator {
    fn new(seed: u64) -> Operator {
        let mut random = Random::new(seed);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let keys = (random.below(3) == 0).then(|| Encryption::with_key(Key::new([seed as u8; 32])));
        let mut operator = Operator {
            redo_on_demand_bytes: [0, 1 << 16, u64::MAX][random.below(3) as usize],
            load_on_demand_bytes: [0, u64::MAX][random.below(2) as usize],
            random,
            home: directory.path().join("store"),
            directory,
            made: 0,
            keys,
            chain: Chain { directories: Vec::new(), end: Lsn::ZERO },
            store: None,
            now: State::default(),
            commits: Vec::new(),
            version: 0,
        };
        operator.open();
        let store = operator.store();
        store.transact(|txn| HashTable::<u64, Vec<u8>>::create(txn, "table").map(drop)).expect("room");
        store
            .memory()
            .create_heap("words", &HeapOptions { chunk_len: 1 << 16, ..HeapOptions::raw(HEAP_LEN) })
            .expect("room");
        operator.back_up(false);
        operator
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn archive(&self) -> PathBuf {
        self.directory.path().join("archive")
    }

    fn new_directory(&mut self, name: &str) -> PathBuf {
        self.made += 1;
        self.directory.path().join(format!("{name}-{}", self.made))
    }

    fn options(&self) -> Options {
        let mut options = Options {
            pool_bytes: 2 << 20,
            log_limit_bytes: 64 << 20,
            redo_on_demand_bytes: self.redo_on_demand_bytes,
            encryption: self.keys.clone(),
            ..Options::default()
        };
        options.memory.load_on_demand_bytes = self.load_on_demand_bytes;
        options
    }

    fn open(&mut self) {
        let options =
            Options { archive_period: Duration::from_millis(20), archive_run_bytes: 1 << 20, ..self.options() };
        let mut options = cedrat::archived_in(self.archive(), options);
        if let Some(full) = self.chain.directories.first() {
            options = cedrat::rebuilt_from(full, options);
        }
        self.store = Some(cedrat::open_with(&self.home, options, cedrat::registry()).expect("a store opens"));
    }

    fn changes(&mut self, kind: u64) -> Vec<Change> {
        self.version += 1;
        let version = self.version;
        let first = self.random.below(KEYS);
        match kind {
            0 => (first..(first + 1_500).min(KEYS)).map(|key| Change::Insert { key, version }).collect(),
            1 => {
                let kept = |key: &u64| key % 10 == version % 10;
                self.now.table.keys().copied().filter(|key| !kept(key)).map(|key| Change::Remove { key }).collect()
            }
            _ => {
                let mut change = || match self.random.below(4) {
                    0 => Change::Remove { key: self.random.below(KEYS) },
                    1 => Change::Word { number: self.random.below(WORDS), version },
                    _ => Change::Insert { key: self.random.below(KEYS), version },
                };
                (0..20).map(|_| change()).collect()
            }
        }
    }

    fn change(&mut self, kind: u64, commits: bool) {
        let changes = self.changes(kind);
        let store = self.store().clone();
        let heap = store.memory().heap("words").expect("it was created");
        let mut txn = store.begin();
        let table = HashTable::<u64, Vec<u8>>::open(&mut txn, "table").expect("it was created");
        for &change in &changes {
            match change {
                Change::Insert { key, version } => {
                    table.insert(&mut txn, &key, &value(key, version)).expect("room");
                }
                Change::Remove { key } => drop(table.remove(&mut txn, &key).expect("room")),
                Change::Word { number, version } => {
                    txn.heap(|tx| tx.write(&heap, offset(number), version)).expect("room")
                }
            }
        }
        if !commits {
            return txn.rollback().expect("always possible");
        }
        let lsn = txn.commit(Commit::Sync).expect("a sound disk").lsn();
        apply(&mut self.now, &changes);
        self.commits.push((lsn, changes));
    }

    fn state_at(&self, lsn: Lsn) -> State {
        let mut state = State::default();
        self.commits.iter().filter(|commit| commit.0 <= lsn).for_each(|(_, changes)| apply(&mut state, changes));
        state
    }

    fn compare(&self) {
        assert!(state_of(self.store()) == self.now, "the store has another state");
    }

    /// Ends the store: it is closed, or its files are left as a kill leaves them.
    fn end(&mut self, closes: bool) {
        let store = self.store.take().expect("it is open");
        if closes {
            store.close().expect("a sound disk");
        } else {
            store.log().stop("a kill");
        }
    }

    fn reopen(&mut self, closes: bool) {
        self.end(closes);
        self.open();
        self.compare();
    }

    fn back_up(&mut self, is_increment: bool) {
        let to = self.new_directory("backup");
        let earlier = &self.chain.directories;
        let since =
            is_increment.then(|| cedrat::encrypted_chain(earlier, self.keys.as_ref()).expect("a chain of backups"));
        let options = BackupOptions { since: since.as_ref(), ..BackupOptions::default() };
        let report = cedrat::backup(self.store(), &to, options).expect("room");
        assert_eq!(report.cannot_continue, None);
        drop(since);
        if !is_increment {
            self.chain.directories.clear();
        }
        self.chain.directories.push(to);
        self.chain.end = self.store().log().current_lsn();
    }

    fn stream(&mut self) {
        let (file, to) = (self.new_directory("stream"), self.new_directory("restored"));
        let stream = File::create(&file).expect("a new file");
        self.store().backup_to_stream(stream, BackupOptions::default()).expect("room");
        let disk: Arc<dyn Media> = Arc::new(RealDisk::new(&to));
        restore_stream(&mut File::open(&file).expect("it was written"), &disk).expect("a whole stream");
        self.judge(&to, None);
    }

    /// Opens a store without its archive, and compares it with the commits up to an LSN, or with all.
    fn judge(&self, directory: &Path, up_to: Option<Lsn>) {
        let store = cedrat::open_with(directory, self.options(), cedrat::registry()).expect("a restored store opens");
        let expected = up_to.map_or_else(|| self.now.clone(), |lsn| self.state_at(lsn));
        assert!(state_of(&store) == expected, "a restored store has another state, up to {up_to:?}");
        drop(store);
        fs::remove_dir_all(directory).expect("it is there");
    }

    /// Calls `reach` with a point in time that the chain and the archive have: the newest one, or any.
    fn at_some_point(&mut self, reach: impl Fn(&Operator, RestoreTarget) -> Result<Lsn, Error>) -> Lsn {
        let newest = self.store().extend_archive().expect("room");
        if self.random.below(3) == 0 {
            let reached = reach(self, RestoreTarget::Newest).expect("the newest point");
            assert!(reached >= newest);
            return reached;
        }
        let since = self.commits.iter().map(|commit| commit.0).find(|&lsn| lsn >= self.chain.end).unwrap_or(newest);
        let target =
            Lsn::new(since.get() + self.random.below(newest.get().saturating_sub(since.get()) + 1)).min(newest);
        match reach(self, RestoreTarget::Lsn(target)) {
            Ok(reached) => reached,
            Err(Error::Log(LogError::Unreachable { first, .. })) if target < first && first <= self.chain.end => {
                reach(self, RestoreTarget::Lsn(first)).expect("the first point")
            }
            Err(error) => panic!("{target:?}: {error}"),
        }
    }

    fn restore(&mut self) {
        let to = self.new_directory("restored");
        let reached = self.at_some_point(|operator, target| {
            drop(fs::remove_dir_all(&to));
            let (chain, archive, keys) = (&operator.chain.directories, operator.archive(), operator.keys.as_ref());
            Ok(cedrat::restore_encrypted(chain, Some(&archive), keys, &to, keys, target)?.up_to)
        });
        self.judge(&to, Some(reached));
    }

    fn view(&mut self) {
        let scratch = self.new_directory("scratch");
        self.at_some_point(|operator, target| {
            drop(fs::remove_dir_all(&scratch));
            let archive = operator.archive();
            let full = &operator.chain.directories[0];
            let opened = cedrat::open_as_of_with(full, Some(&archive), target, &scratch, operator.options());
            let (view, reached) = opened.map_err(|error| match error {
                OpenError::Failed(error) => error,
                error => panic!("{target:?}: {error}"),
            })?;
            assert!(state_of(&view) == operator.state_at(reached), "a view has another state, up to {reached}");
            Ok(reached)
        });
    }

    /// Destroys a part of the page file while the store is open, and lets it heal.
    fn damage(&mut self) {
        self.store().extend_archive().expect("room");
        let file = OpenOptions::new().write(true).open(self.home.join(PAGE_FILE)).expect("it is there");
        let pages = file.metadata().expect("it is there").len() / PAGE_LEN as u64;
        for _ in 0..3 {
            let at = self.random.below(pages) * PAGE_LEN as u64 + self.random.below(8) * 512;
            file.write_all_at(&[0xa5; 512], at).expect("room");
        }
        let report = self.store().scrub(ScrubOptions::default(), |_| ControlFlow::Continue(())).expect("a sound log");
        assert!(report.damaged.is_empty() && report.is_complete, "{report:?}");
        self.compare();
    }

    /// Forgets what restores of the chain do not need.
    fn forget(&mut self) {
        // The store rebuilds pages from the backup that it was opened with.
        self.reopen(true);
        let full = self.chain.directories[0].clone();
        match &self.keys {
            None => drop(cedrat::forget_before_backup(self.store(), &full).expect("a backup")),
            Some(keys) => {
                let disk: Arc<dyn Media> = Arc::new(RealDisk::new(&full));
                let disk = keys.open(&disk).expect("its key");
                self.store().forget_archive(cedrat::txn::ForgetBefore::Backup(&disk)).expect("a backup");
            }
        }
    }

    /// The page file, or the heaps, are lost; the log is not.
    fn lose(&mut self) {
        let closes = self.random.below(2) == 0;
        self.end(closes);
        if self.random.below(2) == 0 {
            fs::remove_file(self.home.join(PAGE_FILE)).expect("it is there");
        } else {
            fs::remove_dir_all(self.home.join("heaps")).expect("it is there");
        }
        match &self.keys {
            None => drop(cedrat::archive_remaining_log(&self.home, self.archive()).expect("a whole log")),
            Some(keys) => {
                let open = |directory: &Path| {
                    let disk: Arc<dyn Media> = Arc::new(RealDisk::new(directory));
                    keys.open(&disk).expect("its key")
                };
                cedrat_txn::archive_remaining_log(&open(&self.home), &open(&self.archive())).expect("a whole log");
            }
        }
        let to = self.new_directory("store");
        let keys = self.keys.as_ref();
        let newest = RestoreTarget::Newest;
        cedrat::restore_encrypted(&self.chain.directories, Some(&self.archive()), keys, &to, keys, newest)
            .expect("a whole archive");
        fs::remove_dir_all(&self.home).expect("it is there");
        self.home = to;
        self.open();
        self.compare();
        // The restored store knows of no backup that an increment could continue.
        self.back_up(false);
    }

    fn step(&mut self) {
        match self.random.below(26) {
            0..9 => self.change(2, true),
            9..12 => self.change(0, true),
            12 => self.change(1, true),
            13 => {
                let kind = self.random.below(2);
                self.change(kind, false);
            }
            14 => self.store().checkpoint().expect("room"),
            15 => self.reopen(true),
            16 => self.reopen(false),
            17 => self.back_up(false),
            18..20 => self.back_up(true),
            20 => self.stream(),
            21 => self.restore(),
            22 => self.view(),
            23 => self.damage(),
            24 => self.forget(),
            _ => self.lose(),
        }
    }
}

fn apply(state: &mut State, changes: &[Change]) {
    for change in changes {
        match *change {
            Change::Insert { key, version } => drop(state.table.insert(key, version)),
            Change::Remove { key } => drop(state.table.remove(&key)),
            Change::Word { number, version } => drop(state.words.insert(number, version)),
        }
    }
}

/// E18.1, E18.10, E18.17, E18.18, E18.21, E18.22, E18.23.
#[test]
fn random_operations_lose_no_commit() {
    let all: Range<u64> = seeds(HISTORIES);
    for seed in all {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let mut operator = Operator::new(seed);
            (0..STEPS).for_each(|_| operator.step());
            operator.compare();
            operator.restore();
        }));
        if let Err(panic) = caught {
            eprintln!(
                "to repeat the history {seed}: CEDRAT_SEED={} CEDRAT_SEEDS={}",
                seed >> 20,
                (seed & 0xf_ffff) + 1
            );
            std::panic::resume_unwind(panic);
        }
    }
}
