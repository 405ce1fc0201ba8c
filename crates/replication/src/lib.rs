//! Connections between stores and their replicas: TLS over TCP, and sockets within one machine.
//!
//! A store serves replicas with a [`ReplicaListener`]; a [`Follower`](cedrat_txn::Follower) reaches it by [`connect`] or
//! [`connect_local`]. Over TCP both sides show a certificate of an authority that the other one trusts, and the name in that of the
//! store is the host to which the replica connects. Within one machine the permissions of the store's directory decide.
#![forbid(unsafe_code)]

mod listener;
mod timed;
mod tls;

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub use listener::{Ended, ReplicaListener};
pub use tls::{Credentials, TlsStream, is_certificate_refused};

/// The name of the socket in a store's directory.
pub const SOCKET: &str = "replicas.socket";

/// Maximum time for which a side of a connection is silent. A store sends a heartbeat each second.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Connects to a store at `HOST:PORT`. The certificate of the store must have this host's name, or its address.
///
/// # Errors
/// No connection within 30 seconds; an invalid host. That a certificate is refused appears at the first read or write.
pub fn connect(address: &str, credentials: &Credentials) -> io::Result<TlsStream> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{address}: the host has no address"));
    for resolved in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, SILENCE_MAX) {
            Ok(stream) => {
                prepare(&stream)?;
                return TlsStream::of_replica(stream, host, credentials);
            }
            Err(error) => last = io::Error::new(error.kind(), format!("{address}: {error}")),
        }
    }
    Err(last)
}

/// Connects to the process of this machine that has the store in a directory open, and serves replicas there.
///
/// # Errors
/// No process serves replicas there, or the permissions of the socket forbid it.
pub fn connect_local(directory: &Path) -> io::Result<impl Read + Write + use<>> {
    let path = directory.join(SOCKET);
    let stream = UnixStream::connect(&path).map_err(|error| {
        let message = format!("{}: no process serves replicas of this store: {error}", path.display());
        io::Error::new(error.kind(), message)
    })?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    Ok(stream)
}

/// Sets the options of a connection: small frames are sent at once, and a silent side is noticed.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))
}

/// Programs in the documentation are compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/use/replicas.md")]
struct Replicas;
