//! Heap writes of a prepared transaction, between its prepare record and its outcome (E9).
//!
//! The transaction holds its stripes, and its words are only in the log. A crash loses the locks; [`Joined::restored`]
//! takes them again, with all that the transaction knew of blocks: it then ends like a transaction that never saw a crash.
//!
//! Format in the log, in `postcard` encoding: the writes, encoded as in a commit (`redo`), then [`LoggedBlock`]s and
//! [`LoggedBatch`]es.

use std::collections::HashMap;

use cedrat_sync::{Arc, planted};
use cedrat_wal::{Lsn, TxnId};
use serde::{Deserialize, Serialize};

use crate::blocks::{Batch, BlockChange, Change};
use crate::error::{Error, Result};
use crate::heap::Core;
use crate::joined::Joined;
use crate::load::FoundHeaps;
use crate::memory::Memory;
use crate::options::{MemoryOptions, STRIPE_WORDS_LOG2_MAX, STRIPES_LOG2_MAX};
use crate::redo::Runs;
use crate::stripes::Stripes;
use crate::tx::Tx;

/// A block that is allocated or freed, or a span in which blocks are carved.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct LoggedBlock {
    heap: u32,
    first: u64,
    words: u64,
    kind: LoggedKind,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum LoggedKind {
    Allocated { carved: bool },
    Freed,
    Carved,
}

/// A span of blocks of one size in which blocks are carved.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct LoggedBatch {
    heap: u32,
    stride: u64,
    span: u64,
    began: u64,
    fresh: bool,
    next: u64,
    end: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Logged<'a> {
    #[serde(borrow)]
    words: &'a [u8],
    blocks: Vec<LoggedBlock>,
    batches: Vec<LoggedBatch>,
}

/// Maximum number of bytes that a block, or a batch, takes in the log.
const LOGGED_LEN_MAX: u64 = 64;

/// Heap writes of a prepared transaction, as logged.
#[derive(Debug)]
pub struct PreparedWords {
    txn: TxnId,
    /// Heap, word, value.
    words: Vec<(u32, u64, u64)>,
    blocks: Vec<LoggedBlock>,
    batches: Vec<LoggedBatch>,
}

impl Joined {
    /// Returns the upper bound of the log space for the bytes of [`Joined::put_prepared`].
    pub fn prepared_len_max(&mut self, part_len_max: usize) -> u64 {
        let tx = self.tx();
        let blocks = (tx.this.blocks.len() + tx.this.batches.len()) as u64;
        tx.log_space_wanted(part_len_max) + (1 + blocks) * LOGGED_LEN_MAX
    }

    /// Encodes the writes for the prepare record, after [`Joined::prepare`].
    pub fn put_prepared(&mut self, bytes: &mut Vec<u8>) {
        let words: Vec<u8> = self.parts().chain([self.last_part()]).flatten().copied().collect();
        let tx = self.tx();
        let block = |change: &BlockChange| LoggedBlock {
            heap: change.heap,
            first: change.first,
            words: change.words,
            kind: match change.kind {
                // The content that filled it is among the words.
                Change::Allocated { carved } | Change::Filled { carved } => LoggedKind::Allocated { carved },
                Change::Freed => LoggedKind::Freed,
                Change::Carved => LoggedKind::Carved,
            },
        };
        let batch = |batch: &Batch| {
            let Batch { heap, size, span, began, fresh, next, end } = *batch;
            let stride = tx.this.heap(heap).stride_of(size);
            LoggedBatch { heap, stride, span, began, fresh, next, end }
        };
        let blocks = tx.this.blocks.iter().map(block).collect();
        let batches = tx.this.batches.iter().map(batch).collect();
        let logged = Logged { words: &words, blocks, batches };
        bytes.extend(postcard::to_allocvec(&logged).expect("numbers and bytes can be written"));
    }

    /// Keeps the locks; the prepare record is in the log. From now on a transaction that meets one of them fails with `txn`
    /// instead of waiting.
    pub fn hold(&mut self, txn: TxnId) {
        let tx = self.tx();
        // The transaction reads no more: neither the reuse of blocks nor a checkpoint waits for it.
        tx.slot().committed();
        tx.slot().end();
        tx.slot().holds(txn.0);
    }

