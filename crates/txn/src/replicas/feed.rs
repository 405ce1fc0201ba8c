//! The side of the store: a base, then the log as soon as it is durable.
//!
//! 1. The log is kept for a replica from the first block on that it lacks, up to a limit (E25.4).
//! 2. An extension follows when the replica has the one before. So what is committed meanwhile goes together, and memory is bounded.
//! 3. The store is not kept open: no reference to it lives while the stream is read or written, but for a base.

use std::io::{Read, Write};
use std::task::Waker;
use std::time::Instant;

use cedrat_sync::{Arc, Mutex, Weak, planted};
use cedrat_wal::{LogError, LogPosition, LogState, Lsn, StopReason, Stopped};

use super::error::ReplicaError;
use super::frame::{Frame, FrameKind, Link};
use super::message::{
    Hello, PROTOCOL_VERSION, Unreadable, encode_extension, encode_piece, encode_refusal, encode_welcome,
};
use super::{NameCheck, Registered, ReplicaOptions};
use crate::backup::BackupOptions;
use crate::changes::Signal;
use crate::error::{Error, Result};
use crate::store::{Inner, Store};

/// The number of bytes of log in one extension, about.
const EXTENSION_LEN: u64 = 4 << 20;

/// The number of bytes after which the position of a replica is written.
const CONFIRMED_EACH: u64 = 1 << 20;

/// The maximum length of a frame of a replica: a hello has a name, and a control file without the rest of its slot.
const OF_REPLICA_LEN_MAX: usize = 100 << 10;

/// The part of a stream of a backup in one frame.
const BASE_LEN: usize = 256 << 10;

/// The connection of one replica.
pub(super) struct Feed<S> {
    inner: Weak<Inner>,
    link: Arc<Mutex<Link<S>>>,
    options: ReplicaOptions,
    signal: std::sync::Arc<Signal>,
    may_have: NameCheck,
}

/// The state of the replica of a connection.
struct ReplicaState {
    registered: Registered,
    has: LogPosition,
    /// The description of heaps that was sent last, and when.
    described: Option<(Vec<u8>, Instant)>,
    sent_at: Instant,
    /// The number of bytes since the position was written.
    unconfirmed: u64,
    confirmed_at: Instant,
}

