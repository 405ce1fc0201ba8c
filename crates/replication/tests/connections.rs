//! Replicas over TLS and over local sockets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cedrat::prelude::*;
use cedrat::txn::{FollowProgress, Follower, ReplicaError, ReplicaOptions, RestoreTarget};
use cedrat::wal::Lsn;
use cedrat_replication::{Credentials, Ended, ReplicaListener, connect, connect_local, is_certificate_refused};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// An authority, and the files that it issues.
struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let folder = folder.join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("authority.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { folder, issuer: Issuer::new(params, key) }
    }

    /// Issues a certificate for a name; the holder trusts `trusted`.
    fn issue(&self, name: &str, trusted: &Authority) -> Credentials {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        let (of_certificate, of_key) = (self.folder.join("own.pem"), self.folder.join("own.key"));
        std::fs::write(&of_certificate, certificate.pem()).unwrap();
        std::fs::write(&of_key, key.serialize_pem()).unwrap();
        Credentials::read(&of_certificate, &of_key, &trusted.folder.join("authority.pem")).unwrap()
    }
}

struct World {
    folder: tempfile::TempDir,
    store: Store,
    table: HashTable<String, u64>,
    ends: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let store = cedrat::open(folder.path().join("store")).unwrap();
        let table = store.transact(|txn| HashTable::<String, u64>::create(txn, "table")).unwrap();
        World { folder, store, table, ends: Arc::default() }
    }

    fn ended(&self) -> Ended {
        let ends = Arc::clone(&self.ends);
        Arc::new(move |_, why| ends.lock().unwrap().push(why.to_string()))
    }

    fn insert(&self, value: u64) -> Lsn {
        self.store.transact(|txn| self.table.insert(txn, "key", &value)).unwrap();
        self.store.log().durable_lsn()
    }

    fn listen(&self, credentials: &Credentials) -> ReplicaListener {
        let server = self.store.replica_server(ReplicaOptions::default());
        ReplicaListener::bind("127.0.0.1:0", credentials, server, self.ended()).unwrap()
    }

    fn follower(&self, name: &str) -> Follower {
        Follower::open(cedrat::replica_in(self.folder.path().join(name)), name).unwrap()
    }

    /// Returns the value of a replica.
    fn value_in(&self, replica: &str) -> Option<u64> {
        let (replica, scratch) = (self.folder.path().join(replica), tempfile::tempdir().unwrap());
        let archive = replica.join("archive");
        let newest = RestoreTarget::Newest;
        let (view, _) = cedrat::open_as_of(replica.join("base"), Some(&archive), newest, scratch.path()).unwrap();
        view.transact(|txn| HashTable::<String, u64>::open(txn, "table")?.get(txn, "key")).unwrap()
    }
}

