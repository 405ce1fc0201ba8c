//! Checkpoints of heaps: chunk by chunk, while transactions run (Hathi §4, H020–H022).
//!
//! A chunk is copied word by word; the copy may or may not contain words that transactions write back meanwhile. That is
//! harmless, because redo is blind: replaying from *before* on writes again every word that a later commit has written. The
//! invariants are (E4):
//!
//! 1. *before*: every commit up to this LSN is in the copy. It is the LSN before the oldest commit whose write-back was
//!    unfinished when the copying began, and not the newest LSN then;
//! 2. *after*: no commit behind this LSN is in the copy. The checkpoint counts only when all commits up to it are durable;
//!    otherwise recovery would find a state with half of a commit;
//! 3. the root names a checkpoint only after all of its chunks are durable, headers included; the log is trimmed after
//!    that.
//!
//! A chunk that no commit has changed since its copy two checkpoints ago is not copied again (E4.4). A commit sets a
//! chunk's flag after drawing its LSN and before writing words; the checkpoint clears the flag before it reads the clock.
//! If the checkpoint has cleared the flag of a commit whose words it may have missed, it sees that commit as unfinished and
//! sets the flag again.

use cedrat_media::AlignedBuf;
use cedrat_sync::atomic::{Ordering, fence};
use cedrat_sync::{Arc, planted};
use cedrat_wal::{Log, Lsn};

use crate::error::{Error, Result};
use crate::files::chunk::{ChunkHeader, digest};
use crate::files::root::HeapRoot;
use crate::files::{Files, HeapFiles, StopOnPanic};
use crate::heap::Core;
use crate::memory::{Memory, Shared};
use crate::region::WORD_LEN;

/// Result of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpointed {
    /// Heaps no longer need records up to this LSN.
    pub redo_from: Lsn,
    /// Number of chunks that were copied.
    pub chunks: u64,
}

impl Memory {
    /// Copies changed chunks to the disk, without blocking any transaction, and makes the copies the current ones.
    /// Afterwards heaps need no log up to [`Checkpointed::redo_from`].
    ///
    /// # Errors
    /// The store stopped, also because a file could not be written or synced: its content is unknown then.
    pub fn checkpoint(&self) -> Result<Checkpointed> {
        self.shared().checkpoint()
    }

    /// Returns the LSN up to which heaps need no record; without heaps they need none at all.
    pub fn redo_from(&self) -> Lsn {
        let heaps = self.shared().files.as_ref().map(Files::heaps).unwrap_or_default();
        heaps.iter().map(|heap| Lsn::new(heap.redo_from)).min().unwrap_or(Lsn::MAX)
    }

    /// Returns the name of the heap whose checkpoint needs the oldest log, with the LSN up to which that checkpoint has every
    /// commit; `None` without heaps.
    pub fn oldest_checkpoint(&self) -> Option<(String, Lsn)> {
        let heaps = self.shared().files.as_ref().map(Files::heaps).unwrap_or_default();
        let oldest = heaps.into_iter().min_by_key(|heap| heap.redo_from)?;
        Some((oldest.name, Lsn::new(oldest.redo_from)))
    }
}

impl Shared {
    fn checkpoint(&self) -> Result<Checkpointed> {
        let _alone = self.changing.lock();
        let (Some(files), Some(log)) = (&self.files, self.clock.log()) else {
            return Ok(Checkpointed { redo_from: Lsn::MAX, chunks: 0 });
        };
        self.clock.running()?;
        let heaps = self.heaps.read().clone();
        if heaps.is_empty() {
            return Ok(Checkpointed { redo_from: Lsn::MAX, chunks: 0 });
        }
        let unfinished = StopOnPanic(log, "a checkpoint of heaps");
        let taken = self.checkpoint_all(files, log, &heaps);
        std::mem::forget(unfinished);
        match taken {
            Err(Error::Io { doing, source }) => {
                // W6: after a failed sync the content of the disk is unknown, and another sync would not reveal it.
                log.stop(format!("{doing}: {source}"));
                self.clock.running()?;
                Err(Error::Io { doing, source })
            }
            other => other,
        }
    }

    fn checkpoint_all(&self, files: &Files, log: &Log, heaps: &[Arc<Core>]) -> Result<Checkpointed> {
        let mut changed = Vec::new();
        let mut chunks = 0;
        for core in heaps {
            let root = files.heaps().into_iter().find(|root| root.number == core.number);
            let (Some(root), Some(of_heap)) = (root, files.heap_files(core.number)) else { continue };
            let mut copy = Copy { shared: self, core, files, root, of_heap, copied: Vec::new() };
            copy.all()?;
            chunks += copy.copied.len() as u64;
            changed.push((copy.root, copy.of_heap));
        }
        #[cfg(feature = "planted-faults")]
        if self.options.fault == Some(crate::Fault::GenerationSwitchedEarly) {
            return self.switched_early(files, changed, chunks);
        }
        for (root, of_heap) in changed.iter().filter(|_| !planted!("headers_not_synced")) {
            files.chunk_file(root, of_heap.files[(root.checkpoint & 1) as usize]).sync()?;
        }
        // E4.2: the commits in the copies are durable before the copies count.
        let reflects = changed.iter().map(|(root, _)| root.reflects).max().unwrap_or(0);
        if !planted!("copies_count_before_their_commits") {
            log.force(Lsn::new(reflects))?;
        }
        files.checkpointed(changed)?;
        self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        let redo_from = files.heaps().iter().map(|heap| Lsn::new(heap.redo_from)).min().unwrap_or(Lsn::MAX);
        Ok(Checkpointed { redo_from, chunks })
    }

