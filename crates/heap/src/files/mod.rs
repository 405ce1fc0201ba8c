//! Files beside the log: the root, and chunk files (docs/formats/heap.md).
//!
//! The disk holds only log and checkpoints (Hathi §4): no page is written back, and no heap word lies in the page file
//! (E7.4). A heap's two chunk files are reserved when it is created, so that no checkpoint meets a full disk.

pub(crate) mod chunk;
pub(crate) mod root;

use std::collections::HashMap;
use std::io::ErrorKind;

use cedrat_media::{FileId, Media, OpenMode};
use cedrat_sync::{Arc, Mutex, planted};
use cedrat_wal::{Log, StoreId};

use crate::error::{Error, Result};
use crate::heap::Core;
use crate::options::HeapOptions;
use chunk::ChunkFile;
use root::{DIRECTORY, HeapRoot, Root, RootFile};

/// Files of a memory.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) media: Arc<dyn Media>,
    pub(crate) store: StoreId,
    log: Log,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    /// `None` until the first heap is created.
    file: Option<RootFile>,
    pub(crate) root: Root,
    pub(crate) heaps: HashMap<u32, HeapFiles>,
}

/// The two chunk files of a heap.
#[derive(Clone, Debug)]
pub(crate) struct HeapFiles {
    pub(crate) files: [FileId; 2],
    /// Checksums of the chunks in each file.
    pub(crate) checksums: [Vec<Option<u32>>; 2],
}

/// Maximum length of a heap's name, in bytes.
const NAME_LEN_MAX: usize = 255;

impl Files {
    pub(crate) fn new(
        media: Arc<dyn Media>,
        store: StoreId,
        log: Log,
        file: Option<RootFile>,
        root: Root,
        heaps: HashMap<u32, HeapFiles>,
    ) -> Files {
        Files { media, store, log, state: Mutex::new(State { file, root, heaps }) }
    }

    pub(crate) fn next_number(&self) -> u32 {
        self.state.lock().root.next_number
    }

    /// Returns the root.
    pub(crate) fn root(&self) -> Root {
        self.state.lock().root.clone()
    }

    /// Returns the heaps of the root.
    pub(crate) fn heaps(&self) -> Vec<HeapRoot> {
        self.state.lock().root.heaps.clone()
    }

    pub(crate) fn heap_files(&self, number: u32) -> Option<HeapFiles> {
        self.state.lock().heaps.get(&number).cloned()
    }

