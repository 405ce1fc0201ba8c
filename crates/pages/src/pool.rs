//! The buffer pool: pages in memory, found by multiplication (vmcache, Leis et al., SIGMOD 2023).
//!
//! A page's frame is at `base + id × 4096` of one reserved range, so there is no table to search and no pointer to
//! follow: a hit is one look at the page's latch word and one at its bytes. What is bounded is not the range but how
//! many of its frames hold memory: [`PoolOptions::capacity_pages`], never more.
//!
//! | room | what lies there |
//! |---|---|
//! | `frames`, `view` | bytes of pages, and who may see them how |
//! | `table`, `latch` | one word a page: where it is, who holds it |
//! | `exclusive` | how a page is changed |
//! | `evict` | who has to go |
//! | `write_back`, `double_write` | how changes get home |
//! | `file`, `home` | home; and a look at it before the log may be written |

use std::fmt;

use cedrat_media::{AlignedBuf, Media};
use cedrat_sync::Arc;
use cedrat_sync::Mutex;
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_wal::Log;

use crate::cleaner::Bell;
use crate::double_write::DoubleWrite;
use crate::error::PoolError;
use crate::evict::Clock;
use crate::exclusive::Exclusive;
use crate::file::PageFile;
use crate::frames::{PageWords, Reservation};
use crate::latch::Latch;
use crate::page::{Damaged, PAGE_LEN, PageId, lsn_of};
use crate::table::PageTable;
use crate::view::{LatchedPage, OptimisticPage};
use crate::write_back::InFlight;

/// Pages of a read-ahead that are read with one call: 128 KiB.
const PREFETCH_RUN: usize = 32;

/// Attempts of an optimistic read before it takes the latch.
const OPTIMISTIC_TRIES: usize = 4;

/// How large a pool is, and how it behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolOptions {
    /// Pages that may be in memory at once: a hard bound. At least 8. Default 16,384, which is 64 MiB.
    pub capacity_pages: usize,
    /// Pages that the page file may ever hold; address space is reserved for them. Default 2^28, which is 1 TiB.
    pub pages_max: u64,
    /// Frames that the cleaner thread keeps free ahead of need (D021). Default: a sixteenth of the capacity.
    pub free_ahead: Option<usize>,
    /// A deliberately wrong behaviour, to show that it is caught.
    #[cfg(feature = "planted-faults")]
    pub fault: Option<Fault>,
}

impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions {
            capacity_pages: 16_384,
            pages_max: 1 << 28,
            free_ahead: None,
            #[cfg(feature = "planted-faults")]
            fault: None,
        }
    }
}

impl PoolOptions {
    /// Whether they make sense; and the bytes of address space that the frames take.
    pub(crate) fn check(&self) -> Result<usize, PoolError> {
        if self.capacity_pages < 8 {
            let what = format!("{} pages; at least 8 are needed", self.capacity_pages);
            return Err(PoolError::Options { option: "capacity_pages", what });
        }
        let frames_len = usize::try_from(self.pages_max).ok().and_then(|pages| pages.checked_mul(PAGE_LEN));
        frames_len.filter(|&len| len > 0 && len <= isize::MAX as usize).ok_or_else(|| {
            let what = format!("{} pages do not fit an address space", self.pages_max);
            PoolError::Options { option: "pages_max", what }
        })
    }
}

/// Deliberately wrong behaviours of the pool.
#[cfg(feature = "planted-faults")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Pages go home without the log being forced first (against E11.4).
    WalRuleSkipped,
    /// A page counts as dirty only from after its first change on (against E3.3).
    RecoveryLsnLate,
}

/// What a pool has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Pages in memory now.
    pub resident_pages: usize,
    /// Of these, pages that differ from home now.
    pub dirty_pages: usize,
    /// Pages read from the page file.
    pub pages_read: u64,
    /// Pages written home.
    pub pages_written: u64,
    /// Pages whose frame was given back.
    pub pages_evicted: u64,
    /// Torn pages that were restored when the pool was opened.
    pub pages_restored: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) read: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) evicted: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, pages: usize) {
        counter.fetch_add(pages as u64, Ordering::Relaxed);
    }
}

