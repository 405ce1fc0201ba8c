//! Replicas beside faults that random histories have found, and peers that send impossible values.
#![cfg(not(cedrat_shuttle))] // needs threads of the system

use std::io::{self, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;

use cedrat_media::{Call, Fault as DiskFault, Loss, SimDisk};
use cedrat_sync::Arc;
use cedrat_txn::{
    ConsumerOptions, Error, FollowProgress, Follower, ReplicaError, ReplicaFiles, ReplicaOptions, Store, Txn, promote,
};
use cedrat_wal::Log;

use crate::common::*;
use crate::links::*;
use crate::parts::Part;
use crate::replicas::*;

/// E25.5a: the store was idle, and the log has forgotten the opening of the replica's base.
#[test]
fn replica_follows_after_forgotten_opening() {
    let world = World::new();
    world.add(2);
    world.store.checkpoint().unwrap();
    world.store.checkpoint().unwrap();
    let (files, mut follower) = begun(&world.store);
    world.store.checkpoint().unwrap();
    let world = world.reopened();
    world.add(1);
    world.store.checkpoint().unwrap();
    world.store.checkpoint().unwrap();
    follow(&world.store, &mut follower).expect("E25.4, E25.5a");
    assert_eq!(sum_of(&files, world.page).0, 3, "E25.5a");
}

/// Returns a store, the disk of another one that was promoted from a replica of it, and a second replica with its files.
fn promoted_beside() -> (World, Arc<SimDisk>, ReplicaFiles, Follower) {
    let world = World::new();
    world.add(2);
    let (files, follower) = begun(&world.store);
    let (later_files, later) = begun(&world.store);
    drop(follower);
    let to = Arc::new(SimDisk::new());
    promote(&files, &media(&to)).unwrap();
    (world, to, later_files, later)
}

/// E25.5b: old and promoted store have written blocks of one length at one place, and the log of the promoted one has recycled them.
#[test]
fn replica_of_recycled_place_is_refused() {
    let (world, to, later_files, mut later) = promoted_beside();
    for _ in 0..3 {
        let promoted = open(&to).unwrap();
        promoted.transact(|txn| (0..40).try_for_each(|_| txn.update(at(world.page, 1), &Add { amount: 1 }))).unwrap();
        promoted.checkpoint().unwrap();
        promoted.close().unwrap();
    }
    let promoted = open(&to).unwrap();
    let begin = || promoted.log().control().partitions[0].scan_from;
    let end = || Log::look_at_control(&later_files.archive).unwrap().partitions[0].durable_below;
    while end() < begin() {
        world.add(1);
        follow(&world.store, &mut later).unwrap();
    }
    assert!(end() == begin() && later.up_to() < Some(promoted.log().durable_lsn()), "nothing else shows it");
    let refused = replica_error(follow(&promoted, &mut later));
    assert!(matches!(refused, ReplicaError::Gap { .. }), "E25.5b: it has records of the old store: {refused}");
}

/// E25.5b: old and promoted store were opened at one place, with one number, and the log of the promoted one has recycled what differs.
#[test]
fn replica_of_equal_opening_is_refused() {
    let (world, to, later_files, mut later) = promoted_beside();
    // A crash of the old store, with the end that its replica has.
    let crashed = world.disk.journal().crash(world.disk.journal_len(), Loss::Everything);
    let old = Store::open(Arc::new(Part::of(&crashed, "store")), options(), registry()).unwrap();
    let promoted = open(&to).unwrap();
    let add = |txn: &mut Txn| txn.update(at(world.page, 1), &Add { amount: 1 });
    for _ in 0..3 {
        (0..3).for_each(|_| promoted.transact(add).unwrap());
        promoted.checkpoint().unwrap();
    }
    let begin = promoted.log().control().partitions[0].scan_from;
    let end = || Log::look_at_control(&later_files.archive).unwrap().partitions[0].durable_below;
    while end() < begin {
        old.transact(add).unwrap();
        follow(&old, &mut later).unwrap();
    }
    (0..20).for_each(|_| promoted.transact(add).unwrap());
    assert!(end() == begin && later.up_to() < Some(promoted.log().durable_lsn()), "nothing else shows it");
    let refused = replica_error(follow(&promoted, &mut later));
    assert!(matches!(refused, ReplicaError::Gap { .. }), "E25.5b: it has records of the old store: {refused}");
}

/// E25.1a: the first sync of the directory fails, and power fails later.
#[test]
fn marker_outlives_failed_sync() {
    let (world, disk) = (World::new(), SimDisk::new());
    disk.inject(DiskFault::error(Call::SyncDirectory, ErrorKind::Other).of("home"));
    let files = replica_files(&disk);
    Follower::open(files.clone(), "one").expect_err("the disk fails");
    let mut follower = Follower::open(files, "one").unwrap();
    let lsn = world.add(2);
    follow(&world.store, &mut follower).unwrap();
    drop(follower);
    let disk = disk.journal().crash(disk.journal_len(), Loss::Everything);
    let follower = Follower::open(replica_files(&disk), "one").expect("E25.1a");
    assert!(follower.up_to() >= Some(lsn), "E25.1a");
}

/// The archive is begun, and the file that marks the replica is not written: the next connection gets another base.
#[test]
fn base_without_mark_is_sent_again() {
    let (world, disk) = (World::new(), SimDisk::new());
    let files = replica_files(&disk);
    let mut follower = Follower::open(files.clone(), "one").unwrap();
    disk.inject(DiskFault::error(Call::Write, ErrorKind::Other).of("home/"));
    world.add(2);
    follow(&world.store, &mut follower).expect_err("the disk fails");
    assert_eq!(follower.up_to(), None, "E25.2a: nothing was acknowledged");
    world.add(1);
    follow(&world.store, &mut follower).expect("E25.2a");
    assert_eq!(sum_of(&files, world.page).0, 3, "E25.2a");
}

/// E25.4b: a base has more log than the limit, and its replica goes away before it follows.
#[test]
fn replica_with_base_is_not_released() {
    let world = World::new();
    world.add(60);
    let options = ReplicaOptions { limit_bytes: 96 << 10, ..replica_options() };
    let server = world.store.replica_server(options);
    let files = replica_files(&SimDisk::new());
    let mut follower = Follower::open(files.clone(), "one").unwrap();
    let (ours, theirs) = pair(Fault::None);
    let (served, mut hellos, mut frames) = (server.clone(), 0, 0);
    let served = thread::spawn(move || served.serve(theirs));
    let stream = CutAtHello { end: ours, hellos: &mut hellos };
    let beside_base = &mut |progress| {
        if let FollowProgress::Base(_) = progress {
            world.store.checkpoint().unwrap();
            assert_eq!(world.store.consumers()[0].released_bytes, None, "E25.4b: it gets its base");
            frames += 1;
        }
        ControlFlow::Continue(())
    };
    follower.follow(stream, beside_base).unwrap_err();
    served.join().unwrap().unwrap_err();
    assert!(frames > 0);
    world.add(3);
    world.store.checkpoint().unwrap();
    let status = &world.store.consumers()[0];
    assert!(status.released_bytes.is_none() && status.lag_bytes > Some(96 << 10), "E25.4b: {status:?}");
    let until = world.store.log().durable_lsn();
    follow_with(&server, &mut follower, until, Fault::None, |_| {}).0.expect("E25.4b");
    assert_eq!(sum_of(&files, world.page).0, 63, "E25.4b");
    assert_eq!(world.store.consumers()[0].limit_bytes, 96 << 10, "the limit of the connection");
}

/// A refusal that another connection would meet, too.
#[test]
fn unserved_replica_is_refused_by_name() {
    let world = World::new();
    world.store.consumer("one", ConsumerOptions::default()).unwrap();
    let mut follower = Follower::open(replica_files(&SimDisk::new()), "one").unwrap();
    let refused = replica_error(follow(&world.store, &mut follower));
    assert!(matches!(refused, ReplicaError::NotServed { .. }), "{refused}");
}

/// E25.9: a connection may have another name only.
#[test]
fn replica_of_other_name_is_refused() {
    let world = World::new();
    let (ours, theirs) = pair(Fault::None);
    let server = world.store.replica_server(replica_options());
    let served = thread::spawn(move || {
        server.serve_named(theirs, |name| if name == "west" { Ok(()) } else { Err(format!("it is not {name}")) })
    });
    let mut follower = Follower::open(replica_files(&SimDisk::new()), "east").unwrap();
    let refused = replica_error(follower.follow(ours, &mut |_| ControlFlow::Break(())));
    assert!(matches!(&refused, ReplicaError::NotServed { why } if why == "it is not east"), "E25.9: {refused}");
    assert!(served.join().unwrap().is_err() && world.store.consumers().is_empty(), "E25.9: nothing is kept for it");
}

/// The store's end of a connection, which takes a part of a base, and no more until it is released.
struct Stalled {
    end: End,
    sent: Arc<AtomicUsize>,
    stalls: mpsc::Sender<()>,
    released: mpsc::Receiver<()>,
}

impl Read for Stalled {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.end.read(to)
    }
}

