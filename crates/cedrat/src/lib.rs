#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod temporary;

use std::path::Path;
use std::sync::Arc;

use temporary::TemporaryDisk;

#[doc(inline)]
pub use cedrat_check as check;

/// Places for the files of a store: a directory, or a simulated disk for tests that need no files.
pub mod media {
    #[doc(inline)]
    pub use cedrat_media::{
        Call, Cursor, Damage, Durability, Encryption, Fault, FileId, Image, Journal, KEY_LEN, Key, KeyError, KeySource,
        Kill, LockGuard, Loss, Mark, Media, OpenMode, RealDisk, SimDisk,
    };
}

/// Terms of the log that occur at the border of a store: positions, tickets of commits, options, errors, and sinks of an
/// application's own.
pub mod wal {
    #[doc(inline)]
    pub use cedrat_wal::{
        ByteLen, Forced, FoundArchive, Local, LogError, LogFull, LogOffset, LogOptions, Lsn, Moment, PartitionId,
        Piece, Position, Replica, ReplicaSink, SEGMENT_LEN_MAX, SEGMENT_LEN_MIN, SegmentSink, Sink, StableWhen,
        StopReason, Stopped, StoreId, Ticket, TxnId,
    };
}

/// Pages as operations and structures of an application's own see them, and the options of their pool.
pub mod pages {
    #[doc(inline)]
    pub use cedrat_pages::layout;
    #[doc(inline)]
    pub use cedrat_pages::{
        BODY_LEN, Damaged, ExclusiveStructure, LatchRank, LatchedPage, LayoutKind, OptimisticPage,
        OwnedExclusiveStructure, OwnedSharedStructure, PAGE_FILE, PAGE_LEN, PageId, PageMut, PageRef, PoolError,
        PoolOptions, PoolStats, RebuiltPage, SharedStructure, Slot, Stamp, StructureLatch, TagMatches,
    };
}

/// Transactions on pages: stores, operations, locks, savepoints, nested actions and two-phase commit.
pub mod txn {
    #[doc(inline)]
    pub use cedrat_txn::{
        ArchiveStatus, BRANCH_ID_LEN_MAX, BackupChain, BackupCheck, BackupOptions, BackupProgress, BackupReport,
        BranchError, Change, ChangeSet, ChangeStream, CheckReport, Clock, Commit, Consumer, ConsumerOptions,
        ConsumerStatus, Error, Finish, FixedRestore, FixedSet, FollowProgress, Follower, ForgetBefore, FormatFixed,
        FormatFresh, FormatPage, HeuristicBranch, HeuristicOutcome, INLINE_LEN_MAX, InDoubt, LogicalUndo, Meaning,
        MediaSource, OpenError, Opening, Operation, Options, Pin, PinHolder, Pins, Prepared, Progress, Quorum, Reader,
        ReaderFiles, RecordId, RecoveryReport, Refused, Registry, Rehearsal, RemainingLog, ReplicaError, ReplicaFiles,
        ReplicaOptions, ReplicaServer, ReplicaStatus, RestorePage, RestoreReport, RestoreTarget, Result, Savepoint,
        ScrubOptions, ScrubProgress, ScrubReport, SetRange, SettledChanges, SlottedDelete, SlottedInsert,
        SlottedUpdate, SmallBytes, Store, StreamToken, SystemClock, Txn, TxnOptions, Undo, Undone, Upkeep,
        UpkeepProgress, VersionedDelete, VersionedInsert, VersionedUpdate, VersionedWithdraw, View, Vote,
        archive_remaining_log, check_backup, forget_archive, open_as_of, promote, restore, restore_stream,
    };
    #[doc(inline)]
    pub use cedrat_txn::{
        Deadlock, HasStopped, LockCounts, LockManager, LockMode, LockState, LockWait, NoLocks, NotGiven,
        PageLockOptions, PageLocks, Refusal, Resource, WaitPolicy,
    };
    #[cfg(feature = "metrics")]
    #[doc(inline)]
    pub use cedrat_txn::{METRICS, Metric};
}

