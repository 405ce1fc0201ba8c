//! The medium of the decrypted files of an encrypted directory.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Range;

use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, Mutex, RwLock, planted};

use super::header::KEY_FILE;
use super::key::Key;
use super::sectors::SectorCipher;
use crate::{AlignedBuf, Durability, FileId, LockGuard, Media, OpenMode, SECTOR_LEN, write_all_at};

const SECTOR: u64 = SECTOR_LEN as u64;

/// The maximum number of bytes that one call encrypts; a longer write is short.
const PIECE_LEN_MAX: usize = 1 << 20;

/// The number of buffers that are kept for later calls.
const BUFFERS_MAX: usize = 4;

/// A directory of encrypted files, decrypted.
pub(super) struct Encrypted {
    below: Arc<dyn Media>,
    data_key: Key,
    files: RwLock<Files>,
    /// Buffers for ciphertext.
    buffers: Mutex<Vec<AlignedBuf>>,
}

#[derive(Default)]
struct Files {
    by_id: HashMap<FileId, Arc<File>>,
    by_name: HashMap<String, Arc<File>>,
}

/// A file that was opened.
struct File {
    cipher: SectorCipher,
    /// Held exclusively by a write of a part of a sector, which reads and writes the rest of it as well; shared by all other calls: a
    /// block that is read half old and half new decrypts to neither.
    partial: RwLock<()>,
    /// Whether the file has no incomplete sector at its end.
    ends_whole: AtomicBool,
}

impl fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encrypted").field("below", &self.below).finish_non_exhaustive()
    }
}

/// Returns the beginning of the sector at an offset.
fn floor(offset: u64) -> u64 {
    offset / SECTOR * SECTOR
}

fn hidden() -> io::Error {
    io::Error::new(ErrorKind::NotFound, format!("the file {KEY_FILE} belongs to the encryption of its directory"))
}

impl Encrypted {
    pub(super) fn new(below: Arc<dyn Media>, data_key: Key) -> Encrypted {
        Encrypted { below, data_key, files: RwLock::default(), buffers: Mutex::default() }
    }

    fn file(&self, file: FileId) -> io::Result<Arc<File>> {
        let known = self.files.read().by_id.get(&file).cloned();
        known.ok_or_else(|| io::Error::new(ErrorKind::NotFound, format!("{} is not open", self.below.path(file))))
    }

    /// Calls `work` with a buffer of zeros, or of bytes of earlier calls.
    fn with_buffer<T>(&self, len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
        let kept = self.buffers.lock().pop();
        let mut buffer = kept.unwrap_or_default();
        // It never shrinks: a resize clears the bytes that it adds.
        if buffer.len() < len {
            buffer.resize(len);
        }
        let result = work(&mut buffer[..len]);
        let mut buffers = self.buffers.lock();
        if buffers.len() < BUFFERS_MAX {
            buffers.push(buffer);
        }
        result
    }

    /// Reads and decrypts whole sectors, and returns the number of their bytes: fewer than requested at the end of the file, or if a
    /// read was short.
    fn read_sectors(&self, of: &File, file: FileId, offset: u64, sectors: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < sectors.len() {
            let read = self.below.read_at(file, offset + done as u64, &mut sectors[done..])?;
            done += read;
            if read == 0 || done.is_multiple_of(SECTOR_LEN) {
                break;
            }
        }
        let whole = done / SECTOR_LEN * SECTOR_LEN;
        of.cipher.decrypt(&mut sectors[..whole], offset / SECTOR);
        Ok(whole)
    }

    /// Reads the sector at an offset; bytes behind the end of the file are zero.
    fn read_sector(&self, of: &File, file: FileId, offset: u64, sector: &mut [u8]) -> io::Result<()> {
        if self.read_sectors(of, file, offset, sector)? == 0 {
            sector.fill(0);
        }
        Ok(())
    }

    /// Writes bytes of which the first or the last sector is not whole, and returns their number.
    fn write_partial(
        &self,
        of: &File,
        file: FileId,
        offset: u64,
        bytes: &[u8],
        durability: Durability,
    ) -> io::Result<usize> {
        let begin = floor(offset);
        let before = (offset - begin) as usize;
        let bytes = &bytes[..bytes.len().min(PIECE_LEN_MAX)];
        let len = (before + bytes.len()).next_multiple_of(SECTOR_LEN);
        let _alone = (!planted!("partial_writes_overlap")).then(|| of.partial.write());
        self.with_buffer(len, |sectors| {
            let last = len - SECTOR_LEN;
            if before > 0 || last == 0 {
                self.read_sector(of, file, begin, &mut sectors[..SECTOR_LEN])?;
            }
            if last > 0 && before + bytes.len() < len {
                self.read_sector(of, file, begin + last as u64, &mut sectors[last..])?;
            }
            sectors[before..before + bytes.len()].copy_from_slice(bytes);
            of.cipher.encrypt(sectors, begin / SECTOR);
            write_all_at(&*self.below, file, begin, sectors, durability)
        })?;
        Ok(bytes.len())
    }

