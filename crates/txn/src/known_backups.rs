//! The list of the backups that a store has made, a file of it (drawn in docs/formats/increment.md).
//!
//! A backup is continued only by the store that has made it, and only in the same history: a restored store, which may have other
//! changes under the same LSNs, does not have the file (E18.20). Each entry is a sector, which a crash leaves as it was or writes whole;
//! new entries replace the oldest ones.

use cedrat_media::{Durability, Media, OpenMode, SECTOR_LEN, read_exact_at, write_all_at};
use cedrat_wal::StoreId;
use std::io;

use crate::increment::Identity;

/// The name of the file in the store's directory.
pub const BACKUPS_FILE: &str = "backups";

/// The maximum number of entries.
const ENTRIES: u64 = 256;

const MAGIC: [u8; 8] = *b"CEDRATBK";

/// Offsets in a sector.
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const CRC: usize = MAGIC + 8; //      CRC-32C of the rest of the sector
    pub(super) const CONTROL: usize = CRC + 4; //    the identity of the backup
    pub(super) const HEAPS: usize = CONTROL + 4;
    pub(super) const ZERO: usize = HEAPS + 4;
    pub(super) const UP_TO: usize = ZERO + 4;
    pub(super) const NUMBER: usize = UP_TO + 8; //   counts the backups
    pub(super) const STORE: usize = NUMBER + 8;
}

/// Returns the listed backups of a store with their numbers. A sector that does not verify is ignored.
fn read(media: &dyn Media, store: &StoreId) -> io::Result<Vec<(u64, Identity)>> {
    let file = match media.open(BACKUPS_FILE, OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    let sectors = media.len(file)?.min(ENTRIES * SECTOR_LEN as u64) / SECTOR_LEN as u64;
    let mut bytes = vec![0; sectors as usize * SECTOR_LEN];
    read_exact_at(media, file, 0, &mut bytes)?;
    Ok(bytes.chunks_exact(SECTOR_LEN).filter_map(|sector| decode(sector, store)).collect())
}

fn decode(sector: &[u8], store: &StoreId) -> Option<(u64, Identity)> {
    let four = |at: usize| u32::from_le_bytes(sector[at..at + 4].try_into().expect("four bytes"));
    let eight = |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().expect("eight bytes"));
    let is_whole = sector[at::MAGIC..at::CRC] == MAGIC
        && crc32c::crc32c(&sector[at::CONTROL..]) == four(at::CRC)
        && sector[at::STORE..at::STORE + 16] == *store;
    let identity = Identity { up_to: eight(at::UP_TO), control: four(at::CONTROL), heaps: four(at::HEAPS) };
    is_whole.then(|| (eight(at::NUMBER), identity))
}

/// Whether the list of a store has a backup.
pub(crate) fn has(media: &dyn Media, store: &StoreId, identity: Identity) -> io::Result<bool> {
    Ok(read(media, store)?.iter().any(|&(_, known)| known == identity))
}

/// Adds a backup to the list, durably.
pub(crate) fn note(media: &dyn Media, store: &StoreId, identity: Identity) -> io::Result<()> {
    let number = read(media, store)?.iter().map(|&(number, _)| number + 1).max().unwrap_or(0);
    let mut sector = [0; SECTOR_LEN];
    sector[at::MAGIC..at::CRC].copy_from_slice(&MAGIC);
    sector[at::CONTROL..at::HEAPS].copy_from_slice(&identity.control.to_le_bytes());
    sector[at::HEAPS..at::ZERO].copy_from_slice(&identity.heaps.to_le_bytes());
    sector[at::UP_TO..at::NUMBER].copy_from_slice(&identity.up_to.to_le_bytes());
    sector[at::NUMBER..at::STORE].copy_from_slice(&number.to_le_bytes());
    sector[at::STORE..at::STORE + 16].copy_from_slice(store);
    let crc = crc32c::crc32c(&sector[at::CONTROL..]);
    sector[at::CRC..at::CONTROL].copy_from_slice(&crc.to_le_bytes());
    let file = media.open(BACKUPS_FILE, OpenMode::ReadWrite).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => media.open(BACKUPS_FILE, OpenMode::Create),
        _ => Err(error),
    })?;
    let offset = number % ENTRIES * SECTOR_LEN as u64;
    write_all_at(media, file, offset, &sector, Durability::Durable)?;
    media.sync_directory("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat_media::SimDisk;

    const STORE: StoreId = *b"a store in tests";

    fn identity(up_to: u64) -> Identity {
        Identity { up_to, control: 7, heaps: 8 }
    }

    #[test]
    fn newest_backups_are_known() {
        let disk = SimDisk::new();
        for up_to in 0..300 {
            assert!(!has(&disk, &STORE, identity(up_to)).unwrap());
            note(&disk, &STORE, identity(up_to)).unwrap();
            assert!(has(&disk, &STORE, identity(up_to)).unwrap());
        }
        assert!(!has(&disk, &STORE, identity(43)).unwrap() && has(&disk, &STORE, identity(44)).unwrap());
        assert!(!has(&disk, b"another store!!!", identity(44)).unwrap());
    }
}
