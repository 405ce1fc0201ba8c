//! Replicas, over connections in memory.
#![cfg(not(cedrat_shuttle))] // needs threads of the system

use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cedrat_heap::HeapOptions;
use cedrat_media::{Damage, Loss, OpenMode, SimDisk, write_all_at};
use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_txn::{
    Commit, Error, Follower, Options, Quorum, ReplicaError, ReplicaFiles, ReplicaOptions, RestoreTarget, Result, Store,
    View, open_as_of, promote, restore,
};
use cedrat_wal::{LogOptions, Lsn};

use crate::common::*;
use crate::links::*;
use crate::parts::Part;

pub(crate) fn follow(store: &Store, follower: &mut Follower) -> Result<()> {
    let server = store.replica_server(replica_options());
    let until = store.log().durable_lsn();
    follow_with(&server, follower, until, Fault::None, |_| {}).0
}

/// A store in which a word and a number of a page are changed together.
pub(crate) struct World {
    pub(crate) disk: SimDisk,
    pub(crate) store: Store,
    pub(crate) page: PageId,
}

pub(crate) fn add(store: &Store, page: PageId) -> Result<Lsn> {
    let heap = store.memory().heap("words").unwrap();
    store.transact(|txn| {
        txn.heap(|tx| tx.update(&heap, 0, |value| value + 1))?;
        txn.update(at(page, 0), &Add { amount: 1 })
    })?;
    Ok(store.log().durable_lsn())
}

/// Returns the number that word and page of a store have.
pub(crate) fn sum(store: &Store, page: PageId) -> i64 {
    let on_page = read_number(store, at(page, 0)).unwrap();
    let heap = store.memory().heap("words").unwrap();
    let word = store.memory().run(Commit::Async, |tx| tx.read(&heap, 0)).unwrap().value;
    assert_eq!(word, on_page as u64, "E25.2: of one moment");
    on_page
}

/// Returns the number in a replica, as of its newest record.
pub(crate) fn sum_of(files: &ReplicaFiles, page: PageId) -> (i64, Lsn) {
    let (base, archive) = (Arc::clone(&files.base), Some(Arc::clone(&files.archive)));
    let view = View { backup: base, archive, moment: RestoreTarget::Newest, scratch: media(&SimDisk::new()) };
    let (view, lsn) = open_as_of(&view, options(), registry()).unwrap();
    view.check().unwrap();
    (sum(&view, page), lsn)
}

impl World {
    pub(crate) fn new() -> World {
        World::with(SimDisk::new(), options(), "store")
    }

    /// A store in a part of a disk.
    pub(crate) fn with(disk: SimDisk, options: Options, part: &'static str) -> World {
        let store = Store::open(Arc::new(Part::of(&disk, part)), options, registry()).unwrap();
        let page = store.transact(page_with_zeros).unwrap();
        let words = HeapOptions { chunk_len: 4096, size: 4096, ..HeapOptions::raw(1 << 16) };
        store.memory().create_heap("words", &words).unwrap();
        World { disk, store, page }
    }

    pub(crate) fn add(&self, times: usize) -> Lsn {
        for _ in 0..times {
            add(&self.store, self.page).unwrap();
        }
        self.store.log().durable_lsn()
    }

    pub(crate) fn reopened(self) -> World {
        let World { disk, store, page } = self;
        drop(store);
        let store = Store::open(Arc::new(Part::of(&disk, "store")), options(), registry()).unwrap();
        World { disk, store, page }
    }
}

pub(crate) fn begun(store: &Store) -> (ReplicaFiles, Follower) {
    let files = replica_files(&SimDisk::new());
    let mut follower = Follower::open(files.clone(), "one").unwrap();
    follow(store, &mut follower).unwrap();
    (files, follower)
}

pub(crate) fn replica_error(ended: Result<()>) -> ReplicaError {
    match ended {
        Err(Error::Replica(error)) => error,
        other => panic!("E25.5: {other:?}"),
    }
}

/// E25.2: a base, more of the log, an opening of the store, and a connection of the replica later.
#[test]
fn replica_follows_store_across_openings() {
    let world = World::new();
    world.add(3);
    let (files, mut follower) = begun(&world.store);
    assert_eq!(sum_of(&files, world.page).0, 3, "E25.2");
    let lsn = world.add(4);
    follow(&world.store, &mut follower).unwrap();
    assert_eq!(follower.up_to(), Some(lsn), "E25.2");
    assert_eq!(sum_of(&files, world.page), (7, lsn), "E25.2");
    drop(follower);
    let world = world.reopened();
    world.store.checkpoint().unwrap();
    world.add(5);
    world.store.checkpoint().unwrap();
    let mut follower = Follower::open(files.clone(), "one").unwrap();
    follow(&world.store, &mut follower).unwrap();
    assert_eq!(sum_of(&files, world.page).0, 12, "E25.2");
    let status = &world.store.replicas()[0];
    assert_eq!((&status.name[..], Some(status.up_to)), ("one", follower.up_to()));
}