    /// A planted fault: the root names checkpoints whose chunks are not durable.
    #[cfg(feature = "planted-faults")]
    fn switched_early(&self, files: &Files, changed: Vec<(HeapRoot, HeapFiles)>, chunks: u64) -> Result<Checkpointed> {
        files.checkpointed(changed)?;
        let redo_from = files.heaps().iter().map(|heap| Lsn::new(heap.redo_from)).min().unwrap_or(Lsn::MAX);
        Ok(Checkpointed { redo_from, chunks })
    }
}

/// The copying of one heap.
struct Copy<'a> {
    shared: &'a Shared,
    core: &'a Core,
    files: &'a Files,
    /// The heap's entry in the new root.
    root: HeapRoot,
    of_heap: HeapFiles,
    copied: Vec<ChunkHeader>,
}

impl Copy<'_> {
    /// Copies what has changed, data first, then headers. The headers are durable after one more sync.
    fn all(&mut self) -> Result<()> {
        let clock = self.shared.clock.now();
        self.root.redo_from = self.root.redo_from.max(self.before(clock));
        self.root.reflects = self.root.reflects.max(self.root.redo_from);
        if self.root.checkpoint > 0 && self.core.is_clean(self.root.checkpoint, self.root.chunks) {
            return Ok(()); // nothing has changed since: the last copy is still current
        }
        self.root.checkpoint += 1;
        let count = self.core.chunk_count() as u32;
        self.root.chunks = count;
        let which = (self.root.checkpoint & 1) as usize;
        self.of_heap.checksums[which].resize(count as usize, None);
        let read_from = self.core.on_demand.as_deref().map(|on_demand| (on_demand.source.checkpoint & 1) as usize);
        if read_from == Some(which) {
            // They are read from the file that is written now (E4.8). It is the second checkpoint of this opening, and the first one
            // has copied all chunks, so none is absent here.
            self.core.load_all()?;
        }
        let mut buffer = AlignedBuf::zeroed(self.root.chunk_len as usize);
        for chunk in 0..count {
            if self.core.chunks.take(chunk as usize, self.root.checkpoint) {
                self.copy_chunk(chunk, &mut buffer)?;
            }
        }
        self.root.digest = digest(&self.of_heap.checksums[which]);
        let file = self.files.chunk_file(&self.root, self.of_heap.files[which]);
        file.sync()?;
        for header in &self.copied {
            file.write_header(header)?;
        }
        Ok(())
    }

    fn copy_chunk(&mut self, chunk: u32, buffer: &mut [u8]) -> Result<()> {
        let shared = self.shared;
        let first = u64::from(chunk) * self.root.chunk_len / WORD_LEN;
        if !planted!("absent_chunk_copied") {
            self.core.load(first, 1)?;
        }
        let clock = shared.clock.now();
        let before = self.before(clock);
        if before < clock {
            // A commit is writing back, perhaps to words that were copied already.
            self.core.chunks.put_back(chunk as usize, self.root.checkpoint);
        }
        self.core.region.copy(first as usize, buffer);
        // The LSN of a commit whose words are in the copy must be visible below (E4.2): pairs with the write-back's
        // release.
        fence(Ordering::Acquire);
        let after = shared.clock.now();
        let data_crc = crc32c::crc32c(buffer);
        let which = (self.root.checkpoint & 1) as usize;
        self.files.chunk_file(&self.root, self.of_heap.files[which]).write_data(chunk, buffer)?;
        self.of_heap.checksums[which][chunk as usize] = Some(data_crc);
        self.root.reflects = self.root.reflects.max(after);
        let (heap, checkpoint) = (self.root.number, self.root.checkpoint);
        self.copied.push(ChunkHeader { heap, chunk, checkpoint, before, after, data_crc });
        Ok(())
    }

    /// Returns an LSN up to which every commit is in the words (E4.1). `clock` was read before.
    fn before(&self, clock: u64) -> u64 {
        #[cfg(feature = "planted-faults")]
        if self.shared.options.fault == Some(crate::Fault::ChunkBeforeTooNew) {
            return clock;
        }
        if planted!("write_back_not_awaited") { clock } else { self.shared.slots.written_back(clock) }
    }
}
