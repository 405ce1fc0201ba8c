//! Incremental backups: what a chain restores, and which chains are refused.

use cedrat_heap::HeapOptions;
use cedrat_media::{Call, Durability, Fault, Image, Loss, Media, OpenMode, SimDisk};
use cedrat_pages::{PAGE_FILE, PageId};
use cedrat_sync::{Arc, Mutex};
use cedrat_txn::{
    BackupChain, BackupOptions, Commit, Error, Options, RestoreTarget, Result, Store, Txn, check_backup, restore,
    restore_stream,
};
use cedrat_wal::{LogError, LogOptions};
use std::io::Write;

use crate::common::*;

const CHUNK_LEN: u64 = 4096;

/// A store that changes at random.
struct World {
    random: Random,
    disk: SimDisk,
    store: Option<Store>,
    pages: Vec<PageId>,
}

fn opened(disk: &SimDisk) -> Store {
    Store::open(media(disk), Options { partitions: 2, ..options() }, registry()).expect("it opens")
}

impl World {
    fn new(seed: u64) -> World {
        World::named(seed, [1; 16])
    }

    fn named(seed: u64, name: [u8; 16]) -> World {
        let disk = SimDisk::new();
        let log = LogOptions { store: Some(name), ..options().log };
        let options = Options { partitions: 2, log, ..options() };
        let store = Some(Store::open(media(&disk), options, registry()).expect("it is created"));
        let mut world = World { random: Random::new(seed), disk, store, pages: Vec::new() };
        world.create_heap("words");
        (0..20).for_each(|_| world.allocate());
        world
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn create_heap(&self, name: &str) {
        let size = 4 * CHUNK_LEN;
        let options = HeapOptions { chunk_len: CHUNK_LEN, size, ..HeapOptions::raw(8 * CHUNK_LEN) };
        self.store().memory().create_heap(name, &options).unwrap();
    }

    fn allocate(&mut self) {
        self.pages.push(self.store().transact(page_with_zeros).unwrap());
    }

    fn free(&mut self) {
        if self.pages.len() > 1 {
            let index = self.random.below(self.pages.len() as u64) as usize;
            let page = self.pages.swap_remove(index);
            self.store().transact(|txn| txn.free(page)).unwrap();
        }
    }

    fn change(&mut self) {
        let page = self.pages[self.random.below(self.pages.len() as u64) as usize];
        let (word, slot) = (self.random.below(4 * CHUNK_LEN / 8) * 8, self.random.below(500) as u16);
        let value = if self.random.below(3) == 0 { 0 } else { self.random.below(9) };
        let heap = self.store().memory().heap("words").unwrap();
        let change = |txn: &mut Txn| {
            txn.heap(|tx| tx.write(&heap, word, value))?;
            txn.update(at(page, slot), &Add { amount: 1 })
        };
        self.store().transact(change).unwrap();
    }

    fn lose(&mut self) {
        let page = self.pages[self.random.below(self.pages.len() as u64) as usize];
        let mut txn = self.store().begin();
        txn.update(at(page, 1), &Add { amount: 5 }).unwrap();
        txn.rollback().unwrap();
    }

    fn replace_heap(&self) {
        self.store().memory().drop_heap("words").unwrap();
        self.create_heap("words");
    }

    fn reopen(&mut self) {
        let store = self.store.take().expect("it is open");
        if self.random.below(2) == 0 {
            store.close().unwrap();
        } else {
            drop(store);
        }
        let seed = self.random.below(1 << 40);
        self.disk = self.disk.journal().crash(self.disk.journal_len(), Loss::Random(seed));
        self.store = Some(opened(&self.disk));
    }

    fn step(&mut self) {
        match self.random.below(30) {
            0..14 => self.change(),
            14..17 => self.allocate(),
            17..20 => self.free(),
            20..22 => self.lose(),
            22..27 => self.store().checkpoint().unwrap(),
            27 => self.replace_heap(),
            28 => self.reopen(),
            _ => (0..10).for_each(|_| self.change()),
        }
    }

    fn full(&self) -> SimDisk {
        let to = SimDisk::new();
        self.store().backup(&media(&to), BackupOptions::default()).unwrap();
        to.cut_power(Loss::Everything)
    }

    fn increment(&self, before: &[SimDisk]) -> SimDisk {
        let to = SimDisk::new();
        self.store().backup(&media(&to), since(&chain(before).unwrap())).expect("E18.18");
        to.cut_power(Loss::Everything)
    }
}

/// Returns the options of an incremental backup.
pub(crate) fn since(earlier: &BackupChain) -> BackupOptions<'_> {
    BackupOptions { since: Some(earlier), ..BackupOptions::default() }
}