impl<S: Read + Write + Send + 'static> Feed<S> {
    pub(super) fn new(inner: Weak<Inner>, stream: S, options: ReplicaOptions, may_have: NameCheck) -> Feed<S> {
        let link = Arc::new(Mutex::new(Link::new(stream)));
        Feed { inner, link, options, signal: std::sync::Arc::default(), may_have }
    }

    /// Serves until the connection ends, or the store is closed. An error is sent to the replica.
    pub(super) fn serve(&self) -> Result<()> {
        let served = self.serve_any();
        if let Err(error) = &served {
            // It has ended, perhaps; then the replica finds that out itself.
            let _ = self.link.lock().send(FrameKind::Refused, 0, &[&encode_refusal(error)]);
        }
        served
    }

    fn serve_any(&self) -> Result<()> {
        let mut base = None;
        loop {
            let hello = self.hello()?;
            match &hello.archive {
                None => base = Some(self.send_base(&hello)?),
                Some(archive) => {
                    let mut fed = self.welcome(&hello, archive)?;
                    // Its position is that of the replica now.
                    drop(base.take());
                    let ended = self.feed(&mut fed);
                    if let Ok(inner) = self.inner()
                        && inner.replicas.ended(&fed.registered)
                    {
                        inner.consumers.replica_has(&fed.registered.name, &fed.has, true)?;
                    }
                    return ended;
                }
            }
        }
    }

    /// Sends the log until the store is closed.
    fn feed(&self, fed: &mut ReplicaState) -> Result<()> {
        while self.extend(fed)? {
            self.wait(fed);
        }
        Ok(())
    }

    fn inner(&self) -> Result<Arc<Inner>> {
        let closed = || Error::Stopped(Stopped { reason: Arc::new(StopReason::Closed) });
        let inner = self.inner.upgrade().ok_or_else(closed)?;
        inner.alive_here()?;
        Ok(inner)
    }

    fn hello(&self) -> Result<Hello> {
        let mut link = self.link.lock();
        let frame = link.receive_short(OF_REPLICA_LEN_MAX)?;
        if frame.kind != FrameKind::Hello {
            return Err(refused(frame, &link));
        }
        let hello = Hello::decode(&frame.body).map_err(|error| unreadable(error, &link))?;
        match (self.may_have)(&hello.name) {
            Err(why) if !planted!("replica_of_other_name_served") => Err(ReplicaError::NotServed { why }.into()),
            _ => Ok(hello),
        }
    }

    /// Keeps the log from here on, and sends a backup. The log is kept beyond the limit until the replica follows from there.
    fn send_base(&self, hello: &Hello) -> Result<BaseUnderWay> {
        let inner = self.inner()?;
        prepare(&inner)?;
        let state = inner.log.state();
        let kept = (state.first(), inner.log.control().partitions.iter().map(|known| known.scan_from).collect());
        inner.consumers.refuse_replica_name(&hello.name)?;
        // An older connection of the name that still lasts writes no position of its own over this one.
        inner.replicas.register(&hello.name);
        let base = BaseUnderWay::begin(&inner, &hello.name);
        inner.consumers.keep_for_replica(&hello.name, self.options.consumer(), None, kept)?;
        let body = encode_welcome(&state, &[])?;
        self.link.lock().send(FrameKind::Welcome, state.up_to().get(), &[&body])?;
        let to = BaseWriter { link: Arc::clone(&self.link), bytes: Vec::new(), inner: Arc::clone(&inner) };
        let store = Store::of_thread(&inner);
        let bytes_per_second_max = self.options.base_bytes_per_second_max;
        let report = store.backup_to_stream(to, BackupOptions { bytes_per_second_max, ..BackupOptions::default() })?;
        // Before the replica may go away with it.
        inner.consumers.base_is_complete(&inner.log, &hello.name, report.up_to)?;
        self.link.lock().send(FrameKind::BaseEnd, report.up_to.get(), &[])?;
        Ok(base)
    }

    /// Checks that the log continues what a replica has, and keeps it from there on.
    fn welcome(&self, hello: &Hello, archive: &LogState) -> Result<ReplicaState> {
        let inner = self.inner()?;
        prepare(&inner)?;
        let (has, store) = (archive.position(), inner.log.control().store);
        if archive.store() != store {
            return Err(ReplicaError::OtherStore { replica: archive.store(), store }.into());
        }
        if !inner.log.may_continue(archive) || has.up_to > inner.log.state().up_to() {
            return Err(ReplicaError::OtherHistory { up_to: has.up_to }.into());
        }
        let kept = (has.up_to.next(), has.offsets.clone());
        inner.consumers.keep_for_replica(&hello.name, self.options.consumer(), Some(&has), kept)?;
        let state = inner.log.state();
        if state.gap_after(&has).is_some() {
            return Err(gap(&inner, &has).into());
        }
        let checksums = inner.log.checksums_of(archive).map_err(|error| lost(error, &inner, &hello.name, &has))?;
        let body = encode_welcome(&state, &checksums)?;
        let registered = inner.replicas.register(&hello.name);
        drop(inner);
        self.link.lock().send(FrameKind::Welcome, state.up_to().get(), &[&body])?;
        // It has compared the blocks.
        self.acknowledged(has.up_to)?;
        let now = Instant::now();
        let mut fed =
            ReplicaState { registered, has, described: None, sent_at: now, unconfirmed: 0, confirmed_at: now };
        self.note(&mut fed)?;
        Ok(fed)
    }

    /// Sends what the replica lacks, and waits until it has that. Returns `false` if the store was closed.
    fn extend(&self, fed: &mut ReplicaState) -> Result<bool> {
        let Ok(inner) = self.inner() else { return Ok(false) };
        let state = inner.log.state();
        let has_more = state.up_to() > fed.has.up_to;
        if !has_more && fed.sent_at.elapsed() < self.options.heartbeat {
            return Ok(true);
        }
        let (mut link, name) = (self.link.lock(), &fed.registered.name);
        let described = inner.memory.describe();
        let (sent, mut bytes) = (link.sent(), 0);
        let reached = inner.log.copy_since(&fed.has, &state, EXTENSION_LEN, &mut |piece| {
            bytes += piece.bytes.len() as u64;
            link.put(FrameKind::Blocks, 0, &[&encode_piece(&piece), piece.bytes]);
            Ok::<_, LogError>(())
        });
        let reached = reached.map_err(|error| {
            link.take_back(sent);
            lost(error, &inner, name, &fed.has)
        })?;
        drop(inner);
        let known = fed.described.as_ref();
        let is_due = known.is_none_or(|(_, at)| at.elapsed() >= self.options.moments);
        let has_all = reached.position() == state.position();
        // A part of the log may have commits to new heaps. Its moment has no time of its own (E25.2b).
        let is_changed =
            known.is_none_or(|(known, _)| *known != described) && (has_all || !planted!("heaps_of_part_not_sent"));
        let moment = (is_changed || is_due && has_all).then(|| state.moment(described.clone()));
        let body = encode_extension(&reached, moment.as_ref())?;
        link.put(FrameKind::Extension, state.up_to().get(), &[&body]);
        link.flush()?;
        drop(link);
        let up_to = reached.up_to().max(fed.has.up_to);
        self.acknowledged(up_to)?;
        if moment.is_some() {
            fed.described = Some((described, Instant::now()));
        }
        (fed.has, fed.sent_at) = (LogPosition { up_to, ..reached.position() }, Instant::now());
        fed.unconfirmed += bytes;
        self.note(fed)
    }

    /// Waits for the acknowledgement of an LSN.
    fn acknowledged(&self, up_to: Lsn) -> Result<()> {
        let mut link = self.link.lock();
        let frame = link.receive_short(OF_REPLICA_LEN_MAX)?;
        if frame.kind != FrameKind::Acknowledged {
            return Err(refused(frame, &link));
        }
        if frame.lsn != up_to.get() {
            return Err(link.invalid(format!("it acknowledges LSN {}, and LSN {up_to} was sent", frame.lsn)).into());
        }
        link.give_back(frame);
        Ok(())
    }

    /// Notes what the replica has. Returns `false` if the store was closed.
    fn note(&self, fed: &mut ReplicaState) -> Result<bool> {
        let Ok(inner) = self.inner() else { return Ok(false) };
        let name = &fed.registered.name;
        if !inner.replicas.has(&fed.registered, fed.has.up_to) {
            return Err(ReplicaError::Replaced { name: name.clone() }.into());
        }
        let is_due = fed.unconfirmed >= CONFIRMED_EACH || fed.confirmed_at.elapsed() >= self.options.heartbeat;
        if !inner.consumers.replica_has(name, &fed.has, is_due)? {
            // It has caught up with what was still there.
            let kept = (fed.has.up_to.next(), fed.has.offsets.clone());
            inner.consumers.keep_for_replica(name, self.options.consumer(), Some(&fed.has), kept)?;
        }
        if is_due {
            (fed.unconfirmed, fed.confirmed_at) = (0, Instant::now());
        }
        Ok(true)
    }

    /// Waits until more of the log is durable, or a heartbeat is due.
    fn wait(&self, fed: &ReplicaState) {
        let Ok(inner) = self.inner() else { return };
        self.signal.lower();
        inner.log.wake_when_durable(fed.has.up_to.next(), &Waker::from(std::sync::Arc::clone(&self.signal)));
        drop(inner);
        self.signal.wait(self.options.heartbeat.saturating_sub(fed.sent_at.elapsed()));
    }
}