/// A replica that is connected gets each commit without being asked, and any moment of it can be read.
#[test]
fn connected_replica_has_each_commit() {
    let world = World::new();
    let (files, mut follower) = begun(&world.store);
    let (send, received) = mpsc::channel();
    let server = world.store.replica_server(replica_options());
    let follows = thread::spawn(move || {
        follow_with(&server, &mut follower, Lsn::MAX, Fault::None, |lsn| send.send(lsn).unwrap()).0
    });
    let mut commits = Vec::new();
    for number in 1..=20 {
        let lsn = world.add(1);
        while received.recv_timeout(Duration::from_secs(60)).expect("E25.3: it is sent without a request") < lsn {}
        commits.push((lsn, number));
    }
    for (lsn, number) in commits {
        let to = SimDisk::new();
        restore(&files.base, Some(&files.archive), &media(&to), RestoreTarget::Lsn(lsn)).unwrap();
        let restored = open(&Arc::new(to)).unwrap();
        assert_eq!(sum(&restored, world.page), number, "E25.2");
    }
    world.store.close().unwrap();
    assert!(matches!(replica_error(follows.join().unwrap()), ReplicaError::Torn { .. }), "closed");
}

/// E25.1, E25.2: power fails at any moment for both, and the store, opened again, has all that the replica has.
#[test]
fn power_loss_of_both_keeps_history() {
    let world = World::new();
    let files = replica_files(&world.disk);
    world.add(2);
    let mut follower = Follower::open(files, "one").unwrap();
    let server = world.store.replica_server(replica_options());
    for round in 0..12 {
        let lsn = world.add(3);
        let disk = world.disk.clone();
        let ended = follow_with(&server, &mut follower, lsn, Fault::None, |lsn| disk.mark(lsn.get()));
        ended.0.unwrap();
        if round % 4 == 1 {
            world.store.checkpoint().unwrap();
        }
    }
    let (mut continued, mut begun_again) = (0, 0);
    every_crash(&world.disk, 1, |disk, marks, name| {
        let store = Store::open(Arc::new(Part::of(disk, "store")), options(), registry()).unwrap();
        if store.read(world.page).is_err() || store.memory().heap("words").is_err() {
            return;
        }
        let expected = sum(&store, world.page);
        let files = replica_files(disk);
        let mut follower = Follower::open(files.clone(), "one").expect(name);
        let acknowledged = marks.last().map_or(Lsn::ZERO, |&lsn| Lsn::new(lsn));
        match follower.up_to() {
            Some(up_to) => {
                assert!(up_to >= acknowledged, "E25.1: {name}: {up_to} of {acknowledged}");
                continued += 1;
            }
            None => {
                assert_eq!(acknowledged, Lsn::ZERO, "E25.1: {name}");
                begun_again += 1;
            }
        }
        if let Some(up_to) = follower.up_to().filter(|&up_to| up_to > acknowledged || acknowledged == Lsn::ZERO) {
            assert!(up_to <= store.log().durable_lsn(), "E25.2: {name}");
        }
        follow(&store, &mut follower).expect(name);
        assert_eq!(sum_of(&files, world.page).0, expected, "E25.2: {name}");
    });
    assert!(continued > 100 && begun_again > 10, "{continued} {begun_again}");
}

/// E25.3a: a connection is cut before some bytes, or changes, repeats or loses some, on either way. The next one goes on.
#[test]
fn torn_stream_is_refused_by_name() {
    let world = World::new();
    world.add(2);
    let (files, mut follower) = begun(&world.store);
    let server = world.store.replica_server(replica_options());
    let (mut torn, mut invalid) = (0, 0);
    for number in 0..400_usize {
        world.add(1);
        let place = number * 131 % 9000;
        let fault = match number % 4 {
            0 => Fault::Cut(place),
            1 => Fault::Flip(place),
            2 => Fault::Repeat(1 + number % 3),
            _ => Fault::Lose(1 + number % 3),
        };
        if matches!(fault, Fault::Lose(_)) && number % 20 != 3 {
            // Each takes as long as a side waits.
            continue;
        }
        let before = follower.up_to();
        // Two extensions: a frame that comes twice is noticed by the next one.
        let until = Lsn::new(world.store.log().durable_lsn().get() + 200);
        let (followed, _) = follow_with(&server, &mut follower, until, fault, |_| {
            let _ = add(&world.store, world.page);
        });
        match replica_error(followed) {
            ReplicaError::Torn { .. } => torn += 1,
            ReplicaError::Invalid { .. } => invalid += 1,
            other => panic!("E25.3a: {fault:?}: {other}"),
        }
        assert!(follower.up_to() >= before, "E25.1");
        if number % 20 == 0 {
            follow(&world.store, &mut follower).unwrap();
            assert_eq!(sum_of(&files, world.page).0, read_number(&world.store, at(world.page, 0)).unwrap(), "E25.2");
        }
    }
    assert!(torn > 50 && invalid > 50, "{torn} {invalid}");
}

