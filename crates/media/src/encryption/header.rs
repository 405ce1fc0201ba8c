//! The key file of a directory: its data key, wrapped under a key of the user (drawn in docs/formats/key.md).
//!
//! The file has two slots of one sector each, in blocks of their own. The valid slot with the higher generation counts. Both have the
//! same content, but for a crash between their writes.

use std::io::ErrorKind;

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes256Gcm, KeyInit};
use zeroize::Zeroizing;

use super::error::KeyError;
use super::key::{KEY_ID_LEN_MAX, KEY_LEN, Key, KeySource};
use crate::{
    AlignedBuf, BLOCK_LEN, Durability, FileId, LockGuard, Media, OpenMode, SECTOR_LEN, read_exact_at, write_all_at,
};
use cedrat_sync::planted;

/// The name of the key file in an encrypted directory.
pub const KEY_FILE: &str = "key";

const MAGIC: [u8; 8] = *b"CEDRATKY";
const VERSION: u32 = 1;
/// AES-256-XTS over sectors of 512 bytes, with keys of each file by HKDF-SHA-256, under a data key wrapped by AES-256-GCM.
const ALGORITHM: u32 = 1;
const SLOTS: [u64; 2] = [0, BLOCK_LEN as u64];
const FILE_LEN: usize = 2 * BLOCK_LEN;

/// Offsets of the parts of a slot.
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const CRC: usize = MAGIC + 8; // of the rest of the sector
    pub(super) const VERSION: usize = CRC + 4;
    pub(super) const ALGORITHM: usize = VERSION + 4;
    pub(super) const ID_LEN: usize = ALGORITHM + 4;
    pub(super) const GENERATION: usize = ID_LEN + 4;
    pub(super) const DATA_KEY: usize = GENERATION + 8; // a random identifier
    pub(super) const NONCE: usize = DATA_KEY + 16;
    pub(super) const WRAPPED: usize = NONCE + 12;
    pub(super) const TAG: usize = WRAPPED + super::KEY_LEN;
    pub(super) const ID: usize = TAG + 16;
}
const _: () = assert!(at::ID + KEY_ID_LEN_MAX <= SECTOR_LEN && at::ID == 108);

/// The content of a slot.
type Sector = [u8; SECTOR_LEN];

/// A valid slot.
#[derive(Clone)]
pub(super) struct Header {
    sector: Sector,
    /// The user's key that wraps the data key.
    pub(super) id: String,
    generation: u64,
}

impl Header {
    /// Wraps a data key under the newest key of a source.
    fn wrap(
        data_key: &Key,
        identifier: [u8; 16],
        generation: u64,
        keys: &dyn KeySource,
        file: &str,
    ) -> Result<Header, KeyError> {
        let id = keys.newest().map_err(|source| KeyError::source(file, "the newest key", source))?;
        let user_key = key_of(keys, &id, file)?;
        if id.len() > KEY_ID_LEN_MAX {
            return Err(KeyError::LongId { len: id.len() });
        }
        let mut sector = [0; SECTOR_LEN];
        sector[at::MAGIC..at::CRC].copy_from_slice(&MAGIC);
        sector[at::VERSION..at::ALGORITHM].copy_from_slice(&VERSION.to_le_bytes());
        sector[at::ALGORITHM..at::ID_LEN].copy_from_slice(&ALGORITHM.to_le_bytes());
        sector[at::ID_LEN..at::GENERATION].copy_from_slice(&(id.len() as u32).to_le_bytes());
        sector[at::GENERATION..at::DATA_KEY].copy_from_slice(&generation.to_le_bytes());
        sector[at::DATA_KEY..at::NONCE].copy_from_slice(&identifier);
        sector[at::ID..at::ID + id.len()].copy_from_slice(id.as_bytes());
        let mut nonce = [0; at::WRAPPED - at::NONCE];
        getrandom::fill(&mut nonce)
            .map_err(|error| KeyError::io("drawing random numbers", std::io::Error::other(error.to_string())))?;
        let mut wrapped = *data_key.bytes();
        let tag = Aes256Gcm::new(user_key.bytes().into())
            .encrypt_inout_detached(&nonce.into(), &authenticated(&sector), wrapped.as_mut_slice().into())
            .expect("32 bytes are not too long");
        sector[at::NONCE..at::WRAPPED].copy_from_slice(&nonce);
        sector[at::WRAPPED..at::TAG].copy_from_slice(&wrapped);
        sector[at::TAG..at::ID].copy_from_slice(&tag);
        let crc = crc32c::crc32c(&sector[at::VERSION..]);
        sector[at::CRC..at::VERSION].copy_from_slice(&crc.to_le_bytes());
        Ok(Header { sector, id, generation })
    }