fn follow(follower: &mut Follower, stream: impl Read + Write, until: Lsn) -> Result<()> {
    follower.follow(stream, &mut |progress| match progress {
        FollowProgress::Log { up_to, .. } if up_to >= until => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
}

#[test]
fn replica_follows_over_tls() {
    let world = World::new();
    let authority = Authority::new(world.folder.path(), "authority");
    let of_store = authority.issue("localhost", &authority);
    let listener = world.listen(&of_store);
    let address = listener.address().replace("127.0.0.1", "localhost");
    let mut follower = world.follower("replica");
    let of_replica = authority.issue("replica", &authority);
    for value in 1..=3 {
        let lsn = world.insert(value);
        follow(&mut follower, connect(&address, &of_replica).unwrap(), lsn).unwrap();
        assert_eq!(world.value_in("replica"), Some(value));
    }
    drop(listener);
    assert!(connect(&address, &of_replica).is_err(), "nothing listens any more");
    world.store.close().unwrap();
}

#[test]
fn peers_without_trusted_certificate_are_refused() {
    let world = World::new();
    let (ours, other) = (Authority::new(world.folder.path(), "ours"), Authority::new(world.folder.path(), "others"));
    let listener = world.listen(&ours.issue("localhost", &ours));
    let address = listener.address().replace("127.0.0.1", "localhost");
    world.insert(1);
    let strangers = [other.issue("replica", &ours), other.issue("replica", &other)];
    for credentials in &strangers {
        let ended = follow(&mut world.follower("replica"), connect(&address, credentials).unwrap(), Lsn::MAX);
        assert!(matches!(ended, Err(Error::Replica(ReplicaError::Torn { .. }))), "{ended:?}");
    }
    let by_address = connect(&listener.address(), &ours.issue("replica", &ours)).unwrap();
    let ended = follow(&mut world.follower("replica"), by_address, Lsn::MAX).unwrap_err();
    assert!(is_certificate_refused(&ended), "the name of the host: {ended}");
    assert!(ended.to_string().contains("certificate"), "the name of the host: {ended}");
    let mut plain = TcpStream::connect(listener.address()).unwrap();
    plain.write_all(&[b'x'; 64]).unwrap();
    plain.read_to_end(&mut Vec::new()).unwrap();
    drop(listener);
    assert!(world.store.replicas().is_empty() && world.store.consumers().is_empty(), "nothing is kept for strangers");
    assert!(world.ends.lock().unwrap().len() >= 4, "{:?}", world.ends.lock().unwrap());
}

/// E25.9.
#[test]
fn certificate_of_other_name_is_refused() {
    let world = World::new();
    let authority = Authority::new(world.folder.path(), "authority");
    let listener = world.listen(&authority.issue("localhost", &authority));
    let address = listener.address().replace("127.0.0.1", "localhost");
    let of_east = authority.issue("east", &authority);
    for name in ["west", "no name of a host"] {
        let refused = follow(&mut world.follower(name), connect(&address, &of_east).unwrap(), Lsn::MAX).unwrap_err();
        let is_named = matches!(&refused, Error::Replica(ReplicaError::NotServed { why }) if why.contains(name));
        assert!(is_named, "E25.9: {refused}");
    }
    assert!(world.store.consumers().is_empty(), "E25.9: nothing is kept for them");
    let lsn = world.insert(1);
    follow(&mut world.follower("east"), connect(&address, &of_east).unwrap(), lsn).unwrap();
    drop(listener);
}

#[test]
fn replica_follows_store_in_directory() {
    let world = World::new();
    let directory = world.folder.path().join("store");
    assert!(connect_local(&directory).is_err(), "nothing listens");
    let server = || world.store.replica_server(ReplicaOptions::default());
    let first = ReplicaListener::bind_local(&directory, server(), world.ended()).unwrap();
    let mut follower = world.follower("replica");
    let lsn = world.insert(7);
    follow(&mut follower, connect_local(&directory).unwrap(), lsn).unwrap();
    assert_eq!(world.value_in("replica"), Some(7));
    drop(first);
    let again = ReplicaListener::bind_local(&directory, server(), world.ended()).unwrap();
    let stream = connect_local(&directory).unwrap();
    let follows = std::thread::spawn(move || follow(&mut follower, stream, Lsn::MAX));
    let lsn = world.insert(8);
    let quorum = cedrat::txn::Quorum { replicas: 1, wait_max: Duration::from_secs(60) };
    world.store.wait_replicated(lsn, quorum).unwrap();
    assert_eq!(world.value_in("replica"), Some(8));
    drop(again);
    assert!(matches!(follows.join().unwrap(), Err(Error::Replica(_))));
    cedrat::backup(&world.store, world.folder.path().join("backup"), Default::default()).unwrap();
}

#[test]
fn listener_ends_without_its_socket() {
    let world = World::new();
    let directory = world.folder.path().join("store");
    let server = || world.store.replica_server(ReplicaOptions::default());
    let first = ReplicaListener::bind_local(&directory, server(), world.ended()).unwrap();
    std::fs::remove_file(first.address()).unwrap();
    let second = ReplicaListener::bind_local(&directory, server(), world.ended()).unwrap();
    drop(first);
    assert!(connect_local(&directory).is_ok(), "the socket of another listener stays");
    drop(second);
    assert!(connect_local(&directory).is_err(), "its own one does not");
}
