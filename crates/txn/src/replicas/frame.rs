//! The frames of a connection between a store and a replica (drawn in docs/formats/replication.md).
//!
//! 1. A header has the length of the body, the number of the frame in its direction, and checksums of both. The length is used once the
//!    header's own checksum holds.
//! 2. So a frame that was cut off, changed, lost, repeated or exchanged is refused with its number, before anything of it is used.
//! 3. A side takes memory for the bytes that have come, and not for a length that the other side names.

use cedrat_sync::planted;
use std::io::{self, Read, Write};

use super::error::ReplicaError;

/// The length of a frame's header.
pub(super) const HEADER_LEN: usize = 32;

/// The maximum length of a frame's body: a block of the log has at most 16 MiB, and less than 2 MiB of zeros behind it.
const BODY_LEN_MAX: usize = 32 << 20;

/// Offsets in the header.
mod at {
    pub(super) const KIND: usize = 0;
    pub(super) const ZERO: usize = KIND + 1;
    pub(super) const LEN: usize = ZERO + 3; //        of the body
    pub(super) const NUMBER: usize = LEN + 4; //      of the frame in its direction, from 0
    pub(super) const LSN: usize = NUMBER + 8; //      all records up to it are meant
    pub(super) const BODY_CRC: usize = LSN + 8; //    CRC-32C of the body
    pub(super) const CRC: usize = BODY_CRC + 4; //    CRC-32C of the header before it
    pub(super) const END: usize = CRC + 4;
}
const _: () = assert!(at::END == HEADER_LEN);

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum FrameKind {
    /// Name and state of a replica, which sends it.
    Hello = 1,
    /// State of the store, which sends it.
    Welcome = 2,
    /// Sent by either: the reason why it ends the connection.
    Refused = 3,
    /// A part of the stream of a backup, sent by the store.
    Base = 4,
    /// The end of that stream.
    BaseEnd = 5,
    /// Blocks of the log, sent by the store.
    Blocks = 6,
    /// The state that the archive has with these blocks, sent by the store.
    Extension = 7,
    /// The replica, which sends it, has all records up to the LSN durably.
    Acknowledged = 8,
}

impl FrameKind {
    fn of(number: u8) -> Option<FrameKind> {
        use FrameKind::*;
        [Hello, Welcome, Refused, Base, BaseEnd, Blocks, Extension, Acknowledged]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }
}

/// A frame that was received.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    pub(super) lsn: u64,
    pub(super) body: Vec<u8>,
}

/// One side of a connection.
#[derive(Debug)]
pub(super) struct Link<S> {
    stream: S,
    /// The number of frames that were written.
    sent: u64,
    /// The number of frames that were read.
    received: u64,
    /// Frames that were not written yet.
    out: Vec<u8>,
    /// The memory of the next body.
    spare: Vec<u8>,
    /// Whether the stream has failed. It is not used again: a write to it might wait for the other side.
    is_broken: bool,
}

impl<S: Read + Write> Link<S> {
    pub(super) fn new(stream: S) -> Link<S> {
        Link { stream, sent: 0, received: 0, out: Vec::new(), spare: Vec::new(), is_broken: false }
    }