    /// Decodes a slot; `None` if it was never written.
    fn decode(sector: &Sector) -> Result<Option<Header>, SlotFault> {
        let four = |at: usize| u32::from_le_bytes(sector[at..at + 4].try_into().expect("four bytes"));
        if sector.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        if sector[at::MAGIC..at::CRC] != MAGIC {
            return Err(SlotFault::Bad(at::MAGIC, "this is not a key file"));
        }
        if crc32c::crc32c(&sector[at::VERSION..]) != four(at::CRC) && !planted!("key_file_not_verified") {
            return Err(SlotFault::Bad(at::CRC, "the checksum of a slot does not hold"));
        }
        if four(at::VERSION) != VERSION || four(at::ALGORITHM) != ALGORITHM {
            return Err(SlotFault::Version(four(at::VERSION).max(four(at::ALGORITHM))));
        }
        let id = sector.get(at::ID..at::ID + (four(at::ID_LEN) as usize).min(SECTOR_LEN));
        let id = id.and_then(|id| std::str::from_utf8(id).ok());
        let id = id.ok_or(SlotFault::Bad(at::ID_LEN, "the identifier of the key is invalid"))?.to_owned();
        let generation = u64::from_le_bytes(sector[at::GENERATION..at::DATA_KEY].try_into().expect("eight bytes"));
        Ok(Some(Header { sector: *sector, id, generation }))
    }

    fn identifier(&self) -> [u8; 16] {
        self.sector[at::DATA_KEY..at::NONCE].try_into().expect("16 bytes")
    }

    /// Returns the data key.
    pub(super) fn unwrap(&self, keys: &dyn KeySource, file: &str) -> Result<Key, KeyError> {
        let user_key = key_of(keys, &self.id, file)?;
        let mut bytes = Zeroizing::new([0; KEY_LEN]);
        bytes.copy_from_slice(&self.sector[at::WRAPPED..at::TAG]);
        let nonce: [u8; at::WRAPPED - at::NONCE] = self.sector[at::NONCE..at::WRAPPED].try_into().expect("12 bytes");
        let tag: [u8; at::ID - at::TAG] = self.sector[at::TAG..at::ID].try_into().expect("16 bytes");
        let opened = Aes256Gcm::new(user_key.bytes().into()).decrypt_inout_detached(
            &nonce.into(),
            &authenticated(&self.sector),
            bytes.as_mut_slice().into(),
            &tag.into(),
        );
        if opened.is_err() && !planted!("wrong_key_accepted") {
            let why = "that key does not unwrap it".into();
            return Err(KeyError::Wrong { file: file.into(), id: self.id.clone(), why });
        }
        Ok(Key::new(*bytes))
    }
}

/// Returns the bytes of a slot that the tag covers, besides the wrapped key.
fn authenticated(sector: &Sector) -> [u8; SECTOR_LEN] {
    let mut covered = *sector;
    covered[at::CRC..at::VERSION].fill(0);
    covered[at::NONCE..at::ID].fill(0);
    covered
}

fn key_of(keys: &dyn KeySource, id: &str, file: &str) -> Result<Key, KeyError> {
    keys.key(id).map_err(|source| match source.kind() {
        ErrorKind::NotFound => KeyError::Wrong { file: file.into(), id: id.into(), why: source.to_string() },
        _ => KeyError::source(file, &format!("the key {id:?}"), source),
    })
}

/// The reason why a slot does not count.
enum SlotFault {
    Bad(usize, &'static str),
    Version(u32),
}

/// The state of a key file.
pub(super) enum Found {
    /// There is none.
    Absent,
    /// Its creation never finished: it is empty.
    Unfinished,
    /// A valid header.
    Header(Box<Header>),
}

/// Reads the key file of a directory.
pub(super) fn find(media: &dyn Media) -> Result<Found, KeyError> {
    let file = match media.open(KEY_FILE, OpenMode::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Absent),
        file => file.map_err(|error| KeyError::io("opening the key file", error))?,
    };
    read(media, file)
}

