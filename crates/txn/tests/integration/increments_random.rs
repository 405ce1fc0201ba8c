//! Chains of increments of a store that changes at random, also while it is backed up: with branches in doubt, deferred changes, heaps
//! that come, go and grow, crashes, and backups that fail.

use cedrat_heap::HeapOptions;
use cedrat_media::{Call, Fault, Loss, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_txn::{
    BackupOptions, CATALOGUE, Commit, Options, RecordId, Store, Txn, Vote, check_backup, object_cache::*,
};
use std::collections::BTreeMap;
use std::io::ErrorKind;

use crate::common::{self, *};
use crate::increments::{chain, restored};
use crate::kept::{self, Back, TestCache, page_of_records};

const CHUNK_LEN: u64 = 4096;
const HEAPS: [&str; 2] = ["one", "two"];

/// A store that changes at random.
struct World {
    random: Random,
    disk: SimDisk,
    store: Option<Store>,
    cache: Arc<TestCache>,
    keeper: Option<Keeper>,
    pages: Vec<PageId>,
    records: Vec<PageId>,
    branches: u64,
    /// The records that branches in doubt have changed, and whether an earlier opening has.
    held: BTreeMap<Vec<u8>, (Vec<RecordId>, bool)>,
}

fn opened(disk: &SimDisk) -> Store {
    let options = Options { partitions: 2, pool_bytes: 64 << 10, carry_forward_bytes: Some(1), ..options() };
    Store::open(media(disk), options, common::registry().with(kept::register)).expect("it opens")
}

/// The state of a store as its opening leaves it.
#[derive(Debug, PartialEq)]
struct State {
    pages: BTreeMap<PageId, (u64, Vec<u8>)>,
    words: BTreeMap<String, Vec<u64>>,
    in_doubt: Vec<Vec<u8>>,
}

fn state(disk: &SimDisk) -> State {
    let store = opened(&SimDisk::from_image(disk.image()));
    store.check().expect("it is sound");
    let in_use = store.pages_in_use().unwrap().into_iter().chain([PageId::new(0), CATALOGUE]);
    let pages = in_use.map(|page| {
        let page = store.read(page).unwrap();
        (page.id(), (page.layout_word(), page.body().to_vec()))
    });
    let pages = pages.collect();
    let mut words = BTreeMap::new();
    for name in HEAPS {
        if let Ok(heap) = store.memory().heap(name) {
            let read = |word| store.memory().run(Commit::Async, |tx| tx.read(&heap, 8 * word)).unwrap().value;
            words.insert(name.to_owned(), (0..heap.size() / 8).map(read).collect());
        }
    }
    let mut in_doubt: Vec<Vec<u8>> = store.in_doubt().unwrap().into_iter().map(|branch| branch.id.clone()).collect();
    in_doubt.sort();
    State { pages, words, in_doubt }
}

impl World {
    fn new(seed: u64) -> World {
        let disk = SimDisk::new();
        let store = Some(opened(&disk));
        let (random, cache) = (Random::new(seed), TestCache::new(2));
        let mut world = World {
            random,
            disk,
            store,
            cache,
            keeper: None,
            pages: vec![],
            records: vec![],
            branches: 0,
            held: BTreeMap::new(),
        };
        world.keep();
        (0..6).for_each(|_| world.add());
        world.replace_heap();
        world
    }

    fn store(&self) -> Store {
        self.store.clone().expect("it is open")
    }

    fn keep(&mut self) {
        self.cache = TestCache::new(1 + self.random.below(3));
        self.keeper = Some(self.store().keep_log_for(self.cache.clone()));
    }

    fn any(&mut self, of_records: bool) -> PageId {
        let list = if of_records { &self.records } else { &self.pages };
        list[self.random.below(list.len() as u64) as usize]
    }

    fn add(&mut self) {
        self.pages.push(self.store().transact(page_with_zeros).unwrap());
        if self.random.below(3) == 0 || self.records.len() < 3 {
            self.records.push(self.store().transact(|txn| page_of_records(txn, 4)).unwrap());
        }
    }

    /// Adds and frees many pages, so that their space is returned.
    fn add_and_free(&mut self) {
        let store = self.store();
        if self.random.below(2) == 0 {
            self.pages.extend((0..40).map(|_| store.transact(page_with_zeros).unwrap()));
        } else if self.pages.len() > 4 {
            let freed = self.pages.split_off(4);
            store.transact(|txn| freed.iter().try_for_each(|&page| txn.free(page))).unwrap();
        }
    }

    fn replace_heap(&mut self) {
        let store = self.store();
        let name = HEAPS[self.random.below(2) as usize];
        if self.random.below(2) == 0 {
            drop(store.memory().drop_heap(name));
        }
        let size = (1 + self.random.below(4)) * CHUNK_LEN;
        let options = HeapOptions { chunk_len: CHUNK_LEN, size, ..HeapOptions::raw(8 * CHUNK_LEN) };
        drop(store.memory().create_heap(name, &options));
    }

    fn change(&mut self) {
        let mut txn = self.store().begin();
        for _ in 0..=self.random.below(3) {
            let place = at(self.any(false), self.random.below(8) as u16);
            txn.update(place, &Add { amount: 3 }).unwrap();
        }
        self.write(&mut txn);
        let mode = if self.random.below(2) == 0 { Commit::Sync } else { Commit::Async };
        match self.random.below(4) {
            0 => txn.rollback().unwrap(),
            _ => drop(txn.commit(mode).unwrap()),
        }
    }

    fn write(&mut self, txn: &mut Txn) {
        let name = HEAPS[self.random.below(2) as usize];
        let Ok(heap) = self.store().memory().heap(name) else { return };
        let (word, value) = (self.random.below(heap.size() / 8) * 8, self.random.below(3));
        drop(txn.heap(|tx| tx.write(&heap, word, value)));
    }

    fn defer(&mut self) {
        let mut txn = self.store().begin();
        let back = if self.random.below(2) == 0 { Back::CommittedOnly } else { Back::Inverse };
        let mut changed = Vec::new();
        for _ in 0..2 {
            let place = at(self.any(true), self.random.below(4) as u16);
            if !self.cache.is_pending(place) && !self.held.values().any(|(held, _)| held.contains(&place)) {
                changed.push(place);
                let by = self.random.below(9);
                self.cache.change(&mut txn, self.keeper.as_ref().unwrap(), place, by, back).unwrap();
            }
        }
        match self.random.below(4) {
            0 => txn.rollback().unwrap(),
            1 | 2 => {
                self.branches += 1;
                let id = self.branches.to_le_bytes();
                if let Vote::Prepared(branch) = txn.prepare(&id).unwrap() {
                    drop(branch);
                    self.held.insert(id.to_vec(), (changed, false));
                }
            }
            _ => drop(txn.commit(Commit::Sync).unwrap()),
        }
    }

    fn end_branch(&mut self) {
        let store = self.store();
        let branches = store.in_doubt().unwrap();
        if let Some(branch) = branches.get(self.random.below(3) as usize) {
            let (held, is_older) = self.held.remove(&branch.id).expect("it is in doubt");
            held.iter().filter(|_| is_older).for_each(|&at| self.cache.forget(at));
            let prepared = store.prepared(&branch.id).unwrap();
            match self.random.below(4) {
                0 => prepared.rollback().unwrap(),
                _ => drop(prepared.commit(Commit::Sync).unwrap()),
            }
        }
    }

    fn reopen(&mut self) {
        let store = self.store();
        if self.random.below(2) == 0 {
            store.log().force(store.log().current_lsn()).unwrap();
        }
        drop((self.keeper.take(), self.store.take(), store));
        let loss = match self.random.below(3) {
            0 => Loss::Everything,
            1 => Loss::Nothing,
            _ => Loss::Random(self.random.below(1 << 40)),
        };
        self.disk = self.disk.journal().crash(self.disk.journal_len(), loss);
        self.store = Some(opened(&self.disk));
        self.keep();
        let in_doubt = self.store().in_doubt().unwrap();
        self.held.retain(|id, _| in_doubt.iter().any(|branch| branch.id[..] == id[..]));
        self.held.values_mut().for_each(|(_, is_older)| *is_older = true);
        let in_use = self.store().pages_in_use().unwrap();
        self.pages.retain(|page| in_use.contains(page));
        self.records.retain(|page| in_use.contains(page));
        self.add();
    }

    /// A step that leaves the store open.
    fn small_step(&mut self) {
        match self.random.below(22) {
            0..6 => self.change(),
            6..10 => self.defer(),
            10..12 => self.end_branch(),
            12 => self.add(),
            13..15 => self.add_and_free(),
            15..18 => self.store().checkpoint().unwrap(),
            18 => self.replace_heap(),
            19 => drop(self.cache.flush_all(&self.store())),
            _ => (0..5).for_each(|_| self.change()),
        }
    }

    fn step(&mut self) {
        if self.random.below(12) == 0 { self.reopen() } else { self.small_step() }
    }

    /// Backs up, while the store changes. `None`: the backup has failed, as it may.
    fn back_up(&mut self, earlier: Option<&[SimDisk]>) -> Option<SimDisk> {
        let (store, to) = (self.store(), SimDisk::new());
        let earlier = earlier.map(|earlier| chain(earlier).expect("E18.19"));
        let fails = earlier.is_some() && self.random.below(6) == 0;
        if fails {
            to.inject(Fault::error(Call::Write, ErrorKind::Other).nth(1 + self.random.below(30)));
        }
        let every = 1 + self.random.below(6);
        let mut progress = |_| {
            if self.random.below(every) == 0 {
                self.small_step();
            }
        };
        let options =
            BackupOptions { since: earlier.as_ref(), progress: Some(&mut progress), ..BackupOptions::default() };
        let copied = store.backup(&media(&to), options);
        if let Err(error) = &copied {
            assert!(fails, "E18.18: {error}");
        }
        copied.ok().map(|_| to.cut_power(Loss::Everything))
    }
}

/// E18.18: a chain restores the state that the store had at its end, whatever happened meanwhile.
#[test]
fn chain_has_state_of_store() {
    for seed in seeds(10) {
        let mut world = World::new(seed);
        let mut backups = Vec::new();
        for _ in 0..8 {
            (0..world.random.below(25)).for_each(|_| world.step());
            let earlier = (!backups.is_empty()).then_some(&backups[..]);
            let Some(backup) = world.back_up(earlier) else { continue };
            let expected = state(&world.disk);
            backups.push(backup);
            let to = restored(&backups).expect("E18.18");
            let found = state(&to);
            for (page, expected) in &expected.pages {
                assert!(found.pages.get(page) == Some(expected), "E18.18: seed {seed}: page {page}");
            }
            assert!(found == expected, "E18.18: seed {seed}");
            let check = check_backup(chain(&backups).unwrap().media(), None).unwrap();
            assert!(check.problems.is_empty() && !check.was_opened, "E18.18: seed {seed}: {check:?}");
            match world.random.below(8) {
                0 => backups.clear(),
                1 => backups = vec![to],
                2 => backups.truncate(1),
                3 => world.reopen(),
                _ => {}
            }
        }
    }
}

/// E18.3a: the page file grows while it is copied.
#[test]
fn backup_has_pages_allocated_meanwhile() {
    for is_increment in [false, true] {
        let mut world = World::new(1);
        let before = world.back_up(None).expect("no call fails");
        let (store, to) = (world.store(), SimDisk::new());
        let len = store.pool().file_len();
        let earlier = is_increment.then(|| chain(std::slice::from_ref(&before)).expect("it is whole"));
        let mut progress = |_| while store.transact(page_with_zeros).unwrap().file_offset() < len {};
        let options =
            BackupOptions { since: earlier.as_ref(), progress: Some(&mut progress), ..BackupOptions::default() };
        store.backup(&media(&to), options).expect("E18.3a");
        drop(earlier);
        let backups = if is_increment { vec![before, to] } else { vec![to] };
        assert_eq!(state(&restored(&backups).expect("E18.3a")), state(&world.disk), "E18.3a");
    }
}
