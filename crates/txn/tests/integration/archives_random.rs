//! Random histories of a store with an archive: crashes, prepared branches, lost tails, backups, restores of restored stores.

use cedrat_heap::HeapOptions;
use cedrat_media::{Loss, SimDisk};
use cedrat_pages::{LayoutKind, PageId};
use cedrat_txn::{
    BackupOptions, Commit, ForgetBefore, FormatFresh, Options, Prepared, RecordId, RestoreTarget, Store, View, Vote,
    archive_remaining_log, open_as_of, restore,
};
use cedrat_wal::{FoundArchive, Log, LogError, Lsn};

use crate::common::*;

/// The state after an LSN: the sum of all commits, and the number of branches in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    sum: i64,
    in_doubt: usize,
}

struct World {
    random: Random,
    disk: SimDisk,
    to: SimDisk,
    store: Option<Store>,
    page: PageId,
    branches: u64,
    now: State,
    states: Vec<(Lsn, State)>,
    backups: Vec<SimDisk>,
}

fn opened(disk: &SimDisk, to: Option<&SimDisk>) -> Store {
    let archive = to.map(media);
    Store::open(media(disk), Options { archive, partitions: 3, ..options() }, registry()).expect("E18.9")
}

fn scan_lsn(backup: &SimDisk) -> Lsn {
    Log::look(&media(backup)).unwrap().control().checkpoint.scan_lsn
}

fn state_of(store: &Store, page: PageId) -> State {
    let sum = read_number(store, at(page, 0)).unwrap();
    let heap = store.memory().heap("words").unwrap();
    let word = store.memory().run(Commit::Async, |tx| tx.read(&heap, 0)).unwrap().value;
    assert_eq!(word as i64, sum, "E18.10: of one moment");
    State { sum, in_doubt: store.in_doubt().unwrap().len() }
}

