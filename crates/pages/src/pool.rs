//! The buffer pool: pages in memory, located by multiplication (vmcache, Leis et al., SIGMOD 2023).
//!
//! A page's frame is at `base + id × 4096` of one reserved range, so there is no table to search and no pointer to
//! follow: a hit is one load of the page's latch word and one of its bytes. The bound applies not to the range but to
//! the number of frames that hold memory: [`PoolOptions::capacity_pages`], never more.
//!
//! | modules | content |
//! |---|---|
//! | `frames`, `view` | bytes of pages, and the access that each kind of latch permits |
//! | `table`, `latch` | one word per page: its residence and its holders |
//! | `exclusive` | changes of a page |
//! | `evict` | eviction |
//! | `write_back`, `double_write` | the write of changes to home |
//! | `file`, `home` | home; and a look at it before the log may be written |
//! | `rebuild` | pages that are damaged at home |
//! | `redo` | pages whose records are redone when they are needed |

use std::{fmt, io};

use cedrat_media::{AlignedBuf, Media, SECTOR_LEN};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex, planted};
use cedrat_wal::{Log, Lsn};

use crate::cleaner::CleanerSignal;
use crate::double_write::DoubleWrite;
use crate::error::PoolError;
use crate::evict::{Clock, FreeFrame, Loads};
use crate::exclusive::Exclusive;
use crate::file::PageFile;
use crate::frames::{PageWords, Reservation, check_system};
use crate::latch::Latch;
use crate::order::{Held, Latched};
use crate::page::{Damaged, PAGE_LEN, PageId, lsn_of};
use crate::rebuild::Rebuilding;
use crate::redo::Redoing;
use crate::table::PageTable;
use crate::view::{LatchedPage, OptimisticPage};
use crate::write_back::InFlight;

/// The number of pages of a read-ahead that are read with one call: 128 KiB.
const PREFETCH_RUN: usize = 32;

/// The number of optimistic attempts of a read before it takes the latch.
const OPTIMISTIC_TRIES: usize = 4;

/// The size and the behaviour of a pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolOptions {
    /// The maximum number of pages in memory: a hard bound. At least 8. Default 16,384, which is 64 MiB.
    pub capacity_pages: usize,
    /// The maximum number of pages in the page file until the store is opened again: address space is reserved for
    /// them. Default 2^28, which is 1 TiB. If the system refuses that much (`ulimit -v`, `vm.overcommit_memory=2`,
    /// valgrind), less is reserved, but at least what the file needs; [`Pool::pages_max`] returns the number.
    pub pages_max: u64,
    /// The number of frames that the cleaner thread keeps free ahead of need. Default: a sixteenth of the
    /// capacity.
    pub free_ahead: Option<usize>,
    /// Whether free pages appear filled with a pattern: when they are freed, if they are in memory, and when they are allocated.
    /// So a use after free is found, and an operation that relies on the old bytes of a new page, or on zeros: for tests.
    /// Default `false`.
    pub poison_free: bool,
    /// A deliberate fault, to show that it is caught.
    #[cfg(feature = "planted-faults")]
    pub fault: Option<Fault>,
}

impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions {
            capacity_pages: 16_384,
            pages_max: 1 << 28,
            free_ahead: None,
            poison_free: false,
            #[cfg(feature = "planted-faults")]
            fault: None,
        }
    }
}

impl PoolOptions {
    /// Refuses invalid options, and a system on which no pool works. [`Pool::open`] does the same; a store calls this before it creates files.
    ///
    /// # Errors
    /// [`PoolError::Options`]; [`PoolError::Io`] for a system whose pages of memory are larger than those of the pool.
    pub fn check(&self) -> Result<(), PoolError> {
        check_system(rustix::param::page_size()).map_err(|error| PoolError::io("reserving memory for pages", error))?;
        if self.capacity_pages < 8 {
            let what = format!("{} pages; at least 8 are needed", self.capacity_pages);
            return Err(PoolError::Options { option: "capacity_pages", what });
        }
        if self.pages_max == 0 || frames_len(self.pages_max).is_err() {
            let what = format!("{} pages do not fit an address space", self.pages_max);
            return Err(PoolError::Options { option: "pages_max", what });
        }
        self.clock().map(drop)
    }

