//! A heap: a region of words with a name (Hathi §3).

use std::{fmt, io};

use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use cedrat_sync::{Arc, planted};

use crate::blocks::Blocks;
use crate::error::{Error, Interrupt, Result};
use crate::memory::Memory;
use crate::on_demand::OnDemand;
use crate::options::Commit;
use crate::region::{Mapping, Region, WORD_LEN};
use crate::tx::Tx;
use crate::write_set::Write;

/// A durable (or, in a memory without a log, volatile) region of memory. Cheap to clone; all clones refer to the same heap.
///
/// It is read and written in transactions; see [`Heap::atomically`]. All methods may be called from any thread.
#[derive(Clone)]
pub struct Heap {
    pub(crate) memory: Memory,
    pub(crate) core: Arc<Core>,
}

/// Number of no heap.
pub(crate) const NO_HEAP: u32 = u32::MAX;

/// Another one, for the words of no heap.
pub(crate) const NO_WINDOW: u32 = NO_HEAP - 1;

/// Heaps have smaller numbers.
pub(crate) const HEAP_NUMBERS: u32 = NO_WINDOW;

/// State shared by all handles of a heap.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) region: Region,
    /// Size of the heap: words in use.
    words: AtomicU64,
    /// Size up to which the heap may grow, in words, as chosen at its creation. The region may be shorter.
    pub(crate) reserved_words: u64,
    /// First word that programs may use.
    pub(crate) first_word: u64,
    /// Separates its stripes from those of other heaps.
    pub(crate) salt: u64,
    /// Account of blocks, if the heap has one.
    pub(crate) blocks: Option<Blocks>,
    pub(crate) chunks: Chunks,
    dropped: AtomicBool,
    /// Its chunks that are not loaded yet.
    pub(crate) on_demand: Option<Box<OnDemand>>,
}

/// Chunks changed since their last copy, for each of the two generations of a heap's checkpoints.
#[derive(Debug)]
pub(crate) struct Chunks {
    pub(crate) len: u64,
    words_log2: Option<u32>,
    words: u64,
    /// Whether checkpoints read the flags.
    watched: bool,
    /// Upper bound of the number of flags that are clear, of the chunks in use. If it is 0, commits need not look at the flags.
    clear: AtomicU64,
    /// A bit for each chunk and generation: words of the even generation alternate with words of the odd one. Unwritten
    /// words cost no memory.
    flags: Region,
}

/// Number of chunks in a word of flags.
const IN_WORD: usize = u64::BITS as usize;

/// The flags by value, for loops over many words.
#[derive(Clone, Copy)]
struct Changes<'a> {
    clear: &'a AtomicU64,
    flags: &'a [[AtomicU64; 2]],
    words_log2: Option<u32>,
    words: u64,
}