    pub(crate) fn chunk_file<'a>(&'a self, root: &HeapRoot, file: FileId) -> ChunkFile<'a> {
        let (heap, chunk_len) = (root.number, root.chunk_len);
        ChunkFile { media: &*self.media, file, store: &self.store, heap, chunk_len }
    }

    /// Reserves a heap's files, then makes its creation durable.
    pub(crate) fn create(&self, core: &Core, options: &HeapOptions) -> Result<()> {
        if core.name.is_empty() || core.name.len() > NAME_LEN_MAX {
            let what = "the length of a heap's name, in bytes (and at least 1)";
            return Err(Error::Limit { what, given: core.name.len() as u64, limit: NAME_LEN_MAX as u64 });
        }
        let mut state = self.state.lock();
        // The heap's first commit is later than the newest LSN now. Read while `state` is held, so that a checkpoint of the
        // store either finds the heap here or has read an older clock; and durable, because the root contains the LSN, and
        // numbers that a crash takes back may be drawn again.
        let at = self.log.force(self.log.current_lsn())?.up_to();
        let heap = HeapRoot {
            number: core.number,
            name: core.name.clone(),
            file: options.file.clone().unwrap_or_else(|| core.name.clone()),
            words: core.words(),
            reserved_words: core.reserved_words,
            chunk_len: options.chunk_len,
            blocks: options.blocks,
            address: options.address.unwrap_or(0) as u64,
            checkpoint: 0,
            chunks: 0,
            redo_from: at.get(),
            reflects: at.get(),
            digest: 0,
        };
        if state.root.heaps.iter().any(|known| known.file == heap.file) {
            return Err(Error::Exists { what: "heap with files", name: heap.file });
        }
        if state.file.is_none() {
            let (file, root) = RootFile::create(&*self.media, &self.store)?;
            (state.file, state.root) = (Some(file), root);
        }
        let mut root = state.root.clone();
        root.next_number = heap.number + 1;
        root.heaps.push(heap.clone());
        // Checked for all future values of its numbers: a checkpoint whose root does not fit would keep the log from ever
        // being trimmed.
        root::check_len(&root)?;
        let files = self.reserve_files(&heap).inspect_err(|error| {
            if !matches!(error, Error::Exists { .. }) {
                self.remove_files(&heap);
            }
        })?;
        self.write(&mut state, root)?;
        let checksums = [Vec::new(), Vec::new()];
        state.heaps.insert(core.number, HeapFiles { files, checksums });
        Ok(())
    }

    /// Reserves the files of a new heap. [`Error::Exists`]: they belong to another one, and are unchanged.
    fn reserve_files(&self, heap: &HeapRoot) -> Result<[FileId; 2]> {
        let mut files = Vec::new();
        for checkpoint in [0, 1] {
            let name = heap.file_name(checkpoint);
            let doing = |error| Error::io(format!("reserving {name}, {} bytes", heap.words * 8), error);
            let file = match self.media.open(&name, OpenMode::Create) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => self.open_left_over(&name)?,
                created => created.map_err(doing)?,
            };
            self.media.set_len(file, 0).map_err(doing)?;
            self.reserve(file, 0, heap, &name)?;
            files.push(file);
        }
        let doing = |error| Error::io(format!("syncing the directory {DIRECTORY}"), error);
        self.media.sync_directory(DIRECTORY).map_err(doing)?;
        self.media.sync_directory("").map_err(doing)?;
        Ok([files[0], files[1]])
    }

    /// Opens a file that an interrupted creation or removal of a heap has left. No other heap has a file of this name, but a
    /// file system that ignores case has found one, if it lists none of exactly this name.
    fn open_left_over(&self, name: &str) -> Result<FileId> {
        let listed = self.media.list(DIRECTORY).map_err(|error| Error::io("listing the heaps' directory", error))?;
        if !listed.iter().any(|listed| name.strip_prefix(DIRECTORY).is_some_and(|name| name[1..] == *listed)) {
            let what = "file of a heap, to this file system";
            return Err(Error::Exists { what, name: name.to_owned() });
        }
        self.media.open(name, OpenMode::ReadWrite).map_err(|error| Error::io(format!("opening {name}"), error))
    }

    /// Removes the files of a creation that failed.
    fn remove_files(&self, heap: &HeapRoot) {
        for checkpoint in [0, 1] {
            // The original error is reported already; remaining files are removed at the next opening.
            let _ = self.media.remove(&heap.file_name(checkpoint));
        }
    }

    /// Removes chunk files of heaps that the root does not name: of creations and removals that a crash interrupted.
    pub(crate) fn remove_orphans(&self) -> Result<()> {
        let state = self.state.lock();
        let named: Vec<String> =
            state.root.heaps.iter().flat_map(|heap| [heap.file_name(0), heap.file_name(1)]).collect();
        let doing = |error| Error::io("removing the files of dropped heaps", error);
        for file in self.media.list(DIRECTORY).map_err(doing)? {
            let name = format!("{DIRECTORY}/{file}");
            if !named.contains(&name) {
                self.media.remove(&name).map_err(doing)?;
            }
        }
        Ok(())
    }

    /// Reserves the space of a file from `from` on, which has that before: a full file system may refuse a range that has
    /// space already (A10a).
    fn reserve(&self, file: FileId, from: u64, heap: &HeapRoot, name: &str) -> Result<()> {
        let doing = |error| Error::io(format!("reserving {name}, {} bytes", heap.words * 8), error);
        let from = if planted!("heap_allocated_again") { 0 } else { from };
        self.media.allocate(file, from, heap.files_len() - from).map_err(doing)?;
        self.media.sync(file).map_err(doing)
    }

    /// Makes the removal of the heap durable, then removes its files. If that fails, the next opening removes them.
    pub(crate) fn remove(&self, core: &Core) -> Result<()> {
        let mut state = self.state.lock();
        let mut root = state.root.clone();
        let at = root.heaps.iter().position(|heap| heap.number == core.number).expect("a heap is in the root");
        let heap = root.heaps.remove(at);
        self.write(&mut state, root)?;
        state.heaps.remove(&core.number);
        let doing = |name| format!("removing {name}, whose heap is dropped; the next opening removes the file");
        let removed = [0, 1].map(|checkpoint| {
            let name = heap.file_name(checkpoint);
            self.media.remove(&name).map_err(|error| Error::io(doing(name), error))
        });
        removed.into_iter().collect()
    }

    /// Reserves more space for a heap, then makes its new size durable.
    pub(crate) fn grow(&self, core: &Core, words: u64) -> Result<()> {
        let mut state = self.state.lock();
        let mut root = state.root.clone();
        let heap = root.heaps.iter_mut().find(|heap| heap.number == core.number).expect("a heap is in the root");
        let len = heap.files_len();
        heap.words = words;
        let files = state.heaps[&core.number].files;
        let mut files_and_names = files.into_iter().zip([0, 1].map(|checkpoint| heap.file_name(checkpoint)));
        let reserved = files_and_names.try_for_each(|(file, name)| self.reserve(file, len, heap, &name));
        if reserved.is_err() && !planted!("refused_growth_keeps_space") {
            // A file system may have allocated a part of what it refuses, and the log needs that space. The original error is
            // reported.
            files.into_iter().for_each(|file| drop(self.media.set_len(file, len)));
        }
        reserved?;
        self.write(&mut state, root)
    }

    /// Replaces the entries of some heaps in the root, and the state of their files.
    pub(crate) fn checkpointed(&self, changed: Vec<(HeapRoot, HeapFiles)>) -> Result<()> {
        let mut state = self.state.lock();
        let mut root = state.root.clone();
        for (new, files) in changed {
            if let Some(heap) = root.heaps.iter_mut().find(|heap| heap.number == new.number) {
                state.heaps.insert(new.number, files);
                *heap = new;
            }
        }
        self.write(&mut state, root)
    }

    fn write(&self, state: &mut State, root: Root) -> Result<()> {
        let file = state.file.as_mut().expect("there is a root file where there are heaps");
        let unfinished = StopOnPanic(&self.log, "a change of the root of heaps");
        let written = file.write(&*self.media, &self.store, &root);
        std::mem::forget(unfinished);
        match written {
            Ok(()) => {
                state.root = root;
                Ok(())
            }
            Err(Error::Io { doing, source }) => {
                // W6: the content of the root on the disk is unknown now.
                self.log.stop(format!("{doing}: {source}"));
                Err(self.log.stopped().map_or(Error::Io { doing, source }, Error::Stopped))
            }
            Err(other) => Err(other), // it did not fit: nothing was written
        }
    }
}

/// Stops the log when dropped, which happens only when a panic of the medium ends the named work. What was written is unknown
/// then, and flags and checksums in memory do not describe it: the next checkpoint would omit chunks that are in no file.
pub(crate) struct StopOnPanic<'a>(pub(crate) &'a Log, pub(crate) &'static str);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if !planted!("half_checkpoint_continued") {
            self.0.stop(format!("{} panicked half-way; open the store again", self.1));
        }
    }
}