/// Opens a full backup with its increments.
pub(crate) fn chain(backups: &[SimDisk]) -> Result<BackupChain> {
    let (full, increments) = backups.split_first().expect("there is a full backup");
    BackupChain::open(&media(full), &increments.iter().map(media).collect::<Vec<_>>())
}

pub(crate) fn restored(backups: &[SimDisk]) -> Result<SimDisk> {
    let to = SimDisk::new();
    restore(chain(backups)?.media(), None, &media(&to), RestoreTarget::Newest)?;
    Ok(to.cut_power(Loss::Everything))
}

/// Returns the bytes of all pages, and the words of the heap, of a store as its opening leaves it.
fn content(disk: &SimDisk) -> (Vec<u8>, Vec<u64>) {
    let disk = SimDisk::from_image(disk.image());
    let store = opened(&disk);
    store.check().unwrap();
    let heap = store.memory().heap("words").unwrap();
    let words = (0..4 * CHUNK_LEN / 8).map(|word| store.memory().run(Commit::Async, |tx| tx.read(&heap, 8 * word)));
    let words = words.map(|read| read.unwrap().value).collect();
    drop(heap);
    store.close().unwrap();
    (disk.image().file(PAGE_FILE).unwrap().to_vec(), words)
}

/// E18.18: a chain restores what a full backup of the same moment has.
#[test]
fn random_chains_equal_full_backups() {
    for seed in seeds(10) {
        let mut world = World::new(seed);
        let mut backups = vec![world.full()];
        for _ in 0..6 {
            (0..world.random.below(25)).for_each(|_| world.step());
            let loser_page = world.pages[0];
            let mut loser = world.store().begin();
            loser.update(at(loser_page, 3), &Add { amount: 9 }).unwrap();
            // Both are of one state, and of pages that are home or not.
            let increment = world.increment(&backups);
            let full = world.full();
            loser.rollback().unwrap();
            backups.push(increment);
            let to = restored(&backups).expect("E18.18");
            let ((pages, words), (full_pages, full_words)) = (content(&to), content(&full));
            assert!(words == full_words, "E18.18: seed {seed}");
            let differing = pages.chunks(4096).zip(full_pages.chunks(4096)).position(|(one, other)| one != other);
            assert_eq!(differing, None, "E18.18: seed {seed}");
            assert_eq!(pages.len(), full_pages.len(), "E18.18: seed {seed}");
            let check = check_backup(chain(&backups).unwrap().media(), None).unwrap();
            assert!(check.problems.is_empty() && !check.was_opened, "E18.18: seed {seed}: {check:?}");
            match world.random.below(4) {
                0 => backups = vec![full],
                // A restored chain is the full backup that the next increment continues.
                1 => backups = vec![to],
                2 => backups.truncate(1),
                _ => {}
            }
        }
    }
}

/// A full backup and three increments.
fn four_backups() -> (World, Vec<SimDisk>) {
    let mut world = World::new(1);
    let mut backups = vec![world.full()];
    for _ in 0..3 {
        (0..5).for_each(|_| world.change());
        world.store().checkpoint().unwrap();
        let increment = world.increment(&backups);
        backups.push(increment);
    }
    (world, backups)
}

fn refusal(backups: &[&SimDisk]) -> String {
    let backups: Vec<SimDisk> = backups.iter().map(|&disk| disk.clone()).collect();
    restored(&backups).expect_err("E18.19").to_string()
}