impl Changes<'_> {
    #[inline(always)]
    fn of(self, word: u64) -> usize {
        self.words_log2.map_or_else(|| word / self.words, |shift| word >> shift) as usize
    }

    /// Marks a chunk of which a word is about to be written. Called after the commit's LSN was drawn; see `checkpoint`.
    #[inline(always)]
    fn changes(self, word: u64) {
        let chunk = self.of(word);
        if let Some([even, odd]) = self.flags.get(chunk / IN_WORD)
            && (even.load(Ordering::SeqCst) & odd.load(Ordering::SeqCst)) >> (chunk % IN_WORD) & 1 == 0
        {
            let bit = 1 << (chunk % IN_WORD);
            self.set(even, bit);
            if !planted!("change_missed_by_odd_copies") {
                self.set(odd, bit);
            }
        }
    }

    /// Sets a flag. It is set before it counts as set.
    #[cold]
    fn set(self, flags: &AtomicU64, bit: u64) {
        if flags.fetch_or(bit, Ordering::SeqCst) & bit == 0 {
            self.clear.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Chunks {
    fn new(len: u64, in_use: u64, reserved_words: u64) -> io::Result<Chunks> {
        let words = len / WORD_LEN;
        let count = reserved_words.div_ceil(words) as usize;
        Ok(Chunks {
            len,
            words_log2: words.is_power_of_two().then(|| words.ilog2()),
            words,
            watched: true,
            clear: AtomicU64::new(2 * in_use.div_ceil(words)),
            flags: Region::new(2 * count.div_ceil(IN_WORD), Mapping::default())?,
        })
    }

    #[inline(always)]
    fn flags(&self) -> &[[AtomicU64; 2]] {
        self.flags.words().as_chunks().0
    }

    /// Returns the place of a chunk's flag for a generation: the word, and the bit in it.
    fn flag(&self, chunk: usize, generation: u64) -> (&AtomicU64, u64) {
        (&self.flags()[chunk / IN_WORD][(generation & 1) as usize], 1 << (chunk % IN_WORD))
    }

    /// Returns the chunk of a word.
    pub(crate) fn of(&self, word: u64) -> usize {
        self.by_value().of(word)
    }

    /// Marks the chunk of a word that is about to be written.
    pub(crate) fn changes(&self, word: u64) {
        self.by_value().changes(word);
    }

    #[inline(always)]
    fn by_value(&self) -> Changes<'_> {
        Changes { clear: &self.clear, flags: self.flags(), words_log2: self.words_log2, words: self.words }
    }

    /// Returns whether the chunk was changed since this generation's copy, and clears the flag.
    pub(crate) fn take(&self, chunk: usize, generation: u64) -> bool {
        let (flags, bit) = self.flag(chunk, generation);
        // It counts as clear before it is: a commit that found no clear flag drew its LSN before this, as one that found this
        // flag set (E4.4).
        self.clear.fetch_add(1, Ordering::SeqCst);
        let was_set = flags.fetch_and(!bit, Ordering::SeqCst) & bit != 0;
        if was_set {
            // Pairs with that of `stored_plainly`: a store whose thread has still found the flag set is in the copy.
            fence(Ordering::SeqCst);
        } else {
            self.clear.fetch_sub(1, Ordering::SeqCst);
        }
        was_set
    }

    /// Sets the flag again: this generation's copy may be incomplete.
    pub(crate) fn put_back(&self, chunk: usize, generation: u64) {
        let (flags, bit) = self.flag(chunk, generation);
        self.by_value().set(flags, bit);
    }

    /// Counts the flags of chunks that come into use.
    fn grow(&self, from: u64, to: u64) {
        if planted!("grown_chunks_not_counted") {
            return;
        }
        let more = to.div_ceil(self.words).saturating_sub(from.div_ceil(self.words));
        self.clear.fetch_add(2 * more, Ordering::SeqCst);
    }

    /// Returns whether one of the first `chunks` chunks was changed since this generation's copy.
    fn any(&self, chunks: usize, generation: u64) -> bool {
        (0..chunks)
            .map(|chunk| self.flag(chunk, generation))
            .any(|(flags, bit)| flags.load(Ordering::SeqCst) & bit != 0)
    }
}

/// Address space that is left to the rest of the program, in bytes.
const LEFT: u64 = 32 << 20;

/// Reserves address space for a heap: where the system refuses `wanted` words, or what others need beside them (E12.6), a quarter
/// of what it allows, but never fewer than `needed`.
fn reserve(needed: u64, wanted: u64, mapping: Mapping) -> io::Result<Region> {
    let region = |words: u64| match usize::try_from(words) {
        Ok(words) => Region::new(words, mapping),
        Err(_) => Err(io::ErrorKind::OutOfMemory.into()),
    };
    let leaves_room =
        || Region::is_possible(mapping.beside.saturating_add(LEFT)) || planted!("heap_takes_room_of_others");
    let mut allowed = wanted;
    loop {
        match region(allowed) {
            Ok(region) if allowed <= needed => return Ok(region),
            Ok(region) if leaves_room() => match allowed == wanted {
                true => return Ok(region),
                false => break,
            },
            // Another mapping is at its address: a shorter range does not help.
            Err(error) if allowed <= needed || error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            _ => allowed = (allowed / 2).max(needed),
        }
    }
    region((allowed / 4).max(needed))
}

impl Core {
    pub(crate) fn new(
        number: u32,
        name: &str,
        words: u64,
        reserved_words: u64,
        chunk_len: u64,
        first_word: u64,
        mapping: Mapping,
    ) -> Result<Core> {
        let set_aside = |error| {
            let bytes = words * WORD_LEN;
            let doing = format!(
                "reserving {bytes} bytes of address space for heap {name} (its size; size_max would have more); raise the \
                 limit of the process (ulimit -v, vm.overcommit_memory), or reserve less for pages"
            );
            Error::io(doing, error)
        };
        let blocks = (first_word > 0).then(|| Blocks::new(reserved_words)).transpose().map_err(set_aside)?;
        let chunks = Chunks::new(chunk_len, words, reserved_words).map_err(set_aside)?;
        let region = reserve(words, reserved_words, mapping).map_err(set_aside)?;
        Ok(Core {
            number,
            name: name.to_owned(),
            region,
            words: AtomicU64::new(words),
            reserved_words,
            first_word: blocks.as_ref().map_or(0, |blocks| blocks.layout.first_word()),
            salt: u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20,
            blocks,
            chunks,
            dropped: AtomicBool::new(false),
            on_demand: None,
        })
    }

    /// Lets its chunks be loaded on demand. Replay may store words meanwhile.
    pub(crate) fn with_absent(mut self, absent: OnDemand) -> Core {
        if absent.left() > 0 {
            self.region.make_absent();
            self.on_demand = Some(Box::new(absent));
        }
        self
    }

    /// Excludes the heap from checkpoints.
    pub(crate) fn without_checkpoints(mut self) -> Core {
        self.chunks.watched = false;
        self
    }

    /// Returns the number of words in use.
    #[inline(always)]
    pub(crate) fn words(&self) -> u64 {
        self.words.load(Ordering::Acquire)
    }

    pub(crate) fn set_words(&self, words: u64) {
        self.chunks.grow(self.words(), words);
        self.words.store(words, Ordering::Release);
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// Writes back the writes of a commit to this heap; the stripes are locked, and the chunks are loaded.
    #[inline(always)]
    pub(crate) fn write_back(&self, writes: &[Write]) {
        let words = self.region.words();
        // `Release`: a reader of the value sees the stripe locked, or newer.
        let store = |write: &Write| words[write.word as usize].store(write.value, Ordering::Release);
        // Loaded after the commit's LSN was drawn, as the flags are.
        if !self.chunks.watched || self.chunks.clear.load(Ordering::SeqCst) == 0 {
            return writes.iter().for_each(store);
        }
        let changed = self.chunks.by_value();
        for write in writes {
            changed.changes(write.word);
            store(write);
        }
    }

    /// Marks words that were changed by recovery, or by plain stores.
    pub(crate) fn mark_changed(&self, first: u64, count: u64) {
        if !self.chunks.watched {
            return;
        }
        let mut word = first;
        while word < first + count {
            self.chunks.changes(word);
            word = (self.chunks.of(word) as u64 + 1) * self.chunks.words;
        }
    }

    /// Marks words that were changed by plain stores of this thread, also while a checkpoint copies them.
    pub(crate) fn stored_plainly(&self, first: u64, count: u64) {
        // The stores precede the check of the flags: a checkpoint that takes a flag afterwards has them in its copy.
        fence(Ordering::SeqCst);
        self.mark_changed(first, count);
    }

    /// Returns whether nothing has changed since the copy of this checkpoint, which has this number of chunks.
    pub(crate) fn is_clean(&self, checkpoint: u64, chunks: u32) -> bool {
        chunks as usize == self.chunk_count() && !self.chunks.any(self.chunk_count(), checkpoint)
    }

    /// Returns the number of chunks in use.
    pub(crate) fn chunk_count(&self) -> usize {
        self.words().div_ceil(self.chunks.words) as usize
    }

    /// Returns the word at a byte offset, if programs may use it.
    #[inline(always)]
    pub(crate) fn word_at(&self, offset: u64) -> Result<u64, Interrupt> {
        // An offset between two words becomes a number larger than that of any word.
        let word = offset.rotate_right(WORD_LEN.trailing_zeros());
        if word >= self.words() || word < self.first_word {
            return Err(self.refuse(offset, WORD_LEN));
        }
        Ok(word)
    }

    /// Returns the error that explains why a word or some bytes cannot be used.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse(&self, offset: u64, len: u64) -> Interrupt {
        Interrupt::failed(self.refusal(offset, len))
    }

    pub(crate) fn refusal(&self, offset: u64, len: u64) -> Error {
        let heap = self.name.clone();
        let (from, to) = (self.first_word * WORD_LEN, self.words() * WORD_LEN);
        let inside = from <= offset && offset < to && len <= to - offset;
        if inside { Error::Misaligned { heap, offset } } else { Error::OutOfRange { heap, offset, len, from, to } }
    }

    /// Checks that all bytes are in the part that programs may use.
    pub(crate) fn check_range(&self, offset: u64, len: u64) -> Result<(), Interrupt> {
        let (from, to) = (self.first_word * WORD_LEN, self.words() * WORD_LEN);
        if offset < from || offset > to || len > to - offset {
            return Err(Interrupt::failed(Error::OutOfRange { heap: self.name.clone(), offset, len, from, to }));
        }
        Ok(())
    }
}

impl Heap {
    /// Returns the number under which change streams have its words. Another heap of the store, also a later one of this name, has
    /// another number.
    pub fn number(&self) -> u32 {
        self.core.number
    }

    /// Returns the heap's name.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Returns its size in bytes.
    pub fn size(&self) -> u64 {
        self.core.words() * WORD_LEN
    }

    /// Returns the size up to which the heap may grow until the store is opened again, in bytes: its address space. This is
    /// the `size_max` of its creation, or less where the system had less.
    pub fn size_max(&self) -> u64 {
        self.core.region.words().len() as u64 * WORD_LEN
    }

    /// Returns the first offset that programs may use: 0, or the end of the block table if the heap has blocks.
    pub fn first_offset(&self) -> u64 {
        self.core.first_word * WORD_LEN
    }

    /// Returns the address of offset 0, for C programs that use addresses in a heap. A heap that is
    /// [loaded on demand](crate::MemoryOptions::load_on_demand_bytes) has its words there after [`Heap::load`].
    pub fn address(&self) -> usize {
        self.core.region.address()
    }

    /// Declares bytes that were changed by plain stores, which are not logged: the next checkpoint copies them. Until then
    /// a crash may lose them or keep them in part, so they belong in blocks that no committed word references yet.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]. [`Error::Misuse`] in a store with an archive, which has the log alone: the next restore would lack them; in a
    /// view of the past, which is only read; and before the heap [is loaded](Heap::load).
    pub fn stored_plainly(&self, offset: u64, len: u64) -> Result<()> {
        if self.memory.refuses_plain_stores() {
            return Err(Error::Misuse(
                "plain stores are not in the log: use transactions, or a store without an archive that is no view",
            ));
        }
        self.core.check_range(offset, len).map_err(Interrupt::into_error)?;
        if !self.core.region.is_complete() {
            let what =
                "plain stores to a heap that is loaded on demand would be overwritten: call Heap::load before them";
            return Err(Error::Misuse(what));
        }
        let first = offset / WORD_LEN;
        self.core.stored_plainly(first, (offset + len).div_ceil(WORD_LEN) - first);
        Ok(())
    }

    /// Returns the memory that the heap belongs to.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Runs `work` in a transaction and commits it durably ([`Commit::Sync`]).
    ///
    /// `work` runs again after every conflict, so it should change nothing but the heap. An error rolls the transaction
    /// back.
    ///
    /// ```
    /// # use cedrat_heap::{HeapOptions, Memory, MemoryOptions};
    /// # fn main() -> cedrat_heap::Result<()> {
    /// # let memory = Memory::volatile(MemoryOptions::small())?;
    /// let heap = memory.create_heap("counts", &HeapOptions::raw(1 << 20))?;
    /// let before = heap.atomically(|tx| {
    ///     let count = tx.read(&heap, 0)?;
    ///     tx.write(&heap, 0, count + 1)?;
    ///     Ok(count)
    /// })?;
    /// assert_eq!(before, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `work`; [`Error::Stopped`], after which only reopening shows whether the commit was kept.
    pub fn atomically<T>(&self, work: impl FnMut(&mut Tx<'_>) -> Result<T, Interrupt>) -> Result<T> {
        Ok(self.memory.run(Commit::Sync, work)?.value)
    }

    /// Asks the processor to prefetch the word at this offset, and its lock: a hint before a transaction that will use it.
    #[inline(always)]
    pub fn prefetch(&self, offset: u64) {
        let word = offset / WORD_LEN;
        self.core.region.prefetch(word as usize);
        self.memory.shared().stripes.prefetch(self.memory.shared().stripes.of(self.core.salt, word));
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("name", &self.core.name).field("size", &self.size()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use cedrat_sync::thread;
    use proptest::prelude::*;

    use super::*;
    use crate::write_set::Bytes;

    proptest! {
        /// E4.4: a commit looks at no flag if none is clear.
        #[test]
        fn clear_flags_are_counted(steps in proptest::collection::vec((0_u8..5, any::<u64>(), 0_u64..2), 1..200)) {
            const CHUNK: u64 = 64;
            let core = Core::new(0, "heap", 3 * CHUNK, 9 * CHUNK, 512, 0, Mapping::default()).expect("memory");
            for (step, number, generation) in steps {
                let (word, chunk) = (number % core.words(), number as usize % core.chunk_count());
                match step {
                    0 => core.mark_changed(word, (number >> 32) % (core.words() - word)),
                    1 => {
                        let (heap, stripe, bytes) = (0, 0, Bytes::ALL);
                        core.write_back(&[Write { word, value: 1, heap, stripe, bytes, read: false }]);
                        let [even, odd] = [0, 1].map(|generation| core.chunks.flag(core.chunks.of(word), generation));
                        for (flags, bit) in [even, odd] {
                            prop_assert!(flags.load(Ordering::Relaxed) & bit != 0);
                        }
                    }
                    2 => _ = core.chunks.take(chunk, generation),
                    3 => core.chunks.put_back(chunk, generation),
                    _ => core.set_words((core.words() + number % CHUNK).min(9 * CHUNK)),
                }
                let flags = (0..core.chunk_count()).flat_map(|chunk| [0, 1].map(|of| core.chunks.flag(chunk, of)));
                let clear = flags.filter(|(flags, bit)| flags.load(Ordering::Relaxed) & bit == 0).count() as u64;
                prop_assert_eq!(core.chunks.clear.load(Ordering::Relaxed), clear);
            }
        }
    }

    /// A copy beside plain stores: what is not in it is in the next one of its file. Miri explores stale loads.
    #[test]
    fn plain_store_beside_copy_is_not_lost() {
        let core = Core::new(0, "heap", 512, 512, 4096, 0, Mapping::default()).expect("memory");
        core.mark_changed(0, 1); // by an earlier change, so that the store finds the flags set
        let (mut copied, stored) = ([0; 8], AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                core.region.words()[0].store(1, Ordering::Relaxed);
                core.stored_plainly(0, 1);
                stored.store(1, Ordering::Relaxed);
            });
            while stored.load(Ordering::Relaxed) == 0 {
                thread::yield_now(); // the store comes first, but nothing orders it before the copy
            }
            if core.chunks.take(0, 0) {
                core.region.copy(0, &mut copied);
            }
        });
        assert!(copied[0] == 1 || core.chunks.take(0, 0), "E4.4: the store is in no copy, and no chunk is marked");
    }
}
