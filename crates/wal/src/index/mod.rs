//! An index of the records of an archive by keys, for example the pages that they change (drawn in docs/formats/archive.md).
//!
//! A run is a file with the entries of all records in one range of LSNs, sorted by key. Runs of the same level are merged, as
//! in a log-structured merge tree, so that a look-up reads a block of few files. After Graefe and Kuno, "Definition, detection, and
//! recovery of single-page failures, a fourth class of database failures" (PVLDB 2012).
//!
//! 1. The ranges of the runs are adjacent, and begin with the archive; the entries after the newest run are in memory.
//! 2. An entry is made when its record, and all before it, are archived: it never becomes invalid.
//! 3. A run is complete if its header is: the header is written when the rest is durable, and its checksum covers it.
//! 4. The archive has everything that the index has: a run that is missing or damaged is dropped with all later ones, and made again.

mod merge;
mod run;

use cedrat_media::Media;
use cedrat_sync::{Arc, planted};

use crate::archive::ArchivedLog;
use crate::checksum::StoreId;
use crate::index::merge::Merged;
pub use crate::index::run::INDEX_DIRECTORY;
use crate::index::run::{Run, RunHeader};
use crate::{LogError, LogOffset, Lsn, PartitionId, Position, RecordRef};

/// The least average number of bytes of the log for an entry: with more entries, a run is made earlier. It bounds their memory.
const LOG_BYTES_PER_ENTRY: u64 = 64;

/// The number of runs that are merged into one.
const FANOUT: usize = 8;

/// The highest level. Its runs are not merged any more, which bounds the time of a merge.
const LEVEL_MAX: u32 = 2;

/// Adds the keys of a record to a list.
pub type KeysOf<'k> = dyn FnMut(&RecordRef<'_>, &mut Vec<u64>) -> Result<(), LogError> + 'k;

/// A record with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) key: u64,
    /// The partition of the record in the upper 16 bits, its offset in the others.
    packed: u64,
}

const OFFSET_BITS: u32 = 48;

impl Entry {
    pub(crate) fn new(key: u64, at: Position) -> Entry {
        Entry { key, packed: u64::from(at.partition.0) << OFFSET_BITS | at.offset.get() }
    }

    pub(crate) fn position(self) -> Position {
        let partition = PartitionId((self.packed >> OFFSET_BITS) as u16);
        Position { partition, offset: LogOffset::new(self.packed & ((1 << OFFSET_BITS) - 1)) }
    }
}

/// The index of an archive, to which entries are added.
#[derive(Debug)]
pub struct RecordIndex {
    media: Arc<dyn Media>,
    store: StoreId,
    /// The oldest first.
    runs: Vec<Run>,
    run_len: u64,
    /// The entries after the newest run.
    tail: Vec<Entry>,
    /// The number of bytes of the log after the newest run.
    tail_log_bytes: u64,
    /// The LSN after which the oldest entries are.
    begins_after: Lsn,
    indexed: Indexed,
    /// The number of the next file.
    next: u32,
}

/// The part of an archive that is indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Indexed {
    /// All records up to this LSN are indexed.
    pub(crate) up_to: Lsn,
    /// For each partition, the first block that may have later records.
    pub(crate) offsets: Vec<LogOffset>,
}

impl Indexed {
    /// Advances to the beginning of the archive, which may have forgotten records that were not indexed yet.
    fn begin_with(&mut self, begin: Indexed) {
        if planted!("forgotten_record_indexed") {
            return;
        }
        self.up_to = self.up_to.max(begin.up_to);
        self.offsets.iter_mut().zip(begin.offsets).for_each(|(offset, begin)| *offset = begin.max(*offset));
    }
}

