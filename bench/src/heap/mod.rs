//! The figures of durable transactional memory (Hathi, Figure 3): where their heaps lie, and how they are run.

use std::path::Path;

use cedrat::heap::{Commit, Heap, HeapOptions, Locking, Memory, MemoryOptions};
use cedrat::wal::ByteLen;
use cedrat::{Options, Store};
use serde::{Deserialize, Serialize};

use crate::systems::Result;

pub(crate) use mode::Mode;

pub(crate) mod choices;
mod lag;
mod mode;
pub(crate) mod run;
pub(crate) mod sync;
mod tables;
pub(crate) mod vacation;
pub(crate) mod words;
mod writes;

/// A heap, and the log beneath it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setting {
    heap_bytes: u64,
    /// Whether the heap keeps account of blocks.
    blocks: bool,
    /// `None`: nothing is logged.
    log: Option<LogSetting>,
    choices: Choices,
}

/// A store's log, as far as figures differ in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LogSetting {
    partitions: u16,
    limit_bytes: u64,
    /// `None`: none while the clock runs.
    checkpoint_every_bytes: Option<u64>,
    /// Log made ready before the clock runs, as in a store that has been running for a while: it recycles its segments.
    ready_bytes: u64,
}

/// Choices of the memory's that differ from its defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choices {
    encounter_time: bool,
    stripes_log2: Option<u32>,
    stripe_words_log2: Option<u32>,
    plain_pages: bool,
    fixed_snapshots: bool,
}

impl Setting {
    /// The same heap with nothing logged.
    fn unlogged(&self) -> Setting {
        Setting { log: None, ..self.clone() }
    }
}

impl Choices {
    fn options(&self) -> MemoryOptions {
        let mut options = MemoryOptions {
            locking: if self.encounter_time { Locking::EncounterTime } else { Locking::CommitTime },
            huge_pages: !self.plain_pages,
            snapshot_extension: !self.fixed_snapshots,
            ..MemoryOptions::default()
        };
        options.stripes_log2 = self.stripes_log2.unwrap_or(options.stripes_log2);
        options.stripe_words_log2 = self.stripe_words_log2.unwrap_or(options.stripe_words_log2);
        options
    }
}

/// The log that a figure's transactions write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logging {
    /// A log of one partition.
    One,
    /// A partition for each thread, as far as that makes sense.
    Many,
}

/// More partitions than this make a commit wait for more writes, and no write larger.
const PARTITIONS_MAX: u32 = 4;

/// How points without a log are labelled, beside [`Logging::name`].
const UNLOGGED: &str = "none";

impl Logging {
    const ALL: [Logging; 2] = [Logging::One, Logging::Many];

    fn name(self) -> &'static str {
        match self {
            Logging::One => "async-1",
            Logging::Many => "async-n",
        }
    }

    /// How many partitions the log has; `None` where the same is measured under another name.
    fn partitions(self, threads: u32) -> Option<u16> {
        match self {
            Logging::One => Some(1),
            Logging::Many if threads > 1 => Some(threads.min(PARTITIONS_MAX) as u16),
            Logging::Many => None,
        }
    }

    /// The numbers of threads that share a store, with that store's partitions.
    fn groups(self, threads: &[u32]) -> Vec<(u16, Vec<u32>)> {
        let mut groups: Vec<(u16, Vec<u32>)> = Vec::new();
        for &threads in threads {
            let Some(partitions) = self.partitions(threads) else { continue };
            match groups.iter_mut().find(|group| group.0 == partitions) {
                Some(group) => group.1.push(threads),
                None => groups.push((partitions, vec![threads])),
            }
        }
        groups
    }
}

/// A heap that is ready.
struct Place {
    store: Option<Store>,
    memory: Memory,
    heap: Heap,
}

impl Place {
    /// Makes a heap with nothing of it in the log; all of it was touched, unless it keeps account of blocks.
    fn make(dir: &Path, setting: &Setting) -> Result<Place> {
        let store = setting.log.as_ref().map(|log| make_store(dir, log, setting.choices.options())).transpose()?;
        let memory = match &store {
            Some(store) => store.memory(),
            None => Memory::volatile(setting.choices.options())?,
        };
        let options = HeapOptions { blocks: setting.blocks, ..HeapOptions::raw(setting.heap_bytes) };
        let place = Place { heap: memory.create_heap("words", &options)?, store, memory };
        if !setting.blocks {
            place.touch()?;
        }
        place.settle()?;
        Ok(place)
    }

    /// Writes to each page.
    fn touch(&self) -> Result<()> {
        let mut session = self.memory.session()?;
        for offset in (0..self.heap.size()).step_by(4096) {
            session.run(Commit::Async, |tx| tx.write(&self.heap, offset, 1))?;
        }
        Ok(())
    }

    /// Takes a checkpoint, so that the log is empty when the clock begins to run.
    fn settle(&self) -> Result<()> {
        if let Some(store) = &self.store {
            store.checkpoint()?;
        }
        Ok(())
    }
}

fn make_store(dir: &Path, log: &LogSetting, memory: MemoryOptions) -> Result<Store> {
    let options = Options {
        pool_bytes: 16 << 20,
        partitions: log.partitions,
        log_limit_bytes: log.limit_bytes,
        checkpoint_every_bytes: log.checkpoint_every_bytes.unwrap_or(u64::MAX),
        memory,
        ..Options::default()
    };
    let store = cedrat::open_with(dir, options, cedrat::registry())?;
    drop(store.log().reserve(ByteLen(log.ready_bytes), ByteLen(0))?);
    Ok(store)
}
