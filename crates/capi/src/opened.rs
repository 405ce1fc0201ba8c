//! An open store as the C interface represents it, and blocks that are filled with plain stores before the threads start.

use front::Store;
use front::heap::{Commit, Error, Heap, Held, Memory};
use front::media::{Encryption, Media, RealDisk};
use front::txn::{BackupOptions, Reader, ReaderFiles, RestoreTarget, ScrubOptions, View, open_as_of};
use front::wal::Lsn;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::UNIX_EPOCH;

use crate::border::Handle;
use crate::options::{BackupReport, HeapChoices, ScrubReport, Statistics, StoreChoices, Usage};
use crate::status::{Failure, Result, Status};

/// Type of a root that a C program has set, for readers of the heap in another language.
pub(crate) const ROOT_TYPE: &str = "C";

/// Number of repetitions of a checkpoint because a commit was in progress: with threads running, some may be.
const CHECKPOINTS_MAX: u32 = 100;

/// Target of a `cedrat_store *`.
pub(crate) struct Opened {
    // Dropped in this order: the store last, because every other field keeps it open.
    plain: Mutex<Option<Plain>>,
    heaps: Mutex<Vec<Arc<HeapHandle>>>,
    memory: Memory,
    /// `None` if the memory is volatile; there is no store then.
    store: Option<Store>,
    /// Whether bytes were stored plainly since the last checkpoint.
    stored_plainly: AtomicBool,
    /// Number of running backups. It changes under `plain`.
    backups: AtomicUsize,
    /// Whether a panic occurred within a volatile store, which has no log to stop it.
    panicked: AtomicBool,
    /// Whether each load and store checks that it lies in a block.
    pub(crate) checks_blocks: bool,
    /// Number of descriptors that were created and not freed.
    pub(crate) threads: AtomicUsize,
    message: Mutex<String>,
}

/// Target of a `cedrat_heap *`. It lives as long as the store is open.
pub(crate) struct HeapHandle {
    pub(crate) opened: Weak<Opened>,
    pub(crate) heap: Heap,
}

/// Transaction that allocates blocks for plain stores, and those blocks. It commits when their content is on the disk: a
/// crash before leaves neither.
struct Plain {
    held: Held,
    blocks: Vec<(Heap, u64, u64)>,
}

/// Locks a mutex, also after a panic: a panic leaves no partial change in the data of these mutexes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Destination of a backup.
pub(crate) enum Destination {
    Directory(String),
    Stream(Box<dyn Write + Send>),
}

/// Copies a store.
fn copy(
    store: &Store,
    to: Destination,
    since: &[&str],
    bytes_per_second_max: u64,
) -> Result<front::txn::BackupReport, front::Error> {
    let since = if since.is_empty() { None } else { Some(front::backup_chain(since)?) };
    let options = BackupOptions { since: since.as_ref(), bytes_per_second_max, ..BackupOptions::default() };
    match to {
        Destination::Directory(directory) => front::backup(store, directory, options),
        Destination::Stream(stream) => store.backup_to_stream(stream, options),
    }
}

impl Opened {
    /// Opens a store, with an archive in a directory if there is one, and a backup.
    pub(crate) fn open(
        directory: &str,
        archive: Option<&str>,
        backup: Option<&str>,
        encryption: Option<Encryption>,
        choices: StoreChoices,
    ) -> Result<Arc<Opened>> {
        let mut options = choices.to_options()?;
        options.encryption = encryption;
        if backup.is_some() && archive.is_none() {
            return Err(Failure::new(
                Status::Options,
                "backup: pages are rebuilt from a backup and an archive; set archive, too",
            ));
        }
        if let Some(archive) = archive {
            options = front::archived_in(archive, options);
        }
        if let Some(backup) = backup {
            options = front::rebuilt_from(backup, options);
        }
        let (memory, store) = if choices.volatile_memory != 0 {
            (Memory::volatile(options.memory)?, None)
        } else {
            let store = front::open_with(directory, options, front::registry())?;
            (store.memory(), Some(store))
        };
        Ok(Opened::of(memory, store, choices))
    }