/// E25.5: stores, histories and gaps that a replica does not continue.
#[test]
fn replica_of_other_store_is_refused() {
    let log = LogOptions { store: Some(*b"another in tests"), ..options().log };
    let (world, other) = (World::new(), World::with(SimDisk::new(), Options { log, ..options() }, "store"));
    let (files, mut follower) = begun(&world.store);
    let refused = replica_error(follow(&other.store, &mut follower));
    assert!(matches!(refused, ReplicaError::OtherStore { .. }), "E25.5: {refused}");
    world.add(1);
    follow(&world.store, &mut follower).unwrap();
    assert_eq!(sum_of(&files, world.page).0, 1, "E25.5: nothing of the other store");
}

/// E25.5, E25.6: two stores of one history: the old one goes on, and the promoted one, too.
#[test]
fn promoted_replica_begins_another_history() {
    let world = World::new();
    world.add(2);
    let (files, mut follower) = begun(&world.store);
    let (later_files, mut later) = begun(&world.store);
    let lsn = world.add(1);
    follow(&world.store, &mut follower).unwrap();
    world.add(1);
    follow(&world.store, &mut later).unwrap();
    let to = SimDisk::new();
    let in_use = promote(&files, &media(&to)).unwrap_err();
    assert!(matches!(in_use, Error::Open(_)), "E25.6: it follows: {in_use}");
    drop(follower);
    assert_eq!(promote(&files, &media(&to)).unwrap().up_to, lsn);
    let promoted = open(&Arc::new(to)).unwrap();
    assert_eq!(sum(&promoted, world.page), 3, "E25.6");
    let refused = Follower::open(files, "one").map(|_| ());
    assert!(matches!(replica_error(refused), ReplicaError::Promoted { .. }), "E25.6");
    let refused = replica_error(follow(&promoted, &mut later));
    assert!(matches!(refused, ReplicaError::OtherHistory { .. }), "E25.5: it has more: {refused}");
    add(&promoted, world.page).unwrap();
    let (_, mut third) = begun(&promoted);
    let refused = replica_error(follow(&world.store, &mut third));
    assert!(matches!(refused, ReplicaError::OtherHistory { .. }), "E25.5: {refused}");
    let world = world.reopened();
    world.add(3);
    let refused = replica_error(follow(&world.store, &mut third));
    assert!(
        matches!(refused, ReplicaError::OtherHistory { .. }),
        "E25.5: of an opening with the same number: {refused}"
    );
    follow(&world.store, &mut later).unwrap();
    assert_eq!(sum_of(&later_files, world.page).0, sum(&world.store, world.page), "the old history goes on");
}

/// E25.5: after a crash the old store goes on where a replica was promoted: both have an opening of one number, at one place.
#[test]
fn twin_of_promoted_store_is_refused() {
    let world = World::new();
    let (files, mut follower) = begun(&world.store);
    world.add(3);
    follow(&world.store, &mut follower).unwrap();
    drop(follower);
    let crashed = world.disk.journal().crash(world.disk.journal_len(), Loss::Everything);
    let to = SimDisk::new();
    promote(&files, &media(&to)).unwrap();
    let promoted = open(&Arc::new(to)).unwrap();
    let (later_files, mut later) = begun(&promoted);
    add(&promoted, world.page).unwrap();
    follow(&promoted, &mut later).unwrap();
    let twin = Store::open(Arc::new(Part::of(&crashed, "store")), options(), registry()).unwrap();
    for _ in 0..20 {
        twin.transact(|txn| txn.update(at(world.page, 1), &Add { amount: 5 })).unwrap();
    }
    let refused = replica_error(follow(&twin, &mut later));
    assert!(matches!(refused, ReplicaError::OtherHistory { .. }), "E25.5: {refused}");
    assert_eq!(sum_of(&later_files, world.page).0, 4, "E25.5");
}