    /// Announces that the commit record of the held transaction, and its parts, are about to be logged.
    pub fn commits(&mut self) {
        let tx = self.tx();
        tx.slot().commits_after(tx.shared.clock.now());
    }

    /// Restores a transaction that was prepared before the store was opened, with the locks that it held. No other
    /// transaction runs yet.
    ///
    /// # Errors
    /// [`Error::Limit`] if there are too many.
    pub fn restored(memory: &Memory, prepared: PreparedWords) -> Result<Joined> {
        let mut joined = Joined::begin(memory)?;
        let shared = memory.shared();
        let cores = shared.heaps.read().clone();
        let core = |heap: u32| cores.iter().find(|core| core.number == heap);
        let mut tx = joined.tx();
        tx.restore_blocks(&prepared, core)?;
        for &(heap, word, value) in &prepared.words {
            if let Some(core) = core(heap) {
                tx.write_word(core, word, value).map_err(crate::Interrupt::into_error)?;
            }
        }
        let part_len_max = shared.clock.log().map_or(usize::MAX, cedrat_wal::Log::body_len_max);
        if !planted!("in_doubt_words_not_locked") {
            tx.prepare(part_len_max).map_err(crate::Interrupt::into_error)?;
        }
        joined.hold(prepared.txn);
        Ok(joined)
    }
}

impl Tx<'_> {
    fn restore_blocks<'c>(
        &mut self,
        prepared: &PreparedWords,
        core: impl Fn(u32) -> Option<&'c Arc<Core>>,
    ) -> Result<()> {
        let arena = self.this.arena;
        for logged in &prepared.batches {
            let Some(core) = core(logged.heap) else { continue };
            self.this.will_write(core);
            let LoggedBatch { heap, stride, span, began, fresh, next, end } = *logged;
            if let Some(size) = core.carves_again(stride, span, fresh, arena)? {
                self.this.batches.push(Batch { heap, size, span, began, fresh, next, end });
            }
        }
        for logged in &prepared.blocks {
            let Some(core) = core(logged.heap) else { continue };
            self.this.will_write(core);
            let LoggedBlock { heap, first, words, kind } = *logged;
            let kind = match kind {
                LoggedKind::Allocated { carved } => Change::Allocated { carved },
                LoggedKind::Freed => Change::Freed,
                LoggedKind::Carved => Change::Carved,
            };
            let change = BlockChange { heap, first, words, used: words, kind };
            core.changes_again(&change, arena)?;
            self.this.blocks.push(change);
        }
        Ok(())
    }
}

/// Prepared transactions that were found, and the stripes that they own.
#[derive(Debug, Default)]
pub(crate) struct FoundPrepared {
    count: u32,
    words: Vec<OwnedWords>,
    owners: HashMap<u32, TxnId>,
}

/// Words of a heap that a prepared transaction has locked.
#[derive(Clone, Copy, Debug)]
struct OwnedWords {
    txn: TxnId,
    salt: u64,
    first: u64,
    words: u64,
}

impl OwnedWords {
    fn stripes(self, options: &MemoryOptions) -> impl Iterator<Item = u32> {
        Stripes::of_range(options.stripes_log2, options.stripe_words_log2, self.salt, self.first, self.words)
    }
}

impl FoundPrepared {
    /// Adds the stripes of words; returns `false` if another transaction has one of them.
    fn add(&mut self, words: OwnedWords, options: &MemoryOptions) -> bool {
        words.stripes(options).all(|stripe| *self.owners.entry(stripe).or_insert(words.txn) == words.txn)
    }

    /// Returns whether no two transactions have the same stripe in this table.
    fn fits(&mut self, options: &MemoryOptions) -> bool {
        self.owners.clear();
        let all = std::mem::take(&mut self.words);
        let fits = all.iter().all(|&words| self.add(words, options));
        self.words = all;
        fits
    }
}