/// The pages of one open store.
///
/// All methods may be called from any thread. Latches are not locks: they protect bytes for moments, and no method
/// waits for a transaction. `docs/inside/latches.md` says who may wait for whom; debug builds check it.
pub struct Pool {
    pub(crate) media: Arc<dyn Media>,
    pub(crate) log: Log,
    pub(crate) options: PoolOptions,
    pub(crate) frames: Reservation,
    pub(crate) table: PageTable,
    pub(crate) clock: Clock,
    pub(crate) file: PageFile,
    pub(crate) area: Mutex<DoubleWrite>,
    pub(crate) in_flight: InFlight,
    pub(crate) counters: Counters,
    pub(crate) bell: Bell,
    restored: u64,
    staging: Mutex<Vec<AlignedBuf>>,
}

impl Pool {
    /// Opens the page file, creating it if there is none, and restores from the double-write area what a crash tore.
    ///
    /// # Errors
    /// The files cannot be opened or are not Cedrat's; an option makes no sense.
    pub fn open(media: Arc<dyn Media>, log: Log, options: PoolOptions) -> Result<Pool, PoolError> {
        let frames_len = options.check()?;
        let reserving = |error| PoolError::io("reserving address space for the buffer pool", error);
        let frames = Reservation::new(frames_len).map_err(reserving)?;
        let table = PageTable::new(options.pages_max).map_err(reserving)?;
        let file = PageFile::open(&media, options.pages_max)?;
        let mut area = DoubleWrite::open(&media)?;
        let restored = area.restore(&file)?;
        Ok(Pool {
            log,
            frames,
            table,
            clock: Clock::new(options.capacity_pages),
            file,
            area: Mutex::new(area),
            in_flight: InFlight::default(),
            counters: Counters::default(),
            bell: Bell::default(),
            restored,
            staging: Mutex::new(Vec::new()),
            media,
            options,
        })
    }

