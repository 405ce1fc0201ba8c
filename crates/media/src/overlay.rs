//! A medium whose writes go to a scratch medium, so that its files stay as they are.
//!
//! Tools read a store as recovery leaves it, and change none of its files. [`Overlay`] reads a block from the scratch medium if it
//! was written there, else from the medium below, which it opens only for reading.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use cedrat_sync::{Arc, Mutex};

use crate::{BLOCK_LEN, Durability, FileId, LockGuard, Media, OpenMode, read_exact_at, write_all_at};

const BLOCK: u64 = BLOCK_LEN as u64;

/// A file of the overlay, of which both media may have blocks.
#[derive(Debug)]
struct Layers {
    /// The file below, and the number of its bytes that are still visible.
    below: Option<(FileId, u64)>,
    /// The blocks that are read from the scratch medium.
    written: BTreeSet<u64>,
}

/// A medium whose changes go to a scratch medium. None of them outlive the process: a sync has no effect.
///
/// A file has its id on the scratch medium, where it always has its full length. Blocks that were never written are holes
/// there.
#[derive(Debug)]
pub struct Overlay {
    below: Arc<dyn Media>,
    scratch: Arc<dyn Media>,
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    by_id: BTreeMap<FileId, Layers>,
    by_name: BTreeMap<String, FileId>,
    removed: BTreeSet<String>,
    /// Names that are not listed.
    unlisted: BTreeSet<String>,
}

impl Overlay {
    /// Creates an overlay of `below` whose changes go to `scratch`, which is empty.
    pub fn new(below: Arc<dyn Media>, scratch: Arc<dyn Media>) -> Overlay {
        Overlay { below, scratch, files: Mutex::default() }
    }

    /// Removes all files but `names` from the root directory and from `directories`. The files `names` are not listed until
    /// [`list_all`](Overlay::list_all).
    ///
    /// # Errors
    /// Those of the medium below.
    pub fn keep_unlisted(&self, names: &[&str], directories: &[&str]) -> io::Result<()> {
        for &directory in [""].iter().chain(directories) {
            for name in self.list(directory)? {
                let name = if directory.is_empty() { name } else { format!("{directory}/{name}") };
                if !names.contains(&name.as_str()) {
                    self.remove(&name)?;
                }
            }
        }
        self.files.lock().unlisted = names.iter().map(|&name| name.to_owned()).collect();
        Ok(())
    }

    /// Ends [`keep_unlisted`](Overlay::keep_unlisted): all files are listed again.
    pub fn list_all(&self) {
        self.files.lock().unlisted.clear();
    }

    /// Opens the file below, and creates a file of the same length on the scratch medium.
    fn open_both(&self, files: &mut Files, name: &str) -> io::Result<FileId> {
        let below = self.below.open(name, OpenMode::Read)?;
        let length = self.below.len(below)?;
        let file = self.scratch.open(name, OpenMode::Create)?;
        self.scratch.set_len(file, length)?;
        files.insert(name, file, Some((below, length)));
        Ok(file)
    }

    /// Copies the visible bytes of a block to the scratch medium, so that a part of the block can be changed there.
    fn bring_up(&self, layers: &mut Layers, file: FileId, block: u64) -> io::Result<()> {
        if layers.written.contains(&block) {
            return Ok(());
        }
        let start = block * BLOCK;
        if let Some((below, shown)) = layers.below
            && start < shown
        {
            let mut bytes = vec![0; BLOCK.min(shown - start) as usize];
            read_exact_at(&*self.below, below, start, &mut bytes)?;
            write_all_at(&*self.scratch, file, start, &bytes, Durability::Volatile)?;
        }
        layers.written.insert(block);
        Ok(())
    }
}

impl Files {
    fn insert(&mut self, name: &str, file: FileId, below: Option<(FileId, u64)>) {
        self.by_name.insert(name.to_string(), file);
        self.removed.remove(name);
        let layers = Layers { below, written: BTreeSet::new() };
        self.by_id.insert(file, layers);
    }

    /// Whether the file was removed or created in the overlay, so that a file of this name below is another one.
    fn is_above_only(&self, name: &str) -> bool {
        let known = self.by_name.get(name).and_then(|file| self.by_id.get(file));
        known.map_or_else(|| self.removed.contains(name), |layers| layers.below.is_none())
    }