    /// Opens a store as it was at a moment, from a backup with its increments and an archive, and returns the LSN as of which it is.
    pub(crate) fn view(
        backups: &[&str],
        archive: Option<&Path>,
        moment: RestoreTarget,
        scratch: &str,
        encryption: Option<Encryption>,
        choices: StoreChoices,
    ) -> Result<(Arc<Opened>, Lsn)> {
        let options = choices.to_options_of_reader(
            encryption,
            "a view has its backup and its archive as arguments; leave volatile_memory, archive and backup zero",
        )?;
        let chain = front::encrypted_chain(backups, options.encryption.as_ref())?;
        let archive = archive.map(|archive| -> Arc<dyn Media> { Arc::new(RealDisk::new(archive)) });
        let scratch: Arc<dyn Media> = Arc::new(RealDisk::buffered(scratch));
        let view = View { backup: Arc::clone(chain.media()), archive, moment, scratch };
        let (store, lsn) = open_as_of(&view, options, front::registry())?;
        Ok((Opened::of(store.memory(), Some(store), choices), lsn))
    }

    /// Opens a store that another process may have open, to be read, and returns the LSN as of which it is. All pages are copied: C has
    /// no call that repeats what meets a newer page.
    pub(crate) fn beside(
        directory: &str,
        encryption: Option<Encryption>,
        choices: StoreChoices,
    ) -> Result<(Arc<Opened>, Lsn)> {
        let options = choices.to_options_of_reader(
            encryption,
            "a reader takes neither an archive nor a backup; leave volatile_memory, archive and backup zero",
        )?;
        let files = ReaderFiles { copies_pages: true, ..front::reader_files(directory, std::env::temp_dir()) };
        let reader = Reader::open(files, options, front::registry())?;
        let store = reader.store();
        Ok((Opened::of(store.memory(), Some(store), choices), reader.lsn()))
    }

    fn of(memory: Memory, store: Option<Store>, choices: StoreChoices) -> Arc<Opened> {
        Arc::new(Opened {
            plain: Mutex::new(None),
            heaps: Mutex::default(),
            memory,
            store,
            stored_plainly: AtomicBool::new(false),
            backups: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            checks_blocks: choices.check_blocks != 0,
            threads: AtomicUsize::new(0),
            message: Mutex::default(),
        })
    }

    /// Returns the store.
    ///
    /// # Errors
    /// The store is volatile: there are only heaps.
    pub(crate) fn store(&self) -> Result<&Store> {
        self.store.as_ref().ok_or_else(|| {
            let text = "the store is volatile: it has no records, graphs and prepared transactions; open it without volatile_memory";
            Failure::new(Status::Misuse, text)
        })
    }

