//! An example of another durability target: a second log in memory determines when a commit is stable (L019, D050).
//!
//! On a cluster the replica would be on another machine; here it is a map, so that the example shows only the duties
//! of a [`Sink`]. Commits then cost a message instead of a disk write, and a store whose own disk lost the end of its
//! log is restored from the replica before it is opened.

use cedrat_media::{Durability, Media, OpenMode, write_all_at};
use cedrat_sync::{Arc, Mutex};
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
        let begin = (piece.file.to_owned(), piece.offset);
        if piece.offset == 0 {
            // A segment begins another life: nothing of its last one is needed.
            pieces.retain(|(file, _), _| file != piece.file);
        }
        pieces.insert(begin, piece.bytes.to_vec());
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
}