fn read(media: &dyn Media, file: FileId) -> Result<Found, KeyError> {
    let path = media.path(file);
    let io = |error| KeyError::io(format!("reading {path}"), error);
    let len = media.len(file).map_err(io)?;
    let mut newest: Option<Header> = None;
    let mut fault = None;
    for begin in SLOTS {
        let mut sector = [0; SECTOR_LEN];
        let present = len.saturating_sub(begin).min(SECTOR_LEN as u64) as usize;
        read_exact_at(media, file, begin, &mut sector[..present]).map_err(io)?;
        match Header::decode(&sector) {
            Ok(None) => {}
            Ok(Some(header)) => {
                let is_newer = newest.as_ref().is_none_or(|other| other.generation < header.generation);
                newest = if is_newer { Some(header) } else { newest };
            }
            // A newer program wrote this slot: it counts.
            Err(SlotFault::Version(found)) => {
                let offset = begin + at::VERSION as u64;
                return Err(KeyError::Version { file: path, offset, found, known: VERSION });
            }
            Err(SlotFault::Bad(at, what)) => fault = fault.or(Some((begin + at as u64, what))),
        }
    }
    match (newest, fault) {
        (Some(header), _) => Ok(Found::Header(Box::new(header))),
        (None, Some((offset, what))) => Err(KeyError::Damaged { file: path, offset, what: what.into() }),
        (None, None) => Ok(Found::Unfinished),
    }
}

/// The key file, open and locked to be changed.
pub(super) struct KeyFile<'m> {
    media: &'m dyn Media,
    file: FileId,
    pub(super) path: String,
    _lock: LockGuard,
}

impl KeyFile<'_> {
    /// Opens the file, and creates it empty if it is missing and `create` is set.
    pub(super) fn open(media: &dyn Media, create: bool) -> Result<KeyFile<'_>, KeyError> {
        let opened = media.open(KEY_FILE, OpenMode::ReadWrite).or_else(|error| match error.kind() {
            ErrorKind::NotFound if create => match media.open(KEY_FILE, OpenMode::Create) {
                // Another opening may create it first; the lock decides.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => media.open(KEY_FILE, OpenMode::ReadWrite),
                created => created,
            },
            _ => Err(error),
        });
        let file = opened.map_err(|error| KeyError::io("opening the key file", error))?;
        let path = media.path(file);
        let lock = media.lock(KEY_FILE).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => KeyError::InUse { file: path.clone() },
            _ => KeyError::io(format!("locking {path}"), error),
        })?;
        Ok(KeyFile { media, file, path, _lock: lock })
    }

    pub(super) fn read(&self) -> Result<Found, KeyError> {
        read(self.media, self.file)
    }

    /// Writes a new data key, wrapped, to an empty file, durably with its name.
    pub(super) fn create(&self, data_key: &Key, keys: &dyn KeySource) -> Result<Header, KeyError> {
        let mut identifier = [0; 16];
        identifier.copy_from_slice(
            &*Key::random().map_err(|error| KeyError::io("drawing a key", error))?.derive::<16>(b"", b""),
        );
        let header = Header::wrap(data_key, identifier, 1, keys, &self.path)?;
        if !planted!("key_file_created_late") {
            self.write(&header)?;
        }
        Ok(header)
    }

    /// Wraps the data key of a header anew, durably. A crash leaves the old header or the new one.
    pub(super) fn rewrap(&self, header: &Header, data_key: &Key, keys: &dyn KeySource) -> Result<(), KeyError> {
        let next = Header::wrap(data_key, header.identifier(), header.generation + 1, keys, &self.path)?;
        self.write(&next)
    }

    /// Makes a header that was found durable, in both slots: it may be in a cache only, or in one slot.
    pub(super) fn settle(&self, header: &Header) -> Result<(), KeyError> {
        if planted!("key_file_not_settled") { Ok(()) } else { self.write(header) }
    }

    /// Writes a header to both slots, one after the other: each of them is one sector, and has the old header or the new one.
    fn write(&self, header: &Header) -> Result<(), KeyError> {
        let KeyFile { media, file, .. } = *self;
        let mut block = AlignedBuf::zeroed(BLOCK_LEN);
        block[..SECTOR_LEN].copy_from_slice(&header.sector);
        let write = || {
            if media.len(file)? < FILE_LEN as u64 {
                media.set_len(file, FILE_LEN as u64)?;
            }
            for slot in SLOTS {
                write_all_at(media, file, slot, &block, Durability::Durable)?;
            }
            media.sync(file)?;
            media.sync_directory("")
        };
        write().map_err(|error| KeyError::io(format!("writing {}", self.path), error))
    }
}