    /// The page, for reading, under its shared latch. Drop it soon; hold none while changing a page.
    ///
    /// # Errors
    /// The page lies beyond the file, is damaged, or cannot be read.
    #[inline]
    pub fn read(&self, page: PageId) -> Result<LatchedPage<'_>, PoolError> {
        loop {
            if let Some(latch) = self.latch(page)?.shared() {
                return Ok(LatchedPage::new(self.words(page), latch));
            }
            self.load(page)?;
        }
    }

    /// Reads without a latch: `look` sees the page as it may be changing, and what it returned counts only if the page
    /// did not change meanwhile (E12). It may run several times, at last under the shared latch.
    ///
    /// `look` returns None when what it saw makes no sense. It calls nothing of the store, and ends on any bytes.
    ///
    /// # Errors
    /// As [`Pool::read`]; and the page is damaged if `look` finds no sense in it under the latch either.
    #[inline(always)]
    pub fn optimistic<R>(
        &self,
        page: PageId,
        mut look: impl FnMut(OptimisticPage<'_>) -> Option<R>,
    ) -> Result<R, PoolError> {
        if let Some(latch) = self.table.latch(page) {
            for _ in 0..OPTIMISTIC_TRIES {
                let Some(witness) = latch.witness() else {
                    break;
                };
                let seen = look(OptimisticPage::new(self.words(page), page));
                if latch.still(witness) {
                    match seen {
                        Some(result) => return Ok(result),
                        None => break,
                    }
                }
            }
        }
        self.look_under_latch(page, &mut look)
    }

    #[cold]
    fn look_under_latch<R>(
        &self,
        page: PageId,
        look: &mut impl FnMut(OptimisticPage<'_>) -> Option<R>,
    ) -> Result<R, PoolError> {
        let latched = self.read(page)?;
        look(latched.as_optimistic())
            .ok_or_else(|| self.damaged(Damaged::in_body(page, 0, "its reader finds no sense in its bytes")))
    }

    /// The page, to be changed, under its exclusive latch. For the one road of an update and for redo.
    ///
    /// # Errors
    /// As [`Pool::read`].
    #[inline]
    pub fn exclusive(&self, page: PageId) -> Result<Exclusive<'_>, PoolError> {
        loop {
            if let Some(latch) = self.latch(page)?.exclusive() {
                return Ok(Exclusive::new(self, latch, None));
            }
            self.load(page)?;
        }
    }

    /// As [`Pool::exclusive`], for a caller that will format the page from scratch: a page that is not in memory is not
    /// read, it appears as never written, with [`Lsn::ZERO`](cedrat_wal::Lsn::ZERO).
    ///
    /// For a newly allocated page, or for redo of a record that formats: all later records of the page follow in the
    /// log, so what lies at home is not needed. If the page is then not changed it is forgotten again.
    ///
    /// # Errors
    /// The page lies beyond the file.
    pub fn exclusive_fresh(&self, page: PageId) -> Result<Exclusive<'_>, PoolError> {
        loop {
            if let Some(latch) = self.latch(page)?.exclusive() {
                return Ok(Exclusive::new(self, latch, None));
            }
            self.file.check(page)?;
            let frame = self.free_frame()?;
            if let Some(loading) = self.latch(page)?.begin_load() {
                let frame = frame.fill(page);
                return Ok(Exclusive::new(self, loading.finish_exclusive(), Some(frame)));
            }
        }
    }

    /// Loads the page unless it is in; who else loads it is waited for.
    #[cold]
    fn load(&self, page: PageId) -> Result<(), PoolError> {
        self.file.check(page)?;
        // The frame comes first: looking for one may take a write-back, and nobody shall wait for that behind a latch.
        let frame = self.free_frame()?;
        let Some(loading) = self.latch(page)?.begin_load() else {
            return Ok(());
        };
        let mut buffer = self.staging_buffer(PAGE_LEN);
        let read = self.file.read(page, &mut buffer).and_then(|()| self.is_sound(&buffer, page));
        if read.is_ok() {
            // Into the frame by atomic words: a reader that is late may still look at it.
            self.words(page).store(0, &buffer);
            frame.fill(page);
            loading.finish();
            Counters::add(&self.counters.read, 1);
        }
        self.return_staging_buffer(buffer);
        read
    }

    /// What was read verifies, and the log has what it was made from: a page that is newer than its log is all that is
    /// left of records that were lost, and nothing could be redone or undone on it (E20.5).
    fn is_sound(&self, bytes: &[u8], page: PageId) -> Result<(), PoolError> {
        self.file.verify(bytes, page)?;
        if lsn_of(bytes.try_into().expect("one page at a time")) > self.log.current_lsn() {
            return Err(self.damaged(Damaged::newer_than_log(page)));
        }
        Ok(())
    }

    /// Reads pages into memory that will be wanted soon, neighbours with one call. Only a hint: pages that cannot be had
    /// are left, and no dirty page is written home to make room for them.
    pub fn prefetch(&self, pages: &[PageId]) {
        let mut wanted: Vec<PageId> = pages
            .iter()
            .copied()
            .filter(|&page| self.file.check(page).is_ok())
            .filter(|&page| self.table.latch(page).is_some_and(|latch| !latch.is_in()))
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        let neighbours = wanted.chunk_by(|a, b| a.after(1) == *b);
        for run in neighbours.flat_map(|run| run.chunks(PREFETCH_RUN)) {
            if !self.prefetch_run(run) {
                return;
            }
        }
    }

    /// False if there is no room for more.
    fn prefetch_run(&self, run: &[PageId]) -> bool {
        let mut frames = Vec::new();
        while frames.len() < run.len() {
            match self.free_frame_without_writing() {
                Some(frame) => frames.push(frame),
                None => break,
            }
        }
        let run = &run[..frames.len()];
        let Some(&first) = run.first() else {
            return false;
        };
        // All latches are only tried: whoever else loads one of these pages is left to it.
        let loading: Vec<_> = run.iter().map(|&page| self.table.latch(page).and_then(Latch::try_begin_load)).collect();
        let mut buffer = self.staging_buffer(run.len() * PAGE_LEN);
        if self.file.read(first, &mut buffer).is_ok() {
            for (((&page, loading), frame), bytes) in
                run.iter().zip(loading).zip(frames).zip(buffer.chunks_exact(PAGE_LEN))
            {
                // A damaged page stays out; whoever really wants it is told.
                if let Some(loading) = loading
                    && self.is_sound(bytes, page).is_ok()
                {
                    self.words(page).store(0, bytes);
                    frame.fill(page);
                    loading.finish();
                    Counters::add(&self.counters.read, 1);
                }
            }
        }
        self.return_staging_buffer(buffer);
        true
    }

    /// Makes room at home for at least `pages` pages, durably.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`] comes here, so that writing home never meets it; nothing has changed then.
    pub fn ensure_len(&self, pages: u64) -> Result<(), PoolError> {
        self.file.ensure(pages, &self.log)
    }

    /// Pages that home has room for.
    pub fn len_pages(&self) -> u64 {
        self.file.pages()
    }

    /// Gives the space of free pages back to the file system. What they read as is undefined until they are formatted.
    ///
    /// The caller knows that they are free and that the redo point has passed their free (E7.2).
    ///
    /// # Errors
    /// The file system refuses.
    pub fn punch(&self, first: PageId, count: u64) -> Result<(), PoolError> {
        for page in (first.get()..first.get() + count).map(PageId::new) {
            if let Some(latch) = self.table.latch(page) {
                latch.cool();
            }
        }
        self.file.punch(first, count)
    }

    /// The name of the page file, for messages.
    pub fn path(&self) -> String {
        self.file.path()
    }

    /// Damage of a page, said with the file and the offset in it.
    pub fn damaged(&self, damage: Damaged) -> PoolError {
        PoolError::damaged(self.file.path(), damage)
    }

    /// What the pool has done and holds. Counts dirty pages one by one.
    pub fn stats(&self) -> PoolStats {
        let dirty = |&page: &PageId| self.table.recovery_lsn(page).load(Ordering::Relaxed) != 0;
        PoolStats {
            resident_pages: self.clock.in_use(),
            dirty_pages: self.clock.pages().filter(dirty).count(),
            pages_read: self.counters.read.load(Ordering::Relaxed),
            pages_written: self.counters.written.load(Ordering::Relaxed),
            pages_evicted: self.counters.evicted.load(Ordering::Relaxed),
            pages_restored: self.restored,
        }
    }

    #[inline(always)]
    pub(crate) fn latch(&self, page: PageId) -> Result<Latch<'_>, PoolError> {
        self.table
            .latch(page)
            .ok_or_else(|| PoolError::Limit { pages: page.get().saturating_add(1), limit: self.options.pages_max })
    }

    #[inline(always)]
    pub(crate) fn words(&self, page: PageId) -> &PageWords {
        self.frames.page(page.get() as usize)
    }

    fn staging_buffer(&self, len: usize) -> AlignedBuf {
        let mut buffer = self.staging.lock().pop().unwrap_or_default();
        buffer.resize(len);
        buffer
    }

    fn return_staging_buffer(&self, buffer: AlignedBuf) {
        let mut staging = self.staging.lock();
        // As many as there are processors to use them; what a burst of readers needed more is freed.
        if staging.len() < 8 {
            staging.push(buffer);
        }
    }

    #[cfg(feature = "planted-faults")]
    pub(crate) fn has_fault(&self, fault: Fault) -> bool {
        self.options.fault == Some(fault)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("options", &self.options).field("file", &self.file).finish_non_exhaustive()
    }
}