/// Structures on pages, typed and of bytes, and the catalogue of their names.
pub mod structures {
    #[doc(inline)]
    pub use cedrat_structures::{
        ArrayList, Catalogue, Checked, ELEMENT_LEN_MAX, ENTRY_LEN_MAX, Entries, HashTable, Increment, Kind, List,
        MapChange, NAME_LEN_MAX, Named, PageList, PageListRecords, Pair, RECORD_LEN_MAX, RawArrayElements,
        RawArrayList, RawHashTable, RawList, RawListElements, RawPageList, Records, StructureError, StructureNames,
        Typed, Values, check_named, drop_named, requests,
    };
}

/// Memory with transactions: heaps, their sessions, typed values and structures.
pub mod heap {
    #[doc(inline)]
    pub use cedrat_heap::{
        Array, BatchFailed, Bytes, Checkpointed, Commit, Counted, Done, Error, Field, Handle, Heap, HeapCounter,
        HeapMap, HeapOptions, HeapOrderedMap, HeapQueue, HeapSavepoint, HeapTx, HeapVec, Held, Interrupt, Joined,
        Locking, Memory, MemoryOptions, Place, Plain, Result, Root, Session, Tx, Usage, WORD_LEN, Whole,
    };
}

/// Named collections of objects with a cache in front of their pages.
pub mod objects {
    #[doc(inline)]
    pub use cedrat_objects::{
        Change, Edit, NewObjects, OBJECT_LEN_MAX, ObjectDelta, ObjectError, ObjectId, Objects, Options, Reserved,
        Statistics, UndoPolicy, Version, register_delta,
    };
}

/// Objects that refer to each other: persistence by reachability, roots, and the collection of unreachable objects.
pub mod graph {
    #[doc(inline)]
    pub use cedrat_objects::graph::{
        Branch, Changed, Changes, Collected, Collection, Graph, GraphError, Identity, Mode, OBJECT_LEN_MAX, Object,
        Options, ROOT_NAME_LEN_MAX, Reference, Stage,
    };
}

#[doc(inline)]
pub use cedrat_txn::{Commit, Error, OpenError, Options, Registry, Result, Store, Txn};

/// Common imports of a program that uses a store.
pub mod prelude {
    #[doc(inline)]
    pub use cedrat_structures::{ArrayList, HashTable, List};
    #[doc(inline)]
    pub use cedrat_txn::{
        Commit, Error, Finish, LogicalUndo, OpenError, Operation, Options, RecordId, Refused, Registry, Result, Store,
        Txn, Undo,
    };
}

/// Opens the store in a directory, or creates it. Every opening runs recovery.
///
/// **Guarantee:** all changes of acknowledged commits are present, and no changes of transactions that did not commit.
/// **Threads:** any; one process at a time.
///
/// # Errors
/// [`OpenError::InUse`] if the store is open elsewhere; damage, with file and offset; [`OpenError::Unregistered`] if the log needs
/// operations of the program's own: then use [`open_with`]. A store that is refused before its
/// recovery begins is not changed.
pub fn open(directory: impl AsRef<Path>) -> Result<Store, OpenError> {
    open_with(directory, Options::default(), registry())
}

/// Like [`open`], with options, and with a registry that contains the program's own operations.
///
/// # Errors
/// Errors of [`open`]; and if the options are invalid.
pub fn open_with(directory: impl AsRef<Path>, options: Options, registry: Registry) -> Result<Store, OpenError> {
    let media = Arc::new(media::RealDisk::new(directory.as_ref()));
    Store::open(media, options, registry)
}

