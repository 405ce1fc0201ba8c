//! Views of stores as they were.

use cedrat_heap::HeapOptions;
use cedrat_media::{Loss, Media, OpenMode, SimDisk};
use cedrat_pages::PageId;
use cedrat_txn::{BackupOptions, Commit, Error, OpenError, Options, RestoreTarget, Store, View, Vote, open_as_of};
use cedrat_wal::{LogError, Lsn};

use crate::common::*;

/// A store with an archive and a backup, in which a word and a number of a page are changed together.
struct World {
    disk: SimDisk,
    archive: SimDisk,
    backup: SimDisk,
    store: Store,
    page: PageId,
}

fn add(store: &Store, page: PageId) -> Result<(), Error> {
    let heap = store.memory().heap("words").unwrap();
    store.transact(|txn| {
        txn.heap(|tx| tx.update(&heap, 0, |value| value + 1))?;
        txn.update(at(page, 0), &Add { amount: 1 })
    })
}

/// Returns the number that word and page of a store have.
fn sum(store: &Store, page: PageId) -> i64 {
    let on_page = read_number(store, at(page, 0)).unwrap();
    assert_eq!(word(store, 0), on_page as u64, "E18.22: of one moment");
    on_page
}

fn word(store: &Store, at: u64) -> u64 {
    let heap = store.memory().heap("words").unwrap();
    store.memory().run(Commit::Async, |tx| tx.read(&heap, at)).unwrap().value
}

fn view(backup: &SimDisk, archive: &SimDisk, moment: RestoreTarget) -> View {
    View { backup: media(backup), archive: Some(media(archive)), moment, scratch: media(&SimDisk::new()) }
}

impl World {
    /// A store with one commit in the backup.
    fn new() -> World {
        let (disk, archive) = (SimDisk::new(), SimDisk::new());
        let with_archive = Options { archive: Some(media(&archive)), ..options() };
        let store = Store::open(media(&disk), with_archive, registry()).unwrap();
        let page = store.transact(page_with_zeros).unwrap();
        let words = HeapOptions { chunk_len: 4096, size: 4096, ..HeapOptions::raw(1 << 16) };
        store.memory().create_heap("words", &words).unwrap();
        add(&store, page).unwrap();
        let backup = SimDisk::new();
        store.backup(&media(&backup), BackupOptions::default()).unwrap();
        World { disk, archive, backup, store, page }
    }

    fn add(&self) -> Lsn {
        add(&self.store, self.page).unwrap();
        self.store.log().durable_lsn()
    }

    fn view(&self, moment: RestoreTarget) -> Result<(Store, Lsn), OpenError> {
        open_as_of(&view(&self.backup, &self.archive, moment), options(), registry())
    }
}

/// E18.22.
#[test]
fn view_stays_as_store_goes_on() {
    let world = World::new();
    let first = world.add();
    world.add();
    world.store.extend_archive().unwrap();
    let (earlier, lsn) = world.view(RestoreTarget::Lsn(first)).unwrap();
    assert_eq!(lsn, first);
    let (newest, _) = world.view(RestoreTarget::Newest).unwrap();
    let (backup, disk) = (world.backup.image().hash(), world.disk.image().hash());
    world.add();
    world.store.checkpoint().unwrap();
    world.store.extend_archive().unwrap();
    let (newer, _) = world.view(RestoreTarget::Newest).unwrap();
    for (view, expected) in [(&earlier, 2), (&newest, 3), (&newer, 4), (&world.store, 4)] {
        assert_eq!(sum(view, world.page), expected, "E18.22");
        view.check().unwrap();
    }
    drop((earlier, newest, newer));
    assert_eq!(world.backup.image().hash(), backup, "E18.22a: the backup is only read");
    assert_ne!(world.disk.image().hash(), disk);
}

/// E18.22a.
#[test]
fn view_takes_no_changes() {
    let world = World::new();
    let before = world.backup.image().hash();
    world.store.extend_archive().unwrap();
    let archived = world.archive.image().hash();
    let (view, _) = world.view(RestoreTarget::Newest).unwrap();
    for _ in 0..3 {
        let refused = add(&view, world.page);
        assert!(matches!(refused, Err(Error::ReadOnly)), "E18.22a: {refused:?}");
        let heap = view.memory().heap("words").unwrap();
        let refused = view.memory().run(Commit::Async, |tx| tx.update(&heap, 8, |value| value + 1));
        assert!(refused.is_err(), "E18.22a");
        let refused = heap.stored_plainly(8, 8);
        assert!(matches!(refused, Err(cedrat_heap::Error::Misuse(_))), "E18.22a: {refused:?}");
        let refused = view.transact(|txn| txn.allocate());
        assert!(matches!(refused, Err(Error::ReadOnly)), "E18.22a: {refused:?}");
    }
    assert_eq!(sum(&view, world.page), 1);
    assert_eq!(word(&view, 8), 0);
    view.checkpoint().unwrap();
    view.close().unwrap();
    assert_eq!(world.backup.image().hash(), before, "E18.22a");
    assert_eq!(world.archive.image().hash(), archived, "E18.22a");
}

/// E18.22: it may have committed later, and may not have.
#[test]
fn prepared_branch_is_rolled_back_in_view() {
    let world = World::new();
    let mut txn = world.store.begin();
    txn.update(at(world.page, 1), &Add { amount: 5 }).unwrap();
    let Vote::Prepared(prepared) = txn.prepare(b"branch").unwrap() else { panic!("it has changed something") };
    let in_doubt = world.store.extend_archive().unwrap();
    prepared.commit(Commit::Sync).unwrap();
    let decided = world.store.extend_archive().unwrap();
    for (lsn, expected) in [(in_doubt, 0), (decided, 5)] {
        let (view, _) = world.view(RestoreTarget::Lsn(lsn)).unwrap();
        assert_eq!(read_number(&view, at(world.page, 1)).unwrap(), expected, "E18.22");
        assert!(view.in_doubt().unwrap().is_empty(), "E18.22");
    }
}

/// The directory of a closed store is a backup: it has a file that an opening locks.
#[test]
fn views_of_closed_store_are_open_together() {
    let World { disk, store, page, .. } = World::new();
    store.close().unwrap();
    let closed = disk.journal().crash(disk.journal_len(), Loss::Everything);
    let alone = || View {
        backup: media(&closed),
        archive: None,
        moment: RestoreTarget::Newest,
        scratch: media(&SimDisk::new()),
    };
    let views = [(); 2].map(|()| open_as_of(&alone(), options(), registry()).unwrap().0);
    for view in &views {
        assert_eq!(sum(view, page), 1);
    }
}

#[test]
fn bad_views_are_refused() {
    let world = World::new();
    let last = world.store.extend_archive().unwrap();
    let refused = world.view(RestoreTarget::Lsn(Lsn::new(last.get() + 1000))).map(drop);
    assert!(matches!(refused, Err(OpenError::Failed(Error::Log(LogError::Unreachable { .. })))), "{refused:?}");

    let with_archive = Options { archive: Some(media(&world.archive)), ..options() };
    let newest = view(&world.backup, &world.archive, RestoreTarget::Newest);
    let refused = open_as_of(&newest, with_archive, registry()).map(drop);
    assert!(refused.unwrap_err().to_string().contains("View::archive"));

    let scratch = SimDisk::new();
    scratch.open("control", OpenMode::Create).unwrap();
    let in_use = View { scratch: media(&scratch), ..newest };
    let refused = open_as_of(&in_use, options(), registry()).map(drop);
    assert!(refused.unwrap_err().to_string().contains("control"));
}
