//! Pages that are damaged at home are rebuilt from archive and backup when they are read.

use cedrat_media::{Durability, Loss, Media, OpenMode, SimDisk};
use cedrat_pages::{LayoutKind, PAGE_FILE, PAGE_LEN, PageId, PageRef};
use cedrat_sync::Arc;
use cedrat_txn::{BackupOptions, CATALOGUE, Commit, OpenError, Options, Prepared, Store, Vote, object_cache::*};
use cedrat_wal::Lsn;
use std::collections::BTreeMap;

use crate::common::{self, *};
use crate::kept::{self, Back, TestCache, page_of_records};

struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound.max(1)
    }
}

fn media(disk: &SimDisk) -> Arc<dyn Media> {
    Arc::new(disk.clone())
}

/// Returns a disk as a crash leaves it now.
fn after(disk: &SimDisk, loss: Loss) -> SimDisk {
    disk.journal().crash(disk.journal_len(), loss)
}

/// The kinds of damage of a page at home.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// One bit differs.
    Bit(u64),
    /// The write was lost: the page reads as zeros.
    Zeros,
    /// Another page was written to its place.
    Misdirected,
}

fn harm(disk: &SimDisk, page: PageId, harm: Harm) {
    let file = disk.open(PAGE_FILE, OpenMode::ReadWrite).unwrap();
    let (begin, mut bytes) = (page.get() * PAGE_LEN as u64, vec![0; PAGE_LEN]);
    let from = if let Harm::Misdirected = harm { (page.get() ^ 1) * PAGE_LEN as u64 } else { begin };
    disk.read_at(file, from, &mut bytes).unwrap();
    match harm {
        Harm::Bit(bit) => bytes[bit as usize / 8 % PAGE_LEN] ^= 1 << (bit % 8),
        Harm::Zeros => bytes.fill(0),
        Harm::Misdirected => {}
    }
    disk.write_at(file, begin, &bytes, Durability::Durable).unwrap();
}

fn options_of(archive: &SimDisk, backup: Option<&SimDisk>) -> Options {
    let mut options = Options {
        archive: Some(media(archive)),
        backup: backup.map(media),
        partitions: 2,
        txn_log_limit_bytes: Some(u64::MAX),
        ..options()
    };
    options.archive_run_bytes = 1 << 10;
    options.pool_bytes = 64 << 10;
    options
}

fn opened(disk: &SimDisk, options: Options) -> Result<Store, OpenError> {
    Store::open(media(disk), options, common::registry().with(kept::register))
}

/// Returns what a page has apart from the fields that are set when it is written home.
fn content(page: &PageRef<'_>) -> (Lsn, (LayoutKind, u64, Vec<u8>)) {
    (page.lsn(), (page.kind(), page.layout_word(), page.body().to_vec()))
}

/// Returns the content of all pages in use.
fn pages_of(store: &Store) -> BTreeMap<PageId, (Lsn, (LayoutKind, u64, Vec<u8>))> {
    let in_use = store.pages_in_use().unwrap().into_iter().chain([PageId::new(0), CATALOGUE]);
    in_use.map(|page| (page, content(&store.read(page).unwrap()))).collect()
}

/// A store with an archive, whose pages are changed in all ways.
struct World {
    random: Random,
    disk: SimDisk,
    to: SimDisk,
    backup: Option<SimDisk>,
    store: Store,
    cache: Arc<TestCache>,
    keeper: Keeper,
    pages: Vec<PageId>,
    records: Vec<PageId>,
    branches: u64,
}

impl World {
    /// `late`: the archive begins when the store has been in use.
    fn new(seed: u64, late: bool) -> World {
        let (disk, to) = (SimDisk::new(), SimDisk::new());
        let options = options_of(&to, None);
        let store = opened(&disk, Options { archive: None, ..options.clone() }).unwrap();
        let pages = (0..4).map(|_| store.transact(page_with_zeros).unwrap()).collect();
        let records = (0..4).map(|_| store.transact(|txn| page_of_records(txn, 4)).unwrap()).collect();
        let disk = if late {
            store.close().unwrap();
            disk
        } else {
            drop(store);
            SimDisk::new()
        };
        let store = opened(&disk, options).unwrap();
        let cache = TestCache::new(1);
        let keeper = store.keep_log_for(cache.clone());
        let random = Random::new(seed);
        let mut world = World { random, disk, to, backup: None, store, cache, keeper, pages, records, branches: 0 };
        if !late {
            (world.pages, world.records) = (Vec::new(), Vec::new());
            (0..4).for_each(|_| world.add_page());
        } else {
            world.back_up();
        }
        world
    }

    fn add_page(&mut self) {
        self.pages.push(self.store.transact(page_with_zeros).unwrap());
        self.records.push(self.store.transact(|txn| page_of_records(txn, 4)).unwrap());
    }

    fn free_page(&mut self) {
        let number = self.random.below(self.pages.len() as u64) as usize;
        if self.pages.len() > 3 {
            let page = self.pages.swap_remove(number);
            self.store.transact(|txn| txn.free(page)).unwrap();
        }
    }

    fn any(&mut self, of_records: bool) -> PageId {
        let list = if of_records { &self.records } else { &self.pages };
        list[self.random.below(list.len() as u64) as usize]
    }

    fn change(&mut self) {
        let mut txn = self.store.begin();
        let mode = if self.random.below(2) == 0 { Commit::Sync } else { Commit::Async };
        for _ in 0..=self.random.below(3) {
            let place = at(self.any(false), self.random.below(8) as u16);
            txn.update(place, &Add { amount: 3 }).unwrap();
        }
        match self.random.below(4) {
            0 => txn.rollback().unwrap(),
            _ => drop(txn.commit(mode).unwrap()),
        }
    }