/// Copies a store to a directory that is empty, or is created, while transactions run: [`Store::backup`](txn::Store::backup).
/// With a [chain](backup_chain) of earlier backups in [`BackupOptions::since`](txn::BackupOptions::since), only what changed since is
/// copied.
///
/// # Errors
/// Those of [`Store::backup`](txn::Store::backup).
pub fn backup(
    store: &Store,
    directory: impl AsRef<Path>,
    options: txn::BackupOptions<'_>,
) -> Result<txn::BackupReport, Error> {
    let to: Arc<dyn media::Media> = Arc::new(media::RealDisk::new(directory.as_ref()));
    store.backup(&to, options)
}

/// Opens a full backup and its increments, in their order: [`BackupChain::open`](txn::BackupChain::open).
///
/// # Errors
/// Those of [`BackupChain::open`](txn::BackupChain::open).
pub fn backup_chain(backups: &[impl AsRef<Path>]) -> Result<txn::BackupChain, Error> {
    encrypted_chain(backups, None)
}

/// Opens a full backup and its increments as [`backup_chain`] does, with their keys if they are encrypted.
///
/// # Errors
/// Those of [`backup_chain`]; [`Error::Log`] with a [`KeyError`](media::KeyError).
pub fn encrypted_chain(
    backups: &[impl AsRef<Path>],
    keys: Option<&media::Encryption>,
) -> Result<txn::BackupChain, Error> {
    let (full, increments) = disks(backups)?;
    let increments = increments.iter().map(|disk| decrypted(disk, keys)).collect::<Result<Vec<_>, _>>()?;
    txn::BackupChain::open(&decrypted(&full, keys)?, &increments)
}

fn decrypted(disk: &Disk, keys: Option<&media::Encryption>) -> Result<Disk, Error> {
    match keys {
        Some(keys) => Ok(keys.open(disk)?),
        None => Ok(Arc::clone(disk)),
    }
}

/// A directory.
type Disk = Arc<dyn media::Media>;

/// Returns the directories of a full backup and of its increments.
fn disks(backups: &[impl AsRef<Path>]) -> Result<(Disk, Vec<Disk>), Error> {
    let mut disks = backups.iter().map(|backup| disk(backup.as_ref()));
    let full = disks.next().ok_or(Error::Misuse("a chain of backups begins with a full one: name it"))?;
    Ok((full, disks.collect()))
}

fn disk(directory: &Path) -> Disk {
    Arc::new(media::RealDisk::new(directory))
}

/// Restores a full backup and its increments, in their order, as [`restore`] does a full backup.
///
/// # Errors
/// Those of [`BackupChain::open`](txn::BackupChain::open) and [`cedrat_txn::restore`].
pub fn restore_chain(
    backups: &[impl AsRef<Path>],
    archive: Option<&Path>,
    to: impl AsRef<Path>,
    target: txn::RestoreTarget,
) -> Result<txn::RestoreReport, Error> {
    let chain = backup_chain(backups)?;
    cedrat_txn::restore(chain.media(), archive.map(disk).as_ref(), &disk(to.as_ref()), target)
}

/// Restores backups, a full one and its increments in their order, as [`restore_chain`] does, if the keys of backups and archive,
/// or of the restored store, are not none: `from` opens the former, and the latter is encrypted with the newest key of `into`. It has a
/// new data key.
///
/// # Errors
/// Those of [`restore_chain`]; [`Error::Log`] with a [`KeyError`](media::KeyError): backups and archive have other keys than `from`.
pub fn restore_encrypted(
    backups: &[impl AsRef<Path>],
    archive: Option<&Path>,
    from: Option<&media::Encryption>,
    to: impl AsRef<Path>,
    into: Option<&media::Encryption>,
    target: txn::RestoreTarget,
) -> Result<txn::RestoreReport, Error> {
    let chain = encrypted_chain(backups, from)?;
    let archive = archive.map(|archive| decrypted(&disk(archive), from)).transpose()?;
    let to = disk(to.as_ref());
    let to = into.map_or_else(|| Ok(Arc::clone(&to)), |keys| keys.open_or_create(&to))?;
    cedrat_txn::restore(chain.media(), archive.as_ref(), &to, target)
}