    fn clock(&self) -> Result<Clock, PoolError> {
        Clock::new(self.capacity_pages).map_err(|error| {
            let what = format!("{} pages, whose list has no room in memory ({error})", self.capacity_pages);
            PoolError::Options { option: "capacity_pages", what }
        })
    }
}

/// Returns the bytes of address space that the frames of so many pages take.
fn frames_len(pages: u64) -> io::Result<usize> {
    let len = usize::try_from(pages).ok().and_then(|pages| pages.checked_mul(PAGE_LEN));
    len.filter(|&len| len <= isize::MAX as usize).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Reserves address space for `wanted` pages; if the system refuses that, for fewer, but for no fewer than `needed`.
///
/// A process with a limit on its address space needs the rest of it for other things: a quarter is taken of the
/// largest power of two that the system allows.
fn reserve_what_is_there<T>(
    wanted: u64,
    needed: u64,
    mut reserve: impl FnMut(u64) -> io::Result<T>,
) -> Result<(T, u64), PoolError> {
    let mut allowed = wanted;
    loop {
        match reserve(allowed) {
            Ok(reserved) if allowed == wanted => return Ok((reserved, wanted)),
            Ok(_) => break,
            Err(error) if allowed <= needed => return Err(refused(allowed, error)),
            // Less is tried for any reason: valgrind calls a long range an invalid argument.
            Err(_) => allowed = (allowed / 2).max(needed),
        }
    }
    let pages = (allowed / 4).max(needed);
    reserve(pages).map(|reserved| (reserved, pages)).map_err(|error| refused(pages, error))
}

/// Returns the bytes of address space for so many pages: their frames, and their entries in the table.
pub(crate) fn address_space_of(pages: u64) -> u64 {
    pages.saturating_mul(PAGE_LEN as u64 + 16)
}

fn refused(pages: u64, error: io::Error) -> PoolError {
    let bytes = address_space_of(pages);
    let doing = format!(
        "reserving {bytes} bytes of address space for {pages} pages (PoolOptions::pages_max, page_space_bytes in C); \
         raise the limit of the process (ulimit -v, vm.overcommit_memory), or reserve less for heaps"
    );
    PoolError::io(doing, error)
}

/// Deliberate faults of the pool.
#[cfg(feature = "planted-faults")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Pages are written home without forcing the log first (against E11.4).
    WalRuleSkipped,
    /// A page counts as dirty only from after its first change on (against E3.3).
    RecoveryLsnLate,
    /// An opening does not sync the pages that it finds at home (against R6).
    HomesNotSynced,
    /// An opening syncs the pages that it finds at home, but does not write them again (against R6).
    HomesOnlySynced,
}

/// Statistics of a pool since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// The number of pages in memory now.
    pub resident_pages: usize,
    /// The number of pages in memory that differ from home now.
    pub dirty_pages: usize,
    /// The number of pages read from the page file.
    pub pages_read: u64,
    /// The number of pages written home.
    pub pages_written: u64,
    /// The number of pages whose frame was freed.
    pub pages_evicted: u64,
    /// The number of torn pages that were restored when the pool was opened.
    pub pages_restored: u64,
    /// The number of damaged pages that were rebuilt ([`Pool::rebuilt_pages`]).
    pub pages_rebuilt: u64,
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
/// waits for a transaction. `docs/inside/latches.md` lists the permitted waits; debug builds check them.
pub struct Pool {
    pub(crate) media: Arc<dyn Media>,
    pub(crate) log: Log,
    pub(crate) options: PoolOptions,
    pub(crate) frames: Reservation,
    pub(crate) table: PageTable,
    pub(crate) clock: Clock,
    pub(crate) loads: Loads,
    pub(crate) file: PageFile,
    pub(crate) area: Mutex<DoubleWrite>,
    pub(crate) in_flight: InFlight,
    pub(crate) counters: Counters,
    pub(crate) signal: CleanerSignal,
    restored: Vec<PageId>,
    pub(crate) rebuilding: Mutex<Rebuilding>,
    pub(crate) redoing: Redoing,
    staging: Mutex<Vec<AlignedBuf>>,
}

