//! The side of the replica: a base, and an archive that grows over the connection.
//!
//! 1. An extension is acknowledged when it is durable (E25.1).
//! 2. Base and archive are those of any store: views, restores and checks read them, also while the replica follows.
//! 3. The archive begins with the log of the base; so what the store has sent of both is the same (E18.10b), and a base that is complete
//!    can be promoted.

use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::time::Instant;

use cedrat_heap::describe_heaps;
use cedrat_media::Media;
use cedrat_sync::{Arc, planted};
use cedrat_wal::{Log, LogArchive, LogError, LogState, Lsn, StoreId};

use super::error::ReplicaError;
use super::feed::{refused, unreadable};
use super::frame::{FrameKind, Link};
use super::home::{Home, HomeState, ReplicaFiles, no_replica, remove_begun};
use super::message::{Hello, decode_extension, decode_piece, decode_welcome, encode_refusal};
use crate::backup_stream::restore_stream;
use crate::error::{Error, Result};
use crate::restore::{RestoreReport, RestoreTarget, restore_all_but_control};

/// The progress of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FollowProgress {
    /// It gets its base: the number of bytes so far.
    Base(u64),
    /// It has durably all records up to `up_to`, and the store had more up to `store`, when it sent these.
    Log {
        /// The LSN of the replica.
        up_to: Lsn,
        /// The LSN up to which everything was durable in the store.
        store: Lsn,
    },
}

/// A replica of a store, open to follow it. Another one, and a promotion, are refused meanwhile; views of it are not.
#[derive(Debug)]
pub struct Follower {
    files: ReplicaFiles,
    home: Home,
    name: String,
    archive: Option<LogArchive>,
}

impl Follower {
    /// Opens a replica, or begins one in empty directories. `name` identifies it to its store.
    ///
    /// # Errors
    /// [`LogError::AlreadyThere`]: the directories have other files. [`ReplicaError::Promoted`]; [`OpenError::InUse`](crate::OpenError);
    /// damage of the archive; errors of the disks.
    pub fn open(files: ReplicaFiles, name: &str) -> Result<Follower> {
        let home = Home::open(&files, true)?;
        let archive = match home.state {
            HomeState::Begun => None,
            HomeState::Complete(store) => Some(open_archive(&files, store)?),
            HomeState::Promoted(_) if planted!("promoted_replica_follows") => {
                Some(LogArchive::open_alone(&files.archive)?)
            }
            HomeState::Promoted(_) => return Err(ReplicaError::Promoted { file: home.path() }.into()),
        };
        Ok(Follower { files, home, name: name.to_owned(), archive })
    }

    /// Returns the LSN up to which it has all records durably; `None`: its base is not complete.
    pub fn up_to(&self) -> Option<Lsn> {
        self.archive.as_ref().map(LogArchive::up_to)
    }

    /// Follows the store at the other end of a connection, until that ends, or `progress` breaks. It may be called again with another
    /// connection: the replica continues where it was.
    ///
    /// # Errors
    /// [`Error::Replica`]: after [`Torn`](ReplicaError::Torn) and [`Invalid`](ReplicaError::Invalid) connect again; other ones name the
    /// reason of a refusal. Errors of the disks, and damage of the archive.
    pub fn follow<S: Read + Write>(
        &mut self,
        stream: S,
        progress: &mut dyn FnMut(FollowProgress) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut link = Link::new(stream);
        let followed = self.follow_any(&mut link, progress);
        if let Err(error) = &followed {
            // The connection has ended, perhaps; then the store finds that out itself.
            let _ = link.send(FrameKind::Refused, 0, &[&encode_refusal(error)]);
        }
        followed
    }

    fn follow_any<S: Read + Write>(
        &mut self,
        link: &mut Link<S>,
        progress: &mut dyn FnMut(FollowProgress) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.archive.is_none() {
            self.get_base(link, progress)?;
        }
        let archive = self.archive.as_mut().ok_or_else(|| no_replica(self.home.path(), "it has no archive"))?;
        let up_to = archive.up_to();
        let hello = Hello { name: self.name.clone(), archive: Some(archive.state()) };
        link.send(FrameKind::Hello, up_to.get(), &[&hello.encode()?])?;
        let frame = link.receive()?;
        if frame.kind != FrameKind::Welcome {
            return Err(refused(frame, link));
        }
        let (state, checksums) = decode_welcome(&frame.body).map_err(|error| unreadable(error, link))?;
        archive.continue_received(&state, &checksums).map_err(|error| by_name(error, archive, &state))?;
        link.send(FrameKind::Acknowledged, up_to.get(), &[])?;
        loop {
            let up_to = extend(archive, link)?;
            let log = FollowProgress::Log { up_to: archive.up_to(), store: up_to };
            if progress(log).is_break() {
                return Ok(());
            }
        }
    }

    /// Gets a base, and begins the archive of its log.
    fn get_base<S: Read + Write>(
        &mut self,
        link: &mut Link<S>,
        progress: &mut dyn FnMut(FollowProgress) -> ControlFlow<()>,
    ) -> Result<()> {
        remove_begun(&self.files)?;
        let hello = Hello { name: self.name.clone(), archive: None };
        link.send(FrameKind::Hello, 0, &[&hello.encode()?])?;
        let frame = link.receive()?;
        if frame.kind != FrameKind::Welcome {
            return Err(refused(frame, link));
        }
        let (state, _) = decode_welcome(&frame.body).map_err(|error| unreadable(error, link))?;
        let mut reader =
            BaseReader { link, body: Vec::new(), at: 0, bytes: 0, has_ended: false, failed: None, progress };
        let restored = restore_stream(&mut reader, &self.files.base);
        if let Some(error) = reader.failed.take() {
            return Err(error);
        }
        restored?;
        let base = Log::look(&self.files.base)?;
        if base.control().store != state.store() {
            return Err(link.invalid("the base is of another store").into());
        }
        // With the log of the base, so that the store need not keep that, and a promotion needs nothing else.
        let heaps = describe_heaps(&*self.files.base, &state.store(), &[])?;
        let archive = LogArchive::begin_with(&self.files.archive, &base, state.moment(heaps))?;
        self.home.write(HomeState::Complete(state.store()))?;
        // If the file was not written, the next connection gets another base.
        self.archive = Some(archive);
        Ok(())
    }
}

