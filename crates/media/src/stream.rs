//! Streams of files: all that a copy writes to a medium, piece by piece, in one sequence of bytes (drawn in docs/formats/stream.md).
//!
//! 1. The checksum of each piece covers its place in the stream, too, and the last piece counts all: a torn or changed stream is refused.
//! 2. Files that the reader names as the last ones are written when the end of the stream has been read, except the first piece of the
//!    stream.
//! 3. An empty file is named at the end, by its length.
//! 4. Memory is bounded by the length of a piece and by the small files, which the writer keeps.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io::{self, Read, Write};

use cedrat_sync::{Mutex, planted};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::{Durability, FileId, LockGuard, Media, OpenMode, write_all_at};

const MAGIC: [u8; 8] = *b"CEDRATST";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 40;
const PIECE_HEADER_LEN: usize = 32;

/// The maximum number of bytes of a piece.
const PIECE_LEN_MAX: usize = 1 << 20;

/// The kinds of pieces.
mod kind {
    pub(super) const BYTES: u8 = 1;
    pub(super) const ALLOCATED: u8 = 2;
    pub(super) const LENGTH: u8 = 3;
    pub(super) const END: u8 = 4;
}

/// A medium whose writes go to a stream.
pub struct StreamMedia {
    state: Mutex<State>,
}

struct State {
    to: Box<dyn Write + Send>,
    files: Vec<Known>,
    /// The number of pieces that were written.
    pieces: u64,
    /// The number of bytes of files in them.
    bytes: u64,
}

/// A file of the stream.
struct Known {
    name: String,
    len: u64,
    /// The end of the bytes that were written.
    written: u64,
    /// Whether a piece names it.
    is_named: bool,
    /// The bytes of a small file, which can be read.
    kept: Option<Vec<u8>>,
}

impl fmt::Debug for StreamMedia {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamMedia(..)")
    }
}

impl StreamMedia {
    /// Begins a stream of the files of a store. Small files can be read again.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn new(mut to: impl Write + Send + 'static, store: [u8; 16]) -> io::Result<StreamMedia> {
        let mut header = [0; HEADER_LEN];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[16..32].copy_from_slice(&store);
        let checksum = xxh3_64(&header[..32]);
        header[32..].copy_from_slice(&checksum.to_le_bytes());
        to.write_all(&header)?;
        let state = State { to: Box::new(to), files: Vec::new(), pieces: 0, bytes: 0 };
        Ok(StreamMedia { state: Mutex::new(state) })
    }

    /// Ends the stream, and returns the number of bytes of files in it.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(&self) -> io::Result<u64> {
        let mut state = self.state.lock();
        let unnamed = state
            .files
            .iter()
            .filter(|known| !known.is_named && !planted!("empty_file_not_streamed"))
            .map(|known| known.name.clone());
        for empty in unnamed.collect::<Vec<_>>() {
            state.piece(kind::LENGTH, &empty, 0, 0, &[])?;
        }
        let (pieces, bytes) = (state.pieces, state.bytes);
        state.piece(kind::END, "", pieces, bytes, &[])?;
        state.to.flush()?;
        Ok(bytes)
    }
}