    fn defer(&mut self) {
        let mut txn = self.store.begin();
        let back = if self.random.below(2) == 0 { Back::CommittedOnly } else { Back::Inverse };
        let begin = txn.savepoint();
        let (first, last) = (at(self.any(true), self.random.below(4) as u16), at(self.any(true), 0));
        self.cache.change(&mut txn, &self.keeper, first, self.random.below(9), back).unwrap();
        if self.random.below(4) == 0 {
            txn.rollback_to(begin).unwrap();
        }
        self.cache.change(&mut txn, &self.keeper, last, self.random.below(9), back).unwrap();
        match self.random.below(4) {
            0 => txn.rollback().unwrap(),
            1 => self.prepare(txn),
            _ => drop(txn.commit(Commit::Sync).unwrap()),
        }
    }

    fn prepare(&mut self, txn: cedrat_txn::Txn) {
        self.branches += 1;
        let Vote::Prepared(prepared) = txn.prepare(&self.branches.to_le_bytes()).unwrap() else { panic!("it has changed") };
        match self.random.below(3) {
            0 => prepared.rollback().unwrap(),
            1 => prepared.commit(Commit::Sync).map(drop).unwrap(),
            _ => self.end_later(prepared),
        }
    }

    /// Leaves the branch to the next opening.
    fn end_later(&mut self, prepared: Prepared) {
        drop(prepared);
        self.reopen();
    }

    fn back_up(&mut self) {
        let to = SimDisk::new();
        self.store.backup(&media(&to), BackupOptions::default()).unwrap();
        self.backup = Some(after(&to, Loss::Everything));
    }

    fn loss(&mut self) -> Loss {
        match self.random.below(3) {
            0 => Loss::Everything,
            1 => Loss::Nothing,
            _ => Loss::Random(self.random.below(1 << 40)),
        }
    }

    /// Goes on with the store after a crash, and ends the branches that it leaves.
    fn reopen(&mut self) {
        let loss = self.loss();
        self.disk = after(&self.disk, loss);
        self.to = after(&self.to, Loss::Everything);
        self.store = opened(&self.disk, options_of(&self.to, self.backup.as_ref())).expect("E18.14");
        self.cache = TestCache::new(1);
        self.keeper = self.store.keep_log_for(self.cache.clone());
        for branch in self.store.in_doubt().unwrap() {
            let prepared = self.store.prepared(&branch.id).unwrap();
            let commits = self.random.below(2) == 0;
            if commits { prepared.commit(Commit::Sync).map(drop).unwrap() } else { prepared.rollback().unwrap() }
        }
        let in_use = self.store.pages_in_use().unwrap();
        self.pages.retain(|page| in_use.contains(page));
        self.records.retain(|page| in_use.contains(page));
        self.add_page();
    }

    /// Opens two copies of the store as a crash leaves it, one with damaged pages. Both have the same pages.
    fn compare(&mut self) {
        let loss = self.loss();
        let (disk, to) = (after(&self.disk, loss), after(&self.to, Loss::Everything));
        let copy = || (after(&disk, Loss::Everything), after(&to, Loss::Everything));
        let (sound, archive) = copy();
        let backup = if self.random.below(3) > 0 || self.pages_precede_archive() { self.backup.clone() } else { None };
        let store = opened(&sound, options_of(&archive, backup.as_ref())).unwrap();
        let expected = pages_of(&store);
        let (harmed, archive) = copy();
        let share = 1 + self.random.below(4);
        for &page in expected.keys() {
            let kind = match self.random.below(3) {
                0 => Harm::Zeros,
                1 => Harm::Misdirected,
                _ => Harm::Bit(self.random.below(PAGE_LEN as u64 * 8)),
            };
            if self.random.below(share) == 0 && page.get() < harmed.len(harmed.open(PAGE_FILE, OpenMode::Read).unwrap()).unwrap() / PAGE_LEN as u64 {
                harm(&harmed, page, kind);
            }
        }
        let store = opened(&harmed, options_of(&archive, backup.as_ref())).expect("E18.14");
        for (page, expected) in expected {
            let found = store.read(page).unwrap_or_else(|error| panic!("E18.14: page {page}: {error}"));
            let ((lsn, found), (expected_lsn, expected)) = (content(&found), expected);
            // A flush leaves the LSN of the commit, and redo that of the change.
            assert!(lsn <= expected_lsn && found == expected, "E18.14: page {page}: {lsn} {expected_lsn}");
        }
        store.check().expect("E18.14");
    }

    fn pages_precede_archive(&self) -> bool {
        self.backup.is_some()
    }
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|number: String| number.parse().ok());
    number("CEDRAT_ARCHIVE_SEEDS_FROM").unwrap_or(0)..number("CEDRAT_ARCHIVE_SEEDS").unwrap_or(20)
}

/// E18.14: whatever has changed a page, it is rebuilt as it was.
#[test]
fn random_pages_are_rebuilt() {
    for seed in seeds() {
        let caught = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, seed % 2 == 1);
            for _ in 0..60 {
                match world.random.below(24) {
                    0..8 => world.change(),
                    8..13 => world.defer(),
                    13 => world.add_page(),
                    14 => world.free_page(),
                    15 => drop(world.store.extend_archive().unwrap()),
                    16..18 => world.store.checkpoint().unwrap(),
                    18 => world.back_up(),
                    19..21 => world.reopen(),
                    _ => world.compare(),
                }
            }
        });
        assert!(caught.is_ok(), "seed {seed}");
    }
}
