//! Readers beside the process that has a store open (E26).
//!
//! 1. A [`Reader`] has a private copy of the store: the log from a checkpoint on, the heaps of that time, and the pages that were needed.
//!    Nothing in the store's directory is changed, and the writer knows nothing of its readers.
//! 2. A view is opened over the copy as a store is opened after a crash: history is repeated, and what had not committed is undone, in
//!    files of the view.
//! 3. A refresh extends the copy by the log that is new, and opens a view over it. If the log was recycled beyond the copy, or another
//!    process has opened the store since, the copy is begun anew.
//! 4. A page that is newer than the view is no base for it: the view refuses it, and the next one has it. Pages that the log names are
//!    copied before the end of the log is determined, so they are not newer.

mod copy;

use cedrat_heap::MemoryOptions;
use cedrat_media::{Media, Overlay};
use cedrat_pages::PagesAsOf;
use cedrat_sync::{Arc, Mutex, planted};
use cedrat_wal::{LogError, Lsn};
use std::fmt;
use std::io;

use crate::as_of;
use crate::error::{Error, OpenError, Result};
use crate::options::Options;
use crate::registry::Registry;
use crate::store::Store;
use crate::transaction::Txn;
use copy::Copy;

/// The number of attempts to open a view while the store changes.
const ATTEMPTS: usize = 16;

/// The number of attempts for which the store need not have changed: the first one may have read a file while it was written.
const ATTEMPTS_UNCHANGED: usize = 3;

/// A function that returns a medium.
pub type MediaSource = Arc<dyn Fn() -> io::Result<Arc<dyn Media>> + Send + Sync>;

/// The directories of a reader.
#[derive(Clone)]
pub struct ReaderFiles {
    /// Returns the directory of the store, opened anew. It is only read.
    pub store: MediaSource,
    /// Returns another empty directory at each call, for private files. They are deleted when the medium is dropped.
    pub scratch: MediaSource,
    /// Whether all pages are copied at the beginning. Reads of many pages beside a busy writer then need no later state.
    pub copies_pages: bool,
}

impl fmt::Debug for ReaderFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReaderFiles").field("copies_pages", &self.copies_pages).finish_non_exhaustive()
    }
}

/// A reader of a store that another process may have open.
///
/// It shows the store as of one LSN: everything that had committed up to there, and nothing else. [`refresh`](Reader::refresh) moves it
/// on. It may be shared by threads.
pub struct Reader {
    files: ReaderFiles,
    options: Options,
    registry: Registry,
    /// Held while a view is opened.
    copy: Mutex<Option<Copy>>,
    view: Mutex<View>,
}

/// A view of a reader.
#[derive(Clone)]
struct View {
    store: Store,
    media: Arc<dyn Media>,
    pages: Arc<PagesAsOf>,
    lsn: Lsn,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("lsn", &self.lsn()).finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens a reader. The store may be open in any process, or in none.
    ///
    /// `options` are those of a store, without an [archive](Options::archive) and without a [backup](Options::backup). Views have no
    /// threads of their own, and take memory for pages and heaps as a store does.
    ///
    /// # Errors
    /// Those of [`Store::open`], except [`OpenError::InUse`]. [`Error::Misuse`]: the options have an archive or a backup.
    pub fn open(files: ReaderFiles, options: Options, registry: Registry) -> Result<Reader, OpenError> {
        Ok(Reader::open_any(files, options, registry)?)
    }

    fn open_any(files: ReaderFiles, options: Options, registry: Registry) -> Result<Reader> {
        if options.archive.is_some() || options.backup.is_some() {
            return Err(Error::Misuse("a reader takes neither Options::archive nor Options::backup"));
        }
        registry.check()?;
        let mut copy = None;
        let view = Opening { files: &files, options: &options, registry: &registry }.view(&mut copy, None)?;
        Ok(Reader { files, options, registry, copy: Mutex::new(copy), view: Mutex::new(view) })
    }

    /// Returns the LSN of the state that the reader shows.
    pub fn lsn(&self) -> Lsn {
        self.view.lock().lsn
    }

    /// Returns the store as of [`lsn`](Reader::lsn), which stays as it is when the reader is refreshed.
    ///
    /// Changes are refused with [`Error::ReadOnly`], plain stores to heaps with `Misuse`. A read is refused with an error of the page file
    /// if the page has changed since: refresh the reader, and read from its new store. [`transact`](Reader::transact) does so.
    pub fn store(&self) -> Store {
        self.view.lock().store.clone()
    }

    /// Returns the files of the [store](Reader::store) that the reader shows: private ones, and those that were copied.
    pub fn media(&self) -> Arc<dyn Media> {
        Arc::clone(&self.view.lock().media)
    }

    /// Moves on to the newest state, and returns its LSN: every record is in it that was durable when the call began.
    ///
    /// # Errors
    /// Those of [`Reader::open`]. The reader shows the state that it had.
    pub fn refresh(&self) -> Result<Lsn> {
        let mut copy = self.copy.lock();
        self.refresh_copy(&mut copy)
    }

    fn refresh_copy(&self, copy: &mut Option<Copy>) -> Result<Lsn> {
        let before = self.view.lock().clone();
        let opening = Opening { files: &self.files, options: &self.options, registry: &self.registry };
        let view = opening.view(copy, Some(&before))?;
        let lsn = view.lsn;
        *self.view.lock() = view;
        Ok(lsn)
    }