/// Returns options with an [archive](Options::archive) in this directory, which is created if it is missing.
pub fn archived_in(directory: impl AsRef<Path>, options: Options) -> Options {
    Options { archive: Some(Arc::new(media::RealDisk::new(directory.as_ref()))), ..options }
}

/// Returns options with a [backup](Options::backup) from which damaged pages are rebuilt.
pub fn rebuilt_from(backup: impl AsRef<Path>, options: Options) -> Options {
    Options { backup: Some(Arc::new(media::RealDisk::new(backup.as_ref()))), ..options }
}

/// Lets the archive of an open store forget what restores of a backup, and of younger ones, do not need, and returns the first LSN that
/// it keeps: [`Store::forget_archive`](txn::Store::forget_archive).
///
/// # Errors
/// Those of [`Store::forget_archive`](txn::Store::forget_archive).
pub fn forget_before_backup(store: &Store, backup: impl AsRef<Path>) -> Result<wal::Lsn, Error> {
    let backup: Arc<dyn media::Media> = Arc::new(media::RealDisk::new(backup.as_ref()));
    store.forget_archive(txn::ForgetBefore::Backup(&backup))
}

/// Extends an archive by the log that a store still has which is not open, and may have lost its other files:
/// [`cedrat_txn::archive_remaining_log`].
///
/// # Errors
/// Those of [`cedrat_txn::archive_remaining_log`].
pub fn archive_remaining_log(store: impl AsRef<Path>, archive: impl AsRef<Path>) -> Result<txn::RemainingLog, Error> {
    cedrat_txn::archive_remaining_log(&disk(store.as_ref()), &disk(archive.as_ref()))
}

/// Restores a backup to a directory that is empty, or is created, with an archive if the target is later than the backup:
/// [`cedrat_txn::restore`].
///
/// # Errors
/// Those of [`cedrat_txn::restore`].
pub fn restore(
    backup: impl AsRef<Path>,
    archive: Option<&Path>,
    to: impl AsRef<Path>,
    target: txn::RestoreTarget,
) -> Result<txn::RestoreReport, Error> {
    cedrat_txn::restore(&disk(backup.as_ref()), archive.map(disk).as_ref(), &disk(to.as_ref()), target)
}

/// Opens a read-only view of a store, as it was at a point in time, from a backup and an archive, which are only read:
/// [`cedrat_txn::open_as_of`]. Returns the view, and the LSN up to which it has all that had committed. Its own files are written to
/// `scratch`, a directory that is empty or is created; delete it when the view is closed. The store itself may be open, in this process
/// or another one.
///
/// # Errors
/// Those of [`cedrat_txn::open_as_of`].
pub fn open_as_of(
    backup: impl AsRef<Path>,
    archive: Option<&Path>,
    moment: txn::RestoreTarget,
    scratch: impl AsRef<Path>,
) -> Result<(Store, wal::Lsn), OpenError> {
    open_as_of_with(backup, archive, moment, scratch, Options::default())
}

/// Opens a store as it was, as [`open_as_of`] does, with options: those of an encrypted store have its
/// [keys](Options::encryption).
///
/// # Errors
/// Those of [`cedrat_txn::open_as_of`].
pub fn open_as_of_with(
    backup: impl AsRef<Path>,
    archive: Option<&Path>,
    moment: txn::RestoreTarget,
    scratch: impl AsRef<Path>,
    options: Options,
) -> Result<(Store, wal::Lsn), OpenError> {
    let scratch: Arc<dyn media::Media> = Arc::new(media::RealDisk::buffered(scratch.as_ref()));
    let view = txn::View { backup: disk(backup.as_ref()), archive: archive.map(disk), moment, scratch };
    cedrat_txn::open_as_of(&view, options, registry())
}

