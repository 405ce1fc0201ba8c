//! Sockets of a listener: until a peer has greeted, one deadline holds for all that it sends.
//!
//! A time limit for each read would let a peer without a certificate keep its place for as long as it sends a byte now and then.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::SILENCE_MAX;

/// A socket of either kind.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Local(UnixStream),
}

impl Socket {
    pub(crate) fn shut_down(&self) {
        // It may be closed already.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Socket::Local(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_read_timeout(Some(timeout)),
            Socket::Local(stream) => stream.set_read_timeout(Some(timeout)),
        }
    }
}

/// A connection with a deadline, until its peer has greeted.
#[derive(Debug)]
pub(crate) struct Timed {
    socket: Socket,
    /// `None`: the peer has greeted.
    until: Option<Instant>,
    has_greeted: Arc<AtomicBool>,
}

impl Timed {
    /// Returns the connection, and the flag that ends its deadline.
    pub(crate) fn new(socket: Socket, wait_max: Duration) -> (Timed, Arc<AtomicBool>) {
        let has_greeted = Arc::<AtomicBool>::default();
        let until = Some(Instant::now() + wait_max);
        (Timed { socket, until, has_greeted: Arc::clone(&has_greeted) }, has_greeted)
    }
}

impl Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.until.is_some() && self.has_greeted.load(Ordering::Acquire) {
            self.socket.set_read_timeout(SILENCE_MAX)?;
            self.until = None;
        }
        if let Some(until) = self.until {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the peer has not greeted in time"));
            }
            self.socket.set_read_timeout(left)?;
        }
        match &mut self.socket {
            Socket::Tcp(stream) => stream.read(bytes),
            Socket::Local(stream) => stream.read(bytes),
        }
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.socket {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Local(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(stream) => stream.flush(),
            Socket::Local(stream) => stream.flush(),
        }
    }
}

/// The side of a store of a connection. Its first answer follows a whole greeting, and ends the deadline.
#[derive(Debug)]
pub(crate) struct Greeted<S> {
    stream: S,
    has_greeted: Arc<AtomicBool>,
}

impl<S> Greeted<S> {
    pub(crate) fn new(stream: S, has_greeted: Arc<AtomicBool>) -> Greeted<S> {
        Greeted { stream, has_greeted }
    }
}

impl<S: Read> Read for Greeted<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.read(bytes)
    }
}

impl<S: Write> Write for Greeted<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.has_greeted.store(true, Ordering::Release);
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that sends a byte now and then does not stay beyond the deadline, and one that has greeted does.
    #[test]
    fn slow_peer_is_ended_in_time() {
        let wait_max = Duration::from_millis(50);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&[7; 16]).unwrap();
        let (mut timed, _) = Timed::new(Socket::Local(ours), wait_max);
        let began = Instant::now();
        let mut byte = [0];
        while timed.read_exact(&mut byte).is_ok() {
            theirs.write_all(&byte).unwrap();
        }
        assert!(began.elapsed() >= wait_max, "it had its time");
        let (timed, has_greeted) = Timed::new(timed.socket, Duration::ZERO);
        let mut greeted = Greeted::new(timed, has_greeted);
        greeted.read_exact(&mut byte).unwrap_err();
        greeted.write_all(&byte).unwrap();
        greeted.read_exact(&mut byte).unwrap();
    }
}
