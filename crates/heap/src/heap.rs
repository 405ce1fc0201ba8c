//! A heap: a region of words with a name (Hathi §3).

use std::{fmt, io};

use cedrat_sync::Arc;
use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use crate::blocks::Blocks;
use crate::error::{Error, Interrupt, Result};
use crate::memory::Memory;
use crate::options::Commit;
use crate::region::{Mapping, Region, WORD_LEN};
use crate::tx::Tx;
use crate::write_set::Write;

/// A durable (or, in a memory without a log, volatile) region of memory. Cheap to clone; all clones are the same heap.
///
/// It is read and written in transactions; see [`Heap::atomically`]. All methods may be called from any thread.
#[derive(Clone)]
pub struct Heap {
    pub(crate) memory: Memory,
    pub(crate) core: Arc<Core>,
}

/// What all handles of a heap share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) region: Region,
    /// Words in use: the heap's size.
    words: AtomicU64,
    /// The first word that programs may use.
    pub(crate) first_word: u64,
    /// Sets its stripes apart from those of other heaps.
    pub(crate) salt: u64,
    /// Its account of blocks, where it keeps one.
    pub(crate) blocks: Option<Blocks>,
    pub(crate) chunks: Chunks,
    dropped: AtomicBool,
}

/// Which chunks were changed since they were last copied, for each of the two generations of a heap's checkpoints.
#[derive(Debug)]
pub(crate) struct Chunks {
    pub(crate) len: u64,
    words_log2: Option<u32>,
    words: u64,
    /// A bit for each chunk and generation: words of the even one and of the odd one by turns. What is not written costs no
    /// memory.
    flags: Region,
}

/// Chunks in a word of flags.
const IN_WORD: usize = u64::BITS as usize;

/// The flags by value, for who goes through many words.
#[derive(Clone, Copy)]
struct Changes<'a> {
    flags: &'a [[AtomicU64; 2]],
    words_log2: Option<u32>,
    words: u64,
}

impl Changes<'_> {
    #[inline(always)]
    fn of(self, word: u64) -> usize {
        self.words_log2.map_or_else(|| word / self.words, |shift| word >> shift) as usize
    }

    /// A word of a chunk is about to be written. After the commit's LSN was drawn; see `checkpoint`.
    #[inline(always)]
    fn changes(self, word: u64) {
        let chunk = self.of(word);
        let bit = 1 << (chunk % IN_WORD);
        if let Some([even, odd]) = self.flags.get(chunk / IN_WORD)
            && even.load(Ordering::SeqCst) & odd.load(Ordering::SeqCst) & bit == 0
        {
            even.fetch_or(bit, Ordering::SeqCst);
            odd.fetch_or(bit, Ordering::SeqCst);
        }
    }
}

impl Chunks {
    fn new(len: u64, reserved_words: u64) -> io::Result<Chunks> {
        let words = len / WORD_LEN;
        let count = reserved_words.div_ceil(words) as usize;
        Ok(Chunks {
            len,
            words_log2: words.is_power_of_two().then(|| words.ilog2()),
            words,
            flags: Region::new(2 * count.div_ceil(IN_WORD), Mapping::default())?,
        })
    }

    #[inline(always)]
    fn flags(&self) -> &[[AtomicU64; 2]] {
        self.flags.words().as_chunks().0
    }

    /// Where a chunk's flag for a generation lies: the word, and the bit in it.
    fn flag(&self, chunk: usize, generation: u64) -> (&AtomicU64, u64) {
        (&self.flags()[chunk / IN_WORD][(generation & 1) as usize], 1 << (chunk % IN_WORD))
    }

    /// The chunk that has the word.
    pub(crate) fn of(&self, word: u64) -> usize {
        self.by_value().of(word)
    }

    /// A word of a chunk is about to be written.
    pub(crate) fn changes(&self, word: u64) {
        self.by_value().changes(word);
    }