impl Pool {
    /// Opens the page file, creating it if there is none, and restores pages that a crash tore from the double-write
    /// area. Afterwards every page at home is durable, whatever the state left by the previous process.
    ///
    /// # Errors
    /// The files cannot be opened or are not Cedrat's; an option is invalid.
    pub fn open(media: Arc<dyn Media>, log: Log, options: PoolOptions) -> Result<Pool, PoolError> {
        let mut options = options;
        options.check()?;
        let clock = options.clock()?;
        let mut file = PageFile::open(&media, options.pages_max)?;
        let reserve = |pages| Ok((Reservation::new(frames_len(pages)?)?, PageTable::new(pages)?));
        let ((frames, table), pages_max) = reserve_what_is_there(options.pages_max, file.pages_needed(), reserve)?;
        file.limit_to(pages_max);
        options.pages_max = pages_max;
        let mut area = DoubleWrite::open(&media)?;
        #[cfg_attr(not(feature = "planted-faults"), allow(unused_mut))]
        let mut redo_lsn = log.control().checkpoint.redo_lsn;
        #[cfg_attr(not(feature = "planted-faults"), allow(unused_mut))]
        let mut settles = true;
        #[cfg(feature = "planted-faults")]
        match options.fault {
            Some(Fault::HomesNotSynced) => settles = false,
            Some(Fault::HomesOnlySynced) => redo_lsn = cedrat_wal::Lsn::MAX,
            _ => {}
        }
        file.ensure_noted(&log)?;
        let restored = area.restore(&file, redo_lsn)?;
        if settles {
            file.settle(&log)?;
        }
        Ok(Pool {
            log,
            frames,
            table,
            clock,
            loads: Loads::default(),
            file,
            area: Mutex::new(area),
            in_flight: InFlight::default(),
            counters: Counters::default(),
            signal: CleanerSignal::default(),
            restored,
            rebuilding: Mutex::default(),
            redoing: Redoing::default(),
            staging: Mutex::new(Vec::new()),
            media,
            options,
        })
    }

    /// Returns the maximum number of pages in the page file until the store is opened again:
    /// [`PoolOptions::pages_max`], or fewer if the system had less address space.
    pub fn pages_max(&self) -> u64 {
        self.options.pages_max
    }

    /// Returns the maximum number of pages in memory.
    pub fn capacity_pages(&self) -> usize {
        self.clock.frames()
    }

