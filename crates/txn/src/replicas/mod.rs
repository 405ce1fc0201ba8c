//! Replicas: copies of a store elsewhere that follow its log (Lemon §2, §9; E25).
//!
//! ```text
//!   store                                replica
//!     │ ◄───────── hello: name, end ──────── │
//!     │ ── welcome: state, checksums ──────► │  compares its newest blocks
//!     │ ── blocks, blocks, extension ──────► │  writes and syncs them
//!     │ ◄───────── acknowledged: LSN ─────── │
//! ```
//!
//! A replica is a base, which is a backup of the store, and an archive of its log, which grows over a connection. The log follows as
//! soon as it is durable in the store. So what a replica has is a prefix of the store's history, and whatever reads backups and archives
//! reads replicas: [views](crate::open_as_of) of any moment, [restores](crate::restore), checks. A [promotion](promote) is a restore.

mod error;
mod feed;
mod follower;
mod frame;
mod home;
mod message;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, Condvar, Mutex, Weak, planted};
use cedrat_wal::Lsn;

pub use error::ReplicaError;
pub use follower::{FollowProgress, Follower, promote};
pub use home::{REPLICA_FILE, ReplicaFiles};

use crate::consumers::ConsumerOptions;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::store::{Inner, Store};
use feed::Feed;

/// The time after which one that waits for replicas looks whether the store still runs.
const SLICE_MAX: Duration = Duration::from_secs(1);

/// Options of a connection with a replica.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaOptions {
    /// The number of bytes of log that are kept for a replica that lacks them. Beyond, it needs another base.
    pub limit_bytes: u64,
    /// The time after which a frame is sent although nothing was committed: either side notices by it that the other one is away.
    pub heartbeat: Duration,
    /// The time between two moments of the replica's archive, to which a time of a restore or view refers.
    pub moments: Duration,
    /// The maximum number of bytes of pages and heaps that are read in a second for the base of a replica; 0: no limit.
    pub base_bytes_per_second_max: u64,
}

impl Default for ReplicaOptions {
    /// 256 MiB of log, and one second each.
    fn default() -> ReplicaOptions {
        let (limit_bytes, second) = (ConsumerOptions::default().limit_bytes, Duration::from_secs(1));
        ReplicaOptions { limit_bytes, heartbeat: second, moments: second, base_bytes_per_second_max: 0 }
    }
}

impl ReplicaOptions {
    fn consumer(&self) -> ConsumerOptions {
        ConsumerOptions { limit_bytes: self.limit_bytes }
    }
}

/// The replicas that have to have a commit, and the time that is waited for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// The number of replicas.
    pub replicas: usize,
    /// Maximum time.
    pub wait_max: Duration,
}

/// A replica, as its store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaStatus {
    /// Its name.
    pub name: String,
    /// It has durably all records up to this LSN.
    pub up_to: Lsn,
    /// Whether it is connected.
    pub is_connected: bool,
}

/// A function that returns why a connection may not have a name, if that is so.
type NameCheck = Box<dyn Fn(&str) -> std::result::Result<(), String> + Send>;

/// The side of a store for connections of replicas. It does not keep the store open; but as long as a connection lasts after that was
/// closed, for a second or so, another opening may be refused as [`InUse`](crate::OpenError::InUse).
#[derive(Clone)]
pub struct ReplicaServer {
    inner: Weak<Inner>,
    options: ReplicaOptions,
}

impl fmt::Debug for ReplicaServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaServer").field("options", &self.options).finish_non_exhaustive()
    }
}

impl ReplicaServer {
    /// Serves a replica over a connection until that ends, or the store is closed: a [`Follower`] at the other end gets a base if it
    /// needs one, then the log as soon as it is durable. The calling thread does that; each replica needs one.
    ///
    /// The log that a replica lacks is kept, up to a limit, also while it is away: a replica is a [consumer](Store::consumers) with its
    /// name. A store with replicas refuses plain stores to heaps, which are not in the log.
    ///
    /// # Errors
    /// [`Error::Replica`] names the end of the connection, or why the replica is refused; the replica gets the reason, too. Errors of the store.
    pub fn serve(&self, stream: impl Read + Write + Send + 'static) -> Result<()> {
        self.serve_named(stream, |_| Ok(()))
    }

    /// Serves a replica as [`serve`](ReplicaServer::serve) does, if `may_have` lets the connection have the name that the replica says.
    /// An error is the reason of the refusal, for the replica.
    ///
    /// # Errors
    /// Those of [`serve`](ReplicaServer::serve); [`ReplicaError::NotServed`] with that reason.
    pub fn serve_named(
        &self,
        stream: impl Read + Write + Send + 'static,
        may_have: impl Fn(&str) -> std::result::Result<(), String> + Send + 'static,
    ) -> Result<()> {
        Feed::new(Weak::clone(&self.inner), stream, self.options, Box::new(may_have)).serve()
    }