/// E18.19: increments are missing, in another order, or of another backup or store.
#[test]
fn chain_with_gap_is_refused() {
    let (_, backups) = four_backups();
    let [full, first, second, third] = &backups[..] else { panic!("four backups") };
    for wrong in [&[full, second][..], &[full, first, third], &[full, second, first], &[full, first, first]] {
        let error = refusal(wrong);
        assert!(error.contains("increment: it continues the backup that ends at LSN"), "E18.19: {error}");
    }
    let foreign = World::named(1, [2; 16]).full();
    assert!(refusal(&[&foreign, first]).contains("of another store"), "E18.19");
    assert!(refusal(&[full, full]).contains("control: found a full backup"), "E18.19");
    assert!(refusal(&[first]).contains("found an incremental backup"), "E18.19: {}", refusal(&[first]));
    let empty = SimDisk::new();
    assert!(refusal(&[full, &empty]).contains("increment: there is no complete"), "E18.19");
    let error = opened_as_store(first).to_string();
    assert!(error.contains("found an incremental backup"), "E18.18a: {error}");
}

fn opened_as_store(disk: &SimDisk) -> cedrat_txn::OpenError {
    Store::open(media(disk), options(), registry()).map(drop).expect_err("E18.18a")
}

/// E18.19: a full backup that has the same end, and other copies of pages and heaps perhaps.
#[test]
fn opened_backup_is_refused_as_base() {
    let (world, backups) = four_backups();
    drop(opened(&backups[0]));
    let error = refusal(&[&backups[0], &backups[1]]);
    assert!(error.contains("was opened as a store"), "E18.19: {error}");
    let error = world.store().backup(&media(&SimDisk::new()), since(&chain(&backups[..1]).unwrap()));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("was opened as a store"), "E18.19: {error}");
}

/// E18.20: another history may have other changes under the same LSNs.
#[test]
fn restored_store_needs_full_backup() {
    let (mut world, backups) = four_backups();
    let old = restored(&backups[..2]).unwrap();
    (0..5).for_each(|_| world.change());
    let newer = world.full();
    let mut other = World { disk: old.clone(), store: Some(opened(&old)), random: Random::new(3), ..world };
    (0..40).for_each(|_| other.change());
    let earlier = chain(std::slice::from_ref(&newer)).unwrap();
    let error = other.store().backup(&media(&SimDisk::new()), since(&earlier)).unwrap_err();
    drop(earlier);
    assert!(matches!(error, Error::CannotContinue { .. }), "E18.20: {error}");
    let foreign = World::named(2, [2; 16]);
    let to = media(&SimDisk::new());
    let error = foreign.store().backup(&to, since(&chain(&[newer]).unwrap())).unwrap_err();
    assert!(error.to_string().contains("of another store"), "E18.20: {error}");
}

fn with_file(image: &Image, name: &str, change: impl FnOnce(&SimDisk, cedrat_media::FileId, u64)) -> SimDisk {
    let disk = SimDisk::from_image(image.clone());
    let file = disk.open(name, OpenMode::ReadWrite).unwrap();
    let len = disk.len(file).unwrap();
    change(&disk, file, len);
    disk
}