impl RecordIndex {
    /// Opens the index of an archive. It may lag behind the archive, or be empty. Each `run_len` bytes of the log become a run; until
    /// then their entries are in memory, and take at most a quarter of that.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn open(media: &Arc<dyn Media>, archived: &ArchivedLog, run_len: u64) -> Result<RecordIndex, LogError> {
        let (mut found, unusable, next) = run::find(media, &archived.store(), archived.partitions())?;
        let mut index = RecordIndex {
            media: Arc::clone(media),
            store: archived.store(),
            runs: Vec::new(),
            run_len,
            tail: Vec::new(),
            tail_log_bytes: 0,
            begins_after: archived.nothing_indexed().up_to,
            indexed: archived.nothing_indexed(),
            next,
        };
        for name in unusable {
            index.remove(&name)?;
        }
        // Of runs that begin together the longest has the entries of the others: they were merged into it.
        found.sort_by_key(|run| (run.header.after, std::cmp::Reverse(run.header.indexed.up_to)));
        for run in found {
            let follows = match index.runs.last() {
                Some(last) => run.header.after == last.header.indexed.up_to,
                None => run.header.after <= index.indexed.up_to && run.header.indexed.up_to > index.indexed.up_to,
            };
            if follows && run.header.indexed.up_to <= archived.up_to() {
                index.indexed = run.header.indexed.clone();
                index.runs.push(run);
            } else {
                index.remove(&run.name)?;
            }
        }
        Ok(index)
    }

    /// Returns the LSN up to which all records are indexed.
    pub fn up_to(&self) -> Lsn {
        self.indexed.up_to
    }

    /// Indexes all records that were archived since.
    ///
    /// # Errors
    /// Those of `keys`. [`LogError::Damaged`], of the archive; [`LogError::Io`]: the index is as it was, or has a part of these records.
    pub fn catch_up(&mut self, archived: &ArchivedLog, keys: &mut KeysOf<'_>) -> Result<(), LogError> {
        while self.catch_up_a_piece(archived, keys)? {}
        Ok(())
    }

    /// Indexes a piece of what was archived since, of about a run, and forgets what the archive has forgotten. Returns whether there is
    /// more.
    ///
    /// # Errors
    /// As [`catch_up`](RecordIndex::catch_up).
    pub fn catch_up_a_piece(&mut self, archived: &ArchivedLog, keys: &mut KeysOf<'_>) -> Result<bool, LogError> {
        while let Some(oldest) = self.runs.first().filter(|run| run.header.indexed.up_to < archived.first()) {
            self.remove(&oldest.name)?;
            self.begins_after = oldest.header.indexed.up_to;
            self.runs.remove(0);
        }
        self.indexed.begin_with(archived.nothing_indexed());
        if self.indexed.up_to < archived.up_to() {
            // An attempt that has failed may have left a run: no more of them are kept in memory.
            self.write_if_long()?;
            self.index_some(archived, keys)?;
            match self.write_if_long() {
                // All entries are in memory.
                Err(LogError::Io { .. })
                    if self.indexed.up_to == archived.up_to() && !planted!("full_index_refuses_page") => {}
                written => written?,
            }
        }
        Ok(self.indexed.up_to < archived.up_to())
    }

    /// Makes a run of the entries in memory, if they are enough for one.
    fn write_if_long(&mut self) -> Result<(), LogError> {
        if self.tail.len() as u64 * LOG_BYTES_PER_ENTRY >= self.run_len || self.tail_log_bytes >= self.run_len {
            self.write_tail()?;
            self.merge()?;
        }
        Ok(())
    }

    /// Indexes the records up to an LSN: of all that were archived, or of about `run_len` bytes.
    fn index_some(&mut self, archived: &ArchivedLog, keys: &mut KeysOf<'_>) -> Result<(), LogError> {
        let after = self.indexed.up_to;
        // A limit at or before `after` has only dead records.
        let limit = archived.lsn_after(&self.indexed.offsets, self.run_len)?;
        let up_to = if limit > after { limit } else { archived.up_to() };
        let known = self.tail.len();
        let mut offsets = self.indexed.offsets.clone();
        let mut of_record = Vec::new();
        for (index, offset) in offsets.iter_mut().enumerate() {
            let tail = &mut self.tail;
            let mut add = |record: &RecordRef<'_>| {
                of_record.clear();
                keys(record, &mut of_record)?;
                tail.extend(of_record.iter().map(|&key| Entry::new(key, record.position)));
                Ok(())
            };
            let walked = archived.visit(PartitionId(index as u16), *offset, after.next()..up_to.next(), &mut add);
            *offset = walked.inspect_err(|_| self.tail.truncate(known))?;
        }
        let walked = offsets.iter().zip(&self.indexed.offsets).map(|(end, &begin)| end.since(begin).0);
        self.tail_log_bytes += walked.sum::<u64>();
        self.indexed = Indexed { up_to, offsets };
        Ok(())
    }

    /// Makes a run of the entries in memory.
    fn write_tail(&mut self) -> Result<(), LogError> {
        self.tail.sort_unstable();
        let after = self.runs.last().map_or(self.begins_after, |run| run.header.indexed.up_to);
        let header = RunHeader { level: 0, after, indexed: self.indexed.clone() };
        let run = self.write_run(header, &mut self.tail.iter().map(|&entry| Ok(entry)))?;
        self.add(run);
        self.tail.clear();
        self.tail_log_bytes = 0;
        Ok(())
    }

    /// Merges the newest runs, as long as [`FANOUT`] of them have the same level.
    fn merge(&mut self) -> Result<(), LogError> {
        while let Some(first) = self.runs.len().checked_sub(FANOUT)
            && let runs = &self.runs[first..]
            && let level = runs[0].header.level
            && level < LEVEL_MAX
            && runs.iter().all(|run| run.header.level == level)
        {
            let newest = &runs[FANOUT - 1].header;
            let header = RunHeader { level: level + 1, after: runs[0].header.after, indexed: newest.indexed.clone() };
            let merged = self.write_run(header, &mut Merged::new(&*self.media, runs)?)?;
            let old: Vec<_> = self.runs.drain(first..).map(|run| run.name).collect();
            self.add(merged);
            old.iter().try_for_each(|name| self.remove(name))?;
        }
        Ok(())
    }

    fn write_run(
        &self,
        header: RunHeader,
        entries: &mut dyn Iterator<Item = Result<Entry, LogError>>,
    ) -> Result<Run, LogError> {
        Run::write(&self.media, self.next, &self.store, header, entries)
    }

    fn add(&mut self, run: Run) {
        self.next += 1;
        self.runs.push(run);
    }

    fn remove(&self, name: &str) -> Result<(), LogError> {
        self.media.remove(name).map_err(|error| LogError::io(format!("removing {name}"), error))
    }

    /// Returns the number of layers: 0 are the newest entries, the last one has the oldest.
    pub fn layers(&self) -> usize {
        self.runs.len() + 1
    }

    /// Returns the LSN after which the records of a layer are.
    pub fn after(&self, layer: usize) -> Lsn {
        let run = self.runs.len() - layer;
        run.checked_sub(1).map_or(self.begins_after, |older| self.runs[older].header.indexed.up_to)
    }

    /// Returns the positions of the records of a layer that have a key, in the order of partitions and offsets.
    ///
    /// # Errors
    /// [`LogError::Damaged`]: then [`rebuild`](RecordIndex::rebuild) the index. [`LogError::Io`].
    pub fn positions(&self, layer: usize, key: u64) -> Result<Vec<Position>, LogError> {
        let mut found = match layer.checked_sub(1) {
            None => self.tail.iter().filter(|entry| entry.key == key).copied().collect(),
            Some(older) => self.runs[self.runs.len() - 1 - older].find(&*self.media, key)?,
        };
        found.sort_unstable();
        Ok(found.into_iter().map(Entry::position).collect())
    }

    /// Whether the path of a file, from an error, is that of a run.
    pub fn is_file(&self, path: &str) -> bool {
        self.runs.iter().any(|run| run.path(&*self.media) == path)
    }

    /// Drops all entries: the next [`catch_up`](RecordIndex::catch_up) reads the whole archive.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn rebuild(&mut self, archived: &ArchivedLog) -> Result<(), LogError> {
        self.tail.clear();
        self.tail_log_bytes = 0;
        self.indexed = archived.nothing_indexed();
        self.begins_after = self.indexed.up_to;
        let runs = std::mem::take(&mut self.runs);
        // The newest ones first: those that are left after a failure begin with the archive.
        runs.iter().rev().try_for_each(|run| self.remove(&run.name))
    }
}