/// Opens a reader of the store in a directory, which may be open in this process or another one: [`Reader::open`](txn::Reader::open)
/// with default options. Its private files are in the directory for temporary files.
///
/// # Errors
/// Those of [`Reader::open`](txn::Reader::open).
pub fn open_read_only(directory: impl AsRef<Path>) -> Result<txn::Reader, OpenError> {
    txn::Reader::open(reader_files(directory, std::env::temp_dir()), Options::default(), registry())
}

/// Returns the directories of a reader: that of the store, and new ones within `scratch` for its private files, which are deleted
/// when nothing uses them any more.
pub fn reader_files(directory: impl AsRef<Path>, scratch: impl AsRef<Path>) -> txn::ReaderFiles {
    let (directory, scratch) = (directory.as_ref().to_owned(), scratch.as_ref().to_owned());
    txn::ReaderFiles {
        store: Arc::new(move || Ok(disk(&directory))),
        scratch: Arc::new(move || Ok(Arc::new(TemporaryDisk::create(&scratch)?) as Disk)),
        copies_pages: false,
    }
}

/// Returns the files of a [replica](txn::Follower) in a directory, which may be missing: the file that marks it, and the directories
/// `base` and `archive`.
pub fn replica_in(directory: impl AsRef<Path>) -> txn::ReplicaFiles {
    let directory = directory.as_ref();
    let disk = |directory: &Path| -> Arc<dyn media::Media> { Arc::new(media::RealDisk::new(directory)) };
    let (base, archive) = (disk(&directory.join("base")), disk(&directory.join("archive")));
    txn::ReplicaFiles { home: disk(directory), base, archive }
}

/// Promotes the replica in a directory to a store in another one, which is empty or is created: [`cedrat_txn::promote`].
///
/// # Errors
/// Those of [`cedrat_txn::promote`].
pub fn promote(replica: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<txn::RestoreReport, Error> {
    let to: Arc<dyn media::Media> = Arc::new(media::RealDisk::new(to.as_ref()));
    cedrat_txn::promote(&replica_in(replica), &to)
}

/// Returns a registry of all operations of Cedrat, to which a program adds its own.
pub fn registry() -> Registry {
    Registry::new().with(cedrat_structures::register).with(cedrat_objects::register)
}

/// Programs in the documentation are compiled and run as tests.
#[cfg(doctest)]
mod documentation {
    #[doc = include_str!("../../../docs/use/first-steps.md")]
    struct FirstSteps;
    #[doc = include_str!("../../../docs/use/operations.md")]
    struct Operations;
    #[doc = include_str!("../../../docs/use/cookbook.md")]
    struct Cookbook;
    #[doc = include_str!("../../../docs/use/checking.md")]
    struct Checking;
    #[doc = include_str!("../../../docs/use/commit-modes.md")]
    struct CommitModes;
    #[doc = include_str!("../../../docs/use/locks.md")]
    struct Locks;
    #[doc = include_str!("../../../docs/use/backup.md")]
    struct Backup;
    #[doc = include_str!("../../../docs/use/readers.md")]
    struct Readers;
    #[doc = include_str!("../../../docs/use/encryption.md")]
    struct Encryption;
    #[doc = include_str!("../../../docs/use/changes.md")]
    struct Changes;
    #[cfg(feature = "metrics")]
    #[doc = include_str!("../../../docs/use/monitoring.md")]
    struct Monitoring;
    #[doc = include_str!("../../../docs/use/requests.md")]
    struct Requests;
    #[doc = include_str!("../../../docs/use/two-phase.md")]
    struct TwoPhase;
    #[doc = include_str!("../../../docs/use/heaps.md")]
    struct Heaps;
    #[doc = include_str!("../../../docs/use/objects-cache.md")]
    struct ObjectsCache;
    #[doc = include_str!("../../../docs/use/graph.md")]
    struct Graph;
}