impl State {
    fn known(&mut self, file: FileId) -> io::Result<&mut Known> {
        self.files.get_mut(file.0 as usize).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn piece(&mut self, kind: u8, name: &str, offset: u64, len: u64, bytes: &[u8]) -> io::Result<()> {
        let mut header = [0; PIECE_HEADER_LEN];
        header[0] = kind;
        header[2..4].copy_from_slice(&(name.len() as u16).to_le_bytes());
        header[8..16].copy_from_slice(&offset.to_le_bytes());
        header[16..24].copy_from_slice(&len.to_le_bytes());
        let checksum = checksum(self.pieces, &header, name.as_bytes(), bytes);
        header[24..].copy_from_slice(&checksum.to_le_bytes());
        self.to.write_all(&header)?;
        self.to.write_all(name.as_bytes())?;
        self.to.write_all(bytes)?;
        self.pieces += 1;
        Ok(())
    }

    fn set_len(&mut self, file: FileId, len: u64, kind: u8) -> io::Result<()> {
        let known = self.known(file)?;
        if known.len == len {
            return Ok(());
        }
        (known.len, known.written) = (len, known.written.min(len));
        if let Some(kept) = &mut known.kept {
            kept.resize(len as usize, 0);
        }
        known.is_named = true;
        let name = known.name.clone();
        self.piece(kind, &name, len, 0, &[])
    }
}

/// Returns the checksum of the piece with this number: of the header before the checksum, the name and the bytes.
fn checksum(number: u64, header: &[u8; PIECE_HEADER_LEN], name: &[u8], bytes: &[u8]) -> u64 {
    let seed = xxh3_64_with_seed(&header[..24], number);
    xxh3_64_with_seed(bytes, xxh3_64_with_seed(name, seed))
}

/// Whether a file is so large that a stream does not keep it.
fn is_large(name: &str) -> bool {
    name.contains('/') || name == "pages"
}

impl Media for StreamMedia {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        let files = &mut self.state.lock().files;
        let known = files.iter().position(|known| known.name == name);
        match (known, mode) {
            (Some(_), OpenMode::Create) => Err(io::ErrorKind::AlreadyExists.into()),
            (Some(index), _) => Ok(FileId(index as u32)),
            (None, OpenMode::Create) => {
                let kept = (!is_large(name)).then(Vec::new);
                files.push(Known { name: name.to_owned(), len: 0, written: 0, is_named: false, kept });
                Ok(FileId(files.len() as u32 - 1))
            }
            (None, _) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn lock(&self, _name: &str) -> io::Result<LockGuard> {
        Ok(LockGuard::new(()))
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        let split = state.files.iter().map(|known| known.name.split_once('/').unwrap_or(("", &known.name)));
        let mut names: Vec<String> =
            split.filter(|(of, _)| *of == directory).map(|(_, name)| name.to_owned()).collect();
        names.sort();
        Ok(names)
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_directory(&self, _directory: &str) -> io::Result<()> {
        Ok(())
    }

    fn len(&self, file: FileId) -> io::Result<u64> {
        Ok(self.state.lock().known(file)?.len)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state.lock();
        let Some(kept) = &state.known(file)?.kept else { return Err(io::ErrorKind::Unsupported.into()) };
        let rest = kept.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_at(&self, file: FileId, offset: u64, bytes: &[u8], _durability: Durability) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(PIECE_LEN_MAX)];
        let mut state = self.state.lock();
        let known = state.known(file)?;
        let end = offset + bytes.len() as u64;
        // Space that was allocated reads as zeros.
        if offset >= known.written && end <= known.len && bytes.iter().all(|&byte| byte == 0) {
            return Ok(bytes.len());
        }
        (known.len, known.written) = (known.len.max(end), known.written.max(end));
        if let Some(kept) = &mut known.kept {
            kept.resize(known.len as usize, 0);
            kept[offset as usize..end as usize].copy_from_slice(bytes);
        }
        known.is_named = true;
        let name = known.name.clone();
        state.bytes += bytes.len() as u64;
        state.piece(kind::BYTES, &name, offset, bytes.len() as u64, bytes)?;
        Ok(bytes.len())
    }

    fn sync(&self, _file: FileId) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        let end = state.known(file)?.len.max(offset + len);
        state.set_len(file, end, kind::ALLOCATED)
    }

    fn punch(&self, _file: FileId, _offset: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, file: FileId, len: u64) -> io::Result<()> {
        self.state.lock().set_len(file, len, kind::LENGTH)
    }

    fn path(&self, file: FileId) -> String {
        self.state.lock().files.get(file.0 as usize).map_or_else(String::new, |known| known.name.clone())
    }
}

/// Writes the files of a stream to an empty medium, durably, and returns the number of their bytes. The files `last` are
/// written when the end of the stream was read and all other files are durable, except the first piece of the stream.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`]: the stream is torn or changed, is not such a stream, or bytes follow it; errors of the stream and of the medium. The
/// medium then has a part of the files.
pub fn read_stream(from: &mut dyn Read, to: &dyn Media, last: &[&str]) -> io::Result<u64> {
    let mut reader = Reader { from, at: 0, pieces: 0, bytes: 0 };
    reader.begin()?;
    let mut files: HashMap<String, FileId> = HashMap::new();
    let mut held: Vec<(FileId, u64, Vec<u8>)> = Vec::new();
    while let Some(Piece { kind, name, offset, bytes }) = reader.next()? {
        let file = match files.get(&name) {
            Some(&file) => file,
            None => {
                let file = to.open(&name, OpenMode::Create)?;
                files.insert(name.clone(), file);
                file
            }
        };
        match kind {
            kind::BYTES if reader.pieces > 1 && last.contains(&name.as_str()) => held.push((file, offset, bytes)),
            kind::BYTES => write_all_at(to, file, offset, &bytes, Durability::Volatile)?,
            kind::LENGTH => to.set_len(file, offset)?,
            _ => {
                let len = to.len(file)?;
                to.allocate(file, len, offset.saturating_sub(len))?;
            }
        }
    }
    files.values().try_for_each(|&file| to.sync(file))?;
    let directories: BTreeSet<&str> =
        files.keys().map(|name| name.split_once('/').map_or("", |(directory, _)| directory)).collect();
    directories.into_iter().rev().try_for_each(|directory| to.sync_directory(directory))?;
    for (file, offset, bytes) in held {
        write_all_at(to, file, offset, &bytes, Durability::Durable)?;
    }
    Ok(reader.bytes)
}

/// A piece of a stream.
struct Piece {
    kind: u8,
    name: String,
    offset: u64,
    bytes: Vec<u8>,
}

struct Reader<'r> {
    from: &'r mut dyn Read,
    /// The number of bytes that were read.
    at: u64,
    pieces: u64,
    bytes: u64,
}

