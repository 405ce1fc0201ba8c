//! The listener of a store.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::Duration;

use cedrat_txn::{Error, ReplicaServer};

use crate::{Credentials, SILENCE_MAX, SOCKET, TlsStream, prepare};

/// The time after which connections are accepted again when that has failed.
const FAILED_WAIT: Duration = Duration::from_millis(100);

/// Maximum number of connections at once: each has a thread.
const CONNECTIONS_MAX: usize = 64;

/// The end of a connection, for the log of a program: the address of the replica, and the reason.
pub type Ended = Arc<dyn Fn(&str, &Error) + Send + Sync>;

/// Accepts connections of replicas, until it is dropped. It does not keep the store open.
pub struct ReplicaListener {
    shared: Arc<Shared>,
    address: Address,
    thread: Option<JoinHandle<()>>,
}

enum Address {
    Tcp(SocketAddr),
    Local(PathBuf),
}

struct Shared {
    server: ReplicaServer,
    ended: Ended,
    is_ending: AtomicBool,
    connections: Mutex<HashMap<u64, Connection>>,
}

/// A connection that is served.
struct Connection {
    socket: Socket,
    thread: Option<JoinHandle<()>>,
}

enum Socket {
    Tcp(TcpStream),
    Local(UnixStream),
}

impl Socket {
    fn shut_down(&self) {
        // It may be closed already.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Socket::Local(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl fmt::Debug for ReplicaListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaListener").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl ReplicaListener {
    /// Listens at an address of this machine, with TLS. Replicas without a certificate of a trusted authority are refused.
    ///
    /// # Errors
    /// The address is in use, or is not of this machine; the system refuses a thread.
    pub fn bind(
        address: impl ToSocketAddrs,
        credentials: &Credentials,
        server: ReplicaServer,
        ended: Ended,
    ) -> io::Result<ReplicaListener> {
        let listener = TcpListener::bind(address)?;
        let (address, credentials) = (listener.local_addr()?, credentials.clone());
        let accept = move |shared: &Arc<Shared>| {
            let (stream, from) = listener.accept()?;
            prepare(&stream)?;
            let socket = Socket::Tcp(stream.try_clone()?);
            let credentials = credentials.clone();
            let serve = move |server: &ReplicaServer| match TlsStream::of_store(stream, &credentials) {
                Ok(stream) => server.serve(stream),
                Err(source) => Err(Error::Io { doing: "beginning a connection with TLS".into(), source }),
            };
            start(shared, socket, from.to_string(), serve)
        };
        ReplicaListener::start(Address::Tcp(address), server, ended, accept)
    }

    /// Listens in the directory of the store that this process has open, for processes of this machine that may use the directory's
    /// socket: those of its owner.
    ///
    /// # Errors
    /// The path is too long for a socket, or the directory refuses it; the system refuses a thread.
    pub fn bind_local(directory: &Path, server: ReplicaServer, ended: Ended) -> io::Result<ReplicaListener> {
        let path = directory.join(SOCKET);
        // One of an earlier process: only one has the store open.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let accept = move |shared: &Arc<Shared>| {
            let (stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(SILENCE_MAX))?;
            stream.set_write_timeout(Some(SILENCE_MAX))?;
            let socket = Socket::Local(stream.try_clone()?);
            start(shared, socket, "this machine".into(), move |server: &ReplicaServer| server.serve(stream))
        };
        ReplicaListener::start(Address::Local(path), server, ended, accept)
    }

    fn start(
        address: Address,
        server: ReplicaServer,
        ended: Ended,
        accept: impl Fn(&Arc<Shared>) -> io::Result<()> + Send + 'static,
    ) -> io::Result<ReplicaListener> {
        let (is_ending, connections) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { server, ended, is_ending, connections });
        let accepting = Arc::clone(&shared);
        let run = move || {
            while !accepting.is_ending.load(Ordering::SeqCst) && !accepting.server.has_ended() {
                if let Err(source) = accept(&accepting)
                    && !accepting.is_ending.load(Ordering::SeqCst)
                {
                    let doing = "accepting the connection of a replica".to_owned();
                    (accepting.ended)("a replica", &Error::Io { doing, source });
                    // Without a descriptor for it, the next attempt would fail at once.
                    park_timeout(FAILED_WAIT);
                }
            }
        };
        let thread = Builder::new().name("cedrat-replicas".into()).spawn(run)?;
        Ok(ReplicaListener { shared, address, thread: Some(thread) })
    }

    /// Returns the address at which it listens: that of TCP, or the path of the socket.
    pub fn address(&self) -> String {
        match &self.address {
            Address::Tcp(address) => address.to_string(),
            Address::Local(path) => path.display().to_string(),
        }
    }
}

/// Serves a connection with a thread of its own.
fn start(
    shared: &Arc<Shared>,
    socket: Socket,
    from: String,
    serve: impl FnOnce(&ReplicaServer) -> Result<(), Error> + Send + 'static,
) -> io::Result<()> {
    let mut connections = shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
    if connections.len() >= CONNECTIONS_MAX {
        socket.shut_down();
        let message = format!("{from}: there are {CONNECTIONS_MAX} connections already");
        return Err(io::Error::new(io::ErrorKind::QuotaExceeded, message));
    }
    let number = connections.keys().max().map_or(0, |newest| newest + 1);
    let serving = Arc::clone(shared);
    let run = move || {
        if let Err(error) = serve(&serving.server) {
            (serving.ended)(&from, &error);
        }
        serving.connections.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    };
    // The thread cannot end before it is entered here: it needs the lock for that.
    let thread = Builder::new().name("cedrat-replica".into()).spawn(run)?;
    connections.insert(number, Connection { socket, thread: Some(thread) });
    Ok(())
}

impl Drop for ReplicaListener {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts; if that fails, it has ended.
        match &self.address {
            Address::Tcp(address) => drop(TcpStream::connect_timeout(&reachable(*address), SILENCE_MAX)),
            Address::Local(path) => drop(UnixStream::connect(path)),
        }
        if let Some(thread) = self.thread.take() {
            // A panic was printed.
            let _ = thread.join();
        }
        let mut threads = Vec::new();
        for connection in self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner).values_mut() {
            connection.socket.shut_down();
            threads.extend(connection.thread.take());
        }
        for thread in threads {
            let _ = thread.join();
        }
        if let Address::Local(path) = &self.address {
            // The next listener would remove it, too.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Returns an address at which this machine is reached that listens at all of its addresses.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        match address {
            SocketAddr::V4(_) => address.set_ip(std::net::Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(_) => address.set_ip(std::net::Ipv6Addr::LOCALHOST.into()),
        }
    }
    address
}