    fn layers(&mut self, file: FileId) -> io::Result<&mut Layers> {
        self.by_id.get_mut(&file).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the file was removed"))
    }
}

/// Returns the blocks that have the bytes from `offset` on.
fn blocks(offset: u64, length: u64) -> std::ops::Range<u64> {
    offset / BLOCK..(offset + length).div_ceil(BLOCK)
}

impl Media for Overlay {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        let mut files = self.files.lock();
        let known = files.by_name.get(name).copied();
        match (mode, known) {
            (OpenMode::Create, None) => {
                if !files.removed.contains(name) && self.below.open(name, OpenMode::Read).is_ok() {
                    return Err(io::Error::new(io::ErrorKind::AlreadyExists, name));
                }
                let file = self.scratch.open(name, OpenMode::Create)?;
                files.insert(name, file, None);
                Ok(file)
            }
            (OpenMode::Create, Some(_)) => Err(io::Error::new(io::ErrorKind::AlreadyExists, name)),
            (_, Some(file)) => Ok(file),
            (_, None) if files.removed.contains(name) => Err(io::Error::new(io::ErrorKind::NotFound, name)),
            (_, None) => self.open_both(&mut files, name),
        }
    }

    fn lock(&self, name: &str) -> io::Result<LockGuard> {
        if self.files.lock().is_above_only(name) {
            return self.scratch.lock(name);
        }
        match self.below.lock(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.scratch.lock(name),
            locked => locked,
        }
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let files = self.files.lock();
        let full = |name: &str| match directory {
            "" => name.to_string(),
            _ => format!("{directory}/{name}"),
        };
        let below = self.below.list(directory)?.into_iter();
        let names: BTreeSet<String> = below
            .chain(self.scratch.list(directory)?)
            .filter(|name| !files.removed.contains(&full(name)) && !files.unlisted.contains(&full(name)))
            .collect();
        Ok(names.into_iter().collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut files = self.files.lock();
        if let Some(file) = files.by_name.remove(name) {
            files.by_id.remove(&file);
            self.scratch.remove(name)?;
        } else if files.removed.contains(name) {
            return Err(io::Error::new(io::ErrorKind::NotFound, name));
        } else {
            self.below.open(name, OpenMode::Read)?;
        }
        files.removed.insert(name.to_string());
        Ok(())
    }

    fn sync_directory(&self, _directory: &str) -> io::Result<()> {
        Ok(()) // nothing here outlives the process
    }

    fn len(&self, file: FileId) -> io::Result<u64> {
        self.scratch.len(file)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut files = self.files.lock();
        let layers = files.layers(file)?;
        let length = self.scratch.len(file)?;
        // One block at a time: each lies on one medium, and reads may be short.
        let inside = BLOCK - offset % BLOCK;
        let wanted = inside.min(length.saturating_sub(offset)).min(buffer.len() as u64);
        let buffer = &mut buffer[..wanted as usize];
        let from_below = match layers.below {
            Some((below, shown)) if !layers.written.contains(&(offset / BLOCK)) => {
                Some((below, shown.saturating_sub(offset)))
            }
            _ => None,
        };
        match from_below {
            Some((below, shown)) if shown > 0 => {
                let shown = wanted.min(shown) as usize;
                self.below.read_at(below, offset, &mut buffer[..shown])
            }
            _ => self.scratch.read_at(file, offset, buffer),
        }
    }

    fn write_at(&self, file: FileId, offset: u64, bytes: &[u8], _durability: Durability) -> io::Result<usize> {
        let mut files = self.files.lock();
        let layers = files.layers(file)?;
        for block in blocks(offset, bytes.len() as u64) {
            let whole = block * BLOCK >= offset && (block + 1) * BLOCK <= offset + bytes.len() as u64;
            if whole {
                layers.written.insert(block);
            } else {
                self.bring_up(layers, file, block)?;
            }
        }
        write_all_at(&*self.scratch, file, offset, bytes, Durability::Volatile)?;
        Ok(bytes.len())
    }

    fn sync(&self, _file: FileId) -> io::Result<()> {
        Ok(()) // nothing here outlives the process
    }

    fn allocate(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        // Holes suffice: this space need not be reserved.
        if self.scratch.len(file)? < offset + len {
            self.scratch.set_len(file, offset + len)?;
        }
        Ok(())
    }

    fn punch(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        let mut files = self.files.lock();
        let layers = files.layers(file)?;
        let end = (offset + len).min(self.scratch.len(file)?);
        if offset >= end {
            return Ok(());
        }
        for block in blocks(offset, end - offset) {
            self.bring_up(layers, file, block)?;
        }
        self.scratch.punch(file, offset, end - offset)
    }

    fn set_len(&self, file: FileId, len: u64) -> io::Result<()> {
        let mut files = self.files.lock();
        let layers = files.layers(file)?;
        if let Some((_, shown)) = &mut layers.below {
            *shown = (*shown).min(len);
        }
        layers.written.retain(|block| block * BLOCK < len);
        self.scratch.set_len(file, len)
    }

    fn path(&self, file: FileId) -> String {
        let mut files = self.files.lock();
        match files.layers(file) {
            Ok(Layers { below: Some((below, _)), .. }) => self.below.path(*below),
            _ => self.scratch.path(file),
        }
    }

    fn is_encrypted(&self) -> bool {
        self.below.is_encrypted() && self.scratch.is_encrypted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimDisk;

    fn below() -> Arc<SimDisk> {
        let disk = SimDisk::new();
        for (name, length) in [("a", 3 * BLOCK_LEN + 100), ("log/b", 700)] {
            let file = disk.open(name, OpenMode::Create).expect("new");
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8 + 1).collect();
            write_all_at(&disk, file, 0, &bytes, Durability::Volatile).expect("room");
        }
        Arc::new(disk)
    }

    fn whole(media: &dyn Media, name: &str) -> Vec<u8> {
        let file = media.open(name, OpenMode::ReadWrite).expect("there");
        let mut bytes = vec![0xee; media.len(file).expect("there") as usize];
        read_exact_at(media, file, 0, &mut bytes).expect("readable");
        bytes
    }

    /// Numbers that are different enough.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) % bound
        }
    }

    /// One change of a file, the same on every medium.
    fn change(media: &dyn Media, random: &mut Random) {
        let name = ["a", "log/b"][random.below(2) as usize];
        let file = media.open(name, OpenMode::ReadWrite).expect("there");
        let offset = random.below(5 * BLOCK);
        let length = random.below(2 * BLOCK) + 1;
        match random.below(5) {
            0 => media.set_len(file, offset).expect("possible"),
            1 => media.punch(file, offset, length).expect("possible"),
            2 => media.allocate(file, offset, length).expect("possible"),
            _ => {
                let bytes = vec![random.below(256) as u8; length as usize];
                write_all_at(media, file, offset, &bytes, Durability::Volatile).expect("possible");
            }
        }
    }

    #[test]
    fn overlay_reads_like_copy_and_changes_nothing() {
        for seed in 0..200 {
            let below = below();
            let before = below.image().hash();
            let copy = SimDisk::from_image(below.image());
            let overlay = Overlay::new(below.clone(), Arc::new(SimDisk::new()));
            for step in 0..20 {
                change(&copy, &mut Random(seed * 100 + step));
                change(&overlay, &mut Random(seed * 100 + step));
                for name in ["a", "log/b"] {
                    assert!(
                        whole(&copy, name) == whole(&overlay, name),
                        "{name} differs at step {step} of seed {seed}"
                    );
                }
            }
            assert_eq!(below.image().hash(), before, "seed {seed}");
        }
    }

    #[test]
    fn names_come_and_go_above_only() {
        let below = below();
        let overlay = Overlay::new(below.clone(), Arc::new(SimDisk::new()));
        assert!(overlay.open("a", OpenMode::Create).is_err());
        overlay.open("log/c", OpenMode::Create).expect("a new name");
        assert!(overlay.open("log/c", OpenMode::Create).is_err());
        overlay.remove("log/b").expect("it was there");
        assert!(overlay.remove("log/b").is_err());
        assert!(overlay.open("log/b", OpenMode::Read).is_err());
        assert_eq!(overlay.list("log").expect("listed"), ["c"]);
        assert_eq!(overlay.list("").expect("listed"), ["a"]);
        overlay.open("log/b", OpenMode::Create).expect("free again");
        assert_eq!(whole(&overlay, "log/b"), [0; 0]);
        assert_eq!(below.list("log").expect("listed"), ["b"]);
        let _locked = below.lock("log/b").expect("not locked");
        overlay.lock("log/b").expect("it is another file");
    }
}