/// Returns the error of reading the log for a replica: it may be that the log was not kept.
fn lost(error: LogError, inner: &Inner, name: &str, has: &LogPosition) -> Error {
    match error {
        LogError::Truncated { .. } | LogError::Damaged { .. } if !inner.consumers.is_kept_for(name) => {
            gap(inner, has).into()
        }
        LogError::Truncated { .. } => gap(inner, has).into(),
        other => other.into(),
    }
}

fn gap(inner: &Inner, has: &LogPosition) -> ReplicaError {
    ReplicaError::Gap { up_to: has.up_to, kept_from: inner.log.control().checkpoint.scan_lsn }
}

/// Returns the error for a frame that ends the connection.
pub(super) fn refused<S: Read + Write>(frame: Frame, link: &Link<S>) -> Error {
    match frame.kind {
        FrameKind::Refused => {
            super::message::decode_refusal(&frame.body).map_or_else(|error| unreadable(error, link), Error::from)
        }
        kind => link.invalid(format!("a frame of kind {kind:?} is not expected here")).into(),
    }
}

pub(super) fn unreadable<S: Read + Write>(error: Unreadable, link: &Link<S>) -> Error {
    match error {
        Unreadable::Version(found) => ReplicaError::Version { found, known: PROTOCOL_VERSION }.into(),
        Unreadable::Invalid(what) => link.invalid(what).into(),
    }
}

/// A base that a replica gets, or that it has and does not follow from yet.
struct BaseUnderWay {
    inner: Weak<Inner>,
    name: String,
}

impl BaseUnderWay {
    fn begin(inner: &Arc<Inner>, name: &str) -> BaseUnderWay {
        inner.consumers.base_begins(name);
        BaseUnderWay { inner: Arc::downgrade(inner), name: name.to_owned() }
    }
}

impl Drop for BaseUnderWay {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.consumers.base_ends(&self.name);
        }
    }
}

/// Writes the stream of a backup to frames, unless the store is to be closed: its last checkpoint waits for the backup (E25.10).
struct BaseWriter<S> {
    link: Arc<Mutex<Link<S>>>,
    bytes: Vec<u8>,
    inner: Arc<Inner>,
}

impl<S: Read + Write> Write for BaseWriter<S> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= BASE_LEN {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        for part in self.bytes.chunks(BASE_LEN) {
            if self.inner.replicas.is_ending() && !planted!("close_awaits_base") {
                return Err(std::io::Error::other("the store is being closed"));
            }
            self.link.lock().send(FrameKind::Base, 0, &[part]).map_err(std::io::Error::other)?;
        }
        self.bytes.clear();
        Ok(())
    }
}

/// Prepares a store to have replicas.
fn prepare(inner: &Inner) -> Result<()> {
    if inner.backups.media().is_encrypted() {
        // A replica would get the decrypted log, and write it plainly (E24.1).
        return Err(Error::Misuse(
            "an encrypted store serves no replicas, whose files are not encrypted: use its archive",
        ));
    }
    inner.memory.refuse_plain_stores();
    Ok(())
}