    /// Checks that transactions may begin. A store on a disk is stopped by its log.
    #[inline(always)]
    pub(crate) fn check_running(&self) -> Result<()> {
        match self.panicked.load(Ordering::Relaxed) {
            true => Err(Failure::new(Status::Stopped, crate::border::PANICKED)),
            false => Ok(()),
        }
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    // ---- heaps ------------------------------------------------------------------------------------------------

    /// Returns the handle of a heap, which is always the same one.
    fn handle(self: &Arc<Opened>, heap: Heap) -> *const HeapHandle {
        let mut heaps = lock(&self.heaps);
        // A dropped heap may have had the same name, but it had another region.
        let same = |known: &HeapHandle| known.heap.name() == heap.name() && known.heap.address() == heap.address();
        if let Some(known) = heaps.iter().find(|known| same(known)) {
            return Arc::as_ptr(known);
        }
        let handle = Arc::new(HeapHandle { opened: Arc::downgrade(self), heap });
        heaps.push(Arc::clone(&handle));
        Arc::as_ptr(&handle)
    }

    pub(crate) fn create_heap(self: &Arc<Opened>, name: &str, choices: HeapChoices) -> Result<*const HeapHandle> {
        let heap = self.memory.create_heap(name, &choices.to_options()?)?;
        Ok(self.handle(heap))
    }

    pub(crate) fn open_heap(self: &Arc<Opened>, name: &str) -> Result<*const HeapHandle> {
        Ok(self.handle(self.memory.heap(name)?))
    }

    pub(crate) fn drop_heap(&self, name: &str) -> Result<()> {
        if lock(&self.plain).is_some() {
            return Err(Failure::new(
                Status::Misuse,
                "there are plain blocks; take a checkpoint before a heap is dropped",
            ));
        }
        Ok(self.memory.drop_heap(name)?)
    }

    pub(crate) fn is_stable(&self, lsn: u64, wait: bool) -> Result<bool> {
        Ok(self.memory.is_stable(front::wal::Lsn::new(lsn), wait)?)
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let counted = self.memory.counted();
        let (conflicts, partition_commits_made_sync) = (counted.conflicts, counted.partition_commits_made_sync);
        let Some(store) = &self.store else {
            return Statistics { conflicts, partition_commits_made_sync, created: 1, ..Statistics::default() };
        };
        let report = store.recovery();
        Statistics {
            conflicts,
            partition_commits_made_sync,
            newest_lsn: store.log().current_lsn().get(),
            stable_lsn: store.log().durable_lsn().get(),
            recovered_records: report.records,
            recovered_words: report.heap_words,
            recovery_nanoseconds: u64::try_from(report.total.as_nanos()).unwrap_or(u64::MAX),
            created: u64::from(report.created),
            checkpoint_failed: u64::from(store.checkpoint_failure().is_some()),
            refused_threads: report.refused_threads.len() as u64,
            archive_waits_since_ms: store
                .archive_status()
                .and_then(|status| status.waits_since)
                .map_or(0, |since| since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)),
            reserved: [0; 5],
        }
    }

    /// Returns the reason why the last checkpoint failed; empty if it succeeded.
    pub(crate) fn checkpoint_failure(&self) -> String {
        self.store.as_ref().and_then(Store::checkpoint_failure).unwrap_or_default()
    }

    // ---- plain blocks -----------------------------------------------------------------------------------------