    /// Adds a frame to those that are written next.
    pub(super) fn put(&mut self, kind: FrameKind, lsn: u64, body: &[&[u8]]) {
        let mut header = [0; HEADER_LEN];
        let len: usize = body.iter().map(|part| part.len()).sum();
        header[at::KIND] = kind as u8;
        header[at::LEN..at::NUMBER].copy_from_slice(&(len as u32).to_le_bytes());
        header[at::NUMBER..at::LSN].copy_from_slice(&self.sent.to_le_bytes());
        header[at::LSN..at::BODY_CRC].copy_from_slice(&lsn.to_le_bytes());
        let of_body = body.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part));
        header[at::BODY_CRC..at::CRC].copy_from_slice(&of_body.to_le_bytes());
        let crc = crc32c::crc32c(&header[..at::CRC]);
        header[at::CRC..].copy_from_slice(&crc.to_le_bytes());
        self.out.extend_from_slice(&header);
        body.iter().for_each(|part| self.out.extend_from_slice(part));
        self.sent += 1;
    }

    /// Forgets the frames that were not written.
    pub(super) fn take_back(&mut self, sent: u64) {
        self.out.clear();
        self.sent = sent;
    }

    /// The number of frames that were written or are to be.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Writes the frames.
    pub(super) fn flush(&mut self) -> Result<(), ReplicaError> {
        let written = match self.is_broken {
            true => Err(io::ErrorKind::NotConnected.into()),
            false => self.stream.write_all(&self.out).and_then(|()| self.stream.flush()),
        };
        self.out.clear();
        self.is_broken |= written.is_err();
        written.map_err(|source| ReplicaError::Torn { frame: self.sent, source })
    }

    /// Writes one frame.
    pub(super) fn send(&mut self, kind: FrameKind, lsn: u64, body: &[&[u8]]) -> Result<(), ReplicaError> {
        self.put(kind, lsn, body);
        self.flush()
    }

    /// Returns the memory of a body that is not used any more.
    pub(super) fn give_back(&mut self, frame: Frame) {
        self.spare = frame.body;
    }

    pub(super) fn invalid(&self, what: impl Into<String>) -> ReplicaError {
        ReplicaError::Invalid { frame: self.received, what: what.into() }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), ReplicaError> {
        let frame = self.received;
        let read = self.stream.read_exact(bytes);
        self.is_broken |= read.is_err();
        read.map_err(|source| ReplicaError::Torn { frame, source })
    }

    /// Reads a body. It takes memory as its bytes come: a length alone costs nothing (E25.3d).
    fn body(&mut self, len: usize) -> Result<Vec<u8>, ReplicaError> {
        let mut body = std::mem::take(&mut self.spare);
        body.clear();
        if planted!("memory_taken_for_length_alone") {
            body.reserve_exact(len);
        }
        let read = (&mut self.stream).take(len as u64).read_to_end(&mut body);
        let whole = read.and_then(|read| if read == len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) });
        if let Err(source) = whole {
            (self.is_broken, self.spare) = (true, body);
            return Err(ReplicaError::Torn { frame: self.received, source });
        }
        Ok(body)
    }

    /// Reads a frame.
    pub(super) fn receive(&mut self) -> Result<Frame, ReplicaError> {
        self.receive_short(BODY_LEN_MAX)
    }

    /// Reads a frame whose body has a maximum length.
    pub(super) fn receive_short(&mut self, len_max: usize) -> Result<Frame, ReplicaError> {
        let mut header = [0; HEADER_LEN];
        self.fill(&mut header)?;
        let four = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let eight = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        if four(at::CRC) != crc32c::crc32c(&header[..at::CRC]) {
            let what = "the checksum of its header does not hold: the bytes were changed, or the other side is no replica and no store";
            return Err(self.invalid(what));
        }
        if eight(at::NUMBER) != self.received && !planted!("repeated_frame_accepted") {
            return Err(self
                .invalid(format!("it has the number {}: a frame was lost, repeated or exchanged", eight(at::NUMBER))));
        }
        let len = four(at::LEN) as usize;
        let kind = FrameKind::of(header[at::KIND]).filter(|_| len <= len_max);
        let kind = kind.ok_or_else(|| self.invalid("its kind or its length is unknown here"))?;
        let body = self.body(len)?;
        if four(at::BODY_CRC) != crc32c::crc32c(&body) && !planted!("changed_frame_accepted") {
            return Err(self.invalid("the checksum of its body does not hold: the bytes were changed"));
        }
        self.received += 1;
        Ok(Frame { kind, lsn: eight(at::LSN), body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E25.3d: the bytes end behind a header that names the longest body.
    #[test]
    fn length_alone_takes_no_memory() {
        let mut sender = Link::new(io::Cursor::new(Vec::new()));
        sender.send(FrameKind::Blocks, 0, &[&[7; 100]]).expect("memory takes it");
        let mut bytes = sender.stream.into_inner();
        bytes[at::LEN..at::NUMBER].copy_from_slice(&(BODY_LEN_MAX as u32).to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..at::CRC]);
        bytes[at::CRC..at::END].copy_from_slice(&crc.to_le_bytes());
        let mut link = Link::new(io::Cursor::new(bytes));
        let torn = link.receive().expect_err("E25.3d: it has 100 bytes");
        assert!(matches!(torn, ReplicaError::Torn { frame: 0, .. }), "E25.3a: {torn}");
        assert!(link.spare.capacity() < 64 << 10, "E25.3d: {} bytes", link.spare.capacity());
    }
}
