//! An example of another durability target: a second log in memory determines when a commit is stable (L019, D050).
//!
//! On a cluster the replica would be on another machine; here it is a map, so that the example shows only the duties
//! of a [`Sink`]. Commits then cost a message instead of a disk write, and a store whose own disk lost the end of its
//! log is restored from the replica before it is opened.

use cedrat_media::{Durability, Media, OpenMode, write_all_at};
use cedrat_sync::{Arc, Mutex, planted};
use std::collections::BTreeMap;
use std::io;

use crate::sink::{Local, Piece, Sink};

/// A copy of the log's pieces, by file and offset. Clones refer to the same replica.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    pieces: Arc<Mutex<Pieces>>,
}

/// A piece that is written over an older one replaces it, so the replica grows no longer than the log.
type Pieces = BTreeMap<(String, u64), Vec<u8>>;

impl Replica {
    /// Creates an empty replica, for use from the beginning of an empty log.
    pub fn new() -> Replica {
        Replica::default()
    }

    /// Returns the number of bytes held.
    pub fn bytes(&self) -> u64 {
        self.pieces.lock().values().map(|bytes| bytes.len() as u64).sum()
    }

    /// Writes all pieces to their files, durably: restores a log before the store is opened.
    pub fn restore(&self, media: &dyn Media) -> io::Result<()> {
        let pieces = self.pieces.lock();
        let mut files = BTreeMap::new();
        for ((name, offset), bytes) in pieces.iter() {
            let file = match files.get(name) {
                Some(&file) => file,
                None => {
                    let file = media.open(name, OpenMode::ReadWrite)?;
                    files.insert(name.clone(), file);
                    file
                }
            };
            write_all_at(media, file, *offset, bytes, Durability::Volatile)?;
        }
        files.values().try_for_each(|&file| media.sync(file))
    }

    fn take(&self, piece: &Piece<'_>) {
        let mut pieces = self.pieces.lock();
        let at = |offset| (piece.file.to_owned(), offset);
        // A segment that begins another life needs nothing of its last one. Any other piece may lie over several that a crash has
        // left behind the end of the log, and none of them may be written over it again.
        let end = match piece.offset {
            0 => u64::MAX,
            offset if planted!("replica_keeps_overwritten") => offset + 1,
            offset => offset + piece.bytes.len() as u64,
        };
        let replaced: Vec<_> = pieces.range(at(piece.offset)..at(end)).map(|(place, _)| place.clone()).collect();
        replaced.iter().for_each(|place| drop(pieces.remove(place)));
        pieces.insert(at(piece.offset), piece.bytes.to_vec());
    }

    fn forget(&self, file: &str) {
        self.pieces.lock().retain(|(name, _), _| name != file);
    }
}

/// The condition under which a piece of the log is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StableWhen {
    /// The replica has it; the store's own disk follows later.
    Replica,
    /// The replica and the store's own disk have it.
    Both,
}

/// Sends every piece to a replica.
#[derive(Debug)]
pub struct ReplicaSink {
    replica: Replica,
    stable_when: StableWhen,
}

impl ReplicaSink {
    /// Creates a sink that writes to this replica.
    pub fn new(replica: Replica, stable_when: StableWhen) -> ReplicaSink {
        ReplicaSink { replica, stable_when }
    }
}

impl Sink for ReplicaSink {
    fn stabilise(&self, piece: Piece<'_>, local: &dyn Local) -> io::Result<()> {
        self.replica.take(&piece);
        local.write(match self.stable_when {
            StableWhen::Replica => Durability::Volatile,
            StableWhen::Both => Durability::Durable,
        })
    }

    fn removing(&self, file: &str) {
        self.replica.forget(file);
    }
}

#[cfg(test)]
mod tests {
    use cedrat_media::{SimDisk, read_exact_at};
    use cedrat_sync::explore;

    use super::*;
    use crate::{LogOffset, Lsn, PartitionId, Position};

    /// Of two writes in flight, only the later one had reached the replica before a crash. The next opening writes a longer
    /// block in their place.
    #[test]
    fn restored_piece_has_its_last_bytes() {
        explore(1, 1, || {
            let replica = Replica::new();
            let take = |offset: u64, bytes: &[u8]| {
                let position = Position { partition: PartitionId(0), offset: LogOffset::new(offset) };
                let (file, first_lsn, last_lsn) = ("segment", Lsn::ZERO, Lsn::ZERO);
                replica.take(&Piece { file, offset, bytes, position, first_lsn, last_lsn });
            };
            take(0, &[1; 4096]);
            take(8192, &[2; 4096]);
            take(4096, &[3; 12_288]);
            let disk = SimDisk::new();
            let file = disk.open("segment", OpenMode::Create).expect("it is created");
            replica.restore(&disk).expect("the disk works");
            let mut found = vec![0; 12_288];
            read_exact_at(&disk, file, 4096, &mut found).expect("it is there");
            assert!(found.iter().all(|&byte| byte == 3), "W3: an overwritten piece has come back");
            take(0, &[4; 4096]);
            assert_eq!(replica.bytes(), 4096, "another life of the segment");
        });
    }
}