impl FoundHeaps {
    /// Decodes the heap writes of a prepared transaction without an outcome: the bytes of [`Joined::put_prepared`], from
    /// the records up to `lsn`.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the bytes are invalid for the existing heaps. [`Error::Options`] if no table of locks is fine enough
    /// for all such transactions, or there are more of them than a memory can have sessions.
    pub fn prepared(&mut self, txn: TxnId, lsn: Lsn, bytes: &[u8]) -> Result<PreparedWords> {
        let bad = |what: &str| Error::damaged("the log", 0, format!("the prepare record with LSN {lsn}: {what}"));
        let Ok((Logged { words, blocks, batches }, [])) = postcard::take_from_bytes::<Logged<'_>>(bytes) else {
            return Err(bad("its part for heaps is truncated"));
        };
        let mut prepared = PreparedWords { txn, words: Vec::new(), blocks: Vec::new(), batches: Vec::new() };
        for run in Runs::of(words) {
            let run = run.map_err(|corrupt| bad(corrupt.0))?;
            let (values, _) = run.values.as_chunks();
            let Some(core) = self.core_with(run.heap, run.first, values.len() as u64).map_err(bad)? else { continue };
            for (word, value) in (run.first..).zip(values) {
                self.locks(core.salt, word, 1, txn)?;
                prepared.words.push((run.heap, word, u64::from_le_bytes(*value)));
            }
        }
        for block in blocks {
            let Some(core) = self.core_with(block.heap, block.first, 1).map_err(bad)? else { continue };
            if !core.has_blocks() {
                return Err(bad("it has allocated or freed blocks in a heap without blocks"));
            }
            if matches!(block.kind, LoggedKind::Freed) {
                self.core_with(block.heap, block.first, block.words).map_err(bad)?;
                self.locks(core.salt, block.first, block.words, txn)?;
            }
            prepared.blocks.push(block);
        }
        for batch in batches {
            let Some(core) = self.core_with(batch.heap, 0, 1).map_err(bad)? else { continue };
            if !core.may_carve(batch.stride, batch.span) {
                return Err(bad("it has carved blocks outside of all spans"));
            }
            prepared.batches.push(batch);
        }
        // Of two programs that open a store, the second need not know the options of the first.
        self.found_prepared.count += 1;
        self.options.sessions_max = self.options.sessions_max.max(self.found_prepared.count);
        self.options.check()?;
        Ok(prepared)
    }

    /// Returns a heap that has these words; `None` if it was dropped since.
    fn core_with(&self, heap: u32, first: u64, words: u64) -> Result<Option<Arc<Core>>, &'static str> {
        match self.core(heap) {
            Some(core) if first.checked_add(words).is_some_and(|end| end <= core.words()) => Ok(Some(Arc::clone(core))),
            Some(_) => Err("it writes beyond the end of a heap"),
            None if self.had(heap) => Ok(None),
            None => Err("no heap ever had such a number"),
        }
    }

    /// Records the stripes of words as owned by a transaction. If another one has one of them, the memory gets more stripes, or
    /// smaller ones: as many as it had when both prepared suffice.
    fn locks(&mut self, salt: u64, first: u64, words: u64, txn: TxnId) -> Result<()> {
        let words = OwnedWords { txn, salt, first, words };
        self.found_prepared.words.push(words);
        if self.found_prepared.add(words, &self.options) {
            return Ok(());
        }
        let given = &self.options;
        let sizes = [given.stripe_words_log2].into_iter().chain(0..=STRIPE_WORDS_LOG2_MAX);
        let tables = sizes.flat_map(|size| (given.stripes_log2..=STRIPES_LOG2_MAX).map(move |count| (count, size)));
        for (stripes_log2, stripe_words_log2) in tables.filter(|_| !planted!("stripes_as_given")) {
            let finer = MemoryOptions { stripes_log2, stripe_words_log2, ..given.clone() };
            if self.found_prepared.fits(&finer) {
                self.options = finer;
                return Ok(());
            }
        }
        let what = "two transactions in doubt would share a lock; choose as many as when they prepared";
        Err(Error::Options { option: "stripes_log2", what: what.into() })
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use cedrat_media::{Media, SimDisk};
    use cedrat_sync::atomic::AtomicU64;
    use cedrat_wal::{ByteLen, Kind, Log, LogOptions, PartitionId, RecordHead};

    use super::*;
    use crate::blocks::{all_known, forget_known};
    use crate::region::WORD_LEN;
    use crate::{Commit, Heap, HeapOptions, Held, Interrupt};

    const TXN: TxnId = TxnId(77);

    fn options() -> MemoryOptions {
        MemoryOptions { stripes_log2: 17, ..MemoryOptions::small() }
    }

    fn found(media: &Arc<dyn Media>, log: &Log, options: &MemoryOptions) -> FoundHeaps {
        FoundHeaps::load(media, log.control().store, options, 0, 0).expect("it makes sense")
    }

    fn open(found: FoundHeaps, log: &Log) -> (Memory, Heap) {
        let memory = found.open(log.clone(), Arc::new(AtomicU64::new(1000))).expect("it opens");
        let heap = memory.heap("blocks").expect("it was made");
        (memory, heap)
    }

    /// Creates a heap whose account of blocks was used heavily, and some of its blocks.
    fn used() -> (Arc<dyn Media>, Log, Memory, Heap, Vec<u64>) {
        used_with(&options())
    }

    fn used_with(of_memory: &MemoryOptions) -> (Arc<dyn Media>, Log, Memory, Heap, Vec<u64>) {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
        let memory = found(&media, &log, of_memory).open(log.clone(), Arc::new(AtomicU64::new(1))).expect("it opens");
        let options = HeapOptions { chunk_len: 4096, blocks: true, ..HeapOptions::raw(2 << 20) };
        let heap = memory.create_heap("blocks", &options).expect("a heap");
        let mut blocks = Vec::new();
        for round in 0..60_u64 {
            let len = if round % 9 == 0 { 20_000 } else { 16 + round * 5 };
            blocks.push(heap.atomically(|tx| tx.allocate(&heap, len)).expect("room"));
            if round % 3 == 0 {
                let gone = blocks.swap_remove(blocks.len() / 2);
                heap.atomically(|tx| tx.free(&heap, gone)).expect("it is there");
            }
        }
        memory.checkpoint().expect("the disk is whole");
        (media, log, memory, heap, blocks)
    }

    /// Allocates and frees blocks of all kinds; each new one begins with `mark`.
    fn change(tx: &mut Tx<'_>, heap: &Heap, gone: &[u64], mark: u64) -> Result<Vec<u64>, Interrupt> {
        gone.iter().try_for_each(|&block| tx.free(heap, block))?;
        let mut new = Vec::new();
        // So many of one size that a span is carved further.
        for len in [300, 1000, 1000, 20_000].into_iter().chain([40; 100]) {
            let block = tx.allocate(heap, len)?;
            tx.write(heap, block, mark)?;
            new.push(block);
        }
        let filled = tx.allocate_filled(heap, 100)?;
        tx.fill(heap, filled, &mark.to_le_bytes())?;
        new.push(filled);
        Ok(new)
    }

    /// E9.6, E17.3: after reopening, a prepared transaction has the blocks that it had, and other transactions work without
    /// them; at its end the cached free blocks match the words.
    #[test]
    fn reopening_keeps_blocks_of_prepared_transaction() {
        for commits in [false, true] {
            let (media, log, memory, heap, blocks) = used();
            let gone = [blocks[1], blocks[5], blocks[9], blocks[20]];
            let mut joined = Joined::begin(&memory).expect("a seat");
            let new = joined.run(|tx| change(tx, &heap, &gone, 4711)).expect("no other transaction runs");
            let part_len_max = log.body_len_max();
            let len_max = joined.prepared_len_max(part_len_max);
            joined.prepare(part_len_max).expect("no other transaction runs");
            let mut bytes = Vec::new();
            joined.put_prepared(&mut bytes);
            assert!(bytes.len() as u64 <= len_max);
            drop((joined, heap, memory));

            let mut found = found(&media, &log, &options());
            let words = found.prepared(TXN, Lsn::new(1), &bytes).expect("it makes sense");
            let (memory, heap) = open(found, &log);
            let mut joined = Joined::restored(&memory, words).expect("a seat");
            assert!(matches!(heap.atomically(|tx| tx.read(&heap, new[0])), Err(Error::InDoubt { txn: TXN })), "E9.9");
            assert!(heap.atomically(|tx| tx.free(&heap, gone[0])).is_err());
            // Other transactions continue, where they do not meet it.
            let (mut others, mut refused) = (Vec::new(), 0);
            for round in 0..40 {
                match heap.atomically(|tx| change(tx, &heap, &[], round)) {
                    Ok(blocks) => others.extend(blocks.into_iter().map(|block| (block, round))),
                    Err(Error::InDoubt { txn: TXN }) => refused += 1,
                    Err(other) => panic!("{other}"),
                }
            }
            assert!(others.iter().all(|(block, _)| !new.contains(block) && !gone.contains(block)), "E9.6");
            assert!(!others.is_empty() && refused < 40, "{refused} were refused");
            if commits {
                joined.commits();
                let mut room = log.reserve(ByteLen(joined.log_wanted(part_len_max)), ByteLen(0)).expect("room");
                let head = RecordHead::new(Kind::COMMIT, TXN, None);
                let lsn = log.append(PartitionId(0), head, &[joined.last_part()], &mut room).lsn;
                joined.publish(lsn);
            } else {
                drop(joined);
            }
            for (block, round) in &others {
                assert_eq!(heap.atomically(|tx| tx.read(&heap, *block)).expect("it is there"), *round);
            }
            for block in &new {
                let is =
                    heap.atomically(|tx| Ok(tx.block_len(&heap, *block).is_ok())).expect("no other transaction runs");
                assert_eq!(is, commits);
                if is {
                    assert_eq!(heap.atomically(|tx| tx.read(&heap, *block)).expect("it is there"), 4711);
                }
            }
            let expected = blocks.len() + others.len() + if commits { new.len() - gone.len() } else { 0 };
            assert_eq!(heap.verify().expect("it is whole").blocks, expected as u64);
            let known = all_known(&heap);
            forget_known(&heap);
            assert_eq!(all_known(&heap), known, "E17.3");
        }
    }

    /// E9.3c: prepared with finer locks, and more of them, than the opening asks for.
    #[test]
    fn opening_takes_locks_that_branches_need() {
        for prepared_with in [options(), MemoryOptions { stripes_log2: 20, stripe_words_log2: 0, ..options() }] {
            let (media, log, memory, heap, _) = used_with(&prepared_with);
            // The first three are in one stripe of the default, the last ones in stripes of few numbers.
            let neighbours = if prepared_with.stripe_words_log2 == 0 { [8, 16] } else { [32, 64] };
            let offsets: Vec<u64> = [0].into_iter().chain(neighbours).chain([32 << 8, 32 << 12]).collect();
            let at = |offset: u64| heap.size() / 2 + offset;
            let bytes: Vec<Vec<u8>> = (offsets.iter())
                .map(|&offset| {
                    let mut joined = Joined::begin(&memory).expect("a seat");
                    joined.run(|tx| tx.write(&heap, at(offset), offset + 1)).expect("no other transaction has it");
                    joined.prepare(log.body_len_max()).expect("no other transaction has it");
                    let mut bytes = Vec::new();
                    joined.put_prepared(&mut bytes);
                    bytes
                })
                .collect();
            let offsets: Vec<u64> = offsets.iter().map(|&offset| at(offset)).collect();
            drop((heap, memory));
            for stripe_words_log2 in [0, 2, 16] {
                let coarse = MemoryOptions { stripes_log2: 4, stripe_words_log2, sessions_max: 2, ..options() };
                let mut found = found(&media, &log, &coarse);
                let number = |at: usize| TxnId(at as u64 + 1);
                let words: Vec<PreparedWords> = (bytes.iter().enumerate())
                    .map(|(at, bytes)| found.prepared(number(at), Lsn::new(1), bytes).expect("they prepared together"))
                    .collect();
                let (memory, heap) = open(found, &log);
                let mut branches: Vec<_> =
                    words.into_iter().map(|words| Joined::restored(&memory, words).expect("a seat")).collect();
                let refused = Held::new(&memory).expect_err("all sessions have branches");
                assert!(matches!(refused, Error::Limit { limit: 5, .. }), "{refused}");
                drop(branches.pop());
                for (at, &offset) in offsets.iter().enumerate().take(4) {
                    let read = heap.atomically(|tx| tx.read(&heap, offset));
                    let is_held = matches!(read, Err(Error::InDoubt { txn }) if txn == number(at));
                    assert!(is_held, "E9.3c: {read:?} at {offset}");
                }
                assert_eq!(heap.atomically(|tx| tx.read(&heap, offsets[4])).expect("it has ended"), 0);
            }
        }
    }

    /// E9.3: a free, and a write to each stripe: those that prepare beside the free share no lock with its block when they are
    /// found, also where the block is longer than the requested length.
    #[test]
    fn prepared_free_locks_its_whole_block() {
        const STRIPE_LEN: u64 = 16 * WORD_LEN;
        let options = MemoryOptions { stripes_log2: 8, stripe_words_log2: 4, ..MemoryOptions::small() };
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
        let memory = found(&media, &log, &options).open(log.clone(), Arc::new(AtomicU64::new(1))).expect("it opens");
        let heap = memory.create_heap("blocks", &HeapOptions { blocks: true, ..HeapOptions::raw(2 << 20) });
        let heap = heap.expect("a heap");
        let [freed, written] =
            [20_000, 256 * STRIPE_LEN].map(|len| heap.atomically(|tx| tx.allocate(&heap, len)).expect("room"));
        let prepared = |txn, work: &dyn Fn(&mut Tx<'_>) -> Result<(), Interrupt>| {
            let mut joined = Joined::begin(&memory)?;
            joined.run(work)?;
            joined.prepare(log.body_len_max())?;
            let mut bytes = Vec::new();
            joined.put_prepared(&mut bytes);
            joined.hold(txn);
            Ok((joined, bytes))
        };
        let (free, free_bytes) = prepared(TXN, &|tx| tx.free(&heap, freed)).expect("no other transaction runs");
        let (mut beside, mut refused) = (Vec::new(), 0);
        for offset in (written..).step_by(STRIPE_LEN as usize).take(256) {
            match prepared(TxnId(78), &|tx| tx.write(&heap, offset, 1)) {
                Ok((_, bytes)) => beside.push(bytes),
                Err(Error::InDoubt { txn: TXN }) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert!(!beside.is_empty(), "{refused} writes were refused");
        drop((free, heap, memory));
        for bytes in beside {
            let mut found = found(&media, &log, &options);
            found.prepared(TXN, Lsn::new(1), &free_bytes).expect("it is valid");
            found.prepared(TxnId(78), Lsn::new(2), &bytes).expect("they prepared together");
        }
    }

    #[test]
    fn invalid_prepared_state_is_corrupt() {
        let (media, log, memory, heap, blocks) = used();
        let mut joined = Joined::begin(&memory).expect("a seat");
        joined.run(|tx| change(tx, &heap, &blocks[..3], 1)).expect("no other transaction runs");
        joined.prepare(log.body_len_max()).expect("no other transaction runs");
        let mut bytes = Vec::new();
        joined.put_prepared(&mut bytes);
        drop((joined, heap, memory));
        let found_again = found;
        let mut found = found(&media, &log, &MemoryOptions { sessions_max: 1 << 20, ..options() });
        let mut read = |bytes: &[u8]| found.prepared(TXN, Lsn::new(1), bytes).map(drop);
        read(&bytes).expect("it makes sense");
        for len in 0..bytes.len() {
            assert!(matches!(read(&bytes[..len]), Err(Error::Damaged { .. })), "{len}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                let _ = read(&other); // any result but a panic
            }
        }
        // In a heap that was dropped since, it has no effect.
        let (memory, heap) = open(found_again(&media, &log, &options()), &log);
        drop(heap);
        memory.drop_heap("blocks").expect("it is there");
        drop(memory);
        let mut found = found_again(&media, &log, &options());
        let words = found.prepared(TXN, Lsn::new(1), &bytes).expect("it makes sense");
        let memory = found.open(log.clone(), Arc::new(AtomicU64::new(1))).expect("it opens");
        drop(Joined::restored(&memory, words).expect("a seat"));
        memory.run(Commit::Async, |_| Ok(())).expect("it goes on");
    }
}