impl Reader<'_> {
    fn refused(&self, what: &str) -> io::Error {
        let message = format!("the backup stream, byte {}: {what}", self.at);
        io::Error::new(io::ErrorKind::InvalidData, message)
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.from.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                self.refused("it ends before its last piece: it is torn; copy it again, or make another backup")
            }
            _ => error,
        })
    }

    fn begin(&mut self) -> io::Result<()> {
        let mut header = [0; HEADER_LEN];
        self.read(&mut header)?;
        if header[..8] != MAGIC {
            return Err(self.refused("this is not a backup stream"));
        }
        if header[8..12] != VERSION.to_le_bytes() {
            return Err(self.refused("its format version is not 1; use a newer program"));
        }
        if header[32..] != xxh3_64(&header[..32]).to_le_bytes() {
            return Err(
                self.refused("the checksum of its header does not match; copy it again, or make another backup")
            );
        }
        self.at = HEADER_LEN as u64;
        Ok(())
    }

    /// Checks that nothing follows the last piece: what does is of another file, or of a second stream, and would be lost.
    fn end(&mut self) -> io::Result<()> {
        match self.from.read_exact(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(error) => Err(error),
            Ok(()) if planted!("bytes_behind_stream_ignored") => Ok(()),
            Ok(()) => Err(self.refused("bytes follow its last piece; remove them, or name the stream alone")),
        }
    }

    /// Reads a piece; `None` at the last one.
    fn next(&mut self) -> io::Result<Option<Piece>> {
        let mut header = [0; PIECE_HEADER_LEN];
        self.read(&mut header)?;
        let eight = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let (kind, offset, len) = (header[0], eight(8), eight(16));
        let name_len = u16::from_le_bytes([header[2], header[3]]);
        let has_bytes = kind == kind::BYTES;
        if has_bytes && len > PIECE_LEN_MAX as u64 {
            return Err(self.refused("the length of a piece is invalid"));
        }
        let (mut name, mut bytes) = (vec![0; name_len.into()], vec![0; if has_bytes { len as usize } else { 0 }]);
        self.read(&mut name)?;
        self.read(&mut bytes)?;
        if checksum(self.pieces, &header, &name, &bytes) != eight(24) {
            return Err(self.refused("the checksum of a piece does not match; copy it again, or make another backup"));
        }
        if kind == kind::END {
            let is_whole = (offset, len) == (self.pieces, self.bytes);
            if !is_whole {
                return Err(self.refused("its last piece counts other pieces or bytes"));
            }
            self.at += PIECE_HEADER_LEN as u64;
            return self.end().map(|()| None);
        }
        let name = String::from_utf8(name).map_err(|_| self.refused("the name of a file is invalid"))?;
        self.pieces += 1;
        self.bytes += bytes.len() as u64;
        self.at += (PIECE_HEADER_LEN + name.len() + bytes.len()) as u64;
        Ok(Some(Piece { kind, name, offset, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimDisk;
    use cedrat_sync::Arc;

    /// The bytes of a stream.
    #[derive(Clone, Default)]
    struct Bytes(Arc<Mutex<Vec<u8>>>);

    impl Write for Bytes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// E18.21: no piece has a byte of it.
    #[test]
    fn empty_file_is_restored() {
        let bytes = Bytes::default();
        let stream = StreamMedia::new(bytes.clone(), [1; 16]).expect("written");
        for name in ["control", "empty", "log/empty"] {
            stream.open(name, OpenMode::Create).expect("new");
        }
        let control = stream.open("control", OpenMode::ReadWrite).expect("there");
        write_all_at(&stream, control, 0, b"control", Durability::Volatile).expect("written");
        stream.finish().expect("written");
        let (disk, bytes) = (SimDisk::new(), bytes.0.lock().clone());
        assert_eq!(read_stream(&mut &*bytes, &disk, &["control"]).expect("E18.21"), 7);
        assert_eq!(disk.image().names().collect::<Vec<_>>(), ["control", "empty", "log/empty"], "E18.21");
        let lens = ["empty", "log/empty"].map(|name| disk.image().file(name).map(|bytes| bytes.len()));
        assert_eq!(lens, [Some(0); 2], "E18.21");
    }
}
