//! The bodies of frames (drawn in docs/formats/replication.md).

use cedrat_sync::planted;
use cedrat_wal::{BlocksChecksum, LogOffset, LogPiece, LogState, Lsn, Moment, PartitionId};

use super::error::ReplicaError;

/// The first bytes of a replica's hello.
const MAGIC: [u8; 8] = *b"CEDRATRP";

/// The version of the protocol.
pub(super) const PROTOCOL_VERSION: u32 = 1;

/// The length of the fixed part of a frame of blocks.
pub(super) const BLOCKS_HEADER_LEN: usize = 32;

/// The beginning of a connection, by the replica.
#[derive(Debug)]
pub(super) struct Hello {
    pub(super) name: String,
    /// The state of its archive; `None`: it needs a base.
    pub(super) archive: Option<LogState>,
}

/// The reason why the bytes of a message are refused.
#[derive(Debug)]
pub(super) enum Unreadable {
    Version(u32),
    Invalid(String),
}

impl From<&str> for Unreadable {
    fn from(what: &str) -> Unreadable {
        Unreadable::Invalid(what.into())
    }
}

/// A reader of a body.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn bytes(&mut self, len: usize) -> Result<&'b [u8], Unreadable> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or("its body is too short")?;
        self.0 = rest;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, Unreadable> {
        Ok(u32::from_le_bytes(self.bytes(4)?.try_into().expect("four bytes")))
    }

    fn u64(&mut self) -> Result<u64, Unreadable> {
        Ok(u64::from_le_bytes(self.bytes(8)?.try_into().expect("eight bytes")))
    }

    fn state(&mut self) -> Result<Option<LogState>, Unreadable> {
        let len = self.u32()? as usize;
        if len == 0 {
            return Ok(None);
        }
        let state = LogState::decode(self.bytes(len)?).map_err(|error| match error {
            cedrat_wal::LogError::Version { found, .. } => Unreadable::Version(found),
            other => Unreadable::Invalid(other.to_string()),
        })?;
        Ok(Some(state))
    }
}

/// Returns a state with its length before it.
pub(super) fn encode_state(state: &LogState) -> Result<Vec<u8>, cedrat_wal::LogError> {
    let bytes = state.encode()?;
    Ok([&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat())
}

impl Hello {
    pub(super) fn encode(&self) -> Result<Vec<u8>, cedrat_wal::LogError> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(PROTOCOL_VERSION.to_le_bytes());
        bytes.extend((self.name.len() as u32).to_le_bytes());
        bytes.extend(self.name.as_bytes());
        match &self.archive {
            Some(archive) => bytes.extend(encode_state(archive)?),
            None => bytes.extend(0_u32.to_le_bytes()),
        }
        Ok(bytes)
    }

    pub(super) fn decode(body: &[u8]) -> Result<Hello, Unreadable> {
        let mut fields = Fields(body);
        if fields.bytes(8)? != MAGIC {
            return Err("it is no hello of a replica".into());
        }
        match fields.u32()? {
            PROTOCOL_VERSION => {}
            found => return Err(Unreadable::Version(found)),
        }
        let len = fields.u32()? as usize;
        let name = std::str::from_utf8(fields.bytes(len)?).map_err(|_| "the name is not UTF-8")?;
        Ok(Hello { name: name.to_owned(), archive: fields.state()? })
    }
}

/// Returns the body of a welcome.
pub(super) fn encode_welcome(state: &LogState, checksums: &[BlocksChecksum]) -> Result<Vec<u8>, cedrat_wal::LogError> {
    let mut bytes = encode_state(state)?;
    for checksum in checksums {
        bytes.extend(checksum.begin.get().to_le_bytes());
        bytes.extend(checksum.crc.to_le_bytes());
    }
    Ok(bytes)
}

pub(super) fn decode_welcome(body: &[u8]) -> Result<(LogState, Vec<BlocksChecksum>), Unreadable> {
    let mut fields = Fields(body);
    let state = fields.state()?.ok_or("it has no state")?;
    let mut checksums = Vec::new();
    while !fields.0.is_empty() {
        checksums.push(BlocksChecksum { begin: LogOffset::new(fields.u64()?), crc: fields.u32()? });
    }
    Ok((state, checksums))
}

/// Returns the fixed part of a frame of blocks.
pub(super) fn encode_piece(piece: &LogPiece<'_>) -> [u8; BLOCKS_HEADER_LEN] {
    let mut bytes = [0; BLOCKS_HEADER_LEN];
    bytes[..2].copy_from_slice(&piece.partition.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&piece.segment_len.to_le_bytes());
    bytes[16..24].copy_from_slice(&piece.offset.get().to_le_bytes());
    bytes[24..].copy_from_slice(&piece.next.get().to_le_bytes());
    bytes
}

