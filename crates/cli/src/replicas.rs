//! `cedrat follow` and `cedrat promote`.

use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use cedrat::txn::{FollowProgress, Follower, ReplicaError};
use cedrat::wal::Lsn;
use cedrat::{Error, replica_in};
use cedrat_replication::Credentials;
use serde::Serialize;

use crate::arguments::{Follow, Promote};
use crate::backup::Copied;
use crate::look;
use crate::output::{self, Context, Failure, Outcome, grouped};

/// The time between two lines while a replica follows, and between two attempts to connect.
const EACH: Duration = Duration::from_secs(1);

/// A connection with the store.
trait Connection: Read + Write {}

impl<S: Read + Write> Connection for S {}

/// The state of a replica.
#[derive(Debug, Serialize)]
struct Line {
    /// The replica has everything up to this LSN.
    lsn: u64,
    /// The store had so many records more.
    behind: u64,
}

impl Line {
    fn print(&self, as_json: bool) -> Outcome {
        if as_json {
            return output::json(self);
        }
        output::show(format!("LSN {}, {} records behind the store", self.lsn, grouped(self.behind)))
    }
}

/// Follows a store.
pub(crate) fn follow(arguments: &Follow) -> Outcome {
    let credentials = match (&arguments.certificate, &arguments.key, &arguments.authority) {
        (Some(certificate), Some(key), Some(authority)) => {
            Some(Credentials::read(certificate, key, authority).while_doing("reading the certificates")?)
        }
        _ => None,
    };
    let files = replica_in(&arguments.to);
    let mut follower = Follower::open(files, &arguments.name).while_doing(arguments.to.display())?;
    loop {
        let ended = connect(&arguments.from, credentials.as_ref())
            .map_err(Ended::Connection)
            .and_then(|stream| follow_once(&mut follower, stream, arguments));
        let why = match ended {
            Ok(()) => return Ok(()),
            Err(Ended::Output(failure)) => return Err(failure),
            Err(Ended::Connection(error)) if error.kind() == io::ErrorKind::InvalidInput => {
                return output::fail(error.to_string());
            }
            Err(Ended::Connection(error)) => error.to_string(),
            Err(Ended::Follower(error)) if is_passing(&error) => error.to_string(),
            Err(Ended::Follower(error)) => return Err(error).while_doing(arguments.to.display()),
        };
        if arguments.once {
            return output::fail(why);
        }
        output::complain(&why);
        park_timeout(EACH);
    }
}

/// The reason why a connection has ended.
enum Ended {
    Connection(io::Error),
    Follower(Error),
    Output(Failure),
}

fn connect(from: &Path, credentials: Option<&Credentials>) -> io::Result<Box<dyn Connection>> {
    if from.is_dir() {
        return Ok(Box::new(cedrat_replication::connect_local(from)?));
    }
    let (Some(credentials), Some(address)) = (credentials, from.to_str().filter(|from| from.contains(':'))) else {
        let why = "this is no folder; for HOST:PORT name --certificate, --key and --authority";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {why}", from.display())));
    };
    Ok(Box::new(cedrat_replication::connect(address, credentials)?))
}

/// Whether the next connection may succeed.
fn is_passing(error: &Error) -> bool {
    let is_of_connection = matches!(
        error,
        Error::Replica(ReplicaError::Torn { .. } | ReplicaError::Invalid { .. } | ReplicaError::Refused { .. })
    );
    is_of_connection && !cedrat_replication::is_certificate_refused(error)
}

/// Follows over one connection, until it ends, or the replica has what the store had.
fn follow_once(follower: &mut Follower, stream: Box<dyn Connection>, arguments: &Follow) -> Result<(), Ended> {
    let bar = output::progress_of_bytes("copying the store");
    let (mut printed, mut failed): (Option<(Instant, Lsn)>, _) = (None, None);
    let followed = follower.follow(stream, &mut |progress| {
        let FollowProgress::Log { up_to, store } = progress else {
            if let FollowProgress::Base(bytes) = progress {
                bar.set_position(bytes);
            }
            return ControlFlow::Continue(());
        };
        bar.finish_and_clear();
        let is_new = !arguments.once && printed.is_none_or(|(at, lsn)| at.elapsed() >= EACH && lsn < up_to);
        let has_all = arguments.once && up_to >= store;
        if is_new || has_all {
            printed = Some((Instant::now(), up_to));
            let line = Line { lsn: up_to.get(), behind: store.get().saturating_sub(up_to.get()) };
            failed = line.print(arguments.json).err();
        }
        if has_all || failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.finish_and_clear();
    match failed {
        Some(failure) => Err(Ended::Output(failure)),
        None => followed.map_err(Ended::Follower),
    }
}

/// Promotes a replica.
pub(crate) fn promote(arguments: &Promote) -> Outcome {
    look::is_directory(&arguments.replica)?;
    let report = cedrat::promote(&arguments.replica, &arguments.to).while_doing("promoting the replica")?;
    Copied::new(report.up_to, report.bytes, report.total).print(arguments.json)
}