    /// Returns the page, for reading, under its shared latch. Drop it soon; hold none while changing a page.
    ///
    /// # Errors
    /// The page is beyond the end of the file, is damaged, or cannot be read.
    #[inline]
    pub fn read(&self, page: PageId) -> Result<LatchedPage<'_>, PoolError> {
        loop {
            if let Some(latch) = self.latch(page)?.shared() {
                return Ok(LatchedPage::new(self.words(page), latch));
            }
            self.load(page)?;
        }
    }

    /// Reads without a latch: `look` sees the page while it may be changing, and its result counts only if the page
    /// did not change meanwhile. It may run several times, at last under the shared latch.
    ///
    /// `look` returns `None` if the bytes that it saw are inconsistent. It calls no method of the store, and ends on
    /// any bytes.
    ///
    /// # Errors
    /// As [`Pool::read`]; and the page is damaged if `look` returns `None` under the latch too.
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
            .ok_or_else(|| self.damaged(Damaged::in_body(page, 0, "its bytes do not match its layout")))
    }

    /// Returns the page, for changes, under its exclusive latch. Only for the code path of updates and for redo.
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

    /// Returns the page as [`Pool::exclusive`] does, for a caller that will format it: a page that is not in memory
    /// is not read, but appears as never written, with [`Lsn::ZERO`](cedrat_wal::Lsn::ZERO).
    ///
    /// For a newly allocated page, or for redo of a record that formats: all later records of the page follow in the
    /// log, so the page at home is not needed. If the page is then not changed, it is dropped from memory again.
    ///
    /// # Errors
    /// The page is beyond the end of the file.
    pub fn exclusive_fresh(&self, page: PageId) -> Result<Exclusive<'_>, PoolError> {
        loop {
            if let Some(latch) = self.latch(page)?.exclusive() {
                return Ok(Exclusive::new(self, latch, None));
            }
            if self.is_pending(page) {
                self.load(page)?;
                continue;
            }
            self.file.check(page)?;
            let frame = self.free_frame()?;
            if let Some(loading) = self.latch(page)?.begin_load() {
                if loading.is_in_frame() {
                    loading.finish();
                    continue;
                }
                let frame = frame.fill(page);
                return Ok(Exclusive::new(self, loading.finish_exclusive(), Some(frame)));
            }
        }
    }

    /// Fills newly allocated pages with a pattern, if [`PoolOptions::poison_free`] is set. The records that freed them last are
    /// not newer than `now`.
    ///
    /// A page becomes no dirtier than it is: the pattern reaches the file together with a later change, or not at all, as any
    /// bytes of a free page may.
    ///
    /// # Errors
    /// As [`Pool::read`].
    pub fn poison_allocated(&self, first: PageId, pages: u64, now: Lsn) -> Result<(), PoolError> {
        if !self.options.poison_free {
            return Ok(());
        }
        for page in (first.get()..first.get() + pages).map(PageId::new) {
            match self.latch(page)?.exclusive() {
                Some(latch) => Exclusive::new(self, latch, None).poison(now),
                // Every other page stays as it is, so that pages are formatted without being read, too.
                None if page.get().is_multiple_of(2) => self.exclusive(page)?.poison(now),
                None => {}
            }
        }
        Ok(())
    }

    /// Fills pages that were freed not later than at `ended_at` with a pattern, as [`Pool::poison_allocated`] does, before they
    /// can be allocated again: those in memory that no thread holds.
    pub fn poison_freed(&self, first: PageId, pages: u64, ended_at: Lsn) {
        if !self.options.poison_free {
            return;
        }
        for page in (first.get()..first.get() + pages).map(PageId::new) {
            if let Some(latch) = self.table.latch(page).and_then(Latch::try_exclusive) {
                Exclusive::new(self, latch, None).poison(ended_at);
            }
        }
    }

    /// Loads the page unless it is in; waits for the load of another thread. Redoes what is pending in it.
    #[cold]
    fn load(&self, page: PageId) -> Result<(), PoolError> {
        self.file.check(page)?;
        // The frame comes first: finding one may take a write-back, and no thread shall wait for that behind a latch.
        let frame = self.frame_unless_pending(&self.latch(page)?)?;
        let Some(loading) = self.latch(page)?.begin_load() else {
            return Ok(());
        };
        let _running = self.loads.begin();
        if !loading.is_in_frame() {
            // Without a frame: it was evicted just now, and the caller tries again.
            let Some(frame) = frame else { return Ok(()) };
            if self.is_formatted_by_redo(page) {
                frame.fill(page);
            } else {
                self.read_into(page, frame)?;
            }
        }
        self.finish_load(page, loading)
    }

    /// Reads the page at home into the frame, or rebuilds it. The caller loads it.
    pub(crate) fn read_into(&self, page: PageId, frame: FreeFrame<'_>) -> Result<(), PoolError> {
        let mut buffer = self.staging_buffer(PAGE_LEN);
        let at_home = self.file.read(page, &mut buffer).and_then(|()| self.file.verify(&buffer, page));
        let read = at_home.is_ok();
        let loaded = match at_home {
            Ok(()) => self.is_within_log(&buffer, page),
            Err(damage) => self.rebuild(page, damage).map(|rebuilt| buffer.copy_from_slice(rebuilt.page_ref().bytes())),
        };
        if loaded.is_ok() {
            // Into the frame by atomic words: a late reader may still be reading it.
            self.words(page).store(0, &buffer);
            frame.fill(page);
            if read {
                Counters::add(&self.counters.read, 1);
            } else {
                if planted!("rebuilt_page_latched_in_order") {
                    drop(Held::take(Latched::ExclusivePage(page)));
                }
                self.note_damaged_home(page);
            }
        }
        self.return_staging_buffer(buffer);
        loaded
    }

    /// Checks that the bytes verify, and that the log has the records of the page.
    fn is_sound(&self, bytes: &[u8], page: PageId) -> Result<(), PoolError> {
        self.file.verify(bytes, page)?;
        self.is_within_log(bytes, page)
    }

    /// Checks that the log has the records of the page: a page newer than its log is all that is left of lost records, and
    /// nothing could be redone or undone on it (E20.5).
    fn is_within_log(&self, bytes: &[u8], page: PageId) -> Result<(), PoolError> {
        if lsn_of(bytes.try_into().expect("one page at a time")) > self.log.current_lsn() {
            return Err(self.damaged(Damaged::newer_than_log(page)));
        }
        Ok(())
    }

    /// Reads pages into memory that will be needed soon, adjacent ones with one call. Only a hint: pages that cannot
    /// be read are skipped, and no dirty page is written home to free frames for them.
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

    /// Returns `false` if there are no frames for more.
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
        // All latches are only tried: pages that another thread is loading are left to it.
        let loading: Vec<_> = run.iter().map(|&page| self.table.latch(page).and_then(Latch::try_begin_load)).collect();
        let _running = self.loads.begin();
        let mut buffer = self.staging_buffer(run.len() * PAGE_LEN);
        if self.file.read(first, &mut buffer).is_ok() {
            for (((&page, loading), frame), bytes) in
                run.iter().zip(loading).zip(frames).zip(buffer.chunks_exact(PAGE_LEN))
            {
                // A damaged page stays out; a later read of it reports the damage.
                if let Some(loading) = loading
                    && self.is_sound(bytes, page).is_ok()
                {
                    self.words(page).store(0, bytes);
                    frame.fill(page);
                    // Whether it is pending is decided when it is needed.
                    if self.redoing.is_on() {
                        loading.finish_pending()
                    } else {
                        loading.finish()
                    }
                    Counters::add(&self.counters.read, 1);
                }
            }
        }
        self.return_staging_buffer(buffer);
        true
    }

    /// Allocates space at home for at least `pages` pages, durably.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`] is reported here, so that writing home never meets it; nothing has changed then.
    pub fn ensure_len(&self, pages: u64) -> Result<(), PoolError> {
        self.file.ensure(pages, &self.log)
    }

    /// Allocates space at home again for pages that [were punched](Pool::punch), durably, before they are used.
    ///
    /// # Errors
    /// As [`Pool::ensure_len`]; nothing has changed then.
    pub fn reserve(&self, first: PageId, pages: u64) -> Result<(), PoolError> {
        self.file.reserve(first, pages, &self.log)
    }

    /// Whether the page is in memory now.
    pub fn is_resident(&self, page: PageId) -> bool {
        self.table.latch(page).is_some_and(|latch| latch.is_in())
    }

    /// Whether the page has been written home and was not punched since: then it certainly has space there.
    pub fn was_written(&self, page: PageId) -> bool {
        self.file.was_written(page)
    }

    /// Whether the bytes of a page that does not verify at home may be what a crash has left of a [punch](Pool::punch): it does
    /// not count as written, and one of its sectors reads as zeros. Then it was not changed since, or the log has all its records
    /// from the one that formats it on.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn may_be_half_punched(&self, page: PageId) -> Result<bool, PoolError> {
        if self.file.was_written(page) || planted!("half_punched_page_is_damage") {
            return Ok(false);
        }
        let mut buffer = self.staging_buffer(PAGE_LEN);
        let read = self.file.read(page, &mut buffer);
        let has_hole = buffer.chunks(SECTOR_LEN).any(|sector| sector.iter().all(|&byte| byte == 0));
        self.return_staging_buffer(buffer);
        read.map(|()| has_hole)
    }

    /// Returns the number of pages for which home has space.
    pub fn len_pages(&self) -> u64 {
        self.file.pages()
    }

    /// Returns the space of free pages, extents of a first page and a number of pages, to the file system. Their
    /// content is undefined until they are formatted.
    ///
    /// The caller ensures that they are free and that the redo point has passed the records that freed them.
    ///
    /// # Errors
    /// The file system refuses: some pages may have been punched. Or the store stopped.
    pub fn punch(&self, extents: &[(PageId, u64)]) -> Result<(), PoolError> {
        let pages = extents.iter().flat_map(|&(first, count)| (0..count).map(move |page| first.after(page)));
        for latch in pages.filter_map(|page| self.table.latch(page)) {
            latch.cool();
        }
        // No batch is in flight meanwhile, so that none of its pages is noted as written and punched afterwards
        // (E22.2).
        let _no_batch = self.area.lock();
        self.file.punch(extents, &self.log)
    }

    /// Returns the name of the page file, for messages.
    pub fn path(&self) -> String {
        self.file.path()
    }

    /// Returns damage of a page as an error, with the file and the offset in it.
    pub fn damaged(&self, damage: Damaged) -> PoolError {
        PoolError::damaged(self.file.path(), damage)
    }

    /// Returns the pages that did not verify at home when the pool was opened, and were restored from the double-write area.
    pub fn restored_pages(&self) -> &[PageId] {
        &self.restored
    }

    /// Returns the statistics of the pool. Counts dirty pages one by one.
    pub fn stats(&self) -> PoolStats {
        let dirty = |&page: &PageId| self.table.recovery_lsn(page).load(Ordering::Relaxed) != 0;
        PoolStats {
            resident_pages: self.clock.in_use(),
            dirty_pages: self.clock.pages().filter(dirty).count(),
            pages_read: self.counters.read.load(Ordering::Relaxed),
            pages_written: self.counters.written.load(Ordering::Relaxed),
            pages_evicted: self.counters.evicted.load(Ordering::Relaxed),
            pages_restored: self.restored.len() as u64,
            pages_rebuilt: self.rebuilding.lock().times,
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
        // As many as there are processors to use them; more buffers, from a burst of readers, are freed.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a system with address space for `room` pages; returns the reservation and the number of requests.
    fn reserved(wanted: u64, needed: u64, room: u64) -> (Option<u64>, usize) {
        let mut asked = 0;
        let reserve = |pages| {
            asked += 1;
            if pages <= room { Ok(pages) } else { Err(io::ErrorKind::OutOfMemory.into()) }
        };
        let reserved = reserve_what_is_there(wanted, needed, reserve);
        (reserved.ok().map(|(pages, said)| (assert_eq!(pages, said), pages).1), asked)
    }

    #[test]
    fn refused_reservation_falls_back_to_less() {
        assert_eq!(reserved(1 << 28, 1000, u64::MAX), (Some(1 << 28), 1));
        assert_eq!(reserved(1 << 28, 1000, 1 << 20).0, Some(1 << 18), "a quarter of what there is");
        assert_eq!(reserved(1 << 28, 1 << 19, 1 << 20).0, Some(1 << 19), "but what the file needs");
        assert_eq!(reserved(1 << 28, 1 << 20, 1 << 20).0, Some(1 << 20));
        assert_eq!(reserved(1 << 28, (1 << 20) + 1, 1 << 20).0, None);
        assert_eq!(reserved(1000, 1000, 999), (None, 1));
        assert_eq!(reserved(1000, 2000, u64::MAX).0, Some(1000));
    }

    #[test]
    fn refusal_names_size_and_option() {
        let text = refused(1 << 20, io::ErrorKind::OutOfMemory.into()).to_string();
        assert!(
            text.contains("4311744512 bytes") && text.contains("pages_max") && text.contains("ulimit -v"),
            "{text}"
        );
    }
}