/// E18.18b: each file of an increment is cut, or a bit of it flipped.
#[test]
fn damaged_increment_is_refused() {
    let (_, backups) = four_backups();
    let image = backups[1].image();
    let expected = content(&restored(&backups[..2]).unwrap());
    let (mut random, mut refused) = (Random::new(5), 0);
    for name in image.names() {
        let cut = with_file(&image, name, |disk, file, len| disk.set_len(file, len - 1).unwrap());
        let error = refusal(&[&backups[0], &cut]);
        assert!(error.contains(name), "E18.18b: {name}: {error}");
        let missing = SimDisk::from_image(image.clone());
        missing.remove(name).unwrap();
        let error = refusal(&[&backups[0], &missing]);
        assert!(error.contains(name), "E18.18b: {name}: {error}");
        for _ in 0..if cfg!(miri) { 1 } else { 30 } {
            let flipped = with_file(&image, name, |disk, file, len| {
                let (place, mut byte) = (random.below(len), [0]);
                disk.read_at(file, place, &mut byte).unwrap();
                disk.write_at(file, place, &[byte[0] ^ 1 << random.below(8)], Durability::Durable).unwrap();
            });
            match restored(&[backups[0].clone(), flipped]) {
                // A hole, or a second copy of what has two.
                Ok(to) => assert!(content(&to) == expected, "E18.18b: {name}"),
                Err(error) => {
                    assert!(error.to_string().contains(name) || name.starts_with("log/"), "E18.18b: {name}: {error}");
                    refused += 1;
                }
            }
        }
    }
    for place in 0..64 {
        let flipped = with_file(&image, "increment", |disk, file, _| {
            let mut byte = [0];
            disk.read_at(file, place, &mut byte).unwrap();
            disk.write_at(file, place, &[byte[0] ^ 16], Durability::Durable).unwrap();
        });
        let error = refusal(&[&backups[0], &flipped]);
        assert!(error.contains("increment, byte"), "E18.18b: byte {place}: {error}");
    }
    assert!(refused > 20, "{refused}");
}