impl Write for Stalled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const TAKEN: usize = 300 << 10;
        let before = self.sent.fetch_add(bytes.len(), Ordering::SeqCst);
        if before <= TAKEN && TAKEN < before + bytes.len() {
            self.stalls.send(()).unwrap();
            self.released.recv().unwrap();
        }
        self.end.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// E25.10: the base has more frames, and the connection takes them as soon as the store is being closed.
#[test]
fn closing_store_ends_its_bases() {
    let world = World::new();
    for _ in 0..300 {
        world.store.transact(page_with_zeros).unwrap();
    }
    let (ours, theirs) = pair(Fault::None);
    let ((stalls, stalled), (release, released)) = (mpsc::channel(), mpsc::channel());
    let server = world.store.replica_server(replica_options());
    let sent = Arc::new(AtomicUsize::new(0));
    let (serving, to) = (server.clone(), Arc::clone(&sent));
    let served = thread::spawn(move || serving.serve(Stalled { end: theirs, sent: to, stalls, released }));
    let mut follower = Follower::open(replica_files(&SimDisk::new()), "one").unwrap();
    let follows = thread::spawn(move || {
        let followed = follower.follow(ours, &mut |_| ControlFlow::Continue(()));
        (followed, follower.up_to())
    });
    stalled.recv().unwrap();
    let store = world.store;
    let closes = thread::spawn(move || store.close());
    while !server.has_ended() {
        thread::yield_now();
    }
    release.send(()).unwrap();
    closes.join().unwrap().expect("E25.10");
    served.join().unwrap().expect_err("E25.10: the base was not complete");
    let (followed, up_to) = follows.join().unwrap();
    followed.expect_err("E25.10");
    assert_eq!(up_to, None, "E25.10: the base is not complete");
    assert!(sent.load(Ordering::SeqCst) < 700 << 10, "E25.10: the rest of the base was sent: {sent:?} bytes");
}