/// Opens the archive of a complete replica.
fn open_archive(files: &ReplicaFiles, store: StoreId) -> Result<LogArchive> {
    let archive = LogArchive::open_alone(&files.archive)?;
    if archive.state().store() != store || Log::look_at_control(&files.base)?.store != store {
        return Err(ReplicaError::OtherStore { replica: archive.state().store(), store }.into());
    }
    Ok(archive)
}

/// Receives an extension, makes it durable, and acknowledges it. Returns the LSN up to which the store has sent.
fn extend<S: Read + Write>(archive: &mut LogArchive, link: &mut Link<S>) -> Result<Lsn> {
    loop {
        let frame = link.receive()?;
        match frame.kind {
            FrameKind::Blocks => {
                let piece = decode_piece(&frame.body).map_err(|error| unreadable(error, link))?;
                archive.append_received(&piece)?;
                link.give_back(frame);
            }
            FrameKind::Extension => {
                let (state, moment) = decode_extension(&frame.body).map_err(|error| unreadable(error, link))?;
                if planted!("log_acknowledged_early") {
                    link.send(FrameKind::Acknowledged, archive.up_to().max(state.up_to()).get(), &[])?;
                    archive.complete(&state, moment)?;
                    return Ok(Lsn::new(frame.lsn));
                }
                let up_to = archive.complete(&state, moment)?;
                link.send(FrameKind::Acknowledged, up_to.get(), &[])?;
                return Ok(Lsn::new(frame.lsn));
            }
            _ => return Err(refused(frame, link)),
        }
    }
}

/// Names the reason why a log does not continue an archive.
fn by_name(error: LogError, archive: &LogArchive, log: &LogState) -> Error {
    let up_to = archive.up_to();
    match error {
        LogError::Foreign { .. } if archive.state().store() != log.store() => {
            ReplicaError::OtherStore { replica: archive.state().store(), store: log.store() }.into()
        }
        LogError::Foreign { .. } => ReplicaError::OtherHistory { up_to }.into(),
        LogError::ArchiveGap { .. } => ReplicaError::Gap { up_to, kept_from: log.first() }.into(),
        other => other.into(),
    }
}

/// Promotes a replica: restores it to its newest record, as a store in an empty directory. The replica follows no store from then on.
///
/// The promoted store continues the history up to that record with one of its own; what the old store has committed later is not in it.
///
/// # Errors
/// [`ReplicaError::NoReplica`]: its base is not complete. [`OpenError::InUse`](crate::OpenError): it follows. Those of
/// [`restore`](crate::restore): the directory is no store, and the replica follows as before. Only if the last write fails, which makes
/// the directory a store, is the replica promoted without one. In either case the call may be repeated with another empty directory.
pub fn promote(files: &ReplicaFiles, to: &Arc<dyn Media>) -> Result<RestoreReport> {
    let mut home = Home::open(files, false)?;
    let (HomeState::Complete(store) | HomeState::Promoted(store)) = home.state else {
        return Err(no_replica(home.path(), "its base is not complete; follow the store again"));
    };
    if planted!("replica_marked_early") {
        home.write(HomeState::Promoted(store))?;
    }
    let began = Instant::now();
    let (log, report) = restore_all_but_control(&files.base, Some(&files.archive), to, RestoreTarget::Newest, true)?;
    // The new store opens only once the replica follows no more.
    home.write(HomeState::Promoted(store))?;
    log.complete()?;
    Ok(RestoreReport { total: began.elapsed(), ..report })
}

/// Reads the stream of a backup from frames.
struct BaseReader<'l, S> {
    link: &'l mut Link<S>,
    body: Vec<u8>,
    at: usize,
    bytes: u64,
    /// Whether the store has sent the end of the base, which ends the stream.
    has_ended: bool,
    /// The reason why the connection ended.
    failed: Option<Error>,
    progress: &'l mut dyn FnMut(FollowProgress) -> ControlFlow<()>,
}

impl<S: Read + Write> Read for BaseReader<'_, S> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.at == self.body.len() && !self.has_ended {
            let frame = match self.link.receive() {
                Ok(frame) if frame.kind == FrameKind::Base => frame,
                Ok(frame) if frame.kind == FrameKind::BaseEnd => {
                    self.has_ended = true;
                    break;
                }
                Ok(frame) => return Err(self.fail(refused(frame, self.link))),
                Err(error) => return Err(self.fail(error.into())),
            };
            self.bytes += frame.body.len() as u64;
            (self.body, self.at) = (frame.body, 0);
            if (self.progress)(FollowProgress::Base(self.bytes)).is_break() {
                let why = "the replica was stopped before its base was complete".to_owned();
                return Err(self.fail(ReplicaError::Refused { why }.into()));
            }
        }
        let len = to.len().min(self.body.len() - self.at);
        to[..len].copy_from_slice(&self.body[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

impl<S> BaseReader<'_, S> {
    fn fail(&mut self, error: Error) -> io::Error {
        let of_stream = io::Error::other(error.to_string());
        self.failed = Some(error);
        of_stream
    }
}