/// E25.4: the log is kept for a replica that is away, up to its limit; then it is refused by name.
#[test]
fn forgotten_replica_is_refused_by_name() {
    let world = World::new();
    let (files, mut follower) = begun(&world.store);
    world.store.log().promise().unwrap();
    world.store.checkpoint().unwrap();
    follow(&world.store, &mut follower).expect("E25.4: the store was idle, and has written a block without records");
    let work = |world: &World, times| {
        for _ in 0..times {
            world.add(40);
            world.store.checkpoint().unwrap();
        }
    };
    work(&world, 6);
    let world = world.reopened();
    work(&world, 6);
    follow(&world.store, &mut follower).expect("E25.4: the log is kept");
    assert_eq!(sum_of(&files, world.page).0, 480, "E25.4");
    assert!(world.store.consumers()[0].is_replica && world.store.consumers()[0].released_bytes.is_none());
    let misused = world.store.consumer("one", Default::default()).map(|_| ());
    assert!(matches!(misused, Err(Error::Misuse(_))), "E25.4: {misused:?}");
    let small = ReplicaOptions { limit_bytes: 1 << 16, ..replica_options() };
    let until = world.add(1);
    follow_with(&world.store.replica_server(small), &mut follower, until, Fault::None, |_| {}).0.unwrap();
    assert_eq!(world.store.consumers()[0].limit_bytes, 1 << 16, "E25.4: that of the newest connection");
    work(&world, 12);
    assert!(world.store.consumers()[0].released_bytes.is_some(), "E25.4");
    let refused = replica_error(follow(&world.store, &mut follower));
    assert!(matches!(refused, ReplicaError::Gap { .. }), "E25.4: {refused}");
    let other = replica_files(&SimDisk::new());
    let mut again = Follower::open(other.clone(), "one").unwrap();
    follow(&world.store, &mut again).unwrap();
    assert_eq!(sum_of(&other, world.page).0, sum(&world.store, world.page));
}

/// A quorum: E25.7.
#[test]
fn commit_waits_for_its_replicas() {
    let world = World::new();
    let (_, mut follower) = begun(&world.store);
    let quorum = |replicas, millis| Quorum { replicas, wait_max: Duration::from_millis(millis) };
    let lsn = world.add(1);
    let missing = world.store.wait_replicated(lsn, quorum(1, 1)).unwrap_err();
    let is_named = matches!(&missing, Error::Replica(ReplicaError::NotReplicated { have: 0, wanted: 1, .. }));
    assert!(is_named, "E25.7: {missing}");
    assert_eq!(sum(&world.store, world.page), 1, "E25.7: it is not rolled back");
    let server = world.store.replica_server(replica_options());
    let (store, until) = (world.store.clone(), world.store.log().durable_lsn());
    let waits = thread::spawn(move || store.wait_replicated(lsn, quorum(1, 60_000)));
    follow_with(&server, &mut follower, until, Fault::None, |_| {}).0.unwrap();
    waits.join().unwrap().unwrap();
    let both = world.store.wait_replicated(lsn, quorum(2, 1)).unwrap_err();
    assert!(matches!(both, Error::Replica(ReplicaError::NotReplicated { have: 1, .. })), "E25.7: {both}");
    let store = world.store.clone();
    let waits = thread::spawn(move || store.wait_replicated(lsn, quorum(2, 600_000)));
    world.store.log().stop("by a test");
    let stopped = waits.join().unwrap().unwrap_err();
    assert!(matches!(stopped, Error::Stopped(_)), "E25.7: it ends with the store: {stopped}");
}

/// The second connection of a name replaces the first one.
#[test]
fn second_connection_replaces_the_first() {
    let world = World::new();
    let (_, mut follower) = begun(&world.store);
    let server = world.store.replica_server(replica_options());
    let (send, connected) = mpsc::channel();
    let first = thread::spawn(move || {
        follow_with(&server, &mut follower, Lsn::MAX, Fault::None, |lsn| send.send(lsn).unwrap())
    });
    let until = world.add(1);
    while connected.recv().unwrap() < until {}
    let (_, _second) = begun(&world.store);
    world.add(1);
    let (followed, served) = first.join().unwrap();
    for ended in [followed, served] {
        assert!(matches!(replica_error(ended), ReplicaError::Replaced { .. }), "by name");
    }
}