impl World {
    fn new(seed: u64) -> World {
        let (disk, to) = (SimDisk::new(), SimDisk::new());
        let store = opened(&disk, Some(&to));
        let page = store.transact(page_with_zeros).unwrap();
        let options = HeapOptions { chunk_len: 4096, size: 4096, ..HeapOptions::raw(1 << 16) };
        store.memory().create_heap("words", &options).unwrap();
        let random = Random::new(seed);
        let (now, states) = (State { sum: 0, in_doubt: 0 }, Vec::new());
        World { random, disk, to, store: Some(store), page, branches: 0, now, states, backups: Vec::new() }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn note(&mut self) {
        let lsn = self.store().log().current_lsn();
        self.states.push((lsn, self.now));
    }

    fn add(&mut self) {
        let mode = if self.random.below(2) == 0 { Commit::Sync } else { Commit::Async };
        let heap = self.store().memory().heap("words").unwrap();
        let mut txn = self.store().begin();
        txn.heap(|tx| tx.update(&heap, 0, |value| value + 1)).unwrap();
        txn.update(at(self.page, 0), &Add { amount: 1 }).unwrap();
        txn.commit(mode).unwrap();
        self.now.sum += 1;
        self.note();
    }

    /// Allocates many pages at once, and changes the last one.
    fn grow(&mut self) {
        let pages = 1 + self.random.below(120);
        let grown = self.store().transact(|txn| {
            let last = (0..pages).try_fold(None, |_, _| txn.allocate().map(Some))?.expect("a page");
            txn.update(RecordId::page(last), &FormatFresh::new(LayoutKind::RAW))?;
            txn.update(at(last, 0), &Add { amount: 1 })
        });
        grown.unwrap();
        self.note();
    }

    fn lose(&mut self) {
        let mut txn = self.store().begin();
        txn.update(at(self.page, 1), &Add { amount: 1 }).unwrap();
        txn.rollback().unwrap();
        self.note();
    }

    fn prepare(&mut self) {
        self.branches += 1;
        let id = self.branches.to_le_bytes();
        let mut txn = self.store().begin();
        // Each branch has a page of its own.
        page_with_zeros(&mut txn).unwrap();
        let Vote::Prepared(prepared) = txn.prepare(&id).unwrap() else { panic!("it has changed something") };
        drop::<Prepared>(prepared);
        self.now.in_doubt += 1;
        self.note();
    }

    fn decide(&mut self) {
        let Some(branch) = self.store().in_doubt().unwrap().into_iter().next() else { return };
        let prepared = self.store().prepared(&branch.id).unwrap();
        if self.random.below(2) == 0 {
            prepared.commit(Commit::Sync).unwrap();
        } else {
            prepared.rollback().unwrap();
        }
        self.now.in_doubt -= 1;
        self.note();
    }

    fn reopen(&mut self) {
        let store = self.store.take().expect("it is open");
        let image = if self.random.below(3) == 0 {
            store.close().unwrap();
            self.disk.journal().crash(self.disk.journal_len(), Loss::Everything)
        } else {
            let seed = self.random.below(1 << 40);
            let image = self.disk.journal().crash(self.disk.journal_len(), Loss::Random(seed));
            drop(store);
            image
        };
        self.go_on(image);
    }

    fn go_on(&mut self, disk: SimDisk) {
        self.disk = disk;
        let end = Log::look(&media(&self.disk)).unwrap().end_lsn();
        self.states.retain(|&(lsn, _)| lsn < end);
        self.to = self.to.journal().crash(self.to.journal_len(), Loss::Everything);
        let remaining = (self.random.below(2) == 0)
            .then(|| archive_remaining_log(&media(&self.disk), &media(&self.to)).expect("E18.23"));
        assert!(remaining.is_none_or(|remaining| remaining.up_to == end.previous()), "E18.23");
        let store = opened(&self.disk, Some(&self.to));
        self.now = state_of(&store, self.page);
        // A commit may be there whose last record is lost.
        assert!(self.states.last().is_none_or(|(_, state)| state.sum <= self.now.sum), "E18.9");
        self.store = Some(store);
        self.note();
    }

    fn back_up(&mut self) {
        let to = SimDisk::new();
        self.store().backup(&media(&to), BackupOptions::default()).unwrap();
        self.backups.push(to.journal().crash(to.journal_len(), Loss::Everything));
    }

    fn forget(&mut self) {
        let Some(index) = (self.random.below(1 << 20) as usize).checked_rem(self.backups.len()) else { return };
        self.store().extend_archive().unwrap();
        let before = self.to.journal_len();
        match self.store().forget_archive(ForgetBefore::Backup(&media(&self.backups[index]))) {
            Err(cedrat_txn::Error::Log(LogError::ArchiveBeginsLater { .. })) => {}
            forgotten => drop(forgotten.expect("E18.13")),
        }
        let begins = self.begins();
        self.backups.retain(|backup| scan_lsn(backup) >= begins);
        if self.random.below(2) == 0 {
            // Power of the archive's disk fails.
            let len = self.to.journal_len();
            let at = (before as u64 + 1 + self.random.below((len - before) as u64 + 1)).min(len as u64);
            drop(self.store.take());
            let seed = self.random.below(1 << 40);
            self.to = self.to.journal().crash(at as usize, Loss::Random(seed));
            self.go_on(self.disk.journal().crash(self.disk.journal_len(), Loss::Everything));
        }
    }

    /// Returns the first LSN of the archive.
    fn begins(&self) -> Lsn {
        FoundArchive::look(&media(&self.to)).expect("E18.13b").lsns().0
    }

    /// Reads a view of a moment, which has no prepared branch.
    fn view(&self, backup: &SimDisk, target: Lsn, state: State) {
        let images = || (backup.image().hash(), self.to.image().hash());
        let before = images();
        let view = View {
            backup: media(backup),
            archive: Some(media(&self.to)),
            moment: RestoreTarget::Lsn(target),
            scratch: media(&SimDisk::new()),
        };
        let (view, _) = open_as_of(&view, Options { partitions: 3, ..options() }, registry()).expect("E18.22");
        assert_eq!(state_of(&view, self.page), State { in_doubt: 0, ..state }, "E18.22: {target}");
        view.check().expect("E18.22");
        drop(view);
        assert_eq!(images(), before, "E18.22a");
    }

    fn restore(&mut self) {
        if self.backups.is_empty() {
            return;
        }
        let last = self.store().extend_archive().unwrap();
        let backup = self.backups[self.random.below(self.backups.len() as u64) as usize].clone();
        let first = Log::look(&media(&backup)).unwrap().end_lsn().previous();
        let noted: Vec<_> = self.states.iter().filter(|&&(lsn, _)| first <= lsn && lsn <= last).copied().collect();
        if noted.is_empty() {
            return;
        }
        let (target, state) = noted[self.random.below(noted.len() as u64) as usize];
        self.view(&backup, target, state);
        let to = SimDisk::new();
        restore(&media(&backup), Some(&media(&self.to)), &media(&to), RestoreTarget::Lsn(target)).expect("E18.10");
        let mut to = to.journal().crash(to.journal_len(), Loss::Everything);
        for sum in state.sum..state.sum + 2 {
            let store = opened(&to, None);
            assert_eq!(state_of(&store, self.page), State { sum, ..state }, "E18.10: {target}");
            store.check().unwrap();
            let heap = store.memory().heap("words").unwrap();
            let mut txn = store.begin();
            txn.heap(|tx| tx.update(&heap, 0, |value| value + 1)).unwrap();
            txn.update(at(self.page, 0), &Add { amount: 1 }).unwrap();
            txn.commit(Commit::Sync).unwrap();
            drop((store, heap));
            to = to.journal().crash(to.journal_len(), Loss::Everything);
        }
        if self.random.below(4) == 0 {
            let to = SimDisk::new();
            restore(&media(&backup), Some(&media(&self.to)), &media(&to), RestoreTarget::Newest).expect("E18.10");
            drop(self.store.take());
            let end = Log::look(&media(&to)).unwrap().end_lsn();
            self.backups.retain(|backup| Log::look(&media(backup)).unwrap().end_lsn() <= end);
            self.go_on(to.journal().crash(to.journal_len(), Loss::Everything));
        }
    }
}

/// E18.9, E18.10.
#[test]
fn random_stores_are_archived_and_restored() {
    for seed in seeds(12) {
        let caught = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..80 {
                match world.random.below(25) {
                    0..8 => world.add(),
                    8..10 => world.grow(),
                    10 => world.lose(),
                    11 => world.prepare(),
                    12 => world.decide(),
                    13 => drop(world.store().extend_archive().unwrap()),
                    14..16 => world.store().checkpoint().unwrap(),
                    16..18 => world.reopen(),
                    18 => world.back_up(),
                    24 => world.forget(),
                    _ => world.restore(),
                }
            }
        });
        assert!(caught.is_ok(), "seed {seed}");
    }
}
