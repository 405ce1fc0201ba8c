//! Figures of durable transactional memory (Hathi, Figure 3): setup of their heaps, and their runs.

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

/// A heap, and its log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setting {
    heap_bytes: u64,
    /// Whether the heap has an account of blocks.
    blocks: bool,
    /// `None` if nothing is logged.
    log: Option<LogSetting>,
    choices: Choices,
}

/// Log of a store, as far as figures differ in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LogSetting {
    partitions: u16,
    limit_bytes: u64,
    /// `None` if no checkpoint is taken during the measurement.
    checkpoint_every_bytes: Option<u64>,
    /// Log space prepared before the measurement, as in a store in steady state, which recycles its segments.
    ready_bytes: u64,
}

/// Options of the memory that differ from the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choices {
    encounter_time: bool,
    stripes_log2: Option<u32>,
    stripe_words_log2: Option<u32>,
    plain_pages: bool,
    fixed_snapshots: bool,
}

impl Setting {
    /// Returns the same setting without a log.
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

/// Log of a figure's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logging {
    /// A log of one partition.
    One,
    /// One partition per thread, up to the useful maximum.
    Many,
}

/// With more partitions a commit waits for more writes, and no write becomes larger.
const PARTITIONS_MAX: u32 = 4;

/// Label of points without a log, beside [`Logging::name`].
const UNLOGGED: &str = "none";

impl Logging {
    const ALL: [Logging; 2] = [Logging::One, Logging::Many];

    fn name(self) -> &'static str {
        match self {
            Logging::One => "async-1",
            Logging::Many => "async-n",
        }
    }

    /// Returns the number of partitions of the log; `None` if the same is measured under another name.
    fn partitions(self, threads: u32) -> Option<u16> {
        match self {
            Logging::One => Some(1),
            Logging::Many if threads > 1 => Some(threads.min(PARTITIONS_MAX) as u16),
            Logging::Many => None,
        }
    }

    /// Returns the thread counts that share a store, with that store's partitions.
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

/// A prepared heap.
struct Place {
    store: Option<Store>,
    memory: Memory,
    heap: Heap,
}

impl Place {
    /// Creates a heap without records in the log; all of it was touched, unless it has an account of blocks.
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

    /// Takes a checkpoint, so that the log is empty when the measurement begins.
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