/// A damaged archive, a directory with other files, and a marker that was changed.
#[test]
fn damaged_replica_is_refused_by_name() {
    let world = World::new();
    let disk = SimDisk::new();
    let files = replica_files(&disk);
    let mut follower = Follower::open(files.clone(), "one").unwrap();
    let twice = Follower::open(files.clone(), "one").map(|_| ());
    assert!(matches!(twice, Err(Error::Open(_))), "{twice:?}");
    follow(&world.store, &mut follower).unwrap();
    drop(follower);
    disk.corrupt("home/replica", 20, Damage::Flip { bit: 3 }).unwrap();
    let refused = Follower::open(files, "one").map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("replica") && refused.contains("changed"), "{refused}");
    let strange = replica_files(&SimDisk::new());
    let file = strange.home.open("mine", OpenMode::Create).unwrap();
    write_all_at(&*strange.home, file, 0, b"mine", cedrat_media::Durability::Durable).unwrap();
    let refused = Follower::open(strange, "one").map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("mine") && refused.contains("not empty"), "{refused}");
}

/// E25.2b: a commit to a new heap is in a part of the log, after which the store is lost.
#[test]
fn part_of_log_has_its_heaps() {
    let options = Options { log_limit_bytes: 256 << 20, ..options() };
    let world = World::with(SimDisk::new(), options, "store");
    let (files, mut follower) = begun(&world.store);
    let before = follower.up_to().unwrap();
    let many = HeapOptions { chunk_len: 1 << 16, size: 1 << 16, ..HeapOptions::raw(1 << 20) };
    let heap = world.store.memory().create_heap("later", &many).unwrap();
    for number in 0..200 {
        let write = |at| move |value: u64| value + number + at;
        world
            .store
            .transact(|txn| txn.heap(|tx| (0..4096).try_for_each(|at| tx.update(&heap, at * 8, write(at)).map(drop))))
            .unwrap();
    }
    let (server, mut acknowledged) = (world.store.replica_server(replica_options()), Lsn::ZERO);
    let until = before.next();
    let ended = follow_with(&server, &mut follower, until, Fault::None, |lsn| acknowledged = acknowledged.max(lsn));
    ended.0.unwrap();
    assert!(acknowledged > before && acknowledged < world.store.log().durable_lsn(), "E25.2b: a part");
    drop((follower, world));
    let to = SimDisk::new();
    assert_eq!(promote(&files, &media(&to)).unwrap().up_to, acknowledged, "E25.2b");
    let promoted = open(&Arc::new(to)).unwrap();
    let heap = promoted.memory().heap("later").expect("E25.2b");
    assert!(promoted.memory().run(Commit::Async, |tx| tx.read(&heap, 8)).unwrap().value > 0, "E25.2b");
}

/// E25.8: the store is lost right after the base.
#[test]
fn base_alone_is_promoted() {
    let world = World::new();
    world.add(3);
    let files = replica_files(&SimDisk::new());
    let mut follower = Follower::open(files.clone(), "one").unwrap();
    let server = world.store.replica_server(replica_options());
    let (ours, theirs) = pair(Fault::None);
    let served = thread::spawn(move || server.serve(theirs));
    let mut hellos = 0;
    let stream = CutAtHello { end: ours, hellos: &mut hellos };
    follower.follow(stream, &mut |_| ControlFlow::Continue(())).unwrap_err();
    served.join().unwrap().unwrap_err();
    assert_eq!(hellos, 2, "E25.8: its base is complete, and nothing followed");
    drop((follower, world.store));
    let to = SimDisk::new();
    promote(&files, &media(&to)).expect("E25.8");
    assert_eq!(sum(&open(&Arc::new(to)).unwrap(), world.page), 3, "E25.8");
}

/// A connection that ends before the second hello of a replica.
pub(crate) struct CutAtHello<'h> {
    pub(crate) end: End,
    pub(crate) hellos: &'h mut usize,
}

impl Read for CutAtHello<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.end.read(to)
    }
}

impl Write for CutAtHello<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const HELLO: u8 = 1;
        *self.hellos += usize::from(bytes[0] == HELLO);
        if *self.hellos == 2 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.end.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// E25.6a: a promotion is refused, and the replica follows on.
#[test]
fn refused_promotion_leaves_replica() {
    let world = World::new();
    let (files, follower) = begun(&world.store);
    drop(follower);
    let (full, to) = (SimDisk::new(), SimDisk::new());
    let _open = open(&Arc::new(full.clone())).unwrap();
    promote(&files, &media(&full)).expect_err("E25.6a: the directory has a store");
    let mut follower = Follower::open(files.clone(), "one").expect("E25.6a: it follows on");
    world.add(2);
    follow(&world.store, &mut follower).expect("E25.6a");
    drop(follower);
    promote(&files, &media(&to)).unwrap();
    let again = SimDisk::new();
    promote(&files, &media(&again)).expect("a promotion may be repeated");
    assert_eq!(sum(&open(&Arc::new(again)).unwrap(), world.page), 2, "E25.6");
}