    #[inline(always)]
    fn by_value(&self) -> Changes<'_> {
        Changes { flags: self.flags(), words_log2: self.words_log2, words: self.words }
    }

    /// Whether the chunk was changed since this generation's copy; from now on it was not.
    pub(crate) fn take(&self, chunk: usize, generation: u64) -> bool {
        let (flags, bit) = self.flag(chunk, generation);
        flags.fetch_and(!bit, Ordering::SeqCst) & bit != 0
    }

    /// This generation's copy may not have everything.
    pub(crate) fn put_back(&self, chunk: usize, generation: u64) {
        let (flags, bit) = self.flag(chunk, generation);
        flags.fetch_or(bit, Ordering::SeqCst);
    }

    /// Whether one of the first few chunks was changed since this generation's copy.
    fn any(&self, chunks: usize, generation: u64) -> bool {
        (0..chunks)
            .map(|chunk| self.flag(chunk, generation))
            .any(|(flags, bit)| flags.load(Ordering::SeqCst) & bit != 0)
    }
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
        let set_aside = |error| Error::io(format!("setting memory aside for heap {name}"), error);
        let region = usize::try_from(reserved_words)
            .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))
            .and_then(|reserved| Region::new(reserved, mapping))
            .map_err(set_aside)?;
        let blocks = (first_word > 0).then(|| Blocks::new(reserved_words)).transpose().map_err(set_aside)?;
        Ok(Core {
            number,
            name: name.to_owned(),
            region,
            words: AtomicU64::new(words),
            first_word: blocks.as_ref().map_or(0, |blocks| blocks.layout.first_word()),
            salt: u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20,
            blocks,
            chunks: Chunks::new(chunk_len, reserved_words).map_err(set_aside)?,
            dropped: AtomicBool::new(false),
        })
    }

    /// Words in use.
    #[inline(always)]
    pub(crate) fn words(&self) -> u64 {
        self.words.load(Ordering::Acquire)
    }

    pub(crate) fn set_words(&self, words: u64) {
        self.words.store(words, Ordering::Release);
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// Writes back what a commit has for this heap; the stripes are locked.
    #[inline]
    pub(crate) fn write_back(&self, writes: &[Write]) {
        let (words, changed) = (self.region.words(), self.chunks.by_value());
        for write in writes {
            changed.changes(write.word);
            // `Release`: who sees the value sees the stripe locked, or newer.
            words[write.word as usize].store(write.value, Ordering::Release);
        }
    }

    /// Words were changed by recovery.
    pub(crate) fn mark_changed(&self, first: u64, count: u64) {
        let mut word = first;
        while word < first + count {
            self.chunks.changes(word);
            word = (self.chunks.of(word) as u64 + 1) * self.chunks.words;
        }
    }

    /// Whether nothing has changed since this checkpoint's copy, which has so many chunks.
    pub(crate) fn is_clean(&self, checkpoint: u64, chunks: u32) -> bool {
        chunks as usize == self.chunk_count() && !self.chunks.any(self.chunk_count(), checkpoint)
    }

    /// Chunks in use.
    pub(crate) fn chunk_count(&self) -> usize {
        self.words().div_ceil(self.chunks.words) as usize
    }

    /// The word at a byte offset that programs may use.
    #[inline(always)]
    pub(crate) fn word_at(&self, offset: u64) -> Result<u64, Interrupt> {
        // An offset between two words becomes a number larger than that of any word.
        let word = offset.rotate_right(WORD_LEN.trailing_zeros());
        if word >= self.words() || word < self.first_word {
            return Err(self.refuse(offset, WORD_LEN));
        }
        Ok(word)
    }

    /// Says why a word or some bytes cannot be used.
    #[cold]
    pub(crate) fn refuse(&self, offset: u64, len: u64) -> Interrupt {
        Interrupt::failed(self.refusal(offset, len))
    }

    pub(crate) fn refusal(&self, offset: u64, len: u64) -> Error {
        let heap = self.name.clone();
        let (from, to) = (self.first_word * WORD_LEN, self.words() * WORD_LEN);
        let inside = from <= offset && offset < to && len <= to - offset;
        if inside { Error::Misaligned { heap, offset } } else { Error::OutOfRange { heap, offset, len, from, to } }
    }

    /// Whether bytes lie in what programs may use.
    pub(crate) fn check_range(&self, offset: u64, len: u64) -> Result<(), Interrupt> {
        let (from, to) = (self.first_word * WORD_LEN, self.words() * WORD_LEN);
        if offset < from || offset > to || len > to - offset {
            return Err(Interrupt::failed(Error::OutOfRange { heap: self.name.clone(), offset, len, from, to }));
        }
        Ok(())
    }
}

impl Heap {
    /// The heap's name.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.core.words() * WORD_LEN
    }

    /// What it may grow to, in bytes: so much of the address space is its own from the beginning.
    pub fn size_max(&self) -> u64 {
        self.core.region.words().len() as u64 * WORD_LEN
    }

    /// The first offset that programs may use: 0, or behind the account of blocks where the heap keeps one.
    pub fn first_offset(&self) -> u64 {
        self.core.first_word * WORD_LEN
    }

    /// Where in memory offset 0 lies. For C programs that know a heap by addresses.
    pub fn address(&self) -> usize {
        self.core.region.address()
    }

    /// Says that bytes were changed by plain stores, which nothing logs: the next checkpoint copies them. Before that a
    /// crash may lose them or keep them in part, so they belong into blocks that no committed word names yet.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn stored_plainly(&self, offset: u64, len: u64) -> Result<()> {
        self.core.check_range(offset, len).map_err(Interrupt::into_error)?;
        // The stores before the look at the flags: a checkpoint that takes a flag afterwards has them in its copy.
        fence(Ordering::SeqCst);
        let first = offset / WORD_LEN;
        self.core.mark_changed(first, (offset + len).div_ceil(WORD_LEN) - first);
        Ok(())
    }

    /// The memory that the heap belongs to.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Runs `work` in a transaction and commits it durably ([`Commit::Sync`]).
    ///
    /// `work` is run again after every conflict, so it should change nothing but the heap. An error rolls back: nothing of
    /// it remains.
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
    /// What `work` failed with; [`Error::Stopped`], after which only reopening tells whether the commit was kept.
    pub fn atomically<T>(&self, work: impl FnMut(&mut Tx<'_>) -> Result<T, Interrupt>) -> Result<T> {
        Ok(self.memory.run(Commit::Sync, work)?.value)
    }

    /// Asks the processor to fetch the word at this offset, and its lock: a hint before a transaction that will use it.
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