    /// Locks the plain blocks while no backup runs, in a store without an archive. Plain stores are in no log: a backup that has copied a chunk before them would
    /// lack them, and have the commits after them.
    fn no_backup(&self) -> Result<MutexGuard<'_, Option<Plain>>> {
        if self.store.as_ref().is_some_and(|store| store.archive_status().is_some()) {
            let text =
                "plain stores are not in the log: use transactions, or a store without an archive that is no view";
            return Err(Failure::new(Status::Misuse, text));
        }
        let plain = lock(&self.plain);
        match self.backups.load(Ordering::Relaxed) {
            0 => Ok(plain),
            _ => Err(Failure::new(
                Status::Misuse,
                "a backup runs, which would miss plain stores; store plainly after it has ended",
            )),
        }
    }

    /// Copies the store while transactions run: all of it, or what changed since an earlier backup with its increments.
    pub(crate) fn backup(&self, to: Destination, since: &[&str], bytes_per_second_max: u64) -> Result<BackupReport> {
        let store = self.store()?;
        let plain = lock(&self.plain);
        if plain.is_some() || self.stored_plainly.load(Ordering::Acquire) {
            let text = "there are plain blocks or plain stores; take a checkpoint before a backup";
            return Err(Failure::new(Status::Misuse, text));
        }
        self.backups.fetch_add(1, Ordering::Relaxed);
        drop(plain);
        let copied = copy(store, to, since, bytes_per_second_max);
        let _plain = lock(&self.plain);
        self.backups.fetch_sub(1, Ordering::Relaxed);
        let report = copied?;
        let cannot_continue = u64::from(report.cannot_continue.is_some());
        if let Some(why) = report.cannot_continue {
            *lock(&self.message) = why;
        }
        Ok(BackupReport { cannot_continue, ..BackupReport::new(report.up_to, report.bytes, report.total) })
    }

    /// Archives all that is durable now.
    pub(crate) fn extend_archive(&self) -> Result<u64> {
        Ok(self.store()?.extend_archive()?.get())
    }

    /// Gives the store and its archive another key.
    pub(crate) fn rotate_key(&self, to: &Encryption) -> Result<()> {
        Ok(self.store()?.rotate_key(to)?)
    }

    pub(crate) fn forget_archive(&self, backup: &str) -> Result<u64> {
        Ok(front::forget_before_backup(self.store()?, backup)?.get())
    }

    /// Reads all pages, and rebuilds damaged ones. Returns the first damage that is left, too.
    pub(crate) fn scrub(&self, bytes_per_second_max: u64) -> Result<(ScrubReport, Option<Failure>)> {
        let found = self.store()?.scrub(ScrubOptions { bytes_per_second_max }, |_| ControlFlow::Continue(()))?;
        let damaged = found.damaged.len() as u64;
        let report = ScrubReport {
            pages: found.pages,
            log_records: found.log_records,
            rebuilt: found.rebuilt,
            damaged,
            ..ScrubReport::default()
        };
        Ok((report, found.damaged.into_iter().next().map(Failure::from)))
    }

    /// Runs a step of the transaction that allocates plain blocks.
    fn plainly<T>(&self, step: impl FnOnce(&mut Plain) -> Result<T, Error>) -> Result<T> {
        let mut plain = self.no_backup()?;
        let is_first = plain.is_none();
        if is_first {
            let mut held = Held::new(&self.memory)?;
            held.begin()?;
            *plain = Some(Plain { held, blocks: Vec::new() });
        }
        let running = plain.as_mut().expect("it was just made");
        let done = step(running);
        let is_overtaken = matches!(done, Err(Error::Conflict));
        // Without blocks, a transaction that runs until the next checkpoint would only keep freed blocks from their reuse.
        if is_overtaken || is_first && done.is_err() {
            *plain = None;
        }
        if is_overtaken { Err(overtaken()) } else { Ok(done?) }
    }

    pub(crate) fn plain_alloc(&self, heap: &Heap, len: u64) -> Result<usize> {
        self.plainly(|plain| {
            // Not logged as a whole: the checkpoint copies its content.
            let offset = plain.held.run(|tx| tx.allocate(heap, len))?;
            plain.blocks.push((heap.clone(), offset, len));
            Ok(heap.address() + offset as usize)
        })
    }

    pub(crate) fn plain_set_root(&self, heap: &Heap, name: &str, address: usize) -> Result<()> {
        let offset = offset_in(heap, address)?;
        self.plainly(|plain| plain.held.run(|tx| tx.set_root(heap, name, offset, ROOT_TYPE)))
    }

    /// Takes a checkpoint, and then commits the blocks allocated for plain stores.
    ///
    /// The order makes this atomic (E17.5): the content of the blocks is on the disk before any committed word references
    /// them. No older record overwrites it in recovery, because the checkpoint needs none up to a clock read after the
    /// blocks were allocated.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let mut plain = lock(&self.plain);
        let Some(Plain { blocks, held }) = &mut *plain else {
            return self.store.as_ref().map_or(Ok(()), |store| self.checkpoint_stores(store));
        };
        // The blocks are given up only when nothing but a collision can fail: after any other failure the program takes the
        // checkpoint again, and it includes them.
        if let Some(store) = &self.store
            && !self.copy_plain_stores(store, blocks)?
        {
            return Err(log_is_kept());
        }
        held.reserve()?;
        let Plain { mut held, .. } = plain.take().expect("the lines above have used it");
        held.commit(Commit::Sync).map_err(|error| match error {
            Error::Conflict => overtaken(),
            other => other.into(),
        })?;
        Ok(())
    }
}

impl Opened {
    /// Records that bytes were changed by plain stores: the next checkpoint copies them.
    pub(crate) fn plain_stored(&self, heap: &Heap, offset: u64, len: u64) -> Result<()> {
        let _plain = self.no_backup()?;
        heap.stored_plainly(offset, len)?;
        self.stored_plainly.store(true, Ordering::Release);
        Ok(())
    }