    /// Clears bytes: whole sectors by `clear`, as sectors that were never written, and parts of sectors by encrypted zeros.
    fn clear(
        &self,
        file: FileId,
        bytes: Range<u64>,
        clear: impl FnOnce(Range<u64>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Range { start, end } = bytes;
        let (first, last) = (start.next_multiple_of(SECTOR), floor(end));
        if first > last {
            return self.zero(file, start, end);
        }
        self.zero(file, start, first)?;
        if first < last {
            let of = self.file(file)?;
            let _beside_whole_sectors = of.partial.read();
            clear(first..last)?;
        }
        self.zero(file, last, end)
    }

    /// Removes an incomplete sector from the end of a file that was cut by others, before the file is changed: growth would complete
    /// the sector, and its bytes cannot be decrypted.
    fn complete_end(&self, of: &File, file: FileId) -> io::Result<()> {
        if of.ends_whole.load(Ordering::Acquire) {
            return Ok(());
        }
        let _alone = of.partial.write();
        let len = self.below.len(file)?;
        if !len.is_multiple_of(SECTOR) {
            self.below.set_len(file, floor(len))?;
        }
        of.ends_whole.store(true, Ordering::Release);
        Ok(())
    }

    /// Writes zeros over a part of a sector.
    fn zero(&self, file: FileId, from: u64, to: u64) -> io::Result<()> {
        let zeros = [0; SECTOR_LEN];
        if from < to {
            self.write_partial(&*self.file(file)?, file, from, &zeros[..(to - from) as usize], Durability::Volatile)?;
        }
        Ok(())
    }
}

impl Media for Encrypted {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        if name == KEY_FILE {
            return Err(hidden());
        }
        let id = self.below.open(name, mode)?;
        let mut files = self.files.write();
        let file = files.by_name.entry(name.into()).or_insert_with(|| {
            let named = if planted!("files_share_keys") { "" } else { name };
            let cipher = SectorCipher::of_file(&self.data_key, named);
            Arc::new(File { cipher, partial: RwLock::new(()), ends_whole: AtomicBool::new(false) })
        });
        let file = Arc::clone(file);
        files.by_id.insert(id, file);
        Ok(id)
    }

    fn lock(&self, name: &str) -> io::Result<LockGuard> {
        if name == KEY_FILE { Err(hidden()) } else { self.below.lock(name) }
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let mut names = self.below.list(directory)?;
        names.retain(|name| !directory.is_empty() || name != KEY_FILE);
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if name == KEY_FILE {
            return Err(hidden());
        }
        self.below.remove(name)?;
        let mut files = self.files.write();
        if let Some(removed) = files.by_name.remove(name) {
            files.by_id.retain(|_, file| !Arc::ptr_eq(file, &removed));
        }
        Ok(())
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.below.sync_directory(directory)
    }

    fn len(&self, file: FileId) -> io::Result<u64> {
        self.below.len(file).map(floor)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let of = self.file(file)?;
        let _beside_partial_writes = of.partial.read();
        let before = (offset - floor(offset)) as usize;
        if before == 0 && buffer.len() >= SECTOR_LEN {
            let whole = buffer.len() / SECTOR_LEN * SECTOR_LEN;
            return self.read_sectors(&of, file, offset, &mut buffer[..whole]);
        }
        let wanted = buffer.len().min(PIECE_LEN_MAX);
        self.with_buffer((before + wanted).next_multiple_of(SECTOR_LEN), |sectors| {
            let read = self.read_sectors(&of, file, offset - before as u64, sectors)?;
            let found = read.saturating_sub(before).min(wanted);
            buffer[..found].copy_from_slice(&sectors[before.min(read)..][..found]);
            Ok(found)
        })
    }

    fn write_at(&self, file: FileId, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<usize> {
        let of = self.file(file)?;
        if bytes.is_empty() {
            return self.below.write_at(file, offset, bytes, durability);
        }
        self.complete_end(&of, file)?;
        if !offset.is_multiple_of(SECTOR) || !bytes.len().is_multiple_of(SECTOR_LEN) {
            return self.write_partial(&of, file, offset, bytes, durability);
        }
        let bytes = &bytes[..bytes.len().min(PIECE_LEN_MAX)];
        let _beside_whole_sectors = of.partial.read();
        self.with_buffer(bytes.len(), |sectors| {
            sectors.copy_from_slice(bytes);
            if !planted!("bytes_written_plainly") {
                of.cipher.encrypt(sectors, offset / SECTOR);
            }
            write_all_at(&*self.below, file, offset, sectors, durability)
        })?;
        Ok(bytes.len())
    }

    fn sync(&self, file: FileId) -> io::Result<()> {
        self.below.sync(file)
    }

    fn allocate(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        let begin = floor(offset);
        self.complete_end(&*self.file(file)?, file)?;
        self.below.allocate(file, begin, (offset + len).next_multiple_of(SECTOR) - begin)
    }

    fn punch(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        let end = (offset + len).min(self.len(file)?);
        self.clear(file, offset..end, |sectors| self.below.punch(file, sectors.start, sectors.end - sectors.start))
    }

    fn write_zeros(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        self.complete_end(&*self.file(file)?, file)?;
        self.clear(file, offset..offset + len, |sectors| {
            self.below.write_zeros(file, sectors.start, sectors.end - sectors.start)
        })
    }

    fn set_len(&self, file: FileId, len: u64) -> io::Result<()> {
        let of = self.file(file)?;
        let rounded = len.next_multiple_of(SECTOR);
        self.complete_end(&of, file)?;
        let is_shorter = len < self.len(file)?;
        {
            let _beside_whole_sectors = of.partial.read();
            self.below.set_len(file, rounded)?;
        }
        // What was cut off would be read again.
        if is_shorter { self.zero(file, len, rounded) } else { Ok(()) }
    }

    fn path(&self, file: FileId) -> String {
        self.below.path(file)
    }

    fn is_encrypted(&self) -> bool {
        true
    }
}
