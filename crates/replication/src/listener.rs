//! The listener of a store.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::Duration;

use cedrat_txn::{Error, ReplicaServer};

use crate::timed::{Greeted, Socket, Timed};
use crate::{Credentials, SILENCE_MAX, SOCKET, TlsStream, prepare};

/// The time after which connections are accepted again when that has failed.
const FAILED_WAIT: Duration = Duration::from_millis(100);

/// Maximum time until a replica has shown its certificate, and has said what it has: a silent peer keeps no place from others.
const GREETING_MAX: Duration = Duration::from_secs(10);

/// Maximum number of connections at once: each has a thread.
const CONNECTIONS_MAX: usize = 64;

/// The end of a connection, for the log of a program: the address of the replica, and the reason.
pub type Ended = Arc<dyn Fn(&str, &Error) + Send + Sync>;

/// Accepts connections of replicas, until it is dropped. It does not keep the store open.
pub struct ReplicaListener {
    shared: Arc<Shared>,
    address: Address,
    /// The socket that accepts connections.
    accepts: Socket,
    thread: Option<JoinHandle<()>>,
}

enum Address {
    Tcp(SocketAddr),
    /// The path of a socket, and the numbers of device and file by which it is known.
    Local(PathBuf, (u64, u64)),
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

impl fmt::Debug for ReplicaListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaListener").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl ReplicaListener {
    /// Listens at an address of this machine, with TLS. Replicas without a certificate of a trusted authority are refused, and so are
    /// those that say a name which their certificate does not have.
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
        let accepts = Socket::Tcp(OwnedFd::from(listener.try_clone()?).into());
        let accept = move |shared: &Arc<Shared>| {
            let (stream, from) = listener.accept()?;
            prepare(&stream)?;
            let socket = Socket::Tcp(stream.try_clone()?);
            let (timed, greeting) = Timed::new(Socket::Tcp(stream), GREETING_MAX);
            let credentials = credentials.clone();
            let serve = move |server: &ReplicaServer| match TlsStream::of_store(timed, &credentials) {
                Ok((stream, certificate)) => {
                    server.serve_named(Greeted::new(stream, greeting), move |name| certificate.may_have(name))
                }
                Err(source) => Err(Error::Io { doing: "beginning a connection with TLS".into(), source }),
            };
            start(shared, socket, from.to_string(), serve)
        };
        ReplicaListener::start(Address::Tcp(address), accepts, server, ended, accept)
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
        let accepts = Socket::Local(OwnedFd::from(listener.try_clone()?).into());
        let number = number_of(&path)?;
        let accept = move |shared: &Arc<Shared>| {
            let (stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(SILENCE_MAX))?;
            stream.set_write_timeout(Some(SILENCE_MAX))?;
            let socket = Socket::Local(stream.try_clone()?);
            let (timed, greeting) = Timed::new(Socket::Local(stream), GREETING_MAX);
            let serve = move |server: &ReplicaServer| server.serve(Greeted::new(timed, greeting));
            start(shared, socket, "this machine".into(), serve)
        };
        ReplicaListener::start(Address::Local(path, number), accepts, server, ended, accept)
    }

    fn start(
        address: Address,
        accepts: Socket,
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
        Ok(ReplicaListener { shared, address, accepts, thread: Some(thread) })
    }

    /// Returns the address at which it listens: that of TCP, or the path of the socket.
    pub fn address(&self) -> String {
        match &self.address {
            Address::Tcp(address) => address.to_string(),
            Address::Local(path, _) => path.display().to_string(),
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
    let place = Place { shared: Arc::clone(shared), number };
    let run = move || {
        if let Err(error) = serve(&place.shared.server) {
            (place.shared.ended)(&from, &error);
        }
    };
    connections.insert(number, Connection { socket, thread: None });
    // Without a thread, the place is free again, for which it needs the lock.
    drop(connections);
    let thread = Builder::new().name("cedrat-replica".into()).spawn(run)?;
    let mut connections = shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
    // It may have ended already.
    if let Some(connection) = connections.get_mut(&number) {
        connection.thread = Some(thread);
    }
    Ok(())
}

/// The place of a connection among those that are served. It is free again also if serving it has panicked.
struct Place {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// Returns the numbers of device and file of a socket.
fn number_of(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

impl Drop for ReplicaListener {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts, also if nothing can connect: no descriptor is free, or the socket was removed.
        self.accepts.shut_down();
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
        if let Address::Local(path, number) = &self.address
            && number_of(path).is_ok_and(|now| now == *number)
        {
            // The next listener would remove it, too.
            let _ = std::fs::remove_file(path);
        }
    }
}
