//! Pages that are damaged at home are rebuilt from archive and backup when they are read.

use cedrat_media::{Durability, Loss, Media, OpenMode, SimDisk};
use cedrat_pages::{LayoutKind, PAGE_FILE, PAGE_LEN, PageId, PageRef, WriteBack};
use cedrat_sync::{Arc, thread};
use cedrat_txn::{
    BackupOptions, CATALOGUE, Commit, ForgetBefore, OpenError, Options, Prepared, ScrubOptions, Store, Vote,
    object_cache::*,
};
use cedrat_wal::Lsn;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::common::{self, *};
use crate::kept::{self, Back, TestCache, page_of_records};

/// Returns a disk as a crash leaves it now.
pub(crate) fn after(disk: &SimDisk, loss: Loss) -> SimDisk {
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

pub(crate) fn options_of(archive: &SimDisk, backup: Option<&SimDisk>) -> Options {
    let mut options = Options {
        archive: Some(media(archive)),
        backup: backup.map(media),
        partitions: 2,
        txn_log_limit_bytes: Some(u64::MAX),
        ..options()
    };
    options.archive_run_bytes = 1 << 10;
    options.pool_bytes = 64 << 10;
    options.carry_forward_bytes = Some(1);
    options
}

pub(crate) fn opened(disk: &SimDisk, options: Options) -> Result<Store, OpenError> {
    Store::open(media(disk), options, common::registry().with(kept::register))
}

/// The content of a page apart from its LSN, and from the fields that are set when it is written home.
type Content = (LayoutKind, u64, Vec<u8>);

fn content(page: &PageRef<'_>) -> (Lsn, Content) {
    (page.lsn(), (page.kind(), page.layout_word(), page.body().to_vec()))
}

/// Returns the content of all pages in use.
fn pages_of(store: &Store) -> BTreeMap<PageId, (Lsn, Content)> {
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
    /// Whether a crash loses nothing that was logged.
    is_forced: bool,
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
        let mut world = World {
            random,
            disk,
            to,
            backup: None,
            store,
            cache,
            keeper,
            pages,
            records,
            branches: 0,
            is_forced: false,
        };
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
        let Vote::Prepared(prepared) = txn.prepare(&self.branches.to_le_bytes()).unwrap() else {
            panic!("it has changed")
        };
        match self.random.below(3) {
            0 => prepared.rollback().unwrap(),
            1 => prepared.commit(Commit::Sync).map(drop).unwrap(),
            _ => self.end_later(prepared),
        }
    }

    /// Prepares a branch that has formatted its pages, and stays in doubt.
    fn begin_branch(&mut self) {
        self.branches += 1;
        let mut txn = self.store.begin();
        let page = page_with_zeros(&mut txn).unwrap();
        let records = page_of_records(&mut txn, 2).unwrap();
        for slot in 0..2 {
            txn.update(at(page, slot), &Add { amount: 3 }).unwrap();
            let back = if self.random.below(2) == 0 { Back::CommittedOnly } else { Back::Inverse };
            let by = self.random.below(9);
            // A transaction defers all its changes in one way.
            let _ = self.cache.change(&mut txn, &self.keeper, at(records, slot), by, back);
        }
        let Vote::Prepared(prepared) = txn.prepare(&self.branches.to_le_bytes()).unwrap() else {
            panic!("it has changed")
        };
        drop(prepared);
    }

    /// Commits a branch that is in doubt. The next opening rolls others back.
    fn end_branch(&mut self) {
        if let Some(branch) = self.store.in_doubt().unwrap().first() {
            self.store.prepared(&branch.id).unwrap().commit(Commit::Sync).unwrap();
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

    /// Lets the archive forget what its newest backup does not need.
    fn forget(&mut self) {
        if let Some(backup) = self.backup.as_ref().map(media) {
            self.store.extend_archive().unwrap();
            self.store.forget_archive(ForgetBefore::Backup(&backup)).unwrap();
        }
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
        let loss = if self.is_forced { Loss::Everything } else { self.loss() };
        if self.is_forced {
            self.store.log().force(self.store.log().current_lsn()).unwrap();
        }
        self.disk = after(&self.disk, loss);
        self.to = after(&self.to, Loss::Everything);
        self.store = opened(&self.disk, options_of(&self.to, self.backup.as_ref())).expect("E18.17");
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

    /// Does something with the store.
    fn step(&mut self) {
        match self.random.below(26) {
            23..25 => self.begin_branch(),
            25 => self.end_branch(),
            0..8 => self.change(),
            8..13 => self.defer(),
            13 => self.add_page(),
            14 => self.free_page(),
            15 => drop(self.store.extend_archive().unwrap()),
            16..18 => self.store.checkpoint().unwrap(),
            18 => self.back_up(),
            19 => {
                self.forget();
                self.reopen(); // with that backup
            }
            20 => self.cache.flush_all(&self.store).unwrap(),
            _ => self.reopen(),
        }
    }

    /// Damages a page at home, whether it is in memory or not.
    fn harm_one(&mut self, random: &mut Random) {
        let file = self.disk.open(PAGE_FILE, OpenMode::Read).unwrap();
        let in_use = self.store.pages_in_use().unwrap();
        let page = in_use[random.below(in_use.len() as u64) as usize];
        if page.get() < self.disk.len(file).unwrap() / PAGE_LEN as u64 {
            let kind = if random.below(2) == 0 { Harm::Zeros } else { Harm::Bit(random.below(PAGE_LEN as u64 * 8)) };
            harm(&self.disk, page, kind);
        }
    }

    /// Opens two copies of the store as a crash leaves it, one with damaged pages. Both have the same pages.
    fn compare(&mut self) {
        let loss = self.loss();
        let (disk, to) = (after(&self.disk, loss), after(&self.to, Loss::Everything));
        let copy = || (after(&disk, Loss::Everything), after(&to, Loss::Everything));
        let (sound, archive) = copy();
        let backup = self.backup.clone();
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
            if self.random.below(share) == 0
                && page.get() < harmed.len(harmed.open(PAGE_FILE, OpenMode::Read).unwrap()).unwrap() / PAGE_LEN as u64
            {
                harm(&harmed, page, kind);
            }
        }
        let store = opened(&harmed, options_of(&archive, backup.as_ref())).expect("E18.17");
        for (page, expected) in expected {
            let found = store.read(page).unwrap_or_else(|error| panic!("E18.17: page {page}: {error}"));
            let ((lsn, found), (expected_lsn, expected)) = (content(&found), expected);
            // A flush leaves the LSN of the commit, and redo that of the change.
            assert!(lsn <= expected_lsn && found == expected, "E18.17: page {page}: {lsn} {expected_lsn}");
        }
        store.check().expect("E18.17");
        // Without the archive, which nothing needs any more.
        store.close().unwrap();
        let options = Options { archive: None, backup: None, ..options_of(&archive, None) };
        opened(&after(&harmed, Loss::Everything), options).unwrap().check().expect("E18.17a");
    }
}

/// A store with an archive and many pages, of which few are in memory.
pub(crate) fn many_pages(options: Options, pages: i64) -> (SimDisk, Store, Vec<PageId>) {
    let disk = SimDisk::new();
    let store = opened(&disk, options).unwrap();
    let with_number = |number| {
        let page = |txn: &mut cedrat_txn::Txn| {
            let page = page_with_zeros(txn)?;
            txn.update(at(page, 0), &Add { amount: number })?;
            Ok(page)
        };
        store.transact(page).unwrap()
    };
    let pages = (0..pages).map(with_number).collect();
    store.checkpoint().unwrap();
    (disk, store, pages)
}

/// Reads other pages until this one is not in memory.
pub(crate) fn evict(store: &Store, page: PageId, others: &[PageId]) {
    // Pages that differ from home are evicted last.
    store.pool().write_back(WriteBack::Below(Lsn::MAX)).unwrap();
    while store.pool().is_resident(page) {
        others.iter().filter(|&&other| other != page).for_each(|&other| drop(store.read(other).unwrap()));
    }
}

pub(crate) fn flip_a_bit(disk: &SimDisk, page: PageId) {
    harm(disk, page, Harm::Bit(20_000));
}

/// Threads change pages, of which few are in memory, while pages at home are harmed.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn pages_are_rebuilt_while_threads_run() {
    let to = SimDisk::new();
    let (disk, store, pages) = many_pages(options_of(&to, None), 60);
    thread::scope(|scope| {
        for number in 0..3 {
            let (store, pages) = (store.clone(), &pages);
            scope.spawn(move || {
                let mut random = Random::new(number);
                for _ in 0..300 {
                    let mut pair = [0; 2].map(|_| pages[random.below(60) as usize]);
                    pair.sort_unstable();
                    let amount = random.below(100) as i64;
                    store
                        .transact(|txn| {
                            txn.update(at(pair[0], 0), &Add { amount })?;
                            txn.update(at(pair[1], 0), &Add { amount: -amount })
                        })
                        .unwrap();
                }
            });
        }
        let mut random = Random::new(9);
        while store.pool().stats().pages_rebuilt < 20 {
            flip_a_bit(&disk, pages[random.below(60) as usize]);
            thread::yield_now();
            read_number(&store, at(pages[random.below(60) as usize], 0)).unwrap();
        }
    });
    let sum: i64 = pages.iter().map(|&page| read_number(&store, at(page, 0)).unwrap()).sum();
    assert_eq!(sum, 59 * 60 / 2, "E18.17");
    store.check().unwrap();
}

/// E18.17b: the page alone is refused, with the reason why it was not rebuilt.
#[test]
fn page_without_image_is_refused() {
    let to = SimDisk::new();
    let without = Options { archive: None, ..options_of(&to, None) };
    let (disk, store, pages) = many_pages(without, 40);
    store.close().unwrap();
    let store = opened(&disk, options_of(&to, None)).unwrap();
    flip_a_bit(&disk, pages[7]);
    let error = store.read(pages[7]).map(drop).unwrap_err().to_string();
    assert!(error.contains("the archive begins at LSN") && error.contains("Options::backup"), "E18.17b: {error}");
    assert_eq!(read_number(&store, at(pages[8], 0)).unwrap(), 8);
    store.transact(|txn| txn.update(at(pages[8], 0), &Add { amount: 1 })).unwrap();
    let report = store.scrub(ScrubOptions::default(), |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((report.damaged.len(), report.rebuilt, report.is_complete), (1, 0, true));
    assert!(report.damaged[0].to_string().contains(&format!("page {}", pages[7])), "{:?}", report.damaged);
}

/// E18.17c: the backup is of another store, or of another history of this one.
#[test]
fn page_of_other_backup_is_refused() {
    let to = SimDisk::new();
    let (disk, store, pages) = many_pages(Options { archive: None, ..options_of(&to, None) }, 40);
    store.close().unwrap();
    let store = opened(&disk, options_of(&to, None)).unwrap();
    let copy = SimDisk::new();
    store.backup(&media(&copy), BackupOptions::default()).unwrap();
    drop(store);
    // The copy goes on by itself, and gets a backup that this archive does not continue.
    let other = after(&copy, Loss::Everything);
    let store = opened(&other, Options { archive: None, ..options_of(&to, None) }).unwrap();
    (0..50).for_each(|_| store.transact(|txn| txn.update(at(pages[3], 0), &Add { amount: 1 })).unwrap());
    let backup = SimDisk::new();
    store.backup(&media(&backup), BackupOptions::default()).unwrap();
    let disk = after(&disk, Loss::Everything);
    flip_a_bit(&disk, pages[3]);
    let store = opened(&disk, options_of(&after(&to, Loss::Everything), Some(&backup))).unwrap();
    let error = store.read(pages[3]).map(drop).unwrap_err().to_string();
    assert!(error.contains("a backup that the archive does not continue"), "E18.17c: {error}");
    let mut options = Options { archive: None, ..options_of(&to, None) };
    options.log.store = Some([7; 16]);
    let (foreign, foreign_store, _) = many_pages(options, 4);
    drop(foreign_store);
    let opened = opened(&after(&disk, Loss::Everything), options_of(&SimDisk::new(), Some(&foreign)));
    assert!(opened.err().is_some_and(|error| error.to_string().contains("a backup of another store")), "E18.17c");
}

/// E18.16b: a damaged file of the index is made again when it is read.
#[test]
fn damaged_index_is_made_again() {
    let to = SimDisk::new();
    let (disk, store, pages) = many_pages(options_of(&to, None), 60);
    evict(&store, pages[50], &pages);
    flip_a_bit(&disk, pages[50]);
    assert_eq!(read_number(&store, at(pages[50], 0)).unwrap(), 50);
    for name in to.list("index").unwrap() {
        let file = to.open(&format!("index/{name}"), OpenMode::ReadWrite).unwrap();
        to.write_at(file, 4096 + 9, &[0xFF; 40], Durability::Durable).unwrap();
    }
    evict(&store, pages[3], &pages);
    flip_a_bit(&disk, pages[3]);
    assert_eq!(read_number(&store, at(pages[3], 0)).unwrap(), 3, "E18.16b");
    assert_eq!(store.pool().stats().pages_rebuilt, 2);
}

/// E18.17: its newest change is at home, and was not archived.
#[test]
fn page_is_rebuilt_with_newest_change() {
    let to = SimDisk::new();
    let (disk, store, pages) = many_pages(options_of(&to, None), 40);
    store.transact(|txn| txn.update(at(pages[3], 0), &Add { amount: 100 })).unwrap();
    evict(&store, pages[3], &pages);
    flip_a_bit(&disk, pages[3]);
    assert_eq!(read_number(&store, at(pages[3], 0)).unwrap(), 103, "E18.17");
}

/// A scrub finds damage that was not read, and writes pages home that are in memory.
#[test]
fn scrub_mends_pages() {
    let to = SimDisk::new();
    let (disk, store, pages) = many_pages(options_of(&to, None), 40);
    evict(&store, pages[2], &pages);
    drop(store.read(pages[5]).unwrap());
    store.transact(|txn| txn.update(at(pages[6], 0), &Add { amount: 1 })).unwrap();
    let harmed = [pages[2], pages[5], CATALOGUE, PageId::new(0)];
    harmed.iter().for_each(|&page| flip_a_bit(&disk, page));
    let mut last = 0;
    let report = store.scrub(ScrubOptions::default(), |progress| {
        last = progress.up_to;
        ControlFlow::Continue(())
    });
    let report = report.unwrap();
    assert!(report.damaged.is_empty() && report.is_complete && report.log_records > 0, "{report:?}");
    assert!((1..=4).contains(&report.rebuilt) && last >= 41 && report.pages >= 42, "{report:?}");
    store.close().unwrap();
    let store = opened(&after(&disk, Loss::Everything), Options { archive: None, ..options_of(&to, None) }).unwrap();
    store.check().expect("E18.17a");
    assert!(!store.scrub(ScrubOptions::default(), |_| ControlFlow::Break(())).unwrap().is_complete);
}

/// E18.17d: the rebuilt page has a change that was committed after the state that is being flushed.
#[test]
fn flush_finds_newer_change_in_rebuilt_page() {
    let to = SimDisk::new();
    let (disk, store, others) = many_pages(options_of(&to, None), 40);
    let page = store.transact(|txn| page_of_records(txn, 4)).unwrap();
    let cache = TestCache::new(0);
    let keeper = store.keep_log_for(cache.clone());
    let mix = |by| store.transact(|txn| cache.change(txn, &keeper, at(page, 1), by, Back::CommittedOnly)).unwrap();
    let first = mix(1);
    let flushed = |kept: &KeptRecord<'_>| {
        mix(2);
        evict(&store, page, &others);
        flip_a_bit(&disk, page);
        store.flush_record(kept)
    };
    let bytes = {
        let mut mixed = kept::Mixed::default();
        mixed.mix(1);
        mixed.bytes()
    };
    let kept = KeptRecord { at: at(page, 1), bytes: &bytes, since: first, version: first, committed: first };
    flushed(&kept).expect("E18.17d");
    let found = kept::in_page(&store, at(page, 1)).unwrap().0.unwrap();
    assert_eq!(found.count, 2, "E18.17d: with the commit since");
    cache.flush_all(&store).unwrap();
    assert_eq!(kept::in_page(&store, at(page, 1)).unwrap().0.unwrap(), found);
}

/// A backup is copied from memory where home is damaged, and a free page of which a crash has punched a half is no damage.
#[test]
fn backup_copies_rebuilt_pages() {
    let to = SimDisk::new();
    let (disk, store, pages) = many_pages(options_of(&to, None), 40);
    evict(&store, pages[4], &pages);
    flip_a_bit(&disk, pages[4]);
    let copy = SimDisk::new();
    store.backup(&media(&copy), BackupOptions::default()).unwrap();
    assert_eq!(store.pool().stats().pages_rebuilt, 1);
    let restored = opened(&after(&copy, Loss::Everything), Options { archive: None, ..options_of(&to, None) }).unwrap();
    restored.check().unwrap();
    assert_eq!(read_number(&restored, at(pages[4], 0)).unwrap(), 4);
}

/// E18.17, E18.17a: whatever has changed a page, it is rebuilt as it was, and is sound at home when the store is closed.
#[test]
fn random_pages_are_rebuilt() {
    for seed in seeds(20) {
        let caught = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, seed % 2 == 1);
            for _ in 0..60 {
                match world.random.below(25) {
                    0..8 => world.change(),
                    8..13 => world.defer(),
                    13 => world.add_page(),
                    14 => world.free_page(),
                    15 => drop(world.store.extend_archive().unwrap()),
                    16..18 => world.store.checkpoint().unwrap(),
                    18 => world.back_up(),
                    24 => world.forget(),
                    19..21 => world.reopen(),
                    _ => world.compare(),
                }
            }
        });
        assert!(caught.is_ok(), "seed {seed}");
    }
}

/// E18.17: pages are damaged at home again and again while the store runs, and when it recovers. A twin without damage has the same
/// pages at each time.
#[test]
fn store_with_damage_equals_its_twin() {
    for seed in seeds(20) {
        let caught = std::panic::catch_unwind(|| {
            let mut twins = [(); 2].map(|()| World::new(seed, seed % 2 == 1));
            for world in &mut twins {
                world.is_forced = true;
                world.reopen(); // with its backup
            }
            let mut random = Random::new(seed + 7);
            for step in 0..100 {
                twins.iter_mut().for_each(World::step);
                (0..random.below(6)).for_each(|_| twins[1].harm_one(&mut random));
                if step % 10 == 9 {
                    let pages = twins.each_ref().map(|world| {
                        world.cache.flush_all(&world.store).expect("E18.17d");
                        pages_of(&world.store).into_iter().map(|(page, (_, found))| (page, found)).collect::<Vec<_>>()
                    });
                    for (sound, harmed) in pages[0].iter().zip(&pages[1]) {
                        assert!(sound == harmed, "E18.17: page {} in step {step}", sound.0);
                    }
                    assert_eq!(pages[0].len(), pages[1].len());
                }
            }
        });
        assert!(caught.is_ok(), "seed {seed}");
    }
}