    /// Takes a checkpoint when there are no plain blocks, and as many checkpoints as plain stores need.
    fn checkpoint_stores(&self, store: &Store) -> Result<()> {
        if !self.stored_plainly.swap(false, Ordering::AcqRel) {
            return Ok(store.checkpoint()?);
        }
        let copied = self.copy_plain_stores(store, &[]);
        if !matches!(copied, Ok(true)) {
            self.stored_plainly.store(true, Ordering::Release);
        }
        if copied? {
            return Ok(());
        }
        Err(log_is_kept())
    }

    /// Takes checkpoints until one contains the plain stores and no older record is needed that recovery would write over
    /// them. Returns `false` if running transactions keep such records.
    fn copy_plain_stores(&self, store: &Store, blocks: &[(Heap, u64, u64)]) -> Result<bool> {
        let clock = store.log().current_lsn();
        for (heap, offset, len) in blocks {
            heap.stored_plainly(*offset, *len)?;
        }
        let mut attempts = 0;
        store.checkpoint()?;
        while self.memory.redo_from() < clock {
            attempts += 1;
            if attempts > CHECKPOINTS_MAX {
                return Ok(false);
            }
            store.checkpoint()?;
        }
        Ok(true)
    }
}

impl Handle for Opened {
    fn close(self: Arc<Opened>) -> Result<(), (Option<Arc<Opened>>, Failure)> {
        if self.threads.load(Ordering::Acquire) > 0 {
            let text = "thread descriptors of the store live still; free them first, then close it";
            return Err((Some(self), Failure::new(Status::Misuse, text)));
        }
        let opened = Arc::try_unwrap(self).map_err(|opened| {
            let text =
                "a graph, transaction, change stream or consumer of the store is open, or another call uses it; close it when that is closed, or has returned";
            (Some(opened), Failure::new(Status::Misuse, text))
        })?;
        let Opened { plain, heaps, memory, store, .. } = opened;
        drop((plain, heaps, memory));
        store.map_or(Ok(()), Store::close).map_err(|error| (None, error.into()))
    }

    fn stop(&self, why: &str) {
        match &self.store {
            Some(store) => store.log().stop(why),
            None => self.panicked.store(true, Ordering::Relaxed),
        }
    }

    fn failed(&self, failure: Failure) -> Status {
        *lock(&self.message) = failure.text.into_owned();
        failure.status
    }

    fn message(&self) -> String {
        lock(&self.message).clone()
    }
}

fn overtaken() -> Failure {
    let text = "plain blocks were overtaken by a transaction, and all of them are gone since the last checkpoint; \
                allocate them, and take the checkpoint, before the threads start";
    Failure::new(Status::Misuse, text)
}

fn log_is_kept() -> Failure {
    let text = "a transaction that began before the checkpoint keeps log that would be replayed over plain stores; end it, \
                then take the checkpoint again";
    Failure::new(Status::Misuse, text)
}

/// Returns the offset of an address in a heap.
pub(crate) fn offset_in(heap: &Heap, address: usize) -> Result<u64> {
    let offset = address.wrapping_sub(heap.address()) as u64;
    if offset >= heap.size() {
        return Err(out_of_range(address));
    }
    Ok(offset)
}

/// Returns the error for an address outside of all heaps.
#[cold]
pub(crate) fn out_of_range(address: usize) -> Failure {
    Failure::new(Status::OutOfRange, format!("the address {address:#x} lies in no heap of the store"))
}

impl HeapHandle {
    pub(crate) fn opened(&self) -> Result<Arc<Opened>> {
        self.opened.upgrade().ok_or_else(|| Failure::new(Status::Misuse, "the store of this heap is closed"))
    }

