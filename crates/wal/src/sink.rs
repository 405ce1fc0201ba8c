//! Sinks, which determine when a block of the log is stable (D010, D050, L019).

use std::fmt::Debug;
use std::io;

use cedrat_media::{Durability, FileId, Media, write_all_at};

use crate::{Lsn, Position};

/// A piece of the log that is to become stable: a block, or the header of a segment that begins another life or waits
/// for one.
///
/// It belongs at `offset` of `file` in the store's directory; written there, the pieces are the log that recovery
/// reads. So a sink that keeps `(file, offset, bytes)` until [`Sink::removing`] keeps all that is needed to rebuild the log.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The segment file's name in the store's directory.
    pub file: &'a str,
    /// The offset of the bytes in that file.
    pub offset: u64,
    /// The bytes, a multiple of 4,096.
    pub bytes: &'a [u8],
    /// The beginning of the block in its partition. Without meaning for a segment that waits for a life.
    pub position: Position,
    /// The first LSN in it; [`Lsn::ZERO`] if it holds no record.
    pub first_lsn: Lsn,
    /// The last LSN in it; [`Lsn::ZERO`] if it holds no record.
    pub last_lsn: Lsn,
}

/// The store's own segment files, as a sink sees them.
pub trait Local {
    /// Writes the piece to its file. With [`Durability::Durable`], it is durable on return.
    fn write(&self, durability: Durability) -> io::Result<()>;
}

/// A piece with its offset in a segment file.
pub(crate) struct InFile<'a> {
    pub(crate) media: &'a dyn Media,
    pub(crate) file: FileId,
    pub(crate) offset: u64,
    pub(crate) bytes: &'a [u8],
}

impl Local for InFile<'_> {
    fn write(&self, durability: Durability) -> io::Result<()> {
        write_all_at(self.media, self.file, self.offset, self.bytes, durability)
    }
}

/// Determines when a piece of the log is stable.
///
/// Called from several threads at once and, with several writes in flight, not in the order of offsets. A commit is
/// acknowledged when the calls for all pieces up to its own have returned `Ok`. An `Err`, or a panic, stops the log
/// permanently; only the header of a segment that waits for a life may be passed again. A sink does not close the log: closing
/// waits for it.
pub trait Sink: Send + Sync + Debug {
    /// Makes `piece` stable as this sink defines it, and returns when it is.
    ///
    /// `local` writes it into the store's own segments; a sink that does not call it must write the piece there
    /// before the store is opened again.
    fn stabilise(&self, piece: Piece<'_>, local: &dyn Local) -> io::Result<()>;

    /// Forgets all pieces of a file, which the log removes next. After a crash the file may still be there; the log needs nothing
    /// of it. A file of this name may begin anew.
    fn removing(&self, _file: &str) {}
}

/// The default sink: a piece is stable once it is durable on the store's own disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentSink;

impl Sink for SegmentSink {
    fn stabilise(&self, _piece: Piece<'_>, local: &dyn Local) -> io::Result<()> {
        local.write(Durability::Durable)
    }
}