    /// Whether the store was closed, or is being closed, or has stopped.
    pub fn has_ended(&self) -> bool {
        self.inner.upgrade().is_none_or(|inner| inner.replicas.is_ending() || inner.alive().is_err())
    }
}

/// The replicas that have connected since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    known: Mutex<BTreeMap<String, Known>>,
    /// One of them has more.
    changed: Condvar,
    /// Whether the store is being closed.
    is_ending: AtomicBool,
}

#[derive(Debug)]
struct Known {
    up_to: Lsn,
    /// Counts its connections.
    connection: u64,
    is_connected: bool,
}

/// A connection of a replica.
#[derive(Debug)]
struct Registered {
    name: String,
    connection: u64,
}

impl Replicas {
    /// Ends the bases that are sent: the store is to be closed.
    pub(crate) fn end_bases(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    /// Registers a connection, which replaces an older one of the same name.
    fn register(&self, name: &str) -> Registered {
        let mut known = self.known.lock();
        let begun = || Known { up_to: Lsn::ZERO, connection: 0, is_connected: false };
        let replica = known.entry(name.to_owned()).or_insert_with(begun);
        // Another replica may have got the name.
        (replica.connection, replica.up_to, replica.is_connected) = (replica.connection + 1, Lsn::ZERO, false);
        Registered { name: name.to_owned(), connection: replica.connection }
    }

    /// Notes what a replica has. Returns `false` if the connection was replaced.
    fn has(&self, registered: &Registered, up_to: Lsn) -> bool {
        let mut known = self.known.lock();
        let replica = known.get_mut(&registered.name).filter(|known| known.connection == registered.connection);
        let Some(replica) = replica else { return false };
        (replica.up_to, replica.is_connected) = (up_to, true);
        drop(known);
        self.changed.notify_all();
        true
    }

    /// Notes the end of a connection. Returns `false` if it was replaced.
    fn ended(&self, registered: &Registered) -> bool {
        let mut known = self.known.lock();
        let replica = known.get_mut(&registered.name).filter(|known| known.connection == registered.connection);
        replica.map(|replica| replica.is_connected = false).is_some()
    }

    /// Waits until enough replicas have all records up to an LSN.
    fn wait(&self, lsn: Lsn, quorum: Quorum, alive: impl Fn() -> Result<()>) -> Result<()> {
        let began = Instant::now();
        let mut known = self.known.lock();
        loop {
            let have = known.values().filter(|replica| replica.up_to >= lsn).count();
            if have >= quorum.replicas || planted!("replicas_not_awaited") {
                return Ok(());
            }
            let waited = began.elapsed();
            let left = quorum.wait_max.saturating_sub(waited);
            if left.is_zero() {
                return Err(ReplicaError::NotReplicated { lsn, have, wanted: quorum.replicas, waited }.into());
            }
            // No replica notes anything after the store has stopped.
            self.changed.wait_for(&mut known, left.min(SLICE_MAX));
            alive()?;
        }
    }
}

impl Store {
    /// Returns the side of the store for connections of replicas.
    pub fn replica_server(&self, options: ReplicaOptions) -> ReplicaServer {
        ReplicaServer { inner: Arc::downgrade(&self.inner), options }
    }

    /// Returns the replicas that have connected since the store was opened. [`Store::consumers`] lists all for which log is kept.
    pub fn replicas(&self) -> Vec<ReplicaStatus> {
        let known = self.inner.replicas.known.lock();
        let status = |(name, known): (&String, &Known)| ReplicaStatus {
            name: name.clone(),
            up_to: known.up_to,
            is_connected: known.is_connected,
        };
        known.iter().map(status).collect()
    }

    /// Waits until the log up to `lsn` is durable here, and so many replicas have it durably, too. Pass the LSN of a commit's
    /// [ticket](cedrat_wal::Ticket).
    ///
    /// # Errors
    /// [`ReplicaError::NotReplicated`]: the commit is durable in this store, and was not confirmed in time. It is not rolled back, and
    /// may be waited for again. [`Error::Stopped`].
    pub fn wait_replicated(&self, lsn: Lsn, quorum: Quorum) -> Result<()> {
        self.inner.log.force(lsn)?;
        self.inner.replicas.wait(lsn, quorum, || self.inner.alive())
    }
}