/// An end of a connection that keeps what is written to it.
struct Recording {
    end: End,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Read for Recording {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.end.read(to)
    }
}

impl Write for Recording {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.lock().unwrap().extend(bytes);
        self.end.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A peer that sends bytes, and takes whatever it gets.
struct Replay(io::Cursor<Vec<u8>>);

impl Read for Replay {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.read(to)
    }
}

impl Write for Replay {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the places of frames.
fn frames(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let (mut at, mut frames) = (0, Vec::new());
    while at < bytes.len() {
        let len = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        frames.push(at..at + 32 + len);
        at += 32 + len;
    }
    frames
}

/// Repeats, removes or exchanges some frames, and gives all of them the numbers of their places.
fn reordered(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut frames: Vec<_> = frames(bytes).into_iter().map(|place| bytes[place].to_vec()).collect();
    for _ in 0..1 + random.below(3) {
        let len = frames.len() as u64;
        let [one, other] = [random.below(len), random.below(len)].map(|at| at as usize);
        match random.below(4) {
            0 => frames.insert(one, frames[other].clone()),
            1 if len > 1 => drop(frames.remove(one)),
            _ => frames.swap(one, other),
        }
    }
    for (number, frame) in frames.iter_mut().enumerate() {
        frame[8..16].copy_from_slice(&(number as u64).to_le_bytes());
        let crc = crc32c::crc32c(&frame[..28]);
        frame[28..32].copy_from_slice(&crc.to_le_bytes());
    }
    frames.concat()
}

/// Changes some bytes of a frame to an extreme value, and makes its checksums hold again; also those of a state at its beginning.
fn changed(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let frames = frames(&bytes);
    let frame = frames[random.below(frames.len() as u64) as usize].clone();
    let (begin, end) = (frame.start, frame.end);
    let fields = [(0, 1), (4, 4), (16, 8)];
    let (at, len) = match fields.get(random.below(24) as usize) {
        Some(&(at, len)) => (begin + at, len),
        None => {
            (begin + 32 + random.below(1.max(end as u64 - begin as u64 - 32).min(700)) as usize, 1 << random.below(4))
        }
    };
    let number = match random.below(5) {
        0 => 0,
        1 => u64::MAX,
        2 => 1 << random.below(64),
        3 => u64::from_le_bytes(std::array::from_fn(|index| bytes.get(at + index).copied().unwrap_or(0))) + 1,
        _ => random.below(u64::MAX),
    };
    let to = (at + len).min(end);
    if at < to {
        bytes[at..to].copy_from_slice(&number.to_le_bytes()[..to - at]);
    }
    // A state has a time, a magic number and a checksum of the rest.
    let body = begin + 32;
    let found = bytes[body..end].windows(8).position(|window| window == b"CEDRATCF");
    if let Some(slot) = found.map(|slot| body + slot).filter(|slot| slot + 20 <= end) {
        let used = u32::from_le_bytes(bytes[slot + 16..slot + 20].try_into().unwrap()) as usize;
        if (20..=end - slot).contains(&used) {
            let crc = crc32c::crc32c(&bytes[slot + 12..slot + used]);
            bytes[slot + 8..slot + 12].copy_from_slice(&crc.to_le_bytes());
        }
    }
    let crc = crc32c::crc32c(&bytes[body..end]);
    bytes[begin + 24..begin + 28].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[begin..begin + 28]);
    bytes[begin + 28..begin + 32].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Records what both sides of a connection write.
fn recorded(store: &Store, follower: &mut Follower) -> (Vec<u8>, Vec<u8>) {
    let (ours, theirs) = pair(Fault::None);
    let (of_replica, of_store) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<Mutex<Vec<u8>>>::default());
    let server = store.replica_server(replica_options());
    let stream = Recording { end: theirs, written: Arc::clone(&of_store) };
    let served = thread::spawn(move || server.serve(stream));
    let until = store.log().durable_lsn();
    let stream = Recording { end: ours, written: Arc::clone(&of_replica) };
    follower
        .follow(stream, &mut |progress| match progress {
            FollowProgress::Log { up_to, .. } if up_to >= until => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .unwrap();
    let _ = served.join().unwrap();
    let bytes = |written: Arc<Mutex<Vec<u8>>>| std::mem::take(&mut *written.lock().unwrap());
    (bytes(of_replica), bytes(of_store))
}

/// E25.3c: a peer that has a certificate, and sends impossible values with checksums that hold.
#[test]
fn impossible_values_are_refused() {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let from = number("CEDRAT_SEED").unwrap_or(0);
    let world = World::new();
    world.add(5);
    let disk = SimDisk::new();
    let mut follower = Follower::open(replica_files(&disk), "one").unwrap();
    let base = recorded(&world.store, &mut follower);
    drop(follower);
    let before = disk.image();
    world.add(5);
    let mut follower = Follower::open(replica_files(&disk), "one").unwrap();
    let log = recorded(&world.store, &mut follower);
    drop(follower);
    let mut refused = 0;
    let lie = |bytes: &[u8], random: &mut Random| match random.below(4) {
        0 => reordered(bytes, random),
        1 => changed(&reordered(bytes, random), random),
        _ => changed(bytes, random),
    };
    for seed in from..from + 800 {
        let mut random = Random::new(seed);
        let ((of_replica, of_store), is_base) = if seed % 3 == 0 { (&base, true) } else { (&log, false) };
        let replica = if is_base { SimDisk::new() } else { SimDisk::from_image(before.clone()) };
        let mut follower = Follower::open(replica_files(&replica), "one").unwrap();
        let stream = Replay(io::Cursor::new(lie(of_store, &mut random)));
        let followed = follower.follow(stream, &mut |_| ControlFlow::Continue(()));
        refused += u64::from(!matches!(followed, Err(Error::Replica(ReplicaError::Torn { .. }))));
        if seed % 8 == 0 {
            drop(follower);
            let mut follower =
                Follower::open(replica_files(&replica), "one").expect("E25.3c: the replica is as before");
            match follow(&world.store, &mut follower) {
                Ok(()) => assert_eq!(sum_of(&replica_files(&replica), world.page).0, 10, "E25.3c"),
                // It has believed what is possible.
                Err(Error::Replica(ReplicaError::OtherStore { .. } | ReplicaError::OtherHistory { .. })) => {}
                Err(other) => panic!("E25.3c: {seed}: {other}"),
            }
        }
        let server = world.store.replica_server(replica_options());
        let stream = Replay(io::Cursor::new(lie(of_replica, &mut random)));
        server.serve(stream).expect_err("E25.3c: the bytes have ended");
    }
    assert!(refused > 200, "{refused}");
    world.add(1);
    world.store.checkpoint().unwrap();
    let files = replica_files(&SimDisk::new());
    let mut follower = Follower::open(files.clone(), "other").unwrap();
    follow(&world.store, &mut follower).expect("E25.3c: the store serves others");
    assert_eq!(sum_of(&files, world.page).0, 11, "E25.3c");
}