pub(super) fn decode_piece(body: &[u8]) -> Result<LogPiece<'_>, Unreadable> {
    let mut fields = Fields(body);
    let partition = PartitionId(u16::from_le_bytes(fields.bytes(2)?.try_into().expect("two bytes")));
    fields.bytes(6)?;
    let (segment_len, offset, next) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (offset, next) = (LogOffset::new(offset), LogOffset::new(next));
    Ok(LogPiece { partition, segment_len, offset, next, bytes: fields.0 })
}

/// Returns the body of an extension.
pub(super) fn encode_extension(state: &LogState, moment: Option<&Moment>) -> Result<Vec<u8>, cedrat_wal::LogError> {
    let mut bytes = encode_state(state)?;
    if let Some(moment) = moment {
        bytes.extend(moment.encode());
    }
    Ok(bytes)
}

pub(super) fn decode_extension(body: &[u8]) -> Result<(LogState, Option<Moment>), Unreadable> {
    let mut fields = Fields(body);
    let state = fields.state()?.ok_or("it has no state")?;
    let moment = match fields.0 {
        [] => None,
        bytes => Some(Moment::decode(bytes).ok_or("its moment is invalid")?),
    };
    Ok((state, moment))
}

/// The codes of reasons.
mod code {
    pub(super) const OTHER: u32 = 0;
    pub(super) const VERSION: u32 = 1;
    pub(super) const OTHER_STORE: u32 = 2;
    pub(super) const OTHER_HISTORY: u32 = 3;
    pub(super) const GAP: u32 = 4;
    pub(super) const REPLACED: u32 = 5;
    pub(super) const NOT_SERVED: u32 = 6;
}

/// Returns the body of a refusal: a code, two numbers, two stores, and a text.
pub(super) fn encode_refusal(error: &crate::Error) -> Vec<u8> {
    let (mut code, mut numbers, mut stores, mut text) = (code::OTHER, [0; 2], [[0; 16]; 2], error.to_string());
    if let crate::Error::Misuse(_) | crate::Error::TooLarge { .. } = error {
        code = if planted!("permanent_refusal_passes") { code::OTHER } else { code::NOT_SERVED };
    }
    if let crate::Error::Replica(error) = error {
        match error {
            ReplicaError::Version { known, .. } => (code, numbers[0]) = (code::VERSION, u64::from(*known)),
            ReplicaError::OtherStore { replica, store } => (code, stores) = (code::OTHER_STORE, [*replica, *store]),
            ReplicaError::OtherHistory { up_to } => (code, numbers[0]) = (code::OTHER_HISTORY, up_to.get()),
            ReplicaError::Gap { up_to, kept_from } => (code, numbers) = (code::GAP, [up_to.get(), kept_from.get()]),
            ReplicaError::Replaced { name } => (code, text) = (code::REPLACED, name.clone()),
            ReplicaError::NotServed { why } => (code, text) = (code::NOT_SERVED, why.clone()),
            _ => {}
        }
    }
    let mut bytes = code.to_le_bytes().to_vec();
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    stores.iter().for_each(|store| bytes.extend(store));
    bytes.extend(text.as_bytes());
    bytes
}

pub(super) fn decode_refusal(body: &[u8]) -> Result<ReplicaError, Unreadable> {
    let mut fields = Fields(body);
    let code = fields.u32()?;
    let (one, two) = (fields.u64()?, fields.u64()?);
    let mut store = || -> Result<[u8; 16], Unreadable> { Ok(fields.bytes(16)?.try_into().expect("16 bytes")) };
    let (replica, store) = (store()?, store()?);
    let text = String::from_utf8_lossy(fields.0).into_owned();
    Ok(match code {
        code::VERSION => ReplicaError::Version { found: one as u32, known: PROTOCOL_VERSION },
        code::OTHER_STORE => ReplicaError::OtherStore { replica, store },
        code::OTHER_HISTORY => ReplicaError::OtherHistory { up_to: Lsn::new(one) },
        code::GAP => ReplicaError::Gap { up_to: Lsn::new(one), kept_from: Lsn::new(two) },
        code::REPLACED => ReplicaError::Replaced { name: text },
        code::NOT_SERVED => ReplicaError::NotServed { why: text },
        _ => ReplicaError::Refused { why: text },
    })
}