    /// Runs `work` in a transaction of the store as of [`lsn`](Reader::lsn), and rolls it back. If `work` fails because it needs a page
    /// that has changed since, the reader is refreshed, and `work` is run again.
    ///
    /// # Errors
    /// Those of `work`; those of [`refresh`](Reader::refresh). If the store changes faster than `work` reads, that of the last read:
    /// open the reader with [`ReaderFiles::copies_pages`].
    pub fn transact<T>(&self, mut work: impl FnMut(&mut Txn) -> Result<T>) -> Result<T> {
        for attempt in 1.. {
            let View { store, pages, lsn, .. } = self.view.lock().clone();
            let error = match store.transact(&mut work) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let is_old = pages.has_met_newer() || matches!(error, Error::Pages(_));
            if !is_old || attempt == ATTEMPTS {
                return Err(error);
            }
            let mut copy = self.copy.lock();
            if !pages.has_met_newer() {
                // A page that was freed and punched since reads as lost; one that the dead writer has left torn, as damaged.
                *copy = None;
            }
            if self.lsn() == lsn && self.refresh_copy(&mut copy)? == lsn && !pages.has_met_newer() {
                return Err(error);
            }
        }
        unreachable!("the last attempt returns")
    }
}

/// The opening of a view.
struct Opening<'a> {
    files: &'a ReaderFiles,
    options: &'a Options,
    registry: &'a Registry,
}

impl Opening<'_> {
    /// Opens a view of the newest state, unless `before` is that.
    fn view(&self, copy: &mut Option<Copy>, before: Option<&View>) -> Result<View> {
        let mut unchanged = 0;
        let state = || copy::state(self.files, self.options).ok();
        for attempt in 1.. {
            let seen = state();
            let error = match self.attempt(copy, before) {
                Ok(view) => return Ok(view),
                Err(error) => error,
            };
            // With a copy, a page has changed.
            unchanged += usize::from(copy.is_none() && state() == seen);
            if attempt == ATTEMPTS || unchanged == ATTEMPTS_UNCHANGED || !may_pass(&error) {
                return Err(error);
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Opens a view of the newest state. After an error the copy is what the next attempt continues; if there is none, it begins one.
    fn attempt(&self, copy: &mut Option<Copy>, before: Option<&View>) -> Result<View> {
        // Opened anew: files that were removed since may have other ones of their names.
        let live = copy::live(self.files, self.options)?;
        let mut extended = match copy.take() {
            Some(copy) if !copy.is_outdated(&live)? => copy.extend(&live)?,
            _ => None,
        };
        if let (None, Some(before), true) = (&extended, before, planted!("other_opening_not_followed")) {
            return Ok(before.clone());
        }
        if extended.is_none() {
            extended = Copy::begin(self.files, self.options)?.extend(&live)?;
        }
        let Some((extended, lsn)) = extended else {
            return Err(Error::io("reading the log of a store beside its writer", io::ErrorKind::Interrupted.into()));
        };
        if let Some(before) = before.filter(|before| before.lsn == lsn && !before.pages.has_met_newer()) {
            *copy = Some(extended);
            return Ok(before.clone());
        }
        let pages = Arc::new(PagesAsOf::new(extended.pages(), lsn));
        let opened = self.open(&extended, &pages);
        // With another error, the copy may be what is wrong.
        if opened.is_ok() || pages.has_met_newer() {
            *copy = Some(extended);
        }
        let (store, media) = opened?;
        let lsn = if planted!("reader_names_later_lsn") { lsn.next() } else { lsn };
        Ok(View { store, media, pages, lsn })
    }

    fn open(&self, copy: &Copy, pages: &Arc<PagesAsOf>) -> Result<(Store, Arc<dyn Media>)> {
        let scratch = copy::scratch(self.files, self.options)?;
        let overlay: Arc<dyn Media> = Arc::new(Overlay::new(Arc::clone(pages) as _, scratch));
        copy.write_control(&*overlay)?;
        let options = Options {
            create: false,
            background: false,
            // A view is read and dropped: what it has changed needs no home.
            checkpoint_when_opened: false,
            redo_on_demand_bytes: u64::MAX,
            // The store that is read may replace its checkpoints at any time.
            memory: MemoryOptions { load_on_demand_bytes: u64::MAX, ..self.options.memory.clone() },
            ..self.options.clone()
        };
        let store = Store::open(Arc::clone(&overlay), options, self.registry.clone())?;
        if !planted!("reader_takes_changes") {
            as_of::make_read_only(&store)?;
        }
        Ok((store, overlay))
    }
}

/// Whether the reason of an error may be that the store was changed while it was read.
fn may_pass(error: &Error) -> bool {
    if planted!("reader_does_not_retry") {
        return false;
    }
    use LogError::{Absent, Foreign, Key, Version};
    let is_final = |error: &LogError| matches!(error, Absent { .. } | Foreign { .. } | Key(_) | Version { .. });
    match error {
        Error::Log(error) => !is_final(error),
        error => !matches!(error, Error::Misuse(_) | Error::Unregistered { .. } | Error::Open(_)),
    }
}