    pub(crate) fn grow(&self, size: u64) -> Result<()> {
        Ok(self.heap.grow(size)?)
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        let usage = self.heap.verify()?;
        Ok(Usage {
            blocks: usage.blocks,
            bytes: usage.bytes,
            taken_bytes: usage.taken,
            free_bytes: usage.free,
            account_bytes: usage.account,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat_txn::object_cache::{TakenBack, ToPages, Unflushed, UnflushedRecords};
    use front::wal::{ByteLen, Lsn, TxnId};

    /// Keeps nothing, and fails the flush of the next checkpoint.
    #[derive(Default)]
    struct Failing(AtomicBool);

    impl Unflushed for Failing {
        fn oldest(&self) -> Option<Lsn> {
            None
        }

        fn flush(&self, _: Lsn, _: &ToPages<'_>) -> front::Result<()> {
            match self.0.swap(false, Ordering::Relaxed) {
                true => Err(front::Error::Misuse("as planned")),
                false => Ok(()),
            }
        }

        fn taken_back(&self, _: TakenBack) {}

        fn ended(&self, _: TxnId, _: Option<Lsn>) {}
    }

    fn open(folder: &tempfile::TempDir) -> Arc<Opened> {
        let path = folder.path().to_str().expect("text");
        Opened::open(
            path,
            None,
            None,
            None,
            StoreChoices { no_huge_pages: 1, no_background: 1, ..StoreChoices::default() },
        )
        .expect("a store")
    }

    fn root(opened: &Opened) -> Option<u64> {
        let heap = opened.memory.heap("heap").expect("it was created");
        heap.atomically(|tx| tx.root(&heap, "root")).expect("reading").map(|root| root.offset)
    }

    /// The copy is made, but the log has no room for the commit of the blocks.
    #[test]
    fn full_log_keeps_plain_blocks() {
        const PIECE: ByteLen = ByteLen(64 << 10);
        let folder = tempfile::tempdir().expect("a directory");
        let opened = open(&folder);
        opened.create_heap("heap", HeapChoices { size: 8 << 20, ..HeapChoices::default() }).expect("a heap");
        let heap = opened.memory.heap("heap").expect("it was created");
        let block = opened.plain_alloc(&heap, 64).expect("room");
        opened.plain_set_root(&heap, "root", block).expect("it is allocated");
        let more = (0..20_000).map(|_| opened.plain_alloc(&heap, 8).expect("room"));
        assert_eq!(more.count(), 20_000);
        let log = opened.store().expect("it has files").log();
        let for_copies = log.reserve(PIECE, ByteLen(0)).expect("the log is empty");
        let mut all_other = log.reserve(ByteLen(0), ByteLen(0)).expect("the log is empty");
        while log.reserve_more(&mut all_other, PIECE, ByteLen(0)).is_ok() {}
        drop(for_copies);
        let full = opened.checkpoint().expect_err("the log is full");
        assert_eq!(full.status, Status::LogFull, "{}", full.text);
        assert_eq!(root(&opened), None);
        drop(all_other);
        opened.checkpoint().expect("its cause is gone");
        assert_eq!(root(&opened), Some((block - heap.address()) as u64), "an acknowledged block");
    }

    #[test]
    fn failed_checkpoint_keeps_plain_blocks() {
        let folder = tempfile::tempdir().expect("a directory");
        let opened = open(&folder);
        let choices = HeapChoices { size: 1 << 20, ..HeapChoices::default() };
        opened.create_heap("heap", choices).expect("a heap");
        let heap = opened.memory.heap("heap").expect("it was created");
        let failing = Arc::new(Failing::default());
        let _keeper = opened.store().expect("it has files").keep_log_for(Arc::clone(&failing) as Arc<dyn Unflushed>);
        let block = opened.plain_alloc(&heap, 64).expect("room");
        opened.plain_set_root(&heap, "root", block).expect("it is allocated");
        failing.0.store(true, Ordering::Relaxed);
        opened.checkpoint().expect_err("as planned");
        assert_eq!(root(&opened), None);
        opened.checkpoint().expect("its cause is gone");
        let offset = (block - heap.address()) as u64;
        assert_eq!(root(&opened), Some(offset), "an acknowledged block");
        drop((heap, opened));
        assert_eq!(root(&open(&folder)), Some(offset));
    }
}
