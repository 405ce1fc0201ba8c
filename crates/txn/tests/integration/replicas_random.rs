//! Random histories of a store and a replica: commits, checkpoints, crashes of either, and faults of their connection.
#![cfg(not(cedrat_shuttle))] // needs threads of the system

use cedrat_media::{Loss, SimDisk};
use cedrat_sync::Arc;
use cedrat_txn::{Error, Follower, Options, ReplicaError, Store};
use cedrat_wal::Lsn;

use crate::common::*;
use crate::parts::Part;
use crate::replicas::{Fault, World, follow_with, replica_files, replica_options, sum, sum_of};

/// A history, and what was acknowledged.
struct History {
    random: Random,
    options: Options,
    world: World,
    replica: SimDisk,
    follower: Option<Follower>,
    /// The LSN that the store has seen acknowledged, and the sum as it was then.
    acknowledged: (Lsn, i64),
    /// The number of connections that ended with a fault.
    faults: u64,
    /// The number of replicas that were away when the log was full.
    gaps: u64,
}

impl History {
    fn new(seed: u64) -> History {
        let options = match seed % 3 {
            0 => Options::simulated(),
            1 => Options::simulated_growth(),
            _ => Options { partitions: 3, ..Options::simulated_growth() },
        };
        let world = World::with(SimDisk::new(), options.clone(), "store");
        let (random, replica) = (Random::new(seed), SimDisk::new());
        History { random, options, world, replica, follower: None, acknowledged: (Lsn::ZERO, 0), faults: 0, gaps: 0 }
    }

    fn step(&mut self) {
        match self.random.below(12) {
            0..=3 => drop(self.world.add(1 + self.random.below(8) as usize)),
            4 => self.world.store.checkpoint().unwrap(),
            5 => self.world.store.log().promise().unwrap(),
            6 => self.store_crashes(),
            7 => self.replica_crashes(),
            8 => self.faulty_connection(),
            _ => self.connection(Fault::None),
        }
    }

    /// Power fails for the store, which is opened again.
    fn store_crashes(&mut self) {
        let disk = self.world.disk.journal().crash(self.world.disk.journal_len(), Loss::Random(self.random.below(100)));
        let store = Store::open(Arc::new(Part::of(&disk, "store")), self.options.clone(), registry()).unwrap();
        self.world = World { disk, store, page: self.world.page };
    }

    /// Power fails for the replica. It has everything that was acknowledged.
    fn replica_crashes(&mut self) {
        drop(self.follower.take());
        self.replica = self.replica.journal().crash(self.replica.journal_len(), Loss::Random(self.random.below(100)));
        let follower = Follower::open(replica_files(&self.replica), "one").unwrap();
        let up_to = follower.up_to().unwrap_or(Lsn::ZERO);
        assert!(up_to >= self.acknowledged.0, "E25.1: {up_to} of {}", self.acknowledged.0);
        assert!(up_to <= self.world.store.log().durable_lsn(), "E25.2");
        self.follower = Some(follower);
    }

    fn faulty_connection(&mut self) {
        let place = self.random.below(30_000) as usize;
        let fault = match self.random.below(3) {
            0 => Fault::Cut(place),
            1 => Fault::Flip(place),
            _ => Fault::Repeat(1 + place % 4),
        };
        self.connection(fault);
    }

    /// Connects until the replica has what the store has now, or the connection ends.
    fn connection(&mut self, fault: Fault) {
        let files = replica_files(&self.replica);
        let mut follower = self.follower.take().unwrap_or_else(|| Follower::open(files.clone(), "one").unwrap());
        let until = self.world.store.log().durable_lsn();
        let server = self.world.store.replica_server(replica_options());
        let (ended, _) = follow_with(&server, &mut follower, until, fault, |_| {});
        match ended {
            Ok(()) => {}
            Err(Error::Replica(ReplicaError::Torn { .. } | ReplicaError::Invalid { .. })) if fault != Fault::None => {
                self.faults += 1;
            }
            Err(Error::Replica(ReplicaError::Gap { up_to, kept_from })) => {
                assert!(up_to.next() < kept_from, "E25.4: no record is missing: {up_to}, {kept_from}");
                (self.replica, self.acknowledged) = (SimDisk::new(), (Lsn::ZERO, 0));
                self.gaps += 1;
                return;
            }
            Err(other) => panic!("{fault:?}: {other}"),
        }
        // A sum up to an LSN is known for what was followed to its end.
        if follower.up_to() >= Some(until) {
            let expected = sum(&self.world.store, self.world.page);
            self.acknowledged = (until, expected);
            assert_eq!(sum_of(&files, self.world.page), (expected, follower.up_to().unwrap()), "E25.2");
        } else if follower.up_to().is_some_and(|up_to| up_to > self.acknowledged.0) && self.acknowledged.0 > Lsn::ZERO {
            let (found, _) = sum_of(&files, self.world.page);
            let newest = sum(&self.world.store, self.world.page);
            assert!((self.acknowledged.1..=newest).contains(&found), "E25.2: {found} of {newest}");
        }
        self.follower = Some(follower);
    }
}

/// E25.1, E25.2.
#[test]
fn random_histories_are_followed() {
    let (mut faults, mut gaps) = (0, 0);
    for seed in 0..30 {
        let mut history = History::new(seed);
        for _ in 0..40 {
            history.step();
        }
        history.connection(Fault::None);
        (faults, gaps) = (faults + history.faults, gaps + history.gaps);
    }
    assert!(faults > 20 && gaps < 30, "{faults} {gaps}");
}