/// E18.18a: at each call of the increment's medium the power fails.
#[test]
fn unfinished_increment_is_refused() {
    let (mut world, backups) = four_backups();
    (0..3).for_each(|_| world.change());
    let to = SimDisk::new();
    world.store().backup(&media(&to), since(&chain(&backups).unwrap())).unwrap();
    let complete = [&backups[..], std::slice::from_ref(&to)].concat();
    let expected = content(&restored(&complete).unwrap());
    let (mut refused, mut whole) = (0, 0);
    let mut cursor = to.journal().cursor();
    while cursor.advance() {
        for loss in [Loss::Everything, Loss::Nothing, Loss::Random(cursor.at() as u64)] {
            let image = SimDisk::from_image(cursor.image(loss));
            let crashed = [&backups[..], &[image]].concat();
            match restored(&crashed) {
                Ok(to) => {
                    assert!(content(&to) == expected, "E18.18a");
                    whole += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 50 && whole > 0, "{refused} {whole}");
}

/// An increment of few changes is small, and a restore overwrites nothing.
#[test]
fn increment_has_only_changes() {
    let mut world = World::new(4);
    (0..200).for_each(|_| world.allocate());
    world.store().checkpoint().unwrap();
    let full = world.full();
    world.change();
    world.store().checkpoint().unwrap();
    let increment = world.increment(std::slice::from_ref(&full));
    let image = increment.image();
    let pages = image.file(PAGE_FILE).unwrap();
    let here = pages.chunks(4096).filter(|page| page.iter().any(|&byte| byte != 0)).count();
    assert!((1..10).contains(&here), "{here} pages of {}", pages.len() / 4096);
    let taken = SimDisk::new();
    taken.open("pages", OpenMode::Create).unwrap();
    let backups = chain(&[full, increment]).unwrap();
    let error = restore(backups.media(), None, &media(&taken), RestoreTarget::Newest).unwrap_err();
    assert!(matches!(error, Error::Log(LogError::AlreadyThere { .. })), "{error}");
    let _: &Arc<dyn Media> = backups.media();
}

/// The bytes of a stream.
#[derive(Clone, Debug, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn streamed(world: &World, before: Option<&[SimDisk]>) -> Vec<u8> {
    let (bytes, chain) = (Bytes::default(), before.map(|before| chain(before).unwrap()));
    let options = BackupOptions { since: chain.as_ref(), ..BackupOptions::default() };
    world.store().backup_to_stream(bytes.clone(), options).unwrap();
    bytes.0.lock().to_vec()
}

fn from_stream(bytes: &[u8]) -> (Result<u64>, SimDisk) {
    let to = SimDisk::new();
    let restored = restore_stream(&mut &*bytes, &media(&to));
    // A refused one is none, whatever of it is durable.
    let loss = if restored.is_ok() { Loss::Everything } else { Loss::Nothing };
    (restored, to.cut_power(loss))
}

/// E18.21.
#[test]
fn streams_restore_full_and_incremental_backup() {
    for seed in 0..4 {
        let mut world = World::new(seed);
        (0..40).for_each(|_| world.step());
        let (restored, full) = from_stream(&streamed(&world, None));
        restored.expect("E18.21");
        assert!(content(&full) == content(&world.full()), "E18.21: seed {seed}");
        let check = check_backup(&media(&full), None).unwrap();
        assert!(check.problems.is_empty() && !check.was_opened, "E18.21: {check:?}");
        (0..40).for_each(|_| world.step());
        let (restored, increment) = from_stream(&streamed(&world, Some(std::slice::from_ref(&full))));
        restored.expect("E18.21");
        let to = self::restored(&[full, increment]).expect("E18.21");
        assert!(content(&to) == content(&world.full()), "E18.21: seed {seed}");
    }
}

/// E18.21: the stream is cut anywhere, or a bit of it is flipped.
#[test]
fn torn_stream_is_refused() {
    let (mut world, backups) = four_backups();
    world.change();
    let mut random = Random::new(6);
    for before in [None, Some(&backups[..])] {
        let stream = streamed(&world, before);
        let cuts = (0..40).map(|_| random.below(stream.len() as u64) as usize).collect::<Vec<_>>();
        for cut in cuts.into_iter().chain([0, 39, 40, stream.len() - 33, stream.len() - 32, stream.len() - 1]) {
            let (error, disk) = from_stream(&stream[..cut]);
            assert!(error.expect_err("E18.21").to_string().contains("it is torn"), "E18.21: {cut}");
            check_no_backup(&disk, before);
        }
        for _ in 0..60 {
            let mut flipped = stream.clone();
            flipped[random.below(stream.len() as u64) as usize] ^= 1 << random.below(8);
            let (error, disk) = from_stream(&flipped);
            let error = error.expect_err("E18.21").to_string();
            assert!(error.contains("the backup stream, byte "), "E18.21: {error}");
            check_no_backup(&disk, before);
        }
    }
}

/// E18.21: the end of another file, or a second stream.
#[test]
fn bytes_behind_stream_are_refused() {
    let (world, _) = four_backups();
    let stream = streamed(&world, None);
    for behind in [&[0][..], b"CEDRATST", &stream] {
        let (error, disk) = from_stream(&[&stream, behind].concat());
        let (error, expected) = (error.expect_err("E18.21").to_string(), format!("stream, byte {}: ", stream.len()));
        assert!(error.contains(&expected) && error.contains("bytes follow its last piece"), "E18.21: {error}");
        check_no_backup(&disk, None);
    }
    from_stream(&stream).0.expect("E18.21");
}

/// E18.20a.
#[test]
fn report_names_backup_that_cannot_continue() {
    let mut world = World::new(8);
    let fault = Fault::error(Call::Write, std::io::ErrorKind::StorageFull).of("backups");
    world.disk.inject(fault);
    let to = SimDisk::new();
    let report = world.store().backup(&media(&to), BackupOptions::default()).unwrap();
    let why = report.cannot_continue.expect("E18.20a");
    assert!(why.contains("backups"), "E18.20a: {why}");
    world.disk.clear_faults();
    world.change();
    let refused = world.store().backup(&media(&SimDisk::new()), since(&chain(std::slice::from_ref(&to)).unwrap()));
    assert!(matches!(refused, Err(Error::CannotContinue { .. })), "E18.20a: {refused:?}");
    restored(&[to]).expect("E18.20a: it is complete");
    let next = SimDisk::new();
    let report = world.store().backup(&media(&next), BackupOptions::default()).unwrap();
    assert_eq!(report.cannot_continue, None, "E18.20a");
    world.increment(&[next]);
}

fn check_no_backup(disk: &SimDisk, before: Option<&[SimDisk]>) {
    match before {
        Some(before) => drop(restored(&[before, std::slice::from_ref(disk)].concat()).expect_err("E18.21")),
        None => match Store::open(media(disk), options(), registry()) {
            Ok(store) => assert!(store.recovery().created, "E18.21"),
            Err(_) => assert!(restored(std::slice::from_ref(disk)).is_err(), "E18.21"),
        },
    }
}
